//! What is asked of a composition and what is answered.

use crate::functions::{UNIT, expm1, ln_1p};
use crate::pld::pair::LossPair;

/// One step and how often it is repeated.
pub struct Step<'a> {
    /// What happens.
    pub pair: &'a dyn LossPair,
    /// How often.
    pub count: u64,
}

/// How much effort a question is worth.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Wanted width of the interval relative to ε, or of ln δ relative to t·ε.
    pub tolerance: f64,
    /// Distance of neighboring nodes; chosen if `None`. Made larger where more than `max_nodes` would be needed.
    pub step: Option<f64>,
    /// Limit on the number of nodes, and on those of a single step: 2^this. Memory is 200 bytes a node.
    pub log2_max_nodes: u32,
    /// How much work a question may cost where the step is chosen: cells of Gaussian noise, see [`LossPair::effort`], some
    /// 0.3 µs each. Beyond 32 different steps each may cost as much as one of these.
    ///
    /// A limit on work, unlike one on time, gives the same answer everywhere. When it is reached, the bounds are as wide as
    /// they are.
    pub work: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tolerance: 1e-4, step: None, log2_max_nodes: 21, work: 2e6 }
    }
}

/// Bounds, and how they came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// Distance of neighboring nodes of the grid.
    pub step: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Tilt t.
    pub tilt: f64,
}

/// Returns an upper bound on the mass of +∞ of a composition, of masses with relative errors, and how often each happens.
///
/// A composition has a finite loss if all of its steps do: 1 − ∏(1 − δᵢ)^Tᵢ, never more than ΣTᵢδᵢ. Terms have one sign, so
/// that errors of the sum are relative; 1 − e^−x magnifies none.
pub(super) fn infinite(masses: impl Iterator<Item = (f64, f64, u64)>) -> f64 {
    let (mut log_finite, mut terms) = (0.0, 0.0);
    for (mass, error, count) in masses {
        let mass = (mass * (1.0 + error + 2.0 * UNIT)).min(1.0);
        if mass > 0.0 {
            // mutant: infinite-masses-of-a-composition
            log_finite += count as f64 * ln_1p(-mass);
            terms += 1.0;
        }
    }
    (-expm1(log_finite) * (1.0 + (terms + 32.0) * UNIT)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_losses_are_composed_and_rounded_up() {
        let exact = -expm1(1e6 * libm::log1p(-1e-6));
        let found = infinite([(1e-6, 0.0, 1_000_000)].into_iter());
        assert!(found >= exact && found <= exact * (1.0 + 1e-13), "{found} {exact}");
        assert!(found < 0.64);
        // without the errors of masses it would be too small
        assert!(infinite([(1e-6, 1e-3, 1000)].into_iter()) > infinite([(1e-6, 0.0, 1000)].into_iter()) * 1.0009);
        assert_eq!(1.0, infinite([(1.0, 0.0, 1), (0.0, 0.0, u64::MAX)].into_iter()));
        assert_eq!(0.0, infinite([(0.0, 0.0, u64::MAX)].into_iter()));
    }
}
