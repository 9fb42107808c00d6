"""Replays of real noise with chosen words: whether samples are those of the definition, whatever their digits are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from chosen_words import PANIC, Call, drawn, further, lay
from mpmath import mp, mpf
from scipy import special

from ferrodp import _native
from reference import rounded_noise

HALF = Fraction(1, 2)
BLOCKS = 3
"""Blocks of further digits that are chosen; with a first word of 64 bits these are 448 digits."""


def threshold(law: str, x: Fraction, bits: int) -> int:
    """Return the first `bits` binary digits of P[Z > x], x > 0."""
    with mp.workprec(bits + 100):
        x = mpf(x.numerator) / x.denominator
        value = mpmath.erfc(x / mpmath.sqrt(2)) / 2 if law == "gaussian" else mpmath.exp(-x) / 2
        return int(mpmath.floor(mpmath.ldexp(value, bits)))


def centers(call: Call, count: int, grid: float, dtype: Any) -> np.ndarray:
    """Return values to be noised: on the grid, between its points, at and near the middle of two."""
    fractions = call.rng.choice([0.0, 0.5, 0.25, 1 / 3, 0.4999, 0.5001, 1e-9], size=count)
    whole = call.rng.choice([0, 0, 1, -7, 1000], size=count)
    return ((whole + fractions * call.rng.choice([-1.0, 1.0], size=count)) * grid).astype(dtype)


def agreements(bits: int) -> list[int]:
    """Return after how many digits words part from a threshold: where stages end, and within them."""
    within = range(bits - 12, bits + 1, 2) if bits == 32 else (24, 31, 40, 44, 48, 50, 52, 54, 56, 58, 60, 62, 63, 64)
    return [*within, bits + 8, bits + 16, bits + 30, bits + 48, bits + 63, bits + 64, bits + 100, bits + 127]


def replay(name: str, law: str, ratio: Fraction, dtype: Any, cases: int, where: tuple[int, ...] = (0, 2100)) -> bool:
    """Whether a sample is another number than its words make it, next to thresholds and in the tails."""
    call = Call(name)
    grid = Fraction(1, 2**11)
    scale = ratio * grid
    bits = rounded_noise.word_bits(law, ratio)
    ends = [*agreements(bits), bits + 128, bits + 200, bits + 256, bits + 128 * BLOCKS]
    values = np.zeros(where[-1] + cases + 9, dtype=dtype)
    places = [where[i % len(where)] + i for i in range(cases)]
    values[places] = centers(call, cases, float(grid), dtype)
    words = {}
    for i, place in enumerate(places):
        negative, agree = call.digits(1), ends[i % len(ends)]
        center = Fraction(float(values[place])) / grid * (-1 if negative else 1)
        size = Fraction(float(call.rng.uniform(0.05, 6.0 if law == "gaussian" else 15.0)))
        n = math.floor(center + size * ratio)
        x = (n + HALF - center) / ratio
        total = bits + 128 * BLOCKS
        digits = threshold(law, x if x > 0 else HALF / ratio, total)
        digits = call.near(digits, total, agree)
        words[place] = negative << (bits - 1) | digits >> (total - bits)
        if agree > bits:  # else further digits are those of the key
            for number in range(BLOCKS):
                block = digits >> 128 * (BLOCKS - 1 - number) & (1 << 128) - 1
                call.blocks[1 + number, place] = further(block)
    for number, place in enumerate(places[:: cases // 12 or 1]):  # far tails: nothing but zeros for a while
        zeros = (1, 5, 20, 40, 63, 64, 65, 100, 127, 128, 150, 190)[number % 12]
        words[place] = number % 2 << (bits - 1) | (1 << max(bits - 1 - zeros, 0)) - 1 >> 1
        for block in range(BLOCKS):
            call.blocks[1 + block, place] = further(
                (1 << max(128 * (block + 1) + bits - zeros, 0)) - 1 & (1 << 128) - 1
            )
    lay(words, bits, call.key, call.blocks)
    before = values.copy()
    with call.drawn() as source:
        keywords = {"standard_deviation" if law == "gaussian" else "scale": float(scale)}
        found = drawn(lambda: getattr(source, f"add_{law}_")(values, granularity=float(grid), **keywords))
        expected = [
            rounded_noise.output(
                rounded_noise.sample(call.key, i, law, float(before[i]), scale, grid), grid, np.dtype(dtype)
            )
            for i in places
        ]
    return found == PANIC or not np.array_equal(values[places], np.array(expected, dtype=dtype))


def halves(ratio: Fraction, dtype: Any, cases: int = 250) -> bool:
    """Whether a sample is another number where it is its value that brings the sum next to a half-integer."""
    call = Call(f"halves {ratio} {np.dtype(dtype)}")
    values = np.zeros(cases, dtype=dtype)
    bits = rounded_noise.word_bits("gaussian", ratio)
    ulp = 2.0 ** -(24 if bits == 32 else 53)
    words = {}
    for i in range(cases):
        octave, negative = int(call.rng.integers(1, 17)), call.digits(1)
        digits = (1 << bits - 1 - octave) | call.digits(bits - 1 - octave)
        words[i] = negative << (bits - 1) | digits
        with mp.workprec(120):
            z = rounded_noise.quantile("gaussian", (digits + mpf(1) / 2) / mpf(2) ** bits, 120)
            y = z * mpf(ratio.numerator) / ratio.denominator * (-1 if negative else 1)
            to_half = float(mpmath.floor(y) + mpf(1) / 2 - y)
        values[i] = to_half + float(call.rng.integers(-24, 25)) * (float(ratio) + 1.0) * ulp
    lay(words, bits, call.key, call.blocks)
    before = values.copy()
    with call.drawn() as source:
        found = drawn(lambda: source.add_gaussian_(values, standard_deviation=float(ratio), granularity=1.0))
        expected = rounded_noise.add_noise(call.key, "gaussian", before, float(ratio), 1.0)
    return found == PANIC or not np.array_equal(values, expected)


def precisions(ratio: float, count: int = 200_000) -> bool:
    """Whether a stage in single precision makes other numbers of the same words than those in double precision.

    Values bring sums next to half-integers: so near that the least error of single precision would show.
    """
    call = Call(f"precisions {ratio}")
    words = np.frombuffer(_native.random_bytes(4 * count, call.key), dtype="<u4")
    z = -special.ndtri(((words & 0x7FFFFFFF) + 0.5) / 2.0**32) * np.where(words >> 31, -1.0, 1.0)
    to_half = np.floor(z * ratio) + 0.5 - z * ratio
    near = call.rng.integers(-24, 25, size=count) * (ratio + 1.0) * 2.0**-24
    singles = (to_half + near).astype(np.float32)
    found = []
    for values in (singles.copy(), singles.astype(np.float64)):
        with call.drawn() as source:
            source.add_gaussian_(values, standard_deviation=ratio, granularity=1.0)
        found.append(values)
    return not np.array_equal(*found)


HALVES = (0.2, 3.7, 1024.0, 4096.0, 5000.1, 8191.9, 16383.9)
RATIOS = {
    "gaussian": [0.126, 1.3, 100.7, 5000.3, 2.0**19.3, 2.0**20.9, 2.0**21.4, 2.0**32.7, 2.0**43.2],
    "laplace": [0.126, 1.3, 100.7, 2.0**20.4, 2.0**32.7, 2.0**43.2],
}


def noise(law: str, dtype: Any, cases: int = 120) -> bool:
    return any(
        replay(f"{law} {np.dtype(dtype)} {ratio}", law, Fraction(float(ratio)), dtype, cases) for ratio in RATIOS[law]
    )


def of_values(dtype: Any) -> bool:
    return any(halves(Fraction(ratio), dtype) for ratio in HALVES)


def _audits() -> Iterator[tuple[str, Callable[[], bool]]]:
    for law in RATIOS:
        for dtype in (np.float32, np.float64):
            yield f"replay: {law} noise of {np.dtype(dtype)}", lambda law=law, dtype=dtype: noise(law, dtype)
    yield "replay: gaussian noise of two precisions", lambda: any(precisions(ratio) for ratio in HALVES)
    for dtype in (np.float32, np.float64):
        yield f"replay: gaussian noise on values of {np.dtype(dtype)}", lambda dtype=dtype: of_values(dtype)


AUDITS: dict[str, Callable[[], bool]] = dict(_audits())
"""Whether a replay is not what the definition says: certain, at no level."""
