"""Tables in Parquet files, by pyarrow, or by polars where only that is installed."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferrodp.cli.stats import timed
from ferrodp.cli.stats.asked import Condition, number
from ferrodp.cli.stats.columns import How, Read, Step, compared_text, compares
from ferrodp.cli.stats.text import number_of
from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.files import FileRefused
from ferrodp.statistics.counts import matching, placed, public_labels
from ferrodp.statistics.rows.gathered import Gathered, Mask, present, read, tested
from ferrodp.statistics.rows.ids import GatheredIds, gathered_ids

_ROWS = 1 << 14


@contextlib.contextmanager
def opened(how: How) -> Iterator[_Typed]:
    """Give the table in a Parquet file, read by what is installed."""
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        parquet = None
    if parquet is not None:
        with contextlib.ExitStack() as stack:
            yield ByArrow(how, parquet, stack)
        return
    try:
        import polars
    except ImportError:
        raise MissingPackage('reading Parquet needs pyarrow or polars: pip install "ferrodp[parquet]"') from None
    yield ByPolars(how, polars)


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


def _typed(names: tuple[str, ...], kind: object, held: str | None, what: str = "keys") -> list[Any]:
    """Return public names as what a column holds, or refuse them; as they are if it holds texts."""
    if held is None:
        return list(names)
    read, accepted = _READ[held]
    try:
        found = [read(name) for name in names]
    except (ValueError, KeyError, decimal.InvalidOperation):
        found = []
    if not found or (held in ("datetime", "zoned") and any((key.tzinfo is None) is (held == "zoned") for key in found)):
        raise InvalidParameter(f"{what} of a column of {kind} must be {accepted}, got {','.join(names)}")
    return found


class _Typed(ABC):
    """A file of columns with types."""

    names: tuple[str, ...]

    def __init__(self, how: How) -> None:
        self._how = how

    def kind(self, column: str) -> str:
        """Return the type of a column, in words."""
        return str(self._kind(column)[0])

    def bounds(self, column: str) -> str | None:
        """Return how bounds of a column are written, by what it holds; None where that is texts."""
        held = self._kind(column)[1]
        return None if held is None else timed.EXAMPLES.get(held, timed.NUMBERS)

    def keys(self, column: str, written: tuple[str, ...]) -> list[Any]:
        """Return public keys as what the column holds, or refuse them."""
        return _typed(written, *self._kind(column))

    @abstractmethod
    def read(self, numbers: set[str], names: set[str], step: Step, ids: str | None = None) -> Read:
        """Return columns of the selected rows."""

    @abstractmethod
    def _kind(self, column: str) -> tuple[object, str | None]:
        """Return the type of a column, and how what it holds is written; None: as texts."""

    @abstractmethod
    def _empty(self, column: str) -> Any:
        """Return the column without rows."""

    def unread(self, numbers: set[str], names: set[str]) -> Read:
        """Return columns without rows."""
        self._tests()
        found = {name: self._gathered(name).column() for name in sorted(numbers | names)}
        return Read(0, found, found)

    def _gathered(self, name: str, *, is_id: bool = False) -> Gathered | GatheredIds:
        gathered = gathered_ids if is_id else Gathered
        return gathered(self._empty(name), f"column {name}")

    def _tests(self) -> list[tuple[str, Callable[[Any], Mask]]]:
        return [(each.column, self._test(each)) for each in self._how.conditions]

    def _test(self, wanted: Condition) -> Callable[[Any], Mask]:
        """Return the test of a block of a column."""
        kind, held = self._kind(wanted.column)
        what = "conditions"
        if wanted.operator in ("=", "!="):
            known = public_labels(_typed(wanted.values, kind, held, what), what)
            known = matching(known, read(self._empty(wanted.column), f"column {wanted.column}"), what)
            if wanted.operator == "=":
                return lambda block: placed(block, known) >= 0
            return lambda block: present(block) & (placed(block, known) < 0)
        test: Callable[[Any], Any]
        if held is None:
            test = compared_text(wanted, number_of)
        else:
            other = number(wanted.written) if held in ("whole", "number") else None
            test = compares(wanted, _typed((wanted.written,), kind, held, what)[0] if other is None else other)
        return lambda block: tested(block, test)


def _selected(tests: list[tuple[str, Callable[[Any], Mask]]], columns: dict[str, Any]) -> Mask | None:
    kept = None
    for name, test in tests:
        found = test(columns[name])
        kept = found if kept is None else kept & found
    return kept


class ByArrow(_Typed):
    """Read by pyarrow, in batches of rows."""

    def __init__(self, how: How, parquet: Any, stack: contextlib.ExitStack) -> None:
        super().__init__(how)
        with self._refusing():
            self._file = stack.enter_context(parquet.ParquetFile(how.path, pre_buffer=False))
            self._schema: Any = self._file.schema_arrow
        self.names = tuple(self._schema.names)
        if len(set(self.names)) < len(self.names):
            raise FileRefused(how.path, "has two columns of one name")

    def read(self, numbers: set[str], names: set[str], step: Step, ids: str | None = None) -> Read:
        """Return columns of the selected rows."""
        tests = self._tests()
        wanted = sorted(numbers | names)
        needed = sorted({*wanted, *(name for name, _ in tests)})
        found = {name: self._gathered(name, is_id=name == ids) for name in wanted}
        rows = size = 0
        total = self._file.metadata.num_rows
        if not needed:
            return Read(total, {}, {})
        with self._refusing():
            for batch in self._file.iter_batches(_ROWS, columns=needed, use_threads=False):
                blocks = {name: read(batch.column(name), f"column {name}") for name in needed}
                kept = _selected(tests, blocks)
                rows += batch.num_rows
                size += batch.num_rows if kept is None else int(np.count_nonzero(kept))
                for name, gathered in found.items():
                    gathered.add(blocks[name], kept)
                step(rows / total)
        columns = {name: gathered.column() for name, gathered in found.items()}
        return Read(size, columns, columns)

    def _empty(self, column: str) -> Any:
        return self._schema.empty_table()[column]

    def _kind(self, column: str) -> tuple[object, str | None]:
        import pyarrow.types as types  # type: ignore[import-untyped,unused-ignore]

        kind = self._schema.field(column).type
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
        return kind, held

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        try:
            yield
        except FileRefused:
            raise
        except (OSError, pyarrow.ArrowException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not a Parquet file"
            raise FileRefused(self._how.path, reason) from None


class ByPolars(_Typed):
    """The same, without pyarrow."""

    def __init__(self, how: How, polars: Any) -> None:
        super().__init__(how)
        self._polars = polars
        self._schema = self._read(polars.read_parquet_schema)
        self.names = tuple(self._schema)

    def read(self, numbers: set[str], names: set[str], step: Step, ids: str | None = None) -> Read:
        """Return columns of the selected rows."""
        tests = self._tests()
        wanted = sorted(numbers | names)
        needed = sorted({*wanted, *(name for name, _ in tests)})
        if not needed:
            length = self._polars.len()
            return Read(
                self._read(lambda path: self._polars.scan_parquet(path).select(length).collect().item()), {}, {}
            )
        frame = self._read(lambda path: self._polars.read_parquet(path, columns=needed))
        blocks = {name: read(frame[name], f"column {name}") for name in needed}
        kept = _selected(tests, blocks)
        columns = {}
        for name in wanted:
            gathered = self._gathered(name, is_id=name == ids)
            gathered.add(blocks[name], kept)
            columns[name] = gathered.column()
        step(1.0)
        return Read(frame.height if kept is None else int(np.count_nonzero(kept)), columns, columns)

    def _empty(self, column: str) -> Any:
        return self._polars.Series(column, [], dtype=self._schema[column])

    def _kind(self, column: str) -> tuple[object, str | None]:
        kind = self._schema[column]
        held = {"Boolean": "truth", "Date": "date", "Time": "time", "Decimal": "decimal"}.get(
            str(kind).partition("(")[0]
        )
        if kind.is_integer() or kind.is_float():
            held = "whole" if kind.is_integer() else "number"
        elif str(kind).startswith("Datetime"):
            held = "datetime" if kind.time_zone is None else "zoned"
        return kind, held

    def _read(self, read: Any) -> Any:
        try:
            return read(self._how.path)
        except (OSError, self._polars.exceptions.PolarsError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not a Parquet file"
            raise FileRefused(self._how.path, reason) from None
