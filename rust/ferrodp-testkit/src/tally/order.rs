//! Independence of neighbors and of positions, from the bins that draws fall into.
//!
//! Serial and positional statistics use the *score* of a draw, its bin number made symmetric about zero. Scores are
//! bounded, have exactly known moments and are summed as integers, so that the normal approximation holds at small
//! p-values for heavy tails too, and no floating-point sum depends on an order.

use crate::finding::{Finding, goodness};
use crate::law::BIN_COUNT;
use crate::special::{chi_square_tail, two_sided};

/// Coarse bins for two-way tables.
pub(crate) const COARSE_BINS: usize = 16;

/// Positions within a stretch of draws that are compared: more lanes than any vector has.
pub(crate) const DRAW_LANES: usize = 64;
/// Distances at which draws are correlated: neighbors, lanes of every vector width, cipher blocks, strides of unrolling.
const COMPARED_LAGS: [usize; 8] = [1, 2, 3, 4, 8, 16, 32, 64];

/// Sums of products of scores a fixed distance apart.
#[derive(Clone, Copy, Debug, Default)]
struct Products {
    count: u64,
    plain: i128,
    folded: i128,
}

/// Sums of scores at one position.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    count: u64,
    plain: i64,
    folded: i64,
}

/// Returns the symmetric score of a bin: −1023, −1021, …, 1023.
#[inline]
const fn plain(bin: i32) -> i32 {
    2 * bin - (BIN_COUNT as i32 - 1)
}

/// Returns the score of a bin's distance from the center: −511, −509, …, 511.
#[inline]
const fn folded(bin: i32) -> i32 {
    plain(bin).abs() - BIN_COUNT as i32 / 2
}

/// Variance of `plain` and of `folded` under equal bins: (m² − 1)/3 for m scores two apart.
const SCORE_VARIANCE: [f64; 2] =
    [((BIN_COUNT * BIN_COUNT - 1) as f64) / 3.0, ((BIN_COUNT * BIN_COUNT / 4 - 1) as f64) / 3.0];

/// What is kept of the order of draws.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    recent: Vec<i32>,
    pairs: Vec<u64>,
    products: [Products; COMPARED_LAGS.len()],
    lanes: Vec<Lane>,
}

impl Order {
    /// Starts with positions counted modulo `lanes`.
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            recent: Vec::new(),
            pairs: vec![0; COARSE_BINS * COARSE_BINS],
            products: [Products::default(); COMPARED_LAGS.len()],
            lanes: vec![Lane::default(); lanes],
        }
    }

    /// Adds the bins of a stretch of draws, which starts at position 0.
    pub(crate) fn add(&mut self, bins: &[i32]) {
        let history = self.recent.len();
        self.recent.extend_from_slice(bins);
        self.add_positions(history);
        self.add_products(history);
        let kept = self.recent.len().min(COMPARED_LAGS[COMPARED_LAGS.len() - 1]);
        self.recent.drain(..self.recent.len() - kept);
    }

    fn add_positions(&mut self, history: usize) {
        for stretch in self.recent[history..].chunks(self.lanes.len()) {
            for (lane, &bin) in self.lanes.iter_mut().zip(stretch) {
                lane.count += 1;
                lane.plain += i64::from(plain(bin));
                lane.folded += i64::from(folded(bin));
            }
        }
        for pair in self.recent[history..].chunks_exact(2) {
            self.pairs[pair[0] as usize / (BIN_COUNT / COARSE_BINS) * COARSE_BINS
                + pair[1] as usize / (BIN_COUNT / COARSE_BINS)] += 1;
        }
    }

    fn add_products(&mut self, history: usize) {
        for (lag, products) in COMPARED_LAGS.into_iter().zip(&mut self.products) {
            let start = history.max(lag);
            if start >= self.recent.len() {
                continue;
            }
            let (mut plains, mut foldeds) = (0_i64, 0_i64);
            for (&a, &b) in self.recent[start..].iter().zip(&self.recent[start - lag..]) {
                plains += i64::from(plain(a) * plain(b));
                foldeds += i64::from(folded(a) * folded(b));
            }
            products.count += (self.recent.len() - start) as u64;
            products.plain += i128::from(plains);
            products.folded += i128::from(foldeds);
        }
    }

    /// Returns the p-values, for bins of these nearly equal probabilities.
    pub(crate) fn findings(&self, probabilities: &[f64]) -> Vec<Finding> {
        let coarse: Vec<f64> =
            probabilities.chunks(probabilities.len() / COARSE_BINS).map(|bins| bins.iter().sum()).collect();
        let both: Vec<f64> = coarse.iter().flat_map(|a| coarse.iter().map(move |b| a * b)).collect();
        let mut found = vec![goodness("neighbors", &self.pairs, &both)];
        for (lag, products) in COMPARED_LAGS.into_iter().zip(self.products) {
            let sums = [("plain", products.plain), ("folded", products.folded)];
            for ((kind, sum), variance) in sums.into_iter().zip(SCORE_VARIANCE) {
                let score = sum as f64 / (variance * (products.count as f64).sqrt());
                found.push(Finding { test: format!("lag {lag} {kind}"), statistic: score, p: two_sided(score) });
            }
        }
        let lanes = self.lanes.iter().filter(|lane| lane.count > 0);
        let squares = lanes.clone().fold([0.0; 2], |[plain, folded], lane| {
            let standardized = |sum: i64, variance: f64| (sum as f64).powi(2) / (variance * lane.count as f64);
            let [a, b] = SCORE_VARIANCE;
            [plain + standardized(lane.plain, a), folded + standardized(lane.folded, b)]
        });
        for (kind, statistic) in ["plain", "folded"].into_iter().zip(squares) {
            let p = chi_square_tail(statistic, lanes.clone().count());
            found.push(Finding { test: format!("positions {kind}"), statistic, p });
        }
        found
    }
}
