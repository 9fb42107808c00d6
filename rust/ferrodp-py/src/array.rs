//! The one place where numpy arrays become slices.
//!
//! Python hands over arrays that it has already made aligned and native and, but for rows of clipped sums, C-contiguous;
//! anything else is refused here, not copied, except rows that are said to be foreign. An array is borrowed for the whole
//! call, so that other calls of this library cannot touch it in between; arrays of trees that are added are looked at in [`crate::sums::tree`] instead, and not borrowed.
//! Writing to it from another thread by other means is the caller's bug; the worst outcome is wrong numbers in that
//! array, for kernels read each element once and trust none of them.

use ferrodp_core::clip::{Element, Form, Leaf, Rows};
use ferrodp_core::machine::memory::{gathered, push, room};
use ferrodp_core::math::integer::Integer;
use numpy::{
    BorrowError, IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn,
    PyReadwriteArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySequence, PyString};

use crate::error::Error;

/// An array of either float type, borrowed for writing.
pub(crate) enum FloatsMut<'py> {
    Single(PyReadwriteArrayDyn<'py, f32>),
    Double(PyReadwriteArrayDyn<'py, f64>),
}

impl<'py> FloatsMut<'py> {
    /// Borrows `array`.
    ///
    /// # Errors
    /// If it is no float32 or float64 array, not C-contiguous, read-only, or borrowed already.
    pub(crate) fn new(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
            return borrow(array).map(Self::Single);
        }
        if let Ok(array) = array.cast::<PyArrayDyn<f64>>() {
            return borrow(array).map(Self::Double);
        }
        Err(PyTypeError::new_err("array must have dtype float32 or float64"))
    }
}

/// An array of a signed integer type, borrowed for writing.
pub(crate) enum WholesMut<'py> {
    Short(PyReadwriteArrayDyn<'py, i32>),
    Long(PyReadwriteArrayDyn<'py, i64>),
}

impl<'py> WholesMut<'py> {
    /// Borrows `array`.
    ///
    /// # Errors
    /// If it is no int32 or int64 array, not C-contiguous, read-only, or borrowed already.
    pub(crate) fn new(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = array.cast::<PyArrayDyn<i32>>() {
            return borrow(array).map(Self::Short);
        }
        if let Ok(array) = array.cast::<PyArrayDyn<i64>>() {
            return borrow(array).map(Self::Long);
        }
        Err(PyTypeError::new_err("array must have dtype int32 or int64"))
    }
}

/// Arrays of one float type, borrowed for reading.
pub(crate) enum Floats<'py> {
    Single(Vec<PyReadonlyArrayDyn<'py, f32>>),
    Double(Vec<PyReadonlyArrayDyn<'py, f64>>),
}

impl<'py> Floats<'py> {
    /// Borrows `arrays`.
    ///
    /// # Errors
    /// If they are not all float32 or all float64, or borrowed for writing.
    pub(crate) fn new(arrays: &[Bound<'py, PyAny>]) -> PyResult<Self> {
        room_for_borrows(arrays.len())?;
        if arrays.first().is_none_or(|array| array.cast::<PyArrayDyn<f32>>().is_ok()) {
            return borrow_all(arrays).map(Self::Single);
        }
        borrow_all(arrays).map(Self::Double)
    }
}

/// Arrays of one float type, borrowed for writing.
pub(crate) enum FloatsMutAll<'py> {
    Single(Vec<PyReadwriteArrayDyn<'py, f32>>),
    Double(Vec<PyReadwriteArrayDyn<'py, f64>>),
}

impl<'py> FloatsMutAll<'py> {
    /// Borrows `arrays`; see [`Floats::new`].
    pub(crate) fn new(arrays: &[Bound<'py, PyAny>]) -> PyResult<Self> {
        room_for_borrows(arrays.len())?;
        if arrays.first().is_none_or(|array| array.cast::<PyArrayDyn<f32>>().is_ok()) {
            return all(arrays.iter().map(borrow_as)).map(Self::Single);
        }
        all(arrays.iter().map(borrow_as)).map(Self::Double)
    }
}

/// Returns arrays of shape `(count, …)`, of any strides, as rows in leaves.
pub(crate) fn rows<'a, T>(arrays: &'a [PyReadonlyArrayDyn<'_, T>], count: usize) -> PyResult<Rows<'a, T>>
where
    T: numpy::Element + Element,
{
    let leaves = all(arrays.iter().map(|array| leaf(array, count)))?;
    Rows::of(leaves, count).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// An array that rows are copied from: of any type that rows may have, in either byte order, aligned or not. It comes as its
/// bits, in this machine's byte order.
pub(crate) struct ForeignArray<'py> {
    form: Form,
    swapped: bool,
    bits: Bits<'py>,
}

/// Arrays of words of some size, borrowed for reading.
enum Bits<'py> {
    Short(PyReadonlyArrayDyn<'py, u16>),
    Single(PyReadonlyArrayDyn<'py, u32>),
    Long(PyReadonlyArrayDyn<'py, u64>),
}

impl<'py> ForeignArray<'py> {
    /// Borrows the bits of arrays, each with the name of its dtype and whether its bytes are swapped.
    ///
    /// # Errors
    /// If one is no array of words of that size, or borrowed for writing; if there is no memory for so many.
    pub(crate) fn all(arrays: &[(Bound<'py, PyAny>, Bound<'py, PyString>, bool)]) -> PyResult<Vec<Self>> {
        room_for_borrows(arrays.len())?;
        all(arrays.iter().map(Self::new))
    }

    fn new((bits, dtype, swapped): &(Bound<'py, PyAny>, Bound<'py, PyString>, bool)) -> PyResult<Self> {
        let (form, bits) = match dtype.to_str()? {
            "float16" => (Form::Half, Bits::Short(read(bits.cast()?)?)),
            "bfloat16" => (Form::Brain, Bits::Short(read(bits.cast()?)?)),
            "float32" => (Form::Single, Bits::Single(read(bits.cast()?)?)),
            "float64" => (Form::Double, Bits::Long(read(bits.cast()?)?)),
            _ => return Err(PyValueError::new_err("rows must be of a type that rows may have")),
        };
        Ok(Self { form, swapped: *swapped, bits })
    }

    /// Whether its elements are of `f64`.
    pub(crate) fn is_double(&self) -> bool {
        self.form == Form::Double
    }

    /// Returns it, of shape `(count, …)`, as a leaf.
    pub(crate) fn leaf(&self, count: usize) -> PyResult<Leaf<'_>> {
        let (start, shape, strides) = match &self.bits {
            Bits::Short(bits) => (bits.data().cast::<u8>(), bits.shape(), bits.strides()),
            Bits::Single(bits) => (bits.data().cast(), bits.shape(), bits.strides()),
            Bits::Long(bits) => (bits.data().cast(), bits.shape(), bits.strides()),
        };
        let mut axes = shape.iter().copied().zip(strides.iter().copied());
        // A single row may come without an axis of rows.
        let row = if count == 1 { (1, 0) } else { axes.next().unwrap_or((1, 0)) };
        if row.0 != count {
            return Err(PyValueError::new_err("rows must be as many as said"));
        }
        // SAFETY: shape and strides of an array, borrowed as long as the leaf is used, lead to its elements.
        Ok(unsafe { Leaf::new(self.form, self.swapped, start, row.1, axes) })
    }
}

/// Returns the elements of arrays with those of others, one by one, in C order.
pub(crate) fn pairs<'a, T: numpy::Element>(
    arrays: &'a [PyReadonlyArrayDyn<'_, T>],
    others: &'a [PyReadonlyArrayDyn<'_, T>],
) -> PyResult<Vec<(&'a [T], &'a [T])>> {
    if arrays.len() != others.len() {
        return Err(PyValueError::new_err("there must be as many arrays of one as of the other"));
    }
    Ok(gathered(slices(arrays)?.into_iter().zip(slices(others)?)).map_err(Error::from)?)
}

/// Returns an array of shape `(count, …)` as a leaf.
fn leaf<'a, T>(array: &'a PyReadonlyArrayDyn<'_, T>, count: usize) -> PyResult<Leaf<'a>>
where
    T: numpy::Element + Element,
{
    let start: *const T = array.data().cast_const().cast();
    let (shape, strides) = (array.shape(), array.strides());
    let mut axes = shape.iter().copied().zip(strides.iter().copied());
    // A single row may come without an axis of rows.
    let row = if count == 1 { (1, 0) } else { axes.next().unwrap_or((1, 0)) };
    if row.0 != count {
        return Err(PyValueError::new_err("rows must be as many as said"));
    }
    // SAFETY: shape and strides of an array, borrowed as long as the leaf is used, lead to its elements.
    Ok(unsafe { Leaf::new(T::FORM, false, start.cast(), row.1, axes) })
}

/// Returns the elements of every array, in C order.
pub(crate) fn slices<'a, T: numpy::Element>(arrays: &'a [PyReadonlyArrayDyn<'_, T>]) -> PyResult<Vec<&'a [T]>> {
    all(arrays.iter().map(|array| Ok(array.as_slice()?)))
}

/// Returns the elements of every array, in C order, for writing.
pub(crate) fn slices_mut<'a, T: numpy::Element>(
    arrays: &'a mut [PyReadwriteArrayDyn<'_, T>],
) -> PyResult<Vec<&'a mut [T]>> {
    all(arrays.iter_mut().map(|array| Ok(array.as_slice_mut()?)))
}

/// So many pieces fit into the reserve of small memory.
const FEW_PIECES: usize = 60;

/// Looks whether there is memory to note so many borrowed arrays.
///
/// The tables in which the `numpy` crate notes them cannot say that there is none, and end the process: one of 41 bytes a slot,
/// with up to 16/7 slots an array when it has just doubled, beside the one before, and one of some 200 bytes for each array. So as
/// much is had, and given back, before.
///
/// # Errors
/// `MemoryError`
fn room_for_borrows(arrays: usize) -> PyResult<()> {
    // mutant: tables-of-borrows-have-no-room
    Ok(room_for_pieces::<512>(arrays)?)
}

/// Looks whether there is memory for so many things that have small pieces of their own, `BYTES` each.
///
/// # Errors
/// `MemoryError`
pub(crate) fn room_for_pieces<const BYTES: usize>(count: usize) -> crate::error::Result<()> {
    if count > FEW_PIECES {
        core::hint::black_box(room::<[u8; BYTES]>(count)?.as_mut_ptr());
    }
    Ok(())
}

/// Returns an array with these elements.
///
/// # Errors
/// `MemoryError`
pub(crate) fn array<'py, T: numpy::Element + Copy>(py: Python<'py>, items: &[T]) -> PyResult<Bound<'py, PyArray1<T>>> {
    Ok(gathered(items.iter().copied()).map_err(Error::from)?.into_pyarray(py))
}

fn borrow_all<'py, T: numpy::Element>(arrays: &[Bound<'py, PyAny>]) -> PyResult<Vec<PyReadonlyArrayDyn<'py, T>>> {
    let borrow = |array: &Bound<'py, PyAny>| read(array.cast::<PyArrayDyn<T>>()?);
    all(arrays.iter().map(borrow))
}

fn borrow_as<'py, T: numpy::Element>(array: &Bound<'py, PyAny>) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    borrow(array.cast::<PyArrayDyn<T>>()?)
}

/// Integers by their place, as `(place, is negative, bytes of the magnitude, least significant first)`.
pub(crate) type Integers<'py> = List<(usize, bool, Bound<'py, PyBytes>)>;

/// Returns the integers.
///
/// # Errors
/// If there is no memory for them.
pub(crate) fn integers(given: &Integers<'_>) -> crate::error::Result<Vec<(usize, Integer)>> {
    let bytes = given.iter().map(|(_, _, bytes)| bytes.as_bytes().len() + 64).fold(0, usize::saturating_add);
    if given.len() > FEW_PIECES {
        core::hint::black_box(room::<u8>(bytes)?.as_mut_ptr());
    }
    let integer = |bytes: &Bound<'_, PyBytes>, negative| Integer::from_le_bytes(negative, bytes.as_bytes());
    Ok(gathered(given.iter().map(|(place, negative, bytes)| (*place, integer(bytes, *negative))))?)
}

/// A sequence of arguments. There may be as many as the caller likes, so there may be no memory for them.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'py, T: for<'a> FromPyObject<'a, 'py>> FromPyObject<'_, 'py> for List<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let sequence = object.cast::<PySequence>()?;
        let mut items = room(sequence.len()?).map_err(Error::from)?;
        for item in sequence.try_iter()? {
            push(&mut items, item?.extract().map_err(Into::into)?).map_err(Error::from)?;
        }
        Ok(Self(items))
    }
}

impl<T> core::ops::Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Returns what all give, or the first error, or that there is no memory for so much.
pub(crate) fn all<T>(items: impl ExactSizeIterator<Item = PyResult<T>>) -> PyResult<Vec<T>> {
    let mut found = room(items.len()).map_err(Error::from)?;
    for item in items {
        push(&mut found, item?).map_err(Error::from)?;
    }
    Ok(found)
}

/// A one-dimensional array, borrowed for reading: a slice as long as it is held.
pub(crate) struct Vector<'py, T: numpy::Element>(PyReadonlyArray1<'py, T>);

/// A vector of floats.
pub(crate) type Numbers<'py> = Vector<'py, f64>;

impl<'py, T: numpy::Element> FromPyObject<'_, 'py> for Vector<'py, T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let array = object.cast::<PyArray1<T>>()?;
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err("array must be C-contiguous"));
        }
        array.try_readonly().map(Self).map_err(|_| Error::in_use().into())
    }
}

impl<T: numpy::Element> core::ops::Deref for Vector<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_slice().expect("only contiguous arrays become vectors")
    }
}

/// Checks that columns have the length of one of them.
///
/// # Errors
/// `InvalidArray`, naming the first that has not.
pub(crate) fn same_length(one: &[f64], others: &[(&'static str, &[f64])]) -> crate::error::Result<()> {
    for &(name, column) in others {
        if column.len() != one.len() {
            return Err(ferrodp_core::Error::Length { name, given: column.len(), needed: one.len() }.into());
        }
    }
    Ok(())
}

/// Borrows `array` for reading.
///
/// # Errors
/// `InvalidArray` if another call writes to it.
pub(crate) fn read<'py, T: numpy::Element>(array: &Bound<'py, PyArrayDyn<T>>) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    array.try_readonly().map_err(|_| Error::in_use().into())
}

/// Borrows `array` for writing.
///
/// # Errors
/// `InvalidArray` if another call uses it; `ValueError` if it is not C-contiguous or read-only.
pub(crate) fn borrow<'py, T: numpy::Element>(
    array: &Bound<'py, PyArrayDyn<T>>,
) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("array must be C-contiguous"));
    }
    array.try_readwrite().map_err(|error| match error {
        BorrowError::AlreadyBorrowed => Error::in_use().into(),
        other => PyValueError::new_err(other.to_string()),
    })
}
