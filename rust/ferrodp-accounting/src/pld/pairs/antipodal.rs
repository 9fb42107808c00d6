//! Poisson sampling under replacement: P = (1 − q)N(0, z²) + q·N(½, z²), Q = (1 − q)N(0, z²) + q·N(−½, z²).

use super::gaussian::reach;
use crate::functions::{UNIT, exp, expm1, ln, ln_1p, normal, sqrt, twofold::Twofold};
use crate::pld::pair::{LossPair, Mass};

/// One Gaussian release about a Poisson sample in which a record is replaced by its opposite.
///
/// The noise multiplier is relative to the distance of the two records' contributions, 2C for a norm bound C: with
/// s = 1/2z and in units of z, the loss at x is ln((1−q) + q·e^{sx−s²/2}) − ln((1−q) + q·e^{−sx−s²/2}), odd and rising, and
///
/// sx = ℓ/2 + asinh(A·sinh(ℓ/2)), A = (1 − q)/q·e^{s²/2}.
///
/// It is the worst pair only where a contribution is at most half a sensitivity away from none, as in sums of clipped ones: the
/// proof is beside the Python function that chooses it. A count, say, is a whole sensitivity away.
///
/// Balle, Barthe, Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 2.
pub struct AntipodalGaussian {
    shift: Twofold,
    probability: f64,
    complement: f64,
    log_factor: f64,
    loss_error: f64,
}

impl AntipodalGaussian {
    /// Returns the pair for 0 < q ≤ 1 and a noise multiplier, finite and > 0.
    #[must_use]
    pub fn new(probability: f64, noise_multiplier: f64) -> Self {
        let shift = Twofold::quotient(0.5, noise_multiplier);
        let square = shift.high * shift.high;
        let complement = 1.0 - probability;
        Self {
            shift,
            probability,
            complement,
            log_factor: ln(complement / probability) + 0.5 * square,
            // ln A is known to 4u(s² + ln(1/q) + 1), asinh and sinh are sums of positive terms of three functions; a unit of
            // sx is at most two of the loss
            loss_error: (96.0 + 16.0 * (square - ln(probability))) * UNIT,
        }
    }

    /// Returns the x, in units of z, where the loss is `loss`.
    fn place(&self, loss: f64) -> f64 {
        if loss.is_infinite() {
            return loss;
        }
        let v = 0.5 * loss.abs();
        if v == 0.0 {
            return 0.0;
        }
        // ln(2·A·sinh v) = ln A + v + ln(1 − e^{−2v})
        let log_twice = self.log_factor + v + ln(-expm1(-2.0 * v));
        let inverse = if log_twice > 40.0 {
            log_twice // asinh(y) = ln 2y + O(1/4y²)
        } else {
            let y = 0.5 * exp(log_twice);
            ln_1p(y + y * y / (1.0 + sqrt(1.0 + y * y)))
        };
        ((v + inverse) / self.shift.high).copysign(loss)
    }

    /// Returns the loss at x.
    fn loss(&self, x: f64) -> f64 {
        let s = self.shift.high;
        let part = |exponent: f64| {
            if exponent > 30.0 {
                exponent + ln(self.probability) + ln_1p(self.complement / self.probability * exp(-exponent))
            } else {
                ln_1p(self.probability * expm1(exponent))
            }
        };
        part(s * (x - 0.5 * s)) - part(-s * (x + 0.5 * s))
    }

    /// Returns the loss where x = t, for a t with (1−q)Φ̄(t) + q·Φ̄(t−s) ≤ x.
    fn highest(&self, x: f64) -> f64 {
        let above = |t: f64| {
            let t = Twofold::from(t);
            self.complement * normal::tail(t, 0.0) + self.probability * normal::tail(t.minus(self.shift), 0.0)
        };
        let (mut low, mut high) = (0.0, self.shift.high + reach(x));
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if above(middle) <= 0.999 * x {
                high = middle;
            } else {
                low = middle;
            }
        }
        self.loss(high)
    }

    fn mixed(&self, a: Twofold, b: Twofold, shift: Twofold, c: f64) -> f64 {
        self.complement * normal::between(a, b, c)
            + self.probability * normal::between(a.minus(shift), b.minus(shift), c)
    }
}

impl LossPair for AntipodalGaussian {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let (a, b) = (self.place(lower), self.place(upper));
        if a >= b {
            return Mass::default();
        }
        let (a, b) = (Twofold::from(a), Twofold::from(b));
        Mass { p: self.mixed(a, b, self.shift, exponents.0), q: self.mixed(a, b, self.shift.negated(), exponents.1) }
    }

    fn infinite(&self) -> f64 {
        0.0
    }

    fn relative_error(&self) -> f64 {
        normal::MASS_ERROR + 8.0 * UNIT
    }

    fn loss_error(&self) -> f64 {
        self.loss_error
    }

    fn range(&self, x: f64) -> (f64, f64) {
        let (low, high) = (self.loss(-reach(x)), self.highest(x));
        let slack = |loss: f64| 4.0 * self.loss_error * loss.abs().max(1.0);
        (low - slack(low), high + slack(high))
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.range(x);
        (-high, -low)
    }

    fn effort(&self) -> f64 {
        2.5
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        None
    }
}
