//! Compositions on a grid: `ferrodp_accounting::pld::{query, discretize}`.

use ferrodp_accounting::contour::Quantity;
use ferrodp_accounting::memory::asked;
use ferrodp_accounting::pld::discretize::{Lower, bracket};
use ferrodp_accounting::pld::grid::Nodes;
use ferrodp_accounting::pld::law::composed;
use ferrodp_accounting::pld::many::many;
use ferrodp_accounting::pld::pair::LossPair;
use ferrodp_accounting::pld::query::{pure_epsilon, worst};
use ferrodp_accounting::pld::types::{Answer, Settings, Step};
use ferrodp_accounting::types::Question;
use ferrodp_core::Error;
use ferrodp_core::machine::memory::{gathered, room};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::ask::ask;
use super::spec::Spec;
use crate::array::{List, Numbers, room_for_pieces};
use crate::error::Result;
use crate::words::QuantityArg;

type Pairs = Vec<(Box<dyn LossPair>, u64)>;

/// Builds the pairs of every direction.
fn build(directions: &[List<(Spec, u64)>]) -> Result<Vec<Pairs>> {
    let mut built = room(directions.len())?;
    for parts in directions {
        room_for_pieces::<512>(parts.len())?;
        let mut pairs = room(parts.len())?;
        for (spec, count) in parts.iter() {
            pairs.push((asked(|| spec.0.pair())??, *count));
        }
        built.push(pairs);
    }
    Ok(built)
}

fn steps(pairs: &Pairs) -> core::result::Result<Vec<Step<'_>>, Error> {
    gathered(pairs.iter().map(|(pair, count)| Step { pair: &**pair, count: *count }))
}

/// The same of every direction.
fn all_steps(built: &[Pairs]) -> core::result::Result<Vec<Vec<Step<'_>>>, Error> {
    let mut all = room(built.len())?;
    for pairs in built {
        all.push(steps(pairs)?);
    }
    Ok(all)
}

/// Returns bounds on ε for a δ, or on δ for an ε: lower, upper, which direction, grid step, number of nodes, tilt.
#[pyfunction]
#[pyo3(signature = (directions, quantity, at, tolerance, step, limits, /))]
fn pld_bounds(
    py: Python<'_>,
    directions: List<List<(Spec, u64)>>,
    quantity: QuantityArg,
    at: f64,
    tolerance: f64,
    step: Option<f64>,
    limits: (u32, f64),
) -> Result<(f64, f64, usize, f64, usize, f64)> {
    let built = build(&directions)?;
    let question = match quantity.0 {
        Quantity::Epsilon => Question::Epsilon { delta: at },
        Quantity::Delta | Quantity::LogDelta => Question::Delta { epsilon: at },
    };
    let (log2_max_nodes, work) = limits;
    let settings = Settings { tolerance, step, log2_max_nodes, work };
    let all = all_steps(&built)?;
    let (answer, direction) = ask(py, || worst(&all, question, settings))?;
    let Answer { lower, upper, step, nodes, tilt } = answer;
    Ok((lower, upper, direction, step, nodes, tilt))
}

/// Returns the bounds alone at many points, in the order of their ε, which share compositions: for curves.
#[pyfunction]
#[pyo3(signature = (directions, quantity, points, tolerance, limits, /))]
fn pld_many<'py>(
    py: Python<'py>,
    directions: List<List<(Spec, u64)>>,
    quantity: QuantityArg,
    points: Numbers<'py>,
    tolerance: f64,
    limits: (u32, f64),
) -> Result<Bounds<'py>> {
    let built = build(&directions)?;
    let is_epsilon = quantity.0 == Quantity::Epsilon;
    let question =
        |&at: &f64| if is_epsilon { Question::Epsilon { delta: at } } else { Question::Delta { epsilon: at } };
    let questions: Vec<Question> = gathered(points.iter().map(question))?;
    let (log2_max_nodes, work) = limits;
    let settings = Settings { tolerance, step: None, log2_max_nodes, work };
    let all = all_steps(&built)?;
    let found = ask(py, || many(&all, &questions, settings))?;
    let (lower, upper) = (gathered(found.iter().map(|pair| pair.0))?, gathered(found.iter().map(|pair| pair.1))?);
    Ok((lower.into_pyarray(py), upper.into_pyarray(py)))
}

/// Lower and upper bounds.
type Bounds<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Returns bounds on the ε of a pure guarantee of compositions: lower, upper.
#[pyfunction]
#[pyo3(signature = (directions, /))]
fn pld_pure_epsilon(directions: List<List<(Spec, u64)>>) -> Result<(f64, f64)> {
    let built = build(&directions)?;
    let all = all_steps(&built)?;
    let each =
        || all.iter().map(|steps| pure_epsilon(steps)).fold((0.0_f64, 0.0_f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    Ok(asked(each)?)
}

/// Laws on a grid: loss of the first node, masses of the upper and of the lower law.
type Laws<'py> = (f64, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Returns the upper and the lower law of one pair: with nodes at whole multiples of `step` over a range, or, without one,
/// where atoms get nodes, cut where less than `tail` lies beyond. Then, of both, the mass of +∞.
#[pyfunction]
#[pyo3(signature = (spec, step, tail, range, /))]
fn pld_laws(
    py: Python<'_>,
    spec: Spec,
    step: f64,
    tail: f64,
    range: Option<(f64, f64)>,
) -> Result<(Laws<'_>, (f64, f64))> {
    let pair = asked(|| spec.0.pair())??;
    let nodes = match range {
        Some((low, high)) => Nodes::at_multiples(step, low, high),
        None => Nodes::over(&*pair, step, tail, tail),
    };
    if nodes.last - nodes.first > MAX_LAW_NODES {
        return Err(Error::parameter("value_discretization_interval", step, "so large that 2^24 nodes suffice").into());
    }
    let both = ask(py, || bracket(&*pair, nodes, Lower::Merged))?;
    let infinity = (both.upper.infinity, both.lower.infinity);
    let start = nodes.loss(nodes.first);
    Ok(((start, both.upper.p.into_pyarray(py), both.lower.p.into_pyarray(py)), infinity))
}

/// Most nodes of a law that is handed over.
const MAX_LAW_NODES: i64 = 1 << 24;

/// Returns the same for a composition, and a bound on the norm of the rounding errors.
#[pyfunction]
#[pyo3(signature = (parts, step, tail, log2_max_nodes, /))]
fn pld_composed_laws(
    py: Python<'_>,
    parts: List<(Spec, u64)>,
    step: f64,
    tail: f64,
    log2_max_nodes: u32,
) -> Result<(Laws<'_>, (f64, f64), f64)> {
    let pairs = build(&[parts])?.pop().unwrap_or_default();
    let steps = steps(&pairs)?;
    let law = ask(py, || composed(&steps, step, tail, log2_max_nodes))??;
    Ok(((law.start, law.upper.into_pyarray(py), law.lower.into_pyarray(py)), law.infinity, law.noise))
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pld_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(pld_composed_laws, module)?)?;
    module.add_function(wrap_pyfunction!(pld_many, module)?)?;
    module.add_function(wrap_pyfunction!(pld_laws, module)?)?;
    module.add_function(wrap_pyfunction!(pld_pure_epsilon, module)?)
}
