//! Each term of the error budget, left out: then a bound is wrong that holds with it.

use super::{Allocation, CUT_MASS, Law};
use crate::functions::{UNIT, exp};
use crate::memory::gathered;
use crate::pld::pairs::{FiniteLosses, Gaussian, Reversed};
use crate::pld::single;
use crate::sampling::allocation::two_bins;
use crate::types::{Bounds, Direction, Rounding};

const MOST: usize = 1 << 14;

/// `(s, steps, ε)` and how many rounds.
const SETTINGS: [(f64, u64, f64, u64); 6] =
    [(1.0, 2, 0.5, 1), (1.0, 5, 0.25, 1), (0.5, 3, 0.125, 4), (2.0, 7, 1.5, 1), (1.5, 1, 1.0, 1), (0.8, 16, 0.3, 3)];

fn law(cut: f64, setting: (f64, u64, f64, u64), h: f64, side: Rounding) -> Allocation {
    let (s, steps, _, rounds) = setting;
    let one = Allocation::cut_at(cut, &Gaussian::new(1.0 / s), steps, h, side, MOST).expect("few nodes");
    one.repeated(rounds, MOST).expect("few nodes")
}

fn delta(law: &Allocation, epsilon: f64, direction: Direction) -> Bounds {
    match direction {
        Direction::Remove => single::delta(law, epsilon),
        Direction::Add => single::delta(&Reversed(law.clone()), epsilon),
    }
}

/// Counts how often the upper bound would be too small with a law of which something was left out; with all of it, it never is.
fn wrong_without(cuts: &[f64], direction: Direction, without: impl Fn(&mut Law)) -> usize {
    let mut wrong = 0;
    for setting in SETTINGS {
        let epsilon = setting.2;
        let truth = delta(&law(CUT_MASS, setting, 0.01, Rounding::Down), epsilon, direction).lower;
        for &cut in cuts {
            let mut found = law(cut, setting, 0.01, Rounding::Up);
            assert!(delta(&found, epsilon, direction).upper >= truth, "{setting:?} {cut}");
            without(&mut found.law);
            wrong += usize::from(delta(&found, epsilon, direction).upper < truth);
        }
    }
    wrong
}

#[test]
fn mean_above_the_last_node() {
    // Grids are coarser for shorter sums, and a cut of 1e-4 is less than that adds in some settings.
    let wrong = wrong_without(&[1e-4, 1e-3, 1e-2], Direction::Remove, |law| law.excess = 0.0);
    assert!(wrong >= 10, "{wrong}");
}

#[test]
fn mass_below_the_first_node() {
    let wrong = wrong_without(&[1e-3, 1e-2, 0.1], Direction::Add, |law| law.zero = 0.0);
    assert!(wrong >= 3, "{wrong}");
}

#[test]
fn what_is_cut_off_below_is_dropped_from_lower_laws_only() {
    // Lower laws lose it, which is the safe side of them: δ falls, and never below 0.
    for setting in SETTINGS {
        for direction in [Direction::Remove, Direction::Add] {
            let truth = delta(&law(CUT_MASS, setting, 0.01, Rounding::Up), setting.2, direction).upper;
            for cut in [1e-4, 1e-3, 1e-2] {
                let found = delta(&law(cut, setting, 0.01, Rounding::Down), setting.2, direction).lower;
                assert!((0.0..=truth).contains(&found), "{setting:?} {cut}");
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
            let pair = Gaussian::new(1.0 / s);
            let [upper, lower] =
                [Rounding::Up, Rounding::Down].map(|side| Allocation::new(&pair, 2, h, side, MOST).expect("few nodes"));
            let mut careless = upper.law.clone();
            careless.first -= 1;
            let careless = Allocation::made(upper.grid, careless);
            let upper = delta(&upper, epsilon, Direction::Remove).upper;
            let lower = delta(&lower, epsilon, Direction::Remove).lower;

            assert!(upper >= high);
            assert!(lower <= low);
            assert!(delta(&careless, epsilon, Direction::Remove).upper < low);
            // … and both are visibly off: by O(h²).
            assert!(upper - lower > 1e-3 * h * h * high);
        }
    }
}

#[test]
fn every_cell_of_an_upper_law_keeps_its_mass_and_mean() {
    // The surplus adds to them: never less than 1, and hardly more.
    for (s, steps, h, rounds) in
        [(1.0, 1000, 0.02, 1), (0.5, 1 << 20, 0.01, 1), (2.0, 7, 0.05, 60), (0.3, 77, 0.004, 5)]
    {
        let found = Allocation::new(&Gaussian::new(1.0 / s), steps, h, Rounding::Up, MOST).expect("few nodes");
        let found = found.repeated(rounds, MOST).expect("few nodes");
        let law = &found.law;
        let mass: f64 = law.masses.iter().sum::<f64>() + law.zero;
        let mean: f64 = found.p.iter().sum::<f64>() + law.excess;

        // The sums of this test: as many roundings as nodes.
        let own = 2.0 * law.masses.len() as f64 * UNIT;
        let off = (law.mass_error + law.value_error) * UNIT + own;
        let more = 4.0 * steps as f64 * rounds as f64 * (8e3 / h) * UNIT + off;
        assert!(mass >= 1.0 - off && mass <= 1.0 + more, "{s} {steps}: {mass}");
        assert!(mean >= 1.0 - off && mean <= 1.0 + more, "{s} {steps}: {mean}");
        assert!(mass > 1.0 && mean > 1.0);

        let lower = Allocation::new(&Gaussian::new(1.0 / s), steps, h, Rounding::Down, MOST).expect("few nodes");
        let lower = lower.repeated(rounds, MOST).expect("few nodes");
        let off = (lower.law.mass_error + lower.law.value_error) * UNIT + own;
        assert!(lower.law.masses.iter().sum::<f64>() <= 1.0 + off && lower.p.iter().sum::<f64>() <= 1.0 + off);
    }
}

#[test]
fn without_the_surplus_means_are_too_small() {
    // What a split without surplus would keep: rounding makes it fall short of 1 somewhere.
    let cells = super::Cells { first: 0, mass: vec![0.1, 0.7, 0.2], moment: vec![0.03, 0.1 * 0.7, 0.2 / 3.0] };
    let sum = |surplus: f64| cells.split(surplus).iter().sum::<f64>();
    assert!(sum(1e-3) > 1.0019 && sum(1e-3) < 1.0021);
    assert!(sum(0.0) < 1.0 + 4.0 * UNIT);
}

#[test]
fn rounding_in_the_bounds() {
    // Masses and values as far off as their errors allow: bounds hold for what they should have been, if errors are counted.
    for (setting, side) in SETTINGS.iter().flat_map(|&setting| [(setting, Rounding::Up), (setting, Rounding::Down)]) {
        for direction in [Direction::Remove, Direction::Add] {
            let honest = law(CUT_MASS, setting, 0.01, side);
            let bound = |law: Law, losses: Vec<f64>| {
                let p = losses.iter().zip(&law.masses).map(|(loss, mass)| mass * exp(*loss)).collect();
                let found = delta(&Allocation { grid: honest.grid, law, losses, p }, setting.2, direction);
                if side == Rounding::Up { found.upper } else { -found.lower }
            };
            let mut exact = honest.law.clone();
            (exact.mass_error, exact.value_error) = (0.0, 0.0);
            let exact = bound(exact, honest.losses.clone());
            for (masses, values) in [(1e-9, 0.0), (0.0, 1e-9)] {
                // Toward a smaller δ for an upper law, a larger one for a lower law.
                let sign = if side == Rounding::Up { -1.0 } else { 1.0 };
                let outward = if direction == Direction::Remove { sign } else { -sign };
                let losses: Vec<f64> = honest.losses.iter().map(|loss| loss + outward * values).collect();
                let mut off = honest.law.clone();
                off.masses.iter_mut().for_each(|mass| *mass *= 1.0 + sign * masses);
                let mut counted = off.clone();
                counted.mass_error += 1.001 * masses / UNIT;
                counted.value_error += 1.001 * values / UNIT;

                assert!(bound(counted, losses.clone()) >= exact, "{setting:?} {side:?} {direction:?}");
                assert!(bound(off, losses) < exact, "{setting:?} {side:?} {direction:?}");
            }
        }
    }
}

#[test]
fn atoms_at_infinite_losses_are_kept() {
    // Of a step that shows everything with probability δ: P = δ at +∞, Q = δ at −∞, nothing else differs.
    for (steps, mass) in [(1, 0.25), (3, 0.25), (1000, 1e-3)] {
        let pair = FiniteLosses::epsilon_delta(0.0, mass);
        for side in [Rounding::Up, Rounding::Down] {
            let found = Allocation::new(&pair, steps, 0.001, side, MOST).expect("few nodes");
            let bounds = delta(&found, 1.0, Direction::Remove);
            let all_hidden = mass.powi(steps as i32);
            let added = delta(&found, 20.0, Direction::Add);
            let slack = if side == Rounding::Up { 1.0 } else { -1.0 } * 1e-9;

            assert!((bounds.upper - mass) * slack >= 0.0 || (bounds.lower - mass) * slack >= 0.0, "{bounds:?}");
            assert!((bounds.upper / mass - 1.0).abs() < 1e-6, "{bounds:?}");
            assert!((added.upper - all_hidden).abs() < 1e-6 * all_hidden + 1e-25, "{steps} {side:?} {added:?}");
        }
    }
}

#[test]
fn a_merged_law_keeps_mass_and_mean_and_is_below_in_convex_order() {
    // Means of cells anywhere within them, masses of all sizes, and gaps.
    let h = 0.1;
    let place = |c: usize| (c * 29 % 31) as f64 / 31.0;
    let mass: Vec<f64> = (0..60).map(|c| if c % 7 == 3 { 0.0 } else { f64::from((c * 37 + 5) % 64 + 1) }).collect();
    let moment = gathered(mass.iter().enumerate().map(|(c, mass)| mass * place(c)));
    let cells = super::Cells { first: 0, mass, moment };
    let merged = cells.merged(h).masses;

    let value = |c: usize| exp(c as f64 * h);
    let points: Vec<(f64, f64)> =
        cells.mass.iter().enumerate().map(|(c, &m)| (m, value(c) + place(c) * (value(c + 1) - value(c)))).collect();
    let nodes: Vec<(f64, f64)> = merged.iter().enumerate().map(|(c, &m)| (m, value(c))).collect();
    let mean = |law: &[(f64, f64)], f: &dyn Fn(f64) -> f64| law.iter().map(|&(m, x)| m * f(x)).sum::<f64>();

    // Sums of 60 terms of size 64·e⁶.
    for f in [|_| 1.0, |x| x] as [fn(f64) -> f64; 2] {
        assert!((mean(&nodes, &f) / mean(&points, &f) - 1.0).abs() < 1e-12);
    }
    for strike in (0..600).map(|k| exp(0.01 * f64::from(k))) {
        let above = |x: f64| (x - strike).max(0.0);
        assert!(mean(&nodes, &above) <= mean(&points, &above) * (1.0 + 1e-12) + 1e-9);
    }
}

#[test]
fn rare_atoms_far_apart_stay_where_they_are_and_the_law_stays_below_in_convex_order() {
    // Atoms of a discrete Gaussian pair, each ten cells above the last, with masses that fall faster than values grow.
    let h = 0.1;
    let atoms: Vec<(f64, f64)> =
        (-8..12).map(|n: i32| (exp(-0.5 * f64::from(n * n)), 0.1 + 0.8 * f64::from((n + 8) * 7 % 11) / 11.0)).collect();
    let (mut mass, mut moment) = (vec![0.0; 200], vec![0.0; 200]);
    for (i, &(m, place)) in atoms.iter().enumerate() {
        mass[10 * i + 3] = m;
        moment[10 * i + 3] = m * place;
    }
    let cells = super::Cells { first: 0, mass, moment };
    let merged = cells.merged(h);

    let value = |c: usize| exp(c as f64 * h);
    let points: Vec<(f64, f64)> = atoms
        .iter()
        .enumerate()
        .map(|(i, &(m, place))| (m, value(10 * i + 3) + place * (value(10 * i + 4) - value(10 * i + 3))))
        .collect();
    let nodes: Vec<(f64, f64)> = merged.masses.iter().enumerate().map(|(c, &m)| (m, value(c))).collect();
    let mean = |law: &[(f64, f64)], f: &dyn Fn(f64) -> f64| law.iter().map(|&(m, x)| m * f(x)).sum::<f64>();

    assert!(merged.drawn >= 8.0 && merged.widest >= 10.0);
    for f in [|_| 1.0, |x| x] as [fn(f64) -> f64; 2] {
        assert!((mean(&nodes, &f) / mean(&points, &f) - 1.0).abs() < 1e-12);
    }
    for strike in (1..1990).map(|k| exp(0.01 * f64::from(k))) {
        let above = |x: f64| (x - strike).max(0.0);
        assert!(mean(&nodes, &above) <= mean(&points, &above) * (1.0 + 1e-12));
    }
    // Means above the gap before the last atom but one, a part of e^−50: kept within a cell of what they are.
    let strike = value(174);
    let above = |x: f64| (x - strike).max(0.0);
    assert!(mean(&nodes, &above) > 0.8 * mean(&points, &above));
}
