//! Eight doubles in two vectors, in the order in which 32-bit words unpack to 64 bits.
//!
//! Unpacking acts within 128 bits: out of eight words in natural order it makes the doubles of samples 0, 1, 4, 5 and
//! those of 2, 3, 6, 7. Values and words are moved into that order once, and results back.

use core::arch::x86_64::*;

/// The numbers of a group: samples 0, 1, 4, 5, then 2, 3, 6, 7.
pub(super) type Eight = [__m256d; 2];

/// The upper half of 2⁵², to which a 32-bit integer is joined as the lower.
pub(super) const INTEGER_HIGH_BITS: i32 = 0x4330_0000;
pub(super) const TWO_52: f64 = 4_503_599_627_370_496.0;
pub(super) const TWO_84: f64 = TWO_52 * 4_294_967_296.0;

/// Returns the doubles with these halves, which come in natural order.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn joined(low: __m256i, high: __m256i) -> Eight {
    [_mm256_castsi256_pd(_mm256_unpacklo_epi32(low, high)), _mm256_castsi256_pd(_mm256_unpackhi_epi32(low, high))]
}

/// Returns the upper halves in natural order.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn upper_halves(x: Eight) -> __m256i {
    _mm256_castps_si256(_mm256_shuffle_ps::<0xDD>(_mm256_castpd_ps(x[0]), _mm256_castpd_ps(x[1])))
}

/// Returns two vectors in natural order in that of [`Eight`], and back: it exchanges the inner quarters.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn reordered(x: [__m256d; 2]) -> [__m256d; 2] {
    [_mm256_permute2f128_pd::<0x20>(x[0], x[1]), _mm256_permute2f128_pd::<0x31>(x[0], x[1])]
}

/// The same for eight floats in one vector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn reordered_floats(x: __m256) -> __m256 {
    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(x)))
}

/// Loads eight doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn load_doubles(values: &[f64; 8]) -> Eight {
    // SAFETY: both loads stay inside the eight values.
    reordered(unsafe { [_mm256_loadu_pd(values.as_ptr()), _mm256_loadu_pd(values[4..].as_ptr())] })
}

/// Stores eight doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn store_doubles(values: &mut [f64; 8], x: Eight) {
    let [first, last] = reordered(x);
    // SAFETY: both stores stay inside the eight values.
    unsafe {
        _mm256_storeu_pd(values.as_mut_ptr(), first);
        _mm256_storeu_pd(values[4..].as_mut_ptr(), last);
    }
}

/// Loads eight floats.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn load_floats(values: &[f32; 8]) -> Eight {
    // SAFETY: the load stays inside the eight values.
    let x = reordered_floats(unsafe { _mm256_loadu_ps(values.as_ptr()) });
    [_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x))]
}

/// Stores eight doubles as floats.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn store_floats(values: &mut [f32; 8], x: Eight) {
    let x = _mm256_set_m128(_mm256_cvtpd_ps(x[1]), _mm256_cvtpd_ps(x[0]));
    // What is rounded to zero is a positive zero.
    let x = _mm256_add_ps(reordered_floats(x), _mm256_setzero_ps());
    // SAFETY: the store stays inside the eight values.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), x) };
}
