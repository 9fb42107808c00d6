"""A ledger on a PostgreSQL server, for many machines.

Each writing transaction first locks the one row of the head, so there is one writer at a time, whatever isolation level
the server, the role or the database prefer; each reading one sees one moment and waits for nobody. Nothing is kept in
the server's session between transactions, so poolers in transaction mode may stand in between.

What a lost connection means depends on when it is lost. Before COMMIT is sent, the server can only roll back: nothing
was charged. After that the outcome is asked for over a new connection. The answer is final, because it is given under
the lock that the lost transaction held until it ended: its record is in the log now, or never will be. It is as durable
as any other, because the asking transaction itself is committed, after it in the server's log. Only where nobody can be
asked is the outcome unknown; then it counts as spent.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ferrodp.budget import _postgres_errors, _postgres_schema
from ferrodp.budget._postgres_address import Address, driver
from ferrodp.budget._postgres_schema import DURABILITY, PATH
from ferrodp.budget._records import Head
from ferrodp.budget._store import Store, Transaction
from ferrodp.errors import LedgerError

_READING = f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {PATH}"
_HEAD = (
    "SELECT sequence, hash, (SELECT identity FROM about), (SELECT hash FROM log WHERE sequence = {seen}), {number} "
    "FROM head WHERE single = 1"
)
_ATTEMPTS = 5
_ROWS = 1000
"""At a time, of many that are read."""
_LONGEST_SILENCE = 30_000
"""Milliseconds after which the server gives up a writer that stopped in the middle and keeps all others waiting."""
_ABANDONED: list[Any] = []
"""Connections of a parent process: to use or even to close them in a forked child would break the parent's."""


class _Begun(NamedTuple):
    head: Head
    number: int
    """Of the transaction, as PostgreSQL counts them; 0 for one that reads."""


@dataclass(slots=True)
class _Statement:
    """What shall be sent later, and how many rows it changed then."""

    sql: str
    parameters: Sequence[Any] | None
    rowcount: int = -1


class PostgresStore(Store):
    """A ledger in the schema `ferrodp` of a database.

    Parameters
    ----------
    address : str
        A URL as libpq takes it, ``postgresql://user:password@host/database``.
    create : bool
        Whether to make the schema where there is none.
    timeout : float
        For how many seconds to wait for other writers, and for a server that went away while this was open.
    """

    def __init__(self, address: str, *, create: bool, timeout: float) -> None:
        self._driver = driver()
        self._address = Address(address, timeout=timeout)
        self._timeout = timeout
        self._dead: str | None = None
        self._connection: Any = None
        self._identity: str | None = None
        self._seen: Head | None = None
        self._together: list[_Statement] | None = None
        self._warnings = 0
        self._transactions = 0
        milliseconds = min(int(timeout * 1000) + 1, 2**31 - 1)
        self._milliseconds = milliseconds
        self._writing = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {PATH}; SET LOCAL lock_timeout = {milliseconds}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {_LONGEST_SILENCE}; "
            f"SET LOCAL client_min_messages = warning; {DURABILITY}"
        )
        self._connect(create=create, patient=False)
        os.register_at_fork(after_in_child=_abandoning(self))

    @property
    def name(self) -> str:
        """What messages call this ledger."""
        return self._address.name

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open the one writing transaction; see `Store`."""
        with self._harmless():
            begun = self._begin(self._begin_writing)
            transaction = Transaction(self, begun.head)
            yield transaction
            transaction.write()
        if not self._commit() and not self._committed_after_all(transaction, begun):
            raise LedgerError(f"{self.name}: the connection was lost before the commit; nothing was charged")
        self._seen = transaction.head

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a reading transaction; see `Store`."""
        with self._harmless():
            yield Transaction(self, self._begin(self._begin_reading).head)
        self._commit()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement; see `Store`."""
        statement = _Statement(sql.replace("?", "%s"), parameters or None)
        if self._together is not None:
            self._together.append(statement)
            return statement
        return self._connection.execute(statement.sql, statement.parameters)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT for many rows, which travel as one parameter."""
        insert, _, _ = sql.partition(" VALUES ")
        table, _, fields = insert.removeprefix("INSERT INTO ").rstrip(")").partition(" (")
        names = fields.split(", ")
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
        self.execute(f"{insert} SELECT {fields} FROM json_populate_recordset(NULL::{table}, ?::json)", (text,))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Send the statements of the block at its end, where libpq can do that without waiting for each.

        Not earlier: until all of them have arrived, the server would not notice that this process stopped.
        """
        statements: list[_Statement] = []
        self._together = statements
        try:
            yield
        finally:
            self._together = None
        piped = self._driver.Pipeline.is_supported()
        with self._connection.pipeline() if piped else contextlib.nullcontext():
            cursors = [self._connection.execute(statement.sql, statement.parameters) for statement in statements]
        for statement, cursor in zip(statements, cursors, strict=True):
            statement.rowcount = cursor.rowcount

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Sequence[Any]]:
        """Go through many rows, some at a time."""
        transaction, cursor = self._transactions, f"rows_{time.monotonic_ns()}"
        self.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {sql}", parameters)
        while True:
            if self._transactions != transaction:
                raise LedgerError(f"{self.name}: the transaction is over")
            rows = self.execute(f"FETCH {_ROWS} FROM {cursor}").fetchall()
            yield from rows
            if len(rows) < _ROWS:
                return

    def close(self) -> None:
        """Give the connection back."""
        self._dead = self._dead or f"{self.name} is closed"
        self._drop()

    def abandon(self) -> None:
        """Leave the connection to the parent process: whatever is still written here goes nowhere."""
        self._dead = f"{self.name} was opened by the parent of this process; open it again here"
        connection, self._connection = self._connection, None
        if connection is not None:
            _ABANDONED.append(connection)
            with contextlib.suppress(OSError, self._driver.Error):
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, connection.fileno())
                os.close(nowhere)

    # beginnings

    def _begin(self, begin: Callable[[], _Begun]) -> _Begun:
        """Begin a transaction, on a new connection if there is none or it turns out to be lost."""
        for attempt in range(1, _ATTEMPTS + 1):
            if self._dead is not None:
                raise LedgerError(self._dead)
            if self._connection is None:
                self._connect(create=False, patient=True)
            self._transactions += 1
            try:
                return begin()
            except self._driver.Error as error:
                lost = self._lost()
                self._roll_back()
                if attempt == _ATTEMPTS or not (lost or error.sqlstate in _postgres_errors.CONFLICTS):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _begin_writing(self) -> _Begun:
        durability, head = self._answers(self._writing, f"{_HEAD} FOR UPDATE", number="pg_current_xact_id()::text")
        try:
            _postgres_schema.refuse_forgetful(durability, self.name)
        except LedgerError:
            self._drop()  # what a role or a database prefers is asked for when a session begins
            raise
        return self._begun(head)

    def _begin_reading(self) -> _Begun:
        return self._begun(*self._answers(_READING, _HEAD, number="0"))

    def _answers(self, begin: str, head: str, *, number: str) -> list[Any]:
        """Send all that a transaction begins with at once, and return what its questions are answered with."""
        seen = 0 if self._seen is None else self._seen.sequence
        cursor = self._connection.execute(f"{begin}; {head.format(seen=seen, number=number)}")
        rows = []
        while True:
            if cursor.description is not None:
                rows.append(cursor.fetchone())
            if not cursor.nextset():
                return rows

    def _begun(self, row: tuple[Any, ...] | None) -> _Begun:
        """Refuse a server that forgot what this process has seen: a stale replica that took over, or a backup."""
        if row is None:
            raise LedgerError(f"{self.name} has no head: its log was cut")
        sequence, digest, identity, digest_then, number = row
        if identity != self._identity:
            self._dead = f"{self.name} was removed or replaced while it was open"
            raise LedgerError(self._dead)
        head, seen = Head(sequence, digest), self._seen
        if seen is not None and (head.sequence < seen.sequence or (seen.sequence and digest_then != seen.hash)):
            self._dead = f"{self.name} was put back to an earlier state while it was open"
            raise LedgerError(self._dead)
        self._seen = head
        return _Begun(head, int(number))

    # ends

    def _commit(self) -> bool:
        """Return whether the server acknowledged that all is durable; if not, the connection is not used again."""
        try:
            self._warnings = 0
            tag = self._connection.execute("COMMIT").statusmessage
            # "ROLLBACK" ends a transaction that had failed. A warning says that a standby was not waited for.
            if tag == "COMMIT" and not self._warnings:
                return True
        except self._driver.Error:
            pass
        except BaseException:
            self._drop()
            raise
        self._drop()
        return False

    def _committed_after_all(self, transaction: Transaction, begun: _Begun) -> bool:
        """Return whether a transaction was committed whose commit was not acknowledged.

        It had locked the head and, unless it wrote nothing, changed it. Who holds that lock now comes after its end,
        in whichever way it ended. Its last record has a hash that others could only have by the very same change to
        the very same state, and carries the number of the transaction, which others do not have.
        """
        if transaction.head == transaction.read_head:
            return False
        try:
            with self._harmless():
                self._begin(self._begin_writing)
                number = str(begun.number % 2**32)
                sql = "SELECT 1 FROM log WHERE sequence = ? AND hash = ? AND xmin = ?::xid"
                found = self.execute(sql, (*transaction.head, number)).fetchone()
            if self._commit():
                return found is not None
        except LedgerError as error:
            reason = f" ({error})"
        else:
            reason = ""
        raise LedgerError(
            f"{self.name}: the connection was lost during the commit, and the outcome is unknown{reason}; what was "
            "asked for counts as spent"
        )

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        """Leave no trace of what fails before the commit, and say so."""
        try:
            yield
        except self._driver.Error as error:
            lost = self._lost()
            self._roll_back()
            text, final = _postgres_errors.meaning(error, lost=lost)
            message = f"{self.name} {text}"
            if final:
                self._dead = message
                self._drop()
            raise LedgerError(message) from error
        except BaseException:
            self._roll_back()
            raise

    def _lost(self) -> bool:
        return self._connection is None or bool(self._connection.closed)

    def _roll_back(self) -> None:
        """End a transaction that shall not be; if the server cannot be told, it will see that we are gone."""
        if self._connection is None:
            return
        try:
            if self._connection.info.transaction_status != self._driver.pq.TransactionStatus.IDLE:
                self._connection.execute("ROLLBACK")
        except self._driver.Error:
            self._drop()
        except BaseException:
            self._drop()
            raise

    # the connection

    def _connect(self, *, create: bool, patient: bool) -> None:
        """Take a connection if a ledger, and the same as before, is at its other end."""
        connection = self._address.connect(time.monotonic() + self._timeout, patient=patient)
        try:
            try:
                identity = _postgres_schema.inspect(
                    connection, self.name, create=create, milliseconds=self._milliseconds
                )
            except self._driver.Error as error:
                text, _ = _postgres_errors.meaning(error, lost=bool(connection.closed))
                raise LedgerError(f"{self.name} {text}") from error
            if self._identity not in (None, identity):
                self._dead = f"{self.name} was removed or replaced while it was open"
                raise LedgerError(self._dead)
        except BaseException:
            connection.close()
            raise
        connection.add_notice_handler(self._count_warning)
        self._identity = identity
        self._connection = connection

    def _count_warning(self, diagnostic: Any) -> None:
        self._warnings += diagnostic.severity_nonlocalized == "WARNING"

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _abandoning(store: PostgresStore) -> Callable[[], None]:
    reference = weakref.ref(store)

    def abandon() -> None:
        found = reference()
        if found is not None:
            found.abandon()

    return abandon
