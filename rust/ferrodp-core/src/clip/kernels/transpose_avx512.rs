//! Panels transposed by shuffles of AVX-512: what the compiler makes of loops takes a fifth more, and of `f64` twice as long.

use core::arch::x86_64::{
    __m512, __m512d, _mm_loadu_ps, _mm256_maskz_loadu_pd, _mm512_castpd_ps, _mm512_castpd256_pd512, _mm512_castps_pd,
    _mm512_castps128_ps512, _mm512_insertf32x4, _mm512_insertf64x4, _mm512_maskz_loadu_pd, _mm512_setzero_pd,
    _mm512_shuffle_f64x2, _mm512_storeu_pd, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
    _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

/// Copies the columns of `ROWS` rows to `out`; calls `each` before so many columns, now and then.
///
/// # Safety
/// The CPU has AVX-512 F and VL. `ROWS` rows, a multiple of eight, of as many elements as `out` has can be read from `start` on, `pitch` apart.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl")]
pub(super) unsafe fn doubles<const ROWS: usize>(
    start: *const f64,
    pitch: isize,
    out: &mut [[f64; ROWS]],
    mut each: impl FnMut(usize),
) {
    for (block, out) in out.chunks_mut(8).enumerate() {
        each(out.len());
        let at = start.wrapping_add(8 * block);
        for first in (0..ROWS).step_by(8) {
            let row = |r: usize| at.wrapping_offset((first.wrapping_add(r) as isize).wrapping_mul(pitch));
            let transposed = if out.len() > 4 {
                let exist = u8::MAX >> (8 - out.len());
                // SAFETY: as many elements of a row as there are columns.
                let load = |r: usize| unsafe { _mm512_maskz_loadu_pd(exist, row(r)) };
                eight([load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)])
            } else {
                let exist = 0xf >> (4 - out.len());
                let load = |r: usize| {
                    // SAFETY: as above.
                    let (lower, upper) =
                        unsafe { (_mm256_maskz_loadu_pd(exist, row(r)), _mm256_maskz_loadu_pd(exist, row(r + 2))) };
                    _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(lower), upper)
                };
                four([load(0), load(1), load(4), load(5)])
            };
            for (column, transposed) in out.iter_mut().zip(transposed) {
                // SAFETY: eight rows of one column, of which there are whole eights.
                unsafe { _mm512_storeu_pd(column.as_mut_ptr().add(first), transposed) };
            }
        }
    }
}

/// Does the same with rows of four elements or more; of these, `ROWS` is a multiple of sixteen.
///
/// # Safety
/// The CPU has AVX-512 F. The elements can be read, as above.
#[inline(never)]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn singles<const ROWS: usize>(
    start: *const f32,
    pitch: isize,
    out: &mut [[f32; ROWS]],
    mut each: impl FnMut(usize),
) {
    let width = out.len();
    assert!(width >= 4 && ROWS.is_multiple_of(16), "four columns, and whole sixteens of rows");
    // The last four end with the last column.
    let last = width - 4;
    for block in (0..width).step_by(4) {
        if block % 8 == 0 {
            each(8);
        }
        let block = block.min(last);
        let at = start.wrapping_add(block);
        for first in (0..ROWS).step_by(16) {
            let row = |r: usize| at.wrapping_offset((first.wrapping_add(r) as isize).wrapping_mul(pitch));
            // SAFETY: four elements of a row.
            let load = |r: usize| unsafe { _mm_loadu_ps(row(r)) };
            let every_fourth = |r: usize| {
                let rows = _mm512_castps128_ps512(load(r));
                let rows = _mm512_insertf32x4::<1>(rows, load(r + 4));
                let rows = _mm512_insertf32x4::<2>(rows, load(r + 8));
                _mm512_insertf32x4::<3>(rows, load(r + 12))
            };
            let transposed = each_four([every_fourth(0), every_fourth(1), every_fourth(2), every_fourth(3)]);
            for (column, transposed) in out[block..].iter_mut().zip(transposed) {
                // SAFETY: sixteen rows of one column, of which there are whole sixteens.
                unsafe { _mm512_storeu_ps(column.as_mut_ptr().add(first), transposed) };
            }
        }
    }
}

/// Transposes four rows of four elements in each of four parts.
#[inline]
#[target_feature(enable = "avx512f")]
fn each_four([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    // Of two rows, columns 0 and 1, or 2 and 3; then one column of four.
    let pairs =
        [[_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d)], [_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d)]];
    let [[of_a, of_c], [later_a, later_c]] = pairs.map(|pairs| pairs.map(|pair| _mm512_castps_pd(pair)));
    [
        _mm512_unpacklo_pd(of_a, of_c),
        // mutant: columns-of-singles-transposed-by-shuffles-are-others
        _mm512_unpackhi_pd(of_a, of_c),
        _mm512_unpacklo_pd(later_a, later_c),
        _mm512_unpackhi_pd(later_a, later_c),
    ]
    .map(|column| _mm512_castpd_ps(column))
}

/// Transposes eight rows of eight elements.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight(rows: [__m512d; 8]) -> [__m512d; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // Pairs of rows: of each, columns 0, 2, 4 and 6, or the others; then columns 0 and 4, or 2 and 6, of four rows.
    let (a, b, c, d, e, f, g, h) = (
        _mm512_unpacklo_pd(a, b),
        _mm512_unpackhi_pd(a, b),
        _mm512_unpacklo_pd(c, d),
        _mm512_unpackhi_pd(c, d),
        _mm512_unpacklo_pd(e, f),
        _mm512_unpackhi_pd(e, f),
        _mm512_unpacklo_pd(g, h),
        _mm512_unpackhi_pd(g, h),
    );
    let (c04, c26) = (_mm512_shuffle_f64x2::<0x88>(a, c), _mm512_shuffle_f64x2::<0xdd>(a, c));
    let (c15, c37) = (_mm512_shuffle_f64x2::<0x88>(b, d), _mm512_shuffle_f64x2::<0xdd>(b, d));
    let (d04, d26) = (_mm512_shuffle_f64x2::<0x88>(e, g), _mm512_shuffle_f64x2::<0xdd>(e, g));
    let (d15, d37) = (_mm512_shuffle_f64x2::<0x88>(f, h), _mm512_shuffle_f64x2::<0xdd>(f, h));
    [
        _mm512_shuffle_f64x2::<0x88>(c04, d04),
        _mm512_shuffle_f64x2::<0x88>(c15, d15),
        _mm512_shuffle_f64x2::<0x88>(c26, d26),
        _mm512_shuffle_f64x2::<0x88>(c37, d37),
        // mutant: columns-transposed-by-shuffles-are-others
        _mm512_shuffle_f64x2::<0xdd>(c04, d04),
        _mm512_shuffle_f64x2::<0xdd>(c15, d15),
        _mm512_shuffle_f64x2::<0xdd>(c26, d26),
        _mm512_shuffle_f64x2::<0xdd>(c37, d37),
    ]
}

/// Transposes eight rows of four elements: 0 and 2, 1 and 3, 4 and 6, 5 and 7.
#[inline]
#[target_feature(enable = "avx512f")]
fn four(rows: [__m512d; 4]) -> [__m512d; 8] {
    let [a, b, c, d] = rows;
    let (even, odd) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    let (later_even, later_odd) = (_mm512_unpacklo_pd(c, d), _mm512_unpackhi_pd(c, d));
    let none = _mm512_setzero_pd();
    [
        _mm512_shuffle_f64x2::<0x88>(even, later_even),
        _mm512_shuffle_f64x2::<0x88>(odd, later_odd),
        _mm512_shuffle_f64x2::<0xdd>(even, later_even),
        _mm512_shuffle_f64x2::<0xdd>(odd, later_odd),
        none,
        none,
        none,
        none,
    ]
}
