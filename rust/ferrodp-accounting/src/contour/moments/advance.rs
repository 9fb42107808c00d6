//! The tilted characteristic function on a grid of τ: one complex multiplication per node and τ.
//!
//! `S(τ) = Σₖ weightₖ·(e^{iτ·logₖ} − 1)` is wanted at `τ = jh`. With `Φ = e^{ijh·log} − 1` and `G = e^{ih·log} − 1`,
//!
//! ```text
//! Φ_{j+1} = Φ_j + (G + Φ_j·G)
//! ```
//!
//! keeps digits *relative to* `|τ·log|` where both are tiny, and is stable: `|1 + G| ≤ 1`, as `Im log ≥ 0`.
//!
//! # Numerics
//! In units of `UNIT·τ·|log|`: the start of a block costs 50 + 2; a step adds at most `50·h|log|` from G (as `|1 + Φ| ≤ 1`), 12 from the
//! product and inner sum (`|Φ| ≤ 2`), and 2 for the outer sum. After at most B steps from the exact start, with `(number of steps)·h ≤ τ`, that is
//! `114 + 2B` and less than [`exponential_error`]. Each lane adds up its products one after the other: see [`Sweep::summation`].

use super::quadrature::Tilted;
use crate::contour::complex::{Complex, exp_m1};
use crate::functions::UNIT;
use crate::memory::room;
use ferrodp_core::Isa;
#[cfg(target_arch = "x86_64")]
use ferrodp_core::isa::Kind;

/// Nodes treated together; the order of additions depends on it.
const NODE_LANES: usize = 4;

/// The largest block between exact restarts.
const MAX_BLOCK: usize = 64;

/// Nodes of one event with what a step multiplies by, padded to whole lanes with weight 0.
#[derive(Clone, Debug)]
pub(in crate::contour) struct Sweep {
    lanes: Vec<Lane>,
    step: f64,
    block: usize,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    weight: [[f64; NODE_LANES]; 2],
    log: [[f64; NODE_LANES]; 2],
    growth: [[f64; NODE_LANES]; 2],
}

/// Bound on the error of an exponential less 1, in multiples of `τ·|log|`, for restarts every `block` steps.
pub(in crate::contour) fn exponential_error(block: usize) -> f64 {
    (120.0 + 2.0 * block as f64) * UNIT
}

impl Sweep {
    /// Prepares `nodes` for steps of `step` in τ with an exact restart every `block` of them.
    pub(in crate::contour) fn new(nodes: &Tilted, step: f64, block: usize) -> Self {
        let count = nodes.weights[0].len();
        let mut lanes = room(count.div_ceil(NODE_LANES));
        for start in (0..count).step_by(NODE_LANES) {
            let mut lane =
                Lane { weight: [[0.0; NODE_LANES]; 2], log: [[0.0; NODE_LANES]; 2], growth: [[0.0; NODE_LANES]; 2] };
            for i in 0..NODE_LANES.min(count - start) {
                for part in 0..2 {
                    lane.weight[part][i] = nodes.weights[part][start + i];
                    lane.log[part][i] = nodes.logs[part][start + i];
                }
                let growth = exp_m1((-step * lane.log[1][i], step * lane.log[0][i]));
                (lane.growth[0][i], lane.growth[1][i]) = growth;
            }
            lanes.push(lane);
        }
        Self { lanes, step, block: block.min(MAX_BLOCK) }
    }

    /// Bound on the rounding of the sums, in multiples of `Σ |weight|·|Φ|`: three for a product, one for each addition.
    pub(in crate::contour) fn summation(&self) -> f64 {
        (self.lanes.len() + NODE_LANES + 4) as f64 * UNIT
    }

    /// Writes S(jh) for `j = first, first + 1, …` to `sums`: the same bits on every [`Isa`].
    pub(in crate::contour) fn advance_on(&self, isa: Isa, first: usize, sums: &mut [Complex]) {
        match isa.kind() {
            // SAFETY: only `isa.rs` can make an `Isa`, and only of a kind the CPU has reported.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 | Kind::Avx512 => unsafe { self.advance_avx2(first, sums) },
            _ => self.advance(first, sums),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn advance_avx2(&self, first: usize, sums: &mut [Complex]) {
        self.advance(first, sums);
    }

    /// The one body.
    #[inline(always)]
    fn advance(&self, first: usize, sums: &mut [Complex]) {
        for (number, block) in sums.chunks_mut(self.block).enumerate() {
            let mut totals = [[[0.0; NODE_LANES]; 2]; MAX_BLOCK];
            let tau = (first + number * self.block) as f64 * self.step;
            for lane in &self.lanes {
                lane.advance(tau, &mut totals[..block.len()]);
            }
            for (sum, total) in block.iter_mut().zip(&totals) {
                *sum = (fold(&total[0]), fold(&total[1]));
            }
        }
    }
}

fn fold(total: &[f64; NODE_LANES]) -> f64 {
    (total[0] + total[1]) + (total[2] + total[3])
}

impl Lane {
    /// Adds this lane's part of the sums from `tau` on.
    #[inline(always)]
    fn advance(&self, tau: f64, totals: &mut [[[f64; NODE_LANES]; 2]]) {
        let start: [Complex; NODE_LANES] =
            core::array::from_fn(|i| exp_m1((-tau * self.log[1][i], tau * self.log[0][i])));
        let mut state = [start.map(|z| z.0), start.map(|z| z.1)];
        let (weight, growth) = (&self.weight, &self.growth);
        for total in totals {
            for i in 0..NODE_LANES {
                let (a, b) = (state[0][i], state[1][i]);
                total[0][i] += weight[0][i] * a - weight[1][i] * b;
                total[1][i] += weight[0][i] * b + weight[1][i] * a;
                state[0][i] = a + (growth[0][i] + (a * growth[0][i] - b * growth[1][i]));
                state[1][i] = b + (growth[1][i] + (a * growth[1][i] + b * growth[0][i]));
            }
        }
    }
}
