//! Two discrete laws between which the law of `r̄` lies in convex order, for any number of steps.
//!
//! Values are on a geometric grid, `g_k = e^{kh + c}`, so that their logarithms, the privacy losses, are on a uniform one. A law
//! that is replaced by one larger in convex order, *upper*, or smaller, *lower*, gives a larger or smaller mean of every convex
//! function; sums of independent variables keep the order. (Shaked, Shanthikumar, "Stochastic orders", 2007, Theorem 3.A.12.)
//!
//! - *Upper*: mass between two nodes is split among them so that its mean is kept. Mass below the first node is split among it
//!   and 0. Mass above the last is put on it, and what its mean loses is kept in `excess`: `(x + e)₊ ≤ x₊ + e`.
//! - *Lower*: neighboring masses are merged into their mean where that is a node, going upward and cutting masses as it
//!   takes. What is left at the ends is dropped: all functions are ≥ 0.
//!
//! Both cost `O(h²)`. The sum of `g_i` and `g_j`, `k = j − i ≥ 0`, is `g_j(1 + e^{−kh})`: cell and place in it depend on `k` alone, so a
//! convolution is `n` multiplications of shifted arrays.
//!
//! # Rounding
//! Masses: each is a sum of positive products, within `2n + 16` units after a convolution, so that errors of masses add up to
//! `m` times that of one, and `m·(2n + 16)` units, for a sum of `m`. Places: the share of a cell's right node is within `64/h`
//! units of 1; mass and share are summed apart, which may move `2(n + 2)` units of a cell's mass to the next node; either way
//! what moves, moves by `e^h − 1`. In all, means move by `128 + 2(n + 2)h` units of themselves a convolution, and in the law of one
//! step by 640, as its masses are within 128. δ moves no more than the mean of `r̄`, or `e^ε` times that for the second
//! direction: the functions are 1-Lipschitz.

use crate::functions::normal;
use crate::functions::twofold::Twofold;
use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::memory::filled;

use crate::types::{Direction, Rounding};

/// Mass or mean that is cut off at an end of a law, at most, and standard deviations that the law of one step reaches.
const CUT: f64 = 1e-26;
const REACH: f64 = 11.5;

/// A law on the grid.
#[derive(Clone, Debug)]
struct Law {
    /// Index of the first node.
    first: i64,
    masses: Vec<f64>,
    /// Mass at 0.
    zero: f64,
    /// Mean that is missing above the last node.
    excess: f64,
    /// How many steps it is the sum of.
    steps: f64,
    /// Relative error of masses, in units, and how far means are off, in units of the mean.
    mass_error: f64,
    mean_error: f64,
}

/// One round or several: the law of the product of their `r̄` under `Q`, from one side, on the grid `e^{kh}`.
#[derive(Clone, Debug)]
pub struct Allocation {
    grid: Grid,
    law: Law,
}

#[derive(Clone, Copy, Debug)]
struct Grid {
    h: f64,
    offset: f64,
    side: Rounding,
    cut: f64,
    reach: f64,
}

impl Allocation {
    /// Returns the law of one round with noise of standard deviation `1/s`, `steps ≥ 1` steps and loss spacing `h`, or `None` if
    /// it would need more than `most` nodes.
    #[must_use]
    pub fn new(s: f64, steps: u64, h: f64, side: Rounding, most: usize) -> Option<Self> {
        Self::cut_at(CUT, REACH, s, steps, h, side, most)
    }

    /// Returns the same with so much cut off, and a law of one step that reaches so far.
    fn cut_at(cut: f64, reach: f64, s: f64, steps: u64, h: f64, side: Rounding, most: usize) -> Option<Self> {
        let log_steps = ln(steps as f64);
        let shift = (log_steps / h).round();
        let grid = Grid { h, offset: log_steps - h * shift, side, cut, reach };
        let span = (s * (2.0 * reach + s) + log_steps) / h;
        if span.is_nan() || span >= most as f64 {
            return None;
        }
        let mut law =
            power(grid.single(s), steps, |a, b| (a.masses.len() + b.masses.len() < 8 * most).then(|| grid.sum(a, b)))?;
        // r̄ is the sum over T. The offset is within 4 units of ln T of the exact one, which moves all values alike.
        law.mean_error += 8.0 + 4.0 * log_steps;
        law.excess = law.excess / law.steps * (1.0 + 4.0 * UNIT);
        law.first -= shift as i64;
        law.steps = 1.0;
        Some(Self { grid: Grid { offset: 0.0, ..grid }, law })
    }

    /// Returns the law of both rounds, or `None` if it would need more than `most` nodes. Spacings and sides must agree.
    ///
    /// Losses add, so that all are on the grid: what is kept in convex order is kept by products of independent factors ≥ 0.
    #[must_use]
    pub fn and(&self, other: &Self, most: usize) -> Option<Self> {
        let law = self.grid.product(&self.law, &other.law, most)?;
        Some(Self { grid: self.grid, law })
    }

    /// Returns the law of `count ≥ 1` such rounds, or `None` if it would need more than `most` nodes.
    #[must_use]
    pub fn repeated(&self, count: u64, most: usize) -> Option<Self> {
        let law = power(self.law.clone(), count, |a, b| self.grid.product(a, b, most))?;
        Some(Self { grid: self.grid, law })
    }

    /// Returns a bound on `δ(ε)` from this side.
    #[must_use]
    pub fn delta(&self, epsilon: f64, direction: Direction) -> f64 {
        let law = &self.law;
        let growth = exp(epsilon);
        let mut total = 0.0;
        for (k, &mass) in law.masses.iter().enumerate() {
            let value = self.grid.value(law.first + k as i64);
            // mutant: gain-of-an-allocation
            let gain = if direction == Direction::Remove { value - growth } else { 1.0 - growth * value };
            total += mass * gain.max(0.0);
        }
        let (scale, rest) = match direction {
            // mutant: mass-above-the-grid
            Direction::Remove => (1.0, law.excess),
            Direction::Add => (growth, law.zero),
        };
        let relative = (law.mass_error + law.masses.len() as f64 + 16.0) * UNIT;
        // Values e^{kh} are within 8 + 2·|kh| units, and e^ε is within 8.
        let ends = [law.first, law.first + law.masses.len() as i64];
        let reach = 24.0 + 2.0 * ends.map(|k| (k as f64 * self.grid.h).abs()).into_iter().fold(0.0, f64::max);
        let slack = (law.mean_error + reach) * UNIT * scale;
        match self.grid.side {
            Rounding::Up => ((total + rest) * (1.0 + relative) + slack).min(1.0),
            Rounding::Down => (total * (1.0 - relative) - slack).max(0.0),
        }
    }

    /// Returns the index of the first loss, and the `Q`-masses of losses `(first + i)·h`; then the `Q`-mass of loss −∞ and the
    /// `P`-mass of loss +∞, where `P` has the record.
    #[must_use]
    pub fn masses(&self) -> (i64, &[f64], f64, f64) {
        (self.law.first, &self.law.masses, self.law.zero, self.law.excess)
    }
}

/// Returns `count` laws joined, by squaring.
fn power(single: Law, count: u64, join: impl Fn(&Law, &Law) -> Option<Law>) -> Option<Law> {
    let (mut rest, mut square, mut joined) = (count, single, None::<Law>);
    loop {
        if rest & 1 == 1 {
            joined = Some(match joined {
                Some(law) => join(&law, &square)?,
                None => square.clone(),
            });
        }
        rest >>= 1;
        if rest == 0 {
            return joined;
        }
        square = join(&square, &square)?;
    }
}

impl Grid {
    fn value(&self, k: i64) -> f64 {
        exp(k as f64 * self.h + self.offset)
    }

    /// Returns the law of one `r = exp(s·z − s²/2)`.
    fn single(&self, s: f64) -> Law {
        let (low, high) = (-s * (self.reach + 0.5 * s), s * (self.reach + 0.5 * s));
        let first = ((low - self.offset) / self.h).floor() as i64;
        let count = ((high - self.offset) / self.h).ceil() as i64 - first;
        let mut cells = Cells::new(first, count as usize + 1);
        // z where ln r = l is l/s + s/2 under Q, l/s − s/2 under P.
        let at = |k: i64, sign: f64| {
            let loss = Twofold::product(k as f64, self.h).plus(Twofold::sum(self.offset, 0.0));
            loss.over(s).plus(Twofold::sum(sign * 0.5 * s, 0.0))
        };
        for c in 0..count {
            let k = first + c;
            let q = normal::between(at(k, 1.0), at(k + 1, 1.0), 0.0);
            let p = normal::between(at(k, -1.0), at(k + 1, -1.0), 0.0);
            let left = self.value(k);
            let share = ((p / q / left - 1.0) / expm1(self.h)).clamp(0.0, 1.0);
            cells.add(c as usize, q, if q > 0.0 { share } else { 0.0 });
        }
        let mut law = self.place(cells, 1.0, 160.0, 640.0);
        if self.side == Rounding::Up {
            // Below the first node: split among it and 0. Above the last: its mean, all of it.
            law.zero += normal::tail(at(first, 1.0).negated(), 0.0);
            law.excess += normal::tail(at(first + count, -1.0), 0.0) * 1.001;
            law.masses[0] += normal::tail(at(first, -1.0).negated(), 0.0) / self.value(law.first);
        }
        law
    }

    /// Returns the law of the sum of two independent variables.
    fn sum(&self, a: &Law, b: &Law) -> Law {
        let n = a.masses.len().max(b.masses.len());
        let first = a.first.min(b.first);
        let most = (a.first + a.masses.len() as i64).max(b.first + b.masses.len() as i64) - first;
        let doubling = (core::f64::consts::LN_2 / self.h) as usize + 2;
        let mut cells = Cells::new(first, most as usize + doubling + 1);
        let (at_a, at_b) = ((a.first - first) as usize, (b.first - first) as usize);
        for k in 0..most as usize {
            let ratio = exp(-(k as f64) * self.h);
            let place = ln_1p(ratio) / self.h;
            let cell = place.floor();
            let share = (((1.0 + ratio) * exp(-cell * self.h) - 1.0) / expm1(self.h)).clamp(0.0, 1.0);
            // a at i, b at i + k; and for k > 0 the other way around.
            cells.shifted((at_a, &a.masses), (at_b, &b.masses), k, cell as usize, share);
            if k > 0 {
                cells.shifted((at_b, &b.masses), (at_a, &a.masses), k, cell as usize, share);
            }
        }
        if self.side == Rounding::Up {
            // One of them is 0.
            for (i, &mass) in a.masses.iter().enumerate() {
                cells.add(at_a + i, mass * b.zero, 0.0);
            }
            for (i, &mass) in b.masses.iter().enumerate() {
                cells.add(at_b + i, mass * a.zero, 0.0);
            }
        }
        let steps = a.steps + b.steps;
        let mass_error = a.mass_error + b.mass_error + 2.0 * n as f64 + 16.0;
        let mean_error = a.mean_error.max(b.mean_error) + 128.0 + 2.0 * (n as f64 + 2.0) * self.h;
        let mut law = self.place(cells, steps, mass_error, mean_error);
        law.zero += a.zero * b.zero;
        law.excess += (a.excess + b.excess) * (1.0 + 4.0 * UNIT);
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
        let mut law = Law {
            first: a.first + b.first,
            masses,
            zero: a.zero + b.zero,
            // Means are 1, of which the excess is a part.
            excess: (a.excess + b.excess) * (1.0 + 1e-9),
            steps: 1.0,
            mass_error: a.mass_error + b.mass_error + count as f64 + 8.0,
            mean_error: a.mean_error + b.mean_error + 8.0,
        };
        self.cut(&mut law);
        Some(law)
    }

    /// Puts cells onto nodes, as the side asks, and cuts the ends off.
    fn place(&self, cells: Cells, steps: f64, mass_error: f64, mean_error: f64) -> Law {
        let masses = match self.side {
            Rounding::Up => cells.split(),
            Rounding::Down => self.merge(&cells),
        };
        let mut law = Law { first: cells.first, masses, zero: 0.0, excess: 0.0, steps, mass_error, mean_error };
        self.cut(&mut law);
        law
    }

    /// Merges neighboring masses into means that are nodes.
    fn merge(&self, cells: &Cells) -> Vec<f64> {
        let step = expm1(self.h);
        let mut out = filled(0.0, cells.mass.len() + 1);
        // Mass waiting below the node `target`, and its distance from it, in units of the target's value, times the mass.
        let (mut mass, mut lack, mut target) = (0.0, 0.0, 0_usize);
        for (c, (&cell, &moment)) in cells.mass.iter().zip(&cells.moment).enumerate() {
            if cell == 0.0 {
                continue;
            }
            let share = (moment / cell).clamp(0.0, 1.0);
            let mut rest = cell;
            if mass > 0.0 {
                // Distance of this mass above the target, in units of the target's value.
                let above = expm1((c - target) as f64 * self.h) + exp((c - target) as f64 * self.h) * share * step;
                if rest * above < lack {
                    mass += rest;
                    lack -= rest * above;
                    continue;
                }
                let taken = if above > 0.0 { lack / above } else { 0.0 };
                out[target] += mass + taken;
                rest -= taken;
                (mass, lack) = (0.0, 0.0);
            }
            if rest > 0.0 {
                target = c + 1;
                mass = rest;
                lack = rest * (1.0 - share) * step * exp(-self.h);
            }
        }
        out
    }

    /// Cuts the ends off where next to nothing is: see the head of this file.
    fn cut(&self, law: &mut Law) {
        let mut last = law.masses.len();
        let (mut mean, limit) = (0.0, self.cut * law.steps);
        while last > 1 {
            let next = mean + law.masses[last - 1] * self.value(law.first + last as i64 - 1);
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
            moment += law.masses[start] * self.value(law.first + start as i64);
            start += 1;
        }
        law.masses.drain(..start);
        law.first += start as i64;
        if self.side == Rounding::Up {
            law.excess += mean * (1.0 + 1e-12);
            let top = law.masses.len() - 1;
            law.masses[top] += removed;
            law.zero += mass;
            law.masses[0] += moment / self.value(law.first);
        }
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

    fn add(&mut self, cell: usize, mass: f64, share: f64) {
        self.mass[cell] += mass;
        self.moment[cell] += mass * share;
    }

    /// Adds `a_i·b_{i+k}`, all in the cell that is `cell` above `i + k`.
    fn shifted(&mut self, first: (usize, &[f64]), second: (usize, &[f64]), k: usize, cell: usize, share: f64) {
        let ((at_a, a), (at_b, b)) = (first, second);
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
            let product = a * b;
            *mass += product;
            *moment += product * share;
        }
    }

    /// Splits every cell among its ends.
    fn split(&self) -> Vec<f64> {
        let mut out = filled(0.0, self.mass.len() + 1);
        for (c, (&mass, &moment)) in self.mass.iter().zip(&self.moment).enumerate() {
            out[c] += (mass - moment).max(0.0);
            out[c + 1] += moment;
        }
        out
    }
}

#[cfg(test)]
mod degraded;
