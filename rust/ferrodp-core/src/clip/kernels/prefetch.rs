//! Memory that is prefetched little by little while other rows are computed with.
//!
//! A core waits for memory in a few places. Prefetches issued at once take all of them, and what is read from a cache next has to
//! wait until one is free.

use crate::clip::source::leaf::Matrix;
use crate::isa::dispatch::{CACHE_LINE, has_slow_l3, prefetch_second};

/// Bytes of rows from which on the next ones are prefetched: fewer are in a cache.
const MIN_PREFETCHED_BYTES: usize = 1 << 21;

/// Bytes that are prefetched before they are read, at least; and on a core that waits long for its last cache, where what is
/// prefetched farther ahead comes more slowly.
const BYTES_AHEAD: [usize; 2] = [12 << 10, 2 << 10];

/// Parts of a column to come that are prefetched with each that is transposed, measured or added: all in time, and a little sooner.
pub(super) const PARTS_PER_TRANSPOSED: usize = 3;
pub(super) const PARTS_PER_MEASURED: usize = 2;
pub(super) const PARTS_PER_ADDED: usize = 4;
const PARTS_PER_COLUMN: usize = 8;

/// Lines that some CPUs fetch together.
const LINE_PAIR_BYTES: usize = 2 * CACHE_LINE;

/// Pieces of memory, equally far apart, that are prefetched one after the other.
#[derive(Clone, Copy)]
pub(in crate::clip) struct PrefetchQueue {
    start: *const u8,
    /// Bytes from a piece to the next.
    step: isize,
    count: usize,
    lines: usize,
    /// Parts of columns that were computed with since the last piece, and how many each piece costs, in units.
    due: usize,
    cost: usize,
}

impl PrefetchQueue {
    /// Units of one part of one column.
    const UNIT: usize = 64;

    /// Nothing to prefetch.
    pub(super) const fn empty() -> Self {
        Self { start: core::ptr::null(), step: 0, count: 0, lines: 0, due: 0, cost: 1 }
    }

    /// Prefetches for as many columns as something was done with, so many parts of each.
    #[inline(always)]
    pub(super) fn issue(&mut self, columns: usize, parts: usize) {
        if self.count > 0 {
            self.issue_some(columns * parts * Self::UNIT);
        }
    }

    /// Kept out of line: it is no part of a kernel, whose registers it would take.
    #[inline(never)]
    fn issue_some(&mut self, units: usize) {
        self.due += units;
        // Loops of a few turns would be left by a branch that is not foreseen.
        match self.lines {
            1 => self.issue_lines(1),
            2 => self.issue_lines(2),
            4 => self.issue_lines(4),
            lines => self.issue_lines(lines),
        }
    }

    #[inline(always)]
    fn issue_lines(&mut self, lines: usize) {
        while self.due >= self.cost && self.count > 0 {
            for line in 0..lines {
                prefetch_second(self.start.wrapping_add(line * CACHE_LINE));
            }
            self.start = self.start.wrapping_offset(self.step);
            self.count -= 1;
            self.due -= self.cost;
        }
    }
}

/// The panels of a matrix that come some panels later.
#[derive(Clone, Copy)]
pub(super) struct PanelPrefetch {
    /// What is prefetched while the first panel is computed with.
    first: PrefetchQueue,
    /// Bytes from a panel to the next.
    panel: isize,
}

impl PanelPrefetch {
    /// Those of a matrix with so many rows and columns, a panel of `panel_rows` rows each, if they are not in a cache.
    pub(super) fn of<T>(matrix: &Matrix<'_, T>, rows: usize, panel_rows: usize, columns: usize) -> Option<Self> {
        let size = size_of::<T>();
        let bytes = panel_rows * columns * size;
        if rows / panel_rows * bytes < MIN_PREFETCHED_BYTES {
            return None;
        }
        let panels = 1 + BYTES_AHEAD[usize::from(has_slow_l3())].div_ceil(bytes);
        let row = matrix.row.wrapping_mul(size as isize);
        let start = matrix.start.cast::<u8>().wrapping_offset(row.wrapping_mul((panels * panel_rows) as isize));
        let column = matrix.column.wrapping_mul(size as isize);
        let (step, count, lines) = if matrix.row == 1 {
            // Lines that a column begins in the panel before are prefetched with that.
            (column, columns, (panel_rows * size).div_ceil(CACHE_LINE))
        } else {
            (LINE_PAIR_BYTES as isize, bytes.div_ceil(LINE_PAIR_BYTES), 2)
        };
        let cost = (columns * PARTS_PER_COLUMN * PrefetchQueue::UNIT / count.max(1)).max(1);
        let first = PrefetchQueue { start, step, count, lines, due: 0, cost };
        Some(Self { first, panel: row.wrapping_mul(panel_rows as isize) })
    }

    /// Returns what is prefetched while panel `index` is computed with.
    #[inline(always)]
    pub(super) fn queue(&self, index: usize) -> PrefetchQueue {
        PrefetchQueue { start: self.first.start.wrapping_offset(self.panel.wrapping_mul(index as isize)), ..self.first }
    }
}
