//! The comparisons that decide most rows, for a vector of rows at once: the operations of [`super::decide`] where a row's case is
//! plain. Rows near the bound, or with sums of squares out of the trusted range, stay open.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use super::decide::Rule;
use crate::clip::kernels::lanes::mask;
use crate::clip::source::element::Element;
use crate::isa::dispatch::Kernel;

/// Rows that are decided at once.
pub(in crate::clip) const DECIDED_ROWS: usize = 16;

/// A number for each of them.
pub(in crate::clip) type Vector = [f64; DECIDED_ROWS];

/// A bit pattern for each: all bits for yes, none for no.
pub(in crate::clip) type Mask = [u64; DECIDED_ROWS];

/// Numbers that a row's sum of squares is compared with, and of which its factor is made.
#[derive(Clone, Copy)]
pub(in crate::clip) struct Limits {
    /// From where on to where a sum is trusted.
    pub(in crate::clip) low: f64,
    pub(in crate::clip) high: f64,
    /// Sums up to this are not those of elements that are not finite: only a NaN gives a NaN, and large squares of `f64`
    /// infinity.
    pub(in crate::clip) finite: f64,
    pub(in crate::clip) below: f64,
    pub(in crate::clip) above: f64,
    pub(in crate::clip) bound: f64,
    pub(in crate::clip) shrink: f64,
    /// Whether rows within the bound are kept.
    pub(in crate::clip) keeps: u64,
    pub(in crate::clip) gamma: f64,
    pub(in crate::clip) steps_per_unit: f64,
}

pub(in crate::clip) struct Decide<'a> {
    pub(in crate::clip) limits: Limits,
    pub(in crate::clip) totals: &'a [Vector],
    pub(in crate::clip) factors: &'a mut [Vector],
    pub(in crate::clip) masks: &'a mut [Mask],
    pub(in crate::clip) open: &'a mut [Mask],
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
            for r in 0..DECIDED_ROWS {
                any |= decided.open[r];
                within = within.wrapping_sub(decided.clear[r]);
            }
            (*factors, *masks, *open) = (decided.factors, decided.masks, decided.open);
        }
        (within, any != 0)
    }
}

/// What is decided about a panel.
#[repr(align(64))]
pub(in crate::clip) struct Decided<const N: usize> {
    /// Of rows that are not open.
    pub(in crate::clip) factors: [f64; N],
    /// Rows that do not count as zero.
    pub(in crate::clip) masks: [u64; N],
    /// Rows that are certainly within the bound.
    pub(in crate::clip) clear: [u64; N],
    /// Rows that the plain comparisons leave open.
    pub(in crate::clip) open: [u64; N],
}

impl Limits {
    /// Returns those of a rule. Elements become integers after a multiplication by `steps_per_unit`, a power of two.
    pub(in crate::clip) fn new<T: Element>(rule: &Rule, steps_per_unit: f64) -> Self {
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
        }
    }

    /// Decides a panel, of which these rows exist.
    #[inline(always)]
    pub(in crate::clip) fn decide<const N: usize>(&self, totals: &[f64; N], exist: &[u64; N]) -> Decided<N> {
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
}
