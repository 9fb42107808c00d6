//! Rényi divergence of a round of random allocation when a record is added: `ρ(α) = ln E_Q[r̄^{−β}]/β`, `β = α − 1`.
//!
//! From `y^{−β} = ∫₀^∞ λ^{β−1}e^{−λy} dλ/Γ(β)`, independence, and `F(x) = E e^{−x·r}` for the lognormal `r` of mean 1,
//!
//! ```text
//! E r̄^{−β} = ∫ f(w) dw / ∫ e^{βw − e^w} dw,   f(w) = e^{βw}·F(e^w/T)^T,
//! ```
//!
//! for any real order and number of steps. With `D = λ + T·ln F(λ/T)`, which is ≥ 0 by Jensen's inequality,
//! `A − 1 = ∫ e^{βw−λ}(e^D − 1) dw/Γ(β)` loses no digits.
//!
//! # Outer rule
//! On the line `Im w = φ`, `|f| ≤ e^{βw}F(e^w·cos φ/T)^T` at the real part, whose integral is `(cos φ)^{−β}·∫f`; likewise below. The
//! trapezoid rule is within `η = 2·(cos φ)^{−β}/(e^{2πφ/h} − 1)` of either integral, relatively (Trefethen, Weideman, SIAM Review
//! 2014, Theorem 5.1). Below the first node `e^D − 1 ≤ 1.1·D ≤ 0.55·λ²e^{s²}/T`. `ln f` is concave: `F(e^w) = E exp(−e^{w+Y})` with a normal
//! `Y` is the marginal of a log-concave function (Prékopa 1973). So where `f` has fallen by a factor `e^{nδ}` in the `n` steps since its largest
//! term, it falls by `e^δ` or more in every step that follows, and all that follows is at most `1/(e^δ − 1)` times the last term.
//!
//! # Inner rule
//! `ln F(x)` from `F = 1 − x + E[e^{−xr} − 1 + xr]` for small `x`, from `E e^{−xr}` otherwise: trapezoid sums over the normal
//! variable of `r`. On the line `Im z = a` with `sa ≤ ½`, `|e^{−xr}| ≤ e^{−xr̄·cos(sa)}` and `E e^{−cxr} ≤ F(x)^c`, so that the aliasing error is at
//! most `2·e^{a²/2}·F^{cos(sa)}/(e^{2πa/h} − 1)`, and `x·E|r| = x·e^{a²/2}` takes part where 1 and `xr` are subtracted.
//! Beyond the last node, 9.5 standard deviations above what the square of `r` makes of 0, `e^{−xr}` is less than on average, so that less than
//! `10⁻²⁰` of `F` lies there. Nodes `z` with `z²/2 > 50 + x` are left out below: they sum to less than `Φ(−√(100 + 2x)) < e^{−50−x}/2`, and
//! `F ≥ e^{−x}` by Jensen's inequality.
//!
//! # Many orders
//! `D` does not depend on the order. Spacings of the outer rule are powers of two, so that orders share nodes, and a [`Table`] of
//! `D` by node is kept for a round: further orders cost a few exponentials a node.

use crate::memory::push;
use core::f64::consts::{FRAC_1_SQRT_2, PI};
use ferrodp_core::machine::hashing::Map;

use crate::functions::{UNIT, cos, erfc, exp, expm1, ln, ln_1p, sqrt};

/// The Rényi curve of one round when a record is added, and what its orders share.
#[derive(Clone, Debug)]
pub struct AddedMoments {
    s: f64,
    steps: f64,
    /// None where the integral is not used.
    table: Option<Table>,
}

impl AddedMoments {
    /// Returns the curve for noise of standard deviation `1/s` and `steps` steps.
    #[must_use]
    pub fn new(s: f64, steps: u64) -> Self {
        let steps = steps as f64;
        let is_used = steps > 1.0 && (1e-3..=4.0).contains(&s);
        Self { s, steps, table: is_used.then(|| Table::new(s, steps, &Budget::PROVEN)) }
    }

    /// Returns an upper bound on `ρ(α)`, `α > 1`. It depends on no order that was computed before.
    ///
    /// The smaller of two: the integral, where it is short enough, and `α/2σ²T + (1 − 1/T)/2σ²`, which follows from the arithmetic
    /// mean being no less than the geometric one.
    pub fn rate(&mut self, order: f64) -> f64 {
        let (s, steps) = (self.s, self.steps);
        let square = s * s * (1.0 + 4.0 * UNIT);
        let means = (0.5 * square) * (order / steps + (1.0 - 1.0 / steps)) * (1.0 + 8.0 * UNIT);
        // The divergence of a lower order is no more.
        let beta = order.max(1.05) - 1.0;
        let Some(table) = &mut self.table else { return means };
        if beta > 300.0 || beta * s * s > 300.0 {
            return means;
        }
        means.min(integral(table, beta, &Budget::PROVEN).map_or(f64::INFINITY, |found| found.rate_upper(beta)))
    }
}

/// How much may be left out. Tests leave out more, so that what stands for it can be seen.
#[derive(Clone, Copy)]
struct Budget {
    /// `−ln` of the aliasing errors of the outer and of the inner rule, but for the growth of their integrands.
    outer: f64,
    inner: f64,
    /// `−ln λ` at the first node, less `s²/2`, and how far the integrand has fallen at the last one, as a logarithm.
    left: f64,
    right: f64,
    /// Standard deviations that the inner nodes reach up, beyond `2s`.
    reach: f64,
}

impl Budget {
    const PROVEN: Self = Self { outer: 52.0, inner: 62.0, left: 26.0, right: 52.0, reach: 9.5 };
}

/// `A − 1 = excess/norm`, and what else `excess` may hold: each term is an upper bound.
#[derive(Clone, Copy, Debug)]
struct Moment {
    excess: f64,
    norm: f64,
    /// Rounding of the terms and of their sum; of the norm, relatively.
    rounding: f64,
    norm_rounding: f64,
    /// Errors of `D`.
    inner: f64,
    /// Below the first node and above the last.
    left: f64,
    right: f64,
    /// Relative error of either rule's sum.
    outer: f64,
}

impl Moment {
    /// Returns an upper bound on `A − 1`.
    fn upper(&self) -> f64 {
        let excess = self.excess + self.rounding + self.inner + self.left + self.right;
        let ratio = excess / (self.norm * (1.0 - self.norm_rounding));
        (ratio + 4.0 * self.outer * (1.0 + ratio)) * (1.0 + 16.0 * UNIT)
    }

    /// Returns an upper bound on `ln A/β`.
    fn rate_upper(&self, beta: f64) -> f64 {
        ln_1p(self.upper()) / beta * (1.0 + 32.0 * UNIT)
    }
}

fn integral(table: &mut Table, beta: f64, budget: &Budget) -> Option<Moment> {
    let (s, steps) = (table.inner.s, table.steps);
    let phi = sqrt(40.0 / beta).min(1.2);
    let spread = -ln(cos(phi));
    let h = libm::exp2(libm::floor(libm::log2(2.0 * PI * phi / (budget.outer + (beta + 1.0) * spread))));
    // The left end, where λ² is 10⁻²².
    let first = ((-budget.left - 0.5 * s * s) / h).floor();
    // Terms are relative to e^{β·ln β − β}, the largest of the norm's.
    let base = beta * ln(beta) - beta;
    let mut found = Moment {
        excess: 0.0,
        norm: 0.0,
        rounding: 0.0,
        norm_rounding: 0.0,
        inner: 0.0,
        left: 0.6 * exp((beta + 2.0) * (first * h) - base + s * s) / steps / -expm1(-(beta + 2.0) * h),
        right: 0.0,
        outer: 2.02 * exp((beta + 1.0) * spread) / expm1(2.0 * PI * phi / h),
    };
    // The largest ln f, its error, and the step it was found at.
    let mut largest = (f64::NEG_INFINITY, 0.0, 0);
    for step in 0..20_000_u32 {
        let w = (first + f64::from(step)) * h;
        let lambda = exp(w);
        let exponent = beta * w - lambda - base;
        let (d, d_error) = table.excess(w, lambda)?;
        let units = 32.0 + 16.0 * (beta * (1.0 + w.abs()) + lambda + base.abs() + d);
        // Γ(β) = Γ(β + 1)/β: this one converges to the left whatever β is.
        let plain = exp(exponent + w);
        found.norm += plain / beta;
        found.norm_rounding += plain / beta * (units + 1.0) * UNIT;
        let log_f = exponent + d;
        let f = exp(log_f);
        let term = f * -expm1(-d);
        found.excess += term;
        found.rounding += term * units * UNIT;
        found.inner += f * d_error * (1.0 + d_error);
        if log_f > largest.0 {
            largest = (log_f, d_error, step);
        }
        let fall = (largest.0 - log_f - d_error - largest.1) / f64::from(step - largest.2);
        if log_f < largest.0 - budget.right && fall > 0.0 && w > ln(beta) {
            found.right = 1.01 * f * (1.0 + 2.0 * d_error) / expm1(fall);
            let sums = 2.0 * f64::from(step) * UNIT;
            found.rounding += found.excess * sums;
            found.norm_rounding = found.norm_rounding / found.norm + sums;
            return Some(found);
        }
    }
    None
}

/// `D` at the nodes of the outer rule that were needed.
#[derive(Clone, Debug)]
struct Table {
    steps: f64,
    inner: Inner,
    known: Map<i64, Option<(f64, f64)>>,
}

impl Table {
    fn new(s: f64, steps: f64, budget: &Budget) -> Self {
        Self { steps, inner: Inner::new(s, budget), known: Map::default() }
    }

    /// Returns [`Inner::excess`] at `λ = e^w`; `w` is a multiple of 2⁻²⁰.
    fn excess(&mut self, w: f64, lambda: f64) -> Option<(f64, f64)> {
        let node = (w * f64::from(1 << 20)) as i64;
        *self.known.entry(node).or_insert_with(|| self.inner.excess(lambda, self.steps))
    }
}

/// Nodes of the inner rule: weights and values of `r`.
#[derive(Clone, Debug)]
struct Inner {
    nodes: Vec<(f64, f64)>,
    /// Their spacing, and the number of the first.
    h: f64,
    first: f64,
    /// `2·e^{a²/2}/(e^{2πa/h} − 1)`, and `1 − cos(sa)`.
    alias: f64,
    loss: f64,
    /// What lies beyond the last node: `F`'s relative to itself, and that of `E[e^{−xr} − 1 + xr]` relative to `x²e^{s²}`.
    tail: f64,
    s: f64,
}

impl Inner {
    fn new(s: f64, budget: &Budget) -> Self {
        let a = (0.5 / s).min(6.0);
        let h = 2.0 * PI * a / (0.5 * a * a + budget.inner);
        let alias = 2.02 * exp(0.5 * a * a) / expm1(2.0 * PI * a / h);
        let first = (-40.0 / h).floor();
        let last = ((budget.reach + 2.0 * s) / h).ceil();
        let mut nodes = Vec::new();
        let mut j = first;
        while j <= last {
            let z = j * h;
            push(&mut nodes, (h / sqrt(2.0 * PI) * exp(-0.5 * (z * z)), exp(s * z - 0.5 * (s * s))));
            j += 1.0;
        }
        // Φ(−reach), and 10⁻²⁰ for Φ(−40) and what is rounded.
        let tail = 0.5 * erfc(budget.reach * FRAC_1_SQRT_2) * (1.0 + 1e-9) + 1e-20;
        Self { nodes, h, first, alias, loss: 1.0 - cos(s * a), tail, s }
    }

    /// Returns the nodes that count at `x`.
    fn nodes_at(&self, x: f64) -> &[(f64, f64)] {
        let left_out = -sqrt(2.0 * (50.0 + x)) / self.h - 2.0 - self.first;
        &self.nodes[(left_out.max(0.0) as usize).min(self.nodes.len())..]
    }

    /// Returns `D = λ + T·ln F(λ/T)` and a bound on its error, or `None` where it is not known to 1.
    fn excess(&self, lambda: f64, steps: f64) -> Option<(f64, f64)> {
        let x = lambda / steps;
        if x < 0.5 {
            // c = E[e^{−xr} − 1 + xr], each term within a few units of itself by its own series where xr is small.
            let c: f64 = self.nodes_at(x).iter().map(|&(weight, r)| weight * second(x * r)).sum();
            let tail = self.tail * x * x * exp(self.s * self.s);
            let alias = self.alias * (2.0 + x) + tail;
            // ln(1 − (x − c)) + x = c − m²/2 − m³/3 − …, m = x − c
            let m = x - c;
            let rest = minus_log_rest(m);
            let d = steps * (c - rest);
            let error = steps * (alias * 2.0 + (c + rest) * 400.0 * UNIT) + lambda * 4.0 * UNIT * x;
            return Some((d.max(0.0), error));
        }
        let f: f64 = self.nodes_at(x).iter().map(|&(weight, r)| weight * exp(-x * r)).sum();
        if f < 1e-200 {
            return None;
        }
        let log = ln(f);
        let relative = self.alias * exp(-self.loss * log) + 1.1 * self.tail + 400.0 * UNIT * (1.0 + log.abs());
        let error = steps * relative * 1.1 + 4.0 * UNIT * (lambda + steps * log.abs());
        (relative < 0.1 && error < 1.0).then_some(((lambda + steps * log).max(0.0), error))
    }
}

/// Returns `e^{−y} − 1 + y` for `y ≥ 0`.
fn second(y: f64) -> f64 {
    if y > 0.1 {
        return expm1(-y) + y;
    }
    let (mut term, mut sum, mut k) = (0.5 * y * y, 0.0, 2.0);
    while k < 16.0 {
        sum += term;
        k += 1.0;
        term *= -y / k;
    }
    sum
}

/// Returns `−ln(1 − m) − m` for `0 ≤ m < 0.6`.
fn minus_log_rest(m: f64) -> f64 {
    if m > 0.1 {
        return -ln_1p(-m) - m;
    }
    let (mut power, mut sum, mut k) = (m * m, 0.0, 2.0);
    while k < 24.0 {
        sum += power / k;
        power *= m;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::twofold::Twofold;

    /// `(s, T, β)`.
    const SETTINGS: [(f64, f64, f64); 7] = [
        (1.0, 2.0, 1.5),
        (0.5, 10.0, 4.0),
        (0.25, 100.0, 20.0),
        (2.0, 3.0, 0.5),
        (0.1, 1000.0, 60.0),
        (1.5, 20.0, 8.0),
        (0.01, 7.0, 3.0),
    ];

    fn moment(s: f64, steps: f64, beta: f64, budget: &Budget) -> Option<Moment> {
        integral(&mut Table::new(s, steps, budget), beta, budget)
    }

    #[test]
    fn an_order_is_answered_alike_whatever_was_asked_before() {
        let orders = [1.01, 1.5, 3.0, 17.25, 64.0, 250.0];
        let mut used = AddedMoments::new(0.8, 50);
        for order in orders.iter().chain(orders.iter().rev()) {
            assert_eq!(AddedMoments::new(0.8, 50).rate(*order), used.rate(*order));
        }
    }

    /// Counts how often the bound would be too small without one of its terms; with it, it never is.
    fn wrong_without(budgets: &[Budget], without: impl Fn(Moment) -> Moment) -> usize {
        let mut wrong = 0;
        for (s, steps, beta) in SETTINGS {
            let exact = moment(s, steps, beta, &Budget::PROVEN).expect("short enough");
            // The fine integral is that close: its own terms say so.
            let truth = exact.upper() * (1.0 - 1e-7);
            assert!(exact.excess / exact.norm > truth, "{s} {steps} {beta}: {exact:?}");
            for budget in budgets {
                // Where D is not known to 1 there is no bound at all.
                let Some(found) = moment(s, steps, beta, budget) else { continue };

                assert!(found.upper() >= truth, "{s} {steps} {beta}: {found:?} {exact:?}");
                wrong += usize::from(without(found).upper() < truth);
            }
        }
        wrong
    }

    #[test]
    fn aliasing_of_the_outer_rule() {
        let budgets = [4.0, 8.0, 12.0, 16.0].map(|outer| Budget { outer, ..Budget::PROVEN });
        assert!(wrong_without(&budgets, |found| Moment { outer: 0.0, ..found }) >= 3);
    }

    #[test]
    fn aliasing_of_the_inner_rule() {
        let mut wrong = 0;
        for (s, steps) in [(0.05, 10.0), (0.2, 3.0), (0.01, 100.0), (1.0, 5.0), (3.0, 2.0)] {
            let fine = Inner::new(s, &Budget::PROVEN);
            for inner in [6.0, 8.0, 10.0, 12.0] {
                let coarse = Inner::new(s, &Budget { inner, ..Budget::PROVEN });
                let careless = Inner { nodes: coarse.nodes.clone(), alias: 0.0, ..coarse };
                for lambda in [0.01, 0.3, 1.0, 4.0, 20.0] {
                    let (Some(truth), Some(found)) = (fine.excess(lambda, steps), coarse.excess(lambda, steps)) else {
                        continue; // no bound is claimed
                    };
                    let off = (found.0 - truth.0).abs() - truth.1;

                    assert!(off <= found.1, "{s} {steps} {inner} {lambda}: {found:?} {truth:?}");
                    wrong += usize::from(careless.excess(lambda, steps).is_some_and(|(_, error)| off > error));
                }
            }
        }
        assert!(wrong >= 10, "{wrong}");
    }

    #[test]
    fn tail_of_the_inner_rule() {
        let budgets = [1.0, 2.0, 3.0, 4.0].map(|reach| Budget { reach, ..Budget::PROVEN });
        assert!(wrong_without(&budgets, |found| Moment { inner: 0.0, ..found }) >= 3);
    }

    #[test]
    fn left_of_the_first_node() {
        // Of the bound itself not enough is missing: the norm lacks more there, which errs on the other side.
        let mut wrong = 0;
        for (s, steps, beta) in SETTINGS {
            let exact = moment(s, steps, beta, &Budget::PROVEN).expect("short enough");
            for left in [0.0, 1.0, 2.0, 4.0] {
                let found = moment(s, steps, beta, &Budget { left, ..Budget::PROVEN }).expect("as the other");
                let missing = exact.excess - found.excess - exact.inner - exact.rounding;

                assert!(missing <= found.left, "{s} {steps} {beta} {left}: {found:?} {exact:?}");
                wrong += usize::from(missing > 1e-9 * exact.excess);
            }
        }
        assert!(wrong >= 5, "{wrong}");
    }

    #[test]
    fn right_of_the_last_node() {
        let budgets = [0.5, 1.0, 2.0, 4.0].map(|right| Budget { right, ..Budget::PROVEN });
        assert!(wrong_without(&budgets, |found| Moment { right: 0.0, ..found }) >= 3);
    }

    /// `(s, β, A − 1)` for two steps, the last one as a sum of two floats: `e^{βv + β²v/2}·E[(cosh d)^{−β}] − 1` with
    /// `d ~ N(0, v)`, `v = s²/2`, from mpmath in 40 digits.
    const TRUTHS: [(f64, f64, (f64, f64)); 8] = [
        (1.0, 1.5, (1.880561712587613, 8.135771816484748e-17)),
        (0.5, 4.0, (2.6830532999420624, 1.5134804227306872e-16)),
        (0.25, 20.0, (759.5687991460381, -4.625097719936621e-14)),
        (2.0, 0.5, (1.6651799486355785, 1.8879124895614438e-17)),
        (0.125, 100.0, (1.509268476185953e+17, 0.19479701451025666)),
        (1.5, 8.0, (1.1325441724816339e+19, -99.86128407023638)),
        (0.75, 0.25, (0.04966617401345033, 2.0693583368779806e-18)),
        (0.0625, 3.0, (0.011799187880126865, -8.355483641725936e-19)),
    ];

    #[test]
    fn rounding() {
        let mut wrong = 0;
        for (s, beta, truth) in TRUTHS {
            let found = moment(s, 2.0, beta, &Budget::PROVEN).expect("short enough");
            let off = |moment: f64| Twofold::sum(moment, 0.0).minus(Twofold::sum(truth.0, truth.1)).float();

            assert!(off(found.upper()) >= 0.0, "{s} {beta}: {found:?}");
            let careless = Moment { rounding: 0.0, norm_rounding: 0.0, inner: 0.0, ..found };
            wrong += usize::from(off(careless.upper()) < 0.0);
        }
        assert!(wrong >= 1, "{wrong}");
    }
}
