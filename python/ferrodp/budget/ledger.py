"""The ledger: what may be spent, what was, and the tickets in between."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Literal, Self

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.accounting.filters.additive import Measure
from ferrodp.budget import _measures, _names, _points, _sight
from ferrodp.budget import _rules as _book
from ferrodp.budget._questions import Questions
from ferrodp.budget.lease import Lease
from ferrodp.budget.log import checkpoints as _checkpoints
from ferrodp.budget.log import exports
from ferrodp.budget.log.records import Head
from ferrodp.budget.stores.base import Transaction
from ferrodp.budget.stores.places import opened_store
from ferrodp.budget.stores.rows import TicketRow, slot
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.tickets import Ticket, TicketState

__all__ = ["PrivacyLedger"]


class PrivacyLedger(Questions):
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
    about the same data do not know of each other. While a file is open its last records are in the one beside it, with
    ``-wal`` after its name: that belongs to it, also after a crash. Other code of the process may read or copy an open
    ledger. What may happen to the files of an open one is in SECURITY.md; a file needs Linux.

    Sums and caps are exact integers, costs rounded up and caps down. A scope lies in the scopes whose names its own
    begins with: what is charged to ``hospital/images`` is charged to ``hospital``, too, where that exists; one that is
    made later begins with what was charged within it.

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

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        create: bool = True,
        verify: Literal["all", "new"] | bool | None = None,
        read_only: bool = False,
        witness: Head | str | None = None,
        timeout: float = 60.0,
        program: str | None = None,
        allow_unsafe_file_system: bool = False,
    ) -> Self:
        """Open a ledger, or begin one.

        Parameters
        ----------
        where : str or PathLike
            A file, for SQLite, or ``postgresql://…`` for a server (needs ``ferrodp[postgres]``; what the server has to
            be like, and what the role needs, is told by `ferrodp.budget.stores.postgres.store`).
        create : bool
            Whether to begin a ledger where there is none. A file that is there but is no ledger is never touched.
        verify : {"all", "new"} or bool, optional
            What to check first. "all" (or true) is the whole log, and all tables against it: some microseconds a
            record. "new" is what came after the last checkpoint, and all scopes and open tickets: records and ended
            tickets before it are not looked at again. False is nothing. Without a word, "new" if there is a witness
            and "all" if not. A ledger that was verified here writes a checkpoint, a record, if it is long.
        read_only : bool
            Whether everything that would write shall be refused, as for a dashboard. Then a replica of a server will
            do, or a role that may only read, or a file that may not be written, while others have it open. Implies
            ``create=False``.
        witness : Head or str, optional
            A `head` that was kept elsewhere: a ledger that does not contain it is refused, as it was put back to an
            earlier state, or is another one. "new" is then what came after the last checkpoint that the witness covers.
            Implies ``create=False``.
        timeout : float
            For how many seconds to wait for other writers, or for a server that went away while the ledger was open.
        program : str, optional
            What this program is called in the records that it writes, beside user, host and process; by default the
            environment variable ``FERRODP_PROGRAM``, or else the name of the script. Empty: records do not say who
            wrote them.
        allow_unsafe_file_system : bool
            Whether a file may lie where locks cannot be trusted: network file systems, FUSE, the overlay of a
            container, systems other than Linux. Not with more than one process.

        Raises
        ------
        LedgerError
            If it cannot be opened, is damaged or was changed, or is older than the witness.
        InvalidParameter
            If `where` is a URL that is not taken. What is wrong with it is not shown: it may hold a password.
        """
        expected = None if witness is None else Head.parse(witness)
        for name, value in (("create", create), ("read_only", read_only)):
            _flag(name, value)
        what = _checked_verify(verify, expected)
        seconds = _validate.positive("timeout", timeout)
        create = create and expected is None and not read_only
        store = opened_store(
            where,
            create=create,
            timeout=seconds,
            read_only=read_only,
            program=program,
            allow_unsafe_file_system=allow_unsafe_file_system,
        )
        ledger = cls(store)
        try:
            if what is not None:
                replay = _checkpoints.verified(store, whole=what == "all", witness=expected)
                if not read_only:
                    _checkpoints.keep(ledger._commits, replay)
            if expected is not None:
                ledger._meet(expected)
        except BaseException:
            store.close(trusted=False)
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
        highest_epsilon: Real | None = None,
        highest_delta: Real | None = None,
    ) -> None:
        """Begin a scope with a budget.

        Best before anything is charged within it. One that is made around scopes that were charged already takes over
        their sums, and its promise speaks of those releases, too: then its budget must not be chosen in view of them.

        Parameters
        ----------
        name : str
            A path such as ``hospital/images``; at most 200 characters, in Unicode's normal form NFKC: letters, marks on
            letters, digits, spaces and ``-_.,:;@+=#&'()[]!%~``.
        epsilon, delta : float
            The promise about everything that will be charged. δ is 0 or more for "pure", else in (0, 1). For "pure" a
            Decimal or Fraction is kept as it is: ``Decimal("0.3")`` has room for three times ``Decimal("0.1")``.
        measure : {"rdp", "zcdp", "gdp", "pure"}
            In which measure costs are added up; see `ferrodp.accounting.privacy_filter`. "rdp" takes sampled Gaussians,
            "gdp" loses nothing for plain ones, "pure" adds up ε, and plans.
        orders : sequence of float, optional
            For "rdp": the orders that are kept. By default many; around scopes that were charged, those they keep.
        neighboring_relation : NeighboringRelation
            For which all sensitivities behind the events have to be stated.
        highest_epsilon, highest_delta : float, optional
            The most that `raise_cap` may ever allow, at least `epsilon` and `delta`: that is what is promised then,
            even if caps are raised in view of results. By default raising is not bounded, and voids the promise.

        Raises
        ------
        InvalidParameter, InvalidType
            If there is such a scope, or the budget is none; or if scopes within it were charged in another measure, or
            more than the budget.
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
        if highest_epsilon is not None or highest_delta is not None:
            most = _measures.checked_terms(
                measure=measure,
                epsilon=epsilon if highest_epsilon is None else highest_epsilon,
                delta=delta if highest_delta is None else highest_delta,
                neighboring_relation=neighboring_relation,
            )
            if most.epsilon < terms.epsilon or most.delta < terms.delta:
                raise InvalidParameter(
                    "highest_epsilon and highest_delta must be at least epsilon and delta, "
                    f"{float(terms.epsilon)!r} and {float(terms.delta)!r}, got {float(most.epsilon)!r} and "
                    f"{float(most.delta)!r}"
                )
            terms = dataclasses.replace(terms, highest=(most.epsilon, most.delta))
        self._run(lambda transaction: _book.create(transaction, name, terms, orders_given=orders is not None))

    def raise_cap(self, name: str, *, reason: str, epsilon: Real, delta: Real | None = None) -> None:
        """Allow more in a scope: a weaker promise about everything, also about what was released before.

        `reason` goes into the log. δ stays as it is unless it is given.

        A filter's budget has to be fixed in advance. If it is raised in view of results, all that is promised is the
        largest budget that could ever have been granted: declare that as `highest_epsilon` when the scope is made, and
        more than that is refused. A scope without it can be raised at will, and its report says from then on that no
        promise was fixed in advance: `ScopeReport.promised_epsilon` is None.

        Raises
        ------
        InvalidParameter
            If that would not be more, or more than the highest that was declared, or there is no such scope.
        """
        self._set_budget(name, epsilon, delta, reason, more=True)

    def lower_cap(self, name: str, *, reason: str, epsilon: Real, delta: Real | None = None) -> None:
        """Allow less in a scope. If more is spent already, nothing fits from now on."""
        self._set_budget(name, epsilon, delta, reason, more=False)

    def freeze(self, name: str, *, reason: str) -> None:
        """Refuse all charges to a scope, and every release that was paid for and has not begun.

        When this returns, no release begins in this process, and none in another one later than 0.05 seconds from now:
        neither with a ticket that is held, nor with the next part of a composed one, the next ticket of a lease, or the
        next answer of a sparse vector run. That covers all that was charged to a scope within this one. A release that
        drew its first random bit before goes on. Nothing is given back; `thaw` lets everything continue.
        """
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
        again_ok: bool = False,
    ) -> Ticket:
        """Charge an event to one or several scopes, all or nothing, and return the ticket for its release.

        Parameters
        ----------
        scopes : str or sequence of str
            Where to charge; scopes around them are charged, too.
        event : PrivacyEvent
            What will be released: the `event` of a mechanism, sampled or composed as it will happen.
        key : str, optional
            The same key gives the same ticket again while it is held (`Ticket.is_new` is False then): so a step that is
            repeated after a crash is charged once. Once the release began the key is used: a step that crashed after
            that may have been published, and to repeat it would release twice for one charge. A key whose ticket was
            cancelled is free again. The same key for other scopes is another key.
        plan_delta : float, optional
            The event is a whole plan, its parameters fixed now: charge it as one (ε, δ) with this δ and the ε that
            `PldAccountant` certifies. For scopes that take stated δ: measure "pure".
        again_ok : bool
            Whether to return the ticket of a used key, too, armed or spent as it is: nothing can be released with it.

        Raises
        ------
        BudgetExceeded
            If it does not fit, or a scope is frozen. Nothing was charged.
        KeyUsed
            If the release of this key began, and `again_ok` is false. Nothing was charged.
        TicketError
            If the key was used for something else.
        UnsupportedEventError
            If the cost is not known in the measure of a scope.
        LedgerError
            If the outcome is unknown: it may have been charged, and counts as spent.
        """
        names, planned = self._checked(scopes, event, plan_delta)
        key, again_ok = _names.key(key), _flag("again_ok", again_ok)
        row, is_new = self._run(
            lambda transaction: _book.reserve(
                transaction, names, event, key=key, plan_delta=planned, again_ok=again_ok
            ),
            key=slot(names, key),
        )
        return self._ticket(names, row, is_new=is_new)

    def spend(
        self, scopes: str | Sequence[str], event: PrivacyEvent, *, key: str | None = None, again_ok: bool = False
    ) -> bool:
        """Charge an event whose release happens elsewhere: reserved, armed and spent in one step. Release after it.

        Parameters
        ----------
        scopes, event
            As for `reserve`.
        key : str, optional
            Names the release, and is charged once. A ticket held under it is used up.
        again_ok : bool
            Whether a key that was spent before is no error. Only for whoever knows that nothing was released with it.

        Returns
        -------
        bool
            Whether this call spent it: then release, once. False if an earlier one did, which `again_ok` allows.

        Raises
        ------
        KeyUsed
            If the key was spent before, or its ticket armed: the release may have been made. Nothing was charged.
        BudgetExceeded, TicketError, UnsupportedEventError, LedgerError
            As for `reserve`.
        """
        names, _ = self._checked(scopes, event, None)
        key, again_ok = _names.key(key), _flag("again_ok", again_ok)
        return self._run(
            lambda transaction: _book.spend(transaction, names, event, key=key, again_ok=again_ok), key=slot(names, key)
        )

    def lease(self, scopes: str | Sequence[str], event: PrivacyEvent, *, count: int, key: str | None = None) -> Lease:
        """Charge `count` releases at once, and return a lease that hands out their tickets without writing to the disk.

        Parameters
        ----------
        scopes, event
            As for `reserve`.
        count : int
            How many releases; from 1.
        key : str, optional
            Names the lease: a second one under the same key is refused, as the first may have been drawn.

        Raises
        ------
        KeyUsed
            If there was a lease under this key. Nothing was charged.
        BudgetExceeded, UnsupportedEventError, LedgerError
            As for `reserve`.
        """
        names, _ = self._checked(scopes, event, None)
        count, key = _validate.count("count", count), _names.key(key)
        row, _ = self._run(
            lambda transaction: _book.reserve(
                transaction, names, event, key=key, count=count, state=TicketState.ARMED, lease=True
            ),
            key=slot(names, key),
        )
        return Lease(
            event,
            id=row.id,
            scopes=names,
            neighboring_relation=self._relation(names),
            count=count,
            end=self._end_lease,
            check=self._sight(names).check,
        )

    def cancel_ticket(self, ticket: str, *, reason: str) -> None:
        """Give back a held ticket that nobody will use any more, such as one of a process that crashed.

        A process that still holds it is refused when it wants to release: arming is a commit, and one of the two wins.
        So nothing can be given back that is drawn for. Armed and spent tickets stay charged, whatever became of them.

        Parameters
        ----------
        ticket : str
            The ticket's `id`; `tickets` lists them.
        reason : str
            Goes into the log.

        Raises
        ------
        TicketError
            If the ticket is not held.
        LedgerError
            If there is no such ticket, or the outcome is unknown.

        Examples
        --------
        >>> import tempfile
        >>> import ferrodp as fd
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = fd.PrivacyLedger.open(f"{folder.name}/budget.db")
        >>> ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
        >>> orphan = ledger.reserve("survey", fd.accounting.LaplaceEvent(noise_multiplier=2.0))
        >>> for each in ledger.tickets(states=["held"]):
        ...     ledger.cancel_ticket(each.id, reason="its process crashed")
        >>> ledger.report("survey").epsilon_charged
        0.0
        >>> ledger.close()
        >>> folder.cleanup()
        """
        identity, reason = _names.ticket(ticket), _names.reason(reason)
        self._run(lambda transaction: _book.cancel(transaction, identity, reason), ticket=identity)

    def backup(self, path: str | os.PathLike[str], *, force: bool = False) -> Head:
        """Write a verified copy of the log, from which `import_ledger` makes the ledger again, and return its head.

        Others may go on charging meanwhile. Keep the head with the copy: `import_ledger` takes it as `witness`.

        Parameters
        ----------
        path : str or PathLike
            The file, which appears whole or not at all. One that ends in ``.gz`` is packed.
        force : bool
            Whether to replace a file that is there.

        Raises
        ------
        LedgerError
            If the ledger is damaged or was changed.
        FileRefused
            If the file cannot be written.
        """
        self.verify()
        with self._beside() as store:
            return exports.write(exports.lines(store), path, force=force)

    # what tickets ask for

    def arm(self, ticket: Ticket) -> None:
        """Record that a ticket's release begins. Called by the ticket."""
        _points.reached("before arming")
        self._run(lambda transaction: _book.arm(transaction, ticket.id), ticket=ticket.id)
        _points.reached("after arming")

    def proceed(self, ticket: Ticket) -> None:
        """Return if another release of an armed ticket may begin; see `freeze`. Called by the ticket."""
        self._sight(ticket.scopes).check()

    def cancel(self, ticket: Ticket) -> None:
        """Give a held ticket back. Called by the ticket."""
        self._run(lambda transaction: _book.cancel(transaction, ticket.id), ticket=ticket.id)

    def finish(self, ticket: Ticket) -> None:
        """Note that a release is done; it is written down with the next change. Called by the ticket."""
        self._finished.append(ticket.id)

    def _end_lease(self, identity: str, unused: int) -> None:
        self._run(lambda transaction: _book.give_back(transaction, identity, unused), ticket=identity)

    def _ticket(self, names: tuple[str, ...], row: TicketRow, *, is_new: bool) -> Ticket:
        return Ticket(
            row.event,
            id=row.id,
            key=row.key,
            scopes=names,
            neighboring_relation=self._relation(names),
            state=row.state,
            is_new=is_new,
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
            terms = _measures.succeeding(old, terms)
            if terms.raised and terms.highest is not None:
                most = f"{float(terms.highest[0])!r} and {float(terms.highest[1])!r}"
                raise InvalidParameter(
                    f"epsilon and delta must be at most {most}, the highest that was declared when the scope was made, "
                    f"got {float(terms.epsilon)!r} and {float(terms.delta)!r}"
                )
            steps = [(terms.epsilon, old.epsilon), (terms.delta, old.delta)]
            if any(new < now if more else new > now for new, now in steps):
                word = "at least" if more else "at most"
                accepted = f"{word} what they are, {float(old.epsilon)!r} and {float(old.delta)!r}"
                raise InvalidParameter(
                    f"epsilon and delta must be {accepted}, got {float(terms.epsilon)!r} and {float(terms.delta)!r}"
                )
            _book.set_budget(transaction, name, terms, reason)

        self._run(work)

    def _set_frozen(self, name: str, frozen: bool, reason: str) -> None:
        name, reason = _names.scope(name, name="name"), _names.reason(reason)
        try:
            self._run(lambda transaction: _book.set_frozen(transaction, name, frozen, reason))
        finally:
            _sight.out_of_date()

    def _meet(self, witness: Head) -> None:
        with self._read() as transaction:
            if transaction.hash_of(witness.sequence) != witness.hash:
                raise LedgerError(
                    f"{self._store.name} does not contain the witness, record {witness.sequence}: an earlier state was "
                    "put back, or it is another ledger"
                )


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidType(f"{name} must be True or False, got {type(value).__name__}")
    return value


def _checked_verify(value: object, witness: Head | None) -> str | None:
    """Return what to verify, or None for nothing."""
    if value is None:
        return "all" if witness is None else "new"
    if isinstance(value, bool):
        return "all" if value else None
    if value not in ("all", "new"):
        raise _validate.out_of_domain("verify", '"all", "new", True, False or None', value)
    return str(value)
