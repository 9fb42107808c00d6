//! What one test found: a statistic and its p-value.

use crate::special::chi_square_tail;

/// What one test found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The test's name.
    pub test: String,
    /// The value of its statistic.
    pub statistic: f64,
    /// The chance of so extreme a value under the stated law.
    pub p: f64,
}

/// Pearson's chi-square of counts against probabilities that sum to one.
pub(crate) fn goodness(test: &str, counts: &[u64], probabilities: &[f64]) -> Finding {
    let n = counts.iter().sum::<u64>() as f64;
    let terms = counts.iter().zip(probabilities).map(|(&count, p)| (count as f64 - n * p).powi(2) / (n * p));
    let statistic = terms.sum();
    Finding { test: test.into(), statistic, p: chi_square_tail(statistic, counts.len() - 1) }
}
