//! Tails of the binomial distribution, at any distance from the mean, enclosed; and `ln n!`.

use std::sync::OnceLock;

use crate::certified::{Interval, Real};
use crate::types::Rounding::Up;

type I = Interval<4>;

/// Terms of a tail that are added one by one at most; the others are bounded by a geometric series.
const MAX_TAIL_TERMS: u64 = 1 << 21;
/// What is left out is below 2⁻⁹⁰ of the sum, or bounded.
const OMITTED_BITS: i64 = 90;

/// Returns (2m − 1, |numerator|, denominator, sign) of B_{2m}/(2m(2m − 1)) for m = 1, 2, …: of Stirling's series.
///
/// B₂, …, B₃₂ as in Abramowitz, Stegun, "Handbook of mathematical functions", table 23.2.
const BERNOULLI_NUMBERS: [(i64, u64); 16] = [
    (1, 6),
    (-1, 30),
    (1, 42),
    (-1, 30),
    (5, 66),
    (-691, 2730),
    (7, 6),
    (-3617, 510),
    (43867, 798),
    (-174_611, 330),
    (854_513, 138),
    (-236_364_091, 2730),
    (8_553_103, 6),
    (-23_749_461_029, 870),
    (8_615_841_276_005, 14322),
    (-7_709_321_041_217, 510),
];

/// Returns ln n!: of the product up to 256, and else Stirling's series (Abramowitz, Stegun 6.1.40), whose error is below its last
/// term (6.1.42), which is below 10⁻⁶⁵.
#[must_use]
pub fn log_factorial(n: u64) -> I {
    static SMALL: OnceLock<Vec<I>> = OnceLock::new();
    let small = SMALL.get_or_init(|| {
        let mut product = I::integer(1);
        let next = |n: u64| {
            product = product.mul_integer(n.max(1));
            product.ln()
        };
        (0..=256).map(next).collect()
    });
    if let Some(&found) = small.get(n as usize) {
        return found;
    }
    let x = I::integer(n);
    let mut total = (x + I::integer(1).scaled(-1)) * x.ln() - x + I::sqrt_two_pi().ln();
    let mut power = I::integer(1);
    let mut last = Real::ZERO;
    for (m, (numerator, denominator)) in (1_u64..).zip(BERNOULLI_NUMBERS) {
        let divisor = denominator * 2 * m * (2 * m - 1);
        let size = (I::integer(numerator.unsigned_abs()) / (power * x)).div_integer(divisor);
        total = if numerator < 0 { total - size } else { total + size };
        power = power * x.square();
        last = size.upper;
    }
    total + I::new(last.negated(), last)
}

/// Returns P[X ≥ least] for X ~ Bin(number, p), where `p` and `rest = 1 − p` are in [0, 1].
///
/// Above the mean the terms are added from the first on. Their ratios fall, so the remainder is at most a geometric series.
/// Below the mean the result is 1 minus the tail on the other side.
#[must_use]
pub fn at_least(number: u64, p: I, rest: I, least: u64) -> I {
    if least == 0 || (rest.upper.is_zero() && least <= number) {
        return I::integer(1);
    }
    if least > number || p.upper.is_zero() {
        return I::integer(0);
    }
    if Real::integer(least) > p.upper.mul_integer(number, Up) {
        return upper_tail(number, p, rest, least);
    }
    (I::integer(1) - upper_tail(number, rest, p, number - least + 1)).clamped()
}

/// Returns P[X ≥ least] for a `probability` in [0, 1] that is exactly a float.
#[must_use]
pub fn at_least_of_float(number: u64, probability: f64, least: u64) -> I {
    let p = I::from(probability);
    at_least(number, p, (I::integer(1) - p).clamped(), least)
}

fn upper_tail(number: u64, p: I, rest: I, least: u64) -> I {
    let odds = p / rest;
    let choose = log_factorial(number) - (log_factorial(least) + log_factorial(number - least));
    let first = choose + p.ln().mul_integer(least) + rest.ln().mul_integer(number - least);
    let ratio = |k: u64| odds.mul_integer(number - k).div_integer(k + 1);
    let (mut term, mut total, mut k) = (I::integer(1), I::integer(0), least);
    let end = number.min(least.saturating_add(MAX_TAIL_TERMS));
    while k <= end && !term.upper.is_zero() && (k == least || term.upper > total.lower.scaled(-OMITTED_BITS)) {
        total = total + term;
        term = term * ratio(k);
        k += 1;
    }
    if k <= number && !term.upper.is_zero() {
        // Terms beyond fall at least as fast as here.
        let left = I::integer(1) - ratio(k);
        let one = Real::integer(1);
        let beyond = if left.is_positive() { (term / left).upper } else { one.div(first.exp().lower, Up) };
        total.upper = total.upper.add(beyond, Up);
    }
    (first.exp() * total).clamped()
}

/// Returns ln C(n, k).
#[must_use]
pub fn log_choose(n: u64, k: u64) -> I {
    log_factorial(n) - (log_factorial(k) + log_factorial(n - k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorials_grow_by_their_factors_across_the_change_of_method() {
        for n in [1, 100, 255, 256, 257, 258, 300, 1000, 1 << 40] {
            let (by_steps, found) = (log_factorial(n - 1) + I::integer(n).ln(), log_factorial(n));
            assert!(by_steps.lower <= found.upper && found.lower <= by_steps.upper, "{n}");
            let width = found.upper.sub(found.lower, Up);
            assert!(
                width.is_zero() || width.magnitude() < -200 + found.upper.magnitude(),
                "{n}: {}",
                width.magnitude()
            );
        }
    }

    #[test]
    fn bernoulli_numbers_obey_their_recursion() {
        // Σ_{k<m} C(m, k)·B_k = 0 with B_0 = 1, B_1 = −1/2, as fractions of floats: to 10⁻¹² of the largest term
        let mut known = vec![1.0, -0.5];
        for (m, (numerator, denominator)) in (2..).step_by(2).zip(BERNOULLI_NUMBERS) {
            known.push(numerator as f64 / denominator as f64);
            known.push(0.0);
            let (mut sum, mut size, mut choose) = (0.0_f64, 0.0_f64, 1.0);
            for (k, value) in known.iter().enumerate().take(m + 1) {
                sum += choose * value;
                size = size.max((choose * value).abs());
                choose *= (m + 1 - k) as f64 / (k + 1) as f64;
            }
            assert!(sum.abs() < 1e-12 * size, "{m}: {sum} {size}");
        }
    }

    #[test]
    fn tails_add_up_to_one_and_are_sums_of_terms() {
        for (number, p) in [(10, 0.3), (1000, 0.01), (12, 0.999), (60_000, 0.001), (100, 5e-324), (5, 0.0), (5, 1.0)] {
            let (p, q) = (I::from(p), I::integer(1) - I::from(p));
            for least in [0, 1, 2, number / 3, number - 1, number, number + 1] {
                let tail = at_least(number, p, q, least);
                let other =
                    if least == 0 { I::integer(0) } else { at_least(number, q, p, (number + 1).saturating_sub(least)) };
                let sum = tail + other;
                let one = Real::integer(1);
                assert!(sum.lower <= one && one <= sum.upper, "{number} {least}");
                assert!(tail.lower <= tail.upper && tail.upper <= one);
            }
        }
        let half = at_least_of_float(3, 0.5, 2);
        assert!(half.lower <= Real::new(0.5) && Real::new(0.5) <= half.upper);
    }
}
