//! How rows get into sums: tile by tile on one thread, shared by rows or by columns among several.
//!
//! Whatever the way, a row's norm is that of [`super::measure`] and its integers are those of [`super::quantize`], so the
//! sums are the same.

use core::num::NonZeroUsize;
use core::ops::Range;
use std::sync::Mutex;

use super::brought;
use super::clip_norm::{ClipNorm, Stability};
use super::close::{self, Only};
use super::columns::{CACHED_BYTES, PANEL};
use super::coming::UNCACHED;
use super::decide::{Rule, scale_of};
use super::element::Float;
use super::error_budget::ErrorBudget;
use super::foreign::Foreign;
use super::gathering::Gathering;
use super::meanwhile::{self, Meanwhile};
use super::measure::{self, Power, add_powers};
use super::narrow::{MOST_COLUMNS, lie_well};
use super::quantize::{self, Certificate, Step, TOGETHER, Tile};
use super::rows::{Ahead, Piece, Rows};
use super::scattered::Scattered;
use super::shares;
use super::side_by_side::SideBySide;
use super::steps::{Steps, Together, begins_far};
use super::turn::{self, FOUR};
use crate::blocks::for_each_block;
use crate::isa::Isa;
use crate::math::float_environment::in_default_environment;

/// Rows that are measured before the first of them is added, in bytes: they and the next tile stay in cache; where all come from
/// memory, in the nearest one, if it holds as many as are added together.
const TILE_BYTES: [usize; 2] = [1 << 18, 1 << 14];

/// Up to this many bytes, as many rows as are added together make a tile anyway: they share one pass over the sums.
pub(super) const TOGETHER_BYTES: usize = 1 << 21;

/// The same where other rows are measured while these are added.
const MEANWHILE_BYTES: usize = 1 << 23;

/// Rows that are brought at a time, in bytes: where all are in a cache, and from memory, where less is asked for at a time.
const BROUGHT_BYTES: [usize; 2] = [1 << 16, 1 << 15];

/// From memory so many rows at least, as far as the bytes of a cache go: what is done once for all of them is little then.
const BROUGHT_ROWS: usize = 32;

/// One row of so many bytes is measured while it is brought, if its squares may overflow.
const LONG_BYTES: usize = 1 << 18;

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

/// The least columns of rows that are added one after the other where they lie so, and not in panels: of elements whose squares
/// fit, and of others, with AVX2 or NEON, and with AVX-512: there, more than are measured in rows ([`super::narrow`]).
const ALONE: [[usize; 2]; 2] = [[64, 113], [80, 80]];

/// How many of these are added in panels where rows near the bound are met, which panels tell sooner.
const NEAR: usize = 1 << 13;

/// The most columns of rows in a cache that are added in panels of all columns where those lie one after the other.
const BESIDE: usize = 256;

/// Bytes of such a panel from memory, at most: it is in a second-level cache together with its copy and with those that come.
const PANEL_BYTES: usize = 7 << 15;

/// Open rows of a tile that are told together, at least.
const OPEN: usize = 4;

/// Columns from which on threads share the columns of one row, and not the rows: sums of their own would cost them more.
const WIDE: usize = 1 << 21;

/// Columns that a thread adds at a time.
const SHARE: usize = 1 << 15;

/// How rows are cut into tiles.
struct Tiling {
    /// Rows in a tile.
    size: usize,
    /// Rows of the next tile that are fetched while one is added; without any, leaves are fetched one after the other.
    ahead: usize,
    /// Whether a tile is rows that are added together while the next ones are measured.
    overlaps: bool,
}

/// Rows on their way into sums. Methods that add return how many rows were within the clip norm, if all were certified.
/// They run in the default floating-point environment, which threads do not share.
pub(super) struct Adding<'a, T> {
    steps: Steps,
    readings: [&'a Rows<'a, T>; 2],
    /// Where rows lie that come next, leaf by leaf, if these were brought from elsewhere.
    next: (&'a [Foreign<'a>], Range<usize>),
}

impl<'a, T: Float> Adding<'a, T> {
    /// Rows to be added: measured as in the first reading, summed as in the second.
    pub(super) fn new(isa: Isa, clip: ClipNorm, stability: Option<Stability>, readings: [&'a Rows<'a, T>; 2]) -> Self {
        let budget = ErrorBudget::new(readings[0].leaves().iter().map(|leaf| leaf.width));
        let rule = Rule { isa, power: Power::Second, bound: clip.value(), stability, budget };
        Self { steps: Steps { rule, clip }, readings, next: (&[], 0..0) }
    }

    /// Returns what is fetched while these rows are added, of which so many come next.
    fn ahead(&self, tile: &Range<usize>, next: &Range<usize>) -> Vec<Ahead> {
        let (leaves, rows) = &self.next;
        let row = rows.start + tile.start;
        if row < rows.end {
            return leaves.iter().map(|leaf| leaf.ahead(row)).collect();
        }
        let leaves = if next.is_empty() { &[] } else { self.readings[1].leaves() };
        leaves.iter().map(|leaf| leaf.ahead(next.start)).collect()
    }

    /// Adds all rows to `sums`, on up to `threads` threads.
    pub(super) fn add(&self, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let rows = self.readings[0];
        let count = rows.count();
        if threads.get() == 1 || count == 0 {
            return self.add_tiles(0..count, sums, &mut Together::default());
        }
        if sums.len() >= WIDE || count < 2 * threads.get() {
            if !rows.is_plain() {
                return self.add_tiles(0..count, sums, &mut Together::default());
            }
            return (0..count).try_fold(0, |within, row| Some(within + self.add_row(row, sums, threads)?));
        }
        shares::add(count, sums, threads, |rows, part| self.add_tiles(rows, part, &mut Together::default()))
    }

    /// Returns how rows are cut into tiles: measured, and without effect on any sum.
    fn tiling(&self) -> Tiling {
        let (width, leaves) = (self.readings[0].width(), self.readings[0].leaves().len());
        let bytes = (width * size_of::<T>()).max(1);
        let are_large = bytes.saturating_mul(self.readings[0].count()) > CACHED_BYTES;
        let [near, nearest] = TILE_BYTES.map(|most| most / bytes);
        let most = match nearest {
            TOGETHER.. if !are_large => near,
            // Whole eights.
            8.. => nearest / 8 * 8,
            TOGETHER.. => TOGETHER,
            _ => near,
        };
        // Memory is asked all the time: for rows that are measured meanwhile, or fetched.
        let overlaps = meanwhile::pays::<T>(self.steps.rule.isa);
        let together_bytes = if overlaps { MEANWHILE_BYTES } else { TOGETHER_BYTES };
        if are_large && leaves == 1 && nearest < TOGETHER && TOGETHER * bytes <= together_bytes {
            return Tiling { size: TOGETHER, ahead: TOGETHER, overlaps };
        }
        let size = most.max((TOGETHER_BYTES / bytes).min(TOGETHER)).clamp(1, TILE_ROWS);
        let ahead = if bytes <= AHEAD_BYTES { size } else { 0 };
        if leaves < 2 || bytes > AHEAD_BYTES {
            return Tiling { size, ahead, overlaps: false };
        }
        let pieces = PIECE_BYTES.div_ceil((bytes / leaves).max(1)).min(MOST_BYTES / bytes);
        let size = size.max(pieces.min(PIECES).next_multiple_of(TOGETHER));
        Tiling { size, ahead: size, overlaps: false }
    }

    /// Returns whether whole panels of few columns can be made of rows.
    fn are_narrow(&self) -> bool {
        let [leaf] = self.readings[0].leaves() else { return false };
        let strides = leaf.strides();
        // Two readings only where there may be two: in panels that are copied there are not.
        let lies = self.steps.rule.isa.is_wide() && lie_well(&strides, leaf.width);
        let are_well = lies || core::ptr::eq(self.readings[0], self.readings[1]);
        let bytes = (leaf.width * size_of::<T>()).saturating_mul(self.readings[0].count());
        let most = match strides.row {
            1 if bytes > CACHED_BYTES => MOST_COLUMNS.min(PANEL_BYTES / size_of::<turn::Turned<T>>()),
            1 => BESIDE,
            _ => turn::MOST,
        };
        are_well && self.steps.rule.isa.is_native() && (1..=most).contains(&leaf.width) && strides.axes.len() <= 1
    }

    /// Whether so many rows are added side by side, in vectors that hold a column of several rows.
    fn go_side_by_side(&self, count: usize) -> bool {
        let rows = self.readings[0];
        let is_short = rows.leaves().len() == 1 && rows.width() <= SHORT;
        count >= PANEL && (is_short || rows.leaves().iter().all(Piece::lies_by_columns))
    }

    /// Adds rows side by side on one thread.
    fn add_side_by_side(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let [first, second] = self.readings;
        let foreign =
            |rows: &Rows<'a, T>| -> Vec<_> { rows.leaves().iter().map(|leaf| Foreign::of(&leaf.strides())).collect() };
        let leaves = foreign(first);
        let others = if core::ptr::eq(first, second) { None } else { Some(foreign(second)) };
        let readings = [&leaves[..], others.as_deref().unwrap_or(&leaves)];
        SideBySide::<T>::new(self.steps, readings, first.width(), rows.len()).add(rows, sums)
    }

    /// Adds rows of few columns on one thread; whole panels of them.
    fn add_narrow(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let [leaf, again] = self.readings.map(|rows| rows.leaves()[0].strides());
        if leaf.turns_in_place() {
            return self.steps.add_narrow([&leaf, &again], rows, &mut || None, sums);
        }
        brought::visit::<T, _>(self.steps.rule.isa, &Foreign::of(&leaf), rows, |leaf, more| {
            self.steps.add_narrow([leaf; 2], 0..0, more, sums)
        })
    }

    /// Returns the rows of the next tile, if they can be measured while rows of this one leaf are added.
    fn meanwhile(&self, tile: &Range<usize>, next: &Range<usize>, steps: &[Step]) -> Option<Meanwhile<'a, T>> {
        let [leaf] = self.readings[0].leaves() else { return None };
        let are_four = tile.len() == meanwhile::ROWS && next.len() == meanwhile::ROWS;
        let are_plain = steps.iter().all(|step| matches!(step, Step::Add { .. }));
        // Of rows whose squares overflow, magnitudes are looked at first.
        (are_four && are_plain && !begins_far(leaf.rows(next.start..next.end)))
            .then(|| Meanwhile::new(leaf, next.start))
    }

    /// Adds rows on one thread, tile by tile.
    pub(super) fn add_tiles(&self, rows: Range<usize>, sums: &mut [i64], together: &mut Together) -> Option<u64> {
        let are_narrow = self.are_narrow();
        let alone = ALONE[usize::from(!T::SQUARES_FIT)][usize::from(self.steps.rule.isa.is_wide())];
        let are_alone = self.readings[0].is_plain() && self.readings[0].width() >= alone;
        let panels = rows.start + if are_narrow && !are_alone { whole(rows.len()) } else { 0 };
        if panels > rows.start {
            let within = self.add_narrow(rows.start..panels, sums)?;
            return Some(within + self.add_tiles(panels..rows.end, sums, together)?);
        }
        if self.go_side_by_side(rows.len()) {
            return self.add_side_by_side(rows, sums);
        }
        let is_one = core::ptr::eq(self.readings[0], self.readings[1]);
        if let Some((spots, runs)) = self.readings[0].spots().filter(|_| is_one && self.steps.rule.isa.is_native()) {
            // SAFETY: the elements are those of the rows, which can be read.
            let scattered = unsafe { Scattered::<T>::new(&spots, &runs, self.readings[0].count()) };
            return Gathering { rows: scattered, steps: self.steps }.add_rows(rows, sums);
        }
        if !self.readings[0].is_plain() {
            let leaves: Vec<_> = self.readings[0].leaves().iter().map(|leaf| Foreign::of(&leaf.strides())).collect();
            return Self::add_brought(self.steps, &leaves, rows, TOGETHER_BYTES, sums, together);
        }
        let Tiling { size, ahead, overlaps } = self.tiling();
        let (mut within, mut measured) = (0, None::<[f64; meanwhile::ROWS]>);
        let mut start = rows.start;
        while start < rows.end {
            let tile = start..rows.end.min(start + size);
            let next = tile.end..rows.end.min(tile.end + ahead);
            match measured.take() {
                Some(totals) => together.begin(totals.len()).copy_from_slice(&totals),
                None => self.steps.measure(self.readings[0], start, tile.len(), together),
            }
            let open = self.steps.compare::<T>(together);
            let panels = if are_narrow { whole(NEAR.min(rows.end - start)) } else { 0 };
            if panels > 0 && open * 8 > tile.len() {
                within += self.add_narrow(start..start + panels, sums)?;
                // mutant: tile-after-panels-begins
                start += panels;
                continue;
            }
            if !T::SQUARES_FIT && open >= OPEN && self.steps.rule.isa.is_native() {
                self.steps.tell_open(self.readings[0], start, together);
            }
            within += Steps::decide(together, |row, total| self.step(start + row, total));
            let meanwhile = if overlaps { self.meanwhile(&tile, &next, &together.steps) } else { None };
            let Together { steps, certificates, .. } = &mut *together;
            let (isa, columns) = (self.steps.rule.isa, 0..sums.len());
            // Of `f64` with AVX-512, the CPU asks better by itself while rows are measured.
            let ahead = if overlaps && !T::SQUARES_FIT { Vec::new() } else { self.ahead(&tile, &next) };
            let ahead = &ahead[..];
            let tile = Tile { rows: self.readings[1], first: start, columns, steps, ahead };
            if let Some(mut meanwhile) = meanwhile {
                quantize::add_meanwhile(isa, tile, sums, certificates, &mut meanwhile);
                measured = Some(meanwhile.totals());
            } else {
                quantize::add(isa, tile, sums, certificates);
            }
            if !self.steps.are_certified(together) {
                return None;
            }
            start += together.steps.len();
        }
        Some(within)
    }

    /// Adds rows on one thread, brought to where they lie one after the other: some of them at a time, in `room` bytes where they are long,
    /// or one.
    pub(super) fn add_brought(
        steps: Steps,
        leaves: &[Foreign<'_>],
        rows: Range<usize>,
        room: usize,
        sums: &mut [i64],
        together: &mut Together,
    ) -> Option<u64> {
        let bytes = (sums.len() * size_of::<T>()).max(1);
        if !T::SQUARES_FIT && rows.len() == 1 && bytes >= LONG_BYTES {
            return Self::add_long(steps, leaves, rows.start, sums);
        }
        let [near, far] = BROUGHT_BYTES;
        let is_near = rows.len().saturating_mul(bytes) < UNCACHED;
        let most = if is_near { near } else { near.min(BROUGHT_ROWS * bytes).max(far) };
        // Of columns, four rows are turned together in less time than one, and the next four are in the same lines.
        let turned = leaves.iter().any(|leaf| leaf.width() > 1 && leaf.lies_by_columns());
        let (few, at_most) = if turned { (room / bytes, 2 * FOUR) } else { (TOGETHER_BYTES / bytes, TOGETHER) };
        let size = (most / bytes / TOGETHER * TOGETHER).max(few.clamp(1, at_most));
        let size = size.min(rows.len());
        // Rows that would be too few to be turned together come with those before.
        let rest = rows.len() % size.max(1);
        let comes = size < rows.len() && size >= FOUR && rest < FOUR && (size + rest) * bytes <= room + room / 2;
        let rest = if comes { rest } else { 0 };
        let mut brought = Vec::<T>::with_capacity((size + rest) * sums.len());
        let place = brought.as_mut_ptr();
        let mut within = 0;
        for start in rows.clone().step_by(size.max(1)).take((rows.len() - rest).div_ceil(size.max(1))) {
            let end = rows.end.min(start + size);
            let block = start..if rows.end - end == rest { rows.end } else { end };
            let mut offset = 0;
            let brought = leaves.iter().map(|leaf| {
                let (to, width) = (place.wrapping_add(offset * (size + rest)), leaf.width());
                offset += width;
                // SAFETY: there is room for as many rows of this leaf behind those of the leaves before, and nothing refers
                // to what lay there.
                unsafe { leaf.bring(steps.rule.isa, block.clone(), 0..width, to, [width, 1]) };
                // SAFETY: the elements that were just written.
                let data = unsafe { core::slice::from_raw_parts(to.cast_const(), block.len() * width) };
                (data, width)
            });
            let brought = Rows::new(brought, block.len()).expect("as many as the block has");
            let adding = Adding { steps, readings: [&brought; 2], next: (leaves, block.end..rows.end) };
            within += adding.add_tiles(0..block.len(), sums, together)?;
        }
        Some(within)
    }

    /// Adds one row, brought piece by piece: each is measured while the nearest cache holds it.
    fn add_long(steps: Steps, leaves: &[Foreign<'_>], row: usize, sums: &mut [i64]) -> Option<u64> {
        let Rule { isa, power, .. } = steps.rule;
        let mut brought = Vec::<T>::with_capacity(sums.len());
        let room = brought.as_mut_ptr();
        let mut place = room;
        let bring = |leaf: &Foreign<'_>, columns: Range<usize>, place: *mut T| {
            let count = columns.len();
            // SAFETY: there is room for the columns of all leaves, and nothing refers to what lay there.
            unsafe { leaf.bring(isa, row..row + 1, columns, place, [count, 1]) };
            // SAFETY: the elements that were just written.
            unsafe { core::slice::from_raw_parts(place.cast_const(), count) }
        };
        let mut pieces = leaves.iter().flat_map(|leaf| {
            let firsts = (0..leaf.width()).step_by(measure::BLOCK);
            firsts.map(move |first| (leaf, first..leaf.width().min(first + measure::BLOCK)))
        });
        let mut pieces = core::iter::from_fn(|| {
            let (leaf, columns) = pieces.next()?;
            let piece = bring(leaf, columns, place);
            place = place.wrapping_add(piece.len());
            Some(piece)
        });
        let first = pieces.next().unwrap_or_default();
        let is_far = isa.is_native() && begins_far(first);
        // One element may be all that there is.
        let is_sparse = isa.is_native() && first.iter().all(|x| x.widen() == 0.0);
        let (mut largest, mut total, mut only) = (0.0, [0.0], [Only::default()]);
        let pieces = core::iter::once(first).chain(pieces);
        if is_far {
            largest = measure::largest_magnitude(isa, pieces);
        } else {
            // mutant: first-piece-measured-twice
            pieces.for_each(|piece| {
                add_powers(isa, power, piece, piece.len(), 1.0, &mut total);
                if is_sparse {
                    close::find_only(isa, piece, piece.len(), &[0], &mut only);
                }
            });
        }
        let mut start = room.cast_const();
        let whole = leaves.iter().map(|leaf| {
            // SAFETY: the elements of this leaf, all of which were written.
            let data = unsafe { core::slice::from_raw_parts(start, leaf.width()) };
            start = start.wrapping_add(leaf.width());
            (data, leaf.width())
        });
        let rows = Rows::new(whole, 1).expect("one row");
        let adding = Adding { steps, readings: [&rows; 2], next: (&[], 0..0) };
        let mut decision = None;
        if is_far {
            if largest.is_finite() {
                let scale = scale_of(largest);
                rows.row(0).for_each(|leaf| add_powers(isa, power, leaf, leaf.len(), scale, &mut total));
            }
            decision = steps.rule.decide_measured(largest, total[0]);
            // Squares overflow.
            total[0] = f64::INFINITY;
        } else if is_sparse && steps.rule.is_near(total[0]) && !steps.rule.is_far::<T>(total[0]) {
            let told = only[0].size().and_then(|size| size.partial_cmp(&steps.rule.bound));
            decision = told.map(|told| steps.rule.decide_told(total[0], told));
        }
        let (step, is_within) = decision.map_or_else(|| adding.step(0, total[0]), |decision| steps.of(decision));
        let certificate = adding.add_columns(0, step, 0, sums);
        steps.certified(step, &certificate).then_some(u64::from(is_within))
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
                    add_powers(self.steps.rule.isa, Power::Second, block, block.len(), 1.0, total);
                }
            });
        });
        totals.iter().fold(0.0, |sum, block| sum + block)
    }

    /// Adds columns `start..` of one row, as many as there are sums.
    fn add_columns(&self, row: usize, step: Step, start: usize, sums: &mut [i64]) -> Certificate {
        let mut certificates = [Certificate::default()];
        let columns = start..start + sums.len();
        let tile = Tile { rows: self.readings[1], first: row, columns, steps: &[step], ahead: &[] };
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
