//! Certified δ(ε) of compositions of Poisson-sampled Gaussians, at a cost that does not grow with the number of steps.
//!
//! With `K(z) = Σ count·ln E_P[e^{zL}]` the cumulants of the composed loss and any `c > 0` (Alghamdi, Gomez, Asoodeh, Calmon, Kosut,
//! Sankar, "The saddle-point method in differential privacy", ICML 2023),
//!
//! ```text
//! δ(ε) = (1/2πi) ∫_{Re z = c} e^{K(z) − εz} / (z(z+1)) dz
//! ```
//!
//! The trapezoid rule with step `h` in `τ = Im z` *equals* `Σ_k δ(ε + 2πk/h)·e^{2πkc/h}`, by Poisson summation: every term is ≥ 0, so
//! the rule is an upper bound, and subtracting bounds on the terms `k ≠ 0` gives a lower one (`line`). What else is in the answer:
//!
//! - *quadrature*: `K` at each node is a trapezoid rule in the outcome `x`, on a path shifted to where its integrand cannot grow with
//!   τ (`moments`); its nodes advance in τ by one complex multiplication;
//! - *truncation*: the nodes left out, bounded by the modulus of `e^K`, which another shifted path shows to fall with τ;
//! - *rounding*, counted term by term, to first order in [`UNIT`](crate::functions::UNIT) with constants that leave room for the rest.
//!
//! Three things make it work everywhere, not only where many steps add up to a smooth loss:
//!
//! - *the cut* (`removal_tail`): losses of removals are heavy-tailed, so that `E e^{cL}` belongs to outcomes that never happen long before `c` is
//!   where the saddle ought to be. Outcomes beyond some B are accounted apart, exactly but for a bounded remainder;
//! - *smoothing* (`line::smoothing`): next to an atom nothing decays. Averages of the curve that bound it from above and from below have
//!   transforms that do;
//! - *one step* has a closed form (`single`).
//!
//! `answer` chooses cut and line: the saddle point makes bounds tight, but every cut, `c` and `h` makes them valid. Where the work
//! would be too much they come out wide, up to 0 and 1 for δ and 0 and ∞ for ε; they are never wrong.
//!
//! Measured over thousands of settings (σ from 0.2 to 1000, q from 1e-6 to 1, up to 10⁶ steps, δ from 1e-15 to 0.1, all log-uniform), the
//! relative width of the interval for ε has the median 1e-10 and the 99th percentile 2e-4; the widest are near-atomic, σ < ½ and
//! few hits, where the lower smoothing costs some 10³·(c/τ)² of δ with τ the last node.

mod answer;
mod complex;
mod composition;
mod invert;
mod line;
mod many;
mod moments;
mod removal_tail;
mod saddle;
mod single;
mod worst;

pub use answer::{Certified, delta_bounds, epsilon_bounds, log_delta_bounds};
pub use composition::{Composition, LEAST_SAMPLING_PROBABILITY, NOISE_MULTIPLIERS, Release};
pub use many::many;
pub use worst::{Quantity, Worst, bounds, sweep, worst};

#[cfg(test)]
mod tests;
