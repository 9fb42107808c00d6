//! The moments `E[r^s]` of the likelihood ratio `r` of one Poisson-sampled Gaussian, with all errors: of these is `K` made.
//!
//! `ratio` is `r` on lines of the complex plane, `path` the curves along which moments are integrated, `edges` how large the
//! integrand can be beside them, `support` which nodes matter. `quadrature` adds up, `advance` goes from one τ to the next, and
//! `real_sums` are estimates on the real axis.

pub(super) mod advance;
pub(super) mod edges;
pub(super) mod path;
pub(super) mod quadrature;
pub(super) mod ratio;
pub(super) mod real_sums;
pub(super) mod support;
