//! The Gaussian curve and zCDP: `ferrodp_accounting::{gaussian, zcdp}`. A Σ1/z² or ρ comes as two decimals, between which it lies.
//! In the place of the former may stand one noise multiplier z.

use ferrodp_accounting::gaussian::Wide;
use ferrodp_accounting::types::{Bounds, Rounding};
use ferrodp_accounting::{gaussian, zcdp};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

use super::decimals::Decimals;

fn ends(Bounds { lower, upper }: Bounds) -> (f64, f64) {
    (lower, upper)
}

/// A Σ1/z².
struct SquaredMu(Wide);

impl<'py> FromPyObject<'_, 'py> for SquaredMu {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyFloat>() {
            Ok(z) => Ok(Self(Wide::integer(1) / Wide::from(z.value()).square())),
            Err(_) => Ok(Self(object.extract::<Decimals<8>>()?.0)),
        }
    }
}

/// Returns the floats next to δ(ε), or to ln δ(ε) for ε ≥ 0.
#[pyfunction]
#[pyo3(signature = (epsilon, squared_mu, is_log, /))]
fn gaussian_delta(epsilon: f64, squared_mu: SquaredMu, is_log: bool) -> (f64, f64) {
    ends(if is_log { gaussian::log_delta(epsilon, squared_mu.0) } else { gaussian::delta(epsilon, squared_mu.0) })
}

/// Returns the floats next to the least ε ≥ 0 with δ(ε) ≤ `delta`, 0 < `delta` < 1.
#[pyfunction]
#[pyo3(signature = (delta, squared_mu, /))]
fn gaussian_epsilon(py: Python<'_>, delta: f64, squared_mu: SquaredMu) -> (f64, f64) {
    ends(py.detach(|| gaussian::epsilon(delta, squared_mu.0)))
}

/// Returns about the largest μ² with δ(ε) ≤ `delta`: a proposal.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, /))]
fn gaussian_largest_squared_mu(py: Python<'_>, epsilon: f64, delta: f64) -> f64 {
    py.detach(|| gaussian::largest_squared_mu(delta, epsilon))
}

/// Returns the least standard deviation that gives (ε, δ), or infinity.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, sensitivity, /))]
fn gaussian_standard_deviation(py: Python<'_>, epsilon: f64, delta: f64, sensitivity: f64) -> f64 {
    py.detach(|| gaussian::standard_deviation(epsilon, delta, sensitivity))
}

/// Returns whether noise of this standard deviation is proven to give (ε, δ).
#[pyfunction]
#[pyo3(signature = (sigma, epsilon, delta, sensitivity, /))]
fn gaussian_is_enough(sigma: f64, epsilon: f64, delta: f64, sensitivity: f64) -> bool {
    gaussian::is_enough(sigma, epsilon, delta, sensitivity)
}

/// Returns the μ that `count` releases about samples approach; an estimate.
#[pyfunction]
#[pyo3(signature = (noise_multiplier, sampling_probability, count, is_poisson, /))]
fn central_limit_mu(noise_multiplier: f64, sampling_probability: f64, count: u64, is_poisson: bool) -> f64 {
    gaussian::central_limit_mu(noise_multiplier, sampling_probability, count, is_poisson)
}

/// Returns an upper bound on δ(ε) of ρ-zCDP, ε ≥ 0.
#[pyfunction]
#[pyo3(signature = (rho, epsilon, /))]
fn zcdp_delta(rho: Decimals<4>, epsilon: f64) -> f64 {
    zcdp::delta(rho.0, epsilon).float(Rounding::Up)
}

/// Returns an upper bound on the ε ≥ 0 of ρ-zCDP at 0 < `delta` < 1.
#[pyfunction]
#[pyo3(signature = (rho, delta, /))]
fn zcdp_epsilon(rho: Decimals<4>, delta: f64) -> f64 {
    zcdp::epsilon(rho.0, delta)
}

/// Returns a ρ ≥ 0 for which ρ-zCDP implies (ε, δ), 0 < `delta` < 1.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, /))]
fn zcdp_rho(epsilon: f64, delta: f64) -> f64 {
    zcdp::rho(epsilon, delta)
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(central_limit_mu, module)?)?;
    module.add_function(wrap_pyfunction!(gaussian_delta, module)?)?;
    module.add_function(wrap_pyfunction!(gaussian_epsilon, module)?)?;
    module.add_function(wrap_pyfunction!(gaussian_is_enough, module)?)?;
    module.add_function(wrap_pyfunction!(gaussian_largest_squared_mu, module)?)?;
    module.add_function(wrap_pyfunction!(gaussian_standard_deviation, module)?)?;
    module.add_function(wrap_pyfunction!(zcdp_delta, module)?)?;
    module.add_function(wrap_pyfunction!(zcdp_epsilon, module)?)?;
    module.add_function(wrap_pyfunction!(zcdp_rho, module)?)
}
