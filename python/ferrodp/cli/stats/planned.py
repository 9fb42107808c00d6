"""`ferrodp stats --plan`: what a command would release and cost; nothing is drawn, charged or written, and no row read.

What is printed depends on the command, on the names and types of the columns, and on a ledger. No row is read, and not
how many there are: files of one header have one plan. The errors are those of the very releases, of tables that are
made up: of no rows where the noise does not depend on rows, of so many evenly spread values for means and variances.
These take their noise from a seed that everybody knows, which is no draw: nothing of a result is used but its law.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp import statistics, testing
from ferrodp._base import _validate
from ferrodp.cli._command import Args
from ferrodp.cli._console import Console, Report, rounded_up
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import FLAG, INTEGER, NUMBER, TEXT, many, maybe, one_of, record
from ferrodp.cli.stats import crossed, found, payment, releases, timed
from ferrodp.cli.stats import report as _report
from ferrodp.cli.stats.asked import Asked, Setting
from ferrodp.cli.stats.columns import Table
from ferrodp.cli.stats.releases import Statistic
from ferrodp.errors import InvalidParameter
from ferrodp.events import EpsilonDeltaEvent
from ferrodp.statistics import Estimate
from ferrodp.statistics.marginals.released import PrivateMarginals

LEVEL = 0.95
ROWS = (1_000, 100_000)
"""For which numbers of rows the errors of means and variances are shown."""
_BY_ROWS = ("mean", "variance", "standard-deviation")
_SEED = bytes(32)

_ERROR = record({"rows": INTEGER, "error": NUMBER})
_LEDGER = record(
    {
        **dict.fromkeys(("where", "scope", "neighboring_relation"), TEXT),
        **dict.fromkeys(("epsilon", "delta", "epsilon_charged", "delta_charged"), NUMBER),
        "remaining_count": maybe(INTEGER, "how many commands like this fit; null: it lacks something"),
        "epsilon_left": maybe(NUMBER, "after it, where costs add up; null: they do not, or it does not fit"),
    }
)
FIELDS = {
    "plan": one_of(True),
    "file": TEXT,
    "columns": many(record({"column": TEXT, "type": TEXT})),
    "epsilon": maybe(NUMBER, "null: it is not given"),
    "delta": NUMBER,
    "neighboring_relation": TEXT,
    "rows_per_unit": INTEGER,
    "unit": maybe(TEXT),
    "groups_per_unit": maybe(INTEGER, "null: a unit may have its rows in as many groups"),
    "where": many(TEXT),
    "found_keys": found.PLANNED,
    "level": NUMBER,
    "statistics": many(
        record(
            {
                "statistic": TEXT,
                "column": maybe(TEXT, "null: of rows"),
                "type": one_of(*timed.TYPES) | {"description": "of the values"},
                "error_unit": maybe(TEXT, "in which errors of dates and times are; null: of numbers"),
                "numbers": maybe(INTEGER, "how many it releases; of each key, where keys are found"),
                "epsilon": maybe(NUMBER),
                "delta": maybe(NUMBER),
                "standard_deviation": maybe(NUMBER, "of the noise, where it does not depend on rows"),
                "error": maybe(NUMBER, "within which a number is with the level"),
                "errors": maybe(many(_ERROR), "the same of means and variances, for so many rows"),
                "is_choice": FLAG | {"description": "whether it errs in ranks, by as much as the values decide"},
                "missing": maybe(TEXT, "what is not given, and how it is"),
            }
        )
    ),
    "missing": many(TEXT),
    "ledger": maybe(_LEDGER),
}


def plan(
    args: Args,
    table: Table,
    asked: list[Asked],
    parts: list[EpsilonDeltaEvent] | None,
    setting: Setting,
) -> Report:
    """Return what a command would do; `parts` is what each statistic may spend, None if no epsilon is given."""
    missing = [_way(each, table) for each in asked if each.missing]
    if args.group_by is not None and args.group_by.missing and setting.finding is None:
        missing.append(args.group_by.way)
    if not asked and setting.finding is None:
        column = table.names[0]
        ways = [shlex.quote(column + more) for more in (":LOWER,UPPER", "=NAME,...")]
        missing.append(f"a statistic: --count, or such as --mean {ways[0]} or --histogram {ways[1]}")
    if not args.delta and any(each.axes for each in asked):
        missing.append(crossed.DELTA)
    if parts is None:
        missing.append("a budget: --epsilon E")
    whole = [] if parts is None else parts
    laws = _laws(table, asked, whole, setting)
    costs = [*whole, *([] if setting.paid is None else [setting.paid])]
    return {
        "command": "stats",
        "plan": True,
        "file": args.file,
        "columns": [{"column": name, "type": table.kind(name)} for name in table.names],
        "epsilon": args.epsilon,
        "delta": float(sum(Fraction(part.delta) for part in costs)),
        "neighboring_relation": setting.relation.value,
        "rows_per_unit": setting.limit.rows,
        "groups_per_unit": setting.limit.groups if setting.limit.is_by_group else None,
        "unit": args.unit,
        "where": payment.selected(args),
        "found_keys": None if setting.finding is None else found.planned(setting, LEVEL, testing.seeded(_SEED)),
        "level": LEVEL,
        "statistics": [
            _statistic(each, whole[place] if whole else None, laws.get(place), setting)
            for place, each in enumerate(asked)
        ],
        "missing": missing,
        "ledger": _ledger(args, setting, whole, complete=not missing),
    }


def _laws(table: Table, asked: list[Asked], parts: list[EpsilonDeltaEvent], setting: Setting) -> dict[int, Statistic]:
    """Return what each complete statistic is of a table without rows, by its place; refuse what the command would."""
    lacks = [each.missing or (each.axes and not parts[place].delta) for place, each in enumerate(asked) if parts]
    places = [place for place, lack in enumerate(lacks) if not lack]
    if setting.by is not None and setting.by.missing and setting.paid is None:
        return {}
    some = [asked[place] for place in places]
    release = releases.releaser(
        table,
        some,
        [parts[place] for place in places],
        setting,
        # mutant: plan-draws-noise
        testing.seeded(_SEED),
    )
    wanted = releases.columns(some, setting)
    # mutant: plan-reads-the-rows
    laws = release(table.unread(*wanted), None, blank=True).estimates
    return {place: law for place, law in zip(places, laws, strict=True) if law is not None}


def _statistic(
    asked: Asked,
    part: EpsilonDeltaEvent | None,
    law: Statistic | None,
    setting: Setting,
) -> Report:
    error = deviation = None
    errors: list[Report] | None = None
    if law is not None and part is not None and asked.kind in _BY_ROWS:
        errors = [{"rows": size, "error": _error(_of_even_values(asked, part, setting, size))} for size in ROWS]
    elif isinstance(law, PrivateMarginals):
        error, deviation = crossed.error(law, LEVEL), crossed.deviation(law)
    elif law is not None and asked.kind not in (*releases.CHOICES, "bounds"):
        error = _error(law)
        deviation = float(np.max(np.asarray(law.to_dict()["standard_error"], float)))
    return {
        "statistic": asked.kind,
        "column": asked.column,
        "type": timed.type_of(asked.kind, asked.times),
        "error_unit": timed.error_unit(asked.kind, asked.times) if errors is not None else None,
        "numbers": None if law is None else _numbers(law, setting),
        "epsilon": None if part is None else float(part.epsilon),
        "delta": None if part is None else float(part.delta),
        "standard_deviation": deviation,
        "error": error,
        "errors": errors,
        "is_choice": asked.kind in releases.CHOICES,
        "missing": asked.way or (crossed.DELTA if asked.axes and part is not None and not part.delta else None),
    }


def _way(asked: Asked, table: Table) -> str:
    """Return how what is missing is given; of a column of dates, as dates."""
    example = table.bounds(asked.column) if asked.column in table.names else None
    if example in (None, timed.NUMBERS) or "LOWER,UPPER" not in asked.way:
        return asked.way
    return f"{asked.way}, such as {shlex.quote(f'{asked.column}:{example}')}"


def _numbers(law: Statistic, setting: Setting) -> int:
    """Return how many numbers are released; of each key, where keys are found: of no rows there are two."""
    if isinstance(law, PrivateMarginals):
        return crossed.numbers(law)
    size = np.atleast_1d(np.asarray(law.value)).size
    return int(size) if setting.finding is None else int(size) // 2


def _error(estimate: Estimate[Any]) -> float:
    """Return half of the widest interval."""
    ends = estimate.interval(LEVEL)
    return float(np.max(np.asarray(ends.upper) - np.asarray(ends.lower))) / 2.0


def _of_even_values(asked: Asked, part: EpsilonDeltaEvent, setting: Setting, size: int) -> Estimate[Any]:
    """Return a mean or variance of values that are spread over the bounds, of a column or of groups of so many rows."""
    lower, upper = asked.numbers[:2]
    values, limit = np.linspace(lower, upper, size), setting.limit
    if setting.by is not None:
        number = len(setting.by.keys if setting.by.calendar is None else setting.by.calendar.starts)
        keys = range(1 if number == 1 else 2)  # the noise of two keys is that of many
        groups = statistics.private_group_by(
            {"key": np.tile(keys, size), "values": np.repeat(values, len(keys))},
            "key",
            keys=list(keys),
            rows_per_unit=limit.rows,
            groups_per_unit=limit.groups if limit.is_by_group else None,
            rows_per_group=limit.rows_per_group if limit.is_by_group else None,
            source=testing.seeded(_SEED),
        )
        by_group: dict[str, Callable[..., Estimate[Any]]] = {
            "mean": groups.mean,
            "variance": groups.variance,
            "standard-deviation": groups.standard_deviation,
        }
        return by_group[asked.kind](
            "values",
            bounds=(lower, upper),
            epsilon=part.epsilon,
            delta=part.delta,
            neighboring_relation=setting.relation,
            source=testing.seeded(_SEED),
        )
    release: dict[str, Callable[..., Estimate[Any]]] = {
        "mean": statistics.private_mean,
        "variance": statistics.private_variance,
        "standard-deviation": statistics.private_standard_deviation,
    }
    return release[asked.kind](
        values,
        bounds=(lower, upper),
        epsilon=part.epsilon,
        delta=part.delta,
        max_contributions=limit.rows,
        neighboring_relation=setting.relation,
        source=testing.seeded(_SEED),
    )


def _ledger(args: Args, setting: Setting, parts: list[EpsilonDeltaEvent], *, complete: bool) -> Report | None:
    if args.ledger is None:
        return None
    with _ledgers.opened(args.ledger, read_only=True) as ledger:
        now = ledger.report(args.scope)
        payment.check_relation(args.scope, now.neighboring_relation, setting.relation)
        paid = [*parts, *([] if setting.paid is None else [setting.paid])]
        fits = ledger.remaining_count(args.scope, payment.event_of(parts, setting)) if complete else None
        around = [now, *(ledger.report(name) for name in ledger.scopes if args.scope.startswith(f"{name}/"))]
        charged = [each.exact_epsilon_charged for each in around]
        left = None
        if fits and all(each is not None for each in charged):
            # mutant: plan-forgets-the-scopes-around
            rest = min(Fraction(each.epsilon) - (each.exact_epsilon_charged or 0) for each in around)
            left = _validate.rounded(rest - sum(Fraction(part.epsilon) for part in paid), "down")
        told = _ledgers.told(now, "scope", "neighboring_relation", "epsilon", "delta", "epsilon_charged")
        more = {"delta_charged": float(now.delta_charged), "remaining_count": fits, "epsilon_left": left}
        return {"where": _ledgers.shown(args.ledger), **told, **more}


def show(report: Report, console: Console) -> None:
    """Print what a command would release, and what is missing."""
    console.line("A plan: nothing is drawn, charged or written, and no row is read.")
    console.line()
    keys = report["found_keys"]
    if report["statistics"] or keys is not None:
        rows = [] if keys is None else [_of_keys(keys)]
        rows += [
            [
                each["statistic"],
                each["column"] or "(rows)",
                "" if each["numbers"] is None else f"{each['numbers']}{' a key' if keys is not None else ''}",
                "" if each["epsilon"] is None else f"{each['epsilon']:.4g}",
                "" if each["standard_deviation"] is None else f"{each['standard_deviation']:.3g}",
                _errors(each),
            ]
            for each in report["statistics"]
        ]
        header = ["statistic", "column", "numbers", "epsilon", "noise", f"within, {report['level']:.0%}"]
        console.table(header, rows, left=2)
        console.line()
    named = ", ".join(f"{each['column']} ({each['type']})" for each in report["columns"])
    delta = f" at delta {report['delta']:g}" if report["delta"] else ""
    told = {"columns": named}
    if report["epsilon"] is not None:
        told["epsilon"] = f"{report['epsilon']:g}{delta}, all numbers together"
    told["unit"] = _report.whose(report)
    if report["unit"] is None and report["rows_per_unit"] == 1:
        told["unit"] += "; of people with several: --unit COLUMN --rows-per-unit K"
    if report["where"]:
        told["of rows"] = " and ".join(report["where"])
    for place, way in enumerate(report["missing"]):
        told["missing" if not place else " " * place] = way
    paid = report["ledger"]
    if paid is not None:
        budget = f"epsilon {rounded_up(paid['epsilon_charged'])} of {paid['epsilon']:g} is charged"
        told["ledger"] = f"{paid['scope']} in {paid['where']}: {budget}"
        if paid["remaining_count"] is not None:
            told["fits"] = _room(paid)
    console.fields(told)


def _of_keys(keys: Report) -> list[str]:
    found = [
        "keys",
        keys["column"],
        "found",
        "" if keys["epsilon"] is None else f"{keys['epsilon']:.4g}",
        "" if keys["standard_deviation"] is None else f"{keys['standard_deviation']:.3g}",
    ]
    if keys["threshold"] is None:
        return [*found, f"found by {keys['method']}"]
    return [*found, f"{keys['error']:.3g}, of {keys['threshold']} or more"]


def _room(paid: Report) -> str:
    count = paid["remaining_count"]
    if not count:
        return "no: the command would be refused"
    left = (
        ""
        if paid["epsilon_left"] is None
        else f"; epsilon {_ledgers.bound(paid['epsilon_left'], up=False)} is left after it"
    )
    more = "as often as you like" if count >= 2**63 - 1 else "once" if count == 1 else f"{count} times"
    return more + left


def _errors(found: Report) -> str:
    """Return the error of a statistic in words."""
    if found["missing"] is not None:
        return "(see missing)"
    if found["error"] is not None:
        return f"{found['error']:.3g}"
    if found["errors"] is not None:
        unit = found["error_unit"]
        return "; ".join(f"{timed.span(each['error'], unit)} of {each['rows']:,}" for each in found["errors"]) + " rows"
    return "a choice: errs in ranks" if found["is_choice"] else ""


def refuse_options(args: Args) -> None:
    """Refuse what a plan does not do."""
    if args.output is not None:
        raise InvalidParameter("--output must be left out with --plan, which writes nothing; a shell has > FILE")
    if args.key is not None:
        raise InvalidParameter("--key must be left out with --plan, which charges nothing")
