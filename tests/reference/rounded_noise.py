"""Rounded Gaussian and Laplace noise: the definition, evaluated in high precision until nothing is in doubt.

The released number is `g · round((v + s·z·scale) / g)`, where the sign `s` and a number `p` in (0, ½), whose bits are
revealed on demand, come from the keystream, and `z > 0` solves `tail(z) = p`. Since `tail` falls, `z > x` if and only
if `p < tail(x)`: every decision here is such a comparison, between the interval that `p` is known to lie in and an
enclosure of `tail(x)`. While the two overlap, more bits of `p` and more digits of `tail` are called for. Floats appear
in the answer alone.

Exact inputs are `Fraction`; `law` is "gaussian" (scale: the standard deviation) or "laplace" (scale: `b`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
from mpmath import mp, mpf

from . import keystream

HALF = Fraction(1, 2)

# Bits computed beyond those claimed. They cover x rounded to an mpf, which changes tail(x) by a factor of at most
# 1 + x²·2^-precision (x² < 2^12 for every p > 2^-2900), and the last few bits of mpmath's own functions.
GUARD = 64


def word_bits(law: str, ratio: Fraction) -> int:
    """Return the size of a sample's first word, by law and `scale / granularity`."""
    return 32 if law == "gaussian" and ratio < 2**21 else 64


def tail(law: str, x: Fraction, precision: int) -> tuple[mpf, mpf]:
    """Return bounds on P[Z > x], `x ≥ 0`, relatively less than `2^(2 - precision)` apart, for the law of scale 1."""
    with mp.workprec(precision + GUARD):
        x = mpf(x.numerator) / x.denominator
        value = mpmath.erfc(x / mpmath.sqrt(2)) / 2 if law == "gaussian" else mpmath.exp(-x) / 2
        margin = value * mpf(2) ** -precision
        return value - margin, value + margin


def exceeds(law: str, x: Fraction, digits: int, known: int) -> bool | None:
    """Say whether `z > x`, where `p` is in `(digits, digits + 1) · 2^-known`; None where that is not yet decided."""
    if x <= 0:
        return True
    low, high = tail(law, x, known + 8)  # bounds closer together than the unknown bits of p
    with mp.workprec(known + 8):  # exact: digits + 1 has at most `known` bits
        if mpmath.ldexp(digits + 1, -known) <= low:
            return True
        if mpmath.ldexp(digits, -known) >= high:
            return False
    return None


def quantile(law: str, p: mpf, precision: int) -> mpf:
    """Return a good guess at `z`; nothing depends on how good."""
    with mp.workprec(precision):
        z = -mpmath.log(2 * p)
        if law == "laplace":
            return z
        # Newton on log tail, which is concave, from the right of its root: tail(x) < exp(-x²/2)/2.
        z = mpmath.sqrt(2 * z)
        for _ in range(100):
            value = mpmath.erfc(z / mpmath.sqrt(2)) / 2
            density = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)
            step = (mpmath.log(value) - mpmath.log(p)) * value / density
            z += step
            if abs(step) < mpf(2) ** (-precision // 2):
                break
        return z


def decide(law: str, word: int, bits: int, reveal: Callable[[int], int], center: Fraction, ratio: Fraction) -> int:
    """Return `round(center + s·z·ratio)` for a word of `bits` bits, where `reveal(j)` gives the 128 bits of block j."""
    if word >> (bits - 1):
        return -decide(law, word & ((1 << (bits - 1)) - 1), bits, reveal, -center, ratio)
    digits, known, block = word, bits, 0
    precision = 80 + max(ratio.numerator.bit_length() - ratio.denominator.bit_length(), 0)
    while True:
        with mp.workprec(precision):
            p = mpmath.ldexp(mpf(2 * digits + 1), -known - 1)
        n = math.floor(center + HALF + _exact(quantile(law, p, precision)) * ratio)
        while True:
            above = exceeds(law, (n - HALF - center) / ratio, digits, known)
            if above is False:
                n -= 1
                continue
            beyond = exceeds(law, (n + HALF - center) / ratio, digits, known)
            if beyond is not True:
                break
            n += 1
        if above is True and beyond is False:
            return n
        digits, known, block = digits << 128 | reveal(block), known + 128, block + 1


def sample(key: bytes, index: int, law: str, value: float, scale: Fraction, granularity: Fraction) -> int:
    """Return the integer that sample `index` of a call with this key releases, in units of `granularity`."""
    center = Fraction(value) / granularity if math.isfinite(value) else Fraction(0)
    ratio = scale / granularity
    bits = word_bits(law, ratio)
    word = keystream.first_word(key, index, bits)
    return decide(law, word, bits, lambda number: keystream.extension(key, index, number), center, ratio)


def default_granularity(law: str, scale: Fraction, dtype: np.dtype) -> Fraction:
    """Return the grid that is used where none is asked for: `2^(⌊log₂ scale⌋ − k)`.

    For float64 k is 32, for float32 12 (Gaussian) or 20 (Laplace).
    """
    exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
    if Fraction(2) ** exponent > scale:
        exponent -= 1
    single = 12 if law == "gaussian" else 20
    return Fraction(2) ** (exponent - (single if dtype == np.float32 else 32))


def output(total: int, granularity: Fraction, dtype: np.dtype) -> np.floating:
    """Return `total · granularity` as it is released: rounded to float64, then to `dtype`, within its finite range."""
    exact = total * granularity
    limit = float(np.finfo(dtype).max)
    try:
        nearest = float(exact)  # one correctly rounded division of integers
    except OverflowError:
        nearest = math.copysign(math.inf, exact)
    with np.errstate(over="ignore"):
        kind = np.dtype(dtype).type
        return kind(np.clip(kind(nearest), -limit, limit)) + kind(0.0)  # a zero is positive, whatever was rounded to it


def add_noise(key: bytes, law: str, values: np.ndarray, scale: float, granularity: float | None = None) -> np.ndarray:
    """Return what a call with this key makes of `values`, in their dtype and shape."""
    exact_scale = Fraction(scale)
    grid = default_granularity(law, exact_scale, values.dtype) if granularity is None else Fraction(granularity)
    totals = (sample(key, i, law, float(v), exact_scale, grid) for i, v in enumerate(values.ravel()))
    return np.array([output(t, grid, values.dtype) for t in totals], dtype=values.dtype).reshape(values.shape)


def probability(law: str, n: int, center: Fraction, ratio: Fraction) -> mpf:
    """Return P[round(center + Z·ratio) = n] to the working precision."""
    with mp.extraprec(GUARD):
        low, high = ((n + side - center) / ratio for side in (-HALF, HALF))
        if low < 0 < high:
            return 1 - _tail_value(law, -low) - _tail_value(law, high)
        near, far = sorted((abs(low), abs(high)))
        return _tail_value(law, near) - _tail_value(law, far)


def _tail_value(law: str, x: Fraction) -> mpf:
    low, high = tail(law, x, mp.prec)
    return (low + high) / 2


def _exact(x: mpf) -> Fraction:
    """Return the rational number that a positive mpf is."""
    return Fraction(x.man) * Fraction(2) ** x.exp
