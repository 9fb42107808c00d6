"""Public candidates of quantiles, minima and maxima, how useful each of them is, and the choice of one.

*Utility.* Each row counts as one candidate: a function of that row alone. With `less` and `more` the numbers of rows
below and above a candidate, its utility for the rank t = a·n + shift is

    −max(b·less − t, b·more − (b·n − t)),

which is at least 0 exactly where at most t/b rows are below and at most n − t/b above: b times how far t/b then lies
inside the rows that count as this candidate, and otherwise minus that of how far it lies outside. For the quantile a/b
the shift is 0; for a maximum that r rows may exceed a/b = 1 and the shift is −r; for a minimum a/b = 0 and it is r. A
row that is added moves b·less − a·n by b − a or by −a, and b·more − (b − a)·n by a or by −(b − a): each by at most
max(a, b − a), and so the larger of them; `shift` is public and moves nothing. A row that is replaced moves each by at
most b. Where a/b is 0 or 1 and r is 0, the utility is minus the number of rows below, or above: of two columns that
differ by one row, added or replaced, one has no utility below that of the other (*monotonic*), as by several rows that
are added or that are removed.

*Outer candidates.* A rank may lie below all rows, or beyond them, if the shift is not 0. For it there is one candidate
more, which no row counts as: below all others its utility is −t, beyond all others −(b·n − t): one of the two numbers
above, which moves no further, and at least 0 where no row is beyond the rank.

*Cap.* A utility below −`cap` counts as −`cap`, a number fixed by ε and by the candidates: the larger of a utility and
a constant moves by no more than the utility. Rows far from the rank looked for then need no runs of their own.

*Weights.* Copies of candidates, as many as public numbers say, are candidates. Permute-and-flip errs least where few
candidates are about equally useful, so few come in it: `permuted` says of how many levels the members take part as in
it. The others take part as in the exponential mechanism, with weights that are far below one each in all places where a
permuted candidate is near; they decide where none is. The proof that both may be mixed is that of
`PermuteAndFlip.release_from_runs`.

*Decimals.* Bounds alone say little about where the rows are and how fine they are. So candidates are the multiples of a
power of ten, up to 10¹² of them. Those of the finest level of 1, 2 or 5 times a power of ten with at most 1100 members
are permuted, and the bounds with them. Each finer power of ten is a level with a weight of 0.3 in all, so that a round
number with many rows is found. The finest level has 300 in all, so that a round number which is merely near the rank
costs few ranks; for a column of integers, such as times and keys, it has 10⁴. Rows as wide as bounds thus have three
permuted candidates for each unit of weight. Coarse decimals are the members of the coarser levels, and numbers of few
significant digits, one copy each: what is chosen far from most rows, and the ends of an interval, need no more, and the
fewer candidates there are, the fewer ranks lie between an end and what it is the end of.

*Tails.* Let S be the scale, W the weight of all candidates and w the least of one. Where some candidate has a utility
of at least 0, all candidates with utilities of at most −u together are chosen with probability at most
(W/w)·e^(−u/S). For a candidate of weight v has noise X (see `PermuteAndFlip.release_from_runs`) with
P[X > x] ≤ v·e^−x and E[e^−X] ≤ 1/v: it exceeds the other one's noise Y by u/S with probability at most
v·e^(−u/S)·E[e^−Y]. Weights add up, and the other one weighs w at least.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ferrodp.mechanisms.selection import PermuteAndFlip as Mechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics._column import Column
from ferrodp.statistics.parts.multisets import Ascending

_FINEST = 10**12
"""The most steps of the finest level between the bounds."""
_EXACT = 10**15
"""Multiples of the step up to here are exact in float64, and their sums in int64."""
_LEAST_POWER = -300
_PERMUTED = 1100
"""The most candidates that are permuted."""
_UNIT = 44
"""Weights are in units of 2^−44, of which the least level has about a quarter for each of 10¹² members."""
_OF_LEVEL, _OF_FINEST = 0.3, (300.0, 1e4)
"""The weights of all members of a level, and of the finest one: of floats, and of integers."""
_SPARE_NATS = 40.0
"""Candidates at the cap, all together, win against one copy at utility 0 with probability e^−40 at most."""
_PROBES = 65
_MOST_INTEGERS = 10**4
"""How many integers are candidates of equal weight; of more of them round ones weigh more."""

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Toward = Literal["nearest", "down", "up"]


@dataclass(frozen=True, slots=True)
class Rank:
    """What is looked for: b·less ≤ t and b·more ≤ b·n − t, with t = a·n + `shift` and a/b = `numerator`/`unit`."""

    numerator: int
    unit: int
    shift: int = 0

    @classmethod
    def of(cls, ratio: Fraction, shift: int = 0) -> Rank:
        """Return the rank of a quantile, or one that is so many parts of a row beyond it."""
        return cls(ratio.numerator, ratio.denominator, shift)

    def target(self, rows: int) -> int:
        """Return t for so many rows."""
        return self.numerator * rows + self.shift

    @property
    def is_outermost(self) -> bool:
        """Whether it is that of the least or the largest row, so that utilities are monotonic."""
        # mutant: every-rank-is-monotonic
        return self.unit == 1 and self.shift == 0

    def moved(self, replaced: bool) -> int:
        """Return how far one row moves a utility."""
        # mutant: ranks-move-by-smaller-share
        return self.unit if replaced else max(self.unit - self.numerator, self.numerator)


def ordered(held: Column) -> Doubles:
    """Return the rows that count, in ascending order."""
    rows = np.concatenate([np.zeros(0), *held.floats()])
    rows.sort()
    return rows


class Candidates:
    """Numbers at steps from `first` to `last`, with copies that levels count; subclasses say which numbers.

    With `toward` "down" every row counts as a candidate that is at most the row, and there is an outer candidate below
    all others; with "up" the other way round. Otherwise a row counts as the candidate nearest to it.
    """

    first: int
    last: int
    levels: list[Level]
    copies: list[int]
    """Of each member: whole candidates in the first `permuted` levels, units of weight in the others."""
    permuted: int = 1
    toward: Toward = "nearest"

    def steps(self, rows: Doubles) -> Integers:
        """Return the steps that rows in ascending order count as: each by itself, in ascending order too."""
        raise NotImplementedError

    def value(self, step: int) -> float:
        """Return the number that a step stands for."""
        raise NotImplementedError

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last step, that of an outer candidate included."""
        return self.first - (self.toward == "down"), self.last + (self.toward == "up")

    @property
    def number(self) -> float:
        """The weight of all candidates, divided by the least of one."""
        low, high = self.ends
        sizes = [int(level.up_to(high) - level.up_to(low - 1)) for level in self.levels]
        units = [float(copies << _UNIT * (place < self.permuted)) for place, copies in enumerate(self.copies)]
        return sum(size * unit for size, unit in zip(sizes, units, strict=True)) / min(units)

    def choose(self, rows: Ascending, rank: Rank, mechanism: Mechanism, source: NoiseSource) -> float:
        """Return a candidate, chosen by the mechanism."""
        low, high, utilities = self.runs(rows, rank, self.cap(mechanism))
        weights = [
            copies * np.maximum(level.up_to(high) - level.up_to(low - 1), 0)
            for level, copies in zip(self.levels, self.copies, strict=True)
        ]
        whole, parts = (
            np.sum(each, axis=0, initial=0).astype(np.uint64) if each else np.zeros(low.size, np.uint64)
            for each in (weights[: self.permuted], weights[self.permuted :])
        )
        probes = np.unique(np.linspace(*self.ends, _PROBES).round().astype(np.int64))
        observed = utilities[np.searchsorted(high, probes)].astype(np.float64)

        def candidate(run: int, place: int) -> float:
            # mutant: weight-of-a-run-read-as-its-whole-candidates
            first, last = (self.permuted, len(weights)) if run >= low.size else (0, self.permuted)
            run %= low.size
            for number in range(first, last):
                level = self.levels[number]
                copies, weight = self.copies[number], weights[number]
                if place < weight[run]:
                    # mutant: first-candidate-of-a-run-released
                    return self.value(level.member(int(level.up_to(low[run] - 1)) + place // copies))
                place -= int(weight[run])
            raise AssertionError("a place is below the number of copies")

        return mechanism.release_from_runs(
            utilities.astype(np.float64), whole, candidate, weights=parts, unit=_UNIT, observed=observed, source=source
        )

    def cap(self, mechanism: Mechanism) -> int:
        """Return how far below 0 a utility counts."""
        return min(math.ceil(mechanism.scale * (math.log(2.0 * self.number) + _SPARE_NATS)), 1 << 62)

    def reach(self, mechanism: Mechanism, chance: float) -> int:
        """Return u such that utilities of −u and less are chosen with probability at most `chance`: the module."""
        # mutant: end-of-an-interval-as-near-as-one-candidate-allows
        nats = math.log(self.number / chance)
        return math.ceil(mechanism.scale * max(nats, 0.0) * (1.0 + 2.0**-40))

    def runs(self, held: Ascending, rank: Rank, cap: int) -> tuple[Integers, Integers, Integers]:
        """Return first and last step of each run of candidates of equal utility, and that utility, at least −`cap`.

        Rows of ranks within `cap` of the target have a run each, and what is between them; all candidates below, and
        all above, have utility −`cap`: of a candidate below the row of rank r, b·more − (b·n − t) ≥ t − b·r.
        """
        rows = held.rows
        target = rank.target(rows)
        start = min(max(0, (target - cap) // rank.unit - 1), rows)
        stop = max(min(rows, -((-target - cap) // rank.unit) + 1), start)
        values, less, through = held.steps(start, stop, self.steps)
        more = rows - through
        # Alternately what is between two values, and a value.
        low, high = np.empty((2, 2 * values.size + 1), np.int64)
        low[1::2] = high[1::2] = values
        low[0], low[2::2] = self.first, values + 1
        high[-1], high[:-1:2] = self.last, values - 1
        below, above = np.empty((2, 2 * values.size + 1), np.int64)
        below[1::2], above[1::2] = less, more
        below[:-1:2], below[-1] = less, rows if stop == rows else stop
        above[2::2], above[0] = more, rows if start == 0 else rows - start
        if not values.size:
            below[0], above[0] = (start, rows - start)
        # mutant: candidate-among-ties-is-no-quantile
        apart = np.maximum(rank.unit * below - target, rank.unit * above - (rank.unit * rows - target))
        if self.toward != "nearest":
            at = 0 if self.toward == "down" else low.size
            # mutant: outer-candidate-is-as-far-as-the-rank
            outside = target if self.toward == "down" else rank.unit * rows - target
            low, high = np.insert(low, at, self.ends[at > 0]), np.insert(high, at, self.ends[at > 0])
            apart = np.insert(apart, at, outside)
        # mutant: depth-inside-ties-beyond-its-sensitivity
        return low, high, -np.minimum(apart, cap)


class Decimals(Candidates):
    """All multiples of a power of ten between two bounds, weighted by how round they are; see the module."""

    def __init__(self, lower: float, upper: float, whole: bool, weight: float | None = None) -> None:
        self.lower, self.upper = lower, upper
        width, size = Fraction(upper) - Fraction(lower), max(abs(Fraction(lower)), abs(Fraction(upper)))
        power = max(_power_above(max(width / _FINEST, size / _EXACT)), _LEAST_POWER)
        # Whole numbers need no candidates between them.
        self.power = max(power, 0) if whole and width >= 1 else power
        step = Fraction(10) ** self.power
        self.first, self.last = round(Fraction(lower) / step), round(Fraction(upper) / step)
        span, scale = self.last - self.first, 1
        self.scales = [1]
        while span >= 10 * scale:
            scale *= 10
            self.scales.append(scale)
        coarse = next(scale for scale in _steps() if self.last // scale - self.first // scale < _PERMUTED - 2)
        members = range(-(-self.first // coarse), self.last // coarse + 1)
        permuted = Steps(np.unique([self.first, self.last, *(coarse * each for each in members)]))
        # What is permuted needs no weight besides.
        finer = [scale for scale in self.scales if scale < coarse]
        of_levels = [_OF_LEVEL] * len(finer)
        if finer:
            of_levels[0] += _OF_FINEST[whole] if weight is None else weight
        self.levels, self.copies = [permuted], [1]
        for scale, weight in zip(finer, of_levels, strict=True):
            self.levels.append(Linear(scale))
            self.copies.append(max(1, int(weight * 2.0**_UNIT) // (span // scale + 1)))

    def steps(self, rows: Doubles) -> Integers:
        """Return the multiples that rows are nearest to, after they are clamped to the bounds."""
        scale = 10.0 ** abs(self.power)
        scaled = np.rint(rows * scale if self.power < 0 else rows / scale)
        # mutant: row-beyond-the-bounds-has-no-candidate
        return np.clip(scaled, self.first, self.last).astype(np.int64)

    def value(self, step: int) -> float:
        """Return the float nearest to the decimal, within the bounds."""
        found = step / int(10**-self.power) if self.power < 0 else float(step * int(10**self.power))
        return min(max(found, self.lower), self.upper)

    def coarse(self, most: int, digits: int) -> Doubles:
        """Return the bounds, and all decimals of levels with at most so many steps, or so many significant digits."""
        found = {self.first, self.last}
        levels: list[Level] = [*map(Linear, self.scales), *map(Digits, range(1, digits + 1))]
        for level in levels:
            start, stop = (int(level.up_to(step)) for step in (self.first - 1, self.last))
            if isinstance(level, Digits) or stop - start <= most + 1:
                found.update(level.member(number) for number in range(start, stop))
        return np.unique([self.lower, self.upper, *map(self.value, found)])


class Listed(Candidates):
    """Candidates one by one; what occurs several times weighs as much."""

    def __init__(self, points: Doubles, toward: Toward = "nearest") -> None:
        self.points, copies = np.unique(points, return_counts=True)
        self.first, self.last, self.toward = 0, self.points.size - 1, toward
        if self.points.size == points.size:
            self.levels = [Linear(1)]
        else:
            low, high = self.ends
            self.levels = [Table(np.cumsum(np.pad(copies, (-low, high - self.last), constant_values=1)), low)]
        self.copies = [1]

    def steps(self, rows: Doubles) -> Integers:
        """Return the places of the candidates that rows count as; what is beyond all of them, as the outermost."""
        points = self.points
        if self.toward == "nearest":
            # mutant: rows-at-no-candidate
            middles = 0.5 * points[:-1] + 0.5 * points[1:]
            # mutant: row-in-the-middle-of-two-candidates
            return np.searchsorted(middles, rows, side="left").astype(np.int64)
        # mutant: ends-of-an-interval-of-rows-rounded-inward
        found = np.searchsorted(points, rows, "right") - 1 if self.toward == "down" else np.searchsorted(points, rows)
        return np.clip(found, 0, self.last).astype(np.int64)

    def value(self, step: int) -> float:
        """Return a candidate; an outer one is called by the outermost number."""
        return float(self.points[min(max(step, 0), self.last)])


@dataclass(frozen=True, slots=True)
class Linear:
    """The multiples of a number of steps."""

    scale: int

    def up_to(self, step: Any) -> Any:
        """Return how many members are at most `step`, counted from 0: negative below −1."""
        return step // self.scale + 1

    def member(self, number: int) -> int:
        """Return the member up to which there are `number` others."""
        return number * self.scale


@dataclass(frozen=True, slots=True)
class Digits:
    """Integers of at most so many significant digits: m·10^e with |m| < 10^digits."""

    digits: int

    def up_to(self, step: Any) -> Any:
        """Return how many members are at most `step`, counted from 0: negative below −1."""
        step = np.asarray(step, np.int64)
        # −up_to(x) counts from the other side: members above −x are as many as those below x.
        return np.where(step >= 0, self._count(np.maximum(step, 0)), 1 - self._count(np.maximum(-step - 1, 0)))

    def member(self, number: int) -> int:
        """Return the member up to which there are `number` others."""
        return self._member(number) if number >= 0 else -self._member(-number)

    def _count(self, step: Integers) -> Integers:
        """Return how many members are from 0 to `step` ≥ 0."""
        limit, each = 10**self.digits, 9 * 10 ** (self.digits - 1)
        exponent = np.zeros(step.shape, np.int64)
        for power in range(1, 17 - self.digits):
            exponent += step >= limit * 10 ** (power - 1)
        leading = step // 10 ** np.minimum(exponent, 17 - self.digits)
        return np.where(exponent == 0, step + 1, limit + (exponent - 1) * each + leading - limit // 10 + 1)

    def _member(self, number: int) -> int:
        limit: int = 10**self.digits
        each = 9 * (limit // 10)
        if number < limit:
            return number
        exponent, rest = divmod(number - limit, each)
        found: int = (limit // 10 + rest) * 10 ** (exponent + 1)
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """Steps from `start` on, each as often as the differences of `totals` say."""

    totals: Integers
    start: int

    def up_to(self, step: Any) -> Any:
        """Return how many copies there are of the steps up to this one."""
        return np.concatenate([[0], self.totals])[np.clip(np.asarray(step) + 1 - self.start, 0, self.totals.size)]

    def member(self, number: int) -> int:
        """Return the step of the copy up to which there are `number` others."""
        return self.start + int(np.searchsorted(self.totals, number, "right"))


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in ascending order."""

    members: Integers

    def up_to(self, step: Any) -> Any:
        """Return how many members are at most `step`."""
        return np.searchsorted(self.members, step, "right")

    def member(self, number: int) -> int:
        """Return the member up to which there are `number` others."""
        return int(self.members[number])


Level = Linear | Digits | Table | Steps


@functools.lru_cache(maxsize=64)
def between(lower: float, upper: float, whole: bool, weight: float | None = None) -> Candidates:
    """Return the candidates of a quantile: all integers for a column of integers, if these are few; or decimals.

    `weight` is that of the finest level, 10⁵ at most, if not the default.
    """
    found = _integers(lower, upper) if whole else None
    return Decimals(lower, upper, whole, weight) if found is None else Listed(found)


@functools.lru_cache(maxsize=64)
def few_between(lower: float, upper: float, whole: bool, most: int, digits: int, toward: Toward) -> Listed:
    """Return few candidates: all integers for a column of integers, if these are few; or coarse decimals."""
    found = _integers(lower, upper) if whole else None
    return Listed(Decimals(lower, upper, whole).coarse(most, digits) if found is None else found, toward)


def _integers(lower: float, upper: float) -> Doubles | None:
    """Return all integers between two bounds, from 2 to `_MOST_INTEGERS` of them, or None."""
    first, last = math.ceil(lower), math.floor(upper)
    few = 1 <= last - first < _MOST_INTEGERS and max(abs(first), abs(last)) <= 2**53
    return np.arange(first, last + 1, dtype=np.float64) if few else None


def _steps() -> Iterator[int]:
    """Return 1, 2 and 5 times the powers of ten, in ascending order."""
    scale = 1
    while True:
        yield from (scale, 2 * scale, 5 * scale)
        scale *= 10


def _power_above(size: Fraction) -> int:
    """Return the least k with 10^k ≥ `size` > 0."""
    power = math.floor(math.log10(size.numerator) - math.log10(size.denominator)) - 1
    while Fraction(10) ** power < size:
        power += 1
    return power
