//! Fixed blocks of a buffer, shared among scoped threads.
//!
//! Work is cut by block and never by thread, so that results cannot depend on the number of threads. No thread
//! outlives the call: a pool that survives a `fork` in the parent is a deadlock in the child.

use std::num::NonZeroUsize;
use std::thread;

/// Elements that are worth a thread of their own: below it, starting one costs more than it saves.
const ELEMENTS_PER_THREAD: usize = 1 << 18;

/// The most threads that [`default_threads`] answers; memory bandwidth is shared.
const DEFAULT_LIMIT: usize = 8;

/// Returns a sensible number of threads for `elements` elements: one for small work, at most 8.
#[must_use]
pub fn default_threads(elements: usize) -> NonZeroUsize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(DEFAULT_LIMIT);
    NonZeroUsize::new(cores.min(elements / ELEMENTS_PER_THREAD)).unwrap_or(NonZeroUsize::MIN)
}

/// Calls `work(start, block)` for every block of `size` elements of `data`; `start` is the index of the block's first
/// element. The last block may be shorter. Blocks run on up to `threads` threads, in no stated order.
///
/// A thread that the system refuses to start is no error: its share runs on the calling thread.
///
/// # Panics
/// If `size` is zero, or with whatever `work` panics with.
pub fn for_each_block<T, F>(data: &mut [T], size: usize, threads: NonZeroUsize, work: F)
where
    T: Send,
    F: Fn(usize, &mut [T]) + Sync,
{
    assert!(size > 0, "blocks have at least one element");
    let share = data.len().div_ceil(size).div_ceil(threads.get()) * size;
    if threads.get() == 1 || share >= data.len() {
        return run(data, 0, size, &work);
    }
    let work = &work;
    thread::scope(|scope| {
        let mut parts = data.chunks_mut(share).enumerate();
        let first = parts.next();
        for (index, part) in parts {
            // The part travels in a cell so that it can be taken back should no thread start.
            let cell = std::sync::Arc::new(std::sync::Mutex::new(Some(part)));
            let theirs = std::sync::Arc::clone(&cell);
            let job = move || {
                if let Some(part) = theirs.lock().ok().and_then(|mut part| part.take()) {
                    run(part, index * share, size, work);
                }
            };
            if thread::Builder::new().spawn_scoped(scope, job).is_err()
                && let Some(part) = cell.lock().ok().and_then(|mut part| part.take())
            {
                run(part, index * share, size, work);
            }
        }
        if let Some((_, part)) = first {
            run(part, 0, size, work);
        }
    });
}

/// Runs one share, block by block.
fn run<T>(part: &mut [T], start: usize, size: usize, work: &impl Fn(usize, &mut [T])) {
    for (index, block) in part.chunks_mut(size).enumerate() {
        work(start + index * size, block);
    }
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
