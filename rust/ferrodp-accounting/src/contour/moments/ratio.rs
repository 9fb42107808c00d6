//! The likelihood ratio of the Poisson-sampled Gaussian, and its logarithm, on a horizontal line of the complex plane.
//!
//! With `v = (x − ½)/σ²` and `θ = y/σ²`,
//!
//! ```text
//! r(x + iy) = 1 − q + q·e^{v + iθ}
//! ```
//!
//! Facts used throughout, for `0 ≤ θ < π`; write `A = 1 − q`, `B = q·e^v`:
//!
//! - `|r(x + iy)| ≤ r(x)`, and `0 ≤ arg r(x + iy) ≤ θ`: the argument lies between those of the two addends;
//! - `|r(x + iy)| ≥ cos(θ/2)·r(x)`, as `A² + B² + 2AB·cos θ − (A + B)²·cos²(θ/2) = (A − B)²·(1 − cos θ)/2 ≥ 0`;
//! - for `θ ≤ π/2`, `|r(x + iy)|` increases with `x`, is at least `1 − q`, and decreases as `θ` grows;
//! - `ln r` is increasing and convex on the real line, with slope at most `1/σ²`.

use crate::contour::complex::{Complex, modulus};
use crate::functions::lanes::Split;
use crate::functions::{UNIT, atan2, exp, expm1, ln, ln_1p, sincos};

/// One Poisson-sampled Gaussian: noise multiplier and sampling probability, `0 < q < 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::contour) struct Sampled {
    /// The noise multiplier σ.
    pub(in crate::contour) sigma: f64,
    /// σ², rounded.
    pub(in crate::contour) variance: f64,
    /// The sampling probability q.
    pub(in crate::contour) q: f64,
    /// 1 − q, rounded.
    pub(in crate::contour) rest: f64,
    /// B, if outcomes beyond it are left out of the measure.
    pub(in crate::contour) end: Option<f64>,
}

/// A horizontal line `Im x = y`.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Height {
    /// y ≥ 0.
    pub(in crate::contour) y: f64,
    sine: f64,
    cosine: f64,
    /// 2·sin²(θ/2) = 1 − cos θ.
    versine: f64,
    theta: f64,
}

/// `ln r` at a point of the line.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct LogRatio {
    /// Its value.
    pub(in crate::contour) value: Complex,
    /// Bound on the modulus of its error.
    pub(in crate::contour) error: f64,
    /// Bound on `|dr/r|` per unit of v.
    pub(in crate::contour) slope: f64,
}

impl Sampled {
    pub(in crate::contour) fn new(sigma: f64, q: f64) -> Self {
        Self { sigma, variance: sigma * sigma, q, rest: 1.0 - q, end: None }
    }

    /// Returns the line `Im x = y`.
    pub(in crate::contour) fn height(&self, y: f64) -> Height {
        let theta = y / self.variance;
        let (sine, cosine) = sincos(theta);
        let (half, _) = sincos(0.5 * theta);
        Height { y, sine, cosine, versine: 2.0 * half * half, theta }
    }

    /// Returns `v = (x − ½)/σ²`.
    #[inline]
    pub(in crate::contour) fn exponent(&self, x: f64) -> f64 {
        (x - 0.5) / self.variance
    }

    /// Returns `ln r(x + iy)`, for heights with `θ ≤ π/2`.
    ///
    /// # Numerics
    /// `v` is within `3|v|` units; `e^{v + iθ} − 1 = z` is summed from three addends, each within `25 + 3|v|` units of itself and
    /// at most `|z|` in modulus, so `u = qz` is within `80 + 9|v|` units of itself. Where `|u| ≤ ½`, the
    /// logarithm has a condition number below 3 and adds 40 units. Otherwise both parts of `r` are sums of numbers ≥ 0 within
    /// `22 + 3|v|` units, and `|ln(1 + u)| ≥ ln 1.5`. For `v > 300` what is left out is below e⁻³⁰⁰/q, and q ≥ 1e-60.
    #[inline]
    pub(in crate::contour) fn log_ratio(&self, x: f64, line: &Height) -> LogRatio {
        let v = self.exponent(x);
        if v > 300.0 {
            let value = (ln(self.q) + v, line.theta);
            return LogRatio { value, error: 60.0 * UNIT * modulus(value), slope: 1.0 };
        }
        let growth = expm1(v);
        let power = 1.0 + growth;
        let (a, b) = (self.q * (growth * line.cosine - line.versine), self.q * (power * line.sine));
        if a * a + b * b <= 0.25 {
            let value = (0.5 * ln_1p(2.0 * a + a * a + b * b), atan2(b, 1.0 + a));
            let error = (300.0 + 30.0 * v.abs()) * UNIT * modulus(value);
            return LogRatio { value, error, slope: 2.0 * self.q * power };
        }
        let scaled = self.q * exp(v);
        let (a, b) = (self.rest + scaled * line.cosine, scaled * line.sine);
        let value = (0.5 * ln(a * a + b * b), atan2(b, a));
        // |r| ≥ |q·e^{v + iθ}|·sin θ or ≥ 1 − q + q·e^v·cos θ: for θ ≤ π/2, at least 1/√2 of the larger addend.
        LogRatio { value, error: (90.0 + 12.0 * v.abs()) * UNIT * modulus(value), slope: 1.5 }
    }

    /// Returns `ln r(x)` to some 12 digits.
    #[inline]
    pub(in crate::contour) fn log_real_ratio(&self, x: f64) -> f64 {
        let v = self.exponent(x);
        if v > 300.0 { ln(self.q) + v } else { ln_1p_estimate(self.q * (Split::new(v).centered(v) + v)) }
    }

    /// Returns `ln|r(x + iy)|` for `θ ≤ π/2`; the error of [`Sampled::log_ratio`] holds for it too.
    #[inline]
    pub(in crate::contour) fn log_modulus(&self, x: f64, line: &Height) -> f64 {
        let v = self.exponent(x);
        if v > 300.0 {
            return ln(self.q) + v;
        }
        let growth = expm1(v);
        let (a, b) = (self.q * (growth * line.cosine - line.versine), self.q * ((1.0 + growth) * line.sine));
        if a * a + b * b <= 0.25 {
            return 0.5 * ln_1p(2.0 * a + a * a + b * b);
        }
        let scaled = self.q * exp(v);
        let (a, b) = (self.rest + scaled * line.cosine, scaled * line.sine);
        0.5 * ln(a * a + b * b)
    }
}

/// Returns `ln(1 + u)` to some 12 digits of itself.
#[inline]
pub(in crate::contour) fn ln_1p_estimate(u: f64) -> f64 {
    if u.abs() > 0.02 {
        return ln_1p(u);
    }
    // Cut off after u⁷: 0.02⁷/8 < 2·10⁻¹³.
    let mut series = 1.0 / 7.0;
    for k in (1..7).rev() {
        series = 1.0 / f64::from(k) - u * series;
    }
    u * series
}
