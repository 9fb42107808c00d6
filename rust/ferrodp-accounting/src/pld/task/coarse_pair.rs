//! A pair in some hundred atoms, to plan with: where to tilt, which window to keep, how fine the grid has to be.
//!
//! Nothing here is a bound, and no bound relies on it: a poor plan costs width, never truth.

use crate::functions::{exp, expm1, ln, ln_1p, sqrt};
use crate::memory::{extend, gathered, room};
use crate::pld::grid::center;
use crate::pld::pair::LossPair;

/// Cells of a sketch per factor 2 of the distance from the center, how many factors of 2, and how many more of equal width
/// over the whole range: so many that an exponent changes by less than one in each.
const CELLS_PER_OCTAVE: i32 = 4;
const CELL_OCTAVES: i32 = 30;
const EQUAL_CELLS: u32 = 600;
/// The same where there are many steps.
const PER_OCTAVE_OF_MANY: i32 = 2;
const EQUAL_OF_MANY: u32 = 100;
const MAX_SKETCHED_STEPS: usize = 32;
/// Lattices with no more atoms than this are taken atom by atom.
const MAX_SEPARATE_ATOMS: f64 = 256.0;

/// The largest exponent t·ℓ that a plan may ask for.
const MAX_TILTED_NATS: f64 = 300.0;

/// Losses, from the center, and their P-masses.
pub(in crate::pld) struct Sketch {
    atoms: Vec<(f64, f64)>,
    infinity: f64,
    center: f64,
    reach: f64,
    width: f64,
    support: (f64, f64),
    times: f64,
    effort: f64,
}

/// Log-MGF of a composition, and its first two derivatives.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pld) struct Cumulants {
    pub(in crate::pld) value: f64,
    pub(in crate::pld) slope: f64,
    pub(in crate::pld) curvature: f64,
}

impl Sketch {
    pub(in crate::pld) fn new(pair: &dyn LossPair, count: u64, (low, high): (f64, f64), is_one_of_many: bool) -> Self {
        let (bottom, top) = (pair.range(low).0, pair.range(high).1);
        let center = center(pair);
        let lattice = pair.lattice();
        let mut edges = vec![bottom];
        match lattice {
            Some((offset, spacing)) if (top - bottom) / spacing < MAX_SEPARATE_ATOMS => {
                let first = libm::floor((bottom - offset) / spacing) as i64;
                let last = libm::ceil((top - offset) / spacing) as i64;
                extend(&mut edges, (first..=last).map(|k| offset + (k as f64 + 0.5) * spacing));
            }
            _ => {
                let (per_octave, equal) =
                    if is_one_of_many { (PER_OCTAVE_OF_MANY, EQUAL_OF_MANY) } else { (CELLS_PER_OCTAVE, EQUAL_CELLS) };
                let largest = (center - bottom).max(top - center);
                for j in -CELL_OCTAVES * per_octave..=0 {
                    let distance = largest * libm::exp2(f64::from(j) / f64::from(per_octave));
                    edges.extend([center - distance, center + distance]);
                }
                edges.extend((1..equal).map(|i| bottom + (top - bottom) * (f64::from(i) / f64::from(equal))));
            }
        }
        edges.push(top);
        edges.retain(|&x| x >= bottom && x <= top);
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let mut atoms = room(edges.len() + 1);
        let below = pair.mass(f64::NEG_INFINITY, bottom).p;
        if below > 0.0 {
            atoms.push((bottom - center, below));
        }
        for ends in edges.windows(2) {
            let cell = pair.cell(ends[0], ends[1]);
            if cell.p > 0.0 {
                let rise = if cell.q > 0.0 { ln(cell.p / cell.q) } else { ends[1] - ends[0] };
                atoms.push((ends[0] + rise.clamp(0.0, ends[1] - ends[0]) - center, cell.p));
            }
        }
        let spacing = lattice.map_or(0.0, |(_, spacing)| spacing);
        Self {
            atoms,
            infinity: pair.infinite(),
            center,
            reach: (center - bottom).max(top - center) + spacing,
            width: top - bottom,
            support: pair.support(),
            times: count as f64,
            effort: pair.effort(),
        }
    }

    /// Returns the log-MGF of the composition of this step alone, the center of the losses taken off.
    fn cumulants(&self, t: f64) -> Cumulants {
        let (mut excess, mut total, mut first, mut second) = (-self.infinity, 0.0, 0.0, 0.0);
        for &(loss, p) in &self.atoms {
            let rise = expm1(t * loss);
            let weight = p * (1.0 + rise);
            excess += p * rise;
            total += weight;
            first += loss * weight;
            second += loss * loss * weight;
        }
        let mean = first / total;
        let moment = if excess > -0.5 { ln_1p(excess) } else { ln(total) };
        Cumulants {
            value: self.times * (moment + t * self.center),
            slope: self.times * (mean + self.center),
            curvature: self.times * (second / total - mean * mean).max(0.0),
        }
    }
}

/// The sketches of all steps.
pub(in crate::pld) struct Plan {
    sketches: Vec<Sketch>,
    largest_tilt: f64,
    lowest: f64,
    highest: f64,
}

impl Plan {
    /// Sketches all steps, each from the loss below which P has at most `tails.0` to that above which it has `tails.1`.
    pub(in crate::pld) fn new<'a>(
        steps: impl ExactSizeIterator<Item = (&'a dyn LossPair, u64)>,
        tails: (f64, f64),
    ) -> Self {
        let is_many = steps.len() > MAX_SKETCHED_STEPS;
        let sketches: Vec<Sketch> = gathered(steps.map(|(pair, count)| Sketch::new(pair, count, tails, is_many)));
        let reach = sketches.iter().map(|sketch| sketch.reach).fold(0.0, f64::max);
        let largest_tilt = MAX_TILTED_NATS / reach.max(1e-12);
        let lowest = sketches.iter().map(|sketch| sketch.times * sketch.support.0).sum();
        let highest = sketches.iter().map(|sketch| sketch.times * sketch.support.1).sum();
        Self { sketches, largest_tilt, lowest, highest }
    }

    pub(in crate::pld) fn cumulants(&self, t: f64) -> Cumulants {
        self.sketches.iter().map(|sketch| sketch.cumulants(t)).fold(Cumulants::default(), |a, b| Cumulants {
            value: a.value + b.value,
            slope: a.slope + b.slope,
            curvature: a.curvature + b.curvature,
        })
    }

    /// Returns ε and ln δ(ε) at the saddle point t, δ by the saddle-point approximation.
    fn at(&self, t: f64) -> (f64, f64) {
        let k = self.cumulants(t);
        let epsilon = k.slope - 1.0 / t - 1.0 / (1.0 + t);
        let curvature = k.curvature + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t));
        let log_delta = k.value - epsilon * t - ln(t) - ln_1p(t) - 0.5 * ln(core::f64::consts::TAU * curvature);
        (epsilon, log_delta)
    }

    /// Returns (tilt, ε) for the question which ε ≥ 0 belongs to δ.
    pub(in crate::pld) fn for_delta(&self, delta: f64) -> (f64, f64) {
        let log_delta = ln(delta);
        let t = self.solve(|t| {
            let (epsilon, at) = self.at(t);
            epsilon > 0.0 && at < log_delta
        });
        (t, self.at(t).0.max(0.0))
    }

    /// Returns (tilt, ln δ) for the question which δ belongs to ε.
    pub(in crate::pld) fn for_epsilon(&self, epsilon: f64) -> (f64, f64) {
        let t = self.solve(|t| self.at(t).0 > epsilon);
        (t, self.at(t).1.min(0.0))
    }

    /// Returns the smallest tilt where `holds` becomes true, or the largest that is allowed.
    fn solve(&self, holds: impl Fn(f64) -> bool) -> f64 {
        let (mut low, mut high) = (ln(1e-3_f64.min(0.5 * self.largest_tilt)), ln(self.largest_tilt));
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if holds(exp(middle)) { high = middle } else { low = middle }
        }
        exp(high)
    }

    /// Returns losses outside of which the composition tilted by t has a mass of about e^−`exponent` or none, each with the
    /// further tilt that shows it.
    pub(in crate::pld) fn window(&self, t: f64, exponent: f64) -> [(f64, f64); 2] {
        let center = self.cumulants(t);
        let scale = sqrt(2.0 * exponent / center.curvature.max(1e-300)).min(self.largest_tilt);
        let mut best = [(f64::INFINITY, scale), (f64::INFINITY, scale)];
        for j in -16..=8 {
            let s = scale * libm::exp2(0.5 * f64::from(j));
            for (side, sign) in [(0, -1.0), (1, 1.0)] {
                if (t + sign * s).abs() <= 2.2 * self.largest_tilt {
                    let distance = (self.cumulants(t + sign * s).value - center.value + exponent) / s;
                    if distance < best[side].0 && distance.is_finite() {
                        best[side] = (distance, s);
                    }
                }
            }
        }
        let [(low, below), (high, above)] = best;
        [((-low).max(self.lowest), below), (high.min(self.highest), above)]
    }

    /// Returns by how much ln δ is estimated to differ between the upper and the lower law on a grid of this step.
    pub(in crate::pld) fn width(&self, t: f64, step: f64) -> f64 {
        let sum: f64 = self
            .sketches
            .iter()
            .map(|sketch| {
                let (mut spread, mut total) = (0.0, 0.0);
                for &(from_center, p) in &sketch.atoms {
                    let weight = p * exp(t * from_center);
                    let near = (from_center + sketch.center).abs();
                    let each = if near < step { (1.6 * near * (step - near)).max(0.02 * step * near) } else { 0.0 };
                    spread += weight * each.max(if near < step { 0.0 } else { 0.27 * step * step });
                    total += weight;
                }
                sketch.times * spread / total
            })
            .sum();
        0.5 * t * (t + 1.0) * sum
    }

    /// Returns the largest distance between losses of one step that matter.
    pub(in crate::pld) fn widest(&self) -> f64 {
        self.sketches.iter().map(|sketch| sketch.width).fold(0.0, f64::max)
    }

    /// Returns the widths of the losses of all steps, each times the effort for a cell.
    pub(in crate::pld) fn effort(&self) -> f64 {
        self.sketches.iter().map(|sketch| sketch.width * sketch.effort).sum()
    }

    /// Returns the largest loss of a step that matters.
    pub(in crate::pld) fn reach(&self) -> f64 {
        self.sketches.iter().map(|sketch| sketch.reach).fold(0.0, f64::max)
    }
}
