//! How far the floating-point sums of this module can be off, and the slack that pays for it.
//!
//! Let `u = 2⁻⁵³`. A sum of non-negative terms in which every term passes through at most `n` additions and `r` other
//! roundings is off by at most the factor `1 ± γ`, `γ = (n + r)u / (1 − (n + r)u)`, in any order of additions (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 4.2). Two kinds of sums are computed for a row of
//! `d` elements in leaves of `dᵢ`: powers in blocks of 4096 and 32 lanes ([`crate::clip::kernels::measure`]), and certificates in blocks
//! of 1024 and 16 lanes ([`crate::clip::kernels::add_rows`]). Both pass through at most
//!
//! > n = 140 + Σᵢ (⌈dᵢ/1024⌉ + 1)
//!
//! additions: of the first kind 128 in a lane, 5 to fold the lanes, and one for every block; of the second 64 in a lane, 4 to
//! fold the lanes, and one for every time that they are folded, which is at most once for every block. (Threads that share
//! a row take 2¹⁵ columns at a time, which makes the paths shorter.) `r = 1`: the square itself.
//! With `e = (n + 8)u`, which is at most 2⁻¹⁵ for any row that fits into 2⁴⁸ bytes, `γ ≤ 1.01 e` for both. The slacks:
//!
//! | slack | where | why it suffices |
//! |---|---|---|
//! | 2e | a certificate must stay below `(C/g)²(1 − 2e)` | sound: `1.01 e` for the sum, less than `0.1 e` to form and compare the limit |
//! | 4e | factors are shrunk by `1 − 4e` | L1 norms are off by `1.01 e`, L2 norms by half of it; the certificate's `2e + 1.01 e` counts half as well; 6u for √, +, ÷, ×: 2.1 e |
//! | 8e | a norm farther than this from `C` is decided without exact arithmetic | `1.01 e` for the sum, 3u for `C²`; below, the certificate's `2e + 1.01 e` besides: 4.2 e |

/// `e`, for rows of one layout.
#[derive(Clone, Copy, Debug)]
pub(in crate::clip) struct ErrorBudget(f64);

impl ErrorBudget {
    /// Returns the budget for rows with leaves of these widths.
    pub(in crate::clip) fn new(widths: impl Iterator<Item = usize>) -> Self {
        let blocks: usize = widths.map(|width| width.div_ceil(1024) + 1).sum();
        Self((148 + blocks) as f64 * (f64::EPSILON / 2.0))
    }

    /// Returns the largest floating-point sum of squares that proves that the exact one is at most `norm²`.
    pub(in crate::clip) fn certified(self, norm: f64) -> f64 {
        norm * norm * (1.0 - 2.0 * self.0)
    }

    /// Returns what a factor is multiplied by so that rounding errors cannot push a scaled row beyond its bound.
    pub(in crate::clip) fn shrink(self) -> f64 {
        // mutant: factors-not-shrunk
        1.0 - 4.0 * self.0
    }

    /// Returns what a bound is multiplied by: sums up to there are certainly within it.
    pub(in crate::clip) fn below(self) -> f64 {
        1.0 - 8.0 * self.0
    }

    /// Returns what a bound is multiplied by: sums from there on are certainly beyond it.
    pub(in crate::clip) fn above(self) -> f64 {
        1.0 + 8.0 * self.0
    }
}
