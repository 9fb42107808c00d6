"""`ferrodp count`: totals of a table's rows, day after day, from a stream that a file keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ferrodp import files
from ferrodp.budget import PrivacyLedger
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import INTEGER, NUMBER, TEXT, many, maybe
from ferrodp.cli.releasing import payment as _payment
from ferrodp.cli.stats import text as _text
from ferrodp.cli.stats.columns import How
from ferrodp.counters import Counter, CounterStream
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation

_FIELDS = {
    "what": TEXT,
    "file": TEXT,
    "day": maybe(INTEGER, "of the totals, from 0; null before the first"),
    "unit": TEXT,
    "days": maybe(INTEGER, "null: not known"),
    "epsilon": NUMBER,
    "delta": NUMBER,
    "level": NUMBER,
    "standard_error": maybe(NUMBER),
    "counters": many(TEXT),
    "totals": maybe(many(INTEGER)),
    "lower": maybe(many(INTEGER), "of intervals with the level, each by itself"),
    "upper": maybe(many(INTEGER)),
}
_FOR_START = ("counters", "counters_file", "epsilon", "days", "max_days", "min_separation", "max_counters", "key")
_FOR_ADD = ("unit", "column", "day")


def _show(report: Report, console: Console) -> None:
    """Print the totals with their intervals, and what all days cost."""
    if report["totals"] is not None:
        rows = [
            [name, str(total), f"{lower} to {upper}"]
            for name, total, lower, upper in zip(
                *(report[each] for each in ("counters", "totals", "lower", "upper")), strict=True
            )
        ]
        console.table(["counter", "total", f"{report['level']:.0%} interval"], rows, left=1)
        console.line()
    days = "any number of days" if report["days"] is None else f"{report['days']} days"
    console.fields(
        {
            "day": "none yet" if report["day"] is None else str(report["day"]),
            "epsilon": f"{report['epsilon']:g} at delta {report['delta']:g}, {days} together",
            "unit": report["unit"],
        }
    )


@command(
    option("what", choices=("start", "add", "show"), help="what to do with the stream"),
    option("file", metavar="STREAM", help="the file of the stream: secret, as the data"),
    option("table", nargs="?", metavar="TABLE", help="add: the day's rows, .csv with names in the first line"),
    option("--counters", metavar="NAME,...", help="start: what the counters are called, public"),
    option("--counters-file", metavar="FILE", help="start: the same, one a line"),
    option("--epsilon", type=float, metavar="E", help="start: of all days together"),
    option("--delta", type=float, default=1e-6, metavar="D", help="default: 1e-6"),
    option("--days", type=int, metavar="N", help="start: how many days there will be; by default not known"),
    option(
        "--max-days", type=int, metavar="N", help="start: a person counts on so many days; by default a day is apart"
    ),
    option("--min-separation", type=int, metavar="N", help="start: days from one of these to the next"),
    option("--max-counters", type=int, metavar="N", help="start: counters that a person adds to a day (default: 1)"),
    option("--unit", metavar="COLUMN", help="add: who it is, in each row"),
    option("--column", metavar="COLUMN", help="add: which counter it is, in each row"),
    option("--day", type=int, metavar="N", help="add: which day, from 0; the last one again is not added twice"),
    option("--level", type=float, default=0.95, metavar="P", help="of the intervals (default: %(default)s)"),
    *_payment.OPTIONS,
    show=_show,
    fields=_FIELDS,
)
def count(args: Args, console: Console) -> Report:
    r"""Release running totals day after day, all days in one charge.

    start   make the stream: its file, its noise, and its charge
    add     add the rows of the next day, and release the totals
    show    the totals of the last day, as they were released

    Each row of a table says who and what. A person counts once for a counter and
    a day, for --max-counters of them. The file keeps exact totals and the key of
    the noise; a command that was killed is repeated with its --day.

    examples:
      ferrodp count start visits --counters home,news --epsilon 1 --days 365 \
          --ledger budget.db --scope site
      ferrodp count add visits monday.csv --unit user --column page --day 0 \
          --ledger budget.db --scope site
      ferrodp count show visits --ledger budget.db --scope site
    """
    _check(args)
    with _opened(args) as ledger, _stream(args, ledger) as stream:
        if args.what == "add":
            units, names = _rows(args)
            stream.release_units(units, names, day=args.day)
        return _report(args, stream)


def _check(args: Args) -> None:
    """Refuse options of other actions, and what is missing."""
    _payment.check(args)
    for action, names in (("start", _FOR_START), ("add", _FOR_ADD)):
        given = [name for name in names if getattr(args, name) is not None]
        if given and args.what != action:
            raise InvalidParameter(f"--{given[0].replace('_', '-')} is for {action} ({args.what})")
    if (args.table is not None) != (args.what == "add"):
        raise InvalidParameter(f"TABLE {'must be given' if args.table is None else 'is for add'} ({args.what})")
    if args.what == "start" and (args.epsilon is None or (args.counters is None) == (args.counters_file is None)):
        raise InvalidParameter("--epsilon and one of --counters and --counters-file must be given (start)")
    if args.what == "add" and (args.unit is None or args.column is None):
        raise InvalidParameter("--unit and --column must name columns of the table (add)")


@contextlib.contextmanager
def _opened(args: Args) -> Iterator[PrivacyLedger | None]:
    if args.ledger is None:
        yield None
        return
    with _ledgers.opened(args.ledger) as ledger:
        yield ledger


def _stream(args: Args, ledger: PrivacyLedger | None) -> CounterStream:
    if args.what != "start":
        return CounterStream.open(args.file, ledger=ledger, scope=args.scope)
    if Path(args.file).exists():
        raise files.FileRefused(args.file, "is there already: a stream is started once, and goes on with add")
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    if ledger is not None:
        relation = ledger.report(args.scope).neighboring_relation
    counter = Counter.calibrated(
        epsilon=args.epsilon,
        delta=args.delta,
        days=args.days,
        max_days=args.max_days,
        min_separation=1 if args.min_separation is None else args.min_separation,
        max_counters=args.max_counters,
        neighboring_relation=relation,
    )
    key = Path(args.file).name if args.key is None else args.key
    return counter.start(_names(args), file=args.file, ledger=ledger, scope=args.scope, key=key)


def _names(args: Args) -> list[str]:
    if args.counters is not None:
        return [str(name) for name in args.counters.split(",")]
    try:
        return Path(args.counters_file).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise files.FileRefused(args.counters_file, "is not UTF-8 text") from None


def _rows(args: Args) -> tuple[Any, Any]:
    """Return who and what of each row; text, whatever the cells look like."""
    if Path(args.table).suffix != ".csv":
        raise files.FileRefused(args.table, "must end in .csv")
    with _text.opened(How(args.table)) as table:
        for name in (args.unit, args.column):
            if name not in table.names:
                raise files.FileRefused(args.table, f"has no column {name!r}")
        units, counters = table.cells((args.unit, args.column))
        return units, counters


def _report(args: Args, stream: CounterStream) -> Report:
    counter, totals = stream.counter, stream.last
    labels = stream.labels or tuple(str(place) for place in range(stream.num_counters))
    day = None if totals is None else stream.day - 1
    interval = None if totals is None or day is None else counter.interval(totals, day=day, level=args.level)
    return {
        "command": "count",
        "what": args.what,
        "file": args.file,
        "day": day,
        "unit": counter.unit,
        "days": counter.days,
        "epsilon": counter.epsilon(args.delta),
        "delta": args.delta,
        "level": args.level,
        "standard_error": None if day is None else counter.standard_error(day),
        "counters": list(labels),
        "totals": None if totals is None else totals.tolist(),
        "lower": None if interval is None else interval.lower.tolist(),
        "upper": None if interval is None else interval.upper.tolist(),
    }
