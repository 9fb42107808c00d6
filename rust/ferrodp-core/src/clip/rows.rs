//! Rows as they lie in memory: one or more leaves, each a matrix, row by row or with strides.

use core::marker::PhantomData;
use core::ops::Range;

use super::element::Element;
use super::scattered::{Run, Scattered, Spot};
use crate::error::Error;

/// The least columns of rows with gaps between them that are turned where they lie: shorter ones are sooner copied.
const PITCHED: usize = 8;

/// A batch of rows. Row `i` is the concatenation of row `i` of every leaf, or of row `i` from the end, if all leaves lie backwards.
#[derive(Clone, Debug)]
pub struct Rows<'a, T> {
    leaves: Vec<Piece<'a, T>>,
    count: usize,
    width: usize,
}

/// Some columns of every row, as they are given.
#[derive(Clone, Debug)]
pub enum Leaf<'a, T> {
    /// Row by row, and so many elements a row.
    Plain(&'a [T], usize),
    /// Anywhere else.
    Strided(Strided<'a, T>),
}

/// Columns whose elements do not lie one after the other.
#[derive(Clone, Debug)]
pub struct Strided<'a, T> {
    pub(super) start: *const T,
    /// Elements from a row to the next.
    pub(super) row: isize,
    /// Lengths and strides of the axes of a row, slowest first; none has one element, and none continues the next.
    pub(super) axes: Vec<(usize, isize)>,
    elements: PhantomData<&'a T>,
}

// SAFETY: it is a shared reference to elements.
unsafe impl<T: Sync> Send for Strided<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Strided<'_, T> {}

impl<'a, T: Element> Strided<'a, T> {
    /// Returns rows that begin at `start` and at multiples of `row` elements from there, each with axes of these lengths
    /// and strides, the slowest first.
    ///
    /// # Safety
    /// For as many rows as a batch is made with, every element that these numbers lead to is aligned, initialized and can
    /// be read during `'a`.
    #[must_use]
    pub unsafe fn new(start: *const T, row: isize, axes: impl IntoIterator<Item = (usize, isize)>) -> Self {
        Self { start, row, axes: merged(axes), elements: PhantomData }
    }

    fn width(&self) -> usize {
        self.axes.iter().fold(1, |width, axis| width.saturating_mul(axis.0))
    }

    /// Whether panels of few columns are sooner turned where they lie than brought to lie one after the other first.
    pub(super) fn turns_in_place(&self) -> bool {
        match self.axes[..] {
            _ if self.row == 1 => true,
            [(width, 1 | -1)] => self.row == width as isize || width >= PITCHED,
            _ => false,
        }
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    pub(super) fn lies_by_columns(&self) -> bool {
        self.axes.iter().all(|axis| axis.1.unsigned_abs() > self.row.unsigned_abs())
    }
}

/// Returns axes without those of one element, and as one those that continue each other.
pub(super) fn merged(axes: impl IntoIterator<Item = (usize, isize)>) -> Vec<(usize, isize)> {
    let mut merged: Vec<(usize, isize)> = Vec::new();
    for (len, stride) in axes {
        if len == 1 {
            continue;
        }
        match merged.last_mut() {
            Some(last) if last.1 == stride.wrapping_mul(len as isize) => *last = (last.0 * len, stride),
            _ => merged.push((len, stride)),
        }
    }
    merged
}

/// Where rows lie, or would, that come next.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub(super) start: *const u8,
    /// Bytes from a row to the next, and from a column to the next.
    pub(super) row: isize,
    pub(super) column: isize,
}

impl Ahead {
    /// These columns and rows further.
    #[inline(always)]
    pub(super) fn at(self, row: usize, column: usize) -> *const u8 {
        let (rows, columns) = (self.row.wrapping_mul(row as isize), self.column.wrapping_mul(column as isize));
        self.start.wrapping_offset(rows).wrapping_offset(columns)
    }
}

/// Some columns of every row.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a, T> {
    /// All elements, row by row; nothing where there are strides.
    data: &'a [T],
    strided: Option<Strided<'a, T>>,
    pub(super) width: usize,
    /// The index of its first column among all columns.
    pub(super) offset: usize,
}

impl<'a, T: Element> Rows<'a, T> {
    /// Returns `count` rows whose leaves are `(data, width)`: `data` holds `count` times `width` elements, row by row.
    ///
    /// # Errors
    /// If some `data` has another length.
    pub fn new(leaves: impl IntoIterator<Item = (&'a [T], usize)>, count: usize) -> Result<Self, Error> {
        Self::of(leaves.into_iter().map(|(data, width)| Leaf::Plain(data, width)), count)
    }

    /// Returns `count` rows with these leaves.
    ///
    /// # Errors
    /// If the elements of a plain one are not that many rows.
    pub fn of(leaves: impl IntoIterator<Item = Leaf<'a, T>>, count: usize) -> Result<Self, Error> {
        let mut offset = 0;
        let mut checked = Vec::new();
        for leaf in leaves {
            let (data, width, strided) = match leaf {
                Leaf::Plain(data, width) => (data, width, None),
                Leaf::Strided(strided) => (&[][..], strided.width(), Some(strided)),
            };
            let needed = width.saturating_mul(count);
            if strided.is_none() && data.len() != needed {
                return Err(Error::Length { name: "leaf", given: data.len(), needed });
            }
            checked.push(Piece { data, strided, width, offset });
            offset += width;
        }
        turn_round(&mut checked, count);
        Ok(Self { leaves: checked, count, width: offset })
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

    pub(super) fn leaves(&self) -> &[Piece<'a, T>] {
        &self.leaves
    }

    /// Whether every leaf lies row by row.
    pub(super) fn is_plain(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.strided.is_none())
    }

    /// Returns where the leaves of rows are that are best gathered, and how they lie.
    pub(super) fn spots(&self) -> Option<(Vec<*const ()>, Vec<Run>)> {
        if !Scattered::<T>::suits(self.width, self.leaves.len()) {
            return None;
        }
        let (mut starts, mut runs) = (Vec::with_capacity(self.leaves.len()), Vec::new());
        for leaf in &self.leaves {
            let Spot { start, row, column } = leaf.spot()?;
            starts.push(start);
            Run::extend(&mut runs, Run { leaves: 1, width: leaf.width, row, column });
        }
        Some((starts, runs))
    }

    /// Returns row `index` of plain leaves, leaf by leaf.
    pub(super) fn row(&self, index: usize) -> impl Iterator<Item = &'a [T]> + Clone {
        self.leaves.iter().map(move |leaf| leaf.rows(index..index + 1))
    }
}

/// Begins with the last row where all leaves lie backwards: a sum does not depend on the order of rows.
fn turn_round<T: Element>(leaves: &mut [Piece<'_, T>], count: usize) {
    let lies_backwards = |leaf: &Piece<'_, T>| leaf.strided.as_ref().is_some_and(|strided| strided.row < 0);
    if count == 0 || !leaves.iter().all(|leaf| leaf.width == 0 || lies_backwards(leaf)) {
        return;
    }
    for leaf in leaves {
        let Some(strided) = &mut leaf.strided else { continue };
        strided.start = strided.start.wrapping_offset((count as isize - 1).wrapping_mul(strided.row));
        strided.row = strided.row.wrapping_neg();
    }
}

impl<'a, T: Element> Piece<'a, T> {
    /// Returns rows of so many elements that follow each other.
    pub(super) const fn plain(data: &'a [T], width: usize) -> Self {
        Self { data, strided: None, width, offset: 0 }
    }

    /// Returns all rows of a plain leaf, one after the other.
    pub(super) fn all(&self) -> &'a [T] {
        self.data
    }

    /// Returns where this row of a plain leaf begins, or would.
    pub(super) fn from(&self, row: usize) -> *const T {
        self.data.as_ptr().wrapping_add(row * self.width)
    }

    /// Returns where this row of a plain leaf and those after it lie, or would.
    pub(super) fn ahead(&self, row: usize) -> Ahead {
        let size = size_of::<T>() as isize;
        Ahead { start: self.from(row).cast(), row: size.wrapping_mul(self.width as isize), column: size }
    }

    /// Returns these rows of a plain leaf, as far as there are such.
    pub(super) fn rows(&self, range: Range<usize>) -> &'a [T] {
        let rows = self.data.len().checked_div(self.width).unwrap_or(0);
        &self.data[range.start.min(rows) * self.width..range.end.min(rows) * self.width]
    }

    /// Returns where its elements lie if the columns of a row are equally far apart.
    fn spot(&self) -> Option<Spot> {
        let Some(strided) = &self.strided else {
            return Some(Spot { start: self.data.as_ptr().cast(), row: self.width as isize, column: 1 });
        };
        let column = match strided.axes[..] {
            [] => 1,
            [(_, stride)] => stride,
            _ => return None,
        };
        Some(Spot { start: strided.start.cast(), row: strided.row, column })
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    pub(super) fn lies_by_columns(&self) -> bool {
        self.strided.as_ref().map_or(self.width <= 1, Strided::lies_by_columns)
    }

    /// Returns where its elements lie.
    pub(super) fn strides(&self) -> Strided<'a, T> {
        let plain = || {
            // SAFETY: these are the elements of the slice.
            unsafe { Strided::new(self.data.as_ptr(), self.width as isize, [(self.width, 1)]) }
        };
        self.strided.clone().unwrap_or_else(plain)
    }
}
