"""Rounds counted in memory, for an engine without a ledger."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from ferrodp._base import _fork
from ferrodp.errors import BudgetExceeded, TicketError
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.tickets import Ticket

_SCOPES = ("rounds of this engine",)


class RoundCounter:
    """Issue tickets for a limited number of rounds, to any number of threads of one process.

    The limit is computed when it is first needed: for some methods that takes seconds.
    """

    def __init__(self, allowed: Callable[[], int], target: str) -> None:
        self._count, self._target = allowed, target
        self._taken = self._spent = 0
        self._lock = threading.Lock()
        self._process = _fork.generation()

    @functools.cached_property
    def _allowed(self) -> int:
        return self._count()

    @property
    def spent(self) -> int:
        """Rounds for which noise was drawn, or was about to be."""
        return self._spent  # without the lock, which a thread that is not in a forked child may hold there for ever

    @property
    def remaining(self) -> int:
        """Rounds that can still be begun."""
        self._check_process()
        allowed = self._allowed
        with self._lock:
            return allowed - self._taken

    def reserve(self, event: PrivacyEvent, relation: NeighboringRelation) -> Ticket:
        """Return the right to one more round.

        Raises
        ------
        BudgetExceeded
            If there is none.
        """
        self._check_process()
        allowed = self._allowed
        # mutant: threads-count-rounds-without-lock
        with self._lock:
            # mutant: one-round-too-many-allowed
            if self._taken >= allowed:
                raise BudgetExceeded(
                    f"one more round would exceed {self._target}: that allows {allowed} rounds, and {self._taken} were "
                    "run or begun"
                )
            self._taken += 1
            number = self._taken
        return Ticket(event, id=f"round {number}", key=None, scopes=_SCOPES, neighboring_relation=relation, book=self)

    def arm(self, ticket: Ticket) -> None:
        """Count a round as spent: its first random bit comes next."""
        with self._lock:
            # mutant: round-that-drew-not-counted
            self._spent += 1

    def proceed(self, ticket: Ticket) -> None:
        """Return: nobody freezes a counter."""

    def cancel(self, ticket: Ticket) -> None:
        """Take a round back for which nothing was drawn."""
        with self._lock:
            # mutant: round-that-failed-not-given-back
            self._taken -= 1

    def finish(self, ticket: Ticket) -> None:
        """Note that a round is done."""

    def _check_process(self) -> None:
        # mutant: forked-child-counts
        if self._process != _fork.generation():
            raise TicketError(
                "this engine counts rounds in the memory of the parent of this forked process; use a PrivacyLedger"
            )
