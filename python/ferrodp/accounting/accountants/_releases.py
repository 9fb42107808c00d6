"""Memory of an accountant: simple events with their counts, or the sum of what they cost.

Both kinds of memory are safe to use from any number of threads: an addition is all or nothing, and what is read is of
one moment.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self, TypeAlias

from ferrodp._numerics.intervals import ZERO, Interval, arithmetic, point
from ferrodp._numerics.rounding import sqrt_down
from ferrodp.accounting._laws import gaussian_curve as curve
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NonPrivateEvent, PrivacyEvent
from ferrodp.events.decomposition import parts_of

Parts: TypeAlias = tuple[tuple[PrivacyEvent, int], ...]
"""Simple events and how often each happened."""

_MAX_CACHED = 1024
_MAX_DIGITS = 200
_NOTHING = point(0)


class Decomposed:
    """Simple parts of the events that were seen last, by identity: a loop adds the same objects again and again."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[PrivacyEvent, Parts]] = {}
        """By identity: the event itself, which keeps its identity from any other, and its parts."""

    def parts(self, event: PrivacyEvent, check: Callable[[PrivacyEvent], None]) -> Parts:
        """Return the simple parts of an event, all of which `check` accepts."""
        seen = self.seen.get(id(event))
        if seen is not None:  # and it is this very event: as long as it is kept here, no other has its identity
            return seen[1]
        try:
            parts = parts_of(event)
            for part, _ in parts:
                check(part)
        except RecursionError:
            raise InvalidParameter("event is nested too deep") from None
        if len(self.seen) >= _MAX_CACHED:
            self.seen.clear()
        # mutant: accountant-remembers-events-by-number
        self.seen[id(event)] = (event, parts)
        return parts


class EventCounts:
    """Simple events and how often each happened, in the order in which they first did."""

    def __init__(self) -> None:
        self._counts: dict[PrivacyEvent, int] = {}
        self._events: Parts | None = ()
        self._lock = threading.Lock()

    def __contains__(self, event: PrivacyEvent) -> bool:
        return event in self._counts

    @property
    def events(self) -> Parts:
        """All events; the same tuple until something is added."""
        with self._lock:
            if self._events is None:
                self._events = tuple(self._counts.items())
            return self._events

    def add(self, parts: Parts, count: int) -> None:
        """Add all parts, `count` times each."""
        # mutant: charges-not-locked
        with self._lock:
            counts = self._counts
            for part, times in parts:
                if times:
                    counts[part] = counts.get(part, 0) + times * count
            self._events = None

    def join(self, other: EventCounts) -> None:
        """Add everything that `other` holds."""
        self.add(other.events, 1)

    def copy(self) -> Self:
        """Return the same events, to be changed independently."""
        copy = type(self)()
        with self._lock:
            copy._counts = self._counts.copy()
        copy._events = None
        return copy


class GaussianSum:
    """Σ1/z² of Gaussian releases between two decimals of 120 digits, and whether anything was released unprotected."""

    def __init__(self, squared_mu: Interval = _NOTHING, *, non_private: bool = False) -> None:
        self.squared_mu = squared_mu
        self.non_private = non_private
        self._lock = threading.Lock()

    def __contains__(self, event: PrivacyEvent) -> bool:
        return type(event) is GaussianEvent

    @property
    def events(self) -> Parts:
        """Gaussian releases, all alike, that cost no less than what was added: what that was is not kept."""
        squared_mu, events = self.squared_mu, []
        if squared_mu.upper:
            total = Fraction(squared_mu.upper)
            multiplier = max(sqrt_down(1 / total), math.ulp(0.0))
            times = math.ceil(total * Fraction(multiplier) ** 2)
            events.append((GaussianEvent(noise_multiplier=multiplier), times))
        return (*events, (NonPrivateEvent(), 1)) if self.non_private else tuple(events)

    def add(self, parts: Parts, count: int) -> None:
        """Add Gaussian releases and ones without protection, `count` times each."""
        added, non_private = squared_mu_of(parts, count), False
        for part, times in parts:  # faster than any()
            if times and type(part) is NonPrivateEvent:
                non_private = True
        with self._lock:
            self.squared_mu = _sum(self.squared_mu, added)
            self.non_private |= non_private

    def join(self, other: GaussianSum) -> None:
        """Add everything that `other` holds."""
        added, non_private = other.squared_mu, other.non_private
        with self._lock:
            self.squared_mu = _sum(self.squared_mu, added)
            self.non_private |= non_private

    def copy(self) -> GaussianSum:
        """Return the same sum, to be changed independently."""
        with self._lock:
            return GaussianSum(self.squared_mu, non_private=self.non_private)

    def state(self) -> dict[str, Any]:
        """Return the sum as plain JSON data."""
        with self._lock:
            return {"squared_mu": [str(end) for end in self.squared_mu], "non_private": self.non_private}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> GaussianSum:
        """Return the sum whose `state` this is, or refuse."""
        non_private = state["non_private"]
        if not isinstance(non_private, bool):
            raise InvalidType(f"non_private must be a bool, got {type(non_private).__name__}")
        return cls(_interval_of(state["squared_mu"]), non_private=non_private)


def squared_mu_of(parts: Parts, count: int) -> Interval:
    """Return Σ1/z² of the Gaussian releases among simple events, `count` times each."""
    total = _NOTHING
    for part, times in parts:
        if times and isinstance(part, GaussianEvent):
            each = curve.squared_mu(part.noise_multiplier)
            if times * count > 1:
                each = arithmetic(curve.DIGITS_OF_MU).mul(point(times * count), each)
            total = each if total is _NOTHING else _sum(total, each)
    return total


def _sum(x: Interval, y: Interval) -> Interval:
    return arithmetic(curve.DIGITS_OF_MU).add(x, y)


def _interval_of(ends: object) -> Interval:
    if (
        isinstance(ends, (list, tuple))
        and len(ends) == 2
        and all(isinstance(end, str) and len(end) < _MAX_DIGITS for end in ends)
    ):
        try:
            lower, upper = Decimal(ends[0]), Decimal(ends[1])
        except ArithmeticError:
            lower = upper = Decimal("NaN")
        if lower.is_finite() and upper.is_finite() and ZERO <= lower <= upper and abs(upper.adjusted()) < 10**5:
            return Interval(lower, upper)
    raise InvalidParameter("squared_mu must be two decimal numbers in order, as text")
