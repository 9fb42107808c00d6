"""Test of a mechanism of this library, at the speed of its noise."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.audit import _region_test
from ferrodp.audit._events.outputs import Outputs
from ferrodp.audit._events.regions import Region
from ferrodp.audit._events.statistics import Column
from ferrodp.audit._joint import Rates
from ferrodp.audit._law_test import (
    Event,
    Law,
    Tails,
    answer_events,
    discrete_gaussian,
    discrete_laplace,
    gaussian,
    laplace,
    real_events,
    whole_events,
)
from ferrodp.audit._region_test import Stated
from ferrodp.audit.power import confidence_of
from ferrodp.audit.report import AuditReport
from ferrodp.errors import InvalidType
from ferrodp.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)

Audited: TypeAlias = (
    GaussianMechanism | LaplaceMechanism | DiscreteGaussianMechanism | DiscreteLaplaceMechanism | RandomizedResponse
)

_CHUNK = 1 << 16
"""Of draws at a time, which stay in the cache of a core."""


def audit_mechanism(
    mechanism: Audited,
    *,
    delta: Real,
    draws: int,
    epsilon: Real | None = None,
    confidence: Real = 0.999,
) -> AuditReport:
    """Test whether the noise of a mechanism contradicts its (ε, δ), and whether it has the stated law.

    The neighbors are 0 and the sensitivity, or the answers 0 and 1. Outputs are drawn, compared and counted in chunks;
    none is kept.

    Parameters
    ----------
    mechanism : mechanism that adds noise, or RandomizedResponse
        What draws: `GaussianMechanism`, `LaplaceMechanism`, `DiscreteGaussianMechanism`, `DiscreteLaplaceMechanism` or
        `RandomizedResponse`.
    delta : float
        Of the claim; in [0, 1).
    draws : int
        Of each neighbor; at least 100.
    epsilon : float, optional
        Of the claim; by default what the mechanism states for `delta`.
    confidence : float
        Of `violation` and of `law_holds`; in [0.5, 1). A true claim is called violated with probability
        1 − confidence at most. For tests that run every night, near 1; see Notes.

    Returns
    -------
    AuditReport
        `law_holds` is whether the rates of both tails, beyond several multiples of the scale, are as the law states; of
        whole numbers, also those of the smallest ones and of binary digits; of answers, those of the first 64
        categories. If they are, it is false with probability
        1 − confidence at most.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or `mechanism` is of another type.

    Notes
    -----
    For real noise, thresholds at which the stated law shows most are among the events to choose from. A vector of so
    many values is released at once: each coordinate's noise has the law of a single release. Whether coordinates are
    independent is tested by `audit_independence`.

    Of m tests in each of n nights, with ``confidence=1 - 1e-3 / (m * n)`` none raises a false alarm, but with
    probability 0.1 %; that takes a few times as many draws. See also `keep_evidence`.

    Examples
    --------
    >>> from ferrodp import GaussianMechanism
    >>> mechanism = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0)
    >>> report = audit_mechanism(mechanism, epsilon=1.0, delta=1e-5, draws=1_000_000)
    >>> report.violation, report.law_holds, 0.5 < report.epsilon_lower_bound < 1.0
    (False, True, True)
    """
    failure = _validate.probability("delta", delta)
    number = _validate.count("draws", draws, minimum=100)
    if failure >= 1.0:
        raise _validate.out_of_domain("delta", "in [0, 1)", delta)
    level = 1.0 - confidence_of(confidence)
    scale, shift, is_whole = _described(mechanism)
    claimed = mechanism.epsilon(failure) if epsilon is None else _validate.non_negative("epsilon", epsilon)
    tails = Tails(_events(mechanism))
    dtype: Any = np.int64 if is_whole else np.float32
    begun: set[int] = set()
    has_out = not isinstance(mechanism, RandomizedResponse)

    def drawn_at_once(size: int) -> Any:
        if isinstance(mechanism, DiscreteGaussianMechanism):
            return dataclasses.replace(mechanism, dimension=size)
        return mechanism

    def draw(side: int, n: int) -> Iterator[Outputs]:
        step = min(_CHUNK if side in begun else n, n)  # the first draws choose an event, from all of them at once
        is_counted = side in begun
        begun.add(side)
        exact, buffer = np.full(step, shift if side else 0, dtype=dtype), np.empty(step, dtype=dtype)
        for first in range(0, n, step):
            size = min(step, n - first)
            found = drawn_at_once(size).release(exact[:size], threads=1, **({"out": buffer[:size]} if has_out else {}))
            if side == 0 and is_counted:
                tails.count(found)
            yield Outputs(found[None, :], found.dtype.name)

    stated = None if is_whole else _thresholds(mechanism, scale, shift, failure, number)
    report = _region_test.run(
        draw,
        claim=repr(mechanism),
        neighbors=("0", f"{shift:g}"),
        epsilon=claimed,
        delta=failure,
        draws=number,
        level=level,
        stated=stated,
        workers=min(_cores(), max(number // (16 * _CHUNK), 1)),
    )
    return dataclasses.replace(report, law_holds=tails.hold(level))


def _described(mechanism: Any) -> tuple[float, float, bool]:
    """Return the scale of the noise, the sensitivity, and whether outputs are integers."""
    if isinstance(mechanism, GaussianMechanism):
        return mechanism.standard_deviation, mechanism.l2_sensitivity, False
    if isinstance(mechanism, LaplaceMechanism):
        return mechanism.scale, mechanism.l1_sensitivity, False
    if isinstance(mechanism, DiscreteGaussianMechanism):
        return float(mechanism.scale), math.floor(mechanism.l2_sensitivity), True
    if isinstance(mechanism, DiscreteLaplaceMechanism):
        return float(mechanism.scale), mechanism.l1_sensitivity, True
    if isinstance(mechanism, RandomizedResponse):
        return 1.0, 1, True
    raise InvalidType(f"mechanism must be one that adds noise or randomizes answers, got {type(mechanism).__name__}")


def _events(mechanism: Any) -> list[Event]:
    """Return the events by which the law is tested."""
    if isinstance(mechanism, RandomizedResponse):
        return answer_events(mechanism.truth_probability, mechanism.num_categories)
    scale, _, is_whole = _described(mechanism)
    return (whole_events if is_whole else real_events)(_law_of(mechanism), float(scale))


def _law_of(mechanism: Any) -> Law:
    """Return the bounds on P[noise ≥ x] that the stated law implies."""
    if isinstance(mechanism, (GaussianMechanism, LaplaceMechanism)):
        return gaussian if isinstance(mechanism, GaussianMechanism) else laplace
    return discrete_gaussian if isinstance(mechanism, DiscreteGaussianMechanism) else discrete_laplace


def _cores() -> int:
    """Return how many threads may run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _thresholds(mechanism: Any, scale: float, shift: float, delta: float, draws: int) -> tuple[Stated, Stated]:
    """Return the thresholds at which the stated law shows the largest ε with so many draws, for both directions."""
    law, best, most, rates = _law_of(mechanism), 0.0, -math.inf, Rates(0.0, 0.0)
    for i in range(-300, 3000):
        z = 0.01 * i
        found = Rates(law(z - shift / scale, 1.0)[1], law(z, 1.0)[1])
        promise = found.promise(draws, delta)
        if promise > most:
            best, most, rates = z, promise, found
    return (
        Stated(Region("below", Column(0), shift - best * scale), rates),
        Stated(Region("above", Column(0), best * scale), rates),
    )
