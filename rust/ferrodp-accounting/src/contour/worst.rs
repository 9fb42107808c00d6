//! Both directions at once, and many questions at once.

use super::answer::{Certified, delta_bounds, epsilon_bounds, log_delta_bounds};
use super::composition::{Composition, Release};
use super::line::{log_chernoff, log_mgf_upper, rounded_contour};
use super::saddle::Curve;
use crate::functions::{UNIT, ln};
use crate::memory::{gathered, room};
use crate::types::Direction;
use ferrodp_core::Error;
use ferrodp_core::machine::blocks::for_each_block;
use std::num::NonZeroUsize;

/// What is asked, and at which point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// ln δ at ε.
    LogDelta,
    /// δ at ε.
    Delta,
    /// ε at ln δ.
    Epsilon,
}

/// Bounds on the larger of the two directions' numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The larger lower bound and the larger upper bound; the rest is the active direction's.
    pub bounds: Certified,
    /// The direction of the larger upper bound.
    pub direction: Direction,
}

/// Returns bounds on `quantity` in one direction.
#[must_use]
pub fn bounds(quantity: Quantity, composition: &Composition, direction: Direction, point: f64) -> Certified {
    match quantity {
        Quantity::LogDelta => log_delta_bounds(composition, direction, point),
        Quantity::Delta => delta_bounds(composition, direction, point),
        Quantity::Epsilon => epsilon_bounds(composition, direction, point),
    }
}

/// Returns bounds on the larger of both directions' `quantity`.
///
/// Removal mostly dominates. Where a Chernoff bound shows that addition stays below its *lower* bound, nothing else is asked of it.
#[must_use]
pub fn worst(quantity: Quantity, composition: &Composition, point: f64) -> Worst {
    let removal = bounds(quantity, composition, Direction::Remove, point);
    // Without sampling the two directions are one: the loss of a Gaussian is symmetric. And of what is not answered, neither is.
    if composition.sampled.is_empty()
        || composition.unanswered
        || addition_is_below(quantity, composition, point, removal.lower)
    {
        return Worst { bounds: removal, direction: Direction::Remove };
    }
    let addition = bounds(quantity, composition, Direction::Add, point);
    let (active, direction) =
        if addition.upper > removal.upper { (addition, Direction::Add) } else { (removal, Direction::Remove) };
    Worst { bounds: Certified { lower: removal.lower.max(addition.lower), ..active }, direction }
}

/// Whether the Chernoff bound on addition's δ, where removal's lower bound lies, is not above it.
fn addition_is_below(quantity: Quantity, composition: &Composition, point: f64, lower: f64) -> bool {
    let (epsilon, log_delta) = match quantity {
        Quantity::LogDelta => (point, lower),
        Quantity::Delta => (point, ln(lower) - 16.0 * UNIT),
        Quantity::Epsilon => (lower, point * (1.0 + 8.0 * UNIT)),
    };
    if !(epsilon >= 0.0 && log_delta > f64::NEG_INFINITY) {
        return false;
    }
    let (c, k) = Curve::new(composition, Direction::Add).for_epsilon(epsilon);
    let c = rounded_contour(c);
    // The estimate decides whether the bound is worth its price.
    log_chernoff(c, k.value, epsilon) < log_delta - 1e-3
        && log_chernoff(c, log_mgf_upper(composition, Direction::Add, c), epsilon) < log_delta
}

/// Returns [`worst`] of each single release at its own point, in the order given, on up to `threads` threads.
///
/// # Errors
/// If a release is not valid; then nothing is computed.
pub fn sweep(quantity: Quantity, questions: &[(Release, f64)], threads: NonZeroUsize) -> Result<Vec<Worst>, Error> {
    let nothing = Worst { bounds: Certified::exactly(0.0), direction: Direction::Remove };
    let mut work = room(questions.len());
    for (release, point) in questions {
        work.push((Composition::new(core::slice::from_ref(release))?, *point, nothing));
    }
    // One by one: prices differ by a factor of a thousand.
    for_each_block(&mut work, 1, threads, |_, block| {
        for (composition, point, answer) in block {
            *answer = worst(quantity, composition, *point);
        }
    });
    Ok(gathered(work.into_iter().map(|(_, _, answer)| answer)))
}
