"""`ferrodp stats`: private statistics of a table in a file, in one charge."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ferrodp._base import _validate
from ferrodp.cli._command import Args, Misused, command, option, relation_option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.releasing import payment as _payments
from ferrodp.cli.stats import asked as _asked
from ferrodp.cli.stats import crossed as _crossed
from ferrodp.cli.stats import found as _found
from ferrodp.cli.stats import payment as _payment
from ferrodp.cli.stats import planned as _planned
from ferrodp.cli.stats import releases as _releases
from ferrodp.cli.stats import report as _report
from ferrodp.cli.stats import tables as _tables
from ferrodp.cli.stats import timed
from ferrodp.cli.stats import written as _written
from ferrodp.cli.stats.asked import Asked, Setting
from ferrodp.cli.stats.columns import How, Table
from ferrodp.cli.stats.releases import Released
from ferrodp.errors import InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics.keys.contributions import contribution

_STEPS = 100
"""Of the progress of reading."""
_BY_GROUP = tuple(kind for kind in _releases.KINDS if kind not in _crossed.KINDS)


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
        type=_asked.named("distinct"),
        metavar="COLUMN",
        help="how many different values; a unit has up to K of them",
    ),
    _bounded("--sum", "sum of a column, its values clamped to public bounds"),
    _bounded("--mean", "mean of such a column; of dates: day:2020-01-01,2026-01-01"),
    _bounded("--variance", "variance of such a column"),
    _bounded("--standard-deviation", "standard deviation of such a column; of dates in seconds"),
    _bounded("--median", "a number near the median, between public bounds"),
    _bounded("--min", "a number that only a few values fall short of"),
    _bounded("--max", "a number that only a few values exceed"),
    option(
        "--bounds",
        action="append",
        dest="asked",
        type=_asked.named("bounds"),
        metavar="COLUMN",
        help="powers of two between which most values lie, for a column whose bounds are not known",
    ),
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
        help="counts between public edges; COLUMN=NAME,NAME,... of public names; COLUMN:START..END:PART by "
        "the calendar, such as day:2026-01-01..2027-01-01:month (also hour, day, week, quarter, year)",
    ),
    *_crossed.OPTIONS,
    option(
        "--group-by",
        type=_asked.keys,
        metavar="COLUMN=KEY,...",
        help="of each group, with public keys; COLUMN:START..END:PART by the calendar; COLUMN alone with --find-keys",
    ),
    *_found.OPTIONS,
    option(
        "--unit",
        metavar="COLUMN",
        help="the column that says whose a row is: of each unit only --rows-per-unit rows count, a random subset",
    ),
    option("--rows-per-unit", type=int, metavar="K", help="the most rows of a unit of privacy (default: 1)"),
    option("--epsilon", type=float, metavar="E", help="of all statistics together, shared evenly; a plan needs none"),
    option("--delta", type=float, default=0.0, metavar="D", help="0 (default): Laplace noise; otherwise Gaussian"),
    relation_option(),
    option(
        "--plan",
        action="store_true",
        help="say what the command would release and cost, and what it lacks; nothing is drawn, charged or written",
    ),
    *_written.OPTIONS,
    *_payments.OPTIONS,
    show=lambda report, console: (_planned if "plan" in report else _report).show(report, console),
    fields=(_report.FIELDS, _planned.FIELDS),
)
def stats(args: Args, console: Console) -> Report:
    r"""Release statistics of a table in a file.

    Release private statistics of the columns of a CSV or Parquet file. Together
    they are (epsilon, delta)-differentially private; each gets an even share.
    Bounds, edges, names, keys and conditions must be public, not read from the
    data. Missing cells, and cells that hold no number, are left out.

    plan:
      With --plan nothing is drawn, charged or written, and no row is read, so it
      costs nothing. It prints the columns, what would be released at which epsilon
      and with how much noise, what a ledger has left after it, and what is missing:
      bounds, edges and keys may be left out then, and --epsilon, too.

    keys:
      With --group-by COLUMN --find-keys METHOD:DELTA the keys are not public ones
      but those that enough rows or units of the table have. Finding them is a
      release of its own, with an even share of epsilon, and a delta of its own.

    output:
      With -o the released numbers are written to a file, too: one number a row,
      with its interval and what its statistic spent (CSV, Parquet), or what --json
      prints. Whether it can be written is checked before anything is charged.

    ledger:
      With --ledger all of it is one charge to a scope, made before a row is read,
      and refused if it does not fit. It is given back if the command fails before
      noise is drawn. With --key, a command that is repeated is refused once its
      release had begun.

    examples:
      ferrodp stats visits.csv --plan --count --mean age
      ferrodp stats visits.csv --count --mean age:0,120 --epsilon 1
      ferrodp stats visits.csv --count --mean stay:0,30 \
          --group-by region=north,south --unit patient --rows-per-unit 3 \
          --epsilon 1 --ledger budget.db --scope visits --key 2026-11
      ferrodp stats visits.csv --histogram age:0,20,40,60,80,100 --epsilon 1 \
          -o ages.csv
      ferrodp stats visits.csv --median day:2020-01-01,2026-12-31 --epsilon 1
      ferrodp stats visits.csv --count --group-by town \
          --find-keys threshold:1e-6 --unit patient --groups-per-unit 1 \
          --epsilon 1
      ferrodp stats visits.csv --count --unit patient --rows-per-unit 5 \
          --group-by day:2026-01-01..2027-01-01:day --groups-per-unit 5 \
          --epsilon 1
      ferrodp stats visits.csv --table region=north,south age:0,18,65,120 \
          --epsilon 1 --delta 1e-6
      ferrodp stats visits.parquet --quantiles age:0,120:0.25,0.5,0.75 \
          --histogram region=north,south --epsilon 0.5 --json
    """
    asked: list[Asked] = args.asked or []
    if not args.plan:
        _check_complete(args, asked)
    delta = _validate.delta(args.delta, zero=True, name="--delta")
    given = (("--rows-per-unit", args.rows_per_unit), ("--groups-per-unit", args.groups_per_unit))
    rows, groups = (None if each is None else _validate.count(name, each, maximum=2**20) for name, each in given)
    limit = contribution(rows, groups, None)
    _found.check(args, limit)
    _check_groups(asked, args)
    for each in asked:
        _asked.check(each)
    if args.group_by is not None:
        _asked.check_names(f"--group-by {args.group_by.column}", args.group_by.keys)
    _payments.check(args)
    conditions = tuple(args.where or ())
    how = _tables.how(args.file, args.separator, args.decimal, conditions)
    parts: list[EpsilonDeltaEvent] = []
    paid = None
    if args.epsilon is not None:
        epsilon = _validate.positive("--epsilon", args.epsilon, toward="down")
        number = len(asked) + (args.find_keys is not None)
        parts = [_releases.share(epsilon, delta, each, number, len(asked)) for each in asked]
        paid = None if args.find_keys is None else _releases.share_of_keys(epsilon, args.find_keys, number)
    relation = NeighboringRelation(args.neighboring_relation)
    setting = Setting(relation, limit, args.unit, args.group_by, args.find_keys, paid)
    with _tables.opened(how) as table:
        numbers, names = _releases.columns(asked, setting)
        _check_columns(table, how, {*numbers, *names, *(each.column for each in conditions)})
        _check_bounds(table, how, asked)
        if args.plan:
            _planned.refuse_options(args)
            return _planned.plan(args, table, asked, None if args.epsilon is None else parts, setting)
        release = _releases.releaser(table, asked, parts, setting)
        # of no rows: what this refuses is refused before any row is read
        blank = release(table.unread(numbers, names), None, blank=True)
        taken = {"the table that is read": None if args.file == "-" else args.file, "the ledger": args.ledger}

        def described(released: Released, ledger: Report | None) -> Report:
            found = zip(asked, released.estimates, parts, strict=True)
            costs = [*parts, *([] if paid is None else [paid])]
            return {
                "command": "stats",
                "file": args.file,
                "epsilon": epsilon,
                "delta": float(sum(Fraction(part.delta) for part in costs)),
                "neighboring_relation": relation.value,
                "rows_per_unit": limit.rows,
                "groups_per_unit": limit.groups if limit.is_by_group else None,
                "unit": args.unit,
                "where": _payment.selected(args),
                "level": _report.LEVEL,
                "found_keys": None
                if released.found is None
                else _found.described(setting, released.found, _report.LEVEL),
                "statistics": [_report.plain(each, estimate, part) for each, estimate, part in found],
                "ledger": ledger,
                "output": args.output,
            }

        with (
            _written.destination(args.output, taken, lambda: described(blank, None), force=args.force) as write,
            _payment.paid(args, asked, parts, setting) as (told, ticket),
        ):
            with console.progress(f"reading {how.shown}", _STEPS) as advance:
                read = table.read(numbers, names, _steps(advance), _releases.ids(asked, setting))
            released = release(read, ticket)
            return _kept(described, released, told, write, console)


def _kept(
    described: Callable[[Released, Report | None], Report],
    released: Released,
    told: Callable[[], Report | None],
    write: _written.Write,
    console: Console,
) -> Report:
    """Return the report of what was drawn, written to its file; printed even if the ledger or the file fails now."""
    failure: Exception | None = None
    ledger: Report | None = None
    try:
        ledger = told()
    except Exception as error:
        failure = error
    report = described(released, ledger)
    try:
        write(report)
    except Exception as error:
        failure, report = error, report | {"output": None}
    if failure is not None:
        # mutant: numbers-that-were-paid-for-are-lost-with-their-file
        console.report(report, _report.show)
        raise failure
    return report


def _steps(advance: Callable[[], None]) -> Callable[[float], None]:
    """Return what takes the share of a file that is read: shares alone are shown, never a number of rows."""
    done = 0

    def step(share: float) -> None:
        nonlocal done
        for _ in range(done, min(int(share * _STEPS), _STEPS)):
            advance()
            done += 1

    return step


def _check_complete(args: Args, asked: list[Asked]) -> None:
    """Refuse a command that lacks what only a plan can do without."""
    keys = [args.group_by] if args.group_by is not None and args.find_keys is None else []
    for refusal in (each.missing for each in (*asked, *keys) if each.missing):
        raise Misused("ferrodp stats", refusal)
    if args.epsilon is None:
        raise Misused("ferrodp stats", "the following arguments are required: --epsilon")
    crossed = next((each for each in asked if each.axes), None)
    if crossed is not None and not args.delta:
        raise InvalidParameter(f"--{crossed.kind} must have a delta, got none: its noise is Gaussian; add --delta 1e-6")
    if not asked and args.find_keys is None:
        raise InvalidParameter("at least one statistic must be asked for, such as --count or --mean age:0,120")


def _check_columns(table: Table, how: How, wanted: set[str]) -> None:
    for name in sorted(wanted):
        if name not in table.names:
            known = ", ".join(table.names[:20]) + (", ..." if len(table.names) > 20 else "")
            hint = ""
            if len(table.names) == 1 and (mark := next((mark for mark in ";\t| " if mark in known), "")):
                hint = f"; give --separator {'tab' if mark == chr(9) else repr(mark)}"
            hint = hint or _validate.nearest(name, table.names)
            raise InvalidParameter(f"{how.shown} must have a column {_validate.shown(name)}; it has {known}{hint}")


def _check_bounds(table: Table, how: How, asked: list[Asked]) -> None:
    """Refuse bounds and edges of another kind than a typed column holds, in the words of a command line."""
    for each in asked:
        example = table.bounds(each.column) if each.column and each.numbers else None
        if example is None or timed.are_alike(each.times, example):
            continue
        held, more = table.kind(each.column or ""), ":0.5" if each.kind == "quantiles" else ""
        wanted = "numbers" if example == timed.NUMBERS else "dates or times"
        if example != timed.NUMBERS and each.times:
            wanted += " of that kind"
        raise InvalidParameter(
            f"--{each.kind} {each.column} must have {wanted} as bounds, as {how.shown} holds {held} there; such as "
            f"--{each.kind} {each.column}:{example}{more}"
        )


def _check_groups(asked: list[Asked], args: Args) -> None:
    for each in asked if args.group_by is not None else ():
        if each.kind not in _BY_GROUP:
            able = ", ".join(f"--{kind}" for kind in _BY_GROUP)
            raise InvalidParameter(f"--{each.kind} must not be given with --group-by, which takes {able}")
