//! Numbers of several hundred bits whose rounding has a direction, for bounds that are published.
//!
//! [`Real`] is a binary floating-point number of `64·N` bits with an exponent of 64 bits; [`Interval`] is all reals between two
//! of them. Every operation on intervals returns a superset of the exact result, so no result needs an analysis of
//! its rounding errors: they show in its width.

mod elementary;
mod interval;
mod mills;
mod real;

pub use interval::Interval;
pub use real::Real;
