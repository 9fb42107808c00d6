//! Any CPU: the `aes` crate, which takes Armv8 instructions where it finds them and is bit-sliced elsewhere.

use aes::Aes256;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

use super::block::{BLOCK, counter_block};

/// Blocks handed to the crate at once: a multiple of every width it works in.
const BATCH: usize = 32;

pub(super) struct Cipher(Aes256);

impl Cipher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Aes256::new(&Array::from(*key)))
    }

    pub(super) fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        let mut blocks = [aes::Block::default(); BATCH];
        for (batch, bytes) in out.chunks_mut(BATCH * BLOCK).enumerate() {
            let used = &mut blocks[..bytes.len().div_ceil(BLOCK)];
            for (i, block) in used.iter_mut().enumerate() {
                *block = Array::from(counter_block(stream, first_block.wrapping_add((batch * BATCH + i) as u64)));
            }
            self.0.encrypt_blocks(used);
            for (block, bytes) in used.iter().zip(bytes.chunks_mut(BLOCK)) {
                bytes.copy_from_slice(&block[..bytes.len()]);
            }
        }
    }
}
