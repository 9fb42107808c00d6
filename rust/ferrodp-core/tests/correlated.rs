//! Correlated noise: the same bits on every instruction set, with any threads and margins, in resumed streams.

use core::num::NonZeroUsize;

use ferrodp_core::correlated::{Stream, System};
use ferrodp_core::isa::Isa;
use ferrodp_core::params::Granularity;
use ferrodp_core::random::Key;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn systems() -> Vec<System> {
    let mut root = vec![1.0];
    for j in 1..6 {
        root.push(root[j - 1] * (2.0 * j as f64 - 1.0) / (2.0 * j as f64));
    }
    let rows = (0..12).flat_map(|t| [1.0 + 0.1 * f64::from(t % 3), 0.5, -0.25]).collect();
    vec![
        System::Banded(vec![1.0]),
        System::Banded(root),
        System::Banded(vec![1.5, 0.75]),
        System::Rows { width: 3, rows },
        System::Buffered { decays: vec![0.99, 0.8, 0.3], weights: vec![0.05, 0.15, 0.3] },
        System::Inverse(vec![1.0, -0.5, -0.125]),
    ]
}

fn stream(system: &System, totals: bool, exponent: i32, len: usize) -> Stream {
    let granularity = Granularity::from_exponent(exponent).expect("in range");
    Stream::new(system.clone(), totals, 1.3, granularity, len, Key::from_bytes([3; 32])).expect("in range")
}

fn values(len: usize, step: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 31 + step * 17) % 1000) as f64 * 0.377 - 188.0).collect()
}

/// Eight steps of a stream: bits of all outputs.
fn bits(mut stream: Stream, isa: Isa, threads: NonZeroUsize) -> Vec<u64> {
    let mut found = Vec::new();
    for step in 0..8 {
        let mut values = values(stream.len(), step);
        stream.add(isa, &mut values, threads).expect("a step");
        found.extend(values.iter().map(|value| value.to_bits()));
    }
    found
}

#[test]
fn every_isa_and_any_threads_give_the_same_bits() {
    for system in systems() {
        for totals in [false, true] {
            let len = 40_000;
            let expected = bits(stream(&system, totals, -12, len), Isa::PORTABLE, ONE);
            for isa in Isa::available() {
                for threads in [1, 2, 5] {
                    let threads = NonZeroUsize::new(threads).expect("positive");

                    let found = bits(stream(&system, totals, -12, len), isa, threads);

                    assert!(expected == found, "{system:?} {totals} {isa:?} {threads}");
                }
            }
        }
    }
}

#[test]
fn widening_every_margin_changes_no_bit() {
    for system in systems() {
        for totals in [false, true] {
            for exponent in [3, 0, -12] {
                let expected = bits(stream(&system, totals, exponent, 300), Isa::best(), ONE);
                for widening in [0.01, 0.2, 0.5] {
                    let widened = stream(&system, totals, exponent, 300).with_widened_margins(widening);

                    assert!(expected == bits(widened, Isa::best(), ONE), "{system:?} {totals} {exponent} {widening}");
                }
            }
        }
    }
}

#[test]
fn a_stream_that_skips_goes_on_as_one_that_was_never_stopped() {
    for system in systems() {
        for totals in [false, true] {
            let mut whole = stream(&system, totals, -8, 2000);
            let mut resumed = stream(&system, totals, -8, 2000);
            for step in 0..6 {
                let mut expected = values(2000, step);
                whole.add(Isa::best(), &mut expected, ONE).expect("a step");
                if step % 2 == 0 {
                    resumed.skip(Isa::best(), ONE).expect("a step");
                    continue;
                }
                let mut found = values(2000, step);
                resumed.add(Isa::best(), &mut found, ONE).expect("a step");

                assert!(expected == found, "{system:?} {totals} {step}");
            }
        }
    }
}

#[test]
fn integers_are_rounded_as_floats_of_the_same_numbers() {
    for system in systems() {
        for shift in [0, 3, 20] {
            let (mut of_floats, mut of_integers) = (stream(&system, true, -6, 3000), stream(&system, true, -6, 3000));
            for step in 0..4 {
                let mut integers: Vec<i64> =
                    (0..3000).map(|i| (i * 7919 + step * 13) % 40_000_000 - 20_000_000).collect();
                let unit = 2.0_f64.powi(-6 - shift);
                let mut floats: Vec<f64> = integers.iter().map(|integer| *integer as f64 * unit).collect();

                of_floats.add(Isa::best(), &mut floats, ONE).expect("a step");
                of_integers.add_to_integers(Isa::best(), &mut integers, shift.cast_unsigned(), ONE).expect("a step");

                let found: Vec<f64> = integers.iter().map(|integer| *integer as f64 / 64.0).collect();
                assert!(floats == found, "{system:?} {shift}");
            }
        }
    }
}

#[test]
fn what_is_no_finite_number_counts_as_zero() {
    let mut noise = stream(&systems()[1], false, -12, 4);
    let mut alone = vec![0.0_f32; 4];
    noise.add(Isa::best(), &mut alone, ONE).expect("a step");
    let mut beside = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX];

    stream(&systems()[1], false, -12, 4).add(Isa::best(), &mut beside, ONE).expect("a step");

    assert_eq!(alone[..3], beside[..3]);
    assert_eq!(f32::MAX, beside[3]);
}

#[test]
fn steps_beyond_the_last_and_other_lengths_are_refused() {
    let mut noise = stream(&systems()[3], false, 0, 2);
    for _ in 0..12 {
        noise.skip(Isa::best(), ONE).expect("a step");
    }

    assert!(noise.skip(Isa::best(), ONE).is_err());
    assert!(stream(&systems()[0], false, 0, 2).add(Isa::best(), &mut [0.0_f64; 3], ONE).is_err());
    let granularity = Granularity::from_exponent(0).expect("in range");
    let refused = [
        System::Banded(vec![]),
        System::Banded(vec![0.0, 1.0]),
        System::Banded(vec![1.0, f64::NAN]),
        System::Rows { width: 2, rows: vec![1.0, 0.0, 1.0] },
        System::Buffered { decays: vec![1.5], weights: vec![0.1] },
        System::Buffered { decays: vec![0.5], weights: vec![0.1, 0.2] },
    ];
    for system in refused {
        let key = Key::from_bytes([0; 32]);
        assert!(Stream::new(system.clone(), false, 1.0, granularity, 1, key).is_err(), "{system:?}");
    }
    for scale in [0.0, -1.0, f64::NAN, 1e-3, 1e12] {
        let key = Key::from_bytes([0; 32]);
        assert!(Stream::new(System::Banded(vec![1.0]), false, scale, granularity, 1, key).is_err(), "{scale}");
    }
}

/// Eight steps of the noise alone, on a grid of 2⁻³² standard deviations or so.
fn fine(system: &System, totals: bool, len: usize) -> Vec<Vec<f64>> {
    let mut stream = stream(system, totals, -30, len);
    let mut steps = vec![vec![0.0; len]; 8];
    for step in &mut steps {
        stream.add(Isa::best(), step, ONE).expect("a step");
    }
    steps
}

#[test]
fn the_noise_of_every_matrix_solves_its_equations_with_the_same_variables() {
    let variables = fine(&System::Banded(vec![1.0]), false, 500);
    for system in systems() {
        let (noise, totals) = (fine(&system, false, 500), fine(&system, true, 500));
        for step in 0..8 {
            let coefficient = |lag: usize| match &system {
                System::Banded(c) => c.get(lag).copied().unwrap_or(0.0),
                System::Rows { width, rows } => {
                    if lag < *width {
                        rows[step * width + lag]
                    } else {
                        0.0
                    }
                }
                System::Buffered { decays, weights } if lag > 0 => {
                    decays.iter().zip(weights).map(|(decay, weight)| weight * decay.powi(lag as i32 - 1)).sum()
                }
                _ => {
                    if lag == 0 {
                        1.0
                    } else {
                        0.0
                    }
                }
            };
            for i in 0..500 {
                let right: f64 = match &system {
                    System::Inverse(d) => {
                        d.iter().take(step + 1).enumerate().map(|(j, d)| d * variables[step - j][i]).sum()
                    }
                    _ => variables[step][i],
                };
                let left: f64 = (0..=step).map(|lag| coefficient(lag) * noise[step - lag][i]).sum();
                let sum: f64 = (0..=step).map(|earlier| noise[earlier][i]).sum();

                assert!((left - right).abs() < 1e-7, "{system:?} {step}");
                assert!((sum - totals[step][i]).abs() < 1e-7, "{system:?} {step}");
            }
        }
        assert!((0..7).all(|step| variables[step] != variables[step + 1]));
    }
}

/// Values are chosen so that their sums with noise are within 2⁻³¹ of a half-integer: floats are off by more in one of a hundred.
#[test]
fn sums_next_to_half_integers_are_settled_as_integers_settle_them() {
    let len = 60_000;
    for system in [&systems()[1], &systems()[4]] {
        let noise = fine(system, true, len);
        let (mut plain, exact) = (stream(system, true, 0, len), stream(system, true, 0, len));
        let mut exact = exact.with_widened_margins(0.5);
        for noise in &noise[..3] {
            let mut values: Vec<f64> = noise.iter().map(|noise| 0.5 - noise).collect();
            let mut expected = values.clone();

            plain.add(Isa::best(), &mut values, ONE).expect("a step");
            exact.add(Isa::best(), &mut expected, ONE).expect("a step");

            assert!(values == expected, "{system:?}");
            assert!(values.contains(&0.0) && values.contains(&1.0));
        }
    }
}
