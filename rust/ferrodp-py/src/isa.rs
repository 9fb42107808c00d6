//! Which path the kernels take: the best one, or the one that `FERRODP_ISA` names, read once at import.
//!
//! Every path gives the same bits; the variable exists so that tests and benches can walk them.

use std::sync::OnceLock;

use ferrodp_core::Isa;
use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::prelude::*;

static ACTIVE_ISA: OnceLock<Isa> = OnceLock::new();

/// Returns the path chosen at import.
pub(crate) fn active() -> PyResult<Isa> {
    ACTIVE_ISA.get().copied().ok_or_else(|| PyRuntimeError::new_err("the module is not initialized"))
}

/// Chooses the path.
///
/// # Errors
/// If the environment names one that this CPU does not support: the process wants what it cannot have.
pub(crate) fn choose() -> PyResult<Isa> {
    let isa = match std::env::var("FERRODP_ISA") {
        Ok(name) => Isa::named(&name).ok_or_else(|| {
            let known: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
            PyImportError::new_err(format!("FERRODP_ISA must be one of {}, got {name:?}", known.join(", ")))
        })?,
        Err(_) => Isa::best(),
    };
    Ok(*ACTIVE_ISA.get_or_init(|| isa))
}
