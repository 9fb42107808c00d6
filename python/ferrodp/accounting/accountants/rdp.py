"""The accountant that adds up Rényi curves."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ferrodp import _native, _validate
from ferrodp._numerics.intervals import Bounds
from ferrodp._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.accounting._solve import costs as _costs
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.explanation import Explanation
from ferrodp.accounting.rdp.conversion import Converted
from ferrodp.accounting.rdp.rules import Curve, curve_of, failure_of
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent

DEFAULT_ORDERS = np.concatenate(
    [1 + np.geomspace(1e-4, 0.1, 25), np.arange(1.15, 11.0, 0.05), np.arange(11.0, 65.0), np.geomspace(65.0, 1e8, 145)]
)
"""Dense orders, for curves to look at and tables to store; answers do not depend on them."""
DEFAULT_ORDERS.setflags(write=False)


class _Moment(NamedTuple):
    """The curves of the events of one moment."""

    events: tuple[tuple[PrivacyEvent, int], ...]
    parts: list[tuple[Curve, float]]
    failure: Fraction


class RdpAccountant(PrivacyAccountant):
    """Add up the Rényi divergences of releases, and convert them to (ε, δ) at the best order.

    Parameters
    ----------
    orders : array_like, optional
        Use these orders only: real numbers > 1 in increasing order, `inf` allowed. By default the best order is
        searched for among all α with α − 1 from 10⁻⁴ to 10⁸, and 1 and ∞.
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Notes
    -----
    ρ(α) adds up under adaptive composition (Mironov, "Rényi differential privacy", CSF 2017, Proposition 1), at every
    order, and any order may be used for the conversion; see `conversion`. The order is found by search and the bound
    holds at whatever is found, so that no grid limits it: a Gaussian with noise multiplier 10⁴ is converted at an order
    in the ten thousands. Curves: `rdp`. Stated (ε, δ) with δ > 0 are taken as ε-private but for failures, one of
    which happens with probability 1 − ∏(1 − δᵢ).

    The answers are upper bounds, rounding included, and typically some per cent above the exact ε: the conversion gives
    something away. `PldAccountant` does not. An answer costs some 30 µs for one kind of event.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PoissonSampledEvent
    >>> accountant = RdpAccountant()
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    >>> accountant.compose(step, count=1000)
    >>> round(accountant.epsilon(1e-5), 4)
    2.1013
    >>> round(accountant.optimal_order(1e-5), 1)
    7.8
    """

    kind: ClassVar[str] = "rdp"
    _is_classical: ClassVar[bool] = False

    def __init__(
        self,
        orders: Reals | None = None,
        *,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        super().__init__(neighboring_relation=neighboring_relation)
        self._orders = None if orders is None else _checked_orders(orders)
        self._moment = _Moment((), [], Fraction(0))

    @property
    def orders(self) -> Array | None:
        """The only orders used, or None if all are."""
        return self._orders

    def rdp(self, orders: Reals | None = None) -> Any:
        """Return upper bounds on the sum of all ρ(α), in the shape of the orders.

        Parameters
        ----------
        orders : float or array_like, optional
            α ≥ 1; by default the accountant's own, or `DEFAULT_ORDERS`.
        """
        if orders is None:
            orders = DEFAULT_ORDERS if self._orders is None else self._orders
        places = _arrays.orders(orders)
        flat = np.ascontiguousarray(places).reshape(-1)
        total = np.full(flat.shape, math.inf) if self._is_unprotected() else _native.rdp_total(self._now().parts, flat)
        return total.reshape(places.shape) if places.ndim else float(total[0])

    def optimal_order(self, delta: Real) -> float:
        """Return the order at which `epsilon(delta)` is proven; 1 if it is by the bound on the total variation."""
        return self._epsilon(_validate.delta(delta)).order

    def log_delta(self, epsilon: Real) -> float:
        """Return an upper bound on ln δ(ε), for δ below the range of floats too."""
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        now = self._now()
        if self._is_unprotected():
            return 0.0
        if now.failure:
            upper = self._delta_bounds(checked).upper
            return math.log(upper) if upper >= 1.0 else math.nextafter(math.log(upper), 0.0)
        return self._converted(now, checked, is_delta=True).value

    def _settings(self) -> dict[str, Any]:
        if self._orders is None:
            return {"orders": None}
        return {"orders": ["inf" if order == math.inf else order for order in self._orders.tolist()]}

    def _supports(self, event: PrivacyEvent) -> str | None:
        try:
            curve_of(event, self._neighboring_relation)
        except UnsupportedEventError as error:
            return str(error)
        return None

    def _is_unprotected(self) -> bool:
        return any(event.kind == "non_private" for event, _ in self.events)

    def _now(self) -> _Moment:
        """Return the curves of the events there are; those of the last call if nothing was added since."""
        events, moment = self.events, self._moment
        if moment.events is not events:
            relation = self._neighboring_relation
            known = [(event, times) for event, times in events if event.kind != "non_private"]
            parts = [(curve_of(event, relation), _validate.rounded(times, "up")) for event, times in known]
            failure = _costs.failure((failure_of(event), times) for event, times in known)
            moment = self._moment = _Moment(events, parts, failure)
        return moment

    def _converted(self, now: _Moment, value: float, *, is_delta: bool) -> Converted:
        return Converted(*_native.rdp_convert(now.parts, value, is_delta, self._orders, self._is_classical))

    def _epsilon(self, delta: float) -> Converted:
        now = self._now()
        if now.failure:
            delta = _costs.without_failure(Fraction(delta), now.failure)
            if delta <= 0.0:
                return Converted(math.inf, math.inf, math.inf)
        return self._converted(now, delta, is_delta=False)

    def _epsilon_bounds(self, delta: float) -> Bounds:
        return Bounds(0.0, self._epsilon(delta).value)

    def _delta_bounds(self, epsilon: float) -> Bounds:
        now = self._now()
        delta = _native.rdp_exp_upper(self._converted(now, epsilon, is_delta=True).value)
        if now.failure:
            delta = _costs.with_failure(Fraction(delta), now.failure)
        return Bounds(0.0, delta)

    def _explanation(self, delta: float) -> Explanation:
        found = self._epsilon(delta)
        how = "Mironov 2017, Proposition 3" if self._is_classical else "Balle et al. 2020, Theorem 21"
        method = f"the sum of all Rényi divergences at one order, converted by {how}"
        if found.order == 1.0:
            method = (
                "the sum of all Kullback–Leibler divergences, which bounds the total variation (Pinsker's inequality)"
            )
        given: dict[str, Any] = {"delta": delta, "order": found.order, "Rényi divergence": found.rho}
        if self._now().failure:
            given["probability that a stated δ fails"] = float(self._now().failure)
        where = "among all orders" if self._orders is None else f"among the {self._orders.size} orders that were given"
        return Explanation(
            quantity="epsilon",
            value=found.value,
            method=f"{method}; the order is the best one found {where}",
            direction="both",
            parameters=given,
            assumptions=(f"Sensitivities were stated for the relation {self._neighboring_relation.value}.",),
        )


def _checked_orders(orders: Reals) -> Array:
    """Return increasing orders > 1 as an array of their own."""
    if isinstance(orders, (list, tuple)):
        orders = [math.inf if isinstance(order, str) and order == "inf" else order for order in orders]
    array = np.atleast_1d(_arrays.orders(orders)).astype(np.float64)
    if array.ndim != 1 or not array.size:
        raise InvalidParameter(f"orders must be one-dimensional and not empty, got shape {array.shape}")
    if not (array > 1.0).all() or not (np.diff(array) > 0.0).all():
        raise InvalidParameter("orders must be > 1, in increasing order and different")
    array.setflags(write=False)
    return array
