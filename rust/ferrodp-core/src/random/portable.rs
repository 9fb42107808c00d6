//! Any CPU: the `aes` crate, which takes Armv8 instructions where it finds them and is bit-sliced elsewhere.

use aes::Aes256;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

use super::block::{CIPHER_BLOCK, counter_block};

/// Blocks handed to the crate at once: a multiple of every width it works in.
const BLOCKS_PER_BATCH: usize = 32;

pub(super) struct Cipher(Aes256);

impl Cipher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Aes256::new(&Array::from(*key)))
    }

    pub(super) fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        let mut blocks = [aes::Block::default(); BLOCKS_PER_BATCH];
        for (batch, bytes) in out.chunks_mut(BLOCKS_PER_BATCH * CIPHER_BLOCK).enumerate() {
            let used = &mut blocks[..bytes.len().div_ceil(CIPHER_BLOCK)];
            for (i, block) in used.iter_mut().enumerate() {
                *block =
                    Array::from(counter_block(stream, first_block.wrapping_add((batch * BLOCKS_PER_BATCH + i) as u64)));
            }
            self.0.encrypt_blocks(used);
            for (block, bytes) in used.iter().zip(bytes.chunks_mut(CIPHER_BLOCK)) {
                bytes.copy_from_slice(&block[..bytes.len()]);
            }
        }
    }
}
