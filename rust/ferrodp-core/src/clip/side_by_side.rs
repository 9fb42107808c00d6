//! How rows that lie side by side get into sums: in vectors that hold a column of several rows ([`super::panel`]).
//!
//! So lie the rows of a matrix in Fortran order, which are read where they lie. What no kernel reads there, numbers of 16 bits or in
//! the other byte order, and rows too short to fill vectors, are brought to lie so: all columns of some rows, to be read as often as
//! it takes, if a cache holds enough of them; otherwise some columns after the others, in every pass again.

use core::cmp::Ordering;
use core::ops::Range;

use super::across::{Part, STRIP};
use super::close::Cut;
use super::columns::{CACHED_BYTES, Columns, PANEL};
use super::decide::{Decision, OVERFLOWS, Rule};
use super::element::{Element, Float};
use super::foreign::Foreign;
use super::panel::Panels;
use super::steps::Steps;
use crate::dispatch::CACHE_LINE;
use crate::isa::Isa;

/// Rows that are added at a time, at most, or up to twice as many if these are all: their columns are streams of addresses; fewer where so many, at least,
/// have so few bytes that they stay in a cache.
const ROWS: usize = 512;
const LEAST: usize = 256;
const BYTES: usize = 1 << 19;

/// Bytes of rows that are brought whole, where elements of rows are neighbors and where those of columns are.
const WHOLE_BYTES: [usize; 2] = [1 << 16, 1 << 19];

/// Rows that are sooner brought in strips of all than so few of them whole.
const FEW: usize = 64;

/// Bytes of columns that are brought at a time.
const STRIP_BYTES: usize = 1 << 17;

/// Bytes of rows that a cache of one core keeps from one pass to the next, or more.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes of rows that are copied at a time to be decided one by one, at most.
const COPIED_BYTES: usize = 1 << 20;

/// What tells rows near the bound from those beyond it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Sums of twice the precision.
    Near,
    /// The magnitude of their only element.
    Single,
    /// Sums of twice the precision that are exact.
    Ties,
}

impl By {
    /// Which sums of twice the precision tell most rows.
    fn closely<T: Element>() -> Self {
        if T::SQUARES_FIT { Self::Ties } else { Self::Near }
    }
}

/// Rows on their way into sums; see [`super::adding`].
pub(super) struct SideBySide<'a, 'b, T> {
    steps: Steps,
    /// Measured as in the first reading, summed as in the second.
    readings: [&'a [Foreign<'b>]; 2],
    width: usize,
    /// How many are added at a time.
    size: usize,
    /// Whether all of them come from memory, and whether those of this group were read before.
    are_large: bool,
    is_read: bool,
    /// Where columns are brought.
    room: Room<T>,
    panels: Panels,
    /// What told rows near the bound in the last group that had some.
    told_by: Option<By>,
    /// Whether squares of all rows of the last group overflowed.
    are_far: Option<bool>,
    /// Whether rows of this group were measured closely, column by column as they came, before it was known that some are near
    /// the bound.
    is_close: bool,
    /// Whether that was tried already.
    seemed_near: bool,
    /// Sums of a group that may have to be formed again.
    tried: Vec<i64>,
    /// Rows that are decided one by one.
    copies: Vec<T>,
}

/// Where columns are brought.
struct Room<T> {
    elements: Vec<T>,
    /// Elements from a column to the next.
    pitch: usize,
    /// How many columns come at a time; whole rows if this is none.
    strip: Option<usize>,
    /// Whether it holds these rows already.
    is_filled: bool,
}

impl<'a, 'b, T: Float> SideBySide<'a, 'b, T> {
    /// So many rows of so many columns, at least [`PANEL`].
    pub(super) fn new(steps: Steps, readings: [&'a [Foreign<'b>]; 2], width: usize, count: usize) -> Self {
        let in_place = readings[0].iter().all(|leaf| leaf.side_by_side::<T>(steps.rule.isa, &(0..count)).is_some());
        let by_columns = readings[0].iter().all(|leaf| leaf.width() == 0 || leaf.lies_by_columns());
        let bytes = (width * size_of::<T>()).max(1);
        let whole = WHOLE_BYTES[usize::from(by_columns)] / bytes;
        let is_whole = !in_place && whole >= FEW.min(count);
        let cached = if is_whole { whole.max(PANEL) } else { BYTES / bytes };
        // Whole columns are longer streams than halves of them.
        let rows = if in_place && count <= 2 * ROWS { count } else { ROWS };
        let size = if is_whole || cached >= LEAST { cached.min(ROWS) } else { rows };
        let size = size.next_multiple_of(PANEL);
        // An odd number of cache lines: columns would have the same places in a cache.
        let line = CACHE_LINE / size_of::<T>();
        let pitch = ((size + PANEL).min(count).div_ceil(line) | 1) * line;
        let strip = (STRIP_BYTES / (pitch * size_of::<T>())).max(STRIP) / STRIP * STRIP;
        let columns = if is_whole { width } else { strip };
        let elements = vec![T::default(); if in_place { 0 } else { pitch * columns }];
        let room = Room { elements, pitch, strip: (!is_whole).then_some(strip), is_filled: false };
        let (panels, tried, copies) = (Panels::default(), Vec::new(), Vec::new());
        Self {
            steps,
            readings,
            width,
            size,
            are_large: bytes.saturating_mul(count) > CACHED_BYTES,
            is_read: false,
            room,
            panels,
            told_by: None,
            are_far: None,
            is_close: false,
            seemed_near: false,
            tried,
            copies,
        }
    }

    /// Adds rows to `sums`, and returns how many are within the clip norm, if all were certified.
    pub(super) fn add(mut self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let (mut within, mut start) = (0, rows.start);
        while start < rows.end {
            // Every group has a whole panel.
            let end = if rows.end - start < self.size + PANEL { rows.end } else { start + self.size };
            within += self.add_group(&(start..end), sums)?;
            start = end;
        }
        Some(within)
    }

    fn add_group(&mut self, rows: &Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let (rule, steps_per_unit) = (self.steps.rule, self.steps.clip.granularity().reciprocal());
        (self.room.is_filled, self.is_read) = (false, false);
        self.measure(rows);
        let mut within = self.panels.decide::<T>(&rule, steps_per_unit);
        within += self.decide_far(rows, steps_per_unit);
        let open = self.panels.open();
        if !open.is_empty() {
            let mut told = vec![None; open.len()];
            self.tell_near(rows, &open, &mut told);
            within += self.settle(rows, &open, told);
        }
        if !self.panels.begin_to_add() || self.add_integers(rows, sums) { Some(within) } else { None }
    }

    /// Forms the sums of squares of rows: of `f64`, where all are expected to overflow, largest magnitudes tell that sooner.
    fn measure(&mut self, rows: &Range<usize>) {
        let isa = self.steps.rule.isa;
        self.panels.begin(rows.len());
        self.is_close = false;
        let are_far = *self.are_far.get_or_insert_with(|| begin_far::<T>(isa, self.readings[0], rows));
        if !T::SQUARES_FIT && are_far {
            self.measure_largest(rows);
            if self.panels.overflow() {
                return;
            }
        }
        self.are_far = Some(false);
        let cut = if self.comes_closely(rows) { Cut::new(self.steps.rule.power, self.steps.rule.bound) } else { None };
        let Some(cut) = cut else {
            return self.visit(0, rows, &mut |panels, part| panels.measure(isa, part));
        };
        self.seemed_near = true;
        self.panels.begin_closely();
        let mut can = true;
        self.visit(0, rows, &mut |panels, part| {
            for strip in part.strips() {
                panels.measure(isa, strip);
                // A cache holds them now.
                can = can && panels.measure_closely(isa, strip.columns.fetched(false), cut, T::SQUARES_FIT);
            }
        });
        self.is_close = can;
    }

    /// Whether a cache of one core keeps these rows from one pass to the next.
    fn is_kept(&self, rows: &Range<usize>) -> bool {
        rows.len() * self.width * size_of::<T>() <= KEPT_BYTES
    }

    /// Whether rows are to be measured closely as they come: no cache keeps them for another pass, and they seem to be near the
    /// bound.
    fn comes_closely(&self, rows: &Range<usize>) -> bool {
        // What fits is measured twice sooner than read twice only if it comes from memory.
        let is_kept = if T::SQUARES_FIT { !self.are_large } else { self.is_kept(rows) };
        let is_whole = self.room.strip.is_none() && !self.room.elements.is_empty();
        // Of 16 bits, even normalized rows are not that near.
        let are_fine = self.readings[0].iter().all(|leaf| leaf.form == T::FORM);
        if is_kept || is_whole || !are_fine {
            return false;
        }
        match self.told_by {
            None => !self.seemed_near && begin_near::<T>(&self.steps.rule, self.readings[0], rows, self.width),
            Some(by) => by == By::closely::<T>(),
        }
    }

    fn measure_largest(&mut self, rows: &Range<usize>) {
        let isa = self.steps.rule.isa;
        self.panels.begin_far();
        self.visit(0, rows, &mut |panels, part| panels.measure_largest(isa, part.columns));
    }

    /// Calls `each` with all columns of rows, in order: as they are in that reading, or were when whole rows were brought.
    fn visit(&mut self, reading: usize, rows: &Range<usize>, each: &mut dyn FnMut(&mut Panels, Part<'_, T>)) {
        let is_kept = self.is_read && self.is_kept(rows);
        let Self { steps, readings, are_large, room, panels, .. } = self;
        let Room { elements, pitch, strip, is_filled } = room;
        let mut offset = 0;
        for leaf in readings[reading] {
            let whole = leaf.width();
            if let Some(columns) = leaf.side_by_side(steps.rule.isa, rows) {
                let columns = columns.fetched(*are_large && !is_kept);
                each(panels, Part { columns, offset, first: 0, whole });
                offset += whole;
                continue;
            }
            let most = strip.unwrap_or(whole);
            for first in (0..whole).step_by(most) {
                let width = most.min(whole - first);
                let place = if strip.is_some() { 0 } else { offset * *pitch };
                let room = &mut elements[place..place + width * *pitch];
                if !*is_filled {
                    // SAFETY: there is room for these columns, which is borrowed mutably.
                    unsafe {
                        leaf.bring(steps.rule.isa, rows.clone(), first..first + width, room.as_mut_ptr(), [1, *pitch]);
                    }
                }
                let stride = (*pitch * size_of::<T>()) as isize;
                // SAFETY: the elements that were just written, or before.
                let columns = unsafe { Columns::new(room.as_ptr(), stride, rows.len(), width) };
                each(panels, Part { columns, offset: offset + first, first, whole });
            }
            offset += whole;
        }
        // What was measured is what is added then, whatever else writes to these rows.
        *is_filled = strip.is_none();
        self.is_read = true;
    }

    /// Whether so many rows are worth a pass over all; few are sooner decided one by one.
    fn are_many(rows: usize, of: &Range<usize>) -> bool {
        rows * 16 > of.len()
    }

    fn is_trusted(&self, total: f64) -> bool {
        !self.steps.rule.is_far::<T>(total)
    }

    /// Compares rows with the bound whose sums of squares leave that open.
    fn tell_near(&mut self, rows: &Range<usize>, open: &[(usize, f64)], told: &mut [Option<Decision>]) {
        let rule = self.steps.rule;
        // What told rows of the last group is tried first.
        let ways = [By::Near, By::Single, By::Ties];
        // One sum of squares for all is that of one element each, sooner than of roundings.
        let are_same = open.len() > 1 && open.iter().all(|row| row.1 == open[0].1);
        let first = self.told_by.unwrap_or(if are_same { By::Single } else { By::Near });
        for by in core::iter::once(first).chain(ways.into_iter().filter(|by| *by != first)) {
            let untold = open.iter().zip(&*told).filter(|((_, total), told)| told.is_none() && self.is_trusted(*total));
            // Sums of squares that fit are exact, and tell all of them.
            if !Self::are_many(untold.count(), rows) || (by != By::Ties && T::SQUARES_FIT) {
                continue;
            }
            let cut = if by == By::Single {
                self.panels.begin_single();
                self.visit(0, rows, &mut |panels, part| panels.measure_single(rule.isa, part.columns));
                None
            } else {
                let Some(cut) = Cut::new(rule.power, rule.bound) else { continue };
                let ties = by == By::Ties;
                if !(self.is_close && by == By::closely::<T>()) {
                    self.is_close = false;
                    self.panels.begin_closely();
                    let mut can = true;
                    self.visit(0, rows, &mut |panels, part| {
                        can = can && panels.measure_closely(rule.isa, part.columns, cut, ties);
                    });
                    if !can {
                        continue;
                    }
                }
                Some(cut)
            };
            for ((place, total), told) in open.iter().zip(&mut *told) {
                if told.is_some() || !self.is_trusted(*total) {
                    continue;
                }
                let compared: Option<Ordering> = match cut {
                    Some(cut) => cut.tell(self.panels.near(*place), cut.margin(self.width, self.width)),
                    None => self.panels.single(*place).and_then(|size| size.partial_cmp(&rule.bound)),
                };
                self.told_by = if compared.is_some() { Some(by) } else { self.told_by };
                *told = compared.map(|compared| rule.decide_told(*total, compared));
            }
        }
    }

    /// Decides rows whose squares do not fit: they are formed again. Returns how many of them are within the bound.
    fn decide_far(&mut self, rows: &Range<usize>, steps_per_unit: f64) -> u64 {
        let rule = self.steps.rule;
        if T::SQUARES_FIT || !Self::are_many(self.panels.count_far(&rule), rows) {
            return 0;
        }
        if self.are_far != Some(true) {
            self.measure_largest(rows);
            self.are_far = Some(self.panels.overflow());
        }
        if self.panels.begin_scaled(&rule) {
            self.visit(0, rows, &mut |panels, part| panels.measure_scaled(rule.isa, part));
        }
        self.panels.decide_again(&rule, steps_per_unit)
    }

    /// Takes over what was told of open rows, and decides the others one by one. Returns how many of them are within the bound.
    fn settle(&mut self, rows: &Range<usize>, open: &[(usize, f64)], told: Vec<Option<Decision>>) -> u64 {
        let Self { steps, readings, width, panels, copies, .. } = self;
        let (rule, steps_per_unit) = (&steps.rule, steps.clip.granularity().reciprocal());
        // Cache lines of columns hold elements of several rows.
        let undecided = told.iter().filter(|told| told.is_none()).count();
        let fits = PANEL * *width * size_of::<T>() <= COPIED_BYTES;
        let size = if Self::are_many(undecided, rows) && fits { PANEL } else { 1 };
        let mut copied = 0..0;
        let mut within = 0;
        for ((place, total), told) in open.iter().zip(told) {
            let decision = told.unwrap_or_else(|| {
                let row = panels.row(*place);
                if !copied.contains(&row) {
                    let first = row / size * size;
                    copied = first..rows.len().min(first + size);
                    copies.resize(*width * size, T::default());
                    let mut to = copies.as_mut_ptr();
                    for leaf in readings[0] {
                        let block = rows.start + copied.start..rows.start + copied.end;
                        // SAFETY: there is room for these rows, and this leaf's columns begin there.
                        unsafe { leaf.bring(rule.isa, block, 0..leaf.width(), to, [*width, 1]) };
                        to = to.wrapping_add(leaf.width());
                    }
                }
                let mut rest = &copies[(row - copied.start) * *width..][..*width];
                let leaves = readings[0].iter().map(|leaf| {
                    let (columns, after) = rest.split_at(leaf.width());
                    rest = after;
                    columns
                });
                rule.decide(*total, leaves.collect::<Vec<_>>().into_iter())
            });
            within += u64::from(decision.within);
            panels.settle(*place, decision, steps_per_unit);
        }
        within
    }

    /// Adds the integers of all rows to `sums`; `false` if some row is not certified.
    fn add_integers(&mut self, rows: &Range<usize>, sums: &mut [i64]) -> bool {
        let Steps { rule, clip } = self.steps;
        let (products, integers) = (rule.budget.certified(clip.in_grid_steps()), clip.largest_sum_of_squares());
        // Where squares of integers may turn out to be needed, what is added can be forgotten.
        if self.panels.may_add_again() {
            let mut tried = core::mem::take(&mut self.tried);
            tried.clear();
            tried.resize(sums.len(), 0);
            self.add_columns(rows, &mut tried);
            let is_certified = self.panels.certified(products, integers);
            if is_certified {
                sums.iter_mut().zip(&tried).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
            }
            self.tried = tried;
            if is_certified {
                return true;
            }
            self.panels.add_again();
        }
        self.add_columns(rows, sums);
        self.panels.certified(products, integers)
    }

    fn add_columns(&mut self, rows: &Range<usize>, sums: &mut [i64]) {
        let isa = self.steps.rule.isa;
        self.visit(1, rows, &mut |panels, part| {
            panels.add(isa, part.columns, &mut sums[part.offset..][..part.columns.width]);
        });
    }
}

/// Columns of the first rows of a group that are looked at before all are measured.
const BEGIN: usize = 8;

/// Returns the first elements of the first rows, if some leaf has so many columns.
fn begin<T: Float>(isa: Isa, leaves: &[Foreign<'_>], rows: &Range<usize>) -> Option<[[T; BEGIN]; PANEL]> {
    let leaf = leaves.iter().find(|leaf| leaf.width() >= BEGIN)?;
    let mut some = [[T::default(); BEGIN]; PANEL];
    let block = rows.start..rows.start + PANEL;
    // SAFETY: every group has as many rows; there is room for them.
    unsafe { leaf.bring(isa, block, 0..BEGIN, some.as_flattened_mut().as_mut_ptr(), [BEGIN, 1]) };
    Some(some)
}

/// Whether squares of elements overflow where rows and columns begin.
fn begin_far<T: Float>(isa: Isa, leaves: &[Foreign<'_>], rows: &Range<usize>) -> bool {
    if T::SQUARES_FIT {
        return false;
    }
    let Some(some) = begin::<T>(isa, leaves, rows) else { return false };
    let far = some.as_flattened().iter().filter(|x| x.widen().abs() >= OVERFLOWS).count();
    far > PANEL * BEGIN / 2
}

/// Whether rows of so many columns seem to be near the bound where they begin.
fn begin_near<T: Float>(rule: &Rule, leaves: &[Foreign<'_>], rows: &Range<usize>, width: usize) -> bool {
    let Some(some) = begin::<T>(rule.isa, leaves, rows) else { return false };
    let squares: f64 = some.as_flattened().iter().map(|x| x.widen() * x.widen()).sum();
    let expected = squares / (PANEL * BEGIN) as f64 * width as f64;
    (2.0 / 3.0..1.5).contains(&(expected / rule.power.of(rule.bound)))
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::clip::{ClipNorm, GridSum, Leaf, Rows, Strided};

    /// Compares rows in columns with the same rows one after the other.
    fn check<T: Float>(clip_norm: f64, rows: &[T], width: usize) {
        let count = rows.len() / width;
        let columns: Vec<T> = (0..rows.len()).map(|i| rows[i % count * width + i / count]).collect();
        for isa in Isa::available() {
            let clip = ClipNorm::new::<T>(clip_norm).expect("in range");
            let mut sums = [(); 2].map(|()| GridSum::new(clip, width).expect("memory"));
            let [expected, found] = &mut sums;
            let plain = Rows::new([(rows, width)], count).expect("so many");
            expected.add(isa, &plain, NonZeroUsize::MIN).expect("room");
            // SAFETY: so many columns of so many elements.
            let strided = unsafe { Strided::new(columns.as_ptr(), 1, [(width, count as isize)]) };
            let beside = Rows::of([Leaf::Strided(strided)], count).expect("so many");
            found.add(isa, &beside, NonZeroUsize::MIN).expect("room");

            assert_eq!(expected.integers(), found.integers(), "{isa:?}");
            assert_eq!(expected.count_within(), found.count_within(), "{isa:?}");
        }
    }

    #[test]
    fn rows_that_are_measured_closely_as_they_come_become_what_they_are() {
        // Two groups, of more bytes than one cache keeps; some rows plainly longer, shorter, or far from what squares can hold.
        let (count, width) = (2 * ROWS + 40, KEPT_BYTES / (ROWS * size_of::<f64>()) + 2 * STRIP + 7);
        for norms in [[0.9; 3], [0.9, 0.9 + 1e-15, 1.2], [0.9, 0.7, 1e200]] {
            let mut rows = Vec::with_capacity(count * width);
            for row in 0..count {
                let raw: Vec<f64> = (0..width).map(|i| ((i * 7919 + row * 104_729) % 1013) as f64 - 506.0).collect();
                let norm = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
                rows.extend(raw.iter().map(|x| x * norms[row % 3] / norm));
            }
            check(0.9, &rows, width);
        }
    }

    #[test]
    fn rows_of_singles_from_memory_that_are_measured_closely_become_what_they_are() {
        // Exactly at the bound, and every third longer by less than a sum of squares tells.
        let (count, width) = (2 * ROWS + 40, 4097);
        assert!(count * width * size_of::<f32>() > CACHED_BYTES, "more than a cache holds");
        let element = 0.875_f32 / 64.0;
        let mut rows: Vec<f32> =
            (0..count * width).map(|i| if i * 7919 % 1013 < 500 { -element } else { element }).collect();
        for (r, row) in rows.chunks_mut(width).enumerate() {
            row[width - 1] = if r % 3 == 0 { 1e-7 } else { 0.0 };
        }
        check(0.875, &rows, width);
    }

    #[test]
    fn a_row_that_does_not_count_leaves_the_others_as_they_are() {
        let (count, width) = (20, 40);
        let of = |number: usize| ((number * 7919) % 1013) as f64 / 1013.0 - 0.4;
        let mut rows: Vec<f64> = (0..count * width).map(of).collect();
        let add = |isa, rows: &Rows<'_, f64>| {
            let mut sum = GridSum::new(ClipNorm::new::<f64>(0.9).expect("in range"), width).expect("memory");
            sum.add(isa, rows, NonZeroUsize::MIN).expect("room");
            sum.integers().expect("whole").to_vec()
        };
        for place in [3 * width, 18 * width + 5] {
            let row = place / width;
            let others = [&rows[..row * width], &rows[(row + 1) * width..]].concat();
            let kept = core::mem::replace(&mut rows[place], f64::NAN);
            let columns: Vec<f64> = (0..rows.len()).map(|i| rows[i % count * width + i / count]).collect();
            for isa in Isa::available() {
                let expected = add(isa, &Rows::new([(&others[..], width)], count - 1).expect("so many"));
                // SAFETY: so many columns of so many elements.
                let strided = unsafe { Strided::new(columns.as_ptr(), 1, [(width, count as isize)]) };

                let found = add(isa, &Rows::of([Leaf::Strided(strided)], count).expect("so many"));

                assert_eq!(expected, found, "{isa:?}");
            }
            rows[place] = kept;
        }
    }
}
