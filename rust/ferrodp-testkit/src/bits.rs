//! Digests of outputs under fixed keys, so that two machines can be compared, and every machine with what is kept.
//!
//! `tests/bits.txt` holds the digests; a test asks for the same on every instruction set of the CPU, and so on every architecture
//! that the tests run on. The program `bits` prints them, to compare two machines directly or to renew the file when outputs are
//! changed on purpose (which the changelog calls value-breaking).
//!
//! Inputs are made of integers and exact operations alone, for what is compared are outputs. A digest is 64 bits of FNV-1a
//! over the words of all outputs of a case: not for secrets, only to see a difference.

use std::fmt;
use std::num::NonZeroUsize;

use ferrodp_accounting::contour::{Quantity, Release, sweep};
use ferrodp_accounting::mechanism::Mechanism;
use ferrodp_accounting::pld::query::worst;
use ferrodp_accounting::pld::types::{Settings, Step};
use ferrodp_accounting::rdp::poisson_gaussian;
use ferrodp_accounting::types::Question;
use ferrodp_core::choice::bernoulli;
use ferrodp_core::choice::respond::Response;
use ferrodp_core::choice::respond::coded::Coded;
use ferrodp_core::choice::respond::sets::Sets;
use ferrodp_core::choice::respond::unary::Unary;
use ferrodp_core::choice::respond::vectors::{Vectors, WORDS_PER_MESSAGE};
use ferrodp_core::choice::select::{self, NoisyThreshold, Rate};
use ferrodp_core::clip::{ClipNorm, GridSum, Order, Rows, clip_rows};
use ferrodp_core::discrete::fixed::FixedTime;
use ferrodp_core::discrete::{Discrete, Law as IntegerLaw, Scale};
use ferrodp_core::isa::Isa;
use ferrodp_core::params::Granularity;
use ferrodp_core::random::Key;
use ferrodp_core::sample::{Law, Noise};

/// Lengths around the blocks of the samplers, and one that two threads share.
const DRAW_LENGTHS: [usize; 10] = [0, 1, 7, 8, 15, 17, 1023, 1025, 4099, 20_000];

const KEY_BYTES: [u8; 3] = [0, 1, 0xa5];

const TWO_THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("positive");

/// What one case gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    name: String,
    digest: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} {}", self.digest, self.name)
    }
}

struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn singles(&mut self, values: &[f32]) {
        values.iter().for_each(|value| self.word(u64::from(value.to_bits())));
    }

    fn doubles(&mut self, values: &[f64]) {
        values.iter().for_each(|value| self.word(value.to_bits()));
    }

    fn integers(&mut self, values: &[i64]) {
        values.iter().for_each(|value| self.word(value.cast_unsigned()));
    }

    fn of(name: String, fill: impl FnOnce(&mut Self)) -> Case {
        let mut digest = Self::new();
        fill(&mut digest);
        Case { name, digest: digest.0 }
    }
}

/// SplitMix64: test data, not randomness.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between −1 and 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * 2.0_f64.powi(-52) - 1.0
    }
}

/// Values of all sizes, some of them special.
fn values(len: usize) -> Vec<f64> {
    let specials = [0.0, -0.0, 0.5, -1e-300, 1e300, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5e-324, 0.1];
    let mut draw = Draw(len as u64);
    (0..len).map(|i| if i % 5 == 4 { specials[(i / 5) % specials.len()] } else { draw.unit() * 100.0 }).collect()
}

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; 32])
}

/// Returns the digests of everything that draws, clips or sums, on one instruction set.
#[must_use]
pub fn of_outputs(isa: Isa) -> Vec<Case> {
    let mut cases = Vec::new();
    real_noise(isa, &mut cases);
    integer_noise(isa, &mut cases);
    choices(isa, &mut cases);
    clipped(isa, &mut cases);
    cases
}

fn real_noise(isa: Isa, cases: &mut Vec<Case>) {
    for law in [Law::Gaussian, Law::Laplace] {
        for exponent in [-43, -32, -21, -20, -10, -1, 3] {
            let granularity = Granularity::from_exponent(exponent).expect("in range");
            let noise = Noise::new(law, 1.1, granularity).expect("in range");
            cases.push(Digest::of(format!("{law:?} on a grid of 2^{exponent}"), |digest| {
                for (len, byte) in DRAW_LENGTHS.into_iter().flat_map(|len| KEY_BYTES.map(|byte| (len, byte))) {
                    let mut doubles = values(len);
                    let mut singles: Vec<f32> = doubles.iter().map(|&value| value as f32).collect();
                    noise.add(isa, &key(byte), &mut doubles, TWO_THREADS);
                    noise.add(isa, &key(byte), &mut singles, TWO_THREADS);
                    digest.doubles(&doubles);
                    digest.singles(&singles);
                }
            }));
        }
    }
}

fn integer_noise(isa: Isa, cases: &mut Vec<Case>) {
    for law in [IntegerLaw::Gaussian, IntegerLaw::Laplace] {
        for (numerator, denominator) in [(1, 3), (1, 1), (40, 1), (1_000_001, 7), (1 << 45, 1)] {
            let scale = Scale::from_ratio(numerator, denominator).expect("in range");
            let sampler = Discrete::new(law, scale);
            cases.push(Digest::of(format!("discrete {law:?} of scale {numerator}/{denominator}"), |digest| {
                for (len, byte) in DRAW_LENGTHS.into_iter().flat_map(|len| KEY_BYTES.map(|byte| (len, byte))) {
                    let mut long: Vec<i64> = (0..len as i64).map(|i| i * i - 5000).collect();
                    let mut short: Vec<i32> = (0..len as i32).collect();
                    sampler.add(isa, &key(byte), &mut long, TWO_THREADS);
                    sampler.add(isa, &key(byte), &mut short, TWO_THREADS);
                    digest.integers(&long);
                    digest.integers(&short.into_iter().map(i64::from).collect::<Vec<_>>());
                }
            }));
            let Ok(steady) = FixedTime::new(law, scale) else { continue };
            cases.push(Digest::of(format!("the same in fixed time, {law:?} {numerator}/{denominator}"), |digest| {
                let mut drawn = vec![0_i64; 1025];
                steady.add(isa, &key(1), &mut drawn, TWO_THREADS);
                digest.integers(&drawn);
            }));
        }
    }
}

fn choices(isa: Isa, cases: &mut Vec<Case>) {
    let utilities: Vec<f64> = values(300).into_iter().map(|x| if x.abs() < 1e3 { x / 10.0 } else { 0.0 }).collect();
    let rate = Rate::new(0.3, 1.0, 2).expect("in range");
    for noise in [select::Noise::Gumbel, select::Noise::Exponential, select::Noise::Laplace] {
        cases.push(Digest::of(format!("a choice by {noise:?} noise"), |digest| {
            for (byte, len) in (0..=255).flat_map(|byte| [1, 17, 300].map(|len| (byte, len))) {
                let chosen = select::choose(noise, rate, isa, &key(byte), &utilities[..len], &[]).expect("not empty");
                digest.word(chosen as u64);
            }
        }));
    }
    cases.push(Digest::of("thresholds with noise".to_owned(), |digest| {
        for byte in 0..=255 {
            let noisy = NoisyThreshold::new(0.7, 2.0, 4.0, isa, &key(byte)).expect("in range");
            for (query, other) in utilities.iter().zip(0..60).map(|(query, other)| (*query, byte ^ (1 + other))) {
                digest.word(u64::from(noisy.is_reached(query, &key(other))));
            }
        }
    }));
    cases.push(Digest::of("coins".to_owned(), |digest| {
        let (mut same, mut each) = (vec![0; 5000], vec![0.25; 5000]);
        bernoulli::toss(isa, &key(3), (1, 2), &mut same, TWO_THREADS).expect("in range");
        bernoulli::toss_each(isa, &key(4), &mut each, TWO_THREADS).expect("in range");
        same.into_iter().for_each(|coin| digest.word(u64::from(coin)));
        digest.doubles(&each);
    }));
    cases.push(Digest::of("randomized answers".to_owned(), |digest| {
        for (parameter, categories) in [(0.5, 2), (0.1, 7), (1.0, 1000)] {
            let mut answers: Vec<i64> = (0..5000).map(|i| i % 2).collect();
            Response::new(parameter, categories).expect("in range").apply(isa, &key(5), &mut answers, TWO_THREADS);
            digest.integers(&answers);
        }
    }));
    messages(isa, cases);
    cases.push(Digest::of("words of keystreams".to_owned(), |digest| {
        for (len, byte) in DRAW_LENGTHS.into_iter().flat_map(|len| KEY_BYTES.map(|byte| (len, byte))) {
            let mut bytes = vec![0; len];
            key(byte).fill(isa, &mut bytes);
            bytes.into_iter().for_each(|byte| digest.word(u64::from(byte)));
        }
    }));
}

/// Answers whose messages are no answers: codes, bits, sets, and code words that are near to vectors.
fn messages(isa: Isa, cases: &mut Vec<Case>) {
    let answers: Vec<i64> = (0..1500).map(|i| i * i % 71 - 1).collect();
    cases.push(Digest::of("coded answers".to_owned(), |digest| {
        for (weight, categories, field_size) in [(1 << 62, 70, 2), (1 << 60, 1000, 4)] {
            let mut coded = answers.clone();
            let of = Coded::new(weight, categories, field_size).expect("in range");
            of.apply(isa, &key(7), &mut coded, TWO_THREADS);
            digest.integers(&coded);
        }
    }));
    cases.push(Digest::of("answers in bits".to_owned(), |digest| {
        for (numerator, digits, categories) in [(1, 2, 70), (12_345, 20, 1000)] {
            let of = Unary::new(numerator, digits, categories).expect("in range");
            let mut bits = vec![0; answers.len() * of.words_per_row()];
            of.apply(isa, &key(8), &answers, &mut bits, TWO_THREADS);
            bits.into_iter().for_each(|word| digest.word(word));
        }
    }));
    cases.push(Digest::of("answers in sets".to_owned(), |digest| {
        for (weight, size, categories) in [(1 << 63, 20, 70), (1 << 62, 300, 1000)] {
            let of = Sets::new(weight, size, categories).expect("in range");
            let mut sets = vec![0; answers.len() * of.words_per_row()];
            of.apply(isa, &key(9), &answers, &mut sets, TWO_THREADS);
            sets.into_iter().for_each(|word| digest.word(word));
        }
    }));
    cases.push(Digest::of("answers as vectors, and the sum of their code words".to_owned(), |digest| {
        for (dimension, directions, size, rows) in [(1, 1, 1, 40), (3, 7, 2, 40), (17, 64, 9, 40), (1025, 256, 2, 19)] {
            let of = Vectors::new(1 << 62, dimension, directions, size).expect("in range");
            for threads in [NonZeroUsize::MIN, TWO_THREADS] {
                let mut vectors = values(rows * dimension as usize);
                let mut sent = vec![0; rows * WORDS_PER_MESSAGE];
                of.apply(isa, &key(10), 100.0, &mut vectors, &mut sent, threads).expect("in range");
                let mut sum = vec![0.0; dimension as usize];
                of.sum(isa, &sent, &mut sum, threads);
                sent.into_iter().for_each(|word| digest.word(word));
                digest.doubles(&sum);
            }
        }
    }));
}

fn clipped(isa: Isa, cases: &mut Vec<Case>) {
    let shapes = [(1, 1), (3, 15), (3, 16), (5, 17), (2, 4097), (70, 1025)];
    for order in [Order::One, Order::Two, Order::Infinity] {
        cases.push(Digest::of(format!("rows clipped in norm {order:?}"), |digest| {
            for (rows, width) in shapes {
                let doubles = values(rows * width);
                let singles: Vec<f32> = doubles.iter().map(|&value| value as f32).collect();
                let (mut out, mut norms) = (vec![0.0; rows * width], vec![0.0; rows]);
                let norm = ClipNorm::new::<f64>(2.5).expect("in range");
                clip_rows(isa, &doubles, width, norm, order, &mut out, &mut norms, TWO_THREADS).expect("lengths agree");
                digest.doubles(&out);
                digest.doubles(&norms);
                let (mut out, norm) = (vec![0.0; rows * width], ClipNorm::new::<f32>(2.5).expect("in range"));
                clip_rows(isa, &singles, width, norm, order, &mut out, &mut norms, TWO_THREADS).expect("lengths agree");
                digest.singles(&out);
                digest.doubles(&norms);
            }
        }));
    }
    cases.push(Digest::of("sums of clipped rows, and their release".to_owned(), |digest| {
        for (rows, width) in shapes {
            let doubles = values(rows * width);
            let singles: Vec<f32> = doubles.iter().map(|&value| value as f32).collect();
            let norm = ClipNorm::new::<f32>(0.7).expect("in range");
            let mut sum = GridSum::new(norm, width).expect("memory");
            sum.add(isa, &Rows::new([(&doubles[..], width)], rows).expect("lengths agree"), TWO_THREADS)
                .expect("unchanged");
            sum.add(isa, &Rows::new([(&singles[..], width)], rows).expect("lengths agree"), TWO_THREADS)
                .expect("unchanged");
            digest.integers(sum.integers().expect("usable"));
            let mut released = vec![0.0_f64; width];
            let noise = norm.noise::<f64>(1.3).expect("in range");
            let integers = sum.integers().expect("usable");
            noise
                .add_to_sums(isa, &key(6), integers, norm.granularity(), Some(7.0), &mut released, TWO_THREADS)
                .expect("one length");
            digest.doubles(&released);
        }
    }));
}

/// Returns the digests of what releases cost, on one instruction set where it can be chosen.
#[must_use]
pub fn of_accounting(isa: Isa) -> Vec<Case> {
    let mut cases = vec![Digest::of("Renyi curves of sampled Gaussians".to_owned(), |digest| {
        for (multiplier, probability) in [(1.0, 0.01), (0.3, 0.2), (30.0, 1e-6), (2.0, 0.999)] {
            let orders: Vec<f64> = (1..60).map(|i| 1.0 + f64::from(i * i) / 16.0).collect();
            let columns = (vec![multiplier; orders.len()], vec![probability; orders.len()]);
            for bounds in poisson_gaussian(isa, &columns.0, &columns.1, &orders, TWO_THREADS) {
                digest.doubles(&[bounds.lower, bounds.upper]);
            }
        }
    })];
    cases.push(Digest::of("certified epsilons of sampled Gaussians".to_owned(), |digest| {
        let steps = [(1.1, 0.01, 10_000), (0.8, 1.0, 20), (0.5, 0.3, 3), (20.0, 1e-4, 1_000_000_000)];
        let asked = steps.map(|(noise_multiplier, sampling_probability, count)| {
            (Release { noise_multiplier, sampling_probability, count }, 1e-6)
        });
        for found in sweep(Quantity::Epsilon, &asked, TWO_THREADS).expect("in range") {
            digest.doubles(&[found.bounds.lower, found.bounds.upper]);
        }
    }));
    cases.push(Digest::of("privacy loss distributions".to_owned(), |digest| {
        let specs = [
            (Mechanism::PoissonSampled(0.02, Box::new(Mechanism::Laplace(1.5))), 200),
            (Mechanism::DiscreteGaussian(3.0, 1.0, f64::INFINITY), 30),
            (Mechanism::FixedSizeSampled(0.1, Box::new(Mechanism::Gaussian(2.0))), 50),
        ];
        for (spec, count) in specs {
            let pair = spec.pair().expect("in range");
            let steps = [vec![Step { pair: &*pair, count }]];
            for question in [Question::Epsilon { delta: 1e-5 }, Question::Delta { epsilon: 1.0 }] {
                let (answer, _) = worst(&steps, question, Settings::default());
                digest.doubles(&[answer.lower, answer.upper]);
            }
        }
    }));
    cases
}

/// Returns all digests, on one instruction set.
#[must_use]
pub fn of_all(isa: Isa) -> Vec<Case> {
    of_outputs(isa).into_iter().chain(of_accounting(isa)).collect()
}
