//! The sum of clipped rows, in integers.

use core::num::NonZeroUsize;
use std::collections::TryReserveError;

use super::drive::Drive;
use super::rule::clip_norm::{ClipNorm, Stability};
use super::source::difference;
use super::source::element::Float;
use super::source::leaf::Rows;
use super::zeros::zeros;
use crate::error::Error;
use crate::isa::Isa;
use crate::math::float_environment::in_default_environment;

/// `Σᵢ trunc(clip(xᵢ)/g)` over rows `xᵢ`: exact integers, the same in any order of the rows.
///
/// Each row's integers have a norm of at most `C/g` in exact arithmetic, so adding or removing a row moves the sum, in
/// the data's units, by at most `C` in L2 norm. A row with an element that is not finite counts as zero.
#[derive(Debug)]
pub struct GridSum {
    clip: ClipNorm,
    stability: Option<Stability>,
    sums: Vec<i64>,
    count: u64,
    /// How many rows were within the clip norm, unless some came from a sum that did not tell.
    within: Option<u64>,
    /// Rows were added whose norm could not be certified. The sums must not be used.
    broken: bool,
}

impl GridSum {
    /// `|k| < 2³⁰` for every integer of a row, so sums of so many rows stay below 2⁶², and noise has room above.
    // mutant: four-times-as-many-rows-as-fit
    pub const MAX_COUNT: u64 = 1 << 32;

    /// Returns the sum of no rows of `width` elements.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(clip: ClipNorm, width: usize) -> Result<Self, TryReserveError> {
        Ok(Self { clip, stability: None, sums: zeros(width)?, count: 0, within: Some(0), broken: false })
    }

    /// Returns the sum in which every row `x` becomes `C·x / (‖x‖ + stability)`, shorter ones as well: automatic clipping
    /// ([BWZK23] Algorithm 1). A row of zeros stays zeros. `None`: rows within the clip norm are kept.
    #[must_use]
    pub fn normalizing(self, stability: Option<Stability>) -> Self {
        Self { stability, ..self }
    }

    /// Returns the sum with these integers, as [`GridSum::integers`] gave them, and as many rows within the clip norm as
    /// [`GridSum::count_within`] told.
    ///
    /// # Errors
    /// If no `count` rows can have such a sum.
    pub fn from_integers(clip: ClipNorm, integers: Vec<i64>, count: u64, within: Option<u64>) -> Result<Self, Error> {
        check(clip, &integers, count, within)?;
        Ok(Self { clip, stability: None, sums: integers, count, within, broken: false })
    }

    /// The norm that rows are clipped to, and the grid.
    #[must_use]
    pub const fn clip(&self) -> ClipNorm {
        self.clip
    }

    /// How many rows were added, those that count as zero included.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// What rows are normalized with, if they are.
    #[must_use]
    pub const fn stability(&self) -> Option<Stability> {
        self.stability
    }

    /// How many of the rows had norm at most `C`, exactly, before anything was done to them; one with an element that is
    /// not finite had not. `None` if the sum was made from integers without that number.
    #[must_use]
    pub const fn count_within(&self) -> Option<u64> {
        self.within
    }

    /// Elements in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.sums.len()
    }

    /// The sums, in units of the grid. They carry no noise.
    ///
    /// # Errors
    /// [`Error::Mutated`] if an array changed while it was added.
    pub fn integers(&self) -> Result<&[i64], Error> {
        if self.broken { Err(Error::Mutated) } else { Ok(&self.sums) }
    }

    /// Adds rows, on up to `threads` threads.
    ///
    /// # Errors
    /// [`Error::Length`] for rows of another width, [`Error::Capacity`] where sums could overflow, and nothing is added.
    /// [`Error::OutOfMemory`] if there is no memory for a copy of some rows, and nothing is added. [`Error::Mutated`] if a row
    /// changed between its two readings, so that its norm is not certain: this sum is unusable from then on.
    pub fn add<T: Float>(&mut self, isa: Isa, rows: &Rows<'_, T>, threads: NonZeroUsize) -> Result<(), Error> {
        self.add_read_twice(isa, [rows, rows], threads)
    }

    /// Adds what another sum holds.
    ///
    /// # Errors
    /// If the two differ in clip norm, stability or width, would overflow together, or one of them is unusable.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        if self.clip != other.clip {
            return Err(Error::Incompatible { what: "clip_norm" });
        }
        // mutant: sums-of-different-stability-merge
        if self.stability != other.stability {
            return Err(Error::Incompatible { what: "stability" });
        }
        if self.width() != other.width() {
            return Err(Error::Incompatible { what: "length" });
        }
        self.integers()?;
        let theirs = other.integers()?;
        // mutant: merging-forgets-count
        self.count = self.count_with(other.count)?;
        // mutant: merging-forgets-rows-within-bound
        self.within = self.within.zip(other.within).map(|(mine, theirs)| mine + theirs);
        for (sum, more) in self.sums.iter_mut().zip(theirs) {
            *sum = sum.wrapping_add(*more); // cannot wrap: the count bounds it
        }
        Ok(())
    }

    /// Adds `count` rows with these integers, as [`GridSum::integers`] of a sum with this clip norm and stability gave
    /// them, of which `within` were within the clip norm.
    ///
    /// # Errors
    /// If no `count` rows can have such a sum, it has another width, or this sum would overflow or is unusable. Nothing is
    /// added then.
    pub fn merge_integers(&mut self, integers: &[i64], count: u64, within: Option<u64>) -> Result<(), Error> {
        if integers.len() != self.width() {
            return Err(Error::Incompatible { what: "length" });
        }
        check(self.clip, integers, count, within)?;
        self.integers()?;
        // mutant: states-merged-without-their-count
        self.count = self.count_with(count)?;
        // mutant: states-merged-without-rows-within-bound
        self.within = self.within.zip(within).map(|(mine, theirs)| mine + theirs);
        for (sum, more) in self.sums.iter_mut().zip(integers) {
            *sum = sum.wrapping_add(*more); // cannot wrap: the count bounds it
        }
        Ok(())
    }

    /// Returns the sums themselves.
    ///
    /// # Errors
    /// [`Error::Mutated`] if an array changed while it was added.
    pub fn into_integers(self) -> Result<Vec<i64>, Error> {
        if self.broken { Err(Error::Mutated) } else { Ok(self.sums) }
    }

    /// Adds one row whose leaves are the differences `(from, minus)`, rounded to nearest as `T` subtracts, on up to
    /// `threads` threads: the sums of the row that is written out first.
    ///
    /// It is written to `room`, whose content does not matter, and whose memory serves the next row.
    ///
    /// # Errors
    /// As [`GridSum::add`], and [`Error::Length`] if the two of a leaf differ in length.
    pub fn add_difference<T: Float>(
        &mut self,
        isa: Isa,
        leaves: &[(&[T], &[T])],
        room: &mut Vec<T>,
        threads: NonZeroUsize,
    ) -> Result<(), Error> {
        let total = difference::form(isa, leaves, room, threads)?;
        let mut rest = &room[..];
        let formed = leaves.iter().map(|(from, _)| {
            let (leaf, after) = rest.split_at(from.len());
            rest = after;
            (leaf, from.len())
        });
        let row = Rows::new(formed, 1)?;
        let drive = Drive::new(isa, self.clip, self.stability, [&row, &row])?;
        self.add_checked(row.width(), 1, |sums| Ok(drive.add_known(total, sums, threads)))
    }

    /// Adds the rows. Where contiguous rows are read twice, norms are those of the first reading and integers those of the second:
    /// tests let them differ.
    ///
    /// # Errors
    /// As [`GridSum::add`].
    #[doc(hidden)]
    pub fn add_read_twice<'a, T: Float>(
        &mut self,
        isa: Isa,
        readings: [&'a Rows<'a, T>; 2],
        threads: NonZeroUsize,
    ) -> Result<(), Error> {
        let drive = Drive::new(isa, self.clip, self.stability, readings)?;
        self.add_checked(readings[0].width(), readings[0].count(), |sums| drive.add(sums, threads))
    }

    /// Adds so many rows of this width by `add`, which returns how many were within the clip norm if all were certified, or an
    /// error if nothing was added.
    fn add_checked(
        &mut self,
        width: usize,
        count: usize,
        add: impl FnOnce(&mut [i64]) -> Result<Option<u64>, Error>,
    ) -> Result<(), Error> {
        if width != self.width() {
            return Err(Error::Length { name: "row", given: width, needed: self.width() });
        }
        self.integers()?;
        let count = self.count_with(count as u64)?;
        // From here on, whatever ends this early leaves the sum unusable; a panic too.
        self.broken = true;
        match in_default_environment(|| add(&mut self.sums)) {
            Ok(Some(within)) => {
                self.count = count;
                self.within = self.within.map(|so_far| so_far + within);
                self.broken = false;
            }
            Ok(None) => {}
            Err(error) => {
                self.broken = false;
                return Err(error);
            }
        }
        self.integers().map(drop)
    }

    fn count_with(&self, more: u64) -> Result<u64, Error> {
        let rows = self.count.saturating_add(more);
        if rows > Self::MAX_COUNT { Err(Error::Capacity { rows, limit: Self::MAX_COUNT }) } else { Ok(rows) }
    }
}

/// Checks that `count` rows can have this sum, and as many within the clip norm.
fn check(clip: ClipNorm, integers: &[i64], count: u64, within: Option<u64>) -> Result<(), Error> {
    if count > GridSum::MAX_COUNT {
        return Err(Error::Malformed { what: "too many rows" });
    }
    if within.is_some_and(|within| within > count) {
        return Err(Error::Malformed { what: "more rows within the clip norm than there are" });
    }
    let largest = (clip.in_grid_steps() as u64) * count; // below 2^62
    // A maximum, not a search that ends early: it runs at memory speed.
    if integers.iter().fold(0, |most, k| k.unsigned_abs().max(most)) > largest {
        return Err(Error::Malformed { what: "an integer is too large for so many rows" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    /// Adds `first` as it was measured and `second` as it was added: an array that another thread changed in between.
    fn add_changing(
        first: &[f64],
        second: &[f64],
        width: usize,
        threads: NonZeroUsize,
    ) -> (GridSum, Result<(), Error>) {
        let clip = ClipNorm::new::<f64>(1.0).expect("in range");
        let mut sum = GridSum::new(clip, width).expect("memory");
        let rows = |data| Rows::new([(data, width)], first.len() / width).expect("lengths agree");
        let readings = [&rows(first), &rows(second)];
        let outcome = Isa::available()
            .into_iter()
            .map(|isa| {
                sum = GridSum::new(clip, width).expect("memory");
                sum.add_read_twice(isa, readings, threads)
            })
            .reduce(|a, b| {
                assert_eq!(a, b);
                b
            });
        (sum, outcome.expect("there is a path for every CPU"))
    }

    #[test]
    fn a_row_that_grows_while_it_is_added_breaks_the_sum() {
        let small = vec![0.01; 3000];
        for grown in [1.0, 1e300, 1e16, f64::INFINITY, f64::NAN, -4.0e6] {
            for (width, position) in [(3000, 0), (3000, 2999), (100, 1234)] {
                for threads in [1, 2] {
                    let mut changed = small.clone();
                    changed[position] = grown * 1.1;
                    let threads = NonZeroUsize::new(threads).expect("positive");
                    let (mut sum, outcome) = add_changing(&small, &changed, width, threads);

                    assert_eq!(Err(Error::Mutated), outcome, "{grown:e} of {width}");
                    assert_eq!(Err(Error::Mutated), sum.integers());
                    assert_eq!(Err(Error::Mutated), sum.add(Isa::best(), &Rows::one(&[&small[..width]]), ONE));
                    let mut other = GridSum::new(sum.clip(), width).expect("memory");
                    assert_eq!(Err(Error::Mutated), other.merge(&sum));
                    assert_eq!(Err(Error::Mutated), sum.merge(&other));
                }
            }
        }
    }

    #[test]
    fn a_row_at_the_bound_that_grows_by_one_step_breaks_the_sum() {
        let exact = [0.5; 4];
        let step = 2.0_f64.powi(-29);
        let (sum, outcome) = add_changing(&exact, &[0.5, 0.5, 0.5, 0.5 + step], 4, ONE);

        assert_eq!((Err(Error::Mutated), Err(Error::Mutated)), (outcome, sum.integers().map(drop)));
        assert_eq!(Ok(()), add_changing(&exact, &[0.5, 0.5, 0.5, 0.5 + 0.9 * step], 4, ONE).1);
    }

    #[test]
    fn a_shrunk_row_that_grows_by_a_trillionth_breaks_the_sum() {
        let row = vec![1.0; 5000];
        let mut grown = row.clone();
        grown[77] += 1e-6; // relative to the norm's square: 2e-6 of 5000, and the slack is 8 · 154 · 2^-53 = 1.4e-13

        assert_eq!(Ok(()), add_changing(&row, &row, 5000, ONE).1);
        assert_eq!(Err(Error::Mutated), add_changing(&row, &grown, 5000, ONE).1);
    }

    #[test]
    fn a_row_that_shrinks_in_between_is_as_good_as_any() {
        let (sum, outcome) = add_changing(&[0.5; 4], &[0.25; 4], 4, ONE);

        assert_eq!(Ok(()), outcome);
        assert_eq!(Ok(&[1 << 27; 4][..]), sum.integers());
    }
}
