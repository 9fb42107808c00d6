//! Vectors for secure aggregation; see `ferrodp.federated.secure`.

use core::num::NonZeroUsize;

use ferrodp_core::clip::ClipNorm;
use ferrodp_core::random::Key;
use ferrodp_core::secure::{quantized, rotation};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Floats, FloatsMut, List, slices};
use crate::error::{Error, Result};
use crate::isa;
use crate::words::ModulusArg;

/// Returns the integers of one vector, given in leaves: clipped, quantized, and shortened by `shift` bits.
#[pyfunction]
#[pyo3(signature = (leaves, value, shift, threads, /))]
fn quantized_vector<'py>(
    py: Python<'py>,
    leaves: List<Bound<'py, PyAny>>,
    value: f64,
    shift: u32,
    threads: Option<NonZeroUsize>,
) -> Result<Bound<'py, PyArray1<i64>>> {
    let (isa, threads) = (isa::active()?, threads.unwrap_or(NonZeroUsize::MIN));
    let integers = match Floats::new(&leaves)? {
        Floats::Single(leaves) => {
            let (row, clip) = (slices(&leaves)?, ClipNorm::new::<f32>(value)?);
            py.detach(|| quantized(isa, &row, clip, shift, threads))?
        }
        Floats::Double(leaves) => {
            let (row, clip) = (slices(&leaves)?, ClipNorm::new::<f64>(value)?);
            py.detach(|| quantized(isa, &row, clip, shift, threads))?
        }
    };
    Ok(integers.into_pyarray(py))
}

/// Rotates a vector in place, or back, with public signs.
#[pyfunction]
#[pyo3(signature = (vector, seed, inverse, /))]
fn rotate_vector(py: Python<'_>, vector: &Bound<'_, PyAny>, seed: &[u8], inverse: bool) -> Result<()> {
    let isa = isa::active()?;
    let Ok(seed) = <[u8; 32]>::try_from(seed) else {
        return Err(PyValueError::new_err("seed must be 32 bytes").into());
    };
    let key = Key::from_bytes(seed);
    match FloatsMut::new(vector)? {
        FloatsMut::Single(mut vector) => {
            let values = vector.as_slice_mut()?;
            Ok(py.detach(|| rotation::rotate(isa, &key, inverse, values))?)
        }
        FloatsMut::Double(mut vector) => {
            let values = vector.as_slice_mut()?;
            Ok(py.detach(|| rotation::rotate(isa, &key, inverse, values))?)
        }
    }
}

/// Writes the residues of integers to `out`.
#[pyfunction]
#[pyo3(signature = (modulus, integers, out, /))]
fn residues_of(
    py: Python<'_>,
    modulus: ModulusArg,
    integers: PyReadonlyArray1<'_, i64>,
    mut out: PyReadwriteArray1<'_, u64>,
) -> Result<()> {
    let (integers, out) = (integers.as_slice()?, slice_mut(&mut out)?);
    Ok(py.detach(|| modulus.0.reduce(integers, out))?)
}

/// Adds residues to others, in place.
#[pyfunction]
#[pyo3(signature = (modulus, total, message, /))]
fn add_residues(
    py: Python<'_>,
    modulus: ModulusArg,
    mut total: PyReadwriteArray1<'_, u64>,
    message: PyReadonlyArray1<'_, u64>,
) -> Result<()> {
    let (total, message) = (slice_mut(&mut total)?, message.as_slice()?);
    Ok(py.detach(|| modulus.0.add(total, message))?)
}

/// Writes the integers that residues stand for to `out`.
#[pyfunction]
#[pyo3(signature = (modulus, residues, out, /))]
fn centered_residues(
    py: Python<'_>,
    modulus: ModulusArg,
    residues: PyReadonlyArray1<'_, u64>,
    mut out: PyReadwriteArray1<'_, i64>,
) -> Result<()> {
    let (residues, out) = (residues.as_slice()?, slice_mut(&mut out)?);
    Ok(py.detach(|| modulus.0.center(residues, out))?)
}

fn slice_mut<'a, T: numpy::Element>(array: &'a mut PyReadwriteArray1<'_, T>) -> Result<&'a mut [T]> {
    array.as_slice_mut().map_err(Error::from)
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(quantized_vector, module)?)?;
    module.add_function(wrap_pyfunction!(rotate_vector, module)?)?;
    module.add_function(wrap_pyfunction!(residues_of, module)?)?;
    module.add_function(wrap_pyfunction!(add_residues, module)?)?;
    module.add_function(wrap_pyfunction!(centered_residues, module)?)
}
