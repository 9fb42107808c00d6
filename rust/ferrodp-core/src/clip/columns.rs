//! Columns whose elements lie one after the other, read for several rows at once.

use core::marker::PhantomData;

use super::element::Element;
use crate::dispatch::prefetch_second_all;

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

/// How many columns before it is added a column is fetched.
pub(super) const AHEAD: usize = 16;

/// Columns of some rows.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, T> {
    start: *const T,
    /// Elements from a column to the next.
    stride: isize,
    /// Elements of a column that can be read: all rows, and perhaps some more.
    pub(super) readable: usize,
    pub(super) width: usize,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> Columns<'a, T> {
    /// Returns columns with `readable` elements at `start` and at every multiple of `stride` from there, `width` times.
    ///
    /// # Safety
    /// All these elements are aligned, initialized and can be read during `'a`.
    pub(super) unsafe fn new(start: *const T, stride: isize, readable: usize, width: usize) -> Self {
        Self { start, stride, readable, width, elements: PhantomData }
    }

    /// Returns the columns in a buffer that [`super::foreign::columns`] filled, `pitch` elements from one to the next.
    pub(super) fn gathered(buffer: &'a [T], pitch: usize, width: usize) -> Self {
        assert!(buffer.len() >= width * pitch, "the buffer holds all columns");
        Self { start: buffer.as_ptr(), stride: pitch as isize, readable: pitch, width, elements: PhantomData }
    }

    /// Returns where the elements of a column from row `first` on are, or would be.
    #[inline(always)]
    fn address(&self, column: usize, first: usize) -> *const T {
        self.start.wrapping_offset((column as isize).wrapping_mul(self.stride)).wrapping_add(first)
    }

    /// Asks for the elements of these rows.
    #[inline(always)]
    pub(super) fn fetch(&self, column: usize, first: usize) {
        prefetch_second_all(self.address(column, first), PANEL);
    }

    /// Returns the elements of rows `first..first + PANEL` of a column.
    ///
    /// # Safety
    /// The column is one of these, and the rows are readable.
    #[inline(always)]
    pub(super) unsafe fn load(&self, column: usize, first: usize) -> [T; PANEL] {
        debug_assert!(column < self.width && first + PANEL <= self.readable);
        // SAFETY: `readable` elements from a column's start can be read, and these are among them.
        unsafe { self.address(column, first).cast::<[T; PANEL]>().read() }
    }
}
