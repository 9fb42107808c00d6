//! How rows are measured, what becomes of them, and whether they became that.

use core::ops::Range;

use super::across::{Decide, DecideAgain, Limits};
use super::clip_norm::ClipNorm;
use super::close::{self, Cut, Only, Sums};
use super::columns::{Mask, PANEL, Vector};
use super::coming::Coming;
use super::decide::{Decision, Fate, OVERFLOWS, Rule, scale_of};
use super::element::Element;
use super::measure::{self, add_powers, largest_magnitude};
use super::narrow::{self, Certified};
use super::quantize::{Certificate, Step};
use super::rows::{Rows, Strided};
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
    /// Of rows whose squares leave the range of trusted sums: largest magnitudes, the powers of two that bring these near 1, and sums
    /// of squares of elements times that. What else rows are multiplied by first.
    largest: Vec<Vector>,
    powers: Vec<Vector>,
    again: Vec<Vector>,
    /// Whether some of these were decided.
    are_scaled: bool,
    /// How open rows are added, and which of them are within the clip norm, where that was told.
    told: Vec<Option<(Step, bool)>>,
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
        self.are_scaled = false;
        self.largest.clear();
        self.steps.clear();
        self.told.clear();
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

    /// Forms the sums of squares of rows from `first` on. Of `f64`, where squares overflow in the first of them, largest magnitudes tell
    /// sooner that they do in all.
    pub(super) fn measure<T: Element>(&self, rows: &Rows<'_, T>, first: usize, count: usize, together: &mut Together) {
        let isa = self.rule.isa;
        together.begin(count);
        let begin = || rows.row(first).find(|leaf| leaf.len() >= BEGIN).unwrap_or_default();
        if !T::SQUARES_FIT && isa.is_native() && begins_far(begin()) {
            self.find_largest(rows, first, count, together);
            let largest = &together.largest.as_flattened()[..count];
            if largest.iter().all(|x| x.is_nan() || *x >= OVERFLOWS) {
                together.totals.as_flattened_mut()[..count].fill(f64::INFINITY);
                return;
            }
        }
        let totals = &mut together.totals.as_flattened_mut()[..count];
        measure::add_squares(isa, rows, first..first + count, totals);
    }

    /// Finds the largest magnitudes of rows; NaN of those that are not finite.
    fn find_largest<T: Element>(&self, rows: &Rows<'_, T>, first: usize, count: usize, together: &mut Together) {
        let largest = &mut together.largest;
        largest.resize(together.totals.len(), [0.0; PANEL]);
        for (row, largest) in largest.as_flattened_mut()[..count].iter_mut().enumerate() {
            *largest = largest_magnitude(self.rule.isa, rows.row(first + row));
        }
    }

    /// Tells how open rows are added, from row `first` on: many after each other, so that no row waits for what becomes of the
    /// one before.
    pub(super) fn tell_open<T: Element>(&self, rows: &Rows<'_, T>, first: usize, together: &mut Together) {
        let count = together.certificates.len();
        let (open, totals) = (together.open.as_flattened(), together.totals.as_flattened());
        let (mut far, mut near) = (Vec::new(), Vec::with_capacity(count));
        for row in (0..count).filter(|row| open[*row] != 0) {
            if self.rule.is_far::<T>(totals[row]) { far.push(row) } else { near.push(row) }
        }
        let (keeps, steps_per_unit) = (self.rule.stability.is_none(), self.clip.granularity().reciprocal());
        together.told.resize(count, None);
        for (row, is_longer) in near.iter().zip(self.are_longer(rows, first, &near, totals)) {
            together.told[*row] = is_longer.map(|is_longer| {
                // As of any longer row, its factor is known.
                // mutant: told-rows-added-as-longer-ones
                let adds = is_longer || !keeps;
                let add = Step::Add { scale: 1.0, factor: together.factors.as_flattened()[*row] };
                (if adds { add } else { Step::AddClose { factor: steps_per_unit } }, !is_longer)
            });
        }
        if far.is_empty() {
            return;
        }
        if together.largest.is_empty() {
            self.find_largest(rows, first, count, together);
        }
        let Together { largest, powers, again, .. } = &mut *together;
        powers.clear();
        powers.resize(largest.len(), [1.0; PANEL]);
        again.clear();
        again.resize(largest.len(), [0.0; PANEL]);
        for far in far {
            let (largest, power) = (largest.as_flattened()[far], &mut powers.as_flattened_mut()[far]);
            if largest.is_finite() && largest != 0.0 {
                *power = scale_of(largest);
                let total = core::slice::from_mut(&mut again.as_flattened_mut()[far]);
                for leaf in rows.row(first + far) {
                    add_powers(self.rule.isa, self.rule.power, leaf, leaf.len(), *power, total);
                }
            }
        }
        let limits = Limits::new::<T>(&self.rule, steps_per_unit);
        let Together { totals, factors, masks, open, largest, again, powers: scales, .. } = &mut *together;
        let decide = DecideAgain { limits, totals, largest, again, scales, factors, masks, open };
        together.within += dispatch::run_short(self.rule.isa, decide);
        together.are_scaled = true;
    }

    /// Returns which of these rows near the clip norm are longer, where the magnitude of their only element or sums of twice the
    /// precision tell that.
    fn are_longer<T: Element>(
        &self,
        rows: &Rows<'_, T>,
        first: usize,
        near: &[usize],
        totals: &[f64],
    ) -> Vec<Option<bool>> {
        let Rule { isa, power, bound, .. } = self.rule;
        let look = |look: &mut dyn FnMut(&[T], usize)| {
            rows.leaves().iter().for_each(|leaf| look(leaf.rows(first..rows.count()), leaf.width));
        };
        // One sum of squares for all is that of one element each, sooner than of roundings.
        if near.len() > 1 && near.iter().all(|row| totals[*row] == totals[near[0]]) {
            let mut only = vec![Only::default(); near.len()];
            look(&mut |data, width| close::find_only(isa, data, width, near, &mut only));
            if only.iter().all(|only| only.size().is_some()) {
                return only.into_iter().map(|only| only.size().map(|size| size > bound)).collect();
            }
        }
        let Some(cut) = Cut::new(power, bound) else { return vec![None; near.len()] };
        let mut sums = vec![Sums::NONE; near.len()];
        look(&mut |data, width| close::add_squares(isa, data, width, near, cut, &mut sums));
        // All of them have as many elements.
        let margins = sums.first().map(|sums| sums.margins(cut));
        sums.into_iter().map(move |sums| sums.is_longer(cut, margins?)).collect()
    }

    /// Tells how these rows are added, and returns how many are within the clip norm: those that are open as `decide` tells,
    /// which is given the index and the sum of squares of a row.
    pub(super) fn decide(rows: &mut Together, mut decide: impl FnMut(usize, f64) -> (Step, bool)) -> u64 {
        let Together { totals, factors, masks, open, powers, are_scaled, steps, certificates, told, within, .. } = rows;
        let (totals, factors) = (totals.as_flattened(), factors.as_flattened());
        let (masks, open) = (masks.as_flattened(), open.as_flattened());
        steps.extend((0..certificates.len()).map(|row| {
            if open[row] != 0 {
                let told = told.get(row).copied().flatten();
                let (step, is_within) = told.unwrap_or_else(|| decide(row, totals[row]));
                // mutant: open-rows-all-count-as-within-bound
                *within += u64::from(is_within);
                step
            } else if masks[row] == 0 {
                Step::Skip
            } else {
                // mutant: far-rows-added-together-lose-power-of-two
                let scale = if *are_scaled { powers.as_flattened()[row] } else { 1.0 };
                Step::Add { scale, factor: factors[row] }
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
        self.of(self.rule.decide_divided(total, leaves, whole))
    }

    /// Returns how a row is added of which this was decided, and whether it is within the clip norm.
    pub(super) fn of(&self, Decision { fate, within, .. }: Decision) -> (Step, bool) {
        let steps_per_unit = self.clip.granularity().reciprocal();
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
        readings: [&Strided<'_, T>; 2],
        rows: Range<usize>,
        more: &mut dyn FnMut() -> Option<(usize, Coming)>,
        sums: &mut [i64],
    ) -> Option<u64> {
        let certified = Certified {
            steps: self.clip.in_grid_steps(),
            products: self.rule.budget.certified(self.clip.in_grid_steps()),
            integers: self.clip.largest_sum_of_squares(),
        };
        let rule = &self.rule;
        let limits = Limits::new::<T>(rule, self.clip.granularity().reciprocal());
        dispatch::run_native(rule.isa, narrow::Add { readings, rows, more, rule, limits, certified, sums })
    }
}

/// Columns that are looked at before all are measured.
const BEGIN: usize = 8;

/// Whether squares of elements overflow where a row begins.
pub(super) fn begins_far<T: Element>(row: &[T]) -> bool {
    row.iter().take(BEGIN).filter(|x| x.widen().abs() >= OVERFLOWS).count() > BEGIN / 2
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::clip::{GridSum, Leaf, Stability};
    use crate::isa::Isa;

    /// Rows near the bound, at it, far from what squares can hold, and not finite.
    fn rows(width: usize) -> Vec<Vec<f64>> {
        let mut rows = Vec::new();
        for seed in 0..40_usize {
            let mut row: Vec<f64> = (0..width).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f64 - 500.0).collect();
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let scale = if seed % 4 == 3 { 1e200 } else { 0.9 / norm };
            row.iter_mut().for_each(|x| *x *= scale);
            match seed % 10 {
                5 => row[seed] = f64::NAN,
                6 | 7 => {
                    row.fill(0.0);
                    row[seed % width] = if seed % 2 == 0 { 0.9 } else { 0.9_f64.next_up() };
                }
                8 => row.fill(1e-170),
                _ => {}
            }
            rows.push(row);
        }
        rows
    }

    /// Rows of one element at the bound each, but every third of one more, which is of another leaf.
    fn of_one_element(width: usize, more: f64) -> Vec<Vec<f64>> {
        let row = |seed: usize| {
            let mut row = vec![0.0; width];
            row[seed % width] = -0.9;
            row[width - 1 - seed % 7] = if seed.is_multiple_of(3) { more } else { 0.0 };
            row
        };
        (0..40).map(row).collect()
    }

    /// Rows whose squares overflow, but the last, and one that is not finite.
    fn far(width: usize, last: f64) -> Vec<Vec<f64>> {
        let mut rows = rows(width);
        for row in &mut rows {
            row.iter_mut().enumerate().for_each(|(i, x)| *x = 1e170 * (1.0 + i as f64));
        }
        rows[17][3] = f64::INFINITY;
        rows[39].fill(last);
        rows
    }

    #[test]
    fn open_rows_that_are_told_together_become_what_each_becomes() {
        let clip = ClipNorm::new::<f64>(0.9).expect("in range");
        let kinds = |width| {
            let rare = [of_one_element(width, 0.0), of_one_element(width, 5e-324), of_one_element(width, 1e-200)];
            [rows(width), far(width, 1e300), far(width, 0.1)].into_iter().chain(rare)
        };
        let sizes = [(200, 200), (203, 77), (256, 100)];
        for (width, cut, rows) in sizes.into_iter().flat_map(|(w, cut)| kinds(w).map(move |rows| (w, cut, rows))) {
            let part = |columns: Range<usize>| -> Vec<f64> {
                rows.iter().flat_map(|row| row[columns.clone()].to_vec()).collect()
            };
            let leaves = [(part(0..cut), cut), (part(cut..width), width - cut)];
            let together =
                Rows::new(leaves.iter().map(|(data, width)| (&data[..], *width)), rows.len()).expect("so many");
            for (isa, stability) in Isa::available().into_iter().flat_map(|isa| [(isa, None), (isa, Some(0.1))]) {
                let stability = stability.map(|gamma| Stability::new::<f64>(gamma).expect("in range"));
                let empty = || GridSum::new(clip, width).expect("memory").normalizing(stability);
                let (mut expected, mut sum) = (empty(), empty());
                for row in &rows {
                    let row = Rows::one(&[&row[..cut], &row[cut..]]);
                    expected.add(isa, &row, NonZeroUsize::MIN).expect("room");
                }

                sum.add(isa, &together, NonZeroUsize::MIN).expect("room");
                // The same rows side by side.
                let columns: Vec<f64> = (0..width).flat_map(|c| rows.iter().map(move |row| row[c])).collect();
                let leaf = |first: usize, width| {
                    let start = columns[first * rows.len()..].as_ptr();
                    // SAFETY: so many columns of so many elements, from there on.
                    Leaf::Strided(unsafe { Strided::new(start, 1, [(width, rows.len() as isize)]) })
                };
                let beside = Rows::of([leaf(0, cut), leaf(cut, width - cut)], rows.len()).expect("so many");
                let mut other = empty();
                other.add(isa, &beside, NonZeroUsize::MIN).expect("room");

                assert_eq!(expected.integers(), sum.integers(), "{isa:?}, {width}");
                assert_eq!(expected.count_within(), sum.count_within(), "{isa:?}, {width}");
                assert_eq!(expected.integers(), other.integers(), "{isa:?}, {width}, side by side");
                assert_eq!(expected.count_within(), other.count_within(), "{isa:?}, {width}, side by side");
            }
        }
    }
}
