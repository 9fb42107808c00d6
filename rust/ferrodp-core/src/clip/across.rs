//! What is measured and decided of rows that lie side by side ([`super::panel`]): the order of additions and the operations are
//! those of [`super::measure`] and [`super::decide`], for a vector of rows at once.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::ops::Range;

use super::close::{Cut, Near};
use super::columns::{Columns, Mask, Next, PANEL, Vector, mask};
use super::coming::{Coming, MEASURING};
use super::decide::Rule;
use super::element::Element;
use super::error_budget::ErrorBudget;
use super::measure::BLOCK;
use super::turn::{ROWS, Sheet, Turned};
use crate::dispatch::Kernel;

/// Lanes of [`super::measure`].
pub(super) const LANES: usize = 32;

/// Columns that are looked at of a panel before the next one, where no lanes are: what was fetched of their pages is used again. Parts of
/// a leaf begin with a multiple of so many.
pub(super) const STRIP: usize = 64;

/// Bytes of strips that a cache keeps, if they are no fewer columns than fill all lanes together.
const STRIP_BYTES: usize = 1 << 18;

/// Columns that are measured together: the sums of their lane are read and written once.
const TOGETHER: usize = 4;

/// Panels, and bytes of a chunk from memory and of its lanes, that a first-level cache holds with ease: of so few rows, columns are
/// measured in the order in which they lie in memory.
const FEW: usize = 2;
const FEW_BYTES: usize = 48 << 10;

/// Bytes of columns that are fetched before they are measured.
const MEASURED_BYTES: usize = 1 << 14;

/// What elements are multiplied by that are taken as they are.
const ONES: Vector = [1.0; PANEL];

/// Some columns of a leaf: all, or up to its end whole strips, which come one after the other.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, T> {
    pub(super) columns: Columns<'a, T>,
    /// The index of the first among all columns of the row.
    pub(super) offset: usize,
    /// Its index among those of the leaf, and how many the leaf has.
    pub(super) first: usize,
    pub(super) whole: usize,
}

impl<T: Element> Part<'_, T> {
    /// Returns strips that a cache keeps.
    pub(super) fn strips(self) -> impl Iterator<Item = Self> {
        let Self { columns, offset, first, whole } = self;
        let least = LANES * TOGETHER;
        let len = (columns.how_many(STRIP_BYTES) / least * least).max(least);
        (0..columns.width).step_by(len).map(move |start| {
            let columns = columns.of(start..columns.width.min(start + len));
            Self { columns, offset: offset + start, first: first + start, whole }
        })
    }
}

pub(super) struct MeasureClosely<'a, T> {
    pub(super) columns: Columns<'a, T>,
    pub(super) cut: Cut,
    pub(super) sums: &'a mut [Near<PANEL>],
}

impl<T: Element> Kernel for MeasureClosely<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        self.add::<NATIVE, false>()
    }
}

/// The same, and whether sums are exact.
pub(super) struct MeasureTies<'a, T>(pub(super) MeasureClosely<'a, T>);

impl<T: Element> Kernel for MeasureTies<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        self.0.add::<NATIVE, true>()
    }
}

impl<T: Element> MeasureClosely<'_, T> {
    #[inline(always)]
    fn add<const NATIVE: bool, const TIES: bool>(self) -> bool {
        // Without the instruction, a fused multiply-add takes longer than the exact sum.
        if !T::SQUARES_FIT && !NATIVE {
            return false;
        }
        let Self { columns, cut, sums } = self;
        assert!(columns.fill(sums.len()), "panels of elements");
        let are_large = columns.are_large();
        for strip in (0..columns.width).step_by(STRIP) {
            let mut next = Next::new(strip + STRIP, sums.len());
            for (p, sums) in sums.iter_mut().enumerate() {
                let Near { mut high, mut low, mut inexact } = *sums;
                for column in strip..columns.width.min(strip + STRIP) {
                    // From memory, this pass is a fifth faster if lines come as they are read.
                    if are_large {
                        columns.fetch_panel(column + STRIP, p);
                    } else {
                        columns.fetch(&mut next);
                    }
                    // SAFETY: the column is one of these, and there are so many panels.
                    let elements = unsafe { columns.load(column, p, NATIVE) };
                    // No `map`: of so much it makes a call for every element.
                    for r in 0..PANEL {
                        let parts = cut.parts::<T, true>(elements[r].widen());
                        high[r] += parts.high;
                        low[r] += parts.low;
                        // What may be exact is left to those who look.
                        inexact[r] |= if TIES { parts.inexact } else { 1 };
                    }
                }
                *sums = Near { high, low, inexact };
            }
        }
        true
    }
}

/// What tells rows with one element from others.
#[derive(Clone, Copy, Default)]
pub(super) struct Single {
    /// Elements that are not zero, as a negative number.
    pub(super) others: Mask,
    /// The sum of magnitudes, which is exact where there is one.
    pub(super) sizes: Vector,
}

pub(super) struct MeasureSingle<'a, T> {
    pub(super) columns: Columns<'a, T>,
    pub(super) sums: &'a mut [Single],
}

impl<T: Element> Kernel for MeasureSingle<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { columns, sums } = self;
        assert!(columns.fill(sums.len()), "panels of elements");
        for strip in (0..columns.width).step_by(STRIP) {
            let mut next = Next::new(strip + STRIP, sums.len());
            for (p, sums) in sums.iter_mut().enumerate() {
                let Single { mut others, mut sizes } = *sums;
                for column in strip..columns.width.min(strip + STRIP) {
                    columns.fetch(&mut next);
                    // SAFETY: the column is one of these, and there are so many panels.
                    let elements = unsafe { columns.load(column, p, NATIVE) };
                    for r in 0..PANEL {
                        let x = elements[r].widen();
                        others[r] = others[r].wrapping_add(mask(x != 0.0));
                        sizes[r] += x.abs();
                    }
                }
                *sums = Single { others, sizes };
            }
        }
    }
}

pub(super) struct MeasureLargest<'a, T> {
    pub(super) columns: Columns<'a, T>,
    pub(super) largest: &'a mut [Vector],
}

impl<T: Element> Kernel for MeasureLargest<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { columns, largest } = self;
        assert!(columns.fill(largest.len()), "panels of elements");
        for strip in (0..columns.width).step_by(STRIP) {
            let mut next = Next::new(strip + STRIP, largest.len());
            for (p, largest) in largest.iter_mut().enumerate() {
                // Of magnitudes, that with the larger bits is the larger one; those of NaN are the largest.
                let mut bits = largest.map(|x| x.to_bits().cast_signed());
                for column in strip..columns.width.min(strip + STRIP) {
                    // Or elements of several columns would be gathered.
                    let column = core::hint::black_box(column).min(columns.width - 1);
                    columns.fetch(&mut next);
                    // SAFETY: the column is one of these, and there are so many panels.
                    let elements = unsafe { columns.load(column, p, NATIVE) };
                    for r in 0..PANEL {
                        bits[r] = bits[r].max(elements[r].widen().abs().to_bits().cast_signed());
                    }
                }
                *largest = bits.map(|bits| f64::from_bits(bits.cast_unsigned()));
            }
        }
    }
}

pub(super) struct Measure<'a, T> {
    pub(super) part: Part<'a, T>,
    pub(super) totals: &'a mut [Vector],
    pub(super) lanes: &'a mut [Vector],
    /// What elements of rows are multiplied by in [`MeasureScaled`].
    pub(super) scales: &'a [Vector],
}

impl<T: Element> Kernel for Measure<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        self.add::<NATIVE, false>();
    }
}

/// The same with elements times powers of two.
pub(super) struct MeasureScaled<'a, T>(pub(super) Measure<'a, T>);

impl<T: Element> Kernel for MeasureScaled<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        self.0.add::<NATIVE, true>();
    }
}

impl<T: Element> Measure<'_, T> {
    #[inline(always)]
    fn add<const NATIVE: bool, const SCALED: bool>(self) {
        let Self { part: Part { columns, first, whole, .. }, totals, lanes, scales } = self;
        assert!(first.is_multiple_of(STRIP) && first + columns.width <= whole, "columns of a leaf");
        assert!(!SCALED || scales.len() == totals.len(), "a power of two for each row");
        assert!(columns.fill(totals.len()), "panels of elements");
        let panels = totals.len();
        let pitch = lanes.len() / LANES;
        assert!(pitch >= panels, "a vector of each lane for each panel");
        let bytes = panels * PANEL * LANES * (size_of::<f64>() + size_of::<T>());
        let are_few = panels <= FEW || (columns.is_fetched() && bytes <= FEW_BYTES);
        let mut start = 0;
        while start < columns.width {
            // Where these columns lie in a block of the leaf's, of how many, and up to which.
            let from = (first + start) % BLOCK;
            let len = BLOCK.min(whole - (first + start - from));
            let next = start + (len - from).min(columns.width - start);
            // Lanes before these are zeros.
            let used = len.next_power_of_two().min(LANES);
            let lanes = &mut lanes[..used * pitch];
            // mutant: lanes-of-later-columns-begin-with-those-before
            if from == 0 {
                lanes.fill([0.0; PANEL]);
            }
            let chunks = if are_few || !NATIVE { 0 } else { (next - start) / (LANES * TOGETHER) * TOGETHER };
            let rest = start + chunks * LANES;
            let mut squares = Squares { columns, scales, panels, pitch, lanes };
            squares.add_lanes::<NATIVE, SCALED>(Order { start, chunks });
            for start in (rest..next).step_by(LANES) {
                squares.add_chunk::<NATIVE, SCALED>(start..next.min(start + LANES));
            }
            if from + next - start == len {
                fold_in_halves(lanes, pitch, totals);
            }
            start = next;
        }
    }
}

/// Squares on their way into lanes.
struct Squares<'a, T> {
    columns: Columns<'a, T>,
    scales: &'a [Vector],
    panels: usize,
    /// Vectors from a lane to the next.
    pitch: usize,
    /// Of each lane that is used a vector for each panel, lane after lane.
    lanes: &'a mut [Vector],
}

impl<T: Element> Squares<'_, T> {
    /// Adds some of the chunks that fill all lanes, lane by lane: columns are read from end to end, and their lane stays in the
    /// first-level cache.
    #[inline(always)]
    fn add_lanes<const NATIVE: bool, const SCALED: bool>(&mut self, order: Order) {
        let Self { columns, scales, panels, pitch, lanes } = self;
        let ahead = columns.how_many(MEASURED_BYTES);
        for (i, lane) in lanes.chunks_exact_mut(*pitch).enumerate() {
            for chunk in (0..order.chunks).step_by(TOGETHER) {
                let first = order.column(i, chunk);
                let mut later = [0; TOGETHER];
                for (k, later) in later.iter_mut().enumerate() {
                    *later = order.column(i, chunk + ahead + k);
                    columns.fetch_end(*later);
                }
                for (p, sum) in lane.iter_mut().enumerate().take(*panels) {
                    let mut squares = *sum;
                    let scales = if SCALED { scales[p] } else { ONES };
                    for k in 0..TOGETHER {
                        columns.fetch_panel(later[k], p);
                        // SAFETY: the column is one of these, and there are so many panels.
                        let elements = unsafe { columns.load(first + k * LANES, p, NATIVE) };
                        add_squares::<T, NATIVE, SCALED>(elements, &scales, &mut squares);
                    }
                    *sum = squares;
                }
            }
        }
    }

    /// Adds up to a chunk of columns, which fill the last lanes, panel by panel.
    #[inline(always)]
    fn add_chunk<const NATIVE: bool, const SCALED: bool>(&mut self, chunk: Range<usize>) {
        let Self { columns, scales, panels, pitch, lanes } = self;
        let ahead = columns.how_many(MEASURED_BYTES);
        // mutant: lanes-of-last-columns-forgotten
        let unused = lanes.len() - chunk.len() * *pitch;
        for p in 0..*panels {
            let scales = if SCALED { scales[p] } else { ONES };
            let lanes = lanes[unused + p..].iter_mut().step_by(*pitch);
            for (column, sums) in chunk.clone().zip(lanes) {
                columns.fetch_panel(column + ahead, p);
                // SAFETY: the column is one of these, and there are so many panels.
                let elements = unsafe { columns.load(column, p, NATIVE) };
                add_squares::<T, NATIVE, SCALED>(elements, &scales, sums);
            }
        }
    }
}

/// The order in which columns of a block are measured that fill all lanes.
struct Order {
    /// The first column of the block.
    start: usize,
    chunks: usize,
}

impl Order {
    /// Returns the column of a lane in a chunk; where there are not so many chunks, one of a lane that comes later.
    #[inline(always)]
    fn column(&self, lane: usize, chunk: usize) -> usize {
        let Self { start, chunks } = *self;
        let (lane, chunk) = if chunk < chunks { (lane, chunk) } else { (lane + chunk / chunks, chunk % chunks) };
        // After the last lane comes the next block.
        start + (lane / LANES * chunks + chunk) * LANES + lane % LANES
    }
}

/// Adds the squares of elements to their sums.
#[inline(always)]
fn add_squares<T: Element, const NATIVE: bool, const SCALED: bool>(
    elements: [T; PANEL],
    scales: &Vector,
    sums: &mut Vector,
) {
    let mut values = elements.map(T::widen);
    if SCALED {
        // One small loop after the other, or elements would be computed with one by one.
        for r in 0..PANEL {
            values[r] *= scales[r];
        }
    }
    for r in 0..PANEL {
        let x = values[r];
        sums[r] = if NATIVE && T::SQUARES_FIT { x.mul_add(x, sums[r]) } else { sums[r] + x * x };
    }
}

/// Adds the upper half of lanes to the lower one until one is left, and that to totals.
#[inline(always)]
fn fold_in_halves(lanes: &mut [Vector], pitch: usize, totals: &mut [Vector]) {
    let mut half = lanes.len() / 2;
    while half >= pitch {
        let (lower, upper) = lanes[..2 * half].split_at_mut(half);
        for (lower, upper) in lower.iter_mut().zip(upper) {
            (0..PANEL).for_each(|r| lower[r] += upper[r]);
        }
        half /= 2;
    }
    for (total, lane) in totals.iter_mut().zip(lanes) {
        (0..PANEL).for_each(|r| total[r] += lane[r]);
    }
}

/// Numbers that a row's sum of squares is compared with, and of which its factor is made.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// From where on to where a sum is trusted.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Sums up to this are not those of elements that are not finite: only a NaN gives a NaN, and large squares of `f64`
    /// infinity.
    pub(super) finite: f64,
    pub(super) below: f64,
    pub(super) above: f64,
    pub(super) bound: f64,
    pub(super) shrink: f64,
    /// Whether rows within the bound are kept.
    pub(super) keeps: u64,
    pub(super) gamma: f64,
    pub(super) steps_per_unit: f64,
    budget: ErrorBudget,
}

pub(super) struct Decide<'a> {
    pub(super) limits: Limits,
    pub(super) totals: &'a [Vector],
    pub(super) factors: &'a mut [Vector],
    pub(super) masks: &'a mut [Mask],
    pub(super) open: &'a mut [Mask],
}

impl Kernel for Decide<'_> {
    /// How many rows are certainly within the bound, and whether any is open.
    type Output = (u64, bool);

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> (u64, bool) {
        let (mut within, mut any) = (0_u64, 0);
        let outputs = self.factors.iter_mut().zip(self.masks).zip(self.open);
        for (totals, ((factors, masks), open)) in self.totals.iter().zip(outputs) {
            let decided = self.limits.decide(totals, masks);
            for r in 0..PANEL {
                any |= decided.open[r];
                within = within.wrapping_sub(decided.clear[r]);
            }
            (*factors, *masks, *open) = (decided.factors, decided.masks, decided.open);
        }
        (within, any != 0)
    }
}

/// What begins with a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// What is decided about a panel.
#[repr(align(64))]
pub(super) struct Decided<const N: usize> {
    /// Of rows that are not open.
    pub(super) factors: [f64; N],
    /// Rows that do not count as zero.
    pub(super) masks: [u64; N],
    /// Rows that are certainly within the bound.
    pub(super) clear: [u64; N],
    /// Rows that the plain comparisons leave open.
    pub(super) open: [u64; N],
}

impl<const N: usize> Decided<N> {
    /// Whether all rows count.
    #[inline(always)]
    pub(super) fn are_all(&self) -> bool {
        let mut all = u64::MAX;
        for r in 0..N {
            all &= self.masks[r];
        }
        all == u64::MAX
    }
}

impl Limits {
    /// Returns those of a rule. Elements become integers after a multiplication by `steps_per_unit`, a power of two.
    pub(super) fn new<T: Element>(rule: &Rule, steps_per_unit: f64) -> Self {
        let (low, high) = rule.trusted::<T>();
        let bound = rule.bound * rule.bound;
        Self {
            low,
            high,
            finite: if T::SQUARES_FIT { f64::MAX } else { f64::INFINITY },
            below: bound * rule.budget.below(),
            above: bound * rule.budget.above(),
            bound: rule.bound,
            shrink: rule.budget.shrink(),
            keeps: mask(rule.stability.is_none()),
            gamma: rule.stability.map_or(0.0, |stability| stability.value()),
            steps_per_unit,
            budget: rule.budget,
        }
    }

    /// Decides a panel, of which these rows exist.
    #[inline(always)]
    pub(super) fn decide<const N: usize>(&self, totals: &[f64; N], exist: &[u64; N]) -> Decided<N> {
        let Self { low, high, finite, below, above, bound, shrink, keeps, gamma, steps_per_unit, .. } = *self;
        let (mut clear, mut open, mut masks, mut all) = ([0; N], [0; N], [0; N], u64::MAX);
        for r in 0..N {
            let total = totals[r];
            // Squares of 0 are of elements below 2^-537: their row is within every bound, and its integers are zeros.
            clear[r] = mask(total <= below) & (mask(total >= low) | (mask(total == 0.0) & keeps)) & exist[r];
            let beyond = mask(total >= above) & mask(total <= high);
            let counts = mask(total <= finite) & exist[r];
            open[r] = counts & !(clear[r] | beyond);
            // Elements that are far below a step are taken for zeros: their products would be subnormal.
            masks[r] = counts & !(clear[r] & mask(total == 0.0));
            all &= clear[r] & keeps;
        }
        let mut factors = [steps_per_unit; N];
        if all != u64::MAX {
            for r in 0..N {
                let kept = clear[r] & keeps;
                let factor = bound / (totals[r].sqrt() + gamma) * shrink * steps_per_unit;
                let factor = ((factor.to_bits() & !kept) | (steps_per_unit.to_bits() & kept)) & masks[r];
                factors[r] = f64::from_bits(factor);
            }
        }
        Decided { factors, masks, clear, open }
    }

    /// Decides the `far` ones of a panel's rows, as [`super::decide`] does, given the bits of their largest magnitudes, the powers of
    /// two `scales` that bring these near 1, and the sums of squares of elements times that; writes 1 to `scales` where rows
    /// are not multiplied by it. Returns how many rows were decided, and how many of these are within the bound.
    #[inline(always)]
    pub(super) fn decide_again<const N: usize>(
        &self,
        far: &[u64; N],
        Again { largest, totals, scales }: Again<'_, N>,
        factors: &mut [f64; N],
        masks: &mut [u64; N],
        open: &mut [u64; N],
    ) -> (u64, u64) {
        let Self { bound, shrink, keeps, gamma, steps_per_unit, budget, .. } = *self;
        let (below, above, one) = (budget.below(), budget.above(), 1.0_f64.to_bits());
        let (mut told, mut clear, mut counts) = (Aligned([0; N]), Aligned([0; N]), Aligned([0; N]));
        let mut found = Aligned([0.0; N]);
        for r in 0..N {
            let (total, scale) = (totals[r], scales[r]);
            let limit = (bound * scale) * (bound * scale);
            let finite = mask(largest[r] < INFINITE);
            let within = mask(total <= limit * below) & finite;
            let beyond = mask(total >= limit * above) & finite;
            let kept = within & keeps;
            let shrunk = (within | beyond) & !kept;
            // Rows that would be scaled up are taken as they are.
            let up = mask(scale > 1.0) & !keeps;
            let divisor = f64::from_bits((scale.to_bits() & up) | (one & !up));
            let scale = f64::from_bits((scale.to_bits() & !up) | (one & up));
            let factor = bound / (total.sqrt() / divisor + gamma * scale) * shrink * steps_per_unit;
            found.0[r] = f64::from_bits((factor.to_bits() & shrunk) | (steps_per_unit.to_bits() & kept));
            told.0[r] = far[r] & (within | beyond | !finite) & mask(largest[r] != 0);
            let scaled = told.0[r] & shrunk;
            // mutant: far-rows-side-by-side-lose-power-of-two
            scales[r] = f64::from_bits((scale.to_bits() & scaled) | (one & !scaled));
            (clear.0[r], counts.0[r]) = (within, finite);
        }
        let (mut rows, mut within) = (0_u64, 0_u64);
        for r in 0..N {
            let told = told.0[r];
            factors[r] = f64::from_bits((factors[r].to_bits() & !told) | (found.0[r].to_bits() & told));
            masks[r] &= counts.0[r] | !told;
            open[r] &= !told;
            rows = rows.wrapping_sub(told);
        }
        for r in 0..N {
            within = within.wrapping_sub(told.0[r] & clear.0[r]);
        }
        (rows, within)
    }
}

/// What is known of rows of a panel whose squares leave the range in which sums are trusted.
pub(super) struct Again<'a, const N: usize> {
    pub(super) largest: &'a [i64; N],
    pub(super) totals: &'a [f64; N],
    pub(super) scales: &'a mut [f64; N],
}

/// Decides open rows whose squares leave that range.
pub(super) struct DecideAgain<'a> {
    pub(super) limits: Limits,
    /// The sums of squares that were not trusted.
    pub(super) totals: &'a [Vector],
    pub(super) largest: &'a [Vector],
    pub(super) again: &'a [Vector],
    pub(super) scales: &'a mut [Vector],
    pub(super) factors: &'a mut [Vector],
    pub(super) masks: &'a mut [Mask],
    pub(super) open: &'a mut [Mask],
}

impl Kernel for DecideAgain<'_> {
    /// How many of them are within the bound.
    type Output = u64;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> u64 {
        let Limits { low, high, .. } = self.limits;
        let known = self.totals.iter().zip(self.largest).zip(self.again.iter().zip(self.scales));
        let outputs = self.factors.iter_mut().zip(self.masks).zip(self.open);
        let mut within = 0_u64;
        for (((plain, largest), (totals, scales)), ((factors, masks), open)) in known.zip(outputs) {
            let mut far = Aligned([0; PANEL]);
            for r in 0..PANEL {
                far.0[r] = open[r] & !(mask(plain[r] >= low) & mask(plain[r] <= high));
            }
            let largest = &Aligned(largest.map(|x| x.to_bits().cast_signed())).0;
            let again = Again { largest, totals, scales };
            within += self.limits.decide_again(&far.0, again, factors, masks, open).1;
        }
        within
    }
}

/// The bits of infinity; those of magnitudes of what is finite are below.
pub(super) const INFINITE: i64 = f64::INFINITY.to_bits().cast_signed();

/// Sums of lanes of a panel of few columns that others are added to later.
pub(super) type Waiting = [Turned<f64>; (LANES / 2).ilog2() as usize];

/// Numbers of four bits with their bits reversed.
const REVERSED: [u8; LANES / 2] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];

/// Returns the sums of squares of a panel of few columns, in the order of [`super::measure`]. Where `scales` are given,
/// elements are multiplied by them first. What is `coming` is asked for meanwhile.
#[inline(always)]
pub(super) fn squares<T: Element, const NATIVE: bool, const SCALED: bool>(
    columns: Sheet<'_, T>,
    scales: &Turned<f64>,
    waiting: &mut Waiting,
    coming: &mut Coming,
) -> Turned<f64> {
    let half = columns.len().next_power_of_two().min(LANES) / 2;
    if half == 0 {
        return lane::<T, NATIVE, SCALED>(columns, scales, 0, 1);
    }
    if NATIVE && !SCALED && (FOURS + 1..=LANES).contains(&columns.len()) {
        return single::<T, NATIVE>(columns, half, waiting, coming);
    }
    let each = columns.len() / half;
    let mut depth = 0;
    // In the order in which sums can be added to what was left before: few are left at a time.
    for k in 0..half {
        if k.is_multiple_of(4) {
            coming.ask(4 * each, MEASURING);
        }
        // Its bits from the last to the first.
        let i = usize::from(REVERSED[k % REVERSED.len()]) * half / REVERSED.len();
        let lower = lane::<T, NATIVE, SCALED>(columns, scales, i, 2 * half);
        let upper = lane::<T, NATIVE, SCALED>(columns, scales, i + half, 2 * half);
        let mut sum = [0.0; ROWS];
        for r in 0..ROWS {
            sum[r] = lower[r] + upper[r];
        }
        for _ in 0..k.trailing_ones() {
            depth -= 1;
            for r in 0..ROWS {
                sum[r] += waiting[depth][r];
            }
        }
        waiting[depth] = sum;
        depth += 1;
    }
    waiting[0]
}

/// Pairs of lanes that are added in registers.
const FOURS: usize = 4;

/// The same where no lane has two columns, of which there are more than `half`, the pairs of lanes.
#[inline(always)]
fn single<T: Element, const NATIVE: bool>(
    columns: Sheet<'_, T>,
    half: usize,
    waiting: &mut Waiting,
    coming: &mut Coming,
) -> Turned<f64> {
    let mut depth = 0;
    for k in 0..half / FOURS {
        coming.ask(2 * FOURS, MEASURING);
        let i = usize::from(REVERSED[FOURS * k]) * half / REVERSED.len();
        let mut sum = pair::<T, NATIVE>(columns, i, half);
        let other = pair::<T, NATIVE>(columns, i + half / 2, half);
        for r in 0..ROWS {
            sum[r] += other[r];
        }
        let mut upper = pair::<T, NATIVE>(columns, i + half / 4, half);
        let other = pair::<T, NATIVE>(columns, i + half / 2 + half / 4, half);
        for r in 0..ROWS {
            upper[r] += other[r];
        }
        for r in 0..ROWS {
            sum[r] += upper[r];
        }
        for _ in 0..k.trailing_ones() {
            depth -= 1;
            for r in 0..ROWS {
                sum[r] += waiting[depth][r];
            }
        }
        waiting[depth] = sum;
        depth += 1;
    }
    waiting[0]
}

/// Returns the sum of two lanes, of which the lower one may have no column.
#[inline(always)]
fn pair<T: Element, const NATIVE: bool>(columns: Sheet<'_, T>, i: usize, half: usize) -> Turned<f64> {
    let missing = 2 * half - columns.len();
    let mut sums = [0.0; ROWS];
    let column = columns.column(i + half - missing);
    for r in 0..ROWS {
        let x = column[r].widen();
        sums[r] = x * x;
    }
    if i >= missing {
        let column = columns.column(i - missing);
        for r in 0..ROWS {
            let x = column[r].widen();
            sums[r] = if NATIVE && T::SQUARES_FIT { x.mul_add(x, sums[r]) } else { sums[r] + x * x };
        }
    }
    sums
}

/// Returns one of so many lanes.
#[inline(always)]
fn lane<T: Element, const NATIVE: bool, const SCALED: bool>(
    columns: Sheet<'_, T>,
    scales: &Turned<f64>,
    i: usize,
    lanes: usize,
) -> Turned<f64> {
    // The last chunk fills the last lanes; chunks before it fill all.
    let whole = columns.len().saturating_sub(1) / LANES * LANES;
    let rest = columns.len() - whole;
    let mut sums = [0.0; ROWS];
    for chunk in (0..whole).step_by(LANES) {
        let column = columns.column(chunk + i);
        for r in 0..ROWS {
            let x = column[r].widen();
            let x = if SCALED { x * scales[r] } else { x };
            sums[r] = if NATIVE && T::SQUARES_FIT { x.mul_add(x, sums[r]) } else { sums[r] + x * x };
        }
    }
    if i + rest >= lanes {
        let column = columns.column(whole + i + rest - lanes);
        for r in 0..ROWS {
            let x = column[r].widen();
            let x = if SCALED { x * scales[r] } else { x };
            sums[r] = if NATIVE && T::SQUARES_FIT { x.mul_add(x, sums[r]) } else { sums[r] + x * x };
        }
    }
    sums
}
