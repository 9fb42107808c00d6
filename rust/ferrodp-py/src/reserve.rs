//! The allocator of the module: the system's, and a small reserve for when that has nothing left.
//!
//! What grows with an argument is allocated in ways that fail with an error. Everything else is small and bounded by constants: a key,
//! a big integer, an exception on its way to Python. Rust ends the process when such memory is not to be had, with
//! whatever else Python would have done about it. So pieces of fixed sizes are set aside in the module's own data, which costs
//! addresses and, until the first page is touched, no memory. They are lent only when the system has refused, and no
//! lock is taken that a fork could leave behind.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::alloc::System;

/// The allocator that everything in the module uses.
#[global_allocator]
static RESERVING_ALLOCATOR: Reserving = Reserving;

static SMALL_PIECES: Pieces<{ 64 << 8 }> = Pieces::new();
static MIDDLE_PIECES: Pieces<{ 64 << 12 }> = Pieces::new();
static LARGE_PIECES: Pieces<{ 64 << 16 }> = Pieces::new();

/// 64 pieces of one size, `BYTES` together, on pages of their own.
#[repr(C, align(4096))]
struct Pieces<const BYTES: usize> {
    bytes: UnsafeCell<[u8; BYTES]>,
    /// A bit for each piece that is lent.
    lent: AtomicU64,
}

// SAFETY: a piece is used by whoever set its bit, alone, until the bit is cleared.
unsafe impl<const BYTES: usize> Sync for Pieces<BYTES> {}

impl<const BYTES: usize> Pieces<BYTES> {
    const SIZE: usize = BYTES / 64;

    const fn new() -> Self {
        Self { bytes: UnsafeCell::new([0; BYTES]), lent: AtomicU64::new(0) }
    }

    /// Returns a piece that holds `layout`, or null.
    fn take(&self, layout: Layout) -> *mut u8 {
        // Pieces are aligned to their size, up to a page.
        if layout.size() > Self::SIZE || layout.align() > Self::SIZE.min(4096) {
            return core::ptr::null_mut();
        }
        let free = |lent: u64| (lent != u64::MAX).then(|| lent | (lent + 1));
        match self.lent.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            Ok(before) => self.bytes.get().cast::<u8>().wrapping_add(before.trailing_ones() as usize * Self::SIZE),
            Err(_) => core::ptr::null_mut(),
        }
    }

    /// Takes a piece back; whether it is one of these.
    fn put_back(&self, pointer: *mut u8) -> bool {
        let offset = pointer.addr().wrapping_sub(self.bytes.get().addr());
        if offset >= BYTES {
            return false;
        }
        self.lent.fetch_and(!(1 << (offset / Self::SIZE)), Ordering::Release);
        true
    }

    fn holds(&self, pointer: *mut u8) -> bool {
        pointer.addr().wrapping_sub(self.bytes.get().addr()) < BYTES
    }
}

struct Reserving;

#[cold]
#[inline(never)]
fn take(layout: Layout) -> *mut u8 {
    let mut piece = SMALL_PIECES.take(layout);
    if piece.is_null() {
        piece = MIDDLE_PIECES.take(layout);
    }
    // mutant: small-memory-not-in-reserve
    if piece.is_null() { LARGE_PIECES.take(layout) } else { piece }
}

/// Whether a pointer is one of a piece.
#[inline(always)]
fn is_lent(pointer: *mut u8) -> bool {
    SMALL_PIECES.holds(pointer) || MIDDLE_PIECES.holds(pointer) || LARGE_PIECES.holds(pointer)
}

/// Requests for much memory, counted and refused from some number on, as if the system had little left.
#[cfg(feature = "testing")]
pub(crate) mod refusals {
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    static FIRST_REFUSED: AtomicU64 = AtomicU64::new(u64::MAX);
    static LEAST_BYTES: AtomicUsize = AtomicUsize::new(0);

    /// Counts requests for at least so many bytes from 0 again; the one of that number and all later ones are refused.
    pub(crate) fn begin(first_refused: u64, least_bytes: usize) {
        FIRST_REFUSED.store(first_refused, Ordering::Relaxed);
        LEAST_BYTES.store(least_bytes, Ordering::Relaxed);
        REQUESTS.store(0, Ordering::Relaxed);
    }

    /// Returns how many requests there were since, and refuses none from now on.
    pub(crate) fn end() -> u64 {
        FIRST_REFUSED.store(u64::MAX, Ordering::Relaxed);
        REQUESTS.load(Ordering::Relaxed)
    }

    pub(super) fn refuses(bytes: usize) -> bool {
        bytes >= LEAST_BYTES.load(Ordering::Relaxed)
            && REQUESTS.fetch_add(1, Ordering::Relaxed) >= FIRST_REFUSED.load(Ordering::Relaxed)
    }
}

/// Whether a test has the system refuse this request.
#[inline(always)]
fn is_refused(_bytes: usize) -> bool {
    #[cfg(feature = "testing")]
    return refusals::refuses(_bytes);
    #[cfg(not(feature = "testing"))]
    false
}

// SAFETY: memory comes from the system's allocator, or is a piece that nobody else has, aligned and large enough; each goes back
// to where it came from. Nothing here panics.
unsafe impl GlobalAlloc for Reserving {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return take(layout);
        }
        // SAFETY: the caller's promise.
        let pointer = unsafe { System.alloc(layout) };
        if pointer.is_null() { take(layout) } else { pointer }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mut pointer = core::ptr::null_mut();
        if !is_refused(layout.size()) {
            // SAFETY: the caller's promise.
            pointer = unsafe { System.alloc_zeroed(layout) };
        }
        if !pointer.is_null() {
            return pointer;
        }
        let piece = take(layout);
        if !piece.is_null() {
            // SAFETY: the piece is ours and holds the layout; it may have been lent before.
            unsafe { piece.write_bytes(0, layout.size()) };
        }
        piece
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_lent(pointer) {
            let _ = SMALL_PIECES.put_back(pointer) || MIDDLE_PIECES.put_back(pointer) || LARGE_PIECES.put_back(pointer);
            return;
        }
        // SAFETY: the caller's promise, and it came from there.
        unsafe { System.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_lent(pointer) && (size < layout.size() || !is_refused(size)) {
            // SAFETY: the caller's promise, and it came from there.
            let larger = unsafe { System.realloc(pointer, layout, size) };
            if !larger.is_null() {
                return larger;
            }
        }
        // SAFETY: the caller promises that the size, rounded up to the alignment, is no more than a layout may have.
        let larger = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: of nonzero size, as the caller promises.
        let moved = unsafe { self.alloc(larger) };
        if !moved.is_null() {
            // SAFETY: both are valid for that many bytes and do not overlap; the old one came from this allocator.
            unsafe {
                core::ptr::copy_nonoverlapping(pointer, moved, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
        }
        moved
    }
}
