//! The one place where numpy arrays become slices.
//!
//! Python hands over arrays that it has already made C-contiguous, aligned and native; anything else is refused here, not
//! copied. An array is borrowed for the whole call, so that other calls of this library cannot touch it meanwhile.
//! Writing to it from another thread by other means is the caller's bug; the worst outcome is wrong numbers in that
//! array, for kernels read each element once and trust none of them.

use numpy::{PyArrayDyn, PyArrayMethods, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// An array of either float type, borrowed for writing.
pub(crate) enum FloatsMut<'py> {
    Single(PyReadwriteArrayDyn<'py, f32>),
    Double(PyReadwriteArrayDyn<'py, f64>),
}

impl<'py> FloatsMut<'py> {
    /// Borrows `array`.
    ///
    /// # Errors
    /// If it is no float32 or float64 array, not C-contiguous, read-only, or borrowed already.
    pub(crate) fn new(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
            return borrow(array).map(Self::Single);
        }
        if let Ok(array) = array.cast::<PyArrayDyn<f64>>() {
            return borrow(array).map(Self::Double);
        }
        Err(PyTypeError::new_err("array must have dtype float32 or float64"))
    }
}

fn borrow<'py, T: numpy::Element>(array: &Bound<'py, PyArrayDyn<T>>) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("array must be C-contiguous"));
    }
    array.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))
}
