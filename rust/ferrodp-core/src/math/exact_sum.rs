//! Exact sums of magnitudes and squares: one integer wide enough for all of them.
//!
//! Where a floating-point sum is too close to its bound to decide, this one does. Every finite `|x|` and `x²` of an
//! `f64` is an integer multiple of 2⁻²¹⁴⁸ below 2²⁰⁴⁸, so a fixed array of limbs holds any sum of up to 2⁶⁴ of them.
//! Nothing is rounded, hence the order of additions cannot matter. It is some ten times slower than a vector sum and
//! runs on rows that lie within rounding error of the bound, which are few.

use core::cmp::Ordering;

/// The value of the lowest bit is `2^LOWEST_EXPONENT`: the square of the smallest subnormal number.
const LOWEST_EXPONENT: i32 = -2148;

/// 64-bit limbs: 2148 bits below the point, 2048 above, 64 for carries, and room to round up.
const SUM_LIMBS: usize = 67;

/// A sum of magnitudes or squares, exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactSum {
    /// Least significant first.
    limbs: [u64; SUM_LIMBS],
}

impl ExactSum {
    /// The empty sum.
    #[must_use]
    pub const fn new() -> Self {
        Self { limbs: [0; SUM_LIMBS] }
    }

    /// Adds `|x|`. A number that is not finite adds some finite number; callers have looked before.
    pub fn add_magnitude(&mut self, x: f64) {
        let (mantissa, exponent) = decompose(x);
        self.add(u128::from(mantissa), exponent);
    }

    /// Adds `x²`. A number that is not finite adds some finite number; callers have looked before.
    pub fn add_square(&mut self, x: f64) {
        let (mantissa, exponent) = decompose(x);
        self.add(u128::from(mantissa) * u128::from(mantissa), 2 * exponent);
    }

    /// Adds `value · 2^exponent`, for a value below 2¹⁰⁶ and an exponent from [`LOWEST_EXPONENT`] to 1944.
    fn add(&mut self, value: u128, exponent: i32) {
        if value == 0 {
            return;
        }
        let position = (exponent - LOWEST_EXPONENT) as usize;
        let (first, shift) = (position / 64, position % 64);
        // `value` has at most 106 bits and `shift` is at most 63, so three limbs hold the shifted value.
        let low = value << shift;
        let high = if shift == 0 { 0 } else { (value >> (128 - shift)) as u64 };
        let mut carry = false;
        for (i, part) in [low as u64, (low >> 64) as u64, high].into_iter().enumerate() {
            let limb = &mut self.limbs[first + i];
            (*limb, carry) = carrying_add(*limb, part, carry);
        }
        for limb in &mut self.limbs[first + 3..] {
            if !carry {
                break;
            }
            (*limb, carry) = carrying_add(*limb, 0, carry);
        }
    }
}

impl Default for ExactSum {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialOrd for ExactSum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ExactSum {
    fn cmp(&self, other: &Self) -> Ordering {
        self.limbs.iter().rev().cmp(other.limbs.iter().rev())
    }
}

/// Returns `(m, e)` with `|x| = m · 2^e`, `m` below 2⁵³ and `e` from −1074 to 972.
fn decompose(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) as i32 & 0x7FF {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    }
}

/// Returns the sum modulo 2⁶⁴ and whether it wrapped.
fn carrying_add(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(u64::from(carry));
    (sum, first | second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::new();
        for &value in values {
            sum.add_square(value);
        }
        sum
    }

    fn magnitudes(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::new();
        for &value in values {
            sum.add_magnitude(value);
        }
        sum
    }

    #[test]
    fn pythagoras_holds_to_the_last_bit() {
        assert_eq!(squares(&[5.0]), squares(&[3.0, 4.0]));
        assert_eq!(squares(&[-5e-320]), squares(&[3e-320, 4e-320])); // 10120, 6072 and 8096 times the smallest number
        assert_eq!(squares(&[2.0_f64.powi(1000)]), squares(&[2.0_f64.powi(999); 4]));
    }

    #[test]
    fn the_smallest_number_tips_the_largest() {
        let smallest = f64::from_bits(1);
        let largest = f64::MAX;

        assert!(squares(&[largest]) < squares(&[largest, smallest]));
        assert!(magnitudes(&[largest]) < magnitudes(&[largest, -smallest]));
        assert_eq!(squares(&[largest, 0.0]), squares(&[-largest, -0.0]));
    }

    #[test]
    fn carries_run_across_every_limb() {
        // 2^-1074 added to 2^1023 - 2^-1074, spelled as all powers between.
        let powers: Vec<f64> = (-1074..1023).map(crate::params::exp2).collect();
        let mut sum = magnitudes(&powers);
        sum.add_magnitude(crate::params::exp2(-1074));

        assert_eq!(magnitudes(&[crate::params::exp2(1023)]), sum);
    }

    #[test]
    fn many_of_the_largest_do_not_overflow() {
        let mut sum = squares(&[f64::MAX]);
        let one = sum.clone();
        for _ in 0..1000 {
            sum.add_square(f64::MAX);
        }

        assert!(sum > one);
        let top_bits = sum.limbs[SUM_LIMBS - 1];
        assert!(top_bits < 1 << 42, "1001 squares below 2^2048 stay below 2^2058, bit 4206 of 4288: {top_bits:b}");
    }

    #[test]
    fn comparison_agrees_with_integers() {
        // Small integers: their squares are exact in u128.
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> (34 + state % 20)
        };
        for _ in 0..1000 {
            let (a, b, c) = (draw(), draw(), draw());
            let integers = (u128::from(a).pow(2) + u128::from(b).pow(2)).cmp(&u128::from(c).pow(2));

            assert_eq!(integers, squares(&[a as f64, b as f64]).cmp(&squares(&[c as f64])), "{a}, {b}, {c}");
        }
    }
}
