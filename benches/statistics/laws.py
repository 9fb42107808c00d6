"""The exact errors of diffprivlib's and OpenDP's quantiles, from the laws of their choices, without these libraries.

diffprivlib 0.6.6 chooses an interval between neighboring values by the exponential mechanism, with weights that are its
length and utilities −|i − q·n| of sensitivity 1, and a uniform number in it. OpenDP 0.16 chooses one of its candidates
by permute-and-flip, with utilities −|(1 − q)·less − q·more| of sensitivity max(q, 1 − q). Both are races: see
`docs/proofs/selection.md`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_NODES = np.polynomial.legendre.leggauss(160)
_FARTHEST = 35.0
"""Candidates that are further behind, in nats, are never chosen: e^−35 of a percent."""


class Moments(NamedTuple):
    """The mean of the squared error, and of its square."""

    square: float
    fourth: float

    @property
    def root(self) -> float:
        """The root mean square error."""
        return math.sqrt(self.square)

    def spread(self, times: int) -> float:
        """Return the standard error of a root mean square of so many errors."""
        if not self.square:
            return 0.0
        return math.sqrt(max(self.fourth - self.square**2, 0.0) / times) / (2.0 * self.root)


class Runs:
    """Values and the gaps between them, alternately: what is below, above, and how far from a quantile."""

    def __init__(self, rows: Doubles, bounds: tuple[float, float], truth: tuple[float, float]) -> None:
        self.lower, self.upper = map(float, bounds)
        self.values, counts = np.unique(np.clip(rows, *bounds).astype(np.float64), return_counts=True)
        self.rows, self.truth = int(counts.sum()), truth
        size = 2 * self.values.size + 1
        self.less, self.at_most = np.zeros((2, size))
        self.at_most[1::2] = self.at_most[2::2] = self.less[2::2] = np.cumsum(counts)
        self.less[1::2] = np.cumsum(counts) - counts
        self.start, self.end = np.empty((2, size))
        self.start[1::2] = self.end[1::2] = self.start[2::2] = self.end[:-1:2] = self.values
        self.start[0], self.end[-1] = self.lower, self.upper

    def points(self, points: Doubles) -> Doubles:
        """Return the number, and the sums of second and fourth powers of errors, of candidates in each run."""
        places = np.searchsorted(self.values, points, "left")
        found = self.values[np.minimum(places, self.values.size - 1)] == points
        places = 2 * places + (found & (places < self.values.size))
        low, high = self.truth
        squares = np.maximum(np.maximum(low - points, points - high), 0.0) ** 2
        return np.array([np.bincount(places, w, self.less.size) for w in (None, squares, squares**2)])

    def lengths(self) -> Doubles:
        """Return the lengths of runs, and the integrals of second and fourth powers of errors over them."""
        low, high = self.truth
        start, end = self.start, self.end

        def integral(power: int) -> Doubles:
            above = ((end - high) ** (power + 1) - (start - high) ** (power + 1)) / (power + 1)
            below = ((low - start) ** (power + 1) - (low - end) ** (power + 1)) / (power + 1)
            return np.where(start >= high, above, np.where(end <= low, below, 0.0))

        return np.array([end - start, integral(2), integral(4)]) / (self.upper - self.lower)


def race(behind: Doubles, uniform: Doubles, exponential: Doubles) -> tuple[Doubles, Doubles]:
    """Return the chances that a uniform arrival of each run is first, and that an exponential one is."""
    present = (uniform > 0) | (exponential > 0)
    behind = behind - behind[present].min()
    kept = present & (behind < _FARTHEST)
    coins, m, weight = np.exp(-behind[kept]), uniform[kept], exponential[kept]
    total = ((m + weight) * coins).sum()
    end = min(1.0 / coins[m > 0].max() if (m > 0).any() else math.inf, 60.0 / total)
    low, high = math.log(1e-7 * min(end, 1.0 / total)), math.log(end)
    z = np.exp((high - low) / 2.0 * _NODES[0] + (high + low) / 2.0)
    arrivals = np.minimum(z[:, None] * coins, 1.0 - 1e-15)
    none = np.exp((m * np.log1p(-arrivals) - weight * arrivals).sum(1)) * _NODES[1] * (high - low) / 2.0 * z
    of_uniform, of_exponential = np.zeros((2, behind.size))
    of_uniform[kept] = (none[:, None] * m * coins / (1.0 - arrivals)).sum(0)
    of_exponential[kept] = none.sum() * weight * coins
    chances = of_uniform.sum() + of_exponential.sum()
    return of_uniform / chances, of_exponential / chances


def _moments(chances: Doubles, of_runs: Doubles) -> Moments:
    some = of_runs[0] > 0
    return Moments(*(float((chances[some] * each[some] / of_runs[0][some]).sum()) for each in of_runs[1:]))


def of_diffprivlib(runs: Runs, quantile: float, epsilon: float) -> Moments:
    """Return the error of `diffprivlib.tools.quantile`."""
    lengths = runs.lengths()
    behind = np.abs(runs.at_most - quantile * runs.rows) * epsilon / 2.0
    return _moments(race(behind, np.zeros_like(behind), lengths[0])[1], lengths)


def of_opendp(runs: Runs, quantile: float, epsilon: float, candidates: Doubles) -> Moments:
    """Return the error of `opendp.prelude.m.make_private_quantile`."""
    points = runs.points(candidates)
    distance = np.abs((1.0 - quantile) * runs.less - quantile * (runs.rows - runs.at_most))
    behind = distance * epsilon / (2.0 * max(quantile, 1.0 - quantile))
    return _moments(race(behind, points[0], np.zeros_like(behind))[0], points)
