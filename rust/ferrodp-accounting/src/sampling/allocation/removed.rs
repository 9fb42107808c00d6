//! Rényi divergence of a round of random allocation when a record is removed: a finite sum.
//!
//! `r̄ = (r_1 + … + r_T)/T` with independent lognormals of mean 1. With `B(k) = E(r − 1)^k`,
//!
//! ```text
//! E r̄^α − 1 = Σ_{j=2}^α C(α, j)·j!·p_j/T^j,   p_j = [x^j] (Σ_k B(k)·x^k/k!)^T,
//! ```
//!
//! a sum of positive terms for whole α: Feldman, Shenfeld, "Privacy amplification by random allocation", NeurIPS 2025 (in
//! arXiv:2502.08202v4 Theorem 4.4 and Corollary 4.6), for `r − 1` instead of `r`, so that nothing cancels even if the moment is close
//! to 1. Between whole orders `ln E r̄^α` is convex, and 0 at 1.

use crate::certified::Real;
use crate::memory::{copied, gathered, room};
use crate::sampling::central_moments::{I, moments, rate};

/// The largest order at which the sum is evaluated.
const MAX_SUMMED_ORDER: f64 = 256.0;

/// The moments of one kind of round; further orders cost little.
#[derive(Debug)]
pub struct RemovedMoments {
    noise_multiplier: f64,
    steps: u64,
    /// Upper bounds on ln E r̄^α for α = 0, 1, …; `None` where exponents are too large.
    logs: Option<Vec<Real<4>>>,
}

impl RemovedMoments {
    /// Returns the moments for this noise multiplier and number of steps.
    #[must_use]
    pub fn new(noise_multiplier: f64, steps: u64) -> Self {
        Self { noise_multiplier, steps, logs: Some(Vec::new()) }
    }

    /// Returns an upper bound on ρ(α) for α > 1; infinite beyond the largest order.
    #[must_use]
    pub fn rate(&mut self, order: f64) -> f64 {
        if order > MAX_SUMMED_ORDER {
            return f64::INFINITY;
        }
        let needed = order.ceil() as usize;
        if self.logs.as_ref().is_some_and(|logs| logs.len() <= needed) {
            // So many at a time that not every order makes a table of its own.
            self.logs = log_moments(self.noise_multiplier, self.steps, needed.next_power_of_two().max(32));
        }
        self.logs.as_ref().map_or(f64::INFINITY, |logs| rate(order, |whole| Some(logs[whole])))
    }
}

fn log_moments(noise_multiplier: f64, steps: u64, largest: usize) -> Option<Vec<Real<4>>> {
    let (_, central) = moments(noise_multiplier, largest)?;
    let mut factor = I::integer(1);
    let mut series = room(largest + 1);
    for (k, moment) in central.into_iter().enumerate() {
        if k > 0 {
            factor = factor.div_integer(k as u64).div_integer(steps);
        }
        series.push(moment * factor);
    }
    let coefficients = power(&series, steps);
    let log = |order: usize| {
        let (mut falling, mut total) = (I::integer(1), I::integer(0)); // C(α, j)·j! = α(α − 1)⋯(α − j + 1)
        for (j, &coefficient) in coefficients.iter().enumerate().take(order + 1).skip(1) {
            falling = falling.mul_integer((order - j + 1) as u64);
            total = total + falling * coefficient;
        }
        total.ln_one_plus().upper
    };
    Some(gathered((0..=largest).map(log)))
}

/// Returns the first coefficients of the power of a series 1 + … with terms ≥ 0.
///
/// n·p_n = Σ_{k=1}^n (k·(T + 1) − n)·a_k·p_{n−k} (Knuth, "The art of computer programming", volume 2, section 4.7, (9)), in which no term
/// is negative for n ≤ T + 1. Where there are more terms than that, T is small, and the series is multiplied by itself.
fn power(series: &[I], exponent: u64) -> Vec<I> {
    if exponent + 2 < series.len() as u64 {
        let bits = u64::BITS - exponent.leading_zeros();
        return (0..bits - 1).rev().fold(copied(series), |power, bit| {
            let square = product(&power, &power);
            if exponent >> bit & 1 == 1 { product(&square, series) } else { square }
        });
    }
    let mut found = room(series.len().max(1));
    found.push(I::integer(1));
    for n in 1..series.len() {
        let mut total = I::integer(0);
        for k in 1..=n {
            // k·(T + 1) − n < 2⁶³, as T ≤ 2⁵³ and k ≤ 2⁸
            total = total + (series[k] * found[n - k]).mul_integer(k as u64 * (exponent + 1) - n as u64);
        }
        found.push(total.div_integer(n as u64));
    }
    found
}

fn product(x: &[I], y: &[I]) -> Vec<I> {
    let coefficient = |n: usize| (0..=n).fold(I::integer(0), |sum, k| sum + x[k] * y[n - k]);
    gathered((0..x.len()).map(coefficient))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_a_power_agree() {
        let series: Vec<I> = (0..12).map(|k| I::integer(k * k + 1).div_integer(7 * k + 1)).collect();
        for exponent in [1, 2, 3, 7, 10] {
            let (short, by_products) =
                (power(&series, exponent), (1..exponent).fold(series.clone(), |x, _| product(&x, &series)));
            for (a, b) in short.iter().zip(&by_products) {
                assert!(a.lower <= b.upper && b.lower <= a.upper, "{exponent}");
            }
        }
        let (recursion, products) = (power(&series, 12), product(&power(&series, 10), &power(&series, 2)));
        for (a, b) in recursion.iter().zip(&products) {
            assert!(a.lower <= b.upper && b.lower <= a.upper);
        }
    }

    #[test]
    fn one_step_is_not_sampled_and_the_second_moment_is_known() {
        let mut one = RemovedMoments::new(2.0, 1);
        for order in [2.0, 3.0, 32.0, 256.0] {
            let (found, expected) = (one.rate(order), order / 8.0);
            assert!(found >= expected * (1.0 - 1e-15) && found <= expected * (1.0 + 1e-15), "{order}: {found}");
        }
        // E r̄² = 1 + (e^{1/z²} − 1)/T
        let expected = libm::log1p(libm::expm1(1.0) / 10.0);
        let found = RemovedMoments::new(1.0, 10).rate(2.0);
        assert!((found / expected - 1.0).abs() < 1e-15);
        assert_eq!(f64::INFINITY, RemovedMoments::new(1.0, 10).rate(257.0));
        assert!(RemovedMoments::new(1.0, 1 << 53).rate(200.5) < 100.25);
    }
}
