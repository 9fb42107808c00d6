//! Elements that no kernel reads as they are, of 16 bits or in the other byte order, written as numbers that kernels read.

use core::mem::MaybeUninit;

use super::element::{Brain, Element, Form, Half};
use super::gather::Lines;
use super::turn::FOUR;
use crate::isa::Isa;

/// Bytes of numbers that are converted from where elements are read, if so many of these follow each other, or four of two bytes each.
/// Other elements are copied first, up to so many.
const RUN: usize = 32;
const COPIED: usize = 1 << 11;

/// Writes the numbers of these lines, of that form, in this machine's order of bytes or in the other.
///
/// # Safety
/// All these elements can be read, there is room for their numbers, which is none of what is read, and `T` has the numbers of the
/// form.
pub(super) unsafe fn write<T: Element>(isa: Isa, form: Form, swapped: bool, lines: Lines<T>) {
    // SAFETY: the caller's promise, in all of these.
    unsafe {
        match (form, swapped) {
            (form, false) if form == T::FORM => lines.cast::<T::Word>().copy(isa),
            (Form::Half, false) => convert::<Half, false>(isa, lines.cast()),
            (Form::Half, true) => convert::<Half, true>(isa, lines.cast()),
            (Form::Brain, false) => convert::<Brain, false>(isa, lines.cast()),
            (Form::Brain, true) => convert::<Brain, true>(isa, lines.cast()),
            (Form::Single, _) => convert::<f32, true>(isa, lines.cast()),
            (Form::Double, _) => convert::<f64, true>(isa, lines.cast()),
        }
    }
}

/// A type whose elements are read from bytes.
trait Bits: Element {
    /// Its bytes.
    type Bytes: Copy;

    /// Returns the element with these bytes, in this machine's order or in the other.
    fn of<const SWAPPED: bool>(bytes: Self::Bytes) -> Self;

    /// Writes the numbers of elements that follow each other, line by line, by instructions for several at once; `false`, and nothing
    /// is written, if this CPU has none.
    ///
    /// They are those that [`Element::whole`] gives, but for the digits of what is no number.
    ///
    /// # Safety
    /// As for [`write`].
    unsafe fn by_instructions<const SWAPPED: bool>(isa: Isa, lines: Lines<Self::Whole>) -> bool;
}

macro_rules! bits {
    ($element:ty, $word:ty, $of:expr, $instructions:ident $(, $type:ty)?) => {
        impl Bits for $element {
            type Bytes = [u8; size_of::<$word>()];

            #[inline(always)]
            fn of<const SWAPPED: bool>(bytes: Self::Bytes) -> Self {
                let bits = <$word>::from_ne_bytes(bytes);
                // mutant: elements-in-other-byte-order-read-as-they-are
                $of(if SWAPPED { bits.swap_bytes() } else { bits })
            }

            #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "the compiler does as well"))]
            unsafe fn by_instructions<const SWAPPED: bool>(isa: Isa, lines: Lines<Self::Whole>) -> bool {
                #[cfg(target_arch = "x86_64")]
                if isa != Isa::PORTABLE && std::arch::is_x86_feature_detected!("f16c") {
                    // SAFETY: the CPU has the instructions; the caller's promise.
                    unsafe { x86::$instructions::<$($type,)? SWAPPED>(lines) };
                    return true;
                }
                false
            }
        }
    };
}

bits!(Half, u16, Half, halves);
bits!(Brain, u16, Brain, brains);
bits!(f32, u32, Self::from_bits, numbers, f32);
bits!(f64, u64, Self::from_bits, numbers, f64);

/// Writes the numbers of elements of that type, in the other order of bytes if that is said.
///
/// # Safety
/// As for [`write`].
unsafe fn convert<E: Bits, const SWAPPED: bool>(isa: Isa, lines: Lines<E::Whole>) {
    let size = size_of::<E>() as isize;
    let joined = lines.joined();
    let is_run = joined.len * size_of::<E::Whole>() >= RUN || (joined.len == FOUR && size == 2);
    if joined.step == size && (joined.count <= 1 || is_run) {
        // SAFETY: the caller's promise.
        return unsafe { convert_runs::<E, SWAPPED>(isa, joined) };
    }
    let mut room = [MaybeUninit::<E::Word>::uninit(); COPIED];
    let place = room.as_mut_ptr().cast::<E::Word>();
    let columns = lines.len.clamp(1, COPIED);
    let rows = COPIED / columns;
    for row in (0..lines.count).step_by(rows) {
        for column in (0..lines.len).step_by(columns) {
            let (count, len) = (rows.min(lines.count - row), columns.min(lines.len - column));
            let Lines { from, to, line: [down, line], step, .. } = lines;
            let from = from.wrapping_offset(down.wrapping_mul(row as isize));
            // mutant: later-pieces-of-converted-lines-are-the-first
            let from = from.wrapping_offset(step.wrapping_mul(column as isize));
            let to = to.wrapping_offset(line.wrapping_mul(row as isize)).wrapping_add(column);
            let copied = place.cast_const().cast();
            let copies = Lines { from: copied, to, line: [size * len as isize, line], step: size, count, len };
            // SAFETY: the caller's promise; there is room for `rows` lines of so many words, and then these are there.
            unsafe {
                Lines { from, to: place, line: [down, len as isize], step, count, len }.copy(isa);
                convert_runs::<E, SWAPPED>(isa, copies.joined());
            }
        }
    }
}

/// Does that with lines whose elements follow each other.
///
/// # Safety
/// As for [`write`].
unsafe fn convert_runs<E: Bits, const SWAPPED: bool>(isa: Isa, lines: Lines<E::Whole>) {
    // SAFETY: the caller's promise.
    if unsafe { E::by_instructions::<SWAPPED>(isa, lines) } {
        return;
    }
    let Lines { mut from, mut to, line, count, len, .. } = lines;
    for _ in 0..count {
        // SAFETY: the caller's promise, for both; bytes are aligned.
        let (elements, numbers) = unsafe {
            let from = from.cast::<E::Bytes>();
            (core::slice::from_raw_parts(from, len), core::slice::from_raw_parts_mut(to, len))
        };
        for (number, bytes) in numbers.iter_mut().zip(elements) {
            *number = E::of::<SWAPPED>(*bytes).whole();
        }
        (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(line[1]));
    }
}

/// How many bytes before it is converted an element is fetched.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 1 << 11;

/// Bytes of numbers that are written at once.
#[cfg(target_arch = "x86_64")]
const BYTES: usize = 32;

/// Returns from which places the bytes of elements of `size` bytes, a power of two, come in the other order.
#[cfg(target_arch = "x86_64")]
pub(super) const fn order(size: usize) -> [u8; BYTES] {
    let mut order = [0; BYTES];
    let mut i = 0;
    while i < BYTES {
        // Places in a half of a vector, which is shuffled by itself.
        order[i] = ((i % 16) ^ (size - 1)) as u8;
        i += 1;
    }
    order
}

/// The same by instructions, which the compiler does not find for lines that are short. All need AVX2, and that of [`Half`] F16C.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{
        __m128i, __m256, _mm_loadl_epi64, _mm_loadu_si128, _mm_shuffle_epi8, _mm_storeu_ps, _mm256_castps256_ps128,
        _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_loadu_si256, _mm256_shuffle_epi8,
        _mm256_slli_epi32, _mm256_storeu_ps, _mm256_storeu_si256,
    };

    use super::{AHEAD, BYTES, FOUR, Lines, order};
    use crate::dispatch::prefetch;

    /// Converts elements of `size` bytes, as many at once as have so many bytes of numbers.
    ///
    /// # Safety
    /// As for [`super::write`], which goes for `some` with as many elements.
    #[inline(always)]
    unsafe fn each<T: Copy + Default>(lines: Lines<T>, size: usize, some: impl Fn(*const u8, *mut T)) {
        let lanes = BYTES / size_of::<T>();
        let Lines { mut from, mut to, line, count, len, .. } = lines;
        for _ in 0..count {
            for first in (0..len / lanes * lanes).step_by(lanes) {
                let at = from.wrapping_add(size * first);
                // Lines as short as columns of some hundred rows keep the CPU from seeing early that they follow each other.
                prefetch(at.wrapping_add(AHEAD));
                some(at, to.wrapping_add(first));
            }
            let rest = len % lanes;
            if rest > 0 && len > lanes {
                // The last ones, some of which were written before.
                // mutant: last-converted-elements-are-those-before
                let last = len - lanes;
                some(from.wrapping_add(size * last), to.wrapping_add(last));
            } else if rest > 0 {
                let (mut bytes, mut numbers) = ([0_u8; BYTES], [T::default(); BYTES / size_of::<f32>()]);
                // SAFETY: all elements of the line, and room for their numbers; fewer than are converted at once.
                unsafe {
                    from.copy_to_nonoverlapping(bytes.as_mut_ptr(), size * rest);
                    some(bytes.as_ptr(), numbers.as_mut_ptr());
                    numbers.as_ptr().copy_to_nonoverlapping(to, rest);
                }
            }
            (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(line[1]));
        }
    }

    /// Converts elements of two bytes: lines of four, which are columns of four rows, by themselves, and others eight at once.
    ///
    /// # Safety
    /// As for [`super::write`].
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn shorts<const SWAPPED: bool>(lines: Lines<f32>, numbers: impl Fn(__m128i) -> __m256) {
        const ORDER: [u8; BYTES] = order(2);
        // SAFETY: half of the array.
        let order = unsafe { _mm_loadu_si128(ORDER.as_ptr().cast()) };
        let numbers = |bits| numbers(if SWAPPED { _mm_shuffle_epi8(bits, order) } else { bits });
        if lines.len != FOUR {
            // SAFETY: the caller's promise.
            return unsafe {
                each(lines, 2, |from, to| _mm256_storeu_ps(to, numbers(_mm_loadu_si128(from.cast()))));
            };
        }
        let Lines { mut from, mut to, line, count, .. } = lines;
        for _ in 0..count {
            // SAFETY: the caller's promise.
            unsafe { _mm_storeu_ps(to, _mm256_castps256_ps128(numbers(_mm_loadl_epi64(from.cast())))) };
            (from, to) = (from.wrapping_offset(line[0]), to.wrapping_offset(line[1]));
        }
    }

    /// # Safety
    /// As for [`super::write`].
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn halves<const SWAPPED: bool>(lines: Lines<f32>) {
        // SAFETY: the caller's promise.
        unsafe { shorts::<SWAPPED>(lines, |bits| _mm256_cvtph_ps(bits)) };
    }

    /// # Safety
    /// As for [`super::write`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn brains<const SWAPPED: bool>(lines: Lines<f32>) {
        // SAFETY: the caller's promise.
        unsafe {
            shorts::<SWAPPED>(lines, |bits| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits))));
        }
    }

    /// Writes elements that are numbers but for the order of their bytes.
    ///
    /// # Safety
    /// As for [`super::write`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn numbers<T: Copy + Default, const SWAPPED: bool>(lines: Lines<T>) {
        let order = const { order(size_of::<T>()) };
        // SAFETY: the caller's promise, and the array.
        unsafe {
            let order = _mm256_loadu_si256(order.as_ptr().cast());
            each(lines, size_of::<T>(), |from, to| {
                let bits = _mm256_loadu_si256(from.cast());
                _mm256_storeu_si256(to.cast(), if SWAPPED { _mm256_shuffle_epi8(bits, order) } else { bits });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts `count` lines of elements and compares them with what each one is.
    fn check<E: Bits, const SWAPPED: bool>(elements: impl Iterator<Item = E::Bytes>, count: usize)
    where
        E::Whole: PartialEq + core::fmt::Debug,
    {
        let elements: Vec<E::Bytes> = elements.collect();
        let (len, size) = (elements.len() / count, size_of::<E>());
        // Not aligned.
        let mut memory = vec![0xa5_u8; 1 + size * elements.len()];
        // SAFETY: there is room for all bytes.
        unsafe { memory[1..].as_mut_ptr().copy_from_nonoverlapping(elements.as_ptr().cast(), size * elements.len()) };
        let expected: Vec<E::Whole> = elements.iter().map(|bytes| E::of::<SWAPPED>(*bytes).whole()).collect();
        let unwritten = E::of::<false>(elements[0]).whole();
        for isa in Isa::available() {
            let mut found = vec![unwritten; (len + 1) * count];
            let (from, to) = (memory[1..].as_ptr(), found.as_mut_ptr());
            let line = [(size * len) as isize, len as isize + 1];

            // SAFETY: there are as many, and room.
            unsafe { convert::<E, SWAPPED>(isa, Lines { from, to, line, step: size as isize, count, len }) };

            for (expected, found) in expected.chunks(len).zip(found.chunks(len + 1)) {
                assert_eq!(unwritten, found[len], "{isa:?}: written beyond the last");
                for (expected, found) in expected.iter().zip(found) {
                    let (expected, found) = (expected.widen(), found.widen());
                    assert!(
                        expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan()),
                        "{isa:?}: {expected:e}, {found:e}"
                    );
                }
            }
        }
    }

    fn check_all<E: Bits>(bytes: impl Fn(u64) -> E::Bytes)
    where
        E::Whole: PartialEq + core::fmt::Debug,
    {
        for (len, count) in (1..70_u64).map(|len| (len, 3)).chain([(1 << 16, 1)]) {
            // The first one is a number.
            let elements = || (0..len * count).map(|i| bytes(i.wrapping_mul(0x0101_0101_0101_0101) ^ 0x3bfa));
            check::<E, false>(elements(), count as usize);
            check::<E, true>(elements(), count as usize);
        }
    }

    #[test]
    fn elements_become_the_numbers_that_they_are() {
        check_all::<Half>(|bits| (bits as u16).to_ne_bytes());
        check_all::<Brain>(|bits| (bits as u16).to_ne_bytes());
        check_all::<f32>(|bits| (bits as u32).to_ne_bytes());
        check_all::<f64>(|bits| bits.to_ne_bytes());
    }
}
