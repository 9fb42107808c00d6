//! Two discrete laws between which the law of `r̄` lies in convex order, for any pair of laws and any number of steps.
//!
//! Values are on a geometric grid, `g_k = e^{kh + c}`, so that their logarithms, the privacy losses, are on a uniform one. A law
//! that is replaced by one larger in convex order, *upper*, or smaller, *lower*, gives a larger or smaller mean of every convex
//! function; sums of independent variables keep the order. (Shaked, Shanthikumar, "Stochastic orders", 2007, Theorem 3.A.12.)
//!
//! - *Upper*: mass between two nodes is split among them so that its mean is kept. Mass below the first node is split among it
//!   and 0. Mass above the last is put on it, and what its mean loses is kept in `excess`: `(x + e)₊ ≤ x₊ + e`.
//! - *Lower*: neighboring masses are merged into their mean where that is a node, going upward and cutting masses as it
//!   takes; the last ones downward, and those above which there is too little mass: where a bulk ends or atoms lie apart,
//!   merging upward would draw all rare large values into the bulk. What is left at the ends is dropped: all functions
//!   are ≥ 0.
//!
//! Both cost `O(h²)`. The sum of `g_i` and `g_j`, `k = j − i ≥ 0`, is `g_j(1 + e^{−kh})`: cell and place in it depend on `k` alone, so a
//! convolution is as many multiplications of shifted arrays as there are `k` with `e^{−kh} ≥ e^h − 1`; beyond, the sum lies in the cell
//! above `g_j`, and running sums over `i` are all that counts.
//!
//! What the placing adds to the variance of a sum of `2^l` steps is divided by `T/2^l` in the mean of all. So grids may be coarser
//! for shorter sums: their spacings are `h·2^m`, `m` falling by one for each two doublings, to 0 for the sum of all.
//!
//! # Rounding
//! All errors are relative, so that tails are as accurate as the rest. A *mass* is a sum of positive products, within `2n + 16`
//! units after a convolution; errors of sums of `m` steps add up to `m` times that of one. A *value* is off by a factor: what is
//! claimed of an upper law `X` is that every mean of `f(X_true)`, `f` convex and ≥ 0, is at most that of `f((1 + η)X)` if `f` rises, of
//! `f((1 − η)X)` if it falls; and of a lower law the reverse, with the signs exchanged.
//!
//! *Upper.* The share of a cell's right node is computed within `64/h + 8n` units, and summed as precisely. Both nodes get so much more of the
//! cell's mass than is computed, `surplus`, and have then no less than the exact split would give them, whatever it is: as all functions
//! are ≥ 0, more mass errs to the safe side. Values lie a few units outside of their cell at most. *Lower.* A group's mean is
//! within `128 + 12(n + 2)h` units of its node, plus `2n + 16` units of how far the group reaches; rounding it to the node moves
//! values by that.
//!
//! The law of one step comes from its pair, whose masses are within `μ` of those between boundaries that are moved by at most `λ`: the
//! same arguments with `4μ + 4λ` for units.

use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::memory::{copied, filled, gathered, room};
use crate::pld::pair::{LossPair, Mass};
use crate::types::Rounding;

/// Mass or mean that is cut off at an end of a law, at most, in units of the mean.
pub(super) const CUT_MASS: f64 = 1e-28;

/// The widest spacing of the laws of few steps, unless that of all is wider; and as a part of the range of one step's losses.
const COARSEST_SPACINGS: (f64, f64) = (0.016, 1.0 / 300.0);

/// A law on the grid of spacing `h·2^level`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Law {
    pub(super) level: u32,
    /// Index of the first node.
    pub(super) first: i64,
    pub(super) masses: Vec<f64>,
    /// Mass at 0.
    pub(super) zero: f64,
    /// Mean that is missing above the last node.
    pub(super) excess: f64,
    /// How many steps it is the sum of.
    pub(super) steps: f64,
    /// Relative errors of masses and of values, in units.
    pub(super) mass_error: f64,
    pub(super) value_error: f64,
}

impl Law {
    fn copy(&self) -> Self {
        Self { masses: copied(&self.masses), ..*self }
    }
}

/// One round or several, from one side: the pair of which P has the record, on losses `k·h`.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    grid: Grid,
    pub(super) law: Law,
    losses: Vec<f64>,
    pub(super) p: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    pub(super) h: f64,
    pub(super) offset: f64,
    pub(super) side: Rounding,
    pub(super) cut: f64,
}

impl Allocation {
    /// Returns the law of one round of `steps ≥ 1` steps of this pair and loss spacing `h`, or `None` if it would need more than
    /// `most` nodes.
    ///
    /// `pair` has the record in P and lacks it in Q. For an upper law it dominates a step, for a lower one the step dominates it.
    #[must_use]
    pub fn new(pair: &dyn LossPair, steps: u64, h: f64, side: Rounding, most: usize) -> Option<Self> {
        Self::cut_at(CUT_MASS, pair, steps, h, side, most)
    }

    /// Returns the same with so much cut off.
    fn cut_at(cut: f64, pair: &dyn LossPair, steps: u64, h: f64, side: Rounding, most: usize) -> Option<Self> {
        let log_steps = ln(steps as f64);
        let shift = (log_steps / h).round();
        let grid = Grid { h, offset: log_steps - h * shift, side, cut };
        let mut law = grid.sum_of(pair, steps, most)?;
        // r̄ is the sum over T. The offset is within 4 units of ln T of the exact one, which moves all values alike.
        law.value_error += 8.0 + 4.0 * log_steps;
        law.excess = law.excess / law.steps * grid.outward(4.0);
        law.first -= shift as i64;
        law.steps = 1.0;
        Some(Self::made(Grid { offset: 0.0, ..grid }, law))
    }

    /// Returns the same law once more.
    pub(crate) fn copy(&self) -> Self {
        Self { grid: self.grid, law: self.law.copy(), losses: copied(&self.losses), p: copied(&self.p) }
    }

    pub(super) fn made(grid: Grid, law: Law) -> Self {
        let losses: Vec<f64> = gathered((0..law.masses.len()).map(|i| (law.first + i as i64) as f64 * grid.h));
        // mutant: p-masses-of-an-allocation
        let p = gathered(losses.iter().zip(&law.masses).map(|(&loss, &mass)| mass * exp(loss)));
        Self { grid, law, losses, p }
    }

    /// Returns the law of both rounds, or `None` if it would need more than `most` nodes. Spacings and sides must agree.
    ///
    /// Losses add, so that all are on the grid: what is kept in convex order is kept by products of independent factors ≥ 0.
    #[must_use]
    pub fn and(&self, other: &Self, most: usize) -> Option<Self> {
        Some(Self::made(self.grid, self.grid.product(&self.law, &other.law, most)?))
    }

    /// Returns the law of `count ≥ 1` such rounds, or `None` if it would need more than `most` nodes.
    #[must_use]
    pub fn repeated(&self, count: u64, most: usize) -> Option<Self> {
        let (mut rest, mut square, mut joined) = (count, self.law.copy(), None::<Law>);
        loop {
            if rest & 1 == 1 {
                joined = Some(match joined {
                    Some(law) => self.grid.product(&law, &square, most)?,
                    None => square.copy(),
                });
            }
            rest >>= 1;
            if rest == 0 {
                return joined.map(|law| Self::made(self.grid, law));
            }
            square = self.grid.product(&square, &square, most)?;
        }
    }

    /// Returns the index of the first loss, and the `Q`-masses of losses `(first + i)·h`; then the `Q`-mass of loss −∞ and the
    /// `P`-mass of loss +∞, where `P` has the record.
    #[must_use]
    pub fn masses(&self) -> (i64, &[f64], f64, f64) {
        (self.law.first, &self.law.masses, self.law.zero, self.law.excess)
    }

    fn ends(&self) -> (f64, f64) {
        let (low, high) = (self.losses[0], self.losses[self.losses.len() - 1]);
        let slack = |loss: f64| 2.0 * self.loss_error() * loss.abs().max(1.0);
        (low - slack(low), high + slack(high))
    }
}

impl LossPair for Allocation {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        let until = |end: f64| self.losses.partition_point(|&loss| loss <= end);
        let (start, end) = (until(lower), until(upper).max(until(lower)));
        Mass { p: self.p[start..end].iter().sum(), q: self.law.masses[start..end].iter().sum() }
    }

    fn infinite(&self) -> f64 {
        // mutant: mass-above-the-grid
        self.law.excess
    }

    fn negative_infinite(&self) -> f64 {
        self.law.zero
    }

    /// That of a mass, of a value, of `e^loss`, and of a sum of all: P-masses are products of masses and values.
    fn relative_error(&self) -> f64 {
        let (low, high) = (self.losses[0].abs(), self.losses[self.losses.len() - 1].abs());
        // mutant: errors-of-an-allocation
        let of_one = self.law.mass_error + self.law.value_error + 16.0 + 2.0 * low.max(high);
        (of_one + self.losses.len() as f64) * UNIT
    }

    /// That of a value, and of the product of index and spacing.
    fn loss_error(&self) -> f64 {
        (self.law.value_error + 4.0) * UNIT
    }

    fn range(&self, _x: f64) -> (f64, f64) {
        self.ends()
    }

    fn range_under_q(&self, _x: f64) -> (f64, f64) {
        self.ends()
    }

    fn support(&self) -> (f64, f64) {
        self.ends()
    }

    fn effort(&self) -> f64 {
        0.2
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        Some((0.0, self.grid.h))
    }
}

/// The nodes a law is laid on.
#[derive(Clone, Copy)]
struct Spaced {
    h: f64,
    offset: f64,
}

impl Spaced {
    fn loss(self, k: i64) -> f64 {
        k as f64 * self.h + self.offset
    }

    fn value(self, k: i64) -> f64 {
        exp(self.loss(k))
    }
}

impl Grid {
    fn at(&self, level: u32) -> Spaced {
        Spaced { h: self.h * f64::from(1_u32 << level), offset: self.offset }
    }

    /// Returns a factor that is so many units beyond 1, to the side of this law.
    fn outward(&self, units: f64) -> f64 {
        if self.side == Rounding::Up { 1.0 + units * UNIT } else { 1.0 - units * UNIT }
    }

    /// Returns how much coarser the grid may be, however few the steps.
    fn coarsest(&self, pair: &dyn LossPair) -> u32 {
        let range = pair.range(self.cut).1 - pair.range_under_q(self.cut).0;
        (libm::log2(COARSEST_SPACINGS.0.min(COARSEST_SPACINGS.1 * range) / self.h).max(0.0) as u32).min(20)
    }

    /// Returns the law of the sum of steps, by doubling.
    pub(super) fn sum_of(&self, pair: &dyn LossPair, steps: u64, most: usize) -> Option<Law> {
        let fits = |a: &Law, b: &Law| a.masses.len() + b.masses.len() < 8 * most;
        let coarsest = self.coarsest(pair);
        let level = |doublings: u32| (doublings / 2).min(coarsest);
        let (mut rest, mut doublings) = (steps, steps.ilog2());
        let mut square = self.single(pair, level(doublings), most)?;
        let mut joined = None::<Law>;
        loop {
            if rest & 1 == 1 {
                joined = Some(match joined {
                    Some(law) => fits(&law, &square).then(|| self.sum(&law, &square, square.level))?,
                    None => square.copy(),
                });
            }
            rest >>= 1;
            if rest == 0 {
                return joined.filter(|law| law.masses.len() <= most);
            }
            doublings -= 1;
            square = fits(&square, &square).then(|| self.sum(&square, &square, level(doublings)))?;
        }
    }

    /// Returns the law of one step.
    fn single(&self, pair: &dyn LossPair, level: u32, most: usize) -> Option<Law> {
        let grid = self.at(level);
        let (low, high) = (pair.range_under_q(self.cut).0, pair.range(self.cut).1);
        let span = (high - low) / grid.h;
        if span.is_nan() || span >= most as f64 {
            return None;
        }
        let first = ((low - self.offset) / grid.h).floor() as i64;
        let count = (((high - self.offset) / grid.h).ceil() as i64 - first).max(1);
        let mut cells = Cells::new(first, count as usize + 1);
        let mut farthest = 1.0_f64;
        for c in 0..count {
            let (left, right) = (grid.loss(first + c), grid.loss(first + c + 1));
            farthest = farthest.max(left.abs()).max(right.abs());
            let within = pair.cell(left, right);
            let q = pair.mass(left, right).q;
            let share = if within.q > 0.0 { (within.p / within.q - 1.0) / expm1(grid.h) } else { 0.0 };
            cells.add(c as usize, q, share.clamp(0.0, 1.0));
        }
        let (mass_error, moved) = (pair.relative_error() / UNIT + 16.0, pair.loss_error() * farthest / UNIT);
        let errors = 4.0 * mass_error + 4.0 * moved + 64.0;
        let mut law = self.place(&cells, level, errors / grid.h, errors + 640.0, 0.0);
        (law.steps, law.mass_error) = (1.0, law.mass_error + mass_error + 16.0);
        let up = self.outward(mass_error);
        law.zero += pair.negative_infinite() * up;
        law.excess += pair.infinite() * up;
        if self.side == Rounding::Up {
            // Below the first node: split among it and 0. Above the last: on it, and all of its mean.
            let (bottom, last) = (pair.mass(f64::NEG_INFINITY, grid.loss(first)), grid.loss(first + count));
            let top = pair.mass(last, f64::INFINITY);
            law.zero += bottom.q * up;
            law.masses[0] += bottom.p / grid.value(law.first);
            law.excess += top.p * up;
            let end = law.masses.len() - 1;
            law.masses[end] += top.q;
        }
        Some(law)
    }

    /// Returns the law of the sum of two independent variables, on the grid of a level that is no coarser than theirs.
    fn sum(&self, a: &Law, b: &Law, level: u32) -> Law {
        let common = a.level.min(b.level);
        let is_square = core::ptr::eq(a, b);
        let (finer_a, finer_b) = (a.refined(common), if is_square { None } else { b.refined(common) });
        let (a, b) = (finer_a.as_ref().unwrap_or(a), finer_b.as_ref().unwrap_or(b));
        let (coarse, fine) = (self.at(common), self.at(level));
        let factor = 1_usize << (common - level);
        let n = a.masses.len().max(b.masses.len());
        let first = a.first.min(b.first);
        let most = ((a.first + a.masses.len() as i64).max(b.first + b.masses.len() as i64) - first) as usize;
        let doubling = (core::f64::consts::LN_2 / coarse.h) as usize + 3;
        let mut parts: Vec<Cells> = room(factor);
        parts.resize_with(factor, || Cells::new(0, most + doubling));
        let (at_a, at_b) = ((a.first - first) as usize, (b.first - first) as usize);
        let step = expm1(fine.h);
        // From here on sums lie in the cell above the larger value.
        let near = ((-ln(step * (1.0 - 1e-9)) / coarse.h).max(0.0) as usize + 1).min(most);
        for k in 0..near {
            let ratio = exp(-(k as f64) * coarse.h);
            let cell = (ln_1p(ratio) / fine.h).floor();
            let share = (((1.0 + ratio) * exp(-cell * fine.h) - 1.0) / step).clamp(0.0, 1.0);
            let (whole, rest) = (cell as usize / factor, cell as usize % factor);
            // a at i, b at i + k; and for k > 0 the other way around.
            let times = if is_square && k > 0 { 2.0 } else { 1.0 };
            parts[rest].shifted((at_a, &a.masses), (at_b, &b.masses), (k, whole), share, times);
            if k > 0 && !is_square {
                parts[rest].shifted((at_b, &b.masses), (at_a, &a.masses), (k, whole), share, 1.0);
            }
        }
        let ratio = (exp(-coarse.h), exp(-(near as f64) * coarse.h) / step);
        parts[0].far((at_a, &a.masses), (at_b, &b.masses), near, ratio, if is_square { 2.0 } else { 1.0 });
        if !is_square {
            parts[0].far((at_b, &b.masses), (at_a, &a.masses), near, ratio, 1.0);
        }
        let mut cells = Cells::woven(first * factor as i64, &parts);
        // One of them is 0.
        for (at, law, zero) in [(at_a, a, b.zero), (at_b, b, a.zero)] {
            for (i, &mass) in law.masses.iter().enumerate() {
                cells.add((at + i) * factor, mass * zero, 0.0);
            }
        }
        let size = n as f64;
        let surplus = 64.0 / fine.h + 8.0 * size;
        let mut law = self.place(&cells, level, surplus, 128.0 + 12.0 * (size + 2.0) * fine.h, 2.0 * size + 16.0);
        law.steps = a.steps + b.steps;
        law.mass_error += a.mass_error + b.mass_error + 2.0 * size + 16.0;
        law.value_error += a.value_error.max(b.value_error);
        law.zero += a.zero * b.zero;
        law.excess += (a.excess + b.excess) * self.outward(4.0);
        self.cut(&mut law);
        law
    }

    /// Returns the law of the product of two independent variables.
    fn product(&self, a: &Law, b: &Law, most: usize) -> Option<Law> {
        let count = a.masses.len() + b.masses.len() - 1;
        if count > most {
            return None;
        }
        let mut masses = filled(0.0, count);
        for (i, &mass) in a.masses.iter().enumerate() {
            for (out, &other) in masses[i..].iter_mut().zip(&b.masses) {
                *out += mass * other;
            }
        }
        let both = |x: f64, y: f64| match self.side {
            // Means are at most 1, of which the excess is a part.
            Rounding::Up => (x + y) * (1.0 + 1e-9),
            Rounding::Down => (x + y - x * y) * (1.0 - 8.0 * UNIT),
        };
        let mut law = Law {
            level: 0,
            first: a.first + b.first,
            masses,
            zero: both(a.zero, b.zero),
            excess: both(a.excess, b.excess),
            steps: 1.0,
            mass_error: a.mass_error + b.mass_error + count as f64 + 8.0,
            value_error: a.value_error + b.value_error + 8.0,
        };
        self.cut(&mut law);
        Some(law)
    }

    /// Puts cells onto nodes, as the side asks. Shares are within `surplus` units; of a group, `means` and `masses` units.
    fn place(&self, cells: &Cells, level: u32, surplus: f64, means: f64, masses: f64) -> Law {
        let spaced = self.at(level);
        let (placed, value_error, mass_error) = match self.side {
            Rounding::Up => (cells.split((surplus * UNIT).min(1.0)), means, 0.0),
            Rounding::Down => {
                let Merged { masses: merged, widest, drawn } = cells.merged(spaced.h);
                (merged, means + 2.0 * masses * expm1(widest * spaced.h), drawn)
            }
        };
        Law { level, first: cells.first, masses: placed, zero: 0.0, excess: 0.0, steps: 0.0, mass_error, value_error }
    }

    /// Cuts the ends off where next to nothing is: see the head of this file.
    pub(super) fn cut(&self, law: &mut Law) {
        let spaced = self.at(law.level);
        let mut last = law.masses.len();
        let (mut mean, limit) = (0.0, self.cut * law.steps);
        while last > 1 {
            let next = mean + law.masses[last - 1] * spaced.value(law.first + last as i64 - 1);
            if next > limit {
                break;
            }
            mean = next;
            last -= 1;
        }
        let removed: f64 = law.masses.drain(last..).sum();
        let (mut start, mut mass, mut moment) = (0, 0.0, 0.0);
        while start + 1 < law.masses.len() && mass + law.masses[start] <= self.cut {
            mass += law.masses[start];
            moment += law.masses[start] * spaced.value(law.first + start as i64);
            start += 1;
        }
        law.masses.drain(..start);
        law.first += start as i64;
        if self.side == Rounding::Up {
            law.excess += mean * (1.0 + 1e-12);
            let top = law.masses.len() - 1;
            law.masses[top] += removed;
            law.zero += mass * (1.0 + 1e-12);
            law.masses[0] += moment / spaced.value(law.first);
        }
    }
}

impl Law {
    /// Returns the same law on the nodes of a finer grid, if it is finer.
    fn refined(&self, level: u32) -> Option<Self> {
        if level == self.level {
            return None;
        }
        let factor = 1_usize << (self.level - level);
        let mut masses = filled(0.0, (self.masses.len() - 1) * factor + 1);
        for (i, &mass) in self.masses.iter().enumerate() {
            masses[i * factor] = mass;
        }
        Some(Self { level, first: self.first * factor as i64, masses, ..*self })
    }
}

/// Mass in every cell `[g_k, g_{k+1}]`, and what of it belongs to the right end if its mean is to be kept.
struct Cells {
    first: i64,
    mass: Vec<f64>,
    moment: Vec<f64>,
}

impl Cells {
    fn new(first: i64, count: usize) -> Self {
        Self { first, mass: filled(0.0, count), moment: filled(0.0, count) }
    }

    /// Returns the cells of which each part has every so manieth.
    fn woven(first: i64, parts: &[Self]) -> Self {
        let mut all = Self::new(first, parts.len() * parts[0].mass.len());
        for (rest, part) in parts.iter().enumerate() {
            for (c, (&mass, &moment)) in part.mass.iter().zip(&part.moment).enumerate() {
                all.mass[c * parts.len() + rest] = mass;
                all.moment[c * parts.len() + rest] = moment;
            }
        }
        all
    }

    fn add(&mut self, cell: usize, mass: f64, share: f64) {
        self.mass[cell] += mass;
        self.moment[cell] += mass * share;
    }

    /// Adds `a_i·b_{i+k}`, so many times, all in the cell that is `cell` above `i + k`.
    fn shifted(&mut self, a: (usize, &[f64]), b: (usize, &[f64]), (k, cell): (usize, usize), share: f64, times: f64) {
        let ((at_a, a), (at_b, b)) = (a, b);
        // a's node at_a + i meets b's node at_a + i + k.
        let low = at_a.max(at_b.saturating_sub(k));
        let high = (at_a + a.len()).min((at_b + b.len()).saturating_sub(k));
        if low >= high {
            return;
        }
        let (a, b) = (&a[low - at_a..high - at_a], &b[low + k - at_b..high + k - at_b]);
        let start = low + k + cell;
        let mass = &mut self.mass[start..start + a.len()];
        let moment = &mut self.moment[start..start + a.len()];
        for (((mass, moment), &a), &b) in mass.iter_mut().zip(moment).zip(a).zip(b) {
            let product = times * (a * b);
            *mass += product;
            *moment += product * share;
        }
    }

    /// Adds all `a_i·b_j` with `j ≥ i + near`, so many times, in the cells above `j`: `ratio` is `e^{−h}` and the share at `near`.
    fn far(&mut self, a: (usize, &[f64]), b: (usize, &[f64]), near: usize, ratio: (f64, f64), times: f64) {
        let ((at_a, a), (at_b, b)) = (a, b);
        let (mut mass, mut moment) = (0.0, 0.0);
        for j in at_a + near..at_b + b.len() {
            moment *= ratio.0;
            if let Some(&next) = a.get(j - near - at_a) {
                mass += next;
                moment += next * ratio.1;
            }
            if j >= at_b {
                self.mass[j] += times * (mass * b[j - at_b]);
                self.moment[j] += times * (moment * b[j - at_b]);
            }
        }
    }

    /// Splits every cell among its ends, each of which gets a surplus.
    fn split(&self, surplus: f64) -> Vec<f64> {
        let mut out = filled(0.0, self.mass.len() + 1);
        for (c, (&mass, &moment)) in self.mass.iter().zip(&self.moment).enumerate() {
            // mutant: split-of-a-cell
            out[c] += (mass - moment).max(0.0) + mass * surplus;
            out[c + 1] += moment + mass * surplus;
        }
        out
    }

    /// Merges neighboring masses into means that are nodes.
    fn merged(&self, h: f64) -> Merged {
        let step = expm1(h);
        let mut out = filled(0.0, self.mass.len() + 1);
        let (mut widest, mut drawn) = (1, 0.0);
        // Mass waiting below the node `target`, and its distance from it, in units of the target's value, times the mass.
        let (mut mass, mut lack, mut target) = (0.0, 0.0, 0_usize);
        for (c, (&cell, &moment)) in self.mass.iter().zip(&self.moment).enumerate() {
            if cell == 0.0 {
                continue;
            }
            let share = (moment / cell).clamp(0.0, 1.0);
            let mut rest = cell;
            if mass > 0.0 {
                widest = widest.max(c + 2 - target);
                // Distance of this mass above the target, in units of the target's value.
                let above = expm1((c - target) as f64 * h) + exp((c - target) as f64 * h) * share * step;
                let is_scarce = rest * above < lack;
                // mutant: rare-values-drawn-into-the-bulk
                let lower = if is_scarce { drawn_from_one(&mut out, (mass, lack), target, h) } else { None };
                if let Some(reach) = lower {
                    widest = widest.max(reach);
                    drawn += 2.0;
                } else if is_scarce {
                    mass += rest;
                    lack -= rest * above;
                    continue;
                } else {
                    let taken = if above > 0.0 { lack / above } else { 0.0 };
                    out[target] += mass + taken;
                    rest -= taken;
                }
                (mass, lack) = (0.0, 0.0);
            }
            if share == 0.0 {
                out[c] += rest;
            } else if rest > 0.0 {
                target = c + 1;
                mass = rest;
                // mutant: merged-below-their-mean
                lack = rest * (1.0 - share) * step * exp(-h);
            }
        }
        if mass > 0.0 {
            widest = widest.max(lowered(&mut out, (mass, lack), target, h));
        }
        Merged { masses: out, widest: widest as f64, drawn }
    }
}

/// Masses on nodes, how many cells a group of theirs reaches at most, and units of rounding of what was drawn upward.
struct Merged {
    masses: Vec<f64>,
    widest: f64,
    drawn: f64,
}

/// Puts the mass that waits below `target` on the node below it, with as much from one lower node as keeps the mean: from the
/// nearest one of which no more than half is taken. Returns how many cells were reached, or `None` if there is no such node.
///
/// A merger of any masses into their mean is smaller in convex order. What stays of the lower node is off by two units.
fn drawn_from_one(out: &mut [f64], (mass, lack): (f64, f64), target: usize, h: f64) -> Option<usize> {
    let node = target - 1;
    // Distance of the mean above this node, in units of the node's value, times the mass.
    let over = (mass * expm1(h) - lack * exp(h)).max(0.0);
    for below in (0..node).rev().filter(|&below| out[below] >= 2.0 * over && out[below] > 0.0) {
        // mutant: mean-of-a-rare-value-not-kept
        let taken = over / -expm1(-((node - below) as f64) * h);
        if 2.0 * taken <= out[below] {
            out[below] -= taken;
            out[node] += mass + taken;
            return Some(node - below + 1);
        }
    }
    None
}

/// Puts the mass that waits below `target`, with none above, on the node below it, with as much from lower nodes as keeps the mean;
/// where there is not enough, the rest is dropped. Returns how many cells were reached.
fn lowered(out: &mut [f64], (mut mass, lack): (f64, f64), target: usize, h: f64) -> usize {
    let node = target - 1;
    // Distance of the mean above this node, in units of the node's value, times the mass.
    let mut over = (mass * expm1(h) - lack * exp(h)).max(0.0);
    let mut below = node;
    while over > 0.0 && below > 0 {
        below -= 1;
        let distance = -expm1(-((node - below) as f64) * h);
        let taken = (over / distance).min(out[below]);
        out[below] -= taken;
        mass += taken;
        over = if taken < out[below] + taken { 0.0 } else { over - taken * distance };
    }
    if over > 0.0 {
        return 0;
    }
    out[node] += mass;
    node - below + 1
}

#[cfg(test)]
mod degraded;
