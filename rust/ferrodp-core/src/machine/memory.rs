//! Memory that may not be had: vectors whose length an argument decides.
//!
//! A vector of the standard library ends the process where memory runs out. Whatever grows with an argument is therefore made
//! here, and its caller gets an error; what a constant bounds need not be.

use crate::error::Error;

/// Returns an empty vector with room for `len` elements.
///
/// # Errors
/// [`Error::OutOfMemory`]
pub fn room<T>(len: usize) -> Result<Vec<T>, Error> {
    let mut room = Vec::new();
    room.try_reserve_exact(len)?;
    Ok(room)
}

/// Returns `len` elements of one value.
///
/// # Errors
/// [`Error::OutOfMemory`]
pub fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, Error> {
    let mut filled = room(len)?;
    filled.resize(len, value);
    Ok(filled)
}

/// Returns all that an iterator gives.
///
/// # Errors
/// [`Error::OutOfMemory`]
pub fn gathered<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, Error> {
    let items = items.into_iter();
    let (least, most) = items.size_hint();
    let mut gathered = room(least)?;
    if most == Some(least) {
        gathered.extend(items); // at once, without a look at the room for each
        return Ok(gathered);
    }
    for item in items {
        push(&mut gathered, item)?;
    }
    Ok(gathered)
}

/// Appends an element.
///
/// # Errors
/// [`Error::OutOfMemory`]
#[inline(always)]
pub fn push<T>(items: &mut Vec<T>, item: T) -> Result<(), Error> {
    if items.len() == items.capacity() {
        items.try_reserve(1)?; // doubles it
    }
    items.push(item);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_an_error() {
        assert_eq!(Err(Error::OutOfMemory), room::<u64>(usize::MAX));
        assert_eq!(Err(Error::OutOfMemory), filled(1_u64, usize::MAX / 16));
        assert_eq!(Err(Error::OutOfMemory), gathered(0..u64::MAX / 16));
    }

    #[test]
    fn what_there_is_holds_what_vectors_would() {
        assert_eq!(vec![7; 9], filled(7, 9).expect("memory"));
        assert_eq!((0..9).collect::<Vec<_>>(), gathered(0..9).expect("memory"));
        assert_eq!(vec![1, 3], gathered((0..4).filter(|n| n % 2 == 1)).expect("memory"));
        assert_eq!(5, room::<u8>(5).expect("memory").capacity());
    }
}
