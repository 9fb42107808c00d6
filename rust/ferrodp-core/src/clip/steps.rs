//! What becomes of a row that was measured, and whether it became that.

use core::ops::Range;

use super::across::Limits;
use super::clip_norm::ClipNorm;
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

impl Steps {
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

    /// Returns whether the integers that were added certainly have norm at most `C/g`.
    pub(super) fn certified(&self, step: Step, certificate: &Certificate) -> bool {
        match step {
            Step::Skip => true,
            Step::Add { .. } => certificate.products() <= self.rule.budget.certified(self.clip.in_grid_steps()),
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
