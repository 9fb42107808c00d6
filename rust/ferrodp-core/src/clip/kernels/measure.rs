//! `Σ|x|` and `Σx²` in `f64`, in an order that is fixed: the same bits on every instruction set and at any number of
//! threads.
//!
//! A row is cut into leaves, a leaf into blocks of 4096 elements, a block into chunks of 32. Element `i` of a chunk goes to
//! lane `i`; a last chunk of fewer than 32 fills the last lanes. Lanes are folded in halves, and block sums are added in
//! order. A chunk of up to 16 elements need not have more lanes than that: those before are zeros, and folding them in
//! changes no bit. The square of an `f32` is exact in `f64`, so a fused multiply-add rounds once, as addition alone would: it may
//! be used. Squares of `f64` are rounded before they are added, everywhere.

use core::ops::Range;

use super::lanes::{Chunk, fold_in_halves};
use crate::clip::source::element::{Element, Float};
use crate::clip::source::plain::Piece;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel, PAGE_BYTES, prefetch_second_all};

/// Elements in a block.
pub(in crate::clip) const BLOCK_ELEMENTS: usize = 4096;

/// Independent sums within a block. Four of the widest vectors hide the latency of the additions.
pub(in crate::clip) const SQUARE_LANES: usize = 32;

/// Rows whose lanes are folded together, and lanes that each has left by then.
const FOLDED_ROWS: usize = 4;
const FOLDED_LANES: usize = 8;

/// How many leaves before it is measured or added a leaf is fetched, as much of it as is read by then: no stream of
/// addresses tells the CPU where leaves are.
pub(in crate::clip) const LEAVES_AHEAD: usize = 2;

/// Bytes that are fetched at a time, where more than one row has as many.
const FETCHED_BYTES: usize = 1 << 10;

/// Which powers are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clip) enum Power {
    /// Magnitudes, for the L1 norm.
    First,
    /// Squares, for the L2 norm.
    Second,
}

impl Power {
    /// Returns the norm whose power `sum` is.
    pub(in crate::clip) fn root(self, sum: f64) -> f64 {
        if self == Self::First { sum } else { sum.sqrt() }
    }

    /// Returns the power of `norm`.
    pub(in crate::clip) fn of(self, norm: f64) -> f64 {
        if self == Self::First { norm } else { norm * norm }
    }
}

/// Adds to each total the sum of powers of one row of `data`, `width` elements a row, each multiplied by `scale`.
///
/// # Numerics
/// `scale` is a power of two. A total that is not finite tells of an element that is not finite or, for `f64`, of an
/// overflow.
pub(in crate::clip) fn add_powers<T: Element>(
    isa: Isa,
    power: Power,
    data: &[T],
    width: usize,
    scale: f64,
    totals: &mut [f64],
) {
    match power {
        Power::First => dispatch::run(isa, AddPowers::<T, false> { data, width, scale, totals }),
        // Some CPUs take hundreds of cycles for a product that is subnormal, even by one.
        Power::Second if scale == 1.0 => {
            let pieces = &[Piece::plain(data, width)];
            dispatch::run(isa, AddSquares { pieces, range: 0..totals.len(), totals });
        }
        Power::Second => dispatch::run(isa, AddPowers::<T, true> { data, width, scale, totals }),
    }
}

/// Adds to each total the sum of squares of one of the rows in `range`, leaf by leaf.
pub(in crate::clip) fn add_squares<T: Element>(
    isa: Isa,
    pieces: &[Piece<'_, T>],
    range: Range<usize>,
    totals: &mut [f64],
) {
    dispatch::run(isa, AddSquares { pieces, range, totals });
}

struct AddPowers<'a, T, const SQUARES: bool> {
    data: &'a [T],
    width: usize,
    scale: f64,
    totals: &'a mut [f64],
}

impl<T: Element, const SQUARES: bool> Kernel for AddPowers<'_, T, SQUARES> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        add_rows::<T, SQUARES, NATIVE>(Piece::plain(self.data, self.width), 0, self.scale, self.totals);
    }
}

struct AddSquares<'a, T> {
    pieces: &'a [Piece<'a, T>],
    range: Range<usize>,
    totals: &'a mut [f64],
}

impl<T: Element> Kernel for AddSquares<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let first = self.range.start;
        for (i, piece) in self.pieces.iter().enumerate() {
            let later = self.pieces.get(i + LEAVES_AHEAD);
            // One loop for both, or its code would be there twice.
            let group = match later {
                Some(_) => (FETCHED_BYTES / (piece.width * size_of::<T>()).max(1)).max(1),
                None => self.totals.len().max(1),
            };
            let mut row = first;
            for totals in self.totals.chunks_mut(group) {
                if let Some(later) = later
                    && later.pitch == later.width
                {
                    prefetch_second_all(
                        later.address(row),
                        (totals.len() * later.width).min(PAGE_BYTES / size_of::<T>()),
                    );
                }
                add_rows::<T, true, NATIVE>(*piece, row, 1.0, totals);
                row += totals.len();
            }
        }
    }
}

/// Adds to each total the sum of powers of one row of a piece, from `row` on.
#[inline(always)]
fn add_rows<T: Element, const SQUARES: bool, const NATIVE: bool>(
    piece: Piece<'_, T>,
    row: usize,
    scale: f64,
    totals: &mut [f64],
) {
    let Piece { data, pitch, width, .. } = piece;
    let start = piece.start(row);
    match width {
        0 => {}
        1..=8 if NATIVE && SQUARES => add_short_rows::<T, SQUARES, NATIVE, 8>(piece, start, scale, totals),
        1..=16 if NATIVE => add_short_rows::<T, SQUARES, NATIVE, 16>(piece, start, scale, totals),
        1..SQUARE_LANES => add_short_rows::<T, SQUARES, NATIVE, SQUARE_LANES>(piece, start, scale, totals),
        _ => {
            // Lanes of several rows are folded together; of long rows that would gain nothing.
            let group = if width <= BLOCK_ELEMENTS { FOLDED_ROWS } else { 1 };
            let mut start = start;
            for totals in totals.chunks_mut(group) {
                for first in (0..width).step_by(BLOCK_ELEMENTS) {
                    let len = BLOCK_ELEMENTS.min(width - first);
                    let mut lanes = [[0.0; FOLDED_LANES]; FOLDED_ROWS];
                    for (row, lanes) in lanes.iter_mut().take(totals.len()).enumerate() {
                        let data = &data[..start + row * pitch + first + len];
                        *lanes = block_lanes::<T, SQUARES, NATIVE>(data, len, scale);
                    }
                    for (total, sum) in totals.iter_mut().zip(fold_rows(&lanes)) {
                        *total += sum;
                    }
                }
                start += totals.len() * pitch;
            }
        }
    }
}

/// The same for rows of at most `N` elements, the first of which begins at `start`.
#[inline(always)]
fn add_short_rows<T: Element, const SQUARES: bool, const NATIVE: bool, const N: usize>(
    piece: Piece<'_, T>,
    start: usize,
    scale: f64,
    totals: &mut [f64],
) {
    let Piece { data, pitch, width, .. } = piece;
    let ends = (start + width..=data.len()).step_by(pitch);
    for (end, total) in ends.zip(totals) {
        *total += short_sum::<T, SQUARES, NATIVE, N>(&data[..end], width, scale);
    }
}

/// Returns the sum of powers of the last `len` elements of `data`, at most `N`.
#[inline(always)]
fn short_sum<T: Element, const SQUARES: bool, const NATIVE: bool, const N: usize>(
    data: &[T],
    len: usize,
    scale: f64,
) -> f64 {
    let (mut sums, mut spare) = ([0.0; N], [T::default(); N]);
    add_chunk::<T, SQUARES, NATIVE, N, true>(&mut sums, Chunk::last(data, len, &mut spare), scale);
    fold_in_halves(sums)
}

/// Returns the largest magnitude of a row in leaves; NaN if an element is not finite.
pub(in crate::clip) fn largest_magnitude<'a, T: Element>(isa: Isa, leaves: impl Iterator<Item = &'a [T]>) -> f64 {
    let magnitudes = leaves.map(|leaf| dispatch::run(isa, LargestMagnitude(leaf)));
    // mutant: nan-hides-behind-larger-element
    magnitudes.fold(0.0, |largest: f64, x| if largest.is_nan() || !x.is_finite() { f64::NAN } else { largest.max(x) })
}

struct LargestMagnitude<'a, T>(&'a [T]);

impl<T: Element> Kernel for LargestMagnitude<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> f64 {
        // Magnitudes are ordered as their bits are, with infinity and then NaN above all numbers.
        let mut largest = [0_i64; SQUARE_LANES];
        let (chunks, tail) = self.0.as_chunks::<SQUARE_LANES>();
        for chunk in chunks {
            for (largest, x) in largest.iter_mut().zip(chunk) {
                *largest = (*largest).max(x.widen().abs().to_bits() as i64);
            }
        }
        for (largest, x) in largest.iter_mut().zip(tail) {
            *largest = (*largest).max(x.widen().abs().to_bits() as i64);
        }
        let mut half = SQUARE_LANES / 2;
        while half > 0 {
            for i in 0..half {
                largest[i] = largest[i].max(largest[i + half]);
            }
            half /= 2;
        }
        f64::from_bits(largest[0] as u64)
    }
}

/// Returns the sum of powers of the last `len` elements of `data`, which has [`SQUARE_LANES`] of them or more, in lanes that were folded in
/// halves until so many are left.
#[inline(always)]
fn block_lanes<T: Element, const SQUARES: bool, const NATIVE: bool>(
    data: &[T],
    len: usize,
    scale: f64,
) -> [f64; FOLDED_LANES] {
    let mut sums = [0.0; SQUARE_LANES];
    let (chunks, tail) = data[data.len() - len..].as_chunks::<SQUARE_LANES>();
    for chunk in chunks {
        add_chunk::<T, SQUARES, NATIVE, SQUARE_LANES, false>(&mut sums, Chunk::all(chunk), scale);
    }
    match tail.len() {
        0 => {}
        1..=8 if NATIVE && SQUARES => add_tail::<T, SQUARES, NATIVE, 8>(&mut sums, data, tail.len(), scale),
        9..=16 if NATIVE && SQUARES => add_tail::<T, SQUARES, NATIVE, 16>(&mut sums, data, tail.len(), scale),
        len => add_tail::<T, SQUARES, NATIVE, SQUARE_LANES>(&mut sums, data, len, scale),
    }
    let mut folded = [0.0; FOLDED_LANES];
    for (i, folded) in folded.iter_mut().enumerate() {
        *folded = (sums[i] + sums[i + 2 * FOLDED_LANES]) + (sums[i + FOLDED_LANES] + sums[i + 3 * FOLDED_LANES]);
    }
    folded
}

/// Returns what [`fold_in_halves`] does of each.
#[inline(always)]
fn fold_rows(lanes: &[[f64; FOLDED_LANES]; FOLDED_ROWS]) -> [f64; FOLDED_ROWS] {
    let mut halves = [[0.0; FOLDED_LANES / 2]; FOLDED_ROWS];
    for (half, lanes) in halves.iter_mut().zip(lanes) {
        for (i, half) in half.iter_mut().enumerate() {
            *half = lanes[i] + lanes[i + FOLDED_LANES / 2];
        }
    }
    let [a, b, c, d] = halves;
    let ab = [a[0] + a[2], a[1] + a[3], b[0] + b[2], b[1] + b[3]];
    let cd = [c[0] + c[2], c[1] + c[3], d[0] + d[2], d[1] + d[3]];
    // mutant: folded-rows-exchanged
    [ab[0] + ab[1], ab[2] + ab[3], cd[0] + cd[1], cd[2] + cd[3]]
}

/// Adds the powers of the last `len` elements of `data`, at most `N` of at least as many, to the last of so many lanes.
#[inline(always)]
pub(in crate::clip) fn add_tail<T: Element, const SQUARES: bool, const NATIVE: bool, const N: usize>(
    sums: &mut [f64; SQUARE_LANES],
    data: &[T],
    len: usize,
    scale: f64,
) {
    // mutant: short-tails-in-the-first-lanes
    let sums = sums.last_chunk_mut().expect("at most all lanes");
    add_chunk::<T, SQUARES, NATIVE, N, true>(sums, Chunk::last_of_many(data, len), scale);
}

/// Writes `from − minus`, up to [`BLOCK_ELEMENTS`] elements, to `out`, and returns the sum of squares that a row of them gives them.
#[inline(always)]
pub(in crate::clip) fn form_block<T: Float, const NATIVE: bool>(from: &[T], minus: &[T], out: &mut [T]) -> f64 {
    let mut sums = [0.0; SQUARE_LANES];
    let pairs = from.as_chunks::<SQUARE_LANES>().0.iter().zip(minus.as_chunks::<SQUARE_LANES>().0);
    for (out, (from, minus)) in out.as_chunks_mut::<SQUARE_LANES>().0.iter_mut().zip(pairs) {
        for ((out, from), (minus, sum)) in out.iter_mut().zip(from).zip(minus.iter().zip(&mut sums)) {
            *out = *from - *minus;
            *sum = add_power::<T, true, NATIVE>(*sum, out.widen());
        }
    }
    let tail = out.len() % SQUARE_LANES;
    let start = out.len() - tail;
    for (out, (from, minus)) in out[start..].iter_mut().zip(from[start..].iter().zip(&minus[start..])) {
        // mutant: last-elements-of-differences-not-subtracted
        *out = *from - *minus;
    }
    if tail > 0 {
        let mut spare = [T::default(); SQUARE_LANES];
        add_chunk::<T, true, NATIVE, SQUARE_LANES, true>(&mut sums, Chunk::last(out, tail, &mut spare), 1.0);
    }
    fold_in_halves(sums)
}

#[inline(always)]
pub(in crate::clip) fn add_chunk<
    T: Element,
    const SQUARES: bool,
    const NATIVE: bool,
    const N: usize,
    const MASKED: bool,
>(
    sums: &mut [f64; N],
    chunk: Chunk<'_, T, N, MASKED>,
    scale: f64,
) {
    for (i, sum) in sums.iter_mut().enumerate() {
        let x = chunk.lane(i);
        let x = if T::SQUARES_FIT { x } else { x * scale };
        *sum = add_power::<T, SQUARES, NATIVE>(*sum, x);
    }
}

#[inline(always)]
fn add_power<T: Element, const SQUARES: bool, const NATIVE: bool>(sum: f64, x: f64) -> f64 {
    match (SQUARES, NATIVE && T::SQUARES_FIT) {
        (false, _) => sum + x.abs(),
        (true, false) => sum + x * x,
        (true, true) => x.mul_add(x, sum), // the square is exact: the same number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, element by element.
    fn in_order<T: Element>(power: Power, row: &[T], scale: f64) -> f64 {
        let mut total = 0.0;
        for block in row.chunks(BLOCK_ELEMENTS) {
            let mut sums = [0.0; SQUARE_LANES];
            for chunk in block.chunks(SQUARE_LANES) {
                for (i, x) in chunk.iter().enumerate() {
                    sums[SQUARE_LANES - chunk.len() + i] += power.of((x.widen() * scale).abs());
                }
            }
            total += fold_in_halves(sums);
        }
        total
    }

    #[test]
    fn every_isa_gives_the_bits_of_the_definition() {
        for len in [0, 1, 15, 16, 31, 32, 33, 100, 4095, 4096, 4097, 8192, 12_345] {
            let single: Vec<f32> = (0..len).map(|i| ((i * 7919) % 1013) as f32 * 1.1e-3 - 0.5).collect();
            let double: Vec<f64> = (0..len).map(|i| ((i * 7919) % 1013) as f64 * 1.1e-3 - 0.5).collect();
            for isa in Isa::available() {
                for power in [Power::First, Power::Second] {
                    let (mut one, mut two) = ([0.0], [0.0]);

                    add_powers(isa, power, &single, len, 1.0, &mut one);
                    add_powers(isa, power, &double, len, 0.25, &mut two);

                    assert_eq!(in_order(power, &single, 1.0), one[0], "{isa:?}, {len} of f32");
                    assert_eq!(in_order(power, &double, 0.25), two[0], "{isa:?}, {len} of f64");
                }
            }
        }
    }

    #[test]
    fn elements_of_very_different_sizes_are_added_in_the_order_of_the_definition() {
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64
        };
        for len in 1..=64 {
            for _ in 0..20 {
                // Sums in another order are rounded to other numbers.
                let row: Vec<f64> = (0..len).map(|_| draw() * 2.0_f64.powi((draw() % 27.0) as i32)).collect();
                for isa in Isa::available() {
                    let mut total = [0.0];

                    add_powers(isa, Power::Second, &row, len, 1.0, &mut total);

                    assert_eq!(in_order(Power::Second, &row, 1.0), total[0], "{isa:?}, {len}");
                }
            }
        }
    }

    #[test]
    fn rows_of_a_tile_and_leaves_of_a_row_are_added_in_order() {
        let data: Vec<f32> = (0..30).map(|i| i as f32 + 0.1).collect();
        let mut totals = [0.0; 3];
        add_powers(Isa::best(), Power::Second, &data, 10, 1.0, &mut totals);
        add_powers(Isa::best(), Power::Second, &data, 5, 1.0, &mut totals);

        for (i, total) in totals.into_iter().enumerate() {
            let leaves = [&data[10 * i..10 * i + 10], &data[5 * i..5 * i + 5]];
            assert_eq!(leaves.iter().fold(0.0, |sum, leaf| sum + in_order(Power::Second, leaf, 1.0)), total);
        }
    }

    #[test]
    fn the_largest_magnitude_is_found_anywhere() {
        for isa in Isa::available() {
            let largest = |row: &[f64]| largest_magnitude(isa, row.chunks(40));
            for position in 0..70 {
                let mut row = [0.5; 70];
                row[position] = -3.0;
                assert_eq!(3.0, largest(&row));

                for bad in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    row[position] = bad;
                    assert!(largest(&row).is_nan());
                }
            }
            assert_eq!(0.0, largest(&[]));
        }
    }

    #[test]
    fn whatever_is_not_finite_shows_in_the_sum() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for position in [0, 31, 32, 40] {
                let mut row = [1.0_f32; 41];
                row[position] = bad;
                for power in [Power::First, Power::Second] {
                    let mut total = [0.0];
                    add_powers(Isa::best(), power, &row, 41, 1.0, &mut total);

                    assert!(!total[0].is_finite());
                }
            }
        }
    }
}
