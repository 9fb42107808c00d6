//! What a sample of the records, or a shuffle of their messages, adds to privacy.
//!
//! [`fixed_size`]: samples of fixed size; [`truncated`]: Poisson samples cut to a largest batch; [`allocation`]: each record in
//! one of many steps; [`shuffle`]: messages in random order. [`central_moments`] of the likelihood ratio are shared by the first
//! and the third.

pub mod allocation;
pub mod central_moments;
pub mod fixed_size;
pub mod shuffle;
pub mod truncated;
