"""What a block charges: sums in memory, or a scope of a ledger. Both add up the same integers by the same rules."""

from __future__ import annotations

import itertools
import threading
from typing import Protocol

from ferrodp._base import _fork
from ferrodp.budget import _measures
from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget.ledger import PrivacyLedger
from ferrodp.errors import BudgetExceeded, InvalidParameter, ScopeFrozen, TicketError, UnknownScope
from ferrodp.events import PrivacyEvent
from ferrodp.tickets import ReleasedStatistic

_NOTHING = "; nothing was charged or drawn"


class Account(Protocol):
    """Where the charges of a block go."""

    terms: Terms

    @property
    def scope(self) -> str | None:
        """The scope that is charged, if there is one."""

    def check(self, event: PrivacyEvent) -> None:
        """Raise `BudgetExceeded` if an event does not fit now; charges nothing."""

    def spend(self, event: PrivacyEvent, statistics: tuple[ReleasedStatistic, ...] = ()) -> None:
        """Charge an event, or raise `BudgetExceeded`; all or nothing. What it is in words is for the record."""

    def remaining_count(self, event: PrivacyEvent) -> int:
        """Return how many more times an event fits."""

    def check_running(self) -> None:
        """Raise `BudgetExceeded` if what was paid for must not go on."""


class MemoryAccount:
    """Sums in the memory of one process, safe in any number of threads."""

    scope = None

    def __init__(self, terms: Terms) -> None:
        self.terms, self._caps = terms, terms.caps()
        self._spent: Amounts = (0,) * len(self._caps)
        self._lock = threading.Lock()
        self._process = _fork.generation()

    def check(self, event: PrivacyEvent) -> None:
        self._after(event)

    def spend(self, event: PrivacyEvent, statistics: tuple[ReleasedStatistic, ...] = ()) -> None:
        self._check_process()
        with self._lock:
            self._spent = self._after(event)

    def remaining_count(self, event: PrivacyEvent) -> int:
        self._check_process()
        return self.terms.remaining(self._spent, self._caps, self.terms.costs(event))

    def check_running(self) -> None:
        pass

    def _after(self, event: PrivacyEvent) -> Amounts:
        """Return the sums after a charge, if they keep the promise."""
        self._check_process()
        costs = self.terms.costs(event)
        found = _measures.added(self._spent, costs)
        # mutant: block-charges-beyond-its-budget
        if not self.terms.fits(found, self._caps):
            raise BudgetExceeded(
                _measures.refusal("the open budget", self.terms, self._spent, self._caps, event, costs=costs) + _NOTHING
            )
        return found

    def _check_process(self) -> None:
        # mutant: forked-child-spends-the-budget-of-its-parent
        if self._process != _fork.generation():
            raise TicketError(
                "this budget is in the memory of the parent of this forked process; open one here, or use a ledger"
            )


class LedgerAccount:
    """A scope of a ledger, which outlives the process. With a key each release has its own, numbered in order."""

    def __init__(self, ledger: PrivacyLedger, scope: str, terms: Terms, key: str | None) -> None:
        self._ledger, self.scope, self.terms, self._key = ledger, scope, terms, key
        self._numbers = itertools.count(1)

    def check(self, event: PrivacyEvent) -> None:
        try:
            # mutant: block-checks-no-scope-around-its-own
            self._ledger._check_charge(self.scope, event)
        except ScopeFrozen:
            raise
        except BudgetExceeded as error:
            raise BudgetExceeded(f"{error}{_NOTHING}") from None

    def spend(self, event: PrivacyEvent, statistics: tuple[ReleasedStatistic, ...] = ()) -> None:
        key = None if self._key is None else f"{self._key}/{next(self._numbers)}"
        # mutant: block-charges-its-ledger-after-the-release
        self._ledger.spend(self.scope, event, key=key, statistics=statistics)

    def remaining_count(self, event: PrivacyEvent) -> int:
        return self._ledger.remaining_count(self.scope, event)

    def check_running(self) -> None:
        self._ledger._freezes.of((self.scope,)).check()


def opened(ledger: PrivacyLedger, scope: str, terms: Terms | None, key: str | None, **stated: object) -> LedgerAccount:
    """Return the account of a scope, which is made if the ledger has none of that name.

    Raises
    ------
    UnknownScope
        If there is none, and no budget to make it with.
    InvalidParameter
        If there is one with another budget.
    """
    try:
        held = ledger._scope(scope).terms
    except UnknownScope:
        if terms is None:
            raise
        ledger.create(
            scope,
            epsilon=terms.epsilon,
            delta=terms.delta,
            measure=terms.measure,
            neighboring_relation=terms.neighboring_relation,
        )
        held = ledger._scope(scope).terms
    for name, value in stated.items():
        if value is not None and (is_now := getattr(held, name)) != value:
            shown = is_now if not hasattr(is_now, "name") else is_now.name
            raise InvalidParameter(
                f"{name} must be that of scope {scope!r}, {shown}, or be left out; or name a new scope, such as one "
                f"within it: {scope + '/1'!r}"
            )
    return LedgerAccount(ledger, scope, held, key)
