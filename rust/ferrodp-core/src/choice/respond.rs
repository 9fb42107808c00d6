//! Randomized response over `k` categories: with probability `p` an answer is replaced by a uniformly random one.
//!
//! Both decisions are exact. `p` is a float, so a dyadic number, and `U < p` is settled by 64 digits or, where these agree
//! with those of `p`, by more. A category is the upper half of a 128-bit product with a word, rejected where the lower half
//! shows that some would come up more often (Lemire, "Fast random integer generation in an interval", 2019).
//!
//! Answer `i` owns block `i` of stream 0: a word for the first decision, one for the second. Both are always drawn, and no
//! branch depends on them but for events of probability below 2⁻⁶⁰·k; further words are those of block `i` of other streams.
//! What is not in `0 … k − 1` counts as 0.
//!
//! Other ways to answer: [`coded`], one number of few bits; [`unary`] and [`sets`], bits by category, which [`columns`] counts. Of vectors: [`vectors`].

pub mod coded;
pub mod columns;
pub mod sets;
pub mod unary;
pub mod vectors;

use core::num::NonZeroUsize;

use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::params::exp2;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// Answers in one unit of work for a thread.
const ANSWERS_PER_TASK: usize = 1 << 15;

/// Answers whose words are in memory at once.
const ANSWERS_PER_CHUNK: usize = 512;

/// A type that holds categories.
pub trait Category: Copy + Send + Sync + 'static {
    /// The category as a number, or some number beyond all categories.
    fn index(self) -> u64;
    /// The category of that number.
    fn from_index(index: u64) -> Self;
}

macro_rules! category {
    ($($type:ty),*) => {$(
        impl Category for $type {
            #[inline(always)]
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "sign extension makes negative ones huge")]
            fn index(self) -> u64 {
                self as i64 as u64
            }

            #[inline(always)]
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "categories fit")]
            fn from_index(index: u64) -> Self {
                index as Self
            }
        }
    )*};
}

category!(u8, i32, i64);

/// How answers are randomized.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    categories: u64,
    /// `⌊p·2⁶⁴⌋`, and the 64 bits after those.
    threshold: u64,
    beyond: u64,
    /// Whether `p = 1`.
    always: bool,
}

impl Response {
    /// Returns randomized response with noise parameter `p` over `categories` categories.
    ///
    /// # Errors
    /// If `p` is not in (0, 1], below 2⁻⁶⁴, or there are not 2 to 2³¹ − 1 categories.
    pub fn new(noise_parameter: f64, categories: u64) -> Result<Self, Error> {
        if !(exp2(-64)..=1.0).contains(&noise_parameter) {
            return Err(Error::parameter("noise_parameter", noise_parameter, "from 2^-64 to 1"));
        }
        if !(2..=0x7fff_ffff).contains(&categories) {
            return Err(Error::parameter("num_categories", categories as f64, "from 2 to 2^31 - 1"));
        }
        // p ≥ 2⁻⁶⁴ has no bit below 2⁻¹¹⁶.
        let scaled = if noise_parameter == 1.0 { 0 } else { (noise_parameter * exp2(64) * exp2(63)) as u128 * 2 };
        Ok(Self { categories, threshold: (scaled >> 64) as u64, beyond: scaled as u64, always: noise_parameter == 1.0 })
    }

    /// Randomizes every answer, in place.
    pub fn apply<T: Category>(&self, isa: Isa, key: &Key, answers: &mut [T], threads: NonZeroUsize) {
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            blocks::for_each_block(answers, ANSWERS_PER_TASK, threads, |start, block| {
                let mut bytes = [0_u8; ANSWERS_PER_CHUNK * CIPHER_BLOCK];
                for (number, chunk) in block.chunks_mut(ANSWERS_PER_CHUNK).enumerate() {
                    let first = (start + number * ANSWERS_PER_CHUNK) as u64;
                    let words = &mut bytes[..chunk.len() * CIPHER_BLOCK];
                    keystream.fill(0, first, words);
                    for (i, (answer, words)) in chunk.iter_mut().zip(words.as_chunks::<16>().0).enumerate() {
                        *answer = self.respond(&keystream, first + i as u64, u128::from_le_bytes(*words), *answer);
                    }
                }
            });
        });
    }

    #[inline(always)]
    fn respond<T: Category>(&self, keystream: &Keystream, index: u64, words: u128, answer: T) -> T {
        // mutant: coin-shares-bits-with-choice
        let (coin, choice) = (words as u64, (words >> 64) as u64);
        let product = u128::from(choice) * u128::from(self.categories);
        // mutant: categories-come-modulo-k
        let mut other = (product >> 64) as u64;
        // The lower half is below k for fewer than k of all 2⁶⁴ words.
        if (product as u64) < self.categories {
            other = self.category(keystream, index, product);
        }
        let mut replaced = coin < self.threshold;
        if coin == self.threshold {
            // mutant: tie-of-coin-heads
            replaced = keystream.words(1, index)[0] < self.beyond;
        }
        let own = answer.index();
        // mutant: answers-out-of-range-kept
        let own = if own < self.categories { own } else { 0 };
        // mutant: replaced-answer-never-true-one
        T::from_index(if replaced | self.always { other } else { own })
    }

    /// Returns an unbiased category: `product` if it may stand, else one from further words.
    #[cold]
    fn category(&self, keystream: &Keystream, index: u64, product: u128) -> u64 {
        // mutant: no-category-drawn-again
        let least = self.categories.wrapping_neg() % self.categories;
        let mut product = product;
        let mut stream = 2;
        // mutant: one-category-too-many-drawn-again
        while (product as u64) < least {
            product = u128::from(keystream.words(stream, index)[0]) * u128::from(self.categories);
            stream += 1;
        }
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tapes;

#[cfg(test)]
mod tests {
    use super::*;

    fn applied<T: Category>(response: Response, isa: Isa, threads: usize, mut answers: Vec<T>) -> Vec<T> {
        let threads = NonZeroUsize::new(threads).expect("positive");
        response.apply(isa, &Key::from_bytes([5; 32]), &mut answers, threads);
        answers
    }

    #[test]
    fn isas_and_threads_agree() {
        let response = Response::new(0.3, 7).expect("valid");
        let answers: Vec<i64> = (0..100_000).map(|i| i % 7).collect();
        let expected = applied(response, Isa::PORTABLE, 1, answers.clone());
        for isa in Isa::available() {
            for threads in [1, 3] {
                assert!(expected == applied(response, isa, threads, answers.clone()), "{isa:?}");
            }
        }
        let narrow: Vec<u8> = answers.iter().map(|&x| x as u8).collect();
        let found = applied(response, Isa::best(), 1, narrow);
        assert!(expected.iter().zip(found).all(|(&a, b)| a == i64::from(b)), "whatever the type");
    }

    #[test]
    fn thresholds_are_the_bits_of_the_parameter() {
        for p in [exp2(-64), 0.5, 0.1, 1.0 - exp2(-53), 1e-15, exp2(-40) * (1.0 + exp2(-52))] {
            let response = Response::new(p, 2).expect("valid");
            let exact = f64::from_bits(p.to_bits()); // p·2¹²⁸ = threshold·2⁶⁴ + beyond, exactly
            let back = response.threshold as f64 * exp2(-64) + response.beyond as f64 * exp2(-64) * exp2(-64);
            assert_eq!(exact, back, "{p}");
        }
        assert!(Response::new(1.0, 2).expect("valid").always);
        for p in [0.0, -0.1, 1.1, f64::NAN, exp2(-65)] {
            assert!(Response::new(p, 2).is_err());
        }
        assert!(Response::new(0.5, 1).is_err() && Response::new(0.5, 1 << 31).is_err());
    }

    /// A tie of all 64 digits goes to the next ones; a biased word is drawn again: by crafted words.
    #[test]
    fn rare_words_are_settled_by_further_ones() {
        let keystream = Keystream::new(Isa::PORTABLE, &Key::from_bytes([5; 32]));
        let response = Response::new(exp2(-30) + exp2(-80), 3).expect("valid");
        assert_eq!(1 << 48, response.beyond, "the digits that 64 do not show");
        let next = (0..100).map(|i| keystream.words(1, i)[0] < response.beyond).position(|below| below);
        assert_eq!(None, next, "2⁻¹⁶ is rare");
        let tie = u128::from(response.threshold) | (u128::from(u64::MAX) << 64);
        assert_eq!(0, response.respond(&keystream, 0, tie, 0_i64), "kept: the next digits are above");
        assert_eq!(2, response.respond(&keystream, 0, tie - 1, 0_i64), "replaced");
        // 2⁶⁴ mod 3 = 1: word 0 is the one that has to go.
        let again = ((u128::from(keystream.words(2, 0)[0]) * 3) >> 64) as i64;
        assert_eq!(again, response.respond(&keystream, 0, 0, 1_i64));
    }

    #[test]
    fn frequencies_are_those_of_the_law() {
        let response = Response::new(0.3, 5).expect("valid");
        let n = 1_000_000;
        let found = applied(response, Isa::best(), 1, vec![2_i64; n]);
        for category in 0..5 {
            let p = if category == 2 { 0.7 + 0.06 } else { 0.06 };
            let count = found.iter().filter(|&&x| x == category).count() as f64;
            let deviations = (count - n as f64 * p).abs() / (n as f64 * p * (1.0 - p)).sqrt();
            assert!(deviations < 6.0, "category {category}: {deviations} standard deviations");
        }
        assert!(applied(response, Isa::best(), 1, vec![-1_i64, 5, i64::MAX, 0]).iter().all(|x| (0..5).contains(x)));
    }
}
