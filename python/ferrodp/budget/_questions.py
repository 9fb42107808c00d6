"""What can be asked of a ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ferrodp import _validate
from ferrodp.accounting.events import PrivacyEvent
from ferrodp.budget import _book, _measures, _names, _records, _ticket_list, _transfer
from ferrodp.budget._handle import Handle
from ferrodp.budget._records import Head
from ferrodp.budget._replay import replayed
from ferrodp.budget._ticket_list import TicketReport
from ferrodp.budget.report import Reading, ScopeReport
from ferrodp.tickets import TicketState


class Questions(Handle):
    """The reading half of a `PrivacyLedger`."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names of all scopes."""
        with self._read() as transaction:
            return tuple(row.name for row in transaction.scopes())

    def would_exceed(self, scopes: str | Sequence[str], event: PrivacyEvent, count: int = 1) -> bool:
        """Return whether `reserve` would be refused now; charges nothing."""
        return self.remaining_count(scopes, event) < _validate.count("count", count, minimum=0)

    def remaining_count(self, scopes: str | Sequence[str], event: PrivacyEvent) -> int:
        """Return how often an event can still be charged; 2⁶³ − 1 stands for no limit, too."""
        names, _ = self._checked(scopes, event, None)
        with self._read() as transaction:
            rows = _book.charged_scopes(transaction, names)
            charges = _book.priced(rows, event, None)
            left = [0 if row.frozen else row.terms.remaining(row.spent, row.caps, charges[row.name]) for row in rows]
        return min(left)

    def odometer(self, scope: str, *, after: PrivacyEvent | None = None) -> Reading:
        """Return a bound on the privacy loss of all that was charged to a scope so far, or after one more event.

        With `after` it says what the loss would be, also where the budget does not allow it; nothing is charged.
        """
        name = _names.scope(scope)
        if after is not None:
            self._checked(name, after, None)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
        spent = row.spent if after is None else _measures.added(row.spent, row.terms.costs(after))
        return Reading(epsilon=row.terms.epsilon_of(spent, row.caps), delta=row.terms.delta_of(spent))

    def report(self, scope: str) -> ScopeReport:
        """Return all about a scope."""
        name = _names.scope(scope)
        if self._finished:
            self._run(lambda _: None)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
            states = transaction.states(name)
        return ScopeReport(
            scope=name,
            measure=row.terms.measure,
            neighboring_relation=row.terms.neighboring_relation,
            epsilon=row.terms.epsilon,
            delta=row.terms.delta,
            epsilon_spent=row.terms.epsilon_of(row.spent, row.caps),
            delta_spent=row.terms.delta_of(row.spent),
            exact_epsilon_spent=row.terms.exact_epsilon_of(row.spent),
            held=states[TicketState.HELD],
            armed=states[TicketState.ARMED],
            spent=states[TicketState.SPENT],
            cancelled=states[TicketState.CANCELLED],
            frozen=row.frozen,
        )

    def tickets(
        self,
        scope: str | None = None,
        *,
        states: Iterable[TicketState | str] = tuple(TicketState),
        limit: int | None = None,
    ) -> list[TicketReport]:
        """Return the tickets of a scope, or of all, with the state and the age of each; the oldest first.

        Parameters
        ----------
        scope : str, optional
            Only tickets that were charged to this scope.
        states : iterable of TicketState or str
            Only tickets in one of these states: "held", "armed", "spent", "cancelled".
        limit : int, optional
            At most so many.

        Returns
        -------
        list of TicketReport

        Raises
        ------
        InvalidParameter, InvalidType
            If there is no such scope, or a state is none.
        """
        wanted = _ticket_list.checked_states(states)
        most = None if limit is None else _validate.count("limit", limit)
        name = None if scope is None else _names.scope(scope)
        if self._finished:
            self._run(lambda _: None)
        with self._read() as transaction:
            if name is not None:
                _book.existing(transaction, name)
            return _ticket_list.listed(transaction, scope=name, states=wanted, limit=most)

    @property
    def head(self) -> Head:
        """The last record of the log: keep it elsewhere, and pass it as `witness` the next time."""
        with self._read() as transaction:
            return transaction.read_head

    def history(self, scope: str | None = None) -> list[dict[str, Any]]:
        """Return the records of the log, of one scope or of all, oldest first."""
        name = None if scope is None else _names.scope(scope)
        found, tickets = [], set()
        with self._read() as transaction:
            for _, text, _ in transaction.log():
                body = _records.parsed(text)
                if name is not None:
                    if name in body.get("charges", ()):
                        tickets.add(body["ticket"])
                    if body.get("scope") != name and body.get("ticket") not in tickets:
                        continue
                found.append(body)
        return found

    def export(self) -> Iterator[str]:
        """Go through the log as JSON lines: each has a record's text, as it was hashed, and its hash.

        A line before them says what stands before the first record; see `_transfer.header`.
        """
        yield _transfer.header(self._store.start)
        with self._read() as transaction:
            lines = list(transaction.log())
        for _, text, digest in lines:
            yield json.dumps({"record": text, "hash": digest}, ensure_ascii=True)

    def verify(self) -> Head:
        """Check the whole log, and all tables against it; return the head.

        Raises
        ------
        LedgerError
            If anything was changed, removed, added or moved, or the file is damaged.
        """
        check = getattr(self._store, "check", None)
        self._check_process()
        if check is not None:
            with self._commits.excluded():
                check()
        with self._read() as transaction:
            return replayed(transaction).head
