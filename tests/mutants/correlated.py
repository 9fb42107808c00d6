"""Defects of correlated noise and of counters that must not pass, as fields of `mutants.Mutant`, and their killers."""

KILLERS = {
    "correlated equations": "cargo test -p ferrodp-core --test correlated -- equations",
    "correlated halves": "cargo test -p ferrodp-core --test correlated -- half_integers",
    "normal digits": "cargo test -p ferrodp-core --lib -- sample::standard",
    "few bits": "cargo test -p ferrodp-core --lib -- sample::decide",
    "correlated draws": "pytest tests/correlated/test_exact_draw.py -k 'child'",
}

MUTANTS = [
    (
        "correlated noise has the wrong sign",
        "correlated-noise-of-a-buffer",
        "-weights[i], kept",
        "weights[i], kept",
        "correlated equations",
    ),
    (
        "the first buffer of correlated noise is left out",
        "correlated-noise-of-a-buffer",
        "-weights[i], kept",
        "if i == 0 { 0.0 } else { -weights[i] }, kept",
        "correlated equations",
    ),
    (
        "all steps of correlated noise share a key",
        "steps-share-a-key",
        "isa, step, &mut bytes",
        "isa, step.min(0), &mut bytes",
        "correlated equations",
    ),
    (
        "floats decide sums of correlated noise that they cannot know",
        "margin-of-correlated-noise",
        "* 1.001",
        "* 0.0",
        "correlated halves",
    ),
    (
        "sums in 128 bits are one too large",
        "short-sums-taken-as-they-are",
        "then_some(low)",
        "then_some(low + 1)",
        "correlated halves",
    ),
    (
        "further digits of a normal variable are zeros",
        "further-digit-of-a-normal-variable",
        "known + 1) { middle }",
        "known + 1) { digits.shl(1) }",
        "normal digits",
    ),
    (
        "tails of proposed variables have no sign",
        "tails-of-proposed-variables",
        "chunk[place] = signed",
        "chunk[place] = size",
        "normal digits",
    ),
    (
        "proposed variables of later chunks are made of the first one's words",
        "words-of-proposed-variables",
        "first * 8 /",
        "start * 8 /",
        "normal digits",
    ),
    (
        "few leading bits decide a quantile as many do",
        "quantile-of-few-digits",
        "leading < 1 << 43",
        "leading < 1 << 20",
        "few bits",
    ),
    (
        "correlated noise serves a forked child as well",
        "correlated-noise-serves-forked-child-as-well",
        "self.generation == fork::generation()",
        "self.generation <= fork::generation()",
        "correlated draws",
    ),
]
