"""What still fits into a scope, in words: one release with the least noise, and many with more."""

from __future__ import annotations

from fractions import Fraction

from ferrodp.budget import PrivacyLedger, ScopeReport
from ferrodp.cli.ledger.common import bound
from ferrodp.events import GaussianEvent

_MULTIPLIERS = [
    digit * 10.0**power for power in range(-1, 6) for digit in (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
]
"""Noise multipliers that are easily remembered."""
_TIMES_MORE_NOISE = 10
"""Places in that list: about ten times the noise."""


def told(ledger: PrivacyLedger, report: ScopeReport) -> str:
    """Return what still fits, as a sentence."""
    if report.frozen:
        return "frozen; nothing fits until 'ferrodp ledger thaw'"
    if report.exact_epsilon_charged is not None:
        rest = Fraction(report.epsilon) - report.exact_epsilon_charged
        if rest <= 0:
            return "used up; nothing fits any more"
        return f"releases whose epsilons add up to {bound(rest, up=False)} still fit"
    least = _least(ledger, report.scope)
    if least is None:
        return "used up; not even one release with a hundred thousand times the sensitivity as noise fits"
    more = min(least + _TIMES_MORE_NOISE, len(_MULTIPLIERS) - 1)
    many = ledger.remaining_count(report.scope, GaussianEvent(noise_multiplier=_MULTIPLIERS[more]))
    one = f"one more Gaussian release with noise multiplier {_MULTIPLIERS[least]:g} fits"
    return one if more == least else f"{one}, or {many} with {_MULTIPLIERS[more]:g}"


def _least(ledger: PrivacyLedger, scope: str) -> int | None:
    """Return the place of the least noise with which one release fits."""

    def fits(place: int) -> bool:
        return ledger.remaining_count(scope, GaussianEvent(noise_multiplier=_MULTIPLIERS[place])) > 0

    low, high = 0, len(_MULTIPLIERS) - 1
    if not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
