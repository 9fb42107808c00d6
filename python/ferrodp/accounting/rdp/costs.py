"""Rényi divergences of events at fixed orders, as rationals that are never below the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ferrodp._numerics.intervals import arithmetic, point
from ferrodp.accounting._solve import costs as _costs
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.rdp.rules import curve_of, failure_of
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import GaussianEvent, NeighboringRelation, PrivacyEvent, ZcdpEvent

_DIGITS = 50
_INFINITE = Fraction(10**400)
"""More than any budget."""


class RdpPrice:
    """The divergences of a simple event at the orders of a filter."""

    def __init__(self, orders: Sequence[float], relation: NeighboringRelation) -> None:
        self._orders = [Fraction(order) for order in orders]
        self._relation = relation

    def __call__(self, event: PrivacyEvent) -> Sequence[Fraction] | Unsupported:
        """Return the divergences, or why they are not known."""
        zcdp = _costs.zcdp(event, self._relation)
        if isinstance(event, (GaussianEvent, ZcdpEvent)) and not isinstance(zcdp, Unsupported):
            return [order * zcdp.amount for order in self._orders]  # exactly
        try:
            curve = curve_of(event, self._relation)
        except UnsupportedEventError as error:
            return Unsupported(str(error))
        if failure_of(event):
            return Unsupported("its δ is no bound on a Rényi divergence")
        values = curve(np.array([float(order) for order in self._orders]))
        return [Fraction(value) if value < math.inf else _INFINITE for value in values.tolist()]


def order_budget(order: float, epsilon: float, delta: Fraction) -> Fraction:
    """Return the largest divergence at the order that implies (ε, δ), rounded down; it may be negative.

    ε + ln(αδ)/(α − 1) − ln(1 − 1/α): Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
    NeurIPS 2020, Proposition 12.
    """
    r = arithmetic(_DIGITS)
    alpha = point(order)
    rest = r.div(r.ln(r.mul(alpha, r.ratio(delta))), r.sub(alpha, point(1)))
    gap = r.minus_log_one_minus(r.div(point(1), alpha))
    return Fraction(r.add(r.add(point(epsilon), rest), gap).lower)
