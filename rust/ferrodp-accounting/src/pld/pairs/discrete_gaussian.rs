//! Discrete Gaussian noise: P[x] ∝ e^{−x²/2σ²} on the integers, or on those from −t to t.

use super::lattice_gaussian::LatticeGaussian;
use crate::functions::{UNIT, ln, sqrt};
use crate::pld::pair::{LossPair, Mass};

/// One discrete Gaussian release of scale σ whose integer moves by Δ: P around Δ, Q around 0.
///
/// The loss at x is Δ(2x − Δ)/2σ² (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
/// Theorem 7). Where the noise is cut at ±t, losses are infinite beyond x = t, and minus infinity below Δ − t.
#[derive(Clone, Copy, Debug)]
pub struct DiscreteGaussian {
    law: LatticeGaussian,
    scale: f64,
    shift: f64,
    cut: f64,
}

impl DiscreteGaussian {
    /// Returns the pair for a scale, finite and > 0, a shift, a whole number from 1 to 2⁵³, and the largest noise, a whole
    /// number ≥ 0 or infinite.
    #[must_use]
    pub fn new(scale: f64, shift: f64, cut: f64) -> Self {
        Self { law: LatticeGaussian::new(scale, cut), scale, shift, cut }
    }

    /// Returns the largest x whose loss is at most `loss`.
    fn last(&self, loss: f64) -> f64 {
        (loss / self.shift * self.scale * self.scale + 0.5 * self.shift).floor()
    }

    /// Losses where Q = 0 or P = 0 are infinite.
    fn finite_part(&self) -> (f64, f64) {
        (self.shift - self.cut, self.cut)
    }

    fn center(&self) -> f64 {
        let mu = self.shift / self.scale;
        0.5 * mu * mu
    }
}

impl LossPair for DiscreteGaussian {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let (bottom, top) = self.finite_part();
        let from = (self.last(lower) + 1.0).max(bottom);
        let to = self.last(upper).min(top);
        if from > to {
            return Mass::default();
        }
        Mass {
            p: self.law.sum(from - self.shift, to - self.shift, exponents.0),
            q: self.law.sum(from, to, exponents.1),
        }
    }

    fn infinite(&self) -> f64 {
        if self.cut == f64::INFINITY { 0.0 } else { self.law.sum(self.cut + 1.0 - self.shift, self.cut, 0.0) }
    }

    fn negative_infinite(&self) -> f64 {
        self.infinite()
    }

    fn relative_error(&self) -> f64 {
        LatticeGaussian::RELATIVE_ERROR
    }

    /// x is found from ℓσ²/Δ + Δ/2: three roundings of the one, one of the sum.
    fn loss_error(&self) -> f64 {
        8.0 * UNIT * (1.0 + self.center())
    }

    fn range(&self, x: f64) -> (f64, f64) {
        // E e^{tX} = e^{t²σ²/2}·Σe^{−(x−tσ²)²/2σ²}/Σe^{−x²/2σ²}, and by Poisson summation the ratio is at most 1: X is
        // sub-Gaussian, P[X ≥ t] ≤ e^{−t²/2σ²}; where it is cut, that law given |X| ≤ t, so that its share is taken off x
        let kept = self.law.kept().min(1.0);
        let reach = sqrt(2.0 * -ln((x * kept).clamp(f64::from_bits(1), 1.0)));
        let reach = self.shift / self.scale * reach * (1.0 + 1e-12) + 4.0 * self.loss_error() * (1.0 + reach);
        (self.center() - reach, self.center() + reach)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.range(x);
        (-high, -low)
    }

    fn effort(&self) -> f64 {
        0.3
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        Some((-self.center(), self.shift / self.scale / self.scale))
    }
}
