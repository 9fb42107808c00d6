"""Tables in files: CSV by the standard library, Parquet by pyarrow, or by polars where only that is installed.

What is in a cell never raises: one that holds no number, such as "1,234.5", is missing, and so is one that a short row
lacks. Names of columns, the types of a Parquet file, and that no line of a CSV file has more cells than its first are
public: they are the structure of the file. A line that has more is refused, as its cells belong to no column, and a
decimal comma would pass for two numbers.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.files import FileRefused

SUFFIXES = ".csv", ".parquet"
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))


class Table(Protocol):
    """A file whose rows are read once, after its names are known."""

    names: tuple[str, ...]

    def columns(self, names: set[str], *, empty: bool = False) -> dict[str, Any]:
        """Return the columns, or with `empty` columns of the same types without rows, and nothing is read."""

    def numbers(self, column: Any) -> Any:
        """Return a column whose numbers are requested."""

    def labels(self, column: Any, names: tuple[str, ...]) -> Any:
        """Return public names as what the column holds."""


def table(path: str) -> Table:
    """Return the table in a file, by the ending of its name.

    Raises
    ------
    FileRefused
        If it cannot be read, or is none.
    """
    suffix = path[path.rfind(".") :].lower()
    if suffix == ".csv":
        return _Csv(path)
    if suffix == ".parquet":
        return _parquet(path)
    raise FileRefused(path, "must end in .csv or .parquet")


class _Csv:
    """Text in UTF-8, the names of the columns in its first line."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._rows() as rows:
            self.names = tuple(next(rows, ()))
        if not any(self.names):
            raise FileRefused(path, "has no names of columns in its first line")
        if len(set(self.names)) < len(self.names):
            raise FileRefused(path, "has two columns of one name")

    def columns(self, names: set[str], *, empty: bool = False) -> dict[str, Any]:
        places = {name: self.names.index(name) for name in names}
        found: dict[str, list[str]] = {name: [] for name in names}
        size = 0
        if not empty:
            with self._rows() as rows:
                next(rows, None)
                for row in _total(rows):
                    if not row:  # an empty line
                        continue
                    if any(row[len(self.names) :]):
                        raise FileRefused(self._path, f"has more cells in line {rows.line_num} than names in its first")
                    size += 1
                    for name, place in places.items():
                        found[name].append(row[place] if place < len(row) else "")
        return {"": np.ones(size, np.int64), **{name: Text(cells) for name, cells in found.items()}}

    def numbers(self, column: Text) -> npt.NDArray[np.float64]:
        return np.fromiter(map(_number, column.cells), np.float64, len(column.cells))

    def labels(self, column: Text, names: tuple[str, ...]) -> Any:
        return list(names)

    @contextmanager
    def _rows(self) -> Iterator[Any]:
        """Give the rows; whatever bytes they are made of, reading them does not fail."""
        csv.field_size_limit(sys.maxsize)
        try:
            with open(self._path, encoding="utf-8-sig", errors="replace", newline="") as file:
                yield csv.reader(_without_nul(file))
        except FileRefused:
            raise
        except (OSError, ValueError) as error:
            raise FileRefused(self._path, getattr(error, "strerror", None) or "cannot be read") from None


class Text:
    """A column of a CSV file, before it is known what its cells are."""

    def __init__(self, cells: list[str]) -> None:
        self.cells = cells

    def present(self) -> list[str | None]:
        """Return the cells, None for those that mean that something is missing."""
        return [None if cell.strip().lower() in _MISSING else cell for cell in self.cells]


def _total(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows; one that cannot be taken apart is a row of missing cells."""
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield [""]


def _without_nul(file: TextIO) -> Iterator[str]:
    for line in file:
        yield line.replace("\0", "") if "\0" in line else line


def _number(cell: str) -> float:
    """Return what a cell denotes, NaN if that is no number: as other readers of CSV have it, not as Python's source."""
    try:
        return math.nan if "_" in cell or not cell.isascii() else float(cell)
    except ValueError:
        return math.nan


def _parquet(path: str) -> Table:
    """Return a Parquet file, read by what is installed."""
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        parquet = None
    if parquet is not None:
        return _Parquet(path, parquet)
    try:
        import polars
    except ImportError:
        raise MissingPackage('reading Parquet needs pyarrow or polars: pip install "ferrodp[parquet]"') from None
    return _ByPolars(path, polars)


def _truth(text: str) -> bool:
    """Return what a text says of a truth value."""
    return {"true": True, "false": False}[text.lower()]


_READ: dict[str, tuple[Callable[[str], Any], str]] = {
    "whole": (int, "numbers"),
    "number": (float, "numbers"),
    "truth": (_truth, "true or false"),
    "date": (datetime.date.fromisoformat, "dates such as 2026-01-31"),
    "datetime": (datetime.datetime.fromisoformat, "times such as 2026-01-31T12:00"),
    "zoned": (datetime.datetime.fromisoformat, "times such as 2026-01-31T12:00+00:00"),
    "time": (datetime.time.fromisoformat, "times such as 12:00"),
    "decimal": (decimal.Decimal, "numbers"),
}
"""How a key of a column is written, by what the column holds."""


def _typed(names: tuple[str, ...], kind: object, held: str | None) -> list[Any]:
    """Return public names as what a column holds, or refuse them; as they are if it holds texts."""
    if held is None:
        return list(names)
    read, accepted = _READ[held]
    try:
        found = [read(name) for name in names]
    except (ValueError, KeyError, decimal.InvalidOperation):
        found = []
    if not found or (held in ("datetime", "zoned") and any((key.tzinfo is None) is (held == "zoned") for key in found)):
        raise InvalidParameter(f"keys of a column of {kind} must be {accepted}, got {','.join(names)}")
    return found


class _Parquet:
    """A file of columns with types."""

    def __init__(self, path: str, parquet: Any) -> None:
        self._path = path
        self._parquet = parquet
        self._schema: Any = self._read(parquet.read_schema)
        self.names = tuple(self._schema.names)
        if len(set(self.names)) < len(self.names):
            raise FileRefused(path, "has two columns of one name")

    def columns(self, names: set[str], *, empty: bool = False) -> dict[str, Any]:
        if empty:
            found: Any = self._schema.empty_table()
        else:
            found = self._read(lambda path: self._parquet.read_table(path, columns=sorted(names)))
        return {"": np.ones(found.num_rows, np.int64), **{name: found[name] for name in names}}

    def numbers(self, column: Any) -> Any:
        return column

    def labels(self, column: Any, names: tuple[str, ...]) -> Any:
        import pyarrow.types as types  # type: ignore[import-untyped,unused-ignore]

        kind = column.type
        if types.is_dictionary(kind):
            kind = kind.value_type
        tests = {
            "whole": types.is_integer,
            "number": types.is_floating,
            "truth": types.is_boolean,
            "date": types.is_date,
            "time": types.is_time,
            "decimal": types.is_decimal,
        }
        held = next((name for name, holds in tests.items() if holds(kind)), None)
        if types.is_timestamp(kind):
            held = "datetime" if kind.tz is None else "zoned"
        return _typed(names, kind, held)

    def _read(self, read: Any) -> Any:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        try:
            return read(self._path)
        except (OSError, pyarrow.ArrowException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not a Parquet file"
            raise FileRefused(self._path, reason) from None


class _ByPolars:
    """The same, without pyarrow."""

    def __init__(self, path: str, polars: Any) -> None:
        self._path, self._polars = path, polars
        self.names = tuple(self._read(polars.read_parquet_schema))

    def columns(self, names: set[str], *, empty: bool = False) -> dict[str, Any]:
        rows = 0 if empty else None
        found = self._read(lambda path: self._polars.read_parquet(path, columns=sorted(names), n_rows=rows))
        length = self._polars.len()
        size = 0 if empty else self._read(lambda path: self._polars.scan_parquet(path).select(length).collect().item())
        return {"": np.ones(size, np.int64), **{name: found[name] for name in names}}

    def numbers(self, column: Any) -> Any:
        return column

    def labels(self, column: Any, names: tuple[str, ...]) -> Any:
        kind = column.dtype
        held = {"Boolean": "truth", "Date": "date", "Time": "time", "Decimal": "decimal"}.get(
            str(kind).partition("(")[0]
        )
        if kind.is_integer() or kind.is_float():
            held = "whole" if kind.is_integer() else "number"
        elif str(kind).startswith("Datetime"):
            held = "datetime" if kind.time_zone is None else "zoned"
        return _typed(names, kind, held)

    def _read(self, read: Any) -> Any:
        try:
            return read(self._path)
        except (OSError, self._polars.exceptions.PolarsError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not a Parquet file"
            raise FileRefused(self._path, reason) from None
