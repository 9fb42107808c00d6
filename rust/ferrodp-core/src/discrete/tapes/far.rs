//! Ties that no draw will ever show: `U` agrees with the acceptance for more than 450 digits, which the first precision of the
//! last stage does not reach, or differs from it in one word alone.

use super::{Case, cases};
use crate::discrete::Law;
use crate::discrete::attempt::NARROW_BITS;
use crate::discrete::table::{CELL_BITS, Entry};
use crate::math::natural::Natural;

/// Bits of the arithmetic of [`far_digits`].
const FAR: u32 = 700;

/// Returns `⌊2^bits·f(x)·height·2^(shift − 16)/divisor⌋`, bits < 600, in two halves of lengths `first` and whole words.
///
/// `w = t/2¹²`, `t` the exponent, is cut by less than two units of 2⁻⁷⁰⁰; a term of the series, of at most 200, by less than
/// four; each of 12 squarings at most doubles the error and adds two units: the sum of all is below 2²³.
fn far_digits(case: &Case, x: i128, divisor: u32, shift: u32, first: u32, words: u32) -> (u64, Vec<u64>) {
    let (n, distance) = (case.numerator, Natural::new(x.unsigned_abs() * u128::from(case.denominator)));
    let exponent = match case.law {
        Law::Gaussian => distance.mul(&distance).shl(FAR).div(n).0.div(n).0.shr(1),
        Law::Laplace => distance.shl(FAR).div(n).0,
    };
    let w = exponent.shr(12);
    let (mut sums, mut term) = ([Natural::default(), Natural::default()], Natural::new(1).shl(FAR));
    for k in 1..200 {
        sums[(k as usize - 1) % 2] = sums[(k as usize - 1) % 2].add(&term);
        term = term.mul(&w).shr(FAR).div(k).0;
    }
    let mut power = sums[0].saturating_sub(&sums[1]);
    for _ in 0..12 {
        power = power.mul(&power).shr(FAR);
    }
    let bits = first + 64 * words;
    let height = Natural::new(u128::from(case.discrete.table.height));
    let share = |power: Natural| power.mul(&height).shl(shift).div(u64::from(divisor)).0.shr(16 + FAR - bits);
    let error = Natural::new(1 << 23);
    let digits = share(power.saturating_sub(&error));
    assert!(digits == share(power.add(&error)), "so far these digits are known");
    let words = (0..words).rev().map(|k| digits.shr(64 * k).low()).collect();
    (digits.shr(bits - first).low(), words)
}

#[test]
fn every_further_word_decides_if_those_before_do_not() {
    for case in cases(&[(7, 3), (64, 1), (4001, 4), (1 << 40, 1)]) {
        let table = &case.discrete.table;
        let assert_decided = |word: u64, before: &[u64], x: i128, place: u32, expected: (u64, Vec<u64>)| {
            let (first, words) = expected;
            let of = |first: u64, words: &[u64], fill| {
                case.attempt_of(word | first.unbounded_shl(place), &[before, words].concat(), fill)
            };
            let at = format!("{x} of {:?} {}", case.law, case.numerator);
            assert_eq!(Some(x), of(first, &words, 0), "{at}");
            assert_eq!(None, of(first, &words, u64::MAX), "{at}");
            for k in 0..words.len() {
                let mut changed = words.clone();
                changed[k + 1..].fill(u64::MAX);
                changed[k] = words[k].checked_sub(1).expect("not zero: else choose another x");
                assert_eq!(Some(x), of(first, &changed, u64::MAX), "word {k} of {at}");
                changed[k + 1..].fill(0);
                changed[k] = words[k].checked_add(1).expect("not all ones: else choose another x");
                assert_eq!(None, of(first, &changed, 0), "word {k} of {at}");
            }
        };
        let (bits, digits) = (table.offset_bits, table.digit_bits);
        let offset = ((1_u64 << bits) - 1) / 3;
        for block in [1, table.counts.len() / 2, table.counts.len() - 1] {
            let is_it = |entry: &Entry| !entry.is_tail() && entry.block() == block as i64;
            let cell = table.entries.iter().position(is_it).expect("every block has a cell") as u64;
            let x = ((block as i128) << bits) + i128::from(offset);
            let expected = far_digits(&case, x, table.counts[block], 0, digits, 7);
            let word = cell << (64 - CELL_BITS);
            if bits > NARROW_BITS {
                assert_decided(word, &[offset << (64 - bits)], x, 63 - CELL_BITS - digits, expected);
            } else {
                let place = 63 - CELL_BITS - bits;
                assert_decided(word | offset << place, &[], x, place - digits, expected);
            }
        }
        let cell = table.entries.iter().position(|entry| entry.is_tail()).expect("a tail") as u64;
        for zeros in [0, 5] {
            let last = (1_u64 << table.tail_bits) - 1;
            let before = [1 << 63 >> zeros, last.unbounded_shl(64 - table.tail_bits)];
            let x = i128::from(table.tail_start + (zeros << table.tail_bits) + last);
            let shift = zeros as u32 + 1 + table.tail_bits - table.offset_bits + u32::from(table.is_signed());
            let expected = far_digits(&case, x, table.tail_count, shift, 0, 7);
            assert_decided(cell << (64 - CELL_BITS), &before, x, 0, expected);
        }
    }
}
