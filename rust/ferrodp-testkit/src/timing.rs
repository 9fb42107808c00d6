//! Does the time of a call tell small noise from large? Estimated by ranks, with labels drawn at random.
//!
//! Keys are chosen by what they draw: 64 of either kind. Measurements come in pairs, of a random key of either kind, in random
//! order. The advantage is `2·P[a large one takes longer] − 1`, ties counted half (Mann & Whitney 1947); where longer times
//! speak for large noise throughout (a concave ROC curve), no threshold on the time gives away more. If time does not depend
//! on the kind, the order in a pair says nothing about its times, however noisy or drifting the machine: the estimate has
//! mean 0 and, of `n` measurements each, a standard deviation of about `√((2n + 1)/3)/n`; ties make it smaller, and so does
//! drift that both of a pair share.

use core::hint::black_box;
use core::num::NonZeroUsize;
use std::time::Instant;

use ferrodp_core::discrete::fixed::FixedTime;
use ferrodp_core::discrete::{Discrete, Law, Scale};
use ferrodp_core::isa::Isa;
use ferrodp_core::random::{Key, Keystream};

/// Keys of either kind.
const NUM_KEYS: usize = 64;

/// Calls in one measurement, so that a leak is not lost between two ticks of the clock.
const CALLS_PER_MEASUREMENT: usize = 8;

/// How much the time of a call says about its noise.
#[derive(Clone, Copy, Debug)]
pub struct Advantage {
    /// From −1 to 1; 0 if nothing.
    pub value: f64,
    /// Its standard deviation if time says nothing.
    pub standard_error: f64,
}

impl Advantage {
    /// Returns the size in standard errors.
    #[must_use]
    pub fn deviations(&self) -> f64 {
        self.value.abs() / self.standard_error
    }
}

/// Returns the advantage of the calls of a law of this scale, from `n` measurements of each kind: magnitudes of at most half the
/// scale against those of at least `far` scales. Both are drawn by the sampler in fixed time, or both by the other.
///
/// # Panics
/// If the scale is out of range.
#[must_use]
pub fn advantage(law: Law, scale: f64, far: f64, in_fixed_time: bool, n: usize) -> Advantage {
    let ratio = Scale::from_float(scale).expect("in range");
    let isa = Isa::best();
    if in_fixed_time {
        return planted(law, scale, far, 0.0, n);
    }
    let law = Discrete::new(law, ratio);
    measured(|key| drawn(|values| law.add(isa, key, values, NonZeroUsize::MIN)), scale, far, 0.0, n)
}

/// Returns the advantage of the sampler in fixed time with a defect: of the large ones a share of `leak`, chosen by a coin
/// that is not looked at while the clock runs, is drawn twice. That is an advantage of `leak`, less what is lost to pairs
/// whose other time was disturbed by more than a whole measurement.
///
/// # Panics
/// If the scale is out of range.
#[must_use]
pub fn planted(law: Law, scale: f64, far: f64, leak: f64, n: usize) -> Advantage {
    let law = FixedTime::new(law, Scale::from_float(scale).expect("in range")).expect("not too large");
    measured(|key| drawn(|values| law.add(Isa::best(), key, values, NonZeroUsize::MIN)), scale, far, leak, n)
}

fn drawn(add: impl Fn(&mut [i64])) -> i64 {
    let mut values = [0];
    add(&mut values);
    values[0]
}

fn measured(draw: impl Fn(&Key) -> i64, scale: f64, far: f64, leak: f64, n: usize) -> Advantage {
    let mut keys: [Vec<[u8; 32]>; 2] = [Vec::new(), Vec::new()];
    let choices = Keystream::new(Isa::best(), &Key::fresh().expect("the operating system has entropy"));
    let mut index = 0;
    while keys.iter().any(|kind| kind.len() < NUM_KEYS) {
        index += 1;
        let mut key = [0; 32];
        choices.fill(1, 2 * index, &mut key);
        let magnitude = draw(&Key::from_bytes(key)).unsigned_abs() as f64;
        for (kind, wanted) in [magnitude <= scale / 2.0, magnitude >= far * scale].into_iter().enumerate() {
            if wanted && keys[kind].len() < NUM_KEYS {
                keys[kind].push(key);
            }
        }
    }
    let mut times: [Vec<u64>; 2] = [Vec::with_capacity(n), Vec::with_capacity(n)];
    let neutral = Key::from_bytes([0x55; 32]);
    let late = (leak * f64::from(1_u32 << 31)) as u64;
    for pair in 0..n as u64 {
        let [choice, other] = choices.words(2, pair);
        let first = (choice >> 63) as usize;
        for (kind, which) in [(first, choice), (1 - first, other)] {
            // From one place in memory, in one state of caches and predictors: only its bits tell a key.
            let key = black_box(Key::from_bytes(keys[kind][which as usize % NUM_KEYS]));
            let is_late = kind == 1 && (which >> 32 & 0x7fff_ffff) < late;
            let repeats = black_box(CALLS_PER_MEASUREMENT << u32::from(is_late));
            black_box(draw(black_box(&neutral)));
            let start = Instant::now();
            for _ in 0..repeats {
                black_box(draw(black_box(&key)));
            }
            times[kind].push(start.elapsed().as_nanos() as u64);
        }
    }
    of_times(&times)
}

/// Returns the advantage of telling the second kind from the first by the larger times.
fn of_times(times: &[Vec<u64>; 2]) -> Advantage {
    let mut all: Vec<(u64, usize)> =
        times.iter().enumerate().flat_map(|(kind, times)| times.iter().map(move |&time| (time, kind))).collect();
    all.sort_unstable();
    let (first, second) = (times[0].len() as f64, times[1].len() as f64);
    let (mut below, mut wins) = (0.0, 0.0);
    for tied in all.chunk_by(|a, b| a.0 == b.0) {
        let large = tied.iter().filter(|(_, kind)| *kind == 1).count() as f64;
        let small = tied.len() as f64 - large;
        wins += large * (below + small / 2.0);
        below += small;
    }
    Advantage {
        value: 2.0 * wins / (first * second) - 1.0,
        standard_error: ((first + second + 1.0) / (3.0 * first * second)).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advantage_counts_who_is_slower() {
        assert_eq!(1.0, of_times(&[vec![1, 2, 3], vec![4, 5]]).value);
        assert_eq!(-1.0, of_times(&[vec![4, 5], vec![1, 2, 3]]).value);
        assert_eq!(0.0, of_times(&[vec![7; 9], vec![7; 4]]).value);
        assert_eq!(0.5, of_times(&[vec![1, 3], vec![2, 4]]).value);
    }

    #[test]
    fn two_in_a_hundred_are_seen_among_two_hundred_thousand() {
        let n = 200_000;
        let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let quiet = [(0..n).map(noise).collect(), (n..2 * n).map(noise).collect::<Vec<_>>()];
        assert!(of_times(&quiet).deviations() < 5.0);
        let late = (n..2 * n).map(|i| noise(i) + if i % 50 == 0 { 1 << 30 } else { 0 }).collect();
        let found = of_times(&[quiet[0].clone(), late]);
        assert!((found.value - 0.02).abs() < 0.01 && found.deviations() > 6.0, "{found:?}");
    }
}
