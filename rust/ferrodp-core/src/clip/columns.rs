//! Columns whose elements lie one after the other, read for several rows at once.

use core::marker::PhantomData;
use core::ops::Range;

use super::element::Element;
use crate::dispatch::{prefetch_second, prefetch_second_all};

/// Rows that are computed with at once.
pub(super) const PANEL: usize = 16;

/// A number for each of them.
pub(super) type Vector = [f64; PANEL];

/// A bit pattern for each row: all bits for yes, none for no. Loops over these and numbers become vectors, over `bool` not.
pub(super) type Mask = [u64; PANEL];

/// Returns the bits for yes or no.
#[inline(always)]
pub(super) const fn mask(yes: bool) -> u64 {
    0_u64.wrapping_sub(yes as u64)
}

/// Bytes of the caches that cores share, or less.
pub(super) const CACHED_BYTES: usize = 1 << 24;

/// Columns of some rows, or of some of a leaf's columns those that were brought.
///
/// Rows are read in panels. The last one ends with the last row, so it may begin with rows of the panel before.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, T> {
    start: *const T,
    /// Bytes from a column to the next.
    stride: isize,
    rows: usize,
    /// Whether bytes of elements are in the other order.
    swapped: bool,
    /// Whether they come from memory, so that what is read next is asked for.
    fetched: bool,
    pub(super) width: usize,
    elements: PhantomData<&'a T>,
}

/// What is fetched next, column by column: the order in which it lies in memory, whatever the one in which it is read.
pub(super) struct Next {
    column: usize,
    panel: usize,
    panels: usize,
}

impl Next {
    /// Begins with a column of so many panels.
    pub(super) const fn new(column: usize, panels: usize) -> Self {
        Self { column, panel: 0, panels }
    }
}

impl<'a, T: Element> Columns<'a, T> {
    /// Returns columns with so many elements at `start` and at every multiple of `stride` bytes from there, `width` times.
    ///
    /// # Safety
    /// All these elements are initialized and can be read during `'a`. They need not be aligned.
    pub(super) unsafe fn new(start: *const T, stride: isize, rows: usize, width: usize) -> Self {
        Self { start, stride, rows, swapped: false, fetched: false, width, elements: PhantomData }
    }

    /// The same with the bytes of all elements in the other order, if that is said: only native kernels read them so.
    pub(super) fn swapped(self, swapped: bool) -> Self {
        Self { swapped, ..self }
    }

    /// The same, asked for before they are read, if that is said: of what a cache holds, that costs a tenth.
    pub(super) fn fetched(self, fetched: bool) -> Self {
        Self { fetched, ..self }
    }

    /// Returns some of these columns.
    pub(super) fn of(self, columns: Range<usize>) -> Self {
        assert!(columns.start <= columns.end && columns.end <= self.width, "some of these columns");
        Self { start: self.address(columns.start, 0), width: columns.len(), ..self }
    }

    /// Whether these are the rows of so many panels.
    pub(super) fn fill(&self, panels: usize) -> bool {
        self.rows >= PANEL && panels == self.rows.div_ceil(PANEL)
    }

    /// Whether they come from memory, so that what is read next is asked for.
    #[inline(always)]
    pub(super) fn is_fetched(&self) -> bool {
        self.fetched
    }

    /// How many columns have so many bytes, or more; none if they are not asked for.
    #[inline(always)]
    pub(super) fn how_many(&self, bytes: usize) -> usize {
        if self.fetched { bytes.div_ceil(self.rows * size_of::<T>()) } else { 0 }
    }

    /// Whether no cache holds as much memory.
    pub(super) fn are_large(&self) -> bool {
        self.fetched && self.stride.unsigned_abs().saturating_mul(self.width) > CACHED_BYTES
    }

    /// Returns the first row of a panel.
    #[inline(always)]
    fn row(&self, panel: usize) -> usize {
        (panel * PANEL).min(self.rows - PANEL)
    }

    /// Returns where the elements of a column from row `first` on are, or would be.
    #[inline(always)]
    fn address(&self, column: usize, first: usize) -> *const T {
        self.start.wrapping_byte_offset((column as isize).wrapping_mul(self.stride)).wrapping_add(first)
    }

    /// Asks for the elements of a panel, or for where it would be, if these come from memory.
    #[inline(always)]
    pub(super) fn fetch_panel(&self, column: usize, panel: usize) {
        if self.fetched {
            prefetch_second_all(self.address(column, panel * PANEL), PANEL);
        }
    }

    /// Asks for the last element of a column as well: unless columns begin where cache lines do, no panel begins in its line.
    #[inline(always)]
    pub(super) fn fetch_end(&self, column: usize) {
        if self.fetched {
            prefetch_second(self.address(column, self.rows - 1));
        }
    }

    /// Asks for what is next.
    #[inline(always)]
    pub(super) fn fetch(&self, next: &mut Next) {
        self.fetch_panel(next.column, next.panel);
        next.panel += 1;
        if next.panel == next.panels {
            *next = Next::new(next.column + 1, next.panels);
        }
    }

    /// Returns the elements of a panel in a column, to a kernel that is native or not.
    ///
    /// # Safety
    /// The column is one of these, and the panel one of those that they [`fill`](Columns::fill).
    #[inline(always)]
    pub(super) unsafe fn load(&self, column: usize, panel: usize, is_native: bool) -> [T; PANEL] {
        debug_assert!(column < self.width && panel < self.rows.div_ceil(PANEL));
        debug_assert!(is_native || !self.swapped, "only native kernels turn bytes");
        // SAFETY: elements of these rows of a column.
        let mut elements = unsafe { self.address(column, self.row(panel)).cast::<[T; PANEL]>().read_unaligned() };
        // mutant: columns-in-the-other-byte-order-read-as-they-are
        if is_native && self.swapped {
            for x in &mut elements {
                *x = x.swapped();
            }
        }
        elements
    }
}
