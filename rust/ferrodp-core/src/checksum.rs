//! A 64-bit checksum at memory speed, against accidents: not a hash for adversaries.
//!
//! The message is read as 64-bit words, little endian, the last one filled up with zeros. Word `i` goes to lane `i mod 16`
//! by `h ← (h ⊕ w)·GOLDEN_MULTIPLIER` and `h ← h ⊕ (h ≫ 32)`, `GOLDEN_MULTIPLIER` odd; then the length and the lanes are absorbed by the same step. The
//! step is a bijection of `h` for a given word, and of the word for a given `h`. So two messages of one length that differ
//! in a single word never agree; of others, a fraction of about 2⁻⁶⁴ does.

/// Words that are absorbed side by side.
const WORD_LANES: usize = 16;

/// Bytes of a block. Every [`Checksum::update`] but the last one takes whole blocks.
pub const BLOCK_BYTES: usize = 8 * WORD_LANES;

/// ⌊2⁶⁴/φ⌋, which is odd.
const GOLDEN_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A checksum of the bytes seen so far.
#[derive(Clone, Debug)]
pub struct Checksum {
    lanes: [u64; WORD_LANES],
    length: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        Self { lanes: core::array::from_fn(|i| GOLDEN_MULTIPLIER.wrapping_mul(i as u64 + 1)), length: 0 }
    }
}

impl Checksum {
    /// Absorbs `bytes`, a multiple of [`BLOCK_BYTES`] unless it is the last call.
    pub fn update(&mut self, bytes: &[u8]) {
        let (blocks, tail) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.absorb(block);
        }
        if !tail.is_empty() {
            let mut last = [0; BLOCK_BYTES];
            last[..tail.len()].copy_from_slice(tail);
            self.absorb(&last);
        }
        self.length = self.length.wrapping_add(bytes.len() as u64);
    }

    /// Returns the checksum.
    #[must_use]
    pub fn finish(self) -> u64 {
        self.lanes.iter().fold(step(GOLDEN_MULTIPLIER, self.length), |h, &lane| step(h, lane))
    }

    #[inline(always)]
    fn absorb(&mut self, block: &[u8; BLOCK_BYTES]) {
        for (lane, word) in self.lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
}

/// Returns the checksum of one message.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = Checksum::default();
    sum.update(bytes);
    sum.finish()
}

#[inline(always)]
fn step(h: u64, word: u64) -> u64 {
    // mutant: checksum-forgets-words
    let mixed = (h ^ word).wrapping_mul(GOLDEN_MULTIPLIER);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 31 + i / 7) as u8).collect()
    }

    #[test]
    fn every_changed_bit_changes_the_checksum() {
        for length in [1, 7, 8, 127, 128, 129, 300] {
            let mut bytes = message(length);
            let before = checksum(&bytes);
            for bit in 0..8 * length {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(before, checksum(&bytes), "bit {bit} of {length} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn lengths_orders_and_pairs_of_high_bits_are_told_apart() {
        let whole = message(1024);
        let mut seen: Vec<u64> = (0..=1024).map(|length| checksum(&whole[..length])).collect();
        seen.push(checksum(&[0; 16]));
        seen.push(checksum(&[0; 24]));
        for (i, j) in [(0, 1), (0, 16), (3, 120)] {
            let mut words: Vec<[u8; 8]> = whole.as_chunks::<8>().0.to_vec();
            words.swap(i, j);
            seen.push(checksum(words.as_flattened()));
            words[i][7] ^= 0x80;
            words[j][7] ^= 0x80;
            seen.push(checksum(words.as_flattened()));
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();

        assert_eq!(count, seen.len());
    }

    #[test]
    fn blocks_may_come_one_by_one() {
        let bytes = message(5 * BLOCK_BYTES + 17);
        let mut sum = Checksum::default();
        sum.update(&bytes[..2 * BLOCK_BYTES]);
        sum.update(&[]);
        sum.update(&bytes[2 * BLOCK_BYTES..]);

        assert_eq!(checksum(&bytes), sum.finish());
    }

    #[test]
    fn checksums_are_pinned() {
        assert_eq!([PINNED_EMPTY, PINNED_LONG], [checksum(&[]), checksum(&message(1000))]);
    }

    const PINNED_EMPTY: u64 = 17_354_557_448_665_161_543;
    const PINNED_LONG: u64 = 16_490_766_040_232_774_577;
}
