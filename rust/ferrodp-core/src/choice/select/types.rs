//! What is shared by choosing and by thresholds: the kinds of noise, and floats as exact numbers.

use super::lazy::split;
use crate::math::integer::Integer;
use crate::math::natural::Natural;

/// Which noise is added to the utilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Gumbel: the exponential mechanism.
    Gumbel,
    /// One-sided exponential: permute-and-flip.
    Exponential,
    /// Laplace: report-noisy-max.
    Laplace,
}

/// A float as an integer times a power of two.
pub(super) struct Signed {
    pub(super) negative: bool,
    pub(super) magnitude: Natural,
    pub(super) exponent: i32,
}

impl Signed {
    pub(super) fn new(value: f64) -> Self {
        let (mantissa, exponent) = split(value.abs());
        Self { negative: value < 0.0, magnitude: Natural::new(u128::from(mantissa)), exponent }
    }

    pub(super) fn of(integer: &Integer) -> Self {
        Self { negative: integer.negative, magnitude: integer.magnitude.clone(), exponent: 0 }
    }

    /// Whether `self < other`.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        let ([a, b], _) = self.aligned(other);
        match (self.negative, other.negative) {
            (false, false) => a < b,
            (true, true) => a > b,
            (true, false) => !(a.is_zero() && b.is_zero()),
            (false, true) => false,
        }
    }

    /// Returns both magnitudes in units of the smaller power of two, and its exponent.
    pub(super) fn aligned(&self, other: &Self) -> ([Natural; 2], i32) {
        let exponent = self.exponent.min(other.exponent);
        ([self, other].map(|n| n.magnitude.shl((n.exponent - exponent).unsigned_abs())), exponent)
    }

    /// Returns the sum of the magnitudes.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let ([a, b], exponent) = self.aligned(other);
        Self { negative: false, magnitude: a.add(&b), exponent }
    }

    /// Returns `self − other`, which is ≥ 0.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let ([a, b], exponent) = self.aligned(other);
        let magnitude = match (self.negative, other.negative) {
            (false, true) => a.add(&b),
            (false, false) => a.saturating_sub(&b),
            _ => b.saturating_sub(&a),
        };
        Self { negative: false, magnitude, exponent }
    }
}

/// Returns a utility as it counts.
#[inline(always)]
pub(super) fn finite(utility: f64) -> f64 {
    if utility.is_finite() { utility } else { 0.0 }
}
