"""Where a release that a ticket pays for draws from."""

from __future__ import annotations

from typing import NoReturn

from ferrodp import _native
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.tickets.statistic import ReleasedStatistic
from ferrodp.tickets.ticket import Ticket


class TicketedSource(NoiseSource):
    """The source of one release that a ticket pays for."""

    __slots__ = ("_permit",)

    def __init__(self, permit: _native.Permit) -> None:
        self._permit = permit

    def _key(self) -> _native.Permit:
        return self._permit

    def __reduce__(self) -> NoReturn:
        raise TypeError("the source of one release cannot be copied or pickled")


def source_for(
    source: object, ticket: object, event: PrivacyEvent, statistic: ReleasedStatistic | None = None
) -> NoiseSource:
    """Return the source that `source=` and `ticket=` arguments name, for a release that costs `event`.

    A statistic says in words what it releases.

    Raises
    ------
    InvalidType, InvalidParameter, TicketError
        If an argument is something else, the ticket is for another release, or the source not private.
    """
    return sources_for(source, ticket, (event,), statistic)[0]


def sources_for(
    source: object, ticket: object, events: tuple[PrivacyEvent, ...], statistic: ReleasedStatistic | None = None
) -> list[NoiseSource]:
    """Return a source for each of several releases that one ticket pays for; see `source_for`."""
    drawn_from = source_or_default(source)
    if ticket is None:
        return [drawn_from] * len(events)
    return [TicketedSource(permit) for permit in checked(drawn_from, ticket).permits(events, statistic=statistic)]


def checked(source: NoiseSource, ticket: object) -> Ticket:
    """Return `ticket` if it is one and can pay for what `source` draws."""
    if not isinstance(ticket, Ticket):
        raise InvalidType(
            f"ticket must be a Ticket or None, got {type(ticket).__name__}; ledger.reserve(scope, event) returns one"
        )
    # mutant: seeded-source-allowed-with-ticket
    if not source.is_private:
        raise InvalidParameter("source must be private where a ticket pays for it; whoever has the seed has the noise")
    return ticket
