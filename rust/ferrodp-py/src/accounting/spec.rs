//! Mechanisms as Python names them: a tuple, its tag first, such as `("poisson_sampled", 0.01, ("gaussian", 1.1))`.
//!
//! Tags are those of the events' JSON where an event describes the same mechanism.

use ferrodp_accounting::mechanism::Mechanism;
use ferrodp_accounting::memory::asked;
use ferrodp_accounting::pld::pair::LossPair;
use ferrodp_core::machine::memory::{gathered, room};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyTuple;

use super::allocated::AllocationLaw;
use crate::array::{List, room_for_pieces};
use crate::error::{Error, Result};

/// A [`Mechanism`] out of a tuple.
pub(crate) struct Spec(pub(crate) Mechanism);

impl<'py> FromPyObject<'_, 'py> for Spec {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let tuple = object.cast::<PyTuple>()?;
        let tag: PyBackedStr = tuple.get_item(0)?.extract()?;
        let number = |index| -> PyResult<f64> { tuple.get_item(index)?.extract() };
        let list = |index| -> PyResult<Vec<f64>> { Ok(tuple.get_item(index)?.extract::<List<f64>>()?.0) };
        let inner = |index| -> PyResult<Box<Mechanism>> { Ok(Box::new(tuple.get_item(index)?.extract::<Self>()?.0)) };
        Ok(Self(match &*tag {
            "gaussian" => Mechanism::Gaussian(number(1)?),
            "laplace" => Mechanism::Laplace(number(1)?),
            "discrete_gaussian" => Mechanism::DiscreteGaussian(number(1)?, number(2)?, number(3)?),
            "discrete_laplace" => Mechanism::DiscreteLaplace(number(1)?, tuple.get_item(2)?.extract()?),
            "randomized_response" => Mechanism::RandomizedResponse(number(1)?, number(2)?),
            "randomized_response_or_uniform" => Mechanism::RandomizedResponseOrUniform(number(1)?, number(2)?),
            "epsilon_delta" => Mechanism::EpsilonDelta(number(1)?, number(2)?),
            "exponential_mechanism" => Mechanism::ExponentialMechanism(number(1)?),
            "zcdp" => Mechanism::Zcdp(number(1)?),
            "mixture_of_gaussians" => Mechanism::MixtureOfGaussians(number(1)?, list(2)?, list(3)?),
            "masses" => {
                let error = if tuple.len() > 3 { number(3)? } else { 0.0 };
                Mechanism::Masses(list(1)?, list(2)?, error)
            }
            "antipodal_gaussian" => Mechanism::AntipodalGaussian(number(1)?, number(2)?),
            "poisson_sampled" => Mechanism::PoissonSampled(number(1)?, inner(2)?),
            "fixed_size_sampled" => Mechanism::FixedSizeSampled(number(1)?, inner(2)?),
            "public_coin" => {
                let parts: List<Self> = tuple.get_item(2)?.extract()?;
                Mechanism::PublicCoin(list(1)?, gathered(parts.0.into_iter().map(|part| part.0)).map_err(Error::from)?)
            }
            "allocated" => tuple.get_item(1)?.cast::<AllocationLaw>()?.get().mechanism(),
            "reversed" => Mechanism::Reversed(inner(1)?),
            _ => return Err(PyValueError::new_err(format!("no mechanism is called {tag:?}"))),
        }))
    }
}

/// Returns the pairs of laws of mechanisms.
pub(crate) fn pairs(specs: &[Spec]) -> Result<Vec<Box<dyn LossPair>>> {
    room_for_pieces::<512>(specs.len())?;
    let mut pairs = room(specs.len())?;
    for spec in specs {
        pairs.push(asked(|| spec.0.pair())??);
    }
    Ok(pairs)
}
