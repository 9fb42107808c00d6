"""What labels and ids are compared by: `==` and `hash`, of any hashable type, one row at a time.

The class of a row depends on that row alone. A row that is missing, that cannot be hashed, or that is not equal to
itself has no key. Whatever code the type of a row brings for `==` and `hash`, an exception in it never leaves: it
counts as "not equal", or as no key. The keys of two rows are equal if `==` says so in either order; that is an
equivalence for every type that keeps what Python requires of hashable types.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ferrodp import _arrays

__all__ = ["canonical", "is_missing", "keys_of", "number"]

_SAFE = frozenset(
    (str, np.str_, bool, int, bytes, np.bool_, np.int64, np.uint64, np.int32, datetime.date, datetime.timedelta)
)
"""Types whose `==` and `hash` run no code of others', and whose values all equal themselves."""
_ZONE = "datetime with a time zone"


class _Guarded:
    """A key whose own code for `==` may raise."""

    __slots__ = ("hash", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.hash = value, hash(value)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        try:
            return bool(self.value == (other.value if type(other) is _Guarded else other))
        except Exception:
            return False


def is_missing(value: object) -> bool:
    """Return whether a label stands for nothing: None, NaN, NaT or NA; no code of the label's own is run."""
    kind = type(value)
    if value is None or kind is float or kind is np.float64:
        return value is None or value != value
    if kind in _SAFE:
        return False
    if kind in (np.float32, np.float16, np.longdouble):
        return bool(value != value)
    if kind in (np.datetime64, np.timedelta64):
        return bool(np.isnat(value))  # type: ignore[call-overload]  # one of the two
    if kind is decimal.Decimal:
        return decimal.Decimal.is_nan(value)  # type: ignore[arg-type]  # one
    return kind.__name__ in ("NAType", "NaTType")


def keys_of(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield what each row is compared by, None for one without a key."""
    safe = _SAFE
    for row in rows:
        # mutant: id-of-another-type-is-none
        yield row if type(row) in safe else _key(row)


def _key(row: Any) -> Any:
    if is_missing(row):
        return None
    kind = type(row)
    if kind is float or kind is np.float64:
        return row
    try:
        if issubclass(kind, np.generic):
            row = _plain(row)
        key = _Guarded(row)
        # mutant: raising-comparison-of-an-id-leaves
        return key if row == row else None
    except Exception:
        return None


def _plain(row: Any) -> Any:
    """Return a number or time of numpy as one of Python that equals it, so that equal ones have one hash."""
    if type(row) is np.datetime64 and np.datetime_data(row.dtype)[0] not in ("Y", "M", "W", "D"):
        exact = row.astype("datetime64[us]")
        return exact.item() if exact == row else row
    if type(row) is np.datetime64:
        return row.astype("datetime64[D]").item()
    if type(row) is np.timedelta64:
        exact = row.astype("timedelta64[us]")
        return exact.item() if exact == row else row
    return row.item()


def number(value: Any) -> float:
    """Return what a Python object is as a number, rounded to nearest; NaN if it is none. Never raises."""
    kind = type(value)
    if kind is float or kind is np.float64:
        return float(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, int):
        return float(_arrays.clamped(int.__index__(value)))
    if kind is np.ndarray and not value.shape:
        value, kind = value[()], value.dtype.type
    if issubclass(kind, (np.bool_, np.integer, np.floating)) and not issubclass(kind, np.timedelta64):
        return float(np.ndarray.item(np.asarray(value)))
    if kind is decimal.Decimal or kind is fractions.Fraction:
        try:
            return float(value)
        except ValueError:  # a signaling NaN
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, value)
    return math.nan


def canonical(value: Any) -> tuple[str, Any, Any] | None:
    """Return for a label its type, how it sorts among those, and a form that equal labels of that type share.

    None for a missing one, and for types of which equal values may look different: which of them came first must not
    show. 1, 1.0 and True are equal, and have three types. Never raises.
    """
    try:
        return None if is_missing(value) else _canonical(value)
    except Exception:  # a time before the year 1 in another zone, for instance
        return None


def _canonical(value: Any) -> tuple[str, Any, Any] | None:
    kind: Any = type(value)
    if issubclass(kind, np.generic):
        value = _plain(value)
        kind = type(value)
    name = kind.__name__
    if kind is float:
        value = value + 0.0
    elif kind is datetime.datetime:
        if value.tzinfo is not None:
            name, value = _ZONE, value.astimezone(datetime.UTC)
        value = value.replace(fold=0)
    elif kind is decimal.Decimal:
        parts = value.as_tuple()
        digits, exponent = list(parts.digits), parts.exponent
        if not isinstance(exponent, int):
            return None
        while len(digits) > 1 and not digits[-1]:
            digits.pop()
            exponent += 1
        value = decimal.Decimal((parts.sign, digits, exponent)) if any(digits) else decimal.Decimal(0)
    elif kind is uuid.UUID:
        value = uuid.UUID(int=value.int)
    elif kind is tuple:
        parts_of = [canonical(each) for each in value]
        if any(part is None for part in parts_of):
            return None
        value = tuple(part[2] for part in parts_of if part is not None)
        return name, repr(value), value
    elif name == "Timestamp" and type(value).__module__.partition(".")[0] == "pandas":
        if value.tzinfo is not None:
            name, value = _ZONE, value.tz_convert("UTC")
    elif kind not in _SAFE and not (name in ("Timedelta", "Period") and kind.__module__.startswith("pandas")):
        return None
    return name, value, value
