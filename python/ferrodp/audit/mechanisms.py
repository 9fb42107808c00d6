"""Test of a mechanism of this library, at the speed of its noise."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.audit import _test
from ferrodp.audit._joint import Rates
from ferrodp.audit._law import Law, Tails, discrete_gaussian, discrete_laplace, gaussian, laplace
from ferrodp.audit._regions import Outputs, Region
from ferrodp.audit._test import Stated
from ferrodp.audit.report import AuditReport
from ferrodp.errors import InvalidType
from ferrodp.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)

_CHUNK = 1 << 16
"""Of draws at a time, which stay in the cache of a core."""


def audit_mechanism(
    mechanism: GaussianMechanism | LaplaceMechanism | DiscreteGaussianMechanism | DiscreteLaplaceMechanism,
    *,
    delta: Real,
    draws: int,
    epsilon: Real | None = None,
) -> AuditReport:
    """Test whether the noise of a mechanism contradicts its (ε, δ), and whether it has the stated law.

    The neighbors are 0 and the sensitivity. Outputs are drawn, compared and counted in chunks; none is kept.

    Parameters
    ----------
    mechanism : GaussianMechanism, LaplaceMechanism, DiscreteGaussianMechanism or DiscreteLaplaceMechanism
        What draws.
    delta : float
        Of the claim; in [0, 1).
    draws : int
        Of each neighbor; at least 100.
    epsilon : float, optional
        Of the claim; by default what the mechanism states for `delta`.

    Returns
    -------
    AuditReport
        `law_holds` is whether the rates of both tails, beyond several multiples of the scale, are as the law states; of
        whole numbers, also those of the smallest ones and of the even ones. If they are, it is false in one run of a
        thousand at most.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or `mechanism` is of another type.

    Notes
    -----
    For real noise, thresholds at which the stated law shows most are among the events to choose from. A vector of so
    many values is released at once: each coordinate's noise has the law of a single release.

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
    scale, shift, is_whole = _described(mechanism)
    claimed = mechanism.epsilon(failure) if epsilon is None else _validate.non_negative("epsilon", epsilon)
    tails = Tails(_law_of(mechanism), float(scale), is_whole)
    dtype: Any = np.int64 if is_whole else np.float32
    begun: set[int] = set()

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
            found = drawn_at_once(size).release(exact[:size], out=buffer[:size], threads=1)
            if side == 0 and is_counted:
                tails.count(found)
            yield Outputs(found[None, :], "numbers of shape ()")

    stated = None if is_whole else _thresholds(mechanism, scale, shift, failure, number)
    report = _test.run(
        draw,
        claim=repr(mechanism),
        neighbors=("0", f"{shift:g}"),
        epsilon=claimed,
        delta=failure,
        draws=number,
        stated=stated,
        workers=min(_cores(), max(number // (16 * _CHUNK), 1)),
    )
    return dataclasses.replace(report, law_holds=tails.hold())


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
    raise InvalidType(f"mechanism must be one that adds noise, got {type(mechanism).__name__}")


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
        Stated(Region("below", 0, shift - best * scale), rates),
        Stated(Region("above", 0, best * scale), rates),
    )
