//! Sums that cost nothing until they are added to.
//!
//! The system hands out large memory as pages that are made, zeroed, on first touch. Writing zeros there would touch every
//! page once more than needed, so zeros are requested of the allocator instead. A page of 4 KB each time costs more than all that
//! is then done with its 512 sums, so large pages are requested of the system where they fit wholly inside.

use core::alloc::Layout;
use std::alloc::alloc_zeroed;
use std::collections::TryReserveError;

/// Bytes of a large page, and the alignment it needs.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 1 << 21;

/// Returns `len` zeros.
///
/// # Errors
/// If there is no memory for them.
pub(super) fn zeros(len: usize) -> Result<Vec<i64>, TryReserveError> {
    if len > 0
        && let Ok(layout) = Layout::array::<i64>(len)
    {
        // SAFETY: the layout is not of size zero.
        let pointer = unsafe { alloc_zeroed(layout) }.cast::<i64>();
        if !pointer.is_null() {
            ask_for_large_pages(pointer, len);
            // SAFETY: the global allocator gave this pointer for the layout of `len` elements, which is that of a vector of
            // this capacity; all its bytes are zeros, so all elements are; nothing else has the pointer.
            return Ok(unsafe { Vec::from_raw_parts(pointer, len, len) });
        }
    }
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len)?; // says what is wrong, or has found room by now
    zeros.resize(len, 0);
    Ok(zeros)
}

/// Advises the system to use large pages inside these elements; it may or may not.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(pointer: *mut i64, len: usize) {
    let start = pointer.align_offset(LARGE_PAGE);
    let whole = len.saturating_sub(start) * size_of::<i64>() / LARGE_PAGE * LARGE_PAGE;
    if whole >= LARGE_PAGE {
        // SAFETY: the range lies within this allocation and consists of whole pages; the advice changes no content.
        let _ = unsafe { libc::madvise(pointer.wrapping_add(start).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: *mut i64, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_zeros_as_were_requested_can_be_written_and_grown() {
        for len in [0, 1, 7, 1000, 1 << 17, (1 << 20) + 3] {
            let mut sums = zeros(len).expect("memory");
            assert_eq!((len, true), (sums.len(), sums.iter().all(|k| *k == 0)));

            sums.iter_mut().zip(1..).for_each(|(sum, k)| *sum = k);
            sums.push(-1);
            assert_eq!((1..=len as i64).sum::<i64>() - 1, sums.iter().sum());
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(zeros(usize::MAX).is_err());
        assert!(zeros(usize::MAX / 16).is_err());
    }
}
