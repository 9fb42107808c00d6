//! Exponentials for fixed-size arrays: plain arithmetic that compilers turn into vector instructions, the same bits on all.
//!
//! Nothing here is fused and nothing comes from the platform: every lane does the same additions and multiplications on
//! every machine. The functions are inlined into the shells of the kernels that use them; see `rdp::sum`.

mod exponential;

pub use exponential::{CENTERED_ERROR, EXPONENTIAL_ERROR, MIN_ARGUMENT, Split, centered_exponential};
