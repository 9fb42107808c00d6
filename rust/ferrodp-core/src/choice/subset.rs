//! Random subsets: who takes part in a step, with exactly the law that is accounted.
//!
//! - [`poisson`]: each of `n` records with probability `q`, independently.
//! - [`fixed_size`]: every set of `m` out of `n` records equally likely.
//! - [`allocation`]: every record in `k` of `t` steps, every choice of steps equally likely (balls in bins).
//!
//! # Poisson samples by skipping
//! Below `q = 1/32` the gaps between members are drawn instead of a coin a record. A gap `G` is geometric,
//! `P[G ≥ k] = (1 − q)^k`, and by inversion `G = ⌊E/λ⌋` with `E = −ln U` and `λ = −ln(1 − q)`: `G ≥ k` means `U ≤ e^−kλ`. Gap `j`
//! owns word `j` of stream 0 as the first 64 digits of its `U`; blocks `j` of the streams from 1 on hold further ones.
//! Floating point proposes: `E` and `λ` have bounds that were proven, and where all of `[E/λ]` has one integer part, that is
//! the gap. Elsewhere `U` is compared with `e^−kλ` in intervals of big integers, with as many digits as it takes; equality has
//! probability zero, as the threshold is one number and `U` has a density.
//!
//! From `q = 1/32` on `q·2⁶⁴` is an integer, as a float has 53 digits: record `i` joins if word `i` of stream 0 is below it.
//!
//! # Uniform integers
//! Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019, Algorithm 5: a product with the bound,
//! and rejection of the few words that would make it uneven. The words that follow a rejection are those of block `i` of
//! streams 1, 2, …. Sets are formed by Floyd's algorithm (Bentley, Floyd, "Programming pearls: a sample of brilliance",
//! CACM 30(9), 1987, Algorithm F2).

use crate::choice::select::lazy::{Uniform, minus_log, split};
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::hashing::Set;
use crate::machine::memory::{filled, gathered, push, room};
use crate::machine::residue::leaving_nothing;
use crate::math::float_environment::in_default_environment;
use crate::math::interval::Interval;
use crate::math::natural::Natural;
use crate::params::exp2;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// Words that are in memory at once.
const WORDS_PER_CHUNK: usize = 1024;

/// From this probability on there is a coin for every record.
const MIN_DENSE_PROBABILITY: f64 = 1.0 / 32.0;

/// The largest population: members are numbered by `i64`, and the float next to a number of records is off by less than 2⁻⁵².
pub const MAX_POPULATION: u64 = 1 << 62;

/// Returns the members of a Poisson sample of `0..population`, in increasing order.
///
/// # Errors
/// If the probability is not from 0 to 1, the population above [`MAX_POPULATION`], or there is no memory for the members.
pub fn poisson(isa: Isa, key: &Key, population: u64, probability: f64) -> Result<Vec<i64>, Error> {
    poisson_widened(isa, key, population, probability, 0.0)
}

/// The same with the filter's margin widened, so that exact comparisons decide often: for tests.
///
/// # Errors
/// As [`poisson`].
#[doc(hidden)]
pub fn poisson_widened(
    isa: Isa,
    key: &Key,
    population: u64,
    probability: f64,
    widening: f64,
) -> Result<Vec<i64>, Error> {
    check_population(population)?;
    if !(0.0..=1.0).contains(&probability) {
        return Err(Error::parameter("probability", probability, "from 0 to 1"));
    }
    if probability == 0.0 {
        return Ok(Vec::new());
    }
    if probability == 1.0 {
        return gathered(0..population.cast_signed());
    }
    leaving_nothing(|| {
        let keystream = Keystream::new(isa, key);
        if probability >= MIN_DENSE_PROBABILITY {
            return by_coins(&keystream, population, probability);
        }
        in_default_environment(|| by_gaps(&keystream, population, probability, widening))
    })
}

/// Returns a sample of `size` records out of `0..population` without replacement, in increasing order.
///
/// # Errors
/// If the size is above the population, that above [`MAX_POPULATION`], or there is no memory for the members.
pub fn fixed_size(isa: Isa, key: &Key, population: u64, size: u64) -> Result<Vec<i64>, Error> {
    check_population(population)?;
    if size > population {
        return Err(Error::parameter("size", size as f64, "at most the population"));
    }
    if size == population {
        return gathered(0..population.cast_signed());
    }
    leaving_nothing(|| {
        let keystream = Keystream::new(isa, key);
        let draws = Draws::new(&keystream);
        if size > population / 2 {
            return bitmap_of(draws, population, population - size)?.members(population, size, false);
        }
        if population / 64 <= size {
            return bitmap_of(draws, population, size)?.members(population, size, true);
        }
        let mut chosen = Set::default();
        let size_in_memory = usize::try_from(size).map_err(|_| Error::OutOfMemory)?;
        chosen.try_reserve(size_in_memory)?;
        let mut members = room(size_in_memory)?;
        choose(draws, population, size, |element| chosen.insert(element));
        members.extend(chosen.into_iter().map(u64::cast_signed));
        members.sort_unstable();
        Ok(members)
    })
}

/// What [`allocation`] returns: the members of all steps, one step after the other, and where each step begins and the last ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Members, in increasing order within a step.
    pub members: Vec<i64>,
    /// One more than there are steps; the members of step `s` are at `starts[s]..starts[s + 1]`.
    pub starts: Vec<i64>,
}

/// Allocates each of `population` records to `selected` different ones of `steps` steps.
///
/// # Errors
/// If there are no steps, more selected ones than steps, more memberships than [`MAX_POPULATION`], or no memory for them.
pub fn allocation(isa: Isa, key: &Key, population: u64, steps: u32, selected: u32) -> Result<Allocation, Error> {
    if steps == 0 {
        return Err(Error::parameter("steps", 0.0, ">= 1"));
    }
    if selected > steps {
        return Err(Error::parameter("selected", f64::from(selected), "at most the steps"));
    }
    let memberships = population.saturating_mul(u64::from(selected));
    check_population(memberships)?;
    let length = usize::try_from(memberships).map_err(|_| Error::OutOfMemory)?;
    leaving_nothing(|| {
        let keystream = Keystream::new(isa, key);
        let mut draws = Draws::new(&keystream);
        let mut chosen: Vec<u32> = room(length)?;
        let (starts, members) = (filled(0, steps as usize + 1)?, filled(0, length)?);
        for _ in 0..population {
            let begin = chosen.len();
            for last in u64::from(steps - selected)..u64::from(steps) {
                let drawn = draws.below(last + 1) as u32;
                let taken = chosen[begin..].contains(&drawn);
                // mutant: first-steps-chosen-more-often
                chosen.push(if taken { last as u32 } else { drawn });
            }
        }
        Ok(by_step(&chosen, selected, Allocation { members, starts }))
    })
}

/// Sorts the choices of all records, `selected` each, by step, into room that holds zeros.
fn by_step(chosen: &[u32], selected: u32, room: Allocation) -> Allocation {
    let Allocation { mut members, mut starts } = room;
    let steps = starts.len() - 1;
    for &step in chosen {
        starts[step as usize + 1] += 1;
    }
    for step in 0..steps {
        starts[step + 1] += starts[step];
    }
    for (record, steps) in chosen.chunks(selected.max(1) as usize).enumerate() {
        for &step in steps {
            let place = &mut starts[step as usize];
            members[*place as usize] = record as i64;
            *place += 1;
        }
    }
    // Each place has become the start of the next step.
    starts.copy_within(..steps, 1);
    starts[0] = 0;
    Allocation { members, starts }
}

fn check_population(population: u64) -> Result<(), Error> {
    if population <= MAX_POPULATION {
        return Ok(());
    }
    Err(Error::parameter("population", population as f64, "at most 2^62"))
}

/// Draws a coin for every record. `probability·2⁶⁴` is an integer.
fn by_coins(keystream: &Keystream, population: u64, probability: f64) -> Result<Vec<i64>, Error> {
    let threshold = (probability * exp2(64)) as u64;
    let mut members = room(expected(population, probability))?;
    let mut bytes = [0_u8; WORDS_PER_CHUNK * 8];
    let mut joining = [0_i64; WORDS_PER_CHUNK];
    let mut start = 0;
    while start < population {
        let words = &mut bytes[..8 * (population - start).min(WORDS_PER_CHUNK as u64) as usize];
        keystream.fill(0, start / WORDS_A_BLOCK, words);
        let mut count = 0;
        for (i, word) in words.as_chunks().0.iter().enumerate() {
            joining[count] = start.cast_signed() + i as i64;
            // mutant: record-joins-at-threshold
            count += usize::from(u64::from_le_bytes(*word) < threshold);
        }
        members.try_reserve(count)?;
        members.extend_from_slice(&joining[..count]);
        start += WORDS_PER_CHUNK as u64;
    }
    Ok(members)
}

/// Draws the gaps between members.
fn by_gaps(keystream: &Keystream, population: u64, probability: f64, widening: f64) -> Result<Vec<i64>, Error> {
    let rate = Rate::new(probability);
    let mut members = room(expected(population, probability))?;
    let mut words = Words::new(keystream);
    let mut position = 0_u64; // of the first record that is not decided
    loop {
        let (index, word) = words.next();
        let left = population - position;
        let gap = rate.proposed(word, left, widening).unwrap_or_else(|(least, most)| {
            let uniform = Uniform { word, further: |n| keystream.words(1 + n, index) };
            rate.exactly(&uniform, least, most)
        });
        if gap >= left {
            return Ok(members);
        }
        position += gap;
        push(&mut members, position.cast_signed())?;
        // mutant: two-members-never-next-to-each
        position += 1;
    }
}

/// `λ = −ln(1 − q)` of a probability `q < 1/32`.
struct Rate {
    probability: f64,
    lower: f64,
    upper: f64,
}

impl Rate {
    /// # Numerics
    /// `λ = q + q²/2 + q³/3 + …`, whose terms after the twelfth are together below `q·2⁻⁶⁰/(1 − 2⁻⁵)`. Horner's scheme on positive
    /// terms rounds 24 times at the most, each within u of the result (all parts are positive): 26u < 2⁻⁴⁸ covers all. Products
    /// that underflow are far below u of `q`, for which the first term alone counts.
    fn new(probability: f64) -> Self {
        let mut sum = 0.0;
        // mutant: rate-of-skipping-probability
        for i in (1..=12).rev() {
            sum = probability * (1.0 / f64::from(i) + sum);
        }
        let margin = exp2(-48);
        // One ulp more for subnormal numbers, for which no relative margin is left.
        Self { probability, lower: (sum * (1.0 - margin)).next_down(), upper: (sum * (1.0 + margin)).next_up() }
    }

    /// Returns the gap of a word, any number ≥ `left` standing for all of them; or the least and the most it can be.
    ///
    /// # Numerics
    /// The quotients and products err by less than 3u of themselves, u = 2⁻⁵³: the margin of 8u covers that.
    #[inline(always)]
    fn proposed(&self, word: u64, left: u64, widening: f64) -> Result<u64, (u64, u64)> {
        let bounds = minus_log(word);
        let margin = exp2(-50) + widening;
        // Conversions cut off the fraction, and stop at the largest integer.
        let least = (bounds.lower / self.upper * (1.0 - margin)) as u64;
        let most = (bounds.upper / self.lower * (1.0 + margin)) as u64;
        if least == most || least >= left { Ok(least) } else { Err((least, most.min(left))) }
    }

    /// Returns the gap, known to be from `least` to `most`; `most` if it is more. Bisection on exact comparisons.
    #[cold]
    fn exactly<F: Fn(u64) -> [u64; 2]>(&self, uniform: &Uniform<F>, mut least: u64, mut most: u64) -> u64 {
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if uniform.exponential_exceeds(|precision| self.times(middle, precision)) {
                // mutant: exact-comparisons-stop-one-below
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        least
    }

    /// Returns an interval that holds `count·λ`.
    fn times(&self, count: u64, precision: u32) -> Interval {
        let precision = precision + 64; // what the count multiplies
        let (mantissa, exponent) = split(self.probability);
        let shift = precision.cast_signed() + exponent;
        let numerator = Natural::new(u128::from(mantissa));
        let probability = if shift >= 0 {
            let exact = numerator.shl(shift.unsigned_abs());
            Interval::new(exact.clone(), exact, precision)
        } else {
            let low = numerator.shr(shift.unsigned_abs());
            Interval::new(low.clone(), low.add(&Natural::new(1)), precision)
        };
        // The powers fall by more than 31/32, so the rest of the series is below the last term.
        let (mut power, mut sum, mut n) = (probability.clone(), probability.clone(), 1);
        while !power.is_negligible() {
            n += 1;
            power = power.mul(&probability);
            sum = sum.add(&power.div(n));
        }
        let (low, high) = sum.ends();
        let count = Natural::new(u128::from(count));
        let (low, high) = (low.mul(&count), high.add(&Natural::new(4)).mul(&count));
        Interval::new(low, high, precision).at_precision(precision - 64)
    }
}

const WORDS_A_BLOCK: u64 = CIPHER_BLOCK as u64 / 8;

/// Words of stream 0, one after the other.
struct Words<'a> {
    keystream: &'a Keystream,
    bytes: [u8; WORDS_PER_CHUNK * 8],
    next: u64,
}

impl<'a> Words<'a> {
    fn new(keystream: &'a Keystream) -> Self {
        Self { keystream, bytes: [0; WORDS_PER_CHUNK * 8], next: 0 }
    }

    /// Returns the next word and its number.
    #[inline(always)]
    fn next(&mut self) -> (u64, u64) {
        let (index, place) = (self.next, self.next as usize % WORDS_PER_CHUNK);
        if place == 0 {
            self.keystream.fill(0, index / WORDS_A_BLOCK, &mut self.bytes);
        }
        self.next += 1;
        (index, u64::from_le_bytes(self.bytes.as_chunks().0[place]))
    }
}

/// Uniform integers, draw `i` from word `i` of stream 0, and from further streams after rejections.
struct Draws<'a>(Words<'a>);

impl<'a> Draws<'a> {
    fn new(keystream: &'a Keystream) -> Self {
        Self(Words::new(keystream))
    }

    /// Returns a uniform integer below `bound` > 0.
    #[inline(always)]
    fn below(&mut self, bound: u64) -> u64 {
        let (index, word) = self.0.next();
        let mut product = u128::from(word) * u128::from(bound);
        if (product as u64) < bound {
            let uneven = bound.wrapping_neg() % bound; // 2⁶⁴ mod bound
            let mut stream = 1;
            // mutant: uneven-words-kept
            while (product as u64) < uneven {
                product = u128::from(self.0.keystream.words(stream, index)[0]) * u128::from(bound);
                stream += 1;
            }
        }
        (product >> 64) as u64
    }
}

/// Chooses `size` of the numbers below `population`, every set with the same probability; `insert` says whether a number is new.
fn choose(mut draws: Draws<'_>, population: u64, size: u64, mut insert: impl FnMut(u64) -> bool) {
    for last in population - size..population {
        // mutant: one-record-too-many-can-drawn
        if !insert(draws.below(last + 1)) {
            insert(last);
        }
    }
}

/// A set of numbers as bits.
struct Bitmap(Vec<u64>);

fn bitmap_of(draws: Draws<'_>, population: u64, size: u64) -> Result<Bitmap, Error> {
    let mut bits = filled(0_u64, population.div_ceil(64) as usize)?;
    choose(draws, population, size, |element| {
        let (place, bit) = ((element / 64) as usize, 1 << (element % 64));
        let new = bits[place] & bit == 0;
        bits[place] |= bit;
        new
    });
    Ok(Bitmap(bits))
}

impl Bitmap {
    /// Returns the `size` numbers below `population` that are in the set, or those that are not.
    fn members(&self, population: u64, size: u64, within: bool) -> Result<Vec<i64>, Error> {
        let mut members = room(size as usize)?;
        for (place, &bits) in self.0.iter().enumerate() {
            let mut bits = if within { bits } else { !bits };
            while bits != 0 {
                let element = place as u64 * 64 + u64::from(bits.trailing_zeros());
                if element >= population {
                    break;
                }
                members.push(element.cast_signed());
                bits &= bits - 1;
            }
        }
        Ok(members)
    }
}

/// Returns room for the members that there probably are.
fn expected(population: u64, probability: f64) -> usize {
    let mean = population as f64 * probability;
    (mean + 6.0 * mean.sqrt() + 16.0).min(population as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    #[test]
    fn widened_margins_change_no_member() {
        for (n, probability) in [(1, 0.03), (2, 1e-3), (3, 1e-5), (4, 2.0_f64.powi(-30)), (5, 0.012_345)] {
            let population = (2_000.0 / probability) as u64;
            let members = poisson(Isa::PORTABLE, &key(n), population, probability).expect("in range");
            let widened =
                poisson_widened(Isa::PORTABLE, &key(n), population, probability, 2.0_f64.powi(-9)).expect("in range");

            assert_eq!(members, widened);
            assert!((1_700..2_300).contains(&members.len()), "6.7 standard deviations: {}", members.len());
        }
    }

    #[test]
    fn every_isa_gives_the_same_members() {
        for isa in Isa::available() {
            for probability in [1e-4, 0.03, 0.04, 0.7] {
                let population = 100_000;
                let expected = poisson(Isa::PORTABLE, &key(7), population, probability).expect("in range");

                assert_eq!(expected, poisson(isa, &key(7), population, probability).expect("in range"));
            }
            assert_eq!(
                fixed_size(Isa::PORTABLE, &key(8), 10_000, 100).expect("in range"),
                fixed_size(isa, &key(8), 10_000, 100).expect("in range")
            );
        }
    }

    /// The definition, in exact integers: the largest `k` with `U < (1 − q)^k`, for `q = n/2^d`.
    #[test]
    fn gaps_are_those_of_the_definition() {
        let (numerator, digits) = (21, 10); // q = 21/1024, about 0.02
        let probability = 21.0 / 1024.0;
        let keystream = Keystream::new(Isa::PORTABLE, &key(9));
        let members = poisson(Isa::PORTABLE, &key(9), 5_000, probability).expect("in range");

        let mut position = 0_i64;
        for (j, &member) in members.iter().enumerate() {
            let word = keystream.words(0, j as u64 / 2)[j % 2];
            let [high, low] = keystream.words(1, j as u64);
            let further = (u128::from(high) << 64) | u128::from(low);
            let uniform = Natural::new(u128::from(word)).shl(128).add(&Natural::new(further)); // of 192 digits
            let mut power = Natural::new(1); // (2^d − n)^k
            let mut k = 0;
            loop {
                let next = power.mul(&Natural::new((1 << digits) - numerator));
                // U < next/2^(d·(k + 1))
                let shift = digits * (k + 1);
                let (left, right) = if shift >= 192 {
                    (uniform.shl(shift - 192), next.clone())
                } else {
                    (uniform.clone(), next.shl(192 - shift))
                };
                if left >= right {
                    break;
                }
                power = next;
                k += 1;
            }
            assert_eq!(member, position + i64::from(k), "gap {j}");
            position = member + 1;
        }
        assert!(members.len() > 50);
    }

    #[test]
    fn samples_of_fixed_size_have_their_size_and_no_member_twice() {
        for (population, size) in
            [(1, 0), (1, 1), (10, 3), (10, 7), (64, 64), (65, 64), (1000, 999), (1 << 40, 500), (5000, 80)]
        {
            let members = fixed_size(Isa::PORTABLE, &key(1), population, size).expect("in range");

            assert_eq!(size as usize, members.len());
            assert!(members.is_sorted_by(|a, b| a < b));
            assert!(members.iter().all(|&m| m >= 0 && m.cast_unsigned() < population));
        }
    }

    #[test]
    fn every_record_is_in_as_many_steps_as_it_selects() {
        for (population, steps, selected) in [(0, 1, 1), (100, 1, 1), (100, 7, 1), (100, 7, 3), (50, 4, 4), (10, 5, 0)]
        {
            let found = allocation(Isa::PORTABLE, &key(2), population, steps, selected).expect("in range");

            assert_eq!(steps as usize + 1, found.starts.len());
            assert_eq!((population * u64::from(selected)) as usize, found.members.len());
            let mut times = vec![0; population as usize];
            for pair in found.starts.windows(2) {
                let step = &found.members[pair[0] as usize..pair[1] as usize];
                assert!(step.is_sorted_by(|a, b| a < b));
                step.iter().for_each(|&m| times[m as usize] += 1);
            }
            assert!(times.iter().all(|&count| count == selected));
        }
    }

    #[test]
    fn tiny_probabilities_are_exact_too() {
        for probability in [f64::MIN_POSITIVE, 5e-324, 1e-100, 1e-19] {
            assert_eq!(Vec::<i64>::new(), poisson(Isa::PORTABLE, &key(3), 1 << 40, probability).expect("in range"));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let isa = Isa::PORTABLE;
        for probability in [-0.1, 1.1, f64::NAN] {
            assert!(poisson(isa, &key(1), 1, probability).is_err());
        }
        assert!(poisson(isa, &key(1), u64::MAX, 0.5).is_err());
        assert!(fixed_size(isa, &key(1), 3, 4).is_err());
        assert!(allocation(isa, &key(1), 3, 0, 0).is_err());
        assert!(allocation(isa, &key(1), 3, 2, 3).is_err());
    }

    #[test]
    fn more_members_than_there_is_memory_are_an_error() {
        let (isa, key) = (Isa::PORTABLE, key(1));
        for probability in [0.02, 0.5, 1.0] {
            assert_eq!(Err(Error::OutOfMemory), poisson(isa, &key, MAX_POPULATION, probability));
        }
        for size in [1 << 54, MAX_POPULATION / 2, MAX_POPULATION - 1, MAX_POPULATION] {
            assert_eq!(Err(Error::OutOfMemory), fixed_size(isa, &key, MAX_POPULATION, size));
        }
        assert_eq!(Err(Error::OutOfMemory), allocation(isa, &key, MAX_POPULATION, 3, 1));
    }
}
