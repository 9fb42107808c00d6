"""One column of data as a one-dimensional numpy array, whatever library holds it.

What is accepted depends on types and dtypes alone; of a list, on the types of its elements. Missing values are data, so
they never raise; what they count as is stated. How one row is converted never depends on another row, or the
sensitivity would be wrong: no common dtype is sought that might round the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays
from ferrodp.errors import InvalidArray, InvalidArrayType

_KINDS = "biuf"
_ROWS = 1 << 14  # 128 KiB of floats: in the cache, and no pages come from the system and go back for each part
_FILLS: dict[str, float] = {"Boolean": False}
"""What stands for null in a column of polars, by dtype."""
_FILLS |= {f"{sign}Int{bits}": 0 for sign in ("", "U") for bits in (8, 16, 32, 64)}
_FILLS |= {f"Float{bits}": float("nan") for bits in (16, 32, 64)}


class Column(NamedTuple):
    """Values, and which of them are missing; None if none can be. A missing one is False, 0 or NaN."""

    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_] | None = None

    def present(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the values that are not missing, in parts."""
        if self.missing is None:
            return blocks(self.values)
        return (part[~missing] for part, missing in zip(blocks(self.values), blocks(self.missing), strict=True))


def column(values: object, name: str = "values") -> npt.NDArray[Any]:
    """Return a column of truth values, integers or floats up to 64 bits; without a copy where the layout allows.

    A list is one of truth values if all its elements are, and of floats otherwise.

    Raises
    ------
    InvalidArrayType
        For objects, strings, dates, masked arrays, nullable and categorical columns.
    InvalidArray
        If it is not one-dimensional.
    """
    return nullable_column(values, name).values


def nullable_column(values: object, name: str = "values") -> Column:
    """Return a column that knows which of its rows are missing; see `column`."""
    found = _foreign(values, name) or Column(_listed(values, name))
    array = found.values
    if array.dtype.kind not in _KINDS or array.dtype.itemsize > 8:
        raise InvalidArrayType(f"{name} must be a column of truth values, integers or floats, got dtype {array.dtype}")
    if array.ndim != 1:
        raise InvalidArray(f"{name} must be one-dimensional, got {array.ndim} dimensions")
    return found if array.dtype.isnative else found._replace(values=array.astype(array.dtype.newbyteorder("=")))


def public_numbers(
    values: object, name: str, lengths: range, *, kinds: str = "iuf", order: str = ""
) -> npt.NDArray[Any]:
    """Return public edges, categories or candidates as an array of numbers, of whatever dtype all of them have."""
    if isinstance(values, (list, tuple)):
        try:
            array = np.array(values)
        except Exception:
            array = np.array(None)
        if array.dtype.kind not in _KINDS:
            raise InvalidArrayType(f"{name} must be numbers, in a list of one depth")
    else:
        found = nullable_column(values, name)
        if found.missing is not None:
            raise InvalidArray(f"{name} must not hold nulls")
        array = found.values
    if array.dtype.kind not in kinds or array.ndim != 1 or array.size not in lengths:
        raise InvalidArray(f"{name} must be from {lengths[0]} to {lengths[-1]} numbers{order}")
    return array


def _listed(values: object, name: str) -> npt.NDArray[Any]:
    """Return a list or whatever numpy can read."""
    kinds = {bool, np.bool_}
    if isinstance(values, (list, tuple)) and values and all(type(value) in kinds for value in values):
        return np.array(values, dtype=np.bool_)
    # mutant: one-row-decides-on-dtype-of-list
    return _arrays.base_array(values, name)


def _foreign(values: Any, name: str) -> Column | None:
    """Return a pandas or polars column, or None if it is neither."""
    module = type(values).__module__
    package = module.partition(".")[0] if isinstance(module, str) else ""
    if package not in ("pandas", "polars"):
        return None
    if not any(base.__name__ in ("Series", "Index") for base in type(values).__mro__):
        raise InvalidArrayType(f"{name} must be one column, got {package} {type(values).__name__}; convert explicitly")
    return _of_pandas(values, name) if package == "pandas" else _of_polars(values, name)


def _of_pandas(values: Any, name: str) -> Column:
    """Columns of numpy dtypes, in which NaN stands for what is missing."""
    # mutant: columns-with-mask-of-nulls-read-without
    if not isinstance(values.dtype, np.dtype):  # extension dtypes: nullable, categorical, Arrow
        shown = getattr(values.dtype, "name", type(values.dtype).__name__)
        raise InvalidArrayType(f"{name} must be a column of a numpy dtype, got {shown}; convert explicitly")
    return Column(np.asarray(values.to_numpy(copy=False)))


def _of_polars(values: Any, name: str) -> Column:
    """Every column of polars may hold nulls: its dtype does not tell, and whether there are some must not show."""
    kind = str(values.dtype).partition("(")[0]  # the categories of an Enum may be data
    if kind not in _FILLS:
        raise InvalidArrayType(f"{name} must be a column of truth values, integers or floats, got {kind}")
    missing = np.asarray(values.is_null().to_numpy(), dtype=np.bool_) if values.null_count() else None
    return Column(np.asarray(values.fill_null(_FILLS[kind]).to_numpy()), missing)


def blocks(array: npt.NDArray[Any], at_least: int = 0) -> Iterator[npt.NDArray[Any]]:
    """Yield a column in parts: what is made of each stays in the cache, and memory does not grow with the rows."""
    rows = max(_ROWS, at_least)
    for start in range(0, array.size, rows):
        yield array[start : start + rows]


def add_counts(counts: npt.NDArray[np.int64], places: npt.NDArray[np.intp]) -> None:
    """Count every place; where there are far more counts than places, in time that does not grow with them."""
    if counts.size <= 4 * places.size:
        counts += np.bincount(places, minlength=counts.size)
    else:
        np.add.at(counts, places, 1)


def finite_floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a fresh float64 array in which whatever is not finite counts as 0."""
    floats = np.array(array, dtype=np.float64)  # integers beyond 2⁵³ round: they are clamped to bounds later
    # mutant: not-number-no-missing-value
    np.copyto(floats, 0.0, where=~np.isfinite(floats))
    return floats
