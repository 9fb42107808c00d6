//! Fourth stage: is `z` above a threshold? In intervals of big integers, at whatever precision it takes.
//!
//! The threshold `t = (n + ½ − f)/s` is a ratio of integers. `z > t` means
//! - Laplace: `2p < e^−t`;
//! - Gaussian: `p < Φ̄(t)`, that is `½ − p > Φ(t) − ½ = φ(t)·S(t)` with `S(t) = Σₖ t^(2k+1)/(2k+1)!!` (Abramowitz & Stegun
//!   26.2.11), and, both sides being positive, `2π(½ − p)² > e^−t²·S(t)²`: no square root, no division.
//!
//! Precision and revealed bits double until the two intervals are disjoint. Equality would need all bits of `p` to be
//! those of one of countably many numbers, which has probability zero.

use core::cmp::Ordering;

use super::types::{Law, Lazy, Noise, Offset};
use crate::math::interval::Interval;
use crate::math::natural::Natural;

/// The real number that is added before rounding, of any size and precision: `± magnitude · 2^exponent`.
pub(super) struct Ratio {
    pub(super) negative: bool,
    pub(super) magnitude: Natural,
    pub(super) exponent: i32,
    /// About the same.
    pub(super) approximate: f64,
}

impl From<Offset> for Ratio {
    fn from(offset: Offset) -> Self {
        Self {
            negative: offset.mantissa < 0,
            magnitude: Natural::new(u128::from(offset.mantissa.unsigned_abs())),
            exponent: offset.exponent,
            approximate: offset.approximate,
        }
    }
}

/// The precision that is tried first.
const FIRST_NOISE_BITS: u32 = 256;

/// Returns how `z` compares with `t = (below + ½ − offset)/s`; never [`Ordering::Equal`].
pub(super) fn compare<F>(noise: &Noise, sample: &Lazy<F>, below: i128, offset: impl Into<Ratio>) -> Ordering
where
    F: Fn(u64) -> [u64; 2],
{
    compare_with(noise, sample, below, &offset.into())
}

fn compare_with<F: Fn(u64) -> [u64; 2]>(noise: &Noise, sample: &Lazy<F>, below: i128, offset: &Ratio) -> Ordering {
    let Some(threshold) = Threshold::new(noise, below, offset) else {
        return Ordering::Greater;
    };
    let mut precision = FIRST_NOISE_BITS;
    loop {
        let t = threshold.at(precision);
        let (digits, width) = sample.reveal(precision);
        // p at this precision: digits·2^−(width+1), unknown by one unit of the last digit.
        let cut = width + 1 - precision;
        let p = Interval::new(digits.shr(cut), digits.shr(cut).add(&Natural::new(1)), precision);
        let (above, left, right) = match noise.law {
            Law::Laplace => (Ordering::Greater, p.doubled(), t.exp_neg()),
            Law::Gaussian => {
                let rest = Interval::integer(1, precision).halved(1).sub(&p);
                let left = Interval::pi(precision).doubled().mul(&rest.mul(&rest));
                let series = odd_factorial_series(&t);
                (Ordering::Less, left, t.mul(&t).exp_neg().mul(&series.mul(&series)))
            }
        };
        if left.is_below(&right) {
            return above;
        }
        if right.is_below(&left) {
            return above.reverse();
        }
        precision *= 2;
    }
}

/// Returns `Σₖ t^(2k+1)/(2k+1)!!`. Once `t²` is below half the next odd number, each term is less than half the one
/// before it, and all that follow sum to at most the last one.
fn odd_factorial_series(t: &Interval) -> Interval {
    let square = t.mul(t);
    let (mut term, mut sum, mut odd) = (t.clone(), t.clone(), 1);
    while !(term.is_negligible() && square.doubled().is_below(&Interval::integer(odd, t.precision()))) {
        odd += 2;
        term = term.mul(&square).div(odd);
        sum = sum.add(&term);
    }
    sum.widened_by(&term)
}

/// Returns the integer nearest to `offset + s·z` by bisection, needing no idea of where `z` is.
///
/// This serves samples so far out that no table holds them; the guess only saves steps.
pub(super) fn search<F: Fn(u64) -> [u64; 2]>(noise: &Noise, sample: &Lazy<F>, offset: impl Into<Ratio>) -> i128 {
    let offset = offset.into();
    let is_above = |n: i128| compare_with(noise, sample, n, &offset) == Ordering::Greater;
    let guess = (noise.ratio * rough_quantile(noise.law, sample) + offset.approximate).round() as i128;
    // Invariant once both are found: the sum is above `low − ½` and below `high + ½`.
    let (mut low, mut high) = (guess, guess);
    let mut step = 1;
    while !is_above(low - 1) {
        high = low - 1;
        low -= step;
        step *= 2;
    }
    step = 1;
    while is_above(high) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_above(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns about `z`, from as many bits as it takes to see one.
fn rough_quantile<F: Fn(u64) -> [u64; 2]>(law: Law, sample: &Lazy<F>) -> f64 {
    let mut bits = FIRST_NOISE_BITS;
    let (digits, width) = loop {
        let revealed = sample.reveal(bits);
        if !revealed.0.is_zero() {
            break revealed;
        }
        bits *= 2;
    };
    let (lead, exponent) = digits.leading();
    // −ln 2p = −ln(lead·2^(exponent − width))
    let log = (f64::from(width) - exponent as f64) * core::f64::consts::LN_2 - (lead as f64).ln();
    match law {
        Law::Laplace => log,
        Law::Gaussian => {
            // Newton's method on −ln 2Φ̄(z), whose derivative is 1/M(z).
            let mut z = (2.0 * log).sqrt().max(0.1);
            for _ in 0..6 {
                let mills = mills_ratio(z);
                let value = 0.5 * z * z + (core::f64::consts::PI / 2.0).sqrt().ln() - mills.ln();
                z = (z - (value - log) * mills).max(0.01);
            }
            z
        }
    }
}

/// Returns about `Φ̄(z)/φ(z)` by its continued fraction (Abramowitz & Stegun 26.2.14).
fn mills_ratio(z: f64) -> f64 {
    1.0 / (1..100).rev().fold(z, |tail, k| z + f64::from(k) / tail)
}

/// A positive threshold, as a ratio of integers.
struct Threshold {
    /// `(n + ½ − f) · 2^bits`.
    numerator: Natural,
    bits: u32,
    /// `s = mantissa · 2^exponent`.
    mantissa: u64,
    exponent: i32,
}

impl Threshold {
    /// Returns the threshold, or `None` if it is not positive: then every `z` is above it.
    fn new(noise: &Noise, below: i128, offset: &Ratio) -> Option<Self> {
        let bits = offset.exponent.min(-1).unsigned_abs();
        // mutant: fourth-stage-off-by-one-threshold
        let twice = 2 * below + 1;
        let (half_positive, half) = (twice > 0, Natural::new(twice.unsigned_abs()).shl(bits - 1));
        let shift = (offset.exponent + bits.cast_signed()).unsigned_abs();
        let offset_size = offset.magnitude.shl(shift);
        let numerator = match (half_positive, offset.negative) {
            (true, true) => half.add(&offset_size),
            (true, false) => half.saturating_sub(&offset_size),
            (false, true) => offset_size.saturating_sub(&half),
            (false, false) => Natural::default(),
        };
        let ratio_bits = noise.ratio.to_bits();
        (!numerator.is_zero()).then_some(Self {
            numerator,
            bits,
            mantissa: (ratio_bits & ((1 << 52) - 1)) | (1 << 52),
            exponent: ((ratio_bits >> 52) & 0x7ff) as i32 - 1075,
        })
    }

    /// Returns an interval that holds it.
    fn at(&self, precision: u32) -> Interval {
        // numerator·2^−bits / (mantissa·2^exponent) · 2^precision
        let shift = precision.cast_signed() - self.bits.cast_signed() - self.exponent;
        let scaled = if shift >= 0 {
            self.numerator.shl(shift.unsigned_abs())
        } else {
            self.numerator.shr(shift.unsigned_abs())
        };
        let low = scaled.div(self.mantissa).0;
        let high = low.add(&Natural::new(2));
        Interval::new(low, high, precision)
    }
}
