//! Choosing one of many candidates; see `ferrodp.mechanisms.selection`.

use ferrodp_core::choice::select::{NoisyThreshold, Rate, Runs, choose, choose_run};
use ferrodp_core::machine::fork;
use ferrodp_core::math::integer::Integer;
use numpy::PyArrayDyn;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::{self, Integers, read};
use crate::error::{Error, Result};
use crate::isa;
use crate::permit::KeyArg;
use crate::words::ChoiceArg;

/// Returns the index of the chosen candidate; `integers` hold the utilities that no float denotes, in order.
#[pyfunction]
#[pyo3(signature = (utilities, noise, epsilon, sensitivity, factor, key, integers=Integers::default(), /))]
#[allow(clippy::too_many_arguments, reason = "one flat call, named on the Python side")]
fn choose_candidate(
    py: Python<'_>,
    utilities: &Bound<'_, PyArrayDyn<f64>>,
    noise: ChoiceArg,
    epsilon: f64,
    sensitivity: f64,
    factor: u8,
    key: KeyArg<'_>,
    integers: Integers<'_>,
) -> Result<usize> {
    let rate = Rate::new(epsilon, sensitivity, factor)?;
    let isa = isa::active()?;
    let utilities = read(utilities)?;
    let slice = utilities.as_slice()?;
    if slice.is_empty() {
        return Err(PyValueError::new_err("utilities must not be empty").into());
    }
    let integers = array::integers(&integers)?;
    if integers.last().is_some_and(|(place, _)| *place >= slice.len()) || !integers.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(PyValueError::new_err("integers must be at places of utilities, in order").into());
    }
    let key = key.draw(py)?;
    Ok(py.detach(|| choose(noise.0, rate, isa, &key, slice, &integers))?)
}

/// Returns the chosen run of equally useful candidates, and the place of the candidate in it.
///
/// The first `permuted` runs take part as in permute-and-flip, the others as in the exponential mechanism, their candidates
/// as `2^−unit` each.
#[pyfunction]
#[pyo3(signature = (utilities, counts, permuted, unit, epsilon, sensitivity, factor, key, /))]
#[allow(clippy::too_many_arguments, reason = "one flat call, named on the Python side")]
fn choose_run_of_candidates(
    py: Python<'_>,
    utilities: &Bound<'_, PyArrayDyn<f64>>,
    counts: &Bound<'_, PyArrayDyn<u64>>,
    permuted: usize,
    unit: u8,
    epsilon: f64,
    sensitivity: f64,
    factor: u8,
    key: KeyArg<'_>,
) -> Result<(usize, u64)> {
    let rate = Rate::new(epsilon, sensitivity, factor)?;
    let isa = isa::active()?;
    let (utilities, counts) = (read(utilities)?, read(counts)?);
    let runs = Runs { utilities: utilities.as_slice()?, counts: counts.as_slice()?, permuted, unit };
    if runs.counts.len() != runs.utilities.len() || runs.counts.iter().all(|&count| count == 0) || unit > 63 {
        return Err(PyValueError::new_err("counts must be one for each utility, not all 0, and unit at most 63").into());
    }
    let key = key.draw(py)?;
    Ok(py.detach(|| choose_run(rate, isa, &key, runs))?)
}

/// A threshold plus Laplace noise that is drawn once, for one process; there is no way to see, copy or save it.
#[pyclass(frozen, module = "ferrodp._native", name = "NoisyThreshold")]
struct Threshold {
    noisy: NoisyThreshold,
    generation: u64,
}

#[pymethods]
impl Threshold {
    #[new]
    #[pyo3(signature = (threshold, threshold_scale, query_scale, key, /))]
    fn new(py: Python<'_>, threshold: f64, threshold_scale: f64, query_scale: f64, key: KeyArg<'_>) -> Result<Self> {
        // mutant: ticket-armed-before-threshold-looked
        NoisyThreshold::check(threshold, threshold_scale, query_scale)?;
        let (isa, key) = (isa::active()?, key.draw(py)?);
        let noisy = NoisyThreshold::new(threshold, threshold_scale, query_scale, isa, &key)?;
        Ok(Self { noisy, generation: fork::generation() })
    }

    /// Whether this is the process that made the object, not a child that inherited a copy of it.
    #[getter]
    fn is_own(&self) -> bool {
        // mutant: threshold-noise-serves-forked-child-as-well
        self.generation == fork::generation()
    }

    /// Whether `value` plus noise of its own is at or above the noisy threshold; `integer` holds it where no float does.
    #[pyo3(signature = (value, key, integer=None, /))]
    fn is_reached(
        &self,
        py: Python<'_>,
        value: f64,
        key: KeyArg<'_>,
        integer: Option<(bool, Bound<'_, PyBytes>)>,
    ) -> Result<bool> {
        if !self.is_own() {
            return Err(Error::state(
                "a noisy threshold cannot be used in a forked child: its noise would serve twice",
            ));
        }
        let key = key.draw(py)?;
        Ok(match integer {
            Some((negative, bytes)) => {
                self.noisy.is_reached_by(&Integer::from_le_bytes(negative, bytes.as_bytes()), &key)
            }
            None => self.noisy.is_reached(value, &key),
        })
    }
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Threshold>()?;
    module.add_function(wrap_pyfunction!(choose_run_of_candidates, module)?)?;
    module.add_function(wrap_pyfunction!(choose_candidate, module)?)
}
