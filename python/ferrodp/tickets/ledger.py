"""What issues tickets: the interface of a ledger that engines and plans charge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ferrodp._base._validate import Real
from ferrodp.events import PrivacyEvent
from ferrodp.tickets.statistic import ReleasedStatistic
from ferrodp.tickets.ticket import Ticket

__all__ = ["TicketLedger"]


class TicketLedger(Protocol):
    """What an engine or a run of a plan requires of a ledger; implemented by `ferrodp.budget.PrivacyLedger`."""

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
        """Record the cost of an event and what it is for, durably, and return the right to it, or `BudgetExceeded`."""

    def remaining_count(self, scopes: str | Sequence[str], event: PrivacyEvent) -> int:
        """Return how often an event still fits."""

    def key_used(self, scopes: str | Sequence[str], event: PrivacyEvent, *, key: str) -> bool:
        """Return whether the release of a key has begun."""
