//! What a call leaves in memory: no key, no round key and no word of a keystream.
//!
//! Secrets pass through registers, and a compiler keeps registers on the stack wherever it likes, so wiping variables is
//! not enough: it misses the copies. Instead, whatever computes with a key does so inside [`leaving_nothing`], and four rules
//! together leave no copy:
//!
//! - *Stack.* All frames of the work lie below the frame of [`overwriting`], which overwrites [`STACK_BYTES`] bytes below itself
//!   when the work is done, panics included; fewer where the work is said to be less deep, for they are a good part of
//!   what a small call costs. Tests measure how deep the work gets on every path and hold it to that depth less
//!   `SIGNAL_FRAME`; so the frame that the kernel writes when a signal interrupts the deepest function, with
//!   all vector registers in it, is overwritten as well. What the work returns is no secret.
//! - *Registers.* Before that all vector registers and all scratch registers are set to zero, so neither a later signal
//!   nor a later function that saves what it finds in a register can bring anything back. (The other registers are the caller's
//!   own values again.)
//! - *Threads.* A helper thread does the same before it ends, for its stack is kept for the next thread ([`crate::machine::blocks`]).
//! - *Heap.* What outlives a function or grows is on the heap, is written there only, and is overwritten when it is dropped:
//!   keys, long-lived keystreams, big integers, candidates of a choice.
//!
//! The results themselves are the caller's, and so is what the system keeps of a process that it swaps out or suspends
//! during a call. The test of the whole reads the memory of a process from outside (`tests/random/test_memory_residue.py`).

use core::arch::asm;

use crate::isa::{Isa, Kind};

/// Bytes below the frame of [`overwriting`] that are overwritten, whatever the work.
pub(crate) const STACK_BYTES: usize = 40 << 10;

/// How much less deep work gets where the cipher is not that of the `aes` crate.
const LESS_WITH_INSTRUCTIONS: usize = 8 << 10;

/// Returns a depth for work on `isa` that has no buffers of `spared` bytes which the deepest has.
pub(crate) fn depth_without(isa: Isa, spared: usize) -> usize {
    STACK_BYTES - spared - if isa.kind() == Kind::Portable { 0 } else { LESS_WITH_INSTRUCTIONS }
}

/// Room for what the kernel and a handler put on the stack for a signal: with AVX-512 3.5 KB are for the registers.
#[cfg(test)]
pub(crate) const SIGNAL_FRAME: usize = 8 << 10;

/// Returns what `work` returns, having run it so that its registers and its stack frames leave nothing behind.
///
/// What does so is [`overwriting`], one function for all kinds of work.
pub(crate) fn leaving_nothing<R>(work: impl FnOnce() -> R) -> R {
    leaving_nothing_within(STACK_BYTES, work)
}

/// The same for work that is known to get no deeper than `depth`, a signal's frame included.
pub(crate) fn leaving_nothing_within<R>(depth: usize, work: impl FnOnce() -> R) -> R {
    let (mut work, mut result) = (Some(work), None);
    overwriting(depth, &mut || result = work.take().map(|work| work()));
    result.expect("the work was done")
}

/// Does the work and overwrites what it leaves.
#[inline(never)]
fn overwriting(depth: usize, work: &mut dyn FnMut()) {
    let _overwriting = Overwriting(depth);
    below(work);
}

/// A function of its own, so that everything that `work` does is below the frame of the caller.
#[inline(never)]
fn below(work: &mut dyn FnMut()) {
    work();
}

#[cfg(test)]
thread_local! {
    /// While a test measures depths, for which frames have to stay: how many bytes would have been overwritten at least.
    static MEASURED: core::cell::Cell<Option<usize>> = const { core::cell::Cell::new(None) };
}

/// Overwrites so many bytes on drop, below the frame that it is dropped in.
struct Overwriting(usize);

impl Drop for Overwriting {
    #[inline(always)]
    fn drop(&mut self) {
        // mutant: vector-registers-keep-round-keys
        clear_registers();
        #[cfg(test)]
        if let Some(least) = MEASURED.get() {
            return MEASURED.set(Some(least.min(self.0)));
        }
        // mutant: stack-overwritten
        overwrite_stack(self.0, 0);
    }
}

/// Sets all vector registers and all scratch registers to zero.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clear_registers() {
    use std::arch::is_x86_feature_detected as has;
    // Not what the kernel was chosen for but what the CPU has: `memcpy` and the `aes` crate look for themselves.
    if has!("avx512f") {
        // SAFETY: AVX-512 registers exist, and all that are changed are declared.
        unsafe {
            asm!(
                "vpxord zmm16, zmm16, zmm16",
                "vpxord zmm17, zmm17, zmm17",
                "vpxord zmm18, zmm18, zmm18",
                "vpxord zmm19, zmm19, zmm19",
                "vpxord zmm20, zmm20, zmm20",
                "vpxord zmm21, zmm21, zmm21",
                "vpxord zmm22, zmm22, zmm22",
                "vpxord zmm23, zmm23, zmm23",
                "vpxord zmm24, zmm24, zmm24",
                "vpxord zmm25, zmm25, zmm25",
                "vpxord zmm26, zmm26, zmm26",
                "vpxord zmm27, zmm27, zmm27",
                "vpxord zmm28, zmm28, zmm28",
                "vpxord zmm29, zmm29, zmm29",
                "vpxord zmm30, zmm30, zmm30",
                "vpxord zmm31, zmm31, zmm31",
                clobber_abi("sysv64"),
                options(nomem, nostack),
            );
        }
    }
    if has!("avx") {
        // SAFETY: AVX exists; registers 0 to 15 are cleared in all their width.
        unsafe { asm!("vzeroall", clobber_abi("sysv64"), options(nomem, nostack)) };
    } else {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            asm!(
                "pxor xmm0, xmm0",
                "pxor xmm1, xmm1",
                "pxor xmm2, xmm2",
                "pxor xmm3, xmm3",
                "pxor xmm4, xmm4",
                "pxor xmm5, xmm5",
                "pxor xmm6, xmm6",
                "pxor xmm7, xmm7",
                "pxor xmm8, xmm8",
                "pxor xmm9, xmm9",
                "pxor xmm10, xmm10",
                "pxor xmm11, xmm11",
                "pxor xmm12, xmm12",
                "pxor xmm13, xmm13",
                "pxor xmm14, xmm14",
                "pxor xmm15, xmm15",
                clobber_abi("sysv64"),
                options(nomem, nostack),
            );
        }
    }
    // SAFETY: scratch registers, all declared.
    unsafe {
        asm!(
            "xor eax, eax",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor esi, esi",
            "xor edi, edi",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r11d, r11d",
            clobber_abi("sysv64"),
            options(nomem, nostack),
        );
    }
}

/// Writes `word` all over the `bytes` bytes below the stack pointer of the function that this is inlined in, a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn overwrite_stack(bytes: usize, word: u64) {
    // SAFETY: without `nostack` the bytes below the stack pointer are the assembly's to use, so nothing lives there. They are
    // part of the stack: the work has just used most of them, and a stack that has no room for the rest faults, as it
    // would at the next deep call. The stack pointer is moved for tools that watch it, and put back.
    unsafe {
        asm!(
            "sub rsp, {bytes}",
            "mov rdi, rsp",
            "rep stosq",
            "add rsp, {bytes}",
            bytes = in(reg) bytes,
            inout("rcx") bytes / 8 => _,
            in("rax") word,
            out("rdi") _,
        );
    }
}

/// Sets all vector registers that calls do not preserve to zero, and all scratch registers.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn clear_registers() {
    // SAFETY: Neon is part of the architecture's baseline here, and all registers that are changed are declared.
    unsafe {
        asm!(
            "movi v0.2d, #0",
            "movi v1.2d, #0",
            "movi v2.2d, #0",
            "movi v3.2d, #0",
            "movi v4.2d, #0",
            "movi v5.2d, #0",
            "movi v6.2d, #0",
            "movi v7.2d, #0",
            "movi v8.2d, #0",
            "movi v9.2d, #0",
            "movi v10.2d, #0",
            "movi v11.2d, #0",
            "movi v12.2d, #0",
            "movi v13.2d, #0",
            "movi v14.2d, #0",
            "movi v15.2d, #0",
            "movi v16.2d, #0",
            "movi v17.2d, #0",
            "movi v18.2d, #0",
            "movi v19.2d, #0",
            "movi v20.2d, #0",
            "movi v21.2d, #0",
            "movi v22.2d, #0",
            "movi v23.2d, #0",
            "movi v24.2d, #0",
            "movi v25.2d, #0",
            "movi v26.2d, #0",
            "movi v27.2d, #0",
            "movi v28.2d, #0",
            "movi v29.2d, #0",
            "movi v30.2d, #0",
            "movi v31.2d, #0",
            "mov x0, #0",
            "mov x1, #0",
            "mov x2, #0",
            "mov x3, #0",
            "mov x4, #0",
            "mov x5, #0",
            "mov x6, #0",
            "mov x7, #0",
            "mov x8, #0",
            "mov x9, #0",
            "mov x10, #0",
            "mov x11, #0",
            "mov x12, #0",
            "mov x13, #0",
            "mov x14, #0",
            "mov x15, #0",
            "mov x16, #0",
            "mov x17, #0",
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
            options(nomem, nostack),
        );
    }
}

/// Writes `word` all over the `bytes` bytes below the stack pointer of the function that this is inlined in, a multiple of 16.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn overwrite_stack(bytes: usize, word: u64) {
    // SAFETY: as on x86-64; 16 bytes a step, from below up to the stack pointer.
    unsafe {
        asm!(
            "mov {end}, sp",
            "sub {at}, {end}, {bytes}",
            "mov sp, {at}",
            "2:",
            "stp {word}, {word}, [{at}], #16",
            "cmp {at}, {end}",
            "b.lo 2b",
            "mov sp, {end}",
            end = out(reg) _,
            at = out(reg) _,
            bytes = in(reg) bytes,
            word = in(reg) word,
        );
    }
}

/// Elsewhere vector registers are left to be used again.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn clear_registers() {}

/// Writes `word` all over a frame of [`STACK_BYTES`] bytes, which is where the frames of the work were.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(never)]
fn overwrite_stack(_: usize, word: u64) {
    let mut frame = [const { core::mem::MaybeUninit::<u64>::uninit() }; STACK_BYTES / 8];
    for place in &mut frame {
        // SAFETY: writes a variable; volatile, for nobody reads it.
        unsafe { core::ptr::write_volatile(place.as_mut_ptr(), word) };
    }
}

/// Returns how many bytes of the stack `work` uses: the bytes below this frame are marked, and the lowest mark that is gone
/// tells. Fails if fewer would have been overwritten, or no more than these and a signal's frame.
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(never)]
fn depth_of(work: &mut dyn FnMut()) -> usize {
    const MOST: usize = 1 << 20;
    const MARK: u64 = 0xa5c3_965a_3c69_5aa5;
    MEASURED.set(Some(usize::MAX));
    overwrite_stack(MOST, MARK);
    below(work);
    let depth = 8 * (words_above_marks::<MOST>(MARK) + 1);
    let overwritten = MEASURED.take().expect("measuring");
    assert!(depth + SIGNAL_FRAME <= overwritten, "{depth} bytes are used, and {overwritten} are overwritten");
    depth
}

/// Returns how many words there are between the lowest of the `BYTES` bytes below the stack pointer that is no mark any more
/// and the stack pointer.
#[cfg(all(test, target_arch = "x86_64"))]
#[inline(always)]
fn words_above_marks<const BYTES: usize>(mark: u64) -> usize {
    let words: usize;
    // SAFETY: reads the bytes that were marked, in the order of their addresses, until one is no mark.
    unsafe {
        asm!(
            "lea rdi, [rsp - {bytes}]",
            "repe scasq",
            bytes = const BYTES,
            inout("rcx") BYTES / 8 => words,
            in("rax") mark,
            out("rdi") _,
        );
    }
    words
}

/// As on x86-64; something at or above the stack pointer is no mark.
#[cfg(all(test, target_arch = "aarch64"))]
#[inline(always)]
fn words_above_marks<const BYTES: usize>(mark: u64) -> usize {
    let bytes: usize;
    // SAFETY: as on x86-64.
    unsafe {
        asm!(
            "mov {end}, sp",
            "sub {at}, {end}, {bytes}",
            "2:",
            "ldr {found}, [{at}], #8",
            "cmp {found}, {mark}",
            "b.eq 2b",
            "subs {bytes}, {end}, {at}",
            "csel {bytes}, {bytes}, xzr, hi",
            end = out(reg) _,
            at = out(reg) _,
            found = out(reg) _,
            mark = in(reg) mark,
            bytes = inout(reg) BYTES => bytes,
        );
    }
    bytes / 8
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::choice::bernoulli::{toss, toss_each_widened};
    use crate::choice::respond::Response;
    use crate::choice::select::{self, NoisyThreshold, Rate, choose_widened};
    use crate::discrete::{self, Discrete, Scale, Whole, fixed::FixedTime};
    use crate::isa::Isa;
    use crate::math::integer::Integer;
    use crate::params::Granularity;
    use crate::random::{Key, generator::Generator};
    use crate::sample::{self, Noise};

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    fn key() -> Key {
        Key::from_bytes([0x35; 32])
    }

    /// An integer that no float denotes.
    fn long() -> Integer {
        Integer::from_le_bytes(true, &(u64::MAX - 1).to_le_bytes())
    }

    #[inline(never)]
    fn uses(bytes: usize) {
        let mut frame = [0_u8; 20_000];
        core::hint::black_box(&mut frame)[..bytes].fill(7);
    }

    #[test]
    fn depths_are_measured() {
        let found = depth_of(&mut || uses(20_000));
        assert!((20_000..21_000).contains(&found), "{found}");
    }

    fn add_noise<T: sample::Element>(isa: Isa, widening: f64) -> usize {
        let mut deepest = 0;
        for law in [sample::Law::Gaussian, sample::Law::Laplace] {
            for exponent in [-1, -12, -20, -32, -43] {
                let granularity = Granularity::from_exponent(exponent).expect("in range");
                let noise = Noise::new(law, 1.0, granularity).expect("in range").with_widened_margins(widening);
                let (mut values, sums) = (vec![T::default(); 103], vec![0; 103]);
                deepest = deepest.max(depth_of(&mut || noise.add(isa, &key(), &mut values, ONE)));
                deepest = deepest.max(depth_of(&mut || noise.fill(isa, &key(), &mut values[..3], ONE)));
                deepest = deepest.max(depth_of(&mut || _ = noise.add_one(isa, &key(), 0.3)));
                for finer in [0, 17] {
                    let unit = Granularity::from_exponent(exponent - finer).expect("in range");
                    let release = &mut || {
                        noise.add_to_sums(isa, &key(), &sums, unit, Some(3.0), &mut values, ONE).expect("one length");
                    };
                    deepest = deepest.max(depth_of(release));
                }
                let integers = [(0, long()), (102, Integer::default())];
                deepest = deepest.max(depth_of(&mut || noise.steps(isa, &key(), &integers, &mut [0; 2])));
            }
        }
        deepest
    }

    fn add_discrete<T: Whole>(isa: Isa, widening: f64) -> usize {
        let mut deepest = 0;
        for law in [discrete::Law::Gaussian, discrete::Law::Laplace] {
            for ratio in [(1, 3), (64, 1), (1 << 45, 1)] {
                let scale = Scale::from_ratio(ratio.0, ratio.1).expect("in range");
                let sampler = Discrete::new(law, scale).with_widened_margins(widening);
                let mut values = vec![T::default(); 103];
                deepest = deepest.max(depth_of(&mut || sampler.add(isa, &key(), &mut values, ONE)));
                if let Ok(steady) = FixedTime::new(law, scale) {
                    deepest = deepest.max(depth_of(&mut || steady.add(isa, &key(), &mut values[..20], ONE)));
                }
            }
        }
        deepest
    }

    fn choose_all(isa: Isa, widening: f64) -> usize {
        let utilities: Vec<f64> = (0..40).map(|i| f64::from(i % 7) * 1.3).collect();
        let rate = Rate::new(0.3, 1.0, 2).expect("in range");
        let noises = [select::Noise::Gumbel, select::Noise::Exponential, select::Noise::Laplace];
        let choose = |noise| choose_widened(noise, rate, isa, &key(), &utilities, widening).expect("not empty");
        noises.map(|noise| depth_of(&mut || assert!(choose(noise) < 40))).into_iter().max().expect("three")
    }

    fn compare(isa: Isa, widening: f64) -> usize {
        let mut deepest = 0;
        for scales in [(1.0, 1.0), (1e-300, 1e300)] {
            let make = || NoisyThreshold::new(0.7, scales.0, scales.1, isa, &key()).expect("in range");
            deepest = deepest.max(depth_of(&mut || drop(make())));
            let (noisy, own) = (make(), Key::from_bytes([0x53; 32])); // one key for both noises would be an endless tie
            for query in [-1e3, 0.1, 0.7, 2.0, 1e300] {
                deepest = deepest.max(depth_of(&mut || _ = noisy.is_reached_widened(query, &own, widening)));
            }
            deepest = deepest.max(depth_of(&mut || _ = noisy.is_reached_by(&long(), &own)));
        }
        deepest
    }

    fn toss_all(isa: Isa, widening: f64) -> usize {
        let (mut coins, mut gammas) = (vec![0; 100], vec![0.5; 100]);
        let same = depth_of(&mut || toss(isa, &key(), (1, 2), &mut coins, ONE).expect("valid"));
        same.max(depth_of(&mut || toss_each_widened(isa, &key(), &mut gammas, ONE, widening).expect("valid")))
    }

    fn answer(isa: Isa) -> usize {
        let mut answers = vec![1_i64; 1003];
        let response = Response::new(0.5, 3).expect("in range");
        depth_of(&mut || response.apply(isa, &key(), &mut answers, ONE))
    }

    fn draw_words(isa: Isa) -> usize {
        let (mut bytes, mut generator) = (vec![0; 10_000], Generator::new(isa));
        let first = depth_of(&mut || key().fill(isa, &mut bytes));
        first.max(depth_of(&mut || _ = generator.next_u64().expect("entropy")))
    }

    /// Whatever decides, the filters or the exact comparisons that they are widened for, and on every instruction set.
    #[test]
    fn the_deepest_frames_and_a_signal_are_overwritten() {
        let mut worst = (0, String::new());
        for isa in Isa::available() {
            for widening in [0.0, 0.1, 2.0] {
                let exactly = if widening > 1.0 { f64::INFINITY } else { widening };
                let kinds: [(&str, &dyn Fn() -> usize); 9] = [
                    ("f32", &|| add_noise::<f32>(isa, widening)),
                    ("f64", &|| add_noise::<f64>(isa, widening)),
                    ("i32", &|| add_discrete::<i32>(isa, widening.min(0.9))),
                    ("i64", &|| add_discrete::<i64>(isa, widening.min(0.9))),
                    ("choice", &|| choose_all(isa, widening)),
                    ("threshold", &|| compare(isa, exactly)),
                    ("coins", &|| toss_all(isa, widening)),
                    ("answers", &|| answer(isa)),
                    ("words", &|| draw_words(isa)),
                ];
                for (what, depth) in kinds {
                    worst = worst.max((depth(), format!("{what} on {isa:?} widened by {widening}")));
                }
            }
        }
        assert!(worst.0 > 16 << 10, "a chunk of words and one of noise are on the stack: {worst:?}");
        assert!(worst.0 + SIGNAL_FRAME <= STACK_BYTES, "{worst:?}");
    }
}
