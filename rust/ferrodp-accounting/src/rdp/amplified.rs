//! Rényi curves of releases about a sample, from the Rényi curve of the release alone.
//!
//! # Poisson samples
//! With `P` the law of the result for a sample that has the record, and `Q` for the same sample without it, the laws to be told apart are
//! `P′ = (1 − q)Q + qP` and `Q`; that the rest of the sample is random costs nothing, as moments are jointly convex. Let `r = dP/dQ` and
//! `u = dP′/dQ = 1 − q + qr`.
//!
//! *P′ against Q.* At whole orders, with `E_Q[rˡ] = e^{(l−1)D_l(P‖Q)}`, the binomial expansion is exact:
//!
//! ```text
//! A(n) = E_Q[uⁿ] = 1 + Σ_{l=2}^n C(n, l)·qˡ·(1 − q)^{n−l}·(E_Q[rˡ] − 1),
//! ```
//!
//! since `E_Q[1] = E_Q[r] = 1` (Mironov, Talwar, Zhang 2019, Section 3.3; Zhu, Wang, "Poisson subsampled Rényi differential privacy", ICML
//! 2019, Theorem 6). At any order, by Minkowski's inequality, `A(α) ≤ (1 − q + q·e^{(α−1)ρ(α)/α})^α`.
//!
//! *Q against P′.* `B(α) = E_Q[u^{1−α}]` is at most `1 + 2(A − 1)`, and at most `A` if one map exchanges P and Q; `ferrodp.accounting.rdp.poisson`
//! has the proof. As `u ≥ 1 − q`, `ln B ≤ −(α − 1)·ln(1 − q)`, and by Taylor's formula around `u = 1`, `B ≤ 1 + α(α − 1)/2·q²·(1 −
//! q)^{−α−1}·(E_Q[r²] − 1)`; as `u ≥ r^q`, `ln B ≤ q(α − 1)·ρ(1 + q(α − 1))`.
//!
//! # Samples of fixed size, of which one record is replaced
//! With `μ`, `μ′` for samples that have the record or its replacement, and `μ₀` for one that has neither, `(1 − q)μ₀ + qμ` stands against
//! `(1 − q)μ₀ + qμ′`, and any two of the three are as close as the curve says. At whole orders, by Wang, Balle, Kasiviswanathan (AISTATS
//! 2019) Theorem 9,
//!
//! ```text
//! A(n) ≤ 1 + Σ_{j=2}^n C(n, j)·qʲ·tⱼ,    tⱼ = e^{(j−1)ρ(j)}·min(2, (e^{ρ(∞)} − 1)ʲ),    t₂ ≤ 4(e^{ρ(2)} − 1).
//! ```
//!
//! At any order, as moments are jointly convex, `A ≤ 1 − q + q·e^{(α−1)ρ(α)}`.

use super::moments::{Known, LOG_PART_ERROR, MAX_WHOLE_ORDER, log_binomial_sum, log_one_plus};
use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::memory::{gathered, room};

/// For sums of 2¹⁶ positive terms, added in pairs, and elementary functions of them.
const SUM_ROUNDED_UP: f64 = 1.0 + 512.0 * UNIT;

/// How a sample is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Each record with the same chance; one is added or removed.
    Poisson {
        /// Whether one map of the results exchanges the two laws of the release.
        is_symmetric: bool,
    },
    /// So many records, without replacement; one is replaced.
    FixedSize,
}

/// The curve of a release about a sample; what the release itself costs is asked as needed.
#[derive(Clone, Debug)]
pub struct Amplified {
    sample: Sample,
    q: f64,
    log_q: f64,
    log_rest: f64,
    /// ln(E_Q[rˡ] − 1), or ln tⱼ, from order 2 on, rounded up; as many as were needed.
    terms: Vec<f64>,
    known: Known,
}

impl Amplified {
    /// Returns the curve for a chance, or a share of the records, 0 < q < 1.
    #[must_use]
    pub fn new(sample: Sample, q: f64) -> Self {
        Self { sample, q, log_q: ln(q), log_rest: ln_1p(-q), terms: Vec::new(), known: Known::default() }
    }

    /// Returns upper bounds on ρ at orders from 1 to ∞, where `base` returns upper bounds on that of the release.
    ///
    /// # Errors
    /// Those of `base`.
    pub fn rates<E>(
        &mut self,
        orders: &[f64],
        mut base: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<f64>, E> {
        let plain = base(orders)?;
        let mut known = core::mem::take(&mut self.known);
        let mut rate = |(&order, &plain): (&f64, &f64)| {
            let anyway = self.anyway(order, plain);
            if order > f64::from(MAX_WHOLE_ORDER) {
                return Ok(anyway);
            }
            Ok(known.rate(order, |whole| self.log_moment(whole, &mut base))?.min(anyway))
        };
        let mut found = room(orders.len());
        let outcome = orders.iter().zip(&plain).try_for_each(|pair| {
            found.push(rate(pair)?);
            Ok(())
        });
        self.known = known;
        outcome.map(|()| found)
    }

    /// Returns an upper bound on ln A at a whole order, or on the larger of ln A and ln B.
    fn log_moment<E>(&mut self, order: u32, base: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>) -> Result<f64, E> {
        let Sample::Poisson { is_symmetric } = self.sample else {
            self.need(order, |this, largest| this.replaced_terms(largest, base))?;
            return Ok(log_one_plus(log_binomial_sum(order, self.log_q, 0.0, &self.terms)));
        };
        self.need(order, |_, largest| excesses(largest, base))?;
        let log_excess = log_binomial_sum(order, self.log_q, self.log_rest, &self.terms);
        let removed = log_one_plus(log_excess);
        if is_symmetric {
            return Ok(removed);
        }
        let by_both = log_one_plus(log_excess + core::f64::consts::LN_2 + LOG_PART_ERROR);
        Ok(removed.max(by_both.min(self.other_direction(f64::from(order), base)?)))
    }

    /// Sees that there are terms up to an order.
    fn need<E>(&mut self, order: u32, terms: impl FnOnce(&Self, u32) -> Result<Vec<f64>, E>) -> Result<(), E> {
        if self.terms.len() < order as usize - 1 {
            self.terms = terms(self, (2 * order).max(64))?;
        }
        Ok(())
    }

    /// Returns ln tⱼ for 2 ≤ j ≤ `largest`, rounded up.
    fn replaced_terms<E>(
        &self,
        largest: u32,
        base: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<f64>, E> {
        let places: Vec<f64> = gathered((2..=largest).map(f64::from));
        let range = base(&[f64::INFINITY])?[0];
        let log_range = if range > 40.0 { range } else { ln(expm1(range)) }; // −∞ for 0
        let slope = if log_range > f64::NEG_INFINITY && log_range < 1.0 { 1.0 + log_range.abs() } else { 0.0 };
        let term = |(&j, rho): (&f64, f64)| {
            let growth = (j - 1.0) * rho * (1.0 + 4.0 * UNIT);
            let mut found = growth + core::f64::consts::LN_2.min(j * log_range);
            if growth == f64::INFINITY {
                return growth;
            }
            if j == 2.0 {
                found = found.min(growth + ln(4.0) + ln(-expm1(-growth)));
            }
            if found.is_finite() { found + LOG_PART_ERROR * (2.0 + growth + j * slope) } else { found }
        };
        Ok(gathered(places.iter().zip(base(&places)?).map(term)))
    }

    /// Returns the smallest of the upper bounds on ln B.
    fn other_direction<E>(&self, n: f64, base: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>) -> Result<f64, E> {
        let taylor = ln(n * (n - 1.0) / 2.0) + 2.0 * self.log_q - (n + 1.0) * self.log_rest;
        let size = 1.0 + ln(n * n) - 2.0 * self.log_q - (n + 1.0) * self.log_rest;
        let by_taylor = log_one_plus(taylor + self.terms[0] + LOG_PART_ERROR * size);
        let t = self.q * (n - 1.0) * (1.0 + 4.0 * UNIT);
        let by_means = t * base(&[(1.0 + t) * (1.0 + 4.0 * UNIT)])?[0];
        Ok(by_taylor.min(-(n - 1.0) * self.log_rest * SUM_ROUNDED_UP).min(by_means * SUM_ROUNDED_UP))
    }

    /// Returns the bound that holds at any order.
    fn anyway(&self, order: f64, plain: f64) -> f64 {
        let Sample::Poisson { is_symmetric } = self.sample else { return by_public_coin(plain, self.q, order) };
        let share = if order == f64::INFINITY { 1.0 } else { (order - 1.0) / order };
        let mut joined = if share == 0.0 {
            self.q * plain * SUM_ROUNDED_UP
        } else {
            let x = share * plain * (1.0 + 8.0 * UNIT);
            let taken = if x < 1.0 {
                ln_1p(self.q * expm1(x))
            } else if x < f64::INFINITY {
                // ln((1 − q) + q·e^x)
                let (low, high) = (self.log_rest, self.log_q + x);
                let large = low.max(high) + ln_1p(exp(-(low - high).abs()));
                large + LOG_PART_ERROR * (1.0 + large.abs() + x - self.log_q)
            } else {
                f64::INFINITY
            };
            taken / share * SUM_ROUNDED_UP
        };
        if !is_symmetric {
            joined = joined.max(plain.min(-self.log_rest * SUM_ROUNDED_UP));
        }
        joined.min(plain)
    }
}

/// Returns ln(e^{(l−1)ρ(l)} − 1) for 2 ≤ l ≤ `largest`, rounded up.
fn excesses<E>(largest: u32, base: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>) -> Result<Vec<f64>, E> {
    let places: Vec<f64> = gathered((2..=largest).map(f64::from));
    let term = |(&l, rho): (&f64, f64)| {
        let x = (l - 1.0) * rho * (1.0 + 4.0 * UNIT);
        let found = if x < 1.0 { ln(expm1(x)) } else { x + ln_1p(-exp(-x)) };
        if found.is_finite() { found + LOG_PART_ERROR * (1.0 + found.abs()) } else { found }
    };
    Ok(gathered(places.iter().zip(base(&places)?).map(term)))
}

/// Returns ρ of a release that happens with probability q, decided by a public coin, rounded up.
///
/// The moment is `1 + q(A − 1)`, so `ρ′ = ln(1 + q(e^{(α−1)ρ} − 1))/(α − 1)`: `q·ρ` at `α = 1`, `ρ` at ∞. With a relative error of two units in
/// `t = (α − 1)ρ`, that of `e^t` is `2t` units, and that of the rest some twenty.
#[must_use]
pub fn by_public_coin(rho: f64, q: f64, order: f64) -> f64 {
    if q == 0.0 {
        return 0.0;
    }
    if order == 1.0 {
        return (q * rho * (1.0 + 8.0 * UNIT)).min(rho);
    }
    let t = (order - 1.0) * rho;
    let log = if t < 600.0 {
        ln_1p(q * expm1(t) * (1.0 + 8.0 * UNIT * (t + 8.0))) * (1.0 + 16.0 * UNIT)
    } else {
        let part = t * (1.0 + 16.0 * UNIT) + ln(q) + 1e-12;
        (part.max(0.0) + ln_1p(exp(-part.abs()))) * (1.0 + 128.0 * UNIT)
    };
    let found = log / (order - 1.0) * (1.0 + 8.0 * UNIT);
    if order < f64::INFINITY && found <= rho { found } else { rho }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaussian(orders: &[f64]) -> Result<Vec<f64>, ()> {
        Ok(orders.iter().map(|order| order / 8.0).collect())
    }

    #[test]
    fn the_second_moment_of_a_poisson_sample_is_one_term() {
        for is_symmetric in [true, false] {
            let mut curve = Amplified::new(Sample::Poisson { is_symmetric }, 0.01);
            let found = curve.rates(&[2.0], gaussian).expect("a rate")[0];
            // At order 2 the bounds on the other direction do not matter: A = 1 + q²(e^{1/4} − 1) or 1 + 2(A − 1)
            let factor = if is_symmetric { 1.0 } else { 1.05 };
            let exact = ln_1p(1e-4 * expm1(0.25));
            assert!(found >= exact && found <= exact * factor * (1.0 + 1e-12), "{found} {exact}");
        }
    }

    #[test]
    fn samples_cost_no_more_than_the_release_and_orders_do_not_matter_to_one_another() {
        let orders = [1.0, 1.5, 2.0, 7.3, 64.0, 5000.0, 1e6, f64::INFINITY];
        for sample in
            [Sample::Poisson { is_symmetric: true }, Sample::Poisson { is_symmetric: false }, Sample::FixedSize]
        {
            for q in [1e-12, 0.01, 0.5, 1.0_f64.next_down()] {
                let all = Amplified::new(sample, q).rates(&orders, gaussian).expect("rates");
                for (&order, &rho) in orders.iter().zip(&all) {
                    assert!(rho >= 0.0 && rho <= order / 8.0 * (1.0 + 1e-15), "{sample:?} {q} {order}: {rho}");
                    let alone = Amplified::new(sample, q).rates(&[order], gaussian).expect("rates")[0];
                    assert!((alone - rho).abs() <= 1e-12 * rho || alone == rho, "{sample:?} {q} {order}");
                }
            }
        }
    }

    #[test]
    fn what_costs_nothing_and_what_costs_everything() {
        let nothing = |orders: &[f64]| Ok::<_, ()>(vec![0.0; orders.len()]);
        let everything = |orders: &[f64]| Ok::<_, ()>(vec![f64::INFINITY; orders.len()]);
        for sample in [Sample::Poisson { is_symmetric: true }, Sample::FixedSize] {
            let found = Amplified::new(sample, 0.1).rates(&[1.0, 2.0, 1e9], nothing);
            assert_eq!(Ok(vec![0.0; 3]), found);
            let found = Amplified::new(sample, 0.1).rates(&[2.0, 8.0], everything);
            assert_eq!(Ok(vec![f64::INFINITY; 2]), found);
        }
        assert_eq!((0.0, 3.0), (by_public_coin(3.0, 0.0, 2.0), by_public_coin(3.0, 0.5, f64::INFINITY)));
        let coin = by_public_coin(0.7, 0.25, 3.0);
        let exact = ln_1p(0.25 * expm1(1.4)) / 2.0;
        assert!(coin >= exact && coin <= exact * (1.0 + 1e-13));
    }
}
