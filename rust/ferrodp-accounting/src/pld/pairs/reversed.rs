//! The other direction: P and Q change places.

use crate::functions::UNIT;
use crate::pld::pair::{LossPair, Mass};

/// The pair (Q, P) of a pair (P, Q); its loss is −L.
pub struct Reversed<T>(pub T);

/// The losses −L ∈ (lower, upper] are those with L ∈ [−upper, −lower), and for floats those in (before −upper, before −lower].
fn before(loss: f64) -> f64 {
    (-loss).next_down()
}

impl<T: LossPair> LossPair for Reversed<T> {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, (p_exponent, q_exponent): (f64, f64)) -> Mass {
        let end = if lower == f64::NEG_INFINITY { f64::INFINITY } else { before(lower) };
        let Mass { p, q } = self.0.scaled(before(upper), end, (q_exponent, p_exponent));
        Mass { p: q, q: p }
    }

    fn infinite(&self) -> f64 {
        // mutant: infinite-mass-reversed
        self.0.negative_infinite()
    }

    fn negative_infinite(&self) -> f64 {
        self.0.infinite()
    }

    fn relative_error(&self) -> f64 {
        self.0.relative_error()
    }

    /// The boundary next to the one requested is at most `2u` away, relatively.
    fn loss_error(&self) -> f64 {
        self.0.loss_error() + 4.0 * UNIT
    }

    fn range(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.0.range_under_q(x);
        (-high.next_up(), -low)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.0.range(x);
        (-high.next_up(), -low)
    }

    fn support(&self) -> (f64, f64) {
        let (low, high) = self.0.support();
        (-high, -low)
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        self.0.lattice().map(|(offset, spacing)| (-offset, spacing))
    }

    fn effort(&self) -> f64 {
        self.0.effort()
    }
}

impl<T: LossPair + ?Sized> LossPair for Box<T> {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        (**self).mass(lower, upper)
    }

    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        (**self).scaled(lower, upper, exponents)
    }

    fn infinite(&self) -> f64 {
        (**self).infinite()
    }

    fn negative_infinite(&self) -> f64 {
        (**self).negative_infinite()
    }

    fn relative_error(&self) -> f64 {
        (**self).relative_error()
    }

    fn loss_error(&self) -> f64 {
        (**self).loss_error()
    }

    fn range(&self, x: f64) -> (f64, f64) {
        (**self).range(x)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        (**self).range_under_q(x)
    }

    fn support(&self) -> (f64, f64) {
        (**self).support()
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        (**self).lattice()
    }

    fn effort(&self) -> f64 {
        (**self).effort()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pairs::FiniteLosses;

    #[test]
    fn what_tells_all_of_one_law_tells_all_of_the_other_when_they_are_exchanged() {
        let pair = FiniteLosses::masses(&[0.5, 0.25, 0.25], &[0.5, 0.5, 0.0], 0.0);
        assert_eq!((0.25, 0.0), (pair.infinite(), pair.negative_infinite()));
        let reversed = Reversed(pair);
        assert_eq!((0.0, 0.25), (reversed.infinite(), reversed.negative_infinite()));
    }
}
