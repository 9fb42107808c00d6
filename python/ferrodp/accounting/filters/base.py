"""The privacy filter: exact sums of costs, caps on them, and charges that are all or nothing."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

from ferrodp._base import _validate
from ferrodp.accounting._laws.costs import CostOrUnsupported
from ferrodp.accounting._state import FORMAT_VERSION, check_fields, relation_of
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.filters._meter import Meter
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.events.base import check_relation

_FIELDS = {"version", "filter", "neighboring_relation", "settings", "unit", "spent", "caps"}


class PrivacyFilter(abc.ABC):
    """Base class of privacy filters, which refuse the first charge that exceeds a budget.

    The guarantee holds under full adaptivity: each event, and how much it costs, may be chosen after seeing all results
    before. Sums are exact; a charge takes one or two microseconds, however many there were. All methods may be called
    from any number of threads.

    Parameters
    ----------
    caps : sequence of Fraction
        What may be charged in all, one cap for each sum; ≥ 0. A subclass passes them.
    relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated.

    Raises
    ------
    InvalidType
        If `relation` is no `NeighboringRelation`.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, privacy_filter
    >>> from ferrodp.errors import BudgetExceeded
    >>> budget = privacy_filter("zcdp", epsilon=1.0, delta=1e-5)
    >>> budget.charge(GaussianEvent(noise_multiplier=20.0), count=20)
    >>> round(budget.spent / budget.budget, 3)
    0.818
    >>> budget.remaining_count(GaussianEvent(noise_multiplier=20.0))
    4
    >>> try:
    ...     budget.charge(GaussianEvent(noise_multiplier=20.0), count=5)
    ... except BudgetExceeded:
    ...     print("nothing was charged")
    nothing was charged
    >>> budget.would_exceed(GaussianEvent(noise_multiplier=2.0))
    True
    >>> again = type(budget).from_state_dict(budget.state_dict())
    >>> again.spent == budget.spent
    True
    >>> budget.exact_costs(GaussianEvent(noise_multiplier=2.0)), budget.exact_caps()[1]  # of ρ and δ
    ((Fraction(1, 8), Fraction(0, 1)), Fraction(0, 1))
    """

    measure: ClassVar[str] = ""
    """Name of the measure in which costs are added up."""
    _num_sums: ClassVar[int] = 2
    """Of the numbers of a `Cost`, how many are added up."""

    def __init__(self, caps: Sequence[Fraction], relation: NeighboringRelation) -> None:
        relation = check_relation(relation)
        self._relation = relation
        self._meter = Meter(type(self).__name__, self._price, len(caps), relation)
        self._meter.set_caps(caps)

    @classmethod
    def _of_caps(cls, caps: Sequence[Fraction], relation: NeighboringRelation) -> Self:
        """Return a filter of this class with just these caps."""
        made = cls.__new__(cls)
        PrivacyFilter.__init__(made, caps, relation)
        return made

    @staticmethod
    @abc.abstractmethod
    def _cost(event: PrivacyEvent, relation: NeighboringRelation) -> CostOrUnsupported:
        """Return what a simple event costs in this measure."""

    def _price(self, event: PrivacyEvent) -> Sequence[Fraction] | Unsupported:
        """Return what a simple event adds to each sum."""
        cost = self._cost(event, self._relation)
        return cost if isinstance(cost, Unsupported) else cost[: self._num_sums]

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation in which the sensitivities were stated."""
        return self._relation

    @property
    def spent(self) -> float:
        """What was charged so far, in the measure of the filter; rounded up.

        It tells how much of the budget is used. An ε computed from it at a time chosen in view of results is no
        guarantee: the budget is one, and so is a reading of `Odometer`.
        """
        return self._amounts(self._shown_sum())[0]

    @property
    def budget(self) -> float:
        """What may be charged in all, in the measure of the filter; rounded down."""
        return self._amounts(self._shown_sum())[1]

    def would_exceed(self, event: PrivacyEvent, count: int = 1) -> bool:
        """Return whether `charge` would raise `BudgetExceeded`. Charges nothing.

        Parameters
        ----------
        event : PrivacyEvent
            What might be released.
        count : int
            How often; at least 0.

        Returns
        -------
        bool
            True if it does not fit.

        Raises
        ------
        UnsupportedEventError
            If the cost of the event is not known in this measure.
        InvalidParameter, InvalidType
            If `event` is no event, or `count` is negative or no int.
        """
        count = _validate.count("count", count, minimum=0)
        with self._meter.lock:
            return not self._meter.fits(self._meter.costs(event), count)

    def charge(self, event: PrivacyEvent, count: int = 1) -> None:
        """Charge `count` times `event`, all or nothing: call it before the release.

        Parameters
        ----------
        event : PrivacyEvent
            What is to be released.
        count : int
            How often; at least 0.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing was charged, and smaller events may still fit.
        UnsupportedEventError
            If the cost of the event is not known in this measure; nothing was charged.
        InvalidParameter, InvalidType
            If `event` is no event, or `count` is negative or no int.
        """
        if type(count) is not int or count < 0:
            count = _validate.count("count", count, minimum=0)
        meter = self._meter
        with meter.lock:
            costs = meter.costs(event)
            if not meter.fits(costs, count):
                raise BudgetExceeded(
                    f"{type(self).__name__}: {count} × {type(event).__name__} does not fit: "
                    f"{self.spent!r} of {self.budget!r} is spent"
                )
            meter.add(costs, count)

    def remaining_count(self, event: PrivacyEvent) -> int:
        """Return how often `event` can still be charged.

        Parameters
        ----------
        event : PrivacyEvent
            What might be released.

        Returns
        -------
        int
            At most 2⁶³ − 1, which also stands for no limit.

        Raises
        ------
        UnsupportedEventError
            If the cost of the event is not known in this measure.
        InvalidType
            If `event` is no event.
        """
        with self._meter.lock:
            return self._meter.remaining(self._meter.costs(event))

    def exact_caps(self) -> tuple[Fraction, ...]:
        """Return what may be charged in all, in each sum of the filter.

        Returns
        -------
        tuple of Fraction
            ε and δ, ρ and δ, μ², or a divergence for each order.
        """
        with self._meter.lock:
            return tuple(Fraction(cap, self._meter.unit) for cap in self._meter.caps)

    def exact_costs(self, event: PrivacyEvent) -> tuple[Fraction, ...] | None:
        """Return what charging `event` adds to each sum of the filter.

        Parameters
        ----------
        event : PrivacyEvent
            What might be released.

        Returns
        -------
        tuple of Fraction or None
            As many as `exact_caps`; None for a release without protection, which no cap allows.

        Raises
        ------
        UnsupportedEventError
            If the cost of the event is not known in this measure.
        InvalidType
            If `event` is no event.
        """
        with self._meter.lock:
            costs = self._meter.costs(event)
            return None if costs is None else tuple(Fraction(cost, self._meter.unit) for cost in costs)

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes a filter with the same budget and spending.

        Returns
        -------
        dict
            Sums are exact: no charge is gained or lost. Anyone who can write a saved state can give themselves any
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
        """Return the filter whose `state_dict` this is.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned, or the same after a round trip through JSON.

        Returns
        -------
        PrivacyFilter
            A new filter of this class.

        Raises
        ------
        InvalidParameter, InvalidType
            If fields are missing, unknown or outside their domain, or more is spent than the budget allows.
        """
        state = check_fields(state, _FIELDS, "filter", cls.measure)
        result = cls._blank(state["settings"], relation_of(state["neighboring_relation"]))
        meter = result._meter
        meter.restore(state)
        if not meter.fits((0,) * len(meter.caps), 0):
            raise InvalidParameter("spent must be within caps")
        return result

    @classmethod
    def _blank(cls, settings: object, relation: NeighboringRelation) -> Self:
        """Return a filter with these settings and any budget."""
        if not isinstance(settings, Mapping):
            raise InvalidType(f"settings must be a mapping, got {type(settings).__name__}")
        if settings:
            raise InvalidParameter("settings must be empty for this filter")
        return cls._of_caps([Fraction(0)] * cls._num_sums, relation)

    def _settings(self) -> dict[str, Any]:
        """Return the other arguments of the constructor as plain JSON data."""
        return {}

    def _shown_sum(self) -> int:
        """Return the index of the sum that `spent` and `budget` are about."""
        return 0

    def _amounts(self, index: int) -> tuple[float, float]:
        """Return one of the sums, rounded up, and its cap, rounded down."""
        meter = self._meter
        with meter.lock:
            cap = Fraction(meter.caps[index], meter.unit)
            return _validate.rounded(meter.amount(index), "up"), _validate.rounded(cap, "down")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.spent!r} of {self.budget!r} spent>"
