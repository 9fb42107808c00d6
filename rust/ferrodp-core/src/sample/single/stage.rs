//! The single-precision stage on the instructions of a CPU.

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::{Single, groups};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::isa::{Isa, Kind};
use crate::sample::types::Open;

/// Adds noise to `values`, a multiple of [`PADDING`](crate::sample::types::PADDING) of them with a word of 32 bits each;
/// leaves alone, and notes, what it cannot decide. What is no finite number counts as 0.
pub(in crate::sample) fn first_stage(isa: Isa, single: &Single, words: &[u8], values: &mut [f32], open: &mut Open) {
    match isa.kind() {
        Kind::Portable => groups(single, words, values, open),
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => neon::first_stage(isa, single, words, values, open),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => avx2::first_stage(isa, single, words, values, open),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => avx512::first_stage(isa, single, words, values, open),
    }
}
