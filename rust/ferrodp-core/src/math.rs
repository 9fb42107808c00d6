//! Arithmetic that proofs can lean on.

pub mod exact_sum;
pub(crate) mod exp;
pub mod float_environment;
pub mod integer;
pub(crate) mod interval;
pub(crate) mod natural;
pub(crate) mod wide;
