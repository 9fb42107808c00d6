//! Which process of a family of forks this is; see `ferrodp._base._fork`.

use ferrodp_core::machine::fork;
use pyo3::prelude::*;

/// Returns this process' generation: another one in every forked child.
#[pyfunction]
fn fork_generation() -> u64 {
    fork::generation()
}

/// Adds this file's function to the module, and has this process noted before anything can be made in it.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let _ = fork::generation();
    module.add_function(wrap_pyfunction!(fork_generation, module)?)
}
