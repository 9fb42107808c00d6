//! Single steps: `ferrodp_accounting::pld::single`.

use ferrodp_accounting::memory::asked;
use ferrodp_accounting::pld::single;
use ferrodp_accounting::types::Bounds;
use pyo3::prelude::*;

use super::ask::ask;
use super::spec::{Spec, pairs};
use crate::array::List;
use crate::error::Result;

/// Returns bounds on the largest δ(ε) of the mechanisms' pairs.
#[pyfunction]
#[pyo3(signature = (specs, epsilon, /))]
fn pair_delta(specs: List<Spec>, epsilon: f64) -> Result<(f64, f64)> {
    let pairs = pairs(&specs)?;
    let Bounds { lower, upper } = asked(|| single::largest_delta(&pairs, epsilon))?;
    Ok((lower, upper))
}

/// Returns bounds on the least ε ≥ 0 at which every pair has δ(ε) ≤ `delta`.
#[pyfunction]
#[pyo3(signature = (specs, delta, /))]
fn pair_epsilon(py: Python<'_>, specs: List<Spec>, delta: f64) -> Result<(f64, f64)> {
    let pairs = pairs(&specs)?;
    let Bounds { lower, upper } = ask(py, || single::epsilon(&pairs, delta))?;
    Ok((lower, upper))
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pair_delta, module)?)?;
    module.add_function(wrap_pyfunction!(pair_epsilon, module)?)
}
