//! Bindings of sums: clipped rows, trees of arrays, vectors for secure aggregation, rows of units.

use pyo3::prelude::*;

mod clip;
mod secure;
mod tree;
mod units;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    clip::register(module)?;
    secure::register(module)?;
    tree::register(module)?;
    units::register(module)
}
