"""Exact binomial bounds in floating point, for any number of trials ([CP34])."""

from __future__ import annotations

import math

_SLACK = 1e-5
"""Relative error of a tail, and more, for a rate near 1 is known to 2⁻⁵³ of 1 only."""
_ROUNDING = 1e-9


def log_mass(k: int, n: int, p: float) -> float:
    """Return ln P[X = k] for X ~ Bin(n, p), 0 < p < 1, by the saddle-point expansion."""
    if k == 0:
        return n * math.log1p(-p)
    if k == n:
        return n * math.log(p)
    log = stirling(n) - stirling(k) - stirling(n - k) - _deviance(k, n * p) - _deviance(n - k, n * (1.0 - p))
    return log + 0.5 * math.log(n / (2.0 * math.pi * k * (n - k)))


def at_least(k: int, n: int, p: float) -> float:
    """Return P[X ≥ k]: of the shorter tail, by the continued fraction of Gauss."""
    if k <= 0 or p >= 1.0:
        return 1.0
    if k > n or p <= 0.0:
        return 0.0
    if k > n * p:
        return min(math.exp(log_mass(k, n, p)) / _fraction(k, n, p), 1.0)
    other = n - k + 1
    return 1.0 - min(math.exp(log_mass(other, n, 1.0 - p)) / _fraction(other, n, 1.0 - p), 1.0)


def upper_bound(hits: int, trials: int, failure: float) -> float:
    """Return the largest p for which so few hits are not less likely than `failure`, rounded up."""
    if hits >= trials:
        return 1.0
    low, high = hits / trials, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if high - low <= 1e-12 * high or not low < middle < high:
            break
        # mutant: upper-rate-at-twice-the-failure
        rare = at_least(trials - hits, trials, 1.0 - middle)
        low, high = (low, middle) if rare * (1.0 + _SLACK) < failure else (middle, high)
    return min(high * (1.0 + _ROUNDING), 1.0)


def lower_bound(hits: int, trials: int, failure: float) -> float:
    """Return the least p for which so many hits are not less likely than `failure`, rounded down."""
    if hits <= 0:
        return 0.0
    low, high = 0.0, hits / trials
    for _ in range(400):
        middle = 0.5 * (low + high)
        if high - low <= 1e-12 * high or not low < middle < high:
            break
        low, high = (middle, high) if at_least(hits, trials, middle) * (1.0 + _SLACK) < failure else (low, middle)
    return low * (1.0 - _ROUNDING)


def _fraction(k: int, n: int, p: float) -> float:
    """Return P[X = k]/P[X ≥ k] = 1/₂F₁(1, k − n; k + 1; −odds)."""
    odds, b, c = p / (1.0 - p), float(k - n), float(k + 1)
    found, above, below = 1.0, 1.0, 0.0
    for j in range(1, 500_000):
        i = (j - 1) // 2 if j % 2 else j // 2
        if j % 2:
            coefficient = odds * (c + i - 1.0) * (b + i) / ((c + 2 * i - 1.0) * (c + 2 * i))
        else:
            coefficient = odds * i * (c - b + i - 1.0) / ((c + 2 * i - 2.0) * (c + 2 * i - 1.0))
        below = 1.0 / ((1.0 + coefficient * below) or 1e-300)
        above = (1.0 + coefficient / above) or 1e-300
        change = above * below
        found *= change
        if abs(change - 1.0) < 1e-14 or not coefficient:
            break
    return found


def stirling(n: int) -> float:
    """Return ln n! − ln(√(2πn)·(n/e)ⁿ)."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(x: float, y: float) -> float:
    """Return x·ln(x/y) + y − x, without cancellation where x is near y."""
    if abs(x - y) >= 0.1 * (x + y):
        return x * math.log(x / y) + y - x
    v = (x - y) / (x + y)
    total, power = (x - y) * v, 2.0 * x * v
    for j in range(1, 1000):
        power *= v * v
        grown = total + power / (2 * j + 1)
        if grown == total:
            break
        total = grown
    return total
