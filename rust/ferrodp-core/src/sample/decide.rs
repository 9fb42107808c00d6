//! What the first stage left open: one sample, settled for certain.
//!
//! By symmetry a negative sample is handled as the mirror image of a positive one, `round(f − s·z) = −round(−f + s·z)`,
//! ties having probability zero. So the question is always for `z > 0`: which integer is nearest to `f + s·z`?

use core::cmp::Ordering;

use super::tables::quantile::PROBIT;
use super::{Law, Noise, exact, fixed, lanes};
use crate::math::integer::Integer;
use crate::math::natural::Natural;

/// Bounds on the error of the second stage's quantile: polynomial, coefficients, evaluation, and the bits of `p` beyond
/// the 53 that it sees. `tables/verify.py` derives that they hold for every row, and fails if they do not.
const QUANTILE_ERROR: [f64; 2] = [f64::EPSILON * 32.0, f64::EPSILON * 128.0]; // 2⁻⁴⁷ Gaussian, 2⁻⁴⁵ Laplace

/// Digits from the leading one on that the second stage needs: then what is unknown is below 2⁻⁵⁵ of `p`.
const SIGNIFICANT: u32 = 56;

/// The bits of one sample, revealed as they are asked for.
#[derive(Clone, Copy)]
pub struct Lazy<F> {
    /// Leading bits of `p`: `p ∈ [leading, leading + 1) · 2^−(width + 1)`.
    pub leading: u64,
    /// How many there are: 31 or 63.
    pub width: u32,
    /// Gives extension block `j`: 128 more bits as two words, most significant bit first.
    pub extension: F,
}

impl<F: Fn(u64) -> [u64; 2]> Lazy<F> {
    /// Returns the leading bits and 64 more, and how many that makes.
    fn head(&self) -> (u128, u32) {
        ((u128::from(self.leading) << 64) | u128::from((self.extension)(0)[0]), self.width + 64)
    }

    /// Returns at least `bits` bits of `p`, and how many these are.
    pub(super) fn reveal(&self, bits: u32) -> (Natural, u32) {
        let mut value = Natural::new(u128::from(self.leading));
        let mut width = self.width;
        let mut block = 0;
        while width < bits {
            let [high, low] = (self.extension)(block);
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
        let approximate = value * crate::params::exp2(shift / 2) * crate::params::exp2(shift - shift / 2);
        Self { approximate, mantissa, exponent: exponent + shift }
    }

    fn mirrored(self) -> Self {
        Self { approximate: -self.approximate, mantissa: -self.mantissa, exponent: self.exponent }
    }
}

/// Returns the integer nearest to `offset ± s·z`, for certain.
pub(super) fn settle<F>(noise: &Noise, negative: bool, sample: &Lazy<F>, offset: Offset) -> i128
where
    F: Fn(u64) -> [u64; 2],
{
    if negative { -nearest(noise, sample, offset.mirrored()) } else { nearest(noise, sample, offset) }
}

/// Returns the integer that the sample with these bits rounds to, for a value that is `offset` grid steps: the whole of
/// the sampler as one function, for tests that choose the bits themselves.
#[doc(hidden)]
pub fn settle_word<F: Fn(u64) -> [u64; 2]>(noise: &Noise, word: u64, extension: F, offset: f64) -> i128 {
    let (negative, leading, width) = split_word(noise, word);
    settle(noise, negative, &Lazy { leading, width, extension }, Offset::new(offset, 0))
}

/// Returns the integer nearest to `offset · 2^exponent ± s·z`, for an offset of any size: by the last stage alone, but for
/// numbers below ½ that are floats.
pub(super) fn settle_integer<F>(
    noise: &Noise,
    negative: bool,
    sample: &Lazy<F>,
    offset: &Integer,
    exponent: i32,
) -> i128
where
    F: Fn(u64) -> [u64; 2],
{
    let approximate = offset.approximate(exponent);
    let bits = offset.magnitude.bits();
    if bits == 0 || bits <= 53 && bits.cast_signed() + exponent < 0 {
        let magnitude = offset.magnitude.low().cast_signed();
        let mantissa = if offset.negative { -magnitude } else { magnitude };
        return settle(noise, negative, sample, Offset { approximate, mantissa, exponent });
    }
    let ratio = exact::Ratio {
        negative: offset.negative != negative,
        magnitude: offset.magnitude.clone(),
        exponent,
        approximate: if negative { -approximate } else { approximate },
    };
    let nearest = exact::search(noise, sample, ratio);
    if negative { -nearest } else { nearest }
}

/// Returns the sign, the leading bits and their number.
pub(super) fn split_word(noise: &Noise, word: u64) -> (bool, u64, u32) {
    let width = match noise.word() {
        super::Word::Short => 31,
        super::Word::Long => 63,
    };
    (word >> width == 1, word & ((1 << width) - 1), width)
}

/// Returns the integer nearest to `offset + s·z`.
fn nearest<F: Fn(u64) -> [u64; 2]>(noise: &Noise, sample: &Lazy<F>, offset: Offset) -> i128 {
    let (head, bits) = sample.head();
    let Some(z) = quantile(noise.law, head, bits) else {
        return exact::search(noise, sample, offset);
    };
    let y = offset.approximate + noise.ratio * z;
    // The product and the sum round once each, by at most 2⁻⁵³ of numbers below |y| + 1.
    let quantile_error = noise.ratio * QUANTILE_ERROR[noise.law as usize];
    let margin = quantile_error + (y.abs() + 1.0) * (2.0 * f64::EPSILON) + noise.widening;
    if margin > 0.25 {
        return exact::search(noise, sample, offset);
    }
    // |y| < 2⁴⁹, for the margin would be too wide otherwise.
    let integer = lanes::rounded(y);
    if (y - integer).abs() < 0.5 - margin {
        return i128::from(integer as i64);
    }
    // The truth is within ¼ of `y`, which is within ¼ of this half-integer.
    let below = y.floor() as i64;
    let order = fixed::compare(noise, head, bits, below, offset)
        .unwrap_or_else(|| exact::compare(noise, sample, i128::from(below), offset));
    i128::from(if order == Ordering::Greater { below + 1 } else { below })
}

/// Returns `z` for `p ≈ head · 2^−(bits + 1)`, within [`QUANTILE_ERROR`]; `None` below the tables, or where so few digits
/// follow the leading one that those not yet revealed matter.
fn quantile(law: Law, head: u128, bits: u32) -> Option<f64> {
    let significant = 128 - head.leading_zeros();
    if significant < SIGNIFICANT {
        return None;
    }
    let octave = bits - significant;
    // The 52 bits after the leading one, cut off: m ∈ [1, 2).
    let fraction = ((head << head.leading_zeros() << 1) >> 76) as u64;
    match law {
        Law::Gaussian => {
            let row = PROBIT.get(2 * octave as usize + (fraction >> 51) as usize)?;
            let t = f64::from_bits((1023 << 52) | (fraction & ((1 << 51) - 1))) - 1.25;
            // Even and odd powers apart: two short chains of operations instead of a long one.
            let square = t * t;
            let (mut even, mut odd) = (row[14], 0.0);
            for pair in row[..14].as_chunks::<2>().0.iter().rev() {
                odd = odd * square + pair[1];
                even = even * square + pair[0];
            }
            Some(even + odd * t)
        }
        Law::Laplace => {
            let m = f64::from_bits((1023 << 52) | fraction);
            Some(f64::from(octave) * core::f64::consts::LN_2 + lanes::log_part(m))
        }
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
        assert_eq!(third.approximate, third.mantissa as f64 * crate::params::exp2(third.exponent));
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
