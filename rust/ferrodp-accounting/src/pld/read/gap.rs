//! What connecting the dots adds to δ(ε), as an upper bound: then a lower law may connect dots, too.
//!
//! Let S be the true loss of a composition, D = Σdᵢ what connecting dots adds to it, M = S + D. Given S the dᵢ are
//! independent, each on an interval of length h, with E e^−dᵢ = 1. By Hoeffding's lemma ln E e^(s(dᵢ − E dᵢ)) ≤ s²h²/8; with s = −1,
//! 0 ≤ E dᵢ ≤ h²/8. With v = Σh²/4 over all steps: E e^(sD) ≤ e^(s²v/2 + |s|v/2), Var D ≤ v, 0 ≤ E D ≤ v/2.
//!
//! The *gap* E(1 − e^(ε−s−D))₊ − (1 − e^(ε−s))₊ at S = s, for any μ > 1: if x = ε − s > 0 it is at most E(D − x)₊, and
//! y₊ ≤ e^(μy)/(eμ). If x ≤ 0, then by E e^−D = 1 it is E(e^(x−D) − 1)₊, and (e^y − 1)₊ ≤ e^(μy)(1 − 1/μ)^μ/(μ − 1) ≤
//! e^(μy)/(e(μ − 1)). Either way it is at most e^(μ²v/2 + μv/2 − μ|x|)/(e(μ − 1)). Further, by Jensen's inequality
//! E e^(−μ|s + D − ε|) ≥ e^(−μ|s − ε|)·e^(−μE|D|), and E|D| ≤ √v + v/2. Hence
//!
//!   δ_S(ε) ≥ δ_M(ε) − A·E e^(−μ|M − ε|),  A = e^(μ²v/2 + μv + μ√v)/(e(μ − 1)),
//!
//! and with μ = 1/√v the price is about 1.7√v times the mass within √v of ε, O(v) as v → 0. The expectation is taken as
//! E I₁(M) − E I₂(M), I₁ = min(e^(μ(M − ε)), 1) and I₂ = (1 − e^(−μ(M − ε)))₊, which both rise with M: so that of I₁ is at most
//! that under the upper law, and that of I₂ at least that under the lower one.

use crate::functions::{exp, expm1, sqrt};
use crate::memory::filled;

/// The bound for one spread v, with running sums over the nodes of two laws.
pub(in crate::pld) struct Gap {
    /// Decay μ per unit of loss.
    decay: f64,
    /// A
    factor: f64,
    /// Σ of masses at and below each node times e^(−μ·distance), for the upper law.
    below: Vec<f64>,
    /// Σ of masses above each node times 1 − e^(−μ·distance), for the lower law.
    above: Vec<f64>,
}

impl Gap {
    /// Prepares the bound for v > 0 from untilted masses of both laws, by number of node.
    pub(in crate::pld) fn new(
        spread: f64,
        step: f64,
        len: usize,
        upper: impl Fn(usize) -> f64,
        lower: impl Fn(usize) -> f64,
    ) -> Self {
        let deviation = sqrt(spread);
        let decay = 1.0 / deviation;
        let factor = if deviation < 0.5 { exp(0.5 + deviation) / (decay - 1.0) * (1.0 + 1e-12) } else { f64::INFINITY };
        let (keep, add) = (exp(-decay * step), -expm1(-decay * step));
        let mut below = filled(0.0, len);
        let mut sum = 0.0;
        for (i, slot) in below.iter_mut().enumerate() {
            sum = sum * keep + upper(i);
            *slot = sum;
        }
        let mut above = filled(0.0, len);
        let (mut mass, mut value) = (0.0, 0.0);
        for (i, slot) in above.iter_mut().enumerate().rev() {
            *slot = value;
            mass += lower(i);
            value = keep * value + add * mass;
        }
        Self { decay, factor, below, above }
    }

    /// Returns μ.
    pub(in crate::pld) fn decay(&self) -> f64 {
        self.decay
    }

    /// Returns A.
    pub(in crate::pld) fn factor(&self) -> f64 {
        self.factor
    }

    /// Returns Σ of masses up to `from` steps above the first node times e^(−μ·distance), for the upper law.
    pub(in crate::pld) fn below(&self, from: f64, step: f64) -> f64 {
        let node = libm::floor(from).min(self.below.len() as f64 - 1.0);
        if node < 0.0 { 0.0 } else { self.below[node as usize] * exp(-self.decay * (from - node) * step) }
    }

    /// Returns Σ of masses above `from` times 1 − e^(−μ·distance), for the lower law with those sums of masses.
    pub(in crate::pld) fn above(&self, from: f64, step: f64, mass: &[f64]) -> f64 {
        let node = libm::ceil(from).max(0.0);
        if node >= self.above.len() as f64 {
            return 0.0;
        }
        let (index, distance) = (node as usize, (node - from) * step);
        self.above[index] * exp(-self.decay * distance) - expm1(-self.decay * distance) * mass[index]
    }
}
