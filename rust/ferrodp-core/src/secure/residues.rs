//! Integers as residues of a public modulus: what clients send, how a server adds it up, and what the sum means.
//!
//! The moduli are 2³² and 2⁶⁴, and the primes of Prio3: `2⁶⁴ − 2³² + 1` (Field64) and `2¹²⁸ − 7·2⁶⁶ + 1` (Field128);
//! Barnes, Cook, Patton, Schoppmann, "Verifiable distributed aggregation functions", draft-irtf-cfrg-vdaf, section 6.1.
//! A residue `r` stands for the integer of least magnitude that is congruent to it: `r`, or `r − m` above `m/2`.
//!
//! An element of Field128 is two words, the low one first: in memory, the 16 bytes that Prio3 sends.

use crate::error::Error;

/// `2⁶⁴ − 2³² + 1`.
pub const FIELD64: u64 = 0xffff_ffff_0000_0001;

/// `2¹²⁸ − 7·2⁶⁶ + 1`.
pub const FIELD128: u128 = u128::MAX - (7 << 66) + 2;

/// What the words of a vector are residues of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modulus {
    /// 2⁶⁴, a word an element.
    TwoTo64,
    /// [`FIELD64`], a word an element.
    Field64,
    /// [`FIELD128`], two words an element, the low one first.
    Field128,
}

impl Modulus {
    /// Words in an element.
    #[must_use]
    pub const fn words(self) -> usize {
        if matches!(self, Self::Field128) { 2 } else { 1 }
    }

    /// Writes the residues of `integers`.
    ///
    /// # Errors
    /// [`Error::Length`] if `out` has another length than [`Modulus::words`] for each.
    pub fn reduce(self, integers: &[i64], out: &mut [u64]) -> Result<(), Error> {
        self.check("out", out.len(), integers.len() * self.words())?;
        match self {
            Self::TwoTo64 => {
                for (out, k) in out.iter_mut().zip(integers) {
                    *out = k.cast_unsigned();
                }
            }
            Self::Field64 => {
                for (out, k) in out.iter_mut().zip(integers) {
                    // For negative k: p + k = 2⁶⁴ + k − (2³² − 1).
                    // mutant: negative-numbers-in-the-field
                    *out = k.cast_unsigned().wrapping_sub((k >> 63).cast_unsigned() & 0xffff_ffff);
                }
            }
            Self::Field128 => {
                for (out, k) in out.as_chunks_mut::<2>().0.iter_mut().zip(integers) {
                    let value = i128::from(*k).cast_unsigned();
                    let value = if *k < 0 { FIELD128.wrapping_add(value) } else { value };
                    *out = [value as u64, (value >> 64) as u64];
                }
            }
        }
        Ok(())
    }

    /// Adds `message` to `total`, element by element.
    ///
    /// # Errors
    /// [`Error::Length`] if the two differ in length, [`Error::Malformed`] if `message` holds a word that is no residue;
    /// nothing is added then.
    pub fn add(self, total: &mut [u64], message: &[u64]) -> Result<(), Error> {
        self.check("message", message.len(), total.len())?;
        if !self.reduced(message) {
            return Err(Error::Malformed { what: "an element is not below the modulus" });
        }
        match self {
            Self::TwoTo64 => {
                for (sum, more) in total.iter_mut().zip(message) {
                    *sum = sum.wrapping_add(*more);
                }
            }
            Self::Field64 => {
                for (sum, more) in total.iter_mut().zip(message) {
                    let (low, carry) = sum.overflowing_add(*more);
                    *sum = if carry || low >= FIELD64 { low.wrapping_sub(FIELD64) } else { low };
                }
            }
            Self::Field128 => {
                let elements = total.as_chunks_mut::<2>().0.iter_mut().zip(message.as_chunks::<2>().0);
                for (sum, more) in elements {
                    let (low, carry) = wide(*sum).overflowing_add(wide(*more));
                    let value = if carry || low >= FIELD128 { low.wrapping_sub(FIELD128) } else { low };
                    *sum = [value as u64, (value >> 64) as u64];
                }
            }
        }
        Ok(())
    }

    /// Writes the integers that the residues stand for. What no `i64` holds becomes its largest or smallest number.
    ///
    /// # Errors
    /// As [`Modulus::add`].
    pub fn center(self, residues: &[u64], out: &mut [i64]) -> Result<(), Error> {
        self.check("residues", residues.len(), out.len() * self.words())?;
        if !self.reduced(residues) {
            return Err(Error::Malformed { what: "an element is not below the modulus" });
        }
        match self {
            Self::TwoTo64 => {
                for (out, word) in out.iter_mut().zip(residues) {
                    *out = word.cast_signed();
                }
            }
            Self::Field64 => {
                for (out, word) in out.iter_mut().zip(residues) {
                    // mutant: centered-at-a-quarter
                    let modulus = if *word > FIELD64 / 2 { FIELD64 } else { 0 };
                    *out = word.wrapping_sub(modulus).cast_signed();
                }
            }
            Self::Field128 => {
                for (out, words) in out.iter_mut().zip(residues.as_chunks::<2>().0) {
                    let value = wide(*words);
                    let value = if value > FIELD128 / 2 { value.wrapping_sub(FIELD128) } else { value }.cast_signed();
                    *out = value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                }
            }
        }
        Ok(())
    }

    /// Whether all elements are below the modulus.
    fn reduced(self, words: &[u64]) -> bool {
        match self {
            Self::TwoTo64 => true,
            Self::Field64 => words.iter().fold(0, |largest, &word| word.max(largest)) < FIELD64,
            Self::Field128 => words.as_chunks::<2>().0.iter().all(|&words| wide(words) < FIELD128),
        }
    }

    fn check(self, name: &'static str, given: usize, needed: usize) -> Result<(), Error> {
        if given == needed { Ok(()) } else { Err(Error::Length { name, given, needed }) }
    }
}

fn wide([low, high]: [u64; 2]) -> u128 {
    (u128::from(high) << 64) | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(Modulus, Option<u128>); 3] = [
        (Modulus::TwoTo64, Some(1 << 64)),
        (Modulus::Field64, Some(FIELD64 as u128)),
        (Modulus::Field128, Some(FIELD128)),
    ];
    const INTEGERS: [i64; 9] = [0, 1, -1, 5, -5, 1 << 40, -(1 << 40), (1 << 62) - 1, -(1 << 62)];

    fn residues(modulus: Modulus, integers: &[i64]) -> Vec<u64> {
        let mut out = vec![0; integers.len() * modulus.words()];
        modulus.reduce(integers, &mut out).expect("lengths agree");
        out
    }

    fn centered(modulus: Modulus, residues: &[u64]) -> Vec<i64> {
        let mut out = vec![0; residues.len() / modulus.words()];
        modulus.center(residues, &mut out).expect("lengths agree");
        out
    }

    #[test]
    fn the_primes_are_those_of_prio3() {
        assert_eq!(18_446_744_069_414_584_321, FIELD64);
        assert_eq!(340_282_366_920_938_462_946_865_773_367_900_766_209, FIELD128);
    }

    #[test]
    fn integers_come_back() {
        for (modulus, _) in ALL {
            assert_eq!(INTEGERS.to_vec(), centered(modulus, &residues(modulus, &INTEGERS)), "{modulus:?}");
        }
    }

    #[test]
    fn residues_are_the_integers_modulo_the_modulus() {
        for (modulus, value) in ALL {
            let words = residues(modulus, &INTEGERS);
            for (element, k) in words.chunks(modulus.words()).zip(INTEGERS) {
                let element = wide([element[0], element.get(1).copied().unwrap_or(0)]);
                let expected = i128::from(k).rem_euclid(i128::MAX); // for numbers that are not negative: themselves
                let expected =
                    if k < 0 { value.expect("a number") - u128::from(k.unsigned_abs()) } else { expected as u128 };

                assert_eq!(expected, element, "{modulus:?}, {k}");
            }
        }
    }

    #[test]
    fn sums_of_residues_are_residues_of_sums() {
        for (modulus, _) in ALL {
            for a in INTEGERS {
                for b in INTEGERS {
                    let Some(sum) = a.checked_add(b) else { continue };
                    if modulus == Modulus::Field64 && sum.unsigned_abs() > FIELD64 / 2 {
                        continue;
                    }
                    let mut total = residues(modulus, &[a]);
                    modulus.add(&mut total, &residues(modulus, &[b])).expect("residues");

                    assert_eq!(residues(modulus, &[sum]), total, "{modulus:?}, {a} + {b}");
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_no_residues_are_refused_and_nothing_is_added() {
        for (modulus, message) in [
            (Modulus::Field64, vec![0, FIELD64]),
            (Modulus::Field64, vec![u64::MAX, 0]),
            (Modulus::Field128, vec![FIELD128 as u64, (FIELD128 >> 64) as u64]),
            (Modulus::Field128, vec![0, u64::MAX]),
        ] {
            let mut total = vec![3; 2];

            assert!(modulus.add(&mut total, &message).is_err());
            assert_eq!(vec![3; 2], total);
            assert!(modulus.center(&message, &mut vec![0; 2 / modulus.words()]).is_err());
        }
        assert!(Modulus::TwoTo64.add(&mut [0; 3], &[0; 2]).is_err());
        assert!(Modulus::Field128.reduce(&[1], &mut [0]).is_err());
    }

    #[test]
    fn numbers_beyond_64_bits_are_cut() {
        let far = [0, 1 << 20, 5, (FIELD128 >> 64) as u64 - 5];

        assert_eq!(vec![i64::MAX, i64::MIN], centered(Modulus::Field128, &far));
    }
}
