//! First stage in plain arrays, eight lanes: the specification of the vector paths, and what every CPU can run.

use super::tables::quantile::{LOG_BY_POWER, PROBIT_BY_POWER, PROBIT_FAST_BY_POWER};
use super::types::{LEAST_LONG_WORD, Law, Number, Open, Plan, Precision, SAMPLES_PER_GROUP as LANES, Word};

/// The exponent of 1.0, to which fraction bits are joined.
const ONE_F64_BITS: u64 = 1023 << 52;

/// The largest `f64` below 2⁶³: words are not to round up into an octave that does not exist.
pub(super) const BELOW_2_63: f64 = 9_223_372_036_854_774_784.0;

/// The middle of the first sixteenth of an octave, and of every other once its bits are cut off.
const LOG_CENTER: f64 = 1.0 + 1.0 / 32.0;

type Floats = [f64; LANES];

/// Adds noise to `values`, a multiple of eight of them with a word each, leaving alone, and noting, what it cannot decide.
pub(super) fn first_stage<T: Number>(plan: &Plan, words: &[u8], values: &mut [T], open: &mut Open) {
    match (plan.word, plan.law) {
        (Word::Short, _) => {
            let quantile = |x| probit(x, &PROBIT_FAST_BY_POWER);
            groups::<T, 4>(plan, words, values, open, short_word, quantile);
        }
        (Word::Long, Law::Gaussian) => {
            let quantile = |x| probit(x, &PROBIT_BY_POWER);
            groups::<T, 8>(plan, words, values, open, long_word, quantile);
        }
        (Word::Long, Law::Laplace) => groups::<T, 8>(plan, words, values, open, long_word, negative_log),
    }
}

/// Writes `Z` of samples with these 64-bit words, a multiple of eight of them, within [`Precision::error`] but for those that it notes.
pub(super) fn quantiles(precision: Precision, words: &[u8], out: &mut [f64], open: &mut Open) {
    let words = words.as_chunks::<8>().0.as_chunks::<LANES>().0;
    for (group, (out, words)) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(words).enumerate() {
        let mut x = [0.0; LANES];
        let mut sign = [0; LANES];
        for lane in 0..LANES {
            (x[lane], sign[lane]) = long_word(&words[lane]);
        }
        let z = match precision {
            Precision::Coarse => probit(x, &PROBIT_FAST_BY_POWER),
            Precision::Fine => probit(x, &PROBIT_BY_POWER),
        };
        let mut tail = 0;
        for lane in 0..LANES {
            out[lane] = f64::from_bits(z[lane].to_bits() ^ sign[lane]);
            tail |= u8::from(x[lane] < LEAST_LONG_WORD) << lane;
        }
        open.groups[group] = tail;
    }
}

/// Applies the stage to all groups of eight: `split` gives a word's magnitude and sign, `quantile` that of a magnitude.
#[inline(always)]
fn groups<T: Number, const WORD: usize>(
    plan: &Plan,
    words: &[u8],
    values: &mut [T],
    open: &mut Open,
    split: impl Fn(&[u8; WORD]) -> (f64, u64),
    quantile: impl Fn(Floats) -> Floats,
) {
    let words = words.as_chunks::<WORD>().0.as_chunks::<LANES>().0;
    for (group, (values, words)) in values.as_chunks_mut::<LANES>().0.iter_mut().zip(words).enumerate() {
        let before = *values;
        let mut x = [0.0; LANES];
        let mut sign = [0; LANES];
        for lane in 0..LANES {
            (x[lane], sign[lane]) = split(&words[lane]);
        }
        let z = quantile(x);
        let mut undecided = 0;
        for lane in 0..LANES {
            let steps = before[lane].widen() * plan.reciprocal;
            let (whole, is_whole) = nearest(steps);
            let signed = f64::from_bits(z[lane].to_bits() ^ sign[lane]);
            let y = signed * plan.ratio + (steps - whole);
            let (n, _) = nearest(y);
            let limit = plan.limits[(x[lane].to_bits() >> 51) as usize & 15];
            // Written so that what is not a number is undecided.
            let decided = (y - n).abs() < limit && x[lane] >= plan.least && is_whole;
            undecided |= u8::from(!decided) << lane;
            // mutant: noise-added-in-floats-off-grid
            values[lane] = if decided { T::narrow((whole + n) * plan.width + 0.0) } else { before[lane] };
        }
        open.groups[group] = undecided;
    }
}

/// Returns the magnitude (the middle of what the word leaves open) and the sign of a 32-bit word.
#[inline(always)]
fn short_word(word: &[u8; 4]) -> (f64, u64) {
    let word = u32::from_le_bytes(*word);
    (f64::from(word & (u32::MAX >> 1)) + 0.5, u64::from(word >> 31) << 63)
}

/// Returns the magnitude and the sign of a 64-bit word.
#[inline(always)]
fn long_word(word: &[u8; 8]) -> (f64, u64) {
    let word = u64::from_le_bytes(*word);
    (((word & (u64::MAX >> 1)) as f64).min(BELOW_2_63), word & (1 << 63))
}

/// Returns `Φ̄⁻¹` of the words with magnitudes `x`.
#[inline(always)]
fn probit<const POWERS: usize>(x: Floats, table: &[[f64; 16]; POWERS]) -> Floats {
    let mut segment = [0; LANES];
    let mut t = [0.0; LANES];
    for lane in 0..LANES {
        segment[lane] = (x[lane].to_bits() >> 51) as usize & 15;
        t[lane] = f64::from_bits((x[lane].to_bits() & ((1 << 51) - 1)) | ONE_F64_BITS) - 1.25;
    }
    let mut z = [0.0; LANES];
    for coefficients in table.iter().rev() {
        for lane in 0..LANES {
            z[lane] = z[lane] * t[lane] + coefficients[segment[lane]];
        }
    }
    z
}

/// Returns `−ln(x/2⁶³)`.
#[inline(always)]
fn negative_log(x: Floats) -> Floats {
    let mut part = [0; LANES];
    let mut t = [0.0; LANES];
    for lane in 0..LANES {
        part[lane] = (x[lane].to_bits() >> 48) as usize & 15;
        t[lane] = f64::from_bits((x[lane].to_bits() & ((1 << 48) - 1)) | ONE_F64_BITS) - LOG_CENTER;
    }
    let mut z = [0.0; LANES];
    for coefficients in LOG_BY_POWER.iter().rev() {
        for lane in 0..LANES {
            z[lane] = z[lane] * t[lane] + coefficients[part[lane]];
        }
    }
    for lane in 0..LANES {
        let octave = f64::from(62 + 1023 - (x[lane].to_bits() >> 52) as i32);
        z[lane] += octave * core::f64::consts::LN_2;
    }
    z
}

/// Returns `ln 2 − ln m` for `1 ≤ m < 2`, for the scalar stage.
pub(super) fn log_part(m: f64) -> f64 {
    let part = (m.to_bits() >> 48) as usize & 15;
    let t = f64::from_bits((m.to_bits() & ((1 << 48) - 1)) | ONE_F64_BITS) - LOG_CENTER;
    LOG_BY_POWER.iter().rev().fold(0.0, |sum, coefficients| sum * t + coefficients[part])
}

/// Returns the nearest integer, and whether it certainly is one: between 2⁵¹ and 2⁵² [`rounded`] does not hold; from
/// there on there are no fractions.
#[inline(always)]
fn nearest(x: f64) -> (f64, bool) {
    let size = x.abs();
    let (small, large) = (size < 2_251_799_813_685_248.0, size >= 4_503_599_627_370_496.0);
    (if small { rounded(x) } else { x }, small | large)
}

/// Returns the nearest integer, ties to even, of a number below 2⁵¹ in size: beside 1.5·2⁵² there is no room for a
/// fraction. Unlike `round_ties_even` it is no call into a library where the CPU has no such instruction.
#[inline(always)]
pub(super) fn rounded(x: f64) -> f64 {
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    (x + ROUNDER) - ROUNDER
}
