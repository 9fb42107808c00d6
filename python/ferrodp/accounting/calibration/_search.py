"""Search for the edge between too much and enough, ending on the proven side.

What is searched is monotone: with more noise, fewer repetitions or a smaller sampling probability, δ(ε) never grows
(each is post-processing, or a prefix, of the other). A *margin* is ln of a bound on the cost minus ln of the target:
one bound is above the true cost and one below, so an upper margin ≤ 0 proves "enough" and a lower margin > 0 proves
"too much". In between neither is proven, and the answer states how wide that range is.

Root finding only proposes; a value is returned because its own upper margin was seen to be ≤ 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ferrodp._numerics.rounding import narrow


class Margins(NamedTuple):
    """How far, in logarithms, the certified bounds of a cost are above its target."""

    lower: float
    upper: float


class Edge(NamedTuple):
    """The first point proven to be enough, and the last one proven to be too little, or None if none was found."""

    enough: float
    too_little: float | None


_SMALLEST_LOG = -745.0  # ln of a cost that underflows: what root finding sees instead of −∞
_TOLERANCE = 2e-9  # in ln x: closer is not requested
_ROUGH_TOLERANCE = 1e-3  # of rough answers
_FIRST_STEP = 0.05  # in ln x: away from a guess
_MAX_STEPS = 60


Asked = Callable[[float], Margins]


def find_edge(margins: Asked, start: float, low: float, high: float, rough: Asked | None = None) -> Edge | None:
    """Return where an upper margin that falls with t turns ≤ 0, for t from `low` to `high`; None if it never does.

    `rough` gives wider margins for less work: it finds the neighborhood, and nothing else rests on it.
    """
    step = _FIRST_STEP
    if rough is not None:
        start, step = _neighborhood(rough, start, low, high), 2.0 * _ROUGH_TOLERANCE
    known: dict[float, Margins] = {}

    def margin(t: float) -> float:
        if t not in known:
            known[t] = margins(t)
        return min(max(known[t].upper, _SMALLEST_LOG), -_SMALLEST_LOG)

    bracket = _bracket(margin, min(max(start, low), high), low, high, step)
    if bracket is None:
        return None
    narrow(margin, *bracket, _TOLERANCE)
    enough = min(t for t, seen in known.items() if seen.upper <= 0.0)
    return Edge(enough, _proven_too_little(margins, known, enough, low))


def _neighborhood(rough: Asked, start: float, low: float, high: float) -> float:
    """Return about where the edge lies; the safest point if none is enough."""

    def margin(t: float) -> float:
        return min(max(rough(t).upper, _SMALLEST_LOG), -_SMALLEST_LOG)

    bracket = _bracket(margin, min(max(start, low), high), low, high, _FIRST_STEP)
    return high if bracket is None else narrow(margin, *bracket, _ROUGH_TOLERANCE)[1]


def _bracket(
    margin: Callable[[float], float], start: float, low: float, high: float, step: float
) -> tuple[float, float] | None:
    """Return a point that is not proven and one beyond it that is; twice the same if the first is already enough."""
    t = start
    if margin(t) <= 0.0:
        enough = t
        while t > low:
            t = max(t - step, low)
            if margin(t) > 0.0:
                return t, enough
            enough, step = t, 3.0 * step
        return enough, enough
    too_little = t
    while t < high:
        t = min(t + step, high)
        if margin(t) <= 0.0:
            return too_little, t
        too_little, step = t, 3.0 * step
    return None


def _proven_too_little(
    margins: Callable[[float], Margins], known: dict[float, Margins], enough: float, low: float
) -> float | None:
    """Return the largest known point whose lower margin is > 0, stepping away from the edge until there is one."""
    proven = [t for t, seen in known.items() if t < enough and seen.lower > 0.0]
    nearest = max(proven, default=-math.inf)
    step = _TOLERANCE
    for _ in range(_MAX_STEPS):
        t = max(enough - step, low)
        if t <= nearest:
            return nearest
        if t not in known:
            known[t] = margins(t)
        if known[t].lower > 0.0:
            return t
        if t == low or known[t].lower == -math.inf:  # nothing below, or an accountant without lower bounds
            return nearest if proven else None
        step *= 8.0
    return nearest if proven else None
