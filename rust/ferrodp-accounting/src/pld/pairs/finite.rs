//! Losses that take few values: randomized response, and what is known of an (ε, δ) guarantee.

use crate::functions::{UNIT, exp, ln, ln_1p};
use crate::memory::{room, sort_by};
use crate::pld::discretize::cells::sum;
use crate::pld::pair::{LossPair, Mass};

/// A loss of finitely many values.
pub struct FiniteLosses {
    /// Loss, P-mass and Q-mass, losses rising.
    atoms: Vec<(f64, Mass)>,
    infinite: f64,
    negative_infinite: f64,
    lattice: Option<(f64, f64)>,
    /// Bound on the errors of the logarithms of the masses that were given.
    error: f64,
}

/// Every mass below is at most eight roundings and one function away from its exact value.
const FINITE_MASS_ERROR: f64 = 16.0 * UNIT;
/// Every loss below is the logarithm of a number known to four roundings.
const LOSS_ERROR: f64 = 16.0 * UNIT;

impl FiniteLosses {
    /// Returns the pair of two truths of k-ary randomized response that draws uniformly from all k with probability p.
    ///
    /// An answer is the truth with probability a = 1 − p + p/k, each other one with b = p/k: the loss is ±ln(a/b) or 0.
    #[must_use]
    pub fn randomized_response(noise_parameter: f64, num_buckets: f64) -> Self {
        let other = noise_parameter / num_buckets;
        let truth = (1.0 - noise_parameter) + other;
        if other == 0.0 {
            return Self { atoms: vec![], infinite: 1.0, negative_infinite: 1.0, lattice: None, error: 0.0 };
        }
        let loss = ln_1p(num_buckets * ((1.0 - noise_parameter) / noise_parameter));
        let rest = (num_buckets - 2.0) * other;
        let atoms = if loss > 0.0 {
            vec![
                (-loss, Mass { p: other, q: truth }),
                (0.0, Mass { p: rest, q: rest }),
                (loss, Mass { p: truth, q: other }),
            ]
        } else {
            vec![(0.0, Mass { p: 1.0, q: 1.0 })]
        };
        let lattice = if loss > 0.0 { Some((0.0, loss)) } else { None };
        Self { atoms, infinite: 0.0, negative_infinite: 0.0, lattice, error: 0.0 }
    }

    /// Returns the pair of a truth and of an answer drawn uniformly, which stands for a record that is not there.
    ///
    /// The loss is ln(ka) or ln(kb) = ln p.
    #[must_use]
    pub fn randomized_response_or_uniform(noise_parameter: f64, num_buckets: f64) -> Self {
        let rest = num_buckets - 1.0;
        let truth = (1.0 - noise_parameter) + noise_parameter / num_buckets;
        let high = ln_1p(rest * (1.0 - noise_parameter));
        let uniform = 1.0 / num_buckets;
        let top = (high, Mass { p: truth, q: uniform });
        let others = Mass { p: rest * (noise_parameter / num_buckets), q: rest * uniform };
        if noise_parameter == 0.0 {
            return Self {
                atoms: vec![top],
                infinite: 0.0,
                negative_infinite: others.q,
                lattice: Some((high, 1.0)),
                error: 0.0,
            };
        }
        if noise_parameter == 1.0 {
            let atoms = vec![(0.0, Mass { p: 1.0, q: 1.0 })];
            return Self { atoms, infinite: 0.0, negative_infinite: 0.0, lattice: None, error: 0.0 };
        }
        let low = ln(noise_parameter);
        Self {
            atoms: vec![(low, others), top],
            infinite: 0.0,
            negative_infinite: 0.0,
            lattice: Some((low, high - low)),
            error: 0.0,
        }
    }

    /// Returns the pair that dominates whatever is (ε, δ)-differentially private: δ at ±∞, the rest at ±ε.
    ///
    /// Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML 2015, Section 3.
    #[must_use]
    pub fn epsilon_delta(epsilon: f64, delta: f64) -> Self {
        let kept = 1.0 - delta;
        let small = kept * (exp(-epsilon) / (1.0 + exp(-epsilon)));
        let large = kept / (1.0 + exp(-epsilon));
        let atoms = if epsilon > 0.0 {
            vec![(-epsilon, Mass { p: small, q: large }), (epsilon, Mass { p: large, q: small })]
        } else {
            vec![(0.0, Mass { p: kept, q: kept })]
        };
        let lattice = if epsilon > 0.0 { Some((-epsilon, 2.0 * epsilon)) } else { Some((0.0, 1.0)) };
        Self { atoms, infinite: delta, negative_infinite: delta, lattice, error: 0.0 }
    }

    /// Returns the pair of two laws on the same outcomes, given by their masses up to a factor.
    ///
    /// Masses are ≥ 0, and of each law at least one is positive. Their logarithms are within `error`, < ½, of the true ones.
    #[must_use]
    pub fn masses(p: &[f64], q: &[f64], error: f64) -> Self {
        let (p_total, q_total) = (sum(p), sum(q));
        let (mut infinite, mut negative_infinite) = (0.0, 0.0);
        let mut atoms: Vec<(f64, Mass)> = room(p.len());
        for (&p, &q) in p.iter().zip(q) {
            let (p, q) = (p / p_total, q / q_total);
            let ratio = p / q;
            if q == 0.0 {
                infinite += p;
            } else if p == 0.0 {
                negative_infinite += q;
            } else if ratio > 0.0 && ratio < f64::INFINITY {
                atoms.push((ln(ratio), Mass { p, q }));
            } else {
                atoms.push((ln(p) - ln(q), Mass { p, q }));
            }
        }
        sort_by(&mut atoms, |a, b| a.0.total_cmp(&b.0));
        atoms.dedup_by(|from, into| {
            let same = from.0 == into.0;
            if same {
                into.1 = into.1.and(from.1);
            }
            same
        });
        let lattice = match &atoms[..] {
            [only] => Some((only.0, 1.0)),
            [low, high] => Some((low.0, high.0 - low.0)),
            _ => None,
        };
        Self { atoms, infinite, negative_infinite, lattice, error }
    }

    fn ends(&self) -> (f64, f64) {
        let low = self.atoms.first().map_or(0.0, |atom| atom.0);
        let high = self.atoms.last().map_or(0.0, |atom| atom.0);
        let slack = |loss: f64| 2.0 * self.loss_error() * loss.abs().max(1.0);
        (low - slack(low), high + slack(high))
    }
}

impl LossPair for FiniteLosses {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        let until = |end: f64| self.atoms.partition_point(|(loss, _)| *loss <= end);
        let (start, end) = (until(lower), until(upper));
        let inside = if start < end { &self.atoms[start..end] } else { &[] };
        inside.iter().fold(Mass::default(), |sum, (_, mass)| sum.and(*mass))
    }

    fn infinite(&self) -> f64 {
        self.infinite
    }

    fn negative_infinite(&self) -> f64 {
        self.negative_infinite
    }

    /// That of one mass, and of the sum of all.
    fn relative_error(&self) -> f64 {
        // mutant: masses-taken-for-exact
        FINITE_MASS_ERROR + self.atoms.len() as f64 * UNIT + 2.0 * self.error
    }

    /// A mass and the total of its law, in both laws.
    fn loss_error(&self) -> f64 {
        LOSS_ERROR + 4.0 * self.error
    }

    fn range(&self, _x: f64) -> (f64, f64) {
        self.ends()
    }

    fn range_under_q(&self, _x: f64) -> (f64, f64) {
        self.ends()
    }

    fn support(&self) -> (f64, f64) {
        self.ends()
    }

    fn effort(&self) -> f64 {
        0.2
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        self.lattice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_masses_is_one_of_losses_and_masses() {
        let (p, q) = ([0.7, 0.3], [0.4, 0.6]);
        let (exact, within) = (FiniteLosses::masses(&p, &q, 0.0), FiniteLosses::masses(&p, &q, 1e-6));
        assert!(within.relative_error() >= exact.relative_error() + 2e-6);
        assert!(within.loss_error() >= exact.loss_error() + 4e-6);
        assert!(within.support().1 > exact.support().1);
    }
}
