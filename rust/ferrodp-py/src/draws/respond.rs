//! Randomized response; see `ferrodp.mechanisms.randomized_response`.

use core::num::NonZeroUsize;

use ferrodp_core::choice::respond::{Category, Response};
use ferrodp_core::machine::blocks::default_threads;
use numpy::PyArrayDyn;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::borrow;
use crate::error::Result;
use crate::isa;
use crate::permit::KeyArg;

/// Randomizes a C-contiguous array of categories (uint8, int32 or int64), in place.
#[pyfunction]
#[pyo3(signature = (array, noise_parameter, categories, key, threads, /))]
fn randomize_responses(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    noise_parameter: f64,
    categories: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let response = Response::new(noise_parameter, categories)?;
    if let Ok(array) = array.cast::<PyArrayDyn<u8>>() {
        return apply(py, response, array, key, threads);
    }
    if let Ok(array) = array.cast::<PyArrayDyn<i32>>() {
        return apply(py, response, array, key, threads);
    }
    if let Ok(array) = array.cast::<PyArrayDyn<i64>>() {
        return apply(py, response, array, key, threads);
    }
    Err(PyTypeError::new_err("array must have dtype uint8, int32 or int64").into())
}

fn apply<T: Category + numpy::Element>(
    py: Python<'_>,
    response: Response,
    array: &Bound<'_, PyArrayDyn<T>>,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let mut array = borrow(array)?;
    let answers = array.as_slice_mut()?;
    let isa = isa::active()?;
    let key = key.draw(py)?;
    let threads = threads.unwrap_or_else(|| default_threads(answers.len()));
    py.detach(|| response.apply(isa, &key, answers, threads));
    Ok(())
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(randomize_responses, module)?)
}
