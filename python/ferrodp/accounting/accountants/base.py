"""What all accountants have in common: a list of events and questions about it."""

from __future__ import annotations

import abc
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from ferrodp import _validate
from ferrodp._numerics.intervals import Bounds
from ferrodp._validate import Real
from ferrodp.accounting._solve.alternatives import advice
from ferrodp.accounting._solve.counts import largest_count
from ferrodp.accounting._state import FORMAT_VERSION, check_fields, list_of, relation_of
from ferrodp.accounting.explanation import Explanation
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import NeighboringRelation, NonPrivateEvent, PrivacyEvent, decompose

QUICK = 1.0 / 16.0
"""The effort of an answer that only has to find the neighborhood of another one."""
MAX_COUNT_BITS = 4096
"""Of the counts in a state that is read."""
MAX_SEEN = 1024
"""How many events are kept apart and ready, for the next time that they are charged."""
_FIELDS = {"version", "accountant", "neighboring_relation", "settings", "events"}
_Parts = tuple[tuple[PrivacyEvent, int], ...]


class PrivacyAccountant(abc.ABC):
    """Base class: releases about one dataset, each chosen after seeing the ones before, and what they cost together.

    What it is told is taken apart by `decompose`, and equal events are counted. Reading and writing is safe from
    any number of threads: each answer is about the events of one moment.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Notes
    -----
    A subclass sets `kind` and writes `_supports`, `_epsilon_bounds`, `_delta_bounds` and `_explanation`; the last three
    read `self.events` once. It gives `_settings` if its constructor has parameters. `delta` and `epsilon` come checked,
    and never after a release without protection, which is answered here.
    """

    kind: ClassVar[str] = ""
    """Name of the accountant in saved states."""

    def __init__(self, *, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        if not isinstance(neighboring_relation, NeighboringRelation):
            found = type(neighboring_relation).__name__
            raise InvalidType(f"neighboring_relation must be a NeighboringRelation, got {found}")
        self._neighboring_relation = neighboring_relation
        self._counts: dict[PrivacyEvent, int] = {}
        self._events: _Parts | None = ()
        self._seen: dict[int, tuple[PrivacyEvent, _Parts]] = {}  # by identity: a loop charges the same objects again
        self._lock = threading.Lock()

    @classmethod
    def of_events(cls, events: Iterable[tuple[PrivacyEvent, int]], neighboring_relation: NeighboringRelation) -> Self:
        """Return an accountant that was told these simple events; their counts have no limit."""
        accountant = cls(neighboring_relation=neighboring_relation)
        for event, count in events:
            accountant._add(accountant._parts(event), count)
        return accountant

    # what a subclass says

    @abc.abstractmethod
    def _supports(self, event: PrivacyEvent) -> str | None:
        """Return None if a simple event can be bounded, or else why not; who else bounds it is found out and added."""

    @abc.abstractmethod
    def _epsilon_bounds(self, delta: float) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 for `delta` in (0, 1), or [0, 1) with `_allows_zero_delta`."""

    @abc.abstractmethod
    def _delta_bounds(self, epsilon: float) -> Bounds:
        """Return bounds on the smallest δ for a finite `epsilon` ≥ 0."""

    @abc.abstractmethod
    def _explanation(self, delta: float) -> Explanation:
        """Return what there is to say about `epsilon(delta)`."""

    def _settings(self) -> dict[str, Any]:
        """Return the other arguments of the constructor as plain JSON data."""
        return {}

    def _within(self, epsilon: float, delta: float) -> bool:
        """Return whether the events are proven to be (ε, δ)-DP; more events must not turn False into True."""
        return self.epsilon_bounds(delta).upper <= epsilon

    def _over(self, epsilon: float, delta: float, effort: float) -> float:
        """Return how far the events are from (ε, δ) in logarithms, or just the sign: ≤ 0 if that is proven.

        With an `effort` below 1 the answer may be on the safe side of the one that `_within` gives.
        """
        return -1.0 if self._within(epsilon, delta) else 1.0

    _answers_quickly: ClassVar[bool] = False
    """Whether an `effort` below 1 saves any."""
    _allows_zero_delta: ClassVar[bool] = False

    # what everybody asks

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation in which the sensitivities were stated."""
        return self._neighboring_relation

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """The simple events and how often each happened, in the order in which they first did."""
        with self._lock:
            if self._events is None:
                self._events = tuple(self._counts.items())
            return self._events

    def compose(self, event: PrivacyEvent, count: int = 1) -> None:
        """Add `count` times `event`: all of it or, with an exception, nothing.

        Parameters
        ----------
        event : PrivacyEvent
            What happened.
        count : int
            How often; from 0 to 2⁶³ − 1.

        Raises
        ------
        UnsupportedEventError
            If anything in it cannot be bounded, even where `count` is 0.
        """
        if type(count) is not int or not 0 <= count <= _validate.MAX_COUNT:
            count = _validate.count("count", count, minimum=0)
        parts = self._parts(event)
        if count:
            self._add(parts, count)

    def epsilon(self, delta: Real) -> float:
        """Return an upper bound on the smallest ε ≥ 0 for which all of it is (ε, δ)-DP; `delta` in (0, 1)."""
        return self.epsilon_bounds(delta).upper

    def epsilon_bounds(self, delta: Real) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 for which all of it is (ε, δ)-DP; `delta` in (0, 1)."""
        checked = _validate.delta(delta, zero=self._allows_zero_delta)
        events = self.events
        if _non_private(events):
            return Bounds(math.inf, math.inf)
        return self._epsilon_bounds(checked) if events else Bounds(0.0, 0.0)

    def delta(self, epsilon: Real) -> float:
        """Return an upper bound on the smallest δ for which all of it is (ε, δ)-DP; `epsilon` finite and ≥ 0."""
        return self.delta_bounds(epsilon).upper

    def delta_bounds(self, epsilon: Real) -> Bounds:
        """Return bounds on the smallest δ for which all of it is (ε, δ)-DP; `epsilon` finite and ≥ 0."""
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        events = self.events
        if _non_private(events):
            return Bounds(1.0, 1.0)
        return self._delta_bounds(checked) if events else Bounds(0.0, 0.0)

    def would_exceed(self, event: PrivacyEvent, *, epsilon: Real, delta: Real, count: int = 1) -> bool:
        """Return whether (ε, δ) would not be proven any more once `count` times `event` were added. Adds nothing."""
        count = _validate.count("count", count, minimum=0)
        parts = self._parts(event)
        budget = self._budget(epsilon, delta)
        return not self._and(parts, count)._within(*budget)

    def remaining_count(self, event: PrivacyEvent, *, epsilon: Real, delta: Real) -> int:
        """Return how often `event` can still be added within (ε, δ): the last count that is safe, never one more.

        2⁶³ − 1 stands for no limit: an event without loss. Costs at most about 3·log₂ of the result answers.
        """
        parts = self._parts(event)
        budget = self._budget(epsilon, delta)
        start = self._and((), 0)
        if not start._within(*budget) or _non_private(parts):
            return 0
        if not any(times for _, times in parts):
            return _validate.MAX_COUNT

        def over(effort: float) -> Callable[[int], float]:
            return lambda count: start._and(parts, count)._over(*budget, effort)

        return largest_count(over(1.0), over(QUICK) if self._answers_quickly else None)

    def explain(self, delta: Real) -> Explanation:
        """Return `epsilon(delta)` with how it was found and what it rests on; printed, it is plain words."""
        checked = _validate.delta(delta, zero=self._allows_zero_delta)
        events = self.events
        given = {"delta": checked}
        if _non_private(events):
            reason = "a release without protection is among the events"
            return Explanation(quantity="epsilon", value=math.inf, lower=math.inf, method=reason, parameters=given)
        if not events:
            nothing = "nothing was released"
            return Explanation(quantity="epsilon", value=0.0, method=nothing, parameters=given, slack=0.0)
        return self._explanation(checked)

    def merge(self, other: PrivacyAccountant) -> None:
        """Add everything that `other` was told, about the same dataset; `other` stays as it is.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is another kind of accountant, or has another relation or other settings. Nothing was added then.
        """
        if type(other) is not type(self):
            raise InvalidType(f"other must be a {type(self).__name__}, got {type(other).__name__}")
        # mutant: merging-forgets-relation
        if other._neighboring_relation is not self._neighboring_relation:
            here, there = self._neighboring_relation.name, other._neighboring_relation.name
            raise InvalidParameter(f"other must have the neighboring_relation {here}, got {there}")
        if other._settings() != self._settings():
            raise InvalidParameter("other must have the same settings")
        self._add(other.events, 1)

    def copy(self) -> Self:
        """Return an accountant with the same events, which goes its own way."""
        return self._and((), 0)

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes an equal accountant."""
        return {
            "version": FORMAT_VERSION,
            "accountant": self.kind,
            "neighboring_relation": self._neighboring_relation.value,
            "settings": self._settings(),
            "events": [[event.to_dict(), count] for event, count in self.events],
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the accountant whose `state_dict` this is; refuse anything that no accountant wrote."""
        state = check_fields(state, _FIELDS, "accountant", cls.kind)
        settings = state["settings"]
        if not isinstance(settings, Mapping) or settings.keys() != cls()._settings().keys():
            raise InvalidParameter(f"settings must have the fields {sorted(cls()._settings())}")
        relation = relation_of(state["neighboring_relation"])
        accountant = cls(**settings, neighboring_relation=relation)
        for entry in list_of("events", state["events"]):
            if not isinstance(entry, (list, tuple)) or len(entry) != 2:
                raise InvalidParameter("events must hold pairs of an event and its count")
            count = _validate.count("count", entry[1], maximum=2**MAX_COUNT_BITS - 1)
            accountant._add(accountant._parts(PrivacyEvent.from_dict(entry[0])), count)
        return accountant

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.state_dict())

    def __repr__(self) -> str:
        settings = {**self._settings(), "neighboring_relation": self._neighboring_relation.name}
        told = ", ".join(f"{name}={_validate.shown(value)}" for name, value in settings.items())
        return f"<{type(self).__name__} of {len(self.events)} different events, {told}>"

    # how it is kept

    def _parts(self, event: PrivacyEvent) -> _Parts:
        """Return what an event is made of, each part of which is supported."""
        seen = self._seen.get(id(event))
        if seen is not None:  # and it is this very event: as long as it is kept here, no other has its identity
            return seen[1]
        try:
            parts = tuple(decompose(event))
            for part, _ in parts:
                # mutant: event-without-support-added
                if part not in self._counts:
                    self._check_supported(part)
        except RecursionError:
            raise InvalidParameter("event is nested too deep") from None
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()
        # mutant: accountant-remembers-events-by-number
        self._seen[id(event)] = (event, parts)
        return parts

    def _check_supported(self, event: PrivacyEvent) -> None:
        """Raise `UnsupportedEventError` for a simple event that cannot be bounded."""
        if isinstance(event, NonPrivateEvent):
            return
        reason = self._supports(event)
        if reason is not None:
            name = type(self).__name__
            way_out = advice(event, self._neighboring_relation, name)
            raise UnsupportedEventError(f"{name} cannot bound {type(event).__name__}: {reason}{way_out}")

    def _add(self, parts: _Parts, count: int) -> None:
        # mutant: charges-not-locked
        with self._lock:
            counts = self._counts
            for part, times in parts:
                if times:
                    counts[part] = counts.get(part, 0) + times * count
            self._events = None

    def _and(self, parts: _Parts, count: int) -> Self:
        """Return a copy with so many more events."""
        copy = type(self)(**self._settings(), neighboring_relation=self._neighboring_relation)
        with self._lock:
            copy._counts = self._counts.copy()
        copy._events = None
        if count:
            copy._add(parts, count)
        return copy

    def _budget(self, epsilon: Real, delta: Real) -> tuple[float, float]:
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return checked, _validate.delta(delta, zero=self._allows_zero_delta)


def _non_private(events: _Parts) -> bool:
    return any(times and type(event) is NonPrivateEvent for event, times in events)


def _restored(accountant: type[PrivacyAccountant], state: dict[str, Any]) -> PrivacyAccountant:
    return accountant.from_state_dict(state)
