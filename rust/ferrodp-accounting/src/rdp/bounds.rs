//! Bounds on divergences: around a value, under a limit, and the rate of a logarithm.

use crate::functions::UNIT;
use crate::types::Bounds;

impl Bounds {
    /// Returns a number ≥ 0 of which `value` is within so many units of 2⁻⁵³, relatively.
    pub(super) fn within(value: f64, units: f64) -> Self {
        // One float more on either side is for results below the normal ones.
        // mutant: bounds-around-a-value
        let (lower, upper) = (value * (1.0 - units * UNIT), value * (1.0 + units * UNIT));
        Self { lower: lower.next_down().max(0.0), upper: upper.next_up() }
    }

    /// Returns `min(self, limit)`, where the limit is known to hold.
    pub(super) fn capped(self, limit: f64) -> Self {
        Self { lower: self.lower.min(limit), upper: self.upper.min(limit) }
    }

    /// Returns `ρ = ln A/(α − 1)`: quotient and order within 3 units.
    pub(super) fn rate(self, order: f64) -> Self {
        // mutant: rate-of-a-logarithm
        let beta = order - 1.0;
        Self { lower: (self.lower / beta * (1.0 - 8.0 * UNIT)).max(0.0), upper: self.upper / beta * (1.0 + 8.0 * UNIT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_its_rate_lie_between_their_bounds() {
        for value in [0.0, 5e-324, 1e-300, 0.1, 3.0, 1e300] {
            let around = Bounds::within(value, 4.0);
            assert!(
                around.lower <= value * (1.0 - 4.0 * UNIT) && value * (1.0 + 4.0 * UNIT) <= around.upper,
                "{value:e}"
            );
            assert!(around.lower >= 0.0 && around.upper > value, "{value:e}");
            let rate = around.rate(3.0);
            assert!(rate.lower <= value / 2.0 && value / 2.0 <= rate.upper, "{value:e}");
        }
    }
}
