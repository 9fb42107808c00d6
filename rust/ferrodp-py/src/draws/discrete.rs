//! Discrete noise; see `ferrodp.random`.

use core::num::NonZeroUsize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ferrodp_core::discrete::fixed::FixedTime;
use ferrodp_core::discrete::{Discrete, Law, Scale, Whole};
use ferrodp_core::machine::blocks::default_threads;
use pyo3::prelude::*;

use crate::array::WholesMut;
use crate::error::Result;
use crate::isa;
use crate::permit::KeyArg;
use crate::words::DiscreteLawArg;

/// Laws that were used lately, the last one in front. Setting one up costs as much as some thousand samples.
static RECENT_LAWS: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());
type Kept = ((Law, Scale), Arc<Discrete>);
const NUM_KEPT: usize = 16;

/// Returns the law, set up or remembered. If somebody else is looking, or was when the process was forked, it is set up.
fn discrete(law: Law, scale: Scale) -> Arc<Discrete> {
    let wanted = (law, scale);
    let Ok(mut recent) = RECENT_LAWS.try_lock() else {
        return Arc::new(Discrete::new(law, scale));
    };
    let found = recent.iter().position(|(kept, _)| *kept == wanted).and_then(|index| recent.remove(index));
    let entry = found.unwrap_or_else(|| (wanted, Arc::new(Discrete::new(law, scale))));
    let law = Arc::clone(&entry.1);
    recent.push_front(entry);
    recent.truncate(NUM_KEPT);
    law
}

/// Laws in fixed time that were used lately. Setting one up costs as much as up to 2000 samples; it holds some 20 KB.
static RECENT_FIXED: Mutex<VecDeque<KeptFixed>> = Mutex::new(VecDeque::new());
type KeptFixed = ((Law, Scale), Arc<FixedTime>);
const NUM_KEPT_FIXED: usize = 64;

/// Returns the law in fixed time, set up or remembered; see [`discrete`].
fn fixed_time(law: Law, scale: Scale) -> core::result::Result<Arc<FixedTime>, ferrodp_core::Error> {
    let wanted = (law, scale);
    let find =
        |recent: &VecDeque<KeptFixed>| recent.iter().find(|(kept, _)| *kept == wanted).map(|(_, law)| law.clone());
    if let Some(found) = RECENT_FIXED.try_lock().ok().and_then(|recent| find(&recent)) {
        return Ok(found);
    }
    let made = Arc::new(FixedTime::new(law, scale)?);
    if let Ok(mut recent) = RECENT_FIXED.try_lock() {
        recent.push_front((wanted, Arc::clone(&made)));
        recent.truncate(NUM_KEPT_FIXED);
    }
    Ok(made)
}

/// Adds discrete noise in fixed time to a C-contiguous array of integers, in place.
#[pyfunction]
#[pyo3(signature = (array, law, numerator, denominator, key, threads, /))]
fn add_discrete_noise_in_fixed_time(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    law: DiscreteLawArg,
    numerator: u64,
    denominator: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let law = fixed_time(law.0, Scale::from_ratio(numerator, denominator)?)?;
    match WholesMut::new(array)? {
        WholesMut::Short(mut array) => steady(py, &law, key, threads, array.as_slice_mut()?),
        WholesMut::Long(mut array) => steady(py, &law, key, threads, array.as_slice_mut()?),
    }
}

/// Draws in fixed time with the interpreter's lock released.
fn steady<T: Whole>(
    py: Python<'_>,
    law: &FixedTime,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
    values: &mut [T],
) -> Result<()> {
    let (isa, key) = (isa::active()?, key.draw(py)?);
    let threads = threads.unwrap_or_else(|| default_threads(values.len()));
    py.detach(|| law.add(isa, &key, values, threads));
    Ok(())
}

/// Adds discrete noise of scale `numerator / denominator` to a C-contiguous array of integers, in place.
#[pyfunction]
#[pyo3(signature = (array, law, numerator, denominator, key, threads, /))]
fn add_discrete_noise(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    law: DiscreteLawArg,
    numerator: u64,
    denominator: u64,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let (law, scale) = (law.0, Scale::from_ratio(numerator, denominator)?);
    match WholesMut::new(array)? {
        WholesMut::Short(mut array) => draw(py, law, scale, key, threads, array.as_slice_mut()?),
        WholesMut::Long(mut array) => draw(py, law, scale, key, threads, array.as_slice_mut()?),
    }
}

/// Draws with the interpreter's lock released.
fn draw<T: Whole>(
    py: Python<'_>,
    law: Law,
    scale: Scale,
    key: KeyArg<'_>,
    threads: Option<NonZeroUsize>,
    values: &mut [T],
) -> Result<()> {
    let isa = isa::active()?;
    let key = key.draw(py)?;
    let threads = threads.unwrap_or_else(|| default_threads(values.len()));
    py.detach(|| discrete(law, scale).add(isa, &key, values, threads));
    Ok(())
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(add_discrete_noise, module)?)?;
    module.add_function(wrap_pyfunction!(add_discrete_noise_in_fixed_time, module)?)
}
