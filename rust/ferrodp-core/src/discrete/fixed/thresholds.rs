//! The probabilities that fixed-time sampling compares with: as integers at setup, to any precision where these do not tell.
//!
//! Every enclosure is an interval of big integers. `⌊2ⁿ·c⌋` is known as soon as both ends agree on it. `c` is irrational, for it
//! is a rational function of `e^−q`, `q` rational, or of a theta series in it, so some precision suffices: 256 bits nearly always.

use crate::discrete::{Law, Scale};
use crate::math::interval::Interval;
use crate::math::natural::Natural;

/// Digits of the magnitude of a Gaussian; the last bit of a block is the sign.
const GAUSSIAN_DIGITS: u32 = 127;

/// Digits of each decision of a Laplace sample.
const LAPLACE_DIGITS: u32 = 128;

/// The precision that is tried first.
const FIRST_THRESHOLD_BITS: u32 = 256;

/// What is decided: a law and its scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) law: Law,
    pub(super) scale: Scale,
}

impl Decision {
    /// Returns the thresholds of the law.
    pub(super) fn thresholds(&self) -> Vec<u128> {
        let mut precision = FIRST_THRESHOLD_BITS;
        loop {
            let found = match self.law {
                Law::Gaussian => self.gaussian(precision),
                Law::Laplace => self.laplace(precision),
            };
            if let Some(found) = found {
                return found;
            }
            precision *= 2;
        }
    }

    /// Returns `⌊2¹²⁷·P[|X| ≤ k]⌋` for all `k` until it is `2¹²⁷ − 1`, if this precision tells.
    fn gaussian(&self, precision: u32) -> Option<Vec<u128>> {
        let sums = self.partial_sums(precision);
        let share = reciprocal(sums.last().expect("at least one"));
        let mut found = Vec::new();
        for sum in &sums {
            let threshold = floor(&sum.mul(&share), GAUSSIAN_DIGITS)?;
            found.push(threshold);
            // mutant: table-ends-early
            if threshold == (1 << GAUSSIAN_DIGITS) - 1 {
                return Some(found);
            }
        }
        None
    }

    /// Returns `Σ_{|x| ≤ k} w_x` for `k = 0, 1, …`, and last the sum over all integers.
    ///
    /// `w_{k+1} = w_k·a^{2k+1}` for `a = e^{−1/2σ²}`, so weights fall at least by a factor of `a` each; as σ ≤ 64 up to rounding,
    /// `1/(1 − a) < 2¹⁴`, and all weights from some `k` on are together below `2¹⁴·w_k`.
    fn partial_sums(&self, precision: u32) -> Vec<Interval> {
        let a = self.scale.exponent(Law::Gaussian, 1, precision).exp_neg();
        let square = a.mul(&a);
        let (mut weight, mut factor) = (Interval::integer(1, precision), a);
        let mut sums = vec![weight.clone()];
        loop {
            weight = weight.mul(&factor);
            factor = factor.mul(&square);
            // mutant: zero-counted-twice-in-fixed-time
            let sum = sums[sums.len() - 1].add(&weight.doubled());
            // Units lost so far are far fewer than 2⁶⁴; smaller weights are nothing but those.
            if weight.is_within_units(64) {
                let rest = weight.times_power_of_two(1 + 14);
                sums.push(sums[sums.len() - 1].widened_by(&rest));
                return sums;
            }
            sums.push(sum);
        }
    }

    /// Returns `⌊2¹²⁸·P[digit j is 1]⌋` for `j = 0, 1, …, J − 1`, and 0 for what is beyond, if this precision tells.
    fn laplace(&self, precision: u32) -> Option<Vec<u128>> {
        let mut found = Vec::new();
        loop {
            // e^{−2^j/b}, which is also the probability that something is beyond digit j − 1
            let weight = self.decay(found.len() as u32, precision);
            if floor(&weight, LAPLACE_DIGITS)? == 0 {
                found.push(0);
                return Some(found);
            }
            let total = weight.add(&Interval::integer(1, precision));
            found.push(floor(&weight.mul(&reciprocal(&total)), LAPLACE_DIGITS)?);
        }
    }

    /// Returns `e^{−2^j/b}`.
    fn decay(&self, j: u32, precision: u32) -> Interval {
        self.scale.exponent(Law::Laplace, 1 << j, precision).exp_neg()
    }

    /// Returns how many of `P[|X| ≤ k]` are not above the uniform number of these digits.
    pub(super) fn rank(&self, digits: u128, further: impl Fn(u64) -> [u64; 2]) -> usize {
        let mut precision = FIRST_THRESHOLD_BITS;
        loop {
            let uniform = revealed((digits, GAUSSIAN_DIGITS), &further, precision);
            let sums = self.partial_sums(precision);
            let (total, sums) = sums.split_last().expect("at least one");
            let position = uniform.mul(total);
            let rank = sums.partition_point(|sum| !position.is_below(sum));
            let is_clear = rank == 0 || sums[rank - 1].is_below(&position);
            if is_clear && rank < sums.len() {
                return rank;
            }
            precision *= 2;
        }
    }

    /// Returns digit `j` of a geometric variable: whether `U < w/(1 + w)`, that is `U + U·w < w`, for `w = e^{−2^j/b}`.
    pub(super) fn digit(&self, j: u32, digits: u128, further: impl Fn(u64) -> [u64; 2]) -> bool {
        let mut precision = FIRST_THRESHOLD_BITS;
        loop {
            let uniform = revealed((digits, LAPLACE_DIGITS), &further, precision);
            let weight = self.decay(j, precision);
            let left = uniform.add(&uniform.mul(&weight));
            if left.is_below(&weight) || weight.is_below(&left) {
                return left.is_below(&weight);
            }
            precision *= 2;
        }
    }

    /// Returns what a geometric variable is beyond its first `num_digits`: the largest `n` with `U < e^{−n·2^num_digits/b}`.
    pub(super) fn beyond(&self, num_digits: u32, digits: u128, further: impl Fn(u64) -> [u64; 2]) -> u32 {
        let mut n = 0;
        loop {
            let mut precision = FIRST_THRESHOLD_BITS;
            let exceeds = loop {
                let uniform = revealed((digits, LAPLACE_DIGITS), &further, precision);
                let x = u128::from(n + 1) << num_digits;
                let limit = self.scale.exponent(Law::Laplace, x, precision).exp_neg();
                if uniform.is_below(&limit) || limit.is_below(&uniform) {
                    break uniform.is_below(&limit);
                }
                precision *= 2;
            };
            if !exceeds {
                return n;
            }
            n += 1;
        }
    }
}

/// Returns an interval of the uniform number with these first digits, and further ones in blocks of 128.
fn revealed((digits, count): (u128, u32), further: &impl Fn(u64) -> [u64; 2], precision: u32) -> Interval {
    let (mut digits, mut known, mut block) = (Natural::new(digits), count, 0);
    while known < precision {
        let [high, low] = further(block);
        digits = digits.shl(128).add(&Natural::new((u128::from(high) << 64) | u128::from(low)));
        known += 128;
        block += 1;
    }
    let low = digits.shr(known - precision);
    let high = low.add(&Natural::new(1));
    Interval::new(low, high, precision)
}

/// Returns `⌊2^digits·c⌋` for a number `c < 1` in the interval, or `None` if it does not tell.
fn floor(c: &Interval, digits: u32) -> Option<u128> {
    let most = u128::MAX >> (128 - digits);
    let floor = |end: &Natural| {
        let scaled = end.shr(c.precision() - digits);
        if scaled.bits() > digits { most } else { (u128::from(scaled.shr(64).low()) << 64) | u128::from(scaled.low()) }
    };
    let (low, high) = c.ends();
    (floor(low) == floor(high)).then(|| floor(low))
}

/// Returns `1/x` for `x ≥ 1`, digit by digit.
fn reciprocal(x: &Interval) -> Interval {
    let one = Interval::integer(1, x.precision());
    let quotient = |divisor: &Natural| {
        let (mut remainder, mut found) = (one.ends().0.clone(), Natural::default());
        for _ in 0..x.precision() {
            remainder = remainder.shl(1);
            found = found.shl(1);
            if remainder >= *divisor {
                remainder = remainder.saturating_sub(divisor);
                found = found.add(&Natural::new(1));
            }
        }
        found // rounded down; all ones for 1/1
    };
    let (low, high) = x.ends();
    Interval::new(quotient(high), quotient(low).add(&Natural::new(1)), x.precision())
}
