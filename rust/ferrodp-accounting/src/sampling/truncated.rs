//! Poisson samples cut to a largest batch size `B`: how often they are, and what a step costs.
//!
//! With `M ~ Bin(n − 1, q)` other records in the sample, the batch is full with probability `p = P[M ≥ B]`, and a record then takes the
//! place of another one with probability `q′ = P[Bin(n, q) > B]·B/(n·p)`; `ferrodp.accounting._laws.truncated_poisson` has the argument.

use core::num::NonZeroUsize;

use ferrodp_core::Isa;

use crate::binomial::at_least_of_float;
use crate::certified::Interval;
use crate::functions::{exp, expm1, ln, ln_1p};
use crate::memory::{filled, gathered};
use crate::rdp;
use crate::sampling::fixed_size;
use crate::types::Bounds;

/// For larger ε the bound on δ is 1.
const MAX_EPSILON: f64 = 1e12;

/// A sample of `number` records, each with chance `q`, of which at most `most` are kept.
#[derive(Clone, Copy, Debug)]
pub struct Truncated {
    /// n > 0, of the larger dataset.
    pub number: u64,
    /// q in [0, 1].
    pub q: f64,
    /// B
    pub most: u64,
}

impl Truncated {
    /// Returns bounds on P[Bin(n, q) > B].
    #[must_use]
    pub fn cut(&self) -> Bounds {
        self.above().floats()
    }

    fn above(&self) -> Interval<4> {
        match self.most.checked_add(1) {
            Some(least) => at_least_of_float(self.number, self.q, least),
            None => Interval::integer(0),
        }
    }

    /// Returns bounds on p, and an upper bound on q′.
    #[must_use]
    pub fn kinds(&self) -> (Bounds, f64) {
        let full = at_least_of_float(self.number - 1, self.q, self.most);
        if self.most == 0 || !full.is_positive() {
            return (full.floats(), 0.0);
        }
        let replaced = self.above().mul_integer(self.most).div_integer(self.number) / full;
        (full.floats(), replaced.floats().upper.min(self.q)) // B/(M + 1) < 1
    }

    /// Returns an upper bound on `count·(1 + e^ε)·P[Bin(n, q) > B]`, at most 1.
    #[must_use]
    pub fn delta(&self, epsilon: f64, count: u64) -> f64 {
        let above = self.above();
        if above.upper.is_zero() || count == 0 {
            return 0.0;
        }
        if epsilon > MAX_EPSILON {
            return 1.0;
        }
        let growth = Interval::integer(1) + Interval::from(epsilon).exp();
        (above * growth).mul_integer(count).floats().upper.min(1.0)
    }

    /// Returns upper bounds on ρ of Gaussian noise about the sample at orders > 1: `A = (1 − p)·A(z, q) + p·A(z/2, q′)`, the second part
    /// that of a Poisson sample, or of one of fixed size if a record is zeroed.
    #[must_use]
    pub fn gaussian(&self, isa: Isa, noise_multiplier: f64, orders: &[f64], is_zeroed: bool) -> Vec<f64> {
        let (full, replaced) = self.kinds();
        let one = NonZeroUsize::MIN;
        let same = |value: f64| filled(value, orders.len());
        let poisson = |z: f64, q: f64| -> Vec<f64> {
            gathered(rdp::poisson_gaussian(isa, &same(z), &same(q), orders, one).iter().map(|bounds| bounds.upper))
        };
        let half = (0.5 * noise_multiplier).next_down();
        let joined = poisson(noise_multiplier, self.q);
        let replaced = if is_zeroed {
            fixed_size::gaussian_replace_one_of_each(&same(half), &same(replaced), orders, one)
        } else {
            poisson(half, replaced)
        };
        let free = 1.0 - full.lower;
        let free = if 0.0 < free && free < 1.0 { free.next_up() } else { free };
        let each = |((&order, &joined), &replaced): ((&f64, &f64), &f64)| {
            mixed([(free, joined), (full.upper, replaced)], order)
        };
        gathered(orders.iter().zip(&joined).zip(&replaced).map(each))
    }
}

/// Returns ln(1 + Σ w·(A − 1))/(α − 1) with A = e^{(α − 1)ρ}, raised by more than its 40 roundings.
fn mixed(parts: [(f64, f64); 2], order: f64) -> f64 {
    let kept = || parts.iter().filter(|(weight, rho)| *weight > 0.0 && *rho > 0.0);
    let size = |rho: f64| (order - 1.0) * rho;
    let top = kept().map(|&(_, rho)| size(rho)).fold(0.0, f64::max);
    if top == 0.0 || top == f64::INFINITY {
        return top;
    }
    const UNIT: f64 = crate::functions::UNIT;
    let log = if top < 600.0 {
        let part = |&(weight, rho): &(f64, f64)| weight * expm1(size(rho)) * (1.0 + 4.0 * UNIT * size(rho));
        ln_1p(kept().map(part).sum::<f64>() * (1.0 + 128.0 * UNIT))
    } else {
        let sum = kept().map(|&(weight, rho)| weight * exp(size(rho) - top)).sum::<f64>() + exp(-600.0);
        top + ln(sum) + 8.0 * UNIT * top
    };
    let largest = parts.iter().map(|part| part.1).fold(0.0, f64::max);
    (log / (order - 1.0) * (1.0 + 128.0 * UNIT)).min(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples_are_enumerated() {
        // n = 4, q = 1/2, B = 2: P[Bin(4) > 2] = 5/16, p = P[Bin(3) ≥ 2] = 1/2, q′ = 5/16·2/(4·1/2)
        let sample = Truncated { number: 4, q: 0.5, most: 2 };
        let (full, replaced) = sample.kinds();
        assert!(sample.cut().lower <= 0.3125 && 0.3125 <= sample.cut().upper);
        assert!(full.lower <= 0.5 && 0.5 <= full.upper && full.upper - full.lower < 1e-15);
        assert!((0.3125..0.3126).contains(&replaced));
        assert!((sample.delta(0.0, 1) - 0.625).abs() < 1e-15);
        assert_eq!(1.0, sample.delta(1.0, 1 << 60));
        // A tail far below every exponential is still multiplied by e^ε.
        assert_eq!(1.0, Truncated { number: 1 << 62, q: f64::from_bits(1), most: 1 << 61 }.delta(1e300, 1));
        assert_eq!(0.0, Truncated { number: 4, q: 0.5, most: u64::MAX }.delta(1.0, 1));
    }

    #[test]
    fn a_mixture_lies_between_its_parts() {
        for order in [1.5, 2.0, 50.0, 1e4] {
            let found = mixed([(0.25, 0.1), (0.75, 0.4)], order);
            assert!(0.1 < found && found <= 0.4, "{order}");
        }
        assert_eq!(0.0, mixed([(0.0, 0.3), (0.0, 0.4)], 2.0));
        assert_eq!(f64::INFINITY, mixed([(0.5, f64::INFINITY), (0.5, 0.4)], 2.0));
        // ρ at order 2: ln(Σ w·e^ρ)
        let expected = (0.25 * exp(0.1) + 0.75 * exp(0.4)).ln();
        assert!((mixed([(0.25, 0.1), (0.75, 0.4)], 2.0) / expected - 1.0).abs() < 1e-12);
    }
}
