use super::*;

const NOISES: [Noise; 3] = [Noise::Gumbel, Noise::Exponential, Noise::Laplace];

fn key(n: u64) -> Key {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Key::from_bytes(bytes)
}

fn rate(epsilon: f64) -> Rate {
    Rate::new(epsilon, 1.0, 2).expect("valid")
}

#[test]
fn no_margin_changes_a_choice() {
    let utilities: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 40) / 3.0).collect();
    for noise in NOISES {
        for n in 0..300 {
            let expected = choose(noise, rate(1.0), Isa::PORTABLE, &key(n), &utilities, &[]).expect("candidates");
            for margin in [0.25, 3.0, 1e6] {
                let found = choose_widened(noise, rate(1.0), Isa::best(), &key(n), &utilities, margin);

                assert_eq!(Ok(expected), found, "{noise:?}, key {n}, margin {margin}");
            }
        }
    }
}

/// With an infinite margin every candidate is a contender: there are many more than a list of contenders holds, several times over.
#[test]
fn more_contenders_than_there_is_room_for_change_no_choice() {
    let utilities: Vec<f64> = (0..150).map(|i| f64::from(i * 7 % 40) / 3.0).collect();
    let (mut chosen, least) = ([0_u32; 3], Contenders::MOST);
    for noise in NOISES {
        for n in 0..40 {
            let expected = choose(noise, rate(0.2), Isa::best(), &key(n), &utilities, &[]).expect("candidates");
            for margin in [50.0, f64::INFINITY] {
                let found = choose_widened(noise, rate(0.2), Isa::best(), &key(n), &utilities, margin);

                assert_eq!(Ok(expected), found, "{noise:?}, key {n}, margin {margin}");
            }
            chosen[expected / 50] += 1;
        }
    }
    assert!(utilities.len() > 4 * least);
    assert!(chosen.iter().all(|&count| count > 0), "every third of the candidates wins sometimes: {chosen:?}");
}

/// Utilities that are out of reach cost neither memory nor comparisons, wherever the largest one stands.
#[test]
fn candidates_that_are_out_of_reach_are_no_contenders() {
    let mut utilities = vec![-1e308; 100_000];
    utilities.push(1e308);
    for noise in NOISES {
        assert_eq!(Ok(100_000), choose(noise, rate(1.0), Isa::best(), &key(3), &utilities, &[]));
    }
}

#[test]
fn equal_utilities_are_compared_by_noise_alone() {
    for noise in NOISES {
        let mut seen = [0_u32; 5];
        for n in 0..2000 {
            seen[choose_widened(noise, rate(0.1), Isa::best(), &key(n), &[7.5; 5], 100.0).expect("candidates")] += 1;
        }
        // Binomial(2000, 1/5): standard deviation 18; six of them have probability 2·10⁻⁹
        assert!(seen.iter().all(|&count| count.abs_diff(400) < 108), "{noise:?}: {seen:?}");
    }
}

#[test]
fn extreme_utilities_decide_by_themselves() {
    let far = [0.0, -1e308, 1e308, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300];
    for noise in NOISES {
        for margin in [0.0, 1.0] {
            assert_eq!(Ok(2), choose_widened(noise, rate(1.0), Isa::best(), &key(1), &far, margin));
            let only = choose_widened(
                noise,
                Rate::new(1e300, 1.0, 1).expect("valid"),
                Isa::best(),
                &key(1),
                &[1.0, 2.0],
                margin,
            );
            assert_eq!(Ok(1), only);
        }
    }
}

/// Utilities may lie further apart than a float holds, and still be within the reach of noise in principle.
#[test]
fn a_difference_that_overflows_is_no_proof_of_defeat() {
    let key = key(1);
    let keystream = Keystream::new(Isa::PORTABLE, &key);
    let far = [-1.5e308, 1.5e308];
    for noise in NOISES {
        let selection = Selection::new(noise, Rate::new(1e-300, 1.0, 1).expect("valid"), &keystream, &far);
        // All 64 digits of the uniform number are zero, or one: its noise has no upper bound yet.
        let word = 0;
        let found = selection.bounds(0, word, far[0], 0.0);

        let unbounded = noise == Noise::Laplace && selection.sample(0, word).negative();
        assert_eq!(!unbounded, found.upper.is_infinite(), "{noise:?}: {found:?}");
        let t = 3e8;
        let within = selection.bounds(0, 1 << 63, far[0], 0.0);
        assert!((-t - 2.0..=-t + 2.0).contains(&within.upper), "{noise:?}: {within:?}");
        assert!((-t - 2.0..=-t + 2.0).contains(&within.lower), "{noise:?}: {within:?}");
    }
}

#[test]
fn tiny_differences_and_rates_are_as_good_as_none() {
    let close = [5e-324, 0.0, 1e-320];
    for noise in NOISES {
        for n in 0..50 {
            let expected = choose(noise, rate(1e-290), Isa::best(), &key(n), &close, &[]);
            assert_eq!(expected, choose_widened(noise, rate(1e-290), Isa::best(), &key(n), &close, 1e3));
            assert_eq!(expected, choose(noise, rate(1.0), Isa::best(), &key(n), &[0.0; 3], &[]), "the same noise");
        }
    }
}

#[test]
fn no_candidates_are_refused() {
    assert!(choose(Noise::Gumbel, rate(1.0), Isa::best(), &key(0), &[], &[]).is_err());
    assert!(Rate::new(1e300, 1e-300, 1).is_err());
    assert!(Rate::new(0.0, 1.0, 1).is_err());
}

#[test]
fn the_cheap_exponential_is_above_and_close() {
    for i in -70_000..7_000 {
        let x = f64::from(i) / 100.0;
        let t = x.abs();
        let (m, k) = crate::math::exp::exp_neg(t);
        let exact = if x <= 0.0 { m * exp2(-k.min(1022)) } else { exp2(k) / m };

        let above = exp_above(x);

        assert!(above >= exact && above < 1.07 * exact, "e^{x}: {above} for {exact}");
    }
    assert_eq!(f64::INFINITY, exp_above(f64::NAN));
    assert!(exp_above(-1e9) > 0.0);
}

/// A number that all utilities grow by cannot matter, however long it is: so integers are compared exactly.
#[test]
fn utilities_that_no_float_denotes_are_exact() {
    for noise in [Noise::Gumbel, Noise::Exponential, Noise::Laplace] {
        for n in 0..60 {
            let (close, by) =
                ([0.0, 1.0, 2.0, 0.0, 3.0], [(1_u128 << 90) + 1, 1 << 53, (1 << 100) - 1][n as usize % 3]);
            let expected = choose(noise, rate(1.0), Isa::best(), &key(n), &close, &[]);
            for negative in [false, true] {
                let integers: Vec<(usize, Integer)> = close
                    .iter()
                    .map(|&u| if negative { by - u as u128 } else { by + u as u128 })
                    .map(|size| Integer::from_le_bytes(negative, &size.to_le_bytes()))
                    .enumerate()
                    .collect();
                let floats: Vec<f64> = integers.iter().map(|(_, integer)| integer.approximate(0)).collect();

                assert_eq!(
                    expected,
                    choose(noise, rate(1.0), Isa::best(), &key(n), &floats, &integers),
                    "{noise:?} {n}"
                );
            }
        }
    }
}

/// Returns runs of one kind.
fn of_kind<'a>(utilities: &'a [f64], counts: &'a [u64], permuted: bool) -> Runs<'a> {
    Runs { utilities, counts, permuted: if permuted { utilities.len() } else { 0 }, unit: 0 }
}

/// With one candidate a run, the same words decide in the same way.
#[test]
fn runs_of_one_candidate_are_candidates() {
    let utilities: Vec<f64> = (0..50).map(|i| f64::from(i * 7 % 50) / 3.0).collect();
    for n in 0..300 {
        for noise in [Noise::Gumbel, Noise::Exponential] {
            let expected = choose(noise, rate(1.0), Isa::PORTABLE, &key(n), &utilities, &[]).expect("candidates");
            let runs = of_kind(&utilities, &[1; 50], noise == Noise::Exponential);
            for margin in [0.0, if n < 30 { f64::INFINITY } else { 0.25 }] {
                assert_eq!(Ok((expected, 0)), choose_run_widened(rate(1.0), Isa::best(), &key(n), runs, margin));
            }
        }
    }
}

#[test]
fn no_margin_changes_a_choice_among_runs() {
    let utilities: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 40)).collect();
    let counts: Vec<u64> = (0..40).map(|i| (1 << (i * 11 % 64)) - u64::from(i % 3 == 0)).collect();
    for n in 0..300 {
        for (permuted, unit) in [(0, 0), (40, 0), (20, 0), (20, 40), (0, 63)] {
            let runs = Runs { utilities: &utilities, counts: &counts, permuted, unit };
            let expected = choose_run(rate(3.0), Isa::PORTABLE, &key(n), runs).expect("candidates");
            // The exact comparison of everything with everything takes its time.
            let all = if n < 15 { f64::INFINITY } else { 3.0 };
            for margin in [0.25, all] {
                let found = choose_run_widened(rate(3.0), Isa::best(), &key(n), runs, margin);

                assert_eq!(Ok(expected), found, "key {n}, margin {margin}, {permuted} permuted");
            }
        }
    }
}

/// Asserts that runs win as often as they should: six standard deviations of a binomial number are exceeded with probability
/// 2·10⁻⁹.
fn assert_law<const N: usize>(runs: Runs<'_>, law: [f64; N]) {
    let single = Rate::new(1.0, 1.0, 1).expect("valid");
    for (margin, draws) in [(0.0, 27_000_u32), (f64::INFINITY, 1_350)] {
        let mut seen = [0_u32; N];
        for n in 0..draws {
            let found = choose_run_widened(single, Isa::best(), &key(u64::from(n)), runs, margin);
            let (run, place) = found.expect("runs");
            assert!(place < runs.counts[run]);
            seen[run] += 1;
        }
        for (&count, p) in seen.iter().zip(law) {
            let n = f64::from(draws);
            assert!((f64::from(count) - n * p).abs() <= 6.0 * (n * p * (1.0 - p)).sqrt(), "{seen:?} for {law:?}");
        }
    }
}

/// Run `i` wins with probability `mᵢ·e^uᵢ/Σ m·e^u`: the weights here are 3, 5·2, 0, 2⁴⁰·2⁻³⁷ and 1·6, of 27 in all.
///
/// Ln 2 is no float: utilities are multiples of it within 2⁻⁵³, which moves a probability by less than 10⁻¹⁴.
#[test]
fn runs_win_in_proportion_to_their_candidates() {
    let two = core::f64::consts::LN_2;
    let utilities = [0.0, two, 50.0, -37.0 * two, 6.0_f64.ln()];
    let law = [3.0, 10.0, 0.0, 8.0, 6.0].map(|weight| weight / 27.0);
    assert_law(of_kind(&utilities, &[3, 5, 0, 1 << 40, 1], false), law);
    // The same weights in units of 2⁻⁵, and the 2⁻⁵ itself adds nothing.
    let counts = [3 << 5, 5 << 5, 0, 1 << 45, 1 << 5];
    assert_law(Runs { utilities: &utilities, counts: &counts, permuted: 0, unit: 5 }, law);
}

/// Candidates in random order, each taken with probability `e^(u − max u)`: three at 0, two at −ln 2.
///
/// One at 0 wins with probability `∫ 3(1 − z)²(1 − z/2)² dz` from 0 to 1, for `z` its place in the order: `∫ 3v²(1 + v)²/4 dv =
/// 3/4·(1/3 + 1/2 + 1/5) = 31/40`.
#[test]
fn runs_of_permute_and_flip_win_as_their_candidates_do() {
    let utilities = [0.0, -core::f64::consts::LN_2];
    assert_law(of_kind(&utilities, &[3, 2], true), [31.0 / 40.0, 9.0 / 40.0]);
}

/// One candidate that is permuted against a weight of `λ = 3/4` in the race, at the same utility: the former arrives at `z` uniform in
/// (0, 1), and the latter has not arrived then with probability `e^−λz`: `∫ e^−λz dz = (1 − e^−λ)/λ`.
#[test]
fn both_kinds_of_runs_take_part_in_one_race() {
    let p = (1.0 - (-0.75_f64).exp()) / 0.75;
    assert_law(Runs { utilities: &[2.0, 2.0], counts: &[1, 3], permuted: 1, unit: 2 }, [p, 1.0 - p]);
    // With 2⁵⁰ candidates, as far below as these are many, against the same weight: `∫ (1 − z/m)^(m−1)·e^−λz dz` is
    // `1/(1 + λ)` within 10⁻¹⁴.
    let far = [-50.0 * core::f64::consts::LN_2, 0.0];
    let p = 1.0 / 1.75;
    assert_law(Runs { utilities: &far, counts: &[1 << 50, 3], permuted: 1, unit: 2 }, [p, 1.0 - p]);
}

/// Thirds of a run of 3·2⁶² candidates are equally likely; the remainder of a word by its length would take the first twice as
/// often as the last.
#[test]
fn places_in_a_run_are_uniform() {
    let count = 3_u64 << 62;
    let chosen = |n: u64, utility: f64, count: u64| {
        let (utilities, counts) = ([utility], [count]);
        choose_run(rate(1.0), Isa::best(), &key(n), of_kind(&utilities, &counts, n.is_multiple_of(2))).expect("a run").1
    };
    let mut seen = [0_u32; 3];
    for n in 0..6_000 {
        seen[(chosen(n, 7.0, count) >> 62) as usize] += 1;
    }
    // Binomial(6000, 1/3): standard deviation 36.5; six of them have probability 2·10⁻⁹
    assert!(seen.iter().all(|&found| found.abs_diff(2_000) < 220), "{seen:?}");
    for small in 1..5 {
        let places: Vec<u64> = (0..200).map(|n| chosen(n, 0.0, small)).collect();
        assert!((0..small).all(|place| places.contains(&place)) && places.iter().all(|&place| place < small));
    }
}

#[test]
fn runs_without_a_candidate_are_refused() {
    for permuted in [false, true] {
        assert!(choose_run(rate(1.0), Isa::best(), &key(0), of_kind(&[], &[], permuted)).is_err());
        assert!(choose_run(rate(1.0), Isa::best(), &key(0), of_kind(&[1.0, 2.0], &[0, 0], permuted)).is_err());
        assert!(choose_run(rate(1.0), Isa::best(), &key(0), of_kind(&[1.0, 2.0], &[1], permuted)).is_err());
    }
    let fine = Runs { utilities: &[1.0], counts: &[1], permuted: 0, unit: 64 };
    assert!(choose_run(rate(1.0), Isa::best(), &key(0), fine).is_err());
}
