//! Curves of pairs with finitely many losses: randomized response, discrete Laplace, what is known only to be ε-private, and
//! their Poisson samples.

use crate::memory::{gathered, room};
use ferrodp_core::Isa;

use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::rdp::mixture;
use crate::rdp::quadrature::sum::{LARGE_EXCESS, ORDER_LANES, Request, centered_on};
use crate::rdp::quadrature::table::{self, Entry, Table};
use crate::types::Bounds;

/// Atoms beyond which a coarser bound is used.
const MAX_ATOMS: u64 = 1 << 16;

/// Largest exponent that is left to the sums.
const LARGEST_LOG: f64 = 600.0;

/// A pair by its atoms: P-masses and losses.
#[derive(Clone, Debug)]
pub struct Discrete {
    table: Table,
    /// Errors of the logarithms of the masses, in units.
    log_errors: Vec<f64>,
    /// Q-mass where P has none.
    missing: f64,
    /// P-mass where Q has none.
    infinite: f64,
}

/// One atom: the P-mass as its logarithm within `log_error`, the loss within `loss_error` of itself, in units.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdp) struct Atom {
    pub(in crate::rdp) log_mass: f64,
    pub(in crate::rdp) log_error: f64,
    pub(in crate::rdp) loss: f64,
    pub(in crate::rdp) loss_error: f64,
}

impl Discrete {
    /// Returns the pair with these atoms.
    pub(in crate::rdp) fn new(atoms: &[Atom], missing: f64, infinite: f64) -> Self {
        let mut table = Table::default();
        table.grow(atoms.len());
        for atom in atoms {
            table.push(Entry {
                mass: exp(atom.log_mass),
                log_mass: atom.log_mass,
                loss: atom.loss,
                mass_error: atom.log_error + 8.0,
                log_error: atom.log_error,
                loss_error: atom.loss_error,
            });
        }
        Self { table, log_errors: gathered(atoms.iter().map(|atom| atom.log_error)), missing, infinite }
    }

    /// Returns the pair that dominates all ε-private ones: `P = (e^ε, 1)/(1 + e^ε)` and its mirror image (Kairouz, Oh,
    /// Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3's proof).
    #[must_use]
    pub fn pure(epsilon: f64) -> Self {
        let log = -ln_1p(exp(-epsilon));
        let error = 12.0 + 2.0 * epsilon;
        let atom = |log_mass: f64, loss: f64| Atom { log_mass, log_error: error, loss, loss_error: 0.0 };
        Self::new(&[atom(log, epsilon), atom(log - epsilon, -epsilon)], 0.0, 0.0)
    }

    /// Returns the pairs of randomized response among `k` answers, drawn uniformly with probability `p`: two true answers, or,
    /// if `is_special`, a true answer and none, which is drawn uniformly, in both directions.
    #[must_use]
    pub fn randomized_response(p: f64, k: f64, is_special: bool) -> Vec<Self> {
        let truth = 1.0 - p + p / k;
        let atom = |mass: f64, loss: f64| Atom {
            log_mass: ln(mass),
            log_error: 24.0 + 8.0 * ln(mass).abs(),
            loss,
            loss_error: 24.0,
        };
        if is_special {
            let up = ln_1p((k - 1.0) * (1.0 - p));
            if p == 0.0 {
                return vec![
                    Self::new(&[atom(1.0, up)], (k - 1.0) / k, 0.0),
                    Self::new(&[atom(1.0 / k, -up)], 0.0, (k - 1.0) / k),
                ];
            }
            let (down, other) = (ln(p), (k - 1.0) / k);
            return vec![
                Self::new(&[atom(truth, up), atom(other * p, down)], 0.0, 0.0),
                Self::new(&[atom(1.0 / k, -up), atom(other, -down)], 0.0, 0.0),
            ];
        }
        if p == 0.0 {
            return vec![Self::new(&[], 1.0, 1.0)];
        }
        let odds = k * (1.0 - p) / p;
        let loss = if odds < f64::INFINITY { ln_1p(odds) } else { (ln(k) - ln(p)) + ln_1p(-p) };
        let other = (k - 2.0) / k * p;
        let mut atoms = vec![atom(truth, loss), Atom { log_mass: ln(p) - ln(k), ..atom(truth, -loss) }];
        atoms[1].log_error = 40.0 + 10.0 * (ln(p).abs() + ln(k));
        if other > 0.0 {
            atoms.push(atom(other, 0.0));
        }
        vec![Self::new(&atoms, 0.0, 0.0)]
    }

    /// Returns the pair of discrete Laplace noise of inverse scale `a`, rounded up (adding noise is post-processing), and
    /// integer sensitivity `Δ`: losses `a·(2x − Δ)` for `0 ≤ x ≤ Δ`. `None` if those are too many.
    #[must_use]
    pub fn discrete_laplace(a: f64, sensitivity: u64) -> Option<Self> {
        if sensitivity > MAX_ATOMS || a == f64::INFINITY {
            return None;
        }
        // P(x ≥ Δ) = 1/(1 + e^{−a}); inside, tanh(a/2)·e^{−a(Δ−x)}.
        let (end, inside) = (-ln_1p(exp(-a)), ln(-expm1(-a)) - ln_1p(exp(-a)));
        let atoms = gathered((0..sensitivity + 1).map(|x| {
            let below = (sensitivity - x) as f64;
            let is_end = x == 0 || x == sensitivity;
            let log_mass = (if is_end { end } else { inside }) - a * below;
            let log_error = 40.0 + 12.0 * inside.abs() + 3.0 * a * below;
            Atom { log_mass, log_error, loss: a * (x as f64 - below), loss_error: 1.0 }
        }));
        Some(Self::new(&atoms, 0.0, 0.0))
    }

    /// Returns the pairs of a Poisson sample, `0 < q < 1`: `q·P + (1 − q)·Q` against `Q`, and the other way round.
    ///
    /// If `(P, Q)` dominates the release with the record against that without it, these dominate the sampled one (Zhu, Dong,
    /// Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022, Theorem 11).
    /// `None` if P and Q do not have the same support.
    #[must_use]
    pub fn sampled(&self, q: f64) -> Option<Vec<Self>> {
        if self.missing > 0.0 || self.infinite > 0.0 {
            return None;
        }
        let log_q = ln(q);
        let (mut remove, mut add) = (room(self.table.len()), room(self.table.len()));
        for index in 0..self.table.len() {
            let (log_mass, y) = (self.table.log_mass[index], self.table.loss[index]);
            let (loss, loss_error) = mixture::loss(q, log_q, y, expm1(y), 26.0);
            // Of the P-mass, from which that under Q differs by the factor e^{−y}.
            let log_error = self.log_errors[index] + 28.0 * y.abs() + log_mass.abs();
            let log_unsampled = log_mass - y;
            add.push(Atom { log_mass: log_unsampled, log_error, loss: -loss, loss_error });
            let log_error = log_error + (loss_error + 2.0) * loss.abs();
            remove.push(Atom { log_mass: log_unsampled + loss, log_error, loss, loss_error });
        }
        Some(vec![Self::new(&remove, 0.0, 0.0), Self::new(&add, 0.0, 0.0)])
    }

    /// Writes bounds on `ρ(α)` for every order `α ≥ 1`.
    pub fn bounds(&self, isa: Isa, orders: &[f64], bounds: &mut [Bounds]) {
        for (orders, bounds) in orders.chunks(ORDER_LANES).zip(bounds.chunks_mut(ORDER_LANES)) {
            self.bounds_of_lanes(isa, orders, bounds);
        }
    }

    fn bounds_of_lanes(&self, isa: Isa, orders: &[f64], bounds: &mut [Bounds]) {
        if self.infinite > 0.0 || self.table.len() == 0 {
            bounds.fill(Bounds::INFINITE);
            return;
        }
        let last = self.table.len() - 1;
        let mut beta = [0.0; ORDER_LANES];
        for (beta, &order) in beta.iter_mut().zip(orders) {
            *beta = if self.largest(order - 1.0) < LARGEST_LOG { order - 1.0 } else { 0.0 };
        }
        let sums = centered_on(isa, &self.table, &Request { beta, last: [last; ORDER_LANES] });
        let (total, error) = self.table.divergence(last);
        let divergence = Bounds {
            lower: (total - error + self.missing * (1.0 - 4.0 * UNIT)).max(0.0),
            upper: total + error + self.missing * (1.0 + 4.0 * UNIT),
        };
        for (lane, (bounds, &order)) in bounds.iter_mut().zip(orders).enumerate() {
            *bounds = if order == f64::INFINITY {
                let largest = self.table.loss.iter().copied().fold(0.0, f64::max);
                Bounds::within(largest, 26.0)
            } else if order == 1.0 {
                divergence
            } else if beta[lane] == 0.0 {
                self.shifted(order).rate(order)
            } else {
                let error = table::error(sums.total[lane], sums.weighted[lane], last);
                let upper = sums.total[lane] + error + beta[lane] * divergence.upper;
                let lower = (sums.total[lane] * (1.0 - LARGE_EXCESS) - error).max(0.0) + beta[lane] * divergence.lower;
                // Terms below e⁻⁷⁰⁰ were raised to it.
                let lower = (lower - 1e-280 * beta[lane]).max(0.0);
                Bounds { lower: ln_1p(lower) * (1.0 - 12.0 * UNIT), upper: ln_1p(upper) * (1.0 + 12.0 * UNIT) }
                    .rate(order)
            };
        }
    }

    /// Returns the largest exponent `ln p + βl`.
    fn largest(&self, beta: f64) -> f64 {
        self.exponents(beta).fold(f64::NEG_INFINITY, f64::max)
    }

    fn exponents(&self, beta: f64) -> impl Iterator<Item = f64> {
        self.table.log_mass.iter().zip(&self.table.loss).map(move |(log_mass, loss)| log_mass + beta * loss)
    }

    /// Returns bounds on `ln A` where `A` is beyond the range of floats.
    fn shifted(&self, order: f64) -> Bounds {
        let (beta, last) = (order - 1.0, self.table.len() - 1);
        let largest = self.largest(beta);
        if largest == f64::INFINITY {
            return Bounds { lower: 0.0, upper: f64::INFINITY };
        }
        let (mut total, mut weighted) = (0.0, 0.0);
        for (k, exponent) in self.exponents(beta).enumerate() {
            let term = exp((exponent - largest).max(-700.0));
            total += term;
            weighted += term * (self.table.constant[k] + beta * self.table.slope[k] + 700.0 + last as f64);
        }
        let error = table::error(total, weighted, last) / total + last as f64 * 1e-300;
        let slack = error * 1.01 + 16.0 * UNIT * (largest + 1.0);
        Bounds { lower: largest + ln(total) - slack, upper: largest + ln(total) + slack }
    }
}
