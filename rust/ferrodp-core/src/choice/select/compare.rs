//! Which of two candidates wins? Decided in integers, from as many digits as it takes.
//!
//! Every case comes down to two independent exponential variables and a rational number `d ≥ 0`, the lead of the higher
//! utility. Bisection looks for a `y` between what is compared: as long as both variables are on the same side of their
//! thresholds, `y` moves; once they are not, the order is known. Equality has probability zero.

use super::lazy::{Rational, Uniform};
use super::types::Noise;
use crate::math::interval::Interval;
use crate::math::natural::Natural;
use crate::random::Keystream;

/// The bits of one candidate: its word, then blocks of streams from 1 on; block 0 of them holds the sign, if one is needed.
#[derive(Clone, Copy)]
pub(super) struct Sample<'a> {
    pub(super) keystream: &'a Keystream,
    pub(super) index: u64,
    pub(super) word: u64,
}

impl<'a> Sample<'a> {
    fn block(self, number: u64) -> [u64; 2] {
        self.keystream.words(1 + number, self.index)
    }

    /// Returns the sign of Laplace noise.
    pub(super) fn negative(self) -> bool {
        // mutant: sign-of-a-candidate
        self.block(0)[0] >> 63 == 1
    }

    /// Returns `U`, whose digits are those of the word and of the blocks after the first.
    pub(super) fn uniform(self) -> Uniform<impl Fn(u64) -> [u64; 2] + 'a> {
        // mutant: candidate-sign-digit-of-noise
        Uniform { word: self.word, further: move |n| self.block(1 + n) }
    }

    /// Returns `1 − V` for the `V` with these digits.
    fn complement(self) -> Uniform<impl Fn(u64) -> [u64; 2] + 'a> {
        Uniform { word: !self.word, further: move |n| self.block(1 + n).map(|word| !word) }
    }
}

/// The first arrival of a run of candidates in a race.
#[derive(Clone, Copy)]
pub(super) enum First {
    /// Of `count·2^exponent` exponential ones: `E` divided by that.
    Exponential { count: u64, exponent: i32 },
    /// Of `count` uniform ones: `1 − e^−E/count`.
    Uniform { count: u64 },
}

impl First {
    const ONE: Self = Self::Exponential { count: 1, exponent: 0 };

    /// Whether it is later than `z ≥ 0`, which `at(precision)` encloses.
    ///
    /// `E = −ln U` for the complement `U` of the number with these digits, so `E/m > z` is `U < e^−mz`, and `1 − e^−E/m > z`
    /// is `U < (1 − z)^m`.
    fn is_later(self, sample: Sample<'_>, at: impl Fn(u32) -> Interval) -> bool {
        let uniform = sample.complement();
        match self {
            Self::Exponential { count, exponent } => uniform.exponential_exceeds(|p| {
                // mutant: exact-race-of-runs-without-their-counts
                let weight = Rational { numerator: Natural::new(u128::from(count)), denominator: 1, exponent };
                at(p).mul(&weight.at(p))
            }),
            // mutant: exact-race-of-uniform-arrivals-without-their-number
            Self::Uniform { count } => uniform.is_below(|p| power(&Interval::integer(1, p).sub(&at(p)), count)),
        }
    }
}

/// Returns `base^exponent` for an exponent ≥ 1, by squaring: each step doubles what the ends are apart, so a power of `m` loses log₂ m
/// bits or so.
fn power(base: &Interval, exponent: u64) -> Interval {
    let mut found = base.clone();
    for bit in (0..63 - exponent.leading_zeros()).rev() {
        found = found.mul(&found);
        if exponent >> bit & 1 == 1 {
            found = found.mul(base);
        }
    }
    found
}

/// Two candidates, the one of higher utility ahead by `lead`.
pub(super) struct Duel<'a> {
    pub(super) high: Sample<'a>,
    pub(super) low: Sample<'a>,
    pub(super) lead: Rational,
}

impl Duel<'_> {
    /// Whether the candidate of higher utility has the higher noisy utility.
    pub(super) fn higher_wins(&self, noise: Noise) -> bool {
        match noise {
            // mutant: race-won-by-permute-and-flip
            Noise::Gumbel => self.race(First::ONE, First::ONE),
            Noise::Exponential => self.leads(self.high, self.low),
            Noise::Laplace => match (self.high.negative(), self.low.negative()) {
                (false, true) => true,
                (false, false) => self.leads(self.high, self.low),
                // d − E_h > −E_l
                // mutant: negative-noise-compared-as-if-it-positive
                (true, true) => self.leads(self.low, self.high),
                (true, false) => self.lead_exceeds_sum(),
            },
        }
    }

    /// Whether `W_h·e^−d < W_l`: whether there is a `z` with `W_h < z` and `z·e^−d < W_l`.
    pub(super) fn race(&self, high: First, low: First) -> bool {
        bisect(|z| {
            let slower = high.is_later(self.high, |p| z.at(p));
            let later = low.is_later(self.low, |p| z.at(p).mul(&self.lead.at(p).exp_neg()));
            match (slower, later) {
                (false, true) => Step::Answer(true),
                (true, false) => Step::Answer(false),
                (true, true) => Step::Up,
                (false, false) => Step::Down,
            }
        })
    }

    /// Whether `E_a + d > E_b`.
    fn leads(&self, a: Sample<'_>, b: Sample<'_>) -> bool {
        let (a, b) = (a.uniform(), b.uniform());
        if !b.exponential_exceeds(|p| self.lead.at(p)) {
            return true;
        }
        bisect(|y| {
            let ahead = a.exponential_exceeds(|p| y.at(p));
            let beyond = b.exponential_exceeds(|p| y.at(p).add(&self.lead.at(p)));
            match (ahead, beyond) {
                (true, false) => Step::Answer(true),
                (false, true) => Step::Answer(false),
                (true, true) => Step::Up,
                (false, false) => Step::Down,
            }
        })
    }

    /// Whether `E_h + E_l < d`.
    fn lead_exceeds_sum(&self) -> bool {
        let (high, low) = (self.high.uniform(), self.low.uniform());
        // y = d·f and d − y = d·(1 − f) for f = numerator/2^bits in (0, 1).
        let (mut numerator, mut bits) = (Natural::new(1), 1);
        loop {
            let rest = Natural::new(1).shl(bits).saturating_sub(&numerator);
            let part = |p: u32, share: &Natural| {
                let share = Interval::new(share.clone(), share.clone(), bits).at_precision(p);
                self.lead.at(p).mul(&share)
            };
            let first = high.exponential_exceeds(|p| part(p, &numerator));
            let second = low.exponential_exceeds(|p| part(p, &rest));
            numerator = numerator.shl(1);
            match (first, second) {
                (false, false) => return true,
                (true, true) => return false,
                (true, false) => numerator = numerator.add(&Natural::new(1)),
                (false, true) => numerator = numerator.saturating_sub(&Natural::new(1)),
            }
            bits += 1;
        }
    }
}

/// What a look at one `y` says.
pub(super) enum Step {
    Answer(bool),
    /// Both are above.
    Up,
    /// Both are below.
    Down,
}

/// Looks at 1, then at powers of two until `y` is bracketed, then at midpoints.
pub(super) fn bisect(look: impl Fn(&Rational) -> Step) -> bool {
    let number =
        |numerator: &Natural, exponent: i32| Rational { numerator: numerator.clone(), denominator: 1, exponent };
    let mut exponent = 0;
    let mut direction = None;
    // The bracket is (2^exponent, 2^(exponent + 1)) at the end.
    loop {
        let up = match look(&number(&Natural::new(1), exponent)) {
            Step::Answer(answer) => return answer,
            Step::Up => true,
            Step::Down => false,
        };
        if direction.is_some_and(|before| before != up) {
            exponent -= i32::from(!up);
            break;
        }
        direction = Some(up);
        exponent += if up { 1 } else { -1 };
    }
    // `low` is the lower end, in units of 2^exponent.
    let mut low = Natural::new(1);
    loop {
        low = low.shl(1);
        exponent -= 1;
        let middle = low.add(&Natural::new(1));
        match look(&number(&middle, exponent)) {
            Step::Answer(answer) => return answer,
            Step::Up => low = middle,
            Step::Down => {}
        }
    }
}
