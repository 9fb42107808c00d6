"""Exact sums of costs, in integers: what filters and odometers charge.

All costs are kept as integers over one common denominator, so that a charge is an addition. The denominator grows when
an event is seen for the first time, and only then. Beyond `_MAX_BITS` a new cost is rounded up to it instead: by less
than 2⁻²⁵⁶ of the largest of the caps, or of 1 where there is none.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ferrodp._base import _validate
from ferrodp.accounting._solve.alternatives import advice
from ferrodp.accounting._state import integer_of, integers_of
from ferrodp.accounting._types import Unsupported
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from ferrodp.events import NeighboringRelation, NonPrivateEvent, PrivacyEvent, decompose

_FIRST_BITS = 256
_MAX_BITS = 4096
Costs = tuple[int, ...] | None
"""Integer costs in each of the measures that are kept; None without protection."""


class Meter:
    """Sums of several costs at once, from any number of threads."""

    def __init__(
        self,
        name: str,
        price: Callable[[PrivacyEvent], Sequence[Fraction] | Unsupported],
        size: int,
        relation: NeighboringRelation,
    ) -> None:
        self._name = name
        self._relation = relation
        self._price = price
        self._size = size
        self.lock = threading.RLock()
        self.unit = 1 << _FIRST_BITS
        self.spent: tuple[int, ...] = (0,) * size
        self.caps: tuple[int, ...] = ()
        self.every = True
        """Whether sums have to keep within all caps, or within at least one."""
        self._known: dict[PrivacyEvent, Costs] = {}
        self._latest: tuple[PrivacyEvent, Costs] | None = None

    def set_caps(self, caps: Sequence[Fraction]) -> None:
        """Set the caps, exactly if their denominators are short, else rounded down."""
        for cap in caps:
            self._refine(cap)
        self.caps = tuple(math.floor(cap * self.unit) for cap in caps)

    def costs(self, event: PrivacyEvent) -> Costs:
        """Return what an event costs; refuse what has no price. Call it with the lock held."""
        latest = self._latest
        if latest is not None and latest[0] is event:
            return latest[1]
        if event in self._known:
            costs = self._known[event]
        else:
            costs = self._new(event)
            self._known[event] = costs
        self._latest = (event, costs)
        return costs

    def fits(self, costs: Costs, count: int) -> bool:
        """Return whether `count` times `costs` keeps within all caps, or within one of them."""
        if costs is None:
            return not count
        is_found = not self.every
        for spent, cost, cap in zip(self.spent, costs, self.caps, strict=True):
            if (spent + cost * count <= cap) is is_found:
                return is_found
        return self.every

    def add(self, costs: Costs, count: int) -> None:
        """Add `count` times `costs`. Call it with the lock held."""
        if costs is not None:
            self.spent = tuple([each + cost * count for each, cost in zip(self.spent, costs, strict=True)])

    def remaining(self, costs: Costs) -> int:
        """Return how often `costs` still fit; at most 2⁶³ − 1, which also stands for no limit."""
        if costs is None or not self.fits(costs, 0):
            return 0
        each = zip(self.spent, costs, self.caps, strict=True)
        counts = [(cap - spent) // cost if cost else _validate.MAX_COUNT for spent, cost, cap in each if spent <= cap]
        return min((min if self.every else max)(counts, default=_validate.MAX_COUNT), _validate.MAX_COUNT)

    def amount(self, index: int) -> Fraction:
        """Return one of the sums."""
        return Fraction(self.spent[index], self.unit)

    def state(self) -> dict[str, Any]:
        """Return unit, sums and caps as text, of one moment."""
        with self.lock:
            return {
                "unit": hex(self.unit),
                "spent": [hex(each) for each in self.spent],
                "caps": [hex(each) for each in self.caps],
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned; refuse what no meter of this size could have."""
        unit = integer_of("unit", state["unit"])
        if unit == 0 or unit.bit_length() > _MAX_BITS or unit & ((1 << _FIRST_BITS) - 1):
            raise InvalidParameter(f"unit must be a multiple of 2^{_FIRST_BITS} of at most {_MAX_BITS} bits")
        spent = integers_of("spent", state["spent"], self._size)
        caps = integers_of("caps", state["caps"], len(self.caps))
        self.unit, self.spent, self.caps = unit, spent, caps

    def _new(self, event: PrivacyEvent) -> Costs:
        total = [Fraction(0)] * self._size
        non_private = False
        for part, times in decompose(event):
            if isinstance(part, NonPrivateEvent):
                non_private |= times > 0
                continue
            price = self._price(part)
            if isinstance(price, Unsupported):
                way_out = advice(part, self._relation, self._name)
                raise UnsupportedEventError(f"{self._name} cannot charge {type(part).__name__}: {price}{way_out}")
            total = [each + times * cost for each, cost in zip(total, price, strict=True)]
        if non_private:
            return None
        for cost in total:
            self._refine(cost)
        return tuple(math.ceil(cost * self.unit) for cost in total)

    def _refine(self, value: Fraction) -> None:
        """Make the common denominator a multiple of that of `value`, unless it would become too long."""
        factor = value.denominator // math.gcd(self.unit, value.denominator)
        if factor == 1 or self.unit.bit_length() + factor.bit_length() > _MAX_BITS:
            return
        self.unit *= factor
        self.spent = tuple(each * factor for each in self.spent)
        self.caps = tuple(each * factor for each in self.caps)
        self._known = {
            event: None if costs is None else tuple(cost * factor for cost in costs)
            for event, costs in self._known.items()
        }
        self._latest = None
