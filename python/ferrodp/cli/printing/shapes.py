"""The JSON that commands print, as JSON Schema (draft 2020-12): what `ferrodp schema` prints.

Each command says its fields beside the function that fills them. A field is always there; what is not known is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

VERSION = 1
"""In every object that is printed. It changes when a field is removed or changes its meaning, not when one is added."""
Shape: TypeAlias = "dict[str, Any]"
Fields: TypeAlias = Mapping[str, Shape]

TEXT: Shape = {"type": "string"}
NUMBER: Shape = {"type": "number"}
INTEGER: Shape = {"type": "integer"}
FLAG: Shape = {"type": "boolean"}
ANYTHING: Shape = {"type": "object"}
EVENT: Shape = {"type": "object", "description": "an event, as PrivacyEvent.from_dict takes it"}
HEAD: Shape = {"type": "string", "pattern": "^[0-9]+:[0-9a-f]{64}$", "description": "of the ledger's log"}
EPSILON: Shape = {"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}]}


def one_of(*values: object) -> Shape:
    """Return what is one of some values."""
    return {"enum": list(values)}


def maybe(shape: Shape, why: str = "") -> Shape:
    """Return what may be null; `why` says when."""
    found: Shape = {"anyOf": [shape, {"type": "null"}]}
    return found | ({"description": why} if why else {})


def many(shape: Shape) -> Shape:
    """Return an array of things that are alike."""
    return {"type": "array", "items": shape}


def named(shape: Shape) -> Shape:
    """Return an object whose names are not known in advance, and whose values are alike."""
    return {"type": "object", "additionalProperties": shape}


def record(fields: Fields, optional: Fields | None = None) -> Shape:
    """Return an object with these fields. Later versions may add some."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
    }


def document(commands: Mapping[str, Sequence[Fields]]) -> Shape:
    """Return the schema of all that commands print, by the name of the command."""
    shapes = [
        record({"schema": {"const": VERSION}, "command": {"const": name}, **fields})
        for name, all_fields in commands.items()
        for fields in all_fields
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"What FerroDP's command line prints with --json, version {VERSION}",
        "anyOf": [*shapes, {"$ref": "#/$defs/error"}],
        "$defs": {
            "error": record(
                {
                    "schema": {"const": VERSION},
                    "error": record(
                        {
                            "code": TEXT | {"description": "the kind of failure, the same in all versions"},
                            "message": TEXT | {"description": "for people; its wording may change"},
                            "remedy": TEXT | {"description": "what to do about it"},
                        }
                    ),
                }
            )
        },
    }
