"""What can be read of a ledger: scopes, charges, tickets and the log. Nothing here charges."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ferrodp._base import _html, _validate
from ferrodp.budget import _measures, _names, _odometer, report
from ferrodp.budget._charging import rules as _rules
from ferrodp.budget._charging.access import Access
from ferrodp.budget._charging.prices import Prices
from ferrodp.budget._measures import Amounts
from ferrodp.budget.log import checkpoints, exports, history
from ferrodp.budget.records import Head
from ferrodp.budget.report import Reading, ReleaseReport, ScopeReport, TicketReport
from ferrodp.budget.stores.rows import ScopeRow
from ferrodp.errors import InvalidType, LedgerError
from ferrodp.events import PrivacyEvent
from ferrodp.tickets import TicketState


class LedgerReader:
    """The reading side of a `PrivacyLedger`, which is one: questions that change no budget and charge nothing."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._prices = Prices(access)

    def __repr__(self) -> str:
        return f"<PrivacyLedger {self._access.store.name}>"

    def _repr_html_(self) -> str:
        try:
            names = self.scopes
            shown = [self.report(name) for name in names[: _html.MOST_ROWS]]
        except LedgerError as error:  # it is closed, or out of reach: a notebook still shows what it is
            return _html.text(f"{self!r}: {error}")
        rows = report.rows_of(shown) + [(name,) for name in names[_html.MOST_ROWS :]]
        return _html.table(repr(self), report.COLUMNS, rows or [("no scope yet",)], more="ledger.scopes")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names of all scopes."""
        with self._access.reading() as transaction:
            return tuple(row.name for row in transaction.scopes())

    def report(self, scope: str) -> ScopeReport:
        """Return the budget of a scope, its charges, and the number of releases in each state.

        Parameters
        ----------
        scope : str
            The scope.

        Returns
        -------
        ScopeReport

        Raises
        ------
        InvalidParameter
            If there is no such scope.
        """
        self._access.flush()
        return report.scope_report(self._scope(scope))

    # questions

    def would_exceed(self, scopes: str | Sequence[str], event: PrivacyEvent, count: int = 1) -> bool:
        """Return whether `reserve` would be refused now; charges nothing.

        Parameters
        ----------
        scopes, event
            As for `reserve`.
        count : int
            The number of such charges.

        Returns
        -------
        bool

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `reserve`.
        """
        return self.remaining_count(scopes, event) < _validate.count("count", count, minimum=0)

    def _check_charge(self, scopes: str | Sequence[str], event: PrivacyEvent) -> None:
        """Raise what `reserve` would raise now; charges nothing."""
        names, _ = self._prices.checked(scopes, event)
        with self._access.reading() as transaction:
            rows = _rules.charged_scopes(transaction, names)
            _rules.charged(rows, _rules.priced(rows, event, None), event, 1)

    def remaining_count(self, scopes: str | Sequence[str], event: PrivacyEvent) -> int:
        """Return how often an event can still be charged.

        Parameters
        ----------
        scopes, event
            As for `reserve`.

        Returns
        -------
        int
            2⁶³ − 1 also where there is no limit.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `reserve`.
        """
        names, _ = self._prices.checked(scopes, event)
        with self._access.reading() as transaction:
            rows = _rules.charged_scopes(transaction, names)
            charges = _rules.priced(rows, event, None)
            left = [0 if row.frozen else row.terms.remaining(row.spent, row.caps, charges[row.name]) for row in rows]
        return min(left)

    def key_used(self, scopes: str | Sequence[str], event: PrivacyEvent, *, key: str) -> bool:
        """Return whether the release of a key has begun: `reserve` would not let it begin again.

        Parameters
        ----------
        scopes, event, key
            As for `reserve`.

        Returns
        -------
        bool
            False for a key that was never used, whose ticket is held, or was cancelled.

        Raises
        ------
        TicketError
            If the key was used for something else.
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `reserve`.
        """
        names, _ = self._prices.checked(scopes, event)
        name = _names.key(key)
        if name is None:
            raise InvalidType("key must be a str, got None")
        with self._access.reading() as transaction:
            return _rules.key_used(transaction, names, event, name)

    def odometer(self, scope: str, *, after: PrivacyEvent | None = None) -> Reading:
        """Return a bound on the privacy loss of everything charged to a scope so far, or after one more event.

        It holds whenever it is read: except with probability δ, the loss at every moment is at most the ε read then,
        even if the moment, and what was charged until then, are chosen in view of all results. That has a price: while
        the guarantee of the scope stands, an ε read near the end of its budget is larger than the budget's.

        Parameters
        ----------
        scope : str
            The scope.
        after : PrivacyEvent, optional
            Read as if this had been charged, too, also where the budget does not allow it; nothing is charged.

        Returns
        -------
        Reading

        Raises
        ------
        InvalidParameter
            If there is no such scope.
        UnsupportedEventError
            If the cost of `after` is not known in the measure of the scope.

        Notes
        -----
        ρ and μ²/2 by the mixture odometer of [WRRW23] Theorem 3; Rényi divergences by Ville's inequality at each order;
        ε and δ as sums [RRUV16]. δ is that with which the scope was created, or its highest: fixed in advance. It stays
        so when the budget is raised.
        """
        row, spent = self._sums(scope, after)
        epsilon, delta = _odometer.reading(row.terms, spent)
        return Reading(epsilon=epsilon, delta=delta)

    def epsilon_charged(self, scope: str, *, after: PrivacyEvent | None = None) -> float:
        """Return the smallest ε, at the scope's δ, of a budget into which all charges fit, or all and one event more.

        It tells how much of the budget is used, and is a guarantee if the charges were fixed in advance, as the budget
        itself is; not at a moment chosen in view of results: use `odometer` for that.

        Parameters
        ----------
        scope : str
            The scope.
        after : PrivacyEvent, optional
            Read as if this had been charged, too; nothing is charged.

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        InvalidParameter
            If there is no such scope.
        UnsupportedEventError
            If the cost of `after` is not known in the measure of the scope.
        """
        row, spent = self._sums(scope, after)
        return row.terms.epsilon_of(spent, row.caps)

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
            Return at most this many.

        Returns
        -------
        list of TicketReport

        Raises
        ------
        InvalidParameter, InvalidType
            If there is no such scope or state.
        """
        wanted = report.checked_states(states)
        most = None if limit is None else _validate.count("limit", limit)
        name = None if scope is None else _names.scope(scope)
        self._access.flush()
        with self._access.beside() as store, store.reading() as transaction:
            if name is not None:
                _rules.existing(transaction, name)
            return report.ticket_reports(transaction, scope=name, states=wanted, limit=most)

    def releases(self, scope: str | None = None, *, limit: int | None = None) -> list[ReleaseReport]:
        """Return what was charged and for what, in words: which statistic, column, bounds and unit; oldest first.

        The words are part of the records, in the transaction of the charge, or of the first random bit where the charge
        was recorded without. So this is what somebody shows who has to answer for the budget. Writers do not wait.

        Parameters
        ----------
        scope : str, optional
            Only charges to this scope, those of scopes within it among them.
        limit : int, optional
            Only the last this many. Then only the end of the log is read.

        Returns
        -------
        list of ReleaseReport

        Raises
        ------
        InvalidParameter, InvalidType
            If there is no such scope, or the limit is not a positive number.

        Examples
        --------
        >>> import tempfile
        >>> import ferrodp as fd
        >>> folder = tempfile.TemporaryDirectory()
        >>> with fd.PrivacyLedger.open(f"{folder.name}/budget.db") as ledger:
        ...     with fd.budget(epsilon=1.0, ledger=ledger, scope="survey"):
        ...         frame = {"region": ["north", "south"] * 300, "age": [30.0, 50.0] * 300}
        ...         groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        ...         _ = groups.mean("age", bounds=(0, 120), epsilon=0.5)
        ...     (charge,) = ledger.releases("survey")
        >>> print(charge.statistics[0])
        means by groups of region, column age, bounds [0, 120], unit: one row
        >>> charge.event.epsilon, charge.state.value
        (0.5, 'spent')
        >>> folder.cleanup()
        """
        name = None if scope is None else _names.scope(scope)
        most = None if limit is None else _validate.count("limit", limit)
        self._access.flush()
        if name is not None:
            self._scope(name)
        with self._access.beside() as store:
            found = report.releases(history.backward(store, name, with_scopes=True))
            return list(itertools.islice(found, most))[::-1]

    # the log

    @property
    def head(self) -> Head:
        """The last record of the log: keep it elsewhere, and pass it as `witness` the next time."""
        with self._access.reading() as transaction:
            return transaction.read_head

    def history(
        self, scope: str | None = None, *, limit: int | None = None, with_scopes: bool = False
    ) -> list[dict[str, Any]]:
        """Return the records of the log, of one scope or of all, oldest first. Writers do not wait.

        Parameters
        ----------
        scope : str, optional
            Only records about this scope.
        limit : int, optional
            Only the last this many. Then only the end of the log is read.
        with_scopes : bool
            Whether each record about a ticket names the scopes of the ticket as `scopes`, as in the log only the first
            record about it does.

        Returns
        -------
        list of dict

        Raises
        ------
        InvalidParameter, InvalidType
            If the scope is not a valid name, or the limit is not a positive number.
        """
        name = None if scope is None else _names.scope(scope)
        most = None if limit is None else _validate.count("limit", limit)
        with_scopes = flag("with_scopes", with_scopes)
        with self._access.beside() as store:
            return list(itertools.islice(history.backward(store, name, with_scopes=with_scopes), most))[::-1]

    def export(self) -> Iterator[str]:
        """Yield the log as JSON lines: a header, then the text of each record, as it was hashed, and its hash.

        The lines are read as they are requested, up to the last record at the beginning. Writers do not wait.

        Yields
        ------
        str
            One JSON object, without the end of the line.
        """
        with self._access.beside() as store:
            yield from exports.lines(store)

    def backup(self, path: str | os.PathLike[str], *, force: bool = False) -> Head:
        """Write a verified copy of the log, from which `import_ledger` restores the ledger. Writers do not wait.

        Parameters
        ----------
        path : str or PathLike
            The file, which appears complete or not at all. One that ends in ``.gz`` is compressed.
        force : bool
            Whether to replace an existing file.

        Returns
        -------
        Head
            Of the copied log. Keep it with the copy: `import_ledger` takes it as `witness`.

        Raises
        ------
        LedgerError
            If the ledger is damaged or was changed.
        FileRefused
            If the file cannot be written.
        """
        self.verify()
        with self._access.beside() as store:
            return exports.write(exports.lines(store), path, force=force)

    def verify(self) -> Head:
        """Verify the whole log, and all tables against it. Writers do not wait.

        Returns
        -------
        Head
            Of the verified log.

        Raises
        ------
        LedgerError
            If anything was changed, removed, added or moved, or the file is damaged.
        """
        with self._access.beside() as store:
            return checkpoints.verified(store, whole=True).head

    def _scope(self, scope: object) -> ScopeRow:
        name = _names.scope(scope)
        with self._access.reading() as transaction:
            return _rules.existing(transaction, name)

    def _sums(self, scope: str, after: PrivacyEvent | None) -> tuple[ScopeRow, Amounts]:
        """Return a scope and its sums, after one more event if there is one."""
        if after is not None:
            self._prices.checked(_names.scope(scope), after)
        row = self._scope(scope)
        return row, row.spent if after is None else _measures.added(row.spent, row.terms.costs(after))


def flag(name: str, value: object) -> bool:
    """Return True or False; refuse anything else, such as 1."""
    if not isinstance(value, bool):
        raise _validate.wrong_type(name, "True or False", value)
    return value
