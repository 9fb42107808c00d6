"""Keys released by the weights that units give them, each decided by a coin, which says less than a noised sum.

A key with the integer weight s is released with probability p(s), independently of all others. A unit with d keys gives
each of them the weight w(d), which descends in d. p is the largest function with

    d·p(s) ≤ δ₂                      for 0 < s ≤ w(d),                                                            (1)
    d·D(p(s + w(d)), p(s)) ≤ ρ       for every s ≥ 1 and every d,                                                 (2)

where D(a, b) is the larger of the Rényi divergences of order α between coins of probabilities a and b, in both orders.

*Privacy.* D' = D + unit, with d keys. For keys that others have, s ≥ 1 in D and s + w(d) in D'; decisions about keys
are independent, so divergences add up [Mir17, Proposition 1] and the decisions about these keys are (α, ρ)-Rényi
differentially private by (2). Keys of the unit alone have s = w(d): one of them is released with probability d·p(w(d))
at most, δ₂ by (1). That the Rényi divergence of coins allows more than thresholds of Gaussian sums is [HM26]. Weights
need not have a norm: (2) holds for each w(d), whatever it is. ⌊256·d^(−9/20)⌋ gives units of many keys more than the
share 1/√d of Gaussian noise, at the price of a higher weight that a key must reach.

*The largest.* p(s) is the least over d of the largest p for which (2) holds from p(s − w(d)), and of δ₂/d from (1). The
former ascends in p(s − w(d)), so no function that keeps (1) and (2) is larger, by induction over s. (2) is verified for
the values found, all of them.

*Numbers.* p is a float, or 1 minus a float, and so a whole number of 2⁻²⁵⁶: coins have exactly these probabilities. (2)
is evaluated for it with logarithms of an error below 10⁻¹², and compared with ρ less 10⁻⁹/(α − 1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp.random import NoiseSource
from ferrodp.statistics.keys.selection import BITS, below, words_of

MAX_KEYS = 1000
MIN_EPSILON = 0.25
"""Beyond, tables of probabilities become long; thresholds of Gaussian sums need none."""
_WEIGHT = 256
_CERTAIN = 9.0
"""In logits: p is 0.9999, where it stays."""
_SPACING = 0.01
_SLACK = 2.0**-8
"""Of a step between two that were computed, for the interpolation; whether it is enough is verified."""
_MARGIN = 1e-9
_HALVINGS = 18
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Coins(NamedTuple):
    """Weights by the number of keys of a unit, and the probability of each weight, as four words of 64 bits."""

    weights: Ints
    probabilities: npt.NDArray[np.uint64]

    def chosen(self, sums: Ints, source: NoiseSource) -> npt.NDArray[np.bool_]:
        """Return which keys are released, given their weights, all at least 1."""
        return below(self.probabilities[np.minimum(sums, len(self.probabilities) - 1)], source)


def order(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the order α and the ρ that makes (α, ρ)-Rényi differential privacy (ε, δ)-differential privacy.

    δ = e^((α−1)(ρ−ε))·(1 − 1/α)^α/(α − 1) [CKS20, Proposition 12], with ρ less 10⁻⁹ of it for the rounding. α is the
    one for which Gaussian noise is the least.
    """
    best = (2.0, -math.inf)
    for step in range(1, 400):
        alpha = 1.0 + 2.0 ** ((step - 100) / 20)
        # mutant: order-of-a-union-for-a-larger-delta
        rho = epsilon + (math.log(delta) + math.log(alpha - 1.0) - alpha * math.log1p(-1.0 / alpha)) / (alpha - 1.0)
        if rho / alpha > best[1] / best[0]:
            best = (alpha, rho)
    return best[0], best[1] - 1e-9 * abs(best[1])


def coins(alpha: float, rho: float, delta: float, groups: int) -> Coins | None:
    """Return the weights and probabilities of the module docstring, for units of up to so many keys.

    None if a step between two probabilities is found to cost more than it may; none is known where that happens.
    """
    degrees = _classes(groups)
    given = np.floor(_WEIGHT * degrees**-0.45).astype(np.int64)
    weights = np.zeros(groups + 1, np.int64)
    weights[1:] = given[np.searchsorted(degrees, np.arange(1, groups + 1))]
    most = {int(weight): int(degree) for degree, weight in zip(degrees, given, strict=True)}  # the last one: the most
    # mutant: each-key-of-a-unit-costs-as-its-only-one
    limits = {weight: (alpha - 1.0) * rho / degree for weight, degree in most.items()}
    # mutant: own-keys-of-a-unit-as-if-it-had-one
    alone = [delta / max(degree for weight, degree in most.items() if weight >= s) for s in range(1, _WEIGHT + 1)]
    first = np.array([math.log(each) - math.log1p(-each) for each in alone]) - 1e-9  # for the rounding of logarithms
    found = _logits(alpha, limits, first)
    if found is None:
        return None
    return Coins(weights, words_of([0, *map(_whole, found.tolist())]))


def _classes(groups: int) -> Floats:
    """Return numbers of keys, rising by a fifth beyond 8: a unit counts as one of the next of them."""
    found = [1]
    while found[-1] < groups:
        found.append(min(found[-1] + max(1, found[-1] // 6), groups))
    return np.array(found, np.float64)


def _logits(alpha: float, limits: dict[int, float], first: Floats) -> Floats | None:
    """Return log(p/(1 − p)) of the weights 1, 2, …, up to the first nearly certain one, if all steps are verified."""
    least, top = min(limits), first.size
    start = float(first[0]) - 1.0
    grid = np.linspace(start, _CERTAIN, math.ceil((_CERTAIN - start) / _SPACING) + 1)
    steps = {weight: _longest_steps(alpha, limit, grid) * (1.0 - _SLACK) for weight, limit in limits.items()}
    found = first
    size = 0
    while size == 0 or found[size - 1] < _CERTAIN:
        block = np.arange(size, size + least)
        if found.size < size + least:
            found = np.concatenate([found, np.full(found.size, np.inf)])
        value = found[block]
        for weight, step in steps.items():
            before = found[max(size - weight, 0) : max(size + least - weight, 0)]
            if before.size:
                value[-before.size :] = np.minimum(value[-before.size :], before + np.interp(before, grid, step))
        found[block] = value
        size += least
    found = np.minimum(found[:size], _CERTAIN)
    held = np.concatenate([found, np.full(top, found[-1])])
    for weight, limit in limits.items():
        if np.any(moments(alpha, held[weight : size + weight], found) > limit - _MARGIN):
            return None
    return found


def _longest_steps(alpha: float, limit: float, logits: Floats) -> Floats:
    """Return how far logits may rise within the limit, which is (α − 1)·ρ/d, found from below."""
    yes, no = _logs(logits)
    low, high = np.zeros_like(logits), (limit - yes) / alpha + (limit - no) / (alpha - 1.0)  # of log p, log(1 − p)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_within = moments(alpha, logits + middle, logits) <= limit - _MARGIN
        low, high = np.where(is_within, middle, low), np.where(is_within, high, middle)
    return low


def moments(alpha: float, one: Floats, other: Floats) -> Floats:
    """Return α − 1 times the larger Rényi divergence of order α between coins, given their logits."""
    (yes, no), (yes_, no_) = _logs(one), _logs(other)
    there = np.logaddexp(alpha * yes + (1.0 - alpha) * yes_, alpha * no + (1.0 - alpha) * no_)
    # mutant: probabilities-that-fall-are-not-looked-at
    return np.maximum(there, np.logaddexp(alpha * yes_ + (1.0 - alpha) * yes, alpha * no_ + (1.0 - alpha) * no))


def _logs(logits: Floats) -> tuple[Floats, Floats]:
    """Return log p and log(1 − p)."""
    return -np.logaddexp(0.0, -logits), -np.logaddexp(0.0, logits)


def _whole(logit: float) -> int:
    """Return p as a whole number of 2⁻²⁵⁶."""
    small = math.exp(-abs(logit)) / (1.0 + math.exp(-abs(logit)))
    one: int = 1 << BITS
    whole: int = math.floor(Fraction(small) * one)
    return whole if logit <= 0.0 else one - whole
