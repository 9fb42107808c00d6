//! Intervals as Python has them: two decimals, or whatever else is written like one.

use ferrodp_accounting::certified::Interval;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

/// The interval between two decimals, rounded outward to `64·N` bits.
pub(crate) struct Decimals<const N: usize>(pub(crate) Interval<N>);

impl<'py, const N: usize> FromPyObject<'_, 'py> for Decimals<N> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = |index: usize| -> PyResult<PyBackedStr> { object.get_item(index)?.str()?.extract() };
        let (lower, upper) = (text(0)?, text(1)?);
        let found = Interval::of_decimals(&lower, &upper);
        found.map(Self).ok_or_else(|| PyValueError::new_err("an interval must be two decimal numbers"))
    }
}
