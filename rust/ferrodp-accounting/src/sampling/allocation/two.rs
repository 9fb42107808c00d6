//! One round of two steps: δ(ε) as one integral of an analytic function.
//!
//! With `r_t = exp(s·z_t − s²/2)`, mean and half difference of `s·z_1` and `s·z_2` are independent, `N(0, v)` each, `v = s²/2`. So
//! `r̄ = X·cosh d`, `ln X ~ N(−v, v)`, `d ~ N(0, v)`. Given `d` it is lognormal with mean `F = e^{−v/2}·cosh d`, and
//!
//! ```text
//! E(r̄ − K)₊ = E_d[F·Φ(d₁) − K·Φ(d₂)],   E(K − r̄)₊ = E_d[K·Φ(−d₂) − F·Φ(−d₁)],
//! d₁ = (ln cosh d − ln K)/√v,  d₂ = d₁ − √v.
//! ```
//!
//! # Aliasing
//! For `|Im d| = b < π/2`: `|arg cosh d| ≤ b`, `|Φ(x + iy)| ≤ Φ(x)·e^{y²/2}`, `|cosh d| ≤ cosh Re d`, and the density grows by
//! `e^{b²/2v}`; so the integrand's modulus has an integral of at most `e^{b²/v}·(1 + K)`, and the trapezoid rule with spacing
//! `h` is within `2·e^{b²/v}(1 + K)/(e^{2πb/h} − 1)` (Trefethen, Weideman, SIAM Review 2014, Theorem 5.1).
//!
//! # Truncation
//! Beyond `|d| = v + 9.5√v` lies less than `(1 + K)·2Φ(−9.5)`, as `F` tilts the normal law by `v`.

use core::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use crate::functions::{UNIT, erfc, exp, expm1, ln_1p, sqrt};
use crate::types::{Bounds, Direction};

/// Returns a lower and an upper bound on `δ(ε)` for noise of standard deviation `1/s`, `0.01 ≤ s ≤ 100`.
#[must_use]
pub fn two_bins(s: f64, epsilon: f64, direction: Direction) -> Bounds {
    let found = integral(s, epsilon, direction, &Budget::PROVEN);
    let slack = found.slack();
    let upper = (found.value + slack) * found.scale * (1.0 + 16.0 * UNIT);
    let lower = (found.value - slack) * found.scale * (1.0 - 16.0 * UNIT);
    Bounds { lower: lower.max(0.0), upper: upper.min(1.0) }
}

/// How much may be left out. Tests leave out more, so that what stands for it can be seen.
struct Budget {
    /// `−ln` of the aliasing error, but for the growth of the integrand.
    digits: f64,
    /// Standard deviations beyond `|d| = v` where the sum ends.
    reach: f64,
}

impl Budget {
    const PROVEN: Self = Self { digits: 45.0, reach: 9.5 };
}

/// `δ(ε)/scale`, and bounds on the parts of its error.
#[derive(Debug)]
struct Integral {
    value: f64,
    scale: f64,
    aliasing: f64,
    truncation: f64,
    rounding: f64,
}

impl Integral {
    fn slack(&self) -> f64 {
        self.aliasing + self.truncation + self.rounding
    }
}

fn integral(s: f64, epsilon: f64, direction: Direction, budget: &Budget) -> Integral {
    let v = 0.5 * s * s;
    let root = sqrt(v);
    let log_k = if direction == Direction::Remove { epsilon } else { -epsilon };
    let k = exp(log_k);
    let b = (5.0 * root).min(1.45);
    let h = 2.0 * PI * b / (b * b / v + budget.digits);
    let alias = 2.02 * exp(b * b / v) / expm1(2.0 * PI * b / h);
    let half = ((v + budget.reach * root) / h).ceil();
    let (mut total, mut error) = (0.0, 0.0);
    let mut j = 0.0;
    while j <= half {
        let d = j * h;
        let weight = if j == 0.0 { 1.0 } else { 2.0 } * exp(-(d * d) / (2.0 * v));
        let log_cosh = d + ln_1p(exp(-2.0 * d)) - LN_2;
        let forward = exp(log_cosh - 0.5 * v);
        let d1 = (log_cosh - log_k) / root;
        let sign = if direction == Direction::Remove { 1.0 } else { -1.0 };
        let near = 0.5 * forward * erfc(-sign * d1 * FRAC_1_SQRT_2);
        let far = 0.5 * k * erfc(-sign * (d1 - root) * FRAC_1_SQRT_2);
        total += weight * (sign * (near - far)).max(0.0);
        // Arguments of Φ are within 8 units of (d + |ln K|)/√v + √v + |d₁|, which a tail multiplies by |d₁| + 2 + √v; e^{−d²/2v} is
        // within 3d²/v units more than its exp, and F within v + d.
        let slope = d1.abs() + 2.0 + root;
        let units = 48.0 + 3.0 * d * d / v + 4.0 * (v + d) + 8.0 * slope * ((d + log_k.abs()) / root + slope);
        error += weight * (near + far) * units * UNIT;
        j += 1.0;
    }
    let norm = h / sqrt(2.0 * PI * v);
    Integral {
        value: total * norm,
        scale: if direction == Direction::Remove { 1.0 } else { exp(epsilon) },
        aliasing: (1.0 + k) * alias,
        // erfc(x/√2) = 2Φ(−x), of the sum's end, which is not before the reach.
        truncation: (1.0 + k) * erfc(budget.reach * FRAC_1_SQRT_2) * (1.0 + 1e-9),
        rounding: error * norm * (1.0 + 1e-12) + total * norm * UNIT * (half + 64.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::twofold::Twofold;

    /// `(s, ε, direction, δ)`, the last one as a sum of two floats, from mpmath in 40 digits.
    const TRUTHS: [(f64, f64, Direction, (f64, f64)); 12] = [
        (1.0, 0.5, Direction::Remove, (0.14917752313552018, -1.2467484149910003e-17)),
        (1.0, 0.5, Direction::Add, (0.1426869658237432, -8.490287170621998e-18)),
        (0.25, 0.125, Direction::Remove, (0.026976414350894172, -3.8069908972162e-19)),
        (0.25, 0.125, Direction::Add, (0.026910711677890747, -1.6292958318949861e-18)),
        (2.0, 0.0, Direction::Remove, (0.5997506114267177, -4.973556046944865e-17)),
        (2.0, 0.0, Direction::Add, (0.5997506114267177, -4.973556046944865e-17)),
        (3.0, 2.5, Direction::Remove, (0.544793979608175, -2.490946376184519e-18)),
        (3.0, 2.5, Direction::Add, (0.4918061717779392, -1.085854957999731e-17)),
        (0.5, 1.0, Direction::Remove, (0.0006461283719840741, 4.267534685504963e-21)),
        (0.5, 1.0, Direction::Add, (0.0004790062422347781, 2.03743281675299e-20)),
        (0.0625, 0.015625, Direction::Remove, (0.011001542947681832, -8.456798053609004e-19)),
        (0.0625, 0.015625, Direction::Add, (0.011001374962679692, 5.983324433805308e-19)),
    ];

    /// How often δ would be said to be too small or too large if one of the terms were left out; with it, it never is.
    fn wrong_without(budget: &Budget, term: impl Fn(&Integral) -> f64) -> usize {
        let mut wrong = 0;
        for (s, epsilon, direction, truth) in TRUTHS {
            let found = integral(s, epsilon, direction, budget);
            // The scale, if there is one, is within 8 units.
            let off = Twofold::sum(truth.0, truth.1).minus(Twofold::product(found.value, found.scale)).float().abs();
            let last = if found.scale == 1.0 { 0.0 } else { 8.0 * UNIT * found.value * found.scale };

            assert!(off <= found.slack() * found.scale + last, "{s} {epsilon} {direction:?}: {off} {found:?}");
            wrong += usize::from(off > (found.slack() - term(&found)) * found.scale + last);
        }
        wrong
    }

    #[test]
    fn aliasing() {
        let budget = |digits| Budget { digits, ..Budget::PROVEN };
        let wrong: usize =
            [2.0, 5.0, 10.0, 20.0].map(|digits| wrong_without(&budget(digits), |i| i.aliasing)).iter().sum();
        assert!(wrong >= 8, "{wrong}");
    }

    #[test]
    fn truncation() {
        let budget = |reach| Budget { reach, ..Budget::PROVEN };
        let wrong: usize =
            [0.5, 1.0, 2.0, 4.0].map(|reach| wrong_without(&budget(reach), |i| i.truncation)).iter().sum();
        assert!(wrong >= 8, "{wrong}");
    }

    #[test]
    fn rounding() {
        assert!(wrong_without(&Budget::PROVEN, |i| i.rounding) >= 3);
    }
}
