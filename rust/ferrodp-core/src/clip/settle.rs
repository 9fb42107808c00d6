//! Rows of a panel that the plain comparisons leave open: within rounding error of the bound, or of `f64` whose squares leave
//! the range in which sums are trusted. What is done is what [`super::decide`] does, for all of them at once; a row that is
//! open even then goes there.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use super::across::{Again, Aligned, Decided, INFINITE, Limits, Waiting, squares};
use super::close::{self, Cut, Edge};
use super::columns::mask;
use super::coming::{COMPARING, Coming};
use super::decide::{Decision, Fate, Rule};
use super::element::Element;
use super::turn::{ROWS, Sheet, Turned};
use crate::dispatch::Kernel;

/// Products that prove, 2⁶¹ or less, that every integer was formed exactly and that the sum of their squares has not wrapped.
pub(super) const MOST_PRODUCTS: f64 = 2_305_843_009_213_693_952.0;

/// Returns the power of two that brings the finite magnitude with these bits near 1: 2⁻ᵉ for 2ᵉ or more, e at least −1023,
/// where at most 1022 counts.
#[inline(always)]
fn smaller(magnitude: i64) -> f64 {
    f64::from_bits((2046 - (magnitude >> 52)).max(1).cast_unsigned() << 52)
}

/// Returns the bits of the largest magnitude of each row.
#[inline(always)]
fn largest<T: Element>(columns: &[Turned<T>]) -> Aligned<[i64; ROWS]> {
    let mut largest = Aligned([0; ROWS]);
    let (fours, rest) = columns.as_chunks::<4>();
    for four in fours {
        find_largest(four, &mut largest.0);
    }
    for one in rest {
        find_largest(core::array::from_ref(one), &mut largest.0);
    }
    largest
}

/// Looks for larger magnitudes in some columns.
#[inline(always)]
fn find_largest<T: Element, const N: usize>(columns: &[Turned<T>; N], largest: &mut Turned<i64>) {
    // Or a vector would hold one row's elements, gathered.
    let columns = core::hint::black_box(columns);
    for r in 0..ROWS {
        let mut most = largest[r];
        for c in 0..N {
            most = most.max(columns[c][r].widen().abs().to_bits().cast_signed());
        }
        largest[r] = most;
    }
}

/// What is known of rows near the bound.
#[repr(align(64))]
struct Closely {
    near: close::Near<ROWS>,
    /// Elements that are not zero, and the sum of their magnitudes, rounded.
    others: Turned<u64>,
    sizes: Turned<f64>,
}

/// Returns sums of the parts of rows' squares; and, for ties, whether these are exact, and the rest.
///
/// Four columns at a time: of a loop over rows with so much in it, the compiler makes vectors of rows, and nothing else.
#[inline(always)]
fn closely<T: Element, const TIES: bool>(columns: &[Turned<T>], cut: Cut) -> Closely {
    let mut sums = Closely { near: close::Near::NONE, others: [0; ROWS], sizes: [0.0; ROWS] };
    let zeros = [T::default(); ROWS];
    for group in columns.chunks(4) {
        let mut four = [&zeros; 4];
        for (column, of_group) in four.iter_mut().zip(group) {
            *column = of_group;
        }
        for r in 0..ROWS {
            for column in four {
                let x = column[r].widen();
                let parts = cut.parts::<T, true>(x);
                sums.near.high[r] += parts.high;
                sums.near.low[r] += parts.low;
                if TIES {
                    sums.near.inexact[r] |= parts.inexact;
                    sums.others[r] = sums.others[r].wrapping_sub(mask(x != 0.0));
                    sums.sizes[r] += x.abs();
                }
            }
        }
    }
    sums
}

/// Returns whether a row with so many elements that are not zero has a norm that is the sum of their magnitudes.
#[inline(always)]
fn is_single(others: u64) -> u64 {
    // mutant: rows-of-one-element-told-by-their-magnitude
    mask(others < 2)
}

/// What is known of a panel by its largest magnitudes.
pub(super) enum Far {
    /// All integers are zeros: so many rows are far shorter than a step, the others are not finite.
    Nothing { within: u64 },
    /// All rows have a finite element of 2⁵⁰⁰ or more.
    Large,
    /// No row is one whose sum of squares can be trusted, or one of zeros.
    Untrusted,
    /// Any other.
    Mixed,
}

/// The bits of 2⁵⁰⁰: rows with such an element are longer than any bound.
const LARGE: i64 = (1023 + 500) << 52;
/// The bits of 2⁻⁵³⁰: all steps are larger, 2⁻⁵²⁹ or more, for the clip norm is at least 2⁻⁵⁰⁰.
pub(super) const SMALLEST: i64 = (1023 - 530) << 52;
/// 2⁻⁶⁰⁰: large rows times this have squares that are normal numbers wherever they matter, and sums below 2⁸⁶⁰. Multiplied by
/// another power of two, sums, roots and quotients of normal numbers have the same digits; and a square below 2⁻¹⁰⁰ of the
/// sum, however rounded, leaves it as it is.
pub(super) const SMALLER: f64 = f64::from_bits((1023 - 600) << 52);

/// Returns what is known of rows of `f64` that are kept within the bound.
#[inline(always)]
pub(super) fn far<T: Element>(columns: &[Turned<T>]) -> Far {
    // 1024 squares of less than 2^-456 are less than 2^-901, and one of 2^501 is more than 2^1001.
    const TOO_SMALL: i64 = (1023 - 456) << 52;
    const TOO_LARGE: i64 = (1023 + 501) << 52;
    let largest = largest(columns);
    let (mut nothing, mut large, mut untrusted, mut within) = (u64::MAX, u64::MAX, u64::MAX, 0_u64);
    for r in 0..ROWS {
        let magnitude = largest.0[r];
        let small = mask(magnitude < SMALLEST);
        // mutant: tiny-rows-of-panels-not-counted
        within = within.wrapping_sub(small);
        // mutant: large-rows-of-panels-count-as-nothing
        nothing &= small | mask(magnitude >= INFINITE);
        large &= mask(magnitude >= LARGE) & mask(magnitude < INFINITE);
        untrusted &= mask(magnitude >= TOO_LARGE) | (mask(magnitude < TOO_SMALL) & mask(magnitude > 0));
    }
    match (nothing, large, untrusted) {
        (u64::MAX, _, _) => Far::Nothing { within },
        (_, u64::MAX, _) => Far::Large,
        (_, _, u64::MAX) => Far::Untrusted,
        _ => Far::Mixed,
    }
}

/// Decides a panel whose rows are all such as were near the bound in the panel before, or plain.
pub(super) struct Near<'a, T> {
    pub(super) limits: &'a Limits,
    pub(super) edge: &'a Edge,
    pub(super) totals: &'a Turned<f64>,
    pub(super) columns: &'a [Turned<T>],
    pub(super) decided: &'a mut Decided<ROWS>,
    /// Whether rows are told by the magnitude of their only element, and not by sums of twice the precision.
    pub(super) by_singles: bool,
    /// What is asked for meanwhile.
    pub(super) coming: &'a mut Coming,
}

impl<T: Element> Kernel for Near<'_, T> {
    /// Whether a row was near the bound, if all rows were decided.
    type Output = Option<bool>;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> Option<bool> {
        let Self { limits, edge, totals, columns, decided, by_singles, coming } = self;
        let Limits { low, high, below, above, bound, shrink, keeps, gamma, steps_per_unit, .. } = *limits;
        // How much longer a row is than the bound, and from which size on that is certain.
        let mut differences = Aligned([0.0; ROWS]);
        let margin = if by_singles {
            let (mut others, mut sizes) = (Aligned([0_u64; ROWS]), Aligned([0.0; ROWS]));
            count_elements(columns, &mut others.0, &mut sizes.0);
            for r in 0..ROWS {
                let sign = if sizes.0[r] <= bound { -1.0_f64 } else { 1.0 };
                differences.0[r] = f64::from_bits(sign.to_bits() & is_single(others.0[r]));
            }
            0.5
        } else {
            let (mut high, mut low) = (Aligned([0.0; ROWS]), Aligned([0.0; ROWS]));
            let (fours, rest) = columns.as_chunks::<4>();
            for four in fours {
                coming.ask(4, COMPARING);
                add_parts(edge, four, &mut high.0, &mut low.0);
            }
            let (twos, rest) = rest.as_chunks::<2>();
            for two in twos {
                add_parts(edge, two, &mut high.0, &mut low.0);
            }
            for one in rest {
                add_parts(edge, core::array::from_ref(one), &mut high.0, &mut low.0);
            }
            for r in 0..ROWS {
                differences.0[r] = edge.difference_of(high.0[r], low.0[r]);
            }
            edge.margin
        };
        let (mut open, mut near) = (0, 0);
        for r in 0..ROWS {
            let (difference, total) = (differences.0[r], totals[r]);
            // Of masks alone, the compiler makes no vectors here.
            let trusted = mask(total >= low) & mask(total <= high);
            open |= (total.to_bits() | 1) & !(mask(difference.abs() > margin) & trusted);
            near |= total.to_bits() & mask(total > below) & mask(total < above);
            let shorter = mask(difference < -margin);
            let kept = shorter & keeps;
            let factor = bound / (total.sqrt() + gamma) * shrink * steps_per_unit;
            let factor = (factor.to_bits() & !kept) | (steps_per_unit.to_bits() & kept);
            decided.factors[r] = f64::from_bits(factor);
            decided.clear[r] = shorter;
        }
        decided.masks = [u64::MAX; ROWS];
        decided.open = [0; ROWS];
        // mutant: panels-near-bound-decided-whatever-is-left
        (open == 0).then_some(near != 0)
    }
}

/// Adds the parts of squares of some columns to those of other columns.
#[inline(always)]
fn add_parts<T: Element, const N: usize>(
    edge: &Edge,
    columns: &[Turned<T>; N],
    high: &mut Turned<f64>,
    low: &mut Turned<f64>,
) {
    for r in 0..ROWS {
        let (mut sum_high, mut sum_low) = (high[r], low[r]);
        for c in 0..N {
            let (high, low) = edge.cut::<T>(columns[c][r].widen());
            sum_high += high;
            sum_low += low;
        }
        (high[r], low[r]) = (sum_high, sum_low);
    }
}

/// Counts the elements of rows that are not zero, and adds their magnitudes.
#[inline(always)]
fn count_elements<T: Element>(columns: &[Turned<T>], others: &mut Turned<u64>, sizes: &mut Turned<f64>) {
    let (fours, rest) = columns.as_chunks::<4>();
    for four in fours {
        count_elements_of(four, others, sizes);
    }
    for one in rest {
        count_elements_of(core::array::from_ref(one), others, sizes);
    }
}

/// The same for some columns.
#[inline(always)]
fn count_elements_of<T: Element, const N: usize>(
    columns: &[Turned<T>; N],
    others: &mut Turned<u64>,
    sizes: &mut Turned<f64>,
) {
    // Or a vector would hold one row's elements, gathered.
    let columns = core::hint::black_box(columns);
    for r in 0..ROWS {
        let (mut count, mut size) = (others[r], sizes[r]);
        for c in 0..N {
            let x = columns[c][r].widen();
            count = count.wrapping_sub(mask(x != 0.0));
            size += x.abs();
        }
        (others[r], sizes[r]) = (count, size);
    }
}

/// Decides the rows of a panel that are open; their factors and masks are written to `decided`.
pub(super) struct Settle<'a, T> {
    pub(super) rule: &'a Rule,
    pub(super) limits: &'a Limits,
    pub(super) totals: &'a Turned<f64>,
    pub(super) columns: &'a [Turned<T>],
    pub(super) decided: &'a mut Decided<ROWS>,
    pub(super) waiting: &'a mut Waiting,
    /// Whether there may be rows whose norm is the bound.
    pub(super) expects_ties: bool,
    /// Whether rows near the bound may all have one element.
    pub(super) expects_singles: bool,
}

/// What is known besides of a panel with rows that were open.
#[repr(align(64))]
pub(super) struct Settled {
    /// What elements are multiplied by first, powers of two.
    pub(super) scales: Turned<f64>,
    /// Rows whose certificate may have to be formed in integers.
    pub(super) close: Turned<u64>,
    /// How many of them are within the bound.
    pub(super) within: u64,
    /// Whether squares of most rows left the trusted range.
    pub(super) are_far: bool,
    /// Whether there are rows near the bound that were told by sums of twice the precision, and none else.
    pub(super) has_near: bool,
    /// Whether there are rows whose norm could be the bound.
    pub(super) has_ties: bool,
    /// Whether all rows near the bound have one element.
    pub(super) has_singles: bool,
}

impl<T: Element> Kernel for Settle<'_, T> {
    type Output = Settled;

    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) -> Settled {
        let mut settled = Settled {
            scales: [1.0; ROWS],
            close: [0; ROWS],
            within: 0,
            are_far: false,
            has_near: false,
            has_ties: false,
            has_singles: false,
        };
        if !T::SQUARES_FIT && self.limits.keeps != 0 {
            self.measure_again::<NATIVE>(&mut settled);
        }
        // Without the instruction, a fused multiply-add takes longer than the exact sum.
        if (T::SQUARES_FIT || NATIVE)
            && let Some(cut) = Cut::new(self.rule.power, self.rule.bound)
        {
            self.measure_closely(cut, &mut settled);
        }
        let mut any = 0;
        for r in 0..ROWS {
            any |= self.decided.open[r];
        }
        if any != 0 {
            self.decide_each(&mut settled);
        }
        settled
    }
}

impl<T: Element> Settle<'_, T> {
    /// Returns the open rows whose sums of squares are trusted, or those that are not.
    #[inline(always)]
    fn open(&self, trusted: bool) -> (Turned<u64>, bool) {
        let (mut rows, mut any) = ([0; ROWS], 0);
        for r in 0..ROWS {
            let inside = mask(self.totals[r] >= self.limits.low) & mask(self.totals[r] <= self.limits.high);
            rows[r] = self.decided.open[r] & if trusted { inside } else { !inside };
            any |= rows[r];
        }
        (rows, any != 0)
    }

    /// Decides rows whose squares leave the trusted range: measured again, with a largest magnitude near 1.
    #[inline(always)]
    fn measure_again<const NATIVE: bool>(&mut self, settled: &mut Settled) {
        let (far, any) = self.open(false);
        if !any {
            return;
        }
        let largest = largest(self.columns);
        let mut scales = Aligned([1.0; ROWS]);
        for r in 0..ROWS {
            scales.0[r] = smaller(largest.0[r]);
        }
        let totals = Aligned(squares::<T, NATIVE, true>(
            Sheet::of(self.columns),
            &scales.0,
            self.waiting,
            &mut Coming::nothing(),
        ));
        let Decided { factors, masks, open, .. } = &mut *self.decided;
        let again = Again { largest: &largest.0, totals: &totals.0, scales: &mut scales.0 };
        let (rows, within) = self.limits.decide_again(&far, again, factors, masks, open);
        settled.scales = scales.0;
        settled.within += within;
        settled.are_far = rows > ROWS as u64 / 2;
    }

    /// Decides rows near the bound by sums of twice the precision.
    #[inline(always)]
    fn measure_closely(&mut self, cut: Cut, settled: &mut Settled) {
        let (mut near, any) = self.open(true);
        if !any {
            return;
        }
        let (mut told, mut longer, mut left) = (Aligned([0; ROWS]), Aligned([0; ROWS]), u64::MAX);
        if self.expects_singles {
            left = self.tell_singles(&near, &mut told.0, &mut longer.0);
            (settled.has_ties, settled.has_singles) = (true, left == 0);
        } else if !T::SQUARES_FIT && !self.expects_ties {
            // Elements of short types are more often such that sums are exact.
            let edge = Edge::of::<T>(cut, self.rule.bound, self.columns.len(), self.columns.len());
            let sums = closely::<T, false>(self.columns, cut);
            left = 0;
            for r in 0..ROWS {
                let (less, more) = edge.tell(sums.near.high[r], sums.near.low[r]);
                told.0[r] = less | more;
                longer.0[r] = more;
                left |= near[r] & !told.0[r];
            }
            settled.has_near = left == 0;
        }
        if left != 0 {
            self.tell_ties(cut, &near, &mut told.0, &mut longer.0, settled);
        }
        let (steps, keeps) = (self.limits.steps_per_unit.to_bits(), self.limits.keeps);
        let (told, longer, decided) = (&told.0, &longer.0, &mut *self.decided);
        let mut within = 0_u64;
        for r in 0..ROWS {
            near[r] &= told[r];
            let shorter = near[r] & !longer[r];
            // A longer one has its factor.
            let kept = shorter & keeps;
            decided.factors[r] = f64::from_bits((decided.factors[r].to_bits() & !kept) | (steps & kept));
            decided.open[r] &= !near[r];
            within = within.wrapping_sub(shorter);
            settled.close[r] = kept;
        }
        settled.within += within;
    }

    /// Compares rows with the bound whose sums of twice the precision do not differ from it: such with one element, and such
    /// whose sums are exact.
    #[inline(always)]
    fn tell_ties(
        &self,
        cut: Cut,
        near: &Turned<u64>,
        told: &mut Turned<u64>,
        longer: &mut Turned<u64>,
        settled: &mut Settled,
    ) {
        let sums = closely::<T, true>(self.columns, cut);
        let exactly = cut.tell_panel(&sums.near, self.columns.len(), self.columns.len());
        let (mut ties, mut others) = (0, 0);
        for r in 0..ROWS {
            let single = is_single(sums.others[r]);
            let more = (mask(sums.sizes[r] > self.limits.bound) & single) | (exactly.longer[r] & !single);
            longer[r] = (longer[r] & told[r]) | (more & !told[r]);
            told[r] |= single | exactly.told[r];
            ties |= near[r] & (single | mask(sums.near.inexact[r] == 0));
            others |= near[r] & !single;
        }
        (settled.has_ties, settled.has_singles) = (ties != 0, others == 0);
    }

    /// Compares rows of one element with the bound, by its magnitude. Returns which others there are near it.
    #[inline(always)]
    fn tell_singles(&self, near: &Turned<u64>, told: &mut Turned<u64>, longer: &mut Turned<u64>) -> u64 {
        let (mut others, mut sizes) = (Aligned([0_u64; ROWS]), Aligned([0.0; ROWS]));
        count_elements(self.columns, &mut others.0, &mut sizes.0);
        let mut left = 0;
        for r in 0..ROWS {
            told[r] = is_single(others.0[r]);
            longer[r] = mask(sizes.0[r] > self.limits.bound) & told[r];
            left |= near[r] & !told[r];
        }
        left
    }

    /// Decides the rows that are left.
    #[inline(never)]
    fn decide_each(&mut self, settled: &mut Settled) {
        for r in (0..ROWS).filter(|r| self.decided.open[*r] != 0) {
            let row: Vec<T> = self.columns.iter().map(|column| column[r]).collect();
            let row = core::iter::once(&row[..]);
            let Decision { fate, within, .. } = self.rule.decide(self.totals[r], row);
            let steps_per_unit = self.limits.steps_per_unit;
            (settled.scales[r], self.decided.factors[r], self.decided.masks[r], settled.close[r]) = match fate {
                Fate::Zero => (1.0, 0.0, 0, 0),
                Fate::Keep { close } => (1.0, steps_per_unit, u64::MAX, mask(close)),
                // mutant: open-rows-of-panels-lose-power-of-two
                Fate::Shrink { scale, factor } => (scale, factor * steps_per_unit, u64::MAX, 0),
            };
            settled.within += u64::from(within);
        }
    }
}
