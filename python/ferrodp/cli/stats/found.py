"""Keys of groups that are found in the data, privately: how a command asks for them, and what is reported of them."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ferrodp import statistics
from ferrodp._base import _validate
from ferrodp.cli._command import Args, option
from ferrodp.cli._console import Report
from ferrodp.cli.printing.shapes import INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.cli.stats.asked import Finding, Setting
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics import Estimate
from ferrodp.statistics.keys.contributions import Contribution

Rule: TypeAlias = "statistics.KeyThreshold | statistics.KeySelection | statistics.KeyUnion"
_RULES: dict[str, type[Any]] = {
    "threshold": statistics.KeyThreshold,
    "selection": statistics.KeySelection,
    "union": statistics.KeyUnion,
}
_METHOD = {"column": TEXT, "method": TEXT, "delta": NUMBER}
_THRESHOLD = maybe(INTEGER, "the least count that is released, noise included; null: the method releases no counts")
FIELDS = maybe(
    record(
        {
            **_METHOD,
            "epsilon": NUMBER,
            "threshold": _THRESHOLD,
            "keys": many(TEXT),
            "counts": maybe(many(NUMBER), "of rows or units, by which the keys were found; null: there are none"),
            "lower": maybe(many(NUMBER)),
            "upper": maybe(many(NUMBER)),
        }
    ),
    "null: the keys are public, or there are none",
)
PLANNED = maybe(
    record(
        {
            **_METHOD,
            "epsilon": maybe(NUMBER, "null: it is not given"),
            "threshold": _THRESHOLD,
            "standard_deviation": maybe(NUMBER, "of the noise of a count"),
            "error": maybe(NUMBER, "within which a count is with the level"),
        }
    ),
    "null: the keys are public, or there are none",
)


class Found(NamedTuple):
    """The keys that were found, and their counts where they were released."""

    keys: tuple[Any, ...]
    counts: Estimate[Any] | None


def finding(text: str) -> Finding:
    """Parse ``METHOD:DELTA``."""
    method, _, delta = text.partition(":")
    try:
        number = float(delta)
    except ValueError:
        number = -1.0
    if method not in _RULES or not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not METHOD:DELTA of one of {', '.join(_RULES)} and a delta in (0, 1), such as threshold:1e-6"
        )
    return Finding(method, _validate.delta(number))


OPTIONS = (
    option(
        "--find-keys",
        type=finding,
        metavar="METHOD:DELTA",
        help="find the keys of --group-by COLUMN in the data, with an even share of epsilon and this delta: threshold "
        "(keys whose noised count is high; counts them, too), selection (of units with one key: finds the most) or "
        "union (of units with many)",
    ),
    option(
        "--groups-per-unit",
        type=int,
        metavar="G",
        help="the most groups of a unit: one row in each, or --rows-per-unit rows in all of them",
    ),
)


def check(args: Args, limit: Contribution) -> None:
    """Refuse options of groups that do not fit together."""
    if args.groups_per_unit is not None and args.group_by is None:
        raise InvalidParameter("--groups-per-unit must come with groups, got none; add --group-by COLUMN=KEY,...")
    found: Finding | None = args.find_keys
    if found is None:
        return
    if args.group_by is None:
        raise InvalidParameter(
            "--find-keys must come with a column, got none; add --group-by COLUMN, whose keys are found"
        )
    if args.group_by.keys or args.group_by.calendar is not None:
        keys = (
            ",".join(args.group_by.keys) or f"days from {args.group_by.calendar.start} to {args.group_by.calendar.end}"
        )
        given = f"{args.group_by.column}={keys}"
        raise InvalidParameter(
            f"--group-by must have no keys with --find-keys, got {given}; write --group-by {args.group_by.column}"
        )
    if args.neighboring_relation != NeighboringRelation.ADD_OR_REMOVE_ONE.value:
        raise InvalidParameter(
            f"--find-keys needs the relation add_or_remove_one, got {args.neighboring_relation}; give public keys"
        )
    if found.method == "selection" and (limit.groups > 1 or (args.unit is None and limit.rows > 1)):
        raise InvalidParameter(
            f"--find-keys selection needs units with one group; give --unit COLUMN and --groups-per-unit 1, or write "
            f"--find-keys union:{found.delta:g}, for units with several"
        )


def rule(setting: Setting) -> Rule:
    """Return what finds the keys, as `private_group_by` takes it."""
    assert setting.finding is not None
    assert setting.paid is not None
    found: Rule = _RULES[setting.finding.method](epsilon=setting.paid.epsilon, delta=setting.paid.delta)
    return found


def described(setting: Setting, found: Found, level: float) -> Report:
    """Return what was found as plain JSON data."""
    counts = lower = upper = None
    if found.counts is not None:
        counts = found.counts.value.tolist()
        ends = found.counts.interval(level)
        lower, upper = (np.asarray(end, float).tolist() for end in (ends.lower, ends.upper))
    keys = [in_words(key) for key in found.keys]
    return {**_about(setting), "keys": keys, "counts": counts, "lower": lower, "upper": upper}


def planned(setting: Setting, level: float, source: NoiseSource) -> Report:
    """Return what finding the keys would do: the noise of their counts is that of a count of as many rows a unit."""
    deviation = error = None
    if setting.paid is not None and _is_threshold(setting):
        law = statistics.private_count(
            np.zeros(0), epsilon=setting.paid.epsilon, max_contributions=_counted(setting).rows, source=source
        )
        ends = law.interval(level)
        deviation, error = law.standard_error, (float(ends.upper) - float(ends.lower)) / 2.0
    return {**_about(setting), "standard_deviation": deviation, "error": error}


def _about(setting: Setting) -> Report:
    assert setting.by is not None
    assert setting.finding is not None
    found = None if setting.paid is None else rule(setting)
    threshold = None
    if isinstance(found, statistics.KeyThreshold):
        limit = _counted(setting)
        threshold = found.threshold(limit.rows, groups_per_unit=limit.groups, rows_per_group=limit.rows_per_group)
    return {
        "column": setting.by.column,
        "method": setting.finding.method,
        "epsilon": None if setting.paid is None else float(setting.paid.epsilon),
        "delta": setting.finding.delta,
        "threshold": threshold,
    }


def _is_threshold(setting: Setting) -> bool:
    return setting.finding is not None and setting.finding.method == "threshold"


def _counted(setting: Setting) -> Contribution:
    """Return what a unit adds to the counts of a threshold: of units, where their groups are bounded."""
    limit = setting.limit
    return limit if setting.unit is None or not limit.is_by_group else Contribution(limit.groups, limit.groups, 1)


def in_words(label: Any) -> str:
    """Return what a number is about; of groups that is a key, or a key and a bin or quantile."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
