//! The tail of a removal's outcomes, accounted apart from the rest.
//!
//! With A the event that every outcome is at most its B,
//!
//! ```text
//! δ(ε) = ∫_A (P − e^ε Q)₊ + ∫_Aᶜ (P − e^ε Q)₊
//! ```
//!
//! The first addend is the hockey-stick of P and Q restricted to A, which the contour answers for: their `E_P[e^{zL}; A]` is a product
//! again, and without the tail its saddle point can go where it belongs. The second is
//!
//! ```text
//! P[Aᶜ] − e^ε·Q[Aᶜ] + U,   U = ∫_Aᶜ (e^ε Q − P)₊
//! ```
//!
//! `0 ≤ U ≤ e^ε·Q[Aᶜ]`, and for any `t > 0`, by a union bound over the step that is beyond, in which `r ≥ r(B)`, and Chernoff over the others, of
//! which each has `E_Q[r^{−t}] ≥ 1`,
//!
//! ```text
//! U ≤ Σᵢ e^{ε(1 + t)} · Q[xᵢ > Bᵢ]·r(Bᵢ)^{−t} · Π E_Q[r^{−t}]
//! ```
//!
//! So B need not lie where outcomes end, but only where one of them is enough for a loss of ε, whatever the others are.

use super::composition::Composition;
use super::line::log_mgf_upper;
use super::moments::quadrature::beyond_end;
use super::moments::ratio::Sampled;
use super::saddle;
use crate::functions::{RELATIVE_ERROR, UNIT, erfc, exp, expm1, ln, ln_1p};
use crate::memory::gathered;
use crate::types::Direction;
use core::f64::consts::{LN_2, SQRT_2};

/// A composition whose removals are cut, and what the cut leaves to add.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// With outcomes up to B only.
    pub(super) composition: Composition,
    /// `P[Aᶜ]` and `Q[Aᶜ]`.
    mass: (f64, f64),
    /// Bound on their relative errors.
    error: f64,
    /// `t`, if some B lies where losses are large enough.
    exponent: Option<f64>,
    /// `(t, ln of the bound on U without its factor e^{ε(1 + t)})`, once it was computed.
    chernoff: Option<(f64, f64)>,
}

/// What is known about how small losses can be: `(t, ln Π E_Q[r^{−t}])` for some t, without proof.
#[derive(Clone, Debug)]
pub(super) struct Floors(Vec<(f64, f64)>);

impl Floors {
    pub(super) fn new(composition: &Composition) -> Self {
        let mut curve = saddle::Curve::new(composition, Direction::Add);
        let at = |k: u32| exp(f64::from(k) * 1.4);
        Self((0..16).map(at).map(|t| (t, curve.value_if_cheap(t).min(log_worst(composition, t)))).collect())
    }

    /// Returns `(t, ℓ)` such that beyond `ln r = ℓ` the bound on U with exponent t is small enough, ℓ the least over some t.
    fn saturation(&self, log_steps: f64, epsilon: f64, target: f64) -> Option<(f64, f64)> {
        let level = |&(t, cumulant): &(f64, f64)| (t, epsilon + (cumulant + log_steps + epsilon - target) / t);
        let finite = self.0.iter().map(level).filter(|(_, level)| level.is_finite());
        finite.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// How small U is to be, relative to δ: e to minus this power; and least where more digits are lost than gained by that.
pub(super) const REMAINDER_NATS: f64 = 23.0;
pub(super) const LEAST_SPARE: f64 = 9.0;

impl Cut {
    /// Returns the cut that suits δ(ε) near `e^{log_delta}`: where mass ends, or before that, where losses are large enough anyway.
    ///
    /// U is to be about `e^{−spare}` of δ, once [`Cut::certify`] has shown it; before, it has the bound `e^ε·Q[Aᶜ]`.
    pub(super) fn new(
        composition: &Composition,
        floors: Option<&Floors>,
        epsilon: f64,
        log_delta: f64,
        spare: f64,
    ) -> Self {
        let target = log_delta - spare - ln(composition.sampled.len() as f64);
        let log_steps = ln(composition.num_steps());
        let saturated = floors.and_then(|floors| floors.saturation(log_steps, epsilon, target));
        let mut cut = composition.copy();
        let mut chernoff_used = false;
        for (event, count) in &mut cut.sampled {
            let by_mass = event.sigma * normal_quantile(target - ln(*count) - epsilon);
            let by_loss = saturated.map_or(f64::INFINITY, |(_, level)| event.outcome(level));
            chernoff_used |= by_loss < by_mass;
            event.end = Some(by_mass.min(by_loss));
        }
        let exponent = saturated.filter(|_| chernoff_used).map(|(t, _)| t);
        let (mut logs, mut error) = ((0.0, 0.0), 0.0_f64);
        for (event, count) in &cut.sampled {
            let (p, q, relative) = event.cut_mass();
            logs.0 -= count * ln_1p(-p);
            logs.1 -= count * ln_1p(-q);
            error = error.max(relative);
        }
        let error = error + (40.0 + cut.sampled.len() as f64) * UNIT;
        Self { composition: cut, mass: (-expm1(-logs.0), -expm1(-logs.1)), error, exponent, chernoff: None }
    }

    /// Proves the bound on U, for the composition that was cut.
    pub(super) fn certify(mut self, composition: &Composition) -> Self {
        self.chernoff = self.exponent.map(|t| (t, log_chernoff(composition, &self.composition, t)));
        self
    }

    /// Returns bounds on `∫_Aᶜ (P − e^ε Q)₊`.
    pub(super) fn remainder(&self, epsilon: f64) -> (f64, f64) {
        let weighted = exp(epsilon) * self.mass.1;
        let error = self.error + (4.0 * epsilon + 20.0) * UNIT;
        let slack = error * (self.mass.0 + weighted);
        let mut unsaturated = weighted;
        if let Some((t, log)) = self.chernoff {
            unsaturated = unsaturated.min(exp((1.0 + t) * epsilon * (1.0 + 4.0 * UNIT) + log));
        }
        // (P − e^ε Q)₊ ≤ P in any case.
        let most = self.mass.0 * (1.0 + error);
        if !weighted.is_finite() {
            return (0.0, most);
        }
        let difference = self.mass.0 - weighted;
        // mutant: remainder-of-a-cut
        let upper = difference + slack + unsaturated * 1.001;
        ((difference - slack).max(0.0), if upper < most { upper.max(0.0) } else { most })
    }
}

/// Returns `ln` of `Σ count·E_Q[r^{−t}; x > B]·Π E_Q[r^{−t}]`, rounded up.
fn log_chernoff(composition: &Composition, cut: &Composition, t: f64) -> f64 {
    let logs: Vec<f64> = gathered(cut.sampled.iter().map(|(event, count)| ln(*count) + event.log_cut_moment(t)));
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = largest + ln(logs.iter().map(|log| exp(log - largest)).sum());
    let certified = log_mgf_upper(composition, Direction::Add, t);
    log_sum + certified.min(log_worst(composition, t)) + 1e-9
}

/// Returns an upper bound on `ln Π E_Q[e^{−tL}]` that is reached as t grows: `r ≥ 1 − q`.
fn log_worst(composition: &Composition, t: f64) -> f64 {
    t * composition.extreme_loss() + 0.5 * composition.gaussian * t * (1.0 + t) * (1.0 + 1e-12)
}

impl Sampled {
    /// Returns the x with `ln r(x) = level > ln(1 − q)`, to some digits.
    fn outcome(&self, level: f64) -> f64 {
        let odds = if level < 30.0 { ln((expm1(level) + self.q) / self.q) } else { level - ln(self.q) };
        0.5 + self.variance * odds
    }

    /// Returns `P[x > B]` and `Q[x > B]`, and a bound on their relative errors.
    fn cut_mass(&self) -> (f64, f64, f64) {
        let (missed, error) = beyond_end(self);
        let hit = self.end.map_or(0.0, |end| 0.5 * erfc((end - 1.0) / (self.sigma * SQRT_2)));
        (self.rest * missed + self.q * hit, missed, 2.0 * error + RELATIVE_ERROR)
    }

    /// Returns an upper bound on `ln E_Q[r^{−t}; x > B] ≤ −t·ln r(B) − z²/2 − ln 2`, `z = B/σ`.
    fn log_cut_moment(&self, t: f64) -> f64 {
        let Some(end) = self.end else { return f64::NEG_INFINITY };
        let z = end / self.sigma;
        -t * self.log_modulus(end, &self.height(0.0)) * (1.0 - 1e-12) - 0.5 * z * z * (1.0 - 1e-14) - LN_2 + 1e-12
    }
}

/// Returns `z ≥ 0` with `ln Φ̄(z) ≈ log_tail`, at most 36.
fn normal_quantile(log_tail: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 36.0_f64);
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        if ln(0.5 * erfc(middle / SQRT_2)) > log_tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contour::composition::Release;

    /// Unless it is shown that a cut's outcomes are all worth their loss, they may be worth all of their P-mass.
    #[test]
    fn what_a_cut_leaves_out_counts_whole_until_more_is_known() {
        let release = Release { noise_multiplier: 1.0, sampling_probability: 0.1, count: 10 };
        let composition = Composition::new(&[release]).expect("valid parameters");
        let mut cut = Cut { composition, mass: (1e-6, 2e-7), error: 1e-9, exponent: None, chernoff: None };
        let (lower, upper) = cut.remainder(1.0);
        assert!(lower <= 1e-6 - 2e-7 * exp(1.0) && upper >= 1e-6, "{lower} {upper}");

        cut.chernoff = Some((1.0, -40.0));
        let (below, above) = cut.remainder(1.0);
        let exact = 1e-6 - 2e-7 * exp(1.0);
        assert!(below < exact && above > exact && above < upper, "{below} {above}");
    }
}
