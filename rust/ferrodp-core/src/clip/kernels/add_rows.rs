//! Rows, scaled and truncated onto the grid, added to integer sums, with a proof of their norm.
//!
//! An element `x` becomes `k = trunc(x · scale · factor)`, the products rounded to nearest in `f64`. Truncation goes
//! toward zero, so `|k|` is at most the magnitude `|v|` of the product, and `Σv² ≤ (C/g)²` proves `Σk² ≤ (C/g)²`. That
//! sum is formed from the very numbers that are truncated, in floating point, and has to stay below a limit that leaves
//! room for its error ([`super::error_budget`]). Rows kept within rounding error of the bound cannot pass that; their
//! `Σk²` is formed in integers. Either way the certificate speaks of the integers that were added: if another thread
//! writes to the row in between, it may fail, and then the sums must not be used again.
//!
//! The integer comes out of the bits of `trunc(v) + 1.5·2⁵²`, exact for `|v| < 2⁵¹`, or, on AVX-512, of an instruction that
//! gives the same there; neither is a conversion that could be undefined: a number that a racing writer slipped in becomes
//! some integer, and an infinite or NaN certificate, or one far beyond every limit.

use core::ops::Range;

use super::fused_measure::{self, NextTile};
use super::lanes::{Chunk, fold_in_halves, put_last};
use super::measure::LEAVES_AHEAD;
use crate::clip::source::element::Element;
use crate::clip::source::plain::Piece;
use crate::isa::Isa;
use crate::isa::dispatch::{self, CACHE_LINE, Kernel, prefetch_second, prefetch_second_all};

/// Columns that are finished for all rows of a tile before the next ones: their sums stay in the first-level cache. Lanes
/// of certificates are folded as often.
const BLOCK_COLUMNS: usize = 1024;

/// Columns in one step of the loop, and independent certificates.
const COLUMN_LANES: usize = 16;

/// Rows that are added at a time, if a floating-point certificate decides for each of them.
pub(in crate::clip) const ROWS_TOGETHER: usize = 4;

/// `1.5 · 2⁵²`: added to an integer below 2⁵¹, it leaves that integer in the low bits.
pub(in crate::clip) const INTEGER_SHIFT: f64 = 6_755_399_441_055_744.0;

/// How one row is added.
#[derive(Clone, Copy, Debug)]
pub(in crate::clip) enum Step {
    /// It counts as zero.
    Skip,
    /// Its floating-point certificate decides.
    Add { scale: f64, factor: f64 },
    /// The sum of squares of its integers decides.
    AddNear { factor: f64 },
}

impl Step {
    /// Returns scales and factors, if floating-point certificates decide for all of these rows.
    #[inline(always)]
    fn all_add(steps: &[Self; ROWS_TOGETHER]) -> Option<[[f64; 2]; ROWS_TOGETHER]> {
        let mut factors = [[0.0; 2]; ROWS_TOGETHER];
        for (factors, step) in factors.iter_mut().zip(steps) {
            let Self::Add { scale, factor } = *step else { return None };
            *factors = [scale, factor];
        }
        Some(factors)
    }
}

/// What is known of the integers of one row.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(in crate::clip) struct Certificate {
    /// The part of `Σv²` that is not folded, in independent sums, if there are chunks of it; they fill cache lines.
    lanes: [f64; COLUMN_LANES],
    /// The rest of it.
    products: f64,
    /// How often each lane was added to.
    chunks: usize,
    /// `Σk²` modulo 2⁶⁴, only for [`Step::AddNear`].
    integers: u64,
}

impl Certificate {
    /// `Σv²`, rounded; NaN or infinite if the row held such an element when it was added.
    pub(in crate::clip) fn products(&self) -> f64 {
        // mutant: certificate-not-looked
        if self.chunks == 0 { self.products } else { self.products + fold_in_halves(self.lanes) }
    }

    /// Forgets all that is known, for another row.
    pub(in crate::clip) fn restart(&mut self) {
        // mutant: certificates-restarted
        (self.products, self.chunks, self.integers) = (0.0, 0, 0);
    }

    /// `Σk²` modulo 2⁶⁴, only for [`Step::AddNear`].
    pub(in crate::clip) fn integers(&self) -> u64 {
        self.integers
    }

    /// Adds what is known of other columns of the row.
    pub(in crate::clip) fn merge(&mut self, other: &Self) {
        self.products += other.products();
        self.integers = self.integers.wrapping_add(other.integers);
    }

    /// Makes room for so many chunks, at most those of a block, and returns the lanes that they are added to.
    #[inline(always)]
    fn expect(&mut self, chunks: usize) -> [f64; COLUMN_LANES] {
        if self.chunks + chunks > BLOCK_COLUMNS / COLUMN_LANES {
            self.fold();
        }
        // mutant: lanes-of-certificates-begun
        let lanes = if self.chunks == 0 { [0.0; COLUMN_LANES] } else { self.lanes };
        self.chunks += chunks;
        lanes
    }

    /// Folds the lanes.
    ///
    /// Kept out of line: seeing the reduction, the compiler would cut the loop before it into pairs of lanes.
    #[inline(never)]
    fn fold(&mut self) {
        // mutant: certificate-forgets-what-is-folded
        self.products += fold_in_halves(self.lanes);
        self.chunks = 0;
    }

    /// Adds sums of squares of integers.
    #[inline(never)]
    fn add_integers(&mut self, integers: &[u64; COLUMN_LANES]) {
        self.integers = integers.iter().fold(self.integers, |sum, &k| sum.wrapping_add(k));
    }
}

/// A tile of rows.
pub(in crate::clip) struct Tile<'a, T> {
    /// The rows that it is some of, leaf by leaf.
    pub(in crate::clip) pieces: &'a [Piece<'a, T>],
    /// The index of its first row.
    pub(in crate::clip) first: usize,
    /// The columns to add: all of them, or one thread's share.
    pub(in crate::clip) columns: Range<usize>,
    /// How each row is added.
    pub(in crate::clip) steps: &'a [Step],
    /// The first of as many rows that are prefetched, or would be: those of the next tile.
    pub(in crate::clip) next: usize,
}

/// Adds the rows of `tile` to `sums`, which belong to the tile's columns, and to each row's certificate.
pub(in crate::clip) fn add<T: Element>(
    isa: Isa,
    tile: Tile<'_, T>,
    sums: &mut [i64],
    certificates: &mut [Certificate],
) {
    dispatch::run(isa, AddTile { tile, sums, certificates, next_tile: None });
}

/// The same for [`ROWS_TOGETHER`] rows of one leaf with floating-point certificates, while other rows are measured; where that pays.
pub(in crate::clip) fn add_fused<T: Element>(
    isa: Isa,
    tile: Tile<'_, T>,
    sums: &mut [i64],
    certificates: &mut [Certificate],
    next_tile: &mut NextTile<'_, T>,
) {
    assert!(fused_measure::is_supported::<T>(isa) && tile.pieces.len() == 1, "rows of one leaf");
    dispatch::run(isa, AddTile { tile, sums, certificates, next_tile: Some(next_tile) });
}

struct AddTile<'a, 'b, T> {
    tile: Tile<'a, T>,
    sums: &'a mut [i64],
    certificates: &'a mut [Certificate],
    next_tile: Option<&'a mut NextTile<'b, T>>,
}

impl<T: Element> Kernel for AddTile<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        self.add::<Shifted<NATIVE>>();
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) {
        self.add::<Converted>();
    }
}

impl<T: Element> AddTile<'_, '_, T> {
    #[inline(always)]
    fn add<I: Integers>(mut self) {
        let Range { start, end } = self.tile.columns;
        let pieces = self.tile.pieces;
        for (i, piece) in pieces.iter().enumerate() {
            let (first, last) = (piece.offset.max(start), (piece.offset + piece.width).min(end));
            if first < last {
                let later = pieces
                    .get(i + LEAVES_AHEAD)
                    .filter(|later| is_short::<T>(piece.width) && later.pitch == later.width);
                let part = Part {
                    piece: *piece,
                    start: piece.start(self.tile.first) + first - piece.offset,
                    next: piece.address(self.tile.next).wrapping_add(first - piece.offset).cast(),
                    later: later.map(|later| later.address(self.tile.first)),
                };
                let sums = &mut self.sums[first - start..last - start];
                part.add::<I>(self.tile.steps, sums, self.certificates, self.next_tile.as_deref_mut());
            }
        }
    }
}

/// Whether rows of a leaf of so many columns are over before the CPU sees a stream of addresses.
#[inline(always)]
fn is_short<T>(width: usize) -> bool {
    width * size_of::<T>() <= 1024
}

/// Columns of one leaf, for all rows of a tile.
struct Part<'a, T> {
    piece: Piece<'a, T>,
    /// The index of the first element of these columns in the first row of the tile.
    start: usize,
    /// The same columns of the rows that are prefetched.
    next: *const u8,
    /// The same rows of a leaf that is prefetched as well.
    later: Option<*const T>,
}

impl<'a, T: Element> Part<'a, T> {
    /// Returns a row's data up to the last of `len` columns of a block, and what is prefetched while they are added.
    #[inline(always)]
    fn row(&self, r: usize, block: usize, len: usize) -> (&'a [T], *const u8) {
        let offset = r * self.piece.pitch + block * BLOCK_COLUMNS;
        (&self.piece.data[..self.start + offset + len], self.next.wrapping_add(offset * size_of::<T>()))
    }

    /// Adds these columns to `sums`, block by block.
    #[inline(always)]
    fn add<I: Integers>(
        &self,
        steps: &[Step],
        sums: &mut [i64],
        certificates: &mut [Certificate],
        mut next_tile: Option<&mut NextTile<'_, T>>,
    ) {
        let blocks = sums.len().div_ceil(BLOCK_COLUMNS);
        for (index, sums) in sums.chunks_mut(BLOCK_COLUMNS).enumerate() {
            let (mut last, len) = ([0; COLUMN_LANES], sums.len());
            let row = |r| self.row(r, index, len);
            let mut r = 0;
            while let Some(step) = steps.get(r) {
                // Elsewhere sums do not stay in registers anyway.
                if I::NATIVE
                    && let Some(factors) = steps[r..].first_chunk().and_then(Step::all_add)
                {
                    let rows = [row(r), row(r + 1), row(r + 2), row(r + 3)];
                    if let Some(later) = self.later {
                        prefetch_second_all(
                            later.wrapping_add(r * self.piece.pitch + index * BLOCK_COLUMNS),
                            ROWS_TOGETHER * len,
                        );
                    }
                    let certificates = certificates[r..].first_chunk_mut().expect("one for each step");
                    let next_tile = next_tile.as_deref_mut().map(|next_tile| (next_tile, index + 1 == blocks));
                    add_rows_at_once::<T, I>(rows, factors, sums, &mut last, certificates, next_tile);
                    r += ROWS_TOGETHER;
                    continue;
                }
                let ((data, ahead), certificate) = (row(r), &mut certificates[r]);
                match *step {
                    Step::Skip => {}
                    Step::Add { scale, factor } => {
                        add_block::<T, I, false>(data, ahead, [scale, factor], sums, &mut last, certificate);
                    }
                    Step::AddNear { factor } => {
                        add_block::<T, I, true>(data, ahead, [1.0, factor], sums, &mut last, certificate);
                    }
                }
                r += 1;
            }
            // One by one: wider loads would wait for the stores of the chunk before, which they overlap.
            let len = sums.len() % COLUMN_LANES;
            let first = sums.len() - len;
            for (sum, more) in sums[first..].iter_mut().zip(&last[COLUMN_LANES - len..]) {
                *sum = sum.wrapping_add(*more);
            }
        }
    }
}

/// Adds the last elements of `data`, as many as there are `sums`: whole chunks of them to `sums`, and the few elements
/// after these to the last lanes of `last`.
#[inline(always)]
fn add_block<T: Element, I: Integers, const NEAR: bool>(
    data: &[T],
    mut ahead: *const u8,
    factors: [f64; 2],
    sums: &mut [i64],
    last: &mut [i64; COLUMN_LANES],
    certificate: &mut Certificate,
) {
    let mut padded = [T::default(); COLUMN_LANES];
    let data = if data.len() < COLUMN_LANES {
        put_last(data, sums.len(), &mut padded);
        &padded
    } else {
        data
    };
    let (chunks, tail) = data[data.len() - sums.len()..].as_chunks::<COLUMN_LANES>();
    let (mut products, mut integers) = (certificate.expect(sums.len().div_ceil(COLUMN_LANES)), [0; COLUMN_LANES]);
    for (chunk, sums) in chunks.iter().zip(sums.as_chunks_mut::<COLUMN_LANES>().0) {
        for line in 0..COLUMN_LANES * size_of::<T>() / CACHE_LINE {
            prefetch_second(ahead.wrapping_add(line * CACHE_LINE));
        }
        ahead = ahead.wrapping_add(COLUMN_LANES * size_of::<T>());
        add_chunk::<T, I, COLUMN_LANES, NEAR, false>(Chunk::all(chunk), factors, sums, &mut products, &mut integers);
    }
    if !tail.is_empty() {
        prefetch_second(ahead);
        let chunk = Chunk::last_of_many(data, tail.len());
        add_chunk::<T, I, COLUMN_LANES, NEAR, true>(chunk, factors, last, &mut products, &mut integers);
    }
    certificate.lanes = products;
    if NEAR {
        certificate.add_integers(&integers);
    }
}

/// Does for so many rows what [`add_block`] does, chunk by chunk: sums stay in registers. Row after row, those of few columns would wait for
/// what the row before has just written. Where other rows are measured at the same time, and these columns are the last ones, the rest of them is.
#[inline(always)]
fn add_rows_at_once<T: Element, I: Integers>(
    [a, b, c, d]: [(&[T], *const u8); ROWS_TOGETHER],
    factors: [[f64; 2]; ROWS_TOGETHER],
    sums: &mut [i64],
    last: &mut [i64; COLUMN_LANES],
    certificates: &mut [Certificate; ROWS_TOGETHER],
    next_tile: Option<(&mut NextTile<'_, T>, bool)>,
) {
    let len = sums.len();
    // The first of few columns, with zeros before them.
    let mut padded;
    let [a, b, c, d] = if a.0.len() < COLUMN_LANES {
        padded = [[T::default(); COLUMN_LANES]; ROWS_TOGETHER];
        for (padded, row) in padded.iter_mut().zip([a.0, b.0, c.0, d.0]) {
            put_last(row, len, padded);
        }
        let [of_a, of_b, of_c, of_d] = &padded;
        [(&of_a[..], a.1), (&of_b[..], b.1), (&of_c[..], c.1), (&of_d[..], d.1)]
    } else {
        [a, b, c, d]
    };
    let chunks_of = len.div_ceil(COLUMN_LANES);
    let mut lanes = certificates.each_mut().map(|certificate| certificate.expect(chunks_of));
    let mut chunks = [a.0, b.0, c.0, d.0].map(|row| chunks(row, len));
    let mut sums = sums.as_chunks_mut::<COLUMN_LANES>().0;
    // Elsewhere none are measured at the same time.
    if let Some((next_tile, are_last)) = next_tile.filter(|_| I::IS_ONE || !T::SQUARES_FIT) {
        while !next_tile.is_done() && (are_last || !sums.is_empty()) {
            let steps = next_tile.steps().min(sums.len());
            if steps == 0 {
                next_tile.finish::<true>();
                continue;
            }
            let (elements, mut squares) = next_tile.begin(steps);
            let is_near = next_tile.is_near();
            let (now, later) = core::mem::take(&mut sums).split_at_mut(steps);
            let some = chunks.map(|chunks| &chunks[..steps]);
            add_chunks::<T, I>(some, factors, now, &mut lanes, |i| {
                fused_measure::step::<T, true>(&elements[i], &mut squares, is_near);
            });
            next_tile.end(squares);
            chunks = chunks.map(|chunks| &chunks[steps..]);
            sums = later;
        }
    }
    let mut behind = 0_usize;
    add_chunks::<T, I>(chunks, factors, sums, &mut lanes, |_| {
        for (_, ahead) in [a, b, c, d] {
            for line in 0..COLUMN_LANES * size_of::<T>() / CACHE_LINE {
                prefetch_second(ahead.wrapping_add(behind + line * CACHE_LINE));
            }
        }
        behind += COLUMN_LANES * size_of::<T>();
    });
    let tail = len % COLUMN_LANES;
    if tail > 0 {
        let mut tail = Tail { len: tail, factors, sums: last };
        for (_, ahead) in [a, b, c, d] {
            prefetch_second(ahead.wrapping_add(behind));
        }
        let lanes = lanes.each_mut();
        if I::IS_ONE && tail.len <= 8 {
            tail.add::<T, I, 8>([a.0, b.0, c.0, d.0], lanes);
        } else {
            tail.add::<T, I, COLUMN_LANES>([a.0, b.0, c.0, d.0], lanes);
        }
    }
    for (certificate, lanes) in certificates.iter_mut().zip(lanes) {
        certificate.lanes = lanes;
    }
}

/// Adds chunks of rows to their columns' sums, and does something else before each.
#[inline(always)]
fn add_chunks<T: Element, I: Integers>(
    [a, b, c, d]: [&[[T; COLUMN_LANES]]; ROWS_TOGETHER],
    [of_a, of_b, of_c, of_d]: [[f64; 2]; ROWS_TOGETHER],
    sums: &mut [[i64; COLUMN_LANES]],
    lanes: &mut [[f64; COLUMN_LANES]; ROWS_TOGETHER],
    mut other: impl FnMut(usize),
) {
    let [mut lanes_a, mut lanes_b, mut lanes_c, mut lanes_d] = *lanes;
    let mut none = [0; COLUMN_LANES];
    macro_rules! add {
        ($i:expr, $a:expr, $b:expr, $c:expr, $d:expr, $sums:expr) => {
            other($i);
            let mut total = *$sums;
            add_chunk::<T, I, COLUMN_LANES, false, false>(Chunk::all($a), of_a, &mut total, &mut lanes_a, &mut none);
            add_chunk::<T, I, COLUMN_LANES, false, false>(Chunk::all($b), of_b, &mut total, &mut lanes_b, &mut none);
            add_chunk::<T, I, COLUMN_LANES, false, false>(Chunk::all($c), of_c, &mut total, &mut lanes_c, &mut none);
            // mutant: fourth-of-rows-added-together-forgotten
            add_chunk::<T, I, COLUMN_LANES, false, false>(Chunk::all($d), of_d, &mut total, &mut lanes_d, &mut none);
            *$sums = total;
        };
    }
    if T::SQUARES_FIT {
        // One index for all: iterators side by side do not stay in registers.
        let count = sums.len();
        let (a, b, c, d) = (&a[..count], &b[..count], &c[..count], &d[..count]);
        for i in 0..count {
            add!(i, &a[i], &b[i], &c[i], &d[i], &mut sums[i]);
        }
    } else {
        // Of these, memory decides, and asking it in quicker succession makes them slower.
        let rows = a.iter().zip(b).zip(c.iter().zip(d));
        for (i, (((a, b), (c, d)), sums)) in rows.zip(sums).enumerate() {
            add!(i, a, b, c, d, sums);
        }
    }
    *lanes = [lanes_a, lanes_b, lanes_c, lanes_d];
}

/// The last elements of rows that are added together, fewer than there are lanes.
struct Tail<'a> {
    len: usize,
    factors: [[f64; 2]; ROWS_TOGETHER],
    sums: &'a mut [i64; COLUMN_LANES],
}

impl Tail<'_> {
    /// Adds them in the last `N` lanes.
    #[inline(always)]
    fn add<T: Element, I: Integers, const N: usize>(
        &mut self,
        [a, b, c, d]: [&[T]; ROWS_TOGETHER],
        [lanes_a, lanes_b, lanes_c, lanes_d]: [&mut [f64; COLUMN_LANES]; ROWS_TOGETHER],
    ) {
        // mutant: short-tails-added-to-other-columns
        let sums = self.sums.last_chunk_mut::<N>().expect("at most all lanes");
        let (mut total, mut none) = (*sums, [0; N]);
        let rows = [(a, lanes_a), (b, lanes_b), (c, lanes_c), (d, lanes_d)];
        for ((row, lanes), factors) in rows.into_iter().zip(self.factors) {
            let lanes = lanes.last_chunk_mut().expect("at most all lanes");
            let chunk = Chunk::last_of_many(row, self.len);
            add_chunk::<T, I, N, false, true>(chunk, factors, &mut total, lanes, &mut none);
        }
        *sums = total;
    }
}

/// Returns the whole chunks of the last `len` elements of `data`.
#[inline(always)]
fn chunks<T>(data: &[T], len: usize) -> &[[T; COLUMN_LANES]] {
    data[data.len() - len..].as_chunks().0
}

#[inline(always)]
fn add_chunk<T: Element, I: Integers, const N: usize, const NEAR: bool, const MASKED: bool>(
    chunk: Chunk<'_, T, N, MASKED>,
    [scale, factor]: [f64; 2],
    sums: &mut [i64; N],
    products: &mut [f64; N],
    integers: &mut [u64; N],
) {
    let mut values = [0.0; N];
    for (i, v) in values.iter_mut().enumerate() {
        let x = chunk.lane(i);
        // Rows near the bound are multiplied by no power of two.
        *v = if T::SQUARES_FIT || NEAR { x * factor } else { x * scale * factor };
    }
    for (sum, v) in products.iter_mut().zip(&values) {
        *sum = if I::NATIVE { v.mul_add(*v, *sum) } else { *sum + v * v };
    }
    let values = I::of(values);
    for (sum, v) in sums.iter_mut().zip(&values) {
        *sum = sum.wrapping_add(*v);
    }
    if NEAR {
        for (sum, v) in integers.iter_mut().zip(&values) {
            *sum = sum.wrapping_add(square(*v));
        }
    }
}

/// A way to cut numbers to integers.
pub(in crate::clip) trait Integers {
    /// Whether fused multiply-add is one instruction.
    const NATIVE: bool;

    /// Whether this is one instruction.
    const IS_ONE: bool;

    /// Returns the integers next to these numbers on the side of zero, where these are below 2⁵¹, and any others elsewhere.
    fn of<const N: usize>(values: [f64; N]) -> [i64; N];
}

/// By the bits of sums with [`INTEGER_SHIFT`].
pub(in crate::clip) struct Shifted<const NATIVE: bool>;

impl<const NATIVE: bool> Integers for Shifted<NATIVE> {
    const NATIVE: bool = NATIVE;
    const IS_ONE: bool = false;

    #[inline(always)]
    fn of<const N: usize>(values: [f64; N]) -> [i64; N] {
        values.map(|v| integer(truncate::<NATIVE>(v) + INTEGER_SHIFT))
    }
}

/// By an instruction of AVX-512.
#[cfg(target_arch = "x86_64")]
pub(in crate::clip) struct Converted;

#[cfg(target_arch = "x86_64")]
impl Integers for Converted {
    const NATIVE: bool = true;
    const IS_ONE: bool = true;

    #[inline(always)]
    fn of<const N: usize>(values: [f64; N]) -> [i64; N] {
        // SAFETY: this is a way of `run_512` alone, and lanes are whole eights.
        unsafe { super::avx512::integers(values) }
    }
}

/// Returns the square of an integer of 32 bits, which is one instruction; something else for any other.
///
/// A sum of these counts only where `Σv²` is at most 2⁶¹, and so every `|k|` below 2³¹.
#[inline(always)]
pub(in crate::clip) fn square(k: i64) -> u64 {
    let k = i64::from(k as i32);
    (k * k).cast_unsigned()
}

/// Returns the integer that was added to [`INTEGER_SHIFT`].
#[inline(always)]
fn integer(shifted: f64) -> i64 {
    shifted.to_bits().wrapping_sub(INTEGER_SHIFT.to_bits()) as i64
}

/// Returns the integer next to `v` on the side of zero, for `|v| < 2⁵¹`.
#[inline(always)]
pub(in crate::clip) fn truncate<const NATIVE: bool>(v: f64) -> f64 {
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
    use super::super::measure::{Power, add_powers};
    use super::*;

    /// The definition, element by element: sums, and `Σk²` of every row.
    fn in_order<T: Element>(rows: &[&[T]], steps: &[Step], sums: &mut [i64]) -> Vec<u64> {
        let mut squares = vec![0; rows.len()];
        for ((row, step), square) in rows.iter().zip(steps).zip(&mut squares) {
            let [scale, factor] = match *step {
                Step::Skip => continue,
                Step::Add { scale, factor } => [scale, factor],
                Step::AddNear { factor } => [1.0, factor],
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
            Step::AddNear { factor: 1024.0 },
            Step::Add { scale: 1.0, factor: 0.9 },
            Step::Add { scale: 1.0, factor: 1.7 },
            Step::Add { scale: 1.0, factor: 2.6 },
            Step::Add { scale: 1.0, factor: 3.5 },
            Step::Add { scale: 1.0, factor: 4.4 },
        ];
        let count = steps.len();
        let data: Vec<T> = (0..count * width).map(|i| convert(((i * 7919) % 2027) as f64 * 1.1 - 1000.0)).collect();
        let rows: Vec<&[T]> = (0..count).map(|r| &data[r * width..(r + 1) * width]).collect();
        let mut expected: Vec<i64> = (0..width as i64).collect();
        let squares = in_order(&rows, &steps, &mut expected);
        for isa in Isa::available() {
            let mut sums: Vec<i64> = (0..width as i64).collect();
            let mut certificates = vec![Certificate::default(); count];
            let pieces = [Piece::plain(&data[..], width)];
            let tile = Tile { pieces: &pieces, first: 0, columns: 0..width, steps: &steps, next: 0 };

            add(isa, tile, &mut sums, &mut certificates);

            assert_eq!(expected, sums, "{isa:?}, width {width}");
            assert_eq!(squares[2], certificates[2].integers(), "{isa:?}, width {width}");
            for (square, certificate) in squares.iter().zip(&certificates) {
                assert!(*square as f64 <= certificate.products() * (1.0 + 1e-13));
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

    fn check_fused_measure<T: Element>(convert: fn(f64) -> T, width: usize) {
        let count = 9;
        let data: Vec<T> = (0..count * width).map(|i| convert(((i * 7919) % 2027) as f64 * 1.1 - 1000.0)).collect();
        let pieces = [Piece::plain(&data[..], width)];
        let steps = [1.7, 2.6, 3.5, 4.4].map(|factor| Step::Add { scale: 1.0, factor });
        let tile = || Tile { pieces: &pieces, first: 1, columns: 0..width, steps: &steps, next: 5 };
        for isa in Isa::available().into_iter().filter(|isa| fused_measure::is_supported::<T>(*isa)) {
            let mut sums = [(); 2].map(|()| vec![0; width]);
            let mut certificates = [(); 2].map(|()| vec![Certificate::default(); steps.len()]);
            let ([expected, found], [alone, with_others]) = (&mut sums, &mut certificates);
            // Blocks are added to what was there, one after the other, and of one row those of the definition.
            let mut totals = [0.0; ROWS_TOGETHER];
            add_powers(isa, Power::Second, &data[5 * width..], width, 1.0, &mut totals);
            let mut others = NextTile::new(&pieces[0], 5);

            add(isa, tile(), expected, alone);
            add_fused(isa, tile(), found, with_others, &mut others);

            assert_eq!(expected, found, "{isa:?}, width {width}");
            assert_eq!(totals, others.totals(), "{isa:?}, width {width}");
            for (alone, with_others) in alone.iter().zip(with_others) {
                assert_eq!(alone.products(), with_others.products(), "{isa:?}, width {width}");
            }
        }
    }

    #[test]
    fn rows_that_are_measured_while_others_are_added_have_the_bits_of_the_definition() {
        for width in [32, 33, 64, 100, 1025, 1040, 3000, 4096, 4097, 4160, 5121, 8200, 12_345] {
            check_fused_measure(|x| x as f32, width);
            check_fused_measure(|x| x, width);
        }
    }

    #[test]
    fn a_share_of_the_columns_gives_a_share_of_the_sums() {
        let (width, step) = (5000, [Step::Add { scale: 1.0, factor: 1e5 }; 2]);
        let data: Vec<f64> = (0..2 * width).map(|i| (i as f64).sin()).collect();
        let pieces = [Piece::plain(&data[..], width)];
        let tile = |columns| Tile { pieces: &pieces, first: 0, columns, steps: &step, next: 0 };
        let (mut whole, mut parts) = (vec![0; width], vec![0; width]);
        let mut certificates = [Certificate::default(), Certificate::default()];
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
                let steps = [Step::AddNear { factor: 1.0 }];

                let pieces = [Piece::plain(&data[..], 40)];
                let tile = Tile { pieces: &pieces, first: 0, columns: 0..40, steps: &steps, next: 0 };
                add(isa, tile, &mut [0; 40], &mut certificates);

                let certified = certificates[0].products() <= 2.0_f64.powi(61);
                assert!(!certified);
            }
        }
    }
}
