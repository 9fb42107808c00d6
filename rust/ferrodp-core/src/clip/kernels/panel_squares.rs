//! Sums of squares of the rows of a panel, in the order of [`super::measure`], each lane of which is here a vector of rows.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use super::measure::SQUARE_LANES;
use super::prefetch::{PARTS_PER_MEASURED, PrefetchQueue};
use super::transpose::{AlignedColumn, Column, PANEL_ROWS};
use crate::clip::source::element::Element;

/// Sums of lanes that others are added to later.
type Waiting = [Column<f64>; (SQUARE_LANES / 2).ilog2() as usize];

/// Numbers of four bits with their bits reversed.
const REVERSED_LANES: [u8; SQUARE_LANES / 2] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];

/// Rows of a vector.
const ROWS_PER_VECTOR: usize = 8;

/// Pairs of lanes that are added in registers, where no lane has two columns.
const PAIRS_IN_REGISTERS: usize = 4;

/// Returns the sums of squares of the rows of a panel of at most a block of columns.
#[inline(always)]
pub(super) fn squares<T: Element, const NATIVE: bool>(
    columns: &[AlignedColumn<T>],
    queue: &mut PrefetchQueue,
) -> Column<f64> {
    let half = columns.len().next_power_of_two().min(SQUARE_LANES) / 2;
    if half == 0 {
        return lane::<T, NATIVE>(columns, 0, 1);
    }
    let mut waiting: Waiting = [[0.0; PANEL_ROWS]; _];
    let step =
        if NATIVE && (PAIRS_IN_REGISTERS + 1..=SQUARE_LANES).contains(&columns.len()) { PAIRS_IN_REGISTERS } else { 1 };
    let mut depth = 0;
    // In the order in which sums can be added to what was left before: few are left at a time.
    for k in 0..half / step {
        // A call each time would take the registers of sums.
        if (step * k).is_multiple_of(PAIRS_IN_REGISTERS) {
            queue.issue(PAIRS_IN_REGISTERS * columns.len() / half, PARTS_PER_MEASURED);
        }
        // Its bits from the last to the first.
        let i = usize::from(REVERSED_LANES[step * k]) * half / REVERSED_LANES.len();
        let mut sum = pair::<T, NATIVE>(columns, i, half);
        if step == PAIRS_IN_REGISTERS {
            add(&mut sum, &pair::<T, NATIVE>(columns, i + half / 2, half));
            let mut upper = pair::<T, NATIVE>(columns, i + half / 4, half);
            add(&mut upper, &pair::<T, NATIVE>(columns, i + half / 2 + half / 4, half));
            add(&mut sum, &upper);
        }
        for _ in 0..k.trailing_ones() {
            depth -= 1;
            add(&mut sum, &waiting[depth]);
        }
        waiting[depth] = sum;
        depth += 1;
    }
    waiting[0]
}

#[inline(always)]
fn add(sum: &mut Column<f64>, other: &Column<f64>) {
    for r in 0..PANEL_ROWS {
        sum[r] += other[r];
    }
}

/// Returns the sum of a lane and of that `half` lanes later.
#[inline(always)]
fn pair<T: Element, const NATIVE: bool>(columns: &[AlignedColumn<T>], i: usize, half: usize) -> Column<f64> {
    let mut sum = lane::<T, NATIVE>(columns, i, 2 * half);
    add(&mut sum, &lane::<T, NATIVE>(columns, i + half, 2 * half));
    sum
}

/// Returns one of so many lanes.
#[inline(always)]
fn lane<T: Element, const NATIVE: bool>(columns: &[AlignedColumn<T>], i: usize, lanes: usize) -> Column<f64> {
    // The last chunk fills the last lanes; chunks before it fill all.
    let whole = columns.len().saturating_sub(1) / SQUARE_LANES * SQUARE_LANES;
    let rest = columns.len() - whole;
    let mut sums = [0.0; PANEL_ROWS];
    // A vector after the other: of all of them at once, the compiler would shuffle elements.
    for (place, sums) in sums.as_chunks_mut::<ROWS_PER_VECTOR>().0.iter_mut().enumerate() {
        let elements = |column: usize| &columns[column].0.as_chunks::<ROWS_PER_VECTOR>().0[place];
        for chunk in (0..whole).step_by(SQUARE_LANES) {
            *sums = add_squares::<T, NATIVE>(elements(chunk + i), *sums);
        }
        // mutant: lanes-of-last-columns-forgotten
        if i + rest >= lanes {
            *sums = add_squares::<T, NATIVE>(elements(whole + i + rest - lanes), *sums);
        }
    }
    sums
}

/// Returns the sums and the squares of a column.
#[inline(always)]
fn add_squares<T: Element, const NATIVE: bool>(
    column: &[T; ROWS_PER_VECTOR],
    mut sums: [f64; ROWS_PER_VECTOR],
) -> [f64; ROWS_PER_VECTOR] {
    for r in 0..ROWS_PER_VECTOR {
        let x = column[r].widen();
        sums[r] = if NATIVE && T::SQUARES_FIT { x.mul_add(x, sums[r]) } else { sums[r] + x * x };
    }
    sums
}
