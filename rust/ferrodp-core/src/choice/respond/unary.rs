//! Answers as bits, one a category: the answer's own is a fair coin, each other one is 1 with probability `q = m/2^t` [WBLJ17].
//!
//! Coins are made 64 at a time. Bit `j` of `t` words is a number of `t` digits, `U`, and `U < m/2^t` is found for all 64 by one step a
//! digit, from the last one: with a digit `u` of `U` and `d` of `m`, less is `¬u` where `d = 1` and `u = 0`, and what the later digits say where
//! the two agree. The own bit is the first digit. All is exact, no branch depends on words, and each bit has its digits alone.
//!
//! Rows follow one another, `⌈k/64⌉` words each. Sixteen words in a row are a segment; segment `s` owns the blocks from `8ts` on of
//! stream 0, which hold the first digits of its sixteen words, then the second ones, and so on. Bits beyond `k` are 0. What is not in
//! `0 … k − 1` counts as 0.

use core::num::NonZeroUsize;

use crate::error::Error;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// Words of a segment.
const WORDS_PER_SEGMENT: usize = 16;

/// Words of messages in one unit of work for a thread: a multiple of a segment.
const WORDS_PER_TASK: usize = 1 << 15;

/// Segments of which the first digits are in memory at once.
const SEGMENTS_PER_CHUNK: usize = 32;

/// The most digits of a probability.
const MOST_DIGITS: u32 = 63;

/// Bytes of one digit of a segment's coins.
const DIGIT_BYTES: usize = WORDS_PER_SEGMENT * 8;

type Segment = [u64; WORDS_PER_SEGMENT];

/// How answers are written as bits.
#[derive(Clone, Copy, Debug)]
pub struct Unary {
    /// `m`, of `2^t`.
    numerator: u64,
    digits: u32,
    categories: usize,
    words_per_row: usize,
}

impl Unary {
    /// Returns the code in which another category's bit is 1 with probability `numerator/2^digits`.
    ///
    /// # Errors
    /// If the digits are not from 1 to 63, the probability is not in (0, 1/2], or there are not 2 to 2²⁴ categories.
    pub fn new(numerator: u64, digits: u32, categories: u64) -> Result<Self, Error> {
        if !(1..=MOST_DIGITS).contains(&digits) {
            return Err(Error::parameter("digits", f64::from(digits), "from 1 to 63"));
        }
        if !(1..=1_u64 << (digits - 1)).contains(&numerator) {
            return Err(Error::parameter("numerator", numerator as f64, "from 1 to half of 2^digits"));
        }
        if !(2..=1 << 24).contains(&categories) {
            return Err(Error::parameter("num_categories", categories as f64, "from 2 to 2^24"));
        }
        let categories = categories as usize;
        Ok(Self { numerator, digits, categories, words_per_row: categories.div_ceil(64) })
    }

    /// Returns how many words a message has.
    #[must_use]
    pub fn words_per_row(&self) -> usize {
        self.words_per_row
    }

    /// Writes the message of every answer into its row of `messages`.
    ///
    /// # Panics
    /// If `messages` has not one row for each answer.
    pub fn apply(&self, isa: Isa, key: &Key, answers: &[i64], messages: &mut [u64], threads: NonZeroUsize) {
        assert_eq!(messages.len(), answers.len() * self.words_per_row, "a row for each answer");
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            blocks::for_each_block(messages, WORDS_PER_TASK, threads, |start, block| {
                let mut firsts = [0; SEGMENTS_PER_CHUNK * WORDS_PER_SEGMENT];
                for (number, chunk) in block.chunks_mut(firsts.len()).enumerate() {
                    let start = start + number * firsts.len();
                    self.toss(isa, &keystream, (start / WORDS_PER_SEGMENT) as u64, chunk, &mut firsts);
                    self.finish(start, answers, chunk, &firsts);
                }
            });
        });
    }

    /// Tosses the coins of all bits of segments, and gives their first digits.
    fn toss(&self, isa: Isa, keystream: &Keystream, first: u64, chunk: &mut [u64], firsts: &mut [u64]) {
        let mut bytes = [0_u8; MOST_DIGITS as usize * DIGIT_BYTES];
        let words = &mut bytes[..self.digits as usize * DIGIT_BYTES];
        let blocks = (words.len() / CIPHER_BLOCK) as u64;
        let segments = chunk.chunks_mut(WORDS_PER_SEGMENT).zip(firsts.as_chunks_mut().0);
        for (segment, (row, first_digits)) in (first..).zip(segments) {
            keystream.fill(0, segment * blocks, words);
            let coins =
                dispatch::run(isa, Compare { digits: words.as_chunks().0, numerator: self.numerator, first_digits });
            row.copy_from_slice(&coins[..row.len()]);
        }
    }

    /// Gives each answer its own bit, and takes away bits beyond the last category.
    fn finish(&self, start: usize, answers: &[i64], chunk: &mut [u64], firsts: &[u64]) {
        let (end, width) = (start + chunk.len(), self.words_per_row);
        let beyond = self.categories % 64;
        for (row, &answer) in answers.iter().enumerate().take(end.div_ceil(width)).skip(start / width) {
            let own = usize::try_from(answer).unwrap_or(usize::MAX);
            // mutant: invalid-answers-have-no-bit-of-their-own
            let own = if own < self.categories { own } else { 0 };
            if let Some(place) = (row * width + own / 64).checked_sub(start).filter(|&place| place < chunk.len()) {
                let mask = 1 << (own % 64);
                // mutant: own-bit-of-an-answer-is-as-likely-as-others
                chunk[place] = chunk[place] & !mask | firsts[place] & mask;
            }
            if let Some(last) =
                ((row + 1) * width - 1).checked_sub(start).filter(|&last| last < chunk.len() && beyond > 0)
            {
                chunk[last] &= (1 << beyond) - 1;
            }
        }
    }
}

/// Whether numbers of some digits, one for each bit of a segment, are below a numerator.
struct Compare<'a> {
    /// The first digits of all, then the second ones, …
    digits: &'a [[u8; DIGIT_BYTES]],
    numerator: u64,
    first_digits: &'a mut Segment,
}

impl Kernel for Compare<'_> {
    type Output = Segment;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> Segment {
        let mut less = [0; WORDS_PER_SEGMENT];
        let mut digit = [0; WORDS_PER_SEGMENT];
        for (place, bytes) in self.digits.iter().rev().enumerate() {
            digit = bytes
                .as_chunks::<8>()
                .0
                .try_into()
                .map_or([0; WORDS_PER_SEGMENT], |words: [[u8; 8]; 16]| words.map(u64::from_le_bytes));
            // mutant: digits-of-a-coin-in-the-other-order
            let of_numerator = (self.numerator >> place & 1).wrapping_neg();
            for (less, digit) in less.iter_mut().zip(digit) {
                *less = of_numerator & (!digit | *less) | !of_numerator & !digit & *less;
            }
        }
        *self.first_digits = digit;
        less
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    /// Every number of `t` digits in as many coins: exactly `m` of them are below `m/2^t`, and half of the own bits are 1.
    #[test]
    fn coins_have_exactly_their_probability() {
        for digits in 1..=10 {
            for numerator in 1..=1_u64 << (digits - 1) {
                // Coin c of 1024 has the digits of c.
                let mut bytes = vec![[0_u8; DIGIT_BYTES]; digits as usize];
                for coin in 0..1024_usize {
                    for digit in 0..digits {
                        let bit = (coin >> (digits - 1 - digit) & 1) as u8;
                        bytes[digit as usize][coin / 8] |= bit << (coin % 8);
                    }
                }
                for isa in Isa::available() {
                    let mut firsts = [0; WORDS_PER_SEGMENT];
                    let compare = Compare { digits: &bytes, numerator, first_digits: &mut firsts };
                    let less = dispatch::run(isa, compare);
                    for coin in 0..1024 {
                        let number = coin & ((1 << digits) - 1);
                        assert_eq!(
                            u64::from(number < numerator),
                            less[coin as usize / 64] >> (coin % 64) & 1,
                            "{number}"
                        );
                        assert_eq!(number >> (digits - 1), firsts[coin as usize / 64] >> (coin % 64) & 1);
                    }
                }
            }
        }
    }

    /// Each bit is decided by digits of its own: what the definition says of each word of the keystream.
    #[test]
    fn bits_have_digits_of_their_own() {
        let key = Key::from_bytes([5; 32]);
        let keystream = Keystream::new(Isa::PORTABLE, &key);
        for (numerator, digits, categories, rows) in [
            (3, 4, 2, 40),
            (69, 8, 64, 70),
            (275, 10, 65, 600),
            (1, 63, 100, 9),
            (1 << 19, 20, 1024, 70),
            (5, 6, 3000, 21),
        ] {
            let unary = Unary::new(numerator, digits, categories).expect("valid");
            let width = unary.words_per_row();
            let answers: Vec<i64> = (0..rows).map(|i| (i * 37) % (categories.cast_signed() + 2) - 1).collect();
            let mut messages = vec![0; answers.len() * width];
            unary.apply(Isa::best(), &key, &answers, &mut messages, ONE);
            let digit = |word: usize, digit: usize| {
                let at =
                    (word / WORDS_PER_SEGMENT * digits as usize + digit) * WORDS_PER_SEGMENT + word % WORDS_PER_SEGMENT;
                keystream.words(0, at as u64 / 2)[at % 2]
            };
            for (row, &answer) in answers.iter().enumerate() {
                let own = if (0..categories.cast_signed()).contains(&answer) { answer as usize } else { 0 };
                for bit in 0..width * 64 {
                    let word = row * width + bit / 64;
                    let number =
                        (0..digits as usize).fold(0, |all, place| all << 1 | digit(word, place) >> (bit % 64) & 1);
                    let expected = match bit {
                        _ if bit == own => digit(word, 0) >> (bit % 64) & 1,
                        _ if bit < categories as usize => u64::from(number < numerator),
                        _ => 0,
                    };
                    assert_eq!(expected, messages[word] >> (bit % 64) & 1, "bit {bit} of row {row}");
                }
            }
        }
    }

    #[test]
    fn isas_and_threads_agree() {
        let unary = Unary::new(275, 10, 1000).expect("valid");
        let answers: Vec<i64> = (0..5000).map(|i| i % 1000).collect();
        let applied = |isa, threads| {
            let mut messages = vec![0; answers.len() * unary.words_per_row()];
            let threads = NonZeroUsize::new(threads).expect("positive");
            unary.apply(isa, &Key::from_bytes([5; 32]), &answers, &mut messages, threads);
            messages
        };
        let expected = applied(Isa::PORTABLE, 1);
        for isa in Isa::available() {
            for threads in [1, 3] {
                assert!(expected == applied(isa, threads), "{isa:?}");
            }
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (numerator, digits, categories) in
            [(0, 4, 5), (9, 4, 5), (1, 0, 5), (1, 64, 5), (1, 4, 1), (1, 4, (1 << 24) + 1)]
        {
            assert!(Unary::new(numerator, digits, categories).is_err());
        }
    }
}
