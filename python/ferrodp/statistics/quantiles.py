"""Quantiles by the exponential mechanism."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _validate
from ferrodp._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.mechanisms.selection import ExponentialMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import bounds, budget
from ferrodp.statistics._column import Column, Missing, column, public_numbers
from ferrodp.statistics.estimate import Estimate
from ferrodp.tickets import Ticket

__all__ = ["private_quantile"]

_DENOMINATOR = 10**6
_MAX_ROWS = 2**33  # ranks times the denominator stay exact in float64
MAX_CANDIDATES = 10**7


@_arrays.quiet
def private_quantile(
    values: Any,
    quantile: Real,
    *,
    bounds: tuple[Real, Real] | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int = 1025,
    epsilon: Real,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return one of many public candidates, most likely one near the quantile.

    The choice is ε-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats.
    quantile : float
        Between 0 and 1; 0.5 for the median. Taken as the nearest ratio with a denominator up to 10⁶.
    bounds : (float, float)
        The candidates are `num_candidates` evenly spaced numbers from one to the other.
    candidates : array of float
        Used instead: public, finite, not taken from the data.
    num_candidates : int
        How many candidates `bounds` stand for; from 2 to 10⁷.
    missing : {"drop", "zero"}
        By default missing rows (nulls and NaN) have no rank; with "zero" they, and infinite ones, count as 0.
    epsilon, max_contributions, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is a float, one of the candidates.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    With q = a/b, a candidate c has utility −|(b − a)·#{x < c} − a·#{x > c}|, an integer that is 0 at the quantile. A
    row that is added or removed moves it by at most max(a, b − a), one that is replaced by at most b: exact in machine
    arithmetic. This is [Smi11] Algorithm 2 over a grid. Values that are missing or not finite count as 0.

    References
    ----------
    [Smi11] Smith, "Privacy-preserving statistical estimation with optimal convergence rates", STOC 2011, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_quantile(np.arange(10_000), 0.5, bounds=(0.0, 10_000.0), epsilon=1.0)
    >>> abs(float(estimate) - 5_000.0) < 100.0
    True
    """
    spent = budget(epsilon, 0.0, max_contributions, neighboring_relation, source, ticket)
    ratio = _ratio(quantile)
    points = _points(bounds, candidates, num_candidates)
    array = column(values, missing)
    if array.values.size > _MAX_ROWS:
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    below, above = ratio.denominator - ratio.numerator, ratio.numerator
    # mutant: ranks-move-by-smaller-share
    moved = ratio.denominator if spent.replaces else max(below, above)
    mechanism = ExponentialMechanism.calibrated(epsilon=spent.epsilon, sensitivity=moved * spent.max_contributions)
    utilities = _utilities(array, points, below, above)
    event = mechanism.event
    (source,) = spent.sources(event, null_distance=None)
    chosen = float(points[mechanism.release(utilities, source=source)])
    return spent.estimate(chosen, None, event, f"quantile {float(ratio):g}")


def _utilities(array: Column, points: npt.NDArray[np.float64], below: int, above: int) -> npt.NDArray[np.float64]:
    """Return −|below·#{x < c} − above·#{x > c}| for every candidate c."""
    order = np.argsort(points, kind="stable")
    ascending = points[order]
    less, more = np.zeros((2, points.size), np.int64)
    for rows in array.floats(at_least=points.size):
        rows.sort()
        less += np.searchsorted(rows, ascending, side="left")
        # mutant: rows-equal-to-candidate-above
        more += rows.size - np.searchsorted(rows, ascending, side="right")
    utilities = np.empty(points.size)
    utilities[order] = -np.abs(below * less - above * more)
    return utilities


def _ratio(quantile: object) -> Fraction:
    _validate.probability("quantile", quantile)
    return Fraction(_validate.exact("quantile", quantile)).limit_denominator(_DENOMINATOR)


def _points(ends: object, candidates: Any, number: int) -> npt.NDArray[np.float64]:
    if (ends is None) == (candidates is None):
        raise InvalidParameter("exactly one of bounds and candidates must be given")
    if ends is not None:
        lower, upper = bounds(ends)
        count = _validate.count("num_candidates", number, minimum=2, maximum=MAX_CANDIDATES)
        return np.linspace(lower, upper, count)
    points = public_numbers(candidates, "candidates", range(1, MAX_CANDIDATES + 1)).astype(np.float64)
    if not np.isfinite(points).all():
        raise InvalidArray("candidates must be finite")
    return points
