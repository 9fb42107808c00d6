//! Compositions of stated (ε, δ), and binomial tails: `ferrodp_accounting::composition`.

use std::sync::{Mutex, PoisonError};

use ferrodp_accounting::composition::{equal, worst::Worst};
use ferrodp_accounting::types::Bounds;
use pyo3::prelude::*;

use super::ask::ask;
use super::decimals::Decimals;
use crate::array::List;
use crate::error::Result;

/// The worst mechanisms with given ε > 0, in increasing order, each so many times; see `ferrodp.accounting.composition`.
#[pyclass(frozen, module = "ferrodp._native")]
struct WorstResponses(Mutex<Worst>);

impl WorstResponses {
    /// Asks without the interpreter's lock; one that is asked already is waited for.
    fn ask<T: Send>(&self, py: Python<'_>, question: impl FnOnce(&Worst) -> T + Send) -> Result<T> {
        ask(py, || question(&self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl WorstResponses {
    #[new]
    #[pyo3(signature = (groups, /))]
    fn new(groups: List<(f64, u64)>) -> Self {
        Self(Mutex::new(Worst::new(groups.0)))
    }

    /// Returns bounds on δ at `total` ≥ 0 if besides −ln Π(1 − δᵢ) = `failure`, and whether none of it is that of the ε.
    #[pyo3(signature = (total, failure, /))]
    fn delta(&self, py: Python<'_>, total: f64, failure: Decimals<4>) -> Result<(f64, f64, bool)> {
        let (Bounds { lower, upper }, is_pure) = self.ask(py, |worst| worst.delta(total, failure.0))?;
        Ok((lower, upper, is_pure))
    }

    /// Returns bounds on the least ε ≥ 0 at which the δ of the ε alone is at most `target`, in (0, 1).
    #[pyo3(signature = (target, /))]
    fn epsilon(&self, py: Python<'_>, target: Decimals<4>) -> Result<(f64, f64)> {
        let Bounds { lower, upper } = self.ask(py, |worst| worst.epsilon(target.0))?;
        Ok((lower, upper))
    }
}

/// Returns an upper bound on P[Binomial(number, probability) ≤ seen], for a number up to 10¹⁰ and a probability > 0.
#[pyfunction]
#[pyo3(signature = (seen, number, probability, /))]
fn binomial_at_most(py: Python<'_>, seen: u64, number: u64, probability: f64) -> Result<f64> {
    ask(py, || equal::at_most(seen, number, probability))
}

/// Adds them to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WorstResponses>()?;
    module.add_function(wrap_pyfunction!(binomial_at_most, module)?)
}
