//! A Rényi curve from bounds on the moments at whole orders, and sums of which these moments are made.
//!
//! `ln A(α) = (α − 1)·ρ(α)`, `A(α)` the moment `E_Q[(dP/dQ)^α]`, is convex in `α` and 0 at 1 (van Erven, Harremoës, "Rényi divergence and
//! Kullback–Leibler divergence", IEEE Trans. Inf. Theory 2014, Theorem 11 and Corollary 2). So bounds on it at two orders give one at
//! every order between them, by linear interpolation; the larger one of two directions is bounded by interpolating the larger bounds.
//! Orders are whole up to 64, and then 2 % apart: that costs less than 1/3000 where `ρ` grows like `α`.

use ferrodp_core::machine::hashing::Map;
use std::sync::OnceLock;

use crate::binomial;
use crate::functions::{UNIT, exp, ln, ln_1p};
use crate::memory::gathered;

/// For larger orders only the other bound of a curve is used.
pub(super) const MAX_WHOLE_ORDER: u32 = 1 << 16;

/// Covers a quotient and an interpolation: fewer than ten roundings of positive numbers.
const INTERPOLATION_ROUNDED_UP: f64 = 1.0 + 32.0 * UNIT;

/// Relative error of the parts of logarithms: elementary functions and ln n! within 2⁻⁵⁰, and a dozen roundings.
pub(super) const LOG_PART_ERROR: f64 = 32.0 * UNIT;

/// Returns the whole orders at which moments are needed.
fn places() -> &'static [u32] {
    static PLACES: OnceLock<Vec<u32>> = OnceLock::new();
    PLACES.get_or_init(|| {
        let mut places: Vec<u32> = (1..=64).collect();
        while let Some(&last) = places.last()
            && last < MAX_WHOLE_ORDER
        {
            places.push(((f64::from(last) * 1.02).ceil() as u32).min(MAX_WHOLE_ORDER));
        }
        places
    })
}

/// Moments that were computed, by order.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Map<u32, f64>);

impl Known {
    /// Returns an upper bound on ρ(α), 1 ≤ α ≤ `2¹⁶`, from bounds on ln A ≥ 0 at whole orders ≥ 2.
    pub(super) fn rate<E>(&mut self, order: f64, mut log: impl FnMut(u32) -> Result<f64, E>) -> Result<f64, E> {
        let mut at = |whole: u32| -> Result<f64, E> {
            if whole == 1 {
                return Ok(0.0);
            }
            if let Some(&found) = self.0.get(&whole) {
                return Ok(found);
            }
            let found = log(whole)?;
            self.0.insert(whole, found);
            Ok(found)
        };
        if order < 2.0 {
            return Ok(at(2)? * INTERPOLATION_ROUNDED_UP); // there is a line from 1 on: it rises at the rate of order 2
        }
        let index = places().partition_point(|&place| f64::from(place) <= order) - 1;
        let low = places()[index];
        let below = at(low)?;
        if f64::from(low) == order {
            return Ok(below / (order - 1.0) * INTERPOLATION_ROUNDED_UP);
        }
        let high = places()[index + 1];
        let above = at(high)?;
        if above == f64::INFINITY {
            return Ok(above);
        }
        let share = (order - f64::from(low)) / f64::from(high - low);
        Ok(((1.0 - share) * below + share * above) / (order - 1.0) * INTERPOLATION_ROUNDED_UP)
    }
}

/// Returns ln n! for n ≤ `2¹⁶`, within 2⁻⁵⁰·(1 + ln n!): to the last float, or by Stirling's series, whose rest is < 1/1680n⁷.
fn log_factorials() -> &'static [f64] {
    static FOUND: OnceLock<Vec<f64>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let series = |n: u32| {
            let n = f64::from(n);
            let rest = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * n * n)) / (n * n)) / n;
            n * ln(n) - n + 0.5 * ln(2.0 * core::f64::consts::PI * n) + rest
        };
        let exact = |n: u32| binomial::log_factorial(u64::from(n)).floats().upper;
        gathered((0..=MAX_WHOLE_ORDER).map(|n| if n < 256 { exact(n) } else { series(n) }))
    })
}

/// Returns Σ xᵢ of numbers ≥ 0, in pairs: within (32 + log₂ of their number) units of itself.
pub(super) fn total(values: &[f64]) -> f64 {
    if values.len() <= 32 {
        return values.iter().sum();
    }
    let (left, right) = values.split_at(values.len() / 2);
    total(left) + total(right)
}

/// Returns ln Σ e^x, rounded up.
pub(super) fn log_sum(logs: &mut [f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        return top;
    }
    for log in &mut *logs {
        *log = exp(*log - top);
    }
    top + ln(total(logs) * (1.0 + 512.0 * UNIT)) + LOG_PART_ERROR * top.abs()
}

/// Returns ln Σ_{j=2}^n C(n, j)·q^j·r^{n−j}·e^{terms[j − 2]}, every term raised by what its logarithm may be off.
pub(super) fn log_binomial_sum(n: u32, log_q: f64, log_r: f64, terms: &[f64]) -> f64 {
    let (factorials, n) = (log_factorials(), n as usize);
    let log = |j: usize| {
        let powers = [j as f64 * log_q, (n - j) as f64 * log_r];
        let parts = [factorials[n], -factorials[j], -factorials[n - j], powers[0], powers[1], terms[j - 2]];
        let size = |part: f64| if part.is_finite() { part.abs() } else { 0.0 };
        parts.iter().sum::<f64>() + LOG_PART_ERROR * (1.0 + parts.iter().map(|&part| size(part)).sum::<f64>())
    };
    log_sum(&mut gathered((2..=n).map(log)))
}

/// Returns ln(1 + eˣ), rounded up.
pub(super) fn log_one_plus(log: f64) -> f64 {
    if log == f64::NEG_INFINITY {
        0.0
    } else if log > 700.0 {
        (log + exp(-700.0)) * (1.0 + 8.0 * UNIT)
    } else {
        ln_1p((exp(log) * (1.0 + 32.0 * UNIT)).max(f64::from_bits(1))) * (1.0 + 8.0 * UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_orders_there_is_a_line_and_on_them_the_moment() {
        let log = |order: u32| Ok::<_, ()>(0.5 * f64::from(order) * f64::from(order - 1)); // ρ = α/2
        let mut known = Known::default();
        for order in [2.0, 17.0, 64.0, 66.0, 65536.0] {
            let found = known.rate(order, log).expect("a rate");
            assert!(found >= 0.5 * order && found <= 0.5 * order * (1.0 + 1e-14), "{order}");
        }
        for order in [1.0, 1.5, 2.5, 70.25, 5000.5] {
            let found = known.rate(order, log).expect("a rate");
            assert!(found >= 0.5 * order, "{order}");
            assert!(order < 64.0 || found <= 0.5 * order * (1.0 + 1.0 / 3000.0), "{order}: {found}");
        }
        assert_eq!(Err(()), Known::default().rate(3.0, |_| Err(())));
    }

    #[test]
    fn factorials_grow_by_their_factors() {
        let found = log_factorials();
        for n in [2, 17, 255, 256, 257, 1000, 65536] {
            let exact = binomial::log_factorial(n as u64).floats();
            let slack = 8.0 * UNIT * (1.0 + exact.upper);
            assert!((exact.lower - slack..=exact.upper + slack).contains(&found[n]), "{n}");
        }
    }

    #[test]
    fn binomial_sums_are_powers() {
        for (n, q) in [(2, 0.3), (30, 0.01), (500, 0.5)] {
            // Σ_{j ≥ 2} C(n, j) q^j (1 − q)^{n−j} = 1 − (1 − q)^n − nq(1 − q)^{n−1}
            let found = log_binomial_sum(n, ln(q), ln_1p(-q), &vec![0.0; n as usize - 1]);
            let n = f64::from(n);
            let exact = ln(1.0 - libm::pow(1.0 - q, n) - n * q * libm::pow(1.0 - q, n - 1.0));
            assert!(found >= exact - 1e-13 && found <= exact + 1e-10, "{n} {q}: {found} {exact}");
        }
        assert_eq!(0.0, log_one_plus(f64::NEG_INFINITY));
        assert!(log_one_plus(800.0) >= 800.0);
    }
}
