//! AES-256-CTR with the vector AES instructions on CPUs without AVX-512: two blocks a register, eight registers in flight.

use core::arch::x86_64::{
    __m256i, _mm_set_epi64x, _mm_setr_epi8, _mm256_add_epi64, _mm256_aesenc_epi128, _mm256_aesenclast_epi128,
    _mm256_broadcastsi128_si256, _mm256_set_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_storeu_si256,
    _mm256_xor_si256,
};
use core::hint::black_box;

use super::aes_ni;

/// Registers in flight.
const REGISTERS_IN_FLIGHT: usize = 8;

/// Bytes in a register.
const REGISTER_BYTES: usize = 32;

/// An expanded key; holding one means that the CPU has VAES and AVX2.
pub(super) struct Cipher(aes_ni::Cipher);

impl Cipher {
    /// Returns the round keys of `key`.
    #[target_feature(enable = "aes,sse4.1")]
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(aes_ni::Cipher::new(key))
    }

    /// Fills `out` with blocks `first_block`, … of `stream`.
    #[target_feature(enable = "aes,vaes,sse4.1,avx2")]
    pub(super) fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        let (wide, rest) = out.as_chunks_mut::<{ REGISTERS_IN_FLIGHT * REGISTER_BYTES }>();
        let after = first_block.wrapping_add((2 * REGISTERS_IN_FLIGHT * wide.len()) as u64);
        self.fill_wide(stream, first_block, wide);
        if !rest.is_empty() {
            self.0.fill(stream, after, rest);
        }
    }

    #[target_feature(enable = "aes,vaes,sse4.1,avx2")]
    fn fill_wide(&self, stream: u64, first_block: u64, out: &mut [[u8; REGISTERS_IN_FLIGHT * REGISTER_BYTES]]) {
        let keys = &self.0.0;
        let (first, last) = (_mm256_broadcastsi128_si256(keys[0]), _mm256_broadcastsi128_si256(keys[14]));
        // A number of rounds that the compiler does not know: unrolled, one block's rounds are put behind another's.
        let rounds = black_box(&keys[1..14]);
        let swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
        let start = _mm256_broadcastsi128_si256(_mm_set_epi64x(first_block.cast_signed(), stream.cast_signed()));
        let mut counter = _mm256_add_epi64(start, _mm256_set_epi64x(1, 0, 0, 0));
        let two = _mm256_set_epi64x(2, 0, 2, 0);
        for bytes in out {
            let mut blocks = [_mm256_setzero_si256(); REGISTERS_IN_FLIGHT];
            for block in &mut blocks {
                *block = _mm256_xor_si256(_mm256_shuffle_epi8(counter, swap), first);
                counter = _mm256_add_epi64(counter, two);
            }
            for key in rounds {
                let key = _mm256_broadcastsi128_si256(*key);
                for block in &mut blocks {
                    *block = _mm256_aesenc_epi128(*block, key);
                }
            }
            for (block, bytes) in blocks.into_iter().zip(bytes.as_chunks_mut::<REGISTER_BYTES>().0) {
                store(bytes, _mm256_aesenclast_epi128(block, last));
            }
        }
    }
}

/// Writes two blocks.
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; REGISTER_BYTES], blocks: __m256i) {
    // SAFETY: the store stays inside the 32 bytes.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), blocks) };
}
