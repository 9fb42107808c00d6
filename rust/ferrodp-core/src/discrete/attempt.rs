//! One attempt of the rejection sampler, decided for certain.
//!
//! Attempt 0 of sample `i` starts with word `i` of stream 0; attempt `a ≥ 1` with the first word of block `i` of stream
//! `1 + a·2²⁴`. Further bits of attempt `a` are the words after that in blocks `i` of streams `1 + a·2²⁴ + k`. So the bits of
//! an attempt depend on key, sample and attempt alone, no bit serves two purposes, and attempts are independent.
//!
//! A first word holds, from its top: 13 bits for the cell, one for the sign, `s` for the integer within the block, and the
//! first digits of the uniform `U`; where `s > 34` the integer comes from the first further word instead.

use super::candidate::{Candidate, Further};
use super::exact;
use super::scale::{EXPONENT_ERROR, rough_exponent};
use super::table::{CELL_BITS, DIGIT_BITS, Entry, Table, UNIT_BITS};
use crate::math::exp::{self, exp_neg};
use crate::params::exp2;
use crate::random::Keystream;

/// Offsets of at most so many bits fit into a first word with enough digits of `U`.
pub(super) const NARROW_BITS: u32 = 34;

/// Bits of a word after cell and sign.
const PAYLOAD_BITS: u32 = 63 - CELL_BITS;

/// A sample is decided in `f64` if acceptance and `U` are further apart.
///
/// # Numerics
/// The acceptance is a ≤ 1 in exact arithmetic. Its exponent t ≤ 1000 is off by 12u·t, the exponential by 16u, height and
/// count convert exactly, product and quotient round: relatively below 1.1·12020u < 2⁻³⁹·⁴ in all, u = 2⁻⁵³. `U` is known to
/// 64 digits and sums to within 2⁻⁵². 2⁻³⁸ covers both.
const ACCEPTANCE_MARGIN: f64 = 1.0 / (1_u64 << 38) as f64;
const _: () =
    assert!(ACCEPTANCE_MARGIN > 1.1 * (EXPONENT_ERROR * exp::MAX_EXP_ARGUMENT + exp::EXP_ERROR) + f64::EPSILON * 4.0);

/// Returns how many digits of `U` a first word has.
pub(super) fn digit_bits(offset_bits: u32) -> u32 {
    if offset_bits > NARROW_BITS { 31 } else { (PAYLOAD_BITS - offset_bits).min(31) }
}

impl<F: Fn(u64) -> [u64; 2]> Candidate<'_, F> {
    /// Whether it is accepted; `widening` is added to the margin, for tests.
    fn is_accepted(&self, widening: f64) -> bool {
        let t = rough_exponent(self.table.law, self.table.rate, self.magnitude as f64);
        if t <= exp::MAX_EXP_ARGUMENT {
            let (m, k) = exp_neg(t);
            let power = self.shift - k;
            // Below 2^−900 the acceptance is as good as 0 beside the margin.
            let scaled = if power < -900 { 0.0 } else { exp2(power.min(64)) };
            let acceptance = m * f64::from(self.table.height) / f64::from(self.divisor) * scaled;
            let unknown = exp2(-self.digit_bits.cast_signed());
            let first = f64::from(self.digits) * unknown;
            // Most are decided by the digits that are there: the others could add less than `unknown`.
            // mutant: known-digits-of-u-taken-for-all-there
            if acceptance - first > unknown + ACCEPTANCE_MARGIN + widening {
                return true;
            }
            if first - acceptance > ACCEPTANCE_MARGIN + widening {
                return false;
            }
            let uniform = first + self.further.word(self.next) as f64 * exp2(-64) * unknown;
            // mutant: second-stage-of-integers-no-margin
            if (uniform - acceptance).abs() > ACCEPTANCE_MARGIN + widening {
                return uniform < acceptance;
            }
        }
        exact::is_accepted(self)
    }
}

/// Returns the sample whose attempt 0 starts with `word`; `block(stream, ..)` gives its block of a stream.
pub(super) fn settle(table: &Table, word: u64, block: &impl Fn(u64) -> [u64; 2], widening: f64) -> i128 {
    let mut word = word;
    let mut attempt = 0;
    loop {
        // mutant: attempts-share-further-words
        let first_stream = 1 + (attempt << 24);
        // mutant: later-attempt-first-word-first-digits
        let further = Further { block: |k: u64| block(first_stream + k), skipped: u64::from(attempt > 0) };
        if let Some(sample) = try_once(table, word, further, widening) {
            return sample;
        }
        attempt += 1;
        // mutant: every-further-attempt-second
        word = block(1 + (attempt << 24))[0];
    }
}

fn try_once(table: &Table, word: u64, further: Further<impl Fn(u64) -> [u64; 2]>, widening: f64) -> Option<i128> {
    let cell = table.entries[(word >> (64 - CELL_BITS)) as usize];
    let negative = word >> PAYLOAD_BITS & 1 == 1;
    // mutant: tail-cut-off
    if cell.is_tail() {
        return from_tail(table, negative, further, widening);
    }
    let (offset, digits, next) = split(table, word, || further.word(0));
    let block = cell.block();
    let magnitude = (u128::from(block.unsigned_abs()) << table.offset_bits) + u128::from(offset);
    let negative = if table.is_signed() { block < 0 } else { negative };
    // mutant: zero-two-signs-in-second-stage
    if magnitude == 0 && negative {
        return None;
    }
    let candidate = Candidate {
        table,
        magnitude,
        divisor: table.counts[block.unsigned_abs() as usize],
        shift: -UNIT_BITS.cast_signed(),
        digits,
        digit_bits: table.digit_bits,
        further,
        next,
    };
    candidate.is_accepted(widening).then(|| signed(magnitude, negative))
}

/// Returns the integer within the block, the first digits of `U`, and which further word `U` goes on with.
#[inline(always)]
fn split(table: &Table, word: u64, further: impl Fn() -> u64) -> (u64, u32, u64) {
    let payload = word & ((1 << PAYLOAD_BITS) - 1);
    let (bits, digit_bits) = (table.offset_bits, table.digit_bits);
    if bits > NARROW_BITS {
        // mutant: offset-word-next-digits-of-u-as-well
        (further() >> (64 - bits), (payload >> (PAYLOAD_BITS - digit_bits)) as u32, 1)
    } else {
        // mutant: offset-bits-short
        let offset = payload >> (PAYLOAD_BITS - bits);
        // mutant: digits-of-u-those-of-offset
        let digits = payload >> (PAYLOAD_BITS - bits - digit_bits) & ((1 << digit_bits) - 1);
        (offset, digits as u32, 0)
    }
}

fn from_tail(table: &Table, negative: bool, further: Further<impl Fn(u64) -> [u64; 2]>, widening: f64) -> Option<i128> {
    let (mut next, mut halvings) = (0, 0);
    while further.word(next) == 0 {
        halvings += 64;
        next += 1;
    }
    halvings += further.word(next).leading_zeros();
    // `v` may be 0, and a shift by 64 is none.
    // mutant: tail-offset-lacks-bit
    let offset = further.word(next + 1).checked_shr(64 - table.tail_bits).unwrap_or(0);
    // mutant: tail-halves-one-bit-too-late
    let magnitude = u128::from(table.tail_start) + (u128::from(halvings) << table.tail_bits) + u128::from(offset);
    // mutant: width-of-the-tail
    let widths = table.tail_bits.cast_signed() - table.offset_bits.cast_signed() + i32::from(table.is_signed());
    let candidate = Candidate {
        table,
        magnitude,
        divisor: table.tail_count,
        shift: halvings.cast_signed() + 1 + widths - UNIT_BITS.cast_signed(),
        digits: 0,
        digit_bits: 0,
        further,
        next: next + 2,
    };
    candidate.is_accepted(widening).then(|| signed(magnitude, negative))
}

fn signed(magnitude: u128, negative: bool) -> i128 {
    let magnitude = magnitude.cast_signed();
    if negative { -magnitude } else { magnitude }
}

/// Returns whether the first word alone decides that the sample is accepted, and what it then is.
#[inline(always)]
pub(super) fn accepted_at_once(entry: Entry, offset_bits: u32, word: u64) -> (bool, i64) {
    let payload = word << (64 - PAYLOAD_BITS);
    // Two shifts: there may be no offset, and a shift by 64 is none.
    let offset = payload >> 1 >> (63 - offset_bits);
    let digits = payload << offset_bits >> (64 - DIGIT_BITS);
    judged(entry, offset_bits, offset, digits, word)
}

/// The same where the integer within the block comes from the first further word, and all of the first word's rest is
/// digits.
#[inline(always)]
pub(super) fn accepted_with(entry: Entry, offset_bits: u32, word: u64, further: u64) -> (bool, i64) {
    let digits = word << (64 - PAYLOAD_BITS) >> (64 - DIGIT_BITS);
    // mutant: offset-of-the-first-stage-from-the-low-bits
    judged(entry, offset_bits, further >> (64 - offset_bits), digits, word)
}

#[inline(always)]
fn judged(entry: Entry, offset_bits: u32, offset: u64, digits: u64, word: u64) -> (bool, i64) {
    let magnitude = (entry.block() << offset_bits) + offset.cast_signed();
    let negative = (word >> PAYLOAD_BITS & 1).cast_signed();
    let sign = if offset_bits == 0 { 0 } else { -negative };
    // mutant: first-stage-of-integers
    let accepted = digits < u64::from(entry.threshold()) && (magnitude | !sign) != 0;
    (accepted, (magnitude ^ sign) - sign)
}

/// The stage-one view of a keystream: block `sample` of any stream.
pub(super) fn blocks_of(keystream: &Keystream, sample: u64) -> impl Fn(u64) -> [u64; 2] + '_ {
    move |stream| keystream.words(stream, sample)
}
