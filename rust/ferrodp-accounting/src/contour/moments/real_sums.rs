//! Sums over nodes on the real axis, for estimates: eight nodes at once.
//!
//! Every lane adds up its nodes in their order, and the lanes are added in one order: the same bits on every [`Isa`].

use crate::functions::lanes::Split;
use crate::memory::grow;
use ferrodp_core::Isa;
#[cfg(target_arch = "x86_64")]
use ferrodp_core::isa::Kind;

const AXIS_LANES: usize = 8;

/// Exponents up to which the sums of [`Axis::tilted`] may be formed: `e^x` is a float, with room for what it is multiplied by.
const MAX_TILT_EXPONENT: f64 = 600.0;

/// Nodes, a whole number of lanes of them; those added to fill the last ones have no weight.
#[derive(Clone, Debug, Default)]
pub(in crate::contour) struct Axis {
    /// `ln r`.
    logs: Vec<f64>,
    /// Logarithms of the weights, and the weights.
    log_weights: Vec<f64>,
    weights: Vec<f64>,
}

/// `Σ w·(r^p − 1)`, or `Σ w·r^p·e^{−level}` if there is a level, and `Σ w·r^p·ln r` and `Σ w·r^p·ln²r`, scaled likewise.
#[derive(Clone, Copy, Debug)]
pub(in crate::contour) struct Sums {
    pub(in crate::contour) level: f64,
    pub(in crate::contour) change: f64,
    pub(in crate::contour) first: f64,
    pub(in crate::contour) second: f64,
}

/// The logarithm of a weight that is none.
const LOG_ZERO_WEIGHT: f64 = -1e4;

impl Axis {
    /// Adds nodes: `ln r` and the logarithm of the weight of each.
    pub(in crate::contour) fn extend(&mut self, nodes: impl Iterator<Item = (f64, f64)>, count: usize) {
        let size = (self.logs.len() + count).next_multiple_of(AXIS_LANES);
        for column in [&mut self.logs, &mut self.log_weights, &mut self.weights] {
            let missing = size - column.len();
            grow(column, missing);
        }
        for (log, log_weight) in nodes {
            self.logs.push(log);
            self.log_weights.push(log_weight);
        }
        let size = self.logs.len().next_multiple_of(AXIS_LANES);
        self.logs.resize(size, 0.0);
        self.log_weights.resize(size, LOG_ZERO_WEIGHT);
        let start = self.weights.len();
        self.weights.extend(self.log_weights[start..].iter().map(|&log| Split::new(log).exponential()));
    }

    /// Returns the sums for `r^power`, with the level at 0 where no term is larger than e.
    pub(in crate::contour) fn sums(&self, isa: Isa, power: f64) -> Sums {
        match isa.kind() {
            // SAFETY: only `isa.rs` can make an `Isa`, and only of a kind the CPU has reported.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { self.sums_avx512(power) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { self.sums_avx2(power) },
            _ => self.tilted(power),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
    fn sums_avx512(&self, power: f64) -> Sums {
        self.tilted(power)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sums_avx2(&self, power: f64) -> Sums {
        self.tilted(power)
    }

    /// The one body.
    #[inline(always)]
    fn tilted(&self, power: f64) -> Sums {
        let (mut highest, mut largest) = ([f64::NEG_INFINITY; AXIS_LANES], [f64::NEG_INFINITY; AXIS_LANES]);
        for (log, log_weight) in self.logs.chunks_exact(AXIS_LANES).zip(self.log_weights.chunks_exact(AXIS_LANES)) {
            for i in 0..AXIS_LANES {
                let grown = power * log[i];
                let term = grown + log_weight[i];
                highest[i] = if term > highest[i] { term } else { highest[i] };
                largest[i] = if grown > largest[i] { grown } else { largest[i] };
            }
        }
        let most = |lanes: [f64; AXIS_LANES]| lanes.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let (highest, largest) = (most(highest), most(largest));
        let level = if highest < 1.0 && largest < MAX_TILT_EXPONENT { 0.0 } else { highest };
        let (mut change, mut first, mut second) = ([0.0; AXIS_LANES], [0.0; AXIS_LANES], [0.0; AXIS_LANES]);
        let columns = self.logs.chunks_exact(AXIS_LANES).zip(self.log_weights.chunks_exact(AXIS_LANES));
        for ((log, log_weight), weight) in columns.zip(self.weights.chunks_exact(AXIS_LANES)) {
            for i in 0..AXIS_LANES {
                let grown = power * log[i];
                let (added, tilted);
                if level == 0.0 {
                    added = weight[i] * (Split::new(grown).centered(grown) + grown);
                    tilted = weight[i] + added;
                } else {
                    tilted = Split::new(grown + log_weight[i] - level).exponential();
                    added = tilted;
                }
                change[i] += added;
                first[i] += tilted * log[i];
                second[i] += tilted * (log[i] * log[i]);
            }
        }
        let total = |lanes: [f64; AXIS_LANES]| lanes.into_iter().sum();
        Sums { level, change: total(change), first: total(first), second: total(second) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{exp, expm1};

    #[test]
    fn every_isa_gives_the_same_bits_and_these_are_the_sums() {
        for count in [1, 7, 8, 9, 60] {
            let mut axis = Axis::default();
            let nodes: Vec<(f64, f64)> = (0..count)
                .map(|k| (-0.3 + 0.07 * f64::from(k), -4.0 - 0.01 * f64::from((k - 20) * (k - 20))))
                .collect();
            axis.extend(nodes.iter().copied(), nodes.len());
            for power in [-3.0, -1e-6, 1e-9, 2.5, 40.0, 900.0] {
                let found = axis.tilted(power);
                for isa in Isa::available() {
                    let same = axis.sums(isa, power);
                    assert_eq!(found.change.to_bits(), same.change.to_bits());
                    assert_eq!(found.first.to_bits(), same.first.to_bits());
                    assert_eq!(found.second.to_bits(), same.second.to_bits());
                }
                let term = |&(log, weight): &(f64, f64)| exp(power * log + weight - found.level);
                let change = |&(log, weight): &(f64, f64)| {
                    if found.level == 0.0 { exp(weight) * expm1(power * log) } else { term(&(log, weight)) }
                };
                for (expected, power_of_log, found) in [
                    (&change as &dyn Fn(&(f64, f64)) -> f64, 0, found.change),
                    (&|n| term(n) * n.0, 1, found.first),
                    (&|n| term(n) * n.0 * n.0, 2, found.second),
                ] {
                    let sum: f64 = nodes.iter().map(expected).sum();
                    // Terms come from differences with their weights.
                    let size: f64 = nodes.iter().map(|n| (term(n) + exp(n.1)) * n.0.abs().powi(power_of_log)).sum();
                    // Exponents of some hundred, each within a few units; 60 terms.
                    assert!((found - sum).abs() <= 1e-12 * size, "{count} {power}: {found} {sum}");
                }
            }
        }
    }
}
