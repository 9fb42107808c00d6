//! From a tally to p-values, and from p-values to a verdict.
//!
//! Each test's p-value is uniform (or larger) when the draws have the stated law, so that Holm's procedure (*A simple
//! sequentially rejective multiple test procedure*, Scandinavian Journal of Statistics, 1979) keeps the chance of any
//! false alarm, over all tests of a run, below the family-wise rate.

use crate::finding::{Finding, goodness};
use crate::special::{kolmogorov_tail, poisson_two_sided, two_sided};
use crate::tally::{LOW_CLASSES, Tally};

impl Tally {
    /// Returns the p-values of all tests; needs some 2²⁰ draws for the approximations to hold far into the tails.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = self.of_the_law();
        found.extend(self.of_the_bits());
        found.extend(self.order.findings(&self.bins.probabilities()));
        found
    }

    /// The marginal law: histogram, moments, tails.
    fn of_the_law(&self) -> Vec<Finding> {
        let n = self.draws as f64;
        let probabilities = self.bins.probabilities();
        let (second, fourth) = self.law.moments();
        let mean = self.sum / (n * second).sqrt();
        let variance = (self.sum_of_squares - n * second) / (n * (fourth - second * second)).sqrt();
        let (mut gap, mut below, mut expected) = (0.0_f64, 0_u64, 0.0);
        for (&count, p) in self.histogram.iter().zip(&probabilities) {
            below += count;
            expected += p;
            gap = gap.max((below as f64 / n - expected).abs());
        }
        let beyond = 2.0 * self.law.tail(self.largest);
        let mut found = vec![
            goodness("histogram", &self.histogram, &probabilities),
            // The supremum over bin edges alone is at most Kolmogorov's, so this p-value errs upward.
            Finding { test: "kolmogorov".into(), statistic: gap * n.sqrt(), p: kolmogorov_tail(gap * n.sqrt()) },
            Finding { test: "mean".into(), statistic: mean, p: two_sided(mean) },
            Finding { test: "variance".into(), statistic: variance, p: two_sided(variance) },
            // P[largest ≥ m] = 1 − (1 − P[|Z| > m])ⁿ.
            Finding { test: "largest".into(), statistic: self.largest, p: -(n * (-beyond).ln_1p()).exp_m1() },
        ];
        for (distance, count) in self.law.far().into_iter().zip(self.far) {
            let expected = n * self.far_probability(distance);
            let p = poisson_two_sided(count, expected);
            found.push(Finding { test: format!("beyond {distance}"), statistic: count as f64, p });
        }
        found
    }

    /// Sign and low-order bits: uniform up to exp(−2π²(ratio/256)²) (Gaussian) or (256/2π·ratio)² (Laplace), by
    /// Poisson summation; below 2e-9 for the ratios in use, where 10⁸ draws see 1e-5.
    fn of_the_bits(&self) -> Vec<Finding> {
        let half = self.histogram.len() / 2;
        let halves = self.bins.probabilities();
        let below: u64 = self.histogram[..half].iter().sum();
        let chance: f64 = halves[..half].iter().sum();
        let n = self.draws as f64;
        let sign = (below as f64 - n * chance) / (n * chance * (1.0 - chance)).sqrt();
        let by_size = self.low_by_size_probabilities();
        let mut kept = self.first.clone();
        kept.sort_unstable();
        let coincidences = kept.chunk_by(|a, b| a == b).map(|run| (run.len() * (run.len() - 1) / 2) as u64).sum();
        let expected = self.expected_coincidences();
        vec![
            Finding { test: "sign".into(), statistic: sign, p: two_sided(sign) },
            goodness("low bits", &self.low, &[1.0 / LOW_CLASSES as f64; LOW_CLASSES]),
            goodness("low bits by size", &self.low_by_size, &by_size),
            Finding {
                test: "coincidences".into(),
                statistic: coincidences as f64,
                p: poisson_two_sided(coincidences, expected),
            },
        ]
    }
}

/// Returns Holm's adjusted p-values: the test fails at family-wise rate α if its adjusted p-value is at most α.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max((p_values.len() - rank) as f64 * p_values[index]).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_steps_down() {
        // Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, made monotone.
        let adjusted = holm(&[0.02, 0.5, 0.01, 0.03]);

        for (expected, found) in [0.06, 0.5, 0.04, 0.06].into_iter().zip(adjusted) {
            assert!((expected - found).abs() < 1e-15_f64);
        }
    }
}
