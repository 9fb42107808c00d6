"""What is released of the columns that were read, and what each statistic may spend."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ferrodp import statistics
from ferrodp._base import _validate
from ferrodp.cli.stats import crossed, timed
from ferrodp.cli.stats.asked import Asked, Finding, Setting, moment
from ferrodp.cli.stats.columns import Read, Table
from ferrodp.cli.stats.found import Found, rule
from ferrodp.errors import InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics import Estimate
from ferrodp.statistics.marginals.released import PrivateMarginals
from ferrodp.statistics.rows.times import read_texts
from ferrodp.tickets import Ticket

NOISED = (
    "count", "distinct", "sum", "mean", "variance", "standard-deviation", "bounds", "histogram", *crossed.KINDS,
)  # fmt: skip
"""What takes a delta; the others are choices."""
CHOICES = ("median", "quantiles", "min", "max")
KINDS = (*NOISED, *CHOICES)


def columns(asked: list[Asked], setting: Setting) -> tuple[set[str], set[str]]:
    """Return the columns whose values are added up, and those whose values are compared."""
    held = [own for each in asked for own in each.axes or (each,)]
    numbers = {each.column for each in held if each.column is not None and not _is_named(each)}
    names = {each.column for each in held if each.column is not None and _is_named(each)}
    by = {setting.by.column} if setting.by is not None else set()
    return numbers, names | by | ({setting.unit} if setting.unit is not None else set())


def ids(asked: list[Asked], setting: Setting) -> str | None:
    """Return the column of units, if none of its values is released or compared with what is written."""
    _, names = columns(asked, setting._replace(unit=None))
    # mutant: names-that-are-released-read-as-ids
    return None if setting.unit in names else setting.unit


def _is_named(asked: Asked) -> bool:
    return bool(asked.categories) or asked.is_timed or asked.kind == "distinct"


def share(epsilon: float, delta: float, asked: Asked, number: int, noised: int) -> EpsilonDeltaEvent:
    """Return what one of several releases may spend, rounded down: all of them together keep the budget.

    ε is shared by so many releases, δ by the statistics among them.
    """
    # mutant: statistics-of-a-command-with-the-whole-budget-each
    own = _validate.rounded(Fraction(epsilon) / number, "down")
    own_delta = _validate.rounded(Fraction(delta) / noised, "down")
    return EpsilonDeltaEvent(epsilon=own, delta=own_delta if asked.kind in NOISED else 0.0)


def share_of_keys(epsilon: float, finding: Finding, number: int) -> EpsilonDeltaEvent:
    """Return what finding keys may spend: an even share of ε, and a δ of its own."""
    # mutant: keys-found-with-the-whole-budget
    return EpsilonDeltaEvent(epsilon=_validate.rounded(Fraction(epsilon) / number, "down"), delta=finding.delta)


Statistic: TypeAlias = "Estimate[Any] | PrivateMarginals"


class Released(NamedTuple):
    """What was released: an estimate for each statistic, None if no keys were found, and the keys that were."""

    estimates: list[Statistic | None]
    found: Found | None = None


class Release(Protocol):
    """Releases all statistics of what was read."""

    def __call__(self, read: Read, ticket: Ticket | None, *, blank: bool = False) -> Released:
        """Return what is released; `blank` if that is about no table: then there is a key, though none is found."""


def releaser(
    table: Table,
    asked: list[Asked],
    parts: list[EpsilonDeltaEvent],
    setting: Setting,
    source: NoiseSource | None = None,
) -> Release:
    """Return what releases all statistics of some columns; a plan gives a seeded source, which takes no randomness."""

    def grouped(read: Read, ticket: Ticket | None, *, blank: bool = False) -> Released:
        by, limit = setting.by, setting.limit
        assert by is not None
        frame: dict[str, Any] = {}
        for each in asked:
            if each.column is not None:
                frame[_held(each)] = _values(read, each)
        groups_of = read.names[by.column]
        frame |= {"groups": groups_of if by.calendar is None else read_texts(groups_of, moment)}
        frame |= {} if setting.unit is None else {"units": read.names[setting.unit]}
        finds = setting.finding is not None
        groups = statistics.private_group_by(
            frame,
            "groups",
            keys=rule(setting) if finds else by.calendar or table.keys(by.column, by.keys),
            unit=None if setting.unit is None else "units",
            rows_per_unit=limit.rows,
            groups_per_unit=limit.groups if limit.is_by_group else None,
            rows_per_group=limit.rows_per_group if limit.is_by_group else None,
            source=source,
            ticket=ticket if finds else None,
        )
        found = Found(groups.keys, groups.found_counts) if finds else None
        if finds and not groups.keys:
            if not blank:
                return Released([None] * len(asked), found)
            groups.keys = ("key", "another")  # without rows: refused is what would be of any two keys that are found
        named = [table.keys(each.column or "", each.categories) if each.categories else () for each in asked]
        more = {"ticket": ticket, "source": source}
        estimates: list[Statistic | None] = [
            _by_group(groups, each, names, part, setting.relation, more)
            for each, names, part in zip(asked, named, parts, strict=True)
        ]
        return Released(estimates, found)

    def whole(read: Read, ticket: Ticket | None, *, blank: bool = False) -> Released:
        owners = None if setting.unit is None else read.names[setting.unit]
        about = {
            "max_contributions": setting.limit.rows,
            "unit": owners,
            "neighboring_relation": setting.relation,
            "ticket": ticket,
            "source": source,
        }
        found: list[Statistic | None] = []
        for each, part in zip(asked, parts, strict=True):
            more = about | {"epsilon": part.epsilon} | ({"delta": part.delta} if each.kind in NOISED else {})
            found.append(_of_column(table, read, each, more))
        return Released(found)

    return whole if setting.by is None else grouped


def _of_column(table: Table, read: Read, asked: Asked, more: dict[str, Any]) -> Statistic:
    if asked.axes:
        return crossed.release(table, read, asked, more)
    if asked.column is None:
        return statistics.private_count(np.ones(read.rows, np.int8), **more)
    if asked.categories:
        names = table.keys(asked.column, asked.categories)
        return statistics.private_histogram(read.names[asked.column], categories=names, **more)
    if asked.kind == "distinct":
        return statistics.private_distinct(read.names[asked.column], **more)
    values = _values(read, asked)
    if asked.kind == "bounds":
        return statistics.private_bounds(values, **more)
    if asked.kind == "histogram":
        return statistics.private_histogram(values, bins=asked.calendar or asked.ends, **more)
    ends: Any = (asked.ends[0], asked.ends[1])
    if asked.kind == "quantiles":
        return statistics.private_quantiles(values, asked.quantiles, bounds=ends, **more)
    named: dict[str, Callable[..., Estimate[Any]]] = {
        "sum": statistics.private_sum,
        "mean": statistics.private_mean,
        "variance": statistics.private_variance,
        "standard-deviation": statistics.private_standard_deviation,
        "median": statistics.private_median,
        "min": statistics.private_min,
        "max": statistics.private_max,
    }
    return named[asked.kind](values, bounds=ends, **more)


def _held(asked: Asked) -> str:
    """Return what a column is called in the table of groups."""
    kind = "values" if not _is_named(asked) else "times" if asked.is_timed else "names"
    if timed.reader(asked.times) is not None:
        kind = "times of day"
    return f"{kind} of {asked.column}"


def _values(read: Read, asked: Asked) -> Any:
    """Return the column that a statistic is about."""
    assert asked.column is not None
    if asked.is_timed:
        # mutant: times-of-day-read-as-dates
        return read_texts(read.names[asked.column], timed.reader(asked.times) or moment)
    return (read.names if _is_named(asked) else read.numbers)[asked.column]


def _by_group(
    groups: statistics.PrivateGroups,
    asked: Asked,
    names: Any,
    part: EpsilonDeltaEvent,
    relation: NeighboringRelation,
    pays: dict[str, Any],
) -> Estimate[Any]:
    more: dict[str, Any] = {"epsilon": part.epsilon} | pays
    ends: Any = (asked.ends[0], asked.ends[1]) if asked.ends else (0.0, 0.0)
    if asked.kind in CHOICES:
        if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise InvalidParameter(
                f"--{asked.kind} by group needs the relation add_or_remove_one, got {relation.value}"
            )
        if asked.kind != "quantiles":
            choose: dict[str, Callable[..., Estimate[Any]]] = {
                "median": groups.median,
                "min": groups.min,
                "max": groups.max,
            }
            return choose[asked.kind](_held(asked), bounds=ends, **more)
        return groups.quantiles(_held(asked), asked.quantiles, bounds=ends, **more)
    more |= {"delta": part.delta, "neighboring_relation": relation}
    if asked.column is None:
        return groups.count(**more)
    if asked.kind in ("distinct", "bounds"):
        return (groups.distinct if asked.kind == "distinct" else groups.bounds)(_held(asked), **more)
    if asked.kind == "histogram":
        bins = {"categories": names} if asked.categories else {"bins": asked.calendar or asked.ends}
        return groups.histogram(_held(asked), **bins, **more)
    of_sums: dict[str, Callable[..., Estimate[Any]]] = {
        "sum": groups.sum,
        "mean": groups.mean,
        "variance": groups.variance,
        "standard-deviation": groups.standard_deviation,
    }
    return of_sums[asked.kind](_held(asked), bounds=ends, **more)
