"""Accountant for zero-concentrated differential privacy: adds up ρ and converts it once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ferrodp._base import _validate
from ferrodp._numerics.intervals import Bounds, Interval, arithmetic
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._laws import costs, gaussian_curve
from ferrodp.accounting._laws.costs import Cost
from ferrodp.accounting._solve import zcdp_curve
from ferrodp.accounting._solve.curve_points import gaussian_curve_or
from ferrodp.accounting._solve.renyi import RenyiSum
from ferrodp.accounting.accountants._reader import Quantity
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.explanation import Explanation
from ferrodp.accounting.rdp.rules import curve_of
from ferrodp.events import GaussianEvent, NonPrivateEvent, ZcdpEvent


class ZcdpAccountant(PrivacyAccountant):
    """Accountant for zero-concentrated differential privacy: adds up ρ exactly and converts it once.

    It accepts Gaussian and discrete Gaussian noise, adaptive clipping, tree and matrix mechanisms, everything with a
    pure ε, exponential mechanisms, and stated ρ and (ε, δ). Samples are refused, as sampling does not reduce ρ. Where
    all releases are Gaussian, `GdpAccountant` has the exact answer, which is the lower bound here.

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
    ρ adds up, under adaptive choice too ([BS16], Lemma 1.7):

    =============================  ==================  =====================================================
    Gaussian                       1/2z²               [BS16], Proposition 1.6
    discrete Gaussian, any size    Δ²/2σ²              [CKS20], Theorem 4
    pure ε                         min(ε²/2, ε)        [BS16], Proposition 1.4
    range of losses ε              min(ε²/8, ε)        [CR21], Lemmas 3.2, 3.4
    (ε, δ)                         as pure ε           fails with probability δ
    =============================  ==================  =====================================================

    The conversion is that of `zcdp_epsilon`; failures, of probability ξ ≤ Σδᵢ in all, make δ = ξ + (1 − ξ)·δ₀.

    References
    ----------
    [BS16] Bun, Steinke, "Concentrated differential privacy", TCC 2016. [CKS20] Canonne, Kamath, Steinke, "The discrete
    Gaussian for differential privacy", NeurIPS 2020. [CR21] Cesar, Rogers, "Bounding, concentrating, and truncating",
    ALT 2021.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, LaplaceEvent, ZcdpAccountant
    >>> accountant = ZcdpAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=10.0), count=60)
    >>> accountant.compose(LaplaceEvent(noise_multiplier=10.0), count=40)
    >>> accountant.rho
    0.5
    >>> round(accountant.epsilon(1e-5), 4)
    4.7284
    """

    kind = "zcdp"
    _rule = staticmethod(costs.zcdp)

    @property
    def rho(self) -> float:
        """Σρ, rounded up; `inf` after a release without protection."""
        if any(isinstance(event, NonPrivateEvent) for event, _ in self.events):
            return math.inf
        return _validate.rounded(self._total().amount, "up")

    def _total(self) -> Cost:
        return costs.total_of(costs.zcdp, self.events, self._neighboring_relation)

    def _epsilon_bounds(self, delta: float) -> Bounds:
        upper = zcdp_curve.epsilon_of(self._total(), delta)
        squared_mu = self._squared_mu()
        return Bounds(0.0 if squared_mu is None else gaussian_curve.epsilon(delta, squared_mu).lower, upper)

    def _delta_bounds(self, epsilon: float) -> Bounds:
        upper = zcdp_curve.delta_of(self._total(), epsilon)
        squared_mu = self._squared_mu()
        lower = 0.0 if squared_mu is None else gaussian_curve.delta(epsilon, squared_mu).lower
        return Bounds(min(lower, upper), upper)

    def _curve(self, quantity: Quantity, points: Array) -> tuple[Array, Array]:
        total = self._total()
        rho = _validate.rounded(total.amount, "up")
        if not 0.0 < rho < math.inf:
            return super()._curve(quantity, points)
        event = ZcdpEvent(rho=rho)
        curves = RenyiSum([(curve_of(event, self._neighboring_relation), 1.0)], min(total.delta, Fraction(1)))
        upper = curves.epsilons(points) if quantity == "epsilon" else curves.deltas(points)
        squared_mu = self._squared_mu()
        if squared_mu is None:
            return np.zeros(len(points)), upper
        lower, _ = gaussian_curve_or(super()._curve, quantity, points, squared_mu)
        return np.minimum(lower, upper), upper

    def _squared_mu(self) -> Interval | None:
        """Return Σ1/z² if all releases are Gaussian."""
        if not all(isinstance(event, GaussianEvent) for event, _ in self.events):
            return None
        return arithmetic(gaussian_curve.DIGITS_OF_MU).ratio(2 * self._total().amount)

    def _explanation(self, delta: float) -> Explanation:
        bounds, total = self._epsilon_bounds(delta), self._total()
        method = "the sum of all ρ of zCDP, converted at the best order (Canonne, Kamath, Steinke 2020, Cor. 13)"
        given = {"rho": self.rho, "sum of all δ": float(total.delta)}
        slack = bounds.upper - bounds.lower if bounds.lower else math.inf
        return self._explained(delta, bounds, method, "symmetric", slack=slack, **given)
