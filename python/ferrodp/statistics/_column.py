"""One column of data, whatever library holds it: numbers, or labels such as strings, and which rows are missing.

What is accepted depends on types and dtypes alone; a list is accepted whatever is in it. Missing values are data, so
they never raise. How one row is converted never depends on another row, or the sensitivity would be wrong: no common
dtype is sought that might round the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.statistics import _foreign
from ferrodp.statistics._foreign import KINDS, Labels, Numbers, number
from ferrodp.statistics.rows import times

Missing = Literal["drop", "zero"]
Keep = Literal["random", "first"]
_ROWS = 1 << 14  # 128 KiB of floats: in the cache, and no pages come from the system and go back for each part


@dataclass(frozen=True, slots=True)
class Column:
    """Numbers and what is to become of the missing ones: nulls and, among floats, NaN.

    With `drops` a missing row contributes to nothing. Otherwise it is a row like any other, and so is every number that
    is not finite: they count as 0. `can_miss` is whether rows of this type can be missing at all, whatever they hold.
    """

    values: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_] | None
    can_miss: bool
    drops: bool

    def parts(self, at_least: int = 0) -> Iterator[npt.NDArray[Any]]:
        """Yield the values of the rows that count, in parts; with `drops` without missing ones."""
        floats = self.values.dtype.kind == "f"
        nulls = None if self.nulls is None else blocks(self.nulls, at_least)
        for part in blocks(self.values, at_least):
            missing = None if nulls is None else next(nulls)
            if not self.drops:
                # mutant: not-number-no-missing-value
                yield np.where(np.isfinite(part), part, part.dtype.type(0)) if floats else part
                continue
            if floats and (unknown := np.isnan(part)).any():
                missing = unknown if missing is None else missing | unknown
            # mutant: missing-rows-counted
            yield part if missing is None else part[~missing]

    @property
    def size(self) -> int:
        """How many rows count."""
        return sum(part.size for part in self.parts()) if self.drops and self.can_miss else self.values.size

    def floats(self, at_least: int = 0) -> Iterator[npt.NDArray[np.float64]]:
        """Yield the same as fresh float64 arrays, which may be written to."""
        for part in self.parts(at_least):
            yield np.array(part, dtype=np.float64)  # integers beyond 2⁵³ round: they are clamped to bounds later


def read(values: object, name: str = "values") -> Numbers | Labels:
    """Return what a column holds: truth values, integers or floats up to 64 bits without a copy, or labels.

    A list is one of labels, whatever is in it; what its elements are as numbers, `column` says.

    Raises
    ------
    InvalidArrayType
        For objects that are no columns, complex numbers and masked arrays.
    InvalidArray
        If it is not one-dimensional.
    """
    found = _foreign.column(values, name)
    if found is None:
        found = _listed(values, name)
    if isinstance(found, Numbers):
        array = found.values
        if array.dtype.kind not in KINDS or array.dtype.itemsize > 8:
            raise InvalidArrayType(
                f"{name} must be a column of truth values, integers, floats, strings or times, got dtype {array.dtype}"
                + _foreign.way_out(array.dtype)
            )
        found = found if array.dtype.isnative else found._replace(values=array.astype(array.dtype.newbyteorder("=")))
    if found.values.ndim != 1:
        is_number = name == "bins" and found.values.ndim == 0
        hint = (
            f"{values} equal bins are numpy.linspace(low, high, {values} + 1)"
            if is_number
            else _hint(found.values.ndim)
        )
        raise InvalidArray(f"{name} must be one-dimensional, got {found.values.ndim} dimensions; {hint}")
    return found


def _hint(num_dimensions: int) -> str:
    """Return how a column is made of an array with more dimensions, or with none."""
    return "a single one is written as [values]" if not num_dimensions else "one of its columns is values[:, 0]"


def column(values: object, missing: object = "drop", name: str = "values", clock: times.Clock | None = None) -> Column:
    """Return a column of numbers; see `read`. With a `clock` it is one of times, as numbers of `rows.times`.

    Of a list each element is judged alone: what is neither a number nor a truth value is missing. Were a list refused
    for one of its elements, the exception would tell of that row.

    Raises
    ------
    InvalidArrayType
        For labels of other types; the message names a conversion.
    """
    drops = check_missing(missing)
    found = read(values, name)
    if clock is not None:
        if not drops:
            raise InvalidParameter('missing must be "drop" for times, which have no zero, got "zero"')
        return Column(*clock.numbers(found, name), drops)
    if isinstance(found, Labels) and found.is_list:
        return Column(_numbers(values), None, True, drops)
    if isinstance(found, Labels):
        too = f" (bounds may be {found.kind}, too)" if found.kind in times.KINDS else ""
        raise InvalidArrayType(f"{name} must be numbers or truth values, got {found.kind}{too}; {found.conversion}")
    return Column(found.values, found.nulls, found.can_miss, drops)


def check_missing(missing: object) -> bool:
    """Return whether missing rows are left out."""
    if not isinstance(missing, str) or missing not in ("drop", "zero"):
        raise _validate.out_of_domain("missing", '"drop" or "zero"', missing)
    return missing == "drop"


def public_numbers(
    values: object, name: str, lengths: range, *, kinds: str = "iuf", order: str = ""
) -> npt.NDArray[Any]:
    """Return public edges, categories or candidates as an array of numbers, of whatever dtype all of them have."""
    if isinstance(values, (list, tuple)):
        try:
            array = np.array(values)
        except Exception:
            array = np.array(None)
        if array.dtype.kind not in KINDS:
            raise InvalidArrayType(f"{name} must be numbers, in a list of one depth")
    else:
        found = column(values, "drop", name)
        if found.nulls is not None:
            raise InvalidArray(f"{name} must not hold nulls")
        array = found.values
    if array.dtype.kind not in kinds or array.ndim != 1 or array.size not in lengths:
        raise InvalidArray(f"{name} must be from {lengths[0]} to {lengths[-1]} numbers{order}")
    return array


def _listed(values: object, name: str) -> Numbers | Labels:
    """Return a list, an array or whatever numpy can read."""
    if not isinstance(values, (list, tuple)):
        if issubclass(type(values), np.ma.MaskedArray):
            raise InvalidArrayType(
                f"{name} must not be a masked array, its mask would be dropped; convert it with {_filled(values)}: "
                "what is masked becomes missing"
            )
        array = _arrays.base_array(values, name)
        if array.dtype.kind in "mM":
            return _foreign.times(array)
        if array.dtype.kind in "UOTS":
            if array.dtype.kind == "O":
                return Labels(array, "objects", _foreign.OBJECTS)
            return Labels(array, "bytes" if array.dtype.kind == "S" else "strings", _foreign.NUMPY)
        return Numbers(array, None, array.dtype.kind == "f")
    rows = np.fromiter(values, object, len(values))  # an element that is a list stays one
    return Labels(rows, "a list", "", is_list=True)


def _filled(values: Any) -> str:
    """Return how a masked array becomes a column in which masked rows are missing."""
    kind = values.dtype.kind
    if kind in "biufc":
        return "values.tolist()"
    fill = {"M": 'numpy.datetime64("NaT")', "m": 'numpy.timedelta64("NaT")'}.get(kind, "None")
    texts = "astype(object)." if kind in "US" else ""
    return f"values.{texts}filled({fill})"


_QUICK = frozenset((float, int, bool, type(None), np.float64, np.int64, np.bool_))
"""Types whose elements numpy converts to float64 one by one, as `number` does."""


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    """Return the elements of a list as floats, each for itself; NaN for one that is no number."""
    if set(map(type, values)) <= _QUICK:
        try:
            # mutant: one-row-decides-on-dtype-of-list
            return np.array(values, np.float64)
        except OverflowError:  # an integer beyond all floats
            pass
    # mutant: one-row-decides-whether-a-list-is-refused
    return np.fromiter(map(number, values), np.float64, len(values))


def blocks(array: npt.NDArray[Any], at_least: int = 0) -> Iterator[npt.NDArray[Any]]:
    """Yield a column in parts: what is made of each stays in the cache, and memory does not grow with the rows."""
    rows = max(_ROWS, at_least)
    for start in range(0, array.size, rows):
        yield array[start : start + rows]


def add_counts(counts: npt.NDArray[np.int64], places: npt.NDArray[np.signedinteger[Any]]) -> None:
    """Count every place; where there are far more counts than places, in time that does not grow with them."""
    if counts.size <= 4 * places.size:
        counts += np.bincount(places, minlength=counts.size)
    else:
        np.add.at(counts, places, 1)


def names_of(frame: Any) -> list[Any]:
    """Return the names of the columns of a table, or refuse what is none or has none."""
    lazy = type(frame).__name__ == "LazyFrame"  # its names would be found by running it
    names = list(frame) if isinstance(frame, dict) else []
    if not lazy and hasattr(frame, "__getitem__") and not names:
        names = list(getattr(frame, "column_names", getattr(frame, "columns", [])))
    if not names:
        way_out = "frame.collect() is one" if lazy else "for example {'age': [31, 64]}"
        accepted = "a table of pandas, polars or Arrow, or a dict of columns"
        raise InvalidType(f"frame must be {accepted}, with at least one column, got {type(frame).__name__}; {way_out}")
    return names


def column_of(frame: Any, name: object) -> Any:
    """Return a column of a table, or name the columns that it has."""
    if not isinstance(name, str):
        raise InvalidType(f"a column must be named by a string, got {type(name).__name__}; for example 'age'")
    names = names_of(frame)
    if name not in names:
        shown = ", ".join(map(str, names[:20]))
        meant = _validate.nearest(str(name), map(str, names))
        raise InvalidParameter(f"frame must have a column {_validate.shown(name)}; it has {shown}{meant}")
    return frame[name]
