//! The specification: the integers of one row, element by element. Every route answers to it, bit for bit, on every instruction set.

use super::rule::clip_norm::{ClipNorm, Stability};
use super::source::element::Element;
use crate::math::exact_sum::ExactSum;
use crate::params::{exp2, floor_log2};

/// `Σx²` of a row times `scale`, in the order that is part of the definition: leaf by leaf, in blocks of 4096 elements, these in chunks
/// of 32 whose last one fills the last lanes; lanes are folded in halves.
pub(super) fn sum_of_squares<T: Element>(leaves: &[&[T]], scale: f64) -> f64 {
    let mut total = 0.0;
    for block in leaves.iter().flat_map(|leaf| leaf.chunks(4096)) {
        let mut lanes = [0.0; 32];
        for chunk in block.chunks(32) {
            for (lane, x) in lanes[32 - chunk.len()..].iter_mut().zip(chunk) {
                *lane += (x.widen() * scale) * (x.widen() * scale);
            }
        }
        for half in [16, 8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        total += lanes[0];
    }
    total
}

/// The integers of a row, and whether its norm is at most `C`, exactly.
pub(super) fn quantized<T: Element>(leaves: &[&[T]], clip: ClipNorm, stability: Option<Stability>) -> (Vec<i64>, bool) {
    let elements = || leaves.iter().copied().flatten().map(|x| x.widen());
    if elements().any(|x| !x.is_finite()) {
        return (vec![0; elements().count()], false);
    }
    let (bound, steps) = (clip.value(), clip.granularity().reciprocal());
    let (mut row, mut limit) = (ExactSum::new(), ExactSum::new());
    elements().for_each(|x| row.add_square(x));
    limit.add_square(bound);
    let is_within = row <= limit;
    let largest = elements().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    if largest == 0.0 || (is_within && stability.is_none()) {
        return (elements().map(|x| (x * steps) as i64).collect(), is_within);
    }
    // Of `f64`, squares are formed again where they leave the range in which none that matters underflows, and none overflows.
    let (mut total, mut scale) = (sum_of_squares(leaves, 1.0), 1.0);
    if !T::SQUARES_FIT && !(1.183e-271..=1.071e301).contains(&total) {
        scale = exp2((-floor_log2(largest)).clamp(-1022, 1023));
        total = sum_of_squares(leaves, scale);
    }
    let mut norm = total.sqrt();
    if stability.is_some() && scale > 1.0 {
        (norm, scale) = (norm / scale, 1.0);
    }
    // Shrunk by more than all rounding errors together.
    let blocks: usize = leaves.iter().map(|leaf| leaf.len().div_ceil(1024) + 1).sum();
    let shrink = 1.0 - 4.0 * ((148 + blocks) as f64 * exp2(-53));
    let gamma = stability.map_or(0.0, Stability::value);
    let factor = bound / (norm + gamma * scale) * shrink * steps;
    (elements().map(|x| (x * scale * factor) as i64).collect(), is_within)
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::clip::route::{Route, Shape};
    use crate::clip::{Float, GridSum, Leaf, Rows};
    use crate::isa::Isa;

    /// Elements from a row and from a column to the next, of a leaf of so many rows and columns.
    type Strides = fn(usize, usize) -> (usize, usize);

    /// Rows of every kind: shorter and longer ones, at the bound, not finite, and far from what squares can hold.
    fn rows(count: usize, width: usize, bound: f64) -> Vec<f64> {
        let mut state = (count * 1000 + width) as u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / exp2(52) - 1.0
        };
        let mut data: Vec<f64> = (0..count * width).map(|_| draw()).collect();
        for (r, row) in data.chunks_mut(width).enumerate() {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let scale = match r % 9 {
                0..=2 => 3.0 * bound / norm,
                3 | 4 => 0.3 * bound / norm,
                5 => bound / norm,
                6 => exp2(if r % 2 == 0 { 1000 } else { -1000 }),
                _ => 1.0,
            };
            row.iter_mut().for_each(|x| *x *= scale);
            match r % 9 {
                7 => row[r % width] = if r % 2 == 0 { f64::INFINITY } else { f64::NAN },
                8 => {
                    row.fill(0.0);
                    row[r % width] = bound;
                }
                _ => {}
            }
        }
        data
    }

    /// Adds rows cut into leaves, each `(row, column)` elements apart, and compares their sums with those of the specification.
    fn check<T: Float>(
        route: Route,
        convert: fn(f64) -> T,
        count: usize,
        widths: &[usize],
        strides: Strides,
        threads: usize,
    ) {
        let (width, clip) = (widths.iter().sum(), ClipNorm::new::<T>(0.9).expect("in range"));
        let data: Vec<T> = rows(count, width, 0.9).into_iter().map(convert).collect();
        let mut first = 0;
        let memory: Vec<(Vec<T>, usize)> = widths
            .iter()
            .map(|of_leaf| {
                let (row, column) = strides(count, *of_leaf);
                let mut elements = vec![T::default(); row * count + column * of_leaf];
                for (r, c) in (0..count * of_leaf).map(|i| (i / of_leaf, i % of_leaf)) {
                    elements[r * row + c * column] = data[r * width + first + c];
                }
                first += of_leaf;
                (elements, *of_leaf)
            })
            .collect();
        let leaves = memory.iter().map(|(elements, of_leaf)| {
            let (row, column) = strides(count, *of_leaf);
            // SAFETY: these elements were just written.
            unsafe { Leaf::strided(elements.as_ptr(), row as isize, (*of_leaf, column as isize)) }
        });
        let batch = Rows::<T>::of(leaves.collect(), count).expect("of that type");
        let are_contiguous = batch.pieces().expect("memory").is_some();
        assert_eq!(route, Route::of(&Shape::of(&batch, are_contiguous), threads));
        for stability in [None, Some(Stability::new::<T>(0.1).expect("in range"))] {
            let (mut expected, mut within) = (vec![0; width], 0);
            for row in data.chunks(width) {
                let mut rest = row;
                let leaves: Vec<&[T]> =
                    widths.iter().map(|of_leaf| rest.split_off(..*of_leaf).expect("a leaf")).collect();
                let (integers, is_within) = quantized(&leaves, clip, stability);
                expected.iter_mut().zip(integers).for_each(|(sum, k)| *sum += k);
                within += u64::from(is_within);
            }
            for isa in Isa::available() {
                let mut sum = GridSum::new(clip, width).expect("memory").normalizing(stability);

                sum.add(isa, &batch, NonZeroUsize::new(threads).expect("positive")).expect("rows do not change");

                assert!(Ok(&expected[..]) == sum.integers(), "{route:?} on {isa:?}: {count} x {widths:?}");
                assert_eq!(Some(within), sum.count_within(), "{route:?} on {isa:?}: {count} x {widths:?}");
            }
        }
    }

    fn check_all<T: Float>(convert: fn(f64) -> T) {
        let (by_rows, by_columns): (Strides, Strides) = (|_, w| (w, 1), |count, _| (1, count));
        let apart: Strides = |_, w| (2 * w + 3, 2);
        for width in [1, 15, 17, 33, 100, 1025, 4097, 5000] {
            check(Route::SharedColumns, convert, 3, &[width], by_rows, 2);
            check(Route::RowTiles, convert, 21, &[width], by_rows, 1);
            check(Route::CopiedTiles, convert, 21, &[width], apart, 1);
            // One column is contiguous either way.
            check(Route::CopiedTiles, convert, 21, &[width + 1], by_columns, 1);
        }
        for threads in [1, 3] {
            check(Route::RowTiles, convert, 40, &[300, 64, 0, 100, 33], by_rows, threads);
            check(Route::CopiedTiles, convert, 40, &[3, 0, 1, 16, 31, 2, 40], by_rows, threads);
            check(Route::CopiedTiles, convert, 40, &[300, 64, 5], by_columns, threads);
        }
        for width in [1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 33, 63] {
            check(Route::Panels, convert, 100, &[width], by_rows, 1);
            check(Route::CopiedPanels, convert, 100, &[width], apart, 1);
            check(Route::ColumnPanels, convert, 100, &[width + 1], by_columns, 3);
        }
        for width in [64, 127, 129, 256] {
            check(Route::ColumnPanels, convert, 70, &[width], by_columns, 1);
        }
    }

    #[test]
    fn every_route_gives_the_integers_of_the_specification() {
        check_all(|x| x);
        check_all(|x| x as f32);
    }

    #[test]
    fn every_route_is_in_the_table_with_its_own_words() {
        let source = include_str!("route.rs");
        let table = include_str!("../clip.rs");
        for route in Route::ALL {
            let name = format!("{route:?}");
            let place = source.find(&format!("\n    {name},\n")).expect("a variant");
            let doc = source[..place].rsplit("///").next().expect("a comment").trim().trim_end_matches('.');
            assert!(table.contains(&format!("//! | `{name}` | {doc} |")), "{name}: {doc}");
        }
        assert_eq!(Route::ALL.len(), table.matches("//! | `").count());
    }
}
