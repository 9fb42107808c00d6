//! Which distance the nodes of a grid should have.

use crate::functions::UNIT;

/// Returns a step no larger than `wanted` that divides as many of the spacings as possible, the first one surely.
pub(in crate::pld) fn fitting(spacings: &[f64], wanted: f64) -> f64 {
    let Some(&spacing) = spacings.first() else { return short(wanted, 12) };
    let least = libm::ceil(spacing / wanted).max(1.0);
    let fits = |n: f64| spacings.iter().filter(|&&s| is_multiple(s, spacing / n)).count();
    let best = (0..64).map(|i| least + f64::from(i)).max_by_key(|&n| (fits(n), -(n as i64)));
    spacing / best.unwrap_or(least)
}

/// Returns the largest float ≤ x > 0 with so many digits: its products with integers of 53 − `digits` digits are exact.
pub(in crate::pld) fn short(x: f64, digits: u32) -> f64 {
    f64::from_bits(x.to_bits() & !((1_u64 << (53 - digits)) - 1))
}

/// Returns the smallest exponent with 2^exponent ≥ x.
pub(in crate::pld) fn log2_ceil(x: f64) -> u32 {
    if x < 1e18 { (x.max(1.0) as u64 + 1).next_power_of_two().trailing_zeros() } else { 60 }
}

/// Returns whether s is a whole multiple of h, as nearly as floats can tell.
fn is_multiple(s: f64, h: f64) -> bool {
    let quotient = s / h;
    (quotient - libm::rint(quotient)).abs() <= 8.0 * UNIT * quotient
}

/// Returns a step that divides all of the spacings, if one of at least 1/64 of the smallest does.
pub(in crate::pld) fn common(spacings: &[f64]) -> Option<f64> {
    let smallest = *spacings.first()?;
    (1..=64).map(|n| smallest / f64::from(n)).find(|&step| spacings.iter().all(|&s| is_multiple(s, step)))
}
