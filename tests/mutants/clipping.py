"""Defects of clipping that must not pass, as fields of `mutants.Mutant`, and the commands that have to notice them."""

CLIP = "rust/ferrodp-core/src/clip/"

KILLERS = {
    "clip": "cargo test -p ferrodp-core --test clip",
    "clip units": "cargo test -p ferrodp-core --lib clip",
    "clipped rows": "pytest tests/test_clipping_rows.py",
    "clipped sums": "pytest tests/test_clipping_sums.py",
    "states": "pytest tests/test_clipping_state.py",
}

MUTANTS = [
    (
        "factors are not shrunk",
        CLIP + "error_budget.rs",
        "1.0 - 4.0 * self.0",
        "1.0",
        "clip",
    ),
    (
        "a row at the bound counts as longer",
        CLIP + "decide.rs",
        "self.exceeds(leaves) != Ordering::Greater",
        "self.exceeds(leaves) == Ordering::Less",
        "clip",
    ),
    (
        "rows within rounding error of the bound are kept",
        CLIP + "decide.rs",
        "self.exceeds(leaves) != Ordering::Greater",
        "self.exceeds(leaves) >= Ordering::Less",
        "clip",
    ),
    (
        "rounded to the nearest grid point, not toward zero",
        CLIP + "quantize.rs",
        "return v.trunc();",
        "return v.round_ties_even();",
        "clip",
    ),
    (
        "float rows are rounded to nearest",
        CLIP + "element.rs",
        "u32::from(f64::from(nearest).abs() > value.abs())",
        "0",
        "clip",
    ),
    (
        "the certificate is not looked at",
        CLIP + "quantize.rs",
        "self.products += fold_in_halves(*products);",
        "self.products += 0.0 * products[0];",
        "clip units",
    ),
    (
        "rows at the bound are certified by products alone",
        CLIP + "adding.rs",
        "&& certificate.integers <= self.clip.largest_sum_of_squares()",
        "",
        "clip units",
    ),
    (
        "a NaN hides behind a larger element",
        CLIP + "measure.rs",
        "if largest.is_nan() || !x.is_finite() { f64::NAN } else { largest.max(x) }",
        "largest.max(x)",
        "clip",
    ),
    (
        "squares that overflow are not formed again",
        CLIP + "decide.rs",
        "if T::SQUARES_FIT || self.power.trusted().contains(&total) {",
        "if T::SQUARES_FIT || total > 0.0 {",
        "clip",
    ),
    (
        "sums of magnitudes are trusted where only squares may be",
        CLIP + "decide.rs",
        "Self::First => 0.0..=3.273e150,",
        "Self::First => 0.0..=1.071e301,",
        "clip units",
    ),
    (
        "lanes of the last chunk are forgotten",
        CLIP + "measure.rs",
        "if i >= N - len { last[i] } else",
        "if i > N - len { last[i] } else",
        "clip units",
    ),
    (
        "a thread's rows are added twice",
        CLIP + "adding.rs",
        "self.add_tiles(*start..count.min(*start + share), part)",
        "self.add_tiles(*start..count.min(*start + share + 1), part)",
        "clip",
    ),
    (
        "merging forgets the count",
        CLIP + "grid_sum.rs",
        "self.count = self.count_with(other.count)?;",
        "self.count_with(other.count)?;",
        "clip",
    ),
    (
        "four times as many rows as fit",
        CLIP + "grid_sum.rs",
        "pub const MAX_COUNT: u64 = 1 << 32;",
        "pub const MAX_COUNT: u64 = 1 << 34;",
        "states",
    ),
    (
        "the standard deviation is rounded to nearest",
        CLIP + "release.rs",
        "if a.mul_add(b, -nearest) > 0.0 { nearest.next_up() } else { nearest }",
        "nearest",
        "clip units",
    ),
    (
        "an unusable sum is released",
        "rust/ferrodp-py/src/clip.rs",
        "if self.released {",
        "if self.released && false {",
        "clipped sums",
    ),
    (
        "rows beyond the bound lose the power of two",
        CLIP + "adding.rs",
        "Step::Add { scale, factor: factor * steps_per_unit }",
        "Step::Add { scale: 1.0, factor: factor * steps_per_unit }",
        "clip",
    ),
]
