//! First stage in single precision: Gaussian noise for `f32` on grids so coarse that 24 bits decide nearly all samples.
//!
//! What is asked is what the other first stage asks of the same words: the integer nearest to `f + s·z`. So whether a
//! sample is decided here or there changes no bit, and neither does what a path computes beyond its bound. This file holds
//! the bound and the stage in plain arrays; `avx512` has sixteen lanes, `avx2` eight, `neon` four, and [`stage`] chooses.
//!
//! **The bound.** All roundings are to nearest, `u = 2⁻²⁴`, but for the conversion of words, which may cut.
//! - `z̃`, the quantile: `|z̃ − z| ≤ error` of its segment, from the tables. It covers the polynomial, its evaluation, the word
//!   as a float of 24 bits, and the bits of `p` that are not known. `|z| + error ≤ largest`, from the tables.
//! - `s·z̃`: `s` rounded to single precision and the product rounded, each by at most `u·s·largest`.
//! - `v/g`, its nearest integer and their difference are exact: `g` is a power of two, and what is left of `v/g` are digits
//!   of `v`. A quotient below 2⁻¹²⁶ loses at most 2⁻¹⁵⁰, far below what the last term leaves.
//! - the sum, below `s·largest + ½` in size, is rounded by at most `u` times that; fused, the product is not.
//!
//! Together `s·error + (3·s·largest + 1)·u`, where the last term has `u/2` to spare. The difference of the sum and its nearest integer
//! is exact again, so the sample is decided if that is below ½ less the bound.
//!
//! **The result.** Let `r` be the integer nearest to `v/g`. `r + n` is rounded once to 24 bits, and the product with `g` is
//! exact unless it leaves the range: `g ≥ 2⁻¹²⁶`, so that no multiple of it is subnormal, and beyond the largest number
//! both ways of rounding are cut to it. The other stages form `r + n` in double precision and round it to single: the same
//! number, for below 2⁵³ that sum is exact, and from there on `r` is what both give, `n` being below 2¹⁸.

use super::tables::single::{BY_HALF, BY_HALF_ERROR, BY_HALF_LARGEST};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::tables::single::{BY_OCTAVE_ERROR, BY_OCTAVE_LARGEST};
use super::types::{Law, Noise, Open, SAMPLES_PER_GROUP as LANES, Word};
use crate::params::exp2;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(super) mod stage;
#[cfg(test)]
mod tests;

/// The largest `s`: there one sample in 70 stays open.
const LARGEST_RATIO: f64 = 16384.0;

/// The exponents of grids whose width and its reciprocal are normal numbers.
const SINGLE_EXPONENTS: core::ops::RangeInclusive<i32> = -126..=126;

/// The largest `f32` below 2³¹: words are not to round up into an octave that does not exist.
const BELOW_2_31: f32 = 2_147_483_520.0;

/// The exponent of 1.0, to which fraction bits are joined.
const ONE_F32_BITS: u32 = 127 << 23;

/// Numbers that this stage needs, computed once a call.
pub(super) struct Single {
    ratio: f32,
    width: f32,
    reciprocal: f32,
    /// A sample is decided if it is closer than this to an integer: one limit a segment.
    limits: [f32; 32],
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    octave_limits: [f32; 8],
    /// No noise moves a value of this size: see [`Single::swallows`].
    swallowing: f32,
}

impl Single {
    /// Words below this are beyond the 16 octaves of the tables.
    const LEAST: f32 = 32768.0;

    /// Returns what this stage needs, if the noise is of its kind.
    pub(super) fn new(noise: &Noise, width: f64) -> Option<Self> {
        let exponent = crate::params::floor_log2(width);
        let fits = noise.law == Law::Gaussian && noise.word() == Word::Short && noise.ratio < LARGEST_RATIO;
        if !fits || !SINGLE_EXPONENTS.contains(&exponent) {
            return None;
        }
        let limit = |error: f64, largest: f64| {
            // mutant: margin-of-the-single-stage
            let bound = noise.ratio * error + (3.0 * noise.ratio * largest + 1.0) * exp2(-24);
            below(0.5 - bound - noise.widening)
        };
        let zip = |error: &[f64], largest: &[f64], i: usize| limit(error[i], largest[i]);
        Some(Self {
            ratio: noise.ratio as f32,
            width: width as f32,
            reciprocal: exp2(-exponent) as f32,
            limits: core::array::from_fn(|i| zip(&BY_HALF_ERROR[0], &BY_HALF_LARGEST[0], i)),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            octave_limits: core::array::from_fn(|i| zip(&BY_OCTAVE_ERROR[0], &BY_OCTAVE_LARGEST[0], i)),
            swallowing: (width * exp2(60)) as f32,
        })
    }

    /// Returns whether `value` is what noise makes of it, for a sample with this word.
    ///
    /// If the magnitude `m` of the word is not 0, then `p ≥ 2⁻³²`, so `z < 6.3` and the noise is below 2¹⁷ steps; half a
    /// unit in the last place of a number of 2⁶⁰ steps is 2³⁵.
    pub(super) fn swallows(&self, value: f32, word: u32) -> bool {
        // mutant: values-that-swallow-noise
        value.is_finite() && value.abs() >= self.swallowing && word << 1 != 0
    }
}

/// Returns the largest `f32` that is not above `x`.
fn below(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) > x { nearest.next_down() } else { nearest }
}

/// The stage in plain arrays: the specification of the vector paths, and what every CPU can run.
fn groups(single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    let words = words.as_chunks::<4>().0.as_chunks::<LANES>().0;
    for (group, (values, words)) in values.as_chunks_mut::<LANES>().0.iter_mut().zip(words).enumerate() {
        let before = *values;
        let (mut x, mut t, mut segment) = ([0.0_f32; LANES], [0.0_f32; LANES], [0; LANES]);
        for lane in 0..LANES {
            let magnitude = u32::from_le_bytes(words[lane]) & (u32::MAX >> 1);
            x[lane] = (magnitude.cast_signed() as f32).min(BELOW_2_31);
            // mutant: segment-of-the-single-stage
            segment[lane] = (x[lane].to_bits() >> 22) as usize & 31;
            t[lane] = f32::from_bits((x[lane].to_bits() & ((1 << 22) - 1)) | ONE_F32_BITS) - 1.25;
        }
        let mut z = [0.0; LANES];
        for coefficients in BY_HALF.iter().rev() {
            for lane in 0..LANES {
                z[lane] = z[lane] * t[lane] + coefficients[segment[lane]];
            }
        }
        let mut undecided = 0;
        for lane in 0..LANES {
            let sign = u32::from_le_bytes(words[lane]) & (1 << 31);
            let value = if before[lane].is_finite() { before[lane] } else { 0.0 };
            let steps = value * single.reciprocal;
            let (whole, is_whole) = nearest(steps);
            let y = f32::from_bits(z[lane].to_bits() ^ sign) * single.ratio + (steps - whole);
            let (n, _) = nearest(y);
            // Written so that what is not a number is undecided.
            let decided = (y - n).abs() < single.limits[segment[lane]] && x[lane] >= Single::LEAST && is_whole;
            undecided |= u8::from(!decided) << lane;
            let sum = (whole + n) * single.width + 0.0;
            values[lane] = if decided { sum.clamp(f32::MIN, f32::MAX) } else { before[lane] };
        }
        open.groups[group] = undecided;
    }
}

/// Returns the nearest integer, and whether it certainly is one: as in [`super::lanes`].
#[inline(always)]
fn nearest(x: f32) -> (f32, bool) {
    /// `1.5 · 2²³`: beside it there is no room for a fraction.
    const ROUNDER: f32 = 12_582_912.0;
    let size = x.abs();
    let (small, large) = (size < 4_194_304.0, size >= 8_388_608.0);
    (if small { (x + ROUNDER) - ROUNDER } else { x }, small | large)
}
