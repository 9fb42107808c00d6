//! Planning and refining one question: tilt, window and grid, discretize, compose, read off; then finer where it pays.

pub(super) mod coarse_pair;
pub(super) mod spacing;

use crate::functions::{UNIT, exp, ln, sqrt};
use crate::pld::chernoff::Moments;
use crate::pld::compose::fft::Fft;
use crate::pld::compose::{Composer, Window};
use crate::pld::discretize::{Lower, bracket};
use crate::pld::grid::{MOST_ERROR, Nodes};
use crate::pld::read::Curve;
use crate::pld::types::{Answer, Settings, Step};
use crate::types::Question;
use coarse_pair::Plan;
use spacing::{common, fitting, log2_ceil, short};

/// Limit on the cells of a step: each asks a pair for its masses twice.
const MOST_CELLS: f64 = 524_288.0;

/// Number of nodes above which another tilt is tried.
const RETILT_NODES: f64 = 16384.0;

/// The same before there is an answer.
const FIRST_RETILT_NODES: f64 = 262_144.0;

/// About the norm of rounding errors of a composition, when planning.
const PLANNED_ROUNDING: f64 = 1e-13;

/// A refinement that leaves the width above this part of what it was has met something else than the grid.
const STUCK_RATIO: f64 = 0.9;

/// Absolute width of ε that is always narrow enough.
const NARROW_EPSILON_WIDTH: f64 = 1e-8;

/// Width of ln δ that will do to see whether ε is 0.
const FIRST_LOOK: f64 = 0.05;

/// One question in one direction, between two looks at it.
pub(super) struct Task<'a> {
    steps: &'a [&'a Step<'a>],
    question: Question,
    settings: Settings,
    plan: Plan,
    tilt: f64,
    near: f64,
    step: f64,
    low: f64,
    high: f64,
    lower: Lower,
    is_exact: bool,
    at_limit: bool,
    /// How many cells of steps have been looked at.
    cells: f64,
    /// How much wider the window is than planned.
    margin: f64,
    /// Number of steps.
    total: f64,
    /// ln δ, as far as it is known.
    log_delta: f64,
    /// How many times as wide as wanted the narrowest answer was.
    excess: f64,
    /// Which part of the lower bound was lost to wrap-around.
    wrapped: f64,
    /// What is left of the work that the question may cost.
    work: f64,
    /// How wide the last window was.
    wide: f64,
    /// The last composition, which knows the whole curve.
    curve: Option<Curve>,
}

/// Work of a node of a transform, for each of the steps and for the inverse.
const NODE_WORK: f64 = 0.5;

/// The part of the work that one answer may cost: another one often follows. And the least part: where there is nothing left,
/// a question ends, but an answer that was begun is given.
const WORK_SHARES: (f64, f64) = (0.5, 0.05);

/// What is lost in the tails of a step is this fraction of δ.
const TAIL_SHARE_OF_DELTA: f64 = 1e-9;

/// The smallest tail that is cut where masses need no products: a normal number, even if divided by many steps.
const SMALLEST_TAIL: f64 = 1e-303;

/// Numbers of nodes beyond it are not used.
const MAX_NODES: f64 = (1_u64 << 50) as f64;

/// ln of one over the tilted mass that lies outside of the window.
const OUTSIDE_WINDOW_NATS: f64 = 36.0;

impl<'a> Task<'a> {
    pub(super) fn new(steps: &'a [&'a Step<'a>], question: Question, settings: Settings) -> Self {
        let total: f64 = steps.iter().map(|step| step.count as f64).sum();
        let low = TAIL_SHARE_OF_DELTA / total;
        let mut high = match question {
            Question::Epsilon { delta } => delta * TAIL_SHARE_OF_DELTA / total,
            Question::Delta { .. } => 1e-20 / total,
        };
        let sketch = |high: f64| Plan::new(steps.iter().map(|step| (step.pair, step.count)), (low.min(1e-3), high));
        let mut plan = sketch(high.max(1e-290));
        let (tilt, near, log_delta) = match question {
            Question::Epsilon { delta } => {
                let (tilt, near) = plan.for_delta(delta);
                (tilt, near, ln(delta))
            }
            Question::Delta { epsilon } => {
                let (_, log_delta) = plan.for_epsilon(epsilon);
                high = exp(log_delta) * TAIL_SHARE_OF_DELTA / total;
                plan = sketch(high.max(1e-290));
                (plan.for_epsilon(epsilon).0, epsilon, log_delta)
            }
        };
        let mut task = Self {
            steps,
            question,
            settings,
            plan,
            tilt,
            near,
            step: 0.0,
            low,
            high: high.max(1e-290),
            lower: Lower::Merged,
            is_exact: false,
            at_limit: false,
            cells: 0.0,
            margin: 1.0,
            total,
            log_delta,
            excess: f64::INFINITY,
            wrapped: 0.0,
            work: settings.work,
            wide: 0.0,
            curve: None,
        };
        task.choose_step();
        task
    }

    /// Takes a step that will do unless this direction turns out to be the worse one.
    pub(super) fn coarsen(&mut self) {
        if !self.is_exact && self.settings.step.is_none() {
            self.set_step(4.0 * self.step);
        }
    }

    /// Returns the width of ln δ that is aimed at.
    fn goal(&self) -> f64 {
        let wanted = self.settings.tolerance * self.tilt * self.near;
        match self.question {
            Question::Epsilon { .. } => wanted.max(NARROW_EPSILON_WIDTH * self.tilt),
            Question::Delta { .. } => wanted.max(self.settings.tolerance),
        }
    }

    fn choose_step(&mut self) {
        if let Some(step) = self.settings.step {
            self.step = step;
            return;
        }
        let (spacings, all_lattices) = self.spacings();
        if all_lattices && let Some(step) = common(&spacings) {
            self.step = step;
            self.is_exact = true;
            return;
        }
        let may_be_nothing = self.near * self.tilt < FIRST_LOOK;
        let goal = if may_be_nothing { FIRST_LOOK } else { 0.7 * self.goal() };
        let (mut fine, mut coarse) = (self.plan.reach() * 1e-9, self.plan.reach());
        for _ in 0..40 {
            let middle = sqrt(fine * coarse);
            if self.plan.width(self.tilt, middle) <= goal { fine = middle } else { coarse = middle }
        }
        self.set_step(fine);
    }

    /// Takes a step no larger than `wanted`, such that atoms at the ends of bounded losses get nodes where possible.
    fn set_step(&mut self, wanted: f64) {
        self.step = fitting(&self.spacings().0, wanted);
    }

    /// Returns the distances that the step should divide, and whether they are those of lattices, all of them.
    fn spacings(&self) -> (Vec<f64>, bool) {
        let mut found: Vec<f64> = Vec::new();
        let mut all = true;
        for step in self.steps {
            let spacing = step.pair.lattice().map(|(_, spacing)| spacing);
            all &= spacing.is_some();
            let (lowest, highest) = step.pair.support();
            let spacing = spacing.or((lowest.is_finite() && highest.is_finite()).then_some(highest - lowest));
            if let Some(spacing) = spacing
                && found.len() < 16
                && !found.contains(&spacing)
            {
                found.push(spacing);
            }
        }
        found.sort_by(f64::total_cmp);
        (found, all)
    }

    pub(super) fn answer(&mut self) -> Answer {
        let most = (1_u64 << self.settings.log2_max_nodes) as f64;
        let (tilt, [(below, s_below), (above, s_above)]) = self.window();
        let width = (above - below).max(0.0);
        if !width.is_finite() {
            self.at_limit = true;
            return Answer { lower: 0.0, upper: f64::INFINITY, step: self.step, nodes: 0, tilt };
        }
        self.wide = width;
        let needed = (width / (most - 8.0)).max(self.plan.widest() / MOST_CELLS).max(self.affordable());
        self.at_limit = self.step < needed;
        if self.at_limit {
            self.is_exact = false;
            self.step = short(needed * 1.01, 12);
        }
        let step = self.step;
        let laid = |each: &Step<'_>| Nodes::over(each.pair, step, self.low, self.high);
        let (mut offset, mut spread, mut shift) = (0.0, 0.0, 0.0);
        for each in self.steps {
            let (nodes, times) = (laid(each), each.count as f64);
            offset += times * nodes.offset;
            spread += times * nodes.offset.abs();
            shift += times * nodes.shift(each.pair);
        }
        let shift = shift * (1.0 + 1e-9) + UNIT * (4.0 + self.steps.len() as f64) * spread;
        // numbers of nodes are exact as floats, and far from the ends of integers
        let is_near = |loss: f64| ((loss - offset) / step).abs() < MAX_NODES;
        let is_unknown = |each: &&Step<'_>| laid(each).error(each.pair) > MOST_ERROR;
        if ![below, above, self.near].into_iter().all(is_near) || self.steps.iter().any(is_unknown) {
            self.at_limit = true;
            return Answer { lower: 0.0, upper: f64::INFINITY, step, nodes: 0, tilt };
        }
        let fft = Fft::new(log2_ceil(width / step + 8.0).clamp(2, self.settings.log2_max_nodes));
        let room = 0.5 * (fft.size() as f64 - width / step).max(0.0);
        let window = Window {
            first: (libm::floor((below - offset) / step - room) as i64).saturating_add(1),
            theta: short(tilt * step, 24),
            above: short(s_above * step, 24),
            below: short(s_below * step, 24),
        };
        self.work -= NODE_WORK * fft.size() as f64 * (self.steps.len() as f64 + 1.0);
        let mut composer = Composer::new(&fft, window, step);
        let mut rounded = 0.0;
        for each in self.steps {
            let nodes = laid(each);
            self.cells += (nodes.last - nodes.first) as f64;
            self.work -= each.pair.effort() * (nodes.last - nodes.first) as f64;
            let both = bracket(each.pair, nodes, self.lower);
            rounded += each.count as f64 * both.rounded;
            composer.add(&both, each.count);
        }
        // rounding down costs about half a step of each loss, the other way 3.3·t(t + 1)·v, if v is small (see `gap`)
        let spread = 0.25 * step * step * self.total;
        let (by_rounding, by_spread) = (0.5 * self.tilt * step * rounded, 3.3 * self.tilt * (self.tilt + 1.0) * spread);
        if by_rounding > by_spread.max(0.5 * self.goal()) && spread < 0.1 && self.lower == Lower::Merged {
            self.lower = Lower::Spread;
            return self.answer();
        }
        let curve = Curve::new(composer.finish(), self.near, shift);
        let (lower, upper) = match self.question {
            Question::Epsilon { delta } => (curve.epsilon_lower(delta), curve.epsilon_upper(delta)),
            Question::Delta { epsilon } => (curve.delta_lower(epsilon), curve.delta_upper(epsilon)),
        };
        let asked = match self.question {
            Question::Epsilon { .. } if upper.is_finite() => upper,
            Question::Epsilon { .. } => self.near,
            Question::Delta { epsilon } => epsilon,
        };
        self.wrapped = curve.wrapped(asked);
        self.curve = Some(curve);
        Answer { lower, upper, step, nodes: fft.size(), tilt: window.theta / step }
    }

    /// Returns the finest step on which an answer costs no more than it may; 0 where the step was given.
    ///
    /// Half of that goes to the cells of the steps, half to the nodes of transforms, whose number is a power of two.
    fn affordable(&self) -> f64 {
        if self.settings.step.is_some() {
            return 0.0;
        }
        let half = 0.5 * (WORK_SHARES.0 * self.settings.work).min(self.work).max(WORK_SHARES.1 * self.settings.work);
        let nodes = half / (NODE_WORK * (self.steps.len() as f64 + 1.0));
        let nodes = libm::exp2(libm::floor(libm::log2(nodes.max(64.0))));
        (self.wide / (nodes - 8.0)).max(self.plan.effort() / half)
    }

    /// Returns a tilt and the window for it: the tilt of the saddle point, or a smaller one where that saves nodes.
    ///
    /// Where few steps have a large loss, tilting makes those frequent and the window wide; then rounding errors, which are
    /// relative to e^(K(t) − tε), may be allowed to grow as long as they stay negligible.
    fn window(&self) -> (f64, [(f64, f64); 2]) {
        let widened = |tilt: f64| {
            let [(below, s_below), (above, s_above)] = self.plan.window(tilt, OUTSIDE_WINDOW_NATS);
            let center = self.plan.cumulants(tilt).slope.clamp(below.min(above), above);
            let (below, above) = (center - self.margin * (center - below), center + self.margin * (above - center));
            [(below, s_below), (above, s_above)]
        };
        let mut best = (self.tilt, widened(self.tilt));
        let width = |window: [(f64, f64); 2]| window[1].0 - window[0].0;
        // what the plan expects of ε may be far off: only an answer tells how large the noise may be
        let nodes = width(best.1) / self.step;
        if nodes < if self.excess.is_finite() { RETILT_NODES } else { FIRST_RETILT_NODES } {
            return best;
        }
        // relative to δ, see `read`
        let exponent = |t: f64| self.plan.cumulants(t).value - t * self.near - self.log_delta;
        let noise = |t: f64| {
            (PLANNED_ROUNDING + 8.0 * UNIT * self.total) * exp(exponent(t)) / sqrt(4.0 * t * t * t * self.step)
        };
        for j in 1..12 {
            let tilt = self.tilt * libm::exp2(-0.5 * f64::from(j));
            if noise(tilt) > 0.02 * self.goal() {
                break;
            }
            let window = widened(tilt);
            if width(window) < 0.8 * width(best.1) {
                best = (tilt, window);
            }
        }
        best
    }

    /// Returns the last composition, if there was any.
    pub(super) fn into_curve(self) -> Option<Curve> {
        self.curve
    }

    /// Returns the upper bound by moments alone.
    pub(super) fn by_moments(&self) -> f64 {
        let by = |high: f64| {
            let moments = Moments::new(self.steps.iter().map(|step| (step.pair, step.count)), self.low, high);
            match self.question {
                Question::Epsilon { delta } => moments.epsilon(delta),
                Question::Delta { epsilon } => moments.delta(epsilon),
            }
        };
        // where the plan took δ for larger than it is, tails were cut that are more than the rest
        by(self.high).min(by(SMALLEST_TAIL / self.total))
    }

    /// Chooses a finer grid, if that can bring the bounds closer together and they are not close enough.
    pub(super) fn refine(&mut self, answer: Answer) -> bool {
        let width = match self.question {
            Question::Epsilon { .. } => (answer.upper - answer.lower) * self.tilt,
            Question::Delta { .. } => 1.0 - answer.lower / answer.upper.max(f64::MIN_POSITIVE),
        };
        if let Question::Delta { .. } = self.question {
            self.log_delta = ln(answer.upper);
        } else if answer.upper.is_finite() {
            if (answer.upper - self.near).abs() * self.tilt > 1.0 {
                self.tilt = self.plan.for_epsilon(answer.upper).0;
            }
            self.near = answer.upper;
        }
        if answer.upper == 0.0 {
            return false;
        }
        if self.work < WORK_SHARES.1 * self.settings.work && self.settings.step.is_none() {
            return false;
        }
        let excess = width / self.goal();
        if excess > 1.0 && self.wrapped > 0.1 * self.goal().min(1.0) && !self.at_limit {
            self.margin *= 1.5;
            return true;
        }
        let is_stuck = excess > STUCK_RATIO * self.excess;
        self.excess = self.excess.min(excess);
        if excess <= 1.0
            || is_stuck
            || self.is_exact
            || self.at_limit
            || self.settings.step.is_some()
            || !excess.is_finite()
        {
            return false;
        }
        let before = self.step;
        let finer = (0.9 / sqrt(excess)).clamp(1.0 / 16.0, 0.8);
        if self.cells > MOST_CELLS * finer * self.steps.len() as f64 {
            return false;
        }
        let (wanted, affordable) = (self.step * finer, 1.01 * self.affordable());
        self.set_step(wanted.max(affordable));
        self.step < 0.9 * before
    }
}
