//! The scale of a discrete law, as the ratio of integers that it is.

use crate::error::Error;
use crate::math::interval::Interval;
use crate::math::natural::Natural;

/// The smallest and the largest scale. Below, every sample is 0 for all practical purposes; above, samples could leave `i64`.
pub const SCALE_RANGE: core::ops::RangeInclusive<f64> = 0.01..=144_115_188_075_855_872.0; // 2⁵⁷

/// Which discrete law, up to its scale: the weight of the integer `x` is `exp(−exponent(x))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// Discrete Gaussian: the exponent is `x²/2σ²`.
    Gaussian,
    /// Discrete Laplace (two-sided geometric): the exponent is `|x|/b`.
    Laplace,
}

/// A positive rational scale, in lowest terms or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    numerator: u64,
    denominator: u64,
}

impl Scale {
    /// Returns `numerator / denominator`.
    ///
    /// # Errors
    /// If it lies outside [`SCALE_RANGE`].
    pub fn from_ratio(numerator: u64, denominator: u64) -> Result<Self, Error> {
        let scale = Self { numerator, denominator };
        let value = scale.approximate();
        if denominator == 0 || !SCALE_RANGE.contains(&value) {
            return Err(Error::parameter("scale", value, "from 0.01 to 2^57"));
        }
        Ok(scale)
    }

    /// Returns exactly the number that a float denotes.
    ///
    /// # Errors
    /// If it lies outside [`SCALE_RANGE`].
    pub fn from_float(value: f64) -> Result<Self, Error> {
        if !SCALE_RANGE.contains(&value) {
            return Err(Error::parameter("scale", value, "from 0.01 to 2^57"));
        }
        let bits = value.to_bits();
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        let exponent = ((bits >> 52) & 0x7ff) as i32 - 1075; // from −59 to 5
        let scale = if exponent >= 0 {
            Self { numerator: mantissa << exponent, denominator: 1 }
        } else {
            let trailing = mantissa.trailing_zeros().min(exponent.unsigned_abs());
            Self { numerator: mantissa >> trailing, denominator: 1 << (exponent.unsigned_abs() - trailing) }
        };
        Ok(scale)
    }

    /// Returns about the scale: within 2 roundings.
    #[must_use]
    pub fn approximate(&self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Returns the factor that [`rough_exponent`] needs.
    pub(super) fn rate(&self, law: Law) -> f64 {
        // mutant: integer-scale-1-percent-too-large
        let inverse = self.denominator as f64 / self.numerator as f64;
        match law {
            Law::Gaussian => 0.5 * (inverse * inverse),
            Law::Laplace => inverse,
        }
    }

    /// Returns an interval that holds the exponent of `x`.
    pub(super) fn exponent(&self, law: Law, x: u128, precision: u32) -> Interval {
        let (base, divisions, halvings) = match law {
            // mutant: gaussian-exponent-not-halved
            Law::Gaussian => (Natural::new(x).mul(&Natural::new(u128::from(self.denominator))), 2, 1),
            Law::Laplace => (Natural::new(x).mul(&Natural::new(u128::from(self.denominator))), 1, 0),
        };
        let mut low = if divisions == 2 { base.mul(&base) } else { base }.shl(precision);
        // ⌊⌊A/n⌋/n⌋ = ⌊A/n²⌋: the exact quotient is in [low, low + 1).
        for _ in 0..divisions {
            low = low.div(self.numerator).0;
        }
        let low = low.shr(halvings);
        let high = low.add(&Natural::new(1));
        Interval::new(low, high, precision)
    }
}

/// Returns about the exponent of `x`, from the law's rate.
///
/// # Numerics
/// With u = 2⁻⁵³: two conversions and a division make 3u, the square doubles that and rounds: the rate is within 7u, or 3u
/// for Laplace. `x` converts within u, its square is within 3u, the product rounds: at most 11u in all, relatively.
#[inline(always)]
pub(super) fn rough_exponent(law: Law, rate: f64, x: f64) -> f64 {
    match law {
        Law::Gaussian => (x * x) * rate,
        Law::Laplace => x * rate,
    }
}

/// Bound on the relative error of [`rough_exponent`].
pub(super) const EXPONENT_ERROR: f64 = 12.0 / (1_u64 << 53) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_taken_exactly() {
        for value in [0.01, 0.1, 0.5, 1.0, 1.5, 3.7, 1e3 + 0.25, 1e9, 2_f64.powi(57), 2_f64.powi(57).next_down()] {
            let scale = Scale::from_float(value).expect("in range");

            // both are exact in i128: value · denominator = numerator
            let (whole, bits) = (value.trunc() as u128, (value.fract() * 2_f64.powi(60)) as u128);
            let product = whole * u128::from(scale.denominator) * (1 << 60) / (1 << 60);
            let fraction = bits * u128::from(scale.denominator);
            assert_eq!(u128::from(scale.numerator) << 60, (product << 60) + fraction, "{value}");
        }
    }

    #[test]
    fn scales_out_of_range_are_refused() {
        for value in [0.0, 0.009_99, -1.0, f64::NAN, f64::INFINITY, 2e17] {
            assert!(Scale::from_float(value).is_err(), "{value}");
        }
        assert!(Scale::from_ratio(1, 0).is_err());
        assert!(Scale::from_ratio(0, 1).is_err());
        assert!(Scale::from_ratio(1, 101).is_err());
        assert!(Scale::from_ratio(u64::MAX, 3).is_err());
    }

    #[test]
    fn exponents_hold_the_exact_ratio() {
        let scale = Scale::from_ratio(7, 3).expect("in range");

        // 5²·3²/(2·7²) = 225/98
        let t = scale.exponent(Law::Gaussian, 5, 64);
        let exact = Interval::integer(225, 64).div(98);
        assert!(!t.is_below(&exact) && !exact.is_below(&t));
        let rough = rough_exponent(Law::Gaussian, scale.rate(Law::Gaussian), 5.0);
        assert!((rough - 225.0 / 98.0).abs() <= EXPONENT_ERROR * 3.0);
    }
}
