"""Rényi divergences of a composition: the sum of its events' curves, and its conversion to (ε, δ) at the best order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._laws import costs as _costs
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.rdp.conversion import Converted
from ferrodp.accounting.rdp.rules import Curve, curve_of, failure_of
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent


def known_curve(event: PrivacyEvent, relation: NeighboringRelation) -> Curve | Unsupported:
    """Return the Rényi curve of a simple event."""
    try:
        return curve_of(event, relation)
    except UnsupportedEventError as error:
        return Unsupported(str(error))


def certain_curve(event: PrivacyEvent, relation: NeighboringRelation) -> Curve | Unsupported:
    """Return the Rényi curve of a simple event, unless it holds but for a stated probability of failure."""
    curve = known_curve(event, relation)
    if not isinstance(curve, Unsupported) and failure_of(event):
        return Unsupported("its δ is no bound on a Rényi divergence")
    return curve


class RenyiSum(NamedTuple):
    """The curves of all events with their counts, and the probability that any of them fails."""

    curves: list[tuple[Curve, float]]
    failure: Fraction
    orders: Array | None = None
    """The only orders to convert at; None for a search among all."""
    is_classical: bool = False
    """Whether to convert by Mironov 2017, Proposition 3, instead of the tighter theorems."""

    def epsilon(self, delta: float) -> Converted:
        """Return the least ε of all orders at δ in (0, 1); infinite if failures alone are more likely than δ."""
        if self.failure:
            delta = _costs.without_failure(Fraction(delta), self.failure)
            if delta <= 0.0:
                return Converted(math.inf, math.inf, math.inf)
        return self._converted(delta, is_delta=False)

    def delta(self, epsilon: float) -> float:
        """Return the least δ of all orders at ε ≥ 0."""
        delta = _native.rdp_exp_upper(self._converted(epsilon, is_delta=True).value)
        return _costs.with_failure(Fraction(delta), self.failure) if self.failure else delta

    def epsilons(self, deltas: Array) -> Array:
        """Return the least ε found at many δ, most of them at orders that others have requested."""
        if not self.failure:
            return self._many(deltas, is_delta=False)
        rest = np.array([_costs.without_failure(Fraction(delta), self.failure) for delta in deltas.tolist()])
        found = np.full(len(deltas), math.inf)
        found[rest > 0.0] = self._many(rest[rest > 0.0], is_delta=False)
        return found

    def deltas(self, epsilons: Array) -> Array:
        """Return the least δ found at many ε, likewise."""
        found = [_native.rdp_exp_upper(log) for log in self._many(epsilons, is_delta=True).tolist()]
        if self.failure:
            found = [_costs.with_failure(Fraction(delta), self.failure) for delta in found]
        return np.array(found)

    def _many(self, points: Array, *, is_delta: bool) -> Array:
        return _native.rdp_convert_many(self.curves, points, is_delta, self.orders, self.is_classical)

    def log_delta(self, epsilon: float) -> float:
        """Return ln of the least δ, below the range of floats too."""
        if not self.failure:
            return self._converted(epsilon, is_delta=True).value
        upper = self.delta(epsilon)
        return math.log(upper) if upper >= 1.0 else math.nextafter(math.log(upper), 0.0)

    def _converted(self, at: float, *, is_delta: bool) -> Converted:
        return Converted(*_native.rdp_convert(self.curves, at, is_delta, self.orders, self.is_classical))


def renyi_sum(
    events: Iterable[tuple[PrivacyEvent, int]],
    relation: NeighboringRelation,
    orders: Array | None = None,
    *,
    is_classical: bool = False,
) -> RenyiSum:
    """Return the sum of the curves of simple events; counts are rounded up to floats.

    Raises
    ------
    UnsupportedEventError
        If the curve of one of them is not known.
    """
    listed = list(events)
    curves = [(curve_of(event, relation), _validate.rounded(count, "up")) for event, count in listed]
    failure = _costs.failure((failure_of(event), count) for event, count in listed)
    return RenyiSum(curves, failure, orders, is_classical)
