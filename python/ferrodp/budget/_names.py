"""Names of scopes, keys and reasons: checked once, normalised, bounded in length."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

from ferrodp import _validate
from ferrodp.errors import InvalidParameter, InvalidType

MAX_SCOPE = 200
MAX_TEXT = 1000
MAX_SCOPES = 100
_SEPARATOR = "/"
_BIDI_AND_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def scope(value: object, *, name: str = "scope") -> str:
    """Return the name of a scope: parts joined by slashes, in Unicode's normal form NFC.

    Refused are empty parts, "." and "..", spaces at an end of a part, and characters that cannot be seen.
    """
    return _scope(name, value) if isinstance(value, str) else _text(name, value, MAX_SCOPE)


@functools.lru_cache(maxsize=1024)
def _scope(name: str, value: str) -> str:
    text = _text(name, value, MAX_SCOPE)
    if any(part != part.strip() or part in ("", ".", "..") for part in text.split(_SEPARATOR)):
        raise _validate.out_of_domain(name, 'a path like "hospital/images" without empty parts, "." or ".."', value)
    return text


def scopes(value: object) -> tuple[str, ...]:
    """Return the names of one or several scopes, each once, in order."""
    if isinstance(value, str):
        return (scope(value, name="scopes"),)
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise InvalidType(f"scopes must be a name or a sequence of names, got {type(value).__name__}")
    found = sorted({scope(each, name="scopes") for each in value})
    if not 1 <= len(found) <= MAX_SCOPES:
        raise InvalidParameter(f"scopes must be from 1 to {MAX_SCOPES} names, got {len(found)}")
    return tuple(found)


def ancestors(name: str) -> list[str]:
    """Return the scopes that a scope lies in, outermost first."""
    parts = name.split(_SEPARATOR)
    return [_SEPARATOR.join(parts[:length]) for length in range(1, len(parts))]


def key(value: object) -> str | None:
    """Return a key under which something is reserved once, or None."""
    return None if value is None else _text("key", value, MAX_TEXT)


def ticket(value: object) -> str:
    """Return the name of a ticket."""
    return _text("ticket", value, MAX_TEXT)


def reason(value: object) -> str:
    """Return the reason that goes into the log with a change."""
    return _text("reason", value, MAX_TEXT)


def _text(name: str, value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise InvalidType(f"{name} must be a str, got {type(value).__name__}")
    if not 1 <= len(value) <= longest:
        raise InvalidParameter(f"{name} must have from 1 to {longest} characters, got {len(value)}")
    if any(unicodedata.category(letter) in _BIDI_AND_INVISIBLE for letter in value):
        raise InvalidParameter(f"{name} must have visible characters only, got {_validate.shown(value)}")
    text = unicodedata.normalize("NFC", value)
    if len(text) > longest:
        raise InvalidParameter(f"{name} must have at most {longest} characters in normal form NFC, got {len(text)}")
    return text
