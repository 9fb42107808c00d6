//! Rows in many small leaves, each an array of its own somewhere in memory; [`super::gathering`] adds them.

use core::marker::PhantomData;

use super::columns::PANEL;
use super::element::Element;

/// Of leaves of up to eight columns, so many rows are measured at once.
pub(super) const ROWS: usize = 4;

/// Leaves have fewer columns than this on average.
const NARROW: usize = 64;

/// Columns of leaves, on average, from which on panels of their rows are read column by column.
const PANEL_COLUMNS: usize = 9;

/// The most bytes of a row.
const ROW_BYTES: usize = 1 << 21;

/// Where a leaf's rows are: the address of the first element, and elements from a row and from a column to the next.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// The first element of the first row.
    pub start: *const (),
    /// Elements from a row to the next.
    pub row: isize,
    /// Elements from a column to the next.
    pub column: isize,
}

/// Leaves that follow each other in a row and lie alike, each elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many there are.
    pub leaves: usize,
    /// Columns in each of them.
    pub width: usize,
    /// Elements from a row to the next.
    pub row: isize,
    /// Elements from a column to the next.
    pub column: isize,
}

impl Run {
    /// Adds so many more leaves to the runs.
    pub fn extend(runs: &mut Vec<Self>, more: Self) {
        match runs.last_mut() {
            Some(last) if *last == (Self { leaves: last.leaves, ..more }) => last.leaves += more.leaves,
            _ => runs.push(more),
        }
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    const fn lies_by_columns(&self) -> bool {
        self.column.unsigned_abs() > self.row.unsigned_abs()
    }
}

/// A batch of rows in many leaves with few columns.
#[derive(Clone, Copy, Debug)]
pub struct Scattered<'a, T> {
    /// The first element of the first row of each leaf.
    pub(super) starts: &'a [*const ()],
    pub(super) runs: &'a [Run],
    pub(super) width: usize,
    pub(super) count: usize,
    elements: PhantomData<&'a T>,
}

// SAFETY: it is a shared reference to elements.
unsafe impl<T: Sync> Send for Scattered<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Scattered<'_, T> {}

impl<'a, T: Element> Scattered<'a, T> {
    /// Returns whether rows with so many columns in so many leaves are best added in this way.
    #[must_use]
    pub const fn suits(width: usize, leaves: usize) -> bool {
        Self::fits(width, leaves) && width < leaves * NARROW
    }

    /// Returns whether there are leaves to gather, and rows are not too long for that.
    const fn fits(width: usize, leaves: usize) -> bool {
        leaves > 1 && width <= ROW_BYTES / size_of::<T>()
    }

    /// Returns `count` rows whose leaves start there, and lie as the runs say.
    ///
    /// # Panics
    /// If there are not as many starts as leaves.
    ///
    /// # Safety
    /// Every element of `count` rows of every leaf is aligned, initialized and can be read during `'a`.
    #[must_use]
    pub unsafe fn new(starts: &'a [*const ()], runs: &'a [Run], count: usize) -> Self {
        let width = runs.iter().map(|run| run.leaves * run.width).sum();
        assert_eq!(starts.len(), runs.iter().map(|run| run.leaves).sum(), "a start of every leaf");
        Self { starts, runs, width, count, elements: PhantomData }
    }

    /// Returns these rows if they are best added in this way: not if a panel of rows can be read column by column.
    ///
    /// # Safety
    /// As for [`Scattered::new`].
    #[must_use]
    pub unsafe fn suited(starts: &'a [*const ()], runs: &'a [Run], count: usize) -> Option<Self> {
        // SAFETY: the caller's promise.
        let rows = unsafe { Self::new(starts, runs, count) };
        if count >= ROWS && runs.iter().all(Run::lies_by_columns) {
            // Vectors hold some rows here as well, and panels of a few columns are not worth a call each.
            let are_neighbors = runs.iter().all(|run| run.row == 1);
            let in_panels = count >= PANEL && rows.width >= starts.len() * PANEL_COLUMNS;
            return (!in_panels && are_neighbors && Self::fits(rows.width, starts.len())).then_some(rows);
        }
        Self::suits(rows.width, starts.len()).then_some(rows)
    }

    /// Whether they are best gathered leaf by leaf, if kernels do not compute with their elements; others are said to be.
    pub(super) fn are_gathered(&self) -> bool {
        T::FORM == T::Whole::FORM || Self::suits(self.width, self.starts.len())
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

    /// Returns the leaves of a gathered row.
    pub(super) fn leaves<'b, U>(&self, row: &'b [U]) -> impl Iterator<Item = &'b [U]> + Clone {
        let widths = self.runs.iter().flat_map(|run| core::iter::repeat_n(run.width, run.leaves));
        widths.scan(row, |rest, width| {
            let (leaf, after) = rest.split_at(width);
            *rest = after;
            Some(leaf)
        })
    }
}
