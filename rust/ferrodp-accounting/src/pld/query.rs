//! Questions about compositions: plan, discretize, compose, read off; finer until it is good enough.

use crate::functions::UNIT;
use crate::memory::gathered;
use crate::pld::read::Curve;
use crate::pld::task::Task;
use crate::pld::types::{Answer, Settings, Step, infinite};
use crate::types::Question;

/// So many different steps share the work of a question.
const MAX_SHARING_STEPS: usize = 32;

const ZERO_ANSWER: Answer = Answer { lower: 0.0, upper: 0.0, step: 0.0, nodes: 0, tilt: 0.0 };

/// Relative width above which moments are asked, too.
const LOOSE_WIDTH: f64 = 0.2;

/// Answers one question about compositions in several directions: the worst one counts.
///
/// Returns the number of the direction that the upper bound belongs to, too. All directions are composed; those whose
/// coarse upper bound stays below the lower bound of another are not refined.
#[must_use]
pub fn worst(directions: &[Vec<Step<'_>>], question: Question, settings: Settings) -> (Answer, usize) {
    let mut worst = (ZERO_ANSWER, 0);
    let settings = Settings { work: settings.work / directions.len().max(1) as f64, ..settings };
    for (i, steps) in directions.iter().enumerate() {
        let answer = bounds(steps, question, settings, worst.0.lower);
        let lower = worst.0.lower.max(answer.lower);
        // mutant: worst-direction
        if i == 0 || answer.upper > worst.0.upper {
            worst = (answer, i);
        }
        worst.0.lower = lower;
    }
    worst
}

/// Answers one question about the composition of the steps in one direction.
///
/// An answer whose upper end is at most `enough` may be wide: it will not matter.
#[must_use]
pub fn bounds(steps: &[Step<'_>], question: Question, settings: Settings, enough: f64) -> Answer {
    bounds_and_curve(steps, question, settings, enough).0
}

/// Returns the same, and the composition that was read last, if there was any.
pub(super) fn bounds_and_curve(
    steps: &[Step<'_>],
    question: Question,
    settings: Settings,
    enough: f64,
) -> (Answer, Option<Curve>) {
    let steps: Vec<&Step<'_>> = gathered(steps.iter().filter(|step| step.count > 0));
    if steps.is_empty() {
        return (ZERO_ANSWER, None);
    }
    let settings =
        Settings { work: settings.work * (steps.len() as f64 / MAX_SHARING_STEPS as f64).max(1.0), ..settings };
    let mut task = Task::new(&steps, question, settings);
    if enough > 0.0 {
        task.coarsen();
    }
    let mut best = Answer { lower: 0.0, upper: trivial(&steps, question), ..ZERO_ANSWER };
    for _ in 0..8 {
        let answer = task.answer();
        best = Answer { lower: answer.lower.max(best.lower), upper: answer.upper.min(best.upper), ..answer };
        if best.upper <= enough || !task.refine(best) {
            break;
        }
    }
    if best.upper - best.lower > LOOSE_WIDTH * best.upper || best.upper == f64::INFINITY {
        best.upper = best.upper.min(task.by_moments());
    }
    best.lower = best.lower.min(best.upper);
    (best, task.into_curve())
}

/// Returns an upper bound that needs no composition: the largest loss there is, or 1.
fn trivial(steps: &[&Step<'_>], question: Question) -> f64 {
    let largest: f64 =
        steps.iter().map(|step| largest_loss(step)).sum::<f64>() * (1.0 + steps.len() as f64 * 2.0 * UNIT);
    let infinite = infinite(steps.iter().map(|step| (step.pair.infinite(), step.pair.relative_error(), step.count)));
    match question {
        Question::Epsilon { delta } if infinite <= delta => largest.max(0.0),
        Question::Epsilon { .. } => f64::INFINITY,
        Question::Delta { epsilon } if epsilon >= largest => infinite.min(1.0),
        Question::Delta { .. } => 1.0,
    }
}

/// Returns an upper bound on the finite losses of a step and its repetitions.
fn largest_loss(step: &Step<'_>) -> f64 {
    let (_, highest) = step.pair.support();
    if !highest.is_finite() {
        return f64::INFINITY;
    }
    let slack = 2.0 * (step.pair.loss_error() * highest.abs().max(1.0) + 2.0 * UNIT * highest.abs());
    step.count as f64 * (highest + slack) * (1.0 + 2.0 * UNIT)
}

/// Returns bounds on the ε for which the composition is (ε, 0)-differentially private: the largest loss there is.
#[must_use]
pub fn pure_epsilon(steps: &[Step<'_>]) -> (f64, f64) {
    let steps: Vec<&Step<'_>> = gathered(steps.iter().filter(|step| step.count > 0));
    if steps.iter().any(|step| step.pair.infinite() > 0.0) {
        return (f64::INFINITY, f64::INFINITY);
    }
    let upper = trivial(&steps, Question::Epsilon { delta: 0.0 });
    if upper == f64::INFINITY {
        return (0.0, upper);
    }
    // an end of a support is attained if there is mass next to it
    let (mut lower, mut attained) = (0.0, true);
    for step in &steps {
        let (_, highest) = step.pair.support();
        let slack = 16.0 * (step.pair.loss_error() * highest.abs().max(1.0) + UNIT * highest.abs());
        lower += step.count as f64 * (highest - slack) * (1.0 - 4.0 * UNIT);
        attained &= step.pair.mass(highest - slack, f64::INFINITY).p > 0.0;
    }
    let lower = if attained { lower - 4.0 * UNIT * steps.len() as f64 * upper } else { 0.0 };
    (lower.max(0.0), upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pairs::{FiniteLosses, Gaussian, PoissonSampled};

    /// With a tenth of the work bounds are wider, and hold what those of more work hold.
    #[test]
    fn less_work_gives_wider_bounds_around_the_same() {
        let (sampled, stated) =
            (PoissonSampled::new(0.02, Gaussian::new(0.7)), FiniteLosses::epsilon_delta(0.01, 1e-9));
        let steps = [Step { pair: &sampled, count: 5000 }, Step { pair: &stated, count: 1000 }];
        let of = |work: f64| {
            let answer =
                bounds(&steps, Question::Epsilon { delta: 1e-5 }, Settings { work, ..Settings::default() }, 0.0);
            assert!(answer.lower <= answer.upper);
            answer
        };
        let (little, much) = (of(3e3), of(2e6));
        assert!(little.nodes < much.nodes);
        assert!(little.upper - little.lower > much.upper - much.lower);
        assert!(little.lower <= much.upper && much.lower <= little.upper);
    }

    #[test]
    fn the_direction_that_loses_more_counts_wherever_it_stands() {
        let (weak, strong) = (Gaussian::new(8.0), Gaussian::new(2.0));
        let direction = |pair| vec![Step { pair, count: 4 }];
        let question = Question::Delta { epsilon: 0.5 };
        let (first, at) = worst(&[direction(&weak), direction(&strong)], question, Settings::default());
        let (second, other) = worst(&[direction(&strong), direction(&weak)], question, Settings::default());
        // δ of Gaussian noise 2/√4 at ε = 0.5 is 0.238421…
        for answer in [first, second] {
            assert!(answer.lower <= 0.238_422 && 0.238_421 <= answer.upper, "{answer:?}");
        }
        assert_eq!((1, 0), (at, other));
    }

    /// A failure of one in a thousand is left when all else is spent.
    #[test]
    fn what_tells_all_counts_at_every_epsilon() {
        let (noise, failing) = (Gaussian::new(8.0), FiniteLosses::epsilon_delta(0.01, 1e-3));
        let steps = [Step { pair: &noise, count: 10 }, Step { pair: &failing, count: 2 }];
        for epsilon in [0.5, 2.0, 8.0] {
            let answer = bounds(&steps, Question::Delta { epsilon }, Settings::default(), 0.0);
            assert!(answer.upper >= 0.001_999 && answer.lower <= answer.upper, "{epsilon}: {answer:?}");
            let steps = steps.iter().map(|step| (step.pair, step.count));
            let by_moments = crate::pld::chernoff::Moments::new(steps, 1e-12, 1e-12).delta(epsilon);
            assert!(by_moments >= 0.001_999, "{epsilon}: {by_moments}");
        }
    }
}
