//! Rows in many small leaves, each an array of its own: gathered a few rows at a time, and measured as they are.
//!
//! A leaf of a few elements is over before a kernel of its own has begun. So rows are brought to lie one after the other,
//! batch by batch of leaves, and the squares of a batch are summed while it is in the first-level cache, sixteen leaves of
//! one width at once. What is summed is what [`super::measure`] sums, in its order: the squares of each leaf, then leaf after
//! leaf. Integers are those of the gathered row, which does not tell its leaves apart.

use core::num::NonZeroUsize;
use core::ops::Range;

use super::clip_norm::{ClipNorm, Stability};
use super::columns::PANEL;
use super::decide::Rule;
use super::element::Element;
use super::error_budget::ErrorBudget;
use super::measure::{self, Power};
use super::quantize::{self, Certificate, Tile};
use super::rows::Rows;
use super::scattered::{Scattered, Spot};
use super::shares;
use super::steps::Steps;
use super::turn;
use crate::dispatch::{self, CACHE_LINE, Kernel, prefetch};
use crate::isa::Isa;

/// Bytes of rows that are gathered before the first of them is added.
const GATHERED_BYTES: usize = 1 << 20;

/// Bytes of a leaf that are gathered at a time, if there are few enough leaves: more of the cache lines and of the pages that
/// are looked up for it are of use.
const PIECE_BYTES: usize = 1 << 8;
const MOST_BYTES: usize = 3 << 20;

/// The most rows that are gathered at a time.
const MOST_ROWS: usize = 64;

/// Bytes that are gathered before they are measured: until then they have arrived in the first-level cache, and they fit.
const BATCH_BYTES: usize = 1 << 14;

/// The least and the most columns of these.
const BATCH: [usize; 2] = [64, 2048];

/// Leaves of up to `SHORT` columns are measured so many at once.
const TOGETHER: usize = PANEL;
const SHORT: usize = 8;

/// How many leaves before it is gathered a leaf is fetched.
const AHEAD: usize = 24;

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
        let enough = PIECE_BYTES / (bytes / self.rows.spots.len().max(1)).max(1);
        (GATHERED_BYTES / bytes).max(enough.min(MOST_BYTES / bytes)).clamp(1, MOST_ROWS)
    }

    /// Adds some rows on one thread.
    pub(super) fn add_rows(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let (isa, width) = (self.steps.rule.isa, self.rows.width);
        let most = self.tile().min(rows.len());
        let mut gathered: Vec<T> = Vec::with_capacity(most * width);
        let (mut within, mut totals, mut steps, mut certificates) = (0, Vec::new(), Vec::new(), Vec::new());
        for start in rows.clone().step_by(most.max(1)) {
            let tile = start..rows.end.min(start + most);
            totals.clear();
            totals.resize(tile.len(), 0.0);
            let room = gathered.as_mut_ptr();
            dispatch::run(isa, Gather { rows: &self.rows, first: start, totals: &mut totals, room });
            // SAFETY: there is room for `most` rows, and all elements of as many as the tile has were written.
            unsafe { gathered.set_len(tile.len() * width) };
            steps.clear();
            for (row, total) in totals.iter().enumerate() {
                let row = &gathered[row * width..][..width];
                let (step, is_within) = self.steps.step(*total, self.rows.leaves(row), core::iter::once(row));
                steps.push(step);
                // mutant: gathered-rows-all-count-as-within-bound
                within += u64::from(is_within);
            }
            certificates.clear();
            certificates.resize(tile.len(), Certificate::default());
            let rows = Rows::new([(&gathered[..], width)], tile.len()).expect("as long as the tile");
            let tile = Tile { rows: &rows, first: 0, columns: 0..width, steps: &steps, ahead: 0..0 };
            quantize::add(isa, tile, sums, &mut certificates);
            if !steps.iter().zip(&certificates).all(|(step, certificate)| self.steps.certified(*step, certificate)) {
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
        let (mut column, mut leaf) = (0, 0);
        let [least, most] = BATCH;
        let columns = (BATCH_BYTES / (self.totals.len() * size_of::<T>()).max(1)).clamp(least, most);
        for run in self.rows.runs {
            let mut rest = run.leaves;
            while run.width > 0 && rest > 0 {
                let fitting = (columns / run.width).max(1);
                let leaves = rest.min(if fitting > TOGETHER { fitting / TOGETHER * TOGETHER } else { fitting });
                let batch = Batch { leaf, leaves, column };
                match run.width {
                    1 => self.short::<NATIVE, 1>(batch),
                    2 => self.short::<NATIVE, 2>(batch),
                    3 => self.short::<NATIVE, 3>(batch),
                    4 => self.short::<NATIVE, 4>(batch),
                    5 => self.short::<NATIVE, 5>(batch),
                    6 => self.short::<NATIVE, 6>(batch),
                    7 => self.short::<NATIVE, 7>(batch),
                    SHORT => self.short::<NATIVE, SHORT>(batch),
                    width @ measure::LANES..=measure::BLOCK => self.one_block::<NATIVE>(batch, width),
                    width => self.long::<NATIVE>(batch, width),
                }
                column += leaves * run.width;
                leaf += leaves;
                rest -= leaves;
            }
            leaf += rest;
        }
    }
}

/// Some leaves of one width, and the first column of the first of them.
#[derive(Clone, Copy)]
struct Batch {
    leaf: usize,
    leaves: usize,
    column: usize,
}

impl<T: Element> Gather<'_, '_, T> {
    /// Gathers and measures leaves of `W` columns.
    #[inline(always)]
    fn short<const NATIVE: bool, const W: usize>(&mut self, batch: Batch) {
        self.gather(batch, W, self.totals.len(), |_, from, to| {
            // SAFETY: these are `W` elements of a row, and room for as many.
            unsafe { *to.cast::<[T; W]>() = *from.cast::<[T; W]>() }
        });
        let (width, room) = (self.rows.width, self.room.cast_const());
        // Leaf by leaf and not row by row, where each sum would wait for the one before.
        let groups = batch.leaves / TOGETHER;
        for group in 0..groups {
            for (r, total) in self.totals.iter_mut().enumerate() {
                // SAFETY: elements of a row that were just written.
                let leaves = unsafe { &*room.add(r * width + batch.column + group * TOGETHER * W).cast() };
                // mutant: gathered-leaves-of-one-group-forgotten
                *total = squares_together::<T, NATIVE, W>(leaves).iter().fold(*total, |total, leaf| total + leaf);
            }
        }
        for leaf in groups * TOGETHER..batch.leaves {
            for (r, total) in self.totals.iter_mut().enumerate() {
                // SAFETY: as above.
                let leaf: &[T; W] = unsafe { &*room.add(r * width + batch.column + leaf * W).cast() };
                measure::add_last::<T, NATIVE>(leaf, W, total);
            }
        }
    }

    /// Gathers and measures leaves of `columns` columns.
    #[inline(always)]
    fn long<const NATIVE: bool>(&mut self, batch: Batch, columns: usize) {
        self.gather(batch, columns, self.totals.len(), |_, from, to| {
            // SAFETY: these are so many elements of a row, and room for as many.
            unsafe { copy::<T>(from, to, columns) }
        });
        let width = self.rows.width;
        for (r, total) in self.totals.iter_mut().enumerate() {
            let written = r * width + batch.column;
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
    }

    /// Gathers and measures leaves of one block, each while it is copied.
    #[inline(always)]
    fn one_block<const NATIVE: bool>(&mut self, batch: Batch, columns: usize) {
        let totals = core::mem::take(&mut self.totals);
        self.gather(batch, columns, totals.len(), |r, from, to| {
            // SAFETY: these are so many elements of a row, and room for as many, or twice the same.
            totals[r] += unsafe { measure::copy_block::<T, NATIVE>(from, to, columns) };
        });
        self.totals = totals;
    }

    /// Brings `rows` rows of leaves, `columns` elements each, to where there is room for them, by `copy`. It is told the row,
    /// where its elements are one after the other, which may be in that room already, and the room.
    #[inline(always)]
    fn gather(&self, batch: Batch, columns: usize, rows: usize, mut copy: impl FnMut(usize, *const T, *mut T)) {
        let (width, first) = (self.rows.width, self.first as isize);
        assert!(batch.column + batch.leaves * columns <= width, "columns of a row");
        let spots = &self.rows.spots[batch.leaf..];
        for (k, spot) in spots[..batch.leaves].iter().enumerate() {
            if let Some(later) = spots.get(k + AHEAD) {
                fetch::<T>(later, first, rows, columns);
            }
            let mut from = spot.start.cast::<T>().wrapping_offset(first.wrapping_mul(spot.row));
            // mutant: gathered-rows-forget-where-leaf-begins
            let mut to = self.room.wrapping_add(batch.column + k * columns);
            let is_plain = spot.column == 1;
            for r in 0..rows {
                if !is_plain {
                    for c in 0..columns {
                        // SAFETY: an element of a row, and room for it.
                        unsafe {
                            *to.wrapping_add(c) = *from.wrapping_offset((c as isize).wrapping_mul(spot.column));
                        }
                    }
                }
                copy(r, if is_plain { from } else { to }, to);
                from = from.wrapping_offset(spot.row);
                to = to.wrapping_add(width);
            }
        }
    }
}

/// Asks for some rows of a leaf, or for where they begin if they do not lie one after the other.
#[inline(always)]
fn fetch<T>(leaf: &Spot, first: isize, rows: usize, columns: usize) {
    let start = leaf.start.cast::<T>().wrapping_offset(first.wrapping_mul(leaf.row));
    let row = leaf.row.wrapping_mul(size_of::<T>() as isize);
    let is_dense = leaf.row == columns.cast_signed();
    let lines = (rows * columns * size_of::<T>()).min(dispatch::PAGE).div_ceil(CACHE_LINE);
    let (count, stride) = if is_dense { (lines, CACHE_LINE as isize) } else { (rows, row) };
    for i in 0..count {
        prefetch(start.wrapping_byte_offset((i as isize).wrapping_mul(stride)));
    }
}

/// Returns the sums of squares of leaves of at most [`SHORT`] elements, each as [`measure`] sums it: in the last lanes of
/// [`SHORT`], folded in halves; where a lane has nothing, nothing is added.
///
/// They are written out, or loops over lanes would be compiled to loops over numbers.
#[inline(always)]
fn squares_together<T: Element, const NATIVE: bool, const W: usize>(leaves: &[[T; W]; TOGETHER]) -> [f64; TOGETHER] {
    let mut columns = [[T::default(); TOGETHER]; W];
    turn::turn(leaves, &mut columns);
    let mut sums = [0.0; TOGETHER];
    for (i, sum) in sums.iter_mut().enumerate() {
        let mut squares = [0.0; W];
        for c in 0..W {
            let x = columns[c][i].widen();
            squares[c] = x * x;
        }
        *sum = match squares[..] {
            [a, b] => a + b,
            [a, b, c] => b + (a + c),
            [a, b, c, d] => (a + c) + (b + d),
            [a, b, c, d, e] => (b + d) + (c + (a + e)),
            [a, b, c, d, e, f] => (c + (a + e)) + (d + (b + f)),
            [a, b, c, d, e, f, g] => (d + (b + f)) + ((a + e) + (c + g)),
            [a, b, c, d, e, f, g, h] => ((a + e) + (c + g)) + ((b + f) + (d + h)),
            _ => squares[0],
        };
    }
    sums
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
    use crate::clip::scattered::{Run, Spot};

    /// Gathers rows of leaves that lie in many ways, and compares totals with those of leaf after leaf.
    fn check<T: Element + PartialEq + core::fmt::Debug>(convert: fn(f64) -> T) {
        let widths = (1..=9)
            .flat_map(|width| [width; 37])
            .chain([0, 31, 32, 33, 40, 64, 3, 300, 4096, 4097, 1])
            .collect::<Vec<usize>>();
        let runs: Vec<Run> =
            widths.chunk_by(|a, b| a == b).map(|run| Run { leaves: run.len(), width: run[0] }).collect();
        for count in [1, 5] {
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
            let spot = |i: usize| {
                let first = place(i, 0, 0);
                let (row, column) = (place(i, 1, 0) - first, place(i, 0, 1) - first);
                Spot { start: data[i].as_ptr().wrapping_offset(first).cast(), row, column }
            };
            let spots: Vec<Spot> = (0..widths.len()).map(spot).collect();
            // SAFETY: these places are those of the vectors.
            let rows = unsafe { Scattered::<T>::new(&spots, &runs, count) };
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
