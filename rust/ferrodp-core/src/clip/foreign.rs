//! Rows that no kernel reads where they lie: numbers of 16 bits, in the other byte order, not aligned, or far apart.
//!
//! They are brought to where they lie as kernels want them: copied by [`super::gather`] if they do not follow each other, and
//! converted. [`super::bringing`] adds them.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;

use super::element::{Brain, Element, Form, Half};
use super::gather::Lines;
use super::halves;
use super::rows::{Strided, merged};
use super::turn;
use crate::dispatch::{self, Kernel, PAGE, prefetch_second_all};
use crate::isa::Isa;

/// Columns that are brought of every row before the next ones, where columns become rows: whole cache lines are used.
const TURNED: usize = 64;

/// Elements that are converted where they are read, if so many follow each other. Others are copied first, up to so many.
const RUN: usize = 32;
const COPIED: usize = 1 << 11;

/// Some columns of every row: elements anywhere, in either byte order.
#[derive(Clone, Debug)]
pub struct Foreign<'a> {
    pub(super) form: Form,
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

impl<'a> Foreign<'a> {
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

    /// Returns these rows.
    pub(super) fn of<T: Element>(leaf: &Strided<'a, T>) -> Self {
        let size = size_of::<T>() as isize;
        let axes = leaf.axes.iter().map(|(len, stride)| (*len, stride.wrapping_mul(size)));
        // SAFETY: the maker of the leaf promised that its elements can be read.
        unsafe { Self::new(T::FORM, false, leaf.start.cast(), leaf.row.wrapping_mul(size), axes) }
    }

    /// Elements in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Whether elements of a column are nearer to each other than those of a row.
    pub(super) fn lies_by_columns(&self) -> bool {
        self.axes.iter().all(|axis| axis.1.unsigned_abs() > self.row.unsigned_abs())
    }

    /// Whether rows have few columns, equally far apart.
    pub(super) fn is_narrow(&self) -> bool {
        (1..=turn::MOST).contains(&self.width) && self.axes.len() <= 1
    }

    /// Bytes from a column to the next, where all are equally far apart.
    fn step(&self) -> isize {
        self.axes.last().map_or(self.form.size() as isize, |axis| axis.1)
    }

    /// Whether elements of a row follow each other.
    pub(super) fn follow(&self) -> bool {
        self.axes.len() <= 1 && self.step() == self.form.size() as isize
    }

    /// Asks for these rows of few columns, or for where they would be.
    pub(super) fn fetch(&self, rows: Range<usize>) {
        let first = self.start.wrapping_offset((rows.start as isize).wrapping_mul(self.row));
        let (by_rows, by_columns) = ((rows.len(), self.row), (self.width, self.step()));
        let [(count, far), (len, near)] =
            if self.lies_by_columns() { [by_columns, by_rows] } else { [by_rows, by_columns] };
        let mut start = if near < 0 { first.wrapping_offset(near.wrapping_mul(len as isize - 1)) } else { first };
        for _ in 0..count {
            prefetch_second_all(start, len.wrapping_mul(near.unsigned_abs()).min(PAGE));
            start = start.wrapping_offset(far);
        }
    }

    /// Writes these columns of these rows to `to`: columns `across` elements apart, and rows `down`, of which one is 1.
    ///
    /// # Safety
    /// There are such rows and columns, and room for them, which nothing else reads or writes meanwhile. `T` has the numbers
    /// of the form.
    pub(super) unsafe fn bring<T: Element>(
        &self,
        isa: Isa,
        rows: Range<usize>,
        columns: Range<usize>,
        to: *mut T,
        [down, across]: [usize; 2],
    ) {
        // mutant: later-blocks-of-rows-are-the-first
        let first = self.start.wrapping_offset((rows.start as isize).wrapping_mul(self.row));
        let (len, stride) = (self.axes.last().map_or(1, |axis| axis.0), self.step());
        let by_rows = across == 1 && (down > 1 || columns.len() == 1);
        let many = if by_rows && rows.len() > 1 && self.lies_by_columns() { TURNED } else { usize::MAX };
        let mut column = columns.start;
        while column < columns.end {
            let end = (column / len * len + len).min(columns.end).min(column.saturating_add(many));
            let offset = self.offset(column / len).wrapping_add(((column % len) as isize).wrapping_mul(stride));
            let (from, to) = (first.wrapping_offset(offset), to.wrapping_add((column - columns.start) * across));
            let count = end - column;
            let lines = if by_rows {
                Lines { from, to, line: [self.row, down as isize], step: stride, count: rows.len(), len: count }
            } else {
                Lines { from, to, line: [stride, across as isize], step: self.row, count, len: rows.len() }
            };
            // SAFETY: the caller's promise.
            unsafe { self.take(isa, lines) };
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

    /// Writes the numbers of these lines.
    ///
    /// # Safety
    /// All these elements can be read, there is room for them, and `T` has the numbers of the form.
    unsafe fn take<T: Element>(&self, isa: Isa, lines: Lines<T>) {
        // SAFETY: the caller's promise, in all of these.
        unsafe {
            match (self.form, self.swapped) {
                (form, false) if form == T::FORM => lines.cast::<T::Word>().copy(),
                (Form::Half, false) => convert::<Half, false>(isa, lines.cast()),
                (Form::Half, true) => convert::<Half, true>(isa, lines.cast()),
                (Form::Brain, false) => convert::<Brain, false>(isa, lines.cast()),
                (Form::Brain, true) => convert::<Brain, true>(isa, lines.cast()),
                (Form::Single, _) => convert::<f32, true>(isa, lines.cast()),
                (Form::Double, _) => convert::<f64, true>(isa, lines.cast()),
            }
        }
    }
}

/// Copies these rows to `out`, `pitch` elements from one to the next.
pub(super) fn rows<T: Element>(leaf: &Strided<'_, T>, range: Range<usize>, out: &mut [T], pitch: usize) {
    let leaf = Foreign::of(leaf);
    let Some(last) = range.len().checked_sub(1).filter(|_| leaf.width() > 0) else { return };
    assert!(out.len() >= last * pitch + leaf.width(), "room for all rows");
    // Nothing is converted.
    // SAFETY: the maker of the leaf promised that its elements can be read; there is room, which is borrowed mutably.
    unsafe { leaf.bring(Isa::PORTABLE, range, 0..leaf.width(), out.as_mut_ptr(), [pitch, 1]) };
}

/// Copies these rows to `out`, column by column, `pitch` elements from one to the next.
pub(super) fn columns<T: Element>(leaf: &Strided<'_, T>, range: Range<usize>, out: &mut [T], pitch: usize) {
    let leaf = Foreign::of(leaf);
    let Some(last) = leaf.width().checked_sub(1).filter(|_| !range.is_empty()) else { return };
    assert!(out.len() >= last * pitch + range.len(), "room for all columns");
    // SAFETY: as above.
    unsafe { leaf.bring(Isa::PORTABLE, range, 0..leaf.width(), out.as_mut_ptr(), [1, pitch]) };
}

/// Returns the numbers of elements: the elements themselves, or what is written to `room`.
pub(super) fn whole<'a, T: Element>(isa: Isa, elements: &'a [T], room: &'a mut Vec<T::Whole>) -> &'a [T::Whole] {
    let (start, len) = (elements.as_ptr(), elements.len());
    if T::FORM == T::Whole::FORM {
        // SAFETY: it is the same type.
        return unsafe { core::slice::from_raw_parts(start.cast(), len) };
    }
    // SAFETY: these are the elements.
    let row = unsafe { Foreign::new(T::FORM, false, start.cast(), 0, [(len, size_of::<T>() as isize)]) };
    room.clear();
    room.reserve(len);
    // SAFETY: there is room for as many numbers, and all are written.
    unsafe {
        row.bring(isa, 0..1, 0..len, room.as_mut_ptr(), [len, 1]);
        room.set_len(len);
    }
    room
}

/// A type whose elements are read from bytes.
trait Bits: Element {
    /// Its bytes.
    type Bytes: Copy;

    /// Returns the element with these bytes, in this machine's order or in the other.
    fn of<const SWAPPED: bool>(bytes: Self::Bytes) -> Self;

    /// Writes the numbers of elements that follow each other by an instruction for them; `false` where there is none.
    ///
    /// # Safety
    /// As for [`Convert`].
    unsafe fn by_instruction<const SWAPPED: bool>(
        _isa: Isa,
        _from: *const u8,
        _to: *mut Self::Whole,
        _len: usize,
    ) -> bool {
        false
    }
}

macro_rules! bits {
    ($element:ty, $word:ty, $of:expr $(, $convert:ident)?) => {
        impl Bits for $element {
            type Bytes = [u8; size_of::<$word>()];

            #[inline(always)]
            fn of<const SWAPPED: bool>(bytes: Self::Bytes) -> Self {
                let bits = <$word>::from_ne_bytes(bytes);
                // mutant: elements-in-other-byte-order-read-as-they-are
                $of(if SWAPPED { bits.swap_bytes() } else { bits })
            }

            $(
                unsafe fn by_instruction<const SWAPPED: bool>(
                    isa: Isa,
                    from: *const u8,
                    to: *mut Self::Whole,
                    len: usize,
                ) -> bool {
                    // SAFETY: the caller's promise.
                    unsafe { halves::$convert::<SWAPPED>(isa, from, to, len) }
                }
            )?
        }
    };
}

bits!(Half, u16, Half, convert);
bits!(Brain, u16, Brain);
bits!(f32, u32, Self::from_bits);
bits!(f64, u64, Self::from_bits);

/// Writes the numbers of elements of that type, in the other order of bytes if that is said.
///
/// # Safety
/// All these elements can be read, and there is room for their numbers.
unsafe fn convert<E: Bits, const SWAPPED: bool>(isa: Isa, lines: Lines<E::Whole>) {
    let size = size_of::<E>() as isize;
    let joined = lines.joined();
    if joined.step == size && (joined.count <= 1 || joined.len >= RUN) {
        return convert_runs::<E, SWAPPED>(isa, joined);
    }
    let mut room = [MaybeUninit::<E::Word>::uninit(); COPIED];
    let place = room.as_mut_ptr().cast::<E::Word>();
    let columns = lines.len.clamp(1, COPIED);
    let rows = COPIED / columns;
    for row in (0..lines.count).step_by(rows) {
        for column in (0..lines.len).step_by(columns) {
            let (count, len) = (rows.min(lines.count - row), columns.min(lines.len - column));
            let Lines { from, to, line: [down, line], step, .. } = lines;
            let from = from.wrapping_offset(down.wrapping_mul(row as isize));
            // mutant: later-pieces-of-converted-lines-are-the-first
            let from = from.wrapping_offset(step.wrapping_mul(column as isize));
            let to = to.wrapping_offset(line.wrapping_mul(row as isize)).wrapping_add(column);
            // SAFETY: the caller's promise; there is room for `rows` lines of so many words.
            unsafe { Lines { from, to: place, line: [down, len as isize], step, count, len }.copy() };
            let (from, line) = (place.cast_const().cast(), [size * len as isize, line]);
            convert_runs::<E, SWAPPED>(isa, Lines { from, to, line, step: size, count, len }.joined());
        }
    }
}

/// Does that with lines whose elements follow each other, one by one: of a loop over lines, the compiler makes no vectors.
fn convert_runs<E: Bits, const SWAPPED: bool>(isa: Isa, lines: Lines<E::Whole>) {
    let Lines { mut from, mut to, line, count, len, .. } = lines;
    for _ in 0..count {
        // SAFETY: the caller's promise, or that of what was copied.
        if !unsafe { E::by_instruction::<SWAPPED>(isa, from, to, len) } {
            dispatch::run(isa, Convert::<E, SWAPPED> { from, to, len });
        }
        (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(line[1]));
    }
}

/// Writes the numbers of elements that follow each other.
///
/// Whoever makes it promises that they can be read, and that there is room for their numbers, which is none of what is read.
struct Convert<E: Bits, const SWAPPED: bool> {
    from: *const u8,
    to: *mut E::Whole,
    len: usize,
}

impl<E: Bits, const SWAPPED: bool> Kernel for Convert<E, SWAPPED> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        // SAFETY: the promise, for both; bytes are aligned.
        let (from, to) = unsafe {
            let from = self.from.cast::<E::Bytes>();
            (core::slice::from_raw_parts(from, self.len), core::slice::from_raw_parts_mut(self.to, self.len))
        };
        for (to, from) in to.iter_mut().zip(from) {
            *to = E::of::<SWAPPED>(*from).whole();
        }
    }
}
