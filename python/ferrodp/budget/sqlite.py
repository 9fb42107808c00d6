"""A ledger in one file: SQLite, as safe against crashes as it can be made.

Versions of SQLite before 3.51.3 can lose committed transactions in write-ahead mode when two connections reset the log
at the same time (sqlite.org, release notes of 3.51.3); there a rollback journal is used, with `synchronous=EXTRA`. It
is truncated after each commit, not removed, which costs as many syncs and a quarter less time. Fixed versions use a
write-ahead log with `synchronous=FULL`. What was asked for is read back and checked. Network file systems are refused:
SQLite's locks do not hold there.

What SQLite knows in memory about locks must not be inherited: a child that opens a file of which its parent held a lock
at the moment of the fork would believe that it holds it, too. So a fork waits for the transaction under way, and
finds no connection open; the parent's is opened again when it is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sqlite3
import threading
import urllib.parse
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ferrodp.budget import _file, _filesystem, _records
from ferrodp.budget._records import Head
from ferrodp.budget._store import TABLES, Store, Transaction
from ferrodp.errors import LedgerError

_LOG_FIXED = (3, 51, 3)
_FULL, _EXTRA = 2, 3
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter for texts of a damaged file that appear in messages
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
_OPEN: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_ROWS_AT_ONCE = 100
_OPENING = threading.Lock()
"""Held while a connection is made, and during a fork."""


def mode_for(version: tuple[int, ...]) -> tuple[str, int]:
    """Return the journal mode and the level of `synchronous` for a version of SQLite."""
    return ("wal", _FULL) if version >= _LOG_FIXED else ("truncate", _EXTRA)


class SqliteStore(Store):
    """A ledger in a file.

    Parameters
    ----------
    path : str or PathLike
        The file. If there is none it is made, whole or not at all, unless `create` is false.
    timeout : float
        For how many seconds to wait for other writers.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool, timeout: float, allow_network_file_system: bool = False
    ) -> None:
        self._path = _file.checked_path(path)
        self._dead: str | None = None
        self._timeout = timeout
        self._lock = threading.RLock()
        self._user: tuple[int, object] | None = None
        self._paused = False
        if not allow_network_file_system:
            _filesystem.refuse_network(self._path)
        try:
            if not self._path.exists():
                if not create:
                    raise LedgerError(f"{self.name} does not exist")
                _file.refuse_remains(self._path)
                _file.make(self._path)
            _file.refuse_other_names(self._path)
        except LedgerError:
            raise
        except OSError as error:
            raise LedgerError(f"{self.name} cannot be reached: {error}") from error
        self._identity = _file.identity(self._path)
        self._connection: sqlite3.Connection | None = None
        self._seen = Head(0, _records.START)
        _OPEN.add(self)
        self._connect()

    @property
    def name(self) -> str:
        """What messages call this ledger."""
        return f"ledger {str(self._path)!r}"

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open the one writing transaction; see `Store`."""
        with self._transaction("BEGIN IMMEDIATE") as transaction:
            yield transaction
            transaction.write()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a reading transaction; see `Store`."""
        with self._transaction("BEGIN") as transaction:
            yield transaction

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._lock:
            self._check_alive()
            connection = self._connection or self._connect()
            mark = self._user = threading.get_ident(), object()
            try:
                if connection.in_transaction:  # a thread was interrupted before it could end it
                    connection.execute("ROLLBACK")
                connection.execute(begin)
                if _file.identity(self._path) != self._identity:
                    self._dead = f"{self.name} was moved, deleted or replaced while it was open"
                    raise LedgerError(self._dead)
                transaction = Transaction(self)
                self._check_mode(connection)
                self._check_past(transaction)
                yield transaction
                self._check_alive()  # not so in a child that was forked meanwhile
                connection.execute("COMMIT")
                self._seen = transaction.head
            except _ERRORS as error:
                raise self._failed(error) from error
            finally:
                if self._user is mark:
                    if connection.in_transaction:
                        with contextlib.suppress(sqlite3.Error):
                            connection.execute("ROLLBACK")
                    self._user = None

    def _check_mode(self, connection: sqlite3.Connection) -> None:
        """See that no process with a newer SQLite changed the journal; now it cannot, for there is a lock."""
        found = str(connection.execute("PRAGMA journal_mode").fetchone()[0]).lower()
        if found != mode_for(sqlite3.sqlite_version_info)[0]:
            self._dead = f"{self.name} was put into journal mode {found!r} by another version of SQLite; open it again"
            raise LedgerError(self._dead)

    def _check_past(self, transaction: Transaction) -> None:
        """See that what this handle saw before is still there: a copy put in place is the same file to the system."""
        seen = self._seen
        if transaction.read_head != seen and transaction.hash_of(seen.sequence) != seen.hash:
            self._dead = f"{self.name} was put back to an earlier state while it was open"
            raise LedgerError(self._dead)

    def _connect(self) -> sqlite3.Connection:
        try:
            with _OPENING:
                self._connection = _connected(self._path, self._timeout)
        except _ERRORS as error:
            raise self._failed(error) from error
        return self._connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement; see `Store`."""
        return self._used().execute(sql, parameters)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT for each row, many rows a statement: the interpreter changes threads at every statement."""
        values = sql[sql.rindex("(") :]
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            whole = ", ".join((sql, *[values] * (len(part) - 1)))
            self._used().execute(whole, [value for row in part for value in row])

    def _used(self) -> sqlite3.Connection:
        if self._connection is None:
            self._check_alive()
        assert self._connection is not None  # within a transaction
        return self._connection

    def check(self) -> None:
        """Let SQLite check its own structures."""
        with self._lock:
            self._check_alive()
            connection = self._connection or self._connect()
            try:
                found = connection.execute("PRAGMA integrity_check(1)").fetchone()
                schema = connection.execute(_SCHEMA).fetchall()
            except _ERRORS as error:
                raise self._failed(error) from error
        if schema != _expected_schema():
            raise LedgerError(f"{self.name} has other tables, indexes or triggers than this program makes")
        if found is None or found[0] != "ok":
            raise LedgerError(f"{self.name} is damaged; restore it from a copy")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._dead is None:
                self._dead = f"{self.name} is closed"
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection, self._user = self._connection, None, None
        if connection is not None:
            connection.close()

    def pause(self) -> None:
        """Leave no connection open for a fork, unless this very thread forks in the middle of a transaction."""
        user = self._user
        if (user is None or user[0] != threading.get_ident()) and self._lock.acquire(timeout=self._timeout):
            self._paused = True
            self._disconnect()

    def resume(self) -> None:
        """Go on after a fork."""
        if self._paused:
            self._paused = False
            self._lock.release()

    def abandon(self) -> None:
        """Be of no use in a forked child."""
        if self._connection is not None:  # to use or even to close it here would break the parent's
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._connection = self._user = None
        self._dead = f"{self.name} was opened by the parent of this process; open it again here"

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise LedgerError(self._dead)

    def _failed(self, error: Exception) -> LedgerError:
        """Return what SQLite's error means. After errors of the disk the connection is not used again."""
        code = str(getattr(error, "sqlite_errorname", "") or "")
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return LedgerError(f"{self.name} is busy: another writer did not finish in time; nothing was charged")
        if code.startswith("SQLITE_FULL"):
            return LedgerError(
                f"{self.name}: the disk is full; what was asked for was not recorded, or counts as spent"
            )
        if code.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH")):
            return LedgerError(f"{self.name} cannot be written here: {error}")
        if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or isinstance(error, UnicodeDecodeError):
            self._dead = f"{self.name} is no ledger, or damaged; restore it from a copy"
            return LedgerError(self._dead)
        self._dead = f"{self.name} failed ({code or type(error).__name__}: {error}); open it again"
        return LedgerError(self._dead)


@functools.cache
def _expected_schema() -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in (*TABLES, *_file.APPEND_ONLY):
            connection.execute(statement)
        return connection.execute(_SCHEMA).fetchall()


def _connected(path: Path, timeout: float) -> sqlite3.Connection:
    """Return a connection that is as durable as this version allows, or refuse."""
    address = f"file:{urllib.parse.quote(str(path))}?mode=rw"
    connection = sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, timeout=timeout, cached_statements=256
    )
    try:
        marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if marks[0] != _file.APPLICATION:
            raise LedgerError(f"ledger {str(path)!r} is a database of another program")
        if marks[1] != _records.FORMAT:
            raise LedgerError(f"ledger {str(path)!r} has format {marks[1]}; this version reads {_records.FORMAT}")
        mode, level = mode_for(sqlite3.sqlite_version_info)
        found = str(connection.execute("PRAGMA journal_mode").fetchone()[0]).lower()
        if found != mode:
            found = str(connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0]).lower()
        connection.execute(f"PRAGMA synchronous = {level}")
        if found != mode or connection.execute("PRAGMA synchronous").fetchone()[0] != level:
            raise LedgerError(
                f"ledger {str(path)!r} cannot be put into journal mode {mode!r}, which SQLite {sqlite3.sqlite_version} "
                "needs to keep what it commits; close it everywhere else first"
            )
        for setting in ("fullfsync = 1", "checkpoint_fullfsync = 1", "trusted_schema = 0", "cell_size_check = 1"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _before_fork() -> None:
    _OPENING.acquire()
    for store in list(_OPEN):
        store.pause()


def _after_in_parent() -> None:
    for store in list(_OPEN):
        store.resume()
    _OPENING.release()


def _after_in_child() -> None:
    for store in list(_OPEN):
        store.resume()
        store.abandon()
    _OPENING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
