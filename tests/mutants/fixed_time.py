"""Defects of noise in fixed time that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

FIXED = "rust/ferrodp-core/src/discrete/fixed.rs"
THRESHOLDS = "rust/ferrodp-core/src/discrete/fixed/thresholds.rs"

KILLERS = {
    "fixed time": "cargo test -p ferrodp-core --lib -- discrete::fixed",
    "fixed time reference": "pytest tests/test_fixed_time_noise.py",
    "timing": "cargo test -p ferrodp-testkit --test timing",
    # Needs valgrind: without it nothing is asked, and its mutants survive.
    "secrets": "cargo test -p ferrodp-testkit --test secrets -- nothing_but_a_tie",
}

MUTANTS = [
    (
        "the search of a table ends where the noise is found",
        FIXED,
        "        count = u64::wrapping_add(count, 1 ^ is_below(digits, threshold));\n",
        "        if is_below(digits, threshold) == 1 {\n            break;\n        }\n        count += 1;\n",
        "timing",
    ),
    (
        "a count is checked for overflow",
        FIXED,
        "count = u64::wrapping_add(count, 1 ^ is_below(digits, threshold));",
        "count += 1 - is_below(digits, threshold);",
        "secrets",
    ),
    (
        "negative noise is negated in a branch",
        FIXED,
        "((magnitude ^ sign).wrapping_sub(sign), open != 0)",
        "(if sign == 0 { magnitude } else { -magnitude }, open != 0)",
        "secrets",
    ),
    (
        "a digit is looked up",
        FIXED,
        "number |= is_below(digits, threshold) << j;",
        "number |= [0, 1 << j, 2 << j][core::hint::black_box(is_below(digits, threshold)) as usize];",
        "secrets",
    ),
    (
        "comparisons look at half of their digits",
        FIXED,
        "let (_, low) = digits[1].overflowing_sub(threshold[1]);",
        "let (_, low) = digits[1].overflowing_sub(digits[1]);",
        "fixed time",
    ),
    (
        "ties are not seen",
        FIXED,
        "    ((difference | difference.wrapping_neg()) >> 63) ^ 1\n",
        "    ((difference | difference.wrapping_neg()) >> 63) & 0\n",
        "fixed time",
    ),
    (
        "half a tie is a tie",
        FIXED,
        "let difference = (digits[0] ^ threshold[0]) | (digits[1] ^ threshold[1]);",
        "let difference = (digits[0] ^ threshold[0]) & (digits[1] ^ threshold[1]);",
        "fixed time",
    ),
    (
        "the sign is a digit as well",
        FIXED,
        "let (magnitude, open) = rank(&self.thresholds, digits >> 1);",
        "let (magnitude, open) = rank(&self.thresholds, digits & (u128::MAX >> 1));",
        "fixed time reference",
    ),
    (
        "both geometric variables have the same digits",
        FIXED,
        "let (down, second) = digits_below(&self.thresholds, down);",
        "let (down, second) = digits_below(&self.thresholds, &blocks[..down.len()]);",
        "fixed time reference",
    ),
    (
        "further digits are those of the sample's first decision",
        FIXED,
        "|d, n| keystream.words(1 + n, decision + d)",
        "|d, n| keystream.words(1 + n, decision + d * 0)",
        "fixed time",
    ),
    (
        "further digits are the first ones again",
        FIXED,
        "|d, n| keystream.words(1 + n, decision + d)",
        "|d, n| keystream.words(n, decision + d)",
        "fixed time",
    ),
    (
        "samples of a later chunk have the digits of the first",
        FIXED,
        "let first = ((start + number * samples) * per_sample) as u64;",
        "let first = ((start + number * samples * 0) * per_sample) as u64;",
        "fixed time",
    ),
    (
        "what is beyond the digits is lost",
        FIXED,
        "digits.sum::<i128>() + (i128::from(beyond) << num_digits)",
        "digits.sum::<i128>() + (i128::from(beyond) << num_digits) * 0",
        "fixed time",
    ),
    (
        "the table ends early",
        THRESHOLDS,
        "            if threshold == (1 << GAUSSIAN_DIGITS) - 1 {\n",
        "            if threshold >= (1 << GAUSSIAN_DIGITS) - (1 << 60) {\n",
        "fixed time",
    ),
    (
        "zero is counted twice in fixed time",
        THRESHOLDS,
        "let sum = sums[sums.len() - 1].add(&weight.doubled());",
        "let sum = sums[sums.len() - 1].add(&weight.doubled()).add(&weight.doubled());",
        "fixed time",
    ),
]
