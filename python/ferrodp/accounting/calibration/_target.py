"""The target (ε, δ) of a calibration, and the distance of an event from it under an accountant."""

from __future__ import annotations

import math

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.accounting.calibration._search import Margins
from ferrodp.accounting.calibration.answer import Cost
from ferrodp.events import NeighboringRelation, PrivacyEvent

SEARCH_EFFORT = 0.25
"""Share of an answer's work that each answer of a search may cost: a search needs about twenty."""


class Target:
    """A guarantee to keep, and the accountant that proves it."""

    def __init__(
        self,
        epsilon: Real,
        delta: Real,
        accountant: AccountantChoice,
        neighboring_relation: NeighboringRelation,
    ) -> None:
        self.epsilon = _validate.positive("target_epsilon", epsilon, toward="down")
        self.delta = _validate.delta(delta, name="target_delta", zero=True)
        self._make = accountant_maker(accountant, neighboring_relation)

    def spent(self, event: PrivacyEvent, count: int, effort: float = 1.0) -> PrivacyAccountant:
        """Return a new accountant of that choice with `count` times `event`."""
        accountant = self._make()
        accountant.compose(event, count)
        return accountant.at_effort(effort) if isinstance(accountant, PldAccountant) else accountant

    def is_costly(self, event: PrivacyEvent) -> bool:
        """Whether an answer about the event takes a grid, so that rough ones should find the neighborhood first."""
        accountant = self.spent(event, 1)
        return isinstance(accountant, PldAccountant) and not accountant.has_contour()

    def margins(self, event: PrivacyEvent, count: int = 1, effort: float = SEARCH_EFFORT) -> Margins:
        """Return ln(bound / target) of δ at the target's ε, or of ε where the target's δ is 0."""
        accountant = self.spent(event, count, effort)
        if self.delta:
            return _margins(accountant.delta_bounds(self.epsilon), self.delta)
        return _margins(accountant.epsilon_bounds(0.0), self.epsilon)

    def cost(self, event: PrivacyEvent, count: int) -> Cost:
        """Return the certificate of the answer."""
        accountant = self.spent(event, count)
        return (
            accountant.epsilon_bounds(self.delta),
            accountant.delta_bounds(self.epsilon),
            accountant.explain(self.delta),
        )

    def __str__(self) -> str:
        return f"(epsilon={self.epsilon!r}, delta={self.delta!r})"


def _margins(bounds: Bounds, target: float) -> Margins:
    return Margins(_log(bounds.lower) - math.log(target), _log(bounds.upper) - math.log(target))


def _log(bound: float) -> float:
    return math.log(bound) if bound > 0.0 else -math.inf
