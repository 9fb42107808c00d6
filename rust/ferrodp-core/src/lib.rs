//! Exact noise, clipping and integer sums for differential privacy, on plain slices.
//!
//! A tour, bottom up:
//!
//! - [`error`] and [`params`]: the one error, and values that are checked once and trusted from then on.
//! - [`isa`]: which instruction sets this CPU has; `isa::dispatch`: one body for every instruction set.
//! - [`machine`]: memory, threads and forks: vectors whose length an argument decides, fixed blocks of a buffer, which process of
//!   a family of forks this is, and what erases keys after each call.
//! - [`math`]: the floating-point environment, 128-bit fixed point, big integers with directed rounding.
//! - [`random`]: a keystream of AES-256 in counter mode, addressed by (stream, word), keyed afresh for every call.
//! - [`sample`]: Gaussian and Laplace noise, rounded *exactly* to a grid.
//! - [`correlated`]: noise that is correlated over the steps of a stream, rounded exactly.
//! - [`discrete`]: discrete Gaussian and Laplace noise over the integers.
//! - [`choice`]: random decisions with exactly the stated probabilities: coins, randomized response, one of many candidates,
//!   subsets.
//! - [`clip`]: norms, scaling, rows quantized toward zero, sums of integers; [`checksum`]: of their stored states.
//! - [`units`]: pairs of a unit and a key, and which rows of a unit count.
//! - [`secure`]: vectors for secure aggregation: rotated, quantized, as residues of a modulus.
//!
//! The crate knows nothing of Python and does no input or output but asking the operating system for a key.
#![deny(missing_docs)]

pub mod checksum;
pub mod choice;
pub mod clip;
pub mod correlated;
pub mod discrete;
pub mod error;
pub mod isa;
pub mod machine;
pub mod math;
pub mod params;
pub mod random;
pub mod sample;
pub mod secure;
pub mod units;

pub use error::Error;
pub use isa::Isa;
