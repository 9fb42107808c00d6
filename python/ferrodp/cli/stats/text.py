"""Tables in texts: CSV, with whatever separator, packed by gzip or not, in a file or from standard input."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ferrodp.cli.stats.asked import Condition
from ferrodp.cli.stats.columns import How, Read, Step, compared_text
from ferrodp.files import FileRefused
from ferrodp.statistics.rows.gathered import Array, Mask, Names
from ferrodp.statistics.rows.ids import Ids

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
_ROWS = 1 << 10


@contextlib.contextmanager
def opened(how: How) -> Iterator[Texts]:
    """Give the table in a text; whatever bytes its rows are made of, reading them does not fail."""
    csv.field_size_limit(sys.maxsize)
    with contextlib.ExitStack() as stack:
        with _refusing(how):
            raw: Any = _standard_input(how) if how.path == "-" else stack.enter_context(open(how.path, "rb"))
            size = 0 if how.path == "-" else os.fstat(raw.fileno()).st_size
            file: Any = stack.enter_context(gzip.GzipFile(fileobj=raw)) if how.is_packed else raw
            lines = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
            stack.callback(lines.detach)
            table = Texts(how, lines, (lambda: raw.tell() / size) if size else None)
        yield table


def _standard_input(how: How) -> BinaryIO:
    if sys.stdin is None:
        raise FileRefused(how.shown, "is closed")
    return sys.stdin.buffer


@contextlib.contextmanager
def _refusing(how: How) -> Iterator[None]:
    try:
        yield
    except FileRefused:
        raise
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None)
        raise FileRefused(how.shown, reason or "is not a whole gzip file") from None


class Texts:
    """Text in UTF-8, the names of the columns in its first line."""

    def __init__(self, how: How, lines: io.TextIOWrapper, share: Callable[[], float] | None) -> None:
        self._how, self._share = how, share
        self._rows = csv.reader(_without_nul(lines), delimiter=how.separator)
        self.names = tuple(next(_whole(self._rows), ()))
        if not any(self.names):
            raise FileRefused(how.shown, "has no names of columns in its first line")
        # mutant: first-row-of-data-shown-as-names
        if all(map(_is_of_numbers, self.names)) and not _are_places(self.names):
            raise FileRefused(how.shown, "has numbers in its first line, where the names of its columns must be")
        if len(set(self.names)) < len(self.names):
            raise FileRefused(how.shown, "has two columns of one name in its first line, where each must have its own")

    def unread(self, numbers: set[str], names: set[str]) -> Read:
        """Return columns without rows."""
        return _Reading(self, numbers, names, None).found()

    def read(self, numbers: set[str], names: set[str], step: Step, ids: str | None = None) -> Read:
        """Return columns of the selected rows."""
        reading = _Reading(self, numbers, names, ids)
        rows = self._checked()
        with _refusing(self._how):
            while block := list(itertools.islice(rows, _ROWS)):
                reading.add(block)
                if self._share is not None:
                    step(self._share())
        return reading.found()

    def kind(self, column: str) -> str:
        """Return what every column of a text holds."""
        return "text"

    def bounds(self, column: str) -> str | None:
        """Return nothing: what a text holds is not known before its rows are read."""
        return None

    def keys(self, column: str, written: tuple[str, ...]) -> list[Any]:
        """Return public keys as they are written."""
        return list(written)

    def cells(self, names: tuple[str, ...]) -> list[list[str]]:
        """Return the text of every cell of some columns."""
        places = [self.names.index(name) for name in names]
        found: list[list[str]] = [[] for _ in places]
        with _refusing(self._how):
            for row in self._checked():
                for cells, place in zip(found, places, strict=True):
                    cells.append(row[place] if place < len(row) else "")
        return found

    def _checked(self) -> Iterator[list[str]]:
        """Yield the rows, without empty lines."""
        width = len(self.names)
        for row in _whole(self._rows):
            if len(row) > width and any(row[width:]):
                line = self._rows.line_num
                raise FileRefused(
                    self._how.shown,
                    f"has more cells in line {line} than names in its first line, which must name all columns",
                )
            if row:
                yield row


class _Reading:
    """What has been read of a text."""

    def __init__(self, table: Texts, numbers: set[str], names: set[str], ids: str | None) -> None:
        how = table._how
        self._number = _reader(how.decimal)
        conditions = [(table.names.index(each.column), _test(each, self._number)) for each in how.conditions]
        self._conditions: list[tuple[int, Callable[[str], Any]]] = conditions
        self._numbers = {name: (table.names.index(name), Array(np.float64)) for name in sorted(numbers)}
        self._names: dict[str, tuple[int, Names | Ids]] = {
            name: (table.names.index(name), Ids(_is_missing) if name == ids else Names(_is_missing))
            for name in sorted(names)
        }
        self._size = 0

    def add(self, block: list[list[str]]) -> None:
        """Add some rows."""
        cells = _Cells(block)
        kept = self._selected(cells)
        self._size += len(block) if kept is None else int(np.count_nonzero(kept))
        for place, array in self._numbers.values():
            found = _each(self._number, cells[place], np.float64)
            array.add(found if kept is None else found[kept])
        for place, names in self._names.values():
            names.add(cells[place], kept)

    def _selected(self, cells: _Cells) -> Mask | None:
        kept = None
        for place, test in self._conditions:
            found = _each(test, cells[place], np.bool_)
            # mutant: last-of-several-conditions-alone
            kept = found if kept is None else kept & found
        return kept

    def found(self) -> Read:
        """Return all that was read."""
        numbers = {name: array.array() for name, (_, array) in self._numbers.items()}
        names = {name: held.column() for name, (_, held) in self._names.items()}
        return Read(self._size, numbers, names)


class _Cells:
    """The columns of some rows; what a short row lacks is an empty cell."""

    def __init__(self, rows: list[list[str]]) -> None:
        self._rows = rows
        self._found: dict[int, Sequence[str]] = {}

    def __getitem__(self, place: int) -> Sequence[str]:
        if place not in self._found:
            try:
                self._found[place] = list(map(itemgetter(place), self._rows))
            except IndexError:
                self._found[place] = [row[place] if place < len(row) else "" for row in self._rows]
        return self._found[place]


def _is_of_numbers(name: str) -> bool:
    """Whether a name is nothing but numbers, whatever stands between them: a row of data then, which is never shown."""
    words = re.split(r"[\s;|,]+", name.strip())
    return not any(words) or all(not math.isnan(number_of(word)) for word in words if word)


def _are_places(names: tuple[str, ...]) -> bool:
    """Whether columns are named 0, 1, 2, ..., perhaps after an index, as pandas names those without names."""
    places = names[1:] if names[0] == "" else names
    return len(names) > 1 and places == tuple(map(str, range(len(places))))


def _each(function: Callable[[str], Any], cells: Sequence[str], dtype: Any) -> npt.NDArray[Any]:
    """Return what a function says of each cell; of many equal ones it is asked once."""
    different = set(cells)
    if 2 * len(different) < len(cells):
        function = {cell: function(cell) for cell in different}.__getitem__
    return np.fromiter(map(function, cells), dtype, len(cells))


def _test(wanted: Condition, read: Callable[[str], float]) -> Callable[[str], bool]:
    if wanted.operator not in ("=", "!="):
        return compared_text(wanted, read)
    known, equal = frozenset(wanted.values), wanted.operator == "="
    return lambda cell: not _is_missing(cell) and (cell in known) is equal


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _whole(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows; one that cannot be taken apart is a row of missing cells."""
    while True:
        try:
            yield from rows
        except csv.Error:
            yield [""]
        else:
            return


def _without_nul(lines: Iterator[str]) -> Iterator[str]:
    return (line.replace("\0", "") if "\0" in line else line for line in lines)


def _reader(decimal: str) -> Callable[[str], float]:
    """Return what reads the number in a cell."""
    if decimal == ".":
        return number_of
    # mutant: point-among-decimal-commas-is-a-decimal-point
    return lambda cell: math.nan if "." in cell else number_of(cell.replace(decimal, "."))


def number_of(cell: str) -> float:
    """Return what a cell denotes, NaN if that is no number: as other readers of CSV have it, not as Python's source."""
    try:
        return math.nan if "_" in cell or not cell.isascii() else float(cell)
    except ValueError:
        return math.nan
