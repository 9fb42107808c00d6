//! How rows that no kernel reads where they lie get into sums.
//!
//! They are brought ([`super::foreign`]), block by block, to where they lie as kernels want them, and are added there: no more
//! memory than a block takes, however long the arrays. Rows of few columns come as [`super::brought`] says, and rows whose columns lie one after
//! the other as [`super::side_by_side`] does. Rows of up to half of [`ROOM_BYTES`] come whole, and what is measured is what is
//! added. A longer row comes in pieces, once to be measured and once to be added, so its certificate is looked at as that of
//! any row. Pieces end where blocks of [`super::measure`] end, which keeps its order of additions. Only a longer row that is not
//! decided by its sum of squares is brought whole, to be looked at once more.

use core::cell::OnceCell;
use core::cmp::Ordering;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use core::ops::Range;
use std::sync::Mutex;

use super::adding::{Adding, TOGETHER_BYTES};
use super::brought;
use super::clip_norm::{ClipNorm, Stability};
use super::close::{self, Cut, Sums};
use super::columns::PANEL;
use super::decide::{Rule, scale_of};
use super::element::{Element, Float, Form};
use super::error_budget::ErrorBudget;
use super::foreign::Foreign;
use super::measure::{self, Power, add_powers};
use super::quantize::{self, Certificate, Step, Tile};
use super::rows::Rows;
use super::shares;
use super::side_by_side::SideBySide;
use super::steps::{Steps, Together};
use super::turn;
use crate::blocks::for_each_block;
use crate::isa::Isa;
use crate::math::float_environment::in_default_environment;

/// Bytes of rows that are brought at a time where rows are long, by all threads: the last cache holds them. A row of up to half as many
/// comes whole. To bring it twice takes longer.
const ROOM_BYTES: usize = 1 << 24;

/// Rows of which pieces are brought at a time.
const ROWS: usize = 4;

/// Columns of such a piece.
const PIECE: usize = measure::BLOCK;

/// Columns from which on threads share the columns of one row, and not the rows: sums of their own would cost them more.
const WIDE: usize = 1 << 21;

/// Pieces that a thread takes at a time.
const SHARE: usize = 8;

/// Rows on their way into sums; see [`super::adding`].
pub(super) struct Bringing<'a, 'b, T> {
    leaves: [&'a [Foreign<'b>]; 2],
    /// The first column of each leaf.
    offsets: Vec<usize>,
    count: usize,
    width: usize,
    steps: Steps,
    elements: PhantomData<fn() -> T>,
}

/// Some columns of a leaf, not beyond a block of [`measure`].
struct Piece {
    leaf: usize,
    columns: Range<usize>,
}

impl<'a, 'b, T: Float> Bringing<'a, 'b, T> {
    /// Rows to be added, if `T` has the numbers of all of them: measured as in the first reading and added as in the second
    /// where they are read twice.
    pub(super) fn new(
        isa: Isa,
        clip: ClipNorm,
        stability: Option<Stability>,
        leaves: [&'a [Foreign<'b>]; 2],
        count: usize,
    ) -> Option<Self> {
        let is_double = T::FORM == Form::Double;
        if leaves.iter().any(|leaves| leaves.iter().any(|leaf| (leaf.form == Form::Double) != is_double)) {
            return None;
        }
        let budget = ErrorBudget::new(leaves[0].iter().map(Foreign::width));
        let rule = Rule { isa, power: Power::Second, bound: clip.value(), stability, budget };
        let mut width = 0;
        let mut offsets = Vec::with_capacity(leaves[0].len());
        for leaf in leaves[0] {
            offsets.push(width);
            width += leaf.width();
        }
        Some(Self { leaves, offsets, count, width, steps: Steps { rule, clip }, elements: PhantomData })
    }

    /// Elements in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds all rows to `sums`, on up to `threads` threads, and returns how many are within the clip norm, if all were
    /// certified.
    pub(super) fn add(&self, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let count = self.count;
        if threads.get() == 1 || count == 0 {
            return self.add_rows(0..count, sums, threads);
        }
        if count < 2 * threads.get() || sums.len() >= WIDE {
            return (0..count).try_fold(0, |within, row| Some(within + self.add_row(row, sums, threads)?));
        }
        shares::add(count, sums, threads, |rows, part| self.add_rows(rows, part, threads))
    }

    /// Adds some rows on one of so many threads.
    fn add_rows(&self, rows: Range<usize>, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        if let [leaf] = self.leaves[0]
            && leaf.is_narrow()
            && rows.len() >= turn::ROWS
            && self.steps.rule.isa.is_native()
        {
            let rest = rows.start + rows.len() / turn::ROWS * turn::ROWS;
            let within = brought::visit::<T, _>(self.steps.rule.isa, leaf, rows.start..rest, |leaf, more| {
                self.steps.add_narrow([leaf; 2], 0..0, more, sums)
            })?;
            return Some(within + self.add_rows(rest..rows.end, sums, threads)?);
        }
        let bytes = (self.width * size_of::<T>()).max(1);
        let by_columns = self.leaves[0].iter().all(|leaf| leaf.width() == 0 || leaf.lies_by_columns());
        if by_columns && rows.len() >= PANEL {
            return SideBySide::<T>::new(self.steps, self.leaves, self.width, rows.len()).add(rows, sums);
        }
        let room = (ROOM_BYTES / threads.get()).max(TOGETHER_BYTES);
        if bytes <= room / 2 {
            return Adding::<T>::add_brought(self.steps, self.leaves[0], rows, room, sums, &mut Together::default());
        }
        self.add_pieces(rows, sums)
    }

    /// Adds rows that come in pieces, some of them at a time.
    fn add_pieces(&self, rows: Range<usize>, sums: &mut [i64]) -> Option<u64> {
        let isa = self.steps.rule.isa;
        let mut room = Vec::<T>::with_capacity(ROWS * PIECE);
        let (mut within, mut together) = (0, Together::default());
        let pieces = self.pieces();
        for start in rows.clone().step_by(ROWS) {
            let group = start..rows.end.min(start + ROWS);
            let totals = together.begin(group.len());
            for Piece { leaf, columns } in &pieces {
                let piece = self.bring(0, *leaf, group.clone(), columns.clone(), &mut room);
                add_powers(isa, Power::Second, piece, columns.len(), 1.0, totals);
            }
            self.steps.compare::<T>(&mut together);
            within += Steps::decide(&mut together, |row, total| self.step(start + row, total));
            let Together { steps, certificates, .. } = &mut together;
            for Piece { leaf, columns } in &pieces {
                let piece = self.bring(1, *leaf, group.clone(), columns.clone(), &mut room);
                let first = self.offsets[*leaf] + columns.start;
                add_piece(isa, piece, columns.len(), steps, &mut sums[first..][..columns.len()], certificates);
            }
            // mutant: rows-in-pieces-not-certified
            if !self.steps.are_certified(&together) {
                return None;
            }
        }
        Some(within)
    }

    /// Adds one row, its pieces shared among threads.
    fn add_row(&self, row: usize, sums: &mut [i64], threads: NonZeroUsize) -> Option<u64> {
        let isa = self.steps.rule.isa;
        let mut pieces: Vec<(Piece, f64)> = self.pieces().into_iter().map(|piece| (piece, 0.0)).collect();
        for_each_block(&mut pieces, SHARE, threads, |_, pieces| {
            let mut room = Vec::new();
            in_default_environment(|| {
                for (Piece { leaf, columns }, total) in pieces {
                    let piece = self.bring(0, *leaf, row..row + 1, columns.clone(), &mut room);
                    add_powers(isa, Power::Second, piece, piece.len(), 1.0, core::slice::from_mut(total));
                }
            });
        });
        let (step, within) = self.step(row, pieces.iter().fold(0.0, |sum, (_, total)| sum + total));
        let certificate = Mutex::new(Certificate::default());
        let mut rest = sums;
        let mut parts: Vec<(Piece, &mut [i64])> = Vec::with_capacity(pieces.len());
        for (piece, _) in pieces {
            let (part, after) = rest.split_at_mut(piece.columns.len());
            parts.push((piece, part));
            rest = after;
        }
        for_each_block(&mut parts, SHARE, threads, |_, parts| {
            let mut room = Vec::new();
            in_default_environment(|| {
                let mut certificates = [Certificate::default()];
                for (Piece { leaf, columns }, sums) in parts {
                    let piece = self.bring(1, *leaf, row..row + 1, columns.clone(), &mut room);
                    add_piece(isa, piece, piece.len(), &[step], sums, &mut certificates);
                }
                // mutant: shared-pieces-not-certified
                certificate.lock().expect("nothing panics while it holds this lock").merge(&certificates[0]);
            });
        });
        let certificate = certificate.into_inner().expect("nothing panics while it holds this lock");
        self.steps.certified(step, &certificate).then_some(u64::from(within))
    }

    /// Returns the pieces of rows, in order.
    fn pieces(&self) -> Vec<Piece> {
        let leaves = self.leaves[0].iter().enumerate();
        let pieces = leaves.flat_map(|(leaf, of)| {
            let firsts = (0..of.width()).step_by(PIECE);
            firsts.map(move |first| Piece { leaf, columns: first..of.width().min(first + PIECE) })
        });
        pieces.collect()
    }

    /// Returns these columns of these rows of a leaf, row by row, as they are in that reading.
    fn bring<'c>(
        &self,
        reading: usize,
        leaf: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        room: &'c mut Vec<T>,
    ) -> &'c [T] {
        let elements = rows.len() * columns.len();
        room.clear();
        room.reserve(elements);
        // SAFETY: there is room for these elements, and all of them are written.
        unsafe {
            let apart = [columns.len(), 1];
            self.leaves[reading][leaf].bring(self.steps.rule.isa, rows, columns, room.as_mut_ptr(), apart);
            room.set_len(elements);
        }
        room
    }

    /// Returns how a row is added, given its sum of squares, and whether it is within the clip norm.
    fn step(&self, row: usize, total: f64) -> (Step, bool) {
        self.told(row, total).unwrap_or_else(|| {
            let whole = OnceCell::new();
            let leaves = self.leaves[0].iter().zip(&self.offsets).map(|(leaf, offset)| {
                let row: &Vec<T> = whole.get_or_init(|| self.whole(row));
                &row[*offset..offset + leaf.width()]
            });
            self.steps.step(total, leaves.clone(), leaves)
        })
    }

    /// Returns the same, if it is found piece by piece where the sum of squares leaves it open.
    fn told(&self, row: usize, total: f64) -> Option<(Step, bool)> {
        let Steps { rule, .. } = &self.steps;
        let (isa, is_far) = (rule.isa, rule.is_far::<T>(total));
        if T::SQUARES_FIT || !isa.is_native() || !(is_far || rule.is_near(total)) {
            return None;
        }
        let (pieces, mut room) = (self.pieces(), Vec::new());
        let mut each = |look: &mut dyn FnMut(&[T])| {
            for Piece { leaf, columns } in &pieces {
                look(self.bring(0, *leaf, row..row + 1, columns.clone(), &mut room));
            }
        };
        if !is_far {
            let (cut, mut sums) = (Cut::new(rule.power, rule.bound)?, [Sums::NONE]);
            each(&mut |piece| close::add_squares(isa, piece, piece.len(), &[0], cut, &mut sums));
            let told = if sums[0].is_longer(cut, sums[0].margins(cut))? { Ordering::Greater } else { Ordering::Equal };
            return Some(self.steps.of(rule.decide_told(total, told)));
        }
        let (mut largest, mut again) = (0.0_f64, [0.0]);
        each(&mut |piece| {
            let found = measure::largest_magnitude(isa, core::iter::once(piece));
            // mutant: later-pieces-hide-what-is-not-finite
            largest = if largest.is_nan() || found <= largest { largest } else { found };
        });
        if largest.is_finite() && largest != 0.0 {
            each(&mut |piece| add_powers(isa, rule.power, piece, piece.len(), scale_of(largest), &mut again));
        }
        Some(self.steps.of(rule.decide_measured(largest, again[0])?))
    }

    /// Returns a row as it is in the first reading.
    #[cold]
    fn whole(&self, row: usize) -> Vec<T> {
        let mut whole = Vec::<T>::with_capacity(self.width);
        for (leaf, offset) in self.leaves[0].iter().zip(&self.offsets) {
            let to = whole.as_mut_ptr().wrapping_add(*offset);
            // SAFETY: there is room for the columns of all leaves.
            unsafe { leaf.bring(self.steps.rule.isa, row..row + 1, 0..leaf.width(), to, [leaf.width(), 1]) };
        }
        // SAFETY: the columns of all leaves were written.
        unsafe { whole.set_len(self.width) };
        whole
    }
}

/// Adds so many columns of some rows to `sums` and to the rows' certificates.
fn add_piece<T: Element>(
    isa: Isa,
    piece: &[T],
    width: usize,
    steps: &[Step],
    sums: &mut [i64],
    certificates: &mut [Certificate],
) {
    let rows = Rows::new([(piece, width)], steps.len()).expect("as many as there are steps");
    let tile = Tile { rows: &rows, first: 0, columns: 0..width, steps, ahead: &[] };
    quantize::add(isa, tile, sums, certificates);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::{Brain, GridSum, Half};
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

    /// Compares sums of rows in every way that they may lie with those of the same numbers in slices.
    fn check<T: Float, const N: usize>(form: Form, element: fn(f64) -> ([u8; N], T)) {
        // Around panels, narrow rows, whole rows and pieces, of both ways.
        let long = ROOM_BYTES / 2 / size_of::<T>() + 500;
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
                let leaf = unsafe { Foreign::new(form, swapped, bytes[first..].as_ptr(), row, [(width, column)]) };
                for isa in Isa::available() {
                    let mut sum = GridSum::new(clip, width).expect("memory");
                    let threads = NonZeroUsize::new(threads).expect("positive");

                    sum.add_foreign::<T>(isa, core::slice::from_ref(&leaf), count, threads).expect("room");

                    assert_eq!(expected.integers(), sum.integers(), "{isa:?}, {form:?}, {way:?}, {count} x {width}");
                    assert_eq!(expected.count_within(), sum.count_within());
                }
            }
        }
    }

    #[test]
    fn rows_that_are_brought_have_the_sums_of_their_numbers() {
        check(Form::Double, |x| (x.to_ne_bytes(), x));
        check(Form::Single, |x| ((x as f32).to_ne_bytes(), x as f32));
        check(Form::Brain, |x| {
            let bits = ((x as f32).to_bits() >> 16) as u16;
            (bits.to_ne_bytes(), Brain(bits).whole())
        });
        check(Form::Half, |x| {
            let bits = 0x2800 | (x.to_bits() >> 42) as u16 & 0x83ff;
            (bits.to_ne_bytes(), Half(bits).whole())
        });
    }

    #[test]
    fn leaves_of_several_types_and_axes_are_one_row() {
        let clip = ClipNorm::new::<f32>(0.9).expect("in range");
        let singles: Vec<f32> = (0..20 * 6).map(|i| i as f32 / 300.0).collect();
        let halves: Vec<u16> = (0..20 * 3).map(|i| 0x2c00 + i).collect();
        let wide: Vec<f32> = halves.iter().map(|bits| Half(*bits).whole()).collect();
        // A row is a matrix of 2 x 3, whose columns come first.
        let turned: Vec<f32> = (0..120).map(|i| singles[i / 6 * 6 + i % 6 % 3 * 2 + i % 6 / 3]).collect();
        // SAFETY: the vectors hold these elements.
        let leaves = unsafe {
            [
                Foreign::new(Form::Single, false, singles.as_ptr().cast(), 24, [(2, 4), (3, 8)]),
                Foreign::new(Form::Half, false, halves.as_ptr().cast(), 6, [(3, 2)]),
                Foreign::new(Form::Half, false, halves.as_ptr().cast(), 6, [(0, 2)]),
            ]
        };
        let (mut expected, mut sum) = (GridSum::new(clip, 9).expect("memory"), GridSum::new(clip, 9).expect("memory"));
        let rows = Rows::new([(&turned[..], 6), (&wide[..], 3), (&[], 0)], 20).expect("so many");
        expected.add(Isa::best(), &rows, ONE).expect("room");

        sum.add_foreign::<f32>(Isa::best(), &leaves, 20, ONE).expect("room");

        assert_eq!(expected.integers(), sum.integers());
        assert_eq!(expected.count_within(), sum.count_within());
    }

    #[test]
    fn leaves_of_doubles_and_others_are_refused() {
        let numbers = [1.0_f64; 2];
        // SAFETY: there are as many bytes.
        let leaves = unsafe {
            [Form::Double, Form::Single].map(|form| Foreign::new(form, false, numbers.as_ptr().cast(), 0, [(2, 4)]))
        };
        let mut sum = GridSum::new(ClipNorm::new::<f32>(1.0).expect("in range"), 4).expect("memory");

        let refused = Err(Error::Incompatible { what: "type" });
        assert_eq!(refused, sum.add_foreign::<f32>(Isa::best(), &leaves, 1, ONE));
        assert_eq!(refused, sum.add_foreign::<f64>(Isa::best(), &leaves, 1, ONE));
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
                unsafe { Foreign::new(Form::Double, true, start, 0, [(columns.len(), 8)]) }
            };
            let leaves = [leaf(0..cut), leaf(cut..width)];
            for (isa, threads) in Isa::available().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
                let threads = NonZeroUsize::new(threads).expect("positive");
                let (mut expected, mut sum) =
                    (GridSum::new(clip, width).expect("memory"), GridSum::new(clip, width).expect("memory"));
                expected.add(isa, &Rows::one(&[&row[..cut], &row[cut..]]), ONE).expect("room");

                sum.add_foreign::<f64>(isa, &leaves, 1, threads).expect("room");

                assert_eq!(expected.integers(), sum.integers(), "{isa:?}");
                assert_eq!(expected.count_within(), sum.count_within());
            }
        }
    }

    #[test]
    fn long_rows_that_squares_leave_open_are_told_piece_by_piece() {
        check_open(1_050_000);
    }

    #[test]
    fn a_row_that_is_measured_while_it_is_brought_becomes_what_it_is() {
        check_open(40_001);
    }

    #[test]
    fn columns_that_grow_between_their_readings_break_the_sum() {
        let (count, width) = (20, 9000);
        let small = vec![0.001_f64.to_bits().swap_bytes(); count * width];
        for place in [0, count * width - 1, count * 4100 + 3] {
            let mut changed = small.clone();
            changed[place] = 1.1_f64.to_bits().swap_bytes();
            let leaf = |columns: &[u64]| {
                // SAFETY: as many columns of as many elements.
                unsafe { Foreign::new(Form::Double, true, columns.as_ptr().cast(), 8, [(width, 8 * count as isize)]) }
            };
            let mut sum = GridSum::new(ClipNorm::new::<f64>(1.0).expect("in range"), width).expect("memory");
            let (first, second) = ([leaf(&small)], [leaf(&changed)]);

            let outcome = sum.add_foreign_read_twice::<f64>(Isa::best(), [&first, &second], count, ONE);

            assert_eq!(Err(Error::Mutated), outcome);
        }
    }

    #[test]
    fn a_long_row_that_grows_between_its_readings_breaks_the_sum() {
        let small = vec![0.001; 132_000];
        for (place, grown) in [(0, 1.1), (131_999, 1.1), (20_000, f64::NAN), (5_000, 1e300)] {
            let mut changed = small.clone();
            changed[place] = grown;
            let leaf = |row: &[f64]| {
                // SAFETY: a row of as many elements.
                unsafe { Foreign::new(Form::Double, false, row.as_ptr().cast(), 0, [(row.len(), 8)]) }
            };
            // Threads share pieces of few rows; of many, each brings its own in pieces.
            for (threads, count) in [(2, 1), (8, 16)] {
                let mut sum = GridSum::new(ClipNorm::new::<f64>(1.0).expect("in range"), small.len()).expect("memory");
                let (first, second) = ([leaf(&small)], [leaf(&changed)]);
                let threads = NonZeroUsize::new(threads).expect("positive");

                let outcome = sum.add_foreign_read_twice::<f64>(Isa::best(), [&first, &second], count, threads);

                assert_eq!(Err(Error::Mutated), outcome);
                assert_eq!(Err(Error::Mutated), sum.integers());
            }
        }
    }
}
