//! How large the integrand of `M(p)` can be on the upper edge of its strip.

use super::path::Rule;
use super::ratio::Sampled;
use crate::functions::{cos, erfc, exp, ln};
use crate::memory::room;
use core::f64::consts::{PI, SQRT_2};

/// Returns a bound on `ln(∫ |φ·r^p·dx| / M(p))` along the upper edge, at height y.
///
/// `p ≥ 1`: [`Rule::log_growth`], because `|r(x + iy)| ≤ r(x)`. `p < 0`: that less `p·ln cos(y/2σ²)`, or by the Riemann sum of [`riemann`],
/// whichever is smaller.
pub(in crate::contour) fn log_upper_edge(sampled: &Sampled, power: f64, rule: &Rule, log_moment: f64) -> f64 {
    let gaussian = rule.log_growth(sampled, rule.top);
    if power > 0.0 {
        return gaussian;
    }
    let y = rule.top;
    let worst = power * ln(cos(0.5 * y / sampled.variance));
    if worst < 4.0 {
        return gaussian + worst + 1e-9;
    }
    gaussian + worst.min(riemann(sampled, power, y) - log_moment) + 1e-9
}

/// Returns `ln` of an upper Riemann sum of `∫ φ(x)|r(x + iy)|^p dx` for `p < 0` and `y ≤ πσ²/2`.
///
/// `|r(x + iy)|^p` falls as `x` grows: on each cell it is largest at the left end, and the Gaussian mass of a cell is at most its
/// width times the density at the end next to 0. Left of all cells `|r| ≥ 1 − q`; right of them the last value holds.
fn riemann(sampled: &Sampled, power: f64, y: f64) -> f64 {
    let line = sampled.height(y);
    let rest = power * ln(sampled.rest);
    let width = 0.25 * sampled.sigma;
    let reach = crate::functions::sqrt(2.0 * (60.0 + rest.min(1e6)));
    let cells = (reach / 0.25) as i64 + 1;
    let mut logs = room(2 * cells as usize + 2);
    let normalizer = ln(0.25 / crate::functions::sqrt(2.0 * PI));
    for cell in -cells..40 {
        let left = cell as f64 * width;
        let nearer = if cell < 0 { (cell + 1) as f64 } else { cell as f64 } * 0.25;
        logs.push(normalizer - 0.5 * nearer * nearer + power * sampled.log_modulus(left, &line));
    }
    let end = cells as f64 * 0.25;
    logs.push(rest - 0.5 * end * end);
    logs.push(ln(0.5 * erfc(10.0 / SQRT_2)) + power * sampled.log_modulus(40.0 * width, &line));
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + ln(logs.iter().map(|log| exp(log - largest)).sum::<f64>()) + 1e-6
}
