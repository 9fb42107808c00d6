//! The library as a whole: which version it is, and what is done once before it is used.

use crate::error::{Error, Result};
use crate::identity::Identity;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
use crate::locks;

/// The first version whose write-ahead log keeps what it commits.
// mutant: versions-that-lose-commits-taken
const LOG_FIXED: i32 = 3_051_003;
const _: () = assert!(keeps_commits(rusqlite::ffi::SQLITE_VERSION_NUMBER), "this SQLite can lose commits");

const fn keeps_commits(version: i32) -> bool {
    version >= LOG_FIXED
}

/// Returns which file SQLite opened last under a name, where that is noted.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub(crate) fn opened(name: &str) -> Option<Identity> {
    locks::opened(name.as_bytes())
}

/// Returns which file SQLite opened last under a name, where that is noted.
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
pub(crate) fn opened(_: &str) -> Option<Identity> {
    None
}

/// Prepares the library once.
pub(crate) fn prepare() -> Result<()> {
    if !keeps_commits(rusqlite::version_number()) {
        return Err(Error::misuse("SQLite was replaced by a version that can lose commits"));
    }
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    // mutant: locks-belong-to-process
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
