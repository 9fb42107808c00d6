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
    around = [report, *(ledger.report(name) for name in ledger.scopes if report.scope.startswith(f"{name}/"))]
    frozen = [each.scope for each in around if each.frozen]
    if frozen:
        where = "" if frozen[0] == report.scope else f" by {frozen[0]!r}"
        return f"frozen{where}; nothing fits until 'ferrodp ledger thaw'"
    if report.exact_epsilon_charged is not None:
        # mutant: room-of-scope-forgets-those-around
        rest, scope = min((rest, each.scope) for each in around if (rest := _rest(each)) is not None)
        where = "" if scope == report.scope else f" by {scope!r}"
        if rest <= 0:
            return f"used up{where}; nothing fits any more"
        limit = "" if scope == report.scope else f", limited by {scope!r}"
        return f"releases whose epsilons add up to {bound(rest, up=False)} still fit{limit}"
    least = _least(ledger, report.scope)
    if least is None:
        return "used up; not even one release with a hundred thousand times the sensitivity as noise fits"
    more = min(least + _TIMES_MORE_NOISE, len(_MULTIPLIERS) - 1)
    many = ledger.remaining_count(report.scope, GaussianEvent(noise_multiplier=_MULTIPLIERS[more]))
    one = f"one more Gaussian release with noise multiplier {_MULTIPLIERS[least]:g} fits"
    return one if more == least else f"{one}, or {many} with {_MULTIPLIERS[more]:g}"


def _rest(report: ScopeReport) -> Fraction | None:
    """Return the epsilon that is left of a budget that keeps it exactly."""
    charged = report.exact_epsilon_charged
    return None if charged is None else Fraction(report.epsilon) - charged


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
