//! Random allocation: each record takes part in one of `T` steps, drawn uniformly and kept secret; balls into bins.
//!
//! # The pair
//! Steps have Gaussian noise, `s` = sensitivity over standard deviation. Let `v_t`, `|v_t| ≤ 1`, be what the record adds to step
//! `t` in units of the sensitivity; it may depend on what was released before. Without the record (law `Q`) the noise along
//! `v_t` is a fresh standard normal `z_t`, given the past. The likelihood ratio of taking part in step `t` is `r_t = exp(s|v_t|z_t −
//! s²|v_t|²/2)`, and that of the whole round is the mean, `r̄ = (r_1 + … + r_T)/T`. Both curves are means of convex functions of it:
//!
//! ```text
//! remove: δ(ε) = E_Q[(r̄ − e^ε)₊],   add: δ(ε) = E_Q[(1 − e^ε·r̄)₊].
//! ```
//!
//! Given the past, `r_t` is largest in convex order at `|v_t| = 1`, where its law does not depend on the past. Going backward
//! from the last step, every convex mean is largest if all `|v_t| = 1`: the `r_t` are then independent lognormals, of mean 1.
//! This is the dominating pair of Feldman, Shenfeld, "Privacy amplification by random allocation", NeurIPS 2025 (in
//! arXiv:2502.08202v4 Theorem 3.1), and of Chua et al., "Balls-and-bins sampling for DP-SGD", AISTATS 2025, Theorem 1.
//!
//! All of this holds for other releases as well: where a pair `(P, Q)` of laws dominates a step, P having the record, `r_t` is largest
//! in convex order if it has the law of `dP/dQ` under Q, and where a step attains the pair, or dominates it, the round dominates that
//! of the pair. What P has where Q has nothing is a mean that `r̄` lacks.
//!
//! `two` answers for `T = 2` by one integral; `grid` has two discrete laws that enclose that of `r̄` in convex order, for any
//! `T`; `couples` has one for two selected steps; `counted` bounds from below rounds with several steps a record; `moment` bounds the Rényi divergence of the second
//! direction, `removed` that of the first.

mod counted;
mod couples;
mod grid;
mod moment;
mod removed;
mod two;

pub use counted::lower as counted_lower;
pub use couples::Couples;
pub use grid::Allocation;
pub use moment::AddedMoments;
pub use removed::RemovedMoments;
pub use two::two_bins;
