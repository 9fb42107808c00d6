"""The ledger: budgets, charges and tickets that outlive the process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Literal, NoReturn, Self

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.filters.additive import Measure
from ferrodp.budget import _crash_points, _measures, _names
from ferrodp.budget._charging import freezes as _freezes
from ferrodp.budget._charging import rules as _rules
from ferrodp.budget._charging.access import Access
from ferrodp.budget._reader import LedgerReader, flag
from ferrodp.budget.lease import Lease
from ferrodp.budget.log import checkpoints
from ferrodp.budget.records import Head
from ferrodp.budget.stores.opening import opened_store
from ferrodp.budget.stores.rows import slot
from ferrodp.errors import InvalidType, LedgerDamaged
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.events.base import check_relation
from ferrodp.random.noise import refuse_copy
from ferrodp.tickets import ReleasedStatistic, Ticket, TicketState
from ferrodp.tickets.statistic import checked_statistics

__all__ = ["PrivacyLedger"]

_log = logging.getLogger(__name__)


class PrivacyLedger(LedgerReader):
    """Privacy budgets that outlive the process and are shared by any number of processes.

    A change is durable when the call that made it returns. The charges of a scope never exceed its (ε, δ), under full
    adaptivity: each release, and its cost, may be chosen in view of all earlier results. A cost is charged before its
    noise is drawn. A crash can waste what was reserved; it can never give anything back.

    Open a ledger with `PrivacyLedger.open`. It is safe in any number of threads; a forked child has to open its own.

    Raises
    ------
    InvalidType
        If the class itself is called.

    Notes
    -----
    ===========  ====================================================================================================
    held         reserved and charged; can be cancelled, which gives the charge back
    armed        the first random bit is being drawn: the charge is spent, whatever happens
    spent        the release is done
    cancelled    given back unused
    ===========  ====================================================================================================

    Every change is a record in an append-only log, each tied to all before it by SHA-256; `head` identifies the last
    one. A ledger that was put back to an earlier state still looks whole: keep a head elsewhere and pass it as
    `witness`, and such a ledger is refused. Not covered: attackers who can write to the file *and* to the witness, and
    several ledgers about the same data, which do not know of each other. While a file is open, its latest records are
    in the file beside it, with ``-wal`` after its name, which belongs to it, also after a crash. Other code of the
    process may read or copy an open ledger. What may happen to the files of an open ledger is told in
    https://github.com/ferrodp/ferrodp/blob/main/SECURITY.md; a ledger in a file needs Linux.

    Sums and caps are exact integers, costs rounded up and caps rounded down. Scopes are nested by name: what is charged
    to ``hospital/images`` is charged to ``hospital``, too, where that exists; a scope created later begins with what
    was charged within it.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = fd.PrivacyLedger.open(f"{folder.name}/budget.db")
    >>> ledger.create("hospital/images", epsilon=4.0, delta=1e-6)
    >>> event = fd.accounting.GaussianEvent(noise_multiplier=10.0)

    A release takes a ticket (`reserve`); one that happens elsewhere is charged by `spend`; a training draws the tickets
    of all its steps from a `lease`:

    >>> with ledger.reserve("hospital/images", event, key="round-7") as ticket:
    ...     ticket.arm()  # a release(ticket=ticket) does this itself
    >>> ledger.spend("hospital/images", event, key="survey-3")
    True
    >>> [ledger.key_used("hospital/images", event, key=f"round-{n}") for n in (7, 8)]
    [True, False]
    >>> with ledger.lease("hospital/images", event, count=10) as lease:
    ...     lease.draw().arm()
    >>> ledger.report("hospital/images").spent
    3
    >>> ledger.remaining_count("hospital/images", event)
    50
    >>> ledger.would_exceed("hospital/images", event, count=51)
    True

    How much is used, if the charges were planned in advance, and a bound that holds whenever it is read:

    >>> round(ledger.epsilon_charged("hospital/images"), 2)
    0.85
    >>> round(ledger.odometer("hospital/images").epsilon, 2)
    0.99

    Operators stop, change and inspect:

    >>> ledger.freeze("hospital/images", reason="incident 12")
    >>> ledger.thaw("hospital/images", reason="incident closed")
    >>> ledger.lower_cap("hospital/images", epsilon=3.0, reason="study shortened")
    >>> ledger.raise_cap("hospital/images", epsilon=4.0, reason="study as planned")
    >>> orphan = ledger.reserve("hospital/images", event)
    >>> for each in ledger.tickets(states=["held"]):
    ...     ledger.cancel_ticket(each.id, reason="its process crashed")
    >>> [record["kind"] for record in ledger.history(limit=2)]
    ['reserve', 'cancel']

    A copy, and a check of all of it:

    >>> head = ledger.backup(f"{folder.name}/budget.jsonl.gz")
    >>> head == ledger.verify() == ledger.head
    True
    >>> len(list(ledger.export())) == 1 + head.sequence  # a header and a line per record
    True
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(self, _access: Access) -> None:
        if not isinstance(_access, Access):
            raise InvalidType(
                "PrivacyLedger must not be called, got a call of it; "
                "for example PrivacyLedger.open('budget.db') makes a ledger or opens it"
            )
        super().__init__(_access)
        self._freezes = _freezes.FreezeChecks(_access)
        self._book = _Book(_access, self._freezes)

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
        """Open a ledger, or begin a new one.

        Parameters
        ----------
        where : str or PathLike
            A file, for SQLite, or ``postgresql://…`` for a server (needs ``ferrodp[postgres]``; the requirements for
            server and role are in `ferrodp.budget.stores.postgres.store`).
        create : bool
            Whether to begin a ledger where there is none. An existing file that is not a ledger is never changed.
        verify : {"all", "new"} or bool, optional
            What to verify first. "all" (or True) is the whole log, and all tables against it: some microseconds per
            record. "new" is what came after the last checkpoint, and all scopes and open tickets; older records and
            tickets that had ended are skipped. False is nothing. By default "new" with a witness and "all" without. A
            long ledger that was verified here gets a checkpoint, which is a record.
        read_only : bool
            Whether to refuse everything that would write, as for a dashboard. Then a replica of a server is enough, or
            a role that may only read, or a file without write permission while others have it open. Implies
            ``create=False``.
        witness : Head or str, optional
            A `head` that was kept elsewhere. A ledger that does not contain it is refused: it was put back to an
            earlier state, or is another ledger. "new" is then what came after the last checkpoint that the witness
            covers. Implies ``create=False``.
        timeout : float
            Seconds to wait for other writers, or for a server that went away while the ledger was open.
        program : str, optional
            Name of this program in the records that it writes, beside user, host and process; by default the
            environment variable ``FERRODP_PROGRAM``, or else the name of the script. If empty, records do not say who
            wrote them.
        allow_unsafe_file_system : bool
            Whether a file may be on a file system whose locks cannot be trusted: network file systems, FUSE, the
            overlay of a container, systems other than Linux. Only safe with a single process.

        Returns
        -------
        PrivacyLedger

        Raises
        ------
        LedgerError
            If the ledger cannot be opened, is damaged or was changed, or is older than the witness.
        InvalidParameter
            If `where` is a URL that is not accepted. The message does not quote it: it may hold a password.
        """
        expected = None if witness is None else Head.parse(witness)
        for name, value in (("create", create), ("read_only", read_only)):
            flag(name, value)
        what = _checked_verify(verify, expected)
        store = opened_store(
            where,
            create=create and expected is None and not read_only,
            timeout=_validate.positive("timeout", timeout),
            read_only=read_only,
            program=program,
            allow_unsafe_file_system=allow_unsafe_file_system,
        )
        ledger = cls(Access(store))
        try:
            if what is not None:
                replay = checkpoints.verified(store, whole=what == "all", witness=expected)
                if not read_only:
                    checkpoints.keep(ledger._access.commits, replay)
            if expected is not None:
                ledger._meet(expected)
            _log.info("%s is open; verified: %s", store.name, what or "nothing")
        except BaseException:
            store.close(trusted=False)
            raise
        return ledger

    def close(self) -> None:
        """Write down which releases are done, and close the connection. Held tickets stay reserved."""
        self._access.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse_copy("an open ledger", "open it again where it is needed, by its path or address")

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
        """Create a scope with a budget.

        Best done before anything is charged within it. A scope created around scopes that were charged already takes
        over their sums, and its guarantee covers those releases, too: then its budget must not be chosen in view of
        their results.

        Parameters
        ----------
        name : str
            A path such as ``hospital/images``; at most 200 characters, in Unicode's normal form NFKC: letters, marks on
            letters, digits, spaces and ``-_.,:;@+=#&'()[]!%~``.
        epsilon, delta : float
            The guarantee for everything that will be charged. δ ≥ 0 for "pure", else in (0, 1). For "pure" a Decimal or
            Fraction is kept exactly: ``Decimal("0.3")`` has room for three times ``Decimal("0.1")``.
        measure : {"rdp", "zcdp", "gdp", "pure"}
            The measure in which costs are added up; see `ferrodp.accounting.privacy_filter`. "rdp" takes sampled
            Gaussians, "gdp" loses nothing for unsampled ones, "pure" adds up ε, and takes plans.
        orders : sequence of float, optional
            For "rdp": the orders that are kept. By default many; around scopes that were charged, those they keep.
        neighboring_relation : NeighboringRelation
            The relation for which all sensitivities behind the events have to be stated.
        highest_epsilon, highest_delta : float, optional
            The most that `raise_cap` may ever allow, at least `epsilon` and `delta`: the guarantee that holds even if
            budgets are raised in view of results. By default raising is unbounded, and voids the guarantee.

        Raises
        ------
        InvalidParameter, InvalidType
            If the scope exists, or the budget is not valid; or if scopes within it were charged in another measure, or
            more than the budget.
        """
        name = _names.scope(name, name="name")
        neighboring_relation = check_relation(neighboring_relation)
        terms = _measures.checked_terms(
            measure=measure,
            epsilon=epsilon,
            delta=delta,
            neighboring_relation=neighboring_relation,
            orders=None if orders is None else tuple(orders),  # type: ignore[arg-type]  # the filter checks them
            highest_epsilon=highest_epsilon,
            highest_delta=highest_delta,
        )
        self._access.run(lambda transaction: _rules.create(transaction, name, terms, orders_given=orders is not None))

    def raise_cap(self, name: str, *, reason: str, epsilon: Real, delta: Real | None = None) -> None:
        """Raise the budget of a scope: a weaker guarantee for everything, also for what was released before.

        A filter's budget has to be fixed in advance. If it is raised in view of results, the guarantee is the largest
        budget that could ever have been granted: declare that as `highest_epsilon` when the scope is created, and more
        is refused. A scope without it can be raised at will, and its report says from then on that no guarantee was
        fixed in advance: `ScopeReport.promised_epsilon` is None.

        Parameters
        ----------
        name : str
            The scope.
        reason : str
            Goes into the log.
        epsilon, delta : float
            The new budget. δ stays as it is by default.

        Raises
        ------
        InvalidParameter
            If the new budget is not larger, or larger than the highest that was declared, or there is no such scope.
        """
        self._set_budget(name, epsilon, delta, reason, more=True)

    def lower_cap(self, name: str, *, reason: str, epsilon: Real, delta: Real | None = None) -> None:
        """Lower the budget of a scope. If more is spent already, nothing fits from now on.

        Parameters
        ----------
        name : str
            The scope.
        reason : str
            Goes into the log.
        epsilon, delta : float
            The new budget. δ stays as it is by default.

        Raises
        ------
        InvalidParameter
            If the new budget is not smaller, or there is no such scope.
        """
        self._set_budget(name, epsilon, delta, reason, more=False)

    def freeze(self, name: str, *, reason: str) -> None:
        """Refuse all charges to a scope, and every release that was paid for and has not begun.

        When this returns, no release begins in this process, and none in another one later than 0.05 seconds from now:
        neither with a held ticket, nor with the next part of a composed one, the next ticket of a lease, or the next
        answer of a sparse vector run. That covers everything charged to a scope within this one. A release that drew
        its first random bit before goes on. Nothing is given back; `thaw` lets everything continue.

        Parameters
        ----------
        name : str
            The scope.
        reason : str
            Goes into the log.

        Raises
        ------
        InvalidParameter
            If there is no such scope.
        LedgerError
            If the outcome is unknown.
        """
        self._set_frozen(name, True, reason)

    def thaw(self, name: str, *, reason: str) -> None:
        """End what `freeze` began.

        Parameters
        ----------
        name : str
            The scope.
        reason : str
            Goes into the log.

        Raises
        ------
        InvalidParameter
            If there is no such scope.
        """
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
        statistics: ReleasedStatistic | Iterable[ReleasedStatistic] = (),
    ) -> Ticket:
        """Charge an event to one or several scopes, all or nothing, and return the ticket for its release.

        Parameters
        ----------
        scopes : str or sequence of str
            The scopes to charge; scopes around them are charged, too.
        event : PrivacyEvent
            What will be released: the `event` of a mechanism, sampled or composed as it will happen.
        key : str, optional
            The same key returns the same ticket again while it is held (`Ticket.is_new` is False then), so that a step
            repeated after a crash is charged once. Once its release has begun, the key is used: the step may have been
            published, and repeating it would release twice for one charge. The key of a cancelled ticket is free again.
            Keys are distinct for different scopes.
        plan_delta : float, optional
            The event is a whole plan, its parameters fixed now: charge it as one (ε, δ) with this δ and the ε that
            `PldAccountant` certifies. For scopes that take stated δ: measure "pure".
        again_ok : bool
            Whether to return the ticket of a used key, armed or spent as it is: nothing can be released with it.
        statistics : ReleasedStatistic or iterable of them, optional
            What will be released, in words: part of the record of the charge. Without them a statistic writes its own
            words into the record that arms the ticket, so that they are needed where one ticket pays for several.

        Returns
        -------
        Ticket

        Raises
        ------
        BudgetExceeded
            If it does not fit, or a scope is frozen. Nothing was charged.
        KeyUsed
            If the release of this key has begun, and `again_ok` is false. Nothing was charged.
        TicketError
            If the key was used for something else.
        UnsupportedEventError
            If the cost is not known in the measure of a scope.
        LedgerError
            If the outcome is unknown: it may have been charged, and counts as spent.
        """
        words = checked_statistics(statistics)
        names, planned = self._prices.checked(scopes, event, plan_delta)
        key, again_ok = _names.key(key), flag("again_ok", again_ok)
        row, is_new = self._access.run(
            lambda transaction: _rules.reserve(
                transaction, names, event, key=key, plan_delta=planned, again_ok=again_ok, statistics=words
            ),
            key=slot(names, key),
        )
        return Ticket(
            row.event,
            id=row.id,
            key=row.key,
            scopes=names,
            neighboring_relation=self._prices.relation(names),
            state=row.state,
            is_new=is_new,
            book=self._book,
            statistics=words,
        )

    def spend(
        self,
        scopes: str | Sequence[str],
        event: PrivacyEvent,
        *,
        key: str | None = None,
        again_ok: bool = False,
        statistics: ReleasedStatistic | Iterable[ReleasedStatistic] = (),
    ) -> bool:
        """Charge an event whose release happens elsewhere: reserved, armed and spent in one step. Release after it.

        Parameters
        ----------
        scopes, event
            As for `reserve`.
        key : str, optional
            Names the release, which is charged once. A ticket held under it is used up.
        again_ok : bool
            Whether to accept a key that was spent before. Only for callers who know that nothing was released with it.
        statistics : ReleasedStatistic or iterable of them, optional
            What is released, in words: part of the record of the charge.

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
        words = checked_statistics(statistics)
        names, _ = self._prices.checked(scopes, event)
        key, again_ok = _names.key(key), flag("again_ok", again_ok)
        return self._access.run(
            lambda transaction: _rules.spend(transaction, names, event, key=key, again_ok=again_ok, statistics=words),
            key=slot(names, key),
        )

    def lease(
        self,
        scopes: str | Sequence[str],
        event: PrivacyEvent,
        *,
        count: int,
        key: str | None = None,
        statistics: ReleasedStatistic | Iterable[ReleasedStatistic] = (),
    ) -> Lease:
        """Charge `count` releases at once, and return a lease that hands out their tickets without writing to the disk.

        Parameters
        ----------
        scopes, event
            As for `reserve`.
        count : int
            The number of releases, at least 1.
        key : str, optional
            Names the lease: a second one under the same key is refused, as tickets of the first may have been drawn.
        statistics : ReleasedStatistic or iterable of them, optional
            What is released, in words: part of the record of the charge, and the only ones, as tickets are drawn
            without a record.

        Returns
        -------
        Lease

        Raises
        ------
        KeyUsed
            If there was a lease under this key. Nothing was charged.
        BudgetExceeded, UnsupportedEventError, LedgerError
            As for `reserve`.
        """
        words = checked_statistics(statistics)
        names, _ = self._prices.checked(scopes, event)
        count, key = _validate.count("count", count), _names.key(key)
        row, _ = self._access.run(
            lambda transaction: _rules.reserve(
                transaction,
                names,
                event,
                key=key,
                count=count,
                state=TicketState.ARMED,
                lease=True,
                statistics=words,
            ),
            key=slot(names, key),
        )
        return Lease(
            event,
            id=row.id,
            scopes=names,
            neighboring_relation=self._prices.relation(names),
            count=count,
            end=self._end_lease,
            check=self._freezes.of(names).check,
        )

    def cancel_ticket(self, ticket: str, *, reason: str) -> None:
        """Give back a held ticket that nobody will use any more, such as one of a process that crashed.

        A process that still holds it is refused when it wants to release: arming is a commit, and one of the two wins.
        So nothing is given back that noise is drawn for. Armed and spent tickets stay charged, whatever became of them.

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
        """
        identity, reason = _names.ticket(ticket), _names.reason(reason)
        self._access.run(lambda transaction: _rules.cancel(transaction, identity, reason), ticket=identity)

    def _end_lease(self, identity: str, unused: int) -> None:
        self._access.run(lambda transaction: _rules.give_back(transaction, identity, unused), ticket=identity)

    def _set_budget(self, name: str, epsilon: Real, delta: Real | None, reason: str, *, more: bool) -> None:
        name, reason = _names.scope(name, name="name"), _names.reason(reason)
        self._access.run(lambda transaction: _rules.set_budget(transaction, name, epsilon, delta, reason, more=more))

    def _set_frozen(self, name: str, frozen: bool, reason: str) -> None:
        name, reason = _names.scope(name, name="name"), _names.reason(reason)
        try:
            self._access.run(lambda transaction: _rules.set_frozen(transaction, name, frozen, reason))
        finally:
            _freezes.invalidate()

    def _meet(self, witness: Head) -> None:
        with self._access.reading() as transaction:
            if transaction.hash_of(witness.sequence) != witness.hash:
                raise LedgerDamaged(
                    f"{self._access.store.name} does not contain the witness, record {witness.sequence}: an earlier "
                    "state was put back, or it is another ledger"
                )


class _Book:
    """The `Bookkeeper` of a ledger's tickets."""

    def __init__(self, access: Access, freezes: _freezes.FreezeChecks) -> None:
        self._access, self._freezes = access, freezes

    def arm(self, ticket: Ticket) -> None:
        _crash_points.reached("before arming")
        # mutant: arming-not-written-down
        self._access.run(lambda transaction: _rules.arm(transaction, ticket.id, ticket.statistics), ticket=ticket.id)
        _crash_points.reached("after arming")

    def proceed(self, ticket: Ticket) -> None:
        self._freezes.of(ticket.scopes).check()

    def cancel(self, ticket: Ticket) -> None:
        self._access.run(lambda transaction: _rules.cancel(transaction, ticket.id), ticket=ticket.id)

    def finish(self, ticket: Ticket) -> None:
        """Note that a release is done; it is written down with the next change."""
        self._access.finished.append(ticket.id)


def _checked_verify(value: object, witness: Head | None) -> str | None:
    """Return what to verify, or None for nothing."""
    if value is None:
        return "all" if witness is None else "new"
    if isinstance(value, bool):
        return "all" if value else None
    if value not in ("all", "new"):
        raise _validate.out_of_domain("verify", '"all", "new", True, False or None', value)
    return str(value)
