//! What floats leave open: the noise of one value at one step in fixed point, with as many digits as it takes.
//!
//! Nothing is kept for this. The variables of all steps are drawn again from their keys, and the recursion is run again, in
//! integers in units of `2^−W`, each operation cutting off less than one. [`Bounds::of_fixed_point`] tells how far the result may
//! be from the truth; where two integers remain possible, more digits are drawn.

use super::bounds::{Bounds, of_digits};
use super::system::System;
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::memory;
use crate::math::integer::Integer;
use crate::math::natural::Natural;
use crate::params::exp2;
use crate::random::Key;
use crate::sample::standard::{Normals, Precision, standard};

/// Digits of the variables that are tried first.
const FIRST_BITS: u32 = 52;

/// Fraction bits beyond those of the variables.
const GUARD_BITS: u32 = 64;

/// Fraction bits of numbers of 128 bits, whose products with 53 bits have room.
const SHORT_FRACTION: u32 = 58;

/// Room for the buffers of one value, made before anything is drawn.
pub(super) struct Room {
    integers: Vec<Integer>,
    short: Vec<i128>,
}

impl Room {
    /// Returns room for so many buffers.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]
    pub(super) fn new(num_buffers: usize) -> Result<Self, Error> {
        let mut integers = memory::room(num_buffers)?;
        integers.resize(num_buffers, Integer::default());
        Ok(Self { integers, short: memory::filled(0, num_buffers)? })
    }
}

/// One value's share of a stream.
pub(super) struct Question<'a> {
    pub(super) isa: Isa,
    pub(super) system: &'a System,
    pub(super) totals: bool,
    pub(super) bounds: &'a Bounds,
    /// Gives the key of a step.
    pub(super) key_of: &'a dyn Fn(u64) -> Key,
    pub(super) step: u64,
    pub(super) index: u64,
    /// Grid steps in a standard deviation.
    pub(super) ratio: f64,
}

impl Question<'_> {
    /// Returns `round(mantissa · 2^exponent + ratio · noise)`.
    ///
    /// `room` is room for the buffers, whatever is in it.
    pub(super) fn nearest(&self, mantissa: i64, exponent: i32, room: &mut Room) -> i128 {
        if let Some(nearest) = self.short(mantissa, exponent, &mut room.short) {
            return nearest;
        }
        let buffers = room.integers.as_mut_slice();
        let mut bits = FIRST_BITS;
        loop {
            let fraction = bits + GUARD_BITS;
            let noise = self.noise(bits, fraction, buffers);
            let error = self.bounds.of_fixed_point(of_digits(bits), exp2(-(fraction.cast_signed())));
            let unit = Integer { negative: mantissa < 0, magnitude: Natural::new(u128::from(mantissa.unsigned_abs())) };
            let sum = add(&shifted(&unit, exponent + fraction.cast_signed()), &times(&noise, self.ratio));
            // The value and the product are cut off as well.
            let off = Natural::new((error * self.ratio * exp2(fraction.min(900).cast_signed())).ceil() as u128 + 3);
            let off = if fraction > 900 { off.shl(fraction - 900) } else { off };
            let off = Integer { negative: false, magnitude: off };
            let low = rounded(&add(&sum, &negated(&off)), fraction);
            let high = rounded(&add(&sum, &off), fraction);
            if low == high {
                return low;
            }
            bits *= 2;
        }
    }

    /// Returns the same in numbers of 128 bits, if those have room and tell.
    fn short(&self, mantissa: i64, exponent: i32, buffers: &mut [i128]) -> Option<i128> {
        let source = standard();
        let variable = |step: u64| {
            let key = (self.key_of)(step);
            // Below 2⁷ in size, and cut off by less than one unit.
            (Normals::new(&source, self.isa, &key).propose_one(self.index) * exp2(SHORT_FRACTION.cast_signed())) as i128
        };
        buffers.fill(0);
        let (mut total, mut noise) = (0_i128, 0_i128);
        let first = if matches!(self.system, System::Inverse(_)) && !self.totals { self.step } else { 0 };
        for step in first..=self.step {
            noise = match self.system {
                System::Banded(_) | System::Rows { .. } => {
                    let row = self.system.row(step);
                    if row[0] != 1.0 {
                        return None;
                    }
                    let mut sum = variable(step);
                    for (lag, coefficient) in (1_u64..).zip(&row[1..]).filter(|(lag, _)| *lag <= step) {
                        sum = sum.checked_sub(short_times(buffers[self.system.slot(step, lag)], *coefficient)?)?;
                    }
                    if row.len() > 1 {
                        buffers[self.system.slot(step, 0)] = sum;
                    }
                    sum
                }
                System::Buffered { decays, weights } => {
                    let mut sum = variable(step);
                    for (buffer, weight) in buffers.iter().zip(weights) {
                        sum = sum.checked_sub(short_times(*buffer, *weight)?)?;
                    }
                    for (buffer, decay) in buffers.iter_mut().zip(decays) {
                        *buffer = short_times(*buffer, *decay)?.checked_add(sum)?;
                    }
                    sum
                }
                System::Inverse(coefficients) => {
                    let mut sum = 0_i128;
                    for (lag, coefficient) in (0_u64..).zip(coefficients).filter(|(lag, _)| *lag <= step) {
                        sum = sum.checked_add(short_times(variable(step - lag), *coefficient)?)?;
                    }
                    sum
                }
            };
            total = total.checked_add(noise)?;
        }
        let noise = if self.totals { total } else { noise };
        let unit = exp2(-(SHORT_FRACTION.cast_signed()));
        let error = self.bounds.of_fixed_point(Precision::Fine.error() + unit, unit) * self.ratio / unit + 4.0;
        if error > exp2(100) {
            return None;
        }
        let off = error.ceil() as i128;
        let value = short_shifted(i128::from(mantissa), exponent + SHORT_FRACTION.cast_signed())?;
        let sum = value.checked_add(short_times(noise, self.ratio)?)?.checked_add(1 << (SHORT_FRACTION - 1))?;
        let (low, high) = (sum.checked_sub(off)? >> SHORT_FRACTION, sum.checked_add(off)? >> SHORT_FRACTION);
        // mutant: short-sums-taken-as-they-are
        (low == high).then_some(low)
    }

    /// Returns the noise in units of `2^−fraction`.
    fn noise(&self, bits: u32, fraction: u32, buffers: &mut [Integer]) -> Integer {
        let source = standard();
        let variable = |step: u64| {
            let key = (self.key_of)(step);
            let z = Normals::new(&source, self.isa, &key).enclose(self.index, bits);
            // The middle of what it is known to be in.
            let magnitude = z.magnitude.shl(1).add(&Natural::new(1)).shl(fraction - bits - 1);
            Integer { negative: z.negative, magnitude }
        };
        buffers.fill(Integer::default());
        let mut total = Integer::default();
        let mut noise = Integer::default();
        let first = match self.system {
            System::Inverse(_) if !self.totals => self.step,
            _ => 0,
        };
        for step in first..=self.step {
            noise = match self.system {
                System::Banded(_) | System::Rows { .. } => {
                    let row = self.system.row(step);
                    let mut sum = variable(step);
                    for (lag, coefficient) in (1_u64..).zip(&row[1..]).filter(|(lag, _)| *lag <= step) {
                        sum = add(&sum, &negated(&times(&buffers[self.system.slot(step, lag)], *coefficient)));
                    }
                    let noise = over(&sum, row[0]);
                    if row.len() > 1 {
                        buffers[self.system.slot(step, 0)] = noise.clone();
                    }
                    noise
                }
                System::Buffered { decays, weights } => {
                    let mut sum = variable(step);
                    for (buffer, weight) in buffers.iter().zip(weights) {
                        sum = add(&sum, &negated(&times(buffer, *weight)));
                    }
                    for (buffer, decay) in buffers.iter_mut().zip(decays) {
                        *buffer = add(&times(buffer, *decay), &sum);
                    }
                    sum
                }
                System::Inverse(coefficients) => {
                    let mut sum = Integer::default();
                    for (lag, coefficient) in (0_u64..).zip(coefficients).filter(|(lag, _)| *lag <= step) {
                        sum = add(&sum, &times(&variable(step - lag), *coefficient));
                    }
                    sum
                }
            };
            if self.totals {
                total = add(&total, &noise);
            }
        }
        if self.totals { total } else { noise }
    }
}

/// Returns `⌊value · 2^by⌋`, if there is room.
fn short_shifted(value: i128, by: i32) -> Option<i128> {
    if by <= 0 {
        return Some(value >> by.unsigned_abs().min(127));
    }
    let by = by.unsigned_abs();
    let is_free = value == 0 || by < value.unsigned_abs().leading_zeros();
    is_free.then(|| value.checked_shl(by).unwrap_or(0))
}

/// Returns `⌊value · factor⌋`, if there is room.
fn short_times(value: i128, factor: f64) -> Option<i128> {
    let (mantissa, exponent) = parts(factor);
    let mantissa = i128::from(mantissa);
    short_shifted(value.checked_mul(if factor < 0.0 { -mantissa } else { mantissa })?, exponent)
}

/// Returns the mantissa and the exponent of a float's size.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let (biased, fraction) = (((bits >> 52) & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) }
}

fn negated(value: &Integer) -> Integer {
    Integer { negative: !value.negative, magnitude: value.magnitude.clone() }
}

fn add(a: &Integer, b: &Integer) -> Integer {
    if a.negative == b.negative {
        return Integer { negative: a.negative, magnitude: a.magnitude.add(&b.magnitude) };
    }
    if a.magnitude >= b.magnitude {
        return Integer { negative: a.negative, magnitude: a.magnitude.saturating_sub(&b.magnitude) };
    }
    Integer { negative: b.negative, magnitude: b.magnitude.saturating_sub(&a.magnitude) }
}

/// Returns `value · 2^by`, cut toward zero.
fn shifted(value: &Integer, by: i32) -> Integer {
    let size = by.unsigned_abs();
    let magnitude = if by >= 0 { value.magnitude.shl(size) } else { value.magnitude.shr(size) };
    Integer { negative: value.negative, magnitude }
}

/// Returns `value · factor`, cut toward zero.
fn times(value: &Integer, factor: f64) -> Integer {
    let (mantissa, exponent) = parts(factor);
    let product = value.magnitude.mul(&Natural::new(u128::from(mantissa)));
    shifted(&Integer { negative: value.negative != (factor < 0.0), magnitude: product }, exponent)
}

/// Returns `value / divisor`, cut toward zero.
fn over(value: &Integer, divisor: f64) -> Integer {
    let (mantissa, exponent) = parts(divisor);
    let negative = value.negative != (divisor < 0.0);
    let dividend = shifted(&Integer { negative, magnitude: value.magnitude.clone() }, -exponent.min(0));
    let magnitude = dividend.magnitude.div(mantissa).0;
    shifted(&Integer { negative, magnitude }, -exponent.max(0))
}

/// Returns `⌊value · 2^−fraction + ½⌋`.
fn rounded(value: &Integer, fraction: u32) -> i128 {
    let sum = add(value, &Integer { negative: false, magnitude: Natural::new(1).shl(fraction - 1) });
    let whole = sum.magnitude.shr(fraction);
    let is_whole = whole.shl(fraction) == sum.magnitude;
    let size = (u128::from(whole.shr(64).low()) << 64 | u128::from(whole.low())).cast_signed();
    if !sum.negative {
        size
    } else if is_whole {
        -size
    } else {
        -size - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(value: i64) -> Integer {
        Integer { negative: value < 0, magnitude: Natural::new(u128::from(value.unsigned_abs())) }
    }

    #[test]
    fn integers_round_as_floors_do() {
        for value in -300_i64..300 {
            assert_eq!(i128::from((value + 8).div_euclid(16)), rounded(&integer(value), 4), "{value}");
        }
    }

    #[test]
    fn numbers_of_128_bits_say_where_they_have_no_room() {
        assert_eq!(Some(1 << 126), short_shifted(1, 126));
        assert_eq!(None, short_shifted(1, 127));
        assert_eq!(Some(0), short_shifted(0, 1000));
        assert_eq!(Some(-1), short_shifted(-5, -1000));
        assert_eq!(None, short_times(1 << 90, 1.5));
        assert_eq!(None, short_times(1 << 60, 1e30));
    }

    #[test]
    fn products_and_quotients_are_cut_by_less_than_one() {
        for value in [-1_000_003_i64, -7, 0, 5, 999_983] {
            for factor in [1.0, -0.75, 3.5, 0.001, -1e6, 1.0 / 3.0] {
                let exact = value as f64 * factor;
                let short = short_times(i128::from(value), factor).expect("room");
                assert!((short as f64 - exact).abs() < 1.001 && short as f64 <= exact.max(exact + 1e-9));
                assert!((times(&integer(value), factor).approximate(0) - exact).abs() < 1.001, "{value} {factor}");
                assert!((over(&integer(value), factor).approximate(0) - value as f64 / factor).abs() < 1.001);
            }
        }
    }
}
