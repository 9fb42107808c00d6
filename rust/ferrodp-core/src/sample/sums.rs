//! Integer sums and integer noise, as floating-point numbers: the last step of a release, while its chunk is in cache.
//!
//! The definition is [`released`], one element at a time. The loop does the same without conversions that a CPU may lack:
//! an integer below 2⁵¹ is read from the bits of its sum with 1.5·2⁵², and one of 64 bits becomes a float as the sum of its
//! halves. Both are exact but for the rounding of that sum, which is the one that the conversion makes. A chunk with noise of
//! 2⁵¹ steps or more, or a sum beyond ± 2⁶², where an addition could overflow, is formed again by the definition.

use super::types::Number;
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Kind;

/// Elements in one step of the loop.
const LANES: usize = 16;

/// `1.5 · 2⁵²`: added to an integer of size 2⁵¹ or less, it leaves that integer in the low bits.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// What becomes of a chunk of sums.
pub(super) struct Release<'a, T> {
    /// In units of the grid.
    pub(super) sums: &'a [i64],
    /// Integers, in units of the grid.
    pub(super) noise: &'a [f64],
    /// Of the grid.
    pub(super) width: f64,
    /// What the released number is divided by.
    pub(super) denominator: Option<f64>,
    pub(super) out: &'a mut [T],
}

/// Returns `width · (sum + noise)`, rounded once to `T`, and divided by `denominator`, rounded once more.
fn released<T: Number>(sum: i64, noise: f64, width: f64, denominator: Option<f64>) -> T {
    let value = T::narrow(sum.saturating_add(noise as i64) as f64 * width);
    denominator.map_or(value, |denominator| divided(value, denominator))
}

#[inline(always)]
fn divided<T: Number>(value: T, denominator: f64) -> T {
    // mutant: released-number-multiplied-by-reciprocal
    T::narrow(value.widen() / denominator)
}

/// Writes what `release` describes, on the instructions of `isa`.
pub(super) fn release<T: Number>(isa: Isa, release: Release<'_, T>) {
    // Whether an integer of 64 bits is converted by one instruction.
    #[cfg(target_arch = "x86_64")]
    let converts = isa.kind() == Kind::Avx512;
    #[cfg(not(target_arch = "x86_64"))]
    let converts = cfg!(target_arch = "aarch64");
    if converts { dispatch::run(isa, Loop::<T, true>(release)) } else { dispatch::run(isa, Loop::<T, false>(release)) }
}

struct Loop<'a, T, const CONVERTS: bool>(Release<'a, T>);

impl<T: Number, const CONVERTS: bool> Kernel for Loop<'_, T, CONVERTS> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Release { sums, noise, width, denominator, out } = self.0;
        let float = |sum: i64| (if CONVERTS { sum as f64 } else { joined(sum) }) * width;
        // A sum of 64 bits in units of a narrow grid is within the range of floats.
        let fits = width * 9_223_372_036_854_775_808.0 <= T::LARGEST;
        let is_small = match (denominator, fits) {
            (None, true) => lanes(sums, noise, out, |sum| T::narrow_within(float(sum))),
            (None, false) => lanes(sums, noise, out, |sum| T::narrow(float(sum))),
            (Some(by), true) => lanes(sums, noise, out, |sum| divided(T::narrow_within(float(sum)), by)),
            (Some(by), false) => lanes(sums, noise, out, |sum| divided(T::narrow(float(sum)), by)),
        };
        // mutant: noise-beyond-2-51-taken-from-its-bits
        let start = if is_small { out.len() / LANES * LANES } else { 0 };
        for ((out, sum), noise) in out.iter_mut().zip(sums).zip(noise).skip(start) {
            *out = released(*sum, *noise, width, denominator);
        }
    }
}

/// Forms what comes in multiples of [`LANES`], and returns whether all of it was small enough to be right.
#[inline(always)]
fn lanes<T: Number>(sums: &[i64], noise: &[f64], out: &mut [T], finish: impl Fn(i64) -> T) -> bool {
    const SHIFTED: u64 = SHIFT.to_bits();
    const ROOM: i64 = 1 << 62;
    let (mut large, mut overflow) = ([0_u64; LANES], [0_i64; LANES]);
    let groups = sums.as_chunks::<LANES>().0.iter().zip(noise.as_chunks::<LANES>().0);
    for ((sums, noise), out) in groups.zip(out.as_chunks_mut::<LANES>().0) {
        for i in 0..LANES {
            // Outside 2^52 to 2^53, the exponent is another one.
            let shifted = (noise[i] + SHIFT).to_bits();
            large[i] |= shifted ^ SHIFTED;
            // Negative outside -2^62 to 2^62.
            overflow[i] |= sums[i].wrapping_add(ROOM);
            out[i] = finish(sums[i].wrapping_add(shifted.wrapping_sub(SHIFTED).cast_signed()));
        }
    }
    large.iter().all(|bits| bits >> 52 == 0) && overflow.iter().all(|bits| *bits >= 0)
}

/// Returns the float nearest to an integer, from its halves.
///
/// The upper half, as a number of units of 2³², and the lower half are placed in the fractions of 2⁸⁴ and of 2⁵². What is
/// subtracted from the first leaves `high · 2³² − 2⁵²` without rounding; the sum with the second rounds once.
#[inline(always)]
fn joined(integer: i64) -> f64 {
    const HIGH: u64 = 0x4530_0000_8000_0000; // 2^84 + 2^63: the sign bit is flipped
    const LOW: u64 = 0x4330_0000_0000_0000; // 2^52
    const BOTH: f64 = f64::from_bits(0x4530_0000_8010_0000); // 2^84 + 2^63 + 2^52
    let bits = integer.cast_unsigned();
    let (high, low) = (f64::from_bits((bits >> 32) ^ HIGH), f64::from_bits((bits & u64::from(u32::MAX)) | LOW));
    (high - BOTH) + low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers of every size and sign, and their neighbors.
    fn integers() -> Vec<i64> {
        let mut found = vec![0, 1, -1, i64::MAX, i64::MIN, 0x1234_5678_9abc_def0, -0x0fed_cba9_8765_4321];
        for bit in 0..63 {
            for near in -2..=2 {
                found.extend([(1_i64 << bit).wrapping_add(near), (-1_i64 << bit).wrapping_add(near)]);
            }
        }
        found
    }

    #[test]
    fn an_integer_becomes_the_float_that_the_conversion_gives() {
        for k in integers() {
            assert_eq!(k as f64, joined(k), "{k}");
        }
        let mut state = 1_u64;
        for i in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let k = state.cast_signed() >> (i % 64);
            assert_eq!(k as f64, joined(k), "{k}");
        }
    }

    fn check<T: Number + PartialEq + core::fmt::Debug>(noises: &[f64]) {
        let sums = integers();
        let noise: Vec<f64> = (0..sums.len()).map(|i| noises[i * 7 % noises.len()]).collect();
        for width in [1.0, 0.5_f64.powi(29), 2.0_f64.powi(98), 2.0_f64.powi(400), 0.5_f64.powi(149)] {
            for denominator in [None, Some(3.0), Some(1e-300), Some(5e-324), Some(1e300)] {
                for isa in Isa::available() {
                    for len in [0, 1, 15, 16, 17, 31, 100, sums.len()] {
                        // Parts without the extremes, and with them.
                        for start in [0, 7, sums.len() - len] {
                            let part = start.min(sums.len() - len)..start.min(sums.len() - len) + len;
                            let (sums, noise) = (&sums[part.clone()], &noise[part]);
                            let mut out = vec![T::default(); len];

                            release(isa, Release { sums, noise, width, denominator, out: &mut out });

                            for ((out, sum), n) in out.iter().zip(sums).zip(noise) {
                                let expected: T = released(*sum, *n, width, denominator);
                                let (expected, out) = (expected.widen(), out.widen());
                                assert_eq!(expected.to_bits(), out.to_bits(), "{sum} + {n}, {width:e}, {isa:?}");
                                assert!(out.is_finite());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_path_gives_the_numbers_of_the_definition() {
        let small = [0.0, 1.0, -1.0, 12_345.0, -2_251_799_813_685_247.0, 2_251_799_813_685_247.0];
        check::<f32>(&small);
        check::<f64>(&small);
    }

    #[test]
    fn noise_that_no_loop_reads_is_added_all_the_same() {
        let large = [0.0, 2_251_799_813_685_248.0, -9_007_199_254_740_992.0, 1e17, -1e18, 1e19, -1e300, 4.0];
        check::<f32>(&large);
        check::<f64>(&large);
    }

    #[test]
    fn what_is_divided_stays_finite_and_a_zero_positive() {
        let by = |sum, denominator| released::<f32>(sum, 0.0, 0.5_f64.powi(20), Some(denominator)).to_bits();

        assert_eq!(2.0_f32.to_bits(), by(1 << 20, 0.5));
        assert_eq!([f32::MAX, f32::MIN].map(f32::to_bits), [by(1, 1e-300), by(-1, 1e-300)]);
        assert_eq!([0, 0], [by(-1, 1e300), by(0, 3.0)]);
        assert_eq!(7.0 / 3.0, released::<f64>(7, 0.0, 1.0, Some(3.0)));
        assert_ne!(7.0 / 3.0, 7.0 * (1.0 / 3.0));
        assert_eq!(f64::MIN.to_bits(), released::<f64>(-1, 0.0, 1.0, Some(5e-324)).to_bits());
    }
}
