//! The Rényi curve of the Poisson-sampled Gaussian mechanism, between two floats.
//!
//! Neighboring datasets differ by one record, which takes part with probability `q`. One of the two directions dominates:
//! `D_α(P‖Q) ≥ D_α(Q‖P)` for `Q = N(0, σ²)`, `P = q·N(1, σ²) + (1 − q)·N(0, σ²)` at every order (Mironov, Talwar, Zhang, "Rényi
//! differential privacy of the sampled Gaussian mechanism", 2019, Theorems 4 and 5), so the curve is that of `(P, Q)`.
//!
//! Three ways lead to `A(α) = E_Q[(dP/dQ)^α]`, and the parameters choose: the quadrature of `nodes`; the sum of `closed_sum`;
//! where both would be too long, Minkowski's inequality in `L^α(Q)`: `A ≤ (1 − q + q·e^{(α−1)s²/2})^α`, `s = 1/σ`.
//!
//! *Monotony.* `1/σ` is rounded up: adding noise is post-processing, so `A` grows with `s`. How much that costs: in `τ = s²`,
//! `dP/dQ = 1 − q + qX_τ` with the martingale `X_τ = e^{B_τ − τ/2}`, so `d ln A/dτ = αβ·E[q²X²r^{α−2}]/2A ≤ αβ/2`, and
//! `k(x) = x²(1 − q + qx)^{α−2}` obeys `x²k″ ≤ 2·max(αβ/2, 1)·k`, hence `d ln(A − 1)/d ln τ ≤ 1 + max(αβ/2, 1)·τ`.

use ferrodp_core::Isa;

use super::closed_sum;
use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::rdp::quadrature::nodes::{Nodes, Rule};
use crate::rdp::quadrature::{LARGEST_LOG, LEAST_PROBABILITY, LEAST_PRODUCT, Quadrature, Waiting, largest, shifted};
use crate::types::Bounds;

/// The curve of one mechanism. Nodes are made once, and more of them when a larger order asks.
#[derive(Clone, Debug)]
pub struct PoissonGaussian {
    s: f64,
    q: f64,
    log_q: f64,
    /// The sampling probability was too small, so `q` is more than it.
    is_raised: bool,
    nodes: Option<Nodes>,
}

/// How an order is answered.
enum Way {
    Done(Bounds),
    /// With the nodes up to this one.
    Quadrature(usize),
}

impl PoissonGaussian {
    /// Returns the curve for a noise multiplier > 0 and a sampling probability in [0, 1].
    #[must_use]
    pub fn new(noise_multiplier: f64, sampling_probability: f64) -> Self {
        Self::with_rule(noise_multiplier, sampling_probability, Rule::default())
    }

    /// As [`PoissonGaussian::new`], with more or fewer nodes: the bounds hold for any rule.
    #[must_use]
    pub fn with_rule(noise_multiplier: f64, sampling_probability: f64, rule: Rule) -> Self {
        let s = (1.0 / noise_multiplier).next_up();
        let least = LEAST_PROBABILITY.max(LEAST_PRODUCT / s).min(1.0);
        let is_raised = 0.0 < sampling_probability && sampling_probability < least;
        let q = if is_raised { least } else { sampling_probability };
        let is_mixture = 0.0 < q && q < 1.0 && noise_multiplier < f64::INFINITY;
        Self { s, q, log_q: ln(q), is_raised, nodes: if is_mixture { Nodes::new(s, q, rule) } else { None } }
    }

    /// Writes bounds on `ρ(α)` for every order `α ≥ 1`. Each depends on its own order alone.
    ///
    /// # Panics
    /// If `orders` and `bounds` differ in length.
    pub fn bounds(&mut self, isa: Isa, orders: &[f64], bounds: &mut [Bounds]) {
        assert_eq!(orders.len(), bounds.len(), "one result an order");
        let mut waiting = Waiting::default();
        for (index, &order) in orders.iter().enumerate() {
            match self.way(order) {
                Way::Done(found) => bounds[index] = found,
                Way::Quadrature(last) => {
                    let is_small = self.unsampled(order).upper * order <= LARGEST_LOG;
                    let nodes = self.nodes.as_mut().expect("this way is only taken with nodes");
                    nodes.extend(last);
                    let largest = if is_small { 0.0 } else { largest(nodes.table(), order - 1.0, last) };
                    if largest > LARGEST_LOG {
                        bounds[index] = shifted(nodes, order, last, largest).rate(order);
                    } else if waiting.add(index, order, last) {
                        waiting.answer(isa, nodes, bounds);
                    }
                }
            }
        }
        if let Some(nodes) = &self.nodes {
            waiting.answer(isa, nodes, bounds);
        }
        for (bounds, &order) in bounds.iter_mut().zip(orders) {
            if self.q > 0.0 {
                bounds.upper = bounds.upper.min(self.unsampled(order).upper);
            }
            if self.is_raised {
                bounds.lower = 0.0;
            }
        }
    }

    /// Returns `α/2σ²`, of which sampling can only take away.
    fn unsampled(&self, order: f64) -> Bounds {
        // s² is within 5 units of 1/σ², and the products are within 2.
        // mutant: curve-without-sampling
        Bounds::within(0.5 * order * (self.s * self.s), 8.0)
    }

    /// Returns the answer, or the quadrature to be done.
    fn way(&self, order: f64) -> Way {
        if self.q == 0.0 {
            return Way::Done(Bounds::ZERO);
        }
        if order == f64::INFINITY {
            return Way::Done(Bounds::INFINITE);
        }
        if self.q == 1.0 {
            return Way::Done(self.unsampled(order));
        }
        if let (true, Some(nodes)) = (order == 1.0, &self.nodes) {
            let (lower, upper) = nodes.divergence();
            return Way::Done(Bounds { lower: nodes.lowered(lower, 1.0), upper });
        }
        if let Some(log) = closed_sum::log_moment(self.s, self.q, self.log_q, order) {
            return Way::Done(log.rate(order));
        }
        match self.nodes.as_ref().and_then(|nodes| nodes.last(order)) {
            Some(last) => Way::Quadrature(last),
            None if order == 1.0 => Way::Done(Bounds { lower: 0.0, upper: f64::INFINITY }),
            None => {
                let upper = self.minkowski(order) / (order - 1.0) * (1.0 + 4.0 * UNIT);
                Way::Done(Bounds { lower: 0.0, upper })
            }
        }
    }

    /// Returns the upper bound on `ln A` by Minkowski's inequality.
    fn minkowski(&self, order: f64) -> f64 {
        let z = 0.5 * (order - 1.0) * (self.s * self.s);
        if z == f64::INFINITY {
            return z;
        }
        let log = if z < 700.0 {
            ln_1p(self.q * expm1(z * (1.0 + 8.0 * UNIT))) * (1.0 + 32.0 * UNIT)
        } else {
            let (log_q, rest) = (self.log_q, (1.0 - self.q) / self.q * exp(-z));
            (z + log_q + ln_1p(rest * (1.0 + 4.0 * UNIT * (z + 10.0)))) + 12.0 * UNIT * (z - log_q + 1.0)
        };
        // mutant: minkowski-of-a-sample
        order * log * (1.0 + 4.0 * UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By Minkowski's inequality, which is asked where nodes are too many, it is never less than what they give.
    #[test]
    fn the_bound_without_nodes_is_above_those_with_nodes() {
        for (sigma, q) in [(1.0, 0.01), (0.5, 0.3), (4.0, 0.9), (20.0, 1e-4), (0.2, 1e-5)] {
            for order in [1.25, 2.0, 3.5, 16.0, 200.0] {
                let mut curve = PoissonGaussian::new(sigma, q);
                let mut found = [Bounds::ZERO];
                curve.bounds(Isa::best(), &[order], &mut found);
                let bound = curve.minkowski(order) / (order - 1.0);
                assert!(found[0].lower <= bound * (1.0 + 1e-12), "{sigma} {q} {order}: {found:?} {bound}");
                // and it is a Gaussian's where all take part
                let whole = PoissonGaussian::new(sigma, 1.0 - UNIT).minkowski(order) / (order - 1.0);
                assert!(whole >= 0.5 * order / (sigma * sigma) * (1.0 - 1e-9), "{sigma} {order}: {whole}");
            }
        }
    }

    /// Few nodes far apart, and a range that is too short: each costs a term of the error.
    #[test]
    fn coarse_rules_give_wide_bounds_around_fine_ones() {
        for (sigma, q) in [(1.0, 0.01), (0.5, 0.3), (4.0, 0.9), (2.0, 1e-3)] {
            for order in [1.0, 1.5, 2.5, 7.5, 40.5] {
                let bounds = |rule| {
                    let mut found = [Bounds::ZERO];
                    PoissonGaussian::with_rule(sigma, q, rule).bounds(Isa::best(), &[order], &mut found);
                    found[0]
                };
                let fine = bounds(Rule::default());
                for rule in [(1.0, 8.75), (2.5, 8.75), (34.0, 1.0), (34.0, 2.0), (34.0, 3.0), (3.0, 2.5)] {
                    let coarse = bounds(Rule { depth: rule.0, reach: rule.1 });
                    assert!(coarse.upper >= fine.lower && coarse.lower <= fine.upper, "{sigma} {q} {order} {rule:?}");
                }
            }
        }
    }
}
