//! Randomized answers; see `ferrodp.mechanisms`.

use core::num::NonZeroUsize;

use ferrodp_core::choice::respond::coded::Coded;
use ferrodp_core::choice::respond::columns;
use ferrodp_core::choice::respond::sets::Sets;
use ferrodp_core::choice::respond::unary::Unary;
use ferrodp_core::choice::respond::vectors::{Vectors, WORDS_PER_MESSAGE};
use ferrodp_core::choice::respond::{Category, Response};
use ferrodp_core::isa::Isa;
use ferrodp_core::machine::blocks::default_threads;
use ferrodp_core::params::positive;
use ferrodp_core::random::Key;
use numpy::{PyArrayDyn, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
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

/// Replaces each category of a C-contiguous array of int64 by the number of a message, in place.
#[pyfunction]
#[pyo3(signature = (array, weight, categories, field_size, key, threads, /))]
fn code_responses(
    py: Python<'_>,
    array: &Bound<'_, PyArrayDyn<i64>>,
    weight: u64,
    categories: u64,
    field_size: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let coded = Coded::new(weight, categories, field_size)?;
    let mut array = borrow(array)?;
    let answers = array.as_slice_mut()?;
    let isa = isa::active()?;
    let key = key.draw(py)?;
    let threads = threads.unwrap_or_else(|| default_threads(answers.len()));
    py.detach(|| coded.apply(isa, &key, answers, threads));
    Ok(())
}

/// Writes a row of bits for each category of an array of int64, each other bit 1 with probability `numerator/2^digits`.
#[pyfunction]
#[pyo3(signature = (answers, messages, numerator, digits, categories, key, threads, /))]
#[allow(clippy::too_many_arguments, reason = "parameters of a law, and where it draws")]
fn unary_responses(
    py: Python<'_>,
    answers: PyReadonlyArray1<'_, i64>,
    messages: PyReadwriteArray2<'_, u64>,
    numerator: u64,
    digits: u32,
    categories: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let unary = Unary::new(numerator, digits, categories)?;
    rows(py, &answers, messages, unary.words_per_row(), key, threads, |isa, key, answers, messages, threads| {
        unary.apply(isa, key, answers, messages, threads);
    })
}

/// Writes a set of `size` categories as bits for each category of an array of int64, without it for `weight` of 2⁶⁴ words.
#[pyfunction]
#[pyo3(signature = (answers, messages, weight, size, categories, key, threads, /))]
#[allow(clippy::too_many_arguments, reason = "parameters of a law, and where it draws")]
fn subset_responses(
    py: Python<'_>,
    answers: PyReadonlyArray1<'_, i64>,
    messages: PyReadwriteArray2<'_, u64>,
    weight: u64,
    size: u64,
    categories: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let sets = Sets::new(weight, size, categories)?;
    rows(py, &answers, messages, sets.words_per_row(), key, threads, |isa, key, answers, messages, threads| {
        sets.apply(isa, key, answers, messages, threads);
    })
}

fn rows(
    py: Python<'_>,
    answers: &PyReadonlyArray1<'_, i64>,
    mut messages: PyReadwriteArray2<'_, u64>,
    width: usize,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
    draw: impl FnOnce(Isa, &Key, &[i64], &mut [u64], NonZeroUsize) + Send,
) -> Result<()> {
    let answers = answers.as_slice()?;
    let messages = messages.as_slice_mut()?;
    if Some(messages.len()) != answers.len().checked_mul(width) {
        return Err(PyValueError::new_err("messages must have a row of words for each answer").into());
    }
    let isa = isa::active()?;
    let key = key.draw(py)?;
    let threads = threads.unwrap_or_else(|| default_threads(messages.len()));
    py.detach(|| draw(isa, &key, answers, messages, threads));
    Ok(())
}

/// Adds to `counts` how many rows of words have each bit, the lowest of the first word first.
#[pyfunction]
#[pyo3(signature = (rows, counts, /))]
fn count_bits(py: Python<'_>, rows: PyReadonlyArray2<'_, u64>, mut counts: PyReadwriteArray1<'_, i64>) -> Result<()> {
    let width = rows.as_array().ncols();
    let (rows, counts) = (rows.as_slice()?, counts.as_slice_mut()?);
    if width == 0 || Some(counts.len()) != width.checked_mul(64) {
        return Err(PyValueError::new_err("counts must have 64 elements for each word of a row").into());
    }
    let isa = isa::active()?;
    py.detach(|| columns::count(isa, rows, width, counts));
    Ok(())
}

/// Writes a nonce and the number of a code word for each row of `vectors`, which become directions on a grid.
#[pyfunction]
#[pyo3(signature = (vectors, messages, weight, directions, size, clip_norm, key, threads, /))]
#[allow(clippy::too_many_arguments, reason = "parameters of a law, and where it draws")]
fn vector_responses(
    py: Python<'_>,
    mut vectors: PyReadwriteArray2<'_, f64>,
    mut messages: PyReadwriteArray2<'_, u64>,
    weight: u64,
    directions: u64,
    size: u64,
    clip_norm: f64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let dimension = vectors.as_array().ncols();
    let law = Vectors::new(weight, dimension as u64, directions, size)?;
    let (vectors, messages) = (vectors.as_slice_mut()?, messages.as_slice_mut()?);
    if Some(messages.len()) != (vectors.len() / dimension).checked_mul(WORDS_PER_MESSAGE) {
        return Err(PyValueError::new_err("messages must have two words for each vector").into());
    }
    let clip_norm = positive("clip_norm", clip_norm)?;
    let isa = isa::active()?;
    let key = key.draw(py)?;
    let drawn = vectors.len().saturating_mul(directions as usize);
    let threads = threads.unwrap_or_else(|| default_threads(drawn));
    py.detach(|| law.apply(isa, &key, clip_norm, vectors, messages, threads))?;
    Ok(())
}

/// Writes the sum of the code words of `messages` into `sums`.
#[pyfunction]
#[pyo3(signature = (messages, sums, directions, threads, /))]
fn sum_code_words(
    py: Python<'_>,
    messages: PyReadonlyArray2<'_, u64>,
    mut sums: PyReadwriteArray1<'_, f64>,
    directions: u64,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let (messages, sums) = (messages.as_slice()?, sums.as_slice_mut()?);
    let law = Vectors::new(1, sums.len() as u64, directions, 1)?;
    let is_message = |message: &[u64; WORDS_PER_MESSAGE]| message[1] < 2 * directions;
    let (rows, left) = messages.as_chunks();
    if !left.is_empty() || !rows.iter().all(is_message) {
        return Err(PyValueError::new_err("messages must have numbers of code words").into());
    }
    let isa = isa::active()?;
    let threads = threads.unwrap_or_else(|| default_threads(rows.len().saturating_mul(sums.len())));
    py.detach(|| law.sum(isa, messages, sums, threads));
    Ok(())
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(randomize_responses, module)?)?;
    module.add_function(wrap_pyfunction!(code_responses, module)?)?;
    module.add_function(wrap_pyfunction!(unary_responses, module)?)?;
    module.add_function(wrap_pyfunction!(subset_responses, module)?)?;
    module.add_function(wrap_pyfunction!(vector_responses, module)?)?;
    module.add_function(wrap_pyfunction!(sum_code_words, module)?)?;
    module.add_function(wrap_pyfunction!(count_bits, module)?)
}
