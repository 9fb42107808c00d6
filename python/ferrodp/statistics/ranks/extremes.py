"""Bounds, minimum and maximum of a column, found privately.

*Bounds.* Values are counted in public bins whose edges are 0 and ± powers of two; whatever lies beyond the last edge is
in the last bin. That is a histogram: every row is in one bin, so its sensitivity and its noise are those of
`private_histogram`. The bounds are the outer edges of the outermost bins whose noised count reaches a threshold:
post-processing. The threshold is such that empty bins, all of them together, reach it with a stated probability
[WZLDSG20].

*Minimum and maximum.* They are quantiles of another rank: a maximum is looked for where r rows lie beyond it. Every
value counts as the largest candidate that is at most the value, for a minimum as the least that is at least the value:
what is released is never rounded outward. The docstring of `candidates` has the utility and its sensitivity, which is
the number k of rows of a unit under every relation, as a/b is 1 or 0. All candidates beyond the values have utility
−r, and some candidate has utility 0: one at the rank, or the outer one where there are no more than r values. With
r ≥ (2k/ε)·ln(m/β) for m candidates the choice therefore lies beyond all values with probability at most β, by the
tail in that docstring. So the interval from the released number to the bound holds the largest of the clamped values
with probability 1 − β, and costs nothing. No other end is possible: one row may be at the bound, and nothing private
can tell.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics import counts
from ferrodp.statistics._budget import Bounds, budget
from ferrodp.statistics._column import Missing, column
from ferrodp.statistics._noise import Transformed
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.ranks import candidates as _candidates
from ferrodp.statistics.ranks import quantiles
from ferrodp.statistics.ranks.candidates import Rank
from ferrodp.tickets import Ticket

__all__ = ["private_bounds", "private_max", "private_min"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_MISSED = 0.05
"""The probability with which a maximum may lie beyond all values."""
_FEW = 1000, 2
"""The most multiples of a power of ten among the candidates, and the digits of those of any size."""
Doubles = npt.NDArray[np.float64]


@_arrays.quiet
def private_bounds(
    values: Any,
    *,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    magnitudes: tuple[Real, Real] = (2.0**-10, 2.0**64),
    failure_probability: Real = 1e-3,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[Doubles]:
    """Return bounds of a column, found privately: powers of two between which most of its values lie.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows. What it
    returns can be passed on as ``bounds=``, of `private_mean` for instance; a few values may lie outside.

    Parameters
    ----------
    values, missing, epsilon, delta, max_contributions, neighboring_relation, source, ticket
        As for `private_count`; numbers only.
    magnitudes : (float, float)
        Public: the sizes between which bounds are looked for. The edges of the bins are 0 and ± the first number times
        powers of two, up to the second; larger values count as the second. By default every integer of 64 bits fits.
    failure_probability : float
        In (0, 1): the probability with which some bin without values passes for one with many. The smaller it is, the
        more values a bin needs.

    Returns
    -------
    Estimate
        Two floats, the lower bound and the upper one.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The module docstring has the sensitivity. Where no bin passes, the fullest after noise is taken: some bounds are
    returned for every column, an empty one too. A bin needs about (k/ε)·ln(bins/`failure_probability`) values.

    References
    ----------
    [WZLDSG20] Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson, "Differentially private SQL with bounded user
    contribution", PoPETs 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> stays = np.tile([3.0, 7.0, 20.0, 25.0], 500)
    >>> found = fd.private_bounds(stays, epsilon=1.0)
    >>> found.value
    array([ 2., 32.])
    >>> abs(float(fd.private_mean(stays, bounds=found, epsilon=1.0)) - 13.75) < 1.0
    True
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    spent.check_missing(missing)
    edges = _edges(magnitudes)
    chance = _validate.positive("failure_probability", failure_probability)
    if chance >= 1.0:
        raise _validate.out_of_domain("failure_probability", "in (0, 1)", failure_probability)
    held = column(values, missing)
    moved = spent.max_contributions
    # mutant: replaced-row-moves-one-bin-of-the-bounds
    ends = 2 if spent.replaces else 1
    # mutant: rows-of-a-unit-in-several-bins-of-the-bounds
    mechanism = spent.mechanism(ends * moved, squared_l2_sensitivity=ends * moved**2, dimension=edges.size - 1)
    # mutant: values-beyond-the-edges-decide-on-the-number-of-rows
    found = counts._binned(edges, (np.clip(part, edges[0], edges[-1]) for part in held.floats()))
    (drawn,) = spent.sources(mechanism.event, null_distance=None)
    # mutant: bounds-of-bare-counts
    mechanism.release(found, out=found, source=drawn)
    least = _threshold(mechanism, edges.size - 1, chance)
    full = np.flatnonzero(found >= least)
    first, last = (full[0], full[-1]) if full.size else (found.argmax(),) * 2
    bounds = np.array([edges[first], edges[last + 1]])
    return spent.estimate(bounds, None, mechanism.event, "bounds", labels=("lower", "upper"))


def _edges(magnitudes: Any) -> Doubles:
    if not isinstance(magnitudes, (tuple, list)) or len(magnitudes) != 2:
        raise _validate.out_of_domain("magnitudes", "a pair (smallest, largest)", magnitudes, write="(0.01, 1e6)")
    smallest, largest = (_validate.positive("magnitudes", each) for each in magnitudes)
    if not 1e-250 <= smallest < largest <= 1e300:
        raise _validate.out_of_domain("magnitudes", "in ascending order, from 1e-250 to 1e300", magnitudes)
    steps = math.ceil(math.log2(largest) - math.log2(smallest) - 1e-9)
    upper = smallest * 2.0 ** np.arange(steps + 1)
    return np.concatenate([-upper[::-1], [0.0], upper])


def _threshold(mechanism: Any, bins: int, chance: float) -> int:
    """Return a count that no noise of many bins reaches, except with about this probability."""
    scale, each = float(mechanism.scale), chance / bins
    if isinstance(mechanism, DiscreteLaplaceMechanism):
        return max(1, math.ceil(-scale * math.log(each)))
    return max(1, math.ceil(scale * math.sqrt(-2.0 * math.log(each))))


@_arrays.quiet
def private_max(
    values: Any,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
    rank: int | None = None,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return a candidate near the largest values of a column: one that about `rank` values exceed.

    The choice is ε-differentially private for a unit that contributes at most `max_contributions` rows, under every
    neighboring relation. The largest value itself cannot be released: it is that of one record.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, missing
        As for `private_quantile`; but each value counts as the largest candidate that is at most the value, and by
        default, where they are not the integers, candidates are up to 1000 multiples of a power of ten and the numbers
        of up to 2 digits: the fewer there are, the smaller is the default rank.
    rank : int, optional
        How many values should exceed what is released: public, ≥ 0. By default so many that what is released lies
        beyond all values with a probability of at most 5 percent.
    epsilon, max_contributions, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is a float, one of the candidates. Its interval, from the value to the upper bound, holds the largest
        of the clamped values: with probability 0.95 at the default rank. At a level that the rank does not give, it
        spans the bounds.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The utility, its sensitivity and the default rank are in the docstring of `ferrodp.statistics.ranks.extremes`. For
    121 candidates, the ages from 0 to 120, ε = 1 and one row a unit, the default rank is 16.

    The default errs toward the other values, which pays where the bounds are wider than the data. Where they are about
    as tight as the data, ``rank=2`` is more accurate, by up to 30 times: of 1000 uniform values in their bounds the
    error is 0.2 instead of 1.2 percent at ε = 1. With wider bounds such a rank releases a random number between the
    largest value and the bound.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> estimate = fd.private_max(np.arange(10_000), bounds=(0.0, 20_000.0), rank=100, epsilon=1.0)
    >>> 9_800.0 <= float(estimate) <= 10_000.0
    True
    """
    return _extreme(
        values, (bounds, candidates, num_candidates), rank, True, missing,
        (epsilon, 0.0, max_contributions, neighboring_relation, source, ticket),
    )  # fmt: skip


@_arrays.quiet
def private_min(
    values: Any,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
    rank: int | None = None,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return a candidate near the smallest values of a column: one that about `rank` values fall short of.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, missing
        As for `private_max`; each value counts as the least candidate that is at least the value.
    rank, epsilon, max_contributions, neighboring_relation, source, ticket
        As for `private_max`.

    Returns
    -------
    Estimate
        Its value is a float, one of the candidates. Its interval, from the lower bound to the value, holds the least of
        the clamped values, as for `private_max`.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> estimate = fd.private_min(np.arange(5_000, 10_000), bounds=(0.0, 20_000.0), rank=100, epsilon=1.0)
    >>> 5_000.0 <= float(estimate) <= 5_200.0
    True
    """
    return _extreme(
        values, (bounds, candidates, num_candidates), rank, False, missing,
        (epsilon, 0.0, max_contributions, neighboring_relation, source, ticket),
    )  # fmt: skip


def _extreme(values: object, among: Any, rank: Any, is_max: bool, missing: object, about: Any) -> Estimate[float]:
    spent = budget(*about)
    held = quantiles.ranked(values, missing)
    ends, candidates, number = among
    points = quantiles.among(ends, candidates, number, held)
    few = points.few("down" if is_max else "up", *_FEW)
    mechanism = quantiles.mechanism(spent, Rank(int(is_max), 1))
    target = few.reach(mechanism, _MISSED) if rank is None else _validate.count("rank", rank, minimum=0, maximum=2**33)
    if target > 2**33:
        raise InvalidParameter("epsilon must be larger, or rank be given: its default is beyond all rows that fit")
    looked_for = Rank(1, 1, -target) if is_max else Rank(0, 1, target)
    (drawn,) = spent.sources(mechanism.event, null_distance=None)
    # mutant: largest-candidate-released-without-noise
    chosen = few.choose(_candidates.ordered(held), looked_for, mechanism, drawn)
    outermost = points.lower, points.upper
    missed = few.number * math.exp(-target / mechanism.scale)

    def interval(level: float) -> tuple[float, float]:
        # mutant: extreme-with-more-certainty-than-its-rank-gives
        if missed > 1.0 - level:
            return outermost
        return (chosen, outermost[1]) if is_max else (outermost[0], chosen)

    what = f"{'maximum' if is_max else 'minimum'} near rank {target}"
    return spent.estimate(chosen, None, mechanism.event, what, Transformed(interval))
