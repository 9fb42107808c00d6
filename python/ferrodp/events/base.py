"""What every event has: fields that never change, equality by value, and plain JSON.

Parameters are checked when an event is made. A number that no float denotes is rounded to the side where the event
promises less: a noise multiplier down, a sensitivity, a probability, an ε or a δ up. Only a stated (ε, δ) keeps ratios
that are no floats, for they are what people add up by hand.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from ferrodp import _validate
from ferrodp.errors import InvalidParameter, InvalidType

FORMAT_VERSION = 1
MAX_DEPTH = 100
"""How deeply events may be nested in what `PrivacyEvent.from_dict` reads."""
_INFINITY = "inf"  # JSON has no number for it


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
    ratios: ClassVar[tuple[str, ...]] = ()
    """Fields that may hold a ratio that is no float, which JSON has as text: "1/10"."""
    unsaid: ClassVar[tuple[str, ...]] = ()
    """Fields that JSON leaves out where they have their default, the one that promises least."""

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
        >>> from ferrodp.accounting import GaussianEvent, SelfComposedEvent
        >>> event = SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.1), count=3)
        >>> PrivacyEvent.from_dict(event.to_dict()) == event
        True
        """
        if not isinstance(data, Mapping):
            raise InvalidType(f"an event must be a mapping, got {type(data).__name__}")
        if data.get("version") != FORMAT_VERSION or isinstance(data.get("version"), bool):
            raise _validate.out_of_domain("the event's version", str(FORMAT_VERSION), data.get("version"))
        return _from_plain({key: value for key, value in data.items() if key != "version"}, MAX_DEPTH)


_Event = TypeVar("_Event", bound=PrivacyEvent)


def register(event_class: type[_Event]) -> type[_Event]:
    """Make a class of events known to `PrivacyEvent.from_dict`."""
    _KINDS[event_class.kind] = event_class
    return event_class


def settle(event: PrivacyEvent, **checked: object) -> None:
    """Put checked values into the fields of an event that is being made."""
    for name, value in checked.items():
        object.__setattr__(event, name, value)


def check_event(rule: str, event: object) -> None:
    """Refuse what is no event; `rule` begins the message."""
    if not isinstance(event, PrivacyEvent):
        raise InvalidType(f"{rule} a privacy event, got {type(event).__name__}")


def check_inner(event: object) -> None:
    """Refuse what is no event, or one that wraps more than `MAX_DEPTH` others."""
    check_event("event must be", event)
    for _ in range(MAX_DEPTH):
        event = getattr(event, "event", None)
        if event is None:
            return
    raise InvalidParameter(f"event must be nested at most {MAX_DEPTH} deep")


def exact_float(name: str, value: object, accepted: str) -> float:
    """Return the float that `value` denotes; refuse what no float is, where neither side is known to be safe."""
    number = _validate.exact(name, value)
    nearest = _validate.rounded(number, "down")
    if not math.isfinite(nearest) or Fraction(nearest) != number:
        raise _validate.out_of_domain(name, f"{accepted}, and exactly a float", value)
    return nearest


def _to_plain(event: PrivacyEvent) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": event.kind}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name in event.unsaid and value == field.default:
            continue
        if isinstance(value, PrivacyEvent):
            value = _to_plain(value)
        elif isinstance(value, tuple):
            value = [_to_plain(part) if isinstance(part, PrivacyEvent) else part for part in value]
        elif isinstance(value, Fraction):
            value = str(value)
        elif value == math.inf:
            value = _INFINITY
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
    fields = {key: math.inf if value == _INFINITY else value for key, value in plain.items() if key != "type"}
    names = {field.name for field in dataclasses.fields(event_class)}
    if not names.difference(event_class.unsaid) <= fields.keys() <= names:
        raise InvalidParameter(f"a {event_class.kind} event must have the fields {sorted(names)}")
    if "event" in fields:
        fields["event"] = _from_plain(fields["event"], depth - 1)
    if "events" in fields:
        if not isinstance(fields["events"], list):
            raise InvalidType(f"events must be a list, got {type(fields['events']).__name__}")
        fields["events"] = tuple(_from_plain(part, depth - 1) for part in fields["events"])
    for name in event_class.ratios:
        fields[name] = _validate.ratio_of_text(name, fields[name])
    return event_class(**fields)
