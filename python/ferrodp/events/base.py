"""The base class of events: immutable fields, equality by value, and conversion to and from JSON.

Parameters are checked when an event is made. A number that is not exactly representable as a float is rounded in the
direction that implies more privacy loss: a noise multiplier down; a sensitivity, a probability, an ε or a δ up. Only
a stated (ε, δ) keeps ratios such as 1/10 exactly, because users expect ten of them to add up to 1.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType

FORMAT_VERSION = 1
MAX_DEPTH = 100
"""How deeply events may be nested in the data that `PrivacyEvent.from_dict` reads."""
_INFINITY = "inf"  # JSON has no number for it

Check: TypeAlias = Callable[[str, Any], object]
"""Takes the name and the value of a field and returns the value to store, or raises."""
Checks: TypeAlias = Mapping[str, Check]

POSITIVE_DOWN = functools.partial(_validate.positive, toward="down")
POSITIVE_UP = functools.partial(_validate.positive, toward="up")
NON_NEGATIVE_UP = functools.partial(_validate.non_negative, toward="up")
PROBABILITY_UP = functools.partial(_validate.probability, toward="up")
COUNT_FROM_0 = functools.partial(_validate.count, minimum=0)
COUNT_FROM_1 = functools.partial(_validate.count, minimum=1)


class NeighboringRelation(enum.Enum):
    """Which pairs of datasets a guarantee is about; sensitivities have to be stated for the same relation."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    """One dataset has a unit of privacy (a record, a user) that the other lacks."""
    REPLACE_ONE = "replace_one"
    """One unit differs. A sum of values clipped to norm C then has sensitivity 2C, not C."""
    REPLACE_SPECIAL = "replace_special"
    """One unit of either dataset is replaced by a null unit, which contributes zero."""


_KINDS: dict[str, type[PrivacyEvent]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyEvent:
    """Base class of all events.

    Events are immutable, compare and hash by value, and keep their meaning across versions. Make one of the
    subclasses; this class itself describes nothing.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent, PrivacyEvent
    >>> isinstance(GaussianEvent(noise_multiplier=1.1), PrivacyEvent)
    True
    """

    kind: ClassVar[str] = ""
    """The event's type in JSON."""
    checks: ClassVar[Checks] = {}
    """What each field may hold, in the order in which they are checked."""
    ratios: ClassVar[tuple[str, ...]] = ()
    """Fields that may hold a ratio that is not a float; JSON has it as text: "1/10"."""
    unsaid: ClassVar[tuple[str, ...]] = ()
    """Fields that JSON omits if they have their default, which is the value that promises least."""

    def __init_subclass__(cls, **_: object) -> None:
        # Accountants look for what an event is an instance of: they would answer with the bound of the base class.
        known = next((base for base in cls.__mro__[1:] if _KINDS.get(vars(base).get("kind", "")) is base), None)
        # mutant: events-of-a-subclass-count-as-their-base
        if known is not None:
            raise InvalidType(
                f"class {cls.__name__} must derive from PrivacyEvent itself, not from {known.__name__}, whose bounds "
                "need not hold for it; give it fields and `checks` of its own, and register a rule with "
                "ferrodp.accounting.rdp.register"
            )

    def __post_init__(self) -> None:
        for name, check in self.checks.items():
            given = getattr(self, name)
            kept = check(name, given)
            if kept is not given:  # most are what they should be, and `__init__` has stored them
                object.__setattr__(self, name, kept)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that `from_dict` turns into an equal event.

        Examples
        --------
        >>> from ferrodp.events import GaussianEvent
        >>> GaussianEvent(noise_multiplier=1.1).to_dict()
        {'version': 1, 'type': 'gaussian', 'noise_multiplier': 1.1}
        """
        return {"version": FORMAT_VERSION, **_to_plain(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> PrivacyEvent:
        """Return the event that `to_dict` described.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned, perhaps by way of a JSON file.

        Returns
        -------
        PrivacyEvent
            An event equal to the one that was written.

        Raises
        ------
        InvalidParameter, InvalidType
            If the data is not exactly what an event of this version writes. Nothing is guessed or ignored.

        Examples
        --------
        >>> from ferrodp.events import GaussianEvent, SelfComposedEvent
        >>> event = SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.1), count=3)
        >>> PrivacyEvent.from_dict(event.to_dict()) == event
        True
        """
        if not isinstance(data, Mapping):
            raise InvalidType(f"an event must be a mapping, got {type(data).__name__}")
        # mutant: true-counts-as-version-1
        if data.get("version") != FORMAT_VERSION or isinstance(data.get("version"), bool):
            raise _validate.out_of_domain("the event's version", str(FORMAT_VERSION), data.get("version"))
        return _from_plain({key: value for key, value in data.items() if key != "version"}, MAX_DEPTH)


_Event = TypeVar("_Event", bound=PrivacyEvent)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event_class(cls: type[_Event]) -> type[_Event]:
    """Make a class of events: an immutable dataclass that `PrivacyEvent.from_dict` knows by its kind."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    names = {field.name for field in dataclasses.fields(made)}
    if made.__post_init__ is PrivacyEvent.__post_init__ and made.checks.keys() == names != set():
        setattr(made, "__init__", _checking(made))  # noqa: B010  # mypy takes no method for a name
    _KINDS[made.kind] = made
    return made


def _checking(cls: type[PrivacyEvent]) -> Callable[..., None]:
    """Return the constructor of a class all of whose fields are checked: in half the time of the one it stands for.

    That of a dataclass stores what it was given, and `__post_init__` reads, checks and stores it again. This one is
    made from text, too, and checks what it stores, in the same order. It calls no `__post_init__`: a class with one of
    its own is an `event_class` itself.
    """
    known: dict[str, Any] = {"store": object.__setattr__}
    parameters, lines = [], []
    for field in dataclasses.fields(cls):
        has_default = field.default is not dataclasses.MISSING
        parameters.append(f"{field.name}=default_{field.name}" if has_default else field.name)
        known[f"default_{field.name}"] = field.default
    for name, check in cls.checks.items():
        known[f"check_{name}"] = check
        lines.append(f"    store(self, {name!r}, check_{name}({name!r}, {name}))")
    exec("\n".join([f"def __init__(self, *, {', '.join(parameters)}):", *lines]), known)
    return functools.wraps(cls.__init__)(known["__init__"])


def settle(record: object, /, **checked: object) -> None:
    """Store checked values in the fields of an immutable record that is being made."""
    for name, value in checked.items():
        object.__setattr__(record, name, value)


def check_event(rule: str, event: object) -> None:
    """Refuse anything but an event; `rule` begins the message."""
    if isinstance(event, PrivacyEvent):
        return
    found = f"{rule} a privacy event, got {type(event).__name__}"
    if isinstance(event, (int, float, Decimal, Fraction)):
        raise InvalidType(f"{found}; an epsilon alone is EpsilonDeltaEvent(epsilon={_validate.shown(event)})")
    if isinstance(event, (dict, str)):
        raise InvalidType(f"{found}; PrivacyEvent.from_dict reads what to_dict wrote")
    if isinstance(getattr(event, "event", None), PrivacyEvent):
        raise InvalidType(f"{found}; its event is {type(event).__name__}.event")
    raise InvalidType(f"{found}, such as GaussianEvent(noise_multiplier=1.0)")


def check_relation(relation: object) -> NeighboringRelation:
    """Return a neighboring relation, which may be given by its value such as "replace_one", or refuse."""
    if isinstance(relation, NeighboringRelation):
        return relation
    values = [each.value for each in NeighboringRelation]
    if isinstance(relation, str):
        if relation in values:
            return NeighboringRelation(relation)
        raise _validate.out_of_domain("neighboring_relation", f"one of {', '.join(values)}", relation)
    accepted = f"a NeighboringRelation, or one of {', '.join(values)}"
    raise _validate.wrong_type("neighboring_relation", accepted, relation)


def any_event(name: str, event: object) -> object:
    """Return an event, or refuse."""
    check_event(f"{name} must be", event)
    return event


def inner_event(name: str, event: object) -> object:
    """Return an event that wraps at most `MAX_DEPTH` others, or refuse."""
    check_event(f"{name} must be", event)
    wrapped = event
    for _ in range(MAX_DEPTH):
        wrapped = getattr(wrapped, "event", None) or getattr(wrapped, "randomizer", None)
        if wrapped is None:
            return event
    raise InvalidParameter(f"{name} must be nested at most {MAX_DEPTH} deep")


def exact_float(name: str, value: object, accepted: str) -> float:
    """Return the float that `value` denotes; refuse other numbers where rounding is not known to be safe."""
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
    kind = _KINDS.get(plain["type"]) if isinstance(plain.get("type"), str) else None
    if kind is None:
        raise _validate.out_of_domain("the event's type", "one of " + ", ".join(sorted(_KINDS)), plain.get("type"))
    fields = {key: math.inf if value == _INFINITY else value for key, value in plain.items() if key != "type"}
    names = {field.name for field in dataclasses.fields(kind)}
    if not names.difference(kind.unsaid) <= fields.keys() <= names:
        raise InvalidParameter(f"a {kind.kind} event must have the fields {sorted(names)}")
    for name in {"event", "randomizer"} & fields.keys():
        fields[name] = _from_plain(fields[name], depth - 1)
    if "events" in fields:
        if not isinstance(fields["events"], list):
            raise InvalidType(f"events must be a list, got {type(fields['events']).__name__}")
        fields["events"] = tuple(_from_plain(part, depth - 1) for part in fields["events"])
    for name in kind.ratios:
        fields[name] = _validate.ratio_of_text(name, fields[name])
    return kind(**fields)
