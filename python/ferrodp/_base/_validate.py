"""Validation of scalar parameters, once, where they enter the package.

Accepted as a real number: `int`, `float`, numpy integer and floating scalars, `decimal.Decimal` and
`fractions.Fraction`. Each stands for exactly the number it denotes; where a float is needed, the caller states the
direction of rounding. Refused: `bool`, `str`, `bytes`, `complex`, `None`, lists and arrays, 0-d ones too. There is no
duck typing by `__float__`: a one-element array or tensor contains data, and data does not belong in a parameter.

Messages name the parameter, the accepted values and what was given. Parameters are public; data is never passed here.
"""

from __future__ import annotations

import difflib
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from ferrodp._base import _examples
from ferrodp.errors import InvalidParameter, InvalidType

Real: TypeAlias = "int | float | Decimal | Fraction | np.integer[Any] | np.floating[Any]"
Rounding: TypeAlias = Literal["up", "down"]

MAX_COUNT = 2**63 - 1
"""Largest number of repetitions: the largest value of the native 64-bit counters."""
MAX_THREADS = 256
MAX_DIMENSIONS = 64
"""numpy's own limit."""
GRANULARITY_EXPONENTS = range(-900, 901)
"""Exponents e of the accepted grid widths 2^e: products with 62-bit integers neither overflow nor underflow."""

_PROSE = frozenset({"and", "any", "finite", "like", "number", "one", "the", "with", "without"})
"""Words of messages that name no value."""
_REAL_TYPES = "a real number (int, float, numpy scalar, Decimal or Fraction)"
_MAX_DECIMAL_EXPONENT = 400  # Decimals of larger exponents would make ratios that fill the memory


def shown(value: object) -> str:
    """Return a parameter as text of bounded length, for a message."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, Fraction) and (value.numerator.bit_length() > 128 or value.denominator.bit_length() > 128):
        return "a Fraction of many digits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def out_of_domain(name: str, accepted: str, value: object, *, write: str = "") -> InvalidParameter:
    """Return the exception for a value outside its domain, with one inside, or the word that a misspelt one meant.

    `write` is an allowed value where none follows from the words of `accepted`.
    """
    meant = nearest(value, re.findall(r"[A-Za-z_]{3,}", accepted)) if isinstance(value, str) else ""
    way_out = meant or _examples.offered(name, accepted, value, write)
    return InvalidParameter(f"{name} must be {accepted}, got {shown(value)}{way_out}")


def nearest(value: str, known: Iterable[str]) -> str:
    """Return a question for the known word that is nearest to an unknown one, or nothing."""
    folded = {each.lower(): each for each in known if each not in _PROSE}
    near = difflib.get_close_matches(value.lower(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def ledger_and_scope(ledger: object, scope: object) -> None:
    """Refuse a ledger without a scope, a scope without a ledger, and a path where an open ledger is needed."""
    if isinstance(ledger, (str, bytes, os.PathLike)):
        where = "the address" if "://" in str(ledger) else repr(ledger)  # an address may hold a password
        raise InvalidType(
            f"ledger must be an open PrivacyLedger, got {type(ledger).__name__}; open it first: "
            f"PrivacyLedger.open({where})"
        )
    if ledger is not None and not hasattr(ledger, "reserve"):
        raise InvalidType(
            f"ledger must be an open PrivacyLedger or None, got {type(ledger).__name__}; "
            "for example ledger=PrivacyLedger.open('budget.db')"
        )
    if (ledger is None) != (scope is None):
        missing = (
            "scope is missing: name what is charged, as in scope='trainings'"
            if scope is None
            else "ledger is missing: open one, as in ledger=PrivacyLedger.open('budget.db')"
        )
        raise InvalidParameter(f"ledger and scope must be given together; {missing}")


def wrong_type(name: str, accepted: str, value: object, *, domain: str = "", write: str = "") -> InvalidType:
    """Return the exception for a parameter of another type, with the value `write` or one of `domain`.

    A text or a single Python number is shown, too; arrays, lists and all else could hold data.
    """
    single = isinstance(value, (str, bool, int, float, complex))
    given = f"{type(value).__name__} {shown(value)}" if single else type(value).__name__
    return InvalidType(
        f"{name} must be {accepted}, got {given}{_examples.offered(name, domain or accepted, value, write)}"
    )


def _number(name: str, value: object, domain: str = "finite") -> int | float | Decimal | Fraction:
    """Return the same number as a Python one, or raise `InvalidType`, which offers a number of the domain."""
    if isinstance(value, float):  # numpy.float64 too
        return float.__float__(value)
    if isinstance(value, bool):
        raise wrong_type(name, _REAL_TYPES, value, domain=domain)
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, (Decimal, Fraction)):
        return value
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        return int(value)
    if isinstance(value, np.floating):  # float16, float32 and longdouble: exact as a ratio
        return Fraction(*value.as_integer_ratio()) if np.isfinite(value) else float(value)
    raise wrong_type(name, _REAL_TYPES, value, domain=domain)


def _is_finite(number: int | float | Decimal | Fraction) -> bool:
    if isinstance(number, float):
        return math.isfinite(number)
    return number.is_finite() if isinstance(number, Decimal) else True


def rounded(number: int | float | Decimal | Fraction, toward: Rounding) -> float:
    """Return the nearest float on the given side of a finite number; infinite if there is none."""
    if isinstance(number, float):
        return number
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    as_decimal = isinstance(number, Decimal)  # compared as Decimals: a ratio could have 10**9 digits
    denoted: Any = Decimal.from_float(nearest) if as_decimal else nearest
    if toward == "up" and denoted < number:
        return math.nextafter(nearest, math.inf)
    if toward == "down" and denoted > number:
        return math.nextafter(nearest, -math.inf)
    return nearest


def exact(name: str, value: object) -> Fraction:
    """Return the number that `value` denotes.

    Raises `InvalidType` for anything but a real number, `InvalidParameter` if it is not finite, or is a Decimal so far
    out of the range of floats that its ratio would fill the memory.
    """
    number = _number(name, value)
    if not _is_finite(number):
        raise out_of_domain(name, "finite", value)
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > _MAX_DECIMAL_EXPONENT:
        raise out_of_domain(name, f"0 or from 1e-{_MAX_DECIMAL_EXPONENT} to 1e{_MAX_DECIMAL_EXPONENT}", value)
    return Fraction(number)


def positive(name: str, value: object, *, toward: Rounding = "up") -> float:
    """Return `value` as a finite float > 0.

    `toward` is the direction in which a number that is not exactly a float is rounded: "up" for noise scales and
    sensitivities, "down" for clip norms and budgets.
    """
    if type(value) is float and 0.0 < value < math.inf:
        return value
    return _real(name, value, "finite and > 0", lambda number: number > 0, toward)


def non_negative(name: str, value: object, *, toward: Rounding = "up") -> float:
    """Return `value` as a finite float ≥ 0; −0.0 becomes 0.0."""
    if type(value) is float and 0.0 < value < math.inf:
        return value
    return _real(name, value, "finite and >= 0", lambda number: number >= 0, toward)


def finite(name: str, value: object) -> float:
    """Return `value` as a finite float of any sign, rounded down."""
    rational = exact(name, value)
    if rational < 0:
        return -positive(name, -rational, toward="up")
    return non_negative(name, rational if isinstance(value, Fraction) else value, toward="down")


SMALLEST_DISCRETE_SCALE, LARGEST_DISCRETE_SCALE = Fraction(1, 100), Fraction(2**57)
_SMALLEST_FLOAT = 0.01
"""The least float that is no less than 1/100; its denominator is 2^59."""
_LARGEST_TERM = 2**64 - 1


def discrete_scale(name: str, value: object) -> tuple[int, int]:
    """Return the scale of a discrete law as exact numerator and denominator."""
    if type(value) is float and _SMALLEST_FLOAT <= value <= 2.0**57:
        return value.as_integer_ratio()
    accepted = "from 0.01 to 2^57"
    ratio = exact(name, value)
    if not SMALLEST_DISCRETE_SCALE <= ratio <= LARGEST_DISCRETE_SCALE:
        raise out_of_domain(name, accepted, value)
    if max(ratio.numerator, ratio.denominator) > _LARGEST_TERM:
        raise out_of_domain(name, f"{accepted}, a ratio of integers below 2^64", value)
    return ratio.numerator, ratio.denominator


def probability(name: str, value: object, *, toward: Rounding = "up") -> float:
    """Return `value` as a float in [0, 1]."""
    if type(value) is float and 0.0 < value <= 1.0:
        return value
    accepted = "finite and in [0, 1]"
    if isinstance(value, (int, float)) and 1 < value <= 100:
        raise InvalidParameter(f"{name} must be {accepted}, got {shown(value)}; for {value:g} % write {value / 100:g}")
    return min(_real(name, value, accepted, lambda number: 0 <= number <= 1, toward), 1.0)


def delta(value: object, *, name: str = "delta", zero: bool = False, toward: Rounding = "down") -> float:
    """Return `value` as a float in (0, 1), or [0, 1) where pure differential privacy makes sense (`zero=True`)."""
    if type(value) is float and 0.0 < value < 1.0:
        return value
    accepted = "finite and in [0, 1)" if zero else "finite and in (0, 1)"
    found = _real(name, value, accepted, lambda number: 0 <= number < 1 and bool(zero or number), toward)
    return min(found, math.nextafter(1.0, 0.0))


def _real(name: str, value: object, accepted: str, holds: Callable[[Any], bool], toward: Rounding) -> float:
    """Return a finite number ≥ 0 for which `holds` is true as a float that is 0 only if the number is, or refuse it."""
    number = _number(name, value, accepted)
    if not _is_finite(number) or not holds(number):
        raise out_of_domain(name, accepted, value)
    if not number:
        return 0.0
    result = rounded(number, toward)
    if not 0.0 < result < math.inf:
        raise out_of_domain(name, f"finite and from {math.ulp(0.0):.3g} to {sys.float_info.max:.3g}", value)
    return result


_RATIO_BITS = 64
_RATIO = re.compile("[1-9][0-9]{0,19}/[1-9][0-9]{0,19}")


def short_ratio(value: object, bound: float) -> float | Fraction:
    """Return the ratio that a checked Decimal or Fraction denotes, or `bound` if that is equal or the ratio is long."""
    if isinstance(value, Decimal) and abs(int(value.as_tuple().exponent)) > 2 * _RATIO_BITS:
        return bound
    if not isinstance(value, (Decimal, Fraction)):
        return bound
    ratio = Fraction(value)
    long = max(ratio.numerator, ratio.denominator).bit_length() > _RATIO_BITS
    return bound if long or ratio == bound else ratio


def ratio_of_text(name: str, value: object) -> object:
    """Return the ratio that a text like "1/10" denotes; return anything but text unchanged.

    The only text accepted for a ratio is the one that `str` writes, for ratios that `short_ratio` keeps.
    """
    if not isinstance(value, str):
        return value
    ratio = Fraction(value) if _RATIO.fullmatch(value) else None
    if ratio is None or str(ratio) != value or type(short_ratio(ratio, rounded(ratio, "up"))) is float:
        raise out_of_domain(name, 'a number or a ratio in lowest terms like "1/10", and no float', value)
    return ratio


def count(name: str, value: object, *, minimum: int = 1, maximum: int = MAX_COUNT) -> int:
    """Return `value` as an int between `minimum` and `maximum`. Floats are refused, whole ones too."""
    if type(value) is int and minimum <= value <= maximum:
        return value
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "an int", value, domain=f"an int from {minimum} to {maximum}")
    number = int.__index__(value)
    if not minimum <= number <= maximum:
        unlimited = maximum == MAX_COUNT and number < minimum
        raise out_of_domain(name, f"an int >= {minimum}" if unlimited else f"an int from {minimum} to {maximum}", value)
    return number


def truth(name: str, value: object) -> bool:
    """Return True or False, and refuse what merely counts as one of them."""
    if type(value) is not bool:
        raise out_of_domain(name, "True or False", value)
    return value


def threads(value: object) -> int | None:
    """Return a number of threads, or None to leave it to the library."""
    if value is None or (type(value) is int and 0 < value <= MAX_THREADS):
        return value
    return count("threads", value, maximum=MAX_THREADS)


def granularity(value: object) -> float | None:
    """Return a grid width, a power of two in the supported range, or None to leave it to the law."""
    if value is None:
        return None
    number = _number("granularity", value, "from 0.0009765625 to 1")
    low, high = GRANULARITY_EXPONENTS[0], GRANULARITY_EXPONENTS[-1]
    if _is_finite(number) and number > 0:
        width = rounded(number, "up")
        mantissa, exponent = math.frexp(width)
        if mantissa == 0.5 and low < exponent <= high + 1 and number == Fraction(width):
            return width
    raise out_of_domain("granularity", f"a power of two from 2^{low} to 2^{high}", value)


def size(value: object, *, name: str = "size", itemsize: int = 8) -> tuple[int, ...]:
    """Return the shape of a new array, given as an int or a tuple or list of ints ≥ 0, if it fits in memory."""
    lengths = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(lengths) > MAX_DIMENSIONS:
        raise InvalidParameter(f"{name} must have at most {MAX_DIMENSIONS} dimensions, got {len(lengths)}")
    shape = tuple(count(name, length, minimum=0, maximum=sys.maxsize) for length in lengths)
    addressable(name, shape, itemsize)
    fits_in_memory(name, math.prod(shape) * itemsize)
    return shape


def addressable(name: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a shape that no array can have, even without elements: numpy multiplies all lengths except zeros."""
    if math.prod(length or 1 for length in shape) * itemsize > sys.maxsize:
        counted = ", lengths of 0 counted as 1" if 0 in shape else ""
        raise InvalidParameter(f"{name} must stand for at most {sys.maxsize} bytes{counted}")


def fits_in_memory(name: str, num_bytes: int) -> None:
    """Refuse an array larger than the address space or the machine before it is allocated.

    An operating system that overcommits would grant such memory and kill the process later.
    """
    if num_bytes > sys.maxsize:
        raise InvalidParameter(f"{name} must stand for at most {sys.maxsize} bytes")
    if num_bytes > _physical_memory():
        raise MemoryError(f"{name} stands for {num_bytes} bytes, more than this machine has")


@functools.cache
def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not POSIX: leave it to the allocator
        return sys.maxsize


_DIGITS = 6


def few_digits(value: float | Fraction, toward: Rounding) -> str:
    """Write a number as it is if it is a short decimal, else rounded to one side.

    A float that Python writes with few digits is written like that: it is read back as the same float.
    """
    if isinstance(value, float):
        digits = repr(value).partition("e")[0].replace(".", "").lstrip("0")
        if not math.isfinite(value) or len(digits) <= _DIGITS:
            return f"{value:.6g}"
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING if toward == "up" else ROUND_FLOOR)
    exact = Fraction(value)
    found = context.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize(context)
    return f"{found:f}" if -_DIGITS <= found.adjusted() <= 2 * _DIGITS else f"{float(found):.{_DIGITS}g}"
