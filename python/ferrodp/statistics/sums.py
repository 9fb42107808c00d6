"""Sums and means of clamped values, as integer sums on a grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Bounds, Budget, Mechanism, bounds, budget
from ferrodp.statistics._column import Column, Missing, column
from ferrodp.statistics._noise import Additive, Transformed, ratio_interval
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

    def total(self, column: Column) -> int:
        """Return the sum of a column, in grid steps; each value clamped, infinite ones too."""
        return sum(self._total(part) for part in column.floats())

    def total_around(self, middle: float, lower: float, upper: float, column: Column) -> int:
        """Return the sum of the distances of clamped values from the middle of their bounds."""
        clamped = (np.clip(part, lower, upper) for part in column.floats())
        return sum(self._total(part - middle) for part in clamped)  # clamped again: rounding cannot matter

    def quantized(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return clamped values in grid steps; writes to `values`."""
        # mutant: column-clamped-after-it-summed
        steps = np.clip(values, self.lower, self.upper, out=values)
        steps /= self.width
        # mutant: values-rounded-to-nearest-step
        return steps.astype(np.int64)  # which cuts toward zero

    def _total(self, values: npt.NDArray[np.float64]) -> int:
        return int(self.quantized(values).sum())

    def moved_by(self, rows: int, *, replaced: bool, can_miss: bool = False) -> int:
        """Return by how many steps the sum moves at most if so many rows come, go or are replaced.

        A row that is missing adds 0, which may lie outside the bounds: one that is replaced by it moves a sum with
        bounds (99, 100) by 100, not by 1.
        """
        low, high = self.steps(self.lower), self.steps(self.upper)
        # mutant: replaced-row-that-may-be-missing
        if can_miss:
            low, high = min(low, 0), max(high, 0)
        # mutant: distance-of-a-row-in-a-sum
        return rows * max(high - low if replaced else max(abs(low), abs(high)), 1)

    def null_distance(self, *, can_miss: bool) -> Fraction:
        """How far the sum moves if a row comes or goes, over how far it does if one is replaced."""
        return Fraction(self.moved_by(1, replaced=False), self.moved_by(1, replaced=True, can_miss=can_miss))


def _grid(lower: float, upper: float) -> _Grid:
    return _Grid(lower, upper, math.ldexp(1.0, math.frexp(max(abs(lower), abs(upper)))[1] - 1 - _BITS))


@_arrays.quiet
def private_sum(
    values: Any,
    *,
    bounds: Bounds,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return the sum of a column whose values are clamped to public bounds, with noise on an integer grid.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats; of numpy, pandas, polars or Arrow.
    bounds : (float, float) or Estimate
        Smallest and largest value a row may add: public, not taken from the data; 0 or from 1e-250 to 1e300 in size.
    missing : {"drop", "zero"}
        By default a missing row (null or NaN) contributes to nothing; with "zero" it, and an infinite one, counts as 0,
        clamped to the bounds. Means and variances do not allow that under `REPLACE_SPECIAL`, where a null record
        contributes nothing.
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
    it. If rows are replaced and their type can be missing, the bounds are first extended to 0, which is what a missing
    row adds. Truncation biases the sum by less than one step a row.

    =======================  ===================================================
    value NaN or null        left out; with ``missing="zero"`` 0, clamped
    value infinite           counts as the bound; with ``missing="zero"`` as NaN
    value beyond the bounds  counts as the bound
    empty column             noise alone
    =======================  ===================================================

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_sum(np.array([20.5, 31.0, 1e9]), bounds=(0.0, 100.0), epsilon=1.0)
    >>> type(estimate.value), round(estimate.standard_error)
    (<class 'float'>, 141)
    """
    lower, upper = _bounds(bounds)
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    array = _summable(values, missing)
    # mutant: grid-of-sum-derived-from-column
    grid = _grid(lower, upper)
    can_miss = array.drops and array.can_miss
    mechanism = _mechanism(spent, grid, can_miss)
    exact = grid.total(array)
    event = mechanism.event
    (source,) = spent.sources(event, null_distance=grid.null_distance(can_miss=can_miss))
    total = mechanism.release(exact, source=source)
    error = mechanism.standard_deviation * grid.width
    what = f"sum of values clamped to [{lower:g}, {upper:g}]"
    return spent.estimate(float(total * grid.width), error, event, what, Additive(mechanism, grid.width))


@_arrays.quiet
def private_mean(
    values: Any,
    *,
    bounds: Bounds,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return the mean of a column whose values are clamped to public bounds.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows. If rows
    are added or removed, or may be missing and are left out, half of the budget is for their number and half for the
    sum; if they are replaced and cannot be missing, their number is public and the whole budget is for the sum.

    Parameters
    ----------
    values, bounds, missing, epsilon, delta, max_contributions, neighboring_relation, source, ticket
        As for `private_sum`.

    Returns
    -------
    Estimate
        Its value is a float within the bounds. `standard_error` covers the noise of the sum and of the number of rows,
        to first order around what was released; None if that number is not positive.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    Distances from the middle of the bounds are summed, which halves the sensitivity; the ratio, and clamping it to the
    bounds, are post-processing ([LLSY16] Section 2). A missing row adds 0 to both, which lies between all distances; an
    empty column gives the middle, up to noise.

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
    spent.check_missing(missing)
    array = _summable(values, missing)
    middle = 0.5 * lower + 0.5 * upper
    reach = max(upper - middle, middle - lower)
    if not 1e-250 <= reach <= 1e300:
        raise InvalidParameter("bounds must be at least 2e-250 apart")
    grid = _grid(-reach, reach)
    # mutant: missing-rows-of-a-public-number
    is_public = spent.replaces and not (array.drops and array.can_miss)  # how many rows count
    # mutant: number-and-sum-of-mean-get-whole-budget-each
    part = spent if is_public else spent.share(1, 2)
    mechanism = _mechanism(part, grid)
    exact = grid.total_around(middle, lower, upper, array)
    event: PrivacyEvent = mechanism.event
    rows = array.size
    counter = None
    if is_public:
        (source,) = spent.sources(event, null_distance=None)  # what is divided by is the very number of rows
    else:
        moved = spent.max_contributions
        counter = part.mechanism(moved)
        event = ComposedEvent(events=(counter.event, mechanism.event))
        # mutant: half-ticket-begins-mean
        of_rows, source = spent.sources(*event.events, null_distance=None)
        # mutant: mean-divided-by-true-number-of-rows
        rows = counter.release(rows, source=of_rows)
    total = mechanism.release(exact, source=source) * grid.width

    def interval(level: float) -> tuple[float, float]:
        if rows < 1:
            return lower, upper
        ends = ratio_interval(total, rows, mechanism, grid.width, counter, level)
        return tuple(min(max(middle + end, lower), upper) for end in ends)

    value = min(max(middle + total / max(rows, 1), lower), upper)
    # mutant: error-of-a-mean-without-that-of-its-rows
    of_rows_too = 0.0 if counter is None else (value - middle) * counter.standard_deviation
    error = math.hypot(mechanism.standard_deviation * grid.width, of_rows_too) / rows if rows > 0 else None
    return spent.estimate(
        value, error, event, f"mean of values clamped to [{lower:g}, {upper:g}]", Transformed(interval)
    )


def _mechanism(spent: Budget, grid: _Grid, can_miss: bool = False) -> Mechanism:
    # mutant: several-rows-of-unit-move-sum-by-one
    rows = spent.max_contributions
    return spent.mechanism(grid.moved_by(rows, replaced=spent.replaces, can_miss=can_miss))


def _summable(values: object, missing: object) -> Column:
    array = column(values, missing)
    if array.values.size > _MAX_ROWS:  # 2³¹ rows of less than 2³¹ steps each
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    return array


_bounds = bounds
