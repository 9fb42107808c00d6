//! Which file a name leads to.

use std::path::Path;

/// The numbers of a file's device and of the file on it; None if there is no file.
pub(crate) type Identity = Option<(u64, u64)>;

/// Returns which file a name leads to.
///
/// Only that is asked for, never the time of its last change: a Linux that was asked for it has to note the next change
/// to the nanosecond, which makes each sync of a ledger's log a quarter slower (multigrain timestamps, since 6.13).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn identity(path: &Path) -> Identity {
    use std::os::unix::ffi::OsStrExt;

    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut found: libc::statx = unsafe { core::mem::zeroed() };
    // SAFETY: the name ends with a zero byte, and the structure is what the call writes.
    let code = unsafe { libc::statx(libc::AT_FDCWD, name.as_ptr(), 0, libc::STATX_INO, &raw mut found) };
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    (code == 0).then_some((device, found.stx_ino))
}

/// Returns which file a name leads to.
#[cfg(all(unix, not(all(target_os = "linux", target_env = "gnu"))))]
pub(crate) fn identity(path: &Path) -> Identity {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns whether there is a file: where this is used, open ones can be neither removed nor renamed.
#[cfg(not(unix))]
pub(crate) fn identity(path: &Path) -> Identity {
    path.exists().then_some((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_put_in_place_of_another_is_another() {
        let folder = std::env::temp_dir();
        let (one, two) = (
            folder.join(format!("ferrodp-1-{}", std::process::id())),
            folder.join(format!("ferrodp-2-{}", std::process::id())),
        );
        assert_eq!(identity(&one), None);
        std::fs::write(&one, "1").expect("the temporary directory can be written");
        std::fs::write(&two, "2").expect("the temporary directory can be written");
        let first = identity(&one);
        assert!(first.is_some());
        std::fs::write(&one, "more").expect("it is there");
        assert_eq!(identity(&one), first);
        #[cfg(unix)]
        assert_ne!(identity(&two), first);
        std::fs::rename(&two, &one).expect("both are there");
        #[cfg(unix)]
        assert_ne!(identity(&one), first);
        std::fs::remove_file(&one).expect("it is there");
        assert_eq!(identity(&one), None);
    }
}
