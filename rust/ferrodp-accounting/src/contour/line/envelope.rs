//! How small the integrand is beyond a node: what the nodes that are left out can add.

use crate::contour::composition::{Composition, digits, rough_digits};
use crate::contour::moments::quadrature::{Tilted, log_envelope};
use crate::contour::moments::ratio::Sampled;
use crate::types::Direction;

/// Returns a bound on `ln |e^{K(c + iτ') − K(c)}|` for all `τ' ≥ τ`; one below `enough` is as good as the best.
pub(in crate::contour) fn envelope(
    composition: &Composition,
    direction: Direction,
    c: f64,
    tau: f64,
    events: &[Tilted],
    enough: f64,
) -> f64 {
    let power = direction.power(c);
    let found = |(event, nodes): (&Sampled, &Tilted), digits: f64, shrink: f64| {
        // Near the real axis arg r ≈ y·ln'r, which balances y²/2σ² at y = τσ²·E[ln'r]; larger deviations ask for less.
        let y = (tau * nodes.mean_argument / nodes.height * event.variance).min(nodes.height);
        log_envelope(event, power, digits, tau, y * shrink, nodes)
    };
    let plain = -0.5 * composition.gaussian * tau * tau * (1.0 - 1e-12);
    let total = |best: &dyn Fn((&Sampled, &Tilted)) -> f64| {
        let parts = composition.sampled.iter().zip(events);
        plain + parts.map(|((event, count), nodes)| count * best((event, nodes)).min(0.0)).sum::<f64>()
    };
    let few = rough_digits(composition);
    let rough = total(&|part| found(part, few, 1.0));
    if rough < enough {
        return rough;
    }
    let digits = digits(composition);
    total(&|part| {
        let (mut best, mut shrink) = (0.0_f64, 1.0);
        for _ in 0..6 {
            let next = found(part, digits, shrink);
            if next >= best && best < 0.0 {
                break;
            }
            best = best.min(next);
            shrink *= 0.6;
        }
        best
    })
}
