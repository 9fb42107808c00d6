//! The only map from the core's errors to Python's.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A core error on its way to Python, or a Python one passing through.
pub(crate) struct Error(PyErr);

impl From<PyErr> for Error {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<numpy::AsSliceError> for Error {
    fn from(error: numpy::AsSliceError) -> Self {
        Self(error.into())
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl Error {
    /// A `FerroError`: the object is past the state in which this can be done.
    pub(crate) fn state(message: &str) -> Self {
        Self(Python::attach(|py| exception(py, "FerroError", message.to_owned())))
    }

    /// An `InvalidArray`: an array is in use by another call of this library, which holds it until it returns.
    pub(crate) fn in_use() -> Self {
        let message = "an array must not be in use by a call in another thread that writes to it, or be written to while \
                       another call reads it; wait for that call, or pass a copy";
        Self(Python::attach(|py| exception(py, "InvalidArray", message.to_owned())))
    }

    /// A `TicketError`: a release is not paid for.
    pub(crate) fn ticket(message: &str) -> Self {
        Self(Python::attach(|py| exception(py, "TicketError", message.to_owned())))
    }
}

impl From<std::collections::TryReserveError> for Error {
    fn from(error: std::collections::TryReserveError) -> Self {
        Self(PyMemoryError::new_err(error.to_string()))
    }
}

impl From<ferrodp_core::Error> for Error {
    fn from(error: ferrodp_core::Error) -> Self {
        let class = match &error {
            ferrodp_core::Error::OutOfMemory => return Self(PyMemoryError::new_err(error.to_string())),
            ferrodp_core::Error::Entropy(_) => "EntropyError",
            ferrodp_core::Error::Length { .. } | ferrodp_core::Error::Mutated => "InvalidArray",
            _ => "InvalidParameter",
        };
        Self(Python::attach(|py| exception(py, class, error.to_string())))
    }
}

/// Returns the exception of that name in `ferrodp.errors`.
fn exception(py: Python<'_>, class: &str, message: String) -> PyErr {
    let found = py.import("ferrodp.errors").and_then(|module| module.getattr(class));
    match found.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, message),
        Err(error) => error,
    }
}

/// What the functions of the binding return.
pub(crate) type Result<T> = core::result::Result<T, Error>;
