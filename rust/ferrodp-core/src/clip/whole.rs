//! Rows of 16-bit elements and few columns, written out as `f32`: the same numbers, so the same norms and integers.
//!
//! What adds such rows is the largest piece of code here, for each instruction set and type. Two types are enough.

use core::any::TypeId;
use core::ops::Range;

use super::element::Element;
use super::gather;
use super::rows::Strided;
use super::turn;
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;

/// Bytes that are written out at a time: they stay in the nearest cache.
const BYTES: usize = 1 << 13;

/// The least and the most rows that are written out at a time.
const ROWS: [usize; 2] = [turn::ROWS, 1024];

/// Calls `add` with a leaf, the rows that lie there, and what puts the next ones in their place and tells how many these are;
/// all are whole panels.
pub(super) fn visit<T: Element, R>(
    isa: Isa,
    leaf: &Strided<'_, T>,
    rows: Range<usize>,
    add: impl FnOnce(&Strided<'_, T::Whole>, Range<usize>, &mut dyn FnMut() -> usize) -> R,
) -> R {
    if TypeId::of::<T>() == TypeId::of::<T::Whole>() {
        // SAFETY: one type; these are the elements of the leaf, whose maker promised that they can be read.
        let leaf = unsafe { Strided::new(leaf.start.cast(), leaf.row, leaf.axes.iter().copied()) };
        return add(&leaf, rows, &mut || 0);
    }
    assert!(leaf.axes.len() <= 1 && rows.len().is_multiple_of(turn::ROWS), "whole panels of rows of few columns");
    let (width, stride) = leaf.axes.first().map_or((1, 1), |axis| *axis);
    let [least, most] = ROWS;
    let pitch = (BYTES / (width * size_of::<T::Whole>()).max(1) / turn::ROWS * turn::ROWS).clamp(least, most);
    let lies_by_columns = leaf.row == 1;
    let is_dense = stride == 1 && leaf.row == width as isize;
    let mut copy = vec![T::default(); if lies_by_columns || is_dense { 0 } else { pitch * width }];
    let mut whole = vec![T::Whole::default(); pitch * width];
    let place = whole.as_mut_ptr();
    let mut next = rows.start;
    let mut more = || {
        let part = next..rows.end.min(next + pitch);
        next = part.end;
        let count = part.len();
        let start = leaf.start.wrapping_offset(part.start as isize * leaf.row);
        let (from, stride, columns, len) = if lies_by_columns {
            (start, stride, width, count)
        } else if is_dense {
            (start, 0, 1, count * width)
        } else {
            gather::rows(leaf, part, &mut copy, width);
            (copy.as_ptr(), 0, 1, count * width)
        };
        // Its promise: so many columns of so many elements of the leaf or of the copy, whole panels of them; and room for
        // them, which nothing else reads or writes meanwhile.
        dispatch::run(isa, Write::<T> { from, stride, columns, len, to: place, pitch });
        count
    };
    let (row, column) = if lies_by_columns { (1, pitch) } else { (width, 1) };
    let first = more();
    // SAFETY: the elements that were just written, and are written again by `more`.
    let written = unsafe { Strided::new(place.cast_const(), row as isize, [(width, column as isize)]) };
    add(&written, 0..first, &mut more)
}

/// Writes columns out: `len` elements each, from `from` on and at multiples of `stride`, to `to` and multiples of `pitch`.
///
/// Whoever makes it promises that these elements can be read, and that there is room for them.
struct Write<T: Element> {
    from: *const T,
    stride: isize,
    columns: usize,
    len: usize,
    to: *mut T::Whole,
    pitch: usize,
}

impl<T: Element> Kernel for Write<T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        for column in 0..self.columns {
            let from = self.from.wrapping_offset(column as isize * self.stride);
            let to = self.to.wrapping_add(column * self.pitch);
            // SAFETY: the promise, for both.
            let (from, to) =
                unsafe { (core::slice::from_raw_parts(from, self.len), core::slice::from_raw_parts_mut(to, self.len)) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.whole();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::clip::{Brain, ClipNorm, GridSum, Half, Leaf, Rows};

    /// Compares the sums of rows in several parts, and some beyond whole panels, with those of the same numbers in `f32`.
    fn check<T: Element<Whole = f32>>(convert: fn(u16) -> T) {
        let clip = ClipNorm::new::<f32>(1.0).expect("in range");
        for width in [1, 2, 3, 4, 5, 8, 9, 17, 64] {
            let count = 2 * (BYTES / (4 * width)).clamp(ROWS[0], ROWS[1]) + 3 * turn::ROWS + 5;
            for (row, column, backwards) in [
                (width, 1, false),
                (width + 3, 1, true),
                (1, count + 7, false),
                (2 * width, 2, false),
                (width, 1, true),
            ] {
                let size = (count - 1) * row + (width - 1) * column + 1;
                let mut state = 1_u64;
                let memory: Vec<T> = (0..size)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        convert((state >> 48) as u16)
                    })
                    .collect();
                let numbers: Vec<f32> = memory.iter().map(|x| x.whole()).collect();
                let (first, step) = if backwards { ((count - 1) * row, -(row as isize)) } else { (0, row as isize) };
                let axes = [(width, column as isize)];
                // SAFETY: `size` elements are enough for these rows.
                let narrow = unsafe { Strided::new(memory[first..].as_ptr(), step, axes) };
                // SAFETY: as above.
                let whole = unsafe { Strided::new(numbers[first..].as_ptr(), step, axes) };
                for isa in Isa::available() {
                    let mut sums = [0, 1].map(|_| GridSum::new(clip, width).expect("memory"));
                    let rows = Rows::of([Leaf::Strided(narrow.clone())], count).expect("nothing to disagree");
                    sums[0].add(isa, &rows, NonZeroUsize::MIN).expect("room");
                    let rows = Rows::of([Leaf::Strided(whole.clone())], count).expect("nothing to disagree");
                    sums[1].add(isa, &rows, NonZeroUsize::MIN).expect("room");

                    let [narrow, whole] = &sums;
                    assert!(narrow.integers().expect("whole").iter().any(|k| *k != 0));
                    assert_eq!(whole.integers(), narrow.integers(), "{isa:?}, {}, {width}, {row}, {column}", T::NAME);
                    assert_eq!(whole.count_within(), narrow.count_within());
                }
            }
        }
    }

    #[test]
    fn rows_that_are_written_out_have_the_sums_of_their_numbers() {
        // Numbers below 2, most of them far from that, and some that are not finite.
        check(|bits| Half(if bits.is_multiple_of(97) { 0x7c00 } else { bits & 0xbbff }));
        check(|bits| {
            Brain(if bits.is_multiple_of(97) { 0x7f80 } else { (bits & 0x80ff) | 0x3e00 | (bits >> 8 & 0x80) })
        });
    }
}
