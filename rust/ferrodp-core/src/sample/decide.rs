//! What the first stage left open: one sample, settled for certain.
//!
//! By symmetry a negative sample is handled as the mirror image of a positive one, `round(f − s·z) = −round(−f + s·z)`,
//! ties having probability zero. So the question is always for `z > 0`: which integer is nearest to `f + s·z`?

use core::cmp::Ordering;

use super::tables::quantile::PROBIT_BY_HALF_OCTAVE;
use super::types::{Law, Lazy, Noise, Offset, Word};
use super::{exact, fixed, lanes};
use crate::math::integer::Integer;

/// Bounds on the error of the second stage's quantile: polynomial, coefficients, evaluation, and the bits of `p` beyond
/// the 53 that it sees. `tables/verify.py` derives that they hold for every row, and fails if they do not.
const QUANTILE_ERROR: [f64; 2] = [f64::EPSILON * 32.0, f64::EPSILON * 128.0]; // 2⁻⁴⁷ Gaussian, 2⁻⁴⁵ Laplace

/// Digits from the leading one on that the second stage needs: then what is unknown is below 2⁻⁵⁵ of `p`.
const SIGNIFICANT_BITS: u32 = 56;

/// `z` changes by less than this, times the change of `ln p`: by Mills' ratio `Φ̄(z)/φ(z) ≤ √(π/2)`, or by 1.
const MAX_SLOPE: f64 = 1.2534;

/// Where the third stage can be asked again and again: its thresholds have 79 fraction bits in 127, and a search of a few
/// steps costs less than the last stage.
const MAX_STEPS: f64 = (1_u64 << 46) as f64;
const MAX_OPEN_STEPS: f64 = 16.0;

/// Returns the integer nearest to `offset ± s·z`, for certain.
pub(super) fn settle<F>(noise: &Noise, negative: bool, sample: &Lazy<F>, offset: Offset) -> i128
where
    F: Fn(u64) -> [u64; 2],
{
    // mutant: sign-of-a-sample
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
        Word::Short => 31,
        Word::Long => 63,
    };
    (word >> width == 1, word & ((1 << width) - 1), width)
}

/// Returns the integer nearest to `offset + s·z`.
fn nearest<F: Fn(u64) -> [u64; 2]>(noise: &Noise, sample: &Lazy<F>, offset: Offset) -> i128 {
    if let Some(integer) = nearest_by_leading(noise, sample, offset) {
        return integer;
    }
    let (head, bits) = sample.head();
    let Some(z) = quantile(noise.law, head, bits) else {
        return exact::search(noise, sample, offset);
    };
    let y = offset.approximate + noise.ratio * z;
    // The product and the sum round once each, by at most 2⁻⁵³ of numbers below |y| + 1.
    let quantile_error = noise.ratio * QUANTILE_ERROR[noise.law as usize];
    // mutant: second-stage-trusts-floating-point
    let margin = quantile_error + (y.abs() + 1.0) * (2.0 * f64::EPSILON) + noise.widening;
    // Whether the sample exceeds this integer and a half.
    let exceeds = |below: i64| {
        fixed::compare(noise, head, bits, below, offset)
            // mutant: what-third-stage-leaves-open-taken-for-less
            .unwrap_or_else(|| exact::compare(noise, sample, i128::from(below), offset))
            == Ordering::Greater
    };
    if margin > 0.25 {
        if y.abs() + margin >= MAX_STEPS || margin > MAX_OPEN_STEPS {
            return exact::search(noise, sample, offset);
        }
        // The truth is within the margin of `y`: what is nearest to it lies between these two.
        let (mut low, mut high) = ((y - margin - 0.5).floor() as i64, (y + margin + 0.5).ceil() as i64);
        while low < high {
            let middle = low + (high - low) / 2;
            // mutant: search-of-wide-margins
            if exceeds(middle) { low = middle + 1 } else { high = middle }
        }
        return i128::from(low);
    }
    // |y| < 2⁴⁹, for the margin would be too wide otherwise.
    let integer = lanes::rounded(y);
    if (y - integer).abs() < 0.5 - margin {
        return i128::from(integer as i64);
    }
    // The truth is within ¼ of `y`, which is within ¼ of this half-integer.
    let below = y.floor() as i64;
    i128::from(if exceeds(below) { below + 1 } else { below })
}

/// Returns the integer nearest to `offset + s·z`, if the leading bits of `p` alone decide it: nearly always, and without
/// a block of the keystream.
///
/// They leave open all of `[m, m + 1)`, whose middle differs from any of it by `1/2m` in `ln p`, if not less.
fn nearest_by_leading<F>(noise: &Noise, sample: &Lazy<F>, offset: Offset) -> Option<i128> {
    if sample.leading == 0 {
        return None;
    }
    let middle = u128::from(sample.leading) << 64 | 1 << 63;
    let z = quantile(noise.law, middle, sample.width + 64)?;
    let y = offset.approximate + noise.ratio * z;
    // mutant: unknown-bits-taken-for-known
    let unknown = MAX_SLOPE * 0.5 / sample.leading as f64;
    let quantile_error = noise.ratio * (QUANTILE_ERROR[noise.law as usize] + unknown);
    let margin = quantile_error + (y.abs() + 1.0) * (2.0 * f64::EPSILON) + noise.widening;
    if margin > 0.25 {
        return None;
    }
    // |y| < 2⁴⁹, for the margin would be too wide otherwise.
    let integer = lanes::rounded(y);
    ((y - integer).abs() < 0.5 - margin).then_some(i128::from(integer as i64))
}

/// Returns `Φ̄⁻¹` of 63 leading bits of `p`, off by less than 2⁻⁴³ whatever the further bits are; `None` if too few bits follow the
/// leading one for that.
pub(super) fn approximate(leading: u64) -> Option<f64> {
    // What is unknown moves `z` by `MAX_SLOPE/2m` at most.
    // mutant: quantile-of-few-digits
    if leading < 1 << 43 {
        return None;
    }
    quantile(Law::Gaussian, u128::from(leading) << 64 | 1 << 63, 127)
}

/// Returns `z` for `p ≈ head · 2^−(bits + 1)`, within [`QUANTILE_ERROR`]; `None` below the tables, or where so few digits
/// follow the leading one that those not yet revealed matter.
fn quantile(law: Law, head: u128, bits: u32) -> Option<f64> {
    let significant = 128 - head.leading_zeros();
    // mutant: second-stage-takes-few-digits-for-many
    if significant < SIGNIFICANT_BITS {
        return None;
    }
    let octave = bits - significant;
    // The 52 bits after the leading one, cut off: m ∈ [1, 2).
    let fraction = ((head << head.leading_zeros() << 1) >> 76) as u64;
    match law {
        Law::Gaussian => {
            let row = PROBIT_BY_HALF_OCTAVE.get(2 * octave as usize + (fraction >> 51) as usize)?;
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
    use crate::params::{Granularity, exp2};

    /// Offsets put the sum about as far from a half-integer as it may be wrong.
    #[test]
    fn what_leading_bits_decide_is_what_the_last_stage_says_of_any_further_bits() {
        let (mut decided, mut open) = (0, 0);
        for (law, log2_ratio) in [(Law::Gaussian, 12), (Law::Gaussian, 20), (Law::Gaussian, 32), (Law::Laplace, 32)] {
            let granularity = Granularity::from_exponent(-log2_ratio).expect("in range");
            let noise = Noise::new(law, 1.1, granularity).expect("in range");
            let width = if noise.word() == Word::Short { 31 } else { 63 };
            for octave in 0..width - 1 {
                let leading = (0xb504_f333_f9de_6484_u64 >> 1 >> (63 - width)) >> octave;
                let middle = u128::from(leading) << 64 | 1 << 63;
                let Some(z) = quantile(law, middle, width + 64) else { continue };
                let bound = noise.ratio * (QUANTILE_ERROR[law as usize] + MAX_SLOPE * 0.5 / leading as f64);
                let to_half = (noise.ratio * z).floor() + 0.5 - noise.ratio * z;
                for part in [-1.3, -0.9, -0.6, -0.3, 0.3, 0.6, 0.9, 1.3] {
                    let offset = Offset::new(to_half + part * bound, 0);
                    for extension in [[0; 2], [u64::MAX; 2]] {
                        let sample = Lazy { leading, width, extension: |_| extension };
                        let Some(found) = nearest_by_leading(&noise, &sample, offset) else {
                            open += 1;
                            continue;
                        };
                        decided += 1;
                        assert_eq!(exact::search(&noise, &sample, offset), found, "{noise:?} {octave} {part}");
                    }
                }
            }
        }
        assert!(decided > 300 && open > 300, "{decided} {open}");
    }

    /// Digits of one sample after another, of which the first is as many places after the leading ones as may be.
    #[test]
    fn quantiles_of_leading_bits_are_near_those_of_any_further_bits() {
        let noise =
            Noise::new(Law::Gaussian, exp2(40), Granularity::from_exponent(0).expect("in range")).expect("in range");
        let mut found = 0;
        for octave in 0..62 {
            for leading in
                [1_u64 << octave, (1 << octave) | (0x5a82_7999_fcef_3242 >> (63 - octave)), (2 << octave) - 1]
            {
                let Some(z) = approximate(leading) else { continue };
                found += 1;
                for extension in [[0; 2], [u64::MAX; 2]] {
                    let sample = Lazy { leading, width: 63, extension: |_| extension };
                    // Within ½ of 2⁴⁰·Z.
                    let nearest = exact::search(&noise, &sample, Offset::new(0.0, 0)) as f64;
                    assert!((z * exp2(40) - nearest).abs() <= 0.5 + exp2(40 - 43), "{octave} {leading:x}");
                }
            }
        }
        assert_eq!(3 * 19, found, "from 2^43 on");
    }
}
