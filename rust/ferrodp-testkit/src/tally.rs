//! One pass over the draws: everything that the tests ask of them, in a few counters.

pub(crate) mod order;

use crate::law::{BIN_COUNT, Bins, Law};
use order::{COARSE_BINS, DRAW_LANES, Order};

/// Classes of low-order bits.
pub(crate) const LOW_CLASSES: usize = 256;
/// Everything that is kept of a stream of draws.
#[derive(Clone, Debug)]
pub struct Tally {
    pub(crate) bins: Bins,
    pub(crate) law: Law,
    center: f64,
    ratio: f64,
    bin_of: Vec<i32>,
    pub(crate) order: Order,
    pub(crate) draws: u64,
    pub(crate) histogram: Vec<u64>,
    pub(crate) sum: f64,
    pub(crate) sum_of_squares: f64,
    pub(crate) largest: f64,
    pub(crate) far: [u64; 4],
    pub(crate) low: Vec<u64>,
    pub(crate) low_by_size: Vec<u64>,
    pub(crate) first: Vec<i64>,
    first_wanted: usize,
}

impl Tally {
    /// Starts a tally of `round(center + Z · ratio)`.
    #[must_use]
    pub fn new(law: Law, center: f64, ratio: f64) -> Self {
        Self {
            bins: Bins::new(law, center, ratio),
            law,
            center,
            ratio,
            bin_of: Vec::new(),
            order: Order::new(DRAW_LANES),
            draws: 0,
            histogram: vec![0; BIN_COUNT],
            sum: 0.0,
            sum_of_squares: 0.0,
            largest: 0.0,
            far: [0; 4],
            low: vec![0; LOW_CLASSES],
            low_by_size: vec![0; COARSE_BINS * COARSE_BINS],
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

    /// The chances of each class of size and of low bits: equal within a class of size where it holds so many integers that
    /// its ends do not show, and summed over the integers otherwise.
    pub(crate) fn low_by_size_probabilities(&self) -> Vec<f64> {
        const FINE: f64 = 65_536.0;
        if self.ratio >= FINE {
            let bins = self.bins.probabilities();
            let coarse = bins.chunks(bins.len() / COARSE_BINS).map(|bins| bins.iter().sum::<f64>());
            return coarse.flat_map(|p| [p / COARSE_BINS as f64; COARSE_BINS]).collect();
        }
        // Beyond 40 scales the chance is below 1e-17 for both laws.
        let reach = (40.0 * self.ratio) as i64;
        let center = self.center as i64;
        let mut found = vec![0.0; COARSE_BINS * COARSE_BINS];
        for n in center - reach..center + reach {
            let chance = self.law.between(self.bins.z_below(n), self.bins.z_below(n + 1));
            found[self.bins.index(n) / (BIN_COUNT / COARSE_BINS) * COARSE_BINS + n as usize % COARSE_BINS] += chance;
        }
        found
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
        assert!(self.draws.is_multiple_of(DRAW_LANES as u64), "positions are counted modulo {DRAW_LANES}");
        for stretch in draws.chunks(1 << 14) {
            self.add_stretch(stretch);
        }
    }

    fn add_stretch(&mut self, draws: &[i64]) {
        let wanted = self.first_wanted.saturating_sub(self.first.len()).min(draws.len());
        self.first.extend_from_slice(&draws[..wanted]);
        self.bin_of.clear();
        self.bin_of.extend(draws.iter().map(|&n| self.bins.index(n) as i32));
        self.draws += draws.len() as u64;
        for (&n, &bin) in draws.iter().zip(&self.bin_of) {
            self.histogram[bin as usize] += 1;
            self.low[n as usize % LOW_CLASSES] += 1;
            self.low_by_size[bin as usize / (BIN_COUNT / COARSE_BINS) * COARSE_BINS + n as usize % COARSE_BINS] += 1;
        }
        self.add_sizes(draws);
        self.order.add(&self.bin_of);
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
}
