//! Rows of a panel that the plain comparisons leave open: within rounding error of the bound, or of `f64` whose squares leave
//! the range in which sums are trusted. What is done is what [`super::decide`] does, for all of them at once; a row that is
//! open even then goes there.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use super::across::{Aligned, Decided, Halves, Limits, squares};
use super::close::{Cut, Near};
use super::columns::{Mask, PANEL, Vector, mask};
use super::decide::{Decision, Fate, Rule};
use super::element::Element;
use super::turn::{MOST, Turned};
use crate::dispatch::Kernel;

/// The bits of infinity; those of magnitudes of what is finite are below.
const INFINITE: u64 = f64::INFINITY.to_bits();

/// Decides the rows of a panel that are open; their factors and masks are written to `decided`.
pub(super) struct Settle<'a, T> {
    pub(super) rule: &'a Rule,
    pub(super) limits: &'a Limits,
    pub(super) totals: &'a Vector,
    pub(super) columns: &'a [Turned<T>],
    pub(super) decided: &'a mut Decided,
    pub(super) halves: &'a mut Halves,
}

/// What is known besides of a panel with rows that were open.
#[repr(align(64))]
pub(super) struct Settled {
    /// What elements are multiplied by first, powers of two.
    pub(super) scales: Vector,
    /// Rows whose certificate is the sum of squares of their integers.
    pub(super) close: Mask,
}

impl<T: Element> Kernel for Settle<'_, T> {
    /// And how many of them are within the bound.
    type Output = (Settled, u64);

    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) -> (Settled, u64) {
        let mut settled = Settled { scales: [1.0; PANEL], close: [0; PANEL] };
        let mut within = 0;
        if !T::SQUARES_FIT && self.limits.keeps != 0 {
            within += self.measure_again::<NATIVE>(&mut settled);
        }
        // Without the instruction, a fused multiply-add takes longer than the exact sum.
        if (T::SQUARES_FIT || NATIVE)
            && let Some(cut) = Cut::new(self.rule.power, self.rule.bound)
        {
            within += self.measure_closely(cut, &mut settled);
        }
        let mut any = 0;
        for r in 0..PANEL {
            any |= self.decided.open[r];
        }
        if any != 0 {
            within += self.decide_each(&mut settled);
        }
        (settled, within)
    }
}

impl<T: Element> Settle<'_, T> {
    /// Returns the open rows whose sums of squares are trusted, or those that are not.
    #[inline(always)]
    fn open(&self, trusted: bool) -> (Mask, bool) {
        let (mut rows, mut any) = ([0; PANEL], 0);
        for r in 0..PANEL {
            let inside = mask(self.totals[r] >= self.limits.low) & mask(self.totals[r] <= self.limits.high);
            rows[r] = self.decided.open[r] & if trusted { inside } else { !inside };
            any |= rows[r];
        }
        (rows, any != 0)
    }

    /// Decides rows whose squares leave the trusted range: measured again, with a largest magnitude near 1.
    #[inline(always)]
    fn measure_again<const NATIVE: bool>(&mut self, settled: &mut Settled) -> u64 {
        let (far, any) = self.open(false);
        if !any {
            return 0;
        }
        let Limits { bound, shrink, steps_per_unit, .. } = *self.limits;
        let mut largest = Aligned([0_u64; PANEL]);
        for column in self.columns {
            for r in 0..PANEL {
                largest.0[r] = largest.0[r].max(column[r].widen().abs().to_bits());
            }
        }
        let mut scales = Aligned([1.0; PANEL]);
        for r in 0..PANEL {
            // 2^-e for a largest magnitude of 2^e or more, e at least -1023, and at most 1022 counts.
            let exponent = (2046_u64.wrapping_sub(largest.0[r] >> 52)).clamp(1, 2046);
            scales.0[r] = f64::from_bits(if largest.0[r] < INFINITE { exponent << 52 } else { 1.0_f64.to_bits() });
        }
        let totals = Aligned(squares::<T, NATIVE, true>(self.columns, &scales.0, self.halves));
        let mut within = 0_u64;
        let (below, above) = (self.rule.budget.below(), self.rule.budget.above());
        for r in 0..PANEL {
            let (total, scale) = (totals.0[r], scales.0[r]);
            let limit = (bound * scale) * (bound * scale);
            let finite = mask(largest.0[r] < INFINITE);
            let clear = mask(total <= limit * below) & finite;
            let beyond = mask(total >= limit * above) & finite;
            let told = far[r] & (clear | beyond | !finite) & mask(largest.0[r] != 0);
            let factor = bound / total.sqrt() * shrink * steps_per_unit;
            let factor = ((factor.to_bits() & beyond) | (steps_per_unit.to_bits() & clear)) & told;
            self.decided.factors[r] = f64::from_bits((self.decided.factors[r].to_bits() & !told) | factor);
            settled.scales[r] =
                f64::from_bits((scale.to_bits() & told & beyond) | (1.0_f64.to_bits() & !(told & beyond)));
            self.decided.masks[r] &= finite | !told;
            self.decided.open[r] &= !told;
            within = within.wrapping_sub(told & clear);
        }
        within
    }

    /// Decides rows near the bound by sums of twice the precision.
    #[inline(always)]
    fn measure_closely(&mut self, cut: Cut, settled: &mut Settled) -> u64 {
        let (near, any) = self.open(true);
        if !any {
            return 0;
        }
        let mut sums = Aligned(Near::default());
        for column in self.columns {
            sums.0.add::<T>(column, cut);
        }
        let told = cut.tell_panel(&sums.0, self.columns.len(), self.columns.len());
        let mut within = 0_u64;
        let (steps, keeps) = (self.limits.steps_per_unit.to_bits(), self.limits.keeps);
        for r in 0..PANEL {
            let shorter = near[r] & told.told[r] & !told.longer[r];
            // A longer one has its factor.
            let kept = shorter & keeps;
            self.decided.factors[r] = f64::from_bits((self.decided.factors[r].to_bits() & !kept) | (steps & kept));
            settled.close[r] = kept;
            self.decided.open[r] &= !(near[r] & told.told[r]);
            within = within.wrapping_sub(shorter);
        }
        within
    }

    /// Decides the rows that are left, and returns how many of them are within the bound.
    #[inline(never)]
    fn decide_each(&mut self, settled: &mut Settled) -> u64 {
        let mut count = 0;
        for r in (0..PANEL).filter(|r| self.decided.open[*r] != 0) {
            let mut row = [T::default(); MOST];
            row.iter_mut().zip(self.columns).for_each(|(x, column)| *x = column[r]);
            let row = core::iter::once(&row[..self.columns.len()]);
            let Decision { fate, within, .. } = self.rule.decide(self.totals[r], row);
            let steps_per_unit = self.limits.steps_per_unit;
            (settled.scales[r], self.decided.factors[r], self.decided.masks[r], settled.close[r]) = match fate {
                Fate::Zero => (1.0, 0.0, 0, 0),
                Fate::Keep { close } => (1.0, steps_per_unit, u64::MAX, mask(close)),
                // mutant: open-rows-of-panels-lose-power-of-two
                Fate::Shrink { scale, factor } => (scale, factor * steps_per_unit, u64::MAX, 0),
            };
            count += u64::from(within);
        }
        count
    }
}
