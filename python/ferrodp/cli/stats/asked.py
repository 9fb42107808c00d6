"""What is asked of a table, in words of the command line: ``age:0,120``, ``region=north,south``."""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import re
import shlex
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, get_args

from ferrodp.cli.stats import timed
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics.keys.contributions import Contribution
from ferrodp.statistics.rows.calendars import CalendarBins, Every


class Asked(NamedTuple):
    """One statistic of a column, or of the rows where there is none."""

    kind: str
    column: str | None = None
    numbers: tuple[float, ...] = ()
    """Bounds, or edges of bins; of dates and times the numbers that the library computes with."""
    times: tuple[Any, ...] = ()
    """The same as dates or times, of a column of them."""
    quantiles: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    axes: tuple[Asked, ...] = ()
    """The columns of tables, each with its bins or categories."""
    of: int = 0
    """How many columns a table has."""
    missing: str = ""
    """What is not given, as a refusal: all that a plan can do without."""
    way: str = ""
    """How it is given."""
    calendar: CalendarBins | None = None
    """Bins of a column of dates or times."""

    @property
    def ends(self) -> tuple[Any, ...]:
        """Bounds or edges as the library takes them."""
        return self.times or self.numbers

    @property
    def is_timed(self) -> bool:
        """Whether the column is read as one of dates or times."""
        return bool(self.times) or self.calendar is not None


class Keys(NamedTuple):
    """A column of groups, and their public keys."""

    column: str
    keys: tuple[str, ...]
    calendar: CalendarBins | None = None
    """Days, months or other parts of a calendar that are the keys."""
    missing: str = ""
    way: str = ""


class Finding(NamedTuple):
    """How keys of groups are found in the data, and with which δ."""

    method: str
    delta: float


class Setting(NamedTuple):
    """What all statistics of a command share."""

    relation: NeighboringRelation
    limit: Contribution
    """Of how many rows a unit has, in how many groups."""
    unit: str | None = None
    by: Keys | None = None
    finding: Finding | None = None
    paid: EpsilonDeltaEvent | None = None
    """What finding keys may spend; None if keys are given, or a plan knows no epsilon."""


class Condition(NamedTuple):
    """What a value of a column must be for a row to be selected."""

    column: str
    operator: str
    written: str

    @property
    def values(self) -> tuple[str, ...]:
        """The values of which it must be one, or none."""
        return tuple(self.written.split(","))


_DATES = "day:2020-01-01,2026-01-01"
_CALENDAR = re.compile(r"(?P<column>.+?):(?P<start>\d[^.]*)\.\.(?P<end>\d[^.]*):(?P<part>[a-z]+)")
_CONDITION = re.compile(r"(?P<column>[^<>=!]+)(?P<operator>!=|<=|>=|=|<|>)(?P<value>.+)")


def condition(text: str) -> Condition:
    """Parse ``COLUMN=VALUE,...``, ``COLUMN!=VALUE,...``, or ``COLUMN>=VALUE`` with a number, a date or a time."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not COLUMN=VALUE,VALUE,... or COLUMN>=VALUE, such as region=north or 'age>=18'"
        )
    wanted = Condition(found["column"], found["operator"], found["value"])
    if wanted.written.startswith("="):
        raise argparse.ArgumentTypeError(
            f"{text!r} has two signs =; write {_quoted(wanted.column + wanted.operator[0] + wanted.written.strip('='))}"
        )
    if wanted.operator not in ("=", "!=") and all(parse(wanted.written) is None for parse in (number, moment, of_day)):
        raise argparse.ArgumentTypeError(
            f"{text!r} does not compare with a number, or with a date or a time such as 2026-01-31"
        )
    return wanted


def number(text: str) -> float | int | None:
    """Return a number as it is written, None if a text is none."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text) if text.strip().lower() != "nan" else None
    except ValueError:
        return None


def moment(text: str) -> datetime.datetime | None:
    """Return a date, or a date and a time of day, of ISO 8601; None if a text is none."""
    try:
        return datetime.datetime.fromisoformat(text) if "-" in text else None
    except ValueError:
        return None


def of_day(text: str) -> datetime.time | None:
    """Return a time of day of ISO 8601; None if a text is none."""
    try:
        return datetime.time.fromisoformat(text)
    except ValueError:
        return None


def separator(text: str) -> str:
    """Take one character, or ``tab``."""
    found = "\t" if text in ("tab", "\\t") else text
    if len(found) != 1 or found in '"\r\n\0' or found.isalnum():
        raise argparse.ArgumentTypeError(f"{text!r} is not one character such as ; nor tab")
    return found


def bounded(kind: str) -> Callable[[str], Asked]:
    """Return a parser of ``COLUMN:LOWER,UPPER``."""

    def parse(text: str) -> Asked:
        if ":" not in text:
            refused = f"argument --{kind}: {text!r} is not COLUMN:LOWER,UPPER, such as age:0,120"
            return Asked(kind, text, missing=refused, way=f"public bounds: --{kind} {_quoted(f'{text}:LOWER,UPPER')}")
        if (found := timed.parsed(text)) is not None:
            if found.rest is not None or len(found.times) != 2:
                raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN:LOWER,UPPER, such as {_DATES}")
            if kind == "sum":
                raise argparse.ArgumentTypeError(f"{text!r} has dates or times, which have no sum; take --mean")
            return Asked(kind, found.column, found.numbers, found.times)
        column, numbers = _after_colon(text)
        if len(numbers) != 2:
            raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN:LOWER,UPPER, such as age:0,120")
        return Asked(kind, column, numbers)

    return parse


def quantiles(text: str) -> Asked:
    """Parse ``COLUMN:LOWER,UPPER:Q,Q,...``."""
    if (found := timed.parsed(text)) is not None:
        if len(found.times) != 2:
            raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN:LOWER,UPPER:Q,Q,..., such as {_DATES}:0.25,0.5")
        if found.rest is None:
            refused = f"argument --quantiles: {text!r} is not COLUMN:LOWER,UPPER:Q,Q,..., such as {text}:0.25,0.5"
            return Asked(
                "quantiles", found.column, missing=refused, way=f"quantiles: --quantiles {_quoted(f'{text}:Q,Q,...')}"
            )
        return Asked("quantiles", found.column, found.numbers, found.times, _numbers(text, found.rest))
    if text.count(":") < 2:
        column, colon, ends = text.partition(":")
        refused = f"{text!r} is not COLUMN:LOWER,UPPER:Q,Q,..., such as age:0,120:0.25,0.5"
        if colon and len(_after_colon(text)[1]) != 2:
            raise argparse.ArgumentTypeError(refused)
        wanted = f"{column}:{ends or 'LOWER,UPPER'}:Q,Q,..."
        way = f"--quantiles {_quoted(wanted)}"
        what = "quantiles" if colon else "public bounds and quantiles"
        return Asked("quantiles", column, missing=f"argument --quantiles: {refused}", way=f"{what}: {way}")
    rest, _, last = text.rpartition(":")
    column, numbers = _after_colon(rest) if ":" in rest else (rest, ())
    if len(numbers) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN:LOWER,UPPER:Q,Q,..., such as age:0,120:0.25,0.5")
    return Asked("quantiles", column, numbers, quantiles=_numbers(text, last))


def named(kind: str) -> Callable[[str], Asked]:
    """Return a parser of the name of a column, of which nothing else is given."""
    return functools.partial(Asked, kind)


def calendar(text: str) -> tuple[str, CalendarBins] | None:
    """Parse ``COLUMN:START..END:PART``; None if a text has no such two dates."""
    found = _CALENDAR.fullmatch(text)
    if found is None and not _CALENDAR.fullmatch(f"{text}:day"):  # without a part
        return None
    start: datetime.date | None = moment(found["start"]) if found is not None else None
    end: datetime.date | None = moment(found["end"]) if found is not None else None
    part = next((part for part in get_args(Every) if found is not None and part == found["part"]), None)
    if found is None or start is None or end is None or part is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not COLUMN:START..END:PART with two dates, such as day:2026-01-01..2027-01-01:month, and one "
            f"of the parts {', '.join(get_args(Every))}"
        )
    # Without times of day the bins are of dates, as which datetimes count, too.
    if len(found["start"]) == len(found["end"]) == len("2026-01-01") and part != "hour":
        start, end = (datetime.date(each.year, each.month, each.day) for each in (start, end))
    try:
        return found["column"], CalendarBins(start, end, part)
    except FerroError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def histogram(text: str) -> Asked:
    """Parse ``COLUMN:EDGE,EDGE,...``, ``COLUMN=NAME,NAME,...`` or ``COLUMN:START..END:PART``; edges may be dates."""
    if (of_dates := calendar(text)) is not None:
        return Asked("histogram", of_dates[0], calendar=of_dates[1])
    if "=" in text:
        found = keys(text)
        return Asked("histogram", found.column, categories=found.keys)
    if (of_times := timed.parsed(text)) is not None:
        if of_times.rest is not None:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not COLUMN:EDGE,EDGE,..., such as {_DATES}, nor COLUMN:START..END:PART, such as "
                "day:2026-01-01..2027-01-01:month"
            )
        return Asked("histogram", of_times.column, of_times.numbers, of_times.times)
    if ":" not in text:
        refused = f"argument --histogram: {text!r} is not COLUMN:EDGE,... or COLUMN=NAME,..., such as age:0,20,120"
        ways = [_quoted(text + more) for more in (":EDGE,EDGE,...", "=NAME,NAME,...", ":START..END:month")]
        way = f"public edges or names: --histogram {ways[0]} or {ways[1]} or, of dates, {ways[2]}"
        return Asked("histogram", text, missing=refused, way=way)
    column, numbers = _after_colon(text)
    return Asked("histogram", column, numbers)


def keys(text: str) -> Keys:
    """Parse ``COLUMN=NAME,NAME,...`` or ``COLUMN:START..END:PART``."""
    if (of_dates := calendar(text)) is not None:
        return Keys(of_dates[0], (), of_dates[1])
    column, equals, names = text.partition("=")
    if column and not equals:
        refused = f"argument --group-by: {text!r} is not COLUMN=NAME,NAME,..., such as region=north,south"
        refused += "; or add --find-keys threshold:1e-6, which finds its keys at a price"
        way = f"public keys: --group-by {_quoted(f'{column}=KEY,KEY,...')}"
        way += "; or add --find-keys threshold:1e-6, which finds them"
        return Keys(column, (), missing=refused, way=way)
    if not (column and equals and names):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=NAME,NAME,..., such as region=north,south")
    return Keys(column, tuple(names.split(",")))


def _quoted(text: str) -> str:
    """Return a word of a command line as a shell takes it: in quotes, if a column has a space in its name."""
    return shlex.quote(text)


def check(asked: Asked) -> None:
    """Refuse public numbers and names that no statistic takes, in the words of a command line."""
    if asked.kind == "marginals" and not 1 <= asked.of <= len(asked.axes):
        raise InvalidParameter(
            "--marginals must begin with how many of its columns a table has, "
            f"from 1 to {len(asked.axes)}, got {asked.of}"
        )
    for each in asked.axes or (asked,):
        about = f"--{asked.kind} {_quoted(each.column or '')}"
        if each.numbers and not each.times:
            what = "two edges or more" if each.kind == "histogram" else "two bounds"
            _check_ascending(f"{about} must have {what} in ascending order", asked.kind, each)
        if each.quantiles:
            _check_quantiles(about, each)
        check_names(about, each.categories)


def check_names(about: str, names: tuple[str, ...]) -> None:
    """Refuse public names of which one is there twice."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameter(f"{about} must have each of its names once, got {twice!r} twice")


def _check_ascending(must: str, kind: str, asked: Asked) -> None:
    numbers = asked.numbers
    if len(numbers) >= 2 and all(low < high for low, high in itertools.pairwise(numbers)):
        return
    ordered = sorted({each for each in numbers if each == each})
    more = f":{_written(asked.quantiles)}" if asked.quantiles else ""
    way = f"; write --{kind} {_quoted(f'{asked.column}:{_written(ordered)}{more}')}" if len(ordered) >= 2 else ""
    raise InvalidParameter(f"{must}, got {_written(numbers)}{way}")


def _check_quantiles(about: str, asked: Asked) -> None:
    levels = asked.quantiles
    wrong = next((level for level in levels if not 0.0 <= level <= 1.0), None)
    if wrong is not None:
        way = f"; for {wrong:g} % write {wrong / 100:g}" if 1.0 < wrong <= 100.0 else ""
        raise InvalidParameter(f"{about} must have quantiles in [0, 1], got {wrong:g}{way}")
    ordered = sorted(set(levels))
    if list(levels) != ordered:
        raise InvalidParameter(
            f"{about} must have quantiles in ascending order, got {_written(levels)}; write {_written(ordered)}"
        )


def _written(numbers: Iterable[float]) -> str:
    return ",".join(f"{each:.15g}" for each in numbers)


def _after_colon(text: str) -> tuple[str, tuple[float, ...]]:
    column, colon, numbers = text.rpartition(":")
    if not (column and colon):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN:LOWER,UPPER, such as age:0,120")
    return column, _numbers(text, numbers)


def _numbers(text: str, part: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in part.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} does not end in numbers with commas between them, such as age:0,120"
        ) from None
