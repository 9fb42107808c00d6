//! Rows of few columns, a panel of thirty-two at a time from the first element to the last integer, without a detour through memory.
//! With AVX-512, columns that lie one after the other are not even copied: both readings are where they lie, unless a row of the
//! panel is near the bound, or does not count. A second reading may find other numbers if someone writes there meanwhile; what is
//! certified is what is added. Rows of `f32` that lie one after the other are not turned there either ([`in_rows`]), with the
//! same exceptions, but for rows of zeros.
//!
//! Nothing differs from what [`super::panel`] does with rows side by side, but for rows of one element, whose norm is its
//! magnitude, which is compared with the bound itself, and for certificates. These are floating-point sums of the squares of
//! the integers themselves, not of the products that they are cut from: where something was cut, even a row at the bound has
//! a certificate of that kind. Only where nothing was, its squares are added in integers. On AVX-512, where no row of a panel
//! is near the bound, the products serve as they do in [`super::quantize`]. Either are added in runs of 128 columns, and at most
//! eight runs one after the other: [`super::error_budget`] pays for as many additions.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::mem::MaybeUninit;
use core::ops::Range;

use super::across::{self, Aligned, Decided, Limits, Waiting};
use super::close::{Cut, Edge};
use super::columns::mask;
use super::coming::{ADDING, ALL, Ahead, Coming, LYING, TURNING, crowd};
use super::decide::Rule;
use super::element::Element;
#[cfg(target_arch = "x86_64")]
use super::quantize::Converted;
use super::quantize::{Integers, SHIFT, Shifted, square, truncate};
use super::rows::Strided;
use super::settle::{self, Far, MOST_PRODUCTS, SMALLER, SMALLEST, Settle};
use super::turn::{self, ROWS, Sheet, Turned};
use crate::dispatch::{self, Kernel};
use few::{Few, PANELS};
use in_rows::InRows;
pub(super) use state::Certified;
use state::{SUMS, State};

mod few;
#[cfg_attr(not(target_arch = "x86_64"), path = "narrow/no_rows.rs")]
mod in_rows;
mod state;

/// Adds whole panels of rows of one leaf to `sums`, one for each column.
pub(super) struct Add<'a, T> {
    /// Rows as they are measured, and as they are added, which may differ where [`lie_well`] says so.
    pub(super) readings: [&'a Strided<'a, T>; 2],
    pub(super) rows: Range<usize>,
    /// Puts further rows where the first of `rows` lies, and returns how many, and what comes after them, if there are any.
    pub(super) more: &'a mut dyn FnMut() -> Option<(usize, Coming)>,
    pub(super) rule: &'a Rule,
    pub(super) limits: Limits,
    pub(super) certified: Certified,
    pub(super) sums: &'a mut [i64],
}

impl<T: Element> Kernel for Add<'_, T> {
    /// How many rows were within the bound, if all were certified.
    type Output = Option<u64>;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> Option<u64> {
        self.add_any::<NATIVE, Shifted<NATIVE>>()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) -> Option<u64> {
        self.add_any::<true, Converted>()
    }
}

/// The most columns.
pub(super) const MOST_COLUMNS: usize = 1024;

/// The most columns of panels that go through [`Few`] first.
const MOST_FEW: usize = 4;

/// The most columns that are read where they lie, of elements whose squares fit and of others.
const LYING_COLUMNS: [usize; 2] = [512, 48];

/// Columns whose certificates are added in one run, and how many of them before more columns are asked for.
const RUN: usize = 128;
const TOGETHER: usize = 8;

/// Beyond this, squares of `f64` leave the range in which sums are trusted.
const LARGE: f64 = f64::from_bits((1023 + 500) << 52); // 2^500

impl<T: Element> Add<'_, T> {
    #[inline(always)]
    fn add_any<const NATIVE: bool, I: Integers>(self) -> Option<u64> {
        assert!(self.readings[0].axes.len() <= 1 && self.sums.len() <= MOST_COLUMNS, "rows of few columns");
        match self.sums.len() {
            1 if self.limits.keeps != 0 => self.add_single::<NATIVE>(),
            2 if NATIVE => self.add::<NATIVE, I, 2>(),
            3 if NATIVE => self.add::<NATIVE, I, 3>(),
            4 if NATIVE => self.add::<NATIVE, I, 4>(),
            _ => self.add::<NATIVE, I, 0>(),
        }
    }

    /// Adds rows of one element. The root of a square is the magnitude, and a factor with another power of two in it
    /// gives the same product.
    #[inline(always)]
    fn add_single<const NATIVE: bool>(mut self) -> Option<u64> {
        let Limits { bound, shrink, steps_per_unit, .. } = self.limits;
        let (mut within, mut certified, mut sums) = ([0_u64; ROWS], [u64::MAX; ROWS], [0_u64; SUMS]);
        let leaf = self.readings[0];
        let mut columns = Aligned([[T::default(); ROWS]]);
        let mut room = turn::Room::to_turn(1);
        let (mut panels, mut coming) = (0_u64, Coming::nothing());
        loop {
            for first in self.rows.clone().step_by(ROWS) {
                coming.ask(1, ALL);
                let (columns, room) = (&mut columns.0, room.columns());
                // SAFETY: the leaf has these rows of one element.
                unsafe { turn::panel::<T, 1>(self.rule.isa, leaf, first, columns, room, &mut Coming::nothing()) };
                let mut values = [0.0; ROWS];
                for r in 0..ROWS {
                    let x = columns[0][r].widen();
                    let size = x.abs();
                    // Far below a step: products would be subnormal.
                    let x = if T::SQUARES_FIT {
                        x
                    } else {
                        f64::from_bits(x.to_bits() & mask(size >= f64::from_bits(SMALLEST as u64)))
                    };
                    let kept = mask(size <= bound);
                    within[r] = within[r].wrapping_sub(kept);
                    // A multiplication by 1 or a power of two.
                    let smaller = if T::SQUARES_FIT { 0 } else { mask(size > LARGE) };
                    let x = x * f64::from_bits((1.0_f64.to_bits() & !smaller) | (SMALLER.to_bits() & smaller));
                    let factor = bound / x.abs() * shrink * steps_per_unit;
                    let factor = (factor.to_bits() & !kept) | (steps_per_unit.to_bits() & kept);
                    let exists = mask(size <= f64::MAX);
                    values[r] = f64::from_bits(x.to_bits() & exists) * f64::from_bits(factor & exists);
                }
                for r in 0..ROWS {
                    certified[r] &= mask(values[r].abs() <= self.certified.steps);
                    values[r] = truncate::<NATIVE>(values[r]) + SHIFT;
                }
                state::add(&mut sums, &values);
                panels += 1;
            }
            let Some((count, after)) = (self.more)() else { break };
            (self.rows.end, coming) = (self.rows.start + count, after);
        }
        add_to(&mut self.sums[0], &sums, panels);
        finish(&certified, &within)
    }

    /// Adds rows of `W` elements, or of as many as there are sums where that is 0.
    #[inline(always)]
    fn add<const NATIVE: bool, I: Integers, const W: usize>(self) -> Option<u64> {
        let Self { readings, mut rows, more, rule, limits, certified, sums } = self;
        let leaf = readings[0];
        let width = if W == 0 { sums.len() } else { W };
        let (mut columns, mut room) = (turn::Room::new(if W == 0 { width } else { 0 }), turn::Room::to_turn(width));
        let (columns, room) = (columns.columns(), room.columns());
        let mut waiting: Aligned<Waiting> = Aligned([[0.0; ROWS]; _]);
        // On the stack: the compiler sees that they are apart from all else, and keeps that in registers.
        let mut of_columns = [const { MaybeUninit::<Aligned<[u64; SUMS]>>::uninit() }; MOST_COLUMNS];
        of_columns[..width].fill(MaybeUninit::new(Aligned([0; SUMS])));
        // SAFETY: all of these were just written.
        let of_columns =
            unsafe { core::slice::from_raw_parts_mut(of_columns.as_mut_ptr().cast::<Aligned<_>>(), width) };
        let mut state = State {
            within: [0; ROWS],
            certified: [u64::MAX; ROWS],
            settled: 0,
            panels: 0,
            are_far: false,
            is_near: false,
            has_ties: false,
            has_singles: false,
            needs_integers: T::SQUARES_FIT,
            few: [[0; SUMS]; 4],
        };
        let edge = Cut::new(rule.power, rule.bound).map(|cut| Edge::of::<T>(cut, rule.bound, width, width));
        let edge = edge.as_ref();
        let mut few = Few::new(rule, &limits, &certified, edge);
        let mut panels = Aligned([[[T::default(); ROWS]; W]; PANELS]);
        let mut coming = Coming::nothing();
        let lies = I::IS_ONE && lie_well(leaf, width);
        // No code for others, which the compiler has to see.
        let may = I::IS_ONE && W == 0 && InRows::takes::<T>();
        let mut in_rows = if may { InRows::of(leaf, rows.len(), width) } else { None };
        loop {
            let mut next = rows.clone();
            let (ahead, start) = (Ahead::of(leaf, &rows, [ROWS, width], if lies { LYING } else { ALL }), rows.start);
            while W > 0 && !next.is_empty() {
                let count = (next.len() / ROWS).min(PANELS);
                let panels = &mut panels.0[..count];
                for (first, panel) in next.clone().step_by(ROWS).zip(&mut *panels) {
                    if let Some(ahead) = &ahead {
                        ahead.begin((first - start) / ROWS, &mut coming);
                    }
                    coming.ask(W, ALL);
                    let none = &mut Coming::nothing();
                    // SAFETY: the leaf has these rows, and as many columns as there are sums.
                    unsafe { turn::panel::<T, W>(rule.isa, leaf, first, panel, room, none) };
                }
                next.start += count * ROWS;
                let mut panels = &*panels;
                while !panels.is_empty() {
                    if few.pause == 0 {
                        panels = &panels[few.add::<T, NATIVE, W>(panels, &mut state)..];
                    }
                    few.pause = few.pause.saturating_sub(1);
                    let Some((columns, rest)) = panels.split_first() else { break };
                    panels = rest;
                    let (limits, certified, waiting) = (&limits, &certified, &mut waiting.0);
                    // Rare enough: in wider vectors it would be a tenth of all code here once more.
                    dispatch::run_256(
                        rule.isa,
                        Panel {
                            readings: [Sheet::of(columns); 2],
                            room: None,
                            coming: &mut Coming::nothing(),
                            sums: &mut *of_columns,
                            rule,
                            limits,
                            edge,
                            certified,
                            waiting,
                            state: &mut state,
                        },
                    );
                }
            }
            // None of rows of so few columns are left, which the compiler does not always see.
            if W == 0 {
                for first in next.step_by(ROWS) {
                    if may && let Some(in_rows) = InRows::next(&mut in_rows) {
                        let add = in_rows::Add {
                            in_rows,
                            limits: &limits,
                            certified,
                            state: &mut state,
                            coming: &mut coming,
                        };
                        // SAFETY: as above.
                        if unsafe { add.run(rule.isa, leaf, first) } {
                            continue;
                        }
                    } else if let Some(ahead) = &ahead {
                        ahead.begin((first - start) / ROWS, &mut coming);
                    }
                    let coming = &mut coming;
                    let (readings, room) = if lies && (T::SQUARES_FIT || !state.is_special()) {
                        // SAFETY: as above.
                        (readings.map(|leaf| unsafe { Sheet::lying(leaf, first, width) }), Some(&mut *columns))
                    } else {
                        // SAFETY: as above.
                        unsafe { turn::panel::<T, W>(rule.isa, leaf, first, columns, room, coming) };
                        ([Sheet::of(columns); 2], None)
                    };
                    let (limits, certified, waiting) = (&limits, &certified, &mut waiting.0);
                    Panel {
                        readings,
                        room,
                        coming,
                        sums: &mut *of_columns,
                        rule,
                        limits,
                        edge,
                        certified,
                        waiting,
                        state: &mut state,
                    }
                    .add::<NATIVE, I>();
                }
            }
            let Some((count, after)) = more() else { break };
            (rows.end, coming) = (rows.start + count, after);
        }
        for (c, (sum, Aligned(more))) in sums.iter_mut().zip(&*of_columns).enumerate() {
            add_to(sum, more, state.panels);
            if W > 0 {
                add_to(sum, &state.few[c], 0);
            }
        }
        if may && let Some(in_rows) = &in_rows {
            in_rows.finish(sums);
        }
        finish(&state.certified, &state.within).map(|within| within + state.settled)
    }
}

/// Whether so many columns of a leaf are sooner read where they lie, twice, than copied first to lie one after the other.
pub(super) fn lie_well<T: Element>(leaf: &Strided<'_, T>, columns: usize) -> bool {
    let apart = leaf.axes.first().map_or(0, |axis| axis.1.wrapping_mul(size_of::<T>() as isize));
    let most = LYING_COLUMNS[usize::from(!T::SQUARES_FIT)];
    leaf.row == 1 && (MOST_FEW + 1..=most).contains(&columns) && !crowd(columns, apart)
}

/// A panel of few columns, on its way into sums; as a kernel, of up to [`MOST_FEW`].
struct Panel<'a, T> {
    /// Columns as they are measured, and as they are added.
    readings: [Sheet<'a, T>; 2],
    /// Where they are copied to if rows are not plain, unless they have been.
    room: Option<&'a mut [Turned<T>]>,
    /// What is asked for meanwhile.
    coming: &'a mut Coming,
    sums: &'a mut [Aligned<[u64; SUMS]>],
    rule: &'a Rule,
    limits: &'a Limits,
    edge: Option<&'a Edge>,
    certified: &'a Certified,
    waiting: &'a mut Waiting,
    state: &'a mut State,
}

impl<T: Element> Kernel for Panel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) {
        // All of them, which the compiler does not see: no code for more is made.
        let columns = self.readings[0].as_slice();
        self.readings = [Sheet::of(&columns[..columns.len().min(MOST_FEW)]); 2];
        self.add::<NATIVE, Shifted<NATIVE>>();
    }
}

impl<T: Element> Panel<'_, T> {
    #[inline(always)]
    fn add<const NATIVE: bool, I: Integers>(&mut self) {
        let Self { readings, room, coming, sums, rule, limits, edge, certified, waiting, state } = self;
        let ([sheet, again], edge): ([Sheet<'_, T>; 2], Option<&Edge>) = (*readings, *edge);
        let mut columns = if room.is_none() { sheet.as_slice() } else { &[] };
        // What overflows is measured again: where that is known, there is no need to see it.
        let knows_far = !T::SQUARES_FIT && state.are_far && limits.keeps != 0;
        let far = if knows_far { settle::far(columns) } else { Far::Mixed };
        match far {
            Far::Nothing { within } => {
                state.settled += within;
                coming.ask(columns.len(), ALL - TURNING);
                return;
            }
            Far::Large => {
                return dispatch::run_256(rule.isa, Large { columns, coming, sums, limits, certified, waiting, state });
            }
            Far::Untrusted | Far::Mixed => {}
        }
        let totals = if matches!(far, Far::Untrusted) {
            [f64::INFINITY; ROWS]
        } else {
            across::squares::<T, NATIVE, false>(sheet, &[1.0; ROWS], waiting, coming)
        };
        let totals = Aligned(totals);
        let by_singles = state.has_singles;
        let mut told = None;
        let mut decided = Decided { factors: [0.0; ROWS], masks: [0; ROWS], clear: [0; ROWS], open: [0; ROWS] };
        if NATIVE
            && !T::SQUARES_FIT
            && (state.is_near || by_singles)
            && let Some(edge) = edge
        {
            let decided = &mut decided;
            let near = settle::Near { limits, edge, totals: &totals.0, columns, decided, by_singles, coming };
            told = dispatch::run_native(rule.isa, near);
            (state.is_near, state.has_singles) = match told {
                Some(true) => (!by_singles, by_singles),
                _ => (false, false),
            };
        }
        state.are_far = false;
        if told.is_none() {
            decided = limits.decide(&totals.0, &[u64::MAX; ROWS]);
        }
        let mut is_open = 0;
        for r in 0..ROWS {
            state.within[r] = state.within[r].wrapping_sub(decided.clear[r]);
            is_open |= decided.open[r];
        }
        // Certificates of rows that are not near the bound may be those of numbers that are not cut yet.
        // mutant: rows-of-panels-taken-for-plain
        let is_plain = I::IS_ONE && is_open == 0 && told.is_none() && decided.are_all();
        if is_plain {
            return Self::add_all_plain::<I>(again, coming, sums, certified, &decided.factors, state);
        }
        if let Some(room) = room {
            again.copy_to(room);
            columns = &**room;
        }
        let mut settled = None;
        if is_open != 0 {
            let settle = Settle {
                rule,
                limits,
                totals: &totals.0,
                columns,
                decided: &mut decided,
                waiting,
                expects_ties: state.has_ties,
                expects_singles: by_singles,
            };
            let found = settled.insert(dispatch::run_native(rule.isa, settle));
            (state.are_far, state.has_ties, state.has_singles) = (found.are_far, found.has_ties, found.has_singles);
            state.is_near = found.has_near;
            state.settled += found.within;
        }
        let (scales, close) = match &settled {
            Some(settled) => (Some(&settled.scales), settled.close),
            None if told.is_some() => {
                let mut close = [0; ROWS];
                for r in 0..ROWS {
                    close[r] = decided.clear[r] & limits.keeps;
                }
                (None, close)
            }
            None => (None, [0; ROWS]),
        };
        let (mut products, mut squares) = (Aligned([0.0; ROWS]), Aligned([0_u64; ROWS]));
        let has_close = settled.is_some() || told.is_some();
        let with_integers = has_close && state.needs_integers;
        state.panels += 1;
        let mut runs = Runs::default();
        for (run, sums) in columns.chunks(RUN).zip(sums.chunks_mut(RUN)) {
            for (columns, sums) in run.chunks(TOGETHER).zip(sums.chunks_mut(TOGETHER)) {
                coming.ask(TOGETHER, ADDING);
                let of_columns = columns.iter().zip(sums);
                // Loops of their own, in which nothing is asked for each column.
                if scales.is_none() && !with_integers {
                    for (column, Aligned(sums)) in of_columns {
                        add::<T, NATIVE>(column, &decided, None, &mut products.0, sums);
                    }
                } else {
                    for (column, Aligned(sums)) in of_columns {
                        let values = add::<T, NATIVE>(column, &decided, scales, &mut products.0, sums);
                        if with_integers {
                            add_squares(&values, &mut squares.0);
                        }
                    }
                }
            }
            if columns.len() > RUN {
                runs.fold(&mut products.0);
            }
        }
        if columns.len() > RUN {
            products = runs.0;
        }
        let mut sure = [0; ROWS];
        for r in 0..ROWS {
            sure[r] = mask(products.0[r] <= certified.products);
        }
        let mut missing = 0;
        for r in 0..ROWS {
            missing |= close[r] & !sure[r];
        }
        if missing != 0 {
            if !with_integers {
                for column in columns.iter() {
                    // Or the compiler gathers elements of a row, in four times as much code.
                    let column = core::hint::black_box(column);
                    let mut values = integers::<T, NATIVE>(column, &decided, scales);
                    values.iter_mut().for_each(|v| *v += SHIFT);
                    add_squares(&values, &mut squares.0);
                }
            }
            for r in 0..ROWS {
                let exact = mask(products.0[r] <= MOST_PRODUCTS) & mask(squares.0[r] <= certified.integers);
                // mutant: rows-of-panels-at-bound-certified-without-integers
                sure[r] |= close[r] & exact;
            }
        }
        if has_close {
            state.needs_integers = missing != 0;
        }
        for r in 0..ROWS {
            state.certified[r] &= sure[r];
        }
    }

    /// Adds a panel whose rows all count and are not near the bound. A way of its own: certificates stay in registers.
    #[inline(always)]
    fn add_all_plain<I: Integers>(
        mut columns: Sheet<'_, T>,
        coming: &mut Coming,
        sums: &mut [Aligned<[u64; SUMS]>],
        certified: &Certified,
        factors: &Turned<f64>,
        state: &mut State,
    ) {
        let mut products = [0.0; ROWS];
        for sums in sums.chunks_mut(RUN) {
            let mut of_run = [0.0; ROWS];
            for sums in sums.chunks_mut(TOGETHER) {
                coming.ask(TOGETHER, ADDING);
                let (mut column, step) = columns.take(sums.len());
                for Aligned(sums) in sums {
                    // SAFETY: one of as many as were taken.
                    of_run = add_plain::<T, I>(unsafe { &*column }, factors, of_run, sums);
                    column = column.wrapping_byte_offset(step);
                }
            }
            for r in 0..ROWS {
                products[r] += of_run[r];
            }
        }
        for r in 0..ROWS {
            // mutant: columns-where-they-lie-not-certified
            state.certified[r] &= mask(products[r] <= certified.products);
        }
    }
}

/// Certificates of runs of columns.
struct Runs(Aligned<Turned<f64>>);

impl Default for Runs {
    fn default() -> Self {
        Self(Aligned([0.0; ROWS]))
    }
}

impl Runs {
    /// Adds `products`, which hold those of one more, and clears these.
    #[inline(always)]
    fn fold(&mut self, products: &mut Turned<f64>) {
        for (run, product) in self.0.0.iter_mut().zip(products) {
            *run += core::mem::take(product);
        }
    }
}

/// A panel of rows that all have a finite element of 2⁵⁰⁰ or more, and so are longer than the bound.
struct Large<'a, T> {
    columns: &'a [Turned<T>],
    coming: &'a mut Coming,
    sums: &'a mut [Aligned<[u64; SUMS]>],
    limits: &'a Limits,
    certified: &'a Certified,
    waiting: &'a mut Waiting,
    state: &'a mut State,
}

impl<T: Element> Kernel for Large<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { columns, coming, sums, limits, certified, waiting, state } = self;
        let Limits { bound, shrink, steps_per_unit, .. } = *limits;
        let totals = Aligned(across::squares::<T, NATIVE, true>(Sheet::of(columns), &[SMALLER; ROWS], waiting, coming));
        let (none, all) = ([0; ROWS], [u64::MAX; ROWS]);
        let mut decided = Decided { factors: [0.0; ROWS], masks: all, clear: none, open: none };
        for r in 0..ROWS {
            decided.factors[r] = bound / totals.0[r].sqrt() * shrink * steps_per_unit;
        }
        let (mut products, mut runs) = (Aligned([0.0; ROWS]), Runs::default());
        state.panels += 1;
        for (run, sums) in columns.chunks(RUN).zip(sums.chunks_mut(RUN)) {
            for (column, Aligned(sums)) in run.iter().zip(sums) {
                coming.ask(1, ADDING);
                // mutant: large-rows-of-panels-lose-power-of-two
                add::<T, NATIVE>(column, &decided, Some(&[SMALLER; ROWS]), &mut products.0, sums);
            }
            runs.fold(&mut products.0);
        }
        for r in 0..ROWS {
            state.certified[r] &= mask(runs.0.0[r] <= certified.products);
        }
    }
}

/// Adds integers of so many panels, each of which carries [`SHIFT`].
#[inline(always)]
fn add_to(sum: &mut i64, integers: &[u64], panels: u64) {
    let shifts = SHIFT.to_bits().wrapping_mul(ROWS as u64).wrapping_mul(panels);
    let mut total = 0_u64.wrapping_sub(shifts);
    for k in integers {
        total = total.wrapping_add(*k);
    }
    *sum = sum.wrapping_add(total.cast_signed());
}

/// Returns how many rows were within the bound, if all were certified.
#[inline(always)]
fn finish(certified: &Turned<u64>, within: &Turned<u64>) -> Option<u64> {
    let (mut all, mut sum) = (u64::MAX, 0_u64);
    for r in 0..ROWS {
        all &= certified[r];
        sum = sum.wrapping_add(within[r]);
    }
    (all == u64::MAX).then_some(sum)
}

/// Returns the integers of a column.
#[inline(always)]
fn integers<T: Element, const NATIVE: bool>(
    column: &Turned<T>,
    decided: &Decided<ROWS>,
    scales: Option<&Turned<f64>>,
) -> Turned<f64> {
    let mut values = [0.0; ROWS];
    for r in 0..ROWS {
        values[r] = f64::from_bits(column[r].widen().to_bits() & decided.masks[r]);
    }
    if let Some(scales) = scales
        && !T::SQUARES_FIT
    {
        for r in 0..ROWS {
            values[r] *= scales[r];
        }
    }
    for r in 0..ROWS {
        values[r] = truncate::<NATIVE>(values[r] * decided.factors[r]);
    }
    values
}

/// Adds the integers of a column, and their squares to `products`; returns them, added to [`SHIFT`].
#[inline(always)]
fn add<T: Element, const NATIVE: bool>(
    column: &Turned<T>,
    decided: &Decided<ROWS>,
    scales: Option<&Turned<f64>>,
    products: &mut Turned<f64>,
    sums: &mut [u64; SUMS],
) -> Turned<f64> {
    let mut values = integers::<T, NATIVE>(column, decided, scales);
    for r in 0..ROWS {
        let v = values[r];
        products[r] = if NATIVE { v.mul_add(v, products[r]) } else { products[r] + v * v };
    }
    for v in &mut values {
        *v += SHIFT;
    }
    state::add(sums, &values);
    values
}

/// Adds the integers of a column whose rows all count; returns `products` and the squares of what they are cut from.
#[inline(always)]
fn add_plain<T: Element, I: Integers>(
    column: &Turned<T>,
    factors: &Turned<f64>,
    mut products: Turned<f64>,
    sums: &mut [u64; SUMS],
) -> Turned<f64> {
    let mut values = [0.0; ROWS];
    for r in 0..ROWS {
        values[r] = column[r].widen() * factors[r];
    }
    for r in 0..ROWS {
        products[r] = values[r].mul_add(values[r], products[r]);
    }
    state::add_integers(sums, &I::of(values));
    products
}

/// Adds the squares of integers that were added to [`SHIFT`], modulo 2⁶⁴.
#[inline(always)]
fn add_squares(integers: &Turned<f64>, squares: &mut Turned<u64>) {
    for r in 0..ROWS {
        let k = integers[r].to_bits().wrapping_sub(SHIFT.to_bits());
        squares[r] = squares[r].wrapping_add(square(k.cast_signed()));
    }
}

#[cfg(test)]
mod tests;
