"""Quantiles by the exponential mechanism over public candidates.

*Rows.* A row counts as the candidate nearest to it, the smaller one of two that are equally near; what is beyond all
candidates counts as the outermost. That depends on the row and on public numbers alone: it costs nothing.

*Utility.* Let q = a/b, let n rows count, L of them below a candidate c and M at it or below. Then c is a q-quantile
just if b·L ≤ a·n ≤ b·M, and

    u(c) = −max(0, b·L − a·n, a·n − b·M)

is 0 at each of them, where many rows are equal too. Some candidate always has utility 0: a quantile of the rows as they
count.

*Sensitivity.* A row that is added or removed moves n by 1, and L and M by 1 or not at all: b·L − a·n by b − a or a, and
a·n − b·M likewise, hence u by at most max(a, b − a). A row that is replaced moves only L and M, hence u by at most b.
A null record does not count, so under REPLACE_SPECIAL a row comes or goes. A unit with k rows moves u k times as far.

*Error.* Of m candidates, one with utility −w is chosen with probability at most e^(−w/s), s the scale, for another has
utility 0. With probability 1 − β the choice therefore has utility at least −s·ln(m/β).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

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
from ferrodp.statistics.ranks.candidates import Adaptive, Rank
from ferrodp.tickets import Ticket

__all__ = ["private_median", "private_quantile", "private_quantiles"]

Grid: TypeAlias = tuple[int, int]
"""Of the default candidates: the fewest multiples of a power of ten, and the digits of those of any size."""
Ints: TypeAlias = npt.NDArray[np.int64]
Points: TypeAlias = npt.NDArray[np.float64] | Adaptive
"""Candidates one by one, or all decimals between two bounds."""
_DENOMINATOR = 10**6
_MOST_INTEGERS = 10**4
"""How many integers are candidates of equal weight; of more of them round ones weigh more."""
_MAX_ROWS = 2**33  # ranks times the denominator stay exact in float64
MAX_CANDIDATES = 10**7


@_arrays.quiet
def private_quantile(
    values: Any,
    quantile: Real,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
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
        The candidates lie between them; a value outside counts as the nearer one, an infinite one too.
    candidates : array of float
        Used instead: public, finite, not taken from the data.
    num_candidates : int, optional
        From 2 to 10⁷: the candidates are so many evenly spaced numbers between the bounds. By default they suit the
        column. Of an array of integers they are the integers between the bounds, if these are at most 10⁴. Otherwise
        they are the multiples of a power of ten, up to 10¹² of them; those of few digits weigh more, so that ties at
        round numbers and bounds that are much too wide cost few ranks.
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
    Every value counts as the candidate nearest to it, the smaller one of two. With q = a/b and n rows, of which L are
    below a candidate and M at it or below, its utility is −max(0, b·L − a·n, a·n − b·M): an integer that is 0 just
    where the candidate is a quantile, ties included. A row that is added or removed moves it by at most max(a, b − a),
    one that is replaced by at most b: exact in machine arithmetic. This is [Smi11] Algorithm 2 over a grid.

    With probability 1 − β the released number is a quantile of its own up to (2·Δ/ε)·ln(m/β)/b ranks, for m candidates
    of equal weight, where Δ is the sensitivity of the utility: for a median, one row a unit and 1000 candidates, up to
    10/ε ranks with 95 percent. Of weighted candidates m is the sum of all weights, divided by that of the quantiles of
    the column as it counts. That is a statement in ranks, and no interval for the value: one would have to be released.

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
    array = _ranked(values, missing)
    points = _points(bounds, candidates, num_candidates, array)
    mechanism = _choice(spent, ratio)
    event = mechanism.event
    (source,) = spent.sources(event, null_distance=None)
    chosen = choose(array, points, ratio, mechanism, source)
    return spent.estimate(chosen, None, event, f"quantile {float(ratio):g}")


@_arrays.quiet
def private_quantiles(
    values: Any,
    quantiles: Sequence[Real],
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
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
    array = _ranked(values, missing)
    points = _points(bounds, candidates, num_candidates, array)
    # mutant: quantiles-with-the-whole-budget-each
    share = spent.share(1, len(ratios))
    chosen, mechanisms = [], [_choice(share, ratio) for ratio in ratios]
    event = ComposedEvent(events=tuple(each.event for each in mechanisms))
    for ratio, mechanism, drawn in zip(
        ratios, mechanisms, spent.sources(*event.events, null_distance=None), strict=True
    ):
        chosen.append(choose(array, points, ratio, mechanism, drawn))
    labels = tuple(float(ratio) for ratio in ratios)
    return spent.estimate(np.sort(np.array(chosen)), None, event, "quantiles", labels=labels)


def private_median(
    values: Any,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
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


def choose(
    array: Column, points: Points, ratio: Fraction, mechanism: ExponentialMechanism, source: NoiseSource
) -> float:
    """Return a candidate, chosen by the mechanism for its distance from a quantile."""
    if isinstance(points, Adaptive):
        return points.choose(array, rank_of(ratio), mechanism, source)
    return float(points[mechanism.release(_utilities(array, points, ratio), source=source)])


def rank_of(ratio: Fraction) -> Rank:
    """Return what is looked for as the quantile a/b: b·less ≤ a·n and b·more ≤ (b − a)·n."""
    return Rank(ratio.denominator, lambda rows: ratio.numerator * rows)


def _utilities(array: Column, points: npt.NDArray[np.float64], ratio: Fraction) -> npt.NDArray[np.float64]:
    """Return the utility of every candidate; see the docstring of this module."""
    below, to, rows = _counted(array, points)
    a, b = ratio.numerator, ratio.denominator
    # mutant: quantile-without-its-ties
    missed = np.maximum(b * below - a * rows, a * rows - b * to)
    return -np.maximum(missed, 0).astype(np.float64)


def _counted(array: Column, points: npt.NDArray[np.float64]) -> tuple[Ints, Ints, int]:
    """Return how many rows are below each candidate, how many at it or below, and how many there are.

    Each row counts as the candidate nearest to it: as the first one whose middle to the next it does not exceed.
    """
    ascending, places = np.unique(points, return_inverse=True)
    # mutant: rows-at-no-candidate
    middles = 0.5 * ascending[:-1] + 0.5 * ascending[1:]
    to, rows = np.zeros(ascending.size, np.int64), 0
    for part in array.floats(at_least=points.size):
        part.sort()
        # mutant: row-in-the-middle-of-two-candidates
        to[:-1] += np.searchsorted(part, middles, side="right")
        rows += part.size
    # mutant: rows-beyond-all-candidates
    to[-1] = rows
    below = np.concatenate([np.zeros(1, np.int64), to[:-1]])
    return below[places], to[places], rows


def _ratio(quantile: object) -> Fraction:
    _validate.probability("quantile", quantile)
    return Fraction(_validate.exact("quantile", quantile)).limit_denominator(_DENOMINATOR)


def _points(ends: object, candidates: Any, number: Any, array: Column) -> Points:
    """Return the candidates of a quantile, which follow from public parameters and the dtype of the column."""
    if ends is not None and candidates is None and number is None:
        lower, upper = bounds(ends)
        integers = array.values.dtype.kind in "iu"
        found = _integers(lower, upper) if integers else None
        return Adaptive(lower, upper, whole=integers) if found is None else found
    return listed(ends, candidates, number, array, (1000, 2))


def listed(ends: object, candidates: Any, number: Any, array: Column, grid: Grid) -> npt.NDArray[np.float64]:
    """Return candidates one by one; by default `grid` says how many."""
    if (ends is None) == (candidates is None):
        raise InvalidParameter(
            f"exactly one of bounds and candidates must be given, got {'neither' if ends is None else 'both'}: "
            "bounds=(0, 100) or candidates=[...]"
        )
    if ends is not None:
        lower, upper = bounds(ends)
        if number is None:
            return _grid(lower, upper, array.values.dtype.kind in "iu", *grid)
        count = _validate.count("num_candidates", number, minimum=2, maximum=MAX_CANDIDATES)
        return np.linspace(lower, upper, count)
    points = public_numbers(candidates, "candidates", range(1, MAX_CANDIDATES + 1)).astype(np.float64)
    if not np.isfinite(points).all():
        raise InvalidArray("candidates must be finite")
    return points


@functools.lru_cache(maxsize=8)
def _grid(lower: float, upper: float, integers: bool, fewest: int, digits: int) -> npt.NDArray[np.float64]:
    """Return the candidates between two bounds.

    For a column of integers they are all integers, if these are few. Otherwise they are the
    multiples of a power of ten, from `fewest` up to ten times as many; the numbers of up to so many digits, of the size
    of the larger bound and down to 10⁻¹² of it, so that the candidates suit bounds that are too wide; and the bounds.
    """
    found = _integers(lower, upper) if integers else None
    if found is not None:
        return found
    span, size = Fraction(upper) - Fraction(lower), max(abs(lower), abs(upper))
    places = Decimal(float(span / fewest)).adjusted()
    start, stop = (
        round_(Fraction(end) / Fraction(10) ** places) for round_, end in ((math.ceil, lower), (math.floor, upper))
    )
    parts = [np.array([lower, upper])]
    if max(abs(start), abs(stop)) <= 2**53:
        parts.append(_decimals(np.arange(start, stop + 1, dtype=np.float64), places))
    else:
        parts.append(np.linspace(lower, upper, fewest))  # bounds this close are few floats apart
    mantissas, top = np.arange(10 ** (digits - 1), 10**digits, dtype=np.float64), Decimal(size).adjusted()
    for exponent in range(max(top - 12, -300) - digits + 1, top - digits + 2):
        decade = _decimals(mantissas, exponent)
        parts += [decade, -decade]
    points = np.unique(np.concatenate([*parts, [0.0]]))
    points = points[(points >= lower) & (points <= upper)]
    points.setflags(write=False)
    return points


def _integers(lower: float, upper: float) -> npt.NDArray[np.float64] | None:
    """Return all integers between two bounds, from 2 to `_MOST_INTEGERS` of them, or None."""
    first, last = math.ceil(lower), math.floor(upper)
    few = 1 <= last - first < _MOST_INTEGERS and max(abs(first), abs(last)) <= 2**53
    return np.arange(first, last + 1, dtype=np.float64) if few else None


def _decimals(integers: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.float64]:
    """Return integers times a power of ten: for exponents from −22 to 22 the floats that decimals are read as."""
    power = float(f"1e{abs(exponent)}")
    return integers * power if exponent >= 0 else integers / power
