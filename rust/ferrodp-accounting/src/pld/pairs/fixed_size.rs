//! Samples of fixed size under replacement: a pair with the profile that bounds them.

use super::poisson::PoissonSampled;
use crate::functions::{UNIT, exp};
use crate::pld::pair::{LossPair, Mass};

/// The symmetric pair with δ′(ε) = q·δ(ln(1 + (e^ε − 1)/q)) for ε ≥ 0, and δ′(−ε) = 1 − e^{−ε} + e^{−ε}δ′(ε).
///
/// δ′ bounds a release about q·n of n records, drawn without replacement, where one is replaced (Balle, Barthe, Gaboardi,
/// "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9), and as a profile it has a dominating pair (Zhu, Dong,
/// Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022, Proposition 30). That pair
/// has the losses > 0 of the Poisson sampled one, the mirror image of those, and what is left of either law at 0.
///
/// An upper bound only: no sampling of records need attain it. The pair within has to cover whatever takes the record's place in
/// a sample without it: where a record is zeroed, that is two contributions away.
pub struct FixedSize<T> {
    sampled: PoissonSampled<T>,
    /// Mass of the loss 0, the same under both.
    zero: f64,
    symmetric_infinite: f64,
}

impl<T: LossPair> FixedSize<T> {
    /// Returns the pair for 0 < q ≤ 1 and a pair that is symmetric: −L under Q has the law of L under P.
    #[must_use]
    pub fn new(probability: f64, pair: T) -> Self {
        let sampled = PoissonSampled::new(probability, pair);
        let positive = sampled.mass(0.0, f64::INFINITY);
        let symmetric_infinite = sampled.infinite();
        // rounded up: at loss 0 too much mass is no harm
        // mutant: mass-at-loss-zero
        let rest = 1.0 - positive.p - positive.q - symmetric_infinite;
        let zero = rest.max(0.0) + (2.0 * sampled.relative_error() + 8.0 * UNIT);
        Self { sampled, zero, symmetric_infinite }
    }
}

impl<T: LossPair> LossPair for FixedSize<T> {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, (c, d): (f64, f64)) -> Mass {
        let mut sum = Mass::default();
        if upper > 0.0 {
            sum = sum.and(self.sampled.scaled(lower.max(0.0), upper, (c, d)));
        }
        if lower < 0.0 && upper >= 0.0 {
            sum = sum.and(Mass { p: self.zero * exp(c), q: self.zero * exp(d) });
        }
        if lower < 0.0 {
            // losses in (lower, min(upper, 0)) are −L for L in [−upper, −lower), as floats (before −upper, before −lower]
            let from = if upper >= 0.0 { 0.0 } else { (-upper).next_down().max(0.0) };
            let to = if lower == f64::NEG_INFINITY { f64::INFINITY } else { (-lower).next_down() };
            let mirrored = self.sampled.scaled(from, to, (d, c));
            sum = sum.and(Mass { p: mirrored.q, q: mirrored.p });
        }
        sum
    }

    fn infinite(&self) -> f64 {
        self.symmetric_infinite
    }

    fn negative_infinite(&self) -> f64 {
        self.symmetric_infinite
    }

    /// That of the losses ≠ 0: the mass at 0 is what it was rounded up to.
    fn relative_error(&self) -> f64 {
        self.sampled.relative_error()
    }

    fn loss_error(&self) -> f64 {
        self.sampled.loss_error() + 4.0 * UNIT
    }

    fn range(&self, x: f64) -> (f64, f64) {
        let (_, high) = self.sampled.range(x);
        let (_, under_q) = self.sampled.range_under_q(x);
        (-under_q.max(0.0).next_up(), high.max(0.0))
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.range(x);
        (-high.next_up(), -low)
    }

    fn support(&self) -> (f64, f64) {
        let high = self.sampled.support().1;
        (-high, high)
    }

    fn effort(&self) -> f64 {
        self.sampled.effort()
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pairs::Gaussian;

    #[test]
    fn all_losses_together_have_a_mass_of_one() {
        for q in [0.01, 0.3, 1.0] {
            let all = FixedSize::new(q, Gaussian::new(1.5)).mass(f64::NEG_INFINITY, f64::INFINITY);
            assert!((all.p - 1.0).abs() < 1e-12 && (all.q - 1.0).abs() < 1e-12, "{q}: {all:?}");
        }
    }
}
