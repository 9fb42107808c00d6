//! Exponentials, logarithms and constants, enclosed.

use std::sync::OnceLock;

use super::interval::Interval;
use super::real::Real;
use crate::types::Rounding::{Down, Up};

/// Limbs of the constants, two more than any number that is computed with.
const CONSTANT_LIMBS: usize = 10;

/// Exponents whose exponentials are computed; e^x is bounded by its value there beyond.
const MAX_EXPONENT: i64 = 1 << 50;

/// Returns Σ_{k ≥ 0} t^{2k+1}/(2k+1) = artanh t for 0 ≤ t < 1/2: the terms fall by t² < 1/4, so that those that are left out are less
/// than the last one that is not.
fn artanh<const N: usize>(t: Interval<N>) -> Interval<N> {
    let square = t.square();
    let (mut power, mut sum, mut odd) = (t, t, 1);
    let least = t.upper.scaled(-64 * N as i64);
    loop {
        power = power * square;
        odd += 2;
        let term = power.div_integer(odd);
        sum = sum + term;
        if term.upper <= least {
            return Interval::new(sum.lower, sum.upper.add(term.upper, Up));
        }
    }
}

fn ln_2() -> Interval<CONSTANT_LIMBS> {
    static LN_2: OnceLock<Interval<CONSTANT_LIMBS>> = OnceLock::new();
    *LN_2.get_or_init(|| artanh(Interval::integer(1).div_integer(3)).scaled(1))
}

/// Returns arctan(1/n) for n ≥ 2: its series alternates and its terms fall.
fn arctan_of_reciprocal(n: u64) -> Interval<CONSTANT_LIMBS> {
    let mut power = Interval::integer(1).div_integer(n);
    let (mut sum, mut odd) = (power, 1);
    loop {
        power = power.div_integer(n).div_integer(n);
        odd += 2;
        let term = power.div_integer(odd);
        sum = if odd % 4 == 3 { sum - term } else { sum + term };
        if term.upper.magnitude() < -64 * CONSTANT_LIMBS as i64 {
            let slack = Interval::new(term.upper.negated(), term.upper);
            return sum + slack;
        }
    }
}

impl<const N: usize> Interval<N> {
    /// Returns ln 2 = 2·artanh(1/3).
    #[must_use]
    pub fn ln_2() -> Self {
        ln_2().converted()
    }

    /// Returns π, by Machin's 16·arctan(1/5) − 4·arctan(1/239).
    #[must_use]
    pub fn pi() -> Self {
        static PI: OnceLock<Interval<CONSTANT_LIMBS>> = OnceLock::new();
        PI.get_or_init(|| arctan_of_reciprocal(5).scaled(4) - arctan_of_reciprocal(239).scaled(2)).converted()
    }

    /// Returns √(2π).
    #[must_use]
    pub fn sqrt_two_pi() -> Self {
        static ROOT: OnceLock<Interval<CONSTANT_LIMBS>> = OnceLock::new();
        ROOT.get_or_init(|| Interval::<CONSTANT_LIMBS>::pi().scaled(1).sqrt()).converted()
    }

    /// Returns eˣ for x ≤ 2⁵⁰.
    ///
    /// # Panics
    /// If x is larger.
    #[must_use]
    pub fn exp(self) -> Self {
        if self.lower == self.upper {
            return exp_of(self.lower);
        }
        Self { lower: exp_of(self.lower).lower, upper: exp_of(self.upper).upper }
    }

    /// Returns ln x for x > 0.
    ///
    /// # Panics
    /// If x is not.
    #[must_use]
    pub fn ln(self) -> Self {
        assert!(self.is_positive(), "logarithms are of positive numbers");
        if self.lower == self.upper {
            return ln_of(self.lower);
        }
        Self { lower: ln_of(self.lower).lower, upper: ln_of(self.upper).upper }
    }

    /// Returns 1 − eˣ for x ≤ 0, with as many digits near 0 as elsewhere.
    #[must_use]
    pub fn one_minus_exp(self) -> Self {
        let at = |x: Real<N>| {
            if x.is_zero() || x.magnitude() >= -16 {
                return Self::integer(1) - exp_of(x);
            }
            // With y = −x: y − y²/2 + y³/6 − …, whose terms fall.
            let y = Self::from(x.negated());
            let (mut term, mut sum, mut n) = (y, y, 1);
            while term.upper.magnitude() > y.upper.magnitude() - 64 * N as i64 {
                n += 1;
                term = (term * y).div_integer(n);
                sum = if n % 2 == 0 { sum - term } else { sum + term };
            }
            sum + Self::new(term.upper.negated(), term.upper)
        };
        Self { lower: at(self.upper).lower, upper: at(self.lower).upper }
    }

    /// Returns eˣ − 1 for x ≥ 0: (1 − e^{−x})·eˣ.
    #[must_use]
    pub fn exp_minus_one(self) -> Self {
        let at = |x: Real<N>| Self::from(x.negated()).one_minus_exp() * exp_of(x);
        Self { lower: at(self.lower).lower, upper: at(self.upper).upper }
    }

    /// Returns ln(1 + x) for x ≥ 0, with as many digits near 0 as elsewhere: 2·artanh(x/(2 + x)).
    #[must_use]
    pub fn ln_one_plus(self) -> Self {
        let at = |x: Real<N>| {
            if x.is_zero() {
                return Self::integer(0);
            }
            if x.magnitude() >= -8 {
                return (Self::integer(1) + Self::from(x)).ln();
            }
            artanh(Self::from(x) / (Self::integer(2) + Self::from(x))).scaled(1)
        };
        Self { lower: at(self.lower).lower, upper: at(self.upper).upper }
    }

    /// Returns −ln(1 − x) for 0 ≤ x < 1, with as many digits near 0 as elsewhere: 2·artanh(x/(2 − x)).
    #[must_use]
    pub fn minus_log_one_minus(self) -> Self {
        let at = |x: Real<N>| {
            if x.is_zero() {
                return Self::integer(0);
            }
            if x.magnitude() >= -8 {
                return -(Self::integer(1) - Self::from(x)).ln();
            }
            artanh(Self::from(x) / (Self::integer(2) - Self::from(x))).scaled(1)
        };
        Self { lower: at(self.lower).lower, upper: at(self.upper).upper }
    }
}

/// Returns the exponential of a number.
///
/// x = n·ln 2 + f with |f| ≤ 1, and e^f is the 2^k-th power of e^{f/2^k}, whose Taylor series has terms t_i with |t_{i+1}| ≤ |t_i|/2: what
/// follows one that is left out is at most as much again.
fn exp_of<const N: usize>(x: Real<N>) -> Interval<N> {
    if x.is_zero() {
        return Interval::integer(1);
    }
    let farthest = Real::integer(MAX_EXPONENT as u64);
    if x.abs() > farthest {
        assert!(x.is_negative(), "the exponential of a number above 2^50");
        return Interval::new(Real::ZERO, exp_of(farthest.negated()).upper);
    }
    let n = (x.float(Down) * core::f64::consts::LOG2_E).round() as i64;
    let whole = Interval::ln_2().mul_integer(n.unsigned_abs());
    let f = Interval::from(x) - if n < 0 { -whole } else { whole };
    let squarings = 4 * N as i64;
    let f = f.scaled(-squarings);
    let (mut term, mut sum, mut i) = (Interval::integer(1), Interval::integer(1), 0);
    let size = f.lower.abs().max(f.upper.abs());
    while !size.is_zero() && (i == 0 || term_size(term).magnitude() >= -64 * N as i64) && !term_size(term).is_zero() {
        i += 1;
        term = (term * f).div_integer(i);
        sum = sum + term;
    }
    let left = term_size(term);
    let mut power = sum + Interval::new(left.negated(), left);
    for _ in 0..squarings {
        power = power.square();
    }
    power.scaled(n)
}

fn term_size<const N: usize>(term: Interval<N>) -> Real<N> {
    term.lower.abs().max(term.upper.abs())
}

/// Returns the logarithm of a number > 0.
///
/// Near 1 it is 2·artanh((x − 1)/(x + 1)). Elsewhere x = 2^e·m, and ln m = y + 2·artanh((r − 1)/(r + 1)) with a float y that is nearly
/// ln m and r = m·e^{−y}.
fn ln_of<const N: usize>(x: Real<N>) -> Interval<N> {
    let one = Interval::integer(1);
    let around = |r: Interval<N>| {
        let (above, below) = (r - one, r + one);
        let at = |end: Interval<N>| {
            if end.lower.is_negative() { -artanh(-end) } else { artanh(end) }
        };
        let t = above / below;
        // artanh grows, so its ends are those of the ends.
        let (low, high) = (at(Interval::from(t.lower)), at(Interval::from(t.upper)));
        Interval::new(low.lower, high.upper).scaled(1)
    };
    let distance = x.sub(Real::integer(1), Down);
    if distance.is_zero() {
        return Interval::integer(0);
    }
    if distance.magnitude() < -8 {
        return around(Interval::from(x));
    }
    let exponent = x.magnitude();
    let m = x.scaled(-exponent);
    let y = crate::functions::ln(m.float(Down));
    let r = Interval::from(m) * exp_of(Real::new(-y));
    let rest = if r.lower == r.upper && r.lower == Real::integer(1) { Interval::integer(0) } else { around(r) };
    let whole = Interval::<N>::ln_2().mul_integer(exponent.unsigned_abs());
    (if exponent < 0 { -whole } else { whole }) + Interval::from(y) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    type I = Interval<4>;

    fn meet(a: I, b: I) -> bool {
        a.lower <= b.upper && b.lower <= a.upper
    }

    /// About how many bits the interval leaves open.
    fn digits(x: I) -> i64 {
        let width = x.upper.sub(x.lower, Up);
        if width.is_zero() { 256 } else { term_size(x).magnitude() - width.magnitude() }
    }

    fn is(found: I, expected: &str) {
        let expected = I::of_decimals(expected, expected).expect("a decimal");
        assert!(meet(found, expected), "{:?} {:?}", found.floats(), expected.floats());
        assert!(digits(found) > 225, "{} bits", digits(found));
    }

    #[test]
    fn constants_have_their_digits() {
        // mpmath, 90 digits, widened to what is written here
        let ends = |text: &str| I::of_decimals(&format!("{text}0"), &format!("{text}9")).expect("decimals");
        for (found, text) in [
            (I::pi(), "3.14159265358979323846264338327950288419716939937510582097494459230781640628"),
            (I::ln_2(), "0.6931471805599453094172321214581765680755001343602552541206800094933936219"),
            (I::integer(1).exp(), "2.71828182845904523536028747135266249775724709369995957496696762772407663035"),
            (I::sqrt_two_pi(), "2.50662827463100050241576528481104525300698674060993831662992357634229365460"),
        ] {
            assert!(meet(found, ends(text)), "{text}");
            assert!(digits(found) > 230, "{} bits", digits(found));
        }
    }

    #[test]
    fn exponentials_of_sums_are_products_and_logarithms_invert_them() {
        for a in [0.3, -0.3, 1e-5, -7.25, 700.5, -1e6, 1e9, 5e-324, -1e-40, 0.346_573_590_279_972_7] {
            let x = I::from(a);
            assert!(meet((x + I::from(0.7)).exp(), x.exp() * I::from(0.7).exp()), "{a}");
            assert!(meet(x.exp().ln(), x), "{a}");
            assert!(meet(x.exp() * (-x).exp(), I::integer(1)), "{a}");
            assert!(digits(x.exp()) > 230 - 2 * x.lower.magnitude().clamp(0, 40), "{a}: {} bits", digits(x.exp()));
        }
    }

    #[test]
    fn logarithms_of_products_are_sums_and_keep_their_digits_near_one() {
        for a in [1.0 + f64::EPSILON, 1.0 - f64::EPSILON, 0.999, 1.001, 1.414, 0.708, 2.0, 3.5, 1e300, 5e-324] {
            let x = I::from(a);
            assert!(meet((x * I::from(3.0)).ln(), x.ln() + I::from(3.0).ln()), "{a}");
            assert!(digits(x.ln()) > 225, "{a}: {} bits", digits(x.ln()));
        }
        assert!(I::integer(1).ln().upper.is_zero());
    }

    #[test]
    fn differences_from_one_keep_their_digits() {
        for x in [1e-300, 1e-30, 1e-10, 1e-5, 0.003, 0.004, 0.1, 0.75] {
            let p = I::from(x);
            assert!(meet((-p).one_minus_exp(), I::integer(1) - (-p).exp()), "{x}");
            assert!(meet(p.minus_log_one_minus(), -(I::integer(1) - p).ln()), "{x}");
            assert!(meet(p.ln_one_plus(), (I::integer(1) + p).ln()), "{x}");
            assert!(meet((-(p.minus_log_one_minus())).one_minus_exp(), p), "{x}");
            assert!(meet(p.ln_one_plus().exp_minus_one(), p), "{x}");
            for found in [(-p).one_minus_exp(), p.minus_log_one_minus(), p.ln_one_plus(), p.exp_minus_one()] {
                assert!(digits(found) > 225, "{x}: {} bits", digits(found));
            }
        }
        is((-I::from(1e-300)).one_minus_exp() / I::from(1e-300), "1");
    }

    #[test]
    fn exponentials_beyond_all_floats_are_bounded() {
        let tiny = I::from(-1e300).exp();
        assert!(tiny.lower.is_zero() && tiny.upper.magnitude() < -1_000_000);
        assert_eq!(Some(core::cmp::Ordering::Less), tiny.upper.partial_cmp(&I::from(-1e15).exp().lower));
    }
}
