"""Coins with probability e^−γ from their definition: as many digits as are there, against mpmath."""

from __future__ import annotations

from fractions import Fraction

import mpmath
from mpmath import mp, mpf

from . import keystream


def threshold(gamma: Fraction, bits: int) -> int:
    """Return the first binary digits of e^−γ."""
    with mp.workprec(bits + 100):
        return int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpf(gamma.numerator) / gamma.denominator), bits)))


def toss(key: bytes, index: int, gamma: Fraction, blocks: int) -> bool:
    """Return coin `index`: whether the number with the digits of word `index` and of so many blocks is below e^−γ."""
    digits = keystream.first_word(key, index, 64)
    for number in range(blocks):
        digits = digits << 128 | keystream.extension(key, index, number)
    return not gamma or digits < threshold(gamma, 64 + 128 * blocks)
