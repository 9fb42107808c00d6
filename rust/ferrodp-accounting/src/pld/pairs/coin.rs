//! A coin that everybody sees decides which of several pairs is released.

use crate::functions::UNIT;
use crate::pld::pair::{LossPair, Mass};

/// Pairs and the chances with which each is the one: masses are added, with these weights.
///
/// A release whose laws are mixtures over the same outcomes is dominated by it, hockey-stick divergences being jointly convex.
/// Weights that only bound chances from above make it a bound from above; each is within two units of its chance.
pub struct PublicCoin<T> {
    parts: Vec<(f64, T)>,
}

impl<T: LossPair> PublicCoin<T> {
    /// Returns the pair; there is at least one part, and weights are in [0, 1].
    #[must_use]
    pub fn new(parts: Vec<(f64, T)>) -> Self {
        Self { parts }
    }

    fn sum(&self, of: impl Fn(&T) -> f64) -> f64 {
        self.parts.iter().map(|(weight, pair)| weight * of(pair)).sum()
    }

    fn sum_of(&self, of: impl Fn(&T) -> f64) -> f64 {
        self.parts.iter().map(|(_, pair)| of(pair)).sum()
    }

    fn widest(&self, of: impl Fn(&T) -> (f64, f64)) -> (f64, f64) {
        let ends = self.parts.iter().map(|(_, pair)| of(pair));
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (l, h)| (low.min(l), high.max(h)))
    }

    fn largest(&self, of: impl Fn(&T) -> f64) -> f64 {
        self.parts.iter().map(|(_, pair)| of(pair)).fold(0.0, f64::max)
    }
}

impl<T: LossPair> LossPair for PublicCoin<T> {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let parts = self.parts.iter().map(|(weight, pair)| {
            let mass = pair.scaled(lower, upper, exponents);
            Mass { p: weight * mass.p, q: weight * mass.q }
        });
        parts.fold(Mass::default(), Mass::and)
    }

    fn infinite(&self) -> f64 {
        self.sum(LossPair::infinite)
    }

    fn negative_infinite(&self) -> f64 {
        self.sum(LossPair::negative_infinite)
    }

    /// Two units for the weights, one for products, one for every sum.
    fn relative_error(&self) -> f64 {
        self.largest(LossPair::relative_error) + (4.0 + self.parts.len() as f64) * UNIT
    }

    fn loss_error(&self) -> f64 {
        self.largest(LossPair::loss_error)
    }

    fn range(&self, x: f64) -> (f64, f64) {
        // Weights may add up to a few units more than 1.
        self.widest(|pair| pair.range(x * (1.0 - 1e-9)))
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        self.widest(|pair| pair.range_under_q(x * (1.0 - 1e-9)))
    }

    fn support(&self) -> (f64, f64) {
        self.widest(LossPair::support)
    }

    fn effort(&self) -> f64 {
        self.sum_of(LossPair::effort)
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        None
    }
}
