//! What can go wrong, by name: in SQLite, and with the files of a connection.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::ffi;

/// What SQLite could not do, by the name of its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The name of the primary result code, such as `SQLITE_BUSY`; or `SQLITE_IOERR_FULL`.
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

    /// Returns the same error, or `SQLITE_IOERR_FULL` where input or output failed for want of room, as the system's
    /// error number says. SQLite itself calls that `SQLITE_FULL` only if a page does not fit; the index (`-shm`) fails with
    /// a general error.
    pub(crate) fn caused_by(self, cause: i32) -> Self {
        let error = std::io::Error::from_raw_os_error(cause);
        // mutant: full-disk-called-failure
        if self.name == "SQLITE_IOERR" && matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return Self { name: "SQLITE_IOERR_FULL", message: format!("{}: {error}", self.message) };
        }
        self
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

/// What is wrong with the files of a connection, and with which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A word for it: see [`Connection::guard`](crate::Connection::guard) and [`Connection::fault`](crate::Connection::fault).
    pub what: &'static str,
    /// The file.
    pub name: PathBuf,
}

impl Fault {
    pub(crate) fn new(what: &'static str, name: &Path) -> Self {
        Self { what, name: name.to_owned() }
    }
}
