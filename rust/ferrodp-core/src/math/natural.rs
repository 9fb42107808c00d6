//! Natural numbers of any size: plain limbs, schoolbook products. Speed does not matter here, being obvious does.

use core::cmp::Ordering;

use zeroize::Zeroize;

/// A natural number; limbs least significant first, no zero limb at the top.
///
/// Some are digits that were drawn: the memory is wiped on drop, and no operation lets it grow, which would leave a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural(Vec<u64>);

impl Drop for Natural {
    fn drop(&mut self) {
        // mutant: big-integers-leave-digits-on-heap
        self.0.zeroize();
    }
}

impl Natural {
    /// Returns `value`.
    pub(crate) fn new(value: u128) -> Self {
        Self(vec![value as u64, (value >> 64) as u64]).trimmed()
    }

    /// Returns the number with these bytes, the least significant first.
    pub(crate) fn from_le_bytes(bytes: &[u8]) -> Self {
        let limb = |part: &[u8]| part.iter().rev().fold(0, |limb, byte| (limb << 8) | u64::from(*byte));
        Self(bytes.chunks(8).map(limb).collect()).trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bits, `⌊log₂⌋ + 1`; zero has none.
    pub(crate) fn bits(&self) -> u32 {
        self.0.last().map_or(0, |top| self.0.len() as u32 * 64 - top.leading_zeros())
    }

    /// Returns the leading 64 bits (top bit set) and the exponent `e` with value in `[lead, lead + 1) · 2^e`.
    pub(crate) fn leading(&self) -> (u64, i64) {
        let bits = self.bits();
        let aligned = if bits >= 64 { self.shr(bits - 64) } else { self.shl(64 - bits) };
        (aligned.0.last().copied().unwrap_or(0), i64::from(bits) - 64)
    }

    /// Returns the 64 bits that count least.
    pub(crate) fn low(&self) -> u64 {
        self.limb(0)
    }

    /// Returns `self + other`.
    pub(crate) fn add(&self, other: &Self) -> Self {
        let mut carry = false;
        let mut limbs = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for i in 0..self.0.len().max(other.0.len()) {
            let (sum, first) = self.limb(i).overflowing_add(other.limb(i));
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            limbs.push(sum);
        }
        limbs.push(u64::from(carry));
        Self(limbs).trimmed()
    }

    /// Returns `self − other`, or zero where that would be negative.
    pub(crate) fn saturating_sub(&self, other: &Self) -> Self {
        if *self < *other {
            return Self::default();
        }
        let mut borrow = false;
        let mut limbs = Vec::with_capacity(self.0.len());
        for i in 0..self.0.len() {
            let (difference, first) = self.limb(i).overflowing_sub(other.limb(i));
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            borrow = first || second;
            limbs.push(difference);
        }
        Self(limbs).trimmed()
    }

    /// Returns `self · other`.
    pub(crate) fn mul(&self, other: &Self) -> Self {
        let mut limbs = vec![0_u64; self.0.len() + other.0.len()];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0_u64;
            for (j, &b) in other.0.iter().enumerate() {
                // (2⁶⁴ − 1)² + 2(2⁶⁴ − 1) = 2¹²⁸ − 1: no overflow.
                let sum = u128::from(a) * u128::from(b) + u128::from(limbs[i + j]) + u128::from(carry);
                limbs[i + j] = sum as u64;
                carry = (sum >> 64) as u64;
            }
            limbs[i + other.0.len()] = carry;
        }
        Self(limbs).trimmed()
    }

    /// Returns `⌊self / divisor⌋` and whether there was no remainder.
    ///
    /// # Panics
    /// If `divisor` is zero.
    pub(crate) fn div(&self, divisor: u64) -> (Self, bool) {
        let mut remainder = 0_u64;
        let mut limbs = vec![0; self.0.len()];
        for i in (0..self.0.len()).rev() {
            let dividend = (u128::from(remainder) << 64) | u128::from(self.0[i]);
            limbs[i] = (dividend / u128::from(divisor)) as u64;
            remainder = (dividend % u128::from(divisor)) as u64;
        }
        (Self(limbs).trimmed(), remainder == 0)
    }

    /// Returns `self · 2^by`.
    pub(crate) fn shl(&self, by: u32) -> Self {
        let (words, bits) = ((by / 64) as usize, by % 64);
        let mut limbs = vec![0; words + self.0.len() + 1];
        for (i, &limb) in self.0.iter().enumerate() {
            limbs[words + i] |= limb << bits;
            if bits > 0 {
                limbs[words + i + 1] |= limb >> (64 - bits);
            }
        }
        Self(limbs).trimmed()
    }

    /// Returns `⌊self / 2^by⌋`.
    pub(crate) fn shr(&self, by: u32) -> Self {
        let (words, bits) = ((by / 64) as usize, by % 64);
        let mut limbs = Vec::with_capacity(self.0.len().saturating_sub(words));
        for i in words..self.0.len() {
            let low = self.limb(i) >> bits;
            limbs.push(if bits > 0 { low | (self.limb(i + 1) << (64 - bits)) } else { low });
        }
        Self(limbs).trimmed()
    }

    fn limb(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers around limb boundaries, and some without a pattern.
    fn samples() -> Vec<Natural> {
        let mut found: Vec<_> = [0, 1, 2, 3, u128::from(u64::MAX), 1 << 64, u128::MAX].map(Natural::new).to_vec();
        let mut x = Natural::new(0x9e37_79b9_7f4a_7c15);
        for _ in 0..4 {
            x = x.mul(&x).add(&Natural::new(0xdead_beef));
            found.push(x.clone());
        }
        found
    }

    #[test]
    fn arithmetic_obeys_the_laws_of_a_ring() {
        for a in samples() {
            for b in samples() {
                assert_eq!(a.add(&b), b.add(&a));
                assert_eq!(a.mul(&b), b.mul(&a));
                assert_eq!(a, a.add(&b).saturating_sub(&b));
                for c in samples() {
                    assert_eq!(a.mul(&b.add(&c)), a.mul(&b).add(&a.mul(&c)));
                }
            }
        }
    }

    #[test]
    fn shifts_are_products_and_quotients_by_powers_of_two() {
        for a in samples() {
            for by in [0, 1, 63, 64, 65, 200] {
                assert_eq!(a.mul(&Natural::new(1).shl(by)), a.shl(by));
                assert_eq!(a, a.shl(by).shr(by));
            }
        }
        assert_eq!(Natural::new(2), Natural::new(5).shr(1));
    }

    #[test]
    fn division_leaves_a_remainder_below_the_divisor() {
        for a in samples() {
            for divisor in [1, 3, 10, u64::MAX] {
                let (quotient, exact) = a.div(divisor);
                let rest = a.saturating_sub(&quotient.mul(&Natural::new(u128::from(divisor))));

                assert!(rest < Natural::new(u128::from(divisor)));
                assert_eq!(exact, rest.is_zero());
            }
        }
    }

    #[test]
    fn bits_and_leading_digits_agree_with_machine_integers() {
        for value in [1_u128, 2, 3, 1 << 63, 1 << 64, (1 << 64) + 1, u128::MAX] {
            let n = Natural::new(value);

            assert_eq!(128 - value.leading_zeros(), n.bits());
            assert_eq!(((value << value.leading_zeros()) >> 64) as u64, n.leading().0);
        }
        assert_eq!(0, Natural::default().bits());
    }

    #[test]
    fn subtraction_stops_at_zero() {
        assert!(Natural::new(3).saturating_sub(&Natural::new(4)).is_zero());
    }
}
