//! Numbers of binary16 as `f32`, by the instruction that many CPUs have for it.

use crate::isa::Isa;

/// Writes the numbers of so many elements that follow each other, in this machine's byte order or in the other; `false`, and
/// nothing is written, without that instruction.
///
/// They are those of [`super::element::Half`], but for the digits of what is no number.
///
/// # Safety
/// As many elements can be read, aligned or not, and there is room for their numbers, which is none of what is read.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "only x86-64 has the instruction"))]
pub(super) unsafe fn convert<const SWAPPED: bool>(isa: Isa, from: *const u8, to: *mut f32, len: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa != Isa::PORTABLE && std::arch::is_x86_feature_detected!("f16c") {
        // SAFETY: the CPU has the instructions; the caller's promise.
        unsafe { x86::convert::<SWAPPED>(from, to, len) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_set_epi8, _mm_shuffle_epi8, _mm256_cvtph_ps, _mm256_storeu_ps,
    };

    const LANES: usize = 8;

    /// # Safety
    /// As for [`super::convert`]; the CPU has these instructions.
    #[target_feature(enable = "avx,f16c,ssse3")]
    pub(super) unsafe fn convert<const SWAPPED: bool>(from: *const u8, to: *mut f32, len: usize) {
        let order = _mm_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
        let whole = len / LANES * LANES;
        // SAFETY: eight elements, and room for their numbers.
        let eight = |from: *const __m128i, to: *mut f32| unsafe {
            let bits = _mm_loadu_si128(from);
            let bits = if SWAPPED { _mm_shuffle_epi8(bits, order) } else { bits };
            _mm256_storeu_ps(to, _mm256_cvtph_ps(bits));
        };
        for first in (0..whole).step_by(LANES) {
            eight(from.wrapping_add(2 * first).cast(), to.wrapping_add(first));
        }
        let rest = len - whole;
        if rest > 0 {
            let (mut bits, mut numbers) = ([0_u16; LANES], [0.0; LANES]);
            // SAFETY: the last elements, and room for their numbers; no more than eight.
            unsafe {
                from.add(2 * whole).copy_to_nonoverlapping(bits.as_mut_ptr().cast(), 2 * rest);
                eight(bits.as_ptr().cast(), numbers.as_mut_ptr());
                // mutant: last-halves-are-the-first
                numbers.as_ptr().copy_to_nonoverlapping(to.add(whole), rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::element::{Element, Half};

    fn check<const SWAPPED: bool>(isa: Isa, from: u16, len: usize) {
        let halves: Vec<u16> = (0..len as u16).map(|i| from.wrapping_add(i)).collect();
        let bytes = halves.iter().map(|bits| if SWAPPED { bits.swap_bytes() } else { *bits }.to_ne_bytes());
        // Not aligned.
        let memory: Vec<u8> = core::iter::once(0xa5).chain(bytes.flatten()).collect();
        let mut found = vec![7.0; len + 1];

        // SAFETY: there are as many, and room.
        let is_done = unsafe { convert::<SWAPPED>(isa, memory[1..].as_ptr(), found.as_mut_ptr(), len) };

        assert_eq!(7.0, found[len], "written beyond the last");
        for (bits, found) in halves.iter().zip(found).filter(|_| is_done) {
            let expected = Half(*bits).whole();
            assert!(
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                "{bits:#x}: {found:e}"
            );
        }
    }

    #[test]
    fn halves_become_the_numbers_that_they_are() {
        for isa in Isa::available() {
            for len in (0..20).chain([u16::MAX as usize]) {
                check::<false>(isa, 0x3bfa, len);
                check::<true>(isa, 0x3bfa, len);
            }
        }
    }
}
