//! The floating-point environment that Rust assumes, whatever the calling process has done to it.
//!
//! Libraries built with `-ffast-math` switch on flush-to-zero for the whole thread, and a caller may have changed the
//! rounding mode. Proven error bounds and same-bits-everywhere hold in the default environment, so every call that
//! computes runs inside [`in_default_environment`], which puts the caller's setting back.

/// Returns what `work` returns, having run it in the default floating-point environment.
///
/// The compiler may move floating-point instructions across the switch, but not out of a call, so `work` runs in a
/// function of its own.
pub fn in_default_environment<R>(work: impl FnOnce() -> R) -> R {
    let _guard = Guard::enter();
    isolated(work)
}

#[inline(never)]
fn isolated<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Holds the default environment for as long as it lives, panics included.
struct Guard {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    saved: u64,
}

#[cfg(target_arch = "x86_64")]
mod control {
    use core::arch::asm;

    /// Round to nearest, exceptions masked, subnormals kept.
    const DEFAULT: u32 = 0x1F80;

    /// Sets the default environment and returns the caller's.
    pub(super) fn enter() -> u64 {
        let mut saved = 0_u32;
        // SAFETY: stores the control register of this thread into a local; SSE2 is part of x86-64.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut saved, options(nostack, preserves_flags)) };
        if saved & !0x3F != DEFAULT {
            load(DEFAULT);
        }
        u64::from(saved)
    }

    /// Puts the caller's environment back.
    pub(super) fn leave(saved: u64) {
        let saved = saved as u32;
        if saved & !0x3F != DEFAULT {
            load(saved);
        }
    }

    fn load(value: u32) {
        // SAFETY: `value` is the architectural default or was read from the register, so no reserved bit is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use core::arch::asm;

    /// Sets the default environment and returns the caller's.
    pub(super) fn enter() -> u64 {
        let saved: u64;
        // SAFETY: reads the floating-point control register of this thread.
        unsafe { asm!("mrs {}, fpcr", out(reg) saved, options(nomem, nostack, preserves_flags)) };
        if saved != 0 {
            load(0);
        }
        saved
    }

    /// Puts the caller's environment back.
    pub(super) fn leave(saved: u64) {
        if saved != 0 {
            load(saved);
        }
    }

    fn load(value: u64) {
        // SAFETY: zero is the architectural default; anything else was read from the register.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
    }
}

impl Guard {
    fn enter() -> Self {
        Self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            saved: control::enter(),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        control::leave(self.saved);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use core::hint::black_box;

    #[inline(never)]
    fn quarter_of_the_smallest_normal() -> f64 {
        black_box(black_box(f64::MIN_POSITIVE) / black_box(4.0))
    }

    #[test]
    fn subnormals_survive_inside_and_flush_again_outside() {
        let flushing = 0x1F80_u32 | 0x8040;
        let default = 0x1F80_u32;
        // SAFETY: sets flush-to-zero and denormals-are-zero, both architectural bits, on this test's thread only.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const flushing) };

        let inside = in_default_environment(quarter_of_the_smallest_normal);
        let outside = quarter_of_the_smallest_normal();

        // SAFETY: puts the default back.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const default) };
        assert!(inside > 0.0);
        assert!(outside.to_bits() == 0);
    }
}
