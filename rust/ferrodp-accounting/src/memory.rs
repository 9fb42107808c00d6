//! Vectors whose length a question decides.
//!
//! A vector of the standard library ends the process where memory runs out. Here a question is given up instead: what makes one of
//! these vectors unwinds to [`asked`], which returns an error. Formulas stay formulas, without an error in every line.
//! Nothing is lost, as no answer exists before a question is answered, and what is remembered between questions is only
//! added to when it is complete.

use core::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ferrodp_core::Error;
use ferrodp_core::machine::memory;

/// What is unwound with: no panic, so no hook reports it.
struct OutOfMemory;

/// Returns what `question` returns.
///
/// # Errors
/// [`Error::OutOfMemory`] if there was no memory for one of its vectors.
///
/// # Panics
/// With whatever else it panics with.
pub fn asked<R>(question: impl FnOnce() -> R) -> Result<R, Error> {
    catch_unwind(AssertUnwindSafe(question)).map_err(|payload| match payload.downcast::<OutOfMemory>() {
        Ok(_) => Error::OutOfMemory,
        Err(panic) => resume_unwind(panic),
    })
}

fn had<T>(memory: Result<T, Error>) -> T {
    // mutant: accounting-goes-on-without-memory
    memory.unwrap_or_else(|_| resume_unwind(Box::new(OutOfMemory)))
}

/// Returns an empty vector with room for `len` elements.
pub(crate) fn room<T>(len: usize) -> Vec<T> {
    had(memory::room(len))
}

/// Returns `len` elements of one value.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    had(memory::filled(value, len))
}

/// Returns all that an iterator gives.
pub(crate) fn gathered<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    had(memory::gathered(items))
}

/// Returns the same elements once more.
pub(crate) fn copied<T: Clone>(items: &[T]) -> Vec<T> {
    gathered(items.iter().cloned())
}

/// Appends an element.
#[inline(always)]
pub(crate) fn push<T>(items: &mut Vec<T>, item: T) {
    had(memory::push(items, item));
}

/// Appends elements.
pub(crate) fn extend<T>(items: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    for item in more {
        push(items, item);
    }
}

/// Sorts stably: the standard library then needs as much memory as the elements have, which is had, and given back, before.
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl FnMut(&T, &T) -> Ordering) {
    core::hint::black_box(room::<T>(items.len()).as_mut_ptr());
    items.sort_by(compare);
}

/// Makes room for more elements.
pub(crate) fn grow<T>(items: &mut Vec<T>, by: usize) {
    had(items.try_reserve(by).map_err(Error::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_memory_is_given_up() {
        assert_eq!(Err(Error::OutOfMemory), asked(|| room::<u64>(usize::MAX).len()));
        assert_eq!(Err(Error::OutOfMemory), asked(|| filled(0.0, usize::MAX / 16).len()));
        assert_eq!(Err(Error::OutOfMemory), asked(|| gathered(0..u64::MAX / 16).len()));
        assert_eq!(Err(Error::OutOfMemory), asked(|| grow(&mut vec![1.0], usize::MAX / 16)));
        assert_eq!(Ok(3), asked(|| filled(0.0, 3).len()));
    }

    #[test]
    fn elements_stay_what_they_are_and_equal_ones_in_their_order() {
        let mut items = copied(&[(2, 'a'), (1, 'b'), (2, 'c')]);
        push(&mut items, (1, 'd'));
        extend(&mut items, [(0, 'e')]);
        sort_by(&mut items, |one, other| one.0.cmp(&other.0));

        assert_eq!(vec![(0, 'e'), (1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')], items);
    }

    #[test]
    fn another_panic_goes_on() {
        let caught = catch_unwind(|| asked(|| resume_unwind(Box::new(17_u64))));

        assert_eq!(Some(&17), caught.expect_err("a panic").downcast_ref::<u64>());
    }
}
