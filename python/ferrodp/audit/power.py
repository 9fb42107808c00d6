"""How small a violation a number of draws can show."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.audit import _binomial
from ferrodp.audit._joint import JOINT, Pair, Rates, alone_of, reach_for, rejects, tails_of

SIGNIFICANCE = 1e-3
"""Probability with which a true claim is called violated, at most."""
_POWER = 0.9
_FEW = 200
"""Up to so many draws the test's own decisions are counted; rates of more draws are normal, about."""


def confidence_of(value: Real) -> float:
    """Return a confidence, checked."""
    found = _validate.probability("confidence", value)
    if not 0.5 <= found < 1.0:
        raise _validate.out_of_domain("confidence", "in [0.5, 1)", value)
    return found


def smallest_violation(*, draws: int, epsilon: Real, delta: Real, confidence: Real = 1.0 - SIGNIFICANCE) -> float:
    """Return about the least true ε, at the same δ, that a test of a claim shows to be too large, with power 90 %.

    It is that of the most favorable mechanism, whose best event has the best size for the test: for a given mechanism
    it takes more draws. To be asked before a test is run.

    Parameters
    ----------
    draws : int
        Draws that are counted on each side; at least 1. `audit_callable` counts three quarters of its draws: the others
        choose the event.
    epsilon : float
        Of the claim; finite, ≥ 0.
    delta : float
        Of the claim; in [0, 1].
    confidence : float
        With which the claim has to be contradicted; in [0.5, 1).

    Returns
    -------
    float
        Above `epsilon`; infinite where even an outright leak would need more draws.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.

    Notes
    -----
    One event, of one direction, is tested at half of the level. Up to 200 draws, it is looked up which counts the test
    rejects the claim for, and their probability is binomial. Of more draws, rates of both sides are normal here, while
    the test itself uses exact binomial tails: for ε = 1 the least ε is then 9 % too small at 200 draws. An event that
    never happens on the other side is included: no hit among n bounds its rate by ln(1/α)/n.

    Examples
    --------
    >>> [round(smallest_violation(draws=n, epsilon=1.0, delta=1e-5), 3) for n in (10**4, 10**6, 10**8)]
    [1.063, 1.006, 1.001]
    """
    return favorable(draws=draws, epsilon=epsilon, delta=delta, level=1.0 - confidence_of(confidence))[0]


def favorable(*, draws: int, epsilon: Real, delta: Real, level: float = SIGNIFICANCE) -> tuple[float, float]:
    """Return the least ε that is seen, and the rate of the event for the neighbor for which it is rarer."""
    n = _validate.count("draws", draws, minimum=1)
    claimed = _validate.non_negative("epsilon", epsilon)
    failure = _validate.probability("delta", delta)
    if claimed > 700.0:
        return math.inf, 0.0
    # mutant: few-draws-taken-as-normal
    if n <= _FEW:
        return _of_few(n, claimed, failure, level)
    quantile = NormalDist().inv_cdf(1.0 - JOINT * level / 2.0)
    beta = NormalDist().inv_cdf(_POWER)

    factor = math.exp(claimed)

    def is_seen(p: float, q: float) -> bool:
        spread = math.sqrt((p * (1.0 - p) + factor * factor * q * (1.0 - q)) / n)
        return p - factor * q - failure >= (quantile + beta) * spread

    best = math.inf, 0.0
    for step in range(1, 400):
        q = 10.0 ** (-step / 40.0)
        if n * q < 25.0:
            break
        low, high = factor * q + failure, 1.0
        if low < 1.0 and is_seen(1.0, q):
            for _ in range(50):
                middle = 0.5 * (low + high)
                low, high = (low, middle) if is_seen(middle, q) else (middle, high)
            best = min(best, (math.log((high - failure) / q), q))
    needed = factor * math.log(4.0 / level) / n + failure
    p = needed + (quantile + beta) * math.sqrt(needed / n) + (quantile + beta) ** 2 / n
    if p <= 1.0:  # no hit at all on the other side, with probability 95 %
        best = min(best, (math.log((p - failure) / (0.05 / n)), 0.05 / n))
    return best


@functools.lru_cache(256)
def _of_few(n: int, claimed: float, delta: float, level: float) -> tuple[float, float]:
    """Return the same for few draws, from the counts for which the test rejects the claim."""
    best = math.inf, 0.0
    of_few, of_more = [0.01 * 1.25**i / n for i in range(31)], [10.0 * 1.1**i / n for i in range(40)]
    for needed, rates in zip(_needed(n, claimed, delta, 0.5 * level), (of_few, of_more), strict=True):
        for q in rates:
            if math.exp(claimed) * q + delta < 1.0 and _power(needed, n, 1.0, q) >= _POWER:
                low, high = math.exp(claimed) * q + delta, 1.0
                for _ in range(20):
                    middle = 0.5 * (low + high)
                    low, high = (low, middle) if _power(needed, n, middle, q) >= _POWER else (middle, high)
                best = min(best, (math.log((high - delta) / q), q))
    return best


def _needed(n: int, claimed: float, delta: float, level: float) -> tuple[list[int], list[int]]:
    """Return, for 0, 1, … hits on the other side, the least number of hits for which the claim is rejected.

    First where few hits are expected there, then where more are: by that the test divides its level.
    """
    reach = reach_for(2.0 * level)
    tails = functools.cache(lambda hits: tails_of(hits, n, reach))
    both: tuple[list[int], list[int]] = [], []
    for other in range(n):
        pair = Pair(0, other, n, Rates(1.0, 0.0), claimed, delta, n, reach)
        for needed, expected in zip(both, (0.0, 1.0), strict=True):
            if len(needed) < other:
                continue
            pair.alone = alone_of(expected * n)
            low, high = needed[-1] if needed else 0, n + 1
            while low < high:
                middle = (low + high) // 2
                pair.likelier = tails(middle)
                low, high = (low, middle) if rejects([pair], claimed, level, delta) else (middle + 1, high)
            if low <= n:
                needed.append(low)
        if max(map(len, both)) <= other:
            break
    return both


def _power(needed: list[int], n: int, p: float, q: float) -> float:
    """Return the probability that hits of both rates reject."""
    mass = (math.exp(_binomial.log_mass(other, n, q)) for other in range(len(needed)))
    return sum(each * _binomial.at_least(least, n, p) for each, least in zip(mass, needed, strict=True))
