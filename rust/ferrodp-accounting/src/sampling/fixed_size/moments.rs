//! Moment bounds of Wang, Balle, Kasiviswanathan, "Subsampled Rényi differential privacy and analytical moments accountant",
//! AISTATS 2019, for samples of fixed size of which one record is replaced.
//!
//! `A(α) = E_Q[(dP/dQ)^α]` is at most `1 + Σ_{j=2}^α C(α, j)·q^j·t_j` at whole orders. Theorem 27, for Gaussian noise, has with
//! `c_j = e^{j(j−1)/2z²}` and `B(l) = E_Q[(r − 1)^l]`
//!
//! ```text
//! t₂ = min(4(c₂ − 1), 2c₂),   t_j = min(4·√(B(2⌊j/2⌋)·B(2⌈j/2⌉)), 2c_j),
//! ```
//!
//! and Theorem 9, for any release with Rényi curve `ρ(j)` and pure ε,
//! `t_j = e^{(j−1)ρ(j)}·min(2, (e^ε − 1)^j)`, `t₂ ≤ 4(e^{ρ(2)} − 1)`. Between whole orders `ln A` is convex, and 0 at 1 (Corollary 10).

use crate::certified::Real;
use crate::memory::{filled, gathered};
use crate::sampling::central_moments::{I, moments, rate};

/// Exponents beyond which a term counts as infinite.
const LARGEST_EXPONENT: f64 = 1e12;

/// Returns the smaller one of two numbers.
fn min(x: I, y: I) -> I {
    I::new(x.lower.min(y.lower), x.upper.min(y.upper))
}

/// Returns t_j for 2 ≤ j ≤ `largest`, or `None` where exponents are too large.
fn gaussian_terms(noise_multiplier: f64, largest: usize) -> Option<Vec<I>> {
    let (raw, central) = moments(noise_multiplier, largest + 1)?;
    let term = |j: usize| {
        let plain = raw[j].scaled(1);
        let spread = if j == 2 { central[2] } else { (central[j - j % 2] * central[j + j % 2]).sqrt() };
        min(plain, spread.scaled(2)) // B(2) = c₂ − 1
    };
    Some(gathered((2..=largest).map(term)))
}

/// Returns t_j for 2 ≤ j < divergences.len() + 2, `None` for an infinite one.
fn generic_terms(divergences: &[f64], epsilon: f64) -> Vec<Option<I>> {
    let range = (epsilon < 700.0).then(|| I::from(epsilon).exp_minus_one());
    let term = |(index, &rho): (usize, &f64)| {
        let j = index as u64 + 2;
        if !(0.0..LARGEST_EXPONENT).contains(&((j - 1) as f64 * rho)) {
            return None;
        }
        let exponent = I::from(rho).mul_integer(j - 1);
        let factor = range.map_or(I::integer(2), |range| min(I::integer(2), range.power(j)));
        let term = exponent.exp() * factor;
        Some(if j == 2 { min(term, exponent.exp_minus_one().scaled(2)) } else { term })
    };
    gathered(divergences.iter().enumerate().map(term))
}

/// Returns an upper bound on ln A at a whole order ≥ 1, or `None` if a term is infinite; `terms` begin with t₂.
fn log_moment(terms: &[Option<I>], q: I, order: usize) -> Option<Real<4>> {
    let (mut weight, mut total) = (I::integer(1), I::integer(0)); // weight = C(α, j)·q^j
    for j in 1..=order {
        weight = (weight * q).mul_integer((order - j + 1) as u64).div_integer(j as u64);
        if j >= 2 {
            total = total + weight * terms[j - 2]?;
        }
    }
    Some(total.ln_one_plus().upper)
}

fn rates(terms: &[Option<I>], q: f64, orders: &[f64]) -> Vec<f64> {
    let q = I::from(q);
    gathered(orders.iter().map(|&order| rate(order, |whole| log_moment(terms, q, whole))))
}

/// Returns upper bounds on ρ(α) of Gaussian noise about a sample, by Theorem 27, at real orders > 1; infinite where it says nothing.
#[must_use]
pub fn ternary_gaussian(noise_multiplier: f64, q: f64, orders: &[f64]) -> Vec<f64> {
    let largest = orders.iter().copied().fold(2.0, f64::max).ceil() as usize;
    let Some(terms) = gaussian_terms(noise_multiplier, largest) else {
        return filled(f64::INFINITY, orders.len());
    };
    let terms: Vec<_> = gathered(terms.into_iter().map(Some));
    rates(&terms, q, orders)
}

/// Returns upper bounds on ρ(α) of any release about a sample, by Theorem 9, at real orders > 1.
///
/// `divergences` are bounds on those of the release at the orders 2, 3, … up to the largest one or beyond.
///
/// # Panics
/// If there are too few divergences.
#[must_use]
pub fn generic(divergences: &[f64], epsilon: f64, q: f64, orders: &[f64]) -> Vec<f64> {
    rates(&generic_terms(divergences, epsilon), q, orders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_moment_is_one_term() {
        // A(2) ≤ 1 + q²·4(e^{1/z²} − 1)
        let expected = libm::log1p(0.01 * 0.01 * 4.0 * libm::expm1(1.0 / 9.0));
        let found = ternary_gaussian(3.0, 0.01, &[2.0])[0];
        assert!(found >= expected * (1.0 - 1e-14) && found <= expected * (1.0 + 1e-14), "{found} {expected}");
    }

    #[test]
    fn theorem_27_improves_theorem_9() {
        let orders = [2.0, 5.5, 32.0];
        let divergences: Vec<f64> = (2..=32).map(|j| f64::from(j) / 18.0).collect();
        let (generic, gaussian) =
            (generic(&divergences, f64::INFINITY, 0.05, &orders), ternary_gaussian(3.0, 0.05, &orders));
        for (generic, gaussian) in generic.iter().zip(&gaussian) {
            assert!(gaussian <= &(generic * (1.0 + 1e-14)));
        }
        assert_eq!(vec![f64::INFINITY], ternary_gaussian(1e-9, 0.05, &[2.0]));
    }
}
