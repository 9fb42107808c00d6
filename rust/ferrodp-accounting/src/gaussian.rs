//! The Gaussian privacy curve δ(ε; μ), enclosed, and its inverses in ε and in the standard deviation.
//!
//! For a Gaussian release with noise multiplier `z`, and for any composition of such releases, neighboring datasets are as hard to
//! tell apart as `N(0, 1)` and `N(μ, 1)`: `μ = 1/z`, and `μ²` adds up (Dong, Roth, Su, "Gaussian differential privacy", JRSS B
//! 2022, Theorem 2.7 and Corollary 3.3). The curve is (Balle, Wang, "Improving the Gaussian mechanism for differential privacy",
//! ICML 2018, Theorem 8)
//!
//! ```text
//! δ(ε) = Φ̄(a) − e^ε·Φ̄(b),   a = ε/μ − μ/2,   b = ε/μ + μ/2.
//! ```
//!
//! As `e^ε·φ(b) = φ(a)`, this is `φ(a)·(M(a) − M(b))` with the Mills ratio `M`, and `∂δ/∂ε = −φ(a)·M(b)`, `∂δ/∂μ = φ(a)`.
//!
//! `δ` falls in `ε` and grows in `μ`, which is all that the certificates use. Newton's method for `ε` also stays on the safe
//! side: `ln δ` is concave in `ε`, as `δ(ε) = ∫₀^∞ e^{−s}·P[L > ε + s] ds`, with a normal loss `L`, is a marginal of a log-concave
//! function (Prékopa, "On logarithmic concave measures and functions", 1973).
//!
//! Everything is computed in 256 bits, and again in 512 where that leaves two neighboring floats open.

use crate::certified::{Interval, Real};
use crate::functions::{ln, normal::mills};
use crate::types::Bounds;
use crate::types::Rounding::{Down, Up};

/// The bits of a number in which `μ²` is kept.
pub type Wide = Interval<8>;

/// Newton takes 4 to 12.
const MAX_NEWTON_STEPS: usize = 200;
const MAX_INVERSE_NOISE: u64 = 10_000_000_000;
const UNKNOWN_LOG: f64 = -1e6;
const TINY_MU: f64 = 1e-12;

/// δ = e^exponent · factor, with what the derivatives need: φ(a) = e^exponent · density, M(b) = tail.
struct Curve<const N: usize> {
    exponent: Interval<N>,
    factor: Interval<N>,
    density: Interval<N>,
    tail: Interval<N>,
}

/// Returns −M′(x) = 1 − x·M(x).
fn slope<const N: usize>(x: Interval<N>, mills: Interval<N>) -> Interval<N> {
    Interval::integer(1) - x * mills
}

/// Returns δ(ε; μ) for ε ≥ 0, μ > 0.
///
/// Digits lost: fewer than 24 in M(a) − M(b) and in 1 − a·M(a) for a < 10¹⁰; fewer than 13 in 1 − …, where δ > 10⁻¹³.
fn curve<const N: usize>(epsilon: Real<N>, mu_squared: Interval<N>) -> Curve<N> {
    let (epsilon, one, zero) = (Interval::from(epsilon), Interval::integer(1), Interval::integer(0));
    let mu = mu_squared.sqrt();
    let a = (epsilon - mu_squared.scaled(-1)) / mu;
    let b = (epsilon + mu_squared.scaled(-1)) / mu;
    let root = Interval::sqrt_two_pi();
    let exponent = -a.square().scaled(-1);
    let density = one / root;
    if a.lower > Real::integer(MAX_INVERSE_NOISE) {
        // 1/(x² + 3) < −M′(x) < 1/(x² + 1), from two convergents of M: a factor that vanishes beside e^{−10²⁰/2}
        let (least, most) = (one / (b.square() + Interval::integer(3)), one / (a.square() + one));
        let factor = mu * Interval::new(least.lower, most.upper) / root;
        return Curve { exponent, factor, density, tail: one / b };
    }
    let tail = b.mills();
    if a.lower < Real::new(UNKNOWN_LOG) && !a.upper.is_negative() {
        // For μ so large that on which side of 0 the difference lies is not known.
        return Curve { exponent: zero, factor: Interval::new(Real::ZERO, Real::integer(1)), density, tail };
    }
    if mu.upper < Real::new(TINY_MU) {
        // ∫ₐᵇ −M′ between the midpoint and the trapezoid rule: −M′ is convex (Hermite and Hadamard).
        let middle = epsilon / mu;
        let ends = (slope(a, a.mills()) + slope(b, tail)).scaled(-1);
        let mean = slope(middle, middle.mills());
        let factor = mu * Interval::new(mean.lower, mean.lower.max(ends.upper)) / root;
        return Curve { exponent, factor, density, tail };
    }
    if !a.upper.is_negative() {
        return Curve { exponent, factor: (a.mills() - tail) / root, density, tail };
    }
    let density = exponent.exp() / root;
    Curve { exponent: zero, factor: one - density * ((-a).mills() + tail), density, tail }
}

/// Returns the narrower one of two evaluations: in 256 bits if that is enough, else in 512.
fn tight(narrow: impl FnOnce() -> Bounds, wide: impl FnOnce() -> Bounds) -> Bounds {
    let found = narrow();
    if found.upper.next_down() <= found.lower { found } else { wide() }
}

/// Returns δ(ε; μ) for any real ε and μ ≥ 0, in this many limbs.
#[must_use]
pub fn delta_in<const N: usize>(epsilon: f64, mu_squared: Wide) -> Interval<N> {
    let absolute = Real::new(epsilon.abs());
    let positive = if mu_squared.upper.is_zero() {
        Interval::integer(0)
    } else {
        let curve = curve::<N>(absolute, mu_squared.converted());
        (curve.exponent.exp() * curve.factor).clamped()
    };
    if epsilon >= 0.0 {
        return positive;
    }
    // δ(−|ε|) = 1 − e^{−|ε|} + e^{−|ε|}·δ(|ε|), as the two laws may change places.
    let exponent = Interval::from(epsilon);
    (exponent.one_minus_exp() + exponent.exp() * positive).clamped()
}

/// Returns the floats next to δ(ε; μ) for any real ε and μ ≥ 0.
#[must_use]
pub fn delta(epsilon: f64, mu_squared: Wide) -> Bounds {
    tight(|| delta_in::<4>(epsilon, mu_squared).floats(), || delta_in::<8>(epsilon, mu_squared).floats())
}

/// Returns the floats next to ln δ(ε; μ) for ε ≥ 0; −∞ if μ = 0.
#[must_use]
pub fn log_delta(epsilon: f64, mu_squared: Wide) -> Bounds {
    fn within<const N: usize>(epsilon: f64, mu_squared: Wide) -> Bounds {
        let curve = curve::<N>(Real::new(epsilon), mu_squared.converted());
        if !curve.factor.is_positive() {
            return Bounds { lower: f64::NEG_INFINITY, upper: 0.0 };
        }
        (curve.exponent + curve.factor.ln()).not_above_zero().floats()
    }
    if mu_squared.upper.is_zero() {
        return Bounds { lower: f64::NEG_INFINITY, upper: f64::NEG_INFINITY };
    }
    tight(|| within::<4>(epsilon, mu_squared), || within::<8>(epsilon, mu_squared))
}

/// Returns the least float from 0 to `high` from which on `holds` is true, where `high` itself is not tested.
///
/// Two tests if the guess is right; else the step doubles, and then the interval halves.
fn first_float(holds: impl Fn(f64) -> bool, guess: f64, high: f64) -> f64 {
    let (guess, high) = (guess.clamp(0.0, high).to_bits() as i64, high.to_bits() as i64);
    let holds = |number: i64| holds(f64::from_bits(number as u64));
    let (mut no, mut yes, mut step) = (guess - 1, guess, 1_i64);
    if guess == high || holds(guess) {
        while no >= 0 && holds(no) {
            (no, yes, step) = (no.saturating_sub(step).max(-1), no, step.saturating_mul(2));
        }
    } else {
        (no, yes) = (guess, guess + 1);
        while yes < high && !holds(yes) {
            (no, yes, step) = (yes, yes.saturating_add(step).min(high), step.saturating_mul(2));
        }
    }
    while yes - no > 1 {
        let middle = i64::midpoint(no, yes);
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    f64::from_bits(yes as u64)
}

/// Returns the floats around the smallest ε ≥ 0 with δ(ε; μ) ≤ target, for 0 < target < 1.
#[must_use]
pub fn epsilon(target: f64, mu_squared: Wide) -> Bounds {
    if mu_squared.upper.is_zero() || delta(0.0, mu_squared).upper <= target {
        return Bounds::ZERO;
    }
    let guess = newton_for_epsilon::<4>(target, mu_squared).or_else(|| newton_for_epsilon::<8>(target, mu_squared));
    crossing(|x| delta(x, mu_squared), target, guess.unwrap_or(0.0))
}

/// Returns bounds on where a falling function, given by its bounds, reaches the target: each from the end that is safe.
fn crossing(function: impl Fn(f64) -> Bounds, target: f64, guess: f64) -> Bounds {
    // mutant: epsilon-of-a-gaussian-from-the-lower-end
    let upper = first_float(|x| function(x).upper <= target, guess, f64::INFINITY);
    let above = first_float(|x| function(x).lower < target, upper, upper);
    Bounds { lower: if above > 0.0 { above.next_down() } else { 0.0 }, upper }
}

/// Returns ε with ln δ(ε) = ln target to about 30 digits, by Newton's method from the right, or `None` if it does not settle.
///
/// Starts from what floats find, or from ε = μ²/2 + μ·√(2 ln(1/target)), which is enough (Bun, Steinke, "Concentrated
/// differential privacy", TCC 2016, Proposition 1.3). A start on the left of the root leads to one on its right, as ln δ is
/// concave. Proposes; [`epsilon`] certifies.
fn newton_for_epsilon<const N: usize>(target: f64, mu_squared: Wide) -> Option<f64> {
    let mu_squared: Interval<N> = mu_squared.converted();
    let goal = Interval::from(target).ln().upper;
    let mu = mu_squared.sqrt().upper;
    let spread = goal.negated().scaled(1).sqrt(Up);
    let enough = mu.mul(mu.scaled(-1).add(spread, Up), Up);
    let mut x = floats_for_epsilon(target, mu.float(Up), enough.float(Up)).map_or(enough, Real::new);
    for _ in 0..MAX_NEWTON_STEPS {
        let curve = curve(x, mu_squared);
        if !curve.factor.is_positive() {
            return None;
        }
        let step = newton_step(goal, &curve, curve.density.upper.mul(curve.tail.upper, Up))?;
        let moved = x.sub(step, Up).max(x.scaled(-10));
        if is_settled(moved.sub(x, Up), x) {
            return Some(moved.float(Up));
        }
        x = moved;
    }
    None
}

/// Returns about the ε that [`newton_for_epsilon`] looks for, to some digits, by the same steps in floats from `start`.
fn floats_for_epsilon(target: f64, mu: f64, start: f64) -> Option<f64> {
    let (goal, mut x) = (ln(target), start);
    for _ in 0..MAX_NEWTON_STEPS {
        let (a, b) = (x / mu - mu / 2.0, x / mu + mu / 2.0);
        if !(a > 0.0 && b < 1e6) {
            return None;
        }
        let (tail, factor) = (mills(b), mills(a) - mills(b));
        let logarithm = -a * a / 2.0 + ln(factor / (2.0 * core::f64::consts::PI).sqrt());
        let moved = x - (goal - logarithm) * factor / tail;
        if !(moved > 0.0 && moved.is_finite()) {
            return None;
        }
        if (moved - x).abs() <= 1e-12 * x {
            return Some(moved);
        }
        x = moved;
    }
    None
}

/// Returns (goal − ln δ)/(slope/factor); `None` without a slope.
fn newton_step<const N: usize>(goal: Real<N>, curve: &Curve<N>, slope: Real<N>) -> Option<Real<N>> {
    let logarithm = curve.exponent.upper.add(Interval::from(curve.factor.upper).ln().upper, Up);
    let slope = slope.div(curve.factor.upper, Up);
    (!slope.is_zero()).then(|| goal.sub(logarithm, Up).div(slope, Up))
}

/// Whether a Newton step was below 2⁻⁵⁰ of x, so that the next one would be near 2⁻¹⁰⁰ of it.
fn is_settled<const N: usize>(step: Real<N>, x: Real<N>) -> bool {
    step.is_zero() || step.magnitude() < x.magnitude() - 50
}

/// Returns about the largest μ with δ(ε; μ) ≤ target, by Newton's method in ln μ. Proposes; callers certify.
///
/// Starts below it, from μ²/2 + μ·√(2 ln(1/target)) ≤ ε or μ ≤ target·√(2π), whichever is more: either is enough.
fn largest_mu_in<const N: usize>(target: f64, epsilon: f64) -> (Real<N>, bool) {
    let (goal, twice) = (Interval::from(target).ln().lower, Real::new(epsilon).scaled(1));
    let spread = goal.negated().scaled(1);
    let longer = spread.add(twice, Down).sqrt(Down);
    let short = twice.div(longer.add(spread.sqrt(Down), Down), Down);
    let mut mu = short.max((Interval::from(target) * Interval::sqrt_two_pi()).lower);
    for _ in 0..MAX_NEWTON_STEPS {
        let curve = curve(Real::new(epsilon), Interval::from(mu).square());
        if !curve.factor.is_positive() {
            return (mu, false);
        }
        let one = Real::integer(1);
        let step = newton_step(goal, &curve, mu.mul(curve.density.upper, Down)).unwrap_or(one);
        let factor = Interval::from(step.max(one.negated()).min(one)).exp();
        let moved = mu.mul(factor.lower, Down);
        if is_settled(moved.sub(mu, Down), mu) {
            return (moved, true);
        }
        mu = moved;
    }
    (mu, false)
}

fn largest_mu(target: f64, epsilon: f64) -> Wide {
    let (found, is_settled) = largest_mu_in::<4>(target, epsilon);
    if is_settled { Interval::from(found).converted() } else { Interval::from(largest_mu_in::<8>(target, epsilon).0) }
}

/// Returns about the largest μ² with δ(ε; μ) ≤ target, for 0 < target < 1 and ε ≥ 0: a proposal.
#[must_use]
pub fn largest_squared_mu(target: f64, epsilon: f64) -> f64 {
    largest_mu(target, epsilon).square().upper.float(Down)
}

/// Whether noise of standard deviation `sigma` is proven to give (ε, δ) at this sensitivity.
#[must_use]
pub fn is_enough(sigma: f64, epsilon: f64, target: f64, sensitivity: f64) -> bool {
    delta(epsilon, (Wide::from(sensitivity) / Wide::from(sigma)).square()).upper <= target
}

/// Returns the least float that [`is_enough`], or infinity.
#[must_use]
pub fn standard_deviation(epsilon: f64, target: f64, sensitivity: f64) -> f64 {
    let proposal = (Wide::from(sensitivity) / largest_mu(target, epsilon)).upper.float(Up);
    first_float(|sigma| sigma > 0.0 && is_enough(sigma, epsilon, target, sensitivity), proposal, f64::INFINITY)
}

/// Returns the μ of the Gaussian mechanism that `steps` releases about samples approach: q·√(T·m), rounded up.
///
/// m = e^{1/z²} − 1 for Poisson samples, and 2(e^{1/z²}Φ(3/2z) + 3Φ(−1/2z) − 2) for samples of fixed size (Bu, Dong, Long, Su, "Deep
/// learning with Gaussian differential privacy", HDSR 2020, Theorem 5 and Corollary 5.4). The latter cancels to second and third order
/// in 1/z: beyond 2⁹⁰ its first term is as good. For `z` ≥ 10⁻⁶.
#[must_use]
pub fn central_limit_mu(noise_multiplier: f64, q: f64, steps: u64, is_poisson: bool) -> f64 {
    let x = Wide::integer(1) / Wide::from(noise_multiplier);
    let growth = x.square().exp_minus_one();
    let mean = if is_poisson || x.upper.magnitude() < -90 {
        growth
    } else {
        let (near, far) = (x.scaled(-1), x.mul_integer(3).scaled(-1));
        let tails = near.normal_tail().mul_integer(3) - x.square().exp() * far.normal_tail();
        (growth - Wide::integer(1) + tails).scaled(1)
    };
    (Wide::from(q) * mean.mul_integer(steps).sqrt()).floats().upper
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_over(z: f64) -> Wide {
        Wide::integer(1) / Wide::from(z).square()
    }

    #[test]
    fn the_curve_has_known_values() {
        // mpmath, 60 digits
        let Bounds { lower, upper } = delta(1.0, one_over(1.0));
        assert_eq!((0.126_936_737_506_643_94, 0.126_936_737_506_643_97), (lower, upper));
        assert_eq!(4.377_178_095_681_225, epsilon(1e-5, one_over(1.0)).upper);
        assert_eq!(3.730_631_634_815_942, standard_deviation(1.0, 1e-5, 1.0));
        assert_eq!(-4_960.254_553_817_42, log_delta(100.0, one_over(1.0)).upper);
    }

    #[test]
    fn both_precisions_agree_where_the_curve_is_evaluated_in_another_way() {
        for (z, epsilons) in
            [(1.0, [0.0, 0.5, 30.0]), (1e14, [0.0, 3e-13, 1e-14]), (0.1, [50.0, 49.0, 80.0]), (1e-3, [4e5, 5e5, 9e5])]
        {
            for epsilon in epsilons {
                let (narrow, wide) =
                    (delta_in::<4>(epsilon, one_over(z)), delta_in::<8>(epsilon, one_over(z)).converted::<4>());
                assert!(narrow.lower <= wide.upper && wide.lower <= narrow.upper, "{z} {epsilon}");
            }
        }
    }

    #[test]
    fn what_is_found_is_the_first_float_that_keeps_the_target() {
        for (z, target) in [(1.0, 1e-5), (30.0, 1e-9), (0.01, 0.5), (1e6, 1e-8), (2.0, 5e-324), (1e-6, 1e-300)] {
            let found = epsilon(target, one_over(z));
            assert!(delta(found.upper, one_over(z)).upper <= target);
            assert!(found.upper == 0.0 || delta(found.upper.next_down(), one_over(z)).upper > target);
            assert!(found.lower <= found.upper);
            let sigma = standard_deviation(found.upper, target, 1.0);
            assert!(
                sigma <= z
                    && is_enough(sigma, found.upper, target, 1.0)
                    && !is_enough(sigma.next_down(), found.upper, target, 1.0)
            );
        }
    }

    #[test]
    fn central_limits_are_those_of_their_formulas() {
        for z in [0.5, 1.0, 7.0] {
            let x = 1.0 / z;
            let (poisson, uniform) = (central_limit_mu(z, 0.1, 100, true), central_limit_mu(z, 0.1, 100, false));
            let phi = |t: f64| 0.5 * libm::erfc(-t * core::f64::consts::FRAC_1_SQRT_2);
            let m = 2.0 * (libm::exp(x * x) * phi(1.5 * x) + 3.0 * phi(-0.5 * x) - 2.0);
            assert!((poisson / libm::expm1(x * x).sqrt() - 1.0).abs() < 1e-12, "{z}");
            assert!((uniform / m.sqrt() - 1.0).abs() < 1e-9, "{z}: {uniform} {m}");
        }
        let (narrow, wide) = (central_limit_mu(1e27, 1.0, 1, false), central_limit_mu(1e28, 1.0, 1, false));
        assert!((narrow / wide / 10.0 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn answers_keep_to_the_safe_end_of_wide_enclosures() {
        // Enclosures are so narrow that floats do not show which end was used; here they are a factor of 4 wide.
        let narrow = |x| delta(x, one_over(1.0));
        let wide = |x| Bounds { lower: narrow(x).lower / 2.0, upper: narrow(x).upper * 2.0 };
        let found = crossing(wide, 1e-5, 4.0);
        assert_eq!(epsilon(0.5e-5, one_over(1.0)).upper, found.upper);
        assert_eq!(epsilon(2e-5, one_over(1.0)).lower, found.lower);
    }

    #[test]
    fn searches_find_the_first_float_from_any_guess() {
        for guess in [0.0, 1.0, 1e300, f64::INFINITY, 3.5] {
            assert_eq!(3.5, first_float(|x| x >= 3.5, guess, f64::INFINITY));
            assert_eq!(f64::INFINITY, first_float(|_| false, guess, f64::INFINITY));
            assert_eq!(0.0, first_float(|_| true, guess, f64::INFINITY));
        }
    }
}
