//! Each term of the error budget, left out: then a bound is wrong that holds with it.

use super::{Budget, DROPPED_BY_UNDERFLOW, Integral, Integrand, gaussian_replace_one, log_minkowski};
use crate::functions::twofold::Twofold;
use crate::functions::{UNIT, exp, ln, ln_1p, sqrt};
use core::f64::consts::PI;

/// `(s, q, α)`.
const SETTINGS: [(f64, f64, f64); 8] = [
    (1.0, 0.01, 2.0),
    (0.1, 0.3, 1.5),
    (0.25, 0.01, 60.0),
    (2.0, 0.5, 8.0),
    (4.0, 0.001, 3.3),
    (0.01, 0.9, 256.0),
    (20.0, 0.25, 2.0),
    (0.5, 1e-6, 20.0),
];

/// Counts how often a budget's integral would be too small without one of its terms; with it, it never is.
fn wrong_without(budget: &Budget, term: impl Fn(&Integral) -> f64) -> usize {
    let mut wrong = 0;
    for (s, q, order) in SETTINGS {
        let integrand = Integrand::new(s, q, order);
        let exact = integrand.integral(&Budget::PROVEN);
        let found = integrand.integral(budget);
        // The fine integral is within its own terms of the exact one: some 1e-13 of it.
        let (low, high) = (exact.sum * (1.0 - 1e-11), exact.total());

        assert!(found.total() >= low, "{s} {q} {order}: {found:?} {exact:?}");
        assert!(high <= exact.sum * (1.0 + 1e-11), "{s} {q} {order}: {exact:?}");
        wrong += usize::from(found.total() - term(&found) < low);
    }
    wrong
}

#[test]
fn quadrature() {
    let budget = |log_quadrature| Budget { log_quadrature, ..Budget::PROVEN };
    let wrong: usize =
        [-8.0, -4.0, 0.0, 4.0, 8.0].map(|log| wrong_without(&budget(log), |i| i.quadrature)).iter().sum();
    assert!(wrong >= 3, "{wrong}");
}

#[test]
fn panels_that_are_not_looked_at() {
    let budget = |log_dropped| Budget { log_dropped, ..Budget::PROVEN };
    let wrong: usize = [-20.0, -10.0, -3.0].map(|log| wrong_without(&budget(log), |i| i.dropped)).iter().sum();
    assert!(wrong >= 8, "{wrong}");
}

#[test]
fn tail() {
    let budget = |beyond| Budget { beyond, ..Budget::PROVEN };
    let wrong: usize = [2.0, 3.0, 4.0].map(|beyond| wrong_without(&budget(beyond), |i| i.tail)).iter().sum();
    assert!(wrong >= 5, "{wrong}");
}

/// `(s, q, α, ln(A − 1))`, the last one as a sum of two floats, from mpmath's Gauss–Legendre quadrature of `g` in 40 digits.
const TRUTHS: [(f64, f64, f64, (f64, f64)); 7] = [
    (20.0, 0.25, 2.0, (397.2274112777602, 7.456754694897213e-15)),
    (12.0, 0.03125, 3.5, (617.869924340201, -5.264182650103672e-14)),
    (30.0, 0.5, 2.0, (898.6137056388801, 3.728377347448607e-15)),
    (8.0, 0.125, 6.5, (1130.4836299790811, -4.8913449153588114e-14)),
    (5.0, 0.015625, 12.0, (1600.093402999684, -9.315209093508223e-14)),
    (15.0, 0.375, 3.0, (672.0575122409648, 2.3833031108994716e-14)),
    (2.0, 0.0625, 3.0, (3.697991269969452, -1.427336464651135e-16)),
];

fn difference(log: Twofold, exact: (f64, f64)) -> f64 {
    log.minus(Twofold::sum(exact.0, exact.1)).float()
}

#[test]
fn rounding_of_values_and_sums() {
    let mut wrong = 0;
    for (s, q, order, exact) in TRUTHS {
        let integrand = Integrand::new(s, q, order);
        let found = integrand.integral(&Budget::PROVEN);
        // The scale is a float, and the rest a logarithm near 1, within some units.
        let off = |total: f64| difference(Twofold::sum(integrand.scale, ln(total / sqrt(2.0 * PI))), exact);

        assert!(off(found.total()) >= 0.0, "{s} {q} {order}: {found:?}");
        wrong += usize::from(off(found.total() - found.rounding) < -16.0 * UNIT);
    }
    assert!(wrong >= 2, "{wrong}");
}

#[test]
fn rounding_of_the_scale() {
    // e^scale at scales of some hundred; the integral is exact to a few units there, being told.
    let mut wrong = 0;
    for k in 0..200 {
        let mut integrand = Integrand::new(1.0, 0.5, 2.0);
        integrand.scale = 100.0 + 2.47 * f64::from(k);
        let exact = Twofold::sum(integrand.scale, -0.5 * ln(2.0 * PI)).plus(Twofold::sum(0.0, exp(-integrand.scale)));
        let off = |unit: f64| {
            let log = integrand.log_moment(1.0, unit, DROPPED_BY_UNDERFLOW) * (1.0 + 32.0 * unit);
            Twofold::sum(log, 0.0).minus(exact).float()
        };

        assert!(off(UNIT) >= 0.0, "{k}");
        wrong += usize::from(off(0.0) < 0.0);
    }
    assert!(wrong >= 50, "{wrong}");
}

#[test]
fn underflow() {
    // e⁻⁷⁰⁰·10⁻²⁰ is less than all floats, and more than nothing.
    let mut integrand = Integrand::new(1.0, 0.5, 2.0);
    integrand.scale = -700.0;

    assert_eq!(0.0, integrand.log_moment(1e-20, UNIT, 0.0));
    assert!(integrand.log_moment(1e-20, UNIT, DROPPED_BY_UNDERFLOW) > 1e-324);
    for (noise, q) in [(1e40, 1e-115), (1e30, 1e-120), (1e150, 1e-3), (1e155, 1.0 - UNIT)] {
        assert!(gaussian_replace_one(noise, q, 2.0) > 0.0);
    }
}

#[test]
fn where_the_first_term_of_the_logarithm_is_not_all() {
    // ln A = ln(A − 1) + ln(1 + 1/(A − 1)), of which the second is dropped beyond e⁶⁰⁰: at most e⁻⁶⁰⁰/total.
    let mut integrand = Integrand::new(1.0, 0.5, 2.0);
    integrand.scale = 600.0;
    let total = 1e-250;
    let log = integrand.log_moment(total * sqrt(2.0 * PI), UNIT, DROPPED_BY_UNDERFLOW);

    let left_out = ln_1p(exp(-600.0) / total);
    assert!(log >= (600.0 + ln(total)) + left_out);
    assert!(left_out > 1e-11);
}

#[test]
fn rounding_of_minkowskis_bound() {
    /// `(s, q, α, α·ln(1 + q·(e^z − 1)))`, `z = (α − 1)s²/2`, from mpmath.
    const EXACT: [(f64, f64, f64, (f64, f64)); 6] = [
        (1.0, 0.25, 3.0, (1.0721220585263656, 6.07982386045501e-17)),
        (3.0, 0.0625, 40.0, (6909.096451110408, 2.982701877958885e-13)),
        (0.3, 0.7, 55.0, (116.06984179359313, -2.598794200937595e-16)),
        (2.0, 0.1, 17.0, (504.85605341910315, 1.4015954993007672e-14)),
        (0.1, 0.01, 900.0, (570.8604552325002, 4.951219668905241e-14)),
        (5.0, 0.3, 21.0, (5224.716571109156, -3.2253070826295593e-13)),
    ];
    let mut wrong = 0;
    for (s, q, order, exact) in EXACT {
        let (log, error) = log_minkowski(s, q, order);
        assert!(difference(Twofold::sum(log, error), exact) >= 0.0, "{s} {q} {order}");
        wrong += usize::from(difference(Twofold::sum(log, 0.0), exact) < 0.0);
    }
    assert!(wrong >= 1, "{wrong}");
}

/// Whoever is always chosen, or never, gets what noise gives without sampling, or nothing.
#[test]
fn ends() {
    for (z, order) in [(1.0, 2.0), (0.5, 8.5), (30.0, 1.5)] {
        let whole = 0.5 * order / (z * z);
        let found = gaussian_replace_one(z, 1.0, order);
        assert!(found >= whole && found <= whole * (1.0 + 1e-14), "{found} {whole}");
        assert!(gaussian_replace_one(z, 0.5, order) <= found);
    }
}
