"""Audits of the code of statistics: extremes, and tables in groups, replayed without each of their units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from alarms import REPLACE, code

import ferrodp as fd
from ferrodp.audit import audit_code
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation

ROWS = np.array(
    [
        [0, 1, 9.0],
        [1, 1, 9.0],
        [0, 2, 7.0],
        [0, 2, 9.0],
        [0, 2, 8.0],
        [2, 3, 10.0],
        [1, 4, 0.5],
        [1, 5, 50.0],
        [0, 6, 9.0],
    ]
)
"""Key, unit and value; two rows of a unit count, and one has three."""
SAME = np.full(8, 9.0)


def of_units(release: Callable[[fd.statistics.PrivateGroups], Any], rows: int = 2, delta: float = 0.0) -> bool:
    """Whether statistics of groups move farther than they state where a unit leaves."""

    def run(table: np.ndarray) -> object:
        frame = {"key": table[:, 0].astype(int), "who": table[:, 1].astype(int), "x": table[:, 2]}
        return release(fd.private_group_by(frame, "key", keys=[0, 1, 2, 3], unit="who", rows_per_unit=rows))

    others = [ROWS[ROWS[:, 1] != unit] for unit in range(1, 7)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=delta)
    return any(audit_code(run, ROWS, others, accounted=accounted).violation for _ in range(3))


def of_bounded_units(rows: int, keys: list[int], **bounds: int) -> bool:
    """Whether counts of groups move farther than they state where a unit leaves that has more rows than count."""
    unit = np.concatenate([np.full((4, 2), [key, 7]) for key in (0, 1, 2)])
    table = np.concatenate([unit, [[0, 1], [1, 2], [2, 3], [2, 3]]])

    def run(data: np.ndarray) -> object:
        frame = {"key": data[:, 0], "who": data[:, 1]}
        groups = fd.private_group_by(frame, "key", keys=keys, unit="who", rows_per_unit=rows, **bounds)
        return groups.count(epsilon=1.0, delta=1e-6).value

    others = [table[table[:, 1] != each] for each in (1, 2, 3, 7)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)
    return any(audit_code(run, table, others, accounted=accounted).violation for _ in range(3))


def of_columns(release: Callable[..., Any], *, replaces: bool = False, rows: int = 2) -> bool:
    """Whether a statistic of a column moves farther than it states where a unit leaves, or has other rows."""
    relation = REPLACE if replaces else NeighboringRelation.ADD_OR_REMOVE_ONE

    def run(table: np.ndarray) -> object:
        x, who = table[:, 2].astype(int), table[:, 1].astype(int)
        return release(x, unit=who, max_contributions=rows, epsilon=1.0, neighboring_relation=relation).value

    others = [ROWS[ROWS[:, 1] != unit] for unit in range(1, 7)]
    if replaces:
        others = [np.concatenate([each, np.full((1, 3), [0, unit, 50])]) for unit, each in enumerate(others, 1)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=0.0)
    return any(
        audit_code(run, ROWS, others, accounted=accounted, neighboring_relation=relation).violation for _ in range(3)
    )


def of_rows_of_units() -> bool:
    """Whether the number of rows of a unit moves farther than it states where a unit leaves with all of its rows."""

    def run(table: np.ndarray) -> object:
        return fd.private_rows_per_unit(table[:, 1].astype(int), at_most=4, rank=1, epsilon=1.0).value

    table = np.concatenate([ROWS, np.full((4, 3), [0, 7, 1.0])])
    others = [table[table[:, 1] != unit] for unit in range(1, 8)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=0.0)
    return any(audit_code(run, table, others, accounted=accounted).violation for _ in range(3))


def largest(data: np.ndarray, **options: Any) -> object:
    return fd.private_max(data, bounds=(0.0, 20.0), num_candidates=21, rank=2, epsilon=1.0, **options).value


def different(data: np.ndarray) -> object:
    """Return the number of different values, of units that have three each."""
    return fd.private_distinct(data, max_contributions=3, epsilon=1.0).value


def most_frequent(data: np.ndarray) -> object:
    """Return counts of two categories, of rows that are replaced."""
    return fd.private_top(data, 2, categories=[0.0, 9.0], epsilon=1.0, neighboring_relation=REPLACE).value


AUDITS: dict[str, Callable[[], bool]] = {
    "bounds, replaced": lambda: code(
        lambda d: fd.private_bounds(d, epsilon=1.0, neighboring_relation=REPLACE).value, relation=REPLACE
    ),
    "bounds, several rows": lambda: code(
        lambda d: fd.private_bounds(d, epsilon=1.0, max_contributions=3).value, rows=3, data=SAME
    ),
    "bounds beyond the edges": lambda: code(
        lambda d: fd.private_bounds(d, epsilon=1.0).value, data=np.array([1e300, -1e300, 1e-300, 1.0, 0.0])
    ),
    "different values": lambda: code(different, rows=3, data=np.arange(8.0)),
    "most frequent, replaced": lambda: code(most_frequent, relation=REPLACE, data=SAME),
    "columns of units": lambda: of_columns(fd.private_count),
    "different values of units": lambda: of_columns(fd.private_distinct, rows=1),
    "means of units, replaced": lambda: of_columns(
        lambda x, **options: fd.private_mean(x, bounds=(0, 10), **options), replaces=True
    ),
    "rows of a unit": lambda: of_rows_of_units(),
    "largest": lambda: code(largest),
    "largest, several rows": lambda: code(lambda d: largest(d, max_contributions=3), rows=3, data=SAME),
    "counts of groups": lambda: of_units(lambda groups: groups.count(epsilon=1.0).value),
    "counts of groups, one row a unit": lambda: of_units(lambda groups: groups.count(epsilon=1.0).value, rows=1),
    "sums of groups": lambda: of_units(lambda groups: groups.sum("x", bounds=(0.0, 10.0), epsilon=1.0).value),
    "different values of groups": lambda: of_units(lambda groups: groups.distinct("who", epsilon=1.0).value),
    "bounds of groups": lambda: of_units(lambda groups: groups.bounds("x", epsilon=1.0).value),
    "counts of groups, bounded": lambda: of_bounded_units(4, [0, 1, 2, 3], groups_per_unit=2, rows_per_group=2),
    "counts of groups, several rows": lambda: of_bounded_units(3, [0, 1, 2], rows_per_group=2),
    "counts of the only group": lambda: of_bounded_units(3, [0]),
    "medians of groups": lambda: of_units(lambda groups: groups.median("x", bounds=(0.0, 10.0), epsilon=1.0).value),
    "tops of groups": lambda: of_units(lambda groups: groups.top("x", 2, categories=[9.0, 7.0], epsilon=1.0).value),
    "means of groups": lambda: of_units(lambda groups: groups.mean("x", bounds=(0.0, 10.0), epsilon=1.0).value),
}
"""Whether an audit raises an alarm: of runs with the same noise, so that chance takes no part."""
