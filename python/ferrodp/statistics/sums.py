"""Sums and means of clamped values, as integer sums on a grid.

*A sum.* A value is clamped to its bounds and cut toward zero to an integer k(v) of parts, 2²² of which are a step: the
largest bound is between 2⁵² and 2⁵³ parts, so that it, and every float near it, is an integer of parts. Integers are
summed exactly to T, and s = ⌊T/2²² + ½⌋ steps is what gets noise. k is monotonic, so one row moves T by at most
D = max |k| over the bounds, or by k(upper) − k(lower) if it is replaced. ⌊x + y⌋ − ⌊x⌋ ≤ ⌈y⌉ for y ≥ 0, so r rows
move s by at most ⌈r·D/2²²⌉ steps: that, and no float, is the sensitivity. Rounding the total once, and not each row,
leaves an error that hardly grows with the rows. To add to s what the rows lost on average would tell their number.

*The error of s* against the sum of the clamped values, for at most 2³¹ rows: a row loses less than a part when it is
cut and at most a part when it was converted to a float or when the middle of the bounds was subtracted from it, which
together is less than 2³²·2⁻²² = 2¹⁰ steps; rounding T half a step; and s, of at most 2⁶² steps, as a float at most 2⁸.
`SLACK` steps cover that. It is public, and intervals are as much wider on each side: 2⁻¹⁹ of the larger bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Bounds, Budget, Mechanism, bounds, budget
from ferrodp.statistics._column import Column, Keep, Missing
from ferrodp.statistics._noise import Additive, Transformed, half_width, ratio_interval
from ferrodp.statistics.estimate import Estimate, Sample
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts.exact import passed
from ferrodp.tickets import Ticket

__all__ = ["private_mean", "private_sum"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_BITS = 30  # the largest bound is between 2³⁰ and 2³¹ grid steps
_PART_BITS = 22  # 2²² parts are a step
SLACK = 2048
"""How many steps a sum without noise is from that of the clamped values at most: the module docstring."""
_MAX_ROWS = 2**31
Halves: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class _Grid(NamedTuple):
    """Clamping and cutting toward zero: monotonic, so that what holds at the bounds holds in between."""

    lower: float
    upper: float
    width: float

    def parts(self, value: float) -> int:
        """Return a bound in parts of a step."""
        return math.trunc(value / self.width_of_part)  # exact: the width is a power of two

    @property
    def width_of_part(self) -> float:
        """How wide a part of a step is."""
        return math.ldexp(self.width, -_PART_BITS)

    def total(self, column: Column) -> int:
        """Return the sum of a column, in grid steps; each value clamped, infinite ones too."""
        return whole_steps(self.halves(column))

    def halves(self, column: Column) -> tuple[int, int]:
        """Return the same sum as steps and parts beyond them, before it is rounded."""
        return added_halves(summed(self.quantized(part)) for part in column.floats())

    def halves_around(self, middle: float, lower: float, upper: float, column: Column) -> tuple[int, int]:
        """Return the sum of the distances of clamped values from the middle of their bounds, before it is rounded."""
        clamped = (np.clip(part, lower, upper) for part in column.floats())
        return added_halves(
            summed(self.quantized(part - middle)) for part in clamped
        )  # clamped again: rounding cannot matter

    def quantized(self, values: npt.NDArray[np.float64]) -> Halves:
        """Return clamped values in steps, rounded down, and the parts beyond them; writes to `values`."""
        # mutant: column-clamped-after-it-summed
        scaled = np.clip(values, self.lower, self.upper, out=values)
        scaled /= self.width_of_part
        # mutant: values-rounded-to-nearest-part
        parts = scaled.astype(np.int64)  # which cuts toward zero
        # mutant: parts-of-a-step-are-lost
        return parts >> _PART_BITS, parts & ((1 << _PART_BITS) - 1)

    def moved_by(self, rows: int, *, replaced: bool, can_miss: bool = False) -> int:
        """Return by how many steps the sum moves at most if so many rows come, go or are replaced.

        A row that is missing adds 0, which may lie outside the bounds: one that is replaced by it moves a sum with
        bounds (99, 100) by 100, not by 1.
        """
        low, high = self.parts(self.lower), self.parts(self.upper)
        # mutant: replaced-row-that-may-be-missing
        if can_miss:
            low, high = min(low, 0), max(high, 0)
        # mutant: distance-of-a-row-in-a-sum
        furthest = max(high - low if replaced else max(abs(low), abs(high)), 1)
        # mutant: sensitivity-of-a-rounded-sum-rounded-down
        return -(-rows * furthest >> _PART_BITS)  # rounded up

    def null_distance(self, *, can_miss: bool) -> Fraction:
        """How far the sum moves if a row comes or goes, over how far it does if one is replaced."""
        return Fraction(self.moved_by(1, replaced=False), self.moved_by(1, replaced=True, can_miss=can_miss))


def summed(halves: Halves) -> tuple[int, int]:
    """Return the sums of steps and of parts beyond them."""
    return int(halves[0].sum()), int(halves[1].sum())


def exact_total(halves: Iterable[tuple[int, int]]) -> int:
    """Return a sum in steps, which is rounded once."""
    return whole_steps(added_halves(halves))


def added_halves(halves: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the sums of steps and of parts beyond them."""
    steps = parts = 0
    for whole, beyond in halves:
        steps, parts = steps + whole, parts + beyond
    return steps, parts


def whole_steps(halves: tuple[int, int]) -> int:
    """Return steps and parts beyond them as the nearest number of steps."""
    return halves[0] + rounded_steps(halves[1])


@overload
def rounded_steps(parts: int) -> int: ...
@overload
def rounded_steps(parts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]: ...
def rounded_steps(parts: Any) -> Any:
    """Return the nearest number of steps."""
    return (parts + (1 << (_PART_BITS - 1))) >> _PART_BITS


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
    unit: Any = None,
    keep: Keep = "random",
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
    epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
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
    Each row is clamped and becomes an integer, of 2⁻²² steps of the grid; the integers are summed exactly, their sum is
    rounded to the grid, integer noise is added, and the total is scaled back. The sensitivity is that of integers,
    (`max_contributions` times) the larger bound in steps, or the distance of the bounds if rows are replaced, rounded
    up: no rounding and no order of summation can exceed it. If rows are replaced and their type can be missing, the
    bounds are first extended to 0, which is what a missing row adds. Without noise the sum is less than 2¹¹ steps from
    that of the clamped values, whatever the number of rows, and its interval is wider by that: 2⁻¹⁹ of the larger
    bound at most.

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
    spent, bounds = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket).timed(bounds)
    check_durations(spent)
    lower, upper = _bounds(bounds)
    spent = _units.of_units(spent, unit, keep, missing)
    array = _summable(spent, values, missing)
    # mutant: grid-of-sum-derived-from-column
    grid = _grid(lower, upper)
    can_miss = array.drops and array.can_miss
    mechanism = _mechanism(spent, grid, can_miss)
    event = mechanism.event
    exact = whole_steps(passed(lambda: grid.halves(array), lambda: (event, grid, spent.unit)))
    said = spent.says("sum of values", values, (lower, upper))
    (source,) = said.sources(event, null_distance=grid.null_distance(can_miss=can_miss))
    total = mechanism.release(exact, source=source)
    error = mechanism.standard_deviation * grid.width
    what = f"sum of values clamped to {spent.between(lower, upper)}"
    return spent.estimate(float(total * grid.width), error, event, what, Additive(mechanism, grid.width, SLACK))


@_arrays.quiet
def private_mean(
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
    """Return the mean of a column whose values are clamped to public bounds.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows. If rows
    are added or removed, or may be missing and are left out, half of the budget is for their number and half for the
    sum; if they are replaced and cannot be missing, their number is public and the whole budget is for the sum.

    Parameters
    ----------
    values, bounds, missing, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
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
    spent, bounds = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket).timed(bounds)
    lower, upper = _bounds(bounds)
    spent.check_missing(missing)
    spent = _units.of_units(spent, unit, keep, missing)
    array = _summable(spent, values, missing)
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
    event: PrivacyEvent = mechanism.event
    rows, halves = passed(
        lambda: (array.size, grid.halves_around(middle, lower, upper, array)),
        lambda: (mechanism.event, is_public, middle, grid, spent.unit),
    )
    exact = whole_steps(halves)
    counter = None
    spent = spent.says("mean", values, (lower, upper))
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
        ends = ratio_interval(total, rows, (mechanism, grid.width, SLACK), counter, level)
        return tuple(min(max(middle + end, lower), upper) for end in ends)

    value = min(max(middle + total / max(rows, 1), lower), upper)
    # mutant: error-of-a-mean-without-that-of-its-rows
    of_rows_too = 0.0 if counter is None else (value - middle) * counter.standard_deviation
    error = math.hypot(mechanism.standard_deviation * grid.width, of_rows_too) / rows if rows > 0 else None
    what = f"mean of values clamped to {spent.between(lower, upper)}"
    # mutant: rows-of-one-unit-taken-for-a-sample
    sample = Sample(rows, reach_of_rows(counter), (lower, upper)) if spent.max_contributions == 1 else None
    return spent.estimate(value, error, event, what, Transformed(interval), _sample=sample)


def reach_of_rows(counter: Mechanism | None) -> Callable[[float], float]:
    """Return how far a released number of rows may be from the true one, at a level."""
    return lambda level: 0.0 if counter is None else float(half_width(counter, level))


def check_durations(spent: Budget) -> None:
    """Refuse sums of times that have none."""
    if spent.clock is not None and spent.clock.kind != "durations":
        raise InvalidParameter(f"bounds must be numbers or durations for a sum: {spent.clock.kind} have none")


def _mechanism(spent: Budget, grid: _Grid, can_miss: bool = False) -> Mechanism:
    # mutant: several-rows-of-unit-move-sum-by-one
    rows = spent.max_contributions
    return spent.mechanism(grid.moved_by(rows, replaced=spent.replaces, can_miss=can_miss))


def _summable(spent: Budget, values: object, missing: object) -> Column:
    array = _units.numbers(spent, values, missing)
    if array.values.size > _MAX_ROWS:  # 2³¹ rows of less than 2³¹ steps each
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    return array


_bounds = bounds
