"""All statistics of a command as one charge, and what the ledger keeps of them in words."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ferrodp.cli._command import Args
from ferrodp.cli._console import Report
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import NUMBER, TEXT, maybe, record
from ferrodp.cli.stats.asked import Asked
from ferrodp.errors import InvalidParameter, LedgerError
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, NeighboringRelation, PrivacyEvent
from ferrodp.tickets import ReleasedStatistic, Ticket
from ferrodp.tickets.statistic import found_statistic

FIELDS = record(
    {
        **dict.fromkeys(("where", "scope", "ticket", "neighboring_relation"), TEXT),
        "key": maybe(TEXT),
        **dict.fromkeys(("epsilon", "delta", "epsilon_charged", "delta_charged"), NUMBER),
    }
)
"""What is reported of a payment."""


@contextlib.contextmanager
def paid(
    args: Args, asked: list[Asked], parts: list[EpsilonDeltaEvent], relation: NeighboringRelation
) -> Iterator[tuple[Callable[[], Report | None], Ticket | None]]:
    """Charge all statistics at once, and give the charge back if they fail before noise is drawn."""
    if args.ledger is None:
        yield lambda: None, None
        return
    with _ledgers.opened(args.ledger) as ledger:
        check_relation(args.scope, ledger.report(args.scope).neighboring_relation, relation)
        event = event_of(parts)
        words = [words_of(each, args) for each in asked]
        with ledger.reserve(args.scope, event, key=args.key, statistics=words) as ticket:

            def told() -> Report:
                try:
                    ticket.close()
                    now = ledger.report(args.scope)
                except LedgerError as error:
                    raise LedgerError(f"{error}; the release was made and charged") from error
                return {
                    "where": _ledgers.shown(args.ledger),
                    "scope": now.scope,
                    "ticket": ticket.id,
                    "key": ticket.key,
                    **_ledgers.told(
                        now, "neighboring_relation", "epsilon", "delta", "epsilon_charged", "delta_charged"
                    ),
                }

            yield told, ticket


def event_of(parts: list[EpsilonDeltaEvent]) -> PrivacyEvent:
    """Return what all statistics cost together."""
    return parts[0] if len(parts) == 1 else ComposedEvent(events=tuple(parts))


def check_relation(scope: str, of_scope: NeighboringRelation, relation: NeighboringRelation) -> None:
    """Refuse a scope whose budget is about other datasets."""
    if of_scope is not relation:
        raise InvalidParameter(
            f"--neighboring-relation must be that of scope {scope!r}, {of_scope.value}, got {relation.value}"
        )


def selected(args: Args) -> list[str]:
    """Return the conditions of the rows, as they are written."""
    return [each.column + each.operator + each.written for each in args.where or ()]


def words_of(asked: Asked, args: Args) -> ReleasedStatistic:
    """Return what is released, for the record of its charge."""
    # mutant: conditions-not-in-the-record-of-a-charge
    rows_with = f" of rows with {' and '.join(selected(args))}" if args.where else ""
    by = f" by groups of {args.group_by.column}" if args.group_by else ""
    many = f" {', '.join(f'{level:g}' for level in asked.quantiles)}" if asked.kind == "quantiles" else ""
    bounds = asked.numbers[:2] if asked.kind not in ("count", "distinct", "histogram") and asked.numbers else None
    rows = f", of which up to {args.rows_per_unit} count{'s' * (args.rows_per_unit == 1)}"
    unit = f"one unit of {args.unit}, with all of its rows{rows}" if args.unit else None
    unit = unit or ("one row" if args.rows_per_unit == 1 else f"whoever contributes up to {args.rows_per_unit} rows")
    ends = None if bounds is None else "[{:g}, {:g}]".format(*bounds)
    return found_statistic(asked.kind + many + by + rows_with, asked.column, ends, unit)
