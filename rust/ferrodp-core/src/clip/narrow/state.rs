//! What rows of few columns are added by, and what came of them.

use crate::clip::columns::{Mask, PANEL};
use crate::clip::turn::MOST;

/// What integers of a row may be at most.
#[derive(Clone, Copy)]
pub(in crate::clip) struct Certified {
    /// `C/g`.
    pub(in crate::clip) steps: f64,
    /// A floating-point sum of squares that proves that the exact one is at most `(C/g)²`.
    pub(in crate::clip) products: f64,
    /// `(C/g)²`, rounded down.
    pub(in crate::clip) integers: u64,
}

/// What came of the panels so far.
#[repr(align(64))]
pub(super) struct State {
    pub(super) within: Mask,
    pub(super) certified: Mask,
    /// Rows within the bound that the plain comparisons left open.
    pub(super) settled: u64,
    /// Whether squares of most rows of the last panel left the trusted range.
    pub(super) are_far: bool,
    /// Whether there were rows at the bound in the last panel with such.
    pub(super) has_ties: bool,
    /// Whether certificates of rows near the bound were sums of integers in the last panel with such.
    pub(super) needs_integers: bool,
    /// Integers of each column, with [`SHIFT`](crate::clip::quantize::SHIFT).
    pub(super) sums: [[u64; PANEL / 2]; MOST],
}
