//! The types that rows may have: `f32` and `f64`, and the two of 16 bits, whose numbers are those of `f32`.

use core::ops::{RangeInclusive, Sub};

pub(super) use sealed::Word;

/// An element of a row.
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

    /// The type that its numbers are brought in: `f32` for the types of 16 bits.
    type Whole: Float;

    /// What its bytes mean.
    const FORM: Form;

    /// Its bits.
    type Word: Word;

    /// Returns the same number as an `f64`.
    fn widen(self) -> f64;

    /// Returns the same number in that type.
    fn whole(self) -> Self::Whole;

    /// Returns the element with the same bytes in the other order.
    #[must_use]
    fn swapped(self) -> Self;
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
    pub(super) const fn size(self) -> usize {
        match self {
            Self::Half | Self::Brain => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

/// An element that kernels compute with, and that clipped rows have: `f32` or `f64`.
pub trait Float: Element<Whole = Self> + Sub<Output = Self> {
    /// Returns the number of this type next to `value` on the side of zero.
    fn narrow(value: f64) -> Self;

    /// Returns the number of this type nearest to `value`; the largest finite one where it lies beyond. A zero is positive.
    fn nearest(value: f64) -> Self;
}

mod sealed {
    pub trait Sealed {}

    /// The bits of an element.
    pub trait Word: Copy + Default + 'static {}
    impl Word for u16 {}
    impl Word for u32 {}
    impl Word for u64 {}

    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for super::Half {}
    impl Sealed for super::Brain {}
}

/// The bits of a number of binary16, NumPy's `float16`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Half(pub u16);

/// The bits of a `bfloat16`: the upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Brain(pub u16);

impl Element for Half {
    const NAME: &'static str = "float16";
    const CLIP_EXPONENTS: RangeInclusive<i32> = f32::CLIP_EXPONENTS;
    const SQUARES_FIT: bool = true;

    type Whole = f32;
    const FORM: Form = Form::Half;
    type Word = u16;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self.whole())
    }

    /// In integers and two exact products, with no subnormal number on the way: those cost some CPUs a hundred cycles.
    #[inline(always)]
    fn whole(self) -> f32 {
        let bits = u32::from(self.0);
        let (sign, exponent, fraction) = ((bits & 0x8000) << 16, bits & 0x7c00, bits & 0x03ff);
        let small = (fraction as i32 as f32 * 5.960_464_5e-8).to_bits(); // 2^-24
        // 112 is the difference of the two biases; what is not finite has the largest exponent in either type.
        // mutant: infinite-halves-taken-for-numbers
        let bias = if exponent == 0x7c00 { 224 << 23 } else { 112 << 23 };
        let normal = ((bits & 0x7fff) << 13) + bias;
        f32::from_bits(sign | if exponent == 0 { small } else { normal })
    }

    #[inline(always)]
    fn swapped(self) -> Self {
        Self(self.0.swap_bytes())
    }
}

impl Element for Brain {
    const NAME: &'static str = "bfloat16";
    const CLIP_EXPONENTS: RangeInclusive<i32> = f32::CLIP_EXPONENTS;
    const SQUARES_FIT: bool = true;

    type Whole = f32;
    const FORM: Form = Form::Brain;
    type Word = u16;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self.whole())
    }

    #[inline(always)]
    fn whole(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline(always)]
    fn swapped(self) -> Self {
        Self(self.0.swap_bytes())
    }
}

impl Element for f32 {
    const NAME: &'static str = "float32";
    const CLIP_EXPONENTS: RangeInclusive<i32> = -120..=127;
    const SQUARES_FIT: bool = true;

    type Whole = Self;
    const FORM: Form = Form::Single;
    type Word = u32;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn whole(self) -> Self {
        self
    }

    #[inline(always)]
    fn swapped(self) -> Self {
        Self::from_bits(self.to_bits().swap_bytes())
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

    type Whole = Self;
    const FORM: Form = Form::Double;
    type Word = u64;

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn whole(self) -> Self {
        self
    }

    #[inline(always)]
    fn swapped(self) -> Self {
        Self::from_bits(self.to_bits().swap_bytes())
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
            let found = Half(bits).widen();
            assert_eq!(expected.is_nan(), found.is_nan(), "{bits:#x}");
            assert!(found.is_nan() || found.to_bits() == expected.to_bits(), "{bits:#x}: {found:e}, not {expected:e}");

            let brain = f64::from(f32::from_bits(u32::from(bits) << 16));
            assert!(brain.is_nan() || Brain(bits).widen().to_bits() == brain.to_bits());
            assert_eq!(brain.is_nan(), Brain(bits).widen().is_nan());
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
