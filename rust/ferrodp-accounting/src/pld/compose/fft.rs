//! The discrete Fourier transform, with an error bound that is derived and bits that are the same everywhere.
//!
//! A library's transform would be as fast, but takes its sines from the platform, and its bound would be a guess about
//! somebody else's code. Forward goes from natural to bit-reversed order, inverse back, so that nothing is ever permuted;
//! both recurse depth first, so that large transforms stay in the cache.
//!
//! # Numerics
//!
//! One level of radix 4 is two levels of additions, each within `UNIT` of exact in the Euclidean norm because additions of
//! complex numbers are so one by one, and one diagonal of twiddles: a product of complex floats is within √5 units (Brent,
//! Percival, Zimmermann, "Error bounds on complex floating-point multiplication", 2007, Theorem 1), a twiddle within 10: 8
//! of sine and cosine, 2·π/4 from rounding the angle 2πj/N of the first octant (j/N is exact). The levels are multiples of
//! unitary maps, so relative errors add up: 14.3 units a level, to first order; 16 leaves room for the products of errors.
//! This is Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., Theorem 24.2, for radix 4 and these twiddles.

use crate::functions::{UNIT, sincos};
use crate::memory::gathered;
use num_complex::Complex64;

/// Transforms of one size, a power of two.
pub struct Fft {
    size: usize,
    levels: Vec<Vec<[Complex64; 3]>>,
}

impl Fft {
    /// Prepares transforms of 2^`exponent` points.
    #[must_use]
    pub fn new(exponent: u32) -> Self {
        let size = 1_usize << exponent;
        let octant = first_octant(size);
        let mut levels = Vec::new();
        let mut length = size;
        while length >= 4 {
            let stride = size / length;
            let roots = |j| [1, 2, 3].map(|m| root(&octant, size, m * j * stride));
            levels.push(gathered((0..length / 4).map(roots)));
            length /= 4;
        }
        Self { size, levels }
    }

    /// Returns the number of points.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns a bound on ‖computed − exact‖₂ / ‖exact‖₂ of either direction.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        16.0 * UNIT * (self.levels.len() + 1) as f64
    }

    /// Replaces x by Σₖ xₖ e^(−2πijk/N), in bit-reversed order of j.
    pub fn forward(&self, x: &mut [Complex64]) {
        assert_eq!(x.len(), self.size);
        forward(x, &self.levels);
    }

    /// Replaces x, in bit-reversed order of k, by Σₖ xₖ e^(2πijk/N), not divided by N.
    pub fn inverse(&self, x: &mut [Complex64]) {
        assert_eq!(x.len(), self.size);
        inverse(x, &self.levels);
    }
}

/// Returns where, in bit-reversed order, the frequency −j stands if j stands at `index`.
#[must_use]
pub fn conjugate(index: usize) -> usize {
    // j and −j share their trailing zeros and the one above; all higher bits are opposite.
    if index == 0 { 0 } else { index ^ ((1 << index.ilog2()) - 1) }
}

fn first_octant(size: usize) -> Vec<Complex64> {
    gathered((0..=size / 8).map(|j| {
        let (sine, cosine) = sincos(core::f64::consts::TAU * (j as f64 / size as f64));
        Complex64::new(cosine, -sine)
    }))
}

/// Returns e^(−2πij/N) for j < N, from those of the first octant.
fn root(octant: &[Complex64], size: usize, j: usize) -> Complex64 {
    let quarter = size / 4;
    let (turns, rest) = (j / quarter, j % quarter);
    let within = if 2 * rest <= quarter {
        octant[rest.min(octant.len() - 1)]
    } else {
        let mirrored = octant[(quarter - rest).min(octant.len() - 1)];
        Complex64::new(-mirrored.im, -mirrored.re)
    };
    match turns {
        0 => within,
        1 => times_minus_i(within),
        2 => -within,
        _ => -times_minus_i(within),
    }
}

#[inline(always)]
fn times_minus_i(z: Complex64) -> Complex64 {
    Complex64::new(z.im, -z.re)
}

#[inline(always)]
fn quarters(x: &mut [Complex64]) -> [&mut [Complex64]; 4] {
    let (left, right) = x.split_at_mut(x.len() / 2);
    let (a, b) = left.split_at_mut(left.len() / 2);
    let (c, d) = right.split_at_mut(right.len() / 2);
    [a, b, c, d]
}

fn forward(x: &mut [Complex64], levels: &[Vec<[Complex64; 3]>]) {
    let Some((twiddles, deeper)) = levels.split_first() else { return pair(x) };
    let [a, b, c, d] = quarters(x);
    for ((((a, b), c), d), [w1, w2, w3]) in a.iter_mut().zip(&mut *b).zip(&mut *c).zip(&mut *d).zip(twiddles) {
        let (even_sum, even_difference) = (*a + *c, *a - *c);
        let (odd_sum, odd_difference) = (*b + *d, times_minus_i(*b - *d));
        *a = even_sum + odd_sum;
        *b = (even_sum - odd_sum) * w2;
        *c = (even_difference + odd_difference) * w1;
        *d = (even_difference - odd_difference) * w3;
    }
    for part in [a, b, c, d] {
        forward(part, deeper);
    }
}

fn inverse(x: &mut [Complex64], levels: &[Vec<[Complex64; 3]>]) {
    let Some((twiddles, deeper)) = levels.split_first() else { return pair(x) };
    let [a, b, c, d] = quarters(x);
    for part in [&mut *a, &mut *b, &mut *c, &mut *d] {
        inverse(part, deeper);
    }
    for ((((a, b), c), d), [w1, w2, w3]) in a.iter_mut().zip(b).zip(c).zip(d).zip(twiddles) {
        let (p, q, r) = (*b * w2.conj(), *c * w1.conj(), *d * w3.conj());
        let (even_sum, odd_sum) = (*a + p, *a - p);
        let (even_difference, odd_difference) = (q + r, -times_minus_i(q - r));
        *a = even_sum + even_difference;
        *c = even_sum - even_difference;
        *b = odd_sum + odd_difference;
        *d = odd_sum - odd_difference;
    }
}

/// The transform of two points, or of one.
fn pair(x: &mut [Complex64]) {
    if let [a, b] = x {
        (*a, *b) = (*a + *b, *a - *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(size: usize) -> Vec<Complex64> {
        (0..size).map(|k| Complex64::new(((k * 37 + 11) % 101) as f64 - 50.0, ((k * 53) % 97) as f64)).collect()
    }

    #[test]
    fn forward_is_the_definition_in_bit_reversed_order() {
        for exponent in 0..8 {
            let fft = Fft::new(exponent);
            let x = points(fft.size());
            let mut computed = x.clone();
            fft.forward(&mut computed);
            for (place, value) in computed.iter().enumerate() {
                let j = if exponent == 0 { 0 } else { place.reverse_bits() >> (usize::BITS - exponent) };
                let exact: Complex64 = (0..fft.size())
                    .map(|k| {
                        let turn = ((j * k) % fft.size()) as f64 / fft.size() as f64;
                        let (sine, cosine) = sincos(core::f64::consts::TAU * turn);
                        x[k] * Complex64::new(cosine, -sine)
                    })
                    .sum();
                // at most 128 terms of size 112, each within 20 units of exact
                assert!((value - exact).norm() < 128.0 * 112.0 * 20.0 * UNIT, "{exponent} {j} {value} {exact}");
            }
        }
    }

    #[test]
    fn inverse_takes_forward_back_within_the_bound() {
        for exponent in [0, 1, 2, 3, 4, 9, 12, 15] {
            let fft = Fft::new(exponent);
            let x = points(fft.size());
            let mut computed = x.clone();
            fft.forward(&mut computed);
            fft.inverse(&mut computed);
            let norm: f64 = x.iter().map(Complex64::norm_sqr).sum();
            let scale = 1.0 / fft.size() as f64;
            let error: f64 = x.iter().zip(&computed).map(|(a, b)| (a - b * scale).norm_sqr()).sum();
            assert!(error.sqrt() <= 2.0 * fft.relative_error() * norm.sqrt(), "{exponent}");
        }
    }

    #[test]
    fn conjugates_stand_where_they_are_said_to() {
        let exponent = 6;
        let fft = Fft::new(exponent);
        let mut x: Vec<_> = points(fft.size()).iter().map(|z| Complex64::new(z.re, 0.0)).collect();
        fft.forward(&mut x);
        for (place, value) in x.iter().enumerate() {
            assert!((value - x[conjugate(place)].conj()).norm() < 1e-10);
        }
    }
}
