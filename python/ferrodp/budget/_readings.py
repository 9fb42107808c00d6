"""What a ledger can say about the loss so far, at a moment that may be chosen in view of all results: odometers.

A filter's promise is about a budget that was fixed in advance. Its conversion, read when so much happens to be charged,
is none: who stops when the loss looks large finds it exceeded more often than δ. A reading that holds at all moments
together needs a theorem of its own, and a δ, and all other constants, that were fixed in advance: taken are those with
which the scope was made.

======  ===============================================================================================================
pure    Σε, while Σδ ≤ δ. Each release whose cost is (ε, δ) is a coin of chance δ between an ε-private one and anything
        (Kairouz, Oh, Viswanath, ICML 2015; Murtagh, Vadhan, TCC 2016), and no coin falls but with probability Σδ:
        Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016, section 3.
zcdp    the mixture odometer of `ferrodp.accounting.Odometer`, tightest where the scope's first cap is used up.
gdp     the same with ρ = μ²/2: what is μ-GDP given the past is made from a Gaussian pair (Blackwell's theorem; Dong,
        Roth, Su, "Gaussian differential privacy", JRSS B 2022), so it has at most its Rényi divergences.
rdp     the least over the n orders of Σρ(α) + ln(n/δ)/(α − 1): exp((α − 1)(L − Σρ(α))) is a supermartingale in the
        loss L, which ever reaches n/δ with probability δ/n at most (Ville); so the bounds hold for all n orders, at
        all moments, but with probability δ. Lécuyer, "Practical privacy filters and odometers with Rényi differential
        privacy and applications for differentially private deep learning", 2021.
======  ===============================================================================================================

What is held counts as released: sums that are larger than needed make a reading larger.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from ferrodp import _validate
from ferrodp._numerics.intervals import arithmetic, float_up
from ferrodp.accounting.filters.odometers import gamma_for, mixture_reading
from ferrodp.budget._measures import UNITS, Amounts, Terms

_DIGITS = 50


@functools.lru_cache(maxsize=1024)
def reading(terms: Terms, spent: Amounts) -> tuple[float, float]:
    """Return ε and δ: but with probability δ, the loss of what was charged is at most the ε read, at every moment."""
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
