//! Rows, scaled and truncated onto the grid, added to integer sums, with a proof of their norm.
//!
//! An element `x` becomes `k = trunc(x · scale · factor)`, the products rounded to nearest in `f64`. Truncation goes
//! toward zero, so `|k|` is at most the magnitude `|v|` of the product, and `Σv² ≤ (C/g)²` proves `Σk² ≤ (C/g)²`. That
//! sum is formed from the very numbers that are truncated, in floating point, and has to stay below a limit that leaves
//! room for its error ([`super::error_budget`]). Rows kept within rounding error of the bound cannot pass that; their
//! `Σk²` is formed in integers. Either way the certificate speaks of the integers that were added: if another thread
//! writes to the row meanwhile, it may fail, and then the sums must not be used again.
//!
//! The integer comes out of the bits of `trunc(v) + 1.5·2⁵²`, exact for `|v| < 2⁵¹`, with no conversion that could be
//! undefined: a number that a racing writer slipped in becomes some integer, and an infinite or NaN certificate.

use super::dispatch::{self, Kernel, prefetch};
use super::element::Element;
use super::measure::fold_in_halves;
use crate::isa::Isa;

/// Columns that are finished for all rows of a tile before the next ones: their sums stay in the first-level cache.
const COLUMNS: usize = 1024;

/// Columns in one step of the loop, and independent certificates.
const LANES: usize = 16;

/// Bytes that one prefetch brings.
const CACHE_LINE: usize = 64;

/// `1.5 · 2⁵²`: added to an integer below 2⁵¹, it leaves that integer in the low bits.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// How one row is added.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// It counts as zero.
    Skip,
    /// Its floating-point certificate decides.
    Add { scale: f64, factor: f64 },
    /// The sum of squares of its integers decides.
    AddClose { factor: f64 },
}

/// What is known of the integers of one row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Certificate {
    /// `Σv²`, rounded; NaN or infinite if the row held such an element when it was added.
    pub(super) products: f64,
    /// `Σk²` modulo 2⁶⁴, only for [`Step::AddClose`].
    pub(super) integers: u64,
}

impl Certificate {
    /// Adds the lanes of one block.
    ///
    /// Kept out of line: seeing the reduction, the compiler would cut the loop before it into pairs of lanes.
    #[inline(never)]
    fn add_lanes(&mut self, products: &[f64; LANES], integers: &[u64; LANES]) {
        // mutant: certificate-not-looked
        self.products += fold_in_halves(*products);
        self.integers = integers.iter().fold(self.integers, |sum, &k| sum.wrapping_add(k));
    }
}

/// One leaf of a tile of rows.
pub(super) struct Tile<'a, T> {
    /// The rows, one after the other.
    pub(super) data: &'a [T],
    /// Elements in a row of this leaf.
    pub(super) width: usize,
    /// The columns to add: all of them, or one thread's share.
    pub(super) columns: core::ops::Range<usize>,
    /// How each row is added.
    pub(super) steps: &'a [Step],
    /// The rows that come after these, which are fetched meanwhile.
    pub(super) ahead: &'a [T],
}

/// Adds the rows of `tile` to `sums`, which belong to the tile's columns, and to each row's certificate.
pub(super) fn add<T: Element>(isa: Isa, tile: Tile<'_, T>, sums: &mut [i64], certificates: &mut [Certificate]) {
    dispatch::run(isa, AddTile { tile, sums, certificates });
}

struct AddTile<'a, T> {
    tile: Tile<'a, T>,
    sums: &'a mut [i64],
    certificates: &'a mut [Certificate],
}

impl<T: Element> Kernel for AddTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Tile { data, width, columns, steps, ahead } = self.tile;
        if columns.is_empty() {
            return;
        }
        let ahead = if ahead.is_empty() { data } else { ahead };
        for (index, sums) in self.sums.chunks_mut(COLUMNS).enumerate() {
            let start = columns.start + index * COLUMNS;
            for (r, (row, step)) in data.chunks_exact(width).zip(steps).enumerate() {
                let row = &row[start..start + sums.len()];
                let ahead = ahead.as_ptr().wrapping_add(r * width + start);
                let certificate = &mut self.certificates[r];
                match *step {
                    Step::Skip => {}
                    Step::Add { scale, factor } => {
                        add_block::<T, false, NATIVE>(row, ahead, [scale, factor], sums, certificate);
                    }
                    Step::AddClose { factor } => {
                        add_block::<T, true, NATIVE>(row, ahead, [1.0, factor], sums, certificate);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn add_block<T: Element, const CLOSE: bool, const NATIVE: bool>(
    row: &[T],
    mut ahead: *const T,
    factors: [f64; 2],
    sums: &mut [i64],
    certificate: &mut Certificate,
) {
    let (mut products, mut integers) = ([0.0; LANES], [0; LANES]);
    let (chunks, tail) = row.as_chunks::<LANES>();
    let (sum_chunks, sum_tail) = sums.as_chunks_mut::<LANES>();
    for (chunk, sums) in chunks.iter().zip(sum_chunks) {
        for line in 0..LANES * size_of::<T>() / CACHE_LINE {
            prefetch(ahead.wrapping_add(line * CACHE_LINE / size_of::<T>()));
        }
        ahead = ahead.wrapping_add(LANES);
        add_chunk::<T, CLOSE, NATIVE, LANES>(chunk, factors, sums, &mut products, &mut integers);
    }
    if !chunks.is_empty() {
        certificate.add_lanes(&products, &integers);
    }
    add_one_by_one::<T, CLOSE, NATIVE>(tail, factors, sum_tail, certificate);
}

/// The same for the few elements after the last chunk.
#[inline(always)]
fn add_one_by_one<T: Element, const CLOSE: bool, const NATIVE: bool>(
    row: &[T],
    factors: [f64; 2],
    sums: &mut [i64],
    certificate: &mut Certificate,
) {
    let (mut products, mut integers) = ([0.0], [certificate.integers]);
    for (x, sum) in row.iter().zip(sums) {
        let sum = core::array::from_mut(sum);
        add_chunk::<T, CLOSE, NATIVE, 1>(&[*x], factors, sum, &mut products, &mut integers);
    }
    certificate.products += products[0];
    [certificate.integers] = integers;
}

#[inline(always)]
fn add_chunk<T: Element, const CLOSE: bool, const NATIVE: bool, const N: usize>(
    chunk: &[T; N],
    [scale, factor]: [f64; 2],
    sums: &mut [i64; N],
    products: &mut [f64; N],
    integers: &mut [u64; N],
) {
    let mut values = [0.0; N];
    for (v, x) in values.iter_mut().zip(chunk) {
        *v = if T::SQUARES_FIT { x.widen() * factor } else { x.widen() * scale * factor };
    }
    for (sum, v) in products.iter_mut().zip(&values) {
        *sum = if NATIVE { v.mul_add(*v, *sum) } else { *sum + v * v };
    }
    for v in &mut values {
        *v = truncate::<NATIVE>(*v) + SHIFT;
    }
    for (sum, v) in sums.iter_mut().zip(&values) {
        *sum = sum.wrapping_add(integer(*v));
    }
    if CLOSE {
        for (sum, v) in integers.iter_mut().zip(&values) {
            *sum = sum.wrapping_add(integer(*v).wrapping_mul(integer(*v)) as u64);
        }
    }
}

/// Returns the integer that was added to [`SHIFT`].
#[inline(always)]
fn integer(shifted: f64) -> i64 {
    shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i64
}

/// Returns the integer next to `v` on the side of zero, for `|v| < 2⁵¹`.
#[inline(always)]
fn truncate<const NATIVE: bool>(v: f64) -> f64 {
    if NATIVE {
        // mutant: rounded-to-nearest-grid-point-not-toward
        return v.trunc();
    }
    const ROUND: f64 = 4_503_599_627_370_496.0; // 2^52: sums with it are integers
    let nearest = (v.abs() + ROUND) - ROUND;
    let below = if nearest > v.abs() { nearest - 1.0 } else { nearest };
    below.copysign(v)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, element by element: sums, and `Σk²` of every row.
    fn in_order<T: Element>(rows: &[&[T]], steps: &[Step], sums: &mut [i64]) -> Vec<u64> {
        let mut squares = vec![0; rows.len()];
        for ((row, step), square) in rows.iter().zip(steps).zip(&mut squares) {
            let [scale, factor] = match *step {
                Step::Skip => continue,
                Step::Add { scale, factor } => [scale, factor],
                Step::AddClose { factor } => [1.0, factor],
            };
            for (x, sum) in row.iter().zip(&mut *sums) {
                let k = (x.widen() * scale * factor) as i64;
                *sum += k;
                *square += (k * k) as u64;
            }
        }
        squares
    }

    fn check<T: Element>(convert: fn(f64) -> T, width: usize) {
        let steps = [
            Step::Add { scale: 1.0, factor: 12_345.678 },
            Step::Skip,
            Step::AddClose { factor: 1024.0 },
            Step::Add { scale: 1.0, factor: 0.9 },
        ];
        let data: Vec<T> = (0..4 * width).map(|i| convert(((i * 7919) % 2027) as f64 * 1.1 - 1000.0)).collect();
        let rows: Vec<&[T]> = (0..4).map(|r| &data[r * width..(r + 1) * width]).collect();
        let mut expected: Vec<i64> = (0..width as i64).collect();
        let squares = in_order(&rows, &steps, &mut expected);
        for isa in Isa::available() {
            let mut sums: Vec<i64> = (0..width as i64).collect();
            let mut certificates = [Certificate::default(); 4];
            let tile = Tile { data: &data, width, columns: 0..width, steps: &steps, ahead: &data };

            add(isa, tile, &mut sums, &mut certificates);

            assert_eq!(expected, sums, "{isa:?}, width {width}");
            assert_eq!(squares[2], certificates[2].integers, "{isa:?}, width {width}");
            for (square, certificate) in squares.iter().zip(certificates).take(1) {
                assert!(*square as f64 <= certificate.products * (1.0 + 1e-13));
            }
        }
    }

    #[test]
    fn every_isa_gives_the_sums_of_the_definition() {
        for width in [1, 15, 16, 17, 100, 1023, 1024, 1025, 3000] {
            check(|x| x as f32, width);
            check(|x| x, width);
        }
    }

    #[test]
    fn a_share_of_the_columns_gives_a_share_of_the_sums() {
        let (width, step) = (5000, [Step::Add { scale: 1.0, factor: 1e5 }; 2]);
        let data: Vec<f64> = (0..2 * width).map(|i| (i as f64).sin()).collect();
        let tile = |columns| Tile { data: &data, width, columns, steps: &step, ahead: &[] };
        let (mut whole, mut parts) = (vec![0; width], vec![0; width]);
        let mut certificates = [Certificate::default(); 2];
        add(Isa::best(), tile(0..width), &mut whole, &mut certificates);

        for (start, end) in [(0, 1500), (1500, 1501), (1501, width)] {
            add(Isa::best(), tile(start..end), &mut parts[start..end], &mut certificates);
        }

        assert_eq!(whole, parts);
    }

    #[test]
    fn truncation_without_the_instruction_is_truncation() {
        for v in [0.0, 0.5, 1.0 - 1e-16, 1.0, 1.5, 2.5, 3.5, 1e9 + 0.999_999, 2.0_f64.powi(50) + 0.75, 5e-324] {
            for v in [v, -v] {
                assert_eq!(v.trunc().to_bits(), truncate::<false>(v).to_bits(), "{v:e}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_or_too_large_fails_the_certificate() {
        for bad in [f64::NAN, f64::INFINITY, 1e300, 2.0_f64.powi(52)] {
            for isa in Isa::available() {
                let mut data = [1.0; 40];
                data[37] = bad;
                let mut certificates = [Certificate::default()];
                let steps = [Step::AddClose { factor: 1.0 }];

                add(
                    isa,
                    Tile { data: &data, width: 40, columns: 0..40, steps: &steps, ahead: &[] },
                    &mut [0; 40],
                    &mut certificates,
                );

                let certified = certificates[0].products <= 2.0_f64.powi(61);
                assert!(!certified);
            }
        }
    }
}
