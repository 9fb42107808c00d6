"""The exact accountant for compositions of Gaussian releases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import ZERO, Bounds, arithmetic, exact, first, point
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._laws import costs
from ferrodp.accounting._laws import gaussian_curve as curve
from ferrodp.accounting._solve.curve_points import gaussian_curve_or
from ferrodp.accounting._state import check_fields, relation_of
from ferrodp.accounting.accountants._reader import Quantity
from ferrodp.accounting.accountants._releases import GaussianSum, Parts, squared_mu_of
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.explanation import Explanation

_FIELDS = {"version", "accountant", "neighboring_relation", "squared_mu", "non_private"}


class GdpAccountant(PrivacyAccountant):
    r"""Accountant for Gaussian releases, exact to the last float.

    The releases may be chosen adaptively, each after seeing the ones before. The answers are those of the composition
    itself, not of a bound on it: `epsilon` is the smallest float no smaller than the exact ε, and `delta` likewise.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated. The answers hold for that relation.

    Raises
    ------
    InvalidType
        If `neighboring_relation` is no `NeighboringRelation`.

    Notes
    -----
    A Gaussian release with noise multiplier z is 1/z-GDP, and the composition of μᵢ-GDP releases is √Σμᵢ²-GDP, both
    with equality ([DRS22], Theorem 2.7 and Corollary 3.3); under full adaptivity: [ST22]. Only Σ1/zᵢ² is kept, between
    two decimals of 120 digits, so that memory does not grow and the order of 10⁶ events does not change a result;
    `events` are Gaussian releases that cost the same, rounded up.

    No central limit approximation is involved. Events that are not Gaussian are refused.

    References
    ----------
    [DRS22] Dong, Roth, Su, "Gaussian differential privacy", JRSS B 2022. [ST22] Smith, Thakurta, "Fully adaptive
    composition for Gaussian differential privacy", 2022.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, GdpAccountant
    >>> accountant = GdpAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=10.0), count=100)
    >>> accountant.epsilon(delta=1e-5)
    4.377178095681225
    >>> accountant.remaining_count(GaussianEvent(noise_multiplier=10.0), epsilon=8.0, delta=1e-5)
    177
    >>> accountant.log_delta(epsilon=60.0)
    -1779.23339...
    >>> GdpAccountant.from_state_dict(accountant.state_dict()).mu
    1.0
    """

    kind: ClassVar[str] = "gdp"
    _rule = staticmethod(costs.squared_mu)
    _memory = GaussianSum
    _told: GaussianSum

    @property
    def mu(self) -> float:
        """The μ of the composition, √Σ1/zᵢ², rounded up; `inf` after a release without protection."""
        squared_mu = self._told.squared_mu
        if self._told.non_private:
            return math.inf
        return arithmetic(curve.DIGITS_OF_MU).sqrt(squared_mu).floats().upper if squared_mu.upper else 0.0

    def log_delta(self, epsilon: Real) -> float:
        """Return ln δ(ε), rounded up, also for δ below the range of floats.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            −∞ if nothing was released.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is outside its domain or no real number.
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        if self._told.non_private:
            return 0.0
        return curve.log_delta(checked, self._told.squared_mu)

    def _epsilon_bounds(self, delta: float) -> Bounds:
        return curve.epsilon(delta, self._told.squared_mu)

    def _delta_bounds(self, epsilon: float) -> Bounds:
        return curve.delta(epsilon, self._told.squared_mu)

    def _curve(self, quantity: Quantity, points: Array) -> tuple[Array, Array]:
        return gaussian_curve_or(super()._curve, quantity, points, self._told.squared_mu)

    def _within(self, epsilon: float, delta: float) -> bool:
        if self._told.non_private:
            return False
        return curve.delta(epsilon, self._told.squared_mu).upper <= delta

    def _last_safe_count(self, parts: Parts, epsilon: float, delta: float) -> int:
        """Propose the last count that is safe from the largest μ, then prove it."""
        r, spent, added = arithmetic(curve.DIGITS_OF_MU), self._told.squared_mu, squared_mu_of(parts, 1)

        def too_often(n: int) -> bool:
            return not curve.delta(epsilon, r.add(spent, r.mul(point(n), added))).upper <= delta

        left = r.down.subtract(exact(_native.gaussian_largest_squared_mu(epsilon, delta)), spent.upper)
        guess = r.down.divide(max(left, ZERO), added.upper)
        limit = _validate.MAX_COUNT + 1
        return first(too_often, limit if guess > limit else int(guess) + 1, 1, limit) - 1

    def _explanation(self, delta: float) -> Explanation:
        bounds = self._epsilon_bounds(delta)
        method = (
            "the exact privacy curve of a composition of Gaussian releases (Dong, Roth, Su 2022, Corollary 3.3; "
            "Balle, Wang 2018, Theorem 8), in interval arithmetic"
        )
        complete = "All releases are about the same dataset, and all of them were added."
        return self._explained(
            delta, bounds, method, "symmetric", complete, slack=bounds.upper - bounds.lower, mu=self.mu
        )

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes an equal accountant.

        Returns
        -------
        dict
            The relation and Σ1/zᵢ² as two decimals, between which it lies.
        """
        return {**self._state_header(), **self._told.state()}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the accountant whose `state_dict` this is.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned, or the same after a round trip through JSON.

        Returns
        -------
        GdpAccountant
            A new accountant with that sum.

        Raises
        ------
        InvalidParameter, InvalidType
            If no `GdpAccountant` wrote it: fields are missing, unknown or outside their domain.
        """
        state = check_fields(state, _FIELDS, "accountant", cls.kind)
        accountant = cls(neighboring_relation=relation_of(state["neighboring_relation"]))
        accountant._told = GaussianSum.restored(state)
        return accountant

    def __repr__(self) -> str:
        return f"GdpAccountant(mu={self.mu!r}, neighboring_relation={self._neighboring_relation})"
