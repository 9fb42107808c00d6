//! Discrete Laplace noise: P[x] = tanh(1/2b)·e^{−|x|/b} on the integers.

use crate::functions::{UNIT, exp, expm1, twofold::Twofold};
use crate::pld::pair::{LossPair, Mass};

/// One discrete Laplace release of scale b whose integer moves by Δ.
///
/// With r = e^{−1/b}: the loss at x is (|x − Δ| − |x|)/b, that is (Δ − 2j)/b for j = min(max(x, 0), Δ). Under P the masses of
/// j are 1/(1+r), then r^j(1−r)/(1+r), and r^Δ/(1+r) for j = Δ; under Q those of Δ − j.
#[derive(Clone, Copy, Debug)]
pub struct DiscreteLaplace {
    scale: f64,
    shift: f64,
}

impl DiscreteLaplace {
    /// Returns the pair for a scale, finite and > 0, and a shift, a whole number from 1 to 2⁵³.
    #[must_use]
    pub fn new(scale: f64, shift: f64) -> Self {
        Self { scale, shift }
    }

    /// Returns the least j whose loss is at most `loss`; Δ + 1 if none is.
    fn first(&self, loss: f64) -> f64 {
        (0.5 * (self.shift - loss * self.scale)).ceil().clamp(0.0, self.shift + 1.0)
    }

    /// Returns Σ e^c·P[j] over `from ≤ j ≤ to`.
    fn sum(&self, from: f64, to: f64, c: f64) -> f64 {
        let power = |j: f64| {
            let exponent = Twofold::from(c).minus(Twofold::quotient(j, self.scale));
            exp(exponent.high) * (1.0 + exponent.low)
        };
        let mut sum = 0.0;
        if from == 0.0 {
            sum += power(0.0);
        }
        let (start, end) = (from.max(1.0), to.min(self.shift - 1.0));
        if start <= end {
            sum += power(start) * -expm1(-(end - start + 1.0) / self.scale);
        }
        if to == self.shift {
            sum += power(self.shift);
        }
        sum / (1.0 + exp(-1.0 / self.scale))
    }

    /// Rounded, 3 units of the largest loss.
    fn end(&self) -> f64 {
        self.shift / self.scale
    }
}

impl LossPair for DiscreteLaplace {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let (from, to) = (self.first(upper), self.first(lower) - 1.0);
        if from > to {
            return Mass::default();
        }
        Mass { p: self.sum(from, to, exponents.0), q: self.sum(self.shift - to, self.shift - from, exponents.1) }
    }

    fn infinite(&self) -> f64 {
        0.0
    }

    /// `exp` and its correction 9, `expm1` and its argument 10, the divisor 12, products and sums 5.
    fn relative_error(&self) -> f64 {
        40.0 * UNIT
    }

    /// j is found from Δ − ℓb, which is off by two roundings of its larger part.
    fn loss_error(&self) -> f64 {
        4.0 * UNIT * (1.0 + self.end())
    }

    fn range(&self, _x: f64) -> (f64, f64) {
        let end = self.end() + 2.0 * self.loss_error() * self.end().max(1.0);
        (-end, end)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        self.range(x)
    }

    fn support(&self) -> (f64, f64) {
        self.range(0.0)
    }

    fn effort(&self) -> f64 {
        0.2
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        Some((-self.end(), 2.0 / self.scale))
    }
}
