//! Which nodes matter: stretches whose bound is below the target are skipped, and their bounds summed up.

use super::path::{Path, Shape};
use super::ratio::Sampled;
use crate::functions::{exp, ln, ln_1p, sqrt};
use crate::memory::push;
use core::f64::consts::LN_2;
use core::ops::Range;

/// Ranges of node numbers, and what the others can add.
#[derive(Clone, Debug)]
pub(in crate::contour) struct Support {
    pub(in crate::contour) ranges: Vec<Range<i64>>,
    /// An estimate of `ln max φ·r^p` that weights are scaled by; 0 where `M(p)` is of the order of 1.
    pub(in crate::contour) level: f64,
    /// Bound on the sum of moduli of the weights left out, relative to `e^level`; where `level` is 0, with and without `r^p`.
    pub(in crate::contour) omitted: f64,
}

/// Nodes that are not worth asking about one by one.
const LEAF_NODES: i64 = 12;

impl Support {
    /// Returns the nodes of `path` that can matter at `e^{−digits}`.
    pub(in crate::contour) fn find(sampled: &Sampled, power: f64, path: &Path, digits: f64) -> Self {
        let real = sampled.height(0.0);
        let variance = sampled.variance;
        let reach = sqrt(2.0 * (digits + 6.0)) * sampled.sigma;
        let rest = -ln_1p(-sampled.q);
        let height = |x: f64| power * sampled.log_modulus(x, &real) - 0.5 * x * x / variance;
        let left = if power > 0.0 { reach } else { sqrt(reach * reach + 2.0 * power.abs() * rest * variance) };
        let peak = if power > 0.0 { power.min(sampled.end.unwrap_or(power)) } else { -left };
        let level = (0..=32).map(|probe| height(f64::from(probe) / 32.0 * peak)).fold(0.0, f64::max);
        let level = if level < 1.0 { 0.0 } else { level };

        let mut support = Self { ranges: Vec::new(), level, omitted: 0.0 };
        // Left of all nodes |r|^p ≤ 1 for p > 0, and ≤ (1 − q)^p else.
        let left_power = if power > 0.0 { 0.0 } else { power.abs() * rest * (1.0 + 1e-12) };
        let gaussian = |x: f64| -0.5 * x * x / variance;
        let (first, last);
        match &path.shape {
            Shape::Straight(_) => {
                let right = if power > 0.0 { power + reach } else { reach };
                (first, last) = (-((left / path.step) as i64) - 1, (right / path.step) as i64 + 1);
                let (a, b) = (first as f64 * path.step, last as f64 * path.step);
                let measure = path.extent(sampled, 0, 0).log_measure;
                // Beyond the ends weights fall faster than geometric series: by e^{−(x − p)w/σ²} to the right for p > 0, where ln r has slope
                // ≤ 1/σ² and r ≥ 1, and by e^{−|x|w/σ²} elsewhere.
                let series = |slope: f64| 1.0 / (1.0 - exp(-slope * path.step / variance));
                support.omitted += 2.0 * exp(measure + gaussian(a) + left_power - level) * series(-a);
                support.omitted += 2.0
                    * if power > 0.0 {
                        exp(measure + height(b) - level) * series(b - power)
                    } else {
                        exp(measure + gaussian(b) - level) * series(b)
                    };
            }
            Shape::Bent { end, scale, .. } => {
                // Toward the end the measure falls like e^t, and r ≤ r(B).
                let at_end = power * sampled.log_modulus(*end, &real);
                let worst = at_end.max(0.0) + gaussian((*end).min(0.0)) - level;
                first = -(((digits + 8.0 + worst.max(0.0)) / path.step) as i64) - 1;
                last = ((end + left) / (scale * path.step)).max(1.0) as i64 + 1;
                let measure = path.extent(sampled, first, first).log_measure;
                support.omitted += 2.0 * exp(measure + worst) / (1.0 - exp(-path.step));
                // On the left Re x ≤ B − at, and falls by at least half of a·step from node to node, as t > 0.
                let x = (end - scale * last as f64 * path.step).min(-1e-300);
                let measure = path.extent(sampled, last, last).log_measure;
                let ratio = exp(0.5 * x * scale * path.step / variance);
                support.omitted += 2.0 * exp(measure + gaussian(x) - level) / (1.0 - ratio);
            }
        }
        let threshold = -digits - 4.0;
        let mut pending = vec![(first, last + 1)];
        while let Some((first, end)) = pending.pop() {
            let length = end - first;
            if length <= LEAF_NODES {
                support.push(first..end);
                continue;
            }
            let extent = path.extent(sampled, first, end - 1);
            let nearest = if extent.left > 0.0 { extent.left } else { extent.right.min(0.0) };
            // |r|^p is largest at the right end for p > 0, where |r| ≤ r(x), and at the left end for p < 0.
            let log_power = if power > 0.0 {
                power * sampled.log_modulus(extent.right, &real)
            } else {
                let Shape::Straight(line) = &path.shape else { unreachable!("removals only are cut") };
                power * sampled.log_modulus(extent.left, line)
            };
            // Where level is 0 the weights without r^p are in the sum too.
            let log_power = if level == 0.0 { log_power.max(0.0) + LN_2 } else { log_power };
            let bound = extent.log_measure + ln(length as f64) + gaussian(nearest) + log_power - level
                + 1e-12 * log_power.abs();
            if bound < threshold {
                support.omitted += exp(bound);
            } else {
                let middle = first + length / 2;
                pending.push((middle, end));
                pending.push((first, middle));
            }
        }
        support
    }

    fn push(&mut self, range: Range<i64>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => push(&mut self.ranges, range),
        }
    }
}
