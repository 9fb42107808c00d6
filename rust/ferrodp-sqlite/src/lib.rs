//! The SQLite in which ledgers are kept: compiled in, so that one version with known promises is used everywhere.
//!
//! Versions before 3.51.3 can lose commits in write-ahead mode, when a checkpoint meets a commit that begins the log
//! anew (sqlite.org, release notes of 3.51.3). So the version is asserted when this crate is built, and again at the
//! first connection. The copy of SQLite is private to this library: on Linux its locks are those of open file
//! descriptions, so that other code of the process may open, read and close the same file, see [`locks`].

mod connection;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod guard;
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
#[path = "no_guard.rs"]
mod guard;
mod identity;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod locks;

pub use connection::{Access, Connection, Error, Fault, Outcome, Result};
pub use rusqlite::types::{Value, ValueRef};

/// The first version whose write-ahead log keeps what it commits.
const LOG_FIXED: i32 = 3_051_003;
const _: () = assert!(keeps_commits(rusqlite::ffi::SQLITE_VERSION_NUMBER), "this SQLite can lose commits");

const fn keeps_commits(version: i32) -> bool {
    version >= LOG_FIXED
}

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

/// Returns which file SQLite opened last under a name, where that is noted.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn opened(name: &str) -> Option<identity::Identity> {
    locks::opened(name.as_bytes())
}

/// Returns which file SQLite opened last under a name, where that is noted.
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
fn opened(_: &str) -> Option<identity::Identity> {
    None
}

/// Prepares the library once.
fn prepare() -> Result<()> {
    if !keeps_commits(rusqlite::version_number()) {
        return Err(Error::misuse("SQLite was replaced by a version that can lose commits"));
    }
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    locks::install();
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_that_lose_commits_are_refused() {
        assert!(![3_007_000, 3_040_001, 3_051_002].into_iter().any(super::keeps_commits));
        assert!([3_051_003, 3_054_001, 4_000_000].into_iter().all(super::keeps_commits));
        assert!(super::keeps_commits(rusqlite::version_number()));
    }
}
