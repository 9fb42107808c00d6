//! Answers that are vectors: the number of a code word near to the vector, or of one that is not [ICOWN23].
//!
//! *The code.* A nonce of 64 bits is the key of `N` directions `V₀ … V_{N−1}`: coordinates are independent standard normal variables, real
//! numbers whose digits are drawn as they are needed ([`crate::sample::standard`]). Code word `2j` is `V_j`, code word `2j + 1` is `−V_j`. The nonce is
//! drawn before the vector is looked at, and is part of the message: anyone can compute the code.
//!
//! *The message.* Let `s_j = ⟨V_j, x⟩`. The *top* of `x` is the set of the code words `V_j` or `−V_j`, whichever has a product of at least 0, of the `m`
//! directions with the largest `|s_j|`, ties by number. For `weight` of 2⁶⁴ words the message is one of the other `2N − m` code words, else one of the top;
//! within each they are equally likely, by integers that are unbiased by rejection. So every code word has one of two probabilities, whatever the
//! vector and whatever the code: no rounding of products takes part in the guarantee.
//!
//! *The vector.* A vector of norm `C` or more stands for its direction; a shorter one for its direction with probability `(1 + ‖x‖/C)/2`, else for the opposite
//! one, so that the mean is `x/C`. Directions are rounded to a grid of 2⁻³⁰. What is not finite counts as zero.
//!
//! *Ranks.* They are those of the real numbers, so that outputs depend on no instruction set. Floats propose: each coordinate is within
//! [`Precision::error`], and a sum of `d` products in 16 lanes rounds each term at most `d/16 + 8` times. If products differ by less than twice that bound, or are
//! nearer to 0 than it, integers of 56 binary digits decide.
//!
//! Vector `i` owns block `i` of stream 0, a word for each decision, and of stream 1, the nonce and the word of the sign; further words are those of
//! block `i` of other streams.

use core::num::NonZeroUsize;

use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::math::float_environment::in_default_environment;
use crate::params::{exp2, positive};
use crate::random::{Key, Keystream};
use crate::sample::standard::{NORMAL_GRID_BITS, NORMALS_PER_CHUNK, Normals, Precision, Words, standard};

/// Vectors in one unit of work for a thread.
const VECTORS_PER_TASK: usize = 16;

/// Coordinates that are in memory at once where products are summed, and independent partial sums.
const COORDINATES_PER_CHUNK: usize = 512;
const LANES_PER_SUM: usize = 16;

/// Coordinates of one sum of code words for a thread.
const COORDINATES_PER_SUM: usize = 8 * NORMALS_PER_CHUNK;

/// Code words after which their sum leaves the integers: each coordinate is below 2⁴² in size.
const WORDS_PER_SUM: usize = 1 << 20;

/// The grid that directions are rounded to: 2⁻³⁰.
const DIRECTION_BITS: i32 = 30;

/// Binary digits of coordinates where floats leave ranks open.
const SETTLING_BITS: u32 = 56;

/// No normal variable is as large, but for an event of probability below 10⁻³⁴⁰.
const MAX_NORMAL: f64 = 40.0;

/// The most coordinates, and the most directions of a code.
const MAX_DIMENSION: u64 = 1 << 20;
const MAX_DIRECTIONS: u64 = 1 << 12;

/// Words of a message: the nonce, and the number of a code word.
pub const WORDS_PER_MESSAGE: usize = 2;

/// How vectors are answered.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// Words of 2⁶⁴ with which the code word is not one of the top.
    weight: u64,
    dimension: usize,
    directions: usize,
    /// How many code words are the top.
    size: usize,
    /// Widens the margin of floats: 1 but in tests.
    widening: f64,
}

impl Vectors {
    /// Returns answers about vectors of `dimension` coordinates by `directions` and their opposites, of which `size` are near.
    ///
    /// # Errors
    /// If there are not 1 to 2²⁰ coordinates or not 1 to 2¹² directions, the size is not from 1 to these, or the weight is 0.
    pub fn new(weight: u64, dimension: u64, directions: u64, size: u64) -> Result<Self, Error> {
        if weight == 0 {
            return Err(Error::parameter("weight", 0.0, "at least 1"));
        }
        if !(1..=MAX_DIMENSION).contains(&dimension) {
            return Err(Error::parameter("dimension", dimension as f64, "from 1 to 2^20"));
        }
        if !(1..=MAX_DIRECTIONS).contains(&directions) {
            return Err(Error::parameter("num_directions", directions as f64, "from 1 to 4096"));
        }
        if !(1..=directions).contains(&size) {
            return Err(Error::parameter("size", size as f64, "from 1 to num_directions"));
        }
        let (dimension, directions, size) = (dimension as usize, directions as usize, size as usize);
        Ok(Self { weight, dimension, directions, size, widening: 1.0 })
    }

    /// Writes the message about every row of `vectors` into its row of `messages`; the vectors become their directions.
    ///
    /// # Errors
    /// If `clip_norm` is not finite and positive.
    ///
    /// # Panics
    /// If `vectors` and `messages` have not as many rows.
    pub fn apply(
        &self,
        isa: Isa,
        key: &Key,
        clip_norm: f64,
        vectors: &mut [f64],
        messages: &mut [u64],
        threads: NonZeroUsize,
    ) -> Result<(), Error> {
        let clip_norm = positive("clip_norm", clip_norm)?;
        let rows = messages.len() / WORDS_PER_MESSAGE;
        assert!(messages.len() == rows * WORDS_PER_MESSAGE && vectors.len() == rows * self.dimension, "a row for each");
        let noise = standard();
        leaving_nothing(|| {
            let keystream = Keystream::new(isa, key);
            // The threshold of the sign's word waits where the message will be.
            in_default_environment(|| {
                for (row, message) in
                    vectors.chunks_exact_mut(self.dimension).zip(messages.chunks_mut(WORDS_PER_MESSAGE))
                {
                    message[0] = direction(row, clip_norm);
                }
            });
            let vectors = &*vectors;
            blocks::for_each_block(messages, VECTORS_PER_TASK * WORDS_PER_MESSAGE, threads, |start, block| {
                let first = start / WORDS_PER_MESSAGE;
                let mut ranks = Ranks::new(self.directions);
                for (index, message) in (first..).zip(block.chunks_mut(WORDS_PER_MESSAGE)) {
                    let row = &vectors[index * self.dimension..][..self.dimension];
                    // mutant: nonce-is-the-coin
                    let [nonce, sign] = keystream.words(1, index as u64);
                    // mutant: short-vectors-keep-their-sign
                    let is_opposite = sign >= message[0] && message[0] != u64::MAX;
                    let code = code_key(nonce);
                    let top =
                        in_default_environment(|| ranks.top(self, &Normals::new(&noise, isa, &code), row, is_opposite));
                    let number = self.choose(&keystream, index as u64, keystream.words(0, index as u64), top);
                    message.copy_from_slice(&[nonce, number]);
                }
            });
        });
        Ok(())
    }

    /// Returns the number of a code word, `top` being those of the likely ones in ascending order.
    fn choose(&self, keystream: &Keystream, index: u64, words: [u64; 2], top: &[u32]) -> u64 {
        let [coin, choice] = words;
        // mutant: code-word-of-the-top-is-as-likely-as-not
        let is_near = coin >= self.weight;
        let others = 2 * self.directions - self.size;
        let place = below(keystream, index, choice, if is_near { self.size } else { others } as u64);
        if is_near {
            return u64::from(top[place as usize]);
        }
        // mutant: code-words-of-the-top-come-with-the-others
        top.iter().fold(place, |number, &near| number + u64::from(number >= u64::from(near)))
    }

    /// Writes the sum of the code words of `messages`, each coordinate rounded to a multiple of 2⁻³⁶ before.
    ///
    /// # Panics
    /// If `out` has not as many elements as vectors have coordinates, or a message has the number of no code word.
    pub fn sum(&self, isa: Isa, messages: &[u64], out: &mut [f64], threads: NonZeroUsize) {
        assert_eq!(self.dimension, out.len(), "a sum for each coordinate");
        let noise = standard();
        blocks::for_each_block(out, COORDINATES_PER_SUM, threads, |start, block| {
            block.fill(0.0);
            let mut sums = [0_i64; COORDINATES_PER_SUM];
            let mut steps = [0.0; NORMALS_PER_CHUNK];
            for messages in messages.chunks(WORDS_PER_SUM * WORDS_PER_MESSAGE) {
                for message in messages.chunks_exact(WORDS_PER_MESSAGE) {
                    let number = message[1];
                    assert!(number < 2 * self.directions as u64, "the number of a code word");
                    let code = code_key(message[0]);
                    let normals = Normals::new(&noise, isa, &code);
                    let first = self.first_coordinate((number / 2) as usize) + start as u64;
                    let chunks = sums[..block.len()].chunks_mut(NORMALS_PER_CHUNK);
                    for (from, sums) in (first..).step_by(NORMALS_PER_CHUNK).zip(chunks) {
                        let steps = &mut steps[..sums.len()];
                        in_default_environment(|| normals.round(from, steps));
                        // mutant: opposite-code-words-are-added-like-others
                        let sign = if number % 2 == 1 { -1 } else { 1 };
                        for (sum, step) in sums.iter_mut().zip(&*steps) {
                            *sum += sign * (*step as i64);
                        }
                    }
                }
                for (total, sum) in block.iter_mut().zip(&mut sums) {
                    *total += *sum as f64 * exp2(-NORMAL_GRID_BITS.cast_signed());
                    *sum = 0;
                }
            }
        });
    }

    /// Returns the sample that is the first coordinate of a direction.
    fn first_coordinate(&self, direction: usize) -> u64 {
        (direction * self.dimension.next_multiple_of(NORMALS_PER_CHUNK)) as u64
    }

    /// Returns how far a product may be from the truth that floats give: each coordinate, and each rounding.
    fn margin(&self, row: &[f64]) -> f64 {
        let roundings = (self.dimension / LANES_PER_SUM + 8) as f64 * exp2(-53) * (MAX_NORMAL + 1.0);
        let size: f64 = row.iter().map(|x| x.abs()).sum();
        1.001 * size * (Precision::Coarse.error() + roundings) * self.widening
    }
}

/// Returns the key of a code: the nonce and zeros. It is public.
fn code_key(nonce: u64) -> Key {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&nonce.to_le_bytes());
    Key::from_bytes(bytes)
}

/// Replaces a vector by its direction, in steps of 2⁻³⁰, and returns how many words of the sign keep it: for `u64::MAX` all.
fn direction(row: &mut [f64], clip_norm: f64) -> u64 {
    let largest = row.iter().fold(0.0, |most: f64, x| if x.is_finite() { most.max(x.abs()) } else { f64::INFINITY });
    if largest == 0.0 || largest == f64::INFINITY {
        row.fill(0.0);
        return 1 << 63;
    }
    let norm = row.iter().map(|x| (x / largest) * (x / largest)).sum::<f64>().sqrt();
    let share = largest / clip_norm * norm;
    for x in row.iter_mut() {
        *x = (*x / largest / norm * exp2(DIRECTION_BITS)).round_ties_even();
    }
    if share >= 1.0 { u64::MAX } else { (1 << 63) + (share * exp2(63)) as u64 }
}

/// Returns one of the first `bound` numbers, each as likely, from a word and further ones.
fn below(keystream: &Keystream, index: u64, word: u64, bound: u64) -> u64 {
    let mut product = u128::from(word) * u128::from(bound);
    // mutant: code-words-chosen-without-rejection
    let least = bound.wrapping_neg() % bound;
    let mut stream = 2;
    while (product as u64) < least {
        product = u128::from(keystream.words(stream, index)[0]) * u128::from(bound);
        stream += 1;
    }
    (product >> 64) as u64
}

/// Room for the products of one vector, and for their order.
struct Ranks {
    products: Vec<f64>,
    order: Vec<u32>,
    top: Vec<u32>,
}

impl Ranks {
    fn new(directions: usize) -> Self {
        Self {
            products: vec![0.0; directions],
            order: Vec::with_capacity(directions),
            top: Vec::with_capacity(directions),
        }
    }

    /// Returns the numbers of the top's code words, ascending, for a direction or for its opposite.
    fn top(&mut self, of: &Vectors, normals: &Normals<'_>, row: &[f64], is_opposite: bool) -> &[u32] {
        let (size, zero) = (of.size, row.iter().all(|&x| x == 0.0));
        for (number, product) in self.products.iter_mut().enumerate() {
            *product = if zero { 0.0 } else { dot(normals, of.first_coordinate(number), row) };
        }
        let products = &self.products;
        let size_of = |number: u32| products[number as usize].abs();
        self.order.clear();
        self.order.extend(0..of.directions as u32);
        if size < of.directions {
            let larger = |a: &u32, b: &u32| size_of(*b).total_cmp(&size_of(*a)).then(a.cmp(b));
            self.order.select_nth_unstable_by(size - 1, larger);
        }
        let (near, far) = self.order.split_at(size);
        let least = near.iter().map(|&number| size_of(number)).fold(f64::INFINITY, f64::min);
        let most = far.iter().map(|&number| size_of(number)).fold(f64::NEG_INFINITY, f64::max);
        let margin = of.margin(row);
        self.top.clear();
        // mutant: ranks-of-products-without-a-margin
        if zero || (least > margin && least - most > 2.0 * margin) {
            self.top.extend(near.iter().map(|&number| signed(number, products[number as usize] < 0.0)));
        } else {
            settle(of, normals, row, products, [least - 2.0 * margin, most + 2.0 * margin, margin], &mut self.top);
        }
        for number in &mut self.top {
            *number ^= u32::from(is_opposite);
        }
        self.top.sort_unstable();
        &self.top
    }
}

/// Returns the number of a direction's code word, or of its opposite.
fn signed(direction: u32, is_negative: bool) -> u32 {
    2 * direction + u32::from(is_negative)
}

/// Appends the top's code words where floats leave it open: whose sizes are between the limits, or within the margin of 0.
#[cold]
fn settle(of: &Vectors, normals: &Normals<'_>, row: &[f64], products: &[f64], limits: [f64; 3], top: &mut Vec<u32>) {
    let [lower, upper, margin] = limits;
    let mut open = Vec::with_capacity(of.directions);
    for (number, &product) in (0_u32..).zip(products) {
        let size = product.abs();
        if size <= margin || (lower..=upper).contains(&size) {
            let exact = product_in_digits(normals, of.first_coordinate(number as usize), row);
            open.push((exact, number));
        } else if size > upper {
            top.push(signed(number, product < 0.0));
        }
    }
    open.sort_unstable_by(|(a, i), (b, j)| b.unsigned_abs().cmp(&a.unsigned_abs()).then(i.cmp(j)));
    let places = of.size - top.len();
    top.extend(open[..places].iter().map(|&(exact, number)| signed(number, exact < 0)));
}

/// Returns the product of a direction and a vector, as floats propose it.
fn dot(normals: &Normals<'_>, first: u64, row: &[f64]) -> f64 {
    let (mut words, mut variables) = (Words::new(), [0.0; COORDINATES_PER_CHUNK]);
    let mut lanes = [0.0; LANES_PER_SUM];
    for (start, row) in (first..).step_by(COORDINATES_PER_CHUNK).zip(row.chunks(COORDINATES_PER_CHUNK)) {
        let variables = &mut variables[..row.len()];
        normals.propose(Precision::Coarse, start, &mut words, variables);
        let ((xs, last_xs), (zs, last_zs)) = (row.as_chunks::<LANES_PER_SUM>(), variables.as_chunks::<LANES_PER_SUM>());
        for (xs, zs) in xs.iter().zip(zs) {
            for lane in 0..LANES_PER_SUM {
                lanes[lane] += xs[lane] * zs[lane];
            }
        }
        for ((sum, x), z) in lanes.iter_mut().zip(last_xs).zip(last_zs) {
            *sum += x * z;
        }
    }
    lanes.iter().sum()
}

/// Returns the same in steps of 2^−[`SETTLING_BITS`], coordinates being rounded toward zero.
fn product_in_digits(normals: &Normals<'_>, first: u64, row: &[f64]) -> i128 {
    let term = |(index, &x): (u64, &f64)| {
        if x == 0.0 {
            return 0;
        }
        let digits = normals.enclose(index, SETTLING_BITS);
        let size = i128::from(digits.magnitude.low()) * x as i128;
        if digits.negative { -size } else { size }
    };
    (first..).zip(row).map(term).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn made(weight: u64, dimension: u64, directions: u64, size: u64) -> Vectors {
        Vectors::new(weight, dimension, directions, size).expect("valid")
    }

    /// All sets of so many directions, each with a sign, as code words in ascending order.
    fn all_tops(directions: u32, size: usize) -> Vec<Vec<u32>> {
        let all = 0..1_u32 << (2 * directions);
        all.map(|bits| (0..2 * directions).filter(|number| bits >> number & 1 == 1).collect::<Vec<_>>())
            .filter(|top| top.len() == size && top.windows(2).all(|two| two[0] / 2 != two[1] / 2))
            .collect()
    }

    #[test]
    fn a_code_word_has_one_of_two_probabilities_whatever_the_top() {
        for (weight, directions, size) in
            [(1 << 62, 1, 1), (1 << 62, 2, 1), (1, 3, 2), (u64::MAX, 3, 3), (1 << 63, 4, 1), (12345, 4, 3)]
        {
            let vectors = made(weight, 1, directions, size);
            let keystream = Keystream::of_tape(|_, _| unreachable!("middle words are kept"));
            for top in all_tops(directions as u32, size as usize) {
                let mut law: BTreeMap<u64, (u64, u128)> = BTreeMap::new();
                for (words, ends, count) in [
                    (weight, [0, weight - 1], 2 * directions - size),
                    (weight.wrapping_neg(), [weight, u64::MAX], size),
                ] {
                    for place in 0..count {
                        let choice = ((u128::from(2 * place + 1) << 63) / u128::from(count)) as u64;
                        let number = vectors.choose(&keystream, 0, [ends[0], choice], &top);
                        assert_eq!(
                            number,
                            vectors.choose(&keystream, 0, [ends[1], choice], &top),
                            "what lies between is alike"
                        );
                        let before = law.insert(number, (count, u128::from(words)));
                        assert_eq!(None, before, "a code word for each place");
                    }
                }
                assert_eq!((0..2 * directions).collect::<Vec<_>>(), law.keys().copied().collect::<Vec<_>>());
                for (number, found) in law {
                    let is_near = top.contains(&(number as u32));
                    let expected =
                        if is_near { (size, weight.wrapping_neg()) } else { (2 * directions - size, weight) };
                    assert_eq!((expected.0, u128::from(expected.1)), found, "{number} of {top:?}");
                }
            }
        }
    }

    /// Of 2⁶⁴ words each number below a bound has the same number: all but those that are drawn again.
    #[test]
    fn places_are_equally_likely_to_the_last_word() {
        for bound in [1_u64, 2, 3, 5, 7, 100, 1023, 4096, 8191] {
            let of = |word: u128, next: u64| {
                let keystream = Keystream::of_tape(move |stream, index| {
                    assert_eq!((2, 9), (stream, index));
                    [next, 0]
                });
                below(&keystream, 9, word as u64, bound)
            };
            // A word that is drawn again gives what the next one does: words in the middle of the first number and of the last.
            let middle = ((1_u128 << 63) / u128::from(bound)) as u64;
            let share = (1_u128 << 64) / u128::from(bound);
            for number in (0..bound.min(40)).chain(bound.saturating_sub(40)..bound) {
                let start = (u128::from(number) << 64).div_ceil(u128::from(bound));
                let end = (u128::from(number + 1) << 64).div_ceil(u128::from(bound));
                let is_repeated = |word| of(word, middle) != of(word, u64::MAX - middle);
                assert_eq!(share, end - start - u128::from(bound > 1 && is_repeated(start)), "{number} of {bound}");
                for word in [start + 1, end - 1] {
                    assert!(
                        word >= end || word <= start || (number == of(word, middle) && !is_repeated(word)),
                        "{word}"
                    );
                }
            }
        }
    }

    fn rows(count: usize, dimension: usize) -> Vec<f64> {
        let mut bytes = vec![0; count * dimension * 8];
        Key::from_bytes([9; 32]).fill(Isa::PORTABLE, &mut bytes);
        bytes.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word) as f64 * exp2(-62)).collect()
    }

    fn answered(of: &Vectors, isa: Isa, threads: usize, vectors: &[f64], clip_norm: f64) -> Vec<u64> {
        let mut messages = vec![0; vectors.len() / of.dimension * WORDS_PER_MESSAGE];
        let threads = NonZeroUsize::new(threads).expect("positive");
        of.apply(isa, &Key::from_bytes([5; 32]), clip_norm, &mut vectors.to_vec(), &mut messages, threads)
            .expect("valid");
        messages
    }

    #[test]
    fn isas_and_threads_agree() {
        for (dimension, directions, size) in [(1, 3, 2), (17, 8, 5), (530, 5, 1), (1030, 2, 2)] {
            let vectors = made(1 << 62, dimension, directions, size);
            let given = rows(40, dimension as usize);
            let expected = answered(&vectors, Isa::PORTABLE, 1, &given, 3.0);
            let threads = NonZeroUsize::new(3).expect("positive");
            let mut sums = vec![0.0; dimension as usize];
            vectors.sum(Isa::PORTABLE, &expected, &mut sums, NonZeroUsize::MIN);
            for isa in Isa::available() {
                for threads in [1, 3] {
                    assert!(expected == answered(&vectors, isa, threads, &given, 3.0), "{isa:?}");
                }
                let mut again = vec![f64::NAN; dimension as usize];
                vectors.sum(isa, &expected, &mut again, threads);
                assert!(sums == again, "{isa:?}");
            }
        }
        for (weight, dimension, directions, size) in [
            (0, 1, 1, 1),
            (1, 0, 1, 1),
            (1, (1 << 20) + 1, 1, 1),
            (1, 1, 0, 1),
            (1, 1, 4097, 1),
            (1, 1, 3, 0),
            (1, 1, 3, 4),
        ] {
            assert!(Vectors::new(weight, dimension, directions, size).is_err());
        }
        let mut message = [0; 2];
        assert!(
            made(1, 1, 1, 1)
                .apply(Isa::PORTABLE, &Key::from_bytes([5; 32]), 0.0, &mut [1.0], &mut message, NonZeroUsize::MIN)
                .is_err()
        );
    }

    /// With wide margins integers decide what floats would have decided.
    #[test]
    fn wider_margins_change_no_message() {
        for (dimension, directions, size) in [(2, 6, 2), (3, 5, 5), (20, 9, 1)] {
            let vectors = made(1 << 62, dimension, directions, size);
            let given = rows(30, dimension as usize);
            let expected = answered(&vectors, Isa::best(), 1, &given, 3.0);
            for widening in [exp2(31), exp2(35), exp2(60)] {
                let wider = Vectors { widening, ..vectors.clone() };
                assert_eq!(expected, answered(&wider, Isa::best(), 1, &given, 3.0), "{widening:e}");
            }
        }
    }

    /// Products that floats find equal, or in the other order, are ranked by their digits.
    #[test]
    fn near_ties_are_settled_by_digits() {
        let vectors = made(1, 2, 4, 2);
        let (noise, code) = (standard(), code_key(7));
        leaving_nothing(|| {
            let normals = Normals::new(&noise, Isa::best(), &code);
            let row = [exp2(29), -exp2(28)];
            let exact: Vec<i128> =
                (0..4).map(|j| product_in_digits(&normals, vectors.first_coordinate(j), &row)).collect();
            let mut order: Vec<u32> = (0..4).collect();
            order.sort_by_key(|&j| core::cmp::Reverse(exact[j as usize].unsigned_abs()));
            let mut expected: Vec<u32> = order[..2].iter().map(|&j| signed(j, exact[j as usize] < 0)).collect();
            expected.sort_unstable();
            for (j, digits) in exact.iter().enumerate() {
                let float = dot(&normals, vectors.first_coordinate(j), &row);
                assert!((float - *digits as f64 * exp2(-56)).abs() <= vectors.margin(&row) + exp2(-20));
            }
            let mut top = Vec::new();
            settle(&vectors, &normals, &row, &[-0.25, 0.25, 0.5, -0.5], [-1.0, 1.0, 1.0], &mut top);
            top.sort_unstable();
            assert_eq!(expected, top);
            assert_eq!(expected, Ranks::new(4).top(&vectors, &normals, &row, false));
            let opposite: BTreeSet<u32> = expected.iter().map(|number| number ^ 1).collect();
            assert_eq!(opposite, Ranks::new(4).top(&vectors, &normals, &row, true).iter().copied().collect());
        });
    }

    /// Vectors almost orthogonal to the difference of two directions: floats find the wrong order for about half of them.
    #[test]
    fn products_nearer_to_each_other_than_floats_can_tell_have_their_order() {
        let (vectors, noise) = (made(1, 2, 2, 1), standard());
        let mut misled = 0;
        for nonce in 0..40 {
            let code = code_key(nonce);
            leaving_nothing(|| {
                let normals = Normals::new(&noise, Isa::best(), &code);
                let unit = |j: usize, row: &[f64]| product_in_digits(&normals, vectors.first_coordinate(j), row);
                let apart = [[1.0, 0.0], [0.0, 1.0]].map(|row| unit(0, &row) - unit(1, &row));
                let (mut a, mut b) = (apart[1].abs(), apart[0].abs());
                let (mut before, mut last) = ([0, 1], [1, 0]);
                while b != 0 {
                    let next = [0, 1].map(|i| before[i] + a / b * last[i]);
                    if next[0].max(next[1]) > 1 << 20 {
                        break;
                    }
                    (before, last, a, b) = (last, next, b, a % b);
                }
                let sign = if (apart[0] < 0) == (apart[1] < 0) { -1.0 } else { 1.0 };
                let row = [last[0] as f64, sign * last[1] as f64];
                let exact = [0, 1].map(|j| unit(j, &row));
                let floats = [0, 1].map(|j| dot(&normals, vectors.first_coordinate(j), &row));
                let larger = usize::from(exact[1].abs() > exact[0].abs());
                misled += usize::from((floats[1].abs() > floats[0].abs()) != (larger == 1));
                let expected = signed(larger as u32, exact[larger] < 0);
                assert_eq!(&[expected], Ranks::new(2).top(&vectors, &normals, &row, false), "nonce {nonce}");
            });
        }
        assert!(misled > 0, "floats would do");
    }

    #[test]
    fn opposite_code_words_add_up_to_zero() {
        let vectors = made(1, 5, 3, 1);
        let summed = |messages: &[u64]| {
            let mut sums = vec![f64::NAN; 5];
            vectors.sum(Isa::best(), messages, &mut sums, NonZeroUsize::MIN);
            sums
        };
        let one = summed(&[7, 4]);
        assert!(one.iter().all(|&x| x != 0.0 && x.abs() < 6.0));
        assert_eq!(vec![0.0; 5], summed(&[7, 4, 7, 5]));
        assert_eq!(one.iter().map(|x| 2.0 * x).collect::<Vec<_>>(), summed(&[7, 4, 7, 4]));
        assert!(one != summed(&[7, 2]) && one != summed(&[8, 4]), "another code word");
        assert_eq!(vec![0.0; 5], summed(&[]));
    }

    /// Who sees a nonce learns nothing about the coin: it is a word of its own.
    #[test]
    fn nonces_are_words_that_decide_on_nothing() {
        let messages = answered(&made(1 << 62, 3, 2, 1), Isa::best(), 1, &rows(50, 3), 3.0);
        let keystream = Keystream::new(Isa::PORTABLE, &Key::from_bytes([5; 32]));
        for (index, message) in (0..).zip(messages.chunks(WORDS_PER_MESSAGE)) {
            assert_eq!(keystream.words(1, index)[0], message[0]);
        }
    }

    #[test]
    fn vectors_become_directions_and_short_ones_a_chance() {
        let of = |row: &[f64], clip_norm| {
            let mut row = row.to_vec();
            let threshold = direction(&mut row, clip_norm);
            (row, threshold)
        };
        assert_eq!(
            ([0.6, -0.8].iter().map(|x: &f64| (x * exp2(30)).round()).collect(), u64::MAX),
            of(&[3.0, -4.0], 5.0)
        );
        assert_eq!((vec![exp2(30)], 3 << 62), of(&[1.0], 2.0), "half the bound: one in four is opposite");
        assert_eq!((vec![-exp2(30)], u64::MAX), of(&[-f64::MAX], 1e-300));
        assert_eq!((vec![exp2(30)], 1 << 63), of(&[5e-324], 1e300));
        for row in [[0.0, 0.0], [1.0, f64::NAN], [f64::INFINITY, 0.0]] {
            assert_eq!((vec![0.0, 0.0], 1 << 63), of(&row, 1.0));
        }
        // A quarter of the vectors of half the norm are answered as their opposites: nonces are the same, and the code words flip.
        let vectors = made(1, 3, 1, 1);
        let given = [1.0, 2.0, 2.0].repeat(10_000);
        let (kept, flipped) =
            (answered(&vectors, Isa::best(), 1, &given, 3.0), answered(&vectors, Isa::best(), 1, &given, 6.0));
        let changed = kept.chunks(2).zip(flipped.chunks(2)).filter(|(a, b)| {
            assert_eq!(a[0], b[0]);
            a[1] != b[1]
        });
        let deviations = (changed.count() as f64 - 2500.0) / (10_000.0_f64 * 0.25 * 0.75).sqrt();
        assert!(deviations.abs() < 6.0, "{deviations} standard deviations");
    }
}
