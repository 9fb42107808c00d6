//! Rows of units: their pairs with keys, and which of them count; see `ferrodp.statistics.keys.contributions`.

use ferrodp_core::units::{Pairs, counting, pairs};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::error::Result;

/// Places of units, of either type.
#[derive(FromPyObject)]
enum Units<'py> {
    Short(PyReadonlyArray1<'py, i32>),
    Long(PyReadonlyArray1<'py, i64>),
}

type Places<'py> = Bound<'py, PyArray1<i64>>;

/// Returns for each row the number of its pair of a unit and a key, −1 for none, and the first row of each pair.
#[pyfunction]
#[pyo3(signature = (units, keys, /))]
fn pairs_of_units<'py>(
    py: Python<'py>,
    units: Units<'py>,
    keys: PyReadonlyArray1<'_, i64>,
) -> Result<(Places<'py>, Places<'py>)> {
    let keys = keys.as_slice()?;
    let Pairs { of_rows, firsts } = match &units {
        Units::Short(units) => {
            let units = units.as_slice()?;
            py.detach(|| pairs(units, keys))?
        }
        Units::Long(units) => {
            let units = units.as_slice()?;
            py.detach(|| pairs(units, keys))?
        }
    };
    Ok((of_rows.into_pyarray(py), firsts.into_pyarray(py)))
}

/// Returns which rows count: of each unit so many, those with the least coins, or the first ones.
#[pyfunction]
#[pyo3(signature = (units, most, coins, /))]
fn rows_of_units<'py>(
    py: Python<'py>,
    units: Units<'py>,
    most: usize,
    coins: Option<PyReadonlyArray1<'_, u32>>,
) -> Result<Bound<'py, PyArray1<bool>>> {
    let coins = coins.as_ref().map(|coins| coins.as_slice()).transpose()?;
    let counts = match &units {
        Units::Short(units) => {
            let units = units.as_slice()?;
            py.detach(|| counting(units, most, coins))?
        }
        Units::Long(units) => {
            let units = units.as_slice()?;
            py.detach(|| counting(units, most, coins))?
        }
    };
    Ok(counts.into_pyarray(py))
}

/// Adds this file's functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pairs_of_units, module)?)?;
    module.add_function(wrap_pyfunction!(rows_of_units, module)?)
}
