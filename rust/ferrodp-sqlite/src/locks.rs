//! Locks that belong to an open file, not to the process, and which files SQLite opened.
//!
//! A POSIX record lock is gone as soon as the process closes *any* descriptor of the file: a copy of the ledger that is
//! made by the same process, or another SQLite in it that reads the file, would drop the locks that ours believes it
//! holds. Then another process could remove the log under an open ledger, and commits would be lost. Linux 3.15 has
//! locks of open file descriptions (`F_OFD_SETLK`), which only the descriptor that took them can lose. They exclude
//! POSIX locks of every process, also of this one, so programs with any other SQLite keep away as before. There is no
//! falling back: where the system refuses these locks, SQLite's calls fail, and [`Guard`](crate::guard) says why.
//!
//! Why SQLite's bookkeeping stays right: in write-ahead mode all locks that change are on the `-shm` file, of which it
//! keeps one descriptor a process. On the main file each connection keeps a shared lock from its first use on. The
//! first connection's descriptor takes it for all, and SQLite leaves that descriptor open until the last of them ends
//! (`unixClose` sets it aside while the file has locks). A descriptor that did not take the lock cannot raise it either:
//! then the last connection to close finds the file in use and leaves the log where it is, which the next one reads.
//! So nothing that is believed to be locked ever is free.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use rusqlite::ffi;

use crate::identity::{Identity, identity_of};

type Fcntl = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int;
type Open = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;

/// Lets SQLite use these locks from now on.
pub(crate) fn install() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // SAFETY: the default VFS lives as long as the program. On Linux it is the one called "unix", whose table of
        // system calls has entries "fcntl" and "open". The first is a variadic function there, but on the 64-bit systems
        // that Linux runs on its third argument is passed where a plain function receives it.
        unsafe {
            let vfs = ffi::sqlite3_vfs_find(core::ptr::null());
            if let Some(set) = vfs.as_ref().and_then(|vfs| vfs.xSetSystemCall) {
                let call = core::mem::transmute::<Fcntl, unsafe extern "C" fn()>(fcntl);
                let code = set(vfs, c"fcntl".as_ptr(), Some(call));
                assert_eq!(code, ffi::SQLITE_OK, "SQLite has a system call of this name on Linux");
                let call = core::mem::transmute::<Open, unsafe extern "C" fn()>(open);
                let code = set(vfs, c"open".as_ptr(), Some(call));
                assert_eq!(code, ffi::SQLITE_OK, "SQLite has a system call of this name on Linux");
            }
        }
    });
}

/// Takes a lock on some bytes of a file, shared or exclusive, without waiting for it.
pub(crate) fn lock(file: &File, kind: c_int, start: i64, length: i64) -> io::Result<()> {
    let mut asked = bytes(kind, start, length);
    // SAFETY: the descriptor is open, and the structure is what the command reads.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut asked) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether another open file has any lock on some bytes.
pub(crate) fn locked_by_others(file: &File, start: i64, length: i64) -> io::Result<bool> {
    if length == 0 {
        return Ok(false); // to the system, 0 means all that follow
    }
    let mut asked = bytes(libc::F_WRLCK, start, length);
    // SAFETY: the descriptor is open, and the structure is what the command reads and writes.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut asked) };
    if code == 0 { Ok(c_int::from(asked.l_type) != libc::F_UNLCK) } else { Err(io::Error::last_os_error()) }
}

fn bytes(kind: c_int, start: i64, length: i64) -> libc::flock {
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: start, l_len: length, l_pid: 0 }
}

/// Stands where SQLite calls `fcntl`.
unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let own = match command {
        // mutant: locks-taken-as-process-s
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_SETLKW => libc::F_OFD_SETLKW,
        libc::F_GETLK => libc::F_OFD_GETLK,
        // SAFETY: passed on as it came.
        _ => return unsafe { libc::fcntl(descriptor, command, argument) },
    };
    let asked = argument.cast::<libc::flock>();
    // SAFETY: with these commands SQLite passes a `struct flock` of its own. It need not set `l_pid`, which the system
    // wants to be 0 here.
    unsafe {
        (*asked).l_pid = 0;
        libc::fcntl(descriptor, own, asked)
    }
}

/// Stands where SQLite calls `open`: which file a name led to is known for certain only at this moment.
unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: passed on as it came.
    let descriptor = unsafe { libc::open(name, flags, mode) };
    if descriptor >= 0
        && let Some(found) = identity_of(descriptor)
    {
        // SAFETY: SQLite passes a name that ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
        opened_files().insert(name, found);
    }
    descriptor
}

/// Returns which file SQLite opened last under a name.
///
/// What is kept is a few bytes for each name, as connections of a process share one `-shm` that only the first opens.
pub(crate) fn opened(name: &[u8]) -> Option<Identity> {
    opened_files().get(name).copied()
}

fn opened_files() -> MutexGuard<'static, BTreeMap<Vec<u8>, Identity>> {
    static FILES: LazyLock<Mutex<BTreeMap<Vec<u8>, Identity>>> = LazyLock::new(Mutex::default);
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(connection: &crate::Connection, sql: &str) {
        connection.execute(sql, &[], |_| Ok::<_, crate::Error>(())).expect("nobody is in the way");
    }

    #[test]
    fn a_lock_outlives_other_descriptors_of_the_file() {
        install();
        let path = std::env::temp_dir().join(format!("ferrodp-locks-{}.db", std::process::id()));
        let holder =
            crate::Connection::open(&path, crate::Access::Make).expect("the temporary directory can be written");
        for sql in ["PRAGMA journal_mode = WAL", "CREATE TABLE t (x)", "BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)"] {
            run(&holder, sql);
        }
        for suffix in ["", "-shm", "-wal"] {
            drop(File::open(format!("{}{suffix}", path.display())).expect("SQLite made it"));
        }
        // The byte by which SQLite knows writers, requested as another process would.
        let shm = File::options().read(true).write(true).open(format!("{}-shm", path.display()));
        let shm = shm.expect("SQLite made it");
        assert!(lock(&shm, libc::F_WRLCK, 120, 1).is_err(), "the writer's lock is gone");
        assert!(locked_by_others(&shm, 120, 1).expect("the file is open"));
        run(&holder, "COMMIT");
        assert!(!locked_by_others(&shm, 120, 1).expect("the file is open"));
        drop(holder);
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn what_sqlite_opened_is_known_by_its_name() {
        install();
        let path = std::env::temp_dir().join(format!("ferrodp-opened-{}.db", std::process::id()));
        drop(crate::Connection::open(&path, crate::Access::Make).expect("the temporary directory can be written"));
        let name = path.to_str().expect("plain text").as_bytes();
        assert_eq!(opened(name), crate::identity::identity(&path));
        assert_eq!(opened(b"nothing"), None);
        std::fs::remove_file(path).expect("it is there");
    }
}
