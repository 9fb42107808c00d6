"""Parts of a budget: evenly, or by weights.

A part with weight w of W has the share w/W of what adds up: of ε and δ in "pure", of ρ in "zcdp". So all parts together
keep the budget, whatever is released with each of them, and in view of which results.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ferrodp._base import _validate
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.budget._measures import Terms
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import EpsilonDeltaEvent, PrivacyEvent
from ferrodp.tickets.payer import Share

MAX_PARTS = 10_000


def weights_of(parts: object, weights: Any) -> tuple[Fraction, ...] | None:
    """Return the share of each part; None for a budget that is not split."""
    if parts is not None and weights is not None:
        raise InvalidParameter("at most one of parts and weights must be given: weights are as many as the parts")
    if parts is not None:
        count = _validate.count("parts", parts, maximum=MAX_PARTS)
        return (Fraction(1, count),) * count
    if weights is None:
        return None
    if not isinstance(weights, Sequence) or isinstance(weights, (str, bytes)):
        raise InvalidType(f"weights must be a sequence of numbers > 0, got {type(weights).__name__}")
    found = [_validate.exact("weights", each) for each in weights]
    if not 1 <= len(found) <= MAX_PARTS or min(found) <= 0:
        raise InvalidParameter(f"weights must be 1 to {MAX_PARTS} numbers > 0, in the order of the releases")
    total = sum(found)
    return tuple(each / total for each in found)


def share(terms: Terms, weight: Fraction) -> Share:
    """Return the largest ε, and the δ, that a part pays for; rounded down."""
    if terms.measure == "pure":
        # mutant: parts-of-a-block-rounded-up
        epsilon, delta = (_validate.rounded(Fraction(total) * weight, "down") for total in (terms.epsilon, terms.delta))
        return Share(epsilon, delta)
    cap = terms.caps()[0] * weight
    low, high = 0.0, 2.0 * float(terms.epsilon)
    for _ in range(60):  # costs grow with ε: what is returned was seen to fit
        middle = 0.5 * (low + high)
        fits = terms.costs(EpsilonDeltaEvent(epsilon=middle))[0] <= cap
        low, high = (middle, high) if fits else (low, middle)
    return Share(low, 0.0)


def charged(terms: Terms, weight: Fraction, event: PrivacyEvent) -> PrivacyEvent:
    """Return what a release is charged as: its event if that fits into the part, or the part itself.

    Noise without a price in "pure" is charged as the whole part, of which it is certified that it pays.
    """
    try:
        costs = terms.costs(event)
    except UnsupportedEventError:
        part = share(terms, weight)
        if terms.measure != "pure" or not part.delta:
            raise
        accountant = PldAccountant(neighboring_relation=terms.neighboring_relation)
        accountant.compose(event)
        if accountant.delta(part.epsilon) <= part.delta:
            return EpsilonDeltaEvent(epsilon=part.epsilon, delta=part.delta)
        raise BudgetExceeded(_too_dear(part)) from None
    # mutant: release-takes-more-than-its-part
    if all(cost <= cap * weight for cost, cap in zip(costs, terms.caps(), strict=True)):
        return event
    raise BudgetExceeded(_too_dear(share(terms, weight)))


def _too_dear(part: Share) -> str:
    return (
        f"this release costs more than its part of the open budget, epsilon {part.epsilon!r} and delta {part.delta!r}; "
        "leave epsilon out of a statistic, or calibrate the mechanism to spending.next_share; nothing was charged"
    )
