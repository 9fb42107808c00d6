use std::sync::{Arc, Mutex};

use super::*;
use crate::math::exp::exp_neg;
use crate::params::exp2;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn law(law: Law, scale: f64) -> FixedTime {
    FixedTime::new(law, Scale::from_float(scale).expect("in range")).expect("small enough")
}

fn laws() -> Vec<FixedTime> {
    let gaussian = [0.01, 0.3, 1.0, 5.5, 64.0].map(|scale| law(Law::Gaussian, scale));
    let laplace = [0.01, 0.7, 1.0, 33.3, 1e6, LARGEST_LAPLACE].map(|scale| law(Law::Laplace, scale));
    gaussian.into_iter().chain(laplace).collect()
}

/// Blocks that are easy to tell from all others.
fn further(d: u64, n: u64) -> [u64; 2] {
    [d.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n, (d + 7).wrapping_mul(0xd134_2543_de82_ef95) ^ n]
}

fn blocks_of(law: &FixedTime, n: u64) -> Vec<[u8; CIPHER_BLOCK]> {
    let mut bytes = vec![[0; CIPHER_BLOCK]; law.blocks_per_sample()];
    Keystream::new(Isa::PORTABLE, &Key::from_bytes([3; 32])).fill(9, n << 10, bytes.as_flattened_mut());
    bytes
}

#[test]
fn intervals_decide_the_same() {
    for law in laws() {
        for n in 0..20 {
            let blocks = blocks_of(&law, n);
            let fast = sample_of_blocks(&law, &blocks, further, false);
            assert_eq!(fast, sample_of_blocks(&law, &blocks, further, true), "{:?}", law.decision);
        }
    }
}

/// Digits just below, at and just above every threshold: the ones at it are open, the others agree with the intervals.
#[test]
fn digits_next_to_thresholds_are_decided_rightly() {
    for law in laws() {
        let step = law.thresholds.len().div_ceil(8);
        let mut open = 0;
        for (k, &[high, low]) in law.thresholds.iter().enumerate().step_by(step) {
            let threshold = (u128::from(high) << 64) | u128::from(low);
            for digits in [threshold.wrapping_sub(1), threshold, threshold + 1] {
                let mut blocks = blocks_of(&law, 100 + k as u64);
                if law.decision.law == Law::Gaussian {
                    if digits >> 127 != 0 {
                        continue;
                    }
                    blocks[0] = ((digits << 1) | (k as u128 & 1)).to_le_bytes();
                } else {
                    blocks[k] = digits.to_le_bytes();
                }
                let (noise, is_open) = law.invert(&blocks);
                open += usize::from(is_open);
                let halves = [(digits >> 64) as u64, digits as u64];
                let others = if law.decision.law == Law::Gaussian { &law.thresholds[..] } else { &[] };
                assert_eq!(is_open, digits == threshold || others.contains(&halves));
                let exact = sample_of_blocks(&law, &blocks, further, true);
                assert!(is_open || i128::from(noise) == exact, "{:?}: {k}", law.decision);
            }
        }
        assert!(open > 0);
    }
}

/// At equality the further digits decide: all zeros are below, all ones above.
#[test]
fn further_digits_break_ties() {
    let gaussian = law(Law::Gaussian, 3.0);
    for k in 0..20 {
        let [high, low] = gaussian.thresholds[k];
        let blocks = [(((u128::from(high) << 64) | u128::from(low)) << 1).to_le_bytes()];
        assert_eq!(k as i128, sample_of_blocks(&gaussian, &blocks, |_, _| [0; 2], false));
        assert_eq!(k as i128 + 1, sample_of_blocks(&gaussian, &blocks, |_, n| [u64::MAX - n; 2], false));
    }
    let laplace = law(Law::Laplace, 3.0);
    let num = laplace.thresholds.len();
    for j in 0..num {
        let mut blocks = vec![[0xff; CIPHER_BLOCK]; 2 * num];
        let [high, low] = laplace.thresholds[j];
        blocks[j] = ((u128::from(high) << 64) | u128::from(low)).to_le_bytes();
        let below = sample_of_blocks(&laplace, &blocks, |_, _| [0, 1], false);
        let above = sample_of_blocks(&laplace, &blocks, |_, n| [u64::MAX - n; 2], false);
        if j + 1 < num {
            assert_eq!((1 << j, 0), (below, above), "digit {j}");
        } else {
            // U = 2⁻²⁵⁶ or so: n·2^J/3 < 256·ln 2
            assert!(below >= 1 << j && below % (1 << j) == 0, "{below}");
            assert_eq!(0, above);
        }
    }
}

fn halves(threshold: [u64; 2]) -> u128 {
    (u128::from(threshold[0]) << 64) | u128::from(threshold[1])
}

/// The production path over several chunks, every sample of it a tie: its digits are those of its own blocks, and what breaks
/// the tie are the further digits of that very decision.
#[test]
fn each_tie_is_broken_by_digits_of_its_own() {
    let tape = |digits: u128| [digits as u64, (digits >> 64) as u64];
    let gaussian = law(Law::Gaussian, 3.0);
    let table = gaussian.thresholds.clone();
    let keystream = Keystream::of_tape(move |stream, index| match (stream, index % 2) {
        (0, sign) => tape(halves(table[index as usize % 20]) << 1 | u128::from(sign)),
        (_, 0) => [0; 2],
        (n, _) => [u64::MAX - n; 2],
    });
    let mut found = vec![0_i64; 3000];
    gaussian.add_block(&keystream, 0, &mut found);
    // A sign of minus where the digits are ones, too.
    assert!(found.iter().enumerate().all(|(i, &x)| x == if i % 2 == 0 { i as i64 % 20 } else { -(i as i64 % 20) - 1 }));

    let laplace = law(Law::Laplace, 3.0);
    let (table, per_sample) = (laplace.thresholds.clone(), laplace.blocks_per_sample());
    let (num, of_sample) = (table.len(), per_sample as u64);
    // Sample i has its tie at digit i % J of one of the two geometric variables; all other digits are zeros.
    let place = move |sample: u64| sample % (num as u64 - 1) + sample / 8 % 2 * num as u64;
    let keystream = Keystream::of_tape(move |stream, index| {
        let is_tie = index % of_sample == place(index / of_sample);
        match stream {
            0 if is_tie => tape(halves(table[(index % of_sample) as usize % num])),
            0 => [u64::MAX; 2],
            _ if is_tie => [0, 1],
            n => [u64::MAX - n; 2],
        }
    });
    let mut found = vec![0_i64; 3000];
    laplace.add_block(&keystream, 0, &mut found);
    for (i, &x) in found.iter().enumerate() {
        let digit = 1 << (i % (num - 1));
        assert_eq!(if i / 8 % 2 == 0 { digit } else { -digit }, x, "sample {i}");
    }
}

/// Whatever the noise, a sample asks for its own blocks, once each, in order, and for no others.
#[test]
fn the_random_bits_that_are_used_do_not_depend_on_the_noise() {
    for law in laws() {
        let asked: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
        let (seen, bits) = (Arc::clone(&asked), Keystream::new(Isa::PORTABLE, &Key::from_bytes([5; 32])));
        let keystream = Keystream::of_tape(move |stream, index| {
            seen.lock().expect("no panic").push((stream, index));
            bits.words(stream, index)
        });
        law.add_block(&keystream, 0, &mut vec![0_i64; 1500]);
        let all = (0..1500 * law.blocks_per_sample() as u64).map(|index| (0, index)).collect::<Vec<_>>();
        assert!(*asked.lock().expect("no panic") == all, "{:?}", law.decision);
    }
}

#[test]
fn tables_end_where_nothing_is_left_and_ties_are_rare() {
    for law in laws() {
        let last = *law.thresholds.last().expect("not empty");
        let expected = if law.decision.law == Law::Gaussian { [u64::MAX >> 1, u64::MAX] } else { [0, 0] };
        assert_eq!(expected, last);
        // each comparison is open for one of 2¹²⁷ values at most
        assert!(law.comparisons_per_sample() < 1 << 27, "below 2⁻¹⁰⁰ a sample");
    }
    assert_eq!(837, law(Law::Gaussian, 64.0).comparisons_per_sample());
}

#[test]
fn thresholds_are_near_those_of_floats() {
    let weight = |t: f64| {
        let (m, k) = exp_neg(t);
        m * exp2(-k)
    };
    for scale in [0.5, 1.0, 7.25] {
        let gaussian = law(Law::Gaussian, scale);
        let weights: Vec<f64> =
            (0..200).map(|k| weight((f64::from(k * k) / (2.0 * scale * scale)).min(700.0))).collect();
        let total = 2.0 * weights.iter().sum::<f64>() - 1.0;
        let mut sum = -1.0;
        for (k, &[high, _]) in gaussian.thresholds.iter().enumerate() {
            sum += 2.0 * weights[k];
            assert!((high as f64 * exp2(-63) - sum / total).abs() < 1e-14, "{scale}, {k}");
        }
        let laplace = law(Law::Laplace, scale);
        for (j, &[high, _]) in laplace.thresholds.iter().enumerate() {
            let w = weight((exp2(j as i32) / scale).min(700.0));
            assert!((high as f64 * exp2(-64) - w / (1.0 + w)).abs() < 1e-14, "{scale}, {j}");
        }
    }
}

#[test]
fn isas_threads_and_types_agree() {
    for law in laws() {
        let key = Key::from_bytes([8; 32]);
        let mut expected = vec![5_i64; 3000];
        law.add(Isa::PORTABLE, &key, &mut expected, ONE);
        for isa in Isa::available() {
            let mut found = vec![5_i64; 3000];
            law.add(isa, &key, &mut found, NonZeroUsize::new(3).expect("positive"));
            assert!(expected == found, "{isa:?}");
        }
        let mut narrow = vec![5_i32; 3000];
        law.add(Isa::best(), &key, &mut narrow, ONE);
        assert!(expected.iter().zip(narrow).all(|(&a, b)| a.clamp(i32::MIN.into(), i32::MAX.into()) == b.into()));
    }
}

#[test]
fn too_large_scales_are_refused() {
    for (law, scale) in [(Law::Gaussian, 64.1), (Law::Laplace, LARGEST_LAPLACE * 1.5)] {
        let refused = FixedTime::new(law, Scale::from_float(scale).expect("in range"));
        assert!(refused.is_err_and(|error| error.to_string().contains("at most")));
    }
}
