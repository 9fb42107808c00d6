//! From a pair to two laws on a grid, one that dominates it and one that it dominates.
//!
//! What makes a law an upper bound under composition is that its P-mass, loss by loss, lies no lower than the truth: δ(ε) of
//! a composition is E_P[(1 − e^(ε − ΣLᵢ))₊], which rises with each Lᵢ. So three kinds of change are free: to move P-mass up,
//! to replace a cell by its connect-the-dots pair, and, for nodes above 0, to make a mass larger at the expense of node 0,
//! for nodes below 0 smaller to its profit. The last is how rounding errors are paid for: every mass but that of node 0 is
//! moved by its error, node 0 takes what is missing to 1, and nothing grows with the number of steps but the loss of those
//! few units. A lower bound is the mirror image.

pub(super) mod cells;
mod merge_lower;

use crate::functions::{UNIT, expm1};
use crate::pld::grid::{GridLoss, Nodes};
use crate::pld::pair::LossPair;
use crate::types::Rounding;
use cells::{Cells, empty, raise, sink};

/// Two laws on the same nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bracket {
    /// Dominates the pair.
    pub upper: GridLoss,
    /// Is dominated by the pair, if `spread` is 0; otherwise by what connecting the dots makes of it.
    pub lower: GridLoss,
    /// Bound on the variance that was added to the loss in `lower`: step²/4 or 0.
    pub spread: f64,
    /// Mass that was rounded down to a node in `lower`, which costs more than merging.
    pub rounded: f64,
}

/// How the lower law is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// By merging outcomes until their common loss is a node's.
    Merged,
    /// By connecting the dots, with `spread` as what that may have added.
    ///
    /// Atoms that are on no node spoil the other law: it can only round them down, which costs O(step) a step of the
    /// composition. This one keeps means, and what it adds is taken off when the composition is read, see `gap`.
    /// The two may not be mixed: then the upper law need not have the larger tails.
    Spread,
}

/// Returns both laws of a pair on these nodes.
#[must_use]
pub fn bracket(pair: &dyn LossPair, nodes: Nodes, kind: Lower) -> Bracket {
    if let Some((atom, stride)) = nodes.atoms
        && (nodes.last - nodes.first) >= stride
    {
        return exact(pair, nodes, atom, stride);
    }
    let cells = Cells::new(pair, nodes);
    let upper = connect_the_dots(pair, nodes, &cells, Rounding::Up);
    match kind {
        Lower::Merged => {
            let (lower, rounded) = merge_lower::lower(pair, nodes, &cells);
            Bracket { upper, lower, spread: 0.0, rounded }
        }
        Lower::Spread => {
            let lower = connect_the_dots(pair, nodes, &cells, Rounding::Down);
            Bracket { upper, lower, spread: 0.25 * nodes.step * nodes.step, rounded: 0.0 }
        }
    }
}

/// Each cell [ℓ, ℓ + h] is replaced by masses at its ends that keep its P- and its Q-mass (Doroshenko, Ghazi, Kamath, Kumar,
/// Manurangsi, "Connect the dots", PETS 2022, Theorem 3.3): b = (P − Q·e^ℓ)/(1 − e^−h) at the upper end,
/// a = (Q·e^(ℓ+h) − P)/(e^h − 1) at the lower.
///
/// Upward, the tail above the last node is a cell that ends at +∞, and P-mass below the first node moves up to it. Downward
/// the former moves down to the last node, and the latter is dropped. With e the error of P and Q, both differences are known
/// to (P + Q·e^ℓ)e, times e^h for a; of the two masses of a cell, the one that must not be wrong in its direction is taken from
/// its own formula, the other is the rest.
fn connect_the_dots(pair: &dyn LossPair, nodes: Nodes, cells: &Cells, toward: Rounding) -> GridLoss {
    let mut law = empty(nodes);
    let (half_down, up, down) = (crate::functions::exp(-0.5 * nodes.step), expm1(nodes.step), -expm1(-nodes.step));
    let (center, error) = (law.center(), cells.error);
    // mutant: direction-of-the-masses
    let sign = if toward == Rounding::Up { error } else { -error };
    for (i, halves) in cells.halves.chunks_exact(2).enumerate() {
        let p = halves[0].p + halves[1].p;
        let q = halves[0].q + halves[1].q * half_down;
        let (at_lower, at_upper) = if i >= center {
            let kept = p * (1.0 + sign);
            let at_upper = (((p - q) + (p + q) * sign) / down).clamp(0.0, kept);
            (kept - at_upper, at_upper)
        } else {
            let (kept, raised) = (p * (1.0 - sign), q * (1.0 + up));
            let at_lower = (((raised - p) - (raised + p) * sign) / up).clamp(0.0, kept);
            (at_lower, kept - at_lower)
        };
        law.p[i] += at_lower;
        law.p[i + 1] += at_upper;
    }
    let last = law.p.len() - 1;
    if toward == Rounding::Down {
        // mutant: mass-that-is-dropped
        let dropped = if cells.is_bounded_below { 0.0 } else { cells.bottom * (1.0 + error) };
        if cells.is_bounded_below {
            law.p[0] += cells.bottom * (1.0 + error);
        }
        law.p[last] += cells.top.p * (1.0 - error);
        law.infinity = pair.infinite() * (1.0 - error);
        sink(&mut law, dropped, 2.0 * error);
        return law;
    }
    law.p[0] += cells.bottom * (1.0 - error);
    let top = cells.top.p * (1.0 + error);
    let gained = cells.top.p - cells.top.q + (cells.top.p + cells.top.q) * error;
    let beyond = if cells.is_bounded_above { 0.0 } else { gained.clamp(0.0, top) };
    // mutant: mass-at-the-last-node
    law.p[last] += top - beyond;
    // mutant: infinite-mass-of-a-law
    law.infinity = (pair.infinite() * (1.0 + error) + beyond * (1.0 + 4.0 * UNIT)).min(1.0);
    raise(&mut law);
    law
}

/// All atoms of a lattice are on nodes.
fn exact(pair: &dyn LossPair, nodes: Nodes, atom: i64, stride: i64) -> Bracket {
    let (mut upper, mut lower) = (empty(nodes), empty(nodes));
    let error = pair.relative_error() + 8.0 * UNIT;
    let half = 0.5 * stride as f64 * nodes.step;
    let lowest = nodes.first + (atom - nodes.first).rem_euclid(stride);
    let atoms = (lowest..=nodes.last).step_by(stride as usize);
    let (mut below, mut above) = (f64::NEG_INFINITY, f64::INFINITY);
    for node in atoms {
        let i = (node - nodes.first) as usize;
        let loss = nodes.loss(node);
        let p = pair.mass(loss - half, loss + half).p;
        if below == f64::NEG_INFINITY {
            below = loss - half;
        }
        above = loss + half;
        let (more, less) = (p * (1.0 + error), p * (1.0 - error));
        (upper.p[i], lower.p[i]) = if node > 0 { (more, less) } else { (less, more) };
    }
    let bottom = pair.mass(f64::NEG_INFINITY, below).p;
    let top = pair.mass(above, f64::INFINITY).p;
    upper.p[0] += bottom * (1.0 - error);
    // mutant: tail-of-a-lattice
    upper.infinity = ((pair.infinite() + top) * (1.0 + error)).min(1.0);
    if let Some(last) = lower.p.last_mut() {
        *last += top * (1.0 - error);
    }
    lower.infinity = pair.infinite() * (1.0 - error);
    raise(&mut upper);
    sink(&mut lower, bottom * (1.0 + error), error);
    Bracket { upper, lower, spread: 0.0, rounded: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::exp;
    use crate::pld::discretize::cells::sum;
    use crate::pld::pairs::{Gaussian, PoissonSampled, Reversed};

    /// δ of a grid law, or of one and itself.
    fn delta(law: &GridLoss, epsilon: f64) -> f64 {
        let at = |i: usize| law.offset + (law.first + i as i64) as f64 * law.step;
        let each = law.p.iter().enumerate().map(|(i, p)| p * (1.0 - exp(epsilon - at(i))).max(0.0));
        each.sum::<f64>() + law.infinity
    }

    fn squared(law: &GridLoss) -> GridLoss {
        let mut p = vec![0.0; 2 * law.p.len() - 1];
        for (i, x) in law.p.iter().enumerate() {
            for (j, y) in law.p.iter().enumerate() {
                p[i + j] += x * y;
            }
        }
        let infinity = 1.0 - (1.0 - law.infinity) * (1.0 - law.infinity);
        GridLoss { step: law.step, offset: 2.0 * law.offset, first: 2 * law.first, p, infinity }
    }

    /// δ of a pair from the masses of its own cells, fine ones, rounded up and down.
    fn brute(pair: &dyn LossPair, epsilon: f64) -> (f64, f64) {
        let (bottom, top) = (pair.range(1e-18).0, pair.range(1e-18).1);
        let step = (top - bottom) / 100_000.0;
        let (mut low, mut high) = (0.0, pair.infinite() + 1e-18);
        for i in 0..100_000 {
            let lower = bottom + f64::from(i) * step;
            let p = pair.mass(lower, lower + step).p;
            low += p * (1.0 - exp(epsilon - lower)).max(0.0);
            high += p * (1.0 - exp(epsilon - lower - step)).max(0.0);
        }
        (low, high)
    }

    fn pairs() -> Vec<Box<dyn LossPair>> {
        vec![
            Box::new(Gaussian::new(1.0)),
            Box::new(Gaussian::new(0.3)),
            Box::new(PoissonSampled::new(0.1, Gaussian::new(0.8))),
            Box::new(Reversed(PoissonSampled::new(0.1, Gaussian::new(0.8)))),
            Box::new(PoissonSampled::new(0.7, Gaussian::new(2.0))),
        ]
    }

    #[test]
    fn both_laws_hold_the_truth_between_them_at_every_step() {
        for pair in pairs() {
            for step in [1.0, 0.1, 0.003] {
                let nodes = Nodes::over(&*pair, step, 1e-12, 1e-15);
                let both = bracket(&*pair, nodes, Lower::Merged);
                for epsilon in [0.0, 0.01, 0.3, 1.0, 2.5, 7.0] {
                    let (low, high) = brute(&*pair, epsilon);
                    // a sum of 10⁵ positive terms, each within 10⁻¹⁴
                    assert!(delta(&both.upper, epsilon) >= low * (1.0 - 1e-9), "{step} {epsilon}");
                    assert!(delta(&both.lower, epsilon) <= high * (1.0 + 1e-9), "{step} {epsilon}");
                }
            }
        }
    }

    #[test]
    fn the_distance_of_the_laws_falls_with_the_square_of_the_step() {
        for pair in pairs() {
            let gap = |step: f64| {
                let both = bracket(&*pair, Nodes::over(&*pair, step, 1e-13, 1e-15), Lower::Merged);
                let (upper, lower) = (squared(&both.upper), squared(&both.lower));
                delta(&upper, 0.05) - delta(&lower, 0.05)
            };
            let (wide, narrow) = (gap(0.02), gap(0.005));
            assert!(narrow >= 0.0 && narrow < wide / 8.0, "{wide} {narrow}");
        }
    }

    #[test]
    fn masses_are_moved_up_by_more_than_their_error_and_none_is_lost() {
        for pair in pairs() {
            let both = bracket(&*pair, Nodes::over(&*pair, 0.01, 1e-13, 1e-15), Lower::Merged);
            let total = sum(&both.upper.p) + both.upper.infinity;
            assert!((1.0..1.0 + 1e-14).contains(&total), "{total}");
            let total = sum(&both.lower.p) + both.lower.infinity;
            assert!((1.0 - 2e-13..=1.0).contains(&total), "{total}");
        }
    }

    /// A pair of which one outcome in ten tells all.
    struct Failing(Gaussian);

    impl LossPair for Failing {
        fn mass(&self, lower: f64, upper: f64) -> crate::pld::pair::Mass {
            let found = self.0.mass(lower, upper);
            crate::pld::pair::Mass { p: 0.9 * found.p, q: found.q }
        }

        fn infinite(&self) -> f64 {
            0.1
        }

        fn relative_error(&self) -> f64 {
            self.0.relative_error() + 2.0 * UNIT
        }

        fn range(&self, x: f64) -> (f64, f64) {
            self.0.range(x)
        }

        fn range_under_q(&self, x: f64) -> (f64, f64) {
            self.0.range_under_q(x)
        }

        fn lattice(&self) -> Option<(f64, f64)> {
            None
        }
    }

    #[test]
    fn what_tells_all_is_at_infinity_in_both_laws() {
        let pair = Failing(Gaussian::new(1.0));
        for kind in [Lower::Merged, Lower::Spread] {
            let both = bracket(&pair, Nodes::over(&pair, 0.05, 1e-13, 1e-15), kind);
            assert!(both.upper.infinity >= 0.1 && both.upper.infinity < 0.1 + 1e-9);
            assert!(both.lower.infinity <= 0.1 && both.lower.infinity > 0.1 - 1e-9);
            assert!(sum(&both.upper.p) + both.upper.infinity >= 1.0);
            assert!(sum(&both.lower.p) + both.lower.infinity <= 1.0);
        }
    }

    /// Nodes that leave out a quarter of the mass at either end, of a law on a lattice and of one that is on none.
    #[test]
    fn mass_beyond_the_nodes_is_at_infinity_above_and_lost_below() {
        let lattice = crate::pld::pairs::DiscreteLaplace::new(4.0, 8.0);
        let nodes = Nodes::within(&lattice, 0.25, -1.0, 1.0);
        assert!(nodes.atoms.is_some());
        let both = bracket(&lattice, nodes, Lower::Merged);
        let top = lattice.mass(1.25, f64::INFINITY).p;
        assert!(top > 0.1 && both.upper.infinity >= top && both.lower.infinity == 0.0, "{top} {both:?}");
        assert!(delta(&both.upper, 0.2) >= brute(&lattice, 0.2).0 * (1.0 - 1e-9));
        let atoms: Vec<f64> = vec![0.1, 0.2, 0.3, 0.4];
        let finite = crate::pld::pairs::FiniteLosses::masses(&atoms, &[0.4, 0.3, 0.2, 0.1], 0.0);
        let pairs: [&dyn LossPair; 2] = [&finite, &Gaussian::new(0.5)];
        for pair in pairs {
            for kind in [Lower::Merged, Lower::Spread] {
                let both = bracket(pair, Nodes::at_multiples(0.05, -0.3, 0.3), kind);
                let above = pair.mass(0.4, f64::INFINITY).p;
                let (upper, lower) = (delta(&both.upper, 0.2), delta(&both.lower, 0.2));
                let (low, high) = brute(pair, 0.2);
                assert!(above > 0.1, "{above}");
                assert!(upper >= low * (1.0 - 1e-9), "{kind:?}: {upper} {low}");
                assert!(lower <= high * (1.0 + 1e-9), "{kind:?}: {lower} {high}");
                assert!(sum(&both.upper.p) + both.upper.infinity >= 1.0, "{kind:?}");
                assert!(sum(&both.lower.p) + both.lower.infinity <= 1.0 + 1e-12, "{kind:?}");
                if kind == Lower::Spread && pair.support().0 == f64::NEG_INFINITY {
                    let lost = pair.mass(f64::NEG_INFINITY, -0.4).p;
                    assert!(lost > 0.01 && sum(&both.lower.p) + both.lower.infinity <= 1.0 - lost, "{lost}");
                }
            }
        }
    }

    #[test]
    fn an_end_that_the_step_does_not_resolve_is_no_end() {
        // an atom between two nodes, nearer to both than losses are told apart
        let pair = crate::pld::pairs::FiniteLosses::masses(&[1.0, 1e-9], &[1.0, 1e-9], 0.0);
        let nodes = Nodes::at_multiples(4e-15, -4e-15, 4e-15);
        let both = bracket(&pair, nodes, Lower::Merged);
        for law in [&both.upper, &both.lower] {
            assert!(sum(&law.p) + law.infinity <= 1.0 + 1e-12, "{law:?}");
        }
    }

    #[test]
    fn every_tail_of_the_upper_law_is_at_least_the_pairs_own() {
        for pair in pairs() {
            let nodes = Nodes::over(&*pair, 0.05, 1e-9, 1e-12);
            let both = bracket(&*pair, nodes, Lower::Merged);
            let (mut upper, mut lower) = (both.upper.infinity, both.lower.infinity);
            for i in (0..both.upper.p.len()).rev() {
                upper += both.upper.p[i];
                lower += both.lower.p[i];
                let loss = nodes.loss(nodes.first + i as i64);
                let above = |loss: f64| pair.mass(loss, f64::INFINITY).p + pair.infinite();
                // neither raises a loss by more than a step
                assert!(upper >= above(loss + nodes.step) * (1.0 - 1e-13), "{i}");
                assert!(lower <= above(loss - nodes.step) * (1.0 + 1e-13), "{i}");
            }
        }
    }
}
