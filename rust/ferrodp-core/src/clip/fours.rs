//! Columns of four rows, whose elements are neighbors, written as rows.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_shuffle_epi8, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
    _mm_unpacklo_epi32, _mm_unpacklo_epi64, _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_shuffle_epi8,
    _mm256_storeu_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
};

use super::convert::order;
use super::element::Element;
use super::turn::FOUR;

/// So many columns of four numbers, `stride` bytes apart, and where the rows begin that they become.
#[derive(Clone, Copy)]
pub(super) struct Fours<T> {
    pub(super) from: *const u8,
    pub(super) stride: isize,
    pub(super) columns: usize,
    pub(super) rows: [*mut T; FOUR],
}

impl<T: Element> Fours<T> {
    fn column(&self, column: usize) -> *const u8 {
        self.from.wrapping_offset(self.stride.wrapping_mul(column as isize))
    }

    /// Writes the rows, the bytes of whose elements are in the other order if that is said.
    ///
    /// # Safety
    /// The CPU has AVX2, the columns can be read, and there is room for the rows. Elements need not be aligned.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn turn(self, swapped: bool) {
        // SAFETY: the caller's promise, and types have four bytes, or eight.
        unsafe {
            if size_of::<T>() == 8 {
                self.eights(if swapped { const { &order(8) } } else { const { &order(1) } });
            } else {
                self.quads(if swapped { const { &order(4) } } else { const { &order(1) } });
            }
        }
        for column in self.columns / FOUR * FOUR..self.columns {
            // SAFETY: the caller's promise.
            unsafe {
                let elements = self.column(column).cast::<[T; FOUR]>().read_unaligned();
                for (row, x) in self.rows.into_iter().zip(elements) {
                    *row.add(column) = if swapped { x.swapped() } else { x };
                }
            }
        }
    }

    /// Four columns at a time, of elements of eight bytes.
    ///
    /// # Safety
    /// As for [`Fours::turn`].
    #[target_feature(enable = "avx2")]
    unsafe fn eights(self, order: &[u8; 32]) {
        // SAFETY: the caller's promise, in all of these.
        unsafe {
            let order = _mm256_loadu_si256(order.as_ptr().cast());
            for first in (0..self.columns / FOUR * FOUR).step_by(FOUR) {
                let column = |i: usize| _mm256_shuffle_epi8(_mm256_loadu_si256(self.column(first + i).cast()), order);
                let [a, b, c, d] = [column(0), column(1), column(2), column(3)];
                let even = [_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d)];
                let odd = [_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d)];
                let store = |row: usize, x: __m256i| _mm256_storeu_si256(self.rows[row].add(first).cast(), x);
                store(0, _mm256_permute2x128_si256::<0x20>(even[0], even[1]));
                store(1, _mm256_permute2x128_si256::<0x20>(odd[0], odd[1]));
                // mutant: third-of-four-rows-is-the-first
                store(2, _mm256_permute2x128_si256::<0x31>(even[0], even[1]));
                store(3, _mm256_permute2x128_si256::<0x31>(odd[0], odd[1]));
            }
        }
    }

    /// The same of elements of four bytes.
    ///
    /// # Safety
    /// As for [`Fours::turn`].
    #[target_feature(enable = "avx2")]
    unsafe fn quads(self, order: &[u8; 32]) {
        // SAFETY: the caller's promise, in all of these.
        unsafe {
            let order = _mm_loadu_si128(order.as_ptr().cast());
            for first in (0..self.columns / FOUR * FOUR).step_by(FOUR) {
                let column = |i: usize| _mm_shuffle_epi8(_mm_loadu_si128(self.column(first + i).cast()), order);
                let [a, b, c, d] = [column(0), column(1), column(2), column(3)];
                let low = [_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d)];
                let high = [_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d)];
                let store = |row: usize, x: __m128i| _mm_storeu_si128(self.rows[row].add(first).cast(), x);
                store(0, _mm_unpacklo_epi64(low[0], low[1]));
                store(1, _mm_unpackhi_epi64(low[0], low[1]));
                store(2, _mm_unpacklo_epi64(high[0], high[1]));
                store(3, _mm_unpackhi_epi64(high[0], high[1]));
            }
        }
    }
}
