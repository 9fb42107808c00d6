"""Correlated noise, rounded: the definition, evaluated with as many digits as it takes.

Step t adds σ·w_t with w = C⁻¹Z, or for totals σ·(w₀ + … + w_t); the released integer is round((v + σ·w)/g). C is given
by its rows: `row(t)` holds C[t, t], C[t, t−1], … as fractions. Z_t of value i is sample i under the key of step t,
which is call t of a source seeded with the stream's key. Digits of a Z come from the comparisons of `rounded_noise`:
⌊2ᵇ·Z + ½⌋ is that noise on another grid. All the rest is arithmetic of fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from . import keystream, rounded_noise

HALF = Fraction(1, 2)
Row = Callable[[int], list[Fraction]]


def banded(coefficients: list[float]) -> Row:
    """Return the rows of the Toeplitz matrix with these coefficients."""
    exact = [Fraction(c) for c in coefficients]
    return lambda t: exact[: t + 1]


def listed(rows: list[list[float]]) -> Row:
    """Return these rows."""
    return lambda t: [Fraction(c) for c in rows[t][: t + 1]]


def buffered(decays: list[float], weights: list[float]) -> Row:
    """Return the rows of the Toeplitz matrix 1, c₁, … with c_j = Σ ωᵢ·θᵢ^(j−1)."""
    pairs = [(Fraction(w), Fraction(d)) for w, d in zip(weights, decays, strict=True)]
    return lambda t: [Fraction(1), *(sum(w * d ** (j - 1) for w, d in pairs) for j in range(1, t + 1))]


def inverse_row(row: Row, step: int, totals: bool) -> list[Fraction]:
    """Return x with xᵀC = e_tᵀ, or = 1ᵀ for totals: the coefficients of Z₀ … Z_t in the noise of step t."""
    x = [Fraction(0)] * (step + 1)
    for s in range(step, -1, -1):
        value = Fraction(1 if totals or s == step else 0)
        for t in range(s + 1, step + 1):
            coefficients = row(t)
            if t - s < len(coefficients):
                value -= x[t] * coefficients[t - s]
        x[s] = value / row(s)[0]
    return x


def of_inverse(coefficients: list[float], step: int, totals: bool) -> list[Fraction]:
    """Return the coefficients of Z₀ … Z_t where those of the inverse are given."""
    exact = [Fraction(c) for c in coefficients]
    plain = [exact[step - s] if step - s < len(exact) else Fraction(0) for s in range(step + 1)]
    if not totals:
        return plain
    return [sum(exact[: step - s + 1], Fraction(0)) for s in range(step + 1)]


def variable(key: bytes, step: int, index: int, bits: int) -> Fraction:
    """Return Z of one step and value, off by at most 2^-(bits + 1)."""
    own = keystream.call_key(key, step)
    word = keystream.first_word(own, index, 64)
    reveal = lambda number: keystream.extension(own, index, number)  # noqa: E731
    return Fraction(rounded_noise.decide("gaussian", word, 64, reveal, Fraction(0), Fraction(2) ** bits), 2**bits)


def release(key: bytes, coefficients: list[Fraction], index: int, value: Fraction, ratio: Fraction) -> int:
    """Return round(value + ratio·Σ coefficients·Z), all in grid steps."""
    size = sum(map(abs, coefficients)) * ratio
    bits = 60
    while True:
        zs = [variable(key, step, index, bits) for step in range(len(coefficients))]
        sum_ = value + ratio * sum((x * z for x, z in zip(coefficients, zs, strict=True)), Fraction(0))
        error = size / 2 ** (bits + 1)
        low, high = math.floor(sum_ - error + HALF), math.floor(sum_ + error + HALF)
        if low == high:
            return low
        bits *= 2
