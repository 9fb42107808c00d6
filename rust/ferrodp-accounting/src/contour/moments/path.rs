//! The curves in the plane of outcomes along which moments are integrated, with equal steps of a parameter.
//!
//! - `Straight`: `x + iy`, for all outcomes;
//! - `Bent`: for outcomes up to B, `x(t) = B − a·ln(1 + e^{t − iν})`, `−∞ < t < ∞`. It starts at B, rises to height `aν` and goes left.
//!
//! For `0 ≤ ν < π/2` and `w = t − iν`, on a bent path:
//!
//! - `0 ≤ Im x ≤ aν`, since `arg(1 + e^{t + iν})` lies between 0 and ν; it rises with ν, and so does `Re x`;
//! - `Re x ≤ B` and `Re x ≤ B − at`, since `|1 + e^w| ≥ max(1, e^t)`; it falls as t grows;
//! - `dx/dt = −a/(1 + e^{−w})`, of argument between −ν and 0 up to the sign, so that `|dx| ≤ |d Re x|/cos ν`;
//! - `|dx/dt|` rises with t and is at most `a·min(1, e^t)`.

use super::ratio::{Height, LogRatio, Sampled, ln_1p_estimate};
use crate::contour::complex::{Complex, polar};
use crate::functions::lanes::Split;
use crate::functions::{UNIT, atan2, cos, exp, ln, ln_1p, sincos, sqrt};
use core::f64::consts::PI;

/// A curve and the step of its parameter.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Path {
    pub(in crate::contour) shape: Shape,
    /// Of 26 bits, so that products with node numbers are exact.
    pub(in crate::contour) step: f64,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::contour) enum Shape {
    Straight(Height),
    Bent { end: f64, scale: f64, angle: f64, sine: f64, cosine: f64 },
}

/// A node.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Point {
    pub(in crate::contour) log_ratio: LogRatio,
    /// The exponent `−(x + iy)²/2σ²`.
    pub(in crate::contour) gaussian: Complex,
    /// `step·(dx/dt)/(σ√2π)`.
    pub(in crate::contour) measure: Complex,
    /// Bound on the relative error of `measure·e^gaussian`.
    pub(in crate::contour) error: f64,
}

/// What holds on a whole stretch of a path.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Extent {
    pub(in crate::contour) left: f64,
    pub(in crate::contour) right: f64,
    /// Bound on `ln |measure·e^gaussian|` less the Gaussian factor of the real part.
    pub(in crate::contour) log_measure: f64,
}

/// Heights and steps for errors of `e^{−digits}`.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Rule {
    /// Step of the parameter.
    pub(in crate::contour) step: f64,
    /// Height of the nodes, in the parameter.
    pub(in crate::contour) height: f64,
    /// Height of the upper edge of the strip.
    pub(in crate::contour) top: f64,
    /// Outcomes per unit of the parameter.
    pub(in crate::contour) scale: f64,
}

/// The upper edge of the strip around a bent path.
const TOP_ANGLE: f64 = 0.45 * PI;

impl Rule {
    pub(in crate::contour) fn new(sampled: &Sampled, power: f64, digits: f64) -> Self {
        let (limit, scale) = if sampled.end.is_some() {
            (TOP_ANGLE, (2.4 * sampled.sigma).min(2.0 * sampled.variance))
        } else if power < 0.0 {
            // The bounds on |r| want θ ≤ π/2; higher than 6σ the Gaussian grows more than distance gains.
            ((0.499 * PI * sampled.variance).min(6.0 * sampled.sigma), 1.0)
        } else {
            ((0.9 * PI * sampled.variance).min(6.0 * sampled.sigma), 1.0)
        };
        let relative = scale * limit / sampled.sigma;
        let balanced = limit / (2.0 + 0.5 * relative * relative / digits);
        let height = (2.0 * sampled.sigma / scale).min(balanced);
        let top = limit.min(3.0 * height);
        let step = round_to_bits(2.0 * PI * height / digits, 26);
        Self { step, height, top, scale }
    }

    /// Returns a coarser rule for positive integrands, on the real axis.
    pub(in crate::contour) fn coarse(sampled: &Sampled, power: f64, digits: f64) -> Self {
        let fine = Self::new(sampled, power, digits);
        Self { step: round_to_bits((2.0 * fine.step).min(0.75 * sampled.sigma / fine.scale), 26), ..fine }
    }

    /// Returns the path of this rule at a height.
    pub(in crate::contour) fn path(&self, sampled: &Sampled, height: f64) -> Path {
        let shape = match sampled.end {
            None => Shape::Straight(sampled.height(height)),
            Some(end) => {
                let (sine, cosine) = sincos(height);
                Shape::Bent { end, scale: self.scale, angle: height, sine, cosine }
            }
        };
        Path { shape, step: self.step }
    }

    /// Bound on `ln` of the integral of `|φ·r^p·dx/dt|` at a height, relative to that on the real axis, for `p ≥ 1`.
    pub(in crate::contour) fn log_growth(&self, sampled: &Sampled, height: f64) -> f64 {
        let y = height * self.scale;
        let slant = if sampled.end.is_some() { -ln(cos(height)) } else { 0.0 };
        0.5 * y * y / sampled.variance + slant + 1e-9
    }
}

/// Returns `x` with all but its leading `bits` bits cut off.
pub(in crate::contour) fn round_to_bits(x: f64, bits: u32) -> f64 {
    let mask = u64::MAX << (53 - bits);
    f64::from_bits(x.to_bits() & mask)
}

impl Path {
    fn normalizer(&self, sampled: &Sampled) -> f64 {
        self.step / (sampled.sigma * sqrt(2.0 * PI))
    }

    /// Returns the node of that number.
    ///
    /// # Numerics
    /// On a bent path `x` is within `40·UNIT·(|B| + a·|ln(1 + e^w)|)`; that displacement changes the Gaussian factor by its multiple with
    /// `|x|/σ²`, and `ln r` by that with `|r'/r| = q·|e^{v + iθ}|/(σ²|r|)`.
    #[inline]
    pub(in crate::contour) fn point(&self, sampled: &Sampled, index: i64) -> Point {
        let parameter = index as f64 * self.step;
        let normalizer = self.normalizer(sampled);
        let variance = sampled.variance;
        let (x, line, measure, displacement);
        match &self.shape {
            Shape::Straight(height) => {
                (x, line, measure, displacement) = (parameter, *height, (normalizer, 0.0), 0.0);
            }
            Shape::Bent { end, scale, sine, cosine, .. } => {
                // e^{t + iν} here, conjugate to e^w: Im x = a·arg(1 + e^{t + iν}).
                let power = exp(parameter.min(600.0));
                let (a, b) = (power * cosine, power * sine);
                let log =
                    (if power < 1e150 { 0.5 * ln_1p(2.0 * a + power * power) } else { parameter }, atan2(b, 1.0 + a));
                x = end - scale * log.0;
                line = sampled.height(scale * log.1);
                // e^w/(1 + e^w) = (p² + pcosν − i·p·sinν)/|1 + e^w|², with p = e^t.
                let size = 1.0 + 2.0 * a + power * power;
                measure = if power < 1e150 {
                    (normalizer * scale * (power * power + a) / size, -normalizer * scale * b / size)
                } else {
                    (normalizer * scale, 0.0)
                };
                displacement = 40.0 * UNIT * (end.abs() + scale * (log.0 + log.1));
            }
        }
        let y = line.y;
        let mut log_ratio = sampled.log_ratio(x, &line);
        log_ratio.error += displacement * log_ratio.slope / variance;
        let error = (60.0 + 6.0 * (x * x + y * y) / variance) * UNIT + displacement * (x.abs() + y) / variance;
        Point { log_ratio, gaussian: (-0.5 * (x * x - y * y) / variance, -x * y / variance), measure, error }
    }

    /// Returns `ln r` and the logarithm of the weight at a node of a path on the real axis.
    ///
    /// To some 12 digits; `normalizer` is that of [`Path::log_normalizer`].
    #[inline]
    pub(in crate::contour) fn real_point(&self, sampled: &Sampled, normalizer: f64, index: i64) -> (f64, f64) {
        let parameter = index as f64 * self.step;
        let (x, log_measure) = match &self.shape {
            Shape::Straight(_) => (parameter, normalizer),
            Shape::Bent { end, scale, .. } => {
                let log = parameter.max(0.0) + ln_1p_estimate(Split::new(-parameter.abs()).exponential());
                (end - scale * log, normalizer + parameter - log)
            }
        };
        (sampled.log_real_ratio(x), log_measure - 0.5 * x * x / sampled.variance)
    }

    /// Returns the logarithm of the factor that all weights have on the real axis.
    pub(in crate::contour) fn log_normalizer(&self, sampled: &Sampled) -> f64 {
        let scale = if let Shape::Bent { scale, .. } = self.shape { scale } else { 1.0 };
        ln(self.normalizer(sampled) * scale)
    }

    /// Returns bounds for the nodes from `first` to `last`.
    pub(in crate::contour) fn extent(&self, sampled: &Sampled, first: i64, last: i64) -> Extent {
        let normalizer = ln(self.normalizer(sampled)) + 1e-6;
        let (from, to) = (first as f64 * self.step, last as f64 * self.step);
        match &self.shape {
            Shape::Straight(height) => {
                Extent { left: from, right: to, log_measure: normalizer + 0.5 * height.y * height.y / sampled.variance }
            }
            Shape::Bent { end, scale, angle, .. } => {
                let y = scale * angle;
                // Re x between its values for angle 0 and for cos ν = 0: ln(1 + e^t) and ½·ln(1 + e^{2t}).
                let right = end - scale * 0.5 * log_1p_exp(2.0 * from) + 1e-9 * scale;
                let left = end - scale * log_1p_exp(to) - 1e-9 * scale;
                Extent {
                    left,
                    right,
                    log_measure: normalizer + ln(*scale) + to.min(0.0) + 0.5 * y * y / sampled.variance,
                }
            }
        }
    }
}

/// Returns `ln(1 + e^t)`.
pub(in crate::contour) fn log_1p_exp(t: f64) -> f64 {
    if t > 0.0 { t + ln_1p(exp(-t)) } else { ln_1p(exp(t)) }
}

/// Returns `e^gaussian·measure·e^extra` of a node, in one exponential.
#[inline]
pub(in crate::contour) fn weight(point: &Point, extra: Complex) -> Complex {
    crate::contour::complex::product(polar(point.gaussian.0 + extra.0, point.gaussian.1 + extra.1), point.measure)
}
