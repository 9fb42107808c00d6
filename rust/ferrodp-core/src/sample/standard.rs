//! Standard normal variables themselves, as integers in units of a power of two: for noise that is a linear function of many.
//!
//! What is proposed is `round(2³⁶·Z)`, exactly, by the stages that round noise to any grid. Beyond that come
//! further binary digits of the same `Z`: each is one comparison with a threshold, settled by the last two stages.

use core::cmp::Ordering;

use super::chunk::Sampler;
use super::types::{Law, Lazy, Noise, Offset};
use super::{decide, exact, fixed};
use crate::isa::Isa;
use crate::math::integer::Integer;
use crate::math::natural::Natural;
use crate::params::{Granularity, exp2};
use crate::random::Key;

/// Fraction bits of what is proposed. With four more, the stages leave 2 % to slow ones instead of 0.1 %, which takes longer than all the
/// rest of a step.
pub(crate) const PROPOSED_BITS: u32 = 36;

/// Fraction bits of [`Normals::nearest`] for the noise of [`fine`].
pub(crate) const FINE_BITS: u32 = 40;

/// Digits beyond the proposed ones for which thresholds are offsets of 64 bits.
const SHORT_DIGITS: u32 = 60;

/// Returns the noise that [`Normals`] draw: of scale 2³⁶ on the grid of integers.
pub(crate) fn standard() -> Noise {
    of_bits(PROPOSED_BITS)
}

/// The same of scale 2⁴⁰.
pub(crate) fn fine() -> Noise {
    of_bits(FINE_BITS)
}

fn of_bits(bits: u32) -> Noise {
    let granularity = Granularity::from_exponent(0).expect("in range");
    Noise::new(Law::Gaussian, exp2(bits.cast_signed()), granularity).expect("in range")
}

/// The standard normal variables of one key: sample `i` is that of word `i`, as everywhere.
///
/// For code inside `residue::leaving_nothing`.
pub(crate) struct Normals<'a> {
    noise: &'a Noise,
    sampler: Sampler<'a>,
}

impl<'a> Normals<'a> {
    /// Returns those of `key`, for the noise of [`standard`] or, but for [`Normals::enclose`], of [`fine`].
    pub(crate) fn new(noise: &'a Noise, isa: Isa, key: &Key) -> Self {
        Self { noise, sampler: Sampler::new::<f64>(noise, isa, key, usize::MAX) }
    }

    /// Writes `round(2³⁶·Z)` for the samples from `start` on, a multiple of 1024.
    pub(crate) fn propose(&self, start: u64, out: &mut [f64]) {
        self.sampler.put(start, out, true);
    }

    /// Returns `round(2³⁶·Z)` of sample `index`, or `round(2⁴⁰·Z)`.
    pub(crate) fn nearest(&self, index: u64) -> i128 {
        let word = self.sampler.first_word(index);
        let (negative, sample) = self.sampler.bits(index, word);
        decide::settle(self.noise, negative, &sample, Offset::new(0.0, 0))
    }

    /// Returns the sign of `Z` of sample `index` and `⌊2^bits·|Z|⌋`, for `bits` of [`PROPOSED_BITS`] or more.
    pub(crate) fn enclose(&self, index: u64, bits: u32) -> Integer {
        let word = self.sampler.first_word(index);
        let (negative, sample) = self.sampler.bits(index, word);
        let nearest = decide::settle(self.noise, false, &sample, Offset::new(0.0, 0));
        // `Z > 0` here, so what it is rounded to is not negative.
        let nearest = Natural::new(nearest.cast_unsigned());
        let mut digits = if self.exceeds(&sample, &nearest, PROPOSED_BITS) {
            nearest
        } else {
            nearest.saturating_sub(&Natural::new(1))
        };
        for known in PROPOSED_BITS..bits {
            let middle = digits.shl(1).add(&Natural::new(1));
            // mutant: further-digit-of-a-normal-variable
            digits = if self.exceeds(&sample, &middle, known + 1) { middle } else { digits.shl(1) };
        }
        Integer { negative, magnitude: digits }
    }

    /// Returns whether `|Z| > threshold · 2^−bits`.
    fn exceeds<F: Fn(u64) -> [u64; 2]>(&self, sample: &Lazy<F>, threshold: &Natural, bits: u32) -> bool {
        if threshold.is_zero() {
            return true;
        }
        // In steps of 2⁻³⁶ the threshold is `below + ½ − offset`.
        let digits = bits - PROPOSED_BITS;
        let below = threshold.shr(digits);
        if digits <= SHORT_DIGITS && below.bits() < 62 {
            let fraction = threshold.saturating_sub(&below.shl(digits)).low().cast_signed();
            // (½ − fraction/2^digits) · 2^(digits + 1)
            let mantissa = (1_i64 << digits) - 2 * fraction;
            let exponent = -(digits.cast_signed()) - 1;
            let offset = Offset { approximate: mantissa as f64 * exp2(exponent), mantissa, exponent };
            let below = below.low().cast_signed();
            let (head, known) = sample.head();
            let order = fixed::compare(self.noise, head, known, below, offset)
                .unwrap_or_else(|| exact::compare(self.noise, sample, i128::from(below), offset));
            return order == Ordering::Greater;
        }
        // `below` is 0, and the offset ½ − threshold.
        let (half, threshold) = (Natural::new(1).shl(digits), threshold.shl(1));
        let (above, under) = (threshold.saturating_sub(&half), half.saturating_sub(&threshold));
        let negative = !above.is_zero();
        let magnitude = if negative { above } else { under };
        let exponent = -(digits.cast_signed()) - 1;
        let size = Integer { negative, magnitude: magnitude.clone() };
        let offset = exact::Ratio { negative, magnitude, exponent, approximate: size.approximate(exponent) };
        exact::compare(self.noise, sample, 0, offset) == Ordering::Greater
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::residue::leaving_nothing;

    #[test]
    fn further_digits_continue_what_is_proposed() {
        let (noise, key) = (standard(), Key::from_bytes([5; 32]));
        leaving_nothing(|| {
            let fine = fine();
            let (normals, finer) = (Normals::new(&noise, Isa::best(), &key), Normals::new(&fine, Isa::best(), &key));
            let mut proposed = vec![0.0; 2048];
            normals.propose(0, &mut proposed);
            for (index, proposed) in proposed.iter().enumerate().step_by(41) {
                let index = index as u64;
                let mut before = normals.enclose(index, PROPOSED_BITS);
                assert!((before.approximate(0).abs() - proposed.abs()).abs() <= 1.0);
                assert_eq!(before.negative, *proposed < 0.0);
                for bits in [37, 50, 95, 96, 97, 99, 100, 101, 102, 140] {
                    let after = normals.enclose(index, bits);
                    let digits = bits - PROPOSED_BITS;
                    assert_eq!(before.magnitude, after.magnitude.shr(digits), "{index} {bits}");
                    before = normals.enclose(index, PROPOSED_BITS);
                }
                // The nearest integer of 2³⁶|Z| follows from one more digit.
                assert_eq!(*proposed, normals.nearest(index) as f64);
                assert!((finer.nearest(index) as f64 / 16.0 - proposed).abs() <= 0.5);
                let one_more = normals.enclose(index, PROPOSED_BITS + 1).magnitude;
                assert_eq!(Natural::new(proposed.abs() as u128), one_more.add(&Natural::new(1)).shr(1));
            }
        });
    }
}
