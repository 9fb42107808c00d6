"""Validation of arrays of data, once, where they enter the package.

Whether an array is accepted depends on its type, dtype, shape and layout, never on an element. The result is a
C-contiguous, aligned, native-endian base `numpy.ndarray`: the caller's own memory where it already is one, otherwise a
private copy of the same shape. Rows of clipped sums are read in place, in any order of memory and bytes
(`as_rows`). Types that carry information besides their elements are refused, because masks, indexes, units, gradients
and nulls would be dropped.
"""

from __future__ import annotations

import datetime
import functools
import math
import sys
from collections.abc import Callable, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp.errors import InvalidArray, InvalidArrayType

P = ParamSpec("P")
R = TypeVar("R")

FloatArray: TypeAlias = "npt.NDArray[np.float32] | npt.NDArray[np.float64]"

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
HALF = np.dtype(np.float16)
_NDARRAY = np.ndarray  # looked up once: numpy's names are not cheap to find
INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
_BITS: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
LARGEST_INTEGER = int(sys.float_info.max)
"""Integers beyond ± this, the largest float, are clamped to it; clamping increases no distance."""

Integers: TypeAlias = "list[tuple[int, bool, bytes]]"
"""Integers by their place, for the native code: place, whether it is negative, magnitude as little-endian bytes."""

_FOREIGN = ("pandas", "pyarrow", "polars", "scipy.sparse", "sparse", "xarray", "dask")
_DLPACK_CPU = 1  # kDLCPU


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Keep numpy from warning or raising about floating-point numbers in `function`: that would depend on data.

    A single element can cause signaling NaNs, overflow and underflow; every function that takes data has a defined
    result for them. For functions that run no code of the caller's.
    """

    @functools.wraps(function)
    def silent(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return silent


def as_float_array(value: object, name: str, *, dtypes: tuple[np.dtype[Any], ...] = FLOATS) -> npt.NDArray[Any]:
    """Return `value` as a C-contiguous, aligned, native array of one of `dtypes`; without a copy if it is one.

    Python numbers and nested lists of them become float64; integers are rounded to nearest (see `long_integers`). Other
    dtypes are refused, not cast: a cast can increase the distance of two neighboring values, so the caller, who states
    the sensitivity, has to do it.

    Raises
    ------
    InvalidArrayType
        For every type and dtype that is not accepted, and for ragged lists.
    InvalidArray
        For a list of more than 64 dimensions.
    MemoryError
        If a copy is needed that the machine cannot hold.
    """
    if type(value) is np.ndarray and value.dtype in dtypes and is_plain(value):
        return value
    return _plain(base_array(value, name), name, dtypes)


def as_floats(value: object, name: str) -> npt.NDArray[Any]:
    """Return `value` as `as_float_array` does, but an array in whatever byte order and memory layout it has."""
    array = base_array(value, name)
    if native(array.dtype) not in FLOATS:
        raise wrong_dtype(name, array.dtype, FLOATS)
    return array


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype of floats in the byte order of this machine; any other as it is."""
    return dtype if dtype.isnative or dtype.kind != "f" else dtype.newbyteorder("=")


def is_row_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether rows of clipped sums may have this dtype: one of `FLOATS`, or float16 or bfloat16, in native order."""
    return dtype in FLOATS or dtype == HALF or is_brain(dtype)


def is_brain(dtype: np.dtype[Any]) -> bool:
    """Whether this is bfloat16, which other packages bring."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def as_rows(value: object, name: str) -> npt.NDArray[Any]:
    """Return `value` as an array that rows of clipped sums can have: in any byte order and order of memory.

    That is the caller's own memory wherever it is an array's. Errors are those of `as_float_array`; numbers of 16 bits
    are accepted, as they are exactly numbers of float32.
    """
    array = base_array(value, name)
    if not is_row_dtype(native(array.dtype)):
        raise wrong_dtype(name, array.dtype, FLOATS)
    return array


@functools.lru_cache(maxsize=64)
def row_form(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], str, bool] | None:
    """Return for rows the dtype of their bits, what these mean, and whether bytes are in the other order."""
    plain = native(dtype)
    if not is_row_dtype(plain):
        return None
    # mutant: rows-in-other-byte-order-read-as-native
    return _BITS[plain.itemsize], plain.name, not dtype.isnative


def add_rows(total: _native.GridSum, arrays: list[npt.NDArray[Any]], count: int, threads: int | None) -> None:
    """Add `count` rows to a native sum.

    Arrays of 16 bits, of two dtypes, in the other byte order or not aligned go as their bits, and are copied block by
    block to where they can be read.
    """
    dtype = arrays[0].dtype
    if dtype in FLOATS and all(array.dtype == dtype and array.flags.aligned for array in arrays):
        total.add(arrays, count, threads)
        return
    pairs = [(array, row_form(array.dtype)) for array in arrays]
    total.add_foreign([(array.view(form[0]), *form[1:]) for array, form in pairs if form is not None], count, threads)


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum of rows of a dtype: float32 for those of 16 bits, whose numbers it has."""
    found = native(dtype)
    return found if found in FLOATS else FLOATS[0]


def long_integers(value: object) -> dict[int, int]:
    """Return the integers in `value` that are not exactly floats, by their index in the result of `as_float_array`.

    `as_float_array` rounds each to the nearest float. That suffices where the data of one unit is bounded afterwards,
    like clipped rows and clamped columns. Data with a declared sensitivity is used exactly, because rounding can
    increase the distance of two values.
    """
    kind = type(value)
    if issubclass(kind, (int, np.integer)):
        level: list[Any] = [value]
    elif issubclass(kind, (list, tuple)):
        level = list(value)  # type: ignore[call-overload]  # a list or tuple
        while level and isinstance(level[0], (list, tuple)):
            level = [item for part in level for item in part]
    else:
        return {}
    long = {}
    for place, item in enumerate(level):
        if issubclass(type(item), (int, np.integer)):
            integer = clamped(int(item))
            if integer != float(integer):
                long[place] = integer
    return long


def clamped(integer: int) -> int:
    """Return the nearest integer in the range of floats."""
    return max(-LARGEST_INTEGER, min(LARGEST_INTEGER, integer))


def written(integers: dict[int, int]) -> Integers:
    """Return integers for the native code, in the order of their places."""
    return [(place, *bytes_of(integer)) for place, integer in sorted(integers.items())]


def bytes_of(integer: int) -> tuple[bool, bytes]:
    """Return whether an integer is negative, and its magnitude as little-endian bytes."""
    return integer < 0, abs(integer).to_bytes((integer.bit_length() + 7) // 8, "little")


def as_integer_array(value: object, name: str, *, dtypes: tuple[np.dtype[Any], ...] = INTEGERS) -> npt.NDArray[Any]:
    """Return `value` as a C-contiguous, aligned, native array of one of `dtypes`; without a copy if it is one.

    Python and numpy integers and nested lists of them become int64, clamped to its range; clamping increases no
    distance. Errors are those of `as_float_array`; floats are refused, whole ones too.
    """
    if type(value) is np.ndarray and value.dtype in dtypes and is_plain(value):
        return value
    kind = type(value)
    if issubclass(kind, (list, tuple)) or (issubclass(kind, (int, np.integer)) and not issubclass(kind, bool)):
        return _plain(_from_numbers(value, name, _integer_leaf, np.dtype(np.int64)), name, dtypes)
    return _plain(base_array(value, name), name, dtypes)


def base_array(value: object, name: str) -> npt.NDArray[Any]:
    """Return what `value` holds as a base-class ndarray of whatever dtype and layout, sharing memory where possible."""
    if type(value) is np.ndarray:
        return value
    kind = type(value)  # not isinstance: that asks the object's own `__class__`, which may raise or lie
    if issubclass(kind, (bool, np.bool_)) or value is None:
        raise _not_an_array(name, value)
    if issubclass(kind, (float, int, np.integer, list, tuple)):
        return _from_numbers(value, name, _leaf, np.dtype(np.float64))
    _refuse_what_would_lose_information(value, name)
    if _comes_from(value, ("torch",)):
        return _from_torch(value, name)
    array = _converted(value)
    if array is None:
        raise _not_an_array(name, value)
    _refuse_what_would_lose_information(array, name)
    return array if type(array) is np.ndarray else np.ndarray.view(array, np.ndarray)


def writable_target(array: object, name: str, *, dtypes: tuple[np.dtype[Any], ...] = FLOATS) -> npt.NDArray[Any]:
    """Return `array` for use in place: same memory, writeable, C-contiguous, aligned, native, of one of `dtypes`.

    Raises
    ------
    InvalidArrayType
        If it is not an array of these dtypes: a copy would receive the noise and be discarded.
    InvalidArray
        If it is read-only, or not C-contiguous and aligned.
    """
    # `carray` is all three in one look: writeable, C-contiguous, aligned; `dtypes` are native.
    if type(array) is _NDARRAY and array.dtype in dtypes and array.flags.carray:
        return array
    if isinstance(array, (list, tuple, int, float)):
        raise InvalidArrayType(f"{name} must be a numpy array, got {type(array).__name__}: nothing to write to")
    target = base_array(array, name)
    if target.dtype not in dtypes:
        raise wrong_dtype(name, target.dtype, dtypes)
    if not target.flags.writeable:
        raise InvalidArray(f"{name} must be writeable, got a read-only array")
    if not is_plain(target):
        raise InvalidArray(f"{name} must be C-contiguous and aligned; copy it with numpy.ascontiguousarray")
    return target


def out_target(
    out: object,
    like: npt.NDArray[Any],
    *,
    source: object,
    name: str = "out",
    dtypes: tuple[np.dtype[Any], ...] = FLOATS,
) -> npt.NDArray[Any]:
    """Return `out` if a result of the shape and dtype of `like`, computed from the caller's `source`, may go there.

    The very memory of `source` is accepted (the release happens in place); memory that overlaps it otherwise is not.
    """
    target = writable_target(out, name, dtypes=dtypes)
    if target.dtype != like.dtype:
        raise InvalidArrayType(f"{name} must have the dtype of the value, {like.dtype}, got {target.dtype}")
    if target.shape != like.shape:
        raise InvalidArray(f"{name} must have the shape of the value, {like.shape}, got {target.shape}")
    if isinstance(source, np.ndarray) and np.may_share_memory(target, source) and not _same_memory(target, source):
        raise InvalidArray(f"{name} must be the value itself or share no memory with it")
    return target


def wrong_dtype(name: str, dtype: np.dtype[Any], dtypes: tuple[np.dtype[Any], ...]) -> InvalidArrayType:
    """Return the exception for a dtype that is not accepted."""
    accepted = " or ".join(str(each) for each in dtypes)
    wanted = dtypes[-1]
    if dtype.names is not None:
        way_out = f"one of its fields is {name}[{dtype.names[0]!r}]"
    elif wanted.kind in "iu":
        way_out = f"convert it with {_whole(name, dtype, wanted)}"
    elif dtype.kind == "c":
        way_out = f"convert it with {name}.real"
    elif dtype.kind in "mM":
        since = f'{name} - numpy.datetime64(0, "D")' if dtype.kind == "M" else name
        way_out = f'convert it to days with ({since}) / numpy.timedelta64(1, "D")'
    elif dtype.kind in "SUT":
        way_out = f'convert it with pandas.to_numeric({name}, errors="coerce"): what is no number becomes NaN'
    else:
        way_out = f'convert it with {name}.astype("{wanted}")'
    return InvalidArrayType(f"{name} must have dtype {accepted}, got {dtype}; {way_out}")


def _whole(name: str, dtype: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    """Return how an array becomes one of integers: NaN becomes 0, and what is out of range the nearest in range."""
    if dtype.kind in "bi":
        return f'{name}.astype("{wanted}")'
    if dtype.kind == "u":
        return f'{name}.clip(max=2**63 - 1).astype("{wanted}")'
    floats = name if dtype.kind == "f" else f"numpy.asarray({name}, float)"
    return f'numpy.nan_to_num({floats}).clip(-2**53, 2**53).round().astype("{wanted}")'


def _plain(array: npt.NDArray[Any], name: str, dtypes: tuple[np.dtype[Any], ...]) -> npt.NDArray[Any]:
    """Return an array of one of `dtypes` in C order, aligned and native: itself, or a copy that fits in memory."""
    native = array.dtype.newbyteorder("=") if array.dtype.kind in "iuf" else array.dtype
    if native not in dtypes:
        raise wrong_dtype(name, array.dtype, dtypes)
    if is_plain(array):
        return array
    _validate.fits_in_memory(name, array.nbytes)
    return np.array(array, dtype=native, order="C", copy=True, subok=False)


def is_plain(array: npt.NDArray[Any]) -> bool:
    """Whether the kernels read this array as it is: in C order, aligned, native."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned and array.dtype.isnative


def _same_memory(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> bool:
    """Whether `source` is element for element the memory of the C-contiguous `target`."""
    alike = target.shape == source.shape and target.dtype == source.dtype and source.flags.c_contiguous
    return alike and bool(target.__array_interface__["data"] == source.__array_interface__["data"])


def _not_an_array(name: str, value: object) -> InvalidArrayType:
    kind = type(value)
    if issubclass(kind, Set):
        way_out = f"list its elements in an order: sorted({name})"
    elif issubclass(kind, Mapping):
        way_out = f"pass list({name}.values()), or one of its values"
    elif issubclass(kind, complex):
        way_out = f"pass [{name}.real, {name}.imag]: two numbers"
    elif issubclass(kind, (str, bytes, bytearray, bool, np.bool_)):
        way_out = f"convert it with float({name})"
    elif any("__iter__" in vars(base) for base in kind.__mro__):
        way_out = f"convert it with list({name})"
    else:
        way_out = "for example [1.0, 2.0]"
    return _refused(name, "be a number or an array of numbers", f"got {type(value).__name__}; {way_out}")


def _refused(name: str, rule: str, reason: str) -> InvalidArrayType:
    return InvalidArrayType(f"{name} must {rule}, {reason}")


def _comes_from(value: object, packages: tuple[str, ...]) -> bool:
    """Whether a class of `value` is defined in one of `packages`, which need not be installed."""
    modules = (getattr(base, "__module__", None) for base in type(value).__mro__)
    return any(isinstance(m, str) and any(m == p or m.startswith(p + ".") for p in packages) for m in modules)


def _refuse_what_would_lose_information(value: object, name: str) -> None:
    kind = type(value)
    if issubclass(kind, np.ma.MaskedArray):
        raise _refused(name, "not be a masked array", f"its mask would be dropped; {_filled(value, name)}")
    if issubclass(kind, np.matrix):
        raise _refused(
            name, "not be a numpy.matrix", f"it is always two-dimensional; convert it with numpy.asarray({name})"
        )
    if issubclass(kind, (str, bytes, bytearray, complex, Mapping, Set)):
        raise _not_an_array(name, value)
    if _comes_from(value, _FOREIGN):
        found = f"{kind.__module__.partition('.')[0]} {kind.__name__}"
        way_out = f"convert it with {name}{_plain_form(kind)}"
        raise _refused(name, "be a numpy array", f"got {found}: nulls or labels would be dropped; {way_out}")
    if _comes_from(value, ("jax",)) and any(base.__name__ == "Tracer" for base in kind.__mro__):
        raise _refused(name, "be a concrete array", "got a jax tracer; call this outside of jit, grad and vmap")


def _filled(value: Any, name: str) -> str:
    """Return how a masked array becomes one in which masked elements count as 0: those of floats as NaN, if kept."""
    if value.dtype.kind in "biuf":
        return f"convert it with {name}.filled(0): what is masked counts as 0"
    return f"convert it with {name}.data if nothing is masked"


_PLAIN_FORMS = {
    "pandas": ".to_numpy(float, na_value=numpy.nan)",
    "polars": ".to_numpy()",
    "pyarrow": ".to_numpy(zero_copy_only=False)",
    "scipy": ".toarray()",
    "sparse": ".todense()",
    "xarray": ".to_numpy()",
    "dask": ".compute()",
}


def _plain_form(kind: type) -> str:
    """Return the method of an object of another package that gives its elements as an array."""
    if kind.__name__ in ("Table", "RecordBatch"):
        return ".to_pandas().to_numpy(float, na_value=numpy.nan)"
    if kind.__name__ == "LazyFrame":
        return ".collect().to_numpy()"
    package = kind.__module__.partition(".")[0]
    return _PLAIN_FORMS.get(package, ".to_numpy()")


def _from_torch(value: Any, name: str) -> npt.NDArray[Any]:
    """Return the memory of a torch tensor that lies on the CPU and is no part of a graph."""
    try:
        fit = value.device.type == "cpu" and not value.requires_grad
        array = value.numpy() if fit else None
    except Exception:
        array = None
    if not isinstance(array, np.ndarray):
        double = "" if str(getattr(value, "dtype", "")) in ("torch.float32", "torch.float64") else ".double()"
        way_out = f"pass {name}.detach().cpu(){double}"
        raise _refused(name, "be a float32 or float64 tensor on the CPU without gradient", way_out)
    return array


def _converted(value: Any) -> npt.NDArray[Any] | None:
    """Return `value` as numpy converts it, or None. Exceptions of its methods are dropped: they may quote data."""
    if issubclass(type(value), np.ndarray):
        return cast("npt.NDArray[Any]", value)
    try:
        device = getattr(type(value), "__dlpack_device__", None)
        if device is not None and int(device(value)[0]) != _DLPACK_CPU:
            return None
        array = np.asanyarray(value)
    except MemoryError:
        raise
    except Exception:
        return None
    return array if isinstance(array, np.ndarray) and array.dtype.kind != "O" else None


def _from_numbers(
    value: object, name: str, leaf: Callable[[Any, str], float], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return a number or nested lists of numbers as an array; refusals depend on types and lengths alone."""
    shape: list[int] = []
    first = value
    while isinstance(first, (list, tuple)):
        shape.append(len(first))
        if len(shape) > _validate.MAX_DIMENSIONS:
            raise InvalidArray(f"{name} must have at most {_validate.MAX_DIMENSIONS} dimensions")
        if not first:
            break
        first = first[0]
    _validate.fits_in_memory(name, 8 * math.prod(shape))
    level: list[Any] = [value]
    for length in shape:
        if any(not isinstance(part, (list, tuple)) or len(part) != length for part in level):
            filled = f"convert it with [(row + n * [0.0])[:n] for row in {name}]: rows of n numbers"
            raise _refused(name, "not be ragged", f"lists of one level must have one length; {filled}")
        level = [item for part in level for item in part]
    return np.array([leaf(item, name) for item in level], dtype=dtype).reshape(shape)


def _leaf(value: Any, name: str) -> float:
    kind = type(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, np.float32):
        return float(value)
    if issubclass(kind, (int, np.integer)) and not issubclass(kind, (bool, np.timedelta64)):
        return float(clamped(int(value)))
    raise _refused(name, "hold numbers, in lists of one depth", f"got {kind.__name__} in it{_of_elements(name, kind)}")


def _integer_leaf(value: Any, name: str) -> int:
    kind = type(value)
    if issubclass(kind, (int, np.integer)) and not issubclass(kind, (bool, np.timedelta64)):
        return max(-(2**63), min(2**63 - 1, int(value)))
    way_out = ""
    if _is_real(kind):
        way_out = f"; convert it with {_whole(name, np.dtype(object), np.dtype(np.int64))}"
    raise _refused(name, "hold integers, in lists of one depth", f"got {kind.__name__} in it{way_out}")


def _is_real(kind: type) -> bool:
    """Whether numpy makes floats of objects of a type, NaN of None."""
    return issubclass(kind, (float, int, type(None), Decimal, Fraction, np.floating, np.bool_))


def _of_elements(name: str, kind: type) -> str:
    """Return how a list with elements of another type is converted."""
    if _is_real(kind):
        return f"; convert it with numpy.array({name}, float): None becomes NaN"
    if issubclass(kind, (str, bytes)):
        return f'; convert it with pandas.to_numeric({name}, errors="coerce"): what is no number becomes NaN'
    if issubclass(kind, (complex, np.complexfloating)):
        return f"; convert it with numpy.real({name})"
    if issubclass(kind, (datetime.timedelta, np.timedelta64)):
        return f'; convert it to days with numpy.array({name}, "timedelta64[us]") / numpy.timedelta64(1, "D")'
    if issubclass(kind, (datetime.date, np.datetime64)):
        days = f'numpy.array({name}, "datetime64[us]") - numpy.datetime64(0, "D")'
        return f'; convert it to days with ({days}) / numpy.timedelta64(1, "D")'
    return ""
