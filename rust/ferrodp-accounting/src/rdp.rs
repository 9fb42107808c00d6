//! Rényi differential privacy: `ρ(α) = D_α(P‖Q)` of releases, as a function of the order `α`.
//!
//! [`Curve`] is the door, and `curve` has one file a kind of curve. [`PoissonGaussian`] is that of a Poisson-sampled Gaussian
//! release: `quadrature::nodes` says how it is computed and why the result is a bound, `quadrature::sum` is the loop, `closed_sum`
//! the finite sum that is cheaper for large orders. `amplified` has curves of samples of any release (`moments` has their sums);
//! `conversion` turns curves into ε and δ, `optimize` finds the order.
//! Keep open: Mironov, "Rényi differential privacy" (CSF 2017); Mironov, Talwar, Zhang, "Rényi differential privacy of the
//! sampled Gaussian mechanism" (2019).

pub mod amplified;
mod batch;
mod bounds;
mod conversion;
mod curve;
mod mixture;
mod moments;
mod optimize;
mod quadrature;

pub use batch::{poisson_gaussian, poisson_gaussian_epsilon};
pub use conversion::{Conversion, epsilon, exp_upper, log_delta, total_variation};
pub use curve::discrete::Discrete;
pub use curve::poisson_gaussian::PoissonGaussian;
pub use curve::replaced::PoissonReplaced;
pub use curve::shifted::Shifted;
pub use curve::{Curve, add, rounded_up};
pub use optimize::{Answer, best, best_many, best_of};
pub use quadrature::nodes::Rule;
