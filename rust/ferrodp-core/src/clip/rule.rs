//! What becomes of a row, given its sum of squares. No loops over matrices.

pub(super) mod clip_norm;
pub(super) mod decide;
pub(super) mod error_budget;
pub(super) mod limits;
pub(super) mod near_bound;
pub(super) mod row_decisions;
