//! Sums of less than 2²⁴ steps of the noise's grid, in single precision: they are read from memory once, and most of what
//! [`super::sums`] does in 64 bits takes half the instructions.
//!
//! [`split`] writes a sum `k/2^shift = r + f` as two floats, both exact: `r` is an integer of at most 24 bits, and so is `f·2^shift`.
//! With `N = round(f + s·Z)` from the stages, [`join`] writes `w·(r + N)`. The sum rounds once, to 24 bits; the product with the
//! grid's width `w`, a power of two within [`SMALL_SUM_WIDTHS`], is exact: with `|r + N| < 2²⁵` it is neither subnormal nor beyond
//! the largest float. [`super::sums::released`] forms the same integer in 64 bits, where it is exact, and rounds once as well.

use super::types::Number;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};

/// Integers that are small are below this in size.
const SMALL_SUM_LIMIT: f32 = 16_777_216.0;

/// Widths of grids, multiplied with which a sum of two small integers stays a float of 24 bits: 2⁻¹²⁶ to 2¹⁰².
pub(super) const SMALL_SUM_WIDTHS: core::ops::RangeInclusive<f64> = f32::MIN_POSITIVE as f64..=5.070_602_400_912_918e30;

/// Writes what is left of the sums beside the nearest multiples of `2^shift`, in units of that, to `fractions`, and the
/// multiples to `wholes`. Returns whether all of them are small: else `wholes` are of no use.
pub(super) fn split(isa: Isa, sums: &[i64], shift: u32, wholes: &mut [f32], fractions: &mut [f32]) -> bool {
    dispatch::run(isa, Split { sums, shift, wholes, fractions })
}

struct Split<'a> {
    sums: &'a [i64],
    shift: u32,
    wholes: &'a mut [f32],
    fractions: &'a mut [f32],
}

impl Kernel for Split<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        let Self { sums, shift, wholes, fractions } = self;
        let (unit, scale) = (1_i32.wrapping_shl(shift), crate::params::exp2(-shift.cast_signed()) as f32);
        let half = unit >> 1; // nothing where the grids are one
        let mut joined = 0;
        for ((sum, whole), fraction) in sums.iter().zip(wholes).zip(fractions) {
            let sum = sum.wrapping_add(i64::from(half));
            let nearest = sum.wrapping_shr(shift);
            // From 2²⁵ on, or negative, where it is not small; −2²⁴ is a float as well.
            joined |= nearest.wrapping_add(SMALL_SUM_LIMIT as i64);
            *whole = nearest as i32 as f32;
            // mutant: fractions-of-small-sums-without-sign
            *fraction = (sum as i32 & unit.wrapping_sub(1)).wrapping_sub(half) as f32 * scale;
        }
        // mutant: large-sums-released-from-single-precision
        joined >> 25 == 0
    }
}

/// What [`split`] made of a chunk of sums, with integers of noise in place of fractions.
pub(super) struct Join<'a> {
    pub(super) wholes: &'a [f32],
    pub(super) steps: &'a [f32],
    /// Of the grid, within [`SMALL_SUM_WIDTHS`].
    pub(super) width: f32,
    /// What the released number is divided by.
    pub(super) denominator: Option<f32>,
    pub(super) out: &'a mut [f32],
}

/// Writes what [`super::sums::release`] would, and returns whether all noise was small: else it is to be written again.
pub(super) fn join(isa: Isa, join: Join<'_>) -> bool {
    dispatch::run(isa, join)
}

impl Kernel for Join<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        let Self { wholes, steps, width, denominator, out } = self;
        let mut largest = 0;
        let both = wholes.iter().zip(steps).zip(out);
        let mut value = |whole: f32, steps: f32| {
            // Sizes of floats are in the order of their bits.
            largest = steps.abs().to_bits().max(largest);
            (whole + steps) * width
        };
        if let Some(by) = denominator {
            both.for_each(|((whole, steps), out)| *out = value(*whole, *steps).quotient(by));
        } else {
            both.for_each(|((whole, steps), out)| *out = value(*whole, *steps));
        }
        largest < SMALL_SUM_LIMIT.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sums::{MAX_SUM_SHIFT, nearest, released};
    use super::*;

    /// Integers in units of `2^-shift` around all powers of two that are small, and their halves.
    fn small(shift: u32) -> Vec<i64> {
        let mut found = vec![0, 0x5a_5a5a << shift, (1 << (24 + shift)) - 1 - ((1 << shift) >> 1)];
        for bit in 0..24 + shift {
            found.extend([(1 << bit) - 1, 1 << bit, (1 << bit) + ((1 << shift) >> 1)]);
        }
        found.retain(|sum| nearest(*sum, shift) < 1 << 24);
        found.iter().flat_map(|sum| [*sum, -sum]).chain([-1 << (24 + shift)]).collect()
    }

    #[test]
    fn parts_are_exact_and_what_is_joined_is_what_the_definition_releases() {
        let noise = [0.0, 1.0, -1.0, 12_345.0, -8_388_609.0, 16_777_215.0, -16_777_215.0];
        let widths = [*SMALL_SUM_WIDTHS.start(), 0.5_f64.powi(29), 1.0, *SMALL_SUM_WIDTHS.end()];
        let denominators = [None, Some(3.0), Some(0.1_f32), Some(f32::MIN_POSITIVE), Some(f32::MAX)];
        for (shift, isa) in
            (0..=MAX_SUM_SHIFT).flat_map(|shift| Isa::available().into_iter().map(move |isa| (shift, isa)))
        {
            let sums = small(shift);
            for len in [0, 1, 7, 15, 16, 33, sums.len()] {
                let sums = &sums[sums.len() - len..];
                let (mut wholes, mut fractions) = (vec![f32::NAN; len], vec![f32::NAN; len]);

                assert!(split(isa, sums, shift, &mut wholes, &mut fractions), "{shift} {isa:?}");

                for ((sum, whole), fraction) in sums.iter().zip(&wholes).zip(&fractions) {
                    let left = f64::from(*fraction) * 2.0_f64.powi(shift.cast_signed());
                    assert_eq!(nearest(*sum, shift), *whole as i64, "{sum} {shift} {isa:?}");
                    assert_eq!(*sum, ((*whole as i64) << shift) + left as i64, "{sum} {shift} {isa:?}");
                    assert!(left.fract() == 0.0 && fraction.abs() <= 0.5, "{sum} {shift} {isa:?}");
                }
                for (width, denominator) in widths.iter().flat_map(|width| denominators.map(|by| (*width, by))) {
                    let steps: Vec<f32> = noise.iter().cycle().take(len).copied().collect();
                    let mut out = vec![f32::NAN; len];
                    let (width_, out_) = (width as f32, &mut out);

                    assert!(join(isa, Join { wholes: &wholes, steps: &steps, width: width_, denominator, out: out_ }));

                    for ((sum, steps), out) in sums.iter().zip(&steps).zip(&out) {
                        let by = denominator.map(f64::from);
                        let expected: f32 = released(*sum, f64::from(*steps), shift, width, by);
                        let what = || format!("{sum} + {steps}, {shift}, {width:e}, {denominator:?}, {isa:?}");
                        assert_eq!(expected.to_bits(), out.to_bits(), "{}", what());
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_small_is_said_to_be_so() {
        for (shift, isa) in
            (0..=MAX_SUM_SHIFT).flat_map(|shift| Isa::available().into_iter().map(move |isa| (shift, isa)))
        {
            let [mut wholes, mut fractions] = [[0.0; 50]; 2];
            let large = [1_i64 << 24, (-1 << 24) - 1, 1 << 25, 1 << 31, 1 << 32, -1 << 32, (1 << 32) + 1, 1 << 38];
            let extreme = [i64::MAX, i64::MIN, i64::MAX - 1, 1 << 62, -1 << 62];
            for sum in large.map(|large| large << shift).into_iter().chain(extreme) {
                for place in [0, 31, 49] {
                    let mut sums = [1 << shift; 50];
                    sums[place] = sum;
                    assert!(!split(isa, &sums, shift, &mut wholes, &mut fractions), "{sum} {shift} {isa:?}");
                }
            }
        }
        for (isa, large) in Isa::available()
            .into_iter()
            .flat_map(|isa| [SMALL_SUM_LIMIT, -SMALL_SUM_LIMIT, 1e30, f32::MAX].map(|n| (isa, n)))
        {
            for place in [0, 31, 49] {
                let (wholes, mut steps, mut out) = ([1.0; 50], [2.0; 50], [0.0; 50]);
                steps[place] = large;
                let joined = Join { wholes: &wholes, steps: &steps, width: 1.0, denominator: None, out: &mut out };
                assert!(!join(isa, joined), "{large} {isa:?}");
            }
        }
    }
}
