"""A ledger in one file: SQLite, configured to be as safe against crashes as it can be.

SQLite is compiled in. The interpreter's own may be a version that can lose commits (before 3.51.3, says sqlite.org);
and on Linux other code of the process cannot drop the locks of ours. It keeps a write-ahead log with
`synchronous=FULL`: a commit is one write and one sync of the log, after which it is acknowledged. The settings are read
back and checked. What may happen to the files of an open ledger is the subject of `guard.rs` in the crate
ferrodp-sqlite.

What SQLite knows in memory about locks must not be inherited: a child that opens a file whose lock its parent held at
the moment of the fork would believe that it holds the lock, too. So a fork waits for the transaction under way, and
finds no connection open; the parent's is opened again when it is needed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ferrodp import _native
from ferrodp.budget import records
from ferrodp.budget.records import Head
from ferrodp.budget.stores.base import INHERITED, OPEN, OPENING, Store, Transaction
from ferrodp.budget.stores.rows import FIELDS, in_parts
from ferrodp.budget.stores.sqlite import connection as _sqlite_connection
from ferrodp.budget.stores.sqlite import file as _file
from ferrodp.budget.stores.sqlite import filesystem as _filesystem
from ferrodp.errors import LedgerDamaged, LedgerError, LedgerUnavailable

_HEAD = "SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1"
_WRITE, _READ = ("BEGIN IMMEDIATE",), ("BEGIN", _sqlite_connection.READ)
_ABOUT = "SELECT identity, start FROM about WHERE single = 1"
_INHERITED: set[tuple[int, int] | None] = set()
"""Files whose locks this process shares with the parent that forked it in the middle of a transaction."""
_BUSY = " is busy: another writer did not finish in time; nothing was charged"
_UNWRITABLE = " cannot be written here, which even reading needs: {text}"
_MEANINGS = {
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_FULL": ": the disk is full; what was asked for was not recorded, or counts as spent",
    **dict.fromkeys(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH"), _UNWRITABLE),
}
"""What errors mean after which the connection can still be used."""
_PASSING = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL"})
"""Errors after which the same call may succeed later."""
_ROWS_AT_ONCE = 1000


class SqliteStore(Store):
    """A ledger in a file.

    Parameters
    ----------
    path : str or PathLike
        The file. If there is none it is made, whole or not at all, unless `create` is false.
    timeout : float
        For how many seconds to wait for other writers.
    read_only : bool
        Whether nothing shall be written: then a file that may not be written will do, while others have it open.
    start : str, optional
        What stands before the first record, if a ledger is made that continues the log of another.
    receives : str, optional
        The identity of the ledger that shall be moved into the one that is made, which takes no record before that.
    """

    closing = (_file.CLOSED,)
    beginning = ("DROP TRIGGER log_is_pending",)
    pending = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name = 'log_is_pending'"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool,
        timeout: float,
        read_only: bool = False,
        start: str | None = None,
        receives: str | None = None,
        allow_unsafe_file_system: bool = False,
    ) -> None:
        super().__init__(timeout=timeout, read_only=read_only)
        self._given, self._path = _file.checked_path(path)
        self._writable = not read_only or os.access(self._path, os.W_OK)
        self._lock = threading.RLock()
        self._user: tuple[int, object] | None = None
        self._paused = False
        self._last: Transaction | None = None
        self._unsafe = allow_unsafe_file_system
        self._guarded = False
        if not allow_unsafe_file_system:
            _filesystem.refuse_untrusted(self._path)
        try:
            if not self._path.exists():
                if not create:
                    raise records.not_there(self.name)
                _file.refuse_remains(self._path)
                _file.make(self._path, start=start, receives=receives)
            _file.refuse_other_names(self._path)
        except LedgerError:
            raise
        except OSError as error:
            raise LedgerError(f"{self.name} cannot be reached: {error}") from error
        self._identity = _file.identity(self._path)
        if self._identity is None:
            raise LedgerError(f"{self.name} cannot be reached: the system does not say which file it is")
        if not any(other._holds(self._identity) for other in list(OPEN) if isinstance(other, SqliteStore)):
            # mutant: database-of-another-program-opened-to-look
            _file.refuse_foreign(self._path)  # where locks are the process's, to close the file again would drop them
        if self._identity in _INHERITED:
            raise LedgerError(f"{self.name} was in use when this process was forked; open it in another process")
        self._connection: _native.SqliteConnection | None = None
        OPEN.add(self)
        self._connect()

    @property
    def name(self) -> str:
        """What messages call this ledger."""
        return f"ledger {str(self._path)!r}"

    @property
    def identity(self) -> str:
        """The random name of this ledger; see `Store`."""
        return str(self._about[0])

    @property
    def place(self) -> str:
        """The absolute path of the file, without links."""
        return str(self._path)

    def writing(self) -> contextlib.AbstractContextManager[Transaction]:
        """Open the one writing transaction; see `Store`."""
        self._check_writable()
        return self._transaction(_WRITE)

    def reading(self) -> contextlib.AbstractContextManager[Transaction]:
        """Open a reading transaction; see `Store`."""
        return self._transaction(_READ)

    @contextlib.contextmanager
    def _transaction(self, beginning: tuple[str, ...]) -> Iterator[Transaction]:
        with self._lock:
            self._check_alive()
            connection = self._connection or self._connect()
            mark = self._user = threading.get_ident(), object()
            before, self._last = self._last, None
            is_open = True
            try:
                transaction = self._begin(connection, beginning, before)
                yield transaction
                transaction.write()
                self._check_alive()  # not so in a child that was forked in between
                head = transaction.head
                number = None if head == transaction.read_head else head.sequence
                # mutant: transactions-not-committed
                fault, raised = connection.commit(number, seconds=self._timeout)
                is_open = False
                self._refuse_fault(fault)
                if not raised:
                    raise self._end("could not note what it acknowledges; what was asked for counts as spent")
                self._seen, self._stated, self._last = head, transaction.stated, transaction
            except _native.SqliteError as error:
                raise self._failed(error) from error
            finally:
                if self._user is mark:
                    if is_open and connection.in_transaction:
                        with contextlib.suppress(_native.SqliteError):
                            connection.execute("ROLLBACK", ())
                    self._user = None

    def _begin(
        self, connection: _native.SqliteConnection, beginning: tuple[str, ...], before: Transaction | None
    ) -> Transaction:
        """Begin a transaction, roll back what an interrupted thread left, and check what this handle knows.

        Where the log ends as it did when this connection's last transaction ended, nobody has written since, be it with
        this program or another: then a writer still knows what that transaction knew. A reader asks again.
        """
        acknowledged, fault, same, row = connection.begin(beginning, _HEAD, seconds=self._timeout)
        if acknowledged is None:
            raise self._end("does not say up to where it was acknowledged, or has no index; it is damaged")
        self._refuse_fault(fault)
        transaction = Transaction(self, self._head(row))
        # mutant: copy-put-back-under-open-ledger-not-noticed
        self._check_past(transaction, acknowledged)
        # mutant: what-others-wrote-in-between-overlooked
        if same and beginning is _WRITE and before is not None and before.head == transaction.head:
            transaction.follow(before)
        return transaction

    def _refuse_fault(self, fault: tuple[str, Path] | None) -> None:
        """See that the files are those in which this handle reads and writes, and that its log is whole.

        The log is asked about before anything is added; all at the end, before what was read is used, and what was
        written is acknowledged.
        """
        if fault is None:
            return
        what, name = fault
        if what == "log":
            found = f"has a log, {name.name!r}, that was cut or overwritten"
        elif name in (self._path, self._given):
            found = "was moved, deleted or replaced"
        else:
            found = f"lost its log, {name.name!r},"
        raise self._end(f"{found} while it was open")

    def _head(self, row: tuple[Any, ...] | None) -> Head:
        if row is None:
            return Head(0, self.start)
        if type(row[1]) is not str:
            raise LedgerDamaged(f"{self.name} has a head that no version of this program wrote")
        return Head(*row)

    def _holds(self, identity: tuple[int, int]) -> bool:
        return self._connection is not None and self._identity == identity

    def _check_past(self, transaction: Transaction, acknowledged: int) -> None:
        """See that what was acknowledged, and what this handle saw before, is still there.

        A copy put in place is the same file to the system.
        """
        last = transaction.read_head.sequence
        if last < acknowledged:
            raise self._end(
                f"lost records: {acknowledged} were acknowledged and it holds {last}; its log "
                f"({self._path.name}-wal) was removed, cut or exchanged, or an earlier state was put back. Restore all "
                "of its files together"
            )
        seen = self._seen
        if seen is None or transaction.read_head == seen:
            return
        if transaction.hash_of(seen.sequence) != seen.hash:
            raise self._end("was put back to an earlier state while it was open")

    def _connect(self) -> _native.SqliteConnection:
        try:
            with OPENING:
                connection = _sqlite_connection.connected(self._path, self._timeout, writable=self._writable)
                try:
                    self._guard(connection)
                    self._meet(connection)
                except BaseException:
                    with contextlib.suppress(_native.SqliteError):
                        connection.close(fold=False)
                    raise
                self._connection = connection
        except _native.SqliteError as error:
            raise self._failed(error) from error
        return self._connection

    def _guard(self, connection: _native.SqliteConnection) -> None:
        """See that nobody uses these files in another combination, and that nobody will while they are open here."""
        found = connection.guard(self._given, self._path)
        if _file.identity(self._path) != self._identity:
            raise self._end("was moved, deleted or replaced while it was open")
        self._guarded = found is None
        if found is None or (self._unsafe and found[0] in ("locks", "mount")):
            return
        raise LedgerError(f"{self.name} {_sqlite_connection.in_the_way(*found)}")

    def _meet(self, connection: _native.SqliteConnection) -> None:
        """Learn which ledger the file holds: the same as before, if this handle saw it before."""
        try:
            rows = connection.execute(_ABOUT, ()).fetchall()
        except _native.SqliteError as error:
            if error.args[0] != "SQLITE_ERROR":
                raise
            rows = []
        if len(rows) != 1 or not all(type(value) is str for value in rows[0]):
            raise LedgerDamaged(f"{self.name} does not say which ledger it is; restore it from a copy")
        if self._guarded and not connection.find_mark(_file.before_mark(rows[0][0])):
            raise LedgerDamaged(f"{self.name} was rearranged by another program (VACUUM?), or is damaged")
        if self._about not in (None, rows[0]):
            raise self._end("was replaced by another ledger while it was open")
        self._about = rows[0]
        self.start = rows[0][1]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement; see `Store`."""
        return (self._connection or self._used()).execute(sql, parameters)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        (self._connection or self._used()).execute_many(sql, rows)

    def stream(self, table: str, *, after: int | None = None) -> Iterator[Sequence[Any]]:
        """Go through rows of a table, some at a time; see `Store`."""

        def read(last: int | None) -> list[tuple[Any, ...]]:
            beyond = "" if last is None else f"WHERE sequence > {last}"
            sql = f"SELECT sequence, {', '.join(FIELDS[table])} FROM {table} {beyond} ORDER BY sequence LIMIT ?"
            return self._used().execute(sql, (_ROWS_AT_ONCE,)).fetchall()

        return (row[1:] for row in in_parts(read, _ROWS_AT_ONCE, after=after))

    def beside(self) -> SqliteStore:
        """Open the file once more, to read; see `Store`."""
        self._check_alive()
        other = SqliteStore(
            self._path, create=False, timeout=self._timeout, read_only=True, allow_unsafe_file_system=self._unsafe
        )
        if (other._identity, other._about) != (self._identity, self._about):
            other.close()
            raise LedgerError(f"{self.name} was moved, deleted or replaced while it was open")
        other._seen = self._seen
        return other

    def _used(self) -> _native.SqliteConnection:
        if self._connection is None:
            self._check_alive()
        assert self._connection is not None  # within a transaction
        return self._connection

    def check(self, *, structure: bool = True) -> None:
        """Compare the schema with what it should be, and on request let SQLite check its own structures."""
        with self._lock:
            self._check_alive()
            connection = self._connection or self._connect()
            try:
                found = _sqlite_connection.fault(connection, self._timeout, structure=structure)
            except _native.SqliteError as error:
                raise self._failed(error) from error
        if found is not None:
            raise LedgerDamaged(f"{self.name} {found}")

    def close(self, *, trusted: bool = True) -> None:
        """Close the file."""
        with self._lock:
            trusted = trusted and self._dead is None
            self._dead = self._dead or f"{self.name} is closed; open it again"
            self._disconnect(fold=trusted)

    def _disconnect(self, *, fold: bool) -> None:
        """Close the files, and let the last to do so move the log into the file, if they are what they were."""
        connection, self._connection, self._user, self._last = self._connection, None, None, None
        if connection is not None:
            with contextlib.suppress(_native.SqliteError):  # all that was committed is on the disk
                connection.close(fold=fold and connection.fault(all=True) is None)

    def pause(self) -> None:
        """Leave no connection open for a fork, unless this very thread forks in the middle of a transaction."""
        user = self._user
        if (user is None or user[0] != threading.get_ident()) and self._lock.acquire(timeout=self._timeout):
            self._paused = True
            self._disconnect(fold=self._dead is None)

    def resume(self) -> None:
        """Go on after a fork."""
        if self._paused:
            self._paused = False
            self._lock.release()

    def abandon(self) -> None:
        """Be of no use in a forked child."""
        if self._connection is not None:  # to use or even to close it here would break the parent's
            self._connection.forget()
            _INHERITED.add(self._identity)
            # mutant: forked-child-ends-transaction-of-parent
            self._connection = self._user = None
        self._end(INHERITED)

    def _failed(self, error: _native.SqliteError) -> LedgerError:
        """Return what SQLite's error means. After errors of the disk the connection is not used again."""
        code, text = error.args
        if self._dead is not None:
            return LedgerError(self._dead)
        found = _MEANINGS.get(code)
        if code == "SQLITE_CONSTRAINT" and _file.MOVED in text:
            found = " was moved to another place: it takes no record any more; use the new one"
        if code == "SQLITE_CONSTRAINT" and _file.PENDING in text:
            found = f" {records.STILL_PENDING}"
        if found is not None:
            kind = LedgerUnavailable if code in _PASSING else LedgerError
            return kind(self.name + found.format(text=text))
        if code in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
            return self._end("is no ledger, or damaged; restore it from a copy", LedgerDamaged)
        if code == "SQLITE_IOERR_FULL":
            full = "has a full disk; what was asked for was not recorded, or counts as spent; open it again"
            return self._end(full, LedgerUnavailable)
        return self._end(f"failed ({code}: {text}); open it again")
