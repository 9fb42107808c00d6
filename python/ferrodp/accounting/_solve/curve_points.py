"""Bounds on ε or δ of a composition at many points, which share contours, compositions and orders.

Points are in the order of rising ε: that of falling δ. Where the shared work leaves a wide interval, some of the points
are asked by themselves, and the others lie between them: as a function of e^ε, δ is convex, a supremum of the lines
P(S) − e^ε·Q(S), so that the chord between two upper bounds is one, too; and it falls, so that the lower bound at a
larger ε holds at a smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._numerics.intervals import Bounds, Interval
from ferrodp._numerics.rounding import sqrt_down, sqrt_up
from ferrodp.accounting._laws.dominating_pairs import EventPairs, lower_parts, pairs_of
from ferrodp.accounting._solve import contour as _contour
from ferrodp.accounting._solve import questions, solver
from ferrodp.accounting._solve.answers import TOLERANCE
from ferrodp.accounting._solve.methods import LOG2_MAX_NODES, directions_of, squared_mu
from ferrodp.accounting._solve.questions import MAX_WORK, SMALLEST_DELTA, Events, Quantity
from ferrodp.accounting._types import Unsupported
from ferrodp.events import GaussianEvent, NeighboringRelation

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]

MOST_ALONE = 24
"""So many points are asked by themselves at most, where those that share work leave wide intervals."""
_WIDE = 0.05
"""Relative width of an interval for which it is worth to ask by itself."""
_FAINTEST, _LOUDEST = 2.0**-16, 2.0**12
"""Σ1/z² outside of which contours take long for a Gaussian, or say little."""
_ROUNDING = 1e-12
"""Of chords: some tens of units in the last place."""


def solve_many(
    quantity: Quantity,
    points: Array,
    events: Events,
    relation: NeighboringRelation,
    interval: float | None = None,
    work: float = MAX_WORK,
) -> Pair:
    """Return lower and upper bounds at each point: on ε at rising 1 − δ, or on δ at rising ε."""
    is_epsilon = quantity == "epsilon"

    def alone(at: float) -> Bounds:
        return solver.solve(quantity, at, events, relation, interval, work).bounds

    if is_epsilon and not points[-1]:  # δ = 0 is another question
        rest = int(np.count_nonzero(points))
        lower, upper = _nothing(0, math.inf)
        if rest:
            lower, upper = solve_many(quantity, points[:rest], events, relation, interval, work)
        pure = alone(0.0)
        return _extended(lower, pure.lower, len(points)), _extended(upper, pure.upper, len(points))
    if is_epsilon and points[-1] < SMALLEST_DELTA:
        raise _validate.out_of_domain("delta", f"0 or at least {SMALLEST_DELTA}", float(points[-1]))
    lower, upper, is_wide = _shared(quantity, points, events, relation, interval, work)
    if not is_wide.any():
        return lower, upper
    wide = np.flatnonzero(is_wide)
    asked = wide[np.unique(np.linspace(0, len(wide) - 1, min(len(wide), MOST_ALONE)).round().astype(int))]
    for index in asked.tolist():
        found = alone(float(points[index]))
        lower[index], upper[index] = max(lower[index], found.lower), min(upper[index], found.upper)
    is_wide[asked] = False
    known = np.flatnonzero(~is_wide)
    for index in np.flatnonzero(is_wide).tolist():
        place = int(np.searchsorted(known, index))
        if 0 < place < len(known):
            ends = (int(known[place - 1]), int(known[place]))
            upper[index] = min(upper[index], _chord(quantity, points, upper, index, *ends))
    return _monotone(quantity, lower, upper)


def _shared(
    quantity: Quantity,
    points: Array,
    events: Events,
    relation: NeighboringRelation,
    interval: float | None,
    work: float,
) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Return bounds from shared work, and where they are wide."""
    worst = math.inf if quantity == "epsilon" else 1.0
    happened = [(event, count) for event, count in events if count]
    if interval is not None or not happened or any(count > _validate.MAX_COUNT for _, count in happened):
        return *_nothing(len(points), worst), np.full(len(points), True)
    if all(isinstance(event, GaussianEvent) for event, _ in happened):  # which cost the same under any relation

        def each(quantity: Quantity, points: Array) -> Pair:
            found = [solver.solve(quantity, at, happened, relation).bounds for at in points.tolist()]
            return np.array([bounds.lower for bounds in found]), np.array([bounds.upper for bounds in found])

        lower, upper = gaussian_curve_or(each, quantity, points, squared_mu(happened))
        return lower, upper, np.full(len(points), False)
    releases = questions.releases_of(happened, relation)
    if releases is not None:
        lower, upper = _contour.curve(quantity, releases, points)
        return lower, upper, _is_wide(lower, upper)
    if any(isinstance(pairs_of(event, relation), Unsupported) for event, _ in happened):
        return *_nothing(len(points), worst), np.full(len(points), True)
    pairs = questions.paired(happened, relation)
    lower, upper = _by_pairs(quantity, points, pairs, work)
    is_wide = _is_wide(lower, upper)
    if not all(each.is_exact for each, _ in pairs):
        below = lower_parts(pairs)
        lower = np.zeros_like(lower) if below is None else _by_pairs(quantity, points, below, work)[0]
    return np.minimum(lower, upper), upper, is_wide


def _by_pairs(quantity: Quantity, points: Array, pairs: Sequence[tuple[EventPairs, int]], work: float) -> Pair:
    directions = directions_of(pairs)
    if sum(count for _, count in pairs) == 1:
        specs = [spec for [(spec, _)] in directions]
        ask = _native.pair_epsilon if quantity == "epsilon" else _native.pair_delta
        each = np.array([[ask([spec], at) for spec in specs] for at in points.tolist()]).max(axis=1)
        return each[:, 0].copy(), each[:, 1].copy()
    limits = (LOG2_MAX_NODES, work)
    return _native.pld_many(directions, quantity, points, TOLERANCE, limits)


def gaussian_curve_or(
    otherwise: Callable[[Quantity, Array], Pair], quantity: Quantity, points: Array, squared_mu: Interval
) -> Pair:
    """Return bounds for Gaussian releases of that Σ1/z² from shared contours, or `otherwise` where they leave a gap."""
    if not _FAINTEST <= squared_mu.lower <= squared_mu.upper <= _LOUDEST:
        return otherwise(quantity, points)
    least, largest = sqrt_down(1 / Fraction(squared_mu.upper)), sqrt_up(1 / Fraction(squared_mu.lower))
    _, upper = _contour.curve(quantity, [_contour.Release(least, 1.0, 1)], points)
    lower, _ = _contour.curve(quantity, [_contour.Release(largest, 1.0, 1)], points)
    is_wide = _is_wide(lower, upper)
    if is_wide.any():
        lower[is_wide], upper[is_wide] = otherwise(quantity, points[is_wide])
    return lower, upper


def _chord(quantity: Quantity, points: Array, upper: Array, index: int, left: int, right: int) -> float:
    """Return an upper bound between two others, by convexity; infinite where that says nothing."""
    if quantity == "delta":
        width = float(points[right] - points[left])
        if not width < 700.0:
            return float(upper[left])
        share = math.expm1(float(points[index] - points[left])) / math.expm1(width)
        return float(upper[left] + share * (upper[right] - upper[left]) + _ROUNDING * upper[left])
    near, far = float(upper[left]), float(upper[right])
    if not (far < math.inf and 0.0 <= far - near < 700.0):
        return far
    share = float((points[left] - points[index]) / (points[left] - points[right])) * (1.0 + _ROUNDING)
    return min(near + math.log1p(share * math.expm1(far - near)) * (1.0 + _ROUNDING) + _ROUNDING * near, far)


def _monotone(quantity: Quantity, lower: Array, upper: Array) -> Pair:
    """Return the bounds that follow from all others: ε rises and δ falls along the points."""
    if quantity == "epsilon":
        upper = np.minimum.accumulate(upper[::-1])[::-1]
        return np.minimum(np.maximum.accumulate(lower), upper), upper
    upper = np.minimum.accumulate(upper)
    return np.minimum(np.maximum.accumulate(lower[::-1])[::-1], upper), upper


def _is_wide(lower: Array, upper: Array) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        is_narrow: npt.NDArray[np.bool_] = (lower == upper) | (upper - lower <= _WIDE * upper) & (upper < math.inf)
    return ~is_narrow


def _nothing(number: int, worst: float) -> Pair:
    return np.zeros(number), np.full(number, worst)


def _extended(values: Array, last: float, number: int) -> Array:
    return np.concatenate([values, np.full(number - len(values), last)])
