//! Rows of two to four columns: what is done with a panel of them stays in registers, as far as it can.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use super::state::{Certified, SUMS, State, add};
use crate::clip::across::{INFINITE, Limits};
use crate::clip::close::Edge;
use crate::clip::columns::mask;
use crate::clip::decide::Rule;
use crate::clip::element::Element;
use crate::clip::quantize::{SHIFT, square, truncate};
use crate::clip::settle::{self, Far, MOST_PRODUCTS, SMALLER};
use crate::clip::turn::{ROWS, Turned};
use crate::dispatch::{self, Kernel};

/// What rows are decided by, besides their sums of squares: nothing.
pub(super) const PLAIN: u8 = 0;

/// Sums of twice the precision, for rows that are all of finite elements and not zeros, some of them near the bound.
pub(super) const NEAR: u8 = 1;

/// The same for any rows near the bound, and magnitudes of rows with one element.
pub(super) const MIXED: u8 = 2;

/// Nothing but their largest magnitudes: all integers are zeros.
pub(super) const NOTHING: u8 = 3;

/// Sums of squares of smaller elements, for rows that all have one of 2⁵⁰⁰ or more.
pub(super) const LARGE: u8 = 4;

/// The bits of 2⁵⁰⁰ times [`SMALLER`].
const SMALLER_LARGE: i64 = (1023 - 100) << 52;

/// Panels of few columns that are turned before the first of them is added.
pub(super) const PANELS: usize = 16;

/// Whether rows near the bound are told.
const fn tells_near(by: u8) -> bool {
    matches!(by, NEAR | MIXED)
}

/// What rows of few columns are decided by.
pub(super) struct Few<'a> {
    rule: &'a Rule,
    limits: &'a Limits,
    certified: &'a Certified,
    edge: Option<&'a Edge>,
    /// What the panel before was decided by.
    last: u8,
    /// So many panels need not be tried: those before were left open.
    pub(super) pause: usize,
}

/// Which rows of a panel are left open, and whether there are any that the plain sum would leave so.
#[derive(Clone, Copy)]
struct Left {
    near: bool,
    far: bool,
    helped: bool,
}

impl<'a> Few<'a> {
    /// Returns what rows are decided by.
    pub(super) const fn new(
        rule: &'a Rule,
        limits: &'a Limits,
        certified: &'a Certified,
        edge: Option<&'a Edge>,
    ) -> Self {
        Self { rule, limits, certified, edge, last: PLAIN, pause: 0 }
    }

    /// Adds panels of `W` columns, up to one with rows that are open in several ways, or ties. Returns how many.
    ///
    /// What one panel was decided by is tried first with the next.
    #[inline(always)]
    pub(super) fn add<T: Element, const NATIVE: bool, const W: usize>(
        &mut self,
        panels: &[[Turned<T>; W]],
        state: &mut State,
    ) -> usize {
        // Without the instruction, a fused multiply-add takes longer than the exact sum.
        let can_tell_near = (T::SQUARES_FIT || NATIVE) && self.edge.is_some();
        let tells_far = !T::SQUARES_FIT && self.limits.keeps != 0;
        let (mut done, mut tries) = (0, 0);
        // Of types whose squares fit, rows near the bound are rare, and one piece of code tells all of them.
        let near = if T::SQUARES_FIT { MIXED } else { NEAR };
        self.last = if self.last == MIXED { near } else { self.last };
        let all = panels.len();
        while done < all {
            let (few, panels, by) = (&*self, &panels[done..], self.last);
            let (added, left) = match by {
                // Apart: the compiler would do all three and choose.
                NEAR if !T::SQUARES_FIT && NATIVE => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, NEAR> { few, panels, state })
                }
                MIXED if T::SQUARES_FIT || NATIVE => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, MIXED> { few, panels, state })
                }
                LARGE if !T::SQUARES_FIT => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, LARGE> { few, panels, state })
                }
                NOTHING if !T::SQUARES_FIT => {
                    dispatch::run_native(self.rule.isa, Apart::<'_, T, W, NOTHING> { few, panels, state })
                }
                _ => dispatch::run_native(self.rule.isa, Apart::<'_, T, W, PLAIN> { few, panels, state }),
            };
            done += added;
            tries = if added == 0 { tries + 1 } else { 0 };
            self.last = match left {
                _ if done == all => match (left.helped, by) {
                    (false, _) => PLAIN,
                    // Squares of 0: such rows are sooner told by their magnitudes.
                    (true, PLAIN) if tells_far => NOTHING,
                    (true, by) => by,
                },
                Left { far: false, .. } if by == NEAR => MIXED,
                Left { near: true, far: false, .. } if by != MIXED && can_tell_near && tries < 6 => near,
                Left { near: false, far: true, .. } if by != LARGE && tells_far && tries < 6 => {
                    if by == NOTHING {
                        LARGE
                    } else {
                        NOTHING
                    }
                }
                _ => {
                    (self.last, self.pause) = (PLAIN, 8);
                    break;
                }
            };
        }
        done
    }

    /// Adds panels up to the first with a row that is left open. Returns how many, and what is left.
    ///
    /// While the CPU is busy with the roots and quotients of a panel, it adds the one before.
    #[inline(always)]
    fn add_by<T: Element, const NATIVE: bool, const W: usize, const BY: u8>(
        &self,
        panels: &[[Turned<T>; W]],
        state: &mut State,
    ) -> (usize, Left) {
        let mut sums = Sums { within: 0, helped: 0, certified: [u64::MAX; SUMS], sums: [[0; SUMS]; W] };
        let mut factors = [Rows([0.0; ROWS]), Rows([0.0; ROWS])];
        let mut left = Left { near: false, far: false, helped: false };
        let mut done = 0;
        if tells_near(BY) {
            sums.helped = u64::from(panels.first().is_some_and(|panel| self.is_near(panel)));
        }
        // Each of the two steps has one place in the code: they are long.
        loop {
            let (now, before) = (done % 2, (done + 1) % 2);
            let is_decided =
                panels.get(done).is_some_and(|panel| self.decide::<T, W, BY>(panel, &mut factors[now].0, &mut sums));
            if let Some(added) = done.checked_sub(1) {
                sums.add::<T, NATIVE, BY>(&panels[added], &factors[before].0, self);
            }
            if !is_decided {
                break;
            }
            done += 1;
        }
        if let Some(panel) = panels.get(done) {
            left = self.kinds(panel);
        }
        for i in 0..SUMS {
            state.certified[i] &= sums.certified[i];
        }
        for (sums, more) in state.few.iter_mut().zip(&sums.sums) {
            for i in 0..SUMS {
                sums[i] = sums[i].wrapping_add(more[i]);
            }
        }
        state.panels += done as u64;
        state.settled += sums.within;
        left.helped = if BY == PLAIN { !T::SQUARES_FIT && sums.helped == 0 } else { sums.helped != 0 };
        (done, left)
    }

    /// Decides a panel; `false` if a row is left open.
    #[inline(always)]
    fn decide<T: Element, const W: usize, const BY: u8>(
        &self,
        columns: &[Turned<T>; W],
        factors: &mut Turned<f64>,
        sums: &mut Sums<W>,
    ) -> bool {
        let Limits { low, high, finite, below, above, bound, shrink, keeps, gamma, steps_per_unit, .. } = *self.limits;
        let edge = if tells_near(BY) { *self.edge.expect("rows near the bound are told") } else { Edge::default() };
        // Without any rows that are kept, no difference is as small.
        let kept_from = if keeps == 0 { f64::INFINITY } else { edge.margin };
        let (mut any, mut within, mut helped) = (0, 0_u64, 0);
        for r in 0..ROWS {
            let mut x = [0.0; W];
            for c in 0..W {
                x[c] = columns[c][r].widen();
                x[c] = if BY == LARGE { x[c] * SMALLER } else { x[c] };
            }
            let plain = fold(&squares(&x));
            let trusted = mask(plain >= low) & mask(plain <= high);
            let mut clear = mask(plain <= below) & (mask(plain >= low) | (mask(plain == 0.0) & keeps));
            let mut beyond = mask(plain >= above) & mask(plain <= high);
            let mut exists = mask(plain <= finite);
            if BY == PLAIN && !T::SQUARES_FIT {
                helped |= plain.to_bits();
            }
            if BY == NEAR {
                let difference = edge.difference::<T, W>(&x);
                // Of masks alone, the compiler makes no vectors here.
                any |= (plain.to_bits() | 1) & !(mask(difference.abs() > edge.margin) & trusted);
                within = within.wrapping_sub(mask(difference < -edge.margin));
                let kept = mask(difference < -kept_from);
                let factor = bound / (plain.sqrt() + gamma) * shrink * steps_per_unit;
                factors[r] = select(kept, steps_per_unit, factor);
                continue;
            }
            if BY == MIXED {
                let difference = edge.difference::<T, W>(&x);
                let mut others = 0_u64;
                for c in 0..W {
                    others = others.wrapping_sub(mask(x[c] != 0.0));
                }
                // A row with one element has the sums of the bound if its magnitude is the bound. If it is not, the squares differ
                // by at least 2⁻⁵³ of the bound's, which is far above the margin.
                // mutant: rows-of-few-columns-told-by-their-magnitude
                let tie = mask(others < 2) & mask(difference.abs() <= edge.margin);
                let shorter = mask(difference < -edge.margin) | tie;
                clear = shorter & (mask(plain >= low) | (mask(plain == 0.0) & keeps));
                beyond = mask(difference > edge.margin) & mask(plain <= high);
            }
            if BY == LARGE {
                let mut largest = 0;
                for c in 0..W {
                    largest = largest.max(x[c].abs().to_bits().cast_signed());
                }
                beyond = mask(largest >= SMALLER_LARGE) & mask(largest < INFINITE);
                (clear, exists, helped) = (0, u64::MAX, 1);
            }
            any |= exists & !(clear | beyond);
            within = within.wrapping_sub(clear);
            let kept = clear & keeps;
            // Squares of 0 are of elements far below a step: their products would be subnormal.
            let counts = exists & mask(plain != 0.0);
            let factor = bound / (plain.sqrt() + gamma) * shrink * steps_per_unit;
            let factor = (factor.to_bits() & !kept) | (steps_per_unit.to_bits() & kept);
            // mutant: rows-of-few-columns-multiplied-by-nan
            factors[r] = f64::from_bits(factor & counts);
        }
        if any != 0 {
            return false;
        }
        sums.within += within;
        sums.helped |= helped;
        true
    }

    /// Returns whether a panel has rows near the bound.
    #[inline(always)]
    fn is_near<T: Element, const W: usize>(&self, columns: &[Turned<T>; W]) -> bool {
        let Limits { below, above, .. } = *self.limits;
        let mut near = 0;
        for r in 0..ROWS {
            let mut x = [0.0; W];
            for c in 0..W {
                x[c] = columns[c][r].widen();
            }
            let total = fold(&squares(&x));
            // Of masks alone, the compiler makes no vectors here.
            near |= total.to_bits() & mask(total > below) & mask(total < above);
        }
        near != 0
    }

    /// Returns whether a panel has rows near the bound, and rows whose squares leave the trusted range.
    #[cold]
    #[inline(never)]
    fn kinds<T: Element, const W: usize>(&self, columns: &[Turned<T>; W]) -> Left {
        let Limits { low, high, finite, below, above, keeps, .. } = *self.limits;
        let (mut near, mut far) = (0, 0);
        for r in 0..ROWS {
            let mut x = [0.0; W];
            for c in 0..W {
                x[c] = columns[c][r].widen();
            }
            let total = fold(&squares(&x));
            if total >= low && total <= high {
                near |= mask(total > below && total < above);
            } else {
                far |= mask(total <= finite) & !(mask(total == 0.0) & keeps);
            }
        }
        Left { near: near != 0, far: far != 0, helped: true }
    }
}

/// A number for each row of a panel.
#[repr(align(64))]
struct Rows<T>(Turned<T>);

/// What panels come to.
#[repr(align(64))]
struct Sums<const W: usize> {
    within: u64,
    helped: u64,
    certified: [u64; SUMS],
    sums: [[u64; SUMS]; W],
}

impl<const W: usize> Sums<W> {
    /// Adds a panel that was decided. A factor of zero is that of a row that counts as zero.
    #[inline(always)]
    fn add<T: Element, const NATIVE: bool, const BY: u8>(
        &mut self,
        columns: &[Turned<T>; W],
        factors: &Turned<f64>,
        few: &Few<'_>,
    ) {
        let most = few.certified.products;
        let mut products = [0.0; ROWS];
        for c in 0..W {
            let mut values = [0.0; ROWS];
            for r in 0..ROWS {
                let x = f64::from_bits(columns[c][r].widen().to_bits() & mask(factors[r] != 0.0));
                // mutant: large-rows-of-few-columns-lose-power-of-two
                let x = if BY == LARGE { x * SMALLER } else { x };
                values[r] = truncate::<NATIVE>(x * factors[r]);
            }
            for r in 0..ROWS {
                let v = values[r];
                products[r] = if NATIVE { v.mul_add(v, products[r]) } else { products[r] + v * v };
                values[r] = v + SHIFT;
            }
            add(&mut self.sums[c], &values);
        }
        let (mut sure, mut missing) = ([0; ROWS], 0);
        for r in 0..ROWS {
            sure[r] = mask(products[r] <= most);
            missing |= !sure[r];
        }
        if tells_near(BY) && missing != 0 {
            let products = Rows(products);
            let by_integers = ByIntegers { columns, factors, products: &products.0, few };
            sure = dispatch::run_native(few.rule.isa, by_integers).0;
        }
        for i in 0..SUMS {
            for r in (i..ROWS).step_by(SUMS) {
                self.certified[i] &= sure[r];
            }
        }
    }
}

/// Which rows of a panel are certified, by the sum of squares of their integers where they are kept.
struct ByIntegers<'a, T, const W: usize> {
    columns: &'a [Turned<T>; W],
    factors: &'a Turned<f64>,
    products: &'a Turned<f64>,
    few: &'a Few<'a>,
}

impl<T: Element, const W: usize> Kernel for ByIntegers<'_, T, W> {
    type Output = Rows<u64>;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> Rows<u64> {
        let Self { columns, factors, products, few } = self;
        let Limits { steps_per_unit, keeps, .. } = *few.limits;
        let mut sure = Rows([0; ROWS]);
        for r in 0..ROWS {
            let mut squares = 0_u64;
            for c in 0..W {
                let v = truncate::<NATIVE>(columns[c][r].widen() * steps_per_unit) + SHIFT;
                let k = v.to_bits().wrapping_sub(SHIFT.to_bits());
                squares = squares.wrapping_add(square(k.cast_signed()));
            }
            let kept = mask(factors[r] == steps_per_unit) & keeps;
            let exact = mask(products[r] <= MOST_PRODUCTS) & mask(squares <= few.certified.integers);
            // mutant: rows-of-few-columns-at-bound-certified-without-integers
            sure.0[r] = mask(products[r] <= few.certified.products) | (kept & exact);
        }
        sure
    }
}

/// Panels that are tried in a function of their own.
struct Apart<'a, T, const W: usize, const BY: u8> {
    few: &'a Few<'a>,
    panels: &'a [[Turned<T>; W]],
    state: &'a mut State,
}

impl<T: Element, const W: usize, const BY: u8> Kernel for Apart<'_, T, W, BY> {
    type Output = (usize, Left);

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> (usize, Left) {
        if BY != NOTHING {
            return self.few.add_by::<T, NATIVE, W, BY>(self.panels, self.state);
        }
        for (k, panel) in self.panels.iter().enumerate() {
            match settle::far(panel) {
                Far::Nothing { within } => self.state.settled += within,
                _ => return (k, Left { near: false, far: true, helped: true }),
            }
        }
        (self.panels.len(), Left { near: false, far: false, helped: true })
    }
}

/// Returns the squares of elements.
#[inline(always)]
fn squares<const W: usize>(x: &[f64; W]) -> [f64; W] {
    let mut squares = [0.0; W];
    for c in 0..W {
        squares[c] = x[c] * x[c];
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
