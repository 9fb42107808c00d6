//! Which way rows take into sums: the only place that chooses, and the only one with thresholds of shapes.
//!
//! A threshold says its unit and its question. All were measured; the record beside each says how. A new route needs 15 % on a shape
//! that is promised (the design's list is in `benches/clipping/shapes.py`), on processors of two makers, and a row in the table of
//! [`super`].

use super::kernels::add_rows::ROWS_TOGETHER;
use super::kernels::fused_measure;
use super::kernels::panels::MAX_PANEL_COLUMNS;
use super::kernels::transpose::{Column, PANEL_ROWS};
use super::source::element::Element;
use super::source::leaf::Rows;
use crate::isa::Isa;

/// A way of rows into sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One row after the other, the columns of each shared among threads.
    SharedColumns,
    /// Tiles of contiguous rows, read where they are: measured, then added.
    RowTiles,
    /// Rows copied into contiguous ones, block by block, and these in tiles.
    CopiedTiles,
    /// Contiguous rows of few columns, transposed in panels of 32.
    Panels,
    /// Rows copied into contiguous ones of few columns, and these in panels.
    CopiedPanels,
    /// Columns that are contiguous, copied in panels of 32 rows.
    ColumnPanels,
}

/// How the elements of rows are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Every leaf is a contiguous matrix of numbers, row by row.
    Rows,
    /// There is one leaf, a matrix of numbers whose columns are contiguous.
    Columns,
    /// Anything else.
    Other,
}

/// What a route is chosen by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) leaves: usize,
    pub(super) layout: Layout,
    /// Bytes of an element.
    pub(super) element: usize,
}

/// Bytes of rows from which on no shared cache holds them. Record: out-of-cache.
const UNCACHED_BYTES: usize = 1 << 24;

/// Columns from which on threads share the columns of one row, and not the rows: sums of their own would cost them more.
const SHARED_ROW_MIN_COLUMNS: usize = 1 << 21;

/// The most columns of contiguous rows that are added in panels, of four bytes and of eight. Record: narrow-rows.
const PANEL_MAX_COLUMNS_F32: usize = 63;
const PANEL_MAX_COLUMNS_F64: usize = 127;

/// The most contiguous columns that are added in panels, of rows in a cache. Record: whole-columns.
const COLUMN_PANEL_MAX_CACHED_COLUMNS: usize = 256;

/// Bytes of a panel from memory, at most: it is in a second-level cache together with the panels that are prefetched. Record:
/// whole-columns.
const COLUMN_PANEL_MAX_BYTES: usize = 7 << 15;

/// Columns of a leaf, on average, from which on leaves are read where they are: smaller ones are over before a kernel has begun.
/// Record: many-arrays.
const LEAF_MIN_COLUMNS: usize = 64;

impl Shape {
    /// The shape of these rows, whose leaves are contiguous or not.
    pub(super) fn of<T: Element>(rows: &Rows<'_, T>, are_contiguous: bool) -> Self {
        let layout = match are_contiguous {
            true => Layout::Rows,
            false if rows.matrix().is_some() => Layout::Columns,
            false => Layout::Other,
        };
        let (count, columns, leaves) = (rows.count(), rows.width(), rows.leaves().len());
        Self { rows: count, columns, leaves, layout, element: size_of::<T>() }
    }

    /// Whether threads share the rows, with sums of their own.
    pub(super) fn shares_rows(&self, threads: usize) -> bool {
        threads > 1 && self.rows >= 2 * threads && self.columns < SHARED_ROW_MIN_COLUMNS
    }

    /// Whether no shared cache holds these rows.
    fn is_uncached(&self) -> bool {
        self.rows.saturating_mul(self.columns).saturating_mul(self.element) > UNCACHED_BYTES
    }
}

impl Route {
    /// All routes.
    #[cfg(test)]
    pub(super) const ALL: [Self; 6] =
        [Self::SharedColumns, Self::RowTiles, Self::CopiedTiles, Self::Panels, Self::CopiedPanels, Self::ColumnPanels];

    /// Returns the way of rows of this shape into sums, on so many threads.
    pub(super) fn of(shape: &Shape, threads: usize) -> Self {
        let &Shape { rows, columns, leaves, layout, element } = shape;
        let panel_columns = if element == 4 { PANEL_MAX_COLUMNS_F32 } else { PANEL_MAX_COLUMNS_F64 };
        let is_narrow = leaves == 1 && rows >= PANEL_ROWS && (1..=panel_columns).contains(&columns);
        let column_panel_columns = match shape.is_uncached() {
            true => MAX_PANEL_COLUMNS.min(COLUMN_PANEL_MAX_BYTES / size_of::<Column<u8>>() / element),
            false => COLUMN_PANEL_MAX_CACHED_COLUMNS,
        };
        match layout {
            Layout::Rows if threads > 1 && (columns >= SHARED_ROW_MIN_COLUMNS || rows < 2 * threads) => {
                Self::SharedColumns
            }
            Layout::Rows if is_narrow => Self::Panels,
            Layout::Rows if leaves > 1 && columns < leaves.saturating_mul(LEAF_MIN_COLUMNS) => Self::CopiedTiles,
            Layout::Rows => Self::RowTiles,
            Layout::Columns if rows >= PANEL_ROWS && (1..=column_panel_columns).contains(&columns) => {
                Self::ColumnPanels
            }
            _ if is_narrow => Self::CopiedPanels,
            _ => Self::CopiedTiles,
        }
    }
}

/// How contiguous rows are cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Rows in a tile.
    pub(super) rows: usize,
    /// Rows of the next tile that are prefetched while one is added.
    pub(super) ahead: usize,
    /// Whether a tile is rows that are added together while the next ones are measured.
    pub(super) is_fused: bool,
}

/// Rows that are measured before the first of them is added, in bytes: they and the next tile stay in a second-level cache; rows from
/// memory in the first-level cache, if it holds as many as are added together.
const CACHED_TILE_BYTES: usize = 1 << 18;
const UNCACHED_TILE_BYTES: usize = 1 << 14;

/// Up to this many bytes, as many rows as are added together make a tile anyway: they share one pass over the sums. The same where the
/// next ones are measured at the same time. Record: measured-meanwhile.
const JOINT_TILE_MAX_BYTES: usize = 1 << 21;
const FUSED_TILE_MAX_BYTES: usize = 1 << 23;

/// Rows of more bytes are not prefetched: they would push out the row that is being added.
const PREFETCHED_ROW_MAX_BYTES: usize = 1 << 21;

/// Bytes of each leaf that a tile should have, if it has at most so many rows, and so many bytes: shorter pieces are over before the
/// processor sees a stream of addresses. Record: many-arrays.
const LEAF_PIECE_BYTES: usize = 6 << 10;
const LEAF_TILE_MAX_ROWS: usize = 16;
const LEAF_TILE_MAX_BYTES: usize = 1 << 23;

/// The most rows in a tile.
const TILE_MAX_ROWS: usize = 64;

impl Tiling {
    /// Returns how rows of this shape, which are contiguous, are cut into tiles.
    pub(super) fn of<T: Element>(shape: &Shape, isa: Isa) -> Self {
        let row_bytes = (shape.columns * shape.element).max(1);
        let [cached, uncached] = [CACHED_TILE_BYTES, UNCACHED_TILE_BYTES].map(|bytes| bytes / row_bytes);
        let is_uncached = shape.is_uncached();
        let most = match uncached {
            ROWS_TOGETHER.. if !is_uncached => cached,
            // Whole eights.
            8.. => uncached / 8 * 8,
            ROWS_TOGETHER.. => ROWS_TOGETHER,
            _ => cached,
        };
        let is_fused = fused_measure::is_supported::<T>(isa);
        let joint_bytes = if is_fused { FUSED_TILE_MAX_BYTES } else { JOINT_TILE_MAX_BYTES };
        if is_uncached && shape.leaves == 1 && uncached < ROWS_TOGETHER && ROWS_TOGETHER * row_bytes <= joint_bytes {
            return Self { rows: ROWS_TOGETHER, ahead: ROWS_TOGETHER, is_fused };
        }
        let rows = most.max((JOINT_TILE_MAX_BYTES / row_bytes).min(ROWS_TOGETHER)).clamp(1, TILE_MAX_ROWS);
        if row_bytes > PREFETCHED_ROW_MAX_BYTES {
            return Self { rows, ahead: 0, is_fused: false };
        }
        if shape.leaves < 2 {
            return Self { rows, ahead: rows, is_fused: false };
        }
        let pieces = LEAF_PIECE_BYTES.div_ceil((row_bytes / shape.leaves).max(1)).min(LEAF_TILE_MAX_BYTES / row_bytes);
        let rows = rows.max(pieces.min(LEAF_TILE_MAX_ROWS).next_multiple_of(ROWS_TOGETHER));
        Self { rows, ahead: rows, is_fused: false }
    }
}

/// Bytes of rows that are copied at a time: a second-level cache holds them. Rows of contiguous columns are copied at least so many at
/// a time, as far as a last cache holds them: as many elements share a cache line. Record: clip-rooms.
const COPIED_BLOCK_BYTES: usize = 1 << 18;
const COPIED_BLOCK_MIN_ROWS: usize = 16;
const COPIED_BLOCK_MAX_BYTES: usize = 1 << 24;

/// The same of rows that are then added in panels.
const COPIED_PANELS_BYTES: usize = 1 << 16;

/// Returns how many rows are copied at a time on that route.
pub(super) fn copied_rows(route: Route, shape: &Shape) -> usize {
    let row_bytes = (shape.columns * shape.element).max(1);
    if route == Route::CopiedPanels {
        return (COPIED_PANELS_BYTES / row_bytes).next_multiple_of(PANEL_ROWS).max(PANEL_ROWS);
    }
    let least = COPIED_BLOCK_MIN_ROWS.min(COPIED_BLOCK_MAX_BYTES / row_bytes);
    let rows = (COPIED_BLOCK_BYTES / row_bytes).min(TILE_MAX_ROWS).max(least).max(1);
    rows.min(shape.rows.max(1))
}
