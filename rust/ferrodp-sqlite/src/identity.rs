//! Which file a name leads to.

use std::path::Path;

/// The numbers of a file's device and of the file on it.
pub(crate) type Identity = (u64, u64);

/// What the system says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) identity: Identity,
    /// The number of the mount through which it was reached, where the system says it (Linux 5.8).
    pub(crate) mount: Option<u64>,
    /// Whether the name itself is a mount point.
    pub(crate) mount_root: bool,
}

/// Returns which file a name leads to; None if that is unknown, for whatever reason.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    facts(path).map(|found| found.identity)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    use std::ffi::{CStr, CString};
    use std::os::fd::RawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::{Facts, Identity};

    const STATX_MNT_ID: u32 = 0x1000;
    const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;

    /// Returns what the system says about the file that a name leads to.
    ///
    /// Only that is requested, never the time of its last change: a Linux that was asked about it has to note the next
    /// change to the nanosecond, which makes each sync of a ledger's log a quarter slower (multigrain timestamps, since
    /// 6.13). Where `statx` is missing or forbidden, an older call answers.
    pub(crate) fn facts(path: &Path) -> Option<Facts> {
        let name = CString::new(path.as_os_str().as_bytes()).ok()?;
        ask(libc::AT_FDCWD, &name, 0).or_else(|| {
            forbidden().then(|| {
                // SAFETY: a structure of numbers, for which zero is a value.
                let mut found: libc::stat = unsafe { core::mem::zeroed() };
                // SAFETY: the name ends with a zero byte, and the structure is what the call writes.
                let code = unsafe { libc::stat(name.as_ptr(), &raw mut found) };
                older(code, &found)
            })?
        })
    }

    /// Returns the magic number of the file system on which a name lies.
    pub(crate) fn file_system(path: &Path) -> Option<u32> {
        let name = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut found: libc::statfs = unsafe { core::mem::zeroed() };
        // SAFETY: the name ends with a zero byte, and the structure is what the call writes.
        let code = unsafe { libc::statfs(name.as_ptr(), &raw mut found) };
        (code == 0).then_some(found.f_type as u32)
    }

    /// Returns which file a descriptor leads to.
    pub(crate) fn identity_of(descriptor: RawFd) -> Option<Identity> {
        let found = ask(descriptor, c"", libc::AT_EMPTY_PATH).or_else(|| {
            forbidden().then(|| {
                // SAFETY: a structure of numbers, for which zero is a value.
                let mut found: libc::stat = unsafe { core::mem::zeroed() };
                // SAFETY: the structure is what the call writes.
                let code = unsafe { libc::fstat(descriptor, &raw mut found) };
                older(code, &found)
            })?
        });
        found.map(|found| found.identity)
    }

    fn ask(descriptor: RawFd, name: &CStr, flags: i32) -> Option<Facts> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut found: libc::statx = unsafe { core::mem::zeroed() };
        let mask = libc::STATX_INO | STATX_MNT_ID;
        // SAFETY: the name ends with a zero byte, and the structure is what the call writes.
        let code = unsafe { libc::statx(descriptor, name.as_ptr(), flags, mask, &raw mut found) };
        (code == 0).then_some(Facts {
            identity: (u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor), found.stx_ino),
            mount: (found.stx_mask & STATX_MNT_ID != 0).then_some(found.stx_mnt_id),
            mount_root: found.stx_attributes & STATX_ATTR_MOUNT_ROOT != 0,
        })
    }

    /// Returns whether the last call failed because there is no such call, or none for us.
    fn forbidden() -> bool {
        matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
    }

    fn older(code: i32, found: &libc::stat) -> Option<Facts> {
        let device = u64::from(libc::major(found.st_dev)) << 32 | u64::from(libc::minor(found.st_dev));
        (code == 0).then_some(Facts { identity: (device, found.st_ino), mount: None, mount_root: false })
    }
}

#[cfg(all(unix, not(all(target_os = "linux", target_env = "gnu"))))]
mod system {
    use std::path::Path;

    use super::Facts;

    pub(crate) fn facts(path: &Path) -> Option<Facts> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path).ok()?;
        Some(Facts { identity: (found.dev(), found.ino()), mount: None, mount_root: false })
    }

    pub(crate) fn file_system(_: &Path) -> Option<u32> {
        None
    }
}

#[cfg(not(unix))]
mod system {
    use std::path::Path;

    use super::Facts;

    /// Returns whether there is a file: where this is used, open ones can be neither removed nor renamed.
    pub(crate) fn facts(path: &Path) -> Option<Facts> {
        path.exists().then_some(Facts { identity: (0, 0), mount: None, mount_root: false })
    }

    pub(crate) fn file_system(_: &Path) -> Option<u32> {
        None
    }
}

pub(crate) use system::*;

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

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn a_descriptor_is_the_file_it_was_opened_as() {
        use std::os::fd::AsRawFd;

        let path = std::env::temp_dir().join(format!("ferrodp-3-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("the temporary directory can be written");
        assert!(identity(&path).is_some());
        assert_eq!(identity_of(file.as_raw_fd()), identity(&path));
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(identity_of(-1), None);
    }
}
