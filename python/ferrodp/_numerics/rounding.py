"""Directed rounding of products, ratios, square roots and decimals; and zeros of functions between two floats.

The ends of intervals become floats in `intervals` (`float_up`, `float_down`), other numbers in `_validate.rounded`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from ferrodp._base import _validate

_ROOT_BITS = 64  # more than a float has, so that rounding twice toward zero is rounding once
_SMALLEST_RATIO = Decimal("1e-400")


def sqrt_down(value: Fraction) -> float:
    """Return the largest float ≤ √value, for `value` ≥ 0; 0 if it is below all positive floats."""
    if not value:
        return 0.0
    # ⌊√⌊x·4ᵏ⌋⌋ = ⌊√x·2ᵏ⌋ has at least 64 bits; floats lie on multiples of its unit or coarser
    shift = _ROOT_BITS + (value.denominator.bit_length() - value.numerator.bit_length()) // 2 + 1
    scaled = value * Fraction(4) ** shift
    root = math.isqrt(scaled.numerator // scaled.denominator)
    largest = _validate.rounded(root * Fraction(2) ** -shift, "down")
    return largest if largest < math.inf else math.nextafter(math.inf, 0.0)


def sqrt_up(value: Fraction) -> float:
    """Return the smallest float ≥ √value, for `value` ≥ 0; infinite if the root is above all floats."""
    lower = sqrt_down(value)
    return lower if Fraction(lower) ** 2 == value else math.nextafter(lower, math.inf)


def narrow(margin: Callable[[float], float], low: float, high: float, tolerance: float) -> tuple[float, float]:
    """Return two points, at most `tolerance` apart, with a margin > 0 at the first and ≤ 0 at the second.

    The method of [OT21]: at most one evaluation more than bisection, and only a few where the margin is smooth.
    """
    if not high - low > tolerance:
        return low, high
    above, below = margin(low), margin(high)
    width = high - low
    most = math.ceil(math.log2(width / tolerance)) + 1
    for asked in range(most + 1):
        middle = 0.5 * (low + high)
        if high - low <= tolerance or not low < middle < high:
            break
        falsi = (below * low - above * high) / (below - above)
        side = 1.0 if middle >= falsi else -1.0
        inward = 0.2 / width * (high - low) ** 2
        truncated = falsi + side * inward if inward <= abs(middle - falsi) else middle
        reach = 0.5 * tolerance * 2.0 ** (most - asked) - 0.5 * (high - low)
        t = truncated if abs(truncated - middle) <= reach else middle - side * max(reach, 0.0)
        t = t if low < t < high else middle
        found = margin(t)
        if found > 0.0:
            low, above = t, found
        else:
            high, below = t, found
    return low, high


def product_up(a: float, b: float) -> float:
    """Return the smallest float ≥ a·b for positive floats; infinite if there is none."""
    product = a * b
    if product < math.inf and Fraction(product) < Fraction(a) * Fraction(b):
        return math.nextafter(product, math.inf)
    return product


def ratio_down(a: float, b: float) -> float:
    """Return the largest finite float ≤ a/b for positive floats."""
    nearest = min(a / b, sys.float_info.max)
    return math.nextafter(nearest, 0.0) if Fraction(nearest) * Fraction(b) > Fraction(a) else nearest


def next_up(value: float) -> float:
    """Return the smallest float > `value`."""
    return math.nextafter(value, math.inf)


def fraction_up(value: Decimal) -> Fraction:
    """Return a rational that is no smaller: the number itself, but at least 10⁻⁴⁰⁰ if it is > 0.

    The denominator of a very small decimal would fill the memory.
    """
    return Fraction(max(value, _SMALLEST_RATIO)) if value > 0 else Fraction(value)
