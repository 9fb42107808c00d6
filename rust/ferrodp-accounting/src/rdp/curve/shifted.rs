//! Rényi curve of a Gaussian release whose sensitivity is random, and of a Poisson sample of it.
//!
//! `P = Σ pᵢ·N(sᵢ, z²)` stands against `Q = N(0, z²)`. With `aᵢ = sᵢ/z` and `t` standard normal under `Q`, `dP/dQ = g(t) = Σ pᵢ·e^{aᵢt − aᵢ²/2}`.
//!
//! *P against Q.* At whole orders `gⁿ` is a sum of exponentials `e^{mt}` with positive weights, `0 ≤ m ≤ n·max a`. The trapezoid sum of
//! `φ(t)e^{mt}` with step `h` differs from its integral by the values of its Fourier transform at the multiples of `2π/h`, whose sizes are
//! `e^{−(2πk/h)²/2}` times the integral; with `h = ½` that is below 10⁻³³ of the whole for all `m` at once, and so is what the nodes from −13 to
//! `n·max a + 13` leave out. What is summed is `gⁿ − 1 − n(g − 1) ≥ 0`, the excess of the moment, and where `gⁿ` is large `gⁿ` itself.
//!
//! *Q against P.* `E_Q[k(g)]` with `k(g) = g^{1−α} − 1 + (α − 1)(g − 1) ≥ 0`, which is convex, while `g` grows with `t`: on a cell of width `h` it
//! is at most the larger one of its values at both ends, and the cell's mass at most `h` times the larger density. Below −12, `k ≤ g^{1−α}`,
//! with `g ≥ p₀` and, by Jensen's inequality, `g ≥ e^{s̄t − m̄/2}`, `s̄ = Σpᵢaᵢ`, `m̄ = Σpᵢaᵢ²`. Above `12 + max a`, `k ≤ (α − 1)g`. Where `p₀` is near 1
//! also Taylor's formula: `1 + α(α − 1)/2·p₀^{−α−1}·E_Q[(g − 1)²]`.
//!
//! At any order, in both directions, by joint convexity and Minkowski's inequality: `α·max a²/2`; P against Q at most
//! `α/(α − 1)·ln Σ pᵢe^{(α−1)aᵢ²/2}`; Q against P at most `−ln p₀`, and `m̄/2 + (α − 1)s̄²/2`.

use crate::memory::{gathered, grow, push, room, sort_by};
use core::convert::Infallible;

use crate::certified::Interval;
use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::rdp::moments::{Known, MAX_WHOLE_ORDER, total};
use crate::types::Rounding::{Down, Up};

const NODE_DISTANCE: f64 = 0.5;
const NODES_BEYOND: f64 = 13.0;
/// Nodes of a trapezoid sum times shifts; where more are needed, the simple bounds are used.
const MOST_EVALUATIONS: f64 = 65536.0;
/// Beyond it n·ln g is so large that the excess of gⁿ over 1 is nearly all of it.
const LARGE_LOG_POWER: f64 = 30.0;
const CELL_WIDTH: f64 = 1.0 / 1024.0;
const CELLS_BEYOND: f64 = 12.0;
/// Twice the relative error of elementary functions.
const SHIFTED_ERROR: f64 = 16.0 * UNIT;
/// An upper bound on Φ(−12).
const MASS_BEYOND_CELLS: f64 = 2e-33;
const INVERSE_ROOT_TWO_PI: f64 = 0.398_942_280_401_432_7;

/// A mixture of shifts, in units of the noise.
#[derive(Clone, Debug)]
pub struct Shifted {
    /// Distances, rounded up, and weights, each within 2⁻⁵² of itself.
    parts: Vec<(f64, f64)>,
    furthest: f64,
    /// ln p₀, rounded down.
    log_none: f64,
    known: Known,
    /// Nodes from −13 on, half apart; as many as were needed.
    nodes: Vec<Node>,
    /// Ends of the cells, once they were needed.
    ends: Vec<End>,
}

/// What does not depend on the order at a node t of the trapezoid sum.
#[derive(Clone, Copy, Debug)]
struct Node {
    t: f64,
    log_mass: f64,
    log_ratio: f64,
    /// g − 1, how much it may be off, and ln(1 + (g − 1)), where g is not large.
    excess: f64,
    error: f64,
    log_excess: f64,
}

/// What does not depend on the order at an end of a cell.
#[derive(Clone, Copy, Debug)]
struct End {
    excess: f64,
    error: f64,
    /// A lower bound on ln g.
    log_low: f64,
    density: f64,
}

impl Shifted {
    /// Returns the curve of these shifts ≥ 0 with probabilities of this proportion, each in a share `q` of all cases and none otherwise.
    #[must_use]
    pub fn new(noise_multiplier: f64, shifts: &[f64], probabilities: &[f64], q: f64) -> Self {
        type I = Interval<4>;
        let zero = I::integer(0);
        let sum = probabilities.iter().fold(zero, |sum, &p| sum + I::from(p));
        let mut given: Vec<(f64, I)> =
            gathered(shifts.iter().zip(probabilities).map(|(&shift, &p)| (shift, I::from(q) * I::from(p) / sum)));
        push(&mut given, (0.0, (I::integer(1) - I::from(q)).clamped()));
        sort_by(&mut given, |a, b| a.0.total_cmp(&b.0));
        let (mut parts, mut log_none): (Vec<(f64, f64)>, _) = (room(given.len()), f64::NEG_INFINITY);
        for group in given.chunk_by(|a, b| a.0 == b.0) {
            let exact = group.iter().fold(zero, |weight, part| weight + part.1);
            let weight = exact.upper.float(Up);
            if group[0].0 == 0.0 && exact.is_positive() {
                log_none = exact.ln().not_above_zero().lower.float(Down);
            }
            let distance = if group[0].0 == 0.0 { 0.0 } else { (group[0].0 / noise_multiplier).next_up() };
            if weight > 0.0 {
                parts.push((distance, weight));
            }
        }
        let furthest = parts.last().map_or(0.0, |part| part.0);
        Self { parts, furthest, log_none, known: Known::default(), nodes: vec![], ends: vec![] }
    }

    /// Returns an upper bound on ρ(α), 1 ≤ α ≤ ∞, in both directions.
    pub fn rate(&mut self, order: f64) -> f64 {
        if self.furthest == 0.0 {
            return 0.0;
        }
        let anyway = self.anyway(order);
        if order > f64::from(MAX_WHOLE_ORDER) {
            return anyway;
        }
        let mut known = core::mem::take(&mut self.known);
        let found = known.rate(order, |whole| Ok::<_, Infallible>(self.log_moment(whole)));
        self.known = known;
        let Ok(found) = found;
        found.min(anyway)
    }

    /// Returns an upper bound on the larger one of both directions' ln A at a whole order.
    fn log_moment(&mut self, order: u32) -> f64 {
        let n = f64::from(order);
        if !(0.0..MOST_EVALUATIONS * NODE_DISTANCE).contains(&(n * self.furthest * self.parts.len() as f64)) {
            return f64::INFINITY;
        }
        let removed = self.remove(n);
        let simple = self.simple_add(n);
        let added = if simple <= removed { simple } else { self.by_cells(n).min(simple) };
        removed.max(added) * (1.0 + 32.0 * UNIT)
    }

    /// Returns ln g(t).
    fn log_ratio(&self, t: f64) -> f64 {
        let exponent = |&(a, p): &(f64, f64)| a * t - 0.5 * a * a + ln(p);
        let top = self.parts.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
        top + ln(self.parts.iter().map(|part| exp(exponent(part) - top)).sum())
    }

    /// Returns g(t) − 1, and how much it may be off.
    fn excess(&self, t: f64) -> (f64, f64) {
        let (mut x, mut size) = (0.0, 0.0);
        for &(a, p) in self.parts.iter().filter(|part| part.0 > 0.0) {
            let y = (a * t - 0.5 * a * a).min(700.0);
            let part = p * expm1(y);
            x += part;
            size += SHIFTED_ERROR * (part.abs() + p * exp(y) * (a * t.abs() + a * a));
        }
        (x, size * self.parts.len() as f64)
    }

    /// Returns the first nodes of the trapezoid sum, and computes those that are new.
    fn first_nodes(&mut self, number: usize) -> &[Node] {
        let log_step = ln(NODE_DISTANCE * INVERSE_ROOT_TWO_PI);
        let missing = number.saturating_sub(self.nodes.len());
        grow(&mut self.nodes, missing);
        for i in self.nodes.len()..number {
            let t = NODE_DISTANCE * i as f64 - NODES_BEYOND;
            let log_ratio = self.log_ratio(t);
            let (excess, error) = if log_ratio > 0.6 * LARGE_LOG_POWER { (0.0, 0.0) } else { self.excess(t) };
            let log_excess = ln_1p(excess.max(-1.0 + UNIT));
            let log_mass = -0.5 * t * t + log_step;
            self.nodes.push(Node { t, log_mass, log_ratio, excess, error, log_excess });
        }
        &self.nodes[..number]
    }

    /// Returns an upper bound on ln E_Q[gⁿ] for n ≥ 2; in logarithms alone where it is large.
    fn remove(&mut self, n: f64) -> f64 {
        let (furthest, parts) = (self.furthest, self.parts.len() as f64);
        let end = n * furthest + NODES_BEYOND + NODE_DISTANCE;
        let nodes = self.first_nodes(((end + NODES_BEYOND) / NODE_DISTANCE).ceil() as usize);
        let log = |node: &Node| {
            let reach = furthest * (node.t.abs() + furthest);
            let error = SHIFTED_ERROR * (node.log_mass.abs() + n * (1.0 + node.log_ratio.abs() + reach))
                + n * parts * (8.0 * UNIT);
            node.log_mass + n * node.log_ratio + error
        };
        let largest = nodes.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
        if largest > 500.0 {
            let sum = total(&gathered(nodes.iter().map(|node| exp(log(node) - largest))));
            return (largest + ln(sum * (1.0 + 8192.0 * UNIT))) * (1.0 + 8.0 * UNIT);
        }
        let term = |node: &Node| {
            if n * node.log_ratio > LARGE_LOG_POWER {
                return exp(log(node)); // the excess over 1 is nearly all
            }
            let (x, y) = (node.excess, n * node.log_excess);
            let power = expm1(y);
            // A term is off by a few units of what it is made of, and through x by n·|g^{n−1} − 1| times its error.
            let error = SHIFTED_ERROR * (power.abs() * (1.0 + y.abs()) + n * x.abs()) + n * power.abs() * node.error;
            let mass = exp(node.log_mass) * (1.0 + SHIFTED_ERROR * (1.0 + node.log_mass.abs()));
            ((power - n * x).max(0.0) + error) * mass
        };
        let excess = total(&gathered(nodes.iter().map(term))) * (1.0 + 512.0 * UNIT);
        ln_1p(excess + 1e-30 * (excess + n))
    }

    /// Computes what the ends of cells have in common.
    fn fill_ends(&mut self) {
        if self.ends.is_empty() {
            let cells = ((2.0 * CELLS_BEYOND + self.furthest) / CELL_WIDTH).ceil() as usize + 1;
            let end = |i: usize| {
                let t = CELL_WIDTH * i as f64 - CELLS_BEYOND;
                let (excess, error) = self.excess(t);
                let log_low = ln_1p((excess - error).max(-1.0 + UNIT));
                End { excess, error, log_low, density: exp(-0.5 * t * t) * INVERSE_ROOT_TWO_PI }
            };
            self.ends = gathered((0..cells + 1).map(end));
        }
    }

    /// Returns an upper bound on ln E_Q[g^{1−n}], or infinity.
    fn by_cells(&mut self, n: f64) -> f64 {
        let c = n - 1.0;
        if (CELLS_BEYOND + self.furthest) * self.parts.len() as f64 > 262_144.0 * CELL_WIDTH {
            return f64::INFINITY;
        }
        self.fill_ends();
        if !(f64::NEG_INFINITY..600.0).contains(&(-c * self.ends[0].log_low)) {
            return f64::INFINITY;
        }
        let value = |end: &End| {
            let power = expm1(-c * end.log_low);
            let k = (power + c * (end.excess + end.error)).max(0.0);
            k + SHIFTED_ERROR * (power.abs() * (1.0 + c * end.log_low.abs()) + c * end.excess.abs())
        };
        let mut last = value(&self.ends[0]);
        let cell = |pair: &[End]| {
            let next = value(&pair[1]);
            // A cell across 0 has its largest density there: e^{h²/2} more than at the nearer end, at most.
            let found = last.max(next) * pair[0].density.max(pair[1].density) * exp(CELL_WIDTH * CELL_WIDTH);
            last = next;
            found
        };
        let inside = total(&gathered(self.ends.windows(2).map(cell))) * CELL_WIDTH;
        let (spread, mean) = self.moments();
        let tail = |x: f64| if x > 0.0 { exp(-0.5 * x * x) } else { 1.0 };
        let low = (MASS_BEYOND_CELLS * exp((-c * self.log_none).min(700.0)))
            .min(exp((0.5 * c * spread + 0.5 * (c * mean) * (c * mean)).min(700.0)) * tail(CELLS_BEYOND - c * mean));
        ln_1p((inside + low + c * MASS_BEYOND_CELLS) * (1.0 + 8192.0 * UNIT))
    }

    /// Returns Σpa² and Σpa, rounded up.
    fn moments(&self) -> (f64, f64) {
        let sum =
            |power: fn(f64) -> f64| self.parts.iter().map(|&(a, p)| p * power(a)).sum::<f64>() * (1.0 + 8192.0 * UNIT);
        (sum(|a| a * a), sum(|a| a))
    }

    /// Returns what is known of Q against P without a sum: g ≥ p₀, Jensen's inequality, Taylor's formula.
    fn simple_add(&mut self, n: f64) -> f64 {
        let c = n - 1.0;
        let (spread, mean) = self.moments();
        let jensen = 0.5 * c * spread + 0.5 * (c * mean) * (c * mean);
        let found = (-c * self.log_none).min(jensen) * (1.0 + 256.0 * UNIT);
        let exponent = -(n + 1.0) * self.log_none;
        if exponent >= 1.0 {
            return found;
        }
        let taylor = 0.5 * n * c * expm1(self.remove(2.0)) * exp(exponent * (1.0 + 32.0 * UNIT) + 32.0 * UNIT * n);
        found.min(ln_1p(taylor * (1.0 + 512.0 * UNIT)))
    }

    /// Returns the bound that holds at any order.
    fn anyway(&self, order: f64) -> f64 {
        let (spread, mean) = self.moments();
        let plain = 0.5 * order * self.furthest * self.furthest;
        let c = order - 1.0;
        let mut removed = f64::INFINITY;
        if c > 0.0 && order < f64::INFINITY {
            let exponent = |&(a, p): &(f64, f64)| 0.5 * c * (a * a) + ln(p);
            let top = self.parts.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
            let size = self.parts.iter().map(|part| exponent(part).abs()).fold(0.0, f64::max);
            let sum: f64 = self.parts.iter().map(|part| exp(exponent(part) - top)).sum();
            let joined = top + ln(sum) + SHIFTED_ERROR * self.parts.len() as f64 * (1.0 + size);
            if joined.is_finite() {
                removed = joined.max(0.0) * (order / c);
            }
        }
        let added = (-self.log_none).min(0.5 * spread + 0.5 * c * mean * mean);
        let found = plain.min(removed.max(added)) * (1.0 + 512.0 * UNIT);
        if found.is_nan() { f64::INFINITY } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shift_is_the_gaussian_curve_and_a_sample_of_it_is_its_binomial_sum() {
        let mut plain = Shifted::new(2.0, &[1.0], &[0.5], 1.0);
        for order in [1.0, 1.5, 2.0, 30.0, 64.0, 1e6] {
            let (found, exact) = (plain.rate(order), order / 8.0);
            assert!(
                found >= exact && found <= exact * (1.0 + 1e-9) + 0.125 * f64::from(u8::from(order < 2.0)),
                "{order}: {found}"
            );
        }
        let mut sampled = Shifted::new(2.0, &[1.0], &[1.0], 0.01);
        let exact = ln_1p(1e-4 * expm1(0.25));
        let found = sampled.rate(2.0);
        assert!(found >= exact && found <= exact * (1.0 + 1e-9), "{found} {exact}");
    }

    #[test]
    fn no_shift_costs_nothing_and_equal_shifts_are_one() {
        assert_eq!(0.0, Shifted::new(1.0, &[0.0], &[1.0], 0.5).rate(f64::INFINITY));
        let (mut one, mut two) =
            (Shifted::new(1.5, &[1.0], &[1.0], 0.3), Shifted::new(1.5, &[1.0, 1.0], &[0.5, 0.5], 0.3));
        for order in [2.0, 3.5, 64.0, 1e9, f64::INFINITY] {
            assert_eq!(one.rate(order), two.rate(order), "{order}");
        }
    }
}
