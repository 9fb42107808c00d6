"""Discrete noise by inversion, in plain high-precision arithmetic: the same bits as in fixed time, no table."""

from __future__ import annotations

import functools
from fractions import Fraction

import mpmath
from mpmath import mp, mpf

from . import keystream

BITS = 600


def _uniform(key: bytes, decision: int, bits: int) -> tuple[int, int]:
    """Return the digits of a decision, 400 bits of them with those of further blocks, and how many these are."""
    low, high = keystream.block_words(key, 0, decision)
    digits, known = (high << 64 | low) >> (128 - bits), bits
    for number in range(2):
        digits, known = digits << 128 | keystream.extension(key, decision, number), known + 128
    return digits, known


@functools.cache
def masses(scale: Fraction) -> list[mpf]:
    """Return P[|X| ≤ k] of the discrete Gaussian law."""
    with mp.workprec(BITS):
        weights = [mpf(1)]
        while weights[-1] > mpf(2) ** -BITS:
            k = len(weights)
            weights.append(mpmath.exp(-mpf(k * k * scale.denominator**2) / (2 * scale.numerator**2)))
        total = 2 * mpmath.fsum(weights) - 1
        sums, sum_ = [], mpf(-1)
        for weight in weights:
            sum_ += 2 * weight
            sums.append(sum_ / total)
        return sums


def gaussian(key: bytes, index: int, scale: Fraction) -> int:
    """Return sample `index`: block `index` has a sign in its lowest bit and 127 digits above it."""
    low, high = keystream.block_words(key, 0, index)
    block = high << 64 | low
    digits = block >> 1
    known = 127
    for number in range(2):
        digits, known = digits << 128 | keystream.extension(key, index, number), known + 128
    with mp.workprec(BITS):
        uniform = mpf(2 * digits + 1) / mpf(2) ** (known + 1)
        magnitude = sum(1 for mass in masses(scale) if mass <= uniform)
    return -magnitude if block & 1 else magnitude


@functools.cache
def probabilities(scale: Fraction) -> list[mpf]:
    """Return how likely each digit of a geometric variable is a one, and last how likely there is more beyond them."""
    with mp.workprec(BITS):
        rate = mpf(scale.denominator) / scale.numerator
        found: list[mpf] = []
        while mpmath.exp(-rate * 2 ** len(found)) >= mpf(2) ** -128:
            found.append(1 / (1 + mpmath.exp(rate * 2 ** len(found))))
        return [*found, mpmath.exp(-rate * 2 ** len(found))]


def laplace(key: bytes, index: int, scale: Fraction) -> int:
    """Return sample `index`: the difference of two geometric variables, digit by digit."""
    *heads, beyond = probabilities(scale)
    found = []
    with mp.workprec(BITS):
        for part in range(2):
            start = (2 * index + part) * (len(heads) + 1)
            value = 0
            for j, probability in enumerate(heads):
                digits, known = _uniform(key, start + j, 128)
                value |= int(mpf(2 * digits + 1) / mpf(2) ** (known + 1) < probability) << j
            digits, known = _uniform(key, start + len(heads), 128)
            more = 0
            while mpf(2 * digits + 1) / mpf(2) ** (known + 1) < beyond ** (more + 1):
                more += 1
            found.append(value + (more << len(heads)))
    return found[0] - found[1]
