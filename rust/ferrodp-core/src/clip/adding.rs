//! How rows get into sums: tile by tile on one thread, shared by rows or by columns among several.
//!
//! Whatever the way, a row's norm is that of [`super::measure`] and its integers are those of [`super::quantize`], so the
//! sums are the same.

use core::num::NonZeroUsize;
use core::ops::Range;
use std::sync::Mutex;

use super::brought;
use super::clip_norm::{ClipNorm, Stability};
use super::close::Cut;
use super::columns::{Columns, PANEL};
use super::decide::{Decision, Rule};
use super::element::{Element, Float};
use super::error_budget::ErrorBudget;
use super::foreign::{self, Foreign};
use super::gathering::Gathering;
use super::measure::{self, Power};
use super::panel::Panels;
use super::quantize::{self, Certificate, Step, TOGETHER, Tile};
use super::rows::{Piece, Rows, Strided};
use super::scattered::Scattered;
use super::shares;
use super::steps::{Steps, Together};
use super::turn;
use crate::blocks::for_each_block;
use crate::isa::Isa;
use crate::math::float_environment::in_default_environment;

/// Rows that are measured before the first of them is added, in bytes: they and the next tile stay in cache.
const TILE_BYTES: usize = 1 << 18;

/// Up to this many bytes, as many rows as are added together make a tile anyway: they share one pass over the sums.
const TOGETHER_BYTES: usize = 1 << 21;

/// Bytes of rows that are copied at a time to be decided one by one, at most.
const COPIED_BYTES: usize = 1 << 20;

/// Rows of more bytes are not fetched ahead: they would push out the row that is being added.
const AHEAD_BYTES: usize = 1 << 21;

/// Bytes of each leaf that a tile should have, if it has at most so many rows, and so many bytes: shorter pieces are over
/// before the CPU sees a stream of addresses, and what is fetched has to stay in a cache until it is measured.
const PIECE_BYTES: usize = 6 << 10;
const PIECES: usize = 16;
const MOST_BYTES: usize = 1 << 23;

/// The most rows in a tile.
const TILE_ROWS: usize = 64;

/// Rows of up to so many columns are brought to lie side by side.
const SHORT: usize = 16;

/// The least columns of rows that are added one after the other where they lie so, and not in panels.
const ALONE: usize = 64;

/// How many of these are added in panels where rows near the bound are met, which panels tell sooner.
const NEAR: usize = 1 << 13;

/// Bytes of rows that are brought to lie side by side, or lie so, before the first of them is added.
const SHORT_BYTES: usize = 1 << 16;
const SIDE_BY_SIDE_BYTES: usize = 1 << 19;

/// The least and the most rows side by side that are added at a time where they lie: enough for a column's to be a stream.
const SIDE_BY_SIDE_ROWS: [usize; 2] = [256, 512];

/// Columns from which on threads share the columns of one row, and not the rows: sums of their own would cost them more.
const WIDE: usize = 1 << 21;

/// Columns that a thread adds at a time.
const SHARE: usize = 1 << 15;

/// What tells rows near the bound, side by side, from those beyond it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Sums of twice the precision.
    Near,
    /// The magnitude of their only element.
    Single,
    /// Sums of twice the precision that are exact.
    Ties,
}

/// How rows are cut into tiles.
struct Tiling {
    /// Rows in a tile.
    size: usize,
    /// Rows of the next tile that are fetched while one is added; without any, leaves are fetched one after the other.
    ahead: usize,
}

/// Rows on their way into sums. Methods that add return how many rows were within the clip norm, if all were certified.
/// They run in the default floating-point environment, which threads do not share.
pub(super) struct Adding<'a, T> {
    steps: Steps,
    readings: [&'a Rows<'a, T>; 2],
}

impl<'a, T: Float> Adding<'a, T> {
    /// Rows to be added: measured as in the first reading, summed as in the second.
    pub(super) fn new(isa: Isa, clip: ClipNorm, stability: Option<Stability>, readings: [&'a Rows<'a, T>; 2]) -> Self {
        let budget = ErrorBudget::new(readings[0].leaves().iter().map(|leaf| leaf.width));
        let rule = Rule { isa, power: Power::Second, bound: clip.value(), stability, budget };
        Self { steps: Steps { rule, clip }, readings }
    }

    /// Adds all rows to `sums`, on up to `threads` threads.
    pub(super) fn add(&self, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let rows = self.readings[0];
        let count = rows.count();
        if threads.get() == 1 || count == 0 {
            return self.add_tiles(0..count, sums);
        }
        if sums.len() >= WIDE || count < 2 * threads.get() {
            if !rows.is_plain() {
                return self.add_tiles(0..count, sums);
            }
            return (0..count).try_fold(0, |within, row| Some(within + self.add_row(row, sums, threads)?));
        }
        shares::add(count, sums, threads, |rows, part| self.add_tiles(rows, part))
    }

    /// Returns how rows are cut into tiles: measured, and without effect on any sum.
    fn tiling(&self) -> Tiling {
        let (width, leaves) = (self.readings[0].width(), self.readings[0].leaves().len());
        let bytes = (width * size_of::<T>()).max(1);
        let size = (TILE_BYTES / bytes).max((TOGETHER_BYTES / bytes).min(TOGETHER)).clamp(1, TILE_ROWS);
        let ahead = if bytes <= AHEAD_BYTES { size } else { 0 };
        if leaves < 2 || bytes > AHEAD_BYTES {
            return Tiling { size, ahead };
        }
        let pieces = PIECE_BYTES.div_ceil((bytes / leaves).max(1)).min(MOST_BYTES / bytes);
        let size = size.max(pieces.min(PIECES).next_multiple_of(TOGETHER));
        Tiling { size, ahead: size }
    }

    /// Returns whether whole panels of few columns can be made of rows.
    fn are_narrow(&self) -> bool {
        let is_one = core::ptr::eq(self.readings[0], self.readings[1]);
        let [leaf] = self.readings[0].leaves() else { return false };
        is_one
            && self.steps.rule.isa.is_native()
            && (1..=turn::MOST).contains(&leaf.width)
            && leaf.strides().axes.len() <= 1
    }

    /// Returns how many of so many rows are added side by side, in vectors that hold a column of several rows.
    fn side_by_side(&self, count: usize) -> usize {
        let rows = self.readings[0];
        let is_short = rows.leaves().len() == 1 && rows.width() <= SHORT;
        if count < PANEL || !(is_short || rows.leaves().iter().all(|leaf| leaf.strides().lies_by_columns())) {
            return 0;
        }
        count
    }

    /// Returns whether columns of rows can be read where they lie.
    fn lies_in_columns(&self) -> bool {
        self.readings[0].leaves().iter().all(|leaf| leaf.strides().column_stride().is_some())
    }

    /// Adds rows side by side on one thread.
    fn add_side_by_side(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let steps_per_unit = self.steps.clip.granularity().reciprocal();
        let leaves = self.readings[0].leaves();
        let readings = self.readings.map(|rows| rows.leaves().iter().map(|leaf| leaf.strides()).collect::<Vec<_>>());
        let is_one = core::ptr::eq(self.readings[0], self.readings[1]);
        let in_place = self.lies_in_columns();
        let width = self.readings[0].width();
        let bytes = (width * size_of::<T>()).max(1);
        let [least, most] = SIDE_BY_SIDE_ROWS;
        let size = if in_place { (SIDE_BY_SIDE_BYTES / bytes).max(least) } else { SHORT_BYTES / bytes };
        let size = size.clamp(PANEL, most).next_multiple_of(PANEL).min(rows.len().next_multiple_of(PANEL));
        let mut buffer = vec![T::default(); if in_place { 0 } else { width * size }];
        let (mut within, mut panels, mut copies) = (0, Panels::default(), Vec::new());
        let (low, high) = self.steps.rule.trusted::<T>();
        let mut expected = By::Near;
        let mut tried = Vec::new();
        // What is read where it lies are whole panels: the last one may begin with rows that were added before.
        let rest = if in_place { rows.len() % PANEL } else { 0 };
        let whole = rows.start..rows.end - rest;
        let last = (rest > 0).then(|| (rows.end - PANEL..rows.end, PANEL - rest));
        for (group, known) in
            whole.clone().step_by(size).map(|start| (start..whole.end.min(start + size), 0)).chain(last)
        {
            let start = group.start;
            panels.begin(group.len(), known);
            for (leaf, strides) in leaves.iter().zip(&readings[0]) {
                let room = (!in_place).then(|| &mut buffer[leaf.offset * size..(leaf.offset + leaf.width) * size]);
                panels.measure(self.steps.rule.isa, columns(strides, &group, leaf.width, room, size));
            }
            within += panels.decide::<T>(&self.steps.rule, steps_per_unit);
            let open = panels.open();
            // Few rows are sooner decided one by one.
            let are_many = |rows: usize| rows * 16 > group.len();
            let again = |i: usize| {
                let (leaf, strides): (&Piece<'_, T>, &Strided<'_, T>) = (&leaves[i], &readings[0][i]);
                match in_place {
                    true => strides.side_by_side(group.clone()),
                    false => Columns::gathered(&buffer[leaf.offset * size..], size, leaf.width),
                }
            };
            let is_near = |total: f64| total >= low && total <= high;
            let near = open.iter().filter(|(_, total)| is_near(*total)).count();
            let mut told: Vec<Option<Decision>> = vec![None; open.len()];
            // What told rows of the last group is tried first.
            let mut ways = [By::Near, By::Single, By::Ties];
            ways.sort_by_key(|way| *way != expected);
            for by in ways {
                let untold =
                    open.iter().zip(&told).filter(|((_, total), told)| told.is_none() && is_near(*total)).count();
                // Sums of squares that fit are exact, and tell all of them.
                if !are_many(untold) || (by != By::Ties && T::SQUARES_FIT) {
                    continue;
                }
                let cut = if by == By::Single {
                    panels.begin_single();
                    (0..leaves.len()).for_each(|i| panels.measure_single(self.steps.rule.isa, again(i)));
                    None
                } else {
                    let cut = Cut::new(self.steps.rule.power, self.steps.rule.bound);
                    cut.filter(|cut| {
                        panels.begin_closely();
                        let (isa, ties) = (self.steps.rule.isa, by == By::Ties);
                        (0..leaves.len()).all(|i| panels.measure_closely(isa, again(i), *cut, ties))
                    })
                };
                for ((open, total), told) in open.iter().zip(&mut told) {
                    if told.is_some() || !is_near(*total) {
                        continue;
                    }
                    let compared = match cut {
                        Some(cut) => cut.tell(panels.near(*open), width, width),
                        None if by == By::Single => {
                            panels.single(*open).and_then(|size| size.partial_cmp(&self.steps.rule.bound))
                        }
                        None => None,
                    };
                    expected = if compared.is_some() { by } else { expected };
                    *told = compared.map(|compared| self.steps.rule.decide_told(*total, compared));
                }
            }
            // Squares that do not fit are formed again.
            if !T::SQUARES_FIT && are_many(open.len() - near) {
                panels.begin_far();
                (0..leaves.len()).for_each(|i| panels.measure_largest(self.steps.rule.isa, again(i)));
                if panels.begin_scaled(&self.steps.rule) {
                    (0..leaves.len()).for_each(|i| panels.measure_scaled(self.steps.rule.isa, again(i)));
                }
                for ((open, total), told) in open.iter().zip(&mut told) {
                    if !is_near(*total) {
                        let (largest, total) = panels.far(*open);
                        *told = self.steps.rule.decide_measured(largest, total);
                    }
                }
            }
            // Cache lines of columns hold elements of several rows.
            let undecided = told.iter().filter(|told| told.is_none()).count();
            let size_of_copy = if are_many(undecided) && PANEL * bytes <= COPIED_BYTES { PANEL } else { 1 };
            let mut copied = 0..0;
            for ((open, total), told) in open.into_iter().zip(told) {
                let decision = told.unwrap_or_else(|| {
                    if !copied.contains(&open) {
                        let first = open / size_of_copy * size_of_copy;
                        copied = first..group.len().min(first + size_of_copy);
                        copies.resize(width * size_of_copy, T::default());
                        for (leaf, strides) in leaves.iter().zip(&readings[0]).filter(|(leaf, _)| leaf.width > 0) {
                            let rows = start + copied.start..start + copied.end;
                            foreign::rows(strides, rows, &mut copies[leaf.offset..], width);
                        }
                    }
                    let row = &copies[(open - copied.start) * width..][..width];
                    self.steps.rule.decide(total, leaves.iter().map(|leaf| &row[leaf.offset..leaf.offset + leaf.width]))
                });
                within += u64::from(decision.within);
                panels.settle(open, decision, steps_per_unit);
            }
            let products = self.steps.rule.budget.certified(self.steps.clip.in_grid_steps());
            loop {
                // Where squares of integers may turn out to be needed, what is added can be forgotten.
                let is_trial = panels.may_add_again();
                if is_trial {
                    tried.clear();
                    tried.resize(sums.len(), 0);
                }
                let target = if is_trial { &mut tried[..] } else { &mut *sums };
                for (leaf, strides) in leaves.iter().zip(&readings[1]) {
                    let room = (!in_place).then(|| &mut buffer[leaf.offset * size..(leaf.offset + leaf.width) * size]);
                    let columns = match room {
                        Some(gathered) if is_one => Columns::gathered(gathered, size, leaf.width),
                        room => columns(strides, &group, leaf.width, room, size),
                    };
                    panels.add(self.steps.rule.isa, columns, &mut target[leaf.offset..leaf.offset + leaf.width]);
                }
                let is_certified =
                    panels.certified(self.steps.rule.isa, products, self.steps.clip.largest_sum_of_squares());
                match (is_certified, is_trial) {
                    (true, true) => {
                        for (sum, more) in sums.iter_mut().zip(&tried) {
                            *sum = sum.wrapping_add(*more);
                        }
                    }
                    (true, false) => {}
                    (false, true) => {
                        panels.add_again();
                        continue;
                    }
                    (false, false) => return None,
                }
                break;
            }
        }
        Some(within)
    }

    /// Adds rows of few columns on one thread; whole panels of them.
    fn add_narrow(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let [leaf] = self.readings[0].leaves() else { unreachable!("rows of one leaf") };
        let leaf = leaf.strides();
        if leaf.turns_in_place() {
            return self.steps.add_narrow(&leaf, rows, &mut || 0, sums);
        }
        brought::visit::<T, _>(self.steps.rule.isa, &Foreign::of(&leaf), rows, |leaf, rows, more| {
            self.steps.add_narrow(leaf, rows, more, sums)
        })
    }

    /// Adds rows on one thread, tile by tile.
    fn add_tiles(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let are_narrow = self.are_narrow();
        let are_alone = self.readings[0].is_plain() && self.readings[0].width() >= ALONE;
        let panels = rows.start + if are_narrow && !are_alone { whole(rows.len()) } else { 0 };
        if panels > rows.start {
            let within = self.add_narrow(rows.start..panels, sums)?;
            return Some(within + self.add_tiles(panels..rows.end, sums)?);
        }
        let aside = rows.start + self.side_by_side(rows.len());
        if aside > rows.start {
            let within = self.add_side_by_side(rows.start..aside, sums)?;
            return Some(within + self.add_tiles(aside..rows.end, sums)?);
        }
        let is_one = core::ptr::eq(self.readings[0], self.readings[1]);
        if let Some((spots, runs)) = self.readings[0].spots().filter(|_| is_one && self.steps.rule.isa.is_native()) {
            // SAFETY: the elements are those of the rows, which can be read.
            let scattered = unsafe { Scattered::<T>::new(&spots, &runs, self.readings[0].count()) };
            return Gathering { rows: scattered, steps: self.steps }.add_rows(rows, sums);
        }
        if !self.readings[0].is_plain() {
            return self.add_copies(rows, sums);
        }
        let Tiling { size, ahead } = self.tiling();
        let mut within = 0;
        let mut together = Together::default();
        let mut start = rows.start;
        while start < rows.end {
            let tile = start..rows.end.min(start + size);
            let next = tile.end..rows.end.min(tile.end + ahead);
            measure::add_squares(self.steps.rule.isa, self.readings[0], tile.clone(), together.begin(tile.len()));
            let open = self.steps.compare::<T>(&mut together);
            let panels = if are_narrow { whole(NEAR.min(rows.end - start)) } else { 0 };
            if panels > 0 && open * 8 > tile.len() {
                within += self.add_narrow(start..start + panels, sums)?;
                // mutant: tile-after-panels-begins
                start += panels;
                continue;
            }
            within += Steps::decide(&mut together, |row, total| self.step(start + row, total));
            let Together { steps, certificates, .. } = &mut together;
            let columns = 0..sums.len();
            let tile = Tile { rows: self.readings[1], first: start, columns, steps, ahead: next };
            quantize::add(self.steps.rule.isa, tile, sums, certificates);
            if !self.steps.are_certified(&together) {
                return None;
            }
            start += together.steps.len();
        }
        Some(within)
    }

    /// Adds rows on one thread, copied tile by tile to where they lie one after the other.
    fn add_copies(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let leaves = self.readings[0].leaves();
        let strides: Vec<_> = leaves.iter().map(|leaf| leaf.strides()).collect();
        let Tiling { size, .. } = self.tiling();
        let size = size.min(rows.len()).max(1);
        let mut buffer = vec![T::default(); size * self.readings[0].width()];
        let mut within = 0;
        for start in rows.clone().step_by(size) {
            let tile = start..rows.end.min(start + size);
            let mut rest = &mut buffer[..];
            let mut copies = Vec::with_capacity(leaves.len());
            for (leaf, strides) in leaves.iter().zip(&strides) {
                let (copy, after) = rest.split_at_mut(leaf.width * tile.len());
                foreign::rows(strides, tile.clone(), copy, leaf.width);
                copies.push((&*copy, leaf.width));
                rest = after;
            }
            let copies = Rows::new(copies, tile.len()).expect("as long as the tile");
            let adding = Adding { steps: self.steps, readings: [&copies; 2] };
            within += adding.add_tiles(0..tile.len(), sums)?;
        }
        Some(within)
    }

    /// Adds one row, its columns shared among threads.
    fn add_row(&self, row: usize, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        self.add_measured(row, self.measure(row, threads), sums, threads)
    }

    /// Adds one row with this sum of squares, its columns shared among threads.
    pub(super) fn add_measured(&self, row: usize, total: f64, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let (step, within) = self.step(row, total);
        let certificate = Mutex::new(Certificate::default());
        for_each_block(sums, SHARE, threads, |start, sums| {
            let part = in_default_environment(|| self.add_columns(row, step, start, sums));
            certificate.lock().expect("nothing panics while it holds this lock").merge(&part);
        });
        let certificate = certificate.into_inner().expect("nothing panics while it holds this lock");
        self.steps.certified(step, &certificate).then_some(u64::from(within))
    }

    /// Returns the sum of squares of a row: the bits of [`Adding::add_tiles`], by blocks shared among threads.
    fn measure(&self, row: usize, threads: NonZeroUsize) -> f64 {
        let blocks: Vec<&[T]> = self.readings[0].row(row).flat_map(|leaf| leaf.chunks(measure::BLOCK)).collect();
        let mut totals = vec![0.0; blocks.len()];
        for_each_block(&mut totals, SHARE / measure::BLOCK, threads, |start, totals| {
            in_default_environment(|| {
                for (block, total) in blocks[start..].iter().zip(totals) {
                    let total = core::slice::from_mut(total);
                    measure::add_powers(self.steps.rule.isa, Power::Second, block, block.len(), 1.0, total);
                }
            });
        });
        totals.iter().fold(0.0, |sum, block| sum + block)
    }

    /// Adds columns `start..` of one row, as many as there are sums.
    fn add_columns(&self, row: usize, step: Step, start: usize, sums: &mut [i64]) -> Certificate {
        let mut certificates = [Certificate::default()];
        let columns = start..start + sums.len();
        let tile = Tile { rows: self.readings[1], first: row, columns, steps: &[step], ahead: 0..0 };
        quantize::add(self.steps.rule.isa, tile, sums, &mut certificates);
        let [certificate] = certificates;
        certificate
    }

    /// Returns how a row is added, given its sum of squares, and whether it is within the clip norm.
    fn step(&self, row: usize, total: f64) -> (Step, bool) {
        let leaves = self.readings[0].row(row);
        self.steps.step(total, leaves.clone(), leaves)
    }
}

/// Returns how many of so many rows are in whole panels of few columns.
fn whole(rows: usize) -> usize {
    rows / turn::ROWS * turn::ROWS
}

/// Returns the columns of some rows of a leaf: where they lie, or in the room that they are copied to.
fn columns<'a, T: Element>(
    leaf: &Strided<'a, T>,
    rows: &Range<usize>,
    width: usize,
    room: Option<&'a mut [T]>,
    pitch: usize,
) -> Columns<'a, T> {
    let Some(room) = room else { return leaf.side_by_side(rows.clone()) };
    foreign::columns(leaf, rows.clone(), room, pitch);
    Columns::gathered(room, pitch, width)
}
