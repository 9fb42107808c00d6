"""Accountant based on Rényi divergences."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.accounting._solve.renyi import RenyiSum, known_curve, renyi_sum
from ferrodp.accounting.accountants._reader import Quantity
from ferrodp.accounting.accountants._releases import Parts
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.explanation import Explanation
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation, NonPrivateEvent

DEFAULT_ORDERS = np.concatenate(
    [1 + np.geomspace(1e-4, 0.1, 25), np.arange(1.15, 11.0, 0.05), np.arange(11.0, 65.0), np.geomspace(65.0, 1e8, 145)]
)
"""Dense orders, for curves to look at and tables to store; answers do not depend on them."""
DEFAULT_ORDERS.setflags(write=False)


class RdpAccountant(PrivacyAccountant):
    """Accountant based on Rényi divergences: adds up their curves and converts the sum at the best order.

    Parameters
    ----------
    orders : array_like, optional
        Use these orders only: real numbers > 1 in increasing order, `inf` allowed. By default the best order is
        searched for among all α with α − 1 from 10⁻⁴ to 10⁸, and 1 and ∞.
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Raises
    ------
    InvalidParameter, InvalidType
        If `orders` are not > 1, increasing and different, or a parameter is of another type.

    Notes
    -----
    ρ(α) adds up under adaptive composition at every order ([Mir17], Proposition 1), and any order may be used for the
    conversion ([BBGHS20], Theorem 21; `rdp_to_epsilon`). The order is found by search, and the bound holds at whatever
    order is found, so no grid limits it: a Gaussian with noise multiplier 10⁴ is converted at an order above 10⁴. The
    curves are in the room `rdp`. Stated (ε, δ) with δ > 0 count as ε-private but for failures, one of which happens
    with probability 1 − ∏(1 − δᵢ).

    The answers are upper bounds, rounding included, and typically some per cent above the exact ε, because the
    conversion is not tight; those of `PldAccountant` are. An answer costs some 30 µs for one kind of event.

    References
    ----------
    [Mir17] Mironov, "Rényi differential privacy", CSF 2017. [BBGHS20] Balle, Barthe, Gaboardi, Hsu, Sato, "Hypothesis
    testing interpretations and Renyi differential privacy", AISTATS 2020.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PoissonSampledEvent, RdpAccountant
    >>> accountant = RdpAccountant()
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    >>> accountant.compose(step, count=1000)
    >>> round(accountant.epsilon(1e-5), 4)
    2.1013
    >>> round(accountant.optimal_order(1e-5), 1)
    7.8
    >>> accountant.rdp([2.0, 8.0]).round(4).tolist(), round(accountant.log_delta(epsilon=20.0), 1)
    ([0.1718, 0.8936], -149.0)
    """

    kind: ClassVar[str] = "rdp"
    _rule = staticmethod(known_curve)
    _is_classical: ClassVar[bool] = False

    def __init__(
        self,
        orders: Reals | None = None,
        *,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        super().__init__(neighboring_relation=neighboring_relation)
        self._orders = None if orders is None else _checked_orders(orders)
        self._last: tuple[Parts, RenyiSum] | None = None

    @property
    def orders(self) -> Array | None:
        """The only orders used, or None if all are."""
        return self._orders

    def rdp(self, orders: Reals | None = None) -> Any:
        """Return upper bounds on the sum of all ρ(α), in the shape of the orders.

        Parameters
        ----------
        orders : float or array_like, optional
            α ≥ 1; by default the accountant's own, or 349 orders from 1.0001 to 10⁸.

        Returns
        -------
        float or float64 ndarray
            In the shape of `orders`; infinite after a release without protection.

        Raises
        ------
        InvalidParameter, InvalidType
            If `orders` are below 1 or no real numbers.
        """
        if orders is None:
            orders = DEFAULT_ORDERS if self._orders is None else self._orders
        places = _arrays.orders(orders)
        flat = np.ascontiguousarray(places).reshape(-1)
        total = np.full(flat.shape, math.inf) if self._is_unprotected() else _native.rdp_total(self._sum().curves, flat)
        return total.reshape(places.shape) if places.ndim else float(total[0])

    def optimal_order(self, delta: Real) -> float:
        """Return the order at which `epsilon(delta)` is proven.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            Above 1; 1 if ε is proven by the bound on the total variation.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is outside its domain or no real number.
        """
        return self._sum().epsilon(_validate.delta(delta)).order

    def log_delta(self, epsilon: Real) -> float:
        """Return an upper bound on ln δ(ε), also for δ below the range of floats.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            At most 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is outside its domain or no real number.
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return 0.0 if self._is_unprotected() else self._sum().log_delta(checked)

    def _settings(self) -> dict[str, Any]:
        if self._orders is None:
            return {"orders": None}
        return {"orders": ["inf" if order == math.inf else order for order in self._orders.tolist()]}

    def _is_unprotected(self) -> bool:
        return any(isinstance(event, NonPrivateEvent) for event, _ in self.events)

    def _sum(self) -> RenyiSum:
        """Return the sum of the curves of the events there are; that of the last call if nothing was added since."""
        events, last = self.events, self._last
        if last is None or last[0] is not events:
            private = [(event, times) for event, times in events if not isinstance(event, NonPrivateEvent)]
            found = renyi_sum(private, self._neighboring_relation, self._orders, is_classical=self._is_classical)
            last = self._last = events, found
        return last[1]

    def _epsilon_bounds(self, delta: float) -> Bounds:
        return Bounds(0.0, self._sum().epsilon(delta).value)

    def _delta_bounds(self, epsilon: float) -> Bounds:
        return Bounds(0.0, self._sum().delta(epsilon))

    def _curve(self, quantity: Quantity, points: Array) -> tuple[Array, Array]:
        total = self._sum()
        return np.zeros(len(points)), total.epsilons(points) if quantity == "epsilon" else total.deltas(points)

    def _explanation(self, delta: float) -> Explanation:
        total = self._sum()
        found = total.epsilon(delta)
        how = "Mironov 2017, Proposition 3" if self._is_classical else "Balle et al. 2020, Theorem 21"
        method = f"the sum of all Rényi divergences at one order, converted by {how}"
        if found.order == 1.0:
            method = (
                "the sum of all Kullback–Leibler divergences, which bounds the total variation (Pinsker's inequality)"
            )
        given: dict[str, Any] = {"order": found.order, "Rényi divergence": found.rho}
        if total.failure:
            given["probability that a stated δ fails"] = float(total.failure)
        where = "among all orders" if self._orders is None else f"among the {self._orders.size} orders that were given"
        method += f"; the order is the best one found {where}"
        return self._explained(delta, Bounds(0.0, found.value), method, "both", **given)


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
