//! Sums of panels of few columns, compared with sums of the same rows, added one by one.

use core::num::NonZeroUsize;

use super::*;
use crate::clip::kernels::measure::{Power, add_powers};
use crate::clip::{ClipNorm, Float, GridSum, Leaf, Rows, Stability};
use crate::isa::Isa;

const COUNT: usize = 67;

/// Bytes that no cache holds.
const UNCACHED_BYTES: usize = 1 << 24;

/// Returns rows of some kind, in units of the clip norm 1.
fn rows(kind: usize, width: usize) -> Vec<f64> {
    let mut state = (kind * 100 + width) as u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    let mut data: Vec<f64> = (0..COUNT * width).map(|_| draw()).collect();
    for (i, row) in data.chunks_mut(width).enumerate() {
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let other = i % 3 == 0;
        row.iter_mut().for_each(|x| match kind {
            0 => *x *= 3.0 / norm,
            1 => *x *= 0.3 / norm,
            2 => *x /= norm,
            3 => *x *= 2.0,
            4 => *x = 0.0,
            5 => *x *= 2.0_f64.powi(1023),
            6 => *x *= 2.0_f64.powi(-1060),
            _ if other => *x *= 2.0_f64.powi(if kind == 7 { -600 } else { 600 }),
            _ => {}
        });
        match (kind, other) {
            (4, _) => row[i % width] = 1.0,
            (3, true) => row[width / 2] = f64::NAN,
            (9, _) => row[width - 1] = if other { f64::INFINITY } else { f64::MAX },
            _ => {}
        }
    }
    data
}

fn check<T: Float>(clip: ClipNorm, stability: Option<Stability>, convert: fn(f64) -> T) {
    let sum = |width| GridSum::new(clip, width).expect("memory").normalizing(stability);
    for width in (1..=18).chain([31, 32, 33, 40, 63, 64, 65, 97, 100, 127, 128, 129, 200, 256, 257]) {
        for kind in 0..10 {
            let data: Vec<T> = rows(kind, width).into_iter().map(convert).collect();
            let mut one_by_one = sum(width);
            for row in data.chunks(width) {
                one_by_one.add(Isa::PORTABLE, &Rows::one(&[row]), NonZeroUsize::MIN).expect("room");
            }
            let expected = (one_by_one.integers().expect("whole").to_vec(), one_by_one.count_within());
            // Steps from a row to the next and from a column to the next.
            for (row, column) in [(width, 1), (width + 3, 1), (1, COUNT), (2 * width, 2), (1, COUNT + 5)] {
                let mut memory = vec![T::default(); (COUNT + 5) * (2 * width + 3)];
                for (i, x) in data.iter().enumerate() {
                    memory[i / width * row + i % width * column] = *x;
                }
                // SAFETY: all these elements were just written.
                let leaf = unsafe { Leaf::strided(memory.as_ptr(), row as isize, (width, column as isize)) };
                let rows = Rows::<T>::of(vec![leaf], COUNT).expect("of that type");
                for isa in Isa::available() {
                    let mut found = sum(width);
                    found.add(isa, &rows, NonZeroUsize::MIN).expect("room");
                    let found = (found.integers().expect("whole").to_vec(), found.count_within());
                    assert!(expected == found, "{isa:?}, {} of width {width}, kind {kind}, {row}, {column}", T::NAME);
                }
            }
        }
    }
}

#[test]
fn rows_of_few_columns_have_the_sums_of_rows_one_by_one() {
    let (single, double) = (ClipNorm::new::<f32>(1.0), ClipNorm::new::<f64>(1.0));
    let (single, double) = (single.expect("in range"), double.expect("in range"));
    check::<f64>(double, None, |x| x);
    check::<f32>(single, None, |x| x as f32);
    check::<f64>(double, Some(Stability::new::<f64>(0.1).expect("in range")), |x| x);
    check::<f32>(single, Some(Stability::new::<f32>(0.1).expect("in range")), |x| x as f32);
}

/// Returns rows in panels of different kinds, and some whose rows are of several.
fn changing_rows(width: usize, bound: f64, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut data = Vec::new();
    for _ in 0..60 {
        let (of_panel, is_mixed, times) = (draw() % 10, draw() % 4 == 0, 1 + draw() % 4);
        for _ in 0..times * PANEL_ROWS {
            let mut row: Vec<f64> = (0..width).map(|_| draw() as f64 / f64::from(1 << 30) - 1.0).collect();
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let kind = if is_mixed { draw() % 10 } else { of_panel };
            let scale = match kind {
                0 => 3.0 / norm,
                1 => 0.3 / norm,
                2 | 3 => bound / norm,
                4 => 2.0_f64.powi(1020),
                5 => 2.0_f64.powi(-1060),
                6 => 2.0_f64.powi(-500),
                _ => 0.0,
            };
            row.iter_mut().for_each(|x| *x *= scale);
            match kind {
                // A tie of four equal elements.
                3 if width >= 4 => {
                    row.fill(0.0);
                    row[..4].fill(bound / 2.0);
                }
                7 => row[draw() % width] = [bound, bound.next_up(), bound.next_down()][draw() % 3],
                8 => row[width / 2] = if draw() % 2 == 0 { f64::INFINITY } else { f64::NAN },
                9 => (row[0], row[width - 1]) = (bound, if draw() % 2 == 0 { 5e-324 } else { 1e-150 }),
                _ => {}
            }
            data.extend(row);
        }
    }
    data
}

fn check_changing<T: Float>(convert: fn(f64) -> T) {
    let stability = Stability::new::<T>(0.1).expect("in range");
    for (seed, width) in [1, 2, 3, 4, 5, 8, 17, 33, 64, 65, 128, 129].into_iter().enumerate() {
        for (bound, stability) in [(0.8, None), (1.0, None), (0.8, Some(stability))] {
            let clip = ClipNorm::new::<T>(bound).expect("in range");
            let sum = || GridSum::new(clip, width).expect("memory").normalizing(stability);
            let data: Vec<T> = changing_rows(width, bound, seed as u64).into_iter().map(convert).collect();
            let mut one_by_one = sum();
            for row in data.chunks(width) {
                one_by_one.add(Isa::best(), &Rows::one(&[row]), NonZeroUsize::MIN).expect("room");
            }
            let rows = Rows::new([(&data[..], width)], data.len() / width).expect("whole rows");
            for isa in Isa::available() {
                let mut found = sum();
                found.add(isa, &rows, NonZeroUsize::MIN).expect("room");
                assert_eq!(one_by_one.integers(), found.integers(), "{isa:?}, {} of width {width}", T::NAME);
                assert_eq!(one_by_one.count_within(), found.count_within(), "{isa:?}, {} of width {width}", T::NAME);
            }
        }
    }
}

#[test]
fn panels_of_other_kinds_than_the_ones_before_have_the_sums_of_rows_one_by_one() {
    check_changing::<f64>(|x| x);
    check_changing::<f32>(|x| x as f32);
}

/// Compares rows from memory whose columns lie one after the other with the same rows one after the other.
fn check_columns<T: Float>(convert: fn(f64) -> T) {
    for width in [257, 999, MAX_PANEL_COLUMNS] {
        let data: Vec<T> = changing_rows(width, 0.8, width as u64).into_iter().map(convert).collect();
        let data = data.repeat(UNCACHED_BYTES / size_of_val(&data[..]) + 1);
        let count = data.len() / width;
        let columns: Vec<T> = (0..data.len()).map(|i| data[i % count * width + i / count]).collect();
        // SAFETY: so many columns of so many elements.
        let leaf = unsafe { Leaf::strided(columns.as_ptr(), 1, (width, count as isize)) };
        let beside = Rows::<T>::of(vec![leaf], count).expect("of that type");
        let plain = Rows::new([(&data[..], width)], count).expect("whole rows");
        let clip = ClipNorm::new::<T>(0.8).expect("in range");
        let [mut expected, mut found] = [(); 2].map(|()| GridSum::new(clip, width).expect("memory"));

        expected.add(Isa::best(), &plain, NonZeroUsize::MIN).expect("room");
        found.add(Isa::best(), &beside, NonZeroUsize::MIN).expect("room");

        assert_eq!(expected.integers(), found.integers(), "{} of width {width}", T::NAME);
        assert_eq!(expected.count_within(), found.count_within(), "{} of width {width}", T::NAME);
    }
}

#[test]
fn columns_from_memory_have_the_sums_of_rows_one_after_the_other() {
    check_columns::<f64>(|x| x);
    check_columns::<f32>(|x| x as f32);
}

#[test]
fn rows_from_memory_have_the_sums_of_rows_one_by_one() {
    for width in [24, 40, 100] {
        let data: Vec<f32> = changing_rows(width, 0.8, width as u64).into_iter().map(|x| x as f32).collect();
        let data = data.repeat(UNCACHED_BYTES / 4 / size_of_val(&data[..]) + 1);
        let count = data.len() / width;
        let plain = Rows::new([(&data[..], width)], count).expect("whole rows");
        // Every other element, which are copied while others are prefetched.
        let apart: Vec<f32> = data.iter().flat_map(|x| [*x, f32::NAN]).collect();
        // SAFETY: so many elements, two apart.
        let leaf = unsafe { Leaf::strided(apart.as_ptr(), 2 * width as isize, (width, 2)) };
        let apart = Rows::<f32>::of(vec![leaf], count).expect("of that type");
        let clip = ClipNorm::new::<f32>(0.8).expect("in range");
        let sum = |isa, rows| {
            let mut sum = GridSum::new(clip, width).expect("memory");
            sum.add(isa, rows, NonZeroUsize::MIN).expect("room");
            (sum.integers().expect("whole").to_vec(), sum.count_within())
        };

        let expected = sum(Isa::PORTABLE, &plain);

        for isa in Isa::available() {
            assert!(expected == sum(isa, &plain), "{isa:?}, width {width}");
            assert!(expected == sum(isa, &apart), "{isa:?}, width {width}, two apart");
        }
    }
}

fn check_squares<T: Element>(convert: fn(f64) -> T) {
    for width in (1..=40).chain([63, 64, 65, 100, 127, 128, 130]) {
        let rows: Vec<T> = (0..PANEL_ROWS * width).map(|i| convert((i as f64 * 0.7).sin() + 0.1)).collect();
        let columns: Vec<AlignedColumn<T>> =
            (0..width).map(|c| AlignedColumn(core::array::from_fn(|r| rows[r * width + c]))).collect();
        let mut expected = [0.0; PANEL_ROWS];
        add_powers(Isa::best(), Power::Second, &rows, width, 1.0, &mut expected);

        for found in [squares::<T, false>, squares::<T, true>] {
            let found = found(&columns, &mut PrefetchQueue::empty());

            assert_eq!(expected.map(f64::to_bits), found.map(f64::to_bits), "width {width}");
        }
    }
}

#[test]
fn squares_of_a_panel_have_the_bits_of_rows_one_after_the_other() {
    check_squares(|x| x as f32);
    check_squares(|x| x);
}

/// A panel's sums of squares of what is truncated bound those of its integers, in every run of columns.
#[test]
fn certificates_of_panels_bound_the_squares_of_their_integers() {
    for width in [1, 5, RUN_COLUMNS, RUN_COLUMNS + 1, 3 * RUN_COLUMNS] {
        let columns: Vec<AlignedColumn<f64>> =
            (0..width).map(|c| AlignedColumn(core::array::from_fn(|r| ((c * 31 + r) as f64).sin() + 1.5))).collect();
        let all = [u64::MAX; PANEL_ROWS];
        let decided = Decided { factors: [1000.0; PANEL_ROWS], masks: all, clear: all, open: [0; PANEL_ROWS] };
        let panel = Panel { columns: &columns, decided: &decided, scales: &[1.0; PANEL_ROWS], near: &all };
        for is_open in [false, true] {
            let mut sums = vec![Aligned([0; SUMS_PER_COLUMN]); width];
            let queue = &mut PrefetchQueue::empty();
            let (products, squares) = match is_open {
                true => panel.add::<Shifted<false>, true>(&mut sums, queue),
                false => panel.add::<Shifted<false>, false>(&mut sums, queue),
            };
            for r in 0..PANEL_ROWS {
                let exact: f64 = columns.iter().map(|column| (column.0[r] * 1000.0).trunc().powi(2)).sum();
                assert!(products[r] >= exact, "{width}");
                assert!(!is_open || squares[r] as f64 == exact, "{width}");
            }
        }
    }
}
