//! Exponential variables whose digits are revealed as they are needed, and rational numbers to compare them with.

use crate::math::exp::{self, exp_neg};
use crate::math::interval::Interval;
use crate::math::natural::Natural;
use crate::params::exp2;

/// The precision that exact comparisons try first.
const FIRST_COMPARED_BITS: u32 = 192;

/// A uniform number in (0, 1): 64 digits, and further ones on demand, 128 at a time.
pub(crate) struct Uniform<F> {
    pub(crate) word: u64,
    pub(crate) further: F,
}

impl<F: Fn(u64) -> [u64; 2]> Uniform<F> {
    /// Returns at least `bits` digits, and how many these are.
    fn revealed(&self, bits: u32) -> (Natural, u32) {
        let (mut digits, mut known, mut block) = (Natural::new(u128::from(self.word)), 64, 0);
        while known < bits {
            let [high, low] = (self.further)(block);
            digits = digits.shl(128).add(&Natural::new((u128::from(high) << 64) | u128::from(low)));
            known += 128;
            block += 1;
        }
        (digits, known)
    }

    /// Whether the exponential variable `E = −ln U` exceeds `y ≥ 0`, which `at(precision)` encloses: whether `U < e^−y`.
    ///
    /// `e^−y` is irrational for rational `y ≠ 0`, and for `y = x·e^−d` with rational `x, d ≠ 0`, but for countably many pairs:
    /// `U` equals it with probability zero. `y = 0` is answered at once.
    pub(crate) fn exponential_exceeds(&self, at: impl Fn(u32) -> Interval) -> bool {
        self.is_below(|precision| at(precision).exp_neg())
    }

    /// Whether `U` is below a threshold from 0 to 1, which `at(precision)` encloses. One that is exactly 0 or 1 is answered at once.
    pub(crate) fn is_below(&self, at: impl Fn(u32) -> Interval) -> bool {
        let mut precision = FIRST_COMPARED_BITS;
        loop {
            let threshold = at(precision);
            if threshold.is_zero() {
                return false;
            }
            let (least, most) = threshold.ends();
            if least == most && most.bits() == precision + 1 {
                return true;
            }
            let (digits, known) = self.revealed(precision);
            let low = digits.shr(known - precision);
            let uniform = Interval::new(low.clone(), low.add(&Natural::new(1)), precision);
            if uniform.is_below(&threshold) {
                return true;
            }
            if threshold.is_below(&uniform) {
                return false;
            }
            precision *= 2;
        }
    }
}

/// Returns bounds on `1 − e^−y` for `y ≥ 0`, infinite too: tight, relatively, where `y` is small.
///
/// `y − y²/2 ≤ 1 − e^−y ≤ y − y²/2 + y³/6`. From `2⁻¹³` on a difference from 1 is off by a relative 2⁻³⁹ at most.
pub(super) fn one_minus_exp(y: f64) -> Bounds {
    if y <= exp2(-13) {
        let two = y - 0.5 * y * y;
        return Bounds { lower: two * (1.0 - exp2(-48)), upper: (two + y * y * y / 6.0) * (1.0 + exp2(-48)) };
    }
    if y > 700.0 {
        return Bounds { lower: 1.0 - exp2(-50), upper: 1.0 };
    }
    let rest = exp_bounds(y);
    Bounds {
        lower: (1.0 - rest.upper).max(0.0) * (1.0 - exp2(-50)),
        upper: ((1.0 - rest.lower) * (1.0 + exp2(-50))).min(1.0),
    }
}

/// Bounds on a real number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// Returns bounds on `−ln U` for `U` in `[word, word + 1)·2⁻⁶⁴`.
///
/// A logarithm proposes; what is returned was compared with the exponential whose error is proven, or is far outside.
pub(crate) fn minus_log(word: u64) -> Bounds {
    let uniform = (word as f64 + 0.5) * exp2(-64);
    let guess = -uniform.ln();
    // Between the two: the unknown digits (2⁻⁶⁴/U), the conversion, and whatever the logarithm is off.
    // mutant: bounds-on-logarithm-not-proven
    let margin = guess * exp2(-40) + exp2(-40);
    let (lower, upper) = (guess - margin, guess + margin);
    let (least, most) =
        (word as f64 * exp2(-64) * (1.0 - exp2(-50)), (word as f64 + 1.0) * exp2(-64) * (1.0 + exp2(-50)));
    let proven_lower = lower > 0.0 && exp_bounds(lower).lower > most;
    let proven_upper = upper < exp::MAX_EXP_ARGUMENT && exp_bounds(upper).upper < least;
    Bounds { lower: if proven_lower { lower } else { 0.0 }, upper: if proven_upper { upper } else { f64::INFINITY } }
}

/// Returns bounds on `e^−y` for `0 ≤ y ≤ 1000`.
fn exp_bounds(y: f64) -> Bounds {
    let (m, k) = exp_neg(y);
    let value = m * exp2(-k.min(1022));
    Bounds { lower: value * (1.0 - 2.0 * exp::EXP_ERROR), upper: value * (1.0 + 2.0 * exp::EXP_ERROR) }
}

/// Returns bounds on `−ln x` for a float `x ≥ 0`: a logarithm proposes, the exponential proves.
pub(super) fn minus_ln(x: f64) -> Bounds {
    if x == 0.0 || x.is_infinite() {
        let limit = if x == 0.0 { f64::INFINITY } else { f64::NEG_INFINITY };
        return Bounds { lower: limit, upper: limit };
    }
    let guess = -x.ln();
    let margin = guess.abs() * exp2(-40) + exp2(-40);
    // y ≤ −ln x means e^−y ≥ x for y ≥ 0, and e^−|y| ≤ 1/x for y < 0.
    let is_below =
        |y: f64| if y >= 0.0 { exp_bounds(y).lower >= x } else { exp_bounds(-y).upper * x <= 1.0 - exp2(-50) };
    let is_above =
        |y: f64| if y >= 0.0 { exp_bounds(y).upper <= x } else { exp_bounds(-y).lower * x >= 1.0 + exp2(-50) };
    let (lower, upper) = (guess - margin, guess + margin);
    Bounds {
        lower: if is_below(lower) { lower } else { f64::NEG_INFINITY },
        upper: if is_above(upper) { upper } else { f64::INFINITY },
    }
}

/// Returns bounds on `−ln(1 − V)` for `V` in `[word, word + 1)·2⁻⁶⁴`: tight, relatively, where `V` is small.
///
/// For `V ≤ 2⁻¹³`, `V + V²/2 ≤ −ln(1 − V) ≤ V + V²/2 + V³/2`, as the rest of the series is `V³/3·(1 + 3V/4 + …)`.
pub(super) fn minus_log_complement(word: u64) -> Bounds {
    if word >= 1 << 51 {
        return minus_log(!word);
    }
    let (v, next) = (word as f64 * exp2(-64), (word as f64 + 1.0) * exp2(-64));
    Bounds {
        lower: (v + 0.5 * v * v) * (1.0 - exp2(-48)),
        upper: (next + 0.5 * next * next + 0.5 * next * next * next) * (1.0 + exp2(-48)),
    }
}

/// A rational number ≥ 0 of the form `numerator · 2^exponent / denominator`.
pub(crate) struct Rational {
    pub(crate) numerator: Natural,
    pub(crate) denominator: u64,
    pub(crate) exponent: i32,
}

impl Rational {
    /// Returns an interval that holds it.
    pub(crate) fn at(&self, precision: u32) -> Interval {
        if self.numerator.is_zero() {
            return Interval::integer(0, precision);
        }
        let shift = precision.cast_signed() + self.exponent;
        let scaled = if shift >= 0 {
            self.numerator.shl(shift.unsigned_abs())
        } else {
            self.numerator.shr(shift.unsigned_abs())
        };
        let low = scaled.div(self.denominator).0;
        // ⌊⌊A⌋/d⌋ ≤ A/d < ⌊⌊A⌋/d⌋ + 2
        let high = low.add(&Natural::new(2));
        Interval::new(low, high, precision)
    }
}

/// Returns a float ≥ 0 as an exact fraction: mantissa and exponent.
pub(crate) fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let biased = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds are compared with the exact comparison at their own ends, for words of every size.
    #[test]
    fn bounds_on_exponential_variables_hold() {
        let mut words: Vec<u64> =
            (0..64).flat_map(|k| [1 << k, (1 << k) - 1, u64::MAX >> k, !(u64::MAX >> k)]).collect();
        words.extend((1..500_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for word in words {
            for (bounds, low, high) in [
                (minus_log(word), Natural::new(u128::from(word)), Natural::new(u128::from(word) + 1)),
                (
                    minus_log_complement(word),
                    Natural::new((1 << 64) - u128::from(word) - 1),
                    Natural::new((1 << 64) - u128::from(word)),
                ),
            ] {
                // U ∈ [low, high)·2⁻⁶⁴ must lie in [e^−upper, e^−lower]
                let exact = |end: f64| {
                    let (mantissa, exponent) = split(end);
                    Rational { numerator: Natural::new(u128::from(mantissa)), denominator: 1, exponent }
                        .at(1400)
                        .exp_neg()
                };
                let point = |n: &Natural| Interval::new(n.shl(1400 - 64), n.shl(1400 - 64), 1400);
                assert!(!exact(bounds.lower).is_below(&point(&high)), "{word:x}: lower {}", bounds.lower);
                if bounds.upper.is_finite() {
                    assert!(!point(&low).is_below(&exact(bounds.upper)), "{word:x}: upper {}", bounds.upper);
                    assert!(
                        bounds.upper - bounds.lower < 1e-6 * bounds.upper + 1e-9 || !(4..=u64::MAX - 4).contains(&word)
                    );
                }
            }
        }
    }
}
