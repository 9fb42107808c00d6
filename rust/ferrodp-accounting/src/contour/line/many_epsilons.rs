//! The sum over a line's nodes for many ε: rotated by one complex multiplication a node, its error known beforehand.
//!
//! `Σⱼ Re(vⱼ·e^{−iεjh})` with `vⱼ` the integrand at node j, computed once. Eight sums run side by side; each of their powers of
//! `w = e^{−iεh}` is multiplied by `w⁸` from node to node.
//!
//! # Numerics
//! In units of [`UNIT`], relative to `|vⱼ|`: `vⱼ` itself is within its stated error, `2|phase|` and 20. `εh` is rounded, which turns
//! w by at most `εh`; sine and cosine are within 8 of themselves, so w within `εh + 12`. The powers up to `w⁸` are products of at
//! most eight, a product being within 4; further ones are products with `w⁸`. Whatever the way, node j has j factors w and at most j
//! products: `εjh + 16j`. Twice that is stated, and 40. Each lane adds up to `n/8 + 1` terms, and lanes are added in three steps: with
//! `S = Σ|vⱼ|`, `(n/8 + 8)·S` for the sum, as no partial sum exceeds `1.001·S`.

use crate::contour::complex::{Complex, product};
use crate::functions::{UNIT, sincos};
use crate::memory::{copied, filled};

const SUM_LANES: usize = 8;

/// Beyond this, errors are so large that nothing is said.
const MAX_ANGLE: f64 = 1e12;

/// A value of the integrand, by modulus and argument.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Node {
    pub(in crate::contour) amplitude: f64,
    pub(in crate::contour) phase: f64,
    /// Bound on its error, relative to the amplitude.
    pub(in crate::contour) error: f64,
    /// Bound on the modulus of the exact value.
    pub(in crate::contour) cap: f64,
}

/// What a sum over the nodes is, and how it changes with ε.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Sum {
    pub(in crate::contour) value: f64,
    pub(in crate::contour) slope: f64,
    pub(in crate::contour) error: f64,
}

impl Sum {
    /// About which nothing is known.
    const UNKNOWN: Self = Self { value: 0.0, slope: 0.0, error: f64::INFINITY };
}

/// The values at the nodes, ready to be rotated.
#[derive(Clone, Debug)]
pub(in crate::contour) struct Rotated {
    chunks: Vec<[[f64; SUM_LANES]; 2]>,
    c: f64,
    step: f64,
    count: f64,
    /// Bound on the error of a sum, and what each unit of ε adds to it.
    error: (f64, f64),
}

impl Rotated {
    /// Returns the same once more.
    pub(in crate::contour) fn copy(&self) -> Self {
        Self { chunks: copied(&self.chunks), ..*self }
    }

    /// Takes the values at `c + ijh`, the first of them halved.
    pub(in crate::contour) fn new(c: f64, step: f64, nodes: impl ExactSizeIterator<Item = Node>) -> Self {
        let count = nodes.len();
        let mut chunks = filled([[0.0; SUM_LANES]; 2], count.div_ceil(SUM_LANES));
        let (mut fixed, mut grows, mut size) = (0.0, 0.0, 0.0);
        for (index, node) in nodes.enumerate() {
            let relative = node.error + (2.0 * node.phase.abs() + 32.0 * index as f64 + 60.0) * UNIT;
            if relative >= 0.25 {
                // Nothing is known but its size.
                fixed += node.cap;
                continue;
            }
            let (sine, cosine) = sincos(node.phase);
            let chunk = &mut chunks[index / SUM_LANES];
            (chunk[0][index % SUM_LANES], chunk[1][index % SUM_LANES]) =
                (node.amplitude * cosine, node.amplitude * sine);
            fixed += 1.5 * node.amplitude * relative;
            grows += 1.5 * node.amplitude * 2.0 * index as f64 * step * UNIT;
            size += node.amplitude;
        }
        let rounding = (chunks.len() as f64 + 16.0) * UNIT;
        Self { chunks, c, step, count: count as f64, error: ((fixed + size * rounding) * 1.001, grows * 1.001) }
    }

    /// Returns `(h/2π)·Σⱼ e^{−εzⱼ}·valueⱼ·e^{εc}` over all integers j.
    pub(in crate::contour) fn sum(&self, epsilon: f64) -> Sum {
        let turn = epsilon * self.step;
        let is_near = turn * self.count < MAX_ANGLE;
        if !is_near {
            return Sum::UNKNOWN;
        }
        let (mut re, mut im) = ([1.0; SUM_LANES], [0.0; SUM_LANES]);
        let (sine, cosine) = sincos(turn);
        let first: Complex = (cosine, -sine);
        let mut power = (1.0, 0.0);
        for lane in 1..SUM_LANES {
            power = product(power, first);
            (re[lane], im[lane]) = power;
        }
        let (w, v) = product(power, first);
        let (mut value, mut weighted) = ([0.0; SUM_LANES], [0.0; SUM_LANES]);
        for (index, [a, b]) in self.chunks.iter().enumerate() {
            let start = (index * SUM_LANES) as f64;
            for lane in 0..SUM_LANES {
                value[lane] += a[lane] * re[lane] - b[lane] * im[lane];
                weighted[lane] += (start + lane as f64) * (a[lane] * im[lane] + b[lane] * re[lane]);
                (re[lane], im[lane]) = (re[lane] * w - im[lane] * v, re[lane] * v + im[lane] * w);
            }
        }
        let (value, weighted) = (folded(value), folded(weighted));
        let scale = self.step / core::f64::consts::PI;
        let error = self.error.0 + epsilon * self.error.1;
        Sum {
            value: value * scale,
            slope: (weighted * self.step - self.c * value) * scale,
            // mutant: error-of-rotated-sums
            error: error * scale * 1.001 + 8.0 * UNIT * value.abs() * scale,
        }
    }
}

/// Returns the sum of eight numbers, by halves.
fn folded(x: [f64; SUM_LANES]) -> f64 {
    ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::exp;

    /// Gaussian values with a turn of their own, summed one by one in twice the digits' worth of care: by sine and cosine.
    #[test]
    fn sums_are_those_of_each_node_turned_by_itself() {
        let step = 0.37;
        let node =
            |j: usize| Node { amplitude: exp(-0.002 * (j * j) as f64), phase: -0.3 * j as f64, error: 0.0, cap: 1.0 };
        for count in [1, 7, 8, 9, 60] {
            let rotated = Rotated::new(2.0, step, (0..count).map(node).collect::<Vec<_>>().into_iter());
            for epsilon in [0.0, 0.01, 1.0, 30.0] {
                let found = rotated.sum(epsilon);
                let (mut value, mut slope) = (0.0, 0.0);
                for j in 0..count {
                    let tau = j as f64 * step;
                    let (sine, cosine) = sincos(node(j).phase - epsilon * tau);
                    value += node(j).amplitude * cosine;
                    slope += node(j).amplitude * (tau * sine - 2.0 * cosine);
                }
                let scale = step / core::f64::consts::PI;
                assert!((found.value - value * scale).abs() <= found.error, "{count} {epsilon}");
                assert!((found.slope - slope * scale).abs() <= 200.0 * found.error + 1e-13, "{count} {epsilon}");
                assert!(found.error < 1e-11);
            }
        }
    }

    #[test]
    fn of_a_node_that_is_hardly_known_its_size_counts() {
        let node = Node { amplitude: 0.0, phase: 0.0, error: f64::INFINITY, cap: 0.5 };
        let rotated = Rotated::new(1.0, core::f64::consts::PI, [node].into_iter());

        assert!(rotated.sum(1.0).error >= 0.5);
        assert_eq!(f64::INFINITY, rotated.sum(1e300).error);
    }
}
