"""How often an attack is right: counts at thresholds, their intervals, and the curves that agree with these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_SLACK = 1.0 + 2.0**-48
"""Far above the rounding of the few operations of a bound."""


def most_found(
    epsilons: npt.NDArray[np.float64], deltas: npt.NDArray[np.float64], rates: Sequence[float]
) -> list[float]:
    """Return an upper bound on what any attack finds at each rate of false alarms.

    Each point (ε, δ) of a privacy curve gives one for the test of either neighbor against the other: min(e^ε α + δ,
    1 − e^−ε (1 − δ − α)). The least counts; with few points it is larger than it could be, and still a bound.
    """
    grown, shrunk = np.exp(epsilons), np.exp(-epsilons)
    bounds = [np.minimum(grown * rate + deltas, 1.0 - shrunk * (1.0 - deltas - rate)) for rate in rates]
    return [min(float(each.min()) * _SLACK, 1.0) for each in bounds]


def hits(
    without: npt.NDArray[np.float64], with_it: npt.NDArray[np.float64], alarms: npt.ArrayLike
) -> npt.NDArray[np.int64]:
    """Return how many scores of `with_it` exceed the threshold that so many scores of `without` exceed."""
    places = np.minimum(np.asarray(alarms, dtype=np.int64), len(without) - 1)
    thresholds = np.sort(without)[::-1][places]
    return np.asarray(len(with_it) - np.searchsorted(np.sort(with_it), thresholds, side="right"), dtype=np.int64)


def interval(found: npt.ArrayLike, trials: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return both ends of the 95 % interval of Clopper and Pearson for each count among so many trials."""
    from scipy.special import betaincinv  # slow to import

    counts = np.asarray(found, dtype=np.float64)
    low = betaincinv(np.maximum(counts, 1.0), trials - counts + 1.0, 0.025)
    high = betaincinv(counts + 1.0, np.maximum(trials - counts, 1.0), 0.975)
    return np.where(counts > 0, low, 0.0), np.where(counts < trials, high, 1.0)


def told(found: int, trials: int) -> str:
    """Write a rate with its interval, as pages do."""
    low, high = interval(found, trials)
    return f"{found / trials:.3f} ({low:.3f} to {high:.3f})"


def told_at(without: npt.NDArray[np.float64], with_it: npt.NDArray[np.float64], rate: float) -> str:
    """Write how much is found at a rate of false alarms, with its 95 % interval."""
    trials = len(with_it)
    low, high = interval_at(without, with_it, rate)
    return f"{int(hits(without, with_it, int(rate * len(without)))) / trials:.3f} ({low:.3f} to {high:.3f})"


def interval_at(without: npt.NDArray[np.float64], with_it: npt.NDArray[np.float64], rate: float) -> tuple[float, float]:
    """Return a 95 % interval of what is found at a rate of false alarms, the threshold's own error included.

    At the score of `without` that k others exceed, the rate of false alarms has the law Beta(k + 1, n − k) if scores
    are continuous, and with ties no more if a score has to exceed the threshold, no less if it may be equal. So there
    is a rank, chosen before any score is seen, at which that rate is at most `rate`, and one at which it is at least
    `rate`, each but with probability 1.25 %. Given the threshold, what it finds is binomial, and what is found grows
    with the rate: the Clopper-Pearson bound at each of both thresholds, again of 1.25 %, is a bound at `rate`.
    """
    from scipy.special import betainc, betaincinv  # slow to import

    share, n, trials = 0.05 / 4, len(without), len(with_it)
    ranks, scores, thresholds = np.arange(n), np.sort(with_it), np.sort(without)[::-1]
    at_most = betainc(ranks + 1.0, n - ranks, rate)  # P[the rate of false alarms ≤ `rate`], falling with the rank
    low, high = 0.0, 1.0
    # mutant: threshold-taken-as-known
    safe, beyond = np.flatnonzero(at_most >= 1.0 - share), np.flatnonzero(at_most <= share)
    if safe.size:
        found = trials - int(np.searchsorted(scores, thresholds[safe[-1]], side="right"))
        low = float(betaincinv(found, trials - found + 1.0, share)) if found else 0.0
    if beyond.size:
        found = trials - int(np.searchsorted(scores, thresholds[beyond[0]], side="left"))
        high = float(betaincinv(found + 1.0, trials - found, 1.0 - share)) if found < trials else 1.0
    return low, high


def band(
    alarms: npt.ArrayLike, found: npt.ArrayLike, trials: int, rates: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return what the intervals of both counts, threshold by threshold, leave open at some rates of false alarms.

    A threshold whose rate of alarms is at most x shows what is found at x at least, and one whose rate is at least x
    what is found at most.
    """
    least_alarms, most_alarms = interval(alarms, trials)
    least_found, most_found = interval(found, trials)
    low = [float(np.max(least_found[most_alarms <= x], initial=0.0)) for x in rates]
    high = [float(np.min(most_found[least_alarms >= x], initial=1.0)) for x in rates]
    return low, high
