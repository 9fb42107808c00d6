"""The largest number of repetitions that stays within a target, in few evaluations.

An evaluation is `over(count)`: the logarithm of a bound on the cost of `count` repetitions minus that of the target.
Root finding only proposes counts: the result was evaluated itself, and so was the next count.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ferrodp._base import _validate
from ferrodp._numerics.intervals import first
from ferrodp._numerics.rounding import narrow

Over = Callable[[int], float]

_LIMIT = _validate.MAX_COUNT + 1
_ROUGH = 1e-3
"""Relative distance to the edge below which rough answers do not help."""


def largest_count(over: Over, rough: Over | None = None) -> int:
    """Return a count with over(count) ≤ 0 < over(count + 1); 0 if one is too many, 2⁶³ − 1 if nothing is.

    `rough` is a cheaper evaluation with wider bounds, which finds the neighborhood.
    """
    over = functools.cache(over)
    near = _edge(over, 1, None, 0.0) if rough is None else _refined(over, _edge(rough, 1, None, _ROUGH))
    # mutant: remaining-count-one-too-many
    return first(lambda count: over(count) > 0.0, near, 1, _LIMIT) - 1


def _edge(over: Over, low: int, high: int | None, tolerance: float) -> int:
    """Return about the smallest count that is too many, from `low` to `high`; proposes only."""
    if over(low) > 0.0:
        return low
    if high is None:
        high = 8 * low
        while over(high) <= 0.0:
            if high == _validate.MAX_COUNT:
                return _LIMIT
            low, high = high, min(8 * high, _validate.MAX_COUNT)

    ends = {math.log(low): low, math.log(high): high}  # themselves: e^ln n rounds

    def at(t: float) -> float:
        return -min(max(over(ends.get(t) or round(math.exp(t))), -745.0), 745.0)

    safe, _ = narrow(at, math.log(low), math.log(high), max(0.5 / high, tolerance))
    return round(math.exp(safe)) + 1


def _refined(over: Over, near: int) -> int:
    """Return about the smallest count that is too many, next to `near`."""
    if near >= _LIMIT:
        return near
    width, low, high = 2.0 * _ROUGH, near, near
    if over(near) > 0.0:
        while low > 1 and over(low) > 0.0:
            high, low, width = low, max(1, math.floor(low * (1.0 - min(width, 0.9)))), 4.0 * width
    else:
        while over(high) <= 0.0:
            if high == _validate.MAX_COUNT:
                return _LIMIT
            low, high, width = high, min(math.ceil(high * (1.0 + width)), _validate.MAX_COUNT), 4.0 * width
    return _edge(over, low, high, 0.0) if low < high else low
