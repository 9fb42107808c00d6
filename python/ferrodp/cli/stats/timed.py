"""Dates and times in a command line: as public bounds and edges, as what is released, and as texts of both.

A column of a text is read by what its bounds are: bounds without a time of day are dates, as which a cell with a time
of day counts, too; bounds with one are datetimes; ``08:00,20:00`` are times of day. What a cell becomes depends on that
cell alone, and one that says no such time is missing.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ferrodp.errors import FerroError
from ferrodp.statistics.rows.times import Clock, public_times

TYPES = ("number", "date", "datetime", "time", "seconds", "squared days", "squared seconds")
"""What released values are."""
EXAMPLES = {
    "date": "2020-01-01,2026-01-01",
    "datetime": "2026-01-01T00:00,2026-02-01T00:00",
    "zoned": "2026-01-01T00:00Z,2026-02-01T00:00Z",
    "time": "08:00,20:00",
}
"""How bounds of a typed column of times are written, by what it holds."""
NUMBERS = "0,120"
"""The same of a column of numbers."""
_OF_DAY = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_MOMENT = rf"\d{{4}}-\d\d-\d\d(?:[T ]{_OF_DAY}(?:Z|[+-]\d\d:\d\d)?)?"
_TIMES = re.compile(
    rf"(?P<column>.+?):(?P<times>{_MOMENT}(?:,{_MOMENT})+|{_OF_DAY}(?:,{_OF_DAY})+)(?::(?P<rest>[^:]*))?"
)
_MEANT = re.compile(r".+?:(?:[^:]*,)?\d{4}-\d")
"""Of which at least one date was meant, whatever else it is."""


class Times(NamedTuple):
    """Public dates or times of a column, in ascending order."""

    column: str
    times: tuple[Any, ...]
    rest: str | None
    """What follows after another colon."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """The times as the library computes with them."""
        return tuple(public_times(clock(self.times), self.times, "bounds"))


def clock(times: tuple[Any, ...]) -> Clock:
    """Return of what kind public times are."""
    found = Clock.of(times[0])
    assert found is not None
    return found


def are_alike(times: tuple[Any, ...], example: str) -> bool:
    """Whether bounds are of the kind of an example: a date and a datetime are, as either column takes either."""
    return _kind(times) == _kind(() if (found := parsed(f"x:{example}")) is None else found.times)


def _kind(times: tuple[Any, ...]) -> str:
    return "numbers" if not times else clock(times).kind.replace("dates", "datetimes")


def parsed(text: str) -> Times | None:
    """Parse ``COLUMN:DATE,DATE,...``, or refuse what nearly is that; None if no dates or times are meant."""
    found = _TIMES.fullmatch(text)
    if found is None:
        if _MEANT.match(text):
            raise argparse.ArgumentTypeError(_refused(text))
        return None
    written = found["times"].split(",")
    try:
        if "-" not in written[0]:
            each: list[Any] = [datetime.time.fromisoformat(one) for one in written]
        else:
            each = [datetime.datetime.fromisoformat(one) for one in written]
    except ValueError:
        raise argparse.ArgumentTypeError(_refused(text)) from None
    if all(len(one) == len("2026-01-01") for one in written):
        each = [one.date() for one in each]
    try:
        numbers = public_times(clock(tuple(each)), each, "bounds")
    except FerroError:
        raise argparse.ArgumentTypeError(
            f"{text!r} has times with a zone and without one; give all of them a zone, such as Z, or none"
        ) from None
    if any(not one < other for one, other in itertools.pairwise(numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} must have its dates or times in ascending order, all different")
    return Times(found["column"], tuple(each), found["rest"])


def _refused(text: str) -> str:
    return (
        f"{text!r} must have dates or times of ISO 8601, separated by commas, such as day:2020-01-01,2026-01-01, "
        "at:2026-01-01T08:00,2026-02-01T00:00 or at:08:00,20:00"
    )


def reader(times: tuple[Any, ...]) -> Callable[[str], Any] | None:
    """Return what reads a cell as a time of day; None if the cell is to be a date, with or without one."""
    return _time_of_day if times and isinstance(times[0], datetime.time) else None


def _time_of_day(text: str) -> datetime.time | None:
    try:
        return datetime.time.fromisoformat(text) if ":" in text else None
    except ValueError:
        return None


def type_of(kind: str, times: tuple[Any, ...]) -> str:
    """Return what the values of a statistic of a column with such bounds are."""
    if not times or kind == "histogram":
        return "number"
    of_dates = clock(times).kind == "dates"
    if kind == "standard-deviation":
        return "seconds"
    if kind == "variance":
        return "squared days" if of_dates else "squared seconds"
    if isinstance(times[0], datetime.time):
        return "time"
    return "date" if of_dates and kind != "mean" else "datetime"


def error_unit(kind: str, times: tuple[Any, ...]) -> str | None:
    """Return the unit of the error of a mean or variance of a column with such bounds; None of numbers."""
    if not times:
        return None
    unit = "days" if clock(times).kind == "dates" else "seconds"
    return f"squared {unit}" if kind == "variance" else unit


_UNITS = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))


def span(error: float, unit: str | None) -> str:
    """Return an error to two digits, in a unit that people count in."""
    if unit is None:
        return f"{error:.2g}"
    name, size = next((each for each in _UNITS if unit == "seconds" and error >= 2 * each[1]), (unit, 1.0))
    return f"{error / size:.2g} {name}"


def plain(value: Any) -> Any:
    """Return a time as a text of ISO 8601, and a duration in seconds; a number as it is."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else value


def ends(numbers: tuple[float, ...], times: tuple[Any, ...]) -> list[Any]:
    """Return the bounds of a mean as a mean is written."""
    if not times:
        return list(numbers)
    lower, upper = (clock(times).moment(number, way) for number, way in zip(numbers, ("down", "up"), strict=True))
    return [plain(lower), plain(upper)]


_SMALL = datetime.timedelta(minutes=10)
_LARGE = datetime.timedelta(days=10)
_FIRST = datetime.datetime(1970, 1, 1)


def printed(value: str, lower: str | None, upper: str | None) -> tuple[str, str]:
    """Return a time and its interval in words: to the day or minute where the noise is far wider, ends outward."""
    if lower is None or upper is None:
        return _shown(value, datetime.timedelta(0), 0), ""
    if "-" not in value[:8]:
        return value[:8], f"{lower[:8]} to {upper[:8]}"
    half = (datetime.datetime.fromisoformat(upper) - datetime.datetime.fromisoformat(lower)) / 2
    return _shown(value, half, 0), f"{_shown(lower, half, -1)} to {_shown(upper, half, 1)}"


def _shown(text: str, half: datetime.timedelta, side: int) -> str:
    """Return a time of a text to what its noise deserves: rounded down, to the nearest, or up."""
    if "-" not in text[:8]:
        return text[: len("08:30:00")]
    if len(text) == len("2026-01-01"):
        return text
    moment = datetime.datetime.fromisoformat(text)
    unit = datetime.timedelta(days=1) if half >= _LARGE else datetime.timedelta(minutes=1)
    if half < _SMALL:
        unit = datetime.timedelta(seconds=1)
    naive = moment.replace(tzinfo=None)
    over = (naive - _FIRST) % unit
    # mutant: intervals-of-times-cut-inward
    up = bool(over) and (side > 0 or (side == 0 and 2 * over >= unit))
    try:
        naive = naive - over + (unit if up else datetime.timedelta(0))
    except OverflowError:  # on the last day of the calendar
        naive = naive - over
    if half >= _LARGE:
        return naive.date().isoformat()
    spec = "seconds" if half < _SMALL else "minutes"
    return naive.replace(tzinfo=moment.tzinfo).isoformat(" ", spec)
