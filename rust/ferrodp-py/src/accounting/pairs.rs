//! Single steps: `ferrodp_accounting::pld::single`.

use ferrodp_accounting::pld::single;
use ferrodp_accounting::types::Bounds;
use pyo3::prelude::*;

use super::spec::{Spec, pairs};
use crate::error::Result;

/// Returns bounds on the largest δ(ε) of the mechanisms' pairs.
#[pyfunction]
#[pyo3(signature = (specs, epsilon, /))]
fn pair_delta(specs: Vec<Spec>, epsilon: f64) -> Result<(f64, f64)> {
    let Bounds { lower, upper } = single::largest_delta(&pairs(&specs)?, epsilon);
    Ok((lower, upper))
}

/// Returns bounds on the least ε ≥ 0 at which every pair has δ(ε) ≤ `delta`.
#[pyfunction]
#[pyo3(signature = (specs, delta, /))]
fn pair_epsilon(py: Python<'_>, specs: Vec<Spec>, delta: f64) -> Result<(f64, f64)> {
    let pairs = pairs(&specs)?;
    let Bounds { lower, upper } = py.detach(|| single::epsilon(&pairs, delta));
    Ok((lower, upper))
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pair_delta, module)?)?;
    module.add_function(wrap_pyfunction!(pair_epsilon, module)?)
}
