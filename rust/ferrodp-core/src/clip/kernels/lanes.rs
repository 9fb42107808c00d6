//! What kernels share: elements in the lanes of vectors, masks, and the order in which lanes are folded.

use crate::clip::source::element::Element;

/// The most lanes of a chunk.
pub(in crate::clip) const MAX_LANES: usize = 32;

/// Returns all bits for yes, none for no. Loops over these and numbers become vectors, over `bool` not.
#[inline(always)]
pub(in crate::clip) const fn mask(yes: bool) -> u64 {
    0_u64.wrapping_sub(yes as u64)
}

/// What begins with a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(in crate::clip) struct Aligned<T>(pub(in crate::clip) T);

/// Zeros, then ones: a window that begins at `n` selects the last `n` of up to 32 lanes.
const TAIL_MASKS: [u64; 2 * MAX_LANES] = {
    let mut masks = [0; 2 * MAX_LANES];
    let mut i = MAX_LANES;
    while i < 2 * MAX_LANES {
        masks[i] = u64::MAX;
        i += 1;
    }
    masks
};

/// Copies the last `len` elements of `data` to the last places. Never inlined: few rows need it, and it is the same on every CPU.
#[inline(never)]
pub(in crate::clip) fn put_last<T: Copy, const N: usize>(data: &[T], len: usize, to: &mut [T; N]) {
    to[N - len..].copy_from_slice(&data[data.len() - len..]);
}

/// Elements to be computed with, one in a lane; some may be masked.
#[derive(Clone, Copy)]
pub(in crate::clip) struct Chunk<'a, T, const N: usize, const MASKED: bool> {
    elements: &'a [T; N],
    mask: &'a [u64; N],
}

impl<'a, T: Element, const N: usize> Chunk<'a, T, N, false> {
    /// All of these elements.
    #[inline(always)]
    pub(in crate::clip) fn all(elements: &'a [T; N]) -> Self {
        Self { elements, mask: const { &[u64::MAX; N] } }
    }
}

impl<'a, T: Element, const N: usize> Chunk<'a, T, N, true> {
    /// The last `len` elements of `data`, at most `N` of them, in the last lanes, and zeros before them.
    ///
    /// Where there are `N` elements, if only of the row before, this is one load and a mask, without the detour of short
    /// elements through memory, for which there is `spare`.
    #[inline(always)]
    pub(in crate::clip) fn last(data: &'a [T], len: usize, spare: &'a mut [T; N]) -> Self {
        if data.len() >= N {
            return Self::last_of_many(data, len);
        }
        put_last(data, len, spare);
        Self::last_of_many(spare, len)
    }

    /// The same where there are `N` elements: nothing that is in registers has to leave them for a copy that is never made.
    #[inline(always)]
    pub(in crate::clip) fn last_of_many(data: &'a [T], len: usize) -> Self {
        // mutant: lanes-of-last-chunk-forgotten
        let mask = TAIL_MASKS[MAX_LANES - N + len..].first_chunk().expect("a window of at most all lanes");
        Self { elements: data.last_chunk().expect("there are so many"), mask }
    }
}

impl<T: Element, const N: usize, const MASKED: bool> Chunk<'_, T, N, MASKED> {
    /// Returns the element of a lane; zero if it is masked.
    #[inline(always)]
    pub(in crate::clip) fn lane(&self, i: usize) -> f64 {
        let x = self.elements[i].widen();
        if MASKED { f64::from_bits(x.to_bits() & self.mask[i]) } else { x }
    }
}

/// Returns the sum of all lanes, upper half onto lower half until one is left.
#[inline(always)]
pub(in crate::clip) fn fold_in_halves<const N: usize>(mut sums: [f64; N]) -> f64 {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}
