"""What a refused charge is told: which budget refused, what is charged to it, and what still fits."""

from __future__ import annotations

from fractions import Fraction

from ferrodp import _validate
from ferrodp.budget._measures import UNITS, Amounts, Terms
from ferrodp.events import EpsilonDeltaEvent, PrivacyEvent


def refusal(
    where: str, terms: Terms, spent: Amounts, caps: Amounts, event: PrivacyEvent, *, costs: Amounts, count: int = 1
) -> str:
    """Return why `count` releases do not fit. What is charged and asked for is rounded up, what is allowed down."""
    exact = Fraction(spent[0], UNITS["pure"]) if terms.measure == "pure" else None
    used, delta = exact or terms.epsilon_of(spent, caps), f"{float(terms.delta):.6g}"
    # mutant: refusal-rounds-what-is-charged-down
    charged = _validate.few_digits(used, "up")
    allowed = _validate.few_digits(terms.epsilon, "down")
    return (
        f"{_releases(event, count)} does not fit into {where}: epsilon {charged} of {allowed} at delta {delta} is "
        f"charged ({terms.measure}), and there is room for {terms.remaining(spent, caps, costs)} more"
    )


def _releases(event: PrivacyEvent, count: int) -> str:
    what = "a release" if count == 1 else f"a charge of {count} releases"
    if not isinstance(event, EpsilonDeltaEvent):
        return f"{what} of {type(event).__name__}"
    delta = f" and delta {_validate.few_digits(event.delta, 'up')}" if event.delta else ""
    return f"{what} with epsilon {_validate.few_digits(event.epsilon, 'up')}{delta}"
