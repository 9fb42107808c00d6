"""What `epsilon` and `calibrate` share: values and ranges on the command line, tables, CSV files."""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ferrodp import files
from ferrodp.accounting.accountants.registry import ACCOUNTANTS
from ferrodp.cli._command import Args, null_distance_option, option, relation_option
from ferrodp.cli._console import Console, Report
from ferrodp.errors import InvalidParameter

MAX_ROWS = 1_000_000
Number = TypeVar("Number", int, float)

RANGES = """\
ranges:
  Z, Q, T, E and D may be one value, several (0.8,1,1.2), or START:STOP:NUMBER
  for evenly spaced ones; a factor before the number spaces them
  geometrically (1e-3:1:x4). All combinations are computed.

"""


def reals(text: str) -> list[float]:
    """Parse floats: one, several, or a range."""
    return _values(text, float)


def counts(text: str) -> list[int]:
    """Parse ints: one, several, or a range, rounded."""
    return _values(text, _int)


def _int(text: str) -> int:
    value = float(text)
    if not value.is_integer():
        raise ValueError(text)
    return int(text) if text.strip().lstrip("+-").isdigit() else int(value)


def _values(text: str, parse: Callable[[str], Number]) -> list[Number]:
    try:
        if ":" not in text:
            return [parse(part) for part in text.split(",")]
        first, last, number = text.split(":")
        geometric = number.startswith("x")
        return list(_spaced(parse(first), parse(last), int(number.removeprefix("x")), geometric=geometric))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, list or START:STOP:NUMBER") from None


def _spaced(start: Number, stop: Number, number: int, *, geometric: bool) -> Iterator[Number]:
    if not 2 <= number <= MAX_ROWS or (geometric and not (start > 0 and stop > 0)):
        raise ValueError(number)
    for i in range(number):
        share = i / (number - 1)
        if i in (0, number - 1):
            yield stop if i else start
            continue
        if geometric:
            between = math.exp((1.0 - share) * math.log(start) + share * math.log(stop))
        else:
            between = (1.0 - share) * start + share * stop
        yield round(between) if isinstance(start, int) else between


NOISE_MULTIPLIER = option(
    "--noise-multiplier", type=reals, metavar="Z", help="noise's standard deviation over sensitivity"
)
SAMPLING_PROBABILITY = option(
    "--sampling-probability",
    type=reals,
    metavar="Q",
    help="chance that a record takes part in a step, independently (default: 1)",
)
COMMON = (
    option(
        "--accountant", choices=tuple(ACCOUNTANTS), default="pld", help="what proves the bound (default: %(default)s)"
    ),
    relation_option("; sensitivities are stated for it"),
    null_distance_option(math.inf, ", sampling then reduces delta alone"),
    option("--explain", action="store_true", help="say in plain words how each bound was found"),
    option("--csv", metavar="OUT", help="write the rows to this file, whole or not at all, instead of printing them"),
    option("--force", action="store_true", help="replace OUT if it exists"),
)
"""The last options of both commands."""


def combinations(options: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the options' values, the last option changing fastest."""
    total = math.prod(map(len, options.values()))
    if total > MAX_ROWS:
        raise InvalidParameter(f"the ranges must make at most {MAX_ROWS} combinations, got {total}")
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


def computed(
    settings: list[dict[str, Any]],
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    args: Args,
    console: Console,
) -> list[dict[str, Any]]:
    """Return one row for each setting, and write them to `--csv` if that was requested."""

    def compute() -> list[dict[str, Any]]:
        rows = []
        with console.progress("computing", len(settings)) as advance:
            for setting in settings:
                rows.append({**setting, **answer(setting)})
                advance()
        return rows

    if args.csv is None:
        return compute()
    with files.Destination(args.csv, force=args.force) as destination:
        rows = compute()
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, [name for name in rows[0] if name != "explanation"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        destination.commit(lambda stream: stream.write(text.getvalue().encode()))
    return rows


def show_rows(report: Report, console: Console, columns: Mapping[str, Callable[[Any], str]]) -> None:
    """Print a table of the rows, or where they were written, and the explanations."""
    rows = report["rows"]
    if report["csv"] is not None:
        console.fields({"written": f"{Path(report['csv'])} ({len(rows)} rows)"})
    else:
        console.table(list(columns), [[write(row[name]) for name, write in columns.items()] for row in rows], left=0)
    for row in rows:
        if row["explanation"]:
            console.line()
            for line in row["explanation"].splitlines():
                console.line(line)
