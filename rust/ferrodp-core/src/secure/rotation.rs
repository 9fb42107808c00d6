//! The randomized Hadamard transform: `x ↦ H·D·x/√n`, `D` a diagonal of public signs, `n` a power of two.
//!
//! It spreads a vector's norm evenly over its coordinates, so that few of them are large: Suresh, Yu, Kumar, McMahan,
//! "Distributed mean estimation with limited communication", ICML 2017, section 3. It is an orthogonal map up to
//! rounding; nothing private depends on how accurate it is.
//!
//! # Numerics
//! `log₂ n` rounds of additions in a fixed order, then one multiplication: the same bits on every instruction set.

use core::ops::{Add, Mul, Sub};

use crate::clip::Float;
use crate::error::Error;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};
use crate::math::float_environment::in_default_environment;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// The stream of signs: no sampler uses it.
const SIGN_STREAM: u64 = u64::MAX - 1;

/// Elements whose signs are in memory at once.
const SIGNS_PER_CHUNK: usize = 1 << 13;

/// Elements that are transformed without leaving the first-level cache.
const CACHED_ELEMENTS: usize = 1 << 12;

/// A number that can be rotated.
pub trait Rotated: Float + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// Returns the number, or its negative where the lowest bit of `bit` is set.
    fn negated_if(self, bit: u8) -> Self;
}

impl Rotated for f32 {
    #[inline(always)]
    fn negated_if(self, bit: u8) -> Self {
        Self::from_bits(self.to_bits() ^ (u32::from(bit) << 31))
    }
}

impl Rotated for f64 {
    #[inline(always)]
    fn negated_if(self, bit: u8) -> Self {
        Self::from_bits(self.to_bits() ^ (u64::from(bit) << 63))
    }
}

/// Replaces `values` by `H·D·x/√n`, or by `D·H·x/√n`, its inverse.
///
/// # Errors
/// [`Error::Parameter`] if the length is no power of two.
pub fn rotate<T: Rotated>(isa: Isa, signs: &Key, inverse: bool, values: &mut [T]) -> Result<(), Error> {
    if !values.len().is_power_of_two() {
        return Err(Error::parameter("length", values.len() as f64, "a power of two"));
    }
    in_default_environment(|| {
        if !inverse {
            flip(isa, signs, values);
        }
        let scale = T::nearest(1.0 / (values.len() as f64).sqrt());
        dispatch::run(isa, Transform { values, scale });
        if inverse {
            flip(isa, signs, values);
        }
    });
    Ok(())
}

/// Gives every value its sign.
fn flip<T: Rotated>(isa: Isa, signs: &Key, values: &mut [T]) {
    let keystream = Keystream::new(isa, signs);
    let mut bits = [0_u8; SIGNS_PER_CHUNK / 8];
    for (index, chunk) in values.chunks_mut(SIGNS_PER_CHUNK).enumerate() {
        keystream.fill(SIGN_STREAM, (index * SIGNS_PER_CHUNK / 8 / CIPHER_BLOCK) as u64, &mut bits);
        dispatch::run(isa, Flip { values: chunk, bits: &bits });
    }
}

struct Flip<'a, T> {
    values: &'a mut [T],
    bits: &'a [u8],
}

impl<T: Rotated> Kernel for Flip<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let (eights, tail) = self.values.as_chunks_mut::<8>();
        for (values, byte) in eights.iter_mut().zip(self.bits) {
            for (i, value) in values.iter_mut().enumerate() {
                *value = value.negated_if(byte >> i);
            }
        }
        for (i, value) in tail.iter_mut().enumerate() {
            *value = value.negated_if(self.bits[eights.len()] >> i);
        }
    }
}

struct Transform<'a, T> {
    values: &'a mut [T],
    scale: T,
}

impl<T: Rotated> Kernel for Transform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        // Halves of what does not fit the cache are combined first, two rounds in one pass where there are two.
        let mut size = self.values.len();
        while size > CACHED_ELEMENTS {
            let quarters = size / 2 > CACHED_ELEMENTS;
            for part in self.values.chunks_exact_mut(size) {
                let (low, high) = part.split_at_mut(size / 2);
                if quarters {
                    let ((a, b), (c, d)) = (low.split_at_mut(size / 4), high.split_at_mut(size / 4));
                    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                        let (ac, bd, ca, db) = (*a + *c, *b + *d, *a - *c, *b - *d);
                        (*a, *b, *c, *d) = (ac + bd, ac - bd, ca + db, ca - db);
                    }
                } else {
                    butterflies(low, high);
                }
            }
            size /= if quarters { 4 } else { 2 };
        }
        for part in self.values.chunks_exact_mut(size) {
            let mut half = size / 2;
            while half >= 8 {
                for pair in part.chunks_exact_mut(2 * half) {
                    let (low, high) = pair.split_at_mut(half);
                    butterflies(low, high);
                }
                half /= 2;
            }
            small(part, half);
            for value in part {
                *value = *value * self.scale;
            }
        }
    }
}

#[inline(always)]
fn butterflies<T: Rotated>(low: &mut [T], high: &mut [T]) {
    for (a, b) in low.iter_mut().zip(high) {
        (*a, *b) = (*a + *b, *a - *b);
    }
}

/// The last rounds, with distances from `half` down to 1.
#[inline(always)]
fn small<T: Rotated>(part: &mut [T], mut half: usize) {
    if half == 4 {
        for eight in part.as_chunks_mut::<8>().0 {
            for distance in [4, 2, 1] {
                let old = *eight;
                for i in 0..8 {
                    let other = old[i ^ distance];
                    eight[i] = if i & distance == 0 { old[i] + other } else { other - old[i] };
                }
            }
        }
        return;
    }
    while half > 0 {
        for pair in part.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            butterflies(low, high);
        }
        half /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(length: usize) -> Vec<f64> {
        (0..length).map(|i| ((i * 7919) % 2027) as f64 / 1000.0 - 1.0).collect()
    }

    /// The definition: entry (i, j) of the Hadamard matrix is −1 to the number of ones that i and j share.
    fn by_definition(x: &[f64]) -> Vec<f64> {
        let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let row = |i| x.iter().enumerate().map(|(j, x)| sign(i, j) * x).sum::<f64>() / (x.len() as f64).sqrt();
        (0..x.len()).map(row).collect()
    }

    #[test]
    fn the_transform_is_that_of_the_definition() {
        let key = Key::from_bytes([3; 32]);
        for length in [1, 2, 4, 8, 16, 64, 512] {
            let mut signed = vector(length);
            flip(Isa::PORTABLE, &key, &mut signed);
            let expected = by_definition(&signed);
            for isa in Isa::available() {
                let mut values = vector(length);
                rotate(isa, &key, false, &mut values).expect("a power of two");

                for (expected, found) in expected.iter().zip(&values) {
                    assert!((expected - found).abs() < 1e-12, "{isa:?}, {length}"); // 512 terms, each within 2⁻⁵²
                }
            }
        }
    }

    #[test]
    fn every_isa_gives_the_same_bits_and_the_inverse_gives_the_vector_back() {
        let key = Key::from_bytes([9; 32]);
        for length in [1, 8, 4096, 8192, 1 << 14, 1 << 15, 1 << 17] {
            let mut expected = vector(length);
            rotate(Isa::PORTABLE, &key, false, &mut expected).expect("a power of two");
            for isa in Isa::available() {
                let mut values = vector(length);
                rotate(isa, &key, false, &mut values).expect("a power of two");
                assert_eq!(expected, values, "{isa:?}, {length}");

                rotate(isa, &key, true, &mut values).expect("a power of two");
                for (x, back) in vector(length).iter().zip(&values) {
                    assert!((x - back).abs() < 1e-12, "{isa:?}, {length}"); // 2·17 rounds, each within 2⁻⁵³ of the norm
                }
            }
        }
    }

    #[test]
    fn single_precision_is_that_of_double_but_for_rounding() {
        let key = Key::from_bytes([1; 32]);
        let mut double = vector(1 << 13);
        let mut single: Vec<f32> = double.iter().map(|x| *x as f32).collect();
        rotate(Isa::best(), &key, false, &mut double).expect("a power of two");
        rotate(Isa::best(), &key, false, &mut single).expect("a power of two");

        for (x, y) in double.iter().zip(&single) {
            assert!((x - f64::from(*y)).abs() < 1e-4); // 13 rounds, each within 2⁻²⁴ of partial sums up to 64
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        for length in [0, 3, 1000] {
            assert!(rotate(Isa::best(), &Key::from_bytes([0; 32]), false, &mut vec![0.0_f64; length]).is_err());
        }
    }
}
