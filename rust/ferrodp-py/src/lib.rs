//! The Python binding: exports only. Convert, check, detach, wrap; the explanation lives in Python.

use pyo3::prelude::*;

/// The native half of `ferrodp`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
