"""The rows of a ledger's tables, and what they mean: one row per scope, one per ticket."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ferrodp.budget._measures import Amounts, Terms
from ferrodp.budget.records import Encoded, loaded, plain
from ferrodp.errors import FerroError, LedgerDamaged
from ferrodp.events import PrivacyEvent
from ferrodp.tickets import TicketState

FIELDS = {
    "log": ("sequence", "body", "hash"),
    "scopes": ("name", "terms", "caps", "spent", "frozen", "version", "counts"),
    "tickets": ("id", "key", "fingerprint", "state", "event", "charges", "count", "scopes", "sequence"),
    "states": ("sequence", "state"),
}
"""The columns of each table, in the order in which rows are read and written."""
CHARGED = "spent", "version", "counts"
"""The columns of a scope that a charge changes; the others hold its promise."""
MOVED = "key", "state", "count"
"""The columns of a ticket that ever change."""
_STATES = {state.value: state for state in TicketState}
_MAX_KNOWN = 256
Charges: TypeAlias = Mapping[str, Amounts]
"""By scope, what one release costs. Shared by those who have the same: nobody changes them."""
Row: TypeAlias = Sequence[Any]
Slot: TypeAlias = tuple[str, str]
"""Where a key is unique: the text of the scopes that were named with it, and the key."""
Counts: TypeAlias = tuple[int, ...]
"""How many releases are in which state, in the order of `TicketState`. A lease counts as so many."""
NO_COUNTS: Counts = (0,) * len(TicketState)
_PLACES = {state.value: place for place, state in enumerate(TicketState)}


class ScopeRow(NamedTuple):
    """A scope, in the order of its table. `version` is the number of the record that changed it last."""

    name: str
    terms: Terms
    caps: Amounts
    spent: Amounts
    frozen: bool = False
    version: int = 0
    counts: Counts = NO_COUNTS

    def at(self, version: int, counts: Counts) -> ScopeRow:
        """Return what `_replace` does, in half the time."""
        return ScopeRow(self.name, self.terms, self.caps, self.spent, self.frozen, version, counts)


class TicketRow(NamedTuple):
    """A reservation, in the order of its table: `times` releases of an event, each charged with `charges`."""

    id: str
    key: str | None
    fingerprint: str
    state: TicketState
    event: PrivacyEvent
    charges: Charges
    times: int
    scopes: tuple[str, ...]
    sequence: int

    def moved(self, state: TicketState) -> TicketRow:
        """Return what `_replace` does, in a third of the time."""
        return TicketRow(
            self.id,
            self.key,
            self.fingerprint,
            state,
            self.event,
            self.charges,
            self.times,
            self.scopes,
            self.sequence,
        )

    @property
    def slot(self) -> Slot | None:
        """Where its key leads to it: the text of its scopes, and the key."""
        return slot(self.scopes, self.key)


@functools.lru_cache(maxsize=1024)
def charges_from_text(text: str) -> Charges:
    """Return the charges of a JSON text."""
    data = loaded(text)
    if not isinstance(data, dict):
        raise LedgerDamaged("the ledger holds charges that no version of this program wrote")
    return {name: amounts_from_plain(amounts) for name, amounts in data.items()}


def charges_text(charges: Charges) -> Encoded:
    """Return the JSON text of charges."""
    global _last_charges
    if len(charges) != 1:
        return _charges_text(tuple(charges.items()))
    last = _last_charges
    for name, amounts in charges.items():
        if last[1] is not amounts or last[0] != name:
            last = _last_charges = name, amounts, _charges_text(((name, amounts),))
    return last[2]


_last_charges: tuple[str, Amounts, Encoded] = "", (), plain({})


@functools.lru_cache(maxsize=1024)
def _charges_text(charges: tuple[tuple[str, Amounts], ...]) -> Encoded:
    return plain({name: list(map(str, amounts)) for name, amounts in charges})


def amounts_text(amounts: Amounts) -> Encoded:
    """Return the JSON text of amounts, each a text: readers in other languages would round large numbers."""
    return Encoded(_texts(amounts))


def _texts(amounts: Amounts) -> str:
    return '["' + '","'.join(map(str, amounts)) + '"]' if amounts else "[]"


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
        raise LedgerDamaged("the ledger holds names that no version of this program wrote")
    return tuple(found)


def slot(names: tuple[str, ...], key: str | None) -> Slot | None:
    """Return where a key is unique: among the reservations for the same scopes."""
    # mutant: key-one-for-whole-ledger
    return None if key is None else (str(names_text(names)), key)


@functools.lru_cache(maxsize=1024)
def amounts_from_text(text: str) -> Amounts:
    """Return the amounts of a JSON text."""
    return amounts_from_plain(loaded(text))


def amounts_from_plain(data: object) -> Amounts:
    """Return the amounts of JSON data."""
    try:
        return tuple([int(amount) for amount in data])  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise LedgerDamaged("the ledger holds amounts that no version of this program wrote") from error


def counted(counts: Counts, state: TicketState, times: int) -> Counts:
    """Return counts with so many releases more in a state, or fewer."""
    found = list(counts)
    found[_PLACES[state._value_]] += times
    return tuple(found)


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
        raise LedgerDamaged("the ledger holds counts that no version of this program wrote")
    return found


def state_of(text: object) -> TicketState:
    """Return the state of a ticket."""
    found = _STATES.get(text) if isinstance(text, str) else None
    if found is None:
        raise LedgerDamaged("the ledger holds a ticket in no known state")
    return found


def event_text(event: PrivacyEvent) -> Encoded:
    """Return the JSON text of an event."""
    global _last_event
    last = _last_event
    if last[0] is not event:
        last = _last_event = event, _event_text(event)
    return last[1]


@functools.lru_cache(maxsize=1024)
def _event_text(event: PrivacyEvent) -> Encoded:
    return plain(event.to_dict())


_last_event: tuple[PrivacyEvent | None, Encoded] = None, plain({})


@functools.lru_cache(maxsize=1024)
def event_from_text(text: str) -> PrivacyEvent:
    """Return the event of a JSON text."""
    return event_from_plain(loaded(text))


def event_from_plain(data: Any) -> PrivacyEvent:
    """Return the event of JSON data that a ledger holds."""
    try:
        return PrivacyEvent.from_dict(data)
    except FerroError as error:
        raise LedgerDamaged("the ledger holds an event that this version does not know") from error


def in_parts(read: Callable[[Any], Sequence[Row]], size: int, *, after: Any = None) -> Iterator[Row]:
    """Go through rows of which `read` returns the next `size`, given the first column of the row before them."""
    while True:
        found = read(after)
        yield from found
        if len(found) < size:
            return
        after = found[-1][0]


def ticket_name(sequence: int, secret: str) -> str:
    """Return the name of the ticket that a record begins: it leads back to the record."""
    return f"{sequence:012x}{secret}"


def ticket_record(identity: str) -> int:
    """Return the number of the record that began a ticket of this name, or 0; see `ticket_name`."""
    try:
        return int(identity[:12], 16)
    except ValueError:
        return 0


def scope_row(row: Row) -> ScopeRow:
    """Return a row of the table as what it means."""
    name, terms, caps, spent, frozen, version, counts = values = tuple(row)
    known = _scopes_known.get(name)
    # mutant: scope-that-changed-taken-for-one
    if known is not None and known[0] == values:
        return known[1]
    amounts = amounts_from_text(caps), amounts_from_plain(loaded(spent))
    found = ScopeRow(name, Terms.from_text(terms), *amounts, bool(frozen), version, counts_from_text(counts))
    remember(values, found)
    return found


_scopes_known: dict[str, tuple[tuple[Any, ...], ScopeRow]] = {}
"""What a row meant, by its scope's name. Asked only about a row that is the same in all fields, and what these mean
does not depend on whose they are: so it is right for any ledger, and after any other process's changes."""


def remember(values: tuple[Any, ...], row: ScopeRow) -> None:
    """Keep what the row of a scope means, for the next time that it is read."""
    if len(_scopes_known) >= _MAX_KNOWN:
        _scopes_known.clear()
    _scopes_known[row.name] = values, row


def ticket_row(row: Row) -> TicketRow:
    """Return a row of the table as what it means."""
    identity, key, fingerprint, state, event, charges, times, scopes, sequence = row
    what = state_of(state), event_from_text(event), charges_from_text(charges)
    return TicketRow(identity, key, fingerprint, *what, times, names_from_text(scopes), sequence)


def scope_values(row: ScopeRow) -> tuple[Any, ...]:
    """Return a scope as a row of the table."""
    texts = str(row.terms.text), str(caps_text(row.caps)), _texts(row.spent)
    return (row.name, *texts, int(row.frozen), row.version, counts_text(row.counts))


def charged_values(old: ScopeRow, row: ScopeRow) -> tuple[Any, ...]:
    """Return what `scope_values` does, of a scope of which only what a charge changes is not as it was."""
    known = _scopes_known.get(row.name)
    # mutant: texts-of-another-row
    if known is None or known[1] is not old:
        return scope_values(row)
    name, terms, caps, _, frozen, _, _ = known[0]
    return (name, terms, caps, _texts(row.spent), frozen, row.version, counts_text(row.counts))


def ticket_values(row: TicketRow) -> tuple[Any, ...]:
    """Return a ticket as a row of the table."""
    texts = str(event_text(row.event)), str(charges_text(row.charges))
    names = str(names_text(row.scopes))
    return (row.id, row.key, row.fingerprint, row.state._value_, *texts, row.times, names, row.sequence)
