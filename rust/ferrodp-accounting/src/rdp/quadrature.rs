//! From sums over nodes to bounds on `ρ(α)`: aliasing, truncation and rounding all added.

pub(super) mod nodes;
pub(super) mod sum;
pub(super) mod table;

use ferrodp_core::Isa;

use crate::functions::{UNIT, exp, ln, ln_1p};
use crate::types::Bounds;
use sum::{LARGE_EXCESS, ORDER_LANES, Request, Sums, centered_on};
use table::{TERMS_PER_CHUNK, Table};

/// Largest bound on `ln A` for which all terms are floats.
pub(super) const LARGEST_LOG: f64 = 600.0;

/// Added to the divergence and, times `β`, to every sum: more than all that underflow can have dropped (`q ≥ 10⁻¹²⁰`).
pub(super) const UNDERFLOW_ALLOWANCE: f64 = 1e-270;

/// Sampling probabilities are raised until their product with `s` is as large, so that `A − 1` is far above [`UNDERFLOW_ALLOWANCE`].
pub(super) const LEAST_PRODUCT: f64 = 1e-130;

/// Sampling probabilities below this are raised to it.
pub(super) const LEAST_PROBABILITY: f64 = 1e-120;

/// Nodes with what is known about the errors of sums over them.
pub(super) trait Quadrature {
    fn table(&self) -> &Table;
    /// Relative aliasing error of `A − 1` and of `A` at that order.
    fn alias(&self, order: f64) -> f64;
    /// Returns what lies beyond the first and the last node, whose terms these are.
    fn tails(&self, first: f64, last: f64, index: usize, order: f64) -> f64;
    /// The same for the terms of `A` itself.
    fn tails_of_power(&self, first: f64, last: f64, index: usize, order: f64) -> f64;
    /// Lower and upper bound on the Kullback–Leibler divergence.
    fn divergence(&self) -> (f64, f64);
    /// Returns a lower bound on `A − 1` for `σ` itself, from one for the `s` that was rounded up.
    fn lowered(&self, lower: f64, order: f64) -> f64;
    /// Returns by how much `ln A` may be smaller for `σ` itself.
    fn log_lowered(&self, order: f64) -> f64;
}

/// Orders that wait until there are enough for the lanes.
#[derive(Default)]
pub(super) struct Waiting {
    count: usize,
    index: [usize; ORDER_LANES],
    order: [f64; ORDER_LANES],
    last: [usize; ORDER_LANES],
}

impl Waiting {
    /// Takes an order; returns whether no other fits.
    pub(super) fn add(&mut self, index: usize, order: f64, last: usize) -> bool {
        self.index[self.count] = index;
        self.order[self.count] = order;
        self.last[self.count] = last;
        self.count += 1;
        self.count == ORDER_LANES
    }

    /// Answers all, the empty lanes as if they were the first one.
    pub(super) fn answer(&mut self, isa: Isa, nodes: &impl Quadrature, bounds: &mut [Bounds]) {
        if self.count == 0 {
            return;
        }
        for lane in self.count..ORDER_LANES {
            (self.order[lane], self.last[lane]) = (self.order[0], self.last[0]);
        }
        let request = Request { beta: self.order.map(|order| order - 1.0), last: self.last };
        let sums = centered_on(isa, nodes.table(), &request);
        for lane in 0..self.count {
            bounds[self.index[lane]] = enclosed(nodes, &request, &sums, self.order[lane], lane);
        }
        self.count = 0;
    }
}

/// Returns bounds on `ρ(α)` from the sums of one lane: aliasing, truncation and rounding all added.
fn enclosed(nodes: &impl Quadrature, request: &Request, sums: &Sums, order: f64, lane: usize) -> Bounds {
    let (beta, last) = (request.beta[lane], request.last[lane]);
    let error = table::error(sums.total[lane], sums.weighted[lane], last);
    let dropped = UNDERFLOW_ALLOWANCE * beta;
    let tails = nodes.tails(
        sums.first[lane] + beta * nodes.table().divergent[0],
        sums.last[lane] + beta * nodes.table().divergent[last],
        last,
        order,
    );
    let (total, divergence, alias) = (sums.total[lane], nodes.divergence(), nodes.alias(order));
    // mutant: terms-of-a-moment
    let upper = beta * divergence.1 + (total + error + tails + dropped) / (1.0 - alias).max(0.0);
    let lower = beta * divergence.0 + (total * (1.0 - LARGE_EXCESS) - error - dropped).max(0.0) / (1.0 + alias);
    let upper = upper * (1.0 + 4.0 * UNIT);
    let lower = nodes.lowered(lower * (1.0 - 4.0 * UNIT), order);
    let log = ln_1p(upper);
    // ln(1 + x) falls by no more than the step divided by 1 + x where it ends.
    let step = (upper - lower) / (1.0 + lower);
    let log = Bounds { lower: log * (1.0 - 9.0 * UNIT) - step * (1.0 + 4.0 * UNIT), upper: log * (1.0 + 9.0 * UNIT) };
    log.rate(order)
}

/// Returns the largest exponent `ln p + βl` up to that node.
pub(super) fn largest(table: &Table, beta: f64, last: usize) -> f64 {
    let nodes = table.log_mass[..=last].iter().zip(&table.loss);
    nodes.fold(f64::NEG_INFINITY, |largest, (log_mass, loss)| {
        let exponent = log_mass + beta * loss;
        if exponent > largest { exponent } else { largest }
    })
}

/// Returns bounds on `ln A(α)` where `A` is beyond the range of floats: the plain sum, relative to its largest term.
pub(super) fn shifted(nodes: &impl Quadrature, order: f64, last: usize, largest: f64) -> Bounds {
    let beta = order - 1.0;
    let table = nodes.table();
    let exponent = |k: usize| table.log_mass[k] + beta * table.loss[k];
    let term = |k: usize| exp((exponent(k) - largest).max(-700.0));
    let (mut total, mut weighted) = (0.0, 0.0);
    for start in (0..=last).step_by(TERMS_PER_CHUNK) {
        let mut part = 0.0;
        for k in start..(start + TERMS_PER_CHUNK).min(last + 1) {
            let term = term(k);
            part += term;
            weighted += term * (table.constant[k] + beta * table.slope[k] + (exponent(k) - largest).abs().min(700.0));
        }
        total += part;
    }
    let (error, alias) = (table::error(total, weighted, last) + last as f64 * 1e-300, nodes.alias(order));
    let tails = nodes.tails_of_power(term(0), term(last), last, order);
    let upper = (total + error + tails) / (1.0 - alias).max(0.0);
    let lower = (total - error).max(0.0) / (1.0 + alias);
    let slack = 16.0 * UNIT * (largest.abs() + 1.0);
    Bounds { lower: largest + ln(lower) - slack - nodes.log_lowered(order), upper: largest + ln(upper) + slack }
}
