//! What is composed: plain Gaussians, which add up to one, and Poisson-sampled ones.

use super::moments::ratio::Sampled;
use crate::functions::{UNIT, ln, ln_1p};
use crate::memory::{copied, room};
use crate::types::Direction;
use ferrodp_core::Error;
use ferrodp_core::machine::memory;

/// The least sampling probability that is used as given. A smaller one is replaced by it: the pair of the larger probability
/// dominates, and the lower bound is then 0.
pub const LEAST_SAMPLING_PROBABILITY: f64 = 1e-60;

/// Beyond these, sampled Gaussians get no bounds but the trivial ones: features of the loss are σ² wide, so that the number of nodes
/// grows like 1/σ.
pub const NOISE_MULTIPLIERS: core::ops::RangeInclusive<f64> = 1e-2..=1e30;

/// One kind of release and how often it happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Release {
    /// Noise standard deviation over sensitivity, finite and positive.
    pub noise_multiplier: f64,
    /// Chance that a record takes part, in [0, 1]; 1 for a plain Gaussian.
    pub sampling_probability: f64,
    /// How often.
    pub count: u64,
}

/// A list of releases, merged.
#[derive(Clone, Debug)]
pub struct Composition {
    /// `Σ count/σ²` over plain Gaussians.
    pub(super) gaussian: f64,
    /// Bound on its relative error.
    pub(super) gaussian_error: f64,
    pub(super) sampled: Vec<(Sampled, f64)>,
    /// Whether some sampling probability was raised.
    pub(super) raised: bool,
    /// Whether some noise multiplier is beyond [`NOISE_MULTIPLIERS`].
    pub(super) unanswered: bool,
}

impl Composition {
    /// Checks and merges `releases`.
    ///
    /// # Errors
    /// If a noise multiplier is not finite and positive, or a sampling probability not in [0, 1].
    pub fn new(releases: &[Release]) -> Result<Self, Error> {
        let mut composition = Self {
            gaussian: 0.0,
            gaussian_error: 0.0,
            sampled: room(releases.len()),
            raised: false,
            unanswered: false,
        };
        let mut plain = 0;
        for release in releases {
            let Release { noise_multiplier: sigma, sampling_probability: q, count } = *release;
            if !(sigma > 0.0 && sigma < f64::INFINITY) {
                return Err(Error::parameter("noise_multiplier", sigma, "finite and positive"));
            }
            if !(0.0..=1.0).contains(&q) {
                return Err(Error::parameter("sampling_probability", q, "in [0, 1]"));
            }
            if count == 0 || q == 0.0 {
                continue;
            }
            if q == 1.0 {
                composition.gaussian += count as f64 / (sigma * sigma);
                plain += 1;
                continue;
            }
            composition.unanswered |= !NOISE_MULTIPLIERS.contains(&sigma);
            composition.raised |= q < LEAST_SAMPLING_PROBABILITY;
            let event = Sampled::new(sigma, q.max(LEAST_SAMPLING_PROBABILITY));
            match composition.sampled.iter_mut().rev().take(8).find(|(other, _)| *other == event) {
                Some((_, total)) => *total += count as f64,
                None => memory::push(&mut composition.sampled, (event, count as f64))?,
            }
        }
        composition.gaussian_error = (f64::from(plain) + 5.0) * UNIT;
        Ok(composition)
    }

    /// Returns the same once more.
    pub(super) fn copy(&self) -> Self {
        Self { sampled: copied(&self.sampled), ..*self }
    }

    /// Whether nothing was released.
    pub(super) fn is_empty(&self) -> bool {
        self.gaussian == 0.0 && self.sampled.is_empty()
    }

    /// Number of sampled steps.
    pub(super) fn num_steps(&self) -> f64 {
        self.sampled.iter().map(|(_, count)| count).sum()
    }

    /// `−Σ count·ln(1 − q)`: by so much the loss of removal can fall below 0, and that of addition rise above it, if no plain
    /// Gaussian is among the releases. Rounded up.
    pub(super) fn extreme_loss(&self) -> f64 {
        let sum: f64 = self.sampled.iter().map(|(event, count)| -count * ln_1p(-event.q)).sum();
        sum * (1.0 + (self.sampled.len() as f64 + 12.0) * UNIT)
    }
}

/// Returns how small quadrature errors are made, as `−ln`: `count` of them add up. Those of rounding add up over events.
pub(super) fn digits(composition: &Composition) -> f64 {
    (ln(composition.num_steps().max(1.0)) + 38.0 - ln(composition.sampled.len().max(1) as f64)).min(80.0)
}

/// Returns how small quadrature errors are made where only a bound is wanted that is good to 10⁻⁴.
pub(super) fn rough_digits(composition: &Composition) -> f64 {
    (ln(composition.num_steps().max(1.0)) + 12.0).min(80.0)
}

impl Direction {
    /// The exponent `p` of `E r^p` that belongs to the real part `c` of the contour.
    pub(super) fn power(self, c: f64) -> f64 {
        match self {
            Self::Remove => 1.0 + c,
            Self::Add => -c,
        }
    }
}
