//! `eˣ` and `eˣ − 1 − x` from one argument reduction.
//!
//! `x = n·ln 2 + f` with `|f| ≤ 0.3467`, `eˣ = 2ⁿ·(1 + f + f²·R(f))`, `R(f) = Σ fʲ/(j + 2)!`, cut after `j = 11`.
//!
//! # Numerics
//! In units of `u = 2⁻⁵³`:
//! * `n·LN_2_HIGH` is exact for `|n| < 2²⁰` (33 bits), and so is its difference from `x`: the two are within a factor of two
//!   of each other, or `n = 0` (Sterbenz). `LN_2_LOW` and its product add less than 10⁻²² for `|n| ≤ 1100`. So `f` is exact
//!   for `n = 0` and else within `0.35u + 10⁻²²` of `x − n·ln 2`.
//! * `R` lies in [0.44, 0.58]. Terms that are cut off: `2·0.3467¹²/14! < 0.7u`. Horner: a step adds at most `2u` of what it
//!   holds, and what it holds is multiplied by `|f|` in the next: below `2u·0.58/(1 − 0.35)`. Together below `4.5u·R`… of
//!   which `5u` is stated.
//! * Exponential: `f²R ≤ 0.07` within `7u` of itself, `1 + f` within `u`, `f` itself within `0.35u`, the sum within `u`, in
//!   units of a value ≥ 0.7: below `4u`. [`EXPONENTIAL_ERROR`] states `8u`.
//! * `φ(x) = eˣ − 1 − x = 2ⁿ·f²R + ((2ⁿ − 1) + (2ⁿ·f − x))`. For `n = 0` the second part is exactly zero: `7u` of `φ`. For
//!   `n ≠ 0`, `φ(x) ≥ 0.0537`, and the absolute error is at most `2ⁿ·(0.07·7 + 0.36)u` for the first part and `f`, and
//!   `3u·(|2ⁿ − 1| + |2ⁿ·f − x|)` for three roundings of the second. Relative to `φ` that is largest at the ends of `n = 0`:
//!   `(1.7 + 3·(1 + 1.04))u/0.0676 < 118u` on the right, `(0.43 + 3·(0.5 + 0.52))u/0.0537 < 66u` on the left, and falls
//!   below `8u` far out. [`CENTERED_ERROR`] states `128u`.

use crate::functions::UNIT;

/// Bound on the relative error of [`Split::exponential`].
pub const EXPONENTIAL_ERROR: f64 = 8.0 * UNIT;

/// Bound on the relative error of [`Split::centered`].
pub const CENTERED_ERROR: f64 = 128.0 * UNIT;

/// Arguments below this are raised to it: `e⁻⁷⁰⁰ > 0` stands in for what is smaller, an upper bound.
pub const MIN_ARGUMENT: f64 = -700.0;

/// 1.5·2⁵²: beside it there is no room for a fraction, and the integer appears in the low bits.
const ROUNDING_SHIFT: f64 = 6_755_399_441_055_744.0;
const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);

/// `1/(j + 2)!`, last first.
const TAYLOR_COEFFICIENTS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];

/// An argument between [`MIN_ARGUMENT`] and 709, reduced.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    scale: f64,
    f: f64,
    square: f64,
}

impl Split {
    /// Returns `x`, raised to [`MIN_ARGUMENT`] if it is below, reduced.
    #[inline(always)]
    #[must_use]
    pub fn new(x: f64) -> Self {
        let x = if x > MIN_ARGUMENT { x } else { MIN_ARGUMENT };
        let shifted = x * core::f64::consts::LOG2_E + ROUNDING_SHIFT;
        let n = shifted - ROUNDING_SHIFT;
        let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        let f = (x - n * LN_2_HIGH) - n * LN_2_LOW;
        let mut r = TAYLOR_COEFFICIENTS[0];
        for coefficient in &TAYLOR_COEFFICIENTS[1..] {
            r = r * f + coefficient;
        }
        Self { scale, f, square: scale * (f * f * r) }
    }

    /// Returns `eˣ`.
    #[inline(always)]
    #[must_use]
    pub fn exponential(self) -> f64 {
        self.square + (self.scale + self.scale * self.f)
    }

    /// Returns `eˣ − 1 − x`, told `x` once more: it may be below [`MIN_ARGUMENT`].
    #[inline(always)]
    #[must_use]
    pub fn centered(self, x: f64) -> f64 {
        self.square + ((self.scale - 1.0) + (self.scale * self.f - x))
    }
}

/// Returns `φ(x) = eˣ − 1 − x ≥ 0` for `x ≤ 709`, within [`CENTERED_ERROR`] of itself.
#[must_use]
pub fn centered_exponential(x: f64) -> f64 {
    Split::new(x).centered(x)
}
