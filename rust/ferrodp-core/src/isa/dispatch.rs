//! One body for every instruction set: kernels are plain loops over arrays, compiled under `#[target_feature]` shells.

use crate::isa::{Isa, Kind};

/// A computation whose `run` is inlined into a shell for each instruction set. All give the same bits.
pub(crate) trait Kernel {
    /// What it computes.
    type Output;

    /// Computes it. `NATIVE` tells that fused multiply-add and truncation are single instructions here; a kernel may
    /// use that only where the result is the same number.
    fn run<const NATIVE: bool>(self) -> Self::Output;

    /// The same with instructions of AVX-512 that the compiler does not find: it is called only where these are enabled.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_512(self) -> Self::Output
    where
        Self: Sized,
    {
        self.run::<true>()
    }
}

/// Returns what `kernel` computes, on the instructions of `isa`.
pub(crate) fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.kind() {
        Kind::Portable => portable(kernel),
        // Part of every CPU of this architecture.
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => kernel.run::<true>(),
        // SAFETY: an `Isa` of this kind exists only where the CPU has reported AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2(kernel) },
        // SAFETY: and of this kind only where it has reported AVX-512 F, BW, DQ and VL besides.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512(kernel) },
    }
}

/// The same for a kernel that gains too little by vectors of 512 bits to be compiled for them.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run_short<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    if isa.is_native() { run_256(isa, kernel) } else { portable(kernel) }
}

/// The same for a kernel that is run only where [`Isa::is_native`], and so is told `NATIVE`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run_native<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.kind() {
        Kind::Portable => unreachable!("a native kernel runs on native instructions"),
        // SAFETY: as above.
        Kind::Avx2 => unsafe { avx2(kernel) },
        // SAFETY: as above.
        Kind::Avx512 => unsafe { avx512(kernel) },
    }
}

/// The same for a kernel that gains nothing by vectors of 512 bits: there is one less to compile.
#[cfg(target_arch = "x86_64")]
fn run_256<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.kind() {
        Kind::Portable => unreachable!("a native kernel runs on native instructions"),
        // SAFETY: AVX2 and FMA are part of both.
        Kind::Avx2 | Kind::Avx512 => unsafe { avx2(kernel) },
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use {run as run_native, run as run_short};

// Never inlined: a kernel that several others run would become part of each.
#[inline(never)]
fn portable<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<{ cfg!(target_arch = "aarch64") }>()
}

// Never inlined: a kernel that another one runs would become part of it again.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run_512()
}

/// Bytes of a page: no CPU fetches ahead beyond it.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Bytes that one prefetch brings.
pub(crate) const CACHE_LINE: usize = 64;

/// Cache lines after which a CPU has noticed a stream of addresses.
const STREAM_START_LINES: usize = 8;

/// Asks for the first few cache lines of each page of so many elements, up to the second-level cache: CPUs that fetch by themselves
/// what follows in a stream of addresses begin anew with each page.
#[inline(always)]
pub(crate) fn prefetch_starts<T>(start: *const T, elements: usize) {
    for page in (0..elements * size_of::<T>()).step_by(PAGE_BYTES) {
        for line in 0..STREAM_START_LINES {
            prefetch_second(start.wrapping_byte_add(page + line * CACHE_LINE));
        }
    }
}

/// Asks for the cache line that holds this address, if there is one; a hint without effect on any result.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    prefetch_into::<3, T>(address);
}

/// The same for what is not read soon: up to the second-level cache. To bring lines from memory into the first, a CPU has
/// so few places that what it computes with in between waits.
#[inline(always)]
pub(crate) fn prefetch_second<T>(address: *const T) {
    prefetch_into::<2, T>(address);
}

/// Whether a core has a second-level cache of 2 MB, and reads what lies beyond at a quarter of its speed or less: there it is better
/// prefetched into the second, and in longer streams. Intel's servers of that kind have these instructions.
pub(crate) fn has_slow_l3() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512fp16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// With 3, the hint `_MM_HINT_T0`, into the first-level cache; with 2, `_MM_HINT_T1`, into the second.
#[inline(always)]
fn prefetch_into<const HINT: i32, T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program can see and never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<HINT>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Asks for all cache lines of so many elements, up to the second-level cache.
#[inline(always)]
pub(crate) fn prefetch_second_all<T>(start: *const T, elements: usize) {
    for line in (0..elements * size_of::<T>()).step_by(CACHE_LINE) {
        prefetch_second(start.wrapping_byte_add(line));
    }
}
