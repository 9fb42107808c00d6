//! An upper bound without any transform: what is left where steps are too many for floats to be convolved.
//!
//! With the upper law of each step on its own, uneven nodes (dots may be connected over cells of any width), K(t) = ΣTᵢ·ln
//! E e^(tL̂ᵢ) and any t > 0: δ(ε) ≤ e^(K(t) − tε)·tᵗ/(1 + t)^(1+t) + P[L̂ = ∞], because (1 − e^(ε−ℓ))₊ ≤ e^(t(ℓ−ε))·tᵗ/(1 + t)^(1+t)
//! (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12, by another
//! road). The cost does not depend on T, the result is what Rényi divergences give: within about ln(1/δ)/t of ε.

use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::memory::gathered;
use crate::pld::grid::{MOST_ERROR, Nodes, center};
use crate::pld::pair::LossPair;
use crate::pld::types::infinite;

/// Nodes per factor 2 of the distance from the center, and how many factors of 2.
const NODES_PER_OCTAVE: i32 = 16;
const NODE_OCTAVES: i32 = 44;
/// Nodes at equal distances, besides.
const EQUIDISTANT_NODES: u32 = 2000;

/// The upper law of a step: losses from the center and their masses, that of the center left to the rest.
struct UpperLaw {
    atoms: Vec<(f64, f64)>,
    center: f64,
    infinity: f64,
    shift: f64,
    count: u64,
}

impl UpperLaw {
    fn new(pair: &dyn LossPair, count: u64, low: f64, high: f64) -> Self {
        let (bottom, top) = (pair.range(low).0, pair.range(high).1);
        let middle = center(pair);
        let largest = (middle - bottom).max(top - middle);
        let mut edges = vec![bottom, middle, top];
        for j in -NODE_OCTAVES * NODES_PER_OCTAVE..=0 {
            let distance = largest * libm::exp2(f64::from(j) / f64::from(NODES_PER_OCTAVE));
            edges.extend([middle - distance, middle + distance]);
        }
        edges.extend(
            (1..EQUIDISTANT_NODES).map(|i| bottom + (top - bottom) * (f64::from(i) / f64::from(EQUIDISTANT_NODES))),
        );
        edges.retain(|&x| x >= bottom && x <= top);
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let reach = bottom.abs().max(top.abs());
        let error = pair.relative_error() + (16.0 + 4.0 * reach) * UNIT;
        if error > MOST_ERROR {
            return Self { atoms: Vec::new(), center: middle, infinity: 1.0, shift: 0.0, count };
        }
        let mut atoms: Vec<(f64, f64)> = gathered(edges.iter().map(|edge| (edge - middle, 0.0)));
        let mut infinity = pair.infinite() * (1.0 + error);
        // below the center what is left out counts as loss 0 from it: no mass need be known there but what is above
        for (i, ends) in edges.windows(2).enumerate() {
            let cell = pair.cell(ends[0], ends[1]);
            let width = ends[1] - ends[0];
            if ends[0] >= middle {
                // masses that are no normal numbers have an absolute error instead of a relative one
                let kept = cell.p * (1.0 + error) + f64::MIN_POSITIVE;
                let doubt = (cell.p + cell.q) * error + 2.0 * f64::MIN_POSITIVE;
                let at_upper = (((cell.p - cell.q) + doubt) / -expm1(-width)).clamp(0.0, kept);
                atoms[i].1 += kept - at_upper;
                atoms[i + 1].1 += at_upper;
            } else {
                let (kept, raised) = (cell.p * (1.0 - error), cell.q * exp(width));
                let at_lower = (((raised - cell.p) - (raised + cell.p) * error) / expm1(width)).clamp(0.0, kept);
                atoms[i].1 += at_lower;
                atoms[i + 1].1 += kept - at_lower;
            }
        }
        infinity += pair.mass(top, f64::INFINITY).p * (1.0 + error) + f64::MIN_POSITIVE;
        Self { atoms, center: middle, infinity, shift: 2.0 * Nodes::slack(pair, reach), count }
    }

    /// Returns an upper bound on T·ln E e^(tL̂) over finite losses.
    ///
    /// Total mass is 1, so that E e^(tL̂) = e^(t·center)·(1 + Σp·(e^(t·distance) − 1)), less what is infinite.
    fn log_moment(&self, t: f64) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        for &(distance, p) in &self.atoms {
            let rise = p * expm1(t * distance);
            if distance > 0.0 { above += rise } else { below += rise }
        }
        let doubt = (self.atoms.len() as f64 + 32.0) * UNIT;
        let excess = above * (1.0 + doubt) + below * (1.0 - doubt);
        let moment = ln_1p(excess);
        let value = moment + moment.abs() * 32.0 * UNIT + t * self.center;
        self.count as f64 * (value + 16.0 * UNIT * (t * self.center).abs())
    }
}

/// Steps bounded by their moments.
pub(super) struct Moments {
    laws: Vec<UpperLaw>,
    infinity: f64,
    shift: f64,
    reach: f64,
}

impl Moments {
    /// Prepares pairs and counts; of each, at most `low` of P is moved up from the lower tail and `high` to +∞ from the upper.
    pub(super) fn new<'a>(steps: impl Iterator<Item = (&'a dyn LossPair, u64)>, low: f64, high: f64) -> Self {
        let laws: Vec<UpperLaw> = gathered(steps.map(|(pair, count)| UpperLaw::new(pair, count, low, high)));
        let infinity = infinite(laws.iter().map(|law| (law.infinity, 0.0, law.count)));
        let shift = laws.iter().map(|law| law.count as f64 * law.shift).sum::<f64>() * (1.0 + 1e-9);
        let reach = laws.iter().flat_map(|law| law.atoms.last()).map(|atom| atom.0).fold(1e-12, f64::max);
        Self { laws, infinity, shift, reach }
    }

    /// Returns an upper bound on K(t) + ln(tᵗ/(1 + t)^(1+t)).
    fn exponent(&self, t: f64) -> f64 {
        let sum: f64 = self.laws.iter().map(|law| law.log_moment(t)).sum();
        let factor = -t * ln_1p(1.0 / t) - ln_1p(t);
        sum + sum.abs() * 4.0 * UNIT * self.laws.len() as f64 + factor * (1.0 - 32.0 * UNIT)
    }

    /// Returns an upper bound on ε(δ).
    pub(super) fn epsilon(&self, delta: f64) -> f64 {
        let left = delta - self.infinity;
        if left <= 0.0 {
            return f64::INFINITY;
        }
        let target = ln(left) - 32.0 * UNIT * (1.0 + ln(left).abs());
        let bound = self.smallest(|t| (self.exponent(t) - target) / t);
        (bound * (1.0 + 4.0 * UNIT) + self.shift).max(0.0)
    }

    /// Returns an upper bound on δ(ε).
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        let epsilon = epsilon * (1.0 - 4.0 * UNIT) - self.shift;
        let bound = self.smallest(|t| self.exponent(t) - t * epsilon + 8.0 * UNIT * (t * epsilon).abs());
        // mutant: infinite-mass-beside-moments
        let bound = exp(bound) * (1.0 + 1e-9) + self.infinity;
        if bound < 1.0 { bound } else { 1.0 }
    }

    /// Returns the smallest value found over t; each is a bound.
    fn smallest(&self, bound: impl Fn(f64) -> f64) -> f64 {
        const SEARCH_STEPS: i32 = 48;
        let largest = 600.0 / self.reach;
        let at = |x: f64| largest * libm::exp2(-x);
        let mut best = (f64::INFINITY, 0.0);
        for i in 0..SEARCH_STEPS {
            let x = 1.5 * f64::from(i);
            let value = bound(at(x));
            if value < best.0 {
                best = (value, x);
            }
        }
        let mut width = 0.75;
        for _ in 0..12 {
            for x in [best.1 - width, best.1 + width] {
                let value = bound(at(x.max(0.0)));
                if value < best.0 {
                    best = (value, x.max(0.0));
                }
            }
            width *= 0.5;
        }
        best.0
    }
}
