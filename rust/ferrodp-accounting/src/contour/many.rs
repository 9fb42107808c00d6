//! Many points of one curve for little more than a few: each line answers for all points near its own.
//!
//! A line's bounds hold at every ε, and are tight near the one it was laid for. Points are taken in the order of rising ε;
//! while the bounds that a line gives are narrow, they are the answer, and where they are not, another line is laid a little
//! ahead. A point for which that does not help is answered by itself, so that no answer is worse than a single one by more
//! than [`NARROW_LOG_WIDTH`] or twice its width.

use super::answer::{Certified, Shared};
use super::composition::Composition;
use super::line::{log_chernoff, log_mgf_upper, rounded_contour};
use super::saddle::Curve;
use super::single::only_step;
use super::worst::{Quantity, Worst, bounds};
use crate::functions::{UNIT, ln};
use crate::memory::{copied, extend, gathered, room, sort_by};
use crate::types::Direction;

/// Width of ln δ that is always narrow enough; and one that is, if a line of its own gives half of it.
const NARROW_LOG_WIDTH: f64 = 1e-6;
const NARROW_AS_ALONE: f64 = 1e-4;

/// Where the next line is laid, in parts of how far the last one reached.
const NEXT_LINE_SHARE: f64 = 0.8;

/// Nodes that one direction may cost. What is left then is said to be unknown.
const MAX_CURVE_NODES: usize = 40_000;

/// Points that are answered by themselves, at most and less one in two, before lines are tried again.
const LONGEST_PAUSE: u32 = 16;

/// Returns bounds on the larger of both directions' `quantity` at each of `points`, in their order.
#[must_use]
pub fn many(quantity: Quantity, composition: &Composition, points: &[f64]) -> Vec<Worst> {
    let mut order: Vec<usize> = gathered(0..points.len());
    // In the order of rising ε: that of falling δ.
    sort_by(&mut order, |&a, &b| match quantity {
        Quantity::Epsilon => points[b].total_cmp(&points[a]),
        Quantity::Delta | Quantity::LogDelta => points[a].total_cmp(&points[b]),
    });
    let sorted: Vec<f64> = gathered(order.iter().map(|&index| points[index]));
    let removal = Walk::new(quantity, composition, Direction::Remove).answers(&sorted);
    let mut worst: Vec<Worst> = gathered(removal.iter().map(|&bounds| Worst { bounds, direction: Direction::Remove }));
    if !(composition.sampled.is_empty() || composition.unanswered) {
        let open = above_chernoff(quantity, composition, &sorted, &removal);
        let asked: Vec<f64> = gathered(open.iter().map(|&index| sorted[index]));
        let addition = Walk::new(quantity, composition, Direction::Add).answers(&asked);
        for (&index, added) in open.iter().zip(addition) {
            let removed = removal[index];
            let lower = removed.lower.max(added.lower);
            if added.upper > removed.upper {
                worst[index] = Worst { bounds: Certified { lower, ..added }, direction: Direction::Add };
            } else {
                worst[index].bounds.lower = lower;
            }
        }
    }
    let mut answers = copied(&worst);
    for (index, answer) in order.into_iter().zip(worst) {
        answers[index] = answer;
    }
    answers
}

/// Returns the points, sorted by rising ε, at which no Chernoff bound shows that addition stays below removal's lower bound.
fn above_chernoff(quantity: Quantity, composition: &Composition, points: &[f64], removal: &[Certified]) -> Vec<usize> {
    let places: Vec<(f64, f64)> = gathered(points.iter().zip(removal).map(|(&point, removed)| match quantity {
        Quantity::LogDelta => (point, removed.lower),
        Quantity::Delta => (point, ln(removed.lower) - 16.0 * UNIT),
        Quantity::Epsilon => (removed.lower, point * (1.0 + 8.0 * UNIT)),
    }));
    let is_askable = |&(epsilon, log_delta): &(f64, f64)| epsilon >= 0.0 && log_delta > f64::NEG_INFINITY;
    let askable: Vec<usize> = gathered((0..points.len()).filter(|&index| is_askable(&places[index])));
    let mut open: Vec<usize> = gathered((0..points.len()).filter(|&index| !is_askable(&places[index])));
    let mut curve = Curve::new(composition, Direction::Add);
    let mut ranges = vec![askable.as_slice()];
    while let Some(range) = ranges.pop() {
        let Some(&middle) = range.get(range.len() / 2) else { continue };
        let (c, _) = curve.for_epsilon(places[middle].0);
        let c = rounded_contour(c);
        let upper = log_mgf_upper(composition, Direction::Add, c);
        let is_above = |&index: &usize| log_chernoff(c, upper, places[index].0) >= places[index].1;
        if is_above(&middle) {
            extend(&mut open, range.iter().copied());
            continue;
        }
        let (before, after) = range.split_at(range.len() / 2);
        ranges.extend(before.iter().rposition(is_above).map(|last| &before[..=last]));
        ranges.extend(after.iter().position(is_above).map(|first| &after[first..]));
    }
    open.sort_unstable();
    open
}

/// A walk along the curve of one direction.
struct Walk<'a> {
    quantity: Quantity,
    composition: &'a Composition,
    direction: Direction,
    /// The last line, the ε it was laid for, and the width of ln δ that will do.
    line: Option<(Shared, f64, f64)>,
    /// The last two ε, each with its point.
    last: [Option<(f64, f64)>; 2],
    /// How many points are answered by themselves before lines are tried again, and how many were, the last time.
    pause: (u32, u32),
    /// How many nodes it has cost.
    spent: usize,
}

impl<'a> Walk<'a> {
    fn new(quantity: Quantity, composition: &'a Composition, direction: Direction) -> Self {
        let has_line = !composition.is_empty() && !composition.unanswered && only_step(composition).is_none();
        let pause = if has_line { 0 } else { u32::MAX };
        Self { quantity, composition, direction, line: None, last: [None; 2], pause: (pause, 0), spent: 0 }
    }

    fn answers(mut self, points: &[f64]) -> Vec<Certified> {
        let mut answers = room(points.len());
        let nothing = if self.quantity == Quantity::Epsilon { self.nothing(points) } else { 0 };
        answers.resize(nothing, Certified::exactly(0.0));
        answers.extend(points[nothing..].iter().map(|&point| self.answer(point)));
        answers
    }

    /// Returns how many of the points, which are falling δ, have an ε that is certainly 0: those with δ ≥ δ(0).
    fn nothing(&self, points: &[f64]) -> usize {
        let at_zero = bounds(Quantity::LogDelta, self.composition, self.direction, 0.0).upper;
        // mutant: points-without-loss
        points.partition_point(|&point| at_zero <= point * (1.0 + 8.0 * UNIT))
    }

    fn alone(&self, point: f64) -> Certified {
        bounds(self.quantity, self.composition, self.direction, point)
    }

    fn answer(&mut self, point: f64) -> Certified {
        if self.spent > MAX_CURVE_NODES {
            let (lower, upper) = match self.quantity {
                Quantity::Epsilon => (0.0, f64::INFINITY),
                Quantity::Delta => (0.0, 1.0),
                Quantity::LogDelta => (f64::NEG_INFINITY, 0.0),
            };
            return Certified { lower, upper, ..Certified::exactly(0.0) };
        }
        let found = self.by_lines(point).unwrap_or_else(|| {
            let found = self.alone(point);
            self.spent += found.num_nodes;
            found
        });
        if self.quantity == Quantity::Epsilon && found.upper.is_finite() && found.upper > 0.0 {
            self.last = [Some((found.upper, point)), self.last[0]];
        }
        found
    }

    /// Returns the answer that the last line gives, or a new one ahead of it, or one at the very point.
    fn by_lines(&mut self, point: f64) -> Option<Certified> {
        if self.pause.0 > 0 {
            self.pause.0 -= 1;
            return None;
        }
        let near = match self.quantity {
            Quantity::Epsilon => self.expected(point)?,
            Quantity::Delta | Quantity::LogDelta => point,
        };
        if let Some(found) = self.read(near, point) {
            return Some(found);
        }
        let reach = self.line.as_ref().map_or(0.0, |(_, at, _)| (near - at).max(0.0));
        for ahead in [NEXT_LINE_SHARE * reach, 0.0] {
            let at = near + ahead;
            let line = Shared::near(self.composition, self.direction, at);
            let here = line.log_delta(at);
            self.spent += here.num_nodes;
            let enough = (2.0 * (here.upper - here.lower)).clamp(NARROW_LOG_WIDTH, NARROW_AS_ALONE);
            self.line = Some((line, at, enough));
            if let Some(found) = self.read(near, point) {
                self.pause = (0, 0);
                return Some(found);
            }
            if ahead == 0.0 {
                break;
            }
        }
        let pause = 2 * self.pause.1.min(LONGEST_PAUSE) + 1;
        (self.line, self.pause) = (None, (pause, pause));
        None
    }

    /// Returns about the ε of the next point: on the line through the last two.
    fn expected(&self, point: f64) -> Option<f64> {
        let (epsilon, at) = self.last[0]?;
        let Some((before, other)) = self.last[1].filter(|&(_, other)| other != at) else { return Some(epsilon) };
        let expected = epsilon + (epsilon - before) * (point - at) / (at - other);
        Some(if expected.is_finite() && expected > 0.0 { expected } else { epsilon })
    }

    /// Returns what the line says, if that is narrow.
    fn read(&self, near: f64, point: f64) -> Option<Certified> {
        let (line, _, enough) = self.line.as_ref()?;
        if self.quantity == Quantity::Epsilon {
            let (found, width) = line.epsilon(near, point);
            return (width <= *enough && found.upper - found.lower <= *enough * found.upper).then_some(found);
        }
        let found = line.log_delta(near);
        let is_narrow = found.upper - found.lower <= *enough;
        is_narrow.then(|| if self.quantity == Quantity::Delta { found.exponential() } else { found })
    }
}
