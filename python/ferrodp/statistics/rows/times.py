"""Dates, datetimes, durations and times of day as numbers, and numbers as these again.

What kind a column counts as is decided by its type and by public bounds, edges or candidates, never by a row. A date is
the number of its days since 1970-01-01, a whole one; every other kind a number of seconds: since then, in UTC with a
time zone; of a duration, its length; of a time of day, since midnight. Microseconds are what Python's own types have:
finer parts are cut off toward the past. A float of seconds is the nearest one. With bounds that are dates a datetime
counts as its day.

The number of a row depends on that row alone, and a row of another kind, such as a string among the dates of a list, is
missing. So statistics of times are those of a column of numbers, and their guarantee is that one's. A number that was
released becomes a time again: post-processing. Ends of intervals are rounded outward.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ferrodp._base import _validate
from ferrodp.errors import InvalidArrayType, InvalidParameter
from ferrodp.statistics._foreign import Labels, Numbers

_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_DAY = _EPOCH.toordinal()
_TICK = datetime.timedelta(microseconds=1)
_TICKS = {"dates": 86_400 * 10**6}
_ZONED = "datetimes with a time zone"
_HELD = {
    "dates": ("dates", "datetimes"),
    "datetimes": ("datetimes", "dates"),
    _ZONED: (_ZONED,),
    "durations": ("durations",),
    "times": ("times",),
}
"""What a column may hold, by the kind of its bounds."""


KINDS = frozenset(_HELD)
_ROUNDED: dict[str, Callable[[float], int]] = {"nearest": round, "down": math.floor, "up": math.ceil}


class Clock(NamedTuple):
    """A kind of times, the zone in which they are written, and whether what is released is one of the dates."""

    kind: str
    zone: datetime.tzinfo | None = None
    whole: bool = False

    @classmethod
    def of(cls, value: Any) -> Clock | None:
        """Return the kind of a public time, or None for what is none."""
        plain = _python(value)
        if isinstance(plain, datetime.datetime):
            return cls("datetimes") if plain.tzinfo is None else cls(_ZONED, plain.tzinfo)
        kinds = {datetime.date: "dates", datetime.timedelta: "durations", datetime.time: "times"}
        kind = next((kind for each, kind in kinds.items() if isinstance(plain, each)), None)
        return None if kind is None else cls(kind)

    @property
    def ticks(self) -> int:
        """How many microseconds a unit has: a day for dates, a second for others."""
        return _TICKS.get(self.kind, 10**6)

    def number(self, value: Any) -> float | int | None:
        """Return what a time is as a number, None for what is no time of this kind. Never raises."""
        try:
            found = self._microseconds(_python(value))
        except Exception:
            return None
        if found is None:
            return None
        return found // self.ticks if self.kind == "dates" else found / self.ticks

    def _microseconds(self, value: Any) -> int | None:
        kind = type(value)
        if kind is datetime.datetime:
            if self.kind == _ZONED:
                return None if value.tzinfo is None else _since(value.astimezone(datetime.UTC).replace(tzinfo=None))
            fits = self.kind in ("dates", "datetimes") and value.tzinfo is None
            return _since(value) if fits else None
        if kind is datetime.date:
            day = (value.toordinal() - _FIRST_DAY) * _TICKS["dates"]
            return day if self.kind in ("dates", "datetimes") else None
        if kind is datetime.timedelta:
            return int(value // _TICK) if self.kind == "durations" else None
        if kind is datetime.time and self.kind == "times":
            return int(((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond)
        return None

    def numbers(self, found: Numbers | Labels, name: str) -> Numbers:
        """Return a column of times as numbers; rows that are no such times are missing."""
        if isinstance(found, Numbers) or not (found.is_open or found.kind in _HELD[self.kind]):
            held = found.values.dtype if isinstance(found, Numbers) else found.kind
            raise InvalidArrayType(f"{name} must be {self.kind}, as the bounds are, got {held}")
        entries = found.values.tolist() if found.entries is None else found.entries
        each = [self.number(entry) for entry in entries]
        whole = self.kind == "dates"
        table = np.array([*(0 if one is None else one for one in each), 0], np.int64 if whole else np.float64)
        missing = np.array([*(one is None for one in each), True], np.bool_)
        if found.entries is None:
            return Numbers(table[:-1], missing[:-1], True)
        # mutant: missing-times-count-as-the-first-day
        return Numbers(table[found.values], missing[found.values], True)

    def moment(self, number: float, toward: str = "nearest") -> Any:
        """Return the time that a number is, rounded to a microsecond; of dates a day or, of means, a datetime."""
        if self.kind == "dates" and self.whole:
            rounded = _ROUNDED[toward](number)
            day = min(max(rounded + _FIRST_DAY, 1), datetime.date.max.toordinal())
            return datetime.date.fromordinal(day)
        ticks = _ROUNDED[toward](number * self.ticks)
        if self.kind == "durations":
            most = datetime.timedelta.max // _TICK
            return datetime.timedelta(microseconds=min(max(ticks, -most), most))
        if self.kind == "times":
            of_day = _EPOCH + datetime.timedelta(microseconds=min(max(ticks, 0), 86_400 * 10**6 - 1))
            return of_day.time()
        first, last = _since(datetime.datetime.min), _since(datetime.datetime.max)
        moment = _EPOCH + datetime.timedelta(microseconds=min(max(ticks, first), last))
        if self.zone is None:
            return moment
        return moment.replace(tzinfo=datetime.UTC).astimezone(self.zone)

    def moments(self, value: Any, toward: str = "nearest") -> Any:
        """Return the time of each number: of an array times of numpy, or objects where numpy has none."""
        if not isinstance(value, np.ndarray):
            return self.moment(float(value), toward)
        each = [self.moment(number, toward) for number in value.tolist()]
        if self.zone is not None or self.kind == "times":
            found = np.empty(len(each), object)
            found[:] = each
            return found
        if self.kind == "durations":
            return np.array(each, "timedelta64[us]")
        return np.array(each, "datetime64[D]" if self.kind == "dates" and self.whole else "datetime64[us]")

    def plain(self, value: Any) -> Any:
        """Return the number of each time again; of one number, or of an array."""
        if not isinstance(value, np.ndarray):
            return self._again(value)
        return np.array([self._again(each) for each in value.tolist()], np.float64)

    def _again(self, value: Any) -> float:
        found = self._microseconds(value)
        assert found is not None
        return found / self.ticks

    def span(self, number: float) -> Any:
        """Return a standard error as a duration."""
        ticks = min(number * self.ticks, float(datetime.timedelta.max // _TICK - 2**20))
        return datetime.timedelta(microseconds=round(ticks))

    def between(self, lower: float, upper: float) -> str:
        """Return bounds in words."""
        ends = self._replace(whole=True)
        return f"[{ends.moment(lower)}, {ends.moment(upper)}]"


def _python(value: Any) -> Any:
    """Return a time of numpy or pandas as one of Python, cut to microseconds toward the past."""
    kind = type(value)
    if kind is np.datetime64:
        coarse = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D")
        return value.astype("datetime64[D]" if coarse else "datetime64[us]").item()
    if kind is np.timedelta64:
        return value.astype("timedelta64[us]").item()
    if str(kind.__module__).partition(".")[0] == "pandas":
        if kind.__name__ == "Timestamp":
            return value.to_pydatetime(warn=False)
        return value.to_pytimedelta() if kind.__name__ == "Timedelta" else None
    return value


def _since(value: datetime.datetime) -> int:
    return (value - _EPOCH) // _TICK


def clock_of(values: Any) -> Clock | None:
    """Return the kind that all public times of a list have, or None if the first is no time."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        values = list(values)
    if not isinstance(values, (list, tuple)) or not len(values):
        return None
    return Clock.of(values[0])


def public_times(clock: Clock, values: Sequence[Any], name: str) -> list[float]:
    """Return public times as numbers, or refuse those of another kind."""
    numbers = [clock.number(each) for each in values]
    found = [number for number in numbers if number is not None]
    kinds = {getattr(Clock.of(each), "kind", type(each).__name__) for each in values}
    if len(found) < len(numbers) or len(kinds) > 1:
        raise InvalidArrayType(f"{name} must all be {clock.kind}, got {', '.join(sorted(kinds))}")
    return [float(number) for number in found]


def of_bounds(bounds: Any) -> tuple[Clock | None, Any]:
    """Return the kind of bounds that are times, and them as numbers; other bounds as they are."""
    clock = clock_of(bounds)
    if clock is None or len(bounds) != 2:
        return None, bounds
    lower, upper = public_times(clock, list(bounds), "bounds")
    if not lower < upper:
        write = f"({bounds[1]!r}, {bounds[0]!r})" if upper < lower else "two different times"
        raise InvalidParameter(f"bounds must be in ascending order, got {_validate.shown(bounds)}; write {write}")
    return clock, (lower, upper)


def read_texts(found: Numbers | Labels, read: Callable[[str], Any]) -> Numbers | Labels:
    """Return a column of texts as the times that these say, by `read`, which returns None for what is none.

    What a row becomes depends on its own text. Columns of other types are left as they are: their statistic refuses
    those that hold no times.
    """
    if isinstance(found, Numbers) or found.kind != "strings" or found.entries is None:
        return found
    # mutant: texts-that-are-no-dates-count-as-a-day
    entries = [read(str(entry).strip()) for entry in found.entries]
    return replace(found, kind="a list", entries=entries, is_list=True, all_different=False)
