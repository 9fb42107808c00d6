//! Values that are checked once, at the door; kernels take these types and cannot fail.

use crate::error::Error;

/// Exponents for which `k · 2^e` and its reciprocal are far from overflow and underflow for every `|k| < 2^62`.
const GRID_EXPONENTS: core::ops::RangeInclusive<i32> = -900..=900;

/// Returns `value` if it is finite and positive.
///
/// # Errors
/// Otherwise, naming `name`.
pub fn positive(name: &'static str, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(Error::parameter(name, value, "finite and > 0")) }
}

/// A grid width: a power of two `2^e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granularity {
    exponent: i32,
}

impl Granularity {
    /// Returns the grid of width `2^exponent`.
    ///
    /// # Errors
    /// If the width, or products with it, could leave the range of `f64`.
    pub fn from_exponent(exponent: i32) -> Result<Self, Error> {
        if GRID_EXPONENTS.contains(&exponent) {
            Ok(Self { exponent })
        } else {
            let accepted = format!("a power of two from 2^{} to 2^{}", GRID_EXPONENTS.start(), GRID_EXPONENTS.end());
            Err(Error::parameter("granularity", exp2(exponent.clamp(-1074, 1023)), accepted))
        }
    }

    /// Returns the grid of width `value`.
    ///
    /// # Errors
    /// If `value` is not a power of two in range.
    pub fn new(value: f64) -> Result<Self, Error> {
        let exponent = floor_log2(value);
        if value > 0.0 && value.is_finite() && exponent > -1022 && exp2(exponent) == value {
            return Self::from_exponent(exponent);
        }
        let accepted = format!("a power of two from 2^{} to 2^{}", GRID_EXPONENTS.start(), GRID_EXPONENTS.end());
        Err(Error::parameter("granularity", value, accepted))
    }

    /// The exponent `e` of `g = 2^e`.
    #[must_use]
    pub const fn exponent(self) -> i32 {
        self.exponent
    }

    /// The width `g`.
    #[must_use]
    pub fn width(self) -> f64 {
        exp2(self.exponent)
    }

    /// The reciprocal `1/g`, exact.
    #[must_use]
    pub fn reciprocal(self) -> f64 {
        exp2(-self.exponent)
    }
}

/// Returns `2^exponent` for a normal exponent (subnormal ones down to −1074 too).
#[must_use]
pub fn exp2(exponent: i32) -> f64 {
    debug_assert!((-1074..=1023).contains(&exponent), "2^{exponent} is not a finite f64");
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        f64::from_bits(1 << (exponent + 1074))
    }
}

/// Returns `⌊log₂ value⌋` for a positive finite value, exact; subnormals included.
#[must_use]
pub fn floor_log2(value: f64) -> i32 {
    let bits = value.to_bits() & (u64::MAX >> 1);
    let exponent = (bits >> 52) as i32;
    if exponent == 0 { -1011 - bits.leading_zeros() as i32 } else { exponent - 1023 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_log2_is_exact_at_the_edges() {
        for (value, expected) in [
            (1.0, 0),
            (0.99, -1),
            (2.0, 1),
            (f64::MIN_POSITIVE, -1022),
            (5e-324, -1074),
            (1e-323, -1073),
            (f64::MAX, 1023),
        ] {
            assert_eq!(expected, floor_log2(value), "{value:e}");
        }
    }

    #[test]
    fn granularities_are_powers_of_two() {
        assert_eq!(-3, Granularity::new(0.125).expect("a power of two").exponent());
        for bad in [0.0, -1.0, 0.3, f64::NAN, f64::INFINITY, 5e-324, f64::MAX] {
            assert!(Granularity::new(bad).is_err(), "{bad:e}");
        }
    }

    #[test]
    fn width_times_reciprocal_is_one() {
        for exponent in [-900, -30, 0, 77, 900] {
            let g = Granularity::from_exponent(exponent).expect("in range");

            assert_eq!(1.0, g.width() * g.reciprocal());
        }
    }

    #[test]
    fn only_finite_positive_values_pass() {
        for bad in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(positive("clip_norm", bad).is_err());
        }
        assert_eq!(Ok(1.5), positive("clip_norm", 1.5));
    }
}
