//! One pass over integer draws, and the p-values of it.

use crate::finding::{Finding, goodness};
use crate::integers::integer_law::IntegerLaw;
use crate::law::BIN_COUNT;
use crate::special::{anderson_darling_tail, kolmogorov_tail, poisson_two_sided, two_sided};
use crate::tally::order::Order;

/// Positions that are compared: as many as samples are decided together.
const SAMPLE_LANES: usize = 1024;

/// Expected draws in a cell of the histogram, at least; and cells, at most about.
const LEAST_EXPECTED: f64 = 25.0;
const MOST_CELLS: f64 = 4096.0;

/// Everything that is kept of a stream of integer draws.
#[derive(Clone, Debug)]
pub struct Census {
    law: IntegerLaw,
    /// `P[X < start]` and the probability of each block, in units of 2⁻⁶⁴.
    blocks: Vec<(u64, u64)>,
    /// Draws by block, before and after all of them.
    counts: Vec<u64>,
    bin_of: Vec<i32>,
    transform: Vec<u64>,
    order: Order,
    draws: u64,
    zeros: u64,
    positive: u64,
    sum: f64,
    sum_of_squares: f64,
    largest: u64,
    reach: [i64; 4],
    far: [u64; 4],
    low: Vec<u64>,
    first: Vec<i64>,
    first_wanted: usize,
}

impl Census {
    /// Starts a census of draws that should have the law.
    #[must_use]
    pub fn new(law: IntegerLaw) -> Self {
        let unit = 2.0_f64.powi(64);
        let blocks: Vec<_> =
            law.below.windows(2).map(|p| ((p[0] * unit) as u64, ((p[1] - p[0]) * unit) as u64)).collect();
        let modulus = if law.scale >= 256.0 {
            256
        } else if law.scale >= 8.0 {
            16
        } else {
            2
        };
        // So many that about 36 pairs coincide; at the widest scales fewer.
        let first_wanted = if law.shift > 0 { (16.0 * law.scale.sqrt()).min(1_048_576.0) as usize } else { 0 };
        Self {
            counts: vec![0; blocks.len() + 2],
            bin_of: Vec::new(),
            transform: vec![0; BIN_COUNT],
            order: Order::new(SAMPLE_LANES),
            draws: 0,
            zeros: 0,
            positive: 0,
            sum: 0.0,
            sum_of_squares: 0.0,
            largest: 0,
            reach: law.law.far().map(|distance| (distance * law.scale).ceil() as i64),
            far: [0; 4],
            low: vec![0; modulus],
            first: Vec::new(),
            first_wanted,
            blocks,
            law,
        }
    }

    /// Adds draws in their order, with a random word for each. Every stretch but the last has a multiple of 1024 draws.
    ///
    /// # Panics
    /// If an earlier stretch had not, because positions would then be mistaken.
    pub fn add(&mut self, draws: &[i64], random: &[[u8; 8]]) {
        assert!(self.draws.is_multiple_of(SAMPLE_LANES as u64), "positions are counted modulo {SAMPLE_LANES}");
        for (draws, random) in draws.chunks(1 << 14).zip(random.chunks(1 << 14)) {
            let wanted = self.first_wanted.saturating_sub(self.first.len()).min(draws.len());
            self.first.extend_from_slice(&draws[..wanted]);
            self.bin_of.clear();
            for (&n, &word) in draws.iter().zip(random) {
                let bin = self.transformed(n, u64::from_le_bytes(word));
                self.transform[bin as usize] += 1;
                self.bin_of.push(bin);
            }
            self.add_values(draws);
            self.order.add(&self.bin_of);
            self.draws += draws.len() as u64;
        }
    }

    /// Counts a draw in its block and returns the bin of its randomized transform.
    #[inline]
    fn transformed(&mut self, n: i64, random: u64) -> i32 {
        let block = (n >> self.law.shift) - self.law.first;
        let place = (block + 1).clamp(0, self.counts.len() as i64 - 1) as usize;
        self.counts[place] += 1;
        let Some(&(below, share)) = usize::try_from(block).ok().and_then(|block| self.blocks.get(block)) else {
            return if block < 0 { 0 } else { BIN_COUNT as i32 - 1 };
        };
        // The place within the block, then random digits.
        let shift = self.law.shift;
        let part = if shift == 0 { random } else { (n as u64) << (64 - shift) | random >> shift };
        let transformed = below.saturating_add(((u128::from(share) * u128::from(part)) >> 64) as u64);
        (transformed >> (64 - BIN_COUNT.trailing_zeros())) as i32
    }

    fn add_values(&mut self, draws: &[i64]) {
        let (mut sum, mut squares, mut largest) = (0.0, 0.0, 0);
        let (mut zeros, mut positive) = (0, 0);
        let inverse = 1.0 / self.law.scale;
        let mask = self.low.len() - 1;
        for &n in draws {
            let z = n as f64 * inverse;
            sum += z;
            squares += z * z;
            zeros += u64::from(n == 0);
            positive += u64::from(n > 0);
            let magnitude = n.unsigned_abs();
            largest = magnitude.max(largest);
            self.low[n as usize & mask] += 1;
            if magnitude >= self.reach[0].unsigned_abs() {
                for (count, reach) in self.far.iter_mut().zip(self.reach) {
                    *count += u64::from(magnitude >= reach.unsigned_abs());
                }
            }
        }
        self.sum += sum;
        self.sum_of_squares += squares;
        self.zeros += zeros;
        self.positive += positive;
        self.largest = self.largest.max(largest);
    }

    /// Returns the p-values of all tests; needs some 2²⁰ draws for the approximations to hold far into the tails.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = vec![self.histogram()];
        found.extend(self.of_the_transform());
        found.extend(self.of_the_values());
        found.extend(self.of_the_bits());
        found.extend(self.order.findings(&[1.0 / BIN_COUNT as f64; BIN_COUNT]));
        found
    }

    /// Chi-square of the integers themselves, neighboring ones merged until enough draws are due.
    fn histogram(&self) -> Finding {
        let n = self.draws as f64;
        let below = &self.law.below;
        let probabilities =
            [below[0]].into_iter().chain(below.windows(2).map(|p| p[1] - p[0])).chain([1.0 - below[below.len() - 1]]);
        let least = LEAST_EXPECTED.max(n / MOST_CELLS);
        let (mut counts, mut shares) = (vec![0], vec![0.0]);
        for (&count, p) in self.counts.iter().zip(probabilities) {
            if shares[shares.len() - 1] * n >= least {
                counts.push(0);
                shares.push(0.0);
            }
            *counts.last_mut().expect("not empty") += count;
            *shares.last_mut().expect("not empty") += p;
        }
        if shares[shares.len() - 1] * n < least && shares.len() > 1 {
            let (count, share) = (counts.pop().unwrap_or(0), shares.pop().unwrap_or(0.0));
            *counts.last_mut().expect("not empty") += count;
            *shares.last_mut().expect("not empty") += share;
        }
        goodness("histogram", &counts, &shares)
    }

    /// Uniformity of the randomized transform; suprema and integrals over the edges of bins.
    fn of_the_transform(&self) -> Vec<Finding> {
        let n = self.draws as f64;
        let (mut gap, mut area, mut below) = (0.0_f64, 0.0, 0_u64);
        for (k, &count) in self.transform.iter().enumerate().take(BIN_COUNT - 1) {
            below += count;
            let t = (k + 1) as f64 / BIN_COUNT as f64;
            let difference = below as f64 / n - t;
            gap = gap.max(difference.abs());
            area += n * difference * difference / (t * (1.0 - t)) / BIN_COUNT as f64;
        }
        vec![
            goodness("transform", &self.transform, &[1.0 / BIN_COUNT as f64; BIN_COUNT]),
            // Edges alone: both p-values err upward.
            Finding { test: "kolmogorov".into(), statistic: gap * n.sqrt(), p: kolmogorov_tail(gap * n.sqrt()) },
            Finding { test: "anderson darling".into(), statistic: area, p: anderson_darling_tail(area) },
        ]
    }

    /// Moments, tails, zeros and signs.
    fn of_the_values(&self) -> Vec<Finding> {
        let n = self.draws as f64;
        let (second, fourth) = self.law.moments();
        let mean = self.sum / (n * second).sqrt();
        let variance = (self.sum_of_squares - n * second) / (n * (fourth - second * second)).sqrt();
        let signed = (self.draws - self.zeros) as f64;
        let sign = (2.0 * self.positive as f64 - signed) / signed.sqrt();
        let beyond = 2.0 * self.law.tail(self.largest.max(1).cast_signed());
        let largest = self.largest as f64 / self.law.scale;
        let mut found = vec![
            Finding { test: "mean".into(), statistic: mean, p: two_sided(mean) },
            Finding { test: "variance".into(), statistic: variance, p: two_sided(variance) },
            Finding { test: "sign".into(), statistic: sign, p: two_sided(sign) },
            Finding { test: "zeros".into(), statistic: self.zeros as f64, p: binomial(self.zeros, n, self.law.zero) },
            // P[largest ≥ m] = 1 − (1 − P[|X| ≥ m])ⁿ.
            Finding { test: "largest".into(), statistic: largest, p: -(n * (-beyond).ln_1p()).exp_m1() },
        ];
        for ((distance, reach), count) in self.law.law.far().into_iter().zip(self.reach).zip(self.far) {
            let p = binomial(count, n, 2.0 * self.law.tail(reach));
            found.push(Finding { test: format!("beyond {distance}"), statistic: count as f64, p });
        }
        found
    }

    fn of_the_bits(&self) -> Vec<Finding> {
        let mut found = vec![goodness("low bits", &self.low, &self.law.residues(self.low.len()))];
        if self.first_wanted > 0 {
            let mut kept = self.first.clone();
            kept.sort_unstable();
            let coincidences = kept.chunk_by(|a, b| a == b).map(|run| (run.len() * (run.len() - 1) / 2) as u64).sum();
            let m = kept.len() as f64;
            // Σ p² is nearly the integral of the squared density.
            let density_squared = match self.law.law {
                crate::law::Law::Gaussian => 0.5 / core::f64::consts::PI.sqrt(),
                crate::law::Law::Laplace => 0.25,
            };
            let p = poisson_two_sided(coincidences, 0.5 * m * (m - 1.0) * density_squared / self.law.scale);
            found.push(Finding { test: "coincidences".into(), statistic: coincidences as f64, p });
        }
        found
    }
}

/// Returns a two-sided p-value of a binomial count: Poisson if few are due, else normal (beyond 10⁵ its skewness changes a
/// p-value of 10⁻⁹ by a tenth).
fn binomial(count: u64, n: f64, p: f64) -> f64 {
    if n * p < 1e5 && p < 0.01 {
        return poisson_two_sided(count, n * p);
    }
    two_sided((count as f64 - n * p) / (n * p * (1.0 - p)).sqrt())
}
