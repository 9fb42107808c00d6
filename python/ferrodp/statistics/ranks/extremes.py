"""Bounds, minimum and maximum of a column, found privately.

*Bounds.* Values are counted in public bins whose edges are 0 and ± powers of two; whatever lies beyond the last edge is
in the last bin. That is a histogram: every row is in one bin, so its sensitivity and its noise are those of
`private_histogram`. The bounds are the outer edges of the outermost bins whose noised count reaches a threshold:
post-processing. The threshold is such that empty bins, all of them together, reach it with a stated probability
[WZLDSG20].

*Minimum and maximum near a rank.* They are quantiles of another rank: a maximum is looked for where r rows lie beyond
it. Every value counts as the largest candidate that is at most the value, for a minimum as the least that is at least
the value: what is released is never rounded outward. The docstring of `candidates` has the utility and its sensitivity,
which is the number k of rows of a unit under every relation, as a/b is 1 or 0. All candidates beyond the values have
utility −r at most, and some candidate has utility 0: one at the rank, or the outer one where there are no more than r
values. With r ≥ (2k/ε)·ln(m/β) for m candidates the choice therefore lies beyond all values with probability at most β,
by the tail in that docstring. So the interval from the released number to the bound holds the largest of the clamped
values with probability 1 − β, and costs nothing. No other end is possible: one row may be at the bound, and nothing
private can tell. Where r is 0 utilities are monotonic, and half as much noise does, unless a unit replaces several
rows, which may move some utilities up and others down.

*Minimum and maximum themselves.* A rank r = 0 is the most accurate where the bound is near the extreme, and releases a
random number between the two where it is not. So two choices come first, with a fifth and a tenth of ε: one at the rank
r that lies within the values with probability 0.95, and one at 3·r. Let g be the distance of the first from the bound,
and s that of the two, or what candidates lie apart there if that is more. If rows are exponential, the extreme is about
s·ln(r)/ln 3 beyond the first. What follows is post-processing, and then a choice with seven tenths of ε:

- g > 22·s: the bounds are wide, and the extreme is looked for near a rank, as above, among some hundred candidates from
  the first choice outward. A number beyond all values is less far from them than the bound is.
- g ≤ s: the bound is about the extreme, and the choice is at rank 0 among the permuted candidates of all bounds, of
  which one is the bound.
- in between, or where the second choice is at the other bound because there are fewer than 3·r rows: at rank 0 among
  candidates between the first choice and the bound.

That is an adaptive composition of three ε-differentially private choices, which costs the sum. The first choice is the
end of an interval with level 0.95, whatever the other two are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics import counts
from ferrodp.statistics._budget import Bounds, Budget, budget
from ferrodp.statistics._column import Keep, Missing
from ferrodp.statistics._noise import Transformed
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts.exact import passed, passed_rows
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import candidates as _candidates
from ferrodp.statistics.ranks import quantiles
from ferrodp.statistics.ranks.candidates import Listed, Rank
from ferrodp.statistics.ranks.quantiles import Among
from ferrodp.tickets import Ticket

__all__ = ["private_bounds", "private_max", "private_min"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_MISSED = 0.05
"""The probability with which the first choice, or the interval, may miss the extreme."""
_FEW, _FEWER = (1000, 2), (1000, 3)
"""The most multiples of a power of ten among the candidates, and the digits of those of any size."""
_SHARES = 4, 2, 14
"""Parts of ε for a candidate within the values, for one that is further in, and for the extreme."""
_FURTHER = 3
"""How many times as many rows lie beyond the second candidate."""
_WIDE = 22.0
"""Bounds are wide where the bound is further beyond the first than so many times what the two lie apart."""
_OF_FINEST, _FINEST = 300.0, 1e5
"""The weight of the finest candidates for ε of at most 1, and the most; in between it grows with the fourth power."""
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
    unit: Any = None,
    keep: Keep = "random",
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
    values, missing, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
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
    looked = Bounded.of(magnitudes, failure_probability)
    edges = looked.edges
    spent = _units.of_units(spent, unit, keep, missing)
    held = _units.numbers(spent, values, missing)
    moved = spent.max_contributions
    # mutant: replaced-row-moves-one-bin-of-the-bounds
    ends = 2 if spent.replaces else 1
    # mutant: rows-of-a-unit-in-several-bins-of-the-bounds
    mechanism = spent.mechanism(ends * moved, squared_l2_sensitivity=ends * moved**2, dimension=edges.size - 1)
    found = passed(
        # mutant: values-beyond-the-edges-decide-on-the-number-of-rows
        lambda: counts._binned(edges, (np.clip(part, edges[0], edges[-1]) for part in held.floats())),
        lambda: (mechanism.event, edges, looked.chance, spent.unit),
    )
    (drawn,) = spent.says("bounds", values).sources(mechanism.event, null_distance=None)
    # mutant: bounds-of-bare-counts
    mechanism.release(found, out=found, source=drawn)
    bounds = looked.around(found, mechanism)
    return spent.estimate(bounds, None, mechanism.event, "bounds", labels=("lower", "upper"))


class Bounded(NamedTuple):
    """What bounds are looked for among, and how often some bin without values may pass for one with many."""

    edges: Doubles
    chance: float

    @classmethod
    def of(cls, magnitudes: Any, failure_probability: Any) -> Bounded:
        """Check the parameters."""
        edges = _edges(magnitudes)
        chance = _validate.positive("failure_probability", failure_probability)
        if chance >= 1.0:
            raise _validate.out_of_domain("failure_probability", "in (0, 1)", failure_probability)
        return cls(edges, chance)

    def around(self, noised: npt.NDArray[np.int64], mechanism: Any) -> Doubles:
        """Return the outer edges of the outermost bins whose noised counts are high, or those of the fullest bin."""
        full = np.flatnonzero(noised >= _threshold(mechanism, self.edges.size - 1, self.chance))
        first, last = (full[0], full[-1]) if full.size else (noised.argmax(),) * 2
        return np.array([self.edges[first], self.edges[last + 1]])


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
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return a candidate near the largest value of a column, or near the one that `rank` values exceed.

    The release is ε-differentially private for a unit that contributes at most `max_contributions` rows, under every
    neighboring relation. The largest value itself cannot be released: it is that of one record.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, missing
        As for `private_quantile`. With `rank` each value counts as the largest candidate that is at most the value, and
        by default, where they are not the integers, candidates are up to 1000 multiples of a power of ten and the
        numbers of up to 2 digits.
    rank : int, optional
        How many values should exceed what is released: public, ≥ 0. By default the largest is looked for, in a way that
        suits tight bounds and wide ones.
    epsilon, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is a float, one of the candidates. Its interval, up to the upper bound, holds the largest of the
        clamped values: by default with probability 0.95, from a number that was released on the way; with `rank` from
        the value, with a probability that the rank gives. At a higher level it spans the bounds.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The docstring of `ferrodp.statistics.ranks.extremes` has the utilities, their sensitivity, and the three choices of
    the default: two of them, with three tenths of ε, find how far the bound is from the values, and the third has the
    rest. They need some 250/ε rows to find wide bounds wide; with fewer, and where wide bounds are not much wider than
    the values, what is released is about as far from the largest value as a random number between that and the bound.
    Then a ``rank`` of about 20/ε is within the values with a probability of some 95 percent.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> estimate = fd.private_max(np.arange(10_000), bounds=(0.0, 20_000.0), rank=100, epsilon=1.0)
    >>> 9_800.0 <= float(estimate) <= 10_000.0
    True
    """
    return _extreme(
        values, (bounds, candidates, num_candidates), rank, True, (missing, unit, keep),
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
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return a candidate near the smallest value of a column, or near the one that `rank` values fall short of.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, missing
        As for `private_max`; with `rank` each value counts as the least candidate that is at least the value.
    rank, epsilon, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_max`.

    Returns
    -------
    Estimate
        Its value is a float, one of the candidates. Its interval, from the lower bound on, holds the least of the
        clamped values, as for `private_max`.

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
        values, (bounds, candidates, num_candidates), rank, False, (missing, unit, keep),
        (epsilon, 0.0, max_contributions, neighboring_relation, source, ticket),
    )  # fmt: skip


def _extreme(values: object, among: Any, rank: Any, is_max: bool, rows: Any, about: Any) -> Estimate[float]:
    missing, unit, keep = rows
    ends, candidates, number = among
    spent, ends, candidates = quantiles.timed(budget(*about), ends, candidates)
    spent = _units.of_units(spent, unit, keep, missing)
    held = quantiles.ranked(spent, values, missing)
    points = quantiles.among(ends, candidates, number, held)
    spent = spent.says("maximum" if is_max else "minimum", values, points.ends(True))
    sought = looked_for(spent, points, is_max, rank)
    public = (sought.events, points, rank, is_max, spent.unit)
    rows = passed_rows(lambda: _candidates.ordered(held), lambda: public)
    sources = spent.sources(*sought.events, null_distance=None)
    value, law = sought.of(rows, iter(sources))
    return spent.estimate(value, None, quantiles.composed(sought.events), sought.what, law)


class Looked(NamedTuple):
    """An extreme that is looked for: what its choices cost, and how they are made."""

    what: str
    events: list[PrivacyEvent]
    of: Callable[[Ascending, Iterator[NoiseSource]], tuple[float, Transformed]]


def looked_for(spent: Budget, points: Among, is_max: bool, rank: Any) -> Looked:
    """Return how the value that `rank` others exceed is looked for, or without a rank the extreme itself."""
    what = "maximum" if is_max else "minimum"
    if rank is None:
        return _by_three_choices(spent, points, is_max, what)
    few = points.few("down" if is_max else "up", *_FEW)
    target = _validate.count("rank", rank, minimum=0, maximum=2**33)
    at = _beyond(target, is_max)
    mechanism = quantiles.mechanism(spent, at)
    missed = few.number * math.exp(-target / mechanism.scale)

    def of(rows: Ascending, sources: Iterator[NoiseSource]) -> tuple[float, Transformed]:
        drawn = next(sources)
        # mutant: largest-candidate-released-without-noise
        chosen = few.choose(rows, at, mechanism, drawn)
        return chosen, Transformed(_interval(missed, chosen, points, is_max))

    return Looked(f"{what} near rank {target}", [mechanism.event], of)


def rank_within(spent: Budget, points: Among) -> int:
    """Return the rank whose choice of a maximum lies beyond all values with a probability of at most 5 percent."""
    return -_nearby(spent, points.few("down", *_FEW), True).rank.shift


def _by_three_choices(spent: Budget, points: Among, is_max: bool, what: str) -> Looked:
    """Return how an extreme is looked for: two candidates that lie within the values, and the extreme."""
    few = points.few("down" if is_max else "up", *_FEWER)
    # mutant: three-choices-of-an-extreme-with-the-whole-budget
    shares = [spent.share(part, sum(_SHARES)) for part in _SHARES]
    within = _nearby(shares[0], few, is_max)
    looked_for = _beyond(_FURTHER * abs(within.rank.shift), is_max)
    further = quantiles.Choice(few, looked_for, quantiles.mechanism(shares[1], looked_for))
    event = quantiles.mechanism(shares[2], _beyond(1, is_max)).event

    def of(rows: Ascending, sources: Iterator[NoiseSource]) -> tuple[float, Transformed]:
        inner, typical = within.of(rows, next(sources)), further.of(rows, next(sources))
        chosen = _last(shares[2], points, inner, typical, is_max).of(rows, next(sources))
        end = min(inner, chosen) if is_max else max(inner, chosen)
        return chosen, Transformed(_interval(_MISSED, end, points, is_max))

    return Looked(what, [within.mechanism.event, further.mechanism.event, event], of)


def _last(spent: Budget, points: Among, inner: float, typical: float, is_max: bool) -> quantiles.Choice:
    """Return the choice of an extreme, given two candidates within the values: post-processing of these."""
    near, (inside, bound) = _beyond(0, is_max), points.ends(is_max)
    spread, gap = (inner - typical if is_max else typical - inner), abs(bound - inner)
    # As few rows as these choices need are found at the other end of the bounds, and say nothing.
    known = typical != inside and spread >= 0.0
    # Two values may count as one number: they lie apart by as much as candidates do there.
    others = points.few("nearest", *_FEWER).points
    further_in = others[others < inner][-1:] if is_max else others[others > inner][:1]
    apart = max(spread, float(np.abs(inner - further_in).sum()))
    if known and gap > _WIDE * apart:
        return _nearby(spent, _outward(points, inner, spread, is_max), is_max)
    tight = known and gap <= apart
    weight = min(_FINEST, _OF_FINEST * max(1.0, spent.epsilon / spent.max_contributions) ** 4)
    left = (points if tight else points.between(*sorted((inner, bound)))).nearest(weight)
    return quantiles.Choice(left, near, quantiles.mechanism(spent, near))


def _beyond(rows: int, is_max: bool) -> Rank:
    """Return the rank of the value that so many rows lie beyond."""
    return Rank(1, 1, -rows) if is_max else Rank(0, 1, rows)


def _nearby(spent: Budget, few: Listed, is_max: bool) -> quantiles.Choice:
    """Return a choice that lies beyond all values with a probability of at most 5 percent."""
    mechanism = quantiles.mechanism(spent, _beyond(1, is_max))
    target = few.reach(mechanism, _MISSED)
    if target > 2**33:
        raise InvalidParameter("epsilon must be larger, or rank be given: its default is beyond all rows that fit")
    return quantiles.Choice(few, _beyond(target, is_max), mechanism)


def _outward(points: Among, inner: float, spread: float, is_max: bool) -> Listed:
    """Return some hundred candidates from `inner` outward, in steps that are small beside `spread` and then double."""
    few = points.few("nearest", *_FEW).points
    steps = np.concatenate([np.arange(0.0, 3.0, 0.05), 3.0 * 2.0 ** np.arange(60)]) * spread
    reached = inner + steps if is_max else inner - steps
    places = np.searchsorted(few, reached[(reached >= points.lower) & (reached <= points.upper)])
    # Where many rows are equal, the next numbers too.
    following = np.searchsorted(few, inner) + np.append(np.arange(20), 2 ** np.arange(5, 30)) * (1 if is_max else -1)
    kept = np.append(places, following[(following >= 0) & (following < few.size)])
    found = np.append(few[np.minimum(kept, few.size - 1)], [inner, points.upper if is_max else points.lower])
    kept = np.unique(found[found >= inner] if is_max else found[found <= inner])
    return Listed(kept, "down" if is_max else "up")


def _interval(missed: float, end: float, points: Among, is_max: bool) -> Callable[[float], tuple[float, float]]:
    """Return the interval at a level: from an end to the bound, if that misses the extreme rarely enough."""

    def interval(level: float) -> tuple[float, float]:
        # mutant: extreme-with-more-certainty-than-its-rank-gives
        if missed > 1.0 - level:
            return points.lower, points.upper
        return (end, points.upper) if is_max else (points.lower, end)

    return interval
