"""Who pays for releases that come without a ticket: the budget that is open where they are made, if there is one.

`PAYER` is a context variable: a block that sets it covers the code that runs within it, tasks started there included,
and no other thread. Where it is None, which is nearly always, a release costs one look at it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple, Protocol

from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.tickets.source import TicketedSource
from ferrodp.tickets.ticket import Ticket


class Share(NamedTuple):
    """What a release may spend."""

    epsilon: float
    delta: float


class Payer(Protocol):
    """An open budget."""

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation that costs are stated for."""

    @property
    def next_share(self) -> Share:
        """What the next release gets that does not say what it needs; `InvalidType` if it has to say so."""

    def ticket(self, event: PrivacyEvent, promised: EpsilonDeltaEvent | None = None) -> Ticket:
        """Return a ticket that charges a release when it is armed.

        A statistic says what it promises, too, which is charged where ε and δ add up by themselves.

        Raises
        ------
        BudgetExceeded
            If it does not fit now, or the block has ended. Nothing was charged.
        UnsupportedEventError
            If its cost is not known in the measure of the budget.
        """


PAYER: ContextVar[Payer | None] = ContextVar("ferrodp.payer", default=None)


def payer_of(source: NoiseSource) -> Payer | None:
    """Return who pays for what a source draws; None for a source that a ticket pays for already."""
    # mutant: parts-of-a-statistic-charged-again
    return None if isinstance(source, TicketedSource) else PAYER.get()
