//! Bindings of `fixed_size` and `allocation`.

use core::num::NonZeroUsize;
use std::sync::Mutex;

use ferrodp_accounting::allocation::{self, AddedMoments, Allocation};
use ferrodp_accounting::fixed_size;
use ferrodp_accounting::types::{Bounds, Rounding};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::array::{Numbers, same_length};
use crate::error::Result;
use crate::words::DirectionArg;

/// See `ferrodp.accounting.rdp._sampling.fixed_size_sampled_gaussian`: arrays of equal length, already checked.
#[pyfunction]
#[pyo3(signature = (noise_multipliers, sampling_probabilities, orders, threads, /))]
fn rdp_fixed_size_gaussian_replace_one<'py>(
    py: Python<'py>,
    noise_multipliers: Numbers<'py>,
    sampling_probabilities: Numbers<'py>,
    orders: Numbers<'py>,
    threads: Option<NonZeroUsize>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let (z, q, orders) = (&*noise_multipliers, &*sampling_probabilities, &*orders);
    same_length(orders, &[("noise_multipliers", z), ("sampling_probabilities", q)])?;
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    let found = py.detach(|| fixed_size::gaussian_replace_one_of_each(z, q, orders, threads));
    Ok(found.into_pyarray(py))
}

/// Returns bounds on δ(ε) of one round of two steps, for noise of standard deviation 1/s.
#[pyfunction]
#[pyo3(signature = (s, epsilon, direction, /))]
fn allocation_two_bins(s: f64, epsilon: f64, direction: DirectionArg) -> (f64, f64) {
    let Bounds { lower, upper } = allocation::two_bins(s, epsilon, direction.0);
    (lower, upper)
}

/// Upper bounds on ρ of one round when a record is added; orders share most of the work.
#[pyclass(frozen, module = "ferrodp._native")]
struct AllocationMoments {
    s: f64,
    steps: u64,
    shared: Mutex<AddedMoments>,
}

#[pymethods]
impl AllocationMoments {
    #[new]
    #[pyo3(signature = (s, steps, /))]
    fn new(s: f64, steps: u64) -> Self {
        Self { s, steps, shared: Mutex::new(AddedMoments::new(s, steps)) }
    }

    /// Returns the bounds at every order. A caller that meets another one does all the work itself: waiting could be for ever in a
    /// forked child.
    #[pyo3(signature = (orders, /))]
    fn rates(&self, py: Python<'_>, orders: Vec<f64>) -> Vec<f64> {
        py.detach(|| match self.shared.try_lock() {
            Ok(mut moments) => orders.iter().map(|&order| moments.rate(order)).collect(),
            Err(_) => {
                let mut moments = AddedMoments::new(self.s, self.steps);
                orders.iter().map(|&order| moments.rate(order)).collect()
            }
        })
    }
}

/// The law of one round from one side; see `ferrodp.accounting.sampling.allocation`.
#[pyclass(frozen, module = "ferrodp._native")]
struct AllocationLaw(Allocation);

#[pymethods]
impl AllocationLaw {
    #[new]
    #[pyo3(signature = (s, steps, spacing, is_upper, most, /))]
    fn new(py: Python<'_>, s: f64, steps: u64, spacing: f64, is_upper: bool, most: usize) -> PyResult<Self> {
        let rounding = if is_upper { Rounding::Up } else { Rounding::Down };
        found(py.detach(|| Allocation::new(s, steps, spacing, rounding, most)))
    }

    #[pyo3(signature = (other, most, /))]
    fn joined(&self, py: Python<'_>, other: &Self, most: usize) -> PyResult<Self> {
        found(py.detach(|| self.0.and(&other.0, most)))
    }

    #[pyo3(signature = (count, most, /))]
    fn repeated(&self, py: Python<'_>, count: u64, most: usize) -> PyResult<Self> {
        found(py.detach(|| self.0.repeated(count, most)))
    }

    #[pyo3(signature = (epsilon, direction, /))]
    fn delta(&self, py: Python<'_>, epsilon: f64, direction: DirectionArg) -> f64 {
        py.detach(|| self.0.delta(epsilon, direction.0))
    }

    #[pyo3(signature = ())]
    fn masses<'py>(&self, py: Python<'py>) -> (i64, Bound<'py, PyArray1<f64>>, f64, f64) {
        let (first, masses, zero, infinity) = self.0.masses();
        (first, PyArray1::from_slice(py, masses), zero, infinity)
    }
}

fn found(law: Option<Allocation>) -> PyResult<AllocationLaw> {
    law.map(AllocationLaw).ok_or_else(|| PyMemoryError::new_err("the law would need too many nodes"))
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AllocationLaw>()?;
    module.add_class::<AllocationMoments>()?;
    module.add_function(wrap_pyfunction!(allocation_two_bins, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_fixed_size_gaussian_replace_one, module)?)
}
