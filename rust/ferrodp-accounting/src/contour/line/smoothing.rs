//! Averages of the privacy curve that bound it from above and below, for integrands that do not decay by themselves.
//!
//! Where the loss is nearly atomic, `|e^{K(c + iτ)}|` stays on a plateau and the integrand falls like `1/τ²` only. As a function of `x = e^ε`,
//! `g(x) = δ(ln x)` is convex and nonincreasing, a supremum of the lines `P(S) − x·Q(S)`. Averages over shifts multiply the integrand by a
//! transform that decays fast.
//!
//! *From above.* For U with `E e^U = 1`, Jensen's inequality: `δ(ε) ≤ E δ(ε + U)`. With `U = m + Σ uniform(−w/2, w/2)`, n of them, and
//! `m = −n·ln(sinh(w/2)/(w/2))`, the transform is `E e^{−zU} = e^{−zm}·(sinh(zw/2)/(zw/2))ⁿ`.
//!
//! *From below.* On the line through two points to the right of x: for `v ≥ 0`, `s > 0` and `λ = (1 − e^{−v})/(e^s − 1)`,
//! `g(x) ≥ (1 + λ)·g(xe^v) − λ·g(xe^{v+s})`. Averaged over `V = Σ uniform(0, w)`, with `k(z) = E e^{−zV} = ((1 − e^{−zw})/(zw))ⁿ`:
//!
//! ```text
//! k(z) + (k(z) − k(z+1))·(1 − e^{−zs})/(e^s − 1)
//! ```
//!
//! The aliases of the trapezoid rule stay what they were: from above every addend is ≥ 0; from below the inequality holds at each of them,
//! so that their sum is at most that without smoothing.
//!
//! *Tails.* `|sinh(zw/2)/(zw/2)| ≤ 2cosh(cw/2)/(τw)` and `|1 − e^{−zw}|/|zw| ≤ 2/(τw)`; and `|k(z) − k(z+1)| ≤ max|k'| ≤ nw·(2/(τw))ⁿ` for `τw ≥ 2`, from
//! `k = gⁿ`, `g' = e^{−zw}/z − g/z`, `|g'| ≤ (1 + 2/(τw))/τ`.

use crate::contour::complex::{Complex, exp_m1, ln_1p_complex, modulus, polar, product, quotient};
use crate::functions::{UNIT, exp, expm1, ln};
use core::f64::consts::{LN_2, PI};

/// Number of uniform addends, a power of two.
const UNIFORM_ADDENDS: i32 = 16;

/// A smoothing of width w per addend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::contour) struct Smoothing {
    width: f64,
    /// m.
    shift: f64,
    /// s.
    lever: f64,
}

/// A transform at one point.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Transform {
    pub(in crate::contour) value: Complex,
    /// Bound on the modulus of its error.
    pub(in crate::contour) error: f64,
}

/// `g(z) = (1 − e^{−zw})/(zw)` and what belongs to it.
struct Ratio {
    value: Complex,
    modulus: f64,
    /// e^{−zw}.
    turn: Complex,
}

/// Bound on the error of g: 50 units of `|zw|` in the numerator, and the quotient.
const RATIO_ERROR: f64 = 80.0 * UNIT;

impl Smoothing {
    /// Returns the smoothing whose tail beyond `tau`, with the given `ln` of its first term, is about `e^{log_tolerance}`.
    pub(in crate::contour) fn new(tau: f64, log_first: f64, log_tolerance: f64) -> Self {
        let width = 2.0 / tau * exp((log_first - log_tolerance).max(1.0) / f64::from(UNIFORM_ADDENDS));
        // m = −n·ln(sinh(w/2)/(w/2)). As δ falls, `E e^U ≤ 1` will do, so that m is rounded down: x²/6 − x⁴/180 + x⁶/2835 − … is below
        // its first two terms with a thousandth less of the second, for x ≤ 1/100.
        let half = 0.5 * width;
        let log_ratio = if half < 1e-2 {
            half * half / 6.0 * (1.0 - half * half / 30.0 * 0.999)
        } else {
            ln(0.5 * (exp(half) - exp(-half)) / half)
        };
        let shift = -f64::from(UNIFORM_ADDENDS) * log_ratio * (1.0 + 1e-9);
        Self { width, shift, lever: 0.25 * f64::from(UNIFORM_ADDENDS) * width }
    }

    pub(in crate::contour) fn width(&self) -> f64 {
        self.width
    }

    /// Returns bounds on `ln` of the tails of both sums from `tau` on, for a step h and without the factor `e^{K(c) − εc}`, given the bound
    /// `e^{log_envelope}` on the rest: `Σ 2·(h/2π)·|transform|/τ² ≤ (h/π)·(2/w)ⁿ·(τ^{−n−2} + τ^{−n−1}/((n+1)h))`.
    pub(in crate::contour) fn log_tails(&self, c: f64, step: f64, tau: f64, log_envelope: f64) -> (f64, f64) {
        let order = f64::from(UNIFORM_ADDENDS);
        if tau * self.width < 2.0 {
            return (f64::INFINITY, f64::INFINITY);
        }
        let sum = 1.0 / (tau * tau) + 1.0 / ((order + 1.0) * step * tau);
        let common = log_envelope + ln(step / PI * sum) + order * (LN_2 - ln(tau * self.width)) + 1e-6;
        let cosh = 0.5 * self.width * c;
        (common - c * self.shift + order * cosh, common + ln(1.0 + 2.0 * order * self.width / expm1(self.lever)))
    }

    /// Returns the transform for the upper bound.
    pub(in crate::contour) fn above(&self, z: Complex) -> Transform {
        // sinh(zw/2)/(zw/2) = e^{zw/2}·(1 − e^{−zw})/(zw).
        let ratio = self.ratio(z);
        let exponent = 0.5 * f64::from(UNIFORM_ADDENDS) * self.width - self.shift;
        let turn = polar(z.0 * exponent, z.1 * exponent);
        let value = product(raise(ratio.value), turn);
        let relative = (4.0 * modulus(z) * exponent + 80.0) * UNIT;
        Transform { value, error: modulus(turn) * ratio.power_error() * 1.01 + modulus(value) * relative }
    }

    /// Returns the transform for the lower bound.
    pub(in crate::contour) fn below(&self, z: Complex) -> Transform {
        let order = f64::from(UNIFORM_ADDENDS);
        let ratio = self.ratio(z);
        let k = raise(ratio.value);
        // g(z+1)/g(z) = (1 + e^{−zw}(1 − e^{−w})/(1 − e^{−zw}))·(1 − 1/(z+1)).
        let next = quotient((1.0, 0.0), (z.0 + 1.0, z.1));
        let fall = -expm1(-self.width);
        let scaled = (ratio.value.0 * self.width, ratio.value.1 * self.width);
        let gain = quotient((ratio.turn.0 * fall, ratio.turn.1 * fall), product(scaled, z));
        let both = product(gain, next);
        let change = (gain.0 - next.0 - both.0, gain.1 - next.1 - both.1);
        let log = ln_1p_complex(change);
        let grown = exp_m1((order * log.0, order * log.1));
        let lever = exp_m1((-z.0 * self.lever, -z.1 * self.lever));
        // (k(z) − k(z+1))·(1 − e^{−zs}) = k·grown·lever: two signs.
        let scale = 1.0 / expm1(self.lever);
        let factor = product(grown, lever);
        let added = product(k, (factor.0 * scale, factor.1 * scale));
        let value = (k.0 + added.0, k.1 + added.1);
        // The error of `change`, which may be much smaller than its parts, as part of k(z+1) = (g·(1 + change))ⁿ.
        let gain_error =
            modulus(gain) * (RATIO_ERROR + 60.0 * UNIT * ratio.modulus) + 40.0 * UNIT * modulus(next) * ratio.modulus;
        let successor = ratio.modulus * modulus((1.0 + change.0, change.1));
        let change_error =
            order * powi(successor, UNIFORM_ADDENDS - 1) * gain_error + 600.0 * UNIT * modulus(k) * modulus(grown);
        // |1 − e^{−zs}| within 60 units of |zs|.
        let lever_size = modulus(lever);
        let lever_error = 60.0 * UNIT * modulus(z) * self.lever;
        let error = (change_error * lever_size + modulus(k) * modulus(grown) * lever_error) * scale
            + ratio.power_error() * (1.0 + modulus(grown) * lever_size * scale)
            + 80.0 * UNIT * (modulus(k) + modulus(added));
        Transform { value, error: error * 1.1 }
    }

    fn ratio(&self, z: Complex) -> Ratio {
        let scaled = (z.0 * self.width, z.1 * self.width);
        let grown = exp_m1((-scaled.0, -scaled.1));
        let value = quotient((-grown.0, -grown.1), scaled);
        Ratio { value, modulus: modulus(value), turn: (1.0 + grown.0, grown.1) }
    }
}

impl Ratio {
    /// Bound on the error of gⁿ from that of g, and from the products.
    fn power_error(&self) -> f64 {
        let below = powi(self.modulus + RATIO_ERROR, UNIFORM_ADDENDS - 1);
        below * (f64::from(UNIFORM_ADDENDS) * RATIO_ERROR + 64.0 * UNIT * self.modulus)
    }
}

/// Returns xⁿ for `x ≥ 0`, n ≥ 0.
fn powi(x: f64, n: i32) -> f64 {
    (0..n).fold(1.0, |power, _| power * x)
}

/// Returns zⁿ for n = 16.
fn raise(z: Complex) -> Complex {
    let mut power = z;
    for _ in 0..UNIFORM_ADDENDS.trailing_zeros() {
        power = product(power, power);
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(E e^{−zU}, transform from below)` by Gauss–Legendre in the distribution of one addend, raised to n.
    fn slow(smoothing: &Smoothing, z: Complex) -> (Complex, Complex) {
        let k = |z: Complex| {
            // Midpoint rule of 4000 cells on [0, w]: error |zw|²/(24·4000²) of the integral.
            let (mut re, mut im) = (0.0, 0.0);
            for cell in 0..4000 {
                let v = (f64::from(cell) + 0.5) / 4000.0 * smoothing.width;
                let (a, b) = polar(-z.0 * v, -z.1 * v);
                (re, im) = (re + a / 4000.0, im + b / 4000.0);
            }
            raise((re, im))
        };
        let center = 0.5 * f64::from(UNIFORM_ADDENDS) * smoothing.width - smoothing.shift;
        let above = product(k(z), polar(z.0 * center, z.1 * center));
        let (here, next) = (k(z), k((z.0 + 1.0, z.1)));
        let (a, b) = polar(-z.0 * smoothing.lever, -z.1 * smoothing.lever);
        let scale = 1.0 / expm1(smoothing.lever);
        let added = product((here.0 - next.0, here.1 - next.1), ((1.0 - a) * scale, -b * scale));
        (above, (here.0 + added.0, here.1 + added.1))
    }

    #[test]
    fn transforms_are_those_of_the_averages() {
        let smoothing = Smoothing::new(100.0, 10.0, 0.0);
        for tau in [0.0, 0.5, 3.0, 20.0, 60.0] {
            let z = (2.5, tau);
            let (above, below) = slow(&smoothing, z);
            let found = (smoothing.above(z).value, smoothing.below(z).value);

            // 16 factors, each within |zw|²/(24·16·10⁶) of one, and the difference k(z) − k(z+1) divided by s = 4w.
            let w = modulus(z) * smoothing.width;
            let slack = 16.0 * (w + 0.1) * (w + 0.1) / 3.8e8 * (2.0 + 2.0 / smoothing.lever) + 1e-12;
            assert!(modulus((found.0.0 - above.0, found.0.1 - above.1)) <= slack, "{tau} {found:?} {above:?}");
            assert!(modulus((found.1.0 - below.0, found.1.1 - below.1)) <= slack, "{tau} {found:?} {below:?}");
        }
    }

    #[test]
    fn the_upper_average_does_not_raise_the_mean() {
        // E e^U is the transform at z = −1; it must not exceed 1 by more than rounding of some 20 units.
        for tau in [10.0, 1e3, 1e6] {
            let smoothing = Smoothing::new(tau, 10.0, 0.0);
            let mean = smoothing.above((-1.0, 0.0)).value.0;

            assert!(mean <= 1.0 + 20.0 * UNIT && mean > 1.0 - 1e-8, "{mean}");
        }
    }
}
