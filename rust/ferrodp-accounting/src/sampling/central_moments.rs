//! Central moments `B(l) = E_Q[(r − 1)^l]` of the likelihood ratio `r` of `N(1, z²)` to `Q = N(0, z²)`, without cancellation.
//!
//! With `q = e^{1/z²}` and `t = q − 1`, `E_Q[r^k] = q^{k(k−1)/2}`, and `B(l)` is the `l`-th forward difference at 0 of that as a function
//! of `k`. Write `Δ^l` for that difference. From `q^{(k+1)k/2} = q^{k(k−1)/2}·q^k` and Leibniz' rule for differences, with `Δ^i q^k = t^i·q^j` at
//! `k = j`,
//!
//! ```text
//! B(l) + B(l+1) = Δ^l[q^{k(k−1)/2}·q^k] = Σ_{j ≤ l} C(l, j)·B(j)·t^{l−j}·q^j,
//! ```
//!
//! so `B(l+1) = B(l)·(q^l − 1) + Σ_{j<l} C(l, j)·B(j)·t^{l−j}·q^j`: nothing is subtracted, however close to 1 the ratio is.

use crate::certified::{Interval, Real};
use crate::memory::room;

/// Intervals of 77 digits.
pub type I = Interval<4>;

/// Exponents beyond which moments are not computed.
const LARGEST_EXPONENT: f64 = 1e12;

/// Returns `E_Q[r^k]` and `B(k)` for k ≤ `largest`; `None` where they have too large exponents.
#[must_use]
pub fn moments(noise_multiplier: f64, largest: usize) -> Option<(Vec<I>, Vec<I>)> {
    let inverse = 1.0 / noise_multiplier / noise_multiplier;
    let size = (largest + 2) as f64;
    if !(0.0..LARGEST_EXPONENT).contains(&(inverse * size * size)) {
        return None;
    }
    let rate = I::integer(1) / I::from(noise_multiplier).square();
    let (q, t) = (rate.exp(), rate.exp_minus_one());
    let (mut power, mut raw) = (I::integer(1), room(largest + 1));
    raw.resize(2.min(largest + 1), I::integer(1));
    for k in 2..=largest {
        power = power * q;
        raw.push(raw[k - 1] * power);
    }
    // weights[j] = B(j)·q^j/j!, steps[i] = t^i/i!
    let start = || {
        let mut series = room(largest + 1);
        series.push(I::integer(1));
        series
    };
    let (mut central, mut weights, mut steps) = (start(), start(), start());
    let (mut power, mut factorial) = (I::integer(1), I::integer(1));
    for l in 0..largest {
        let sum = (0..l).fold(I::integer(0), |sum, j| sum + weights[j] * steps[l - j]);
        // power = q^l, factorial = l!
        let growth = rate.mul_integer(l as u64).exp_minus_one();
        let next = central[l] * growth + sum * factorial;
        factorial = factorial.mul_integer(l as u64 + 1);
        power = power * q;
        central.push(next);
        weights.push(next * power / factorial);
        steps.push((steps[l] * t).div_integer(l as u64 + 1));
    }
    Some((raw, central))
}

/// Returns an upper bound on the rate `((1 − w)·low + w·high)/(α − 1)` of a convex function of the order α that is 0 at 1, between its
/// bounds at the whole orders beside it.
pub(crate) fn rate(order: f64, log: impl Fn(usize) -> Option<Real<4>>) -> f64 {
    let below = order.floor();
    let share = I::from(order) - I::from(below);
    let at = |whole: f64| log(whole as usize).map(I::from);
    let mixed = || {
        let low = at(below)? * (I::integer(1) - share);
        Some(if share.upper.is_zero() { low } else { low + at(below + 1.0)? * share })
    };
    mixed().map_or(f64::INFINITY, |log| (log / (I::from(order) - I::integer(1))).floats().upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_alternating_sums() {
        for z in [0.2, 1.0, 30.0, 1e4] {
            let (raw, central) = moments(z, 12).expect("moderate exponents");
            // In 768 bits, enough for what cancels.
            let rate = Interval::<12>::integer(1) / Interval::from(z).square();
            for l in 0..=12_u64 {
                let (mut sum, mut choose) = (Interval::<12>::integer(0), 1);
                for k in 0..=l {
                    let term = rate.mul_integer(k * k.saturating_sub(1) / 2).exp().mul_integer(choose);
                    sum = if (l - k) % 2 == 0 { sum + term } else { sum - term };
                    choose = choose * (l - k) / (k + 1);
                }
                let (sum, found): (I, I) = (sum.converted(), central[l as usize]);
                assert!(sum.lower <= found.upper && found.lower <= sum.upper, "{z} {l}");
                let exact: I = rate.mul_integer(l * l.saturating_sub(1) / 2).exp().converted();
                assert!(exact.lower <= raw[l as usize].upper && raw[l as usize].lower <= exact.upper);
            }
        }
        assert!(moments(1e-8, 100).is_none());
    }

    #[test]
    fn rates_between_whole_orders_lie_on_the_chord() {
        let log = |order: usize| Some(Real::integer((order * (order - 1)) as u64));
        assert_eq!(3.0, rate(3.0, log));
        assert_eq!((0.5 * 6.0 + 0.5 * 12.0) / 2.5, rate(3.5, log));
        assert_eq!(f64::INFINITY, rate(3.5, |_| None));
    }
}
