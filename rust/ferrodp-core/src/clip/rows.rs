//! Rows as they lie in memory: one or more leaves, each a row-major matrix.

use core::ops::Range;

use super::element::Element;
use crate::error::Error;

/// A batch of rows. Row `i` is the concatenation of row `i` of every leaf.
#[derive(Clone, Debug)]
pub struct Rows<'a, T> {
    leaves: Vec<Leaf<'a, T>>,
    count: usize,
    width: usize,
}

/// Some columns of every row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a, T> {
    data: &'a [T],
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
        let mut offset = 0;
        let mut checked = Vec::new();
        for (data, width) in leaves {
            let needed = width.saturating_mul(count);
            if data.len() != needed {
                return Err(Error::Length { name: "leaf", given: data.len(), needed });
            }
            checked.push(Leaf { data, width, offset });
            offset += width;
        }
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

    pub(super) fn leaves(&self) -> &[Leaf<'a, T>] {
        &self.leaves
    }

    /// Returns row `index`, leaf by leaf.
    pub(super) fn row(&self, index: usize) -> impl Iterator<Item = &'a [T]> + Clone {
        self.leaves.iter().map(move |leaf| leaf.rows(index..index + 1))
    }
}

impl<'a, T> Leaf<'a, T> {
    /// Returns all rows of the leaf, one after the other.
    pub(super) fn all(&self) -> &'a [T] {
        self.data
    }

    /// Returns these rows of the leaf, as far as there are such.
    pub(super) fn rows(&self, range: Range<usize>) -> &'a [T] {
        let rows = self.data.len().checked_div(self.width).unwrap_or(0);
        &self.data[range.start.min(rows) * self.width..range.end.min(rows) * self.width]
    }
}
