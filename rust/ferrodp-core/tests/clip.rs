//! Clipping and integer sums through the public interface: the bound is exact, and nothing but the rows matters.

use std::num::NonZeroUsize;

use ferrodp_core::clip::{ClipNorm, Element, Float, Form, GridSum, Leaf, Order, Rows, Stability, clip_one, clip_rows};
use ferrodp_core::error::Error;
use ferrodp_core::isa::Isa;
use ferrodp_core::math::exact_sum::ExactSum;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// SplitMix64: test data, not randomness.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * 2.0_f64.powi(-52) - 1.0
    }

    /// Any finite pattern of bits: all exponents are equally likely, subnormal ones included.
    fn any(&mut self) -> f64 {
        loop {
            let x = f64::from_bits(self.bits());
            if x.is_finite() {
                return x;
            }
        }
    }
}

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).expect("positive")
}

fn clip<T: Float>(value: f64) -> ClipNorm {
    ClipNorm::new::<T>(value).expect("in range")
}

/// The integers of one row.
fn quantized<T: Float>(isa: Isa, row: &[T], clip: ClipNorm) -> Vec<i64> {
    let mut sum = GridSum::new(clip, row.len()).expect("memory");
    sum.add(isa, &Rows::one(&[row]), ONE).expect("the row does not change");
    sum.integers().expect("usable").to_vec()
}

/// The integers of one row, normalized.
fn normalized<T: Float>(isa: Isa, row: &[T], clip: ClipNorm, stability: f64) -> Vec<i64> {
    let stability = Stability::new::<T>(stability).expect("in range");
    let mut sum = GridSum::new(clip, row.len()).expect("memory").normalizing(Some(stability));
    sum.add(isa, &Rows::one(&[row]), ONE).expect("the row does not change");
    sum.integers().expect("usable").to_vec()
}

fn assert_bound(integers: &[i64], clip: ClipNorm) {
    let squares: u128 = integers.iter().map(|k| u128::from(k.unsigned_abs()).pow(2)).sum();
    assert!(squares <= u128::from(clip.largest_sum_of_squares()));
}

fn norm_is_at_most<T: Element>(row: &[T], bound: f64, order: Order) -> bool {
    let (mut sum, mut limit) = (ExactSum::new(), ExactSum::new());
    match order {
        Order::One => {
            row.iter().for_each(|x| sum.add_magnitude(x.widen()));
            limit.add_magnitude(bound);
        }
        Order::Two => {
            row.iter().for_each(|x| sum.add_square(x.widen()));
            limit.add_square(bound);
        }
        Order::Infinity => return row.iter().all(|x| x.widen().abs() <= bound),
    }
    sum <= limit
}

/// Rows that have broken clippers, of type `f64` and of norms far below, at and far beyond 1.
fn hard_rows() -> Vec<Vec<f64>> {
    let mut draw = Draw(1);
    let tiny = f64::from_bits(1);
    let mut rows = vec![
        vec![],
        vec![0.0],
        vec![-0.0; 33],
        vec![1.0],
        vec![1.0_f64.next_up()],
        vec![1.0_f64.next_down()],
        vec![0.6, 0.8], // 0.6² + 0.8² is 1 + 4.4e-17 in exact arithmetic on these floats
        vec![0.6, -0.8, tiny],
        vec![0.5; 4],                   // norm 1 exactly
        vec![0.5, 0.5, 0.5, 0.5, tiny], // above by 2^-2148
        vec![1.0, tiny],
        vec![f64::MAX],
        vec![f64::MAX; 100],
        vec![1e308, -1e308, tiny],
        vec![1e200; 17],
        vec![1e-200; 17],
        vec![tiny; 40],
        vec![1e-200, 1e200],
        vec![f64::MIN_POSITIVE; 5],
        vec![1e-155, 1e-160],
        vec![2.0_f64.powi(500), 1.0],
        vec![2.0_f64.powi(-450), 2.0_f64.powi(-460)],
    ];
    let mut one_hot = vec![0.0; 5000];
    one_hot[4999] = -1.0;
    rows.push(one_hot.clone());
    one_hot[4096] = tiny;
    rows.push(one_hot);
    for len in [1, 2, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025, 4095, 4096, 4097, 9000] {
        rows.push((0..len).map(|_| draw.unit()).collect());
        rows.push((0..len).map(|_| draw.any()).collect());
        // Near the bound: a norm of 1 up to rounding.
        let row: Vec<f64> = (0..len).map(|_| draw.unit()).collect();
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        rows.push(row.iter().map(|x| x / norm).collect());
        rows.push(row.iter().map(|x| (x / norm).next_up()).collect());
    }
    rows
}

#[test]
fn no_row_of_integers_is_longer_than_the_clip_norm() {
    for value in [1.0, 0.7, 1e-3, 1e100, 1.999_999_9, 2.0_f64.powi(-500), 1.3 * 2.0_f64.powi(499)] {
        let clip = clip::<f64>(value);
        for row in hard_rows() {
            for row in [row.clone(), row.iter().map(|x| x * value).collect()] {
                assert_bound(&quantized(Isa::best(), &row, clip), clip);
            }
        }
    }
}

#[test]
fn no_row_of_single_precision_is_longer_either() {
    for value in [1.0, 0.7, 2.0_f64.powi(-120), 1.9 * 2.0_f64.powi(127)] {
        let clip = clip::<f32>(value);
        for row in hard_rows() {
            for row in [row.clone(), row.iter().map(|x| x * value).collect()] {
                let row: Vec<f32> = row.iter().map(|x| (*x as f32).clamp(f32::MIN, f32::MAX)).collect();
                assert_bound(&quantized(Isa::best(), &row, clip), clip);
            }
        }
    }
}

#[test]
fn no_normalized_row_is_longer_than_the_clip_norm_on_any_isa() {
    for value in [1.0, 1e-3, 1.999_999_9, 2.0_f64.powi(-500), 1.3 * 2.0_f64.powi(499)] {
        let clip = clip::<f64>(value);
        for stability in [0.01, 1e3, 2.0_f64.powi(-500), 1.3 * 2.0_f64.powi(499)] {
            for row in hard_rows() {
                for row in [row.clone(), row.iter().map(|x| x * value).collect()] {
                    let integers = normalized(Isa::best(), &row, clip, stability);

                    assert_bound(&integers, clip);
                    for isa in Isa::available() {
                        assert!(integers == normalized(isa, &row, clip, stability), "{isa:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn no_normalized_row_of_single_precision_is_longer_either() {
    for value in [1.0, 0.7, 2.0_f64.powi(-120), 1.9 * 2.0_f64.powi(127)] {
        let clip = clip::<f32>(value);
        for stability in [0.01, 2.0_f64.powi(-120), 1.9 * 2.0_f64.powi(127)] {
            for row in hard_rows() {
                let row: Vec<f32> = row.iter().map(|x| (*x as f32).clamp(f32::MIN, f32::MAX)).collect();
                assert_bound(&normalized(Isa::best(), &row, clip, stability), clip);
            }
        }
    }
}

#[test]
fn a_normalized_row_has_the_length_of_the_formula() {
    let mut draw = Draw(8);
    for len in [1, 100, 5000] {
        for (scale, stability) in
            [(1e-3, 1.0), (1.0, 0.01), (1e3, 0.01), (1e-200, 1e-100), (1e200, 1e140), (1e-310, 1e-150)]
        {
            let clip = clip::<f64>(1.0);
            let row: Vec<f64> = (0..len).map(|_| draw.unit() * scale).collect();
            let largest = row.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
            let length = row.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt() * largest;

            let integers = normalized(Isa::best(), &row, clip, stability);

            let norm = integers.iter().map(|k| (*k as f64).powi(2)).sum::<f64>().sqrt();
            let ideal = length / (length + stability) * clip.in_grid_steps();
            // Each element loses less than one step, and the factor less than 2^-43, in 2^29 steps.
            assert!((ideal - f64::from(len).sqrt() - 2.0_f64.powi(-12)..=ideal * (1.0 + 1e-13)).contains(&norm));
        }
    }
}

#[test]
fn rows_within_the_bound_are_counted_whatever_becomes_of_them() {
    let clip = clip::<f64>(1.0);
    for row in hard_rows() {
        let expected = Some(u64::from(norm_is_at_most(&row, 1.0, Order::Two)));
        for isa in Isa::available() {
            for stability in [None, Some(Stability::new::<f64>(0.01).expect("in range"))] {
                let mut sum = GridSum::new(clip, row.len()).expect("memory").normalizing(stability);
                sum.add(isa, &Rows::one(&[&row]), ONE).expect("the row does not change");

                assert_eq!(expected, sum.count_within(), "{} elements", row.len());
            }
        }
    }
}

#[test]
fn a_row_within_the_bound_is_truncated_and_no_more() {
    let clip = clip::<f64>(1.0);
    let steps = clip.granularity().reciprocal();
    for row in hard_rows() {
        let expected: Vec<i64> = row.iter().map(|x| (x * steps) as i64).collect();
        let kept = expected == quantized(Isa::best(), &row, clip);

        // A row of larger norm may be truncated to the same integers: only the first implication is strict.
        assert!(kept || !norm_is_at_most(&row, 1.0, Order::Two), "{} elements", row.len());
    }
}

#[test]
fn a_longer_row_loses_no_more_than_rounding_takes() {
    let mut draw = Draw(2);
    for len in [1, 100, 5000] {
        for value in [1.0, 1e-3, 1e10] {
            let clip = clip::<f64>(value);
            let row: Vec<f64> = (0..len).map(|_| draw.unit() * 1e3 * value).collect();
            let integers = quantized(Isa::best(), &row, clip);

            let norm = integers.iter().map(|k| (*k as f64).powi(2)).sum::<f64>().sqrt();
            let exact = clip.in_grid_steps();
            // Each element loses less than one step, and the factor 4·(148 + 6)·2^-53 < 2^-43, in 2^30 steps.
            assert!(norm <= exact && norm >= exact - f64::from(len).sqrt() - 2.0_f64.powi(-13), "{norm} of {exact}");
        }
    }
}

#[test]
fn sums_are_the_same_on_every_isa_and_thread_count_and_in_any_order() {
    let mut draw = Draw(3);
    for (rows, width) in [(1, 1), (7, 17), (40, 300), (3, 5000), (2, 100_000), (130, 33)] {
        let data: Vec<f32> = (0..rows * width).map(|_| (draw.unit() * 10.0) as f32).collect();
        let clip = clip::<f32>(1.0);
        let expected = (0..rows).fold(vec![0; width], |sums, r| {
            let row = quantized(Isa::PORTABLE, &data[r * width..(r + 1) * width], clip);
            sums.iter().zip(row).map(|(sum, k)| sum + k).collect()
        });
        let is_within = |row: &&[f32]| norm_is_at_most(row, 1.0, Order::Two);
        let within = data.chunks(width).filter(is_within).count() as u64;
        let backward: Vec<f32> = data.chunks(width).rev().flatten().copied().collect();
        for isa in Isa::available() {
            for count in [1, 2, 7] {
                for data in [&data, &backward] {
                    let mut sum = GridSum::new(clip, width).expect("memory");
                    let batch = Rows::new([(&data[..], width)], rows).expect("lengths agree");

                    sum.add(isa, &batch, threads(count)).expect("rows do not change");

                    assert_eq!((rows as u64, Some(within)), (sum.count(), sum.count_within()));
                    assert!(expected == sum.integers().expect("usable"), "{isa:?}, {count} threads, {rows} x {width}");
                }
            }
        }
    }
}

#[test]
fn wide_rows_are_shared_by_columns_with_the_same_sums() {
    let width = (1 << 21) + 12_345;
    let mut draw = Draw(4);
    let data: Vec<f32> = (0..2 * width).map(|_| draw.unit() as f32).collect();
    let first = 700_001;
    let batch =
        Rows::new([(&data[..2 * first], first), (&data[2 * first..], width - first)], 2).expect("lengths agree");
    let sums = |count| {
        let mut sum = GridSum::new(clip::<f32>(100.0), width).expect("memory");
        sum.add(Isa::best(), &batch, threads(count)).expect("rows do not change");
        sum.integers().expect("usable").to_vec()
    };

    assert!(sums(1) == sums(3));
}

#[test]
fn a_row_in_leaves_is_one_vector() {
    // A leaf of fewer than 32 elements changes the order of summation, not the sum: halves are exact.
    let row = [0.5_f64; 4];
    let clip = clip::<f64>(0.5);
    let mut sum = GridSum::new(clip, 4).expect("memory");
    sum.add(Isa::best(), &Rows::one(&[&row[..1], &[], &row[1..]]), ONE).expect("rows do not change");

    assert_eq!(quantized(Isa::best(), &row, clip), sum.integers().expect("usable"));
    assert_bound(sum.integers().expect("usable"), clip);
}

#[test]
fn hundreds_of_small_leaves_are_certified_like_one() {
    let mut draw = Draw(7);
    for width in [1, 15, 17, 31] {
        let row: Vec<f32> = (0..700 * width).map(|_| draw.unit() as f32).collect();
        let leaves: Vec<&[f32]> = row.chunks(width).collect();
        for value in [0.1, 1e6] {
            let clip = clip::<f32>(value);
            let mut sum = GridSum::new(clip, row.len()).expect("memory");

            sum.add(Isa::best(), &Rows::one(&leaves), ONE).expect("rows do not change");

            assert_bound(sum.integers().expect("usable"), clip);
        }
    }
}

/// Every way in which rows are copied into vectors: short and long ones, adjacent and strided, with gaps and backwards;
/// on every instruction set.
#[test]
fn where_elements_lie_changes_no_bit() {
    let mut draw = Draw(11);
    for (count, width) in
        [(1, 50), (16, 1), (17, 3), (40, 16), (100, 17), (530, 5), (33, 40), (70, 2), (65, 100), (40, 150), (20, 4200)]
    {
        let mut rows: Vec<Vec<f64>> = (0..count).map(|_| (0..width).map(|_| draw.unit()).collect()).collect();
        let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
        for (r, row) in rows.iter_mut().enumerate() {
            let (by, last) = (norm(row), width - 1);
            match r % 11 {
                2 => row.iter_mut().for_each(|x| *x /= by),
                3 => row[last] = f64::NAN,
                4 => row.iter_mut().for_each(|x| *x *= 1e300),
                5 => row.iter_mut().for_each(|x| *x *= 1e-200),
                6 => row[0] = f64::INFINITY,
                7 => row.fill(0.0),
                _ => row.iter_mut().for_each(|x| *x *= 2.0 / by * f64::from(r as u8 % 3)),
            }
        }
        let one_by_one = |stability| {
            let mut sum = GridSum::new(clip::<f64>(1.0), width).expect("memory").normalizing(stability);
            for row in &rows {
                sum.add(Isa::PORTABLE, &Rows::one(&[row]), ONE).expect("rows do not change");
            }
            sum
        };
        for (row, column, gap) in
            [(width + 3, 1, 0), (1, count, 0), (1, count + 2, 5), (3, 3 * count, 1), (2 * width, 2, 0)]
        {
            let mut data = vec![0.5; gap + row * count + column * width];
            for (are_rows_backwards, are_columns_backwards) in [(false, false), (true, false), (false, true)] {
                // Rows that lie backwards are those of the other order; columns are the same ones.
                for (r, elements) in rows.iter().enumerate() {
                    for (c, x) in elements.iter().enumerate() {
                        let c = if are_columns_backwards { width - 1 - c } else { c };
                        data[gap + r * row + c * column] = *x;
                    }
                }
                let (last_row, last_column) = (row * (count - 1), column * (width - 1));
                let (to_row, stride) = if are_rows_backwards { (last_row, -1) } else { (0, 1) };
                let (to_column, step) = if are_columns_backwards { (last_column, -1) } else { (0, 1) };
                let start = &raw const data[gap + to_row + to_column];
                let axis = (width, 8 * step * column as isize);
                // SAFETY: these numbers lead to the elements that were written to `data` just now.
                let leaf = unsafe { Leaf::new(Form::Double, false, start.cast(), 8 * stride * row as isize, [axis]) };
                let batch = Rows::<f64>::of(vec![leaf], count).expect("doubles");
                for stability in [None, Some(Stability::new::<f64>(0.5).expect("in range"))] {
                    let expected = one_by_one(stability);
                    for isa in Isa::available() {
                        for many in [1, 3] {
                            let mut sum = GridSum::new(clip::<f64>(1.0), width).expect("memory").normalizing(stability);
                            sum.add(isa, &batch, threads(many)).expect("rows do not change");

                            assert!(
                                expected.integers() == sum.integers(),
                                "{isa:?}: {count} x {width}, {row}, {column}"
                            );
                            assert_eq!(expected.count_within(), sum.count_within());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn leaves_without_columns_beside_columns_that_lie_one_after_the_other_add_nothing() {
    let data: Vec<f32> = (0..5 * 40).map(|i| i as f32 * 0.01 - 0.7).collect();
    for count in [1, 15, 16, 17, 40] {
        for (width, row, column) in [(0, 1, 40), (0, 5, 1), (1, 1, 1), (5, 1, 40), (5, 5, 1), (2, 2, 80)] {
            // SAFETY: these numbers lead to elements of `data`.
            let strided = |width: usize| unsafe {
                Leaf::new(Form::Single, false, data.as_ptr().cast(), 4 * row, [(width, 4 * column)])
            };
            let added = |leaves: Vec<Leaf<'_>>| {
                let rows = Rows::<f32>::of(leaves, count).expect("singles");
                let mut sum = GridSum::new(clip::<f32>(1.0), width).expect("memory");
                sum.add(Isa::best(), &rows, ONE).expect("rows do not change");
                (sum.integers().expect("certified").to_vec(), sum.count_within())
            };
            let at = |r: usize, c: usize| data[r * row.unsigned_abs() + c * column.unsigned_abs()];
            let copied: Vec<f32> = (0..count * width).map(|i| at(i / width, i % width)).collect();
            let width_of_rows = (4 * width) as isize;
            // SAFETY: as many rows, one after the other.
            let plain = unsafe { Leaf::new(Form::Single, false, copied.as_ptr().cast(), width_of_rows, [(width, 4)]) };
            let expected = added(vec![plain, strided(0)]);

            assert_eq!(expected, added(vec![strided(width), strided(0)]), "{count} x {width}");
            assert_eq!(expected, added(vec![strided(0), strided(width)]), "{count} x {width}");
        }
    }
}

#[test]
fn rows_in_leaves_have_the_same_sums_however_they_are_added() {
    let mut draw = Draw(9);
    for widths in [
        vec![3, 0, 1, 16, 31, 2],
        vec![1; 40],
        vec![100, 17, 33, 1025, 15],
        vec![2000, 7, 1040],
        (0..60).map(|i| i % 37).collect(),
        (1..=9).flat_map(|width| [width; 35]).collect(),
        (0..300).map(|i| 60 + i % 11).collect(),
    ] {
        let width: usize = widths.iter().sum();
        for count in [1, 2, 5, 130] {
            let leaves: Vec<Vec<f32>> =
                widths.iter().map(|width| (0..count * width).map(|_| draw.unit() as f32).collect()).collect();
            let batch = Rows::new(leaves.iter().zip(&widths).map(|(leaf, width)| (&leaf[..], *width)), count);
            let batch = batch.expect("lengths agree");
            let value = 0.6 * (width as f64).sqrt(); // about the norm of most rows
            let sums = |isa, many| {
                let mut sum = GridSum::new(clip::<f32>(value), width).expect("memory");
                sum.add(isa, &batch, threads(many)).expect("rows do not change");
                (sum.integers().expect("usable").to_vec(), sum.count_within())
            };
            let mut one_by_one = (vec![0; width], 0);
            for r in 0..count {
                let row: Vec<&[f32]> = leaves.iter().zip(&widths).map(|(leaf, w)| &leaf[r * w..(r + 1) * w]).collect();
                let mut sum = GridSum::new(clip::<f32>(value), width).expect("memory");
                sum.add(Isa::PORTABLE, &Rows::one(&row), threads(2)).expect("rows do not change");
                let integers = sum.integers().expect("usable");
                one_by_one.0.iter_mut().zip(integers).for_each(|(sum, k)| *sum += k);
                one_by_one.1 += sum.count_within().expect("known");
            }
            let expected = (one_by_one.0, Some(one_by_one.1));
            for isa in Isa::available() {
                for many in [1, 3, 1000] {
                    assert!(expected == sums(isa, many), "{isa:?}, {many} threads, {count} rows in {widths:?}");
                }
            }
        }
    }
}

/// Adds `from` less `minus`, cut into leaves of `size` columns, formed on the way and written out first.
fn check_difference<T: Float + core::fmt::Debug>(from: &[T], minus: &[T], size: usize, value: f64) {
    let written: Vec<T> = from.iter().zip(minus).map(|(x, y)| *x - *y).collect();
    let pairs: Vec<_> = from.chunks(size).zip(minus.chunks(size)).collect();
    let leaves: Vec<_> = written.chunks(size).collect();
    for stability in [None, Some(Stability::new::<T>(0.1).expect("in range"))] {
        let empty = || GridSum::new(clip::<T>(value), from.len()).expect("memory").normalizing(stability);
        for isa in Isa::available() {
            let mut expected = empty();
            expected.add(isa, &Rows::one(&leaves), ONE).expect("the row does not change");
            for count in [1, 3] {
                let (mut sum, mut room) = (empty(), vec![from[0]; 3]);

                sum.add_difference(isa, &pairs, &mut room, threads(count)).expect("the rows do not change");

                assert_eq!(expected.integers(), sum.integers(), "{isa:?}, leaves of {size}, {written:?}");
                assert_eq!((1, expected.count_within()), (sum.count(), sum.count_within()));
            }
        }
    }
}

#[test]
fn a_difference_has_the_sums_of_the_row_that_is_written_out() {
    let mut draw = Draw(12);
    let mut rows = hard_rows();
    rows.retain(|row| !row.is_empty());
    rows.push((0..70_000).map(|_| draw.unit()).collect()); // more columns than threads take at a time
    for row in rows {
        let far: Vec<f64> = row.iter().map(|_| draw.unit()).collect();
        let moved: Vec<f64> = row.iter().zip(&far).map(|(x, y)| x + y).collect();
        let half: Vec<f64> = row.iter().map(|x| x / 2.0).collect();
        let less: Vec<f64> = half.iter().map(|x| -x).collect();
        let sizes = [row.len().max(1), 33, 5000];
        for (from, minus) in [(&row, &vec![0.0; row.len()]), (&moved, &far), (&half, &less), (&row, &row)] {
            for size in sizes.into_iter().filter(|size| row.len() <= 300 * size) {
                check_difference(from, minus, size, 1.0);
                let single = |row: &[f64]| row.iter().map(|x| *x as f32).collect::<Vec<_>>();
                check_difference(&single(from), &single(minus), size, 1.0);
            }
        }
    }
}

#[test]
fn a_difference_that_is_not_finite_counts_as_zeros_and_one_that_cancels_does_not() {
    let infinite = [f32::INFINITY, 1.0];
    check_difference(&infinite, &infinite, 2, 1.0);
    check_difference(&[f64::MAX, 1.0], &[f64::MIN, 0.0], 2, 1.0);
    let mut sum = GridSum::new(clip::<f64>(1.0), 2).expect("memory");
    let pairs = [(&[1e300, 1.0][..], &[1e300, 0.5][..])];

    sum.add_difference(Isa::best(), &pairs, &mut Vec::new(), ONE).expect("a row of that width");

    assert_eq!(Ok(&[0, 1 << 28][..]), sum.integers());
}

#[test]
fn a_difference_of_leaves_of_other_lengths_is_refused() {
    let mut sum = GridSum::new(clip::<f32>(1.0), 2).expect("memory");
    let mut add = |pair| sum.add_difference(Isa::best(), &[pair], &mut Vec::new(), ONE);

    assert_eq!(Err(Error::Length { name: "minus", given: 1, needed: 2 }), add((&[1.0_f32, 2.0][..], &[1.0][..])));
    assert_eq!(Err(Error::Length { name: "row", given: 1, needed: 2 }), add((&[1.0][..], &[1.0][..])));
    assert_eq!((0, Ok(&[0; 2][..])), (sum.count(), sum.integers()));
}

#[test]
fn a_row_with_an_element_that_is_not_finite_counts_as_zero() {
    for isa in Isa::available() {
        for bad in [f64::NAN, f64::from_bits(0x7FF0_0000_0000_0001), f64::INFINITY, f64::NEG_INFINITY] {
            for position in [0, 15, 16, 39] {
                let mut row = [1e-3; 40];
                row[position] = bad;
                let mut sum = GridSum::new(clip::<f64>(1.0), 40).expect("memory");

                sum.add(isa, &Rows::one(&[&row]), ONE).expect("data is never an error");

                assert_eq!((1, &[0; 40][..]), (sum.count(), sum.integers().expect("usable")));
                assert_eq!(Some(0), sum.count_within());
                assert_eq!([0; 40][..], quantized(isa, &row.map(|x| x as f32), clip::<f32>(1.0)));
            }
        }
    }
}

#[test]
fn merged_parts_are_the_whole() {
    let mut draw = Draw(5);
    let rows: Vec<[f32; 9]> =
        (0..20).map(|i| core::array::from_fn(|_| (draw.unit() * f64::from(i) / 40.0) as f32)).collect();
    let sum_of = |rows: &[[f32; 9]]| {
        let mut sum = GridSum::new(clip::<f32>(0.5), 9).expect("memory");
        for row in rows {
            sum.add(Isa::best(), &Rows::one(&[row]), ONE).expect("rows do not change");
        }
        sum
    };
    let whole = sum_of(&rows);
    let mut parts = sum_of(&rows[13..]);
    parts.merge(&sum_of(&rows[..5])).expect("alike");
    parts.merge(&sum_of(&[])).expect("alike");
    parts.merge(&sum_of(&rows[5..13])).expect("alike");

    assert_eq!((whole.count(), whole.integers()), (parts.count(), parts.integers()));
    assert_eq!(whole.count_within(), parts.count_within());
    assert!(whole.count_within().is_some_and(|within| 0 < within && within < 20));
    let clip = clip::<f32>(0.5);
    parts.merge(&GridSum::from_integers(clip, vec![0; 9], 2, None).expect("plausible")).expect("alike");
    assert_eq!((22, None), (parts.count(), parts.count_within()));
}

#[test]
fn sums_of_different_kinds_do_not_merge() {
    let mut sum = GridSum::new(clip::<f32>(1.0), 3).expect("memory");
    let other_norm = GridSum::new(clip::<f32>(1.5), 3).expect("memory");
    let other_width = GridSum::new(clip::<f32>(1.0), 4).expect("memory");

    assert_eq!(Err(Error::Incompatible { what: "clip_norm" }), sum.merge(&other_norm));
    assert_eq!(Err(Error::Incompatible { what: "length" }), sum.merge(&other_width));
    let stability = Stability::new::<f32>(0.01).expect("in range");
    let mut normalizing = GridSum::new(clip::<f32>(1.0), 3).expect("memory").normalizing(Some(stability));
    assert_eq!(Err(Error::Incompatible { what: "stability" }), sum.merge(&normalizing));
    assert_eq!(Err(Error::Incompatible { what: "stability" }), normalizing.merge(&sum));
}

#[test]
fn overflow_is_excluded_before_anything_is_added() {
    let clip = clip::<f32>(1.0);
    let full = GridSum::from_integers(clip, vec![5, -5], GridSum::MAX_COUNT, None).expect("plausible");
    let mut sum = GridSum::from_integers(clip, vec![5, -5], GridSum::MAX_COUNT - 1, None).expect("plausible");
    let refused = Err(Error::Capacity { rows: GridSum::MAX_COUNT + 1, limit: GridSum::MAX_COUNT });

    let two = Rows::new([(&[1.0_f32; 4][..], 2)], 2).expect("lengths agree");
    assert_eq!(refused, sum.add(Isa::best(), &two, ONE));
    assert!(sum.merge(&full).is_err());
    assert_eq!(Ok(&[5, -5][..]), sum.integers());
    sum.add(Isa::best(), &Rows::one(&[&[0.0_f32; 2]]), ONE).expect("there is room for one");
    assert!(sum.add(Isa::best(), &Rows::one(&[&[0.0_f32; 2]]), ONE).is_err());
}

#[test]
fn integers_that_no_rows_can_have_are_refused() {
    let clip = clip::<f32>(1.0); // C/g is 2^29

    assert!(GridSum::from_integers(clip, vec![1 << 30, -(1 << 30)], 2, None).is_ok());
    assert!(GridSum::from_integers(clip, vec![(1 << 30) + 1], 2, None).is_err());
    assert!(GridSum::from_integers(clip, vec![i64::MIN], 2, None).is_err());
    assert!(GridSum::from_integers(clip, vec![1], 0, None).is_err());
    assert!(GridSum::from_integers(clip, vec![1], 2, Some(2)).is_ok());
    assert!(GridSum::from_integers(clip, vec![1], 2, Some(3)).is_err());
    assert!(GridSum::from_integers(clip, vec![0], GridSum::MAX_COUNT + 1, None).is_err());
}

#[test]
fn rows_of_another_width_are_refused() {
    let mut sum = GridSum::new(clip::<f32>(1.0), 3).expect("memory");

    assert!(sum.add(Isa::best(), &Rows::one(&[&[0.0_f32; 2]]), ONE).is_err());
    assert!(Rows::new([(&[0.0_f32; 5][..], 2)], 2).is_err());
    assert_eq!(0, sum.count());
}

fn check_float_rows<T: Float + PartialEq + core::fmt::Debug>(convert: fn(f64) -> T, value: f64) {
    let clip = clip::<T>(value);
    for row in hard_rows() {
        for scaled in [row.clone(), row.iter().map(|x| x * value).collect()] {
            let row: Vec<T> = scaled.iter().map(|x| convert(*x)).collect();
            for order in [Order::One, Order::Two, Order::Infinity] {
                let mut out = vec![T::default(); row.len()];
                let norm = clip_one(Isa::best(), &mut [(&row, &mut out)], clip, order);

                assert!(norm_is_at_most(&out, value, order), "{order:?} of {} elements", row.len());
                assert!(!norm.is_nan());
                if norm_is_at_most(&row, value, order) {
                    assert_eq!(row, out, "a row within the bound keeps its bits");
                }
                for isa in Isa::available() {
                    let mut again = vec![T::default(); row.len()];
                    let same = clip_one(isa, &mut [(&row, &mut again)], clip, order);
                    assert_eq!((norm.to_bits(), &out), (same.to_bits(), &again), "{isa:?}");
                }
            }
        }
    }
}

#[test]
fn clipped_rows_are_within_the_bound_in_exact_arithmetic() {
    for value in [1.0, 0.7, 2.0_f64.powi(-500), 1.3 * 2.0_f64.powi(499)] {
        check_float_rows::<f64>(|x| x.clamp(f64::MIN, f64::MAX), value);
    }
}

#[test]
fn clipped_rows_of_single_precision_are_too() {
    for value in [1.0, 0.7, 2.0_f64.powi(-120), 1.9 * 2.0_f64.powi(127)] {
        check_float_rows::<f32>(|x| (x as f32).clamp(f32::MIN, f32::MAX), value);
    }
}

#[test]
fn norms_are_right_where_squares_leave_the_range() {
    for (row, order, expected) in [
        (vec![3e200, 4e200], Order::Two, 5e200),
        (vec![3e-200, 4e-200], Order::Two, 5e-200),
        (vec![3.0, 4.0], Order::Two, 5.0),
        (vec![5e-324; 4], Order::Two, 1e-323),
        (vec![1e308, 1e308], Order::One, f64::INFINITY),
        (vec![1e308, -2.0], Order::Infinity, 1e308),
        (vec![f64::MAX; 4], Order::Two, f64::INFINITY),
        (vec![], Order::Two, 0.0),
    ] {
        let mut out = vec![0.0; row.len()];
        let norm = clip_one(Isa::best(), &mut [(&row, &mut out)], clip::<f64>(1.0), order);

        let close = norm == expected || (norm / expected - 1.0).abs() < 1e-15;
        assert!(close, "{norm:e} for {expected:e}"); // three roundings of 2^-53 each
    }
}

#[test]
fn a_float_row_that_is_not_finite_becomes_zeros_of_norm_nan() {
    for order in [Order::One, Order::Two, Order::Infinity] {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut norms = [0.0; 3];
            let mut out = [9.0; 6];
            let data = [0.25, 0.5, 1.0, bad, 0.5, -0.0];

            clip_rows(Isa::best(), &data, 2, clip::<f64>(1.0), order, &mut out, &mut norms, ONE)
                .expect("lengths agree");

            assert_eq!([0.25, 0.5, 0.0, 0.0, 0.5, -0.0].map(f64::to_bits), out.map(f64::to_bits));
            assert!(norms[1].is_nan() && norms[0].is_finite() && norms[2] == 0.5);
        }
    }
}

#[test]
fn threads_change_no_float_row() {
    let mut draw = Draw(6);
    for (rows, width) in [(1, 5), (1000, 700), (3, 100_000), (5, 0)] {
        let data: Vec<f32> = (0..rows * width).map(|_| draw.unit() as f32).collect();
        let run = |count| {
            let (mut out, mut norms) = (vec![0.0; data.len()], vec![9.0; rows]);
            let norm = clip::<f32>(1.0);
            clip_rows(Isa::best(), &data, width, norm, Order::Two, &mut out, &mut norms, threads(count)).expect("ok");
            (out, norms)
        };
        assert!(run(1) == run(2) && run(1) == run(7));
    }
}
