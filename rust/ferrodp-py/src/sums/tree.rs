//! Trees of many arrays, compared with a template in one walk that reads the arrays' own fields.
//!
//! An array of a few elements is added in a few nanoseconds, and borrowing it takes hundreds. So nothing is borrowed here:
//! where elements are is looked up while the interpreter's lock is held, and either it is held until they were read or the
//! arrays are referred to first, so that they live on. Another thread that writes to one of them during the call is the
//! caller's bug, as with any array; kernels trust no element.
//!
//! What is not plainly what the template asks for is left to Python, which knows all other ways and all refusals: containers
//! and arrays of other types, keys in another order, dtypes in another byte order, elements that are not aligned, one array
//! twice, other shapes.

use std::mem::offset_of;

use ferrodp_core::clip::{Float, Form, Leaf, Rows};
use ferrodp_core::machine::hashing::Map;
use ferrodp_core::machine::memory::{gathered, push, room};
use numpy::npyffi::{NPY_TYPES, NpyTypes, PyArray_Descr, PyArrayObject, get_type_object};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::array::all;
use crate::error::{Error, Result};

/// How many arrays before it is compared an array's axes are fetched; twice as many, its fields.
const ARRAYS_AHEAD: usize = 16;

/// Without an interpreter's lock, objects may change while their fields are read; headers are longer there.
const HAS_LOCK: bool = size_of::<ffi::PyObject>() == 2 * size_of::<usize>();

/// A tree of shapes, and the dtype of their arrays: `structure` as `ferrodp._base._trees` describes it.
#[pyclass(frozen, module = "ferrodp._native")]
pub(crate) struct Template {
    structure: Py<PyAny>,
    is_double: bool,
    root: Node,
    leaves: Leaves,
}

enum Node {
    Leaf,
    Branch(Branch),
}

struct Branch {
    /// Of a mapping.
    keys: Option<Vec<Py<PyAny>>>,
    children: Vec<Node>,
    /// Whether all children are leaves.
    is_flat: bool,
}

/// The shapes of all leaves, in order.
#[derive(Default)]
struct Leaves {
    /// Of leaves that follow each other and have one shape, that shape.
    shapes: Vec<Vec<isize>>,
    /// Which of these each leaf has.
    places: Vec<usize>,
    /// Of each of them, how many leaves there are up to the last that has it.
    ends: Vec<usize>,
    widths: Vec<usize>,
    /// Elements of all.
    elements: usize,
}

impl Leaves {
    fn push(&mut self, shape: Vec<usize>) -> PyResult<()> {
        let width = shape.iter().try_fold(1, |width: usize, len| width.checked_mul(*len));
        let width = width.ok_or_else(|| PyValueError::new_err("too many elements"))?;
        self.elements = self.elements.saturating_add(width);
        let shape = gathered(shape.into_iter().map(usize::cast_signed)).map_err(Error::from)?;
        if self.shapes.last() != Some(&shape) {
            push(&mut self.shapes, shape).map_err(Error::from)?;
            push(&mut self.ends, self.places.len()).map_err(Error::from)?;
        }
        push(&mut self.places, self.shapes.len() - 1).map_err(Error::from)?;
        *self.ends.last_mut().expect("one for each shape") += 1;
        push(&mut self.widths, width).map_err(Error::from)?;
        Ok(())
    }
}

#[pymethods]
impl Template {
    #[new]
    #[pyo3(signature = (structure, dtype, /))]
    fn new(structure: Bound<'_, PyAny>, dtype: &str) -> PyResult<Self> {
        let is_double = match dtype {
            "float32" => false,
            "float64" => true,
            _ => return Err(PyValueError::new_err("dtype must be 'float32' or 'float64'")),
        };
        let mut leaves = Leaves::default();
        let root = node(&structure, &mut leaves)?;
        Ok(Self { structure: structure.unbind(), is_double, root, leaves })
    }

    /// Returns how to make it again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Bound<'py, PyAny>, &'static str)) {
        let template = slf.get();
        let dtype = if template.is_double { "float64" } else { "float32" };
        (slf.get_type(), (template.structure.bind(slf.py()).clone(), dtype))
    }
}

fn node(structure: &Bound<'_, PyAny>, leaves: &mut Leaves) -> PyResult<Node> {
    if structure.is_exact_instance_of::<PyTuple>() {
        leaves.push(structure.extract()?)?;
        return Ok(Node::Leaf);
    }
    let children = structure.getattr("children")?.cast_into::<PyTuple>()?;
    let children = all(children.iter().map(|child| node(&child, leaves)))?;
    let keys = structure.getattr("keys")?.cast_into::<PyTuple>()?;
    let is_mapping = structure.getattr("kind")?.extract::<String>()? == "dict";
    let is_flat = children.iter().all(|child| matches!(child, Node::Leaf));
    let keys = if is_mapping { Some(all(keys.iter().map(|key| Ok(key.unbind())))?) } else { None };
    Ok(Node::Branch(Branch { keys, children, is_flat }))
}

/// Types of elements that a tree may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Single,
    Double,
    Half,
}

impl Kind {
    const fn form(self) -> Form {
        match self {
            Self::Half => Form::Half,
            Self::Single => Form::Single,
            Self::Double => Form::Double,
        }
    }

    const fn size(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

/// Where the arrays of a tree are that looks like its template.
pub(crate) struct Found<'a> {
    starts: Vec<*const ()>,
    runs: Vec<Run>,
    arrays: Vec<*mut PyArrayObject>,
    leaves: &'a Leaves,
    pub(crate) count: usize,
    pub(crate) kind: Kind,
}

// SAFETY: elements of arrays, which any thread may read.
unsafe impl Send for Found<'_> {}
// SAFETY: as above.
unsafe impl Sync for Found<'_> {}

impl Found<'_> {
    /// Returns references to the arrays, which make them live on. No Python code must have run since they were found.
    ///
    /// # Safety
    /// The interpreter's lock has been held all the time since then.
    pub(crate) unsafe fn hold(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        // SAFETY: the tree, which did not change since, refers to these objects.
        self.arrays.iter().map(|array| unsafe { Bound::from_borrowed_ptr(py, array.cast()).unbind() }).collect()
    }

    /// Elements of all rows.
    pub(crate) fn elements(&self) -> usize {
        self.leaves.elements.saturating_mul(self.count)
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.kind.size())
    }

    /// Returns the rows.
    ///
    /// # Safety
    /// The arrays live as long as the rows are used.
    pub(crate) unsafe fn rows<T: Float>(&self) -> Result<Rows<'_, T>> {
        let (form, size) = (self.kind.form(), self.kind.size().cast_signed());
        let runs = self.runs.iter().flat_map(|run| core::iter::repeat_n(run, run.leaves));
        let mut leaves = Vec::new();
        leaves.try_reserve_exact(self.starts.len())?;
        leaves.extend(self.starts.iter().zip(runs).map(|(start, &Run { width, row, column, .. })| {
            // SAFETY: shapes and strides of arrays lead to their elements.
            unsafe { Leaf::new(form, false, start.cast(), row * size, [(width, column * size)]) }
        }));
        Ok(Rows::of(leaves, self.count)?)
    }
}

/// Leaves that follow one another in a row and are laid out alike.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Run {
    /// How many there are.
    leaves: usize,
    /// Columns in each of them.
    width: usize,
    /// Elements from a row to the next, and from a column to the next.
    row: isize,
    column: isize,
}

impl Run {
    /// Adds so many more leaves to the runs.
    fn extend(runs: &mut Vec<Self>, more: Self) {
        match runs.last_mut() {
            Some(last) if *last == (Self { leaves: last.leaves, ..more }) => last.leaves += more.leaves,
            _ => runs.push(more),
        }
    }
}

impl Template {
    /// Returns where the arrays of `tree` are, one update or, if `stacked`, some along a first axis; `None` if it does not
    /// plainly look like the template.
    pub(crate) fn find(&self, tree: &Bound<'_, PyAny>, stacked: bool) -> Option<Found<'_>> {
        if !HAS_LOCK {
            return None;
        }
        let mut walk = Walk {
            leaves: &self.leaves,
            is_double: self.is_double,
            // SAFETY: the interpreter's lock is held, as `tree` proves.
            array_type: unsafe { get_type_object(tree.py(), NpyTypes::PyArray_Type) },
            front: usize::from(stacked),
            count: (!stacked).then_some(1),
            descr: core::ptr::null(),
            kind: Kind::Single,
            starts: room(self.leaves.places.len()).ok()?,
            runs: Vec::new(),
            arrays: room(self.leaves.places.len()).ok()?,
            like: Like::default(),
            seen: Seen::new(self.leaves.places.len())?,
        };
        walk.visit(tree.as_ptr(), &self.root)?;
        Some(Found {
            starts: walk.starts,
            runs: walk.runs,
            arrays: walk.arrays,
            leaves: &self.leaves,
            count: walk.count?,
            kind: walk.kind,
        })
    }
}

/// One walk through a tree. It runs no Python code, so nothing changes in between.
struct Walk<'a> {
    leaves: &'a Leaves,
    is_double: bool,
    array_type: *mut ffi::PyTypeObject,
    /// Axes in front of a leaf's own.
    front: usize,
    count: Option<usize>,
    /// The dtype object that the last array had, known to be of `kind`.
    descr: *const PyArray_Descr,
    kind: Kind,
    starts: Vec<*const ()>,
    runs: Vec<Run>,
    /// As far as they were found.
    arrays: Vec<*mut PyArrayObject>,
    like: Like,
    seen: Seen,
}

/// What was found of the last array that was looked at closely: all with its fields are like it.
#[derive(Default)]
struct Like {
    /// The first leaf after it that has another shape.
    end: usize,
    axes: usize,
    /// Its shape, then its strides, as they lie in memory, in pairs.
    words: [[isize; 2]; Self::MOST],
}

impl Like {
    /// Arrays with more axes are looked at closely, each.
    const MOST: usize = 4;
}

impl Walk<'_> {
    /// Looks at what is below a node.
    fn visit(&mut self, value: *mut ffi::PyObject, node: &Node) -> Option<()> {
        let Node::Branch(branch) = node else { return self.arrays(1, |_| Some(value)) };
        let size = branch.children.len().cast_signed();
        if let Some(keys) = &branch.keys {
            // SAFETY: the interpreter's lock is held, here and below, and the value is alive.
            if unsafe { ffi::PyDict_CheckExact(value) == 0 || ffi::PyDict_Size(value) != size } {
                return None;
            }
            let mut place = 0;
            let next = |i: usize| {
                let (mut key, mut item) = (core::ptr::null_mut(), core::ptr::null_mut());
                // SAFETY: the dict does not change in between, for no Python code runs.
                let is_there = unsafe { ffi::PyDict_Next(value, &raw mut place, &raw mut key, &raw mut item) != 0 };
                (is_there && is_same_key(key, keys.get(i)?.as_ptr())).then_some(item)
            };
            return self.children(branch, next);
        }
        // SAFETY: as above; items are borrowed from a container that does not change.
        unsafe {
            if ffi::PyList_CheckExact(value) != 0 && ffi::PyList_Size(value) == size {
                self.children(branch, |i| Some(ffi::PyList_GetItem(value, i.cast_signed())))
            } else if ffi::PyTuple_CheckExact(value) != 0 && ffi::PyTuple_Size(value) == size {
                self.children(branch, |i| Some(ffi::PyTuple_GetItem(value, i.cast_signed())))
            } else {
                None
            }
        }
    }

    fn children(&mut self, branch: &Branch, mut next: impl FnMut(usize) -> Option<*mut ffi::PyObject>) -> Option<()> {
        if branch.is_flat {
            return self.arrays(branch.children.len(), next);
        }
        branch.children.iter().enumerate().try_for_each(|(i, child)| self.visit(next(i)?, child))
    }

    /// Looks at so many arrays.
    fn arrays(&mut self, n: usize, mut next: impl FnMut(usize) -> Option<*mut ffi::PyObject>) -> Option<()> {
        let first = self.arrays.len();
        for i in 0..n {
            self.arrays.push(next(i)?.cast());
        }
        let held = core::mem::take(&mut self.arrays);
        let arrays = &held[first..];
        arrays[..n.min(2 * ARRAYS_AHEAD)].iter().for_each(|array| prefetch_fields(*array));
        for array in &arrays[..n.min(ARRAYS_AHEAD)] {
            prefetch_axes(*array, self.array_type)?;
        }
        let mut place = 0;
        while place < n {
            place += match self.like.axes {
                1 => self.alike::<1>(&arrays[place..])?,
                2 => self.alike::<2>(&arrays[place..])?,
                3 => self.alike::<3>(&arrays[place..])?,
                4 => self.alike::<4>(&arrays[place..])?,
                _ => 0,
            };
            if place < n {
                prepare(&arrays[place..], self.array_type)?;
                self.look(arrays[place])?;
                place += 1;
            }
        }
        self.arrays = held;
        Some(())
    }

    /// Takes the places of the first of these arrays, the next leaves, that are like the last one that was looked at closely, but
    /// for their addresses; returns how many there are.
    fn alike<const AXES: usize>(&mut self, arrays: &[*mut PyArrayObject]) -> Option<usize> {
        let (first, like) = (self.starts.len(), &self.like);
        let n = arrays.len().min(like.end.saturating_sub(first));
        let like_words: &[[isize; 2]; AXES] = like.words.first_chunk().expect("as many as axes");
        let (words, descr) = (*like_words, self.descr);
        let (mut alike, mut addresses) = (0_usize, 0);
        let starts = &mut self.starts.spare_capacity_mut()[..n];
        for (k, place) in starts.iter_mut().enumerate() {
            prepare(&arrays[k..], self.array_type)?;
            let array = arrays[k];
            // SAFETY: it is an array, whose fields do not change while the interpreter's lock is held; axes are as many as it
            // says, and strides follow the shape in memory if their addresses do.
            let start = unsafe {
                let fields = &raw const (*array).fields;
                let shape = (*fields).dimensions;
                let is_like = (*fields).nd as usize == AXES
                    && core::ptr::eq((*fields).descr, descr)
                    && core::ptr::eq((*fields).strides, shape.wrapping_add(AXES));
                // mutant: arrays-of-other-strides-found
                if !is_like || shape.cast::<[[isize; 2]; AXES]>().read() != words {
                    break;
                }
                (*fields).data.cast_const().cast::<()>()
            };
            // mutant: arrays-found-twice
            if !self.seen.is_new(array.addr()) {
                return None;
            }
            addresses |= start.addr();
            place.write(start);
            alike = alike.wrapping_add(1);
        }
        // mutant: arrays-not-aligned-found
        if addresses & (self.kind.size() - 1) != 0 {
            return None;
        }
        // SAFETY: so many more were written.
        unsafe { self.starts.set_len(first + alike) };
        if let Some(run) = self.runs.last_mut() {
            run.leaves += alike;
        }
        Some(alike)
    }

    /// Looks closely at an array, the next leaf.
    #[inline(never)]
    fn look(&mut self, array: *mut PyArrayObject) -> Option<()> {
        let leaf = self.starts.len();
        let (place, width) = (self.leaves.places[leaf], self.leaves.widths[leaf]);
        let lengths = &self.leaves.shapes[place];
        let rank = lengths.len();
        // SAFETY: it is an array, whose fields do not change while the interpreter's lock is held; axes are as many as it says.
        let (start, descr, shape, strides) = unsafe {
            let fields = &raw const (*array).fields;
            if usize::try_from((*fields).nd) != Ok(rank + self.front) {
                return None;
            }
            if rank + self.front == 0 {
                ((*fields).data, (*fields).descr, &[][..], &[][..])
            } else {
                let shape = core::slice::from_raw_parts((*fields).dimensions, rank + self.front);
                let strides = core::slice::from_raw_parts((*fields).strides, rank + self.front);
                ((*fields).data, (*fields).descr, shape, strides)
            }
        };
        // mutant: arrays-of-other-shapes-found
        if !shape[self.front..].iter().eq(lengths) {
            return None;
        }
        if self.front == 1 {
            let count = shape[0].cast_unsigned();
            // mutant: arrays-of-other-length-found
            if *self.count.get_or_insert(count) != count {
                return None;
            }
        }
        if !core::ptr::eq(descr, self.descr) {
            self.take_dtype(descr, leaf == 0)?;
        }
        let count = self.count?;
        if width == 0 || count == 0 {
            self.starts.push(core::ptr::without_provenance(size_of::<u64>()));
            Run::extend(&mut self.runs, Run { leaves: 1, width, row: 0, column: 1 });
            return Some(());
        }
        let size = self.kind.size().cast_signed();
        let row = if self.front == 1 && count > 1 { strides[0] } else { 0 };
        let column = stride(&shape[self.front..], &strides[self.front..], size)?;
        // mutant: columns-not-aligned-found
        if (row | column) & (size - 1) != 0 {
            return None;
        }
        let shift = size.trailing_zeros();
        let (row, column) = (row >> shift, column >> shift);
        // mutant: array-looked-at-closely-not-aligned
        if start.addr() & (self.kind.size() - 1) != 0 {
            return None;
        }
        // mutant: array-looked-at-closely-found-twice
        if !self.seen.is_new(array.addr()) {
            return None;
        }
        self.starts.push(start.cast_const().cast());
        Run::extend(&mut self.runs, Run { leaves: 1, width, row, column });
        if shape.len() <= Like::MOST {
            self.like = Like { end: self.leaves.ends[place], axes: shape.len(), ..Like::default() };
            let words = self.like.words.as_flattened_mut();
            words[..shape.len()].copy_from_slice(shape);
            words[shape.len()..2 * shape.len()].copy_from_slice(strides);
        }
        Some(())
    }

    /// Accepts a dtype object: any of the first array, and later those of the same kind.
    #[cold]
    fn take_dtype(&mut self, descr: *const PyArray_Descr, is_first: bool) -> Option<()> {
        // SAFETY: the dtype of an array; its first fields are the same in all versions of numpy.
        let (number, order) = unsafe { ((*descr).fields.type_num, (*descr).fields.byteorder) };
        let kind = match number {
            // A character of C has a sign on some CPUs.
            _ if order.to_ne_bytes() != *b"=" => return None,
            _ if number == NPY_TYPES::NPY_FLOAT as i32 && !self.is_double => Kind::Single,
            _ if number == NPY_TYPES::NPY_HALF as i32 && !self.is_double => Kind::Half,
            _ if number == NPY_TYPES::NPY_DOUBLE as i32 && self.is_double => Kind::Double,
            _ => return None,
        };
        // mutant: arrays-of-two-dtypes-found
        if !is_first && kind != self.kind {
            return None;
        }
        (self.descr, self.kind) = (descr, kind);
        Some(())
    }
}

/// Whether two keys are the same: one object, or equal strings or integers. No Python code runs.
fn is_same_key(key: *mut ffi::PyObject, other: *mut ffi::PyObject) -> bool {
    if core::ptr::eq(key, other) {
        return true;
    }
    // SAFETY: two objects that are alive; comparing plain strings or integers runs no code of theirs.
    unsafe {
        let are_strings = ffi::PyUnicode_CheckExact(key) != 0 && ffi::PyUnicode_CheckExact(other) != 0;
        let are_integers = ffi::PyLong_CheckExact(key) != 0 && ffi::PyLong_CheckExact(other) != 0;
        (are_strings || are_integers) && ffi::PyObject_RichCompareBool(key, other, ffi::Py_EQ) == 1
    }
}

/// Returns how many bytes apart the elements of a row are, if all are equally far apart; a size if there is one.
#[inline(always)]
fn stride(shape: &[isize], strides: &[isize], size: isize) -> Option<isize> {
    let mut found = None;
    for (len, stride) in shape.iter().zip(strides).rev() {
        if *len != 1 {
            let (column, span): (isize, isize) = found.unwrap_or((*stride, *stride));
            // mutant: axes-that-do-not-continue-found
            if *stride != span {
                return None;
            }
            found = Some((column, stride.wrapping_mul(*len)));
        }
    }
    Some(found.map_or(size, |(column, _)| column))
}

/// Asks for the fields of an array.
#[inline(always)]
fn prefetch_fields(array: *mut PyArrayObject) {
    prefetch(array.cast_const());
    prefetch(array.wrapping_byte_add(offset_of!(PyArrayObject, fields.descr)).cast_const());
}

/// Asks for the axes of an object; `None` if it is no array.
#[inline(always)]
fn prefetch_axes(array: *mut PyArrayObject, array_type: *mut ffi::PyTypeObject) -> Option<()> {
    // SAFETY: an object that a container refers to.
    if unsafe { ffi::Py_TYPE(array.cast()) } != array_type {
        return None;
    }
    // SAFETY: it is an array.
    prefetch(unsafe { (*array).fields.dimensions });
    Some(())
}

/// Asks for the fields and the axes of arrays some places after the first of these; `None` if they are none.
#[inline(always)]
fn prepare(arrays: &[*mut PyArrayObject], array_type: *mut ffi::PyTypeObject) -> Option<()> {
    if let Some(array) = arrays.get(2 * ARRAYS_AHEAD) {
        prefetch_fields(*array);
    }
    match arrays.get(ARRAYS_AHEAD) {
        Some(array) => prefetch_axes(*array, array_type),
        None => Some(()),
    }
}

/// Asks for the cache line that holds this address.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint without effect, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Addresses of objects, as bits of pages: most arrays lie where the one before lay.
struct Seen {
    /// The page of the last address, which of those seen it is, and its bits.
    page: usize,
    place: usize,
    bits: [u64; Self::WORDS],
    pages: Vec<[u64; Self::WORDS]>,
    places: Map<usize, usize>,
}

impl Seen {
    /// Bytes of a page, and bytes between two objects at least.
    const PAGE: usize = 1 << 12;
    const OBJECT: usize = 1 << 4;
    const WORDS: usize = Self::PAGE / Self::OBJECT / 64;

    /// No address yet; there is room for so many of objects that lie close together.
    fn new(objects: usize) -> Option<Self> {
        let pages = objects * size_of::<PyArrayObject>() / Self::PAGE + 1;
        let mut places = Map::default();
        places.try_reserve(pages).ok()?;
        Some(Self { page: 0, place: 0, bits: [0; Self::WORDS], pages: vec![[0; Self::WORDS]], places })
    }

    /// Whether an address is seen for the first time; `false` also if there is no memory to remember it.
    #[inline(always)]
    fn is_new(&mut self, address: usize) -> bool {
        if address / Self::PAGE != self.page && !self.turn_to(address / Self::PAGE) {
            return false;
        }
        let bit = address % Self::PAGE / Self::OBJECT;
        let (word, bit) = (&mut self.bits[bit / 64], 1 << (bit % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    #[inline(never)]
    fn turn_to(&mut self, page: usize) -> bool {
        if self.pages.try_reserve(1).is_err() || self.places.try_reserve(1).is_err() {
            return false;
        }
        self.pages[self.place] = self.bits;
        self.page = page;
        self.place = *self.places.entry(page).or_insert(self.pages.len());
        if self.place == self.pages.len() {
            self.pages.push([0; Self::WORDS]);
        }
        self.bits = self.pages[self.place];
        true
    }
}

/// Adds this file's class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Template>()
}
