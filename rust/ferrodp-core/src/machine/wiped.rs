//! Memory that is zeros in every copy of the address space: `fork`, bare `clone`, whatever runs no handlers.
//!
//! Linux keeps that promise since 4.14 (`madvise`, `MADV_WIPEONFORK`). Elsewhere there is none to be had, and callers
//! have to do without. Some emulators (qemu-user before 8.0) accept any advice and follow none: whoever accepts advice that
//! does not exist is not believed.

/// What may lie in wiped memory.
///
/// # Safety
/// All bytes zero must be a valid value, and the type must not own anything.
pub(crate) unsafe trait Zeros {}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod pages {
    use core::ptr::NonNull;

    use zeroize::Zeroize;

    use super::Zeros;

    /// A value on pages of its own, zeros at first and in every child. Wiped on drop, and left out of core dumps.
    pub(crate) struct Memory<T: Zeros>(NonNull<T>);

    // SAFETY: the pages belong to this value alone, like a box.
    unsafe impl<T: Zeros + Send> Send for Memory<T> {}

    impl<T: Zeros> Memory<T> {
        /// Returns zeroed pages, or `None` if the kernel cannot wipe them or has none to give.
        pub(crate) fn new() -> Option<Self> {
            let (length, protection) = (size_of::<T>(), libc::PROT_READ | libc::PROT_WRITE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: asks for fresh pages anywhere; no existing memory is touched.
            let pages = unsafe { libc::mmap(core::ptr::null_mut(), length, protection, flags, -1, 0) };
            if pages == libc::MAP_FAILED {
                return None;
            }
            let memory = Self(NonNull::new(pages.cast())?);
            // SAFETY: advises about pages that were just mapped. `memory` unmaps them if the answer is no.
            // mutant: forked-child-keeps-state-of-bit-generator
            let advised = unsafe { libc::madvise(pages, length, libc::MADV_WIPEONFORK) };
            // SAFETY: as above; no advice has this number, so a kernel changes nothing and says so.
            let accepts_nonsense = unsafe { libc::madvise(pages, length, -1) } == 0;
            // Keep secrets out of core dumps where possible; having them wiped in children is what matters.
            // SAFETY: as above.
            let _ = unsafe { libc::madvise(pages, length, libc::MADV_DONTDUMP) };
            (advised == 0 && !accepts_nonsense).then_some(memory)
        }

        /// The value: what this process wrote, or zeros.
        pub(crate) fn value(&mut self) -> &mut T {
            // SAFETY: the pages are mapped, aligned and exclusively borrowed; zeros and written values are both valid.
            unsafe { self.0.as_mut() }
        }

        /// Keeps the pages as long as the process lives.
        pub(crate) fn leak(self) -> &'static T {
            let memory = core::mem::ManuallyDrop::new(self);
            // SAFETY: as in `value`, and nobody will unmap them.
            unsafe { memory.0.as_ref() }
        }
    }

    impl<T: Zeros> Drop for Memory<T> {
        fn drop(&mut self) {
            // SAFETY: these bytes are mapped and belong to us; zeros are a valid value.
            unsafe { core::slice::from_raw_parts_mut(self.0.as_ptr().cast::<u8>(), size_of::<T>()) }.zeroize();
            // SAFETY: unmaps what `new` mapped, which nobody can use any more.
            unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod pages {
    use core::marker::PhantomData;

    use super::Zeros;

    /// Not to be had on this system.
    pub(crate) struct Memory<T: Zeros>(core::convert::Infallible, PhantomData<T>);

    impl<T: Zeros> Memory<T> {
        pub(crate) fn new() -> Option<Self> {
            None
        }

        pub(crate) fn value(&mut self) -> &mut T {
            match self.0 {}
        }

        pub(crate) fn leak(self) -> &'static T {
            match self.0 {}
        }
    }
}

pub(crate) use pages::Memory;
