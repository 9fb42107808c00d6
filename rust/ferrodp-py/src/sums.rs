//! Bindings of sums: clipped rows, trees of arrays, vectors for secure aggregation.

use pyo3::prelude::*;

mod clip;
mod secure;
mod tree;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    clip::register(module)?;
    secure::register(module)?;
    tree::register(module)
}
