//! Rényi curve of a Gaussian release about a sample of fixed size, when one record may be replaced.
//!
//! # The pair
//! A sample without replacement of a share `q` of the records turns a release whose neighbors obey `δ(ε)` into one with
//! `δ′(ln(1 + q(e^ε − 1))) = q·δ(ε)` for `ε ≥ 0`, in both directions (Balle, Barthe, Gaboardi, "Privacy amplification by
//! subsampling", NeurIPS 2018, Theorem 9). A pair of laws with that curve dominates (Zhu, Dong, Wang, AISTATS 2022, Theorem 10);
//! Rényi divergences of what it dominates are no larger, being mixtures of values of the curve.
//!
//! With `r` the likelihood ratio of the release without sampling, `δ(ln γ) = E_Q[(r − γ)₊]`. So beyond 1 the pair's ratio has, under
//! its `Q`, the law of `u = 1 + q(r − 1)`; by symmetry its inverse has the same law under its `P`; the rest of the mass sits at ratio
//! 1. Adding up `E_Q[ratio^α]` over the three parts leaves
//!
//! ```text
//! A(α) − 1 = E_Q[u^α + u^{1−α} − 1 − u; r > 1] = E_Q[(u^α − 1)(1 − u^{1−α}); r > 1],
//! ```
//!
//! a product of two positive factors: nothing cancels. For noise `N(0, σ²)`, `s = 1/σ` and `r = e^{sτ}`, with `τ > 0`,
//! `A − 1 = ∫₀^∞ g(τ) dτ`, `g = φ₀(τ + s/2)·(e^{αl} − 1)(1 − e^{−βl})`, `l = ln(1 + q(e^{sτ} − 1))`, `β = α − 1`, `φ₀` the normal density.
//!
//! # Quadrature
//! Gauss–Legendre on panels that are halved until the theorem in `gauss_legendre` promises enough. Inside an ellipse with
//! real parts in `[a, b]` and imaginary parts up to `h`, with `θ = s·h ≤ 1.5`: `|φ₀| ≤ φ₀(real part)·e^{h²/2}`; with `v = u − 1`,
//! `|v|² ≤ V² = q²·(max((e^{sa} − 1)², (e^{sb} − 1)²) + 4·e^{sb}·sin²(θ/2))`; `|u| ≤ U`, `U = u` at the real part, and `|u| ≥ cos(θ/2)·U`.
//! On the way from 1 to `u`, which is made of the same points for smaller `q`, the modulus is at most `max(1, U)` and at least
//! `m = cos(θ/2)·min(1, 1 + q(e^{sa} − 1))`. Hence `|u^α − 1| ≤ min(1 + U^α, αV·max(1, U)^β)` and
//! `|1 − u^{−β}| ≤ min(1 + |u|^{−β}, βV·m^{−α})`. `max(0, ln U)` is convex along the axis, so that below its chord the
//! largest value of a parabola bounds `φ₀·U^α`.
//!
//! # Truncation
//! `d ln g/dτ ≤ −(τ + s/2) + (α + 2)s + 2/τ`, as `z/(1 − e^{−z}) ≤ 1 + z` and `l′/l ≤ v′/v ≤ s + 1/τ`. Where that is `−κ < 0` it stays below,
//! and what lies beyond is at most `g/κ`.
//!
//! # Rounding
//! `g` is computed as `exp(E)·(1 − e^{−αl})(1 − e^{−βl})`, `E = αl − (τ + s/2)²/2 − scale`; `l` is within 24 units of itself (or, for large
//! `sτ`, within 8 of `sτ + |ln q|`), so that a value is within `16·(αl + αsτ + τ² + s² + |scale|) + 64` units, counting that its node may
//! be off by 4 units of `τ` where the slope of `ln g` is at most `τ + s + (2α + 2)s + 2/τ`.

use crate::memory::{filled, push};
use core::f64::consts::PI;
use core::num::NonZeroUsize;

use ferrodp_core::machine::blocks::for_each_block;

pub mod moments;

use crate::functions::gauss_legendre::{ellipses, nodes};
use crate::functions::{UNIT, cos, exp, expm1, ln, ln_1p, sin, sqrt};

/// Sampling probabilities below this are raised to it: squares stay normal numbers.
const LEAST_PROBABILITY: f64 = 1e-120;

/// More than what underflow can have dropped from `A − 1`.
const DROPPED_BY_UNDERFLOW: f64 = 1e-290;

/// `ln` of the share of the integral that a panel's error may have, and of one that is dropped.
const LOG_TOLERANCE: f64 = -34.0;

/// Panels after which the rest is taken as it is.
const MOST_PANELS: u32 = 4000;

/// Orders from which on Minkowski's inequality is as good.
const MINKOWSKI_ORDER: f64 = 1e7;

/// Orders that a thread takes at a time.
const ORDERS_PER_THREAD: usize = 16;

/// Returns [`gaussian_replace_one`] of every triple of noise multiplier, sampling probability and order.
///
/// # Panics
/// If the slices differ in length.
#[must_use]
pub fn gaussian_replace_one_of_each(
    noise_multipliers: &[f64],
    sampling_probabilities: &[f64],
    orders: &[f64],
    threads: NonZeroUsize,
) -> Vec<f64> {
    let (z, q) = (noise_multipliers, sampling_probabilities);
    assert!(z.len() == orders.len() && q.len() == orders.len(), "triples");
    let mut found = filled(0.0, orders.len());
    for_each_block(&mut found, ORDERS_PER_THREAD, threads, |start, block| {
        for (i, rho) in (start..).zip(block) {
            *rho = gaussian_replace_one(z[i], q[i], orders[i]);
        }
    });
    found
}

/// Returns an upper bound on `ρ(α)` of one release about a fixed-size sample, for datasets that differ in one record's
/// value and noise measured in the distance that this makes. `noise_multiplier > 0`, `0 ≤ q ≤ 1`, `α > 1`.
#[must_use]
pub fn gaussian_replace_one(noise_multiplier: f64, sampling_probability: f64, order: f64) -> f64 {
    let s = (1.0 / noise_multiplier).next_up();
    // mutant: unsampled-curve
    let unsampled = 0.5 * order * (s * s) * (1.0 + 4.0 * UNIT);
    if sampling_probability == 0.0 || noise_multiplier == f64::INFINITY {
        return 0.0;
    }
    if sampling_probability == 1.0 || order == f64::INFINITY || unsampled == f64::INFINITY {
        return unsampled;
    }
    let q = sampling_probability.max(LEAST_PROBABILITY);
    unsampled.min(minkowski(s, q, order)).min(Integrand::new(s, q, order).rate_upper())
}

/// Returns the bound that follows from `A ≤ 1 + E_Q[u^α]` and `‖1 − q + qr‖_α ≤ 1 − q + q‖r‖_α`.
fn minkowski(s: f64, q: f64, order: f64) -> f64 {
    let (log, error) = log_minkowski(s, q, order);
    let log = log + error;
    (log + ln_1p(exp(-log))) / (order - 1.0) * (1.0 + 32.0 * UNIT)
}

/// Returns `α·ln(1 − q + q‖r‖_α)`, and a bound on its error.
fn log_minkowski(s: f64, q: f64, order: f64) -> (f64, f64) {
    let z = 0.5 * (order - 1.0) * (s * s);
    let norm = if z < 700.0 { ln_1p(q * expm1(z)) } else { z + ln(q) + ln_1p((1.0 - q) / q * exp(-z)) };
    // z is within 3 units, what the logarithm is taken of within 3z + 12, and a logarithm within 8 units of at most z + 1.
    (order * norm, UNIT * (40.0 + 14.0 * z) * (1.0 + order))
}

/// `g`, for one order.
struct Integrand {
    s: f64,
    q: f64,
    log_q: f64,
    order: f64,
    /// Values are relative to the exponential of it.
    scale: f64,
}

/// Returns an upper bound on `ln(1 + eˣ)`, within ln 2 of it.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + if x > -1.0 { ln(2.0) } else { exp(x) }
}

/// Part of the axis.
#[derive(Clone, Copy)]
struct Panel {
    center: f64,
    half: f64,
}

impl Integrand {
    fn new(s: f64, q: f64, order: f64) -> Self {
        let mut integrand = Self { s, q, log_q: ln(q), order, scale: 0.0 };
        let end = integrand.end(Budget::PROVEN.beyond);
        // A hundred looks on a scale that is fine at either end are enough to be near the largest value.
        integrand.scale = (1..=100)
            .flat_map(|k| [0.1 * f64::from(k), end * f64::from(k) / 100.0])
            .map(|tau| integrand.log_value(tau))
            .fold(f64::NEG_INFINITY, f64::max);
        integrand
    }

    /// Where the tail begins: `κ ≥ 1` there from `beyond = 2` on.
    fn end(&self, beyond: f64) -> f64 {
        (self.order + 2.0) * self.s + beyond
    }

    /// Returns `l`.
    fn loss(&self, y: f64) -> f64 {
        if y < 40.0 || self.log_q + y < 1.0 {
            ln_1p(self.q * expm1(y))
        } else {
            (y + self.log_q) + ln_1p((1.0 - self.q) / self.q * exp(-y))
        }
    }

    /// Returns `ln g` at `tau > 0`, relative to the scale.
    fn log_value(&self, tau: f64) -> f64 {
        let loss = self.loss(self.s * tau);
        let (up, down) = (self.order * loss, (self.order - 1.0) * loss);
        self.exponent(tau, up) + ln(-expm1(-up)) + ln(-expm1(-down))
    }

    fn exponent(&self, tau: f64, up: f64) -> f64 {
        let x = tau + 0.5 * self.s;
        up - 0.5 * (x * x) - self.scale
    }

    /// Returns `√(2π)·g` at `tau`, relative to the scale, and its relative error in units.
    fn value(&self, tau: f64) -> (f64, f64) {
        let y = self.s * tau;
        let loss = self.loss(y);
        let (up, down) = (self.order * loss, (self.order - 1.0) * loss);
        let value = exp(self.exponent(tau, up)) * (expm1(-up) * expm1(-down));
        let error = 16.0 * (up + self.order * y + tau * tau + self.s * self.s + self.scale.abs()) + 64.0;
        (value, error)
    }

    /// Returns `ln` of a bound on `√(2π)·|g|` where the real part is in `[from, to]` and the imaginary one up to `height`.
    fn log_bound(&self, from: f64, to: f64, height: f64) -> f64 {
        let (s, order) = (self.s, self.order);
        let theta = s * height;
        if theta > 1.5 {
            return f64::INFINITY;
        }
        let (l_from, l_to) = (self.loss(s * from), self.loss(s * to));
        let (lowest, highest) = (l_from.max(0.0), l_to.max(0.0));
        // max(l, 0) is convex: below its chord, which with −(τ + s/2)²/2 makes a parabola.
        let peak = |factor: f64| {
            let slope = if to > from { factor * ((highest - lowest) / (to - from)) } else { 0.0 };
            let at = (slope - 0.5 * s).clamp(from, to);
            factor * lowest + slope * (at - from) - 0.5 * (at + 0.5 * s) * (at + 0.5 * s)
        };
        let log_cos = ln(cos(0.5 * theta));
        let least = log_cos + l_from.min(0.0);
        let log_v = if s * to < 300.0 {
            let (low, high, across) = (expm1(s * from), expm1(s * to), sin(0.5 * theta));
            self.log_q + 0.5 * ln((low * low).max(high * high) + 4.0 * exp(s * to) * across * across)
        } else {
            self.log_q + s * to + 0.35 // √2 in front: e^{sb} is past all else
        };
        let beta = order - 1.0;
        let growth = (peak(order) + ln(2.0)).min(ln(order) + log_v + peak(beta));
        let fall = softplus(-beta * (log_cos + l_from)).min(ln(beta) + log_v - order * least);
        let slack = 1e-9 * (1.0 + order * (highest - least) + (to + s) * (to + s) + self.scale.abs());
        0.5 * (height * height) + growth + fall - self.scale + slack
    }

    /// Returns an upper bound on `ln A/(α − 1)`.
    fn rate_upper(&self) -> f64 {
        if self.order > MINKOWSKI_ORDER || !self.scale.is_finite() {
            return f64::INFINITY;
        }
        self.log_moment(self.integral(&Budget::PROVEN).total(), UNIT, DROPPED_BY_UNDERFLOW) / (self.order - 1.0)
            * (1.0 + 32.0 * UNIT)
    }

    /// Returns the integral of `√(2π)·g`, relative to the scale, and the terms of its error apart.
    fn integral(&self, budget: &Budget) -> Integral {
        let end = self.end(budget.beyond);
        let mut waiting = vec![Panel { center: 0.5 * end, half: 0.5 * end }];
        let mut found = Integral::default();
        let mut panels = 0_u32;
        while let Some(panel) = waiting.pop() {
            panels += 1;
            let (from, to) = (panel.center - panel.half, panel.center + panel.half);
            let at_most = self.log_bound(from, to, 0.0) + ln(2.0 * panel.half);
            if at_most < budget.log_dropped {
                found.dropped += exp(at_most);
                continue;
            }
            let error = ellipses(panel.half)
                .map(|e| e.log_factor + self.log_bound(panel.center - e.reach, panel.center + e.reach, e.height))
                .fold(f64::INFINITY, f64::min);
            if error > budget.log_quadrature && panels < MOST_PANELS {
                let half = 0.5 * panel.half;
                push(&mut waiting, Panel { center: panel.center + half, half });
                push(&mut waiting, Panel { center: panel.center - half, half });
                continue;
            }
            found.quadrature += exp(error.min(at_most));
            let (mut sum, mut rounding) = (0.0, 0.0);
            for (tau, weight) in nodes(panel.center, panel.half) {
                let (value, error) = self.value(tau);
                sum += weight * value;
                rounding += weight * value * UNIT * error;
            }
            found.sum += sum;
            found.rounding += rounding;
        }
        found.tail = self.value(end).0;
        // 20 additions a panel and one for each panel, of positive terms; a weight, and its product with a value.
        found.rounding += found.sum * (64.0 + f64::from(panels)) * UNIT;
        found
    }

    /// Returns an upper bound on `ln A`, within `32·unit` of itself, for an integral of `√(2π)·g` relative to the scale.
    fn log_moment(&self, total: f64, unit: f64, underflow: f64) -> f64 {
        // Four additions of the terms, of which all but one are small, and 1/√(2π).
        let total = total * (1.0 + 16.0 * unit) / sqrt(2.0 * PI);
        if self.scale < 600.0 {
            ln_1p(total * exp(self.scale) * (1.0 + unit * (16.0 + 2.0 * self.scale.abs())) + underflow)
        } else {
            self.scale + ln(total) + exp(-600.0) / total
        }
    }
}

/// How much may be left out. Tests leave out more, so that what stands for it can be seen.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// `ln` of what a panel's quadrature may be wrong by, relative to the scale.
    log_quadrature: f64,
    /// `ln` of what a panel may hold that is not looked at.
    log_dropped: f64,
    /// Where the tail begins, beyond `(α + 2)s`.
    beyond: f64,
}

impl Budget {
    /// Beyond 9, `κ ≥ 8`.
    const PROVEN: Self = Self { log_quadrature: LOG_TOLERANCE, log_dropped: LOG_TOLERANCE - 6.0, beyond: 9.0 };
}

/// A sum, and what it can be less than the integral by: each term is an upper bound.
#[derive(Clone, Copy, Debug, Default)]
struct Integral {
    sum: f64,
    rounding: f64,
    quadrature: f64,
    dropped: f64,
    /// What lies beyond the end: less than the value there, as `κ ≥ 1`.
    tail: f64,
}

impl Integral {
    fn total(&self) -> f64 {
        // mutant: terms-of-an-integral
        self.sum + self.rounding + self.quadrature + self.dropped + self.tail
    }
}

#[cfg(test)]
mod degraded;
