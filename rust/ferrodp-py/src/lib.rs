//! The Python binding: exports only. Convert, check, detach, wrap; the explanation lives in Python.

use numpy::IntoPyArray;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

mod accounting;
mod array;
mod draws;
mod error;
mod fork;
mod isa;
mod permit;
mod reserve;
mod sqlite;
mod sums;
#[cfg(feature = "testing")]
mod testing;
mod words;

/// The native half of `ferrodp`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Classes are made with maps of the standard library, which ask for a random key and panic without: all of them now, and the
        // one behind numpy arrays of ours with the first such array.
        // mutant: import-panics-without-entropy
        if let Err(error) = ferrodp_core::random::Key::fresh() {
            return Err(PyImportError::new_err(format!("ferrodp cannot be imported: {error}")));
        }
        let _ = vec![0.0].into_pyarray(module.py());
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("isa", isa::choose()?.name())?;
        let available: Vec<_> = ferrodp_core::Isa::available().iter().map(|isa| isa.name()).collect();
        module.add("available_isas", available)?;
        accounting::register(module)?;
        draws::register(module)?;
        fork::register(module)?;
        permit::register(module)?;
        sqlite::register(module)?;
        #[cfg(feature = "testing")]
        testing::register(module)?;
        sums::register(module)
    }
}
