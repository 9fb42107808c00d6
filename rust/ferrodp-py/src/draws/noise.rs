//! Noise; see `ferrodp.random`.

use core::num::NonZeroUsize;

use ferrodp_core::machine::blocks::default_threads;
use ferrodp_core::machine::memory::{filled, gathered};
use ferrodp_core::params::Granularity;
use ferrodp_core::random::Key;
use ferrodp_core::sample::{Element, Law, Noise};
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::{self, FloatsMut, Integers, borrow};
use crate::error::Result;
use crate::isa;
use crate::permit::KeyArg;
use crate::words::LawArg;

/// Returns noise for values of type `T`.
fn noise<T: Element>(law: Law, scale: f64, exponent: Option<i32>) -> core::result::Result<Noise, ferrodp_core::Error> {
    let granularity = match exponent {
        Some(exponent) => Granularity::from_exponent(exponent)?,
        None => Noise::default_granularity::<T>(law, scale)?,
    };
    Noise::new(law, scale, granularity)
}

/// Adds noise to a C-contiguous array, in place; with `overwrite`, replaces what is there by noise.
#[pyfunction]
#[pyo3(signature = (array, law, scale, exponent, key, threads, overwrite, /))]
#[allow(clippy::too_many_arguments, reason = "one flat call, named on the Python side")]
fn add_noise(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    law: LawArg,
    scale: f64,
    exponent: Option<i32>,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
    overwrite: bool,
) -> Result<()> {
    match FloatsMut::new(array)? {
        FloatsMut::Single(mut array) => {
            let noise = noise::<f32>(law.0, scale, exponent)?;
            draw(py, &noise, key, threads, overwrite, array.as_slice_mut()?)
        }
        FloatsMut::Double(mut array) => {
            let noise = noise::<f64>(law.0, scale, exponent)?;
            draw(py, &noise, key, threads, overwrite, array.as_slice_mut()?)
        }
    }
}

/// Draws with the interpreter's lock released.
fn draw<T: Element>(
    py: Python<'_>,
    noise: &Noise,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
    overwrite: bool,
    values: &mut [T],
) -> Result<()> {
    let isa = isa::active()?;
    // mutant: noise-written-before-ticket-armed
    let key = key.draw(py)?;
    let threads = threads.unwrap_or_else(|| default_threads(values.len()));
    py.detach(
        || if overwrite { noise.fill(isa, &key, values, threads) } else { noise.add(isa, &key, values, threads) },
    );
    Ok(())
}

/// Adds noise to a C-contiguous float64 array, in place, and returns what it makes, in grid steps, of these integers at
/// their places.
#[pyfunction]
#[pyo3(signature = (array, integers, law, scale, exponent, key, threads, /))]
#[allow(clippy::too_many_arguments, reason = "one flat call, named on the Python side")]
fn add_noise_to_integers(
    py: Python<'_>,
    array: &Bound<'_, PyArrayDyn<f64>>,
    integers: Integers<'_>,
    law: LawArg,
    scale: f64,
    exponent: i32,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<Vec<i128>> {
    let noise = noise::<f64>(law.0, scale, Some(exponent))?;
    let integers = gathered(array::integers(&integers)?.into_iter().map(|(place, integer)| (place as u64, integer)))?;
    let mut steps = filled(0, integers.len())?;
    let mut array = borrow(array)?;
    let values = array.as_slice_mut()?;
    let isa = isa::active()?;
    let threads = threads.unwrap_or_else(|| default_threads(values.len()));
    let key = key.draw(py)?;
    py.detach(|| {
        noise.add(isa, &key, values, threads);
        noise.steps(isa, &key, &integers, &mut steps);
    });
    Ok(steps)
}

/// Returns `value` with noise: one float64 sample.
#[pyfunction]
#[pyo3(signature = (value, law, scale, exponent, key, /))]
fn release_scalar(
    py: Python<'_>,
    value: f64,
    law: LawArg,
    scale: f64,
    exponent: Option<i32>,
    key: KeyArg<'_>,
) -> Result<f64> {
    let noise = noise::<f64>(law.0, scale, exponent)?;
    let isa = isa::active()?;
    let key = key.draw(py)?;
    Ok(noise.add_one(isa, &key, value))
}

/// Returns `length` bytes of a fresh keystream, or of a given key's.
#[pyfunction]
#[pyo3(signature = (length, key, /))]
fn random_bytes<'py>(py: Python<'py>, length: usize, key: KeyArg<'py>) -> Result<Bound<'py, PyBytes>> {
    let isa = isa::active()?;
    let bytes = PyBytes::new_with(py, length, |out| {
        let key = key.draw(py)?;
        py.detach(|| key.fill(isa, out));
        Ok(())
    })?;
    Ok(bytes)
}

/// Returns the key of call number `call` of a seeded source.
#[pyfunction]
#[pyo3(signature = (seed, call, /))]
fn derive_key(py: Python<'_>, seed: [u8; 32], call: u64) -> Result<Bound<'_, PyBytes>> {
    let mut out = [0; 32];
    Key::from_bytes(seed).derive_into(isa::active()?, call, &mut out);
    Ok(PyBytes::new(py, &out))
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(add_noise, module)?)?;
    module.add_function(wrap_pyfunction!(add_noise_to_integers, module)?)?;
    module.add_function(wrap_pyfunction!(release_scalar, module)?)?;
    module.add_function(wrap_pyfunction!(random_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(derive_key, module)?)
}
