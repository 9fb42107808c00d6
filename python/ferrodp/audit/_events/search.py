"""The choice of an event: which one, of many, promises to show the largest ε on draws that are still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp.audit._events.learned import differences, learned
from ferrodp.audit._events.outputs import Array, Bits, Outputs, bits_of
from ferrodp.audit._events.regions import NO_BITS, Region, is_among, last_bits
from ferrodp.audit._events.statistics import DERIVED, Column, Derived, Kind, Rest, Statistic, Whole

_MAX_ATOMS = 16
_OFTEN = 10
"""Hits of a single value that is an event."""
_SETS = 24
_PENALTY = 3.0
"""Standard deviations by which rates are doubted."""


class Rated(NamedTuple):
    """An event with the rates that it had on both sides, and the ε that it promises."""

    region: Region
    likelier: float
    other: float
    promise: float


@dataclass(slots=True)
class _Best:
    """The best event so far of each of the two directions."""

    counted: int
    delta: float
    found: list[Rated] = field(default_factory=lambda: [Rated(Region("above", Column(0), np.inf), 0, 0, -np.inf)] * 2)

    def promises(self, hits: Array, other: Array, draws: int) -> Array:
        """Return about the ε that events are going to show, from how often they happened in so many draws."""
        p, q = hits / draws, other / draws
        known = np.sqrt(1.0 / draws + 1.0 / self.counted)
        low = p - _PENALTY * np.sqrt(p * (1.0 - p)) * known - self.delta
        high = q + _PENALTY * np.sqrt(q * (1.0 - q)) * known + 7.0 / self.counted + 3.0 / draws
        found: Array = np.where(low > 0.0, np.log(np.maximum(low, 1e-300) / high), -np.inf)
        return found

    def take(self, side: int, hits: Array, other: Array, draws: int, make: object) -> None:
        """Keep the best of some events, which `make` returns by their places, if it is better."""
        if not hits.size:
            return
        promises = self.promises(hits, other, draws)
        i = int(promises.argmax())
        if promises[i] > self.found[side].promise:
            region = make(i)  # type: ignore[operator]
            self.found[side] = Rated(region, float(hits[i]) / draws, float(other[i]) / draws, float(promises[i]))

    def both(self, hits: tuple[Array, Array], draws: int, make: object) -> None:
        """Keep the best for each direction of events whose hits on both sides are known."""
        for side in (0, 1):
            self.take(side, hits[side], hits[1 - side], draws, make)

    def one(self, region: Region, sides: tuple[Outputs, Outputs]) -> None:
        """Keep an event if it is better."""
        counts = tuple(np.array([float(region.hits(each).sum())]) for each in sides)
        self.both((counts[0], counts[1]), sides[0].size, lambda _: region)


def search(one: Outputs, other: Outputs, *, counted: int, delta: float) -> tuple[Rated, Rated]:
    """Return the event that promises most for each direction.

    What is learned is learned from one half of the draws and judged on the other, so that an event is not chosen for
    how well it remembers the draws.
    """
    best = _Best(counted, delta)
    sides = one, other
    size = one.size
    for kind in _common(one.kinds, other.kinds):
        best.one(Region("kind", kind=kind), sides)
    for statistic in _statistics(sides):
        _numbers(best, statistic, sides, size)
    fit = one.part(0, size // 2), other.part(0, size // 2)
    judged = one.part(size // 2, size), other.part(size // 2, size)
    if not fit[0].size:
        return best.found[0], best.found[1]
    for statistic in _sets_of(sides):
        _sets(best, statistic, fit, judged)
    for statistic in [*differences(*fit), *learned(*fit)]:
        _numbers(best, statistic, judged, judged[0].size)
    return best.found[0], best.found[1]


def _common(*kinds: list[str] | str) -> list[str]:
    seen = Counter(kind for each in kinds for kind in ([each] if isinstance(each, str) else each))
    return [kind for kind, _ in seen.most_common(_MAX_ATOMS)] if len(seen) > 1 else []


def _statistics(sides: tuple[Outputs, Outputs]) -> Iterator[Statistic]:
    width = max(each.width for each in sides)
    for i in range(width):
        yield Column(i, width > 1)
    for i in range(max(0 if each.rests is None else each.rests.shape[0] for each in sides)):
        yield Rest(i)
    if width > 1:
        for name in DERIVED:
            yield Derived(name)


def _sets_of(sides: tuple[Outputs, Outputs]) -> Iterator[Statistic]:
    if not all(isinstance(each.kinds, str) for each in sides):
        yield Kind()
    yield Whole()
    width = max(each.width for each in sides)
    if width > 1:
        for i in range(width):
            yield Column(i, True)


def _numbers(best: _Best, statistic: Statistic, sides: tuple[Outputs, Outputs], draws: int) -> None:
    """Look at tails of a statistic, at single values, and of what was released also at bits."""
    values = [np.asarray(statistic.of(each), dtype=np.float64) for each in sides]
    known = [np.sort(each[~np.isnan(each)]) for each in values]
    missing = tuple(np.array([float(draws - each.size)]) for each in known)
    best.both((missing[0], missing[1]), draws, lambda _: Region("nan", statistic))
    both = np.sort(np.concatenate(known), kind="stable")
    if not both.size:
        if isinstance(statistic, Column):
            _bits(best, statistic, values, draws)
        return
    size = both.size
    tail = np.geomspace(20.0 / size, 0.5, 40) if size > 40 else np.array([0.5])
    places = np.unique((np.concatenate([tail, 1.0 - tail]) * (size - 1)).astype(np.intp))
    at = np.unique(both[places])
    above = tuple((each.size - np.searchsorted(each, at, side="left")).astype(np.float64) for each in known)
    below = tuple(np.searchsorted(each, at, side="right").astype(np.float64) for each in known)
    best.both((above[0], above[1]), draws, lambda i: Region("above", statistic, float(at[i])))
    best.both((below[0], below[1]), draws, lambda i: Region("below", statistic, float(at[i])))
    ends = np.flatnonzero(np.concatenate([both[1:] != both[:-1], [True]]))
    if ends.size < size:
        times = np.diff(np.concatenate([[-1], ends]))
        often = np.argsort(-times, kind="stable")[:_MAX_ATOMS]
        atoms = both[ends[often[times[often] >= _OFTEN]]]
        equal = tuple(
            (np.searchsorted(each, atoms, side="right") - np.searchsorted(each, atoms, side="left")).astype(np.float64)
            for each in known
        )
        best.both((equal[0], equal[1]), draws, lambda i: Region("equal", statistic, float(atoms[i])))
    if isinstance(statistic, Column):
        _bits(best, statistic, values, draws)


def _bits(best: _Best, statistic: Column, values: list[Array], draws: int) -> None:
    """Look at the last bits of numbers, at the sign of zero, and at the bits of NaN."""
    special = [bits_of(each[np.isnan(each) | ((each == 0.0) & np.signbit(each))]) for each in values]
    if any(each.size for each in special):
        for each in np.unique(np.concatenate(special))[:_MAX_ATOMS]:
            counts = tuple(np.array([float((side == each).sum())]) for side in special)
            region = Region("bits", statistic, members=np.array([each], dtype=np.uint64))
            best.both((counts[0], counts[1]), draws, lambda _, region=region: region)
    bits = [last_bits(each[np.isfinite(each)]) for each in values]
    places = np.unique(np.concatenate(bits))
    places = places[places < NO_BITS]
    if not places.size:
        return
    finer = [np.searchsorted(np.sort(each), places, side="left").astype(np.float64) for each in bits]
    known = [draws - int(np.isnan(each).sum()) for each in values]
    coarser = [size - each for size, each in zip(known, finer, strict=True)]
    best.both((finer[0], finer[1]), draws, lambda i: Region("finer", statistic, float(places[i])))
    best.both((coarser[0], coarser[1]), draws, lambda i: Region("coarser", statistic, float(places[i])))


def _sets(best: _Best, statistic: Statistic, fit: tuple[Outputs, Outputs], judged: tuple[Outputs, Outputs]) -> None:
    """Look at sets of values: those with the largest ratios first, those that were seen often, and all of them."""
    seen = [statistic.bits(each) for each in fit]
    keys, which = np.unique(np.concatenate(seen), return_inverse=True)
    if keys.size == which.size:
        return  # no value was seen twice
    size = seen[0].size
    counts = [np.bincount(each, minlength=keys.size) for each in (which[:size], which[size:])]
    later = [_places(keys, statistic.bits(each)) for each in judged]
    for side in (0, 1):
        mine, its = counts[side], counts[1 - side]
        for smoothing, often in ((3.0, _OFTEN), (0.5, 1)):
            used = np.flatnonzero(mine + its >= often)
            if not used.size:
                continue
            order = used[np.argsort((its[used] + smoothing) / (mine[used] + smoothing), kind="stable")]
            rank = np.full(keys.size + 1, order.size)
            rank[order] = np.arange(order.size)
            hits = [np.cumsum(np.bincount(rank[each], minlength=order.size + 1))[:-1] for each in later]
            cumulated = np.cumsum(mine[order])
            shares = np.concatenate([np.geomspace(1e-3, 0.9, _SETS), [1.0]]) * cumulated[-1]
            alone = int(((its[order] == 0) & (mine[order] > 0)).sum()) - 1
            cuts = np.unique(
                np.minimum(np.concatenate([np.searchsorted(cumulated, shares), [max(alone, 0)]]), order.size - 1)
            )
            best.take(
                side,
                hits[side][cuts].astype(np.float64),
                hits[1 - side][cuts].astype(np.float64),
                judged[0].size,
                lambda i, order=order, cuts=cuts: Region(
                    "among", statistic, members=np.sort(keys[order[: cuts[i] + 1]])
                ),
            )


def _places(keys: Bits, bits: Bits) -> npt.NDArray[np.intp]:
    """Return where each of the bits is among the keys, or the number of keys if it is none."""
    return np.where(is_among(bits, keys), np.searchsorted(keys, bits), keys.size)
