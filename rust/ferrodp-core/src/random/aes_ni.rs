//! AES-256-CTR with the AES instructions of x86-64, eight blocks in flight.

use core::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_aeskeygenassist_si128, _mm_loadu_si128,
    _mm_set_epi64x, _mm_setr_epi8, _mm_setzero_si128, _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_slli_si128,
    _mm_storeu_si128, _mm_xor_si128,
};

use core::hint::black_box;

use zeroize::Zeroize;

use super::block::CIPHER_BLOCK;

/// Blocks in flight: enough to hide the latency of a round.
const BLOCKS_IN_FLIGHT: usize = 8;

/// The round keys of AES-256.
pub(super) type RoundKeys = [__m128i; 15];

/// An expanded key; holding one means that the CPU has the AES instructions.
pub(super) struct Cipher(pub(super) RoundKeys);

impl Cipher {
    /// Returns the round keys of `key` (FIPS 197, section 5.2).
    #[target_feature(enable = "aes,sse4.1")]
    pub(super) fn new(key: &[u8; 32]) -> Self {
        // SAFETY: both loads stay inside the 32 bytes.
        let (mut even, mut odd) =
            unsafe { (_mm_loadu_si128(key.as_ptr().cast()), _mm_loadu_si128(key[16..].as_ptr().cast())) };
        let mut keys = [_mm_setzero_si128(); 15];
        keys[0] = even;
        keys[1] = odd;
        macro_rules! round {
            ($index:literal, $constant:literal) => {
                even = next(even, _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(odd)));
                keys[$index] = even;
                if $index < 14 {
                    odd = next(odd, _mm_shuffle_epi32::<0xaa>(_mm_aeskeygenassist_si128::<0>(even)));
                    keys[($index + 1) % 15] = odd;
                }
            };
        }
        round!(2, 0x01);
        round!(4, 0x02);
        round!(6, 0x04);
        round!(8, 0x08);
        round!(10, 0x10);
        round!(12, 0x20);
        round!(14, 0x40);
        Self(keys)
    }

    /// Fills `out` with blocks `first_block`, … of `stream`.
    #[target_feature(enable = "aes,sse4.1,avx2")]
    pub(super) fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        let swap = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
        let mut counter = _mm_set_epi64x(first_block.cast_signed(), stream.cast_signed());
        let one = _mm_set_epi64x(1, 0);
        // A number of rounds that the compiler does not know: unrolled, one block's rounds are put behind another's.
        let rounds = black_box(&self.0[1..14]);
        let (wide, rest) = out.as_chunks_mut::<{ BLOCKS_IN_FLIGHT * CIPHER_BLOCK }>();
        for bytes in wide {
            let mut blocks = [_mm_setzero_si128(); BLOCKS_IN_FLIGHT];
            for block in &mut blocks {
                *block = _mm_xor_si128(_mm_shuffle_epi8(counter, swap), self.0[0]);
                counter = _mm_add_epi64(counter, one);
            }
            for key in rounds {
                for block in &mut blocks {
                    *block = _mm_aesenc_si128(*block, *key);
                }
            }
            for (block, bytes) in blocks.into_iter().zip(bytes.as_chunks_mut::<CIPHER_BLOCK>().0) {
                store(bytes, _mm_aesenclast_si128(block, self.0[14]));
            }
        }
        for bytes in rest.chunks_mut(CIPHER_BLOCK) {
            let mut block = _mm_xor_si128(_mm_shuffle_epi8(counter, swap), self.0[0]);
            counter = _mm_add_epi64(counter, one);
            for key in rounds {
                block = _mm_aesenc_si128(block, *key);
            }
            let mut last = [0; CIPHER_BLOCK];
            store(&mut last, _mm_aesenclast_si128(block, self.0[14]));
            bytes.copy_from_slice(&last[..bytes.len()]);
        }
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Writes one block.
#[inline(always)]
fn store(bytes: &mut [u8; CIPHER_BLOCK], block: __m128i) {
    // SAFETY: SSE2 is part of x86-64, and the store stays inside the 16 bytes.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) };
}

/// One step of the key schedule: a running exclusive-or of the four words of `key`, then of `assist`.
#[target_feature(enable = "sse4.1")]
fn next(key: __m128i, assist: __m128i) -> __m128i {
    let mut key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
    _mm_xor_si128(key, assist)
}
