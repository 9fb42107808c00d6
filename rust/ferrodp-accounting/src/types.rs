//! What every part of the crate speaks of: directions, roundings, bounds and questions.

use crate::memory::sort_by;

/// Which of two neighboring datasets comes first. Some laws are those of a sample of one of `T` steps, with `q = 1/T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The first has the record: for a sampled Gaussian P is the mixture `(1−q)·N(0, σ²) + q·N(1, σ²)`, Q is `N(0, σ²)`.
    Remove,
    /// The second has it.
    Add,
}

/// To which side of the truth a law or a number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// No less than the truth; of laws, larger in the order that δ(ε) respects.
    Up,
    /// No more.
    Down,
}

/// A number that no float need hold, between two that do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// No more than it.
    pub lower: f64,
    /// No less than it.
    pub upper: f64,
}

impl Bounds {
    /// The number is zero.
    pub const ZERO: Self = Self { lower: 0.0, upper: 0.0 };
    /// The number is infinite.
    pub const INFINITE: Self = Self { lower: f64::INFINITY, upper: f64::INFINITY };

    /// Returns the larger of two numbers.
    pub(crate) fn max(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub enum Question {
    /// Which ε belongs to this δ in (0, 1).
    Epsilon {
        /// δ
        delta: f64,
    },
    /// Which δ belongs to this ε ≥ 0.
    Delta {
        /// ε
        epsilon: f64,
    },
}

/// Sorts pairs by their first numbers: once in machine code, for all who do.
#[inline(never)]
pub(crate) fn sort_by_first(pairs: &mut [(f64, f64)]) {
    sort_by(pairs, |a, b| a.0.total_cmp(&b.0));
}
