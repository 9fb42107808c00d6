"""Accountant for pure differential privacy: ε adds up, and so does δ where there is one."""

from __future__ import annotations

import math
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._laws import costs
from ferrodp.accounting._laws.costs import Cost
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.composition import compose_optimal_delta
from ferrodp.accounting.explanation import Explanation


class PureDpAccountant(PrivacyAccountant):
    """Accountant for pure differential privacy: adds up ε exactly, and the δ of events that have one.

    It accepts Laplace and discrete Laplace noise, randomized response, exponential mechanisms and stated (ε, δ),
    unsampled or sampled, and answers for δ = 0.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Raises
    ------
    InvalidType
        If `neighboring_relation` is no `NeighboringRelation`.

    Notes
    -----
    Basic composition: [DKMMN06], Theorem 1. The releases, and their ε within a bound on the sum, may be chosen
    adaptively. Sums are exact rationals and rounded up once.
    Sampling: `amplify_by_sampling`; Poisson for adding or removing one record, a fixed size for replacing one.

    ``delta(epsilon)`` below Σε is that of randomized response with Σε (`compose_optimal_delta`). For many releases and
    some δ, `compose_optimal` and the other accountants give smaller bounds.

    References
    ----------
    [DKMMN06] Dwork, Kenthapadi, McSherry, Mironov, Naor, "Our data, ourselves", EUROCRYPT 2006.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent, PureDpAccountant
    >>> accountant = PureDpAccountant()
    >>> accountant.compose(LaplaceEvent(noise_multiplier=3.0), count=6)
    >>> accountant.epsilon(0.0)
    2.0
    """

    kind = "pure"
    _rule = staticmethod(costs.pure)
    _allows_zero_delta = True

    @property
    def total_delta(self) -> float:
        """Σδ of the releases, rounded up; at most 1."""
        return min(_validate.rounded(self._total().delta, "up"), 1.0)

    def _total(self) -> Cost:
        return costs.total_of(costs.pure, self.events, self._neighboring_relation)

    def _epsilon_bounds(self, delta: float) -> Bounds:
        total = self._total()
        enough = total.delta <= Fraction(delta)
        return Bounds(0.0, _validate.rounded(total.amount, "up") if enough else math.inf)

    def _delta_bounds(self, epsilon: float) -> Bounds:
        total = self._total()
        if total.amount <= Fraction(epsilon):
            return Bounds(0.0, self.total_delta)
        whole = _validate.rounded(total.amount, "up")
        if not whole < math.inf:
            return Bounds(0.0, 1.0)
        return Bounds(0.0, compose_optimal_delta([(whole, self.total_delta)], epsilon=epsilon))

    def _explanation(self, delta: float) -> Explanation:
        bounds = self._epsilon_bounds(delta)
        method = "the sum of all ε (basic composition, Dwork et al. 2006, Theorem 1)"
        if bounds.upper == math.inf:
            method = f"basic composition, whose δ alone come to {self.total_delta!r}, more than was asked for"
        return self._explained(delta, bounds, method, "symmetric", **{"sum of all δ": self.total_delta})
