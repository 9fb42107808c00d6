//! The nodes of the quadrature: P-masses and privacy losses of a pair, shared by all orders.
//!
//! Let `p_k` be the P-mass that the trapezoid rule gives to node `k` and `l_k` the privacy loss there, `φ(x) = eˣ − 1 − x ≥ 0`
//! and `β = α − 1`. As `E_P[e^{−L}] = 1`, `A(α) = E_P[e^{βL}]` obeys
//!
//! ```text
//! A(α) − 1 = E_P[φ(βL)] + β·E_P[φ(−L)] ≈ Σ p_k·φ(β·l_k) + β·Σ p_k·φ(−l_k),
//! ```
//!
//! sums of terms ≥ 0: nothing cancels, however small `A − 1` is. The second sum is the Kullback–Leibler divergence and does
//! not depend on the order; the first costs one exponential a node and order.
//!
//! # The pair
//! `Q = N(0, 1)`, `P = q·N(s, 1) + (1 − q)·N(0, 1)`, `s = 1/σ` rounded up (more loss). With `v = t − s/2` and `y = s·v`,
//! `r = dP/dQ = 1 − q + q·eʸ` and `l = ln r`. The nodes are `v = k·h`, `h` of 20 bits, so that they are exact.
//!
//! # Aliasing
//! The integrand `g(t) = φ₀(t)·f(u)`, `φ₀` the normal density, `u = r − 1`, `f(u) = (1 + u)^α − 1 − αu`, is analytic for
//! `|Im t| < πσ`. By Taylor's formula `f(u) = αβ·u²·J(u)`, `J(u) = ∫₀¹ (1 − τ)(1 + τu)^{α−2} dτ`. On the line `Im t = a`, let
//! `θ = a/σ < π`, and let a bar mark values at the real part. `1 + τu = (1 − τq) + τq·e^{ȳ+iθ}` has a modulus between
//! `cos(θ/2)` times and once `1 + τū`, hence `|J(u)| ≤ C·J(ū)` with `C = 1/cos(θ/2)` (`C = 1` from `α = 2` on); and
//! `|u|² = ū² + 4 sin²(θ/2)·q²e^ȳ`. So
//!
//! ```text
//! ∫|g(t + ia)| dt ≤ e^{a²/2}·C·(A − 1)·(1 + 4 sin²(θ/2)/E_W[4 sinh²(y/2)]),
//! ```
//!
//! the mean being over the density proportional to `φ₀·W`, `W = e^y·J`, as `ū²J = q²·4 sinh²(y/2)·W`. `ln W` is `y` plus the
//! logarithm of a mixture of powers of sums of exponentials: convex for `α ≥ 2`; for `α < 2` its second derivative in `y` is
//! at least `−¼`. Therefore the Fisher information of that density in `t` is at most `1 + s²/4`, its variance at least the
//! inverse (Cramér–Rao), and `E_W[4 sinh²(y/2)] ≥ E_W[y²] ≥ s²/(1 + s²/4)`. As `θ² σ² = a²` and `sin² ≤ 1`, the bracket is at
//! most `2 + a²`. The trapezoid rule is then within `η·(A − 1)` of `A − 1`,
//!
//! ```text
//! η = 2·(2 + a²)·C·e^{a²/2}/(e^{2πa/h} − 1)
//! ```
//!
//! (Trefethen, Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 2014, Theorem 5.1), *relative* to what
//! is sought. The same holds for the divergence (the limit `β → 0`), and for `A` itself, whose integrand is bounded by itself.
//!
//! # Truncation
//! `u·f′/f ≤ 2 + βu/(1 + u)` for `u > 0`, so `d ln f/dt ≤ s·(2/(1 − e^{−y}) + β)` for `y > 0`; and `d ln f/d|t| ≤ s·coth(|y|/2)`
//! for `y < 0`. (`u·f″/f′` lies between `min(1, β)` and `1 + βu/(1 + u)`; integrate. For `u < 0` it is at most
//! `1/(1 − |u|) ≤ e^{|y|}`, and `d ln|u|/d|y| = 1/(e^{|y|} − 1)`.) Both bounds fall outward. If `g` bounds the slope at the last
//! node and `|t| > g`, the terms beyond it decrease, and their sum is at most `last/(h·(|t| − g))`.
//!
//! # Rounding, in units of `u = 2⁻⁵³`
//! Per node, see [`Nodes::push`]: the mass within `a`, the loss within `b` of itself. `x·φ′(x)/φ(x) ≤ 2 + max(x, 0)`
//! carries an error of the loss into a term.

use crate::memory::grow;
use core::f64::consts::PI;

use super::table::{Entry, Table};
use super::{Quadrature, UNDERFLOW_ALLOWANCE};
use crate::functions::{UNIT, cos, exp, expm1, ln};
use crate::rdp::mixture;

/// How fine and how wide the rule is. The bounds hold for any; the default makes both errors vanish beside rounding.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// `−ln` of the aliasing error that is aimed at.
    pub depth: f64,
    /// Standard deviations to either side of where the mass of any order may be.
    pub reach: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { depth: 34.0, reach: 8.75 }
    }
}

/// More nodes than this are not made: the caller has another bound.
pub(in crate::rdp) const MAX_QUADRATURE_NODES: usize = 1 << 17;

/// Nodes of one pair, from the left end to the farthest order asked so far.
#[derive(Clone, Debug)]
pub(in crate::rdp) struct Nodes {
    rule: Rule,
    q: f64,
    s: f64,
    log_q: f64,
    h: f64,
    /// `ln(h/√2π)`
    log_h: f64,
    first: i64,
    table: Table,
    /// `2·s/(1 − e^{−y})`, which bounds a slope for `y > 0`.
    steepness: Vec<f64>,
    /// What to multiply the first term with to bound all before it, and the same for the powers themselves.
    before: (f64, f64),
    /// Relative aliasing error.
    alias: f64,
    /// Lower and upper bound on the Kullback–Leibler divergence.
    divergence: (f64, f64),
}

impl Nodes {
    /// Returns the nodes of a Poisson-sampled Gaussian, `0 < q < 1`, or `None` if there are too many.
    ///
    /// `s` is the inverse of the noise multiplier, rounded up by the caller.
    pub(in crate::rdp) fn new(s: f64, q: f64, rule: Rule) -> Option<Self> {
        let (h, alias) = spacing(s, rule);
        let left = ((-rule.reach - 1.5 * s) / h).floor();
        if !(h > 0.0 && left > -(MAX_QUADRATURE_NODES as f64)) {
            return None;
        }
        let mut nodes = Self {
            rule,
            q,
            s,
            log_q: ln(q),
            h,
            log_h: ln(h) - LN_ROOT_TWO_PI,
            first: left as i64,
            table: Table::default(),
            steepness: Vec::new(),
            before: (f64::INFINITY, f64::INFINITY),
            alias,
            divergence: (0.0, 0.0),
        };
        let start = -(nodes.first as f64 * h + 0.5 * s);
        let fall = -expm1(-(s * (start + 0.5 * s)));
        nodes.before = (nodes.beyond(start - s * (2.0 - fall) / fall), nodes.beyond(start));
        let last = nodes.last(1.0)?;
        nodes.extend(last);
        nodes.divergence = nodes.divergence_to(last);
        Some(nodes)
    }

    /// Returns the index of the last node that an order needs, or `None` if there are too many.
    pub(in crate::rdp) fn last(&self, order: f64) -> Option<usize> {
        let right = ((order * self.s + self.rule.reach + 0.5 * self.s) / self.h).ceil();
        let count = right - self.first as f64;
        (count < MAX_QUADRATURE_NODES as f64).then_some(count as usize)
    }

    /// Makes the nodes up to that index.
    pub(in crate::rdp) fn extend(&mut self, last: usize) {
        let missing = (last + 1).saturating_sub(self.table.len());
        self.table.grow(missing);
        grow(&mut self.steepness, missing);
        while self.table.len() <= last {
            self.push();
        }
    }

    /// Adds the next node.
    ///
    /// # Numerics
    /// The loss is that of `mixture`, from a `y` within one unit of itself; `e^{−d²/2}` is within `8 + 1.5·d²`.
    fn push(&mut self) {
        let (q, s) = (self.q, self.s);
        let v = (self.first + self.table.len() as i64) as f64 * self.h;
        let y = s * v;
        let growth = expm1(y);
        let (loss, loss_error) = mixture::loss(self.q, self.log_q, y, growth, 1.0);
        let (near, far) = (v - 0.5 * s, v + 0.5 * s);
        let (near, far) = (near * near, far * far);
        let (shifted, unshifted) = (q * exp(-0.5 * near), (1.0 - q) * exp(-0.5 * far));
        let mass = self.h * INVERSE_ROOT_TWO_PI * (shifted + unshifted);
        let mean = if mass > 0.0 { (shifted * near + unshifted * far) / (shifted + unshifted) } else { 0.0 };
        let mass_error = 16.0 + 1.6 * mean;
        let (rest, square) = if y > 0.0 { (loss - y, near) } else { (loss, far) };
        let log_mass = (rest - 0.5 * square) + self.log_h;
        let log_error = loss.abs() * loss_error + y.abs() + 3.0 * rest.abs() + 2.5 * square + 60.0;
        self.steepness.push(if y > 0.0 { 2.0 * s * (1.0 + 1.0 / growth) } else { f64::INFINITY });
        self.table.push(Entry { mass, log_mass, loss, mass_error, log_error, loss_error });
    }

    /// Returns bounds on the divergence from the nodes up to `last`, those of order 1.
    fn divergence_to(&self, last: usize) -> (f64, f64) {
        let (total, error) = self.table.divergence(last);
        let tails = self.tails(self.table.divergent[0], self.table.divergent[last], last, 1.0);
        let upper = (total + error + tails) / (1.0 - self.alias).max(0.0);
        ((total - error).max(0.0) / (1.0 + self.alias) - UNDERFLOW_ALLOWANCE, upper + UNDERFLOW_ALLOWANCE)
    }

    /// Returns `t` at a node.
    fn place(&self, index: usize) -> f64 {
        (self.first + index as i64) as f64 * self.h + 0.5 * self.s
    }

    /// Returns `1/(h·excess)`, rounded generously up, or infinity if the terms need not fall.
    fn beyond(&self, excess: f64) -> f64 {
        if excess > 0.01 { 1.001 / (self.h * excess) } else { f64::INFINITY }
    }
}

impl Quadrature for Nodes {
    fn table(&self) -> &Table {
        &self.table
    }

    fn alias(&self, _: f64) -> f64 {
        self.alias
    }

    fn tails(&self, first: f64, last: f64, index: usize, order: f64) -> f64 {
        let slope = self.steepness[index] + self.s * (order - 1.0);
        first * self.before.0 + last * self.beyond(self.place(index) - slope)
    }

    /// The slope is at most `αs` to the right, and negative to the left.
    fn tails_of_power(&self, first: f64, last: f64, index: usize, order: f64) -> f64 {
        first * self.before.1 + last * self.beyond(self.place(index) - order * self.s)
    }

    fn divergence(&self) -> (f64, f64) {
        self.divergence
    }

    /// `d ln(A − 1) ≤ (1 + max(αβ/2, 1)·s²)·d ln s²` (see `poisson_gaussian`), and `s²` is at most 4 units too large.
    fn lowered(&self, lower: f64, order: f64) -> f64 {
        let sensitivity = 1.0 + (0.5 * order * (order - 1.0)).max(1.0) * self.s * self.s;
        (lower * (1.0 - 8.0 * UNIT * sensitivity)).max(0.0)
    }

    /// `d ln A/d(s²) ≤ αβ/2`.
    fn log_lowered(&self, order: f64) -> f64 {
        8.0 * UNIT * order * (order - 1.0) * self.s * self.s
    }
}

pub(in crate::rdp) const LN_ROOT_TWO_PI: f64 = 0.918_938_533_204_672_8;
pub(in crate::rdp) const INVERSE_ROOT_TWO_PI: f64 = 0.398_942_280_401_432_7;

/// Returns the spacing in standard deviations, and the relative aliasing error it causes.
///
/// The line `Im t = a` is the best one, `a²/2 = depth`, or the last before the singularity at `πσ`.
fn spacing(s: f64, rule: Rule) -> (f64, f64) {
    let a = (2.0 * (rule.depth + 5.0)).sqrt().min(3.0 / s);
    let factor = 2.0 * (2.0 + a * a) / cos(0.5 * a * s);
    let wanted = rule.depth + ln(factor);
    let h = shortened(2.0 * PI * a / (wanted + 0.5 * a * a));
    let alias = 1.01 * factor * exp(0.5 * a * a) / expm1(2.0 * PI * a / h);
    // Not a number if nothing converges at all.
    (h, if alias < 1.0 { alias } else { 1.0 })
}

/// Returns `x` with its first 20 bits.
pub(in crate::rdp) fn shortened(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !((1 << 33) - 1))
}
