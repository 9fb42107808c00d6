//! What only the tests of proofs and of stated errors call. Compiled with the feature `testing`; the module that users install
//! has none of it.

use core::num::NonZeroUsize;

use ferrodp_accounting::certified::Interval;
use ferrodp_accounting::composition::equal;
use ferrodp_accounting::functions::lanes;
use ferrodp_accounting::functions::{self, normal, twofold::Twofold};
use ferrodp_accounting::rdp::{PoissonGaussian, PoissonReplaced, Rule};
use ferrodp_accounting::sampling::central_moments;
use ferrodp_accounting::types::Bounds;
use ferrodp_accounting::{binomial, gaussian};
use ferrodp_core::clip::{ClipNorm, GridSum, Rows};
use ferrodp_core::discrete::{Discrete, Scale};
use ferrodp_core::params::Granularity;
use ferrodp_core::random::{CIPHER_BLOCK, Key, chosen};
use ferrodp_core::sample::Noise;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::accounting::decimals::Decimals;
use crate::accounting::rdp::{Arrays, split};
use crate::accounting::spec::Spec;
use crate::array::Numbers;
use crate::error::Result;
use crate::isa;
use crate::reserve::refusals;
use crate::words::DiscreteLawArg;

/// Returns the function of that name at each point.
#[pyfunction]
#[pyo3(signature = (name, points, /))]
fn elementary(name: &str, points: Vec<f64>) -> PyResult<Vec<f64>> {
    let function: fn(f64) -> f64 = match name {
        "exp" => functions::exp,
        "expm1" => functions::expm1,
        "ln" => functions::ln,
        "ln_1p" => functions::ln_1p,
        "erf" => functions::erf,
        "erfc" => functions::erfc,
        "sin" => functions::sin,
        "cos" => functions::cos,
        "mills" => normal::mills,
        _ => return Err(PyValueError::new_err(format!("unknown function {name:?}"))),
    };
    Ok(points.into_iter().map(function).collect())
}

/// A number exactly: whether it is negative, m in hexadecimal and e, where it is ±m·2^e.
type Exactly = (bool, String, i64);

fn ends<const N: usize>(interval: Interval<N>) -> (Exactly, Exactly) {
    (interval.lower.parts(), interval.upper.parts())
}

/// Returns the function of that name of an interval, in 256 bits or 512.
#[pyfunction]
#[pyo3(signature = (name, interval, is_wide, /))]
fn certified(name: &str, interval: Decimals<8>, is_wide: bool) -> PyResult<(Exactly, Exactly)> {
    fn at<const N: usize>(name: &str, x: Interval<N>) -> PyResult<(Exactly, Exactly)> {
        Ok(ends(match name {
            "exp" => x.exp(),
            "ln" => x.ln(),
            "sqrt" => x.sqrt(),
            "one_minus_exp" => x.one_minus_exp(),
            "minus_log_one_minus" => x.minus_log_one_minus(),
            "ln_one_plus" => x.ln_one_plus(),
            "mills" => x.mills(),
            "pi" => Interval::pi(),
            _ => return Err(PyValueError::new_err(format!("unknown function {name:?}"))),
        }))
    }
    if is_wide { at(name, interval.0) } else { at::<4>(name, interval.0.converted()) }
}

/// Returns δ(ε) of the Gaussian curve, in 256 bits or 512.
#[pyfunction]
#[pyo3(signature = (epsilon, squared_mu, is_wide, /))]
fn certified_gaussian_delta(epsilon: f64, squared_mu: Decimals<8>, is_wide: bool) -> (Exactly, Exactly) {
    if is_wide {
        return ends(gaussian::delta_in::<8>(epsilon, squared_mu.0));
    }
    ends(gaussian::delta_in::<4>(epsilon, squared_mu.0))
}

/// Returns ln n!.
#[pyfunction]
#[pyo3(signature = (n, /))]
fn certified_log_factorial(n: u64) -> (Exactly, Exactly) {
    ends(binomial::log_factorial(n))
}

/// Returns P[Bin(number, probability) ≥ least].
#[pyfunction]
#[pyo3(signature = (number, probability, least, /))]
fn certified_at_least(number: u64, probability: f64, least: u64) -> (Exactly, Exactly) {
    ends(binomial::at_least_of_float(number, probability, least))
}

/// Returns δ(total) of equal randomized responses, and the error that is allowed for so many terms; without it, if not `counted`.
#[pyfunction]
#[pyo3(signature = (count, epsilon, total, counted, /))]
fn certified_equal_responses(count: u64, epsilon: f64, total: f64, counted: bool) -> (Exactly, Exactly) {
    ends(equal::delta_with(count, epsilon, total, if counted { equal::slack } else { |_| 0.0 }))
}

/// Returns E_Q[(r − 1)^l] for l up to `largest`.
#[pyfunction]
#[pyo3(signature = (noise_multiplier, largest, /))]
fn certified_central_moments(noise_multiplier: f64, largest: usize) -> Vec<(Exactly, Exactly)> {
    let found = central_moments::moments(noise_multiplier, largest);
    found.map_or(Vec::new(), |(_, central)| central.into_iter().map(ends).collect())
}

/// Returns e^c·(Φ(b) − Φ(a)).
#[pyfunction]
#[pyo3(signature = (a, b, c, /))]
fn normal_mass(a: f64, b: f64, c: f64) -> f64 {
    normal::between(Twofold::from(a), Twofold::from(b), c)
}

/// Returns eˣ − 1 − x of every element.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn centered_exponential<'py>(py: Python<'py>, x: Numbers<'py>) -> Bound<'py, PyArray1<f64>> {
    x.iter().map(|&x| lanes::centered_exponential(x)).collect::<Vec<_>>().into_pyarray(py)
}

/// Returns bounds on ρ of a Poisson-sampled Gaussian from a rule with other nodes.
#[pyfunction]
#[pyo3(signature = (noise_multiplier, sampling_probability, orders, depth, reach, /))]
fn rdp_poisson_gaussian_by_rule<'py>(
    py: Python<'py>,
    noise_multiplier: f64,
    sampling_probability: f64,
    orders: Numbers<'py>,
    depth: f64,
    reach: f64,
) -> Result<Arrays<'py>> {
    let isa = isa::active()?;
    let (orders, mut bounds) = (&*orders, vec![Bounds::ZERO; orders.len()]);
    let mut curve = PoissonGaussian::with_rule(noise_multiplier, sampling_probability, Rule { depth, reach });
    py.detach(|| curve.bounds(isa, orders, &mut bounds));
    split(py, &bounds)
}

/// Returns upper bounds on ρ under replacement from a rule with other nodes.
#[pyfunction]
#[pyo3(signature = (noise_multiplier, sampling_probability, orders, depth, reach, /))]
fn rdp_poisson_replaced_by_rule<'py>(
    py: Python<'py>,
    noise_multiplier: f64,
    sampling_probability: f64,
    orders: Numbers<'py>,
    depth: f64,
    reach: f64,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let isa = isa::active()?;
    let (orders, mut bounds) = (&*orders, vec![Bounds::ZERO; orders.len()]);
    let mut curve = PoissonReplaced::with_rule(noise_multiplier, sampling_probability, Rule { depth, reach });
    py.detach(|| curve.bounds(isa, orders, &mut bounds));
    Ok(split(py, &bounds)?.1)
}

/// Returns P-mass and Q-mass of the losses in (lower, upper].
#[pyfunction]
#[pyo3(signature = (spec, lower, upper, /))]
fn pair_mass(spec: Spec, lower: f64, upper: f64) -> Result<(f64, f64)> {
    let mass = spec.0.pair()?.mass(lower, upper);
    Ok((mass.p, mass.q))
}

/// Returns P-mass and Q-mass·e^lower of the losses in (lower, upper].
#[pyfunction]
#[pyo3(signature = (spec, lower, upper, /))]
fn pair_cell(spec: Spec, lower: f64, upper: f64) -> Result<(f64, f64)> {
    let cell = spec.0.pair()?.cell(lower, upper);
    Ok((cell.p, cell.q))
}

/// Returns what a pair says of itself: masses of ±∞, errors of masses and losses, support and lattice.
#[pyfunction]
#[pyo3(signature = (spec, /))]
#[expect(clippy::type_complexity, reason = "one tuple of floats, named in Python")]
fn pair_facts(spec: Spec) -> Result<((f64, f64), (f64, f64), (f64, f64), Option<(f64, f64)>)> {
    let pair = spec.0.pair()?;
    let infinite = (pair.infinite(), pair.negative_infinite());
    Ok((infinite, (pair.relative_error(), pair.loss_error()), pair.support(), pair.lattice()))
}

/// Returns the losses beyond which a pair has no more than `x` of P, and of Q.
#[pyfunction]
#[pyo3(signature = (spec, x, /))]
fn pair_range(spec: Spec, x: f64) -> Result<((f64, f64), (f64, f64))> {
    let pair = spec.0.pair()?;
    Ok((pair.range(x), pair.range_under_q(x)))
}

/// Returns what the envelope of a discrete law is made of: offset bits, height, counts of the body's blocks, and count, start and
/// block bits of the tail.
#[pyfunction]
#[pyo3(signature = (law, numerator, denominator, /))]
fn discrete_envelope(
    law: DiscreteLawArg,
    numerator: u64,
    denominator: u64,
) -> Result<(u32, u32, Vec<u32>, u32, u64, u32)> {
    Ok(Discrete::new(law.0, Scale::from_ratio(numerator, denominator)?).envelope())
}

/// Has keystreams of this key give these blocks, by stream and index, in the place of their own; those of other keys are as ever.
#[pyfunction]
#[pyo3(signature = (key, blocks, /))]
fn choose_words(key: [u8; 32], blocks: Vec<(u64, u64, [u8; CIPHER_BLOCK])>) {
    chosen::choose(key, blocks.into_iter().map(|(stream, index, block)| ((stream, index), block)).collect());
}

/// Ends what `choose_words` began.
#[pyfunction]
fn forget_words() {
    chosen::forget();
}

/// Returns the sums of rows whose norms are those of one reading and whose integers those of another: of an array that changed
/// while it was added. The elements of `columns` columns come row by row.
#[pyfunction]
#[pyo3(signature = (first, second, columns, clip_norm, threads, /))]
fn sums_of_changing_rows<'py>(
    py: Python<'py>,
    first: Numbers<'py>,
    second: Numbers<'py>,
    columns: usize,
    clip_norm: f64,
    threads: NonZeroUsize,
) -> Result<Bound<'py, PyArray1<i64>>> {
    let count = first.len() / columns;
    if first.len() != second.len() || count * columns != first.len() {
        return Err(PyValueError::new_err("both readings must have as many rows of so many columns").into());
    }
    let mut sum = GridSum::new(ClipNorm::new::<f64>(clip_norm)?, columns)?;
    let (first, second) = (Rows::new([(&first[..], columns)], count)?, Rows::new([(&second[..], columns)], count)?);
    sum.add_read_twice(isa::active()?, [&first, &second], threads)?;
    Ok(sum.integers()?.to_vec().into_pyarray(py))
}

/// Returns sums of integers in units of 2^`exponent` with noise on a grid of 2^`coarser`, in single precision.
#[pyfunction]
#[pyo3(signature = (sums, exponent, scale, coarser, key, /))]
fn noised_sums(
    py: Python<'_>,
    sums: Vec<i64>,
    exponent: i32,
    scale: f64,
    coarser: i32,
    key: [u8; 32],
) -> Result<Bound<'_, PyArray1<f32>>> {
    let noise = Noise::gaussian(scale, Granularity::from_exponent(coarser)?)?;
    let (mut out, one) = (vec![0.0_f32; sums.len()], NonZeroUsize::MIN);
    let unit = Granularity::from_exponent(exponent)?;
    noise.add_to_sums(isa::active()?, &Key::from_bytes(key), &sums, unit, None, &mut out, one)?;
    Ok(out.into_pyarray(py))
}

/// Counts this module's requests for at least so many bytes from 0 on; the one of that number and all later ones are refused.
#[pyfunction]
#[pyo3(signature = (first_refused, least_bytes, /))]
fn refuse_memory(first_refused: u64, least_bytes: usize) {
    refusals::begin(first_refused, least_bytes);
}

/// Returns how many requests there were since, and refuses none from now on.
#[pyfunction]
#[pyo3(signature = ())]
fn refuse_no_memory() -> u64 {
    refusals::end()
}

/// Adds `_testing` to the module, which its list of public names leaves out.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let testing = PyModule::new(module.py(), "_testing")?;
    testing.add_function(wrap_pyfunction!(elementary, &testing)?)?;
    testing.add_function(wrap_pyfunction!(normal_mass, &testing)?)?;
    testing.add_function(wrap_pyfunction!(centered_exponential, &testing)?)?;
    testing.add_function(wrap_pyfunction!(rdp_poisson_gaussian_by_rule, &testing)?)?;
    testing.add_function(wrap_pyfunction!(rdp_poisson_replaced_by_rule, &testing)?)?;
    testing.add_function(wrap_pyfunction!(pair_mass, &testing)?)?;
    testing.add_function(wrap_pyfunction!(pair_cell, &testing)?)?;
    testing.add_function(wrap_pyfunction!(pair_facts, &testing)?)?;
    testing.add_function(wrap_pyfunction!(pair_range, &testing)?)?;
    testing.add_function(wrap_pyfunction!(discrete_envelope, &testing)?)?;
    testing.add_function(wrap_pyfunction!(certified, &testing)?)?;
    testing.add_function(wrap_pyfunction!(certified_gaussian_delta, &testing)?)?;
    testing.add_function(wrap_pyfunction!(certified_log_factorial, &testing)?)?;
    testing.add_function(wrap_pyfunction!(certified_at_least, &testing)?)?;
    testing.add_function(wrap_pyfunction!(certified_equal_responses, &testing)?)?;
    testing.add_function(wrap_pyfunction!(certified_central_moments, &testing)?)?;
    testing.add_function(wrap_pyfunction!(sums_of_changing_rows, &testing)?)?;
    testing.add_function(wrap_pyfunction!(noised_sums, &testing)?)?;
    testing.add_function(wrap_pyfunction!(choose_words, &testing)?)?;
    testing.add_function(wrap_pyfunction!(forget_words, &testing)?)?;
    testing.add_function(wrap_pyfunction!(refuse_memory, &testing)?)?;
    testing.add_function(wrap_pyfunction!(refuse_no_memory, &testing)?)?;
    module.setattr("_testing", testing)
}
