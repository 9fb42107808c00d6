//! Integers of any size, as they come from outside.

use super::natural::Natural;
use crate::params::exp2;

/// An integer.
#[derive(Clone, Debug, Default)]
pub struct Integer {
    pub(crate) negative: bool,
    pub(crate) magnitude: Natural,
}

impl Integer {
    /// Returns the integer with this sign and these bytes of its magnitude, the least significant first.
    #[must_use]
    pub fn from_le_bytes(negative: bool, bytes: &[u8]) -> Self {
        Self { negative, magnitude: Natural::from_le_bytes(bytes) }
    }

    /// Returns `self · 2^exponent` as a float, within 2⁻⁵² of itself, or at the end of the range of floats. Exact for
    /// magnitudes of 53 bits, in that range.
    pub(crate) fn approximate(&self, exponent: i32) -> f64 {
        let (lead, at) = self.magnitude.leading();
        let at = at + i64::from(exponent);
        let size = match i32::try_from(at) {
            _ if self.magnitude.is_zero() => 0.0,
            // Of the 64 digits of `lead` none is lost but by the one rounding to a float.
            Ok(at @ -1000..=960) => (lead as f64 * exp2(at)).min(f64::MAX),
            _ if at > 0 => f64::MAX,
            _ => 0.0,
        };
        if self.negative { -size } else { size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximations_are_those_of_floats() {
        for value in [0_u64, 1, 255, 256, (1 << 53) + 1, u64::MAX] {
            let integer = Integer::from_le_bytes(true, &value.to_le_bytes());

            assert!((integer.approximate(0) + value as f64).abs() <= value as f64 * exp2(-52));
            assert!((integer.approximate(-70) + value as f64 * exp2(-70)).abs() <= value as f64 * exp2(-122));
        }
        let huge = Integer::from_le_bytes(false, &[0xff; 128]);
        assert_eq!(f64::MAX, huge.approximate(0));
        assert_eq!(0.0, huge.approximate(-3000));
    }
}
