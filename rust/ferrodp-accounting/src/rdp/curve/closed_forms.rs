//! Rényi curves in closed form, each without cancellation and with its rounding errors added.
//!
//! `φ(x) = eˣ − 1 − x` throughout, within 128 units of 2⁻⁵³ (`lanes`); `x·φ′/φ ≤ 2 + max(x, 0)` carries errors of `x`.

use crate::functions::lanes::centered_exponential as phi;
use crate::functions::{UNIT, exp, ln, ln_1p, sin};
use crate::types::Bounds;

/// Returns `αρ`, `ρ` itself within so many units: zero-concentrated differential privacy, and `ρ = 1/2z²` for Gaussian noise
/// (Bun, Steinke, "Concentrated differential privacy", TCC 2016, Definition 1.1 and Proposition 1.6).
pub(in crate::rdp) fn linear(rho: f64, units: f64, order: f64) -> Bounds {
    if rho == 0.0 { Bounds::ZERO } else { Bounds::within(order * rho, units + 2.0) }
}

/// Returns the curve of Laplace noise, `ε₀` the inverse of its scale, rounded up by at most two units: adding noise is
/// post-processing (a Laplace variable plus an independent one that is often 0 is a wider Laplace variable).
///
/// `A = (α·e^{ε₀β} + β·e^{−ε₀α})/(2α − 1)` (Mironov, "Rényi differential privacy", CSF 2017, Proposition 6), and so
/// `A − 1 = (α·φ(ε₀β) + β·φ(−ε₀α))/(2α − 1)`; at `α = 1`, `φ(−ε₀)`; at infinity, `ε₀`.
pub(in crate::rdp) fn laplace(epsilon: f64, order: f64) -> Bounds {
    let beta = order - 1.0;
    let x = epsilon * beta;
    let found = if order > 1e300 {
        Bounds { lower: 0.0, upper: epsilon }
    } else if order == 1.0 {
        Bounds::within(phi(-epsilon), 140.0)
    } else if x < 600.0 {
        let excess = (order * phi(x) + beta * phi(-epsilon * order)) / (order + beta);
        Bounds::within(ln_1p(excess), 160.0 + 5.0 * x).rate(order)
    } else {
        // ln(α/(2α − 1)) = −ln(1 + β/α)
        let log = (x - ln_1p(beta / order)) + ln_1p(beta / order * exp(-epsilon * (order + beta)));
        Bounds::within(log, 32.0).rate(order)
    };
    found.capped(epsilon)
}

/// Returns the curve of mechanisms whose loss has a range of at most `ε`.
///
/// `E_P[L] ≤ η − 1 − ln η`, `η = ε/(e^ε − 1)` (Dong, Durfee, Rogers, "Optimal differential privacy composition for exponential
/// mechanisms", ICML 2020; attained on the two ends of the range), and by Hoeffding's lemma `ln E_P[e^{βL}] ≤ β·E_P[L] + β²ε²/8`, so that
/// `ρ ≤ η − 1 − ln η + βε²/8` (Cesar, Rogers, "Bounding, concentrating, and truncating", ALT 2021, Lemmas 3.2 and 3.4); never more than `ε`.
pub(in crate::rdp) fn bounded_range(epsilon: f64, order: f64) -> Bounds {
    if epsilon == 0.0 {
        return Bounds::ZERO;
    }
    // ln η = −ln(1 + φ(ε)/ε), and η − 1 − ln η = φ(ln η).
    let log_eta = if epsilon < 700.0 { -ln_1p(phi(epsilon) / epsilon) } else { ln(epsilon) - epsilon };
    let slack = (order - 1.0) * (0.125 * epsilon * epsilon);
    Bounds { lower: 0.0, upper: (phi(log_eta) + slack) * (1.0 + 600.0 * UNIT) }.capped(epsilon)
}

/// Returns the curve of one-dimensional discrete Gaussian noise, `σ` and the sensitivity `Δ` (an integer) in steps of the lattice.
///
/// With `θ(c) = Σ_k e^{−(k−c)²/2σ²}`, completing the square gives `A = e^{αβΔ²/2σ²}·θ(αΔ)/θ(0)`. `θ` has period 1 and is largest at
/// integers: `ρ ≤ αΔ²/2σ²` (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
/// Proposition 5), with equality at integer `αΔ`. For `σ ≥ ½` the ratio comes from Poisson's summation formula,
/// `θ(c) ∝ 1 + 2Σ_k e^{−2π²σ²k²}·cos 2πkc`, and else from its own terms.
///
/// # Numerics
/// With `c = βΔ − n`, `n` the nearest integer, `αβΔ² − c² = βΔ² + n(2βΔ − n)`: terms ≥ 0, within 8 units. Both logarithms of
/// ratios are of sums of terms of one sign. Exponents `x < 40` carry `x` times 6 units; larger ones vanish.
pub(in crate::rdp) fn discrete_gaussian(sigma: f64, sensitivity: f64, order: f64) -> Bounds {
    let square = 1.0 / (sigma * sigma);
    let limit = Bounds::within(0.5 * order * (sensitivity * sensitivity * square), 10.0);
    let beta = order - 1.0;
    let shift = beta * sensitivity;
    if !(0.0..4e15).contains(&shift) || order == 1.0 {
        return if order == 1.0 { limit } else { Bounds { lower: 0.0, ..limit } };
    }
    let n = libm::rint(shift);
    let c = shift - n;
    let ratio = if sigma >= 0.5 {
        let weight = |k: f64| exp(-2.0 * (core::f64::consts::PI * sigma * k) * (core::f64::consts::PI * sigma * k));
        let (mut norm, mut lost, mut uncertain) = (1.0, 0.0, 0.0);
        // βΔ may be rounded by a unit of its size, and sin²(πkc) has the slope πk·sin(2πkc).
        let off = 2.0 * UNIT * shift;
        for k in [1.0, 2.0, 3.0] {
            let wave = sin(core::f64::consts::PI * k * c);
            norm += 2.0 * weight(k);
            lost += 4.0 * weight(k) * (wave * wave);
            uncertain += 4.0 * weight(k) * (7.0 * k * wave.abs() + 10.0 * k * k * off) * off;
        }
        // The fourth term is below e⁻⁷⁸.
        let main = 0.5 * square * (shift * (order * sensitivity));
        let rest = ln_1p(-(lost / norm));
        let slack = 40.0 * UNIT * (main - rest) + 200.0 * UNIT * -rest + uncertain + 1e-33;
        Bounds { lower: main + rest - slack, upper: main + rest + slack }
    } else {
        let (mut norm, mut excess) = (1.0, 0.0);
        let size = c.abs();
        for k in [1.0, 2.0, 3.0, 4.0, 5.0] {
            norm += 2.0 * exp(-0.5 * k * k * square);
            let gap = libm::expm1(-k * size * square);
            excess += exp(-0.5 * (k * k - 2.0 * k * size) * square) * (gap * gap);
        }
        let main = 0.5 * square * (shift * sensitivity + n * (2.0 * shift - n));
        let rest = ln_1p(excess / norm);
        // c is uncertain by 2 units of βΔ, which enters with a slope of at most 1/σ².
        let slack = 300.0 * UNIT * (main + rest) + 4.0 * UNIT * shift * square + 1e-33 * square;
        Bounds { lower: main + rest - slack, upper: main + rest + slack }
    };
    let found = ratio.rate(order);
    Bounds { lower: found.lower.min(limit.lower), upper: found.upper.min(limit.upper) }
}
