//! Is a noisy query at or above a noisy threshold? Decided exactly, for one threshold noise and any number of queries.
//!
//! AboveThreshold compares `q + ν ≥ T + ρ` in real numbers: `ρ = ±b₁·E₁` is drawn once, `ν = ±b₂·E₂` for every query. Here
//! `E = −ln U` for a uniform `U` whose first 64 digits are a word, and whose further ones are revealed on demand, so `ρ` is
//! never written down: it is a key, and every comparison reveals as many of its digits as it needs.
//!
//! Bounds in `f64` settle nearly all. What they leave is one of two questions about independent exponential variables and a
//! rational number `d ≥ 0`, and bisection answers both: whether `b_x·E_x + d > b_y·E_y`, and whether `b₁·E₁ + b₂·E₂ < d`.
//! Scales, threshold and queries are floats, so exact ratios of integers. Equality has probability zero.

use super::compare::{Sample, Step, bisect};
use super::lazy::{Rational, Uniform, minus_log, split};
use super::types::{Signed, finite};
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::residue::leaving_nothing;
use crate::math::float_environment::in_default_environment;
use crate::math::integer::Integer;
use crate::math::natural::Natural;
use crate::params::{exp2, positive};
use crate::random::{Key, Keystream};

/// A threshold with its noise, and the scale of the noise of queries.
#[derive(Debug)]
pub struct NoisyThreshold {
    threshold: f64,
    threshold_scale: f64,
    query_scale: f64,
    isa: Isa,
    /// Holds the digits of `ρ`; wiped on drop.
    keystream: Keystream,
}

impl NoisyThreshold {
    /// Returns the threshold `T + ρ`, `ρ` being Laplace noise of `threshold_scale` under `key`.
    ///
    /// # Errors
    /// If the threshold is not finite, or a scale is not from 1e-300 to 1e300.
    pub fn new(threshold: f64, threshold_scale: f64, query_scale: f64, isa: Isa, key: &Key) -> Result<Self, Error> {
        Self::check(threshold, threshold_scale, query_scale)?;
        let keystream = leaving_nothing(|| Keystream::new(isa, key));
        Ok(Self { threshold, threshold_scale, query_scale, isa, keystream })
    }

    /// Returns if [`Self::new`] would accept these, which needs no key.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(threshold: f64, threshold_scale: f64, query_scale: f64) -> Result<(), Error> {
        if !threshold.is_finite() {
            return Err(Error::parameter("threshold", threshold, "finite"));
        }
        for (name, scale) in [("threshold_scale", threshold_scale), ("query_scale", query_scale)] {
            if !(1e-300..=1e300).contains(&positive(name, scale)?) {
                return Err(Error::parameter(name, scale, "from 1e-300 to 1e300"));
            }
        }
        Ok(())
    }

    /// Whether `query + ν` is at or above the noisy threshold, `ν` being Laplace noise under `key`, which must serve this
    /// query alone. A query that is not finite counts as 0.
    #[must_use]
    pub fn is_reached(&self, query: f64, key: &Key) -> bool {
        self.is_reached_widened(query, key, 0.0)
    }

    /// The same for an integer, taken exactly. It must lie in the range of floats.
    #[must_use]
    pub fn is_reached_by(&self, query: &Integer, key: &Key) -> bool {
        leaving_nothing(|| {
            let keystream = Keystream::new(self.isa, key);
            let approximate = query.approximate(0);
            in_default_environment(|| self.decide(approximate, &Signed::of(query), &first_sample(&keystream), 0.0))
        })
    }

    /// The same with the filter's margin widened, so that the exact comparison decides often: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn is_reached_widened(&self, query: f64, key: &Key, widening: f64) -> bool {
        leaving_nothing(|| {
            let keystream = Keystream::new(self.isa, key);
            in_default_environment(|| {
                self.decide(finite(query), &Signed::new(finite(query)), &first_sample(&keystream), widening)
            })
        })
    }

    /// Decides for a query that is about `query` and exactly `exact`.
    fn decide(&self, query: f64, exact: &Signed, noise: &Sample<'_>, widening: f64) -> bool {
        let own = first_sample(&self.keystream);
        let (up, down) = (!noise.negative(), !own.negative());
        self.filtered(query, (noise.word, up), (own.word, down), widening).unwrap_or_else(|| {
            let contest = Contest {
                // mutant: queries-noise-of-thresholds
                noise: Scaled::new(noise.uniform(), self.query_scale),
                own: Scaled::new(own.uniform(), self.threshold_scale),
            };
            contest.is_reached(up, down, &Signed::new(self.threshold), exact)
        })
    }

    /// Decides by bounds on `ν − ρ + q − T`, or not.
    ///
    /// # Numerics
    /// Four terms, each within two roundings of itself (an integer query within two units), and three sums: within 2⁻⁵⁰ of
    /// the sum of their sizes, and 2⁻¹⁰⁰⁰
    /// for what is subnormal. Where anything is infinite or no number, no comparison holds.
    fn filtered(&self, query: f64, noise: (u64, bool), own: (u64, bool), widening: f64) -> Option<bool> {
        let bounds = |(word, positive): (u64, bool), scale: f64| {
            let e = minus_log(word);
            if positive { (e.lower * scale, e.upper * scale) } else { (-e.upper * scale, -e.lower * scale) }
        };
        // −ρ has the opposite sign
        // mutant: noise-of-threshold-another-sign-where-floats
        let (noise, own) = (bounds(noise, self.query_scale), bounds((own.0, !own.1), self.threshold_scale));
        let distance = query - self.threshold;
        let largest = |(low, high): (f64, f64)| low.abs().max(high.abs());
        let size = largest(noise) + largest(own) + query.abs() + self.threshold.abs();
        // mutant: floats-decide-on-thresholds-without-margin
        let slack = size * exp2(-48) + exp2(-1000) + widening;
        if noise.0 + own.0 + distance > slack {
            return Some(true);
        }
        (noise.1 + own.1 + distance < -slack).then_some(false)
    }
}

/// Returns the noise that a key stands for: sample 0 of its streams.
fn first_sample(keystream: &Keystream) -> Sample<'_> {
    Sample { keystream, index: 0, word: keystream.words(0, 0)[0] }
}

/// An exponential variable times a float.
struct Scaled<F> {
    uniform: Uniform<F>,
    mantissa: u64,
    exponent: i32,
}

impl<F: Fn(u64) -> [u64; 2]> Scaled<F> {
    fn new(uniform: Uniform<F>, scale: f64) -> Self {
        let (mantissa, exponent) = split(scale);
        Self { uniform, mantissa, exponent }
    }

    /// Whether it exceeds `numerator · 2^exponent`.
    fn exceeds(&self, numerator: &Natural, exponent: i32) -> bool {
        let ratio =
            Rational { numerator: numerator.clone(), denominator: self.mantissa, exponent: exponent - self.exponent };
        self.uniform.exponential_exceeds(|precision| ratio.at(precision))
    }
}

/// The sizes of the two noises.
struct Contest<F, G> {
    noise: Scaled<F>,
    own: Scaled<G>,
}

impl<F: Fn(u64) -> [u64; 2], G: Fn(u64) -> [u64; 2]> Contest<F, G> {
    /// Whether `±A + q ≥ T ± B`; `up` and `down` say whether the signs are plus.
    fn is_reached(&self, up: bool, down: bool, threshold: &Signed, query: &Signed) -> bool {
        let is_behind = query.is_below(threshold);
        let gap = if is_behind { threshold.minus(query) } else { query.minus(threshold) };
        match (up, down, is_behind) {
            // A + q ≥ T + B
            (true, true, true) => !exceeds(&self.own, &gap, &self.noise),
            (true, true, false) => exceeds(&self.noise, &gap, &self.own),
            // q + B ≥ T + A
            (false, false, true) => !exceeds(&self.noise, &gap, &self.own),
            (false, false, false) => exceeds(&self.own, &gap, &self.noise),
            // A + B ≥ T − q
            (true, false, true) => !self.sum_is_below(&gap),
            (true, false, false) => true,
            // q − T ≥ A + B
            (false, true, true) => false,
            (false, true, false) => self.sum_is_below(&gap),
        }
    }

    /// Whether `A + B < d`.
    fn sum_is_below(&self, d: &Signed) -> bool {
        if d.magnitude.is_zero() {
            return false;
        }
        // y = d·f and d − y = d·(1 − f) for f = numerator/2^bits in (0, 1).
        let (mut numerator, mut bits) = (Natural::new(1), 1_u32);
        loop {
            let rest = Natural::new(1).shl(bits).saturating_sub(&numerator);
            let exponent = d.exponent - bits.cast_signed();
            let first = self.noise.exceeds(&d.magnitude.mul(&numerator), exponent);
            let second = self.own.exceeds(&d.magnitude.mul(&rest), exponent);
            numerator = numerator.shl(1);
            match (first, second) {
                (false, false) => return true,
                // mutant: sums-of-noises-cut-at-half
                (true, true) => return false,
                (true, false) => numerator = numerator.add(&Natural::new(1)),
                (false, true) => numerator = numerator.saturating_sub(&Natural::new(1)),
            }
            bits += 1;
        }
    }
}

/// Whether `X + d > Y`.
fn exceeds<F, G>(x: &Scaled<F>, d: &Signed, y: &Scaled<G>) -> bool
where
    F: Fn(u64) -> [u64; 2],
    G: Fn(u64) -> [u64; 2],
{
    if !d.magnitude.is_zero() && !y.exceeds(&d.magnitude, d.exponent) {
        return true;
    }
    // Steps are in units of about the larger scale.
    let unit = (x.exponent + 52).max(y.exponent + 52);
    bisect(|step| {
        let exponent = step.exponent + unit;
        let ahead = x.exceeds(&step.numerator, exponent);
        let sum = Signed { negative: false, magnitude: step.numerator.clone(), exponent }.plus(d);
        let beyond = y.exceeds(&sum.magnitude, sum.exponent);
        match (ahead, beyond) {
            (true, false) => Step::Answer(true),
            (false, true) => Step::Answer(false),
            (true, true) => Step::Up,
            (false, false) => Step::Down,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> Key {
        let mut bytes = [0x5a; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Key::from_bytes(bytes)
    }

    fn threshold(value: f64, scales: (f64, f64), n: u64) -> NoisyThreshold {
        NoisyThreshold::new(value, scales.0, scales.1, Isa::best(), &key(n)).expect("valid")
    }

    /// The filter decides nothing, so the exact comparison decides all, in every combination of signs and sides.
    #[test]
    fn no_margin_changes_an_answer() {
        let mut seen = [0_u32; 2];
        for n in 0..60 {
            let scales = [(1.0, 1.0), (1.0, 16.0), (7.3, 0.01), (1e-300, 1e300), (1e300, 3.0)][n as usize % 5];
            let size = scales.0 + scales.1;
            let noisy = threshold(0.7 * size, scales, n);
            for (i, factor) in [-1e3, -2.0, -0.3, 0.1, 0.7, 0.9, 1.6, 4.0, 1e3].into_iter().enumerate() {
                let (query, key) = (factor * size, key(1_000 + 100 * n + i as u64));
                let expected = noisy.is_reached(query, &key);

                assert_eq!(expected, noisy.is_reached_widened(query, &key, f64::INFINITY), "{n}, {factor}");
                seen[usize::from(expected)] += 1;
            }
        }
        assert!(seen.iter().all(|&count| count > 150), "{seen:?}");
    }

    /// In the middle of all combinations of signs, by plain arithmetic on digits of 53 bits.
    #[test]
    fn answers_are_those_of_plain_arithmetic() {
        for n in 0..500 {
            let noisy = threshold(1.0, (1.0, 3.0), n);
            let query_key = key(n + 50_000);
            let keystream = Keystream::new(Isa::PORTABLE, &query_key);
            let plain = |sample: Sample<'_>| {
                let e = -(sample.word as f64 * exp2(-64)).ln();
                if sample.negative() { -e } else { e }
            };
            let distance = 0.5 + 3.0 * plain(first_sample(&keystream)) - 1.0 - plain(first_sample(&noisy.keystream));
            assert!(distance.abs() > 1e-9, "too close for floats");

            assert_eq!(distance > 0.0, noisy.is_reached_widened(0.5, &query_key, f64::INFINITY));
        }
    }

    #[test]
    fn the_noise_of_the_threshold_stays_and_that_of_queries_changes() {
        // Far less noise on queries than on the threshold: the answers of one run change sides at one place, T + ρ.
        let noisy = threshold(0.0, (1.0, 1e-9), 3);
        let answer = |i: i32, n: u64| noisy.is_reached(f64::from(i) / 100.0, &key(n));
        let first: Vec<bool> = (-2000..2000).map(|i| answer(i, 7)).collect();
        let again: Vec<bool> = (-2000..2000).map(|i| answer(i, (i + 90_000) as u64)).collect();

        assert_eq!(first, again);
        assert!(first.is_sorted() && first[3999] && !first[0]);
        // Much noise on queries: two keys, two answers.
        let noisy = threshold(0.0, (1e-9, 1.0), 3);
        let answers = (0..100).filter(|&n| noisy.is_reached(0.0, &key(n))).count();
        assert!((20..80).contains(&answers), "{answers}");
    }

    #[test]
    fn what_is_not_finite_counts_as_zero_and_extremes_are_decided() {
        let noisy = threshold(1e6, (1.0, 1.0), 0);
        assert!(!noisy.is_reached(f64::INFINITY, &key(1)) && !noisy.is_reached(f64::NAN, &key(1)));
        assert!(threshold(-1e6, (1.0, 1.0), 0).is_reached(f64::NEG_INFINITY, &key(1)));
        for (scale, n) in [(1e-300, 0), (1e300, 1), (1.0, 2)] {
            for edge in [f64::MAX, 5e-324, 0.0] {
                let noisy = threshold(edge, (scale, scale), n);
                let equal = noisy.is_reached_widened(edge, &key(9 + n), f64::INFINITY);
                assert_eq!(equal, noisy.is_reached(edge, &key(9 + n)));
                let far = noisy.is_reached_widened(-f64::MAX, &key(9 + n), f64::INFINITY);
                assert_eq!(far, noisy.is_reached(-f64::MAX, &key(9 + n)));
                assert!(edge != f64::MAX || !far);
            }
        }
    }

    /// A threshold whose distance from the query decides, though both round to one float.
    #[test]
    fn integers_are_compared_exactly() {
        let integer = |value: i128| Integer::from_le_bytes(value < 0, &value.unsigned_abs().to_le_bytes());
        let level = 2_i128 << 60;
        let mut apart = 0;
        for n in 0..200 {
            let noisy = threshold(level as f64, (30.0, 30.0), n);
            let centered = threshold(0.0, (30.0, 30.0), n);
            let key = key(7_000 + n);
            for distance in [-100, -31, -7, 0, 1, 12, 65] {
                let found = noisy.is_reached_by(&integer(level + distance), &key);

                assert_eq!(centered.is_reached(distance as f64, &key), found, "{n}, {distance}");
                apart += u32::from(found != noisy.is_reached((level + distance) as f64, &key));
            }
            assert_eq!(noisy.is_reached(-(level as f64), &key), noisy.is_reached_by(&integer(-level), &key));
        }
        assert!(apart > 0, "floats would not do");
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (value, first, second) in
            [(f64::NAN, 1.0, 1.0), (f64::INFINITY, 1.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, f64::NAN), (0.0, 1e301, 1.0)]
        {
            assert!(NoisyThreshold::new(value, first, second, Isa::best(), &key(0)).is_err());
        }
        assert!(!format!("{:?}", threshold(0.0, (1.0, 1.0), 0)).contains('['), "no key is shown");
    }
}
