//! Leaves of any type, byte order, alignment and strides, copied as numbers into rows that follow one another.
//!
//! Only elements are read, never what lies between them. They need not be aligned.

use core::ops::Range;

use super::element::{Float, Form, brain, half};
use super::leaf::Leaf;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel, prefetch_second};

/// Rows and columns that are transposed at once where elements of a column are neighbors: a cache line of `f32`.
const TRANSPOSED_BLOCK: usize = 16;

/// How many columns before they are copied columns are prefetched.
const COLUMNS_AHEAD: usize = 2 * TRANSPOSED_BLOCK;

/// Writes these rows of a leaf to `to` and every `pitch` elements from there.
///
/// # Safety
/// The leaf has these rows, there is room for them, which nothing else reads or writes during the call, and `T` has the numbers of
/// the leaf's form.
pub(in crate::clip) unsafe fn fill<T: Float>(isa: Isa, leaf: &Leaf<'_>, rows: Range<usize>, to: *mut T, pitch: usize) {
    match (leaf.form, leaf.swapped) {
        (Form::Half, false) => dispatch::run_short(isa, Copy::<HalfBits, false> { leaf, rows, to: to.cast(), pitch }),
        (Form::Half, true) => dispatch::run_short(isa, Copy::<HalfBits, true> { leaf, rows, to: to.cast(), pitch }),
        (Form::Brain, false) => dispatch::run_short(isa, Copy::<BrainBits, false> { leaf, rows, to: to.cast(), pitch }),
        (Form::Brain, true) => dispatch::run_short(isa, Copy::<BrainBits, true> { leaf, rows, to: to.cast(), pitch }),
        (Form::Single, false) => dispatch::run_short(isa, Copy::<u32, false> { leaf, rows, to: to.cast(), pitch }),
        (Form::Single, true) => dispatch::run_short(isa, Copy::<u32, true> { leaf, rows, to: to.cast(), pitch }),
        (Form::Double, false) => dispatch::run_short(isa, Copy::<u64, false> { leaf, rows, to: to.cast(), pitch }),
        (Form::Double, true) => dispatch::run_short(isa, Copy::<u64, true> { leaf, rows, to: to.cast(), pitch }),
    }
}

/// The bits of an element, and those of its number: `u32` and `u64` are bits of numbers already.
trait Bits: Sized {
    /// Its word, in memory.
    type Word: core::marker::Copy;
    /// The bits of its number.
    type Number: core::marker::Copy + Default;

    /// Returns the number of a word, whose bytes may be in the other order.
    fn number<const SWAPPED: bool>(word: Self::Word) -> Self::Number;
}

struct HalfBits;
struct BrainBits;

macro_rules! bits {
    ($bits:ty, $word:ty, $number:ty, $convert:expr) => {
        impl Bits for $bits {
            type Word = $word;
            type Number = $number;

            #[inline(always)]
            fn number<const SWAPPED: bool>(word: $word) -> $number {
                // mutant: elements-in-other-byte-order-read-as-they-are
                $convert(if SWAPPED { word.swap_bytes() } else { word })
            }
        }
    };
}

bits!(HalfBits, u16, u32, |bits| half(bits).to_bits());
bits!(BrainBits, u16, u32, |bits| brain(bits).to_bits());
bits!(u32, u32, u32, |bits| bits);
bits!(u64, u64, u64, |bits| bits);

struct Copy<'a, 'b, B: Bits, const SWAPPED: bool> {
    leaf: &'b Leaf<'a>,
    rows: Range<usize>,
    to: *mut B::Number,
    pitch: usize,
}

impl<B: Bits, const SWAPPED: bool> Kernel for Copy<'_, '_, B, SWAPPED> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { leaf, rows, to, pitch } = self;
        let runs = leaf.width().checked_div(leaf.columns).unwrap_or(0);
        // mutant: later-blocks-of-rows-are-the-first
        let first = leaf.start.wrapping_offset(leaf.row.wrapping_mul(rows.start as isize));
        for run in 0..runs {
            let (from, to) = (first.wrapping_offset(offset(leaf, run)), to.wrapping_add(run * leaf.columns));
            let matrix = Matrix::<B, SWAPPED> { from, row: leaf.row, column: leaf.column, to, pitch };
            // SAFETY: the promise of `fill`.
            unsafe {
                if leaf.is_by_columns() && rows.len() > 1 {
                    matrix.copy_blocks(rows.len(), leaf.columns);
                } else {
                    matrix.copy_rows(0..rows.len(), 0..leaf.columns);
                }
            }
        }
    }
}

/// Returns where in a row a run of columns begins: the last axis, for one index of all others.
fn offset(leaf: &Leaf<'_>, mut run: usize) -> isize {
    let mut offset = 0_isize;
    for (len, stride) in leaf.outer.iter().rev() {
        offset = offset.wrapping_add(((run % len) as isize).wrapping_mul(*stride));
        run /= len;
    }
    offset
}

/// Elements with equal strides, and where their numbers go.
struct Matrix<B: Bits, const SWAPPED: bool> {
    from: *const u8,
    /// Bytes from a row to the next, and from a column to the next.
    row: isize,
    column: isize,
    to: *mut B::Number,
    pitch: usize,
}

impl<B: Bits, const SWAPPED: bool> Matrix<B, SWAPPED> {
    #[inline(always)]
    fn address(&self, row: usize, column: usize) -> *const u8 {
        let row = self.row.wrapping_mul(row as isize);
        self.from.wrapping_offset(row.wrapping_add(self.column.wrapping_mul(column as isize)))
    }

    /// Copies some rows of some columns, row by row.
    ///
    /// # Safety
    /// The promise of [`fill`].
    #[inline(always)]
    unsafe fn copy_rows(&self, rows: Range<usize>, columns: Range<usize>) {
        for row in rows {
            let (from, to) = (self.address(row, columns.start), self.to.wrapping_add(row * self.pitch + columns.start));
            // SAFETY: the caller's promise. Of words that follow one another, the compiler reads many at once.
            unsafe {
                if self.column == size_of::<B::Word>() as isize {
                    let words = from.cast::<B::Word>();
                    for i in 0..columns.len() {
                        *to.add(i) = B::number::<SWAPPED>(words.add(i).read_unaligned());
                    }
                } else {
                    for i in 0..columns.len() {
                        let word = from.wrapping_offset(self.column.wrapping_mul(i as isize));
                        *to.add(i) = B::number::<SWAPPED>(word.cast::<B::Word>().read_unaligned());
                    }
                }
            }
        }
    }

    /// Copies rows, column by column in blocks, so that every cache line that is read is used at once.
    ///
    /// # Safety
    /// The promise of [`fill`].
    #[inline(always)]
    unsafe fn copy_blocks(&self, rows: usize, columns: usize) {
        let whole = [rows / TRANSPOSED_BLOCK * TRANSPOSED_BLOCK, columns / TRANSPOSED_BLOCK * TRANSPOSED_BLOCK];
        for column in (0..whole[1]).step_by(TRANSPOSED_BLOCK) {
            for row in (0..whole[0]).step_by(TRANSPOSED_BLOCK) {
                let mut block = [[B::Number::default(); TRANSPOSED_BLOCK]; TRANSPOSED_BLOCK];
                for (c, block) in block.iter_mut().enumerate() {
                    let from = self.address(row, column + c);
                    // No processor sees by itself which page comes next.
                    prefetch_second(self.address(row, column + c + COLUMNS_AHEAD));
                    // SAFETY: the caller's promise.
                    unsafe {
                        if self.row == size_of::<B::Word>() as isize {
                            for (r, x) in block.iter_mut().enumerate() {
                                *x = B::number::<SWAPPED>(from.cast::<B::Word>().add(r).read_unaligned());
                            }
                        } else {
                            for (r, x) in block.iter_mut().enumerate() {
                                let word = from.wrapping_offset(self.row.wrapping_mul(r as isize));
                                *x = B::number::<SWAPPED>(word.cast::<B::Word>().read_unaligned());
                            }
                        }
                    }
                }
                for r in 0..TRANSPOSED_BLOCK {
                    let to = self.to.wrapping_add((row + r) * self.pitch + column);
                    for (c, block) in block.iter().enumerate() {
                        // SAFETY: the caller's promise.
                        unsafe { *to.add(c) = block[r] };
                    }
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.copy_rows(whole[0]..rows, 0..whole[1]);
            self.copy_rows(0..rows, whole[1]..columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::clip::{ClipNorm, GridSum, Rows};
    use crate::error::Error;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    /// Elements in a way that they may lie, and from the first how many bytes to a row and to a column.
    struct Memory {
        bytes: Vec<u8>,
        first: usize,
        row: isize,
        column: isize,
    }

    /// Ways in which rows lie.
    #[derive(Clone, Copy, Debug)]
    enum Way {
        Rows,
        Columns,
        Sparse,
        Backwards,
    }

    fn lay<const N: usize>(elements: &[[u8; N]], count: usize, width: usize, way: Way, shift: usize) -> Memory {
        let size = N as isize;
        let (row, column) = match way {
            Way::Rows | Way::Backwards => (size * width as isize, size),
            Way::Columns => (size, size * count as isize),
            Way::Sparse => (2 * size * width as isize + 3, 2 * size),
        };
        let sign = if matches!(way, Way::Backwards) { -1 } else { 1 };
        let span = row * (count as isize - 1) + column * (width as isize - 1);
        let first = shift + if sign < 0 { span as usize } else { 0 };
        let mut bytes = vec![0xa5; shift + span as usize + N];
        for (i, element) in elements.iter().enumerate() {
            let (r, c) = ((i / width) as isize, (i % width) as isize);
            let at = (first as isize + sign * (r * row + c * column)) as usize;
            bytes[at..at + N].copy_from_slice(element);
        }
        Memory { bytes, first, row: sign * row, column: sign * column }
    }

    /// Adds these rows.
    fn add<T: Float>(
        sum: &mut GridSum,
        isa: Isa,
        leaves: &[Leaf<'_>],
        count: usize,
        threads: usize,
    ) -> Result<(), Error> {
        let rows = Rows::<T>::of(leaves.to_vec(), count)?;
        sum.add(isa, &rows, NonZeroUsize::new(threads).expect("positive"))
    }

    /// Compares sums of rows in every layout with those of the same numbers in slices.
    fn check<T: Float, const N: usize>(form: Form, element: fn(f64) -> ([u8; N], T)) {
        // Around panels, tiles, blocks of copies, and rows that are copied one by one.
        let long = (1 << 23) / size_of::<T>() + 500;
        for (count, width) in
            [(1, 3), (37, 1), (35, 7), (50, 16), (6, 301), (20, 300), (6, 70_000), (2, long), (17, 16_500)]
        {
            let numbers: Vec<([u8; N], T)> = (0..count * width)
                .map(|i| element(((i * 7919) % 1013) as f64 / 512.0 / (width as f64).sqrt() - 0.1))
                .collect();
            let values: Vec<T> = numbers.iter().map(|number| number.1).collect();
            let clip = ClipNorm::new::<f32>(0.9).expect("in range");
            let mut expected = GridSum::new(clip, width).expect("memory");
            let rows = Rows::new([(&values[..], width)], count).expect("so many");
            expected.add(Isa::best(), &rows, ONE).expect("room");
            assert!(expected.integers().expect("whole").iter().any(|k| *k != 0));
            for (way, swapped, threads) in [
                (Way::Rows, true, 1),
                (Way::Rows, false, 2),
                (Way::Columns, true, 1),
                (Way::Columns, false, 3),
                (Way::Sparse, true, 2),
                (Way::Backwards, true, 1),
            ] {
                let elements: Vec<[u8; N]> = numbers
                    .iter()
                    .map(|(bytes, _)| {
                        let mut bytes = *bytes;
                        if swapped {
                            bytes.reverse();
                        }
                        bytes
                    })
                    .collect();
                let Memory { bytes, first, row, column } = lay(&elements, count, width, way, 1);
                // SAFETY: the bytes hold all these elements.
                let leaf = unsafe { Leaf::new(form, swapped, bytes[first..].as_ptr(), row, [(width, column)]) };
                for isa in Isa::available() {
                    let mut sum = GridSum::new(clip, width).expect("memory");

                    add::<T>(&mut sum, isa, core::slice::from_ref(&leaf), count, threads).expect("room");

                    assert_eq!(expected.integers(), sum.integers(), "{isa:?}, {form:?}, {way:?}, {count} x {width}");
                    assert_eq!(expected.count_within(), sum.count_within());
                }
            }
        }
    }

    #[test]
    fn rows_that_are_copied_have_the_sums_of_their_numbers() {
        check(Form::Double, |x| (x.to_ne_bytes(), x));
        check(Form::Single, |x| ((x as f32).to_ne_bytes(), x as f32));
        check(Form::Brain, |x| {
            let bits = ((x as f32).to_bits() >> 16) as u16;
            (bits.to_ne_bytes(), brain(bits))
        });
        check(Form::Half, |x| {
            let bits = 0x2800 | (x.to_bits() >> 42) as u16 & 0x83ff;
            (bits.to_ne_bytes(), half(bits))
        });
    }

    #[test]
    fn leaves_of_several_types_and_axes_are_one_row() {
        let clip = ClipNorm::new::<f32>(0.9).expect("in range");
        let singles: Vec<f32> = (0..20 * 6).map(|i| i as f32 / 300.0).collect();
        let halves: Vec<u16> = (0..20 * 3).map(|i| 0x2c00 + i).collect();
        let wide: Vec<f32> = halves.iter().map(|bits| half(*bits)).collect();
        // A row is a matrix of 2 x 3, whose columns come first.
        let transposed: Vec<f32> = (0..120).map(|i| singles[i / 6 * 6 + i % 6 % 3 * 2 + i % 6 / 3]).collect();
        // SAFETY: the vectors hold these elements.
        let leaves = unsafe {
            [
                Leaf::new(Form::Single, false, singles.as_ptr().cast(), 24, [(2, 4), (3, 8)]),
                Leaf::new(Form::Half, false, halves.as_ptr().cast(), 6, [(3, 2)]),
                Leaf::new(Form::Half, false, halves.as_ptr().cast(), 6, [(0, 2)]),
            ]
        };
        let (mut expected, mut sum) = (GridSum::new(clip, 9).expect("memory"), GridSum::new(clip, 9).expect("memory"));
        let rows = Rows::new([(&transposed[..], 6), (&wide[..], 3), (&[], 0)], 20).expect("so many");
        expected.add(Isa::best(), &rows, ONE).expect("room");

        add::<f32>(&mut sum, Isa::best(), &leaves, 20, 1).expect("room");

        assert_eq!(expected.integers(), sum.integers());
        assert_eq!(expected.count_within(), sum.count_within());
    }

    #[test]
    fn leaves_of_doubles_and_others_are_refused() {
        let numbers = [1.0_f64; 2];
        // SAFETY: there are as many bytes.
        let leaves = unsafe {
            [Form::Double, Form::Single].map(|form| Leaf::new(form, false, numbers.as_ptr().cast(), 0, [(2, 4)]))
        };
        let mut sum = GridSum::new(ClipNorm::new::<f32>(1.0).expect("in range"), 4).expect("memory");

        let refused = Err(Error::Incompatible { what: "type" });
        assert_eq!(refused, add::<f32>(&mut sum, Isa::best(), &leaves, 1, 1));
        assert_eq!(refused, add::<f64>(&mut sum, Isa::best(), &leaves, 1, 1));
        assert_eq!(Ok(0), sum.integers().map(|_| sum.count()));
    }

    /// Compares long rows of two leaves that squares leave open, or not, with what they are in slices.
    fn check_open(width: usize) {
        let mut normalized: Vec<f64> = (0..width).map(|i| ((i * 7919) % 1013) as f64 - 500.0).collect();
        let norm = normalized.iter().map(|x| x * x).sum::<f64>().sqrt();
        normalized.iter_mut().for_each(|x| *x *= 0.9 / norm);
        let longer: Vec<f64> = normalized.iter().map(|x| x * 3.0).collect();
        let mut one_hot = vec![0.0; width];
        one_hot[width / 14] = 0.9;
        let huge: Vec<f64> = normalized.iter().map(|x| x * 1e200).collect();
        let (mut early, mut late) = (huge.clone(), huge.clone());
        (early[10], late[width - 1]) = (f64::INFINITY, f64::NAN);
        let clip = ClipNorm::new::<f64>(0.9).expect("in range");
        let cut = width / 3;
        for row in [normalized, longer, one_hot, huge, early, late] {
            let swapped: Vec<u64> = row.iter().map(|x| x.to_bits().swap_bytes()).collect();
            let leaf = |columns: Range<usize>| {
                let start = swapped[columns.start..].as_ptr().cast();
                // SAFETY: a row of as many elements.
                unsafe { Leaf::new(Form::Double, true, start, 0, [(columns.len(), 8)]) }
            };
            let leaves = [leaf(0..cut), leaf(cut..width)];
            for (isa, threads) in Isa::available().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
                let (mut expected, mut sum) =
                    (GridSum::new(clip, width).expect("memory"), GridSum::new(clip, width).expect("memory"));
                expected.add(isa, &Rows::one(&[&row[..cut], &row[cut..]]), ONE).expect("room");

                add::<f64>(&mut sum, isa, &leaves, 1, threads).expect("room");

                assert_eq!(expected.integers(), sum.integers(), "{isa:?}");
                assert_eq!(expected.count_within(), sum.count_within());
            }
        }
    }

    #[test]
    fn long_rows_that_are_copied_become_what_they_are() {
        check_open(1_050_000);
    }

    #[test]
    fn rows_that_are_copied_become_what_they_are() {
        check_open(40_001);
    }
}
