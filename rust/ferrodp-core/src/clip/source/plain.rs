//! Matrices of numbers, row by row, that kernels read where they are.

use crate::clip::source::element::Element;

/// Some columns of every row: row `i` begins at `data[first + i · pitch]`.
#[derive(Clone, Copy, Debug)]
pub(in crate::clip) struct Piece<'a, T> {
    pub(in crate::clip) data: &'a [T],
    pub(in crate::clip) first: usize,
    /// Elements from a row to the next.
    pub(in crate::clip) pitch: usize,
    pub(in crate::clip) width: usize,
    /// The index of the first column among all columns.
    pub(in crate::clip) offset: usize,
}

impl<'a, T: Element> Piece<'a, T> {
    /// Returns rows of so many elements that follow one another.
    pub(in crate::clip) const fn plain(data: &'a [T], width: usize) -> Self {
        Self { data, first: 0, pitch: width, width, offset: 0 }
    }

    /// The index of the first element of a row.
    #[inline(always)]
    pub(in crate::clip) const fn start(&self, row: usize) -> usize {
        self.first + row * self.pitch
    }

    /// Returns a row.
    pub(in crate::clip) fn row(&self, row: usize) -> &'a [T] {
        let start = self.start(row);
        &self.data[start..start + self.width]
    }

    /// Returns where a row begins, or would.
    pub(in crate::clip) fn address(&self, row: usize) -> *const T {
        self.data.as_ptr().wrapping_add(self.start(row))
    }
}

/// Returns a row, leaf by leaf.
pub(in crate::clip) fn row<'a, 'b, T: Element>(
    pieces: &'b [Piece<'a, T>],
    row: usize,
) -> impl Iterator<Item = &'a [T]> + Clone + 'b {
    pieces.iter().map(move |piece| piece.row(row))
}
