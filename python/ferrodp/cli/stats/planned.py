"""`ferrodp stats --plan`: what a command would release and cost; nothing is drawn, charged or written, and no row read.

What is printed depends on the command, on the names and types of the columns, and on a ledger. No row is read, and not
how many there are: files of one header have one plan. The errors are those of the very releases, of tables that are
made up: of no rows where the noise does not depend on rows, of so many evenly spread values for means and variances.
These take their noise from a seed that everybody knows, which is no draw: nothing of a result is used but its law.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp import statistics, testing
from ferrodp._base import _validate
from ferrodp.cli._command import Args
from ferrodp.cli._console import Console, Report, counted, rounded_up
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import FLAG, INTEGER, NUMBER, TEXT, many, maybe, one_of, record
from ferrodp.cli.stats import payment, releases
from ferrodp.cli.stats.asked import Asked
from ferrodp.cli.stats.columns import Table
from ferrodp.errors import InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics import Estimate

LEVEL = 0.95
ROWS = (1_000, 100_000)
"""For which numbers of rows the errors of means and variances are shown."""
_BY_ROWS = ("mean", "variance")
_CHOICES = ("median", "quantiles", "min", "max")
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
    "where": many(TEXT),
    "level": NUMBER,
    "statistics": many(
        record(
            {
                "statistic": TEXT,
                "column": maybe(TEXT, "null: of rows"),
                "numbers": maybe(INTEGER, "how many it releases"),
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
    rows: int,
    relation: NeighboringRelation,
) -> Report:
    """Return what a command would do; `parts` is what each statistic may spend, None if no epsilon is given."""
    missing = [each.way for each in asked if each.missing]
    if args.group_by is not None and args.group_by.missing:
        missing.append(args.group_by.way)
    if not asked:
        column = table.names[0]
        missing.append(f"a statistic: --count, or such as --mean {column}:LOWER,UPPER or --histogram {column}=NAME,...")
    if parts is None:
        missing.append("a budget: --epsilon E")
    whole = [] if parts is None else parts
    laws = _laws(args, table, asked, whole, rows, relation)
    return {
        "command": "stats",
        "plan": True,
        "file": args.file,
        "columns": [{"column": name, "type": table.kind(name)} for name in table.names],
        "epsilon": args.epsilon,
        "delta": math.fsum(part.delta for part in whole),
        "neighboring_relation": relation.value,
        "rows_per_unit": rows,
        "unit": args.unit,
        "where": payment.selected(args),
        "level": LEVEL,
        "statistics": [
            _statistic(each, whole[place] if whole else None, laws.get(place), rows, relation)
            for place, each in enumerate(asked)
        ],
        "missing": missing,
        "ledger": _ledger(args, relation, whole, complete=not missing),
    }


def _laws(
    args: Args,
    table: Table,
    asked: list[Asked],
    parts: list[EpsilonDeltaEvent],
    rows: int,
    relation: NeighboringRelation,
) -> dict[int, Estimate[Any]]:
    """Return what each complete statistic is of a table without rows, by its place; refuse what the command would."""
    places = [place for place, each in enumerate(asked) if parts and not each.missing]
    if args.group_by is not None and args.group_by.missing:
        return {}
    some = [asked[place] for place in places]
    release = releases.releaser(
        table,
        some,
        [parts[place] for place in places],
        args.group_by,
        args.unit,
        rows,
        relation,
        # mutant: plan-draws-noise
        testing.seeded(_SEED),
    )
    wanted = releases.columns(some, args.group_by, args.unit)
    # mutant: plan-reads-the-rows
    found = release(table.unread(*wanted), None)
    return dict(zip(places, found, strict=True))


def _statistic(
    asked: Asked,
    part: EpsilonDeltaEvent | None,
    law: Estimate[Any] | None,
    rows: int,
    relation: NeighboringRelation,
) -> Report:
    error = deviation = None
    errors: list[Report] | None = None
    if law is not None and part is not None and asked.kind in _BY_ROWS:
        errors = [{"rows": size, "error": _error(_of_even_values(asked, part, rows, relation, size))} for size in ROWS]
    elif law is not None and asked.kind not in _CHOICES:
        error = _error(law)
        deviation = float(np.max(np.asarray(law.to_dict()["standard_error"], float)))
    return {
        "statistic": asked.kind,
        "column": asked.column,
        "numbers": None if law is None else int(np.atleast_1d(np.asarray(law.value)).size),
        "epsilon": None if part is None else float(part.epsilon),
        "delta": None if part is None else float(part.delta),
        "standard_deviation": deviation,
        "error": error,
        "errors": errors,
        "is_choice": asked.kind in _CHOICES,
        "missing": asked.way or None,
    }


def _error(estimate: Estimate[Any]) -> float:
    """Return half of the widest interval."""
    ends = estimate.interval(LEVEL)
    return float(np.max(np.asarray(ends.upper) - np.asarray(ends.lower))) / 2.0


def _of_even_values(
    asked: Asked, part: EpsilonDeltaEvent, rows: int, relation: NeighboringRelation, size: int
) -> Estimate[Any]:
    """Return a mean or variance of values that are spread over the bounds: of one group as of a whole column.

    The noise of a group is that of a column: k rows of a unit move its count by k and its sum by k times the reach of
    the bounds, wherever they are.
    """
    lower, upper = asked.numbers[:2]
    values = np.linspace(lower, upper, size)
    release = statistics.private_mean if asked.kind == "mean" else statistics.private_variance
    return release(
        values,
        bounds=(lower, upper),
        epsilon=part.epsilon,
        delta=part.delta,
        max_contributions=rows,
        neighboring_relation=relation,
        source=testing.seeded(_SEED),
    )


def _ledger(
    args: Args, relation: NeighboringRelation, parts: list[EpsilonDeltaEvent], *, complete: bool
) -> Report | None:
    if args.ledger is None:
        return None
    with _ledgers.opened(args.ledger, read_only=True) as ledger:
        now = ledger.report(args.scope)
        payment.check_relation(args.scope, now.neighboring_relation, relation)
        fits = ledger.remaining_count(args.scope, payment.event_of(parts)) if complete else None
        around = [now, *(ledger.report(name) for name in ledger.scopes if args.scope.startswith(f"{name}/"))]
        charged = [each.exact_epsilon_charged for each in around]
        left = None
        if fits and all(each is not None for each in charged):
            # mutant: plan-forgets-the-scopes-around
            rest = min(Fraction(each.epsilon) - (each.exact_epsilon_charged or 0) for each in around)
            left = _validate.rounded(rest - sum(Fraction(part.epsilon) for part in parts), "down")
        told = _ledgers.told(now, "scope", "neighboring_relation", "epsilon", "delta", "epsilon_charged")
        more = {"delta_charged": float(now.delta_charged), "remaining_count": fits, "epsilon_left": left}
        return {"where": _ledgers.shown(args.ledger), **told, **more}


def show(report: Report, console: Console) -> None:
    """Print what a command would release, and what is missing."""
    console.line("A plan: nothing is drawn, charged or written, and no row is read.")
    console.line()
    if report["statistics"]:
        rows = [
            [
                each["statistic"],
                each["column"] or "(rows)",
                "" if each["numbers"] is None else str(each["numbers"]),
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
    rows_of = counted(report["rows_per_unit"], "row")
    told["unit"] = "one row; of people with several: --unit COLUMN --rows-per-unit K"
    if report["unit"] is not None:
        told["unit"] = f"one {report['unit']}, of whom {rows_of} at most are counted"
    elif report["rows_per_unit"] > 1:
        told["unit"] = f"whoever has up to {rows_of}"
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
        return "; ".join(f"{each['error']:.2g} of {each['rows']:,}" for each in found["errors"]) + " rows"
    return "a choice: errs in ranks" if found["is_choice"] else ""


def refuse_options(args: Args) -> None:
    """Refuse what a plan does not do."""
    if args.output is not None:
        raise InvalidParameter("--output must be left out with --plan, which writes nothing; a shell has > FILE")
    if args.key is not None:
        raise InvalidParameter("--key must be left out with --plan, which charges nothing")
