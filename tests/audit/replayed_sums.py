"""Replays of sums that are released with chosen words: exact integers, noise on their or a coarser grid, a quotient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from chosen_words import PANIC, Call, drawn, further, lay
from replayed_noise import BLOCKS, HALF, agreements, threshold

import ferrodp as fd
from ferrodp.errors import FerroError
from reference import rounded_noise
from support.native_testing import testing

MAX_SHIFT = 24


def up(exact: Fraction) -> float:
    """Return the smallest float that is not below a positive number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def grid_of(scale: float, finest: int, dtype: Any) -> int:
    """Return the exponent of the grid of noise on sums in units of 2^finest."""
    if dtype != np.float32:
        return finest
    default = rounded_noise.default_granularity("gaussian", Fraction(scale), np.dtype(np.float32))
    exponent = default.numerator.bit_length() - default.denominator.bit_length()
    return min(max(exponent, finest), finest + MAX_SHIFT)


def words_near_steps(call: Call, ratio: Fraction, centers: list[Fraction]) -> None:
    """Choose words with which noise brings each of these next to the middle of two integers."""
    bits = rounded_noise.word_bits("gaussian", ratio)
    ends = [*agreements(bits), bits + 128, bits + 200]
    total = bits + 128 * BLOCKS
    words = {}
    for place, center in enumerate(centers):
        negative = call.digits(1)
        mirrored = -center if negative else center
        x = (math.floor(mirrored + Fraction(call.rng.uniform(0.05, 5.0)) * ratio) + HALF - mirrored) / ratio
        digits = threshold("gaussian", x if x > 0 else HALF / ratio, total)
        digits = call.near(digits, total, ends[place % len(ends)])
        words[place] = negative << (bits - 1) | digits >> (total - bits)
        for number in range(BLOCKS):
            call.blocks[1 + number, place] = further(digits >> 128 * (BLOCKS - 1 - number) & (1 << 128) - 1)
    lay(words, bits, call.key, call.blocks)


def expected_of(
    call: Call, centers: list[Fraction], ratio: Fraction, exponent: int, dtype: Any, denominator: float | None
) -> np.ndarray:
    """Return what is released, by the definition; what a source draws has to be chosen still."""
    bits = rounded_noise.word_bits("gaussian", ratio)
    found = []
    for i, center in enumerate(centers):
        word = rounded_noise.keystream.first_word(call.key, i, bits)
        total = rounded_noise.decide(
            "gaussian", word, bits, lambda n, i=i: rounded_noise.keystream.extension(call.key, i, n), center, ratio
        )
        value = rounded_noise.output(total, Fraction(2) ** exponent, np.dtype(dtype))
        found.append(value if denominator is None else np.dtype(dtype).type(np.float64(value) / denominator))
    return np.array(found, dtype=dtype)


def sums_of(call: Call, count: int, steps: int) -> np.ndarray:
    """Return integers of many sizes, at most so many steps: multiples of powers of two, and beside their halves."""
    shifts = call.rng.integers(0, 30, size=count)
    near = call.rng.integers(-2, 3, size=count)
    whole = call.rng.integers(-(2**12), 2**12, size=count)
    return np.clip((whole << shifts) + ((1 << shifts) >> 1) + near, -steps, steps)


def released(
    multiplier: float, clip_norm: float, dtype: Any, denominator: float | None = None, count: int = 120
) -> bool:
    """Whether a sum is released as another number than sum, noise and denominator make."""
    call = Call(f"sum {multiplier} {clip_norm} {np.dtype(dtype)} {denominator}")
    made = fd.ClippedSum((count,), clip_norm=clip_norm, dtype=dtype)
    finest = round(math.log2(made.granularity))
    integers = sums_of(call, count, round(1000 * clip_norm / made.granularity))
    made._native.merge_integers(integers, 2000, None)
    scale = up(Fraction(multiplier) * Fraction(clip_norm))
    exponent = grid_of(scale, finest, dtype)
    ratio = Fraction(scale) / Fraction(2) ** exponent
    centers = [Fraction(int(k), 2 ** (exponent - finest)) for k in integers]
    words_near_steps(call, ratio, centers)
    with call.drawn() as source:
        found = drawn(lambda: made.release(noise_multiplier=multiplier, denominator=denominator, source=source))
        expected = expected_of(call, centers, ratio, exponent, dtype, denominator)
    return found is PANIC or not np.array_equal(np.asarray(found), expected)


def finer_sums(shift: int, count: int = 64) -> bool:
    """Whether sums on a grid far finer than that of their noise are released, unless as the numbers they should be."""
    call = Call(f"shift {shift}")
    scale, exponent = 1000.7, -3
    ratio = Fraction(scale) / Fraction(2) ** exponent
    integers = call.rng.integers(-(2**50), 2**50, size=count)
    integers[::2] = ((integers[::2] >> shift) << shift) + (1 << shift - 1) + call.rng.integers(-1, 2, size=count // 2)
    integers[:4] = 2**63 - 1, -(2**63), 2**63 - 2**7, 3 - 2**63  # half a step more is beyond their type
    centers = [Fraction(int(k), 2**shift) for k in integers]
    words_near_steps(call, ratio, centers)
    with call.drawn():
        try:
            found = testing.noised_sums(integers.tolist(), exponent - shift, scale, exponent, call.key)
        except (FerroError, ValueError):
            return shift <= MAX_SHIFT
        return not np.array_equal(found, expected_of(call, centers, ratio, exponent, np.float32, None))


def _audits() -> Iterator[tuple[str, Callable[[], bool]]]:
    for dtype in (np.float32, np.float64):
        yield (
            f"replay: sums of {np.dtype(dtype)}",
            lambda dtype=dtype: any(
                released(m, c, dtype)
                for m, c in ((1.1, 0.7), (0.013, 3.3), (300.3, 1.9), (2.0**14.3, 0.1), (1e-5, 1.0))
            ),
        )
        yield (
            f"replay: quotients of sums of {np.dtype(dtype)}",
            lambda dtype=dtype: any(released(1.1, 0.7, dtype, d) for d in (3.0, 49.0, 0.1, 1e5 / 3)),
        )
    yield "replay: sums finer than their noise", lambda: any(finer_sums(shift) for shift in (8, 24, 25, 27, 31))


AUDITS: dict[str, Callable[[], bool]] = dict(_audits())
"""Whether a replay is not what the definition says: certain, at no level."""
