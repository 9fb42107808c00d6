//! Rows of two to four columns: all that is done with a panel of them is one loop over its rows.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use super::state::{Certified, State, add};
use crate::clip::across::{Aligned, Limits};
use crate::clip::close::{Cut, Edge};
use crate::clip::columns::mask;
use crate::clip::decide::Rule;
use crate::clip::element::Element;
use crate::clip::quantize::{SHIFT, truncate};
use crate::clip::settle::{self, Far, INFINITE, MOST_PRODUCTS, SMALLER, smaller};
use crate::clip::turn::{ROWS, Turned};
use crate::dispatch::{self, Kernel};

/// What rows are decided by, besides their sums of squares: nothing.
pub(super) const PLAIN: u8 = 0;

/// Sums of twice the precision, for rows near the bound.
pub(super) const NEAR: u8 = 1;

/// Sums of squares of elements brought near 1, for rows of `f64` whose squares leave the trusted range.
pub(super) const FAR: u8 = 2;

/// Nothing but their largest magnitudes: all integers are zeros.
pub(super) const NOTHING: u8 = 3;

/// Sums of squares of smaller elements, for rows that all have one of 2⁵⁰⁰ or more.
pub(super) const LARGE: u8 = 4;

/// The bits of 2⁵⁰⁰ times [`SMALLER`].
const SMALLER_LARGE: i64 = (1023 - 100) << 52;

/// What a panel of few columns is decided by.
pub(super) struct Few<'a> {
    rule: &'a Rule,
    limits: &'a Limits,
    certified: &'a Certified,
    edge: Option<Edge>,
    /// What the panel before was decided by.
    last: u8,
    /// So many panels are not tried: those before were left open.
    pause: u8,
}

/// Which rows of a panel are left open, and whether there are any that the plain sum would leave so.
#[derive(Clone, Copy)]
struct Left {
    near: bool,
    far: bool,
    helped: bool,
}

impl<'a> Few<'a> {
    /// Returns what panels of so many columns are decided by.
    pub(super) fn new(rule: &'a Rule, limits: &'a Limits, certified: &'a Certified, columns: usize) -> Self {
        let edge = Cut::new(rule.power, rule.bound).map(|cut| cut.edge(columns, columns));
        Self { rule, limits, certified, edge, last: PLAIN, pause: 0 }
    }

    /// Adds a panel of `W` columns; `false`, and nothing is added, if rows of several kinds are open, or ties.
    ///
    /// What one panel was decided by is tried first with the next.
    #[inline(always)]
    pub(super) fn add<T: Element, const NATIVE: bool, const W: usize>(
        &mut self,
        columns: &[Turned<T>],
        state: &mut State,
    ) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        // Without the instruction, a fused multiply-add takes longer than the exact sum.
        let tells_near = (T::SQUARES_FIT || NATIVE) && self.edge.is_some();
        let tells_far = !T::SQUARES_FIT && self.limits.keeps != 0;
        let mut by = self.last;
        for _ in 0..6 {
            let left = match by {
                // Apart: the compiler would do all three and choose.
                NEAR if T::SQUARES_FIT || NATIVE => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, NEAR> { few: self, columns, state })
                }
                FAR if !T::SQUARES_FIT => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, FAR> { few: self, columns, state })
                }
                LARGE if !T::SQUARES_FIT => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, LARGE> { few: self, columns, state })
                }
                NOTHING if !T::SQUARES_FIT => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, NOTHING> { few: self, columns, state })
                }
                _ => self.try_to_add::<T, NATIVE, W, PLAIN>(columns, state),
            };
            by = match left {
                Left { near: false, far: false, helped } => {
                    self.last = match (helped, by) {
                        (false, _) => PLAIN,
                        // Squares of 0: such rows are sooner told by their magnitudes.
                        (true, PLAIN) if tells_far => NOTHING,
                        (true, by) => by,
                    };
                    return true;
                }
                Left { near: true, far: false, .. } if by != NEAR && tells_near => NEAR,
                Left { near: false, far: true, .. } if by != FAR && tells_far => match by {
                    NOTHING => LARGE,
                    LARGE => FAR,
                    _ => NOTHING,
                },
                _ => break,
            };
        }
        (self.last, self.pause) = (PLAIN, 8);
        false
    }

    /// Decides a panel, and adds it unless some row is left open.
    #[inline(always)]
    fn try_to_add<T: Element, const NATIVE: bool, const W: usize, const BY: u8>(
        &self,
        columns: &[Turned<T>],
        state: &mut State,
    ) -> Left {
        let columns: &[Turned<T>; W] = columns.first_chunk().expect("as many columns");
        let Limits { low, high, finite, below, above, bound, shrink, keeps, gamma, steps_per_unit } = *self.limits;
        let [within_again, beyond_again] = [self.rule.budget.below(), self.rule.budget.above()];
        let edge = if BY == NEAR { self.edge.expect("rows near the bound are told") } else { Edge::default() };
        let (mut within, mut certified, mut missing) = (Aligned([0; ROWS]), Aligned([0; ROWS]), 0);
        let mut products = Aligned([0.0; ROWS]);
        let (mut close, mut integers) = (Aligned([0; ROWS]), Aligned([[0; ROWS]; W]));
        let (mut any, mut near, mut far, mut helped, mut squared) = (0, 0, 0, 0, 0);
        for r in 0..ROWS {
            let mut x = [0.0; W];
            for c in 0..W {
                x[c] = columns[c][r].widen();
                // mutant: large-rows-of-few-columns-lose-power-of-two
                x[c] = if BY == LARGE { x[c] * SMALLER } else { x[c] };
            }
            let squares = scaled_squares(&x, 1.0);
            let plain = fold(&squares);
            let trusted = mask(plain >= low) & mask(plain <= high);
            let mut clear = mask(plain <= below) & (mask(plain >= low) | (mask(plain == 0.0) & keeps));
            let mut beyond = mask(plain >= above) & mask(plain <= high);
            let mut exists = mask(plain <= finite);
            let (mut total, mut scale) = (plain, 1.0_f64);
            if BY == FAR {
                let mut largest = 0;
                for c in 0..W {
                    largest = largest.max(x[c].abs().to_bits().cast_signed());
                }
                exists = mask(largest < INFINITE);
                let power = smaller(largest);
                let again = fold(&scaled_squares(&x, power));
                let limit = (bound * power) * (bound * power);
                clear = (clear & trusted) | (mask(again <= limit * within_again) & !trusted);
                beyond = (beyond & trusted) | (mask(again >= limit * beyond_again) & !trusted);
                total = select(trusted, plain, again);
                // mutant: far-rows-of-few-columns-lose-power-of-two
                scale = select(trusted | !beyond, 1.0, power);
                helped |= !trusted & mask(plain != 0.0);
            }
            if BY == LARGE {
                let mut largest = 0;
                for c in 0..W {
                    largest = largest.max(x[c].abs().to_bits().cast_signed());
                }
                beyond = mask(largest >= SMALLER_LARGE) & mask(largest < INFINITE);
                (clear, exists) = (0, u64::MAX);
                helped |= beyond;
            }
            if BY == PLAIN && !T::SQUARES_FIT {
                squared |= plain.to_bits();
            }
            let mut open = exists & !(clear | beyond);
            if BY == NEAR {
                let (mut sum_high, mut sum_low, mut zeros, mut size) = (0.0, 0.0, 0_u64, 0.0);
                for c in 0..W {
                    let (high, low) = edge.cut::<T>(x[c]);
                    sum_high += high;
                    sum_low += low;
                    zeros = zeros.wrapping_sub(mask(x[c] == 0.0));
                    size += x[c].abs();
                }
                // The norm of a row with one element is that element's magnitude.
                // mutant: rows-of-few-columns-told-by-their-magnitude
                let single = mask(zeros + 1 >= W as u64);
                let (shorter, longer) = edge.tell(sum_high, sum_low);
                let shorter = (shorter & !single) | (mask(size <= bound) & single);
                let longer = (longer & !single) | (mask(size > bound) & single);
                let told = open & trusted;
                helped |= told;
                clear |= told & shorter;
                beyond |= told & longer;
                close.0[r] = told & shorter & keeps;
                open &= !(clear | beyond);
            }
            any |= open;
            if BY != PLAIN {
                near |= if BY == LARGE { 0 } else { open & trusted };
                far |= if BY == LARGE { open } else { open & !trusted };
            }
            let kept = clear & keeps;
            let factor = bound / (total.sqrt() + gamma) * shrink * steps_per_unit;
            // mutant: rows-of-few-columns-multiplied-by-nan
            let factor = f64::from_bits(((factor.to_bits() & !kept) | (steps_per_unit.to_bits() & kept)) & exists);
            // Squares of 0 are of elements far below a step: their products would be subnormal.
            let counts = exists & mask(plain != 0.0);
            let mut sum = 0.0;
            for c in 0..W {
                let v = f64::from_bits(x[c].to_bits() & counts);
                let v = truncate::<NATIVE>(if BY == FAR { v * scale * factor } else { v * factor });
                sum = if NATIVE { v.mul_add(v, sum) } else { sum + v * v };
                integers.0[c][r] = (v + SHIFT).to_bits();
            }
            within.0[r] = clear;
            certified.0[r] = mask(sum <= self.certified.products);
            if BY == NEAR {
                products.0[r] = sum;
                missing |= close.0[r] & !certified.0[r];
            }
        }
        if any != 0 {
            let (near, far) = if BY == PLAIN { self.kinds::<T, W>(columns) } else { (near != 0, far != 0) };
            return Left { near, far, helped: true };
        }
        state.panels += 1;
        for r in 0..ROWS {
            state.within[r] = state.within[r].wrapping_sub(within.0[r]);
        }
        if BY == NEAR && missing != 0 {
            for r in 0..ROWS {
                let mut squares = 0_u64;
                for c in 0..W {
                    let k = integers.0[c][r].wrapping_sub(SHIFT.to_bits());
                    squares = squares.wrapping_add(k.wrapping_mul(k));
                }
                let exact = mask(products.0[r] <= MOST_PRODUCTS) & mask(squares <= self.certified.integers);
                certified.0[r] |= close.0[r] & exact;
            }
        }
        for r in 0..ROWS {
            state.certified[r] &= certified.0[r];
        }
        for (sums, integers) in state.sums.iter_mut().zip(&integers.0) {
            // Or a vector would hold one row's integers, gathered.
            add(core::hint::black_box(sums), integers);
        }
        let helped = if BY == PLAIN { squared == 0 } else { helped != 0 };
        Left { near: false, far: false, helped }
    }

    /// Returns whether rows near the bound are open, and rows whose squares leave the trusted range.
    #[cold]
    #[inline(never)]
    fn kinds<T: Element, const W: usize>(&self, columns: &[Turned<T>; W]) -> (bool, bool) {
        let Limits { low, high, finite, below, above, keeps, .. } = *self.limits;
        let (mut near, mut far) = (0, 0);
        for r in 0..ROWS {
            let mut x = [0.0; W];
            for c in 0..W {
                x[c] = columns[c][r].widen();
            }
            let total = fold(&scaled_squares(&x, 1.0));
            if total >= low && total <= high {
                near |= mask(total > below && total < above);
            } else {
                far |= mask(total <= finite) & !(mask(total == 0.0) & keeps);
            }
        }
        (near != 0, far != 0)
    }
}

/// A panel that is tried in a function of its own.
struct Apart<'a, T, const W: usize, const BY: u8> {
    few: &'a Few<'a>,
    columns: &'a [Turned<T>],
    state: &'a mut State,
}

impl<T: Element, const W: usize, const BY: u8> Kernel for Apart<'_, T, W, BY> {
    type Output = Left;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> Left {
        if BY != NOTHING {
            return self.few.try_to_add::<T, NATIVE, W, BY>(self.columns, self.state);
        }
        match settle::far(self.columns) {
            Far::Nothing { within } => {
                self.state.settled += within;
                Left { near: false, far: false, helped: true }
            }
            _ => Left { near: false, far: true, helped: true },
        }
    }
}

/// Returns the squares of elements that are multiplied by a power of two first.
#[inline(always)]
fn scaled_squares<const W: usize>(x: &[f64; W], scale: f64) -> [f64; W] {
    let mut squares = [0.0; W];
    for c in 0..W {
        let x = x[c] * scale;
        squares[c] = x * x;
    }
    squares
}

/// Returns the sum of squares as lanes are folded: in halves, the first of four a zero where there are three.
#[inline(always)]
fn fold<const W: usize>(squares: &[f64; W]) -> f64 {
    match squares[..] {
        [a, b] => a + b,
        [a, b, c] => b + (a + c),
        [a, b, c, d] => (a + c) + (b + d),
        _ => squares[0],
    }
}

/// Returns one of two numbers.
#[inline(always)]
fn select(yes: u64, first: f64, second: f64) -> f64 {
    f64::from_bits((first.to_bits() & yes) | (second.to_bits() & !yes))
}
