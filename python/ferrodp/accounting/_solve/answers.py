"""Certified answers, and when one is good enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ferrodp._numerics.intervals import Bounds

TOLERANCE = 1e-4
"""Relative width that the grid is refined to, and above which the contour's answer is compared with the grid's."""


@dataclass(frozen=True, slots=True)
class CertifiedAnswer:
    """Bounds, and how they were found."""

    bounds: Bounds
    method: str
    direction: str
    parameters: dict[str, Any] = field(default_factory=dict)
    of_pairs: Bounds | None = None
    """Bounds on the answer of the pairs, where they dominate and are not attained; None where `bounds` are these."""

    @property
    def is_narrow(self) -> bool:
        """Whether no other method can say much more: infinity is narrow only where it is proven."""
        return is_narrow(self.bounds)

    def capped(self, upper: float, method: str) -> CertifiedAnswer:
        """Return this answer, or a smaller upper bound that another method gives for both directions."""
        if upper >= self.bounds.upper:
            return self
        return CertifiedAnswer(Bounds(min(self.bounds.lower, upper), upper), method, "both")

    def with_upper_of(self, other: CertifiedAnswer) -> CertifiedAnswer:
        """Return this answer, or the upper bound of another question whose answer is no smaller than this one's."""
        upper = other.bounds.upper
        if upper >= self.bounds.upper:
            return self
        return replace(other, bounds=Bounds(min(self.bounds.lower, upper), upper))

    def tighter(self, other: CertifiedAnswer) -> CertifiedAnswer:
        """Return the answer with the smaller upper end, and the larger of the lower ends."""
        best = self if self.bounds.upper <= other.bounds.upper else other
        lower = max(self.bounds.lower, other.bounds.lower)
        return replace(best, bounds=Bounds(min(lower, best.bounds.upper), best.bounds.upper))


def is_narrow(bounds: Bounds) -> bool:
    """Return whether an interval is as narrow as the grid's are meant to be."""
    lower, upper = bounds
    return lower == upper or (upper < math.inf and upper - lower <= TOLERANCE * upper)
