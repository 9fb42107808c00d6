//! A keystream of AES-256 in counter mode, keyed afresh for every call.
//!
//! Words are *addressed*, not consumed: block `c` of stream `s` is `AES-256(key, s ‖ c)`, both numbers 64 bits, big
//! endian, so a run of blocks is what NIST SP 800-38A calls CTR with the initial counter block `s ‖ c`. A block holds
//! two 64-bit words or four 32-bit ones, little endian. Whoever needs word `i` of a stream computes where it is, so
//! threads and vector widths cannot change which bits a sample sees, and no cursor exists that a `fork` could copy.
//!
//! Keys come from the operating system, one per call ([`Key::fresh`]), and are wiped when dropped. Within one key no
//! address is used twice: a call draws from a stream for first words and from others, by sample, for extensions.
//! The counter cannot wrap: a call is limited to fewer than 2⁶³ samples by the size of memory.
//!
//! Each backend is constant-time: AES instructions on x86-64 (`aes_ni`, `vaes256`, `vaes`) and aarch64 (`armv8`), and the `aes`
//! crate for everything else.

use core::fmt;

use zeroize::Zeroize;

use crate::error::Error;
use crate::isa::{Isa, Kind};
use crate::machine::residue::leaving_nothing;

#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "aarch64")]
mod armv8;
mod block;
#[cfg(feature = "testing")]
pub mod chosen;
pub mod generator;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vaes;
#[cfg(target_arch = "x86_64")]
mod vaes256;

pub use block::CIPHER_BLOCK;

/// The stream from which [`Key::derive_into`] takes keys; no sampler uses it.
const DERIVATION_STREAM: u64 = u64::MAX;

/// A 256-bit key, wiped on drop and never shown.
///
/// On the heap, so that moving it makes no copies.
pub struct Key(Box<[u8; 32]>);

impl Key {
    /// Returns 256 fresh bits from the operating system.
    ///
    /// # Errors
    /// [`Error::Entropy`] if it gives none; there is no second source.
    pub fn fresh() -> Result<Self, Error> {
        let mut bytes = Box::new([0; 32]);
        // mutant: fresh-key
        getrandom::fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    /// Returns a key that somebody else knows: for tests and replays only.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Box::new(bytes))
    }

    /// Fills `out` with the first bytes of its stream 0.
    pub fn fill(&self, isa: Isa, out: &mut [u8]) {
        leaving_nothing(|| Keystream::new(isa, self).fill(0, 0, out));
    }

    /// Writes key number `call` of a seeded source: blocks `2·call` and `2·call + 1` of a stream of their own.
    pub fn derive_into(&self, isa: Isa, call: u64, out: &mut [u8; 32]) {
        leaving_nothing(|| self.derive_within(isa, call, out));
    }

    /// The same for code inside [`leaving_nothing`], which overwrites for all that it does.
    pub(crate) fn derive_within(&self, isa: Isa, call: u64, out: &mut [u8; 32]) {
        Keystream::new(isa, self).fill(DERIVATION_STREAM, call << 1, out);
    }
}

impl Drop for Key {
    // mutant: key-stays-on-heap
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// An expanded key: gives any block of any stream. Wiped on drop.
///
/// Making and using one leaves copies on the stack: that is for code inside `residue::leaving_nothing`.
pub struct Keystream(Backend);

/// Boxed, all of them: a variant that is smaller than others is moved with bytes behind it that may be round keys.
enum Backend {
    Portable(Box<portable::Cipher>),
    #[cfg(target_arch = "aarch64")]
    Armv8(Box<armv8::Cipher>),
    #[cfg(target_arch = "x86_64")]
    AesNi(Box<aes_ni::Cipher>),
    #[cfg(target_arch = "x86_64")]
    Vaes256(Box<vaes256::Cipher>),
    #[cfg(target_arch = "x86_64")]
    Vaes(Box<vaes::Cipher>),
    #[cfg(feature = "testing")]
    Chosen(Box<Keystream>, std::sync::Arc<chosen::Blocks>),
    #[cfg(test)]
    Tape(Box<Tape>),
}

/// Block `index` of `stream`, chosen by a test: a sampler can then be run on every tape of bits there is.
#[cfg(test)]
pub(crate) type Tape = dyn Fn(u64, u64) -> [u64; 2] + Send + Sync;

impl Keystream {
    /// Returns the keystream of `key`, computed on `isa`: the same bytes on every one.
    #[must_use]
    pub fn new(isa: Isa, key: &Key) -> Self {
        #[cfg(feature = "testing")]
        if let Some(blocks) = chosen::of(&key.0) {
            return Self(Backend::Chosen(Box::new(Self::of_cipher(isa, key)), blocks));
        }
        Self::of_cipher(isa, key)
    }

    fn of_cipher(isa: Isa, key: &Key) -> Self {
        Self(match isa.kind() {
            Kind::Portable => Backend::Portable(Box::new(portable::Cipher::new(&key.0))),
            // SAFETY: an `Isa` of this kind exists only where the CPU has reported NEON and the AES instructions.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => Backend::Armv8(Box::new(unsafe { armv8::Cipher::new(&key.0) })),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 if std::arch::is_x86_feature_detected!("vaes") => {
                // SAFETY: an `Isa` of this kind exists only where the CPU has reported AES-NI, SSE4.1 and AVX2; VAES as well.
                Backend::Vaes256(Box::new(unsafe { vaes256::Cipher::new(&key.0) }))
            }
            // SAFETY: as above, without VAES.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Backend::AesNi(Box::new(unsafe { aes_ni::Cipher::new(&key.0) })),
            // SAFETY: and of this kind only where it has reported VAES and AVX-512 besides.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Backend::Vaes(Box::new(unsafe { vaes::Cipher::new(&key.0) })),
        })
    }

    /// Returns a stream of the given bits.
    #[cfg(test)]
    pub(crate) fn of_tape(tape: impl Fn(u64, u64) -> [u64; 2] + Send + Sync + 'static) -> Self {
        Self(Backend::Tape(Box::new(tape)))
    }

    /// Fills `out` with blocks `first_block`, `first_block + 1`, … of `stream`; the last one may be cut short.
    pub fn fill(&self, stream: u64, first_block: u64, out: &mut [u8]) {
        match &self.0 {
            Backend::Portable(cipher) => cipher.fill(stream, first_block, out),
            // SAFETY: the ciphers below exist only where their instructions do.
            #[cfg(target_arch = "aarch64")]
            Backend::Armv8(cipher) => unsafe { cipher.fill(stream, first_block, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Backend::AesNi(cipher) => unsafe { cipher.fill(stream, first_block, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes256(cipher) => unsafe { cipher.fill(stream, first_block, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes(cipher) => unsafe { cipher.fill(stream, first_block, out) },
            #[cfg(feature = "testing")]
            Backend::Chosen(cipher, blocks) => {
                cipher.fill(stream, first_block, out);
                chosen::lay(blocks, stream, first_block, out);
            }
            #[cfg(test)]
            Backend::Tape(tape) => {
                for (index, bytes) in (first_block..).zip(out.chunks_mut(CIPHER_BLOCK)) {
                    let [low, high] = tape(stream, index);
                    let block = ((u128::from(high) << 64) | u128::from(low)).to_le_bytes();
                    bytes.copy_from_slice(&block[..bytes.len()]);
                }
            }
        }
    }

    /// Returns the two 64-bit words of block `index` of `stream`.
    #[must_use]
    pub fn words(&self, stream: u64, index: u64) -> [u64; 2] {
        let mut block = [0; CIPHER_BLOCK];
        self.fill(stream, index, &mut block);
        let word = |half: usize| {
            let bytes: [u8; 8] = block[half * 8..half * 8 + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        [word(0), word(1)]
    }
}

impl fmt::Debug for Keystream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keystream(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST SP 800-38A, F.5.5: the key, and the first counter block cut in two.
    const KEY: [u8; 32] = [
        0x60, 0x3d, 0xeb, 0x10, 0x15, 0xca, 0x71, 0xbe, 0x2b, 0x73, 0xae, 0xf0, 0x85, 0x7d, 0x77, 0x81, 0x1f, 0x35,
        0x2c, 0x07, 0x3b, 0x61, 0x08, 0xd7, 0x2d, 0x98, 0x10, 0xa3, 0x09, 0x14, 0xdf, 0xf4,
    ];
    const STREAM: u64 = 0xf0f1_f2f3_f4f5_f6f7;
    const COUNTER: u64 = 0xf8f9_fafb_fcfd_feff;

    fn naive(cipher: &Keystream, stream: u64, first: u64, len: usize) -> Vec<u8> {
        let blocks = (0..len.div_ceil(CIPHER_BLOCK) as u64).map(|i| cipher.words(stream, first.wrapping_add(i)));
        blocks.flatten().flat_map(u64::to_le_bytes).take(len).collect()
    }

    #[test]
    fn every_isa_gives_the_stream_of_sp_800_38a() {
        let expected = [
            0x0b, 0xdf, 0x7d, 0xf1, 0x59, 0x17, 0x16, 0x33, 0x5e, 0x9a, 0x8b, 0x15, 0xc8, 0x60, 0xc5, 0x02, 0x5a, 0x6e,
            0x69, 0x9d, 0x53, 0x61, 0x19, 0x06, 0x54, 0x33, 0x86, 0x3c, 0x8f, 0x65, 0x7b, 0x94,
        ];
        for isa in Isa::available() {
            let mut out = [0; 32];

            Keystream::new(isa, &Key::from_bytes(KEY)).fill(STREAM, COUNTER, &mut out);

            assert_eq!(expected, out, "{isa:?}");
        }
    }

    #[test]
    fn every_isa_encrypts_the_block_of_fips_197() {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let expected = [0x8e, 0xa2, 0xb7, 0xca, 0x51, 0x67, 0x45, 0xbf, 0xea, 0xfc, 0x49, 0x90, 0x4b, 0x49, 0x60, 0x89];
        for isa in Isa::available() {
            let mut out = [0; 16];

            Keystream::new(isa, &Key::from_bytes(key)).fill(0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff, &mut out);

            assert_eq!(expected, out, "{isa:?}");
        }
    }

    #[test]
    fn every_isa_agrees_at_every_length_and_across_carries() {
        let key = Key::from_bytes([7; 32]);
        let reference = Keystream::new(Isa::PORTABLE, &key);
        let starts = [0, 1, 0xff, (1 << 32) - 64, (1 << 32) - 1, 1 << 32, u64::MAX - 600];
        for isa in Isa::available() {
            let keystream = Keystream::new(isa, &key);
            for start in starts {
                for len in (0..300).chain([511, 512, 513, 1023, 1024, 1025, 4096, 8191]) {
                    let mut out = vec![0xaa; len];

                    keystream.fill(3, start, &mut out);

                    assert!(naive(&reference, 3, start, len) == out, "{isa:?}: {len} bytes from block {start}");
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn aes_ni_agrees_where_the_cpu_has_vector_aes() {
        let key = Key::from_bytes([7; 32]);
        let reference = Keystream::new(Isa::PORTABLE, &key);
        if Isa::named("avx2").is_none() {
            return;
        }
        // SAFETY: this path exists only where the CPU has reported AES-NI, SSE4.1 and AVX2.
        let keystream = Keystream(Backend::AesNi(Box::new(unsafe { aes_ni::Cipher::new(&key.0) })));
        for start in [0, (1 << 32) - 3, u64::MAX - 20] {
            for len in (0..600).step_by(7).chain([16, 128, 256, 1024, 8191]) {
                let mut out = vec![0xaa; len];

                keystream.fill(3, start, &mut out);

                assert!(naive(&reference, 3, start, len) == out, "{len} bytes from block {start}");
            }
        }
    }

    #[test]
    fn fresh_keys_differ_and_nothing_shows_them() {
        let (one, two) = (Key::fresh().expect("entropy"), Key::fresh().expect("entropy"));

        assert_ne!(one.0, two.0);
        assert_eq!("Key(..)", format!("{one:?}"));
        assert_eq!("Keystream(..)", format!("{:?}", Keystream::new(Isa::best(), &one)));
    }

    #[test]
    fn derived_keys_differ_by_call_and_agree_across_isas() {
        let seed = Key::from_bytes([9; 32]);
        let derive = |isa, call| {
            let mut out = [0; 32];
            seed.derive_into(isa, call, &mut out);
            out
        };
        let keys: Vec<_> = (0..100).map(|call| derive(Isa::PORTABLE, call)).collect();

        for (i, key) in keys.iter().enumerate() {
            assert_eq!(*key, derive(Isa::best(), i as u64));
            assert!(!keys[..i].contains(key));
        }
    }
}
