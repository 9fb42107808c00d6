"""Privacy odometer: a bound on the privacy loss so far that holds at all times of an adaptive interaction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import arithmetic, float_up, point
from ferrodp.accounting._laws import costs as _costs
from ferrodp.accounting._state import FORMAT_VERSION, check_fields, relation_of
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.filters._meter import Meter
from ferrodp.errors import BudgetExceeded
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.events.base import check_relation

_DIGITS = 50
_KIND = "zcdp"
_FIELDS = {"version", "odometer", "neighboring_relation", "delta", "gamma", "unit", "spent", "caps"}


def gamma_for(delta: float, expected_rho: float) -> float:
    """Return the γ of `mixture_reading` that is near the best where Σρ is about `expected_rho`; any is valid."""
    goal = -2.0 * math.log(delta)
    return max(2.0 * expected_rho / (goal + math.log1p(1.0 + goal)), math.ulp(0.0))


def mixture_reading(total: Fraction, *, gamma: float, delta: float) -> float:
    """Return the ε of `Odometer` for Σρ = `total` > 0, rounded up; γ and δ have to be fixed in advance."""
    r = arithmetic(_DIGITS)
    rho, rate = r.ratio(total), point(gamma)
    doubled = r.mul(point(2), rho)
    logarithm = r.ln(r.add(point(1), r.div(doubled, rate)))
    spread = r.sub(logarithm, r.mul(point(2), r.ln(point(delta))))
    return float_up(r.add(rho, r.sqrt(r.mul(r.add(doubled, rate), spread))).upper)


class Odometer:
    """Privacy odometer: a bound on the privacy loss so far, valid at all times at once.

    With probability at least 1 − `delta`, the privacy loss of the releases up to *every* time t is at most the ε read
    at t, even if releases, their costs and the times of reading were chosen after seeing results. Where there is a
    budget, use a filter: a reading that decides when to stop is no (ε, δ) guarantee fixed in advance.

    Parameters
    ----------
    delta : float
        The probability that any reading fails; in (0, 1). Rounded down if not exactly representable.
    expected_rho : float
        The Σρ at which readings are tightest; finite, > 0. Readings hold whatever it is.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    ε = V + √((2V + γ)·(2 ln(1/δ) + ln(1 + 2V/γ))), V = Σρᵢ of zCDP and γ > 0 fixed in advance: [WRRW23], the mixture
    odometer of Theorem 3. For λ > 0, exp(λ(L − V) − λ²V) is a supermartingale in the loss L, as D_{1+λ} ≤ (1 + λ)ρ; so
    is its mean over a half-normal λ with density 2√(γ/2π)·e^{−γλ²/2}, which is at least √(γ/(γ + 2V))·exp((L − V)²/2(γ
    + 2V)) where L ≥ V; and it ever reaches 1/δ with probability δ at most (Ville). If all releases had a pure ε, the
    reading is at most Σε.

    References
    ----------
    [WRRW23] Whitehouse, Ramdas, Rogers, Wu, "Fully-adaptive composition in differential privacy", ICML 2023.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, Odometer
    >>> odometer = Odometer(delta=1e-5)
    >>> odometer.charge(GaussianEvent(noise_multiplier=10.0), count=100)
    >>> round(odometer.epsilon, 3)
    5.728
    >>> again = Odometer.from_state_dict(odometer.state_dict())
    >>> again.epsilon == odometer.epsilon
    True
    """

    def __init__(
        self,
        *,
        delta: Real,
        expected_rho: Real = 0.5,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        neighboring_relation = check_relation(neighboring_relation)
        self._relation = neighboring_relation
        self._delta = _validate.delta(delta)
        self._gamma = gamma_for(self._delta, _validate.positive("expected_rho", expected_rho))
        # The sums are Σρ, Σε, and how many have no pure ε.
        self._meter = Meter(type(self).__name__, self._price, 3, neighboring_relation)

    @property
    def delta(self) -> float:
        """The probability that any reading fails."""
        return self._delta

    @property
    def rho(self) -> float:
        """Σρ of what was released, rounded up."""
        with self._meter.lock:
            return _validate.rounded(self._meter.amount(0), "up")

    @property
    def epsilon(self) -> float:
        """The reading: a bound on the privacy loss so far, rounded up."""
        with self._meter.lock:
            total, pure, without = (self._meter.amount(index) for index in range(3))
        if not total:
            return 0.0
        mixed = mixture_reading(total, gamma=self._gamma, delta=self._delta)
        return mixed if without else min(mixed, _validate.rounded(pure, "up"))

    def charge(self, event: PrivacyEvent, count: int = 1) -> None:
        """Add `count` times `event`.

        Parameters
        ----------
        event : PrivacyEvent
            What was released.
        count : int
            How often; from 0 to 2⁶³ − 1.

        Raises
        ------
        UnsupportedEventError
            If it has no ρ of zCDP, or a δ of its own; nothing was added.
        BudgetExceeded
            For a release without protection, after which no finite reading would hold; nothing was added.
        InvalidParameter, InvalidType
            If `event` is no event, or `count` is outside its domain or no int.
        """
        count = _validate.count("count", count, minimum=0)
        meter = self._meter
        with meter.lock:
            costs = meter.costs(event)
            if costs is None and count:
                raise BudgetExceeded("Odometer: a release without protection has no finite reading")
            meter.add(costs, count)

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes an odometer with the same, exact, sums.

        Returns
        -------
        dict
            Version, kind, relation, parameters and sums.
        """
        return {
            "version": FORMAT_VERSION,
            "odometer": _KIND,
            "neighboring_relation": self._relation.value,
            "delta": self._delta,
            "gamma": self._gamma,
            **self._meter.state(),
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the odometer whose `state_dict` this is.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned, or the same after a round trip through JSON.

        Returns
        -------
        Odometer
            A new odometer with the same sums.

        Raises
        ------
        InvalidParameter, InvalidType
            If fields are missing, unknown or outside their domain.
        """
        state = check_fields(state, _FIELDS, "odometer", _KIND)
        result = cls(delta=state["delta"], neighboring_relation=relation_of(state["neighboring_relation"]))
        result._gamma = _validate.positive("gamma", state["gamma"])
        result._meter.restore(state)
        return result

    def _price(self, event: PrivacyEvent) -> Sequence[Fraction] | Unsupported:
        cost = _costs.zcdp(event, self._relation)
        if isinstance(cost, Unsupported):
            return cost
        if cost.delta:
            return Unsupported("its δ is no bound on a privacy loss")
        pure = _costs.pure(event, self._relation)
        if isinstance(pure, Unsupported):
            return cost.amount, Fraction(0), Fraction(1)
        return cost.amount, pure.amount, Fraction(0)

    def __repr__(self) -> str:
        return f"<Odometer: epsilon={self.epsilon!r} so far, delta={self._delta!r}>"
