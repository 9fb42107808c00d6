//! Rows of few columns, sixteen at a time from the first element to the last integer, without a detour through memory.
//!
//! Nothing differs from what [`super::panel`] does with rows side by side, but for rows of one element, whose norm is its
//! magnitude, which is compared with the bound itself, and for certificates. These are floating-point sums of the squares of
//! the integers themselves, not of the products that they are cut from: where something was cut, even a row at the bound has
//! a certificate of that kind. Only where nothing was, its squares are added in integers.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::ops::Range;

use super::across::{self, Aligned, Decided, Halves, Limits};
use super::columns::{Mask, PANEL, Vector, mask};
use super::decide::Rule;
use super::element::Element;
use super::quantize::{SHIFT, truncate};
use super::rows::Strided;
use super::settle::{self, MOST_PRODUCTS, Settle};
use super::turn::{self, MOST, Turned};
use crate::dispatch::{self, Kernel};
use few::Few;
pub(super) use state::Certified;
use state::State;

mod few;
mod state;

/// Adds whole panels of rows of one leaf to `sums`, one for each column.
pub(super) struct Add<'a, T> {
    pub(super) leaf: &'a Strided<'a, T>,
    pub(super) rows: Range<usize>,
    /// Puts further rows where the first of `rows` lies, and returns how many.
    pub(super) more: &'a mut dyn FnMut() -> usize,
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
        assert!(self.leaf.axes.len() <= 1 && self.sums.len() <= MOST, "rows of few columns");
        match self.sums.len() {
            1 if self.limits.keeps != 0 => self.add_single::<NATIVE>(),
            1 if NATIVE => self.add::<NATIVE, 1>(),
            2 if NATIVE => self.add::<NATIVE, 2>(),
            3 if NATIVE => self.add::<NATIVE, 3>(),
            4 if NATIVE => self.add::<NATIVE, 4>(),
            _ => self.add::<NATIVE, 0>(),
        }
    }
}

/// Beyond this, squares of `f64` leave the range in which sums are trusted.
const LARGE: f64 = f64::from_bits((1023 + 500) << 52); // 2^500
/// All steps are larger: 2⁻⁵²⁹ or more, for the clip norm is at least 2⁻⁵⁰⁰.
const SMALLEST: f64 = f64::from_bits((1023 - 530) << 52);
/// Brings such a number to where its quotients are normal ones.
const SMALLER: f64 = f64::from_bits((1023 - 600) << 52); // 2^-600

impl<T: Element> Add<'_, T> {
    /// Adds rows of one element. The root of a square is the magnitude, and a factor with another power of two in it
    /// gives the same product.
    #[inline(always)]
    fn add_single<const NATIVE: bool>(mut self) -> Option<u64> {
        let Limits { bound, shrink, steps_per_unit, .. } = self.limits;
        let (mut within, mut certified, mut sums) = ([0_u64; PANEL], [u64::MAX; PANEL], [0_u64; PANEL]);
        let mut columns = Aligned([[T::default(); PANEL]]);
        let mut room = Aligned([[T::default(); PANEL]; MOST]);
        let mut panels = 0_u64;
        while !self.rows.is_empty() {
            for first in self.rows.clone().step_by(PANEL) {
                // SAFETY: the leaf has these rows of one element.
                unsafe { turn::panel::<T, 1>(self.leaf, first, &mut columns.0, &mut room.0) };
                let mut values = [0.0; PANEL];
                for r in 0..PANEL {
                    let x = columns.0[0][r].widen();
                    let size = x.abs();
                    // Far below a step: products would be subnormal.
                    let x = if T::SQUARES_FIT { x } else { f64::from_bits(x.to_bits() & mask(size >= SMALLEST)) };
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
                for r in 0..PANEL {
                    certified[r] &= mask(values[r].abs() <= self.certified.steps);
                    sums[r] = sums[r].wrapping_add((truncate::<NATIVE>(values[r]) + SHIFT).to_bits());
                }
                panels += 1;
            }
            self.rows.end = self.rows.start + (self.more)();
        }
        add_to(&mut self.sums[0], &sums, panels);
        finish(&certified, &within)
    }

    /// Adds rows of `W` elements, or of as many as there are sums where that is 0.
    #[inline(always)]
    fn add<const NATIVE: bool, const W: usize>(self) -> Option<u64> {
        let Self { leaf, mut rows, more, rule, limits, certified, sums } = self;
        let width = if W == 0 { sums.len() } else { W };
        let mut columns = Aligned([[T::default(); PANEL]; MOST]);
        let columns = &mut columns.0[..width];
        let mut room = Aligned([[T::default(); PANEL]; MOST]);
        let mut halves = Aligned([[0.0; PANEL]; 16]);
        let mut state = State {
            within: [0; PANEL],
            certified: [u64::MAX; PANEL],
            settled: 0,
            are_far: false,
            has_ties: false,
            needs_integers: T::SQUARES_FIT,
            sums: [[0; PANEL / 2]; MOST],
        };
        let mut few = Few::new(rule, &limits, &certified, width);
        let mut panels = 0_u64;
        while !rows.is_empty() {
            for first in rows.clone().step_by(PANEL) {
                // SAFETY: the leaf has these rows, and as many columns as there are sums.
                unsafe { turn::panel::<T, W>(leaf, first, columns, &mut room.0) };
                panels += 1;
                if W > 0 && few.add::<T, NATIVE, W>(columns, &mut state) {
                    continue;
                }
                let mut panel = Panel {
                    columns,
                    rule,
                    limits: &limits,
                    certified: &certified,
                    halves: &mut halves.0,
                    state: &mut state,
                };
                if W == 0 {
                    panel.add::<NATIVE>();
                } else {
                    dispatch::run_native(rule.isa, panel);
                }
            }
            rows.end = rows.start + more();
        }
        for (sum, more) in sums.iter_mut().zip(&state.sums) {
            add_to(sum, more, panels);
        }
        finish(&state.certified, &state.within).map(|within| within + state.settled)
    }
}

/// A panel of few columns, on its way into sums.
struct Panel<'a, T> {
    columns: &'a [Turned<T>],
    rule: &'a Rule,
    limits: &'a Limits,
    certified: &'a Certified,
    halves: &'a mut Halves,
    state: &'a mut State,
}

impl<T: Element> Kernel for Panel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) {
        self.add::<NATIVE>();
    }
}

impl<T: Element> Panel<'_, T> {
    #[inline(always)]
    fn add<const NATIVE: bool>(&mut self) {
        let Self { columns, rule, limits, certified, halves, state } = self;
        // What overflows is measured again: where that is known, there is no need to see it.
        let are_far = !T::SQUARES_FIT && state.are_far && settle::are_far(columns);
        let totals = if are_far {
            [f64::INFINITY; PANEL]
        } else {
            across::squares::<T, NATIVE, false>(columns, &[1.0; PANEL], halves)
        };
        let totals = Aligned(totals);
        let mut decided = limits.decide(&totals.0, &[u64::MAX; PANEL]);
        let mut is_open = 0;
        for r in 0..PANEL {
            state.within[r] = state.within[r].wrapping_sub(decided.clear[r]);
            is_open |= decided.open[r];
        }
        let mut settled = None;
        state.are_far = false;
        if is_open != 0 {
            let settle = Settle {
                rule,
                limits,
                totals: &totals.0,
                columns,
                decided: &mut decided,
                halves,
                expects_ties: state.has_ties,
            };
            let found = settled.insert(dispatch::run(rule.isa, settle));
            (state.are_far, state.has_ties) = (found.are_far, found.has_ties);
            state.settled += found.within;
        }
        let (scales, close) = match &settled {
            Some(settled) => (Some(&settled.scales), settled.close),
            None => (None, [0; PANEL]),
        };
        let (mut products, mut squares) = (Aligned([0.0; PANEL]), Aligned([0_u64; PANEL]));
        let with_integers = settled.is_some() && state.needs_integers;
        for (column, sums) in columns.iter().zip(&mut state.sums) {
            let values = add::<T, NATIVE>(column, &decided, scales, &mut products.0, sums);
            if with_integers {
                add_squares(&values, &mut squares.0);
            }
        }
        let (mut sure, mut missing) = ([0; PANEL], 0);
        for r in 0..PANEL {
            sure[r] = mask(products.0[r] <= certified.products);
            missing |= close[r] & !sure[r];
        }
        if missing != 0 {
            if !with_integers {
                for column in columns.iter() {
                    let mut values = integers::<T, NATIVE>(column, &decided, scales);
                    values.iter_mut().for_each(|v| *v += SHIFT);
                    add_squares(&values, &mut squares.0);
                }
            }
            for r in 0..PANEL {
                let exact = mask(products.0[r] <= MOST_PRODUCTS) & mask(squares.0[r] <= certified.integers);
                // mutant: rows-of-panels-at-bound-certified-without-integers
                sure[r] |= close[r] & exact;
            }
        }
        if is_open != 0 {
            state.needs_integers = missing != 0;
        }
        for r in 0..PANEL {
            state.certified[r] &= sure[r];
        }
    }
}

/// Adds integers of so many panels, each of which carries [`SHIFT`].
#[inline(always)]
fn add_to(sum: &mut i64, integers: &[u64], panels: u64) {
    let shifts = SHIFT.to_bits().wrapping_mul(PANEL as u64).wrapping_mul(panels);
    let mut total = 0_u64.wrapping_sub(shifts);
    for k in integers {
        total = total.wrapping_add(*k);
    }
    *sum = sum.wrapping_add(total.cast_signed());
}

/// Returns how many rows were within the bound, if all were certified.
#[inline(always)]
fn finish(certified: &Mask, within: &Mask) -> Option<u64> {
    let (mut all, mut sum) = (u64::MAX, 0_u64);
    for r in 0..PANEL {
        all &= certified[r];
        sum = sum.wrapping_add(within[r]);
    }
    (all == u64::MAX).then_some(sum)
}

/// Returns the integers of a column.
#[inline(always)]
fn integers<T: Element, const NATIVE: bool>(column: &Turned<T>, decided: &Decided, scales: Option<&Vector>) -> Vector {
    let mut values = [0.0; PANEL];
    for r in 0..PANEL {
        values[r] = f64::from_bits(column[r].widen().to_bits() & decided.masks[r]);
    }
    if let Some(scales) = scales
        && !T::SQUARES_FIT
    {
        for r in 0..PANEL {
            values[r] *= scales[r];
        }
    }
    for r in 0..PANEL {
        values[r] = truncate::<NATIVE>(values[r] * decided.factors[r]);
    }
    values
}

/// Adds the integers of a column, and their squares to `products`; returns them, added to [`SHIFT`].
#[inline(always)]
fn add<T: Element, const NATIVE: bool>(
    column: &Turned<T>,
    decided: &Decided,
    scales: Option<&Vector>,
    products: &mut Vector,
    sums: &mut [u64; PANEL / 2],
) -> Vector {
    let mut values = integers::<T, NATIVE>(column, decided, scales);
    for r in 0..PANEL {
        let v = values[r];
        products[r] = if NATIVE { v.mul_add(v, products[r]) } else { products[r] + v * v };
    }
    for v in &mut values {
        *v += SHIFT;
    }
    for r in 0..PANEL / 2 {
        sums[r] = sums[r].wrapping_add(values[r].to_bits()).wrapping_add(values[r + PANEL / 2].to_bits());
    }
    values
}

/// Adds the squares of integers that were added to [`SHIFT`], modulo 2⁶⁴.
#[inline(always)]
fn add_squares(integers: &Vector, squares: &mut Mask) {
    for r in 0..PANEL {
        let k = integers[r].to_bits().wrapping_sub(SHIFT.to_bits());
        squares[r] = squares[r].wrapping_add(k.wrapping_mul(k));
    }
}

#[cfg(test)]
mod tests;
