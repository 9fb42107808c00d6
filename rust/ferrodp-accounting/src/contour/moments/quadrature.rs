//! The moments of the likelihood ratio, by the trapezoid rule on a shifted path, with every error in the answer.
//!
//! `M(s) = E[r(x)^s]`, `x ~ N(0, σ²)`, perhaps over outcomes up to some B only, is wanted along `s = p + iτ`, `τ ≥ 0`, `p` fixed and real (`p ≥ 1`
//! or `p < 0`). The integrand is analytic in a strip around the path, so the rule with step `w` is off by at most
//! `N₋/(e^{2πb/w} − 1) + N₊/(e^{2πt/w} − 1)`, where `b` and `t` are the distances to the lower and upper edge and `N±` the integrals of the
//! modulus along them (Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 56, 2014,
//! Theorem 5.1, each edge apart).
//!
//! On the real line `|r^s| = r^p e^{−τ·arg r}` would oscillate, and below it grow like `e^{τ|arg r|}`. The strip therefore lies
//! *above* the real line, where `arg r ≥ 0` and `|r^s| ≤ |r|^p` whatever τ: lower edge on the real line, nodes at height `b`, upper
//! edge at height `top`. With `|φ(x + iy)| = φ(x)·e^{y²/2σ²}`, straight:
//!
//! ```text
//! N₋ ≤ M(p),   N₊ ≤ e^{top²/2σ²} · M(p)                      for p ≥ 1, as |r(x + iy)| ≤ r(x)
//!              N₊ ≤ e^{top²/2σ²} · ∫ φ(x)|r(x + i·top)|^p dx   for p < 0, bounded by a Riemann sum (`edges`)
//! ```
//!
//! and bent, for `p ≥ 1`, at most `1/cos ν` times that with the greatest height on the path (`path`). Nodes are left out where bounds
//! show that they cannot matter; those bounds are summed up too (`support`).

use super::edges;
use super::path::{Path, Rule, weight};
use super::ratio::Sampled;
use super::support::Support;
use crate::contour::complex::{EXP_M1_ERROR, exp_m1, modulus, product};
use crate::functions::{UNIT, erfc, exp, expm1, ln, ln_1p};
use crate::memory::room;
use core::f64::consts::{PI, SQRT_2};

/// Nodes with the weights of the law tilted by `r^p`, which sum to 1.
#[derive(Clone, Debug)]
pub(in crate::contour) struct Tilted {
    /// Weights, complex because the path is shifted.
    pub(in crate::contour) weights: [Vec<f64>; 2],
    /// `ln r` at the nodes.
    pub(in crate::contour) logs: [Vec<f64>; 2],
    /// `ln M(p)`.
    pub(in crate::contour) log_moment: f64,
    /// Bound on the error of `log_moment`: quadrature and rounding.
    pub(in crate::contour) log_moment_error: f64,
    /// Bound on the quadrature error of `M(p + iτ)/M(p)`, any τ ≥ 0.
    pub(in crate::contour) quadrature: f64,
    /// Bound on the rounding error of `Σ weight·(e^{iτ·log} − 1)`, divided by τ, but for that of the exponentials.
    pub(in crate::contour) rounding: f64,
    /// `Σ |weight|·|log|`: the exponentials' errors are multiples of it and τ.
    pub(in crate::contour) first_moment: f64,
    /// `Σ |weight|·arg r / Σ |weight|`, and the height at which it was found, as outcomes.
    pub(in crate::contour) mean_argument: f64,
    pub(in crate::contour) height: f64,
}

/// Nodes and weights before normalization.
struct Raw {
    weights: [Vec<f64>; 2],
    logs: [Vec<f64>; 2],
    /// `ln` of the common factor that was taken out of the weights.
    scale: f64,
    /// `Re Σ weights`, less the mass without `r^p` where `scale` is 0.
    sum: f64,
    sum_error: f64,
    weighted_error: f64,
    first_moment: f64,
    /// Bound on what was left out, relative to `e^scale`.
    omitted: f64,
}

/// Beyond this exponent, r^p is multiplied in before the exponential.
const LARGE_POWER_NATS: f64 = 30.0;

fn raw(sampled: &Sampled, power: f64, path: &Path, digits: f64) -> Raw {
    let support = Support::find(sampled, power, path, digits);
    let level = support.level;
    let count: i64 = support.ranges.iter().map(|range| range.end - range.start).sum();
    let column = || room(count as usize);
    let mut result = Raw {
        weights: [column(), column()],
        logs: [column(), column()],
        scale: level,
        sum: 0.0,
        sum_error: 0.0,
        weighted_error: 0.0,
        first_moment: 0.0,
        omitted: support.omitted,
    };
    for index in support.ranges.iter().flat_map(Clone::clone) {
        let point = path.point(sampled, index);
        let log = point.log_ratio.value;
        let log_size = modulus(log);
        let exponent = (power * log.0, power * log.1);
        // Relative error of r^p: that of its exponent.
        let power_error = power.abs() * (point.log_ratio.error + 3.0 * UNIT * log_size);
        let (value, size, error);
        if level == 0.0 {
            let gaussian = weight(&point, (0.0, 0.0));
            let added;
            if exponent.0 < LARGE_POWER_NATS {
                let grown = exp_m1(exponent);
                added = product(gaussian, grown);
                value = (gaussian.0 + added.0, gaussian.1 + added.1);
                // At least |W|·max(1, |r^p|).
                size = modulus(gaussian) * (1.0 + grown.0.abs() + grown.1.abs());
            } else {
                // r^p may overflow where W·r^p does not.
                value = weight(&point, exponent);
                added = (value.0 - gaussian.0, value.1 - gaussian.1);
                size = 1.001 * modulus(value);
            }
            error = point.error + power_error + (60.0 + 3.0 * (exponent.0.abs() + point.gaussian.0.abs())) * UNIT;
            result.sum += added.0;
            // |e^z − 1| ≤ |z|·max(1, e^{Re z}) bounds both the value and its condition.
            let relative = point.error + EXP_M1_ERROR + 8.0 * UNIT;
            result.sum_error += size * (power_error + power.abs() * log_size * relative);
        } else {
            value = weight(&point, (exponent.0 - level, exponent.1));
            size = modulus(value);
            let subtraction = (exponent.0.abs() + point.gaussian.0.abs() + level) * 3.0 * UNIT;
            error = point.error + power_error + subtraction + 60.0 * UNIT;
            result.sum += value.0;
            result.sum_error += size * error;
        }
        result.sum_error += result.sum.abs() * UNIT;
        result.first_moment += size * log_size;
        result.weighted_error += size * (log_size * error + point.log_ratio.error);
        for (part, (w, l)) in [(value.0, log.0), (value.1, log.1)].into_iter().enumerate() {
            result.weights[part].push(w);
            result.logs[part].push(l);
        }
    }
    result
}

/// Returns `M(p)`'s nodes for the law tilted by `r^p`.
pub(in crate::contour) fn tilted(sampled: &Sampled, power: f64, digits: f64) -> Tilted {
    let rule = Rule::new(sampled, power, digits);
    let raw = raw(sampled, power, &rule.path(sampled, rule.height), digits);
    // M(p) = e^scale·moment. Where scale is 0, what the sum lacks is the mass of all outcomes up to B.
    let (missing, missing_error) = beyond_end(sampled);
    let (moment, log_moment, mut rounding) = if raw.scale == 0.0 {
        (1.0 + raw.sum - missing, ln_1p(raw.sum - missing), raw.sum_error + missing * missing_error)
    } else {
        (raw.sum, raw.scale + ln(raw.sum), raw.sum_error)
    };
    rounding /= moment;
    let edge = edges::log_upper_edge(sampled, power, &rule, log_moment);
    let lower = 1.0 / expm1(2.0 * PI * rule.height / rule.step);
    let upper = exp(edge) / expm1(2.0 * PI * (rule.top - rule.height) / rule.step);
    // The mass of all outcomes is a sum over nodes too, off by as much at the most: its integrand is that with p = 0.
    let plain = exp(rule.log_growth(sampled, rule.top)) / expm1(2.0 * PI * (rule.top - rule.height) / rule.step);
    let relative = (lower + upper) * 1.01 + (raw.omitted + (lower + plain) * 1.01) / moment;
    let log_moment_error = (relative + rounding) * 1.01 + 10.0 * UNIT * log_moment.abs() + 2.0 * UNIT * raw.scale;
    let inverse = 1.0 / moment;
    let first_moment = raw.first_moment * inverse;
    let mut weights = raw.weights;
    weights.iter_mut().flatten().for_each(|weight| *weight *= inverse);
    let (mut mass, mut argument) = (0.0, 0.0);
    for ((a, b), log) in weights[0].iter().zip(&weights[1]).zip(&raw.logs[1]) {
        let size = modulus((*a, *b));
        mass += size;
        argument += size * log;
    }
    Tilted {
        weights,
        logs: raw.logs,
        log_moment,
        log_moment_error: valid(log_moment_error),
        // A ratio of two sums, each within `relative` of its integral, which is at most M(p).
        quadrature: valid(2.1 * relative),
        rounding: valid(raw.weighted_error * inverse + first_moment * (rounding + 4.0 * UNIT)),
        first_moment,
        mean_argument: argument / mass,
        height: rule.height * rule.scale,
    }
}

/// Returns `P[x > B]` for `x ~ N(0, σ²)` and a bound on its relative error: its argument, within 4 units, has a condition number ≤ `2z² + 2`.
pub(in crate::contour) fn beyond_end(sampled: &Sampled) -> (f64, f64) {
    sampled.end.map_or((0.0, 0.0), |end| {
        let z = end / (sampled.sigma * SQRT_2);
        (0.5 * erfc(z), (20.0 + 12.0 * z * z) * UNIT)
    })
}

/// Turns an error bound beyond 1/100, or none at all, into infinity: first-order reasoning ends there.
fn valid(error: f64) -> f64 {
    if error < 0.01 { error } else { f64::INFINITY }
}

/// Returns a bound on `ln(|M(p + iτ')|/M(p))` that holds for every `τ' ≥ τ`, from the path at a height (`y` in outcomes).
///
/// For any height, `|M(p + iτ)| ≤ ∫ |φ·r^p·e^{−τ·arg r}·dx|` along the path, which falls as τ grows because `arg r ≥ 0`. With `x₊(t)` the path and `x₋(t)`
/// its conjugate the integrand is the root of `φ(x₊)φ(x₋)·(r₊r₋)^p·x₊'x₋'` times `e^{iτ(ln r₊ − ln r₋)/2}`, analytic in t; at `t + iη` its modulus is the geometric mean
/// of those of `φ·r^p·x'` at the heights `y + η` and `y − η`, times `e^{−τ(arg r(x at y+η) − arg r(x at η−y))/2}` ≤ 1, as `arg r` rises with the height.
/// So the trapezoid rule is off by `2·(the integral on the edge y + η)/(e^{2πη/w} − 1)` at most.
pub(in crate::contour) fn log_envelope(
    sampled: &Sampled,
    power: f64,
    digits: f64,
    tau: f64,
    y: f64,
    nodes: &Tilted,
) -> f64 {
    let rule = Rule::new(sampled, power, digits);
    let height = (y / rule.scale).min(rule.top - rule.height);
    let raw = raw(sampled, power, &rule.path(sampled, height), digits);
    let (mut change, mut total) = (0.0, 0.0);
    for ((a, b), log) in raw.weights[0].iter().zip(&raw.weights[1]).zip(&raw.logs[1]) {
        let size = modulus((*a, *b));
        change += size * expm1(-tau * log);
        total += size;
    }
    // Moduli are within the weights' errors; a decaying exponential's error is at most its exponent's.
    let rounding = raw.sum_error + raw.weighted_error * tau + (raw.logs[0].len() as f64 + 100.0) * UNIT * total;
    let sum = total + change + rounding + raw.omitted;
    let edge = edges::log_upper_edge(sampled, power, &rule, nodes.log_moment);
    let quadrature = 2.0 * exp(edge) / expm1(2.0 * PI * (rule.top - height) / rule.step);
    let log_sum = raw.scale + ln(sum.max(0.0)) + 4.0 * UNIT * raw.scale;
    let difference = log_sum - nodes.log_moment + nodes.log_moment_error;
    ln(exp(difference) + 1.01 * quadrature) + 1e-15
}
