//! Laws of random allocation as Python objects: what reads mechanisms needs them, and what makes them reads mechanisms.

use std::sync::Arc;

use ferrodp_accounting::mechanism::Mechanism;
use ferrodp_accounting::sampling::allocation::Allocation;
use pyo3::prelude::*;

/// The law of one round from one side; see `ferrodp.accounting.sampling.allocation`.
#[pyclass(frozen, module = "ferrodp._native")]
pub(super) struct AllocationLaw(pub(super) Arc<Allocation>);

impl AllocationLaw {
    /// Returns the law as a mechanism.
    pub(super) fn mechanism(&self) -> Mechanism {
        Mechanism::Allocated(Arc::clone(&self.0))
    }
}
