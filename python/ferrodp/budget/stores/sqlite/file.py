"""The file of a ledger in SQLite: which paths are accepted, and how it is made, completely or not at all."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import secrets
from pathlib import Path

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp.budget import records
from ferrodp.budget.stores.base import TABLES
from ferrodp.errors import FerroError, InvalidParameter, LedgerDamaged, LedgerError

APPLICATION = 0x46655244
"""Marks a database as a ledger of this program."""
SUFFIXES = "-journal", "-wal", "-shm"
"""Of the files that SQLite keeps beside a database."""
ABOUT = (
    "CREATE TABLE about (single INTEGER PRIMARY KEY CHECK (single = 1), identity TEXT NOT NULL, start TEXT NOT NULL)"
)
"""Which ledger this is: in pages of the file that no commit touches, so the log of another does not bring its own."""
MARK = "CREATE TABLE mark (page BLOB NOT NULL)"
"""Room for the number of the last acknowledged record: a page that SQLite never writes again, see `mark_page`."""
APPEND_ONLY = (
    "CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    "CREATE TRIGGER log_is_not_erased BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
)
SCHEMA = (ABOUT, MARK, *TABLES, *APPEND_ONLY)
MOVED = "the ledger was moved"
CLOSED = f"CREATE TRIGGER log_is_closed BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, '{MOVED}'); END"
"""What a ledger that was moved elsewhere has besides: its database takes no record any more, whoever writes it."""
PENDING = "the ledger is still to be moved here"
WAITS = f"CREATE TRIGGER log_is_pending BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, '{PENDING}'); END"
"""What a ledger has besides that was made to receive another: its database takes no record before that is here."""


def checked_path(path: object) -> tuple[Path, Path]:
    """Return the name of what may be or become a ledger, and the one to which it leads, both absolute."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise _validate.wrong_type("where", "a str or a path", path, write="'budget.db'")
    if str(path) == ":memory:":
        raise InvalidParameter(
            "where must be a file, got ':memory:': a budget has to outlive the process that spends it; for example "
            "where='budget.db'"
        )
    try:
        given = Path(os.getcwd(), path)
        found = Path(os.path.realpath(given, strict=False))
        if found.exists() and not found.is_file():
            inside = f"; name a file in it, such as {os.path.join(path, 'budget.db')!r}" if found.is_dir() else ""
            raise LedgerError(f"ledger {str(path)!r} is not a regular file{inside}")
        if found.exists() and not found.stat().st_size:
            raise LedgerError(f"ledger {str(path)!r} is an empty file; remove it to begin a new ledger")
        if not found.parent.is_dir():
            raise LedgerError(f"ledger {str(path)!r}: there is no directory {str(found.parent)!r}; make it first")
        there = (given, found) if given.exists() or found.exists() else (given.parent, found.parent)
        if not given.is_symlink() and identity(there[0]) != identity(there[1]):
            raise LedgerError(
                f"ledger {str(path)!r} lies beyond a link that no path spells out, such as /proc/PID/root; name it as "
                "it is called there, from a process that is there"
            )
    except (OSError, ValueError) as error:
        if isinstance(error, FerroError):
            raise
        raise LedgerError(f"ledger {str(path)!r} cannot be reached: {error}") from error
    return given, found


def refuse_remains(path: Path) -> None:
    """Refuse to begin a ledger beside the journal of one that is gone."""
    for suffix in SUFFIXES:
        if os.path.lexists(f"{path}{suffix}") and not path.exists():  # else another process was faster
            raise LedgerError(
                f"ledger {str(path)!r} does not exist, but {path.name + suffix!r} does: it was deleted or moved; put "
                "both back, or remove both to begin a new one"
            )


def refuse_other_names(path: Path) -> None:
    """Refuse hard links: each name would get a journal of its own. A process may have died while it made the file."""
    if path.exists() and path.stat().st_nlink > 1:
        for left_over in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}"):
            if identity(left_over) == identity(path):
                with contextlib.suppress(OSError):
                    left_over.unlink()
        if path.stat().st_nlink > 1:
            raise LedgerError(f"ledger {str(path)!r} has other names (hard links); remove them, SQLite cannot cope")


def refuse_foreign(path: Path) -> None:
    """Refuse a database of another program or format, before SQLite opens it: that may finish what is in its log."""
    header, application, version = header_of(path)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise LedgerDamaged(f"ledger {str(path)!r} is not a ledger, or damaged; restore it from a copy")
    if application != APPLICATION:
        raise LedgerError(f"ledger {str(path)!r} is a database of another program")
    if version != records.FORMAT:
        raise records.other_format(f"ledger {str(path)!r}", version)


def header_of(path: Path) -> tuple[bytes, int, int]:
    """Return the header of a file (SQLite's file format, section 1.3), and its application's id and version in it."""
    try:
        with path.open("rb") as stream:
            header = stream.read(100)
    except OSError as error:
        raise LedgerError(f"ledger {str(path)!r} cannot be read: {error}") from error
    return header, int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big", signed=True)


def make(path: Path, *, start: str | None = None, receives: str | None = None) -> None:
    """Make an empty ledger under another name, durably, and give it its name unless there is one by now.

    `start` is what stands before its first record: its own, unless it continues the log of another. One that `receives`
    another ledger, named by its identity, takes no record before that is in it.
    """
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    identity = records.new_identity(receives)
    try:
        connection = _native.SqliteConnection(hidden, create=True)
        try:
            for statement in (
                "PRAGMA journal_mode = DELETE",
                "PRAGMA synchronous = EXTRA",
                "BEGIN IMMEDIATE",
                f"PRAGMA application_id = {APPLICATION}",
                f"PRAGMA user_version = {records.FORMAT}",
                *SCHEMA,
                *([] if receives is None else [WAITS]),
                f"INSERT INTO about VALUES (1, '{identity}', '{start or records.start_of(identity)}')",
                f"INSERT INTO mark VALUES ({mark_page(identity)})",
                "COMMIT",
                "PRAGMA journal_mode = WAL",
            ):
                connection.execute(statement, ())
        finally:
            connection.close()
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(hidden, path)
        _sync_directory(path.parent)
    except (OSError, _native.SqliteError) as error:
        raise LedgerError(f"ledger {str(path)!r} cannot be made here: {error}") from error
    finally:
        for name in (hidden, *(Path(f"{hidden}{suffix}") for suffix in SUFFIXES)):
            with contextlib.suppress(OSError):
                name.unlink()


def before_mark(identity: str) -> bytes:
    """Return the 16 bytes that stand before the mark."""
    return hashlib.sha256(f"FerroDP mark\n{identity}".encode()).digest()[:16]


def mark_page(identity: str) -> str:
    """Return the content of the only row of `mark`, as a literal: its last 4092 bytes fill a page of their own.

    A row of 3 + 4578 bytes does not fit a page of 4096. SQLite keeps the first 489 of it in the table (its file format,
    section 1.6) and puts the others into one overflow page, after 4 bytes that say that no page follows. The mark is at
    byte 32 of that page. No statement changes the row, so SQLite writes that page once, when the ledger is made.
    """
    blob = bytearray(4578)
    blob[498:514] = before_mark(identity)
    return f"x'{blob.hex()}'"


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def identity(path: Path | str) -> tuple[int, int] | None:
    """Return which file a path leads to now, or None."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
