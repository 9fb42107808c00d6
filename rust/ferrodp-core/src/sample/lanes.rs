//! First stage in plain arrays, eight lanes: the specification of the vector paths, and what every CPU can run.

use super::chunk::{Cell, GROUP as LANES, Open, Plan};
use super::tables::quantile::{LOG_BY_POWER, PROBIT_BY_POWER, PROBIT_FAST_BY_POWER};
use super::{Law, Word};

/// The exponent of 1.0, to which fraction bits are joined.
const ONE: u64 = 1023 << 52;

/// The largest `f64` below 2⁶³: words are not to round up into an octave that does not exist.
const BELOW_2_63: f64 = 9_223_372_036_854_774_784.0;

/// Returns `ln 2 − ln m` for `1 ≤ m < 2`.
#[inline(always)]
pub(super) fn log_part(m: f64) -> f64 {
    let part = (m.to_bits() >> 48) as usize & 15;
    let t = f64::from_bits((m.to_bits() & ((1 << 48) - 1)) | ONE) - (1.0 + 1.0 / 32.0);
    LOG_BY_POWER.iter().rev().fold(0.0, |sum, coefficients| sum * t + coefficients[part])
}

/// Adds noise to `values`, a multiple of eight of them with a word each, leaving alone, and noting, what it cannot decide.
pub(super) fn first_stage<T: Cell>(plan: &Plan, words: &[u8], values: &mut [T], open: &mut Open) {
    body(plan, words, values, open);
}

/// The same body, compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,lzcnt")]
pub(super) fn first_stage_avx2<T: Cell>(plan: &Plan, words: &[u8], values: &mut [T], open: &mut Open) {
    body(plan, words, values, open);
}

#[inline(always)]
fn body<T: Cell>(plan: &Plan, words: &[u8], values: &mut [T], open: &mut Open) {
    match (plan.word, plan.law) {
        (Word::Short, _) => groups::<T, 4>(
            plan,
            words,
            values,
            open,
            |word| {
                let bytes = [word[0], word[1], word[2], word[3]];
                let word = u32::from_le_bytes(bytes);
                (f64::from(word & (u32::MAX >> 1)) + 0.5, u64::from(word >> 31) << 63)
            },
            |x| probit(x, &PROBIT_FAST_BY_POWER),
        ),
        (Word::Long, Law::Gaussian) => {
            groups::<T, 8>(plan, words, values, open, long_word, |x| probit(x, &PROBIT_BY_POWER));
        }
        (Word::Long, Law::Laplace) => groups::<T, 8>(plan, words, values, open, long_word, |x| {
            core::array::from_fn(|lane| {
                let bits = x[lane].to_bits();
                let octave = f64::from(62 + 1023 - (bits >> 52) as i32);
                octave * core::f64::consts::LN_2 + log_part(f64::from_bits((bits & ((1 << 52) - 1)) | ONE))
            })
        }),
    }
}

/// Returns the magnitude and the sign of a 64-bit word.
#[inline(always)]
fn long_word(word: &[u8; 8]) -> (f64, u64) {
    let word = u64::from_le_bytes(*word);
    (((word & (u64::MAX >> 1)) as f64).min(BELOW_2_63), word & (1 << 63))
}

/// Returns `Φ̄⁻¹` of the words with magnitudes `x`.
#[inline(always)]
fn probit<const POWERS: usize>(x: [f64; LANES], table: &[[f64; 16]; POWERS]) -> [f64; LANES] {
    let segment: [usize; LANES] = core::array::from_fn(|lane| (x[lane].to_bits() >> 51) as usize & 15);
    let t: [f64; LANES] =
        core::array::from_fn(|lane| f64::from_bits((x[lane].to_bits() & ((1 << 51) - 1)) | ONE) - 1.25);
    let mut z = [0.0; LANES];
    for coefficients in table.iter().rev() {
        for lane in 0..LANES {
            z[lane] = z[lane] * t[lane] + coefficients[segment[lane]];
        }
    }
    z
}

/// Applies the stage to all groups of eight.
#[inline(always)]
fn groups<T: Cell, const WORD: usize>(
    plan: &Plan,
    words: &[u8],
    values: &mut [T],
    open: &mut Open,
    split: impl Fn(&[u8; WORD]) -> (f64, u64),
    quantile: impl Fn([f64; LANES]) -> [f64; LANES],
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
            let whole = steps.round_ties_even();
            let y = (steps - whole) + f64::from_bits(z[lane].to_bits() ^ sign[lane]) * plan.ratio;
            let n = y.round_ties_even();
            let limit = plan.limits[(x[lane].to_bits() >> 51) as usize & 15];
            // Written so that what is not a number is undecided.
            let decided = (y - n).abs() < limit && x[lane] >= plan.least;
            undecided |= u8::from(!decided) << lane;
            values[lane] = if decided { T::narrow((whole + n) * plan.width + 0.0) } else { before[lane] };
        }
        open.groups[group] = undecided;
    }
}
