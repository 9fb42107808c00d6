//! The single-precision stage with AVX-512: sixteen lanes, tables of 32 in two registers.

use core::arch::x86_64::*;

use super::{ONE_F32_BITS, Single};
use crate::isa::{Isa, Kind};
use crate::sample::tables::single::BY_HALF;
use crate::sample::types::{Open, PADDED_SAMPLES, SAMPLES_PER_GROUP, paired};

/// A table of 32.
type Table = [__m512; 2];

/// Loads one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn load(table: &[f32; 32]) -> Table {
    // SAFETY: both loads stay inside the 32 entries.
    unsafe { [_mm512_loadu_ps(table.as_ptr()), _mm512_loadu_ps(table[16..].as_ptr())] }
}

/// Returns the entries of the lanes' segments (the low five bits of `segment`).
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn looked_up(table: Table, segment: __m512i) -> __m512 {
    _mm512_permutex2var_ps(table[0], segment, table[1])
}

/// Rounds to the nearest integer.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn nearest(x: __m512) -> __m512 {
    _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// See [`super::stage`].
///
/// # Panics
/// If `isa` is not AVX-512.
pub(super) fn first_stage(isa: Isa, single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    assert!(isa.kind() == Kind::Avx512, "the path was chosen by this token");
    // SAFETY: an `Isa` of this kind exists only where the CPU has reported these features.
    unsafe { rows(single, words, values, open) }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
fn rows(single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    /// The bits of not-a-number, quiet or signaling, and of the infinities, as `vfpclassps` has them.
    const NOT_FINITE: i32 = 0x01 | 0x08 | 0x10 | 0x80;
    /// Of `vrangeps`: the number of smaller size, with the first one's sign.
    const SMALLER: i32 = 0b0010;
    let limits = load(&single.limits);
    let (reciprocal, ratio) = (_mm512_set1_ps(single.reciprocal), _mm512_set1_ps(single.ratio));
    let (values, words) =
        paired(values.as_chunks_mut::<PADDED_SAMPLES>().0, words.as_chunks::<{ 4 * PADDED_SAMPLES }>().0);
    for row in 0..values.len() {
        // SAFETY: the loads stay inside the 64 bytes and the sixteen values.
        let (word, before) =
            unsafe { (_mm512_loadu_si512(words[row].as_ptr().cast()), _mm512_loadu_ps(values[row].as_ptr())) };
        let magnitude = _mm512_and_si512(word, _mm512_set1_epi32(i32::MAX));
        // Cut, so that no word is rounded up into an octave that does not exist.
        let x = _mm512_cvt_roundepi32_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(magnitude);
        let bits = _mm512_castps_si512(x);
        let segment = _mm512_srli_epi32::<22>(bits);
        // (bits & mask) | one
        let (mask, one) = (_mm512_set1_epi32((1 << 22) - 1), _mm512_set1_epi32(ONE_F32_BITS.cast_signed()));
        let fraction = _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xEA>(bits, mask, one));
        let t = _mm512_sub_ps(fraction, _mm512_set1_ps(1.25));
        let mut z = looked_up(load(&BY_HALF[BY_HALF.len() - 1]), segment);
        for coefficients in BY_HALF[..BY_HALF.len() - 1].iter().rev() {
            z = _mm512_fmadd_ps(z, t, looked_up(load(coefficients), segment));
        }
        // z ^ (word & top bit)
        let top = _mm512_set1_epi32(i32::MIN);
        let signed = _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0x78>(_mm512_castps_si512(z), word, top));
        let finite = !_mm512_fpclass_ps_mask::<NOT_FINITE>(before);
        let steps = _mm512_maskz_mul_ps(finite, before, reciprocal);
        let whole = nearest(steps);
        let y = _mm512_fmadd_ps(signed, ratio, _mm512_sub_ps(steps, whole));
        let n = nearest(y);
        let distance = _mm512_abs_ps(_mm512_sub_ps(y, n));
        let known = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, _mm512_set1_ps(Single::LEAST));
        // Less-than, ordered: what is not a number is undecided.
        let decided = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(known, distance, looked_up(limits, segment));
        let sum = _mm512_fmadd_ps(_mm512_add_ps(whole, n), _mm512_set1_ps(single.width), _mm512_setzero_ps());
        let cut = _mm512_range_ps::<SMALLER>(sum, _mm512_set1_ps(f32::MAX));
        // SAFETY: the store stays inside the sixteen values.
        unsafe { _mm512_storeu_ps(values[row].as_mut_ptr(), _mm512_mask_blend_ps(decided, before, cut)) };
        let groups =
            &mut open.groups[row * (PADDED_SAMPLES / SAMPLES_PER_GROUP)..][..PADDED_SAMPLES / SAMPLES_PER_GROUP];
        groups.copy_from_slice(&(!decided).to_le_bytes());
    }
}
