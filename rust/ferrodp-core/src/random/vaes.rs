//! AES-256-CTR with the vector AES instructions: four blocks a register, eight registers in flight.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_set_epi64x, _mm_setr_epi8, _mm512_add_epi64, _mm512_aesenc_epi128, _mm512_aesenclast_epi128,
    _mm512_broadcast_i32x4, _mm512_set_epi64, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_storeu_si512,
    _mm512_xor_si512,
};

use super::aes_ni;

/// Registers in flight.
const REGISTERS_IN_FLIGHT: usize = 8;

/// Bytes in a register.
const WIDE_REGISTER_BYTES: usize = 64;

/// An expanded key; holding one means that the CPU has VAES and AVX-512.
pub(super) struct Cipher(aes_ni::Cipher);

impl Cipher {
    /// Returns the round keys of `key`.
    #[target_feature(enable = "aes,sse4.1")]
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(aes_ni::Cipher::new(key))
    }

    /// Fills `out` with blocks `first_block`, … of `stream`.
    #[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        let (registers, rest) = out.as_chunks_mut::<WIDE_REGISTER_BYTES>();
        let after = first_block.wrapping_add(4 * registers.len() as u64);
        if !registers.is_empty() {
            self.fill_registers(stream, first_block, registers);
        }
        if !rest.is_empty() {
            self.0.fill(stream, after, rest);
        }
    }

    #[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    fn fill_registers(&self, stream: u64, first_block: u64, out: &mut [[u8; WIDE_REGISTER_BYTES]]) {
        let keys = (self.0).0.map(|key: __m128i| _mm512_broadcast_i32x4(key));
        let swap = _mm512_broadcast_i32x4(_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
        let start = _mm512_broadcast_i32x4(_mm_set_epi64x(first_block.cast_signed(), stream.cast_signed()));
        let mut counter = _mm512_add_epi64(start, _mm512_set_epi64(3, 0, 2, 0, 1, 0, 0, 0));
        let four = _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0);

        let (wide, narrow) = out.as_chunks_mut::<REGISTERS_IN_FLIGHT>();
        for registers in wide {
            let mut blocks = [_mm512_setzero_si512(); REGISTERS_IN_FLIGHT];
            for block in &mut blocks {
                *block = _mm512_xor_si512(_mm512_shuffle_epi8(counter, swap), keys[0]);
                counter = _mm512_add_epi64(counter, four);
            }
            for key in &keys[1..14] {
                for block in &mut blocks {
                    *block = _mm512_aesenc_epi128(*block, *key);
                }
            }
            for (block, bytes) in blocks.into_iter().zip(registers) {
                store(bytes, _mm512_aesenclast_epi128(block, keys[14]));
            }
        }
        for bytes in narrow {
            let mut block = _mm512_xor_si512(_mm512_shuffle_epi8(counter, swap), keys[0]);
            counter = _mm512_add_epi64(counter, four);
            for key in &keys[1..14] {
                block = _mm512_aesenc_epi128(block, *key);
            }
            store(bytes, _mm512_aesenclast_epi128(block, keys[14]));
        }
    }
}

/// Writes four blocks.
#[target_feature(enable = "avx512f")]
fn store(bytes: &mut [u8; WIDE_REGISTER_BYTES], blocks: __m512i) {
    // SAFETY: the store stays inside the 64 bytes.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), blocks) };
}
