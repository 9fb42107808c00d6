//! Clipping and sums; see `ferrodp.clipping`.

use core::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use ferrodp_core::Isa;
use ferrodp_core::checksum::{self, Checksum};
use ferrodp_core::clip::{
    ClipNorm, Float, GridSum, Leaf, Order, Rows, Stability, clip_one, clip_rows, clip_rows_in_place,
};
use ferrodp_core::machine::blocks::default_threads;
use ferrodp_core::machine::fork;
use ferrodp_core::machine::memory::gathered;
use ferrodp_core::sample::{self, Noise};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::array::{Floats, FloatsMut, FloatsMutAll, ForeignArray, List, all, pairs, rows, slices, slices_mut};
use crate::error::{Error, Result};
use crate::isa;
use crate::permit::KeyArg;
use crate::sums::tree::{Found, Kind, Template};
use crate::words::OrderArg;

/// Up to this many bytes are added with the interpreter's lock held: a small part of the time after which it changes hands.
const HELD_BYTES: usize = 1 << 20;

/// Returns the clip norm for rows of that dtype.
fn clip_norm(value: f64, dtype: &str) -> Result<ClipNorm> {
    match dtype {
        "float32" => Ok(ClipNorm::new::<f32>(value)?),
        "float64" => Ok(ClipNorm::new::<f64>(value)?),
        _ => Err(PyValueError::new_err("dtype must be 'float32' or 'float64'").into()),
    }
}

/// Returns the stability for rows of that dtype, if one is given.
fn stability(value: Option<f64>, dtype: &str) -> Result<Option<Stability>> {
    let checked = |value| match dtype {
        "float32" => Ok(Stability::new::<f32>(value)?),
        "float64" => Ok(Stability::new::<f64>(value)?),
        _ => Err(PyValueError::new_err("dtype must be 'float32' or 'float64'").into()),
    };
    value.map(checked).transpose()
}

/// Returns a sensible number of threads: an element costs a sixteenth of what noise does, and starting a thread as much.
fn threads_or_default(threads: Option<NonZeroUsize>, elements: usize) -> NonZeroUsize {
    threads.unwrap_or_else(|| default_threads(elements / 16))
}

/// A sum of clipped rows, and whether it was released. Never wait for its lock with the interpreter's lock held.
struct State {
    sum: GridSum,
    released: bool,
    /// Where differences are formed: memory that the next one uses again.
    single: Vec<f32>,
    double: Vec<f64>,
}

impl State {
    /// Returns the sum if it still takes part in anything.
    fn open(&mut self) -> Result<&mut GridSum> {
        // mutant: unusable-sum-released
        if self.released { Err(Error::state("this sum has been released; start a new one")) } else { Ok(&mut self.sum) }
    }

    /// Returns the noise of a release to `length` values, after everything that could refuse it.
    fn check<T: sample::Element>(&mut self, noise_multiplier: f64, length: usize) -> Result<Noise> {
        let sum = self.open()?;
        let needed = sum.integers()?.len();
        if needed != length {
            return Err(ferrodp_core::Error::Length { name: "out", given: length, needed }.into());
        }
        Ok(sum.clip().noise::<T>(noise_multiplier)?)
    }
}

/// The integers behind `ferrodp.GridSum` and `ferrodp.ClippedSum`.
#[pyclass(frozen, name = "GridSum", module = "ferrodp._native")]
struct PyGridSum {
    state: Mutex<State>,
    /// Of the process that may release it.
    generation: u64,
}

impl PyGridSum {
    fn wrap(sum: GridSum) -> Self {
        Self {
            state: Mutex::new(State { sum, released: false, single: Vec::new(), double: Vec::new() }),
            generation: fork::generation(),
        }
    }

    /// Whether this process made the sum, and did not inherit a copy of it.
    fn is_own(&self) -> bool {
        // mutant: sum-can-released-by-process-and-by-forked
        self.generation == fork::generation()
    }

    /// Locks the state. A panic under the lock has marked the sum as unusable already.
    ///
    /// # Errors
    /// In a forked child, if another thread held the lock at the fork: it is not there to open it again, and what it was
    /// doing is half done.
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        if self.is_own() {
            return Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::state("this sum was in use by another thread when the process was forked; start a new one"))
            }
        }
    }

    fn add_rows<T: Float>(&self, py: Python<'_>, rows: &Rows<'_, T>, threads: Option<NonZeroUsize>) -> Result<()> {
        let isa = isa::active()?;
        let threads = threads_or_default(threads, rows.width().saturating_mul(rows.count()));
        py.detach(|| Ok(self.lock()?.open()?.add(isa, rows, threads)?))
    }

    /// Adds the rows of a tree whose arrays are held as long as this call takes.
    ///
    /// # Safety
    /// They are.
    unsafe fn add_found<T: Float>(state: &mut State, isa: Isa, found: &Found<'_>, threads: NonZeroUsize) -> Result<()> {
        // SAFETY: the caller's promise.
        Ok(state.open()?.add(isa, &unsafe { found.rows::<T>()? }, threads)?)
    }

    fn subtract<T: Float>(
        &self,
        py: Python<'_>,
        leaves: &[(&[T], &[T])],
        room: fn(&mut State) -> &mut Vec<T>,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        let isa = isa::active()?;
        let threads = threads_or_default(threads, leaves.iter().map(|(from, _)| from.len()).sum());
        py.detach(|| {
            let mut state = self.lock()?;
            let mut row = core::mem::take(room(&mut state));
            let added = state.open().and_then(|sum| Ok(sum.add_difference(isa, leaves, &mut row, threads)?));
            *room(&mut state) = row;
            added
        })
    }

    fn release_to<T: Float + sample::Element>(
        &self,
        py: Python<'_>,
        out: &mut [T],
        noise_multiplier: f64,
        denominator: Option<f64>,
        key: KeyArg<'_>,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        let isa = isa::active()?;
        let threads = threads.unwrap_or_else(|| default_threads(out.len()));
        if !self.is_own() {
            return Err(Error::state(
                "a sum cannot be released in a forked child: its parent could release it as well; if the parent will not, \
                 pass its state() to from_state here",
            ));
        }
        // mutant: ticket-armed-before-sum-looked
        py.detach(|| self.lock()?.check::<T>(noise_multiplier, out.len()))?;
        // A ticket's Python code runs here, so not under the lock; another thread may release the sum in between.
        let key = key.draw(py)?;
        py.detach(|| {
            let mut state = self.lock()?;
            // mutant: sum-not-looked-at-again-after-ticket-armed
            let noise = state.check::<T>(noise_multiplier, out.len())?;
            state.released = true;
            (state.single, state.double) = Default::default();
            Ok(state.sum.release(isa, &key, &noise, denominator, out, threads)?)
        })
    }
}

#[pymethods]
impl PyGridSum {
    /// Returns the sum of no rows; of normalized ones if a stability is given.
    #[new]
    #[pyo3(signature = (width, value, dtype, normalizing = None, /))]
    fn new(width: usize, value: f64, dtype: &str, normalizing: Option<f64>) -> Result<Self> {
        let (clip, stability) = (clip_norm(value, dtype)?, stability(normalizing, dtype)?);
        Ok(Self::wrap(GridSum::new(clip, width)?.normalizing(stability)))
    }

    /// Returns the sum of `count` rows with these integers, of which `within` were within the clip norm.
    #[staticmethod]
    #[pyo3(signature = (integers, value, dtype, normalizing, count, within, /))]
    fn from_integers(
        integers: PyReadonlyArray1<'_, i64>,
        value: f64,
        dtype: &str,
        normalizing: Option<f64>,
        count: u64,
        within: Option<u64>,
    ) -> Result<Self> {
        let (clip, stability) = (clip_norm(value, dtype)?, stability(normalizing, dtype)?);
        let integers = integers.as_slice()?;
        let mut owned = Vec::new();
        owned.try_reserve_exact(integers.len())?;
        owned.extend_from_slice(integers);
        Ok(Self::wrap(GridSum::from_integers(clip, owned, count, within)?.normalizing(stability)))
    }

    /// Adds `count` rows, given in leaves of shape `(count, …)` and any strides.
    #[pyo3(signature = (leaves, count, threads, /))]
    fn add(
        &self,
        py: Python<'_>,
        leaves: List<Bound<'_, PyAny>>,
        count: usize,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        if count == 0 {
            return py.detach(|| self.lock()?.open().map(drop));
        }
        match Floats::new(&leaves)? {
            Floats::Single(leaves) => self.add_rows(py, &rows(&leaves, count)?, threads),
            Floats::Double(leaves) => self.add_rows(py, &rows(&leaves, count)?, threads),
        }
    }

    /// Adds `count` rows, given in leaves of shape `(count, …)` as the words that their elements are, the name of their dtype, and
    /// whether their bytes are in the other order.
    #[pyo3(signature = (leaves, count, threads, /))]
    fn add_foreign(
        &self,
        py: Python<'_>,
        leaves: List<(Bound<'_, PyAny>, Bound<'_, PyString>, bool)>,
        count: usize,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        if count == 0 {
            return py.detach(|| self.lock()?.open().map(drop));
        }
        let isa = isa::active()?;
        let arrays = ForeignArray::all(&leaves)?;
        let leaves = all(arrays.iter().map(|array| array.leaf(count)))?;
        let width = leaves.iter().map(Leaf::width).fold(0, usize::saturating_add);
        let threads = threads_or_default(threads, width.saturating_mul(count));
        let is_double = arrays.iter().any(ForeignArray::is_double);
        match is_double {
            true => {
                let rows = Rows::<f64>::of(leaves, count)?;
                py.detach(|| Ok(self.lock()?.open()?.add(isa, &rows, threads)?))
            }
            false => {
                let rows = Rows::<f32>::of(leaves, count)?;
                py.detach(|| Ok(self.lock()?.open()?.add(isa, &rows, threads)?))
            }
        }
    }

    /// Adds one update, or some that are stacked, in a tree that plainly looks like the template; `False` if it does not, and
    /// nothing was added.
    #[pyo3(signature = (template, tree, stacked, threads, /))]
    fn add_tree(
        &self,
        py: Python<'_>,
        template: &Bound<'_, Template>,
        tree: &Bound<'_, PyAny>,
        stacked: bool,
        threads: Option<NonZeroUsize>,
    ) -> Result<bool> {
        let template = template.get();
        let Some(found) = template.find(tree, stacked) else { return Ok(false) };
        if found.count == 0 {
            return py.detach(|| self.lock()?.open().map(|_| true));
        }
        let isa = isa::active()?;
        let threads = threads_or_default(threads, found.elements());
        let add = |state: &mut State| match found.kind {
            // SAFETY: until this call returns, the arrays are held, or nothing can let go of them.
            Kind::Single | Kind::Half => unsafe { Self::add_found::<f32>(state, isa, &found, threads) },
            // SAFETY: as above.
            Kind::Double => unsafe { Self::add_found::<f64>(state, isa, &found, threads) },
        };
        // What is soon done is done with the interpreter's lock, unless that would have to wait: then nothing can change.
        if found.bytes() <= HELD_BYTES {
            match self.state.try_lock() {
                Ok(mut state) => return add(&mut state).map(|()| true),
                Err(TryLockError::Poisoned(state)) => return add(&mut state.into_inner()).map(|()| true),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        // SAFETY: no Python code has run since the arrays were found.
        // mutant: arrays-not-held-while-they-are-added
        let held = unsafe { found.hold(py) };
        py.detach(|| add(&mut *self.lock()?))?;
        drop(held);
        Ok(true)
    }

    /// Adds one row: `leaves` less `minus`, both C-contiguous and of the sum's dtype.
    #[pyo3(signature = (leaves, minus, threads, /))]
    fn add_difference(
        &self,
        py: Python<'_>,
        leaves: List<Bound<'_, PyAny>>,
        minus: List<Bound<'_, PyAny>>,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        match (Floats::new(&leaves)?, Floats::new(&minus)?) {
            (Floats::Single(leaves), Floats::Single(minus)) => {
                self.subtract(py, &pairs(&leaves, &minus)?, |state| &mut state.single, threads)
            }
            (Floats::Double(leaves), Floats::Double(minus)) => {
                self.subtract(py, &pairs(&leaves, &minus)?, |state| &mut state.double, threads)
            }
            _ => Err(PyValueError::new_err("leaves and minus must have one dtype").into()),
        }
    }

    /// Adds what another sum holds.
    #[pyo3(signature = (other, /))]
    fn merge(&self, py: Python<'_>, other: &Self) -> Result<()> {
        if core::ptr::eq(self, other) {
            return Err(Error::state("a sum cannot be merged with itself: every row would count twice"));
        }
        py.detach(|| {
            // Always the same one first, whichever side the call is made from: two threads cannot block each other.
            let (mut mine, mut theirs);
            if core::ptr::from_ref(self) < core::ptr::from_ref(other) {
                mine = self.lock()?;
                theirs = other.lock()?;
            } else {
                theirs = other.lock()?;
                mine = self.lock()?;
            }
            Ok(mine.open()?.merge(theirs.open()?)?)
        })
    }

    /// Adds `count` rows with these integers, of which `within` were within the clip norm.
    #[pyo3(signature = (integers, count, within, /))]
    fn merge_integers(
        &self,
        py: Python<'_>,
        integers: PyReadonlyArray1<'_, i64>,
        count: u64,
        within: Option<u64>,
    ) -> Result<()> {
        let integers = integers.as_slice()?;
        py.detach(|| Ok(self.lock()?.open()?.merge_integers(integers, count, within)?))
    }

    /// How many rows were added.
    #[getter]
    fn count(&self, py: Python<'_>) -> Result<u64> {
        py.detach(|| Ok(self.lock()?.sum.count()))
    }

    /// How many rows were within the clip norm, if that is known.
    #[getter]
    fn within(&self, py: Python<'_>) -> Result<Option<u64>> {
        py.detach(|| Ok(self.lock()?.sum.count_within()))
    }

    /// The exponent of the grid.
    #[getter]
    fn granularity_exponent(&self, py: Python<'_>) -> Result<i32> {
        py.detach(|| Ok(self.lock()?.sum.clip().granularity().exponent()))
    }

    /// Whether noise was drawn for it.
    #[getter]
    fn released(&self, py: Python<'_>) -> Result<bool> {
        py.detach(|| Ok(self.lock()?.released))
    }

    /// Returns the number of rows, a copy of the integers and the number of rows within the clip norm, all of one moment.
    #[pyo3(signature = (/))]
    fn snapshot<'py>(&self, py: Python<'py>) -> Result<(u64, Bound<'py, PyArray1<i64>>, Option<u64>)> {
        let (count, integers, within) = py.detach(|| {
            let state = self.lock()?;
            let integers = state.sum.integers()?;
            let mut copy = Vec::new();
            copy.try_reserve_exact(integers.len())?;
            copy.extend_from_slice(integers);
            Ok::<_, Error>((state.sum.count(), copy, state.sum.count_within()))
        })?;
        Ok((count, integers.into_pyarray(py), within))
    }

    /// Returns `prefix`, the number of rows, that of rows within the clip norm, or 2⁶⁴ − 1 where that is not known, the
    /// integers, and the checksum of all that; 8 bytes each, little endian.
    ///
    /// `prefix` and the two numbers fill whole blocks of the checksum.
    #[pyo3(signature = (prefix, /))]
    fn state<'py>(&self, py: Python<'py>, prefix: &[u8]) -> Result<Bound<'py, PyBytes>> {
        let head = prefix.len() + 16;
        if !head.is_multiple_of(checksum::BLOCK_BYTES) {
            return Err(PyValueError::new_err("prefix and counts must fill whole blocks").into());
        }
        let width = py.detach(|| Ok::<_, Error>(self.lock()?.open()?.width()))?;
        let state = PyBytes::new_with(py, head + 8 * width + 8, |out| {
            py.detach(|| {
                let mut state = self.lock()?;
                let sum = state.open()?;
                let (front, rest) = out.split_at_mut(head);
                let (before, counts) = front.split_at_mut(prefix.len());
                before.copy_from_slice(prefix);
                counts[..8].copy_from_slice(&sum.count().to_le_bytes());
                counts[8..].copy_from_slice(&sum.count_within().unwrap_or(u64::MAX).to_le_bytes());
                let mut digest = Checksum::default();
                digest.update(front);
                let (body, end) = rest.split_at_mut(8 * width);
                let blocks = body.chunks_mut(64 * checksum::BLOCK_BYTES);
                for (bytes, integers) in blocks.zip(sum.integers()?.chunks(8 * checksum::BLOCK_BYTES)) {
                    for (word, k) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(integers) {
                        *word = k.to_le_bytes();
                    }
                    digest.update(bytes);
                }
                end.copy_from_slice(&digest.finish().to_le_bytes());
                Ok::<_, Error>(())
            })
            .map_err(PyErr::from)
        })?;
        Ok(state)
    }

    /// Writes the sum with noise to `out`, once.
    #[pyo3(signature = (out, noise_multiplier, denominator, key, threads, /))]
    fn release(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        noise_multiplier: f64,
        denominator: Option<f64>,
        key: KeyArg<'_>,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        match FloatsMut::new(out)? {
            FloatsMut::Single(mut out) => {
                let out = out.as_slice_mut()?;
                self.release_to(py, out, noise_multiplier, denominator, key, threads)
            }
            FloatsMut::Double(mut out) => {
                let out = out.as_slice_mut()?;
                self.release_to(py, out, noise_multiplier, denominator, key, threads)
            }
        }
    }
}

/// Writes the rows of `matrix`, or without one those that `out` holds, clipped, to `out` and returns their norms.
#[pyfunction(name = "clip_rows")]
#[pyo3(signature = (matrix, count, value, order_name, out, threads, /))]
fn clip_matrix<'py>(
    py: Python<'py>,
    matrix: Option<Bound<'py, PyAny>>,
    count: usize,
    value: f64,
    order_name: OrderArg,
    out: Bound<'py, PyAny>,
    threads: Option<NonZeroUsize>,
) -> Result<Bound<'py, PyArray1<f64>>> {
    let matrix = matrix.map(|matrix| Floats::new(&[matrix])).transpose()?;
    let norms = match (matrix, FloatsMutAll::new(&[out])?) {
        (None, FloatsMutAll::Single(mut out)) => {
            let clip = ClipNorm::new::<f32>(value)?;
            clip_slices(py, None, count, clip, order_name.0, slices_mut(&mut out)?.remove(0), threads)
        }
        (None, FloatsMutAll::Double(mut out)) => {
            let clip = ClipNorm::new::<f64>(value)?;
            clip_slices(py, None, count, clip, order_name.0, slices_mut(&mut out)?.remove(0), threads)
        }
        (Some(Floats::Single(matrix)), FloatsMutAll::Single(mut out)) => {
            let (matrix, clip) = (Some(slices(&matrix)?[0]), ClipNorm::new::<f32>(value)?);
            clip_slices(py, matrix, count, clip, order_name.0, slices_mut(&mut out)?.remove(0), threads)
        }
        (Some(Floats::Double(matrix)), FloatsMutAll::Double(mut out)) => {
            let (matrix, clip) = (Some(slices(&matrix)?[0]), ClipNorm::new::<f64>(value)?);
            clip_slices(py, matrix, count, clip, order_name.0, slices_mut(&mut out)?.remove(0), threads)
        }
        _ => Err(PyValueError::new_err("matrix and out must have one dtype").into()),
    }?;
    Ok(norms.into_pyarray(py))
}

fn clip_slices<T: Float>(
    py: Python<'_>,
    matrix: Option<&[T]>,
    count: usize,
    clip: ClipNorm,
    order: Order,
    out: &mut [T],
    threads: Option<NonZeroUsize>,
) -> Result<Vec<f64>> {
    let isa = isa::active()?;
    let threads = threads_or_default(threads, out.len());
    let width = out.len().checked_div(count).unwrap_or(0);
    py.detach(|| {
        let mut norms = Vec::new();
        norms.try_reserve_exact(count)?;
        norms.resize(count, 0.0);
        match matrix {
            Some(matrix) => clip_rows(isa, matrix, width, clip, order, out, &mut norms, threads)?,
            None => clip_rows_in_place(isa, width, clip, order, out, &mut norms, threads)?,
        }
        Ok(norms)
    })
}

/// Writes the leaves of one vector, clipped as a whole, to the arrays in `out` and returns its norm.
#[pyfunction]
#[pyo3(signature = (leaves, value, out, /))]
fn clip_leaves(py: Python<'_>, leaves: List<Bound<'_, PyAny>>, value: f64, out: List<Bound<'_, PyAny>>) -> Result<f64> {
    match (Floats::new(&leaves)?, FloatsMutAll::new(&out)?) {
        (Floats::Single(leaves), FloatsMutAll::Single(mut out)) => {
            clip_pairs(py, slices(&leaves)?, slices_mut(&mut out)?, ClipNorm::new::<f32>(value)?)
        }
        (Floats::Double(leaves), FloatsMutAll::Double(mut out)) => {
            clip_pairs(py, slices(&leaves)?, slices_mut(&mut out)?, ClipNorm::new::<f64>(value)?)
        }
        _ => Err(PyValueError::new_err("leaves and out must have one dtype").into()),
    }
}

fn clip_pairs<T: Float>(py: Python<'_>, leaves: Vec<&[T]>, out: Vec<&mut [T]>, clip: ClipNorm) -> Result<f64> {
    let isa = isa::active()?;
    if leaves.len() != out.len() || leaves.iter().zip(&out).any(|(leaf, out)| leaf.len() != out.len()) {
        return Err(PyValueError::new_err("leaves and out must have one shape").into());
    }
    let mut pairs = gathered(leaves.into_iter().zip(out))?;
    Ok(py.detach(|| clip_one(isa, &mut pairs, clip, Order::Two)))
}

/// Returns the exponent of the grid for a clip norm, or refuses it, or the stability.
#[pyfunction]
#[pyo3(signature = (value, dtype, normalizing = None, /))]
fn check_clip_norm(value: f64, dtype: &str, normalizing: Option<f64>) -> Result<i32> {
    let exponent = clip_norm(value, dtype)?.granularity().exponent();
    stability(normalizing, dtype)?;
    Ok(exponent)
}

/// Whether the last 8 bytes of `state` are the checksum of those before.
#[pyfunction]
#[pyo3(signature = (state, /))]
fn has_checksum(py: Python<'_>, state: &[u8]) -> bool {
    let Some((message, end)) = state.split_last_chunk::<8>() else { return false };
    py.detach(|| checksum::checksum(message)) == u64::from_le_bytes(*end)
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyGridSum>()?;
    module.add_function(wrap_pyfunction!(check_clip_norm, module)?)?;
    module.add_function(wrap_pyfunction!(has_checksum, module)?)?;
    module.add_function(wrap_pyfunction!(clip_leaves, module)?)?;
    module.add_function(wrap_pyfunction!(clip_matrix, module)?)
}
