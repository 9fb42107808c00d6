"""What a ledger knows at one moment, as its tables hold it: a row a scope, a row a ticket."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget.log.records import Encoded, loaded, plain
from ferrodp.errors import FerroError, LedgerError
from ferrodp.events import PrivacyEvent
from ferrodp.tickets import TicketState

_STATES = {state.value: state for state in TicketState}
Charges: TypeAlias = Mapping[str, Amounts]
"""By scope, what one release costs. Shared by those who have the same: nobody changes them."""


Counts: TypeAlias = tuple[int, ...]
"""How many releases are in which state, in the order of `TicketState`. A lease counts as so many."""
NO_COUNTS: Counts = (0,) * len(TicketState)
_PLACES = {state: place for place, state in enumerate(TicketState)}


class ScopeRow(NamedTuple):
    """A scope. `version` is the number of the record that changed it last."""

    name: str
    terms: Terms
    caps: Amounts
    spent: Amounts
    frozen: bool = False
    version: int = 0
    counts: Counts = NO_COUNTS


class TicketRow(NamedTuple):
    """A reservation: so many releases of an event, in which state, and what each costs where."""

    id: str
    key: str | None
    fingerprint: str
    state: TicketState
    event: PrivacyEvent
    charges: Charges
    times: int
    sequence: int
    scopes: tuple[str, ...]

    @property
    def slot(self) -> tuple[str, str] | None:
        """Where its key leads to it: the text of its scopes, and the key."""
        return slot(self.scopes, self.key)


def charges_to_plain(charges: Charges) -> dict[str, list[str]]:
    """Return charges as JSON data. Numbers are text: readers of JSON in other languages would round them."""
    return {name: amounts_to_plain(amounts) for name, amounts in charges.items()}


def charges_from_plain(data: object) -> Charges:
    """Return the charges that `charges_to_plain` wrote down."""
    if not isinstance(data, dict):
        raise LedgerError("the ledger holds charges that no version of this program wrote")
    return {name: amounts_from_plain(amounts) for name, amounts in data.items()}


@functools.lru_cache(maxsize=1024)
def charges_from_text(text: str) -> Charges:
    """Return the charges of a JSON text."""
    return charges_from_plain(loaded(text))


def charges_text(charges: Charges) -> Encoded:
    """Return the JSON text of charges."""
    return _charges_text(tuple(charges.items()))


@functools.lru_cache(maxsize=1024)
def _charges_text(charges: tuple[tuple[str, Amounts], ...]) -> Encoded:
    return plain(charges_to_plain(dict(charges)))


def amounts_to_plain(amounts: Amounts) -> list[str]:
    """Return amounts as JSON data."""
    return [str(amount) for amount in amounts]


def amounts_text(amounts: Amounts) -> Encoded:
    """Return what `plain` makes of `amounts_to_plain`: digits and signs need no encoder."""
    return Encoded('["' + '","'.join(map(str, amounts)) + '"]' if amounts else "[]")


@functools.lru_cache(maxsize=1024)
def caps_text(caps: Amounts) -> Encoded:
    """Return the JSON text of amounts that seldom change."""
    return amounts_text(caps)


@functools.lru_cache(maxsize=1024)
def names_text(names: tuple[str, ...]) -> Encoded:
    """Return the JSON text of names."""
    return plain(list(names))


@functools.lru_cache(maxsize=1024)
def names_from_text(text: object) -> tuple[str, ...]:
    """Return the names of a JSON text."""
    found = loaded(text)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise LedgerError("the ledger holds names that no version of this program wrote")
    return tuple(found)


def slot(names: tuple[str, ...], key: str | None) -> tuple[str, str] | None:
    """Return where a key is unique: among the reservations for the same scopes."""
    return None if key is None else (str(names_text(names)), key)


@functools.lru_cache(maxsize=1024)
def amounts_from_text(text: str) -> Amounts:
    """Return the amounts of a JSON text."""
    return amounts_from_plain(loaded(text))


def amounts_from_plain(data: object) -> Amounts:
    """Return the amounts that `amounts_to_plain` wrote down."""
    try:
        return tuple([int(amount) for amount in data])  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise LedgerError("the ledger holds amounts that no version of this program wrote") from error


def counted(counts: Counts, state: TicketState, times: int) -> Counts:
    """Return counts with so many releases more in a state, or fewer."""
    place = _PLACES[state]
    return (*counts[:place], counts[place] + times, *counts[place + 1 :])


def counts_text(counts: Counts) -> str:
    """Return the text of counts in a table."""
    return " ".join(map(str, counts))


def counts_from_text(text: object) -> Counts:
    """Return the counts that `counts_text` wrote down."""
    try:
        found = tuple(map(int, str(text).split(" ")))
    except ValueError:
        found = ()
    if len(found) != len(TicketState):
        raise LedgerError("the ledger holds counts that no version of this program wrote")
    return found


def state_of(text: object) -> TicketState:
    """Return the state of a ticket."""
    found = _STATES.get(text) if isinstance(text, str) else None
    if found is None:
        raise LedgerError("the ledger holds a ticket in no known state")
    return found


@functools.lru_cache(maxsize=1024)
def event_text(event: PrivacyEvent) -> Encoded:
    """Return the JSON text of an event."""
    return plain(event.to_dict())


@functools.lru_cache(maxsize=1024)
def event_from_text(text: str) -> PrivacyEvent:
    """Return the event of a JSON text."""
    return event_from_plain(loaded(text))


def event_from_plain(data: Any) -> PrivacyEvent:
    """Return the event of JSON data that a ledger holds."""
    try:
        return PrivacyEvent.from_dict(data)
    except FerroError as error:
        raise LedgerError("the ledger holds an event that this version does not know") from error
