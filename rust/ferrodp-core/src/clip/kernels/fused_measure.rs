//! Rows that are measured while those before them are added ([`super::add_rows`]): memory is read all the time, in one stream.
//!
//! What is measured is what [`super::measure`] measures, in its order.

use super::lanes::{Chunk, fold_in_halves};
use super::measure::{BLOCK_ELEMENTS, SQUARE_LANES, add_chunk, add_tail};
use crate::clip::source::element::Element;
use crate::clip::source::plain::Piece;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Kind;
use crate::isa::dispatch::{CACHE_LINE, has_slow_l3, prefetch, prefetch_second};

/// Rows that are measured while as many are added.
pub(in crate::clip) const FUSED_ROWS: usize = 4;

/// Elements that are measured in one step.
pub(in crate::clip) const FUSED_STEP: usize = 2 * SQUARE_LANES;

/// Bytes that are fetched before they are measured, of elements whose squares fit, and of others: into the first-level cache.
const FETCHED_BYTES_AHEAD: [usize; 2] = [1 << 14, 1 << 13];

/// The same where the CPU has a [slow third-level cache](has_slow_l3), into the second: what is prefetched farther ahead comes more slowly there.
const SLOW_L3_BYTES_AHEAD: usize = 3 << 10;

/// Lines of what comes then that are fetched after the last step: memory has something to do until the next one.
const LINES_AFTER_LAST_STEP: usize = 16;

/// Whether rows are sooner added while others are measured than before: where registers hold what both compute with, or memory takes
/// longer than either.
pub(in crate::clip) fn is_supported<T: Element>(isa: Isa) -> bool {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => true,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => !T::SQUARES_FIT,
        _ => false,
    }
}

/// Rows of a leaf, some of which were measured.
pub(in crate::clip) struct NextTile<'a, T> {
    /// All rows of the leaf up to the last of these.
    data: &'a [T],
    width: usize,
    /// Sums of squares of those before `row`, and of its blocks that were measured.
    totals: [f64; FUSED_ROWS],
    row: usize,
    /// How many of its columns were measured.
    column: usize,
    /// How many the block that was begun has left, and its lanes.
    left: usize,
    lanes: [f64; SQUARE_LANES],
    /// Whether it comes into the first-level cache.
    is_near: bool,
}

impl<'a, T: Element> NextTile<'a, T> {
    /// Rows from `first` on of a leaf of at least [`SQUARE_LANES`] columns.
    pub(in crate::clip) fn new(piece: &Piece<'a, T>, first: usize) -> Self {
        assert!(piece.pitch == piece.width, "rows that follow one another");
        let (data, width) = (&piece.data[..piece.start(first + FUSED_ROWS)], piece.width);
        assert!(width >= SQUARE_LANES, "as many columns as lanes");
        let (left, is_near) = (width.min(BLOCK_ELEMENTS), !has_slow_l3());
        Self { data, width, totals: [0.0; FUSED_ROWS], row: 0, column: 0, left, lanes: [0.0; SQUARE_LANES], is_near }
    }

    /// Whether all was measured.
    #[inline(always)]
    pub(in crate::clip) fn is_done(&self) -> bool {
        self.row == FUSED_ROWS
    }

    /// Returns the sums of squares, once all was measured.
    pub(in crate::clip) fn totals(&self) -> [f64; FUSED_ROWS] {
        assert!(self.is_done(), "all rows are measured");
        self.totals
    }

    /// Whether what comes later is fetched into the first-level cache.
    #[inline(always)]
    pub(in crate::clip) const fn is_near(&self) -> bool {
        self.is_near
    }

    /// How many whole steps come before the end of a block.
    #[inline(always)]
    pub(in crate::clip) fn steps(&self) -> usize {
        self.left / FUSED_STEP
    }

    /// Begins so many steps, of which there are as many: returns their elements, and the lanes that these are added to.
    #[inline(always)]
    pub(in crate::clip) fn begin(&mut self, steps: usize) -> (&'a [[T; FUSED_STEP]], [f64; SQUARE_LANES]) {
        let place = self.place();
        (self.column, self.left) = (self.column + steps * FUSED_STEP, self.left - steps * FUSED_STEP);
        (self.data[place..place + steps * FUSED_STEP].as_chunks().0, self.lanes)
    }

    /// Takes over the lanes of these steps, and fetches what comes later.
    #[inline(always)]
    pub(in crate::clip) fn end(&mut self, lanes: [f64; SQUARE_LANES]) {
        self.lanes = lanes;
        fetch_ahead(self.data.as_ptr().wrapping_add(self.place()), LINES_AFTER_LAST_STEP, self.is_near);
    }

    /// The index of what was not measured yet.
    #[inline(always)]
    fn place(&self) -> usize {
        self.data.len() - (FUSED_ROWS - self.row) * self.width + self.column
    }

    /// Measures the rest of the block.
    #[inline(always)]
    pub(in crate::clip) fn finish<const NATIVE: bool>(&mut self) {
        let len = self.left;
        let place = self.place();
        let data = &self.data[..place + len];
        let (chunks, tail) = data[place..].as_chunks::<SQUARE_LANES>();
        let mut lanes = self.lanes;
        for chunk in chunks {
            add_chunk::<T, true, NATIVE, SQUARE_LANES, false>(&mut lanes, Chunk::all(chunk), 1.0);
        }
        if !tail.is_empty() {
            add_tail::<T, true, NATIVE, SQUARE_LANES>(&mut lanes, data, tail.len(), 1.0);
        }
        self.totals[self.row] += fold_in_halves(lanes);
        // mutant: rows-measured-while-adding-keep-lanes
        self.lanes = [0.0; SQUARE_LANES];
        self.column += len;
        if self.column == self.width {
            (self.row, self.column) = (self.row + 1, 0);
        }
        self.left = (self.width - self.column).min(BLOCK_ELEMENTS);
    }
}

/// Fetches so many lines of what is measured some time after these elements.
#[inline(always)]
fn fetch_ahead<T: Element>(elements: *const T, lines: usize, is_near: bool) {
    let lines = |ahead: usize| (0..lines).map(move |line| elements.wrapping_byte_add(ahead + line * CACHE_LINE));
    if is_near {
        lines(FETCHED_BYTES_AHEAD[usize::from(!T::SQUARES_FIT)]).for_each(prefetch);
    } else {
        lines(SLOW_L3_BYTES_AHEAD).for_each(prefetch_second);
    }
}

/// Measures the elements of one step, and fetches what comes later.
#[inline(always)]
pub(in crate::clip) fn step<T: Element, const NATIVE: bool>(
    elements: &[T; FUSED_STEP],
    lanes: &mut [f64; SQUARE_LANES],
    is_near: bool,
) {
    fetch_ahead(elements.as_ptr(), FUSED_STEP * size_of::<T>() / CACHE_LINE, is_near);
    for chunk in elements.as_chunks::<SQUARE_LANES>().0 {
        add_chunk::<T, true, NATIVE, SQUARE_LANES, false>(lanes, Chunk::all(chunk), 1.0);
    }
}
