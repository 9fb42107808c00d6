//! How the rows of a tile are added, given their sums of squares, and whether what was added is certified.
//!
//! Most rows are decided by [`super::limits`]. The rest, near the bound or with squares out of the trusted range, is decided in one
//! place, [`ClipRule::step`], whatever kernel met them.

use super::clip_norm::{ClipNorm, Stability};
use super::decide::{Decision, Fate, Rule};
use super::error_budget::ErrorBudget;
use super::limits::{DECIDED_ROWS, Decide, Limits, Mask, Vector};
use crate::clip::kernels::add_rows::{Certificate, Step};
use crate::clip::kernels::lanes::mask;
use crate::clip::kernels::measure::Power;
use crate::clip::source::element::Element;
use crate::clip::source::plain::{self, Piece};
use crate::isa::Isa;
use crate::isa::dispatch;

/// Floating-point sums of squares of up to 2⁶¹ prove that every integer was formed exactly and that the sum of their squares in 64 bits
/// has not wrapped.
const MAX_EXACT_PRODUCTS: f64 = 2_305_843_009_213_693_952.0;

/// The rule that rows are measured against, and the norm that they are clipped to.
#[derive(Clone, Copy)]
pub(in crate::clip) struct ClipRule {
    pub(in crate::clip) rule: Rule,
    pub(in crate::clip) clip: ClipNorm,
}

/// What is known of the rows of a tile. The same one serves tile after tile.
#[derive(Default)]
pub(in crate::clip) struct TileState {
    totals: Vec<Vector>,
    factors: Vec<Vector>,
    masks: Vec<Mask>,
    open: Vec<Mask>,
    pub(in crate::clip) steps: Vec<Step>,
    pub(in crate::clip) certificates: Vec<Certificate>,
}

impl TileState {
    /// Begins with so many rows, and returns their sums of squares: zeros.
    pub(in crate::clip) fn begin(&mut self, rows: usize) -> &mut [f64] {
        let vectors = rows.div_ceil(DECIDED_ROWS);
        self.totals.clear();
        self.totals.resize(vectors, [0.0; DECIDED_ROWS]);
        self.factors.resize(vectors, [0.0; DECIDED_ROWS]);
        self.masks.resize(vectors, [0; DECIDED_ROWS]);
        self.open.resize(vectors, [0; DECIDED_ROWS]);
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

impl ClipRule {
    /// Returns the rule for rows with that error budget.
    pub(in crate::clip) fn new(isa: Isa, clip: ClipNorm, stability: Option<Stability>, budget: ErrorBudget) -> Self {
        Self { rule: Rule { isa, power: Power::Second, bound: clip.value(), stability, budget }, clip }
    }

    /// Returns the numbers that sums of squares are compared with.
    pub(in crate::clip) fn limits<T: Element>(&self) -> Limits {
        Limits::new::<T>(&self.rule, self.clip.granularity().reciprocal())
    }

    /// Decides how the rows of a tile are added, now that their sums of squares are known; returns how many are within the clip
    /// norm. The first is row `first` of the pieces.
    pub(in crate::clip) fn decide_tile<T: Element>(
        &self,
        pieces: &[Piece<'_, T>],
        first: usize,
        state: &mut TileState,
    ) -> u64 {
        let TileState { totals, factors, masks, open, steps, certificates } = state;
        let decide = Decide { limits: self.limits::<T>(), totals, factors, masks, open };
        let (mut within, is_any_open) = dispatch::run(self.rule.isa, decide);
        let (totals, factors) = (totals.as_flattened(), factors.as_flattened());
        steps.extend(
            masks.as_flattened()[..certificates.len()]
                .iter()
                .zip(factors)
                .map(|(mask, factor)| if *mask == 0 { Step::Skip } else { Step::Add { scale: 1.0, factor: *factor } }),
        );
        if !is_any_open {
            return within;
        }
        let open = open.as_flattened()[..certificates.len()].iter();
        for (row, _) in open.enumerate().filter(|(_, open)| **open != 0) {
            let (step, is_within) = self.step(totals[row], plain::row(pieces, first + row));
            // mutant: open-rows-all-count-as-within-bound
            within += u64::from(is_within);
            steps[row] = step;
        }
        within
    }

    /// Returns how a row is added, given its sum of squares, and whether it is within the clip norm.
    pub(in crate::clip) fn step<'a, T: Element>(
        &self,
        total: f64,
        leaves: impl Iterator<Item = &'a [T]> + Clone,
    ) -> (Step, bool) {
        // Squares of 0 are of elements far below a step: the row is within every bound, and its integers are zeros.
        if total == 0.0 && self.rule.stability.is_none() {
            return (Step::Skip, true);
        }
        self.step_of(self.rule.decide(total, leaves))
    }

    /// Returns how a row is added of which this was decided, and whether it is within the clip norm.
    fn step_of(&self, Decision { fate, within, .. }: Decision) -> (Step, bool) {
        let steps_per_unit = self.clip.granularity().reciprocal();
        let step = match fate {
            Fate::Zero => Step::Skip,
            Fate::Keep { near: false } => Step::Add { scale: 1.0, factor: steps_per_unit },
            Fate::Keep { near: true } => Step::AddNear { factor: steps_per_unit },
            // A power of two: the product is exact.
            // mutant: rows-beyond-bound-lose-power-of-two
            Fate::Shrink { scale, factor } => Step::Add { scale, factor: factor * steps_per_unit },
        };
        (step, within)
    }

    /// Returns whether the integers of all rows of a tile that were added certainly have norm at most `C/g`.
    pub(in crate::clip) fn are_certified(&self, state: &TileState) -> bool {
        state
            .steps
            .iter()
            .zip(&state.certificates)
            .all(|(step, certificate)| self.is_certified(*step, certificate.products(), certificate.integers()))
    }

    /// Returns whether floating-point sums of squares certify all rows of a panel.
    #[inline(always)]
    pub(in crate::clip) fn are_certified_by<const N: usize>(&self, products: &[f64; N]) -> bool {
        let certified = self.rule.budget.certified(self.clip.in_grid_steps());
        let mut all = u64::MAX;
        for sum in products {
            // mutant: panels-not-certified
            all &= mask(*sum <= certified);
        }
        all == u64::MAX
    }

    /// Returns whether the integers of a row that were added certainly have norm at most `C/g`, given the floating-point sum of squares
    /// of what they were truncated from and, for rows near the bound, the sum of their own squares modulo 2⁶⁴.
    #[inline(always)]
    pub(in crate::clip) fn is_certified(&self, step: Step, products: f64, integers: u64) -> bool {
        match step {
            Step::Skip => true,
            // mutant: rows-added-together-not-certified
            Step::Add { .. } => products <= self.rule.budget.certified(self.clip.in_grid_steps()),
            Step::AddNear { .. } => {
                products <= MAX_EXACT_PRODUCTS
                    // mutant: rows-at-bound-certified-by-products-alone
                    && integers <= self.clip.largest_sum_of_squares()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;
    use core::ops::Range;

    use super::*;
    use crate::clip::{GridSum, Leaf, Rows};

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
    fn panels_with_a_row_beyond_the_bound_are_not_certified() {
        let clip = ClipNorm::new::<f64>(0.9).expect("in range");
        let rule = ClipRule::new(Isa::best(), clip, None, ErrorBudget::new([3].into_iter()));
        let limit = clip.in_grid_steps() * clip.in_grid_steps();
        assert!(rule.are_certified_by(&[0.0, 0.9 * limit]));
        for bad in [limit, f64::INFINITY, f64::NAN] {
            assert!(!rule.are_certified_by(&[0.0, bad]) && !rule.are_certified_by(&[bad, 0.0]));
        }
    }

    #[test]
    fn open_rows_that_are_decided_together_become_what_each_becomes() {
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
                    unsafe { Leaf::strided(start, 1, (width, rows.len() as isize)) }
                };
                let beside = Rows::<f64>::of(vec![leaf(0, cut), leaf(cut, width - cut)], rows.len()).expect("doubles");
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
