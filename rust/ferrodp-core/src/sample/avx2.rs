//! First stage with AVX2: tables of eight segments, looked up by permutation of their halves.
//!
//! Plain arrays compiled for AVX2 fetch every coefficient of every lane from memory by itself; hence the intrinsics. On
//! Zen 5, one thread, keystream and later stages included, they raised the rate from 0.22 to 0.40 (Gaussian, short
//! words), from 0.16 to 0.30 (Gaussian, long words) and from 0.17 to 0.34 · 10⁹ samples a second (Laplace): medians of
//! `cargo bench`. What is computed is what [`super::lanes`] computes, with other polynomials; the error budget covers both.
//!
//! The instruction set has no permutation of doubles across a table of more than four, but one of 32-bit words across
//! eight. So a segment is a whole octave (of `−ln`: an eighth of one), the eight coefficients of a power are stored as
//! low and high halves, and one vector of indices looks up both for eight samples; [`eight`] joins them.

use core::arch::x86_64::*;
use core::hint::black_box;

mod eight;

use eight::{
    Eight, INTEGER_HIGH_BITS, TWO_52, TWO_84, joined, load_doubles, load_floats, reordered, store_doubles,
    store_floats, upper_halves,
};

use super::lanes::BELOW_2_63;
use super::tables::quantile::{LOG_BY_EIGHTH, PROBIT_BY_OCTAVE, PROBIT_FAST_BY_OCTAVE};
use super::types::{LEAST_LONG_WORD, Law, Open, PADDED_SAMPLES, Plan, Precision, SAMPLES_PER_GROUP, Word, paired};
use crate::isa::{Isa, Kind};

/// Groups that advance together, two vectors each: see [`super::avx512`].
const GROUPS_ABREAST: usize = PADDED_SAMPLES / SAMPLES_PER_GROUP;

type Floats = [Eight; GROUPS_ABREAST];
/// 32 bits a sample, in natural order.
type Integers = [__m256i; GROUPS_ABREAST];

/// A power's coefficients, split into halves.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Halves {
    low: [u32; 8],
    high: [u32; 8],
}

static PROBIT_HALVES: [Halves; PROBIT_BY_OCTAVE.len()] = halves(&PROBIT_BY_OCTAVE);
static PROBIT_FAST: [Halves; PROBIT_FAST_BY_OCTAVE.len()] = halves(&PROBIT_FAST_BY_OCTAVE);
static LOG_HALVES: [Halves; LOG_BY_EIGHTH.len()] = halves(&LOG_BY_EIGHTH);

/// Splits a table.
#[allow(clippy::cast_possible_truncation, reason = "halves are wanted")]
const fn halves<const POWERS: usize>(table: &[[f64; 8]; POWERS]) -> [Halves; POWERS] {
    let mut split = [Halves { low: [0; 8], high: [0; 8] }; POWERS];
    let mut power = 0;
    while power < POWERS {
        let mut segment = 0;
        while segment < 8 {
            let bits = table[power][segment].to_bits();
            split[power].low[segment] = bits as u32;
            split[power].high[segment] = (bits >> 32) as u32;
            segment += 1;
        }
        power += 1;
    }
    split
}

/// Loads half a table.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: the load stays inside the eight words.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Joins the fraction bits of `x` under `mask` to the exponent of one, and subtracts `center`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn local(x: __m256d, mask: u64, center: f64) -> __m256d {
    let fraction = _mm256_and_pd(x, _mm256_set1_pd(f64::from_bits(mask)));
    _mm256_sub_pd(_mm256_or_pd(fraction, _mm256_set1_pd(1.0)), _mm256_set1_pd(center))
}

/// Returns a power's coefficients for the segments of a group (the low three bits of `segment`).
#[inline]
#[target_feature(enable = "avx2,fma")]
fn looked_up(coefficients: &Halves, segment: __m256i) -> Eight {
    let low = _mm256_permutevar8x32_epi32(load(&coefficients.low), segment);
    let high = _mm256_permutevar8x32_epi32(load(&coefficients.high), segment);
    joined(low, high)
}

/// Evaluates, lane by lane, the polynomial of that lane's segment.
///
/// Callers hide the table's length from the compiler, so that the loop stays a loop: unrolled, its look-ups are moved
/// ahead of their use, registers are spilled for them, and up to a tenth of the speed is lost.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn polynomial(table: &[Halves], segment: &Integers, t: &Floats) -> Floats {
    let mut sum = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    let Some((highest, lower)) = table.split_last() else { return sum };
    for i in 0..GROUPS_ABREAST {
        sum[i] = looked_up(highest, segment[i]);
    }
    for coefficients in lower.iter().rev() {
        for i in 0..GROUPS_ABREAST {
            let c = looked_up(coefficients, segment[i]);
            for j in 0..2 {
                sum[i][j] = _mm256_fmadd_pd(sum[i][j], t[i][j], c[j]);
            }
        }
    }
    sum
}

/// Returns `Φ̄⁻¹` of words with magnitudes `x`, and their segments.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn probit(table: &[Halves], x: &Floats) -> (Floats, Integers) {
    let mut segment = [_mm256_setzero_si256(); GROUPS_ABREAST];
    let mut t = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    for i in 0..GROUPS_ABREAST {
        segment[i] = _mm256_srli_epi32::<20>(upper_halves(x[i]));
        for j in 0..2 {
            t[i][j] = local(x[i][j], (1 << 52) - 1, 1.5);
        }
    }
    (polynomial(table, &segment, &t), segment)
}

/// Returns `−ln(x/2⁶³)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn negative_log(table: &[Halves], x: &Floats) -> Floats {
    let mut part = [_mm256_setzero_si256(); GROUPS_ABREAST];
    let mut t = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    for i in 0..GROUPS_ABREAST {
        part[i] = _mm256_srli_epi32::<17>(upper_halves(x[i]));
        for j in 0..2 {
            t[i][j] = local(x[i][j], (1 << 49) - 1, 1.0 + 1.0 / 16.0);
        }
    }
    let mut z = polynomial(table, &part, &t);
    for i in 0..GROUPS_ABREAST {
        // 2⁵² and the biased exponent
        let exponent = joined(_mm256_srli_epi32::<20>(upper_halves(x[i])), _mm256_set1_epi32(INTEGER_HIGH_BITS));
        for j in 0..2 {
            let octave = _mm256_sub_pd(_mm256_set1_pd(TWO_52 + 1085.0), exponent[j]);
            z[i][j] = _mm256_fmadd_pd(octave, _mm256_set1_pd(core::f64::consts::LN_2), z[i][j]);
        }
    }
    z
}

/// Returns magnitudes (the middle of what the word leaves open) and signs of 32-bit words.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn short_words(words: &[u8; 4 * PADDED_SAMPLES]) -> (Floats, Floats) {
    let mut x = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    let mut sign = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    for (i, words) in words.as_chunks::<{ 4 * SAMPLES_PER_GROUP }>().0.iter().enumerate() {
        // SAFETY: the load stays inside the 32 bytes.
        let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        let magnitude = _mm256_and_si256(words, _mm256_set1_epi32(i32::MAX));
        x[i] = joined(magnitude, _mm256_set1_epi32(INTEGER_HIGH_BITS));
        for x in &mut x[i] {
            *x = _mm256_sub_pd(*x, _mm256_set1_pd(TWO_52 - 0.5));
        }
        sign[i] = joined(_mm256_setzero_si256(), _mm256_and_si256(words, _mm256_set1_epi32(i32::MIN)));
    }
    (x, sign)
}

/// Returns magnitudes, rounded to 53 bits, and signs of 64-bit words.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn long_words(words: &[u8; 8 * PADDED_SAMPLES]) -> (Floats, Floats) {
    let mut x = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    let mut sign = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
    for (i, words) in words.as_chunks::<{ 8 * SAMPLES_PER_GROUP }>().0.iter().enumerate() {
        // SAFETY: both loads stay inside the 64 bytes.
        let words = unsafe { [_mm256_loadu_pd(words.as_ptr().cast()), _mm256_loadu_pd(words[32..].as_ptr().cast())] };
        let words = reordered(words);
        for j in 0..2 {
            sign[i][j] = _mm256_and_pd(words[j], _mm256_set1_pd(-0.0));
            let magnitude = _mm256_castpd_si256(_mm256_andnot_pd(_mm256_set1_pd(-0.0), words[j]));
            // 2⁵² and the low half; 2⁸⁴ and the high half, in units of 2³². Only the last sum rounds.
            let low = _mm256_blend_epi32::<0xAA>(magnitude, _mm256_castpd_si256(_mm256_set1_pd(TWO_52)));
            let high = _mm256_or_si256(_mm256_srli_epi64::<32>(magnitude), _mm256_castpd_si256(_mm256_set1_pd(TWO_84)));
            let high = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(TWO_84 + TWO_52));
            let sum = _mm256_add_pd(high, _mm256_castsi256_pd(low));
            x[i][j] = _mm256_min_pd(sum, _mm256_set1_pd(BELOW_2_63));
        }
    }
    (x, sign)
}

/// Writes `Z` of samples with these 64-bit words, a multiple of [`PADDED_SAMPLES`] of them, within [`Precision::error`] but for those
/// that it notes.
///
/// # Panics
/// If `isa` is not AVX2.
pub(super) fn quantiles(isa: Isa, precision: Precision, words: &[u8], out: &mut [f64], open: &mut Open) {
    assert!(isa.kind() == Kind::Avx2, "the path was chosen by this token");
    let table = match precision {
        Precision::Coarse => PROBIT_FAST.as_slice(),
        Precision::Fine => PROBIT_HALVES.as_slice(),
    };
    // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
    unsafe { quantiles_of(table, words, out, open) }
}

#[target_feature(enable = "avx2,fma")]
fn quantiles_of(table: &[Halves], words: &[u8], out: &mut [f64], open: &mut Open) {
    let table = black_box(table);
    let (out, words) = paired(out.as_chunks_mut::<PADDED_SAMPLES>().0, words.as_chunks::<{ 8 * PADDED_SAMPLES }>().0);
    for row in 0..out.len() {
        let (x, sign) = long_words(&words[row]);
        let (z, _) = probit(table, &x);
        let open = &mut open.groups[row * GROUPS_ABREAST..][..GROUPS_ABREAST];
        for (i, out) in out[row].as_chunks_mut::<SAMPLES_PER_GROUP>().0.iter_mut().enumerate() {
            let mut signed = z[i];
            let mut tail = x[i];
            for j in 0..2 {
                signed[j] = _mm256_xor_pd(z[i][j], sign[i][j]);
                tail[j] = _mm256_cmp_pd::<_CMP_LT_OQ>(x[i][j], _mm256_set1_pd(LEAST_LONG_WORD));
            }
            open[i] = _mm256_movemask_ps(_mm256_castsi256_ps(upper_halves(tail))) as u8;
            store_doubles(out, signed);
        }
    }
}

/// Rounds to the nearest integer.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn nearest(x: __m256d) -> __m256d {
    _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// What [`noised`] needs of one group.
struct Group {
    /// The values.
    v: Eight,
    /// The words' magnitudes and signs.
    x: Eight,
    sign: Eight,
    /// Their quantiles, and how close to an integer counts as decided.
    z: Eight,
    limit: Eight,
}

/// Returns the noised values, those that are not decided as they were, and a mask of these in natural order.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn noised(plan: &Plan, group: &Group, largest: f64) -> (Eight, u8) {
    let mut out = group.v;
    let mut undecided = group.v;
    for j in 0..2 {
        let steps = _mm256_mul_pd(group.v[j], _mm256_set1_pd(plan.reciprocal));
        let whole = nearest(steps);
        let offset = _mm256_sub_pd(steps, whole);
        let signed = _mm256_xor_pd(group.z[j], group.sign[j]);
        let y = _mm256_fmadd_pd(signed, _mm256_set1_pd(plan.ratio), offset);
        let n = nearest(y);
        let distance = _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_sub_pd(y, n));
        // Not-less-than, unordered: what is not a number is undecided.
        let unclear = _mm256_cmp_pd::<_CMP_NLT_UQ>(distance, group.limit[j]);
        let tail = _mm256_cmp_pd::<_CMP_LT_OQ>(group.x[j], _mm256_set1_pd(plan.least));
        undecided[j] = _mm256_or_pd(unclear, tail);
        let sum = _mm256_fmadd_pd(_mm256_add_pd(whole, n), _mm256_set1_pd(plan.width), _mm256_setzero_pd());
        let cut = _mm256_min_pd(_mm256_max_pd(sum, _mm256_set1_pd(-largest)), _mm256_set1_pd(largest));
        out[j] = _mm256_blendv_pd(cut, group.v[j], undecided[j]);
    }
    let mask = _mm256_movemask_ps(_mm256_castsi256_ps(upper_halves(undecided)));
    (out, mask as u8)
}

/// Returns, by octave, the upper half of the smaller of its limits: below it by 2⁻²⁰ of itself at most.
#[allow(clippy::cast_possible_truncation, reason = "the upper half is 32 bits")]
fn limits_by_octave(plan: &Plan) -> [u32; 8] {
    core::array::from_fn(|octave| {
        let limit = plan.limits[2 * octave].min(plan.limits[2 * octave + 1]);
        (limit.to_bits() >> 32) as u32
    })
}

macro_rules! kernels {
    ($module:ident, $type:ty, $load:expr, $store:expr) => {
        pub(super) mod $module {
            use super::*;

            /// Adds noise to `values`, a multiple of [`PADDED_SAMPLES`] of them with a word each; leaves alone, and notes,
            /// what it cannot decide.
            ///
            /// # Panics
            /// If `isa` is not AVX2.
            pub(in super::super) fn first_stage(
                isa: Isa,
                plan: &Plan,
                words: &[u8],
                values: &mut [$type],
                open: &mut Open,
            ) {
                assert!(isa.kind() == Kind::Avx2, "the path was chosen by this token");
                // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
                unsafe {
                    match (plan.word, plan.law) {
                        (Word::Short, _) => short_gaussian(plan, words, values, open),
                        (Word::Long, Law::Gaussian) => long_gaussian(plan, words, values, open),
                        (Word::Long, Law::Laplace) => long_laplace(plan, words, values, open),
                    }
                }
            }

            #[target_feature(enable = "avx2,fma")]
            fn short_gaussian(plan: &Plan, words: &[u8], values: &mut [$type], open: &mut Open) {
                let table = black_box(PROBIT_FAST.as_slice());
                let limits = load(&limits_by_octave(plan));
                let (values, words) =
                    paired(values.as_chunks_mut::<PADDED_SAMPLES>().0, words.as_chunks::<{ 4 * PADDED_SAMPLES }>().0);
                for row in 0..values.len() {
                    let (x, sign) = short_words(&words[row]);
                    let (z, octave) = probit(table, &x);
                    let mut limit = [[_mm256_setzero_pd(); 2]; GROUPS_ABREAST];
                    for i in 0..GROUPS_ABREAST {
                        let upper = _mm256_permutevar8x32_epi32(limits, octave[i]);
                        limit[i] = joined(_mm256_setzero_si256(), upper);
                    }
                    finish(plan, &mut values[row], &x, &sign, &z, &limit, &mut open.groups[row * GROUPS_ABREAST..]);
                }
            }

            #[target_feature(enable = "avx2,fma")]
            fn long_gaussian(plan: &Plan, words: &[u8], values: &mut [$type], open: &mut Open) {
                let table = black_box(PROBIT_HALVES.as_slice());
                let limit = [[_mm256_set1_pd(plan.limits[0]); 2]; GROUPS_ABREAST];
                let (values, words) =
                    paired(values.as_chunks_mut::<PADDED_SAMPLES>().0, words.as_chunks::<{ 8 * PADDED_SAMPLES }>().0);
                for row in 0..values.len() {
                    let (x, sign) = long_words(&words[row]);
                    let (z, _) = probit(table, &x);
                    finish(plan, &mut values[row], &x, &sign, &z, &limit, &mut open.groups[row * GROUPS_ABREAST..]);
                }
            }

            #[target_feature(enable = "avx2,fma")]
            fn long_laplace(plan: &Plan, words: &[u8], values: &mut [$type], open: &mut Open) {
                let table = black_box(LOG_HALVES.as_slice());
                let limit = [[_mm256_set1_pd(plan.limits[0]); 2]; GROUPS_ABREAST];
                let (values, words) =
                    paired(values.as_chunks_mut::<PADDED_SAMPLES>().0, words.as_chunks::<{ 8 * PADDED_SAMPLES }>().0);
                for row in 0..values.len() {
                    let (x, sign) = long_words(&words[row]);
                    let z = negative_log(table, &x);
                    finish(plan, &mut values[row], &x, &sign, &z, &limit, &mut open.groups[row * GROUPS_ABREAST..]);
                }
            }

            #[inline]
            #[allow(clippy::too_many_arguments, reason = "registers, not a structure")]
            #[target_feature(enable = "avx2,fma")]
            fn finish(
                plan: &Plan,
                values: &mut [$type; PADDED_SAMPLES],
                x: &Floats,
                sign: &Floats,
                z: &Floats,
                limit: &Floats,
                open: &mut [u8],
            ) {
                let open = &mut open[..GROUPS_ABREAST];
                for (i, values) in values.as_chunks_mut::<SAMPLES_PER_GROUP>().0.iter_mut().enumerate() {
                    let group = Group { v: $load(values), x: x[i], sign: sign[i], z: z[i], limit: limit[i] };
                    let (out, undecided) = noised(plan, &group, f64::from(<$type>::MAX));
                    open[i] = undecided;
                    $store(values, out);
                }
            }
        }
    };
}

kernels!(single, f32, load_floats, store_floats);
kernels!(double, f64, load_doubles, store_doubles);
