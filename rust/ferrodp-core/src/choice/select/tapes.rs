//! The probability of every candidate by enumeration of the noise's digits, against the closed form.
//!
//! Whether a candidate wins is monotone in each word, so it wins on a whole cell of words if it does at the worst corner, and
//! nowhere if not at the best: counting corners encloses its probability. Words end in digits that differ among candidates,
//! so that no two are equal for ever; a corner is therefore up to 2⁻⁶⁴ inside its cell.

use super::*;
use crate::random::Keystream;

/// A corner is off by 2⁻⁶⁴ of a cell of 2⁻¹⁰ at most, for three candidates; closed forms by less than 10⁻¹².
const SLACK: f64 = 2e-12;

/// Returns the winner among candidates with these words and signs.
fn winner(noise: Noise, epsilon: f64, utilities: &[f64], words: &[u64], negative: &[bool], widening: f64) -> usize {
    let (given, signs) = (words.to_vec(), negative.to_vec());
    let keystream = Keystream::of_tape(move |stream, index| match stream {
        0 => [0, 1].map(|half| given.get(2 * index as usize + half).copied().unwrap_or(0)),
        1 => [u64::from(signs[index as usize]) << 63, 0],
        2 => [0, index + 1],
        _ => [0, 0],
    });
    let rate = Rate::new(2.0 * epsilon, 1.0, 2).expect("valid");
    Selection::new(noise, rate, &keystream, utilities).run(widening)
}

/// Whether noise grows with the word: the race is won by small words, `−ln U` is large for them, and signs turn it round.
fn grows(noise: Noise, negative: bool) -> bool {
    noise == Noise::Laplace && negative
}

/// Returns bounds on the probability that candidate 0 of two wins, from `digits` of the first word and `more` of the second.
fn of_two(noise: Noise, epsilon: f64, lead: f64, [digits, more]: [u32; 2], widening: f64) -> (f64, f64) {
    let utilities = [lead.max(0.0), (-lead).max(0.0)];
    let signs: &[[bool; 2]] = if noise == Noise::Laplace {
        &[[false, false], [false, true], [true, false], [true, true]]
    } else {
        &[[false, false]]
    };
    let (mut low, mut high) = (0.0, 0.0);
    for negative in signs {
        // The share of second words that lose, for the first word as it is.
        let share = |word: u64| {
            let wins = |second: u64| {
                winner(noise, epsilon, &utilities, &[word, second << (64 - more)], negative, widening) == 0
            };
            let (mut least, mut most) = (0_u128, 1_u128 << more);
            while least < most {
                let middle = least + (most - least) / 2;
                if wins(middle as u64) == grows(noise, negative[1]) { least = middle + 1 } else { most = middle }
            }
            let below = least as f64 * exp2(-more.cast_signed());
            if grows(noise, negative[1]) { below } else { 1.0 - below }
        };
        let end = (1_u64 << digits) - 1;
        let at: Vec<f64> = (0..=end).map(|n| share(n << (64 - digits))).chain([share(u64::MAX)]).collect();
        for pair in at.windows(2) {
            low += pair[0].min(pair[1]);
            high += pair[0].max(pair[1]);
        }
    }
    let cells = signs.len() as f64 * exp2(digits.cast_signed());
    let slack = SLACK + exp2(-more.cast_signed());
    (low / cells - slack, high / cells + slack)
}

/// Returns the probability that the candidate ahead by `d` wins.
fn of_the_higher(noise: Noise, d: f64) -> f64 {
    match noise {
        Noise::Gumbel => 1.0 / (1.0 + (-d).exp()),
        // P[E' > E + d] = e^−d/2
        Noise::Exponential => 1.0 - 0.5 * (-d).exp(),
        // P[L' − L > d] = (2 + d)·e^−d/4
        Noise::Laplace => 1.0 - 0.25 * (2.0 + d) * (-d).exp(),
    }
}

#[test]
fn two_candidates_win_with_their_probabilities() {
    for noise in [Noise::Gumbel, Noise::Exponential, Noise::Laplace] {
        for (epsilon, lead) in [(1.0, 0.5), (0.5, 3.0), (2.0, 1.25), (1.0, -0.75)] {
            let d = epsilon * f64::abs(lead);
            let expected = if lead > 0.0 { of_the_higher(noise, d) } else { 1.0 - of_the_higher(noise, d) };
            // By the filters, and by the exact comparison alone.
            for (digits, widening) in [([9, 30], 0.0), ([3, 12], 1e6)] {
                let (low, high) = of_two(noise, epsilon, lead, digits, widening);

                assert!(high - low < 4.0 * exp2(-digits[0].cast_signed()), "{noise:?}: {low} to {high}");
                assert!((low..=high).contains(&expected), "{noise:?} {epsilon} {lead}: {expected} in {low} to {high}");
            }
        }
    }
}

/// Words that agree are told apart by the digits after them, which are those of blocks of their own: not of the sign's.
#[test]
fn digits_beyond_the_word_decide_a_tie() {
    for (noise, negative) in [(Noise::Gumbel, [true, false]), (Noise::Exponential, [true, false])] {
        // Digits grow with the index, and small numbers win.
        assert_eq!(0, winner(noise, 1.0, &[1.0, 1.0], &[1 << 60, 1 << 60], &negative, 0.0), "{noise:?}");
        assert_eq!(1, winner(noise, 1.0, &[1.0, 1.0], &[(1 << 60) + 1, 1 << 60], &negative, 0.0), "{noise:?}");
    }
    assert_eq!(1, winner(Noise::Laplace, 1.0, &[1.0, 1.0], &[1 << 60, 1 << 60], &[true, true], 0.0));
}

/// Candidates in the order of their indices, with utilities on both sides of the largest: every tape of 16 bits.
#[test]
fn all_tapes_of_three_candidates_enclose_the_law() {
    const DIGITS: [u32; 3] = [5, 6, 5];
    let utilities = [0.75, 1.5, 0.25];
    let weights = utilities.map(|u: f64| (u - 1.5).exp());
    let total: f64 = weights.iter().sum();
    let gumbel = weights.map(|w| w / total);
    // Permute-and-flip: the first in random order whose coin of probability w shows heads, again until there is one
    // (the one with w = 1 always does): 1/3·w_i·[1 + ½Σ_{j≠i}(1 − w_j) + Π_{j≠i}(1 − w_j)].
    let flip = |i: usize| {
        let others: Vec<f64> = (0..3).filter(|&j| j != i).map(|j| 1.0 - weights[j]).collect();
        weights[i] / 3.0 * (1.0 + 0.5 * (others[0] + others[1]) + others[0] * others[1])
    };
    for (noise, law) in [(Noise::Gumbel, gumbel), (Noise::Exponential, [flip(0), flip(1), flip(2)])] {
        let (mut worst, mut best) = ([0_u32; 3], [0_u32; 3]);
        for tape in 0..1_u64 << 16 {
            let cells = [(tape & 31) << 59, (tape >> 5 & 63) << 58, (tape >> 11) << 59];
            // Both noises fall with the word: small words win.
            let corner = |i: usize, own: bool| {
                let mut words = cells;
                for (j, word) in words.iter_mut().enumerate() {
                    *word |= if (i == j) == own { u64::MAX >> DIGITS[j] } else { 0 };
                }
                winner(noise, 1.0, &utilities, &words, &[false; 3], 0.0) == i
            };
            for i in 0..3 {
                worst[i] += u32::from(corner(i, true));
                best[i] += u32::from(corner(i, false));
            }
        }
        for i in 0..3 {
            let share = |count: u32| f64::from(count) * exp2(-16);
            assert!(share(worst[i]) - SLACK <= law[i], "{noise:?} {i}: {} for {}", share(worst[i]), law[i]);
            assert!(law[i] <= share(best[i]) + SLACK, "{noise:?} {i}: {} for {}", share(best[i]), law[i]);
        }
    }
}
