//! Elementary functions with a stated error, the same on every machine.
//!
//! Each is `libm`'s, a port of musl's, whose authors claim errors below one unit in the last place (1.5 for `erf` and
//! `erfc`). What is relied upon is four times that: [`RELATIVE_ERROR`]. A test compares them with mpmath at some 10⁵ points and fails where a
//! quarter of the allowance, for `erfc` a half, is used up.
//!
//! [`lanes`] has exponentials of fixed-size arrays, [`normal`] and [`twofold`] tails of relative accuracy, `gauss_legendre` the
//! quadrature with its error.

pub(crate) mod gauss_legendre;
pub mod lanes;
pub mod normal;
pub mod twofold;

/// Unit roundoff: one rounded operation is within this, relatively, of the exact one.
pub const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// Bound on the relative error of every function in this module, where the result is a normal number.
pub const RELATIVE_ERROR: f64 = 8.0 * UNIT;

pub use libm::{atan2, cos, erf, erfc, exp, expm1, lgamma, log as ln, log1p as ln_1p, sin, sincos, sqrt};

/// Returns the next float above `x`.
#[must_use]
pub fn up(x: f64) -> f64 {
    x.next_up()
}

/// Returns the next float below `x`.
#[must_use]
pub fn down(x: f64) -> f64 {
    x.next_down()
}
