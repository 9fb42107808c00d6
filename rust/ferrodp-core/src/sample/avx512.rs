//! First stage with AVX-512: the tables sit in registers or the first-level cache and are looked up by permutation.
//!
//! Plain arrays fetch every coefficient of every lane from memory by itself: compiled for AVX2, the body of
//! [`super::lanes`] ran at a quarter of this speed (Zen 5, float32 Gaussian, one thread: 0.21 against 0.85 · 10⁹ samples
//! a second). Hence the intrinsics. What is computed is what that body computes, up to fused operations and the direction
//! in which a word is cut to 53 bits; the error budget covers both.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::tables::quantile::{
    LOG_BY_POWER, PROBIT_BY_OCTAVE, PROBIT_BY_POWER, PROBIT_FAST_BY_OCTAVE, PROBIT_FAST_BY_POWER,
};
use super::types::{LEAST_LONG_WORD, Law, Open, PADDED_SAMPLES, Plan, Precision, SAMPLES_PER_GROUP, Word, paired};
use crate::isa::{Isa, Kind};

/// Vectors that advance together and share the loads of a table: their chains of dependent operations hide each other's
/// latency. (Zen 4, 64-bit words, keystream included: 2.23 ns a sample, 2.41 of two unrolled.) What four leave over are two.
const VECTORS_ABREAST: usize = 4;
const LEFT_OVER: usize = PADDED_SAMPLES / SAMPLES_PER_GROUP;

type Floats<const N: usize> = [__m512d; N];
type Integers<const N: usize> = [__m512i; N];

/// Joins the fraction bits of `x` under `mask` to the exponent of one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn with_exponent_of_one(x: __m512i, mask: u64) -> __m512d {
    let mask = _mm512_set1_epi64(mask.cast_signed());
    let one = _mm512_set1_epi64(1023 << 52);
    // (x & mask) | one
    _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0xEA>(x, mask, one))
}

/// Loads a table of 16.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn halves(table: &[f64; 16]) -> (__m512d, __m512d) {
    // SAFETY: both loads stay inside the 16 entries.
    unsafe { (_mm512_loadu_pd(table.as_ptr()), _mm512_loadu_pd(table[8..].as_ptr())) }
}

/// Evaluates, lane by lane, the polynomial of that lane's segment (the low four bits of `segment`).
///
/// Callers hide the table's length from the compiler, so that the loop stays a loop: unrolled, one vector's chain is put
/// behind the other's, and neither hides the other's latency.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn polynomial<const N: usize>(table: &[[f64; 16]], segment: &Integers<N>, t: &Floats<N>) -> Floats<N> {
    let mut sum = [_mm512_setzero_pd(); N];
    let Some((highest, lower)) = table.split_last() else { return sum };
    let (low, high) = halves(highest);
    for i in 0..N {
        sum[i] = _mm512_permutex2var_pd(low, segment[i], high);
    }
    for coefficients in lower.iter().rev() {
        let (low, high) = halves(coefficients);
        for i in 0..N {
            sum[i] = _mm512_fmadd_pd(sum[i], t[i], _mm512_permutex2var_pd(low, segment[i], high));
        }
    }
    sum
}

/// Returns `Φ̄⁻¹` of words with magnitudes `x`, and their segments.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn probit<const N: usize>(table: &[[f64; 16]], x: &Floats<N>) -> (Floats<N>, Integers<N>) {
    let mut segment = [_mm512_setzero_si512(); N];
    let mut t = [_mm512_setzero_pd(); N];
    for i in 0..N {
        let bits = _mm512_castpd_si512(x[i]);
        segment[i] = _mm512_srli_epi64::<51>(bits);
        t[i] = _mm512_sub_pd(with_exponent_of_one(bits, (1 << 51) - 1), _mm512_set1_pd(1.25));
    }
    (polynomial(table, &segment, &t), segment)
}

/// The same by whole octaves, for Zen 4: looking up one of eight takes half the time that one of sixteen takes, and of the
/// polynomials, which are longer by a quarter, two thirds remain.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn probit_by_octave<const N: usize>(table: &[[f64; 8]], x: &Floats<N>) -> Floats<N> {
    let mut octave = [_mm512_setzero_si512(); N];
    let mut t = [_mm512_setzero_pd(); N];
    let mut sum = [_mm512_setzero_pd(); N];
    for i in 0..N {
        let bits = _mm512_castpd_si512(x[i]);
        octave[i] = _mm512_srli_epi64::<52>(bits);
        t[i] = _mm512_sub_pd(with_exponent_of_one(bits, (1 << 52) - 1), _mm512_set1_pd(1.5));
    }
    let Some((highest, lower)) = table.split_last() else { return sum };
    // SAFETY: the load stays inside the eight entries.
    let highest = unsafe { _mm512_loadu_pd(highest.as_ptr()) };
    for i in 0..N {
        sum[i] = _mm512_permutexvar_pd(octave[i], highest);
    }
    for coefficients in lower.iter().rev() {
        // SAFETY: the load stays inside the eight entries.
        let coefficients = unsafe { _mm512_loadu_pd(coefficients.as_ptr()) };
        for i in 0..N {
            sum[i] = _mm512_fmadd_pd(sum[i], t[i], _mm512_permutexvar_pd(octave[i], coefficients));
        }
    }
    sum
}

/// Returns `−ln(x/2⁶³)`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn negative_log<const N: usize>(table: &[[f64; 16]], x: &Floats<N>) -> Floats<N> {
    let mut part = [_mm512_setzero_si512(); N];
    let mut t = [_mm512_setzero_pd(); N];
    for i in 0..N {
        let bits = _mm512_castpd_si512(x[i]);
        part[i] = _mm512_srli_epi64::<48>(bits);
        t[i] = _mm512_sub_pd(with_exponent_of_one(bits, (1 << 48) - 1), _mm512_set1_pd(1.0 + 1.0 / 32.0));
    }
    let mut z = polynomial(table, &part, &t);
    for i in 0..N {
        let octave = _mm512_sub_pd(_mm512_set1_pd(62.0), _mm512_getexp_pd(x[i]));
        z[i] = _mm512_fmadd_pd(octave, _mm512_set1_pd(core::f64::consts::LN_2), z[i]);
    }
    z
}

/// Returns magnitudes and signs (in bit 63) of 32-bit words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn short_words<const N: usize>(words: &[[u8; 4 * SAMPLES_PER_GROUP]; N]) -> (Floats<N>, Integers<N>) {
    let mut x = [_mm512_setzero_pd(); N];
    let mut sign = [_mm512_setzero_si512(); N];
    for (i, words) in words.iter().enumerate() {
        // SAFETY: the load stays inside the 32 bytes.
        let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        let magnitude = _mm256_and_si256(words, _mm256_set1_epi32(i32::MAX));
        x[i] = _mm512_add_pd(_mm512_cvtepi32_pd(magnitude), _mm512_set1_pd(0.5));
        sign[i] = _mm512_cvtepi32_epi64(words);
    }
    (x, sign)
}

/// Returns magnitudes (cut to 53 bits) and signs (in bit 63) of 64-bit words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn long_words<const N: usize>(words: &[[u8; 8 * SAMPLES_PER_GROUP]; N]) -> (Floats<N>, Integers<N>) {
    let mut x = [_mm512_setzero_pd(); N];
    let mut sign = [_mm512_setzero_si512(); N];
    for (i, words) in words.iter().enumerate() {
        // SAFETY: the load stays inside the 64 bytes.
        sign[i] = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        let magnitude = _mm512_and_si512(sign[i], _mm512_set1_epi64(i64::MAX));
        x[i] = _mm512_cvt_roundepi64_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(magnitude);
    }
    (x, sign)
}

/// Writes `Z` of samples with these 64-bit words, a multiple of [`PADDED_SAMPLES`] of them, within [`Precision::error`] but for those
/// that it notes.
///
/// # Panics
/// If `isa` is not AVX-512.
pub(super) fn quantiles(isa: Isa, precision: Precision, words: &[u8], out: &mut [f64], open: &mut Open) {
    assert!(isa.kind() == Kind::Avx512, "the path was chosen by this token");
    let table = match precision {
        Precision::Coarse => PROBIT_FAST_BY_OCTAVE.as_slice(),
        Precision::Fine => PROBIT_BY_OCTAVE.as_slice(),
    };
    let abreast = out.len() / (VECTORS_ABREAST * SAMPLES_PER_GROUP) * VECTORS_ABREAST;
    let (many, few) = out.as_chunks_mut::<SAMPLES_PER_GROUP>().0.split_at_mut(abreast);
    let (open, open_few) = open.groups.split_at_mut(abreast);
    let (words, words_few) = words.as_chunks().0.split_at(abreast);
    // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
    unsafe {
        quantiles_of::<VECTORS_ABREAST>(table, words, many, open);
        quantiles_of::<LEFT_OVER>(table, words_few, few, open_few);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn quantiles_of<const N: usize>(
    table: &[[f64; 8]],
    words: &[[u8; 8 * SAMPLES_PER_GROUP]],
    out: &mut [[f64; SAMPLES_PER_GROUP]],
    open: &mut [u8],
) {
    let table = black_box(table);
    let (out, words) = paired(out.as_chunks_mut::<N>().0, words.as_chunks::<N>().0);
    for row in 0..out.len() {
        let (x, sign) = long_words(&words[row]);
        let z = probit_by_octave(table, &x);
        let open = &mut open[row * N..][..N];
        for (i, out) in out[row].iter_mut().enumerate() {
            let signed = with_sign(z[i], sign[i]);
            open[i] = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x[i], _mm512_set1_pd(LEAST_LONG_WORD));
            // SAFETY: the store stays inside the eight values.
            unsafe { _mm512_storeu_pd(out.as_mut_ptr(), signed) };
        }
    }
}

/// Returns `z` with the sign of a word.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn with_sign(z: __m512d, sign: __m512i) -> __m512d {
    // z ^ (sign & top bit)
    let top = _mm512_set1_epi64(i64::MIN);
    _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0x78>(_mm512_castpd_si512(z), sign, top))
}

/// Rounds to the nearest integer.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn nearest(x: __m512d) -> __m512d {
    _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// What [`noised`] needs of one vector.
struct Vector {
    /// The values.
    v: __m512d,
    /// The words' magnitudes and signs.
    x: __m512d,
    sign: __m512i,
    /// Their quantiles, and how close to an integer counts as decided.
    z: __m512d,
    limit: __m512d,
}

/// Returns the noised values and a mask of the lanes that are not decided.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn noised(plan: &Plan, vector: &Vector, largest: f64) -> (__m512d, u8) {
    let steps = _mm512_mul_pd(vector.v, _mm512_set1_pd(plan.reciprocal));
    let whole = nearest(steps);
    let offset = _mm512_sub_pd(steps, whole);
    let y = _mm512_fmadd_pd(with_sign(vector.z, vector.sign), _mm512_set1_pd(plan.ratio), offset);
    let n = nearest(y);
    let distance = _mm512_abs_pd(_mm512_sub_pd(y, n));
    // Not-less-than, unordered: what is not a number is undecided.
    let unclear = _mm512_cmp_pd_mask::<_CMP_NLT_UQ>(distance, vector.limit);
    let tail = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(vector.x, _mm512_set1_pd(plan.least));
    let sum = _mm512_fmadd_pd(_mm512_add_pd(whole, n), _mm512_set1_pd(plan.width), _mm512_setzero_pd());
    let cut = _mm512_min_pd(_mm512_max_pd(sum, _mm512_set1_pd(-largest)), _mm512_set1_pd(largest));
    (cut, unclear | tail)
}

/// Returns the nearest floats; what is rounded to zero is a positive zero.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn narrow(x: __m512d) -> __m256 {
    _mm256_add_ps(_mm512_cvtpd_ps(x), _mm256_setzero_ps())
}

macro_rules! kernels {
    ($module:ident, $type:ty, $load:expr, $widen:expr, $narrow:expr, $blend:expr, $store:expr) => {
        pub(super) mod $module {
            use super::*;

            /// Adds noise to `values`, a multiple of [`PADDED_SAMPLES`] of them with a word each; leaves alone, and notes, what it
            /// cannot decide.
            ///
            /// # Panics
            /// If `isa` is not AVX-512.
            pub(in super::super) fn first_stage(
                isa: Isa,
                plan: &Plan,
                words: &[u8],
                values: &mut [$type],
                open: &mut Open,
            ) {
                assert!(isa.kind() == Kind::Avx512, "the path was chosen by this token");
                let abreast = values.len() / (VECTORS_ABREAST * SAMPLES_PER_GROUP) * VECTORS_ABREAST;
                let (many, few) = values.as_chunks_mut::<SAMPLES_PER_GROUP>().0.split_at_mut(abreast);
                let (open, open_few) = open.groups.split_at_mut(abreast);
                // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
                unsafe {
                    match plan.word {
                        Word::Short => {
                            let (words, words_few) = words.as_chunks().0.split_at(abreast);
                            short_words_of::<VECTORS_ABREAST>(plan, words, many, open);
                            short_words_of::<LEFT_OVER>(plan, words_few, few, open_few);
                        }
                        Word::Long => {
                            let (words, words_few) = words.as_chunks().0.split_at(abreast);
                            long_words_of::<VECTORS_ABREAST>(plan, words, many, open);
                            long_words_of::<LEFT_OVER>(plan, words_few, few, open_few);
                        }
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn short_words_of<const N: usize>(
                plan: &Plan,
                words: &[[u8; 4 * SAMPLES_PER_GROUP]],
                values: &mut [[$type; SAMPLES_PER_GROUP]],
                open: &mut [u8],
            ) {
                let table = black_box(PROBIT_FAST_BY_POWER.as_slice());
                let (low, high) = halves(&plan.limits);
                let (values, words) = paired(values.as_chunks_mut::<N>().0, words.as_chunks::<N>().0);
                for row in 0..values.len() {
                    let (x, sign) = short_words(&words[row]);
                    let (z, segment) = probit(table, &x);
                    let mut limit = [_mm512_setzero_pd(); N];
                    for i in 0..N {
                        limit[i] = _mm512_permutex2var_pd(low, segment[i], high);
                    }
                    finish(plan, &mut values[row], &x, &sign, &z, &limit, &mut open[row * N..]);
                }
            }

            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn long_words_of<const N: usize>(
                plan: &Plan,
                words: &[[u8; 8 * SAMPLES_PER_GROUP]],
                values: &mut [[$type; SAMPLES_PER_GROUP]],
                open: &mut [u8],
            ) {
                let limit = [_mm512_set1_pd(plan.limits[0]); N];
                let (values, words) = paired(values.as_chunks_mut::<N>().0, words.as_chunks::<N>().0);
                match plan.law {
                    Law::Gaussian => {
                        let table = black_box(PROBIT_BY_POWER.as_slice());
                        for row in 0..values.len() {
                            let (x, sign) = long_words(&words[row]);
                            let (z, _) = probit(table, &x);
                            finish(plan, &mut values[row], &x, &sign, &z, &limit, &mut open[row * N..]);
                        }
                    }
                    Law::Laplace => {
                        let table = black_box(LOG_BY_POWER.as_slice());
                        for row in 0..values.len() {
                            let (x, sign) = long_words(&words[row]);
                            let z = negative_log(table, &x);
                            finish(plan, &mut values[row], &x, &sign, &z, &limit, &mut open[row * N..]);
                        }
                    }
                }
            }

            #[inline]
            #[allow(clippy::too_many_arguments, reason = "registers, not a structure")]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn finish<const N: usize>(
                plan: &Plan,
                values: &mut [[$type; SAMPLES_PER_GROUP]; N],
                x: &Floats<N>,
                sign: &Integers<N>,
                z: &Floats<N>,
                limit: &Floats<N>,
                open: &mut [u8],
            ) {
                let open = &mut open[..N];
                for (i, values) in values.iter_mut().enumerate() {
                    // SAFETY: the load stays inside the eight values.
                    let before = unsafe { $load(values.as_ptr()) };
                    let vector = Vector { v: $widen(before), x: x[i], sign: sign[i], z: z[i], limit: limit[i] };
                    let (out, undecided) = noised(plan, &vector, f64::from(<$type>::MAX));
                    open[i] = undecided;
                    // SAFETY: the store stays inside the eight values.
                    unsafe { $store(values.as_mut_ptr(), $blend(undecided, $narrow(out), before)) };
                }
            }
        }
    };
}

kernels!(single, f32, _mm256_loadu_ps, _mm512_cvtps_pd, narrow, _mm256_mask_blend_ps, _mm256_storeu_ps);
kernels!(
    double,
    f64,
    _mm512_loadu_pd,
    core::convert::identity,
    core::convert::identity,
    _mm512_mask_blend_pd,
    _mm512_storeu_pd
);
