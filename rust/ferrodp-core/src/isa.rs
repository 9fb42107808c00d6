//! Which instruction sets this CPU has, asked once; holding an [`Isa`] is the proof that they exist.
//!
//! Every kernel gives the same bits on every path, so the choice is one of speed alone.

pub(crate) mod dispatch;

use core::fmt;

/// An instruction set that this CPU has been seen to support.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa(Kind);

/// The paths that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Plain Rust, for any CPU.
    Portable,
    /// NEON and the AES instructions of Armv8.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// AVX2, FMA and AES-NI; the keystream takes VAES where the CPU has it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 (F, BW, DQ, VL) and VAES.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The path that every CPU can take.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Returns every path this CPU supports, slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "other architectures add nothing")]
        let mut found = vec![Self::PORTABLE];
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected as has;
            if has!("neon") && has!("aes") {
                found.push(Self(Kind::Neon));
            }
        }
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma") && has!("aes") && has!("sse4.1") && has!("bmi2") && has!("lzcnt");
            if avx2 {
                found.push(Self(Kind::Avx2));
            }
            let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("vaes");
            if avx2 && avx512 {
                found.push(Self(Kind::Avx512));
            }
        }
        found
    }

    /// Returns the fastest path this CPU supports.
    #[must_use]
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::PORTABLE)
    }

    /// Returns the path of that name, if there is one and this CPU supports it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|isa| isa.name() == name)
    }

    /// The name that [`Isa::named`] takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }

    /// Whether fused multiply-add and truncation are single instructions. What kernels gain by them and by vectors of several
    /// rows is not worth machine code for any other CPU, which takes the plain way, with the same results.
    #[must_use]
    pub const fn is_native(self) -> bool {
        cfg!(target_arch = "aarch64") || !matches!(self.0, Kind::Portable)
    }

    /// Whether vectors have 512 bits.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => true,
            _ => false,
        }
    }

    /// Which path to take.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_path_is_found_by_its_name() {
        for isa in Isa::available() {
            assert_eq!(Some(isa), Isa::named(isa.name()));
        }
        assert_eq!(None, Isa::named("abacus"));
    }

    #[test]
    fn the_portable_path_is_always_there() {
        assert_eq!(Isa::PORTABLE, Isa::available()[0]);
    }
}
