//! The exact laws of integers, tabulated.

use crate::law::Law;
use crate::special::normal_tail;

/// From this scale on, probabilities are those of blocks of integers, within which the density is taken for linear.
const MIN_BLOCK_SCALE: f64 = 65536.0;

/// Half of the table, in scales: beyond, the transform is in its outermost bin.
const TABLE_SCALES: f64 = 8.0;

/// The exact law of the integers, in blocks of `2^shift` of them.
#[derive(Clone, Debug)]
pub struct IntegerLaw {
    /// Which law.
    pub law: Law,
    /// σ or b.
    pub scale: f64,
    /// Blocks have `2^shift` integers.
    pub shift: u32,
    /// The first block of the table.
    pub first: i64,
    /// `P[X < start]` of each block of the table, and of the one after it.
    pub below: Vec<f64>,
    /// `P[X = 0]`.
    pub zero: f64,
}

impl IntegerLaw {
    /// Tabulates the law.
    #[must_use]
    pub fn new(law: Law, scale: f64) -> Self {
        let shift = if scale < MIN_BLOCK_SCALE { 0 } else { scale.log2().floor() as u32 - 11 };
        let blocks = (TABLE_SCALES * scale).ceil() as i64 >> shift;
        let mut table = Self { law, scale, shift, first: -blocks - 1, below: Vec::new(), zero: 1.0 };
        let mass = if shift == 0 { 2.0 * table.sum_from(1) + 1.0 } else { table.integral() };
        table.zero = 1.0 / mass;
        let starts = (-blocks - 1)..=(blocks + 2);
        let mut above: Vec<f64> = Vec::new();
        if shift == 0 {
            // P[X ≥ n] for n = blocks + 2 down to 1, small terms first.
            let mut sum = table.sum_from(blocks + 2);
            above.push(sum);
            for n in (1..=blocks + 1).rev() {
                sum += table.weight(n);
                above.push(sum);
            }
            above.reverse();
        }
        table.below = starts
            .map(|block| {
                let n = block << shift;
                if shift > 0 {
                    if n > 0 { 1.0 - table.tail(n) } else { table.tail(1 - n) }
                } else if n > 0 {
                    1.0 - table.zero * above[n as usize - 1]
                } else {
                    table.zero * above[(1 - n) as usize - 1]
                }
            })
            .collect();
        table
    }

    /// `f(n)`.
    fn weight(&self, n: i64) -> f64 {
        let z = n as f64 / self.scale;
        match self.law {
            Law::Gaussian => (-0.5 * z * z).exp(),
            Law::Laplace => (-z.abs()).exp(),
        }
    }

    /// `Σ f(k)` over k ≥ n > 0, small terms first; what lies 45 scales further is below e⁻⁴⁵ of it.
    fn sum_from(&self, n: i64) -> f64 {
        let last = n + (45.0 * self.scale).ceil() as i64 + 2;
        (n..=last).rev().map(|k| self.weight(k)).sum()
    }

    /// `Σ f(k)` over all k where the scale is so large that this is the integral (Poisson summation: the Gaussian's differs
    /// by exp(−2π²σ²)), or the geometric series for Laplace.
    fn integral(&self) -> f64 {
        match self.law {
            Law::Gaussian => self.scale * (2.0 * core::f64::consts::PI).sqrt(),
            Law::Laplace => 1.0 / (0.5 / self.scale).tanh(),
        }
    }

    /// Returns `P[X ≥ n]` for n > 0.
    ///
    /// Wide Gaussian: the midpoint rule `P[σZ > n − ½]`, off by `zφ(z)/24σ²` < 3e-12.
    #[must_use]
    pub fn tail(&self, n: i64) -> f64 {
        if self.shift == 0 {
            return self.zero * self.sum_from(n);
        }
        match self.law {
            Law::Gaussian => normal_tail((n as f64 - 0.5) / self.scale),
            Law::Laplace => (-(n as f64) / self.scale).exp() / (1.0 + (-1.0 / self.scale).exp()),
        }
    }

    /// Returns `E[X²]/scale²` and `E[X⁴]/scale⁴`: sums, or for wide laws those of the continuous law (within 1/(12·scale²)).
    #[must_use]
    pub fn moments(&self) -> (f64, f64) {
        if self.shift > 0 {
            return self.law.moments();
        }
        let last = (60.0 * self.scale).ceil() as i64 + 2;
        (1..=last).rev().fold((0.0, 0.0), |(second, fourth), n| {
            let z = (n as f64 / self.scale).powi(2);
            let p = 2.0 * self.zero * self.weight(n);
            (second + p * z, fourth + p * z * z)
        })
    }

    /// Returns the probabilities of the residues modulo `modulus`: sums, or equal ones for wide laws (within
    /// (256/2π·scale)², Laplace, by Poisson summation: 4e-7 of each other, where 2³⁰ draws see 4e-4).
    #[must_use]
    pub fn residues(&self, modulus: usize) -> Vec<f64> {
        let mut shares = vec![1.0 / modulus as f64; modulus];
        if self.shift == 0 {
            shares.fill(0.0);
            let last = (45.0 * self.scale).ceil() as i64 + 2;
            for n in -last..=last {
                shares[n.rem_euclid(modulus as i64) as usize] += self.zero * self.weight(n);
            }
        }
        shares
    }
}
