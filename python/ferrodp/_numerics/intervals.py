"""Interval arithmetic on decimals, which certifies published values of ε, δ and σ.

Floats may propose an answer; what is published has been enclosed between two decimals of `digits` digits, rounded
outward at every step. The standard library's `decimal` rounds +, −, × and ÷ as the context says, and `sqrt`, `exp` and
`ln` correctly to nearest (its documentation, and the General Decimal Arithmetic Specification 1.70), so that those
three are widened by one unit on either side.

Only context methods are used: the operators of `Decimal` would round in the context of the calling thread.

Python's decimals are fast enough here, because formulas are short: at 50 digits a product takes 0.7 µs, an exponential
45 µs and a logarithm 100 µs (2026-11, one core of an x86-64 server). Long ones are in `ferrodp_accounting::certified`.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from fractions import Fraction
from typing import NamedTuple

from ferrodp._base import _html, _validate

ZERO = Decimal(0)
ONE = Decimal(1)
NEGLIGIBLE = Decimal("1e-400000")
"""Upper bound for e^x wherever x < −10⁶; far below the smallest float."""
_SERIES_BELOW = Decimal("1e-30")
"""For smaller arguments, two terms of a series are accurate to 30 digits."""


class Bounds(NamedTuple):
    """A lower and an upper bound on a real number that need not be representable as a float.

    Attributes
    ----------
    lower : float
        No more than the number.
    upper : float
        No less than the number. This is the value to use for a guarantee.

    Examples
    --------
    >>> from ferrodp.accounting.curves import gaussian_delta_bounds
    >>> lower, upper = gaussian_delta_bounds(epsilon=1.0, noise_multiplier=1.0)
    >>> lower < upper
    True
    """

    lower: float
    upper: float

    def _repr_html_(self) -> str:
        ends = ("at least", _html.at_least(self.lower)), ("at most", _html.at_most(self.upper))
        return _html.pairs("Certified bounds, rounded outward", ends)


def bounds_around(value: Fraction) -> Bounds:
    """Return the nearest floats on both sides of a rational; twice the same where it is a float."""
    return Bounds(_validate.rounded(value, "down"), _validate.rounded(value, "up"))


class Interval(NamedTuple):
    """All real numbers from `lower` to `upper`, both included."""

    lower: Decimal
    upper: Decimal

    def is_positive(self) -> bool:
        """Whether all its numbers are > 0."""
        return self.lower > ZERO

    def negated(self) -> Interval:
        """Return the numbers −x."""
        return Interval(self.upper.copy_negate(), self.lower.copy_negate())

    def floats(self) -> Bounds:
        """Return the ends as floats, rounded outward."""
        return Bounds(float_down(self.lower), float_up(self.upper))


def point(value: float | int | Decimal) -> Interval:
    """Return the interval that contains only this number."""
    number = value if isinstance(value, Decimal) else Decimal(value) if isinstance(value, int) else exact(value)
    return Interval(number, number)


def exact(value: float) -> Decimal:
    """Return the number that a float denotes, exactly."""
    return Decimal.from_float(value)


def float_up(value: Decimal) -> float:
    """Return the smallest float ≥ `value`."""
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if exact(nearest) < value else nearest


def float_down(value: Decimal) -> float:
    """Return the largest float ≤ `value`."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if exact(nearest) > value else nearest


@functools.lru_cache(maxsize=16)
def arithmetic(digits: int) -> Arithmetic:
    """Return the arithmetic with that many digits."""
    return Arithmetic(digits)


class Arithmetic:
    """Operations on intervals, each of which returns a superset of the exact result."""

    def __init__(self, digits: int) -> None:
        traps = [InvalidOperation, DivisionByZero, Overflow]  # each would be a defect of this package
        self.digits = digits
        self.down = Context(digits, ROUND_FLOOR, MIN_EMIN, MAX_EMAX, traps=traps)
        self.up = Context(digits, ROUND_CEILING, MIN_EMIN, MAX_EMAX, traps=traps)
        self.nearest = Context(digits, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, traps=traps)

    def add(self, x: Interval, y: Interval) -> Interval:
        """Return x + y."""
        return Interval(self.down.add(x.lower, y.lower), self.up.add(x.upper, y.upper))

    def sub(self, x: Interval, y: Interval) -> Interval:
        """Return x − y."""
        return Interval(self.down.subtract(x.lower, y.upper), self.up.subtract(x.upper, y.lower))

    def mul(self, x: Interval, y: Interval) -> Interval:
        """Return x · y, of any signs."""
        if x.lower >= ZERO and y.lower >= ZERO:
            return Interval(self.down.multiply(x.lower, y.lower), self.up.multiply(x.upper, y.upper))
        pairs = [(a, b) for a in x for b in y]
        return Interval(
            min(self.down.multiply(a, b) for a, b in pairs),
            max(self.up.multiply(a, b) for a, b in pairs),
        )

    def div(self, x: Interval, y: Interval) -> Interval:
        """Return x / y for y > 0."""
        lower = self.down.divide(x.lower, y.upper if x.lower >= ZERO else y.lower)
        upper = self.up.divide(x.upper, y.lower if x.upper >= ZERO else y.upper)
        return Interval(lower, upper)

    def half(self, x: Interval) -> Interval:
        """Return x / 2."""
        return Interval(self.down.divide(x.lower, 2), self.up.divide(x.upper, 2))

    def square(self, x: Interval) -> Interval:
        """Return x², which is never negative."""
        ends = sorted(abs_exact(end) for end in x)
        lower = ZERO if x.lower < ZERO < x.upper else self.down.multiply(ends[0], ends[0])
        return Interval(lower, self.up.multiply(ends[1], ends[1]))

    def sqrt(self, x: Interval) -> Interval:
        """Return √x for x ≥ 0; a point where the root is a decimal of few digits."""
        lower, upper = self.down.sqrt(x.lower), self.up.sqrt(x.upper)
        if self.up.multiply(lower, lower) > x.lower:
            lower = self.down.next_minus(lower)
        if self.down.multiply(upper, upper) < x.upper:
            upper = self.up.next_plus(upper)
        return Interval(lower, upper)

    def exp(self, x: Interval) -> Interval:
        """Return eˣ for x up to 10¹⁵."""
        if x.lower == x.upper and x.lower >= -(10**6):
            nearest = self.down.exp(x.lower)  # whatever the context's rounding
            return Interval(self.down.next_minus(nearest), self.up.next_plus(nearest))
        lower = ZERO if x.lower < -(10**6) else self.down.next_minus(self.down.exp(x.lower))
        upper = NEGLIGIBLE if x.upper < -(10**6) else self.up.next_plus(self.up.exp(x.upper))
        return Interval(lower, upper)

    def ln(self, x: Interval) -> Interval:
        """Return ln x for x > 0."""
        if x.lower == x.upper:
            nearest = self.down.ln(x.lower)
            return Interval(self.down.next_minus(nearest), self.up.next_plus(nearest))
        return Interval(self.down.next_minus(self.down.ln(x.lower)), self.up.next_plus(self.up.ln(x.upper)))

    def one_minus_exp(self, x: Interval) -> Interval:
        """Return 1 − eˣ for x ≤ 0, without cancellation: it lies between −x − x²/2 and −x."""
        if x.lower < _SERIES_BELOW.copy_negate():
            return self.sub(point(1), self.exp(x))
        y = x.negated()
        return Interval(self.down.subtract(y.lower, self.up.divide(self.up.multiply(y.lower, y.lower), 2)), y.upper)

    def minus_log_one_minus(self, x: Interval) -> Interval:
        """Return −ln(1 − x) for 0 ≤ x < 1, without cancellation: it lies between x and x/(1 − x)."""
        complement = self.sub(point(1), x)
        if x.upper > _SERIES_BELOW:
            return self.ln(complement).negated()
        return Interval(x.lower, self.up.divide(x.upper, complement.lower))

    def ratio(self, value: Fraction) -> Interval:
        """Return an interval around a rational number."""
        return self.div(point(value.numerator), point(value.denominator))


def tight(enclose: Callable[[Arithmetic], Interval], digits: tuple[int, ...]) -> Interval:
    """Return the first enclosure whose ends round to the same floats, or else the one with the most digits."""
    for each in digits:
        result = enclose(arithmetic(each))
        if float_up(result.lower) == float_up(result.upper) and float_down(result.lower) == float_down(result.upper):
            break
    return result


def first(holds: Callable[[int], bool], guess: int, low: int, high: int) -> int:
    """Return the smallest integer from `low` to `high` from which on `holds` is true; `high` itself is not tested.

    Two tests if the guess is right, and at most four times the number of binary digits of high − low.
    """
    guess, step = min(max(guess, low), high), 1
    if guess == high or holds(guess):
        false, true = guess - 1, guess
        while false >= low and holds(false):
            false, true, step = max(false - step, low - 1), false, 2 * step
    else:
        false, true = guess, guess + 1
        while true < high and not holds(true):
            false, true, step = true, min(true + step, high), 2 * step
    while true - false > 1:
        middle = (false + true) // 2
        false, true = (false, middle) if holds(middle) else (middle, true)
    return true


def first_float(holds: Callable[[float], bool], guess: float, low: float = 0.0, high: float = math.inf) -> float:
    """Return the smallest float from `low` ≥ 0 to `high` from which on `holds` is true; `high` itself is not tested."""
    return float_of(first(lambda number: holds(float_of(number)), ordinal(guess), ordinal(low), ordinal(high)))


def ordinal(value: float) -> int:
    """Return how many floats lie between 0 and `value` ≥ 0."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def float_of(number: int) -> float:
    """Return the float with that `ordinal`."""
    return float(struct.unpack("<d", struct.pack("<q", number))[0])


def abs_exact(value: Decimal) -> Decimal:
    """Return |value| with all its digits; `abs` would round."""
    return value.copy_abs()
