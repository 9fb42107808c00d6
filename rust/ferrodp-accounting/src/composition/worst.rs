//! The privacy curve δ₀ of the worst mechanisms with given ε, and its inverse.

use std::cell::OnceCell;

use super::I;
use super::equal::{self, log_of};
use super::grid::{self, Grid, Group};
use crate::certified::{Interval, Real};
use crate::types::Bounds;
use crate::types::Rounding::{Down, Up};
use crate::zcdp;

/// The probability that a grid of different ε leaves out; for a smaller δ the bounds are those without a grid.
const CUT_TAIL_MASS: f64 = 1e-80;
/// Σε·max ε between which grids are tried.
const GRID_SIZES: core::ops::Range<f64> = 1e-100..1e8;
/// Relative width to which ε is found.
const ROOT_TOLERANCE: f64 = 1e-13;

/// Randomized responses on ±ε, in groups of equal ε.
pub struct Worst {
    groups: Vec<Group>,
    /// Σε; a point unless its parts are 600 bits apart.
    sum: Interval<12>,
    /// Σε²/2, the ρ of zCDP: Bun, Steinke, "Concentrated differential privacy", TCC 2016, Proposition 1.4 and Lemma 1.7.
    rho: I,
    grids: OnceCell<Option<(Option<Grid>, Grid)>>,
}

impl Worst {
    /// Returns the responses with these ε > 0, in order, each so many times.
    #[must_use]
    pub fn new(groups: Vec<Group>) -> Self {
        let zero = (Interval::integer(0), I::integer(0));
        let (sum, square) = groups.iter().fold(zero, |(sum, square), &(epsilon, count)| {
            let squared = I::from(epsilon).square().mul_integer(count);
            (sum + Interval::from(epsilon).mul_integer(count), square + squared)
        });
        Self { groups, sum, rho: square.scaled(-1), grids: OnceCell::new() }
    }

    /// Returns bounds on δ₀(total), for total ≥ 0.
    fn pure_delta(&self, total: f64) -> I {
        if self.sum.upper <= Real::new(total) {
            return I::integer(0);
        }
        if let &[(epsilon, count)] = self.groups.as_slice()
            && count <= equal::MAX_COUNT
        {
            return equal::delta(count, epsilon, total);
        }
        let (lower, upper) = match self.grids() {
            Some((above, below)) => {
                let upper = above.as_ref().map_or_else(|| self.simple_delta(total), |grid| grid.delta(total, true));
                (below.delta(total, false), upper.min(Real::integer(1)))
            }
            None => (self.part_of_it(total), self.simple_delta(total)),
        };
        I::new(lower.min(upper), upper)
    }

    fn grids(&self) -> Option<&(Option<Grid>, Grid)> {
        let made = self.grids.get_or_init(|| {
            let largest = self.groups.last().map_or(0.0, |group| group.0);
            let fits = GRID_SIZES.contains(&(self.sum.floats().upper * largest));
            let counted = self.groups.iter().all(|group| group.1 <= equal::MAX_COUNT);
            (fits && counted).then(|| grid::enclosing(&self.groups, CUT_TAIL_MASS))
        });
        made.as_ref()
    }

    /// Returns the least of two bounds on δ₀(total): by zCDP, and by Hoeffding's inequality for the sum of losses.
    fn simple_delta(&self, total: f64) -> Real<4> {
        let mean = self.groups.iter().fold(I::integer(0), |mean, &(epsilon, count)| {
            let (e, decay) = (I::from(epsilon), (-I::from(epsilon)).exp());
            // tanh(ε/2) = (1 − e^{−ε})/(1 + e^{−ε})
            mean + (e * (-e).one_minus_exp() / (I::integer(1) + decay)).mul_integer(count)
        });
        let bound = zcdp::delta(self.rho, total);
        let excess = I::from(total) - mean;
        if !excess.is_positive() {
            return bound;
        }
        bound.min((-(excess.square() / self.rho.scaled(2))).exp().upper)
    }

    /// Returns the δ₀ of only some of the mechanisms of one group: less than that of all.
    fn part_of_it(&self, total: f64) -> Real<4> {
        let size = |group: &Group| group.0 * (group.1 as f64).sqrt();
        let most = self.groups.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
        most.map_or(Real::ZERO, |&(epsilon, count)| equal::delta(count.min(equal::MAX_COUNT), epsilon, total).lower)
    }

    /// Returns bounds on δ(total) if besides a −ln Π(1 − δᵢ) of `failure` is lost, and whether δ₀ is 0.
    #[must_use]
    pub fn delta(&self, total: f64, failure: I) -> (Bounds, bool) {
        let pure = self.pure_delta(total);
        let found = (-failure).one_minus_exp() + (-failure).exp() * pure;
        (found.clamped().floats(), pure.upper.is_zero())
    }

    /// Returns bounds on the least ε ≥ 0 with δ₀(ε) ≤ target, for a target in (0, 1).
    #[must_use]
    pub fn epsilon(&self, target: I) -> Bounds {
        if self.pure_delta(0.0).upper <= target.lower {
            return Bounds::ZERO;
        }
        let largest = self.sum.floats().upper;
        let goal = target.lower.float(Down).max(f64::from_bits(1));
        let start = zcdp::epsilon(self.rho, goal);
        let aim = log_of(target.upper);
        let excess = |total: f64| {
            let found = self.pure_delta(total).upper;
            if found.is_zero() { f64::NEG_INFINITY } else { log_of(found) - aim }
        };
        let (low, high) = root(excess, start.min(largest));
        let (mut upper, mut step) = (high, if high > 0.0 { ROOT_TOLERANCE * high } else { largest });
        while upper < largest && self.pure_delta(upper).upper > target.lower {
            (upper, step) = ((upper + step).min(largest), 2.0 * step);
        }
        let (mut lower, mut step) = (low, ROOT_TOLERANCE * low);
        while lower > 0.0 && self.pure_delta(lower).lower <= target.upper {
            (lower, step) = ((lower - step).max(0.0), 2.0 * step);
        }
        Bounds { lower, upper }
    }

    /// Returns bounds on Σε.
    #[must_use]
    pub fn sum(&self) -> Bounds {
        self.sum.floats()
    }

    /// Returns about Σε²/2, rounded up.
    #[must_use]
    pub fn rho(&self) -> f64 {
        self.rho.upper.float(Up)
    }
}

/// Returns a short interval in which a falling function changes its sign, by false position and bisection.
fn root(excess: impl Fn(f64) -> f64, mut high: f64) -> (f64, f64) {
    let (mut low, mut above, mut below) = (0.0, excess(0.0), excess(high));
    for turn in 0..200 {
        if high - low <= ROOT_TOLERANCE * high {
            break;
        }
        let mut middle = 0.5 * (low + high);
        if turn % 3 != 0 && above.is_finite() && below.is_finite() {
            let place = low + (high - low) * above / (above - below);
            let margin = if turn % 3 == 1 { 1e-3 } else { 1e-8 } * (high - low);
            middle = place.max(low + margin).min(high - margin);
        }
        if !(low < middle && middle < high) {
            break;
        }
        let value = excess(middle);
        if value > 0.0 {
            (low, above) = (middle, value);
        } else {
            (high, below) = (middle, value);
        }
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_keeps_the_target_and_less_does_not() {
        for groups in [vec![(0.1, 100)], vec![(0.1, 3), (0.25, 4)], vec![(1.0, 30)], vec![(1e-3, 5), (2e-30, 1 << 40)]]
        {
            let worst = Worst::new(groups.clone());
            for target in [1e-9, 1e-3, 0.2] {
                let found = worst.epsilon(I::from(target));
                assert!(found.lower <= found.upper && found.upper <= worst.sum().upper, "{groups:?}");
                assert!(worst.pure_delta(found.upper).upper <= Real::new(target), "{groups:?} {target}");
                assert!(
                    found.lower == 0.0 || worst.pure_delta(found.lower).lower >= Real::new(target),
                    "{groups:?} {target}"
                );
            }
        }
    }

    #[test]
    fn the_whole_sum_loses_nothing() {
        let worst = Worst::new(vec![(0.25, 4), (0.5, 1)]);
        assert_eq!(Bounds { lower: 1.5, upper: 1.5 }, worst.sum());
        assert_eq!((Bounds::ZERO, true), worst.delta(1.5, I::integer(0)));
        assert!(worst.delta(1.5_f64.next_down(), I::integer(0)).0.upper > 0.0);
    }
}
