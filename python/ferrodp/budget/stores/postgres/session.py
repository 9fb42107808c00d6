"""One connection to a PostgreSQL server: its statements, the end of a transaction, and what a fork does to it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ferrodp.errors import LedgerError

_ROWS = 1000
"""At a time, of many that are read."""
_ABANDONED: list[Any] = []
"""Connections of a parent process: to use or even to close them in a forked child would break the parent's."""


@dataclass(slots=True)
class _Statement:
    """What shall be sent later, and how many rows it changed then."""

    sql: str
    parameters: Sequence[Any] | None
    rowcount: int = -1


class Session:
    """A connection in which every transaction begins and ends by a statement of ours."""

    def __init__(self, driver: Any, connection: Any) -> None:
        self._driver = driver
        self.connection = connection
        self._together: list[_Statement] | None = None
        self._warnings = 0
        self._transactions = 0
        connection.add_notice_handler(self._count_warning)

    @property
    def lost(self) -> bool:
        """Whether nothing can be sent any more."""
        return bool(self.connection.closed)

    def begin(self, sql: str) -> list[Any]:
        """Send all that a transaction begins with at once, and return the row that each question is answered with."""
        self._transactions += 1
        cursor = self.connection.execute(sql)
        rows = []
        while True:
            if cursor.description is not None:
                rows.append(cursor.fetchone())
            if not cursor.nextset():
                return rows

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement with `?` for parameters."""
        statement = _Statement(sql.replace("?", "%s"), parameters or None)
        if self._together is not None:
            self._together.append(statement)
            return statement
        return self.connection.execute(statement.sql, statement.parameters)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT for many rows, which travel as one parameter."""
        insert, _, _ = sql.partition(" VALUES ")
        table, _, fields = insert.removeprefix("INSERT INTO ").rstrip(")").partition(" (")
        names = fields.split(", ")
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
        self.execute(f"{insert} SELECT {fields} FROM json_populate_recordset(NULL::{table}, ?::json)", (text,))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Send the statements of the block at its end, in one message: it arrives as a whole, and is answered once.

        The driver writes the parameters into it, quoted by libpq.
        """
        statements: list[_Statement] = []
        self._together = statements
        try:
            yield
        finally:
            self._together = None
        quoting = self._driver.ClientCursor(self.connection)
        texts = [quoting.mogrify(statement.sql, statement.parameters) for statement in statements]
        cursor = self.connection.execute("; ".join(texts))
        for statement in statements:
            statement.rowcount = cursor.rowcount
            cursor.nextset()

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Sequence[Any]]:
        """Go through many rows, some at a time."""
        transaction, cursor = self._transactions, f"rows_{time.monotonic_ns()}"
        self.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {sql}", parameters)
        while True:
            if self._transactions != transaction:
                raise LedgerError("rows of a transaction cannot be read after its end")
            rows = self.execute(f"FETCH {_ROWS} FROM {cursor}").fetchall()
            yield from rows
            if len(rows) < _ROWS:
                return

    def commit(self) -> bool:
        """Return whether the server acknowledged that all is durable; if not, the connection is closed."""
        self._transactions += 1
        try:
            self._warnings = 0
            tag = self.connection.execute("COMMIT").statusmessage
            # "ROLLBACK" ends a transaction that had failed. A warning says that a standby was not waited for.
            if tag == "COMMIT" and not self._warnings:
                return True
        except self._driver.Error:
            pass
        except BaseException:
            self.close()
            raise
        self.close()
        return False

    def roll_back(self) -> None:
        """End a transaction that shall not be; if the server cannot be told, it will see that we are gone."""
        try:
            if not self.lost and self.connection.info.transaction_status != self._driver.pq.TransactionStatus.IDLE:
                self.connection.execute("ROLLBACK")
        except self._driver.Error:
            self.close()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the connection back; the server ends what was not committed."""
        self.connection.close()

    def abandon(self) -> None:
        """Leave the connection to the parent process: whatever is still written here goes nowhere."""
        _ABANDONED.append(self.connection)
        with contextlib.suppress(OSError, self._driver.Error):
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self.connection.fileno())
            os.close(nowhere)

    def _count_warning(self, diagnostic: Any) -> None:
        self._warnings += diagnostic.severity_nonlocalized == "WARNING"
