//! From `ρ(α)` to (ε, δ), each on its safe side.
//!
//! A mechanism with `D_α ≤ ρ` for one `α > 1` is (ε, δ)-private for every pair with
//!
//! ```text
//! ln δ = (α − 1)(ρ − ε) + α·ln(1 − 1/α) − ln(α − 1)
//! ```
//!
//! (Balle, Barthe, Gaboardi, Hsu, Sato, "Hypothesis testing interpretations and Rényi differential privacy", AISTATS 2020,
//! Theorem 21; Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12). With
//! `β = α − 1`, `t = ln(1 + 1/β)` and `w = ln(1 + β)` that is `ln δ = β(ρ − ε − t) − w`, in which nothing cancels but what must.
//! The classical `ε = ρ + ln(1/δ)/(α − 1)` (Mironov, "Rényi differential privacy", CSF 2017, Proposition 3) is never smaller.
//!
//! The divergence of order 1, `κ`, bounds the total variation, which is `δ(0) ≥ δ(ε)`: by `√(1 − e^{−κ})` (Bretagnolle,
//! Huber, "Estimation des densités : risque minimax", 1979) and by `√(κ/2)` (Pinsker's inequality; both in Tsybakov,
//! "Introduction to nonparametric estimation", 2009, Lemmas 2.5 and 2.6).

use crate::functions::{UNIT, exp, expm1, ln, ln_1p, sqrt};

/// Roundings of a conversion: no term takes part in more than 12, or is from a function with more than 8 units.
const CONVERSION_SLACK: f64 = 24.0 * UNIT;

/// Which theorem turns a divergence into ε.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// The best one known in closed form.
    Improved,
    /// That of Mironov 2017, and of the moments accountant.
    Classical,
}

/// Returns an upper bound on the ε ≥ 0 at `0 < δ < 1` that a divergence of at most `rho` implies; `order` from 1 to ∞.
#[must_use]
pub fn epsilon(conversion: Conversion, order: f64, rho: f64, delta: f64) -> f64 {
    if order == f64::INFINITY {
        return rho;
    }
    // mutant: order-of-the-conversion
    let beta = order - 1.0;
    if !(beta > 0.0 && rho < f64::INFINITY) {
        return f64::INFINITY;
    }
    let goal = -ln(delta) / beta;
    let (t, w) = match conversion {
        Conversion::Improved => (ln_1p(1.0 / beta), ln_1p(beta) / beta),
        Conversion::Classical => (0.0, 0.0),
    };
    // mutant: terms-of-the-conversion
    let epsilon = (rho - t) + (goal - w);
    // mutant: conversion-rounded-up
    let bound = epsilon + CONVERSION_SLACK * (rho + t + goal + w);
    if bound >= 0.0 {
        bound
    } else if bound.is_nan() {
        f64::INFINITY
    } else {
        0.0
    }
}

/// Returns an upper bound on `ln δ ≤ 0` at a finite `ε ≥ 0` that a divergence of at most `rho` implies.
#[must_use]
pub fn log_delta(conversion: Conversion, order: f64, rho: f64, epsilon: f64) -> f64 {
    if order == f64::INFINITY {
        return if rho <= epsilon { f64::NEG_INFINITY } else { 0.0 };
    }
    let beta = order - 1.0;
    if !(beta > 0.0 && rho < f64::INFINITY) {
        return 0.0;
    }
    let (t, w) = match conversion {
        Conversion::Improved => (ln_1p(1.0 / beta), ln_1p(beta)),
        Conversion::Classical => (0.0, 0.0),
    };
    let log = beta * (rho - (epsilon + t)) - w;
    let bound = log + CONVERSION_SLACK * (beta * (rho + epsilon + t) + w);
    if bound < 0.0 { bound } else { 0.0 }
}

/// Returns an upper bound on the total variation of two laws with a Kullback–Leibler divergence of at most `divergence`.
#[must_use]
pub fn total_variation(divergence: f64) -> f64 {
    // mutant: constant-of-pinsker
    let (pinsker, huber) = (0.5 * divergence, -expm1(-divergence));
    (sqrt(pinsker.min(huber)) * (1.0 + CONVERSION_SLACK)).min(1.0)
}

/// Returns an upper bound on `eˣ`, `x ≤ 0`; at least the smallest float > 0 unless `x` is `−∞`.
#[must_use]
pub fn exp_upper(x: f64) -> f64 {
    // mutant: delta-rounded-up
    if x == f64::NEG_INFINITY { 0.0 } else { (exp(x) * (1.0 + 16.0 * UNIT)).next_up().min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(α, ρ, δ, ε)` and `(α, ρ, ε, ln δ)` by the theorem, from mpmath in 40 digits, rounded down.
    const EPSILONS: [(f64, f64, f64, f64); 5] = [
        (2.0, 0.5, 1e-5, 10.626631103850336),
        (1.5, 0.01, 1e-3, 11.915968053079835),
        (32.0, 1.25, 1e-10, 1.8492227541738302),
        (300.0, 2.0, 1e-9, 2.0468934845615427),
        (1.001, 1e-4, 0.25, 1378.3862060076444),
    ];
    const LOG_DELTAS: [(f64, f64, f64, f64); 4] = [
        (2.0, 0.5, 3.0, -3.886294361119891),
        (1.5, 0.01, 0.1, -0.9997712524422193),
        (32.0, 1.25, 2.0, -27.699945550551718),
        (300.0, 2.0, 2.25, -81.45211395304509),
    ];

    #[test]
    fn conversions_are_the_theorem_rounded_up() {
        for (order, rho, delta, exact) in EPSILONS {
            let found = epsilon(Conversion::Improved, order, rho, delta);
            assert!(found >= exact && found <= exact + 1e-13 * (1.0 + exact), "{order}: {found:e} {exact:e}");
            let classical = rho - ln(delta) / (order - 1.0);
            let found = epsilon(Conversion::Classical, order, rho, delta);
            assert!(found > classical && found <= classical * (1.0 + 1e-13), "{order}: {found:e} {classical:e}");
        }
        for (order, rho, epsilon, exact) in LOG_DELTAS {
            let found = log_delta(Conversion::Improved, order, rho, epsilon);
            assert!(found >= exact && found <= exact * (1.0 - 1e-13), "{order}: {found:e} {exact:e}");
        }
    }

    #[test]
    fn the_total_variation_is_the_smaller_bound_rounded_up() {
        for (divergence, exact) in
            [(1e-9, 2.2360679774997894e-05), (0.01, 0.070_710_678_118_654_75), (0.5, 0.5), (3.0, 0.9747886599833504)]
        {
            let found = total_variation(divergence);
            assert!(found >= exact && found <= exact * (1.0 + 1e-13), "{found:e} {exact:e}");
        }
    }

    #[test]
    fn no_exponential_of_a_finite_number_is_zero() {
        assert_eq!(0.0, exp_upper(f64::NEG_INFINITY));
        assert!([-1e300, -800.0, -745.2].iter().all(|&x| exp_upper(x) > 0.0));
        assert!(exp_upper(-0.0) <= 1.0);
    }
}
