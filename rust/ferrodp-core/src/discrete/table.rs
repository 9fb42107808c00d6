//! The envelope of one law: 8192 cells of equal probability, each standing for a block of integers, and a tail.
//!
//! With weight `f(x) = exp(−exponent(x))`, block width `w = 2^s` and a dyadic `N₀`, block `b` (the integers from `bw` to
//! `bw + w − 1`) gets `n_b ≥ N₀·f(bw)` cells. A cell is drawn by 13 uniform bits, a sign by one, an integer of the block by
//! `s`; it is accepted with probability `N₀·f(x)/n_b ≤ 1`, so that every integer of the body comes out with probability
//! `n_b/(8192·2·w) · N₀·f(x)/n_b = N₀·f(x)/(16384·w)`: proportional to `f`, whatever the `n_b` are. Zero has two signs, one of
//! which is rejected. With `w = 1` (*signed* tables) the sign is part of the cell instead: `n_b/8192 · N₀f/n_b`.
//!
//! **Tail.** From `x₀ = Bw` on, `W = 2^v` is such that `f` at least halves over every `W`. The tail's `n_t` cells lead to
//! block `j ≥ 0` of width `W` with probability `2^−(j+1)` (the number of leading zeros of fresh bits), to an integer in it by
//! `v` bits, and to acceptance with probability `N₀·f(x)·2^(j+1)·(W/w)/n_t`, which is ≤ 1 for `f(x) ≤ f(x₀)·2^−j` and
//! `n_t ≥ 2·N₀·f(x₀)·W/w`. The product is `N₀·f(x)/(16384·w)` again. Nothing is cut off. (With the sign in the cell, the
//! tail's cells are drawn a sign like those of unsigned tables, so that they count half: `n_t ≥ 4·N₀·f(x₀)·W`.)
//!
//! All that has to hold is `n_b ≥ N₀·f(bw)`, the tail's two inequalities, and that the counts sum to 8192: each is
//! checked with `f` bounded in the safe direction. How good the envelope is decides nothing but speed.

use super::scale::{EXPONENT_ERROR, Law, Scale, rough_exponent};
use crate::math::exp::{self, exp_neg};
use crate::params::{exp2, floor_log2};

/// Cells of an envelope, as bits of the word that chooses one.
pub(super) const CELL_BITS: u32 = 13;
const CELL_COUNT: usize = 1 << CELL_BITS;

/// `N₀` is a multiple of this.
pub(super) const UNIT_BITS: u32 = 16;

/// Factor between a computed weight and a bound on the true one; see [`weight`].
const WEIGHT_SLACK: f64 = 1.0 / (1_u64 << 38) as f64;
const _: () =
    assert!(WEIGHT_SLACK > 1.1 * (EXPONENT_ERROR * exp::MAX_EXP_ARGUMENT + exp::EXP_ERROR), "the bound of `weight`");

/// Blocks that would fill less than this share of a cell are left to the tail.
const LEAST_CELL: f64 = 0.25;

/// Scales from which blocks are wider than one integer: then 32 to 64 of them make a scale.
const BLOCKS_A_SCALE: i32 = 5;

/// Digits of `U` that thresholds speak of.
pub(super) const DIGIT_BITS: u32 = 16;

/// A cell's entry, packed: its block (signed; the least number for the tail) above the threshold.
#[derive(Clone, Copy)]
pub(super) struct Entry(u32);

impl Entry {
    const TAIL: Self = Self(1 << 31);

    fn new(block: i16, threshold: u16) -> Self {
        Self(u32::from(block as u16) << DIGIT_BITS | u32::from(threshold))
    }

    #[inline(always)]
    pub(super) fn block(self) -> i64 {
        i64::from(self.0.cast_signed() >> DIGIT_BITS)
    }

    #[inline(always)]
    pub(super) fn is_tail(self) -> bool {
        self.0 == Self::TAIL.0
    }

    /// First digits of the uniform number below this mean acceptance; 0 for the tail.
    #[inline(always)]
    pub(super) fn threshold(self) -> u16 {
        self.0 as u16
    }
}

/// The envelope of one law and scale.
pub(super) struct Table {
    pub(super) law: Law,
    pub(super) scale: Scale,
    /// For [`rough_exponent`].
    pub(super) rate: f64,
    /// `s`: blocks hold `2^s` integers.
    pub(super) offset_bits: u32,
    /// `N₀ · 2^UNIT_BITS`.
    pub(super) height: u32,
    pub(super) entries: Box<[Entry; CELL_COUNT]>,
    /// `n_b`.
    pub(super) counts: Vec<u32>,
    /// `n_t`, `x₀` and `v`.
    pub(super) tail_count: u32,
    pub(super) tail_start: u64,
    pub(super) tail_bits: u32,
    /// Digits of the uniform number that first words hold; at least [`DIGIT_BITS`].
    pub(super) digit_bits: u32,
}

impl Table {
    /// Returns the envelope; `digits` says how many digits of the uniform number a first word has, given `s`.
    pub(super) fn new(law: Law, scale: Scale, digits: impl Fn(u32) -> u32) -> Self {
        let rate = scale.rate(law);
        let offset_bits = (floor_log2(scale.approximate()) - BLOCKS_A_SCALE).max(0).unsigned_abs();
        let plan = Plan { law, rate, width: exp2(offset_bits.cast_signed()) };
        let weights: Vec<f64> = (0..).map(|b| plan.weight_above(f64::from(b))).take_while(|&f| f > 5e-5).collect();
        let (height, counts, tail) = plan.fill(&weights);
        let digit_bits = digits(offset_bits);
        let mut table = Self {
            law,
            scale,
            rate,
            offset_bits,
            height,
            entries: Box::new([Entry::TAIL; CELL_COUNT]),
            tail_count: tail.count,
            tail_start: (counts.len() as u64) << offset_bits,
            tail_bits: tail.bits,
            counts,
            digit_bits,
        };
        table.write_entries(&plan);
        table
    }

    /// Whether the sign is part of the cell.
    pub(super) fn is_signed(&self) -> bool {
        self.offset_bits == 0
    }

    /// Lowers every threshold by so much of a probability: more is left to later stages, and nothing else may change.
    pub(super) fn lower_thresholds(&mut self, margin: f64) {
        let digits = (margin * exp2(DIGIT_BITS.cast_signed())).ceil() as u16;
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_tail()) {
            *entry = Entry::new(entry.block() as i16, entry.threshold().saturating_sub(digits));
        }
    }

    fn write_entries(&mut self, plan: &Plan) {
        let height = f64::from(self.height) * exp2(-UNIT_BITS.cast_signed());
        let mut cells = self.entries.iter_mut();
        for (block, &count) in self.counts.iter().enumerate() {
            let acceptance = height * plan.weight_below(block as f64) / f64::from(count);
            // mutant: thresholds-rounded-up
            let threshold = (acceptance * exp2(DIGIT_BITS.cast_signed())).floor() as u16;
            let block = i16::try_from(block).expect("fewer blocks than cells");
            let signs: &[i16] = if self.offset_bits == 0 && block != 0 { &[1, -1] } else { &[1] };
            for sign in signs {
                for cell in cells.by_ref().take(count as usize) {
                    *cell = Entry::new(sign * block, threshold);
                }
            }
        }
        debug_assert_eq!(self.tail_count as usize, cells.len(), "counts sum to the number of cells");
    }
}

/// How a tail is drawn.
struct Tail {
    count: u32,
    bits: u32,
}

/// What an envelope is made from.
struct Plan {
    law: Law,
    rate: f64,
    /// `w`.
    width: f64,
}

impl Plan {
    /// Returns an upper bound on `f(b·w)`.
    fn weight_above(&self, block: f64) -> f64 {
        weight(rough_exponent(self.law, self.rate, block * self.width)) * (1.0 + WEIGHT_SLACK)
    }

    /// Returns a lower bound on `f` on block `b`: at its last integer.
    fn weight_below(&self, block: f64) -> f64 {
        // mutant: thresholds-those-of-block-first-integer
        let last = (block + 1.0) * self.width - 1.0;
        weight(rough_exponent(self.law, self.rate, last)) * (1.0 - WEIGHT_SLACK)
    }

    /// Returns the largest `N₀` for which all cells suffice, the counts of the body, and the tail with what is left.
    fn fill(&self, weights: &[f64]) -> (u32, Vec<u32>, Tail) {
        let (mut fits, mut too_high) = (0_u32, (CELL_COUNT as u32 + 1) << UNIT_BITS);
        while too_high - fits > 1 {
            let middle = fits + (too_high - fits) / 2;
            if self.count(weights, middle).is_some() {
                fits = middle;
            } else {
                too_high = middle;
            }
        }
        let (counts, mut tail, used) =
            self.count(weights, fits).expect("a height of zero needs no cells but the tail's");
        tail.count += CELL_COUNT as u32 - used;
        (fits, counts, tail)
    }

    /// Returns the counts for a height, the tail, and their sum, unless it is too large.
    fn count(&self, weights: &[f64], height: u32) -> Option<(Vec<u32>, Tail, u32)> {
        let height = f64::from(height) * exp2(-UNIT_BITS.cast_signed());
        let signed = self.width == 1.0;
        let mut counts = Vec::with_capacity(weights.len());
        let mut used = 0_u64;
        for (block, &weight) in weights.iter().enumerate() {
            let needed = height * weight;
            if block > 0 && needed < LEAST_CELL {
                break;
            }
            // The product rounds once: the next float is no smaller than the exact one.
            // mutant: cells-rounded-down
            let count = needed.next_up().ceil();
            counts.push(count as u32);
            used += count as u64 * if signed && block > 0 { 2 } else { 1 };
            if used > CELL_COUNT as u64 {
                return None;
            }
        }
        let start = counts.len() as f64;
        let bits = self.halving_bits(start * self.width);
        // mutant: tail-cells-not-shared-by-two-signs
        let share = if signed { 4.0 } else { 2.0 };
        let needed = share * (height * self.weight_above(start)) * (exp2(bits.cast_signed()) / self.width);
        // A weight below e^−1000 counts as 0 here; one cell is far above what it needs.
        let tail = Tail { count: (needed.next_up().next_up().ceil() as u32).max(1), bits };
        used += u64::from(tail.count);
        (used <= CELL_COUNT as u64).then_some((counts, tail, used as u32))
    }

    /// Returns the least `v` for which `f` halves over every `2^v` integers from `start` on.
    ///
    /// Laplace: `exponent(x + W) − exponent(x) = W·rate`. Gaussian: `(2xW + W²)·rate`, least at `x = start`.
    fn halving_bits(&self, start: f64) -> u32 {
        (0..60)
            .find(|&bits| {
                let width = exp2(bits);
                let gain = match self.law {
                    Law::Laplace => width * self.rate,
                    Law::Gaussian => (2.0 * start + width) * width * self.rate,
                };
                // mutant: tail-blocks-half-as-wide-as-they-need
                gain * (1.0 - 2.0 * EXPONENT_ERROR) >= core::f64::consts::LN_2.next_up()
            })
            .expect("over 2⁵⁹ integers even the widest law falls by half")
            .unsigned_abs()
    }
}

/// Returns `e^−t`, within a factor 1 ± [`WEIGHT_SLACK`] of the weight whose exponent `t` is a rough one of; 0 stands for less than
/// e^−1000.
///
/// # Numerics
/// The exponent is within 12u·t (u = 2⁻⁵³), so the weight within a factor e^(12u·1000) < 1 + 2⁻³⁹; [`exp_neg`] adds 16u.
fn weight(t: f64) -> f64 {
    if t > exp::MAX_EXP_ARGUMENT {
        return 0.0;
    }
    let (m, k) = exp_neg(t);
    if k > 1000 { 0.0 } else { m * exp2(-k) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Vec<Table> {
        let scales =
            [0.01, 0.05, 0.3, 0.5, 1.0, 2.5, 10.0, 31.99, 32.0, 63.9, 64.0, 100.5, 1e3, 1e6, 1e9, 1e13, 1.4e17];
        let laws = [Law::Gaussian, Law::Laplace];
        let table =
            |law, scale| Table::new(law, Scale::from_float(scale).expect("in range"), |s| (51 - s.min(35)).min(31));
        laws.iter().flat_map(|&law| scales.iter().map(move |&scale| table(law, scale))).collect()
    }

    /// Weights are compared as intervals of 256 bits: the inequalities of the module's proof, for every block.
    #[test]
    fn every_inequality_of_the_proof_holds_exactly() {
        use crate::math::interval::Interval;
        for table in tables() {
            let height = |scaled: u64| Interval::integer(scaled * u64::from(table.height), 256).halved(UNIT_BITS);
            let weight = |x: u128| table.scale.exponent(table.law, x, 256).exp_neg();
            let times = |n: &Interval, x: u128| n.mul(&weight(x));
            for (block, &count) in table.counts.iter().enumerate() {
                let first = (block as u128) << table.offset_bits;
                let at_most = Interval::integer(u64::from(count), 256);
                assert!(
                    block == 0 && u64::from(table.height) <= u64::from(count) << UNIT_BITS
                        || times(&height(1), first).is_below(&at_most),
                    "cells of block {block} of {:?}",
                    table.scale
                );
            }
            let start = u128::from(table.tail_start);
            // n_t·w ≥ 2·N₀·f(x₀)·W, twice that for signed tables
            let share = if table.is_signed() { 4 } else { 2 };
            let needed = times(&height(share), start).mul(&Interval::integer(1 << table.tail_bits, 256));
            let given = Interval::integer(u64::from(table.tail_count), 256)
                .mul(&Interval::integer(1 << table.offset_bits, 256));
            assert!(needed.is_below(&given), "cells of the tail of {:?}", table.scale);
            for j in 0..4_u32 {
                let at = start + (u128::from(j) << table.tail_bits);
                let next = table.scale.exponent(table.law, at + (1 << table.tail_bits), 256);
                let gain = next.sub(&table.scale.exponent(table.law, at, 256));
                assert!(gain.exp_neg().doubled().is_below(&Interval::integer(1, 256).add(&Interval::new(
                    crate::math::natural::Natural::new(0),
                    crate::math::natural::Natural::new(1 << 40),
                    256
                ))));
            }
        }
    }

    #[test]
    fn all_cells_are_used_and_few_attempts_are_wasted() {
        for table in tables() {
            let signs = |block: usize| if table.is_signed() && block > 0 { 2 } else { 1 };
            let body: u32 = table.counts.iter().enumerate().map(|(b, n)| n * signs(b)).sum();
            assert_eq!(CELL_COUNT as u32, body + table.tail_count);
            assert_eq!(table.tail_count as usize, table.entries.iter().filter(|e| e.is_tail()).count());
            assert!(table.tail_count < 96, "{} cells of tail for {:?} {:?}", table.tail_count, table.law, table.scale);
            let mean: f64 = table
                .entries
                .iter()
                .filter(|e| !e.is_tail())
                .map(|e| f64::from(e.threshold()) * exp2(-16))
                .sum::<f64>()
                / CELL_COUNT as f64;
            assert!(mean > 0.85, "only {mean} accepted at once for {:?} {:?}", table.law, table.scale);
        }
    }
}
