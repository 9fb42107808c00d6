//! The law of one attempt by enumeration of its bits, against the law that is claimed, as rational numbers.
//!
//! What is claimed: an attempt accepts `x` with probability `N₀·f(x)/(8192·d)`, `d = 2w` (1 for signed tables), whatever `x`.
//! Attempts are independent, so samples then have the law `f/Σf`.
//!
//! - The production path runs on *every* first word of 22 bits (cell, sign, offset, first digits of `U`), once with the
//!   smallest and once with the largest continuation. Acceptance falls with `U`, so the claimed probability of each `x` lies
//!   between the two counts.
//! - For single (cell, sign, offset) the measure of the accepted `U` is found to 80 digits, by bisection through all three
//!   stages; the tail is enumerated by leading zeros and offset.
//! - In `far`, `U` agrees with the acceptance for more than 450 digits.
//!
//! Weights come from a fixed-point exponential of this file's own.

use core::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::attempt::{NARROW_BITS, settle};
use super::table::CELL_BITS;
use super::{Discrete, Law, Scale};
use crate::random::Keystream;

mod far;

/// Fraction bits of the exponential's arithmetic, of weights, and digits of `U`.
const WORK: u32 = 124;
const DIGITS: u32 = 80;

/// Returns `⌊a·b·2^−124⌋` or up to 2 less, for factors up to 2¹²⁴.
fn product(a: u128, b: u128) -> u128 {
    let half = WORK / 2;
    let split = |n: u128| (n >> half, n & ((1 << half) - 1));
    let ((a1, a0), (b1, b0)) = (split(a), split(b));
    a1 * b1 + ((a1 * b0 + a0 * b1) >> half)
}

/// Returns integers around `2^80·e^(−p/q)`, for p/q < 2048.
///
/// `w = (p/q)/2^m ≤ 1/2` is cut by less than one unit of 2⁻¹²⁴; each of at most 40 terms of the alternating series by less
/// than 4; so the sum is within 2⁸ units, and within 2⁸·2.1^m < 2²¹ units after m ≤ 12 squarings: far less than 2⁻⁸⁰.
fn weight(p: u128, q: u128) -> (u128, u128) {
    let m = (0..=12).find(|m| p << 1 <= q << m).expect("not too far out");
    let (mut w, mut rest) = (0_u128, p);
    for _ in 0..WORK {
        rest <<= 1;
        w = w << 1 | u128::from(rest >= q << m);
        rest -= if rest >= q << m { q << m } else { 0 };
    }
    let (mut sum, mut term) = (1_i128 << WORK, 1_u128 << WORK);
    for n in 1..40 {
        term = product(term, w) / n;
        sum += if n % 2 == 1 { -term.cast_signed() } else { term.cast_signed() };
    }
    let mut power = sum.cast_unsigned();
    for _ in 0..m {
        power = product(power, power);
    }
    let middle = power >> (WORK - DIGITS);
    (middle.saturating_sub(1), middle + 2)
}

/// A law under test.
struct Case {
    law: Law,
    numerator: u64,
    denominator: u64,
    discrete: Discrete,
}

impl Case {
    fn new(law: Law, numerator: u64, denominator: u64) -> Self {
        let scale = Scale::from_ratio(numerator, denominator).expect("in range");
        Self { law, numerator, denominator, discrete: Discrete::new(law, scale) }
    }

    /// Returns integers around `2^80·f(x)`.
    fn weight(&self, x: i128) -> (u128, u128) {
        let (n, d) = (u128::from(self.numerator), u128::from(self.denominator));
        match self.law {
            Law::Gaussian => weight((x.unsigned_abs() * d).pow(2), 2 * n * n),
            Law::Laplace => weight(x.unsigned_abs() * d, n),
        }
    }

    /// Returns integers around `2^80·2^16·N₀·f(x)`.
    fn height(&self, x: i128) -> (u128, u128) {
        let (low, high) = self.weight(x);
        let height = u128::from(self.discrete.table.height);
        (low * height, high * height)
    }

    /// Returns what attempt 0 gives for these bits; beyond them there are zeros.
    fn attempt(&self, word: u64, further: [u64; 4]) -> Option<i128> {
        self.attempt_of(word, &further, 0)
    }

    /// The same for any number of further words; beyond them all are `fill`.
    fn attempt_of(&self, word: u64, further: &[u64], fill: u64) -> Option<i128> {
        let rejected = Cell::new(false);
        let block = |stream: u64| {
            if stream > 1 << 24 {
                rejected.set(true);
                return [0, 0]; // a first word of zeros is accepted, as 0
            }
            let number = 2 * (stream as usize - 1);
            [number, number + 1].map(|n| further.get(n).copied().unwrap_or(fill))
        };
        let sample = settle(&self.discrete.table, word, &block, self.discrete.widening);
        (!rejected.get()).then_some(sample)
    }

    /// Returns what a (cell, sign, offset) of the body gives for a `U` of 80 digits.
    fn of_body(&self, cell: u64, negative: bool, offset: u64, uniform: u128) -> Option<i128> {
        let table = &self.discrete.table;
        let (bits, digits) = (table.offset_bits, table.digit_bits);
        let start = cell << (64 - CELL_BITS) | u64::from(negative) << (63 - CELL_BITS);
        let first = (uniform >> (DIGITS - digits)) as u64;
        let second = (uniform << (digits + 128 - DIGITS) >> 64) as u64;
        if bits > NARROW_BITS {
            self.attempt(start | first << (63 - CELL_BITS - digits), [offset << (64 - bits), second, 0, 0])
        } else {
            let payload = if bits == 0 { 0 } else { offset << (63 - CELL_BITS - bits) };
            self.attempt(start | payload | first << (63 - CELL_BITS - bits - digits), [second, 0, 0, 0])
        }
    }

    /// Returns the offsets that are looked at.
    fn offsets(&self) -> Vec<u64> {
        let last = (1_u64 << self.discrete.table.offset_bits) - 1;
        let mut some = vec![0, 1, last / 3, last / 2 + 1, last];
        some.retain(|&offset| offset <= last);
        some.sort_unstable();
        some.dedup();
        some
    }
}

/// Returns how many of all `U` of 80 digits are accepted; all of these come first.
fn accepted(is_accepted: impl Fn(u128) -> bool) -> u128 {
    let (mut low, mut high) = (0, 1_u128 << DIGITS);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_accepted(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Asserts that `cells·measure·2^−80 = N₀·f(x)·2^shift`, as far as a measure within one unit can show.
fn assert_mass(case: &Case, x: i128, cells: u64, measure: u128, shift: u32, what: &str) {
    let (low, high) = case.height(x);
    // `measure − 1` digits were accepted and `measure` was not: the probability is between the two.
    let (least, most) = (measure.saturating_sub(1), measure);
    let scaled = |measure: u128| (u128::from(cells) * measure) << 16;
    let at = format!("{what}: x = {x} of {:?} {}/{}", case.law, case.numerator, case.denominator);
    assert!(scaled(least) <= high << shift, "too likely: {at}");
    assert!(measure == 1 << DIGITS || low << shift <= scaled(most), "too unlikely: {at}");
}

const SCALES: [(u64, u64); 12] = [
    (3, 10),
    (1, 1),
    (7, 3),
    (10, 1),
    (63, 1),
    (64, 1),
    (201, 2),
    (4001, 4),
    (1_000_000, 1),
    (1_000_000_000, 1),
    (1 << 40, 1),
    (10_000_000_000_000, 1),
];

fn cases(scales: &[(u64, u64)]) -> Vec<Case> {
    let both = [Law::Gaussian, Law::Laplace].into_iter();
    both.flat_map(|law| scales.iter().map(move |&(n, d)| Case::new(law, n, d))).collect()
}

#[test]
fn weights_are_enclosed() {
    // e^−1 and e^−10 to 80 binary digits (mpmath), and a rational that reduces.
    for (p, q, expected) in [
        (1, 1, 444_738_954_937_557_665_364_702_u128),
        (10, 1, 54_885_147_298_558_595_979),
        (0, 1, 1 << 80),
        (30, 3, 54_885_147_298_558_595_979),
    ] {
        let (low, high) = weight(p, q);
        assert!((low..=high).contains(&expected) && high - low <= 3, "e^−{p}/{q}: {low} to {high}");
    }
}

/// How long the tapes are.
const TAPE: u32 = 22;

/// Returns the samples of all tapes, each continued by zeros (`false`) or ones; `None` where attempt 0 was rejected or ended
/// in the tail.
fn of_all_tapes(case: &Case, ones: bool) -> Vec<Option<i64>> {
    let fill = if ones { u64::MAX } else { 0 };
    let rejected: Arc<Vec<AtomicBool>> = Arc::new((0..1 << TAPE).map(|_| AtomicBool::new(false)).collect());
    let tails: Vec<bool> = case.discrete.table.entries.iter().map(|entry| entry.is_tail()).collect();
    let (seen, is_tail) = (Arc::clone(&rejected), tails.clone());
    let keystream = Keystream::of_tape(move |stream, index| {
        let word = |tape: u64| tape << (64 - TAPE) | (fill >> TAPE);
        if stream == 0 {
            return [word(2 * index), word(2 * index + 1)];
        }
        let in_tail = is_tail[(index >> (TAPE - CELL_BITS)) as usize];
        if stream > 1 << 24 || in_tail {
            seen[index as usize].store(true, Ordering::Relaxed);
        }
        // A tail needs a one among its zeros; a later attempt that starts with zeros is accepted.
        if stream > 1 << 24 {
            [0, 0]
        } else if in_tail {
            [u64::MAX, 0]
        } else {
            [fill, fill]
        }
    });
    let mut samples = vec![0_i64; 1 << TAPE];
    case.discrete.add_block(&keystream, 0, &mut samples);
    samples.iter().zip(rejected.iter()).map(|(&x, seen)| (!seen.load(Ordering::Relaxed)).then_some(x)).collect()
}

#[test]
fn all_tapes_of_22_bits_give_the_law() {
    for case in cases(&[(3, 10), (1, 1), (7, 3), (63, 1), (64, 1), (201, 2)]) {
        let table = &case.discrete.table;
        let (smallest, largest) = (of_all_tapes(&case, false), of_all_tapes(&case, true));
        let mut counts: HashMap<i64, (u64, u64)> = HashMap::new();
        for (tape, (&low, &high)) in smallest.iter().zip(&largest).enumerate() {
            assert!(high.is_none() || high == low, "tape {tape:x}: acceptance falls with U");
            if let Some(x) = low {
                let count = counts.entry(x).or_default();
                count.0 += u64::from(high.is_some());
                count.1 += 1;
            }
        }
        let start = table.tail_start.cast_signed();
        assert_eq!(counts.len() as i64, 2 * start - 1, "every integer of the body and no other");
        // count·2^−22 = N₀·f/(8192·d), d = 2^(s + 1) or 1: count·2^(16 + 80 + 13 + log d − 22) against 2^96·N₀·f
        let factor = if table.is_signed() { 0 } else { table.offset_bits + 1 };
        let scaled = |count: u64| u128::from(count) << (16 + DIGITS + CELL_BITS + factor - TAPE);
        for (&x, &(least, most)) in &counts {
            let (low, high) = case.height(i128::from(x));
            assert!(scaled(least) <= high, "{x} comes out of {least} tapes: {:?} {}", case.law, case.numerator);
            assert!(low <= scaled(most), "{x} comes out of {most} tapes: {:?} {}", case.law, case.numerator);
        }
    }
}

#[test]
fn every_cell_and_sign_has_its_share_to_80_digits() {
    for case in cases(&[(1, 1), (64, 1)]) {
        let table = &case.discrete.table;
        let body = (0..1 << CELL_BITS).filter(|&cell| !table.entries[cell as usize].is_tail());
        let mut found: HashMap<i128, (u64, u128)> = HashMap::new();
        for (cell, negative) in body.flat_map(|cell| [(cell, false), (cell, true)]) {
            let of = |uniform| case.of_body(cell, negative, 0, uniform);
            let Some(x) = of(0) else {
                assert!(negative && !table.is_signed() && table.entries[cell as usize].block() == 0, "cell {cell}");
                assert_eq!(0, accepted(|uniform| of(uniform).is_some()), "zero has one sign");
                continue;
            };
            let (cells, measure) = found.entry(x).or_insert_with(|| (0, accepted(|uniform| of(uniform) == Some(x))));
            *cells += 1;
            assert!(of(*measure - 1) == Some(x) && (*measure >> DIGITS == 1 || of(*measure).is_none()), "cell {cell}");
        }
        // A (cell, sign) has probability 2^−14, an offset 2^−s: cells·measure/(2^14·w) = N₀·f/(8192·d).
        let shift = u32::from(table.is_signed());
        for (x, (cells, measure)) in found {
            assert_mass(&case, x, cells, measure, shift, "body");
        }
    }
}

#[test]
fn offsets_have_their_share_at_any_scale() {
    for case in cases(&SCALES) {
        let table = &case.discrete.table;
        let mut cell = 0;
        for (block, &count) in table.counts.iter().enumerate() {
            let signs = if table.is_signed() && block > 0 { 2 } else { 1 };
            if block % 9 == 0 || block + 1 == table.counts.len() {
                for offset in case.offsets() {
                    let magnitude = ((block as i128) << table.offset_bits) + i128::from(offset);
                    let of = |uniform| case.of_body(cell, false, offset, uniform);
                    let measure = accepted(|uniform| of(uniform) == Some(magnitude));
                    assert_mass(&case, magnitude, u64::from(count), measure, 0, "offset");
                    if !table.is_signed() && magnitude > 0 {
                        let of = |uniform| case.of_body(cell, true, offset, uniform);
                        assert_eq!(Some(-magnitude), of(measure - 1));
                        assert_eq!(None, of(measure).filter(|_| measure >> DIGITS == 0));
                    }
                }
            }
            cell += u64::from(count) * signs;
        }
    }
}

#[test]
fn the_tail_has_its_share() {
    for case in cases(&SCALES) {
        let table = &case.discrete.table;
        let cell = table.entries.iter().position(|entry| entry.is_tail()).expect("a tail") as u64;
        let last = (1_u64 << table.tail_bits) - 1;
        for negative in [false, true] {
            for zeros in [0, 1, 2, 3, 7] {
                for offset in [0, last / 2, last] {
                    let word = cell << (64 - CELL_BITS) | u64::from(negative) << (63 - CELL_BITS);
                    let bits = if table.tail_bits == 0 { 0 } else { offset << (64 - table.tail_bits) };
                    let of = |leading: u64, uniform: u128| {
                        let (first, second) = ((uniform >> 16) as u64, (uniform << 48) as u64);
                        case.attempt(word | 0x1234, [leading, bits, first, second])
                    };
                    let magnitude = i128::from(table.tail_start + (zeros << table.tail_bits) + offset);
                    let x = if negative { -magnitude } else { magnitude };
                    let measure = accepted(|uniform| of(1 << 63 >> zeros, uniform) == Some(x));
                    assert!(measure > 0 && measure >> DIGITS == 0, "never certain: the tail dominates");
                    // Any of the 2^(63 − j) words with j leading zeros does the same.
                    assert_eq!(Some(x), of(u64::MAX >> zeros, measure - 1));
                    assert_eq!(None, of(u64::MAX >> zeros, measure));
                    // n_t/2^14 · 2^−(j+1) · 2^−v · measure = N₀·f/(8192·d)
                    let shift = zeros as u32 + 1 + table.tail_bits - table.offset_bits + u32::from(table.is_signed());
                    assert_mass(&case, x, u64::from(table.tail_count), measure, shift, "tail");
                }
            }
        }
        // 64 zeros and more are counted over several words; a `U` of zeros is accepted however far out.
        let far = i128::from(table.tail_start) + (64 << table.tail_bits);
        assert_eq!(Some(far), case.attempt(cell << (64 - CELL_BITS), [0, 1 << 63, 0, 0]));
    }
}
