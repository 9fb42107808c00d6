//! Memory that is asked for before it is read: little by little, in all that is done meanwhile.
//!
//! A core waits for memory in a few places. Lines that are asked for at once take all of them, and what is read from a cache
//! next has to wait until one is free.

use core::ops::Range;

use super::element::Element;
use super::rows::Strided;
use crate::dispatch::{CACHE_LINE, PAGE, has_many_places, prefetch, prefetch_second, waits_long};

/// Bytes of rows from which on those to come are asked for: fewer are in a cache.
pub(super) const UNCACHED: usize = 1 << 21;

/// Parts of a column to come that are asked for with each that is turned, measured, compared with the bound, or added: all in
/// time, and a little sooner than that. What is done in one step with a column asks for [`ALL`].
pub(super) const TURNING: usize = 3;
pub(super) const MEASURING: usize = 2;
pub(super) const COMPARING: usize = 2;
pub(super) const ADDING: usize = 4;
pub(super) const ALL: usize = 8;

/// What is asked for with each that is measured and added, and not turned.
pub(super) const LYING: usize = 5;

/// Whether columns so many bytes apart lie at so few places of a page that what a first-level cache keeps there is not enough for
/// all of them.
pub(super) fn crowd(columns: usize, apart: isize) -> bool {
    let shared = 1_usize << apart.trailing_zeros().min(PAGE.ilog2());
    shared > PAIR && columns.saturating_mul(shared) > 8 * PAGE
}

/// Pieces of memory, equally far apart.
#[derive(Clone, Copy)]
pub(super) struct Spans {
    start: *const u8,
    /// Bytes from one to the next.
    step: isize,
    count: usize,
    bytes: usize,
    /// Whether they come into the first-level cache, and not only into the second.
    is_near: bool,
}

/// Lines that some CPUs fetch together.
const PAIR: usize = 2 * CACHE_LINE;

impl Spans {
    /// Bytes of those that continue each other.
    const BYTES: usize = PAIR;

    /// Bytes of each page that are asked for, where the CPU fetches the rest by itself.
    const FIRST_BYTES: usize = 16 * CACHE_LINE;

    /// Returns those of a matrix that begins at `start`: numbers of rows and columns, and bytes from one to the next.
    pub(super) fn of(start: *const u8, rows: (usize, isize), columns: (usize, isize)) -> Self {
        let by_columns = rows.1.unsigned_abs() < columns.1.unsigned_abs();
        let [(count, far), (len, near)] = if by_columns { [columns, rows] } else { [rows, columns] };
        let lowest = |start: *const u8, count: usize, step: isize| {
            if step < 0 { start.wrapping_offset(step.wrapping_mul(count as isize - 1)) } else { start }
        };
        let (start, bytes) = (lowest(start, len, near), len.wrapping_mul(near.unsigned_abs()));
        if near.unsigned_abs() <= CACHE_LINE && far.unsigned_abs() <= bytes + 2 * CACHE_LINE {
            // Few lines lie between elements, and few between pieces.
            let pieces = count.wrapping_mul(far.unsigned_abs()).div_ceil(Self::BYTES);
            let start = lowest(start, count, far);
            return Self { start, step: Self::BYTES as isize, count: pieces, bytes: Self::BYTES, is_near: false };
        }
        // Lines that a row only begins are in no other span, those of a column in what comes next.
        let bytes = if by_columns { bytes } else { bytes + CACHE_LINE - 1 };
        Self { start, step: far, count, bytes: bytes.min(PAGE), is_near: false }
    }

    /// Returns the first lines of each page of them, if they continue each other: CPUs that see the stream fetch what follows.
    pub(super) fn of_pages(self) -> Self {
        if self.step != Self::BYTES as isize {
            return self;
        }
        let within = self.start.addr() % PAGE;
        let count = (within + self.count * Self::BYTES).div_ceil(PAGE);
        Self { start: self.start.wrapping_sub(within), step: PAGE as isize, count, bytes: Self::FIRST_BYTES, ..self }
    }
}

/// Where panels of few columns lie that come some panels later.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// What is asked for while the first panel is computed with.
    first: Coming,
    /// Bytes from a panel to the next.
    panel: isize,
    /// Panels that are asked for together.
    group: usize,
}

impl Ahead {
    /// Bytes of rows that are asked for before they are turned, at least, and where a core waits long: there, what is asked for farther
    /// ahead comes more slowly.
    const BYTES: [usize; 2] = [12 << 10, 2 << 10];

    /// Bytes of a panel of columns that comes into the first-level cache with ease, and how many are asked for before.
    const NEAR: usize = 12 << 10;
    const NEAR_BYTES: usize = 8 << 10;

    /// How far columns are apart from where on a CPU sees no stride in them, and fetches by itself what follows each. It takes
    /// up to twice as long to read what is asked for half a kilobyte beyond or more.
    const FAR: usize = 8 << 20;

    /// Streams that a CPU sees at once. Of more columns it asks for none by itself, and for what a program asks there are fewer places:
    /// where it waits long, so many panels are asked for column by column, which it sees one after the other.
    const STREAMS: usize = 64;
    const TOGETHER: usize = 8;

    /// Those that come after the first panel of `rows` of a leaf, panels of so many rows and columns, if it is worth while: the CPU
    /// does not see by itself that they will. They are asked for while so many parts are done of each column.
    pub(super) fn of<T: Element>(
        leaf: &Strided<'_, T>,
        rows: &Range<usize>,
        [count, width]: [usize; 2],
        parts: usize,
    ) -> Option<Self> {
        let size = size_of::<T>();
        let bytes = width * count * size;
        let column = leaf.axes.first()?.1.wrapping_mul(size as isize);
        let row = leaf.row.wrapping_mul(size as isize);
        let by_columns = row.unsigned_abs() < column.unsigned_abs();
        let are_many = by_columns && parts == LYING && width > Self::STREAMS;
        let group = if are_many && waits_long() { Self::TOGETHER } else { 1 };
        let is_near = by_columns && bytes <= Self::NEAR && has_many_places() && group == 1;
        let panels = if is_near {
            let is_far = column.unsigned_abs() >= Self::FAR && count * size > PAIR;
            Self::NEAR_BYTES.div_ceil(bytes).max(if is_far { 2 } else { 3 })
        } else {
            (1 + Self::BYTES[usize::from(waits_long())].div_ceil(bytes)).max(group)
        };
        let later = rows.start + panels * count;
        let start = leaf.start.cast::<u8>().wrapping_offset(row.wrapping_mul(later as isize));
        let spans = Spans { is_near, ..Spans::of(start, (group * count, row), (width, column)) };
        let is_large = rows.len() / count * bytes >= UNCACHED;
        let first = Coming::of(spans, group * width, parts);
        is_large.then(|| Self { first, panel: row.wrapping_mul(count as isize), group })
    }

    /// Takes up what is asked for while panel `index` is computed with, or it and those after it.
    #[inline(always)]
    pub(super) fn begin(&self, index: usize, coming: &mut Coming) {
        if !index.is_multiple_of(self.group) {
            return;
        }
        let Coming { spans, due, cost } = self.first;
        let start = spans.start.wrapping_offset(self.panel.wrapping_mul(index as isize));
        *coming = Coming { spans: Spans { start, ..spans }, due, cost };
    }
}

/// What is asked for, span by span.
#[derive(Clone, Copy)]
pub(super) struct Coming {
    spans: Spans,
    /// What is due, and what a span costs.
    due: usize,
    cost: usize,
}

impl Coming {
    /// What a part of a column pays for.
    const UNIT: usize = 64;

    /// Nothing.
    pub(super) const fn nothing() -> Self {
        Self { spans: Spans { start: core::ptr::null(), step: 0, count: 0, bytes: 0, is_near: false }, due: 0, cost: 0 }
    }

    /// Asks for these while so many parts are done of as many columns.
    #[inline(always)]
    pub(super) fn of(spans: Spans, columns: usize, parts: usize) -> Self {
        Self { spans, due: 0, cost: columns * parts * Self::UNIT / spans.count.max(1) }
    }

    /// Whether nothing is left.
    #[inline(always)]
    pub(super) fn is_nothing(&self) -> bool {
        self.spans.count == 0
    }

    /// Asks for so many parts of as many columns as something was done with.
    #[inline(always)]
    pub(super) fn ask(&mut self, columns: usize, parts: usize) {
        if !self.is_nothing() {
            self.ask_some(columns * parts * Self::UNIT);
        }
    }

    /// Kept out of line: it is no part of a kernel, whose registers it would take.
    #[inline(never)]
    fn ask_some(&mut self, parts: usize) {
        self.due += parts;
        // Loops of a few turns would be left by a branch that is not foreseen.
        match self.spans.bytes.div_ceil(CACHE_LINE) {
            1 => self.ask_lines(1),
            2 => self.ask_lines(2),
            4 => self.ask_lines(4),
            lines => self.ask_lines(lines),
        }
    }

    #[inline(always)]
    fn ask_lines(&mut self, lines: usize) {
        let Self { spans: Spans { start, step, count, is_near, .. }, due, cost } = self;
        while *due >= *cost && *count > 0 {
            let first = *start;
            let lines = (0..lines).map(|line| first.wrapping_add(line * CACHE_LINE));
            if *is_near {
                lines.for_each(prefetch);
            } else {
                lines.for_each(prefetch_second);
            }
            *start = start.wrapping_offset(*step);
            *count -= 1;
            *due -= *cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_hold_every_element_whatever_way_it_lies() {
        let first = 1 << 30;
        for (row, column) in
            [(80, 8), (-80, 8), (80, -8), (-80, -8), (8, 960), (-8, 960), (8, -4096), (1000, 48), (-1000, -48)]
        {
            let (rows, columns) = (40, 10);
            let spans = Spans::of(core::ptr::without_provenance(first), (rows, row), (columns, column));
            let starts = (0..spans.count).map(|i| spans.start.addr().wrapping_add_signed(spans.step * i as isize));
            let starts: Vec<usize> = starts.collect();
            for (r, c) in (0..rows * columns).map(|i| ((i / columns) as isize, (i % columns) as isize)) {
                let element = first.wrapping_add_signed(r * row + c * column);
                let held = starts.iter().any(|start| (*start..start + spans.bytes).contains(&element));
                assert!(held, "row {r}, column {c}; {row} and {column} bytes apart");
            }
        }
    }

    #[test]
    fn spans_that_continue_each_other_begin_on_as_many_pages() {
        for (first, rows, pages) in [(PAGE, 1024, 12), (PAGE + 48, 1024, 13), (3 * PAGE - 48, 2, 2), (PAGE, 1, 1)] {
            let spans = Spans::of(core::ptr::without_provenance(first), (rows, 48), (1, 8)).of_pages();

            let held = (spans.start.addr(), spans.step, spans.count);
            assert_eq!((first / PAGE * PAGE, PAGE as isize, pages), held, "{rows} rows from {first}");
        }
        let apart = Spans::of(core::ptr::without_provenance(PAGE), (40, 960), (10, 8));
        assert_eq!((apart.step, apart.count), (apart.of_pages().step, apart.of_pages().count));
    }
}
