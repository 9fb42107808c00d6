"""What SQLite and PostgreSQL have in common: the tables of a ledger, and transactions on them.

A transaction reads what it needs once, is told the changes, and writes them together: one UPDATE per scope, in the
order of their names, that only takes effect if nobody changed the row in between; the tickets; and the records, under
numbers that nobody else has used. Both databases admit one writer at a time, so none of these conditions can fail. If
one does, something else writes to the tables, and nothing is committed.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import functools
import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from ferrodp.budget import _crash_points, records
from ferrodp.budget.records import Encoded, Head
from ferrodp.budget.stores import rows
from ferrodp.budget.stores.rows import FIELDS, ScopeRow, Slot, TicketRow
from ferrodp.errors import LedgerDamaged, LedgerError

TABLES = (
    "CREATE TABLE log (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE scopes (name TEXT PRIMARY KEY, terms TEXT NOT NULL, caps TEXT NOT NULL, spent TEXT NOT NULL, "
    "frozen INTEGER NOT NULL, version BIGINT NOT NULL, counts TEXT NOT NULL)",
    "CREATE TABLE tickets (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, key TEXT, fingerprint TEXT NOT NULL, "
    "state TEXT NOT NULL, event TEXT NOT NULL, charges TEXT NOT NULL, count BIGINT NOT NULL, scopes TEXT NOT NULL)",
    "CREATE TABLE states (sequence INTEGER PRIMARY KEY, state TEXT NOT NULL)",
    "CREATE UNIQUE INDEX tickets_by_key ON tickets (key, scopes) WHERE key IS NOT NULL",
)
"""Few and small, as each page that a commit touches is written: a ticket is found by the record that began it."""
_SELECT = {table: f"SELECT {', '.join(fields)} FROM {table}" for table, fields in FIELDS.items()}
_INSERT = {
    table: f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({', '.join('?' * len(fields))})"
    for table, fields in FIELDS.items()
}
_SELECT_SLOT = f"{_SELECT['tickets']} WHERE scopes = ? AND key = ?"
_SELECT_SLOTS = f"{_SELECT['tickets']} WHERE key IS NOT NULL AND (scopes, key) IN (VALUES"
_THIS_TICKET = "sequence = ? AND id = ?"
_UPDATE_SCOPE = f"UPDATE scopes SET {' = ?, '.join(FIELDS['scopes'][1:])} = ? WHERE name = ? AND version = ?"
_CHARGE_SCOPE = f"UPDATE scopes SET {' = ?, '.join(rows.CHARGED)} = ? WHERE name = ? AND version = ?"
"""Names no other column: a role that may only spend has no right to write the others."""
_UPDATE_TICKET = f"UPDATE tickets SET {' = ?, '.join(rows.MOVED)} = ? WHERE {_THIS_TICKET}"
_MAX_QUESTION = 512
_ROWS_AT_ONCE = 1000
INHERITED = "was opened by the parent of this process; open it again here"
OPENING = threading.Lock()
"""Held while a file is opened, and during a fork."""
Rows: TypeAlias = Iterable[Sequence[Any]]
_Value = TypeVar("_Value")
Stated: TypeAlias = tuple[Encoded, int]
"""Who writes, and the record of this store that says so: later ones name that record."""
_ALONE = contextlib.nullcontext()
_KNOWN = 256
"""So many scopes, tickets and keys are handed on from one transaction to the next."""


class Store(abc.ABC):
    """A connection to the place where a ledger is kept."""

    start: str
    """What stands before the first record: a ledger's own, see `records.start_of`."""
    author: Encoded | None = None
    """Who writes, as the first record of this store says; None if that is left out."""
    closing: tuple[str, ...]
    """Statements after which the database takes no record any more, whoever writes it."""
    beginning: tuple[str, ...]
    """Statements after which a ledger that was made pending takes records."""
    pending: str
    """Asks how often the database refuses records because the ledger is pending, once or never."""

    def __init__(self, *, timeout: float, read_only: bool) -> None:
        self._timeout = timeout
        self._read_only = read_only
        self._dead: str | None = None
        self._about: Any = None
        self._seen: Head | None = None
        self._stated: Stated | None = None

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise LedgerError(self._dead)

    def _check_writable(self) -> None:
        if self._read_only:
            raise LedgerError(f"{self.name} was opened read-only; nothing was charged")

    def _end(self, reason: str, kind: type[LedgerError] = LedgerError) -> LedgerError:
        """Make no more use of the connection, and return why.

        Files stay open until somebody closes this, so that nobody goes on with other files under the same name.
        """
        self._dead = f"{self.name} {reason}"
        return kind(self._dead)

    @abc.abstractmethod
    def writing(self) -> contextlib.AbstractContextManager[Transaction]:
        """Open a transaction that excludes all other writers; commit it durably at the end, or leave no trace.

        A `LedgerError` from the end of the block means that the outcome is unknown.
        """

    @abc.abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Transaction]:
        """Open a transaction that sees one moment."""

    @abc.abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement with `?` for parameters, and return its cursor."""

    @abc.abstractmethod
    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row."""

    def together(self) -> contextlib.AbstractContextManager[object]:
        """Let the statements of the block go together; what `execute` returns knows their `rowcount` after its end."""
        return _ALONE

    @abc.abstractmethod
    def stream(self, table: str, *, after: int | None = None) -> Rows:
        """Go through the rows of a table after a number, or all, in the order of `sequence`, before the end.

        That is the end of the transaction.
        """

    @abc.abstractmethod
    def beside(self) -> Store:
        """Return a connection of its own to the same ledger, to read what takes long while this one is used."""

    def move_head(self, before: Head, after: Head) -> Iterable[Any]:
        """Note the new head where a row of its own holds it; return the cursors of statements that have to fit."""
        return ()

    def check(self, *, structure: bool = True) -> None:  # noqa: B027  # a server checks itself
        """See that what belongs to a ledger is there, and nothing else; on request, that it is undamaged."""

    def pause(self) -> None:  # noqa: B027  # what a fork may inherit needs none
        """Prepare for a fork."""

    def resume(self) -> None:  # noqa: B027
        """Go on after a fork."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Be of no use in a forked child."""

    @abc.abstractmethod
    def close(self, *, trusted: bool = True) -> None:
        """Give the connection back; leave all as it is found if it is not `trusted`."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What messages call this ledger; no secrets."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """The random name that this ledger got when it was made; only its copies have it, too."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Where the ledger is, in the same words every time; no secrets."""


OPEN: weakref.WeakSet[Store] = weakref.WeakSet()
"""Stores of this process, which are told of forks."""


class Transaction:
    """One moment of a ledger, and what shall be changed in it."""

    def __init__(self, store: Store, head: Head) -> None:
        self._store = store
        self._scopes: dict[str, ScopeRow | None] = {}
        self._tickets: dict[str, TicketRow | None] = {}
        self._slots: dict[Slot, str | None] = {}
        self._old_scopes: dict[str, ScopeRow] = {}
        self._new_scopes: set[str] = set()
        self._old_tickets: dict[str, TicketRow] = {}
        self._new_tickets: dict[str, TicketRow] = {}
        self._records: list[tuple[int, str, str]] = []
        self._closes = False
        self._kept: list[tuple[int, str]] = []
        self.read_head = self.head = head
        self.stated = store._stated

    def follow(self, before: Transaction) -> None:
        """Know what an earlier transaction of this store knew at its end, since when nothing was written by anybody."""
        if len(before._scopes) < _KNOWN:
            self._scopes = before._scopes
        if len(before._tickets) < _KNOWN and len(before._slots) < _KNOWN:
            self._tickets, self._slots = before._tickets, before._slots

    # what there is

    @property
    def start(self) -> str:
        """What stands before the first record."""
        return self._store.start

    def scope(self, name: str) -> ScopeRow | None:
        """Return a scope, or None."""
        if name not in self._scopes:
            row = self._one(f"{_SELECT['scopes']} WHERE name = ?", (name,))
            self._scopes[name] = None if row is None else rows.scope_row(row)
        return self._scopes[name]

    def scopes(self) -> list[ScopeRow]:
        """Return all scopes, by name."""
        return [rows.scope_row(row) for row in self.scope_rows()]

    def scope_rows(self) -> Rows:
        """Go through all scopes as the table has them."""
        found: Rows = self._store.execute(f"{_SELECT['scopes']} ORDER BY name")
        return found

    def scopes_within(self, name: str) -> list[ScopeRow]:
        """Return the scopes that lie in one of this name, whether there is one or not; by name."""
        sql = f"{_SELECT['scopes']} WHERE name > ? AND name < ?"
        for row in self._store.execute(sql, (f"{name}/", f"{name}0")):  # "0" comes right after "/"
            found = rows.scope_row(row)
            self._scopes.setdefault(found.name, found)
        inside = (row for row in self._scopes.values() if row is not None and row.name.startswith(f"{name}/"))
        return sorted(inside, key=lambda row: row.name)

    def ticket(self, identity: str) -> TicketRow | None:
        """Return a ticket, or None."""
        if identity not in self._tickets:
            row = self._one(f"{_SELECT['tickets']} WHERE {_THIS_TICKET}", (rows.ticket_record(identity), identity))
            self._tickets[identity] = None if row is None else rows.ticket_row(row)
        return self._tickets[identity]

    def ticket_of(self, slot: Slot) -> TicketRow | None:
        """Return the ticket reserved for some scopes under a key, or None."""
        if slot not in self._slots:
            row = self._one(_SELECT_SLOT, slot)
            self._remember(slot, None if row is None else rows.ticket_row(row))
        identity = self._slots[slot]
        return None if identity is None else self.ticket(identity)

    def look_up(self, slots: Iterable[Slot | None], tickets: Iterable[str | None]) -> None:
        """Read the tickets under some keys, and those of some names, in few questions: a server is far away."""
        wanted = dict.fromkeys(slot for slot in slots if slot is not None and slot not in self._slots)
        for part in _parts(list(wanted)):
            sql = f"{_SELECT_SLOTS} {', '.join(['(?, ?)'] * len(part))})"
            found = self._store.execute(sql, [text for slot in part for text in slot])
            by_slot = {row.slot: row for row in map(rows.ticket_row, found)}
            for slot in part:
                # mutant: key-that-looked-up-with-others-taken-for-new
                self._remember(slot, by_slot.get(slot))
        names = dict.fromkeys(name for name in tickets if name is not None and name not in self._tickets)
        begun = self.tickets_begun([rows.ticket_record(name) for name in names])
        there = {row.id: row for row in map(rows.ticket_row, begun)}
        # mutant: ticket-that-looked-up-with-others-another
        self._tickets.update((name, there.get(name)) for name in names)

    def _remember(self, slot: Slot, row: TicketRow | None) -> None:
        self._slots[slot] = None if row is None else row.id
        if row is not None:
            self._tickets.setdefault(row.id, row)

    def ticket_rows(self, after: int | None = None) -> Rows:
        """Go through all tickets as the table has them, or those that began after a record."""
        return self._store.stream("tickets", after=after)

    def tickets_begun(self, sequences: list[int]) -> Rows:
        """Go through the tickets that began with these records, as the table has them."""
        return self._numbered("tickets", sequences)

    def records(self, after: int | None, limit: int) -> list[Sequence[Any]]:
        """Return the next records after a number, or the first, at most so many: number, text, hash."""
        beyond = "" if after is None else " WHERE sequence > ?"
        sql = f"{_SELECT['log']}{beyond} ORDER BY sequence LIMIT ?"
        return list(self._store.execute(sql, (limit,) if after is None else (after, limit)))

    def records_before(self, sequence: int, limit: int) -> list[Sequence[Any]]:
        """Return the last records before a number, at most so many, the latest first."""
        sql = f"{_SELECT['log']} WHERE sequence < ? ORDER BY sequence DESC LIMIT ?"
        return list(self._store.execute(sql, (sequence, limit)))

    def records_at(self, sequences: list[int]) -> Rows:
        """Go through the records of these numbers, in no order: number, text, hash."""
        return self._numbered("log", sequences)

    def states(self, after: int | None = None) -> Rows:
        """Go through the states that were kept after a number, or all: number of the record, text."""
        return self._store.stream("states", after=after)

    def state_at(self, sequence: int) -> tuple[int, str] | None:
        """Return the last state that was kept until a record, and the number of the record that says so, or None."""
        row = self._one(f"{_SELECT['states']} WHERE sequence <= ? ORDER BY sequence DESC LIMIT 1", (sequence,))
        return None if row is None else (row[0], row[1])

    def hash_of(self, sequence: int) -> str | None:
        """Return the hash of a record, or None."""
        if sequence == 0:
            return self._store.start
        row = self._one("SELECT hash FROM log WHERE sequence = ?", (sequence,))
        return None if row is None else str(row[0])

    def record_of(self, sequence: int) -> str:
        """Return the text of a record that has to be there."""
        row = self._one("SELECT body FROM log WHERE sequence = ?", (sequence,))
        if row is None:
            for number, text, _ in self._records:  # of this transaction
                if number == sequence:
                    return text
            raise LedgerDamaged(f"the log of {self._store.name} has no record {sequence}: it was removed")
        return str(row[0])

    def _one(self, sql: str, parameters: Sequence[Any]) -> Sequence[Any] | None:
        found: Sequence[Any] | None = self._store.execute(sql, parameters).fetchone()
        return found

    def _numbered(self, table: str, sequences: list[int]) -> Rows:
        """Go through the rows of a table that have these numbers, in no order."""
        for part in _parts(sequences):
            yield from self._store.execute(f"{_SELECT[table]} WHERE sequence IN ({', '.join('?' * len(part))})", part)

    # what shall be

    def record(self, kind: str, **fields: Any) -> int:
        """Append to the log, and return the number of the record."""
        sequence = self.head.sequence + 1
        fields["kind"], fields["sequence"], fields["time"] = kind, sequence, _now(int(time.time()))
        author = self._store.author
        if author is not None:
            if self.stated is None or self.stated[0] is not author:
                fields["who"], self.stated = author, (author, sequence)
            else:
                # mutant: author-of-another-record
                fields["who"] = self.stated[1]
        text = records.plain_object(fields)
        self.head = Head(sequence, records.chained(self.head.hash, text))
        self._records.append((sequence, text, self.head.hash))
        return sequence

    def close_log(self) -> None:
        """Let the records of this transaction be the last ones."""
        self._closes = True

    def is_pending(self) -> bool:
        """Whether the ledger was made to receive another one and takes no record before that is here."""
        row = self._one(self._store.pending, ())
        return row is not None and row[0] > 0

    def begin_log(self) -> None:
        """Let the ledger take records from this transaction on; it was pending."""
        for statement in self._store.beginning:
            self._store.execute(statement)

    def put_state(self, sequence: int, text: str) -> None:
        """Keep a state beside the record that has its digest."""
        self._kept.append((sequence, text))

    def put_scope(self, row: ScopeRow) -> None:
        """Replace or add a scope, as the record that was appended last says. Its counts are kept by `put_ticket`."""
        before = self.scope(row.name)
        counts = row.counts if before is None else before.counts
        self._put_scope(row.at(self.head.sequence, counts), before)

    def _put_scope(self, row: ScopeRow, before: ScopeRow | None) -> None:
        if before is None:
            self._new_scopes.add(row.name)
        elif row.name not in self._new_scopes:
            self._old_scopes.setdefault(row.name, before)
        self._scopes[row.name] = row

    def put_ticket(self, row: TicketRow, *, freed: Slot | None = None) -> None:
        """Replace or add a ticket, and count it in its scopes; `freed` is where it was found by its key until now."""
        before = self._tickets.get(row.id)
        self._count(before, row)
        if before is None or row.id in self._new_tickets:
            self._new_tickets[row.id] = row
        else:
            self._old_tickets[row.id] = row
        self._tickets[row.id] = row
        if freed is not None:
            self._slots[freed] = None
        if row.key is not None:
            self._slots[row.slot] = row.id  # type: ignore[index]  # it has one

    def _count(self, before: TicketRow | None, after: TicketRow) -> None:
        """Note in a ticket's scopes how many releases are in which state now, so that nobody has to count them."""
        for name in after.charges:
            scope = self.scope(name)
            if scope is None:
                raise LedgerDamaged(f"{self._store.name} has no scope {name!r}, to which a ticket of it was charged")
            counts = rows.counted(scope.counts, after.state, after.times)
            if before is not None:
                # mutant: what-ticket-before-counted
                counts = rows.counted(counts, before.state, -before.times)
            self._put_scope(scope.at(self.head.sequence, counts), scope)

    def write(self) -> None:
        """Send all changes to the database, which does not make them durable yet."""
        store = self._store
        if not self._records:
            return
        _crash_points.reached("before the rows")
        with store.together():
            changed = self._send()
        if self._closes:
            for statement in store.closing:
                store.execute(statement)
        _crash_points.reached("before the commit")
        if [cursor for cursor in changed if cursor.rowcount != 1]:
            raise LedgerError(f"{store.name} was changed by something else meanwhile; nothing was written")

    def _send(self) -> list[Any]:
        """Send the changes, and return the cursors of those that have to concern one row."""
        store, found = self._store, []
        for name in sorted(self._old_scopes.keys() | self._new_scopes):
            row = self._scopes[name]
            assert row is not None  # put_scope sets it
            if name in self._new_scopes:
                store.execute(_INSERT["scopes"], rows.scope_values(row))
                continue
            _crash_points.reached("between the scopes")
            old = self._old_scopes[name]
            if (old.terms, old.caps, old.frozen) == (row.terms, row.caps, row.frozen):
                values = rows.charged_values(old, row)
                changed = _CHARGE_SCOPE, (values[3], values[5], values[6], name, old.version)
            else:
                values = rows.scope_values(row)
                changed = _UPDATE_SCOPE, (*values[1:], name, old.version)
            rows.remember(values, row)
            found.append(store.execute(*changed))
        for ticket in self._old_tickets.values():
            state = ticket.key, ticket.state._value_, ticket.times, ticket.sequence, ticket.id
            found.append(store.execute(_UPDATE_TICKET, state))
        if self._new_tickets:
            store.execute_many(_INSERT["tickets"], [rows.ticket_values(row) for row in self._new_tickets.values()])
        _crash_points.reached("before the log")
        for kept in self._kept:
            store.execute(_INSERT["states"], kept)
        store.execute_many(_INSERT["log"], self._records)
        found.extend(store.move_head(self.read_head, self.head))
        return found


def put_rows(store: Store, log: Rows, scopes: Rows, tickets: Rows) -> None:
    """Send the rows of a copied ledger to an empty one."""
    for table, new in (("log", log), ("scopes", scopes), ("tickets", tickets)):
        remaining = iter(new)
        while part := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
            store.execute_many(_INSERT[table], part)


def _parts(values: list[_Value]) -> Iterator[list[_Value]]:
    """Go through parts of a list, with repetitions that fill them up: so there are few different questions."""
    for start in range(0, len(values), _MAX_QUESTION):
        part = values[start : start + _MAX_QUESTION]
        yield part + part[-1:] * ((1 << (len(part) - 1).bit_length()) - len(part))


@functools.lru_cache(maxsize=8)
def _now(seconds: int) -> str:
    """Return a moment as text, for people: nothing depends on it, so a clock that is mad stops nothing."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _before_fork() -> None:
    OPENING.acquire()
    # mutant: connection-stays-open-across-fork
    for store in list(OPEN):
        store.pause()


def _after_in_parent() -> None:
    for store in list(OPEN):
        store.resume()
    OPENING.release()


def _after_in_child() -> None:
    for store in list(OPEN):
        store.resume()
        store.abandon()
    OPENING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
