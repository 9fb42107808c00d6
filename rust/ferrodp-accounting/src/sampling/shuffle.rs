//! Hockey sticks of shuffled messages: two binomial tails for each number of clones, added up with errors.
//!
//! With p = e^ε₀, the pair is that of Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021: of m = C + 1 bits, with
//! C ~ Bin(n − 1, q) clones that are fair coins, one is 1 with probability p/(p + 1) under P and 1/(p + 1) under Q, and the number
//! of ones and m are seen. Which q holds for which randomizer is the caller's matter.
//!
//! Given m the ratio of P to Q at a ones is (pa + m − a)/(a + p(m − a)), which rises with a; with E = e^ε it is at least E where
//! a ≥ a* = m(Ep − 1)/((p − 1)(1 + E)), and with b and T the mass and the tail of m − 1 fair coins
//!
//! δₘ = (p − E)/(p + 1)·b(a* − 1) − (E − 1)·T(a*),
//!
//! which falls as m grows: a clone more is post-processing.

use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::memory::push;
use crate::types::Bounds;

/// Largest and least number of blocks of clone counts; within one, δₘ is between those of its ends.
const CLONE_BLOCKS: (f64, f64) = (64.0, 4000.0);

/// Upper bounds are no less: exponentials below the range of floats are 0.
const MIN_UPPER_BOUND: f64 = 1e-290;

/// Standard deviations around the mean beyond which clone counts are bounded together; the bound is below e⁻⁸⁰.
const CLONE_DEVIATIONS: f64 = 13.0;

/// Bound on the relative error of a binomial mass and of the ratio of a tail to it.
///
/// A mass is the exponential of differences of numbers below 800 in all where it matters, each within four roundings of itself; a
/// continued fraction loses less than its last two convergents differ by.
const TAIL_RATIO_ERROR: f64 = 1e-11;

/// The pair of one randomizer in one population.
#[derive(Clone, Debug)]
pub struct Shuffle {
    epsilon: f64,
    population: u64,
    /// First clone count of each block, last one, probability of the block.
    blocks: Vec<(u64, u64, f64)>,
    below: f64,
    above: f64,
}

impl Shuffle {
    /// Returns the pair for an ε₀ > 0, the probability that another's message is a clone, from 0 to 1, and n ≥ 1 messages.
    #[must_use]
    pub fn new(epsilon: f64, clone_probability: f64, population: u64) -> Self {
        let (n, q) = (population - 1, clone_probability);
        let (mean, spread) = (n as f64 * q, (n as f64 * q * (1.0 - q)).sqrt());
        let reach = CLONE_DEVIATIONS * spread + 60.0;
        let low = (mean - reach).max(0.0) as u64;
        let high = ((mean + reach) as u64).min(n);
        let outside = |x: u64| exp(-deviance(x as f64, mean) - deviance((n - x) as f64, n as f64 * (1.0 - q)));
        let below = if low > 0 { outside(low - 1) } else { 0.0 };
        let above = if high < n { outside(high + 1) } else { 0.0 };
        // ln δₘ changes by some 20 for a relative change of m by 1, so that blocks so wide leave a few 10⁻⁴ of δ open
        let wanted = (1e5 * (high - low) as f64 / (mean + 1.0)).clamp(CLONE_BLOCKS.0, CLONE_BLOCKS.1);
        let width = ((high - low) as f64 / wanted) as u64 + 1;
        let mut blocks = Vec::new();
        let mut first = low;
        while first <= high {
            let last = (first + width - 1).min(high);
            let mut mass = binomial(first, n, q);
            let mut total = mass;
            for x in first..last {
                mass *= (n - x) as f64 / (x + 1) as f64 * (q / (1.0 - q));
                total += mass;
            }
            // mutant: blocks-of-a-shuffle-cannot-fail
            push(&mut blocks, (first, last, total));
            first = last + 1;
        }
        Self { epsilon, population, blocks, below, above }
    }

    /// Returns bounds on δ(ε) of the pair at ε ≥ 0.
    #[must_use]
    pub fn delta(&self, epsilon: f64) -> Bounds {
        if epsilon >= self.epsilon {
            return Bounds::ZERO;
        }
        let (p, e) = (exp(self.epsilon), exp(epsilon));
        let mut lower = 0.0;
        let mut upper = self.below * (p - e) / (p + 1.0);
        let last = self.blocks.len() - 1;
        let mut most = self.given(self.blocks[0].0, epsilon);
        for (i, &(first, end, weight)) in self.blocks.iter().enumerate() {
            let least = if end > first || i == last { self.given(end + 1, epsilon) } else { most };
            // mutant: blocks-of-clones-at-their-middle
            upper += weight * most.upper;
            if i == last {
                upper += self.above * least.upper;
            }
            // one clone fewer is no less: the bound of the next block's first count is one of this block's last
            lower += weight * if end == first { most.lower } else { least.lower };
            most = if end > first || i == last { least } else { self.given(end + 1, epsilon) };
        }
        let rounding = TAIL_RATIO_ERROR + 4.0 * UNIT * self.blocks.len() as f64;
        Bounds {
            lower: (lower * (1.0 - 4.0 * rounding)).max(0.0),
            upper: (upper * (1.0 + 4.0 * rounding) + MIN_UPPER_BOUND).min(1.0),
        }
    }

    /// Returns bounds on δ given the number of clones.
    fn given(&self, clones: u64, epsilon: f64) -> Bounds {
        let (p, e) = (exp(self.epsilon), exp(epsilon));
        let m = (clones + 1) as f64;
        let odds = expm1(epsilon + self.epsilon) / (expm1(self.epsilon) * (1.0 + e));
        // The best threshold; the next one gives as much where rounding decides.
        let a = (m * odds).ceil().clamp(1.0, m) as u64;
        let mass = binomial(a - 1, clones, 0.5);
        let from_mass = expm1(self.epsilon - epsilon) * e / (p + 1.0) * mass;
        let from_tail = expm1(epsilon) * mass * tail_to_mass(a, clones, 1.0);
        let error = 4.0 * TAIL_RATIO_ERROR * (p / (p + 1.0) * mass + from_tail);
        Bounds { lower: (from_mass - from_tail - error).max(0.0), upper: (from_mass - from_tail).max(0.0) + error }
    }

    /// Returns a lower bound on δ(ε) of randomized response among answers of which each other one has probability t: how often the
    /// true one is counted if all others tell another one.
    ///
    /// The count is 1 with probability pt under P and t under Q, and Bin(n − 1, t) more. With r(y) = b(y)/b(y − 1) the ratio of the
    /// two laws at y is (pt + (1 − pt)r)/(t + (1 − t)r), which rises with y.
    #[must_use]
    pub fn attained(&self, t: f64, epsilon: f64) -> f64 {
        if epsilon >= self.epsilon {
            return 0.0;
        }
        let (p, e, n) = (exp(self.epsilon), exp(epsilon), self.population - 1);
        let (gain, cost) = (t * (p - e), e * (1.0 - t) - (1.0 - p * t));
        let y = ((n + 1) as f64 / (1.0 + gain / cost * ((1.0 - t) / t))).ceil().clamp(1.0, (n + 1) as f64) as u64;
        let mass = binomial(y - 1, n, t);
        let (one, other) = (gain * mass, expm1(epsilon) * mass * tail_to_mass(y, n, t / (1.0 - t)));
        (one - other - 8.0 * TAIL_RATIO_ERROR * (p * t * mass + other)).max(0.0)
    }

    /// Returns bounds on ε(δ) of the pair at a δ in (0, 1): the upper one keeps δ, as was checked; at the lower one it is exceeded.
    #[must_use]
    pub fn epsilon(&self, delta: f64) -> Bounds {
        // most of the clone counts are no more than the largest one
        let least = (1.0 - 1e-30) * self.given(self.blocks[self.blocks.len() - 1].1 + 1, 0.0).lower;
        if least <= delta && self.delta(0.0).upper <= delta {
            return Bounds::ZERO;
        }
        let (mut low, mut high) = (0.0, self.epsilon);
        let goal = ln(delta);
        let height = |epsilon: f64| {
            let found = self.delta(epsilon).upper;
            (found, if found > 0.0 { ln(found) - goal } else { -800.0 })
        };
        let (mut at_low, mut at_high) = (ln(least.max(delta)) - goal + 1e-9, -800.0);
        for round in 0..100 {
            if high - low <= 1e-7 * high {
                break;
            }
            let share = (at_low / (at_low - at_high)).clamp(0.01, 0.99);
            let middle = low + (high - low) * if round % 3 == 2 { 0.5 } else { share };
            let (found, at) = height(middle);
            // mutant: epsilon-of-a-shuffle-on-the-other-side
            if found <= delta {
                (high, at_high) = (middle, at);
            } else {
                (low, at_low) = (middle, at);
            }
        }
        let mut below = low;
        for _ in 0..60 {
            if below <= 0.0 || self.delta(below).lower > delta {
                break;
            }
            below = (below - (high - below).max(1e-8 * high)).max(0.0);
        }
        Bounds { lower: if below > 0.0 { below } else { 0.0 }, upper: high }
    }
}

/// Returns the tail P[X ≥ k] of so many coins of given odds divided by P[X = k − 1].
///
/// It is r(1 + r′(1 + …)) with r = odds·(N − k + 1)/k, …: r·₂F₁(1, k − N; k + 1; −odds), by the continued fraction of Gauss.
fn tail_to_mass(k: u64, n: u64, odds: f64) -> f64 {
    if k > n {
        return 0.0;
    }
    let (b, c) = (-((n - k) as f64), (k + 1) as f64);
    let first = odds * (n - k + 1) as f64 / k as f64;
    let tiny = 1e-300;
    let (mut f, mut above, mut below) = (1.0_f64, 1.0_f64, 0.0_f64);
    let mut j = 1.0;
    for step in 1_u64..200_000 {
        let coefficient = if step % 2 == 1 {
            let i = (j - 1.0) * 0.5;
            (c + i - 1.0) * (b + i) / ((c + 2.0 * i - 1.0) * (c + 2.0 * i))
        } else {
            let i = j * 0.5;
            i * (c - b + i - 1.0) / ((c + 2.0 * i - 2.0) * (c + 2.0 * i - 1.0))
        } * odds;
        below = 1.0 + coefficient * below;
        above = 1.0 + coefficient / above;
        if below.abs() < tiny {
            below = tiny;
        }
        if above.abs() < tiny {
            above = tiny;
        }
        below = 1.0 / below;
        let change = above * below;
        f *= change;
        if (change - 1.0).abs() < 1e-15 || coefficient == 0.0 {
            break;
        }
        j += 1.0;
    }
    first / f
}

/// Returns P[X = k] for X ~ Bin(n, q), by the saddle-point expansion (Loader, "Fast and accurate computation of binomial
/// probabilities", 2000).
fn binomial(k: u64, n: u64, q: f64) -> f64 {
    let (x, size) = (k as f64, n as f64);
    if q <= 0.0 {
        return if k == 0 { 1.0 } else { 0.0 };
    }
    if q >= 1.0 {
        return if k == n { 1.0 } else { 0.0 };
    }
    if k == 0 {
        return exp(size * ln_1p(-q));
    }
    if k == n {
        return exp(size * ln(q));
    }
    let rest = size - x;
    let log = stirling(size) - stirling(x) - stirling(rest) - deviance(x, size * q) - deviance(rest, size * (1.0 - q));
    exp(log) * (size / (2.0 * core::f64::consts::PI * x * rest)).sqrt()
}

/// Returns ln n! − ln(√(2πn)·(n/e)ⁿ) at a whole number n ≥ 1.
fn stirling(n: f64) -> f64 {
    if n < 16.0 {
        let factorial: f64 = (1..=n as u64).map(|i| i as f64).product();
        return ln(factorial) - (n + 0.5) * ln(n) + n - 0.918_938_533_204_672_8;
    }
    let square = n * n;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square) / square)
        / n
}

/// Returns x·ln(x/y) + y − x for x ≥ 0, y > 0.
fn deviance(x: f64, y: f64) -> f64 {
    if x == 0.0 {
        return y;
    }
    if (x - y).abs() < 0.1 * (x + y) {
        let v = (x - y) / (x + y);
        let mut sum = (x - y) * v;
        let (mut power, mut j) = (2.0 * x * v, 1.0);
        for _ in 0..1000 {
            power *= v * v;
            let next = sum + power / (2.0 * j + 1.0);
            if next == sum {
                break;
            }
            sum = next;
            j += 1.0;
        }
        return sum;
    }
    x * ln(x / y) + y - x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// δ(ε) by adding everything up.
    fn plain(epsilon0: f64, q: f64, population: u64, epsilon: f64) -> f64 {
        let (p, e, n) = (exp(epsilon0), exp(epsilon), population - 1);
        let choose = |n: u64, k: u64| (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product::<f64>();
        let mut total = 0.0;
        for c in 0..=n {
            let weight = choose(n, c) * q.powi(c as i32) * (1.0 - q).powi((n - c) as i32);
            for a in 0..=c + 1 {
                let coins =
                    |k: i64| if k < 0 || k as u64 > c { 0.0 } else { choose(c, k as u64) * 0.5_f64.powi(c as i32) };
                let (one, other) = (coins(a as i64 - 1), coins(a as i64));
                let (under_p, under_q) = ((p * one + other) / (p + 1.0), (one + p * other) / (p + 1.0));
                total += weight * (under_p - e * under_q).max(0.0);
            }
        }
        total
    }

    #[test]
    fn bounds_enclose_the_sum_of_everything() {
        for &population in &[1, 2, 3, 7, 30, 100] {
            for &epsilon0 in &[0.1, 1.0, 3.0] {
                for &q in &[0.0, 0.05, 0.5, 1.0] {
                    let pair = Shuffle::new(epsilon0, q, population);
                    for i in 0..20 {
                        let epsilon = epsilon0 * f64::from(i) / 19.0;
                        let (exact, found) = (plain(epsilon0, q, population, epsilon), pair.delta(epsilon));
                        assert!(found.lower <= exact * (1.0 + 1e-12) + 1e-17, "{exact} {found:?}");
                        assert!(exact <= found.upper * (1.0 + 1e-12) + 1e-17, "{exact} {found:?}");
                        assert!(found.upper - found.lower <= 1e-9 * exact + 1e-10, "{exact} {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_attained_is_no_more_than_a_sum_of_everything() {
        for &(epsilon0, t, n) in &[(1.0_f64, 0.2, 5_u64), (2.0, 0.05, 40), (0.3, 0.1, 3)] {
            let pair = Shuffle::new(epsilon0, 0.3, n);
            let p = exp(epsilon0);
            let mass = |k: i64| if (0..n as i64).contains(&k) { binomial(k as u64, n - 1, t) } else { 0.0 };
            for epsilon in [0.0, 0.1, 0.25] {
                let exact: f64 = (0..=n as i64)
                    .map(|y| {
                        let law = |one: f64| one * mass(y - 1) + (1.0 - one) * mass(y);
                        (law(p * t) - exp(epsilon) * law(t)).max(0.0)
                    })
                    .sum();
                let found = pair.attained(t, epsilon);
                assert!(found <= exact && exact <= found * (1.0 + 1e-8) + 1e-12, "{exact} {found}");
            }
        }
    }

    #[test]
    fn blocks_of_many_clones_stay_narrow() {
        let pair = Shuffle::new(1.0, 0.5, 1_000_000);
        for epsilon in [0.001, 0.005, 0.01] {
            let found = pair.delta(epsilon);
            assert!(found.lower > 0.0 && found.upper <= found.lower * 1.001, "{found:?}");
        }
    }

    #[test]
    fn an_epsilon_keeps_its_delta_and_one_below_does_not() {
        for population in [1, 5, 1000, 100_000_000] {
            let pair = Shuffle::new(2.0, 0.2, population);
            for delta in [1e-3, 1e-6, 1e-12] {
                let Bounds { lower, upper } = pair.epsilon(delta);
                assert!(lower <= upper && upper <= 2.0);
                assert!(pair.delta(upper).upper <= delta);
                assert!(lower == 0.0 || pair.delta(lower).lower > delta);
                assert!(upper - lower <= 2e-4 * upper, "{population} {delta} {lower} {upper}");
            }
        }
    }
}
