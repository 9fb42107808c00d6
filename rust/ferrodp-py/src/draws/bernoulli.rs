//! Coins that come up heads with probability e^−γ; see `ferrodp.random`.

use core::num::NonZeroUsize;

use ferrodp_core::choice::bernoulli::{toss, toss_each};
use ferrodp_core::machine::blocks::default_threads;
use numpy::PyArrayDyn;
use pyo3::prelude::*;

use crate::array::borrow;
use crate::error::Result;
use crate::isa;
use crate::permit::KeyArg;

/// Fills a C-contiguous array of bytes with coins of one γ, a ratio.
#[pyfunction]
#[pyo3(signature = (coins, numerator, denominator, key, threads, /))]
fn toss_coins(
    py: Python<'_>,
    coins: &Bound<'_, PyArrayDyn<u8>>,
    numerator: u64,
    denominator: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let mut coins = borrow(coins)?;
    let coins = coins.as_slice_mut()?;
    let (isa, key) = (isa::active()?, key.draw(py)?);
    let threads = threads.unwrap_or_else(|| default_threads(coins.len()));
    Ok(py.detach(|| toss(isa, &key, (numerator, denominator), coins, threads))?)
}

/// Replaces every γ of a C-contiguous array by the outcome of its coin, in place.
#[pyfunction]
#[pyo3(signature = (gammas, key, threads, /))]
fn toss_each_coin(
    py: Python<'_>,
    gammas: &Bound<'_, PyArrayDyn<f64>>,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let mut gammas = borrow(gammas)?;
    let gammas = gammas.as_slice_mut()?;
    let (isa, key) = (isa::active()?, key.draw(py)?);
    let threads = threads.unwrap_or_else(|| default_threads(gammas.len()));
    Ok(py.detach(|| toss_each(isa, &key, gammas, threads))?)
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(toss_coins, module)?)?;
    module.add_function(wrap_pyfunction!(toss_each_coin, module)?)
}
