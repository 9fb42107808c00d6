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
use super::scattered::Scattered;
use super::shares;
use super::steps::Steps;
use super::turn;
use crate::dispatch::{self, Kernel, prefetch};
use crate::isa::Isa;

/// Bytes of rows that are gathered before the first of them is added.
const GATHERED_BYTES: usize = 1 << 20;

/// The most rows that are gathered at a time.
const MOST_ROWS: usize = 64;

/// Columns that are gathered before they are measured: until then they have arrived in the cache.
const BATCH: usize = 256;

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

    /// Adds some rows on one thread.
    pub(super) fn add_rows(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let (isa, width) = (self.steps.rule.isa, self.rows.width);
        let most = (GATHERED_BYTES / (width * size_of::<T>()).max(1)).clamp(1, MOST_ROWS).min(rows.len());
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
        for run in self.rows.runs {
            let mut rest = run.leaves;
            while run.width > 0 && rest > 0 {
                let fitting = (BATCH / run.width).max(1);
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
        self.gather(batch, W, |from, to| {
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
                measure::add_rows::<T, true, NATIVE>(leaf, 0, W, 1.0, core::slice::from_mut(total));
            }
        }
    }

    /// Gathers and measures leaves of `columns` columns.
    #[inline(always)]
    fn long<const NATIVE: bool>(&mut self, batch: Batch, columns: usize) {
        self.gather(batch, columns, |from, to| {
            // SAFETY: these are so many elements of a row, and room for as many.
            unsafe { copy::<T>(from, to, columns) }
        });
        let width = self.rows.width;
        for (r, total) in self.totals.iter_mut().enumerate() {
            let written = r * width + batch.column;
            // SAFETY: the elements of a row that were just written.
            let row =
                unsafe { core::slice::from_raw_parts(self.room.add(written).cast_const(), batch.leaves * columns) };
            for end in (columns..=row.len()).step_by(columns) {
                let total = core::slice::from_mut(total);
                measure::add_rows::<T, true, NATIVE>(&row[..end], end - columns, columns, 1.0, total);
            }
        }
    }

    /// Copies the rows of leaves, `columns` elements each, by `copy` where these lie one after the other.
    #[inline(always)]
    fn gather(&mut self, batch: Batch, columns: usize, copy: impl Fn(*const T, *mut T)) {
        let (width, first) = (self.rows.width, self.first as isize);
        assert!(batch.column + batch.leaves * columns <= width, "columns of a row");
        let spots = &self.rows.spots[batch.leaf..];
        for (k, spot) in spots[..batch.leaves].iter().enumerate() {
            if let Some(later) = spots.get(k + AHEAD) {
                prefetch(later.start);
            }
            let mut from = spot.start.cast::<T>().wrapping_offset(first.wrapping_mul(spot.row));
            // mutant: gathered-rows-forget-where-leaf-begins
            let mut to = self.room.wrapping_add(batch.column + k * columns);
            for _ in 0..self.totals.len() {
                if spot.column == 1 {
                    copy(from, to);
                } else {
                    for c in 0..columns {
                        // SAFETY: an element of a row, and room for it.
                        unsafe {
                            *to.wrapping_add(c) = *from.wrapping_offset((c as isize).wrapping_mul(spot.column));
                        }
                    }
                }
                from = from.wrapping_offset(spot.row);
                to = to.wrapping_add(width);
            }
        }
    }
}

/// Returns the sums of squares of leaves of at most [`SHORT`] elements, each as [`measure`] sums it: in the last lanes of
/// [`SHORT`], folded in halves; where a lane has nothing, nothing is added.
#[inline(always)]
fn squares_together<T: Element, const NATIVE: bool, const W: usize>(leaves: &[[T; W]; TOGETHER]) -> [f64; TOGETHER] {
    let mut sums = [[0.0; TOGETHER]; SHORT];
    let mut first = SHORT - W;
    let mut columns = [[T::default(); TOGETHER]; W];
    turn::turn(leaves, &mut columns);
    for (sums, column) in sums[first..].iter_mut().zip(&columns) {
        for (sum, x) in sums.iter_mut().zip(column) {
            *sum = x.widen() * x.widen();
        }
    }
    let mut half = SHORT / 2;
    while half > 0 {
        let (low, high) = sums.split_at_mut(half);
        for (i, (to, from)) in low.iter_mut().zip(high).enumerate() {
            for (to, from) in to.iter_mut().zip(from) {
                *to = if i >= first { *to + *from } else { *from };
            }
        }
        first = first.saturating_sub(half);
        half /= 2;
    }
    sums[0]
}

/// Copies `len` elements in pieces of fixed sizes, the last of which may overlap the one before.
///
/// # Safety
/// `len` elements can be read at `from`, and written at `to`, and the two do not overlap.
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
        let widths = (1..=9).flat_map(|width| [width; 37]).chain([0, 40, 3, 300, 1]).collect::<Vec<usize>>();
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
