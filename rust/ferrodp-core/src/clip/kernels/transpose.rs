//! Panels of a matrix, copied so that the elements of a column follow one another.

use super::prefetch::{PARTS_PER_TRANSPOSED, PrefetchQueue};
#[cfg(target_arch = "x86_64")]
use super::transpose_avx512;
use crate::clip::source::element::Element;
use crate::clip::source::leaf::Matrix;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Kind;

/// Rows of a panel: of fewer, results wait for each other.
pub(in crate::clip) const PANEL_ROWS: usize = 32;

/// A column of these rows, or a number or a bit pattern for each.
pub(in crate::clip) type Column<T> = [T; PANEL_ROWS];

/// Columns as aligned as vectors.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct AlignedColumn<T>(pub(super) Column<T>);

/// Columns that are transposed at a time where rows are longer: as many as the compiler transposes by shuffles, of four bytes and of
/// eight.
const BLOCK_COLUMNS_F32: usize = 8;
const BLOCK_COLUMNS_F64: usize = 4;

/// Elements of blocks of columns, row by row, before they are transposed.
pub(super) struct Blocks<T>(Vec<AlignedColumn<T>>);

impl<T: Element> Blocks<T> {
    /// Room for so many columns.
    pub(super) fn new(columns: usize) -> Self {
        Self(vec![AlignedColumn([T::default(); PANEL_ROWS]); columns.next_multiple_of(BLOCK_COLUMNS_F32)])
    }
}

/// Copies the columns of `PANEL_ROWS` rows of a matrix, from row `first` on, to `out`.
///
/// # Safety
/// The matrix has these rows, and as many columns.
#[inline(always)]
pub(super) unsafe fn copy_panel<T: Element>(
    isa: Isa,
    matrix: &Matrix<'_, T>,
    first: usize,
    out: &mut [AlignedColumn<T>],
    blocks: &mut Blocks<T>,
    queue: &mut PrefetchQueue,
) {
    let start = matrix.start.wrapping_offset(matrix.row.wrapping_mul(first as isize));
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == Kind::Avx512 && matrix.column == 1 && matrix.row != 1 && out.len() >= 4 {
        const { assert!(size_of::<AlignedColumn<T>>() == size_of::<Column<T>>(), "no space between columns") };
        let (width, columns) = (out.len(), out.as_mut_ptr());
        let each = |columns| queue.issue(columns, PARTS_PER_TRANSPOSED);
        // SAFETY: the CPU has reported these instructions. The caller's promise; types of four bytes are `f32`, others `f64`.
        unsafe {
            if T::SQUARES_FIT {
                let out: &mut [Column<f32>] = core::slice::from_raw_parts_mut(columns.cast(), width);
                transpose_avx512::singles(start.cast(), matrix.row, out, each);
            } else {
                let out: &mut [Column<f64>] = core::slice::from_raw_parts_mut(columns.cast(), width);
                transpose_avx512::doubles(start.cast(), matrix.row, out, each);
            }
        }
        return;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    // SAFETY: the caller's promise, in all of these.
    unsafe {
        if matrix.row == 1 {
            for (block, out) in out.chunks_mut(BLOCK_COLUMNS_F32).enumerate() {
                queue.issue(BLOCK_COLUMNS_F32, PARTS_PER_TRANSPOSED);
                for (c, out) in out.iter_mut().enumerate() {
                    let column = ((block * BLOCK_COLUMNS_F32 + c) as isize).wrapping_mul(matrix.column);
                    out.0 = start.wrapping_offset(column).cast::<Column<T>>().read();
                }
            }
        } else if matrix.column == 1 && T::SQUARES_FIT && out.len() >= BLOCK_COLUMNS_F32 {
            transpose_blocks::<T>(start, matrix.row, out, queue);
        } else if matrix.column == 1 && out.len() >= BLOCK_COLUMNS_F64 {
            transpose_copied_blocks::<T>(start, matrix.row, out, blocks, queue);
        } else {
            queue.issue(out.len(), PARTS_PER_TRANSPOSED);
            for (c, out) in out.iter_mut().enumerate() {
                let start = start.wrapping_offset((c as isize).wrapping_mul(matrix.column));
                for (r, out) in out.0.iter_mut().enumerate() {
                    *out = start.wrapping_offset((r as isize).wrapping_mul(matrix.row)).read();
                }
            }
        }
    }
}

/// Transposes blocks of columns; the last one ends with the last column, and so may overlap the one before.
///
/// # Safety
/// `PANEL_ROWS` rows of as many elements as `out` has, a block or more, can be read from `start` on, `pitch` apart.
#[inline(always)]
unsafe fn transpose_blocks<T: Element>(
    start: *const T,
    pitch: isize,
    out: &mut [AlignedColumn<T>],
    queue: &mut PrefetchQueue,
) {
    for block in (0..out.len()).step_by(BLOCK_COLUMNS_F32) {
        queue.issue(BLOCK_COLUMNS_F32, PARTS_PER_TRANSPOSED);
        // mutant: last-columns-of-panels-not-transposed
        let first = block.min(out.len() - BLOCK_COLUMNS_F32);
        let mut rows = AlignedRows([[T::default(); BLOCK_COLUMNS_F32]; PANEL_ROWS]);
        // SAFETY: a block of each row.
        unsafe { copy_rows(start.wrapping_add(first), pitch, &mut rows.0) };
        transpose(&rows.0, out[first..].first_chunk_mut().expect("a block of columns"));
    }
}

/// The same, all copied before the first is transposed: vectors of two rows are read when both have been written for a while.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn transpose_copied_blocks<T: Element>(
    start: *const T,
    pitch: isize,
    out: &mut [AlignedColumn<T>],
    blocks: &mut Blocks<T>,
    queue: &mut PrefetchQueue,
) {
    let last = out.len() - BLOCK_COLUMNS_F64;
    let starts = (0..out.len()).step_by(BLOCK_COLUMNS_F64);
    // Each block in as many columns as it has.
    let copies = blocks.0.as_chunks_mut::<BLOCK_COLUMNS_F64>().0;
    for (block, copied) in starts.clone().zip(&mut *copies) {
        queue.issue(BLOCK_COLUMNS_F64, PARTS_PER_TRANSPOSED);
        // SAFETY: a block of each row.
        unsafe { copy_rows(start.wrapping_add(block.min(last)), pitch, as_rows(copied)) };
    }
    // Or elements would be transposed one by one, in registers.
    let copies = core::hint::black_box(copies);
    for (block, copied) in starts.zip(copies) {
        transpose(as_rows(copied), out[block.min(last)..].first_chunk_mut().expect("a block of columns"));
    }
}

/// Returns columns as the rows that are kept in them before they are transposed.
#[inline(always)]
fn as_rows<T, const N: usize>(columns: &mut [AlignedColumn<T>; N]) -> &mut [[T; N]; PANEL_ROWS] {
    const { assert!(size_of::<AlignedColumn<T>>() == size_of::<Column<T>>(), "no space between columns") };
    // SAFETY: as many elements, one after the other.
    unsafe { &mut *core::ptr::from_mut(columns).cast() }
}

/// Copies `N` elements of each row.
///
/// # Safety
/// As many can be read from `start` on and at each multiple of `pitch` from there.
#[inline(always)]
unsafe fn copy_rows<T: Element, const N: usize>(start: *const T, pitch: isize, rows: &mut [[T; N]; PANEL_ROWS]) {
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { start.wrapping_offset((r as isize).wrapping_mul(pitch)).cast::<[T; N]>().read() };
    }
}

/// Transposes rows that follow one another.
#[inline(always)]
fn transpose<T: Element, const N: usize>(rows: &[[T; N]; PANEL_ROWS], out: &mut [AlignedColumn<T>; N]) {
    let rows = &rows.as_flattened()[..N * PANEL_ROWS];
    for r in 0..PANEL_ROWS {
        for c in 0..N {
            out[c].0[r] = rows[r * N + c];
        }
    }
}

/// Some columns of rows, from the start of a cache line on.
#[repr(align(64))]
struct AlignedRows<T, const N: usize>([[T; N]; PANEL_ROWS]);
