//! One connection, and its errors by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{OpenFlags, ffi};

use crate::identity::{Identity, identity};

/// Statements that are kept compiled.
const STATEMENTS: usize = 64;
/// After so many steps of waiting for another connection, its lock is reported as busy: the caller decides, and may be
/// interrupted, between two attempts.
const STEPS: i32 = 24;

/// What SQLite could not do, by the name of its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The name of the primary result code, such as `SQLITE_BUSY`.
    pub name: &'static str,
    /// The text that SQLite gives with it.
    pub message: String,
}

/// What the functions of this crate return.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    pub(crate) fn misuse(message: &str) -> Self {
        Self { name: "SQLITE_MISUSE", message: message.to_owned() }
    }

    /// Returns whether another connection held a lock that was needed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.name == "SQLITE_BUSY"
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "{}: {}", self.name, self.message)
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let code = match &error {
            rusqlite::Error::SqliteFailure(found, _) | rusqlite::Error::SqlInputError { error: found, .. } => {
                found.extended_code & 0xff
            }
            _ => ffi::SQLITE_MISUSE,
        };
        let name = match code {
            ffi::SQLITE_PERM => "SQLITE_PERM",
            ffi::SQLITE_BUSY => "SQLITE_BUSY",
            ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
            ffi::SQLITE_NOMEM => "SQLITE_NOMEM",
            ffi::SQLITE_READONLY => "SQLITE_READONLY",
            ffi::SQLITE_INTERRUPT => "SQLITE_INTERRUPT",
            ffi::SQLITE_IOERR => "SQLITE_IOERR",
            ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
            ffi::SQLITE_FULL => "SQLITE_FULL",
            ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
            ffi::SQLITE_PROTOCOL => "SQLITE_PROTOCOL",
            ffi::SQLITE_SCHEMA => "SQLITE_SCHEMA",
            ffi::SQLITE_TOOBIG => "SQLITE_TOOBIG",
            ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
            ffi::SQLITE_MISUSE => "SQLITE_MISUSE",
            ffi::SQLITE_AUTH => "SQLITE_AUTH",
            ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
            _ => "SQLITE_ERROR",
        };
        Self { name, message: error.to_string() }
    }
}

/// What a statement did.
#[derive(Debug)]
pub struct Outcome<T> {
    /// Its rows, as `each` made them.
    pub rows: Vec<T>,
    /// How many rows it changed; of a query, nothing.
    pub changed: Option<usize>,
}

/// A connection to a database file. Its calls block; who waits for locks waits for a moment only, then it is told.
#[derive(Debug)]
pub struct Connection {
    inner: rusqlite::Connection,
    watched: Vec<(PathBuf, Identity)>,
}

impl Connection {
    /// Opens a file, or makes it if there is none and `create` says so.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(path: &Path, create: bool) -> Result<Self> {
        crate::prepare()?;
        let made = if create { OpenFlags::SQLITE_OPEN_CREATE } else { OpenFlags::empty() };
        let mut inner = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | made)?;
        inner.set_prepared_statement_cache_capacity(STATEMENTS);
        inner.busy_handler(Some(wait))?;
        Ok(Self { inner, watched: Vec::new() })
    }

    /// Runs a statement, and hands the values of each row to `each`.
    ///
    /// # Errors
    /// SQLite's, and those of `each`.
    pub fn execute<T, E: From<Error>>(
        &self,
        sql: &str,
        parameters: &[Value],
        mut each: impl FnMut(&[ValueRef<'_>]) -> core::result::Result<T, E>,
    ) -> core::result::Result<Outcome<T>, E> {
        let mut statement = self.inner.prepare_cached(sql).map_err(Error::from)?;
        let columns = statement.column_count();
        if columns == 0 {
            let changed = statement.execute(rusqlite::params_from_iter(parameters)).map_err(Error::from)?;
            return Ok(Outcome { rows: Vec::new(), changed: Some(changed) });
        }
        let mut found = statement.query(rusqlite::params_from_iter(parameters)).map_err(Error::from)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(Error::from)? {
            let values: core::result::Result<Vec<_>, _> = (0..columns).map(|index| row.get_ref(index)).collect();
            rows.push(each(&values.map_err(Error::from)?)?);
        }
        Ok(Outcome { rows, changed: None })
    }

    /// Notes which files some names lead to now; see [`Connection::replaced`].
    pub fn watch(&mut self, names: Vec<PathBuf>) {
        self.watched.clear();
        for name in names {
            let found = identity(&name);
            self.watched.push((name, found));
        }
    }

    /// Returns the first of the watched names that leads to another file by now, or to none.
    #[must_use]
    pub fn replaced(&self) -> Option<&Path> {
        self.watched.iter().find(|(name, then)| identity(name) != *then).map(|(name, _)| name.as_path())
    }

    /// Returns whether a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        !self.inner.is_autocommit()
    }

    /// Closes the file. The last connection of all moves what is in the log into the file, and removes the log.
    ///
    /// # Errors
    /// SQLite's; then the file is closed all the same.
    pub fn close(self) -> Result<()> {
        self.inner.close().map_err(|(_, error)| error.into())
    }
}

/// Waits for another connection: shortly at first, as a commit takes a fraction of a millisecond.
fn wait(step: i32) -> bool {
    if step >= STEPS {
        return false;
    }
    std::thread::sleep(Duration::from_micros(50 << (step / 3).clamp(0, 7)));
    true
}
