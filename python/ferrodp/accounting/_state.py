"""Saved states: plain JSON data with a version, of which nothing is guessed or ignored when they are read.

Integers that may be long are written as hexadecimal text: exact in every JSON reader, and free of the interpreter's
limit on decimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation

FORMAT_VERSION = 1
MAX_BITS = 1 << 14
"""Of an integer that is read."""
_INTEGER = re.compile(r"0x(?:0|[1-9a-f][0-9a-f]*)", re.ASCII)


def check_fields(state: object, fields: set[str], kind_field: str, kind: str) -> Mapping[str, Any]:
    """Return a state that has exactly these fields, this version, and `kind` in its `kind_field`; refuse others."""
    if not isinstance(state, Mapping):
        raise InvalidType(f"state must be a mapping, got {type(state).__name__}")
    if state.keys() != fields:
        raise InvalidParameter(f"state must have the fields {sorted(fields)}")
    version, found = state["version"], state[kind_field]
    if type(version) is not int or version != FORMAT_VERSION or not isinstance(found, str) or found != kind:
        raise InvalidParameter(f'state must be version {FORMAT_VERSION} of a "{kind}" {kind_field}')
    return state


def relation_of(value: object) -> NeighboringRelation:
    """Return the relation of that name."""
    for relation in NeighboringRelation:
        if isinstance(value, str) and value == relation.value:
            return relation
    accepted = ", ".join(each.value for each in NeighboringRelation)
    raise _validate.out_of_domain("neighboring_relation", accepted, value)


def integer_of(name: str, value: object) -> int:
    """Return the integer ≥ 0 that `hex` wrote, of at most `MAX_BITS` bits."""
    if not isinstance(value, str):
        raise InvalidType(f"{name} must hold hexadecimal text, got {type(value).__name__}")
    if len(value) > 2 + MAX_BITS // 4 or not _INTEGER.fullmatch(value):
        raise _validate.out_of_domain(name, f"hexadecimal text as from hex, of at most {MAX_BITS} bits", value)
    return int(value, 16)


def integers_of(name: str, values: object, size: int) -> tuple[int, ...]:
    """Return `size` integers ≥ 0 from a list of text."""
    return tuple(integer_of(name, each) for each in list_of(name, values, size))


def list_of(name: str, values: object, size: int | None = None) -> Sequence[Any]:
    """Return a list or tuple, of a given length if there is one."""
    if not isinstance(values, (list, tuple)):
        raise InvalidType(f"{name} must be a list, got {type(values).__name__}")
    if size is not None and len(values) != size:
        raise InvalidParameter(f"{name} must be {size} long, got {len(values)}")
    return values
