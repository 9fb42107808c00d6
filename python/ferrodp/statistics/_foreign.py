"""Columns of pandas, polars and Arrow, read by their types alone: numbers with nulls, or labels.

None of the libraries is imported: a column brings its own. Nulls are replaced before anything is converted, so that
they never change what becomes of the other rows.

What labels and ids are compared by: `==` and `hash`, of any hashable type, one row at a time.

The class of a row depends on that row alone. A row that is missing, that cannot be hashed, or that is not equal to
itself has no key. Whatever code the type of a row brings for `==` and `hash`, an exception in it never leaves: it
counts as "not equal", or as no key. The keys of two rows are equal if `==` says so in either order; that is an
equivalence for every type that keeps what Python requires of hashable types.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp.errors import InvalidArrayType

KINDS = "biuf"
"""Kinds of dtypes that are numbers."""

PART = 1 << 18
"""Rows that are taken at a time where copies of a whole column would take memory."""

LIST = "convert it with [float(value) for value in values]"
_COERCED = 'errors="coerce"): what is no number becomes missing'
NUMPY = f"convert it with pandas.to_numeric(values, {_COERCED}"
OBJECTS = (
    "convert it with values.tolist(): in a list what is no number is missing; "
    f"or, of numbers in texts, with pandas.to_numeric(values, {_COERCED}"
)
_PANDAS = NUMPY
_POLARS = "convert it with values.cast(polars.String).cast(polars.Float64, strict=False): no number becomes missing"
_ARROW = f"convert it with pandas.to_numeric(values.to_pandas(), {_COERCED}"
_DAYS = "convert it to days with "


class Numbers(NamedTuple):
    """Values, which of them are null (None if none is), and whether the type can hold missing ones at all."""

    values: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_] | None
    can_miss: bool


@dataclass(frozen=True, slots=True)
class Labels:
    """Strings or other labels: objects, or places in a list of `entries`, −1 for a missing one.

    `kind` says in words what its type holds; of a list and of objects that is anything, and of them alone `is_open`.
    """

    values: npt.NDArray[Any]
    kind: str
    conversion: str
    entries: Sequence[Any] | None = None
    is_list: bool = False
    all_different: bool = False
    """Whether entries are strings of which no two are equal: then places say which rows are."""

    @property
    def is_open(self) -> bool:
        """Whether the type says nothing about the rows."""
        return self.kind in ("objects", "a list")

    def compared(self) -> Iterator[Any]:
        """Yield for each row, or entry, what it is compared by; None if it is missing."""
        return keys_of(self.values.tolist() if self.entries is None else self.entries)

    def places(self, known: Sequence[Any]) -> Iterator[npt.NDArray[np.intp]]:
        """Yield for each row its place in a list of public labels, −1 if it is none of them or missing, in parts."""
        table = {label: place for place, label in enumerate(keys_of(known))}
        table.pop(None, None)
        found = [table.get(key, -1) for key in self.compared()]
        if self.entries is None:
            yield np.array(found, np.intp)
            return
        held = np.array([*found, -1], np.intp)
        for start in range(0, self.values.size, PART):
            yield held[self.values[start : start + PART]]

    def present(self) -> npt.NDArray[np.bool_]:
        """Return which rows are not missing: not None, NaN, NaT or NA."""
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


def column(values: Any, name: str) -> Numbers | Labels | None:
    """Return a column of pandas, polars or Arrow, or None if it is none; one that is read already as it is."""
    if isinstance(values, (Numbers, Labels)):
        return values
    module = type(values).__module__
    package = module.partition(".")[0] if isinstance(module, str) else ""
    if package not in ("pandas", "polars", "pyarrow"):
        return None
    bases = {base.__name__ for base in type(values).__mro__}
    if not bases & ({"Array", "ChunkedArray"} if package == "pyarrow" else {"Series", "Index"}):
        hint = "convert it with list(values)"
        if "LazyFrame" in bases:
            hint = "one of its columns is values.collect()['name']"
        elif bases & {"DataFrame", "Table", "RecordBatch"}:
            hint = "one of its columns is values['name'], and fd.release counts and sums the rows of a table"
        elif "ExtensionArray" in bases:
            hint = "convert it with pandas.Series(values)"
        raise InvalidArrayType(f"{name} must be one column, got {package} {type(values).__name__}; {hint}")
    if package == "pandas":
        return _of_pandas(values, name)
    return _of_polars(values, name) if package == "polars" else _of_arrow(values, name)


def _of_pandas(values: Any, name: str) -> Numbers | Labels:
    """Columns of numpy's, nullable, categorical, string, time and Arrow dtypes."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind in "mM":
            start = "(values - pandas.Timestamp(0)) / " if dtype.kind == "M" else "values / "
            return _factorized(values, _TIMES[dtype.kind], _DAYS + start + "pandas.Timedelta(days=1)")
        array = np.asarray(values.to_numpy(copy=False))
        if dtype.kind == "O":
            return Labels(array, "objects", _PANDAS)
        return Numbers(array, None, dtype.kind == "f")
    kind = type(dtype).__name__
    if kind == "CategoricalDtype":
        coded = getattr(values, "cat", values)
        held = coded.categories.dtype
        words = "categories"
        # mutant: categories-of-another-type-match-nothing
        if held_words := _held(held):
            words += f" that are {held_words}"
        conversion = _PANDAS
        if type(held).__name__ in ("DatetimeTZDtype", "PeriodDtype") or getattr(held, "kind", "O") in "mM":
            of = "values.categories" if coded is values else "values.cat.categories"
            conversion = f"convert it with values.astype({of}.dtype)"
        return Labels(np.asarray(coded.codes), words, conversion, coded.categories.tolist())
    if kind == "StringDtype":
        return _factorized(values, "strings", _PANDAS)
    if kind == "DatetimeTZDtype":
        since = '(values - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)'
        return _factorized(values, "datetimes with a time zone", _DAYS + since)
    if kind == "PeriodDtype":
        start = "values.dt.start_time" if hasattr(values, "dt") else "values.start_time"
        since = f"({start} - pandas.Timestamp(0)) / pandas.Timedelta(days=1)"
        return _factorized(values, "periods", _DAYS + since)
    if kind == "IntervalDtype":
        return _factorized(
            values, "intervals", "convert it with pandas.Series(pandas.arrays.IntervalArray(values).mid)"
        )
    if kind == "ArrowDtype":
        return _of_arrow(values.array.__arrow_array__(), name, "pyarrow.array(values)")
    if getattr(dtype, "kind", "O") in KINDS and isinstance(getattr(dtype, "numpy_dtype", None), np.dtype):
        plain = np.asarray(values.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0)))
        # mutant: columns-with-mask-of-nulls-read-without
        return Numbers(plain, np.asarray(values.isna(), dtype=np.bool_), True)
    shown = str(getattr(dtype, "name", kind)).partition("[")[0]
    raise _refused(name, shown, "values.sparse.to_dense()" if kind == "SparseDtype" else 'values.astype("float64")')


def _held(dtype: Any) -> str:
    """Return what categories of a dtype of pandas are, or nothing if it does not say."""
    if isinstance(dtype, np.dtype):
        return "numbers" if dtype.kind in KINDS else _TIMES.get(dtype.kind, "")
    return {"StringDtype": "strings", "DatetimeTZDtype": "datetimes with a time zone"}.get(type(dtype).__name__, "")


_TIMES = {"M": "datetimes", "m": "durations"}


def _factorized(values: Any, kind: str, conversion: str) -> Labels:
    codes, entries = values.factorize()
    return Labels(np.asarray(codes, np.intp), kind, conversion, entries.tolist())


def times(array: npt.NDArray[Any]) -> Labels:
    """Return datetimes or durations of numpy as labels: dates, or what Python has for them where that is exact."""
    unit = np.datetime_data(array.dtype)[0]
    day = "M" if unit in ("Y", "M") and array.dtype.kind == "m" else "D"
    start = 'values - numpy.datetime64(0, "D")' if array.dtype.kind == "M" else "values"
    kind = _TIMES[array.dtype.kind]
    if array.dtype.kind == "M" and unit in ("Y", "M", "W", "D"):
        kind = "dates"
    entries, codes = np.unique(array.reshape(-1), return_inverse=True)  # NaT comes last
    missing = np.isnat(entries)
    codes = np.where(missing[codes], -1, codes).astype(np.intp) if entries.size else codes.astype(np.intp)
    conversion = _DAYS + f'({start}) / numpy.timedelta64(1, "{day}")'
    return Labels(codes.reshape(array.shape), kind, conversion, list(entries))


_FILLS: dict[str, Any] = {"Boolean": False}
"""What stands for null in a column of polars, by dtype."""
_FILLS |= {f"{sign}Int{bits}": 0 for sign in ("", "U") for bits in (8, 16, 32, 64)}
_FILLS |= {f"Float{bits}": float("nan") for bits in (16, 32, 64)}
_POLARS_LABELS = {
    "String": ("strings", _POLARS),
    "Categorical": ("categories that are strings", _POLARS),
    "Enum": ("categories that are strings", _POLARS),
    "Date": ("dates", "convert it to days with values.cast(polars.Int32)"),
    "Datetime": ("datetimes", 'convert it to milliseconds with values.dt.epoch("ms")'),
    "Duration": ("durations", "convert it to milliseconds with values.dt.total_milliseconds()"),
    "Time": ("times", "convert it to nanoseconds with values.cast(polars.Int64)"),
    "Decimal": ("decimals", "convert it with values.cast(polars.Float64)"),
    "Binary": ("bytes", "convert it with values.cast(polars.String).cast(polars.Float64, strict=False)"),
}

_POLARS_OTHERS = dict.fromkeys(("Null", "Int128", "UInt128"), "values.cast(polars.Float64)")
_POLARS_OTHERS |= {"List": "values.list.first()", "Array": "values.arr.first()", "Struct": "values.struct[0]"}


def _of_polars(values: Any, name: str) -> Numbers | Labels:
    """Every column of polars may hold nulls: its dtype does not tell, and whether there are some must not show."""
    kind = str(values.dtype).partition("(")[0]  # the categories of an Enum may be data
    if kind in _POLARS_LABELS:
        words, conversion = _POLARS_LABELS[kind]
        polars: Any = sys.modules["polars"]
        plain = values.cast(polars.String) if kind in ("Categorical", "Enum") else values
        if getattr(values.dtype, "time_unit", None) == "ns":  # Python's own have no nanoseconds
            if getattr(values.dtype, "time_zone", None) is not None:
                raise _refused(
                    name, "nanoseconds with a time zone", 'values.dt.convert_time_zone("UTC").dt.epoch("ms")'
                )
            return replace(times(values.to_numpy()), conversion=conversion)
        if getattr(values.dtype, "time_zone", None) is not None:
            words += " with a time zone"
        unique = plain.drop_nulls().unique()
        codes = plain.to_frame("a").join(
            unique.to_frame("a").with_row_index("b"), on="a", how="left", maintain_order="left"
        )
        found = codes["b"].cast(polars.Int64).fill_null(-1)
        return Labels(found.to_numpy(), words, conversion, unique.to_list())
    if kind not in _FILLS:
        raise _refused(name, kind, _POLARS_OTHERS.get(kind, "values.to_list()"))
    nulls = np.asarray(values.is_null().to_numpy(), dtype=np.bool_) if values.null_count() else None
    return Numbers(np.asarray(values.fill_null(_FILLS[kind]).to_numpy()), nulls, True)


_ARROW_FILLS: dict[str, Any] = {"bool": False, "float": math.nan, "double": math.nan}
_ARROW_FILLS |= {f"{sign}int{bits}": 0 for sign in ("", "u") for bits in (8, 16, 32, 64)}
_ARROW_LABELS = {
    **dict.fromkeys(("string", "large_string"), ("strings", _ARROW)),
    "date32": ("dates", "convert it to days with values.cast(pyarrow.int32())"),
    "date64": ("dates", "convert it to milliseconds with values.cast(pyarrow.int64())"),
    "timestamp": ("datetimes", "convert it to its units with values.cast(pyarrow.int64())"),
    "duration": ("durations", "convert it to its units with values.cast(pyarrow.int64())"),
    "time32": ("times", "convert it to its units with values.cast(pyarrow.int32())"),
    "time64": ("times", "convert it to its units with values.cast(pyarrow.int64())"),
    **dict.fromkeys(("decimal128", "decimal256"), ("decimals", "convert it with values.cast(pyarrow.float64())")),
    **dict.fromkeys(("binary", "large_binary", "fixed_size_binary"), ("bytes", _ARROW)),
}


def _of_arrow(values: Any, name: str, written: str = "values") -> Numbers | Labels:
    """Arrays of Arrow, chunked or not, and how to write them in a conversion."""
    kind = str(values.type).partition("<")[0].partition("[")[0].partition("(")[0]
    if kind == "dictionary":
        return _of_arrow(values.cast(values.type.value_type), name, written)
    if kind == "extension" and hasattr(values.type, "storage_type"):  # a UUID, for instance
        return _of_arrow(values.cast(values.type.storage_type), name, written)
    if kind in _ARROW_LABELS:
        words, conversion = _ARROW_LABELS[kind]
        conversion = conversion.replace("values.", f"{written}.")
        if kind in ("timestamp", "duration") and values.type.unit == "ns":
            if getattr(values.type, "tz", None) is not None:
                raise _refused(name, "nanoseconds with a time zone", f"{written}.cast(pyarrow.int64())")
            return replace(times(values.to_numpy(**_copied(values))), conversion=conversion)
        if getattr(values.type, "tz", None) is not None:
            words += " with a time zone"
        if not len(values) and hasattr(values, "chunks"):  # without rows, chunks of many types cannot be encoded
            values = values.combine_chunks()
        coded = values.dictionary_encode()
        coded = coded.combine_chunks() if hasattr(coded, "chunks") else coded
        codes = np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.intp)
        return Labels(codes, words, conversion, coded.dictionary.to_pylist())
    if kind not in _ARROW_FILLS:
        if kind == "run_end_encoded":
            raise _refused(name, kind, f"pyarrow.compute.run_end_decode({written})")
        if kind not in ("string_view", "binary_view", "halffloat", "null", "decimal32", "decimal64"):
            raise _refused(name, kind, f"{written}.to_pylist()")
        plain_type = {"string_view": "string", "binary_view": "binary", "halffloat": "float32"}.get(kind, "float64")
        raise _refused(name, kind, f"{written}.cast(pyarrow.{plain_type}())")
    nulls = np.asarray(values.is_null().to_numpy(**_copied(values)), np.bool_) if values.null_count else None
    plain = values.fill_null(_ARROW_FILLS[kind]) if values.null_count else values
    return Numbers(np.asarray(plain.to_numpy(**_copied(values))), nulls, True)


def _copied(values: Any) -> dict[str, bool]:
    """Return what allows a single array, which is not chunked, to be copied where its bits need unpacking."""
    return {} if hasattr(values, "chunks") else {"zero_copy_only": False}


def way_out(dtype: np.dtype[Any]) -> str:
    """Return what to do about an array of another dtype."""
    if dtype.names is not None:
        return f"; one of its columns is values[{dtype.names[0]!r}]"
    found = {"c": "numpy.real(values)", "f": "values.astype(float)"}.get(dtype.kind, "values.tolist()")
    return f"; convert it with {found}"


def _refused(name: str, kind: str, conversion: str) -> InvalidArrayType:
    accepted = "truth values, integers, floats, strings, categories, dates or times"
    return InvalidArrayType(f"{name} must be a column of {accepted}, got {kind}; convert it with {conversion}")


_SAFE = frozenset(
    (str, np.str_, bool, int, bytes, np.bool_, np.int64, np.uint64, np.int32, datetime.date, datetime.timedelta)
)
"""Types whose `==` and `hash` run no code of others', and whose values all equal themselves."""
_ZONE = "datetime with a time zone"


class _Guarded:
    """A key whose own code for `==` may raise."""

    __slots__ = ("hash", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.hash = value, hash(value)

    def __hash__(self) -> int:
        return self.hash

    def __reduce__(self) -> tuple[type[_Guarded], tuple[Any]]:
        # mutant: hash-of-another-process-kept
        return _Guarded, (self.value,)

    def __eq__(self, other: object) -> bool:
        try:
            return bool(self.value == (other.value if type(other) is _Guarded else other))
        except Exception:
            return False


def is_missing(value: object) -> bool:
    """Return whether a label stands for nothing: None, NaN, NaT or NA; no code of the label's own is run."""
    kind = type(value)
    if value is None or kind is float or kind is np.float64:
        return value is None or value != value
    if kind in _SAFE:
        return False
    if kind in (np.float32, np.float16, np.longdouble):
        return bool(value != value)
    if kind in (np.datetime64, np.timedelta64):
        return bool(np.isnat(value))  # type: ignore[call-overload]  # one of the two
    if kind is decimal.Decimal:
        return decimal.Decimal.is_nan(value)  # type: ignore[arg-type]  # one
    return kind.__name__ in ("NAType", "NaTType")


def keys_of(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield what each row is compared by, None for one without a key."""
    safe = _SAFE
    for row in rows:
        # mutant: id-of-another-type-is-none
        yield row if type(row) in safe else _key(row)


def _key(row: Any) -> Any:
    if is_missing(row):
        return None
    kind = type(row)
    if kind is float or kind is np.float64:
        return row
    try:
        if issubclass(kind, np.generic):
            row = _plain(row)
        key = _Guarded(row)
        # mutant: raising-comparison-of-an-id-leaves
        return key if row == row else None
    except Exception:
        return None


def _plain(row: Any) -> Any:
    """Return a number or time of numpy as one of Python that equals it, so that equal ones have one hash."""
    if type(row) is np.datetime64 and np.datetime_data(row.dtype)[0] not in ("Y", "M", "W", "D"):
        exact = row.astype("datetime64[us]")
        return exact.item() if exact == row else row
    if type(row) is np.datetime64:
        return row.astype("datetime64[D]").item()
    if type(row) is np.timedelta64:
        exact = row.astype("timedelta64[us]")
        return exact.item() if exact == row else row
    return row.item()


def number(value: Any) -> float:
    """Return what a Python object is as a number, rounded to nearest; NaN if it is none. Never raises."""
    kind = type(value)
    if kind is float or kind is np.float64:
        return float(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, int):
        return float(_arrays.clamped(int.__index__(value)))
    if kind is np.ndarray and not value.shape:
        value, kind = value[()], value.dtype.type
    if issubclass(kind, (np.bool_, np.integer, np.floating)) and not issubclass(kind, np.timedelta64):
        return float(np.ndarray.item(np.asarray(value)))
    if kind is decimal.Decimal or kind is fractions.Fraction:
        try:
            return float(value)
        except ValueError:  # a signaling NaN
            return math.nan
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return math.nan


def canonical(value: Any) -> tuple[str, Any, Any] | None:
    """Return for a label its type, how it sorts among those, and a form that equal labels of that type share.

    None for a missing one, and for types of which equal values may look different: which of them came first must not
    show. 1, 1.0 and True are equal, and have three types. Never raises.
    """
    try:
        return None if is_missing(value) else _canonical(value)
    except Exception:  # a time before the year 1 in another zone, for instance
        return None


def _canonical(value: Any) -> tuple[str, Any, Any] | None:
    kind: Any = type(value)
    if issubclass(kind, np.generic):
        value = _plain(value)
        kind = type(value)
    name = kind.__name__
    if kind is float:
        value = value + 0.0
    elif kind is datetime.datetime:
        if value.tzinfo is not None:
            name, value = _ZONE, value.astimezone(datetime.UTC)
        value = value.replace(fold=0)
    elif kind is decimal.Decimal:
        parts = value.as_tuple()
        digits, exponent = list(parts.digits), parts.exponent
        if not isinstance(exponent, int):
            return None
        while len(digits) > 1 and not digits[-1]:
            digits.pop()
            exponent += 1
        value = decimal.Decimal((parts.sign, digits, exponent)) if any(digits) else decimal.Decimal(0)
    elif kind is uuid.UUID:
        value = uuid.UUID(int=value.int)
    elif kind is tuple:
        parts_of = [canonical(each) for each in value]
        if any(part is None for part in parts_of):
            return None
        value = tuple(part[2] for part in parts_of if part is not None)
        return name, repr(value), value
    elif name == "Timestamp" and type(value).__module__.partition(".")[0] == "pandas":
        if value.tzinfo is not None:
            name, value = _ZONE, value.tz_convert("UTC")
    elif kind not in _SAFE and not (name in ("Timedelta", "Period") and kind.__module__.startswith("pandas")):
        return None
    return name, value, value
