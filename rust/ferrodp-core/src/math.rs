//! Arithmetic that proofs can lean on.

pub mod float_environment;
