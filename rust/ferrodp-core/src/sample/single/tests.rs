//! What the stage decides is right where it is hardest: values put so that their sums lie about a bound from a half-integer.

use super::stage::first_stage;
use super::*;
use crate::isa::Isa;
use crate::params::Granularity;
use crate::sample::decide::settle_word;
use crate::sample::tables::quantile::PROBIT_BY_HALF_OCTAVE;
use crate::sample::types::PADDED_SAMPLES;

/// Returns `Φ̄⁻¹` in the middle of what a word leaves open, by the table of the later stages.
fn quantile(magnitude: u32) -> f64 {
    let x = f64::from(magnitude) + 0.5;
    let octave = 30 + 1023 - (x.to_bits() >> 52) as usize;
    let half = (x.to_bits() >> 51) as usize & 1;
    let t = f64::from_bits((x.to_bits() & ((1 << 51) - 1)) | 1023 << 52) - 1.25;
    PROBIT_BY_HALF_OCTAVE[2 * octave + half].iter().rev().fold(0.0, |sum, c| sum * t + c)
}

/// Magnitudes at the ends of all segments and inside them.
fn magnitudes() -> Vec<u32> {
    let mut found = Vec::new();
    for octave in 0..17_u32 {
        let lowest = 1_u32 << (30 - octave);
        for half in 0..2 {
            let start = lowest + half * lowest / 2;
            let length = lowest / 2;
            found.extend([
                start,
                start + 1,
                start + length / 3,
                start + length / 2,
                start + length - 2,
                start + length - 1,
            ]);
            let mut state = start;
            found.extend((0..40).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                start + ((u64::from(state) * u64::from(length)) >> 32) as u32
            }));
        }
    }
    found
}

fn noise(ratio: f64) -> Noise {
    Noise::gaussian(ratio, Granularity::from_exponent(0).expect("in range")).expect("in range")
}

/// Runs the stage on these, and returns what it decides.
fn decided(isa: Isa, noise: &Noise, samples: &[(u32, f32)]) -> Vec<Option<f32>> {
    let single = Single::new(noise, 1.0).expect("coarse");
    let mut found = Vec::new();
    for samples in samples.chunks(PADDED_SAMPLES) {
        let mut words = [0_u8; 4 * PADDED_SAMPLES];
        let mut values = [0.0_f32; PADDED_SAMPLES];
        for (i, (word, value)) in samples.iter().enumerate() {
            words[4 * i..][..4].copy_from_slice(&word.to_le_bytes());
            values[i] = *value;
        }
        let mut open = Open { groups: [0; _] };
        first_stage(isa, &single, &words, &mut values, &mut open);
        let is_open = |i: usize| open.groups[i / LANES] >> (i % LANES) & 1 == 1;
        found.extend((0..samples.len()).map(|i| (!is_open(i)).then_some(values[i])));
    }
    found
}

#[test]
fn what_is_decided_is_right_however_close_a_half_integer_is() {
    for ratio in [0.2, 3.7, 1024.0, 4096.0, 5000.1, 8191.9, 16383.9] {
        let noise = noise(ratio);
        let mut samples = Vec::new();
        for magnitude in magnitudes() {
            for sign in [0, 1 << 31] {
                let z = quantile(magnitude) * if sign == 0 { 1.0 } else { -1.0 };
                let to_half = (ratio * z).floor() + 0.5 - ratio * z;
                // From far inside what is open to outside of it: the bound is about s/2²¹.
                for near in -24..=24 {
                    let value = to_half + f64::from(near) * (ratio + 1.0) * 2.0_f64.powi(-24);
                    samples.push((magnitude | sign, value as f32));
                }
            }
        }
        for isa in Isa::available() {
            let found = decided(isa, &noise, &samples);
            let count = found.iter().flatten().count();
            assert!(count > samples.len() / 8 && count < samples.len() - samples.len() / 8, "{isa:?} {ratio}: {count}");
            for ((word, value), result) in samples.iter().zip(found) {
                for rest in [0, u64::MAX] {
                    let Some(result) = result else { continue };
                    let truth = settle_word(&noise, u64::from(*word), |_| [rest; 2], f64::from(*value));
                    assert_eq!(truth, result as i128, "{isa:?} {ratio} {word:x} {value:e}");
                }
            }
        }
    }
}

#[test]
fn all_but_a_few_samples_are_decided_and_what_is_not_finite_is_a_zero() {
    let noise = noise(8191.0);
    let words = (0..60_000_u32).map(|i| i.wrapping_mul(2_654_435_761));
    for value in [0.0, 0.3, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e9, -3e20] {
        let samples: Vec<_> = words.clone().map(|word| (word, value)).collect();
        let zeros: Vec<_> = words.clone().map(|word| (word, 0.0)).collect();
        for isa in Isa::available() {
            let found = decided(isa, &noise, &samples);

            assert!(found.iter().flatten().count() > 59_000, "{isa:?} {value}");
            if !value.is_finite() {
                assert_eq!(decided(isa, &noise, &zeros), found, "{isa:?} {value}");
            }
        }
    }
}

#[test]
fn noise_on_fine_grids_or_of_another_law_is_for_the_other_stage() {
    let unit = Granularity::from_exponent(0).expect("in range");
    assert!(Single::new(&noise(16384.0), 1.0).is_none());
    assert!(Single::new(&Noise::laplace(4096.0, unit).expect("in range"), 1.0).is_none());
    for (exponent, applies) in [(-127, false), (-126, true), (126, true), (127, false)] {
        let granularity = Granularity::from_exponent(exponent).expect("in range");
        let noise = Noise::gaussian(4096.0 * granularity.width(), granularity).expect("in range");
        assert_eq!(applies, Single::new(&noise, granularity.width()).is_some(), "{exponent}");
    }
}

#[test]
fn a_limit_is_not_above_what_it_is_rounded_from() {
    for x in [0.5, 0.1, 1.0 / 3.0, 0.499_999_99, -0.3] {
        assert!(f64::from(below(x)) <= x && f64::from(below(x).next_up()) > x, "{x}");
    }
}

#[test]
fn only_values_that_no_noise_moves_are_passed_over() {
    let single = Single::new(&noise(4096.0), 1.0).expect("coarse");
    let edge = 2.0_f32.powi(60);
    for sign in [1.0, -1.0] {
        assert!(single.swallows(sign * edge, 1) && single.swallows(sign * f32::MAX, 0x8000_0001));
        assert!(!single.swallows(sign * edge.next_down(), 1));
        assert!(!single.swallows(sign * edge, 0) && !single.swallows(sign * edge, 1 << 31));
        assert!(!single.swallows(sign * f32::INFINITY, 1));
    }
    assert!(!single.swallows(f32::NAN, 1));
}
