//! Bindings of `shuffle`.

use ferrodp_accounting::shuffle::Shuffle;
use ferrodp_accounting::types::Bounds;
use pyo3::prelude::*;

/// The pair of shuffled messages of an ε₀-private randomizer; see `ferrodp.accounting._solve.shuffled`.
#[pyclass(frozen, name = "Shuffle", module = "ferrodp._native")]
struct PyShuffle(Shuffle);

#[pymethods]
impl PyShuffle {
    #[new]
    #[pyo3(signature = (epsilon, clone_probability, population_size, /))]
    fn new(py: Python<'_>, epsilon: f64, clone_probability: f64, population_size: u64) -> Self {
        Self(py.detach(|| Shuffle::new(epsilon, clone_probability, population_size)))
    }

    /// Returns lower and upper bounds on δ(ε).
    #[pyo3(signature = (epsilon, /))]
    fn delta(&self, py: Python<'_>, epsilon: f64) -> (f64, f64) {
        let Bounds { lower, upper } = py.detach(|| self.0.delta(epsilon));
        (lower, upper)
    }

    /// Returns a lower bound on δ(ε) of randomized response whose other answers have probability t each.
    #[pyo3(signature = (t, epsilon, /))]
    fn attained(&self, t: f64, epsilon: f64) -> f64 {
        self.0.attained(t, epsilon)
    }

    /// Returns lower and upper bounds on ε(δ).
    #[pyo3(signature = (delta, /))]
    fn epsilon(&self, py: Python<'_>, delta: f64) -> (f64, f64) {
        let Bounds { lower, upper } = py.detach(|| self.0.epsilon(delta));
        (lower, upper)
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyShuffle>()
}
