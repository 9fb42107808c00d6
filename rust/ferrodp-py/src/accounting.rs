//! Bindings of `ferrodp-accounting`, one file per module of it.

use pyo3::prelude::*;

mod allocated;
mod ask;
mod composition;
mod contour;
pub(crate) mod decimals;
mod gaussian;
mod pairs;
mod pld;
pub(crate) mod rdp;
mod sampling;
mod shuffle;
pub(crate) mod spec;

/// Adds what the accountants need to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    composition::register(module)?;
    contour::register(module)?;
    gaussian::register(module)?;
    pairs::register(module)?;
    pld::register(module)?;
    rdp::register(module)?;
    sampling::register(module)?;
    shuffle::register(module)
}
