//! Each error term is real: where it is made large, bounds widen and stay valid, and without it they would be wrong.

use super::answer::{delta_bounds, epsilon_bounds, log_delta_bounds, log_delta_by_contour};
use super::complex::{Complex, exp_m1, modulus};
use super::composition::{Composition, Release};
use super::line::{Line, LogDelta, Plan, log_mgf_upper};
use super::moments::advance::{Sweep, exponential_error};
use super::moments::quadrature::{Tilted, log_envelope, tilted};
use super::moments::ratio::Sampled;
use crate::functions::{exp, lgamma, ln, ln_1p};
use crate::types::Direction;
use ferrodp_core::Isa;

const SIGMAS: [f64; 6] = [0.2, 0.5, 1.0, 3.0, 30.0, 500.0];
const PROBABILITIES: [f64; 5] = [1e-6, 1e-3, 0.1, 0.7, 0.999];
const BOTH: [Direction; 2] = [Direction::Remove, Direction::Add];

fn composition(sigma: f64, q: f64, count: u64) -> Composition {
    Composition::new(&[Release { noise_multiplier: sigma, sampling_probability: q, count }]).expect("valid parameters")
}

/// `ln Σᵢ C(p, i)(1−q)^{p−i}qⁱe^{(i²−i)/2σ²}`: Mironov, Talwar and Zhang, 2019, section 3.3.
fn integer_log_moment(sigma: f64, q: f64, p: u32) -> f64 {
    let logs: Vec<f64> = (0..=p)
        .map(|i| {
            let (i, p) = (f64::from(i), f64::from(p));
            lgamma(p + 1.0) - lgamma(i + 1.0) - lgamma(p - i + 1.0)
                + (p - i) * ln_1p(-q)
                + i * ln(q)
                + (i * i - i) / (2.0 * sigma * sigma)
        })
        .collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + ln(logs.iter().map(|log| exp(log - largest)).sum())
}

fn characteristic(nodes: &Tilted, tau: f64) -> Complex {
    let (mut re, mut im) = (0.0, 0.0);
    for k in 0..nodes.weights[0].len() {
        let (a, b) = (nodes.weights[0][k], nodes.weights[1][k]);
        let (c, d) = exp_m1((-tau * nodes.logs[1][k], tau * nodes.logs[0][k]));
        re += a * c - b * d;
        im += a * d + b * c;
    }
    (re, im)
}

#[test]
fn moments_of_integer_order_have_their_closed_form() {
    for sigma in SIGMAS {
        for q in PROBABILITIES {
            for p in [1, 2, 3, 8, 40] {
                let nodes = tilted(&Sampled::new(sigma, q), f64::from(p), 44.0);
                let expected = integer_log_moment(sigma, q, p);

                // The closed form adds up 41 terms of up to e^{p²/2σ²} from gamma functions of some 1e-15·p·ln p.
                let slack = 1e-13 * (1.0 + expected.abs()) + nodes.log_moment_error;
                assert!(
                    (nodes.log_moment - expected).abs() <= slack,
                    "{sigma} {q} {p} {} {expected}",
                    nodes.log_moment
                );
                assert!(nodes.log_moment_error < 1e-8, "{sigma} {q} {p} {}", nodes.log_moment_error);
            }
        }
    }
}

#[test]
fn a_coarser_rule_is_within_its_larger_error() {
    let mut wrong_without = 0;
    for sigma in SIGMAS {
        for q in PROBABILITIES {
            for power in [1.5, 4.0, -0.7, -6.0] {
                let event = Sampled::new(sigma, q);
                let fine = tilted(&event, power, 60.0);
                for digits in [4.0, 7.0, 12.0, 20.0] {
                    let coarse = tilted(&event, power, digits);
                    for tau in [0.3, 3.0, 30.0] {
                        let (a, b) = (characteristic(&fine, tau), characteristic(&coarse, tau));
                        let distance = modulus((a.0 - b.0, a.1 - b.1));
                        let rounding = tau * (fine.rounding + coarse.rounding)
                            + tau * (fine.first_moment + coarse.first_moment) * exponential_error(1);

                        assert!(
                            distance <= coarse.quadrature + fine.quadrature + rounding,
                            "{sigma} {q} {power} {tau}"
                        );
                        wrong_without += usize::from(distance > rounding + fine.quadrature);
                    }
                }
            }
        }
    }
    assert!(wrong_without > 100, "quadrature never mattered");
}

#[test]
fn the_restricted_law_has_the_moments_of_its_complement() {
    // E[r^p; x ≤ B] + E[r^p; x > B] = E r^p, and the second is a binomial sum of Gaussian tails.
    for (sigma, q, p, end) in [(1.0, 0.1, 3_u32, 1.5), (0.5, 0.01, 2, 0.9), (4.0, 0.5, 6, 3.0), (2.0, 1e-3, 12, 8.0)] {
        let mut event = Sampled::new(sigma, q);
        let whole = exp(integer_log_moment(sigma, q, p));
        event.end = Some(end);
        let part = tilted(&event, f64::from(p), 44.0);
        let beyond: f64 = (0..=p)
            .map(|i| {
                let (i, p) = (f64::from(i), f64::from(p));
                let log = lgamma(p + 1.0) - lgamma(i + 1.0) - lgamma(p - i + 1.0)
                    + (p - i) * ln_1p(-q)
                    + i * ln(q)
                    + (i * i - i) / (2.0 * sigma * sigma);
                exp(log) * 0.5 * crate::functions::erfc((end - i) / (sigma * core::f64::consts::SQRT_2))
            })
            .sum();

        let expected = whole - beyond;
        let slack = (part.log_moment_error + 1e-13) * whole;
        assert!((exp(part.log_moment) - expected).abs() <= slack, "{sigma} {q} {p} {end}");
        assert!(part.log_moment_error < 1e-10);
    }
}

#[test]
fn recurrences_stay_within_their_error() {
    for (sigma, q, power) in [(1.0, 0.01, 5.0), (0.3, 0.4, 1.2), (20.0, 1e-4, -3000.0)] {
        let nodes = tilted(&Sampled::new(sigma, q), power, 44.0);
        for block in [1, 16, 64] {
            let sweep = Sweep::new(&nodes, 0.375, block);
            let mut sums = vec![(0.0, 0.0); 300];
            sweep.advance_on(Isa::best(), 1, &mut sums);
            for isa in Isa::available() {
                let mut same = vec![(0.0, 0.0); 300];
                sweep.advance_on(isa, 1, &mut same);
                assert_eq!(sums, same);
            }
            for (j, sum) in sums.iter().enumerate() {
                let tau = 0.375 * (j + 1) as f64;
                let exact = characteristic(&nodes, tau);
                let bound = tau
                    * nodes.first_moment
                    * (exponential_error(block) + exponential_error(1) + 2.0 * sweep.summation() + 1e-13);

                assert!(modulus((sum.0 - exact.0, sum.1 - exact.1)) <= bound, "{sigma} {block} {j}");
            }
        }
    }
}

#[test]
fn the_envelope_holds_from_its_point_on() {
    for (sigma, q, power, end) in
        [(1.0, 0.01, 5.0, None), (4.0, 0.3, 20.0, None), (1.0, 0.05, -8.0, None), (0.5, 0.1, 2.0, Some(1.2))]
    {
        let mut event = Sampled::new(sigma, q);
        event.end = end;
        let nodes = tilted(&event, power, 44.0);
        for tau in [2.0, 10.0, 40.0] {
            for y in [0.0, 0.1 * nodes.height, 0.7 * nodes.height] {
                for digits in [44.0, 19.0, 12.0] {
                    let bound = log_envelope(&event, power, digits, tau, y, &nodes);
                    for beyond in [1.0, 1.01, 1.3, 2.0, 7.0] {
                        let (a, b) = characteristic(&nodes, tau * beyond);
                        let size = ln(modulus((1.0 + a, b)) - nodes.quadrature - 1e-12);
                        let context = format!("{sigma} {q} {power} {tau} {y} {digits} {beyond}");
                        assert!(size.is_nan() || size <= bound, "{context}: {size} {bound}");
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_of_few_digits_are_bounds_and_close() {
    let mut close = 0;
    for sigma in SIGMAS {
        for q in PROBABILITIES {
            for direction in BOTH {
                for c in [0.25, 2.0, 30.0] {
                    let composition = composition(sigma, q, 1000);
                    let fine = tilted(&composition.sampled[0].0, direction.power(c), 50.0);
                    let exact = 1000.0 * fine.log_moment;
                    let upper = log_mgf_upper(&composition, direction, c);

                    let slack = 1000.0 * fine.log_moment_error + 1e-12 * exact.abs();
                    assert!(upper >= exact - slack, "{sigma} {q} {direction:?} {c}: {upper} {exact}");
                    close += usize::from(upper <= exact + 1e-3 + slack);
                }
            }
        }
    }
    assert!(close >= 170, "{close} of 180");
}

/// The interval without one of its slack terms: 0 rounding, 1 truncation, 2 aliasing.
fn without(found: &LogDelta, term: usize) -> (f64, f64) {
    let kept: Vec<f64> = (0..3).map(|k| if k == term { 0.0 } else { exp(found.slack[k]) }).collect();
    (found.middle + ln_1p(-(kept[0] + kept[1] + kept[2]).min(1.0)), found.middle + ln_1p(kept[0] + kept[1]))
}

fn line(composition: &Composition, c: f64, step: f64, log_tolerance: f64, max_nodes: usize) -> Line {
    let rivals = vec![(1.5 * c, log_mgf_upper(composition, Direction::Remove, 1.5 * c))];
    Line::new(composition, Direction::Remove, &Plan { c, step, log_tolerance, max_nodes }, rivals)
}

#[test]
fn a_wider_step_widens_the_bounds_and_would_be_wrong_without_them() {
    let composition = composition(1.5, 0.04, 2250);
    let exact = line(&composition, 3.0, 0.25, -60.0, 4096).log_delta(6.0);
    let mut wrong = 0;
    for step in [0.5, 1.0, 1.25, 1.5] {
        let found = line(&composition, 3.0, step, -60.0, 4096).log_delta(6.0);

        assert!(found.lower <= exact.lower && exact.upper <= found.upper, "{step}");
        let (lower, upper) = without(&found, 2);
        wrong += usize::from(exact.upper < lower || upper < exact.lower);
    }
    assert!(wrong >= 2, "aliasing never mattered");
}

#[test]
fn fewer_nodes_widen_the_bounds_and_would_be_wrong_without_them() {
    let composition = composition(1.0, 0.01, 1000);
    let exact = line(&composition, 4.5, 0.25, -50.0, 2048).log_delta(1.8);
    let mut wrong = 0;
    for max_nodes in [17, 33, 49, 73] {
        let found = line(&composition, 4.5, 0.05, -50.0, max_nodes).log_delta_unsmoothed(1.8);

        assert!(found.lower <= exact.upper && exact.lower <= found.upper, "{max_nodes}: {found:?} {exact:?}");
        let (lower, upper) = without(&found, 1);
        wrong += usize::from(exact.upper < lower || upper < exact.lower);
    }
    assert!(wrong >= 2, "truncation never mattered");
}

#[test]
fn smoothing_brackets_what_more_nodes_find() {
    let composition = composition(0.5, 0.001, 1000);
    let exact = line(&composition, 1.5, 0.125, -50.0, 1 << 15).log_delta(2.0);
    let mut widths = Vec::new();
    for max_nodes in [128, 300, 1000] {
        let found = line(&composition, 1.5, 0.125, -50.0, max_nodes).log_delta(2.0);

        assert!(found.lower <= exact.upper && exact.lower <= found.upper, "{max_nodes}: {found:?} {exact:?}");
        widths.push(found.upper - found.lower);
    }
    assert!(widths[0] > widths[2], "{widths:?}");
}

#[test]
fn one_step_by_the_contour_agrees_with_its_closed_form() {
    // Cuts, smoothing and plain lines all occur here; the closed form is compared with 50 digits elsewhere.
    let mut smoothed = 0;
    for sigma in SIGMAS {
        for q in PROBABILITIES {
            for direction in BOTH {
                for relative in [0.0, 0.3, 2.0] {
                    let epsilon = relative * q / sigma.min(1.0);
                    let one = composition(sigma, q, 1);
                    let closed = one.sampled[0].0.log_delta_of_one(direction, epsilon);
                    let found = log_delta_by_contour(&one, direction, epsilon);

                    let context = format!("{sigma} {q} {direction:?} {epsilon}: {found:?} {closed:?}");
                    assert!(found.lower <= closed.upper && closed.lower <= found.upper, "{context}");
                    smoothed += usize::from(found.smoothing > 0.0);
                }
            }
        }
    }
    assert!(smoothed > 20, "{smoothed}");
}

#[test]
fn splitting_a_count_changes_nothing_but_rounding() {
    // The second multiplier is a float above the first, so that the two are not merged: a relative change of 2⁻⁵².
    for (sigma, q, count) in [(1.0_f64, 0.01, 1000), (0.4, 1e-4, 300), (50.0, 0.3, 100_000)] {
        for direction in BOTH {
            let whole = log_delta_bounds(&composition(sigma, q, count), direction, 0.01);
            let releases = [(sigma, count / 2), (sigma.next_up(), count - count / 2)]
                .map(|(noise_multiplier, count)| Release { noise_multiplier, sampling_probability: q, count });
            let parts = log_delta_bounds(&Composition::new(&releases).expect("valid"), direction, 0.01);

            let slack = 1e-9 * whole.upper.abs();
            assert!(whole.lower <= parts.upper + slack && parts.lower <= whole.upper + slack, "{whole:?} {parts:?}");
        }
    }
}

#[test]
fn epsilon_and_delta_are_inverse_to_each_other() {
    for (sigma, q, count) in [(1.0, 0.01, 1000), (0.4, 1e-4, 300), (50.0, 0.3, 100_000), (1.3, 1.0, 7)] {
        for direction in BOTH {
            let composition = composition(sigma, q, count);
            for delta in [1e-3, 1e-9, 1e-25] {
                let found = epsilon_bounds(&composition, direction, ln(delta));
                let above = delta_bounds(&composition, direction, found.upper);

                assert!(found.lower <= found.upper, "{found:?}");
                assert!(above.lower <= delta * (1.0 + 1e-12), "{sigma} {q} {count} {delta}");
                if found.lower > 0.0 {
                    let below = delta_bounds(&composition, direction, found.lower);
                    assert!(below.upper >= delta * (1.0 - 1e-12), "{sigma} {q} {count} {delta}");
                }
            }
        }
    }
}
