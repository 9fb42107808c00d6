//! Locks that belong to an open file, not to the process.
//!
//! A POSIX record lock is gone as soon as the process closes *any* descriptor of the file: a copy of the ledger that is
//! made by the same process, or another SQLite in it that reads the file, would drop the locks that ours believes it
//! holds. Then another process could remove the log under an open ledger, and commits would be lost. Linux 3.15 has
//! locks of open file descriptions (`F_OFD_SETLK`), which only the descriptor that took them can lose. They exclude
//! POSIX locks of every process, also of this one, so programs with any other SQLite keep away as before.
//!
//! Why SQLite's bookkeeping stays right: in write-ahead mode all locks that change are on the `-shm` file, of which it
//! keeps one descriptor a process. On the main file each connection keeps a shared lock from its first use on. The
//! first connection's descriptor takes it for all, and SQLite leaves that descriptor open until the last of them ends
//! (`unixClose` sets it aside while the file has locks). A descriptor that did not take the lock cannot raise it either:
//! then the last connection to close finds the file in use and leaves the log where it is, which the next one reads.
//! So nothing that is believed to be locked ever is free.

use core::ffi::{c_int, c_void};
use std::sync::Once;

use rusqlite::ffi;

type Fcntl = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int;

/// Lets SQLite use these locks from now on, if the system has them.
pub(crate) fn install() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        if !available() {
            return;
        }
        // SAFETY: the default VFS lives as long as the program. On Linux it is the one called "unix", whose table of
        // system calls has an entry "fcntl". A variadic function there, but on the 64-bit systems that Linux runs on its
        // third argument is passed where a plain function receives it.
        unsafe {
            let vfs = ffi::sqlite3_vfs_find(core::ptr::null());
            if let Some(set) = vfs.as_ref().and_then(|vfs| vfs.xSetSystemCall) {
                let call = core::mem::transmute::<Fcntl, unsafe extern "C" fn()>(fcntl);
                let code = set(vfs, c"fcntl".as_ptr(), Some(call));
                assert_eq!(code, ffi::SQLITE_OK, "SQLite has a system call of this name on Linux");
            }
        }
    });
}

/// Returns whether the system knows these locks.
fn available() -> bool {
    let Ok(file) = std::fs::File::open("/proc/self/exe") else { return false };
    let mut lock = unlocked();
    // SAFETY: the descriptor is open, and the structure is what the command reads and writes.
    unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_OFD_GETLK, &raw mut lock) == 0 }
}

fn unlocked() -> libc::flock {
    libc::flock { l_type: libc::F_RDLCK as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 1, l_pid: 0 }
}

/// Stands where SQLite calls `fcntl`.
unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let own = match command {
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
        let holder = crate::Connection::open(&path, true).expect("the temporary directory can be written");
        for sql in ["PRAGMA journal_mode = WAL", "CREATE TABLE t (x)", "BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)"] {
            run(&holder, sql);
        }
        for suffix in ["", "-shm", "-wal"] {
            drop(std::fs::File::open(format!("{}{suffix}", path.display())).expect("SQLite made it"));
        }
        // A lock of the system on the byte by which SQLite knows writers, asked for as another process would.
        let shm = std::fs::File::options().read(true).write(true).open(format!("{}-shm", path.display()));
        let shm = shm.expect("SQLite made it");
        let mut lock = libc::flock { l_type: libc::F_WRLCK as _, l_start: 120, ..unlocked() };
        // SAFETY: as in `available`.
        let code = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&shm), libc::F_OFD_SETLK, &raw mut lock) };
        assert_eq!(code, -1, "the writer's lock is gone");
        run(&holder, "COMMIT");
        drop(holder);
        std::fs::remove_file(path).expect("it is there");
    }
}
