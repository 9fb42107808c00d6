"""The laws of released numbers around the truth, and the intervals that follow from them.

*One number.* The noise N has a known law, so [x − k, x + k] with the least k for which P(|N| ≤ k) ≥ level.

*A mean* is middle + S/n, of which S' = S + X and n' = n + Y are released. For the true ratio r, S' − r·n' = X − r·Y has
a law that depends on r alone, so {r : |S' − r·n'| ≤ q(r)}, with q(r) the quantile of |X − r·Y|, has the level exactly
[Fie54]: Fieller's argument, which needs no normal law.

*A variance* is W/n + h − m², with S = n·m the sum of the distances d from the middle and W that of d² − h. For the
true variance v and mean m, W' − 2m·S' + (m² + h − v)·n' = X₂ − 2m·X₁ + (m² + h − v)·Y. As a function of m the left side
has its extremum where the released mean is, so that one in place of m errs by n·(m − m')², the square of noise over n.

Sums of values that are no integers are rounded: what is noised is up to a public number of steps from the truth, by
which each reach is longer.

A discrete law of large scale counts as the continuous one that it approaches: at a scale of 2⁹ steps tails differ by
less than one step, which is added.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from ferrodp.mechanisms.discrete_gaussian import DiscreteGaussianMechanism
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism

Floats = npt.NDArray[np.float64]
Integers = DiscreteGaussianMechanism | DiscreteLaplaceMechanism
_LARGE = 512.0
_SMOOTH_GAUSSIAN = 8.0  # beside a continuous noise of its size; sums over integers are integrals up to exp(-2π²·64)
_SMOOTH = 64.0  # beside a continuous noise: tails differ by less than 1/(24·64²)


class Law(Protocol):
    """How far the truth may lie from what was released."""

    def interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Return the ends of an interval that holds the truth with probability `level`."""

    def scaled(self, factor: float) -> Law:
        """Return the law of `factor` times the released value."""


@dataclass(frozen=True, slots=True)
class Additive:
    """Integer noise in steps of `width`, on a number that is at most `slack` steps from the truth."""

    mechanism: Integers
    width: float = 1.0
    slack: int = 0

    def interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Return the same distance on both sides."""
        # mutant: interval-knows-no-rounding-of-the-sum
        reach = (half_width(self.mechanism, level) + self.slack) * abs(self.width)
        return value - reach, value + reach

    def scaled(self, factor: float) -> Additive:
        """Return the same noise in other steps."""
        return Additive(self.mechanism, self.width * factor, self.slack)


@dataclass(frozen=True, slots=True)
class Normal:
    """Sums of much discrete Gaussian noise in small steps, whose law differs from the normal one by less than 1e-6."""

    deviation: float

    def interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Return the same distance on both sides."""
        reach = self.deviation * NormalDist().inv_cdf(0.5 + 0.5 * level)
        return value - reach, value + reach

    def scaled(self, factor: float) -> Normal:
        """Return the law of `factor` times the value."""
        return Normal(self.deviation * abs(factor))


@dataclass(frozen=True, slots=True)
class Transformed:
    """`factor` times a number for which only an interval is known, plus `shift`."""

    base: Callable[[float], tuple[Any, Any]]
    factor: float = 1.0
    shift: float = 0.0

    def interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Return the interval, moved like the number."""
        ends = [end * self.factor + self.shift for end in self.base(level)]
        return (ends[0], ends[1]) if self.factor >= 0.0 else (ends[1], ends[0])

    def scaled(self, factor: float) -> Transformed:
        """Return the law of `factor` times the number."""
        return Transformed(self.base, self.factor * factor, self.shift * factor)

    def moved(self, shift: float) -> Transformed:
        """Return the law of the number plus `shift`."""
        return Transformed(self.base, self.factor, self.shift + shift)


@dataclass(frozen=True, slots=True)
class CutOff(Sequence[Law]):
    """The laws of numbers of which only noised ones are known, each with that noise, and that they are not negative."""

    noised: Floats
    noise: Normal

    @overload
    def __getitem__(self, place: int) -> Law: ...
    @overload
    def __getitem__(self, place: slice) -> CutOff: ...
    def __getitem__(self, place: int | slice) -> Law | CutOff:
        """Return the law of one number: the interval around the noised one, cut off at 0, holds the truth as often."""
        if isinstance(place, slice):
            return CutOff(self.noised[place], self.noise)
        center = float(self.noised[place])

        def interval(level: float) -> tuple[float, float]:
            lower, upper = self.noise.interval(center, level)
            return max(lower, 0.0), max(upper, 0.0)

        return Transformed(interval)

    def __len__(self) -> int:
        return self.noised.size


def half_width(mechanism: Integers, level: float) -> int:
    """Return the least integer k with P(|N| ≤ k) ≥ level; for large scales perhaps one more."""
    scale, outside = float(mechanism.scale), 1.0 - level
    if isinstance(mechanism, DiscreteLaplaceMechanism):
        ratio = math.exp(-1.0 / scale)  # P(|N| > k) = 2·ratio^(k+1)/(1 + ratio)
        return max(math.ceil(scale * math.log(2.0 / ((1.0 + ratio) * outside)) - 1.0 - 1e-9), 0)
    if scale > _LARGE:
        return math.ceil(scale * NormalDist().inv_cdf(1.0 - 0.5 * outside)) + 1
    _, masses = _masses(mechanism)
    inside = masses[masses.size // 2] + np.concatenate([[0.0], 2.0 * np.cumsum(masses[masses.size // 2 + 1 :])])
    return int(np.searchsorted(inside, level))


@functools.lru_cache(maxsize=64)
def _masses(mechanism: Integers) -> tuple[Floats, Floats]:
    """Return integers, symmetric about 0, and the probability of each; what is left out is below 1e-16."""
    scale = float(mechanism.scale)
    laplace = isinstance(mechanism, DiscreteLaplaceMechanism)
    furthest = math.ceil(scale * (40.0 if laplace else 9.0)) + 1
    places = np.arange(-furthest, furthest + 1, dtype=np.float64)
    weights = np.exp(-np.abs(places) / scale) if laplace else np.exp(-0.5 * (places / scale) ** 2)
    return places, weights / weights.sum()


def inside(reach: float, terms: list[tuple[Integers, float]]) -> float:
    """Return P(|Σ cᵢ·Nᵢ| ≤ reach) for independent noises Nᵢ with factors cᵢ.

    Noises whose steps are small beside their scale count as continuous; of the last one each value is gone through
    where its steps are large.
    """
    *smooth, (last, factor) = terms
    laplace = isinstance(last, DiscreteLaplaceMechanism)
    is_stepwise = float(last.scale) <= (_SMOOTH if laplace else _SMOOTH_GAUSSIAN)
    if not is_stepwise:
        smooth.append((last, factor))
    scales = [abs(c) * float(noise.scale) for noise, c in smooth]
    tail = _laplace_tail(scales) if laplace else _gaussian_tail(math.hypot(*scales))
    if not is_stepwise:
        return float(1.0 - 2.0 * tail(reach))
    places, masses = _masses(last)
    return float(masses @ (1.0 - tail(reach - places * factor) - tail(reach + places * factor)))


def _gaussian_tail(deviation: float) -> Callable[[Any], Any]:
    def tail(at: Any) -> Any:
        if isinstance(at, float):
            return 0.5 * math.erfc(at / (deviation * math.sqrt(2.0)))
        return np.array([tail(x) for x in at.tolist()])

    return tail


def _laplace_tail(scales: list[float]) -> Callable[[Any], Any]:
    """Return P(X > x) of a sum of independent Laplace noises, by partial fractions of its characteristic function."""
    kept: list[float] = []
    for scale in sorted(scales, reverse=True):
        if not kept or scale > 1e-6 * kept[0]:
            # equal scales would divide by 0; 0.1 percent moves a tail by less than that
            kept.append(min(scale, kept[-1] * 0.999) if kept else scale)
    squares = [scale * scale for scale in kept]
    weights = [math.prod(a / (a - b) for j, b in enumerate(squares) if j != i) for i, a in enumerate(squares)]

    def tail(at: Any) -> Any:
        is_one = isinstance(at, float)  # of a whole interval a hundred, each five times as fast without arrays
        exp: Callable[[Any], Any] = math.exp if is_one else np.exp
        upper = sum(0.5 * w * exp(-abs(at) / scale) for w, scale in zip(weights, kept, strict=True))
        if is_one:
            return upper if at >= 0.0 else 1.0 - upper
        return np.where(at >= 0.0, upper, 1.0 - upper)

    return tail


def ratio_interval(
    total: float, rows: int, summed: tuple[Integers, float, int], counts: Integers | None, level: float
) -> Any:
    """Return all ratios r for which |total − r·rows| is within the quantile of |X − r·Y|: the module docstring.

    `summed` is the noise of the sum, the width of its steps, and how many of them the sum may be from the truth.
    """
    sums, width, slack = summed
    reach = (half_width(sums, level) + slack) * width
    if counts is None:
        return (total - reach) / rows, (total + reach) / rows

    def held(ratio: float) -> bool:
        # mutant: interval-of-a-mean-knows-no-rounding
        return inside(abs(total - ratio * rows) - slack * width, [(sums, width), (counts, ratio)]) <= level

    return _ends(held, total / rows, reach / rows)


def variance_interval(
    totals: tuple[float, float, float],
    noises: tuple[tuple[Integers, float, int], tuple[Integers, float, int], Integers | None],
    middle: float,
    level: float,
) -> Any:
    """Return all variances v for which the second combination of the module docstring is within its quantile.

    `totals` are W', S' and n', `middle` is h.
    """
    of_squares, of_distances, rows = totals
    (squares, square_width, square_slack), (distances, width, slack), counts = noises
    mean = of_distances / rows
    centered = of_squares - mean * of_distances
    off = square_slack * square_width + 2.0 * abs(mean) * slack * width

    def held(variance: float) -> bool:
        rest = mean * mean + middle - variance
        moved = abs(of_squares - 2.0 * mean * of_distances + rest * rows) - off
        last = [] if counts is None else [(counts, rest)]
        return inside(moved, [(distances, -2.0 * mean * width), (squares, square_width), *last]) <= level

    return _ends(held, centered / rows + middle, half_width(squares, level) * square_width / rows)


def _ends(held: Callable[[float], bool], inner: float, step: float) -> tuple[float, float]:
    """Return the ends of an interval around `inner`: infinite where nothing that far away is excluded."""
    found = []
    for sign in (-1.0, 1.0):
        near, far = inner, inner + sign * step
        for _ in range(60):
            if not held(far):
                break
            near, far = far, inner + 2.0 * (far - inner)
        else:
            found.append(sign * math.inf)
            continue
        for _ in range(40):
            half = 0.5 * (near + far)
            near, far = (half, far) if held(half) else (near, half)
        found.append(far)
    return found[0], found[1]
