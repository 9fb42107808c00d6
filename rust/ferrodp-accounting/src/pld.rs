//! Privacy loss distributions on a grid: single steps seen through their loss, discretized, composed, read off.
//!
//! From the question to the answer: [`pair`] is what a mechanism says of its privacy loss, [`pairs`] are the mechanisms.
//! [`query`] asks, [`many`] for curves; `task` plans with a `coarse_pair`, lays nodes ([`grid`], `task::spacing`), and refines. [`discretize`] makes of each
//! pair a law above and one below it (the latter by `merge_lower`), [`compose`] tilts and convolves them with the transform of
//! [`compose::fft`], [`read`] reads bounds off; `read::gap` is what a lower law with connected dots has to give back. Where steps are too many
//! for any grid, `chernoff` bounds them by moments. `degraded` leaves out each term of the error budget and shows that
//! bounds then fail.
//!
//! A law is an upper bound under composition if its P-mass lies, loss by loss, no lower than the truth. That is why errors
//! of masses cost no more than the loss of the mass that they concern, and nothing that grows with the number of steps.

mod chernoff;
pub mod compose;
#[cfg(test)]
mod degraded;
pub mod discretize;
pub mod grid;
pub mod law;
pub mod many;
pub mod pair;
pub mod pairs;
pub mod query;
pub mod read;
pub mod single;
mod task;
pub mod types;
