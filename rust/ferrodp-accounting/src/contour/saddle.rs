//! Where to put the contour. Any `c > 0` gives valid bounds; the saddle point gives tight ones, so nothing here need be exact.

use super::composition::Composition;
use super::moments::path::{Path, Rule, Shape};
use super::moments::quadrature::beyond_end;
use super::moments::ratio::Sampled;
use super::moments::real_sums::{Axis, Sums};
use super::moments::support::Support;
use crate::functions::{exp, expm1, ln, ln_1p, sqrt};
use crate::memory::gathered;
use crate::types::Direction;
use ferrodp_core::Isa;

/// The contour stays in this range: within it, `1 + c` is exact for `c` of 20 bits.
const SADDLE_RANGE: (f64, f64) = (1e-9, 1e12);

/// K and its first two derivatives at a real point, to some 6 digits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cumulants {
    pub(super) value: f64,
    pub(super) slope: f64,
    pub(super) curvature: f64,
}

/// The cumulants of a composition in one direction, with logarithms on the real axis kept from one point to the next.
pub(super) struct Curve<'a> {
    composition: &'a Composition,
    direction: Direction,
    grids: Vec<Grid>,
    isa: Isa,
}

/// The logarithms that a curve has computed.
pub(super) struct Grids(Vec<Grid>);

impl<'a> Curve<'a> {
    pub(super) fn new(composition: &'a Composition, direction: Direction) -> Self {
        let sign = direction.power(1.0);
        let grids = gathered(composition.sampled.iter().map(|(event, _)| Grid::new(event, sign)));
        Self { composition, direction, grids, isa: Isa::best() }
    }

    /// Returns what was computed of a curve, for [`Curve::with_grids`].
    pub(super) fn into_grids(self) -> Grids {
        Grids(self.grids)
    }

    /// Returns the curve of the same composition, wherever it is now.
    pub(super) fn with_grids(composition: &'a Composition, direction: Direction, grids: Grids) -> Self {
        Self { composition, direction, grids: grids.0, isa: Isa::best() }
    }

    /// Returns the cumulants of the whole composition at `c`.
    pub(super) fn cumulants(&mut self, c: f64) -> Cumulants {
        let g = self.composition.gaussian;
        let mut total = Cumulants { value: 0.5 * g * c * (1.0 + c), slope: g * (c + 0.5), curvature: g };
        let power = self.direction.power(c);
        for ((event, count), grid) in self.composition.sampled.iter().zip(&mut self.grids) {
            let one = grid.cumulants(self.isa, event, power).unwrap_or_else(|| of_event(event, power));
            total.value += count * one.value;
            total.slope += count * if self.direction == Direction::Remove { one.slope } else { -one.slope };
            total.curvature += count * one.curvature;
        }
        total
    }
}

impl Curve<'_> {
    /// Returns the saddle of `K(c) − εc − ln c − ln(1 + c)`, and the cumulants there.
    pub(super) fn for_epsilon(&mut self, epsilon: f64) -> (f64, Cumulants) {
        self.root(|c, k| {
            (k.slope - epsilon - 1.0 / c - 1.0 / (1.0 + c), k.curvature + 1.0 / (c * c) + 1.0 / ((1.0 + c) * (1.0 + c)))
        })
    }

    /// Returns where the Chernoff bound on ε for `ln δ` is least, that bound, and the cumulants there.
    ///
    /// The bound is `N(c)/c` with `N(c) = K(c) − ln δ + c·ln c − (1 + c)·ln(1 + c)`, and `c²` times its derivative is `c·N′ − N`,
    /// increasing.
    pub(super) fn for_log_delta(&mut self, log_delta: f64) -> (f64, f64, Cumulants) {
        let entropy = |c: f64| c * ln(c / (1.0 + c)) - ln_1p(c);
        let (c, k) = self.root(|c, k| {
            let numerator = k.value - log_delta + entropy(c);
            let slope = k.slope + ln(c / (1.0 + c));
            (c * slope - numerator, c * k.curvature + 1.0 / (1.0 + c))
        });
        (c, (k.value - log_delta + entropy(c)) / c, k)
    }

    /// Returns the root of an increasing function of `c`, by Newton steps in `ln c` within a shrinking bracket.
    ///
    /// Where a tail takes over, functions grow so steeply that Newton's steps creep: on the same side again and again, steps double.
    fn root(&mut self, function: impl Fn(f64, &Cumulants) -> (f64, f64)) -> (f64, Cumulants) {
        const ENOUGH: f64 = 0.01;
        let (mut low, mut high) = (ln(SADDLE_RANGE.0), ln(SADDLE_RANGE.1));
        let mut at = 1.0_f64;
        let mut best = (exp(at), Cumulants::default());
        let (mut least, mut previous) = (0.5 * ENOUGH, 0.0);
        for _ in 0..80 {
            let c = exp(at);
            let k = self.cumulants(c);
            let (value, slope) = function(c, &k);
            let above = value > 0.0 || value.is_nan();
            if above {
                high = at;
            } else {
                low = at;
                best = (c, k);
            }
            if high - low < ENOUGH {
                break;
            }
            let side = if above { -1.0 } else { 1.0 };
            least = if side == previous { 2.0 * least } else { 0.5 * ENOUGH };
            previous = side;
            let newton = (value / (slope * c)).abs();
            let proposed = at + side * newton.clamp(least, 3.0_f64.max(least));
            at = if proposed > low && proposed < high { proposed } else { 0.5 * (low + high) };
        }
        best
    }

    /// Returns K(c), or infinity where it would take many nodes.
    pub(super) fn value_if_cheap(&mut self, c: f64) -> f64 {
        let power = self.direction.power(c);
        let mut total = 0.5 * self.composition.gaussian * c * (1.0 + c);
        for ((event, count), grid) in self.composition.sampled.iter().zip(&mut self.grids) {
            match grid.cumulants(self.isa, event, power) {
                Some(one) => total += count * one.value,
                None => return f64::INFINITY,
            }
        }
        total
    }
}

/// Nodes on the real axis.
struct Grid {
    path: Path,
    first: i64,
    last: i64,
    axis: Axis,
}

/// The most nodes that are summed without asking which of them matter.
const MAX_UNSORTED_NODES: i64 = 300;

/// By how much more the nodes reach than they have to, so that the next power finds them there.
const SPARE_NODES: i64 = 6;

impl Grid {
    fn new(event: &Sampled, sign: f64) -> Self {
        let path = Rule::coarse(event, sign, QUADRATURE_NATS).path(event, 0.0);
        Self { path, first: 0, last: -1, axis: Axis::default() }
    }

    /// Returns the cumulants at a power, unless nodes are too many.
    fn cumulants(&mut self, isa: Isa, event: &Sampled, power: f64) -> Option<Cumulants> {
        let reach = 9.0 * event.sigma;
        let (left, right) = if power > 0.0 {
            (reach, power + reach)
        } else {
            (sqrt(reach * reach - 2.0 * power * -ln_1p(-event.q) * event.variance), reach)
        };
        let step = self.path.step;
        let (first, last) = match self.path.shape {
            Shape::Straight(_) => (-((left / step) as i64) - 1, (right / step) as i64 + 1),
            Shape::Bent { end, scale, .. } => (-((45.0 / step) as i64), ((end + left) / (scale * step)) as i64 + 1),
        };
        if last - first > MAX_UNSORTED_NODES {
            return None;
        }
        self.extend(event, first, last);
        let Sums { level, change, first, second } = self.axis.sums(isa, power);
        let (mass, value) = if level == 0.0 {
            let change = change - beyond_end(event).0;
            (1.0 + change, ln_1p(change))
        } else {
            (change, level + ln(change))
        };
        let slope = first / mass;
        Some(Cumulants { value, slope, curvature: (second / mass - slope * slope).max(0.0) })
    }

    /// Makes sure that the nodes from `first` to `last` are there. Their order does not matter.
    fn extend(&mut self, event: &Sampled, first: i64, last: i64) {
        if first >= self.first && last <= self.last {
            return;
        }
        if self.first > self.last {
            (self.first, self.last) = (first, first - 1);
        }
        let from = if first < self.first { first - SPARE_NODES } else { self.first };
        let to = if last > self.last { last + SPARE_NODES } else { self.last };
        let missing = (from..self.first).chain(self.last + 1..=to);
        let count = (to - from) - (self.last - self.first);
        let path = &self.path;
        let normalizer = path.log_normalizer(event);
        self.axis.extend(missing.map(|index| path.real_point(event, normalizer, index)), count as usize);
        (self.first, self.last) = (from, to);
    }
}

/// Quadrature errors are e to minus this.
const QUADRATURE_NATS: f64 = 30.0;

fn of_event(event: &Sampled, power: f64) -> Cumulants {
    let path = Rule::coarse(event, power, QUADRATURE_NATS).path(event, 0.0);
    let support = Support::find(event, power, &path, QUADRATURE_NATS);
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    for index in support.ranges.iter().flat_map(Clone::clone) {
        let point = path.point(event, index);
        let log = point.log_ratio.value.0;
        let gaussian = point.measure.0 * exp(point.gaussian.0);
        let weight;
        if support.level == 0.0 {
            let grown = power * log;
            let added =
                if grown < 30.0 { gaussian * expm1(grown) } else { point.measure.0 * exp(grown + point.gaussian.0) };
            sum += added;
            weight = gaussian + added;
        } else {
            weight = point.measure.0 * exp(power * log + point.gaussian.0 - support.level);
            sum += weight;
        }
        first += weight * log;
        second += weight * log * log;
    }
    sum -= if support.level == 0.0 { beyond_end(event).0 } else { 0.0 };
    let (mass, value) = if support.level == 0.0 { (1.0 + sum, ln_1p(sum)) } else { (sum, support.level + ln(sum)) };
    let slope = first / mass;
    Cumulants { value, slope, curvature: (second / mass - slope * slope).max(0.0) }
}
