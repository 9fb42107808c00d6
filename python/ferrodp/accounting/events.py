"""What was released, as immutable descriptions that an accountant can add up.

An event says what happened, not what it costs: the cost depends on the accountant, the meaning of an event never does.
Events compare and hash by value, and turn into plain JSON and back without losing a bit.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ferrodp import _validate
from ferrodp.errors import InvalidParameter, InvalidType

__all__ = [
    "ComposedEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "NeighboringRelation",
    "NonPrivateEvent",
    "PrivacyEvent",
    "SelfComposedEvent",
]

FORMAT_VERSION = 1
MAX_DEPTH = 100
"""How deeply events may be nested in what `PrivacyEvent.from_dict` reads."""


class NeighboringRelation(enum.Enum):
    """Which pairs of datasets a guarantee speaks of; sensitivities have to be stated for the same one."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    """One has a unit of privacy (a record, a user) that the other lacks."""
    REPLACE_ONE = "replace_one"
    """One unit differs. A sum of values clipped to norm C then has sensitivity 2C, not C."""
    REPLACE_SPECIAL = "replace_special"
    """One unit of either is replaced by a null unit, which contributes zero."""


_KINDS: dict[str, type[PrivacyEvent]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyEvent:
    """Base class of all events."""

    kind: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that `from_dict` turns into an equal event."""
        return {"version": FORMAT_VERSION, **_to_plain(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> PrivacyEvent:
        """Return the event that `to_dict` wrote down.

        Raises
        ------
        InvalidParameter, InvalidType
            If the data is not exactly what some event of this version writes. Nothing is guessed or ignored.

        Examples
        --------
        >>> event = SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.1), count=3)
        >>> PrivacyEvent.from_dict(event.to_dict()) == event
        True
        """
        if not isinstance(data, Mapping):
            raise InvalidType(f"an event must be a mapping, got {type(data).__name__}")
        if data.get("version") != FORMAT_VERSION:
            raise _validate.out_of_domain("the event's version", str(FORMAT_VERSION), data.get("version"))
        return _from_plain({key: value for key, value in data.items() if key != "version"}, MAX_DEPTH)


def _register(event_class: type[PrivacyEvent]) -> type[PrivacyEvent]:
    _KINDS[event_class.kind] = event_class
    return event_class


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianEvent(PrivacyEvent):
    """One release with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; unitless, finite, > 0. A number that is no float
        is rounded down: less noise is more loss.
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        checked = _validate.positive("noise_multiplier", self.noise_multiplier, toward="down")
        object.__setattr__(self, "noise_multiplier", checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceEvent(PrivacyEvent):
    """One release with Laplace noise.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity; unitless, finite, > 0. A number that is no float is rounded
        down.
    """

    kind: ClassVar[str] = "laplace"
    noise_multiplier: float

    def __post_init__(self) -> None:
        checked = _validate.positive("noise_multiplier", self.noise_multiplier, toward="down")
        object.__setattr__(self, "noise_multiplier", checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedEvent(PrivacyEvent):
    """Several releases about the same dataset, each of which may be chosen after seeing the ones before.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        In the order in which they happened; a list is accepted. None at all means that nothing was released.
    """

    kind: ClassVar[str] = "composed"
    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, (tuple, list)):
            raise InvalidType(f"events must be a tuple or list of events, got {type(self.events).__name__}")
        for event in self.events:
            _check_event("events must hold", event)
        object.__setattr__(self, "events", tuple(self.events))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfComposedEvent(PrivacyEvent):
    """The same event, `count` times.

    Parameters
    ----------
    event : PrivacyEvent
        What happened each time.
    count : int
        How often; from 0 to 2⁶³ − 1.
    """

    kind: ClassVar[str] = "self_composed"
    event: PrivacyEvent
    count: int

    def __post_init__(self) -> None:
        _check_event("event must be", self.event)
        object.__setattr__(self, "count", _validate.count("count", self.count, minimum=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivateEvent(PrivacyEvent):
    """A release without protection: no ε bounds it."""

    kind: ClassVar[str] = "non_private"


for _class in (GaussianEvent, LaplaceEvent, ComposedEvent, SelfComposedEvent, NonPrivateEvent):
    _register(_class)


def simple_events(event: PrivacyEvent, count: int = 1) -> Iterator[tuple[PrivacyEvent, int]]:
    """Yield the events that `count` × `event` is made of and how often each happens; counts multiply when nested."""
    _check_event("event must be", event)
    pending = [(event, count)]
    while pending:
        event, count = pending.pop()
        if isinstance(event, SelfComposedEvent):
            pending.append((event.event, count * event.count))
        elif isinstance(event, ComposedEvent):
            pending.extend((part, count) for part in reversed(event.events))
        else:
            yield event, count


def _check_event(rule: str, event: object) -> None:
    if not isinstance(event, PrivacyEvent):
        raise InvalidType(f"{rule} a privacy event, got {type(event).__name__}")


def _to_plain(event: PrivacyEvent) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": event.kind}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if isinstance(value, PrivacyEvent):
            value = _to_plain(value)
        elif isinstance(value, tuple):
            value = [_to_plain(part) for part in value]
        plain[field.name] = value
    return plain


def _from_plain(plain: object, depth: int) -> PrivacyEvent:
    if not isinstance(plain, Mapping):
        raise InvalidType(f"an event must be a mapping, got {type(plain).__name__}")
    if depth == 0:
        raise InvalidParameter(f"events must be nested at most {MAX_DEPTH} deep")
    event_class = _KINDS.get(plain["type"]) if isinstance(plain.get("type"), str) else None
    if event_class is None:
        raise _validate.out_of_domain("the event's type", "one of " + ", ".join(sorted(_KINDS)), plain.get("type"))
    fields = {key: value for key, value in plain.items() if key != "type"}
    names = {field.name for field in dataclasses.fields(event_class)}
    if fields.keys() != names:
        raise InvalidParameter(f"a {event_class.kind} event must have the fields {sorted(names)}")
    if "event" in fields:
        fields["event"] = _from_plain(fields["event"], depth - 1)
    if "events" in fields:
        if not isinstance(fields["events"], list):
            raise InvalidType(f"events must be a list, got {type(fields['events']).__name__}")
        fields["events"] = tuple(_from_plain(part, depth - 1) for part in fields["events"])
    return event_class(**fields)
