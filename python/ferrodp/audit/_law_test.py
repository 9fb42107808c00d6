"""Test whether noise has the stated law, by rates of events with exact binomial bounds."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.audit import _binomial

Law: TypeAlias = Callable[[float, float], tuple[float, float]]
"""Takes x and the scale and returns bounds, below and above, on P[noise ≥ x]."""

MAX_DRAWS = 1 << 27
"""That the law is tested on, about: a standard deviation that is off by 0.0003 of itself shows in so many."""
_PLACES = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 13.0)
_SMALLEST = 3
_SUMMED_SCALE = 1e4
_ERROR = 1e-9
_CATEGORIES = 64
_GRID = 2.0**-19
"""Real noise is rounded to a grid that is finer than so many scales."""


def gaussian(x: float, scale: float) -> tuple[float, float]:
    """Return P[noise ≥ x], twice."""
    found = 0.5 * math.erfc(x / scale / math.sqrt(2.0))
    return found, found


def laplace(x: float, scale: float) -> tuple[float, float]:
    """Return P[noise ≥ x], twice."""
    found = 0.5 * math.exp(-x / scale) if x >= 0.0 else 1.0 - 0.5 * math.exp(x / scale)
    return found, found


def discrete_laplace(x: float, scale: float) -> tuple[float, float]:
    """Return bounds on P[noise ≥ x] at whole numbers."""
    if x <= 0.0:
        low, high = discrete_laplace(1.0 - x, scale)
        return 1.0 - high, 1.0 - low
    found = math.exp(-x / scale) / (1.0 + math.exp(-1.0 / scale))
    return found * (1.0 - _ERROR), found * (1.0 + _ERROR)


def discrete_gaussian(x: float, scale: float) -> tuple[float, float]:
    """Return bounds on P[noise ≥ x] at whole numbers: sums, or integrals between which they lie."""
    if x <= 0.0:
        low, high = discrete_gaussian(1.0 - x, scale)
        return 1.0 - high, 1.0 - low
    if scale > _SUMMED_SCALE:
        return gaussian(x, scale)[0] * (1.0 - _ERROR), gaussian(x - 1.0, scale)[0] * (1.0 + _ERROR)
    tails = _tails(scale)
    found = float(tails[min(int(x), tails.size - 1)])
    return found * (1.0 - _ERROR), found * (1.0 + _ERROR)


@functools.lru_cache(maxsize=8)
def _tails(scale: float) -> npt.NDArray[np.float64]:
    """Return P[noise ≥ x] of a discrete Gaussian from 0 on."""
    x = np.arange(math.ceil(38.0 * scale) + 2)
    weights = np.exp(-0.5 * (x / scale) ** 2)
    beyond: npt.NDArray[np.float64] = np.cumsum(weights[::-1])[::-1] / (2.0 * weights.sum() - 1.0)
    return beyond


class Event(NamedTuple):
    """Noise is at least a number, at most its negative, that number itself, or has a binary digit that is 0."""

    what: str
    at: float
    low: float
    high: float

    def count(self, noise: npt.NDArray[Any]) -> int:
        """Return how many are in it."""
        if self.what == "digit":
            return int(np.count_nonzero((noise & (1 << int(self.at))) == 0))
        at = noise.dtype.type(self.at)
        if self.what == "equal":
            return int(np.count_nonzero(noise == at))
        return int(np.count_nonzero(noise >= at if self.what == "above" else noise <= -at))


class Tails:
    """How often noise is in each of some events."""

    def __init__(self, events: list[Event]) -> None:
        self.events, self.total, self.counts = events, 0, [0] * len(events)
        self._lock = threading.Lock()

    def count(self, noise: npt.NDArray[Any]) -> None:
        """Count a chunk, unless there were enough; from any thread."""
        if self.total >= MAX_DRAWS:
            return
        found = [event.count(noise) for event in self.events]
        with self._lock:
            self.total += noise.size
            self.counts = [count + more for count, more in zip(self.counts, found, strict=True)]

    def hold(self, level: float) -> bool:
        """Return whether all rates are within exact bounds of the stated ones; wrongly not with probability `level`."""
        share = level / (2 * len(self.events))
        return all(
            _binomial.lower_bound(hits, self.total, share) <= event.high
            and event.low <= _binomial.upper_bound(hits, self.total, share)
            for event, hits in zip(self.events, self.counts, strict=True)
        )


def real_events(law: Law, scale: float) -> list[Event]:
    """Return the events of real noise: tails."""
    found = []
    for place in _PLACES:
        rounded = _GRID * max(place, 1.0)
        low, high = law(place + rounded, 1.0)[0], law(place - rounded, 1.0)[1]
        found += [Event(what, place * scale, low, high) for what in ("above", "below")]
    return found


def whole_events(law: Law, scale: float) -> list[Event]:
    """Return the events of whole noise: tails, small numbers, and last digits."""
    places = sorted({max(math.ceil(place * scale), 1) for place in _PLACES})
    found = [Event(what, place, *law(place, scale)) for place in places for what in ("above", "below")]
    for number in range(-_SMALLEST, _SMALLEST + 1):
        this, beyond = law(abs(number), scale), law(abs(number) + 1.0, scale)
        found.append(Event("equal", number, max(this[0] - beyond[1], 0.0), this[1] - beyond[0]))
    if scale <= _SUMMED_SCALE:
        even = _even(law, scale)
        found.append(Event("digit", 0.0, even - 1e-6, even + 1e-6))
    return found + _digits(scale)


def _digits(scale: float) -> list[Event]:
    """Return that digits are 0: half of the time, as far as noise is spread out.

    The law falls on both sides of 0, so numbers with the digit 0 and with the digit 1, in stretches of w = 2^digit that
    take turns, differ in their probabilities by w times the largest one at most, which is below 1/(2·scale).
    """
    last = min(math.floor(math.log2(max(scale, 1.0))) - 6, 61)
    uneven = [(digit, 2.0**digit / scale) for digit in range(last + 1)]
    return [Event("digit", float(digit), 0.5 - most, 0.5 + most) for digit, most in uneven]


def answer_events(truth: float, categories: int) -> list[Event]:
    """Return the first categories that come out for the answer 0, which stays with probability `truth`."""
    lie = (1.0 - truth) / (categories - 1)
    rates = [truth, *[lie] * (min(categories, _CATEGORIES) - 1)]
    return [Event("equal", float(i), rate * (1.0 - _ERROR), rate * (1.0 + _ERROR)) for i, rate in enumerate(rates)]


def _even(law: Law, scale: float) -> float:
    """Return P[noise is even], about: what the odd numbers leave."""
    last = math.ceil(38.0 * scale) + 2
    beyond = np.array([law(float(x), scale)[0] for x in range(1, last)])
    return float(1.0 - 2.0 * (beyond[0:-1:2] - beyond[1::2][: beyond[0:-1:2].size]).sum())
