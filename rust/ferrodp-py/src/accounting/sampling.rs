//! Bindings of `fixed_size` and `allocation`.

use core::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use ferrodp_accounting::contour::Quantity;
use ferrodp_accounting::sampling::allocation::{self, AddedMoments, Allocation, Couples, RemovedMoments};
use ferrodp_accounting::sampling::fixed_size::{self, moments};
use ferrodp_accounting::sampling::truncated::Truncated;
use ferrodp_accounting::types::{Bounds, Question, Rounding};
use ferrodp_core::machine::memory::gathered;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use super::allocated::AllocationLaw;
use super::ask::ask;
use super::spec::{Spec, pairs};
use crate::array::{List, Numbers, array, same_length};
use crate::error::{Error, Result};
use crate::isa;
use crate::words::{DirectionArg, QuantityArg};

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
    let found = ask(py, || fixed_size::gaussian_replace_one_of_each(z, q, orders, threads))?;
    Ok(found.into_pyarray(py))
}

/// Returns upper bounds on ρ for noise about a sample of fixed size, of which one record is replaced, by the older theorem.
#[pyfunction]
#[pyo3(signature = (noise_multiplier, sampling_probability, orders, /))]
fn rdp_fixed_size_ternary<'py>(
    py: Python<'py>,
    noise_multiplier: f64,
    sampling_probability: f64,
    orders: Numbers<'py>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let orders = &*orders;
    Ok(ask(py, || moments::ternary_gaussian(noise_multiplier, sampling_probability, orders))?.into_pyarray(py))
}

/// Returns upper bounds on ρ for any release about such a sample, from its divergences at the orders 2, 3, … up to the largest.
#[pyfunction]
#[pyo3(signature = (divergences, epsilon, sampling_probability, orders, /))]
fn rdp_fixed_size<'py>(
    py: Python<'py>,
    divergences: List<f64>,
    epsilon: f64,
    sampling_probability: f64,
    orders: Numbers<'py>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let orders = &*orders;
    Ok(ask(py, || moments::generic(&divergences, epsilon, sampling_probability, orders))?.into_pyarray(py))
}

/// Returns bounds on P[Bin(number, q) > most], bounds on the chance of a full batch, and q′; see
/// `ferrodp.accounting._laws.truncated_poisson`.
#[pyfunction]
#[pyo3(signature = (number, q, most, /))]
fn truncated_sample(py: Python<'_>, number: u64, q: f64, most: u64) -> ((f64, f64), (f64, f64), f64) {
    let sample = Truncated { number, q, most };
    let (cut, (full, replaced)) = py.detach(|| (sample.cut(), sample.kinds()));
    ((cut.lower, cut.upper), (full.lower, full.upper), replaced)
}

/// Returns an upper bound on what cutting the samples adds to δ at ε.
#[pyfunction]
#[pyo3(signature = (sample, epsilon, count, /))]
fn truncated_delta(py: Python<'_>, sample: (u64, f64, u64), epsilon: f64, count: u64) -> f64 {
    let (number, q, most) = sample;
    py.detach(|| Truncated { number, q, most }.delta(epsilon, count))
}

/// Returns upper bounds on ρ of Gaussian noise about such a sample.
#[pyfunction]
#[pyo3(signature = (sample, noise_multiplier, orders, is_zeroed, /))]
fn rdp_truncated_poisson_gaussian<'py>(
    py: Python<'py>,
    sample: (u64, f64, u64),
    noise_multiplier: f64,
    orders: Numbers<'py>,
    is_zeroed: bool,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let (isa, orders, (number, q, most)) = (isa::active()?, &*orders, sample);
    let found = ask(py, || Truncated { number, q, most }.gaussian(isa, noise_multiplier, orders, is_zeroed))?;
    Ok(found.into_pyarray(py))
}

/// Returns bounds on δ(ε) of one round of two steps, for noise of standard deviation 1/s.
#[pyfunction]
#[pyo3(signature = (s, epsilon, direction, /))]
fn allocation_two_bins(s: f64, epsilon: f64, direction: DirectionArg) -> (f64, f64) {
    let Bounds { lower, upper } = allocation::two_bins(s, epsilon, direction.0);
    (lower, upper)
}

/// Returns a lower bound on δ(ε) or ε(δ) of rounds in which a record is in several steps: `sizes` are steps, selected, rounds.
#[pyfunction]
#[pyo3(signature = (step, sizes, direction, quantity, at, /))]
fn allocation_counted_lower(
    py: Python<'_>,
    step: Spec,
    sizes: (u64, u64, u64),
    direction: DirectionArg,
    quantity: QuantityArg,
    at: f64,
) -> Result<f64> {
    let pair = pairs(&[step])?.swap_remove(0);
    let question = match quantity.0 {
        Quantity::Epsilon => Question::Epsilon { delta: at },
        Quantity::Delta | Quantity::LogDelta => Question::Delta { epsilon: at },
    };
    ask(py, || allocation::counted_lower(&*pair, sizes, direction.0, question))
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
    fn rates(&self, py: Python<'_>, orders: List<f64>) -> Result<Vec<f64>> {
        ask(py, || match self.shared.try_lock() {
            Ok(mut moments) => gathered(orders.iter().map(|&order| moments.rate(order))),
            Err(_) => {
                let mut moments = AddedMoments::new(self.s, self.steps);
                gathered(orders.iter().map(|&order| moments.rate(order)))
            }
        })?
        .map_err(Error::from)
    }
}

/// Upper bounds on ρ of one round when a record is removed, for a noise multiplier; orders share most of the work.
#[pyclass(frozen, module = "ferrodp._native")]
struct AllocationRemoved {
    noise_multiplier: f64,
    steps: u64,
    shared: Mutex<RemovedMoments>,
}

#[pymethods]
impl AllocationRemoved {
    #[new]
    #[pyo3(signature = (noise_multiplier, steps, /))]
    fn new(noise_multiplier: f64, steps: u64) -> Self {
        Self { noise_multiplier, steps, shared: Mutex::new(RemovedMoments::new(noise_multiplier, steps)) }
    }

    /// Returns the bound at an order; a caller that meets another one does all the work itself, as in `AllocationMoments`.
    #[pyo3(signature = (order, /))]
    fn rate(&self, py: Python<'_>, order: f64) -> Result<f64> {
        ask(py, || match self.shared.try_lock() {
            Ok(mut moments) => moments.rate(order),
            Err(_) => RemovedMoments::new(self.noise_multiplier, self.steps).rate(order),
        })
    }
}

#[pymethods]
impl AllocationLaw {
    /// Makes the law for a pair of laws of one step.
    #[new]
    #[pyo3(signature = (step, steps, spacing, is_upper, most, /))]
    fn new(py: Python<'_>, step: Spec, steps: u64, spacing: f64, is_upper: bool, most: usize) -> Result<Self> {
        let rounding = if is_upper { Rounding::Up } else { Rounding::Down };
        let pair = pairs(&[step])?.swap_remove(0);
        found(ask(py, || Allocation::new(&*pair, steps, spacing, rounding, most))?)
    }

    #[pyo3(signature = (other, most, /))]
    fn joined(&self, py: Python<'_>, other: &Self, most: usize) -> Result<Self> {
        found(ask(py, || self.0.and(&other.0, most))?)
    }

    #[pyo3(signature = (count, most, /))]
    fn repeated(&self, py: Python<'_>, count: u64, most: usize) -> Result<Self> {
        found(ask(py, || self.0.repeated(count, most))?)
    }

    #[pyo3(signature = ())]
    fn masses<'py>(&self, py: Python<'py>) -> PyResult<(i64, Bound<'py, PyArray1<f64>>, f64, f64)> {
        let (first, masses, zero, infinity) = self.0.masses();
        Ok((first, array(py, masses)?, zero, infinity))
    }
}

/// The law of two of so many steps, before it is on losses; see `ferrodp.accounting._laws.allocated`.
#[pyclass(frozen, module = "ferrodp._native")]
struct AllocationCouples(Couples);

#[pymethods]
impl AllocationCouples {
    /// Makes the law for a pair of laws of one step.
    #[new]
    #[pyo3(signature = (step, steps, most, /))]
    fn new(py: Python<'_>, step: Spec, steps: u64, most: usize) -> Result<Self> {
        let pair = pairs(&[step])?.swap_remove(0);
        let too_many = || PyMemoryError::new_err("the law would need too many nodes");
        Ok(ask(py, || Couples::new(&*pair, steps, most))?.map(Self).ok_or_else(too_many)?)
    }

    /// Whether the law of this step is likely to be tighter than that of two blocks.
    #[staticmethod]
    #[pyo3(signature = (step, steps, /))]
    fn suits(py: Python<'_>, step: Spec, steps: u64) -> Result<bool> {
        let pair = pairs(&[step])?.swap_remove(0);
        ask(py, || Couples::suits(&*pair, steps))
    }

    #[pyo3(signature = (spacing, most, /))]
    fn law(&self, py: Python<'_>, spacing: f64, most: usize) -> Result<AllocationLaw> {
        found(ask(py, || self.0.on(spacing, most))?)
    }
}

fn found(law: Option<Allocation>) -> Result<AllocationLaw> {
    let too_many = || PyMemoryError::new_err("the law would need too many nodes");
    Ok(law.map(|law| AllocationLaw(Arc::new(law))).ok_or_else(too_many)?)
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AllocationCouples>()?;
    module.add_class::<AllocationLaw>()?;
    module.add_class::<AllocationMoments>()?;
    module.add_class::<AllocationRemoved>()?;
    module.add_function(wrap_pyfunction!(rdp_fixed_size, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_fixed_size_ternary, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_truncated_poisson_gaussian, module)?)?;
    module.add_function(wrap_pyfunction!(truncated_delta, module)?)?;
    module.add_function(wrap_pyfunction!(truncated_sample, module)?)?;
    module.add_function(wrap_pyfunction!(allocation_counted_lower, module)?)?;
    module.add_function(wrap_pyfunction!(allocation_two_bins, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_fixed_size_gaussian_replace_one, module)?)
}
