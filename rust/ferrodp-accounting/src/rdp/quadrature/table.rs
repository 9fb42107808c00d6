//! Masses and losses of a pair, and the sums over them that every curve is made of.
//!
//! `A(α) − 1 = E_P[φ(βL)] + β·E_P[φ(−L)]`, `φ(x) = eˣ − 1 − x ≥ 0`, `β = α − 1`, for any pair with `E_P[e^{−L}] = 1`: sums of
//! terms ≥ 0, in which nothing cancels. See `nodes`.

use crate::functions::lanes::{CENTERED_ERROR, EXPONENTIAL_ERROR, centered_exponential};
use crate::functions::{UNIT, exp};
use crate::memory::grow;

/// Terms that are added up before they join the total: `n` terms cost `TERMS_PER_CHUNK + n/TERMS_PER_CHUNK` roundings, not `n`.
pub(in crate::rdp) const TERMS_PER_CHUNK: usize = 64;

/// From here on `eˣ` stands for `φ(x)`.
pub(in crate::rdp) const LARGE_EXPONENT: f64 = 40.0;

/// One entry, with bounds on the errors in units of 2⁻⁵³.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdp) struct Entry {
    pub(in crate::rdp) mass: f64,
    pub(in crate::rdp) log_mass: f64,
    pub(in crate::rdp) loss: f64,
    /// Of the mass, relative.
    pub(in crate::rdp) mass_error: f64,
    /// Of its logarithm, absolute.
    pub(in crate::rdp) log_error: f64,
    /// Of the loss, relative.
    pub(in crate::rdp) loss_error: f64,
}

/// Entries by column.
#[derive(Clone, Debug, Default)]
pub(in crate::rdp) struct Table {
    pub(in crate::rdp) mass: Vec<f64>,
    pub(in crate::rdp) log_mass: Vec<f64>,
    pub(in crate::rdp) loss: Vec<f64>,
    /// `p·φ(−l)`: what the entry adds to the divergence.
    pub(in crate::rdp) divergent: Vec<f64>,
    /// Relative error of a term, in units: `constant + β·slope`.
    pub(in crate::rdp) constant: Vec<f64>,
    pub(in crate::rdp) slope: Vec<f64>,
}

impl Table {
    pub(in crate::rdp) fn len(&self) -> usize {
        self.mass.len()
    }

    pub(in crate::rdp) fn grow(&mut self, count: usize) {
        for column in [
            &mut self.mass,
            &mut self.log_mass,
            &mut self.loss,
            &mut self.divergent,
            &mut self.constant,
            &mut self.slope,
        ] {
            grow(column, count);
        }
    }

    /// Adds an entry.
    ///
    /// # Numerics
    /// `x·φ′(x)/φ(x) ≤ 2 + max(x, 0)` carries the error of `x = β·l`, three units more than that of `l`, into `φ(x)`. Where
    /// `φ` is an exponential, `ln p + x` has the errors of its parts and one rounding, of at most the larger of the two.
    pub(in crate::rdp) fn push(&mut self, entry: Entry) {
        let centered = CENTERED_ERROR / UNIT + entry.mass_error;
        let joined = EXPONENTIAL_ERROR / UNIT + entry.log_error + entry.log_mass.abs().min(1e6);
        // In the divergence, φ is taken at −l.
        let reversed = (-entry.loss).max(0.0) * entry.loss_error;
        let is_joined = entry.loss > 0.0 || -entry.loss > LARGE_EXPONENT;
        let constant = centered.max(if is_joined { joined } else { 0.0 }) + 2.0 * (entry.loss_error + 3.0) + reversed;
        let slope = entry.loss.abs() * (entry.loss_error + 4.0);
        self.constant.push(constant);
        self.slope.push(if entry.loss > 0.0 { slope } else { 0.0 });
        self.divergent.push(if -entry.loss > LARGE_EXPONENT {
            exp(entry.log_mass - entry.loss)
        } else {
            entry.mass * centered_exponential(-entry.loss)
        });
        self.mass.push(entry.mass);
        self.log_mass.push(entry.log_mass);
        self.loss.push(entry.loss);
    }

    /// Returns `Σ p·φ(−l)` up to that entry, and a bound on its error.
    pub(in crate::rdp) fn divergence(&self, last: usize) -> (f64, f64) {
        let terms = &self.divergent[..=last];
        let total = terms.chunks(TERMS_PER_CHUNK).map(|part| part.iter().sum::<f64>()).sum();
        let weighted = terms.iter().zip(&self.constant).map(|(term, units)| term * units).sum();
        (total, error(total, weighted, last))
    }
}

/// Returns the error of a sum up to that entry, where `weighted` is the sum of all terms times their errors in units.
pub(in crate::rdp) fn error(total: f64, weighted: f64, last: usize) -> f64 {
    1.01 * UNIT * (weighted + total * (TERMS_PER_CHUNK + (last + 1) / TERMS_PER_CHUNK + 10) as f64)
}
