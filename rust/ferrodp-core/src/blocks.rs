//! Fixed blocks of a buffer, shared among scoped threads.
//!
//! Work is cut by block and never by thread, so that results cannot depend on the number of threads. No thread
//! outlives the call: a pool that survives a `fork` in the parent is a deadlock in the child.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::residue::leaving_nothing;

/// Elements that are worth a thread of their own: below it, starting one costs more than it saves.
const ELEMENTS_PER_THREAD: usize = 1 << 18;

/// The most threads that [`default_threads`] answers; memory bandwidth is shared.
const DEFAULT_LIMIT: usize = 8;

/// Returns a sensible number of threads for `elements` elements: one for small work, at most 8.
#[must_use]
pub fn default_threads(elements: usize) -> NonZeroUsize {
    let worth = elements / ELEMENTS_PER_THREAD;
    if worth <= 1 {
        // Asking for the number of cores reads files: ten times the price of a small call.
        return NonZeroUsize::MIN;
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores.min(DEFAULT_LIMIT).min(worth)).unwrap_or(NonZeroUsize::MIN)
}

/// Calls `work(start, block)` for every block of `size` elements of `data`; `start` is the index of the block's first
/// element. The last block may be shorter. Blocks run on up to `threads` threads, in no stated order.
///
/// # Panics
/// If `size` is zero, or with whatever `work` panics with.
pub fn for_each_block<T, F>(data: &mut [T], size: usize, threads: NonZeroUsize, work: F)
where
    T: Send,
    F: Fn(usize, &mut [T]) + Sync,
{
    assert!(size > 0, "blocks have at least one element");
    let helpers = threads.get().min(data.len().div_ceil(size)).saturating_sub(1);
    // Whoever is free takes the next block: a thread that starts late leaves its work to the others.
    let queue = Mutex::new(data.chunks_mut(size).enumerate());
    on_threads(helpers, &|| {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, block)) = next else { return };
            work(index * size, block);
        }
    });
}

/// Calls `run` on this thread and on `helpers` others.
fn on_threads(helpers: usize, run: &(dyn Fn() + Sync)) {
    if helpers == 0 {
        return run(); // a scope is not free: a small call would feel it
    }
    thread::scope(|scope| {
        for _ in 0..helpers {
            // A thread that the system refuses to start is no error: the others do its share.
            // Its stack is kept for the next thread, so nothing may stay there.
            // mutant: threads-that-helped-leave-stacks-as-they
            let _ = thread::Builder::new().spawn_scoped(scope, || leaving_nothing(run));
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_visited_once_whatever_the_threads() {
        for len in [0, 1, 9, 10, 11, 100, 103] {
            for threads in [1, 2, 3, 7, 64] {
                let mut data = vec![0_usize; len];

                for_each_block(&mut data, 10, NonZeroUsize::new(threads).expect("positive"), |start, block| {
                    for (i, value) in block.iter_mut().enumerate() {
                        *value += start + i + 1;
                    }
                });

                assert_eq!((1..=len).collect::<Vec<_>>(), data, "{len} elements, {threads} threads");
            }
        }
    }

    #[test]
    fn blocks_start_at_multiples_of_their_size() {
        let mut data = [0_u8; 25];

        for_each_block(&mut data, 10, NonZeroUsize::new(2).expect("positive"), |start, block| {
            assert_eq!(0, start % 10);
            assert_eq!(10.min(25 - start), block.len());
        });
    }

    #[test]
    fn small_work_stays_on_one_thread() {
        assert_eq!(1, default_threads(0).get());
        assert_eq!(1, default_threads(1000).get());
    }
}
