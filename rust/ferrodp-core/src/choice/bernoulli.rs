//! Coins that come up heads with probability `e^−γ`, exactly.
//!
//! Coin `i` is `U < e^−γ` for a uniform number `U` whose first 64 digits are word `i` of stream 0; block `i` of streams from 1
//! on has further ones. Two things can decide: the 64 digits against bounds on `e^−γ`, and, where these do not tell, intervals
//! of big integers against as many digits as it takes. Equality has probability zero, as `e^−γ` is irrational for rational
//! `γ > 0`; `γ = 0` is heads.
//!
//! For one `γ` the bounds are integers, `⌊2⁶⁴·e^−γ⌋` and the next one, from the same intervals: no float takes part. For many
//! they are an `f64` exponential with a proven error. The reference is Algorithm 1 of Canonne, Kamath, Steinke, "The discrete
//! Gaussian for differential privacy", NeurIPS 2020, which gives the same law from other bits.

use core::num::NonZeroUsize;

use crate::choice::select::lazy::{Rational, Uniform, split};
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::leaving_nothing;
use crate::math::exp::{self, exp_neg};
use crate::math::float_environment::in_default_environment;
use crate::math::natural::Natural;
use crate::params::exp2;
use crate::random::{CIPHER_BLOCK, Key, Keystream};

/// Coins in one unit of work for a thread.
const COINS_PER_TASK: usize = 1 << 15;

/// Coins whose words are in memory at once.
const COINS_PER_CHUNK: usize = 1024;

/// Tosses one coin for every element of `coins`: 1 with probability `e^−γ` for `γ = numerator/denominator`, else 0.
///
/// # Errors
/// If the denominator is zero.
pub fn toss(
    isa: Isa,
    key: &Key,
    (numerator, denominator): (u64, u64),
    coins: &mut [u8],
    threads: NonZeroUsize,
) -> Result<(), Error> {
    if denominator == 0 {
        return Err(Error::parameter("denominator", 0.0, "> 0"));
    }
    let gamma = Rational { numerator: Natural::new(u128::from(numerator)), denominator, exponent: 0 };
    leaving_nothing(|| toss_by(&Keystream::new(isa, key), &gamma, coins, threads));
    Ok(())
}

fn toss_by(keystream: &Keystream, gamma: &Rational, coins: &mut [u8], threads: NonZeroUsize) {
    // Words below `least` are heads, words above `most` tails.
    let (least, most) = gamma.at(256).exp_neg().leading_digits();
    blocks::for_each_block(coins, COINS_PER_TASK, threads, |start, block| {
        each_word(keystream, start, block, |index, word, coin: &mut u8| {
            let mut heads = word < least;
            if !heads & (word <= most) {
                // mutant: what-64-digits-of-coin-leave-open-heads
                heads = exactly(keystream, index, word, gamma);
            }
            *coin = u8::from(heads);
        });
    });
}

/// Replaces every γ by 1 with probability `e^−γ`, and else by 0.
///
/// # Errors
/// If some γ is negative or not finite; then nothing was replaced.
pub fn toss_each(isa: Isa, key: &Key, gammas: &mut [f64], threads: NonZeroUsize) -> Result<(), Error> {
    toss_each_widened(isa, key, gammas, threads, 0.0)
}

/// The same with the filter's margin widened, so that exact comparisons decide often: for tests.
///
/// # Errors
/// As [`toss_each`].
#[doc(hidden)]
pub fn toss_each_widened(
    isa: Isa,
    key: &Key,
    gammas: &mut [f64],
    threads: NonZeroUsize,
    widening: f64,
) -> Result<(), Error> {
    if !gammas.iter().all(|gamma| (0.0..f64::INFINITY).contains(gamma)) {
        return Err(Error::parameter("gamma", f64::NAN, "finite and >= 0"));
    }
    leaving_nothing(|| toss_each_by(&Keystream::new(isa, key), gammas, threads, widening));
    Ok(())
}

fn toss_each_by(keystream: &Keystream, gammas: &mut [f64], threads: NonZeroUsize, widening: f64) {
    blocks::for_each_block(gammas, COINS_PER_TASK, threads, |start, block| {
        in_default_environment(|| {
            each_word(keystream, start, block, |index, word, gamma: &mut f64| {
                let heads = filtered(word, *gamma, widening).unwrap_or_else(|| {
                    let (mantissa, exponent) = split(*gamma);
                    let numerator = Natural::new(u128::from(mantissa));
                    exactly(keystream, index, word, &Rational { numerator, denominator: 1, exponent })
                });
                *gamma = f64::from(u8::from(heads));
            });
        });
    });
}

/// Decides by bounds in `f64`, or not.
///
/// # Numerics
/// `U` lies in `[word, word + 1]·2⁻⁶⁴`; the conversions and the sum are within 2u of that, u = 2⁻⁵³. The exponential is
/// within 16u, and loses nothing to underflow down to `k = 1000`; the margin of 2⁻⁴⁷ = 64u of it covers both.
#[inline(always)]
fn filtered(word: u64, gamma: f64, widening: f64) -> Option<bool> {
    if gamma >= 690.0 {
        // mutant: rare-coins-tails
        return (word != 0).then_some(false); // e^−690 < 2⁻⁶⁴
    }
    let (m, k) = exp_neg(gamma);
    let threshold = m * exp2(-k);
    // mutant: floats-decide-on-coins-without-margin
    let margin = threshold * (4.0 * exp::EXP_ERROR) + widening;
    if (word as f64 + 1.0) * exp2(-64) < threshold - margin {
        return Some(true);
    }
    (word as f64 * exp2(-64) > threshold + margin).then_some(false)
}

/// Decides by as many digits as it takes.
#[cold]
fn exactly(keystream: &Keystream, index: u64, word: u64, gamma: &Rational) -> bool {
    // mutant: further-digits-of-coins
    let uniform = Uniform { word, further: |n| keystream.words(1 + n, index) };
    uniform.exponential_exceeds(|precision| gamma.at(precision))
}

/// Calls `work(index, word, element)` for every element, the first of which has index `start`.
#[inline(always)]
fn each_word<T>(keystream: &Keystream, start: usize, elements: &mut [T], work: impl Fn(u64, u64, &mut T)) {
    let mut bytes = [0_u8; COINS_PER_CHUNK * 8];
    for (number, chunk) in elements.chunks_mut(COINS_PER_CHUNK).enumerate() {
        let first = (start + number * COINS_PER_CHUNK) as u64;
        let words = &mut bytes[..chunk.len() * 8];
        // mutant: chunks-of-coins-share-words
        keystream.fill(0, first / (CIPHER_BLOCK as u64 / 8), words);
        for (i, (element, word)) in chunk.iter_mut().zip(words.as_chunks().0).enumerate() {
            work(first + i as u64, u64::from_le_bytes(*word), element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    /// Both ways of deciding, no filter at all, every instruction set and number of threads: the same coins.
    #[test]
    fn every_way_gives_the_same_coins() {
        for (numerator, denominator) in [(0, 1), (1, 1 << 60), (1, 8), (3, 4), (1, 1), (45, 1), (600, 1)] {
            let gamma = numerator as f64 / denominator as f64;
            let count = 3000;
            let mut expected = vec![7; count];
            toss(Isa::PORTABLE, &key(1), (numerator, denominator), &mut expected, ONE).expect("valid");
            for isa in Isa::available() {
                for (threads, widening) in [(1, 0.0), (3, 0.0), (1, 0.01), (1, 2.0)] {
                    let threads = NonZeroUsize::new(threads).expect("positive");
                    let count = if widening > 1.0 { 200 } else { count };
                    let mut found = vec![gamma; count];
                    toss_each_widened(isa, &key(1), &mut found, threads, widening).expect("valid");
                    assert!(found.iter().zip(&expected).all(|(&a, &b)| a == f64::from(b)), "{gamma} {isa:?}");
                    let mut again = vec![0; count];
                    toss(isa, &key(1), (numerator, denominator), &mut again, threads).expect("valid");
                    assert_eq!(expected[..count], again, "{gamma} {isa:?}");
                }
            }
        }
    }

    #[test]
    fn words_next_to_the_threshold_are_settled_by_further_digits() {
        let keystream = Keystream::new(Isa::PORTABLE, &key(2));
        for gamma in [1e-9_f64, 0.3, 1.0, 2.5, 20.0] {
            let threshold = (-gamma).exp();
            let word = (threshold * exp2(64)) as u64;
            let mut seen = [0; 2];
            for offset in -3000_i64..3000 {
                let word = word.saturating_add_signed(offset);
                let (mantissa, exponent) = split(gamma);
                let exact = Rational { numerator: Natural::new(u128::from(mantissa)), denominator: 1, exponent };
                let heads = exactly(&keystream, 5, word, &exact);
                seen[usize::from(heads)] += 1;
                assert!(filtered(word, gamma, 0.0).is_none_or(|found| found == heads));
            }
            assert!(seen.iter().all(|&n| n > 0), "{gamma}: {seen:?}");
        }
    }

    /// Ties of 64 digits, which no draw shows: the further digits of coin `i` are zeros if `i` is even, else ones.
    #[test]
    fn each_coin_settles_ties_with_digits_of_its_own() {
        for (numerator, denominator) in [(1_u64, 8_u64), (1, 1), (20, 1)] {
            let gamma = Rational { numerator: Natural::new(u128::from(numerator)), denominator, exponent: 0 };
            let (tie, most) = gamma.at(256).exp_neg().leading_digits();
            assert_eq!(tie, most);
            let keystream = Keystream::of_tape(move |stream, index| match (stream, index % 2) {
                (0, _) => [tie; 2],
                (_, 0) => [0; 2],
                _ => [u64::MAX; 2],
            });
            let (mut coins, mut gammas) = (vec![7; 3000], vec![numerator as f64 / denominator as f64; 3000]);
            toss_by(&keystream, &gamma, &mut coins, ONE);
            toss_each_by(&keystream, &mut gammas, ONE, 0.0);
            assert!(coins.iter().enumerate().all(|(i, &coin)| coin == u8::from(i % 2 == 0)), "{numerator}");
            assert!(coins.iter().zip(&gammas).all(|(&a, &b)| f64::from(a) == b), "{numerator}");
        }
        // Digits that are zeros throughout are below any probability.
        let (zeros, mut gammas) = (Keystream::of_tape(|_, _| [0; 2]), [689.9, 690.0, 1234.5]);
        toss_each_by(&zeros, &mut gammas, ONE, 0.0);
        assert_eq!([1.0; 3], gammas);
    }

    #[test]
    fn certain_and_all_but_impossible_coins() {
        let mut coins = vec![0; 1000];
        toss(Isa::best(), &key(3), (0, 5), &mut coins, ONE).expect("valid");
        assert!(coins.iter().all(|&coin| coin == 1));
        for gamma in [(u64::MAX, 1), (2000, 1), (45, 1)] {
            toss(Isa::best(), &key(3), gamma, &mut coins, ONE).expect("valid");
            assert!(coins.iter().all(|&coin| coin == 0));
        }
        let mut gammas = vec![f64::MAX, 690.0, 1e5, 0.0, 5e-324];
        toss_each(Isa::best(), &key(3), &mut gammas, ONE).expect("valid");
        assert_eq!(vec![0.0, 0.0, 0.0, 1.0, 1.0], gammas);
    }

    #[test]
    fn frequencies_are_those_of_the_law() {
        for (numerator, denominator) in [(1_u64, 100_u64), (1, 2), (2, 1), (7, 1)] {
            let n = 1_000_000;
            let mut coins = vec![0; n];
            toss(Isa::best(), &key(4), (numerator, denominator), &mut coins, ONE).expect("valid");
            let p = (-(numerator as f64) / denominator as f64).exp();
            let heads = coins.iter().filter(|&&coin| coin == 1).count() as f64;
            assert!((heads - n as f64 * p).abs() < 6.0 * (n as f64 * p * (1.0 - p)).sqrt() + 1.0, "{p}");
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        for gamma in [-1.0, f64::NAN, f64::INFINITY, -5e-324] {
            let mut gammas = [0.5, gamma];
            assert!(toss_each(Isa::best(), &key(0), &mut gammas, ONE).is_err());
            assert_eq!(0.5, gammas[0], "untouched");
        }
        assert!(toss(Isa::best(), &key(0), (1, 0), &mut [0], ONE).is_err());
    }
}
