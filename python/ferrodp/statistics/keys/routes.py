"""Columns of a table whose rows are in parts: their types, their rows, and which way the rows of a unit go."""

from __future__ import annotations

import datetime
import decimal
import fractions
import hashlib
import importlib
import uuid
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.statistics._column import column_of, names_of, read
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics.keys.contributions import units

__all__: list[str] = []


def columns_of(frame: Any) -> dict[str, Any]:
    """Return the columns of a table by name, or refuse what is none."""
    names = names_of(frame)
    if not all(isinstance(name, str) for name in names):
        raise InvalidParameter("the columns of partitions must have strings as names")
    columns = {name: column_of(frame, name) for name in names}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise InvalidArray("the columns of a partition must have as many rows as one another")
    return columns


def routes_of(columns: dict[str, Any], unit: str) -> npt.NDArray[np.uint64]:
    """Return a number for each row: equal ids have equal ones, in whatever process and of whatever type they are."""
    found = read(column_of(columns, unit), unit)
    if isinstance(found, Labels):
        keys = list(found.compared())
        routes = np.array([*map(_route, keys), 0], np.uint64)
        return routes[:-1] if found.entries is None else routes[found.values]
    if found.values.dtype.kind in "iu":
        return _of_integers(found)
    owners = units(found)
    firsts = np.zeros(owners.max(initial=-1) + 2, np.intp)
    firsts[owners] = np.arange(owners.size)  # a row of each unit; −1, rows without one, is last
    routes = np.array([*map(_route, found.values[firsts[:-1]].tolist()), 0], np.uint64)
    return routes[owners]


def _of_integers(found: Numbers) -> npt.NDArray[np.uint64]:
    """Return the numbers of `_route` for integers, without a loop: Python's hash is a remainder of 2⁶¹ − 1."""
    is_negative = found.values < 0
    wide = found.values.astype(np.uint64)  # modulo 2⁶⁴
    np.negative(wide, out=wide, where=is_negative)
    wide %= np.uint64(2**61 - 1)
    np.negative(wide, out=wide, where=is_negative)
    wide[wide == np.uint64(2**64 - 1)] = np.uint64(2**64 - 2)  # −1 has the hash −2
    if found.nulls is not None:
        wide[found.nulls] = 0
    return wide


def _route(key: Any) -> int:
    """Return 64 bits of an id; those of types that are not known here all have the same."""
    if isinstance(value := getattr(key, "value", key), (bool, int, float, decimal.Decimal, fractions.Fraction)):
        # mutant: ids-that-are-equal-go-two-ways
        return hash(value) % 2**64  # of numbers: the same in every process, and for equal ones of all types
    text: str | bytes | None = None
    if isinstance(value, (str, bytes)):
        text = value
    elif isinstance(value, uuid.UUID):
        text = f"uuid {value.int}"
    elif isinstance(value, datetime.timedelta):
        text = f"duration {value // datetime.timedelta(microseconds=1)}"
    elif isinstance(value, datetime.datetime):
        zoned = value.tzinfo is not None
        origin = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if zoned else None)
        text = f"datetime {zoned} {(value - origin) // datetime.timedelta(microseconds=1)}"
    elif isinstance(value, datetime.date):
        text = f"date {value.toordinal()}"
    elif isinstance(value, tuple):
        text = f"tuple {[_route(each) for each in value]}"
    if text is None:
        return 0
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def type_of(column: Any) -> str:
    """Return the type of a column, in words that differ where columns are read differently."""
    held = getattr(column, "dtype", getattr(column, "type", ""))
    if isinstance(held, np.dtype) and held.kind in "US":
        held = held.kind  # strings of any length
    package = type(column).__module__.partition(".")[0]
    return f"{package}.{'Series' if package == 'pandas' else type(column).__qualname__} {held}"


def taken(column: Any, places: Any) -> Any:
    """Return some rows of a column, of the same type."""
    if isinstance(column, (list, tuple)):
        return type(column)(column[place] for place in places.tolist())
    if hasattr(column, "iloc"):
        return column.iloc[places]
    return column.take(places) if type(column).__module__.partition(".")[0] == "pyarrow" else column[places]


def joined(columns: list[Any]) -> Any:
    """Return the rows of several columns of one type, one after another."""
    first = columns[0]
    package = type(first).__module__.partition(".")[0]
    if isinstance(first, (list, tuple)):
        return type(first)(row for column in columns for row in column)
    if package in ("pandas", "polars", "pyarrow"):
        library: Any = importlib.import_module(package)  # that of the columns, imported already
        if package == "pandas":
            return library.concat(columns, ignore_index=True)
        if package == "polars":
            return library.concat(columns)
        parts = [part for column in columns for part in getattr(column, "chunks", [column])]
        return library.chunked_array(parts, type=first.type)
    return np.concatenate(columns)
