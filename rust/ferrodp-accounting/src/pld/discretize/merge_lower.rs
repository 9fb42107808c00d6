//! The lower law of a continuous pair: neighboring losses are merged until their common one is that of a node.
//!
//! To merge outcomes is post-processing, also if a coin decides which part of an outcome is merged; so the result is
//! dominated by the pair. The walk takes losses in rising order, in cells of half a step. What it holds lies below the next
//! node; it takes as much from above that node as lifts P/Q to the node's e^loss, and goes on with the rest. Merging over
//! about one step costs O(step²) a step of the composition, rounding losses down would cost O(step). Where there is too
//! little above (gaps, the end of the support), what is held is rounded down after all.

use crate::functions::{UNIT, exp};
use crate::pld::discretize::cells::{Cells, empty, sink};
use crate::pld::grid::{GridLoss, Nodes};
use crate::pld::pair::{LossPair, Mass};

/// How many nodes beyond the one that it aims at the walk looks for mass.
const SEARCHED_NODES: usize = 16;

/// Returns the lower law, and the mass that was rounded down.
pub(in crate::pld) fn lower(pair: &dyn LossPair, nodes: Nodes, cells: &Cells) -> (GridLoss, f64) {
    let mut law = empty(nodes);
    let end = cells.halves.len();
    // a merged mass is a sum of at most 2·SEARCHED_NODES + 4 parts, each a product
    let error = cells.error + (2 * SEARCHED_NODES + 16) as f64 * UNIT;
    let mut walk = Walk::new(nodes.step, error);
    for (i, &half) in cells.halves.iter().enumerate() {
        walk.take(i, half, &mut law.p);
    }
    if cells.is_bounded_above {
        walk.stop(&mut law.p);
        law.p[end / 2] += cells.top.p;
    } else {
        walk.take(end, cells.top, &mut law.p);
        walk.stop(&mut law.p);
    }
    let mut dropped = cells.bottom * (1.0 + error);
    if cells.is_bounded_below {
        law.p[0] += cells.bottom;
        dropped = 0.0;
    }
    let center = law.center();
    for (i, p) in law.p.iter_mut().enumerate() {
        *p *= if i > center { 1.0 - error } else { 1.0 + error };
    }
    law.infinity = pair.infinite() * (1.0 - error);
    sink(&mut law, dropped, error);
    (law, walk.rounded)
}

struct Walk {
    /// e^(j·step/2) for j from 2 down to −2·`SEARCHED_NODES`.
    powers: Vec<f64>,
    /// What P/Q must exceed e^loss by, relatively, so that it does so exactly.
    margin: f64,
    /// The node that is aimed at.
    target: usize,
    /// What is held, Q-mass times e^(loss of the target).
    held: Mass,
    /// P-mass that was rounded down.
    rounded: f64,
}

impl Walk {
    fn new(step: f64, error: f64) -> Self {
        let powers = (0..=2 * SEARCHED_NODES + 4).map(|j| exp((2.0 - j as f64) * 0.5 * step)).collect();
        Self { powers, margin: 3.0 * error + 32.0 * UNIT, target: 0, held: Mass::default(), rounded: 0.0 }
    }

    /// Takes the mass of the i-th half of a step, Q-mass times e^(loss at its lower end).
    fn take(&mut self, i: usize, half: Mass, p: &mut [f64]) {
        if half.p <= 0.0 && half.q <= 0.0 {
            return;
        }
        if i > 2 * (self.target + SEARCHED_NODES) {
            self.stop(p);
        }
        let mut share = 1.0;
        if self.held.p > 0.0 {
            let q = half.q * self.powers[2 + i - 2 * self.target];
            let excess = half.p - q * (1.0 + self.margin);
            let deficit = self.held.q * (1.0 + self.margin) - self.held.p;
            if i < 2 * self.target || (deficit > excess && deficit > 0.0) {
                self.held = self.held.and(Mass { p: half.p, q });
                return;
            }
            let taken = if deficit > 0.0 { (deficit / excess * (1.0 + 8.0 * UNIT)).min(1.0) } else { 0.0 };
            p[self.target] += self.held.p + taken * half.p;
            share = 1.0 - taken;
        }
        self.target = i / 2 + 1;
        self.held = Mass { p: share * half.p, q: share * half.q * self.powers[2 + i - 2 * self.target] };
    }

    /// Rounds what is held down to the node below the target: all of it lies above that one.
    fn stop(&mut self, p: &mut [f64]) {
        if self.held.p > 0.0 {
            p[self.target - 1] += self.held.p;
            self.rounded += self.held.p;
        }
        self.held = Mass::default();
    }
}
