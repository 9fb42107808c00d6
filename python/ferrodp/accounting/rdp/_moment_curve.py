"""A Rényi curve from bounds on the moments at whole orders.

ln A(α) = (α − 1)·ρ(α), A(α) the moment E_Q[(dP/dQ)^α], is convex in α and 0 at 1 ([EH14] Theorem 11 and Corollary 2).
So bounds on it at two orders give one at every order between them, by linear interpolation; the larger one of two
directions is bounded by interpolating the larger bounds. Orders are whole up to 64, and then 2 % apart: that costs less
than 1/3000 where ρ grows like α.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence

import numpy as np

from ferrodp.accounting._arrays import Array

LARGEST = 2**16
"""For larger orders only the other bound is used."""
_UP = 1.0 + 2.0**-48
"""Covers a quotient and an interpolation: fewer than ten roundings of positive numbers."""


def _places() -> list[int]:
    places = list(range(1, 65))
    while places[-1] < LARGEST:
        places.append(min(math.ceil(places[-1] * 1.02), LARGEST))
    return places


PLACES = _places()


class MomentCurve:
    """The Rényi curve from moments; call it with orders.

    Parameters
    ----------
    log_moment : callable
        Takes a whole order of `PLACES`, ≥ 2, and returns an upper bound on ln A in both directions, ≥ 0.
    otherwise : callable
        Takes orders, 1 ≤ α ≤ ∞, and returns bounds on the divergences that hold there anyway.
    """

    def __init__(self, log_moment: Callable[[int], float], otherwise: Callable[[Array], Array]) -> None:
        self._log_moment = log_moment
        self._otherwise = otherwise
        self._known = {1: 0.0}

    def __call__(self, orders: Array) -> Array:
        """Return upper bounds on the divergences, in both directions."""
        found = self._otherwise(orders).copy()
        for index, order in enumerate(orders.tolist()):
            if order <= LARGEST:
                found[index] = min(found[index], self._between(order))
        return found

    def _between(self, order: float) -> float:
        if order < 2.0:  # there is a line from 1 on: it rises at the rate of order 2
            return self._at(2) * _UP
        index = bisect.bisect_right(PLACES, order) - 1
        low = PLACES[index]
        if low == order:
            return self._at(low) / (order - 1.0) * _UP
        high = PLACES[index + 1]
        below, above = self._at(low), self._at(high)
        if above == math.inf:
            return math.inf
        share = (order - low) / (high - low)
        return ((1.0 - share) * below + share * above) / (order - 1.0) * _UP

    def _at(self, order: int) -> float:
        if order not in self._known:
            self._known[order] = self._log_moment(order)
        return self._known[order]


_EXACT = 256
_LOG_FACTORIALS = np.array([math.log(math.factorial(n)) for n in range(_EXACT)])


def log_factorials(numbers: Array) -> Array:
    """Return ln n! within 2⁻⁵⁰·(1 + ln n!): from integers, or by Stirling's series, whose rest is < 1/1680n⁷."""
    small = _LOG_FACTORIALS[np.minimum(numbers, _EXACT - 1.0).astype(np.int64)]
    n = np.maximum(numbers, float(_EXACT))
    series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * n * n)) / (n * n)) / n
    return np.where(numbers < _EXACT, small, n * np.log(n) - n + 0.5 * np.log(2.0 * math.pi * n) + series)


def log_binomial_terms(order: int, log_probability: float) -> tuple[Array, ...]:
    """Return the parts of ln C(n, j)·qʲ for 2 ≤ j ≤ n."""
    j = np.arange(2.0, order + 1.0)
    factorials = log_factorials(np.arange(order + 1.0))
    whole = np.broadcast_to(factorials[order], j.shape)
    return whole, -factorials[2:], -factorials[: order - 1][::-1], j * log_probability


def log_sum(parts: Sequence[Array], unit: float) -> float:
    """Return ln Σ e^{sum of parts}, each term raised by so many units of the sizes of its parts."""
    logs, sizes = np.zeros(parts[0].shape), np.ones(parts[0].shape)
    for part in parts:
        logs = logs + part
        sizes = sizes + np.where(np.isfinite(part), np.abs(part), 0.0)
    logs = logs + unit * sizes
    top = float(logs.max())
    if not -math.inf < top < math.inf:
        return top
    return top + math.log(float(np.exp(logs - top).sum()) * (1.0 + 2.0**-44)) + unit * abs(top)


def log_one_plus(log: float) -> float:
    """Return ln(1 + eˣ), rounded up."""
    if log == -math.inf:
        return 0.0
    if log > 700.0:
        return (log + math.exp(-700.0)) * (1.0 + 2.0**-50)
    return math.log1p(max(math.exp(log) * (1.0 + 2.0**-48), math.ulp(0.0))) * (1.0 + 2.0**-50)
