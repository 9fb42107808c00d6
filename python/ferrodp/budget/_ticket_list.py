"""The tickets of a ledger, as operators see them: which are held, since when, and for what."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ferrodp import _validate
from ferrodp.budget.log import records as _records
from ferrodp.budget.stores.base import Transaction, ticket_row
from ferrodp.budget.stores.rows import TicketRow
from ferrodp.errors import InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.tickets import TicketState

__all__ = ["TicketReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketReport:
    """A ticket at one moment.

    Attributes
    ----------
    id : str
        Its name in the ledger.
    key : str or None
        The key it was reserved under; a cancelled ticket has lost its key.
    state : TicketState
        Where it stands.
    scopes : tuple of str
        The scopes that were named when it was reserved.
    event : PrivacyEvent
        What was paid for.
    count : int
        How many releases it was charged for: 1, unless it is a lease.
    is_lease : bool
        Whether it is a lease.
    sequence : int
        The number of the record that began it.
    time : str
        When that was, in UTC, by the clock of the machine that wrote it.
    record : dict
        That record as the log has it.
    """

    id: str
    key: str | None
    state: TicketState
    scopes: tuple[str, ...]
    event: PrivacyEvent
    count: int
    is_lease: bool
    sequence: int
    time: str
    record: dict[str, Any]


def checked_states(value: object) -> frozenset[TicketState]:
    """Return the states that were named, as values or by their names."""
    accepted = "one of " + ", ".join(repr(state.value) for state in TicketState)
    if isinstance(value, (str, TicketState)):
        value = (value,)
    if not isinstance(value, Iterable):
        raise InvalidType(f"states must be an iterable of TicketState, got {type(value).__name__}")
    found = set()
    for each in value:
        try:
            found.add(TicketState(each))
        except ValueError:
            raise _validate.out_of_domain("states", accepted, each) from None
    return frozenset(found)


def listed(
    transaction: Transaction, *, scope: str | None, states: Collection[TicketState], limit: int | None
) -> list[TicketReport]:
    """Return the tickets in these states that were charged to a scope, or to any; the oldest first."""
    wanted = {state.value for state in states}
    found: list[tuple[TicketRow, str]] = []
    for values in transaction.ticket_rows():
        if limit is not None and len(found) >= limit:
            break
        if values[3] not in wanted:  # most are spent: a text is compared sooner than an event is read
            continue
        row = ticket_row(values)
        if scope is None or scope in row.charges:
            found.append((row, transaction.record_of(row.sequence)))
    return [_report(row, record) for row, record in found]


def _report(row: TicketRow, text: str) -> TicketReport:
    body = _records.parsed(text)
    return TicketReport(
        id=row.id,
        key=row.key,
        state=row.state,
        scopes=tuple(body["scopes"]),
        event=row.event,
        count=row.times,
        is_lease=body["kind"] == "lease",
        sequence=row.sequence,
        time=body["time"],
        record=body,
    )
