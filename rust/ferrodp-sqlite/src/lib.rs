//! The SQLite in which ledgers are kept: compiled in, so that one version with known promises is used everywhere.
//!
//! Versions before 3.51.3 can lose commits in write-ahead mode, when a checkpoint meets a commit that begins the log
//! anew (sqlite.org, release notes of 3.51.3). So the version is asserted when this crate is built, and again at the
//! first connection. The copy of SQLite is private to this library: on Linux its locks are those of open file
//! descriptions, so that other code of the process may open, read and close the same file, see [`locks`].

mod connection;
mod error;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod guard;
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
#[path = "no_guard.rs"]
mod guard;
mod identity;
mod library;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod locks;

pub use connection::{Access, Connection, Outcome};
pub use error::{Error, Fault, Result};
pub use rusqlite::types::{Value, ValueRef};

/// Returns the version of SQLite that is used.
#[must_use]
pub fn version() -> &'static str {
    rusqlite::version()
}

/// Returns the magic number of the file system on which a name lies; None where that is unknown.
#[must_use]
pub fn file_system(path: &std::path::Path) -> Option<u32> {
    identity::file_system(path)
}
