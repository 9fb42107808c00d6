//! Rows in many small leaves, each an array of its own: gathered a few rows at a time, and measured as they are.
//!
//! A leaf of a few elements is over before a kernel of its own has begun. So rows are brought to lie one after the other,
//! batch by batch of leaves, and the squares of a batch are summed while it is in the first-level cache: of the smallest
//! leaves four rows at once, in lanes. Elements of columns that lie one after the other are turned to rows four at a time. What is summed is what [`super::measure`] sums, in its order: the squares of each leaf, then leaf after
//! leaf. Integers are those of the gathered row, which does not tell its leaves apart.

use core::num::NonZeroUsize;
use core::ops::Range;

use super::clip_norm::{ClipNorm, Stability};
use super::decide::Rule;
use super::element::Element;
use super::error_budget::ErrorBudget;
use super::foreign::{self, Foreign};
use super::measure::{self, Power};
use super::quantize::{self, Tile};
use super::rows::{Rows, Strided};
use super::scattered::{ROWS, Run, Scattered};
use super::shares;
use super::steps::{Steps, Together};
use super::turn;
use crate::dispatch::{self, CACHE_LINE, Kernel, prefetch};
use crate::isa::Isa;

/// Bytes of rows that are gathered before the first of them is added.
const GATHERED_BYTES: usize = 1 << 20;

/// Bytes of a leaf that are gathered at a time, if there are few enough leaves: more of the cache lines and of the pages that
/// are looked up for it are of use.
const PIECE_BYTES: usize = 1 << 7;
const MOST_BYTES: usize = 3 << 20;

/// The most rows that are gathered at a time.
const MOST_ROWS: usize = 64;

/// Bytes that are gathered before they are measured: until then they have arrived in the first-level cache, and they fit.
const BATCH_BYTES: usize = 1 << 14;

/// The least and the most columns of these.
const BATCH: [usize; 2] = [64, 2048];

/// The most leaves that are gathered before they are measured.
const LEAVES: usize = 128;

/// Columns that are turned at a time.
const TURNED: usize = 128;

/// How many leaves before it is gathered a leaf is fetched: the more, the fewer bytes it has, or they would be gone again where
/// leaves are whole pages apart.
const AHEAD: [usize; 2] = [4, 24];
const AHEAD_BYTES: usize = 1 << 10;

/// Returns the leaves of such rows, to be brought.
pub(super) fn foreign<'a, T: Element>(rows: Scattered<'a, T>) -> Vec<Foreign<'a>> {
    let runs = rows.runs.iter().flat_map(|run| core::iter::repeat_n(run, run.leaves));
    let leaves = rows.starts.iter().zip(runs).map(|(start, run)| {
        // SAFETY: the maker of the rows promised that their elements can be read.
        Foreign::of(&unsafe { Strided::<T>::new(start.cast(), run.row, [(run.width, run.column)]) })
    });
    leaves.collect()
}

/// Such rows on their way into sums; see [`super::adding`].
pub(super) struct Gathering<'a, T> {
    pub(super) rows: Scattered<'a, T>,
    pub(super) steps: Steps,
}

impl<'a, T: Element> Gathering<'a, T> {
    pub(super) fn new(isa: Isa, clip: ClipNorm, stability: Option<Stability>, rows: Scattered<'a, T>) -> Self {
        let budget = ErrorBudget::of_runs(rows.runs.iter().map(|run| (run.leaves, run.width)));
        let rule = Rule { isa, power: Power::Second, bound: clip.value(), stability, budget };
        Self { rows, steps: Steps { rule, clip } }
    }

    /// Adds all rows to `sums`, on up to `threads` threads, and returns how many are within the clip norm, if all were
    /// certified.
    pub(super) fn add(&self, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let count = self.rows.count;
        if threads.get() == 1 || count < 2 * threads.get() {
            return self.add_rows(0..count, sums);
        }
        shares::add(count, sums, threads, |rows, part| self.add_rows(rows, part))
    }

    /// Returns how many rows are gathered at a time.
    fn tile(&self) -> usize {
        let bytes = (self.rows.width * size_of::<T>()).max(1);
        let enough = PIECE_BYTES / (bytes / self.rows.starts.len().max(1)).max(1);
        let rows = (GATHERED_BYTES / bytes).max(enough.min(MOST_BYTES / bytes)).clamp(1, MOST_ROWS);
        // Whole groups of rows that are measured and added together.
        if rows >= ROWS || MOST_BYTES / bytes >= ROWS { rows.max(ROWS) / ROWS * ROWS } else { rows }
    }

    /// Adds some rows on one thread.
    pub(super) fn add_rows(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let (isa, width) = (self.steps.rule.isa, self.rows.width);
        let most = self.tile().min(rows.len());
        let mut gathered: Vec<T> = Vec::with_capacity(most * width);
        let mut numbers: Vec<T::Whole> = Vec::new();
        let (mut within, mut together) = (0, Together::default());
        for start in rows.clone().step_by(most.max(1)) {
            let tile = start..rows.end.min(start + most);
            let (totals, room) = (together.begin(tile.len()), gathered.as_mut_ptr());
            dispatch::run_256(isa, Gather { rows: &self.rows, first: start, totals, room });
            // SAFETY: there is room for `most` rows, and all elements of as many as the tile has were written.
            unsafe { gathered.set_len(tile.len() * width) };
            let gathered = foreign::whole(isa, &gathered, &mut numbers);
            self.steps.compare::<T::Whole>(&mut together);
            within += Steps::decide(&mut together, |row, total| {
                let row = &gathered[row * width..][..width];
                self.steps.step(total, self.rows.leaves(row), core::iter::once(row))
            });
            let rows = Rows::new([(gathered, width)], tile.len()).expect("as long as the tile");
            let Together { steps, certificates, .. } = &mut together;
            let tile = Tile { rows: &rows, first: 0, columns: 0..width, steps, ahead: &[] };
            quantize::add(isa, tile, sums, certificates);
            if !self.steps.are_certified(&together) {
                return None;
            }
        }
        Some(within)
    }
}

/// Writes as many rows as there are totals to `room`, one after the other, and adds to each total the row's squares.
struct Gather<'a, 'b, T> {
    rows: &'b Scattered<'a, T>,
    first: usize,
    totals: &'b mut [f64],
    /// Where there is room for them.
    room: *mut T,
}

impl<T: Element> Kernel for Gather<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) {
        // Of 16 bits, leaves of so many columns are not worth machine code of their own.
        let wider = NATIVE && size_of::<T>() > size_of::<u16>();
        let (mut column, mut leaf) = (0, 0);
        let mut turning = [[T::default(); ROWS]; TURNED];
        let mut measured = [[0.0; ROWS]; LEAVES];
        let [least, most] = BATCH;
        let columns = (BATCH_BYTES / (self.totals.len() * size_of::<T>()).max(1)).clamp(least, most);
        for run in self.rows.runs {
            let mut rest = run.leaves;
            while run.width > 0 && rest > 0 {
                let Run { row, column: stride, .. } = *run;
                let leaves = rest.min((columns / run.width).clamp(1, LEAVES));
                let batch = Batch { leaf, leaves, column, row, stride };
                let done = match run.width {
                    1 => self.together::<1>(batch, &mut measured),
                    2 => self.together::<2>(batch, &mut measured),
                    3 => self.together::<3>(batch, &mut measured),
                    4 => self.together::<4>(batch, &mut measured),
                    5 if wider => self.together::<5>(batch, &mut measured),
                    6 if wider => self.together::<6>(batch, &mut measured),
                    7 if wider => self.together::<7>(batch, &mut measured),
                    8 if wider => self.together::<8>(batch, &mut measured),
                    _ => 0,
                };
                if done < self.totals.len() {
                    match run.width {
                        1 => self.one_by_one::<1>(batch, done),
                        2 => self.one_by_one::<2>(batch, done),
                        3 => self.one_by_one::<3>(batch, done),
                        4 => self.one_by_one::<4>(batch, done),
                        width => self.long::<NATIVE>(batch, done, width, &mut turning),
                    }
                }
                column += leaves * run.width;
                leaf += leaves;
                rest -= leaves;
            }
            leaf += rest;
        }
    }
}

/// Some leaves of one width that lie alike.
#[derive(Clone, Copy)]
struct Batch {
    /// The first of them, and how many there are.
    leaf: usize,
    leaves: usize,
    /// The first column of the first.
    column: usize,
    /// Elements from a row to the next, and from a column to the next.
    row: isize,
    stride: isize,
}

impl<T: Element> Gather<'_, '_, T> {
    /// Gathers and measures whole groups of rows of leaves of `W` columns, a row in a lane; returns how many rows that were.
    #[inline(always)]
    fn together<const W: usize>(&mut self, batch: Batch, measured: &mut [[f64; ROWS]]) -> usize {
        let is_dense = batch.stride == 1 && batch.row == W.cast_signed();
        if !is_dense && batch.row != 1 {
            return 0;
        }
        let (width, rows) = (self.rows.width, self.totals.len());
        let measured = &mut measured[..batch.leaves];
        for group in 0..rows / ROWS {
            let places = self.places(batch, W, group * ROWS, rows).zip(&mut *measured);
            if is_dense {
                for ((from, to), measured) in places {
                    // SAFETY: elements of these rows, which lie one after the other, and room for them.
                    *measured = unsafe { copy_rows::<T, W>(from, to, width) };
                }
            } else {
                for ((from, to), measured) in places {
                    // SAFETY: elements of these rows, and room for them.
                    *measured = unsafe { write_rows(&turned::<T, W>(from, batch.stride), to, width) };
                }
            }
            let totals = &mut self.totals.as_chunks_mut::<ROWS>().0[group];
            // In registers: each sum would wait until the one before was written.
            let mut sums = *totals;
            for measured in &*measured {
                // mutant: gathered-leaves-of-several-rows-forgotten
                (0..ROWS).for_each(|r| sums[r] += measured[r]);
            }
            *totals = sums;
        }
        rows / ROWS * ROWS
    }

    /// Gathers and measures rows from `first` on of leaves of `W` columns.
    #[inline(always)]
    fn one_by_one<const W: usize>(&mut self, batch: Batch, first: usize) {
        let rows = self.totals.len();
        for row in first..rows {
            let mut sum = self.totals[row];
            for (from, to) in self.places(batch, W, row, rows) {
                // SAFETY: elements of a row, and room for it.
                // mutant: gathered-leaves-of-one-row-forgotten
                sum += unsafe { write_row::<T, W>(from, batch.stride, to) };
            }
            self.totals[row] = sum;
        }
    }

    /// Gathers and measures rows from `first` on of leaves of `columns` columns: those of one block while they are copied, others
    /// afterwards.
    #[inline(always)]
    fn long<const NATIVE: bool>(&mut self, batch: Batch, first: usize, columns: usize, turning: &mut Turning<T>) {
        let (width, all) = (self.rows.width, core::mem::take(&mut self.totals));
        let totals = &mut all[first..];
        let is_one_block = (measure::LANES..=measure::BLOCK).contains(&columns);
        let is_plain = batch.stride == 1;
        for (from, to) in self.places(batch, columns, first, first + totals.len()) {
            if !is_plain {
                let (apart, size) = ([batch.row, batch.stride], [totals.len(), columns]);
                // SAFETY: elements of these rows, and room for them.
                unsafe { write_strided(from, apart, size, to, width, turning) };
            }
            for (r, total) in totals.iter_mut().enumerate() {
                let to = to.wrapping_add(r * width);
                let from = if is_plain { from.wrapping_offset((r as isize).wrapping_mul(batch.row)) } else { to };
                if is_one_block {
                    // SAFETY: these are so many elements of a row, and room for as many, or twice the same.
                    *total += unsafe { measure::copy_block::<T, NATIVE>(from, to, columns) };
                } else if is_plain {
                    // SAFETY: these are so many elements of a row, and room for as many.
                    unsafe { copy::<T>(from, to, columns) };
                }
            }
        }
        for (r, total) in totals.iter_mut().enumerate().filter(|_| !is_one_block) {
            let written = (first + r) * width + batch.column;
            // SAFETY: the elements of a row that were just written.
            let row =
                unsafe { core::slice::from_raw_parts(self.room.add(written).cast_const(), batch.leaves * columns) };
            // In a register: each sum would wait until the one before was written.
            let (mut sum, mut end) = (*total, columns);
            while end <= row.len() {
                measure::add_last::<T, NATIVE>(&row[..end], columns, &mut sum);
                end += columns;
            }
            *total = sum;
        }
        self.totals = all;
    }

    /// Returns of leaves of `columns` columns where the elements of their row `row` are, and where there is room for them. All
    /// `rows` rows are fetched before, with the first.
    #[inline(always)]
    fn places(
        &self,
        batch: Batch,
        columns: usize,
        row: usize,
        rows: usize,
    ) -> impl Iterator<Item = (*const T, *mut T)> {
        let width = self.rows.width;
        assert!(batch.column + batch.leaves * columns <= width, "columns of a row");
        let offset = (self.first + row).cast_signed().wrapping_mul(batch.row);
        // mutant: gathered-rows-forget-where-leaf-begins
        let mut room = self.room.wrapping_add(row * width + batch.column);
        let starts = &self.rows.starts[batch.leaf..];
        let lines = Lines::new(batch, rows, columns, size_of::<T>());
        let later = if row == 0 { starts.get(lines.ahead..).unwrap_or_default() } else { &[] };
        starts[..batch.leaves].iter().enumerate().map(move |(k, start)| {
            if let Some(later) = later.get(k) {
                lines.fetch(later.cast::<T>().wrapping_offset(offset));
            }
            let to = room;
            room = room.wrapping_add(columns);
            (start.cast::<T>().wrapping_offset(offset), to)
        })
    }
}

/// Writes a row of `W` elements that are `stride` apart to `to`, and returns the sum of its squares.
///
/// # Safety
/// They can be read, and there is room for them.
#[inline(always)]
unsafe fn write_row<T: Element, const W: usize>(from: *const T, stride: isize, to: *mut T) -> f64 {
    let mut row = [T::default(); W];
    for (c, x) in row.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *x = unsafe { from.wrapping_offset((c as isize).wrapping_mul(stride)).read() };
    }
    // SAFETY: the caller's promise.
    let [square] = unsafe { write_rows(&[row], to, 0) };
    square
}

/// Writes rows of `W` elements to `to` and every `pitch` elements from there, and returns the sums of their squares.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn write_rows<T: Element, const W: usize, const N: usize>(
    rows: &[[T; W]; N],
    to: *mut T,
    pitch: usize,
) -> [f64; N] {
    for (r, row) in rows.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.wrapping_add(r.wrapping_mul(pitch)).cast::<[T; W]>().write(*row) };
    }
    squares(rows)
}

/// Copies `ROWS` rows of `W` elements, one after the other, to `to` and every `pitch` elements from there, and returns the sums
/// of their squares.
///
/// # Safety
/// They can be read, and there is room for them.
#[inline(always)]
unsafe fn copy_rows<T: Element, const W: usize>(from: *const T, to: *mut T, pitch: usize) -> [f64; ROWS] {
    for r in 0..ROWS {
        let (from, to) = (from.wrapping_add(r * W).cast::<u8>(), to.wrapping_add(r.wrapping_mul(pitch)).cast());
        // As bytes: read as numbers, they would be computed with one by one.
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(from, to, size_of::<[T; W]>()) };
    }
    // SAFETY: as above.
    squares(unsafe { &*from.cast::<[[T; W]; ROWS]>() })
}

/// Returns the elements of `ROWS` rows of `W` columns, whose elements lie one after the other and which are `stride` apart.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn turned<T: Element, const W: usize>(from: *const T, stride: isize) -> [[T; W]; ROWS] {
    let mut columns = [[T::default(); ROWS]; W];
    for (c, column) in columns.iter_mut().enumerate() {
        let start = from.wrapping_offset((c as isize).wrapping_mul(stride));
        // SAFETY: the caller's promise.
        *column = unsafe { start.cast::<[T; ROWS]>().read() };
    }
    let mut rows = [[T::default(); W]; ROWS];
    for (r, row) in rows.iter_mut().enumerate() {
        for (x, column) in row.iter_mut().zip(&columns) {
            *x = column[r];
        }
    }
    rows
}

/// Columns of a group of rows, to be turned.
type Turning<T> = [[T; ROWS]; TURNED];

/// Writes `rows` times `columns` elements, the first of which is at `from` and which are `down` and `across` apart, to `to`, `pitch`
/// elements from a row to the next. What is in `turning` does not matter.
///
/// # Safety
/// They can be read, and there is room for them.
#[inline(always)]
unsafe fn write_strided<T: Element>(
    from: *const T,
    [down, across]: [isize; 2],
    [rows, columns]: [usize; 2],
    to: *mut T,
    pitch: usize,
    turning: &mut Turning<T>,
) {
    let from = |r: usize, c: usize| {
        let offset = (r as isize).wrapping_mul(down).wrapping_add((c as isize).wrapping_mul(across));
        from.wrapping_offset(offset)
    };
    let to = |r: usize, c: usize| to.wrapping_add(r * pitch + c);
    let first = if down == 1 { rows / ROWS * ROWS } else { 0 };
    for r in (0..first).step_by(ROWS) {
        for c in (0..columns).step_by(TURNED) {
            let len = TURNED.min(columns - c);
            let block = if across == ROWS.cast_signed() {
                // SAFETY: the caller's promise: one column after the other.
                unsafe { core::slice::from_raw_parts(from(r, c).cast(), len) }
            } else {
                for (i, column) in turning[..len].iter_mut().enumerate() {
                    // SAFETY: the caller's promise, for these rows of a column.
                    *column = unsafe { from(r, c + i).cast::<[T; ROWS]>().read() };
                }
                &turning[..len]
            };
            // SAFETY: as above, for parts of these rows, which are apart.
            let rows = [0, 1, 2, 3].map(|i| unsafe { core::slice::from_raw_parts_mut(to(r + i, c), len) });
            turn::as_rows(block, rows);
        }
    }
    for r in first..rows {
        for c in 0..columns {
            // SAFETY: as above.
            unsafe { to(r, c).write(from(r, c).read()) };
        }
    }
}

/// Asks for a leaf's rows where they lie in a few cache lines.
struct Lines {
    /// Bytes of some rows.
    bytes: usize,
    /// Where they are more than two cache lines: how many are asked for, and bytes from one to the next.
    count: usize,
    step: isize,
    /// How many leaves ahead.
    ahead: usize,
}

impl Lines {
    /// Some rows of leaves of `columns` columns, or where their rows begin if these do not lie one after the other.
    fn new(batch: Batch, rows: usize, columns: usize, size: usize) -> Self {
        let bytes = rows * columns * size;
        let lines = bytes.min(dispatch::PAGE).div_ceil(CACHE_LINE);
        let size = size.cast_signed();
        let (count, step) = match batch.row {
            1 => (columns.min(lines), batch.stride.wrapping_mul(size)),
            row if row == columns.cast_signed() => (lines, CACHE_LINE.cast_signed()),
            row => (rows, row.wrapping_mul(size)),
        };
        let [least, most] = AHEAD;
        Self { bytes, count, step, ahead: (AHEAD_BYTES / bytes.max(1)).clamp(least, most) }
    }

    /// Asks for those of a leaf that begin there.
    #[inline(always)]
    fn fetch<T>(&self, start: *const T) {
        if self.bytes > 2 * CACHE_LINE {
            return self.fetch_many(start.cast());
        }
        // However they lie, it is often there.
        prefetch(start);
        prefetch(start.wrapping_byte_add(self.bytes).wrapping_byte_sub(1));
    }

    #[inline(never)]
    fn fetch_many(&self, start: *const ()) {
        let mut line = start;
        for _ in 0..self.count {
            prefetch(line);
            line = line.wrapping_byte_offset(self.step);
        }
    }
}

/// Returns the sums of squares of rows of at most eight elements, each as [`measure`] sums it: in the last of eight lanes, folded
/// in halves; where a lane has nothing, nothing is added.
#[inline(always)]
fn squares<T: Element, const W: usize, const N: usize>(rows: &[[T; W]; N]) -> [f64; N] {
    let mut squares = [[0.0; N]; W];
    for c in 0..W {
        for r in 0..N {
            let x = rows[r][c].widen();
            squares[c][r] = x * x;
        }
    }
    let add = |one: [f64; N], other: [f64; N]| core::array::from_fn(|r| one[r] + other[r]);
    match squares[..] {
        [a, b] => add(a, b),
        [a, b, c] => add(b, add(a, c)),
        [a, b, c, d] => add(add(a, c), add(b, d)),
        [a, b, c, d, e] => add(add(b, d), add(c, add(a, e))),
        [a, b, c, d, e, f] => add(add(c, add(a, e)), add(d, add(b, f))),
        [a, b, c, d, e, f, g] => add(add(d, add(b, f)), add(add(a, e), add(c, g))),
        [a, b, c, d, e, f, g, h] => add(add(add(a, e), add(c, g)), add(add(b, f), add(d, h))),
        _ => squares[0],
    }
}

/// Copies `len` elements in pieces of fixed sizes, the last of which may overlap the one before.
///
/// # Safety
/// `len` elements can be read at `from`, and written at `to`, and the two do not overlap unless they are the same.
#[inline(always)]
unsafe fn copy<T: Element>(from: *const T, to: *mut T, len: usize) {
    macro_rules! pieces {
        ($size:literal) => {{
            for first in (0..len - $size).step_by($size) {
                // SAFETY: the caller's promise; the piece ends before the last element.
                unsafe { *to.add(first).cast::<[T; $size]>() = *from.add(first).cast::<[T; $size]>() };
            }
            // SAFETY: as above, for the last elements.
            unsafe { *to.add(len - $size).cast::<[T; $size]>() = *from.add(len - $size).cast::<[T; $size]>() };
        }};
    }
    match len {
        0 => {}
        1..4 => pieces!(1),
        4..16 => pieces!(4),
        _ => pieces!(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::measure::add_powers;

    /// Gathers rows of leaves that lie in many ways, and compares totals with those of leaf after leaf.
    fn check<T: Element + PartialEq + core::fmt::Debug>(convert: fn(f64) -> T) {
        let widths = (1..=9)
            .flat_map(|width| [width; 37])
            .chain([0, 31, 32, 33, 40, 64, 3, 300, 4096, 4097, 1])
            .collect::<Vec<usize>>();
        for count in [1, 4, 7, 8] {
            let data: Vec<Vec<T>> = widths
                .iter()
                .enumerate()
                .map(|(i, width)| {
                    (0..count * width).map(|k| convert(((i + k) * 7919 % 1013) as f64 * 1.1e-3 - 0.5)).collect()
                })
                .collect();
            // Every third in Fortran order, every fifth from its end on.
            let place = |i: usize, r: usize, c: usize| -> isize {
                let (r, c, count, width) = (r as isize, c as isize, count as isize, widths[i] as isize);
                match (i % 3, i % 5) {
                    (0, _) => c * count + r,
                    (_, 0) => count * width - 1 - (r * width + c),
                    _ => r * width + c,
                }
            };
            let mut runs = Vec::new();
            let start = |i: usize| -> *const () {
                let first = place(i, 0, 0);
                let (row, column) = (place(i, 1, 0) - first, place(i, 0, 1) - first);
                Run::extend(&mut runs, Run { leaves: 1, width: widths[i], row, column });
                data[i].as_ptr().wrapping_offset(first).cast()
            };
            let starts: Vec<_> = (0..widths.len()).map(start).collect();
            // SAFETY: these places are those of the vectors.
            let rows = unsafe { Scattered::<T>::new(&starts, &runs, count) };
            let expected: Vec<Vec<T>> = (0..count)
                .map(|r| {
                    (0..widths.len())
                        .flat_map(|i| (0..widths[i]).map(move |c| (i, c)))
                        .map(|(i, c)| data[i][place(i, r, c) as usize])
                        .collect()
                })
                .collect();
            for isa in Isa::available() {
                let (mut totals, mut room) = (vec![0.0; count], vec![T::default(); count * rows.width()]);

                dispatch::run(isa, Gather { rows: &rows, first: 0, totals: &mut totals, room: room.as_mut_ptr() });

                for (r, row) in expected.iter().enumerate() {
                    let mut total = [0.0];
                    for leaf in rows.leaves(row) {
                        add_powers(Isa::PORTABLE, Power::Second, leaf, leaf.len(), 1.0, &mut total);
                    }
                    assert_eq!(row[..], room[r * rows.width()..][..rows.width()], "{isa:?}");
                    assert_eq!(total[0].to_bits(), totals[r].to_bits(), "{isa:?}, row {r} of {count}");
                }
            }
        }
    }

    #[test]
    fn rows_are_gathered_and_measured_leaf_by_leaf() {
        check(|x| x as f32);
        check(|x| x * 1e-80);
    }
}
