//! Rows of few columns, a panel of thirty-two at a time: vectors hold one column of several rows, not several columns of one row.
//!
//! A panel is copied so that the elements of a column follow one another, so what is measured is what is added. Its rows' sums of
//! squares are those of [`super::measure`], in its order. Rows that the plain comparisons leave open are copied out as rows, and
//! decided where all such rows are.
//!
//! Certificates are floating-point sums of the squares of the numbers that are truncated. They are added in runs of 128 columns, and at
//! most eight runs one after the other: [`crate::clip::rule::error_budget`] pays for as many additions.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::add_rows::Converted;
use super::add_rows::{Integers, Shifted, Step, square};
use super::lanes::{Aligned, mask};
use super::panel_squares::squares;
use super::prefetch::{PARTS_PER_ADDED, PanelPrefetch, PrefetchQueue};
use super::transpose::{AlignedColumn, Blocks, Column, PANEL_ROWS, copy_panel};
use crate::clip::rule::limits::Decided;
use crate::clip::rule::near_bound;
use crate::clip::rule::row_decisions::ClipRule;
use crate::clip::source::element::Element;
use crate::clip::source::leaf::Matrix;
use crate::isa::dispatch::{self, Kernel};

/// The most columns of a panel: its certificates go through no more additions than the error budget pays for.
pub(in crate::clip) const MAX_PANEL_COLUMNS: usize = 1024;

/// Columns whose certificates are added in one run, and columns between two looks at what is prefetched.
const RUN_COLUMNS: usize = 128;
const COLUMNS_TOGETHER: usize = 8;

/// Sums of a column that are kept apart: rows this far from each other share one.
const SUMS_PER_COLUMN: usize = PANEL_ROWS / 4;

/// Adds whole panels of these rows of a matrix to `sums`, one for each column. Returns how many rows were within the clip norm, if all
/// were certified.
///
/// # Safety
/// The matrix has these rows, and as many columns as there are sums.
pub(in crate::clip) unsafe fn add<T: Element>(
    rule: &ClipRule,
    matrix: &Matrix<'_, T>,
    rows: Range<usize>,
    sums: &mut [i64],
) -> Option<u64> {
    assert!((1..=MAX_PANEL_COLUMNS).contains(&sums.len()) && rows.len().is_multiple_of(PANEL_ROWS), "panels");
    dispatch::run(rule.rule.isa, AddPanels { rule, matrix, rows, sums })
}

struct AddPanels<'a, T> {
    rule: &'a ClipRule,
    matrix: &'a Matrix<'a, T>,
    rows: Range<usize>,
    sums: &'a mut [i64],
}

impl<T: Element> Kernel for AddPanels<'_, T> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> Option<u64> {
        self.add::<NATIVE, Shifted<NATIVE>>()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) -> Option<u64> {
        self.add::<true, Converted>()
    }
}

impl<T: Element> AddPanels<'_, T> {
    #[inline(always)]
    fn add<const NATIVE: bool, I: Integers>(self) -> Option<u64> {
        let Self { rule, matrix, rows, sums } = self;
        let (width, limits) = (sums.len(), rule.limits::<T>());
        let mut columns = vec![AlignedColumn([T::default(); PANEL_ROWS]); width];
        let mut blocks = Blocks::new(width);
        // In an array: the compiler sees that they are apart from all else, and keeps them in registers.
        let mut column_sums = [Aligned([0_i64; SUMS_PER_COLUMN]); MAX_PANEL_COLUMNS];
        let column_sums = &mut column_sums[..width];
        let (mut within, mut certified, mut resolved_within) = ([0_u64; PANEL_ROWS], u64::MAX, 0);
        let mut open = OpenPanel::new(width);
        // Of a constant, comparisons would be made one by one.
        let exist = core::hint::black_box([u64::MAX; PANEL_ROWS]);
        let ahead = PanelPrefetch::of(&matrix.from(rows.start), rows.len(), PANEL_ROWS, width);
        for (index, first) in rows.step_by(PANEL_ROWS).enumerate() {
            let mut queue = ahead.map_or_else(PrefetchQueue::empty, |ahead| ahead.queue(index));
            // SAFETY: the promise of `add`.
            unsafe { copy_panel(rule.rule.isa, matrix, first, &mut columns, &mut blocks, &mut queue) };
            let totals = Aligned(squares::<T, NATIVE>(&columns, &mut queue));
            let mut decided = limits.decide(&totals.0, &exist);
            let (mut is_any_open, mut all) = (0, u64::MAX);
            for r in 0..PANEL_ROWS {
                within[r] = within[r].wrapping_sub(decided.clear[r]);
                is_any_open |= decided.open[r];
                all &= decided.masks[r];
            }
            // mutant: rows-of-panels-taken-for-plain
            let sure = if is_any_open == 0 && all == u64::MAX {
                let panel = Panel { columns: &columns, decided: &decided, scales: &open.scales, near: &open.near };
                let (products, _) = panel.add::<I, false>(column_sums, &mut queue);
                rule.are_certified_by(&products)
            } else {
                open.scales = [1.0; PANEL_ROWS];
                open.near = [0; PANEL_ROWS];
                if is_any_open != 0 {
                    resolved_within += open.resolve(rule, &columns, &totals.0, &mut decided);
                }
                let panel = Panel { columns: &columns, decided: &decided, scales: &open.scales, near: &open.near };
                // Out of line: its vectors would take registers from the loop over plain panels.
                dispatch::run(rule.rule.isa, AddOpen { rule, panel, sums: column_sums, queue: &mut queue })
            };
            certified &= mask(sure);
        }
        for (sum, Aligned(more)) in sums.iter_mut().zip(&*column_sums) {
            *sum = more.iter().fold(*sum, |sum, k| sum.wrapping_add(*k));
        }
        (certified == u64::MAX).then(|| within.iter().fold(resolved_within, |sum, rows| sum.wrapping_add(*rows)))
    }
}

/// Adds a panel with rows that were open or count as zero, and returns whether it is certified.
struct AddOpen<'a, T> {
    rule: &'a ClipRule,
    panel: Panel<'a, T>,
    sums: &'a mut [Aligned<[i64; SUMS_PER_COLUMN]>],
    queue: &'a mut PrefetchQueue,
}

impl<T: Element> Kernel for AddOpen<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        self.add::<Shifted<NATIVE>>()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) -> bool {
        self.add::<Converted>()
    }
}

impl<T: Element> AddOpen<'_, T> {
    #[inline(always)]
    fn add<I: Integers>(self) -> bool {
        let (products, squares) = self.panel.add::<I, true>(self.sums, self.queue);
        self.panel.are_certified(self.rule, &products, &squares)
    }
}

/// A panel on its way into sums.
struct Panel<'a, T> {
    columns: &'a [AlignedColumn<T>],
    decided: &'a Decided<PANEL_ROWS>,
    /// What elements are multiplied by before their factors, powers of two.
    scales: &'a Column<f64>,
    /// Rows whose certificate is the sum of squares of their integers.
    near: &'a Column<u64>,
}

impl<T: Element> Panel<'_, T> {
    /// Adds the integers of all columns to their sums, and returns for each row the sums of squares of what they were truncated from and,
    /// where `OPEN`, of the integers themselves. `OPEN` is for panels with rows that were open or count as zero.
    #[inline(always)]
    fn add<I: Integers, const OPEN: bool>(
        &self,
        sums: &mut [Aligned<[i64; SUMS_PER_COLUMN]>],
        queue: &mut PrefetchQueue,
    ) -> (Column<f64>, Column<u64>) {
        let factors = &self.decided.factors;
        let (mut products, mut squares) = ([0.0; PANEL_ROWS], [0_u64; PANEL_ROWS]);
        for (columns, sums) in self.columns.chunks(RUN_COLUMNS).zip(sums.chunks_mut(RUN_COLUMNS)) {
            let mut of_run = [0.0; PANEL_ROWS];
            for (columns, sums) in columns.chunks(COLUMNS_TOGETHER).zip(sums.chunks_mut(COLUMNS_TOGETHER)) {
                queue.issue(COLUMNS_TOGETHER, PARTS_PER_ADDED);
                assert!(columns.len() == sums.len(), "a sum for each column");
                // By its address: of a loop over two slices, `of_run` would not stay in registers.
                let mut column = columns.as_ptr();
                for Aligned(sums) in sums {
                    // SAFETY: there are as many columns as sums.
                    let AlignedColumn(of_column) = unsafe { &*column };
                    of_run = if OPEN {
                        self.add_open::<I>(of_column, of_run, &mut squares, sums)
                    } else {
                        add_plain::<T, I>(of_column, factors, of_run, sums)
                    };
                    column = column.wrapping_add(1);
                }
            }
            for r in 0..PANEL_ROWS {
                // mutant: certificates-of-runs-forgotten
                products[r] += of_run[r];
            }
        }
        (products, squares)
    }

    /// Adds a column of which some rows are multiplied by powers of two first, or count as zero; returns `products` and the squares of
    /// what was truncated, and adds those of integers to `squares`.
    #[inline(always)]
    fn add_open<I: Integers>(
        &self,
        column: &Column<T>,
        mut products: Column<f64>,
        squares: &mut Column<u64>,
        sums: &mut [i64; SUMS_PER_COLUMN],
    ) -> Column<f64> {
        let mut values = [0.0; PANEL_ROWS];
        for r in 0..PANEL_ROWS {
            values[r] = f64::from_bits(column[r].widen().to_bits() & self.decided.masks[r]);
        }
        if !T::SQUARES_FIT {
            for r in 0..PANEL_ROWS {
                // mutant: open-rows-of-panels-lose-power-of-two
                values[r] *= self.scales[r];
            }
        }
        for r in 0..PANEL_ROWS {
            values[r] *= self.decided.factors[r];
        }
        for r in 0..PANEL_ROWS {
            let v = values[r];
            products[r] = if I::NATIVE { v.mul_add(v, products[r]) } else { products[r] + v * v };
        }
        let integers = I::of(values);
        add_integers(&integers, sums);
        for r in 0..PANEL_ROWS {
            squares[r] = squares[r].wrapping_add(square(integers[r]));
        }
        products
    }

    /// Returns whether all rows are certified, some by the squares of their integers.
    fn are_certified(&self, rule: &ClipRule, products: &Column<f64>, squares: &Column<u64>) -> bool {
        (0..PANEL_ROWS).all(|r| {
            let add = Step::Add { scale: 1.0, factor: 1.0 };
            // mutant: rows-of-panels-at-bound-certified-without-integers
            let step = if self.near[r] == 0 { add } else { Step::AddNear { factor: 1.0 } };
            rule.is_certified(step, products[r], squares[r])
        })
    }
}

/// Adds a column whose rows all count; returns `products` and the squares of what was truncated. By value: so they stay in registers.
#[inline(always)]
fn add_plain<T: Element, I: Integers>(
    column: &Column<T>,
    factors: &Column<f64>,
    mut products: Column<f64>,
    sums: &mut [i64; SUMS_PER_COLUMN],
) -> Column<f64> {
    let mut values = [0.0; PANEL_ROWS];
    for r in 0..PANEL_ROWS {
        values[r] = column[r].widen() * factors[r];
    }
    for r in 0..PANEL_ROWS {
        let v = values[r];
        products[r] = if I::NATIVE { v.mul_add(v, products[r]) } else { products[r] + v * v };
    }
    add_integers(&I::of(values), sums);
    products
}

/// Adds the integers of a column to its sums.
#[inline(always)]
fn add_integers(integers: &[i64; PANEL_ROWS], sums: &mut [i64; SUMS_PER_COLUMN]) {
    for r in 0..SUMS_PER_COLUMN {
        let lower = integers[r].wrapping_add(integers[r + SUMS_PER_COLUMN]);
        let upper = integers[r + 2 * SUMS_PER_COLUMN].wrapping_add(integers[r + 3 * SUMS_PER_COLUMN]);
        sums[r] = sums[r].wrapping_add(lower.wrapping_add(upper));
    }
}

/// What is known of the rows of a panel that the plain comparisons leave open.
struct OpenPanel<T> {
    /// One of them, copied out.
    row: Vec<T>,
    /// What elements of rows are multiplied by before their factors, powers of two.
    scales: Column<f64>,
    /// Rows whose certificate is the sum of squares of their integers.
    near: Column<u64>,
}

impl<T: Element> OpenPanel<T> {
    fn new(width: usize) -> Self {
        Self { row: vec![T::default(); width], scales: [1.0; PANEL_ROWS], near: [0; PANEL_ROWS] }
    }

    /// Decides these rows: writes their factors and masks, and returns how many are within the clip norm.
    #[inline(never)]
    fn resolve(
        &mut self,
        rule: &ClipRule,
        columns: &[AlignedColumn<T>],
        totals: &Column<f64>,
        decided: &mut Decided<PANEL_ROWS>,
    ) -> u64 {
        let mut within = self.compare(rule, columns, totals, decided);
        for r in (0..PANEL_ROWS).filter(|r| decided.open[*r] != 0) {
            for (x, column) in self.row.iter_mut().zip(columns) {
                *x = column.0[r];
            }
            let (step, is_within) = rule.step(totals[r], core::iter::once(&self.row[..]));
            within += u64::from(is_within);
            (self.scales[r], decided.factors[r], decided.masks[r], self.near[r]) = match step {
                Step::Skip => (1.0, 0.0, 0, 0),
                Step::Add { scale, factor } => (scale, factor, u64::MAX, 0),
                Step::AddNear { factor } => (1.0, factor, u64::MAX, u64::MAX),
            };
        }
        within
    }

    /// Decides those near the bound that sums of twice the precision tell, all at once; the others stay open.
    fn compare(
        &mut self,
        rule: &ClipRule,
        columns: &[AlignedColumn<T>],
        totals: &Column<f64>,
        decided: &mut Decided<PANEL_ROWS>,
    ) -> u64 {
        let (mut near, mut any) = ([0; PANEL_ROWS], 0);
        for r in 0..PANEL_ROWS {
            let is_near = rule.rule.is_near(totals[r]) & !rule.rule.is_far::<T>(totals[r]);
            near[r] = mask(is_near) & decided.open[r];
            any |= near[r];
        }
        let differences =
            || near_bound::differences(rule.rule.isa, rule.rule.bound, columns.iter().map(|column| &column.0));
        let Some((differences, margin)) = Some(any).filter(|any| *any != 0).and_then(|_| differences()) else {
            return 0;
        };
        let (keeps, steps) = (mask(rule.rule.stability.is_none()), rule.clip.granularity().reciprocal());
        let mut within = 0_u64;
        for (r, difference) in differences.into_iter().enumerate() {
            // mutant: resolved-rows-added-as-longer-ones
            let shorter = near[r] & mask(difference < -margin);
            // A longer one has its factor.
            let kept = shorter & keeps;
            decided.factors[r] = f64::from_bits((decided.factors[r].to_bits() & !kept) | (steps.to_bits() & kept));
            decided.open[r] &= !(shorter | (near[r] & mask(difference > margin)));
            self.near[r] = kept;
            within = within.wrapping_sub(shorter);
        }
        within
    }
}

#[cfg(test)]
#[path = "panel_tests.rs"]
mod tests;
