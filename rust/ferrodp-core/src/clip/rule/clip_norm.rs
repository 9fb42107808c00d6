//! The norm that rows are clipped to, and the grid that follows from it.

use crate::clip::source::element::Element;
use crate::error::Error;
use crate::params::{Granularity, exp2, floor_log2, positive};

/// `g = 2^(⌊log₂ C⌋ − GRID_BITS)`, so that `2²⁹ ≤ C/g < 2³⁰`.
const GRID_BITS: i32 = 29;

/// A clip norm `C` with its grid `g`: `C·2⁻³⁰ < g ≤ C·2⁻²⁹`, fixed by `C` alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipNorm {
    value: f64,
    granularity: Granularity,
}

impl ClipNorm {
    /// Returns the clip norm `value` for rows of type `T`.
    ///
    /// # Errors
    /// If `value` is not finite and positive, or out of the range that [`Element::CLIP_EXPONENTS`] derives.
    pub fn new<T: Element>(value: f64) -> Result<Self, Error> {
        let exponent = exponent_for_rows::<T>("clip_norm", value)?;
        Ok(Self { value, granularity: Granularity::from_exponent(exponent - GRID_BITS)? })
    }

    /// The norm `C`.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.value
    }

    /// The grid `g`.
    #[must_use]
    pub const fn granularity(self) -> Granularity {
        self.granularity
    }

    /// `C/g`, exact: the largest norm of a row of integers.
    #[must_use]
    pub fn in_grid_steps(self) -> f64 {
        self.value * self.granularity.reciprocal()
    }

    /// `⌊(C/g)²⌋`, exact: the largest sum of squares of a row of integers, below 2⁶⁰.
    #[must_use]
    pub fn largest_sum_of_squares(self) -> u64 {
        // C/g = m · 2^(GRID_BITS − 52) with the 53-bit mantissa m.
        let mantissa = (self.in_grid_steps() * exp2(52 - GRID_BITS)) as u128;
        ((mantissa * mantissa) >> (2 * (52 - GRID_BITS))) as u64
    }
}

/// The constant `γ` of normalizing clipping, which maps a row `x` to `C·x / (‖x‖ + γ)` ([`GridSum::normalizing`]).
///
/// [`GridSum::normalizing`]: crate::clip::GridSum::normalizing
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stability(f64);

impl Stability {
    /// Returns the stability `value` for rows of type `T`, in their units.
    ///
    /// # Errors
    /// If `value` is not finite and positive, or out of the range of clip norms, [`Element::CLIP_EXPONENTS`].
    pub fn new<T: Element>(value: f64) -> Result<Self, Error> {
        exponent_for_rows::<T>("stability", value).map(|_| Self(value))
    }

    /// The constant `γ`.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

/// Returns `⌊log₂ value⌋`, if the value is in the range of clip norms for rows of type `T`.
fn exponent_for_rows<T: Element>(name: &'static str, value: f64) -> Result<i32, Error> {
    let exponent = floor_log2(positive(name, value)?);
    let (low, high) = (T::CLIP_EXPONENTS.start(), T::CLIP_EXPONENTS.end() + 1);
    if T::CLIP_EXPONENTS.contains(&exponent) {
        return Ok(exponent);
    }
    let accepted = format!("at least 2^{low} and below 2^{high} for {} rows", T::NAME);
    Err(Error::parameter(name, value, accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_between_2_to_29_and_2_to_30_steps() {
        for value in [1.0, 1.5, 2.0 - 1e-15, 0.1, 1e-30, 1e30, exp2(-120), exp2(127) * 1.99] {
            let clip = ClipNorm::new::<f32>(value).expect("in range");

            assert!(value * exp2(-30) < clip.granularity().width());
            assert!(clip.granularity().width() <= value * exp2(-29));
            assert_eq!(value, clip.in_grid_steps() * clip.granularity().width());
        }
    }

    #[test]
    fn the_largest_sum_of_squares_is_the_floor() {
        for (value, expected) in [(1.0, 1 << 58), (1.5, 9 << 56), (2.0_f64.sqrt(), (1 << 59) + 78)] {
            let clip = ClipNorm::new::<f64>(value).expect("in range");

            assert_eq!(expected, clip.largest_sum_of_squares(), "{value}"); // √2 is rounded up by 9.7e-17
        }
    }

    #[test]
    fn norms_out_of_range_are_refused_with_the_range() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::from_bits(1), 1e-40, 1e39] {
            assert!(ClipNorm::new::<f32>(bad).is_err(), "{bad:e}");
        }
        for bad in [1e-200, 1e200] {
            let message = ClipNorm::new::<f64>(bad).expect_err("out of range").to_string();

            assert!(message.starts_with("clip_norm must be at least 2^-500 and below 2^500 for float64 rows"));
        }
    }
}
