"""Quantiles by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _validate
from ferrodp._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation
from ferrodp.mechanisms.selection import ExponentialMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Bounds, Budget, bounds, budget
from ferrodp.statistics._column import Column, Missing, column, public_numbers
from ferrodp.statistics.estimate import Estimate
from ferrodp.tickets import Ticket

__all__ = ["private_median", "private_quantile", "private_quantiles"]

_DENOMINATOR = 10**6
_MAX_ROWS = 2**33  # ranks times the denominator stay exact in float64
MAX_CANDIDATES = 10**7


@_arrays.quiet
def private_quantile(
    values: Any,
    quantile: Real,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int = 1025,
    epsilon: Real | None = None,
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
        By default missing rows (nulls and NaN) have no rank; with "zero" they, and infinite ones, count as 0,
        which `REPLACE_SPECIAL` does not allow: a null record contributes nothing.
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
    spent.check_missing(missing)
    ratio = _ratio(quantile)
    points = _points(bounds, candidates, num_candidates)
    array = _ranked(values, missing)
    below, above = ratio.denominator - ratio.numerator, ratio.numerator
    mechanism = _choice(spent, ratio)
    utilities = _utilities(array, points, below, above)
    event = mechanism.event
    (source,) = spent.sources(event, null_distance=None)
    chosen = float(points[mechanism.release(utilities, source=source)])
    return spent.estimate(chosen, None, event, f"quantile {float(ratio):g}")


@_arrays.quiet
def private_quantiles(
    values: Any,
    quantiles: Sequence[Real],
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int = 1025,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[npt.NDArray[np.float64]]:
    """Return candidates near several quantiles, in ascending order where the quantiles are.

    Each is a choice with an equal share of ε; sorting them is post-processing.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, epsilon, max_contributions, missing
        As for `private_quantile`.
    neighboring_relation, source, ticket
        As for `private_quantile`.
    quantiles : sequence of float
        From 1 to 1000 numbers between 0 and 1, in ascending order.

    Returns
    -------
    Estimate
        Its value is a float64 array, one candidate a quantile; its labels are the quantiles.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_quantiles(np.arange(10_000), [0.25, 0.5, 0.75], bounds=(0.0, 10_000.0), epsilon=3.0)
    >>> [abs(value - due) < 300.0 for value, due in zip(estimate.value.tolist(), [2500, 5000, 7500], strict=True)]
    [True, True, True]
    """
    spent = budget(epsilon, 0.0, max_contributions, neighboring_relation, source, ticket)
    spent.check_missing(missing)
    if not isinstance(quantiles, (list, tuple, np.ndarray)) or not 1 <= len(quantiles) <= 1000:
        got = (
            f"{len(quantiles)} of them"
            if isinstance(quantiles, (list, tuple, np.ndarray))
            else type(quantiles).__name__
        )
        raise InvalidParameter(
            f"quantiles must be a sequence of 1 to 1000 numbers between 0 and 1, got {got}; write [0.25, 0.5, 0.75]"
        )
    ratios = [_ratio(each) for each in quantiles]
    if sorted(ratios) != ratios:
        raise InvalidParameter("quantiles must be in ascending order")
    points = _points(bounds, candidates, num_candidates)
    array = _ranked(values, missing)
    # mutant: quantiles-with-the-whole-budget-each
    share = spent.share(1, len(ratios))
    chosen, mechanisms = [], [_choice(share, ratio) for ratio in ratios]
    event = ComposedEvent(events=tuple(each.event for each in mechanisms))
    for ratio, mechanism, drawn in zip(
        ratios, mechanisms, spent.sources(*event.events, null_distance=None), strict=True
    ):
        utilities = _utilities(array, points, ratio.denominator - ratio.numerator, ratio.numerator)
        chosen.append(points[mechanism.release(utilities, source=drawn)])
    labels = tuple(float(ratio) for ratio in ratios)
    return spent.estimate(np.sort(np.array(chosen)), None, event, "quantiles", labels=labels)


def private_median(
    values: Any,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int = 1025,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return a candidate near the median: the quantile 0.5.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, epsilon, max_contributions, missing
        As for `private_quantile`.
    neighboring_relation, source, ticket
        As for `private_quantile`.

    Returns
    -------
    Estimate
        As for `private_quantile`.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> abs(float(private_median(np.arange(10_000), bounds=(0.0, 10_000.0), epsilon=1.0)) - 5_000.0) < 100.0
    True
    """
    return private_quantile(
        values,
        0.5,
        bounds=bounds,
        candidates=candidates,
        num_candidates=num_candidates,
        epsilon=epsilon,
        max_contributions=max_contributions,
        missing=missing,
        neighboring_relation=neighboring_relation,
        source=source,
        ticket=ticket,
    )


def _ranked(values: object, missing: object) -> Column:
    array = column(values, missing)
    if array.values.size > _MAX_ROWS:
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    return array


def _choice(spent: Budget, ratio: Fraction) -> ExponentialMechanism:
    """Return the mechanism that chooses among candidates by their distance from a quantile."""
    # mutant: ranks-move-by-smaller-share
    moved = ratio.denominator if spent.replaces else max(ratio.denominator - ratio.numerator, ratio.numerator)
    return ExponentialMechanism.calibrated(epsilon=spent.epsilon, sensitivity=moved * spent.max_contributions)


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
        raise InvalidParameter(
            f"exactly one of bounds and candidates must be given, got {'neither' if ends is None else 'both'}: "
            "bounds=(0, 100) or candidates=[...]"
        )
    if ends is not None:
        lower, upper = bounds(ends)
        count = _validate.count("num_candidates", number, minimum=2, maximum=MAX_CANDIDATES)
        return np.linspace(lower, upper, count)
    points = public_numbers(candidates, "candidates", range(1, MAX_CANDIDATES + 1)).astype(np.float64)
    if not np.isfinite(points).all():
        raise InvalidArray("candidates must be finite")
    return points
