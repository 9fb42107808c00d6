//! Questions to the accounting crate, which may be given up.

use ferrodp_accounting::memory::asked;
use pyo3::prelude::*;

use crate::error::Result;

/// Asks without the interpreter's lock.
///
/// # Errors
/// `MemoryError` if there is no memory for the answer.
pub(crate) fn ask<T: Send>(py: Python<'_>, question: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(py.detach(|| asked(question))?)
}
