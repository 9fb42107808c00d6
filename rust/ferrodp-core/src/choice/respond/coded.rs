//! Answers coded as vectors over a field with 2 or 4 elements: one number an answer, with one of two probabilities.
//!
//! The design and its proof are in the docstring of `ferrodp.mechanisms.hadamard_response`. Answer `i` owns block `i` of stream 0: the
//! first word chooses the product with the answer's vector, the second one the digits of the message, of which the first is then
//! set so that the product is that. No branch depends on words. What is not in `0 … k − 1` counts as 0.

use core::num::NonZeroUsize;

use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// Answers in one unit of work for a thread.
const ANSWERS_PER_TASK: usize = 1 << 15;

/// Answers whose words are in memory at once.
const ANSWERS_PER_CHUNK: usize = 512;

/// The most categories.
const MOST_CATEGORIES: u64 = 1 << 24;

/// How answers are coded.
#[derive(Clone, Copy, Debug)]
pub struct Coded {
    /// Words for each product that is not 0.
    weight: u64,
    categories: u64,
    /// The number of digits of a vector.
    digits: u32,
    /// Whether the field has 4 elements, and not 2.
    is_quaternary: bool,
}

impl Coded {
    /// Returns the code with `weight` of 2⁶⁴ words for each product other than 0, over `categories` categories.
    ///
    /// # Errors
    /// If the field has neither 2 nor 4 elements, the weight is 0 or above 2⁶⁴ over these, or there are not 2 to 2²⁴ categories.
    pub fn new(weight: u64, categories: u64, field_size: u64) -> Result<Self, Error> {
        if field_size != 2 && field_size != 4 {
            return Err(Error::parameter("field_size", field_size as f64, "2 or 4"));
        }
        if !(1..=u64::MAX / field_size + 1).contains(&weight) {
            return Err(Error::parameter("weight", weight as f64, "from 1 to 2^64 over field_size"));
        }
        if !(2..=MOST_CATEGORIES).contains(&categories) {
            return Err(Error::parameter("num_categories", categories as f64, "from 2 to 2^24"));
        }
        let bits = u64::BITS - (categories - 1).leading_zeros();
        let is_quaternary = field_size == 4;
        let digits = 1 + if is_quaternary { bits.div_ceil(2) } else { bits };
        Ok(Self { weight, categories, digits, is_quaternary })
    }

    /// Replaces every answer by a message.
    pub fn apply(&self, isa: Isa, key: &Key, answers: &mut [i64], threads: NonZeroUsize) {
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            blocks::for_each_block(answers, ANSWERS_PER_TASK, threads, |start, block| {
                let mut bytes = [0_u8; ANSWERS_PER_CHUNK * CIPHER_BLOCK];
                for (number, chunk) in block.chunks_mut(ANSWERS_PER_CHUNK).enumerate() {
                    let first = (start + number * ANSWERS_PER_CHUNK) as u64;
                    let words = &mut bytes[..chunk.len() * CIPHER_BLOCK];
                    keystream.fill(0, first, words);
                    for (answer, words) in chunk.iter_mut().zip(words.as_chunks::<16>().0) {
                        *answer = self.message(u128::from_le_bytes(*words), *answer);
                    }
                }
            });
        });
    }

    #[inline(always)]
    fn message(&self, words: u128, answer: i64) -> i64 {
        let (choice, word) = (words as u64, (words >> 64) as u64);
        let own = answer.cast_unsigned();
        // mutant: invalid-answers-coded-as-they-are
        let own = if own < self.categories { own } else { 0 };
        let (rest, last) = (self.digits - 1, self.digits);
        let (mask, first) = ((1_u64 << last) - 1, 1_u64 << rest);
        let low = word & mask;
        if self.is_quaternary {
            // 0 with what three weights leave, else the number of weights that the word is below
            let below = |weights: u64| u64::from(choice < weights * self.weight);
            // mutant: product-of-a-response-has-another-law
            let product = below(1) + below(2) + below(3);
            let high = (word >> 32) & mask;
            let (one, two) = ((own & (first - 1)) | first, own >> rest);
            // (a₁ω + a₀)(b₁ω + b₀) = (a₁b₀ + a₀b₁ + a₁b₁)ω + a₀b₀ + a₁b₁, for ω² = ω + 1
            let both = high & two;
            let (of_low, of_high) = (parity((low & one) ^ both), parity((high & one) ^ (low & two) ^ both));
            // mutant: product-of-a-message-is-another
            let (low, high) = (low ^ ((of_low ^ product & 1) << rest), high ^ ((of_high ^ product >> 1) << rest));
            (high << last | low).cast_signed()
        } else {
            let product = u64::from(choice < self.weight);
            (low ^ ((parity(low & (own | first)) ^ product) << rest)).cast_signed()
        }
    }
}

#[inline(always)]
fn parity(word: u64) -> u64 {
    u64::from(word.count_ones() & 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns how often each message comes, of 2⁶⁴ words for the product times all digits of messages.
    fn law(coded: &Coded, answer: i64) -> BTreeMap<i64, u128> {
        let parts = if coded.is_quaternary { 3 } else { 1 };
        let mut found = BTreeMap::new();
        let ends: Vec<u128> = (0..=parts).map(|part| part * u128::from(coded.weight)).chain([1 << 64]).collect();
        let high = if coded.is_quaternary { 1 << coded.digits } else { 1 };
        for part in ends.windows(2).filter(|part| part[0] < part[1]) {
            for (high, low) in (0..high).flat_map(|high| (0..1_u64 << coded.digits).map(move |low| (high, low))) {
                let word = u128::from(high << 32 | low) << 64;
                let message = coded.message(word | part[0], answer);
                assert_eq!(message, coded.message(word | (part[1] - 1), answer), "what lies between is alike");
                *found.entry(message).or_insert(0) += part[1] - part[0];
            }
        }
        found
    }

    #[test]
    fn a_message_has_one_of_two_probabilities_whatever_the_answer() {
        for (weight, categories, field) in
            [(1 << 60, 11, 2), (1 << 60, 11, 4), ((1 << 61) + 12345, 4, 4), (1, 2, 4), (1 << 63, 5, 2), (1 << 62, 5, 4)]
        {
            let coded = Coded::new(weight, categories, field).expect("valid");
            let messages = field.pow(coded.digits);
            // Each message comes from q digits, of which the first is set.
            let lie = u128::from(field) * u128::from(weight);
            let truth = u128::from(field) * (1 << 64) - u128::from(field - 1) * lie;
            for answer in 0..categories.cast_signed() {
                let law = law(&coded, answer);
                assert_eq!((0..messages.cast_signed()).collect::<Vec<_>>(), law.keys().copied().collect::<Vec<_>>());
                let likely = law.values().filter(|&&words| words == truth).count() as u64;
                // The q^(t−1) vectors with product 0, or all where both probabilities are one.
                assert!(likely == if truth == lie { messages } else { messages / field }, "{likely}");
                assert!(law.values().all(|&words| words == truth || words == lie), "{law:?}");
            }
            assert_eq!(law(&coded, 0), law(&coded, -1));
            assert_eq!(law(&coded, 0), law(&coded, categories.cast_signed()));
        }
        for (weight, categories, field) in [(0, 5, 2), (1 << 63, 5, 4), (1, 1, 2), (1, 1 << 25, 2), (1, 5, 3)] {
            assert!(Coded::new(weight, categories, field).is_err());
        }
    }

    /// Two messages say the same of a category exactly if their products with its vector are both 0 or neither: so the estimate is unbiased.
    #[test]
    fn the_likely_messages_of_two_answers_are_independent() {
        for field in [2_u64, 4] {
            let coded = Coded::new(1 << 61, 9, field).expect("valid");
            let likely = |answer| -> Vec<i64> {
                law(&coded, answer)
                    .into_iter()
                    .filter(|&(_, words)| words > u128::from(field) << 61)
                    .map(|(message, _)| message)
                    .collect()
            };
            let all: Vec<Vec<i64>> = (0..9).map(likely).collect();
            for (i, one) in all.iter().enumerate() {
                for other in &all[..i] {
                    let shared = one.iter().filter(|message| other.contains(message)).count() as u64;
                    assert_eq!(one.len() as u64, shared * field, "one of q");
                }
            }
        }
    }

    #[test]
    fn isas_and_threads_agree() {
        let coded = Coded::new(1 << 61, 1000, 4).expect("valid");
        let applied = |isa, threads| {
            let mut answers: Vec<i64> = (0..100_000).map(|i| i % 1000).collect();
            coded.apply(isa, &Key::from_bytes([5; 32]), &mut answers, NonZeroUsize::new(threads).expect("positive"));
            answers
        };
        let expected = applied(Isa::PORTABLE, 1);
        for isa in Isa::available() {
            for threads in [1, 3] {
                assert!(expected == applied(isa, threads), "{isa:?}");
            }
        }
    }
}
