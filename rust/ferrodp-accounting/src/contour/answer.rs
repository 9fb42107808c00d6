//! From a composition to certified δ(ε) and ε(δ), one direction at a time.

use super::composition::Composition;
use super::invert::{invert, invert_above_zero};
use super::line::many_epsilons::Rotated;
use super::line::{Line, LogDelta, Plan, log_chernoff, log_mgf_upper, rounded_contour};
use super::moments::path::round_to_bits;
use super::removal_tail::{self, Cut, Floors};
use super::saddle::Curve;
use super::single;
use crate::functions::{RELATIVE_ERROR, UNIT, exp, ln};
use crate::types::Direction;
use core::f64::consts::PI;

/// A certified pair and how it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certified {
    /// Never above the exact value.
    pub lower: f64,
    /// Never below it.
    pub upper: f64,
    /// Real part of the contour; 0 where none was needed.
    pub saddle: f64,
    /// Nodes on the contour.
    pub num_nodes: usize,
    /// Width of the smoothing, 0 without.
    pub smoothing: f64,
    /// Logarithms of what was added, relative to δ: rounding and quadrature, truncation, aliasing.
    pub slack: [f64; 3],
}

impl Certified {
    /// Whether an interval of that width is as wide because of rounding.
    fn loses_digits(&self, width: f64) -> bool {
        width > 1e-6 && self.slack[0] > -14.0 && self.smoothing == 0.0
    }

    /// Returns bounds on δ from those on its logarithm.
    pub(super) fn exponential(self) -> Self {
        let slack = 1.0 + 2.0 * RELATIVE_ERROR;
        Self { lower: exp(self.lower) / slack, upper: (exp(self.upper) * slack).min(1.0), ..self }
    }

    pub(super) fn exactly(value: f64) -> Self {
        Self { lower: value, upper: value, saddle: 0.0, num_nodes: 0, smoothing: 0.0, slack: [f64::NEG_INFINITY; 3] }
    }
}

/// Slack terms are made smaller than `e^{−SLACK_NATS}` of δ where that is possible.
const SLACK_NATS: f64 = 30.0;

/// Steps in which the remainder of a cut is allowed to grow, as a logarithm, and how many lines one answer may cost.
const REMAINDER_STEP_NATS: f64 = 4.0;
const MOST_LINES: usize = 6;

/// How much larger than at the saddle the integrand may be, as a logarithm, for a better spacing.
const MAX_SADDLE_LOSS_NATS: f64 = 6.0;

/// The most nodes a line may have.
const MAX_LINE_NODES: usize = 1 << 13;

/// A composition in one direction, with its tail cut off where that helps.
struct Problem {
    composition: Composition,
    direction: Direction,
    cut: Option<Cut>,
}

/// A point on the curve, near which a line is wanted, and the saddle there.
#[derive(Clone, Copy, Debug)]
struct Place {
    epsilon: f64,
    /// ln δ, of what is left to the contour.
    log_delta: f64,
    c: f64,
    log_mgf: f64,
}

impl Problem {
    /// Decides on a cut for δ(ε) near `place`: whether the tail matters beyond the saddle. `curve` is that of the whole.
    fn new(composition: &Composition, curve: &mut Curve, direction: Direction, place: &Place) -> (Self, bool) {
        let uncut = Self { composition: composition.copy(), direction, cut: None };
        if direction == Direction::Add || composition.sampled.is_empty() {
            return (uncut, false);
        }
        let cut = Cut::new(composition, None, place.epsilon, place.log_delta, removal_tail::REMAINDER_NATS);
        let with = Curve::new(&cut.composition, direction).cumulants(TAIL_TEST_SADDLES * place.c).value;
        let without = curve.cumulants(TAIL_TEST_SADDLES * place.c).value;
        (uncut, without - with > MIN_TAIL_CHANGE_NATS)
    }

    fn contour(&self) -> &Composition {
        self.cut.as_ref().map_or(&self.composition, |cut| &cut.composition)
    }

    /// Returns a line suited to values near `place`: with as few nodes as aliasing allows.
    ///
    /// Aliasing wants `2πc/h ≥ SLACK_NATS − ln δ` from below, and from above `2π(c' − c)/h ≥ SLACK_NATS + ln(Chernoff bound at c') − ln δ`, with some c' where K has not
    /// yet exploded. Where it explodes right after the saddle, a line to the left of it is the better one. `curve` is that of
    /// [`Problem::contour`].
    fn line(&self, place: &Place, curve: &mut Curve) -> Line {
        const FACTORS: [f64; 8] = [0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.3, 2.0];
        let needs = FACTORS.map(|factor| {
            let c = rounded_contour(place.c * factor);
            let log_mgf = if factor == 1.0 { place.log_mgf } else { curve.cumulants(c).value };
            (c, log_mgf, log_chernoff(c, log_mgf, place.epsilon) - place.log_delta)
        });
        let best = needs[4].2;
        let mut choice = (f64::INFINITY, needs[4], needs[7].0);
        for (index, &from) in needs.iter().enumerate().take(5) {
            if from.2 > best + MAX_SADDLE_LOSS_NATS {
                continue;
            }
            for &(rival, _, need) in &needs[index + 1..] {
                let period = ((SLACK_NATS - place.log_delta) / from.0).max((SLACK_NATS + need) / (rival - from.0));
                if period < choice.0 * if from.0 < place.c * 0.99 { 0.9 } else { 1.0 } {
                    choice = (period, from, rival);
                }
            }
        }
        let (period, (c, log_mgf, _), rival) = choice;
        let rivals = vec![(rival, log_mgf_upper(self.contour(), self.direction, rival))];
        let step = round_to_bits(2.0 * PI / period, 20);
        let log_tolerance = place.log_delta - (log_mgf - place.epsilon * c) - SLACK_NATS;
        let plan = Plan { c, step, log_tolerance, max_nodes: MAX_LINE_NODES };
        Line::new(self.contour(), self.direction, &plan, rivals)
    }

    /// Returns bounds on ln δ(ε): the contour's, and what was cut off.
    fn log_delta(&self, line: &Line, epsilon: f64) -> LogDelta {
        self.with_remainder(line.log_delta(epsilon), epsilon)
    }

    /// Adds what was cut off to what the contour found.
    fn with_remainder(&self, found: LogDelta, epsilon: f64) -> LogDelta {
        let Some(cut) = &self.cut else { return found };
        let (least, most) = cut.remainder(epsilon);
        let sum = |log: f64, added: f64| {
            let scale = log.max(ln(added));
            if scale == f64::NEG_INFINITY { scale } else { scale + ln(exp(log - scale) + exp(ln(added) - scale)) }
        };
        let rounding = 40.0 * UNIT;
        let middle = sum(found.middle, 0.5 * (least + most));
        LogDelta {
            lower: sum(found.lower, least) - rounding,
            upper: (sum(found.upper, most) + rounding).min(0.0),
            middle,
            slope: (found.slope * exp(found.middle - middle)).min(-1e-300),
            slack: found.slack.map(|slack| slack + found.middle - middle),
        }
    }

    /// Whether there is a tail to cut.
    fn can_be_cut(&self) -> bool {
        self.direction == Direction::Remove && !self.composition.sampled.is_empty()
    }

    /// Cuts the tail for δ(ε) and returns the bounds on its logarithm; `place` is a first idea of it.
    fn with_cut(&mut self, composition: &Composition, epsilon: f64, mut place: Place) -> Certified {
        let floors = Floors::new(composition);
        let (mut best, _) = self.with_cut_of(composition, &floors, epsilon, &mut place, removal_tail::REMAINDER_NATS);
        let mut spare = removal_tail::REMAINDER_NATS;
        while best.loses_digits(best.upper - best.lower) && spare > removal_tail::LEAST_SPARE {
            spare -= REMAINDER_STEP_NATS;
            let (found, _) = self.with_cut_of(composition, &floors, epsilon, &mut place, spare);
            if found.upper - found.lower >= best.upper - best.lower {
                break;
            }
            best = found;
        }
        best
    }

    fn with_cut_of(
        &mut self,
        composition: &Composition,
        floors: &Floors,
        epsilon: f64,
        place: &mut Place,
        spare: f64,
    ) -> (Certified, Line) {
        let mut tries = 5;
        loop {
            let cut = Cut::new(composition, Some(floors), epsilon, place.log_delta, spare);
            let mut curve = Curve::new(&cut.composition, self.direction);
            let found = place_of_epsilon(&mut curve, epsilon);
            let (least, _) = cut.remainder(epsilon);
            let log_delta = found.log_delta.max(ln(least));
            let settled = log_delta > place.log_delta - 3.0;
            *place = Place { log_delta, ..found };
            tries -= 1;
            if settled || tries == 0 {
                let grids = curve.into_grids();
                let cut = cut.certify(composition);
                self.cut = Some(cut);
                let mut curve = Curve::with_grids(self.contour(), self.direction, grids);
                let line = self.line(place, &mut curve);
                return (self.certified(&line, self.log_delta(&line, epsilon)), line);
            }
        }
    }

    fn invert(&self, line: &Line, start: f64, ceiling: f64, log_delta: f64) -> Certified {
        let (lower, upper, found) = invert(|epsilon| self.log_delta(line, epsilon), start, ceiling, log_delta);
        // What the search ends at has been tested, except for its limit, beyond which only additions have no losses.
        let upper = if upper > 0.0 && upper >= ceiling && self.cut.is_some() { f64::INFINITY } else { upper };
        let lower = if self.composition.raised { 0.0 } else { lower };
        Certified { lower, upper, ..self.certified(line, found) }
    }

    fn certified(&self, line: &Line, found: LogDelta) -> Certified {
        let lower = if self.composition.raised { f64::NEG_INFINITY } else { found.lower };
        Certified {
            lower,
            upper: found.upper,
            saddle: line.c,
            num_nodes: line.num_nodes(),
            smoothing: line.smoothing(),
            slack: found.slack,
        }
    }
}

/// A line that was laid for one ε, from which bounds on δ near it are read, too: they hold at every ε.
pub(super) struct Shared {
    problem: Problem,
    line: Line,
    rotated: [Rotated; 2],
}

impl Shared {
    /// Lays the line that suits δ(`epsilon`).
    pub(super) fn near(composition: &Composition, direction: Direction, epsilon: f64) -> Self {
        let mut curve = Curve::new(composition, direction);
        let mut place = place_of_epsilon(&mut curve, epsilon);
        let (mut problem, heavy) = Problem::new(composition, &mut curve, direction, &place);
        let line = if heavy {
            let floors = Floors::new(composition);
            problem.with_cut_of(composition, &floors, epsilon, &mut place, removal_tail::REMAINDER_NATS).1
        } else {
            problem.line(&place, &mut curve)
        };
        let rotated = line.rotated();
        Self { problem, line, rotated }
    }

    fn bounds(&self, epsilon: f64) -> LogDelta {
        self.problem.with_remainder(self.line.log_delta_of(&self.rotated, epsilon), epsilon)
    }

    /// Returns bounds on ln δ(ε).
    pub(super) fn log_delta(&self, epsilon: f64) -> Certified {
        self.problem.certified(&self.line, self.bounds(epsilon))
    }

    /// Returns bounds on the ε > 0 of δ, which is looked for near `start`, 0 and ∞ where nothing was found; and the width of
    /// those on ln δ there.
    pub(super) fn epsilon(&self, start: f64, log_delta: f64) -> (Certified, f64) {
        let (lower, upper, found) =
            invert_above_zero(|epsilon| self.bounds(epsilon), start, f64::INFINITY, log_delta, 1e-9);
        let lower = if self.problem.composition.raised { 0.0 } else { lower };
        (Certified { lower, upper, ..self.problem.certified(&self.line, found) }, found.upper - found.lower)
    }
}

/// By how much K may change at so many times the saddle when the tail is cut, before the cut is worth its price.
const MIN_TAIL_CHANGE_NATS: f64 = 0.5;
const TAIL_TEST_SADDLES: f64 = 1.5;

/// Width of an interval, relative for ε and absolute for ln δ, for which no better line is sought.
const NARROW_WIDTH: f64 = 1e-8;

/// Returns the place of δ(ε) on the contour that `curve` belongs to.
fn place_of_epsilon(curve: &mut Curve, epsilon: f64) -> Place {
    let (c, k) = curve.for_epsilon(epsilon);
    // The Chernoff bound with the prefactor of the saddle point approximation.
    let guess = log_chernoff(c, k.value, epsilon) - 0.5 * ln(2.0 * PI * (c * c * k.curvature + 1.0));
    Place { epsilon, log_delta: guess.min(-1e-3), c, log_mgf: k.value }
}

/// Returns the place where the Chernoff bound is δ, or that of ε = 0.
fn place_of_log_delta(curve: &mut Curve, log_delta: f64) -> Place {
    let (c, epsilon, k) = curve.for_log_delta(log_delta);
    if epsilon > 0.0 {
        return Place { epsilon, log_delta, c, log_mgf: k.value };
    }
    let place = place_of_epsilon(curve, 0.0);
    Place { log_delta: place.log_delta.min(log_delta), ..place }
}

/// Returns certified bounds on `ln δ(ε)`, `ε ≥ 0`.
#[must_use]
pub fn log_delta_bounds(composition: &Composition, direction: Direction, epsilon: f64) -> Certified {
    if composition.is_empty() || beyond_all_losses(composition, direction, epsilon) {
        return Certified::exactly(f64::NEG_INFINITY);
    }
    if composition.unanswered {
        return Certified { upper: 0.0, ..Certified::exactly(f64::NEG_INFINITY) };
    }
    if let Some(step) = single::only_step(composition) {
        let found = step.log_delta_of_one(direction, epsilon);
        if found.is_tight() {
            return closed_form(composition, found);
        }
    }
    log_delta_by_contour(composition, direction, epsilon)
}

/// Returns bounds on ln δ(ε) as the contour has them.
pub(super) fn log_delta_by_contour(composition: &Composition, direction: Direction, epsilon: f64) -> Certified {
    let mut curve = Curve::new(composition, direction);
    let place = place_of_epsilon(&mut curve, epsilon);
    let (mut problem, heavy) = Problem::new(composition, &mut curve, direction, &place);
    if heavy {
        return problem.with_cut(composition, epsilon, place);
    }
    let line = problem.line(&place, &mut curve);
    let best = problem.certified(&line, problem.log_delta(&line, epsilon));
    if !problem.can_be_cut() || best.upper - best.lower <= NARROW_WIDTH {
        return best;
    }
    // A saddle held back by the tail shows in the digits that are lost.
    let place = Place { log_delta: best.upper, ..place };
    let found = problem.with_cut(composition, epsilon, place);
    if found.upper - found.lower < best.upper - best.lower { found } else { best }
}

/// Returns certified bounds on δ(ε), `ε ≥ 0`.
#[must_use]
pub fn delta_bounds(composition: &Composition, direction: Direction, epsilon: f64) -> Certified {
    log_delta_bounds(composition, direction, epsilon).exponential()
}

fn closed_form(composition: &Composition, found: LogDelta) -> Certified {
    let lower = if composition.raised { f64::NEG_INFINITY } else { found.lower };
    Certified { lower, upper: found.upper, slack: found.slack, ..Certified::exactly(0.0) }
}

/// Whether δ(ε) = 0 because no loss is as large.
fn beyond_all_losses(composition: &Composition, direction: Direction, epsilon: f64) -> bool {
    direction == Direction::Add && composition.gaussian == 0.0 && epsilon >= composition.extreme_loss()
}

/// Returns certified bounds on `ε(δ) = min {ε ≥ 0: δ(ε) ≤ δ}` for `0 < δ < 1`, given as its logarithm.
///
/// They hold for every δ whose logarithm is within 8 units (relatively) of `log_delta`, so that a rounded logarithm will do.
#[must_use]
pub fn epsilon_bounds(composition: &Composition, direction: Direction, log_delta: f64) -> Certified {
    if composition.is_empty() || never_exceeds(composition, log_delta) {
        return Certified::exactly(0.0);
    }
    if composition.unanswered {
        return Certified { upper: f64::INFINITY, ..Certified::exactly(0.0) };
    }
    let mut curve = Curve::new(composition, direction);
    let mut place = place_of_log_delta(&mut curve, log_delta);
    if let Some(step) = single::only_step(composition) {
        let curve = |epsilon: f64| step.log_delta_of_one(direction, epsilon);
        let (lower, upper, found) = invert(curve, place.epsilon, f64::INFINITY, log_delta);
        if found.is_tight() {
            let lower = if composition.raised { 0.0 } else { lower };
            return Certified { lower, upper, ..closed_form(composition, found) };
        }
    }
    let (mut problem, heavy) = Problem::new(composition, &mut curve, direction, &place);
    let ceiling = if direction == Direction::Add && composition.gaussian == 0.0 {
        composition.extreme_loss()
    } else {
        f64::INFINITY
    };
    place.epsilon = place.epsilon.min(ceiling);
    let mut best = Certified { upper: f64::INFINITY, ..Certified::exactly(0.0) };
    if !heavy {
        best = problem.invert(&problem.line(&place, &mut curve), place.epsilon, ceiling, log_delta);
        // A saddle held back by the tail shows in the digits that are lost.
        if !problem.can_be_cut() || best.upper - best.lower <= NARROW_WIDTH * best.upper {
            return best;
        }
        place.epsilon = best.upper.min(place.epsilon);
    }
    // The tail is cut for some ε, and what is left of δ is the contour's: both change with ε. The cut is good for ε up to `at`, which
    // therefore comes down from above.
    let mut at = place.epsilon;
    // Where the Chernoff bound has led below ε, as what the cut leaves changes with it, it is not followed again.
    let mut floor = 0.0;
    let mut lines = 0;
    let mut spare = removal_tail::REMAINDER_NATS;
    let floors = Floors::new(composition);
    for _ in 0..60 {
        let cut = Cut::new(composition, Some(&floors), at, log_delta, spare);
        let (least, _) = cut.remainder(at);
        let left = exp(log_delta) - least;
        let mut curve = Curve::new(&cut.composition, direction);
        if left > 0.0 {
            place = place_of_log_delta(&mut curve, ln(left));
            if place.epsilon < 0.8 * at && place.epsilon >= floor {
                at = place.epsilon;
                continue;
            }
        } else {
            place = place_of_epsilon(&mut curve, at);
        }
        place.log_delta = place.log_delta.max(log_delta - 1.0);
        place.epsilon = place.epsilon.min(at);
        let grids = curve.into_grids();
        problem.cut = Some(cut.certify(composition));
        let line = problem.line(&place, &mut Curve::with_grids(problem.contour(), direction, grids));
        let found = problem.invert(&line, place.epsilon, 1.05 * at + 0.5 / line.c, log_delta);
        best = Certified { lower: found.lower.max(best.lower), upper: found.upper.min(best.upper), ..found };
        lines += 1;
        if lines == MOST_LINES || best.upper.is_finite() && best.upper - best.lower <= NARROW_WIDTH * best.upper {
            break;
        }
        if found.upper == f64::INFINITY {
            floor = 1.15 * at;
            at = 1.3 * at + 1.0 / line.c;
        } else if found.upper < 0.97 * at {
            at = found.upper;
        } else if found.loses_digits((best.upper - best.lower) / best.upper) && spare > removal_tail::LEAST_SPARE {
            spare -= REMAINDER_STEP_NATS;
        } else {
            break;
        }
    }
    best
}

/// Whether δ(0) ≤ Σ count·q, a bound on the total variation, is small enough.
fn never_exceeds(composition: &Composition, log_delta: f64) -> bool {
    let total: f64 = composition.sampled.iter().map(|(event, count)| event.q * count).sum();
    composition.gaussian == 0.0 && ln(total) + 1e-9 < log_delta
}
