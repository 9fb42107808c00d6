//! Rows of few columns, brought block by block to where they lie as the kernel that adds them wants them.
//!
//! A block stays in the nearest cache, and the kernel goes from block to block without an end.

use core::ops::Range;

use super::coming::{ALL, Coming, LYING, UNCACHED};
use super::element::Element;
use super::foreign::Foreign;
use super::narrow::lie_well;
use super::rows::Strided;
use super::turn;
use crate::dispatch::{CACHE_LINE, waits_long};
use crate::isa::Isa;

/// Bytes of rows that are brought at a time, and how many rows that are.
const BYTES: usize = 1 << 13;
const ROWS: [usize; 2] = [turn::ROWS, 4096];

/// Bytes from a row to the next from which on lines hold so few of them that reading memory takes longer than anything else.
const APART: usize = 48;

/// A cache line. Vectors that begin with one are written and read in fewer steps.
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "room for elements")] [u8; CACHE_LINE]);

/// Calls `add` with rows of few columns, brought to one place: with a leaf of none, and what puts the next ones there and tells
/// how many these are, and what comes after them, as long as there are any. All are whole panels.
pub(super) fn visit<T: Element, R>(
    isa: Isa,
    leaf: &Foreign<'_>,
    rows: Range<usize>,
    add: impl FnOnce(&Strided<'_, T>, &mut dyn FnMut() -> Option<(usize, Coming)>) -> R,
) -> R {
    let width = leaf.width();
    // Such columns are brought as they lie, and read backwards.
    let mirrored = if leaf.lies_by_columns() { None } else { leaf.mirrored() };
    let are_backwards = mirrored.is_some();
    let leaf = mirrored.as_ref().unwrap_or(leaf);
    assert!(leaf.is_narrow() && rows.len().is_multiple_of(turn::ROWS), "whole panels of rows of few columns");
    let [least, most] = ROWS;
    let is_large = rows.len() * width * size_of::<T>() >= UNCACHED;
    let pitch = (BYTES / (width * size_of::<T>()) / turn::ROWS * turn::ROWS).clamp(least, most);
    // Elements that are copied one by one are so to where those of a column follow each other.
    let apart = if leaf.is_copied_by_rows(isa) && !leaf.lies_by_columns() { [width, 1] } else { [1, pitch] };
    let mut room = Vec::<Line>::with_capacity((pitch * width * size_of::<T>()).div_ceil(CACHE_LINE));
    let place = room.as_mut_ptr().cast::<T>();
    let [row, mut column] = apart.map(usize::cast_signed);
    let mut start = place.cast_const();
    if are_backwards {
        start = start.wrapping_offset(column.wrapping_mul(width as isize - 1));
        // mutant: columns-brought-backwards-read-forwards
        column = -column;
    }
    // SAFETY: elements that `more` writes before they are read.
    let brought = unsafe { Strided::new(start, row, [(width, column)]) };
    let parts = if isa.is_wide() && lie_well(&brought, width) { LYING } else { ALL };
    // A core that waits long fetches by itself sooner what it is not asked for line by line.
    let are_apart = waits_long() && leaf.row.unsigned_abs() >= APART;
    let spans = |rows| if are_apart { leaf.spans(rows).of_pages() } else { leaf.spans(rows) };
    let mut next = rows.start;
    let mut more = || {
        let block = next..rows.end.min(next + pitch);
        next = block.end;
        if block.is_empty() {
            return None;
        }
        let count = block.len();
        // SAFETY: there is room for `pitch` rows, and nothing reads or writes there meanwhile.
        unsafe { leaf.bring(isa, block, 0..width, place, apart) };
        // These come while the others are added.
        let columns = count / turn::ROWS * width;
        Some((count, if is_large { Coming::of(spans(next..next + pitch), columns, parts) } else { Coming::nothing() }))
    };
    add(&brought, &mut more)
}
