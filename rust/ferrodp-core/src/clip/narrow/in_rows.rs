//! Rows of single precision that are measured where they lie, with AVX-512: elements of a column need not be neighbors where no
//! row is near the bound.
//!
//! Each element is converted once: rows are copied as `f64` while they are measured, and added from there, which is in the nearest
//! cache. A row's sum of squares has the bits of [`super::super::measure`], for its lanes are the same, and are folded in
//! the same order; rows are only folded eight at a time. Sums of up to sixty-four columns are in registers while all rows of
//! a panel are added. Certificates are sums of squares of products in eight lanes: of [`MOST`] columns, fewer additions than
//! [`super::super::error_budget`] pays for.

#![allow(clippy::needless_range_loop, reason = "rows of a panel are numbered, and many vectors have a place for each")]

use core::arch::x86_64::{
    __m512d, __mmask8, _mm256_maskz_loadu_ps, _mm512_add_epi64, _mm512_add_pd, _mm512_cvtps_pd, _mm512_cvttpd_epi64,
    _mm512_fmadd_pd, _mm512_load_epi64, _mm512_load_pd, _mm512_mul_pd, _mm512_permutexvar_pd, _mm512_set1_pd,
    _mm512_setr_epi64, _mm512_setzero_epi32, _mm512_setzero_pd, _mm512_shuffle_f64x2, _mm512_store_epi64,
    _mm512_store_pd, _mm512_unpackhi_pd, _mm512_unpacklo_pd,
};

use super::super::across::{Aligned, LANES, Limits};
use super::super::columns::mask;
use super::super::coming::{ALL, Coming, UNCACHED};
use super::super::element::Element;
use super::super::rows::Strided;
use super::super::turn::{ROWS, Room, Turned};
use super::state::{Certified, State};
use crate::dispatch::{self, CACHE_LINE, Kernel, prefetch_second};
use crate::isa::Isa;

/// The least columns for which that pays, and the most: the nearest cache holds a panel of them and its copy.
const LEAST: usize = 16;
const MOST: usize = 112;

/// Numbers in a vector, and vectors that the lanes of a row are.
const EIGHT: usize = 8;
const VECTORS: usize = LANES / EIGHT;

/// Vectors of sums that are in registers.
const TOGETHER: usize = 8;

/// Rows that are measured before more of what comes is asked for.
const SOME: usize = 8;

/// Bytes beyond the next panel that are asked for, of rows from memory.
const AHEAD: usize = 4 << 10;

/// A panel that was not plain is followed by fewer than so many that are turned at once.
const MOST_PAUSED: usize = 16;

/// A vector for each row.
type Vectors = Aligned<[[f64; EIGHT]; ROWS]>;

/// A panel of rows as they were copied, and the sums of their columns.
pub(super) struct InRows {
    width: usize,
    /// Chunks that fill all lanes, and vectors of the last one, which has an element at least, and fills the last lanes.
    chunks: usize,
    last: usize,
    copy: Room<f64>,
    /// Lanes of rows while these are measured, then what certifies them.
    lanes: Vectors,
    sums: [Aligned<[i64; EIGHT]>; MOST / EIGHT],
    /// Bytes from a panel to what is asked for meanwhile, if anything is, and half of the bytes of a row.
    ahead: Option<isize>,
    half: usize,
    later: Halves,
    /// How many panels later one is measured in rows again, and what that was after the last one that was not plain.
    pause: usize,
    last_pause: usize,
}

/// Halves of rows, which are asked for one after the other.
#[derive(Clone, Copy)]
struct Halves {
    next: *const u8,
    /// Bytes to the other half, and from there to the next row, or the other way around.
    steps: [isize; 2],
}

impl Halves {
    /// Returns where the next one begins.
    #[inline(always)]
    fn take(&mut self) -> *const u8 {
        let [step, other] = self.steps;
        let next = self.next;
        *self = Self { next: next.wrapping_offset(step), steps: [other, step] };
        next
    }

    /// Returns those after so many rows.
    #[inline(always)]
    fn skip(self, rows: usize) -> Self {
        let [step, other] = self.steps;
        Self { next: self.next.wrapping_offset(step.wrapping_add(other).wrapping_mul(rows as isize)), ..self }
    }
}

/// Some rows of a panel that are copied.
#[derive(Clone, Copy)]
struct Copying {
    start: *const f32,
    pitch: isize,
    count: usize,
    copy: *mut f64,
    lanes: *mut [f64; EIGHT],
    /// What is asked for, and bytes from a line to the next.
    later: Halves,
    step: usize,
}

impl InRows {
    /// Whether elements are those that are measured in rows.
    #[inline(always)]
    pub(super) const fn takes<T: Element>() -> bool {
        // Types of four bytes are `f32`, the only one there is.
        size_of::<T>() == size_of::<f32>()
    }

    /// Returns room for rows of a leaf of so many columns, of which so many follow each other, if that pays.
    pub(super) fn of<T: Element>(leaf: &Strided<'_, T>, rows: usize, width: usize) -> Option<Self> {
        let lie_so = leaf.row != 1 && matches!(leaf.axes[..], [(_, 1)]);
        if !Self::takes::<T>() || !lie_so || !(LEAST..=MOST).contains(&width) {
            return None;
        }
        let chunks = (width - 1) / LANES;
        let last = (width - chunks * LANES).div_ceil(EIGHT);
        let bytes = width * size_of::<f32>();
        let pitch = leaf.row.wrapping_mul(size_of::<f32>() as isize);
        let half = (bytes / 2) as isize;
        let ahead = pitch.wrapping_mul((ROWS + AHEAD.div_ceil(bytes)) as isize);
        Some(Self {
            width,
            chunks,
            last,
            copy: Room::new((chunks * VECTORS + last) * EIGHT),
            lanes: Aligned([[0.0; EIGHT]; ROWS]),
            sums: [Aligned([0; EIGHT]); MOST / EIGHT],
            ahead: (rows * bytes >= UNCACHED).then_some(ahead),
            half: bytes / 2,
            later: Halves { next: core::ptr::null(), steps: [half, pitch.wrapping_sub(half)] },
            pause: 0,
            last_pause: 0,
        })
    }

    const fn vectors(&self) -> usize {
        self.chunks * VECTORS + self.last
    }

    /// Returns what the next panel is measured by, if in rows.
    #[inline(always)]
    pub(super) fn next(this: &mut Option<Self>) -> Option<&mut Self> {
        let this = this.as_mut()?;
        this.pause = this.pause.saturating_sub(1);
        (this.pause == 0).then_some(this)
    }

    /// Copies a panel of rows, which begin at `start` and every `pitch` elements from there; returns their sums of squares. What is
    /// `coming` is asked for meanwhile.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, DQ and VL, and the rows can be read.
    #[inline(always)]
    unsafe fn copy(&mut self, start: *const f32, pitch: isize, coming: &mut Coming) -> Aligned<Turned<f64>> {
        let (chunks, last, vectors) = (self.chunks, self.last, self.vectors());
        let missing = LANES - (self.width - chunks * LANES);
        self.later.next = start.cast::<u8>().wrapping_offset(self.ahead.unwrap_or(0));
        let copy = self.copy.columns().as_mut_ptr().cast::<f64>();
        let count = if coming.is_nothing() { ROWS } else { SOME };
        for first in (0..ROWS).step_by(count) {
            coming.ask(self.width, ALL / 2 / (ROWS / SOME));
            let some = Copying {
                start: start.wrapping_offset(pitch.wrapping_mul(first as isize)),
                pitch,
                count,
                copy: copy.wrapping_add(first * vectors * EIGHT),
                lanes: self.lanes.0[first..first + count].as_mut_ptr(),
                later: self.later.skip(first / 2),
                step: self.half / (chunks + 1),
            };
            // SAFETY: the caller's promise, and room for as many rows.
            unsafe {
                if self.ahead.is_none() {
                    some.copy::<false>(chunks, last, missing);
                } else {
                    some.copy::<true>(chunks, last, missing);
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { fold(&self.lanes) }
    }

    /// Adds the integers of copied elements times factors of rows to the sums of their columns; returns what certifies each row.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn add(&mut self, factors: &Turned<f64>, coming: &mut Coming) -> Aligned<Turned<f64>> {
        let vectors = self.vectors();
        let blocks = vectors.div_ceil(TOGETHER);
        // Half of the rows were asked for while these were copied.
        let later = self.later.skip(ROWS / 2);
        let copy = self.copy.columns().as_ptr().cast::<f64>();
        for block in 0..blocks {
            let first = block * TOGETHER;
            let count = TOGETHER.min(vectors - first);
            coming.ask(count * EIGHT, ALL / 2);
            let some = Copied {
                rows: copy.wrapping_add(first * EIGHT),
                pitch: vectors * EIGHT,
                factors,
                sums: &mut self.sums[first..first + count],
                products: &mut self.lanes,
                is_first: block == 0,
                later: Halves { next: later.next.wrapping_add(self.half / blocks * block), ..later },
            };
            // SAFETY: the caller's promise, of as many vectors.
            unsafe {
                if self.ahead.is_none() {
                    some.add::<false>();
                } else {
                    some.add::<true>();
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { fold(&self.lanes) }
    }

    /// Adds the sums of columns to `sums`.
    pub(super) fn finish(&self, sums: &mut [i64]) {
        let whole = self.chunks * LANES;
        let missing = self.last * EIGHT - (self.width - whole);
        let found = self.sums.iter().flat_map(|sums| sums.0).enumerate();
        // mutant: sums-of-rows-where-they-lie-shifted
        let found = found.filter(|(i, _)| *i < whole || *i >= whole + missing);
        for (sum, (_, found)) in sums.iter_mut().zip(found) {
            *sum = sum.wrapping_add(found);
        }
    }
}

/// A panel of rows that are added where they lie.
pub(super) struct Add<'a> {
    pub(super) in_rows: &'a mut InRows,
    pub(super) limits: &'a Limits,
    pub(super) certified: Certified,
    pub(super) state: &'a mut State,
    pub(super) coming: &'a mut Coming,
}

impl Add<'_> {
    /// Adds the rows of a leaf from row `first` on, as they are read once, unless one of them is near the bound or not finite;
    /// returns whether it did. The more panels after each other are not added, the more are not looked at.
    ///
    /// # Safety
    /// The leaf is the one of [`InRows::of`], and has these rows.
    pub(super) unsafe fn run<T: Element>(self, isa: Isa, leaf: &Strided<'_, T>, first: usize) -> bool {
        assert!(InRows::takes::<T>(), "rows of single precision");
        let start = leaf.start.wrapping_offset((first as isize).wrapping_mul(leaf.row)).cast();
        dispatch::run_native(isa, Rows { add: self, start, pitch: leaf.row })
    }
}

/// The same, given where rows begin.
struct Rows<'a> {
    add: Add<'a>,
    start: *const f32,
    pitch: isize,
}

impl Kernel for Rows<'_> {
    type Output = bool;

    fn run<const NATIVE: bool>(self) -> bool {
        unreachable!("rows are measured where they lie with AVX-512 alone")
    }

    #[inline(always)]
    fn run_512(self) -> bool {
        let Self { add: Add { in_rows, limits, certified, state, coming }, start, pitch } = self;
        // SAFETY: the CPU has AVX-512, and by the promise of `Add::run` these are rows.
        let totals = unsafe { in_rows.copy(start, pitch, coming) };
        let decided = limits.decide(&totals.0, &[u64::MAX; ROWS]);
        // Zeros count: they are added as such, whatever they are multiplied by.
        let mut are_plain = u64::MAX;
        for r in 0..ROWS {
            // mutant: rows-where-they-lie-taken-for-plain
            are_plain &= mask(totals.0[r] <= limits.finite) & !decided.open[r];
        }
        let is_plain = are_plain == u64::MAX;
        in_rows.last_pause = if is_plain { 0 } else { (2 * in_rows.last_pause).clamp(1, MOST_PAUSED) };
        in_rows.pause = in_rows.last_pause;
        if !is_plain {
            return false;
        }
        // SAFETY: as above.
        let products = unsafe { in_rows.add(&decided.factors, coming) };
        for r in 0..ROWS {
            state.within[r] = state.within[r].wrapping_sub(decided.clear[r]);
            state.certified[r] &= mask(products.0[r] <= certified.products);
        }
        true
    }
}

impl Copying {
    /// Copies rows, and leaves eight lanes of each: of so many whole chunks, and of one of so many vectors, the first elements of
    /// which are missing.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, DQ and VL; the rows can be read, and there is room for them.
    #[inline(always)]
    unsafe fn copy<const ASKS: bool>(self, chunks: usize, last: usize, missing: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match last {
                1 => self.copy_of::<ASKS, 1>(chunks, missing),
                2 => self.copy_of::<ASKS, 2>(chunks, missing),
                3 => self.copy_of::<ASKS, 3>(chunks, missing),
                _ => self.copy_of::<ASKS, 4>(chunks, missing),
            }
        }
    }

    /// # Safety
    /// As above.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn copy_of<const ASKS: bool, const LAST: usize>(self, chunks: usize, missing: usize) {
        let Self { mut start, pitch, count, mut copy, lanes, mut later, step } = self;
        // Of the first vector that has any.
        let exist = ((u32::MAX << missing) >> (EIGHT * (VECTORS - LAST))) as u8;
        for r in 0..count {
            let [mut a, mut b, mut c, mut d] = [_mm512_setzero_pd(); VECTORS];
            let (mut at, mut ask) = (start, if ASKS { later.take() } else { later.next });
            // SAFETY: elements of the row, in all of these, but for those that do not exist, and room for them.
            unsafe {
                for _ in 0..chunks {
                    a = square(u8::MAX, at, copy, a);
                    b = square(u8::MAX, at.wrapping_add(EIGHT), copy.wrapping_add(EIGHT), b);
                    c = square(u8::MAX, at.wrapping_add(2 * EIGHT), copy.wrapping_add(2 * EIGHT), c);
                    d = square(u8::MAX, at.wrapping_add(3 * EIGHT), copy.wrapping_add(3 * EIGHT), d);
                    if ASKS {
                        prefetch_second(ask);
                        ask = ask.wrapping_add(step);
                    }
                    (at, copy) = (at.wrapping_add(LANES), copy.wrapping_add(LANES));
                }
                let (at, to) = (at.wrapping_sub(missing), copy.wrapping_sub(EIGHT * (VECTORS - LAST)));
                let exist = |i: usize| if i == VECTORS - LAST { exist } else { u8::MAX };
                if LAST > 3 {
                    a = square(exist(0), at, to, a);
                }
                if LAST > 2 {
                    b = square(exist(1), at.wrapping_add(EIGHT), to.wrapping_add(EIGHT), b);
                }
                if LAST > 1 {
                    c = square(exist(2), at.wrapping_add(2 * EIGHT), to.wrapping_add(2 * EIGHT), c);
                }
                d = square(exist(3), at.wrapping_add(3 * EIGHT), to.wrapping_add(3 * EIGHT), d);
                if ASKS {
                    prefetch_second(ask);
                }
                let sum = _mm512_add_pd(_mm512_add_pd(a, c), _mm512_add_pd(b, d));
                _mm512_store_pd(lanes.wrapping_add(r).cast(), sum);
            }
            (start, copy) = (start.wrapping_offset(pitch), copy.wrapping_add(LAST * EIGHT));
        }
    }
}

/// Some columns of rows that were copied, in whole vectors.
struct Copied<'a> {
    /// Where the first row begins, and numbers from one to the next.
    rows: *const f64,
    pitch: usize,
    factors: &'a Turned<f64>,
    sums: &'a mut [Aligned<[i64; EIGHT]>],
    products: &'a mut Vectors,
    /// Whether these columns are the first, and nothing is in `products` yet.
    is_first: bool,
    later: Halves,
}

impl Copied<'_> {
    /// Adds them.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and DQ; the rows can be read.
    #[inline(always)]
    unsafe fn add<const ASKS: bool>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.sums.len() {
                1 => self.add_of::<ASKS, 1>(),
                2 => self.add_of::<ASKS, 2>(),
                3 => self.add_of::<ASKS, 3>(),
                4 => self.add_of::<ASKS, 4>(),
                5 => self.add_of::<ASKS, 5>(),
                6 => self.add_of::<ASKS, 6>(),
                7 => self.add_of::<ASKS, 7>(),
                _ => self.add_of::<ASKS, TOGETHER>(),
            }
        }
    }

    /// # Safety
    /// As above.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn add_of<const ASKS: bool, const COUNT: usize>(self) {
        let Self { mut rows, pitch, factors, sums, products, is_first, mut later } = self;
        assert!(sums.len() == COUNT, "so many vectors");
        let sums = sums.as_mut_ptr();
        let mut totals = [_mm512_setzero_epi32(); COUNT];
        // SAFETY: as many sums, and vectors of numbers, in all of these.
        unsafe {
            for i in 0..COUNT {
                totals[i] = _mm512_load_epi64(sums.wrapping_add(i).cast());
            }
            for (factor, products) in factors.iter().zip(&mut products.0) {
                if ASKS {
                    // Half of so many columns are two lines at most.
                    let ask = later.take();
                    prefetch_second(ask);
                    prefetch_second(ask.wrapping_add(CACHE_LINE));
                }
                let factor = _mm512_set1_pd(*factor);
                let mut squares = if is_first { _mm512_setzero_pd() } else { _mm512_load_pd(products.as_ptr()) };
                for i in 0..COUNT {
                    let product = _mm512_mul_pd(_mm512_load_pd(rows.wrapping_add(EIGHT * i)), factor);
                    squares = _mm512_fmadd_pd(product, product, squares);
                    totals[i] = _mm512_add_epi64(totals[i], _mm512_cvttpd_epi64(product));
                }
                _mm512_store_pd(products.as_mut_ptr(), squares);
                rows = rows.wrapping_add(pitch);
            }
            for i in 0..COUNT {
                _mm512_store_epi64(sums.wrapping_add(i).cast(), totals[i]);
            }
        }
    }
}

/// Copies eight elements, zeros where none exist, and adds their squares.
///
/// # Safety
/// The CPU has AVX-512 F and VL; those that exist can be read, and there is room for all.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn square(exist: __mmask8, at: *const f32, copy: *mut f64, sums: __m512d) -> __m512d {
    // SAFETY: the caller's promise.
    let x = unsafe {
        let x = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(exist, at));
        _mm512_store_pd(copy, x);
        x
    };
    _mm512_fmadd_pd(x, x, sums)
}

/// Adds the upper half of the lanes of each row to the lower one until one is left, eight rows at a time.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn fold(lanes: &Vectors) -> Aligned<Turned<f64>> {
    let mut sums = Aligned([0.0; ROWS]);
    for (lanes, sums) in lanes.0.as_chunks::<EIGHT>().0.iter().zip(sums.0.as_chunks_mut::<EIGHT>().0) {
        // SAFETY: eight numbers, which begin with a cache line.
        let row = |r: usize| unsafe { _mm512_load_pd(lanes[r].as_ptr()) };
        let halves = |a: __m512d, b: __m512d| {
            _mm512_add_pd(_mm512_shuffle_f64x2::<0x44>(a, b), _mm512_shuffle_f64x2::<0xee>(a, b))
        };
        let quarters = |a: __m512d, b: __m512d| {
            _mm512_add_pd(_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xdd>(a, b))
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(|r| halves(row(r), row(r + 4)));
        // Of rows 0, 4, 2 and 6, and of those after them.
        let (even, odd) = (quarters(a, c), quarters(b, d));
        let sum = _mm512_add_pd(_mm512_unpacklo_pd(even, odd), _mm512_unpackhi_pd(even, odd));
        // mutant: squares-of-rows-where-they-lie-are-of-others
        let in_order = _mm512_setr_epi64(0, 1, 4, 5, 2, 3, 6, 7);
        // SAFETY: as above.
        unsafe { _mm512_store_pd(sums.as_mut_ptr(), _mm512_permutexvar_pd(in_order, sum)) };
    }
    sums
}
