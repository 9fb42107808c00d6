//! The Rényi curve of the Poisson-sampled Gaussian mechanism when one record is replaced by another.
//!
//! Both records take part with probability `q`. Where a contribution is at most half a sensitivity away from none, as in sums of
//! clipped ones (`null_distance` ½; what is farther away needs other bounds), opposite contributions are the worst: `P = q·N(½, σ²) + (1 − q)·N(0, σ²)` against `Q`, its mirror image, so that both directions are the same
//! (Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022, Theorem 11).
//!
//! In units of `σ`, with the normal density `φ₀`, `P = φ₀·N`, `Q = φ₀·D`, `N, D = 1 − q + q·e^{±st/2 − s²/8}`; `l = ln(N/D)` is
//! odd. The nodes are `t = k·h`. As in `nodes`, `A − 1 = Σ p·φ(βl) + β·Σ p·φ(−l)`, and only the error terms differ.
//!
//! # Aliasing
//! The integrand is `φ₀·αβ·(N − D)²·D^{1−α}·K`, `K = ∫₀¹ (1 − τ)·M^{α−2} dτ`, `M = (1 − τ)D + τN`. On the line `Im t = a` the
//! exponentials turn by `θ = sa/2 < π/2`: `|D|` is at least `cos(θ/2)` times its value at the real part and `|M|` between `cos θ`
//! times and once its own; `|N − D|² = (2q·e^{−s²/8})²(sinh²(st̄/2) + sin²θ)`. For `W = D^{1−α}·K`, `(ln W)″ ≥ −κ`, `κ = (s²/4)(β/4 + 1)`: a
//! sum of exponentials with slopes −1, 0, 1 has a logarithm with a second derivative of at most 1, with two slopes ¼, and
//! logarithms of mixtures are no less convex. By the Cramér–Rao inequality `E_W[sinh²(st/2)] ≥ (s²/4)/(1 + κ)`, and
//!
//! ```text
//! η(α) = 2·(2 + a² + β/4)·cos(θ/2)^{−β}·(1/cos θ)·e^{a²/2}/(e^{2πa/h} − 1),
//! ```
//!
//! relative to `A − 1`; the last cosine for `α < 2` only. It grows with the order, so that larger orders have finer nodes: one set
//! for each factor of four in the order. `A` itself has the same error and less: `|N^α·D^{1−α}|` grows by `cos(θ/2)^{−β}` only.
//!
//! # Truncation
//! With `E = u·f′/f ≤ 2 + βu/(1 + u)`, `u = N/D − 1`, the logarithmic slope of the integrand without `φ₀` is, for `t > 0`,
//! `(s/2)·(E·coth(st/2) + (E − 1)·q·e^{−st/2−s²/8}/D) ≤ (s/2)(2·coth(st/2) + 3β + 1)`, as `u/(1 + u) ≤ 1 − e^{−st}`; and for `t < 0`,
//! in `|t|`, at most `s·(coth(s|t|/2) + 1)`. That of `N^α·D^{1−α}` is at most `(2α − 1)s/2` to the right and negative to the left.

use core::f64::consts::PI;

use std::collections::BTreeMap;

use ferrodp_core::Isa;

use crate::functions::{cos, exp, expm1, ln, ln_1p};
use crate::rdp::mixture;
use crate::rdp::quadrature::nodes::{INVERSE_ROOT_TWO_PI, LN_ROOT_TWO_PI, MAX_QUADRATURE_NODES, Rule, shortened};
use crate::rdp::quadrature::table::{Entry, Table};
use crate::rdp::quadrature::{
    LARGEST_LOG, LEAST_PROBABILITY, LEAST_PRODUCT, Quadrature, UNDERFLOW_ALLOWANCE, Waiting, largest, shifted,
};
use crate::types::Bounds;

/// The curve of one mechanism.
#[derive(Clone, Debug)]
pub struct PoissonReplaced {
    s: f64,
    q: f64,
    rule: Rule,
    /// By the level of the order; `None` if there would be too many nodes.
    sets: BTreeMap<usize, Option<Nodes>>,
}

impl PoissonReplaced {
    /// Returns the curve for a noise multiplier > 0, relative to the distance of two records' contributions, and a sampling
    /// probability in [0, 1].
    #[must_use]
    pub fn new(noise_multiplier: f64, sampling_probability: f64) -> Self {
        Self::with_rule(noise_multiplier, sampling_probability, Rule::default())
    }

    /// As [`PoissonReplaced::new`], with more or fewer nodes: the bounds hold for any rule.
    #[must_use]
    pub fn with_rule(noise_multiplier: f64, sampling_probability: f64, rule: Rule) -> Self {
        let s = (1.0 / noise_multiplier).next_up();
        let least = LEAST_PROBABILITY.max(LEAST_PRODUCT / s).min(1.0);
        let q = if sampling_probability > 0.0 { sampling_probability.max(least) } else { 0.0 };
        Self { s, q, rule, sets: BTreeMap::new() }
    }

    /// Writes upper bounds on `ρ(α)` for every order `α ≥ 1`; the lower ones are zero. Each depends on its own order alone.
    ///
    /// # Panics
    /// If `orders` and `bounds` differ in length.
    pub fn bounds(&mut self, isa: Isa, orders: &[f64], bounds: &mut [Bounds]) {
        assert_eq!(orders.len(), bounds.len(), "one result an order");
        let mut waiting = Waiting::default();
        let mut level = 0;
        for (index, &order) in orders.iter().enumerate() {
            bounds[index] = Bounds { lower: 0.0, upper: f64::INFINITY };
            if self.q == 0.0 {
                bounds[index] = Bounds::ZERO;
            }
            if !(0.0 < self.q && self.q < 1.0 && order < f64::INFINITY) {
                continue;
            }
            let needed = self.level(order);
            if needed != level {
                if let Some(Some(nodes)) = self.sets.get(&level) {
                    waiting.answer(isa, nodes, bounds);
                }
                level = needed;
            }
            let Some(nodes) = self.nodes(level) else { continue };
            if order == 1.0 {
                bounds[index].upper = nodes.divergence().1;
                continue;
            }
            let Some(last) = nodes.last(order) else { continue };
            nodes.extend(last);
            let largest = largest(nodes.table(), order - 1.0, last);
            if largest > LARGEST_LOG {
                bounds[index] = shifted(nodes, order, last, largest).rate(order);
            } else if waiting.add(index, order, last) {
                waiting.answer(isa, nodes, bounds);
            }
        }
        if let Some(Some(nodes)) = self.sets.get(&level) {
            waiting.answer(isa, nodes, bounds);
        }
        for (bounds, &order) in bounds.iter_mut().zip(orders) {
            // Sampling can only take away from α/2σ²; s² is within 5 units, the products within 2.
            let unsampled = Bounds::within(0.5 * order * (self.s * self.s), 8.0).upper;
            // Written so that what is not a number is the unsampled one, which at infinite order is infinite (an s² that
            // underflows would make it no number).
            let is_less = bounds.upper < unsampled || self.q == 0.0;
            let limit = if order == f64::INFINITY { f64::INFINITY } else { unsampled };
            let upper = if is_less { bounds.upper } else { limit };
            *bounds = Bounds { lower: 0.0, upper };
        }
    }

    /// Returns the level of an order: the factors of four by which `β` exceeds `β₀`, where it begins to matter.
    fn level(&self, order: f64) -> usize {
        let (mut level, mut limit) = (0, least_beta(self.s));
        while order - 1.0 > limit {
            (level, limit) = (level + 1, 4.0 * limit);
        }
        level
    }

    fn nodes(&mut self, level: usize) -> Option<&mut Nodes> {
        let (s, q, rule) = (self.s, self.q, self.rule);
        let made = || Nodes::new(s, q, least_beta(s) * 4.0_f64.powi(level as i32), rule);
        self.sets.entry(level).or_insert_with(made).as_mut()
    }
}

/// Returns `β₀`: below, `βs²/16` is no more than ⅛, or `β` no more than 4.
fn least_beta(s: f64) -> f64 {
    (2.0 / (s * s)).clamp(4.0, 1e9)
}

/// Nodes for the orders up to some `β`.
#[derive(Clone, Debug)]
struct Nodes {
    rule: Rule,
    q: f64,
    log_q: f64,
    s: f64,
    h: f64,
    log_h: f64,
    first: i64,
    table: Table,
    before: (f64, f64),
    divergence: (f64, f64),
}

impl Nodes {
    fn new(s: f64, q: f64, beta: f64, rule: Rule) -> Option<Self> {
        let h = spacing(s, beta, rule);
        let left = ((-rule.reach - 2.5 * s) / h).floor();
        // The least order of this level has a quarter of its β.
        let right = 0.375 * beta * s / h;
        if !(h > 0.0 && right - left < MAX_QUADRATURE_NODES as f64) {
            return None;
        }
        let mut nodes = Self {
            rule,
            q,
            log_q: ln(q),
            s,
            h,
            log_h: ln(h) - LN_ROOT_TWO_PI,
            first: left as i64,
            table: Table::default(),
            before: (f64::INFINITY, f64::INFINITY),
            divergence: (0.0, f64::INFINITY),
        };
        let start = -(nodes.first as f64 * h);
        nodes.before = (nodes.beyond(start - s * (coth(0.5 * s * start) + 1.0)), nodes.beyond(start));
        let last = nodes.last(1.0)?;
        nodes.extend(last);
        let (total, error) = nodes.table.divergence(last);
        let tails = nodes.tails(nodes.table.divergent[0], nodes.table.divergent[last], last, 1.0);
        nodes.divergence.1 = (total + error + tails) / (1.0 - nodes.alias(1.0)).max(0.0) + UNDERFLOW_ALLOWANCE;
        Some(nodes)
    }

    /// Returns the index of the last node that an order needs, or `None` if there are too many.
    fn last(&self, order: f64) -> Option<usize> {
        let right = ((1.5 * (order - 1.0) * self.s + self.rule.reach + 2.5 * self.s) / self.h).ceil();
        let count = right - self.first as f64;
        (count < MAX_QUADRATURE_NODES as f64).then_some(count as usize)
    }

    fn extend(&mut self, last: usize) {
        self.table.grow((last + 1).saturating_sub(self.table.len()));
        while self.table.len() <= last {
            let t = self.place(self.table.len());
            let entry = self.entry(t);
            self.table.push(entry);
        }
    }

    fn place(&self, index: usize) -> f64 {
        (self.first + index as i64) as f64 * self.h
    }

    /// Returns the node at `t`.
    ///
    /// # Numerics
    /// With `x = s|t|/2` within 2 units, `y = x − s²/8` is within `2x + s²/2 + 1` units of 1, and so are the logarithms of `N` and
    /// `D`, which change by less than `y` does, beside the errors of `mixture`. For `x < 1`, `2·sinh x` is within 18 units of itself
    /// and `e^{−s²/8}` within `8 + s²`; from there on the difference of two exponentials is within 1.4 times `8 + 2x + s²/2 + 1`, and
    /// `D` is within `12 + 2x + s²/2 + 1`: so `u` is within `45 + 5x + 2s²`. What underflows in it is below 10⁻³⁰⁰.
    fn entry(&self, t: f64) -> Entry {
        let (q, s) = (self.q, self.s);
        let (x, eighth) = (0.5 * s * t.abs(), 0.125 * s * s);
        let spread = 2.0 * x + 4.0 * eighth + 1.0;
        let (up, down) = (x - eighth, -x - eighth);
        let (log_n, error_n) = mixture::loss(q, self.log_q, up, expm1(up), 0.0);
        let (log_d, error_d) = mixture::loss(q, self.log_q, down, expm1(down), 0.0);
        let (error_n, error_d) = (log_n.abs() * error_n + spread, log_d.abs() * error_d + spread);
        let growth = expm1(x);
        let gap = if x < 1.0 { exp(-eighth) * (growth + growth / (1.0 + growth)) } else { exp(up) - exp(down) };
        let u = q * gap / ((1.0 - q) + q * exp(down));
        let (loss, loss_error) = if x == 0.0 {
            (0.0, 0.0)
        } else if u <= 1000.0 {
            let loss = ln_1p(u);
            (loss, 8.0 + 1.0_f64.min(1.0 / loss) * (45.0 + 5.0 * x + 16.0 * eighth))
        } else {
            let loss = log_n - log_d;
            (loss, (error_n + error_d) / loss + 1.0)
        };
        let near = (t - 0.5 * s) * (t - 0.5 * s);
        let (shifted, unshifted) = (q * exp(-0.5 * near), (1.0 - q) * exp(-0.5 * t * t));
        let mass = self.h * INVERSE_ROOT_TWO_PI * (shifted + unshifted);
        let mean = if mass > 0.0 { (shifted * near + unshifted * t * t) / (shifted + unshifted) } else { 0.0 };
        // ln p is that of φ₀·N to the right; to the left N and D change places.
        let (log, log_error, y) = if t > 0.0 { (log_n, error_n, up) } else { (log_d, error_d, down) };
        let (rest, square) = if y > 0.0 { (log - y, near) } else { (log, t * t) };
        Entry {
            mass,
            log_mass: (rest - 0.5 * square) + self.log_h,
            loss: if t > 0.0 { loss } else { -loss },
            mass_error: 16.0 + 1.6 * mean,
            log_error: log_error + spread + y.abs() + 3.0 * rest.abs() + 2.5 * square + 60.0,
            loss_error,
        }
    }

    fn beyond(&self, excess: f64) -> f64 {
        if excess > 0.01 { 1.001 / (self.h * excess) } else { f64::INFINITY }
    }
}

impl Quadrature for Nodes {
    fn table(&self) -> &Table {
        &self.table
    }

    fn alias(&self, order: f64) -> f64 {
        let beta = order - 1.0;
        let a = line(self.s, beta, 2.0 * PI / self.h);
        let alias = 1.01 * exp(log_factor(self.s, beta, a) + 0.5 * a * a) / expm1(2.0 * PI * a / self.h);
        // Not a number if nothing converges at all.
        if alias < 1.0 { alias } else { 1.0 }
    }

    fn tails(&self, first: f64, last: f64, index: usize, order: f64) -> f64 {
        let (t, beta) = (self.place(index), order - 1.0);
        let slope = 0.5 * self.s * (2.0 * coth(0.5 * self.s * t) + 3.0 * beta + 1.0);
        first * self.before.0 + last * self.beyond(t - slope)
    }

    fn tails_of_power(&self, first: f64, last: f64, index: usize, order: f64) -> f64 {
        first * self.before.1 + last * self.beyond(self.place(index) - 0.5 * (2.0 * order - 1.0) * self.s)
    }

    fn divergence(&self) -> (f64, f64) {
        self.divergence
    }

    fn lowered(&self, _: f64, _: f64) -> f64 {
        0.0
    }

    fn log_lowered(&self, _: f64) -> f64 {
        f64::INFINITY
    }
}

fn coth(x: f64) -> f64 {
    1.0 + 2.0 / expm1(2.0 * x)
}

/// Returns `ln` of `2(2 + a² + β/4)·cos(θ/2)^{−β}/cos θ`, rounded up.
fn log_factor(s: f64, beta: f64, a: f64) -> f64 {
    let theta = 0.5 * s * a;
    let angle_term = -beta * ln(cos(0.5 * theta));
    ln(2.0 * (2.0 + a * a + 0.25 * beta) / cos(theta)) + angle_term * (1.0 + 1e-12) + 1e-15 * beta
}

/// Returns the line that is about best for a decay of `e^{−rate·a}`: where the bounds of the strip allow it.
fn line(s: f64, beta: f64, rate: f64) -> f64 {
    (rate / (1.0 + beta * s * s / 16.0)).min(2.8 / s)
}

/// Returns the spacing for orders up to some `β`: the exponent to be reached, `depth`, against that of the best line.
fn spacing(s: f64, beta: f64, rule: Rule) -> f64 {
    let width = 1.0 + beta * s * s / 16.0;
    let a = (2.0 * (rule.depth + 8.0) / width).sqrt().min(2.8 / s);
    shortened(2.0 * PI * a / (rule.depth + log_factor(s, beta, a) + 0.5 * a * a))
}
