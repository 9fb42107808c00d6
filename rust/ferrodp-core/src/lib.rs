//! Exact noise, clipping and integer sums for differential privacy, on plain slices.
//!
//! A tour, bottom up:
//!
//! - [`error`] and [`params`]: the one error, and values that are checked once and trusted from then on; [`memory`]: vectors
//!   whose length an argument decides; [`hashing`]: maps that ask nobody for a random key.
//! - [`isa`]: which instruction sets this CPU has; [`blocks`]: fixed blocks of a buffer, shared among scoped threads;
//!   `dispatch`: one body for every instruction set.
//! - [`math`]: the floating-point environment, 128-bit fixed point, big integers with directed rounding.
//! - [`fork`]: which process of a family of forks this is, without asking for its id; `wiped`: memory that no child inherits.
//! - [`random`]: a keystream of AES-256 in counter mode, addressed by (stream, word), keyed afresh for every call.
//! - [`sample`]: Gaussian and Laplace noise, rounded *exactly* to a grid.
//! - [`correlated`]: noise that is correlated over the steps of a stream, rounded exactly.
//! - [`discrete`]: discrete Gaussian and Laplace noise over the integers.
//! - [`select`]: one of many candidates, with exactly the stated probabilities.
//! - [`bernoulli`]: coins with probability `e^−γ`.
//! - [`subset`]: Poisson samples, samples of fixed size, random allocations.
//! - [`respond`]: randomized response, vectorized.
//! - [`clip`]: norms, scaling, rows quantized toward zero, sums of integers; [`checksum`]: of their stored states.
//! - [`secure`]: vectors for secure aggregation: rotated, quantized, as residues of a modulus.
//!
//! The crate knows nothing of Python and does no input or output but asking the operating system for a key.
#![deny(missing_docs)]

pub mod bernoulli;
pub mod blocks;
pub mod checksum;
pub mod clip;
pub mod correlated;
pub mod discrete;
mod dispatch;
pub mod error;
pub mod fork;
pub mod hashing;
pub mod isa;
pub mod math;
pub mod memory;
pub mod params;
pub mod random;
mod residue;
pub mod respond;
pub mod sample;
pub mod secure;
pub mod select;
pub mod subset;
mod wiped;

pub use error::Error;
pub use isa::Isa;
