//! Binding of `ferrodp_accounting::contour`. See `ferrodp.accounting._solve.contour`.

use crate::error::Result;
use ferrodp_accounting::contour::{Composition, Direction, Quantity, Release, Worst, bounds, sweep, worst};
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, ndarray::Array2};
use pyo3::prelude::*;
use std::num::NonZeroUsize;

/// Numbers in a row of the results: lower, upper, whether addition is active, saddle, nodes, smoothing, three slacks.
const COLUMNS: usize = 9;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(contour_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(contour_sweep, module)?)
}

fn releases(
    noise_multipliers: &PyReadonlyArray1<'_, f64>,
    sampling_probabilities: &PyReadonlyArray1<'_, f64>,
    counts: &PyReadonlyArray1<'_, u64>,
) -> Result<Vec<Release>> {
    let (sigmas, qs, counts) = (noise_multipliers.as_array(), sampling_probabilities.as_array(), counts.as_array());
    for (name, given) in [("sampling_probabilities", qs.len()), ("counts", counts.len())] {
        if given != sigmas.len() {
            return Err(ferrodp_core::Error::Length { name, given, needed: sigmas.len() }.into());
        }
    }
    let rows = sigmas.iter().zip(qs).zip(counts);
    Ok(rows
        .map(|((&noise_multiplier, &sampling_probability), &count)| Release {
            noise_multiplier,
            sampling_probability,
            count,
        })
        .collect())
}

fn table<'py>(py: Python<'py>, rows: &[Worst]) -> Result<Bound<'py, PyArray2<f64>>> {
    let mut flat = Vec::new();
    flat.try_reserve(rows.len() * COLUMNS)?;
    for Worst { bounds, direction } in rows {
        let add = if *direction == Direction::Add { 1.0 } else { 0.0 };
        flat.extend([bounds.lower, bounds.upper, add, bounds.saddle, bounds.num_nodes as f64, bounds.smoothing]);
        flat.extend(bounds.slack);
    }
    let array = Array2::from_shape_vec((rows.len(), COLUMNS), flat).expect("rows of COLUMNS numbers");
    Ok(array.into_pyarray(py))
}

fn quantity_of(name: &str) -> Result<Quantity> {
    match name {
        "log_delta" => Ok(Quantity::LogDelta),
        "delta" => Ok(Quantity::Delta),
        "epsilon" => Ok(Quantity::Epsilon),
        _ => Err(ferrodp_core::Error::Malformed { what: "no such quantity" }.into()),
    }
}

/// Bounds on one quantity of one composition at many points: "log_delta" or "delta" at ε, or "epsilon" at ln δ; for one
/// direction, "remove" or "add", or for the "worst" of both.
#[pyfunction]
#[pyo3(signature = (quantity, direction, noise_multipliers, sampling_probabilities, counts, points, /))]
fn contour_bounds<'py>(
    py: Python<'py>,
    quantity: &str,
    direction: &str,
    noise_multipliers: PyReadonlyArray1<'py, f64>,
    sampling_probabilities: PyReadonlyArray1<'py, f64>,
    counts: PyReadonlyArray1<'py, u64>,
    points: PyReadonlyArray1<'py, f64>,
) -> Result<Bound<'py, PyArray2<f64>>> {
    let composition = Composition::new(&releases(&noise_multipliers, &sampling_probabilities, &counts)?)?;
    let quantity = quantity_of(quantity)?;
    let direction = match direction {
        "remove" => Some(Direction::Remove),
        "add" => Some(Direction::Add),
        _ => None,
    };
    let points = points.as_array().to_vec();
    let answer = |&point: &f64| match direction {
        Some(direction) => Worst { bounds: bounds(quantity, &composition, direction, point), direction },
        None => worst(quantity, &composition, point),
    };
    let rows: Vec<_> = py.detach(|| points.iter().map(answer).collect());
    table(py, &rows)
}

/// Bounds on one quantity, the worst of both directions, of many single releases, each at its own point.
#[pyfunction]
#[pyo3(signature = (quantity, noise_multipliers, sampling_probabilities, counts, points, threads, /))]
fn contour_sweep<'py>(
    py: Python<'py>,
    quantity: &str,
    noise_multipliers: PyReadonlyArray1<'py, f64>,
    sampling_probabilities: PyReadonlyArray1<'py, f64>,
    counts: PyReadonlyArray1<'py, u64>,
    points: PyReadonlyArray1<'py, f64>,
    threads: Option<NonZeroUsize>,
) -> Result<Bound<'py, PyArray2<f64>>> {
    let releases = releases(&noise_multipliers, &sampling_probabilities, &counts)?;
    let quantity = quantity_of(quantity)?;
    let points = points.as_array().to_vec();
    if points.len() != releases.len() {
        let (given, needed) = (points.len(), releases.len());
        return Err(ferrodp_core::Error::Length { name: "points", given, needed }.into());
    }
    let questions: Vec<_> = releases.into_iter().zip(points).collect();
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    let rows = py.detach(|| sweep(quantity, &questions, threads))?;
    table(py, &rows)
}
