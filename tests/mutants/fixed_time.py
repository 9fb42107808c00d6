"""Defects of noise in fixed time that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "fixed time": "cargo test -p ferrodp-core --lib -- discrete::fixed",
    "fixed time reference": "pytest tests/random/test_fixed_time_noise.py",
    "timing": "cargo test -p ferrodp-testkit --test timing",
    # Needs valgrind: without it nothing is asked, and its mutants survive.
    "secrets": "cargo test -p ferrodp-testkit --test secrets -- nothing_but_a_tie",
}

MUTANTS = [
    (
        "the search of a table ends where the noise is found",
        "count-of-thresholds",
        "count = u64::wrapping_add(count, 1 ^ is_below(digits, threshold))",
        "if is_below(digits, threshold) == 1 {\n            break;\n        }\n        count += 1",
        "timing",
    ),
    (
        "a count is checked for overflow",
        "count-of-thresholds",
        "= u64::wrapping_add(count, 1 ^ is_below(digits, threshold))",
        "+= 1 - is_below(digits, threshold)",
        "secrets",
    ),
    (
        "negative noise is negated in a branch",
        "negative-noise-negated-in-branch",
        "(magnitude ^ sign).wrapping_sub(sign)",
        "if sign == 0 { magnitude } else { -magnitude }",
        "secrets",
    ),
    (
        "a digit is looked up",
        "digit-looked-up",
        "is_below(digits, threshold) << j",
        "[0, 1 << j, 2 << j][core::hint::black_box(is_below(digits, threshold)) as usize]",
        "secrets",
    ),
    (
        "comparisons look at half of their digits",
        "comparisons-look-at-half-of-digits",
        "(threshold[1])",
        "(digits[1])",
        "fixed time",
    ),
    (
        "ties are not seen",
        "ties-not-seen",
        "((difference | difference.wrapping_neg()) >> 63) ^ 1",
        "((difference | difference.wrapping_neg()) >> 63) & 0",
        "fixed time",
    ),
    (
        "half a tie is a tie",
        "half-tie-tie",
        "(digits[0] ^ threshold[0]) |",
        "(digits[0] ^ threshold[0]) &",
        "fixed time",
    ),
    (
        "the sign is a digit as well",
        "sign-digit-as-well",
        "(&self.thresholds, digits >> 1)",
        "(&self.thresholds, digits & (u128::MAX >> 1))",
        "fixed time reference",
    ),
    (
        "both geometric variables have the same digits",
        "both-geometric-variables-same-digits",
        "(&self.thresholds, down)",
        "(&self.thresholds, &blocks[..down.len()])",
        "fixed time reference",
    ),
    (
        "further digits are those of the sample's first decision",
        "further-digits-of-a-decision",
        "(1 + n, decision + d)",
        "(1 + n, decision + d * 0)",
        "fixed time",
    ),
    (
        "further digits are the first ones again",
        "further-digits-of-a-decision",
        "(1 + n, decision + d)",
        "(n, decision + d)",
        "fixed time",
    ),
    (
        "samples of a later chunk have the digits of the first",
        "samples-of-later-chunk-digits-of-first",
        "(start + number * samples) *",
        "(start + number * samples * 0) *",
        "fixed time",
    ),
    (
        "what is beyond the digits is lost",
        "what-beyond-digits-lost",
        "(i128::from(beyond) << num_digits)",
        "(i128::from(beyond) << num_digits) * 0",
        "fixed time",
    ),
    (
        "the table ends early",
        "table-ends-early",
        "== (1 << GAUSSIAN_DIGITS) - 1",
        ">= (1 << GAUSSIAN_DIGITS) - (1 << 60)",
        "fixed time",
    ),
    (
        "zero is counted twice in fixed time",
        "zero-counted-twice-in-fixed-time",
        "(&weight.doubled());",
        "(&weight.doubled()).add(&weight.doubled());",
        "fixed time",
    ),
]
