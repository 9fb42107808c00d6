//! Rows whose elements lie one after the other, turned so that those of a column do; and columns that lie so by themselves.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::marker::PhantomData;

use super::columns::PANEL;
use super::coming::{Coming, TURNING};
use super::element::Element;
use super::rows::Strided;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Kind;

#[cfg(target_arch = "x86_64")]
mod avx512;

/// Rows that become columns, or columns that become rows, by shuffles at once.
pub(super) const FOUR: usize = 4;

/// Rows of few columns that are computed with at once: of fewer, results wait for each other.
pub(super) const ROWS: usize = 2 * PANEL;

/// A column of these rows, or a number or a bit pattern for each.
pub(super) type Turned<T> = [T; ROWS];

/// Columns of a panel, equally far apart.
#[derive(Clone, Copy)]
pub(super) struct Sheet<'a, T> {
    start: *const T,
    /// Elements from a column to the next.
    step: isize,
    count: usize,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> Sheet<'a, T> {
    /// Returns columns that follow each other.
    pub(super) const fn of(columns: &'a [Turned<T>]) -> Self {
        Self { start: columns.as_ptr().cast(), step: ROWS as isize, count: columns.len(), elements: PhantomData }
    }

    /// Returns so many columns of `ROWS` rows of a leaf, from row `first` on, where they lie: rows follow each other.
    ///
    /// # Safety
    /// The leaf has these rows, at most one axis, and as many columns.
    pub(super) unsafe fn lying(leaf: &Strided<'a, T>, first: usize, count: usize) -> Self {
        assert!(leaf.row == 1, "columns that lie one after the other");
        let step = leaf.axes.first().map_or(1, |axis| axis.1);
        Self { start: leaf.start.wrapping_add(first), step, count, elements: PhantomData }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(super) fn column(&self, index: usize) -> &'a Turned<T> {
        assert!(index < self.count, "columns of these");
        // SAFETY: there are so many, by the promise of `lying`, which `of` keeps.
        unsafe { &*self.start.wrapping_offset((index as isize).wrapping_mul(self.step)).cast() }
    }

    /// Takes so many of them away, and returns where the first one lies, and how many bytes from there to the next. For loops
    /// that add to sums in registers: with an index, or an iterator, these go through memory.
    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) -> (*const Turned<T>, isize) {
        assert!(count <= self.count, "columns of these");
        let first = self.start;
        // mutant: columns-where-they-lie-read-again
        self.start = first.wrapping_offset((count as isize).wrapping_mul(self.step));
        self.count -= count;
        (first.cast(), self.step.wrapping_mul(size_of::<T>() as isize))
    }

    /// Returns these columns, which follow each other.
    pub(super) fn as_slice(&self) -> &'a [Turned<T>] {
        assert!(self.step == ROWS as isize, "columns that lie one after the other");
        // SAFETY: there are so many, as above.
        unsafe { core::slice::from_raw_parts(self.start.cast(), self.count) }
    }

    /// Copies them.
    pub(super) fn copy_to(&self, columns: &mut [Turned<T>]) {
        for (index, out) in columns.iter_mut().enumerate() {
            *out = *self.column(index);
        }
    }
}

/// The most columns of narrow rows, in whatever way they lie.
pub(super) const MOST: usize = 128;

/// Columns as aligned as vectors.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line<T>(Turned<T>);

/// Room for so many columns of a panel.
pub(super) struct Room<T>(Vec<Line<T>>);

impl<T: Element> Room<T> {
    pub(super) fn new(columns: usize) -> Self {
        Self(vec![Line([T::default(); ROWS]); columns])
    }

    pub(super) fn columns(&mut self) -> &mut [Turned<T>] {
        const { assert!(size_of::<Line<T>>() == size_of::<Turned<T>>(), "no space between columns") };
        // SAFETY: as many columns follow each other.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len()) }
    }

    /// Room for what [`panel`] copies of so many columns before it turns them.
    pub(super) fn to_turn(columns: usize) -> Self {
        Self::new(columns.next_multiple_of(BLOCK))
    }
}

/// Columns that are turned at a time where rows are longer: as many as the compiler turns by shuffles.
const BLOCK: usize = 8;

/// Copies the columns of `ROWS` rows of a leaf, from row `first` on, to `out`; `W` of them, or as many as `out` has where
/// that is 0. What `room` holds does not matter, which is [`Room::to_turn`]. What is `coming` is asked for meanwhile.
///
/// # Safety
/// The leaf has these rows, at most one axis, and as many columns.
#[inline(always)]
pub(super) unsafe fn panel<T: Element, const W: usize>(
    isa: Isa,
    leaf: &Strided<'_, T>,
    first: usize,
    out: &mut [Turned<T>],
    room: &mut [Turned<T>],
    coming: &mut Coming,
) {
    let width = if W == 0 { out.len() } else { W };
    let out = &mut out[..width];
    let start = leaf.start.wrapping_offset((first as isize).wrapping_mul(leaf.row));
    let stride = leaf.axes.first().map_or(1, |axis| axis.1);
    // Columns that lie backwards are those from the last one on.
    let are_backwards = stride == -1 && leaf.row != 1 && width > 1;
    let (start, stride) = if are_backwards { (start.wrapping_sub(width - 1), 1) } else { (start, stride) };
    // SAFETY: the caller's promise, of the same elements.
    unsafe { forwards::<T, W>(isa, start, [leaf.row, stride], out, room, coming) };
    if are_backwards {
        reverse(out);
    }
}

/// Exchanges the first column with the last one, and so on. Out of line, for it is part of no kernel.
#[inline(never)]
fn reverse<T>(columns: &mut [Turned<T>]) {
    // mutant: columns-that-lie-backwards-read-forwards
    columns.reverse();
}

/// Does that with rows and columns as far apart as is said.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn forwards<T: Element, const W: usize>(
    isa: Isa,
    start: *const T,
    [row, stride]: [isize; 2],
    out: &mut [Turned<T>],
    room: &mut [Turned<T>],
    coming: &mut Coming,
) {
    let width = if W == 0 { out.len() } else { W };
    // Of eight bytes, four columns are turned by shuffles, and eight are gathered.
    let is_long = size_of::<T>() == 8;
    let is_dense = stride == 1 && row == width as isize;
    #[cfg(target_arch = "x86_64")]
    if is_long && isa.kind() == Kind::Avx512 && stride == 1 && W == 0 && width > BLOCK / 2 && row != 1 {
        // Types of eight bytes are `f64`, the only one there is.
        // SAFETY: the CPU has reported these instructions; the elements are those of the leaf, and `out` has the type it is
        // said to have.
        return unsafe {
            let out: &mut [Turned<f64>] = core::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), width);
            avx512::panel(start.cast(), row, out, |columns| coming.ask(columns, TURNING));
        };
    }
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 4 && isa.kind() == Kind::Avx512 && stride == 1 && W == 0 && width >= BLOCK && row != 1 {
        // Types of four bytes are `f32`, the only one there is.
        // SAFETY: as above.
        return unsafe {
            let out: &mut [Turned<f32>] = core::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), width);
            avx512::singles(start.cast(), row, out, |columns| coming.ask(columns, TURNING));
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    if row == 1 {
        let each = if coming.is_nothing() { width } else { BLOCK };
        for (block, out) in out.chunks_mut(each).enumerate() {
            coming.ask(BLOCK, TURNING);
            for (c, out) in out.iter_mut().enumerate() {
                let start = start.wrapping_offset(((block * each + c) as isize).wrapping_mul(stride));
                // SAFETY: the elements of these rows in one column, which lie one after the other.
                *out = unsafe { start.cast::<Turned<T>>().read() };
            }
        }
    } else if is_dense && W > 0 && W <= BLOCK {
        // SAFETY: so many elements of these rows lie one after the other.
        unsafe { dense::<T, W>(start, out) };
    } else if stride == 1 && W > 1 {
        // SAFETY: as above.
        unsafe { blocks_later::<T, W>(start, row, out, room, coming) };
    } else if is_dense && W == 0 && !is_long && (5..=7).contains(&width) {
        // SAFETY: as above.
        unsafe {
            match width {
                5 => dense::<T, 5>(start, out),
                6 => dense::<T, 6>(start, out),
                _ => dense::<T, 7>(start, out),
            }
        }
    } else if W == 0 && stride == 1 && !is_long && width >= BLOCK {
        // SAFETY: the caller's promise; the columns of a block are within a row.
        unsafe { blocks::<T, BLOCK>(start, row, out, coming) };
    } else if W == 0 && stride == 1 && width >= BLOCK / 2 {
        // SAFETY: as above.
        unsafe { blocks_later::<T, { BLOCK / 2 }>(start, row, out, room, coming) };
    } else {
        for (c, out) in out.iter_mut().enumerate() {
            let start = start.wrapping_offset((c as isize).wrapping_mul(stride));
            for (r, out) in out.iter_mut().enumerate() {
                // SAFETY: an element of these rows.
                *out = unsafe { start.wrapping_offset((r as isize).wrapping_mul(row)).read() };
            }
        }
    }
}

/// Turns rows of `W` elements, one row after the other.
///
/// # Safety
/// `ROWS` such rows can be read from `start` on.
#[inline(always)]
unsafe fn dense<T: Element, const W: usize>(start: *const T, out: &mut [Turned<T>]) {
    // SAFETY: the caller's promise.
    turn(unsafe { &*start.cast::<[[T; W]; ROWS]>() }, out.first_chunk_mut().expect("as many columns"));
}

/// Turns blocks of `N` columns; the last one ends with the last column, and so may overlap the one before.
///
/// # Safety
/// `ROWS` rows of as many elements as `out` has, `N` or more, can be read from `start` on, `pitch` apart.
#[inline(always)]
unsafe fn blocks<T: Element, const N: usize>(
    start: *const T,
    pitch: isize,
    out: &mut [Turned<T>],
    coming: &mut Coming,
) {
    for block in (0..out.len()).step_by(N) {
        coming.ask(N, TURNING);
        let first = block.min(out.len() - N);
        let mut rows = Rows([[T::default(); N]; ROWS]);
        // SAFETY: `N` elements of a row.
        unsafe { copy(start.wrapping_add(first), pitch, &mut rows.0) };
        turn(&rows.0, out[first..].first_chunk_mut().expect("a block of columns"));
    }
}

/// The same, all copied before the first is turned: vectors of two rows are read when both have been written for a while.
///
/// # Safety
/// As above; `room` has as many columns, rounded up.
#[inline(always)]
unsafe fn blocks_later<T: Element, const N: usize>(
    start: *const T,
    pitch: isize,
    out: &mut [Turned<T>],
    room: &mut [Turned<T>],
    coming: &mut Coming,
) {
    let last = out.len() - N;
    let copies = room.as_flattened_mut().as_chunks_mut::<N>().0.as_chunks_mut::<ROWS>().0;
    let starts = (0..out.len()).step_by(N);
    for (block, copied) in starts.clone().zip(&mut *copies) {
        coming.ask(N, TURNING);
        // SAFETY: `N` elements of a row.
        unsafe { copy(start.wrapping_add(block.min(last)), pitch, copied) };
    }
    // Or elements would be turned one by one, in registers.
    let copies = core::hint::black_box(copies);
    for (block, copied) in starts.zip(copies) {
        turn(copied, out[block.min(last)..].first_chunk_mut().expect("a block of columns"));
    }
}

/// Copies `N` elements of each row.
///
/// # Safety
/// As many can be read from `start` on and at each multiple of `pitch` from there.
#[inline(always)]
unsafe fn copy<T: Element, const N: usize>(start: *const T, pitch: isize, rows: &mut [[T; N]; ROWS]) {
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { start.wrapping_offset((r as isize).wrapping_mul(pitch)).cast::<[T; N]>().read() };
    }
}

/// Turns rows that lie one after the other.
#[inline(always)]
pub(super) fn turn<T: Element, const W: usize, const N: usize>(rows: &[[T; W]; N], out: &mut [[T; N]; W]) {
    let rows = &rows.as_flattened()[..N * W];
    for r in 0..N {
        for c in 0..W {
            out[c][r] = rows[r * W + c];
        }
    }
}

/// Writes the columns of four rows as these rows.
#[inline(always)]
pub(super) fn as_rows<T: Element>(columns: &[[T; 4]], [a, b, c, d]: [&mut [T]; 4]) {
    for ((column, (a, b)), (c, d)) in columns.iter().zip(a.iter_mut().zip(b)).zip(c.iter_mut().zip(d)) {
        // mutant: columns-of-two-rows-change-places
        [*a, *b, *c, *d] = *column;
    }
}

/// Some columns of rows, from the start of a cache line on.
#[repr(align(64))]
struct Rows<T, const N: usize>([[T; N]; ROWS]);
