"""How a table is to be read, what is read of it, and which of its rows are selected."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

from ferrodp.cli.stats.asked import Condition, moment, number, of_day

Step = Callable[[float], None]
"""Is told what share of a file has been read."""


class How(NamedTuple):
    """How a file is to be read."""

    path: str
    separator: str = ","
    decimal: str = "."
    is_packed: bool = False
    """Whether gzip packed it."""
    conditions: tuple[Condition, ...] = ()

    @property
    def shown(self) -> str:
        """The file in words."""
        return "standard input" if self.path == "-" else self.path


class Read(NamedTuple):
    """What was read: how many rows were selected, and their columns."""

    rows: int
    numbers: dict[str, Any]
    names: dict[str, Any]
    """The columns whose values are compared, by name."""


class Table(Protocol):
    """A file whose rows are read once, after its names are known."""

    names: tuple[str, ...]

    def read(self, numbers: set[str], names: set[str], step: Step, ids: str | None = None) -> Read:
        """Return columns of the selected rows; of the names in `ids` it only matters which are equal."""

    def unread(self, numbers: set[str], names: set[str]) -> Read:
        """Return columns of the same types without rows; nothing is read."""

    def kind(self, column: str) -> str:
        """Return the type of a column, in words."""

    def bounds(self, column: str) -> str | None:
        """Return how bounds of a column are written, by what it holds; None where that is texts."""

    def keys(self, column: str, written: tuple[str, ...]) -> list[Any]:
        """Return public keys as what the column holds, or refuse them."""


Opened: TypeAlias = AbstractContextManager[Table]
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compares(wanted: Condition, other: Any) -> Callable[[Any], Any]:
    """Return the test of one value, or of an array, for its order with another; of what has none it is false."""
    compare = _OPERATORS[wanted.operator]

    def test(value: Any) -> Any:
        try:
            return compare(value, other)
        except TypeError:  # a time without a zone and one with
            return False

    return test


def compared_text(wanted: Condition, read: Callable[[str], float]) -> Callable[[str], bool]:
    """Return the test of a text that holds a number or a date, as the other side of the comparison does."""
    other = number(wanted.written)
    if other is not None:
        of_number = compares(wanted, other)
        return lambda text: bool(of_number(read(text)))
    parse = moment if moment(wanted.written) else of_day
    of_time = compares(wanted, parse(wanted.written))

    def test(text: str) -> bool:
        found = parse(text.strip())
        return found is not None and bool(of_time(found))

    return test
