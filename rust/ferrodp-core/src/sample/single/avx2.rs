//! The single-precision stage with AVX2: eight lanes, tables of eight octaves in one register.
//!
//! Octaves beyond those, one sample in 256, stay open.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::{BELOW_2_31, ONE_F32_BITS, Single};
use crate::isa::{Isa, Kind};
use crate::sample::tables::single::BY_OCTAVE;
use crate::sample::types::{Open, PADDED_SAMPLES, SAMPLES_PER_GROUP, paired};

/// Vectors that advance together.
const SINGLE_VECTORS_ABREAST: usize = PADDED_SAMPLES / SAMPLES_PER_GROUP;

/// Words below this are beyond the eight octaves.
const MIN_OCTAVE_WORD: f32 = 8_388_608.0;

/// Returns the entries of the lanes' octaves (the low three bits of `octave`).
#[inline]
#[target_feature(enable = "avx2,fma")]
fn looked_up(table: &[f32; 8], octave: __m256i) -> __m256 {
    // SAFETY: the load stays inside the eight entries.
    _mm256_permutevar8x32_ps(unsafe { _mm256_loadu_ps(table.as_ptr()) }, octave)
}

/// Rounds to the nearest integer.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn nearest(x: __m256) -> __m256 {
    _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// See [`super::stage`].
///
/// # Panics
/// If `isa` is not AVX2.
pub(super) fn first_stage(isa: Isa, single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    assert!(isa.kind() == Kind::Avx2, "the path was chosen by this token");
    // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
    unsafe { rows(single, words, values, open) }
}

#[target_feature(enable = "avx2,fma")]
fn rows(single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    // Lengths that the compiler does not know: see `polynomial`.
    let table = black_box(BY_OCTAVE.as_slice());
    let (values, words) =
        paired(values.as_chunks_mut::<PADDED_SAMPLES>().0, words.as_chunks::<{ 4 * PADDED_SAMPLES }>().0);
    for row in 0..values.len() {
        let words = words[row].as_chunks::<{ 4 * SAMPLES_PER_GROUP }>().0;
        let mut word = [_mm256_setzero_si256(); SINGLE_VECTORS_ABREAST];
        let mut x = [_mm256_setzero_ps(); SINGLE_VECTORS_ABREAST];
        let mut octave = [_mm256_setzero_si256(); SINGLE_VECTORS_ABREAST];
        let mut t = [_mm256_setzero_ps(); SINGLE_VECTORS_ABREAST];
        for i in 0..SINGLE_VECTORS_ABREAST {
            // SAFETY: the load stays inside the 32 bytes.
            word[i] = unsafe { _mm256_loadu_si256(words[i].as_ptr().cast()) };
            let magnitude = _mm256_and_si256(word[i], _mm256_set1_epi32(i32::MAX));
            x[i] = _mm256_min_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(BELOW_2_31));
            octave[i] = _mm256_srli_epi32::<23>(_mm256_castps_si256(x[i]));
            let mask = _mm256_set1_ps(f32::from_bits((1 << 23) - 1));
            let fraction = _mm256_or_ps(_mm256_and_ps(x[i], mask), _mm256_set1_ps(f32::from_bits(ONE_F32_BITS)));
            t[i] = _mm256_sub_ps(fraction, _mm256_set1_ps(1.5));
        }
        let z = polynomial(table, &octave, &t);
        for (i, values) in values[row].as_chunks_mut::<SAMPLES_PER_GROUP>().0.iter_mut().enumerate() {
            let limit = looked_up(&single.octave_limits, octave[i]);
            open.groups[row * SINGLE_VECTORS_ABREAST + i] = finish(single, values, word[i], x[i], z[i], limit);
        }
    }
}

/// Evaluates, lane by lane, the polynomial of that lane's octave.
///
/// Callers hide the table's length from the compiler, so that the loop stays a loop: unrolled, one vector's chain is put
/// behind the other's, and neither hides the other's latency.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn polynomial(
    table: &[[f32; 8]],
    octave: &[__m256i; SINGLE_VECTORS_ABREAST],
    t: &[__m256; SINGLE_VECTORS_ABREAST],
) -> [__m256; SINGLE_VECTORS_ABREAST] {
    let mut sum = [_mm256_setzero_ps(); SINGLE_VECTORS_ABREAST];
    let Some((highest, lower)) = table.split_last() else { return sum };
    for i in 0..SINGLE_VECTORS_ABREAST {
        sum[i] = looked_up(highest, octave[i]);
    }
    for coefficients in lower.iter().rev() {
        for i in 0..SINGLE_VECTORS_ABREAST {
            sum[i] = _mm256_fmadd_ps(sum[i], t[i], looked_up(coefficients, octave[i]));
        }
    }
    sum
}

/// Adds noise to a group of values, those apart that it does not decide, and returns a mask of these.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn finish(
    single: &Single,
    values: &mut [f32; SAMPLES_PER_GROUP],
    word: __m256i,
    x: __m256,
    z: __m256,
    limit: __m256,
) -> u8 {
    let sign_bit = _mm256_set1_ps(-0.0);
    // SAFETY: the load stays inside the eight values.
    let before = unsafe { _mm256_loadu_ps(values.as_ptr()) };
    let signed = _mm256_xor_ps(z, _mm256_and_ps(_mm256_castsi256_ps(word), sign_bit));
    // Not above the largest number, ordered: finite.
    let size = _mm256_andnot_ps(sign_bit, before);
    let finite = _mm256_cmp_ps::<_CMP_LE_OQ>(size, _mm256_set1_ps(f32::MAX));
    let steps = _mm256_mul_ps(_mm256_and_ps(before, finite), _mm256_set1_ps(single.reciprocal));
    let whole = nearest(steps);
    let y = _mm256_fmadd_ps(signed, _mm256_set1_ps(single.ratio), _mm256_sub_ps(steps, whole));
    let n = nearest(y);
    let distance = _mm256_andnot_ps(sign_bit, _mm256_sub_ps(y, n));
    // Not-less-than, unordered: what is not a number is undecided.
    let unclear = _mm256_cmp_ps::<_CMP_NLT_UQ>(distance, limit);
    let tail = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(MIN_OCTAVE_WORD));
    let undecided = _mm256_or_ps(unclear, tail);
    let sum = _mm256_fmadd_ps(_mm256_add_ps(whole, n), _mm256_set1_ps(single.width), _mm256_setzero_ps());
    let cut = _mm256_min_ps(_mm256_max_ps(sum, _mm256_set1_ps(f32::MIN)), _mm256_set1_ps(f32::MAX));
    // `cut`, or `before` where undecided. A blend would become a store under a mask, which is slow on some CPUs.
    let chosen = _mm256_xor_ps(cut, _mm256_and_ps(_mm256_xor_ps(cut, before), undecided));
    // SAFETY: the store stays inside the eight values.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), chosen) };
    _mm256_movemask_ps(undecided) as u8
}
