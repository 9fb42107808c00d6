//! The order with the smallest ε or δ, without a grid of orders.
//!
//! Whatever order is found, the bound at it is valid; a poor one only costs tightness. The cost as a function of
//! `x = ln(α − 1)` has one valley in practice (`(α − 1)·ρ(α)` is convex), so sixteen places are tried at once, which is how many
//! the curves answer in one sweep, and the best is closed in upon.

use super::conversion::{self, Conversion};
use crate::memory::{extend, room};
use crate::types::{Question, sort_by_first};

/// Places tried at once.
pub(super) const PLACES_AT_ONCE: usize = 16;

/// The range of `ln(α − 1)` that is searched: `α − 1` from 10⁻⁴ to 10⁸.
const LOG_ORDER_RANGE: (f64, f64) = (-9.210_340_371_976_182, 18.420_680_743_952_367);

/// Distance of the first places.
const FIRST_STEP: f64 = 0.75;

/// The search ends when the neighbors of the best place cost so much more, relatively: so little can be gained between them.
const FLAT_COST: f64 = 1e-8;

/// Or when places come so close.
const LAST_STEP: f64 = 1e-9;

/// The answer, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// An upper bound on ε, or on ln δ.
    pub value: f64,
    /// The order that proves it; 1 if it is the bound on the total variation.
    pub order: f64,
    /// The divergence at that order.
    pub rho: f64,
}

/// Returns what one order bounds: ε, or ln δ.
fn bound_at(question: Question, conversion: Conversion, order: f64, rho: f64) -> f64 {
    match question {
        Question::Epsilon { delta } => conversion::epsilon(conversion, order, rho, delta),
        Question::Delta { epsilon } => conversion::log_delta(conversion, order, rho, epsilon),
    }
}

/// Returns what the divergence of order 1 implies.
fn at_one(question: Question, divergence: f64) -> f64 {
    let distance = conversion::total_variation(divergence);
    match question {
        Question::Epsilon { delta } if distance <= delta => 0.0,
        Question::Epsilon { .. } => f64::INFINITY,
        Question::Delta { .. } if distance == 0.0 => f64::NEG_INFINITY,
        Question::Delta { .. } => (crate::functions::ln(distance) * (1.0 - 1e-15)).min(0.0),
    }
}

/// Returns the best answer among the given orders, `1 ≤ α ≤ ∞`, whose divergences are at most `rho`.
#[must_use]
pub fn best_of(question: Question, conversion: Conversion, orders: &[f64], rho: &[f64]) -> Answer {
    let mut best = Answer { value: f64::INFINITY, order: f64::INFINITY, rho: f64::INFINITY };
    if let Question::Delta { .. } = question {
        best.value = 0.0;
    }
    for (&order, &rho) in orders.iter().zip(rho) {
        let value = if order == 1.0 { at_one(question, rho) } else { bound_at(question, conversion, order, rho) };
        if value < best.value {
            best = Answer { value, order, rho };
        }
    }
    best
}

/// Returns the best answer over all orders; `divergence` writes upper bounds on `ρ(α)` for the orders it is given.
pub fn best<E>(
    question: Question,
    mut divergence: impl FnMut(&[f64], &mut [f64]) -> Result<(), E>,
) -> Result<Answer, E> {
    let mut ends = [0.0; 3];
    divergence(&[1.0, 2.0, f64::INFINITY], &mut ends)?;
    let mut best = best_of(question, Conversion::Improved, &[1.0, f64::INFINITY], &[ends[0], ends[2]]);
    if best.value == 0.0 && matches!(question, Question::Epsilon { .. }) || best.value == f64::NEG_INFINITY {
        return Ok(best);
    }
    let mut search = Search { question, best: &mut best, divergence: &mut divergence };
    search.run(guess(question, ends[1]))?;
    Ok(best)
}

/// How much more the neighbors of an order may cost, relatively, for it to be taken from those of other points. Of a parabola through
/// three such points, the least value is at most an eighth of that below the middle one.
const NEARLY_FLAT: f64 = 1e-5;

/// Returns the best answers at many points, most of them at orders at which the divergence is known from others.
///
/// Points that follow each other should lie side by side: then the best of what is known lies next to the last one.
pub fn best_many<E>(
    questions: &[Question],
    mut divergence: impl FnMut(&[f64], &mut [f64]) -> Result<(), E>,
) -> Result<Vec<Answer>, E> {
    let mut ends = [0.0; 2];
    divergence(&[1.0, f64::INFINITY], &mut ends)?;
    let mut known: Vec<(f64, f64)> = Vec::new();
    let mut answers = room(questions.len());
    let mut at = 0;
    for &question in questions {
        let end = best_of(question, Conversion::Improved, &[1.0, f64::INFINITY], &ends);
        if let Some((index, found)) = among(&known, at, question) {
            at = index;
            answers.push(if end.value < found.value { end } else { found });
            continue;
        }
        let mut asked = Vec::new();
        let found = best(question, |orders: &[f64], rho: &mut [f64]| {
            divergence(orders, rho)?;
            extend(&mut asked, orders.iter().copied().zip(rho.iter().copied()));
            Ok(())
        })?;
        extend(&mut known, asked.into_iter().filter(|&(order, _)| order > 1.0 && order < f64::INFINITY));
        sort_by_first(&mut known);
        known.dedup_by_key(|entry| entry.0);
        at = known.partition_point(|&(order, _)| order < found.order).min(known.len().saturating_sub(1));
        answers.push(found);
    }
    Ok(answers)
}

/// Returns the best of the known orders, downhill from the one at `start`, if its neighbors show that little is left to gain.
fn among(known: &[(f64, f64)], start: usize, question: Question) -> Option<(usize, Answer)> {
    let cost = |index: usize| {
        let (order, rho) = known[index];
        bound_at(question, Conversion::Improved, order, rho)
    };
    if known.len() < 3 {
        return None;
    }
    let mut at = start.clamp(1, known.len() - 2);
    let (mut left, mut here, mut right) = (cost(at - 1), cost(at), cost(at + 1));
    while right < here && at + 2 < known.len() {
        at += 1;
        (left, here, right) = (here, right, cost(at + 1));
    }
    while left < here && at > 1 {
        at -= 1;
        (left, here, right) = (cost(at - 1), left, here);
    }
    let is_flat = left.max(right) - here <= NEARLY_FLAT * here.abs() && here <= left.min(right) && here.is_finite();
    let (order, rho) = known[at];
    is_flat.then_some((at, Answer { value: here, order, rho }))
}

/// Returns about the largest `ln(α − 1)` that the minimum can be at: `ρ(α)` grows at least like `α·ρ(2)/2`.
fn guess(question: Question, rho: f64) -> f64 {
    let beta = match question {
        Question::Epsilon { delta } => crate::functions::sqrt(-2.0 * crate::functions::ln(delta) / rho),
        Question::Delta { epsilon } => (epsilon + 1.0) / rho,
    };
    let x = crate::functions::ln(beta) + 1.0;
    // Not a number, or infinite, for ρ(2) of zero or infinity.
    if x > LOG_ORDER_RANGE.0 + 4.0 { x.min(LOG_ORDER_RANGE.1) } else { LOG_ORDER_RANGE.0 + 4.0 }
}

struct Search<'a, F> {
    question: Question,
    best: &'a mut Answer,
    divergence: &'a mut F,
}

impl<F> Search<'_, F> {
    fn run<E>(&mut self, top: f64) -> Result<(), E>
    where
        F: FnMut(&[f64], &mut [f64]) -> Result<(), E>,
    {
        let mut step = FIRST_STEP;
        let mut low = top - step * (PLACES_AT_ONCE - 1) as f64;
        let mut found = self.sweep(low, step)?;
        // The valley may lie outside what was guessed.
        while found.index == 0 && low > LOG_ORDER_RANGE.0 {
            low -= step * (PLACES_AT_ONCE - 1) as f64;
            found = self.sweep(low, step)?;
        }
        while found.index == PLACES_AT_ONCE - 1 && low + step * (PLACES_AT_ONCE as f64) < LOG_ORDER_RANGE.1 {
            low += step * (PLACES_AT_ONCE - 1) as f64;
            found = self.sweep(low, step)?;
        }
        while step > LAST_STEP && !found.is_flat {
            let next = 2.0 * step / (PLACES_AT_ONCE + 1) as f64;
            found = self.sweep(found.place - step + next, next)?;
            step = next;
        }
        Ok(())
    }

    /// Tries the places from `low` on.
    fn sweep<E>(&mut self, low: f64, step: f64) -> Result<Found, E>
    where
        F: FnMut(&[f64], &mut [f64]) -> Result<(), E>,
    {
        let mut places = [0.0; PLACES_AT_ONCE];
        let mut orders = [0.0; PLACES_AT_ONCE];
        let mut rho = [0.0; PLACES_AT_ONCE];
        for i in 0..PLACES_AT_ONCE {
            places[i] = (low + step * i as f64).clamp(LOG_ORDER_RANGE.0, LOG_ORDER_RANGE.1);
            orders[i] = 1.0 + crate::functions::exp(places[i]);
        }
        (self.divergence)(&orders, &mut rho)?;
        let mut cost = [0.0; PLACES_AT_ONCE];
        let mut index = 0;
        for i in 0..PLACES_AT_ONCE {
            cost[i] = bound_at(self.question, Conversion::Improved, orders[i], rho[i]);
            if cost[i] < cost[index] {
                index = i;
            }
            if cost[i] < self.best.value {
                *self.best = Answer { value: cost[i], order: orders[i], rho: rho[i] };
            }
        }
        let is_inside = 0 < index && index < PLACES_AT_ONCE - 1;
        let is_flat = is_inside && cost[index - 1].max(cost[index + 1]) - cost[index] <= FLAT_COST * cost[index].abs();
        Ok(Found { place: places[index], index, is_flat })
    }
}

/// The best of sixteen places.
struct Found {
    place: f64,
    index: usize,
    is_flat: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Gaussian of μ = 0.5, ten times: ρ(α) = 1.25·α.
    fn divergence(orders: &[f64], rho: &mut [f64]) -> Result<(), core::convert::Infallible> {
        for (rho, order) in rho.iter_mut().zip(orders) {
            *rho = 1.25 * order;
        }
        Ok(())
    }

    #[test]
    fn many_points_are_answered_as_by_themselves_but_for_what_is_flat() {
        let deltas = (0..300).map(|i| Question::Epsilon { delta: crate::functions::exp(-0.1 - 0.1 * f64::from(i)) });
        let epsilons = (0..300).map(|i| Question::Delta { epsilon: 0.05 * f64::from(i) });
        for questions in [deltas.collect::<Vec<_>>(), epsilons.collect()] {
            let mut asked = 0;
            let Ok(found) = best_many(&questions, |orders, rho| {
                asked += orders.len();
                divergence(orders, rho)
            });
            for (question, found) in questions.iter().zip(found) {
                let Ok(alone) = best(*question, divergence);
                let slack = 2.0 * NEARLY_FLAT * alone.value.abs() + 1e-12;
                assert!((found.value - alone.value).abs() <= slack, "{question:?} {found:?} {alone:?}");
            }
            // by itself, each asks for some 96
            assert!(asked < 300 * 48, "{asked}");
        }
    }
}
