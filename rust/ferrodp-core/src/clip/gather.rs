//! Some rows of a leaf, wherever its elements lie, copied to a buffer: row by row or column by column.
//!
//! Only elements of rows are read, never what lies between them.

use core::ops::Range;

use super::element::Element;
use super::rows::Strided;

/// Columns that are copied of every row before the next ones, where rows lie column by column: whole cache lines are used.
const COLUMNS: usize = 64;

/// Copies these rows to `out`, `pitch` elements from one to the next.
pub(super) fn rows<T: Element>(leaf: &Strided<'_, T>, range: Range<usize>, out: &mut [T], pitch: usize) {
    if pitch == 1 && leaf.axes.iter().all(|axis| axis.0 == 1) {
        // Rows of one element: a single column, with one call for all.
        return columns(leaf, range.clone(), out, range.len());
    }
    let size = if leaf.lies_by_columns() { COLUMNS } else { usize::MAX };
    leaf.runs(|first, start, len, stride| {
        for begin in (0..len).step_by(size.min(len)) {
            let len = size.min(len - begin);
            for (r, row) in range.clone().enumerate() {
                let at = start.wrapping_offset(begin as isize * stride + row as isize * leaf.row);
                let out = &mut out[r * pitch + first + begin..][..len];
                // SAFETY: these are elements of a row of the leaf, whose maker promised that they can be read; `out` is
                // borrowed mutably and so is none of them.
                unsafe { copy(at, stride, out) };
            }
        }
    });
}

/// Copies these rows to `out`, column by column, `pitch` elements from one to the next.
pub(super) fn columns<T: Element>(leaf: &Strided<'_, T>, range: Range<usize>, out: &mut [T], pitch: usize) {
    leaf.runs(|first, start, len, stride| {
        for column in 0..len {
            let at = start.wrapping_offset(column as isize * stride + range.start as isize * leaf.row);
            let out = &mut out[(first + column) * pitch..][..range.len()];
            // SAFETY: as above; the elements are those of one column.
            unsafe { copy(at, leaf.row, out) };
        }
    });
}

impl<T: Element> Strided<'_, T> {
    /// Calls `visit` with the index of the first column, the address in row 0, the length and the stride of columns that
    /// have one stride.
    fn runs(&self, mut visit: impl FnMut(usize, *const T, usize, isize)) {
        let Some((&(len, stride), outer)) = self.axes.split_last() else {
            return visit(0, self.start, 1, 1);
        };
        if self.axes.iter().any(|axis| axis.0 == 0) {
            return;
        }
        let mut indices = vec![0; outer.len()];
        for first in (0..).step_by(len) {
            let offset: isize = indices.iter().zip(outer).map(|(index, axis)| *index as isize * axis.1).sum();
            visit(first, self.start.wrapping_offset(offset), len, stride);
            let Some(next) = (0..outer.len()).rev().find(|&axis| indices[axis] + 1 < outer[axis].0) else { return };
            indices[next] += 1;
            indices[next + 1..].fill(0);
        }
    }
}

/// Copies elements that lie `stride` apart.
///
/// # Safety
/// As many elements as `out` has can be read from `at` on at that stride, and `out` is none of them.
#[inline]
unsafe fn copy<T: Element>(at: *const T, stride: isize, out: &mut [T]) {
    if stride == 1 {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(at, out.as_mut_ptr(), out.len()) };
        return;
    }
    // Of a stride that it knows, the compiler makes loads of many elements and shuffles.
    match stride {
        // SAFETY: the caller's promise.
        -1 => unsafe { copy_by(at, -1, out) },
        // SAFETY: the caller's promise.
        2 => unsafe { copy_by(at, 2, out) },
        // SAFETY: the caller's promise.
        -2 => unsafe { copy_by(at, -2, out) },
        // SAFETY: the caller's promise.
        _ => unsafe { copy_by(at, stride, out) },
    }
}

/// The same, one by one as it is written.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn copy_by<T: Element>(at: *const T, stride: isize, out: &mut [T]) {
    for (i, out) in out.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *out = unsafe { at.wrapping_offset(i as isize * stride).read() };
    }
}
