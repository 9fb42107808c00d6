//! One connection, and its errors by name.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;

use rusqlite::OpenFlags;
use rusqlite::types::{Value, ValueRef};

use crate::error::{Error, Fault, Result};
use crate::guard::Guard;
use crate::identity::identity;

/// Statements that are kept compiled.
const CACHED_STATEMENTS: usize = 64;
/// After so many steps of waiting for another connection, its lock is reported as busy: the caller decides, and may be
/// interrupted, between two attempts.
const WAITING_STEPS: i32 = 24;

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
    /// Given up first: whoever comes while SQLite closes the file waits for SQLite's own lock.
    guard: Option<Guard>,
    inner: rusqlite::Connection,
    main: Option<File>,
}

/// What a connection shall be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read a file that may not be written, while others have it open: their log and index have to be there.
    Read,
    /// Read and write a file that there is.
    Write,
    /// The same, and make the file if there is none.
    Make,
}

impl Connection {
    /// Opens a file; see [`Access`].
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        crate::library::prepare()?;
        let flags = match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Make => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let main = match access {
            Access::Make => None,
            _ => File::options().read(true).write(access == Access::Write).open(path).ok(),
        };
        let mut inner = rusqlite::Connection::open_with_flags(path, flags)?;
        inner.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        inner.busy_handler(Some(wait))?;
        Ok(Self { guard: None, inner, main })
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
        let failed = |error| self.failed(error);
        let mut statement = self.inner.prepare_cached(sql).map_err(failed)?;
        let columns = statement.column_count();
        if columns == 0 {
            let changed = statement.execute(rusqlite::params_from_iter(parameters)).map_err(failed)?;
            return Ok(Outcome { rows: Vec::new(), changed: Some(changed) });
        }
        let mut found = statement.query(rusqlite::params_from_iter(parameters)).map_err(failed)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(failed)? {
            let values: core::result::Result<Vec<_>, _> = (0..columns).map(|index| row.get_ref(index)).collect();
            rows.push(each(&values.map_err(failed)?)?);
        }
        Ok(Outcome { rows, changed: None })
    }

    /// Takes care that nobody else uses this database with another log or index, or another database under its name.
    ///
    /// Call it once, after a first statement has read: then SQLite has opened all files. `given` is the name that the
    /// caller was told, `path` where it leads to, as was passed to [`open`](Self::open). Without this, closing the file
    /// leaves the log where it is.
    ///
    /// # Errors
    /// `locks`: the system has no locks of open files; `mount`: the name is a mount point; `gone`, `replaced`: the name
    /// leads to no file, or not to the one that SQLite opened; `others`: another connection uses this database with
    /// another log or index; `name`: another connection uses another database under the same name.
    pub fn guard(&mut self, given: &Path, path: &Path) -> core::result::Result<(), Fault> {
        self.keep_log(true).map_err(|_| Fault::new("locks", path))?;
        let main = self.main.take().ok_or_else(|| Fault::new("gone", path))?;
        self.guard = Some(Guard::new(main, given, path)?);
        Ok(())
    }

    /// Returns whether the log ends as it did when this, or [`fault`](Self::fault), was asked the last time: then nobody
    /// has written since. Without a guard that is not known. To be asked within a transaction.
    ///
    /// # Errors
    /// What happened to the log since [`guard`](Self::guard): `log`, it was cut or overwritten.
    pub fn same_end(&self) -> core::result::Result<bool, Fault> {
        self.guard.as_ref().map_or(Ok(false), Guard::same_end)
    }

    /// Returns what happened to the log, within a transaction or right after one, or what happened to the names of the files: `replaced`, the name leads to another file by now,
    /// or to none. The index is among them if `all` are requested.
    #[must_use]
    pub fn fault(&self, all: bool) -> Option<Fault> {
        self.guard.as_ref().and_then(|guard| guard.replaced(all).or_else(|| guard.cut()))
    }

    /// Finds the mark by the bytes before it; returns whether it is there.
    pub fn find_mark(&mut self, before: &[u8; 16]) -> bool {
        self.guard.as_mut().is_some_and(|guard| guard.find_mark(before))
    }

    /// Returns the number of the last record that was acknowledged, 0 without a guard; None if that cannot be read, or
    /// the index was cut: then nothing more may be asked of SQLite.
    #[must_use]
    pub fn mark(&self) -> Option<u64> {
        self.guard.as_ref().map_or(Some(0), Guard::mark)
    }

    /// Raises the mark to the number of a record, unless it is higher; returns whether that is certain. Without a guard
    /// there is none.
    #[must_use]
    pub fn raise_mark(&self, number: u64) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard.raise_mark(number))
    }

    /// Returns whether the log is one without content, and is what would be removed with the index.
    fn log_is_empty(&self) -> bool {
        let Some(path) = self.inner.path() else { return false };
        let ours =
            |name: &str| crate::library::opened(name).is_some_and(|found| identity(Path::new(name)) == Some(found));
        let (log, index) = (format!("{path}-wal"), format!("{path}-shm"));
        ours(&log) && ours(&index) && std::fs::metadata(&log).is_ok_and(|found| found.len() == 0)
    }

    /// Returns what an error of a statement means, with what the system said of the call that failed.
    fn failed(&self, error: rusqlite::Error) -> Error {
        // SAFETY: the handle is that of an open connection, as long as `self` lives; the function only reads from it.
        let cause = unsafe { rusqlite::ffi::sqlite3_system_errno(self.inner.handle()) };
        Error::from(error).caused_by(cause)
    }

    fn keep_log(&self, keep: bool) -> rusqlite::Result<bool> {
        self.inner.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
    }

    /// Returns whether a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        !self.inner.is_autocommit()
    }

    /// Closes the file. The last connection of all moves what is in the log into the file, and removes the log, if
    /// `fold` says that both are still what they were, or the log is empty; else both stay.
    ///
    /// # Errors
    /// SQLite's; then the file is closed all the same.
    pub fn close(self, fold: bool) -> Result<()> {
        let fold = fold || self.log_is_empty();
        self.keep_log(!fold)?;
        drop(self.guard);
        self.inner.close().map_err(|(_, error)| error.into())
    }
}

/// Waits for another connection: shortly at first, as a commit takes a fraction of a millisecond.
fn wait(step: i32) -> bool {
    if step >= WAITING_STEPS {
        return false;
    }
    std::thread::sleep(Duration::from_micros(50 << (step / 3).clamp(0, 7)));
    true
}
