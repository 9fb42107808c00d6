"""The ledger: what may be spent, what was, and the tickets in between."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Self, TypeVar

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.accounting.events import NeighboringRelation, PrivacyEvent
from ferrodp.accounting.events.base import check_event
from ferrodp.accounting.filters import Measure
from ferrodp.budget import _book, _measures, _names, _points, _records
from ferrodp.budget._commit import GroupCommit
from ferrodp.budget._records import Head
from ferrodp.budget._replay import replayed
from ferrodp.budget._rows import TicketRow
from ferrodp.budget._store import Store, Transaction
from ferrodp.budget.lease import Lease
from ferrodp.budget.report import Reading, ScopeReport
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError
from ferrodp.random import refuse_copy
from ferrodp.tickets import Ticket, TicketState

__all__ = ["PrivacyLedger"]

_Result = TypeVar("_Result")
_SERVERS = ("postgresql://", "postgres://")


class PrivacyLedger:
    """Privacy budgets that outlive the process and are shared by any number of processes.

    What is acknowledged is on the disk. What is charged to a scope never exceeds its (ε, δ), under full adaptivity:
    each release, and how much it costs, may be chosen after seeing all results before. A cost is charged before its
    noise is drawn. A crash can waste what was reserved; it can never give anything back.

    Open one with `PrivacyLedger.open`. It is safe in any number of threads; a forked child has to open its own.

    Notes
    -----
    ===========  ====================================================================================================
    held         reserved and charged; can be cancelled, which gives the charge back
    armed        the first random bit is being drawn: the charge is spent, whatever happens
    spent        the release is done
    cancelled    given back unused
    ===========  ====================================================================================================

    Every change is a record in an append-only log, each tied to all before by SHA-256; `head` is the last one. A ledger
    that was put back to an earlier state still looks whole: keep a head elsewhere and pass it as `witness`, and it is
    refused. Not promised: anything against someone who may write to the file *and* to the witness; several ledgers
    about the same data do not know of each other.

    Sums and caps are exact integers, costs rounded up and caps down. A scope lies in the scopes whose names its own
    begins with: what is charged to ``hospital/images`` is charged to ``hospital``, too, where that exists.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = fd.PrivacyLedger.open(f"{folder.name}/budget.db")
    >>> ledger.create("hospital/images", epsilon=4.0, delta=1e-6)
    >>> event = fd.accounting.GaussianEvent(noise_multiplier=10.0)
    >>> with ledger.reserve("hospital/images", event, key="round-7") as ticket:
    ...     ticket.arm()  # a release(ticket=ticket) does this itself
    >>> ledger.report("hospital/images").spent
    1
    >>> ledger.remaining_count("hospital/images", event)
    52
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._commits = GroupCommit(store)
        self._process = os.getpid()
        self._finished: list[str] = []
        self._warm: set[tuple[Any, ...]] = set()
        self._relations: dict[str, NeighboringRelation] = {}

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        create: bool = True,
        verify: bool = True,
        witness: Head | str | None = None,
        timeout: float = 60.0,
        allow_network_file_system: bool = False,
    ) -> Self:
        """Open a ledger, or begin one.

        Parameters
        ----------
        where : str or PathLike
            A file, for SQLite, or ``postgresql://…`` for a server (needs ``ferrodp[postgres]``).
        create : bool
            Whether to begin a ledger where there is none. A file that is there but is no ledger is never touched.
        verify : bool
            Whether to check the whole log first, and all tables against it: some microseconds a record.
        witness : Head or str, optional
            A `head` that was kept elsewhere: a ledger that does not contain it is refused, as it was put back to an
            earlier state, or is another one. Implies ``create=False``.
        timeout : float
            For how many seconds to wait for other writers.
        allow_network_file_system : bool
            Whether a file may lie where locks cannot be trusted. Not with more than one process.

        Raises
        ------
        LedgerError
            If it cannot be opened, is damaged or was changed, or is older than the witness.
        """
        expected = None if witness is None else Head.parse(witness)
        for name, value in (("create", create), ("verify", verify)):
            if not isinstance(value, bool):
                raise InvalidType(f"{name} must be True or False, got {type(value).__name__}")
        seconds = _validate.positive("timeout", timeout)
        store: Store
        if isinstance(where, str) and where.startswith(_SERVERS):
            from ferrodp.budget.postgres import PostgresStore

            store = PostgresStore(where, create=create and expected is None, timeout=seconds)
        else:
            from ferrodp.budget.sqlite import SqliteStore

            store = SqliteStore(
                where,
                create=create and expected is None,
                timeout=seconds,
                allow_network_file_system=allow_network_file_system,
            )
        ledger = cls(store)
        try:
            if verify:
                ledger.verify()
            if expected is not None:
                ledger._meet(expected)
        except BaseException:
            store.close()
            raise
        return ledger

    # scopes

    def create(
        self,
        name: str,
        *,
        epsilon: Real,
        delta: Real,
        measure: Measure = "rdp",
        orders: Sequence[Real] | None = None,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        """Begin a scope with a budget.

        Parameters
        ----------
        name : str
            A path such as ``hospital/images``; at most 200 characters.
        epsilon, delta : float
            The promise about everything that will be charged. δ is 0 or more for "pure", else in (0, 1).
        measure : {"rdp", "zcdp", "gdp", "pure"}
            In which measure costs are added up; see `ferrodp.accounting.privacy_filter`. "rdp" takes sampled Gaussians,
            "gdp" loses nothing for plain ones, "pure" adds up ε, and plans.
        orders : sequence of float, optional
            For "rdp": the orders that are kept.
        neighboring_relation : NeighboringRelation
            For which all sensitivities behind the events have to be stated.

        Raises
        ------
        InvalidParameter, InvalidType
            If there is such a scope, or the budget is none.
        """
        name = _names.scope(name, name="name")
        if not isinstance(neighboring_relation, NeighboringRelation):
            found = type(neighboring_relation).__name__
            raise InvalidType(f"neighboring_relation must be a NeighboringRelation, got {found}")
        terms = _measures.checked_terms(
            measure=measure,
            epsilon=epsilon,
            delta=delta,
            neighboring_relation=neighboring_relation,
            orders=None if orders is None else tuple(orders),  # type: ignore[arg-type]  # the filter checks them
        )
        self._run(lambda transaction: _book.create(transaction, name, terms))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names of all scopes."""
        with self._read() as transaction:
            return tuple(row.name for row in transaction.scopes())

    def raise_cap(self, name: str, *, reason: str, epsilon: Real, delta: Real | None = None) -> None:
        """Allow more in a scope: a weaker promise about everything, also about what was released before.

        `reason` goes into the log. δ stays as it is unless it is given.

        Raises
        ------
        InvalidParameter
            If that would not be more, or there is no such scope.
        """
        self._set_budget(name, epsilon, delta, reason, more=True)

    def lower_cap(self, name: str, *, reason: str, epsilon: Real, delta: Real | None = None) -> None:
        """Allow less in a scope. If more is spent already, nothing fits from now on."""
        self._set_budget(name, epsilon, delta, reason, more=False)

    def freeze(self, name: str, *, reason: str) -> None:
        """Refuse all charges to a scope, and the arming of tickets held already."""
        self._set_frozen(name, True, reason)

    def thaw(self, name: str, *, reason: str) -> None:
        """End what `freeze` began."""
        self._set_frozen(name, False, reason)

    # charges

    def reserve(
        self,
        scopes: str | Sequence[str],
        event: PrivacyEvent,
        *,
        key: str | None = None,
        plan_delta: Real | None = None,
    ) -> Ticket:
        """Charge an event to one or several scopes, all or nothing, and return the ticket for its release.

        Parameters
        ----------
        scopes : str or sequence of str
            Where to charge; scopes around them are charged, too.
        event : PrivacyEvent
            What will be released: the `event` of a mechanism, sampled or composed as it will happen.
        key : str, optional
            The same key gives the same ticket again, in whatever state it is: so a step that is repeated after a crash
            is charged once. A key whose ticket was cancelled is free again.
        plan_delta : float, optional
            The event is a whole plan, its parameters fixed now: charge it as one (ε, δ) with this δ and the ε that
            `PldAccountant` certifies. For scopes that take stated δ: measure "pure".

        Raises
        ------
        BudgetExceeded
            If it does not fit, or a scope is frozen. Nothing was charged.
        TicketError
            If the key was used for something else.
        UnsupportedEventError
            If the cost is not known in the measure of a scope.
        LedgerError
            If the outcome is unknown: it may have been charged, and counts as spent.
        """
        names, planned = self._checked(scopes, event, plan_delta)
        key = _names.key(key)
        row = self._run(lambda transaction: _book.reserve(transaction, names, event, key=key, plan_delta=planned))
        return self._ticket(names, row)

    def spend(self, scopes: str | Sequence[str], event: PrivacyEvent, *, key: str | None = None) -> None:
        """Charge an event whose release happens elsewhere: reserved, armed and spent in one step.

        With a key it is charged once, however often this is called.
        """
        names, _ = self._checked(scopes, event, None)
        key = _names.key(key)
        self._run(lambda transaction: _book.reserve(transaction, names, event, key=key, state=TicketState.SPENT))

    def lease(self, scopes: str | Sequence[str], event: PrivacyEvent, *, count: int) -> Lease:
        """Charge `count` releases at once, and return a lease that hands out their tickets without touching the disk.

        Raises
        ------
        BudgetExceeded, UnsupportedEventError, LedgerError
            As for `reserve`.
        """
        names, _ = self._checked(scopes, event, None)
        count = _validate.count("count", count)
        row = self._run(
            lambda transaction: _book.reserve(
                transaction, names, event, key=None, count=count, state=TicketState.ARMED, lease=True
            )
        )
        return Lease(
            event,
            id=row.id,
            scopes=names,
            neighboring_relation=self._relation(names),
            count=count,
            end=self._end_lease,
        )

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

    # reading

    def odometer(self, scope: str) -> Reading:
        """Return a bound on the privacy loss of all that was charged to a scope so far."""
        name = _names.scope(scope)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
        return Reading(epsilon=row.terms.epsilon_of(row.spent), delta=row.terms.delta_of(row.spent))

    def report(self, scope: str) -> ScopeReport:
        """Return all about a scope."""
        name = _names.scope(scope)
        if self._finished:
            self._run(lambda _: None)
        with self._read() as transaction:
            row = _book.existing(transaction, name)
            states = Counter(ticket.state for ticket in transaction.tickets() if name in ticket.charges)
        return ScopeReport(
            scope=name,
            measure=row.terms.measure,
            neighboring_relation=row.terms.neighboring_relation,
            epsilon=row.terms.epsilon,
            delta=row.terms.delta,
            epsilon_spent=row.terms.epsilon_of(row.spent),
            delta_spent=row.terms.delta_of(row.spent),
            held=states[TicketState.HELD],
            armed=states[TicketState.ARMED],
            spent=states[TicketState.SPENT],
            cancelled=states[TicketState.CANCELLED],
            frozen=row.frozen,
        )

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
        """Go through the log as JSON lines: each has a record's text, as it was hashed, and its hash."""
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

    def close(self) -> None:
        """Write down which releases are done, and give the connection back. Held tickets stay reserved."""
        if self._process != os.getpid():
            return
        with contextlib.suppress(LedgerError):
            if self._finished:
                self._run(lambda _: None)
        with self._commits.excluded():
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PrivacyLedger {self._store.name}>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("an open ledger")

    # what tickets ask for

    def arm(self, ticket: Ticket) -> None:
        """Record that a ticket's release begins. Called by the ticket."""
        _points.reached("before arming")
        self._run(lambda transaction: _book.arm(transaction, ticket.id))
        _points.reached("after arming")

    def cancel(self, ticket: Ticket) -> None:
        """Give a held ticket back. Called by the ticket."""
        self._run(lambda transaction: _book.cancel(transaction, ticket.id))

    def finish(self, ticket: Ticket) -> None:
        """Note that a release is done; it is written down with the next change. Called by the ticket."""
        self._finished.append(ticket.id)

    def _end_lease(self, identity: str, unused: int) -> None:
        self._run(lambda transaction: _book.give_back(transaction, identity, unused))

    # the way to the store

    def _run(self, work: Callable[[Transaction], _Result]) -> _Result:
        self._check_process()

        def with_notes(transaction: Transaction) -> _Result:
            result = work(transaction)
            while self._finished:
                _book.finish(transaction, self._finished.pop())
            return result

        return self._commits.run(with_notes)

    @contextlib.contextmanager
    def _read(self) -> Iterator[Transaction]:
        self._check_process()
        with self._commits.excluded(), self._store.reading() as transaction:
            yield transaction

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise LedgerError(f"{self._store.name} was opened by the parent of this process; open it again here")

    def _checked(self, scopes: object, event: object, plan_delta: object) -> tuple[tuple[str, ...], float | None]:
        """Check the arguments of a charge, and compute its price before anyone has to wait for it."""
        names = _names.scopes(scopes)
        check_event("event must be", event)
        planned = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        mark = (names, event, planned)
        if mark not in self._warm:
            with self._read() as transaction:
                rows = _book.charged_scopes(transaction, names)
            _book.priced(rows, event, planned)  # type: ignore[arg-type]  # checked above
            if len(self._warm) >= 4096:
                self._warm.clear()
            self._warm.add(mark)
        return names, planned

    def _relation(self, names: tuple[str, ...]) -> NeighboringRelation:
        """Return the relation of a scope, which never changes."""
        found = self._relations.get(names[0])
        if found is None:
            with self._read() as transaction:
                found = _book.existing(transaction, names[0]).terms.neighboring_relation
            self._relations[names[0]] = found
        return found

    def _ticket(self, names: tuple[str, ...], row: TicketRow) -> Ticket:
        return Ticket(
            row.event,
            id=row.id,
            key=row.key,
            scopes=names,
            neighboring_relation=self._relation(names),
            state=row.state,
            book=self,
        )

    def _set_budget(self, name: str, epsilon: Real, delta: Real | None, reason: str, *, more: bool) -> None:
        name, reason = _names.scope(name, name="name"), _names.reason(reason)

        def work(transaction: Transaction) -> None:
            row = _book.existing(transaction, name)
            old = row.terms
            terms = _measures.checked_terms(
                measure=old.measure,
                epsilon=epsilon,
                delta=old.delta if delta is None else delta,
                neighboring_relation=old.neighboring_relation,
                orders=old.orders or None,
            )
            terms = dataclasses.replace(terms, orders=old.orders)
            steps = [(terms.epsilon, old.epsilon), (terms.delta, old.delta)]
            if any(new < now if more else new > now for new, now in steps):
                word = "at least" if more else "at most"
                accepted = f"{word} what they are, {old.epsilon!r} and {old.delta!r}"
                raise InvalidParameter(
                    f"epsilon and delta must be {accepted}, got {terms.epsilon!r} and {terms.delta!r}"
                )
            _book.set_budget(transaction, name, terms, reason)

        self._run(work)

    def _set_frozen(self, name: str, frozen: bool, reason: str) -> None:
        name, reason = _names.scope(name, name="name"), _names.reason(reason)
        self._run(lambda transaction: _book.set_frozen(transaction, name, frozen, reason))

    def _meet(self, witness: Head) -> None:
        with self._read() as transaction:
            if transaction.hash_of(witness.sequence) != witness.hash:
                raise LedgerError(
                    f"{self._store.name} does not contain the witness, record {witness.sequence}: an earlier state was "
                    "put back, or it is another ledger"
                )
