"""Files of format 2, which 0.1.0 wrote: read once, to be moved into a new ledger, and closed.

Their logs begin with zeros, and their records are read by today's rules. Their tables are not used: everything follows
from the log, whose hashes are checked.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ferrodp import _native
from ferrodp.budget import records
from ferrodp.budget.stores.rows import in_parts
from ferrodp.budget.stores.sqlite import file as _file
from ferrodp.errors import LedgerError

_FORMAT, _CLOSED_FORMAT = 2, 1002
"""As the file's header says it. A closed file is refused by 0.1.0, too."""
_ROWS_AT_ONCE = 1000


def opened(path: object, timeout: float) -> OldFile | None:
    """Return the ledger of format 2 in a file, or None if there is none."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path):
        return None
    found = Path(os.path.realpath(path))
    _, application, version = _file.header_of(found)
    if application != _file.APPLICATION:
        return None
    if version == 1:
        raise LedgerError(
            f"ledger {str(found)!r} has format 1, of a version that was never released, and cannot be read; begin a "
            "new ledger with caps that are lower by what was spent"
        )
    return OldFile(found, timeout) if version in (_FORMAT, _CLOSED_FORMAT) else None


class OldFile:
    """A ledger of format 2."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.name = f"ledger {str(path)!r}"
        self._timeout = timeout
        with self._reading():
            self._connection = _native.SqliteConnection(path, create=False)
            self._connection.execute_slowly("PRAGMA synchronous = EXTRA", seconds=timeout)

    def lines(self) -> Iterator[Sequence[Any]]:
        """Go through number, text and hash of each record."""
        sql = f"SELECT sequence, body, hash FROM log WHERE sequence > ? ORDER BY sequence LIMIT {_ROWS_AT_ONCE}"

        def read(last: int) -> list[Any]:
            with self._reading():
                return self._connection.execute(sql, (last,)).fetchall()

        return in_parts(read, _ROWS_AT_ONCE, after=0)

    @property
    def identity(self) -> str:
        """What tells this ledger from others: the hash of its first record, which has its time."""
        with self._reading():
            row = self._connection.execute("SELECT hash FROM log ORDER BY sequence LIMIT 1", ()).fetchone()
        return "format 2" if row is None else str(row[0])

    def last_move(self) -> dict[str, Any] | None:
        """Return the last record if the file takes none any more, else None."""
        with self._reading():
            if self._connection.execute("PRAGMA user_version", ()).fetchone() == (_FORMAT,):
                return None
            last = "SELECT body FROM log ORDER BY sequence DESC LIMIT 1"
            return records.parsed(str((self._connection.execute(last, ()).fetchone() or ("{}",))[0]))

    def close_log(self, reason: str, to: dict[str, str]) -> None:
        """Write the last record, after which the file takes none any more, unless that was done before."""
        with self._reading():
            connection = self._connection
            connection.execute_slowly("BEGIN IMMEDIATE", seconds=self._timeout)
            try:
                if connection.execute("PRAGMA user_version", ()).fetchone() == (_FORMAT,):
                    sequence, digest = connection.execute(
                        "SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1", ()
                    ).fetchone() or (0, records.OLD_START)
                    time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
                    text = records.plain_object(
                        {
                            "kind": "move",
                            "reason": reason,
                            "sequence": sequence + 1,
                            "time": time,
                            "to": records.plain(to),
                        }
                    )
                    row = sequence + 1, text, records.chained(digest, text)
                    connection.execute("INSERT INTO log (sequence, body, hash) VALUES (?, ?, ?)", row)
                    connection.execute(_file.CLOSED, ())
                    connection.execute(f"PRAGMA user_version = {_CLOSED_FORMAT}", ())
                connection.execute_slowly("COMMIT", seconds=self._timeout)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK", ())

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(_native.SqliteError):
            self._connection.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _native.SqliteError as error:
            raise LedgerError(f"{self.name} cannot be moved: {error.args[1]}") from error
