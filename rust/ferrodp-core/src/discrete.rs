//! Integer noise with exactly the stated law: discrete Gaussian and discrete Laplace over all of ℤ.
//!
//! The probability of `x` is proportional to `exp(−x²/2σ²)` or `exp(−|x|/b)`, for a rational scale that is taken exactly.
//!
//! **Dyadic envelope, exact rejection.** A rejection sampler may use any envelope above the target, so [`table`] builds one
//! whose cells have dyadic probabilities: a proposal is then uniform bits and a look-up, and all that is irrational is one
//! acceptance probability, which is compared with a uniform number whose digits are revealed as they are needed.
//! 1. The digits of the first word against an integer threshold: accepts 93 to 99 % of all attempts ([`attempt`]).
//! 2. 64 more digits against an `f64` exponential with a proven error.
//! 3. Integer intervals at growing precision, until disjoint ([`exact`]).
//!
//! Which stage decides cannot matter; widening the margins of the first two must not change a single output, and the tests
//! do that. Bits are addressed by sample and attempt, so threads and vector widths cannot matter either.
//!
//! The scheme of envelope, filter and exact decision is that of rejection sampling (von Neumann 1951) over blocks; the
//! reference it answers to is Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
//!
//! **Time.** How long a call takes depends on how many attempts were rejected, which is independent of the noise, and on
//! which stage accepted, which is not. Outputs beyond the range of their type become its largest or smallest number: with
//! scales up to 2⁵⁷ and 64 bits noise alone does so with a probability of at most e^−64 (Laplace, `e^(−2⁶³/b)`) or below
//! e^−2000 (Gaussian), and it is post-processing.

use core::num::NonZeroUsize;

use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::math::float_environment::in_default_environment;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

mod attempt;
mod candidate;
mod exact;
pub mod fixed;
mod scale;
mod table;
#[cfg(test)]
mod tapes;

pub use scale::{Law, SCALE_RANGE, Scale};
use table::{CELL_BITS, Table};

/// Samples in one unit of work for a thread.
const SAMPLES_PER_TASK: usize = 1 << 15;

/// Samples whose words are in memory at once.
const SAMPLES_PER_CHUNK: usize = 1024;

/// Samples whose further words are made at once.
const FURTHER_WORDS: usize = 256;

/// The stream of first words.
const FIRST_WORDS: u64 = 0;

/// An integer type that noise can be added to.
pub trait Whole: Copy + Default + Send + Sync + 'static {
    /// Returns `self + noise`, cut to the range of the type.
    fn plus(self, noise: i128) -> Self;
    /// The same for noise that fits.
    fn plus_small(self, noise: i64) -> Self;
}

impl Whole for i64 {
    fn plus(self, noise: i128) -> Self {
        (i128::from(self) + noise).clamp(i128::from(Self::MIN), i128::from(Self::MAX)) as Self
    }

    #[inline(always)]
    fn plus_small(self, noise: i64) -> Self {
        self.saturating_add(noise)
    }
}

impl Whole for i32 {
    fn plus(self, noise: i128) -> Self {
        (i128::from(self) + noise).clamp(i128::from(Self::MIN), i128::from(Self::MAX)) as Self
    }

    #[inline(always)]
    fn plus_small(self, noise: i64) -> Self {
        i64::from(self).saturating_add(noise).clamp(i64::from(Self::MIN), i64::from(Self::MAX)) as Self
    }
}

/// A discrete law with its scale: set up once, used for any number of samples.
pub struct Discrete {
    table: Table,
    widening: f64,
}

impl Discrete {
    /// Returns the law. Costs some 30 µs.
    #[must_use]
    pub fn new(law: Law, scale: Scale) -> Self {
        let table = in_default_environment(|| Table::new(law, scale, attempt::digit_bits));
        Self { table, widening: 0.0 }
    }

    /// Returns the same law whose first two stages decide only what is `margin` (of a probability) clear: the output must
    /// not change. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_widened_margins(mut self, margin: f64) -> Self {
        self.widening = margin;
        self.table.lower_thresholds(margin);
        self
    }

    /// Returns what the envelope is made of: offset bits, height, counts of the body's blocks, and count, start and block
    /// bits of the tail. For tests of the proof.
    #[doc(hidden)]
    #[must_use]
    pub fn envelope(&self) -> (u32, u32, Vec<u32>, u32, u64, u32) {
        let table = &self.table;
        let counts = table.counts.clone();
        (table.offset_bits, table.height, counts, table.tail_count, table.tail_start, table.tail_bits)
    }

    /// Adds noise to every value, in place. A sum beyond the range of `T` becomes its largest or smallest number.
    pub fn add<T: Whole>(&self, isa: Isa, key: &Key, values: &mut [T], threads: NonZeroUsize) {
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            blocks::for_each_block(values, SAMPLES_PER_TASK, threads, |start, block| {
                in_default_environment(|| self.add_block(&keystream, start as u64, block));
            });
        });
    }

    /// Replaces every value by noise.
    pub fn fill<T: Whole>(&self, isa: Isa, key: &Key, values: &mut [T], threads: NonZeroUsize) {
        values.fill(T::default());
        self.add(isa, key, values, threads);
    }

    /// Adds noise to `values`, which begin with sample `start`, a multiple of [`SAMPLES_PER_CHUNK`].
    fn add_block<T: Whole>(&self, keystream: &Keystream, start: u64, values: &mut [T]) {
        let mut bytes = [0_u8; SAMPLES_PER_CHUNK * 8];
        let mut first = start;
        for chunk in values.chunks_mut(SAMPLES_PER_CHUNK) {
            let words = &mut bytes[..chunk.len() * 8];
            // mutant: first-words-of-integers
            keystream.fill(FIRST_WORDS, first / (CIPHER_BLOCK as u64 / 8), words);
            if self.table.offset_bits > attempt::NARROW_BITS {
                for (part, values) in chunk.chunks_mut(FURTHER_WORDS).enumerate() {
                    let start = part * FURTHER_WORDS;
                    self.add_wide(keystream, first + start as u64, &words[start * 8..][..values.len() * 8], values);
                }
            } else {
                self.add_chunk(keystream, first, words, chunk);
            }
            first += chunk.len() as u64;
        }
    }

    fn add_chunk<T: Whole>(&self, keystream: &Keystream, first: u64, words: &[u8], chunk: &mut [T]) {
        let mut open = [0_u16; SAMPLES_PER_CHUNK];
        let mut count = 0;
        let offset_bits = self.table.offset_bits;
        for (i, (value, word)) in chunk.iter_mut().zip(words.as_chunks().0).enumerate() {
            // mutant: every-64th-sign-of-integer-positive
            let word = u64::from_le_bytes(*word);
            // mutant: sign-in-1024-positive-whatever-bit
            let entry = self.table.entries[(word >> (64 - CELL_BITS)) as usize];
            let (accepted, noise) = attempt::accepted_at_once(entry, offset_bits, word);
            *value = value.plus_small(if accepted { noise } else { 0 });
            open[count] = i as u16;
            count += usize::from(!accepted);
        }
        for &i in &open[..count] {
            let i = usize::from(i);
            let word = u64::from_le_bytes(words.as_chunks().0[i]);
            // mutant: samples-of-one-call-share-block-of-further
            chunk[i] = self.settled(keystream, first + i as u64, word, chunk[i]);
            // mutant: samples-that-open-settled-in-another-order
        }
    }

    /// The same for blocks so wide that integers come from further words: block `i` of the first stream after that of first
    /// words begins with that of sample `i`.
    fn add_wide<T: Whole>(&self, keystream: &Keystream, first: u64, words: &[u8], values: &mut [T]) {
        let mut bytes = [0_u8; FURTHER_WORDS * CIPHER_BLOCK];
        let further = &mut bytes[..values.len() * CIPHER_BLOCK];
        // mutant: further-words-of-integers
        keystream.fill(FIRST_WORDS + 1, first, further);
        let offset_bits = self.table.offset_bits;
        let words = words.as_chunks().0.iter().zip(further.as_chunks::<CIPHER_BLOCK>().0);
        for (i, (value, (word, block))) in values.iter_mut().zip(words).enumerate() {
            let (word, further) = (u64::from_le_bytes(*word), u64::from_le_bytes(block.as_chunks().0[0]));
            let entry = self.table.entries[(word >> (64 - CELL_BITS)) as usize];
            let (accepted, noise) = attempt::accepted_with(entry, offset_bits, word, further);
            *value = if accepted {
                value.plus_small(noise)
            } else {
                self.settled(keystream, first + i as u64, word, *value)
            };
        }
    }

    fn settled<T: Whole>(&self, keystream: &Keystream, sample: u64, word: u64, value: T) -> T {
        value.plus(attempt::settle(&self.table, word, &attempt::blocks_of(keystream, sample), self.widening))
    }
}

/// Returns the sample whose first word and further blocks are given: the whole sampler as one function, for tests that choose
/// the bits themselves. `block(stream)` gives the sample's block of a stream.
#[doc(hidden)]
pub fn settle_word(law: &Discrete, word: u64, block: impl Fn(u64) -> [u64; 2]) -> i128 {
    attempt::settle(&law.table, word, &block, law.widening)
}
