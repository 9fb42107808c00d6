//! What any mechanisms with given (ε, 0) can lose together: randomized responses on ±ε, which dominate them (Kairouz, Oh,
//! Viswanath, "The composition theorem for differential privacy", ICML 2015, proof of Theorem 3.3; Murtagh, Vadhan, "The complexity of
//! computing the optimal composition of differential privacy", TCC 2016, Theorem 1.5).
//!
//! - [`equal`]: responses with one ε, a sum of binomial terms;
//! - [`grid`]: different ones, their losses on grids from above and from below;
//! - [`worst`]: which of them answers, and the inverse.

pub mod equal;
pub mod grid;
pub mod worst;

use crate::certified::Interval;

/// Intervals of 77 digits.
pub(crate) type I = Interval<4>;
