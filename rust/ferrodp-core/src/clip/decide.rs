//! What becomes of a row: kept, scaled, or counted as zero.
//!
//! The sum of powers decides where it is certain; within rounding error of the bound an exact sum does, so that a row of
//! norm at most `C` is always kept and a longer one never. Rows of `f64` whose squares leave the normal range are
//! measured again, multiplied by a power of two that brings the largest magnitude near 1.

use core::cmp::Ordering;

use super::element::Element;
use super::error_budget::ErrorBudget;
use super::measure::{Power, add_powers, largest_magnitude};
use crate::isa::Isa;
use crate::math::exact_sum::ExactSum;
use crate::params::{exp2, floor_log2};

/// Sums of powers of `f64` are trusted between these: no square that matters underflows, no partial sum overflows.
const TRUSTED: core::ops::RangeInclusive<f64> = 1.183e-271..=1.071e301; // inside 2^-900 … 2^1000

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// Its norm is at most the bound: unchanged. `close` tells that it took exact arithmetic to see that.
    Keep { close: bool },
    /// Its norm is greater: every element is multiplied by `scale`, a power of two, and then by `factor`.
    Shrink { scale: f64, factor: f64 },
    /// Some element is not finite: the row counts as zero.
    Zero,
}

/// What becomes of a row, and its norm: NaN if an element is not finite, infinite if beyond `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) norm: f64,
    pub(super) fate: Fate,
}

/// The rule that rows are measured against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) isa: Isa,
    pub(super) power: Power,
    pub(super) bound: f64,
    pub(super) budget: ErrorBudget,
}

impl Rule {
    /// Returns what becomes of the row in `leaves`, whose sum of powers by [`add_powers`] is `total`.
    ///
    /// A kept row has norm ≤ `bound` exactly, and `close` is false only if its norm is below `bound` by the margin of
    /// the error budget. For a shrunk one the products in `f64`, rounded to nearest, form a row of norm ≤ `bound` in
    /// exact arithmetic.
    pub(super) fn decide<'a, T: Element>(&self, total: f64, leaves: impl Iterator<Item = &'a [T]> + Clone) -> Decision {
        if T::SQUARES_FIT && !total.is_finite() {
            return Decision { norm: f64::NAN, fate: Fate::Zero };
        }
        if T::SQUARES_FIT || TRUSTED.contains(&total) {
            return self.compare(total, 1.0, leaves);
        }
        let largest = leaves.clone().fold(0.0, |a: f64, leaf| a.max(largest_magnitude(self.isa, leaf)));
        if !largest.is_finite() {
            return Decision { norm: f64::NAN, fate: Fate::Zero };
        }
        if largest == 0.0 {
            return Decision { norm: 0.0, fate: Fate::Keep { close: false } };
        }
        let scale = exp2((-floor_log2(largest)).clamp(-1022, 1023));
        let mut total = [0.0];
        for leaf in leaves.clone() {
            add_powers(self.isa, self.power, leaf, leaf.len(), scale, &mut total);
        }
        self.compare(total[0], scale, leaves)
    }

    /// Decides a row whose elements times `scale` have the finite sum of powers `total`.
    ///
    /// The bound times `scale` may underflow only for rows with a largest element of 1 or more, or overflow only for
    /// rows with elements below 2; both comparisons come out right as they stand.
    fn compare<'a, T: Element>(&self, total: f64, scale: f64, leaves: impl Iterator<Item = &'a [T]>) -> Decision {
        let norm = self.power.root(total);
        let bound = self.power.of(self.bound * scale);
        let decision = |fate| Decision { norm: norm / scale, fate };
        if total <= bound * self.budget.below() {
            return decision(Fate::Keep { close: false });
        }
        if total < bound * self.budget.above() && self.exceeds(leaves) != Ordering::Greater {
            return decision(Fate::Keep { close: true });
        }
        decision(Fate::Shrink { scale, factor: self.bound / norm * self.budget.shrink() })
    }

    /// Compares the norm of a row with the bound, exactly.
    fn exceeds<'a, T: Element>(&self, leaves: impl Iterator<Item = &'a [T]>) -> Ordering {
        let (mut row, mut bound) = (ExactSum::new(), ExactSum::new());
        let add = match self.power {
            Power::First => ExactSum::add_magnitude,
            Power::Second => ExactSum::add_square,
        };
        leaves.flatten().for_each(|x| add(&mut row, x.widen()));
        add(&mut bound, self.bound);
        row.cmp(&bound)
    }
}
