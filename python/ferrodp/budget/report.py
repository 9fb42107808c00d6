"""What a ledger tells about its scopes and tickets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ferrodp._base import _html, _validate
from ferrodp.budget import records
from ferrodp.budget.stores.base import Transaction
from ferrodp.budget.stores.rows import FIELDS, ScopeRow, TicketRow, event_from_plain, ticket_row
from ferrodp.errors import InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.tickets import ReleasedStatistic, TicketState
from ferrodp.tickets.statistic import recorded_statistic

__all__ = ["Reading", "ReleaseReport", "ScopeReport", "TicketReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A bound on the privacy loss so far that holds at every moment; see `PrivacyLedger.odometer`.

    Attributes
    ----------
    epsilon, delta : float
        Except with probability `delta`, the privacy loss of what was charged is at most the ε read, at all moments at
        once. Reserved releases count before they are made. Rounded up; ε is infinite where δ was used up by events
        with a δ of their own.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReport:
    """A scope at one moment; see `PrivacyLedger.report`.

    Attributes
    ----------
    scope : str
        Its name.
    measure : {"pure", "zcdp", "gdp", "rdp"}
        The measure in which costs are added up.
    neighboring_relation : NeighboringRelation
        The relation between datasets that the guarantee is about.
    epsilon, delta : float or Fraction
        The budget.
    promised_epsilon, promised_delta : float or Fraction, or None
        The guarantee that holds even if budgets are changed in view of results: the highest budget declared when the
        scope was created, or else the budget it was created with. None if more was allowed later: then no guarantee was
        fixed in advance, and the budget is one only if it was raised for reasons that do not depend on results.
    epsilon_charged, delta_charged : float
        The smallest budget, at the scope's δ, into which all charges fit. A guarantee if the charges were fixed in
        advance; for a moment chosen in view of results, use `PrivacyLedger.odometer`.
    exact_epsilon_charged : Fraction or None
        For measure "pure", the sum of all ε; `epsilon_charged` is the next float.
    held, armed, spent, cancelled : int
        The number of releases in each state; a lease counts as all of its releases. Armed releases are spent, too: they
        have begun, or may begin at any time.
    frozen : bool
        Whether charges are refused.
    """

    scope: str
    measure: str
    neighboring_relation: NeighboringRelation
    epsilon: float | Fraction
    delta: float | Fraction
    promised_epsilon: float | Fraction | None
    promised_delta: float | Fraction | None
    epsilon_charged: float
    delta_charged: float
    exact_epsilon_charged: Fraction | None
    held: int
    armed: int
    spent: int
    cancelled: int
    frozen: bool

    def _repr_html_(self) -> str:
        caption = f"{self.measure}, {self.neighboring_relation.value}"
        return _html.table(caption, COLUMNS, rows_of([self]))

    @property
    def epsilon_remaining(self) -> float:
        """ε minus what was charged: a rough figure, because ε does not add up; see `PrivacyLedger.remaining_count`."""
        return max(0.0, float(self.epsilon) - self.epsilon_charged)


COLUMNS = ("scope", "ε charged", "of ε", "δ", "held", "armed", "spent", "")
"""Of a table of scopes in a notebook."""


def rows_of(reports: Iterable[ScopeReport]) -> list[tuple[Any, ...]]:
    """Return a row of a table for each scope."""
    return [
        (
            each.scope,
            _html.at_most(each.epsilon_charged),
            float(each.epsilon),
            float(each.delta),
            each.held,
            each.armed,
            each.spent,
            "frozen" if each.frozen else "",
        )
        for each in reports
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketReport:
    """A ticket at one moment; see `PrivacyLedger.tickets`.

    Attributes
    ----------
    id : str
        Its name in the ledger.
    key : str or None
        The key it was reserved under; a cancelled ticket has lost its key.
    state : TicketState
        Its state.
    scopes : tuple of str
        The scopes that were named when it was reserved.
    event : PrivacyEvent
        What it pays for.
    count : int
        The number of releases it was charged for: 1, unless it is a lease.
    is_lease : bool
        Whether it is a lease.
    sequence : int
        The number of the record that began it.
    time : str
        The time of that record in UTC, by the clock of the machine that wrote it.
    record : dict
        That record, as it is in the log.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """A charge and what it was for; see `PrivacyLedger.releases`.

    Attributes
    ----------
    statistics : tuple of ReleasedStatistic
        What was released, or will be, in words: statistic, column, bounds and unit. Empty where that was not recorded,
        as by programs that charge noise of their own, and by earlier versions.
    scopes : tuple of str
        The scopes that were named.
    event : PrivacyEvent
        What was paid for, each time.
    count : int
        How often: 1, or the releases of a lease that were not given back.
    state : TicketState
        The state of its ticket. What is held was charged, and nothing is released yet.
    key : str or None
        The key it was reserved under.
    ticket : str
        The ticket's name in the ledger.
    sequence : int
        The number of the record of the charge.
    time : str
        The time of that record in UTC, by the clock of the machine that wrote it.
    who : dict or None
        User, host, program and process that wrote it, as far as they said so.
    """

    statistics: tuple[ReleasedStatistic, ...]
    scopes: tuple[str, ...]
    event: PrivacyEvent
    count: int
    state: TicketState
    key: str | None
    ticket: str
    sequence: int
    time: str
    who: dict[str, Any] | None


_STATE_AFTER = {"arm": "armed", "finish": "spent", "cancel": "cancelled", "return": "spent"}


def releases(found: Iterable[dict[str, Any]]) -> Iterator[ReleaseReport]:
    """Go through the charges among records, the latest first, of records in that order that name their scopes."""
    later: dict[str, dict[str, Any]] = {}
    for body in found:
        kind = body["kind"]
        if kind in _STATE_AFTER:
            about = later.setdefault(body["ticket"], {"state": _STATE_AFTER[kind], "unused": 0})
            about["unused"] += body["count"] if kind == "return" else 0
            # mutant: words-of-a-release-left-out-of-the-report
            about["words"] = body.get("statistics") or about.get("words")
        elif kind in ("reserve", "lease"):
            about = later.pop(body["ticket"], {"state": body["state"], "unused": 0})
            words = body.get("statistics") or about.get("words") or ()
            yield ReleaseReport(
                statistics=tuple(map(recorded_statistic, words)),
                scopes=tuple(body["scopes"]),
                event=event_from_plain(body["event"]),
                count=body["count"] - about["unused"],
                state=TicketState(about["state"]),
                key=body.get("key"),
                ticket=body["ticket"],
                sequence=body["sequence"],
                time=body["time"],
                who=body.get("who"),
            )


def scope_report(row: ScopeRow) -> ScopeReport:
    """Return the report of a scope."""
    terms = row.terms
    promised = terms.promised or (None, None)
    return ScopeReport(
        scope=row.name,
        measure=terms.measure,
        neighboring_relation=terms.neighboring_relation,
        epsilon=terms.epsilon,
        delta=terms.delta,
        promised_epsilon=promised[0],
        promised_delta=promised[1],
        epsilon_charged=terms.epsilon_of(row.spent, row.caps),
        delta_charged=terms.delta_of(row.spent),
        exact_epsilon_charged=terms.exact_epsilon_of(row.spent),
        **{state.value: count for state, count in zip(TicketState, row.counts, strict=True)},
        frozen=row.frozen,
    )


def checked_states(value: object) -> frozenset[TicketState]:
    """Return ticket states given as `TicketState` or by name."""
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


def ticket_reports(
    transaction: Transaction, *, scope: str | None, states: Collection[TicketState], limit: int | None
) -> list[TicketReport]:
    """Return the tickets in these states that were charged to a scope, or to any; the oldest first."""
    wanted, column = {state.value for state in states}, FIELDS["tickets"].index("state")
    found: list[tuple[TicketRow, str]] = []
    for values in transaction.ticket_rows():
        if limit is not None and len(found) >= limit:
            break
        if values[column] not in wanted:  # most are spent: a text is compared sooner than an event is read
            continue
        row = ticket_row(values)
        if scope is None or scope in row.charges:
            found.append((row, transaction.record_of(row.sequence)))
    return [_ticket_report(row, records.parsed(text)) for row, text in found]


def _ticket_report(row: TicketRow, body: dict[str, Any]) -> TicketReport:
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
