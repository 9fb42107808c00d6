//! Rényi differential privacy: `ρ(α) = D_α(P‖Q)` of releases, as a function of the order `α`.
//!
//! [`Curve`] is the door. [`PoissonGaussian`] is the curve of a Poisson-sampled Gaussian release: `nodes` says how it is
//! computed and why the result is a bound, `sum` is the loop, `closed_sum` the finite sum that is cheaper for large orders.
//! `closed_forms`, `discrete` and `shifted` hold the others, `amplified` those of samples of any release (`moments` has their sums); `conversion` turns curves into ε and δ, `optimize` finds the order.
//! Keep open: Mironov, "Rényi differential privacy" (CSF 2017); Mironov, Talwar, Zhang, "Rényi differential privacy of the
//! sampled Gaussian mechanism" (2019).

pub mod amplified;
mod batch;
mod bounds;
mod closed_forms;
mod closed_sum;
mod conversion;
mod curve;
mod discrete;
mod mixture;
mod moments;
mod nodes;
mod optimize;
mod poisson_gaussian;
mod quadrature;
mod replaced;
mod shifted;
mod sum;
mod table;

pub use batch::{poisson_gaussian, poisson_gaussian_epsilon};
pub use conversion::{Conversion, epsilon, exp_upper, log_delta, total_variation};
pub use curve::{Curve, add, rounded_up};
pub use discrete::Discrete;
pub use nodes::Rule;
pub use optimize::{Answer, best, best_many, best_of};
pub use poisson_gaussian::PoissonGaussian;
pub use replaced::PoissonReplaced;
pub use shifted::Shifted;
