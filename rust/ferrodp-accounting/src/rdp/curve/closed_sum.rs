//! The binomial sum for `A(α)`, at any real order, where its first terms are all that counts.
//!
//! With `b = q·e^y` and `c = 1 − q`, Taylor's formula for `(b + c)^α` in powers of `c` reads, `m = ⌈α⌉`,
//!
//! ```text
//! (b + c)^α = Σ_{i<m} C(α, i)·c^i·b^{α−i} + R,   0 ≤ R ≤ c^α:
//! ```
//!
//! all coefficients are positive, as `i ≤ α`; the remainder is `m·C(α, m)·c^m·∫₀¹ (1 − τ)^{m−1}(b + τc)^{α−m} dτ`, positive
//! too, and largest at `b = 0`, where it is all there is. As `E[e^{jy}] = e^{j(j−1)s²/2}`,
//!
//! ```text
//! A(α) = Σ_{i<m} T_i + R′,   T_i = C(α, i)·c^i·q^j·e^{j(j−1)s²/2},   j = α − i,   0 ≤ R′ ≤ 1.
//! ```
//!
//! For integers this is the sum of Mironov, Talwar and Zhang (2019), section 3.3. Up to `i = α/2` the ratios of neighbors are at
//! most `K = α·(c/q)·e^{−(α/2 − 1)s²}`; the sum is used if `K ≤ ½`. Beyond `α/2`, `Σ T_i ≤ e^{max(0, j(j−1)s²/2)}` at `j = α/2`,
//! as `Σ C(α, i)·c^i·q^j ≤ (c + q)^α = 1`.

use crate::functions::{UNIT, exp, ln_1p};
use crate::types::Bounds;

/// Bounds on `ln A(α)` must be above this for the absolute error of 1 in `A` not to matter: e⁻⁴⁵ < 3·10⁻²⁰.
const LEAST_LOG: f64 = 45.0;

/// Returns bounds on `ln A(α)`, or `None` where the sum is not the way. `0 < q < 1`, `1 < α < ∞`.
pub(in crate::rdp) fn log_moment(s: f64, q: f64, log_q: f64, order: f64) -> Option<Bounds> {
    let square = s * s;
    let growth = |j: f64| 0.5 * j * (j - 1.0) * square;
    let leading = order * log_q + growth(order);
    let beyond_half = growth(0.5 * order).max(0.0) - leading;
    if !(LEAST_LOG..f64::INFINITY).contains(&leading) || beyond_half > -40.0 {
        return None;
    }
    let odds = (1.0 - q) / q;
    if order * odds * exp(-(0.5 * order - 1.0) * square) > 0.49 {
        return None;
    }
    let (mut sum, mut term, mut i) = (0.0, 1.0, 0.0);
    while i + 1.0 < order && i <= 0.5 * order && term > 1e-18 {
        term *= (order - i) / (i + 1.0) * odds * exp(-(order - i - 1.0) * square);
        sum += term;
        i += 1.0;
    }
    // Terms fall by half at least: those after the last are no more than it. Then those beyond α/2, and R′.
    let rest = term * f64::from(u8::from(i + 1.0 < order)) + exp(beyond_half) + exp(-leading);
    // Relative error of a term: (α·s²·3 + 30) units for each ratio; of `leading`: those of its parts.
    let error = UNIT * (12.0 * order * log_q.abs() + 8.0 * growth(order) + 10.0 * (1.0 + leading))
        + UNIT * sum * i * (3.0 * order * square + 30.0);
    let upper = leading + ln_1p(1.01 * rest + sum) + error;
    // s was rounded up by 2 units at most, and d ln A/d(s²) ≤ αβ/2 (see `poisson_gaussian`).
    let lower = leading + ln_1p(sum) - error - 4.0 * UNIT * 2.0 * growth(order);
    Some(Bounds { lower, upper })
}
