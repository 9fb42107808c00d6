//! The laws under test, and the bins they are cut into.

use crate::special::normal_tail;

/// Bins of nearly equal probability.
pub const BIN_COUNT: usize = 1024;

/// Cells of a uniform grid over ±`GRID_SPAN`. A cell is narrower than the narrowest bin (2.4e-3 Gaussian, 1.9e-3 Laplace),
/// so that it holds at most one edge.
const CELL_COUNT: usize = 16_384;
const GRID_SPAN: f64 = 8.0;

/// A law of noise with scale 1, symmetric about zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Density exp(−z²/2)/√(2π); the scale is the standard deviation.
    Gaussian,
    /// Density exp(−|z|)/2.
    Laplace,
}

impl Law {
    /// Returns `P[Z > z]`, relatively within 1e-13.
    #[must_use]
    pub fn tail(self, z: f64) -> f64 {
        match self {
            Self::Gaussian => normal_tail(z),
            Self::Laplace if z < 0.0 => 1.0 - 0.5 * z.exp(),
            Self::Laplace => 0.5 * (-z).exp(),
        }
    }

    /// Returns the probability of (low, high) without cancellation in either tail.
    #[must_use]
    pub fn between(self, low: f64, high: f64) -> f64 {
        if low >= 0.0 { self.tail(low) - self.tail(high) } else { self.tail(-high) - self.tail(-low) }
    }

    /// Returns `E[Z²]` and `E[Z⁴]`.
    #[must_use]
    pub const fn moments(self) -> (f64, f64) {
        match self {
            Self::Gaussian => (1.0, 3.0),
            Self::Laplace => (2.0, 24.0),
        }
    }

    /// Distances from the center beyond which draws are counted: probabilities from 1e-4 down to 1e-12.
    #[must_use]
    pub const fn far(self) -> [f64; 4] {
        match self {
            Self::Gaussian => [4.0, 5.0, 6.0, 7.0],
            Self::Laplace => [9.0, 14.0, 20.0, 26.0],
        }
    }
}

/// The law of `N = round(center + Z · ratio)`, cut at half-integers so that every probability is exact.
#[derive(Clone, Debug)]
pub struct Bins {
    law: Law,
    center: f64,
    ratio: f64,
    edges: Vec<i64>,
    first_cell: i64,
    shift: u32,
    cells: Vec<(u16, i64)>,
}

impl Bins {
    /// Cuts the law with scale/granularity `ratio` and value/granularity `center`; `|center|` up to the ratio, say.
    #[must_use]
    pub fn new(law: Law, center: f64, ratio: f64) -> Self {
        // A bin holds the integers from its edge up to the next edge: edges are the smallest integers of bins 1, 2, ….
        let edges: Vec<i64> = (1..BIN_COUNT)
            .map(|k| {
                let p = k as f64 / BIN_COUNT as f64;
                (center + ratio * quantile(law, p)).round() as i64
            })
            .collect();
        let width = 2.0 * GRID_SPAN * ratio / CELL_COUNT as f64;
        let shift = width.log2().floor() as u32;
        let count = ((2.0 * GRID_SPAN * ratio) as i64 >> shift) + 2;
        let first_cell = (center - GRID_SPAN * ratio).floor() as i64 >> shift;
        let cells = (0..count)
            .map(|cell| {
                let start = (first_cell + cell) << shift;
                let below = edges.partition_point(|&edge| edge <= start);
                (below as u16, edges.get(below).map_or(i64::MAX, |edge| edge - 1))
            })
            .collect();
        Self { law, center, ratio, edges, first_cell, shift, cells }
    }

    /// Returns the bin of `n`.
    #[inline]
    #[must_use]
    pub fn index(&self, n: i64) -> usize {
        let cell = ((n >> self.shift) - self.first_cell).clamp(0, self.cells.len() as i64 - 1);
        let (bin, last) = self.cells[cell as usize];
        usize::from(bin) + usize::from(n > last)
    }

    /// Returns the probability of each bin.
    #[must_use]
    pub fn probabilities(&self) -> Vec<f64> {
        let cuts = self.edges.iter().map(|&edge| self.z_below(edge));
        let lows = [f64::NEG_INFINITY].into_iter().chain(cuts.clone());
        lows.zip(cuts.chain([f64::INFINITY])).map(|(low, high)| self.law.between(low, high)).collect()
    }

    /// Returns the z at which `n − 1` ends and `n` begins.
    #[must_use]
    pub fn z_below(&self, n: i64) -> f64 {
        (n as f64 - 0.5 - self.center) / self.ratio
    }
}

/// Returns z with P[Z < z] = p, by bisection: close enough to choose an edge.
fn quantile(law: Law, p: f64) -> f64 {
    let (mut low, mut high) = (-64.0, 64.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if law.tail(-middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_nearly_equal_and_make_up_the_whole() {
        for law in [Law::Gaussian, Law::Laplace] {
            for (center, ratio) in [(0.0, 1.3e6), (-4e5, 1.1e6), (0.25, 7.9e9)] {
                let probabilities = Bins::new(law, center, ratio).probabilities();

                assert!((1.0 - probabilities.iter().sum::<f64>()).abs() < 1e-12);
                // An edge is at most half a grid step off, and the density is at most ½.
                assert!(
                    probabilities.iter().all(|p| (p * BIN_COUNT as f64 - 1.0).abs() < BIN_COUNT as f64 / ratio + 1e-10)
                );
            }
        }
    }

    #[test]
    fn the_lookup_agrees_with_counting_edges() {
        for law in [Law::Gaussian, Law::Laplace] {
            let bins = Bins::new(law, 1234.5, 1.5 * f64::from(1 << 20));
            let around = bins.edges.iter().flat_map(|&edge| [edge - 1, edge, edge + 1]);
            let far = [i64::MIN, -1 << 40, 0, 1 << 40, i64::MAX];

            for n in around.chain(far).chain((-20_000_000..20_000_000).step_by(997)) {
                assert_eq!(bins.edges.partition_point(|&edge| edge <= n), bins.index(n), "{law:?} {n}");
            }
        }
    }

    #[test]
    fn quantiles_invert_tails() {
        for law in [Law::Gaussian, Law::Laplace] {
            for p in [1e-3, 0.3, 0.5, 0.999] {
                assert!((law.tail(-quantile(law, p)) - p).abs() < 1e-12);
            }
        }
    }
}
