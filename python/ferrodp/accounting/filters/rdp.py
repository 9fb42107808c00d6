"""A privacy filter in Rényi divergences, at one order or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.accounting._state import list_of
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.filters._meter import Costs
from ferrodp.accounting.filters.base import PrivacyFilter
from ferrodp.accounting.rdp.costs import RdpPrice, order_budget
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent

_MAX_ORDERS = 4096  # in a state that is read


class RdpFilter(PrivacyFilter):
    """Stop before Σρ(α) exceeds its budget at orders α that were fixed in advance.

    Everything charged has Rényi divergence at most ``budgets[i]`` at ``orders[i]``, for every i. A filter from
    `for_budget` promises (ε, δ) instead, and goes on while the budget of *some* order lasts.

    Parameters
    ----------
    orders : sequence of float
        The α > 1, all different.
    budgets : sequence of float
        One for each order; finite, ≥ 0. Rounded down if they are no floats.
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Notes
    -----
    For a fixed order: Feldman, Zrnic 2021, section 4. Several orders that all have to hold are several filters.

    Why `for_budget` may use any order that lasts: let n orders have budgets B(α) that imply (ε, δ/n) each. Every
    outcome has an order that lasted; take the first. Where it is α, the charges were those of a filter at α alone,
    which is B(α)-RDP; so for an event S, P(S) = Σ_α P(S, α) ≤ Σ_α (e^ε·Q(S, α) + δ/n) = e^ε·Q(S) + δ. The choice among
    n orders costs only ln(n)/(α − 1) of ε.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> budget = RdpFilter.for_budget(epsilon=8.0, delta=1e-5, orders=[2.5, 3.0, 4.0])
    >>> budget.remaining_count(GaussianEvent(noise_multiplier=10.0))
    227
    """

    measure = "rdp"

    def __init__(
        self,
        *,
        orders: Sequence[Real],
        budgets: Sequence[Real],
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        self._orders = _checked_orders(orders)
        if len(budgets) != len(self._orders):
            raise InvalidParameter(f"budgets must be as many as orders, {len(self._orders)}, got {len(budgets)}")
        self._every = True
        self._prices = RdpPrice(self._orders, neighboring_relation)
        caps = [Fraction(_validate.non_negative("budgets", each, toward="down")) for each in budgets]
        super().__init__(caps, neighboring_relation)

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        orders: Sequence[Real] = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0),
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> RdpFilter:
        """Return the filter that keeps (`epsilon`, `delta`) and goes on while the budget of some order lasts.

        Few orders near the right one are best: each costs, as the class says.

        Raises
        ------
        InvalidParameter
            If no order leaves any budget.
        """
        checked = _checked_orders(orders)
        share = Fraction(_validate.delta(delta)) / len(checked)
        target = _validate.non_negative("epsilon", epsilon, toward="down")
        caps = {order: order_budget(order, target, share) for order in checked}
        useful = [order for order in checked if caps[order] > 0]
        if not useful:
            raise InvalidParameter(f"orders must hold one at which epsilon={target!r} leaves a budget; larger ones do")
        result = cls(orders=useful, budgets=[0.0] * len(useful), neighboring_relation=neighboring_relation)
        result._meter.set_caps([caps[order] for order in useful])
        result._every = False
        return result

    @classmethod
    def _blank(cls, settings: object, relation: NeighboringRelation) -> Self:
        if not isinstance(settings, Mapping) or settings.keys() != {"orders", "every_order"}:
            raise InvalidParameter("settings must have the fields ['every_order', 'orders']")
        orders, every = list_of("orders", settings["orders"]), settings["every_order"]
        if not isinstance(every, bool):
            raise InvalidType(f"every_order must be a bool, got {type(every).__name__}")
        if len(orders) > _MAX_ORDERS:
            raise InvalidParameter(f"orders must be at most {_MAX_ORDERS}, got {len(orders)}")
        result = cls(orders=orders, budgets=[0.0] * len(orders), neighboring_relation=relation)
        result._every = every
        return result

    def _settings(self) -> dict[str, Any]:
        return {"orders": list(self._orders), "every_order": self._every}

    @property
    def orders(self) -> tuple[float, ...]:
        """The orders that are kept."""
        return self._orders

    @property
    def spent(self) -> float:
        """What was charged at the order that has most left, rounded up."""
        with self._meter.lock:
            return _validate.rounded(self._meter.amount(self._best()), "up")

    @property
    def budget(self) -> float:
        """The budget of the order that has most left, rounded down."""
        with self._meter.lock:
            return _validate.rounded(Fraction(self._meter.caps[self._best()], self._meter.unit), "down")

    def _price(self, event: PrivacyEvent) -> Sequence[Fraction] | Unsupported:
        return self._prices(event)

    def _fits(self, costs: Costs, count: int) -> bool:
        if self._every or costs is None:
            return super()._fits(costs, count)
        meter = self._meter
        for spent, cost, cap in zip(meter.spent, costs, meter.caps, strict=True):  # noqa: SIM110  # faster than any()
            if spent + cost * count <= cap:
                return True
        return False

    def _counts(self, costs: tuple[int, ...]) -> int:
        if self._every:
            return super()._counts(costs)
        meter = self._meter
        each = zip(meter.spent, costs, meter.caps, strict=True)
        return max((cap - spent) // cost if cost else _validate.MAX_COUNT for spent, cost, cap in each if spent <= cap)

    def _best(self) -> int:
        """Return the index of the order with most left, as a part of its budget; with least, where all have to hold."""
        meter = self._meter
        left = [
            1 - Fraction(spent, cap) if cap else Fraction(0) for spent, cap in zip(meter.spent, meter.caps, strict=True)
        ]
        return left.index((min if self._every else max)(left))


def _checked_orders(orders: Sequence[Real]) -> tuple[float, ...]:
    if isinstance(orders, (str, bytes)) or not isinstance(orders, Sequence):
        raise InvalidType(f"orders must be a sequence of numbers, got {type(orders).__name__}")
    checked = tuple(_validate.positive("orders", order, toward="down") for order in orders)
    if not checked or min(checked) <= 1.0 or len(set(checked)) < len(checked):
        raise _validate.out_of_domain("orders", "at least one, all different and > 1", orders)
    return checked
