//! Different randomized responses together: their losses on a grid, bounded from above and from below.
//!
//! The optimum for different ε is #P-hard (Murtagh, Vadhan 2016, Theorem 1.6); `δ(E) = Σ p·(1 − e^{E−ℓ})₊` over all losses `ℓ`, which are
//! sums of one loss from each group of equal ε. Two grids of losses `i·h` enclose it.
//!
//! *Above.* The part `p` of a group at a loss between two nodes is split between both, so that `Σp` and `Σp·e^{−ℓ}` do not change: `δ(E)`,
//! convex in `e^E`, only grows (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the dots", PETS 2022, Algorithm 1). The error is
//! of second order in `h`. Rounding errors go to the node on the right; losses above the window count as infinite, those below it as its
//! lower end. All of this raises δ.
//!
//! *Below.* Each ε is rounded down to a multiple of `h` (as Murtagh and Vadhan round up): what is ε′-private is ε-private for ε′ ≤ ε, so the
//! worst of the former loses less. Losses above the window count as its upper end, those below it as none.
//!
//! Masses are positive and only added and multiplied, so the error is a count of roundings, in `units` of 2⁻⁵³. No transform is used:
//! what lies far out keeps its relative accuracy.

use super::I;
use super::equal::{Window, rising_sum, window};
use crate::certified::Real;
use crate::functions::{UNIT, ln};
use crate::memory::{filled, gathered};
use crate::types::Rounding::{Down, Up};

const WIDEST_STEP: f64 = 1.0 / 16.0;
/// Bits of the step below, so that its multiples are floats.
const FEW_BITS: u32 = 26;
const MAX_GRID_NODES: f64 = 262_144.0;
/// Multiplications spent on one grid; it is coarsened to stay below.
const MAX_GRID_PRODUCTS: f64 = 1e9;

/// An ε and how many mechanisms have it.
pub type Group = (f64, u64);

/// Masses of losses (first + i)·step; `units` bounds their relative error, `infinity` is the mass beyond.
pub(crate) struct Grid {
    step: f64,
    first: i64,
    masses: Vec<f64>,
    infinity: f64,
    units: f64,
}

impl Grid {
    fn start(step: f64) -> Self {
        Self { step, first: 0, masses: vec![1.0], infinity: 0.0, units: 0.0 }
    }

    /// Returns the loss of a node, exactly: it has fewer than 64 bits, the step 53.
    fn loss(&self, node: i64) -> Real<4> {
        let size = Real::new(self.step).mul_integer(node.unsigned_abs(), Down);
        if node < 0 { size.negated() } else { size }
    }

    /// Returns the bound on δ(total): above if the grid was made for that, else below.
    pub(crate) fn delta(&self, total: f64, is_upper: bool) -> Real<4> {
        let (goal, end) = (Real::new(total), self.first + self.masses.len() as i64);
        let mut start = ((total / self.step).min(1e18) as i64).clamp(self.first, end);
        while start > self.first && self.loss(start - 1) > goal {
            start -= 1;
        }
        while start < end && self.loss(start) <= goal {
            start += 1;
        }
        if start == end {
            return if is_upper { Real::new(self.infinity) } else { Real::ZERO };
        }
        let masses = &self.masses[(start - self.first) as usize..];
        let gap = I::from(total) - I::from(self.loss(start));
        let complement = gap.not_above_zero().one_minus_exp().floats();
        let value = rising_sum(masses, if is_upper { complement.upper } else { complement.lower }, -I::from(self.step));
        let error = (self.units + 6.0 * masses.len() as f64 + 20.0) * UNIT * 1.01;
        if is_upper {
            Real::new(value * (1.0 + error) + self.infinity)
        } else {
            Real::new((value * (1.0 - error)).max(0.0))
        }
    }

    /// Returns the sum of the losses, every product and addition written out.
    fn convolved(self, other: Self) -> Self {
        let used = |masses: &[f64]| masses.iter().filter(|&&mass| mass != 0.0).count();
        let (longer, shorter) = if used(&self.masses) >= used(&other.masses) { (self, other) } else { (other, self) };
        let mut masses = filled(0.0, longer.masses.len() + shorter.masses.len() - 1);
        for (i, &factor) in shorter.masses.iter().enumerate().filter(|(_, factor)| **factor != 0.0) {
            for (sum, &mass) in masses[i..].iter_mut().zip(&longer.masses) {
                *sum += factor * mass;
            }
        }
        let units = longer.units + shorter.units + used(&shorter.masses) as f64 + 2.0;
        let (first, infinity) = (longer.first + shorter.first, longer.infinity + shorter.infinity);
        Self { step: longer.step, first, masses, infinity, units }
    }

    /// Returns the grid within these ends; what is cut off goes where the bound keeps its direction.
    fn clipped(mut self, ends: (f64, f64), is_upper: bool) -> Self {
        let (low, high) = ((ends.0 / self.step).floor() as i64, (ends.1 / self.step).ceil() as i64);
        let size = self.masses.len();
        let last = self.first + size as i64 - 1;
        let (left, right) = ((low - self.first).max(0) as usize, (last - high).max(0) as usize);
        if left == 0 && right == 0 {
            return self;
        }
        let (left, right) = (left.min(size - 1), right.min(size - 1));
        let units = self.units + (left + right) as f64;
        let lost: f64 = self.masses[size - right..].iter().sum();
        let under: f64 = self.masses[..left].iter().sum();
        let mut masses = gathered(self.masses[left..(size - right).max(left + 1)].iter().copied());
        if right > 0 && is_upper {
            self.infinity += lost * (1.0 + 4.0 * units * UNIT);
        } else if right > 0 {
            *masses.last_mut().expect("one is left") += lost;
        }
        if left > 0 && is_upper {
            masses[0] += under;
        }
        Self { first: self.first + left as i64, masses, units, ..self }
    }
}

/// Returns the grids above and below; `tail` is the mass to cut off. Above is `None` where it would be too coarse.
pub(crate) fn enclosing(groups: &[Group], tail: f64) -> (Option<Grid>, Grid) {
    let width = (-2.0 * ln(tail)).sqrt();
    let reach = width * groups.iter().map(|&(epsilon, count)| count as f64 * epsilon * epsilon).sum::<f64>().sqrt();
    let window = 2.0 * reach.min(groups.iter().map(|&(epsilon, count)| count as f64 * epsilon).sum());
    let common = common_step(groups, window);
    let coarse = |parts: f64| common.unwrap_or_else(|| coarsened(groups, window, width, window / parts));
    let step = coarse(32_768.0);
    let mut above = (step <= WIDEST_STEP).then(|| Grid::start(step));
    let mut below = Grid::start(few_bits(coarse(524_288.0)));
    let mut mean = 0.0;
    for &(epsilon, count) in groups {
        mean += count as f64 * epsilon * libm::tanh(epsilon / 2.0);
        let ends = (mean - reach, mean + reach);
        above = above.map(|grid| {
            let group = spread_out(epsilon, count, grid.step, width);
            grid.convolved(group).clipped(ends, true)
        });
        if let Some(group) = rounded_down(epsilon, count, below.step, width) {
            below = below.convolved(group).clipped(ends, false);
        }
    }
    (above, below)
}

/// Returns a step of which all ε are multiples but for 10⁻¹² of themselves, if there is a useful one.
fn common_step(groups: &[Group], window: f64) -> Option<f64> {
    let least = groups.iter().map(|group| group.0).fold(f64::INFINITY, f64::min);
    let fits = |step: f64| {
        groups
            .iter()
            .all(|&(epsilon, _)| (epsilon / step - (epsilon / step).round_ties_even()).abs() < 1e-12 * (epsilon / step))
    };
    let steps = (1..=100).map(|parts| least / f64::from(parts)).take_while(|step| window / step <= MAX_GRID_NODES);
    steps.into_iter().find(|&step| step < WIDEST_STEP && fits(step))
}

/// Returns the step, doubled until the work is small enough.
fn coarsened(groups: &[Group], window: f64, width: f64, mut step: f64) -> f64 {
    loop {
        let nodes = window / step;
        let terms = |&(epsilon, count): &Group| {
            let dense = (2.0 * width * (count as f64).sqrt() * epsilon / step).min(nodes) + 4.0;
            dense.min(2.0 * count as f64 + 2.0)
        };
        if nodes * groups.iter().map(terms).sum::<f64>() <= MAX_GRID_PRODUCTS {
            return step;
        }
        step *= 2.0;
    }
}

/// Returns the step with its last bits cut off: a multiple of it up to 2²⁷ is a float.
fn few_bits(step: f64) -> f64 {
    f64::from_bits(step.to_bits() >> (53 - FEW_BITS) << (53 - FEW_BITS))
}

/// Returns the first j, the masses from there on (those below added to the first), the mass above, and units.
fn atoms(epsilon: f64, count: u64, width: f64) -> (u64, Vec<f64>, f64, f64) {
    let terms = window(count, epsilon, 0, width);
    let scale = terms.scale(count, epsilon).floats().upper;
    let Window { first, ratios, below, above, .. } = terms;
    let mut masses: Vec<f64> = gathered(ratios.iter().map(|ratio| ratio * scale));
    masses[0] += below * scale;
    let units = 11.0 * masses.len() as f64 + 24.0;
    (first, masses, above * scale, units)
}

/// Returns one group, each of its losses split between the two nodes beside it.
fn spread_out(epsilon: f64, count: u64, step: f64, width: f64) -> Grid {
    let (first, masses, above, units) = atoms(epsilon, count, width);
    let place = |i: usize| {
        let place = (2.0 * (first as f64 + i as f64) - count as f64) * epsilon / step;
        place + place.abs() * (4.0 * UNIT) // three roundings: never below the exact place
    };
    let least = (-I::from(step)).one_minus_exp().lower.float(Down);
    let base = place(0).floor() as i64;
    let size = (place(masses.len() - 1).floor() as i64 - base) as usize + 2;
    let mut grid = filled(0.0, size);
    for (i, &mass) in masses.iter().enumerate() {
        let exact = place(i);
        let part = (exact - exact.floor()) * step;
        // 1 − e^{−x} is at most its series up to an odd power.
        let series = part * (1.0 - part / 2.0 * (1.0 - part / 3.0 * (1.0 - part / 4.0 * (1.0 - part / 5.0))));
        let right = mass * (series / least * (1.0 + 32.0 * UNIT)).min(1.0);
        let node = (exact.floor() as i64 - base) as usize;
        grid[node] += mass - right;
        grid[node + 1] += right;
    }
    Grid { step, first: base, units: units + 2.0 * masses.len() as f64 + 4.0, masses: grid, infinity: above }
}

/// Returns one group with its ε rounded down to a multiple of the step; `None` if that is 0.
fn rounded_down(epsilon: f64, count: u64, step: f64, width: f64) -> Option<Grid> {
    let mut multiple = (epsilon / step) as u64;
    while Real::<4>::new(step).mul_integer(multiple, Up) > Real::new(epsilon) {
        multiple -= 1;
    }
    if multiple == 0 {
        return None;
    }
    // The step has few bits, so the product is a float.
    let (first, masses, _, units) = atoms(multiple as f64 * step, count, width);
    let apart = 2 * multiple as usize;
    let mut grid = filled(0.0, (masses.len() - 1) * apart + 1);
    for (node, mass) in grid.iter_mut().step_by(apart).zip(masses) {
        *node = mass;
    }
    let first = (2 * first as i64 - count as i64) * multiple as i64;
    Some(Grid { step, first, masses: grid, infinity: 0.0, units })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_enclose_the_sum_over_all_outcomes() {
        for groups in [vec![(0.3, 2), (0.5, 3)], vec![(0.011, 20), (0.4, 1), (1.3, 2)], vec![(0.1, 4), (0.2, 2)]] {
            let (above, below) = enclosing(&groups, 1e-80);
            let above = above.expect("a fine grid");
            let singles: Vec<f64> = groups.iter().flat_map(|&(e, n)| vec![e; n as usize]).collect();
            for total in [0.0, 0.1, 0.77, 1.5] {
                let mut sum = 0.0;
                for outcome in 0_u64..1 << singles.len() {
                    let (mut loss, mut mass) = (0.0, 1.0);
                    for (i, e) in singles.iter().enumerate() {
                        let sign = if outcome >> i & 1 == 1 { 1.0 } else { -1.0 };
                        loss += sign * e;
                        mass /= 1.0 + libm::exp(-sign * e);
                    }
                    sum += mass * (-libm::expm1(total - loss)).max(0.0);
                }
                let (low, high) = (below.delta(total, false).float(Down), above.delta(total, true).float(Up));
                assert!(
                    low <= sum * (1.0 + 1e-9) && sum * (1.0 - 1e-9) <= high,
                    "{groups:?} {total}: {low} {sum} {high}"
                );
                assert!(high - low < 1e-3 * sum + 1e-12, "{groups:?} {total}: {low} {sum} {high}");
            }
        }
    }
}
