"""Clipping and quantizing, by definition: exact numbers are `Fraction`, and the few roundings are Python's floats.

A row is kept if its norm is at most the bound, exactly. A longer one is multiplied by a factor that is computed in
floats, from a sum in a fixed order; with a stability, every row is. Everything after the factor is again exact or a
single rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

BLOCK, LANES = 4096, 32
TRUSTED = {1: (0.0, 3.273e150), 2: (1.183e-271, 1.071e301)}
"""By order: sums of powers of float64 outside of these are formed again from scaled elements."""

UNIT = 2.0**-53


def exponent(x: float) -> int:
    """Return ⌊log₂ x⌋."""
    return math.frexp(x)[1] - 1


def grid(clip_norm: float) -> int:
    """Return the exponent of the grid."""
    return exponent(clip_norm) - 29


def power_sum(leaves, order, scale=1.0):
    """Return Σ|x·scale|^order in floats: blocks of 4096, 32 lanes, short chunks in the last lanes, folded in halves."""
    total = 0.0
    for leaf in leaves:
        for start in range(0, len(leaf), BLOCK):
            lanes = [0.0] * LANES
            block = [abs(float(x) * scale) for x in leaf[start : start + BLOCK]]
            for first in range(0, len(block), LANES):
                chunk = block[first : first + LANES]
                for lane, x in enumerate(chunk, LANES - len(chunk)):
                    lanes[lane] += x * x if order == 2 else x
            while len(lanes) > 1:
                half = len(lanes) // 2
                lanes = [a + b for a, b in zip(lanes[:half], lanes[half:], strict=True)]
            total += lanes[0]
    return total


def exact_power_sum(row, order) -> Fraction:
    return sum((abs(Fraction(float(x))) ** order for x in row), Fraction(0))


def within(row, bound: float, order) -> bool:
    """Say whether the norm is at most `bound`, exactly."""
    if order == math.inf:
        return all(abs(Fraction(float(x))) <= Fraction(bound) for x in row)
    return exact_power_sum(row, order) <= Fraction(bound) ** order


def shrink(leaves) -> float:
    """Return what factors are multiplied by so that no rounding can make a row too long."""
    return 1.0 - 4.0 * (148 + sum(-(-len(leaf) // 1024) + 1 for leaf in leaves)) * UNIT


def plan(leaves, bound: float, order, stability: float | None = None):
    """Return what becomes of a row: "zero", "keep", or the power of two and the factor that shrink it; and its norm."""
    row = [x for leaf in leaves for x in leaf]
    if not all(math.isfinite(x) for x in row):
        return "zero", math.nan
    single = all(leaf.dtype == np.float32 for leaf in leaves)
    scale, total = 1.0, power_sum(leaves, order)
    low, high = TRUSTED[order]
    if not single and not low <= total <= high:
        largest = max((abs(float(x)) for x in row), default=0.0)
        if largest == 0.0:
            return "keep", 0.0
        scale = math.ldexp(1.0, min(max(-exponent(largest), -1022), 1023))
        total = power_sum(leaves, order, scale)
    norm = math.sqrt(total) if order == 2 else total
    if stability is not None:
        if scale > 1.0:
            norm, scale = divide(norm, scale), 1.0
        return (scale, bound / (norm + stability * scale) * shrink(leaves)), divide(norm, scale)
    if within(row, bound, order):
        return "keep", divide(norm, scale)
    return (scale, bound / norm * shrink(leaves)), divide(norm, scale)


def divide(x: float, power_of_two: float) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float64(x) / np.float64(power_of_two))


def quantize(leaves, clip_norm: float, stability: float | None = None) -> list[int]:
    """Return the integers of a row, in units of 2^grid(clip_norm)."""
    row = [float(x) for leaf in leaves for x in leaf]
    fate, _ = plan(leaves, clip_norm, 2, stability)
    if fate == "zero":
        return [0] * len(row)
    e = grid(clip_norm)
    if fate == "keep":
        return [math.trunc(Fraction(x) / Fraction(2) ** e) for x in row]
    scale, factor = fate
    return [math.trunc(x * scale * math.ldexp(factor, -e)) for x in row]


def clip(leaves, clip_norm: float, order):
    """Return the row as clipped floats, and its norm."""
    row = np.concatenate(leaves)
    if order == math.inf:
        if not np.isfinite(row).all():
            return np.zeros_like(row), math.nan
        bound = float(toward_zero(clip_norm, row.dtype))
        return row.clip(-bound, bound), max((abs(float(x)) for x in row), default=0.0)
    fate, norm = plan(leaves, clip_norm, order)
    if fate == "zero":
        return np.zeros_like(row), norm
    if fate == "keep":
        return row.copy(), norm
    scale, factor = fate
    products = [float(x) * scale * factor for x in row]
    return np.array([toward_zero(x, row.dtype) for x in products], dtype=row.dtype), norm


def toward_zero(x: float, dtype):
    """Return the number of that type next to `x` on the side of zero."""
    if dtype == np.float64:
        return np.float64(x)
    with np.errstate(over="ignore", under="ignore"):
        nearest = np.float32(x)
    return np.nextafter(nearest, np.float32(0)) if abs(float(nearest)) > abs(x) else nearest
