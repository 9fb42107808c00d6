//! The sampler from outside: every path, every stage and every split into threads gives the same bits.

use std::num::NonZeroUsize;

use ferrodp_core::Isa;
use ferrodp_core::math::integer::Integer;
use ferrodp_core::params::Granularity;
use ferrodp_core::random::Key;
use ferrodp_core::sample::{Element, Law, Noise, decide};

const SCALE: f64 = 1.1;

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; 32])
}

fn one_thread() -> NonZeroUsize {
    NonZeroUsize::MIN
}

/// Every law at ratios from the finest to the coarsest grid, so that both word sizes are used.
fn noises() -> Vec<Noise> {
    let mut found = Vec::new();
    for law in [Law::Gaussian, Law::Laplace] {
        for exponent in [-43, -40, -32, -21, -20, -14, -12, -10, -1, 0, 3] {
            let granularity = Granularity::from_exponent(exponent).expect("in range");
            found.push(Noise::new(law, SCALE, granularity).expect("in range"));
        }
    }
    found
}

/// Values whose split into whole steps and a fraction is delicate on some grid of [`noises`].
fn delicate(n: usize) -> Vec<f64> {
    let specials = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        1e-300,
        -5e-324,
        1e300,
        f64::MAX,
        f64::MIN,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        9_007_199_254_740_993.0,
        0.1,
        -2.5,
        1024.0 + 1.0 / 1024.0,
        1e9,
    ];
    (0..n)
        .map(|i| if i % 3 == 0 { specials[(i / 3) % specials.len()] } else { (i as f64 * 0.7).sin() * 10.0 })
        .collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_isa_gives_the_same_bits() {
    for noise in noises() {
        for len in [0, 1, 7, 8, 15, 16, 17, 1023, 1024, 1025, 40_000] {
            let mut expected = delicate(len);
            noise.add(Isa::PORTABLE, &key(1), &mut expected, one_thread());
            for isa in Isa::available() {
                let mut values = delicate(len);

                noise.add(isa, &key(1), &mut values, one_thread());

                assert!(bits(&expected) == bits(&values), "{noise:?} {isa:?} {len}");
            }
        }
    }
}

#[test]
fn every_isa_gives_the_same_bits_in_single_precision() {
    for noise in noises() {
        let start: Vec<f32> = delicate(3001).into_iter().map(|v| v as f32).collect();
        let mut expected = start.clone();
        noise.add(Isa::PORTABLE, &key(2), &mut expected, one_thread());
        for isa in Isa::available() {
            let mut values = start.clone();

            noise.add(isa, &key(2), &mut values, one_thread());

            assert!(expected.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()), "{noise:?} {isa:?}");
        }
    }
}

#[test]
fn widened_margins_change_no_bit() {
    // At 2⁻⁸ one sample in 64 reaches the third stage and, being close to a threshold, the fourth.
    for noise in noises() {
        let mut expected = delicate(20_000);
        noise.add(Isa::best(), &key(3), &mut expected, one_thread());
        for isa in Isa::available() {
            let mut values = delicate(20_000);

            noise.clone().with_widened_margins(1.0 / 256.0).add(isa, &key(3), &mut values, one_thread());

            assert!(bits(&expected) == bits(&values), "{noise:?} {isa:?}");
        }
    }
}

/// What the stage in single precision leaves open, by hundreds in a chunk, reaches every later stage.
#[test]
fn widened_margins_change_no_bit_in_single_precision() {
    for noise in noises() {
        let start: Vec<f32> = delicate(10_003).into_iter().map(|v| v as f32).collect();
        let mut expected = start.clone();
        noise.add(Isa::best(), &key(3), &mut expected, one_thread());
        for (isa, steps) in Isa::available().into_iter().flat_map(|isa| [(isa, 1.0 / 256.0), (isa, 1.0 / 64.0)]) {
            let mut values = start.clone();

            noise.clone().with_widened_margins(steps).add(isa, &key(3), &mut values, one_thread());

            assert!(expected.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()), "{noise:?} {isa:?} {steps}");
        }
    }
}

/// The same words at the same places: rounded in double precision and then to single, as if there were no other stage.
#[test]
fn single_precision_gives_what_double_precision_gives() {
    for noise in noises() {
        let start: Vec<f32> = delicate(100_003).into_iter().map(|v| v as f32).collect();
        let mut expected: Vec<f64> = start.iter().map(|&v| f64::from(v)).collect();
        noise.add(Isa::best(), &key(8), &mut expected, one_thread());
        for isa in Isa::available() {
            let mut values = start.clone();

            noise.add(isa, &key(8), &mut values, one_thread());

            let limit = f64::from(f32::MAX);
            for ((expected, found), start) in expected.iter().zip(&values).zip(&start) {
                let expected = expected.clamp(-limit, limit) as f32;
                assert_eq!(expected.to_bits(), found.to_bits(), "{noise:?} {isa:?} {start:e}");
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let noise = Noise::gaussian(SCALE, Granularity::from_exponent(-32).expect("in range")).expect("in range");
    let mut expected = delicate(200_000);
    noise.add(Isa::best(), &key(4), &mut expected, one_thread());
    for threads in [2, 7] {
        let mut values = delicate(200_000);

        noise.add(Isa::best(), &key(4), &mut values, NonZeroUsize::new(threads).expect("positive"));

        assert!(bits(&expected) == bits(&values), "{threads} threads");
    }
}

#[test]
fn released_numbers_lie_on_the_grid_and_no_zero_has_a_sign() {
    let noise = Noise::gaussian(0.5, Granularity::from_exponent(0).expect("in range")).expect("in range");
    for isa in Isa::available() {
        let mut values: Vec<f64> = (0..10_000).map(|i| (f64::from(i) * 0.37).sin() * 0.4).collect();

        noise.add(isa, &key(5), &mut values, one_thread());

        assert!(values.iter().all(|v| v.fract() == 0.0), "{isa:?}");
        assert!(values.iter().filter(|v| **v == 0.0).all(|v| v.is_sign_positive()), "{isa:?}");
    }
}

/// With so many keys that on the finest grid of short words further bits decide some of the samples.
#[test]
fn a_single_number_gets_the_noise_of_an_array_of_one() {
    for noise in noises() {
        for isa in Isa::available() {
            for (i, value) in delicate(4000).into_iter().enumerate() {
                let key = Key::from_bytes(core::array::from_fn(|place| (i >> (8 * (place % 2))) as u8));
                let mut values = [value];
                noise.add(isa, &key, &mut values, one_thread());

                let found = noise.add_one(isa, &key, value);

                assert_eq!(values[0].to_bits(), found.to_bits(), "{noise:?} {isa:?} {value:e}");
            }
        }
    }
}

#[test]
fn filling_is_adding_to_zeros_and_sums_are_shifted_noise() {
    for noise in noises() {
        let mut added = vec![0.0_f64; 5000];
        noise.add(Isa::best(), &key(6), &mut added, one_thread());
        let mut filled = vec![f64::NAN; 5000];
        noise.fill(Isa::best(), &key(6), &mut filled, one_thread());
        let sums: Vec<i64> = (0..5000).map(|i| (i - 2500) << 20).collect();
        let mut summed = vec![0.0_f64; 5000];
        noise
            .add_to_sums(Isa::best(), &key(6), &sums, noise.granularity(), None, &mut summed, one_thread())
            .expect("same length");

        assert_eq!(bits(&added), bits(&filled));
        let g = noise.granularity().width();
        for ((sum, noise), total) in sums.iter().zip(&added).zip(&summed) {
            let n = (noise / g) as i64;
            assert_eq!((sum + n) as f64 * g, *total);
        }
    }
}

#[test]
fn a_sum_in_finer_units_gets_the_noise_of_the_float_that_it_is() {
    fn check<T: Element + PartialEq + core::fmt::Debug + Into<f64>>(narrow: fn(f64) -> T) {
        let unit = Granularity::from_exponent(0).expect("in range");
        for (finer, ratio) in [(0, 4097.3), (1, 0.2), (8, 1.7), (17, 4096.0), (17, 8191.9), (24, 20_000.0), (24, 1e7)] {
            let noise = Noise::gaussian(ratio, unit).expect("in range");
            let units = Granularity::from_exponent(-finer).expect("in range");
            let mut state = 1_u64;
            // Some of them large everywhere; all of them small but for a few at the end.
            let sums: Vec<i64> = (0..5003 + 2048)
                .map(|i| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let least = if (5003..7020).contains(&i) { 40 - finer } else { 11 };
                    state.cast_signed() >> (least + i % (61 - least))
                })
                .collect();
            let mut floats: Vec<f64> = sums.iter().map(|sum| *sum as f64 * units.width()).collect();
            noise.add(Isa::PORTABLE, &key(9), &mut floats, one_thread());
            let whole: Vec<T> = floats.into_iter().map(narrow).collect();
            for denominator in [None, Some(3.0), Some(0.1)] {
                let divided = |x: &T| denominator.map_or(*x, |by| narrow((*x).into() / by));
                let expected: Vec<T> = whole.iter().map(divided).collect();
                for (isa, threads) in Isa::available().into_iter().flat_map(|isa| [1, 3].map(|threads| (isa, threads)))
                {
                    let mut released = vec![narrow(1.0); sums.len()];
                    let threads = NonZeroUsize::new(threads).expect("positive");
                    noise
                        .add_to_sums(isa, &key(9), &sums, units, denominator, &mut released, threads)
                        .expect("one length");

                    assert_eq!(expected, released, "{finer} {ratio} {denominator:?} {isa:?}");
                }
            }
        }
    }
    check::<f32>(|x| x as f32);
    check::<f64>(|x| x);
}

#[test]
fn sums_in_units_of_a_coarser_grid_or_a_far_finer_one_are_refused() {
    let noise = Noise::gaussian(4096.0, Granularity::from_exponent(0).expect("in range")).expect("in range");
    for (exponent, accepted) in [(1, false), (0, true), (-24, true), (-25, false), (-900, false)] {
        let unit = Granularity::from_exponent(exponent).expect("in range");
        let mut out = [7.0_f32; 3];

        let outcome = noise.add_to_sums(Isa::best(), &key(9), &[1; 3], unit, None, &mut out, one_thread());

        assert_eq!(accepted, outcome.is_ok(), "{exponent}");
        assert_eq!(accepted, out != [7.0; 3]);
    }
}

#[test]
fn the_grid_of_released_sums_is_theirs_or_the_default_one_of_single_precision() {
    let sums = Granularity::from_exponent(-29).expect("in range");
    // (scale, for f32)
    for (scale, expected) in [(1e-9, -29), (0.5_f64.powi(17), -29), (0.5_f64.powi(16), -28), (1.0, -12), (1.9, -12)] {
        assert_eq!(expected, Noise::granularity_for_sums::<f32>(scale, sums).expect("in range").exponent());
        assert_eq!(sums, Noise::granularity_for_sums::<f64>(scale, sums).expect("in range"));
    }
    for scale in [128.0, 256.0, 1e4] {
        assert_eq!(-5, Noise::granularity_for_sums::<f32>(scale, sums).expect("in range").exponent());
    }
    assert!(Noise::granularity_for_sums::<f32>(0.0, sums).is_err());
}

#[test]
fn results_beyond_the_range_of_the_type_become_its_largest_number() {
    fn check<T: Element + PartialOrd + core::fmt::Debug>(largest: T, expected: f64) {
        let exponent = ferrodp_core::params::floor_log2(expected) - 30;
        let granularity = Granularity::from_exponent(exponent.min(900)).expect("in range");
        let scale = granularity.width() * 1e9;
        let noise = Noise::gaussian(scale, granularity).expect("in range");
        for isa in Isa::available() {
            let mut values = vec![largest; 1000];

            noise.add(isa, &key(7), &mut values, one_thread());

            assert!(values.iter().all(|v| *v <= largest));
            assert!(values.contains(&largest));
        }
    }
    check(f32::MAX, f64::from(f32::MAX));
    check(f64::MAX, f64::MAX);
}

#[test]
fn tails_are_never_cut_off() {
    // p = 3/2·2⁻⁶⁴, 2⁻¹²⁹, 2⁻¹⁹³, 2⁻²⁵⁷ (and a digit far below): round(2³⁰z + ¼) from 100 digits of z.
    let gaussian = [9_702_243_986, 14_075_280_179, 17_318_495_959, 20_047_085_034];
    let laplace = [46_453_085_587, 95_265_423_098, 142_898_134_648, 190_530_846_197];
    for (law, expected) in [(Law::Gaussian, gaussian), (Law::Laplace, laplace)] {
        let noise = Noise::new(law, 1.0, Granularity::from_exponent(-30).expect("in range")).expect("in range");
        for (zero_words, expected) in expected.into_iter().enumerate() {
            let extension = |block: u64| {
                let word = |i: u64| if i < zero_words as u64 { 0 } else { 0x8000_0000_0000_0001 };
                [word(2 * block), word(2 * block + 1)]
            };
            // With no zero word to follow, the first word itself carries a bit.
            let word = u64::from(zero_words == 0);

            assert_eq!(expected, decide::settle_word(&noise, word, extension, 0.25), "{law:?} {zero_words}");
            assert_eq!(
                -expected,
                decide::settle_word(&noise, word | (1 << 63), extension, -0.25),
                "{law:?} {zero_words}"
            );
        }
    }
}

#[test]
fn scales_far_from_the_grid_are_refused() {
    let granularity = Granularity::from_exponent(0).expect("in range");
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.124, 17_592_186_044_416.0, 1e300] {
        assert!(Noise::gaussian(scale, granularity).is_err(), "{scale:e}");
    }
    for scale in [0.125, 1.0, 17_592_186_044_415.0] {
        assert!(Noise::gaussian(scale, granularity).is_ok(), "{scale:e}");
    }
}

/// Where the grid lies far below the smallest `f32`, all noise is rounded to zero: no sign must be left of it.
#[test]
fn a_released_zero_is_positive_in_single_precision_too() {
    for law in [Law::Gaussian, Law::Laplace] {
        for exponent in [-230, -210] {
            let granularity = Granularity::from_exponent(exponent).expect("in range");
            let noise = Noise::new(law, 2.0_f64.powi(-200), granularity).expect("in range");
            for isa in Isa::available() {
                let mut values = [0.0_f32; 1000];
                let sums: Vec<i64> = (-500..500).collect();
                let mut released = [1.0_f32; 1000];

                noise.add(isa, &key(4), &mut values, one_thread());
                noise
                    .add_to_sums(isa, &key(4), &sums, granularity, None, &mut released, one_thread())
                    .expect("lengths agree");

                assert!(values.iter().chain(&released).all(|x| x.to_bits() == 0), "{noise:?} {isa:?}");
            }
        }
    }
}

/// Integers that floats denote get the noise of those floats, at every place of a call.
#[test]
fn an_integer_gets_the_noise_of_an_equal_float() {
    let granularities = [-43, -32, -21, -20, -1, 0, 1, 3, 40, 53, 54, 80, 200];
    let values = [
        0,
        1,
        5,
        12_345,
        (1 << 39) - 1,
        (1 << 52) - 1,
        (1 << 53) - 1,
        1 << 53,
        3 << 60,
        (1 << 54) - 2,
        0x1234_5670_0000_0000 << 40_u128,
    ];
    for (law, exponent) in [Law::Gaussian, Law::Laplace].into_iter().flat_map(|law| granularities.map(|e| (law, e))) {
        let granularity = Granularity::from_exponent(exponent).expect("in range");
        let scale = SCALE * 2.0_f64.powi(exponent.max(0) + if exponent < 0 { 0 } else { 30 });
        let noise = Noise::new(law, scale, granularity).expect("in range");
        for isa in Isa::available() {
            let values: Vec<u128> =
                values.iter().copied().filter(|&v| (v as f64) < granularity.width() * 2.0_f64.powi(100)).collect();
            let floats: Vec<f64> = values.iter().flat_map(|&v| [v as f64, -(v as f64)]).collect();
            let mut released = floats.clone();
            noise.add(isa, &key(5), &mut released, one_thread());
            let signed = floats.iter().zip(values.iter().flat_map(|&v| [v, v]));
            let integers: Vec<(u64, Integer)> = (0..)
                .zip(signed.map(|(float, size)| Integer::from_le_bytes(*float < 0.0, &size.to_le_bytes())))
                .collect();

            let mut steps = vec![0; integers.len()];
            noise.steps(isa, &key(5), &integers, &mut steps);

            let expected: Vec<f64> = steps.iter().map(|&k| k as f64 * granularity.width()).collect();
            assert_eq!(expected, released, "{noise:?} {isa:?}");
        }
    }
}

/// What whole steps an integer has changes nothing: so it is exact where no float is.
#[test]
fn noise_of_long_integers_is_that_of_what_whole_steps_leave() {
    for law in [Law::Gaussian, Law::Laplace] {
        let granularity = Granularity::from_exponent(70).expect("in range");
        let noise = Noise::new(law, 2.0_f64.powi(75), granularity).expect("in range");
        for n in 0..200_u128 {
            let rest = n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C834) >> 58; // 70 bits, of which no float holds the last
            let whole = n * n * 12_345;
            let long = Integer::from_le_bytes(false, &((whole << 70) + rest).to_le_bytes());
            let short = Integer::from_le_bytes(false, &rest.to_le_bytes());

            let [found, expected] = [long, short].map(|integer| {
                let mut steps = [0];
                noise.steps(Isa::best(), &key(6), &[(n as u64, integer)], &mut steps);
                steps[0]
            });

            assert_eq!(expected + whole as i128, found, "{law:?} {n}");
        }
    }
}

#[test]
fn numbers_among_others_that_are_none_get_the_same_noise() {
    for noise in noises() {
        let none = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let start: Vec<f64> = delicate(4_003);
        for (every, isa) in
            [2, 5, 11].into_iter().flat_map(|every| Isa::available().into_iter().map(move |isa| (every, isa)))
        {
            let is_none = |i: usize| !i.is_multiple_of(every);
            let zero = |(i, &v): (usize, &f64)| if is_none(i) || !v.is_finite() { 0.0 } else { v };
            let mut expected: Vec<f64> = start.iter().enumerate().map(zero).collect();
            let mut values: Vec<f64> =
                start.iter().enumerate().map(|(i, &v)| if is_none(i) { none[i % 3] } else { v }).collect();

            noise.add(Isa::PORTABLE, &key(6), &mut expected, one_thread());
            noise.add(isa, &key(6), &mut values, one_thread());

            assert!(bits(&expected) == bits(&values), "{noise:?} {isa:?} {every}");
        }
    }
}

/// One is 2⁴³ steps, so that the noise of the integer 1 is decided by the last stage alone.
#[test]
fn on_the_finest_grids_noise_is_what_the_last_stage_says() {
    for law in [Law::Gaussian, Law::Laplace] {
        let noise = Noise::new(law, SCALE, Granularity::from_exponent(-43).expect("in range")).expect("in range");
        let ones: Vec<_> = (0..400).map(|i| (i, Integer::from_le_bytes(false, &[1]))).collect();
        let mut values = vec![0.0_f64; ones.len()];

        let mut expected = vec![0; ones.len()];
        noise.steps(Isa::best(), &key(7), &ones, &mut expected);
        noise.add(Isa::best(), &key(7), &mut values, one_thread());

        let found = values.iter().map(|value| (value * 2.0_f64.powi(43)) as i128 + (1 << 43));
        assert!(expected.into_iter().eq(found), "{law:?}");
    }
}
