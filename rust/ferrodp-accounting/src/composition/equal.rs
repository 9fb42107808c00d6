//! The loss of k randomized responses on ±ε, summed with a counted error.
//!
//! The worst (ε, 0)-private mechanism gives the right one of two answers with probability `p = e^ε/(1 + e^ε)`. After `k` of them, of
//! which `j` were right, the loss is `(2j − k)ε`, and
//!
//! ```text
//! δ(E) = Σ_{j ≥ m} t_j·c_j,   t_j = C(k, j)·p^j·(1 − p)^{k−j},   c_j = 1 − e^{E − (2j−k)ε},
//! ```
//!
//! `m` the first `j` with `(2j − k)ε > E`. One `t_j`, at the anchor, is enclosed (Stirling's series); the others follow by ratios,
//! outward from the anchor and as far as they count, and the `c_j` by `c_{j+1} = y·c_j + (1 − y)`, `y = e^{−2ε}`. All terms are positive
//! and nothing is subtracted.
//!
//! # Numerics
//! In units `u = 2⁻⁵³`, at most `n` terms away from the anchor. `t`: a quotient, two products and the rounded `e^ε` (2u), 5n in all.
//! `c`: powers of `y`, 3n (product, rounded `y`), their sum n more, two factors 6. Product and sum: 1 + n. That is below (10n + 10)u
//! to first order, and [`slack`] allows 11n + 16, which also covers the last sums and their rounding.

use super::I;
use crate::binomial::log_choose;
use crate::certified::Real;
use crate::functions::{UNIT, exp, ln};
use crate::memory::room;
use crate::types::Rounding::{Down, Up};

/// Larger counts would take too long: some 10⁶ terms here, and √k more.
pub const MAX_COUNT: u64 = 10_000_000_000;
/// More than the error of terms below the normal floats; it matters only for ε below 10⁻²⁸⁰.
const SUBNORMAL_ERROR: f64 = f64::from_bits(23 << 52); // 2⁻¹⁰⁰⁰
/// For larger ε, the terms below the anchor are left to the bound on what is cut off.
const MAX_ANCHORED_EPSILON: f64 = 600.0;
/// Standard deviations on either side of the anchor.
const ANCHOR_DEVIATIONS: f64 = 10.0;

/// Probabilities t_j/t_anchor for consecutive j from `first` on, and bounds on the sums of those on either side.
pub(crate) struct Window {
    pub(crate) first: u64,
    pub(crate) anchor: u64,
    pub(crate) ratios: Vec<f64>,
    pub(crate) below: f64,
    pub(crate) above: f64,
}

impl Window {
    /// Returns bounds on t_anchor.
    pub(crate) fn scale(&self, count: u64, epsilon: f64) -> I {
        let normalizer = (-I::from(epsilon)).exp().ln_one_plus().mul_integer(count);
        let exponent = log_choose(count, self.anchor) - normalizer - I::from(epsilon).mul_integer(count - self.anchor);
        exponent.not_above_zero().exp()
    }
}

/// Returns an upper bound on term·(ratio + ratio² + …), as ratios fall outward; ∞ if that does not end.
fn geometric(term: f64, ratio: f64) -> f64 {
    let ratio = ratio * (1.0 + 8.0 * UNIT);
    if ratio >= 1.0 { f64::INFINITY } else { term * ratio / (1.0 - ratio) * (1.0 + 8.0 * UNIT) }
}

/// Returns the t_j/t_anchor, j ≥ start, within so many standard deviations of the anchor, and bounds on the others.
///
/// The anchor is about the mode or, beyond it, `start`.
pub(crate) fn window(count: u64, epsilon: f64, start: u64, width: f64) -> Window {
    let rate = exp(-epsilon.min(MAX_ANCHORED_EPSILON));
    let mode = (((count + 1) as f64 / (1.0 + rate)) as u64).min(count);
    let anchor = start.max(mode);
    let spread = (count as f64 * rate).sqrt() / (1.0 + rate);
    let reach = (width * spread) as u64 + 60;
    let first = if epsilon > MAX_ANCHORED_EPSILON { anchor } else { start.max(anchor.saturating_sub(reach)) };
    let last = count.min(anchor + reach);
    let e_down = (-I::from(epsilon)).exp().floats().upper;
    let e_up = I::from(epsilon.min(MAX_ANCHORED_EPSILON)).exp().floats().upper;
    let (k, mut ratios, mut ratio) = (count as f64, room((last - first + 1) as usize), 1.0);
    for j in (first + 1..=anchor).rev() {
        ratio *= j as f64 / (k + 1.0 - j as f64) * e_down;
        ratios.push(ratio);
    }
    ratios.reverse();
    ratios.push(1.0);
    ratio = 1.0;
    for j in anchor..last {
        ratio *= (k - j as f64) / (j as f64 + 1.0) * e_up;
        ratios.push(ratio);
    }
    let (low, high) = (ratios[0], ratio);
    let below = if first == start { 0.0 } else { geometric(low, first as f64 / (k + 1.0 - first as f64) * e_down) };
    let above = if last == count { 0.0 } else { geometric(high, (k - last as f64) / (last as f64 + 1.0) * e_up) };
    Window { first, anchor, ratios, below, above }
}

/// Returns the relative error that sums over a window of so many terms stay below: see the module's budget.
#[must_use]
pub fn slack(terms: usize) -> f64 {
    (11.0 * terms as f64 + 16.0) * UNIT * 1.01
}

/// Returns (2j − k)·ε, exactly: k has at most 34 bits.
fn loss(count: u64, epsilon: f64, j: u64) -> Real<4> {
    let steps = 2 * j as i64 - count as i64;
    let size = Real::new(epsilon).mul_integer(steps.unsigned_abs(), Down);
    if steps < 0 { size.negated() } else { size }
}

/// Returns m, the smallest j ≥ 0 with (2j − count)·epsilon > total ≥ 0; `count + 1` if there is none up to `count`.
fn first_above(count: u64, epsilon: f64, total: f64) -> u64 {
    let goal = Real::new(total);
    if loss(count, epsilon, count) <= goal {
        return count + 1;
    }
    let mut j = (((total / epsilon + count as f64) / 2.0).max(0.0) as u64).min(count);
    while j > 0 && loss(count, epsilon, j - 1) > goal {
        j -= 1;
    }
    while loss(count, epsilon, j) <= goal {
        j += 1;
    }
    j
}

/// Returns Σ xᵢ·cᵢ with c₀ = first and c_{i+1} = y·cᵢ + (1 − y), y = e^step for a step < 0.
///
/// The relative error of the c is below (4·size + 8)·2⁻⁵³.
pub(crate) fn rising_sum(values: &[f64], first: f64, step: I) -> f64 {
    let (y, rest) = (step.exp().floats().upper, step.one_minus_exp().floats().upper);
    let (mut power, mut risen, mut sum) = (1.0, 0.0, 0.0);
    for &value in values {
        sum += value * (first * power + risen);
        risen += rest * power;
        power *= y;
    }
    sum
}

/// Returns δ(total) of `count` ≤ [`MAX_COUNT`] randomized responses on ±epsilon, for epsilon > 0, total ≥ 0.
pub(crate) fn delta(count: u64, epsilon: f64, total: f64) -> I {
    delta_with(count, epsilon, total, slack)
}

/// Returns the same with another allowance for roundings, for tests.
pub fn delta_with(count: u64, epsilon: f64, total: f64, slack: fn(usize) -> f64) -> I {
    let start = first_above(count, epsilon, total);
    if start > count {
        return I::integer(0);
    }
    let terms = window(count, epsilon, start, ANCHOR_DEVIATIONS);
    let gap = I::from(total) - I::from(loss(count, epsilon, terms.first));
    let complement = gap.not_above_zero().one_minus_exp();
    let first = complement.floats().upper;
    let size = terms.ratios.len();
    let sum = rising_sum(&terms.ratios, first, -I::from(epsilon).mul_integer(2));
    let error = slack(size);
    let cut = (terms.below * first + terms.above) * (1.0 + error);
    let width = (complement.upper.sub(complement.lower, Up).float(Up) + 4.0 * UNIT * first) * size as f64;
    let upper = sum * (1.0 + error) + cut + SUBNORMAL_ERROR * size as f64;
    let lower = (sum * (1.0 - error) - width - SUBNORMAL_ERROR * size as f64).max(0.0);
    terms.scale(count, epsilon) * between(lower, upper)
}

/// Returns the interval from `lower` to `upper`, the latter perhaps infinite: then to 2¹⁰⁷⁰, which is as good beside a probability that
/// is multiplied with it and cut off at 1.
fn between(lower: f64, upper: f64) -> I {
    let most = if upper < f64::INFINITY { Real::new(upper) } else { Real::integer(1).scaled(1 << 40) };
    I::new(Real::new(lower), most)
}

/// Returns P[J ≥ start] = Σ_{j ≥ start} t_j, for `count` ≤ [`MAX_COUNT`] and ε ≥ 0.
pub(crate) fn tail(count: u64, epsilon: f64, start: u64) -> I {
    if start == 0 {
        return I::integer(1);
    }
    if start > count {
        return I::integer(0);
    }
    let terms = window(count, epsilon, start, ANCHOR_DEVIATIONS);
    let (value, error) = (terms.ratios.iter().sum::<f64>(), slack(terms.ratios.len()));
    let upper = (value + terms.below + terms.above) * (1.0 + error);
    (terms.scale(count, epsilon) * between(value * (1.0 - error), upper)).clamped()
}

/// Returns an upper bound on P[Binomial(samples, p) ≤ seen], for 0 < p ≤ 1 and `samples` ≤ [`MAX_COUNT`].
///
/// Failures have probability 1 − p = e^ε/(1 + e^ε) for p ≤ 1/2; the float ε is rounded so that p only falls.
#[must_use]
pub fn at_most(seen: u64, samples: u64, p: f64) -> f64 {
    if p >= 1.0 {
        return 0.0;
    }
    let odds = I::from(p).ln() + I::from(p).minus_log_one_minus(); // ln(p/(1 − p))
    if p <= 0.5 {
        return tail(samples, (-odds).floats().upper.max(0.0), samples - seen).floats().upper;
    }
    let epsilon = odds.floats().lower.max(0.0);
    (I::integer(1) - tail(samples, epsilon, seen + 1)).floats().upper
}

/// Returns about ln x for a positive x.
pub(crate) fn log_of(x: Real<4>) -> f64 {
    let magnitude = x.magnitude();
    ln(x.scaled(-magnitude).float(Up)) + magnitude as f64 * core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_the_sum_over_all_outcomes() {
        for (count, epsilon) in [(1, 1.0), (7, 0.3), (20, 2.0), (3, 40.0), (60, 1e-3)] {
            for total in [0.0, 0.5 * epsilon, epsilon, 2.5 * epsilon, 0.999 * count as f64 * epsilon, 1e9] {
                let found = delta(count, epsilon, total).floats();
                let p = 1.0 / (1.0 + exp(-epsilon));
                let mut term = (p * exp(-epsilon)).powi(count as i32);
                let mut sum = 0.0;
                for j in 0..=count {
                    sum += term * (1.0 - exp(total - (2.0 * j as f64 - count as f64) * epsilon)).max(0.0);
                    term *= (count - j) as f64 / (j + 1) as f64 * exp(epsilon);
                }
                let slack = 1e-11 * sum + 1e-300;
                assert!(
                    found.lower <= sum + slack && sum - slack <= found.upper,
                    "{count} {epsilon} {total}: {sum} {found:?}"
                );
                assert!(found.upper - found.lower <= 1e-11 * sum + 1e-290);
            }
        }
    }

    #[test]
    fn the_first_loss_above_is_found_exactly() {
        assert_eq!(3, first_above(3, 1.0, 2.0));
        assert_eq!(2, first_above(3, 1.0, 1.0_f64.next_down()));
        assert_eq!(4, first_above(3, 1.0, 3.0));
        assert_eq!(3, first_above(3, 0.1, 0.3)); // 3·0.1 as a real is above the float 0.3
        assert_eq!(MAX_COUNT + 1, first_above(MAX_COUNT, 1e-300, 1.0));
    }

    #[test]
    fn tails_are_those_of_the_binomial_law() {
        for (samples, seen, p) in [(10, 3, 0.3), (10, 3, 0.7), (1000, 0, 0.01), (50, 50, 0.5), (7, 6, 1.0), (5, 2, 0.5)]
        {
            let found = at_most(seen, samples, p);
            let exact = (I::integer(1) - crate::binomial::at_least_of_float(samples, p, seen + 1)).floats();
            assert!(found >= exact.lower && found <= exact.upper * (1.0 + 1e-11) + 1e-300, "{samples} {seen} {p}");
        }
    }
}
