"""Sums and means of clamped values, as integer sums on a grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays
from ferrodp._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, Mechanism, bounds, budget
from ferrodp.statistics._column import blocks, column, finite_floats
from ferrodp.statistics.estimate import Estimate
from ferrodp.tickets import Ticket

__all__ = ["private_mean", "private_sum"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_BITS = 30  # the largest bound is between 2³⁰ and 2³¹ grid steps
_MAX_ROWS = 2**31


class _Grid(NamedTuple):
    """Clamping and quantizing toward zero: monotonic, so that what holds at the bounds holds in between."""

    lower: float
    upper: float
    width: float

    def steps(self, value: float) -> int:
        """Return a bound in grid steps."""
        return math.trunc(value / self.width)  # exact: the width is a power of two

    def total(self, array: npt.NDArray[Any]) -> int:
        """Return the sum of a column, in grid steps; values that are not finite count as 0, clamped."""
        return sum(self._total(finite_floats(part)) for part in blocks(array))

    def total_around(self, middle: float, lower: float, upper: float, array: npt.NDArray[Any]) -> int:
        """Return the sum of the distances of clamped values from the middle of their bounds."""
        clamped = (np.clip(finite_floats(part), lower, upper) for part in blocks(array))
        return sum(self._total(part - middle) for part in clamped)  # clamped again: rounding cannot matter

    def _total(self, values: npt.NDArray[np.float64]) -> int:
        # mutant: column-clamped-after-it-summed
        steps = np.clip(values, self.lower, self.upper, out=values)
        steps /= self.width
        # mutant: values-rounded-to-nearest-step
        return int(steps.astype(np.int64).sum())  # which cuts toward zero

    def moved_by(self, rows: int, *, replaced: bool) -> int:
        """Return by how many steps the sum moves at most if so many rows come, go or are replaced."""
        low, high = self.steps(self.lower), self.steps(self.upper)
        # mutant: distance-of-a-row-in-a-sum
        return rows * max(high - low if replaced else max(abs(low), abs(high)), 1)

    @property
    def null_distance(self) -> Fraction:
        """How far the sum moves if a row comes or goes, over how far it does if one is replaced."""
        return Fraction(self.moved_by(1, replaced=False), self.moved_by(1, replaced=True))


def _grid(lower: float, upper: float) -> _Grid:
    return _Grid(lower, upper, math.ldexp(1.0, math.frexp(max(abs(lower), abs(upper)))[1] - 1 - _BITS))


@_arrays.quiet
def private_sum(
    values: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real,
    delta: Real = 0.0,
    max_contributions: int = 1,
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return the sum of a column whose values are clamped to public bounds, with noise on an integer grid.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats; numpy, pandas or polars.
    bounds : (float, float)
        Smallest and largest value a row may add: public, not taken from the data; 0 or from 1e-250 to 1e300 in size.
    epsilon, delta, max_contributions, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is a float: a multiple of a power of two, the grid, between 2⁻³¹ and 2⁻³⁰ of the larger bound.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    Each row is clamped, divided by the grid and truncated toward zero; the integers are summed exactly, integer noise
    is added, and the total is scaled back. The sensitivity is that of integers, (`max_contributions` times) the larger
    bound in steps, or the distance of the bounds if rows are replaced: no rounding and no order of summation can exceed
    it. Truncation biases the sum by less than one step a row.

    =========================  ==============================================
    value NaN, infinite, null  counts as 0, clamped to the bounds
    value beyond the bounds    counts as the bound
    empty column               noise alone
    =========================  ==============================================

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_sum(np.array([20.5, 31.0, 1e9]), bounds=(0.0, 100.0), epsilon=1.0)
    >>> type(estimate.value), round(estimate.standard_error)
    (<class 'float'>, 141)
    """
    lower, upper = _bounds(bounds)
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    array = _summable(values)
    # mutant: grid-of-sum-derived-from-column
    grid = _grid(lower, upper)
    mechanism = _mechanism(spent, grid)
    exact = grid.total(array)
    event = mechanism.event
    (source,) = spent.sources(event, null_distance=grid.null_distance)
    total = mechanism.release(exact, source=source)
    return spent.estimate(float(total * grid.width), mechanism.standard_deviation * grid.width, event)


@_arrays.quiet
def private_mean(
    values: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real,
    delta: Real = 0.0,
    max_contributions: int = 1,
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return the mean of a column whose values are clamped to public bounds.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows. If rows
    are added or removed, half of the budget is for the number of rows and half for the sum; if they are replaced, their
    number is public and the whole budget is for the sum.

    Parameters
    ----------
    values, bounds, epsilon, delta, max_contributions, neighboring_relation, source, ticket
        As for `private_sum`.

    Returns
    -------
    Estimate
        Its value is a float within the bounds. `standard_error` is that of the sum over the released number of rows,
        and does not cover the noise of that number; None if that number is not positive.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    Distances from the middle of the bounds are summed, which halves the sensitivity; the ratio, and clamping it to the
    bounds, are post-processing ([LLSY16] Section 2). Values that are missing or not finite count as the number within
    the bounds nearest to 0; an empty column gives the middle, up to noise.

    References
    ----------
    [LLSY16] Li, Lyu, Su, Yang, "Differential privacy: from theory to practice", 2016, Section 2.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_mean(np.full(10_000, 30.0), bounds=(0.0, 100.0), epsilon=1.0)
    >>> abs(float(estimate) - 30.0) < 1.0
    True
    """
    lower, upper = _bounds(bounds)
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    array = _summable(values)
    middle = 0.5 * lower + 0.5 * upper
    reach = max(upper - middle, middle - lower)
    if not 1e-250 <= reach <= 1e300:
        raise InvalidParameter("bounds must be at least 2e-250 apart")
    grid = _grid(-reach, reach)
    # mutant: number-and-sum-of-mean-get-whole-budget-each
    part = spent if spent.replaces else spent.half()
    mechanism = _mechanism(part, grid)
    exact = grid.total_around(middle, lower, upper, array)
    event: PrivacyEvent = mechanism.event
    rows = array.size
    if spent.replaces:
        (source,) = spent.sources(event, null_distance=None)  # what is divided by is the very number of rows
    else:
        moved = spent.max_contributions
        counter = part.mechanism(moved)
        event = ComposedEvent(events=(counter.event, mechanism.event))
        # mutant: half-ticket-begins-mean
        of_rows, source = spent.sources(*event.events, null_distance=None)
        # mutant: mean-divided-by-true-number-of-rows
        rows = counter.release(rows, source=of_rows)
    total = mechanism.release(exact, source=source)
    ratio = total * grid.width / max(rows, 1)
    error = mechanism.standard_deviation * grid.width / rows if rows > 0 else None
    return spent.estimate(min(max(middle + ratio, lower), upper), error, event)


def _mechanism(spent: Budget, grid: _Grid) -> Mechanism:
    # mutant: several-rows-of-unit-move-sum-by-one
    return spent.mechanism(grid.moved_by(spent.max_contributions, replaced=spent.replaces))


def _summable(values: object) -> npt.NDArray[Any]:
    array = column(values)
    if array.size > _MAX_ROWS:  # 2³¹ rows of less than 2³¹ steps each
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    return array


_bounds = bounds
