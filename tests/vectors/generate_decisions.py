"""Write `decisions.tsv`: first words and extension bits chosen so that rounding them is hard, and the right answers.

No stream of random bits gets there: 16 digits of agreement between `p` and a threshold, or a tail at 37 standard
deviations, would take longer than anyone has. Run as `python tests/vectors/generate_decisions.py`.

A line is: why it is there, law, exponent of the grid, scale, offset (both as hexadecimal floats; the value in grid
steps, at most a half), first word, extension words (hexadecimal; those not listed are zero), answer.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference import rounded_noise as reference

PATH = Path(__file__).with_name("decisions.tsv")
HALF = Fraction(1, 2)
HEADER = "reason law exponent scale offset word extension answer"


def line(
    reason: str, law: str, exponent: int, scale: float, offset: float, negative: bool, p: Fraction, digits: int
) -> str:
    """Return one line; `p` is cut to `digits` bits, the first of which stands for a half."""
    ratio = Fraction(scale) / Fraction(2) ** exponent
    bits = reference.word_bits(law, ratio)
    blocks = -(-(digits - bits) // 128) if digits > bits else 0
    digits = bits + 128 * blocks
    number = math.floor(p * 2**digits)
    word = (number >> (128 * blocks)) | negative << (bits - 1)
    words = [number >> (64 * i) & (2**64 - 1) for i in reversed(range(2 * blocks))]

    def reveal(block: int) -> int:
        return words[2 * block] << 64 | words[2 * block + 1] if block < blocks else 0

    answer = reference.decide(law, word, bits, reveal, Fraction(offset), ratio)
    extension = ",".join(f"{w:x}" for w in words) or "-"
    fields = [reason, law, str(exponent), scale.hex(), offset.hex(), f"{word:x}", extension, str(answer)]
    return "\t".join(fields)


def tails(rng: random.Random) -> Iterator[str]:
    """Samples whose first words are small: z from 2 to 37 standard deviations, or to 700 Laplace scales."""
    for law in ("gaussian", "laplace"):
        for exponent in (-43, -20, -3):
            for octave in [*range(4, 64, 6), 64, 65, 70, 90, 128, 160, 192, 250, 500, 990]:
                p = Fraction(rng.getrandbits(80) | 1 << 80, 2 ** (81 + octave))
                offset = rng.uniform(-0.5, 0.5)
                yield line("tail", law, exponent, rng.uniform(1, 2), offset, bool(rng.getrandbits(1)), p, octave + 90)


def thresholds(rng: random.Random) -> Iterator[str]:
    """Pairs of samples on the two sides of a threshold that agree with it to the last listed bit."""
    for law, reaches in (
        ("gaussian", [1e-6, 0.01, 0.4, 1.5, 3, 6, 9, 12, 37]),
        ("laplace", [1e-6, 0.3, 5, 40, 80, 700]),
    ):
        for exponent in (-43, -20, -1):
            for reach in reaches:
                scale, offset = rng.uniform(1, 2), rng.uniform(-0.5, 0.5)
                ratio = Fraction(scale) / Fraction(2) ** exponent
                n = max(round(reach * ratio), 1)
                p = _tail(law, (n + HALF - Fraction(offset)) / ratio)
                negative = bool(rng.getrandbits(1))
                if negative:
                    offset = -offset
                # The first bits that differ from zero, and then from 20 bits to five extension blocks of agreement.
                for more in rng.sample([20, 50, 64, 100, 128, 192, 256, 500], 2):
                    bits = reference.word_bits(law, ratio)
                    digits = max(-math.floor(math.log2(p)) + more, bits) if p > Fraction(1, 2**1000) else 1010 + more
                    digits = bits + -(-(digits - bits) // 128) * 128
                    yield line("below", law, exponent, scale, offset, negative, p, digits)
                    yield line("above", law, exponent, scale, offset, negative, p + Fraction(1, 2**digits), digits)


def near_zero() -> Iterator[str]:
    """Offsets at a half and next to it: the threshold is at z = 0 or so close that p is all ones."""
    ones = HALF - Fraction(1, 2**400)
    for law in ("gaussian", "laplace"):
        for exponent in (-43, -20, 2):
            for offset in (0.5, math.nextafter(0.5, 0), -0.5, math.nextafter(-0.5, 0), 0.0, 5e-324, -1e-300):
                for negative in (False, True):
                    yield line("near zero", law, exponent, 1.25, offset, negative, ones, 320)
                    yield line("near zero", law, exponent, 1.25, offset, negative, HALF - Fraction(1, 2**70), 192)


def hard_exponentials() -> Iterator[str]:
    """Rational x with exp(-x) next to a multiple of 2^-53 or 2^-64 (found by a search over x = i/4096)."""
    for i in (31497, 3603, 23920, 37048, 22936):
        # scale = 4096 g and offset = ½ put the threshold of n = i at x = i/4096.
        for bits in (53, 64):
            for ulps in (-1, 0, 1):
                p = Fraction(math.floor(_tail("laplace", Fraction(i, 4096)) * 2 ** (bits + 1)) + ulps, 2 ** (bits + 1))
                yield line("hard exponential", "laplace", 0, 4096.0, 0.5, False, p, 64)


def _tail(law: str, x: Fraction) -> Fraction:
    """Return a number just below P[Z > x]: no line shows more than 640 of its bits, all of them right."""
    low, _ = reference.tail(law, x, 700)
    return Fraction(low.man) * Fraction(2) ** low.exp


def lines() -> Iterator[str]:
    """All lines, the same at every run."""
    rng = random.Random("decisions")
    yield "\t".join(HEADER.split())
    yield from tails(rng)
    yield from thresholds(rng)
    yield from near_zero()
    yield from hard_exponentials()


if __name__ == "__main__":
    PATH.write_text("".join(text + "\n" for text in lines()))
