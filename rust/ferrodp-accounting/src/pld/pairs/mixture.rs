//! A Gaussian release whose sensitivity is random: P = Σᵢ wᵢ·N(sᵢ, z²), Q = N(0, z²).

use super::gaussian::reach;
use crate::functions::{UNIT, exp, ln, normal, twofold::Twofold};
use crate::memory::gathered;
use crate::pld::pair::{LossPair, Mass};
use crate::types::sort_by_first;

/// One release with Gaussian noise and shifts sᵢ ≥ 0 of probabilities wᵢ: Poisson sampled groups.
///
/// In units of z the loss L(x) = ln Σ wᵢ·e^{sᵢx − sᵢ²/2} rises with x and is convex, so that Newton's method from above finds
/// where it takes a value. Source: Choquette-Choo, Ganesh, Steinke, Thakurta, "Privacy amplification for matrix
/// mechanisms", ICLR 2024, Theorem 3.1 and Lemma 3.2.
pub struct MixtureOfGaussians {
    /// ln wᵢ, wᵢ and sᵢ/z for each shift with wᵢ > 0, shifts rising and different.
    parts: Vec<Part>,
    loss_error: f64,
}

#[derive(Clone, Copy)]
struct Part {
    log_weight: f64,
    weight: f64,
    shift: Twofold,
}

impl MixtureOfGaussians {
    /// Returns the pair for a noise multiplier > 0, shifts ≥ 0 and as many weights ≥ 0, not all 0; they are divided by
    /// their sum.
    #[must_use]
    pub fn new(noise_multiplier: f64, shifts: &[f64], weights: &[f64]) -> Self {
        let mut pairs: Vec<(f64, f64)> = gathered(shifts.iter().copied().zip(weights.iter().copied()));
        pairs.retain(|pair| pair.1 > 0.0);
        sort_by_first(&mut pairs);
        pairs.dedup_by(|later, first| {
            let equal = later.0 == first.0;
            if equal {
                first.1 += later.1;
            }
            equal
        });
        let total = pairs.iter().fold(Twofold::from(0.0), |sum, pair| sum.plus(Twofold::from(pair.1))).float();
        let part = |&(shift, weight): &(f64, f64)| Part {
            log_weight: ln(weight / total),
            weight: weight / total,
            shift: Twofold::quotient(shift, noise_multiplier),
        };
        let parts: Vec<Part> = gathered(pairs.iter().map(part));
        let farthest = parts.last().map_or(0.0, |part| part.shift.high);
        // an exponent sᵢx − sᵢ²/2 of a term that counts is at most ℓ + ln(1/wᵢ), and both its parts are known to 4u
        let rarest = parts.iter().fold(0.0_f64, |worst, part| worst.max(-part.log_weight));
        Self { parts, loss_error: (64.0 + 16.0 * (farthest * farthest + rarest)) * UNIT }
    }

    /// Returns L(x) and its derivative.
    fn loss(&self, x: f64) -> (f64, f64) {
        let exponent = |part: &Part| part.log_weight + part.shift.high * (x - 0.5 * part.shift.high);
        let largest = self.parts.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let (sum, slope) = self.parts.iter().fold((0.0, 0.0), |(sum, slope), part| {
            let term = exp(exponent(part) - largest);
            (sum + term, slope + term * part.shift.high)
        });
        (largest + ln(sum), slope / sum)
    }

    /// Returns the x, in units of z, where the loss is `loss`.
    fn place(&self, loss: f64) -> f64 {
        if loss.is_infinite() {
            return loss;
        }
        let first = self.parts[0];
        if first.shift.high == 0.0 && loss <= first.log_weight {
            return f64::NEG_INFINITY;
        }
        // the least x where one term alone reaches the loss: L(x) ≥ loss there
        let alone = |part: &Part| (loss - part.log_weight) / part.shift.high + 0.5 * part.shift.high;
        let moving = self.parts.iter().filter(|part| part.shift.high > 0.0);
        let mut x = moving.map(alone).fold(f64::INFINITY, f64::min);
        for _ in 0..400 {
            let (value, slope) = self.loss(x);
            let next = x - (value - loss) / slope;
            let settled = value <= loss || next >= x || slope <= 0.0;
            if settled || x - next <= 1e-16 * x.abs() {
                break;
            }
            x = next;
        }
        x
    }

    /// Returns a t with Σ wᵢ·Φ̄(t − sᵢ) ≤ x.
    fn upper_reach(&self, x: f64) -> f64 {
        let above = |t: f64| -> f64 {
            let tail = |part: &Part| part.weight * normal::tail(Twofold::from(t).minus(part.shift), 0.0);
            self.parts.iter().map(tail).sum()
        };
        let farthest = self.parts.last().map_or(0.0, |part| part.shift.high);
        let (mut low, mut high) = (0.0, farthest + reach(x));
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if above(middle) <= 0.999 * x {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    fn widened(&self, low: f64, high: f64) -> (f64, f64) {
        let slack = |loss: f64| 2.0 * self.loss_error * loss.abs().max(1.0);
        (low - slack(low), high + slack(high))
    }
}

impl LossPair for MixtureOfGaussians {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let (a, b) = (self.place(lower), self.place(upper));
        if a >= b {
            return Mass::default();
        }
        let (a, b) = (Twofold::from(a), Twofold::from(b));
        let of = |part: &Part| part.weight * normal::between(a.minus(part.shift), b.minus(part.shift), exponents.0);
        Mass { p: self.parts.iter().map(of).sum(), q: normal::between(a, b, exponents.1) }
    }

    fn infinite(&self) -> f64 {
        0.0
    }

    fn relative_error(&self) -> f64 {
        normal::MASS_ERROR + (8.0 + self.parts.len() as f64) * UNIT
    }

    fn loss_error(&self) -> f64 {
        self.loss_error
    }

    fn range(&self, x: f64) -> (f64, f64) {
        self.widened(self.loss(-reach(x)).0, self.loss(self.upper_reach(x)).0)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        self.widened(self.loss(-reach(x)).0, self.loss(reach(x)).0)
    }

    /// Newton's method, each of its steps over all parts.
    fn effort(&self) -> f64 {
        1.0 + 2.5 * self.parts.len() as f64
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        None
    }
}
