//! Bindings of all that draws random bits, one file a module of `ferrodp-core`.

use pyo3::prelude::*;

mod bernoulli;
mod bit_generator;
mod correlated;
mod discrete;
mod noise;
mod respond;
mod select;
mod subset;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    bernoulli::register(module)?;
    bit_generator::register(module)?;
    correlated::register(module)?;
    discrete::register(module)?;
    noise::register(module)?;
    respond::register(module)?;
    select::register(module)?;
    subset::register(module)
}
