"""Names of scopes, keys and reasons: checked once, normalized, bounded in length.

Names that look the same should be the same: a scope whose name only looks as if it lay in another is not charged to
that one. So names are put into Unicode's normal form NFKC, in which wide, styled and joined letters are plain ones, and
consist of letters, marks upon letters, digits and some punctuation: no invisible characters, and nothing but the slash
that looks like one. Letters of different scripts that look alike are different letters.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

from ferrodp._base import _validate
from ferrodp._base._texts import text as _text
from ferrodp.errors import InvalidParameter, InvalidType

MAX_SCOPE = 200
MAX_TEXT = 1000
MAX_SCOPES = 100
_SEPARATOR = "/"
_LETTERS = ("Lu", "Ll", "Lt", "Lm", "Lo")
_MARKS = ("Mn", "Mc")
_SCOPE_PUNCTUATION = frozenset(" -_.,:;@+=#&'()[]!%~")
_KEY_PUNCTUATION = frozenset(map(chr, range(0x20, 0x7F)))
# Of what looks like a slash, by Unicode's confusables, only these are letters or marks; the rest is no letter anyway.
_LIKE_A_SLASH = frozenset((0x337, 0x338, 0x20E5, 0x2CC6, 0x3033, 0x3035))
_SLASH_IN_LATIN = frozenset((0x30CE, 0x4E3F))
"""Katakana no and a stroke of Chinese characters: letters among their own, slashes among others."""
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA")


def scope(value: object, *, name: str = "scope") -> str:
    """Return the name of a scope: parts joined by slashes, in Unicode's normal form NFKC.

    Refused are empty parts, "." and "..", spaces at an end of a part, and everything but letters, marks upon letters,
    digits, spaces and ``-_.,:;@+=#&'()[]!%~``.
    """
    return _scope(name, value) if isinstance(value, str) else _text(name, value, MAX_SCOPE, "NFKC")


@functools.lru_cache(maxsize=1024)
def _scope(name: str, value: str) -> str:
    text = _text(name, value, MAX_SCOPE, "NFKC")
    for part in text.split(_SEPARATOR):
        _refuse_lookalikes(name, value, part, _SCOPE_PUNCTUATION)
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
    if _SEPARATOR not in name:
        return []
    parts = name.split(_SEPARATOR)
    return [_SEPARATOR.join(parts[:length]) for length in range(1, len(parts))]


def key(value: object) -> str | None:
    """Return a key under which something is reserved once, or None: letters, digits, punctuation of ASCII, in NFKC."""
    if value is None:
        return None
    text = _text("key", value, MAX_TEXT, "NFKC")
    if not text.isascii():
        _refuse_lookalikes("key", value, text, _KEY_PUNCTUATION)
    return text


def ticket(value: object) -> str:
    """Return the name of a ticket."""
    return _text("ticket", value, MAX_TEXT, "NFC")


def program(value: object) -> str:
    """Return the name of a program."""
    return _text("program", value, MAX_SCOPE, "NFC")


def reason(value: object) -> str:
    """Return the reason that goes into the log with a change."""
    return _text("reason", value, MAX_TEXT, "NFC")


def _refuse_lookalikes(name: str, value: object, text: str, punctuation: frozenset[str]) -> None:
    """Raise unless all characters are letters, marks upon letters, digits, or punctuation of the set."""
    before = ""
    for index, letter in enumerate(text):
        category, code = unicodedata.category(letter), ord(letter)
        is_mark = category in _MARKS
        if letter not in punctuation and category != "Nd":
            # mutant: letters-that-look-like-slashes-taken
            if code in _LIKE_A_SLASH or not (category in _LETTERS or (is_mark and before in (*_LETTERS, *_MARKS))):
                raise InvalidParameter(
                    f"{name} must have letters, digits and {_told(punctuation)} only, got U+{code:04X} in "
                    f"{_validate.shown(value)}"
                )
            if code in _SLASH_IN_LATIN and not any(
                map(_is_east_asian, (text[index - 1 : index], text[index + 1 :][:1]))
            ):
                raise InvalidParameter(
                    f"{name} must have U+{code:04X}, which looks like a slash, only next to letters of its script, got "
                    f"{_validate.shown(value)}"
                )
        before = category


def _told(punctuation: frozenset[str]) -> str:
    if punctuation is _KEY_PUNCTUATION:
        return "punctuation of ASCII"
    return "".join(sorted(punctuation - {" "})) + " or spaces"


def _is_east_asian(letter: str) -> bool:
    return bool(letter) and ord(letter) not in _SLASH_IN_LATIN and unicodedata.name(letter, "").startswith(_EAST_ASIAN)
