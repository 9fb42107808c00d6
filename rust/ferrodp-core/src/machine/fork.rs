//! Which process of a family of forks this is, so that what must not be used twice can tell that it was inherited.
//!
//! Process ids cannot say that: they are reused, and every pid namespace has a process 1. A *generation* can. It is a
//! word that every child finds wiped: by the kernel, which misses no copy of the address space, not even one that a bare
//! `clone` made; and by a `pthread_atfork` handler, which runs before `fork` returns and also where the kernel does not
//! wipe. Whoever reads a wiped word writes the next number of a counter that is inherited, so no generation is one
//! that an ancestor had. (Two children of one parent may have the same; nothing gets from one to the other but by
//! being copied on purpose.)
//!
//! What belongs to one process remembers the generation it was made in and is refused in any other.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::machine::wiped::{Memory, Zeros};

// SAFETY: an integer.
unsafe impl Zeros for AtomicU64 {}

/// The largest generation that this process or an ancestor had; inherited.
static LAST_GENERATION: AtomicU64 = AtomicU64::new(0);

/// Where this process' generation is, zero if it has none yet. Null until somebody asks.
static CURRENT_GENERATION: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// Returns this process' generation: the same number until a fork, and in the child one that no ancestor had.
///
/// Where a fork could go unnoticed (neither wiped memory nor a handler to be had) every call returns another number,
/// so that nothing passes as this process' own.
#[must_use]
pub fn generation() -> u64 {
    let Some(word) = word() else { return next() };
    let generation = word.load(Ordering::Acquire);
    if generation != 0 {
        return generation;
    }
    // Another thread may be as far as this: the first number that is written counts for both.
    let proposed = next();
    match word.compare_exchange(0, proposed, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => proposed,
        Err(written) => written,
    }
}

fn next() -> u64 {
    LAST_GENERATION.fetch_add(1, Ordering::AcqRel) + 1
}

/// Returns the word that forks wipe, or `None` if there can be none. Takes no lock, which a fork could leave locked.
fn word() -> Option<&'static AtomicU64> {
    // SAFETY: what is stored below lives, and is never changed but through the atomic.
    if let Some(word) = unsafe { CURRENT_GENERATION.load(Ordering::Acquire).as_ref() } {
        return Some(word);
    }
    let handled = handle_forks();
    let word: &'static AtomicU64 = match Memory::new() {
        // mutant: child-that-no-handler-ran-in-keeps-parent
        Some(memory) => memory.leak(),
        None if handled => Box::leak(Box::default()),
        None => return None,
    };
    let pointer = core::ptr::from_ref(word).cast_mut();
    match CURRENT_GENERATION.compare_exchange(core::ptr::null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(word),
        // SAFETY: as above; what this thread made stays unused.
        Err(first) => unsafe { first.as_ref() },
    }
}

/// Has the word wiped in every child that `fork` makes; whether that could be arranged.
#[cfg(unix)]
fn handle_forks() -> bool {
    /// Runs in a child, where nothing but such stores is safe.
    extern "C" fn wipe() {
        // SAFETY: as in `word`.
        if let Some(word) = unsafe { CURRENT_GENERATION.load(Ordering::Acquire).as_ref() } {
            word.store(0, Ordering::Release);
        }
    }
    // SAFETY: `wipe` is safe to run in a child, and lives as long as the process: the module is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(wipe)) == 0 }
}

/// There is no fork.
#[cfg(not(unix))]
fn handle_forks() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_stays_the_same_in_all_threads() {
        let first = generation();

        let others: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(generation)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });

        assert_ne!(0, first);
        assert_eq!(vec![first; 8], others);
        assert_eq!(first, generation());
    }

    /// Returns what `look` returns in the child of `make`.
    #[cfg(target_os = "linux")]
    fn seen_by_child(make: impl FnOnce() -> i64, look: impl FnOnce() -> u64) -> u64 {
        let mut pipe = [0; 2];
        // SAFETY: `pipe` has room for both descriptors.
        assert_eq!(0, unsafe { libc::pipe(pipe.as_mut_ptr()) });
        let child = make();
        if child == 0 {
            let seen = look();
            // SAFETY: writes eight bytes of a live variable.
            unsafe { libc::write(pipe[1], (&raw const seen).cast(), 8) };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0);
        let mut seen = 0_u64;
        // SAFETY: reads eight bytes into a live variable.
        assert_eq!(8, unsafe { libc::read(pipe[0], (&raw mut seen).cast(), 8) });
        let child = i32::try_from(child).expect("a process id");
        // SAFETY: collects the child and closes what was opened above.
        unsafe { (libc::waitpid(child, core::ptr::null_mut(), 0), libc::close(pipe[0]), libc::close(pipe[1])) };
        seen
    }

    #[cfg(target_os = "linux")]
    fn fork() -> i64 {
        // SAFETY: the child only computes, writes to the pipe and leaves without running destructors.
        i64::from(unsafe { libc::fork() })
    }

    /// Copies the address space without telling the C library, so that no handler runs.
    #[cfg(target_os = "linux")]
    fn clone() -> i64 {
        // SAFETY: no flags but the signal that `waitpid` waits for, and no stack: what the `fork` system call did.
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn children_and_grandchildren_have_generations_of_their_own() {
        // What runs no handlers goes unnoticed where memory is not wiped.
        let ways: &[fn() -> i64] = if Memory::<AtomicU64>::new().is_some() { &[fork, clone] } else { &[fork] };
        for make in ways {
            let mine = generation();

            let child = seen_by_child(make, generation);
            let grandchild = seen_by_child(make, || {
                let (own, below) = (generation(), seen_by_child(make, generation));
                if below > own { below } else { 0 }
            });

            assert!(child > mine, "{child} after {mine}");
            assert!(grandchild > mine + 1, "{grandchild} two forks after {mine}");
            assert_eq!(mine, generation());
        }
    }
}
