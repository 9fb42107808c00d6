"""What can be asked of a ledger."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ferrodp import _validate
from ferrodp.budget import _measures, _names, _readings, _ticket_list
from ferrodp.budget import _rules as _book
from ferrodp.budget._handle import Handle
from ferrodp.budget._ticket_list import TicketReport
from ferrodp.budget.log import exports
from ferrodp.budget.log import history as _history
from ferrodp.budget.log.checkpoints import verified
from ferrodp.budget.log.records import Head
from ferrodp.budget.report import Reading, ScopeReport
from ferrodp.events import PrivacyEvent
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

        It holds whenever it is read: but with probability δ, the loss at every moment is at most the ε read then, even
        if the moment, and what was charged until then, are chosen in view of all results. That costs something: while
        the promise of the scope stands, an ε read near the end of its budget is larger than the budget's.

        Parameters
        ----------
        scope : str
            Which one.
        after : PrivacyEvent, optional
            Read as if this had been charged, too, also where the budget does not allow it; nothing is charged.

        Returns
        -------
        Reading

        Notes
        -----
        ρ and μ²/2 by the mixture odometer of Whitehouse, Ramdas, Rogers, Wu, "Fully-adaptive composition in
        differential privacy", ICML 2023, Theorem 3; Rényi divergences by Ville's inequality at each order; ε and δ as
        sums: Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016. δ is that with which the
        scope was made, or its highest: fixed in advance. It stays so when a cap is raised.
        """
        name = _names.scope(scope)
        if after is not None:
            self._checked(name, after, None)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
        spent = row.spent if after is None else _measures.added(row.spent, row.terms.costs(after))
        epsilon, delta = _readings.reading(row.terms, spent)
        return Reading(epsilon=epsilon, delta=delta)

    def epsilon_charged(self, scope: str, *, after: PrivacyEvent | None = None) -> float:
        """Return the least ε, at the scope's δ, of a budget in which all fits that was charged, or one event more.

        It says how much of the budget is used, and is a guarantee if the charges were fixed in advance, or as the
        budget itself; not at a moment chosen in view of results: that is `odometer`.
        """
        name = _names.scope(scope)
        if after is not None:
            self._checked(name, after, None)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
        spent = row.spent if after is None else _measures.added(row.spent, row.terms.costs(after))
        return row.terms.epsilon_of(spent, row.caps)

    def report(self, scope: str) -> ScopeReport:
        """Return all about a scope."""
        name = _names.scope(scope)
        if self._finished:
            self._run(lambda _: None)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
        return ScopeReport(
            scope=name,
            measure=row.terms.measure,
            neighboring_relation=row.terms.neighboring_relation,
            epsilon=row.terms.epsilon,
            delta=row.terms.delta,
            promised_epsilon=None if row.terms.promised is None else row.terms.promised[0],
            promised_delta=None if row.terms.promised is None else row.terms.promised[1],
            epsilon_charged=row.terms.epsilon_of(row.spent, row.caps),
            delta_charged=row.terms.delta_of(row.spent),
            exact_epsilon_charged=row.terms.exact_epsilon_of(row.spent),
            **{state.value: count for state, count in zip(TicketState, row.counts, strict=True)},
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
        with self._beside() as store, store.reading() as transaction:
            if name is not None:
                _book.existing(transaction, name)
            return _ticket_list.listed(transaction, scope=name, states=wanted, limit=most)

    @property
    def head(self) -> Head:
        """The last record of the log: keep it elsewhere, and pass it as `witness` the next time."""
        with self._read() as transaction:
            return transaction.read_head

    def history(
        self, scope: str | None = None, *, limit: int | None = None, with_scopes: bool = False
    ) -> list[dict[str, Any]]:
        """Return the records of the log, of one scope or of all, oldest first.

        Nobody has to wait for that. With a limit, only the end of the log is read.

        Parameters
        ----------
        scope : str, optional
            Only what concerns this scope.
        limit : int, optional
            Only the last so many.
        with_scopes : bool
            Whether each record about a ticket shall say as `scopes` for which ones it was reserved, as only the first
            record about it does in the log.

        Returns
        -------
        list of dict

        Raises
        ------
        InvalidParameter, InvalidType
            If the scope cannot be the name of one, or the limit is no positive number.
        """
        name = None if scope is None else _names.scope(scope)
        most = None if limit is None else _validate.count("limit", limit)
        with self._beside() as store:
            return list(itertools.islice(_history.backward(store, name, with_scopes=with_scopes), most))[::-1]

    def export(self) -> Iterator[str]:
        """Yield the log as JSON lines: a header, then the text of each record, as it was hashed, and its hash.

        The lines are read as they are asked for, up to the last record at the beginning; writers do not wait.
        """
        with self._beside() as store:
            yield from exports.lines(store)

    def verify(self) -> Head:
        """Check the whole log, and all tables against it; return the head. Nobody has to wait for that.

        Raises
        ------
        LedgerError
            If anything was changed, removed, added or moved, or the file is damaged.
        """
        with self._beside() as store:
            return verified(store, whole=True).head
