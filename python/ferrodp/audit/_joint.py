"""Lower bounds on ε from how often events happened on both sides, by tests of both rates at once.

For one event let p be its rate for the neighbor for which it is likelier, and q that for the other one. Of independent
draws, X of n hit on the one side and Y of n on the other. A pair (p, q) is rejected if U = P[Bin(n, p) ≥ X] or
V = P[Bin(n, q) ≤ Y] is at most a level of its own, or if both together are too small: if w·Φ⁻¹(1 − U) + v·Φ⁻¹(1 − V)
is at least z, where w² + v² = 1 and w, v depend on q only. U and V are independent and not smaller, in law, than
uniform numbers, so the weighted sum is not larger, in law, than a standard normal one ([SSDSW49], volume 1, p. 45), and
the true pair is rejected with at most the sum of the three levels. If the pairs with p ≤ e^ε·q + δ are all rejected,
the true ε is larger, whatever q is. An interval for each rate alone would allow for both being at their ends at once.

Two events that exclude each other, one for each direction, are tested together as well: of the first event's n draws on
its likelier side, those that did not hit are n − X, and among them the second event hits with a rate of at least its
own, q₂. So V₂ = P[Bin(n − X₁, q₂) ≤ Y₂] is too large if anything, given X₁, and all four scores may be added.

Pairs are rejected in boxes between neighboring nodes, each by its corner that is hardest to reject: results are
rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.audit import _binomial

Array: TypeAlias = npt.NDArray[np.float64]

_NODES = 1024
REACH = 1e-9
"""Tails that scores reach to, unless less is requested: beyond, the score of the last node serves, or none."""
_LEAST = 1e-3
"""The smallest tail that has a score, as a share of the reach."""
_LEVELS = 1e-4
_SLACK = 1e-5
"""Relative error of a tail, and more."""
_ROUNDING = 1e-9
_ALONE = (1 / 100, 1 / 40)
"""Shares of the level for rejections by the one rate alone, and by the other rate alone."""
JOINT = 1.0 - sum(_ALONE)
"""The share for both rates together."""
_FEW, _ALONE_OF_FEW = 10.0, 1 / 2
"""Where fewer hits on the other side are expected, their rate decides."""
_MOST = 700.0
_USUAL_Z, _SPARE_Z = 1.96, 1.0
_NORMAL = NormalDist()


class Rates(NamedTuple):
    """What is expected of an event before it is counted: rates for its likelier neighbor and for the other one."""

    likelier: float
    other: float

    def epsilon(self, delta: float) -> float:
        """Return the ε that the rates show."""
        if self.likelier <= delta:
            return -math.inf
        return math.log((self.likelier - delta) / self.other) if self.other > 0.0 else math.inf

    def deviation(self, counted: int, delta: float) -> float:
        """Return the standard deviation of the ε that so many draws show, about."""
        p, q = self
        if p <= delta or q <= 0.0:
            return math.inf
        return math.sqrt((p * (1.0 - p) / (p - delta) ** 2 + (1.0 - q) / q) / counted)

    def promise(self, counted: int, delta: float) -> float:
        """Return the ε that so many draws are going to prove with a good chance, about."""
        spread = self.deviation(counted, delta)
        return self.epsilon(delta) - (_USUAL_Z + _SPARE_Z) * spread if spread < math.inf else -math.inf


def pooling_helps(rates: Sequence[Rates], counted: int, delta: float) -> bool:
    """Return whether two events are going to show more together than the better one does."""
    shown = [each.epsilon(delta) for each in rates]
    spread = [each.deviation(counted, delta) for each in rates]
    if not all(math.isfinite(each) for each in (*shown, *spread)) or not all(spread):
        return False
    lost = sum(p.likelier * math.sqrt(counted * q.other) for p, q in zip(rates, rates[::-1], strict=True))
    weights = [1.0 / each for each in spread]
    both = sum(e * w for e, w in zip(shown, weights, strict=True)) - math.sqrt(2.0) * _USUAL_Z - lost
    return both / sum(weights) > max(e - _USUAL_Z * s for e, s in zip(shown, spread, strict=True))


@dataclass(frozen=True, slots=True)
class Tails:
    """Bounds on Φ⁻¹(P[Bin(n, p) ≥ k]) at rising nodes p; the score rises with p."""

    nodes: Array
    low: Array
    high: Array


def reach_for(level: float) -> float:
    """Return how far scores have to reach, so that a test at this level is able to reject."""
    return min(REACH, _LEVELS * level)


def tails_of(k: int, n: int, reach: float = REACH) -> Tails:
    """Return the scores of a count, where tails are at least `reach`; nodes are equally far apart in arcsin √p."""
    if not 0 < k <= n:
        return Tails(np.empty(0), np.empty(0), np.empty(0))
    ends = _binomial.lower_bound(k, n, reach), _binomial.upper_bound(k - 1, n, reach)
    first, last = (math.asin(math.sqrt(end)) for end in ends)
    angles = np.linspace(first, last, _NODES)
    nodes = np.sin(angles) ** 2
    at, weights = np.polynomial.legendre.leggauss(3)
    half = 0.5 * (last - first) / (_NODES - 1)
    inner = angles[:-1, None] + half * (1.0 + at)
    steps = (_density(inner, k, n) * weights).sum(axis=1) * half
    below = _binomial.at_least(k, n, float(nodes[0])) + np.concatenate([[0.0], np.cumsum(steps)])
    rest = _binomial.at_least(n - k + 1, n, 1.0 - float(nodes[-1]))
    above = rest + np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
    low = [_score(a, b, -1.0, _LEAST * reach) for a, b in zip(below.tolist(), above.tolist(), strict=True)]
    high = [_score(a, b, 1.0, _LEAST * reach) for a, b in zip(below.tolist(), above.tolist(), strict=True)]
    return Tails(nodes, np.array(low), np.array(high))


def _score(tail: float, rest: float, side: float, least: float) -> float:
    """Return Φ⁻¹ of a tail, which is known to a relative error as its complement is, rounded to a side."""
    if min(tail, rest) < least:  # the score is infinite, or that of a larger tail
        return side * math.inf if (tail < rest) == (side < 0.0) else side * _NORMAL.inv_cdf(least)
    shift = side * _SLACK
    found = _NORMAL.inv_cdf(tail * (1.0 + shift)) if tail < rest else -_NORMAL.inv_cdf(rest * (1.0 - shift))
    return found + side * _ROUNDING


def _density(angle: Array, k: int, n: int) -> Array:
    """Return the derivative of P[Bin(n, sin²φ) ≥ k] by φ: 2k·P[Bin = k]/tan φ."""
    p, r = np.sin(angle) ** 2, np.cos(angle) ** 2
    if k == n:
        log = n * np.log1p(-r)
    else:
        log = -_deviances(float(k), n * p) - _deviances(float(n - k), n * r)
        log += _binomial.stirling(n) - _binomial.stirling(k) - _binomial.stirling(n - k)
        log += 0.5 * math.log(n / (2.0 * math.pi * k * (n - k)))
    found: Array = 2.0 * k * np.exp(log) * np.sqrt(r / p)
    return found


def _deviances(x: float, y: Array) -> Array:
    """Return x·ln(x/y) + y − x, without cancellation where x is near y."""
    v = (x - y) / (x + y)
    square = np.minimum(v * v, 0.01)
    series = np.zeros_like(v)
    for j in range(10, 0, -1):
        series = square * (series + 1.0 / (2 * j + 1))
    near = (x - y) * v + 2.0 * x * v * series
    return np.where(np.abs(v) >= 0.1, x * np.log(x / y) + y - x, near)


class Pair:
    """The counts of one event on both sides."""

    def __init__(
        self,
        hits: int,
        other_hits: int,
        counted: int,
        expected: Rates,
        epsilon: float,
        delta: float,
        left: int,
        reach: float = REACH,
    ) -> None:
        """Take what was expected of the rates, for weights, and of how many draws `other_hits` are."""
        self.likelier, other = tails_of(hits, counted, reach), tails_of(other_hits + 1, left, reach)
        self.ends = np.concatenate([other.nodes, [1.0]])
        self.other = np.concatenate([[-math.inf], other.low])
        self.weights = _weights(self.ends, epsilon, delta)
        self.alone = alone_of(expected.other * counted)

    def least(self, epsilon: float, delta: float, level: float) -> float:
        """Return the least joint score of all pairs with that ε which are not rejected by one rate alone."""
        p = (math.exp(epsilon) * self.ends + delta) * (1.0 + _ROUNDING)
        # mutant: rates-at-the-near-corner
        place = np.searchsorted(self.likelier.nodes, p)
        likelier = -np.concatenate([self.likelier.high, [math.inf]])[place]
        together: Array = self.weights[0] * likelier + self.weights[1] * self.other
        alone = (likelier >= _quantile(self.alone[0] * level)) | (self.other >= _quantile(self.alone[1] * level))
        together[alone] = math.inf
        return float(together.min())


def alone_of(hits: float) -> tuple[float, float]:
    """Return the shares of the level for each rate alone, where so many hits are expected on the other side."""
    return _ALONE[0], _ALONE_OF_FEW if hits < _FEW else _ALONE[1]


def _weights(q: Array, epsilon: float, delta: float) -> tuple[Array, Array]:
    """Return the weights of both scores that make their sum the difference of both rates over its deviation."""
    q = np.minimum(q, 1.0 - 1e-9)
    p = np.minimum(math.exp(epsilon) * q + delta, 1.0 - 1e-9)
    of_p, of_q = np.sqrt(p * (1.0 - p)), math.exp(epsilon) * np.sqrt(q * (1.0 - q))
    length = np.hypot(of_p, of_q)
    return of_p / length, of_q / length


def _quantile(level: float) -> float:
    return -_NORMAL.inv_cdf(level) + _ROUNDING


def rejects(pairs: Sequence[Pair], epsilon: float, level: float, delta: float) -> bool:
    """Return whether that ε is rejected at the level: by one pair, or by two that are pooled."""
    # mutant: joint-level-without-what-is-tested-alone
    joint = level * (1.0 - sum(sum(pair.alone) for pair in pairs) / len(pairs))
    needed = _quantile(joint) * math.sqrt(len(pairs))
    least = [pair.least(epsilon, delta, level / len(pairs)) for pair in pairs]
    return math.inf in least or sum(least) >= needed * (1.0 + _ROUNDING)


def bound(pairs: Sequence[Pair], level: float, delta: float) -> float:
    """Return a number that ε exceeds with confidence 1 − `level`, or 0: from one pair, or of two that are pooled."""

    def rejected(epsilon: float) -> bool:
        return rejects(pairs, epsilon, level, delta)

    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _MOST and rejected(high):
        low, high = high, 2.0 * high
    while high - low > 1e-7 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low
