//! Integer sums and integer noise, as floating-point numbers: the last step of a release, while its chunk is in cache.
//! Where all of a chunk's sums are small in single precision, [`small_sums`] does so instead.
//!
//! The noise's grid may be coarser than that of the sums, by a power of two. A sum is then split as `k/2^shift = r + f`, `r` the
//! nearest integer: [`Steps::split`] gives `f` to the stages, which make `N = round(f + s·Z)` of it, and `r + N` is what is
//! released: the sum with noise, rounded to the noise's grid, as [`super::Noise::add`] would round it if a float held the sum.
//!
//! The definition is [`released`], one element at a time. The loop does the same without conversions that a CPU may lack:
//! a small integer is read from the bits of its sum with 1.5·2⁵² (2²³ in single precision), and one of 64 bits becomes a
//! float as the sum of its halves. Both are exact but for the rounding of that sum, which is the one that the conversion
//! makes. A chunk with noise of 2⁵¹ (2²²) steps or more, or a sum beyond ± 2⁶², where an addition could overflow, is
//! formed again by the definition.

use super::small_sums;
use super::types::{NOISE_CHUNK, Number};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Kind;
use crate::isa::dispatch::{self, Kernel};

/// Elements in one step of the loop.
const INTEGER_LANES: usize = 16;

/// The largest shift: fractions of so many bits are exact in single precision.
pub(super) const MAX_SUM_SHIFT: u32 = 24;

/// Sums of integers, in units of the noise's grid divided by `2^shift`.
pub(super) struct Sums<'a> {
    pub(super) integers: &'a [i64],
    /// At most [`MAX_SUM_SHIFT`].
    pub(super) shift: u32,
}

/// A type that integers of noise come in.
pub(super) trait Steps: Number {
    /// Says, joined over all of them, whether they were small enough.
    type Bits: Copy + Default + core::ops::BitOrAssign;
    /// Room for the multiples of a chunk, if [`Steps::split`] writes them.
    type Wholes: AsMut<[f32]>;
    /// Room that nothing was written to.
    const NEW_WHOLES: Self::Wholes;
    /// Writes what is left of the sums beside the nearest multiples of `2^shift`, in units of that. Returns whether those
    /// multiples are in `wholes`, as [`small_sums`] has them.
    fn split(isa: Isa, sums: &[i64], shift: u32, wholes: &mut [f32], out: &mut [Self]) -> bool;
    /// Returns the integer, and the bits that tell whether it is right.
    fn read(self) -> (i64, Self::Bits);
    /// Whether the integers with these bits were all small enough.
    fn are_right(bits: Self::Bits) -> bool;
}

macro_rules! steps {
    ($type:ty, $bits:ty, $shift:literal, $fraction_bits:literal, $room:expr, $split:expr) => {
        impl Steps for $type {
            type Bits = $bits;
            type Wholes = [f32; $room];
            const NEW_WHOLES: Self::Wholes = [0.0; $room];

            fn split(isa: Isa, sums: &[i64], shift: u32, wholes: &mut [f32], out: &mut [Self]) -> bool {
                $split(isa, sums, shift, wholes, out)
            }

            #[inline(always)]
            fn read(self) -> (i64, $bits) {
                // Added to an integer below a third of it in size, it leaves that integer in the low bits.
                const SHIFT: $type = $shift;
                const SHIFTED: $bits = SHIFT.to_bits();
                let shifted = (self + SHIFT).to_bits();
                (i64::from(shifted.wrapping_sub(SHIFTED).cast_signed()), shifted ^ SHIFTED)
            }

            #[inline(always)]
            fn are_right(bits: $bits) -> bool {
                // Outside the range, the exponent is another one.
                bits >> $fraction_bits == 0
            }
        }
    };
}

steps!(f32, u32, 12_582_912.0, 23, NOISE_CHUNK, small_sums::split);
steps!(f64, u64, 6_755_399_441_055_744.0, 52, 0, |isa, sums, shift, _: &mut [f32], out| {
    fractions(isa, sums, shift, out);
    false
});

/// Writes what is left of the sums beside the nearest multiples of `2^shift`, in units of that.
fn fractions(isa: Isa, sums: &[i64], shift: u32, out: &mut [f64]) {
    if shift == 0 {
        out.fill(0.0);
    } else {
        dispatch::run(isa, Fractions { sums, shift, out });
    }
}

struct Fractions<'a> {
    sums: &'a [i64],
    shift: u32,
    out: &'a mut [f64],
}

impl Kernel for Fractions<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let (above, scale) = (32 - self.shift, crate::params::exp2(-self.shift.cast_signed()));
        for (out, sum) in self.out.iter_mut().zip(self.sums) {
            // mutant: fractions-of-sums-without-sign
            *out = f64::from((*sum as i32).wrapping_shl(above) >> above) * scale;
        }
    }
}

/// Returns the integer nearest to `sum/2^shift`, the upper one of two: what [`fractions`] leaves.
#[inline(always)]
pub(super) fn nearest(sum: i64, shift: u32) -> i64 {
    // mutant: sums-cut-to-the-coarser-grid
    if shift == 0 { sum } else { (sum >> shift) + (sum >> (shift - 1) & 1) }
}

/// What becomes of a chunk of sums.
pub(super) struct Release<'a, N, T> {
    /// In units of the grid divided by `2^shift`.
    pub(super) sums: &'a [i64],
    /// Integers, in units of the grid.
    pub(super) steps: &'a [N],
    pub(super) shift: u32,
    /// Of the grid.
    pub(super) width: f64,
    /// What the released number is divided by.
    pub(super) denominator: Option<f64>,
    pub(super) out: &'a mut [T],
}

/// Returns `width · (round(sum/2^shift) + steps)`, rounded once to `T`, and divided by `denominator`, rounded once more.
pub(super) fn released<T: Number>(sum: i64, steps: f64, shift: u32, width: f64, denominator: Option<f64>) -> T {
    let value = T::narrow(nearest(sum, shift).saturating_add(steps as i64) as f64 * width);
    denominator.map_or(value, |denominator| divided(value, denominator))
}

#[inline(always)]
fn divided<T: Number>(value: T, denominator: f64) -> T {
    // mutant: released-number-multiplied-by-reciprocal
    T::narrow(value.widen() / denominator)
}

/// Writes what `release` describes, on the instructions of `isa`.
pub(super) fn release<N: Steps, T: Number>(isa: Isa, release: Release<'_, N, T>) {
    // Whether an integer of 64 bits is converted by one instruction.
    #[cfg(target_arch = "x86_64")]
    let converts = isa.kind() == Kind::Avx512;
    #[cfg(not(target_arch = "x86_64"))]
    let converts = cfg!(target_arch = "aarch64");
    if converts {
        dispatch::run(isa, Loop::<N, T, true>(release));
    } else {
        dispatch::run(isa, Loop::<N, T, false>(release));
    }
}

struct Loop<'a, N, T, const CONVERTS: bool>(Release<'a, N, T>);

impl<N: Steps, T: Number, const CONVERTS: bool> Kernel for Loop<'_, N, T, CONVERTS> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Release { sums, steps, shift, width, denominator, out } = self.0;
        let float = |sum: i64| (if CONVERTS { sum as f64 } else { joined(sum) }) * width;
        // A sum of 64 bits in units of a narrow grid is within the range of floats.
        let fits = width * 9_223_372_036_854_775_808.0 <= T::LARGEST;
        // A quotient of two numbers of 24 bits that is rounded to 53 bits, and to 24 or fewer, is as if rounded once: one that is
        // not halfway between two such numbers is farther from there than 2⁻⁵⁰ of itself.
        let by = denominator.map(T::narrow).filter(|by| denominator == Some(by.widen()));
        let is_small = match (denominator, fits, by) {
            (_, true, Some(by)) => lanes(sums, steps, shift, out, |sum| T::narrow_within(float(sum)).quotient(by)),
            (None, true, _) => lanes(sums, steps, shift, out, |sum| T::narrow_within(float(sum))),
            (None, false, _) => lanes(sums, steps, shift, out, |sum| T::narrow(float(sum))),
            (Some(by), true, None) => lanes(sums, steps, shift, out, |sum| divided(T::narrow_within(float(sum)), by)),
            (Some(by), false, _) => lanes(sums, steps, shift, out, |sum| divided(T::narrow(float(sum)), by)),
        };
        // mutant: noise-beyond-2-51-taken-from-its-bits
        let start = if is_small { out.len() / INTEGER_LANES * INTEGER_LANES } else { 0 };
        for ((out, sum), steps) in out.iter_mut().zip(sums).zip(steps).skip(start) {
            *out = released(*sum, steps.widen(), shift, width, denominator);
        }
    }
}

/// Forms what comes in multiples of [`INTEGER_LANES`], and returns whether all of it was small enough to be right.
#[inline(always)]
fn lanes<N: Steps, T>(sums: &[i64], steps: &[N], shift: u32, out: &mut [T], finish: impl Fn(i64) -> T) -> bool {
    const ROOM: i64 = 1 << 62;
    // Half a step of the noise's grid; nothing where the grids are one.
    let half = (1_i64 << shift) >> 1;
    let (mut joined, mut overflow) = ([N::Bits::default(); INTEGER_LANES], [0_i64; INTEGER_LANES]);
    let groups = sums.as_chunks::<INTEGER_LANES>().0.iter().zip(steps.as_chunks::<INTEGER_LANES>().0);
    for ((sums, steps), out) in groups.zip(out.as_chunks_mut::<INTEGER_LANES>().0) {
        for i in 0..INTEGER_LANES {
            let (integer, bits) = steps[i].read();
            joined[i] |= bits;
            // Negative outside -2^62 to 2^62.
            overflow[i] |= sums[i].wrapping_add(ROOM);
            out[i] = finish((sums[i].wrapping_add(half) >> shift).wrapping_add(integer));
        }
    }
    joined.iter().all(|bits| N::are_right(*bits)) && overflow.iter().all(|bits| *bits >= 0)
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

    fn check<N: Steps, T: Number>(steps: &[N]) {
        let sums = integers();
        let steps: Vec<N> = (0..sums.len()).map(|i| steps[i * 7 % steps.len()]).collect();
        let widths = [1.0, 0.5_f64.powi(29), 2.0_f64.powi(98), 2.0_f64.powi(400), 0.5_f64.powi(149)];
        // Half of them numbers of single precision, the smallest and the largest included.
        let singles = [3.0, 0.1_f32, f32::MIN_POSITIVE * 0.7, f32::from_bits(1), f32::MAX].map(f64::from);
        let doubles = [3.1, 1e-300, 5e-324, 1e300];
        let denominators: Vec<_> = singles.into_iter().chain(doubles).map(Some).chain([None]).collect();
        let shifts = [0, 1, 17, MAX_SUM_SHIFT];
        let settings = widths.into_iter().flat_map(|width| denominators.iter().map(move |by| (width, *by)));
        for ((width, denominator), shift) in settings.flat_map(|(width, by)| shifts.map(|shift| ((width, by), shift))) {
            for isa in Isa::available() {
                for len in [0, 1, 15, 16, 17, 31, 100, sums.len()] {
                    // Parts without the extremes, and with them.
                    for start in [0, 7, sums.len() - len] {
                        let part = start.min(sums.len() - len)..start.min(sums.len() - len) + len;
                        let (sums, steps) = (&sums[part.clone()], &steps[part]);
                        let mut out = vec![T::default(); len];

                        release(isa, Release { sums, steps, shift, width, denominator, out: &mut out });

                        for ((out, sum), n) in out.iter().zip(sums).zip(steps) {
                            let expected: T = released(*sum, n.widen(), shift, width, denominator);
                            let (expected, out) = (expected.widen(), out.widen());
                            let what = || format!("{sum} + {}, {shift}, {width:e}, {isa:?}", n.widen());
                            assert_eq!(expected.to_bits(), out.to_bits(), "{}", what());
                            assert!(out.is_finite());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_path_gives_the_numbers_of_the_definition() {
        let small = [0.0, 1.0, -1.0, 12_345.0, -2_251_799_813_685_247.0, 2_251_799_813_685_247.0];
        check::<f64, f32>(&small);
        check::<f64, f64>(&small);
        check::<f32, f32>(&[0.0, 1.0, -1.0, 12_345.0, -4_194_303.0, 4_194_303.0]);
    }

    #[test]
    fn noise_that_no_loop_reads_is_added_all_the_same() {
        let large = [0.0, 2_251_799_813_685_248.0, -9_007_199_254_740_992.0, 1e17, -1e18, 1e19, -1e300, 4.0];
        check::<f64, f32>(&large);
        check::<f64, f64>(&large);
        check::<f32, f32>(&[0.0, 4_194_304.0, -8_388_608.0, 1e9, -1e18, 1e19, f32::MAX, 4.0]);
    }

    #[test]
    fn a_sum_is_its_nearest_multiple_and_a_fraction_of_half_a_step_at_most() {
        fn check<N: Steps>() {
            let sums = integers();
            let mut wholes = vec![f32::NAN; sums.len()];
            for (shift, isa) in
                (0..=MAX_SUM_SHIFT).flat_map(|shift| Isa::available().into_iter().map(move |isa| (shift, isa)))
            {
                let mut left = vec![N::default(); sums.len()];

                assert!(!N::split(isa, &sums, shift, &mut wholes, &mut left));

                for (sum, left) in sums.iter().zip(left) {
                    let scaled = left.widen() * 2.0_f64.powi(shift.cast_signed());
                    let whole = i128::from(nearest(*sum, shift)) << shift;
                    assert_eq!(i128::from(*sum), whole + scaled as i128, "{sum} {shift} {isa:?}");
                    assert!(scaled.fract() == 0.0 && left.widen().abs() <= 0.5, "{sum} {shift} {isa:?}");
                }
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn what_is_divided_stays_finite_and_a_zero_positive() {
        let by = |sum, denominator| released::<f32>(sum, 0.0, 0, 0.5_f64.powi(20), Some(denominator)).to_bits();

        assert_eq!(2.0_f32.to_bits(), by(1 << 20, 0.5));
        assert_eq!([f32::MAX, f32::MIN].map(f32::to_bits), [by(1, 1e-300), by(-1, 1e-300)]);
        assert_eq!([0, 0], [by(-1, 1e300), by(0, 3.0)]);
        assert_eq!(7.0 / 3.0, released::<f64>(7, 0.0, 0, 1.0, Some(3.0)));
        assert_ne!(7.0 / 3.0, 7.0 * (1.0 / 3.0));
        assert_eq!(f64::MIN.to_bits(), released::<f64>(-1, 0.0, 0, 1.0, Some(5e-324)).to_bits());
    }
}
