//! Many points of one curve for the price of some: a composition that answers one question is read at the points beside it.
//!
//! A curve holds at every ε; it is tight near the one that it was tilted and refined for. The point in the middle is asked by
//! itself, those next to it are read off while their bounds are as narrow, and what is left on either side is asked likewise.

use crate::memory::filled;
use crate::pld::query::bounds_and_curve;
use crate::pld::read::Curve;
use crate::pld::types::{Settings, Step};
use crate::types::Question;

/// So many times the width of the middle's bounds is as good.
const WIDTH_ALLOWANCE: f64 = 2.0;

/// Returns (lower, upper) at each of the points, which are in the order of their ε: the largest of all directions' bounds.
#[must_use]
pub fn many(directions: &[Vec<Step<'_>>], questions: &[Question], settings: Settings) -> Vec<(f64, f64)> {
    let mut worst = filled((0.0, 0.0), questions.len());
    let settings = Settings { work: settings.work / directions.len().max(1) as f64, ..settings };
    for steps in directions {
        for (worst, found) in worst.iter_mut().zip(of_direction(steps, questions, settings)) {
            // mutant: worst-direction-of-a-curve
            *worst = (f64::max(worst.0, found.0), f64::max(worst.1, found.1));
        }
    }
    worst
}

fn of_direction(steps: &[Step<'_>], questions: &[Question], settings: Settings) -> Vec<(f64, f64)> {
    let mut found = filled((0.0, f64::INFINITY), questions.len());
    let mut ranges = vec![(0, questions.len())];
    while let Some((first, end)) = ranges.pop() {
        if first == end {
            continue;
        }
        let middle = usize::midpoint(first, end);
        let (answer, curve) = bounds_and_curve(steps, questions[middle], settings, 0.0);
        found[middle] = (answer.lower, answer.upper);
        let Some(curve) = curve.filter(|_| answer.upper > 0.0 && answer.upper < f64::INFINITY) else {
            ranges.extend([(first, middle), (middle + 1, end)]);
            continue;
        };
        let enough = settings.tolerance.max(WIDTH_ALLOWANCE * (1.0 - answer.lower / answer.upper));
        let mut walk = |points: &mut dyn Iterator<Item = usize>| {
            let mut near = answer.upper;
            for index in points {
                let Some(read) = read(&curve, questions[index], near, enough) else { return Some(index) };
                found[index] = read;
                near = read.1;
            }
            None
        };
        let below = walk(&mut (first..middle).rev());
        let above = walk(&mut (middle + 1..end));
        ranges.extend(below.map(|last| (first, last + 1)));
        ranges.extend(above.map(|start| (start, end)));
    }
    found
}

/// Returns what the curve says, unless its bounds are too wide.
fn read(curve: &Curve, question: Question, near: f64, enough: f64) -> Option<(f64, f64)> {
    let (lower, upper) = match question {
        Question::Delta { epsilon } => (curve.delta_lower(epsilon), curve.delta_upper(epsilon)),
        Question::Epsilon { delta } => curve.epsilon_near(delta, near),
    };
    (upper > 0.0 && upper < f64::INFINITY && upper - lower <= enough * upper).then_some((lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pairs::{Laplace, PoissonSampled};
    use crate::pld::query::worst;

    /// Each interval meets the one of the point asked by itself, and most points share a few compositions.
    #[test]
    fn points_that_share_a_composition_are_bounded_as_by_themselves() {
        let pair = PoissonSampled::new(0.1, Laplace::new(1.5));
        let directions = [vec![Step { pair: &pair, count: 200 }]];
        let settings = Settings::default();
        let deltas = (0..40).map(|i| Question::Epsilon { delta: crate::functions::exp(-1.0 - 0.4 * f64::from(i)) });
        let epsilons = (0..40).map(|i| Question::Delta { epsilon: 0.1 * f64::from(i) });
        for questions in [deltas.collect::<Vec<_>>(), epsilons.collect()] {
            for (question, (lower, upper)) in questions.iter().zip(many(&directions, &questions, settings)) {
                let (alone, _) = worst(&directions, *question, settings);

                assert!(lower <= upper && lower <= alone.upper && alone.lower <= upper, "{question:?}");
                let width = (alone.upper - alone.lower).max(settings.tolerance * alone.upper);
                assert!(upper - lower <= 6.0 * width, "{question:?}: {lower} {upper} {alone:?}");
            }
        }
    }
}
