"""Test of a mechanism of this library, at the speed of its noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.audit import _binomial, _test
from ferrodp.audit._regions import Outputs, Region, score
from ferrodp.audit._test import Stated
from ferrodp.audit.report import AuditReport
from ferrodp.errors import InvalidType
from ferrodp.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)

_CHUNK = 1 << 18
_LEVEL = 1e-3
_PLACES = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)


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
        `law_holds` is whether the rates of both tails, beyond several multiples of the scale, are as the law states.

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
    chosen, _ = _test.split(number)
    tails = _Tails(scale)
    values = [np.full(_CHUNK, 0 if is_whole else 0.0, dtype=np.int64 if is_whole else np.float32)] * 2
    values[1] = np.full(_CHUNK, shift, dtype=values[0].dtype)
    drawn = [0, 0]

    def drawn_at_once(size: int) -> Any:
        if isinstance(mechanism, DiscreteGaussianMechanism):
            return dataclasses.replace(mechanism, dimension=size)
        return mechanism

    def draw(side: int, n: int) -> Iterator[Outputs]:
        for first in range(0, n, _CHUNK):
            found = drawn_at_once(min(_CHUNK, n - first)).release(values[side][: min(_CHUNK, n - first)])
            counted = drawn[side] >= chosen
            drawn[side] += found.size
            if side == 0 and counted and not is_whole:
                tails.count(np.asarray(found, dtype=np.float32))
            yield Outputs(np.asarray(found)[None, :], "numbers of shape ()")

    stated = None if is_whole else _thresholds(mechanism, scale, shift, failure, number)
    report = _test.run(
        draw,
        claim=repr(mechanism),
        neighbors=("0", f"{shift:g}"),
        epsilon=claimed,
        delta=failure,
        draws=number,
        stated=stated,
    )
    if is_whole:
        return report
    return dataclasses.replace(report, law_holds=tails.hold(mechanism))


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


def _survival(mechanism: Any, z: float) -> float:
    """Return P[noise ≥ z scales]."""
    if isinstance(mechanism, GaussianMechanism):
        return 0.5 * math.erfc(z / math.sqrt(2.0))
    return 0.5 * math.exp(-z) if z >= 0 else 1.0 - 0.5 * math.exp(z)


def _thresholds(mechanism: Any, scale: float, shift: float, delta: float, draws: int) -> tuple[Stated, Stated]:
    """Return the thresholds at which the stated law shows the largest ε with so many draws, for both directions."""
    best, most, rates = 0.0, -math.inf, (0.0, 0.0)
    for i in range(-300, 3000):
        z = 0.01 * i
        p, q = _survival(mechanism, z - shift / scale), _survival(mechanism, z)
        found = score(p, q, draws, draws, delta)
        if found > most:
            best, most, rates = z, found, (p, q)
    return (
        Stated(Region("below", 0, shift - best * scale), rates),
        Stated(Region("above", 0, best * scale), rates),
    )


class _Tails:
    """How often noise is beyond multiples of its scale, on both sides."""

    def __init__(self, scale: float) -> None:
        self.scale, self.total = scale, 0
        self.counts = np.zeros((2, len(_PLACES)), dtype=np.int64)

    def count(self, noise: npt.NDArray[Any]) -> None:
        """Count a chunk."""
        self.total += noise.size
        for i, place in enumerate(_PLACES):
            at = np.float32(place * self.scale)
            self.counts[0, i] += np.count_nonzero(noise >= at)
            self.counts[1, i] += np.count_nonzero(noise <= -at)

    def hold(self, mechanism: Any) -> bool:
        """Return whether all rates are within exact bounds of the stated ones; outputs are rounded to a fine grid."""
        share = _LEVEL / (2 * self.counts.size)
        for counts in self.counts.tolist():
            for place, hits in zip(_PLACES, counts, strict=True):
                rounded = 2.0**-19 * max(place, 1.0)
                low, high = (_survival(mechanism, place + sign * rounded) for sign in (1.0, -1.0))
                if not (
                    _binomial.lower_bound(hits, self.total, share) <= high
                    and low <= _binomial.upper_bound(hits, self.total, share)
                ):
                    return False
        return True
