//! The types that rows may have: `f32` and `f64`, and the two of 16 bits, whose numbers are those of `f32`.

use core::ops::{RangeInclusive, Sub};

/// An element that kernels compute with: `f32` or `f64`.
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

    /// What its bytes mean.
    const FORM: Form;

    /// Returns the same number as an `f64`.
    fn widen(self) -> f64;
}

/// What the bytes of an element mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Binary16.
    Half,
    /// The upper half of binary32.
    Brain,
    /// Binary32.
    Single,
    /// Binary64.
    Double,
}

impl Form {
    /// Bytes of an element.
    pub(in crate::clip) const fn size(self) -> usize {
        match self {
            Self::Half | Self::Brain => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

/// An element that clipped rows have: `f32` or `f64`.
pub trait Float: Element + Sub<Output = Self> {
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

/// Returns the number that the bits of a binary16 denote, NumPy's `float16`.
///
/// In integers and two exact products, with no subnormal number on the way: those cost some CPUs a hundred cycles.
#[inline(always)]
pub(in crate::clip) fn half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, exponent, fraction) = ((bits & 0x8000) << 16, bits & 0x7c00, bits & 0x03ff);
    let small = (fraction as i32 as f32 * 5.960_464_5e-8).to_bits(); // 2^-24
    // 112 is the difference of the two biases; what is not finite has the largest exponent in either type.
    // mutant: infinite-halves-taken-for-numbers
    let bias = if exponent == 0x7c00 { 224 << 23 } else { 112 << 23 };
    let normal = ((bits & 0x7fff) << 13) + bias;
    f32::from_bits(sign | if exponent == 0 { small } else { normal })
}

/// Returns the number that the bits of a `bfloat16` denote: the upper half of an `f32`.
#[inline(always)]
pub(in crate::clip) fn brain(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

impl Element for f32 {
    const NAME: &'static str = "float32";
    const CLIP_EXPONENTS: RangeInclusive<i32> = -120..=127;
    const SQUARES_FIT: bool = true;
    const FORM: Form = Form::Single;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

impl Float for f32 {
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
    const FORM: Form = Form::Double;

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

impl Float for f64 {
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
    fn numbers_of_16_bits_are_those_that_their_bits_denote() {
        for bits in 0..=u16::MAX {
            let (sign, exponent, fraction) =
                (1.0 - 2.0 * f64::from(bits >> 15), i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
            let expected = match exponent {
                0 => sign * fraction * 0.5_f64.powi(24),
                31 if fraction == 0.0 => sign * f64::INFINITY,
                31 => f64::NAN,
                _ => sign * (1.0 + fraction / 1024.0) * 2.0_f64.powi(exponent - 15),
            };
            let found = f64::from(half(bits));
            assert_eq!(expected.is_nan(), found.is_nan(), "{bits:#x}");
            assert!(found.is_nan() || found.to_bits() == expected.to_bits(), "{bits:#x}: {found:e}, not {expected:e}");

            let expected = f64::from(f32::from_bits(u32::from(bits) << 16));
            assert!(expected.is_nan() || f64::from(brain(bits)).to_bits() == expected.to_bits());
            assert_eq!(expected.is_nan(), brain(bits).is_nan());
        }
    }

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
