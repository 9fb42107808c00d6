"""Defects of coins and of noisy thresholds that must not pass, as fields of `mutants.Mutant`, and who notices."""

CORE = "rust/ferrodp-core/src/"
BERNOULLI = CORE + "bernoulli.rs"
THRESHOLD = CORE + "select/threshold.rs"
LAZY = CORE + "select/lazy.rs"

KILLERS = {
    "coins": "cargo test -p ferrodp-core --lib -- bernoulli",
    "thresholds": "cargo test -p ferrodp-core --lib -- select::threshold",
    "lazy": "cargo test -p ferrodp-core --lib -- select::lazy",
}

MUTANTS = [
    (
        "what 64 digits of a coin leave open is heads",
        BERNOULLI,
        "                heads = exactly(keystream, index, word, gamma);\n",
        "                heads = true;\n",
        "coins",
    ),
    (
        "neighboring coins share their further digits",
        BERNOULLI,
        "further: |n| keystream.words(1 + n, index)",
        "further: |n| keystream.words(1 + n, index & !1)",
        "coins",
    ),
    (
        "further digits of a coin are its first ones",
        BERNOULLI,
        "further: |n| keystream.words(1 + n, index)",
        "further: |n| keystream.words(n, index)",
        "coins",
    ),
    (
        "chunks of coins share their words",
        BERNOULLI,
        "keystream.fill(0, first / (BLOCK as u64 / 8), words);",
        "keystream.fill(0, first * 0 / (BLOCK as u64 / 8), words);",
        "coins",
    ),
    (
        "floats decide on coins without a margin",
        BERNOULLI,
        "let margin = threshold * (4.0 * exp::ERROR) + widening;",
        "let margin = threshold * (0.0 * exp::ERROR) + widening;",
        "coins",
    ),
    (
        "rare coins are tails",
        BERNOULLI,
        "return (word != 0).then_some(false); // e^−690 < 2⁻⁶⁴",
        "return Some(false);",
        "coins",
    ),
    (
        "floats decide on thresholds without a margin",
        THRESHOLD,
        "let slack = size * exp2(-48) + exp2(-1000) + widening;",
        "let slack = size * -exp2(-12) + exp2(-1000) + widening;",
        "thresholds",
    ),
    (
        "the noise of a threshold has another sign where floats decide",
        THRESHOLD,
        "bounds((own.0, !own.1), self.threshold_scale)",
        "bounds(own, self.threshold_scale)",
        "thresholds",
    ),
    (
        "queries have the noise of thresholds",
        THRESHOLD,
        "noise: Scaled::new(noise.uniform(), self.query_scale),",
        "noise: Scaled::new(noise.uniform(), self.threshold_scale),",
        "thresholds",
    ),
    (
        "sums of noises are cut at a half",
        THRESHOLD,
        "                (true, true) => return false,\n",
        "                (true, true) | (true, false) => return false,\n",
        "thresholds",
    ),
    (
        "bounds on a logarithm are not proven",
        LAZY,
        "let margin = guess * exp2(-40) + exp2(-40);\n    let (lower, upper) = (guess - margin, guess + margin);\n"
        "    let (least",
        "let margin = guess * exp2(-58) + exp2(-58);\n    let (lower, upper) = (guess - margin, guess + margin);\n"
        "    return Bounds { lower, upper };\n    #[allow(unreachable_code)]\n    let (least",
        "lazy",
    ),
]
