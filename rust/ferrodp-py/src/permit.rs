//! What stands between a call and its first random bit: a key, and where a ticket pays, the ticket's consent.

use core::sync::atomic::{AtomicU8, Ordering};

use ferrodp_core::machine::fork;
use ferrodp_core::random::Key;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Error, Result};

const STATE_FRESH: u8 = 0;
const STATE_REQUESTED: u8 = 1;
const STATE_ARMED: u8 = 2;

/// The right of one release to draw. `arm` is called before its first random bit, once; whatever the release draws after
/// that passes, in this process. If `arm` raises, or while it still runs, nothing is drawn.
#[pyclass(frozen, module = "ferrodp._native")]
pub(crate) struct Permit {
    arm: Py<PyAny>,
    state: AtomicU8,
    generation: u64,
}

#[pymethods]
impl Permit {
    #[new]
    #[pyo3(signature = (arm, /))]
    fn new(arm: Py<PyAny>) -> Self {
        Self { arm, state: AtomicU8::new(STATE_FRESH), generation: fork::generation() }
    }
}

impl Permit {
    /// Returns if the release may draw. Runs Python code: never call it with a lock held.
    fn arm(&self, py: Python<'_>) -> Result<()> {
        if self.generation != fork::generation() {
            return Err(Error::ticket(
                "this release belongs to the parent of this forked process; begin another one here",
            ));
        }
        // Only one caller gets past this line and only once, so a permit whose `arm` failed stays unusable.
        // mutant: permit-lets-others-draw-while-it-being-armed
        match self.state.compare_exchange(STATE_FRESH, STATE_REQUESTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // mutant: ticket-armed
                self.arm.call0(py)?;
                self.state.store(STATE_ARMED, Ordering::Release);
                Ok(())
            }
            Err(STATE_ARMED) => Ok(()),
            Err(_) => Err(Error::ticket("this release may not draw: its ticket was refused, or is not armed yet")),
        }
    }
}

/// Where the key of one call comes from: None, the 32 bytes of a seeded source, or a [`Permit`].
pub(crate) enum KeyArg<'py> {
    Fresh,
    Given([u8; 32]),
    Permitted(Bound<'py, Permit>),
}

impl KeyArg<'_> {
    /// Returns the key. Call it after every check that can fail, and with no lock held: a ticket is armed here, so that
    /// from here on its cost is spent.
    ///
    /// # Errors
    /// If the ticket may not be armed, or the operating system gives no key.
    pub(crate) fn draw(self, py: Python<'_>) -> Result<Key> {
        match self {
            Self::Given(bytes) => return Ok(Key::from_bytes(bytes)),
            // mutant: ticket-armed-before-the-key
            Self::Permitted(permit) => permit.get().arm(py)?,
            Self::Fresh => {}
        }
        Ok(Key::fresh()?)
    }
}

impl<'py> FromPyObject<'_, 'py> for KeyArg<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Self::Fresh);
        }
        if let Ok(permit) = given.cast::<Permit>() {
            return Ok(Self::Permitted(permit.to_owned()));
        }
        let bytes = given.cast::<PyBytes>().ok().and_then(|bytes| bytes.as_bytes().try_into().ok());
        bytes.map(Self::Given).ok_or_else(|| PyTypeError::new_err("key must be None, 32 bytes or a Permit"))
    }
}

/// Adds this file's class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Permit>()
}
