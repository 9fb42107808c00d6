//! Does a branch or an address depend on the noise? Asked of memcheck, which watches the key and all that is drawn with it.
//!
//! The key is made a secret ([`crate::secrets::memcheck`]) before a sampler sees it, and so are the values that noise is added to. The
//! samplers are those that everybody uses, without any hook: the cipher spreads the secret over its keystream by itself.
//!
//! One branch of noise in fixed time does depend on it: whether a decision is open, which has a probability below 2⁻¹⁰⁰ a
//! sample. It is told by its line, and has to be reported once for every sample: fewer reports, and the secret never arrived
//! there; more, and something else on that line depends on it. Anything reported elsewhere is a finding.
//!
//! So that nobody has to believe it, defects are planted that have to be reported, and where no key is a secret nothing may be.
//! Memcheck does not know how long an instruction takes (divisions: there are none) and has no AVX-512: it sees the portable
//! path and that of AES-NI.

use core::hint::black_box;
use core::num::NonZeroUsize;

use ferrodp_core::discrete::fixed::FixedTime;
use ferrodp_core::discrete::{Discrete, Law, Scale, Whole};
use ferrodp_core::isa::Isa;
use ferrodp_core::random::{Key, Keystream};

use memcheck::{disclose, hide};

mod cases;
mod judge;
pub mod memcheck;

pub use cases::{Case, Group};
pub use judge::{Verdict, judge};

impl Group {
    /// Runs it and says what was reported during the run: under valgrind only does that mean anything.
    #[must_use]
    pub fn run(self) -> Vec<Case> {
        match self {
            Self::FixedTime => fixed_time(),
            Self::Keystream => Isa::available().into_iter().map(keystream).collect(),
            Self::Open => vec![rejection(Law::Gaussian, false), rejection(Law::Laplace, false)],
            Self::Rejection(law) => vec![rejection(law, true)],
            Self::Branch => vec![planted("a branch on the sign", |noise| if noise < 0 { negative() } else { 0 })],
            Self::Address => {
                let table = black_box([0x5a_u8; 64]);
                vec![planted("a look-up", move |noise| usize::from(black_box(&table)[(noise & 63) as usize]))]
            }
        }
    }
}

/// Numerators and denominators: from noise that is nearly always 0 to the largest scales there are, of whole numbers and of others.
const GAUSSIAN_SCALES: [(u64, u64); 7] = [(1, 100), (1, 2), (1, 1), (22, 7), (10, 1), (40, 1), (64, 1)];
const LAPLACE_SCALES: [(u64, u64); 7] =
    [(1, 100), (1, 2), (1, 1), (22, 7), (10_000, 1), (1_000_000_007, 3), (1 << 50, 1)];

/// A single one, some, more than one chunk of the keystream holds, and more than is one thread's unit of work.
const CALL_SIZES: [usize; 4] = [1, 3, 1100, 4500];

/// Comparisons in the largest call: where a sample takes many, there are fewer of them.
const MAX_COMPARISONS: usize = 200_000;

fn fixed_time() -> Vec<Case> {
    let mut cases = Vec::new();
    for (law, scales) in [(Law::Gaussian, GAUSSIAN_SCALES), (Law::Laplace, LAPLACE_SCALES)] {
        for (numerator, denominator) in scales {
            let sampler = in_fixed_time(law, numerator, denominator);
            let most = (MAX_COMPARISONS / sampler.comparisons_per_sample()).max(CALL_SIZES[2]);
            for isa in Isa::available() {
                let name = |kind: &str| format!("{law:?} {numerator}/{denominator} {kind} {}", isa.name());
                for size in CALL_SIZES.map(|size| size.min(most)) {
                    cases.push(added(&sampler, isa, name("i64"), &mut ends(size, i64::MIN, i64::MAX)));
                }
                for size in &CALL_SIZES[..3] {
                    cases.push(added(&sampler, isa, name("i32"), &mut ends(*size, i32::MIN, i32::MAX)));
                }
            }
        }
    }
    cases
}

fn in_fixed_time(law: Law, numerator: u64, denominator: u64) -> FixedTime {
    let scale = Scale::from_ratio(numerator, denominator).expect("in range");
    FixedTime::new(law, scale).expect("not too large")
}

/// Returns values of which some cannot take noise of either sign.
fn ends<T: Whole>(size: usize, least: T, most: T) -> Vec<T> {
    [T::default(), least, most].into_iter().cycle().take(size).collect()
}

fn added<T: Whole>(sampler: &FixedTime, isa: Isa, name: String, values: &mut [T]) -> Case {
    // Some calls with helpers: what they share is no secret.
    let threads = NonZeroUsize::new(1 + values.len() / 4096).expect("positive");
    Case::counted(name, values.len(), || {
        let key = secret_key();
        hide(values);
        sampler.add(isa, &key, values, threads);
        disclose(values);
    })
}

/// Returns a key whose bits are secrets: which they are does not matter, for memcheck follows all they could be.
fn secret_key() -> Key {
    let mut bytes = [0x33; 32];
    hide(&mut bytes);
    Key::from_bytes(bytes)
}

fn keystream(isa: Isa) -> Case {
    const BLOCKS: usize = 300;
    Case::counted(format!("keystream {}", isa.name()), BLOCKS, || {
        let key = secret_key();
        let mut derived = [0; 32];
        key.derive_into(isa, 7, &mut derived);
        let keystream = Keystream::new(isa, &Key::from_bytes(derived));
        let mut bytes = [0; BLOCKS * 16];
        for length in [1, 16, 17, 500, bytes.len()] {
            keystream.fill(1, u64::MAX - 100, &mut bytes[..length]);
        }
        black_box(keystream.words(2, 3));
        disclose(&mut bytes);
    })
}

fn rejection(law: Law, is_secret: bool) -> Case {
    let sampler = Discrete::new(law, Scale::from_ratio(1000, 1).expect("in range"));
    let mut values = [0_i64; 500];
    let name = format!("{law:?} 1000 by rejection{}", if is_secret { "" } else { ", the key known" });
    Case::counted(name, values.len(), || {
        let key = if is_secret { secret_key() } else { Key::from_bytes([0x33; 32]) };
        sampler.add(Isa::best(), &key, &mut values, NonZeroUsize::MIN);
        disclose(&mut values);
    })
}

/// Noise in fixed time that is then looked at.
fn planted(name: &str, look: impl Fn(i64) -> usize) -> Case {
    let sampler = in_fixed_time(Law::Gaussian, 3, 1);
    let mut values = [0_i64; 100];
    Case::counted(format!("Gaussian 3/1 with {name}"), values.len(), || {
        sampler.add(Isa::best(), &secret_key(), &mut values, NonZeroUsize::MIN);
        for &noise in &values {
            black_box(look(noise));
        }
        disclose(&mut values);
    })
}

/// Something that a compiler cannot do for all and choose from afterwards.
#[inline(never)]
fn negative() -> usize {
    black_box(1)
}
