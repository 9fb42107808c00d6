//! Reading δ(ε) off a composition, on both sides.
//!
//! With yₖ the tilted masses, C what they were divided by, κ = (ε − offset)/step and n the reference node,
//! δ(ε) = S·Σ_{k>κ} yₖ·e^(−θ(k−n))·(1 − e^(ε − ℓₖ)) + (mass at +∞), S = C·e^(−θn). Sums Aₖ of the untilted masses and Dₖ, the
//! sum above for ε = ℓₖ, are made from the top down by D_{k−1} = e^−h·D_k + (1 − e^−h)·A_k: positive terms only.
//!
//! # Numerics
//!
//! Noise of norm η in y changes the sum by at most η·‖w‖, w the weights of yₖ: with s the loss above ε and t = θ/h,
//! w = e^(−θ(κ−n))·e^(−ts)(1 − e^−s), whose largest value is e^(−θ(κ−n))·tᵗ/(1 + t)^(1+t) =: m, and whose squares add up to at
//! most ∫/h + m², the integral being e^(−2θ(κ−n))/(t(2t + 1)(2t + 2)). Masses are never negative, so computed ones that are
//! become 0, which only shrinks the noise. A step of the recurrence is within 16 units of exact, n of them within 16n.

mod gap;

use crate::functions::{UNIT, exp, expm1, ln, ln_1p, sqrt};
use crate::memory::{filled, gathered};
use crate::pld::compose::{Composition, Side};
use gap::Gap;

/// Bound on the relative error of the scale S = e^x for |x| < 1000, and of the few operations after it.
const LAST_ROUNDINGS: f64 = 2048.0 * UNIT;

/// Relative distance from a crossing at which bounds are taken where many are wanted.
const CROSSING_TOLERANCE: f64 = 1e-8;

/// Where a point below the crossing is looked for, in units of where it was expected.
const NEARBY_FACTORS: [f64; 12] = [1.0, 0.9999, 0.999, 0.99, 0.97, 0.93, 0.85, 0.7, 0.5, 0.25, 0.1, 0.0];

/// A curve δ(ε), ready to be asked.
pub struct Curve {
    step: f64,
    offset: f64,
    first: i64,
    reference: i64,
    theta: f64,
    noise: f64,
    relative: f64,
    above: f64,
    below: f64,
    ends: (f64, f64),
    upper: Reading,
    lower: Reading,
    /// What has to be taken off the lower bound; None if nothing.
    gap: Option<Gap>,
    /// Bound on how far losses on the grid lie from those that they stand for.
    shift: f64,
}

struct Reading {
    /// Sums of the untilted masses from each node on.
    mass: Vec<f64>,
    /// δ at each node, without what is at infinity.
    delta: Vec<f64>,
    scale: f64,
    side: Side,
}

impl Curve {
    /// Prepares a composition; `near` is the ε that will be asked about, roughly.
    #[must_use]
    pub fn new(mut composition: Composition, near: f64, shift: f64) -> Self {
        let Composition { step, offset, window, noise, relative, ends, .. } = composition;
        let size = composition.upper.tilted.len();
        let reference = libm::rint((near - offset) / step) as i64;
        let decay: Vec<f64> =
            gathered((0..size).map(|i| exp((-window.theta * (window.first + i as i64 - reference) as f64).min(600.0))));
        // below this node weights would overflow; what is asked there gets the trivial answer
        let reach = (600.0 / window.theta).min(1e15) as i64;
        let start = (reference - reach - window.first).clamp(0, size as i64 - 1) as usize;
        let upper_masses = core::mem::take(&mut composition.upper.tilted);
        let lower_masses = core::mem::take(&mut composition.lower.tilted);
        let theta = window.theta;
        let gap = (composition.spread > 0.0).then(|| {
            let untilted = |masses: &[f64], i: usize| masses[start + i].max(0.0) * decay[start + i];
            let (upper, lower) = (|i| untilted(&upper_masses, i), |i| untilted(&lower_masses, i));
            Gap::new(composition.spread, step, size - start, upper, lower)
        });
        let read =
            |side: Side, tilted: Vec<f64>| Reading::new(side, &tilted, &decay, step, theta * reference as f64, start);
        Self {
            step,
            offset,
            first: window.first + start as i64,
            reference,
            theta,
            noise,
            relative,
            above: window.above,
            below: window.below,
            ends,
            upper: read(composition.upper, upper_masses),
            lower: read(composition.lower, lower_masses),
            gap,
            shift,
        }
    }

    /// Returns an upper bound on δ(ε).
    #[must_use]
    pub fn delta_upper(&self, epsilon: f64) -> f64 {
        // mutant: doubt-of-the-upper-bound
        let epsilon = epsilon - self.doubt(epsilon);
        let place = (epsilon - self.offset) / self.step;
        let (largest, norm) = self.weights(place);
        let side = &self.upper.side;
        let (below, above) = self.outside(side);
        let end = self.first + self.upper.delta.len() as i64;
        let beyond = if above > 0.0 { above * exp(-self.theta * (end - self.reference) as f64) } else { 0.0 };
        let missed = if place < self.first as f64 && below > 0.0 { largest * below } else { 0.0 };
        let sum = self.upper.at(place, self.step, self.first) * (1.0 + 16.0 * UNIT * self.upper.delta.len() as f64);
        let relative = exp(self.relative + side.log_scale_error + LAST_ROUNDINGS);
        // mutant: terms-of-the-upper-bound
        let bound = (sum + self.noise * norm + beyond + missed) * self.upper.scale * relative + side.infinity;
        let bound = bound.min(self.chernoff(place)) * (1.0 + 4.0 * UNIT);
        if bound < 1.0 { bound } else { 1.0 }
    }

    /// Returns a lower bound on δ(ε).
    #[must_use]
    pub fn delta_lower(&self, epsilon: f64) -> f64 {
        let epsilon = epsilon + self.doubt(epsilon);
        // δ only rises below the first node that is kept
        let place = ((epsilon - self.offset) / self.step).max(self.first as f64);
        let (largest, norm) = self.weights(place);
        let side = &self.lower.side;
        let (below, above) = self.outside(side);
        let wrapped = below + above;
        let sum = self.lower.at(place, self.step, self.first) * (1.0 - 16.0 * UNIT * self.lower.delta.len() as f64);
        let relative = exp(-self.relative - side.log_scale_error - LAST_ROUNDINGS);
        // mutant: terms-of-the-lower-bound
        let bound = (sum - self.noise * norm - largest * wrapped) * self.lower.scale * relative;
        let bound = if self.lower.scale > f64::MIN_POSITIVE { bound.max(0.0) } else { 0.0 };
        let bound = (bound + side.infinity) * (1.0 - 4.0 * UNIT) - self.added(place);
        if bound > 0.0 { bound.min(1.0) } else { 0.0 }
    }

    /// Returns a bound on what connecting the dots has added to δ in the lower law, see `gap`.
    fn added(&self, place: f64) -> f64 {
        let Some(gap) = &self.gap else { return 0.0 };
        let (t, decay) = (self.theta / self.step, gap.decay());
        if decay <= 1.01 * t {
            return 1.0;
        }
        let weight = exp(-self.theta * (place - self.reference as f64));
        let tail = -1.0 / expm1(-2.0 * self.theta);
        let upper_noise = self.noise * weight * sqrt(tail - 1.0 / expm1(-2.0 * (decay * self.step - self.theta)));
        let lower_noise = self.noise * weight * sqrt(tail);
        let end = self.first + self.upper.delta.len() as i64;
        let (_, above) = self.outside(&self.upper.side);
        let beyond = if above > 0.0 { above * exp(-self.theta * (end - self.reference) as f64) } else { 0.0 };
        let (below, above) = self.outside(&self.lower.side);
        let from = place - self.first as f64;
        let rounding = self.relative + 16.0 * UNIT * self.upper.delta.len() as f64 + LAST_ROUNDINGS;
        let rising = self.upper.mass_above(from) + gap.below(from, self.step) + upper_noise + beyond;
        let rising = rising * self.upper.scale * exp(rounding + self.upper.side.log_scale_error)
            + self.upper.side.infinity
            + exp(-decay * from * self.step);
        let falling = gap.above(from, self.step, &self.lower.mass) - lower_noise - weight * (below + above);
        let falling = falling.max(0.0) * self.lower.scale * exp(-rounding - self.lower.side.log_scale_error)
            + self.lower.side.infinity;
        let added = gap.factor() * (rising - falling);
        // not a number if a term was infinite: then nothing is known
        if added < 1.0 { added.max(0.0) } else { 1.0 }
    }

    /// Returns which part of the lower bound on δ(ε) is given away because mass outside of the window wraps around.
    #[must_use]
    pub fn wrapped(&self, epsilon: f64) -> f64 {
        let place = ((epsilon - self.offset) / self.step).max(self.first as f64);
        let (below, above) = self.outside(&self.lower.side);
        let lost = self.weights(place).0 * (below + above);
        if lost > 0.0 { lost / (lost + self.lower.at(place, self.step, self.first)) } else { 0.0 }
    }

    /// Returns an ε ≥ 0 with δ(ε) ≤ `delta`; +∞ if none is found.
    #[must_use]
    pub fn epsilon_upper(&self, delta: f64) -> f64 {
        let top = self.offset + (self.first + self.upper.delta.len() as i64) as f64 * self.step + self.shift;
        if self.delta_upper(0.0) <= delta {
            return 0.0;
        }
        let top = top.max(self.step) * 2.0;
        if self.delta_upper(top) > delta {
            return f64::INFINITY;
        }
        bisect(0.0, top, |epsilon| self.delta_upper(epsilon) <= delta).1
    }

    /// Returns an ε ≥ 0 with δ(ε′) > `delta` for all ε′ < ε, or 0.
    #[must_use]
    pub fn epsilon_lower(&self, delta: f64) -> f64 {
        let top = (self.offset + (self.first + self.lower.delta.len() as i64) as f64 * self.step).max(self.step) * 2.0;
        if self.delta_lower(top) > delta {
            return if self.lower.side.infinity > delta { f64::INFINITY } else { top };
        }
        // noise may hide the truth near 0; the crossing is sought where the curve was tilted to
        let near = (self.offset + self.reference as f64 * self.step).clamp(0.0, top);
        let start = NEARBY_FACTORS.into_iter().map(|x| x * near).find(|&epsilon| self.delta_lower(epsilon) > delta);
        start.map_or(0.0, |start| bisect(start, top, |epsilon| self.delta_lower(epsilon) <= delta).0)
    }

    /// Returns bounds on the ε > 0 of `delta`, which is looked for near `near`: 0 and +∞ where nothing was found.
    #[must_use]
    pub fn epsilon_near(&self, delta: f64, near: f64) -> (f64, f64) {
        let upper = self.crossing(near, 1.0, delta, |epsilon| self.delta_upper(epsilon), |found| found <= delta);
        let lower = self.crossing(near, -1.0, delta, |epsilon| self.delta_lower(epsilon), |found| found > delta);
        (lower.unwrap_or(0.0), upper.unwrap_or(f64::INFINITY))
    }

    /// Returns a point at which what was read of δ `holds`, close to the last one on that side, found by secants of its logarithm.
    fn crossing(
        &self,
        near: f64,
        side: f64,
        delta: f64,
        read: impl Fn(f64) -> f64,
        holds: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let goal = ln(delta);
        let top = self.offset + (self.first + self.upper.delta.len() as i64) as f64 * self.step + self.shift;
        if !(near > 0.0 && near < top) {
            return None;
        }
        let above = |epsilon: f64| ln(read(epsilon)) - goal;
        let (mut at, mut slope) = (near, -self.theta / self.step);
        let mut found = above(at);
        for _ in 0..8 {
            let next = at - found / slope;
            if !(next > 0.0 && next < top) || (next - at).abs() <= CROSSING_TOLERANCE * at {
                break;
            }
            let there = above(next);
            let secant = (there - found) / (next - at);
            if secant < 0.0 {
                slope = secant;
            }
            (at, found) = (next, there);
        }
        let mut margin = CROSSING_TOLERANCE * at;
        for _ in 0..8 {
            let point = at - found / slope + side * margin;
            if !(point > 0.0 && point < top) {
                return None;
            }
            if holds(read(point)) {
                return Some(point);
            }
            margin *= 4.0;
        }
        None
    }

    /// Returns how far ε may lie from the place on the grid that it is turned into.
    fn doubt(&self, epsilon: f64) -> f64 {
        self.shift + 8.0 * UNIT * (epsilon.abs() + self.offset.abs())
    }

    /// Returns bounds on the tilted masses below and above the window, by Chernoff's inequality.
    fn outside(&self, side: &Side) -> (f64, f64) {
        let end = self.first + self.upper.delta.len() as i64;
        // the exponents are differences of numbers below 10⁹
        let below = exp(side.log_below + self.below * self.first as f64) * (1.0 + 1e-6);
        let above = exp(side.log_above - self.above * end as f64) * (1.0 + 1e-6);
        (if self.ends.0 < self.first as f64 { below } else { 0.0 }, if self.ends.1 >= end as f64 { above } else { 0.0 })
    }

    /// Returns the largest weight of a tilted mass, and the norm of all weights, at ε = offset + place·step.
    fn weights(&self, place: f64) -> (f64, f64) {
        let t = self.theta / self.step;
        let decay = exp(-self.theta * (place - self.reference as f64)) * (1.0 + 1e-9);
        let largest = exp(-t * ln_1p(1.0 / t) - ln_1p(t));
        let squares = 1.0 / (self.step * t * (2.0 * t + 1.0) * (2.0 * t + 2.0)) + largest * largest;
        (decay * largest, decay * sqrt(squares))
    }

    /// Returns Chernoff's bound at this tilt: no sum, no noise.
    fn chernoff(&self, place: f64) -> f64 {
        let (largest, _) = self.weights(place);
        let side = &self.upper.side;
        largest * self.upper.scale * exp(self.relative + side.log_scale_error + LAST_ROUNDINGS) + side.infinity
    }
}

impl Reading {
    fn new(side: Side, tilted: &[f64], decay: &[f64], step: f64, tilt: f64, start: usize) -> Self {
        let size = tilted.len();
        let (mut mass, mut delta) = (filled(0.0, size - start), filled(0.0, size - start));
        let (keep, add) = (exp(-step), -expm1(-step));
        let (mut above, mut value) = (0.0, 0.0);
        for i in (start..size).rev() {
            delta[i - start] = value;
            above += tilted[i].max(0.0) * decay[i];
            mass[i - start] = above;
            value = keep * value + add * above;
        }
        // rounded up where it is no normal number; a lower bound does not use it then
        let scale = exp(side.log_scale - tilt).max(f64::MIN_POSITIVE);
        Self { mass, delta, scale, side }
    }

    /// Returns the untilted mass of the nodes more than `from` steps above the first.
    fn mass_above(&self, from: f64) -> f64 {
        self.mass.get(libm::floor(from) as usize + 1).copied().unwrap_or(0.0)
    }

    /// Returns the sum at ε = offset + place·step.
    fn at(&self, place: f64, step: f64, first: i64) -> f64 {
        let node = libm::ceil(place).max(first as f64);
        let index = (node - first as f64) as usize;
        if index >= self.delta.len() {
            return 0.0;
        }
        let gap = (node - place) * step;
        self.delta[index] * exp(-gap) - expm1(-gap) * self.mass[index]
    }
}

/// Halves [low, high], where `holds` is false and true, until the ends are next to each other or 100 times.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> (f64, f64) {
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) { high = middle } else { low = middle }
    }
    (low, high)
}
