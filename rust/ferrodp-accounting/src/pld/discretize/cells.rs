//! The masses of a pair in the cells of a grid, and laws on its nodes made to be bounds whatever their rounding.

use crate::functions::UNIT;
use crate::memory::{filled, gathered};
use crate::pld::grid::{GridLoss, Nodes};
use crate::pld::pair::{LossPair, Mass};

/// The masses of a pair between the nodes and beyond them; Q-masses are multiplied by e^(loss at the lower end).
pub(in crate::pld) struct Cells {
    /// Two halves per cell.
    pub(in crate::pld) halves: Vec<Mass>,
    /// P-mass below the first node, it included.
    pub(in crate::pld) bottom: f64,
    /// Whether losses below the first node do not exist: `bottom` is an atom on it.
    pub(in crate::pld) is_bounded_below: bool,
    /// Masses above the last node.
    pub(in crate::pld) top: Mass,
    /// Whether losses above the last node do not exist: `top` is an atom on it.
    pub(in crate::pld) is_bounded_above: bool,
    /// Bound on the relative error of each of these numbers, once two have been added.
    pub(in crate::pld) error: f64,
}

impl Cells {
    pub(in crate::pld) fn new(pair: &dyn LossPair, nodes: Nodes) -> Self {
        let (lowest, highest) = pair.support();
        let count = (nodes.last - nodes.first) as usize;
        let (first, last) = (nodes.loss(nodes.first), nodes.loss(nodes.last));
        // edges are moved by the slack below, which must not bring them past the next one: masses would be counted twice
        let is_end = |end: f64, node: f64| {
            let slack = Nodes::slack(pair, node);
            (end - node).abs() <= slack && (count == 0 || 4.0 * slack < nodes.step)
        };
        let (is_bounded_below, is_bounded_above) = (is_end(lowest, first), is_end(highest, last));
        let edge = |i| nodes.loss(nodes.first + (i / 2) as i64) + if i % 2 == 1 { 0.5 * nodes.step } else { 0.0 };
        let mut edges: Vec<f64> = gathered((0..=2 * count).map(edge));
        if is_bounded_below && count > 0 {
            edges[0] += Nodes::slack(pair, first);
        }
        if is_bounded_above && count > 0 {
            edges[2 * count] -= Nodes::slack(pair, last);
        }
        let halves = gathered(edges.windows(2).map(|ends| pair.cell(ends[0], ends[1])));
        Self {
            halves,
            bottom: pair.mass(f64::NEG_INFINITY, edges[0]).p,
            is_bounded_below,
            top: pair.cell(edges[2 * count], f64::INFINITY),
            is_bounded_above,
            error: nodes.error(pair),
        }
    }
}

pub(in crate::pld) fn empty(nodes: Nodes) -> GridLoss {
    let count = (nodes.last - nodes.first + 1) as usize;
    GridLoss { step: nodes.step, offset: nodes.offset, first: nodes.first, p: filled(0.0, count), infinity: 0.0 }
}

/// Smallest mass that is kept; what is below is raised to it, so that products of roundings stay relative errors.
const MIN_CELL_MASS: f64 = 1e-290;

/// Makes the law an upper bound whatever the rounding of its masses: up above 0, down below, the rest to node 0.
pub(in crate::pld) fn raise(law: &mut GridLoss) {
    let center = law.center();
    for (i, p) in law.p.iter_mut().enumerate() {
        *p *= if i > center { 1.0 + 8.0 * UNIT } else { 1.0 - 8.0 * UNIT };
        if i > center && *p > 0.0 {
            *p = p.max(MIN_CELL_MASS);
        } else if *p < MIN_CELL_MASS {
            *p = 0.0;
        }
    }
    law.p[center] = 0.0;
    let rest = 1.0 - law.infinity - sum(&law.p);
    law.p[center] = (rest + 8.0 * UNIT).max(0.0);
}

/// Makes the law a lower bound: down above 0, up below, and node 0 takes what is missing to 1 but for `dropped`.
///
/// Where the others leave nothing for node 0 their masses, within `error` of the truth, are all rounded down instead.
pub(in crate::pld) fn sink(law: &mut GridLoss, dropped: f64, error: f64) {
    let center = law.center();
    let own = law.p[center];
    for (i, p) in law.p.iter_mut().enumerate() {
        *p *= if i > center { 1.0 - 8.0 * UNIT } else { 1.0 + 8.0 * UNIT };
        if *p < MIN_CELL_MASS {
            *p = if i < center && *p > 0.0 { MIN_CELL_MASS } else { 0.0 };
        }
    }
    law.p[center] = 0.0;
    let rest = 1.0 - law.infinity * (1.0 + 4.0 * error) - dropped - sum(&law.p) - 8.0 * UNIT;
    if rest > 0.0 {
        law.p[center] = rest;
    } else {
        law.p[center] = own;
        law.p[..=center].iter_mut().for_each(|p| *p *= 1.0 - 4.0 * error - 32.0 * UNIT);
    }
}

/// Adds non-negative numbers with an error of two units (Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation
/// endlicher Summen", ZAMM 1974).
pub(in crate::pld) fn sum(numbers: &[f64]) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for &x in numbers {
        let next = total + x;
        lost += if total >= x { (total - next) + x } else { (x - next) + total };
        total = next;
    }
    total + lost
}
