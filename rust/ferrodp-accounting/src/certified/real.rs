//! Binary floating-point numbers of `64·N` bits, rounded up or down as asked.

use core::cmp::Ordering;

use crate::types::Rounding;

/// Most limbs of a number; its products have twice as many.
const MAX_LIMBS: usize = 12;
const PRODUCT_LIMBS: usize = 2 * MAX_LIMBS + 2;

/// A real number `±m·2^e` with a whole number `2^(64N−1) ≤ m < 2^(64N)`, or zero.
///
/// Exponents are 64 bits wide and stay below 2⁶⁰ for all that is computed here, so nothing over- or underflows.
#[derive(Clone, Copy, Debug)]
pub struct Real<const N: usize> {
    negative: bool,
    exponent: i64,
    /// The digits of `m`, least significant first; all are zero for zero.
    limbs: [u64; N],
}

/// A natural number of up to `PRODUCT_LIMBS` limbs.
type Wide = [u64; PRODUCT_LIMBS];

/// Adds `x·2^(64·at)` to `sum`.
fn add_at(sum: &mut [u64], x: &[u64], at: usize) {
    let mut carry = false;
    for (i, limb) in sum.iter_mut().skip(at).enumerate() {
        let digit = x.get(i).copied();
        if digit.is_none() && !carry {
            return;
        }
        let (part, first) = limb.overflowing_add(digit.unwrap_or(0));
        let (part, second) = part.overflowing_add(u64::from(carry));
        (*limb, carry) = (part, first || second);
    }
}

/// Subtracts `y` from `x` and returns whether that would be negative: then 2^(64·len) was added.
fn subtract(x: &mut [u64], y: &[u64]) -> bool {
    let mut borrow = false;
    for (i, digit) in x.iter_mut().enumerate() {
        let (part, first) = digit.overflowing_sub(y.get(i).copied().unwrap_or(0));
        let (part, second) = part.overflowing_sub(u64::from(borrow));
        (*digit, borrow) = (part, first || second);
    }
    borrow
}

/// Returns `x·2^by` in `PRODUCT_LIMBS` limbs.
fn shifted(x: &[u64], by: usize) -> Wide {
    let (words, bits) = (by / 64, by % 64);
    let mut found = [0; PRODUCT_LIMBS];
    for (i, &digit) in x.iter().enumerate() {
        found[words + i] |= digit << bits;
        if bits > 0 && words + i + 1 < PRODUCT_LIMBS {
            found[words + i + 1] |= digit >> (64 - bits);
        }
    }
    found
}

/// Doubles `x`.
fn double(x: &mut [u64]) {
    let mut carry = 0;
    for digit in x {
        (*digit, carry) = (*digit << 1 | carry, *digit >> 63);
    }
}

/// Halves `x`, rounded down.
fn halve(x: &mut [u64]) {
    let mut carry = 0;
    for digit in x.iter_mut().rev() {
        (*digit, carry) = (*digit >> 1 | carry, *digit << 63);
    }
}

fn compare(x: &[u64], y: &[u64]) -> Ordering {
    x.iter().rev().cmp(y.iter().rev())
}

impl<const N: usize> Real<N> {
    /// Zero.
    pub const ZERO: Self = Self { negative: false, exponent: 0, limbs: [0; N] };

    /// Returns the number with this sign and magnitude: `digits·2^exponent`, and something less than one unit of `digits` more
    /// if there is a `rest`.
    fn rounded(negative: bool, digits: &[u64], exponent: i64, rest: bool, rounding: Rounding) -> Self {
        let Some(top) = digits.iter().rposition(|&digit| digit > 0) else {
            debug_assert!(!rest, "nothing but a rest has no leading digit");
            return Self::ZERO;
        };
        let bits = 64 * (top as i64 + 1) - i64::from(digits[top].leading_zeros());
        let drop = bits - 64 * N as i64;
        let mut limbs = [0; N];
        let mut inexact = rest;
        if drop <= 0 {
            debug_assert!(drop == 0 || !rest, "a rest is below one unit of the result");
            limbs.copy_from_slice(&shifted(&digits[..=top], (-drop) as usize)[..N]);
        } else {
            let (words, bits) = ((drop / 64) as usize, (drop % 64) as u32);
            inexact |= digits[..words].iter().any(|&digit| digit > 0);
            inexact |= bits > 0 && digits[words] << (64 - bits) > 0;
            for (i, limb) in limbs.iter_mut().enumerate() {
                let high = digits.get(words + i + 1).copied().unwrap_or(0);
                *limb = digits[words + i] >> bits | if bits > 0 { high << (64 - bits) } else { 0 };
            }
        }
        let mut exponent = exponent + drop;
        // mutant: certified-numbers-rounded-to-zero
        if inexact && negative == (rounding == Rounding::Down) {
            add_at(&mut limbs, &[1], 0);
            if limbs == [0; N] {
                limbs[N - 1] = 1 << 63;
                exponent += 1;
            }
        }
        Self { negative, exponent, limbs }
    }

    /// Returns the number that a finite float denotes.
    ///
    /// # Panics
    /// If `value` is infinite or no number.
    #[must_use]
    pub fn new(value: f64) -> Self {
        assert!(value.is_finite(), "only numbers are enclosed");
        let bits = value.to_bits();
        let (biased, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
        let (digits, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        Self::rounded(value.is_sign_negative(), &[digits], exponent, false, Rounding::Down)
    }

    /// Returns an integer.
    #[must_use]
    pub fn integer(value: u64) -> Self {
        Self::rounded(false, &[value], 0, false, Rounding::Down)
    }

    /// Returns the number in fewer or more bits.
    #[must_use]
    pub fn converted<const M: usize>(self, rounding: Rounding) -> Real<M> {
        Real::rounded(self.negative, &self.limbs, self.exponent, false, rounding)
    }

    /// Returns whether it is negative, the whole number m in hexadecimal and e, where it is ±m·2^e.
    #[must_use]
    pub fn parts(self) -> (bool, String, i64) {
        let digits = self.limbs.iter().rev().map(|limb| format!("{limb:016x}")).collect();
        (self.is_negative(), digits, self.exponent)
    }

    /// Whether it is 0.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.limbs[N - 1] == 0
    }

    /// Whether it is below 0.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.negative && !self.is_zero()
    }

    /// Returns `⌊log₂|x|⌋` of a number that is not 0.
    #[must_use]
    pub fn magnitude(self) -> i64 {
        self.exponent + 64 * N as i64 - 1
    }

    /// Returns `−x`.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Returns `|x|`.
    #[must_use]
    pub fn abs(self) -> Self {
        Self { negative: false, ..self }
    }

    /// Returns `x·2^by`, exactly.
    #[must_use]
    pub fn scaled(self, by: i64) -> Self {
        Self { exponent: self.exponent + by, ..self }
    }

    /// Returns the float next to it in this direction; beyond the largest one, that or infinity.
    #[must_use]
    pub fn float(self, rounding: Rounding) -> f64 {
        if self.is_zero() {
            return 0.0;
        }
        let away = self.negative == (rounding == Rounding::Down);
        let magnitude = self.magnitude();
        let size = if magnitude > 1023 {
            if away { f64::INFINITY } else { f64::MAX }
        } else if magnitude < -1074 {
            if away { f64::from_bits(1) } else { 0.0 }
        } else {
            // A float's digits are the leading 53 of `limbs`, or fewer below the normal numbers.
            let kept = (53 + (magnitude + 1022).min(0)) as u32;
            let top = self.limbs[N - 1] >> (64 - kept);
            let lost = kept < 64 && self.limbs[N - 1] << kept > 0 || self.limbs[..N - 1].iter().any(|&limb| limb > 0);
            let digits = top + u64::from(lost && away);
            // Exact: at most 2⁵³ times a power of two that is a float, or the result is infinite.
            let unit = magnitude + 1 - i64::from(kept);
            digits as f64 * power_of_two(unit / 2) * power_of_two(unit - unit / 2)
        };
        if self.negative { -size } else { size }
    }

    /// Returns `x + y`.
    #[must_use]
    pub fn add(self, other: Self, rounding: Rounding) -> Self {
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let apart = large.exponent - small.exponent;
        if apart > 64 * (N as i64 + 1) {
            // The smaller one is below 2⁻⁶⁴ units of the larger one.
            let mut digits = shifted(&large.limbs, 64);
            if large.negative != small.negative {
                subtract(&mut digits, &[1]);
            }
            return Self::rounded(large.negative, &digits, large.exponent - 64, true, rounding);
        }
        let mut digits = shifted(&large.limbs, apart as usize);
        let mut negative = large.negative;
        if large.negative == small.negative {
            add_at(&mut digits, &small.limbs, 0);
        } else if subtract(&mut digits, &small.limbs) {
            let below = digits;
            digits = [0; PRODUCT_LIMBS];
            subtract(&mut digits, &below);
            negative = small.negative;
        }
        Self::rounded(negative, &digits, small.exponent, false, rounding)
    }

    /// Returns `x − y`.
    #[must_use]
    pub fn sub(self, other: Self, rounding: Rounding) -> Self {
        self.add(other.negated(), rounding)
    }

    /// Returns `x·y`.
    #[must_use]
    pub fn mul(self, other: Self, rounding: Rounding) -> Self {
        if self.is_zero() || other.is_zero() {
            return Self::ZERO;
        }
        let mut digits = [0; PRODUCT_LIMBS];
        for (i, &a) in self.limbs.iter().enumerate() {
            let mut carry = 0;
            for (j, &b) in other.limbs.iter().enumerate() {
                // (2⁶⁴ − 1)² + 2(2⁶⁴ − 1) = 2¹²⁸ − 1: no overflow.
                let sum = u128::from(a) * u128::from(b) + u128::from(digits[i + j]) + u128::from(carry);
                digits[i + j] = sum as u64;
                carry = (sum >> 64) as u64;
            }
            digits[i + N] = carry;
        }
        let negative = self.negative != other.negative;
        Self::rounded(negative, &digits[..2 * N], self.exponent + other.exponent, false, rounding)
    }

    /// Returns `x·n`.
    #[must_use]
    pub fn mul_integer(self, n: u64, rounding: Rounding) -> Self {
        let mut digits = [0; PRODUCT_LIMBS];
        let mut carry = 0;
        for (digit, &limb) in digits.iter_mut().zip(&self.limbs) {
            let product = u128::from(limb) * u128::from(n) + u128::from(carry);
            *digit = product as u64;
            carry = (product >> 64) as u64;
        }
        digits[N] = carry;
        Self::rounded(self.negative, &digits[..=N], self.exponent, false, rounding)
    }

    /// Returns `x/n` for `n > 0`.
    #[must_use]
    pub fn div_integer(self, n: u64, rounding: Rounding) -> Self {
        let mut digits = [0; PRODUCT_LIMBS];
        digits[1..=N].copy_from_slice(&self.limbs);
        let mut remainder = 0;
        for digit in digits[..=N].iter_mut().rev() {
            let dividend = u128::from(remainder) << 64 | u128::from(*digit);
            *digit = (dividend / u128::from(n)) as u64;
            remainder = (dividend % u128::from(n)) as u64;
        }
        Self::rounded(self.negative, &digits[..=N], self.exponent - 64, remainder > 0, rounding)
    }

    /// Returns `x/y` for `y ≠ 0`, by long division in base 2⁶⁴ (Knuth, "The art of computer programming", volume 2, 4.3.1 D).
    ///
    /// A digit is guessed from the leading digits, never too small as the divisor's top bit is set, and lowered until the
    /// remainder is not negative.
    ///
    /// # Panics
    /// If `y = 0`.
    #[must_use]
    pub fn div(self, other: Self, rounding: Rounding) -> Self {
        assert!(!other.is_zero(), "no division by zero");
        if self.is_zero() {
            return self;
        }
        let (divisor, leading) = (other.limbs, other.limbs[N - 1]);
        let mut rest = [0_u64; MAX_LIMBS + 1];
        rest[..N].copy_from_slice(&self.limbs);
        let mut digits = [0_u64; PRODUCT_LIMBS];
        for place in (0..=N).rev() {
            if place < N {
                rest.copy_within(0..N, 1);
                rest[0] = 0;
            }
            let guess = (u128::from(rest[N]) << 64 | u128::from(rest[N - 1])) / u128::from(leading);
            let mut digit = guess.min(u128::from(u64::MAX)) as u64;
            let mut product = [0_u64; MAX_LIMBS + 1];
            let mut carry = 0;
            for (limb, &d) in product.iter_mut().zip(&divisor) {
                let sum = u128::from(d) * u128::from(digit) + u128::from(carry);
                *limb = sum as u64;
                carry = (sum >> 64) as u64;
            }
            product[N] = carry;
            let mut negative = subtract(&mut rest[..=N], &product[..=N]);
            while negative {
                digit -= 1;
                let before = rest[N];
                add_at(&mut rest[..=N], &divisor, 0);
                negative = rest[N] >= before; // the sum comes round to 0 once it is not negative any more
            }
            digits[place] = digit;
        }
        let exponent = self.exponent - other.exponent - 64 * N as i64;
        let is_rest = rest[..=N].iter().any(|&limb| limb > 0);
        Self::rounded(self.negative != other.negative, &digits[..=N], exponent, is_rest, rounding)
    }

    /// Returns `√x` for `x ≥ 0`, two binary digits of `x` at a time.
    #[must_use]
    pub fn sqrt(self, rounding: Rounding) -> Self {
        if self.is_zero() {
            return self;
        }
        let odd = self.exponent.rem_euclid(2);
        // m·2^(64N + odd) has at least 128N bits but one, so its root has 64N.
        let radicand = shifted(&self.limbs, 64 * N + odd as usize);
        let (mut root, mut rest) = ([0_u64; MAX_LIMBS + 2], [0_u64; MAX_LIMBS + 2]);
        let (root, rest) = (&mut root[..N + 2], &mut rest[..N + 2]);
        for pair in (0..=64 * N).rev() {
            double(rest);
            double(rest);
            rest[0] |= radicand[pair / 32] >> (2 * pair % 64) & 3;
            double(root);
            // The next digit is 1 if `rest` is at least 4·(old root) + 1, twice `root` as it is now and 1.
            double(root);
            root[0] |= 1;
            let is_one = compare(rest, root) != Ordering::Less;
            if is_one {
                subtract(rest, root);
            }
            halve(root);
            root[0] |= u64::from(is_one);
        }
        let is_rest = rest.iter().any(|&digit| digit > 0);
        let exponent = (self.exponent - odd) / 2 - 32 * N as i64;
        Self::rounded(false, root, exponent, is_rest, rounding)
    }

    /// Returns the smaller one.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// Returns the larger one.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

/// Returns 2^n for −1022 ≤ n ≤ 1023.
fn power_of_two(n: i64) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

impl<const N: usize> PartialEq for Real<N> {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl<const N: usize> PartialOrd for Real<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let sign = |x: &Self| if x.is_zero() { 0 } else { 1 - 2 * i8::from(x.negative) };
        let (a, b) = (sign(self), sign(other));
        if a != b || a == 0 {
            return Some(a.cmp(&b));
        }
        let sizes = self.exponent.cmp(&other.exponent).then_with(|| compare(&self.limbs, &other.limbs));
        Some(if a > 0 { sizes } else { sizes.reverse() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Rounding::{Down, Up};

    type R = Real<4>;

    /// Floats of both signs, of many sizes, and some with few digits.
    fn samples() -> Vec<R> {
        let floats = [1.0, -1.0, 0.1, 1.5, -3.0, 1e300, 5e-324, -1e-300, 1.0 + f64::EPSILON, 4503599627370497.5, 0.0];
        let mut found: Vec<R> = floats.iter().map(|&x| R::new(x)).collect();
        let mut x = R::new(1.1);
        for _ in 0..12 {
            x = x.mul(x, Down).add(R::new(0.3), Up).div(R::new(1.7), Down);
            found.push(x);
            found.push(x.negated().scaled(-130));
        }
        found
    }

    /// One unit in the last place, or more.
    fn ulp(x: R) -> R {
        if x.is_zero() { x } else { R::integer(1).scaled(x.magnitude() + 1 - 256) }
    }

    #[test]
    fn both_roundings_enclose_and_are_at_most_one_unit_apart() {
        let operations: [fn(R, R, Rounding) -> R; 3] = [R::add, R::sub, R::mul];
        for a in samples() {
            for b in samples() {
                for operation in operations {
                    let (low, high) = (operation(a, b, Down), operation(a, b, Up));
                    assert!(low <= high && high <= low.add(ulp(high.abs().max(low.abs())), Up), "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn sums_in_twice_the_bits_lie_between_the_roundings() {
        for a in samples() {
            for b in samples() {
                let (wide_a, wide_b) = (a.converted::<12>(Down), b.converted::<12>(Down));
                let sum = (wide_a.add(wide_b, Down), wide_a.add(wide_b, Up));
                assert!(a.add(b, Down).converted::<12>(Down) <= sum.0 && sum.1 <= a.add(b, Up).converted::<12>(Up));
                let product = (wide_a.mul(wide_b, Down), wide_a.mul(wide_b, Up));
                assert_eq!(product.0, product.1, "512 bits are within 768");
                assert!(a.mul(b, Down).converted::<12>(Down) <= product.0);
                assert!(product.1 <= a.mul(b, Up).converted::<12>(Up));
            }
        }
    }

    #[test]
    fn quotients_times_their_divisors_enclose_the_dividend() {
        for a in samples() {
            for b in samples().into_iter().filter(|b| !b.is_zero()) {
                let (low, high) = (a.div(b, Down), a.div(b, Up));
                assert!(low <= high && high <= low.add(ulp(high.abs().max(low.abs())), Up));
                // The product of two numbers of 256 bits is exact in 768.
                let exact = |x: R| x.converted::<12>(Down).mul(b.converted::<12>(Down), Down);
                let (ends, a) = ((exact(low), exact(high)), a.converted::<12>(Down));
                assert!(ends.0.min(ends.1) <= a && a <= ends.0.max(ends.1), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn products_and_quotients_with_integers_are_those_with_reals() {
        for a in samples() {
            for n in [1, 3, 10, u64::MAX] {
                for rounding in [Up, Down] {
                    assert_eq!(a.mul_integer(n, rounding), a.mul(R::integer(n), rounding));
                    assert_eq!(a.div_integer(n, rounding), a.div(R::integer(n), rounding));
                }
            }
        }
    }

    #[test]
    fn squares_of_roots_enclose_the_radicand() {
        for a in samples().into_iter().map(R::abs) {
            let (low, high) = (a.sqrt(Down), a.sqrt(Up));
            let square = |x: R| x.converted::<12>(Down).mul(x.converted::<12>(Down), Down);
            assert!(square(low) <= a.converted::<12>(Down) && a.converted::<12>(Down) <= square(high), "{a:?}");
            assert!(high <= low.add(ulp(low), Up));
        }
        assert_eq!(R::integer(12), R::integer(144).sqrt(Up));
        assert_eq!(R::new(1.5), R::new(2.25).sqrt(Down));
    }

    #[test]
    fn floats_come_back_and_their_neighbors_enclose_what_is_between() {
        for x in [1.0, -0.1, 5e-324, -1e-310, 2.2250738585072014e-308, f64::MAX, 3e200] {
            assert_eq!((x, x), (R::new(x).float(Down), R::new(x).float(Up)));
            let more = R::new(x).add(R::new(x).scaled(-200).abs(), Up);
            assert_eq!((x, x.next_up()), (more.float(Down), more.float(Up)), "{x}");
        }
        let (tiny, huge) = (R::integer(1).scaled(-5000), R::integer(1).scaled(5000));
        assert_eq!((0.0, 5e-324), (tiny.float(Down), tiny.float(Up)));
        assert_eq!((f64::MAX, f64::INFINITY), (huge.float(Down), huge.float(Up)));
        assert_eq!((-5e-324, 0.0), (tiny.negated().float(Down), tiny.negated().float(Up)));
    }

    #[test]
    fn order_is_that_of_the_floats() {
        for a in samples() {
            for b in samples() {
                assert_eq!(a < b, a.sub(b, Up).is_negative(), "{a:?} {b:?}");
            }
        }
    }
}
