//! The Python binding: exports only. Convert, check, detach, wrap; the explanation lives in Python.

use numpy::IntoPyArray;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

mod accounting;
mod array;
mod bernoulli;
mod bit_generator;
mod clip;
mod correlated;
mod discrete;
mod error;
mod fork;
mod isa;
mod noise;
mod permit;
mod reserve;
mod respond;
mod secure;
mod select;
mod sqlite;
mod subset;
#[cfg(feature = "testing")]
mod testing;
mod tree;
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
        bernoulli::register(module)?;
        bit_generator::register(module)?;
        clip::register(module)?;
        correlated::register(module)?;
        discrete::register(module)?;
        fork::register(module)?;
        noise::register(module)?;
        permit::register(module)?;
        respond::register(module)?;
        secure::register(module)?;
        select::register(module)?;
        sqlite::register(module)?;
        #[cfg(feature = "testing")]
        testing::register(module)?;
        tree::register(module)?;
        subset::register(module)
    }
}
