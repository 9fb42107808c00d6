//! Composition of many grid laws, tilted, by one circular convolution.
//!
//! Each law is multiplied by e^(θk) on node k and scaled to mass 1, so that the tilted composition lives where the question
//! is asked and rounding errors are relative to what is found there (shifted convolution: Keich, "sFFT: a faster accurate
//! computation of the p-value of the entropy score", J. Comput. Biol. 2005; Wilson, Keich, "Accurate pairwise convolutions of
//! non-negative vectors via FFT", CSDA 2016). The upper law is the real part and the lower law the imaginary part of one
//! transform. Node 0, which holds most of the mass of a weak step, is kept out of the transform and added as a constant, so
//! that a transform's error is relative to the rest.
//!
//! # Numerics
//!
//! With u = 2⁻⁵³, Tᵢ repetitions of step i, T = ΣTᵢ, N points and ‖·‖ the Euclidean norm:
//!
//! - *Tilting.* e^(θk) has exact arguments (θ has few digits) and 8u of error; with two products every tilted mass is within
//!   12u, so every mass of the composition within a factor (1 ± 12u)^T.
//! - *Transforms.* ‖ΔFᵢ‖ ≤ c√N‖fᵢ‖, c from [`Fft::relative_error`], fᵢ without node 0; and |Fᵢ| ≤ 1 + 4u + ‖ΔFᵢ‖. The
//!   product ∏Fᵢ^Tᵢ is off by at most B·ΣTᵢ‖ΔFᵢ‖ with B = exp(ΣTᵢ(8u + ‖ΔFᵢ‖)).
//! - *Powers.* A product of complex floats is within √5u; x^n by squaring is within (n − 1)√5u, as is any product of n
//!   factors; with the addition of node 0: a relative error of at most exp(4uT) − 1 of every value.
//! - *Back.* ‖Δy‖ ≤ (B·ΣTᵢ‖ΔFᵢ‖ + (exp(4uT) − 1 + c)·2‖G‖)/√N, G the computed product. Division by N is exact.
//! - *Wrap-around* adds mass, which an upper bound may have; what a lower bound subtracts, and what an upper one adds for the
//!   nodes above the window, are Chernoff bounds from sums over e^((θ ± s)k) that are taken along the way.

pub mod fft;

use crate::functions::{UNIT, exp, expm1, ln, ln_1p, sqrt};
use crate::memory::{filled, gathered};
use crate::pld::discretize::Bracket;
use crate::pld::discretize::cells::sum;
use crate::pld::grid::GridLoss;
use fft::{Fft, conjugate};
use num_complex::Complex64;

/// Which part of the line a composition keeps, and how it is tilted.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First node of the composition that is kept.
    pub first: i64,
    /// Tilt per node; a float of at most 24 digits.
    pub theta: f64,
    /// Additional tilt of the Chernoff bound above the window; at most 24 digits.
    pub above: f64,
    /// The same, downward, below it.
    pub below: f64,
}

/// One of the two laws of a composition.
#[derive(Clone, Debug)]
pub struct Side {
    /// Tilted masses of the window's nodes, computed.
    pub tilted: Vec<f64>,
    /// ln of what they were divided by.
    pub log_scale: f64,
    /// Bound on the error of `log_scale`.
    pub log_scale_error: f64,
    /// Mass of +∞: an upper bound for the upper law, a lower one for the lower.
    pub infinity: f64,
    /// ln of a bound on the tilted mass above the window.
    pub log_above: f64,
    /// ln of a bound on the tilted mass below it.
    pub log_below: f64,
}

/// A composition of grid laws, tilted.
#[derive(Clone, Debug)]
pub struct Composition {
    /// Distance of neighboring nodes.
    pub step: f64,
    /// Loss of node 0.
    pub offset: f64,
    /// Where the window lies.
    pub window: Window,
    /// The upper law.
    pub upper: Side,
    /// The lower law.
    pub lower: Side,
    /// Numbers of the lowest and the highest node that can have mass.
    pub ends: (f64, f64),
    /// Bound on the Euclidean norm of the errors of either side's tilted masses, but for the factor `relative`.
    pub noise: f64,
    /// Bound on ln of the factor by which tilted masses may be off.
    pub relative: f64,
    /// Bound on the variance that was added to the loss in the lower law.
    pub spread: f64,
}

/// Adds up steps; [`Self::finish`] turns them into a composition.
pub struct Composer<'a> {
    fft: &'a Fft,
    window: Window,
    buffer: Vec<Complex64>,
    upper: Product,
    lower: Product,
    offset: f64,
    step: f64,
    steps: f64,
    ends: (f64, f64),
    spread: f64,
    /// ΣTᵢ‖ΔFᵢ‖
    transform_error: f64,
}

struct Product {
    spectrum: Vec<Complex64>,
    log_scale: f64,
    log_scale_error: f64,
    log_finite: f64,
    log_finite_error: f64,
    log_above: f64,
    log_below: f64,
}

impl Product {
    fn new(size: usize) -> Self {
        Self {
            spectrum: filled(Complex64::new(1.0, 0.0), size / 2 + 1),
            log_scale: 0.0,
            log_scale_error: 0.0,
            log_finite: 0.0,
            log_finite_error: 16.0 * UNIT,
            log_above: 0.0,
            log_below: 0.0,
        }
    }
}

impl<'a> Composer<'a> {
    /// Starts with no steps at all, on a grid of this step.
    #[must_use]
    pub fn new(fft: &'a Fft, window: Window, step: f64) -> Self {
        let buffer = filled(Complex64::default(), fft.size());
        let (upper, lower) = (Product::new(fft.size()), Product::new(fft.size()));
        Self {
            fft,
            window,
            buffer,
            upper,
            lower,
            offset: 0.0,
            step,
            steps: 0.0,
            ends: (0.0, 0.0),
            spread: 0.0,
            transform_error: 0.0,
        }
    }

    /// Adds `count` repetitions of one step.
    pub fn add(&mut self, bracket: &Bracket, count: u64) {
        let times = count as f64;
        self.buffer.fill(Complex64::default());
        let centers = (
            tilt(&bracket.upper, count, self.window, &mut self.upper, &mut self.buffer, |slot, f| slot.re += f),
            tilt(&bracket.lower, count, self.window, &mut self.lower, &mut self.buffer, |slot, f| slot.im += f),
        );
        let norm: f64 = self.buffer.iter().map(Complex64::norm_sqr).sum();
        let size = self.fft.size() as f64;
        // mutant: error-of-the-transforms
        self.transform_error += times * self.fft.relative_error() * sqrt(size * norm) * (1.0 + 1e-6);
        self.fft.forward(&mut self.buffer);
        for_half(self.fft.size(), |slot, i, mirrored| {
            let (z, w) = (self.buffer[i], self.buffer[mirrored].conj());
            let (up, low) = ((z + w) * 0.5, (z - w) * 0.5);
            let up = up + centers.0;
            let low = Complex64::new(low.im + centers.1, -low.re);
            let (up, low) = powers(up, low, count);
            self.upper.spectrum[slot] *= up;
            self.lower.spectrum[slot] *= low;
        });
        self.offset += times * bracket.upper.offset;
        self.steps += times;
        self.spread += times * bracket.spread;
        let law = &bracket.upper;
        self.ends.0 += times * law.first as f64;
        self.ends.1 += times * (law.first as f64 + law.p.len() as f64 - 1.0);
    }

    /// Returns the composition of all that was added.
    #[must_use]
    pub fn finish(mut self) -> Composition {
        for_half(self.fft.size(), |slot, i, mirrored| {
            let (up, low) = (self.upper.spectrum[slot], self.lower.spectrum[slot]);
            self.buffer[i] = Complex64::new(up.re - low.im, up.im + low.re);
            self.buffer[mirrored] = Complex64::new(up.re + low.im, low.re - up.im);
        });
        let norm = sqrt(self.buffer.iter().map(Complex64::norm_sqr).sum());
        self.fft.inverse(&mut self.buffer);
        let scale = 1.0 / self.fft.size() as f64;
        let growth = exp(self.transform_error + 8.0 * UNIT * self.steps);
        let powers = expm1(4.0 * UNIT * self.steps);
        let noise = growth * self.transform_error + (powers + self.fft.relative_error()) * 2.0 * norm;
        let start = self.window.first.rem_euclid(self.fft.size() as i64) as usize;
        self.buffer.rotate_left(start);
        let upper = gathered(self.buffer.iter().map(|z| z.re * scale));
        let lower = gathered(self.buffer.iter().map(|z| z.im * scale));
        Composition {
            step: self.step,
            offset: self.offset,
            window: self.window,
            upper: self.upper.side(upper, true),
            lower: self.lower.side(lower, false),
            ends: (self.ends.0 * (1.0 + 1e-12) - 1.0, self.ends.1 * (1.0 + 1e-12) + 1.0),
            noise: noise * sqrt(scale) * (1.0 + 1e-6),
            relative: 12.0 * UNIT * self.steps,
            spread: self.spread * (1.0 + 1e-12),
        }
    }
}

impl Product {
    fn side(&self, tilted: Vec<f64>, is_upper: bool) -> Side {
        let infinity = -expm1(self.log_finite);
        let error = if is_upper { self.log_finite_error } else { -self.log_finite_error };
        let infinity = infinity * (1.0 + error);
        Side {
            tilted,
            log_scale: self.log_scale,
            log_scale_error: self.log_scale_error + 4.0 * UNIT * self.log_scale.abs(),
            infinity: infinity.clamp(0.0, 1.0),
            log_above: self.log_above,
            log_below: self.log_below,
        }
    }
}

/// Writes the tilted law into the buffer, without node 0, which is returned; adds its scale and its tails to the product.
fn tilt(
    law: &GridLoss,
    count: u64,
    window: Window,
    product: &mut Product,
    buffer: &mut [Complex64],
    mut write: impl FnMut(&mut Complex64, f64),
) -> f64 {
    let times = count as f64;
    let weights: Vec<f64> = gathered(law.p.iter().zip(law.first..).map(|(&p, k)| tilted(p, window.theta, k)));
    let total = sum(&weights);
    let (mut above, mut below) = (0.0, 0.0);
    for (&f, k) in weights.iter().zip(law.first..) {
        above += tilted(f, window.above, k);
        below += tilted(f, -window.below, k);
    }
    let size = buffer.len() as i64;
    let center = law.center();
    for ((i, &f), k) in weights.iter().enumerate().zip(law.first..) {
        if i != center && f > 0.0 {
            write(&mut buffer[k.rem_euclid(size) as usize], f / total);
        }
    }
    product.log_scale += times * ln(total);
    product.log_scale_error += times * 16.0 * UNIT * ln(total).abs();
    product.log_finite += times * ln_1p(-law.infinity);
    product.log_finite_error += UNIT;
    let slack = (law.p.len() as f64 + 64.0) * UNIT; // of a plain sum, its exponentials and the logarithm of the quotient
    product.log_above += times * (ln(above / total) + slack);
    product.log_below += times * (ln(below / total) + slack);
    weights[center] / total
}

/// Returns p·e^(θk); +∞ where it is no float, which makes every bound that follows trivial.
fn tilted(p: f64, theta: f64, k: i64) -> f64 {
    if p > 0.0 { p * exp(theta * k as f64) } else { 0.0 }
}

/// Calls `visit(slot, i, i′)` for all pairs of frequencies j and −j, which stand at i and i′ in bit-reversed order.
fn for_half(size: usize, mut visit: impl FnMut(usize, usize, usize)) {
    visit(0, 0, 0);
    if size > 1 {
        visit(1, 1, 1);
    }
    let mut slot = 2;
    let mut block = 2;
    while block < size {
        for i in block..block + block / 2 {
            visit(slot, i, conjugate(i));
            slot += 1;
        }
        block *= 2;
    }
}

/// Returns both numbers to the power `count`.
#[inline(always)]
fn powers(mut x: Complex64, mut y: Complex64, count: u64) -> (Complex64, Complex64) {
    let (mut a, mut b) = (Complex64::new(1.0, 0.0), Complex64::new(1.0, 0.0));
    let mut left = count;
    while left > 1 {
        if left & 1 == 1 {
            a *= x;
            b *= y;
        }
        x *= x;
        y *= y;
        left >>= 1;
    }
    if left == 1 { (a * x, b * y) } else { (a, b) }
}
