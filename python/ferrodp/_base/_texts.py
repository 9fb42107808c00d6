"""Texts that people write and read later: visible characters, bounded in length."""

from __future__ import annotations

import unicodedata
from typing import Literal

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType

UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of invisible characters, and of code points that are not characters."""
# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties, whatever category they are in, and what is blank.
NO_INK = frozenset(
    code
    for first, last in (
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x1680, 0x1680), (0x17B4, 0x17B5)),
        *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800), (0x3164, 0x3164)),
        *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x13441, 0x13442)),
        *((0x16FE4, 0x16FE4), (0x1BCA0, 0x1BCA3), (0x1D159, 0x1D159), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    )
    for code in range(first, last + 1)
)


def text(name: str, value: object, longest: int, form: Literal["NFC", "NFKC"]) -> str:
    """Return a text in a normal form of Unicode, of up to so many visible characters."""
    if not isinstance(value, str):
        raise InvalidType(f"{name} must be a str, got {type(value).__name__}")
    if not 1 <= len(value) <= longest:
        raise InvalidParameter(f"{name} must have from 1 to {longest} characters, got {len(value)}")
    if value.isascii() and value.isprintable():
        return value
    found = unicodedata.normalize(form, value)
    if len(found) > longest:
        raise InvalidParameter(f"{name} must have at most {longest} characters in normal form {form}, got {len(found)}")
    for letter in found:
        # mutant: what-leaves-no-ink-taken
        if unicodedata.category(letter) in UNSEEN or ord(letter) in NO_INK:
            raise InvalidParameter(
                f"{name} must have visible characters only, got U+{ord(letter):04X} in {_validate.shown(value)}"
            )
    return found
