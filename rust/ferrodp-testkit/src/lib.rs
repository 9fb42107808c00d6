//! Goodness of fit for the samplers; used by tests, never shipped.
//!
//! - [`special`]: the tails of the laws that p-values come from, in `f64`, with stated accuracy.
//! - [`law`]: the laws under test, cut into bins whose probabilities are known exactly.
//! - [`tally`]: one pass over the draws; `tally::order`: what it keeps of their order.
//! - [`integers`], with its law and census: the same for the discrete laws.
//! - [`finding`]: what a test found; [`verdict`]: p-values, and Holm's correction over all of them.
//! - [`runs`]: what the p-values of all deep runs say together.
//! - [`draws`]: draws of the production path, and the keys of repeatable tests.
//! - [`bits`]: digests of outputs, which every machine has to repeat.
//! - [`timing`]: whether the time of a call says something about its noise.
//! - [`secrets`]: whether a branch or an address depends on noise in fixed time; [`secrets::memcheck`]: who is asked.

pub mod bits;
pub mod draws;
pub mod finding;
pub mod integers;
pub mod law;
pub mod runs;
pub mod secrets;
pub mod special;
pub mod tally;
pub mod timing;
pub mod verdict;
