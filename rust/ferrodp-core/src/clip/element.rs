//! The two types that rows may have.

use core::ops::RangeInclusive;

/// An element of a row: `f32` or `f64`.
pub trait Element: Copy + Default + Send + Sync + sealed::Sealed + 'static {
    /// What Python calls it.
    const NAME: &'static str;

    /// The accepted `⌊log₂ clip_norm⌋`.
    ///
    /// `f32`: the grid `2^(E − 29)` is at least the smallest subnormal number, and the norm at most the largest finite
    /// one. `f64`: the square of the norm stays a normal number with room for the error analysis.
    const CLIP_EXPONENTS: RangeInclusive<i32>;

    /// Whether the square of every finite element is exact in `f64`, and sums of squares stay in its normal range.
    const SQUARES_FIT: bool;

    /// Returns the same number as an `f64`.
    fn widen(self) -> f64;

    /// Returns the number of this type next to `value` on the side of zero.
    fn narrow(value: f64) -> Self;

    /// Returns the number of this type nearest to `value`; the largest finite one where it lies beyond. A zero is positive.
    fn nearest(value: f64) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl Element for f32 {
    const NAME: &'static str = "float32";
    const CLIP_EXPONENTS: RangeInclusive<i32> = -120..=127;
    const SQUARES_FIT: bool = true;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        let nearest = value as Self;
        // A magnitude that was rounded up is not zero, so one step down in its bits is one step toward zero.
        // mutant: float-rows-rounded-to-nearest
        let up = u32::from(f64::from(nearest).abs() > value.abs());
        Self::from_bits(nearest.to_bits().wrapping_sub(up))
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        (value as Self).clamp(Self::MIN, Self::MAX) + 0.0
    }
}

impl Element for f64 {
    const NAME: &'static str = "float64";
    const CLIP_EXPONENTS: RangeInclusive<i32> = -500..=499;
    const SQUARES_FIT: bool = false;

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value.clamp(Self::MIN, Self::MAX) + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_goes_toward_zero_and_no_further_than_the_next_number() {
        let tiny = f64::from(f32::from_bits(1));
        for value in [0.0, 1.0, 0.1, 1.0 + 1e-9, 1.0 - 1e-9, tiny, 1.9 * tiny, 0.9 * tiny, 3.4e38, 3.4028235e38, 1e-45]
        {
            for value in [value, -value] {
                let narrowed = f32::narrow(value);
                let next = f32::from_bits(narrowed.to_bits() + 1); // one step away from zero

                assert!(f64::from(narrowed).abs() <= value.abs(), "{value:e}");
                assert!(f64::from(next).abs() > value.abs(), "{value:e}");
                assert_eq!(value.is_sign_negative(), narrowed.is_sign_negative());
            }
        }
    }
}
