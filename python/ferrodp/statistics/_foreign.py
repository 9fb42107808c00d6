"""Columns of pandas, polars and Arrow, read by their types alone: numbers with nulls, or labels.

None of the libraries is imported: a column brings its own. Nulls are replaced before anything is converted, so that
they never change what becomes of the other rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArrayType

KINDS = "biuf"
"""Kinds of dtypes that are numbers."""
_PLAIN = (str, np.str_, bool, int, float, np.bool_, np.int64, np.float64)
"""Types of labels. Others, whose comparison might run any code, are labels of nothing."""

LIST = "convert it with [float(value) for value in values]"
NUMPY = "convert it with values.astype(float)"
_PANDAS = 'convert it with pandas.to_numeric(values, errors="coerce"): what is no number becomes missing'
_POLARS = "convert it with values.cast(polars.Float64, strict=False): what is no number becomes missing"
_ARROW = "convert it with pyarrow.compute.cast(values, pyarrow.float64())"


class Numbers(NamedTuple):
    """Values, which of them are null (None if none is), and whether the type can hold missing ones at all."""

    values: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_] | None
    can_miss: bool


@dataclass(frozen=True, slots=True)
class Labels:
    """Strings or other labels: objects, or places in a list of `entries`, −1 for a missing one."""

    values: npt.NDArray[Any]
    kind: str
    conversion: str
    entries: Sequence[Any] | None = None

    def places(self, known: Sequence[Any]) -> npt.NDArray[np.intp]:
        """Return for each row its place in a list of public labels, −1 if it is none of them, or missing."""
        table = {label: place for place, label in enumerate(known)}
        if self.entries is None:
            rows = self.values.tolist()
            found = (table.get(row, -1) if type(row) in _PLAIN else -1 for row in rows)
            return np.fromiter(found, np.intp, len(rows))
        lookup = [table.get(entry, -1) if type(entry) in _PLAIN else -1 for entry in self.entries]
        codes: npt.NDArray[np.intp] = np.array([*lookup, -1], np.intp)[self.values]
        return codes

    def present(self) -> npt.NDArray[np.bool_]:
        """Return which rows are not missing: not None and not NaN."""
        if self.entries is not None:
            return np.asarray(self.values >= 0)
        rows = self.values.tolist()
        return np.fromiter((not is_missing(row) for row in rows), np.bool_, len(rows))

    def false(self) -> npt.NDArray[np.bool_]:
        """Return which rows hold a truth value that is false, among objects.

        pandas makes objects of a column of truth values as soon as one is missing: the others must not count otherwise.
        """
        if self.entries is not None or self.values.dtype.kind != "O":
            return np.zeros(self.values.size, np.bool_)
        rows = self.values.tolist()
        return np.fromiter((type(row) in (bool, np.bool_) and not row for row in rows), np.bool_, len(rows))


def plain_label(value: object) -> bool:
    """Return whether a label is a string or a number, whose comparison runs no code of the label's own."""
    return type(value) in _PLAIN


def is_missing(value: object) -> bool:
    """Return whether a label stands for nothing; no code of the label's own is run."""
    kind = type(value)
    return value is None or (kind in (float, np.float64) and value != value) or kind.__name__ in ("NAType", "NaTType")


def filled(values: Sequence[Any]) -> list[Any]:
    """Return a list in which NaN stands for None."""
    return [math.nan if value is None else value for value in values]


def column(values: Any, name: str) -> Numbers | Labels | None:
    """Return a column of pandas, polars or Arrow, or None if it is none."""
    module = type(values).__module__
    package = module.partition(".")[0] if isinstance(module, str) else ""
    if package not in ("pandas", "polars", "pyarrow"):
        return None
    bases = {base.__name__ for base in type(values).__mro__}
    if not bases & ({"Array", "ChunkedArray"} if package == "pyarrow" else {"Series", "Index"}):
        raise InvalidArrayType(f"{name} must be one column, got {package} {type(values).__name__}; convert explicitly")
    if package == "pandas":
        return _of_pandas(values, name)
    return _of_polars(values, name) if package == "polars" else _of_arrow(values, name)


def _of_pandas(values: Any, name: str) -> Numbers | Labels:
    """Columns of numpy's, nullable, categorical, string and Arrow dtypes."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        array = np.asarray(values.to_numpy(copy=False))
        if dtype.kind == "O":
            return Labels(array, "objects", _PANDAS)
        return Numbers(array, None, dtype.kind == "f")
    kind = type(dtype).__name__
    if kind == "CategoricalDtype":
        coded = getattr(values, "cat", values)
        return Labels(np.asarray(coded.codes), "categories", _PANDAS, coded.categories.tolist())
    if kind == "StringDtype":
        codes, entries = values.factorize()
        return Labels(np.asarray(codes), "strings", _PANDAS, entries.tolist())
    if kind == "ArrowDtype":
        return _of_arrow(values.array.__arrow_array__(), name)
    if getattr(dtype, "kind", "O") in KINDS and isinstance(getattr(dtype, "numpy_dtype", None), np.dtype):
        plain = np.asarray(values.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0)))
        # mutant: columns-with-mask-of-nulls-read-without
        return Numbers(plain, np.asarray(values.isna(), dtype=np.bool_), True)
    shown = str(getattr(dtype, "name", kind)).partition("[")[0]
    raise _refused(name, shown, ' with values.astype("float64"), or to strings with values.astype("str")')


_FILLS: dict[str, Any] = {"Boolean": False}
"""What stands for null in a column of polars, by dtype."""
_FILLS |= {f"{sign}Int{bits}": 0 for sign in ("", "U") for bits in (8, 16, 32, 64)}
_FILLS |= {f"Float{bits}": float("nan") for bits in (16, 32, 64)}


def _of_polars(values: Any, name: str) -> Numbers | Labels:
    """Every column of polars may hold nulls: its dtype does not tell, and whether there are some must not show."""
    kind = str(values.dtype).partition("(")[0]  # the categories of an Enum may be data
    if kind in ("String", "Categorical", "Enum"):
        polars: Any = sys.modules["polars"]
        texts = values.cast(polars.String)
        entries = texts.drop_nulls().unique().to_list()
        numbers = range(len(entries))
        codes = texts.replace_strict(entries, list(numbers), default=-1, return_dtype=polars.Int64)
        return Labels(codes.to_numpy(), "strings" if kind == "String" else "categories", _POLARS, entries)
    if kind not in _FILLS:
        raise _refused(name, kind, " with values.cast(polars.Float64), or to strings with values.cast(polars.String)")
    nulls = np.asarray(values.is_null().to_numpy(), dtype=np.bool_) if values.null_count() else None
    return Numbers(np.asarray(values.fill_null(_FILLS[kind]).to_numpy()), nulls, True)


_ARROW_FILLS: dict[str, Any] = {"bool": False, "float": math.nan, "double": math.nan}
_ARROW_FILLS |= {f"{sign}int{bits}": 0 for sign in ("", "u") for bits in (8, 16, 32, 64)}


def _of_arrow(values: Any, name: str) -> Numbers | Labels:
    """Arrays of Arrow, chunked or not."""
    kind = str(values.type).partition("<")[0]
    if kind == "dictionary":
        return _of_arrow(values.cast(values.type.value_type), name)
    if kind in ("string", "large_string"):
        coded = values.dictionary_encode()
        coded = coded.combine_chunks() if hasattr(coded, "chunks") else coded
        codes = np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.intp)
        return Labels(codes, "strings", _ARROW, coded.dictionary.to_pylist())
    if kind not in _ARROW_FILLS:
        raise _refused(name, kind, " with values.cast(pyarrow.float64()), or to strings with pyarrow.string()")
    nulls = np.asarray(values.is_null().to_numpy(**_copied(values)), np.bool_) if values.null_count else None
    plain = values.fill_null(_ARROW_FILLS[kind]) if values.null_count else values
    return Numbers(np.asarray(plain.to_numpy(**_copied(values))), nulls, True)


def _copied(values: Any) -> dict[str, bool]:
    """Return what allows a single array, which is not chunked, to be copied where its bits need unpacking."""
    return {} if hasattr(values, "chunks") else {"zero_copy_only": False}


def way_out(kind: str) -> str:
    """Return what to do about an array of another kind of dtype."""
    if kind in "mM":
        return '; convert it to numbers with values.astype("int64"), or to strings with values.astype(str)'
    return "; convert explicitly"


def _refused(name: str, kind: str, conversion: str) -> InvalidArrayType:
    accepted = "truth values, integers, floats, strings or categories"
    return InvalidArrayType(f"{name} must be a column of {accepted}, got {kind}; convert it{conversion}")
