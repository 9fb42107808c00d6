"""A ledger on a PostgreSQL server, for many machines.

Each writing transaction first locks the one row of the head, so there is one writer at a time, whatever isolation level
the server, the role or the database prefer; each reading one sees one moment and waits for nobody. Nothing is kept in
the server's session between transactions, so poolers in transaction mode may stand in between.

What a lost connection means depends on when it is lost. Before COMMIT is sent, the server can only roll back: nothing
was charged. After that the outcome is requested over a new connection. The answer is final, because it is given under
the lock that the lost transaction held until it ended: its record is in the log now, or never will be. It is as durable
as any other, because the asking transaction itself is committed, after it in the server's log. Only where nobody can be
asked is the outcome unknown; then it counts as spent.

A server needs PostgreSQL 13 or later, a database in UTF8, and its settings as they are by default: with
`synchronous_commit`, `fsync` or `full_page_writes` off, requested anew in every transaction, nothing is charged. With
standbys, name them in `synchronous_standby_names`: commits then wait for them, whatever the session prefers. Standbys
that are not waited for may take over without the last commits; processes that saw a later state refuse such a server,
and so does a witness.

Making a ledger needs the right to create a schema, and who made it owns it and can rewrite it. So let the processes
that spend connect as a role of their own, to which `grant` gives the rights to spend and no others.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ferrodp._base import _fork
from ferrodp.budget.records import Head
from ferrodp.budget.stores.base import INHERITED, OPEN, Store, Transaction
from ferrodp.budget.stores.postgres import errors as _postgres_errors
from ferrodp.budget.stores.postgres import schema as _postgres_schema
from ferrodp.budget.stores.postgres.address import Address, driver
from ferrodp.budget.stores.postgres.schema import DURABILITY, PATH, PLACE
from ferrodp.budget.stores.postgres.session import Session
from ferrodp.budget.stores.rows import FIELDS
from ferrodp.errors import LedgerDamaged, LedgerError, LedgerUnavailable

# A writer that stops in the middle keeps all others waiting: after 30 seconds of silence the server gives it up.
_WRITING = (
    f"BEGIN ISOLATION LEVEL READ COMMITTED; {PATH}; SET LOCAL lock_timeout = {{milliseconds}}; "
    "SET LOCAL idle_in_transaction_session_timeout = 30000; SET LOCAL client_min_messages = warning; "
    f"{DURABILITY}"
)
_READING = f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {PATH}"
_HEAD = (
    f"SELECT sequence, hash, (SELECT identity FROM about), {PLACE}, "
    "(SELECT hash FROM log WHERE sequence = {seen}), {number} FROM head WHERE single = 1"
)
_ATTEMPTS = 5
_REPLACED = "was removed or replaced while it was open"


class _Begun(NamedTuple):
    head: Head
    number: int
    """Of the transaction, as PostgreSQL counts them; 0 for one that reads."""


class PostgresStore(Store):
    """A ledger in the schema `ferrodp` of a database.

    Parameters
    ----------
    address : str or Address
        A URL as libpq takes it, ``postgresql://user:password@host/database``.
    create : bool
        Whether to make the schema where there is none.
    timeout : float
        For how many seconds to wait for other writers, and for a server that went away while this was open.
    read_only : bool
        Whether nothing shall be written: then a replica, or a read-only server, will do.
    start : str, optional
        What stands before the first record, if a ledger is made that continues the log of another.
    receives : str, optional
        The identity of the ledger that shall be moved into the one that is made, which takes no record before that.
    """

    closing = _postgres_schema.CLOSED
    beginning = _postgres_schema.BEGUN
    pending = _postgres_schema.WAITING

    def __init__(
        self,
        address: str | Address,
        *,
        create: bool,
        timeout: float,
        read_only: bool = False,
        start: str | None = None,
        receives: str | None = None,
    ) -> None:
        super().__init__(timeout=timeout, read_only=read_only)
        self._driver = driver()
        self._address = Address(address, timeout=timeout) if isinstance(address, str) else address
        self._milliseconds = min(int(timeout * 1000) + 1, 2**31 - 1)
        self._process = _fork.generation()
        self._wanted: dict[str, Any] = {"start": start, "receives": receives}
        self._session = self._connected(time.monotonic() + timeout, create=create, patient=False)
        OPEN.add(self)

    @property
    def name(self) -> str:
        """What messages call this ledger."""
        return self._address.name

    @property
    def identity(self) -> str:
        """The random name of this ledger; see `Store`."""
        return str(self._about.identity)

    @property
    def place(self) -> str:
        """The numbers by which the server knows the database and the tables."""
        return str(self._about.place)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open the one writing transaction; see `Store`."""
        self._check_alive()
        self._check_writable()
        with self._harmless():
            begun = self._begin(self._begin_writing)
            transaction = Transaction(self, begun.head)
            yield transaction
            transaction.write()
        if not self._session.commit() and not self._committed_after_all(transaction, begun):
            raise LedgerUnavailable(f"{self.name}: the connection was lost before the commit; nothing was charged")
        self._seen, self._stated = transaction.head, transaction.stated

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a reading transaction; see `Store`."""
        self._check_alive()
        with self._harmless():
            yield Transaction(self, self._begin(self._begin_reading).head)
        self._session.commit()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement; see `Store`."""
        return self._session.execute(sql, parameters)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT for each row."""
        self._session.execute_many(sql, rows)

    def together(self) -> contextlib.AbstractContextManager[object]:
        """Let the statements of the block go together; see `Store`."""
        return self._session.together()

    def stream(self, table: str, *, after: int | None = None) -> Iterator[Sequence[Any]]:
        """Go through rows of a table, some at a time; see `Store`."""
        beyond = "" if after is None else f"WHERE sequence > {after} "
        return self._session.stream(f"SELECT {', '.join(FIELDS[table])} FROM {table} {beyond}ORDER BY sequence")

    def beside(self) -> PostgresStore:
        """Connect once more, to read; see `Store`."""
        self._check_alive()
        other = PostgresStore(self._address, create=False, timeout=self._timeout, read_only=True)
        if other._about != self._about:
            other.close()
            raise LedgerError(f"{self.name} {_REPLACED}")
        other._seen = self._seen
        return other

    def move_head(self, before: Head, after: Head) -> Iterable[Any]:
        """Note the new head in the row by whose lock writers exclude each other."""
        sql = f"UPDATE head SET sequence = ?, hash = ? WHERE single = 1 AND sequence = ? AND hash = ? AND {PLACE} = ?"
        yield self.execute(sql, (*after, *before, self._about.place))

    def close(self, *, trusted: bool = True) -> None:
        """Give the connection back."""
        self._dead = self._dead or f"{self.name} is closed; open it again"
        if self._process == _fork.generation():
            self._session.close()

    def abandon(self) -> None:
        """Leave the connection to the parent process."""
        self._end(INHERITED)
        self._session.abandon()

    # beginnings

    def _begin(self, begin: Callable[[], _Begun]) -> _Begun:
        """Begin a transaction, on a new connection if the old one is lost or turns out to be."""
        deadline = time.monotonic() + self._timeout
        for attempt in range(1, _ATTEMPTS + 1):
            self._check_alive()
            self._session.roll_back()  # what an interrupted thread may have left
            if self._session.lost:
                self._session = self._connected(deadline, create=False, patient=True)
            try:
                return begin()
            except self._driver.Error as error:
                self._session.roll_back()
                if attempt == _ATTEMPTS or not (self._session.lost or error.sqlstate in _postgres_errors.CONFLICTS):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _begin_writing(self) -> _Begun:
        begin = _WRITING.format(milliseconds=self._milliseconds)
        durability, head = self._session.begin(f"{begin}; {self._question('pg_current_xact_id()::text')} FOR UPDATE")
        _postgres_schema.refuse_forgetful(durability, self.name)
        return self._begun(head)

    def _begin_reading(self) -> _Begun:
        return self._begun(*self._session.begin(f"{_READING}; {self._question('0')}"))

    def _question(self, number: str) -> str:
        return _HEAD.format(seen=0 if self._seen is None else self._seen.sequence, number=number)

    def _begun(self, row: tuple[Any, ...] | None) -> _Begun:
        """Refuse a server that forgot what this process has seen: a stale replica that took over, or a backup."""
        if row is None:
            raise LedgerDamaged(f"{self.name} has no head: its log was cut")
        sequence, digest, identity, place, digest_then, number = row
        if self._about is None or (identity, place) != (self._about.identity, self._about.place):
            raise self._end(_REPLACED)
        head, seen = Head(sequence, digest), self._seen
        if seen is not None and (head.sequence < seen.sequence or (seen.sequence and digest_then != seen.hash)):
            raise self._end("was put back to an earlier state while it was open")
        self._seen = head
        return _Begun(head, int(number))

    # ends

    def _committed_after_all(self, transaction: Transaction, begun: _Begun) -> bool:
        """Return whether a transaction was committed whose commit was not acknowledged.

        It had locked the head and, unless it wrote nothing, changed it. Who holds that lock now comes after its end,
        in whichever way it ended. If its last record is not there, it will never be. If it is there and carries the
        number of the transaction, it was committed. Another number means that somebody did the very same to the very
        same state, or rewrote the table: that settles nothing.
        """
        if transaction.head == transaction.read_head:
            return False
        cause = None
        try:
            with self._harmless():
                self._begin(self._begin_writing)
                sql = "SELECT xmin = ?::xid FROM log WHERE sequence = ? AND hash = ?"
                row = self.execute(sql, (str(begun.number % 2**32), *transaction.head)).fetchone()
            if self._session.commit() and row in (None, (True,)):
                return row is not None
        except LedgerError as error:
            cause = error
        raise LedgerError(
            f"{self.name}: the connection was lost during the commit, and the outcome is unknown; what was asked for "
            "counts as spent"
        ) from cause

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        """Leave no trace of what fails before the commit, and say so."""
        try:
            yield
        except self._driver.Error as error:
            self._session.roll_back()
            text, kind = _postgres_errors.meaning(error, lost=self._session.lost)
            raise (self._end(text, kind) if kind is LedgerDamaged else kind(f"{self.name} {text}")) from error
        except BaseException:
            self._session.roll_back()
            raise

    def _connected(self, deadline: float, *, create: bool, patient: bool) -> Session:
        """Return a session if a ledger, and the same as before, is at its other end."""
        connection = self._address.connect(deadline, patient=patient)
        try:
            self._meet(connection, create)
        except BaseException:
            connection.close()
            raise
        return Session(self._driver, connection)

    def _meet(self, connection: Any, create: bool) -> None:
        try:
            found = _postgres_schema.inspect(
                connection,
                self.name,
                create=create,
                milliseconds=self._milliseconds,
                read_only=self._read_only,
                **self._wanted,
            )
        except self._driver.Error as error:
            text, kind = _postgres_errors.meaning(error, lost=bool(connection.closed))
            raise kind(f"{self.name} {text}") from error
        if self._about not in (None, found):
            raise self._end(_REPLACED)
        self._about, self.start = found, found.start
