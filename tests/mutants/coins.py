"""Defects of coins and of noisy thresholds that must not pass, as fields of `mutants.Mutant`, and who notices."""

KILLERS = {
    "coins": "cargo test -p ferrodp-core --lib -- bernoulli",
    "thresholds": "cargo test -p ferrodp-core --lib -- select::threshold",
    "lazy": "cargo test -p ferrodp-core --lib -- select::lazy",
}

MUTANTS = [
    (
        "what 64 digits of a coin leave open is heads",
        "what-64-digits-of-coin-leave-open-heads",
        "exactly(keystream, index, word, gamma)",
        "true",
        "coins",
    ),
    (
        "neighboring coins share their further digits",
        "further-digits-of-coins",
        "(1 + n, index)",
        "(1 + n, index & !1)",
        "coins",
    ),
    (
        "further digits of a coin are its first ones",
        "further-digits-of-coins",
        "(1 + n, index)",
        "(n, index)",
        "coins",
    ),
    (
        "chunks of coins share their words",
        "chunks-of-coins-share-words",
        "/ (CIPHER_BLOCK as u64 / 8)",
        "* 0 / (CIPHER_BLOCK as u64 / 8)",
        "coins",
    ),
    (
        "floats decide on coins without a margin",
        "floats-decide-on-coins-without-margin",
        "(4.0 * exp::EXP_ERROR)",
        "(0.0 * exp::EXP_ERROR)",
        "coins",
    ),
    (
        "rare coins are tails",
        "rare-coins-tails",
        "(word != 0).then_some(false); // e^−690 < 2⁻⁶⁴",
        "Some(false);",
        "coins",
    ),
    (
        "floats decide on thresholds without a margin",
        "floats-decide-on-thresholds-without-margin",
        "exp2(-48)",
        "-exp2(-12)",
        "thresholds",
    ),
    (
        "the noise of a threshold has another sign where floats decide",
        "noise-of-threshold-another-sign-where-floats",
        "(own.0, !own.1)",
        "own",
        "thresholds",
    ),
    (
        "queries have the noise of thresholds",
        "queries-noise-of-thresholds",
        "query_scale",
        "threshold_scale",
        "thresholds",
    ),
    (
        "sums of noises are cut at a half",
        "sums-of-noises-cut-at-half",
        "(true, true) =>",
        "(true, true) | (true, false) =>",
        "thresholds",
    ),
    (
        "bounds on a logarithm are not proven",
        "bounds-on-logarithm-not-proven",
        "40) + exp2(-40);\n    let (lower, upper) = (guess - margin, guess + margin);",
        "58) + exp2(-58);\n"
        "    let (lower, upper) = (guess - margin, guess + margin);\n"
        "    return Bounds { lower, upper };\n"
        "    #[allow(unreachable_code)]",
        "lazy",
    ),
]
