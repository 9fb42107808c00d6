"""Bins of a calendar: hours, days, weeks, months, quarters and years between public dates."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics.rows.times import Clock, public_times

__all__ = ["CalendarBins"]

Every = Literal["hour", "day", "week", "month", "quarter", "year"]
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOST = 10**6


@dataclass(frozen=True, slots=True)
class CalendarBins:
    """Public bins of a column of dates or datetimes, by the calendar.

    They are half open: a row counts in the bin that begins last before it, or with it, and rows before `start` or from
    `end` on in none. Which bin that is depends on the row and on public dates alone, so that bins cost nothing. The
    first and the last bin may be shorter than the others.

    Parameters
    ----------
    start, end : date or datetime
        Public: where the first bin begins, and where the last one ends. Dates for columns of dates, and of datetimes
        without a time zone; datetimes with a time zone for columns that have one, of which the bins begin at midnight
        in the zone of `start`.
    every : {"hour", "day", "week", "month", "quarter", "year"}
        How long a bin is. Weeks begin on Mondays. Hours need datetimes.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or there are more than a million bins.

    Examples
    --------
    >>> import datetime
    >>> import ferrodp as fd
    >>> year = fd.CalendarBins(datetime.date(2024, 1, 1), datetime.date(2025, 1, 1), "quarter")
    >>> [str(day) for day in year.starts]
    ['2024-01-01', '2024-04-01', '2024-07-01', '2024-10-01']
    >>> visits = [datetime.date(2024, 5, 17), datetime.date(2024, 6, 30), None]
    >>> fd.private_histogram(visits, bins=year, epsilon=1.0).labels
    ('2024-01', '2024-04', '2024-07', '2024-10')
    """

    start: datetime.date
    end: datetime.date
    every: Every = "month"

    def __post_init__(self) -> None:
        if self.every not in ("hour", "day", "week", "month", "quarter", "year"):
            raise _validate.out_of_domain("every", '"hour", "day", "week", "month", "quarter" or "year"', self.every)
        for name, value in (("start", self.start), ("end", self.end)):
            clock = Clock.of(value)
            if clock is None or clock.kind in ("durations", "times"):
                raise _validate.wrong_type(name, "a date or a datetime", value, write="datetime.date(2024, 1, 1)")
        one, other = self._clock, Clock.of(self.end)
        if other is None or other.kind != one.kind:
            raise InvalidParameter(f"end must be one of {one.kind}, as start is, got {_validate.shown(self.end)}")
        if self.every == "hour" and one.kind == "dates":
            raise InvalidParameter("start must be a datetime for bins of hours, got a date")
        first, last = public_times(one, [self.start, self.end], "start and end")
        if not first < last:
            raise InvalidParameter(f"start must be before end, got {self.start} and {self.end}")
        shortest = {"hour": 3600, "day": 86_400, "week": 604_800}.get(self.every, 28 * 86_400)
        if (last - first) * one.ticks / 10**6 / shortest > _MOST:
            raise InvalidParameter(f"start and end must be at most {_MOST} bins apart")

    @property
    def _clock(self) -> Clock:
        clock = Clock.of(self.start)
        assert clock is not None  # `__post_init__` refuses others
        return clock

    @property
    def starts(self) -> tuple[datetime.date, ...]:
        """Where each bin begins."""
        found = [self.start]
        for each in self._boundaries():
            if each >= self.end:
                return tuple(found)
            if each > self.start:
                found.append(each)
        return tuple(found)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the bins are called: the hour, day, month or year in which each begins."""
        forms = {"hour": "%Y-%m-%d %H:00", "month": "%Y-%m", "quarter": "%Y-%m", "year": "%Y"}
        starts = self.starts
        named = tuple(each.strftime(forms.get(self.every, "%Y-%m-%d")) for each in starts)
        return named if len(set(named)) == len(named) else tuple(each.isoformat() for each in starts)

    def _boundaries(self) -> Iterator[Any]:
        """Yield where bins begin, from one at or before the start on."""
        start: Any = self.start
        is_moment = isinstance(start, datetime.datetime)
        day: Any = start.replace(hour=0, minute=0, second=0, microsecond=0) if is_moment else start
        try:
            if self.every in _MONTHS:
                months = _MONTHS[self.every]
                month = day.year * 12 + (day.month - 1) // months * months
                while True:
                    yield day.replace(year=month // 12, month=month % 12 + 1, day=1)
                    month += months
            if self.every == "hour":
                # of the instants, so that a day on which clocks change has 23 or 25 hours
                at = start.replace(minute=0, second=0, microsecond=0)
                utc = at if at.tzinfo is None else at.astimezone(datetime.UTC)
                while True:
                    yield utc if at.tzinfo is None else utc.astimezone(at.tzinfo)
                    utc += datetime.timedelta(hours=1)
            day -= datetime.timedelta(day.weekday() if self.every == "week" else 0)
            while True:
                yield day
                day += datetime.timedelta(7 if self.every == "week" else 1)
        except (ValueError, OverflowError):  # beyond the year 9999
            return


def places(bins: CalendarBins, found: Numbers | Labels, name: str) -> npt.NDArray[np.intp]:
    """Return the bin of each row, −1 for none."""
    held = bins._clock.numbers(found, name)
    edges = np.array(public_times(bins._clock, [*bins.starts, bins.end], "bins"))
    place = np.searchsorted(edges, held.values, side="right") - 1
    # mutant: calendar-bins-hold-their-end
    outside = (place < 0) | (place >= edges.size - 1)
    assert held.nulls is not None
    # mutant: missing-times-are-in-a-bin
    return np.where(outside | held.nulls, -1, place)
