//! Elements from anywhere in memory, copied as they are to where they lie one after the other.
//!
//! Only elements are read, never what lies between them. They need not be aligned, and are not looked at: what they mean is
//! for [`super::foreign`].

use super::element::Word;
use super::turn::FOUR;
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;

/// What longer lines are copied in.
type Piece = [u64; 8];

/// Returns how many words of `size` bytes it is from one to the next, `step` bytes away, if many of these are copied at once, or 0.
/// Of a stride that it knows, the compiler makes loads of many words and shuffles.
fn words_apart(isa: Isa, step: isize, size: usize) -> isize {
    let known: &[isize] = if isa.is_native() { &[1, -1, 2, -2] } else { &[1] };
    known.iter().copied().find(|words| words * size as isize == step).unwrap_or(0)
}

/// Whether words of `size` bytes, `step` bytes from each to the next, are copied many at once.
pub(super) fn copies_many(isa: Isa, step: isize, size: usize) -> bool {
    words_apart(isa, step, size) != 0
}

/// Lines of words: where they are read, and where they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<W> {
    pub(super) from: *const u8,
    pub(super) to: *mut W,
    /// From a line to the next, bytes where they are read and words where they go.
    pub(super) line: [isize; 2],
    /// Bytes from a word to the next. They go one after the other.
    pub(super) step: isize,
    pub(super) count: usize,
    pub(super) len: usize,
}

impl<W> Lines<W> {
    /// Returns these lines, where they go taken for words of another type.
    pub(super) fn cast<V>(self) -> Lines<V> {
        debug_assert_eq!(size_of::<V>(), size_of::<W>(), "words of one size");
        let Self { from, to, line, step, count, len } = self;
        Lines { from, to: to.cast(), line, step, count, len }
    }

    /// Returns as one line what is one, both where it is read and where it goes.
    pub(super) fn joined(self) -> Self {
        let [from, to] = self.line;
        let follows = from == self.step.wrapping_mul(self.len as isize) && to == self.len as isize;
        if follows { Self { count: self.count.min(1), len: self.count * self.len, ..self } } else { self }
    }
}

/// Sizes of words that [`join`] copies; a CPU writes fewer times in a cycle than it reads.
const JOINS: &[usize] = if cfg!(target_arch = "x86_64") { &[4, 8] } else { &[] };

/// Copies four words of one of these sizes from anywhere to where they follow each other, with fewer writes than words.
///
/// # Safety
/// They can be read, and there is room for them. Neither need be aligned.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "no word is of these sizes"))]
unsafe fn join<W>(from: [*const u8; FOUR], to: *mut W) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_loadl_epi64, _mm_loadu_si32, _mm_storeu_si128, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
        };
        // SAFETY: the caller's promise, and all CPUs of this kind have these instructions.
        unsafe {
            if size_of::<W>() == 8 {
                let [a, b, c, d] = from.map(|word| _mm_loadl_epi64(word.cast()));
                _mm_storeu_si128(to.cast(), _mm_unpacklo_epi64(a, b));
                _mm_storeu_si128(to.add(2).cast(), _mm_unpacklo_epi64(c, d));
            } else {
                let [a, b, c, d] = from.map(|word| _mm_loadu_si32(word));
                let (low, high) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
                _mm_storeu_si128(to.cast(), _mm_unpacklo_epi64(low, high));
            }
        }
    }
}

/// Copies lines whose words are so many words apart: it is made only of such as can be copied so.
struct CopyBy<W, const STEP: isize>(Lines<W>);

impl<W: Word, const STEP: isize> Kernel for CopyBy<W, STEP> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        // SAFETY: the maker's promise.
        unsafe { self.0.copy_by::<STEP>() }
    }
}

impl<W: Word> Lines<W> {
    /// Copies all words.
    ///
    /// # Safety
    /// All of them can be read, and there is room for them, which is none of what is read.
    pub(super) unsafe fn copy(self, isa: Isa) {
        let joined = self.joined();
        // SAFETY: the caller's promise, in all of these.
        unsafe {
            match words_apart(isa, joined.step, size_of::<W>()) {
                1 => joined.copy_runs(),
                -1 => dispatch::run_256(isa, CopyBy::<W, -1>(joined)),
                2 => dispatch::run_256(isa, CopyBy::<W, 2>(joined)),
                -2 => dispatch::run_256(isa, CopyBy::<W, -2>(joined)),
                _ => joined.copy_by::<0>(),
            }
        }
    }

    /// Copies lines whose words are `STEP` words apart, or as far as is said where that is 0.
    ///
    /// # Safety
    /// As for [`Lines::copy`].
    #[inline(always)]
    unsafe fn copy_by<const STEP: isize>(self) {
        let Self { mut from, mut to, line, step, count, len } = self;
        let step = if STEP == 0 { step } else { STEP * size_of::<W>() as isize };
        for _ in 0..count {
            let word = |i: usize| from.wrapping_offset(step.wrapping_mul(i as isize));
            let fours = if STEP == 0 && JOINS.contains(&size_of::<W>()) { len / FOUR * FOUR } else { 0 };
            for i in (0..fours).step_by(FOUR) {
                // SAFETY: the caller's promise.
                unsafe { join([word(i), word(i + 1), word(i + 2), word(i + 3)], to.add(i)) };
            }
            for i in fours..len {
                // SAFETY: the caller's promise.
                unsafe { *to.add(i) = word(i).cast::<W>().read_unaligned() };
            }
            (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(line[1]));
        }
    }

    /// Copies lines whose words are read one after the other: short ones in two pieces of one size, which may overlap.
    ///
    /// # Safety
    /// As for [`Lines::copy`].
    unsafe fn copy_runs(self) {
        let bytes = self.len * size_of::<W>();
        // SAFETY: the caller's promise; pieces are within a line.
        unsafe {
            match bytes {
                0 => {}
                2 => self.copy_ends::<u16>(bytes),
                4 => self.copy_ends::<u32>(bytes),
                8 => self.copy_ends::<u64>(bytes),
                3..8 => self.copy_ends::<[u16; 2]>(bytes),
                9..16 => self.copy_ends::<[u32; 2]>(bytes),
                16..=32 => self.copy_ends::<[u64; 2]>(bytes),
                33..=64 => self.copy_ends::<[u64; 4]>(bytes),
                _ => self.copy_pieces(bytes),
            }
        }
    }

    /// Copies the first and the last bytes of each line, as many as a `P` has.
    ///
    /// # Safety
    /// As for [`Lines::copy`]; lines have as many bytes, and at most twice as many.
    unsafe fn copy_ends<P: Copy>(self, bytes: usize) {
        let Self { mut from, to, line, count, .. } = self;
        let (mut to, last) = (to.cast::<u8>(), bytes - size_of::<P>());
        let down = line[1].wrapping_mul(size_of::<W>() as isize);
        for _ in 0..count {
            // SAFETY: the caller's promise.
            unsafe {
                let first = from.cast::<P>().read_unaligned();
                if last > 0 {
                    to.add(last).cast::<P>().write_unaligned(from.add(last).cast::<P>().read_unaligned());
                }
                to.cast::<P>().write_unaligned(first);
            }
            (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(down));
        }
    }

    /// Copies each line in pieces, the last of which may overlap the one before. A call for each line takes longer, most
    /// of all where the C library has string instructions copy what is not aligned.
    ///
    /// # Safety
    /// As for [`Lines::copy`]; lines have as many bytes, and at least as many as a piece.
    unsafe fn copy_pieces(self, bytes: usize) {
        let Self { mut from, to, line, count, .. } = self;
        let (mut to, last) = (to.cast::<u8>(), bytes - size_of::<Piece>());
        let down = line[1].wrapping_mul(size_of::<W>() as isize);
        for _ in 0..count {
            for first in (0..last).step_by(size_of::<Piece>()).chain([last]) {
                // SAFETY: the caller's promise.
                unsafe {
                    let piece = from.add(first).cast::<Piece>().read_unaligned();
                    to.add(first).cast::<Piece>().write_unaligned(piece);
                }
            }
            (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(down));
        }
    }
}
