//! Rows that no kernel reads where they lie: in the other byte order, not aligned, or leaves of more than one type.
//!
//! They are brought, block by block, to where they lie as kernels want them, and are added there: no more memory than a block
//! takes, however long the arrays. Rows of up to [`WHOLE_BYTES`] come whole, and what is measured is what is added. A longer
//! row comes in pieces, once to be measured and once to be added, so its certificate is looked at as that of any row. Pieces
//! end where blocks of [`super::measure`] end, which keeps its order of additions. Only a longer row that is not decided by its
//! sum of squares is brought whole, to be looked at once more.
//!
//! Numbers of 16 bits become numbers of `f32`, which they are.

use core::cell::OnceCell;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use core::ops::Range;

use super::adding::Adding;
use super::clip_norm::{ClipNorm, Stability};
use super::columns::PANEL;
use super::decide::Rule;
use super::element::{Brain, Element, Float, Half};
use super::error_budget::ErrorBudget;
use super::measure::{self, Power, add_powers};
use super::quantize::{self, Certificate, Tile};
use super::rows::{Leaf, Rows, Strided, merged};
use super::shares;
use super::steps::Steps;
use super::turn;
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;

/// Bytes of rows that are brought at a time, and the most bytes of a row that comes whole: a cache near a core holds them.
const BLOCK_BYTES: usize = 1 << 17;
const WHOLE_BYTES: usize = 1 << 20;

/// Bytes of rows that are brought at a time where columns lie one after the other and stay so: enough for columns of many
/// rows. Sixteen rows of more bytes come in pieces.
const PANEL_BYTES: usize = 1 << 20;

/// Rows of which pieces are brought at a time, where elements of rows and where those of columns are neighbors.
const ROWS: [usize; 2] = [4, PANEL];

/// Columns of such a piece.
const PIECE: usize = measure::BLOCK;

/// Rows of up to so many columns, other than all in a row, are brought column by column.
const NARROW: usize = 16;

/// Columns that are brought of every row before the next ones, where columns become rows: whole cache lines are used.
const TURNED: usize = 64;

/// Columns from which on threads share nothing: sums of their own would cost them more.
const WIDE: usize = 1 << 21;

/// What the bytes of an element mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Binary16.
    Half,
    /// The upper half of binary32.
    Brain,
    /// Binary32.
    Single,
    /// Binary64.
    Double,
}

impl Form {
    const fn size(self) -> usize {
        match self {
            Self::Half | Self::Brain => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

/// Some columns of every row: elements anywhere, in either byte order.
#[derive(Clone, Debug)]
pub struct Foreign<'a> {
    form: Form,
    swapped: bool,
    start: *const u8,
    /// Bytes from a row to the next.
    row: isize,
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

impl Foreign<'_> {
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

    /// Elements in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    fn lies_by_columns(&self) -> bool {
        self.axes.iter().all(|axis| axis.1.unsigned_abs() > self.row.unsigned_abs())
    }

    /// Whether all elements of all rows lie one after the other.
    fn is_dense(&self) -> bool {
        let size = self.form.size() as isize;
        let follows = match self.axes[..] {
            [] => true,
            [(_, stride)] => stride == size,
            _ => false,
        };
        follows && self.row == size.wrapping_mul(self.width as isize)
    }

    /// Writes these columns of these rows to `to`: columns `across` elements apart, and rows `down`.
    ///
    /// # Safety
    /// There are such rows and columns, and room for them, which nothing else reads or writes meanwhile. `T` has the numbers
    /// of the form.
    unsafe fn bring<T: Element>(
        &self,
        isa: Isa,
        rows: Range<usize>,
        columns: Range<usize>,
        to: *mut T,
        [down, across]: [usize; 2],
    ) {
        let size = self.form.size() as isize;
        // mutant: later-blocks-of-rows-are-the-first
        let first = self.start.wrapping_offset((rows.start as isize).wrapping_mul(self.row));
        let at = |offset: isize| first.wrapping_offset(offset);
        if self.is_dense() && across == 1 && down == self.width && columns.len() == self.width {
            let len = rows.len() * self.width;
            let lines = Lines { from: at(0), to, line: [0, 0], step: [size, 1], count: 1, len };
            // SAFETY: the caller's promise: rows follow each other without a gap on either side.
            return unsafe { self.copy(isa, lines) };
        }
        let (len, stride) = self.axes.last().copied().unwrap_or((1, size));
        let mut column = columns.start;
        while column < columns.end {
            let end = (column / len * len + len).min(columns.end);
            let offset = self.offset(column / len).wrapping_add(((column % len) as isize).wrapping_mul(stride));
            let turned = across == 1 && rows.len() > 1 && self.lies_by_columns();
            let many = if turned { TURNED } else { usize::MAX };
            for first in (0..end - column).step_by(many.min(end - column)) {
                let count = many.min(end - column - first);
                let from = at(offset.wrapping_add((first as isize).wrapping_mul(stride)));
                let to = to.wrapping_add((column - columns.start + first) * across);
                let (by_rows, by_columns) = ([self.row, down as isize], [stride, across as isize]);
                let lines = if across == 1 {
                    Lines { from, to, line: by_rows, step: by_columns, count: rows.len(), len: count }
                } else {
                    Lines { from, to, line: by_columns, step: by_rows, count, len: rows.len() }
                };
                // SAFETY: the caller's promise.
                unsafe { self.copy(isa, lines) };
            }
            column = end;
        }
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

    /// Copies these lines.
    ///
    /// # Safety
    /// All these elements can be read, there is room for them, and `T` has the numbers of the form.
    unsafe fn copy<T: Element>(&self, isa: Isa, lines: Lines<T>) {
        let Lines { from, to, line, step, count, len } = lines;
        let lines = Lines { from, to: to.cast::<()>(), line, step, count, len };
        match (self.form, self.swapped) {
            (Form::Half, false) => dispatch::run(isa, Bring::<Half, false>(lines, PhantomData)),
            (Form::Half, true) => dispatch::run(isa, Bring::<Half, true>(lines, PhantomData)),
            (Form::Brain, false) => dispatch::run(isa, Bring::<Brain, false>(lines, PhantomData)),
            (Form::Brain, true) => dispatch::run(isa, Bring::<Brain, true>(lines, PhantomData)),
            (Form::Single, false) => dispatch::run(isa, Bring::<f32, false>(lines, PhantomData)),
            (Form::Single, true) => dispatch::run(isa, Bring::<f32, true>(lines, PhantomData)),
            (Form::Double, false) => dispatch::run(isa, Bring::<f64, false>(lines, PhantomData)),
            (Form::Double, true) => dispatch::run(isa, Bring::<f64, true>(lines, PhantomData)),
        }
    }
}

/// Lines of elements: bytes from a line and from an element to the next where they are read, and elements where they go.
struct Lines<T> {
    from: *const u8,
    to: *mut T,
    line: [isize; 2],
    step: [isize; 2],
    count: usize,
    len: usize,
}

/// Elements of 16 bits that are read before the first of them is written: they are converted and written as vectors.
const TOGETHER: usize = 32;

/// A type whose elements are read from bytes.
trait Bits: Element {
    /// Its bits.
    type Word: Copy + Default;

    /// Returns the element with these bits, whose bytes are in this machine's order or in the other.
    fn of<const SWAPPED: bool>(bits: Self::Word) -> Self;
}

macro_rules! bits {
    ($element:ty, $word:ty, $of:expr) => {
        impl Bits for $element {
            type Word = $word;

            #[inline(always)]
            fn of<const SWAPPED: bool>(bits: $word) -> Self {
                // mutant: elements-in-other-byte-order-read-as-they-are
                $of(if SWAPPED { bits.swap_bytes() } else { bits })
            }
        }
    };
}

bits!(Half, u16, Half);
bits!(Brain, u16, Brain);
bits!(f32, u32, Self::from_bits);
bits!(f64, u64, Self::from_bits);

/// Writes the numbers of elements, which are of that type and in the other order of bytes if that is said.
///
/// Whoever makes it promises that they can be read, and that there is room for as many elements of the type that has them.
struct Bring<E, const SWAPPED: bool>(Lines<()>, PhantomData<E>);

impl<E: Bits, const SWAPPED: bool> Kernel for Bring<E, SWAPPED> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Lines { from, to, line, step, count, len } = self.0;
        for i in 0..count as isize {
            let from = from.wrapping_offset(i.wrapping_mul(line[0]));
            let to = to.cast::<E::Whole>().wrapping_offset(i.wrapping_mul(line[1]));
            // Measured: numbers of 16 bits take longer in this way, unless all lines are one.
            if step == [size_of::<E>() as isize, 1] && size_of::<E>() > 2 {
                for k in 0..len {
                    // SAFETY: the promise, for both; bytes are aligned, and any of them are a word.
                    unsafe {
                        let word = from.add(k * size_of::<E>()).cast::<E::Word>().read_unaligned();
                        *to.add(k) = E::of::<SWAPPED>(word).whole();
                    }
                }
                continue;
            }
            let read = |k: usize| {
                let from = from.wrapping_offset((k as isize).wrapping_mul(step[0])).cast::<E::Word>();
                // SAFETY: as above.
                E::of::<SWAPPED>(unsafe { from.read_unaligned() })
            };
            // Measured: longer numbers, of which nothing is converted, are sooner read and written one after the other.
            let vectors = if step[1] == 1 && size_of::<E>() == 2 { len / TOGETHER * TOGETHER } else { 0 };
            for k in (0..vectors).step_by(TOGETHER) {
                let mut elements = [E::default(); TOGETHER];
                for (i, element) in elements.iter_mut().enumerate() {
                    *element = read(k + i);
                }
                let mut numbers = [E::Whole::default(); TOGETHER];
                for (number, element) in numbers.iter_mut().zip(elements) {
                    *number = element.whole();
                }
                // SAFETY: the promise: there is room for them.
                unsafe { to.add(k).cast::<[E::Whole; TOGETHER]>().write(numbers) };
            }
            for k in vectors..len {
                // SAFETY: as above.
                unsafe { *to.wrapping_offset((k as isize).wrapping_mul(step[1])) = read(k).whole() };
            }
        }
    }
}

/// Such rows on their way into sums; see [`super::adding`].
pub(super) struct Bringing<'a, 'b, T> {
    leaves: [&'a [Foreign<'b>]; 2],
    /// The first column of each leaf.
    offsets: Vec<usize>,
    count: usize,
    width: usize,
    steps: Steps,
    elements: PhantomData<fn() -> T>,
}

impl<'a, 'b, T: Float> Bringing<'a, 'b, T> {
    /// Rows to be added, if `T` has the numbers of all of them: measured as in the first reading and added as in the second
    /// where they are read twice.
    pub(super) fn new(
        isa: Isa,
        clip: ClipNorm,
        stability: Option<Stability>,
        leaves: [&'a [Foreign<'b>]; 2],
        count: usize,
    ) -> Option<Self> {
        let is_double = T::NAME == f64::NAME;
        if leaves.iter().any(|leaves| leaves.iter().any(|leaf| (leaf.form == Form::Double) != is_double)) {
            return None;
        }
        let budget = ErrorBudget::new(leaves[0].iter().map(|leaf| leaf.width));
        let rule = Rule { isa, power: Power::Second, bound: clip.value(), stability, budget };
        let mut width = 0;
        let mut offsets = Vec::with_capacity(leaves[0].len());
        for leaf in leaves[0] {
            offsets.push(width);
            width += leaf.width;
        }
        Some(Self { leaves, offsets, count, width, steps: Steps { rule, clip }, elements: PhantomData })
    }

    /// Elements in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds all rows to `sums`, on up to `threads` threads, and returns how many are within the clip norm, if all were
    /// certified.
    pub(super) fn add(&self, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let count = self.count;
        if threads.get() == 1 || count < 2 * threads.get() || sums.len() >= WIDE {
            return self.add_rows(0..count, sums);
        }
        shares::add(count, sums, threads, |rows, part| self.add_rows(rows, part))
    }

    /// Adds some rows on one thread.
    fn add_rows(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let bytes = (self.width * size_of::<T>()).max(1);
        let by_columns = self.leaves[0].iter().all(|leaf| leaf.width == 0 || leaf.lies_by_columns());
        let narrow = matches!(self.leaves[0], [leaf] if leaf.width <= NARROW && !leaf.is_dense());
        let size = if by_columns { PANEL_BYTES } else { BLOCK_BYTES } / bytes;
        if (by_columns || narrow) && rows.len() >= PANEL && PANEL * bytes <= PANEL_BYTES {
            return self.add_whole(rows, size.next_multiple_of(PANEL).max(PANEL), true, sums);
        }
        if bytes <= WHOLE_BYTES && !(by_columns && rows.len() >= PANEL) {
            // Whole panels of few columns: what is left of each block would be added row by row.
            let size = if size > turn::ROWS { size / turn::ROWS * turn::ROWS } else { size };
            return self.add_whole(rows, size.max((WHOLE_BYTES / bytes).min(2)).max(1), false, sums);
        }
        self.add_pieces(rows, ROWS[usize::from(by_columns)], sums)
    }

    /// Adds rows that come whole, so many at a time, and lie there column by column or row by row.
    fn add_whole(&self, rows: Range<usize>, size: usize, by_columns: bool, sums: &mut [i64]) -> Option<u64> {
        let Rule { isa, stability, .. } = self.steps.rule;
        let size = size.min(rows.len());
        let mut room = Vec::<T>::with_capacity(size * self.width);
        let place = room.as_mut_ptr();
        let mut within = 0;
        for start in rows.clone().step_by(size.max(1)) {
            let block = start..rows.end.min(start + size);
            let leaves = self.leaves[0].iter().zip(&self.offsets).map(|(leaf, offset)| {
                let to = place.wrapping_add(offset * size);
                let apart = if by_columns { [1, size] } else { [leaf.width, 1] };
                // SAFETY: there is room for `size` rows of this leaf behind those of the leaves before, and nothing refers
                // to what lay there.
                unsafe { leaf.bring(isa, block.clone(), 0..leaf.width, to, apart) };
                if by_columns {
                    // SAFETY: the elements that were just written.
                    return Leaf::Strided(unsafe { Strided::new(to, 1, [(leaf.width, size as isize)]) });
                }
                // SAFETY: as above.
                let data = unsafe { core::slice::from_raw_parts(to.cast_const(), block.len() * leaf.width) };
                Leaf::Plain(data, leaf.width)
            });
            let brought = Rows::of(leaves, block.len()).expect("as many as the block has");
            let adding = Adding::new(isa, self.steps.clip, stability, [&brought; 2]);
            within += adding.add(sums, NonZeroUsize::MIN)?;
        }
        Some(within)
    }

    /// Adds rows that come in pieces, so many at a time.
    fn add_pieces(&self, rows: Range<usize>, size: usize, sums: &mut [i64]) -> Option<u64> {
        let isa = self.steps.rule.isa;
        let mut room = Vec::<T>::with_capacity(size * PIECE);
        let (mut within, mut totals, mut steps, mut certificates) = (0, Vec::new(), Vec::new(), Vec::new());
        for start in rows.clone().step_by(size) {
            let group = start..rows.end.min(start + size);
            totals.clear();
            totals.resize(group.len(), 0.0);
            self.pieces(0, &group, &mut room, |piece, columns| {
                add_powers(isa, Power::Second, piece, columns.len(), 1.0, &mut totals);
            });
            steps.clear();
            for (row, total) in group.clone().zip(&totals) {
                let whole = OnceCell::new();
                let leaves = self.leaves[0].iter().zip(&self.offsets).map(|(leaf, offset)| {
                    let row: &Vec<T> = whole.get_or_init(|| self.whole(row));
                    &row[*offset..offset + leaf.width]
                });
                let (step, is_within) = self.steps.step(*total, leaves.clone(), leaves);
                steps.push(step);
                // mutant: rows-in-pieces-all-count-as-within-bound
                within += u64::from(is_within);
            }
            certificates.clear();
            certificates.resize(group.len(), Certificate::default());
            self.pieces(1, &group, &mut room, |piece, columns| {
                let piece = Rows::new([(piece, columns.len())], group.len()).expect("as many as the group has");
                let tile = Tile { rows: &piece, first: 0, columns: 0..columns.len(), steps: &steps, ahead: 0..0 };
                quantize::add(isa, tile, &mut sums[columns], &mut certificates);
            });
            // mutant: rows-in-pieces-not-certified
            if !steps.iter().zip(&certificates).all(|(step, certificate)| self.steps.certified(*step, certificate)) {
                return None;
            }
        }
        Some(within)
    }

    /// Calls `visit` with the elements of these rows, row by row, and their columns: piece by piece, in that reading.
    fn pieces(
        &self,
        reading: usize,
        group: &Range<usize>,
        room: &mut Vec<T>,
        mut visit: impl FnMut(&[T], Range<usize>),
    ) {
        for (leaf, offset) in self.leaves[reading].iter().zip(&self.offsets) {
            for first in (0..leaf.width).step_by(PIECE) {
                let columns = first..leaf.width.min(first + PIECE);
                let elements = group.len() * columns.len();
                room.clear();
                room.reserve(elements);
                // SAFETY: there is room for these elements, and all of them are written.
                unsafe {
                    let apart = [columns.len(), 1];
                    leaf.bring(self.steps.rule.isa, group.clone(), columns.clone(), room.as_mut_ptr(), apart);
                    room.set_len(elements);
                }
                visit(room, offset + columns.start..offset + columns.end);
            }
        }
    }

    /// Returns a row as it is in the first reading.
    #[cold]
    fn whole(&self, row: usize) -> Vec<T> {
        let mut whole = Vec::<T>::with_capacity(self.width);
        for (leaf, offset) in self.leaves[0].iter().zip(&self.offsets) {
            let to = whole.as_mut_ptr().wrapping_add(*offset);
            // SAFETY: there is room for the columns of all leaves.
            unsafe { leaf.bring(self.steps.rule.isa, row..row + 1, 0..leaf.width, to, [leaf.width, 1]) };
        }
        // SAFETY: the columns of all leaves were written.
        unsafe { whole.set_len(self.width) };
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::GridSum;
    use crate::error::Error;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    /// Elements in a way that they may lie, and from the first how many bytes to a row and to a column.
    struct Memory {
        bytes: Vec<u8>,
        first: usize,
        row: isize,
        column: isize,
    }

    /// Ways in which rows lie.
    #[derive(Clone, Copy, Debug)]
    enum Way {
        Rows,
        Columns,
        Sparse,
        Backwards,
    }

    fn lay<const N: usize>(elements: &[[u8; N]], count: usize, width: usize, way: Way, shift: usize) -> Memory {
        let size = N as isize;
        let (row, column) = match way {
            Way::Rows | Way::Backwards => (size * width as isize, size),
            Way::Columns => (size, size * count as isize),
            Way::Sparse => (2 * size * width as isize + 3, 2 * size),
        };
        let sign = if matches!(way, Way::Backwards) { -1 } else { 1 };
        let span = row * (count as isize - 1) + column * (width as isize - 1);
        let first = shift + if sign < 0 { span as usize } else { 0 };
        let mut bytes = vec![0xa5; shift + span as usize + N];
        for (i, element) in elements.iter().enumerate() {
            let (r, c) = ((i / width) as isize, (i % width) as isize);
            let at = (first as isize + sign * (r * row + c * column)) as usize;
            bytes[at..at + N].copy_from_slice(element);
        }
        Memory { bytes, first, row: sign * row, column: sign * column }
    }

    /// Compares sums of rows in every way that they may lie with those of the same numbers in slices.
    fn check<T: Float, const N: usize>(form: Form, element: fn(f64) -> ([u8; N], T)) {
        // Around panels, narrow rows, whole rows and pieces, of both ways.
        for (count, width) in [(1, 3), (37, 1), (35, 7), (50, 16), (20, 300), (2, 263_000), (17, 16_500)] {
            let numbers: Vec<([u8; N], T)> = (0..count * width)
                .map(|i| element(((i * 7919) % 1013) as f64 / 512.0 / (width as f64).sqrt() - 0.1))
                .collect();
            let values: Vec<T> = numbers.iter().map(|number| number.1).collect();
            let clip = ClipNorm::new::<f32>(0.9).expect("in range");
            let mut expected = GridSum::new(clip, width).expect("memory");
            let rows = Rows::new([(&values[..], width)], count).expect("so many");
            expected.add(Isa::best(), &rows, ONE).expect("room");
            assert!(expected.integers().expect("whole").iter().any(|k| *k != 0));
            for (way, swapped, threads) in [
                (Way::Rows, true, 1),
                (Way::Rows, false, 2),
                (Way::Columns, true, 1),
                (Way::Columns, false, 3),
                (Way::Sparse, true, 2),
                (Way::Backwards, true, 1),
            ] {
                let elements: Vec<[u8; N]> = numbers
                    .iter()
                    .map(|(bytes, _)| {
                        let mut bytes = *bytes;
                        if swapped {
                            bytes.reverse();
                        }
                        bytes
                    })
                    .collect();
                let Memory { bytes, first, row, column } = lay(&elements, count, width, way, 1);
                // SAFETY: the bytes hold all these elements.
                let leaf = unsafe { Foreign::new(form, swapped, bytes[first..].as_ptr(), row, [(width, column)]) };
                for isa in Isa::available() {
                    let mut sum = GridSum::new(clip, width).expect("memory");
                    let threads = NonZeroUsize::new(threads).expect("positive");

                    sum.add_foreign::<T>(isa, core::slice::from_ref(&leaf), count, threads).expect("room");

                    assert_eq!(expected.integers(), sum.integers(), "{isa:?}, {form:?}, {way:?}, {count} x {width}");
                    assert_eq!(expected.count_within(), sum.count_within());
                }
            }
        }
    }

    #[test]
    fn rows_that_are_brought_have_the_sums_of_their_numbers() {
        check(Form::Double, |x| (x.to_ne_bytes(), x));
        check(Form::Single, |x| ((x as f32).to_ne_bytes(), x as f32));
        check(Form::Brain, |x| {
            let bits = ((x as f32).to_bits() >> 16) as u16;
            (bits.to_ne_bytes(), Brain(bits).whole())
        });
        check(Form::Half, |x| {
            let bits = 0x2800 | (x.to_bits() >> 42) as u16 & 0x83ff;
            (bits.to_ne_bytes(), Half(bits).whole())
        });
    }

    #[test]
    fn leaves_of_several_types_and_axes_are_one_row() {
        let clip = ClipNorm::new::<f32>(0.9).expect("in range");
        let singles: Vec<f32> = (0..20 * 6).map(|i| i as f32 / 300.0).collect();
        let halves: Vec<u16> = (0..20 * 3).map(|i| 0x2c00 + i).collect();
        let wide: Vec<f32> = halves.iter().map(|bits| Half(*bits).whole()).collect();
        // A row is a matrix of 2 x 3, whose columns come first.
        let turned: Vec<f32> = (0..120).map(|i| singles[i / 6 * 6 + i % 6 % 3 * 2 + i % 6 / 3]).collect();
        // SAFETY: the vectors hold these elements.
        let leaves = unsafe {
            [
                Foreign::new(Form::Single, false, singles.as_ptr().cast(), 24, [(2, 4), (3, 8)]),
                Foreign::new(Form::Half, false, halves.as_ptr().cast(), 6, [(3, 2)]),
                Foreign::new(Form::Half, false, halves.as_ptr().cast(), 6, [(0, 2)]),
            ]
        };
        let (mut expected, mut sum) = (GridSum::new(clip, 9).expect("memory"), GridSum::new(clip, 9).expect("memory"));
        let rows = Rows::new([(&turned[..], 6), (&wide[..], 3), (&[], 0)], 20).expect("so many");
        expected.add(Isa::best(), &rows, ONE).expect("room");

        sum.add_foreign::<f32>(Isa::best(), &leaves, 20, ONE).expect("room");

        assert_eq!(expected.integers(), sum.integers());
        assert_eq!(expected.count_within(), sum.count_within());
    }

    #[test]
    fn leaves_of_doubles_and_others_are_refused() {
        let numbers = [1.0_f64; 2];
        // SAFETY: there are as many bytes.
        let leaves = unsafe {
            [Form::Double, Form::Single].map(|form| Foreign::new(form, false, numbers.as_ptr().cast(), 0, [(2, 4)]))
        };
        let mut sum = GridSum::new(ClipNorm::new::<f32>(1.0).expect("in range"), 4).expect("memory");

        let refused = Err(Error::Incompatible { what: "type" });
        assert_eq!(refused, sum.add_foreign::<f32>(Isa::best(), &leaves, 1, ONE));
        assert_eq!(refused, sum.add_foreign::<f64>(Isa::best(), &leaves, 1, ONE));
        assert_eq!(Ok(0), sum.integers().map(|_| sum.count()));
    }

    #[test]
    fn a_long_row_that_grows_between_its_readings_breaks_the_sum() {
        let small = vec![0.001; 132_000];
        for (place, grown) in [(0, 1.1), (131_999, 1.1), (20_000, f64::NAN), (5_000, 1e300)] {
            let mut changed = small.clone();
            changed[place] = grown;
            let leaf = |row: &[f64]| {
                // SAFETY: a row of as many elements.
                unsafe { Foreign::new(Form::Double, false, row.as_ptr().cast(), 0, [(row.len(), 8)]) }
            };
            let mut sum = GridSum::new(ClipNorm::new::<f64>(1.0).expect("in range"), small.len()).expect("memory");
            let (first, second) = ([leaf(&small)], [leaf(&changed)]);

            assert_eq!(Err(Error::Mutated), sum.add_foreign_read_twice::<f64>(Isa::best(), [&first, &second], 1, ONE));
            assert_eq!(Err(Error::Mutated), sum.integers());
        }
    }
}
