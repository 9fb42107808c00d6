//! Answers as sets of `d` categories: the answer's own is in it with a probability of its own, the others are chosen uniformly [YB18].
//!
//! The set has its own category unless a word of 64 bits is below `m`. The others are a uniform subset of the `k − 1` other categories, by
//! Floyd's algorithm: for `j` from `k − d` to `k − 1` one draws among the first `j`, and takes the last of these where the drawn one was
//! taken before. A set of `d − 1` begins one step later. (Bentley and Floyd, "A sample of brilliance", 1987: the subset is uniform.)
//!
//! Answer `i` owns block `i` of stream 0, of which the first word decides on its own category, and stream `i + 1`, whose words of 32 bits are
//! the draws, one after the other: the upper half of a product of 64 bits, drawn again where the lower half shows that some would come up
//! more often (Lemire, 2019). As many draws are made whether or not the own category is in the set. What is not in `0 … k − 1` counts as 0.

use core::num::NonZeroUsize;

use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// Words of 32 bits that are in memory at once.
const DRAWS_PER_CHUNK: usize = 512;

/// Sets in one unit of work for a thread.
const SETS_PER_TASK: usize = 1 << 10;

/// How answers are hidden in sets.
#[derive(Clone, Copy, Debug)]
pub struct Sets {
    /// Words of 2⁶⁴ with which the own category is left out.
    weight: u64,
    size: usize,
    categories: usize,
}

impl Sets {
    /// Returns sets of `size` of `categories` categories, which lack the own one for `weight` of 2⁶⁴ words.
    ///
    /// # Errors
    /// If there are not 2 to 2²⁴ categories, the size is not from 1 to one less than these, or the weight is 0.
    pub fn new(weight: u64, size: u64, categories: u64) -> Result<Self, Error> {
        if !(2..=1 << 24).contains(&categories) {
            return Err(Error::parameter("num_categories", categories as f64, "from 2 to 2^24"));
        }
        if !(1..categories).contains(&size) {
            return Err(Error::parameter("size", size as f64, "from 1 to one less than num_categories"));
        }
        if weight == 0 {
            return Err(Error::parameter("weight", 0.0, "at least 1"));
        }
        Ok(Self { weight, size: size as usize, categories: categories as usize })
    }

    /// Returns how many words a message has.
    #[must_use]
    pub fn words_per_row(&self) -> usize {
        self.categories.div_ceil(64)
    }

    /// Writes the set of every answer into its row of `messages`, which are bits by category.
    ///
    /// # Panics
    /// If `messages` has not one row for each answer.
    pub fn apply(&self, isa: Isa, key: &Key, answers: &[i64], messages: &mut [u64], threads: NonZeroUsize) {
        let width = self.words_per_row();
        assert_eq!(messages.len(), answers.len() * width, "a row for each answer");
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            blocks::for_each_block(messages, SETS_PER_TASK * width, threads, |start, block| {
                let mut draws = Draws::new(&keystream, self.size);
                let first = start / width;
                for (index, (set, &answer)) in (first..).zip(block.chunks_mut(width).zip(&answers[first..])) {
                    self.draw(&keystream, &mut draws, index as u64, set, answer);
                }
            });
        });
    }

    fn draw(&self, keystream: &Keystream, draws: &mut Draws<'_>, index: u64, set: &mut [u64], answer: i64) {
        let own = usize::try_from(answer).unwrap_or(usize::MAX);
        // mutant: invalid-answers-are-no-category-of-a-set
        let own = if own < self.categories { own } else { 0 };
        // mutant: own-category-of-a-set-as-likely-as-not
        let is_in = keystream.words(0, index)[0] >= self.weight;
        draws.restart(index + 1);
        set.fill(0);
        let others = self.categories - 1;
        for (number, last) in (others - self.size..others).enumerate() {
            let drawn = other(draws.below(last as u32 + 1) as usize, own);
            // mutant: category-that-was-taken-is-drawn-twice
            let is_taken = set[drawn / 64] >> (drawn % 64) & 1 == 1;
            let place = if is_taken { other(last, own) } else { drawn };
            // The first is one too many where the own category takes its place.
            // mutant: set-with-its-own-category-is-larger
            set[place / 64] |= u64::from(number > 0 || !is_in) << (place % 64);
        }
        set[own / 64] |= u64::from(is_in) << (own % 64);
    }
}

/// Returns the place of another category among all of them.
#[inline(always)]
fn other(place: usize, own: usize) -> usize {
    place + usize::from(place >= own)
}

/// Uniform integers from the words of one stream.
struct Draws<'a> {
    keystream: &'a Keystream,
    stream: u64,
    block: u64,
    words: [u8; DRAWS_PER_CHUNK * 4],
    /// How many of the words are filled at once, and how many were read.
    length: usize,
    next: usize,
}

impl<'a> Draws<'a> {
    fn new(keystream: &'a Keystream, usual: usize) -> Self {
        let length = usual.next_multiple_of(4).min(DRAWS_PER_CHUNK);
        Self { keystream, stream: 0, block: 0, words: [0; DRAWS_PER_CHUNK * 4], length, next: length }
    }

    fn restart(&mut self, stream: u64) {
        (self.stream, self.block, self.next) = (stream, 0, self.length);
    }

    #[inline(always)]
    fn word(&mut self) -> u32 {
        if self.next == self.length {
            self.keystream.fill(self.stream, self.block, &mut self.words[..self.length * 4]);
            self.block += (self.length * 4 / CIPHER_BLOCK) as u64;
            self.next = 0;
        }
        self.next += 1;
        u32::from_le_bytes(self.words.as_chunks().0[self.next - 1])
    }

    /// Returns one of the first `bound` numbers, each as likely.
    #[inline(always)]
    fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.word()) * u64::from(bound);
        if (product as u32) < bound {
            // mutant: no-draw-of-a-set-is-repeated
            let least = bound.wrapping_neg() % bound;
            while (product as u32) < least {
                product = u64::from(self.word()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Runs one answer on chosen words: the one that decides on its own category, and its draws.
    fn run(sets: &Sets, choice: u64, draws: &[u32], answer: i64) -> Vec<u64> {
        let draws = draws.to_vec();
        let keystream = Keystream::of_tape(move |stream, block| {
            let word = |place: usize| u64::from(draws.get(4 * block as usize + place).copied().unwrap_or(1 << 31));
            if stream == 0 { [choice, 0] } else { [word(1) << 32 | word(0), word(3) << 32 | word(2)] }
        });
        let mut set = vec![u64::MAX; sets.words_per_row()];
        sets.draw(&keystream, &mut Draws::new(&keystream, sets.size), 0, &mut set, answer);
        set
    }

    /// All draws of a set, each as likely as the others: the middle word of every number below each bound.
    fn all_draws(sets: &Sets) -> Vec<Vec<u32>> {
        let others = sets.categories - 1;
        (others - sets.size..others).fold(vec![vec![]], |begun, last| {
            let words: Vec<u32> = (0..=last as u64).map(|i| (((2 * i + 1) << 31) / (last as u64 + 1)) as u32).collect();
            begun.iter().flat_map(|some| words.iter().map(move |&word| [some.as_slice(), &[word]].concat())).collect()
        })
    }

    #[test]
    fn a_set_has_one_of_two_probabilities_whatever_the_answer() {
        for (weight, size, categories) in
            [(1 << 62, 1, 2), (1 << 62, 1, 4), (1, 2, 5), (u64::MAX, 3, 6), (1 << 63, 5, 6), (3, 2, 3)]
        {
            let sets = Sets::new(weight, size, categories).expect("valid");
            let draws = all_draws(&sets);
            for own in 0..categories.cast_signed() {
                // of 2⁶⁴ words each; the words from 0 to m − 1 leave the own category out
                let mut law: BTreeMap<u64, u128> = BTreeMap::new();
                for (words, ends) in [(weight, [0, weight - 1]), (weight.wrapping_neg(), [weight, u64::MAX])] {
                    for some in &draws {
                        let set = run(&sets, ends[0], some, own);
                        assert_eq!(set, run(&sets, ends[1], some, own), "what lies between is alike");
                        *law.entry(set[0]).or_insert(0) += u128::from(words);
                    }
                }
                let count = |n: u64, r: u64| (0..r).fold(1, |found, i| found * (n - i) / (i + 1));
                let shares = |sets: u64| draws.len() as u128 / u128::from(sets);
                assert_eq!(count(categories, size), law.len() as u64, "all sets of d");
                for (set, words) in law {
                    assert_eq!(size, u64::from(set.count_ones()));
                    let expected = if set >> own & 1 == 1 {
                        u128::from(weight.wrapping_neg()) * shares(count(categories - 1, size - 1))
                    } else {
                        u128::from(weight) * shares(count(categories - 1, size))
                    };
                    assert_eq!(expected, words, "set {set:b} of answer {own}");
                }
            }
            assert_eq!(run(&sets, weight, &draws[0], 0), run(&sets, weight, &draws[0], -1));
            assert_eq!(run(&sets, weight, &draws[0], 0), run(&sets, weight, &draws[0], categories.cast_signed()));
        }
    }

    /// Of 2³² words each number below a bound has the same number: all but those that are drawn again.
    #[test]
    fn numbers_below_a_bound_are_equally_likely_to_the_last_word() {
        for bound in [1_u32, 2, 3, 5, 7, 100, 1023, 1 << 20, (1 << 24) - 1] {
            // A word that is drawn again gives what the next one does: words in the middle of the first number, and of the last.
            let middle = ((1_u64 << 31) / u64::from(bound)) as u32;
            let of = |word: u64, next: u32| {
                let keystream = Keystream::of_tape(move |_, _| [u64::from(next) << 32 | word, u64::from(next)]);
                Draws::new(&keystream, 1).below(bound)
            };
            let share = (1_u64 << 32) / u64::from(bound);
            for number in (0..bound.min(50)).chain(bound.saturating_sub(50)..bound) {
                let start = (u64::from(number) << 32).div_ceil(u64::from(bound));
                let end = (u64::from(number + 1) << 32).div_ceil(u64::from(bound));
                let is_repeated = |word| of(word, middle) != of(word, u32::MAX - middle);
                let kept = end - start - u64::from(bound > 1 && is_repeated(start));
                assert_eq!(share, kept, "words of {number} of {bound}");
                for word in [start + 1, end - 1] {
                    assert!(
                        word >= end || word <= start || (number == of(word, middle) && !is_repeated(word)),
                        "{word}"
                    );
                }
            }
        }
    }

    #[test]
    fn isas_and_threads_agree() {
        for (size, categories) in [(269, 1000), (3, 9), (600, 1024)] {
            let sets = Sets::new(1 << 62, size, categories).expect("valid");
            let answers: Vec<i64> = (0..2500).map(|i| i % 1002 - 1).collect();
            let applied = |isa, threads| {
                let mut messages = vec![0; answers.len() * sets.words_per_row()];
                let threads = NonZeroUsize::new(threads).expect("positive");
                sets.apply(isa, &Key::from_bytes([5; 32]), &answers, &mut messages, threads);
                messages
            };
            let expected = applied(Isa::PORTABLE, 1);
            for row in expected.chunks(sets.words_per_row()) {
                assert_eq!(size, row.iter().map(|word| u64::from(word.count_ones())).sum::<u64>());
            }
            for isa in Isa::available() {
                for threads in [1, 3] {
                    assert!(expected == applied(isa, threads), "{isa:?}");
                }
            }
        }
        for (weight, size, categories) in [(0, 1, 3), (1, 0, 3), (1, 3, 3), (1, 1, 1), (1, 1, (1 << 24) + 1)] {
            assert!(Sets::new(weight, size, categories).is_err());
        }
    }
}
