//! Rows that no kernel reads where they lie: numbers of 16 bits, in the other byte order, not aligned, or far apart.
//!
//! They are brought to where they lie as kernels want them: copied by [`super::gather`] if they do not follow each other, and
//! converted by [`super::convert`]. [`super::bringing`] adds them.

use core::marker::PhantomData;
use core::ops::Range;

use super::columns::Columns;
use super::coming::Spans;
use super::convert;
use super::element::{Element, Form};
#[cfg(target_arch = "x86_64")]
use super::fours::Fours;
use super::gather::{self, Lines};
use super::rows::{Ahead, Strided, merged};
use super::turn::{self, FOUR};
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;

/// Columns that are brought of every row before the next ones, where columns become rows: whole cache lines are used.
const TURNED: usize = 64;

/// Numbers of all rows that are turned where they lie before the next columns: their cache lines are used again meanwhile.
const IN_PLACE: usize = 1 << 11;

/// Some columns of every row: elements anywhere, in either byte order.
#[derive(Clone, Debug)]
pub struct Foreign<'a> {
    pub(super) form: Form,
    swapped: bool,
    start: *const u8,
    /// Bytes from a row to the next.
    pub(super) row: isize,
    /// Lengths of the axes of a row, and bytes from one to the next, slowest first; none has one element, and none
    /// continues the next.
    axes: Vec<(usize, isize)>,
    width: usize,
    bytes: PhantomData<&'a u8>,
}

// SAFETY: it is a shared reference to bytes.
unsafe impl Send for Foreign<'_> {}
// SAFETY: as above.
unsafe impl Sync for Foreign<'_> {}

impl<'a> Foreign<'a> {
    /// Returns rows that begin at `start` and at multiples of `row` bytes from there, each with axes of these lengths and
    /// strides in bytes, the slowest first.
    ///
    /// # Safety
    /// For as many rows as are added, every element that these numbers lead to can be read while this value lives. It need
    /// not be aligned.
    #[must_use]
    pub unsafe fn new(
        form: Form,
        swapped: bool,
        start: *const u8,
        row: isize,
        axes: impl IntoIterator<Item = (usize, isize)>,
    ) -> Self {
        let axes = merged(axes);
        let width = axes.iter().fold(1_usize, |width, axis| width.saturating_mul(axis.0));
        Self { form, swapped, start, row, axes, width, bytes: PhantomData }
    }

    /// Returns these rows.
    pub(super) fn of<T: Element>(leaf: &Strided<'a, T>) -> Self {
        let size = size_of::<T>() as isize;
        let axes = leaf.axes.iter().map(|(len, stride)| (*len, stride.wrapping_mul(size)));
        // SAFETY: the maker of the leaf promised that its elements can be read.
        unsafe { Self::new(T::FORM, false, leaf.start.cast(), leaf.row.wrapping_mul(size), axes) }
    }

    /// Elements in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    pub(super) fn lies_by_columns(&self) -> bool {
        self.axes.iter().all(|axis| axis.1.unsigned_abs() > self.row.unsigned_abs())
    }

    /// Whether rows have few columns, equally far apart.
    pub(super) fn is_narrow(&self) -> bool {
        (1..=turn::MOST).contains(&self.width) && self.axes.len() <= 1
    }

    /// Whether numbers of four rows, in either order of bytes, are turned where they lie: those of a column are neighbors.
    fn turns_in_place<T: Element>(&self, isa: Isa) -> bool {
        let are_neighbors = self.form == T::FORM && self.row.unsigned_abs() == size_of::<T>();
        cfg!(target_arch = "x86_64") && isa.is_native() && are_neighbors
    }

    /// Bytes from a column to the next, where all are equally far apart.
    fn step(&self) -> isize {
        self.axes.last().map_or(self.form.size() as isize, |axis| axis.1)
    }

    /// Whether many elements of a row are copied at once.
    pub(super) fn is_copied_by_rows(&self, isa: Isa) -> bool {
        self.axes.len() <= 1 && gather::copies_many(isa, self.step(), self.form.size())
    }

    /// Returns these columns from the last one on, if they are neighbors, each before the one that is read first.
    pub(super) fn mirrored(&self) -> Option<Self> {
        let (width, step) = match self.axes[..] {
            [axis] if axis.1 == -(self.form.size() as isize) => axis,
            _ => return None,
        };
        let start = self.start.wrapping_offset(step.wrapping_mul(width as isize - 1));
        Some(Self { start, axes: vec![(width, -step)], ..self.clone() })
    }

    /// Returns the columns of these rows where they lie, if kernels of that instruction set read them there: elements of a column
    /// follow each other, and all columns are equally far apart.
    pub(super) fn side_by_side<T: Element>(&self, isa: Isa, rows: &Range<usize>) -> Option<Columns<'a, T>> {
        let are_numbers = self.form == T::FORM && (!self.swapped || isa.is_native());
        if self.width > 0 && !(are_numbers && self.row == size_of::<T>() as isize && self.axes.len() <= 1) {
            return None;
        }
        let start = self.start.cast::<T>().wrapping_add(rows.start);
        // SAFETY: the maker of this value promised that these elements can be read.
        Some(unsafe { Columns::new(start, self.step(), rows.len(), self.width) }.swapped(self.swapped))
    }

    /// Returns where this row and those after it lie, or would.
    pub(super) fn ahead(&self, row: usize) -> Ahead {
        let start = self.start.wrapping_offset((row as isize).wrapping_mul(self.row));
        Ahead { start, row: self.row, column: self.step() }
    }

    /// Returns where these rows of few columns lie, or would.
    pub(super) fn spans(&self, rows: Range<usize>) -> Spans {
        let start = self.start.wrapping_offset((rows.start as isize).wrapping_mul(self.row));
        Spans::of(start, (rows.len(), self.row), (self.width, self.step()))
    }

    /// Writes these columns of these rows to `to`: columns `across` elements apart, and rows `down`, of which one is 1.
    ///
    /// # Safety
    /// There are such rows and columns, and room for them, which nothing else reads or writes meanwhile. `T` has the numbers
    /// of the form.
    pub(super) unsafe fn bring<T: Element>(
        &self,
        isa: Isa,
        rows: Range<usize>,
        columns: Range<usize>,
        to: *mut T,
        [down, across]: [usize; 2],
    ) {
        // mutant: later-blocks-of-rows-are-the-first
        let first = self.start.wrapping_offset((rows.start as isize).wrapping_mul(self.row));
        let (len, stride) = (self.axes.last().map_or(1, |axis| axis.0), self.step());
        let by_rows = across == 1 && (down > 1 || columns.len() == 1);
        // What is only copied, and from far apart, is so sooner element by element.
        let in_place = self.turns_in_place::<T>(isa);
        let is_turned = self.swapped || self.form != T::FORM || in_place;
        let many = match rows.len() {
            2.. if !(by_rows && self.lies_by_columns()) => usize::MAX,
            2.. if in_place => TURNED.max(IN_PLACE / rows.len()),
            2.. => TURNED,
            _ => usize::MAX,
        };
        let mut column = columns.start;
        while column < columns.end {
            let end = (column / len * len + len).min(columns.end).min(column.saturating_add(many));
            let offset = self.offset(column / len).wrapping_add(((column % len) as isize).wrapping_mul(stride));
            let (from, to) = (first.wrapping_offset(offset), to.wrapping_add((column - columns.start) * across));
            let count = end - column;
            if many < usize::MAX && rows.len() >= FOUR && is_turned {
                // SAFETY: the caller's promise.
                unsafe { self.turn(isa, from, [rows.len(), count], stride, to, down) };
                column = end;
                continue;
            }
            let lines = if by_rows {
                Lines { from, to, line: [self.row, down as isize], step: stride, count: rows.len(), len: count }
            } else {
                Lines { from, to, line: [stride, across as isize], step: self.row, count, len: rows.len() }
            };
            // SAFETY: the caller's promise.
            unsafe { convert::write(isa, self.form, self.swapped, lines) };
            column = end;
        }
    }

    /// Writes so many rows of so many columns, at most [`TURNED`] unless they are turned where they lie, to `to` and every `down`
    /// elements from there: four rows at a time are brought as columns, whose elements are neighbors, and the last ones with some
    /// of those before.
    ///
    /// # Safety
    /// As for [`Foreign::bring`]; there are four rows or more.
    unsafe fn turn<T: Element>(
        &self,
        isa: Isa,
        from: *const u8,
        [rows, columns]: [usize; 2],
        stride: isize,
        to: *mut T,
        down: usize,
    ) {
        let mut turned = [[T::default(); FOUR]; TURNED];
        for row in (0..rows).step_by(FOUR) {
            // mutant: last-turned-rows-are-those-before
            let row = row.min(rows - FOUR);
            let (from, to) = (from.wrapping_offset(self.row.wrapping_mul(row as isize)), to.wrapping_add(row * down));
            // Rows that lie backwards, from the last one on.
            let last = FOUR as isize - 1;
            let (first, order) = if self.row < 0 {
                (from.wrapping_offset(self.row.wrapping_mul(last)), [3, 2, 1, 0])
            } else {
                (from, [0, 1, 2, 3])
            };
            // SAFETY: the caller's promise.
            if !unsafe { self.turn_in_place(isa, first, columns, stride, order.map(|i| to.wrapping_add(i * down))) } {
                let place = turned.as_mut_ptr().cast::<T>();
                let line = [stride, FOUR as isize];
                let lines =
                    Lines { from: first, to: place, line, step: self.row.wrapping_abs(), count: columns, len: FOUR };
                // SAFETY: the caller's promise; there is room for as many columns.
                unsafe { convert::write(isa, self.form, self.swapped, lines) };
                // SAFETY: there is room for these rows, which are apart.
                let rows =
                    order.map(|i| unsafe { core::slice::from_raw_parts_mut(to.wrapping_add(i * down), columns) });
                dispatch::run(isa, AsRows { columns: &turned[..columns], rows });
            }
        }
    }

    /// Writes a few rows of numbers whose columns begin there, in either order of bytes; `false` if elements of a column are not
    /// neighbors, or this CPU cannot.
    ///
    /// # Safety
    /// As for [`Foreign::bring`].
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "the compiler turns these as well"))]
    unsafe fn turn_in_place<T: Element>(
        &self,
        isa: Isa,
        from: *const u8,
        columns: usize,
        stride: isize,
        rows: [*mut T; FOUR],
    ) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.turns_in_place::<T>(isa) {
            // SAFETY: the CPU has the instructions; the caller promised the rest.
            unsafe { Fours { from, stride, columns, rows }.turn(self.swapped) };
            return true;
        }
        false
    }

    /// Returns where in a row the run of columns with this index begins: the last axis, for one index of all others.
    fn offset(&self, mut run: usize) -> isize {
        let mut offset = 0_isize;
        for (len, stride) in self.axes.iter().rev().skip(1) {
            offset = offset.wrapping_add(((run % len) as isize).wrapping_mul(*stride));
            run /= len;
        }
        offset
    }
}

/// Writes the columns of a few rows as these rows.
struct AsRows<'a, T> {
    columns: &'a [[T; FOUR]],
    rows: [&'a mut [T]; FOUR],
}

impl<T: Element> Kernel for AsRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        turn::as_rows(self.columns, self.rows);
    }
}

/// Returns rows that lie backwards from the last one on, if all leaves lie so: a sum does not depend on their order.
pub(super) fn turned_round<'a>(leaves: &[Foreign<'a>], count: usize) -> Option<Vec<Foreign<'a>>> {
    if count == 0 || !leaves.iter().all(|leaf| leaf.row < 0) {
        return None;
    }
    let turned = leaves.iter().map(|leaf| {
        let start = leaf.start.wrapping_offset(leaf.row.wrapping_mul(count as isize - 1));
        Foreign { start, row: leaf.row.wrapping_neg(), ..leaf.clone() }
    });
    Some(turned.collect())
}

/// Returns the numbers of elements: the elements themselves, or what is written to `room`.
pub(super) fn whole<'a, T: Element>(isa: Isa, elements: &'a [T], room: &'a mut Vec<T::Whole>) -> &'a [T::Whole] {
    let (start, len) = (elements.as_ptr(), elements.len());
    if T::FORM == T::Whole::FORM {
        // SAFETY: it is the same type.
        return unsafe { core::slice::from_raw_parts(start.cast(), len) };
    }
    // SAFETY: these are the elements.
    let row = unsafe { Foreign::new(T::FORM, false, start.cast(), 0, [(len, size_of::<T>() as isize)]) };
    room.clear();
    room.reserve(len);
    // SAFETY: there is room for as many numbers, and all are written.
    unsafe {
        row.bring(isa, 0..1, 0..len, room.as_mut_ptr(), [len, 1]);
        room.set_len(len);
    }
    room
}
