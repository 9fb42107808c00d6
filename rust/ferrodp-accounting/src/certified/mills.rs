//! The Mills ratio of the normal distribution, enclosed.
//!
//! `M(x) = Φ̄(x)/φ(x) = ∫₀^∞ e^{−xt − t²/2} dt` carries the tail without its exponential factor. It is completely monotone:
//! positive and decreasing, and `−M′(x) = 1 − x·M(x)` is positive, decreasing and convex, on the whole line.
//!
//! It is evaluated in two ways (Abramowitz, Stegun, "Handbook of mathematical functions", 1964):
//!
//! - near 0: `M(x) = √(π/2)·e^{x²/2} − S(x)`, `S(x) = Σₖ x^{2k+1}/(2k+1)!!` (26.2.11), all terms of one sign;
//! - beyond [`nearest`]: `M(x) = 1/(x + 1/(x + 2/(x + 3/(x + …))))` (26.2.14), whose convergents lie on either side of it in turn.

use super::interval::Interval;
use super::real::Real;
use crate::types::Rounding::{Down, Up};

/// Terms of the fraction at most.
const MAX_FRACTION_TERMS: u64 = 100_000;

/// Returns where the fraction takes over: there the difference from the series has lost `x²/2` of the `64·N·ln 2` nats.
fn nearest<const N: usize>() -> u64 {
    if N <= 4 { 8 } else { 12 }
}

impl<const N: usize> Interval<N> {
    /// Returns M(x) for x > −2²⁵: M(−x) grows like √(2π)·e^{x²/2}. Of an interval that is wide it is asked at both ends.
    #[must_use]
    pub fn mills(self) -> Self {
        if self.lower >= Real::integer(nearest::<N>()) {
            return self.mills_by_fraction(MAX_FRACTION_TERMS);
        }
        if !self.lower.is_negative() && self.upper <= Real::integer(2 * nearest::<N>()) {
            return self.mills_by_series(64 * N as i64);
        }
        if self.upper.is_negative() || self.upper.is_zero() {
            let positive = -self;
            return Self::sqrt_two_pi() * positive.square().scaled(-1).exp() - positive.mills();
        }
        Self::new(Self::from(self.upper).mills().lower, Self::from(self.lower).mills().upper)
    }

    /// Convergents A/B obey A_{k+1} = x·A_k + k·A_{k−1}, and so do the B, which are all positive. Any two neighbors enclose the ratio.
    fn mills_by_fraction(self, most: u64) -> Self {
        let (mut a, mut b) = ((Self::integer(0), Self::integer(1)), (Self::integer(1), self));
        let mut k = 1;
        loop {
            a = (a.1, self * a.1 + a.0.mul_integer(k));
            b = (b.1, self * b.1 + b.0.mul_integer(k));
            k += 1;
            if k % 16 == 0 || k > most {
                let (last, next) = (a.0 / b.0, a.1 / b.1);
                let (low, high) = if last.lower < next.lower { (last, next) } else { (next, last) };
                let (gap, width) = (high.lower.sub(low.upper, Up), next.upper.sub(next.lower, Up));
                if gap <= width || k > most {
                    return Self::new(low.lower.min(high.lower), high.upper.max(low.upper));
                }
            }
        }
    }

    /// Adds terms up to one below 2^−bits of the first; what is left is bounded by the last.
    fn mills_by_series(self, bits: i64) -> Self {
        let square = self.square();
        let (mut term, mut sum, mut odd) = (self, self, 1_u64);
        let least = self.upper.scaled(-bits);
        // Afterwards ratios are below 1/2, so what is left is less than the last term.
        while term.upper > least || square.upper.scaled(1) > Real::integer(odd) {
            odd += 2;
            term = (term * square).div_integer(odd);
            sum = sum + term;
        }
        // mutant: rest-of-the-mills-series
        let series = Self::new(sum.lower, sum.upper.add(term.upper, Up));
        Self::sqrt_two_pi().scaled(-1) * square.scaled(-1).exp() - series
    }

    /// Returns Φ̄(x) for x ≥ 0.
    #[must_use]
    pub fn normal_tail(self) -> Self {
        (-self.square().scaled(-1)).exp() / Self::sqrt_two_pi() * self.mills()
    }

    /// Returns whether both ends round to the same floats.
    #[must_use]
    pub fn is_tight(self) -> bool {
        let (low, high) = (self.lower, self.upper);
        low.float(Up) == high.float(Up) && low.float(Down) == high.float(Down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type I = Interval<4>;

    #[test]
    fn ratios_have_their_digits_and_both_ways_agree() {
        // mpmath, 60 digits
        for (x, expected) in [
            (0.0, "1.253314137315500251207882642405522626503493370304969158314961788171147"),
            (1.0, "0.6556795424187984715438712307308112833992823328704620280536861587341972"),
            (8.0, "0.1231319632579322962821807435171990762805541840630742108560590716686185"),
            (40.0, "0.02498440420572057114738839463311403614097368062392538468684923912892079"),
            (-2.5, "56.69633145773968231011115151124844117520307909346720092017436337428232"),
        ] {
            let (found, near) = (I::from(x).mills(), I::of_decimals(expected, expected).expect("a decimal"));
            let off = (found - near).floats();
            assert!(off.upper.max(-off.lower) < 1e-56 * found.upper.float(Up), "{x}: {off:?}");
        }
        for x in [7.0, 8.0, 9.5] {
            let (a, b) = (I::from(x).mills_by_fraction(MAX_FRACTION_TERMS), I::from(x).mills_by_series(256));
            assert!(a.lower <= b.upper && b.lower <= a.upper, "{x}");
        }
    }

    #[test]
    fn wide_intervals_hold_what_their_ends_do() {
        for (low, high) in [(-0.5, 0.25), (1e-3, 1e70), (7.0, 1e300), (-1e6, 3.0), (9.0, 1e9)] {
            let found = I::new(Real::new(low), Real::new(high)).mills();
            assert!(
                found.lower <= I::from(high).mills().upper && I::from(low).mills().lower <= found.upper,
                "{low} {high}"
            );
        }
    }

    #[test]
    fn both_ways_may_be_cut_anywhere() {
        for x in [1e-9, 0.1, 2.0, 3.9, 5.5, 8.0, 10.0, 1000.0] {
            let truth = Interval::<8>::from(x).mills().converted::<4>();
            let holds = |found: I| found.lower <= truth.lower && truth.upper <= found.upper;
            for most in [2, 3, 4, 9] {
                assert!(x < 2.0 || holds(I::from(x).mills_by_fraction(most)), "{x} {most}");
            }
            for bits in [-30, 3, 10, 30] {
                assert!(x > 6.0 || holds(I::from(x).mills_by_series(bits)), "{x} {bits}");
            }
        }
    }

    #[test]
    fn ratios_fall_and_precision_does_not_matter() {
        let mut last = I::from(-10.0).mills();
        for i in -99..200 {
            let x = f64::from(i) * 0.1;
            let (next, wide) = (I::from(x).mills(), Interval::<8>::from(x).mills().converted::<4>());
            assert!(next.upper < last.lower, "{x}");
            assert!(next.lower <= wide.upper && wide.lower <= next.upper, "{x}");
            last = next;
        }
    }
}
