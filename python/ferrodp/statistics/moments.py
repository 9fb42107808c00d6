"""Variance and standard deviation of clamped values.

Let d be the distances of the clamped values from the middle of their bounds, |d| ≤ R, and h = R²/2. Three sums are
released: the number of rows n, S = Σ d and W = Σ (d² − h), each with a third of the budget. A row that comes or goes
moves n by 1, S by at most R, and W by at most R²/2, since d² lies in [0, R²]; both sums are of integers on a grid, so
the bounds hold in machine arithmetic. A row that is replaced, by a missing one or another, moves n by 1, S by 2R and W
by R²: a missing row adds 0 to each, which lies between what other rows add. The variance W/n + h − (S/n)² is
post-processing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics import sums
from ferrodp.statistics._budget import Bounds, Budget, Mechanism, budget
from ferrodp.statistics._budget import bounds as _bounds
from ferrodp.statistics._column import Column, Keep, Missing
from ferrodp.statistics._noise import Transformed, variance_interval
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts.exact import passed
from ferrodp.statistics.rows.times import Clock, of_bounds
from ferrodp.tickets import Ticket

__all__ = ["private_standard_deviation", "private_variance"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_SLACK = 8192
"""As `sums.SLACK`, of squares: a distance is off by 2⁻⁵³ R, so its square, its rounding and the subtraction of R²/2 by
7·2⁻⁵⁴ R² or 7·2⁻²² steps, and it loses less than 2⁻²² of a step when it is cut: 2⁻¹⁹ steps a row, 2¹² for all rows."""


@_arrays.quiet
def private_variance(
    values: Any,
    *,
    bounds: Bounds,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return the variance of a column whose values are clamped to public bounds: the mean squared deviation.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values, bounds, missing, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_sum`. The bounds are at least 1e-100 apart and at most 1e100 in size.

    Returns
    -------
    Estimate
        Its value is a float from 0 to a quarter of the squared distance of the bounds. Its `standard_error` is of
        first order around what was released; None if the released number of rows is not positive.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The number of rows, the sum of the distances from the middle of the bounds, and the sum of their squares less a
    constant are released with a third of the budget each; the module docstring has the sensitivities. It divides by the
    number of rows, as `numpy.var` does.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_variance(np.tile([20.0, 40.0], 10_000), bounds=(0.0, 60.0), epsilon=1.0)
    >>> abs(float(estimate) - 100.0) < 10.0
    True
    """
    spent, bounds = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket).timed(bounds)
    spent.check_missing(missing)
    about = About.of(bounds)
    spent = _units.of_units(spent, unit, keep, missing)
    array = sums._summable(spent, values, missing)
    part = spent.share(1, 3)
    mechanisms = (
        part.mechanism(spent.max_contributions),
        sums._mechanism(part, about.distances),
        sums._mechanism(part, about.squares),
    )
    event = ComposedEvent(events=tuple(each.event for each in mechanisms))
    size, first_halves, second_halves = passed(
        lambda: (array.size, *_halves(array, about)), lambda: (event, about, spent.unit)
    )
    exact = size, sums.whole_steps(first_halves), sums.whole_steps(second_halves)
    said = spent.says("variance", values, (about.lower, about.upper))
    # mutant: a-part-of-the-variance-is-free
    sources = said.sources(*event.events, null_distance=None)
    rows, first, second = (
        each.release(total, source=drawn) for each, total, drawn in zip(mechanisms, exact, sources, strict=True)
    )
    found = about.variance((rows, first, second), mechanisms)
    what = f"variance of values clamped to {spent.between(about.lower, about.upper)}{squared_unit(spent)}"
    return spent._replace(clock=None).estimate(found.value, found.error, event, what, Transformed(found.interval))


def squared_unit(spent: Budget) -> str:
    """Return the unit of a variance of times, in words."""
    return "" if spent.clock is None else ", in squared " + ("days" if spent.clock.kind == "dates" else "seconds")


class Variance(NamedTuple):
    """A variance that follows from three released sums, its standard error, and its interval at a level."""

    value: float
    error: float | None
    interval: Callable[[float], tuple[float, float]]


class About(NamedTuple):
    """What is summed for a variance: distances from the middle of the bounds, and their squares less `half`."""

    lower: float
    upper: float
    middle: float
    half: float
    distances: sums._Grid
    squares: sums._Grid

    @classmethod
    def of(cls, bounds: Any) -> About:
        """Return the sums for public bounds."""
        lower, upper = _bounds(bounds)
        middle = 0.5 * lower + 0.5 * upper
        reach = max(upper - middle, middle - lower)
        if not 1e-100 <= reach <= 1e100:
            raise InvalidParameter("bounds must be at least 2e-100 apart, and at most 2e100")
        half = 0.5 * reach * reach
        return cls(lower, upper, middle, half, sums._grid(-reach, reach), sums._grid(-half, half))

    def distance(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return how far clamped rows are from the middle."""
        return np.clip(np.clip(rows, self.lower, self.upper) - self.middle, self.distances.lower, self.distances.upper)

    def square(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the squares of these distances, less half the largest."""
        moved = self.distance(rows)
        return moved * moved - self.squares.upper

    def variance(self, released: tuple[int, int, int], noises: tuple[Mechanism, Mechanism, Mechanism]) -> Variance:
        """Return the variance from the released number of rows and sums."""
        rows, first, second = released
        counter, of_distances, of_squares = noises
        distances, squares, half = self.distances, self.squares, self.half
        total, square = first * distances.width, second * squares.width
        largest = (0.5 * (self.upper - self.lower)) ** 2
        value = min(max(square / max(rows, 1) + half - (total / max(rows, 1)) ** 2, 0.0), largest)

        # to first order W/n + h − m² moves by (X₂ − 2m·X₁ + (m² + h − v)·Y)/n: the combination of the intervals
        mean = total / max(rows, 1)
        noises_of_parts = (
            of_squares.standard_deviation * squares.width,
            2.0 * mean * of_distances.standard_deviation * distances.width,
            (mean * mean + half - value) * counter.standard_deviation,
        )
        error = math.hypot(*noises_of_parts) / rows if rows > 0 else None

        def interval(level: float) -> tuple[float, float]:
            if rows < 1:
                return 0.0, largest
            steps = (of_squares, squares.width, _SLACK), (of_distances, distances.width, sums.SLACK), counter
            low, high = variance_interval((square, total, rows), steps, half, level)
            return min(max(low, 0.0), largest), min(max(high, 0.0), largest)

        return Variance(value, error, interval)


def _halves(array: Column, about: About) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the sums of the distances and of their squares less half the largest, before they are rounded."""
    first, second = [], []
    for part in array.floats():
        first.append(sums.summed(about.distances.quantized(about.distance(part))))
        second.append(sums.summed(about.squares.quantized(about.square(part))))
    return sums.added_halves(first), sums.added_halves(second)


@_arrays.quiet
def private_standard_deviation(
    values: Any,
    *,
    bounds: Bounds,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return the standard deviation of a column whose values are clamped to public bounds.

    Parameters
    ----------
    values, bounds, missing, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_variance`.

    Returns
    -------
    Estimate
        Its value is the root of the variance that was released; its interval ends at the roots of that one's, and its
        `standard_error` is that one's over twice the value; None at 0.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_variance`. Nothing was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_standard_deviation(np.tile([20.0, 40.0], 10_000), bounds=(0.0, 60.0), epsilon=1.0)
    >>> abs(float(estimate) - 10.0) < 0.5
    True
    """
    variance = private_variance(
        values,
        bounds=bounds,
        epsilon=epsilon,
        delta=delta,
        max_contributions=max_contributions,
        unit=unit,
        keep=keep,
        missing=missing,
        neighboring_relation=neighboring_relation,
        source=source,
        ticket=ticket,
    )
    clock, _ = of_bounds(bounds)
    what = variance.statistic.replace("variance", "standard deviation").partition(", in squared")[0]
    root = math.sqrt(variance.value)
    of_variance = variance.standard_error
    error = None if of_variance is None or not root else of_variance / (2.0 * root)
    law = root_law(variance._law, variance.value)
    found = dataclasses.replace(variance._with(root, what, law), standard_error=error)
    return found if clock is None else in_durations(found, clock)


def root_law(law: Any, variance: float) -> Transformed:
    """Return the law of the root of a released variance: its interval ends at the roots of that one's."""

    def interval(level: float) -> tuple[float, float]:
        lower, upper = law.interval(variance, level)
        return math.sqrt(lower), math.sqrt(upper)

    return Transformed(interval)


def in_durations(found: Estimate[Any], clock: Clock) -> Estimate[Any]:
    """Return standard deviations of times, which are in ticks of a clock, as durations."""
    seconds: Estimate[Any] = found * (clock.ticks / 10**6)
    return seconds._timed(Clock("durations"))
