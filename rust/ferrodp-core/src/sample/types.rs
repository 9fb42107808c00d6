//! What the stages share: the noise that is requested, the numbers a call needs once, a sample's bits and its offset.
//!
//! The stages know this file and not each other, but for the one that comes next; nothing here knows a stage.

use super::tables::quantile::INVERSE_DENSITY;
use crate::error::Error;
use crate::math::natural::Natural;
use crate::params::{Granularity, exp2, floor_log2, positive};

/// Samples handled at once.
pub(super) const NOISE_CHUNK: usize = 1024;

/// The first stage takes values in multiples of this.
pub(super) const PADDED_SAMPLES: usize = 16;

/// Samples that share a byte of [`Open`].
pub(super) const SAMPLES_PER_GROUP: usize = 8;

/// The supported `⌊log₂(scale / granularity)⌋`: at the upper end, noise of 500 scales is still below 2⁵³ steps.
const LOG2_RATIOS: core::ops::RangeInclusive<i32> = -3..=43;

/// Which continuous law is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// Normal with mean 0; the scale is its standard deviation.
    Gaussian,
    /// Laplace with mean 0 and density `exp(−|x|/b)/2b`; the scale is `b`.
    Laplace,
}

/// The bits that a sample starts with: a sign, and as many of `p` as fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// 32 bits: enough where the grid is coarse.
    Short,
    /// 64 bits.
    Long,
}

/// What the stages need to know of a numeric type.
pub trait Number: Copy + Default + Send + Sync + 'static {
    /// `log₂(scale/g)` of the default grid, rounded down: of Gaussian and of Laplace noise.
    const DEFAULT_BITS: [i32; 2];
    /// Whether samples can be decided in single precision.
    const IS_SINGLE: bool;
    /// The largest finite value.
    const LARGEST: f64;
    /// The value, exactly.
    fn widen(self) -> f64;
    /// The value nearest to `x`, at most the largest finite number in size; a zero that `x` is rounded to is positive.
    fn narrow(x: f64) -> Self;
    /// The same for an `x` of size [`Number::LARGEST`] or less.
    fn narrow_within(x: f64) -> Self;
    /// Returns what [`Number::narrow`] makes of `self/by`, where `by` is a number of this type.
    fn quotient(self, by: Self) -> Self;
}

macro_rules! number {
    ($type:ty, $bits:expr, $is_single:expr) => {
        impl Number for $type {
            const DEFAULT_BITS: [i32; 2] = $bits;
            const IS_SINGLE: bool = $is_single;
            const LARGEST: f64 = <$type>::MAX as f64;

            #[inline(always)]
            fn widen(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn narrow(x: f64) -> Self {
                Self::narrow_within(x.max(-Self::LARGEST).min(Self::LARGEST))
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "within the range")]
            fn narrow_within(x: f64) -> Self {
                x as Self + 0.0
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "its largest number")]
            fn quotient(self, by: Self) -> Self {
                (self / by).max(-Self::LARGEST as Self).min(Self::LARGEST as Self) + 0.0
            }
        }
    };
}

number!(f32, [12, 20], true);
number!(f64, [32, 32], false);

/// A law, its scale and the grid it is rounded to: checked once, used for any number of samples.
#[derive(Clone, Debug)]
pub struct Noise {
    pub(super) law: Law,
    pub(super) granularity: Granularity,
    /// `s = scale/g`, exact: `g` is a power of two.
    pub(super) ratio: f64,
    /// Added to every filter's margin, in grid steps; zero but in tests.
    pub(super) widening: f64,
}

impl Noise {
    /// Returns noise of `law` with the given scale, rounded to multiples of `granularity`.
    ///
    /// # Errors
    /// If `scale` is not finite and positive, or outside 2⁻³ … 2⁴⁴ times the granularity.
    pub fn new(law: Law, scale: f64, granularity: Granularity) -> Result<Self, Error> {
        let name = match law {
            Law::Gaussian => "standard_deviation",
            Law::Laplace => "scale",
        };
        let scale = positive(name, scale)?;
        let log2_ratio = floor_log2(scale) - granularity.exponent();
        if !LOG2_RATIOS.contains(&log2_ratio) || scale < f64::MIN_POSITIVE {
            let (low, high) = (LOG2_RATIOS.start(), LOG2_RATIOS.end() + 1);
            let accepted = format!("between 2^{low} and 2^{high} times the granularity {:e}", granularity.width());
            return Err(Error::parameter(name, scale, accepted));
        }
        // mutant: scale-of-noise
        Ok(Self { law, granularity, ratio: scale * granularity.reciprocal(), widening: 0.0 })
    }

    /// Returns Gaussian noise; see [`Noise::new`].
    ///
    /// # Errors
    /// As [`Noise::new`].
    pub fn gaussian(standard_deviation: f64, granularity: Granularity) -> Result<Self, Error> {
        Self::new(Law::Gaussian, standard_deviation, granularity)
    }

    /// Returns Laplace noise; see [`Noise::new`].
    ///
    /// # Errors
    /// As [`Noise::new`].
    pub fn laplace(scale: f64, granularity: Granularity) -> Result<Self, Error> {
        Self::new(Law::Laplace, scale, granularity)
    }

    /// Returns the same noise with every filter's margin widened by `steps` grid steps (at most ⅛): later stages decide
    /// more often, and the output must not change. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_widened_margins(mut self, steps: f64) -> Self {
        self.widening = steps.clamp(0.0, 0.125);
        self
    }

    /// The grid.
    #[must_use]
    pub const fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// Which words its samples start with.
    pub(super) fn word(&self) -> Word {
        if self.law == Law::Gaussian && self.ratio < 2_097_152.0 { Word::Short } else { Word::Long }
    }
}

/// Numbers that the first stage needs, computed once a call.
#[allow(unreachable_pub, reason = "public methods name it on x86-64 alone")]
pub struct Plan {
    pub(super) law: Law,
    pub(super) word: Word,
    pub(super) ratio: f64,
    pub(super) width: f64,
    pub(super) reciprocal: f64,
    /// A sample is decided if it is closer than this to an integer; short words have one limit a segment.
    pub(super) limits: [f64; 16],
    /// Words below this are for later stages.
    pub(super) least: f64,
}

impl Plan {
    /// Error budget of the first stage, in grid steps; `tables/verify.py` checks the figures.
    ///
    /// Long words: the quantile is off by less than 2⁻⁴⁸ (polynomial, evaluation with or without fused operations,
    /// bits of `p` beyond the first 53, unknown bits below 2⁻⁵⁵), for `p ≥ 2⁻⁹` (Gaussian) or `2⁻¹¹` (Laplace).
    /// Short words: the polynomial's 2⁻³⁶ and half a unit of the word, 2⁻³³/φ(z). Then product and sum round once
    /// each, relative to |y| < 8s + 1.
    pub(super) fn new(noise: &Noise, width: f64) -> Self {
        let ratio = noise.ratio;
        let rounding = (8.0 * ratio + 1.0) * exp2(-52);
        // mutant: margin-of-the-first-stage
        let limit = |quantile_error: f64| 0.5 - (ratio * quantile_error + rounding + noise.widening);
        let word = noise.word();
        let (limits, least) = match (word, noise.law) {
            (Word::Short, _) => (INVERSE_DENSITY[0].map(|d| limit(d * exp2(-33) + exp2(-36))), exp2(31 - 8)),
            (Word::Long, Law::Gaussian) => ([limit(exp2(-48)); 16], LEAST_LONG_WORD),
            (Word::Long, Law::Laplace) => ([limit(exp2(-48)); 16], exp2(63 - 10)),
        };
        Self { law: noise.law, word, ratio, width, reciprocal: 1.0 / width, limits, least }
    }
}

/// How near to the truth quantiles of 64-bit words are that are not rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// Within [`Precision::error`] by the polynomials of short words: two thirds of the time.
    Coarse,
    /// By those of long words.
    Fine,
}

impl Precision {
    /// Returns how far a quantile may be from the truth, tails included.
    ///
    /// `tables/verify.py` checks the figures for `p ≥ 2⁻⁹`: the polynomials' own 2⁻³⁶ and 2⁻⁴⁸; the bits of `p` beyond the first 53, of
    /// which the coarse figure does not know, move `z` by less than 2⁻⁵⁰.
    /// What is below goes through the second stage, with an error below 2⁻⁴³.
    pub(crate) fn error(self) -> f64 {
        match self {
            Self::Coarse => exp2(-36) + exp2(-50),
            Self::Fine => exp2(-43),
        }
    }
}

/// Words below this are for the second stage: `p < 2⁻⁹`.
pub(super) const LEAST_LONG_WORD: f64 = (1_u64 << (63 - 8)) as f64;

/// Which samples of a chunk the first stage left open: a bit each, a byte a group. Their values are still there.
#[allow(unreachable_pub, reason = "public methods name it on x86-64 alone")]
pub struct Open {
    pub(super) groups: [u8; NOISE_CHUNK / SAMPLES_PER_GROUP],
}

/// Returns both at the length of the shorter. Loops index them: iterators of pairs do not compile to plain loops here.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
pub(super) fn paired<'a, T, U>(values: &'a mut [T], words: &'a [U]) -> (&'a mut [T], &'a [U]) {
    let len = values.len().min(words.len());
    (&mut values[..len], &words[..len])
}

/// The bits of one sample, revealed as they are needed.
#[derive(Clone, Copy)]
pub(super) struct Lazy<F> {
    /// Leading bits of `p`: `p ∈ [leading, leading + 1) · 2^−(width + 1)`.
    pub(super) leading: u64,
    /// How many there are: 31 or 63.
    pub(super) width: u32,
    /// Gives extension block `j`: 128 more bits as two words, most significant bit first.
    pub(super) extension: F,
}

impl<F: Fn(u64) -> [u64; 2]> Lazy<F> {
    /// Returns the leading bits and 64 more, and how many that makes.
    pub(super) fn head(&self) -> (u128, u32) {
        ((u128::from(self.leading) << 64) | u128::from((self.extension)(0)[0]), self.width + 64)
    }

    /// Returns at least `bits` bits of `p`, and how many these are.
    pub(super) fn reveal(&self, bits: u32) -> (Natural, u32) {
        let mut value = Natural::new(u128::from(self.leading));
        let mut width = self.width;
        let mut block = 0;
        while width < bits {
            // mutant: every-extension-block-first
            let [high, low] = (self.extension)(block);
            // mutant: extension-words-taken-in-wrong-order
            value = value.shl(128).add(&Natural::new((u128::from(high) << 64) | u128::from(low)));
            width += 128;
            block += 1;
        }
        (value, width)
    }
}

/// The real number that is added before rounding: `mantissa · 2^exponent`, exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset {
    /// The same as an `f64`: exact, or below 2⁻¹⁰⁷⁴ where that would underflow.
    pub(super) approximate: f64,
    pub(super) mantissa: i64,
    pub(super) exponent: i32,
}

impl Offset {
    /// Returns `value · 2^shift`.
    pub(super) fn new(value: f64, shift: i32) -> Self {
        let bits = value.to_bits();
        let biased = ((bits >> 52) & 0x7ff) as i32;
        let fraction = (bits & ((1 << 52) - 1)).cast_signed();
        let (magnitude, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) };
        let mantissa = if value < 0.0 { -magnitude } else { magnitude };
        // Two factors, for `shift` may exceed the exponents of `f64`.
        let approximate = value * exp2(shift / 2) * exp2(shift - shift / 2);
        Self { approximate, mantissa, exponent: exponent + shift }
    }

    pub(super) fn mirrored(self) -> Self {
        Self { approximate: -self.approximate, mantissa: -self.mantissa, exponent: self.exponent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_exact_even_where_they_underflow() {
        let tiny = Offset::new(f64::from_bits(3), -900);

        assert_eq!((3, -1974), (tiny.mantissa, tiny.exponent));
        assert_eq!(0.0, tiny.approximate);
        let third = Offset::new(-1.0 / 3.0, 7);
        assert_eq!(-128.0 / 3.0, third.approximate);
        assert_eq!(third.approximate, third.mantissa as f64 * exp2(third.exponent));
    }

    #[test]
    fn revealed_bits_extend_the_head() {
        let sample = Lazy { leading: 5, width: 63, extension: |j| [j + 1, j + 100] };
        let (head, bits) = sample.head();

        assert_eq!(((5 << 64) | 1, 127), (head, bits));
        let (value, width) = sample.reveal(200);
        assert_eq!(63 + 256, width);
        assert_eq!(Natural::new(head), value.shr(192));
        assert_eq!(63, sample.reveal(10).1);
    }
}
