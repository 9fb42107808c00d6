//! A privacy loss on a grid, and where the nodes of the grid lie.

use crate::functions::UNIT;
use crate::pld::pair::LossPair;

/// A law of the privacy loss with all of its finite mass on nodes `offset + k·step`.
///
/// The mass of node `first + i` is `p[i]`, under P; under Q it is that times e^−loss. What has loss +∞ is in `infinity`,
/// never dropped. Node 0 is always among the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct GridLoss {
    /// Distance of neighboring nodes.
    pub step: f64,
    /// The loss of node 0.
    pub offset: f64,
    /// Number of the first node, ≤ 0.
    pub first: i64,
    /// P-masses of the nodes from `first` on; not empty.
    pub p: Vec<f64>,
    /// P-mass of the loss +∞.
    pub infinity: f64,
}

impl GridLoss {
    /// Returns where in `p` node 0 stands.
    #[must_use]
    pub fn center(&self) -> usize {
        self.first.unsigned_abs() as usize
    }
}

/// Where the nodes of one pair lie: at `offset + k·step` for k from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nodes {
    /// Distance of neighboring nodes.
    pub step: f64,
    /// The loss of node 0, near 0 unless such losses are unlikely.
    pub offset: f64,
    /// First node, ≤ 0.
    pub first: i64,
    /// Last node, ≥ 0.
    pub last: i64,
    /// Number of one atom's node, and nodes to the next, if all finite losses of the pair are on nodes.
    pub atoms: Option<(i64, i64)>,
}

/// Of losses so large that masses are not known this well nothing is said.
pub(super) const MOST_ERROR: f64 = 0.01;

/// If losses near 0 are rarer than this, node 0 lies elsewhere: it takes what rounding errors leave of the mass.
const RARE_NEAR_ZERO: f64 = 1e-3;

/// Returns about where node 0 should lie: at 0, or at the likely loss next to it.
pub(super) fn center(pair: &dyn LossPair) -> f64 {
    let (low, high) = pair.range(RARE_NEAR_ZERO);
    if low > 0.0 { low } else { high.min(0.0) }
}

impl Nodes {
    /// Returns the loss of a node, as a rounded float.
    #[must_use]
    pub fn loss(&self, node: i64) -> f64 {
        self.offset + node as f64 * self.step
    }

    /// Lays a grid of this step over a pair, from the loss below which P has at most `low` to that above which it has at
    /// most `high`.
    ///
    /// Atoms get nodes: those of a lattice, where the step divides it, or else that at the end of a bounded support.
    #[must_use]
    pub fn over(pair: &dyn LossPair, step: f64, low: f64, high: f64) -> Self {
        let (bottom, top) = (pair.range(low).0, pair.range(high).1);
        Self::within(pair, step, bottom, top)
    }

    /// Lays nodes at all whole multiples of the step from `bottom` to `top`, and at 0.
    #[must_use]
    pub fn at_multiples(step: f64, bottom: f64, top: f64) -> Self {
        let (first, last) = (libm::floor(bottom / step) as i64, libm::ceil(top / step) as i64);
        Self { step, offset: 0.0, first: first.min(0), last: last.max(0), atoms: None }
    }

    /// Lays a grid of this step over the losses from `bottom` to `top` of a pair.
    #[must_use]
    pub fn within(pair: &dyn LossPair, step: f64, bottom: f64, top: f64) -> Self {
        let lattice = pair.lattice().and_then(|(offset, spacing)| {
            let stride = libm::rint(spacing / step);
            let fits = stride >= 1.0 && (spacing / step - stride).abs() <= 8.0 * UNIT * stride;
            fits.then_some((offset, stride as i64))
        });
        let (lowest, highest) = pair.support();
        let anchor = match lattice {
            Some((offset, _)) => offset,
            None if highest.is_finite() => highest,
            None if lowest.is_finite() => lowest,
            None => 0.0,
        };
        let offset = anchor - libm::rint((anchor - center(pair)) / step) * step;
        let place = |loss: f64| (loss - offset) / step;
        let snapped =
            |x: f64, away: fn(f64) -> f64| if (x - libm::rint(x)).abs() < 1e-6 { libm::rint(x) } else { away(x) };
        let first = (snapped(place(bottom), libm::floor) as i64).min(0);
        let last = (snapped(place(top), libm::ceil) as i64).max(0);
        let atoms = lattice.map(|(loss, stride)| (libm::rint(place(loss)) as i64, stride));
        Self { step, offset, first, last, atoms }
    }

    /// Returns what separates two losses too near to tell apart: what the pair says of its boundaries, and rounding.
    #[must_use]
    pub fn slack(pair: &dyn LossPair, loss: f64) -> f64 {
        8.0 * (pair.loss_error() * loss.abs().max(1.0) + UNIT * loss.abs())
    }

    /// Returns a bound on the relative error of the masses of this grid's cells, once two have been added.
    ///
    /// That of the pair, and of the factor e^loss between P and Q. Bounds are derived for errors below [`MOST_ERROR`].
    #[must_use]
    pub fn error(&self, pair: &dyn LossPair) -> f64 {
        let reach = self.loss(self.first).abs().max(self.loss(self.last).abs());
        pair.relative_error() + (24.0 + 4.0 * reach) * UNIT
    }

    /// Returns a bound on how far the losses that the pair is asked about lie from those that the nodes stand for.
    ///
    /// Rounding of `offset + k·step`, of the offset itself, of a lattice's own numbers, what the pair says about its
    /// boundaries, and [`Self::slack`]. A loss of one step is never off by more; over T steps the errors add up to at most T
    /// times this.
    #[must_use]
    pub fn shift(&self, pair: &dyn LossPair) -> f64 {
        let reach = self.loss(self.first).abs().max(self.loss(self.last).abs());
        let lattice = match (self.atoms, pair.lattice()) {
            (Some((_, stride)), Some((_, spacing))) => {
                (spacing - stride as f64 * self.step).abs() * (reach / spacing + 1.0)
            }
            _ => 0.0,
        };
        2.0 * Self::slack(pair, reach) + lattice
    }
}
