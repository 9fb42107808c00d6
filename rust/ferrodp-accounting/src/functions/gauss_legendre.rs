//! Gauss–Legendre quadrature with 20 nodes, and what it can be wrong by.
//!
//! If `|f| ≤ M` inside the ellipse with foci at the ends of `[c − w, c + w]` whose half-axes are `w·(ρ ± 1/ρ)/2`, the rule is
//! within `w·(64/15)·M·ρ^{−38}/(1 − ρ^{−2})` of the integral (Trefethen, "Approximation theory and approximation practice",
//! 2013, Theorem 19.3 with `n = 19`).

use crate::functions::ln;

/// Nodes in (0, 1) and weights of the rule on [−1, 1], which is symmetric; rounded to nearest.
pub(crate) const HALF_RULE: [(f64, f64); 10] = [
    (0.076_526_521_133_497_34, 0.152_753_387_130_725_84),
    (0.227_785_851_141_645_07, 0.149_172_986_472_603_74),
    (0.373_706_088_715_419_55, 0.142_096_109_318_382_04),
    (0.510_867_001_950_827_1, 0.131_688_638_449_176_64),
    (0.636_053_680_726_515, 0.118_194_531_961_518_41),
    (0.746_331_906_460_150_8, 0.101_930_119_817_240_44),
    (0.839_116_971_822_218_8, 0.083_276_741_576_704_75),
    (0.912_234_428_251_326, 0.062_672_048_334_109_07),
    (0.963_971_927_277_913_8, 0.040_601_429_800_386_94),
    (0.993_128_599_185_094_9, 0.017_614_007_139_152_118),
];

/// Returns the nodes and weights on `[center − half, center + half]`.
///
/// # Numerics
/// A node is within 2 units of `|center| + half` of the rule's, a weight within 2 units of itself.
pub(crate) fn nodes(center: f64, half: f64) -> impl Iterator<Item = (f64, f64)> {
    HALF_RULE
        .into_iter()
        .flat_map(move |(node, weight)| [(center - half * node, half * weight), (center + half * node, half * weight)])
}

/// An ellipse around a panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ellipse {
    /// Largest distance of its real parts from the center.
    pub(crate) reach: f64,
    /// Largest imaginary part.
    pub(crate) height: f64,
    /// Logarithm of what to multiply a bound on the integrand with.
    pub(crate) log_factor: f64,
}

/// Returns the ellipses that are tried around a panel of that half-width.
pub(crate) fn ellipses(half: f64) -> impl Iterator<Item = Ellipse> {
    [1.6, 2.2, 3.0, 4.0, 5.5, 7.5, 10.0, 14.0, 20.0].into_iter().map(move |rho: f64| Ellipse {
        reach: 0.501 * half * (rho + 1.0 / rho),
        height: 0.501 * half * (rho - 1.0 / rho),
        log_factor: ln(4.3 * half / (1.0 - 1.0 / (rho * rho))) - 38.0 * ln(rho),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_of_degree_39_are_integrated_and_no_others() {
        for degree in (0..=40).step_by(2) {
            let found: f64 = nodes(0.0, 1.0).map(|(x, weight)| weight * x.powi(degree)).sum();
            let exact = 2.0 / f64::from(degree + 1);

            // 20 terms, each with a weight and a power of 40 roundings
            let is_close = (found - exact).abs() < 100.0 * f64::EPSILON * exact;
            // Of degree 40 it misses 2⁴¹·(20!)⁴/(41·(40!)²) · 40!/… ≈ 7·10⁻¹²·…: seen against the leading coefficient.
            assert!(is_close || degree == 40, "degree {degree}: {found} instead of {exact}");
        }
    }
}
