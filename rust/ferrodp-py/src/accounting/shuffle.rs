//! Bindings of `shuffle`.

use ferrodp_accounting::sampling::shuffle::Shuffle;
use ferrodp_accounting::types::Bounds;
use pyo3::prelude::*;

use super::ask::ask;
use crate::error::Result;

/// The pair of shuffled messages of an ε₀-private randomizer; see `ferrodp.accounting._solve.shuffled`.
#[pyclass(frozen, name = "Shuffle", module = "ferrodp._native")]
struct PyShuffle(Shuffle);

#[pymethods]
impl PyShuffle {
    #[new]
    #[pyo3(signature = (epsilon, clone_probability, population_size, /))]
    fn new(py: Python<'_>, epsilon: f64, clone_probability: f64, population_size: u64) -> Result<Self> {
        Ok(Self(ask(py, || Shuffle::new(epsilon, clone_probability, population_size))?))
    }

    /// Returns lower and upper bounds on δ(ε).
    #[pyo3(signature = (epsilon, /))]
    fn delta(&self, py: Python<'_>, epsilon: f64) -> Result<(f64, f64)> {
        let Bounds { lower, upper } = ask(py, || self.0.delta(epsilon))?;
        Ok((lower, upper))
    }

    /// Returns a lower bound on δ(ε) of randomized response whose other answers have probability t each.
    #[pyo3(signature = (t, epsilon, /))]
    fn attained(&self, t: f64, epsilon: f64) -> f64 {
        self.0.attained(t, epsilon)
    }

    /// Returns lower and upper bounds on ε(δ).
    #[pyo3(signature = (delta, /))]
    fn epsilon(&self, py: Python<'_>, delta: f64) -> Result<(f64, f64)> {
        let Bounds { lower, upper } = ask(py, || self.0.epsilon(delta))?;
        Ok((lower, upper))
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyShuffle>()
}
