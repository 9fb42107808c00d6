//! The single-precision stage with AVX2: eight lanes, tables of eight octaves in one register.
//!
//! Octaves beyond those, one sample in 256, stay open.

use core::arch::x86_64::*;

use super::super::tables::single::BY_OCTAVE;
use super::super::types::{GROUP, Open, paired};
use super::{BELOW_2_31, ONE, Single};
use crate::isa::{Isa, Kind};

/// Words below this are beyond the eight octaves.
const LEAST: f32 = 8_388_608.0;

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
    let sign_bit = _mm256_set1_ps(-0.0);
    let (reciprocal, ratio) = (_mm256_set1_ps(single.reciprocal), _mm256_set1_ps(single.ratio));
    let (values, words) = paired(values.as_chunks_mut::<GROUP>().0, words.as_chunks::<{ 4 * GROUP }>().0);
    for row in 0..values.len() {
        // SAFETY: the loads stay inside the 32 bytes and the eight values.
        let (word, before) =
            unsafe { (_mm256_loadu_si256(words[row].as_ptr().cast()), _mm256_loadu_ps(values[row].as_ptr())) };
        let magnitude = _mm256_and_si256(word, _mm256_set1_epi32(i32::MAX));
        let x = _mm256_min_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(BELOW_2_31));
        let octave = _mm256_srli_epi32::<23>(_mm256_castps_si256(x));
        let mask = _mm256_set1_ps(f32::from_bits((1 << 23) - 1));
        let fraction = _mm256_or_ps(_mm256_and_ps(x, mask), _mm256_set1_ps(f32::from_bits(ONE)));
        let t = _mm256_sub_ps(fraction, _mm256_set1_ps(1.5));
        let mut z = looked_up(&BY_OCTAVE[BY_OCTAVE.len() - 1], octave);
        for coefficients in BY_OCTAVE[..BY_OCTAVE.len() - 1].iter().rev() {
            z = _mm256_fmadd_ps(z, t, looked_up(coefficients, octave));
        }
        let signed = _mm256_xor_ps(z, _mm256_and_ps(_mm256_castsi256_ps(word), sign_bit));
        // Not above the largest number, ordered: finite.
        let size = _mm256_andnot_ps(sign_bit, before);
        let finite = _mm256_cmp_ps::<_CMP_LE_OQ>(size, _mm256_set1_ps(f32::MAX));
        let steps = _mm256_mul_ps(_mm256_and_ps(before, finite), reciprocal);
        let whole = nearest(steps);
        let y = _mm256_fmadd_ps(signed, ratio, _mm256_sub_ps(steps, whole));
        let n = nearest(y);
        let distance = _mm256_andnot_ps(sign_bit, _mm256_sub_ps(y, n));
        // Not-less-than, unordered: what is not a number is undecided.
        let unclear = _mm256_cmp_ps::<_CMP_NLT_UQ>(distance, looked_up(&single.octave_limits, octave));
        let tail = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(LEAST));
        let undecided = _mm256_or_ps(unclear, tail);
        let sum = _mm256_fmadd_ps(_mm256_add_ps(whole, n), _mm256_set1_ps(single.width), _mm256_setzero_ps());
        let cut = _mm256_min_ps(_mm256_max_ps(sum, _mm256_set1_ps(f32::MIN)), _mm256_set1_ps(f32::MAX));
        // SAFETY: the store stays inside the eight values.
        unsafe { _mm256_storeu_ps(values[row].as_mut_ptr(), _mm256_blendv_ps(cut, before, undecided)) };
        open.groups[row] = _mm256_movemask_ps(undecided) as u8;
    }
}
