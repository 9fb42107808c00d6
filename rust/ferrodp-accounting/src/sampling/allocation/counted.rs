//! Lower bounds for records in `k` of `T` steps: by a count that everybody can make of what was released.
//!
//! # The count
//! For `k > 1` the likelihood ratio of a round is a mean of products, and has no law of a sum. Its logarithm is nearly
//! `Σ ln(1 + λ·r_t)`, up to a constant, for a good `λ` near `k/(T − k)`. So let `V = Σ v(r_t)`, with `v(r)` the multiple of a spacing
//! `h` nearest to `ln(1 + λ·r)`, and infinite for the largest `r`. With `f_P` and `f_Q` the laws of `v(r)` under the two laws of a
//! step, `V` has the laws
//!
//! ```text
//! with the record: f_P^{*k} * f_Q^{*(T−k)},   without it: f_Q^{*T},
//! ```
//!
//! whichever steps were selected, as sums do not depend on their order: so this is the law of `V` for the mixture over all
//! selections as well. `V` is a function of what was released, so for every set `S` of values, with `M` the laws of the release,
//!
//! ```text
//! δ(ε) ≥ P[V ∈ S] − e^ε·Q[V ∈ S];   with the laws exchanged in the other direction.
//! ```
//!
//! This holds for every `λ`, `h` and `S`, however these were found: all that has to be right are masses. Rounds add to the same
//! count: `R` of them have `kR` and `(T − k)R` steps. Where a step only dominates a pair of laws, what is proven of the pair
//! holds for the step, as each step can be mapped to the pair by itself (Blackwell, "Equivalent comparisons of
//! experiments", 1953; Dong, Roth, Su, "Gaussian differential privacy", JRSS-B 2022, Theorem 2).
//!
//! # Numerics
//! Both laws are tilted by `e^{θu}` on node `u`, scaled to mass about 1, and convolved in one transform each way, as in `pld::compose`,
//! where the terms of the error are explained. With `ỹ` the tilted masses of the window, circular, and `y` what is computed,
//! `‖y − ỹ‖ ≤ η`. For `S` = all nodes from `v` on, and `θ ≥ 0`, by Cauchy and Schwarz
//!
//! ```text
//! Σ_{u ∈ S} e^{−θu}·y_u  is within  η·(Σ_{u ∈ S} e^{−2θu})^{1/2} + w·e^{−θv}  of the mass of S,
//! ```
//!
//! `w` a Chernoff bound on the tilted mass that lies outside of the window. For `S` = all nodes up to `v`, `θ ≤ 0`.

use num_complex::Complex64;

use crate::functions::{UNIT, exp, expm1, ln, ln_1p, sqrt};
use crate::memory::{filled, gathered, push};
use crate::pld::compose::fft::{Fft, conjugate};
use crate::pld::pair::LossPair;
use crate::types::{Direction, Question};

/// Values of `λ` that are tried, in units of `k/(T − k)`.
const LAMBDA_FACTORS: [f64; 5] = [0.3, 0.55, 1.0, 1.8, 3.2];
/// Cells of the sketch, by which the window and the tilt are chosen.
const SKETCH_CELLS: usize = 600;
/// Mass outside of the window that is aimed at, in units of the tilted law; and how much finer than the spread of a step a
/// spacing is.
const OUTSIDE_MASS: f64 = 1e-10;
const NODES_PER_SPREAD: f64 = 8.0;
const LOG2_NODES: (u32, u32) = (9, 17);
/// Losses beyond count as infinite: so large that `Q`-masses there are hardly normal numbers.
const MAX_LOSS: f64 = 400.0;

/// Steps of one kind or the other, over all rounds.
#[derive(Clone, Copy, Debug)]
struct Counts {
    selected: f64,
    rest: f64,
}

/// Returns a lower bound on what is asked of `rounds` rounds in which a record is in `selected` of `steps` steps.
///
/// `pair` has the record in P, and is dominated by a step. Without `selected < steps`, or rounds, the bound is 0.
#[must_use]
pub fn lower(
    pair: &dyn LossPair,
    (steps, selected, rounds): (u64, u64, u64),
    direction: Direction,
    question: Question,
) -> f64 {
    if selected == 0 || selected >= steps || rounds == 0 {
        return 0.0;
    }
    let counts = Counts { selected: selected as f64 * rounds as f64, rest: (steps - selected) as f64 * rounds as f64 };
    if counts.selected + counts.rest > 1e9 {
        return 0.0;
    }
    let count = |factor: f64, coarser: u32| {
        let sketch = Sketch::new(pair, counts, factor);
        sketch.plan(direction, question).map_or(0.0, |plan| plan.coarser(coarser).bound(pair, direction, question))
    };
    let mut best = (0.0, LAMBDA_FACTORS[2]);
    for factor in LAMBDA_FACTORS {
        let found = count(factor, 3);
        if found > best.0 {
            best = (found, factor);
        }
    }
    best.0.max(count(best.1, 0))
}

/// Returns a number of 24 digits near this one, whose multiples by nodes are exact.
fn short(x: f64) -> f64 {
    f64::from(x as f32)
}

/// The value of a loss, before it is rounded.
fn value(loss: f64, lambda: f64) -> f64 {
    if loss > 600.0 { loss + ln(lambda) } else { ln_1p(lambda * exp(loss)) }
}

/// Values of a step with their masses, roughly.
struct Sketch {
    counts: Counts,
    lambda: f64,
    /// Value, mass under P and under Q.
    atoms: Vec<(f64, f64, f64)>,
}

/// ln of the moment generating function of a count, its mean and its variance, tilted.
#[derive(Clone, Copy, Debug)]
struct Cumulants {
    log: f64,
    mean: f64,
    variance: f64,
}

impl Sketch {
    fn new(pair: &dyn LossPair, counts: Counts, factor: f64) -> Self {
        let lambda = factor * counts.selected / counts.rest;
        let low = pair.range_under_q(1e-30).0.max(-MAX_LOSS);
        let high = pair.range(1e-40).1.min(MAX_LOSS).max(low + 1e-9);
        let width = (high - low) / SKETCH_CELLS as f64;
        let cell = |i: usize| {
            let ends = (low + width * (i as f64 - 0.5), low + width * (i as f64 + 0.5));
            let mass = pair.mass(ends.0, ends.1);
            let loss = if mass.p > 0.0 && mass.q > 0.0 { ln(mass.p / mass.q) } else { 0.5 * (ends.0 + ends.1) };
            (value(loss, lambda), mass.p, mass.q)
        };
        let mut atoms: Vec<_> = gathered((0..=SKETCH_CELLS).map(cell).filter(|atom| atom.1 > 0.0 || atom.2 > 0.0));
        let hidden = pair.negative_infinite();
        if hidden > 0.0 {
            push(&mut atoms, (0.0, 0.0, hidden));
        }
        Self { counts, lambda, atoms }
    }

    /// Returns those of the count, with the record or without it.
    fn cumulants(&self, theta: f64, with_record: bool) -> Cumulants {
        let highest = self.atoms.iter().fold(f64::NEG_INFINITY, |most, atom| most.max(theta * atom.0));
        let (mut p, mut q) = ([0.0; 3], [0.0; 3]);
        for &(value, mass_p, mass_q) in &self.atoms {
            let weight = exp(theta * value - highest);
            for (sums, mass) in [(&mut p, mass_p), (&mut q, mass_q)] {
                sums[0] += mass * weight;
                sums[1] += mass * weight * value;
                sums[2] += mass * weight * value * value;
            }
        }
        let of = |sums: [f64; 3]| {
            let mean = sums[1] / sums[0];
            [ln(sums[0]) + highest, mean, (sums[2] / sums[0] - mean * mean).max(0.0)]
        };
        let (p, q) = (if with_record { of(p) } else { of(q) }, of(q));
        let [log, mean, variance] = [0, 1, 2].map(|i| self.counts.selected * p[i] + self.counts.rest * q[i]);
        Cumulants { log, mean, variance }
    }

    /// Returns a tilt that moves the count to where the question is decided, a window for it, and how fine a grid should be.
    fn plan(&self, direction: Direction, question: Question) -> Option<Plan> {
        let sign = if direction == Direction::Remove { 1.0 } else { -1.0 };
        let with_record = [direction == Direction::Remove, direction == Direction::Add];
        let is_far = |tilt: f64| {
            let theta = sign * tilt;
            let first = self.cumulants(theta, with_record[0]);
            match question {
                Question::Epsilon { delta } => first.log - theta * first.mean <= ln(delta),
                Question::Delta { epsilon } => first.log - self.cumulants(theta, with_record[1]).log >= epsilon,
            }
        };
        let (mut low, mut high) = (1e-6, 1e7);
        for _ in 0..40 {
            let middle = sqrt(low * high);
            if is_far(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        let theta = sign * low;
        let [first, second] = with_record.map(|with| self.cumulants(theta, with));
        // Where all values are one, any spread serves.
        let least = 1e-12 * first.mean * first.mean;
        let spread = first.variance.min(second.variance).max(least);
        let deviation = sqrt(first.variance.max(second.variance).max(least));
        if !(spread > 0.0 && deviation < f64::INFINITY) {
            return None;
        }
        let (mut ends, mut tilts) = ([f64::INFINITY, f64::NEG_INFINITY], [[0.0; 2]; 2]);
        for (which, tilted) in [first, second].into_iter().enumerate() {
            for (end, side) in [-1.0, 1.0].into_iter().enumerate() {
                let mut nearest = f64::INFINITY;
                for j in -4..6 {
                    let s = libm::exp2(f64::from(j)) / deviation;
                    let more = self.cumulants(theta + side * s, with_record[which]).log - tilted.log;
                    let reach = (more - ln(OUTSIDE_MASS)) / s;
                    if reach < nearest {
                        (nearest, tilts[end][which]) = (reach, s);
                    }
                }
                let at = side * nearest;
                ends[end] = if end == 0 { ends[end].min(at) } else { ends[end].max(at) };
            }
        }
        let width = ends[1] - ends[0];
        if !(width > 0.0 && width < f64::INFINITY) {
            return None;
        }
        let step = sqrt(spread / (self.counts.selected + self.counts.rest)) / NODES_PER_SPREAD;
        let exponent = (libm::log2(width / step).ceil().max(0.0) as u32).clamp(LOG2_NODES.0, LOG2_NODES.1);
        Some(Plan { counts: self.counts, lambda: self.lambda, theta, mean: first.mean, ends, tilts, exponent })
    }
}

/// How a count is made, and where it is looked at. Nothing in here has to be right.
#[derive(Clone, Debug)]
struct Plan {
    counts: Counts,
    lambda: f64,
    theta: f64,
    mean: f64,
    ends: [f64; 2],
    /// Additional tilts of the Chernoff bounds below and above, for the first and the second law.
    tilts: [[f64; 2]; 2],
    exponent: u32,
}

/// Masses of the nodes of one step, tilted and scaled, and what is beyond them.
struct Tilted {
    masses: Vec<f64>,
    /// ln of what they were divided by, exactly.
    log_scale: f64,
    sum: f64,
    beyond: f64,
}

/// A count's law, tilted: masses of the window's nodes are `y·e^{log_scale − θ·node}`.
struct Law {
    log_scale: f64,
    log_scale_error: f64,
    /// Bound on the tilted mass outside of the window.
    outside: f64,
    /// Bounds on the mass of an infinite count.
    infinite: (f64, f64),
}

impl Plan {
    fn coarser(mut self, by: u32) -> Self {
        self.exponent = self.exponent.saturating_sub(by).max(LOG2_NODES.0);
        self
    }

    /// Returns a lower bound.
    fn bound(&self, pair: &dyn LossPair, direction: Direction, question: Question) -> f64 {
        let fft = Fft::new(self.exponent);
        let size = fft.size();
        let h = (self.ends[1] - self.ends[0]) / (0.97 * size as f64 - 8.0);
        let theta = short(self.theta * h);
        let [p, q] = self.steps(pair, h, theta, size);
        let mass_error = pair.relative_error();
        if !(mass_error < 1e-6 && p.sum > 0.0 && q.sum > 0.0) {
            return 0.0;
        }
        let (y, noise) = self.convolved(&fft, &p, &q);
        let with_record = [direction == Direction::Remove, direction == Direction::Add];
        // Rounding to nodes moves all steps of a lattice alike: the window follows.
        let mean_of =
            |step: &Tilted| step.masses.iter().enumerate().map(|(i, mass)| i as f64 * mass).sum::<f64>() / step.sum;
        let of_first = if with_record[0] { mean_of(&p) } else { mean_of(&q) };
        let at = libm::round(self.counts.selected * of_first + self.counts.rest * mean_of(&q));
        let first = at as i64 - ((self.mean - self.ends[0]) / h + 0.015 * size as f64 + 4.0) as i64;
        let laws = [0, 1].map(|which| {
            let selected = if with_record[which] { &p } else { &q };
            self.law([selected, &q], mass_error, (first, size), h, which)
        });
        let factor = laws.each_ref().map(|law| exp(law.log_scale - theta * at));
        // Relative errors: of the factor, of e^{−θu}, of sums of so many; of masses in the power of steps.
        let steps = self.counts.selected + self.counts.rest;
        let reach = (theta * at).abs() + 1000.0 + laws.iter().map(|law| law.log_scale.abs()).fold(0.0, f64::max);
        let per_step = mass_error + 64.0 * UNIT + 4.0 * UNIT * theta.abs() * size as f64;
        let error = 1.01 * (steps * per_step + laws[0].log_scale_error.max(laws[1].log_scale_error))
            + (8.0 * reach + 4.0 * size as f64) * UNIT;
        if error.is_nan() || error >= 0.1 {
            return 0.0;
        }
        let certified = |lower: f64, upper: f64| match question {
            Question::Delta { epsilon } => lower * (1.0 - 8.0 * UNIT) - exp(epsilon) * upper * (1.0 + 16.0 * UNIT),
            Question::Epsilon { delta } if lower * (1.0 - 4.0 * UNIT) > delta => {
                let ratio = (lower * (1.0 - 4.0 * UNIT) - delta) / (upper * (1.0 + 4.0 * UNIT));
                if ratio < f64::INFINITY { ln(ratio) - 16.0 * UNIT * (1.0 + ln(ratio).abs()) } else { ratio }
            }
            Question::Epsilon { .. } => 0.0,
        };
        // S is at first the infinite count alone, or nothing.
        let infinite = if direction == Direction::Remove { [laws[0].infinite.0, laws[1].infinite.1] } else { [0.0; 2] };
        let mut best = certified(infinite[0], infinite[1]).max(0.0);
        let (mut sums, mut squares) = ([0.0; 2], 0.0_f64);
        for i in 0..size as i64 {
            let node = if direction == Direction::Remove { first + size as i64 - 1 - i } else { first + i };
            let exponent = -theta * (node as f64 - at);
            if exponent > 600.0 {
                break;
            }
            let (weight, masses) = (exp(exponent), y[node.rem_euclid(size as i64) as usize]);
            let masses = if with_record[0] { [masses.re, masses.im] } else { [masses.im, masses.re] };
            sums[0] += masses[0].max(0.0) * weight;
            sums[1] += masses[1].max(0.0) * weight;
            squares += weight * weight;
            let noise = 1.001 * noise * sqrt(squares);
            // mutant: masses-of-a-count
            let lower = factor[0] * (1.0 - error) * (sums[0] - noise - laws[0].outside * weight);
            let upper = factor[1] * (1.0 + error) * (sums[1] + noise + laws[1].outside * weight);
            // mutant: infinite-counts
            best = best.max(certified(lower.max(0.0) + infinite[0], upper + infinite[1]));
        }
        best
    }

    /// Returns the laws of one step with the record and without it.
    fn steps(&self, pair: &dyn LossPair, h: f64, theta: f64, size: usize) -> [Tilted; 2] {
        let (lowest, highest) = (pair.range_under_q(1e-40).0, pair.range(1e-40).1.min(MAX_LOSS));
        // Nodes are counted from here: what is lower is put on it, even losses of −∞ where 0 is too far away.
        let bottom = libm::floor(value(lowest, self.lambda).max(0.0) / h);
        let base = if pair.negative_infinite() > 0.0 && bottom < 0.5 * size as f64 { 0.0 } else { bottom };
        let count = (((value(highest, self.lambda) / h).ceil() - base).max(0.0) as usize).saturating_add(1).min(size);
        let mut masses = [filled(0.0, count), filled(0.0, count)];
        let mut from = f64::NEG_INFINITY;
        let [under_p, under_q] = &mut masses;
        for (i, (p, q)) in under_p.iter_mut().zip(under_q).enumerate() {
            let to = ln(expm1((base + i as f64 + 0.5) * h) / self.lambda).min(MAX_LOSS);
            if to > from {
                let mass = pair.mass(from, to);
                (*p, *q) = (mass.p, mass.q);
                from = to;
            }
        }
        masses[1][0] += pair.negative_infinite();
        let beyond = pair.mass(from, f64::INFINITY);
        // Masses that are no normal numbers may be lost.
        let lost = if pair.support().1 > from { f64::MIN_POSITIVE } else { 0.0 };
        let beyond = [beyond.p + pair.infinite(), beyond.q + lost];
        let [p, q] = masses;
        [(p, beyond[0]), (q, beyond[1])].map(|(mut masses, beyond)| {
            let highest = if theta > 0.0 { theta * count as f64 } else { 0.0 };
            let sum: f64 = masses.iter().enumerate().map(|(i, mass)| mass * exp(theta * i as f64 - highest)).sum();
            let log_scale = if sum > 0.0 { ln(sum) + highest } else { 0.0 };
            masses.iter_mut().enumerate().for_each(|(i, mass)| *mass *= exp(theta * i as f64 - log_scale));
            let sum = masses.iter().sum();
            Tilted { masses, log_scale, sum, beyond }
        })
    }

    /// Returns the tilted laws of the count, with the record and without it, as real and imaginary parts of the nodes modulo the
    /// number of points; and a bound on the norm of the errors of either.
    fn convolved(&self, fft: &Fft, p: &Tilted, q: &Tilted) -> (Vec<Complex64>, f64) {
        let (size, Counts { selected, rest }) = (fft.size(), self.counts);
        let mut x = filled(Complex64::default(), size);
        for (x, (&p, &q)) in x.iter_mut().zip(p.masses.iter().zip(&q.masses)) {
            *x = Complex64::new(p, q);
        }
        let norm = |x: &[Complex64]| sqrt(x.iter().map(Complex64::norm_sqr).sum::<f64>()) * (1.0 + 1e-9);
        let root = sqrt(size as f64);
        let per_transform = fft.relative_error() + 8.0 * UNIT;
        let off = per_transform * root * norm(&x);
        fft.forward(&mut x);
        let mut spectrum = filled(Complex64::default(), size);
        for (j, out) in spectrum.iter_mut().enumerate() {
            let (here, there) = (x[j], x[conjugate(j)].conj());
            let (of_p, of_q) = ((here + there) * 0.5, (here - there) * Complex64::new(0.0, -0.5));
            let common = power(of_q, rest);
            let [with, without] = [of_p, of_q].map(|each| power(each, selected) * common);
            *out = with + without * Complex64::i();
        }
        let total = selected + rest;
        let largest = (p.sum.max(1.0) * (1.0 + 1e-12), q.sum.max(1.0) * (1.0 + 1e-12));
        // |F| ≤ sum + off; products of so many.
        let growth = exp(total * (ln(largest.0.max(largest.1)) + off) + 1e-9);
        let powers = expm1(8.0 * UNIT * total);
        let whole = norm(&spectrum);
        // Of both laws together.
        let noise = (2.0 * growth * total * off + (powers + per_transform) * 4.0 * whole) / root;
        fft.inverse(&mut spectrum);
        let scale = 1.0 / size as f64;
        spectrum.iter_mut().for_each(|y| *y *= scale);
        (spectrum, noise)
    }

    /// Returns what belongs to one of the laws beside the masses of its nodes; of its steps the first are `selected`.
    fn law(&self, of: [&Tilted; 2], mass_error: f64, (first, size): (i64, usize), h: f64, which: usize) -> Law {
        let times = [self.counts.selected, self.counts.rest];
        let parts = [0, 1].map(|i| times[i] * of[i].log_scale);
        let mut outside = 0.0;
        for (end, side) in [-1.0, 1.0].into_iter().enumerate() {
            let s = short(self.tilts[end][which] * h);
            let at = if end == 0 { first } else { first + size as i64 } as f64;
            let mut log = -side * s * at;
            for i in [0, 1] {
                let sum: f64 =
                    of[i].masses.iter().enumerate().map(|(node, mass)| mass * exp(side * s * node as f64)).sum();
                log += times[i] * (ln(sum) + (of[i].masses.len() as f64 + 64.0) * UNIT);
            }
            // mutant: outside-the-window-of-a-count
            outside += exp(log + 1e-9 + 16.0 * UNIT * (s * at).abs());
        }
        let infinite = [1.0 - mass_error, 1.0 + mass_error].map(|off| {
            let none: f64 = [0, 1].iter().map(|&i| times[i] * ln_1p(-(of[i].beyond * off).min(1.0 - UNIT))).sum();
            -expm1(none)
        });
        Law {
            log_scale: parts[0] + parts[1],
            log_scale_error: 8.0 * UNIT * (parts[0].abs() + parts[1].abs()),
            outside: outside.min(1e300),
            infinite: (infinite[0] * (1.0 - 1e-9), infinite[1] * (1.0 + 1e-9)),
        }
    }
}

fn power(base: Complex64, exponent: f64) -> Complex64 {
    let (mut rest, mut square, mut product) = (exponent as u64, base, Complex64::new(1.0, 0.0));
    while rest > 0 {
        if rest & 1 == 1 {
            product *= square;
        }
        square *= square;
        rest >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pairs::{FiniteLosses, Gaussian, Laplace};

    /// Answers of two values with ratios `e^±a`, and everything shown with probability `d`: by all numbers of each.
    fn exact(a: f64, (steps, selected): (i32, i32), epsilon: f64, direction: Direction) -> f64 {
        let likely = 1.0 / (1.0 + exp(-a));
        let choose = |n: i32, k: i32| (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product::<f64>();
        let mut total = 0.0;
        for high in 0..=steps {
            let without = choose(steps, high) * likely.powi(steps - high) * (1.0 - likely).powi(high);
            // So many of the selected are high, each of the ratio e^a.
            let ratio: f64 = (0..=selected.min(high))
                .filter(|of| selected - of <= steps - high)
                .map(|of| {
                    let ways = choose(high, of) * choose(steps - high, selected - of) / choose(steps, selected);
                    ways * exp(a * f64::from(2 * of - selected))
                })
                .sum();
            let gain = if direction == Direction::Remove { ratio - exp(epsilon) } else { 1.0 - exp(epsilon) * ratio };
            total += without * gain.max(0.0);
        }
        total
    }

    #[test]
    fn of_two_answers_the_count_has_all_there_is() {
        // How many were high is all that matters, and the count says that.
        for (a, steps, selected) in [(0.75, 12, 3), (0.2, 9, 2), (2.0, 20, 7), (1.0, 300, 4)] {
            for direction in [Direction::Remove, Direction::Add] {
                for epsilon in [0.0, 0.1, 0.4] {
                    let truth = exact(a, (steps, selected), epsilon, direction);
                    let pair = FiniteLosses::epsilon_delta(a, 0.0);
                    let sizes = (steps as u64, selected as u64, 1);
                    let found = lower(&pair, sizes, direction, Question::Delta { epsilon });

                    assert!(found <= truth * (1.0 + 1e-9), "{a} {steps} {direction:?} {epsilon}: {found} {truth}");
                    assert!(found >= truth * (1.0 - 1e-4), "{a} {steps} {direction:?} {epsilon}: {found} {truth}");
                }
            }
        }
    }

    #[test]
    fn any_window_is_safe() {
        // Windows that are too small: masses come around, and large steps are infinite. The bound is a lower one all the same.
        let mut nearest = 0.0_f64;
        for (a, steps, selected) in [(0.75, 12, 3), (6.0, 300, 2), (3.0, 40, 4), (0.3, 100, 5)] {
            let counts = Counts { selected: f64::from(selected), rest: f64::from(steps - selected) };
            let pair = FiniteLosses::epsilon_delta(a, 0.0);
            for direction in [Direction::Remove, Direction::Add] {
                for (epsilon, part) in
                    [0.05, 0.3, 1.0].into_iter().flat_map(|e| [0.1, 0.3, 0.6, 1.0].map(|part| (e, part)))
                {
                    let truth = exact(a, (steps, selected), epsilon, direction);
                    let question = Question::Delta { epsilon };
                    let plan = Sketch::new(&pair, counts, 1.0).plan(direction, question).expect("values differ");
                    for side in [0, 1] {
                        let mut plan = plan.clone();
                        plan.ends[side] = plan.mean + (plan.ends[side] - plan.mean) * part;
                        let found = plan.bound(&pair, direction, question);
                        nearest = nearest.max(found / truth);
                        assert!(found <= truth * (1.0 + 1e-9), "{a} {direction:?} {epsilon} {part}: {found} {truth}");
                    }
                }
            }
        }
        assert!(nearest > 0.999);
    }

    #[test]
    fn questions_are_inverses() {
        let pairs: [&dyn LossPair; 3] =
            [&Gaussian::new(1.0), &Laplace::new(0.7), &FiniteLosses::epsilon_delta(1.0, 1e-7)];
        for pair in pairs {
            for direction in [Direction::Remove, Direction::Add] {
                for delta in [1e-2, 1e-6, 1e-12] {
                    let epsilon = lower(pair, (50, 3, 1), direction, Question::Epsilon { delta });
                    if epsilon > 0.0 {
                        let back = lower(pair, (50, 3, 1), direction, Question::Delta { epsilon: 0.99 * epsilon });
                        assert!(
                            epsilon == f64::INFINITY || back >= delta * 0.95,
                            "{direction:?} {delta} {epsilon} {back}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_shown_outright_counts() {
        // Each selected step shows the record with probability d, and nothing else differs.
        let shown = 1e-3;
        let pair = FiniteLosses::epsilon_delta(0.0, shown);
        let truth = 1.0 - (1.0_f64 - shown).powi(5);
        let found = lower(&pair, (40, 5, 1), Direction::Remove, Question::Delta { epsilon: 3.0 });
        assert!(found <= truth && found >= truth * (1.0 - 1e-6), "{found} {truth}");

        // In the other direction nothing of it is seen beyond e^ε times as much.
        let added = lower(&pair, (40, 5, 1), Direction::Add, Question::Delta { epsilon: 3.0 });
        assert!(added <= shown.powi(5), "{added}");
    }

    #[test]
    fn nothing_is_claimed_where_nothing_is_sampled() {
        let pair = Gaussian::new(1.0);
        for sizes in [(5, 0, 1), (5, 5, 1), (5, 2, 0), (1 << 40, 2, 1)] {
            assert!(lower(&pair, sizes, Direction::Remove, Question::Delta { epsilon: 0.5 }) == 0.0);
        }
    }
}
