//! The one error of the crate: data, not strings, and never a private value.

use core::fmt;

/// Why a call was refused. Nothing was drawn, changed or written when one of these comes back.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A parameter lies outside its domain.
    Parameter {
        /// The parameter's public name.
        name: &'static str,
        /// What was given.
        value: f64,
        /// The accepted values, in words.
        accepted: String,
    },
    /// Lengths that have to agree do not.
    Length {
        /// What was measured.
        name: &'static str,
        /// The length that was given.
        given: usize,
        /// The length that is needed.
        needed: usize,
    },
    /// An accumulator cannot take so many rows without risking an overflow.
    Capacity {
        /// Rows that it would hold.
        rows: u64,
        /// Rows that it can hold.
        limit: u64,
    },
    /// Two accumulators were built for different clip norms or grids.
    Incompatible {
        /// What differs.
        what: &'static str,
    },
    /// Serialized bytes are not a state that this version wrote.
    Malformed {
        /// What is wrong with them.
        what: &'static str,
    },
    /// There is no answer for what was described.
    Unsupported {
        /// What there is not.
        what: &'static str,
    },
    /// The array changed while it was being read, so what was checked is not what was summed.
    Mutated,
    /// The operating system gave no random bytes.
    Entropy(getrandom::Error),
    /// There is no memory for what the arguments ask for.
    OutOfMemory,
}

impl Error {
    /// A [`Error::Parameter`] with the accepted values in words.
    pub fn parameter(name: &'static str, value: f64, accepted: impl Into<String>) -> Self {
        Self::Parameter { name, value, accepted: accepted.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter { name, value, accepted } => write!(f, "{name} must be {accepted}, got {value:?}"),
            Self::Length { name, given, needed } => write!(f, "{name} must have length {needed}, got {given}"),
            Self::Capacity { rows, limit } => {
                write!(f, "the sum holds at most {limit} rows without risk of overflow, this would make {rows}")
            }
            Self::Incompatible { what } => write!(f, "accumulators differ in {what}"),
            Self::Malformed { what } => write!(f, "not an accumulator state: {what}"),
            Self::Unsupported { what } => write!(f, "there is no {what}"),
            Self::Mutated => write!(f, "the array was changed by another thread while it was being read"),
            Self::Entropy(cause) => write!(f, "the operating system gave no random bytes: {cause}"),
            Self::OutOfMemory => write!(f, "there is no memory for a result of this size"),
        }
    }
}

impl core::error::Error for Error {}

impl From<getrandom::Error> for Error {
    fn from(cause: getrandom::Error) -> Self {
        Self::Entropy(cause)
    }
}

impl From<std::collections::TryReserveError> for Error {
    fn from(_: std::collections::TryReserveError) -> Self {
        Self::OutOfMemory
    }
}
