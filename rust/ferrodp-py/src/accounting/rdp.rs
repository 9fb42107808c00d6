//! Rényi curves; see `ferrodp.accounting.rdp`.

use core::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use ferrodp_accounting::memory::asked;
use ferrodp_accounting::rdp::amplified::{Amplified, Sample, by_public_coin};
use ferrodp_accounting::rdp::{self, Answer, Conversion, Curve};
use ferrodp_accounting::types::{Bounds, Question};
use ferrodp_core::Isa;
use ferrodp_core::machine::blocks::default_threads;
use ferrodp_core::machine::memory::{filled, gathered, room};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::ask::ask;
use super::spec::Spec;
use crate::array::{List, Numbers, array, same_length};
use crate::error::{Error, Result};
use crate::isa;

/// An order costs some hundred times what an element of an array does.
const ORDER_WEIGHT: usize = 256;

/// Lower and upper bounds.
pub(crate) type Arrays<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Returns lower and upper bounds on ρ for triples of noise multiplier, sampling probability and order, checked in Python.
#[pyfunction]
#[pyo3(signature = (noise_multipliers, sampling_probabilities, orders, threads, /))]
fn rdp_poisson_gaussian<'py>(
    py: Python<'py>,
    noise_multipliers: Numbers<'py>,
    sampling_probabilities: Numbers<'py>,
    orders: Numbers<'py>,
    threads: Option<NonZeroUsize>,
) -> Result<Arrays<'py>> {
    let isa = isa::active()?;
    let (sigma, q, orders) = (&*noise_multipliers, &*sampling_probabilities, &*orders);
    same_length(orders, &[("noise_multipliers", sigma), ("sampling_probabilities", q)])?;
    let threads = threads.unwrap_or_else(|| default_threads(orders.len().saturating_mul(ORDER_WEIGHT)));
    let bounds = ask(py, || rdp::poisson_gaussian(isa, sigma, q, orders, threads))?;
    split(py, &bounds)
}

/// Returns upper bounds on ε for quadruples of noise multiplier, sampling probability, count and δ, checked in Python.
#[pyfunction]
#[pyo3(signature = (noise_multipliers, sampling_probabilities, counts, deltas, threads, /))]
fn rdp_poisson_gaussian_epsilon<'py>(
    py: Python<'py>,
    noise_multipliers: Numbers<'py>,
    sampling_probabilities: Numbers<'py>,
    counts: Numbers<'py>,
    deltas: Numbers<'py>,
    threads: Option<NonZeroUsize>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let isa = isa::active()?;
    let (sigma, q, counts, deltas) = (&*noise_multipliers, &*sampling_probabilities, &*counts, &*deltas);
    same_length(counts, &[("noise_multipliers", sigma), ("sampling_probabilities", q), ("deltas", deltas)])?;
    let threads = threads.unwrap_or_else(|| default_threads(counts.len().saturating_mul(64 * ORDER_WEIGHT)));
    let found = ask(py, || rdp::poisson_gaussian_epsilon(isa, sigma, q, counts, deltas, threads))?;
    Ok(found.into_pyarray(py))
}

/// A Rényi curve, made from a tuple of its kind's name and its parameters, which were checked in Python.
#[pyclass(frozen, name = "RdpCurve", module = "ferrodp._native")]
struct PyCurve(Mutex<Curve>);

#[pymethods]
impl PyCurve {
    #[new]
    #[pyo3(signature = (spec, /))]
    fn new(spec: Spec) -> Result<Self> {
        Ok(Self(Mutex::new(asked(|| spec.0.curve())??)))
    }

    /// Returns lower and upper bounds on ρ at every order.
    #[pyo3(signature = (orders, /))]
    fn bounds<'py>(&self, py: Python<'py>, orders: Numbers<'py>) -> Result<Arrays<'py>> {
        let isa = isa::active()?;
        let (orders, mut bounds) = (&*orders, filled(Bounds::ZERO, orders.len())?);
        ask(py, || self.write(isa, orders, &mut bounds))?;
        split(py, &bounds)
    }

    /// Returns upper bounds on ρ at every order.
    #[pyo3(signature = (orders, /))]
    fn __call__<'py>(&self, py: Python<'py>, orders: Numbers<'py>) -> Result<Bound<'py, PyArray1<f64>>> {
        Ok(self.bounds(py, orders)?.1)
    }
}

impl PyCurve {
    /// The lock is never held while waiting for the interpreter.
    fn write(&self, isa: Isa, orders: &[f64], bounds: &mut [Bounds]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bounds(isa, orders, bounds);
    }
}

/// A curve, its multiplicity, and whether it is one of Python's.
enum Part<'py> {
    Native(Bound<'py, PyCurve>, f64),
    Foreign(Bound<'py, PyAny>, f64),
}

/// The curve of a release about a sample, from that of the release: any callable from orders to upper bounds.
#[pyclass(frozen, name = "SampledCurve", module = "ferrodp._native")]
struct PySampledCurve {
    base: Py<PyAny>,
    fresh: Amplified,
    kept: Mutex<Option<Amplified>>,
}

#[pymethods]
impl PySampledCurve {
    /// Makes the curve for a Poisson sample of a release whose loss `is_symmetric` or not, or, with `None`, of a sample of fixed size.
    #[new]
    #[pyo3(signature = (base, sampling_probability, is_symmetric, /))]
    fn new(base: Py<PyAny>, sampling_probability: f64, is_symmetric: Option<bool>) -> Self {
        let sample = is_symmetric.map_or(Sample::FixedSize, |is_symmetric| Sample::Poisson { is_symmetric });
        Self { base, fresh: Amplified::new(sample, sampling_probability), kept: Mutex::new(None) }
    }

    /// Returns upper bounds on ρ at every order. What is remembered is taken out during the call, as the base may be Python: a caller that
    /// meets another one begins afresh.
    #[pyo3(signature = (orders, /))]
    fn __call__<'py>(&self, py: Python<'py>, orders: Numbers<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = kept().take();
        let mut curve = taken.unwrap_or_else(|| self.fresh.clone());
        let base = |orders: &[f64]| -> PyResult<Vec<f64>> {
            let answer = self.base.bind(py).call1((array(py, orders)?,))?;
            let answer: PyReadonlyArray1<'_, f64> = answer.extract()?;
            if answer.as_slice()?.len() != orders.len() {
                return Err(PyValueError::new_err("a curve must give one value for each order"));
            }
            Ok(gathered(answer.as_slice()?.iter().copied()).map_err(Error::from)?)
        };
        let found = asked(|| curve.rates(&orders, base)).map_err(Error::from)??;
        *kept() = Some(curve);
        Ok(found.into_pyarray(py))
    }
}

/// Returns upper bounds on ρ of releases that happen with some probability, decided by public coins.
#[pyfunction]
#[pyo3(signature = (rho, chances, orders, /))]
fn rdp_public_coin<'py>(
    py: Python<'py>,
    rho: Numbers<'py>,
    chances: Numbers<'py>,
    orders: Numbers<'py>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    same_length(&orders, &[("rho", &rho), ("chances", &chances)])?;
    let each = |((&rho, &chance), &order): ((&f64, &f64), &f64)| by_public_coin(rho, chance, order);
    let found = gathered(rho.iter().zip(chances.iter()).zip(orders.iter()).map(each))?;
    Ok(found.into_pyarray(py))
}

/// Returns which curves are native.
fn sorted_out(parts: List<(Bound<'_, PyAny>, f64)>) -> Result<Vec<Part<'_>>> {
    let sorted = parts.0.into_iter().map(|(curve, count)| match curve.cast_into::<PyCurve>() {
        Ok(native) => Part::Native(native, count),
        Err(other) => Part::Foreign(other.into_inner(), count),
    });
    Ok(gathered(sorted)?)
}

/// Returns (value, order, ρ): the least ε at `delta`, or, if `is_delta`, the least ln δ at the ε given in its place.
///
/// `parts` are pairs of a curve, native or any callable from orders to upper bounds, and its count. Without orders, the best
/// one is searched for.
#[pyfunction]
#[pyo3(signature = (parts, value, is_delta, orders, is_classical, /))]
fn rdp_convert<'py>(
    py: Python<'py>,
    parts: List<(Bound<'py, PyAny>, f64)>,
    value: f64,
    is_delta: bool,
    orders: Option<Numbers<'py>>,
    is_classical: bool,
) -> Result<(f64, f64, f64)> {
    let isa = isa::active()?;
    let parts = sorted_out(parts)?;
    let question = question(value, is_delta);
    let conversion = if is_classical { Conversion::Classical } else { Conversion::Improved };
    let answer = match &orders {
        Some(orders) => {
            let mut rho = filled(0.0, orders.len())?;
            total(py, isa, &parts, orders, &mut rho)?;
            asked(|| rdp::best_of(question, conversion, orders, &rho))?
        }
        None => search(py, isa, &parts, |divergence| rdp::best(question, divergence))?,
    };
    Ok((answer.value, answer.order, answer.rho))
}

fn question(value: f64, is_delta: bool) -> Question {
    if is_delta { Question::Delta { epsilon: value } } else { Question::Epsilon { delta: value } }
}

/// Returns what `ask` makes of the sum of all parts, without the interpreter's lock if no part needs it.
fn search<T: Send>(
    py: Python<'_>,
    isa: Isa,
    parts: &[Part<'_>],
    question: impl FnOnce(&mut dyn FnMut(&[f64], &mut [f64]) -> PyResult<()>) -> PyResult<T> + Send,
) -> PyResult<T> {
    let mut natives = room(parts.len()).map_err(Error::from)?;
    natives.extend(parts.iter().filter_map(|part| match part {
        Part::Native(curve, count) => Some((curve.get(), *count)),
        Part::Foreign(..) => None,
    }));
    let given_up = |error: ferrodp_core::Error| PyErr::from(Error::from(error));
    match (natives.len() == parts.len()).then_some(natives) {
        Some(natives) => ask(py, || {
            question(&mut |orders, rho| {
                rho.fill(0.0);
                let mut bounds = filled(Bounds::ZERO, orders.len()).map_err(given_up)?;
                for (curve, count) in &natives {
                    curve.write(isa, orders, &mut bounds);
                    rdp::add(rho, &bounds, *count);
                }
                rdp::rounded_up(rho, natives.len());
                Ok(())
            })
        })?,
        None => asked(|| question(&mut |orders, rho| total(py, isa, parts, orders, rho))).map_err(given_up)?,
    }
}

/// Returns the values alone at many points, which share what is known of the curves: for curves.
#[pyfunction]
#[pyo3(signature = (parts, values, is_delta, orders, is_classical, /))]
fn rdp_convert_many<'py>(
    py: Python<'py>,
    parts: List<(Bound<'py, PyAny>, f64)>,
    values: Numbers<'py>,
    is_delta: bool,
    orders: Option<Numbers<'py>>,
    is_classical: bool,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let isa = isa::active()?;
    let parts = sorted_out(parts)?;
    let questions: Vec<Question> = gathered(values.iter().map(|&value| question(value, is_delta)))?;
    let conversion = if is_classical { Conversion::Classical } else { Conversion::Improved };
    let answers = match &orders {
        Some(orders) => {
            let mut rho = filled(0.0, orders.len())?;
            total(py, isa, &parts, orders, &mut rho)?;
            let orders: &[f64] = orders;
            ask(py, || gathered(questions.iter().map(|&each| rdp::best_of(each, conversion, orders, &rho))))??
        }
        None => search(py, isa, &parts, |divergence| rdp::best_many(&questions, divergence))?,
    };
    Ok(gathered(answers.iter().map(|answer: &Answer| answer.value))?.into_pyarray(py))
}

/// Writes upper bounds on the sum of all parts.
fn total(py: Python<'_>, isa: Isa, parts: &[Part<'_>], orders: &[f64], rho: &mut [f64]) -> PyResult<()> {
    rho.fill(0.0);
    let mut bounds = filled(Bounds::ZERO, orders.len()).map_err(Error::from)?;
    for part in parts {
        match part {
            Part::Native(curve, count) => {
                let curve = curve.get();
                ask(py, || curve.write(isa, orders, &mut bounds))?;
                rdp::add(rho, &bounds, *count);
            }
            Part::Foreign(curve, count) => {
                let answer = curve.call1((array(py, orders)?,))?;
                let answer: PyReadonlyArray1<'_, f64> = answer.extract()?;
                let answer = answer.as_slice()?;
                if answer.len() != orders.len() {
                    return Err(PyValueError::new_err("a curve must give one value for each order"));
                }
                for (bounds, &upper) in bounds.iter_mut().zip(answer) {
                    *bounds = Bounds { lower: 0.0, upper: if upper >= 0.0 { upper } else { f64::INFINITY } };
                }
                rdp::add(rho, &bounds, *count);
            }
        }
    }
    rdp::rounded_up(rho, parts.len());
    Ok(())
}

/// Returns upper bounds on the sum of all parts at the given orders.
#[pyfunction]
#[pyo3(signature = (parts, orders, /))]
fn rdp_total<'py>(
    py: Python<'py>,
    parts: List<(Bound<'py, PyAny>, f64)>,
    orders: Numbers<'py>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let isa = isa::active()?;
    let parts = sorted_out(parts)?;
    let mut rho = filled(0.0, orders.len())?;
    total(py, isa, &parts, &orders, &mut rho)?;
    Ok(rho.into_pyarray(py))
}

/// Returns an upper bound on ε, or on ln δ, that a divergence at one order implies; see `ferrodp.accounting.rdp.conversion`.
#[pyfunction]
#[pyo3(signature = (orders, rho, value, is_delta, is_classical, /))]
fn rdp_convert_values<'py>(
    py: Python<'py>,
    orders: Numbers<'py>,
    rho: Numbers<'py>,
    value: f64,
    is_delta: bool,
    is_classical: bool,
) -> Result<(f64, f64, f64)> {
    let question = question(value, is_delta);
    let conversion = if is_classical { Conversion::Classical } else { Conversion::Improved };
    let (orders, rho) = (&*orders, &*rho);
    same_length(orders, &[("rho", rho)])?;
    let answer = ask(py, || rdp::best_of(question, conversion, orders, rho))?;
    Ok((answer.value, answer.order, answer.rho))
}

/// Returns an upper bound on eˣ for x ≤ 0.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn rdp_exp_upper(x: f64) -> f64 {
    rdp::exp_upper(x)
}

/// Returns lower and upper bounds as two arrays.
pub(crate) fn split<'py>(py: Python<'py>, bounds: &[Bounds]) -> Result<Arrays<'py>> {
    let lower = gathered(bounds.iter().map(|bounds| bounds.lower))?;
    let upper = gathered(bounds.iter().map(|bounds| bounds.upper))?;
    Ok((lower.into_pyarray(py), upper.into_pyarray(py)))
}

/// Adds what is in this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCurve>()?;
    module.add_class::<PySampledCurve>()?;
    module.add_function(wrap_pyfunction!(rdp_public_coin, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_poisson_gaussian, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_poisson_gaussian_epsilon, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_convert, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_convert_many, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_convert_values, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_total, module)?)?;
    module.add_function(wrap_pyfunction!(rdp_exp_upper, module)?)
}
