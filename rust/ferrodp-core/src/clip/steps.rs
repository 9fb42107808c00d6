//! What becomes of a row that was measured, and whether it became that.

use core::ops::Range;

use super::across::{Decide, Limits};
use super::clip_norm::ClipNorm;
use super::columns::{Mask, PANEL, Vector};
use super::decide::{Decision, Fate, Rule};
use super::element::Element;
use super::narrow::{self, Certified};
use super::quantize::{Certificate, Step};
use super::rows::Strided;
use crate::dispatch;

/// The rule that rows are measured against, and the norm that they are clipped to.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) rule: Rule,
    pub(super) clip: ClipNorm,
}

/// Rows that are measured, decided and added together.
#[derive(Default)]
pub(super) struct Together {
    totals: Vec<Vector>,
    factors: Vec<Vector>,
    masks: Vec<Mask>,
    open: Vec<Mask>,
    /// How many are certainly within the clip norm.
    within: u64,
    pub(super) steps: Vec<Step>,
    pub(super) certificates: Vec<Certificate>,
}

impl Together {
    /// Begins with so many rows, and returns their sums of squares: zeros.
    pub(super) fn begin(&mut self, rows: usize) -> &mut [f64] {
        let panels = rows.div_ceil(PANEL);
        self.totals.clear();
        self.totals.resize(panels, [0.0; PANEL]);
        self.factors.resize(panels, [0.0; PANEL]);
        self.masks.resize(panels, [0; PANEL]);
        self.open.resize(panels, [0; PANEL]);
        self.steps.clear();
        self.certificates.truncate(rows);
        self.certificates.iter_mut().for_each(Certificate::restart);
        self.certificates.resize_with(rows, Certificate::default);
        let exist = self.masks.as_flattened_mut();
        exist[..rows].fill(u64::MAX);
        // mutant: rows-added-together-that-do-not-exist-count
        exist[rows..].fill(0);
        &mut self.totals.as_flattened_mut()[..rows]
    }
}

impl Steps {
    /// Compares these rows with the clip norm, now that their sums of squares are known; returns how many are open.
    pub(super) fn compare<T: Element>(&self, rows: &mut Together) -> usize {
        let Together { totals, factors, masks, open, .. } = rows;
        let limits = Limits::new::<T>(&self.rule, self.clip.granularity().reciprocal());
        let (within, is_any_open) = dispatch::run(self.rule.isa, Decide { limits, totals, factors, masks, open });
        rows.within = within;
        if is_any_open { rows.open.as_flattened().iter().filter(|open| **open != 0).count() } else { 0 }
    }

    /// Tells how these rows are added, and returns how many are within the clip norm: those that are open as `decide` tells,
    /// which is given the index and the sum of squares of a row.
    pub(super) fn decide(rows: &mut Together, mut decide: impl FnMut(usize, f64) -> (Step, bool)) -> u64 {
        let Together { totals, factors, masks, open, steps, certificates, within } = rows;
        let (totals, factors) = (totals.as_flattened(), factors.as_flattened());
        let (masks, open) = (masks.as_flattened(), open.as_flattened());
        steps.extend((0..certificates.len()).map(|row| {
            if open[row] != 0 {
                let (step, is_within) = decide(row, totals[row]);
                // mutant: open-rows-all-count-as-within-bound
                *within += u64::from(is_within);
                step
            } else if masks[row] == 0 {
                Step::Skip
            } else {
                Step::Add { scale: 1.0, factor: factors[row] }
            }
        }));
        *within
    }

    /// Returns whether the integers of all these rows that were added certainly have norm at most `C/g`.
    pub(super) fn are_certified(&self, rows: &Together) -> bool {
        let products = self.rule.budget.certified(self.clip.in_grid_steps());
        rows.steps.iter().zip(&rows.certificates).all(|(step, of)| self.is_certified(*step, of, products))
    }

    /// Returns how a row is added, given its sum of squares, and whether it is within the clip norm.
    ///
    /// `whole` is the row in any division; it is looked at where that does not matter.
    pub(super) fn step<'a, T: Element>(
        &self,
        total: f64,
        leaves: impl Iterator<Item = &'a [T]> + Clone,
        whole: impl Iterator<Item = &'a [T]> + Clone,
    ) -> (Step, bool) {
        // Squares of 0 are of elements far below a step: the row is within every bound, and its integers are zeros.
        if total == 0.0 && self.rule.stability.is_none() {
            return (Step::Skip, true);
        }
        let steps_per_unit = self.clip.granularity().reciprocal();
        let Decision { fate, within, .. } = self.rule.decide_divided(total, leaves, whole);
        let step = match fate {
            Fate::Zero => Step::Skip,
            Fate::Keep { close: false } => Step::Add { scale: 1.0, factor: steps_per_unit },
            Fate::Keep { close: true } => Step::AddClose { factor: steps_per_unit },
            // A power of two: the product is exact.
            // mutant: rows-beyond-bound-lose-power-of-two
            Fate::Shrink { scale, factor } => Step::Add { scale, factor: factor * steps_per_unit },
        };
        (step, within)
    }

    /// Returns whether the integers of a row that were added certainly have norm at most `C/g`.
    pub(super) fn certified(&self, step: Step, certificate: &Certificate) -> bool {
        self.is_certified(step, certificate, self.rule.budget.certified(self.clip.in_grid_steps()))
    }

    /// The same, given the sum of products that proves it.
    #[inline(always)]
    fn is_certified(&self, step: Step, certificate: &Certificate, products: f64) -> bool {
        match step {
            Step::Skip => true,
            // mutant: rows-added-together-not-certified
            Step::Add { .. } => certificate.products() <= products,
            // Below 2^61 the products prove that every integer was formed exactly and that the sum has not wrapped.
            Step::AddClose { .. } => {
                certificate.products() <= 2_305_843_009_213_693_952.0
                    // mutant: rows-at-bound-certified-by-products-alone
                    && certificate.integers() <= self.clip.largest_sum_of_squares()
            }
        }
    }

    /// Adds whole panels of rows of few columns to `sums`, and those that `more` puts in their place, as it tells how many.
    /// Returns how many rows were within the clip norm, if all were certified.
    pub(super) fn add_narrow<T: Element>(
        &self,
        leaf: &Strided<'_, T>,
        rows: Range<usize>,
        more: &mut dyn FnMut() -> usize,
        sums: &mut [i64],
    ) -> Option<u64> {
        let certified = Certified {
            steps: self.clip.in_grid_steps(),
            products: self.rule.budget.certified(self.clip.in_grid_steps()),
            integers: self.clip.largest_sum_of_squares(),
        };
        let rule = &self.rule;
        let limits = Limits::new::<T>(rule, self.clip.granularity().reciprocal());
        dispatch::run_native(rule.isa, narrow::Add { leaf, rows, more, rule, limits, certified, sums })
    }
}
