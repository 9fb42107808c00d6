//! Integers by the conversion of AVX-512, one instruction in place of three: the compiler does not know that it may be used,
//! because what it gives beyond the range of integers is not what Rust gives.

use core::arch::x86_64::{__m512d, __m512i, _mm512_cvttpd_epi64};

use super::{Integers, LANES};

/// By an instruction that cuts numbers to integers; those beyond 64 bits become the least of all.
pub(super) struct Converted;

impl Integers for Converted {
    const NATIVE: bool = true;

    #[inline(always)]
    fn of(values: [f64; LANES]) -> [i64; LANES] {
        // SAFETY: arrays of the same size, of types that have a value for all bits.
        let values: [__m512d; 2] = unsafe { core::mem::transmute(values) };
        // SAFETY: this is used only where AVX-512 F and DQ are enabled.
        let integers: [__m512i; 2] = values.map(|v| unsafe { _mm512_cvttpd_epi64(v) });
        // SAFETY: as above.
        unsafe { core::mem::transmute(integers) }
    }
}
