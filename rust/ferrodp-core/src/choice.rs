//! Random decisions, each with exactly the stated probability.
//!
//! [`bernoulli`]: coins with probability `e^−γ`; [`respond`]: randomized response; [`select`]: one of many candidates, and
//! thresholds; [`subset`]: Poisson samples, samples of fixed size, random allocations.

pub mod bernoulli;
pub mod respond;
pub mod select;
pub mod subset;
