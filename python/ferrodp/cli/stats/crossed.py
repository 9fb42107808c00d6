"""Counts by several columns together: a table, or all tables of so many columns, each as one release.

A row counts in a table if it has a public value in each of its columns. The noise is Gaussian, so it needs a δ.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, TypeAlias

from ferrodp import statistics
from ferrodp.cli._command import option
from ferrodp.cli.stats import asked as _asked
from ferrodp.cli.stats.asked import Asked
from ferrodp.cli.stats.columns import Read, Table
from ferrodp.cli.stats.found import in_words
from ferrodp.statistics.marginals.released import PrivateMarginals

KINDS = ("table", "marginals")
DELTA = "a delta, as the noise of tables is Gaussian: --delta D"
"""What is missing where no δ is given."""
Columns: TypeAlias = "list[Asked | int]"


def axis(text: str) -> Asked:
    """Parse ``COLUMN=NAME,NAME,...`` or ``COLUMN:EDGE,EDGE,...``."""
    found = _asked.histogram(text)
    if found.is_timed:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not COLUMN=NAME,... or COLUMN:EDGE,...; of dates there are --histogram and --group-by"
        )
    if not found.missing:
        return found
    refused = f"{text!r} is not COLUMN=NAME,... or COLUMN:EDGE,..., such as region=north,south"
    return Asked("histogram", text, missing=refused)


def axis_or_number(text: str) -> Asked | int:
    """Parse the same, or how many columns a table has."""
    return int(text) if text.isascii() and text.isdigit() else axis(text)


def asked(columns: Columns) -> Asked:
    """Return what is asked of some columns; of marginals the first one is how many columns a table has."""
    axes = tuple(each for each in columns if isinstance(each, Asked))
    kind, of = ("marginals", columns[0]) if isinstance(columns[0], int) else ("table", len(axes))
    found = Asked(kind, " × ".join(each.column or "" for each in axes), axes=axes, of=of)
    lacking = [each for each in axes if each.missing]
    if not lacking:
        return found
    way = " ".join(f"{each.column}=NAME,NAME,..." for each in lacking)
    return found._replace(
        missing=f"argument --{kind}: {lacking[0].missing}",
        way=f"public names, or edges as COLUMN:EDGE,...: --{kind} {way}",
    )


class Crossed(argparse.Action):
    """Appends what is asked of several columns."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Take the values of one option, once they fit together."""
        is_marginals = option_string == "--marginals"
        if is_marginals is not isinstance(values[0], int) or any(isinstance(each, int) for each in values[1:]):
            raise argparse.ArgumentError(self, "must begin with the number of columns of a table, such as 2")
        names = [each.column for each in values if isinstance(each, Asked)]
        if len(names) < 2 or len(set(names)) < len(names):
            raise argparse.ArgumentError(self, "must name two columns or more, all different; take --histogram for one")
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), asked(values)])


OPTIONS = (
    option(
        "--table",
        action=Crossed,
        nargs="+",
        dest="asked",
        type=axis,
        metavar="COLUMN=NAME,...",
        help="counts by several columns together, with their public names, or edges: COLUMN:EDGE,...; needs a delta",
    ),
    option(
        "--marginals",
        action=Crossed,
        nargs="+",
        dest="asked",
        type=axis_or_number,
        metavar="N COLUMN=NAME,...",
        help="all tables of N of these columns, which agree with each other",
    ),
)


def release(table: Table, read: Read, asked: Asked, more: dict[str, Any]) -> PrivateMarginals:
    """Return the tables of some columns that were read."""
    frame, categories, bins = {}, {}, {}
    for each in asked.axes:
        name = each.column or ""
        if each.categories:
            frame[name], categories[name] = read.names[name], table.keys(name, each.categories)
        else:
            frame[name], bins[name] = read.numbers[name], list(each.numbers)
    # mutant: marginals-as-one-table
    workload: Any = [tuple(each.column for each in asked.axes)] if asked.kind == "table" else asked.of
    # mutant: tables-of-a-unit-with-one-row
    return statistics.private_marginals(frame, workload, categories=categories, bins=bins, **more)


def numbers(found: PrivateMarginals) -> int:
    """Return how many counts there are."""
    sizes = {name: len(values) for name, values in found.columns.items()}
    return sum(math.prod(sizes[name] for name in columns) for columns in found)


def deviation(found: PrivateMarginals) -> float:
    """Return the largest standard deviation of the noise of a count."""
    return max(map(found.standard_error, found))


def error(found: PrivateMarginals, level: float) -> float:
    """Return half of the widest interval."""
    found_ends = [found[columns].interval(level) for columns in found]
    # mutant: plan-of-tables-says-the-least-error
    return max(float((ends.upper - ends.lower).max()) / 2.0 for ends in found_ends)


def plain(found: PrivateMarginals, level: float) -> tuple[list[float], list[str], list[float], list[float]]:
    """Return all counts, what they are of, and the ends of their intervals."""
    values: list[float] = []
    labels: list[str] = []
    lower: list[float] = []
    upper: list[float] = []
    for columns in found:
        estimate = found[columns]
        ends = estimate.interval(level)
        values += estimate.value.tolist()
        for cell in estimate.labels or ():
            cells = cell if isinstance(cell, tuple) else (cell,)
            labels.append(", ".join(f"{name}={in_words(part)}" for name, part in zip(columns, cells, strict=True)))
        lower += ends.lower.tolist()
        upper += ends.upper.tolist()
    return values, labels, lower, upper
