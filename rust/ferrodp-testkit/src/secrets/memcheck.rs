//! Requests to valgrind's memcheck, which follows every bit that is not defined through memory and registers, and reports when
//! one decides a jump or is part of an address.
//!
//! That is what a secret must not do, so whoever calls the bits of a key undefined has them watched (A. Langley, "ctgrind",
//! 2010). Without valgrind the requests do nothing. The sequence of instructions is the one that `valgrind/valgrind.h`
//! documents for x86-64, the numbers are those of `valgrind/memcheck.h`.

/// Whether requests are known for this processor.
pub const IS_KNOWN: bool = cfg!(target_arch = "x86_64");

/// Answers 0 unless valgrind runs this program.
const IS_RUNNING: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
const MAKE_UNDEFINED: usize = 0x4d43_0001; // 'M', 'C'
const MAKE_DEFINED: usize = 0x4d43_0002;

/// Returns whether this program runs under valgrind.
#[must_use]
pub fn is_running() -> bool {
    request(IS_RUNNING, 0, 0) != 0
}

/// Returns how many reports there have been, repeated ones included; 0 without valgrind.
#[must_use]
pub fn count_reports() -> usize {
    request(COUNT_ERRORS, 0, 0)
}

/// Makes secrets of the values: from now on a jump or an address that depends on them is reported.
pub fn hide<T: Copy>(values: &mut [T]) {
    request(MAKE_UNDEFINED, values.as_mut_ptr().expose_provenance(), size_of_val(values));
}

/// Ends the secrecy of the values: whoever has released them may do what they like.
pub fn disclose<T: Copy>(values: &mut [T]) {
    request(MAKE_DEFINED, values.as_mut_ptr().expose_provenance(), size_of_val(values));
}

#[cfg(target_arch = "x86_64")]
fn request(code: usize, start: usize, length: usize) -> usize {
    let arguments = [code, start, length, 0, 0, 0];
    let mut answer = 0_usize;
    // SAFETY: the processor rotates rdi by 128 bits, that is not at all, and exchanges rbx with itself: only flags change.
    // Valgrind takes these instructions for a request, reads the six words that rax points to, which outlive it, and writes
    // rdx. No request above changes the program's memory; as for the compiler, it may have (no `nomem`), so that nothing
    // known of the bytes before is used after.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}

/// No request is known for this processor: it answers like one without valgrind.
#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_do_nothing_to_the_values() {
        let mut values = [1_i64, -2, 3];
        hide(&mut values);
        disclose(&mut values);
        assert_eq!([1, -2, 3], values);
    }
}
