//! Sums of powers within rounding error of their bound, compared with it to twice the precision.
//!
//! Rows that were normalized have norms within a few units in the last place of the bound, so a plain sum leaves them open,
//! and an exact one takes fifteen times as long. Here every power `p` is cut at a grid of `q`, about `2⁻⁴⁴` of the bound's power `P`:
//!
//! > p = h + l,
//!
//! `h` a multiple of `q` and `|l| ≤ q/2`. Where a square may have more digits than a float, both are fused multiply-adds: `x·x` and
//! a number whose last digit is `q` give `h`, and `x·x − h` is `l`, rounded once. Everywhere else each step is exact. Sums
//! of `h` are exact as well: each power is at most `2P`, or the sum would not be near the bound, so `n` of them are below
//! `2⁴⁷ + n/2` units of `q`, and `n < 2⁴⁵`. Only `l` and its sum are rounded. With at most `a` additions for each of its
//! terms, which are at most `q/2` in size, it is off by at most `1.01·(a + 1)·u·n·q/2`, `u = 2⁻⁵³`: for a row of 10⁵ elements
//! by less than 2⁻⁷⁰ of the bound. What underflows is off by 2⁻¹⁰⁷⁵ more.
//!
//! *Ties.* If no `l` is different from zero and none has underflowed, the sum of `h` is the exact sum. A single element is its own
//! norm, of any order: one-hot rows, scaled to the bound, are told though the bound's power is no float.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::cmp::Ordering;

use crate::clip::kernels::lanes::{fold_in_halves, mask};
use crate::clip::kernels::measure::Power;
use crate::clip::source::element::Element;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};
use crate::params::{exp2, floor_log2};

/// Independent sums.
const NEAR_BOUND_LANES: usize = 16;

/// `log₂(P/q)`, about.
const SPLIT_BITS: i32 = 44;

/// Powers of two between which `P` has to be: nothing that matters underflows, and nothing overflows.
const SPLIT_EXPONENTS: core::ops::Range<i32> = -900..1000;

/// The square of an element of this or more has no digit below 2⁻¹⁰⁶⁴: `l` is zero only if nothing is left.
const MIN_SPLIT_ELEMENT: f64 = f64::from_bits((1023 - 480) << 52); // 2^-480

/// Compares the norm of a row, whose plain sum of powers is near that of `bound`, with `bound`, if that can be told.
pub(in crate::clip) fn compare<'a, T: Element>(
    isa: Isa,
    power: Power,
    leaves: impl Iterator<Item = &'a [T]> + Clone,
    bound: f64,
) -> Option<Ordering> {
    if power == Power::Second && !T::SQUARES_FIT && !isa.is_native() {
        // Without the instruction, a fused multiply-add takes longer than the exact sum; but one element is its own norm.
        let mut elements = leaves.flatten().map(|x| x.widen().abs()).filter(|x| *x != 0.0);
        return elements.next().filter(|_| elements.next().is_none())?.partial_cmp(&bound);
    }
    let cut = Cut::new(power, bound)?;
    match power {
        Power::First => Sums::of::<T, false, true>(isa, leaves, cut).tell(cut),
        // Ties are rare among elements of many digits, and cost half as much again.
        Power::Second if !T::SQUARES_FIT => Sums::of::<T, true, false>(isa, leaves.clone(), cut)
            .tell(cut)
            .or_else(|| Sums::of::<T, true, true>(isa, leaves, cut).tell(cut)),
        Power::Second => Sums::of::<T, true, true>(isa, leaves, cut).tell(cut),
    }
}

/// Returns how much more than that of `bound` the sum of squares of each of `N` rows is, given column by column, and from which size on
/// such a difference is certain; NaN where squares are infinite.
///
/// That holds for rows far from the bound as well. Up to `2⁵³q`, sums of `h` are exact. If a row's power is more, `2⁸` times the
/// bound's at least, so is the sum, for no `h` is negative and each is off by 2⁻⁵² of it.
pub(in crate::clip) fn differences<'a, T: Element, const N: usize>(
    isa: Isa,
    bound: f64,
    columns: impl ExactSizeIterator<Item = &'a [T; N]>,
) -> Option<([f64; N], f64)> {
    // Without the instruction, a fused multiply-add takes longer than the exact sum.
    let cut = Cut::new(Power::Second, bound).filter(|_| isa.is_native() && !T::SQUARES_FIT)?;
    let margin = cut.margin(columns.len(), columns.len());
    Some((dispatch::run_native(isa, Differences { cut, columns }), margin))
}

struct Differences<I> {
    cut: Cut,
    columns: I,
}

impl<'a, T: Element, I: Iterator<Item = &'a [T; N]>, const N: usize> Kernel for Differences<I> {
    type Output = [f64; N];

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> [f64; N] {
        let Self { cut, columns } = self;
        let (mut high, mut low) = ([0.0; N], [0.0; N]);
        for column in columns {
            (high, low) = cut.add_column(column, high, low);
        }
        let mut differences = [0.0; N];
        for r in 0..N {
            differences[r] = cut.difference(Parts { high: high[r], low: low[r], inexact: 1 });
        }
        differences
    }
}

/// Where powers are cut, and what their sum is compared with.
#[derive(Clone, Copy, Default)]
pub(in crate::clip) struct Cut {
    power: f64,
    /// What the bound's power is more than `power`.
    error: f64,
    grid: f64,
    /// `1.5 · 2⁵² · q`: added and subtracted, it leaves a multiple of `q`.
    shift: f64,
}

/// What is known of a row, or of some of its columns.
#[derive(Clone, Copy)]
pub(in crate::clip) struct Parts {
    pub(in crate::clip) high: f64,
    pub(in crate::clip) low: f64,
    /// Not zero where the sum of `high` is not the exact sum.
    pub(in crate::clip) inexact: u64,
}

impl Cut {
    /// Returns where powers of rows near `bound` are cut, if that is a number far from where floats end.
    pub(in crate::clip) fn new(power: Power, bound: f64) -> Option<Self> {
        let squares = power == Power::Second;
        let (power, error) =
            if squares { (bound * bound, bound.mul_add(bound, -(bound * bound))) } else { (bound, 0.0) };
        let exponent = floor_log2(power);
        let grid = exp2(exponent - SPLIT_BITS);
        SPLIT_EXPONENTS.contains(&exponent).then_some(Self {
            power,
            error,
            grid,
            shift: 6_755_399_441_055_744.0 * grid,
        })
    }

    /// Returns whether `h` is not all of one element's power, of which `l` is `low`.
    #[inline(always)]
    fn inexact<T: Element, const SQUARES: bool>(x: f64, low: f64) -> u64 {
        let lost = SQUARES && !T::SQUARES_FIT && x != 0.0 && x.abs() < MIN_SPLIT_ELEMENT;
        low.to_bits() << 1 | u64::from(lost)
    }

    /// Returns `h + shift` and `l` of one element's power.
    #[inline(always)]
    fn cut_shifted<T: Element, const SQUARES: bool>(self, x: f64) -> (f64, f64) {
        let is_fused = SQUARES && !T::SQUARES_FIT;
        let power = if SQUARES { x * x } else { x.abs() };
        let shifted = if is_fused { x.mul_add(x, self.shift) } else { power + self.shift };
        let high = shifted - self.shift;
        (shifted, if is_fused { x.mul_add(x, -high) } else { power - high })
    }

    /// Adds `h` and `l` of the squares in a column. By value: so sums stay in registers.
    #[inline(always)]
    fn add_column<T: Element, const N: usize>(
        self,
        column: &[T; N],
        mut high: [f64; N],
        mut low: [f64; N],
    ) -> ([f64; N], [f64; N]) {
        for r in 0..N {
            let (shifted, rest) = self.cut_shifted::<T, true>(column[r].widen());
            high[r] += shifted - self.shift;
            low[r] += rest;
        }
        (high, low)
    }

    /// Compares a row's norm with the bound, if that can be told from the sums of its elements' parts, which are off by less than
    /// `margin`.
    pub(in crate::clip) fn tell(self, sums: Parts, margin: f64) -> Option<Ordering> {
        let (above, rest) = self.bound();
        let high = sums.high - above;
        // mutant: ties-decided-where-digits-are-missing
        if sums.inexact == 0 {
            return if high == 0.0 { 0.0.partial_cmp(&(rest + self.error)) } else { high.partial_cmp(&0.0) };
        }
        let difference = self.difference(sums);
        difference.partial_cmp(&0.0).filter(|_| difference.abs() > margin)
    }

    /// Returns how much more than the bound's power the sum of these parts is.
    #[inline(always)]
    fn difference(self, sums: Parts) -> f64 {
        let (above, rest) = self.bound();
        // Multiples of q, below 2⁵³ of them.
        (sums.high - above) + (sums.low - rest - self.error)
    }

    /// Returns `h` of the bound's power as a float, and what that is more.
    #[inline(always)]
    fn bound(self) -> (f64, f64) {
        let above = (self.power + self.shift) - self.shift;
        (above, self.power - above)
    }
}

impl Cut {
    /// Returns how far a difference of sums of so many elements' parts, each of which went through at most so many additions, may be off.
    #[inline]
    fn margin(self, elements: usize, additions: usize) -> f64 {
        let (elements, additions) = (elements as f64, (additions + 8) as f64);
        let unit = f64::EPSILON / 2.0;
        let largest = self.grid / 2.0 + 2.0 * unit * self.power;
        // Eight more are for the additions of the comparison and of the bound's parts: where they cancel, `high` is no larger
        // than the rest, n + 2 such terms; where they do not, the sign is that of `high`.
        // mutant: close-sums-taken-for-exact
        1.1 * additions * unit * (elements + 2.0) * largest + elements * exp2(-1060)
    }
}

/// What is known of a row, whose columns came leaf by leaf.
#[derive(Clone, Copy)]
pub(in crate::clip) struct Sums {
    parts: Parts,
    /// How many elements there are.
    elements: usize,
    /// How many of them are not zero: exactly if less than two, and otherwise two at least.
    others: usize,
    /// How many additions each part went through, at most.
    additions: usize,
}

impl Sums {
    /// Of nothing.
    pub(in crate::clip) const NONE: Self =
        Self { parts: Parts { high: 0.0, low: 0.0, inexact: 0 }, elements: 0, others: 0, additions: 0 };

    /// Returns what is known of a row; whether sums are exact if `TIES` ask for it.
    fn of<'a, T: Element, const SQUARES: bool, const TIES: bool>(
        isa: Isa,
        leaves: impl Iterator<Item = &'a [T]>,
        cut: Cut,
    ) -> Self {
        let mut sums = Self::NONE;
        for data in leaves {
            let add = AddRow::<T, SQUARES, TIES> { row: data, cut, sums: &mut sums };
            // What is rare is not worth code for vectors of 512 bits.
            if SQUARES && (T::SQUARES_FIT || !TIES) {
                dispatch::run(isa, add);
            } else {
                dispatch::run_short(isa, add);
            }
        }
        sums
    }

    /// Adds the parts of a leaf of so many elements.
    #[inline(always)]
    fn add(&mut self, lanes: &Lanes, width: usize, cut: Cut) {
        let Lanes { high, low, inexact, .. } = lanes;
        let shifts = cut.shift.to_bits().wrapping_mul((width.div_ceil(NEAR_BOUND_LANES) * NEAR_BOUND_LANES) as u64);
        let high = high.iter().fold(0_u64.wrapping_sub(shifts), |sum, high| sum.wrapping_add(*high));
        self.parts.high += high.cast_signed() as f64 * cut.grid;
        self.parts.low += fold_in_halves(*low);
        self.parts.inexact |= inexact.iter().fold(0, |any, bits| any | bits);
        self.elements += width;
        self.additions += width.div_ceil(NEAR_BOUND_LANES) + NEAR_BOUND_LANES.ilog2() as usize + 1;
    }

    /// Whether at most one element is not zero.
    fn is_single(&self) -> bool {
        self.others < 2
    }

    /// Compares the row's norm with the bound, if that can be told.
    fn tell(&self, cut: Cut) -> Option<Ordering> {
        // The norm of a single element is its magnitude. That differs from the bound by a unit in the last place at least, so its
        // power does by 2⁻⁵³ of the bound's: what is within one addition's error is the bound.
        let margin = if self.is_single() { cut.margin(1, 1) } else { cut.margin(self.elements, self.additions) };
        let is_equal = self.is_single() && cut.difference(self.parts).abs() <= margin;
        cut.tell(self.parts, margin).or(is_equal.then_some(Ordering::Equal))
    }
}

/// Adds what is known of powers in a leaf of a row.
struct AddRow<'a, T, const SQUARES: bool, const TIES: bool> {
    row: &'a [T],
    cut: Cut,
    sums: &'a mut Sums,
}

impl<T: Element, const SQUARES: bool, const TIES: bool> Kernel for AddRow<'_, T, SQUARES, TIES> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        if SQUARES && !T::SQUARES_FIT && !NATIVE {
            unreachable!("fused multiply-adds are one instruction");
        }
        let Self { row, cut, sums } = self;
        let mut lanes = Lanes {
            high: [0; NEAR_BOUND_LANES],
            low: [0.0; NEAR_BOUND_LANES],
            inexact: [0; NEAR_BOUND_LANES],
            bits: [0; NEAR_BOUND_LANES],
        };
        let (chunks, tail) = row.as_chunks::<NEAR_BOUND_LANES>();
        let mut last = [T::default(); NEAR_BOUND_LANES];
        last[..tail.len()].copy_from_slice(tail);
        let rest = if tail.is_empty() { &[] } else { core::slice::from_ref(&last) };
        // One loop over both, or all of it would be there twice.
        for chunks in [chunks, rest] {
            for chunk in chunks {
                lanes.add::<T, SQUARES, TIES, NATIVE>(cut, chunk);
            }
        }
        sums.add(&lanes, row.len(), cut);
        sums.others += others(&lanes.bits, row);
    }
}

/// Returns how many elements of a leaf are not zero, exactly if less than two, and otherwise two at least, given what bits there
/// are of elements in each lane.
#[inline(never)]
fn others<T: Element>(bits: &[u64; NEAR_BOUND_LANES], leaf: &[T]) -> usize {
    // Zeros have a sign, and nothing else.
    let bits = bits.map(|bits| bits << 1);
    if bits[0] != 0 && bits[NEAR_BOUND_LANES - 1] != 0 {
        return 2;
    }
    let used = bits.iter().fold(0_u64, |used, bits| used.wrapping_sub(mask(*bits != 0)));
    // mutant: second-element-of-rows-overlooked
    if used != 1 {
        return used as usize;
    }
    let lane = bits.iter().position(|bits| *bits != 0).expect("one is used");
    leaf[lane..].iter().step_by(NEAR_BOUND_LANES).filter(|x| x.widen() != 0.0).count()
}

/// What is known of a leaf of a row, in independent sums.
struct Lanes {
    /// Sums of bits of `h` plus a number whose last digit is `q`: of that number's, and multiples of `q`.
    high: [u64; NEAR_BOUND_LANES],
    low: [f64; NEAR_BOUND_LANES],
    inexact: [u64; NEAR_BOUND_LANES],
    /// Bits of all elements.
    bits: [u64; NEAR_BOUND_LANES],
}

impl Lanes {
    #[inline(always)]
    fn add<T: Element, const SQUARES: bool, const TIES: bool, const NATIVE: bool>(
        &mut self,
        cut: Cut,
        chunk: &[T; NEAR_BOUND_LANES],
    ) {
        for i in 0..NEAR_BOUND_LANES {
            // One by one where vectors are short: their code would be three times as long.
            let i = if NATIVE { i } else { core::hint::black_box(i) };
            let x = chunk[i].widen();
            let (high, low) = cut.cut_shifted::<T, SQUARES>(x);
            self.high[i] = self.high[i].wrapping_add(high.to_bits());
            self.low[i] += low;
            self.bits[i] |= x.to_bits();
            self.inexact[i] |= if TIES { Cut::inexact::<T, SQUARES>(x, low) } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::exact_sum::ExactSum;

    fn exactly<T: Element>(power: Power, row: &[T], bound: f64) -> Ordering {
        let (mut sum, mut most) = (ExactSum::new(), ExactSum::new());
        let add = if power == Power::First { ExactSum::add_magnitude } else { ExactSum::add_square };
        row.iter().for_each(|x| add(&mut sum, x.widen()));
        add(&mut most, bound);
        sum.cmp(&most)
    }

    /// Checks all that is told of a row, in several cuts into leaves, and returns whether the best path tells it.
    fn check<T: Element>(power: Power, row: &[T], bound: f64) -> bool {
        let expected = exactly(power, row, bound);
        let mut told = false;
        for isa in Isa::available() {
            for size in [1, 7, 16, 1000, row.len()] {
                let found = compare(isa, power, row.chunks(size), bound);
                assert!(found.is_none_or(|found| found == expected), "{isa:?}, {bound:e}, {found:?} of {}", row.len());
                told = found.is_some();
            }
        }
        told
    }

    fn rows(len: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / exp2(52) - 1.0
        };
        (0..len).map(|_| draw()).collect()
    }

    #[test]
    fn normalized_rows_are_compared_as_exact_sums_compare_them() {
        let (mut told, mut all) = (0, 0);
        for len in [1, 2, 3, 16, 17, 100, 1000, 5000] {
            for (seed, bound) in [(1, 1.0), (2, 0.1), (3, 3e100), (4, 7e-100), (5, 1.0_f64.next_down())] {
                for power in [Power::First, Power::Second] {
                    let row = rows(len, seed + len as u64);
                    let norm = power.root(row.iter().map(|x| power.of(x.abs())).sum());
                    let mut row: Vec<f64> = row.iter().map(|x| x / norm * bound).collect();
                    for bound in [bound, bound.next_up(), bound.next_down()] {
                        told += usize::from(check(power, &row, bound));
                        all += 1;
                    }
                    row[len / 2] = row[len / 2].next_up();
                    told += usize::from(check(power, &row, bound));
                    all += 1;
                    // As float32, where the bound is in range; near the bound of what came out.
                    let short: Vec<f32> = row.iter().map(|x| (x / bound) as f32).collect();
                    let norm = power.root(short.iter().map(|x| power.of(f64::from(x.abs()))).sum());
                    for bound in [norm, norm.next_up(), norm.next_down()] {
                        told += usize::from(check(power, &short, bound));
                        all += 1;
                    }
                }
            }
        }
        assert!(told * 100 > all * 95, "{told} of {all}");
    }

    #[test]
    fn ties_are_decided_and_tiny_elements_are_not_overlooked() {
        let mut one_hot = vec![0.0; 1000];
        one_hot[77] = -1.0;
        assert!(check(Power::Second, &one_hot, 1.0) && check(Power::First, &one_hot, 1.0));
        assert!(check(Power::Second, &[0.5; 4], 1.0) && check(Power::Second, &[0.125_f32; 64], 1.0));
        assert!(check(Power::Second, &[3.0, 4.0, 0.0], 5.0) && check(Power::Second, &[3.0_f32, 4.0], 5.0));
        for bound in [1.0_f64.next_up(), 1.0_f64.next_down()] {
            assert!(check(Power::Second, &one_hot, bound));
        }
        // Longer than the bound by what no product of floats shows.
        for tiny in [5e-324, 1e-200, 1e-160, 1e-150, 1e-30] {
            one_hot[78] = tiny;
            check(Power::Second, &one_hot, 1.0);
            check(Power::First, &one_hot, 1.0);
        }
        one_hot[78] = f64::from(1e-45_f32);
        check(Power::Second, &one_hot.iter().map(|x| *x as f32).collect::<Vec<_>>(), 1.0);
    }

    #[test]
    fn rows_with_more_than_one_element_are_not_decided_by_one() {
        for len in [1, 15, 16, 17, 64, 300] {
            for place in (0..len).step_by(13) {
                let mut row = vec![-0.0; len];
                row[place] = -0.7;
                assert!(check(Power::Second, &row, 0.7), "{place} of {len}");
                // In the same lane, and in others.
                let others = (0..len).filter(|other| {
                    *other != place && (other % NEAR_BOUND_LANES == place % NEAR_BOUND_LANES || other % 11 == 0)
                });
                for other in others {
                    for tiny in [5e-324, 1e-200, 1e-30, 1e-9] {
                        row[other] = tiny;
                        check(Power::Second, &row, 0.7);
                    }
                    row[other] = 0.0;
                }
            }
        }
    }

    #[test]
    fn what_a_racing_writer_leaves_is_no_reason_to_stop() {
        for bad in [f64::NAN, f64::INFINITY, f64::MAX, -f64::MAX, 1e200] {
            let mut row = [0.5; 20];
            row[3] = bad;
            for isa in Isa::available() {
                let _ = compare(isa, Power::Second, [&row[..]].into_iter(), 1.0);
                let _ = compare(isa, Power::First, [&row[..]].into_iter(), 1.0);
            }
        }
    }
}
