//! The single-precision stage with NEON: four lanes, tables of eight octaves in two registers.
//!
//! Octaves beyond those, one sample in 256, stay open.

use core::arch::aarch64::*;

use super::{BELOW_2_31, ONE_F32_BITS, Single};
use crate::isa::{Isa, Kind};
use crate::sample::tables::single::BY_OCTAVE;
use crate::sample::types::{Open, SAMPLES_PER_GROUP, paired};

/// Vectors that advance together and share the loads of a table.
const NEON_VECTORS_ABREAST: usize = 2;

/// Words below this are beyond the eight octaves.
const MIN_OCTAVE_WORD: f32 = 8_388_608.0;

/// A lane's bit in the mask of a group.
const MASK_BITS: [[u32; 4]; NEON_VECTORS_ABREAST] = [[1, 2, 4, 8], [16, 32, 64, 128]];

type Floats = [float32x4_t; NEON_VECTORS_ABREAST];

/// Loads eight numbers.
#[inline]
#[target_feature(enable = "neon")]
fn load(table: &[f32; 8]) -> uint8x16x2_t {
    // SAFETY: the load stays inside the eight numbers.
    unsafe { vld1q_u8_x2(table.as_ptr().cast()) }
}

/// Returns the entries at these bytes.
#[inline]
#[target_feature(enable = "neon")]
fn looked_up(table: uint8x16x2_t, bytes: uint8x16_t) -> float32x4_t {
    vreinterpretq_f32_u8(vqtbl2q_u8(table, bytes))
}

/// See [`super::stage`].
///
/// # Panics
/// If `isa` is not NEON.
pub(super) fn first_stage(isa: Isa, single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    assert!(isa.kind() == Kind::Neon, "the path was chosen by this token");
    // SAFETY: an `Isa` of this kind exists only where the CPU has reported NEON.
    unsafe { rows(single, words, values, open) }
}

#[target_feature(enable = "neon")]
fn rows(single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    let limits = load(&single.octave_limits);
    let (values, words) =
        paired(values.as_chunks_mut::<SAMPLES_PER_GROUP>().0, words.as_chunks::<{ 4 * SAMPLES_PER_GROUP }>().0);
    for row in 0..values.len() {
        let words = words[row].as_chunks::<16>().0;
        let mut word = [vdupq_n_u32(0); NEON_VECTORS_ABREAST];
        let mut x = [vdupq_n_f32(0.0); NEON_VECTORS_ABREAST];
        let mut t = [vdupq_n_f32(0.0); NEON_VECTORS_ABREAST];
        let mut bytes = [vdupq_n_u8(0); NEON_VECTORS_ABREAST];
        for i in 0..NEON_VECTORS_ABREAST {
            // SAFETY: the load stays inside the 16 bytes.
            word[i] = unsafe { vld1q_u32(words[i].as_ptr().cast()) };
            let magnitude = vandq_u32(word[i], vdupq_n_u32(u32::MAX >> 1));
            x[i] = vminq_f32(vcvtq_f32_u32(magnitude), vdupq_n_f32(BELOW_2_31));
            let bits = vreinterpretq_u32_f32(x[i]);
            let octave = vandq_u32(vshrq_n_u32::<23>(bits), vdupq_n_u32(7));
            // The four bytes of entry k are 4k to 4k + 3.
            bytes[i] = vreinterpretq_u8_u32(vmlaq_u32(vdupq_n_u32(0x0302_0100), octave, vdupq_n_u32(0x0404_0404)));
            let fraction = vbslq_u32(vdupq_n_u32((1 << 23) - 1), bits, vdupq_n_u32(ONE_F32_BITS));
            t[i] = vsubq_f32(vreinterpretq_f32_u32(fraction), vdupq_n_f32(1.5));
        }
        let z = polynomial(&bytes, &t);
        let mut mask = vdupq_n_u32(0);
        for (i, values) in values[row].as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let undecided = finish(single, values, word[i], x[i], z[i], looked_up(limits, bytes[i]));
            // SAFETY: the load stays inside the four numbers.
            mask = vorrq_u32(mask, vandq_u32(undecided, unsafe { vld1q_u32(MASK_BITS[i].as_ptr()) }));
        }
        open.groups[row] = vaddvq_u32(mask) as u8;
    }
}

/// Evaluates, lane by lane, the polynomial of that lane's octave, whose entries lie at these bytes.
#[inline]
#[target_feature(enable = "neon")]
fn polynomial(bytes: &[uint8x16_t; NEON_VECTORS_ABREAST], t: &Floats) -> Floats {
    let mut sum = [vdupq_n_f32(0.0); NEON_VECTORS_ABREAST];
    let highest = load(&BY_OCTAVE[BY_OCTAVE.len() - 1]);
    for i in 0..NEON_VECTORS_ABREAST {
        sum[i] = looked_up(highest, bytes[i]);
    }
    for coefficients in BY_OCTAVE[..BY_OCTAVE.len() - 1].iter().rev() {
        let coefficients = load(coefficients);
        for i in 0..NEON_VECTORS_ABREAST {
            sum[i] = vfmaq_f32(looked_up(coefficients, bytes[i]), sum[i], t[i]);
        }
    }
    sum
}

/// Adds noise to four values, those apart that it does not decide, and returns which these are.
#[inline]
#[target_feature(enable = "neon")]
fn finish(
    single: &Single,
    values: &mut [f32; 4],
    word: uint32x4_t,
    x: float32x4_t,
    z: float32x4_t,
    limit: float32x4_t,
) -> uint32x4_t {
    // SAFETY: the load stays inside the four values.
    let before = unsafe { vld1q_f32(values.as_ptr()) };
    let signed =
        vbslq_f32(vdupq_n_u32(u32::MAX >> 1), z, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(z), word)));
    // Not above the largest number: finite.
    let finite = vcaleq_f32(before, vdupq_n_f32(f32::MAX));
    let value = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(before), finite));
    let steps = vmulq_f32(value, vdupq_n_f32(single.reciprocal));
    let whole = vrndnq_f32(steps);
    let y = vfmaq_f32(vsubq_f32(steps, whole), signed, vdupq_n_f32(single.ratio));
    let n = vrndnq_f32(y);
    // What is not a number is not below the limit.
    let near = vcltq_f32(vabdq_f32(y, n), limit);
    let undecided = vornq_u32(vcltq_f32(x, vdupq_n_f32(MIN_OCTAVE_WORD)), near);
    let sum = vfmaq_f32(vdupq_n_f32(0.0), vaddq_f32(whole, n), vdupq_n_f32(single.width));
    let cut = vminq_f32(vmaxq_f32(sum, vdupq_n_f32(f32::MIN)), vdupq_n_f32(f32::MAX));
    // SAFETY: the store stays inside the four values.
    unsafe { vst1q_f32(values.as_mut_ptr(), vbslq_f32(undecided, before, cut)) };
    undecided
}
