//! The last word on a candidate: integers and intervals of integers, at whatever precision it takes.
//!
//! `f(x)` is transcendental for `x ≠ 0` (Lindemann: e to a rational power other than 0), divisor and height are rational, so
//! `U` would have to agree with an irrational number for ever: the intervals become disjoint with probability one. At `x = 0`
//! the comparison is one of rationals; there `U < a` is decided as soon as all continuations of its digits are on one side.

use super::candidate::Candidate;
use crate::math::interval::Interval;
use crate::math::natural::Natural;

/// The precision that is tried first, beyond the bits that the shift moves.
const FIRST_ATTEMPT_BITS: u32 = 256;

/// Returns whether `U · divisor < f(x) · height · 2^shift`.
pub(super) fn is_accepted<F: Fn(u64) -> [u64; 2]>(candidate: &Candidate<'_, F>) -> bool {
    let mut precision = FIRST_ATTEMPT_BITS + candidate.shift.max(0).unsigned_abs();
    loop {
        let (digits, bits) = revealed(candidate, precision);
        let decided = if candidate.magnitude == 0 {
            at_zero(candidate, &digits, bits)
        } else {
            elsewhere(candidate, &digits, bits, precision)
        };
        if let Some(accepted) = decided {
            return accepted;
        }
        // mutant: last-stage-gives-up-after-first-precision
        precision *= 2;
    }
}

/// Returns at least `precision` digits of `U`, and how many these are.
fn revealed<F: Fn(u64) -> [u64; 2]>(candidate: &Candidate<'_, F>, precision: u32) -> (Natural, u32) {
    let mut digits = Natural::new(u128::from(candidate.digits));
    let mut bits = candidate.digit_bits;
    let mut next = candidate.next;
    while bits < precision {
        digits = digits.shl(64).add(&Natural::new(u128::from(candidate.further.word(next))));
        bits += 64;
        // mutant: digits-of-u-used-twice
        next += 1;
    }
    (digits, bits)
}

/// `digits · divisor · 2^−bits` against `height · 2^shift`, shift < 0.
fn at_zero<F: Fn(u64) -> [u64; 2]>(candidate: &Candidate<'_, F>, digits: &Natural, bits: u32) -> Option<bool> {
    let divisor = Natural::new(u128::from(candidate.divisor));
    let left = |digits: &Natural| digits.mul(&divisor).shl(candidate.shift.unsigned_abs());
    let right = Natural::new(u128::from(candidate.table.height)).shl(bits);
    if left(&digits.add(&Natural::new(1))) <= right {
        return Some(true);
    }
    (left(digits) >= right).then_some(false)
}

fn elsewhere<F: Fn(u64) -> [u64; 2]>(
    candidate: &Candidate<'_, F>,
    digits: &Natural,
    bits: u32,
    precision: u32,
) -> Option<bool> {
    let low = digits.shr(bits - precision);
    let uniform = Interval::new(low.clone(), low.add(&Natural::new(1)), precision);
    let left = uniform.mul(&Interval::integer(u64::from(candidate.divisor), precision));
    let table = candidate.table;
    let weight = table.scale.exponent(table.law, candidate.magnitude, precision).exp_neg();
    let right = weight.mul(&Interval::integer(u64::from(table.height), precision)).times_power_of_two(candidate.shift);
    if left.is_below(&right) {
        return Some(true);
    }
    // mutant: exact-stage-accepts-what-it-knows-too-little
    right.is_below(&left).then_some(false)
}
