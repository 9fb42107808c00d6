//! Each term of the error budget, left out: then a bound is wrong that holds with it.

use super::{Allocation, Law};
use crate::functions::UNIT;
use crate::sampling::allocation::two_bins;
use crate::types::{Bounds, Direction, Rounding};

const MOST: usize = 1 << 14;

/// `(s, steps, ε)` and how many rounds.
const SETTINGS: [(f64, u64, f64, u64); 6] =
    [(1.0, 2, 0.5, 1), (1.0, 5, 0.25, 1), (0.5, 3, 0.125, 4), (2.0, 7, 1.5, 1), (1.5, 1, 1.0, 1), (0.8, 16, 0.3, 3)];

fn law(cut: f64, reach: f64, setting: (f64, u64, f64, u64), h: f64, side: Rounding) -> Allocation {
    let (s, steps, _, rounds) = setting;
    let one = Allocation::cut_at(cut, reach, s, steps, h, side, MOST).expect("few nodes");
    one.repeated(rounds, MOST).expect("few nodes")
}

/// Counts how often the upper bound would be too small with a law of which something was left out; with all of it, it never is.
fn wrong_without(cuts: &[(f64, f64)], direction: Direction, without: impl Fn(&mut Law)) -> usize {
    let mut wrong = 0;
    for setting in SETTINGS {
        let epsilon = setting.2;
        let truth = law(1e-26, 11.5, setting, 0.01, Rounding::Down).delta(epsilon, direction);
        for &(cut, reach) in cuts {
            let mut found = law(cut, reach, setting, 0.01, Rounding::Up);
            assert!(found.delta(epsilon, direction) >= truth, "{setting:?} {cut} {reach}");
            without(&mut found.law);
            wrong += usize::from(found.delta(epsilon, direction) < truth);
        }
    }
    wrong
}

#[test]
fn mean_above_the_last_node() {
    let cuts = [(1e-4, 11.5), (1e-2, 11.5), (1e-26, 2.0), (1e-26, 1.0)];
    assert!(wrong_without(&cuts, Direction::Remove, |law| law.excess = 0.0) >= 12);
}

#[test]
fn mass_below_the_first_node() {
    let cuts = [(1e-3, 11.5), (1e-2, 11.5), (0.1, 11.5), (1e-26, 1.0)];
    let wrong = wrong_without(&cuts, Direction::Add, |law| law.zero = 0.0);
    assert!(wrong >= 3, "{wrong}");
}

#[test]
fn what_is_cut_off_below_is_dropped_from_lower_laws_only() {
    // Lower laws lose it, which is the safe side of them: δ falls, and never below 0.
    for setting in SETTINGS {
        for direction in [Direction::Remove, Direction::Add] {
            let truth = law(1e-26, 11.5, setting, 0.01, Rounding::Up).delta(setting.2, direction);
            for (cut, reach) in [(1e-4, 11.5), (1e-2, 11.5), (1e-26, 2.0)] {
                let found = law(cut, reach, setting, 0.01, Rounding::Down).delta(setting.2, direction);
                assert!((0.0..=truth).contains(&found), "{setting:?} {cut} {reach}");
            }
        }
    }
}

#[test]
fn places_on_the_grid() {
    // Splitting keeps means: with all of a cell at its left end the law is none that bounds from above.
    for (s, epsilon) in [(1.0, 0.5), (0.5, 0.125), (2.0, 1.5)] {
        let Bounds { lower: low, upper: high } = two_bins(s, epsilon, Direction::Remove);
        for h in [0.2, 0.05, 0.01] {
            let [upper, lower] =
                [Rounding::Up, Rounding::Down].map(|side| Allocation::new(s, 2, h, side, MOST).expect("few nodes"));
            let mut careless = upper.clone();
            careless.law.first -= 1;

            assert!(upper.delta(epsilon, Direction::Remove) >= high);
            assert!(lower.delta(epsilon, Direction::Remove) <= low);
            assert!(careless.delta(epsilon, Direction::Remove) < low);
            // … and both are visibly off: by O(h²).
            assert!(
                upper.delta(epsilon, Direction::Remove) - lower.delta(epsilon, Direction::Remove) > 1e-3 * h * h * high
            );
        }
    }
}

#[test]
fn rounding_of_masses_and_means() {
    // Upper laws keep mass and mean, which are 1: what is off is rounding, and no more than is said.
    let (mut masses_off, mut means_off) = (0.0_f64, 0.0_f64);
    for (s, steps, h, rounds) in
        [(1.0, 1000, 0.02, 1), (0.5, 1 << 20, 0.01, 1), (2.0, 7, 0.05, 60), (0.3, 77, 0.004, 5)]
    {
        let found = Allocation::new(s, steps, h, Rounding::Up, MOST).expect("few nodes");
        let found = found.repeated(rounds, MOST).expect("few nodes");
        let law = &found.law;
        let mass: f64 = law.masses.iter().sum::<f64>() + law.zero;
        let values = (law.first..).map(|k| found.grid.value(k));
        let mean: f64 = law.masses.iter().zip(values).map(|(mass, value)| mass * value).sum::<f64>() + law.excess;

        // The sums of this test: as many roundings as nodes.
        let own = law.masses.len() as f64 * UNIT;
        assert!((mass - 1.0).abs() <= law.mass_error * UNIT + own, "{s} {steps}: {mass} {law:?}");
        assert!((mean - 1.0).abs() <= (law.mass_error + law.mean_error + 1e3) * UNIT + own, "{s} {steps}: {mean}");
        masses_off = masses_off.max((mass - 1.0).abs());
        means_off = means_off.max((mean - 1.0).abs());
    }
    assert!(masses_off > 4.0 * UNIT && means_off > 4.0 * UNIT, "{masses_off} {means_off}");
}

#[test]
fn rounding_in_the_bounds() {
    // Masses and places as far off as their errors allow: the bound holds for what they should have been, if errors are counted.
    for setting in SETTINGS {
        for direction in [Direction::Remove, Direction::Add] {
            let honest = law(1e-26, 11.5, setting, 0.01, Rounding::Up);
            let exact = {
                let mut exact = honest.clone();
                (exact.law.mass_error, exact.law.mean_error) = (0.0, 0.0);
                exact.delta(setting.2, direction)
            };
            let mut wrong = [0, 0];
            for counted in [true, false] {
                for (masses, means) in [(1e-9, 0.0), (0.0, 1e-9)] {
                    let mut lying = honest.clone();
                    lying.law.masses.iter_mut().for_each(|mass| *mass *= 1.0 - masses);
                    let sign = if direction == Direction::Remove { -1.0 } else { 1.0 };
                    lying.grid.offset += sign * means;
                    if counted {
                        lying.law.mass_error += 1.001 * masses / UNIT;
                        lying.law.mean_error += 1.001 * means / UNIT;
                    }
                    wrong[usize::from(counted)] += usize::from(lying.delta(setting.2, direction) < exact);
                }
            }
            assert_eq!([2, 0], wrong, "{setting:?} {direction:?}");
        }
    }
}
