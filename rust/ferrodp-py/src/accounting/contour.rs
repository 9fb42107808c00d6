//! Binding of `ferrodp_accounting::contour`. See `ferrodp.accounting._solve.contour`.

use super::ask::ask;
use crate::array::{Numbers, Vector};
use crate::error::Result;
use crate::words::{DirectionsArg, QuantityArg};
use ferrodp_accounting::contour::{Composition, Release, Worst, bounds, many, sweep, worst};
use ferrodp_accounting::memory::asked;
use ferrodp_accounting::types::Direction;
use ferrodp_core::machine::memory::gathered;
use numpy::{IntoPyArray, PyArray2, ndarray::Array2};
use pyo3::prelude::*;
use std::num::NonZeroUsize;

/// Numbers in a row of the results: lower, upper, whether addition is active, saddle, nodes, smoothing, three slacks.
const RESULT_COLUMNS: usize = 9;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(contour_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(contour_many, module)?)?;
    module.add_function(wrap_pyfunction!(contour_sweep, module)?)
}

fn releases(noise_multipliers: &[f64], sampling_probabilities: &[f64], counts: &[u64]) -> Result<Vec<Release>> {
    let needed = noise_multipliers.len();
    for (name, given) in [("sampling_probabilities", sampling_probabilities.len()), ("counts", counts.len())] {
        if given != needed {
            return Err(ferrodp_core::Error::Length { name, given, needed }.into());
        }
    }
    let rows = noise_multipliers.iter().zip(sampling_probabilities).zip(counts);
    Ok(gathered(rows.map(|((&noise_multiplier, &sampling_probability), &count)| Release {
        noise_multiplier,
        sampling_probability,
        count,
    }))?)
}

fn table<'py>(py: Python<'py>, rows: &[Worst]) -> Result<Bound<'py, PyArray2<f64>>> {
    let mut flat = Vec::new();
    flat.try_reserve(rows.len() * RESULT_COLUMNS)?;
    for Worst { bounds, direction } in rows {
        let add = if *direction == Direction::Add { 1.0 } else { 0.0 };
        flat.extend([bounds.lower, bounds.upper, add, bounds.saddle, bounds.num_nodes as f64, bounds.smoothing]);
        flat.extend(bounds.slack);
    }
    let array = Array2::from_shape_vec((rows.len(), RESULT_COLUMNS), flat).expect("rows of RESULT_COLUMNS numbers");
    Ok(array.into_pyarray(py))
}

/// Bounds on one quantity of one composition at many points: "log_delta" or "delta" at ε, or "epsilon" at ln δ; for one
/// direction, "remove" or "add", or for the "worst" of both.
#[pyfunction]
#[pyo3(signature = (quantity, direction, noise_multipliers, sampling_probabilities, counts, points, /))]
fn contour_bounds<'py>(
    py: Python<'py>,
    quantity: QuantityArg,
    direction: DirectionsArg,
    noise_multipliers: Numbers<'py>,
    sampling_probabilities: Numbers<'py>,
    counts: Vector<'py, u64>,
    points: Numbers<'py>,
) -> Result<Bound<'py, PyArray2<f64>>> {
    let releases = releases(&noise_multipliers, &sampling_probabilities, &counts)?;
    let composition = asked(|| Composition::new(&releases))??;
    let points = &*points;
    let answer = |&point: &f64| match direction.0 {
        Some(direction) => Worst { bounds: bounds(quantity.0, &composition, direction, point), direction },
        None => worst(quantity.0, &composition, point),
    };
    let rows = ask(py, || gathered(points.iter().map(answer)))??;
    table(py, &rows)
}

/// The same for the worst of both directions, with lines that many points share: for curves.
#[pyfunction]
#[pyo3(signature = (quantity, noise_multipliers, sampling_probabilities, counts, points, /))]
fn contour_many<'py>(
    py: Python<'py>,
    quantity: QuantityArg,
    noise_multipliers: Numbers<'py>,
    sampling_probabilities: Numbers<'py>,
    counts: Vector<'py, u64>,
    points: Numbers<'py>,
) -> Result<Bound<'py, PyArray2<f64>>> {
    let releases = releases(&noise_multipliers, &sampling_probabilities, &counts)?;
    let composition = asked(|| Composition::new(&releases))??;
    let points = &*points;
    let rows = ask(py, || many(quantity.0, &composition, points))?;
    table(py, &rows)
}

/// Bounds on one quantity, the worst of both directions, of many single releases, each at its own point.
#[pyfunction]
#[pyo3(signature = (quantity, noise_multipliers, sampling_probabilities, counts, points, threads, /))]
fn contour_sweep<'py>(
    py: Python<'py>,
    quantity: QuantityArg,
    noise_multipliers: Numbers<'py>,
    sampling_probabilities: Numbers<'py>,
    counts: Vector<'py, u64>,
    points: Numbers<'py>,
    threads: Option<NonZeroUsize>,
) -> Result<Bound<'py, PyArray2<f64>>> {
    let releases = releases(&noise_multipliers, &sampling_probabilities, &counts)?;
    if points.len() != releases.len() {
        let (given, needed) = (points.len(), releases.len());
        return Err(ferrodp_core::Error::Length { name: "points", given, needed }.into());
    }
    let questions = gathered(releases.into_iter().zip(points.iter().copied()))?;
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    let rows = ask(py, || sweep(quantity.0, &questions, threads))??;
    table(py, &rows)
}
