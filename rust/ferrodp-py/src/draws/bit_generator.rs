//! numpy's bit generator protocol; see `ferrodp.random.BitGenerator`.

use core::ffi::c_void;

use ferrodp_core::random::generator::Generator;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Result;
use crate::isa;

/// `bitgen_t` of numpy's `random/bitgen.h`.
#[repr(C)]
struct BitGen {
    state: *mut c_void,
    next_uint64: extern "C" fn(*mut c_void) -> u64,
    next_uint32: extern "C" fn(*mut c_void) -> u32,
    next_double: extern "C" fn(*mut c_void) -> f64,
    next_raw: extern "C" fn(*mut c_void) -> u64,
}

/// What the capsule owns. numpy reads the first field and calls back with its `state`, which the second owns.
#[repr(C)]
struct Owned {
    interface: BitGen,
    generator: *mut Generator,
}

// SAFETY: the generator is owned, not shared; numpy's lock serializes the calls.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` below and dropped once, with the capsule.
        drop(unsafe { Box::from_raw(self.generator) });
    }
}

extern "C" fn next_uint64(state: *mut c_void) -> u64 {
    // SAFETY: numpy passes back the pointer it was given, holds the generator's lock and a reference to its owner.
    let generator = unsafe { &mut *state.cast::<Generator>() };
    match generator.next_u64() {
        Ok(word) => word,
        Err(error) => {
            // Only in a forked child, or where memory cannot be wiped in one: elsewhere a key is in reserve. The protocol has no way
            // to report an error, and predictable numbers are worse than none.
            eprintln!("ferrodp: {error}; a bit generator cannot go on without a key");
            std::process::abort()
        }
    }
}

extern "C" fn next_uint32(state: *mut c_void) -> u32 {
    (next_uint64(state) >> 32) as u32
}

extern "C" fn next_double(state: *mut c_void) -> f64 {
    (next_uint64(state) >> 11) as f64 / 9_007_199_254_740_992.0
}

/// Returns a capsule named `BitGenerator` around a new generator, which lives as long as the capsule.
///
/// # Errors
/// If the operating system gives no key: later there is no way to say so.
fn capsule(py: Python<'_>) -> Result<Bound<'_, PyCapsule>> {
    let mut generator = Generator::new(isa::active()?);
    // mutant: bit-generator-made-without-a-key
    generator.prepare()?;
    let generator = Box::into_raw(Box::new(generator));
    let state = generator.cast();
    let interface = BitGen { state, next_uint64, next_uint32, next_double, next_raw: next_uint64 };
    Ok(PyCapsule::new_with_value(py, Owned { interface, generator }, c"BitGenerator")?)
}

/// What `ferrodp.random.BitGenerator` is made of.
///
/// numpy copies what is in the capsule and keeps this object, not the capsule. So the capsule is made with the object,
/// before any `__init__`, and cannot be replaced or deleted while the object lives.
#[pyclass(frozen, subclass, module = "ferrodp._native", name = "BitGenerator")]
struct PyBitGenerator {
    #[pyo3(get)]
    capsule: Py<PyCapsule>,
    #[pyo3(get)]
    lock: Py<PyAny>,
}

#[pymethods]
impl PyBitGenerator {
    #[new]
    #[pyo3(signature = (/))]
    fn new(py: Python<'_>) -> Result<Self> {
        let lock = py.import("threading")?.call_method0("Lock")?;
        Ok(Self { capsule: capsule(py)?.unbind(), lock: lock.unbind() })
    }
}

/// Adds this file's class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyBitGenerator>()
}
