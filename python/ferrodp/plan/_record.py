"""The parts of a plan as plain JSON data: each class has a kind, and fields that are numbers, tuples or mappings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType


class Part:
    """Base class of samplings, clippings and noise schedules: immutable, equal by value, known by its kind."""

    __slots__ = ()
    kind: ClassVar[str] = ""
    """Its name in JSON."""
    unsaid: ClassVar[tuple[str, ...]] = ()
    """Fields that JSON omits where they have their default."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, which `PrivacyPlan.from_json` reads.

        Returns
        -------
        dict
            The kind as "type", and the fields.
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in plain.items()}
        defaults = {field.name: field.default for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        plain = {name: value for name, value in plain.items() if name not in self.unsaid or value != defaults[name]}
        return {"type": self.kind, **plain}

    @classmethod
    def _of_plain(cls, fields: Mapping[str, Any]) -> Self:
        """Return the part with these fields."""
        return cls(**fields)


_Part = TypeVar("_Part", bound=Part)
_KINDS: dict[str, type[Part]] = {}


@dataclass_transform(kw_only_default=False, frozen_default=True)
def part_class(cls: type[_Part]) -> type[_Part]:
    """Make an immutable record of `cls` that `part_of` knows by its kind."""
    made = dataclasses.dataclass(frozen=True, slots=True)(cls)
    _KINDS[made.kind] = made
    return made


def part_of(base: type[_Part], name: str, plain: object) -> _Part:
    """Return the part of a plan that JSON data describes, or refuse what is not exactly that."""
    if not isinstance(plain, dict):
        raise InvalidType(f"{name} must be a JSON object, got {type(plain).__name__}")
    known = {kind: cls for kind, cls in _KINDS.items() if issubclass(cls, base)}
    found = known.get(plain["type"]) if isinstance(plain.get("type"), str) else None
    if found is None:
        raise _validate.out_of_domain(f"{name}'s type", "one of " + ", ".join(sorted(known)), plain.get("type"))
    names = {field.name for field in dataclasses.fields(found)}  # type: ignore[arg-type]
    if plain.keys() - {"type"} | set(found.unsaid) != names:
        raise InvalidParameter(f"{name} of type {plain['type']} must have the fields {sorted(names)}")
    return found._of_plain({key: value for key, value in plain.items() if key != "type"})


def check_part(base: type[Part], name: str, value: object, examples: str) -> None:
    """Refuse what is not a part of this kind, and show what one looks like."""
    if not isinstance(value, base):
        raise InvalidType(f"{name} must be a {base.__name__} such as {examples}, got {type(value).__name__}")
