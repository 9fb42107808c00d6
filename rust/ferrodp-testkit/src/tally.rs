//! One pass over the draws: everything that the tests ask of them, in a few counters.
//!
//! Serial and positional statistics use the *score* of a draw, its bin number made symmetric about zero. Scores are
//! bounded, have exactly known moments and are summed as integers, so that the normal approximation holds at small
//! p-values for heavy tails too, and no floating-point sum depends on an order.

use crate::law::{BINS, Bins, Law};

/// Positions within a stretch of draws that are compared: more lanes than any vector has.
pub(crate) const LANES: usize = 64;
/// Distances at which draws are correlated: neighbors, lanes of every vector width, cipher blocks, strides of unrolling.
pub(crate) const LAGS: [usize; 8] = [1, 2, 3, 4, 8, 16, 32, 64];
/// Classes of low-order bits.
pub(crate) const LOW: usize = 256;
/// Coarse bins for two-way tables.
pub(crate) const COARSE: usize = 16;

/// Everything that is kept of a stream of draws.
#[derive(Clone, Debug)]
pub struct Tally {
    pub(crate) bins: Bins,
    pub(crate) law: Law,
    center: f64,
    ratio: f64,
    recent: Vec<i32>,
    pub(crate) draws: u64,
    pub(crate) histogram: Vec<u64>,
    pub(crate) sum: f64,
    pub(crate) sum_of_squares: f64,
    pub(crate) largest: f64,
    pub(crate) far: [u64; 4],
    pub(crate) low: Vec<u64>,
    pub(crate) low_by_size: Vec<u64>,
    pub(crate) pairs: Vec<u64>,
    pub(crate) products: [Products; LAGS.len()],
    pub(crate) lanes: Vec<Lane>,
    pub(crate) first: Vec<i64>,
    first_wanted: usize,
}

/// Sums of products of scores a fixed distance apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Products {
    pub(crate) count: u64,
    pub(crate) plain: i128,
    pub(crate) folded: i128,
}

/// Sums of scores at one position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) count: u64,
    pub(crate) plain: i64,
    pub(crate) folded: i64,
}

/// Returns the symmetric score of a bin: −1023, −1021, …, 1023.
#[inline]
const fn plain(bin: i32) -> i32 {
    2 * bin - (BINS as i32 - 1)
}

/// Returns the score of a bin's distance from the center: −511, −509, …, 511.
#[inline]
const fn folded(bin: i32) -> i32 {
    plain(bin).abs() - BINS as i32 / 2
}

/// Variance of `plain` and of `folded` under equal bins: (m² − 1)/3 for m scores two apart.
pub(crate) const SCORE_VARIANCE: [f64; 2] = [((BINS * BINS - 1) as f64) / 3.0, ((BINS * BINS / 4 - 1) as f64) / 3.0];

impl Tally {
    /// Starts a tally of `round(center + Z · ratio)`.
    #[must_use]
    pub fn new(law: Law, center: f64, ratio: f64) -> Self {
        Self {
            bins: Bins::new(law, center, ratio),
            law,
            center,
            ratio,
            recent: Vec::new(),
            draws: 0,
            histogram: vec![0; BINS],
            sum: 0.0,
            sum_of_squares: 0.0,
            largest: 0.0,
            far: [0; 4],
            low: vec![0; LOW],
            low_by_size: vec![0; COARSE * COARSE],
            pairs: vec![0; COARSE * COARSE],
            products: [Products::default(); LAGS.len()],
            lanes: vec![Lane::default(); LANES],
            first: Vec::new(),
            // So many that about 36 pairs coincide: m²/2 · Σ p² with Σ p² near 0.27 / ratio.
            first_wanted: (16.0 * ratio.sqrt()) as usize,
        }
    }

    /// The expected number of coinciding pairs among the kept first draws: m (m − 1)/2 · ∫ density² / ratio.
    pub(crate) fn expected_coincidences(&self) -> f64 {
        let m = self.first.len() as f64;
        let density_squared = match self.law {
            Law::Gaussian => 0.5 / core::f64::consts::PI.sqrt(),
            Law::Laplace => 0.25,
        };
        0.5 * m * (m - 1.0) * density_squared / self.ratio
    }

    /// The chance of a draw at least `distance` grid-exactly counted scales from the center, and the count's rule.
    pub(crate) fn far_probability(&self, distance: f64) -> f64 {
        let (low, high) = self.far_limits(distance);
        self.law.tail(self.bins.z_below(high)) + self.law.tail(-self.bins.z_below(low + 1))
    }

    /// The largest and smallest integers that count as far from the center.
    fn far_limits(&self, distance: f64) -> (i64, i64) {
        let reach = distance * self.ratio;
        ((self.center - reach).floor() as i64, (self.center + reach).ceil() as i64)
    }

    /// Adds draws in their order. Every stretch but the last has a multiple of 64 draws.
    ///
    /// # Panics
    /// If an earlier stretch had not, because positions would then be mistaken.
    pub fn add(&mut self, draws: &[i64]) {
        assert!(self.draws.is_multiple_of(LANES as u64), "positions are counted modulo {LANES}");
        for stretch in draws.chunks(1 << 14) {
            self.add_stretch(stretch);
        }
    }

    fn add_stretch(&mut self, draws: &[i64]) {
        let wanted = self.first_wanted.saturating_sub(self.first.len()).min(draws.len());
        self.first.extend_from_slice(&draws[..wanted]);
        let history = self.recent.len();
        self.recent.extend(draws.iter().map(|&n| self.bins.index(n) as i32));
        self.draws += draws.len() as u64;
        for (&n, &bin) in draws.iter().zip(&self.recent[history..]) {
            self.histogram[bin as usize] += 1;
            self.low[n as usize % LOW] += 1;
            self.low_by_size[bin as usize / (BINS / COARSE) * COARSE + n as usize % COARSE] += 1;
        }
        self.add_sizes(draws);
        self.add_positions(history);
        self.add_products(history);
        let kept = self.recent.len().min(LAGS[LAGS.len() - 1]);
        self.recent.drain(..self.recent.len() - kept);
    }

    fn add_sizes(&mut self, draws: &[i64]) {
        let limits = self.law.far().map(|distance| self.far_limits(distance));
        let (mut sum, mut squares, mut largest) = (0.0, 0.0, 0.0_f64);
        for &n in draws {
            let z = (n as f64 - self.center) / self.ratio;
            sum += z;
            squares += z * z;
            largest = largest.max(z.abs());
            if n <= limits[0].0 || n >= limits[0].1 {
                for (count, (low, high)) in self.far.iter_mut().zip(limits) {
                    *count += u64::from(n <= low || n >= high);
                }
            }
        }
        self.sum += sum;
        self.sum_of_squares += squares;
        self.largest = self.largest.max(largest);
    }

    fn add_positions(&mut self, history: usize) {
        for stretch in self.recent[history..].chunks(LANES) {
            for (lane, &bin) in self.lanes.iter_mut().zip(stretch) {
                lane.count += 1;
                lane.plain += i64::from(plain(bin));
                lane.folded += i64::from(folded(bin));
            }
        }
        for pair in self.recent[history..].chunks_exact(2) {
            self.pairs[pair[0] as usize / (BINS / COARSE) * COARSE + pair[1] as usize / (BINS / COARSE)] += 1;
        }
    }

    fn add_products(&mut self, history: usize) {
        for (lag, products) in LAGS.into_iter().zip(&mut self.products) {
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
}
