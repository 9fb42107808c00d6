//! What an attempt proposes, and the digits that decide on it.

use super::table::Table;

/// The bits of one attempt after its first word.
pub(super) struct Further<F> {
    /// Gives block `k` of the attempt's streams.
    pub(super) block: F,
    /// Words of block 0 that are taken: 0, or 1 where it begins with a first word.
    pub(super) skipped: u64,
}

impl<F: Fn(u64) -> [u64; 2]> Further<F> {
    /// Returns further word `n`.
    pub(super) fn word(&self, n: u64) -> u64 {
        let n = n + self.skipped;
        (self.block)(n / 2)[(n % 2) as usize]
    }
}

/// A candidate and its uniform number: accepted if `U · divisor < f(x) · height · 2^shift`.
pub(super) struct Candidate<'a, F> {
    pub(super) table: &'a Table,
    /// `|x|`.
    pub(super) magnitude: u128,
    pub(super) divisor: u32,
    pub(super) shift: i32,
    /// `U` begins with `digits`, `digit_bits` of them, and goes on with further words from `next` on.
    pub(super) digits: u32,
    pub(super) digit_bits: u32,
    pub(super) further: Further<F>,
    pub(super) next: u64,
}
