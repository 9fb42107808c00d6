//! First stage with AVX-512: the tables sit in registers or the first-level cache and are looked up by permutation.
//!
//! Plain arrays compiled for AVX-512 gather from memory instead, at a quarter of the speed; hence the intrinsics. What
//! is computed is what [`super::lanes`] computes, up to fused operations and the direction in which a word is cut to
//! 53 bits; the error budget covers both.

use core::arch::x86_64::*;

use super::chunk::{GROUP, Open, Plan};
use super::tables::quantile::{LOG_BY_POWER, PROBIT_BY_POWER, PROBIT_FAST_BY_POWER};
use super::{Law, Word};
use crate::isa::{Isa, Kind};

/// Looks 8 indices (low four bits) up in a table of 16.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn look_up(table: &[f64; 16], index: __m512i) -> __m512d {
    // SAFETY: both loads stay inside the 16 entries.
    let (low, high) = unsafe { (_mm512_loadu_pd(table.as_ptr()), _mm512_loadu_pd(table[8..].as_ptr())) };
    _mm512_permutex2var_pd(low, index, high)
}

/// Returns `fraction bits of x` joined to the exponent of one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn with_exponent_of_one(x: __m512i, mask: u64) -> __m512d {
    let mask = _mm512_set1_epi64(mask.cast_signed());
    let one = _mm512_set1_epi64(1023 << 52);
    // (x & mask) | one
    _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0xEA>(x, mask, one))
}

/// Evaluates, lane by lane, the polynomial of that lane's segment.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn polynomial<const POWERS: usize>(table: &[[f64; 16]; POWERS], segment: __m512i, t: __m512d) -> __m512d {
    let mut sum = look_up(&table[POWERS - 1], segment);
    for coefficients in table[..POWERS - 1].iter().rev() {
        sum = _mm512_fmadd_pd(sum, t, look_up(coefficients, segment));
    }
    sum
}

/// Returns `Φ̄⁻¹` of words with magnitudes `x`, and their segments.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn probit<const POWERS: usize>(table: &[[f64; 16]; POWERS], x: __m512d) -> (__m512d, __m512i) {
    let bits = _mm512_castpd_si512(x);
    let segment = _mm512_srli_epi64::<51>(bits);
    let t = _mm512_sub_pd(with_exponent_of_one(bits, (1 << 51) - 1), _mm512_set1_pd(1.25));
    (polynomial(table, segment, t), segment)
}

/// Returns `−ln(x/2⁶³)`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn negative_log(x: __m512d) -> __m512d {
    let bits = _mm512_castpd_si512(x);
    let part = _mm512_srli_epi64::<48>(bits);
    let t = _mm512_sub_pd(with_exponent_of_one(bits, (1 << 48) - 1), _mm512_set1_pd(1.0 + 1.0 / 32.0));
    let exponent = _mm512_getexp_pd(x);
    let octave = _mm512_sub_pd(_mm512_set1_pd(62.0), exponent);
    _mm512_fmadd_pd(octave, _mm512_set1_pd(core::f64::consts::LN_2), polynomial(&LOG_BY_POWER, part, t))
}

/// Returns magnitudes and signs (in bit 63) of eight 32-bit words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn short_words(words: &[u8; 32]) -> (__m512d, __m512i) {
    // SAFETY: the load stays inside the 32 bytes.
    let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
    let magnitude = _mm256_and_si256(words, _mm256_set1_epi32(i32::MAX));
    let x = _mm512_add_pd(_mm512_cvtepi32_pd(magnitude), _mm512_set1_pd(0.5));
    (x, _mm512_cvtepi32_epi64(words))
}

/// Returns magnitudes (cut to 53 bits) and signs (in bit 63) of eight 64-bit words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn long_words(words: &[u8; 64]) -> (__m512d, __m512i) {
    // SAFETY: the load stays inside the 64 bytes.
    let words = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    let magnitude = _mm512_and_si512(words, _mm512_set1_epi64(i64::MAX));
    (_mm512_cvt_roundepi64_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(magnitude), words)
}

/// Rounds to the nearest integer.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn nearest(x: __m512d) -> __m512d {
    _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// Returns the noised values and a mask of the lanes that are not decided.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn noised(
    plan: &Plan,
    v: __m512d,
    x: __m512d,
    sign: __m512i,
    z: __m512d,
    limit: __m512d,
    largest: f64,
) -> (__m512d, u8) {
    let steps = _mm512_mul_pd(v, _mm512_set1_pd(plan.reciprocal));
    let whole = nearest(steps);
    let offset = _mm512_sub_pd(steps, whole);
    // z ^ (sign & top bit)
    let top = _mm512_set1_epi64(i64::MIN);
    let signed = _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0x78>(_mm512_castpd_si512(z), sign, top));
    let y = _mm512_fmadd_pd(signed, _mm512_set1_pd(plan.ratio), offset);
    let n = nearest(y);
    let distance = _mm512_abs_pd(_mm512_sub_pd(y, n));
    // Not-less-than, unordered: what is not a number is undecided.
    let unclear = _mm512_cmp_pd_mask::<_CMP_NLT_UQ>(distance, limit);
    let tail = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, _mm512_set1_pd(plan.least));
    let sum = _mm512_fmadd_pd(_mm512_add_pd(whole, n), _mm512_set1_pd(plan.width), _mm512_setzero_pd());
    let cut = _mm512_min_pd(_mm512_max_pd(sum, _mm512_set1_pd(-largest)), _mm512_set1_pd(largest));
    (cut, unclear | tail)
}

/// Returns both at the length of the shorter. Loops index them: iterators of pairs do not compile to plain loops here.
#[inline]
fn paired<'a, T, U>(values: &'a mut [T], words: &'a [U]) -> (&'a mut [T], &'a [U]) {
    let len = values.len().min(words.len());
    (&mut values[..len], &words[..len])
}

macro_rules! kernels {
    ($module:ident, $type:ty, $load:expr, $widen:expr, $narrow:expr, $blend:expr, $store:expr) => {
        pub(super) mod $module {
            use super::*;

            /// Adds noise to `values`, a multiple of eight of them with a word each; leaves alone, and notes, what it
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
                // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
                unsafe {
                    match (plan.word, plan.law) {
                        (Word::Short, _) => short_gaussian(plan, words, values, open),
                        (Word::Long, Law::Gaussian) => long_gaussian(plan, words, values, open),
                        (Word::Long, Law::Laplace) => long_laplace(plan, words, values, open),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn short_gaussian(plan: &Plan, words: &[u8], values: &mut [$type], open: &mut Open) {
                let (values, words) = paired(values.as_chunks_mut::<GROUP>().0, words.as_chunks::<32>().0);
                for group in 0..values.len() {
                    let (x, sign) = short_words(&words[group]);
                    let (z, segment) = probit(&PROBIT_FAST_BY_POWER, x);
                    let limit = look_up(&plan.limits, segment);
                    finish(plan, &mut values[group], x, sign, z, limit, &mut open.groups[group]);
                }
            }

            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn long_gaussian(plan: &Plan, words: &[u8], values: &mut [$type], open: &mut Open) {
                let limit = _mm512_set1_pd(plan.limits[0]);
                let (values, words) = paired(values.as_chunks_mut::<GROUP>().0, words.as_chunks::<64>().0);
                for group in 0..values.len() {
                    let (x, sign) = long_words(&words[group]);
                    let (z, _) = probit(&PROBIT_BY_POWER, x);
                    finish(plan, &mut values[group], x, sign, z, limit, &mut open.groups[group]);
                }
            }

            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn long_laplace(plan: &Plan, words: &[u8], values: &mut [$type], open: &mut Open) {
                let limit = _mm512_set1_pd(plan.limits[0]);
                let (values, words) = paired(values.as_chunks_mut::<GROUP>().0, words.as_chunks::<64>().0);
                for group in 0..values.len() {
                    let (x, sign) = long_words(&words[group]);
                    finish(plan, &mut values[group], x, sign, negative_log(x), limit, &mut open.groups[group]);
                }
            }

            #[inline]
            #[allow(clippy::too_many_arguments, reason = "registers, not a structure")]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn finish(
                plan: &Plan,
                values: &mut [$type; GROUP],
                x: __m512d,
                sign: __m512i,
                z: __m512d,
                limit: __m512d,
                open: &mut u8,
            ) {
                // SAFETY: the load stays inside the eight values.
                let before = unsafe { $load(values.as_ptr()) };
                let (out, undecided) = noised(plan, $widen(before), x, sign, z, limit, f64::from(<$type>::MAX));
                *open = undecided;
                // SAFETY: the store stays inside the eight values.
                unsafe { $store(values.as_mut_ptr(), $blend(undecided, $narrow(out), before)) };
            }
        }
    };
}

kernels!(single, f32, _mm256_loadu_ps, _mm512_cvtps_pd, _mm512_cvtpd_ps, _mm256_mask_blend_ps, _mm256_storeu_ps);
kernels!(
    double,
    f64,
    _mm512_loadu_pd,
    core::convert::identity,
    core::convert::identity,
    _mm512_mask_blend_pd,
    _mm512_storeu_pd
);
