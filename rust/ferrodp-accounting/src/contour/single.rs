//! One Poisson-sampled Gaussian by itself, in closed form.
//!
//! The likelihood ratio is monotone in the outcome, so the best test is a threshold x. With `e^ε = 1 − q + q·e^v` (removal) or `e^{−ε} = 1 − q + q·e^v`
//! (addition) and `x = ½ + σ²v`, as `e^v·φ(x/σ) = φ((x − 1)/σ)` (the form of Balle and Wang, ICML 2018, Theorem 8, for a mixture):
//!
//! ```text
//! δ_REMOVE = q·(Φ̄((x − 1)/σ) − e^v·Φ̄(x/σ))       = q·φ(a)·(m(a) − m(a + 1/σ)),        a = (x − 1)/σ
//! δ_ADD    = q·e^ε·(e^v·Φ(x/σ) − Φ((x − 1)/σ))   = q·e^ε·φ(b)·(m(a) − m(b)),          a = −x/σ, b = (1 − x)/σ
//! ```
//!
//! m is Mills' ratio `Φ̄/φ`. Where the difference cancels, by a factor of about σ, so many units are lost, and counted.

use super::composition::Composition;
use super::line::LogDelta;
use super::moments::ratio::Sampled;
use crate::functions::{RELATIVE_ERROR, UNIT, erfc, exp, expm1, ln, ln_1p};
use crate::types::Direction;
use core::f64::consts::{FRAC_PI_2, PI, SQRT_2};

/// Returns the one step of a composition that has only that.
pub(super) fn only_step(composition: &Composition) -> Option<&Sampled> {
    match composition.sampled.as_slice() {
        [(event, 1.0)] if composition.gaussian == 0.0 => Some(event),
        _ => None,
    }
}

impl Sampled {
    /// Returns bounds on ln δ(ε) of one step, `ε ≥ 0`; the widest ones where floats cannot tell.
    ///
    /// # Numerics
    /// `v` comes out within some `Δ` of the exact one, so that what follows is δ at an ε that is off by `q·e^v·Δ/r`. As `|dδ/dε| = e^ε·Q[test]`, δ is off by
    /// `q·φ(a)·m(b)·Δ` for removals, and for additions, where `e^ε·Q[test] ≤ P[test]`, by `q·e^ε·φ(b)·m(a)·Δ`: by less than `m(a)·Δ` of the common factor.
    /// Mills' ratio is `erfc·exp`, each of condition number `z²`.
    pub(super) fn log_delta_of_one(&self, direction: Direction, epsilon: f64) -> LogDelta {
        let unknown =
            LogDelta { lower: f64::NEG_INFINITY, upper: 0.0, middle: 0.0, slope: -1.0, slack: [f64::INFINITY; 3] };
        let relative = expm1(if direction == Direction::Add { -epsilon } else { epsilon }) / self.q;
        if relative <= -1.0 + 1e-9 {
            return unknown;
        }
        let v = ln_1p(relative);
        let v_error = (RELATIVE_ERROR + 4.0 * UNIT) * (relative.abs() / (1.0 + relative) + v.abs());
        // x/σ, and the two arguments, lower first.
        let z = self.sigma * v + 0.5 / self.sigma;
        let (a, b) = match direction {
            Direction::Remove => (z - 1.0 / self.sigma, z),
            Direction::Add => (-z, 1.0 / self.sigma - z),
        };
        if a.abs().max(b.abs()) > 36.0 {
            return unknown;
        }
        // (x − 1)/σ has the density φ((x − 1)/σ) in both: a for removals, −b for additions.
        let outcome = if direction == Direction::Remove { a } else { b };
        let (first, second) = (mills(a), mills(b));
        let difference = first.0 - second.0;
        let placement = UNIT * 8.0 * (z.abs() + 1.0 / self.sigma);
        // m' = z·m − 1 lies between −(1 + |z|·m) and 0.
        let error = first.1
            + second.1
            + placement * ((1.0 + a.abs() * first.0) + (1.0 + b.abs() * second.0))
            + 2.0 * UNIT * first.0;
        let spread = v_error * first.0;
        let total = 1.01 * (error + spread);
        let common = ln(self.q) - 0.5 * outcome * outcome - 0.5 * ln(2.0 * PI)
            + if direction == Direction::Add { epsilon } else { 0.0 };
        let rounding = (40.0 + 12.0 * outcome * outcome + 8.0 * ln(self.q).abs() + 8.0 * epsilon) * UNIT;
        if difference.is_nan() || difference <= 2.0 * total {
            let upper = difference.max(0.0) + total;
            return LogDelta { upper: (common + ln(upper) + rounding).min(0.0), ..unknown };
        }
        LogDelta {
            lower: common + ln(difference - total) - rounding,
            upper: (common + ln(difference + total) + rounding).min(0.0),
            middle: common + ln(difference),
            slope: -(second.0 / difference).max(1e-300) / self.level(relative),
            slack: [ln(total / difference + rounding), f64::NEG_INFINITY, f64::NEG_INFINITY],
        }
    }

    /// `q·e^v/r`, by which a displacement of v displaces ε.
    fn level(&self, relative: f64) -> f64 {
        let power = self.q * (1.0 + relative);
        power / (self.rest + power)
    }
}

/// Returns Mills' ratio and a bound on its error, for `|z| ≤ 36`.
fn mills(z: f64) -> (f64, f64) {
    let value = crate::functions::sqrt(FRAC_PI_2) * erfc(z / SQRT_2) * exp(0.5 * z * z);
    (value, value * (2.0 * RELATIVE_ERROR + (6.0 + 6.0 * z * z) * UNIT))
}
