"""A privacy filter in Rényi divergences, at one order or several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import arithmetic, point
from ferrodp.accounting._laws import costs
from ferrodp.accounting._solve.renyi import certain_curve
from ferrodp.accounting._state import list_of
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.filters.base import PrivacyFilter
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, PrivacyEvent, ZcdpEvent

_DIGITS = 50
_MAX_ORDERS = 4096  # in a state that is read
_INFINITE = Fraction(10**400)
"""More than any budget."""


class RdpFilter(PrivacyFilter):
    """Privacy filter for Rényi divergences: refuses to let Σρ(α) exceed its budget at orders α fixed in advance.

    All charges together have Rényi divergence at most ``budgets[i]`` at ``orders[i]``, for every i. A filter from
    `for_budget` guarantees (ε, δ) instead, and accepts charges while the budget of *some* order lasts.

    Parameters
    ----------
    orders : sequence of float
        The α > 1, all different.
    budgets : sequence of float
        One for each order; finite, ≥ 0. Rounded down if not exactly representable.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    For a fixed order: [FZ21], section 4 (Feldman, Zrnic, NeurIPS 2021). Several orders that all have to hold are
    several filters.

    Why `for_budget` may use any order that lasts: let n orders have budgets B(α) that imply (ε, δ/n) each. Every
    outcome has an order that lasted; take the first. Where it is α, the charges were those of a filter at α alone,
    which is B(α)-RDP; so for an event S, P(S) = Σ_α P(S, α) ≤ Σ_α (e^ε·Q(S, α) + δ/n) = e^ε·Q(S) + δ. The choice among
    n orders costs only ln(n)/(α − 1) of ε.

    The division by n is needed, though none is for a sum fixed in advance, where the best order is the same in all
    outcomes. Here an adversary may aim at another order after each outcome of a first release. With all of δ at
    each order, what outcome α adds to δ is as large as δ·w(α), w(α) its share of the first release's moment at order
    α, Σ Q·(P/Q)^α; and shares at different orders may each be near 1, as high moments are those of rare outcomes.
    At ε = 8, δ = 10⁻⁵ and orders 3 and 32 two releases with two outcomes each reach 1.997·δ, and 0.997·δ under this
    filter: a test enumerates them.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> from ferrodp.accounting.filters import RdpFilter
    >>> budget = RdpFilter.for_budget(epsilon=8.0, delta=1e-5, orders=[2.5, 3.0, 4.0])
    >>> budget.remaining_count(GaussianEvent(noise_multiplier=10.0))
    227
    """

    measure = "rdp"
    _cost = staticmethod(costs.zcdp)

    def __init__(
        self,
        *,
        orders: Sequence[Real],
        budgets: Sequence[Real],
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        checked = _checked_orders(orders)
        if len(budgets) != len(checked):
            raise InvalidParameter(f"budgets must be as many as orders, {len(checked)}, got {len(budgets)}")
        self._orders = checked
        caps = [Fraction(_validate.non_negative("budgets", each, toward="down")) for each in budgets]
        super().__init__(caps, neighboring_relation)

    @classmethod
    def _of_orders(cls, caps: Mapping[float, Fraction], relation: NeighboringRelation, *, every: bool) -> Self:
        """Return a filter with a cap for each order, all of which or one of which has to be kept."""
        made = cls._of_caps(list(caps.values()), relation)
        made._orders = tuple(caps)
        made._meter.every = every
        return made

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        orders: Sequence[Real] = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0),
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> RdpFilter:
        """Return the filter that guarantees (`epsilon`, `delta`) while the budget of some order lasts.

        Choose few orders near the best one: each of n orders costs, as the Notes of the class say.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        orders : sequence of float
            The α > 1, all different. Those without any budget are left out.
        neighboring_relation : NeighboringRelation
            The relation in which the sensitivities behind the events were stated.

        Returns
        -------
        RdpFilter
            With a budget for each order that has one.

        Raises
        ------
        InvalidParameter, InvalidType
            If no order leaves any budget, or a parameter is outside its domain or of another type.
        """
        checked = _checked_orders(orders)
        share = Fraction(_validate.delta(delta)) / len(checked)
        target = _validate.non_negative("epsilon", epsilon, toward="down")
        caps = {order: _budget_at(order, target, share) for order in checked}
        useful = {order: cap for order, cap in caps.items() if cap > 0}
        if not useful:
            raise InvalidParameter(f"orders must hold one at which epsilon={target!r} leaves a budget; larger ones do")
        return cls._of_orders(useful, neighboring_relation, every=False)

    @classmethod
    def _blank(cls, settings: object, relation: NeighboringRelation) -> Self:
        if not isinstance(settings, Mapping) or settings.keys() != {"orders", "every_order"}:
            raise InvalidParameter("settings must have the fields ['every_order', 'orders']")
        orders, every = list_of("orders", settings["orders"]), settings["every_order"]
        if not isinstance(every, bool):
            raise InvalidType(f"every_order must be a bool, got {type(every).__name__}")
        if len(orders) > _MAX_ORDERS:
            raise InvalidParameter(f"orders must be at most {_MAX_ORDERS}, got {len(orders)}")
        return cls._of_orders(dict.fromkeys(_checked_orders(orders), Fraction(0)), relation, every=every)

    def _settings(self) -> dict[str, Any]:
        return {"orders": list(self._orders), "every_order": self._meter.every}

    @property
    def orders(self) -> tuple[float, ...]:
        """The orders that are kept."""
        return self._orders

    def _price(self, event: PrivacyEvent) -> Sequence[Fraction] | Unsupported:
        zcdp = self._cost(event, self._relation)
        if isinstance(event, (GaussianEvent, ZcdpEvent)) and not isinstance(zcdp, Unsupported):
            return [Fraction(order) * zcdp.amount for order in self._orders]  # exactly
        curve = certain_curve(event, self._relation)
        if isinstance(curve, Unsupported):
            return curve
        return [Fraction(value) if value < math.inf else _INFINITE for value in curve(np.array(self._orders)).tolist()]

    def _shown_sum(self) -> int:
        """Return the index of the order with most left, as a part of its budget; with least, where all have to hold."""
        meter = self._meter
        with meter.lock:
            left = [
                1 - Fraction(spent, cap) if cap else Fraction(0)
                for spent, cap in zip(meter.spent, meter.caps, strict=True)
            ]
        return left.index((min if meter.every else max)(left))


def _checked_orders(orders: Sequence[Real]) -> tuple[float, ...]:
    if isinstance(orders, (str, bytes)) or not isinstance(orders, Sequence):
        raise InvalidType(f"orders must be a sequence of numbers, got {type(orders).__name__}")
    checked = tuple(_validate.positive("orders", order, toward="down") for order in orders)
    if not checked or min(checked) <= 1.0 or len(set(checked)) < len(checked):
        raise _validate.out_of_domain("orders", "at least one, all different and > 1", orders)
    return checked


def _budget_at(order: float, epsilon: float, delta: Fraction) -> Fraction:
    """Return the largest divergence at the order that implies (ε, δ), rounded down; it may be negative.

    ε + ln(αδ)/(α − 1) − ln(1 − 1/α): Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
    NeurIPS 2020, Proposition 12.
    """
    r = arithmetic(_DIGITS)
    alpha = point(order)
    rest = r.div(r.ln(r.mul(alpha, r.ratio(delta))), r.sub(alpha, point(1)))
    gap = r.minus_log_one_minus(r.div(point(1), alpha))
    return Fraction(r.add(r.add(point(epsilon), rest), gap).lower)
