"""Rows and records in tables of a database: what SQLite and PostgreSQL have in common.

A transaction reads what it needs once, is told the changes, and writes them together: for each scope, in the order of
their names, one UPDATE that only takes effect if nobody changed the row meanwhile; the tickets; and the records, under
numbers that nobody else has used. Both databases let one writer in at a time, so none of these conditions can fail; if
one does, something else writes to the tables, and nothing is committed.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import functools
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from ferrodp.budget import _points
from ferrodp.budget._measures import Terms
from ferrodp.budget.log import records as _records
from ferrodp.budget.log.records import Encoded, Head
from ferrodp.budget.stores.rows import (
    ScopeRow,
    TicketRow,
    amounts_from_plain,
    amounts_from_text,
    amounts_text,
    caps_text,
    charges_from_text,
    charges_text,
    counted,
    counts_from_text,
    counts_text,
    event_from_text,
    event_text,
    names_from_text,
    names_text,
    state_of,
)
from ferrodp.errors import LedgerError

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
_TICKET_FIELDS = "id, key, fingerprint, state, event, charges, count, scopes, sequence"
_THIS_TICKET = "sequence = ? AND id = ?"
_SCOPE_FIELDS = "name, terms, caps, spent, frozen, version, counts"
_SELECT_SCOPE = f"SELECT {_SCOPE_FIELDS} FROM scopes WHERE name = ?"
_SELECT_WITHIN = f"SELECT {_SCOPE_FIELDS} FROM scopes WHERE name > ? AND name < ?"
_SELECT_TICKET = f"SELECT {_TICKET_FIELDS} FROM tickets WHERE {_THIS_TICKET}"
_INSERT_SCOPE = f"INSERT INTO scopes ({_SCOPE_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_UPDATE_SCOPE = (
    "UPDATE scopes SET terms = ?, caps = ?, spent = ?, frozen = ?, version = ?, counts = ? "
    "WHERE name = ? AND version = ?"
)
_CHARGE_SCOPE = "UPDATE scopes SET spent = ?, version = ?, counts = ? WHERE name = ? AND version = ?"
"""Names no other column: a role that may only spend has no right to write the others."""
_INSERT_TICKET = f"INSERT INTO tickets ({_TICKET_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE_TICKET = f"UPDATE tickets SET key = ?, state = ?, count = ? WHERE {_THIS_TICKET}"
_INSERT_RECORD = "INSERT INTO log (sequence, body, hash) VALUES (?, ?, ?)"
_SELECT_SLOT = f"SELECT {_TICKET_FIELDS} FROM tickets WHERE scopes = ? AND key = ?"
_SELECT_SLOTS = f"SELECT {_TICKET_FIELDS} FROM tickets WHERE key IS NOT NULL AND (scopes, key) IN (VALUES"
_MAX_KNOWN = 256
_MAX_QUESTION = 512
_ROWS_AT_ONCE = 1000
Rows = Iterable[Sequence[Any]]
_Value = TypeVar("_Value")
Slot: TypeAlias = tuple[str, str]
"""Where a key is unique: the text of the scopes that were named with it, and the key."""


class Store(abc.ABC):
    """A place where a ledger lives."""

    start: str
    """What stands before the first record: a ledger's own, see `_records.start_of`."""
    author: Encoded | None = None
    """Who writes, as each record says; None if that is left out."""
    closing: tuple[str, ...]
    """Statements after which the database takes no record any more, whoever writes it."""

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
        return contextlib.nullcontext()

    @abc.abstractmethod
    def stream(self, fields: str, table: str, *, after: int | None = None) -> Rows:
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

    @abc.abstractmethod
    def close(self, *, trusted: bool = True) -> None:
        """Give the connection back; leave all as it is found if it is not `trusted`."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What messages call this ledger; no secrets."""


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

    # what there is

    @property
    def start(self) -> str:
        """What stands before the first record."""
        return self._store.start

    def scope(self, name: str) -> ScopeRow | None:
        """Return a scope, or None."""
        if name not in self._scopes:
            rows = list(self._store.execute(_SELECT_SCOPE, (name,)))
            self._scopes[name] = scope_row(rows[0]) if rows else None
        return self._scopes[name]

    def scopes(self) -> list[ScopeRow]:
        """Return all scopes, by name."""
        return [scope_row(row) for row in self.scope_rows()]

    def scope_rows(self) -> Rows:
        """Go through all scopes as the table has them."""
        rows: Rows = self._store.execute(f"SELECT {_SCOPE_FIELDS} FROM scopes ORDER BY name")
        return rows

    def scopes_within(self, name: str) -> list[ScopeRow]:
        """Return the scopes that lie in one of this name, whether there is one or not; by name."""
        for row in self._store.execute(_SELECT_WITHIN, (f"{name}/", f"{name}0")):  # "0" comes right after "/"
            found = scope_row(row)
            self._scopes.setdefault(found.name, found)
        inside = (row for row in self._scopes.values() if row is not None and row.name.startswith(f"{name}/"))
        return sorted(inside, key=lambda row: row.name)

    def ticket(self, identity: str) -> TicketRow | None:
        """Return a ticket, or None."""
        if identity not in self._tickets:
            rows = list(self._store.execute(_SELECT_TICKET, _place(identity)))
            self._tickets[identity] = ticket_row(rows[0]) if rows else None
        return self._tickets[identity]

    def ticket_of(self, slot: Slot) -> TicketRow | None:
        """Return the ticket reserved for some scopes under a key, or None."""
        if slot not in self._slots:
            rows = list(self._store.execute(_SELECT_SLOT, slot))
            found = ticket_row(rows[0]) if rows else None
            if found is not None:
                self._tickets.setdefault(found.id, found)
            self._slots[slot] = None if found is None else found.id
        identity = self._slots[slot]
        return None if identity is None else self.ticket(identity)

    def look_up(self, slots: Iterable[Slot | None], tickets: Iterable[str | None]) -> None:
        """Read what is under some keys, and tickets of some names, in few questions: a server is far away."""
        wanted = dict.fromkeys(slot for slot in slots if slot is not None and slot not in self._slots)
        for part in _parts(list(wanted)):
            sql = f"{_SELECT_SLOTS} {', '.join(['(?, ?)'] * len(part))})"
            values = [text for slot in part for text in slot]
            found = {row.slot: row for row in map(ticket_row, self._store.execute(sql, values))}
            for slot in part:
                row = found.get(slot)
                self._slots[slot] = None if row is None else row.id
                if row is not None:
                    self._tickets.setdefault(row.id, row)
        names = dict.fromkeys(name for name in tickets if name is not None and name not in self._tickets)
        for some in _parts(list(names)):
            sql = f"SELECT {_TICKET_FIELDS} FROM tickets WHERE sequence IN ({', '.join('?' * len(some))})"
            there = {
                row.id: row for row in map(ticket_row, self._store.execute(sql, [_place(name)[0] for name in some]))
            }
            self._tickets.update((name, there.get(name)) for name in some)

    def ticket_rows(self, after: int | None = None) -> Rows:
        """Go through all tickets as the table has them, or those that began after a record."""
        return self._store.stream(_TICKET_FIELDS, "tickets", after=after)

    def tickets_begun(self, sequences: list[int]) -> Rows:
        """Go through the tickets that began with these records, as the table has them."""
        for part in _parts(sequences):
            sql = f"SELECT {_TICKET_FIELDS} FROM tickets WHERE sequence IN ({', '.join('?' * len(part))})"
            yield from self._store.execute(sql, part)

    def records(self, after: int | None, limit: int) -> list[Sequence[Any]]:
        """Return the next records after a number, or the first, at most so many: number, text, hash."""
        beyond = "" if after is None else "WHERE sequence > ? "
        sql = f"SELECT sequence, body, hash FROM log {beyond}ORDER BY sequence LIMIT ?"
        return list(self._store.execute(sql, (limit,) if after is None else (after, limit)))

    def records_before(self, sequence: int, limit: int) -> list[Sequence[Any]]:
        """Return the last records before a number, at most so many, the latest first."""
        sql = "SELECT sequence, body, hash FROM log WHERE sequence < ? ORDER BY sequence DESC LIMIT ?"
        return list(self._store.execute(sql, (sequence, limit)))

    def records_at(self, sequences: list[int]) -> Rows:
        """Go through the records of these numbers, in no order: number, text."""
        for part in _parts(sequences):
            sql = f"SELECT sequence, body FROM log WHERE sequence IN ({', '.join('?' * len(part))})"
            yield from self._store.execute(sql, part)

    def states(self, after: int | None = None) -> Rows:
        """Go through the states that were kept after a number, or all: number of the record, text."""
        return self._store.stream("sequence, state", "states", after=after)

    def state_at(self, sequence: int) -> tuple[int, str] | None:
        """Return the last state that was kept until a record, and the number of the record that says so, or None."""
        sql = "SELECT sequence, state FROM states WHERE sequence <= ? ORDER BY sequence DESC LIMIT 1"
        row = self._store.execute(sql, (sequence,)).fetchone()
        return None if row is None else (row[0], row[1])

    def hash_of(self, sequence: int) -> str | None:
        """Return the hash of a record, or None."""
        if sequence == 0:
            return self._store.start
        row = self._store.execute("SELECT hash FROM log WHERE sequence = ?", (sequence,)).fetchone()
        return None if row is None else str(row[0])

    def record_of(self, sequence: int) -> str:
        """Return the text of a record that has to be there."""
        row = self._store.execute("SELECT body FROM log WHERE sequence = ?", (sequence,)).fetchone()
        if row is None:
            raise LedgerError(f"the log of {self._store.name} has no record {sequence}: it was removed")
        return str(row[0])

    # what shall be

    def record(self, kind: str, **fields: Any) -> int:
        """Append to the log, and return the number of the record."""
        sequence = self.head.sequence + 1
        fields |= {"kind": kind, "sequence": sequence, "time": _now(int(time.time()))}
        if self._store.author is not None:
            fields["who"] = self._store.author
        text = _records.plain_object(fields)
        self.head = Head(sequence, _records.chained(self.head.hash, text))
        self._records.append((sequence, text, self.head.hash))
        return sequence

    def close_log(self) -> None:
        """Let the records of this transaction be the last ones."""
        self._closes = True

    def put_state(self, sequence: int, text: str) -> None:
        """Keep a state beside the record that has its digest."""
        self._kept.append((sequence, text))

    def put_scope(self, row: ScopeRow) -> None:
        """Replace or add a scope, as the record that was appended last says. Its counts are kept by `put_ticket`."""
        before = self.scope(row.name)
        counts = row.counts if before is None else before.counts
        self._put_scope(row._replace(version=self.head.sequence, counts=counts), before)

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
        if row.slot is not None:
            self._slots[row.slot] = row.id

    def _count(self, before: TicketRow | None, after: TicketRow) -> None:
        """Note in a ticket's scopes how many releases are in which state now, so that nobody has to count them."""
        for name in after.charges:
            scope = self.scope(name)
            if scope is None:
                raise LedgerError(f"{self._store.name} has no scope {name!r}, to which a ticket of it was charged")
            counts = counted(scope.counts, after.state, after.times)
            if before is not None:
                counts = counted(counts, before.state, -before.times)
            self._put_scope(scope._replace(version=self.head.sequence, counts=counts), scope)

    def write(self) -> None:
        """Send all changes to the database, which does not make them durable yet."""
        store = self._store
        if not self._records:
            return
        _points.reached("before the rows")
        with store.together():
            changed = list(self._changes())
        if self._closes:
            for statement in store.closing:
                store.execute(statement)
        _points.reached("before the commit")
        if any(cursor.rowcount != 1 for cursor in changed):
            raise LedgerError(f"{store.name} was changed by something else meanwhile; nothing was written")

    def _changes(self) -> Iterator[Any]:
        """Send the changes, and go through the cursors of those that have to concern one row."""
        store = self._store
        for name in sorted(self._new_scopes | self._old_scopes.keys()):
            row = self._scopes[name]
            assert row is not None  # put_scope sets it
            if name in self._new_scopes:
                store.execute(_INSERT_SCOPE, scope_values(row))
                continue
            _points.reached("between the scopes")
            values = scope_values(row)
            _remember(values, row)
            old = self._old_scopes[name]
            if (old.terms, old.caps, old.frozen) == (row.terms, row.caps, row.frozen):
                yield store.execute(_CHARGE_SCOPE, (values[3], *values[5:], name, old.version))
            else:
                yield store.execute(_UPDATE_SCOPE, (*values[1:], name, old.version))
        for ticket in self._old_tickets.values():
            yield store.execute(
                _UPDATE_TICKET, (ticket.key, ticket.state.value, ticket.times, ticket.sequence, ticket.id)
            )
        if self._new_tickets:
            store.execute_many(_INSERT_TICKET, [_ticket_values(row) for row in self._new_tickets.values()])
        _points.reached("before the log")
        for kept in self._kept:
            store.execute("INSERT INTO states (sequence, state) VALUES (?, ?)", kept)
        store.execute_many(_INSERT_RECORD, self._records)
        yield from store.move_head(self.read_head, self.head)


def put_rows(store: Store, log: Rows, scopes: Rows, tickets: Rows) -> None:
    """Send the rows of a copied ledger to an empty one."""
    for sql, rows in ((_INSERT_RECORD, log), (_INSERT_SCOPE, scopes), (_INSERT_TICKET, tickets)):
        remaining = iter(rows)
        while part := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
            store.execute_many(sql, part)


def _parts(values: list[_Value]) -> Iterator[list[_Value]]:
    """Go through parts of a list, with repetitions that fill them up: so there are few different questions."""
    for start in range(0, len(values), _MAX_QUESTION):
        part = values[start : start + _MAX_QUESTION]
        yield part + part[-1:] * ((1 << (len(part) - 1).bit_length()) - len(part))


def ticket_name(sequence: int, secret: str) -> str:
    """Return the name of the ticket that a record begins: it leads back to the record."""
    return f"{sequence:012x}{secret}"


def ticket_record(identity: str) -> int:
    """Return the number of the record that began a ticket of this name, or 0; see `ticket_name`."""
    try:
        return int(identity[:12], 16)
    except ValueError:
        return 0


def _place(identity: str) -> tuple[int, str]:
    """Return where a ticket of this name is, if there is one; see `ticket_name`."""
    return ticket_record(identity), identity


def scope_row(row: Sequence[Any]) -> ScopeRow:
    """Return a row of the table as what it means."""
    name, terms, caps, spent, frozen, version, counts = values = tuple(row)
    known = _scopes_known.get(name)
    if known is not None and known[0] == values:
        return known[1]
    found = ScopeRow(
        name=name,
        terms=Terms.from_text(terms),
        caps=amounts_from_text(caps),
        spent=amounts_from_plain(_records.loaded(spent)),
        frozen=bool(frozen),
        version=version,
        counts=counts_from_text(counts),
    )
    _remember(values, found)
    return found


_scopes_known: dict[str, tuple[tuple[Any, ...], ScopeRow]] = {}
"""What a row meant, by its scope's name. Asked only about a row that is the same in all fields, and what these mean
does not depend on whose they are: so it is right for any ledger, and after any other process's changes."""


def _remember(values: tuple[Any, ...], row: ScopeRow) -> None:
    if len(_scopes_known) >= _MAX_KNOWN:
        _scopes_known.clear()
    _scopes_known[row.name] = values, row


def ticket_row(row: Sequence[Any]) -> TicketRow:
    """Return a row of the table as what it means."""
    identity, key, fingerprint, state, event, charges, count, scopes, sequence = row
    return TicketRow(
        id=identity,
        key=key,
        fingerprint=fingerprint,
        state=state_of(state),
        event=event_from_text(event),
        charges=charges_from_text(charges),
        times=count,
        sequence=sequence,
        scopes=names_from_text(scopes),
    )


def scope_values(row: ScopeRow) -> tuple[Any, ...]:
    """Return a scope as a row of the table."""
    texts = str(row.terms.text), str(caps_text(row.caps)), str(amounts_text(row.spent))
    return (row.name, *texts, int(row.frozen), row.version, counts_text(row.counts))


def _ticket_values(row: TicketRow) -> tuple[Any, ...]:
    texts = str(event_text(row.event)), str(charges_text(row.charges))
    names = str(names_text(row.scopes))
    return (row.id, row.key, row.fingerprint, row.state.value, *texts, row.times, names, row.sequence)


@functools.lru_cache(maxsize=8)
def _now(seconds: int) -> str:
    """Return a moment as text, for people: nothing depends on it, so a clock that is mad stops nothing."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return "unknown"
