//! Random subsets; see `ferrodp.random.samples`.

use ferrodp_core::choice::subset::{Allocation, allocation, fixed_size, poisson};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::error::Result;
use crate::isa;
use crate::permit::KeyArg;

type Members<'py> = Bound<'py, PyArray1<i64>>;

/// Returns the members of a Poisson sample, in increasing order.
#[pyfunction]
#[pyo3(signature = (population, probability, key, /))]
fn poisson_members<'py>(py: Python<'py>, population: u64, probability: f64, key: KeyArg<'_>) -> Result<Members<'py>> {
    let (isa, key) = (isa::active()?, key.draw(py)?);
    let members = py.detach(|| poisson(isa, &key, population, probability))?;
    Ok(members.into_pyarray(py))
}

/// Returns the members of a sample of fixed size, in increasing order.
#[pyfunction]
#[pyo3(signature = (population, size, key, /))]
fn fixed_size_members<'py>(py: Python<'py>, population: u64, size: u64, key: KeyArg<'_>) -> Result<Members<'py>> {
    let (isa, key) = (isa::active()?, key.draw(py)?);
    let members = py.detach(|| fixed_size(isa, &key, population, size))?;
    Ok(members.into_pyarray(py))
}

/// Returns the members of all steps of a random allocation, step after step, and where each step begins and the last ends.
#[pyfunction]
#[pyo3(signature = (population, steps, selected, key, /))]
fn allocated_members<'py>(
    py: Python<'py>,
    population: u64,
    steps: u32,
    selected: u32,
    key: KeyArg<'_>,
) -> Result<(Members<'py>, Members<'py>)> {
    let (isa, key) = (isa::active()?, key.draw(py)?);
    let Allocation { members, starts } = py.detach(|| allocation(isa, &key, population, steps, selected))?;
    Ok((members.into_pyarray(py), starts.into_pyarray(py)))
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(poisson_members, module)?)?;
    module.add_function(wrap_pyfunction!(fixed_size_members, module)?)?;
    module.add_function(wrap_pyfunction!(allocated_members, module)?)
}
