"""How small a violation a number of draws can show."""

from __future__ import annotations

import math
from statistics import NormalDist

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.audit._joint import JOINT

SIGNIFICANCE = 1e-3
"""Probability with which a true claim is called violated, at most."""
_POWER = 0.9


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
        Draws that are counted on each side; at least 1.
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
    Rates of both sides are normal here; the test itself uses exact binomial tails. One event, of one direction, is
    tested at half of the level. An event that never happens on the other side is included: no hit among n bounds its
    rate by ln(1/α)/n.

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
