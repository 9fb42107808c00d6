//! One step: δ(ε) and ε(δ) of pairs, between proven bounds.

use super::pair::LossPair;
use crate::functions::{UNIT, expm1};
use crate::types::Bounds;

/// Below it masses are no longer normal numbers, and their errors no longer relative.
const MIN_NORMAL_MASS: f64 = 4.0 * f64::MIN_POSITIVE;

/// Returns bounds on `δ(ε) = P[L > ε] − e^ε·Q[L > ε]`, `L = ∞` included, of one pair.
///
/// # Numerics
///
/// With τ the error of the boundary and η that of the masses: P(S) − e^ε·Q(S) ≤ δ(ε) for *any* set S, so that the computed set
/// gives the lower bound. For the upper one the boundary is put 2τ lower, so that the computed set holds all L > ε; what
/// it holds beyond, at most 3τ below ε, takes away no more than (e^{3τ} − 1)·P(S).
#[must_use]
pub fn delta(pair: &dyn LossPair, epsilon: f64) -> Bounds {
    let error = inverse_error(pair);
    let shift = pair.loss_error() * epsilon.abs().max(1.0);
    let (lost, more) = (1.0 - error, 1.0 + error);
    let infinite = pair.infinite();
    if epsilon >= pair.support().1 {
        return Bounds { lower: (infinite * lost).min(1.0), upper: (infinite * more).min(1.0) };
    }
    let at = pair.cell(epsilon, f64::INFINITY);
    let lower = at.p * lost - at.q * more + infinite * lost - MIN_NORMAL_MASS;
    let below = if shift > 0.0 { pair.cell((epsilon - 2.0 * shift).next_down(), f64::INFINITY) } else { at };
    let slack = expm1(3.5 * shift).min(1e300);
    let upper = below.p * more - below.q * lost + slack * below.p * more + infinite * more + MIN_NORMAL_MASS;
    Bounds { lower: lower.clamp(0.0, 1.0), upper: upper.clamp(0.0, 1.0) }
}

/// Returns how far exact masses may be from computed ones, relatively to the latter; with four operations on them.
fn inverse_error(pair: &dyn LossPair) -> f64 {
    let error = pair.relative_error();
    if error < 0.5 { error / (1.0 - error) + 8.0 * UNIT } else { 1.0 }
}

/// Returns bounds on the largest δ(ε) of several pairs: the directions of a neighboring relation.
#[must_use]
pub fn largest_delta(pairs: &[Box<dyn LossPair>], epsilon: f64) -> Bounds {
    pairs.iter().fold(Bounds { lower: 0.0, upper: 0.0 }, |worst, pair| {
        let here = delta(pair.as_ref(), epsilon);
        Bounds { lower: worst.lower.max(here.lower), upper: worst.upper.max(here.upper) }
    })
}

/// Returns bounds on the least ε ≥ 0 with δ(ε) ≤ `target` for every pair; infinite if there is none.
///
/// `upper` is a float for which δ(upper) ≤ `target` was proven, and `lower` one for which δ(lower) > `target` was, or 0. The
/// bounds on δ need not be monotone to their last bits; certificates do not ask for it.
#[must_use]
pub fn epsilon(pairs: &[Box<dyn LossPair>], target: f64) -> Bounds {
    if pairs.iter().any(|pair| pair.infinite() * (1.0 - inverse_error(pair.as_ref())) > target) {
        return Bounds { lower: f64::INFINITY, upper: f64::INFINITY };
    }
    let upper = first(|epsilon| largest_delta(pairs, epsilon).upper <= target);
    let above = first(|epsilon| largest_delta(pairs, epsilon).lower <= target);
    let lower = if above == 0.0 { 0.0 } else { above.next_down() };
    Bounds { lower: lower.min(upper), upper }
}

/// Returns a float ≥ 0 where `holds` is true and, unless it is 0, false at the one before; infinite if false everywhere.
fn first(holds: impl Fn(f64) -> bool) -> f64 {
    if holds(0.0) {
        return 0.0;
    }
    let (mut no, mut yes) = (0_u64, f64::INFINITY.to_bits());
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(f64::from_bits(middle)) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    f64::from_bits(yes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pair::Mass;
    use crate::pld::pairs::Gaussian;

    /// A Gaussian pair whose masses and boundaries are as wrong as `actual` says, and which admits to `stated`.
    struct Wrong {
        actual: (f64, f64),
        stated: (f64, f64),
    }

    const Z: f64 = 1.3;

    impl LossPair for Wrong {
        fn mass(&self, lower: f64, upper: f64) -> Mass {
            self.scaled(lower, upper, (0.0, 0.0))
        }

        fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
            let moved = |loss: f64| if loss.is_finite() { loss + self.actual.1 * loss.abs().max(1.0) } else { loss };
            let Mass { p, q } = Gaussian::new(Z).scaled(moved(lower), moved(upper), exponents);
            Mass { p: p * (1.0 + self.actual.0), q: q * (1.0 - self.actual.0) }
        }

        fn infinite(&self) -> f64 {
            0.0
        }

        /// Beside what is stated, its own errors and those of the truth.
        fn relative_error(&self) -> f64 {
            self.stated.0 + 4.0 * Gaussian::new(Z).relative_error()
        }

        fn loss_error(&self) -> f64 {
            self.stated.1
        }

        fn range(&self, x: f64) -> (f64, f64) {
            Gaussian::new(Z).range(x)
        }

        fn range_under_q(&self, x: f64) -> (f64, f64) {
            Gaussian::new(Z).range_under_q(x)
        }

        fn lattice(&self) -> Option<(f64, f64)> {
            None
        }
    }

    const EPSILONS: [f64; 6] = [-1.0, 0.0, 0.2, 1.0, 2.0, 3.5];

    fn truth(epsilon: f64) -> Bounds {
        delta(&Gaussian::new(Z), epsilon)
    }

    #[test]
    fn stated_errors_keep_both_bounds_right() {
        for sign in [-1.0, 1.0] {
            for error in [(1e-6, 0.0), (0.0, 1e-6), (1e-4, 1e-3), (1e-4, -1e-3)] {
                let pair = Wrong { actual: (sign * error.0, sign * error.1), stated: (error.0, error.1.abs()) };
                for epsilon in EPSILONS {
                    let (exact, bounds) = (truth(epsilon), delta(&pair, epsilon));

                    assert!(bounds.lower <= exact.lower && exact.upper <= bounds.upper, "{error:?} {epsilon}");
                }
            }
        }
    }

    /// Without the errors of masses a bound fails on one side or the other; a boundary in the wrong place can only make δ
    /// too small, whence the upper bound needs its error.
    #[test]
    fn unstated_errors_break_a_bound() {
        for (actual, stated) in [((1e-6, 0.0), (0.0, 0.0)), ((-1e-6, 0.0), (0.0, 0.0)), ((0.0, 1e-2), (0.0, 0.0))] {
            let pair = Wrong { actual, stated };
            let broken = EPSILONS.iter().any(|&epsilon| {
                let (exact, bounds) = (truth(epsilon), delta(&pair, epsilon));
                bounds.lower > exact.upper || exact.lower > bounds.upper
            });

            assert!(broken, "{actual:?}");
        }
    }

    #[test]
    fn epsilon_is_infinite_where_an_infinite_loss_is_too_likely() {
        let pairs: Vec<Box<dyn LossPair>> = vec![Box::new(crate::pld::pairs::FiniteLosses::epsilon_delta(1.0, 0.01))];

        assert_eq!(Bounds { lower: f64::INFINITY, upper: f64::INFINITY }, epsilon(&pairs, 0.009));
        assert!(epsilon(&pairs, 0.011).upper < 1.0);
    }
}
