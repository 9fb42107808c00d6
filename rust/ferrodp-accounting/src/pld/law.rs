//! The law of a composed loss itself, for those who want to see it.

use crate::functions::exp;
use crate::memory::gathered;
use crate::pld::compose::fft::Fft;
use crate::pld::compose::{Composer, Side, Window};
use crate::pld::discretize::{Lower, bracket};
use crate::pld::grid::Nodes;
use crate::pld::task::coarse_pair::Plan;
use crate::pld::task::spacing::{log2_ceil, short};
use crate::pld::types::Step;
use ferrodp_core::Error;

/// Masses of a composed loss on nodes `start + k·step`.
#[derive(Clone, Debug)]
pub struct ComposedLaw {
    /// Loss of the first node.
    pub start: f64,
    /// Masses of the law that dominates the composition.
    pub upper: Vec<f64>,
    /// Masses of the law that the composition dominates.
    pub lower: Vec<f64>,
    /// Masses of the loss +∞, of the upper and the lower law.
    pub infinity: (f64, f64),
    /// Bound on the Euclidean norm of the rounding errors of either.
    pub noise: f64,
}

/// ln of one over the mass that may lie outside of the nodes.
const OUTSIDE_LAW_NATS: f64 = 40.0;

/// Returns the composed laws of steps on a grid of this step; what less than `tail` of a step has is moved out of the way.
///
/// # Errors
///
/// [`Error::Parameter`] if more than 2^`log2_max_nodes` nodes were needed.
pub fn composed(steps: &[Step<'_>], step: f64, tail: f64, log2_max_nodes: u32) -> Result<ComposedLaw, Error> {
    let plan = Plan::new(steps.iter().map(|each| (each.pair, each.count)), (tail, tail));
    let [(below, s_below), (above, s_above)] = plan.window(0.0, OUTSIDE_LAW_NATS);
    let exponent = log2_ceil((above - below) / step + 8.0).max(2);
    let reach = log2_ceil(2.0 * plan.reach() / step + 8.0);
    if exponent.max(reach) > log2_max_nodes {
        let accepted = format!("so large that 2^{log2_max_nodes} nodes suffice");
        return Err(Error::parameter("value_discretization_interval", step, accepted));
    }
    let fft = Fft::new(exponent);
    let laid = |each: &Step<'_>| Nodes::over(each.pair, step, tail, tail);
    let offset: f64 = steps.iter().map(|each| each.count as f64 * laid(each).offset).sum();
    let room = 0.5 * (fft.size() as f64 - (above - below) / step);
    let window = Window {
        first: libm::floor((below - offset) / step - room) as i64 + 1,
        theta: 0.0,
        above: short(s_above * step, 24),
        below: short(s_below * step, 24),
    };
    let mut composer = Composer::new(&fft, window, step);
    for each in steps {
        composer.add(&bracket(each.pair, laid(each), Lower::Merged), each.count);
    }
    let composition = composer.finish();
    let masses = |side: &Side| gathered(side.tilted.iter().map(|y| y.max(0.0) * exp(side.log_scale)));
    Ok(ComposedLaw {
        start: offset + window.first as f64 * step,
        upper: masses(&composition.upper),
        lower: masses(&composition.lower),
        infinity: (composition.upper.infinity, composition.lower.infinity),
        noise: composition.noise,
    })
}
