//! Intervals of reals, whose operations return supersets of the exact results.

use core::ops::{Add, Div, Mul, Neg, Sub};

use super::real::Real;
use crate::types::Bounds;
use crate::types::Rounding::{Down, Up};

/// All real numbers from `lower` to `upper`, both included.
#[derive(Clone, Copy, Debug)]
pub struct Interval<const N: usize> {
    /// The least one.
    pub lower: Real<N>,
    /// The largest one.
    pub upper: Real<N>,
}

/// Returns the interval of one number.
fn point<const N: usize>(number: Real<N>) -> Interval<N> {
    Interval { lower: number, upper: number }
}

impl<const N: usize> From<f64> for Interval<N> {
    fn from(value: f64) -> Self {
        point(Real::new(value))
    }
}

impl<const N: usize> From<Real<N>> for Interval<N> {
    fn from(value: Real<N>) -> Self {
        point(value)
    }
}

impl<const N: usize> Interval<N> {
    /// Returns a whole number.
    #[must_use]
    pub fn integer(value: u64) -> Self {
        point(Real::integer(value))
    }

    /// Returns the interval of two numbers in order.
    #[must_use]
    pub fn new(lower: Real<N>, upper: Real<N>) -> Self {
        debug_assert!(lower <= upper, "ends are in order");
        Self { lower, upper }
    }

    /// Returns the interval between two decimals in order, such as `-1.25E-7`; `None` for other texts.
    #[must_use]
    pub fn of_decimals(lower: &str, upper: &str) -> Option<Self> {
        Some(Self { lower: of_decimal(lower)?.lower, upper: of_decimal(upper)?.upper })
    }

    /// Returns the same numbers in fewer or more bits.
    #[must_use]
    pub fn converted<const M: usize>(self) -> Interval<M> {
        Interval { lower: self.lower.converted(Down), upper: self.upper.converted(Up) }
    }

    /// Returns the floats next to its ends.
    #[must_use]
    pub fn floats(self) -> Bounds {
        Bounds { lower: self.lower.float(Down), upper: self.upper.float(Up) }
    }

    /// Whether all its numbers are > 0.
    #[must_use]
    pub fn is_positive(self) -> bool {
        !self.lower.is_zero() && !self.lower.is_negative()
    }

    /// Whether all its numbers are ≥ 0.
    #[must_use]
    pub fn is_non_negative(self) -> bool {
        !self.lower.is_negative()
    }

    /// Returns the numbers `x·2^by`.
    #[must_use]
    pub fn scaled(self, by: i64) -> Self {
        Self { lower: self.lower.scaled(by), upper: self.upper.scaled(by) }
    }

    /// Returns the products with a whole number.
    #[must_use]
    pub fn mul_integer(self, n: u64) -> Self {
        Self { lower: self.lower.mul_integer(n, Down), upper: self.upper.mul_integer(n, Up) }
    }

    /// Returns the quotients by a whole number > 0.
    #[must_use]
    pub fn div_integer(self, n: u64) -> Self {
        Self { lower: self.lower.div_integer(n, Down), upper: self.upper.div_integer(n, Up) }
    }

    /// Returns the squares.
    #[must_use]
    pub fn square(self) -> Self {
        let (a, b) = (self.lower.abs(), self.upper.abs());
        let across = self.lower.is_negative() && !self.upper.is_negative();
        let least = if across { Real::ZERO } else { a.min(b) };
        Self { lower: least.mul(least, Down), upper: a.max(b).mul(a.max(b), Up) }
    }

    /// Returns the square roots of what is not negative.
    ///
    /// # Panics
    /// If all numbers are.
    #[must_use]
    pub fn sqrt(self) -> Self {
        assert!(!self.upper.is_negative(), "roots are of numbers that are not negative");
        Self { lower: self.lower.max(Real::ZERO).sqrt(Down), upper: self.upper.sqrt(Up) }
    }

    /// Returns x^n for x ≥ 0, by squaring.
    #[must_use]
    pub fn power(self, n: u64) -> Self {
        let mut found = Self::integer(1);
        for bit in (0..u64::BITS - n.leading_zeros()).rev() {
            found = found.square();
            if n >> bit & 1 == 1 {
                found = found * self;
            }
        }
        found
    }

    /// Returns the part between 0 and 1 of an interval that meets it.
    #[must_use]
    pub fn clamped(self) -> Self {
        let within = |x: Real<N>| x.max(Real::ZERO).min(Real::integer(1));
        Self { lower: within(self.lower), upper: within(self.upper) }
    }

    /// Returns the part below 0, or 0 if there is none.
    #[must_use]
    pub fn not_above_zero(self) -> Self {
        Self { lower: self.lower.min(Real::ZERO), upper: self.upper.min(Real::ZERO) }
    }
}

/// Returns the interval around a decimal.
fn of_decimal<const N: usize>(text: &str) -> Option<Interval<N>> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (digits, exponent) = digits.split_once(['E', 'e']).unwrap_or((digits, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (mut found, mut chunk, mut unit) = (Interval::integer(0), 0, 1);
    for digit in whole.bytes().chain(fraction.bytes()) {
        if !digit.is_ascii_digit() {
            return None;
        }
        (chunk, unit) = (10 * chunk + u64::from(digit - b'0'), 10 * unit);
        if unit == 1_000_000_000_000_000_000 {
            found = found.mul_integer(unit) + Interval::integer(chunk);
            (chunk, unit) = (0, 1);
        }
    }
    found = found.mul_integer(unit) + Interval::integer(chunk);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = exponent.checked_sub(fraction.len() as i64)?;
    let power = Interval::integer(10).power(exponent.unsigned_abs());
    let found = if exponent < 0 { found / power } else { found * power };
    Some(if negative { -found } else { found })
}

impl<const N: usize> Add for Interval<N> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { lower: self.lower.add(other.lower, Down), upper: self.upper.add(other.upper, Up) }
    }
}

impl<const N: usize> Sub for Interval<N> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { lower: self.lower.sub(other.upper, Down), upper: self.upper.sub(other.lower, Up) }
    }
}

impl<const N: usize> Neg for Interval<N> {
    type Output = Self;

    fn neg(self) -> Self {
        Self { lower: self.upper.negated(), upper: self.lower.negated() }
    }
}

impl<const N: usize> Mul for Interval<N> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        if self.is_non_negative() && other.is_non_negative() {
            return Self { lower: self.lower.mul(other.lower, Down), upper: self.upper.mul(other.upper, Up) };
        }
        let pairs = [
            (self.lower, other.lower),
            (self.lower, other.upper),
            (self.upper, other.lower),
            (self.upper, other.upper),
        ];
        let (a, b) = pairs[0];
        let mut found = Self { lower: a.mul(b, Down), upper: a.mul(b, Up) };
        for (a, b) in &pairs[1..] {
            found.lower = found.lower.min(a.mul(*b, Down));
            found.upper = found.upper.max(a.mul(*b, Up));
        }
        found
    }
}

impl<const N: usize> Div for Interval<N> {
    type Output = Self;

    /// Returns x/y for y > 0.
    fn div(self, other: Self) -> Self {
        assert!(other.is_positive(), "divisors are positive");
        let below = if self.lower.is_negative() { other.lower } else { other.upper };
        let above = if self.upper.is_negative() { other.upper } else { other.lower };
        Self { lower: self.lower.div(below, Down), upper: self.upper.div(above, Up) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type I = Interval<4>;

    fn holds(interval: I, number: f64) -> bool {
        interval.lower <= Real::new(number) && Real::new(number) <= interval.upper
    }

    #[test]
    fn operations_hold_the_results_of_all_ends_and_of_what_is_between() {
        let ends = [-3.0, -0.5, 0.0, 0.25, 4.0];
        for (i, &a) in ends.iter().enumerate() {
            for &b in &ends[i..] {
                let x = I::new(Real::new(a), Real::new(b));
                for part in [a, b, (a + b) / 2.0] {
                    assert!(holds(x.square(), part * part));
                    assert!(holds(-x, -part));
                    for (j, &c) in ends.iter().enumerate() {
                        for &d in &ends[j..] {
                            let y = I::new(Real::new(c), Real::new(d));
                            for other in [c, d, (c + d) / 2.0] {
                                assert!(holds(x + y, part + other) && holds(x - y, part - other));
                                assert!(holds(x * y, part * other), "{a} {b} {c} {d}");
                                if c > 0.0 {
                                    assert!(holds((x / y) * I::from(other), part), "{a} {b} {c} {d}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn decimals_are_enclosed_within_a_few_units() {
        for (text, float) in [
            ("0.1", 0.1),
            ("1E-5", 1e-5),
            ("-12.5e+2", -1250.0),
            ("123456789", 123_456_789.0),
            ("1234567890123456789012345E-24", 1.234_567_890_123_456_8),
            ("0", 0.0),
        ] {
            let found = I::of_decimals(text, text).expect("a decimal");
            let width = found.upper.sub(found.lower, Up);
            assert!(found.lower <= found.upper);
            assert!(found.lower.float(Down) <= float && float <= found.upper.float(Up), "{text}");
            assert!(width.is_zero() || width.magnitude() < found.upper.magnitude() - 240, "{text}");
        }
        assert_eq!(I::of_decimals("12.5", "12.5").map(|x| x.lower == x.upper), Some(true));
        for text in ["", "-", "NaN", "1.2.3", "Infinity", "1E", "0x1"] {
            assert!(I::of_decimals(text, text).is_none(), "{text}");
        }
    }

    #[test]
    fn powers_are_repeated_products() {
        let third = I::integer(1).div_integer(3);
        let product = (0..13).fold(I::integer(1), |found, _| found * third);
        let power = third.power(13);
        assert!(power.lower <= product.upper && product.lower <= power.upper);
        assert_eq!(1.0, third.power(0).floats().upper);
    }
}
