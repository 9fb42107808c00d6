//! How many rows of bits have each bit: sums of columns, by full adders over 64 columns a word.
//!
//! Eight rows become one carry of weight 8 and three sums of weights 1, 2 and 4, which are kept; carries are counted in further planes, a
//! bit of every count each. Before a plane could overflow, all are read and added to the counts. Everything is integers.

use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};

/// Words of a row that are added together.
const WORDS_TOGETHER: usize = 16;

/// Planes of counts: what is counted is below 2 to that.
const COUNT_PLANES: usize = 16;

/// Groups of eight rows before planes are read.
const GROUPS_PER_READING: usize = (1 << COUNT_PLANES) / 8 - 1;

type Row = [u64; WORDS_TOGETHER];

/// Adds to `counts` how many rows of `width` words have each bit.
///
/// # Panics
/// If `rows` is not made of whole rows, or there are not 64 counts a word.
pub fn count(isa: Isa, rows: &[u64], width: usize, counts: &mut [i64]) {
    assert!(
        width > 0 && rows.len().is_multiple_of(width) && counts.len() == 64 * width,
        "whole rows, and a count a bit"
    );
    dispatch::run(isa, Count { rows, width, counts });
}

struct Count<'a> {
    rows: &'a [u64],
    width: usize,
    counts: &'a mut [i64],
}

impl Kernel for Count<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        // Short rows are added several at once, as one.
        let together = (WORDS_TOGETHER / self.width).max(1);
        let stride = together * self.width;
        for start in (0..stride).step_by(WORDS_TOGETHER) {
            let lanes = (stride - start).min(WORDS_TOGETHER);
            let row = |number: usize| -> Row {
                let at = number * stride + start;
                let mut found = [0; WORDS_TOGETHER];
                if let Some(whole) = self.rows.get(at..at + WORDS_TOGETHER).filter(|_| lanes == WORDS_TOGETHER) {
                    found.copy_from_slice(whole);
                } else {
                    let end = (at + lanes).min(self.rows.len());
                    found[..end.saturating_sub(at)].copy_from_slice(self.rows.get(at..end).unwrap_or(&[]));
                }
                found
            };
            let groups = self.rows.len().div_ceil(stride).div_ceil(8);
            let mut planes = [[0; WORDS_TOGETHER]; COUNT_PLANES];
            for group in 0..groups {
                let [one, two, four, ref mut others @ ..] = planes;
                let (one, a) = add(one, row(8 * group), row(8 * group + 1));
                let (one, b) = add(one, row(8 * group + 2), row(8 * group + 3));
                let (two, c) = add(two, a, b);
                let (one, a) = add(one, row(8 * group + 4), row(8 * group + 5));
                let (one, b) = add(one, row(8 * group + 6), row(8 * group + 7));
                let (two, d) = add(two, a, b);
                let (four, mut carry) = add(four, c, d);
                for plane in others.iter_mut() {
                    for (bit, carry) in plane.iter_mut().zip(&mut carry) {
                        (*bit, *carry) = (*bit ^ *carry, *bit & *carry);
                    }
                }
                (planes[0], planes[1], planes[2]) = (one, two, four);
                // mutant: counts-of-bits-run-over
                if group % GROUPS_PER_READING == GROUPS_PER_READING - 1 || group + 1 == groups {
                    read(&mut planes, |lane, bit, found| {
                        if lane < lanes {
                            self.counts[(start + lane) % self.width * 64 + bit] += found;
                        }
                    });
                }
            }
        }
    }
}

/// Returns the sums of bits, and the carries.
#[inline(always)]
fn add(a: Row, b: Row, c: Row) -> (Row, Row) {
    let (mut sum, mut carry) = ([0; WORDS_TOGETHER], [0; WORDS_TOGETHER]);
    for lane in 0..WORDS_TOGETHER {
        let half = a[lane] ^ b[lane];
        (sum[lane], carry[lane]) = (half ^ c[lane], a[lane] & b[lane] | half & c[lane]);
    }
    (sum, carry)
}

/// Gives what the planes have counted, by lane and bit, and clears them.
#[inline(always)]
fn read(planes: &mut [Row; COUNT_PLANES], mut add: impl FnMut(usize, usize, i64)) {
    for lane in 0..WORDS_TOGETHER {
        for bit in 0..64 {
            let found = planes.iter().enumerate().map(|(plane, row)| (row[lane] >> bit & 1) << plane).sum::<u64>();
            add(lane, bit, found.cast_signed());
        }
    }
    *planes = [[0; WORDS_TOGETHER]; COUNT_PLANES];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Key;

    #[test]
    fn every_bit_of_every_row_is_counted() {
        for (rows, width) in [(0, 3), (1, 1), (7, 1), (8, 2), (9, 3), (100, 5), (33, 16), (50, 17), (40, 33), (9, 40)] {
            let mut bytes = vec![0; rows * width * 8];
            Key::from_bytes([7; 32]).fill(Isa::PORTABLE, &mut bytes);
            let words: Vec<u64> = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
            let mut expected = vec![1; 64 * width];
            for row in words.chunks(width) {
                for (bit, count) in expected.iter_mut().enumerate() {
                    *count += (row[bit / 64] >> (bit % 64) & 1).cast_signed();
                }
            }
            for isa in Isa::available() {
                let mut counts = vec![1; 64 * width];
                count(isa, &words, width, &mut counts);
                assert!(expected == counts, "{rows} rows of {width} words on {isa:?}");
            }
        }
    }

    #[test]
    fn planes_are_read_before_they_run_over() {
        for rows in [(1 << COUNT_PLANES) - 8, (1 << COUNT_PLANES) + 1, 3 << COUNT_PLANES] {
            let mut counts = vec![0; 64 * WORDS_TOGETHER];
            count(Isa::best(), &vec![u64::MAX; rows * WORDS_TOGETHER], WORDS_TOGETHER, &mut counts);
            assert!(counts.iter().all(|&count| count == rows as i64), "{rows} rows");
        }
    }
}
