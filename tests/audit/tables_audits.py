"""Audits of contingency tables: replayed without each of their rows, or with another one in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from alarms import REPLACE

import ferrodp as fd
from ferrodp.audit import audit_code
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation

ROWS = np.array([[0, 0, 0], [1, 2, 0], [1, 1, 1], [0, 2, 1], [1, 2, 1], [1, 2, 1], [1, 2, 1]])
PUBLIC = {"a": range(2), "b": range(3), "c": range(2)}


def of_rows(rows: int = 1, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> bool:
    """Whether tables move farther than they state where rows leave, or are replaced."""

    def run(table: np.ndarray) -> Any:
        frame = dict(zip("abc", table.T, strict=True))
        options = {"epsilon": 1.0, "delta": 1e-6, "max_contributions": rows, "neighboring_relation": relation}
        return fd.private_marginals(frame, 2, categories=PUBLIC, **options).table(("a", "b"))

    if relation is REPLACE:
        cells = [(0, 0, 0), (1, 2, 1), (0, 2, 1), (1, 0, 0)]
        others = [np.vstack([ROWS[:i], [to], ROWS[i + 1 :]]) for i in range(len(ROWS)) for to in cells]
    else:
        others = [np.delete(ROWS, range(i, i + rows), axis=0) for i in range(len(ROWS) - rows + 1)]
    accounted = EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)
    return any(
        audit_code(run, ROWS, others, accounted=accounted, neighboring_relation=relation).violation for _ in range(3)
    )


AUDITS: dict[str, Callable[[], bool]] = {
    "tables": of_rows,
    "tables, several rows": lambda: of_rows(3),
    "tables, replaced": lambda: of_rows(relation=REPLACE),
}
"""Whether an audit raises an alarm: of runs with the same noise, so that chance takes no part."""
