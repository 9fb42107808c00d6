//! What rows of few columns are added by, and what came of them.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use crate::clip::turn::{ROWS, Turned};

/// Sums of a column that are kept apart: rows this far from each other share one.
pub(super) const SUMS: usize = ROWS / 4;

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
    pub(super) within: Turned<u64>,
    pub(super) certified: Turned<u64>,
    /// Rows within the bound that the plain comparisons left open.
    pub(super) settled: u64,
    /// Panels whose integers were added.
    pub(super) panels: u64,
    /// Whether squares of most rows of the last panel left the trusted range.
    pub(super) are_far: bool,
    /// Whether rows near the bound are best told by sums of twice the precision, and nothing else, in the next panel.
    pub(super) is_near: bool,
    /// Whether there were rows at the bound in the last panel with such.
    pub(super) has_ties: bool,
    /// Whether all rows near the bound had one element in the last panel with such.
    pub(super) has_singles: bool,
    /// Whether certificates of rows near the bound were sums of integers in the last panel with such.
    pub(super) needs_integers: bool,
    /// Integers of each column of rows of up to four, with [`SHIFT`](crate::clip::quantize::SHIFT).
    pub(super) few: [[u64; SUMS]; 4],
}

impl State {
    /// Whether the next panel of `f64` is looked at for rows that are far from the bound, or near.
    pub(super) const fn is_special(&self) -> bool {
        self.are_far || self.is_near || self.has_singles
    }
}

/// Adds the integers of a column, as the bits of numbers with [`SHIFT`](crate::clip::quantize::SHIFT).
#[inline(always)]
pub(super) fn add(sums: &mut [u64; SUMS], integers: &Turned<f64>) {
    for r in 0..SUMS {
        let lower = integers[r].to_bits().wrapping_add(integers[r + SUMS].to_bits());
        let upper = integers[r + 2 * SUMS].to_bits().wrapping_add(integers[r + 3 * SUMS].to_bits());
        sums[r] = sums[r].wrapping_add(lower.wrapping_add(upper));
    }
}

/// Adds the integers of a column themselves.
#[inline(always)]
pub(super) fn add_integers(sums: &mut [u64; SUMS], integers: &[i64; ROWS]) {
    for r in 0..SUMS {
        let lower = integers[r].wrapping_add(integers[r + SUMS]);
        let upper = integers[r + 2 * SUMS].wrapping_add(integers[r + 3 * SUMS]);
        sums[r] = sums[r].wrapping_add(lower.wrapping_add(upper).cast_unsigned());
    }
}
