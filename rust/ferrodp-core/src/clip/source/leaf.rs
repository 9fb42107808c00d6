//! Rows as the caller has them: one or more leaves, each a matrix of any type, byte order, alignment and strides.

use core::marker::PhantomData;

use super::element::{Element, Form};
use super::plain::Piece;
use crate::error::Error;

/// Some columns of every row.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    pub(super) form: Form,
    /// Whether the bytes of elements are in the other order.
    pub(super) swapped: bool,
    pub(super) start: *const u8,
    /// Bytes from a row to the next.
    pub(super) row: isize,
    /// How many columns the last axis has, and bytes from one to the next.
    pub(super) columns: usize,
    pub(super) column: isize,
    /// Lengths and byte strides of the axes before it, slowest first; none has one element, and none continues the next.
    pub(super) outer: Vec<(usize, isize)>,
    width: usize,
    bytes: PhantomData<&'a u8>,
}

// SAFETY: it is a shared reference to bytes.
unsafe impl Send for Leaf<'_> {}
// SAFETY: as above.
unsafe impl Sync for Leaf<'_> {}

impl<'a> Leaf<'a> {
    /// Returns rows that begin at `start` and at multiples of `row` bytes from there, each with axes of these lengths and
    /// strides in bytes, the slowest first.
    ///
    /// # Safety
    /// For as many rows as a batch is made with, every element that these numbers lead to is initialized and can be read
    /// during `'a`. It need not be aligned.
    #[must_use]
    pub unsafe fn new(
        form: Form,
        swapped: bool,
        start: *const u8,
        row: isize,
        axes: impl IntoIterator<Item = (usize, isize)>,
    ) -> Self {
        let mut outer = Vec::new();
        let mut last: Option<(usize, isize)> = None;
        for (len, stride) in axes.into_iter().filter(|axis| axis.0 != 1) {
            match last {
                Some(axis) if axis.1 == stride.wrapping_mul(len as isize) => last = Some((axis.0 * len, stride)),
                Some(axis) => {
                    outer.push(axis);
                    last = Some((len, stride));
                }
                None => last = Some((len, stride)),
            }
        }
        let (columns, column) = last.unwrap_or((1, form.size() as isize));
        let width = outer.iter().fold(columns, |width, axis| width.saturating_mul(axis.0));
        Self { form, swapped, start, row, columns, column, outer, width, bytes: PhantomData }
    }

    /// Returns rows of so many elements that follow one another, of which a batch must have no more than there are.
    fn of<T: Element>(data: &'a [T], width: usize) -> Self {
        let size = size_of::<T>() as isize;
        // SAFETY: these are the elements of the slice, if a batch has as many rows: `Rows::new` checks that.
        unsafe { Self::new(T::FORM, false, data.as_ptr().cast(), size.wrapping_mul(width as isize), [(width, size)]) }
    }

    /// Returns rows that are as many elements apart, and so are their columns.
    ///
    /// # Safety
    /// As for [`Leaf::new`].
    #[cfg(test)]
    pub(in crate::clip) unsafe fn strided<T: Element>(
        start: *const T,
        row: isize,
        (width, column): (usize, isize),
    ) -> Self {
        let size = size_of::<T>() as isize;
        // SAFETY: the caller's promise.
        unsafe { Self::new(T::FORM, false, start.cast(), size * row, [(width, size * column)]) }
    }

    /// Elements in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    pub(in crate::clip) fn is_by_columns(&self) -> bool {
        self.columns > 1 && self.row.unsigned_abs() < self.column.unsigned_abs()
    }

    /// Whether the elements are aligned numbers of type `T` in this machine's byte order.
    fn holds<T: Element>(&self) -> bool {
        self.form == T::FORM && !self.swapped && self.start.cast::<T>().is_aligned()
    }

    /// Returns all elements of so many rows, if they follow one another as numbers of type `T`.
    fn contiguous<T: Element>(&self, count: usize) -> Option<&'a [T]> {
        if self.width == 0 || count == 0 {
            return Some(&[]);
        }
        let size = size_of::<T>() as isize;
        let is_row = self.outer.is_empty() && (self.column == size || self.columns == 1);
        let follows = count == 1 || self.row == size.wrapping_mul(self.width as isize);
        // SAFETY: the maker of the leaf promised that its elements can be read; they follow one another.
        (self.holds::<T>() && is_row && follows)
            .then(|| unsafe { core::slice::from_raw_parts(self.start.cast(), count * self.width) })
    }

    /// Returns the columns of so many rows, if elements of a column follow one another as numbers of type `T`.
    fn by_columns<T: Element>(&self) -> Option<Matrix<'a, T>> {
        let size = size_of::<T>() as isize;
        let is_plain = self.holds::<T>() && self.row == size && self.outer.is_empty() && self.column % size == 0;
        is_plain.then(|| Matrix { start: self.start.cast(), row: 1, column: self.column / size, elements: PhantomData })
    }
}

/// Numbers of a matrix, equally far apart in either direction, one of which is 1.
#[derive(Clone, Copy)]
pub(in crate::clip) struct Matrix<'a, T> {
    pub(in crate::clip) start: *const T,
    /// Elements from a row to the next, and from a column to the next.
    pub(in crate::clip) row: isize,
    pub(in crate::clip) column: isize,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// Returns rows of so many elements that follow one another.
    pub(in crate::clip) fn of(data: &'a [T], width: usize) -> Self {
        Self { start: data.as_ptr(), row: width as isize, column: 1, elements: PhantomData }
    }

    /// Returns the matrix from that row on.
    pub(in crate::clip) fn from(&self, row: usize) -> Self {
        Self { start: self.start.wrapping_offset(self.row.wrapping_mul(row as isize)), ..*self }
    }
}

/// A batch of rows. Row `i` is the concatenation of row `i` of every leaf.
#[derive(Clone, Debug)]
pub struct Rows<'a, T> {
    leaves: Vec<Leaf<'a>>,
    count: usize,
    width: usize,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> Rows<'a, T> {
    /// Returns `count` rows whose leaves are `(data, width)`: `data` holds `count` times `width` elements, row by row.
    ///
    /// # Errors
    /// [`Error::Length`] if some `data` has another length, [`Error::OutOfMemory`] if there is no memory for so many leaves.
    pub fn new(leaves: impl IntoIterator<Item = (&'a [T], usize)>, count: usize) -> Result<Self, Error> {
        let mut checked = Vec::new();
        for (data, width) in leaves {
            let needed = width.saturating_mul(count);
            if data.len() != needed {
                return Err(Error::Length { name: "leaf", given: data.len(), needed });
            }
            checked.try_reserve(1)?;
            checked.push(Leaf::of(data, width));
        }
        Self::of(checked, count)
    }

    /// Returns `count` rows with these leaves.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if some leaf is of doubles and `T` is not, or the other way.
    pub fn of(leaves: Vec<Leaf<'a>>, count: usize) -> Result<Self, Error> {
        let is_double = T::FORM == Form::Double;
        if leaves.iter().any(|leaf| (leaf.form == Form::Double) != is_double) {
            return Err(Error::Incompatible { what: "type" });
        }
        let width = leaves.iter().fold(0_usize, |width, leaf| width.saturating_add(leaf.width));
        Ok(Self { leaves, count, width, elements: PhantomData })
    }

    /// Returns one row in pieces.
    #[must_use]
    pub fn one(leaves: &[&'a [T]]) -> Self {
        Self::new(leaves.iter().map(|leaf| (*leaf, leaf.len())), 1).expect("one row is as long as it is")
    }

    /// How many rows there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Elements in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    pub(in crate::clip) fn leaves(&self) -> &[Leaf<'a>] {
        &self.leaves
    }

    /// Returns the leaves as matrices that follow one another in memory, if all are; `None` if there is a leaf that is not.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for so many leaves.
    pub(in crate::clip) fn pieces(&self) -> Result<Option<Vec<Piece<'a, T>>>, Error> {
        if !self.leaves.iter().all(|leaf| leaf.contiguous::<T>(self.count).is_some()) {
            return Ok(None);
        }
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(self.leaves.len())?;
        let mut offset = 0;
        for leaf in &self.leaves {
            let Some(data) = leaf.contiguous::<T>(self.count) else { return Ok(None) };
            pieces.push(Piece { data, first: 0, pitch: leaf.width, width: leaf.width, offset });
            offset += leaf.width;
        }
        Ok(Some(pieces))
    }

    /// Returns the matrix of the only leaf, if elements of its columns follow one another.
    pub(in crate::clip) fn matrix(&self) -> Option<Matrix<'a, T>> {
        let [leaf] = &self.leaves[..] else { return None };
        leaf.by_columns()
    }
}
