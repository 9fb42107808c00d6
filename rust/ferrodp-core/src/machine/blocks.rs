//! Fixed blocks of a buffer, shared among scoped threads.
//!
//! Work is cut by block and never by thread, so that results cannot depend on the number of threads. No thread
//! outlives the call: a pool that survives a `fork` in the parent is a deadlock in the child.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::machine::residue::leaving_nothing;

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

/// Calls `run` on this thread and on `helpers` others. What it panics with in one of those, it panics with here.
fn on_threads(helpers: usize, run: &(dyn Fn() + Sync)) {
    if helpers == 0 || !is_room_for(helpers) {
        return run(); // a scope is not free: a small call would feel it
    }
    let panic = Mutex::new(None);
    let help = || {
        // Its stack is kept for the next thread, so nothing may stay there.
        // mutant: threads-that-helped-leave-stacks-as-they
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| leaving_nothing(run))) {
            *panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            // A thread that the system refuses to start is no error: the others do its share.
            let _ = thread::Builder::new().spawn_scoped(scope, help);
        }
        run();
    });
    if let Some(payload) = panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
}

/// Whether the address space has room for so many threads: their stacks, and the arena that the C library's allocator reserves for
/// each. Where that is not to be had, a thread may start and then find no memory for its thread-local variables, at which the C
/// library ends the process; so the caller works alone.
#[cfg(target_os = "linux")]
fn is_room_for(threads: usize) -> bool {
    const STACK_AND_ARENA: usize = 136 << 20;
    let length = threads.saturating_mul(STACK_AND_ARENA);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: asks for addresses anywhere, without memory; no existing mapping is touched.
    let pages = unsafe { libc::mmap(core::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
    // SAFETY: unmaps what was just mapped, which nobody has used.
    pages != libc::MAP_FAILED && unsafe { libc::munmap(pages, length) } == 0
}

#[cfg(not(target_os = "linux"))]
fn is_room_for(_: usize) -> bool {
    true
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
    fn a_panic_in_any_thread_is_the_callers() {
        for threads in [1, 2, 4] {
            let threads = NonZeroUsize::new(threads).expect("positive");
            let caught = catch_unwind(|| {
                for_each_block(&mut [0_u8; 64], 1, threads, |_, _| {
                    // Every thread comes here: a block is long enough for all of them to take one.
                    thread::sleep(core::time::Duration::from_millis(2));
                    resume_unwind(Box::new(17_u64));
                });
            });

            assert_eq!(Some(&17), caught.expect_err("a panic").downcast_ref::<u64>());
        }
    }

    #[test]
    fn small_work_stays_on_one_thread() {
        assert_eq!(1, default_threads(0).get());
        assert_eq!(1, default_threads(1000).get());
    }
}
