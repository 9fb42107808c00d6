//! What the grid method asks of a mechanism: the masses of its privacy losses.

use crate::functions::exp;

/// P- and Q-mass of a set of losses, each with a bound on its relative error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mass {
    /// Mass under P.
    pub p: f64,
    /// Mass under Q.
    pub q: f64,
}

impl Mass {
    /// Returns the masses of two disjoint sets together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { p: self.p + other.p, q: self.q + other.q }
    }
}

/// A pair (P, Q) seen through its privacy loss L = ln dP/dQ.
///
/// # Numerics
///
/// Two errors, both stated by the pair. A mass is within [`Self::relative_error`], where it is a normal number, of the mass
/// of losses between two boundaries that differ from those requested by at most [`Self::loss_error`], relatively to
/// max(1, |boundary|): the inverse of a loss is itself a rounded function. Where a boundary is moved to depends on that
/// boundary alone, never falls when it rises, and is the same for P and Q, so that neighboring cells never overlap or leave
/// a gap. In other words masses are those of *a* pair whose losses differ from the true ones by so much: an accountant adds
/// that, times the number of steps, to its ε. A pair that only bounds from above may have a total mass beyond 1.
pub trait LossPair: Send + Sync {
    /// Returns the masses of the losses in (lower, upper], atoms included.
    ///
    /// `lower` may be −∞ and `upper` +∞; losses of ±∞, where Q or P is 0, are not included.
    fn mass(&self, lower: f64, upper: f64) -> Mass;

    /// Returns the same, `p` multiplied by `e^exponents.0` and `q` by `e^exponents.1`: where losses are large, one of them
    /// underflows without.
    fn scaled(&self, lower: f64, upper: f64, exponents: (f64, f64)) -> Mass {
        let Mass { p, q } = self.mass(lower, upper);
        Mass { p: p * exp(exponents.0), q: q * exp(exponents.1) }
    }

    /// Returns the masses for a finite `lower`, `q` multiplied by `e^lower`: a number ≤ `p`, up to rounding.
    fn cell(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, lower))
    }

    /// Returns the P-mass of the loss +∞.
    fn infinite(&self) -> f64;

    /// Returns the Q-mass of the loss −∞.
    fn negative_infinite(&self) -> f64 {
        0.0
    }

    /// Returns a bound on the relative error of every mass.
    fn relative_error(&self) -> f64;

    /// Returns how far boundaries may be moved, relatively to max(1, |boundary|).
    fn loss_error(&self) -> f64 {
        0.0
    }

    /// Returns losses (lo, hi) such that P[−∞ < L ≤ lo] ≤ x and P[hi < L < ∞] ≤ x, `hi` finite; where the support is bounded,
    /// its ends.
    fn range(&self, x: f64) -> (f64, f64);

    /// Returns the same under Q.
    fn range_under_q(&self, x: f64) -> (f64, f64);

    /// Returns ends between which every finite loss lies; no mass at all is beyond them.
    fn support(&self) -> (f64, f64) {
        (f64::NEG_INFINITY, f64::INFINITY)
    }

    /// Returns (offset, spacing) if every finite loss is offset + k·spacing for an integer k.
    fn lattice(&self) -> Option<(f64, f64)>;

    /// Returns about how long it takes to find the masses of a cell, that of Gaussian noise being 1. Measured, and no bound:
    /// it decides how fine a grid may be, so that a question ends in time.
    fn effort(&self) -> f64 {
        1.0
    }
}
