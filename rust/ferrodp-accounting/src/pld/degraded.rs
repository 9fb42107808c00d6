//! Each term of the error budget, left out: then a bound is wrong that holds with it.

use super::compose::fft::Fft;
use super::compose::{Composer, Composition, Window};
use super::discretize::{Lower, bracket};
use super::grid::Nodes;
use super::pair::{LossPair, Mass};
use super::pairs::{FiniteLosses, Gaussian, PoissonSampled};
use super::query::bounds;
use super::read::Curve;
use super::single;
use crate::functions::{expm1, ln_1p, sqrt};
use crate::pld::types::{Settings, Step};
use crate::types::Question;

/// Bounds on δ(ε) of one pair, from its own masses; of n Gaussians, that of noise z/√n.
fn truth(pair: impl LossPair + 'static, epsilon: f64) -> (f64, f64) {
    let pairs: [Box<dyn LossPair>; 1] = [Box::new(pair)];
    let found = single::largest_delta(&pairs, epsilon);
    (found.lower, found.upper)
}

fn composed(pair: &dyn LossPair, count: u64, nodes: Nodes, exponent: u32, window: Window, kind: Lower) -> Composition {
    let fft = Fft::new(exponent);
    let mut composer = Composer::new(&fft, window, nodes.step);
    composer.add(&bracket(pair, nodes, kind), count);
    composer.finish()
}

/// Losses of a pair that are said to be smaller than they are, masses that are said to be other than they are.
struct Lying {
    pair: Box<dyn LossPair>,
    /// By how much losses are understated.
    loss: f64,
    /// By how much P-masses are understated and Q-masses overstated, relatively.
    mass: f64,
    /// Whether it says so.
    admits: bool,
}

impl LossPair for Lying {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        let Mass { p, q } = self.pair.mass(lower + self.loss, upper + self.loss);
        Mass { p: p * (1.0 - self.mass), q: q * (1.0 + self.mass) }
    }

    fn infinite(&self) -> f64 {
        0.0
    }

    fn relative_error(&self) -> f64 {
        self.pair.relative_error() + if self.admits { 2.0 * self.mass } else { 0.0 }
    }

    fn loss_error(&self) -> f64 {
        if self.admits { self.loss } else { 0.0 }
    }

    fn range(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.pair.range(x);
        (low - 1.0, high + 1.0)
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = self.pair.range_under_q(x);
        (low - 1.0, high + 1.0)
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        self.pair.lattice().map(|(offset, spacing)| (offset - self.loss, spacing))
    }
}

fn asked(pair: &dyn LossPair, count: u64, epsilon: f64) -> (f64, f64) {
    let settings = Settings { tolerance: 1e-5, ..Settings::default() };
    let answer = bounds(&[Step { pair, count }], Question::Delta { epsilon }, settings, 0.0);
    (answer.lower, answer.upper)
}

#[test]
fn errors_of_losses() {
    // a lattice: elsewhere masses tell where losses lie
    let honest = FiniteLosses::epsilon_delta(0.25, 0.0);
    let (exact, _) = asked(&honest, 16, 1.0);
    for (admits, holds) in [(true, true), (false, false)] {
        let pair = Lying { pair: Box::new(FiniteLosses::epsilon_delta(0.25, 0.0)), loss: 1e-4, mass: 0.0, admits };
        let (_, upper) = asked(&pair, 16, 1.0);
        assert_eq!(upper >= exact, holds);
    }
}

#[test]
fn errors_of_masses() {
    let exact = truth(Gaussian::new(0.5), 1.0).0;
    for (admits, holds) in [(true, true), (false, false)] {
        let pair = Lying { pair: Box::new(Gaussian::new(2.0)), loss: 0.0, mass: 1e-4, admits };
        let (_, upper) = asked(&pair, 16, 1.0);
        assert_eq!(upper >= exact, holds);
    }
}

#[test]
fn tail_of_a_step() {
    let pair = Gaussian::new(1.0);
    let law = bracket(&pair, Nodes::over(&pair, 0.01, 1e-9, 1e-3), Lower::Merged).upper;
    let at = |p: &[f64], infinity: f64| {
        let loss = |i: usize| law.offset + (law.first + i as i64) as f64 * law.step;
        p.iter().enumerate().map(|(i, p)| p * -expm1((4.0 - loss(i)).min(0.0))).sum::<f64>() + infinity
    };
    let exact = truth(pair, 4.0).1;
    assert!(at(&law.p, law.infinity) >= exact);
    assert!(at(&law.p, 0.0) < exact);
}

/// What rounding in a transform may have done is taken for done, in the wrong direction; it grows with the number of steps.
#[test]
fn noise_of_the_transforms() {
    let pair = Gaussian::new(4.0);
    let nodes = Nodes::over(&pair, 0.03125, 1e-12, 1e-12);
    let window = Window { first: -512, theta: 0.03125, above: 0.03125, below: 0.03125 };
    let composition = |count| composed(&pair, count, nodes, 11, window, Lower::Merged);
    assert!(composition(64).noise > 8.0 * composition(1).noise);
    let (epsilon, mut noisy) = (3.0, composition(16));
    let quiet = Curve::new(noisy.clone(), epsilon, 0.0);
    noisy.noise = 1e-4;
    let noisy = Curve::new(noisy, epsilon, 0.0);
    assert!(noisy.delta_upper(epsilon) > quiet.delta_upper(epsilon) * 1.0001);
    assert!(noisy.delta_lower(epsilon) < quiet.delta_lower(epsilon) * 0.9999);
}

#[test]
fn wrap_around() {
    // losses of 32 ± 8, tilted to 64 ± 8, that is nodes 512 ± 64, in windows of 256 or 2048 nodes
    let pair = Gaussian::new(1.0);
    let nodes = Nodes::over(&pair, 0.125, 1e-12, 1e-12);
    let window = |first| Window { first, theta: 0.0625, above: 0.03125, below: 0.03125 };
    let count = 64;
    // high up: mass from below comes in from the other side
    let composition = composed(&pair, count, nodes, 8, window(320), Lower::Merged);
    let epsilon = 45.0;
    let (exact, _) = truth(Gaussian::new(0.125), epsilon);
    let mut careless = composition.clone();
    careless.lower.log_below = f64::NEG_INFINITY;
    careless.lower.log_above = f64::NEG_INFINITY;
    assert!(Curve::new(careless, epsilon, 0.0).delta_lower(epsilon) > exact);
    assert!(Curve::new(composition, epsilon, 0.0).delta_lower(epsilon) <= exact);
    // low down: what lies above is missing, and comes in far below
    let composition = composed(&pair, count, nodes, 11, window(-1700), Lower::Merged);
    let (_, exact) = truth(Gaussian::new(0.125), 20.0);
    let mut careless = composition.clone();
    careless.upper.log_above = f64::NEG_INFINITY;
    assert!(Curve::new(careless, 20.0, 0.0).delta_upper(20.0) < exact);
    assert!(Curve::new(composition, 20.0, 0.0).delta_upper(20.0) >= exact);
}

#[test]
fn rounding_of_transforms() {
    // far from where it is tilted to, all that is computed is noise
    let pair = Gaussian::new(4.0);
    let nodes = Nodes::over(&pair, 0.01, 1e-40, 1e-40);
    let window = Window { first: -2048, theta: 0.0009765625, above: 0.1875, below: 0.1875 };
    let composition = composed(&pair, 16, nodes, 12, window, Lower::Merged);
    let epsilon = 9.5;
    let (low, high) = truth(Gaussian::new(1.0), epsilon);
    assert!(high < 1e-18);
    let holds = |composition: Composition| {
        let curve = Curve::new(composition, epsilon, 0.0);
        curve.delta_lower(epsilon) <= high && low <= curve.delta_upper(epsilon)
    };
    let mut careless = composition.clone();
    careless.noise = 0.0;
    assert!(!holds(careless));
    assert!(holds(composition));
}

#[test]
fn rounding_of_powers_and_tilts() {
    // 10¹² steps: the total mass, exactly 1, is visibly off, but no more than is said
    let pair = FiniteLosses::epsilon_delta(1e-6, 0.0);
    let nodes = Nodes::over(&pair, 2e-6, 1e-20, 1e-20);
    let window = Window { first: 0, theta: 9.5367431640625e-7, above: 1e-6, below: 1e-6 };
    let composition = composed(&pair, 1_000_000_000_000, nodes, 8, window, Lower::Merged);
    for side in [&composition.upper, &composition.lower] {
        let total: f64 = side.tilted.iter().sum();
        let off = ln_1p(total - 1.0).abs();
        assert!(off > 1e-9);
        let noise = composition.noise * sqrt(side.tilted.len() as f64);
        assert!(off <= composition.relative + 2.0 * noise);
    }
}

#[test]
fn what_connecting_dots_adds() {
    let inner = FiniteLosses::randomized_response(0.5, 4.0);
    let pair = PoissonSampled::new(0.3, inner);
    let nodes = Nodes::over(&pair, 0.05, 1e-12, 1e-12);
    let window = Window { first: -200, theta: 0.0625, above: 0.03125, below: 0.03125 };
    let composition = composed(&pair, 1, nodes, 9, window, Lower::Spread);
    assert!(composition.spread > 0.0);
    let mut wrong = 0;
    for i in 0..40 {
        let epsilon = 0.02 * f64::from(i);
        let (_, exact) = truth(PoissonSampled::new(0.3, FiniteLosses::randomized_response(0.5, 4.0)), epsilon);
        let mut careless = composition.clone();
        careless.spread = 0.0;
        wrong += usize::from(Curve::new(careless, epsilon, 0.0).delta_lower(epsilon) > exact);
        assert!(Curve::new(composition.clone(), epsilon, 0.0).delta_lower(epsilon) <= exact);
    }
    assert!(wrong > 0);
}
