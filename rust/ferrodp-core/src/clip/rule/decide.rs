//! What becomes of a row: kept, scaled, or counted as zero; and whether it was within the bound.
//!
//! The sum of powers decides where it is certain; within rounding error of the bound an exact sum does, so that a row of
//! norm at most `C` is always kept and a longer one never. Rows of `f64` whose sums leave the range in which they are
//! trusted are measured again, multiplied by a power of two that brings the largest magnitude near 1.

use core::cmp::Ordering;

use super::clip_norm::Stability;
use super::error_budget::ErrorBudget;
use super::near_bound;
use crate::clip::kernels::measure::{Power, add_powers, largest_magnitude};
use crate::clip::source::element::Element;
use crate::isa::Isa;
use crate::math::exact_sum::ExactSum;
use crate::params::{exp2, floor_log2};

impl Power {
    /// Returns between which numbers a sum of powers of `f64` is trusted as it stands.
    ///
    /// Three things have to hold there, for every bound `C` that [`Element::CLIP_EXPONENTS`] admits, `2⁻⁵⁰⁰ ≤ C < 2⁵⁰⁰`:
    ///
    /// 1. *No partial sum overflows*: the largest one is the total.
    /// 2. *No power that matters underflows.* Magnitudes are added without any error where sums are subnormal. A square
    ///    below 2⁻¹⁰²² is off by at most 2⁻¹⁰⁷⁵; 2⁴⁵ of them are less than 2⁻¹²⁸ of a total of 2⁻⁹⁰².
    /// 3. *The factor of a longer row is a normal number*, so that its roundings are relative ones, which the error budget
    ///    pays for. The norm is at most 2⁵⁰⁰ in the range of either power, and the factor at least `C/norm/2 ≥ 2⁻¹⁰⁰¹`.
    ///
    /// Beyond, rows are measured again with a largest magnitude of 1 to 4. Then sums of up to 2⁴⁵ powers stay below 2⁴⁹,
    /// what underflows is off by 2⁻¹⁰⁷⁵ against a total of at least 1, and factors are at least 2⁻⁵⁵⁰.
    ///
    /// Products of the factor and an element may underflow in either case: they are off by at most 2⁻¹⁰⁷⁵ each, all together
    /// by 2⁻¹⁰³⁰ in either norm, and the slack of the factor, more than `148u·C`, is at least 2⁻⁵⁴⁶. An element that the
    /// power of two makes subnormal is off by as little, before a factor that is at most `C`.
    fn trusted(self) -> core::ops::RangeInclusive<f64> {
        match self {
            // mutant: sums-of-magnitudes-trusted
            Self::First => 0.0..=3.273e150,         // inside 0 … 2^500
            Self::Second => 1.183e-271..=1.071e301, // inside 2^-900 … 2^1000
        }
    }
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::clip) enum Fate {
    /// Its norm is at most the bound: unchanged. `near` says that it took exact arithmetic to see that.
    Keep { near: bool },
    /// Its norm is greater, or rows are normalized: every element is multiplied by `scale`, a power of two, and then by
    /// `factor`.
    Shrink { scale: f64, factor: f64 },
    /// Some element is not finite: the row counts as zero.
    Zero,
}

/// What becomes of a row, its norm, which is NaN if an element is not finite and infinite if beyond `f64`, and whether
/// that is at most the bound, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::clip) struct Decision {
    pub(in crate::clip) norm: f64,
    pub(in crate::clip) within: bool,
    pub(in crate::clip) fate: Fate,
}

impl Decision {
    /// Some element is not finite: the row has no norm and is within no bound.
    // mutant: rows-not-finite-count-as-within-bound
    pub(in crate::clip) const NOT_FINITE: Self = Self { norm: f64::NAN, within: false, fate: Fate::Zero };
}

/// The rule that rows are measured against.
#[derive(Clone, Copy, Debug)]
pub(in crate::clip) struct Rule {
    pub(in crate::clip) isa: Isa,
    pub(in crate::clip) power: Power,
    pub(in crate::clip) bound: f64,
    /// `γ`, for rows that are normalized: longer and shorter ones alike become `bound·x / (‖x‖ + γ)`.
    pub(in crate::clip) stability: Option<Stability>,
    pub(in crate::clip) budget: ErrorBudget,
}

impl Rule {
    /// Returns between which numbers a sum of powers of elements of type `T` is trusted as it stands.
    pub(in crate::clip) fn trusted<T: Element>(&self) -> (f64, f64) {
        if T::SQUARES_FIT { (0.0, f64::MAX) } else { self.power.trusted().into_inner() }
    }

    /// Whether a sum of powers of elements of type `T` is not trusted, so that they are looked at again.
    pub(in crate::clip) fn is_far<T: Element>(&self, total: f64) -> bool {
        let (low, high) = self.trusted::<T>();
        !(total >= low && total <= high)
    }

    /// Whether a trusted sum of powers is so near to that of the bound that the elements are looked at again.
    pub(in crate::clip) fn is_near(&self, total: f64) -> bool {
        let bound = self.power.of(self.bound);
        total > bound * self.budget.below() && total < bound * self.budget.above()
    }

    /// Returns what becomes of the row in `leaves`, whose sum of powers by [`add_powers`] is `total`.
    ///
    /// A row is within the bound, and kept unless rows are normalized, if and only if its norm is ≤ `bound` exactly;
    /// `near` is false only if its norm is below `bound` by the margin of the error budget. For a shrunk one the
    /// products in `f64`, rounded to nearest, form a row of norm ≤ `bound` in exact arithmetic.
    #[inline]
    pub(in crate::clip) fn decide<'a, T: Element>(
        &self,
        total: f64,
        leaves: impl Iterator<Item = &'a [T]> + Clone,
    ) -> Decision {
        if T::SQUARES_FIT && !total.is_finite() {
            return Decision::NOT_FINITE;
        }
        // mutant: squares-that-overflow-not-formed-again
        if T::SQUARES_FIT || self.power.trusted().contains(&total) {
            return self.compare(total, 1.0, leaves);
        }
        let largest = largest_magnitude(self.isa, leaves.clone());
        if largest.is_nan() {
            return Decision::NOT_FINITE;
        }
        if largest == 0.0 {
            return Decision { norm: 0.0, within: true, fate: Fate::Keep { near: false } };
        }
        let scale = scale_of(largest);
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
    #[inline]
    fn compare<'a, T: Element>(
        &self,
        total: f64,
        scale: f64,
        leaves: impl Iterator<Item = &'a [T]> + Clone,
    ) -> Decision {
        let norm = self.power.root(total);
        let bound = self.power.of(self.bound * scale);
        // mutant: rows-within-millionth-of-bound-not-clipped
        let clear = total <= bound * self.budget.below();
        // mutant: row-near-the-bound
        let within = clear || (total < bound * self.budget.above() && self.exceeds(leaves) != Ordering::Greater);
        self.decision(norm, scale, clear, within)
    }

    #[inline]
    fn decision(&self, norm: f64, scale: f64, clear: bool, within: bool) -> Decision {
        let fate = match self.stability {
            // mutant: short-rows-not-normalized
            Some(stability) => self.shrunk(norm, scale, stability.value()),
            None if within => Fate::Keep { near: !clear },
            None => self.shrunk(norm, scale, 0.0),
        };
        Decision { norm: norm / scale, within, fate }
    }

    /// Returns how a row whose elements times `scale` have norm `norm` is multiplied by `bound / (‖x‖ + stability)`,
    /// rounded down.
    ///
    /// *With stability γ*, 2⁻⁵⁰⁰ ≤ γ < 2⁵⁰⁰. A row that would be scaled up has norm < 2⁻⁴⁵⁰ and is taken as it is: its
    /// norm is off by 2⁻¹⁰⁷⁵ at most besides, and γ is larger by 2⁵⁷⁴. Where a row is scaled down, γ times the scale may
    /// lose as much, and the norm it is added to is at least 1. So the denominator, one rounding more than the norm, is
    /// from 2⁻⁵⁰⁰ to 2⁵⁰², and the factor, from 2⁻¹⁰⁰³ to 2¹⁰⁰⁰, a normal number. What its products with the elements may
    /// lose is in [`Power::trusted`]. Since ‖x‖ < ‖x‖ + γ, their norm is below the bound wherever it is without γ.
    #[inline]
    fn shrunk(&self, norm: f64, scale: f64, stability: f64) -> Fate {
        let up = stability > 0.0 && scale > 1.0;
        let (norm, scale) = if up { (norm / scale, 1.0) } else { (norm, scale) };
        // mutant: normalized-rows-forget-stability
        let factor = self.bound / (norm + stability * scale) * self.budget.shrink();
        debug_assert!(factor.is_normal(), "{} / ({norm} + {stability})", self.bound);
        Fate::Shrink { scale, factor }
    }

    /// Compares the norm of a row, whose sum of powers is near that of the bound, with the bound, exactly.
    #[inline(never)]
    fn exceeds<'a, T: Element>(&self, leaves: impl Iterator<Item = &'a [T]> + Clone) -> Ordering {
        near_bound::compare(self.isa, self.power, leaves.clone(), self.bound)
            .unwrap_or_else(|| self.exceeds_by_exact_sum(leaves))
    }

    fn exceeds_by_exact_sum<'a, T: Element>(&self, leaves: impl Iterator<Item = &'a [T]>) -> Ordering {
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

/// Returns the power of two that brings a finite magnitude other than 0 near 1.
fn scale_of(largest: f64) -> f64 {
    exp2((-floor_log2(largest)).clamp(-1022, 1023))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide<T: Element>(row: &[T], bound: f64, power: Power) -> Decision {
        decide_on(Isa::best(), row, bound, power)
    }

    fn decide_on<T: Element>(isa: Isa, row: &[T], bound: f64, power: Power) -> Decision {
        let budget = ErrorBudget::new([row.len()].into_iter());
        let mut total = [0.0];
        add_powers(isa, power, row, row.len(), 1.0, &mut total);
        Rule { isa, power, bound, stability: None, budget }.decide(total[0], [row].into_iter())
    }

    #[test]
    fn rows_at_the_bound_are_kept_and_the_next_ones_are_not() {
        for power in [Power::First, Power::Second] {
            for bound in [1.0, 3.0_f64.next_up(), 1e-100, 1e100, 1e150, 1e-150] {
                let fate = |x: f64| decide(&[0.0, x, 0.0], bound, power).fate;

                assert_eq!(Fate::Keep { near: true }, fate(bound));
                assert_eq!(Fate::Keep { near: true }, fate(-bound.next_down()));
                assert!(matches!(fate(bound.next_up()), Fate::Shrink { factor, .. } if factor < 1.0));
                assert_eq!(Fate::Keep { near: false }, fate(bound * (1.0 - 1e-12)));
            }
        }
    }

    #[test]
    fn ties_are_broken_by_the_last_bit_of_any_element() {
        let tiny = f64::from_bits(1);

        assert_eq!(Fate::Keep { near: true }, decide(&[0.5; 4], 1.0, Power::Second).fate);
        assert_eq!(Fate::Keep { near: true }, decide(&[0.25_f32; 4], 1.0, Power::First).fate);
        assert!(matches!(decide(&[0.5, 0.5, 0.5, 0.5, tiny], 1.0, Power::Second).fate, Fate::Shrink { .. }));
        assert!(matches!(decide(&[0.5, 0.5, tiny], 1.0, Power::First).fate, Fate::Shrink { .. }));
        assert!(matches!(decide(&[0.5_f32, 0.5, 0.5, 0.5, 1e-45], 1.0, Power::Second).fate, Fate::Shrink { .. }));
    }

    /// Rows around both ends of both ranges, and bounds at both ends of theirs: what is shrunk is within the bound in
    /// exact arithmetic, and its factor is a normal number.
    #[test]
    fn at_the_ends_of_the_trusted_ranges_no_shrunk_row_is_too_long() {
        let ends =
            |low: i32, high: i32| [exp2(low), exp2(low).next_up() * 1.7, exp2(high).next_down(), exp2(high) * 0.6];
        let mut shrunk = 0;
        for power in [Power::First, Power::Second] {
            let (low, high) = (power.trusted().start().max(exp2(-1074)), *power.trusted().end());
            let mut sizes = vec![f64::MAX, 1e308, 6.7e300, exp2(1000), exp2(522), exp2(523), 1.0, exp2(-499)];
            for end in [power.root(low), power.root(high)] {
                sizes.extend([end / 3.0, end * 0.999, end.next_down(), end, end.next_up(), end * 1.001, end * 3.0]);
            }
            for bound in ends(-500, 500) {
                for &size in &sizes {
                    for row in [vec![size], vec![0.7 * size, -0.3 * size, exp2(-1074)], vec![size / 40.0; 40]] {
                        for isa in Isa::available() {
                            let Fate::Shrink { scale, factor } = decide_on(isa, &row, bound, power).fate else {
                                continue;
                            };
                            let out: Vec<f64> = row.iter().map(|x| x * scale * factor).collect();

                            let budget = ErrorBudget::new([row.len()].into_iter());
                            let rule = Rule { isa, power, bound, stability: None, budget };
                            assert_ne!(
                                Ordering::Greater,
                                rule.exceeds_by_exact_sum([&out[..]].into_iter()),
                                "{bound:e}, {row:?}"
                            );
                            assert!(factor.is_normal());
                            shrunk += 1;
                        }
                    }
                }
            }
        }
        assert!(shrunk > 300, "{shrunk}");
    }

    #[test]
    fn rows_whose_squares_leave_the_range_are_scaled_by_a_power_of_two() {
        for (row, scale) in [([1e200, 0.0], exp2(-664)), ([1e308, f64::MAX], exp2(-1022)), ([2e160, 1.0], exp2(-532))] {
            let Fate::Shrink { scale: found, factor } = decide(&row, 1.0, Power::Second).fate else {
                panic!("a long row is shrunk");
            };

            assert_eq!(scale, found);
            let norm = row.iter().map(|x| x * scale * factor).fold(0.0, f64::hypot);
            assert!((norm - 1.0).abs() < 1e-12, "{norm}");
        }
        let tiny = decide(&[1e-200, -5e-324], 1.0, Power::Second);
        assert_eq!(Decision { norm: 1e-200, within: true, fate: Fate::Keep { near: false } }, tiny);
    }
}
