"""The worst mechanisms with given (ε, δ): what is exact about them. Their curve is `ferrodp_accounting::composition`.

The products of 1 − δᵢ stay rational where they are short, so that one (ε, δ) gives back its ε for its own δ, and are
enclosed in decimals otherwise: some 0.1 ms for each distinct δ.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from ferrodp import _native
from ferrodp._numerics.intervals import ZERO, Bounds, Interval, arithmetic, bounds_around, point
from ferrodp.accounting.composition import guarantees as given
from ferrodp.accounting.composition.guarantees import DIGITS, Guarantee


class WorstCase:
    """Randomized responses on ±ε, each of which fails with probability δ.

    They dominate every composition of such mechanisms ([KOV15] proof of Theorem 3.3; [MV16] Theorem 1.5):
    δ(E) = 1 − Π(1 − δᵢ)·(1 − δ₀(E)), with the δ₀ of the responses without failure.
    """

    def __init__(self, guarantees: Counter[Guarantee]) -> None:
        groups: Counter[float] = Counter()
        for each, times in guarantees.items():
            groups[each.epsilon] += times
        self.groups = {epsilon: groups[epsilon] for epsilon in sorted(groups) if epsilon}
        self._sum = sum((times * Fraction(epsilon) for epsilon, times in self.groups.items()), Fraction(0))
        self._failure = given.failure(guarantees)
        self._survival = given.exact_survival(guarantees)
        self._responses = _native.WorstResponses(list(self.groups.items()))

    def delta_bounds(self, total: float) -> Bounds:
        """Return bounds on δ(total), for total ≥ 0."""
        if not self._failure.upper.is_finite():
            return Bounds(1.0, 1.0)
        lower, upper, is_failure_alone = self._responses.delta(total, self._failure)
        if is_failure_alone and self._survival is not None:
            return bounds_around(1 - self._survival)
        return Bounds(lower, upper)

    def epsilon_bounds(self, target: float) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 with δ(ε) ≤ target, for 0 ≤ target < 1."""
        left = self._pure_target(target)
        if left.upper < ZERO:
            return Bounds(math.inf, math.inf)
        largest = bounds_around(self._sum)
        if left.upper <= ZERO or not self.groups:
            return Bounds(largest.lower, largest.upper if left.lower >= ZERO else math.inf)
        return Bounds(*self._responses.epsilon(left))

    def _pure_target(self, target: float) -> Interval:
        """Return the δ₀ that the target leaves: 1 − (1 − δ)/Π(1 − δᵢ)."""
        r = arithmetic(DIGITS)
        if self._survival is not None:
            return r.ratio(1 - (1 - Fraction(target)) / self._survival) if self._survival else point(-1)
        if not self._failure.upper.is_finite():
            return point(-1)
        exponent = r.sub(self._failure, r.minus_log_one_minus(point(target)))
        if exponent.lower > ZERO:
            return point(-1)
        return r.one_minus_exp(Interval(exponent.lower, min(exponent.upper, ZERO)))
