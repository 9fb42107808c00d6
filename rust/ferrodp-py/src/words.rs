//! Words of fixed vocabularies, read once at the door: the rest of the binding sees values of the core.

use ferrodp_accounting::contour::Quantity;
use ferrodp_accounting::types::Direction;
use ferrodp_core::choice::select;
use ferrodp_core::clip::Order;
use ferrodp_core::secure::residues::Modulus;
use ferrodp_core::{discrete, sample};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

/// Makes a type of argument out of words and what they stand for.
macro_rules! vocabulary {
    ($(#[doc = $doc:literal] $name:ident($type:ty), $called:literal: $($word:literal => $value:expr),+;)+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $type);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                match &*object.extract::<PyBackedStr>()? {
                    $($word => Ok(Self($value)),)+
                    _ => Err(PyValueError::new_err(concat!($called, " must be one of", $(" '", $word, "'"),+))),
                }
            }
        }
    )+};
}

vocabulary! {
    /// A continuous law.
    LawArg(sample::Law), "law": "gaussian" => sample::Law::Gaussian, "laplace" => sample::Law::Laplace;
    /// A discrete law.
    DiscreteLawArg(discrete::Law), "law": "gaussian" => discrete::Law::Gaussian, "laplace" => discrete::Law::Laplace;
    /// The noise of a choice.
    ChoiceArg(select::Noise), "noise": "gumbel" => select::Noise::Gumbel,
        "exponential" => select::Noise::Exponential, "laplace" => select::Noise::Laplace;
    /// A norm.
    OrderArg(Order), "order": "1" => Order::One, "2" => Order::Two, "inf" => Order::Infinity;
    /// Which neighbor comes first.
    DirectionArg(Direction), "direction": "remove" => Direction::Remove, "add" => Direction::Add;
    /// Which neighbor comes first, or the worse of both.
    DirectionsArg(Option<Direction>), "direction": "remove" => Some(Direction::Remove),
        "add" => Some(Direction::Add), "worst" => None;
    /// What is asked of a composition.
    QuantityArg(Quantity), "quantity": "epsilon" => Quantity::Epsilon, "delta" => Quantity::Delta,
        "log_delta" => Quantity::LogDelta;
    /// What residues are taken of.
    ModulusArg(Modulus), "modulus": "uint64" => Modulus::TwoTo64, "field64" => Modulus::Field64,
        "field128" => Modulus::Field128;
}
