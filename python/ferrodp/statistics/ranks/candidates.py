"""Public candidates of quantiles, minima and maxima, and how useful each of them is.

*Utility.* Each row is clamped to the bounds and rounded to its nearest candidate: a function of that row alone. With
`less` and `more` the numbers of rows below and above a candidate, its utility is

    −max(0, b·less − t, b·more − (b·n − t)),

which is 0 exactly where at most t/b rows are below and at most n − t/b above. For the quantile a/b, t = a·n; for a
maximum that r rows may reach beyond, b = 1 and t = n − r; for a minimum t = r. A row that is added moves b·less − a·n
by b − a or by −a, and b·more − (b − a)·n by a or by −(b − a): each by at most max(a, b − a), and so the largest of
them and 0. A row that is replaced moves each by at most b. Of a minimum or maximum both terms move by at most 1 under
every relation.

*Cap.* A utility below −`cap` counts as −`cap`, a number fixed by ε and by the candidates: the larger of a utility and
a constant moves by no more than the utility. Rows far from the rank looked for then need no runs of their own.

*Adaptive candidates.* Bounds alone say little about where the rows are and how fine they are. So candidates are the
multiples of a power of ten, up to 10¹² of them, with weights: three quarters are shared by *linear levels* (the
multiples of each larger power of ten, the same weight a level), a quarter by *levels of significant digits* (all
numbers of one, two, … digits). The exponential mechanism with public weights is the one whose candidates come in as
many copies. A round number thus has a weight of its own, as ties need; small numbers have more than their share of
wide bounds, as incomes within (0, 10⁹) need; and the finest level rounds by about 10⁻¹² of the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.mechanisms.selection import ExponentialMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics._column import Column

_FINEST = 10**12
"""The most steps of the finest level between the bounds."""
_EXACT = 10**15
"""Multiples of the step up to here are exact in float64, and their sums in int64."""
_LEAST_POWER = -300
_DIGITS = (1, 2, 3, 4, 6, 8)
_COPIES = 1 << 55
"""Copies of candidates in all, about."""
_SPARE_NATS = 40.0
"""Candidates at the cap, all together, win against one copy at utility 0 with probability e^−40 at most."""
_PROBES = 65

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rank:
    """What is looked for: `unit`·less ≤ t and `unit`·more ≤ unit·n − t, with t = `target`(n)."""

    unit: int
    target: Callable[[int], int]

    def utilities(self, less: Integers, more: Integers, rows: int) -> Integers:
        """Return the utility of candidates with so many rows below and above them."""
        target = self.target(rows)
        # mutant: candidate-among-ties-is-no-quantile
        below, above = self.unit * less - target, self.unit * more - (self.unit * rows - target)
        return -np.maximum(np.maximum(below, above), 0)


class Adaptive:
    """All multiples of a power of ten between two bounds, weighted by how round they are; see the module."""

    def __init__(self, lower: float, upper: float, whole: bool) -> None:
        self.lower, self.upper = lower, upper
        width, size = Fraction(upper) - Fraction(lower), max(abs(Fraction(lower)), abs(Fraction(upper)))
        power = max(_power_above(max(width / _FINEST, size / _EXACT)), _LEAST_POWER)
        # Whole numbers need no candidates between them.
        self.power = max(power, 0) if whole and width >= 1 else power
        step = Fraction(10) ** self.power
        self.first, self.last = round(Fraction(lower) / step), round(Fraction(upper) / step)
        levels: list[Level] = []
        span, scale = self.last - self.first, 1
        while scale == 1 or span >= 10 * scale:
            levels.append(Linear(scale))
            scale *= 10
        linear = len(levels)
        levels += [Digits(digits) for digits in _DIGITS]
        sizes = [int(level.up_to(self.last) - level.up_to(self.first - 1)) for level in levels]
        kept = [place for place, size in enumerate(sizes) if size]
        rounds = sum(place >= linear for place in kept)
        self.levels = [levels[place] for place in kept]
        share = [3 * _COPIES // 4 // linear if place < linear else _COPIES // 4 // rounds for place in kept]
        self.copies = [max(1, part // sizes[place]) for place, part in zip(kept, share, strict=True)]

    def choose(self, held: Column, rank: Rank, mechanism: ExponentialMechanism, source: NoiseSource) -> float:
        """Return a candidate, chosen by the mechanism with the weights of the levels."""
        steps = self._steps(held)
        low, high, utilities = self.runs(steps, rank, self.cap(mechanism))
        weights = [
            copies * np.maximum(level.up_to(high) - level.up_to(low - 1), 0)
            for level, copies in zip(self.levels, self.copies, strict=True)
        ]
        counts = np.sum(weights, axis=0).astype(np.uint64)
        probes = np.linspace(self.first, self.last, _PROBES).round().astype(np.int64)
        observed = utilities[np.searchsorted(high, probes)].astype(np.float64)

        def candidate(run: int, place: int) -> float:
            for level, copies, weight in zip(self.levels, self.copies, weights, strict=True):
                if place < weight[run]:
                    # mutant: first-candidate-of-a-run-released
                    return self.value(level.member(int(level.up_to(low[run] - 1)) + place // copies))
                place -= int(weight[run])
            raise AssertionError("a place is below the number of copies")

        return mechanism.release_from_runs(
            utilities.astype(np.float64), counts, candidate, observed=observed, source=source
        )

    def cap(self, mechanism: ExponentialMechanism) -> int:
        """Return how far below 0 a utility counts."""
        return math.ceil(mechanism.scale * (math.log(2 * _COPIES) + _SPARE_NATS))

    def value(self, step: int) -> float:
        """Return the number that a step stands for: the float nearest to the decimal, within the bounds."""
        found = step / int(10**-self.power) if self.power < 0 else float(step * int(10**self.power))
        return min(max(found, self.lower), self.upper)

    def _steps(self, held: Column) -> Integers:
        """Return the rows, clamped and rounded to steps, in ascending order."""
        scale, parts = 10.0 ** abs(self.power), [np.zeros(0, np.int64)]
        for rows in held.floats():
            scaled = np.rint(rows * scale if self.power < 0 else rows / scale)
            # mutant: row-beyond-the-bounds-has-no-candidate
            parts.append(np.clip(scaled, self.first, self.last).astype(np.int64))
        return np.sort(np.concatenate(parts))

    def runs(self, steps: Integers, rank: Rank, cap: int) -> tuple[Integers, Integers, Integers]:
        """Return first and last step of each run of candidates of equal utility, and that utility, at least −`cap`.

        Rows of ranks within `cap` of the target have a run each, and what is between them; all candidates below, and
        all above, have utility −`cap`: of a candidate below the row of rank r, b·more − (b·n − t) ≥ t − b·r.
        """
        rows, target = int(steps.size), rank.target(int(steps.size))
        start = min(max(0, (target - cap) // rank.unit - 1), rows)
        stop = max(min(rows, -((-target - cap) // rank.unit) + 1), start)
        values = np.unique(steps[start:stop])
        less = np.searchsorted(steps, values, "left").astype(np.int64)
        more = rows - np.searchsorted(steps, values, "right").astype(np.int64)
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
        return low, high, np.maximum(rank.utilities(below, above, rows), -cap)


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


Level = Linear | Digits


def _power_above(size: Fraction) -> int:
    """Return the least k with 10^k ≥ `size` > 0."""
    power = math.floor(math.log10(size.numerator) - math.log10(size.denominator)) - 1
    while Fraction(10) ** power < size:
        power += 1
    return power
