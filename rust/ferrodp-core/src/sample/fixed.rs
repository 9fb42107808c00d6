//! Third stage: is `z` above a threshold `t`? In 128-bit fixed point, with an error that is added up in units.
//!
//! `z > t` means `p < Φ̄(t)` (Gaussian) or `2p < e^−t` (Laplace). Both sides are computed in `Q126` (one unit is 2⁻¹²⁶);
//! the answer is given only if they differ by more than the sum of all errors, otherwise it is `None`.
//!
//! **Gaussian.** At the node `t_k = k/16` next to `t`, with `δ = t − t_k`,
//! `Φ̄(t)/φ(t_k) = M(t_k) − δ·Σₙ uₙ/(n + 1)`, `uₙ = Heₙ(t_k)(−δ)ⁿ/n!`, which follows from integrating the generating
//! function of the Hermite polynomials (Abramowitz & Stegun 22.9.17). Their recurrence (22.7.14) gives
//! `uₙ₊₁ = −(x·uₙ + δ²·uₙ₋₁)/(n + 1)` with `x = δ·t_k`. As `|δ| ≤ 2⁻⁵` and `t_k < 9.3`, `|x| < 0.3` and the terms vanish
//! below a unit before `n = 40`. The other side is `p/φ(t_k)`, a product with a tabulated number.
//!
//! *Errors, in units.* Each product is cut by less than one. So `|Δuₙ₊₁| ≤ (0.3|Δuₙ| + 0.001|Δuₙ₋₁| + 3)/(n + 1) + 1 ≤ 4`,
//! the sum is off by less than `5·Σ 1/(n + 1) < 25`, times `|δ|` less than one; that product, the node and the terms not
//! summed add one each: [`SERIES_ERROR`] = 8 is safe. An error `τ` of `t` moves `Φ̄(t)/φ(t_k)` by `τ·φ(t)/φ(t_k) < 1.4·τ`.
//!
//! **Laplace.** `t = j·ln 2 + r` with `0 ≤ r < ln 2`; compare `2p·2^j` with `e^−r = (e^−r/16)^16`. Twenty terms of the
//! series, each cut by less than 2 units, then four squarings that double the error: below `16·(2·20 + 4) + 15 < 1024`.

use core::cmp::Ordering;

use super::tables::mills::{LN_2, MILLS_NODES};
use super::types::{Law, Noise, Offset};
use crate::math::wide::{Q126, mul_q126, product_shifted};

/// Fraction bits of `h − f`, the numerator of the threshold.
const NUMERATOR_BITS: i32 = 79;

/// Fraction bits of the threshold `t`.
const THRESHOLD_FRACTION_BITS: i32 = 119;

/// Units of the Gaussian series; see above.
const SERIES_ERROR: u128 = 8;

/// Units of the exponential; see above.
const EXPONENTIAL_ERROR: u128 = 1024;

/// Returns how `z` compares with `t = (below + ½ − offset)/s`, or `None` if 128 bits do not tell.
pub(super) fn compare(noise: &Noise, head: u128, bits: u32, below: i64, offset: Offset) -> Option<Ordering> {
    let numerator = numerator(below, offset);
    if numerator <= 0 {
        // The numerator is off by less than one unit; if it may be positive, somebody else must say.
        return (numerator < -1).then_some(Ordering::Greater);
    }
    let (t, error) = threshold(noise, numerator.unsigned_abs())?;
    let (left, width, right, right_error) = match noise.law {
        Law::Gaussian => gaussian_sides(head, bits, t)?,
        Law::Laplace => laplace_sides(head, bits, t)?,
    };
    // One unit of `t` is 2⁷ units of `Q126`, and no side changes faster than 1.4 times `t`.
    let widening = (noise.widening / noise.ratio * crate::params::exp2(Q126.cast_signed())) as u128;
    let margin = error.checked_mul(180)?.checked_add(right_error)?.checked_add(widening)?;
    // mutant: third-stage-takes-bits-it-knows-for-all
    if left.checked_add(width)?.checked_add(margin)? < right {
        Some(Ordering::Greater)
    } else if left > right.checked_add(margin)? {
        Some(Ordering::Less)
    } else {
        None
    }
}

/// Returns `(below + ½ − offset) · 2^79`, off by less than one.
fn numerator(below: i64, offset: Offset) -> i128 {
    let half = (2 * i128::from(below) + 1) << (NUMERATOR_BITS - 1);
    let shift = offset.exponent + NUMERATOR_BITS;
    let mantissa = i128::from(offset.mantissa);
    // |offset| ≤ ½, so a left shift stays below 2^79.
    half - if shift >= 0 { mantissa << shift } else { mantissa >> shift.unsigned_abs().min(127) }
}

/// Returns `t` in units of 2⁻¹¹⁹, and how many of them it may be off by.
fn threshold(noise: &Noise, numerator: u128) -> Option<(u128, u128)> {
    // s = mantissa · 2^exponent with a mantissa of 53 bits; ⌊2^179/mantissa⌋ has 127 or 128 bits (2^127 at 2^52).
    let ratio_bits = noise.ratio.to_bits();
    let mantissa = u128::from((ratio_bits & ((1 << 52) - 1)) | (1 << 52));
    let exponent = ((ratio_bits >> 52) & 0x7ff) as i32 - 1075;
    let high = (1 << 127) / mantissa;
    let low = (((1 << 127) % mantissa) << 52) / mantissa;
    let reciprocal = (high << 52) | low;
    let shift = NUMERATOR_BITS + 179 - THRESHOLD_FRACTION_BITS + exponent;
    let t = product_shifted(numerator, reciprocal, shift.cast_unsigned())?;
    // The numerator's unit is worth 2^(119−79)/s of these, the reciprocal's 2⁻¹²⁶ relative, the cut one.
    let from_numerator = (crate::params::exp2(THRESHOLD_FRACTION_BITS - NUMERATOR_BITS) / noise.ratio).ceil() as u128;
    Some((t, from_numerator + (t >> 126) + 3))
}

/// Returns `p/φ(t_k)`, its width, `Φ̄(t)/φ(t_k)` and the latter's error.
fn gaussian_sides(head: u128, bits: u32, t: u128) -> Option<(u128, u128, u128, u128)> {
    let k = (t + (1 << (THRESHOLD_FRACTION_BITS - 5))) >> (THRESHOLD_FRACTION_BITS - 4);
    let node = MILLS_NODES.get(usize::try_from(k).ok()?)?;
    // k/16 in units of 2⁻¹¹⁹; |δ| ≤ 2⁻⁵.
    let delta = t.cast_signed() - (k << (THRESHOLD_FRACTION_BITS - 4)).cast_signed();
    let x = (delta << 3) * k.cast_signed();
    let delta = delta << 7;
    let delta_squared = mul_q126(delta, delta);

    let (mut previous, mut u, mut sum, mut n) = (0, 1_i128 << Q126, 1_i128 << Q126, 1);
    while u != 0 || previous != 0 {
        (previous, u) = (u, -(mul_q126(x, u) + mul_q126(delta_squared, previous)) / n);
        n += 1;
        sum += u / n;
    }
    let right = node.mills.cast_signed() - mul_q126(delta, sum);

    // p = head·2^−(bits+1), 1/φ = mantissa·2^(exponent−127); the sum of the exponents is −(bits + 2 − exponent) in Q126.
    let shift = bits + 2 - node.exponent;
    let left = product_shifted(head, node.inverse_density, shift)?;
    let width = if shift < 128 { node.inverse_density >> shift } else { 0 };
    Some((left, width + 3, u128::try_from(right).ok()?, SERIES_ERROR))
}

/// Returns `2p·2^j`, its width, `e^−r` and the latter's error.
fn laplace_sides(head: u128, bits: u32, t: u128) -> Option<(u128, u128, u128, u128)> {
    let ln2 = LN_2 >> 7;
    let j = t / ln2;
    // ln 2 cut to 119 bits: each of the j subtractions may leave r a unit of 2⁻¹¹⁹ too large, 128 units of Q126.
    let r = (t - j * ln2) << 7;
    let w = (r >> 4).cast_signed();
    let (mut term, mut sum, mut n) = (1_i128 << Q126, 1_i128 << Q126, 1);
    while term != 0 {
        term = -mul_q126(term, w) / n;
        sum += term;
        n += 1;
    }
    let mut power = sum;
    for _ in 0..4 {
        power = mul_q126(power, power);
    }
    let shift = i64::try_from(j).ok()? + i64::from(Q126) - i64::from(bits);
    let (left, width) = if shift >= 0 {
        let shift = u32::try_from(shift).ok()?;
        (head.checked_mul(1_u128.checked_shl(shift)?)?, 1_u128 << shift)
    } else {
        (head >> shift.unsigned_abs().min(127), 1)
    };
    Some((left, width, power.cast_unsigned(), EXPONENTIAL_ERROR + 128 * j))
}
