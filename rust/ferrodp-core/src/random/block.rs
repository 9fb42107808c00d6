//! The block of the cipher and what it is applied to.

/// Bytes in a block of the cipher.
pub const CIPHER_BLOCK: usize = 16;

/// Returns the block that the cipher is applied to.
pub(super) fn counter_block(stream: u64, index: u64) -> [u8; CIPHER_BLOCK] {
    // mutant: counter-of-cipher-little-endian
    ((u128::from(stream) << 64) | u128::from(index)).to_be_bytes()
}
