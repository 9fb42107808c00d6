//! Discrete noise in fixed time: a number of random bits, instructions and addresses that does not depend on the noise.
//!
//! Rejection takes a random number of attempts; here every sample is inverted from digits it owns, with the whole of a table
//! read for each. Every decision is `U < c` for a uniform number `U` and an irrational `c` of the law. It compares the leading
//! digits of `U`, `n = 127` or 128 of them, with `t = ⌊2ⁿ·c⌋`, by subtraction and its borrow, in masks: fewer digits than `t`
//! mean `U < c`, more mean `U > c`. If they are equal, further digits decide, by intervals of integers, so that the law is
//! exact; that is the one branch. It is taken with probability below 2⁻¹⁰⁰ per sample, less than a guess at the key of the
//! cipher would be worth: nobody will ever measure it. That there is no other, whatever the compiler makes of this, is what
//! valgrind's memcheck is asked: `cargo run -p ferrodp-testkit --bin secrets`.
//!
//! - *Gaussian*, σ up to [`LARGEST_GAUSSIAN`]: the magnitude is how many of `c_k = P[|X| ≤ k]` are not above `U`. The table goes
//!   on until `t = 2ⁿ − 1`, so that whatever lies beyond it is a case of equality. A sign bit is drawn for 0 too.
//! - *Laplace*, b up to [`LARGEST_LAPLACE`]: the difference of two geometric variables of ratio `r = e^−1/b`, whose binary
//!   digits are independent: digit `j` is 1 with probability `1/(1 + e^{2^j/b})`, as `r^x` is a product over the digits of `x`.
//!   What is left beyond `J` digits is geometric with ratio `r^{2^J} < 2⁻¹²⁸`: another case of equality, with 0.
//!
//! Cost: one block of the cipher and about 13.1·σ comparisons for a Gaussian sample; 2·(J + 1) blocks and comparisons for a
//! Laplace one, `J ≈ 6.5 + log₂ b`. Decision `d` of a call owns block `d` of stream 0, and of streams from 1 on if it needs more.

use core::num::NonZeroUsize;

use super::{Law, Scale, Whole};
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

mod thresholds;

use thresholds::Decision;

/// The largest σ for which there is a table: more would be slower than it is worth.
pub const LARGEST_GAUSSIAN: f64 = 64.0;

/// The largest b: sums and differences of digits stay far within `i64`.
pub const LARGEST_LAPLACE: f64 = 1_125_899_906_842_624.0; // 2⁵⁰

/// Samples in one unit of work for a thread.
const FIXED_TIME_PER_TASK: usize = 1 << 12;

/// Bytes of keystream in memory at once.
const KEYSTREAM_BYTES: usize = 1 << 14;

/// A discrete law that is sampled in fixed time.
#[derive(Debug)]
pub struct FixedTime {
    decision: Decision,
    /// `⌊2ⁿ·c⌋` in halves, the more significant first. For the Gaussian of all magnitudes, for Laplace of all digits and of what
    /// is beyond them.
    thresholds: Vec<[u64; 2]>,
}

impl FixedTime {
    /// Returns the law. Costs up to some milliseconds.
    ///
    /// # Errors
    /// If the scale is too large.
    pub fn new(law: Law, scale: Scale) -> Result<Self, Error> {
        let (largest, accepted) = match law {
            Law::Gaussian => (LARGEST_GAUSSIAN, "at most 64 in fixed time"),
            Law::Laplace => (LARGEST_LAPLACE, "at most 2^50 in fixed time"),
        };
        if scale.approximate() > largest {
            return Err(Error::parameter("scale", scale.approximate(), accepted));
        }
        let decision = Decision { law, scale };
        let thresholds = decision.thresholds().into_iter().map(|t| [(t >> 64) as u64, t as u64]).collect();
        Ok(Self { decision, thresholds })
    }

    /// Returns how many blocks of the keystream a sample takes.
    #[must_use]
    pub fn blocks_per_sample(&self) -> usize {
        match self.decision.law {
            Law::Gaussian => 1,
            Law::Laplace => 2 * self.thresholds.len(),
        }
    }

    /// Returns how many comparisons a sample takes.
    #[must_use]
    pub fn comparisons_per_sample(&self) -> usize {
        match self.decision.law {
            Law::Gaussian => self.thresholds.len(),
            Law::Laplace => 2 * self.thresholds.len(),
        }
    }

    /// Adds noise to every value, in place. A sum beyond the range of `T` becomes its largest or smallest number.
    pub fn add<T: Whole>(&self, isa: Isa, key: &Key, values: &mut [T], threads: NonZeroUsize) {
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            blocks::for_each_block(values, FIXED_TIME_PER_TASK, threads, |start, block| {
                self.add_block(&keystream, start, block);
            });
        });
    }

    fn add_block<T: Whole>(&self, keystream: &Keystream, start: usize, values: &mut [T]) {
        let per_sample = self.blocks_per_sample();
        let mut bytes = [0_u8; KEYSTREAM_BYTES];
        let samples = KEYSTREAM_BYTES / CIPHER_BLOCK / per_sample;
        for (number, chunk) in values.chunks_mut(samples).enumerate() {
            // mutant: samples-of-later-chunk-digits-of-first
            let first = ((start + number * samples) * per_sample) as u64;
            let words = &mut bytes[..chunk.len() * per_sample * CIPHER_BLOCK];
            keystream.fill(0, first, words);
            let digits = words.as_chunks::<CIPHER_BLOCK>().0;
            for (i, (value, digits)) in chunk.iter_mut().zip(digits.chunks_exact(per_sample)).enumerate() {
                let (noise, is_open) = self.invert(digits);
                if is_open {
                    let decision = first + (i * per_sample) as u64;
                    // mutant: further-digits-of-a-decision
                    *value = value.plus(self.settle(digits, |d, n| keystream.words(1 + n, decision + d)));
                } else {
                    *value = value.plus_small(noise);
                }
            }
        }
    }

    /// Returns the sample of these blocks, and whether some decision is still open: no branch, no address depends on them.
    #[inline(always)]
    fn invert(&self, blocks: &[[u8; CIPHER_BLOCK]]) -> (i64, bool) {
        match self.decision.law {
            Law::Gaussian => {
                let digits = u128::from_le_bytes(blocks[0]);
                // mutant: sign-digit-as-well
                let (magnitude, open) = rank(&self.thresholds, digits >> 1);
                let sign = ((digits as i64) & 1).wrapping_neg();
                // mutant: negative-noise-negated-in-branch
                ((magnitude ^ sign).wrapping_sub(sign), open != 0)
            }
            Law::Laplace => {
                let (up, down) = blocks.split_at(self.thresholds.len());
                let (up, first) = digits_below(&self.thresholds, up);
                // mutant: both-geometric-variables-same-digits
                let (down, second) = digits_below(&self.thresholds, down);
                (up.wrapping_sub(down), first | second != 0)
            }
        }
    }

    /// Returns the sample of these blocks where further digits are needed; `further(d, n)` is block `n` of them for decision `d`.
    #[cold]
    fn settle(&self, blocks: &[[u8; CIPHER_BLOCK]], further: impl Fn(u64, u64) -> [u64; 2]) -> i128 {
        let block = |d: usize| u128::from_le_bytes(blocks[d]);
        match self.decision.law {
            Law::Gaussian => {
                let magnitude = self.decision.rank(block(0) >> 1, |n| further(0, n)) as i128;
                if block(0) & 1 == 1 { -magnitude } else { magnitude }
            }
            Law::Laplace => {
                let num_digits = self.thresholds.len() - 1;
                let geometric = |start: usize| {
                    let digits = (0..num_digits).map(|j| {
                        let d = start + j;
                        i128::from(self.decision.digit(j as u32, block(d), |n| further(d as u64, n))) << j
                    });
                    let d = start + num_digits;
                    let beyond = self.decision.beyond(num_digits as u32, block(d), |n| further(d as u64, n));
                    // mutant: what-beyond-digits-lost
                    digits.sum::<i128>() + (i128::from(beyond) << num_digits)
                };
                geometric(0) - geometric(num_digits + 1)
            }
        }
    }
}

/// Returns the sample whose blocks are given, decided by intervals alone if `exactly`: for tests that choose the bits.
#[doc(hidden)]
pub fn sample_of_blocks(
    law: &FixedTime,
    blocks: &[[u8; CIPHER_BLOCK]],
    further: impl Fn(u64, u64) -> [u64; 2],
    exactly: bool,
) -> i128 {
    let (noise, is_open) = law.invert(blocks);
    if exactly || is_open { law.settle(blocks, further) } else { i128::from(noise) }
}

/// Returns 1 if `digits < threshold`, else 0: the borrow of their difference.
#[inline(always)]
fn is_below(digits: [u64; 2], threshold: [u64; 2]) -> u64 {
    // mutant: comparisons-look-at-half-of-digits
    let (_, low) = digits[1].overflowing_sub(threshold[1]);
    let (high, first) = digits[0].overflowing_sub(threshold[0]);
    let (_, second) = high.overflowing_sub(u64::from(low));
    u64::from(first | second)
}

/// Returns 1 if they are equal, else 0.
#[inline(always)]
fn is_equal(digits: [u64; 2], threshold: [u64; 2]) -> u64 {
    // mutant: half-tie-tie
    let difference = (digits[0] ^ threshold[0]) | (digits[1] ^ threshold[1]);
    // mutant: ties-not-seen
    ((difference | difference.wrapping_neg()) >> 63) ^ 1
}

/// Returns how many thresholds are not above `digits`, and whether it is equal to some.
#[inline(always)]
fn rank(thresholds: &[[u64; 2]], digits: u128) -> (i64, u64) {
    let digits = [(digits >> 64) as u64, digits as u64];
    let (mut count, mut open) = (0, 0);
    for &threshold in thresholds {
        // It cannot overflow, as tables are short; but a check that it does not would be a branch on the noise.
        // mutant: count-of-thresholds
        count = u64::wrapping_add(count, 1 ^ is_below(digits, threshold));
        open |= is_equal(digits, threshold);
    }
    (count as i64, open)
}

/// Returns the number whose digit `j` is 1 if block `j` is below threshold `j`, and whether some are equal.
#[inline(always)]
fn digits_below(thresholds: &[[u64; 2]], blocks: &[[u8; CIPHER_BLOCK]]) -> (i64, u64) {
    let (mut number, mut open) = (0_u64, 0);
    for (j, (&threshold, block)) in thresholds.iter().zip(blocks).enumerate() {
        let digits = u128::from_le_bytes(*block);
        let digits = [(digits >> 64) as u64, digits as u64];
        // mutant: digit-looked-up
        number |= is_below(digits, threshold) << j;
        open |= is_equal(digits, threshold);
    }
    (number as i64, open)
}

#[cfg(test)]
mod tests;
