"""The test itself: an event is chosen, counted on other draws, and judged by exact binomial bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ferrodp.audit import _binomial
from ferrodp.audit._events.outputs import Outputs, joined
from ferrodp.audit._events.regions import Region
from ferrodp.audit._events.search import Rated, search
from ferrodp.audit._joint import REACH, Pair, Rates, bound, pooling_helps, reach_for
from ferrodp.audit.power import SIGNIFICANCE, smallest_violation
from ferrodp.audit.report import AuditReport

Draw = Callable[[int, int], Iterator[Outputs]]
"""Takes the number of the neighbor, 0 or 1, and how many outputs; yields them in chunks."""

MAX_CHOSEN = 200_000
_LARGE = 50.0
_LARGEST = 700.0
"""Of a claim that is bet against: no number of draws shows more."""
_DELTAS = (0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


class Stated(NamedTuple):
    """An event whose rates the law that a mechanism states implies, for the likelier neighbor and the other one."""

    region: Region
    rates: Rates


@dataclass(slots=True)
class _Count:
    """How often an event happened on the likelier side, on the other one, and in both of a pair of draws."""

    region: Region
    likelier: int
    expected: Rates
    stake: float
    hits: int = 0
    other_hits: int = 0
    both: int = 0


def split(draws: int) -> tuple[int, int]:
    """Return how many draws of each side choose the event, and how many are counted."""
    chosen = min(max(draws // 4, 1), MAX_CHOSEN)
    return chosen, draws - chosen


def run(
    draw: Draw,
    *,
    claim: str,
    neighbors: tuple[str, str],
    epsilon: float,
    delta: float,
    draws: int,
    level: float = SIGNIFICANCE,
    stated: tuple[Stated, Stated] | None = None,
    workers: int = 1,
) -> AuditReport:
    """Choose an event for each of the two directions, count both, and report the one that shows more.

    A true claim is called violated with probability `level` at most.
    With several workers `draw` is called from as many threads at once.
    """
    chosen, counted = split(draws)
    sides = joined(list(draw(0, chosen))), joined(list(draw(1, chosen)))
    found = search(*sides, counted=counted, delta=delta)
    counts = [_chosen(side, found[side], counted, epsilon, delta, stated and stated[side]) for side in (0, 1)]
    # mutant: counted-on-the-draws-that-chose
    fresh = draw
    # mutant: draws-of-one-worker-counted
    _count(fresh, counts, [counted * (i + 1) // workers - counted * i // workers for i in range(workers)])
    bounds = _Bounds(counts, counted, epsilon, delta, reach_for(level))
    usual, strict, decisive = (bounds.of(each, delta) for each in (0.05, SIGNIFICANCE, level))
    shown = max((0, 1), key=lambda i: usual[i])
    best = counts[shown]
    logs = [_log_e_value(count, counted, epsilon, delta) for count in counts]
    top = max(logs)
    rates = tuple(
        (_binomial.lower_bound(hits, counted, 0.05 / 8), _binomial.upper_bound(hits, counted, 0.05 / 8))
        for hits in (best.hits, best.other_hits)
    )
    return AuditReport(
        claim=claim,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        draws=draws,
        counted=counted,
        region=str(best.region),
        likelier="first" if best.likelier == 0 else "second",
        hits=(best.hits, best.other_hits),
        rates=(rates[0], rates[1]),
        epsilon_lower_bound=max(usual),
        epsilon_lower_bound_999=max(strict),
        # mutant: violation-at-the-lower-confidence
        violation=max(decisive) > epsilon,
        power=smallest_violation(draws=counted, epsilon=epsilon, delta=delta, confidence=1.0 - level),
        confidence=1.0 - level,
        log_e_value=top + math.log(sum(math.exp(each - top) for each in logs) / len(logs)),
        curve=tuple((each, max(bounds.of(0.05, each))) for each in _DELTAS),
        multiplicity=len(counts),
        roc=_roc(best, sides),
    )


class _Bounds:
    """Lower bounds on ε from the counts of two events: each alone, and both together where that promises more."""

    def __init__(self, counts: list[_Count], counted: int, epsilon: float, delta: float, reach: float = REACH) -> None:
        one, other = counts
        pooled = one.region.excludes(other.region) and pooling_helps([one.expected, other.expected], counted, delta)

        def pair(count: _Count, left: int) -> Pair:
            weighed = min(max(epsilon, count.expected.promise(counted, delta)), count.expected.epsilon(delta), _LARGE)
            return Pair(count.hits, count.other_hits, counted, count.expected, max(weighed, 0.0), delta, left, reach)

        self.alone = [pair(count, counted) for count in counts]
        # mutant: pooled-draws-counted-twice
        self.pooled = [pair(one, counted - other.hits), pair(other, counted - one.hits)] if pooled else []

    def of(self, level: float, delta: float) -> list[float]:
        """Return the bounds; all are right with probability 1 − `level`, at every δ."""
        # mutant: bounds-without-multiplicity
        share = level / (4.0 if self.pooled else 2.0)
        found = [bound([pair], share, delta) for pair in self.alone]
        return [*found, bound(self.pooled, 2.0 * share, delta)] if self.pooled else found


def _count(draw: Draw, counts: list[_Count], shares: list[int]) -> None:
    """Draw pairs, a share in each thread, and add how often the events happened to the counts."""

    def counted(share: int) -> list[_Count]:
        own = [replace(count) for count in counts]
        for a, b in zip(draw(0, share), draw(1, share), strict=True):
            for count in own:
                one, other = (count.region.hits(each) for each in ((a, b) if count.likelier == 0 else (b, a)))
                count.hits += int(np.count_nonzero(one))
                count.other_hits += int(np.count_nonzero(other))
                count.both += int(np.count_nonzero(one & other))
        return own

    if len(shares) == 1:
        found = [counted(shares[0])]
    else:
        with ThreadPoolExecutor(len(shares)) as pool:
            found = list(pool.map(counted, shares))
    for own in found:
        for count, part in zip(counts, own, strict=True):
            count.hits += part.hits
            count.other_hits += part.other_hits
            count.both += part.both


def _chosen(side: int, found: Rated, counted: int, epsilon: float, delta: float, stated: Stated | None) -> _Count:
    """Return the event that promises the largest ε in one direction, and the stake of its e-value."""
    best, rates = found.region, Rates(found.likelier, found.other)
    if stated is not None and stated.rates.promise(counted, delta) > found.promise:
        best, rates = stated.region, stated.rates
    return _Count(best, side, rates, _stake(*rates, epsilon, delta))


def _roc(best: _Count, outputs: tuple[Outputs, Outputs]) -> tuple[tuple[float, float], ...]:
    """Return rates of false and true alarms of tests like the chosen one, at other thresholds."""
    sides = outputs[best.likelier], outputs[1 - best.likelier]
    if best.region.what not in ("above", "below"):
        ends = [float(np.mean(best.region.hits(side))) for side in sides]
        return ((0.0, 0.0), (ends[1], ends[0]), (1.0, 1.0))
    sign = 1.0 if best.region.what == "above" else -1.0
    statistic = best.region.statistic
    likelier, other = (
        np.sort(np.nan_to_num(sign * np.asarray(statistic.of(side), dtype=np.float64), nan=-np.inf)) for side in sides
    )
    both = np.sort(np.concatenate([likelier, other]), kind="stable")
    places = np.unique(both[np.linspace(0, both.size - 1, 65).astype(np.intp)])
    alarms = [(1.0 - np.searchsorted(side, places) / side.size).tolist() for side in (other, likelier)]
    found = zip(*alarms, strict=True)
    return (*sorted([(0.0, 0.0), *found]),)


def _stake(p: float, q: float, epsilon: float, delta: float) -> float:
    """Return the share that maximizes the expected logarithm of the e-value if the rates are these."""
    if epsilon > _LARGEST:
        return 0.0
    loss = math.exp(epsilon) + delta

    def growth(stake: float) -> float:
        outcomes = ((1, 0, p * (1 - q)), (1, 1, p * q), (0, 1, (1 - p) * q), (0, 0, (1 - p) * (1 - q)))
        return sum(w * math.log(_factor(x, y, stake, epsilon, delta)) for x, y, w in outcomes if w)

    return max((0.99 * i / (50 * loss) for i in range(51)), key=growth)


def _factor(x: int, y: int, stake: float, epsilon: float, delta: float) -> float:
    """Return what a pair of draws multiplies the e-value by: if P ≤ e^ε·Q + δ, its mean is at most 1."""
    return 1.0 + stake * (x - math.exp(epsilon) * y - delta) if stake else 1.0


def _log_e_value(count: _Count, counted: int, epsilon: float, delta: float) -> float:
    pairs = (
        (1, 1, count.both),
        (1, 0, count.hits - count.both),
        (0, 1, count.other_hits - count.both),
        (0, 0, counted - count.hits - count.other_hits + count.both),
    )
    return math.fsum(times * math.log(_factor(x, y, count.stake, epsilon, delta)) for x, y, times in pairs if times)
