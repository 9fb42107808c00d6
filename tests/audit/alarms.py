"""Whether an audit raises an alarm, at a level at which 200 runs of all audits are not expected to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ferrodp.audit import _binomial, audit_callable, audit_code, audit_independence, audit_mechanism
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation

RUNS, TESTS = 200, 500
"""Runs that are to pass, and more tests than one run has."""
LEVEL = 1e-3 / (RUNS * TESTS)
CONFIDENCE = 1.0 - LEVEL


def mechanism(made: Any, epsilon: float | None = None, delta: float = 1e-5, draws: int = 600_000) -> bool:
    report = audit_mechanism(made, epsilon=epsilon, delta=delta, draws=draws, confidence=CONFIDENCE)
    return report.violation or report.law_holds is False


def function(release_many: Callable[..., object], neighbors: tuple[object, object], **claim: float) -> bool:
    claim = {"epsilon": 1.0, "delta": 0.0, "draws": 30_000, "confidence": CONFIDENCE} | claim
    return audit_callable(None, neighbors=neighbors, release_many=release_many, **claim).violation  # type: ignore[arg-type]


def independence(release_many: Callable[[int], Any], draws: int = 1 << 20) -> bool:
    return audit_independence(release_many, draws=draws, confidence=CONFIDENCE).violation


def rates(outputs: Any, probabilities: Mapping[int, float]) -> bool:
    """Whether outputs have other rates than these, or others occur: by exact binomial bounds."""
    found = np.asarray(outputs)
    share = LEVEL / (2 * len(probabilities))
    known = 0
    for value, p in probabilities.items():
        hits = int(np.count_nonzero(found == value))
        known += hits
        if _binomial.lower_bound(hits, found.size, share) > p + 1e-9:
            return True
        if _binomial.upper_bound(hits, found.size, share) < p - 1e-9:
            return True
    return known != found.size


REPLACE = NeighboringRelation.REPLACE_ONE
VALUES = np.array([0.0, 3.0, 9.0, 30.0, -40.0, 9.0])


def code(
    run: Callable[[np.ndarray], object],
    data: np.ndarray = VALUES,
    *,
    rows: int = 1,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    epsilon: float = 1.0,
) -> bool:
    others = [np.delete(data, range(i, min(i + rows, len(data)))) for i in range(len(data) - rows + 1)]
    if relation is REPLACE:
        others = [
            np.concatenate([data[:i], [to], data[i + 1 :]]) for i in range(len(data)) for to in (-50.0, 0.0, 50.0)
        ]
    return any(
        audit_code(
            run,
            data,
            others,
            accounted=EpsilonDeltaEvent(epsilon=epsilon),
            neighboring_relation=relation,
        ).violation
        for _ in range(3)
    )
