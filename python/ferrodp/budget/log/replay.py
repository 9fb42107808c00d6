"""Verification: the log is replayed from its beginning, and the result compared with the tables.

The log records what happened; the tables hold the current state. Verification trusts neither: every hash is computed
again, every rule that can be checked without prices is (states, sums, caps), and each row has to be what the log makes
it.
"""

from __future__ import annotations

import itertools
import marshal
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ferrodp.budget import _measures, _names, records
from ferrodp.budget._charging import nesting as _nesting
from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget.author import is_author
from ferrodp.budget.records import Head
from ferrodp.budget.stores import rows
from ferrodp.budget.stores.base import Rows, Store, Transaction
from ferrodp.budget.stores.rows import Charges, ScopeRow
from ferrodp.errors import LedgerDamaged, LedgerError
from ferrodp.tickets import TicketState
from ferrodp.tickets.statistic import are_words

_STATES = _HELD, _ARMED, _SPENT, _CANCELLED = tuple(state.value for state in TicketState)
_FIRST = _HELD, _ARMED, _SPENT
_ENDS = {"arm": _ARMED, "finish": _SPENT, "cancel": _CANCELLED}
_FROM = {"arm": _HELD, "finish": _ARMED, "cancel": _HELD}
_RECORDS_AT_ONCE = 2000
_MAX_BEGINNINGS = 1024
_AFTER_THE_PRICE, _AFTER_THE_EVENT = ',"fingerprint":', ',"kind":'


@dataclass(slots=True, eq=False)
class _Ticket:
    """A ticket while its records are read: the row of its table, changed in place."""

    id: str
    key: str | None
    fingerprint: str
    state: str
    event: str
    charges: str
    count: int
    scopes: str
    sequence: int


_values_of = operator.attrgetter(*rows.FIELDS["tickets"])
_SHARED = [rows.FIELDS["tickets"].index(name) for name in ("event", "charges", "scopes")]
"""Texts that many tickets have in common: a state holds each once."""


@dataclass(slots=True, eq=False)
class _Scope:
    """A scope while its records are read."""

    terms: Terms
    caps: Amounts
    spent: Amounts
    frozen: bool
    version: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_STATES, 0))

    def row(self, name: str) -> ScopeRow:
        counts = tuple(self.counts.values())
        return ScopeRow(name, self.terms, self.caps, self.spent, self.frozen, self.version, counts)


class Replay:
    """What follows from the records that were read so far.

    It begins before the first record, or with a `state` that was written down: then only what that says and what comes
    later is known. Tickets that had ended by then are not.
    """

    def __init__(self, head: Head, state: str | None = None) -> None:
        self._sequence, self._hash = head
        self.begun = self.kept = head.sequence
        """The record with which this begins, and the last one that keeps a state."""
        self._scopes: dict[str, _Scope] = {}
        self._unread: dict[str, tuple[Any, ...]] = {}
        """Rows of scopes that no record has concerned yet."""
        self._frozen: set[str] = set()
        self._tickets: dict[str, _Ticket] = {}
        """Those that are held or armed."""
        self._ended: list[_Ticket] = []
        self._is_moved = False
        self._moved_to: str | None = None
        """The identity of the ledger to which a record moved this one, if it says so, until that is here."""
        self._is_old = head == Head(0, records.OLD_START)
        """Until the record that says it was imported, a log of 0.1.0: there a scope made around others began at
        nothing, and nobody compared its sums with its caps. They are counted from here on, so it may be overspent."""
        self._uncounted: set[str] = set()
        self._keys: set[tuple[str, str]] = set()
        self._prices: dict[bytes, tuple[str, str, Charges]] = {}
        self._last_prices: dict[int, tuple[Any, Any, tuple[str, str, Charges]]] = {}
        self._authors: set[int] = set()
        """Records that say who wrote them, and perhaps later ones."""
        self._beginnings: dict[str, dict[str, Any]] = {}
        self._charges_of: dict[str, Charges] = {}
        self._around: dict[str, set[str]] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._inside: dict[str, list[str]] = {}
        self._states: dict[int, str] = {}
        if state is not None:
            self._restore(records.loaded(state))

    @property
    def is_moved(self) -> bool:
        """Whether the log was closed, and takes no record any more."""
        return self._is_moved

    @property
    def head(self) -> Head:
        """The record that was read last."""
        return Head(self._sequence, self._hash)

    # states that are written down

    def state(self) -> str:
        """Return all that further records depend on, as text."""
        places: dict[str, int] = {}
        tickets = []
        for ticket in self._tickets.values():
            values = list(_values_of(ticket))
            for column in _SHARED:
                values[column] = places.setdefault(values[column], len(places))
            tickets.append(values)
        scopes = self.scope_rows()
        plain = {"scopes": [scopes[name] for name in sorted(scopes)], "tickets": tickets, "texts": list(places)}
        return str(records.plain(plain))

    @property
    def size(self) -> int:
        """How many scopes and tickets a state would hold."""
        return len(self._scopes) + len(self._unread) + len(self._tickets)

    def _restore(self, plain: Any) -> None:
        self._unread = {values[0]: tuple(values) for values in plain["scopes"]}
        for name, values in self._unread.items():
            self._note(name)
            if values[4]:
                self._frozen.add(name)
        for values in plain["tickets"]:
            for column in _SHARED:
                values[column] = plain["texts"][values[column]]
            ticket = _Ticket(*values)
            self._tickets[ticket.id] = ticket
            self._costs(ticket.charges)
            if ticket.key is not None:
                self._keys.add((ticket.scopes, ticket.key))

    # records

    def read(self, found: Rows) -> None:
        """Take the next records: number, text and hash of each."""
        for sequence, text, digest in found:
            expected = self._sequence + 1
            if sequence != expected or not isinstance(text, str):
                raise LedgerDamaged(
                    f"the log has no record {expected} where it should be: records were removed or moved"
                )
            # mutant: hash-of-record-not-computed-again
            if records.chained(self._hash, text) != digest:
                raise LedgerDamaged(f"record {expected} of the log was changed, or one before it")
            body = self._parsed(text)
            self._sequence, self._hash = expected, digest
            try:
                if "who" in body:
                    self._check_author(body["who"])
                if body["sequence"] != expected:
                    raise LedgerDamaged(f"record {expected} of the log calls itself {body['sequence']!r}")
                self._apply(body["kind"], body)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise LedgerDamaged(f"record {expected} of the log is not what this version writes") from error

    def _check_author(self, who: Any) -> None:
        """Refuse a record that neither says who wrote it nor names an earlier one that says so.

        What is said before the state with which this begins is not known here.
        """
        if type(who) is int:
            # mutant: author-whom-no-record-names
            if who not in self._authors and not 0 < who <= self.begun:
                self._refuse("is written by nobody")
        elif is_author(who):
            self._authors.add(self._sequence)
        else:
            self._refuse("is written by nobody")

    def _parsed(self, text: str) -> dict[str, Any]:
        """Return what `records.parsed` does, but read what many records begin with only once.

        Where a text is cut at a comma, and the first part with a brace is an object, not an empty one, and a brace with
        the second one, too, the text is an object with the members of both; if not, that comma is inside of something.
        """
        cut = text.find(_AFTER_THE_PRICE)
        if cut < 0:
            cut = text.find(_AFTER_THE_EVENT)
        if cut < 0:
            return records.parsed(text)
        beginning = text[:cut]
        first = self._beginnings.get(beginning)
        if first is None:
            try:
                first = records.parsed(f"{beginning}}}")
            except LedgerError:
                return records.parsed(text)
            if not first:
                return records.parsed(text)
            if len(self._beginnings) < _MAX_BEGINNINGS:
                self._beginnings[beginning] = first
        return first | records.parsed("{" + text[cut + 1 :])

    def _apply(self, kind: str, body: dict[str, Any]) -> None:
        if self._is_moved and kind != "import":
            self._refuse("follows the one that moved the ledger elsewhere")
        if kind in _ENDS:
            ticket = self._tickets.get(body["ticket"])
            if ticket is None or ticket.state != _FROM[kind]:
                self._refuse(f"has {kind} for a ticket that is not {_FROM[kind]}")
            if "statistics" in body:
                self._check_words(body["statistics"])
            self._move(kind, ticket)
        elif kind in ("reserve", "lease"):
            self._reserve(body)
        elif kind == "return":
            ended, count = self._tickets.get(body["ticket"]), body["count"]
            if ended is None or ended.state != _ARMED or type(count) is not int or not 0 <= count <= ended.count:
                self._refuse("ends what has ended")
            self._end(ended, _SPENT, left=ended.count - count, refund=count)
        elif kind == "create":
            self._create(body)
        elif kind == "cap":
            self._set_cap(self._changed(body["scope"]), Terms.from_dict(body["terms"]), body)
        elif kind in ("freeze", "thaw"):
            self._changed(body["scope"]).frozen = kind == "freeze"
            (self._frozen.add if kind == "freeze" else self._frozen.discard)(body["scope"])
        elif kind == "move":
            self._is_moved = True
            self._moved_to = records.destination_of(body)
        elif kind == "import":
            # mutant: move-completed-by-another-ledger
            self._require(body.get("ledger") in (None, self._moved_to), "completes a move to another ledger")
            self._is_moved = self._is_old = False
            self._moved_to = None
            self._uncounted.clear()
        elif kind == "checkpoint":
            # mutant: state-that-does-not-follow-passes
            if records.digest(self.state()) != body["state"]:
                self._refuse("keeps a state that does not follow from the records before it")
            self._states[self._sequence] = body["state"]
            self.kept = self._sequence
        else:
            raise LedgerDamaged(f"record {self._sequence} of the log is of no known kind")

    def _create(self, body: dict[str, Any]) -> None:
        name = body["scope"]
        self._require(isinstance(name, str) and self._find(name) is None, "creates a scope that there is")
        terms, caps = Terms.from_dict(body["terms"]), rows.amounts_from_plain(body["caps"])
        scope = _Scope(terms, caps, (0,) * len(caps), False, self._sequence)
        inside = {each: self._existing(each) for each in self._inside.get(name, ())}
        counts = self._is_old or ("carried" in body) == bool(inside)
        self._require(counts, "creates a scope around others, and does not count them")
        sums = {each: (found.terms, found.spent) for each, found in inside.items()}
        scope.spent = _nesting.carried(sums, scope.terms, len(scope.caps))
        if inside and self._is_old:
            self._uncounted.add(name)
        elif inside:
            carried = rows.amounts_from_plain(body["carried"])
            # mutant: what-log-says-taken-over-believed
            self._require(carried == scope.spent, "takes over other sums than there are")
            fits = not any(scope.spent) or scope.terms.fits(scope.spent, scope.caps)
            self._require(fits, f"begins with overspent scope {name!r}")
        self._scopes[name] = scope
        self._note(name)

    def _set_cap(self, scope: _Scope, terms: Terms, body: dict[str, Any]) -> None:
        """Take new terms, which have to say what was promised first; 0.1.0 did not write that down."""
        found = _measures.succeeding(scope.terms, terms)
        self._require(self._is_old or found == terms, "forgets what was promised when the scope was made")
        self._require(not found.raised or found.highest is None, "allows more than the highest that was declared")
        scope.terms, scope.caps = found, rows.amounts_from_plain(body["caps"])

    def _note(self, name: str) -> None:
        for outer in _names.ancestors(name):
            self._inside.setdefault(outer, []).append(name)

    def _reserve(self, body: dict[str, Any]) -> None:
        event_text, charges_text, charges = self._priced(body["event"], body["charges"])
        identity, key, count, state = body["ticket"], body.get("key"), body["count"], body["state"]
        if type(count) is not int or count < 1:
            self._refuse("charges nothing")
        if "statistics" in body:
            self._check_words(body["statistics"])
        if state not in _FIRST:
            self._refuse("begins a ticket in no state to begin with")
        for name, costs in charges.items():
            scope = self._changed(name)
            scope.spent = _measures.added(scope.spent, _measures.scaled(costs, count))
            scope.counts[state] += count
            if len(costs) != len(scope.caps):
                self._refuse("charges in another measure")
            if scope.frozen or not (scope.terms.fits(scope.spent, scope.caps) or name in self._uncounted):
                self._refuse(f"overspends scope {name!r}")
        names = self._named(body["scopes"])
        if identity in self._tickets or (names, key) in self._keys:
            self._refuse("reserves the same twice")
        what = state, event_text, charges_text, count, names
        # one without a key needs none; earlier versions wrote it all the same
        fingerprint = body["fingerprint"] if key is not None else body.get("fingerprint", "")
        ticket = _Ticket(identity, key, fingerprint, *what, self._sequence)
        if state == _SPENT:
            self._ended.append(ticket)
        else:
            self._tickets[identity] = ticket
        if key is not None:
            self._keys.add((names, key))

    def _check_words(self, statistics: Any) -> None:
        """Refuse what does not say in words what a charge was for.

        Which characters can be seen depends on the version of Unicode, so that is not looked at again.
        """
        # mutant: words-in-a-log-not-checked
        self._require(type(statistics) is list and all(map(are_words, statistics)), "does not say what was released")

    def _named(self, names: list[Any]) -> str:
        mark = tuple(names)
        text = self._names.get(mark)
        if text is None:
            self._require(type(names) is list and all(type(name) is str for name in names), "names no scopes")
            text = self._names[mark] = str(rows.names_text(mark))
        return text

    def _move(self, kind: str, ticket: _Ticket) -> None:
        if kind == "finish":
            self._end(ticket, _SPENT, left=ticket.count)
        elif kind == "cancel":
            if ticket.key is not None:
                self._keys.remove((ticket.scopes, ticket.key))
                ticket.key = None
            self._end(ticket, _CANCELLED, left=ticket.count, refund=ticket.count)
        else:
            charges = self._charges_of[ticket.charges]
            if self._frozen and not self._frozen.isdisjoint(charges if self._is_old else self._around[ticket.charges]):
                self._refuse("arms in a frozen scope")
            for name in charges:
                counts = self._changed(name).counts
                counts[_HELD] -= ticket.count
                counts[_ARMED] += ticket.count
            ticket.state = _ARMED

    def _end(self, ticket: _Ticket, state: str, *, left: int, refund: int = 0) -> None:
        for name, costs in self._charges_of[ticket.charges].items():
            scope = self._changed(name)
            scope.counts[ticket.state] -= ticket.count
            scope.counts[state] += left
            if refund:
                scope.spent = _measures.taken(scope.spent, _measures.scaled(costs, refund))
        if refund:
            self._refund_around(self._charges_of[ticket.charges], refund)
        del self._tickets[ticket.id]
        ticket.state, ticket.count = state, left
        self._ended.append(ticket)

    def _refund_around(self, charges: Charges, count: int) -> None:
        """Give back to scopes that were made around those charged what they took over."""
        for name in _nesting.later_around(charges, lambda each: self._find(each) is not None):
            scope = self._changed(name)
            costs = _nesting.given_back(charges, name, lambda each: self._existing(each).terms, len(scope.spent))
            scope.spent = _measures.taken(scope.spent, _measures.scaled(costs, count))

    def _find(self, name: str) -> _Scope | None:
        scope = self._scopes.get(name)
        if scope is None and name in self._unread:
            row = rows.scope_row(self._unread.pop(name))
            counts = dict(zip(_STATES, row.counts, strict=True))
            scope = self._scopes[name] = _Scope(row.terms, row.caps, row.spent, row.frozen, row.version, counts)
        return scope

    def _existing(self, name: str) -> _Scope:
        scope = self._find(name)
        return self._refuse("is about a scope that there is not") if scope is None else scope

    def _changed(self, name: str) -> _Scope:
        scope = self._scopes.get(name) or self._existing(name)
        scope.version = self._sequence
        return scope

    def _priced(self, event: Any, charges: Any) -> tuple[str, str, Charges]:
        """Return an event and what it costs, checked once; most records are about few different ones."""
        price = self._last_prices.get(id(charges))
        if price is not None and price[0] is charges and price[1] is event:  # kept there, so nothing else has its id
            return price[2]
        mark = marshal.dumps((event, charges), 2)
        known = self._prices.get(mark)
        if known is None:
            rows.event_from_plain(event)
            text = str(records.plain(charges))
            known = self._prices[mark] = str(records.plain(event)), text, self._costs(text)
        if len(self._last_prices) >= _MAX_BEGINNINGS:
            self._last_prices.clear()
        self._last_prices[id(charges)] = charges, event, known
        return known

    def _costs(self, text: str) -> Charges:
        """Return the charges of a text; note in which scopes those lie that they concern."""
        costs = self._charges_of.get(text)
        if costs is None:
            costs = rows.charges_from_text(text)
            if any(min(amounts, default=-1) < 0 for amounts in costs.values()):
                self._refuse("charges less than nothing")
            self._charges_of[text] = costs
            self._around[text] = {outer for name in costs for outer in (*_names.ancestors(name), name)}
        return costs

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        raise LedgerDamaged(f"record {self._sequence} of the log {what}")

    def scope(self, name: str) -> ScopeRow | None:
        """Return a scope as the records so far make it, or None if none has created it."""
        found = self._find(name)
        return None if found is None else found.row(name)

    # tables

    def scope_rows(self) -> dict[str, tuple[Any, ...]]:
        """Return the rows that the table of scopes has to hold, by name."""
        return self._unread | {name: rows.scope_values(scope.row(name)) for name, scope in self._scopes.items()}

    def ticket_rows(self) -> Iterator[tuple[Any, ...]]:
        """Go through the rows that the table of tickets has to hold, as far as they are known."""
        return (_values_of(ticket) for ticket in itertools.chain(self._ended, self._tickets.values()))

    def compare(self, transaction: Transaction) -> None:
        """Raise `LedgerError` unless the tables hold exactly this, as far as it is known."""
        # mutant: head-not-compared-with-log
        if transaction.read_head != self.head:
            raise LedgerDamaged(f"the log ends at record {self._sequence}, and the head is another one")
        # mutant: scopes-not-compared-with-log
        if {row[0]: tuple(row) for row in transaction.scope_rows()} != self.scope_rows():
            raise LedgerDamaged("a scope is not what the log makes it: its row was changed, added or removed")
        kept = {sequence: records.digest(text) for sequence, text in transaction.states(after=self.begun or None)}
        if not kept.items() <= self._states.items():  # one that is missing costs time
            raise LedgerDamaged("a state that was kept is not what the log makes it")
        self.kept = max(kept, default=self.begun)
        tickets = {ticket.sequence: ticket for ticket in (*self._ended, *self._tickets.values())}
        old = [sequence for sequence in tickets if sequence <= self.begun]
        found = 0
        # mutant: tickets-that-open-at-checkpoint-not-compared
        for row in itertools.chain(transaction.tickets_begun(old), transaction.ticket_rows(after=self.begun or None)):
            found += 1
            ticket = tickets.get(row[-1])
            # mutant: tickets-not-compared-with-log
            if ticket is None or _values_of(ticket) != tuple(row):
                raise LedgerDamaged("a ticket is not what the log makes it: its row was changed or added")
        if found != len(tickets):
            raise LedgerDamaged("a ticket of the log is missing: its row was removed")


def replayed(store: Store, replay: Replay | None = None) -> Replay:
    """Return what follows from the whole log, or from what comes after a state of it; see `Replay`.

    The log is read some records at a time, up to its end: it only grows, so that shows what it held at one moment, and
    neither writers nor a database's own cleaning have to wait. Only the end and the tables are read together.

    Raises
    ------
    LedgerError
        Where the log, or a table, is not as it should be.
    """
    while True:
        with store.reading() as transaction:
            replay = replay or Replay(Head(0, transaction.start))
            found = transaction.records(replay.head.sequence or None, _RECORDS_AT_ONCE)
            if len(found) < _RECORDS_AT_ONCE:
                replay.read(found)
                replay.compare(transaction)
                return replay
        replay.read(found)
