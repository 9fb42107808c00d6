//! Many mechanisms and orders in one call.

use crate::memory::{filled, gathered};
use core::convert::Infallible;
use core::num::NonZeroUsize;

use ferrodp_core::Isa;
use ferrodp_core::machine::blocks::for_each_block;

use super::curve::poisson_gaussian::PoissonGaussian;
use super::curve::{add, rounded_up};
use super::optimize::{PLACES_AT_ONCE, best};
use crate::types::Bounds;
use crate::types::Question;

/// Orders of a block: what shares nodes, and what a thread takes at a time.
const ORDERS_PER_BLOCK: usize = 1024;

/// The same for searches, which cost a hundred orders each.
const SEARCHES_PER_BLOCK: usize = 32;

/// Returns bounds on `ρ(α)` for every triple of noise multiplier, sampling probability and order.
///
/// Equal mechanisms share their nodes, wherever they stand. The results depend neither on the order of the triples nor on
/// the number of threads.
///
/// # Panics
/// If the slices differ in length.
#[must_use]
pub fn poisson_gaussian(
    isa: Isa,
    noise_multipliers: &[f64],
    sampling_probabilities: &[f64],
    orders: &[f64],
    threads: NonZeroUsize,
) -> Vec<Bounds> {
    let columns = (noise_multipliers, sampling_probabilities, orders);
    by_mechanism(columns, ORDERS_PER_BLOCK, threads, Bounds::ZERO, |curve, run, found| {
        let asked: Vec<f64> = gathered(run.iter().map(|&i| orders[i]));
        curve.bounds(isa, &asked, found);
    })
}

/// Returns upper bounds on ε at `δ`, over all orders, for every quadruple of noise multiplier, sampling probability, number of
/// steps and `δ`; those of `optimize`.
///
/// # Panics
/// If the slices differ in length.
#[must_use]
pub fn poisson_gaussian_epsilon(
    isa: Isa,
    noise_multipliers: &[f64],
    sampling_probabilities: &[f64],
    counts: &[f64],
    deltas: &[f64],
    threads: NonZeroUsize,
) -> Vec<f64> {
    assert!(counts.len() == deltas.len(), "quadruples");
    let columns = (noise_multipliers, sampling_probabilities, counts);
    by_mechanism(columns, SEARCHES_PER_BLOCK, threads, 0.0, |curve, run, found| {
        for (found, &i) in found.iter_mut().zip(run) {
            *found = epsilon(isa, curve, counts[i], deltas[i]);
        }
    })
}

/// Returns an upper bound on ε of so many steps.
fn epsilon(isa: Isa, curve: &mut PoissonGaussian, count: f64, delta: f64) -> f64 {
    if count == 0.0 {
        return 0.0;
    }
    let mut bounds = [Bounds::ZERO; PLACES_AT_ONCE];
    let answer = best(Question::Epsilon { delta }, |orders, rho| -> Result<(), Infallible> {
        let bounds = &mut bounds[..orders.len()];
        curve.bounds(isa, orders, bounds);
        rho.fill(0.0);
        add(rho, bounds, count);
        rounded_up(rho, 1);
        Ok(())
    });
    match answer {
        Ok(answer) => answer.value,
        Err(never) => match never {},
    }
}

/// Calls `work` for runs of equal mechanisms with the mechanism's curve, the indices of the run and room for its results;
/// returns all results in the order of the arguments. Runs are sorted by the last column, too.
fn by_mechanism<T: Copy + Send>(
    (noise_multipliers, sampling_probabilities, last): (&[f64], &[f64], &[f64]),
    size: usize,
    threads: NonZeroUsize,
    nothing: T,
    work: impl Fn(&mut PoissonGaussian, &[usize], &mut [T]) + Sync,
) -> Vec<T> {
    let count = last.len();
    assert!(count == noise_multipliers.len() && count == sampling_probabilities.len(), "columns of one length");
    // All are ≥ 0, so that bits are in the order of the numbers.
    let key = |&i: &usize| (noise_multipliers[i].to_bits(), sampling_probabilities[i].to_bits(), last[i].to_bits());
    let mut sorted: Vec<usize> = gathered(0..count);
    if !sorted.is_sorted_by_key(key) {
        sorted.sort_unstable_by_key(key);
    }
    let mut found = filled(nothing, count);
    for_each_block(&mut found, size, threads, |start, block| {
        let indices = &sorted[start..start + block.len()];
        let is_same = |i: &usize, j: &usize| (key(i).0, key(i).1) == (key(j).0, key(j).1);
        let mut done = 0;
        for run in indices.chunk_by(is_same) {
            let mut curve = PoissonGaussian::new(noise_multipliers[run[0]], sampling_probabilities[run[0]]);
            work(&mut curve, run, &mut block[done..done + run.len()]);
            done += run.len();
        }
    });
    let mut results = filled(nothing, count);
    for (&index, &value) in sorted.iter().zip(&found) {
        results[index] = value;
    }
    results
}
