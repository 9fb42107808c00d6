//! Standard normal variables themselves, as integers in units of a power of two: for noise that is a linear function of many.
//!
//! What is proposed is a float within a proven distance of `Z`: a polynomial in the leading bits, rounded to no grid. What `Z` is
//! rounded to, in units of 2⁻³⁶, is exact, by the stages that round noise to any grid. Beyond that come further binary digits of the
//! same `Z`: each is one comparison with a threshold, settled by the last two stages.

use core::cmp::Ordering;

pub(crate) use super::chunk::HalfWords as Words;
use super::chunk::Sampler;
pub(crate) use super::types::Precision;
use super::types::{Law, Lazy, NOISE_CHUNK, Noise, Offset};
use super::{decide, exact, fixed};
use crate::isa::Isa;
use crate::math::integer::Integer;
use crate::math::natural::Natural;
use crate::params::{Granularity, exp2};
use crate::random::Key;

/// Fraction bits of the integers that the digits of [`Normals::enclose`] begin with.
pub(crate) const NORMAL_GRID_BITS: u32 = 36;

/// [`Normals::round`] begins at multiples of this.
pub(crate) const NORMALS_PER_CHUNK: usize = NOISE_CHUNK;

/// Digits of variables that are proposed and have few leading bits.
const FAR_BITS: u32 = 48;

/// Digits beyond the first ones for which thresholds are offsets of 64 bits.
const SHORT_DIGITS: u32 = 60;

/// Returns the noise that [`Normals`] draw: of scale 2³⁶ on the grid of integers.
pub(crate) fn standard() -> Noise {
    let granularity = Granularity::from_exponent(0).expect("in range");
    Noise::new(Law::Gaussian, exp2(NORMAL_GRID_BITS.cast_signed()), granularity).expect("in range")
}

/// The standard normal variables of one key: sample `i` is that of word `i`, as everywhere.
///
/// For code inside `residue::leaving_nothing`.
pub(crate) struct Normals<'a> {
    noise: &'a Noise,
    sampler: Sampler<'a>,
}

impl<'a> Normals<'a> {
    /// Returns those of `key`, for the noise of [`standard`].
    pub(crate) fn new(noise: &'a Noise, isa: Isa, key: &Key) -> Self {
        Self { noise, sampler: Sampler::new::<f64>(noise, isa, key, usize::MAX) }
    }

    /// Writes `Z` of the samples from `start` on, a multiple of 16, each within [`Precision::error`]. Which float it is depends on the
    /// instruction set.
    pub(crate) fn propose(&self, precision: Precision, start: u64, words: &mut Words, out: &mut [f64]) {
        self.sampler.approximate(precision, start, words, out, |index| self.far(index));
    }

    /// Writes `round(2³⁶·Z)` of the samples from `start` on, a multiple of [`NORMALS_PER_CHUNK`]: exact.
    pub(crate) fn round(&self, start: u64, out: &mut [f64]) {
        self.sampler.put(start, out, true);
    }

    /// Returns `Z` of one sample, within the error of [`Precision::Fine`].
    pub(crate) fn propose_one(&self, index: u64) -> f64 {
        let (negative, sample) = self.sampler.bits(index, self.sampler.first_word(index));
        match decide::approximate(sample.leading) {
            Some(size) if negative => -size,
            Some(size) => size,
            None => self.far(index),
        }
    }

    /// Returns `Z` of a sample with a relative error of 2⁻⁵³, and one of 2⁻⁴⁹.
    #[cold]
    fn far(&self, index: u64) -> f64 {
        let digits = self.enclose(index, FAR_BITS);
        let middle = Integer { negative: digits.negative, magnitude: digits.magnitude.shl(1).add(&Natural::new(1)) };
        middle.approximate(-(FAR_BITS.cast_signed()) - 1)
    }

    /// Returns the sign of `Z` of sample `index` and `⌊2^bits·|Z|⌋`, for `bits` of [`NORMAL_GRID_BITS`] or more.
    pub(crate) fn enclose(&self, index: u64, bits: u32) -> Integer {
        let word = self.sampler.first_word(index);
        let (negative, sample) = self.sampler.bits(index, word);
        let nearest = decide::settle(self.noise, false, &sample, Offset::new(0.0, 0));
        // `Z > 0` here, so what it is rounded to is not negative.
        let nearest = Natural::new(nearest.cast_unsigned());
        let mut digits = if self.exceeds(&sample, &nearest, NORMAL_GRID_BITS) {
            nearest
        } else {
            nearest.saturating_sub(&Natural::new(1))
        };
        for known in NORMAL_GRID_BITS..bits {
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
        let digits = bits - NORMAL_GRID_BITS;
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
    fn further_digits_continue_the_first_ones() {
        let (noise, key) = (standard(), Key::from_bytes([5; 32]));
        leaving_nothing(|| {
            let normals = Normals::new(&noise, Isa::best(), &key);
            for index in (0..2048).step_by(41) {
                let mut before = normals.enclose(index, NORMAL_GRID_BITS);
                let (negative, sample) = normals.sampler.bits(index, normals.sampler.first_word(index));
                let nearest = decide::settle(&noise, negative, &sample, Offset::new(0.0, 0)) as f64;
                assert!((before.approximate(0) - nearest).abs() <= 1.0);
                assert_eq!(before.negative, nearest < 0.0);
                for bits in [37, 50, 95, 96, 97, 99, 100, 101, 102, 140] {
                    let after = normals.enclose(index, bits);
                    let digits = bits - NORMAL_GRID_BITS;
                    assert_eq!(before.magnitude, after.magnitude.shr(digits), "{index} {bits}");
                    before = normals.enclose(index, NORMAL_GRID_BITS);
                }
                // The nearest integer of 2³⁶|Z| follows from one more digit.
                let one_more = normals.enclose(index, NORMAL_GRID_BITS + 1).magnitude;
                assert_eq!(Natural::new(nearest.abs() as u128), one_more.add(&Natural::new(1)).shr(1));
            }
        });
    }

    /// Of 2¹⁷ samples about 500 are in the tails; of a chunk's last ones there are 0 to 17.
    #[test]
    fn what_is_proposed_is_as_near_to_the_variable_as_is_said_on_every_instruction_set() {
        let (noise, key) = (standard(), Key::from_bytes([6; 32]));
        for isa in Isa::available() {
            leaving_nothing(|| {
                let normals = Normals::new(&noise, isa, &key);
                for precision in [Precision::Coarse, Precision::Fine] {
                    let mut proposed = vec![0.0; 1 << 17];
                    normals.propose(precision, 0, &mut Words::new(), &mut proposed);
                    let is_far = |index: usize| proposed[index].abs() > 2.8;
                    assert!((0..1 << 17).filter(|index| is_far(*index)).count() > 300);
                    for index in (0..1 << 17).filter(|index| index % 997 == 0 || is_far(*index)) {
                        let digits = normals.enclose(index as u64, 60).approximate(-60);
                        let off = (proposed[index] - digits).abs();
                        // What floats and 60 digits leave out.
                        assert!(off <= precision.error() + exp2(-50), "{isa:?} {precision:?} {index} {off:e}");
                    }
                    for count in (0..18).chain(500..530) {
                        let mut few = vec![0.0; count];
                        normals.propose(precision, 1 << 16, &mut Words::new(), &mut few);
                        assert_eq!(few, proposed[1 << 16..][..count], "{isa:?} {count}");
                    }
                }
            });
        }
    }

    #[test]
    fn variables_with_few_leading_bits_are_proposed_from_their_digits() {
        let (noise, key) = (standard(), Key::from_bytes([7; 32]));
        leaving_nothing(|| {
            let normals = Normals::new(&noise, Isa::best(), &key);
            let mut proposed = vec![0.0; 1024];
            normals.propose(Precision::Fine, 0, &mut Words::new(), &mut proposed);
            for (index, proposed) in proposed.iter().enumerate() {
                assert!((normals.far(index as u64) - proposed).abs() <= Precision::Fine.error());
                assert!((normals.propose_one(index as u64) - proposed).abs() <= Precision::Fine.error());
            }
        });
    }
}
