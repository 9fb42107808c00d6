//! Masses of the standard normal law with a bound on their *relative* error, however small they are.
//!
//! Every function takes a factor `e^c` into the exponent of the density, so that a mass of `10⁻⁵⁰⁰` can be had
//! beside a factor of `10⁵⁰⁰`. Arguments are [`Twofold`], as a tail multiplies the error of its argument by its argument.
//!
//! # Numerics
//!
//! In units of `u = 2⁻⁵³`, with 8 for each of `exp`, `erf`, `erfc` ([`super::MASS_ERROR`]), where results are normal
//! numbers; second-order terms are covered by rounding each sum up:
//!
//! - `density`: `exp` 8, its correction `1 + low` 1, the constant and product 2: 11; allowed 12.
//! - `mills` below 20: `exp` and its correction 9, `erfc` 8, products and constant 3; the argument `x/√2` is off by `2u`
//!   relatively, which changes `M` by `2u·x·|M′/M| ≤ 2u` as `|M′/M| = 1/M − x ≤ min(0.8, 1/x)`: 22. Beyond 20: an
//!   alternating series whose first omitted term is below `10⁻¹⁷`: 6.
//! - `tail`: density 12, Mills' ratio 22, product 1, the neglected lower half of its argument 1: 36.
//! - short intervals, `(|m| + 1)·w/2 ≤ ½` for midpoint `m` and width `w`: density 12, width 1, the series (13 terms whose sum
//!   lies between 0.88 and 1.2) 8: 24.
//! - other intervals on one side of 0: a difference of tails with ratio `ρ`. The hazard `1/M` is convex, hence at least
//!   `0.797 + 0.636x`, and `−ln ρ = ∫1/M ≥ w(0.797 + 0.636m) > 0.636`: `ρ < 0.53`, so that the error is at most
//!   `36(1 + ρ)/(1 − ρ) + 1 < 119`.
//! - intervals across 0: a sum of two positive `erf`, 8 and 3 for the argument and 1 each, times `e^c`, 9: 21.
//!
//! All of it is below [`MASS_ERROR`].

use super::{UNIT, erf, erfc, exp, twofold::Twofold};

/// Bound on the relative error of every mass and tail of this module, where it is a normal number.
pub const MASS_ERROR: f64 = 128.0 * UNIT;

const INVERSE_ROOT_TWO_PI: f64 = 0.398_942_280_401_432_7;
const ROOT_HALF: f64 = core::f64::consts::FRAC_1_SQRT_2;
const ROOT_HALF_PI: f64 = 1.253_314_137_315_500_3;

/// Returns `e^c · φ(t)`.
#[must_use]
pub fn density(t: Twofold, c: f64) -> f64 {
    if t.high.abs() > 1e9 {
        return 0.0; // e^(−5·10¹⁷), beyond any c that a loss can be
    }
    let exponent = Twofold::from(c).minus(t.squared().halved());
    INVERSE_ROOT_TWO_PI * (exp(exponent.high) * (1.0 + exponent.low))
}

/// Returns Mills' ratio `M(x) = Φ̄(x)/φ(x)` for `x ≥ 0`.
#[must_use]
pub fn mills(x: f64) -> f64 {
    if x < 20.0 {
        let y = x * ROOT_HALF;
        let square = Twofold::product(y, y);
        return ROOT_HALF_PI * (exp(square.high) * (1.0 + square.low) * erfc(y));
    }
    let s = 1.0 / (x * x); // M = (1 − s + 1·3·s² − 1·3·5·s³ + …)/x, alternating
    let nested = (1..=9).rev().fold(1.0, |rest, k| 1.0 - f64::from(2 * k - 1) * s * rest);
    nested / x
}

/// Returns `e^c · Φ̄(t)`.
#[must_use]
pub fn tail(t: Twofold, c: f64) -> f64 {
    if t.high == f64::INFINITY {
        0.0
    } else if t.high >= 0.0 {
        density(t, c) * mills(t.high)
    } else {
        exp(c) * (0.5 * erfc(t.high * ROOT_HALF))
    }
}

/// Returns `e^c · (Φ(b) − Φ(a))` for `a ≤ b`, either of which may be infinite.
#[must_use]
pub fn between(a: Twofold, b: Twofold, c: f64) -> f64 {
    if b.high == f64::INFINITY {
        return tail(a, c);
    }
    if a.high == f64::NEG_INFINITY {
        return tail(b.negated(), c);
    }
    if a.high == f64::INFINITY || b.high == f64::NEG_INFINITY {
        return 0.0;
    }
    let half_width = b.minus(a).halved().float();
    let middle = a.plus(b).halved();
    if (middle.high.abs() + 1.0) * half_width <= 0.5 {
        return density(middle, c) * (2.0 * half_width) * mean_ratio(middle.high, half_width);
    }
    if a.high < 0.0 && b.high > 0.0 {
        return exp(c) * (0.5 * (erf(b.high * ROOT_HALF) + erf(-a.high * ROOT_HALF)));
    }
    let (near, far) = if a.high >= 0.0 { (a, b) } else { (b.negated(), a.negated()) };
    (tail(near, c) - tail(far, c)).max(0.0)
}

/// Returns the mean of `φ(m + t)/φ(m)` over `|t| ≤ s`: `Σₖ He₂ₖ(m) s²ᵏ/(2k + 1)!`, for `(|m| + 1)s ≤ ½`.
///
/// `gₙ = Heₙ(m)sⁿ/n!` obeys `gₙ₊₁ = (ms·gₙ − s²·gₙ₋₁)/(n + 1)`, so that two neighbors below `2⁻⁶³` bound all that follow.
fn mean_ratio(m: f64, s: f64) -> f64 {
    const OMITTED_TAIL: f64 = 1.0 / (1_u64 << 63) as f64;
    let (ms, square) = (m * s, s * s);
    let (mut before, mut last, mut sum) = (1.0_f64, ms, 1.0);
    let mut n = 1.0;
    while n < 40.0 && before.abs() + last.abs() > OMITTED_TAIL {
        let even = (ms * last - square * before) / (n + 1.0);
        let odd = (ms * even - square * last) / (n + 2.0);
        sum += even / (n + 2.0);
        (before, last) = (even, odd);
        n += 2.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_of_neighboring_intervals_add_up() {
        let points = [[-3.0, -2.9, -1.0], [5.0, 5.001, 9.0], [0.2, 0.3, 7.0], [-0.1, 0.4, 0.9], [20.0, 20.01, 21.0]];
        for [a, b, c] in points.map(|each| each.map(Twofold::from)) {
            let (whole, parts) = (between(a, c, 0.0), between(a, b, 0.0) + between(b, c, 0.0));

            assert!((whole - parts).abs() <= 2.0 * MASS_ERROR * whole, "{a:?} {b:?} {c:?}");
        }
    }

    #[test]
    fn a_factor_in_the_exponent_reaches_masses_that_no_float_holds() {
        // Φ̄(50) = e^(−1250)/(50√(2π))·(1 − 1/2500 + …)
        let scaled = tail(Twofold::from(50.0), 1250.0);

        assert_eq!(0.0, tail(Twofold::from(50.0), 0.0));
        let expected = 0.007_975_657_892; // mpmath
        assert!((scaled / expected - 1.0).abs() < 1e-11, "{scaled}");
    }
}
