//! One loop for all routes: rows to tiles or panels, on one thread or several, and the certificates of what was added.
//!
//! Whatever the route, a row's norm is that of [`super::kernels::measure`] and its integers are those of [`super::reference`], so
//! the sums are the same.

use core::num::NonZeroUsize;
use core::ops::Range;
use std::sync::Mutex;

use super::kernels::add_rows::{self, Certificate, Step, Tile};
use super::kernels::fused_measure::{self, NextTile};
use super::kernels::measure::{self, Power, add_powers};
use super::kernels::panels;
use super::kernels::transpose::PANEL_ROWS;
use super::route::{Route, Shape, Tiling, copied_rows};
use super::rule::clip_norm::{ClipNorm, Stability};
use super::rule::error_budget::ErrorBudget;
use super::rule::row_decisions::{ClipRule, TileState};
use super::source::copy;
use super::source::element::Float;
use super::source::leaf::{Leaf, Matrix, Rows};
use super::source::plain::{self, Piece};
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks::for_each_block;
use crate::math::float_environment::in_default_environment;

/// Columns that a thread takes at a time, where threads share the columns of a row.
const COLUMNS_PER_TASK: usize = 1 << 15;

/// Rows on their way into sums. Methods that add return how many rows were within the clip norm, if all were certified.
/// They run in the default floating-point environment, which threads do not share.
pub(super) struct Drive<'a, T> {
    rule: ClipRule,
    rows: &'a Rows<'a, T>,
    shape: Shape,
    /// The leaves as they are measured and as they are added, if all are contiguous.
    pieces: Option<[Vec<Piece<'a, T>>; 2]>,
}

impl<'a, T: Float> Drive<'a, T> {
    /// Rows to be added: where they are read twice, measured as in the first reading and summed as in the second.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for so many leaves.
    pub(super) fn new(
        isa: Isa,
        clip: ClipNorm,
        stability: Option<Stability>,
        readings: [&'a Rows<'a, T>; 2],
    ) -> Result<Self, Error> {
        let [rows, again] = readings;
        let rule = ClipRule::new(isa, clip, stability, ErrorBudget::new(rows.leaves().iter().map(Leaf::width)));
        let pieces = rows.pieces()?.zip(again.pieces()?).map(|(first, second)| [first, second]);
        Ok(Self { rule, rows, shape: Shape::of(rows, pieces.is_some()), pieces })
    }

    /// Adds all rows to `sums`, on up to `threads` threads.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for copies; nothing was added then.
    pub(super) fn add(&self, sums: &mut [i64], threads: NonZeroUsize) -> Result<Option<u64>, Error> {
        let count = self.shape.rows;
        let route = Route::of(&self.shape, threads.get());
        if let (Route::SharedColumns, Some(pieces)) = (route, &self.pieces) {
            let mut blocks = Blocks::for_pieces(&pieces[0])?;
            let add = |row| {
                let total = blocks.measure(self.rule.rule.isa, &pieces[0], row, threads);
                self.add_measured(pieces, row, total, sums, threads)
            };
            return Ok((0..count).map(add).sum());
        }
        if !self.shape.shares_rows(threads.get()) {
            return self.add_on_one_thread(route, 0..count, sums);
        }
        add_on_threads(count, sums, threads, |rows, part| self.add_on_one_thread(route, rows, part))
    }

    /// Adds some rows on one thread.
    fn add_on_one_thread(&self, route: Route, rows: Range<usize>, sums: &mut [i64]) -> Result<Option<u64>, Error> {
        let mut state = TileState::default();
        match (route, &self.pieces, self.rows.matrix()) {
            (Route::Panels, Some([first, _]), _) => {
                let matrix = Matrix::of(first[0].data, first[0].width);
                Ok(self.add_panels(&matrix, [first, first], rows, &mut state, sums))
            }
            (Route::RowTiles, Some([first, second]), _) => {
                let tiling = Tiling::of::<T>(&self.shape, self.rule.rule.isa);
                Ok(self.add_tiles([first, second], tiling, rows, &mut state, sums))
            }
            (Route::ColumnPanels, _, Some(matrix)) => {
                let whole = rows.start..rows.start + whole_panels(rows.len());
                // The last few rows are copied.
                // mutant: last-rows-of-columns-forgotten
                let rest = self.add_copied(Route::CopiedTiles, whole.end..rows.end, &mut state, sums)?;
                // SAFETY: the matrix is that of all rows.
                Ok(rest.and_then(|within| Some(within + unsafe { panels::add(&self.rule, &matrix, whole, sums) }?)))
            }
            _ => self.add_copied(route, rows, &mut state, sums),
        }
    }

    /// Adds rows that are copied into contiguous ones, block by block.
    fn add_copied(
        &self,
        route: Route,
        rows: Range<usize>,
        state: &mut TileState,
        sums: &mut [i64],
    ) -> Result<Option<u64>, Error> {
        let isa = self.rule.rule.isa;
        let (width, leaves) = (sums.len(), self.rows.leaves());
        let block_rows = copied_rows(route, &self.shape).min(rows.len().max(1));
        let mut block: Vec<T> = Vec::new();
        let mut pieces: Vec<Piece<'_, T>> = Vec::new();
        block.try_reserve_exact(block_rows.checked_mul(width).ok_or(Error::OutOfMemory)?)?;
        pieces.try_reserve_exact(leaves.len())?;
        let mut within = 0;
        for start in rows.clone().step_by(block_rows) {
            let count = block_rows.min(rows.end - start);
            block.clear();
            let (mut offset, room) = (0, block.as_mut_ptr());
            for leaf in leaves {
                // SAFETY: there is room for `block_rows` rows, all columns of which are written, leaf by leaf.
                unsafe { copy::fill(isa, leaf, start..start + count, room.wrapping_add(offset), width) };
                // mutant: copied-leaves-begin-at-first-column
                offset += leaf.width();
            }
            // SAFETY: as many elements were written.
            unsafe { block.set_len(count * width) };
            let added = [Piece::plain(&block, width)];
            // Every leaf is measured by itself.
            let mut measured = recycled(core::mem::take(&mut pieces));
            let mut first = 0;
            measured.extend(leaves.iter().map(|leaf| {
                let piece = Piece { data: &block[..], first, pitch: width, width: leaf.width(), offset: first };
                // mutant: copied-leaves-measured-as-the-first
                first += leaf.width();
                piece
            }));
            let of_block = if route == Route::CopiedPanels {
                self.add_panels(&Matrix::of(&block, width), [&measured, &added], 0..count, state, sums)
            } else {
                let tiling = Tiling { rows: count, ahead: 0, is_fused: false };
                self.add_tiles([&measured, &added], tiling, 0..count, state, sums)
            };
            pieces = recycled(measured);
            let Some(of_block) = of_block else { return Ok(None) };
            within += of_block;
        }
        Ok(Some(within))
    }

    /// Adds contiguous rows of few columns: whole panels, and the rest in tiles.
    fn add_panels(
        &self,
        matrix: &Matrix<'_, T>,
        pieces: [&[Piece<'_, T>]; 2],
        rows: Range<usize>,
        state: &mut TileState,
        sums: &mut [i64],
    ) -> Option<u64> {
        let rest = rows.start + whole_panels(rows.len());
        // SAFETY: the matrix is that of the pieces, which have these rows.
        let within = unsafe { panels::add(&self.rule, matrix, rows.start..rest, sums) }?;
        let tiling = Tiling { rows: PANEL_ROWS, ahead: 0, is_fused: false };
        Some(within + self.add_tiles(pieces, tiling, rest..rows.end, state, sums)?)
    }

    /// Adds contiguous rows, tile by tile.
    fn add_tiles(
        &self,
        [measured, added]: [&[Piece<'_, T>]; 2],
        tiling: Tiling,
        rows: Range<usize>,
        state: &mut TileState,
        sums: &mut [i64],
    ) -> Option<u64> {
        let isa = self.rule.rule.isa;
        let (mut within, mut fused) = (0, None::<[f64; fused_measure::FUSED_ROWS]>);
        for start in rows.clone().step_by(tiling.rows) {
            let tile = start..rows.end.min(start + tiling.rows);
            let next = tile.end..rows.end.min(tile.end + tiling.ahead);
            let totals = state.begin(tile.len());
            match fused.take() {
                Some(known) => totals.copy_from_slice(&known),
                None => measure::add_squares(isa, measured, tile.clone(), totals),
            }
            within += self.rule.decide_tile(measured, start, state);
            let next_tile = if tiling.is_fused { next_tile(measured, &tile, &next, &state.steps) } else { None };
            // Of `f64` in fused tiles, the processor prefetches better by itself.
            let is_prefetched = !next.is_empty() && (T::SQUARES_FIT || !tiling.is_fused);
            let first_next = if is_prefetched { next.start } else { start };
            let (columns, steps) = (0..sums.len(), &state.steps[..]);
            let tile = Tile { pieces: added, first: start, columns, steps, next: first_next };
            match next_tile {
                Some(mut next_tile) => {
                    add_rows::add_fused(isa, tile, sums, &mut state.certificates, &mut next_tile);
                    fused = Some(next_tile.totals());
                }
                None => add_rows::add(isa, tile, sums, &mut state.certificates),
            }
            if !self.rule.are_certified(state) {
                return None;
            }
        }
        Some(within)
    }

    /// Adds row 0 of the only piece, whose sum of squares is known, its columns shared among threads.
    pub(super) fn add_known(&self, total: f64, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        self.pieces.as_ref().and_then(|pieces| self.add_measured(pieces, 0, total, sums, threads))
    }

    /// Adds one row with this sum of squares, its columns shared among threads.
    fn add_measured(
        &self,
        [measured, added]: &[Vec<Piece<'a, T>>; 2],
        row: usize,
        total: f64,
        sums: &mut [i64],
        threads: NonZeroUsize,
    ) -> Option<u64> {
        let (step, within) = self.rule.step(total, plain::row(measured, row));
        let certificate = Mutex::new(Certificate::default());
        for_each_block(sums, COLUMNS_PER_TASK, threads, |start, sums| {
            let part = in_default_environment(|| add_columns(self.rule.rule.isa, added, row, step, start, sums));
            // mutant: shared-columns-not-certified
            certificate.lock().expect("nothing panics while it holds this lock").merge(&part);
        });
        let certificate = certificate.into_inner().expect("nothing panics while it holds this lock");
        let is_certified = self.rule.is_certified(step, certificate.products(), certificate.integers());
        is_certified.then_some(u64::from(within))
    }
}

/// Blocks of a row that threads measure, and their sums of squares.
struct Blocks<'a, T> {
    blocks: Vec<(&'a [T], f64)>,
}

impl<'a, T: Float> Blocks<'a, T> {
    /// Returns room for the blocks of a row.
    fn for_pieces(pieces: &[Piece<'a, T>]) -> Result<Self, Error> {
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(pieces.iter().map(|piece| piece.width.div_ceil(measure::BLOCK_ELEMENTS)).sum())?;
        Ok(Self { blocks })
    }

    /// Returns the sum of squares of a row: the bits of [`measure::add_squares`], by blocks shared among threads.
    fn measure(&mut self, isa: Isa, pieces: &[Piece<'a, T>], row: usize, threads: NonZeroUsize) -> f64 {
        self.blocks.clear();
        let blocks = plain::row(pieces, row).flat_map(|leaf| leaf.chunks(measure::BLOCK_ELEMENTS));
        self.blocks.extend(blocks.map(|block| (block, 0.0)));
        for_each_block(&mut self.blocks, COLUMNS_PER_TASK / measure::BLOCK_ELEMENTS, threads, |_, blocks| {
            in_default_environment(|| {
                for (block, total) in blocks {
                    add_powers(isa, Power::Second, block, block.len(), 1.0, core::slice::from_mut(total));
                }
            });
        });
        self.blocks.iter().fold(0.0, |sum, (_, block)| sum + block)
    }
}

/// Adds columns `start..` of one row, as many as there are sums.
fn add_columns<T: Float>(
    isa: Isa,
    pieces: &[Piece<'_, T>],
    row: usize,
    step: Step,
    start: usize,
    sums: &mut [i64],
) -> Certificate {
    let mut certificates = [Certificate::default()];
    let columns = start..start + sums.len();
    let tile = Tile { pieces, first: row, columns, steps: &[step], next: row };
    add_rows::add(isa, tile, sums, &mut certificates);
    let [certificate] = certificates;
    certificate
}

/// Returns the rows of the next tile, if they can be measured while rows of this one, of one leaf, are added.
fn next_tile<'a, T: Float>(
    pieces: &[Piece<'a, T>],
    tile: &Range<usize>,
    next: &Range<usize>,
    steps: &[Step],
) -> Option<NextTile<'a, T>> {
    let [piece] = pieces else { return None };
    let are_four = tile.len() == fused_measure::FUSED_ROWS && next.len() == fused_measure::FUSED_ROWS;
    let are_plain = steps.iter().all(|step| matches!(step, Step::Add { .. }));
    (are_four && are_plain).then(|| NextTile::new(piece, next.start))
}

/// Adds `count` rows to `sums` by `add`, which adds some of them on one thread, to sums of its own.
fn add_on_threads(
    count: usize,
    sums: &mut [i64],
    threads: NonZeroUsize,
    add: impl Fn(Range<usize>, &mut [i64]) -> Result<Option<u64>, Error> + Sync,
) -> Result<Option<u64>, Error> {
    let share = count.div_ceil(threads.get());
    let mut parts: Vec<_> = (0..count).step_by(share).map(|start| (Vec::new(), start, Ok(None))).collect();
    for_each_block(&mut parts, 1, threads, |_, part| {
        for (part, start, within) in part {
            *within = part.try_reserve_exact(sums.len()).map_err(Error::from).and_then(|()| {
                part.resize(sums.len(), 0);
                // mutant: thread-rows-added-twice
                in_default_environment(|| add(*start..count.min(*start + share), part))
            });
        }
    });
    let within = parts.iter().map(|(_, _, within)| within.clone()).collect::<Result<Vec<_>, Error>>()?;
    for (part, _, _) in &parts {
        for (sum, more) in sums.iter_mut().zip(part) {
            *sum = sum.wrapping_add(*more); // cannot wrap: the count bounds it
        }
    }
    Ok(within.into_iter().sum())
}

/// Returns an empty vector for pieces of other data, with the memory of this one.
fn recycled<'a, 'b, T>(mut pieces: Vec<Piece<'a, T>>) -> Vec<Piece<'b, T>> {
    pieces.clear();
    // In place: the two types differ in a lifetime alone.
    pieces.into_iter().map(|_| unreachable!("there is none")).collect()
}

/// Returns how many of so many rows are in whole panels.
fn whole_panels(rows: usize) -> usize {
    rows / PANEL_ROWS * PANEL_ROWS
}
