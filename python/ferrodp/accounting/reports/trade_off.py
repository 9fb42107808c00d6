"""Bounds on attackers from δ(ε) for all ε: hypothesis tests between neighboring datasets.

A test that raises a false alarm with probability x detects with probability at most

    min over ε ≥ 0 of  δ(ε) + e^ε·x  and  1 − e^{−ε}·(1 − δ(ε) − x)

if δ(ε) holds in both directions (Dong, Roth, Su, "Gaussian differential privacy", JRSS B 2022, Proposition 2.12;
Wasserman, Zhou, "A statistical framework for differential privacy", JASA 2010, Theorem 2.4). Each ε gives a valid
bound, so a search for the best one cannot err; its value is enclosed in decimals and rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import arithmetic, float_up, point
from ferrodp.errors import InvalidArray, InvalidType

_DIGITS = 80  # floats as small as 1e-20 are exact
_LARGEST = 700.0
_STEPS = 60


class _HasDelta(Protocol):
    def delta(self, epsilon: float) -> float: ...


PrivacyCurve: TypeAlias = "_HasDelta | Callable[[float], float]"
"""An accountant, or a function that returns an upper bound on δ for ε ≥ 0."""


def true_positive_rate(curve: Any, *, false_positive_rate: Real) -> float:
    """Return an upper bound on the detection rate of every attack with this rate of false alarms, rounded up.

    Parameters
    ----------
    curve : accountant or callable
        An accountant, whose ``delta`` is asked, or a function that returns an upper bound on δ(ε) for ε ≥ 0, in both
        directions.
    false_positive_rate : float
        In [0, 1]. Rounded up if not exactly representable.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    About 100 evaluations of δ. For Gaussian mechanisms the exact answer is Φ(Φ⁻¹(x) + μ), which this meets up to the
    rounding: the best ε is where the optimal test has its threshold.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, GdpAccountant
    >>> from ferrodp.accounting.reports import true_positive_rate
    >>> accountant = GdpAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=1.0))
    >>> round(true_positive_rate(accountant, false_positive_rate=0.001), 6)
    0.018298
    """
    rate = _validate.probability("false_positive_rate", false_positive_rate)
    return _bound(_memoized(curve), rate)


def trade_off_curve(curve: Any, false_positive_rates: ArrayLike) -> NDArray[np.float64]:
    """Return lower bounds on the rate of misses, for each rate of false alarms: the trade-off function f, from below.

    Parameters
    ----------
    curve : accountant or callable
        As for `true_positive_rate`.
    false_positive_rates : array of float
        Rates in [0, 1].

    Returns
    -------
    array of float
        One minus the bound of `true_positive_rate`, rounded down; of the same shape.

    Raises
    ------
    InvalidArray, InvalidType
        If a rate is outside [0, 1], or `curve` is neither an accountant nor a function.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, GdpAccountant
    >>> accountant = GdpAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=1.0))
    >>> trade_off_curve(accountant, [0.0, 0.5, 1.0]).round(4)
    array([1.    , 0.1587, 0.    ])
    """
    rates = np.asarray(false_positive_rates, dtype=np.float64)
    if not ((rates >= 0.0) & (rates <= 1.0)).all():
        raise InvalidArray("false_positive_rates must be in [0, 1]")
    delta = _memoized(curve)
    misses = [math.nextafter(1.0 - _bound(delta, float(rate)), -math.inf) for rate in rates.ravel()]
    return np.maximum(np.array(misses, dtype=np.float64), 0.0).reshape(rates.shape)


def membership_advantage(curve: Any) -> float:
    """Return an upper bound on detection rate minus rate of false alarms, over all attacks: δ(0), rounded up.

    Parameters
    ----------
    curve : accountant or callable
        As for `true_positive_rate`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidType
        If `curve` is neither an accountant nor a function.

    Notes
    -----
    It is the total variation distance between the outputs on neighbors (Yeom, Giacomelli, Fredrikson, Jha, "Privacy
    risk in machine learning", CSF 2018, Definition 4, for the worst case instead of the mean).

    Examples
    --------
    >>> from ferrodp.accounting import laplace_delta
    >>> membership_advantage(lambda epsilon: laplace_delta(epsilon=epsilon, noise_multiplier=2.0))
    0.22119921692859515
    """
    return _memoized(curve)(0.0)


def _memoized(curve: Any) -> Callable[[float], float]:
    function = curve.delta if hasattr(curve, "delta") else curve
    if not callable(function):
        raise InvalidType(f"curve must be an accountant or a function of epsilon, got {type(curve).__name__}")
    known: dict[float, float] = {}

    def delta(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = min(_validate.probability("delta of curve", function(epsilon)), 1.0)
        return known[epsilon]

    return delta


def _bound(delta: Callable[[float], float], rate: float) -> float:
    """Return the least of the bounds at the best ε of either kind, at ε = 0, and 1."""
    steep = _LARGEST if not rate else min(-math.log(rate), _LARGEST)
    candidates = {0.0, _lowest(lambda e: delta(e) + math.exp(e) * rate, steep)}
    candidates.add(_lowest(lambda e: -math.exp(-e) * (1.0 - delta(e) - rate), _LARGEST))
    r, best = arithmetic(_DIGITS), 1.0
    for epsilon in candidates:
        failure, power = point(delta(epsilon)), r.exp(point(epsilon)) if epsilon else point(1)
        direct = r.add(failure, r.mul(power, point(rate)))
        indirect = r.sub(point(1), r.div(r.sub(r.sub(point(1), failure), point(rate)), power))
        best = min(best, float_up(direct.upper), float_up(indirect.upper))
    return max(best, rate)


def _lowest(function: Callable[[float], float], high: float) -> float:
    """Return about where a function on [0, high] that falls and then rises is least, by golden sections."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    low, left, right = 0.0, high - ratio * high, ratio * high
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if high - low <= 1e-9 * max(high, 1e-6):
            break
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right
