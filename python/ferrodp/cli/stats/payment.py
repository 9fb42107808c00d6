"""All statistics of a command as one charge, and what the ledger keeps of them in words."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ferrodp.cli._command import Args
from ferrodp.cli._console import Report
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import NUMBER, TEXT, maybe, record
from ferrodp.cli.stats import timed
from ferrodp.cli.stats.asked import Asked, Setting
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
    args: Args, asked: list[Asked], parts: list[EpsilonDeltaEvent], setting: Setting
) -> Iterator[tuple[Callable[[], Report | None], Ticket | None]]:
    """Charge all statistics at once, and give the charge back if they fail before noise is drawn."""
    if args.ledger is None:
        yield lambda: None, None
        return
    with _ledgers.opened(args.ledger) as ledger:
        check_relation(args.scope, ledger.report(args.scope).neighboring_relation, setting.relation)
        event = event_of(parts, setting)
        words = [words_of(each, args, setting) for each in asked]
        if setting.finding is not None:
            words.insert(0, words_of(None, args, setting))
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


def event_of(parts: list[EpsilonDeltaEvent], setting: Setting) -> PrivacyEvent:
    """Return what all statistics cost together, and finding the keys of their groups."""
    # mutant: keys-found-for-nothing
    paid = [*([] if setting.paid is None else [setting.paid]), *parts]
    return paid[0] if len(paid) == 1 else ComposedEvent(events=tuple(paid))


def check_relation(scope: str, of_scope: NeighboringRelation, relation: NeighboringRelation) -> None:
    """Refuse a scope whose budget is about other datasets."""
    if of_scope is not relation:
        raise InvalidParameter(
            f"--neighboring-relation must be that of scope {scope!r}, {of_scope.value}, got {relation.value}"
        )


def selected(args: Args) -> list[str]:
    """Return the conditions of the rows, as they are written."""
    return [each.column + each.operator + each.written for each in args.where or ()]


def words_of(asked: Asked | None, args: Args, setting: Setting) -> ReleasedStatistic:
    """Return what is released, for the record of its charge; of the keys that are found without a statistic."""
    # mutant: conditions-not-in-the-record-of-a-charge
    rows_with = f" of rows with {' and '.join(selected(args))}" if args.where else ""
    unit = _unit(setting)
    if asked is None:
        return found_statistic("keys of groups" + rows_with, setting.by.column if setting.by else None, None, unit)
    by = f" by groups of {setting.by.column}" if setting.by is not None else ""
    many = f" {', '.join(f'{level:g}' for level in asked.quantiles)}" if asked.kind == "quantiles" else ""
    ends = None
    if asked.numbers and asked.kind not in ("count", "distinct", "histogram"):
        lower, upper = asked.numbers[:2]
        # mutant: bounds-of-dates-recorded-as-numbers
        ends = timed.clock(asked.times).between(lower, upper) if asked.times else f"[{lower:g}, {upper:g}]"
    return found_statistic(asked.kind + many + by + rows_with, asked.column, ends, unit)


def _unit(setting: Setting) -> str:
    rows = setting.limit.rows
    groups = f" in up to {setting.limit.groups} groups" if setting.limit.is_by_group else ""
    if setting.unit is not None:
        some = f"up to {rows}{groups} count{'s' * (rows == 1)}"
        return f"one unit of {setting.unit}, with all of its rows, of which {some}"
    return "one row" if rows == 1 else f"whoever contributes up to {rows} rows{groups}"
