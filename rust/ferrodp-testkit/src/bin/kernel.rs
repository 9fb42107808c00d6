//! Runs one kernel on so many values, once, on one thread: for programs that count or sample instructions.
//!
//! ```text
//! kernel NAME VALUES [INSTRUCTION-SET]
//! ```
//!
//! Without arguments it prints the names. The keys are fixed, so every run does the same. What a call costs whatever its
//! length falls out of the difference of two lengths: `packaging/aarch64-instructions` counts in this way.

use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroUsize;

use ferrodp_core::Isa;
use ferrodp_core::clip::{ClipNorm, GridSum, Order, Rows, clip_rows};
use ferrodp_core::discrete::{Discrete, Law as IntegerLaw, Scale};
use ferrodp_core::random::{Key, Keystream};
use ferrodp_core::sample::{Element, Law, Noise};

/// Rows that are clipped at a time, and their elements: values come in multiples of the product.
const CLIPPED_ROWS: usize = 8;
const ROW_ELEMENTS: usize = 1024;

type Outcome = Result<(), Box<dyn Error>>;
type Kernel = fn(Isa, usize) -> Outcome;

const TIMED_KERNELS: [(&str, Kernel); 10] = [
    ("keystream, 8 bytes", keystream),
    ("gaussian f32", |isa, count| noise::<f32>(Law::Gaussian, isa, count)),
    ("gaussian f64", |isa, count| noise::<f64>(Law::Gaussian, isa, count)),
    ("laplace f32", |isa, count| noise::<f32>(Law::Laplace, isa, count)),
    ("laplace f64", |isa, count| noise::<f64>(Law::Laplace, isa, count)),
    ("discrete gaussian, scale 10", |isa, count| discrete(IntegerLaw::Gaussian, 10.0, isa, count)),
    ("discrete gaussian, scale 1e6", |isa, count| discrete(IntegerLaw::Gaussian, 1e6, isa, count)),
    ("discrete laplace, scale 10", |isa, count| discrete(IntegerLaw::Laplace, 10.0, isa, count)),
    ("clip and sum f32", sum_of_rows),
    ("clip rows f32", rows),
];

fn key() -> Key {
    Key::from_bytes([1; 32])
}

fn keystream(isa: Isa, count: usize) -> Outcome {
    Keystream::new(isa, &key()).fill(0, 0, black_box(&mut vec![0; 8 * count]));
    Ok(())
}

fn noise<T: Element>(law: Law, isa: Isa, count: usize) -> Outcome {
    let noise = Noise::new(law, 1.1, Noise::default_granularity::<T>(law, 1.1)?)?;
    noise.add(isa, &key(), black_box(&mut vec![T::default(); count]), NonZeroUsize::MIN);
    Ok(())
}

fn discrete(law: IntegerLaw, scale: f64, isa: Isa, count: usize) -> Outcome {
    let noise = Discrete::new(law, Scale::from_float(scale)?);
    noise.add(isa, &key(), black_box(&mut vec![0_i64; count]), NonZeroUsize::MIN);
    Ok(())
}

/// Returns one batch of rows, longer than 1.
fn matrix() -> Vec<f32> {
    (0..CLIPPED_ROWS * ROW_ELEMENTS).map(|i| (i % 7) as f32 - 3.0).collect()
}

fn sum_of_rows(isa: Isa, count: usize) -> Outcome {
    let values = matrix();
    let mut sum = GridSum::new(ClipNorm::new::<f32>(1.0)?, ROW_ELEMENTS)?;
    let rows = Rows::new([(&*values, ROW_ELEMENTS)], CLIPPED_ROWS)?;
    for _ in 0..count / values.len() {
        sum.add(isa, black_box(&rows), NonZeroUsize::MIN)?;
    }
    Ok(())
}

fn rows(isa: Isa, count: usize) -> Outcome {
    let (values, clip) = (matrix(), ClipNorm::new::<f32>(1.0)?);
    let (mut out, mut norms) = (vec![0.0; values.len()], [0.0; CLIPPED_ROWS]);
    for _ in 0..count / values.len() {
        clip_rows(isa, black_box(&values), ROW_ELEMENTS, clip, Order::Two, &mut out, &mut norms, NonZeroUsize::MIN)?;
    }
    Ok(())
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count, rest @ ..] = &arguments[..] else {
        TIMED_KERNELS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let isa = match rest.first() {
        Some(name) => Isa::named(name).ok_or("this CPU has no such instruction set")?,
        None => Isa::best(),
    };
    let (_, kernel) = TIMED_KERNELS.iter().find(|(known, _)| known == name).ok_or("no kernel of this name")?;
    kernel(isa, count.parse()?)
}
