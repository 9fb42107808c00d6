//! Choosing one of many candidates with exactly the stated probabilities, in one pass.
//!
//! Three mechanisms are the arg-max of utilities plus independent noise, in real numbers:
//! - *Gumbel* noise is the exponential mechanism (McSherry & Talwar 2007), as a race: with `E` exponential, `η − ln E` is
//!   largest where `E·e^−η` is smallest;
//! - *exponential* noise is permute-and-flip (McKenna & Sheldon 2020; the identity: Ding, Kifer et al. 2021);
//! - *Laplace* noise is report-noisy-max (Dwork & Roth 2014, Claim 3.9).
//!
//! The noise of candidate `i` is a function of a uniform number whose first 64 digits are word `i` and whose further ones are
//! revealed on demand, so the arg-max is decided by finitely many digits. A filter drops, by a multiplication and a
//! comparison of words, whatever cannot beat the best so far; what is left, some twenty candidates in a million, gets
//! bounds in `f64`; if these leave more than one, pairs are compared exactly: bisection for a number between the two
//! noisy utilities, each step a comparison of intervals of big integers. No float decides anything it could be wrong about.
//!
//! `t_i = (max u − u_i)·rate` is what all of it works with: a rational number ≥ 0, `rate = ε/Δ` or `ε/2Δ`.
//!
//! Candidates of equal utility may come as one *run* of `m` ([`choose_run`]), for the exponential mechanism and for
//! permute-and-flip. Both are races of arrivals `W`, won where `W·e^t` is least, and the noise is `−ln W`: `W` is exponential in the
//! former and uniform in the latter. The first of `m` arrivals is `E/m`, or `1 − e^−E/m`, for one exponential variable `E`; which
//! of the `m` it was is uniform and independent of when it came. So a choice among 2⁵⁰ candidates costs as much as there are runs.
//!
//! A weight `m` of the former need not be whole, and both kinds may take part in one race. What privacy needs of independent noise
//! `X` is `P[X > x + d] ≥ e^−d·P[X > x]` for all `x` and `d ≥ 0` (`docs/proofs`). For `−ln(E/m)`, `P[X > x] = 1 − e^−v` with
//! `v = m·e^−x`, and `(1 − e^−cv) ≥ c·(1 − e^−v)` for `c = e^−d ≤ 1`, as `1 − e^−v` is concave and 0 at 0. For the first of `m` uniform
//! arrivals `P[X > x] = 1 − (1 − v)^m` with `v = e^−x` cut at 1: concave in `v` and 0 at 0 if `m ≥ 1`. Of fewer than one it would
//! not be, so they are whole numbers.

use crate::error::Error;
use crate::isa::Isa;
use crate::machine::residue::leaving_nothing;
use crate::math::float_environment::in_default_environment;
use crate::math::integer::Integer;
use crate::math::natural::Natural;
use crate::params::{exp2, positive};
use crate::random::{CIPHER_BLOCK, Key, Keystream};

mod compare;
pub(crate) mod lazy;
mod threshold;
mod types;

use compare::{Duel, First, Sample};
use lazy::{Bounds, Rational, minus_ln, minus_log, minus_log_complement, one_minus_exp, split};
pub use threshold::NoisyThreshold;
pub use types::Noise;
use types::{Signed, finite};

/// Candidates whose words are in memory at once.
const CANDIDATES_PER_CHUNK: usize = 1024;

/// How utilities turn into `t`: `(max u − u)·numerator/denominator`, exactly.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    numerator: f64,
    denominator: f64,
}

impl Rate {
    /// Returns `epsilon / (factor · sensitivity)`; `factor` is 1 or 2.
    ///
    /// # Errors
    /// If either is not finite and positive.
    pub fn new(epsilon: f64, sensitivity: f64, factor: u8) -> Result<Self, Error> {
        let numerator = positive("epsilon", epsilon)?;
        // mutant: factor-2-of-rate-lost
        let denominator = positive("sensitivity", sensitivity)? * f64::from(factor);
        let ratio = numerator / denominator;
        if !(1e-300..=1e300).contains(&ratio) {
            return Err(Error::parameter("epsilon / sensitivity", ratio, "from 1e-300 to 1e300"));
        }
        Ok(Self { numerator, denominator })
    }

    /// Returns `(high − low)·rate` for `high ≥ low`.
    fn exact(&self, high: &Signed, low: &Signed) -> Rational {
        let difference = high.minus(low);
        let ((epsilon, epsilon_exponent), (denominator, exponent)) = (split(self.numerator), split(self.denominator));
        Rational {
            numerator: difference.magnitude.mul(&Natural::new(u128::from(epsilon))),
            denominator,
            // mutant: exact-comparisons-another-rate
            exponent: difference.exponent + epsilon_exponent - exponent,
        }
    }
}

/// Returns the index of the chosen candidate. A utility that is not finite counts as 0.
///
/// Where `integers` names an index, in ascending order, it holds the utility itself, and the float is about the same.
///
/// # Errors
/// If there is no candidate.
pub fn choose(
    noise: Noise,
    rate: Rate,
    isa: Isa,
    key: &Key,
    utilities: &[f64],
    integers: &[(usize, Integer)],
) -> Result<usize, Error> {
    if utilities.is_empty() {
        return Err(Error::Length { name: "utilities", given: 0, needed: 1 });
    }
    Ok(leaving_nothing(|| {
        let keystream = Keystream::new(isa, key);
        in_default_environment(|| {
            let selection = Selection { integers, ..Selection::new(noise, rate, &keystream, utilities) };
            selection.run(selection.doubt())
        })
    }))
}

/// The same with every filter's margin widened, so that exact comparisons decide often: for tests.
///
/// # Errors
/// As [`choose`].
#[doc(hidden)]
pub fn choose_widened(
    noise: Noise,
    rate: Rate,
    isa: Isa,
    key: &Key,
    utilities: &[f64],
    margin: f64,
) -> Result<usize, Error> {
    if utilities.is_empty() {
        return Err(Error::Length { name: "utilities", given: 0, needed: 1 });
    }
    Ok(leaving_nothing(|| {
        let keystream = Keystream::new(isa, key);
        in_default_environment(|| Selection::new(noise, rate, &keystream, utilities).run(margin))
    }))
}

/// Runs of candidates: run `i` stands for `counts[i]` of them, all of utility `utilities[i]`.
///
/// A utility that is not finite counts as 0; a run of no candidate never wins.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    /// How good the candidates of each run are.
    pub utilities: &'a [f64],
    /// How many each run stands for.
    pub counts: &'a [u64],
    /// So many runs, the first ones, take part as in permute-and-flip, the others as in the exponential mechanism.
    pub permuted: usize,
    /// The candidates of the others count as `2^−unit` each; at most 63.
    pub unit: u8,
}

/// Returns the run that was chosen and the place of the candidate in it.
///
/// # Errors
/// If the lengths differ, or there is no candidate, or `unit` is more than 63.
pub fn choose_run(rate: Rate, isa: Isa, key: &Key, runs: Runs<'_>) -> Result<(usize, u64), Error> {
    choose_run_widened(rate, isa, key, runs, 0.0)
}

/// The same with every filter's margin widened, so that exact comparisons decide often: for tests.
///
/// # Errors
/// As [`choose_run`].
#[doc(hidden)]
pub fn choose_run_widened(rate: Rate, isa: Isa, key: &Key, runs: Runs<'_>, margin: f64) -> Result<(usize, u64), Error> {
    let Runs { utilities, counts, permuted, unit } = runs;
    if counts.len() != utilities.len() {
        return Err(Error::Length { name: "counts", given: counts.len(), needed: utilities.len() });
    }
    if counts.iter().all(|&count| count == 0) {
        return Err(Error::Length { name: "utilities", given: 0, needed: 1 });
    }
    if unit > 63 {
        return Err(Error::parameter("unit", f64::from(unit), "at most 63"));
    }
    Ok(leaving_nothing(|| {
        let keystream = Keystream::new(isa, key);
        in_default_environment(|| {
            let selection =
                Selection { counts, permuted, unit, ..Selection::new(Noise::Gumbel, rate, &keystream, utilities) };
            let run = selection.run(margin);
            (run, place(&keystream, counts[run]))
        })
    }))
}

/// Returns a uniform number below `count`, from a stream that no candidate uses: words are rejected until one is below.
fn place(keystream: &Keystream, count: u64) -> u64 {
    let mask = u64::MAX >> (count - 1).leading_zeros().min(63);
    for block in 0.. {
        for word in keystream.words(PLACE_STREAM, block) {
            // mutant: place-in-a-run-of-candidates-by-remainder
            if word & mask < count {
                return word & mask;
            }
        }
    }
    unreachable!("each word is below with probability of at least a half")
}

/// The stream of the place in a run; streams of candidates count from 0 up, one for each further 128 digits of one of them.
const PLACE_STREAM: u64 = u64::MAX;

struct Selection<'a> {
    noise: Noise,
    rate: Rate,
    keystream: &'a Keystream,
    utilities: &'a [f64],
    /// How many candidates each stands for; empty: one.
    counts: &'a [u64],
    /// So many, the first ones, have exponential noise whatever `noise` says.
    permuted: usize,
    /// What the others stand for is in units of `2^−unit`.
    unit: u8,
    /// What floats do not denote.
    integers: &'a [(usize, Integer)],
    largest: f64,
    /// About the rate: within 3u.
    rough_rate: f64,
}

/// A candidate that may win.
#[derive(Clone, Copy)]
struct Contender {
    index: usize,
    word: u64,
    score: Bounds,
}

/// The candidates that may win: a fixed number of them, so that no choice needs memory that may not be had.
struct Contenders {
    list: [Contender; Self::MOST],
    count: usize,
}

impl Contenders {
    /// Filters leave some twenty of a million, most of which a later one beats.
    const MOST: usize = 32;

    fn new() -> Self {
        let none = Contender { index: 0, word: 0, score: Bounds { lower: 0.0, upper: 0.0 } };
        Self { list: [none; Self::MOST], count: 0 }
    }

    fn push(&mut self, contender: Contender) {
        self.list[self.count] = contender;
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.count == Self::MOST
    }

    fn as_slice(&self) -> &[Contender] {
        &self.list[..self.count]
    }
}

impl<'a> Selection<'a> {
    fn new(noise: Noise, rate: Rate, keystream: &'a Keystream, utilities: &'a [f64]) -> Self {
        let largest = utilities.iter().fold(f64::NEG_INFINITY, |most, &u| most.max(finite(u)));
        Self {
            noise,
            rate,
            keystream,
            utilities,
            counts: &[],
            permuted: 0,
            unit: 0,
            integers: &[],
            largest,
            rough_rate: rate.numerator / rate.denominator,
        }
    }

    /// Returns how far `t` may be off because utilities are not floats: each end of a difference by 2⁻⁵² of itself.
    fn doubt(&self) -> f64 {
        if self.integers.is_empty() {
            return 0.0;
        }
        let size = self.utilities.iter().fold(0.0, |most: f64, &u| most.max(finite(u).abs()));
        size * exp2(-50) * self.rough_rate
    }

    /// Returns a utility, exactly.
    fn exact(&self, index: usize) -> Signed {
        match self.integers.binary_search_by_key(&index, |(place, _)| *place) {
            Ok(found) => Signed::of(&self.integers[found].1),
            Err(_) => Signed::new(finite(self.utilities[index])),
        }
    }

    fn run(&self, widening: f64) -> usize {
        let mut contenders = Contenders::new();
        // The best lower bound on a noisy utility so far, relative to the largest utility: at first, that of the candidate which
        // has it. Whatever is far below never becomes a contender.
        let mut best = self.first_bound(widening);
        let mut bytes = [0_u8; CANDIDATES_PER_CHUNK * 8];
        for (number, chunk) in self.utilities.chunks(CANDIDATES_PER_CHUNK).enumerate() {
            let words = &mut bytes[..chunk.len() * 8];
            self.keystream.fill(0, (number * CANDIDATES_PER_CHUNK / (CIPHER_BLOCK / 8)) as u64, words);
            for (i, (&utility, word)) in chunk.iter().zip(words.as_chunks().0).enumerate() {
                let word = u64::from_le_bytes(*word);
                let index = number * CANDIDATES_PER_CHUNK + i;
                let weight = self.weight(index);
                if weight == 0.0 || self.cannot_win(word, finite(utility), weight, best - widening) {
                    continue;
                }
                let score = self.bounds(index, word, finite(utility), widening);
                if score.upper >= best {
                    if contenders.is_full() {
                        self.thin_out(&mut contenders, best);
                    }
                    contenders.push(Contender { index, word, score });
                    best = best.max(score.lower);
                }
            }
        }
        self.winner(contenders.as_slice(), best).index
    }

    /// Returns the lower bound on the noisy utility of a candidate with the largest utility.
    fn first_bound(&self, widening: f64) -> f64 {
        let Some(index) = self.utilities.iter().position(|&u| finite(u) == self.largest).filter(|&i| self.count(i) > 0)
        else {
            return f64::NEG_INFINITY;
        };
        let word = self.keystream.words(0, index as u64 / 2)[index % 2];
        self.bounds(index, word, self.largest, widening).lower
    }

    /// Makes room: of those that the best bound leaves, and of more than half of them the winner alone, which is decided
    /// exactly, so that it is the same whenever it is decided.
    #[cold]
    fn thin_out(&self, contenders: &mut Contenders, best: f64) {
        let mut kept = 0;
        for place in 0..contenders.count {
            if contenders.list[place].score.upper >= best {
                contenders.list[kept] = contenders.list[place];
                kept += 1;
            }
        }
        contenders.count = kept;
        if kept > Contenders::MOST / 2 {
            // mutant: contenders-thinned-out-without-a-duel
            contenders.list[0] = self.winner(contenders.as_slice(), best);
            contenders.count = 1;
        }
    }

    /// Returns the contender with the largest noisy utility of those that the best bound leaves; there is one.
    fn winner(&self, contenders: &[Contender], best: f64) -> Contender {
        let mut left = contenders.iter().copied().filter(|contender| contender.score.upper >= best);
        let first = left.next().expect("the one with the best lower bound is among them");
        left.fold(first, |winner, other| if self.beats(&other, &winner) { other } else { winner })
    }

    /// Returns how many candidates a run stands for, in units.
    #[inline(always)]
    fn count(&self, index: usize) -> u64 {
        if self.counts.is_empty() { 1 } else { self.counts[index] }
    }

    /// Returns the noise of a run, and the exponent of the unit that its candidates are counted in.
    #[inline(always)]
    fn kind(&self, index: usize) -> (Noise, i32) {
        // mutant: weights-of-runs-taken-for-whole-candidates
        if index < self.permuted { (Noise::Exponential, 0) } else { (self.noise, -i32::from(self.unit)) }
    }

    /// Returns how many candidates a run stands for, within 2⁻⁵³ of itself.
    #[inline(always)]
    fn weight(&self, index: usize) -> f64 {
        self.count(index) as f64 * exp2(self.kind(index).1)
    }

    /// Returns `t`, within 8u of itself.
    #[inline(always)]
    fn rough_deficit(&self, utility: f64) -> f64 {
        (self.largest - utility) * self.rough_rate
    }

    /// Whether the noisy utility is certainly below `best`.
    ///
    /// `E/m·e^t` against `e^−best` (race): `E ≥ V`, so `V > m·e^−(best + t)` is enough; for the first of `m` uniform arrivals too, as
    /// `1 − (1 − V)^(1/m) ≥ V/m`. Else `E ≤ best + t` if `U ≥ e^−(best + t)`, and a Laplace variable is no larger than its
    /// size. The exponential is bounded from above by [`exp_above`].
    #[inline(always)]
    fn cannot_win(&self, word: u64, utility: f64, weight: f64, best: f64) -> bool {
        // The conversion and the product are off by 2⁻⁵² together, which the margin of `exp_above` covers.
        // mutant: filter-of-runs-without-their-counts
        let bound = exp_above(-(best + self.rough_deficit(utility))) * weight;
        // Bits below the first 53 are dropped: the number is no smaller.
        (word >> 11) as f64 * exp2(-53) > bound
    }

    /// Returns bounds on the noisy utility of candidate `index`, relative to the largest utility.
    fn bounds(&self, index: usize, word: u64, utility: f64, widening: f64) -> Bounds {
        if widening.is_infinite() {
            return Bounds { lower: f64::NEG_INFINITY, upper: f64::INFINITY };
        }
        let mut t = self.rough_deficit(utility);
        if t.is_infinite() {
            // The difference may have overflowed, and `t` not: halves of such utilities are exact.
            t = (0.5 * self.largest - 0.5 * utility) * self.rough_rate * 2.0;
        }
        if t.is_infinite() {
            // Noise is far below 10³⁰⁰ in size, and `t` beyond the range of floats, or half of it for integers.
            return Bounds { lower: f64::NEG_INFINITY, upper: -1e300 };
        }
        let (lower, upper) = match self.kind(index).0 {
            Noise::Gumbel => {
                let (least, most) = self.first_of(index, word);
                // mutant: exponential-mechanism-exponential-noise
                (minus_ln(most).lower, minus_ln(least).upper)
            }
            Noise::Exponential if self.count(index) > 1 => {
                let (least, most) = self.first_of(index, word);
                // mutant: first-of-uniform-arrivals-an-exponential-one
                let arrival = (one_minus_exp(least).lower, one_minus_exp(most).upper);
                (minus_ln(arrival.1).lower.max(0.0), minus_ln(arrival.0).upper)
            }
            Noise::Exponential => {
                let e = minus_log(word);
                (e.lower, e.upper)
            }
            Noise::Laplace => {
                let e = minus_log(word);
                if self.sample(index, word).negative() { (-e.upper, -e.lower) } else { (e.lower, e.upper) }
            }
        };
        // `t` is within 8u of itself and each difference rounds once.
        // mutant: error-of-a-score
        let slack = |x: f64| if x.is_finite() { (x.abs() + t) * exp2(-48) + widening } else { 0.0 };
        Bounds { lower: lower - t - slack(lower), upper: upper - t + slack(upper) }
    }

    /// Returns bounds on `E/m`, the first of `m` exponential arrivals.
    fn first_of(&self, index: usize, word: u64) -> (f64, f64) {
        let (e, m) = (minus_log_complement(word), self.weight(index));
        // The conversion and the quotient are off by 2⁻⁵² of it together.
        (e.lower / m * (1.0 - exp2(-50)), e.upper / m * (1.0 + exp2(-50)))
    }

    /// Returns the bits of candidate `index`.
    fn sample(&self, index: usize, word: u64) -> Sample<'a> {
        Sample { keystream: self.keystream, index: index as u64, word }
    }

    /// Whether the noisy utility of `a` is larger than that of `b`, for certain.
    fn beats(&self, a: &Contender, b: &Contender) -> bool {
        let utilities = [a, b].map(|contender| self.exact(contender.index));
        let swapped = utilities[0].is_below(&utilities[1]);
        let [high_utility, low_utility] =
            if swapped { [&utilities[1], &utilities[0]] } else { [&utilities[0], &utilities[1]] };
        let (high, low) = if swapped { (b, a) } else { (a, b) };
        let duel = Duel {
            high: self.sample(high.index, high.word),
            low: self.sample(low.index, low.word),
            lead: self.rate.exact(high_utility, low_utility),
        };
        if self.counts.is_empty() {
            return duel.higher_wins(self.noise) != swapped;
        }
        let first = |contender: &Contender| match (self.count(contender.index), self.kind(contender.index)) {
            (count, (Noise::Exponential, _)) => First::Uniform { count },
            (count, (_, exponent)) => First::Exponential { count, exponent },
        };
        duel.race(first(high), first(low)) != swapped
    }
}

/// Returns an upper bound on `e^x`, at most 7 % too large.
///
/// With `x·log₂e = k + f`, `2^f ≤ 1 + f`, whose bits are those of `k + 1023 + f` in fixed point. The product and the constant
/// are off by less than 2⁻⁵⁰ of `x·log₂e`, the conversion by 2⁻⁵²; the factor covers 2⁻⁴⁰, for |x| < 1000.
#[inline(always)]
fn exp_above(x: f64) -> f64 {
    if x.is_nan() || x >= 700.0 {
        return f64::INFINITY;
    }
    let scaled = (x.max(-700.0) * core::f64::consts::LOG2_E + 1023.0) * exp2(52);
    // mutant: filter-of-candidates-no-margin
    f64::from_bits(scaled as u64) * (1.0 + exp2(-38))
}

#[cfg(test)]
mod tapes;
#[cfg(test)]
mod tests;
