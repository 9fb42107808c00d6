//! Rows shared among threads, each with sums of its own.

use core::num::NonZeroUsize;
use core::ops::Range;

use crate::blocks::for_each_block;
use crate::math::float_environment::in_default_environment;

/// Adds `count` rows to `sums` by `add`, which adds some of them on one thread and tells how many were within the clip norm
/// if all were certified; returns how many of all were.
pub(super) fn add(
    count: usize,
    sums: &mut [i64],
    threads: NonZeroUsize,
    add: impl Fn(Range<usize>, &mut [i64]) -> Option<u64> + Sync,
) -> Option<u64> {
    let share = count.div_ceil(threads.get());
    let mut parts: Vec<_> = (0..count).step_by(share).map(|start| (Vec::new(), start, None)).collect();
    for_each_block(&mut parts, 1, threads, |_, part| {
        for (part, start, within) in part {
            part.resize(sums.len(), 0);
            // mutant: thread-rows-added-twice
            *within = in_default_environment(|| add(*start..count.min(*start + share), part));
        }
    });
    for (part, _, _) in &parts {
        for (sum, more) in sums.iter_mut().zip(part) {
            *sum = sum.wrapping_add(*more); // cannot wrap: the count bounds it
        }
    }
    parts.iter().map(|(_, _, within)| *within).sum()
}
