"""Base class of accountants: composition, bounds, remaining counts, saved states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting._solve.alternatives import advice
from ferrodp.accounting._solve.counts import largest_count
from ferrodp.accounting._state import FORMAT_VERSION, check_fields, list_of, relation_of
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.accountants._reader import AccountantReader, non_private
from ferrodp.accounting.accountants._releases import Decomposed, EventCounts, GaussianSum, Parts
from ferrodp.accounting.curve import Curve
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import NeighboringRelation, NonPrivateEvent, PrivacyEvent
from ferrodp.events.base import check_relation

ROUGH_EFFORT = 1.0 / 16.0
"""Share of an answer's work that finds the neighborhood of another answer."""
MAX_COUNT_BITS = 4096
"""Of the counts in a state that is read."""
_FIELDS = {"version", "accountant", "neighboring_relation", "settings", "events"}


class PrivacyAccountant(AccountantReader):
    """Base class of accountants: bounds on what releases about one dataset cost together.

    Each release may be chosen after seeing the results of those before. Composed events are decomposed, and equal
    events are counted. Reading and writing is safe from any number of threads: each answer is about the events of one
    moment.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Raises
    ------
    InvalidType
        If `neighboring_relation` is no `NeighboringRelation`.

    Notes
    -----
    A subclass sets `kind` and writes `_supports`, `_epsilon_bounds`, `_delta_bounds` and `_explanation`; the last three
    read `self.events` once. It overrides `_settings` if its constructor has parameters. `delta` and `epsilon` are
    checked before, and a release without protection is answered here.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PldAccountant, PrivacyAccountant
    >>> accountant = PldAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=20.0), count=100)
    >>> isinstance(accountant, PrivacyAccountant), round(accountant.epsilon(delta=1e-5), 3)
    (True, 1.993)
    >>> accountant.would_exceed(GaussianEvent(noise_multiplier=20.0), epsilon=2.5, delta=1e-5, count=80)
    True
    >>> accountant.remaining_count(GaussianEvent(noise_multiplier=20.0), epsilon=2.5, delta=1e-5)
    49
    >>> lower, upper = accountant.epsilon_bounds(delta=1e-5)
    >>> accountant.delta_bounds(epsilon=upper).upper <= 1e-5 < accountant.delta(epsilon=lower / 2)
    True
    >>> print(str(accountant.explain(delta=1e-5)).splitlines()[0])
    ε is at most 1.99309... at δ = 1e-05: a proven upper bound, rounding errors included.
    >>> again = PldAccountant.from_state_dict(accountant.state_dict())
    >>> again.merge(accountant.copy())
    >>> again.events == PldAccountant.of_events([(accountant.events[0][0], 200)], again.neighboring_relation).events
    True
    """

    kind: ClassVar[str] = ""
    """Name of the accountant in saved states."""
    _memory: ClassVar[type[EventCounts | GaussianSum]] = EventCounts
    _answers_quickly: ClassVar[bool] = False
    """Whether an `effort` below 1 saves any work."""

    def __init__(self, *, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        neighboring_relation = check_relation(neighboring_relation)
        self._neighboring_relation = neighboring_relation
        self._told: Any = self._memory()
        self._decomposed = Decomposed()

    @classmethod
    def of_events(cls, events: Iterable[tuple[PrivacyEvent, int]], neighboring_relation: NeighboringRelation) -> Self:
        """Return an accountant that holds these events; their counts have no limit.

        Parameters
        ----------
        events : iterable of (PrivacyEvent, int)
            Events, and how often each happened.
        neighboring_relation : NeighboringRelation
            The relation in which their sensitivities were stated.

        Returns
        -------
        PrivacyAccountant
            An accountant of this class with its default settings.

        Raises
        ------
        UnsupportedEventError
            If an event cannot be bounded.
        """
        accountant = cls(neighboring_relation=neighboring_relation)
        for event, count in events:
            accountant._told.add(accountant._parts(event), count)
        return accountant

    # what a subclass says

    @staticmethod
    def _rule(event: PrivacyEvent, relation: NeighboringRelation) -> object:
        """Return how a simple event is bounded, or `Unsupported`."""
        return Unsupported(f"it has no rule for {type(event).__name__} under {relation.name}")

    def _supports(self, event: PrivacyEvent) -> str | None:
        """Return None if a simple event can be bounded, or else why not; the base class adds who else bounds it."""
        found = self._rule(event, self._neighboring_relation)
        return found.reason if isinstance(found, Unsupported) else None

    def _within(self, epsilon: float, delta: float) -> bool:
        """Return whether the events are proven to be (ε, δ)-DP; more events must not turn False into True."""
        return self.epsilon_bounds(delta).upper <= epsilon

    def _over(self, epsilon: float, delta: float, effort: float) -> float:
        """Return how far the events are from (ε, δ) in logarithms, or just the sign: ≤ 0 if that is proven.

        With an `effort` below 1 the answer may be on the safe side of the one that `_within` gives.
        """
        return -1.0 if self._within(epsilon, delta) else 1.0

    def _last_safe_count(self, parts: Parts, epsilon: float, delta: float) -> int:
        """Return how often parts that cost something can be added within (ε, δ)."""

        def over(effort: float) -> Callable[[int], float]:
            return lambda count: self._and(parts, count)._over(epsilon, delta, effort)

        return largest_count(over(1.0), over(ROUGH_EFFORT) if self._answers_quickly else None)

    def compose(self, event: PrivacyEvent, count: int = 1) -> None:
        """Add `count` times `event`: all of it or, with an exception, nothing.

        Parameters
        ----------
        event : PrivacyEvent
            What was released.
        count : int
            How often; from 0 to 2⁶³ − 1.

        Raises
        ------
        UnsupportedEventError
            If any part of it cannot be bounded, even where `count` is 0.
        InvalidParameter, InvalidType
            If `event` is no event, or `count` is outside its domain or no int.
        """
        if type(count) is not int or not 0 <= count <= _validate.MAX_COUNT:
            count = _validate.count("count", count, minimum=0)
        seen = self._decomposed.seen.get(id(event))  # a call less in each step of a loop
        parts = self._parts(event) if seen is None else seen[1]
        if count:
            self._told.add(parts, count)

    def epsilon_over_counts(self, event: PrivacyEvent, counts: Iterable[int], *, delta: Real) -> Curve:
        """Return bounds on ε after each of several numbers of further releases. Adds nothing.

        Parameters
        ----------
        event : PrivacyEvent
            What might be released.
        counts : iterable of int
            How often in all, in any order; each from 0 to 2⁶³ − 1.
        delta : float
            As for `epsilon`.

        Returns
        -------
        Curve
            The counts, and lower and upper bounds on the ε after each.

        Raises
        ------
        UnsupportedEventError
            If any part of the event cannot be bounded.
        InvalidParameter, InvalidType
            If an argument is outside its domain or of another type.

        Notes
        -----
        Each count costs an answer: with `PldAccountant` some half of a millisecond for Gaussian noise, sampled or not.

        Examples
        --------
        >>> from ferrodp.accounting import GaussianEvent, PldAccountant
        >>> accountant = PldAccountant()
        >>> curve = accountant.epsilon_over_counts(GaussianEvent(noise_multiplier=20.0), [0, 50, 100], delta=1e-5)
        >>> curve.upper.round(3).tolist(), accountant.events
        ([0.0, 1.356, 1.993], ())
        """
        checked = _validate.delta(delta, zero=self._allows_zero_delta)
        parts = self._parts(event)
        asked = [_validate.count("counts", count, minimum=0) for count in counts]
        each = np.array([self._and(parts, count).epsilon_bounds(checked) for count in asked]).reshape(-1, 2)
        return Curve(np.array(asked, dtype=np.float64), each[:, 0], each[:, 1])

    def would_exceed(self, event: PrivacyEvent, *, epsilon: Real, delta: Real, count: int = 1) -> bool:
        """Return whether (ε, δ) would no longer be proven once `count` times `event` were added. Adds nothing.

        Parameters
        ----------
        event : PrivacyEvent
            What might be released.
        epsilon, delta : float
            The budget, in the domains of `delta` and `epsilon`. Rounded down if not exactly representable.
        count : int
            How often; from 0 to 2⁶³ − 1.

        Returns
        -------
        bool
            True if the budget would be exceeded, or is already.

        Raises
        ------
        UnsupportedEventError
            If any part of the event cannot be bounded.
        InvalidParameter, InvalidType
            If an argument is outside its domain or of another type.
        """
        count = _validate.count("count", count, minimum=0)
        parts = self._parts(event)
        budget = self._budget(epsilon, delta)
        return not self._and(parts, count)._within(*budget)

    def remaining_count(self, event: PrivacyEvent, *, epsilon: Real, delta: Real) -> int:
        """Return how often `event` can still be added within (ε, δ): the last count that is safe, never one more.

        Parameters
        ----------
        event : PrivacyEvent
            What might be released.
        epsilon, delta : float
            The budget, in the domains of `delta` and `epsilon`. Rounded down if not exactly representable.

        Returns
        -------
        int
            2⁶³ − 1 stands for no limit: an event without loss.

        Raises
        ------
        UnsupportedEventError
            If any part of the event cannot be bounded.
        InvalidParameter, InvalidType
            If an argument is outside its domain or of another type.

        Notes
        -----
        Costs at most about 3·log₂ of the result answers.
        """
        parts = self._parts(event)
        budget = self._budget(epsilon, delta)
        start = self._and((), 0)
        if not start._within(*budget) or non_private(parts):
            return 0
        if not any(times for _, times in parts):
            return _validate.MAX_COUNT
        return start._last_safe_count(parts, *budget)

    def merge(self, other: PrivacyAccountant) -> None:
        """Add all events of `other`, about the same dataset; `other` is not changed.

        Parameters
        ----------
        other : PrivacyAccountant
            An accountant of the same class, relation and settings.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is another kind of accountant, or has another relation or other settings. Nothing was added then.
        """
        if type(other) is not type(self):
            kind = type(self).__name__
            raise InvalidType(
                f"other must be a {kind}, got {type(other).__name__}; compose the events in one {kind} instead"
            )
        # mutant: merging-forgets-relation
        if other._neighboring_relation is not self._neighboring_relation:
            here, there = self._neighboring_relation.name, other._neighboring_relation.name
            raise InvalidParameter(f"other must have the neighboring_relation {here}, got {there}")
        if other._settings() != self._settings():
            raise InvalidParameter("other must have the same settings")
        self._told.join(other._told)

    def copy(self) -> Self:
        """Return an independent accountant with the same events.

        Returns
        -------
        PrivacyAccountant
            Of the same class, relation and settings.
        """
        return self._and((), 0)

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes an equal accountant.

        Returns
        -------
        dict
            Version, kind of accountant, relation, settings and events.
        """
        events = [[event.to_dict(), count] for event, count in self.events]
        return {**self._state_header(), "settings": self._settings(), "events": events}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the accountant whose `state_dict` this is.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned, or the same after a round trip through JSON.

        Returns
        -------
        PrivacyAccountant
            A new accountant with the same settings and events.

        Raises
        ------
        InvalidParameter, InvalidType
            If no accountant of this class wrote it: fields are missing, unknown or outside their domain.
        UnsupportedEventError
            If an event in it cannot be bounded.
        """
        state = check_fields(state, _FIELDS, "accountant", cls.kind)
        settings = state["settings"]
        if not isinstance(settings, Mapping) or settings.keys() != cls()._settings().keys():
            raise InvalidParameter(f"settings must have the fields {sorted(cls()._settings())}")
        accountant = cls(**settings, neighboring_relation=relation_of(state["neighboring_relation"]))
        for entry in list_of("events", state["events"]):
            if not isinstance(entry, (list, tuple)) or len(entry) != 2:
                raise InvalidParameter("events must hold pairs of an event and its count")
            count = _validate.count("count", entry[1], maximum=2**MAX_COUNT_BITS - 1)
            accountant._told.add(accountant._parts(PrivacyEvent.from_dict(entry[0])), count)
        return accountant

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.state_dict())

    def _state_header(self) -> dict[str, Any]:
        relation = self._neighboring_relation.value
        return {"version": FORMAT_VERSION, "accountant": self.kind, "neighboring_relation": relation}

    def _parts(self, event: PrivacyEvent) -> Parts:
        """Return the simple parts of an event, each of which is supported."""
        return self._decomposed.parts(event, self._check_supported)

    def _check_supported(self, event: PrivacyEvent) -> None:
        """Raise `UnsupportedEventError` for a simple event that cannot be bounded."""
        # mutant: event-without-support-added
        if isinstance(event, NonPrivateEvent) or event in self._told:
            return
        reason = self._supports(event)
        if reason is not None:
            name = type(self).__name__
            way_out = advice(event, self._neighboring_relation, name)
            raise UnsupportedEventError(f"{name} cannot bound {type(event).__name__}: {reason}{way_out}")

    def _and(self, parts: Parts, count: int) -> Self:
        """Return a copy to which all parts were added, `count` times each."""
        copy = type(self)(**self._settings(), neighboring_relation=self._neighboring_relation)
        copy._told = self._told.copy()
        if count:
            copy._told.add(parts, count)
        return copy

    def _budget(self, epsilon: Real, delta: Real) -> tuple[float, float]:
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return checked, _validate.delta(delta, zero=self._allows_zero_delta)


def _restored(accountant: type[PrivacyAccountant], state: dict[str, Any]) -> PrivacyAccountant:
    return accountant.from_state_dict(state)
