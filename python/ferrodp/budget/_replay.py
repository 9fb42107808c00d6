"""Reading the log again from its beginning, and comparing what follows from it with what the tables say.

The log says what happened; the tables, what is so now. Verification trusts neither: every hash is computed again, every
rule that can be checked without prices is (states, sums, caps), and each row has to be what the log makes it.
"""

from __future__ import annotations

import marshal
from typing import Any

from ferrodp.budget import _measures, _records
from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget._records import Head
from ferrodp.budget._rows import Charges, ScopeRow, amounts_from_plain, charges_from_plain, event_from_plain, state_of
from ferrodp.budget._store import Transaction, scope_values
from ferrodp.errors import LedgerError
from ferrodp.tickets import TicketState

_ENDS = {"arm": TicketState.ARMED, "finish": TicketState.SPENT, "cancel": TicketState.CANCELLED}
_FROM = {"arm": TicketState.HELD, "finish": TicketState.ARMED, "cancel": TicketState.HELD}


class _Entry:
    """A ticket as its row in the table holds it, and what it charges."""

    __slots__ = ("charges", "charges_text", "count", "event_text", "fingerprint", "key", "sequence", "state")

    def __init__(self, body: dict[str, Any], event_text: str, charges_text: str, charges: Charges) -> None:
        self.key: str | None = body.get("key")
        self.fingerprint: str = body["fingerprint"]
        self.state = state_of(body["state"])
        self.count: int = body["count"]
        self.sequence: int = body["sequence"]
        self.event_text, self.charges_text, self.charges = event_text, charges_text, charges

    def row(self, identity: str) -> tuple[Any, ...]:
        return (
            *(identity, self.key, self.fingerprint, self.state.value),
            *(self.event_text, self.charges_text, self.count, self.sequence),
        )


class _Scope:
    """A scope while its records are read."""

    __slots__ = ("caps", "frozen", "spent", "terms", "version")

    def __init__(self, terms: Terms, caps: Amounts) -> None:
        self.terms, self.caps, self.spent, self.frozen, self.version = terms, caps, (0,) * len(caps), False, 0

    def row(self, name: str) -> ScopeRow:
        return ScopeRow(
            name=name, terms=self.terms, caps=self.caps, spent=self.spent, frozen=self.frozen, version=self.version
        )


class Replay:
    """What follows from the records that were read so far."""

    def __init__(self) -> None:
        self.head = Head(0, _records.START)
        self._scopes: dict[str, _Scope] = {}
        self._tickets: dict[str, _Entry] = {}
        self._keys: set[str] = set()
        self._events: dict[bytes, str] = {}
        self._charges: dict[bytes, tuple[str, Charges]] = {}

    def read(self, sequence: object, text: object, digest: object) -> None:
        """Take the next record."""
        expected = self.head.sequence + 1
        if sequence != expected or not isinstance(text, str):
            raise LedgerError(f"the log has no record {expected} where it should be: records were removed or moved")
        if _records.chained(self.head.hash, text) != digest:
            raise LedgerError(f"record {expected} of the log was changed, or one before it")
        body = _records.parsed(text)
        self.head = Head(expected, str(digest))
        try:
            if body["sequence"] != expected:
                raise LedgerError(f"record {expected} of the log calls itself {body['sequence']!r}")
            self._apply(body["kind"], body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LedgerError(f"record {expected} of the log is not what this version writes") from error

    def _apply(self, kind: str, body: dict[str, Any]) -> None:
        if kind in ("reserve", "lease"):
            self._reserve(body)
        elif kind in _ENDS:
            self._move(kind, self._tickets[body["ticket"]])
        elif kind == "return":
            entry = self._tickets[body["ticket"]]
            self._require(entry.state is TicketState.ARMED and 0 <= body["count"] <= entry.count, "ends what has ended")
            self._refund(entry, body["count"])
            entry.state, entry.count = TicketState.SPENT, entry.count - body["count"]
        elif kind == "create":
            self._require(body["scope"] not in self._scopes, "creates a scope that there is")
            self._scopes[body["scope"]] = _Scope(Terms.from_dict(body["terms"]), amounts_from_plain(body["caps"]))
        elif kind == "cap":
            scope = self._changed(body["scope"])
            scope.terms, scope.caps = Terms.from_dict(body["terms"]), amounts_from_plain(body["caps"])
        elif kind in ("freeze", "thaw"):
            self._changed(body["scope"]).frozen = kind == "freeze"
        else:
            raise LedgerError(f"record {self.head.sequence} of the log is of no known kind")

    def _reserve(self, body: dict[str, Any]) -> None:
        event_text = self._event_text(body["event"])
        charges_text, charges = self._known_charges(body["charges"])
        entry = _Entry(body, event_text, charges_text, charges)
        self._require(type(entry.count) is int and entry.count >= 1, "charges nothing")
        for name, costs in charges.items():
            scope = self._changed(name)
            scope.spent = _measures.added(scope.spent, _measures.scaled(costs, entry.count))
            if len(costs) != len(scope.caps) or min(costs) < 0:
                self._require(False, "charges less than nothing, or in other measures")
            if scope.frozen or not scope.terms.fits(scope.spent, scope.caps):
                self._require(False, f"overspends scope {name!r}")
        self._require(body["ticket"] not in self._tickets and entry.key not in self._keys, "reserves the same twice")
        self._tickets[body["ticket"]] = entry
        if entry.key is not None:
            self._keys.add(entry.key)

    def _move(self, kind: str, entry: _Entry) -> None:
        self._require(entry.state is _FROM[kind], f"has a ticket {kind} that is {entry.state.value}")
        if kind == "arm":
            self._require(not any(self._scopes[name].frozen for name in entry.charges), "arms in a frozen scope")
        if kind == "cancel":
            self._refund(entry, entry.count)
            if entry.key is not None:
                self._keys.remove(entry.key)
                entry.key = None
        entry.state = _ENDS[kind]

    def _refund(self, entry: _Entry, count: int) -> None:
        for name, costs in entry.charges.items():
            scope = self._changed(name)
            scope.spent = _measures.taken(scope.spent, _measures.scaled(costs, count))

    def _changed(self, name: str) -> _Scope:
        scope = self._scopes[name]
        scope.version += 1
        return scope

    def _event_text(self, plain: Any) -> str:
        """Return the text of an event, checked once; most records are about few different ones."""
        mark = marshal.dumps(plain, 2)
        if mark not in self._events:
            event_from_plain(plain)
            self._events[mark] = _records.plain(plain)
        return self._events[mark]

    def _known_charges(self, plain: Any) -> tuple[str, Charges]:
        mark = marshal.dumps(plain, 2)
        if mark not in self._charges:
            self._charges[mark] = _records.plain(plain), charges_from_plain(plain)
        return self._charges[mark]

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise LedgerError(f"record {self.head.sequence} of the log {what}")

    def compare(self, transaction: Transaction) -> None:
        """Raise `LedgerError` unless the tables hold exactly this."""
        if transaction.heads() != [(1, *self.head)]:
            raise LedgerError(f"the log ends at record {self.head.sequence}, and the head is not this one alone")
        found_scopes = {row[0]: tuple(row) for row in transaction.scope_rows()}
        if found_scopes != {name: scope_values(scope.row(name)) for name, scope in self._scopes.items()}:
            raise LedgerError("a scope is not what the log makes it: its row was changed, added or removed")
        found = 0
        for row in transaction.ticket_rows():
            found += 1
            entry = self._tickets.get(row[0])
            if entry is None or entry.row(row[0]) != tuple(row):
                raise LedgerError("a ticket is not what the log makes it: its row was changed or added")
        if found != len(self._tickets):
            raise LedgerError("a ticket of the log is missing: its row was removed")


def replayed(transaction: Transaction) -> Replay:
    """Return what follows from the whole log; raise `LedgerError` where it, or a table, is not as it should be."""
    replay = Replay()
    for sequence, text, digest in transaction.log():
        replay.read(sequence, text, digest)
    replay.compare(transaction)
    return replay
