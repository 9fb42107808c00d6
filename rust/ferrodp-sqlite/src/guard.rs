//! What holds a ledger's files together while a connection uses them.
//!
//! A ledger is three files: the database, its log (`-wal`) and what SQLite knows in common of that log (`-shm`). SQLite
//! goes by their names. Whoever reaches the same database under another name, or after one of the names was moved,
//! removed or covered by a mount, gets a log or an index of his own: then two writers do not see each other's charges,
//! or the charges in a log are forgotten. Three things prevent that.
//!
//! **Presence.** Each connection holds a shared lock on one byte of the database, far behind those of SQLite; which byte
//! follows from the log and the index that it opened ([`locks::opened`], so not from names). It takes that lock first
//! and asks second whether any other byte of the range is locked: if so, somebody uses this database with another log
//! or index. Of two that come at once, each has its lock before it asks, so at least one is refused. Such a lock belongs
//! to the inode: it holds through renames, hard links, bind mounts, chroots and namespaces, and dies with its process.
//! The same is done in each directory above, with a byte that follows from the rest of the path and from the database:
//! so two processes do not use different databases under one name, be it that the file was replaced by a copy or one of
//! its directories was. Processes in another mount namespace may have mounted something below such a directory, and then
//! mean something else by the same name; they are compared only with those of their own.
//!
//! **The mark.** In a page that SQLite never writes again after the ledger was made stands the number of the last record
//! that was acknowledged. It is raised after the commit and before the acknowledgment, not synced, and never lowered. A
//! log that was removed, cut, exchanged or left behind makes the database's last record fall behind the mark, whatever
//! else happened; then the ledger is refused. (After a power failure the mark may be older than the last
//! acknowledgments: so only the removal of a log right after one is not noticed.)
//!
//! **Checks.** When a transaction begins, the end of the log is compared with what the index says about it: a log that
//! was cut, or overwritten by an earlier one, is noticed before anything is added. At its end the same is done again,
//! with the frame that was the last before, and the names of the database and its log are compared with the files in
//! use: before anything is acknowledged. They need not be compared before that: nobody else uses this database with
//! another log, so a commit that is refused then has overwritten nothing of anybody's.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Fault;
use crate::identity::{Facts, Identity, facts, identity};
use crate::locks;

/// Where the bytes of presence begin, on a database and on a directory: SQLite's are near 2³⁰.
const PRESENCE_OFFSET: i64 = 1 << 61;
/// Locked by whoever raises the mark.
const MARKING_OFFSET: i64 = PRESENCE_OFFSET - 1;
const PAGE_BYTES: usize = 4096;
/// Where in its page the mark is.
const MARK_OFFSET: usize = 16;
/// How many pages are searched for it: it is in one of the first few.
const SEARCHED_PAGES: usize = 16;
/// How much of an index is mapped at first.
const MAPPED_BYTES: u64 = 1 << 15;
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The files that a connection uses, and the locks that say so.
#[derive(Debug)]
pub(crate) struct Guard {
    main: File,
    log: File,
    index: File,
    /// Those whose locks say under which names the database is used here.
    _directories: Vec<File>,
    names: Vec<(PathBuf, Identity)>,
    mark: Option<u64>,
    seen: Cell<Option<End>>,
}

/// Where a log ends, as its index says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    frames: u32,
    page: u64,
    salt: [u8; 8],
    sum: [u32; 2],
}

impl Guard {
    /// Takes presence, or says why not. `main` was opened before SQLite opened the same path.
    pub(crate) fn new(main: File, given: &Path, path: &Path) -> Result<Self, Fault> {
        let [log_name, index_name] = ["-wal", "-shm"].map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        });
        let mut names = Vec::new();
        for name in [path, &log_name, &index_name] {
            let found = facts(name).ok_or_else(|| Fault::new("gone", name))?;
            if found.mount_root {
                return Err(Fault::new("mount", name));
            }
            if locks::opened(name.as_os_str().as_bytes()) != Some(found.identity) {
                return Err(Fault::new("replaced", name));
            }
            names.push((name.to_owned(), found.identity));
        }
        let (database, index_found) = (names[0].1, names[2].1);
        if given != path {
            if identity(given) != Some(database) {
                return Err(Fault::new("replaced", given));
            }
            names.insert(2, (given.to_owned(), database));
        }
        let open = |name: &Path, expected: Identity| {
            let file = File::open(name).map_err(|_| Fault::new("gone", name))?;
            if is(&file, expected) { Ok(file) } else { Err(Fault::new("replaced", name)) }
        };
        let (log, index) = (open(&log_name, names[1].1)?, open(&index_name, index_found)?);
        if !is(&main, database) {
            return Err(Fault::new("replaced", path));
        }
        let own = hash(&[&numbers(names[1].1), &numbers(index_found)]) & (PRESENCE_OFFSET - 1);
        if !present(&main, 0, PRESENCE_OFFSET, own).map_err(|_| Fault::new("locks", path))? {
            return Err(Fault::new("others", path));
        }
        let mut directories = directories_above(path, database)?;
        if given != path {
            directories.extend(directories_above(given, database)?);
        }
        Ok(Self { main, log, index, _directories: directories, names, mark: None, seen: Cell::new(None) })
    }

    /// Returns the first of the names that leads to another file by now, or to none.
    ///
    /// The last one, that of the index, is looked at if `all` are requested: as long as this is open, nobody else can
    /// use another index.
    pub(crate) fn replaced(&self, all: bool) -> Option<Fault> {
        let watched = &self.names[..self.names.len() - usize::from(!all)];
        // mutant: names-of-the-files
        let changed = watched.iter().find(|(name, then)| identity(name) != Some(*then));
        changed.map(|(name, _)| Fault::new("replaced", name))
    }

    /// Returns whether the log ends as it did the last time, or what [`cut`](Self::cut) finds.
    pub(crate) fn same_end(&self) -> Result<bool, Fault> {
        let before = self.seen.get();
        match self.cut() {
            Some(fault) => Err(fault),
            None => Ok(before.is_some() && before == self.seen.get()),
        }
    }

    /// Returns whether the log does not end as its index says, or no longer holds what it ended with the last time.
    pub(crate) fn cut(&self) -> Option<Fault> {
        let fault = || Some(Fault::new("log", &self.names[1].0));
        let mut before = self.end();
        for _ in 0..100 {
            let Ok(Some(end)) = before else { return fault() };
            let still = |seen: End| seen.salt != end.salt || seen == end || self.holds(&seen);
            if self.holds(&end) && self.seen.get().is_none_or(still) {
                self.seen.set((end.frames > 0).then_some(end));
                return None;
            }
            let after = self.end();
            if matches!(after, Ok(Some(again)) if again == end) {
                return fault();
            }
            before = after; // another process wrote in between
        }
        fault()
    }

    /// Returns where the log ends; None if another process is just writing that down again and again.
    fn end(&self) -> io::Result<Option<End>> {
        let mut header = [0; 96];
        for attempt in 0..1000 {
            self.index.read_exact_at(&mut header, 0)?;
            let (one, two) = header.split_at(48);
            if one == two {
                let word = |at: usize| u32::from_ne_bytes([one[at], one[at + 1], one[at + 2], one[at + 3]]);
                let size = u16::from_ne_bytes([one[14], one[15]]);
                let page = u64::from(size & 0xfe00) + (u64::from(size & 1) << 16);
                let mut salt = [0; 8];
                salt.copy_from_slice(&one[32..40]);
                return Ok(Some(End { frames: word(16), page, salt, sum: [word(24), word(28)] }));
            }
            if attempt > 10 {
                std::thread::sleep(Duration::from_micros(10));
            }
        }
        Ok(None)
    }

    /// Returns whether the log has this frame, with all that its head says.
    fn holds(&self, end: &End) -> bool {
        if end.frames == 0 {
            return true;
        }
        let mut frame = [0; 24];
        let place = 32 + (u64::from(end.frames) - 1) * (end.page + 24);
        let read = self.log.read_exact_at(&mut frame, place);
        let word = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        read.is_ok() && frame[8..16] == end.salt && [word(16), word(20)] == end.sum
    }

    /// Finds the mark by what stands before it, and returns whether it is there.
    pub(crate) fn find_mark(&mut self, before: &[u8; 16]) -> bool {
        let mut pages = vec![0; SEARCHED_PAGES * PAGE_BYTES];
        let mut length = 0;
        while let Ok(found @ 1..) = self.main.read_at(&mut pages[length..], length as u64) {
            length += found;
        }
        let place = pages[..length].chunks_exact(PAGE_BYTES).position(|page| page[MARK_OFFSET..].starts_with(before));
        self.mark = place.map(|number| (number * PAGE_BYTES + MARK_OFFSET + before.len()) as u64);
        self.mark.is_some()
    }

    /// Returns the number of the last record that was acknowledged; None if what is there is no number, or the index,
    /// whose memory SQLite would read next, was cut.
    pub(crate) fn mark(&self) -> Option<u64> {
        self.index.read_exact_at(&mut [0], MAPPED_BYTES - 1).ok()?;
        self.number()
    }

    fn number(&self) -> Option<u64> {
        let place = self.mark?;
        for _ in 0..1000 {
            let mut found = [0; 16];
            self.main.read_exact_at(&mut found, place).ok()?;
            let value = u128::from_le_bytes(found);
            let (number, check) = (value as u64, (value >> 64) as u64);
            if value == 0 || number == !check {
                return Some(number);
            }
        }
        None
    }

    /// Raises the mark to the number of a record, unless it is higher; returns whether that is certain.
    pub(crate) fn raise_mark(&self, number: u64) -> bool {
        let start = Instant::now();
        while locks::lock(&self.main, libc::F_WRLCK, MARKING_OFFSET, 1).is_err() {
            if start.elapsed() > LONGEST_WAIT {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let value = u128::from(number) | u128::from(!number) << 64;
        let done = match (self.mark, self.number()) {
            (Some(_), Some(found)) if found >= number => true,
            (Some(place), Some(_)) => self.main.write_all_at(&value.to_le_bytes(), place).is_ok(),
            _ => false,
        };
        locks::lock(&self.main, libc::F_UNLCK, MARKING_OFFSET, 1).is_ok() && done
    }
}

fn is(file: &File, expected: Identity) -> bool {
    use std::os::fd::AsRawFd;
    crate::identity::identity_of(file.as_raw_fd()) == Some(expected)
}

/// Locks byte `own` of a range for reading, and returns whether nobody has locked another byte of it.
fn present(file: &File, start: i64, length: i64, own: i64) -> io::Result<bool> {
    let (start, own) = (PRESENCE_OFFSET + start, PRESENCE_OFFSET + start + own);
    locks::lock(file, libc::F_RDLCK, own, 1)?;
    let before = locks::locked_by_others(file, start, own - start)?;
    Ok(!before && !locks::locked_by_others(file, own + 1, start + length - own - 1)?)
}

/// Says in each directory above that its name for this database leads to this one.
fn directories_above(path: &Path, database: Identity) -> Result<Vec<File>, Fault> {
    const VALUES: i64 = 1 << 30;
    let value = hash(&[&numbers(database)]) & (VALUES - 1);
    let namespace = identity(Path::new("/proc/self/ns/mnt"));
    let mut found = Vec::new();
    let (mut below, mut crossed): (Option<Facts>, bool) = (None, false);
    for directory in path.ancestors().skip(1) {
        let (Some(here), Ok(rest)) = (facts(directory), path.strip_prefix(directory)) else { continue };
        crossed |= below.is_some_and(|below| match (below.mount, here.mount) {
            (Some(one), Some(other)) => one != other,
            _ => below.identity.0 != here.identity.0,
        });
        below = Some(here);
        let Ok(file) = File::open(directory) else {
            continue; // another's, who lets us pass but not look
        };
        let name = rest.as_os_str().as_bytes();
        let everywhere = (!crossed).then(|| hash(&[b"everywhere", name]));
        let here = namespace.map(|number| hash(&[b"in", &numbers(number), name]));
        for key in [everywhere, here].into_iter().flatten() {
            match present(&file, (key & (VALUES - 1)) * VALUES, VALUES, value) {
                Ok(true) | Err(_) => {} // some file systems have no locks on directories
                Ok(false) => return Err(Fault::new("name", directory)),
            }
        }
        found.push(file);
    }
    Ok(found)
}

fn numbers(identity: Identity) -> [u8; 16] {
    (u128::from(identity.0) << 64 | u128::from(identity.1)).to_le_bytes()
}

/// Returns 62 bits that differ for different parts, but by an accident that nobody has a reason to arrange.
fn hash(parts: &[&[u8]]) -> i64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a, then the end of MurmurHash3
    for byte in parts.iter().flat_map(|part| part.len().to_le_bytes().into_iter().chain(part.iter().copied())) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    state = (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state = (state ^ state >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    ((state ^ state >> 33) >> 2).cast_signed()
}
