//! Connections to a ledger's file; see `ferrodp.budget.stores.sqlite.store`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ferrodp_sqlite::{Access, Connection, Error, Fault, Value, ValueRef};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

create_exception!(
    ferrodp._native,
    SqliteError,
    PyException,
    "What SQLite could not do: the name of its code, and why."
);

/// An error of SQLite's, or a Python one passing through.
struct Failure(PyErr);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(SqliteError::new_err((error.name, error.message)))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

/// What a statement did.
#[pyclass(frozen, module = "ferrodp._native")]
struct SqliteResult {
    rows: Py<PyList>,
    /// How many rows a statement changed; −1 of a query.
    #[pyo3(get)]
    rowcount: isize,
}

#[pymethods]
impl SqliteResult {
    /// The first row, or None.
    fn fetchone<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.rows.bind(py).get_item(0).ok()
    }

    /// All rows.
    fn fetchall(&self, py: Python<'_>) -> Py<PyList> {
        self.rows.clone_ref(py)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.rows.bind(py).try_iter()?.into_any())
    }
}

/// A connection to a file; for one thread at a time.
#[pyclass(frozen, module = "ferrodp._native")]
struct SqliteConnection {
    inner: Mutex<Option<Connection>>,
}

#[pymethods]
impl SqliteConnection {
    #[new]
    #[pyo3(signature = (path, /, *, create, writable=true))]
    fn new(py: Python<'_>, path: PathBuf, create: bool, writable: bool) -> PyResult<Self> {
        let access = match (create, writable) {
            (true, _) => Access::Make,
            (false, true) => Access::Write,
            (false, false) => Access::Read,
        };
        let opened = py.detach(|| Connection::open(&path, access)).map_err(Failure::from)?;
        Ok(Self { inner: Mutex::new(Some(opened)) })
    }

    /// Run a statement that takes microseconds: other threads wait for it.
    #[pyo3(signature = (sql, parameters, /))]
    fn execute(&self, py: Python<'_>, sql: &str, parameters: &Bound<'_, PyAny>) -> PyResult<SqliteResult> {
        let values = values(parameters)?;
        let guard = self.locked(py);
        let outcome = opened(&guard)?.execute(sql, &values, |row| tuple(py, row.iter().copied()))?;
        Ok(result(py, &outcome.rows, outcome.changed)?)
    }

    /// Run a statement for each of many rows of parameters.
    #[pyo3(signature = (sql, rows, /))]
    fn execute_many(&self, py: Python<'_>, sql: &str, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let guard = self.locked(py);
        for row in rows.try_iter()? {
            opened(&guard)?.execute(sql, &values(&row?)?, |_| Ok::<_, Failure>(()))?;
        }
        Ok(())
    }

    /// Run a statement that may take its time, and let other threads run.
    ///
    /// While another connection is in the way it is tried again, for `seconds`.
    #[pyo3(signature = (sql, /, *, seconds))]
    fn execute_slowly(&self, py: Python<'_>, sql: &str, seconds: f64) -> PyResult<SqliteResult> {
        let outcome = self.patiently(py, seconds, |connection| connection.execute(sql, &[], owned))?;
        let rows: Result<Vec<_>, Failure> = outcome.rows.iter().map(|row| borrowed(py, row)).collect();
        Ok(result(py, &rows?, outcome.changed)?)
    }

    /// Begin a transaction with these statements, after one that was left open was rolled back, and ask a question.
    ///
    /// Returned are the number of the last record that was acknowledged, 0 without a guard; what happened to the end of
    /// the log, as `fault` says it; whether the log ends as it did after the last commit or the last `begin`, so that
    /// nobody wrote in between; and the first row of the answer. Where the number cannot be read, nothing was begun;
    /// where something happened to the log, nothing was asked.
    #[pyo3(signature = (statements, question, /, *, seconds))]
    fn begin<'py>(
        &self,
        py: Python<'py>,
        statements: Vec<PyBackedStr>,
        question: &str,
        seconds: f64,
    ) -> PyResult<Begun<'py>> {
        let (mut mark, mut begun) = (None, 0);
        let found = self.patiently(py, seconds, |connection| {
            if mark.is_none() {
                if connection.in_transaction() {
                    run(connection, "ROLLBACK")?;
                }
                mark = connection.mark(); // before SQLite reads the memory of an index that may have been cut
                if mark.is_none() {
                    return Ok((None, false, None));
                }
            }
            while let Some(sql) = statements.get(begun) {
                run(connection, sql)?;
                begun += 1;
            }
            match connection.same_end() {
                Err(fault) => Ok((Some(fault), false, None)),
                Ok(same) => Ok((None, same, connection.execute(question, &[], owned)?.rows.into_iter().next())),
            }
        })?;
        let (fault, same, row) = found;
        Ok((mark, fault.map(named), same, row.map(|row| borrowed(py, &row)).transpose()?))
    }

    /// Commit; then say what happened to the files, as `fault` does, and whether the mark is at least `number` now.
    ///
    /// The mark is only raised if nothing happened to the files, and only if there is a number.
    #[pyo3(signature = (number, /, *, seconds))]
    fn commit(&self, py: Python<'_>, number: Option<u64>, seconds: f64) -> PyResult<(Named, bool)> {
        let (fault, raised) = self.patiently(py, seconds, |connection| {
            run(connection, "COMMIT")?;
            let fault = connection.fault(false);
            let raised = fault.is_none() && number.is_none_or(|number| connection.raise_mark(number));
            Ok((fault, raised))
        })?;
        Ok((fault.map(named), raised))
    }

    /// Take care that nobody else uses this database with another log or index, or another database under its name.
    ///
    /// None if so, or what is in the way, and which file that is about.
    #[pyo3(signature = (given, path, /))]
    fn guard(&self, py: Python<'_>, given: PathBuf, path: PathBuf) -> PyResult<Named> {
        let mut guard = self.locked(py);
        let connection = guard.as_mut().ok_or_else(|| Failure::from(closed()))?;
        Ok(connection.guard(&given, &path).err().map(named))
    }

    /// What happened to the names of the files or the end of the log, and to which; None if nothing did.
    #[pyo3(signature = (*, all=false))]
    fn fault(&self, py: Python<'_>, all: bool) -> Named {
        self.locked(py).as_ref().and_then(|connection| connection.fault(all)).map(named)
    }

    /// Find the mark by the 16 bytes before it; return whether it is there.
    #[pyo3(signature = (before, /))]
    fn find_mark(&self, py: Python<'_>, before: [u8; 16]) -> bool {
        self.locked(py).as_mut().is_some_and(|connection| connection.find_mark(&before))
    }

    /// Whether a transaction is open.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> bool {
        self.locked(py).as_ref().is_some_and(Connection::in_transaction)
    }

    /// Close the file, if it is open; the last of all removes the log, unless `fold` is false.
    #[pyo3(signature = (*, fold=true))]
    fn close(&self, py: Python<'_>, fold: bool) -> PyResult<()> {
        let taken = self.locked(py).take();
        match taken {
            Some(connection) => Ok(py.detach(|| connection.close(fold)).map_err(Failure::from)?),
            None => Ok(()),
        }
    }

    /// Never close the file, for the child of a fork: this object stays until the process ends.
    fn forget(slf: Bound<'_, Self>) {
        core::mem::forget(slf); // without its lock: a thread that is not in the child may have held it
    }
}

impl SqliteConnection {
    /// Does what may take its time, and lets other threads run. As long as another connection is in the way it is tried
    /// again, for `seconds`.
    fn patiently<T: Send>(
        &self,
        py: Python<'_>,
        seconds: f64,
        mut work: impl FnMut(&Connection) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let start = Instant::now();
        loop {
            let done = py.detach(|| {
                let guard = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                work(guard.as_ref().ok_or_else(closed)?)
            });
            match done {
                Err(error) if error.is_busy() && start.elapsed() < patience => py.check_signals()?,
                done => return Ok(done.map_err(Failure::from)?),
            }
        }
    }

    fn locked(&self, py: Python<'_>) -> MutexGuard<'_, Option<Connection>> {
        self.inner.lock_py_attached(py).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What happened, and to which file; None for nothing.
type Named = Option<(&'static str, PathBuf)>;
/// What [`SqliteConnection::begin`] returns.
type Begun<'py> = (Option<u64>, Named, bool, Option<Bound<'py, PyTuple>>);

fn named(fault: Fault) -> (&'static str, PathBuf) {
    (fault.what, fault.name)
}

fn closed() -> Error {
    Error { name: "SQLITE_MISUSE", message: "the connection is closed".to_owned() }
}

fn not_a_text() -> Error {
    Error { name: "SQLITE_CORRUPT", message: "a text is not UTF-8".to_owned() }
}

fn opened(guard: &Option<Connection>) -> Result<&Connection, Failure> {
    guard.as_ref().ok_or_else(|| closed().into())
}

fn run(connection: &Connection, sql: &str) -> Result<(), Error> {
    connection.execute(sql, &[], |_| Ok::<_, Error>(())).map(|_| ())
}

/// A row that outlives the statement.
fn owned(row: &[ValueRef<'_>]) -> Result<Vec<Value>, Error> {
    row.iter().map(|&found| Value::try_from(found).map_err(|_| not_a_text())).collect()
}

fn borrowed<'py>(py: Python<'py>, row: &[Value]) -> Result<Bound<'py, PyTuple>, Failure> {
    tuple(py, row.iter().map(ValueRef::from))
}

fn values(parameters: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
    parameters.try_iter()?.map(|item| value(&item?)).collect()
}

fn value(item: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(text) = item.cast::<PyString>() {
        Ok(Value::Text(text.to_str()?.to_owned()))
    } else if item.is_instance_of::<PyInt>() {
        Ok(Value::Integer(item.extract()?))
    } else if item.is_none() {
        Ok(Value::Null)
    } else {
        Err(PyTypeError::new_err("parameters must be str, int or None"))
    }
}

fn result(py: Python<'_>, rows: &[Bound<'_, PyTuple>], changed: Option<usize>) -> Result<SqliteResult, Failure> {
    let rowcount = changed.map_or(-1, usize::cast_signed);
    Ok(SqliteResult { rows: PyList::new(py, rows)?.unbind(), rowcount })
}

fn tuple<'py, 'row>(
    py: Python<'py>,
    row: impl ExactSizeIterator<Item = ValueRef<'row>>,
) -> Result<Bound<'py, PyTuple>, Failure> {
    let mut items = Vec::with_capacity(row.len());
    for found in row {
        items.push(match found {
            ValueRef::Null => py.None().into_bound(py),
            ValueRef::Integer(number) => PyInt::new(py, number).into_any(),
            ValueRef::Real(number) => PyFloat::new(py, number).into_any(),
            ValueRef::Blob(bytes) => PyBytes::new_with(py, bytes.len(), |out| {
                out.copy_from_slice(bytes);
                Ok(())
            })?
            .into_any(),
            ValueRef::Text(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => PyString::new(py, text).into_any(),
                Err(_) => return Err(not_a_text().into()),
            },
        });
    }
    Ok(PyTuple::new(py, items)?)
}

/// Return the kind of the file system on which a name lies, as its magic number; None where that is unknown.
#[pyfunction]
#[pyo3(signature = (path, /))]
fn file_system(path: PathBuf) -> Option<u32> {
    ferrodp_sqlite::file_system(&path)
}

/// Adds this file's classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("sqlite_version", ferrodp_sqlite::version())?;
    module.add("SqliteError", module.py().get_type::<SqliteError>())?;
    module.add_function(wrap_pyfunction!(file_system, module)?)?;
    module.add_class::<SqliteResult>()?;
    module.add_class::<SqliteConnection>()
}
