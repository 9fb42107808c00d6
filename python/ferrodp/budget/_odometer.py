"""Odometers: bounds on the loss so far, at a moment that may be chosen in view of all results.

A filter's guarantee is about a budget that was fixed in advance. Its conversion, evaluated at the sums of a moment, is
not a guarantee: a user who stops when the loss looks large exceeds it more often than δ. A reading that holds at all
moments together needs a theorem of its own, and a δ and other constants that were fixed in advance; they are those with
which the scope was created.

======  ===============================================================================================================
pure    Σε, while Σδ ≤ δ. A release whose cost is (ε, δ) is a mixture of an ε-private one and, with probability δ,
        anything ([KOV15]; [MV16]), and Σδ bounds the probability of the second: [RRUV16], section 3.
zcdp    the mixture odometer of `ferrodp.accounting.Odometer`, tightest where the scope's first cap is used up.
gdp     the same with ρ = μ²/2: what is μ-GDP given the past is a post-processing of a Gaussian pair (Blackwell's
        theorem; [DRS22]), so its Rényi divergences are at most those of the pair.
rdp     the minimum over the n orders of Σρ(α) + ln(n/δ)/(α − 1): exp((α − 1)(L − Σρ(α))) is a supermartingale in the
        loss L, which ever reaches n/δ with probability at most δ/n (Ville); so the bounds hold for all n orders, at
        all moments, except with probability δ [Lec21].
======  ===============================================================================================================

Reserved releases count as made: sums that are larger than needed make a reading larger.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._numerics.intervals import arithmetic, float_up
from ferrodp.accounting.filters.odometers import gamma_for, mixture_reading
from ferrodp.budget._measures import UNITS, Amounts, Terms

_DIGITS = 50


@functools.lru_cache(maxsize=1024)
def reading(terms: Terms, spent: Amounts) -> tuple[float, float]:
    """Return ε and δ: except with probability δ, the loss of all charges is at most the ε read, at every moment."""
    # mutant: reading-that-of-filter
    if not any(spent):
        return 0.0, 0.0
    amounts = [Fraction(amount, UNITS[terms.measure]) for amount in spent]
    stated = terms.first.delta if terms.highest is None else terms.highest[1]
    delta = _validate.rounded(stated, "down")
    if terms.measure == "pure":
        if not amounts[1]:
            return _validate.rounded(amounts[0], "up"), 0.0
        within = amounts[1] <= Fraction(stated)
        return (_validate.rounded(amounts[0], "up") if within else math.inf), _validate.rounded(stated, "up")
    if terms.measure == "zcdp" and amounts[1]:  # a stated δ, which no scope of this measure has room for
        return math.inf, delta
    if terms.measure == "rdp":
        return _of_orders(terms.orders, amounts, delta), delta
    halves = 1 if terms.measure == "zcdp" else 2
    first_cap = Fraction(terms.first.caps()[0], UNITS[terms.measure] * halves)
    gamma = gamma_for(delta, max(float(first_cap), math.ulp(0.0)))
    return mixture_reading(amounts[0] / halves, gamma=gamma, delta=delta), delta


def _of_orders(orders: tuple[float, ...], amounts: list[Fraction], delta: float) -> float:
    r = arithmetic(_DIGITS)
    # mutant: orders-share-no-part-of-delta
    logarithm = r.ln(r.ratio(len(orders) / Fraction(delta)))
    sums = zip(orders, amounts, strict=True)
    return min(
        float_up(r.add(r.ratio(amount), r.div(logarithm, r.ratio(Fraction(order) - 1))).upper) for order, amount in sums
    )
