"""A block of code whose releases are charged to one budget.

The charges of a block pass a fully adaptive filter: that of a scope of a ledger, or the same sums in memory. So which
releases are made, how many, and what each costs may be chosen in view of earlier results, and all of them together are
(ε, δ)-differentially private. A release is checked when it begins and charged when its first random bit is about to be
drawn; what fails before costs nothing, what fails after was spent.

A block covers what runs in its *context*: the code within it, what that calls, and asyncio's tasks that are started
there. Another thread is outside unless it enters the block, too. A block within a block charges both.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn, Self

from ferrodp._base import _fork, _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.filters.additive import Measure
from ferrodp.budget import _measures, _names, _odometer
from ferrodp.budget.blocks import _accounts, _split
from ferrodp.budget.blocks.report import SpendingReport
from ferrodp.budget.ledger import PrivacyLedger
from ferrodp.errors import BudgetExceeded, FerroError, InvalidParameter, InvalidType, TicketError, UnsupportedEventError
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation, PrivacyEvent
from ferrodp.events.base import check_relation
from ferrodp.tickets import ReleasedStatistic, Ticket
from ferrodp.tickets.payer import PAYER, Payer, Share

__all__ = ["Spending"]


class Spending:
    """A budget for the releases of a block of code; ``ferrodp.budget(…)`` makes one.

    ::

        with ferrodp.budget(epsilon=1, delta=1e-6, ledger=ledger, scope="survey") as spending:
            ...

    All statistics and mechanisms within the block are charged to it, and one that does not fit is refused before
    anything is drawn. Together they are (ε, δ)-differentially private, whichever of them are made in view of earlier
    results. What was released stays charged, also if the block ends with an exception.

    How the budget is shared:

    *by need*
        Each statistic says its `epsilon`, each mechanism has its noise, until nothing fits any more.
    *evenly*
        ``parts=4``: a statistic without `epsilon` gets a quarter.
    *by weights*
        ``weights=[1, 3]``: the first release gets a quarter, the second three.

    Parameters
    ----------
    epsilon, delta : float
        The budget. ε may be left out for a scope that exists. δ is 0 by default; a statistic uses it only where it is
        given a `delta` of its own, and noise without a pure ε needs it.
    ledger : PrivacyLedger, optional
        An open ledger, in which charges outlive the process. By default the budget is in memory and ends with it.
    scope : str, optional
        The scope of the ledger that is charged. One that does not exist is made with this budget; one that exists must
        have it. Within another scope (``survey/ages``) both are charged.
    parts : int, optional
        Split the budget evenly into so many parts, one a release.
    weights : sequence of float, optional
        Split it by these numbers, one a release, in the order of the releases.
    measure : {"pure", "zcdp", "gdp", "rdp"}, optional
        In which measure costs add up. By default "pure" (ε and δ add up), or that of the scope. "zcdp", "gdp" and
        "rdp" need δ > 0, and have room for more releases where these are many; only "pure" and "zcdp" can be split.
    neighboring_relation : NeighboringRelation, optional
        The relation for which the sensitivities of all releases are stated. By default `ADD_OR_REMOVE_ONE`, or that of
        the scope.
    key : str, optional
        Name of this run in the ledger: a run that is repeated under the same key, after a crash say, is refused where
        the first one had begun to release.

    Attributes
    ----------
    next_share : Share
        ε and δ of the next part, for mechanisms that are calibrated to it.

    Raises
    ------
    InvalidParameter, InvalidType
        If the budget is not valid, or not that of the scope; or a ledger is given without a scope.
    UnknownScope
        If `epsilon` is left out, and there is no such scope.

    Notes
    -----
    ===============================  ==============================================================================
    ``release(ticket=…)``            is paid for by that ticket, and not by the block
    ``source=`` of a private source  is charged as without it; a seeded source is refused
    a block within a block           charges both; not within one that is split
    another thread                   is outside: write ``with spending:`` there, too, in as many threads as needed
    a task of asyncio                is inside if it was started inside, and is refused once the block has ended
    a generator                      what runs between its steps is inside, too: do not yield within a block
    a forked child                   is refused; a ledger has to be opened there again
    a release of no noise            costs nothing, such as the groups of public keys
    `NoiseSource`                    draws noise for whatever purpose: nothing is charged
    a `SecureSum`                    is charged when it is decoded: clients draw its noise
    plans, engines, placed rounds    have ledgers of their own: give them one, and run them outside
    ===============================  ==============================================================================

    The filters, and their theorems, are those of `ferrodp.accounting.privacy_filter`. In "pure" a statistic is charged
    the ε and δ that it promises, otherwise the event of its noise. Within a block a float such as 0.1 is taken as the
    largest float that is at most the decimal, so that ten of them fit into 1.

    Examples
    --------
    >>> import ferrodp as fd
    >>> from ferrodp.errors import BudgetExceeded
    >>> ages = [31.0, 47.0, 62.0, 18.0] * 500
    >>> with fd.budget(epsilon=1.0, weights=[1, 3]) as spending:
    ...     count = fd.private_count(ages)
    ...     mean = fd.private_mean(ages, bounds=(0, 120))
    >>> count.epsilon, mean.epsilon
    (0.25, 0.75)
    >>> with spending:
    ...     try:
    ...         fd.private_count(ages)
    ...     except BudgetExceeded as error:
    ...         print(error)
    all 2 parts of the open budget are used; nothing was charged or drawn

    By need, with mechanisms:

    >>> with fd.budget(epsilon=1.0, delta=1e-6, measure="zcdp") as spending:
    ...     noisy = fd.GaussianMechanism(noise_multiplier=10.0, l2_sensitivity=1.0).release(12.5)
    >>> event = fd.events.GaussianEvent(noise_multiplier=10.0)
    >>> round(spending.report().epsilon_spent, 2), spending.remaining_count(event)
    (0.43, 3)
    """

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        ledger: PrivacyLedger | None = None,
        scope: str | None = None,
        parts: int | None = None,
        weights: Sequence[Real] | None = None,
        measure: Measure | None = None,
        neighboring_relation: NeighboringRelation | None = None,
        key: str | None = None,
    ) -> None:
        _validate.ledger_and_scope(ledger, scope)
        relation = None if neighboring_relation is None else check_relation(neighboring_relation)
        terms = None
        if epsilon is not None:
            _validate.positive("epsilon", epsilon)
            terms = _measures.checked_terms(
                measure=measure or "pure",
                epsilon=epsilon,
                delta=0.0 if delta is None else delta,
                neighboring_relation=relation or NeighboringRelation.ADD_OR_REMOVE_ONE,
            )
        elif ledger is None:
            raise InvalidParameter(
                "epsilon must be given for a budget that is not a scope of a ledger, got None; for example epsilon=1.0"
            )
        self._weights = _split.weights_of(parts, weights)
        self._account: _accounts.Account
        if ledger is None or scope is None:
            if key is not None:
                raise InvalidParameter("key must be None for a budget in memory, which no other run can see")
            assert terms is not None
            self._account = _accounts.MemoryAccount(terms)
        else:
            stated = {
                "epsilon": None if terms is None else terms.epsilon,
                "delta": None if terms is None else terms.delta,
                "measure": measure,
                "neighboring_relation": relation,
            }
            self._account = _accounts.opened(ledger, _names.scope(scope), terms, _names.key(key), **stated)
        self._terms = self._account.terms
        if self._weights is not None and self._terms.measure not in ("pure", "zcdp"):
            raise InvalidParameter(
                f'measure must be "pure" or "zcdp" for a budget in parts, got "{self._terms.measure}"; '
                "leave parts and weights out, and give each release an epsilon of its own"
            )
        self._taken = 0
        self._charges: list[PrivacyEvent] = []
        self._lock = threading.Lock()
        self._entries: list[_OpenBlock] = []
        self._process = _fork.generation()

    def __enter__(self) -> Self:
        outer = PAYER.get()
        outer = outer._first_open() if isinstance(outer, _OpenBlock) else None
        each = outer
        while each is not None:
            if each.block is self:
                raise FerroError("this budget is open here already; a block within it is a budget of its own")
            if each.block._weights is not None:
                raise FerroError("a budget that is split into parts has no room for another block; split that one")
            each = each.outer
        entry = _OpenBlock(self, outer)
        self._entries.append(entry)
        PAYER.set(entry)
        return self

    def __exit__(self, *_: object) -> None:
        current = PAYER.get()
        entry = current if isinstance(current, _OpenBlock) else None
        while entry is not None and (entry.block is not self or not entry.is_open):
            entry = entry.outer
        if entry is None and self._entries:  # a generator that is closed where it was not begun
            entry = self._entries[-1]
        if entry is not None:
            # mutant: what-runs-on-after-a-block-is-free
            entry.is_open = False
            if entry in self._entries:
                self._entries.remove(entry)
        if isinstance(current, _OpenBlock):
            PAYER.set(current._first_open())

    @property
    def next_share(self) -> Share:
        """ε and δ of the next part.

        Raises
        ------
        InvalidType
            If the budget is not split.
        BudgetExceeded
            If all parts are used.
        """
        if self._weights is None:
            raise InvalidType(
                "epsilon must be given: the open budget is not split; fd.budget(epsilon=…, parts=3) gives each of "
                "three releases a third"
            )
        return _split.share(self._terms, self._next_weight())

    def remaining_count(self, event: PrivacyEvent) -> int:
        """Return how many more releases of a cost fit, if nothing else is charged.

        Parameters
        ----------
        event : PrivacyEvent
            What a release costs.

        Returns
        -------
        int
            At most the number of parts that are left.

        Raises
        ------
        UnsupportedEventError
            If its cost is not known in the measure of the budget.
        """
        fits = self._account.remaining_count(event)
        return fits if self._weights is None else min(fits, len(self._weights) - self._taken)

    def report(self) -> SpendingReport:
        """Return what was spent by this object so far, within its block or after it.

        Returns
        -------
        SpendingReport
        """
        terms, charges = self._terms, tuple(self._charges)
        spent: _measures.Amounts = (0,) * len(terms.caps())
        for event in charges:
            spent = _measures.added(spent, terms.costs(event))
        epsilon, delta = _odometer.reading(terms, spent)
        parts = None if self._weights is None else len(self._weights)
        return SpendingReport(
            epsilon=float(terms.epsilon),
            delta=float(terms.delta),
            measure=terms.measure,
            neighboring_relation=terms.neighboring_relation,
            scope=self._account.scope,
            charges=charges,
            epsilon_spent=terms.epsilon_of(spent, terms.caps()),
            delta_spent=terms.delta_of(spent),
            epsilon_certified=epsilon,
            delta_certified=delta,
            parts=parts,
            parts_left=None if parts is None else parts - self._taken,
        )

    def __repr__(self) -> str:
        return f"<Spending: {str(self.report()).splitlines()[0]}>"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a budget cannot be copied or pickled: the copy could be spent, too")

    def _next_weight(self) -> Fraction:
        assert self._weights is not None
        if self._taken >= len(self._weights):
            raise BudgetExceeded(
                f"all {len(self._weights)} parts of the open budget are used; nothing was charged or drawn"
            )
        return self._weights[self._taken]

    def _charged(self, event: PrivacyEvent, promised: EpsilonDeltaEvent | None) -> PrivacyEvent:
        """Return what a release is charged as, once it is known to fit."""
        # mutant: statistic-charged-less-than-it-promises
        asked = promised if promised is not None and self._terms.measure == "pure" else event
        try:
            if self._weights is not None:
                asked = _split.charged(self._terms, self._next_weight(), asked)
            self._account.check(asked)
        except UnsupportedEventError as error:
            ways = 'open the budget with measure="rdp", "zcdp" or "gdp"'
            if self._terms.measure == "pure":
                ways += ", or in parts, with a delta"
            else:
                ways = 'open the budget with measure="pure"'
            raise UnsupportedEventError(f"{error}; {ways}") from None
        return asked

    def _spend(self, charge: PrivacyEvent, statistics: tuple[ReleasedStatistic, ...]) -> None:
        with self._lock:
            if self._weights is not None:
                self._next_weight()
            # mutant: releases-share-a-part
            self._taken += 1
        try:
            self._account.spend(charge, statistics)
        except (BudgetExceeded, TicketError):  # for certain nothing was charged
            with self._lock:
                self._taken -= 1
            raise
        except BaseException:
            # mutant: charge-of-unknown-outcome-forgotten
            self._charges.append(charge)
            raise
        self._charges.append(charge)


class _OpenBlock(Payer):
    """One time that a block was entered, in one context."""

    def __init__(self, block: Spending, outer: _OpenBlock | None) -> None:
        self.block, self.outer, self.is_open = block, outer, True

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        return self.block._terms.neighboring_relation

    @property
    def next_share(self) -> Share:
        self._check_open()
        return self.block.next_share

    def ticket(self, event: PrivacyEvent, promised: EpsilonDeltaEvent | None = None) -> Ticket:
        charges = []
        for entry in self._chain():
            relation = entry.block._terms.neighboring_relation
            if relation is not self.neighboring_relation:
                raise InvalidParameter(
                    f"neighboring_relation must be that of the block around this one, {relation.name}, got "
                    f"{self.neighboring_relation.name}"
                )
            charges.append((entry.block, entry.block._charged(event, promised)))
        return Ticket(
            event if promised is None else promised,
            id=f"release {1 + self.block._taken} of a block",
            key=None,
            scopes=(self.block._account.scope or "the open budget",),
            neighboring_relation=self.neighboring_relation,
            book=_Charges(self, charges),
        )

    def _chain(self) -> list[_OpenBlock]:
        """Return the blocks that a release is charged to, the outermost first."""
        found, entry = [], self
        while entry is not None:
            entry._check_open()
            found.append(entry)
            entry = entry.outer  # type: ignore[assignment]  # None ends the loop
        # mutant: block-within-a-block-charges-itself-alone
        return found[::-1]

    def _first_open(self) -> _OpenBlock | None:
        """Return this entry, or the nearest around it, that is open."""
        entry: _OpenBlock | None = self
        while entry is not None and not entry.is_open:
            entry = entry.outer
        return entry

    def _check_open(self) -> None:
        if not self.is_open:
            raise BudgetExceeded(
                "the block of this budget has ended, and this code runs on after it: enter the budget here, too, with "
                "`with spending:`; nothing was charged or drawn"
            )


class _Charges:
    """Charges the blocks of one release when it is armed."""

    def __init__(self, entry: _OpenBlock, charges: list[tuple[Spending, PrivacyEvent]]) -> None:
        self._entry, self._charges = entry, charges

    def arm(self, ticket: Ticket) -> None:
        self._entry._chain()
        for block, charge in self._charges:
            block._spend(charge, ticket.statistics)

    def proceed(self, ticket: Ticket) -> None:
        for block, _ in self._charges:
            block._account.check_running()

    def cancel(self, ticket: Ticket) -> None:
        """Nothing was charged before arming."""

    def finish(self, ticket: Ticket) -> None:
        """Nothing is left to note."""
