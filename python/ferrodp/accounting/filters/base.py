"""What all privacy filters have in common: exact sums, caps, and a charge that is all or nothing."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

from ferrodp import _validate
from ferrodp.accounting._state import FORMAT_VERSION, check_fields, relation_of
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.filters._meter import Costs, Meter
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent

_FIELDS = {"version", "filter", "neighboring_relation", "settings", "unit", "spent", "caps"}


class PrivacyFilter(abc.ABC):
    """Base class: charge events until the next one would not fit.

    Sums are exact; a charge takes one or two microseconds, however many there were. All methods may be called from any
    number of threads.
    """

    measure: ClassVar[str] = ""

    def __init__(self, caps: Sequence[Fraction], relation: NeighboringRelation) -> None:
        if not isinstance(relation, NeighboringRelation):
            raise InvalidType(f"neighboring_relation must be a NeighboringRelation, got {type(relation).__name__}")
        self._relation = relation
        self._meter = Meter(type(self).__name__, self._price, len(caps), relation)
        self._meter.set_caps(caps)

    @abc.abstractmethod
    def _price(self, event: PrivacyEvent) -> Sequence[Fraction] | Unsupported:
        """Return what a simple event costs, or why that is not known."""

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation in which the sensitivities were stated."""
        return self._relation

    @property
    def spent(self) -> float:
        """What was charged so far, in the measure of the filter; rounded up.

        How much of the budget is used. Made an ε at a moment chosen in view of results, it is no guarantee: that is
        what the budget is, and `Odometer`.
        """
        with self._meter.lock:
            return _validate.rounded(self._meter.amount(0), "up")

    @property
    def budget(self) -> float:
        """What may be charged in all, in the measure of the filter; rounded down."""
        with self._meter.lock:
            return _validate.rounded(Fraction(self._meter.caps[0], self._meter.unit), "down")

    def would_exceed(self, event: PrivacyEvent, count: int = 1) -> bool:
        """Return whether `charge` would raise `BudgetExceeded`. Charges nothing.

        Raises
        ------
        UnsupportedEventError
            If the cost of the event is not known in this measure.
        """
        count = _checked_count(count)
        with self._meter.lock:
            return not self._fits(self._meter.costs(event), count)

    def charge(self, event: PrivacyEvent, count: int = 1) -> None:
        """Charge `count` times `event`, all or nothing: call it before the release.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing was charged, and smaller events may still fit.
        UnsupportedEventError
            If the cost of the event is not known in this measure; nothing was charged.
        """
        if type(count) is not int or count < 0:
            count = _checked_count(count)
        meter = self._meter
        with meter.lock:
            costs = meter.costs(event)
            if not self._fits(costs, count):
                raise BudgetExceeded(self._message(event, count))
            if costs is not None:
                meter.spent = tuple([each + cost * count for each, cost in zip(meter.spent, costs, strict=True)])

    def remaining_count(self, event: PrivacyEvent) -> int:
        """Return how often `event` can still be charged; 2⁶³ − 1 stands for no limit, too."""
        with self._meter.lock:
            costs = self._meter.costs(event)
            if costs is None or not self._fits(costs, 0):
                return 0
            return min(self._counts(costs), _validate.MAX_COUNT)

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes a filter with the same budget and spending.

        Sums are exact: no charge is gained or lost on the way. Whoever can write a saved state can give himself any
        budget: keep it where the dataset is.
        """
        return {
            "version": FORMAT_VERSION,
            "filter": self.measure,
            "neighboring_relation": self._relation.value,
            "settings": self._settings(),
            **self._meter.state(),
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the filter whose `state_dict` this is; refuse anything that no filter of this class wrote.

        Raises
        ------
        InvalidParameter, InvalidType
            If fields are missing, unknown or out of their domain, or more is spent than the budget allows.
        """
        state = check_fields(state, _FIELDS, "filter", cls.measure)
        result = cls._blank(state["settings"], relation_of(state["neighboring_relation"]))
        result._meter.restore(state)
        if not result._fits((0,) * len(result._meter.caps), 0):
            raise InvalidParameter("spent must be within caps")
        return result

    @classmethod
    @abc.abstractmethod
    def _blank(cls, settings: object, relation: NeighboringRelation) -> Self:
        """Return a filter with these settings and any budget."""

    def _settings(self) -> dict[str, Any]:
        """Return what else the constructor was told, as plain JSON data."""
        return {}

    def _fits(self, costs: Costs, count: int) -> bool:
        if costs is None:
            return not count
        meter = self._meter
        for spent, cost, cap in zip(meter.spent, costs, meter.caps, strict=True):  # noqa: SIM110  # faster than all()
            if spent + cost * count > cap:
                return False
        return True

    def _counts(self, costs: tuple[int, ...]) -> int:
        meter = self._meter
        each = zip(meter.spent, costs, meter.caps, strict=True)
        return min(((cap - spent) // cost for spent, cost, cap in each if cost), default=_validate.MAX_COUNT)

    def _message(self, event: PrivacyEvent, count: int) -> str:
        return (
            f"{type(self).__name__}: {count} × {type(event).__name__} does not fit: "
            f"{self.spent!r} of {self.budget!r} is spent"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.spent!r} of {self.budget!r} spent>"


def no_settings(settings: object) -> None:
    """Refuse anything but an empty mapping."""
    if not isinstance(settings, Mapping):
        raise InvalidType(f"settings must be a mapping, got {type(settings).__name__}")
    if settings:
        raise InvalidParameter("settings must be empty for this filter")


def _checked_count(count: int) -> int:
    return _validate.count("count", count, minimum=0)
