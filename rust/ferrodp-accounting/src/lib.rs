//! Privacy accounting in plain Rust: what releases cost, as bounds whose rounding errors are part of the answer.
//!
//! Nothing here draws a random bit. Of `ferrodp-core` this crate uses the errors, the checked parameters, the blocks and
//! the instruction sets; it never touches `random`, `sample` or `clip`. Functions come from `libm` and from
//! [`functions`], never from the platform, so that every machine gives the same answer.

pub mod binomial;
pub mod certified;
pub mod composition;
pub mod contour;
pub mod functions;
pub mod gaussian;
pub mod mechanism;
pub mod memory;
pub mod pld;
pub mod rdp;
pub mod sampling;
pub mod types;
pub mod zcdp;
