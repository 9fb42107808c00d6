//! Rows that are differences of two, formed and measured in one reading.
//!
//! A difference is that of the elements' own type, rounded to nearest, so the sums are those of the row written out by
//! anybody else. It is written out here as well, whole: a row is read twice, and forming a block at a time twice reads more
//! memory than the row has, in bursts that no CPU sees coming (twice the time, for a million columns). What was measured is
//! a copy that nobody else can write to.

use core::num::NonZeroUsize;

use super::element::Float;
use crate::clip::kernels::measure::{self, BLOCK_ELEMENTS};
use crate::error::Error;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};
use crate::machine::blocks::for_each_block;
use crate::math::float_environment::in_default_environment;

/// Blocks that a thread forms at a time.
const BLOCKS_PER_TASK: usize = 8;

/// Writes the row whose leaves are the differences `(from, minus)` to `row`, one leaf after the other, and returns its sum
/// of squares.
///
/// # Errors
/// [`Error::Length`] if the two of a leaf differ in length, [`Error::OutOfMemory`] if there is no memory for the row.
pub(in crate::clip) fn form<T: Float>(
    isa: Isa,
    leaves: &[(&[T], &[T])],
    row: &mut Vec<T>,
    threads: NonZeroUsize,
) -> Result<f64, Error> {
    if let Some((from, minus)) = leaves.iter().find(|(from, minus)| from.len() != minus.len()) {
        return Err(Error::Length { name: "minus", given: minus.len(), needed: from.len() });
    }
    let width: usize = leaves.iter().map(|(from, _)| from.len()).sum();
    row.try_reserve_exact(width.saturating_sub(row.len()))?;
    row.resize(width, T::default());
    let (mut rest, mut blocks) = (&mut row[..], Vec::new());
    blocks.try_reserve_exact(leaves.iter().map(|(from, _)| from.len().div_ceil(BLOCK_ELEMENTS)).sum())?;
    for (from, minus) in leaves {
        let (out, after) = rest.split_at_mut(from.len());
        let parts = from.chunks(BLOCK_ELEMENTS).zip(minus.chunks(BLOCK_ELEMENTS)).zip(out.chunks_mut(BLOCK_ELEMENTS));
        blocks.extend(parts.map(|((from, minus), out)| (from, minus, out, 0.0)));
        rest = after;
    }
    for_each_block(&mut blocks, BLOCKS_PER_TASK, threads, |_, blocks| {
        in_default_environment(|| {
            for (from, minus, out, total) in blocks {
                *total = dispatch::run(isa, Form { from, minus, out });
            }
        });
    });
    Ok(blocks.iter().fold(0.0, |sum, (_, _, _, total)| sum + total))
}

/// Writes the differences of a block of up to [`BLOCK_ELEMENTS`] elements, and returns the sum of their squares.
struct Form<'a, T> {
    from: &'a [T],
    minus: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Form<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> f64 {
        measure::form_block::<T, NATIVE>(self.from, self.minus, self.out)
    }
}
