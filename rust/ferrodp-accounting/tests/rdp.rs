//! The Rényi curves: the same bits on every path, and values that do not depend on their neighbors.

use core::num::NonZeroUsize;

use ferrodp_accounting::rdp::{PoissonGaussian, PoissonReplaced, poisson_gaussian};
use ferrodp_accounting::types::Bounds;
use ferrodp_core::Isa;

const SETTINGS: [(f64, f64); 6] = [(1.0, 0.01), (0.3, 0.2), (30.0, 1e-6), (2.0, 0.999), (0.05, 0.5), (1e4, 1e-3)];

fn orders() -> Vec<f64> {
    (0..100).map(|i| 1.0 + 1e-4 * 1.2_f64.powi(i)).collect()
}

fn bits(bounds: &[Bounds]) -> Vec<(u64, u64)> {
    bounds.iter().map(|bounds| (bounds.lower.to_bits(), bounds.upper.to_bits())).collect()
}

fn on(isa: Isa, setting: (f64, f64), orders: &[f64]) -> Vec<Bounds> {
    let mut bounds = vec![Bounds::ZERO; orders.len()];
    PoissonGaussian::new(setting.0, setting.1).bounds(isa, orders, &mut bounds);
    bounds
}

fn replaced_on(isa: Isa, setting: (f64, f64), orders: &[f64]) -> Vec<Bounds> {
    let mut bounds = vec![Bounds::ZERO; orders.len()];
    PoissonReplaced::new(setting.0, setting.1).bounds(isa, orders, &mut bounds);
    bounds
}

#[test]
fn every_isa_gives_the_same_bits() {
    for setting in SETTINGS {
        let expected = on(Isa::PORTABLE, setting, &orders());
        let replaced = replaced_on(Isa::PORTABLE, setting, &orders());
        for isa in Isa::available() {
            assert_eq!(bits(&expected), bits(&on(isa, setting, &orders())), "{isa:?} {setting:?}");
            assert_eq!(bits(&replaced), bits(&replaced_on(isa, setting, &orders())), "{isa:?} {setting:?}");
        }
    }
}

#[test]
fn a_value_does_not_depend_on_what_else_is_asked() {
    for setting in SETTINGS {
        let all = on(Isa::best(), setting, &orders());
        for (&order, value) in orders().iter().zip(&all) {
            assert_eq!(bits(&[*value]), bits(&on(Isa::best(), setting, &[order])), "{setting:?} at {order}");
        }
    }
}

#[test]
fn threads_and_the_order_of_the_triples_do_not_show() {
    let mut triples: Vec<(f64, f64, f64)> =
        SETTINGS.iter().flat_map(|&(sigma, q)| orders().into_iter().map(move |order| (sigma, q, order))).collect();
    triples.extend(triples.clone());
    let expected: Vec<Bounds> =
        triples.iter().map(|&(sigma, q, order)| on(Isa::best(), (sigma, q), &[order])[0]).collect();
    let columns = |f: fn(&(f64, f64, f64)) -> f64| triples.iter().map(f).collect::<Vec<f64>>();

    for threads in [1, 2, 7] {
        let threads = NonZeroUsize::new(threads).expect("positive");
        let found = poisson_gaussian(
            Isa::best(),
            &columns(|triple| triple.0),
            &columns(|triple| triple.1),
            &columns(|triple| triple.2),
            threads,
        );

        assert_eq!(bits(&expected), bits(&found), "{threads} threads");
    }
}

#[test]
fn extremes_have_an_answer() {
    for sigma in [5e-324, 1e-300, 1e-3, 1.0, 1e6, 1e300, f64::MAX] {
        for q in [0.0, 5e-324, 1e-300, 1e-12, 0.5, 1.0 - f64::EPSILON / 2.0, 1.0] {
            let orders = [1.0, 1.0 + f64::EPSILON, 1.5, 2.0, 1e3, 1e8, 1e300, f64::MAX, f64::INFINITY];
            let mut last = 0.0;
            for (order, bounds) in orders.iter().zip(on(Isa::best(), (sigma, q), &orders)) {
                let context = format!("σ = {sigma:e}, q = {q:e}, α = {order:e}: {bounds:?}");
                assert!(0.0 <= bounds.lower && bounds.lower <= bounds.upper, "{context}");
                assert!(last <= bounds.upper * (1.0 + 1e-9), "{context} after {last:e}");
                last = bounds.lower;
            }
            for (order, bounds) in orders.iter().zip(replaced_on(Isa::best(), (sigma, q), &orders)) {
                assert!(0.0 <= bounds.upper, "σ = {sigma:e}, q = {q:e}, α = {order:e}: {bounds:?}");
            }
        }
    }
}
