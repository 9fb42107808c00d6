//! The probability of every answer as an exact rational number, by enumeration of the words that lead to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Runs one answer on chosen words: the coin, the digits after it, the choice. Returns the answer, and whether the choice
/// had to be drawn again.
fn run(response: &Response, coin: u64, after: u64, choice: u64, answer: i64) -> (i64, bool) {
    let again = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&again);
    let keystream = Keystream::of_tape(move |stream, _| match stream {
        1 => [after, 0],
        2 => {
            seen.store(true, Ordering::Relaxed);
            [0x5555_5555_5555_5555, 0]
        }
        _ => unreachable!("the word drawn again is accepted: {stream}"),
    });
    let words = u128::from(choice) << 64 | u128::from(coin);
    let answer = response.respond(&keystream, 0, words, answer);
    (answer, again.load(Ordering::Relaxed))
}

/// Returns the first of 2^bits numbers for which a monotone predicate holds.
fn first(bits: u32, holds: impl Fn(u128) -> bool) -> u128 {
    let (mut low, mut high) = (0, if bits == 128 { u128::MAX } else { 1 << bits });
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[test]
fn the_coin_has_exactly_its_probability() {
    for p in [0.5, 0.1, 1.0 / 3.0, exp2(-40) * (1.0 + exp2(-52)), 1.0 - exp2(-53), exp2(-64)] {
        let response = Response::new(p, 4).expect("valid");
        // Choice 2^63 is category 2; whoever answers 0 and says 2 was replaced.
        let kept = first(128, |coin| run(&response, (coin >> 64) as u64, coin as u64, 1 << 63, 0).0 == 0);

        // p·2^128, exactly: a float's 53 bits, shifted.
        let (bits, exponent) = (p.to_bits() & ((1 << 52) - 1) | 1 << 52, (p.to_bits() >> 52) as i32 - 1075);
        assert_eq!(u128::from(bits) << (128 + exponent), kept, "{p}");
    }
    let always = Response::new(1.0, 4).expect("valid");
    assert_eq!(2, run(&always, u64::MAX, u64::MAX, 1 << 63, 0).0);
}

#[test]
fn categories_are_equally_likely_to_the_last_word() {
    for k in [2, 3, 5, 7, 10, 100, 255, 1000, 0x7fff_ffff_u64] {
        let response = Response::new(1.0, k).expect("valid");
        let share = (1_u128 << 64) / u128::from(k);
        let of = |choice: u128| run(&response, 0, 0, choice as u64, 0);
        for category in (0..k.min(200)).chain(k.saturating_sub(200)..k) {
            // A word drawn again gives another category: it is told by the flag, and never decides an order here.
            let at_least = |c: u64| {
                first(64, |choice| {
                    let plain = (choice * u128::from(k)) >> 64;
                    let (answer, again) = of(choice);
                    assert!(again || answer.cast_unsigned() == plain as u64, "word {choice} of {k}");
                    plain as u64 >= c
                })
            };
            let (start, end) = (at_least(category), at_least(category + 1));
            // Lower halves of a category's products are k apart: only the first word can be one too many.
            let refused = (start..(start + 3).min(end)).filter(|&choice| of(choice).1).count() as u128;
            assert!(refused <= u128::from(of(start).1), "only the first");
            assert!(!of(end - 1).1 || end - 1 == start);
            assert_eq!(share, end - start - refused, "words of category {category} of {k}");
        }
    }
}

#[test]
fn answers_follow_coin_and_choice() {
    for k in [2_u64, 3, 7] {
        let response = Response::new(0.25, k).expect("valid");
        for own in -1..=k.cast_signed() {
            let valid = if (0..k.cast_signed()).contains(&own) { own } else { 0 };
            for other in 0..k {
                let choice = ((u128::from(other) << 64) / u128::from(k)) as u64 + 5;
                assert_eq!(other.cast_signed(), run(&response, (1 << 62) - 1, 0, choice, own).0, "replaced");
                assert_eq!(valid, run(&response, 1 << 62, 0, choice, own).0, "kept");
            }
        }
    }
}
