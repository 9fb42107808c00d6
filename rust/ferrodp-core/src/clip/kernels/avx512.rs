//! Integers by the conversion of AVX-512, one instruction in place of three: the compiler does not know that it may be used,
//! because what it gives beyond the range of integers is not what Rust gives.

use core::arch::x86_64::{__m512d, __m512i, _mm512_cvttpd_epi64};
use core::mem::transmute;

/// Returns whole eights of numbers, cut to integers; those beyond 64 bits become the least of all.
///
/// # Safety
/// AVX-512 F and DQ are enabled where this is inlined.
#[inline(always)]
pub(super) unsafe fn integers<const N: usize>(values: [f64; N]) -> [i64; N] {
    let mut integers = [0; N];
    for (integers, values) in integers.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<8>().0) {
        // mutant: integers-converted-are-rounded
        let values = *values;
        // SAFETY: eight numbers each, and the caller's promise.
        *integers = unsafe {
            let integers = _mm512_cvttpd_epi64(transmute::<[f64; 8], __m512d>(values));
            transmute::<__m512i, [i64; 8]>(integers)
        };
    }
    integers
}
