//! Gaussian noise: P = N(1, z²), Q = N(0, z²).

use crate::functions::{ln, normal, sqrt, twofold::Twofold};
use crate::pld::pair::{LossPair, Mass};

/// One Gaussian release with noise multiplier z.
///
/// With μ = 1/z the loss is N(μ²/2, μ²) under P and N(−μ²/2, μ²) under Q (Balle, Wang, "Improving the Gaussian mechanism for
/// differential privacy", ICML 2018, Lemmas 3 and 4). It dominates a release of a vector of any dimension with that
/// noise, in either direction.
#[derive(Clone, Copy, Debug)]
pub struct Gaussian {
    noise_multiplier: f64,
    half_mu: Twofold,
}

impl Gaussian {
    /// Returns the pair for a noise multiplier, finite and > 0.
    #[must_use]
    pub fn new(noise_multiplier: f64) -> Self {
        Self { noise_multiplier, half_mu: Twofold::quotient(0.5, noise_multiplier) }
    }

    /// Returns the loss in standard deviations of the noise, from the midpoint of the two laws: `ℓ·z`.
    fn standardized(&self, loss: f64) -> Twofold {
        Twofold::product(loss, self.noise_multiplier)
    }
}

impl LossPair for Gaussian {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let (a, b) = (self.standardized(lower), self.standardized(upper));
        Mass {
            p: normal::between(a.minus(self.half_mu), b.minus(self.half_mu), exponents.0),
            q: normal::between(a.plus(self.half_mu), b.plus(self.half_mu), exponents.1),
        }
    }

    fn infinite(&self) -> f64 {
        0.0
    }

    fn relative_error(&self) -> f64 {
        normal::MASS_ERROR
    }

    fn range(&self, x: f64) -> (f64, f64) {
        let mu = 2.0 * self.half_mu.high;
        let (center, reach) = (0.5 * mu * mu, mu * reach(x));
        (center - reach, center + reach)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.range(x);
        (-high, -low)
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        None
    }
}

/// Returns a number `t` with `Φ̄(t) ≤ x`, from `Φ̄(t) ≤ ½e^{−t²/2}` for t ≥ 0; a little is added for the rounding.
pub(super) fn reach(x: f64) -> f64 {
    let exponent = -ln(2.0 * x.clamp(f64::from_bits(1), 0.5));
    sqrt(2.0 * exponent.max(0.0)) * (1.0 + 1e-12) + 1e-12
}
