//! Records in two of `N` steps: a law above that of the likelihood ratio in convex order.
//!
//! # The ratio
//! Both selected steps are drawn together, all couples being equally likely. The likelihood ratio of the round is the mean of
//! `r_s·r_t` over all couples `s < t`, with independent `r_t` of mean 1. It is linear in each `r_t`, so that going backward in time,
//! as for one selected step (see `allocation`), the worst `r_t` have the law of the pair.
//!
//! *Blocks.* Let the adversary know blocks of steps, drawn at random, and that the selected steps are in two different ones. All
//! couples of steps are equally likely still, so this tells no less, and the ratio is `Σ_{B < B'} S_B·S_{B'}` divided by its mean,
//! where `S_B` is the sum of the ratios of a block. With ten blocks one couple of ten is left out; of two halves, every second one.
//!
//! # Two coordinates
//! A group of blocks has `X = Σ S_B` and `Y = Σ_{B < B'} S_B·S_{B'}`. Two groups together have `X + X'` and `Y + Y' + X·X'`, and the ratio is
//! `Y` of all. With `(R, W)` those of all other blocks, it is `Y + X·R + W`: linear in `(X, Y)`, and `R` and `W` are independent of
//! them. So, by Jensen's inequality given `R` and `W`,
//!
//! - `(X, Y)` may be replaced by anything that has it for its conditional mean: each convex mean of the ratio grows. A point is
//!   split among two rows, `X = g`, so that `X` keeps its mean, and in each among two columns, so that `Y` does. Where there is
//!   enough of it, `Y` gets `K·(X − g)` more, `K` the mean of `R`: that has the mean 0, and `Y + K·X` stays what it was.
//! - It may be replaced by `(0, 0)` if the mean is kept that the ratio loses by it: `(x + e)₊ ≤ x₊ + e`, and a falling function
//!   grows. What `X` lost is multiplied by the mean of `R` as groups join. So next to nothing is cut off anywhere, not at ends alone.
//!
//! Columns are spaced by what they do to the ratio: in row `g` they are `Y = K·g·(z − 1)`, with `z ≥ 1` of a few binary digits. Those
//! of `Y` itself, at the end, are numbers of few digits as well: a cell and the place in it are bits of a number.
//!
//! # Rounding
//! As in `grid`. The share of a column is computed within `2^(digits + 4)` units, that of a row within `4/h`, and sums of so many terms
//! within as many units: both nodes get so much of the mass more, `surplus`. A number that is rounded over a node is in the wrong
//! cell, within `8·2^digits` units of the right one: an error of its value. Rows are the floats that they are. Masses are sums of
//! positive products, of no more terms than there are couples of nodes.

use super::grid::{Allocation, CUT_MASS, Grid, Law};
use crate::functions::{UNIT, exp, expm1, ln};
use crate::memory::{filled, room};
use crate::pld::pair::LossPair;
use crate::types::Rounding;

/// More than all errors of a share but those of sums.
const SHARE_SURPLUS: f64 = 1.0 / (1_u64 << 40) as f64;
/// About how many blocks there are, if there are as many steps.
const USUAL_BLOCKS: u64 = 10;
/// Spacing of the laws of blocks, and of the rows of groups.
const BLOCK_SPACING: f64 = 0.01;
const ROW_SPACING: f64 = 0.055;
/// Binary digits of a column, and of a product at the end.
const COLUMN_DIGITS: u32 = 4;
const PRODUCT_DIGITS: u32 = 7;
/// Cells by which the variance of a step is estimated.
const VARIANCE_CELLS: usize = 64;
/// Mass and mean that are cut off at one node.
const CUT_NODE: f64 = 1e-26;

/// The law of the sum of all products, on numbers of few digits, in units of its mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Couples {
    /// The bits of the first node, without the digits that it lacks.
    first: u64,
    masses: Vec<f64>,
    /// The mean of the sum of products.
    mean: f64,
    zero: f64,
    excess: f64,
    mass_error: f64,
    value_error: f64,
}

impl Couples {
    /// Returns the law of two of `steps ≥ 2` steps of this pair, which has the record in P and dominates a step; or `None` if
    /// that of a block would need more than `most` nodes.
    #[must_use]
    pub fn new(pair: &dyn LossPair, steps: u64, most: usize) -> Option<Self> {
        Self::spaced(pair, steps, (USUAL_BLOCKS, ROW_SPACING, CUT_NODE), most)
    }

    /// Whether this law is likely to be the tighter one: where a single step can outweigh all others, and their sum varies by a
    /// tenth or more. Else the grids here are too coarse, and halves leave out little.
    #[must_use]
    pub fn suits(pair: &dyn LossPair, steps: u64) -> bool {
        let (low, high) = (pair.range_under_q(1e-6).0, pair.range(1e-6).1);
        let step = (high - low) / VARIANCE_CELLS as f64;
        let square = |i: usize| {
            let mass = pair.mass(low + step * i as f64, low + step * (i + 1) as f64);
            if mass.q > 0.0 { mass.p * (mass.p / mass.q) } else { 0.0 }
        };
        let squares: f64 = (0..VARIANCE_CELLS).map(square).sum();
        pair.range(1e-12).1 > ln(steps as f64) && squares - 1.0 > 0.01 * steps as f64
    }

    fn spaced(pair: &dyn LossPair, steps: u64, (blocks, h, cut): (u64, f64, f64), most: usize) -> Option<Self> {
        let blocks = blocks.min(steps);
        let (length, longer) = (steps / blocks, steps % blocks);
        let grid = Grid { h: BLOCK_SPACING, offset: 0.0, side: Rounding::Up, cut: CUT_MASS };
        let (of, squared) = (steps as f64, |length: u64| length as f64 * length as f64);
        let apart = of * of - (blocks - longer) as f64 * squared(length) - longer as f64 * squared(length + 1);
        let all = Whole { steps: of, mean: 0.5 * apart, h, cut };
        let mut known: Vec<(Parts, Group)> = room(2 * u64::BITS as usize);
        for (parts, length) in [(Parts(1, 0), length), (Parts(0, 1), length + 1)] {
            if parts.0 > 0 || longer > 0 {
                known.push((parts, Group::of_a_block(&grid.sum_of(pair, length, most)?, length, all)));
            }
        }
        let [a, b] = Parts(blocks - longer, longer).halves();
        find(&mut known, a, all);
        find(&mut known, b, all);
        Some(of_parts(&known, a).ended(of_parts(&known, b), all))
    }

    /// Returns the law on losses `k·h`, or `None` if it would need more than `most` nodes.
    #[must_use]
    pub fn on(&self, h: f64, most: usize) -> Option<Allocation> {
        let grid = Grid { h, offset: 0.0, side: Rounding::Up, cut: CUT_MASS };
        let value = |i: usize| value_of(self.first + i as u64) / self.mean;
        let cell = |value: f64| (ln(value) / h).floor() as i64;
        let first = cell(value(0));
        let count = (cell(value(self.masses.len() - 1)) - first + 2) as usize;
        if count > most {
            return None;
        }
        let mut masses = filled(0.0, count);
        let step = expm1(h);
        for (i, &mass) in self.masses.iter().enumerate() {
            let at = cell(value(i));
            let share = ((value(i) * exp(-(at as f64) * h) - 1.0) / step).clamp(0.0, 1.0);
            let at = (at - first) as usize;
            masses[at] += mass * (1.0 - share + SHARE_SURPLUS);
            masses[at + 1] += mass * (share + SHARE_SURPLUS);
        }
        let reach = first.unsigned_abs().max((first + count as i64).unsigned_abs()) as f64 * h;
        let mut law = Law {
            level: 0,
            first,
            masses,
            zero: self.zero,
            excess: self.excess,
            steps: 1.0,
            mass_error: self.mass_error + self.masses.len() as f64 + 16.0,
            value_error: self.value_error + 32.0 + 8.0 * reach,
        };
        grid.cut(&mut law);
        Some(Allocation::made(grid, law))
    }
}

/// Returns the number of few digits with these bits.
fn value_of(bits: u64) -> f64 {
    f64::from_bits(bits << (52 - PRODUCT_DIGITS))
}

/// How many blocks of either length.
#[derive(Clone, Copy, PartialEq)]
struct Parts(u64, u64);

impl Parts {
    fn halves(self) -> [Self; 2] {
        let first = Self(self.0 / 2, self.1 - self.1 / 2);
        [first, Self(self.0 - first.0, self.1 - first.1)]
    }
}

fn of_parts(known: &[(Parts, Group)], parts: Parts) -> &Group {
    &known.iter().find(|(each, _)| *each == parts).expect("a law that was made").1
}

/// Makes the law of so many blocks, and those that it is joined from.
fn find(known: &mut Vec<(Parts, Group)>, parts: Parts, all: Whole) {
    if known.iter().any(|(each, _)| *each == parts) {
        return;
    }
    let [a, b] = parts.halves();
    find(known, a, all);
    find(known, b, all);
    let group = of_parts(known, a).joined(of_parts(known, b), all);
    crate::memory::grow(known, 1);
    known.push((parts, group));
}

/// All steps, the mean of all products, the spacing of rows, and what is cut off at one node.
#[derive(Clone, Copy)]
struct Whole {
    steps: f64,
    mean: f64,
    h: f64,
    cut: f64,
}

/// Nodes of one sum.
struct Row {
    sum: f64,
    /// Products and their masses.
    products: Vec<f64>,
    masses: Vec<f64>,
}

/// A row, borrowed: sum, products and masses.
type Nodes<'a> = (f64, &'a [f64], &'a [f64]);

/// The law of `(X, Y)` of some blocks, which have so many steps.
struct Group {
    steps: f64,
    rows: Vec<Row>,
    /// Mass at (0, 0).
    zero: f64,
    /// Mean of X and of Y that is missing.
    excess: (f64, f64),
    nodes: f64,
    mass_error: f64,
    /// Relative errors of sums and of products, in units.
    value_errors: (f64, f64),
}

/// Where the nodes of a group are: spacing of rows, and `K`.
#[derive(Clone, Copy)]
struct Places {
    h: f64,
    scale: f64,
}

impl Places {
    fn sum(self, row: i64) -> f64 {
        exp(row as f64 * self.h)
    }

    /// Returns the row below a sum, whatever rounding does, and both neighbors.
    fn row(self, sum: f64) -> (i64, [f64; 2]) {
        let mut row = (ln(sum) / self.h).floor() as i64;
        while self.sum(row) > sum {
            row -= 1;
        }
        while self.sum(row + 1) <= sum {
            row += 1;
        }
        (row, [self.sum(row), self.sum(row + 1)])
    }

    fn product(self, sum: f64, column: usize) -> f64 {
        let z = f64::from_bits(1.0_f64.to_bits() + ((column as u64) << (52 - COLUMN_DIGITS)));
        self.scale * sum * (z - 1.0)
    }
}

/// Returns the cell of a number ≥ 1 above the first one of so many digits, with these bits, and the place in it.
#[inline(always)]
fn cell<const OF_A_CELL: u32>(number: f64, first: u64) -> (usize, f64) {
    let bits = number.to_bits();
    let rest = bits & ((1 << (52 - OF_A_CELL)) - 1);
    (((bits >> (52 - OF_A_CELL)) - first) as usize, rest as f64 * (1.0 / (1_u64 << (52 - OF_A_CELL)) as f64))
}

/// The first column.
const FIRST_COLUMN: u64 = 1.0_f64.to_bits() >> (52 - COLUMN_DIGITS);

/// Masses of cells and what of them belongs to the right ends.
#[inline(always)]
fn fill<const OF_A_CELL: u32>(
    cells: &mut [[f64; 2]],
    first: u64,
    (a, products_of_a): (&[f64], &[f64]),
    (b, products_of_b): (&[f64], &[f64]),
    (offset, unit, weight): (f64, f64, f64),
) {
    for (&mass, &product) in a.iter().zip(products_of_a) {
        let (mass, offset) = (mass * weight, offset + product * unit);
        for (&other, &product) in b.iter().zip(products_of_b) {
            let (at, share) = cell::<OF_A_CELL>(offset + product * unit, first);
            let mass = mass * other;
            let [of_cell, of_right] = &mut cells[at];
            *of_cell += mass;
            *of_right += mass * share;
        }
    }
}

/// Masses of rows that are being filled.
struct Filling {
    places: Places,
    first: i64,
    columns: usize,
    cells: Vec<[f64; 2]>,
    surplus: f64,
}

impl Filling {
    /// `highest` bounds `z` of what is added, and `terms` how many add up in a cell.
    fn new(places: Places, sums: (f64, f64), highest: f64, terms: f64) -> Self {
        let (first, last) = (places.row(sums.0).0, places.row(sums.1).0 + 1);
        let columns = cell::<COLUMN_DIGITS>(highest * (1.0 + 1e-9), FIRST_COLUMN).0 + 2;
        let cells = filled([0.0; 2], ((last - first + 1) as usize).saturating_mul(columns));
        Self { places, first, columns, cells, surplus: SHARE_SURPLUS + 4.0 * terms * UNIT }
    }

    /// Splits what two rows have together among two rows, with so much of their mass.
    fn add(&mut self, a: Nodes<'_>, b: Nodes<'_>, times: f64) {
        let (sum, cross, scale) = (a.0 + b.0, a.0 * b.0, self.places.scale);
        let (row, [below, above]) = self.places.row(sum);
        let share = (sum - below) / (above - below);
        let is_skewed = cross >= scale * (above - sum) * (1.0 + 1e-9);
        for (row, to, weight) in [(row, below, 1.0 - share), (row + 1, above, share)] {
            let start = (row - self.first) as usize * self.columns;
            let unit = 1.0 / (scale * to);
            // mutant: products-of-a-skewed-row
            let moved = if is_skewed { scale * (sum - to) } else { 0.0 };
            fill::<COLUMN_DIGITS>(
                &mut self.cells[start..start + self.columns],
                FIRST_COLUMN,
                (a.2, a.1),
                (b.2, b.1),
                (1.0 + (cross + moved) * unit, unit, times * (weight + SHARE_SURPLUS)),
            );
        }
    }

    /// Returns the group, without nodes that have next to nothing.
    fn cut(self, mut group: Group, all: Whole) -> Group {
        let rest = all.steps - group.steps;
        group.rows = room(self.cells.len() / self.columns);
        for (i, cells) in self.cells.chunks_exact(self.columns).enumerate() {
            let sum = self.places.sum(self.first + i as i64);
            let mut row = Row { sum, products: room(self.columns), masses: room(self.columns) };
            let mut left = 0.0;
            for (column, &[mass, of_right]) in cells.iter().enumerate() {
                let all_of_it = left + (mass - of_right).max(0.0) + mass * self.surplus;
                left = of_right + mass * self.surplus;
                if all_of_it == 0.0 {
                    continue;
                }
                let product = self.places.product(sum, column);
                if all_of_it.max(all_of_it * (product + sum * rest) / all.mean) > all.cut {
                    row.products.push(product);
                    row.masses.push(all_of_it);
                } else {
                    group.zero += all_of_it;
                    // mutant: mean-of-what-is-cut-off
                    group.excess.0 += all_of_it * sum;
                    group.excess.1 += all_of_it * product;
                }
            }
            if !row.masses.is_empty() {
                group.nodes += row.masses.len() as f64;
                group.rows.push(row);
            }
        }
        let up = 1.0 + 1e-6;
        group.zero *= up;
        group.excess = (group.excess.0 * up, group.excess.1 * up);
        group
    }
}

impl Group {
    fn of_a_block(block: &Law, steps: u64, all: Whole) -> Self {
        let places = Places { h: all.h, scale: all.steps - steps as f64 };
        let sum = |i: usize| exp((block.first + i as i64) as f64 * BLOCK_SPACING);
        let last = block.masses.len() - 1;
        let mut filling = Filling::new(places, (sum(0), sum(last)), 1.0, block.masses.len() as f64);
        for (i, mass) in block.masses.iter().enumerate() {
            filling.add((sum(i), &[0.0], core::slice::from_ref(mass)), (0.0, &[0.0], &[1.0]), 1.0);
        }
        let reach = BLOCK_SPACING * block.first.unsigned_abs().max((block.first + last as i64).unsigned_abs()) as f64;
        let group = Self {
            steps: steps as f64,
            rows: Vec::new(),
            zero: block.zero,
            excess: (block.excess, 0.0),
            nodes: 0.0,
            mass_error: block.mass_error + block.masses.len() as f64 + 32.0,
            value_errors: (block.value_error + 16.0 + 8.0 * reach, 0.0),
        };
        filling.cut(group, all)
    }

    /// Returns the rows, and one of (0, 0).
    fn with_zero(&self) -> impl Iterator<Item = Nodes<'_>> {
        let rows = self.rows.iter().map(|row| (row.sum, &row.products[..], &row.masses[..]));
        rows.chain([(0.0, &[0.0][..], core::slice::from_ref(&self.zero))])
    }

    /// Calls for all couples of rows, (0, 0) with itself excepted: both, and how often they meet.
    fn with_rows_of(&self, other: &Self, mut meet: impl FnMut(Nodes<'_>, Nodes<'_>, f64)) {
        let is_square = core::ptr::eq(self, other);
        for (i, a) in self.with_zero().enumerate() {
            for (j, b) in other.with_zero().enumerate().skip(if is_square { i } else { 0 }) {
                if a.0 + b.0 > 0.0 {
                    meet(a, b, if is_square && i != j { 2.0 } else { 1.0 });
                }
            }
        }
    }

    /// Calls for all couples of rows whose products are not 0, and adds the masses of those whose product is.
    fn with_products_of(&self, other: &Self, zero: &mut f64, mut meet: impl FnMut(Nodes<'_>, Nodes<'_>, f64)) {
        self.with_rows_of(other, |a, b, times| {
            if a.0 * b.0 > 0.0 {
                return meet(a, b, times);
            }
            // One is (0, 0), and only the first product of a row may be 0.
            let (none, row) = if a.0 > 0.0 { (b, a) } else { (a, b) };
            let first = usize::from(row.1[0] == 0.0);
            *zero += row.2[..first].iter().sum::<f64>() * none.2[0] * times;
            if first < row.1.len() {
                meet(none, (row.0, &row.1[first..], &row.2[first..]), times);
            }
        });
    }

    /// Returns what is the same for both ways to join two groups.
    fn frame(&self, other: &Self) -> Self {
        let (nodes, others) = (self.nodes + 1.0, other.nodes + 1.0);
        Self {
            steps: self.steps + other.steps,
            rows: Vec::new(),
            zero: self.zero * other.zero,
            excess: (
                self.excess.0 + other.excess.0,
                // mutant: what-is-missing-of-a-sum
                self.excess.1 + other.excess.1 + (self.excess.0 * other.steps + other.excess.0 * self.steps),
            ),
            nodes: 0.0,
            mass_error: self.mass_error + other.mass_error + nodes * others + 32.0,
            value_errors: (
                self.value_errors.0.max(other.value_errors.0) + 8.0,
                (self.value_errors.0 + other.value_errors.0).max(self.value_errors.1).max(other.value_errors.1)
                    + 32.0
                    + 8.0 * f64::from(1_u32 << PRODUCT_DIGITS),
            ),
        }
    }

    /// Returns the law of both groups together.
    fn joined(&self, other: &Self, all: Whole) -> Self {
        let frame = self.frame(other);
        let places = Places { h: all.h, scale: all.steps - frame.steps };
        let (mut low, mut high, mut highest) = (f64::INFINITY, 0.0_f64, 0.0_f64);
        self.with_rows_of(other, |a, b, _| {
            let sum = a.0 + b.0;
            (low, high) = (low.min(sum), high.max(sum));
            highest = highest.max(most_of(a, b) / (places.scale * sum));
        });
        // A row may be lower by one spacing, and products moved by as much.
        let highest = (1.0 + highest) * exp(all.h) + expm1(all.h);
        let terms = 2.0 * (self.nodes + 1.0) * (other.nodes + 1.0);
        let mut filling = Filling::new(places, (low, high), highest, terms);
        self.with_rows_of(other, |a, b, times| filling.add(a, b, times));
        filling.cut(frame, all)
    }

    /// Returns the law of the sum of products of both groups, which are all.
    fn ended(&self, other: &Self, all: Whole) -> Couples {
        let frame = self.frame(other);
        let (mut lowest, mut most) = (f64::INFINITY, 0.0_f64);
        let mut zero = frame.zero;
        self.with_products_of(other, &mut zero, |a, b, _| {
            (lowest, most) = (lowest.min(least_of(a, b)), most.max(most_of(a, b)));
        });
        let bits = |product: f64| product.to_bits() >> (52 - PRODUCT_DIGITS);
        // A sum may be rounded below the least.
        let first = bits(lowest) - 1;
        let mut cells = filled([0.0; 2], (bits(most) - first + 3) as usize);
        self.with_products_of(other, &mut 0.0, |a, b, times| {
            fill::<PRODUCT_DIGITS>(&mut cells, first, (a.2, a.1), (b.2, b.1), (a.0 * b.0, 1.0, times));
        });
        let surplus = SHARE_SURPLUS + 8.0 * (self.nodes + 1.0) * (other.nodes + 1.0) * UNIT;
        let mut masses: Vec<f64> = room(cells.len());
        let mut left = 0.0;
        for &[mass, of_right] in &cells {
            masses.push(left + (mass - of_right).max(0.0) + mass * surplus);
            left = of_right + mass * surplus;
        }
        while masses.len() > 1 && masses[masses.len() - 1] == 0.0 {
            masses.pop();
        }
        let empty = masses.iter().take_while(|mass| **mass == 0.0).count().min(masses.len() - 1);
        masses.drain(..empty);
        let up = 1.0 + 1e-6;
        Couples {
            first: first + empty as u64,
            masses,
            mean: all.mean,
            zero: zero * up,
            excess: frame.excess.1 * up / all.mean,
            mass_error: frame.mass_error,
            value_error: frame.value_errors.1 + 16.0,
        }
    }
}

/// Returns the least product of two rows together.
fn least_of(a: Nodes<'_>, b: Nodes<'_>) -> f64 {
    a.1[0] + b.1[0] + a.0 * b.0
}

/// Returns the largest product of two rows together.
fn most_of(a: Nodes<'_>, b: Nodes<'_>) -> f64 {
    a.1[a.1.len() - 1] + b.1[b.1.len() - 1] + a.0 * b.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::gathered;
    use crate::pld::pairs::{FiniteLosses, Gaussian};
    use crate::pld::single;
    use crate::types::Direction;

    /// Answers of two values with ratios `e^±a`: by the number of high ones.
    fn exact(a: f64, steps: i32, epsilon: f64, direction: Direction) -> f64 {
        let likely = 1.0 / (1.0 + exp(-a));
        let choose = |n: i32, k: i32| (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product::<f64>();
        (0..=steps)
            .map(|high| {
                let without = choose(steps, high) * likely.powi(steps - high) * (1.0 - likely).powi(high);
                let ways = [choose(steps - high, 2), f64::from(high) * f64::from(steps - high), choose(high, 2)];
                let ratio = (ways[0] * exp(-2.0 * a) + ways[1] + ways[2] * exp(2.0 * a)) / choose(steps, 2);
                without
                    * if direction == Direction::Remove { ratio - exp(epsilon) } else { 1.0 - exp(epsilon) * ratio }
                        .max(0.0)
            })
            .sum()
    }

    fn delta(law: &Allocation, epsilon: f64, direction: Direction) -> f64 {
        match direction {
            Direction::Remove => single::delta(law, epsilon).upper,
            Direction::Add => single::delta(&crate::pld::pairs::Reversed(law.clone()), epsilon).upper,
        }
    }

    #[test]
    fn a_couple_of_private_steps_costs_no_less_than_it_does_and_little_more() {
        for (steps, blocks) in [(2, 2), (3, 3), (4, 4), (7, 7), (12, 4), (13, 6)] {
            for a in [1.0, 2.5] {
                let pair = FiniteLosses::epsilon_delta(a, 0.0);
                let couples = Couples::spaced(&pair, steps, (blocks, 0.03, CUT_NODE), 1 << 14).expect("few nodes");
                let law = couples.on(0.002, 1 << 16).expect("few nodes");
                for direction in [Direction::Remove, Direction::Add] {
                    for epsilon in [0.0, 0.1, 0.3, 0.9] {
                        let (found, truth) =
                            (delta(&law, epsilon, direction), exact(a, steps as i32, epsilon, direction));
                        let all = format!("{steps} {blocks} {a} {epsilon} {direction:?}: {found} {truth}");

                        assert!(found >= truth * (1.0 - 1e-12), "{all}");
                        assert!(found <= truth * 1.3 + 1e-4, "{all}");
                    }
                }
            }
        }
    }

    #[test]
    fn masses_and_means_are_kept() {
        // The surplus adds to them: never less than 1, and hardly more. What is cut off is in the mass at 0 and the excess.
        for (s, steps) in [(1.0, 100), (1.5, 7), (1.0, 41)] {
            let couples = Couples::new(&Gaussian::new(1.0 / s), steps, 1 << 14).expect("few nodes");
            let law = couples.on(1.0 / 256.0, 1 << 17).expect("few nodes");
            let mass: f64 = law.law.masses.iter().sum::<f64>() + law.law.zero;
            let mean: f64 = law.p.iter().sum::<f64>() + law.law.excess;

            assert!((1.0..1.0 + 1e-3).contains(&mass), "{s} {steps}: {mass}");
            assert!((1.0..1.0 + 1e-3).contains(&mean), "{s} {steps}: {mean}");
        }
    }

    #[test]
    fn whatever_is_cut_off_masses_and_means_are_kept() {
        for cut in [1e-6, 1e-4] {
            let pair = Gaussian::new(1.0);
            let couples = Couples::spaced(&pair, 40, (10, 0.1, cut), 1 << 14).expect("few nodes");
            let exact = Couples::spaced(&pair, 40, (10, 0.05, CUT_NODE), 1 << 14).expect("few nodes");
            let [law, exact] = [couples, exact].map(|couples| couples.on(0.01, 1 << 14).expect("few nodes"));
            let mass: f64 = law.law.masses.iter().sum::<f64>() + law.law.zero;
            let mean: f64 = law.p.iter().sum::<f64>() + law.law.excess;

            assert!(law.law.excess > 10.0 * cut && mass >= 1.0, "{cut}: {mass}");
            assert!((1.0..1.0 + 1e-3).contains(&mean), "{cut}: {mean}");
            for direction in [Direction::Remove, Direction::Add] {
                for epsilon in [0.1, 1.0, 3.0] {
                    assert!(delta(&law, epsilon, direction) >= delta(&exact, epsilon, direction), "{cut} {epsilon}");
                }
            }
        }
    }

    #[test]
    fn two_steps_are_a_product() {
        // ln r_1 r_2 is normal: one Gaussian release of √2 times the sensitivity.
        for s in [0.5, 1.0, 2.0] {
            let couples = Couples::new(&Gaussian::new(1.0 / s), 2, 1 << 14).expect("few nodes");
            let law = couples.on(1.0 / 256.0, 1 << 17).expect("few nodes");
            for (epsilon, direction) in
                [0.0, 0.5, 2.0].into_iter().flat_map(|e| [(e, Direction::Remove), (e, Direction::Add)])
            {
                let truth = single::delta(&Gaussian::new(1.0 / (s * core::f64::consts::SQRT_2)), epsilon).lower;
                let found = delta(&law, epsilon, direction);

                assert!(found >= truth * (1.0 - 1e-12) && found <= truth * 1.02, "{s} {epsilon}: {found} {truth}");
            }
        }
    }

    #[test]
    fn a_couple_costs_no_more_than_one_step_of_each_half_where_a_step_outweighs_the_others() {
        let pair = Gaussian::new(1.0);
        let half = Allocation::new(&pair, 50, 1.0 / 256.0, Rounding::Up, 1 << 14).expect("few nodes");
        let halves = half.repeated(2, 1 << 14).expect("few nodes");
        let couples =
            Couples::new(&pair, 100, 1 << 14).expect("few nodes").on(1.0 / 256.0, 1 << 14).expect("few nodes");
        let epsilon = |law: &Allocation, delta: f64| single::epsilon(&[Box::new(law.clone())], delta).upper;

        assert!(Couples::suits(&pair, 100) && !Couples::suits(&Gaussian::new(4.0), 100));
        for (delta, part) in [(1e-6, 0.985), (1e-12, 0.982), (1e-20, 0.955)] {
            assert!(epsilon(&couples, delta) < part * epsilon(&halves, delta), "{delta}");
        }
    }

    #[test]
    fn what_is_cut_off_counts() {
        // A step that shows everything with probability d: its mean above all nodes is one that sums and products lack.
        let shown = 1e-3;
        let pair = FiniteLosses::epsilon_delta(0.0, shown);
        for steps in [2, 3, 8, 40] {
            let couples = Couples::new(&pair, steps, 1 << 14).expect("few nodes");
            let law = couples.on(1.0 / 256.0, 1 << 17).expect("few nodes");
            let truth = 1.0 - (1.0 - shown) * (1.0 - shown);
            let found = delta(&law, 3.0, Direction::Remove);

            assert!(found >= truth && found <= 1.001 * truth + 1e-6, "{steps}: {found} {truth}");
        }
    }

    #[test]
    fn products_beyond_a_cut_are_kept_as_a_mean() {
        // Without the excess, or the mass at 0, a bound falls below the truth as soon as much is cut off.
        let pair = FiniteLosses::epsilon_delta(2.5, 0.0);
        let mut wrong = [0; 2];
        for epsilon in [0.1, 0.3, 0.9, 1.5] {
            let all = Whole { steps: 2.0, mean: 1.0, h: 0.02, cut: CUT_NODE };
            let grid = Grid { h: BLOCK_SPACING, offset: 0.0, side: Rounding::Up, cut: CUT_MASS };
            let mut block = Group::of_a_block(&grid.sum_of(&pair, 1, 1 << 14).expect("few nodes"), 1, all);
            // Rows of the higher atom and of the lower one, with the mass and without, are cut off by hand.
            let highest = block.rows.split_off(block.rows.len() - 2);
            for row in highest.iter().chain(&gathered(block.rows.drain(..2))) {
                let mass: f64 = row.masses.iter().sum();
                block.zero += mass;
                block.excess.0 += mass * row.sum;
            }
            let law = block.ended(&block, all).on(0.002, 1 << 16).expect("few nodes");
            for direction in [Direction::Remove, Direction::Add] {
                let truth = exact(2.5, 2, epsilon, direction);
                assert!(delta(&law, epsilon, direction) >= truth, "{epsilon} {direction:?}");
                for (term, wrong) in wrong.iter_mut().enumerate() {
                    let mut less = law.clone();
                    *if term == 0 { &mut less.law.excess } else { &mut less.law.zero } = 0.0;
                    *wrong += usize::from(delta(&less, epsilon, direction) < truth * (1.0 - 1e-9));
                }
            }
        }
        assert!(wrong[0] >= 1 && wrong[1] >= 1, "{wrong:?}");
    }
}
