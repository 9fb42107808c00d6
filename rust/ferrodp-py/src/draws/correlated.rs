//! Streams of correlated noise; see `ferrodp.correlated`.

use core::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, TryLockError};

use ferrodp_core::correlated::{Stream, System};
use ferrodp_core::machine::blocks::default_threads;
use ferrodp_core::machine::fork;
use ferrodp_core::machine::memory::gathered;
use ferrodp_core::params::Granularity;
use numpy::PyArrayDyn;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{FloatsMut, borrow, read};
use crate::error::{Error, Result};
use crate::isa;
use crate::permit::KeyArg;

/// A stream of correlated noise, for one process; there is no way to see or copy its key.
#[pyclass(frozen, module = "ferrodp._native")]
struct CorrelatedStream {
    stream: Mutex<Stream>,
    generation: u64,
}

/// Returns the matrix of these numbers.
fn system(kind: &str, numbers: Vec<f64>, further: Vec<f64>, width: usize) -> Result<System> {
    Ok(match kind {
        "banded" => System::Banded(numbers),
        "rows" => System::Rows { width, rows: numbers },
        "buffered" => System::Buffered { decays: numbers, weights: further },
        "inverse" => System::Inverse(numbers),
        _ => return Err(PyValueError::new_err("kind must be banded, rows, buffered or inverse").into()),
    })
}

#[pymethods]
impl CorrelatedStream {
    #[new]
    #[pyo3(signature = (kind, numbers, further, width, totals, standard_deviation, exponent, length, key, widening=0.0, /))]
    #[allow(clippy::too_many_arguments, reason = "one flat call, named on the Python side")]
    fn new(
        py: Python<'_>,
        kind: &str,
        numbers: &Bound<'_, PyArrayDyn<f64>>,
        further: &Bound<'_, PyArrayDyn<f64>>,
        width: usize,
        totals: bool,
        standard_deviation: f64,
        exponent: i32,
        length: usize,
        key: KeyArg<'_>,
        widening: f64,
    ) -> Result<Self> {
        let copy = |array: &Bound<'_, PyArrayDyn<f64>>| -> Result<Vec<f64>> {
            Ok(gathered(read(array)?.as_slice()?.iter().copied())?)
        };
        let system = system(kind, copy(numbers)?, copy(further)?, width)?;
        let granularity = Granularity::from_exponent(exponent)?;
        let opening = Stream::opening(system, totals, standard_deviation, granularity, length)?;
        isa::active()?;
        let stream = opening.begin(key.draw(py)?).with_widened_margins(widening);
        Ok(Self { stream: Mutex::new(stream), generation: fork::generation() })
    }

    /// Whether this is the process that made the object, not a child that inherited a copy of it.
    #[getter]
    fn is_own(&self) -> bool {
        // mutant: correlated-noise-serves-forked-child-as-well
        self.generation == fork::generation()
    }

    /// The next step, the first one 0.
    #[getter]
    fn step(&self) -> Result<u64> {
        Ok(self.own()?.step())
    }

    /// Adds the noise of the next step to a C-contiguous array of floats, in place.
    #[pyo3(signature = (array, threads, /))]
    fn add(&self, py: Python<'_>, array: &Bound<'_, PyAny>, threads: Option<NonZeroUsize>) -> Result<()> {
        let isa = isa::active()?;
        let mut stream = self.own()?;
        let threads = threads.unwrap_or_else(|| default_threads(stream.len()));
        match FloatsMut::new(array)? {
            FloatsMut::Single(mut array) => {
                let values = array.as_slice_mut()?;
                let stream = &mut *stream;
                Ok(py.detach(|| stream.add(isa, values, threads))?)
            }
            FloatsMut::Double(mut array) => {
                let values = array.as_slice_mut()?;
                let stream = &mut *stream;
                Ok(py.detach(|| stream.add(isa, values, threads))?)
            }
        }
    }

    /// Adds the noise of the next step to a C-contiguous array of int64 in units of the grid divided by `2^shift`, in place.
    #[pyo3(signature = (array, shift, threads, /))]
    fn add_to_integers(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyArrayDyn<i64>>,
        shift: u32,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        let isa = isa::active()?;
        let mut stream = self.own()?;
        let threads = threads.unwrap_or_else(|| default_threads(stream.len()));
        let mut array = borrow(array)?;
        let values = array.as_slice_mut()?;
        let stream = &mut *stream;
        Ok(py.detach(|| stream.add_to_integers(isa, values, shift, threads))?)
    }

    /// Draws the next step for nobody.
    #[pyo3(signature = (threads, /))]
    fn skip(&self, py: Python<'_>, threads: Option<NonZeroUsize>) -> Result<()> {
        let isa = isa::active()?;
        let mut stream = self.own()?;
        let threads = threads.unwrap_or_else(|| default_threads(stream.len()));
        let stream = &mut *stream;
        Ok(py.detach(|| stream.skip(isa, threads))?)
    }
}

impl CorrelatedStream {
    /// Returns the stream, in the process that made it and if no other thread has it.
    fn own(&self) -> Result<MutexGuard<'_, Stream>> {
        if !self.is_own() {
            return Err(Error::state(
                "a stream of correlated noise cannot be used in a forked child: its noise would serve twice",
            ));
        }
        match self.stream.try_lock() {
            Ok(stream) => Ok(stream),
            Err(TryLockError::WouldBlock) => {
                Err(Error::state("a stream of correlated noise draws one step at a time: another thread is at one"))
            }
            Err(TryLockError::Poisoned(_)) => {
                Err(Error::state("a stream of correlated noise was broken off within a step: open it anew"))
            }
        }
    }
}

/// Adds this file's class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CorrelatedStream>()
}
