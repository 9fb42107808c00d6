//! A generator with state, for libraries that want one: a buffer of words, each buffer under a fresh key.
//!
//! The buffer lives in memory that the kernel replaces by zeros in every copy of the address space (`fork`, bare
//! `clone`), so a child finds no state instead of its parent's: a process id could be reused, this cannot be missed.
//! Where the system has no such memory nothing is kept at all and every word is asked of the operating system.
//!
//! A key is asked of the operating system for one buffer, and wiped when that is full; words are wiped as they are handed
//! out. So whoever reads the memory, be it a core dump or what a process has inherited, learns what is left of one buffer:
//! no number already drawn, and none of the buffers to come. A machine that is snapshotted and revived twice does repeat
//! the rest of its buffer; `Noise` keeps no state and is the better choice for releases.
//!
//! Who draws words often cannot be told that the operating system gives no key. So the first bytes of a buffer are no words but a
//! key in reserve. It serves for the next buffer if none is to be had, and is overwritten by what it makes: the
//! numbers stay as unpredictable as AES-256 is, and those already drawn stay gone (a generator with *fast key erasure*: Bernstein,
//! "Fast-key-erasure random-number generators", 2017). Only whoever read the memory then knows the next buffers too, until
//! the operating system gives a key again.

use core::fmt;

use super::Key;
use crate::error::Error;
use crate::isa::Isa;
use crate::machine::residue::leaving_nothing;
use crate::machine::wiped;

/// Bytes drawn at once: whole blocks, and with their number a page of memory.
const BUFFER_BYTES: usize = 4080;

/// Words of a buffer that are never handed out: the key in reserve.
const RESERVED_WORDS: usize = 4;

/// What is in the wiped memory; all zeros is a valid value and means that there is no state.
#[repr(C)]
struct State {
    /// How many words of the buffer are unused: the first ones, of which the very first are the key in reserve. Zero in a child,
    /// and before the first word: there is no key in reserve.
    left: usize,
    buffer: [u8; BUFFER_BYTES],
}

// SAFETY: integers and arrays of integers.
unsafe impl wiped::Zeros for State {}

/// A stateful source of random words.
pub struct Generator {
    isa: Isa,
    /// `None` where memory cannot be wiped on fork.
    memory: Option<wiped::Memory<State>>,
}

impl Generator {
    /// Returns a generator; it draws its key with the first word, or before in [`Generator::prepare`].
    #[must_use]
    pub fn new(isa: Isa) -> Self {
        Self { isa, memory: wiped::Memory::new() }
    }

    /// Draws the first buffer. From now on words are to be had in this process, whatever the operating system answers, unless it
    /// has no memory that is wiped in children.
    ///
    /// # Errors
    /// If the operating system gives no key.
    pub fn prepare(&mut self) -> Result<(), Error> {
        match &mut self.memory {
            Some(memory) => refill(self.isa, memory.value()),
            None => {
                getrandom::u64()?;
                Ok(())
            }
        }
    }

    /// Returns the next 64 random bits.
    ///
    /// Always part of its caller: a result of this size is otherwise returned in memory, on the caller's stack, where the
    /// last word of a generator would stay.
    ///
    /// # Errors
    /// If a key is due, none is in reserve and the operating system gives none: with the first word, and in a child.
    #[inline(always)]
    pub fn next_u64(&mut self) -> Result<u64, Error> {
        let Some(memory) = &mut self.memory else {
            return Ok(getrandom::u64()?);
        };
        let state = memory.value();
        if state.left <= RESERVED_WORDS {
            refill(self.isa, state)?;
        }
        state.left -= 1;
        let word = &mut state.buffer.as_chunks_mut::<8>().0[state.left];
        let value = u64::from_le_bytes(*word);
        // SAFETY: writes eight bytes that are borrowed here; volatile, for nobody is going to read them.
        // mutant: bit-generator-keeps-words-that-it-handed-out
        unsafe { core::ptr::write_volatile(core::ptr::from_mut(word), [0; 8]) };
        Ok(value)
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generator(..)")
    }
}

/// Draws the next buffer, under a key that serves for nothing else.
#[cold]
#[inline(never)]
fn refill(isa: Isa, state: &mut State) -> Result<(), Error> {
    match Key::fresh() {
        Ok(key) => key.fill(isa, &mut state.buffer),
        // mutant: bit-generator-draws-on-zeros-in-a-child
        Err(_) if state.left == RESERVED_WORDS => leaving_nothing(|| {
            let mut key = Key::from_bytes([0; 32]);
            key.0.copy_from_slice(&state.buffer[..8 * RESERVED_WORDS]);
            // mutant: bit-generator-keeps-the-key-in-reserve
            key.fill(isa, &mut state.buffer);
        }),
        Err(error) => return Err(error),
    }
    state.left = BUFFER_BYTES / 8;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_do_not_repeat_across_buffers_and_generators() {
        let mut seen = std::collections::HashSet::new();
        for isa in Isa::available() {
            let mut generator = Generator::new(isa);
            for _ in 0..3 * BUFFER_BYTES / 8 {
                assert!(seen.insert(generator.next_u64().expect("entropy")));
            }
        }
    }

    #[test]
    fn words_that_were_handed_out_are_gone() {
        let mut generator = Generator::new(Isa::best());
        let words: Vec<_> = (0..10).map(|_| generator.next_u64().expect("entropy")).collect();
        let Some(memory) = &mut generator.memory else { return };

        let state = memory.value();

        assert!(state.buffer[BUFFER_BYTES - 80..].iter().all(|byte| *byte == 0));
        assert!(state.buffer[..BUFFER_BYTES - 80].as_chunks::<8>().0.iter().all(|word| *word != [0; 8]));
        assert!(words.iter().all(|word| *word != 0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_draws_other_words() {
        let mut generator = Generator::new(Isa::best());
        generator.next_u64().expect("entropy");
        let mut pipe = [0; 2];
        // SAFETY: `pipe` has room for both descriptors.
        assert_eq!(0, unsafe { libc::pipe(pipe.as_mut_ptr()) });

        // SAFETY: the child only computes, writes to the pipe and leaves without running destructors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let word = generator.next_u64().unwrap_or(0);
            // SAFETY: writes eight bytes of a live variable.
            unsafe { libc::write(pipe[1], (&raw const word).cast(), 8) };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        let mut theirs = 0_u64;
        // SAFETY: reads eight bytes into a live variable, then collects the child.
        let read = unsafe { libc::read(pipe[0], (&raw mut theirs).cast(), 8) };
        // SAFETY: collects the child started above.
        unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };

        assert_eq!(8, read);
        assert_ne!(0, theirs);
        assert_ne!(generator.next_u64().expect("entropy"), theirs);
    }
}
