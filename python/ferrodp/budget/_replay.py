"""Reading the log again from its beginning, and comparing what follows from it with what the tables say.

The log says what happened; the tables, what is so now. Verification trusts neither: every hash is computed again, every
rule that can be checked without prices is (states, sums, caps), and each row has to be what the log makes it.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from ferrodp.budget import _measures, _names, _nesting, _records
from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget._records import Head
from ferrodp.budget._rows import Charges, ScopeRow, amounts_from_plain, charges_from_plain, event_from_plain, state_of
from ferrodp.budget._store import Transaction, scope_values
from ferrodp.errors import LedgerError
from ferrodp.tickets import TicketState

_HELD, _ARMED, _SPENT, _CANCELLED = (state.value for state in TicketState)
_ENDS = {"arm": _ARMED, "finish": _SPENT, "cancel": _CANCELLED}
_FROM = {"arm": _HELD, "finish": _ARMED, "cancel": _HELD}


class _Row(NamedTuple):
    """A ticket as its row in the table holds it."""

    id: str
    key: str | None
    fingerprint: str
    state: str
    event: str
    charges: str
    times: int
    sequence: int


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

    def __init__(self, start: str) -> None:
        self.head = Head(0, start)
        self._scopes: dict[str, _Scope] = {}
        self._tickets: dict[str, _Row] = {}
        self._is_moved = False
        self._keys: set[str] = set()
        self._prices: dict[bytes, tuple[str, str, Charges]] = {}
        self._charges_of: dict[str, Charges] = {}
        self._around: dict[str, set[str]] = {}
        self._inside: dict[str, list[str]] = {}

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
        self._require(kind == "import" or not self._is_moved, "follows the one that moved the ledger elsewhere")
        if kind in ("reserve", "lease"):
            self._reserve(body)
        elif kind in _ENDS:
            self._move(kind, self._tickets[body["ticket"]])
        elif kind == "return":
            row = self._tickets[body["ticket"]]
            self._require(row.state == _ARMED and 0 <= body["count"] <= row.times, "ends what has ended")
            self._refund(row, body["count"])
            self._tickets[row.id] = row._replace(state=_SPENT, times=row.times - body["count"])
        elif kind == "create":
            self._create(body)
        elif kind == "cap":
            scope = self._changed(body["scope"])
            scope.terms, scope.caps = Terms.from_dict(body["terms"]), amounts_from_plain(body["caps"])
        elif kind in ("freeze", "thaw"):
            self._changed(body["scope"]).frozen = kind == "freeze"
        elif kind in ("move", "import"):
            self._is_moved = kind == "move"
        else:
            raise LedgerError(f"record {self.head.sequence} of the log is of no known kind")

    def _create(self, body: dict[str, Any]) -> None:
        name = body["scope"]
        self._require(isinstance(name, str) and name not in self._scopes, "creates a scope that there is")
        scope = _Scope(Terms.from_dict(body["terms"]), amounts_from_plain(body["caps"]))
        inside = {each: self._scopes[each] for each in self._inside.get(name, ())}
        self._require(("carried" in body) == bool(inside), "creates a scope around others, and does not count them")
        if inside:
            sums = {each: (found.terms, found.spent) for each, found in inside.items()}
            scope.spent = _nesting.carried(sums, scope.terms, len(scope.caps))
            self._require(amounts_from_plain(body["carried"]) == scope.spent, "takes over other sums than there are")
            fits = not any(scope.spent) or scope.terms.fits(scope.spent, scope.caps)
            self._require(fits, f"begins with overspent scope {name!r}")
        self._scopes[name] = scope
        for outer in _names.ancestors(name):
            self._inside.setdefault(outer, []).append(name)

    def _reserve(self, body: dict[str, Any]) -> None:
        event_text, charges_text, charges = self._priced(body["event"], body["charges"])
        identity, key, count = body["ticket"], body.get("key"), body["count"]
        if type(count) is not int or count < 1:
            self._refuse("charges nothing")
        for name, costs in charges.items():
            scope = self._changed(name)
            scope.spent = _measures.added(scope.spent, _measures.scaled(costs, count))
            if len(costs) != len(scope.caps):
                self._refuse("charges in another measure")
            if scope.frozen or not scope.terms.fits(scope.spent, scope.caps):
                self._refuse(f"overspends scope {name!r}")
        if identity in self._tickets or key in self._keys:
            self._refuse("reserves the same twice")
        state = state_of(body["state"]).value
        self._tickets[identity] = _Row(
            identity, key, body["fingerprint"], state, event_text, charges_text, count, body["sequence"]
        )
        if key is not None:
            self._keys.add(key)

    def _move(self, kind: str, row: _Row) -> None:
        self._require(row.state == _FROM[kind], f"has a ticket {kind} that is {row.state}")
        if kind == "arm":
            around = self._around[row.charges]
            frozen = any(self._scopes[name].frozen for name in around if name in self._scopes)
            self._require(not frozen, "arms in a frozen scope")
        if kind == "cancel":
            self._refund(row, row.times)
            if row.key is not None:
                self._keys.remove(row.key)
                row = row._replace(key=None)
        self._tickets[row.id] = row._replace(state=_ENDS[kind])

    def _refund(self, row: _Row, count: int) -> None:
        for name, costs in self._charges_of[row.charges].items():
            scope = self._changed(name)
            scope.spent = _measures.taken(scope.spent, _measures.scaled(costs, count))
        charges = self._charges_of[row.charges]
        for name in _nesting.later_around(charges, self._scopes.__contains__):
            scope = self._changed(name)
            costs = _nesting.given_back(charges, name, lambda each: self._scopes[each].terms, len(scope.spent))
            scope.spent = _measures.taken(scope.spent, _measures.scaled(costs, count))

    def _changed(self, name: str) -> _Scope:
        scope = self._scopes[name]
        scope.version += 1
        return scope

    def _priced(self, event: Any, charges: Any) -> tuple[str, str, Charges]:
        """Return an event and what it costs, checked once; most records are about few different ones."""
        mark = marshal.dumps((event, charges), 2)
        known = self._prices.get(mark)
        if known is None:
            event_from_plain(event)
            costs = charges_from_plain(charges)
            if any(min(amounts, default=-1) < 0 for amounts in costs.values()):
                self._refuse("charges less than nothing")
            known = self._prices[mark] = str(_records.plain(event)), str(_records.plain(charges)), costs
            self._charges_of[known[1]] = costs
            self._around[known[1]] = {outer for name in costs for outer in (*_names.ancestors(name), name)}
        return known

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        raise LedgerError(f"record {self.head.sequence} of the log {what}")

    def scope_rows(self) -> Iterator[tuple[Any, ...]]:
        """Go through the rows that the table of scopes has to hold."""
        return (scope_values(scope.row(name)) for name, scope in self._scopes.items())

    def ticket_rows(self) -> Iterator[tuple[Any, ...]]:
        """Go through the rows that the table of tickets has to hold."""
        return iter(self._tickets.values())

    def compare(self, transaction: Transaction) -> None:
        """Raise `LedgerError` unless the tables hold exactly this."""
        if transaction.read_head != self.head:
            raise LedgerError(f"the log ends at record {self.head.sequence}, and the head is another one")
        found_scopes = {row[0]: tuple(row) for row in transaction.scope_rows()}
        if found_scopes != {row[0]: row for row in self.scope_rows()}:
            raise LedgerError("a scope is not what the log makes it: its row was changed, added or removed")
        found = 0
        for row in transaction.ticket_rows():
            found += 1
            if self._tickets.get(row[0]) != tuple(row):
                raise LedgerError("a ticket is not what the log makes it: its row was changed or added")
        if found != len(self._tickets):
            raise LedgerError("a ticket of the log is missing: its row was removed")


def replayed(transaction: Transaction) -> Replay:
    """Return what follows from the whole log; raise `LedgerError` where it, or a table, is not as it should be."""
    replay = Replay(transaction.start)
    for sequence, text, digest in transaction.log():
        replay.read(sequence, text, digest)
    replay.compare(transaction)
    return replay
