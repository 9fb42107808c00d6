"""Where a statistic passes from rows to integers: a part of a table stops there, and their sum goes on from there.

A release is a function of the table in two steps. *Counting*: T(D), integers or a multiset of numbers, without noise.
*Releasing*: M(T), with noise, by what parameters and the types of columns say. `passed` stands between both.

*The merged release is the release of the whole table.* Let D be the rows of D₁, …, Dₚ, each row in one of them, and
let T be *additive*: T(D) = T(D₁) + … + T(Dₚ). That holds for every T here, because each row adds integers that depend
on that row alone, and multisets are united with their multiplicities; nothing is rounded before the sum is whole
(`sums.rounded_steps` comes after). Of a variance these are the row, its distance from the middle and the square of
that, in parts of a step; of a top and of bounds, the count of a category or bin; of an extreme, a number of the
multiset; of quantiles of groups, a number of the group's own. On part i the statistic runs with the very arguments of
the release, and stops with T(Dᵢ). On the driver it runs on no rows, with Σ T(Dᵢ) = T(D) in place of the integers of no
rows; from there on it is M(T(D)): the same integers, mechanism, event, payment and interval as in one process. So are
law and sensitivity. What M is made of must not depend on the rows it sees: that it is the same on all parts and on the
driver is compared, as a digest, before anything is paid.

*Units.* With a column of units T(D) = Σᵤ t(rows of u in their order, coins of u) is additive over parts that have all
rows of a unit (`keys.contributions` proves that a unit is decided by its own rows and coins). With ``keep="first"`` and
rows in the order of the table the merged integers are therefore those of one process; with random subsets they have
their law, whichever run of a task the engine keeps: the coins of its runs are independent and none of them sees rows of
others. A unit whose rows lie in two parts would count twice, so that the parts are made by that very column is checked.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.statistics.parts.multisets import Ascending, Multiset, Runs

Ints = npt.NDArray[np.int64]
T = TypeVar("T")

MOST_ROWS = 2**31
"""Of all parts together: below this no sum of any statistic leaves int64, as its own limit for one table says."""


def added(first: Any, second: Any) -> Any:
    """Return the sum of integers, arrays of integers, multisets, or lists and tuples of them."""
    if isinstance(first, (list, tuple)) and not isinstance(first, Multiset):
        return type(first)(added(a, b) for a, b in zip(first, second, strict=True))
    # mutant: integers-of-a-part-left-out
    return first + second


def copied(integers: Any) -> Any:
    """Return integers that may be written to: noise is added in place, and engines send arrays that are read-only."""
    if isinstance(integers, (list, tuple)) and not isinstance(integers, Multiset):
        return type(integers)(map(copied, integers))
    return integers.copy() if isinstance(integers, np.ndarray) else integers


@dataclass(frozen=True, slots=True)
class Counted:
    """The exact integers of some rows, and a digest of what noises them."""

    integers: Any
    public: bytes
    rows: int

    def __add__(self, other: Counted) -> Counted:
        if self.public != other.public:
            raise InvalidParameter(_DIFFERS)
        rows = self.rows + other.rows
        if rows > MOST_ROWS:
            raise InvalidParameter(f"a table must have at most {MOST_ROWS} rows")
        return Counted(added(self.integers, other.integers), self.public, rows)


_DIFFERS = (
    "release must depend on nothing but parameters, and on columns of the same types in all partitions: bounds, keys "
    "or noise differ between two of them, or from those of a table without rows; write them into the function"
)


class _Stopped(BaseException):
    """A part of a table was counted: the statistic ends here."""


class _Mode:
    """What `passed` does in a function that runs on a part, or on no rows."""

    def __init__(self, owners: Any, columns: Mapping[str, Any]) -> None:
        self.owners = owners
        """The column by which rows were gathered; None if units may have rows in several parts."""
        self.columns = columns
        self.has_passed = False

    def passed(self, integers: Callable[[], Any], public: bytes) -> Any:
        raise NotImplementedError


class _Counting(_Mode):
    found: Any = None
    public = b""

    def passed(self, integers: Callable[[], Any], public: bytes) -> Any:
        self.found, self.public = integers(), public
        raise _Stopped


class _Releasing(_Mode):
    def __init__(self, owners: Any, columns: Mapping[str, Any], counted: Counted) -> None:
        super().__init__(owners, columns)
        self.counted = counted

    def passed(self, integers: Callable[[], Any], public: bytes) -> Any:
        if self.has_passed:
            raise InvalidParameter("release must be one statistic, got a second one: the first was paid and drawn")
        # mutant: parts-noised-by-other-parameters
        if public != self.counted.public:
            raise InvalidParameter(_DIFFERS)
        self.has_passed = True
        return copied(self.counted.integers)


_MODE: ContextVar[_Mode | None] = ContextVar("counts of parts", default=None)


def is_whole() -> bool:
    """Return whether a statistic is about the rows that it is given, and not about those of parts."""
    return _MODE.get() is None


def passed(integers: Callable[[], T], public: Callable[[], Any]) -> T:
    """Return the exact integers that are noised next; `public` returns all that says how.

    On a part of a table the statistic stops here. On the driver the sum of all parts comes back.
    """
    mode = _MODE.get()
    return integers() if mode is None else mode.passed(integers, digest(public()))


def passed_rows(rows: Callable[[], npt.NDArray[np.float64]], public: Callable[[], Any]) -> Ascending:
    """Return the same for numbers in ascending order, of which ranks are looked for."""
    mode = _MODE.get()
    if mode is None:
        return Ascending(rows())
    found: Multiset | Runs = mode.passed(lambda: Multiset.of(rows()), digest(public()))
    return found.ascending()


def passed_groups(
    rows: Callable[[], Iterator[npt.NDArray[np.float64]]], public: Callable[[], Any]
) -> Iterator[Ascending]:
    """Go through the same for the numbers of each of several groups; those of one are in memory at a time."""
    mode = _MODE.get()
    if mode is None:
        return map(Ascending, rows())
    found: list[Multiset | Runs] = mode.passed(lambda: [Multiset.of(each) for each in rows()], digest(public()))
    merged = [each.ascending() if isinstance(each, Runs) else each for each in found]  # before anything is paid
    return (each if isinstance(each, Ascending) else each.ascending() for each in merged)


def name_of(values: Any) -> str | None:
    """Return the name of a column of the table in partitions; None for anything else."""
    mode = _MODE.get()
    columns = {} if mode is None else mode.columns
    return next((name for name, column in columns.items() if column is values), None)


def check_source() -> None:
    """Refuse noise for a part of a table, or for no rows where no sum of parts has taken their place."""
    mode = _MODE.get()
    # mutant: statistic-without-a-sum-of-parts-is-drawn-on-a-part
    if mode is not None and not mode.has_passed:
        raise InvalidParameter(
            "release must be a count, sum, mean, variance, histogram, quantile, extreme, bounds, number of different "
            "values, top, table, a statistic of groups with public keys, keys that are found, scales, naive Bayes of "
            "categories, or moments or naive Bayes with a public clip_norm: others have no integers that add up over "
            "partitions"
        )


def check_owners(column: Any) -> None:
    """Refuse a column of units by which the rows of the parts were not gathered."""
    mode = _MODE.get()
    # mutant: units-in-two-parts-count-in-both
    if mode is not None and column is not None and column is not mode.owners:
        raise InvalidParameter(
            "unit must name the column of units of the release, so that the rows of a unit are gathered: "
            'unit="person", and in the function unit=frame["person"]'
        )


def counted(release: Callable[..., Any], columns: Mapping[str, Any], unit: str | None) -> Counted:
    """Return the exact integers that a release would noise for these rows; no random bit of noise is drawn."""
    mode = _Counting(None if unit is None else columns[unit], columns)
    with _entered(mode), contextlib.suppress(_Stopped):
        release(columns, source=None, ticket=None)
        raise FerroError("release must call a statistic of the table that it is given, and it called none")
    return Counted(mode.found, mode.public, max((len(column) for column in columns.values()), default=0))


def released(
    release: Callable[..., Any],
    columns: Mapping[str, Any],
    unit: str | None,
    counted: Counted,
    *,
    source: Any,
    ticket: Any,
) -> Any:
    """Return what a release says of the rows that were counted; `columns` have their types and no rows."""
    with _entered(_Releasing(None if unit is None else columns[unit], columns, counted)):
        return release(columns, source=source, ticket=ticket)


@contextlib.contextmanager
def _entered(mode: _Mode) -> Iterator[None]:
    token = _MODE.set(mode)
    try:
        yield
    finally:
        _MODE.reset(token)


def digest(public: Any) -> bytes:
    """Return 32 bytes by which parameters are distinguished: numbers by their bits, arrays by all of them."""
    found = hashlib.blake2b(digest_size=32)

    def add(each: Any) -> None:
        if isinstance(each, np.ndarray) and each.dtype.kind != "O":
            found.update(f"array {each.dtype} {each.shape}\0".encode())
            found.update(np.ascontiguousarray(each).tobytes())
        elif isinstance(each, np.ndarray):
            add(each.tolist())
        elif isinstance(each, Mapping):
            add([*each.items()])
        elif isinstance(each, Sequence) and not isinstance(each, (str, bytes)):
            found.update(f"sequence {len(each)}\0".encode())
            for part in each:
                add(part)
        else:
            found.update(f"{type(each).__qualname__} {each!r}\0".encode())

    add(public)
    return found.digest()
