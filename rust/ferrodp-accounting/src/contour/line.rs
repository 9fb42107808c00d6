//! The integrand on one vertical line, with a bound on the error of every value, and what follows for δ(ε).

mod envelope;
pub(super) mod many_epsilons;
pub(super) mod smoothing;

use super::complex::{Complex, ln_1p_complex, modulus};
use super::composition::{Composition, digits, rough_digits};
use super::moments::advance::{Sweep, exponential_error};
use super::moments::path::round_to_bits;
use super::moments::quadrature::{Tilted, tilted};
use crate::functions::{UNIT, atan2, exp, expm1, ln, ln_1p};
use crate::memory::{copied, filled, gathered, grow, room};
use crate::types::Direction;
use core::f64::consts::PI;
use envelope::envelope;
use ferrodp_core::Isa;
use many_epsilons::{Node, Rotated, Sum};
use smoothing::{Smoothing, Transform};

/// `K(c + iτⱼ)` at `τⱼ = jh`, for one direction, one `c` and one `h`.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Real part of the contour.
    pub(super) c: f64,
    /// Step in τ.
    pub(super) step: f64,
    /// K(c).
    pub(super) log_mgf: f64,
    /// Bound on the error of `log_mgf`.
    pub(super) log_mgf_error: f64,
    values: Vec<Value>,
    /// Bound on `ln |e^{K(c + iτ) − K(c)}|` for all τ from the first one left out.
    pub(super) log_envelope: f64,
    smoothed: Option<Smoothed>,
    /// Points `c' > c` with upper bounds on `K(c')`.
    rivals: Vec<(f64, f64)>,
}

/// The integrand times the transforms of a smoothing, and bounds on `ln` of their tails.
#[derive(Clone, Debug)]
struct Smoothed {
    smoothing: Smoothing,
    above: Vec<Value>,
    below: Vec<Value>,
    log_tails: (f64, f64),
}

/// `e^{K(z) − K(c)}/(z(z+1))` at one node.
#[derive(Clone, Copy, Debug)]
struct Value {
    amplitude: f64,
    phase: f64,
    /// Bound on the error of the exponent.
    error: f64,
    /// Bound on the modulus of the exact value.
    cap: f64,
}

/// Bounds on ln δ(ε).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogDelta {
    pub(super) lower: f64,
    pub(super) upper: f64,
    /// An estimate of ln δ.
    pub(super) middle: f64,
    /// An estimate of `d ln δ/dε`.
    pub(super) slope: f64,
    /// The three slack terms relative to δ, as logarithms: rounding and quadrature, truncation, aliasing.
    pub(super) slack: [f64; 3],
}

impl LogDelta {
    /// Whether the bounds are as good as it takes.
    pub(super) fn is_tight(&self) -> bool {
        self.upper - self.lower < 1e-6
    }
}

/// How far a line has to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) c: f64,
    pub(super) step: f64,
    /// `ln` of the truncation error that is wanted, relative to `e^{K(c) − εc}`.
    pub(super) log_tolerance: f64,
    pub(super) max_nodes: usize,
}

/// Returns `c` with 20 bits.
pub(super) fn rounded_contour(c: f64) -> f64 {
    round_to_bits(c, 20)
}

/// Nodes of all events at real part `c`, their common factor `K(c)` and its error.
struct Nodes {
    events: Vec<Tilted>,
    log_mgf: f64,
    error: f64,
}

fn nodes(composition: &Composition, direction: Direction, c: f64, digits: f64) -> Nodes {
    let plain = 0.5 * composition.gaussian * c * (1.0 + c);
    let (mut log_mgf, mut error) = (plain, plain * (composition.gaussian_error + 5.0 * UNIT));
    let mut events = room(composition.sampled.len());
    for (event, count) in &composition.sampled {
        let nodes = tilted(event, direction.power(c), digits);
        let part = count * nodes.log_moment;
        log_mgf += part;
        error += count * nodes.log_moment_error + (2.0 * part.abs() + log_mgf.abs()) * UNIT;
        events.push(nodes);
    }
    Nodes { events, log_mgf, error }
}

/// Returns an upper bound on `K(c)`, some 10⁻⁴ above it.
pub(super) fn log_mgf_upper(composition: &Composition, direction: Direction, c: f64) -> f64 {
    let mut found = nodes(composition, direction, c, rough_digits(composition));
    // High powers below 0 grow so much off the real axis that few digits are none.
    if found.error.is_nan() || found.error > 1e-3 {
        found = nodes(composition, direction, c, digits(composition));
    }
    found.log_mgf + found.error
}

impl Line {
    /// Computes the integrand until its tail is below the tolerance of `plan`, or `max_nodes` are reached.
    pub(super) fn new(composition: &Composition, direction: Direction, plan: &Plan, rivals: Vec<(f64, f64)>) -> Self {
        let Plan { c, step, .. } = *plan;
        let digits = digits(composition);
        let Nodes { events, log_mgf, error: log_mgf_error } = nodes(composition, direction, c, digits);
        let block = if plan.max_nodes > 2048 { 64 } else { 16 };
        let width: usize = events.iter().map(|event| event.weights[0].len()).sum();
        let max_nodes = plan.max_nodes.min((MAX_LINE_PRODUCTS / width.max(1)).max(LEAST_NODES));
        let sweeps: Vec<_> = gathered(events.iter().map(|event| Sweep::new(event, step, block)));
        // Halved: the others are counted twice.
        let at_zero = 0.5 / (c * (1.0 + c));
        let mut line = Self {
            c,
            step,
            log_mgf,
            log_mgf_error,
            values: vec![Value { amplitude: at_zero, phase: 0.0, error: 8.0 * UNIT, cap: 1.000_001 * at_zero }],
            log_envelope: 0.0,
            smoothed: None,
            rivals,
        };
        let isa = Isa::best();
        let mut length = 16;
        let mut sums = Vec::new();
        loop {
            let first = line.values.len();
            let mut chunk = filled(Accumulated::default(), length);
            let missing = length - sums.len();
            grow(&mut sums, missing);
            sums.resize(length, (0.0, 0.0));
            grow(&mut line.values, length);
            for ((event, sweep), (_, count)) in events.iter().zip(&sweeps).zip(&composition.sampled) {
                sweep.advance_on(isa, first, &mut sums);
                let per_tau = event.rounding + event.first_moment * (exponential_error(block) + sweep.summation());
                for (index, (value, sum)) in chunk.iter_mut().zip(&sums).enumerate() {
                    let tau = (first + index) as f64 * step;
                    value.add(*sum, tau * per_tau + event.quadrature, *count);
                }
            }
            for (index, value) in chunk.iter().enumerate() {
                let tau = (first + index) as f64 * step;
                line.values.push(value.finish(composition, direction, c, tau));
            }
            let tau = line.values.len() as f64 * step;
            let last = &line.values[line.values.len() - 1];
            let done = ln(last.amplitude.max(last.cap) * tau / step) < plan.log_tolerance;
            if done || line.values.len() >= max_nodes {
                line.log_envelope = 0.0;
                let enough = plan.log_tolerance + 1.0 - line.log_truncation();
                line.log_envelope = envelope(composition, direction, c, tau, &events, enough);
                if line.log_envelope < enough {
                    return line;
                }
                if line.values.len() >= max_nodes {
                    line.smooth(plan.log_tolerance + SMOOTHED_TRUNCATION_NATS);
                    return line;
                }
            }
            length = (line.values.len() / 2).clamp(16, 4096);
        }
    }

    /// Number of nodes.
    pub(super) fn num_nodes(&self) -> usize {
        self.values.len()
    }

    /// Returns ln of a bound on what the nodes left out add, relative to `e^{K(c) − εc}`: `|1/z(z+1)| ≤ 1/τ²`, and
    /// `Σ_{j ≥ J} 1/τⱼ² ≤ 1/τ_J² + 1/(h·τ_J)`.
    fn log_truncation(&self) -> f64 {
        let tau = self.values.len() as f64 * self.step;
        self.log_envelope + ln(self.step / PI * (1.0 / (tau * tau) + 1.0 / (self.step * tau))) + 1e-9
    }

    /// Width of the smoothing, 0 without.
    pub(super) fn smoothing(&self) -> f64 {
        self.smoothed.as_ref().map_or(0.0, |smoothed| smoothed.smoothing.width())
    }

    /// Smooths so that the tail is about `e^{log_tolerance}`.
    fn smooth(&mut self, log_tolerance: f64) {
        let tau = self.values.len() as f64 * self.step;
        let smoothing = Smoothing::new(tau, self.log_truncation(), log_tolerance);
        let mut smoothed = Smoothed {
            smoothing,
            // mutant: values-of-a-line-copied-without-room
            above: copied(&self.values),
            below: copied(&self.values),
            log_tails: smoothing.log_tails(self.c, self.step, tau, self.log_envelope),
        };
        for (index, (above, below)) in smoothed.above.iter_mut().zip(&mut smoothed.below).enumerate() {
            let z = (self.c, index as f64 * self.step);
            above.multiply(smoothing.above(z));
            below.multiply(smoothing.below(z));
        }
        self.smoothed = Some(smoothed);
    }

    /// Returns certified bounds on ln δ(ε).
    pub(super) fn log_delta(&self, epsilon: f64) -> LogDelta {
        let sums = match &self.smoothed {
            None => [self.sum(&self.values, epsilon); 2],
            Some(smoothed) => [self.sum(&smoothed.above, epsilon), self.sum(&smoothed.below, epsilon)],
        };
        self.bounds(epsilon, sums)
    }

    /// Returns the same at little cost for each ε, if rounding errors allow that.
    pub(super) fn rotated(&self) -> [Rotated; 2] {
        let rotated = |values: &[Value]| Rotated::new(self.c, self.step, values.iter().map(|value| value.node()));
        match &self.smoothed {
            None => {
                let same = rotated(&self.values);
                [same.copy(), same]
            }
            Some(smoothed) => [rotated(&smoothed.above), rotated(&smoothed.below)],
        }
    }

    /// Returns certified bounds on ln δ(ε) from the values that were made ready.
    pub(super) fn log_delta_of(&self, rotated: &[Rotated; 2], epsilon: f64) -> LogDelta {
        let above = rotated[0].sum(epsilon);
        let below = if self.smoothed.is_some() { rotated[1].sum(epsilon) } else { above };
        self.bounds(epsilon, [above, below])
    }

    /// Returns certified bounds on ln δ(ε) from the sums of what is above and below it.
    fn bounds(&self, epsilon: f64, [above, below]: [Sum; 2]) -> LogDelta {
        let exponent = self.log_mgf - epsilon * self.c;
        let common = self.log_mgf_error + 4.0 * UNIT * (self.log_mgf.abs() + epsilon.abs() * self.c + 1.0);
        let tails = match &self.smoothed {
            None => (self.log_truncation(), self.log_truncation()),
            Some(smoothed) => smoothed.log_tails,
        };
        let aliasing = self.log_aliasing(epsilon) - exponent + common;
        let upper = above.value + above.error + exp(tails.0);
        let lower = below.value - below.error - exp(tails.1) - exp(aliasing) * 1.001;
        if !(above.value > 0.0 && upper < f64::INFINITY) {
            // Nothing but rounding is left: the trivial bounds hold.
            return LogDelta {
                lower: f64::NEG_INFINITY,
                upper: 0.0,
                middle: 0.0,
                slope: -self.c,
                slack: [f64::INFINITY; 3],
            };
        }
        LogDelta {
            lower: if lower > 0.0 { exponent + ln(lower) - common - 20.0 * UNIT } else { f64::NEG_INFINITY },
            upper: (exponent + ln(upper.max(0.0)) + common + 20.0 * UNIT).min(0.0),
            middle: exponent + ln(0.5 * (above.value + below.value.max(0.0))),
            slope: above.slope / above.value,
            slack: [ln(above.error / above.value + common), tails.0 - ln(above.value), aliasing - ln(above.value)],
        }
    }

    /// Returns bounds on ln δ(ε) from the nodes alone.
    #[cfg(test)]
    pub(super) fn log_delta_unsmoothed(&self, epsilon: f64) -> LogDelta {
        Self { smoothed: None, ..self.clone() }.log_delta(epsilon)
    }

    /// Returns `(h/2π)·Σⱼ e^{−εzⱼ}·valueⱼ·e^{εc}` over all integers j.
    fn sum(&self, values: &[Value], epsilon: f64) -> Sum {
        let (mut sum, mut slope, mut error) = (0.0, 0.0, 0.0);
        for (index, value) in values.iter().enumerate() {
            let tau = index as f64 * self.step;
            let turn = epsilon * tau;
            let phase = value.phase - turn;
            let (sine, cosine) = crate::functions::sincos(phase);
            sum += value.amplitude * cosine;
            slope += value.amplitude * (tau * sine - self.c * cosine);
            // The product, the difference, cosine, the product, and the running sum.
            let relative = value.error + (2.0 * turn.abs() + 2.0 * value.phase.abs() + 20.0) * UNIT;
            let local = if relative < 0.5 { value.amplitude * relative * 1.5 } else { value.amplitude + value.cap };
            error += local + sum.abs() * UNIT;
        }
        // (h/2π)·(I₀ + 2·Σ Re Iⱼ), and I₀ is stored halved.
        let scale = self.step / PI;
        Sum { value: sum * scale, slope: slope * scale, error: error * scale * 1.001 + 8.0 * UNIT * sum.abs() * scale }
    }

    /// Returns ln of a bound on the excess of the trapezoid rule, `Σ_{k ≠ 0} δ(ε + 2πk/h)·e^{2πkc/h}`.
    ///
    /// `k < 0`: δ ≤ 1. `k > 0`: `δ(ε') ≤ e^{K(c') − ε'c'}·c'^{c'}/(1 + c')^{1 + c'}` at any `c' > c` (Canonne, Kamath and Steinke, "The
    /// discrete Gaussian for differential privacy", 2020, Proposition 12, with α = c' + 1), a geometric series in k.
    fn log_aliasing(&self, epsilon: f64) -> f64 {
        let period = 2.0 * PI / self.step;
        let below = log_geometric(period * self.c);
        let above = self
            .rivals
            .iter()
            .map(|&(c, upper)| log_chernoff(c, upper, epsilon) + log_geometric(period * (c - self.c)))
            .fold(f64::INFINITY, f64::min);
        let largest = below.max(above);
        if !largest.is_finite() {
            return f64::INFINITY;
        }
        largest + ln(exp(below - largest) + exp(above - largest)) + 1e-9
    }
}

/// Returns the logarithm of the Chernoff bound on δ(ε) at `c`, given `K(c)`.
pub(super) fn log_chernoff(c: f64, log_mgf: f64, epsilon: f64) -> f64 {
    log_mgf - epsilon * c + c * ln(c / (1.0 + c)) - ln_1p(c) + 1e-12 * (log_mgf.abs() + epsilon * c + c + 1.0)
}

/// Returns `ln Σ_{k ≥ 1} e^{−kx}`.
fn log_geometric(x: f64) -> f64 {
    if x > 0.0 { -x - ln(-expm1(-x)) } else { f64::INFINITY }
}

impl Value {
    fn node(&self) -> Node {
        Node { amplitude: self.amplitude, phase: self.phase, error: self.error, cap: self.cap }
    }

    /// Multiplies by a transform.
    fn multiply(&mut self, transform: Transform) {
        let size = modulus(transform.value);
        self.amplitude *= size;
        self.cap *= (size + transform.error) * 1.000_001;
        self.phase += atan2(transform.value.1, transform.value.0);
        self.error += transform.error / size + 20.0 * UNIT;
    }
}

/// Nodes of the contour times nodes of the moments that a line may cost, and how many of the former there may be in any case.
const MAX_LINE_PRODUCTS: usize = 1 << 25;
const LEAST_NODES: usize = 128;

/// With smoothing, truncation may cost so much more, in ln δ.
const SMOOTHED_TRUNCATION_NATS: f64 = 18.0;

#[derive(Clone, Copy, Debug, Default)]
struct Accumulated {
    exponent: Complex,
    error: f64,
    log_cap: f64,
}

impl Accumulated {
    /// Adds `count·ln(1 + sum)`, the error of `sum` being at most `error`.
    fn add(&mut self, sum: Complex, error: f64, count: f64) {
        let size = modulus((1.0 + sum.0, sum.1));
        self.log_cap += count * ln((size + error).min(1.0));
        if size <= 2.0 * error {
            self.error = f64::INFINITY;
            return;
        }
        let log = ln_1p_complex(sum);
        let rounding = 12.0 * UNIT * (modulus(log) + (modulus(sum) + sum.0 * sum.0 + sum.1 * sum.1) / (size * size));
        self.exponent.0 += count * log.0;
        self.exponent.1 += count * log.1;
        self.error +=
            count * (error / (size - error) + rounding) + 2.0 * UNIT * (self.exponent.0.abs() + self.exponent.1.abs());
    }

    fn finish(mut self, composition: &Composition, direction: Direction, c: f64, tau: f64) -> Value {
        // The plain Gaussians: g·(z(z+1) − c(c+1))/2 = g·(−τ² + iτ(2c + 1))/2.
        let g = composition.gaussian;
        // Addition runs over conjugates.
        let turn = if direction == Direction::Add { -self.exponent.1 } else { self.exponent.1 };
        let plain = (-0.5 * g * tau * tau, 0.5 * g * tau * (2.0 * c + 1.0));
        self.error += (composition.gaussian_error + 8.0 * UNIT) * (plain.0.abs() + plain.1.abs());
        let exponent = (self.exponent.0 + plain.0, turn + plain.1);
        // z(z+1) = c(c+1) − τ² + iτ(2c+1) by its factors' moduli and arguments: no cancellation.
        let size = modulus((c, tau)) * modulus((1.0 + c, tau));
        let argument = atan2(tau, c) + atan2(tau, 1.0 + c);
        Value {
            amplitude: if self.error < 0.5 { exp(exponent.0) / size } else { 0.0 },
            phase: if self.error < 0.5 { exponent.1 - argument } else { 0.0 },
            error: self.error + 40.0 * UNIT,
            cap: exp(self.log_cap + plain.0 * (1.0 - 1e-12)) / size * 1.000_001,
        }
    }
}
