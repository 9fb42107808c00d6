"""A connection to a ledger's file whose commits are durable, and the schema that the file has to have."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

from ferrodp import _native
from ferrodp.budget.stores.sqlite import file as _file
from ferrodp.errors import LedgerError

READ = "SELECT 1 FROM sqlite_master"
"""Begins to read: opens the files, and fixes the moment that a transaction sees."""
_MODE, _SYNCHRONOUS = ("wal",), (2,)
"""A write-ahead log, synced at each commit (FULL)."""
_SETTINGS = (
    "synchronous = FULL",
    "wal_autocheckpoint = 1000",
    "fullfsync = 1",
    "checkpoint_fullfsync = 1",
    "trusted_schema = 0",
    "cell_size_check = 1",
)
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
_MORE: tuple[tuple[str, ...], ...] = (), (_file.CLOSED,), (_file.WAITS,)
"""What a schema may have besides: nothing, or what refuses records after a move or before one is complete."""


def connected(path: Path, timeout: float, *, writable: bool = True) -> _native.SqliteConnection:
    """Return a connection on which what is committed stays, or refuse.

    One that is not `writable` reads while others have the ledger open: it cannot make the log that belongs to it.
    """
    connection = _native.SqliteConnection(path, create=False, writable=writable)
    try:
        if not writable and not os.path.exists(f"{path}-wal"):
            raise LedgerError(
                f"ledger {str(path)!r} may not be written here, and nobody has it open: then even reading has to make "
                "files beside it; read it where it may be written, or read a backup"
            )
        connection.execute_slowly(READ, seconds=timeout)  # another may just be closing it
        if writable and connection.execute("PRAGMA journal_mode", ()).fetchone() != _MODE:
            connection.execute_slowly("PRAGMA journal_mode = WAL", seconds=timeout)
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}", ())
        connection.execute_slowly(READ, seconds=timeout)  # opens the log, which may be new
        found = [connection.execute(f"PRAGMA {name}", ()).fetchone() for name in ("journal_mode", "synchronous")]
        if found != [_MODE, _SYNCHRONOUS]:
            raise LedgerError(
                f"ledger {str(path)!r} cannot keep a write-ahead log, without which commits may be lost; close it "
                "everywhere else first, and keep it on a local disk"
            )
    except BaseException:
        with contextlib.suppress(_native.SqliteError):
            connection.close(fold=False)
        raise
    # mutant: log-not-synced
    return connection


_IN_THE_WAY = {
    "locks": "needs locks of open files, which this system does not have (Linux does)",
    "mount": "has a file that is a mount point, {name!r}; mount its directory instead",
    "others": "is open elsewhere with another log: one of its files was moved, removed, linked or mounted under "
    "another name; close it everywhere, and put its files back together",
    "name": "is not the ledger that somebody else has open under this name: the file, or a directory in {name!r} that "
    "leads to it, was replaced; close the other first, also one that failed",
}


def in_the_way(what: str, name: Path) -> str:
    """Return what is in the way of using a ledger's files, as `SqliteConnection.guard` names it."""
    found = _IN_THE_WAY.get(what, "was moved, deleted or replaced while it was opened: {last!r}")
    return found.format(name=str(name), last=name.name)


def fault(connection: _native.SqliteConnection, timeout: float, *, structure: bool = True) -> str | None:
    """Return what is wrong with the schema of the file, or on request with its structure, or None."""
    checked = structure and connection.execute_slowly("PRAGMA integrity_check(1)", seconds=timeout).fetchone()
    # mutant: other-tables-and-triggers-overlooked
    if connection.execute(_SCHEMA, ()).fetchall() not in [_expected_schema(more) for more in _MORE]:
        return "has other tables, indexes or triggers than this program makes"
    return None if not structure or checked == ("ok",) else "is damaged; restore it from a copy"


@functools.cache
def _expected_schema(more: tuple[str, ...]) -> list[tuple[Any, ...]]:
    connection = _native.SqliteConnection(":memory:", create=True)
    for statement in (*_file.SCHEMA, *more):
        connection.execute(statement, ())
    return connection.execute(_SCHEMA, ()).fetchall()
