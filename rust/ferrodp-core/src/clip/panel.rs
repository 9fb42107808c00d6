//! The same sums for rows that lie side by side: vectors hold one column of several rows, not several columns of one row.
//!
//! So lie the columns of a matrix in Fortran order, and rows too short to fill vectors are brought to lie so. Nothing that is
//! decided about a row differs: its powers are added in the order of [`super::measure`], each lane of which is here a vector;
//! factors are computed by the operations of [`super::decide`], in vectors where a row's case is plain; the rest, a row
//! near its bound or far from what squares can hold, goes there.
//!
//! The certificate of a row, `Σv²` of its integers `v`, is added in runs of 64 columns, sixteen of them to a part, and parts one after the other: no
//! longer a path than [`super::error_budget`] allows.

use super::across::{
    Decide, DecideAgain, LANES, Limits, Measure, MeasureClosely, MeasureLargest, MeasureScaled, MeasureSingle,
    MeasureTies, Part, Single,
};
use super::close::{Cut, Near, Parts};
use super::columns::{Columns, Mask, PANEL, Vector, mask};
use super::decide::{Decision, Fate, OVERFLOWS, Rule, scale_of};
use super::element::Element;
#[cfg(target_arch = "x86_64")]
use super::quantize::Converted;
use super::quantize::{Integers, SHIFT, Shifted, square};
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;

/// Columns whose certificates are added in one run, and runs in a part.
const RUN: usize = 64;
const PART: usize = 1024;

/// Columns that are added of a panel before the next one: what is known of its rows stays in registers, and with AVX-512 their
/// sums as well.
const COLUMNS: usize = 8;
#[cfg(target_arch = "x86_64")]
const COLUMNS_512: usize = 4;

/// Bytes of columns that are fetched before they are added.
const AHEAD_BYTES: usize = 1 << 15;

/// What is known of some rows that lie side by side, each in a place of its own. The last panel may begin with rows of the panel before:
/// there they count as zero.
#[derive(Default)]
pub(super) struct Panels {
    /// How many rows of the last panel are in the panel before as well.
    twice: usize,
    totals: Vec<Vector>,
    /// Sums of squares in lanes, all of a lane one after the other.
    lanes: Vec<Vector>,
    /// What elements are multiplied by first, a power of two, and then.
    scales: Vec<Vector>,
    factors: Vec<Vector>,
    /// Rows that do not count as zero.
    masks: Vec<Mask>,
    /// Rows that the plain comparisons leave open.
    open: Vec<Mask>,
    is_any_open: bool,
    /// Rows whose certificate is the sum of squares of their integers, and that sum modulo 2⁶⁴.
    close: Vec<Mask>,
    integers: Vec<Mask>,
    is_any_close: bool,
    is_any_settled: bool,
    /// Whether all rows count, and none is multiplied by a power of two.
    are_plain: bool,
    /// Whether the squares of integers have to be added: a certificate was missing without them.
    needs_integers: bool,
    near: Vec<Near<PANEL>>,
    singles: Vec<Single>,
    /// Largest magnitudes, powers of two that bring them near 1, and sums of squares of elements times these.
    largest: Vec<Vector>,
    powers: Vec<Vector>,
    again: Vec<Vector>,
    /// `Σv²` of the columns of a run, of the runs of a part, and of all parts before.
    certificates: [Vec<Vector>; 3],
    /// Columns so far.
    columns: usize,
}

impl Panels {
    /// Begins with so many rows, and nothing known of them. What [`Panels::decide`] writes is not cleared.
    pub(super) fn begin(&mut self, rows: usize) {
        let panels = rows.div_ceil(PANEL);
        let is_new = self.totals.len() != panels;
        let [runs, parts, rest] = &mut self.certificates;
        clear(&mut self.totals, panels, 0.0);
        clear(runs, panels, 0.0);
        if is_new || self.columns >= RUN {
            clear(parts, panels, 0.0);
            clear(rest, panels, 0.0);
        }
        if is_new || self.is_any_settled {
            clear(&mut self.scales, panels, 1.0);
            clear(&mut self.close, panels, 0);
            clear(&mut self.integers, panels, 0);
        }
        // An odd number from a lane to the next: else lanes would have the same places in a cache.
        self.lanes.resize((panels | 1) * LANES, [0.0; PANEL]);
        self.factors.resize(panels, [0.0; PANEL]);
        self.masks.resize(panels, [0; PANEL]);
        self.open.resize(panels, [0; PANEL]);
        (self.twice, self.columns) = (panels * PANEL - rows, 0);
        (self.is_any_settled, self.is_any_close) = (false, false);
    }

    /// Returns which row is in this place.
    pub(super) fn row(&self, place: usize) -> usize {
        // mutant: rows-of-last-panels-taken-for-others
        if place / PANEL + 1 == self.totals.len() { place - self.twice } else { place }
    }

    /// Adds the squares in some columns of a leaf to the rows' totals, once all of the leaf have come.
    pub(super) fn measure<T: Element>(&mut self, isa: Isa, part: Part<'_, T>) {
        dispatch::run(isa, Measure { part, totals: &mut self.totals, lanes: &mut self.lanes, scales: &[] });
    }

    /// Decides what becomes of the rows that are plainly within or beyond the bound, and returns how many of them are within.
    /// Elements become integers after a multiplication by `steps_per_unit`, a power of two.
    pub(super) fn decide<T: Element>(&mut self, rule: &Rule, steps_per_unit: f64) -> u64 {
        let exist = self.masks.as_flattened_mut();
        exist.fill(u64::MAX);
        let last = exist.len() - PANEL;
        // mutant: rows-of-two-panels-are-added-twice
        exist[last..last + self.twice].fill(0);
        let limits = Limits::new::<T>(rule, steps_per_unit);
        let (totals, factors) = (&self.totals, &mut self.factors);
        let decide = Decide { limits, totals, factors, masks: &mut self.masks, open: &mut self.open };
        let (within, is_any_open) = dispatch::run(rule.isa, decide);
        self.is_any_open = is_any_open;
        within
    }

    /// Returns the places of rows that [`Panels::decide`] left open, with their totals.
    pub(super) fn open(&self) -> Vec<(usize, f64)> {
        if !self.is_any_open {
            return Vec::new();
        }
        let open = self.open.as_flattened().iter().enumerate();
        open.filter(|(_, open)| **open != 0).map(|(place, _)| (place, self.totals.as_flattened()[place])).collect()
    }

    /// Adds the squares in some columns, for rows near the bound, to twice the precision; `false` if this
    /// instruction set cannot. Sums that may be exact, and so tell ties, are taken for rounded ones if `ties` does not ask.
    pub(super) fn measure_closely<T: Element>(
        &mut self,
        isa: Isa,
        columns: Columns<'_, T>,
        cut: Cut,
        ties: bool,
    ) -> bool {
        let closely = MeasureClosely { columns, cut, sums: &mut self.near };
        if ties || T::SQUARES_FIT { dispatch::run(isa, MeasureTies(closely)) } else { dispatch::run(isa, closely) }
    }

    /// Returns those sums for a row.
    pub(super) fn near(&self, place: usize) -> Parts {
        let (panel, r) = (&self.near[place / PANEL], place % PANEL);
        Parts { high: panel.high[r], low: panel.low[r], inexact: panel.inexact[r] }
    }

    /// Begins to look for rows with one element.
    pub(super) fn begin_single(&mut self) {
        self.singles.clear();
        self.singles.resize(self.totals.len(), Single::default());
    }

    /// Looks for them in some columns.
    pub(super) fn measure_single<T: Element>(&mut self, isa: Isa, columns: Columns<'_, T>) {
        dispatch::run(isa, MeasureSingle { columns, sums: &mut self.singles });
    }

    /// Returns the magnitude of the only element of a row that is not zero, or zero; `None` if there are more.
    pub(super) fn single(&self, place: usize) -> Option<f64> {
        let (panel, r) = (&self.singles[place / PANEL], place % PANEL);
        // mutant: rows-side-by-side-told-by-their-magnitude
        (panel.others[r].wrapping_neg() < 2).then_some(panel.sizes[r])
    }

    /// Begins to look for the largest magnitudes of rows.
    pub(super) fn begin_far(&mut self) {
        clear(&mut self.largest, self.totals.len(), 0.0);
    }

    /// Looks for them in some columns: NaN and infinity are larger than any number.
    pub(super) fn measure_largest<T: Element>(&mut self, isa: Isa, columns: Columns<'_, T>) {
        dispatch::run(isa, MeasureLargest { columns, largest: &mut self.largest });
    }

    /// Whether squares of all these overflow; their sums are infinite then, or NaN, which [`Panels::far`] tells apart.
    pub(super) fn overflow(&mut self) -> bool {
        let overflow = self.largest.as_flattened().iter().all(|x| x.is_nan() || *x >= OVERFLOWS);
        if overflow {
            self.totals.as_flattened_mut().fill(f64::INFINITY);
        }
        overflow
    }

    /// How many open rows have sums of squares that are not trusted.
    pub(super) fn count_far(&self, rule: &Rule) -> usize {
        if !self.is_any_open {
            return 0;
        }
        let open = self.open.as_flattened().iter().zip(self.totals.as_flattened());
        open.filter(|(open, total)| **open != 0 && rule.is_far::<f64>(**total)).count()
    }

    /// Begins with sums of squares of these rows times [`scale_of`] their largest magnitude; `false` if there is nothing to add:
    /// every such row has an element that is not finite.
    pub(super) fn begin_scaled(&mut self, rule: &Rule) -> bool {
        clear(&mut self.again, self.totals.len(), 0.0);
        clear(&mut self.powers, self.totals.len(), 0.0);
        let mut any = false;
        let rows = self.largest.as_flattened().iter().zip(self.totals.as_flattened());
        for ((largest, total), power) in rows.zip(self.powers.as_flattened_mut()) {
            if rule.is_far::<f64>(*total) && largest.is_finite() && *largest != 0.0 {
                *power = scale_of(*largest);
                any = true;
            }
        }
        any
    }

    /// Adds the squares in some columns of a leaf to these sums.
    pub(super) fn measure_scaled<T: Element>(&mut self, isa: Isa, part: Part<'_, T>) {
        let scales = &self.powers;
        dispatch::run(isa, MeasureScaled(Measure { part, totals: &mut self.again, lanes: &mut self.lanes, scales }));
    }

    /// Decides the rows that these sums tell, and returns how many of them are within the bound.
    pub(super) fn decide_again(&mut self, rule: &Rule, steps_per_unit: f64) -> u64 {
        let limits = Limits::new::<f64>(rule, steps_per_unit);
        let Self { totals, largest, again, powers: scales, factors, masks, open, .. } = self;
        let within =
            dispatch::run_short(rule.isa, DecideAgain { limits, totals, largest, again, scales, factors, masks, open });
        // Nothing else was settled before.
        core::mem::swap(&mut self.scales, &mut self.powers);
        self.is_any_settled = true;
        within
    }

    /// Makes room for those sums.
    pub(super) fn begin_closely(&mut self) {
        self.near.clear();
        self.near.resize(self.totals.len(), Near::NONE);
    }

    /// Takes over what was decided about a row.
    pub(super) fn settle(&mut self, place: usize, decision: Decision, steps_per_unit: f64) {
        let (scale, factor, exists) = match decision.fate {
            Fate::Zero => (1.0, 0.0, false),
            Fate::Keep { close } => {
                self.close.as_flattened_mut()[place] = mask(close);
                self.is_any_close |= close;
                (1.0, steps_per_unit, true)
            }
            // mutant: open-rows-lose-power-of-two
            Fate::Shrink { scale, factor } => (scale, factor * steps_per_unit, true),
        };
        self.is_any_settled = true;
        self.scales.as_flattened_mut()[place] = scale;
        self.factors.as_flattened_mut()[place] = factor;
        self.masks.as_flattened_mut()[place] = mask(exists);
    }

    /// Looks at what was decided about all rows; `false` if they count as zero, so that there is nothing to add.
    pub(super) fn begin_to_add(&mut self) -> bool {
        let masks = self.masks.as_flattened();
        let count = masks.iter().filter(|mask| **mask != 0).count();
        // mutant: rows-that-do-not-count-taken-for-plain
        self.are_plain = !self.is_any_settled && count + self.twice == masks.len();
        // mutant: rows-that-count-taken-for-zeros
        count > 0
    }

    /// Adds the integers in some columns to `sums`, one for each column.
    pub(super) fn add<T: Element>(&mut self, isa: Isa, columns: Columns<'_, T>, sums: &mut [i64]) {
        let mut sums = sums;
        let mut start = 0;
        while !sums.is_empty() {
            // Up to the end of a run.
            let (now, later) = sums.split_at_mut((RUN - self.columns % RUN).min(sums.len()));
            let add = Add { columns, start, panels: self, sums: now };
            if add.panels.is_any_close && add.panels.needs_integers {
                dispatch::run(isa, Close(add));
            } else if add.panels.are_plain && isa.is_native() {
                dispatch::run_native(isa, Plain(add));
            } else {
                dispatch::run(isa, add);
            }
            start += now.len();
            self.columns += now.len();
            if self.columns.is_multiple_of(RUN) {
                self.fold();
            }
            sums = later;
        }
    }

    /// Adds the run to its part and, at the end of a part, that to what was before.
    fn fold(&mut self) {
        let [runs, parts, rest] = &mut self.certificates;
        let (runs, parts, rest) = (runs.as_flattened_mut(), parts.as_flattened_mut(), rest.as_flattened_mut());
        for (part, run) in parts.iter_mut().zip(runs) {
            // mutant: certificates-of-runs-forgotten
            *part += core::mem::take(run);
        }
        if self.columns.is_multiple_of(PART) {
            rest.iter_mut().zip(parts).for_each(|(rest, part)| *rest += core::mem::take(part));
        }
    }

    /// Whether sums of the integers of some row might be certified only after [`Panels::add_again`].
    pub(super) const fn may_add_again(&self) -> bool {
        self.is_any_close && !self.needs_integers
    }

    /// Begins to add anew, squares of integers included, in this group and those to come.
    pub(super) fn add_again(&mut self) {
        self.needs_integers = true;
        self.columns = 0;
        self.certificates.iter_mut().for_each(|sums| sums.as_flattened_mut().fill(0.0));
    }

    /// Returns whether the integers of every row certainly have a sum of squares of at most `integers`: either their products
    /// are at most `products`, or, for rows near the bound, it was formed.
    pub(super) fn certified(&self, products: f64, integers: u64) -> bool {
        let [runs, parts, rest] = &self.certificates;
        let by_integers = mask(self.is_any_close && self.needs_integers);
        let rows = rest.iter().zip(parts).zip(runs).zip(&self.close).zip(&self.integers);
        let mut certified = u64::MAX;
        for ((((rest, parts), runs), close), sums) in rows {
            for r in 0..PANEL {
                let sum = rest[r] + (parts[r] + runs[r]);
                // Below 2^61 the products prove that every integer was formed exactly and that the sum has not wrapped.
                // mutant: side-by-side-rows-at-bound-not-certified
                let near = mask(sum <= 2_305_843_009_213_693_952.0) & mask(sums[r] <= integers);
                certified &= (near & close[r] & by_integers) | mask(sum <= products);
            }
        }
        certified == u64::MAX
    }
}

/// Makes so many vectors, all of one value.
fn clear<T: Copy>(vectors: &mut Vec<[T; PANEL]>, panels: usize, value: T) {
    vectors.clear();
    vectors.resize(panels, [value; PANEL]);
}

struct Add<'a, T> {
    columns: Columns<'a, T>,
    /// The first of the columns that are added: as many as there are sums.
    start: usize,
    panels: &'a mut Panels,
    sums: &'a mut [i64],
}

impl<T: Element> Add<'_, T> {
    /// Adds integers; `PLAIN` where no row counts as zero, or is multiplied by a power of two first, but for rows that are in two panels,
    /// whose factor is 0 in the last one.
    #[inline(always)]
    fn add<I: Integers, const PLAIN: bool, const CLOSE: bool, const N: usize>(self) {
        let Self { columns, start, panels, sums } = self;
        assert!(columns.fill(panels.totals.len()), "panels of elements");
        assert!(start + sums.len() <= columns.width, "as many columns as sums");
        let (some, rest) = sums.as_chunks_mut::<N>();
        let later = columns.how_many(AHEAD_BYTES).next_multiple_of(N);
        let mut column = start;
        for sums in some {
            Self::add_some::<I, PLAIN, CLOSE, N>(columns, [column, column + later], panels, sums);
            column += N;
        }
        for sum in rest {
            let sums = core::array::from_mut(sum);
            Self::add_some::<I, PLAIN, CLOSE, 1>(columns, [column, column + later], panels, sums);
            column += 1;
        }
    }

    /// Adds the integers of so many columns, all of a panel before the next one. Others are fetched meanwhile.
    #[inline(always)]
    fn add_some<I: Integers, const PLAIN: bool, const CLOSE: bool, const N: usize>(
        columns: Columns<'_, T>,
        [first, later]: [usize; 2],
        panels: &mut Panels,
        sums: &mut [i64; N],
    ) {
        let is_one = PLAIN && I::IS_ONE;
        let [runs, _, _] = &mut panels.certificates;
        let shifts = if is_one { 0 } else { SHIFT.to_bits().wrapping_mul((PANEL * runs.len()) as u64) };
        let mut integers = [[0_u64; PANEL]; N];
        for (p, products) in runs.iter_mut().enumerate() {
            let (factors, masks, scales) = (panels.factors[p], panels.masks[p], panels.scales[p]);
            let (mut total, mut squares) = (*products, panels.integers[p]);
            for (i, integers) in integers.iter_mut().enumerate() {
                columns.fetch_panel(later + i, p);
                // SAFETY: there are so many panels, and so many columns.
                let elements = unsafe { columns.load(first + i, p, I::NATIVE) };
                // One small loop after the other: all of it in one keeps what it computes with in memory.
                let mut values = [0.0; PANEL];
                for r in 0..PANEL {
                    let x = elements[r].widen();
                    let x = if PLAIN { x } else { f64::from_bits(x.to_bits() & masks[r]) };
                    values[r] = if PLAIN || T::SQUARES_FIT { x * factors[r] } else { x * scales[r] * factors[r] };
                }
                // Where something was cut, even a row at the bound has a certificate.
                if !is_one {
                    for v in &mut values {
                        *v = I::cut(*v);
                    }
                }
                for r in 0..PANEL {
                    let v = values[r];
                    total[r] = if I::NATIVE { v.mul_add(v, total[r]) } else { total[r] + v * v };
                }
                let mut bits = [0; PANEL];
                if is_one {
                    bits = I::of(values).map(i64::cast_unsigned);
                } else {
                    for r in 0..PANEL {
                        bits[r] = (values[r] + SHIFT).to_bits();
                    }
                }
                for r in 0..PANEL {
                    integers[r] = integers[r].wrapping_add(bits[r]);
                }
                if CLOSE {
                    for r in 0..PANEL {
                        let k = bits[r].wrapping_sub(SHIFT.to_bits());
                        squares[r] = squares[r].wrapping_add(square(k.cast_signed()));
                    }
                }
            }
            *products = total;
            if CLOSE {
                panels.integers[p] = squares;
            }
        }
        for (sum, integers) in sums.iter_mut().zip(&integers) {
            *sum = sum.wrapping_add(total(integers).wrapping_sub(shifts).cast_signed());
        }
    }
}

/// Returns the sum of these.
///
/// Kept out of line: next to others, the compiler would gather their elements one by one.
#[inline(never)]
fn total(integers: &[u64; PANEL]) -> u64 {
    integers.iter().fold(0, |sum, k| sum.wrapping_add(*k))
}

impl<T: Element> Kernel for Add<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        if NATIVE {
            self.add::<Shifted<true>, false, false, COLUMNS>();
        } else {
            self.add::<Shifted<false>, false, false, 1>();
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) {
        self.add::<Shifted<true>, false, false, COLUMNS_512>();
    }
}

/// The same where all rows count, and none is multiplied by a power of two first.
struct Plain<'a, T>(Add<'a, T>);

impl<T: Element> Kernel for Plain<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        if NATIVE {
            self.0.add::<Shifted<true>, true, false, COLUMNS>();
        } else {
            self.0.add::<Shifted<false>, true, false, 1>();
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) {
        self.0.add::<Converted, true, false, COLUMNS_512>();
    }
}

/// The same where some row is near the bound.
struct Close<'a, T>(Add<'a, T>);

impl<T: Element> Kernel for Close<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        if NATIVE {
            self.0.add::<Shifted<true>, false, true, COLUMNS>();
        } else {
            self.0.add::<Shifted<false>, false, true, 1>();
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) {
        self.0.add::<Shifted<true>, false, true, COLUMNS_512>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::across::STRIP;
    use crate::clip::measure::{Power, add_powers};

    fn check<T: Element>(convert: fn(f64) -> T) {
        for (rows, width) in [(16_usize, 1_usize), (17, 5), (40, 17), (16, 33), (33, 100), (16, 4130)] {
            let data: Vec<T> = (0..rows * width).map(|i| convert(((i * 7919) % 1013) as f64 * 1.1e-3 - 0.5)).collect();
            let mut columns = vec![T::default(); rows * width];
            for i in 0..rows * width {
                columns[i % width * rows + i / width] = data[i];
            }
            let mut expected = vec![0.0; rows];
            add_powers(Isa::PORTABLE, Power::Second, &data, width, 1.0, &mut expected);
            for isa in Isa::available() {
                // SAFETY: these columns are there.
                let of = |first: usize, width| unsafe {
                    Columns::new(columns[first * rows..].as_ptr(), (rows * size_of::<T>()) as isize, rows, width)
                };
                for strip in [STRIP, 3 * STRIP, width.next_multiple_of(STRIP)] {
                    let mut panels = Panels::default();
                    panels.begin(rows);

                    for first in (0..width).step_by(strip) {
                        let columns = of(first, strip.min(width - first));
                        panels.measure(isa, Part { columns, offset: first, first, whole: width });
                    }

                    let totals = panels.totals.as_flattened().iter().enumerate();
                    for (place, total) in totals {
                        assert_eq!(expected[panels.row(place)], *total, "{isa:?}: {rows} x {width}, {strip}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_side_by_side_with_two_elements_have_no_single_magnitude() {
        for second in [5e-324, -1.0] {
            let mut columns = [0.0; 5 * PANEL];
            for r in 0..PANEL {
                columns[r % 5 * PANEL + r] = -0.7;
                if r % 3 > 0 {
                    columns[(r + r % 3) % 5 * PANEL + r] = second;
                }
            }
            for isa in Isa::available() {
                let mut panels = Panels::default();
                panels.begin(PANEL);
                panels.begin_single();

                // SAFETY: these columns are there.
                let columns = unsafe { Columns::new(columns.as_ptr(), size_of::<[f64; PANEL]>() as isize, PANEL, 5) };
                panels.measure_single(isa, columns);

                for r in 0..PANEL {
                    assert_eq!((r % 3 == 0).then_some(0.7), panels.single(r), "{isa:?}: row {r}");
                }
            }
        }
    }

    #[test]
    fn sums_of_squares_side_by_side_have_the_bits_of_those_one_after_the_other() {
        check(|x| x as f32);
        check(|x| x);
    }
}
