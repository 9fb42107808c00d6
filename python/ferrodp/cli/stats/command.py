"""`ferrodp stats`: private statistics of a table in a file, in one charge."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp import statistics
from ferrodp._base import _validate
from ferrodp.cli._command import Args, command, option, relation_option
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.cli.releasing import payment as _payment
from ferrodp.cli.stats import asked as _asked
from ferrodp.cli.stats import tables as _tables
from ferrodp.cli.stats.asked import Asked, Keys
from ferrodp.cli.stats.columns import How, Read, Table
from ferrodp.errors import InvalidParameter, LedgerError
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics import Estimate
from ferrodp.tickets import ReleasedStatistic, Ticket
from ferrodp.tickets.statistic import found_statistic

_LEVEL = 0.95
_STEPS = 100
"""Of the progress of reading."""
_BY_GROUP = ("count", "sum", "mean", "variance", "median", "quantiles", "histogram")
_NOISED = ("count", "distinct", "sum", "mean", "variance", "histogram")
"""What takes a delta; the others are choices."""

_LEDGER = record(
    {
        **dict.fromkeys(("where", "scope", "ticket", "neighboring_relation"), TEXT),
        "key": maybe(TEXT),
        **dict.fromkeys(("epsilon", "delta", "epsilon_charged", "delta_charged"), NUMBER),
    }
)
_FIELDS = {
    "file": TEXT,
    "epsilon": NUMBER,
    "delta": NUMBER,
    "neighboring_relation": TEXT,
    "rows_per_unit": INTEGER,
    "unit": maybe(TEXT, "the column that says whose a row is"),
    "where": many(TEXT),
    "level": NUMBER,
    "statistics": many(
        record(
            {
                "statistic": TEXT,
                "column": maybe(TEXT, "null: of rows"),
                "values": many(NUMBER),
                "labels": maybe(many(TEXT), "what each value is about"),
                "edges": maybe(many(NUMBER), "of bins"),
                "bounds": maybe(many(NUMBER), "of a mean"),
                "lower": maybe(many(NUMBER), "of intervals with the level; null: a choice, which has none"),
                "upper": maybe(many(NUMBER)),
                "epsilon": NUMBER,
                "delta": NUMBER,
            }
        )
    ),
    "ledger": maybe(_LEDGER),
}


def _show(report: Report, console: Console) -> None:
    """Print a table of the released numbers, and what they cost."""
    rows = []
    for found in report["statistics"]:
        for place in range(len(found["values"])):
            shown, interval = _printed(found, place)
            spans = found["lower"] is not None and _spans(found, place)
            interval += " (all of the bounds: few or no values are seen)" if spans else ""
            label = "" if found["labels"] is None else found["labels"][place]
            rows.append([found["statistic"], found["column"] or "(rows)", label, shown, interval])
    console.table(["statistic", "column", "of", "value", f"{_LEVEL:.0%} interval"], rows, left=3)
    console.line()
    delta = f" at delta {report['delta']:g}" if report["delta"] else ""
    rows_of = counted(report["rows_per_unit"], "row")
    whose = "one row" if report["rows_per_unit"] == 1 else f"whoever has up to {rows_of}"
    if report["unit"] is not None:
        whose = f"one {report['unit']}, of whom {rows_of} at most are counted"
    told = {"epsilon": f"{report['epsilon']:g}{delta}, all numbers together", "unit": whose}
    if report["where"]:
        told["of rows"] = " and ".join(report["where"])
    if report["ledger"] is not None:
        paid = report["ledger"]
        told["charged"] = f"to {paid['scope']} in {paid['where']}" + (f", key {paid['key']}" if paid["key"] else "")
        told["budget"] = f"epsilon {paid['epsilon_charged']:.6g} of {paid['epsilon']:g} is charged"
    console.fields(told)


def _spans(found: Report, place: int) -> bool:
    """Whether an interval ends where the bounds do, so that a mean says nothing: the column may hold no numbers."""
    bounds = found["bounds"]
    return bounds is not None and [found["lower"][place], found["upper"][place]] == bounds


def _printed(found: Report, place: int) -> tuple[str, str]:
    """Return a number and its interval in words: counts in full, others to two digits of the noise."""
    value = found["values"][place]
    if found["lower"] is None:
        return f"{value:.10g}", ""
    lower, upper = found["lower"][place], found["upper"][place]
    half = 0.5 * (upper - lower)
    places = (
        0 if found["statistic"] in ("count", "distinct", "histogram") or not half else 1 - math.floor(math.log10(half))
    )
    value, lower, upper = (f"{each:.{min(max(places, 0), 12)}f}" for each in (value, lower, upper))
    return value, f"{lower} to {upper}"


def _bounded(name: str, help: str) -> Any:
    kind = name.removeprefix("--")
    return option(
        name, action="append", dest="asked", type=_asked.bounded(kind), metavar="COLUMN:LOWER,UPPER", help=help
    )


@command(
    option(
        "file",
        metavar="FILE",
        help="a table: .csv or .tsv with names in the first line, packed as .gz or not; .parquet; - for standard input",
    ),
    option("--separator", type=_asked.separator, metavar="C", help="what stands between cells: one character, or tab"),
    option("--decimal", choices=[".", ","], default=".", help="the mark before decimals (default: .)"),
    option(
        "--where",
        action="append",
        type=_asked.condition,
        metavar="CONDITION",
        help="select rows before anything is released: COLUMN=VALUE,... or COLUMN!=VALUE,... or COLUMN>=NUMBER (also "
        "<, <=, >; dates, too), with public values; given several times, all must hold",
    ),
    option("--count", action="append_const", dest="asked", const=Asked("count"), help="how many rows"),
    option(
        "--distinct",
        action="append",
        dest="asked",
        type=_asked.distinct,
        metavar="COLUMN",
        help="how many different values; a unit has up to K of them",
    ),
    _bounded("--sum", "sum of a column, its values clamped to public bounds"),
    _bounded("--mean", "mean of such a column"),
    _bounded("--variance", "variance of such a column"),
    _bounded("--median", "a number near the median, between public bounds"),
    _bounded("--min", "a number that only a few values fall short of"),
    _bounded("--max", "a number that only a few values exceed"),
    option(
        "--quantiles",
        action="append",
        dest="asked",
        type=_asked.quantiles,
        metavar="COLUMN:LOWER,UPPER:Q,Q,...",
        help="numbers near several quantiles",
    ),
    option(
        "--histogram",
        action="append",
        dest="asked",
        type=_asked.histogram,
        metavar="COLUMN:EDGE,...",
        help="counts between public edges; COLUMN=NAME,NAME,... of public names",
    ),
    option(
        "--group-by",
        type=_asked.keys,
        metavar="COLUMN=KEY,...",
        help="of each group, with public keys",
    ),
    option(
        "--unit",
        metavar="COLUMN",
        help="the column that says whose a row is: of each unit only --rows-per-unit rows count, a random subset",
    ),
    option("--rows-per-unit", type=int, default=1, metavar="K", help="the most rows of a unit of privacy (default: 1)"),
    option("--epsilon", type=float, required=True, metavar="E", help="of all statistics together, shared evenly"),
    option("--delta", type=float, default=0.0, metavar="D", help="0 (default): Laplace noise; otherwise Gaussian"),
    relation_option(),
    *_payment.OPTIONS,
    show=_show,
    fields=_FIELDS,
)
def stats(args: Args, console: Console) -> Report:
    r"""Release statistics of a table in a file.

    Release private statistics of the columns of a CSV or Parquet file. Together
    they are (epsilon, delta)-differentially private; each gets an even share.
    Bounds, edges, names, keys and conditions must be public, not read from the
    data. Missing cells, and cells that hold no number, are left out.

    ledger:
      With --ledger all of it is one charge to a scope, made before a row is read,
      and refused if it does not fit. It is given back if the command fails before
      noise is drawn. With --key, a command that is repeated is refused once its
      release had begun.

    examples:
      ferrodp stats visits.csv --count --mean age:0,120 --epsilon 1
      ferrodp stats visits.csv --count --mean stay:0,30 \
          --group-by region=north,south --unit patient --rows-per-unit 3 \
          --epsilon 1 --ledger budget.db --scope visits --key 2026-11
      ferrodp stats visits.parquet --quantiles age:0,120:0.25,0.5,0.75 \
          --histogram region=north,south --epsilon 0.5 --json
    """
    asked: list[Asked] = args.asked or []
    if not asked:
        raise InvalidParameter("at least one statistic must be asked for, such as --count or --mean age:0,120")
    epsilon = _validate.positive("--epsilon", args.epsilon, toward="down")
    delta = _validate.delta(args.delta, zero=True, name="--delta")
    rows = _validate.count("--rows-per-unit", args.rows_per_unit, maximum=2**20)
    _check_groups(asked, args)
    _payment.check(args)
    conditions = tuple(args.where or ())
    how = _tables.how(args.file, args.separator, args.decimal, conditions)
    parts = [_share(epsilon, delta, each, len(asked)) for each in asked]
    relation = NeighboringRelation(args.neighboring_relation)
    with _tables.opened(how) as table:
        numbers = {each.column for each in asked if each.column is not None and not _is_named(each)}
        names = {each.column for each in asked if each.column is not None and _is_named(each)}
        names |= {args.group_by.column} if args.group_by else set()
        names |= {args.unit} if args.unit else set()
        _check_columns(table, how, {*numbers, *names, *(each.column for each in conditions)})
        release = _releaser(table, asked, parts, args.group_by, args.unit, rows, relation)
        release(table.unread(numbers, names), None)  # of no rows: what this refuses is refused before any row is read
        with _paid(args, asked, parts, relation) as (told, ticket):
            with console.progress(f"reading {how.shown}", _STEPS) as advance:
                read = table.read(numbers, names, _steps(advance))
            estimates = release(read, ticket)
            ledger = told()
    return {
        "command": "stats",
        "file": args.file,
        "epsilon": epsilon,
        "delta": float(sum(Fraction(part.delta) for part in parts)),
        "neighboring_relation": relation.value,
        "rows_per_unit": rows,
        "unit": args.unit,
        "where": _selected(args),
        "level": _LEVEL,
        "statistics": [
            _plain(each, estimate, part) for each, estimate, part in zip(asked, estimates, parts, strict=True)
        ],
        "ledger": ledger,
    }


def _steps(advance: Callable[[], None]) -> Callable[[float], None]:
    """Return what takes the share of a file that is read: shares alone are shown, never a number of rows."""
    done = 0

    def step(share: float) -> None:
        nonlocal done
        for _ in range(done, min(int(share * _STEPS), _STEPS)):
            advance()
            done += 1

    return step


def _is_named(asked: Asked) -> bool:
    """Whether values of the column are compared, not added up."""
    return bool(asked.categories) or asked.kind == "distinct"


def _check_columns(table: Table, how: How, wanted: set[str]) -> None:
    for name in sorted(wanted):
        if name not in table.names:
            known = ", ".join(table.names[:20]) + (", ..." if len(table.names) > 20 else "")
            hint = ""
            if len(table.names) == 1 and (mark := next((mark for mark in ";\t|" if mark in known), "")):
                hint = f"; give --separator {'tab' if mark == chr(9) else repr(mark)}"
            raise InvalidParameter(f"{how.shown} must have a column {_validate.shown(name)}; it has {known}{hint}")


def _check_groups(asked: list[Asked], args: Args) -> None:
    for each in asked if args.group_by is not None else ():
        if each.kind not in _BY_GROUP:
            able = ", ".join(f"--{kind}" for kind in _BY_GROUP)
            raise InvalidParameter(f"--{each.kind} must not be given with --group-by, which takes {able}")


def _share(epsilon: float, delta: float, asked: Asked, number: int) -> EpsilonDeltaEvent:
    """Return what one of several statistics may spend, rounded down: all of them together keep the budget."""
    # mutant: statistics-of-a-command-with-the-whole-budget-each
    shares = [_validate.rounded(Fraction(total) / number, "down") for total in (epsilon, delta)]
    return EpsilonDeltaEvent(epsilon=shares[0], delta=shares[1] if asked.kind in _NOISED else 0.0)


def _releaser(
    table: Table,
    asked: list[Asked],
    parts: list[EpsilonDeltaEvent],
    by: Keys | None,
    unit: str | None,
    rows: int,
    relation: NeighboringRelation,
) -> Callable[[Read, Ticket | None], list[Estimate[Any]]]:
    """Return what releases all statistics of some columns."""

    def grouped(read: Read, ticket: Ticket | None) -> list[Estimate[Any]]:
        assert by is not None
        frame: dict[str, Any] = {}
        for each in asked:
            if each.column is not None:
                frame[_held(each)] = (read.names if each.categories else read.numbers)[each.column]
        frame |= {"groups": read.names[by.column]}
        frame |= {} if unit is None else {"units": read.names[unit]}
        groups = statistics.private_group_by(
            frame,
            "groups",
            keys=table.keys(by.column, by.keys),
            unit=None if unit is None else "units",
            rows_per_unit=rows,
        )
        named = [table.keys(each.column or "", each.categories) if each.categories else () for each in asked]
        return [
            _by_group(groups, each, names, part, relation, ticket)
            for each, names, part in zip(asked, named, parts, strict=True)
        ]

    def whole(read: Read, ticket: Ticket | None) -> list[Estimate[Any]]:
        owners = None if unit is None else read.names[unit]
        about = {"max_contributions": rows, "unit": owners, "neighboring_relation": relation, "ticket": ticket}
        found = []
        for each, part in zip(asked, parts, strict=True):
            more = about | {"epsilon": part.epsilon} | ({"delta": part.delta} if each.kind in _NOISED else {})
            found.append(_of_column(table, read, each, more))
        return found

    return whole if by is None else grouped


def _of_column(table: Table, read: Read, asked: Asked, more: dict[str, Any]) -> Estimate[Any]:
    if asked.column is None:
        return statistics.private_count(np.ones(read.rows, np.int8), **more)
    if asked.categories:
        names = table.keys(asked.column, asked.categories)
        return statistics.private_histogram(read.names[asked.column], categories=names, **more)
    if asked.kind == "distinct":
        return statistics.private_distinct(read.names[asked.column], **more)
    values = read.numbers[asked.column]
    if asked.kind == "histogram":
        return statistics.private_histogram(values, bins=asked.numbers, **more)
    ends = (asked.numbers[0], asked.numbers[1])
    if asked.kind == "quantiles":
        return statistics.private_quantiles(values, asked.quantiles, bounds=ends, **more)
    named: dict[str, Callable[..., Estimate[Any]]] = {
        "sum": statistics.private_sum,
        "mean": statistics.private_mean,
        "variance": statistics.private_variance,
        "median": statistics.private_median,
        "min": statistics.private_min,
        "max": statistics.private_max,
    }
    return named[asked.kind](values, bounds=ends, **more)


def _held(asked: Asked) -> str:
    """Return what a column is called in the table of groups."""
    return f"{'names' if asked.categories else 'values'} of {asked.column}"


def _by_group(
    groups: statistics.PrivateGroups,
    asked: Asked,
    names: Any,
    part: EpsilonDeltaEvent,
    relation: NeighboringRelation,
    ticket: Ticket | None,
) -> Estimate[Any]:
    more: dict[str, Any] = {"epsilon": part.epsilon, "ticket": ticket}
    ends = asked.numbers[0] if asked.numbers else 0.0, asked.numbers[1] if asked.numbers else 0.0
    if asked.kind in ("median", "quantiles"):
        if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise InvalidParameter(
                f"--{asked.kind} by group needs the relation add_or_remove_one, got {relation.value}"
            )
        if asked.kind == "median":
            return groups.median(_held(asked), bounds=ends, **more)
        return groups.quantiles(_held(asked), asked.quantiles, bounds=ends, **more)
    more |= {"delta": part.delta, "neighboring_relation": relation}
    if asked.column is None:
        return groups.count(**more)
    if asked.kind == "histogram":
        bins = {"categories": names} if asked.categories else {"bins": asked.numbers}
        return groups.histogram(_held(asked), **bins, **more)
    release = {"sum": groups.sum, "mean": groups.mean, "variance": groups.variance}[asked.kind]
    return release(_held(asked), bounds=ends, **more)


@contextlib.contextmanager
def _paid(
    args: Args, asked: list[Asked], parts: list[EpsilonDeltaEvent], relation: NeighboringRelation
) -> Iterator[tuple[Callable[[], Report | None], Ticket | None]]:
    """Charge all statistics at once, and give the charge back if they fail before noise is drawn."""
    if args.ledger is None:
        yield lambda: None, None
        return
    with _ledgers.opened(args.ledger) as ledger:
        of_scope = ledger.report(args.scope).neighboring_relation
        if of_scope is not relation:
            raise InvalidParameter(
                f"--neighboring-relation must be that of scope {args.scope!r}, {of_scope.value}, got {relation.value}"
            )
        event = parts[0] if len(parts) == 1 else ComposedEvent(events=tuple(parts))
        words = [_words(each, args) for each in asked]
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


def _selected(args: Args) -> list[str]:
    """Return the conditions of the rows, as they are written."""
    return [each.column + each.operator + each.written for each in args.where or ()]


def _words(asked: Asked, args: Args) -> ReleasedStatistic:
    """Return what is released, for the record of its charge."""
    # mutant: conditions-not-in-the-record-of-a-charge
    rows_with = f" of rows with {' and '.join(_selected(args))}" if args.where else ""
    by = f" by groups of {args.group_by.column}" if args.group_by else ""
    many = f" {', '.join(f'{level:g}' for level in asked.quantiles)}" if asked.kind == "quantiles" else ""
    bounds = asked.numbers[:2] if asked.kind not in ("count", "distinct", "histogram") and asked.numbers else None
    rows = f", of which up to {args.rows_per_unit} count{'s' * (args.rows_per_unit == 1)}"
    unit = f"one unit of {args.unit}, with all of its rows{rows}" if args.unit else None
    unit = unit or ("one row" if args.rows_per_unit == 1 else f"whoever contributes up to {args.rows_per_unit} rows")
    ends = None if bounds is None else "[{:g}, {:g}]".format(*bounds)
    return found_statistic(asked.kind + many + by + rows_with, asked.column, ends, unit)


def _plain(asked: Asked, estimate: Estimate[Any], part: EpsilonDeltaEvent) -> dict[str, Any]:
    """Return a released statistic as plain JSON data."""
    try:
        ends = estimate.interval(_LEVEL)
        lower, upper = _listed(ends.lower), _listed(ends.upper)
    except InvalidParameter:  # a choice
        lower, upper = None, None
    labels = None if estimate.labels is None else [_in_words(label) for label in estimate.labels]
    edges = None if estimate.edges is None else [float(edge) for edge in estimate.edges]
    if edges is not None:
        labels = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges)]
    return {
        "statistic": asked.kind,
        "column": asked.column,
        "values": _listed(estimate.value),
        "labels": labels,
        "edges": edges,
        "bounds": list(asked.numbers) if asked.kind == "mean" else None,
        "lower": lower,
        "upper": upper,
        "epsilon": float(part.epsilon),
        "delta": float(part.delta),
    }


def _in_words(label: Any) -> str:
    """Return what a number is about; of groups that is a key, or a key and a bin or quantile."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _listed(value: Any) -> list[float]:
    found: list[float] = np.atleast_1d(np.asarray(value)).tolist()
    assert all(map(math.isfinite, found))
    return found
