//! Keystreams some of whose blocks are chosen: compiled with the feature `testing`, which no wheel for users has.
//!
//! What a sampler does in one draw of 2⁶⁴ can be replayed with the words that make it do so, through the same kernels on the same
//! instruction sets, and be compared with what its law makes of these words.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::block::CIPHER_BLOCK;

/// Blocks by stream and index.
pub type Blocks = HashMap<(u64, u64), [u8; CIPHER_BLOCK]>;

static CHOSEN_WORDS: Mutex<Option<([u8; 32], Arc<Blocks>)>> = Mutex::new(None);
static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

/// Has all keystreams of this key give these blocks from now on, and no keystream of another key any but its own.
pub fn choose(key: [u8; 32], blocks: Blocks) {
    *CHOSEN_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some((key, Arc::new(blocks)));
    IS_CHOSEN.store(true, Ordering::Release);
}

/// Ends what [`choose`] began.
pub fn forget() {
    IS_CHOSEN.store(false, Ordering::Release);
    *CHOSEN_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns the blocks that were chosen for this key, if any were.
pub(super) fn of(key: &[u8; 32]) -> Option<Arc<Blocks>> {
    if !IS_CHOSEN.load(Ordering::Acquire) {
        return None;
    }
    let chosen = CHOSEN_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    chosen.as_ref().filter(|(whose, _)| whose == key).map(|(_, blocks)| Arc::clone(blocks))
}

/// Puts them in the place of what a cipher has filled `out` with.
pub(super) fn lay(blocks: &Blocks, stream: u64, first_block: u64, out: &mut [u8]) {
    for (number, bytes) in out.chunks_mut(CIPHER_BLOCK).enumerate() {
        if let Some(block) = blocks.get(&(stream, first_block.wrapping_add(number as u64))) {
            bytes.copy_from_slice(&block[..bytes.len()]);
        }
    }
}
