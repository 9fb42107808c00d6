"""What right guesses about canaries say: lower bounds on ε, on the μ of a Gaussian trade-off curve, and evidence.

Each canary was included by a fair coin. `guesses` of them are guessed, a number fixed in advance; which of them, and
what is guessed, is a function of what the training put out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

NORMAL = NormalDist()
LARGEST_EPSILON = 60.0
LARGEST_MU = 60.0
_SLACK = 1e-6
"""Relative error of tails and quadratures here, and more."""
_STEPS = 60


def chance(epsilon: float, delta: float, *, canaries: int, guesses: int, correct: int) -> float:
    """Return a bound on the probability of so many right guesses if the training is (ε, δ)-private, rounded up.

    [SNJ23] Theorem 5.2: β + 2mδ·maxᵢ P[v − i ≤ X < v]/i for X ~ Bin(r, e^ε/(1 + e^ε)), β = P[X ≥ v].
    """
    if correct <= 0:
        return 1.0
    masses = _masses(guesses, epsilon)
    tail = float(masses[correct:].sum())
    below = np.cumsum(masses[:correct][::-1]) / np.arange(1, correct + 1)
    # mutant: delta-of-canaries-left-out
    return min((tail + 2.0 * canaries * delta * float(below.max())) * (1.0 + _SLACK), 1.0)


def epsilon_lower(delta: float, failure: float, *, canaries: int, guesses: int, correct: int) -> float:
    """Return the ε below which so many right guesses are less likely than `failure`, rounded down."""

    def is_refuted(epsilon: float) -> bool:
        return chance(epsilon, delta, canaries=canaries, guesses=guesses, correct=correct) < failure

    return _last(is_refuted, LARGEST_EPSILON)


def mu_lower(failure: float, *, canaries: int, guesses: int, correct: int) -> float:
    """Return the μ below which no mechanism with a Gaussian trade-off curve guesses so well, rounded down."""
    return _last(lambda mu: is_refuted_at(mu, failure, canaries=canaries, guesses=guesses, correct=correct), LARGEST_MU)


def is_refuted_at(mu: float, failure: float, *, canaries: int, guesses: int, correct: int) -> bool:
    """Return whether so many right guesses are less likely than `failure` for every μ-GDP training.

    [MMC24]; the proof is in the documentation of audits. With rᵢ = E[W·1(W ≥ i)]/m and hᵢ = E[(g − W)·1(W ≥ i)]/m of
    the number W of right guesses, rᵢ₊₁ ≤ F(hᵢ) for F(x) = Φ(Φ⁻¹(x) + μ). Were P[W ≥ correct] ≥ failure, the least
    masses that obey this for all i would add up to P[W ≥ 0] ≤ 1; it is refuted where they add up to more.
    """
    if correct <= 0:
        return False
    right = failure * correct / canaries
    wrong = 0.0
    total = guesses / canaries * (1.0 + _SLACK)
    for i in range(correct - 1, -1, -1):
        least = NORMAL.cdf(NORMAL.inv_cdf(min(right, 1.0 - 1e-16)) - mu)
        if i < correct - 1 and least <= wrong:
            return False  # nothing grows any more
        weight = i / (guesses - i)
        if i == correct - 1:
            right -= weight * failure * (guesses - correct) / canaries
        right += weight * (least - wrong)
        wrong = least
        if right + wrong > total:
            return True
    return False


def evidence(epsilon: float, delta: float, *, canaries: int, guesses: int, correct: int, hoped: int) -> float:
    """Return ln of an e-value against (ε, δ): its mean is at most 1 if the claim holds.

    It is the likelihood ratio of a larger rate of right guesses, that of the `hoped` number, to e^ε/(1 + e^ε), cut off
    there, over a bound on its mean Σ P[W ≥ v]·(its growth at v), from the bounds of `chance` on P[W ≥ v].
    """
    p = 1.0 / (1.0 + math.exp(-epsilon))
    other = max((hoped + 0.5) / (guesses + 1.0), p)
    number = np.minimum(np.arange(guesses + 1), hoped)
    logs = number * math.log(other / p) + (guesses - number) * math.log((1.0 - other) / (1.0 - p))
    values = np.exp(logs - logs[hoped])
    masses = _masses(guesses, epsilon)
    growth = np.diff(values)
    # An average of masses below v is at most the largest of them.
    missed = np.minimum(2.0 * canaries * delta * np.maximum.accumulate(masses[:-1]), 1.0)
    mean = float(masses @ values) + float(missed @ growth)
    return float(logs[correct] - logs[hoped]) - math.log(mean * (1.0 + _SLACK))


def accuracy(mu: float, share: float) -> float:
    """Return the chance that a guess is right if a share of canaries is guessed, and scores are those of μ-GDP."""
    low, high = -50.0, 50.0 + mu
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        found = 0.5 * (NORMAL.cdf(-middle) + NORMAL.cdf(mu - middle))
        low, high = (middle, high) if found > 0.5 * share else (low, middle)
    true, false = NORMAL.cdf(mu - low), NORMAL.cdf(-low)
    return true / (true + false) if true + false else 1.0


@functools.lru_cache(maxsize=64)
def best_guesses(epsilon: float, mu: float, delta: float, failure: float, canaries: int) -> int:
    """Return the even number of guesses that shows most of a μ-GDP training, as expected before it.

    Of those numbers that can refute ε, if there are any: as many right guesses have to be less likely than `failure`.
    """
    best, most = 2 * max(canaries // 2, 1), (False, -1.0)
    share = 1.0
    while share * canaries >= 8.0:
        guesses = 2 * max(int(share * canaries) // 2, 1)
        right = accuracy(mu, guesses / canaries)
        hoped = int(guesses * right - math.sqrt(guesses * right * (1.0 - right)))
        made = {"canaries": canaries, "guesses": guesses}
        can_refute = chance(epsilon, delta, **made, correct=guesses) < failure
        found = can_refute, epsilon_lower(delta, failure, **made, correct=hoped)
        if found > most:
            best, most = guesses, found
        share *= 0.7
    return best


def mu_of_scores(included: Floats, others: Floats, failure: float) -> float:
    """Return a lower bound on μ: both kinds of scores normal with one standard deviation, their means μ of them apart.

    Student's t with a shift: P[T ≥ t] is a mean of Φ(shift − t·u) over the estimated standard deviation u.
    """
    n, m = included.size, others.size
    free = n + m - 2
    pooled = math.sqrt((float(np.var(included)) * n + float(np.var(others)) * m) / free)
    apart = float(np.mean(included)) - float(np.mean(others))
    if pooled == 0.0:
        return math.inf if apart > 0.0 else 0.0
    root = math.sqrt(n * m / (n + m))
    statistic = apart / pooled * root
    spread = 12.0 / math.sqrt(2.0 * free)
    u = np.linspace(max(1.0 - spread, 0.0), 1.0 + spread, 501)
    logs = np.where(u > 0.0, (free - 1.0) * np.log(np.maximum(u, 1e-300)) - 0.5 * free * (u * u - 1.0), -np.inf)
    weights = np.exp(logs)
    weights /= weights.sum()

    def is_refuted(mu: float) -> bool:
        tails = [NORMAL.cdf(mu * root - statistic * each) for each in u.tolist()]
        return float(weights @ np.array(tails)) * (1.0 + _SLACK) < failure

    return _last(is_refuted, max(LARGEST_MU, statistic / root)) if statistic > 0.0 else 0.0


def _last(is_refuted: Callable[[float], bool], most: float) -> float:
    """Return about the largest number that is refuted, rounded down; 0 if none is."""
    low, high = 0.0, most
    if not is_refuted(low):
        return 0.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


@functools.lru_cache(maxsize=8)
def _logs(number: int) -> Floats:
    """Return ln of the binomial coefficients of `number`."""
    k = np.arange(1, number + 1)
    found: Floats = np.concatenate([[0.0], np.cumsum(np.log(number - k + 1.0) - np.log(k))])
    return found


def _masses(number: int, epsilon: float) -> Floats:
    """Return P[X = k] for X ~ Bin(number, e^ε/(1 + e^ε)), all k."""
    k = np.arange(number + 1)
    # ln p = −ln(1 + e^−ε), ln(1 − p) = −ε − ln(1 + e^−ε)
    found: Floats = np.exp(_logs(number) - number * math.log1p(math.exp(-epsilon)) - (number - k) * epsilon)
    return found
