//! Maps and sets of numbers that nobody chooses to collide: without the random key that the standard library's ask of the operating
//! system, and panic without.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::{HashMap, HashSet};

/// A map from numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// A set of numbers.
pub type Set<K> = HashSet<K, BuildHasherDefault<Mixed>>;

/// Spreads numbers over all bits: a multiplication by an odd number, and the high half folded into the low one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
