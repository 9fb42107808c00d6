//! From ρ-zCDP to (ε, δ) and back, each on its safe side.
//!
//! ρ-zCDP bounds the Rényi divergence of every order `α > 1` by `αρ` (Bun, Steinke, "Concentrated differential privacy", TCC 2016,
//! Definition 1.1). For every `α` it follows that (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
//! NeurIPS 2020, Proposition 12 and Corollary 13)
//!
//! ```text
//! δ = e^{(α−1)(αρ−ε)}·(1 − 1/α)^α/(α − 1),
//! ```
//!
//! so every `α` may be tried, and none can be wrong. Here `t = α − 1`, exactly a float, and `u = −ln(1 − 1/α)`:
//!
//! ```text
//! ln δ(t) = t·((1+t)ρ − ε − u) − ln(1+t)             least where (2t+1)ρ − ε − u = 0
//! ε(t)    = (1+t)ρ + (ln 1/δ − ln(1+t))/t − u        least where t²ρ + ln(1+t) = ln 1/δ
//! ρ(t)    = (ε + u − (ln 1/δ − ln(1+t))/t)/(1+t)     greatest where t²ρ(t) + ln(1+t) = ln 1/δ
//! ```
//!
//! Left of each of the three places the derivative has one sign and right of it the other, so that bisection in floats proposes
//! `t`; an error in `t` counts squared. The value at `t` is enclosed.

use crate::certified::{Interval, Real};
use crate::functions::{exp, ln, ln_1p};
use crate::types::Rounding::{Down, Up};

type I = Interval<4>;

/// |ln t| stays below it, so that t and 1/t are floats.
const MAX_LOG: f64 = 690.0;
/// Halvings of 2·690 to below an ulp.
const MAX_HALVINGS: usize = 62;

/// Returns about where a function of t that is negative first and positive then changes its sign.
fn crossing(function: impl Fn(f64) -> f64) -> I {
    let (mut low, mut high) = (-MAX_LOG, MAX_LOG);
    for _ in 0..MAX_HALVINGS {
        let middle = 0.5 * (low + high);
        if function(exp(middle)) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    I::from(exp(high))
}

/// Returns about ρ, as a float > 0.
fn rate(rho: I) -> f64 {
    rho.upper.float(Up).clamp(f64::from_bits(1), f64::MAX)
}

/// Returns u = −ln(1 − 1/α) = ln(1 + 1/t).
fn gap(t: I) -> I {
    (I::integer(1) / t).ln_one_plus()
}

/// Returns (ln 1/δ − ln(1+t))/t.
fn rest(t: I, target: f64) -> I {
    (-I::from(target).ln() - t.ln_one_plus()) / t
}

/// Returns an upper bound on δ(ε) for ρ ≥ 0, ε ≥ 0.
#[must_use]
pub fn delta(rho: I, epsilon: f64) -> Real<4> {
    if rho.upper.is_zero() {
        return Real::ZERO;
    }
    let about = rate(rho);
    let t = crossing(|t| (2.0 * t + 1.0) * about - epsilon - ln_1p(1.0 / t));
    let slope = (I::integer(1) + t) * rho - I::from(epsilon) - gap(t);
    let logarithm = t * slope - t.ln_one_plus();
    logarithm.not_above_zero().exp().upper.min(Real::integer(1))
}

/// Returns an upper bound on the ε ≥ 0 that ρ-zCDP implies for 0 < δ < 1.
#[must_use]
pub fn epsilon(rho: I, target: f64) -> f64 {
    if rho.upper.is_zero() {
        return 0.0;
    }
    let (about, goal) = (rate(rho), -ln(target));
    let t = crossing(|t| t * t * about + ln_1p(t) - goal);
    let bound = (I::integer(1) + t) * rho + rest(t, target) - gap(t);
    bound.upper.max(Real::ZERO).float(Up)
}

/// Returns a ρ ≥ 0, within rounding the largest, for which ρ-zCDP implies (ε, δ), 0 < δ < 1.
#[must_use]
pub fn rho(epsilon: f64, target: f64) -> f64 {
    let goal = -ln(target);
    let t = crossing(|t| {
        let left = goal - ln_1p(t);
        t / (1.0 + t) * (t * (epsilon + ln_1p(1.0 / t)) - left) - left
    });
    let bound = I::from(epsilon) + gap(t) - rest(t, target);
    (bound / (I::integer(1) + t)).lower.max(Real::ZERO).float(Down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_formula_at_many_orders() {
        for (r, e, d) in [(0.5, 1.0, 1e-5), (1e-6, 0.01, 1e-10), (20.0, 100.0, 0.3), (1e-3, 0.0, 1e-300)] {
            let (delta, epsilon, rho) = (delta(I::from(r), e).float(Up), epsilon(I::from(r), d), rho(e, d));
            for i in -60..60 {
                let t = exp(f64::from(i) * 0.25);
                let u = -ln_1p(-1.0 / (1.0 + t));
                let at = |rho: f64| t * ((1.0 + t) * rho - e - u) - ln_1p(t);
                assert!(ln(delta) <= at(r) + 1e-9 * at(r).abs().max(1.0), "δ at {t}");
                let e_of_t = (1.0 + t) * r + (-ln(d) - ln_1p(t)) / t - u;
                assert!(epsilon <= e_of_t.max(0.0) + 1e-9 * e_of_t.abs().max(1.0), "ε at {t}");
                let r_of_t = (e + u - (-ln(d) - ln_1p(t)) / t) / (1.0 + t);
                assert!(rho >= r_of_t - 1e-9 * r_of_t.abs(), "ρ at {t}");
            }
        }
    }

    #[test]
    fn conversions_invert_one_another() {
        for (e, d) in [(1.0, 1e-6), (0.01, 1e-9), (50.0, 1e-5)] {
            let largest = rho(e, d);
            let back = epsilon(I::from(largest), d);
            assert!(back <= e * (1.0 + 1e-12) && back >= e * (1.0 - 1e-9), "{back}");
            assert!(delta(I::from(largest), e).float(Up) <= d * (1.0 + 1e-9));
        }
        assert_eq!(0.0, epsilon(I::integer(0), 1e-9));
    }
}
