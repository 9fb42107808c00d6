//! AES-256-CTR with the AES instructions of Armv8, eight blocks in flight.

use core::arch::aarch64::{
    uint8x16_t, uint64x2_t, vaddq_u64, vaeseq_u8, vaesmcq_u8, vdupq_n_u8, vdupq_n_u32, veorq_u8, vgetq_lane_u32,
    vld1q_u8, vld1q_u64, vreinterpretq_u8_u32, vreinterpretq_u8_u64, vreinterpretq_u32_u8, vrev64q_u8, vst1q_u8,
};

use zeroize::Zeroize;

use super::block::CIPHER_BLOCK;

/// Blocks in flight: enough to hide the latency of a round.
const BLOCKS_IN_FLIGHT: usize = 8;

/// 32-bit words of the round keys of AES-256.
const ROUND_KEY_WORDS: usize = 60;

/// The round keys; holding one means that the CPU has the AES instructions.
pub(super) struct Cipher([u32; ROUND_KEY_WORDS]);

impl Cipher {
    /// Returns the round keys of `key` (FIPS 197, section 5.2).
    #[target_feature(enable = "neon,aes")]
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let mut words = [0; ROUND_KEY_WORDS];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        for i in 8..ROUND_KEY_WORDS {
            let before = words[i - 1];
            let mixed = match i % 8 {
                0 => substituted(before).rotate_right(8) ^ (1 << (i / 8 - 1)),
                4 => substituted(before),
                _ => before,
            };
            words[i] = words[i - 8] ^ mixed;
        }
        Self(words)
    }

    /// Fills `out` with blocks `first_block`, … of `stream`.
    #[target_feature(enable = "neon,aes")]
    pub(super) fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        let keys = self.keys();
        let mut counter = first_block;
        let (wide, rest) = out.as_chunks_mut::<{ BLOCKS_IN_FLIGHT * CIPHER_BLOCK }>();
        // The block is both numbers big endian: each half is reversed.
        // SAFETY: the load stays inside the two words.
        let mut next = unsafe { vld1q_u64([stream, counter].as_ptr()) };
        // SAFETY: the load stays inside the two words.
        let one: uint64x2_t = unsafe { vld1q_u64([0, 1].as_ptr()) };
        for bytes in wide {
            let mut blocks = [vdupq_n_u8(0); BLOCKS_IN_FLIGHT];
            for block in &mut blocks {
                *block = vrev64q_u8(vreinterpretq_u8_u64(next));
                next = vaddq_u64(next, one);
            }
            for key in &keys[..13] {
                for block in &mut blocks {
                    *block = vaesmcq_u8(vaeseq_u8(*block, *key));
                }
            }
            for (block, bytes) in blocks.into_iter().zip(bytes.as_chunks_mut::<CIPHER_BLOCK>().0) {
                store(bytes, veorq_u8(vaeseq_u8(block, keys[13]), keys[14]));
            }
            counter = counter.wrapping_add(BLOCKS_IN_FLIGHT as u64);
        }
        for bytes in rest.chunks_mut(CIPHER_BLOCK) {
            // SAFETY: the load stays inside the two words.
            let mut block = vrev64q_u8(vreinterpretq_u8_u64(unsafe { vld1q_u64([stream, counter].as_ptr()) }));
            counter = counter.wrapping_add(1);
            for key in &keys[..13] {
                block = vaesmcq_u8(vaeseq_u8(block, *key));
            }
            let mut last = [0; CIPHER_BLOCK];
            store(&mut last, veorq_u8(vaeseq_u8(block, keys[13]), keys[14]));
            bytes.copy_from_slice(&last[..bytes.len()]);
        }
    }

    /// Returns the round keys as vectors.
    #[inline]
    #[target_feature(enable = "neon,aes")]
    fn keys(&self) -> [uint8x16_t; 15] {
        let mut keys = [vdupq_n_u8(0); 15];
        for (key, words) in keys.iter_mut().zip(self.0.as_chunks::<4>().0) {
            // SAFETY: the load stays inside the four words.
            *key = unsafe { vld1q_u8(words.as_ptr().cast()) };
        }
        keys
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Returns the S-box of every byte: a round with the key zero, of four equal columns, whose rows may be shifted.
#[inline]
#[target_feature(enable = "neon,aes")]
fn substituted(word: u32) -> u32 {
    let columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(columns, vdupq_n_u8(0))))
}

/// Writes one block.
#[inline]
#[target_feature(enable = "neon")]
fn store(bytes: &mut [u8; CIPHER_BLOCK], block: uint8x16_t) {
    // SAFETY: the store stays inside the 16 bytes.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), block) };
}
