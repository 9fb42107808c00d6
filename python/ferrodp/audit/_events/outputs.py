"""What is seen of outputs: their numbers, and everything else that whoever receives them could tell apart."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Bits: TypeAlias = npt.NDArray[np.uint64]

MAX_COLUMNS = 64
"""Numbers of each output that are looked at."""
_DEPTH = 8
_WHOLE = 2.0**53
"""Up to here every whole number is a float."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\b(?:inf|nan)\b")
_MIXERS = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Raised:
    """An exception that was raised instead of an output: it is not the same as one that is returned."""

    def __init__(self, error: BaseException) -> None:
        """Keep the exception."""
        self.error = error


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs as columns of numbers, NaN where an output has no such number, and of what kind each output is.

    The kind says what the numbers do not: types, shapes, the order of bytes, texts, keys, exceptions.
    """

    columns: npt.NDArray[Any]
    kinds: list[str] | str
    """One for all, if they are alike."""
    rests: Array | None = None
    """What the columns lack of numbers that no float denotes; None if nothing."""
    _kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.columns.shape[1])

    @property
    def width(self) -> int:
        """How many numbers the longest of them has."""
        return int(self.columns.shape[0])

    def kept(self, name: Any, make: Callable[[], Any]) -> Any:
        """Return what several events need, made once."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def column(self, index: int) -> npt.NDArray[Any]:
        """Return a column; NaN if no output has that many numbers."""
        return self.columns[index] if index < self.width else np.full(self.size, np.nan)

    def rest(self, index: int) -> Array:
        """Return what a column lacks of its numbers."""
        if self.rests is None or index >= self.rests.shape[0]:
            return np.zeros(self.size)
        found: Array = self.rests[index]
        return found

    def codes(self) -> Bits:
        """Return a number for each kind."""

        def make() -> Bits:
            if isinstance(self.kinds, str):
                return np.full(self.size, _code(self.kinds), dtype=np.uint64)
            known = {kind: _code(kind) for kind in set(self.kinds)}
            return np.array([known[kind] for kind in self.kinds], dtype=np.uint64)

        found: Bits = self.kept("codes", make)
        return found

    def identities(self) -> Bits:
        """Return a number for each output, the same for the same kinds and bits: a hash of all that is looked at."""

        def make() -> Bits:
            found = self.codes().copy()
            for each in [*self.columns, *(() if self.rests is None else self.rests)]:
                found = _mixed(found, bits_of(each))
            return found

        found: Bits = self.kept("identities", make)
        return found

    def part(self, first: int, last: int) -> Outputs:
        """Return some of them."""
        kinds = self.kinds if isinstance(self.kinds, str) else self.kinds[first:last]
        rests = None if self.rests is None else self.rests[:, first:last]
        return Outputs(self.columns[:, first:last], kinds, rests)


def joined(parts: Sequence[Outputs]) -> Outputs:
    """Return the outputs of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.width for part in parts)
    columns = np.concatenate([_widened(part.columns, width, np.nan) for part in parts], axis=1)
    rests = None
    if any(part.rests is not None for part in parts):
        rests = np.concatenate(
            [_widened(np.empty((0, part.size)) if part.rests is None else part.rests, width, 0.0) for part in parts],
            axis=1,
        )
    alike = {part.kinds for part in parts if isinstance(part.kinds, str)}
    if len(alike) == 1 and all(isinstance(part.kinds, str) for part in parts):
        return Outputs(columns, alike.pop(), rests)
    kinds = [[part.kinds] * part.size if isinstance(part.kinds, str) else part.kinds for part in parts]
    return Outputs(columns, [kind for each in kinds for kind in each], rests)


def _widened(columns: npt.NDArray[Any], width: int, fill: float) -> npt.NDArray[Any]:
    missing = width - columns.shape[0]
    return np.concatenate([columns, np.full((missing, columns.shape[1]), fill)]) if missing else columns


def outputs_of(values: Any) -> Outputs:
    """Return what a release put out, in order: numbers, arrays, exceptions or anything else."""
    if not isinstance(values, (np.ndarray, list, tuple)) and hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.dtype.kind in "fiubc" and array.ndim:
            return _alike(array, f"{_name(type(values))} of {_kind(array[0])}")
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiubc" and not isinstance(values, np.ma.MaskedArray):
        return _alike(values, _kind_of_rows(values))
    items = list(values)
    types = set(map(type, items))
    if len(types) == 1:
        one = types.pop()
        if one is float or (issubclass(one, np.generic) and np.dtype(one).kind in "fiub"):
            return _alike(np.array(items, dtype=np.dtype(one)), _kind(items[0]))
        if one is np.ndarray and len({(item.dtype.str, item.shape) for item in items}) == 1:
            first = items[0]
            if first.dtype.kind in "fiubc":
                return _alike(np.stack(items), _kind(first))
    return _each(items)


def _kind_of_rows(values: npt.NDArray[Any]) -> str:
    """Return the kind of the rows of an array."""
    row = f"array of {_dtype(values.dtype)}, shape {values.shape[1:]}" if values.ndim > 1 else _dtype(values.dtype)
    return row if type(values) is np.ndarray else f"{row} in {_name(type(values))}"


def _alike(array: npt.NDArray[Any], kind: str) -> Outputs:
    """Return outputs of one kind, which the array holds along its first axis."""
    flat = array.reshape(array.shape[0], -1)[:, :MAX_COLUMNS]
    if flat.dtype.kind == "c":
        flat = np.stack([flat.real, flat.imag], axis=-1).reshape(array.shape[0], -1)[:, :MAX_COLUMNS]
    exact = np.ascontiguousarray(flat.T)
    with np.errstate(all="ignore"):
        columns = exact.astype(np.float64)
        rests = None
        if exact.dtype.itemsize > 8:
            rests = np.nan_to_num((exact - columns).astype(np.float64), posinf=0.0, neginf=0.0)
        elif exact.dtype.kind in "iu" and exact.dtype.itemsize == 8 and (np.abs(columns) >= _WHOLE).any():
            rests = (exact.astype(np.longdouble) - columns).astype(np.float64)
    return Outputs(columns, kind, rests if rests is not None and rests.any() else None)


def _each(items: list[Any]) -> Outputs:
    found = [_Described.of(item) for item in items]
    width = max((len(each.numbers) for each in found), default=1) or 1
    columns, rests = np.full((width, len(found)), np.nan), np.zeros((width, len(found)))
    for i, each in enumerate(found):
        columns[: len(each.numbers), i] = each.numbers
        for place, rest in each.rests:
            rests[place, i] = rest
    kinds = [each.kind for each in found]
    return Outputs(columns, kinds if len(set(kinds)) > 1 else kinds[0], rests if rests.any() else None)


def _kind(value: Any) -> str:
    return _Described.of(value).kind


class _Described:
    """One output: its numbers, in order, and its kind."""

    def __init__(self) -> None:
        self.kind = ""
        self.numbers: list[float] = []
        self.rests: list[tuple[int, float]] = []

    @classmethod
    def of(cls, value: Any) -> _Described:
        found = cls()
        if isinstance(value, Raised):
            error = value.error
            found.kind = f"raises {_name(type(error))}: {error}"
            found._text(str(error))
        else:
            found.kind = found._walk(value, _DEPTH)
        return found

    def _number(self, value: float, rest: float = 0.0) -> None:
        if len(self.numbers) < MAX_COLUMNS:
            if rest:
                self.rests.append((len(self.numbers), rest))
            self.numbers.append(value)

    def _text(self, text: str) -> None:
        """Take the numbers that a text spells."""
        for each in _NUMBER.findall(text):
            if len(self.numbers) >= MAX_COLUMNS:
                break
            self._number(float(each))

    def _walk(self, value: Any, depth: int) -> str:
        """Take the numbers of a value, and return what else there is to see of it."""
        name = _name(type(value))
        # mutant: types-of-outputs-not-compared
        found = self._plain(value, name)
        if found is None and depth:
            found = self._inside(value, name, depth - 1)
        if found is None:
            found = repr(value)
            self._text(found)
        return found

    def _plain(self, value: Any, name: str) -> str | None:
        """Return the kind of a value without parts, or None."""
        if isinstance(value, np.generic):
            if value.dtype.kind in "fiubc":
                self._array(np.asarray(value))
                return f"numpy.{_dtype(value.dtype)}"
            return f"numpy {value!r}"
        if isinstance(value, (bool, float)):
            self._number(float(value))
            return name
        if isinstance(value, int):
            return self._int(int(value), name)
        if isinstance(value, complex):
            self._number(value.real)
            self._number(value.imag)
            return name
        if isinstance(value, (Fraction, Decimal)) and value == value:
            return self._fraction(value, name)
        if value is None:
            return "None"
        if isinstance(value, (str, bytes)):
            text = repr(value)
            self._text(text)
            return text if type(value) in (str, bytes) else f"{name} {text}"
        return None

    def _int(self, value: int, name: str) -> str:
        try:
            near = float(value)
        except OverflowError:
            self._number(np.inf if value > 0 else -np.inf)
            return f"{name} {value:#x}"
        self._number(near, float(value - int(near)) if abs(near) >= _WHOLE else 0.0)
        return name

    def _fraction(self, value: Fraction | Decimal, name: str) -> str:
        kind = f"{name} of exponent {value.as_tuple().exponent}" if isinstance(value, Decimal) else name
        try:
            near = float(value)
            self._number(near, float(Fraction(value) - Fraction(near)))
        except OverflowError:
            self._number(np.inf if value > 0 else -np.inf)
        return kind

    def _array(self, value: npt.NDArray[Any]) -> None:
        found = _alike(value.reshape(1, -1), "")
        rests = np.zeros(found.width) if found.rests is None else found.rests[:, 0]
        for number, rest in zip(found.columns[:, 0].tolist(), rests.tolist(), strict=True):
            self._number(number, rest)

    def _inside(self, value: Any, name: str, depth: int) -> str | None:
        """Return the kind of a value with parts, or None."""
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            kind = f"{'array' if type(value) is np.ndarray else name} of {_dtype(value.dtype)}, shape {value.shape}"
            if value.dtype.kind in "fiubc":
                self._array(value)
                return kind
            return f"{kind}: {self._items(value.reshape(-1).tolist(), depth)}"
        if isinstance(value, Mapping):
            keys = ", ".join(f"{key!r}: {self._walk(each, depth)}" for key, each in value.items())
            return f"{name} {{{keys}}}"
        if isinstance(value, (set, frozenset)):
            return f"{name} of {self._items(sorted(value, key=_order), depth)}"
        if isinstance(value, (list, tuple, deque)):
            return f"{name} of {self._items(value, depth)}"
        if isinstance(value, BaseException):
            return f"{name}{self._items(value.args, depth)}"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {each.name: getattr(value, each.name, None) for each in dataclasses.fields(value)}
            return f"{name} of {self._walk(parts, depth)}"
        if hasattr(value, "__array__"):
            array = np.asarray(value)
            if array.dtype.kind in "fiubc":
                of = f" with columns {value.dtypes}" if hasattr(value, "dtypes") else ""
                return f"{name}{of} of {self._walk(array, depth)}"
        elif repr(value) == object.__repr__(value):  # an address, which says nothing
            return f"{name} of {self._walk(dict(vars(value)), depth)}" if hasattr(value, "__dict__") else name
        return None

    def _items(self, values: Any, depth: int) -> str:
        """Return the kinds of items, those that repeat with their number."""
        found: list[tuple[str, int]] = []
        for each in values:
            kind = self._walk(each, depth)
            if found and found[-1][0] == kind:
                found[-1] = kind, found[-1][1] + 1
            else:
                found.append((kind, 1))
        return "(" + ", ".join(f"{times} × {kind}" if times > 1 else kind for kind, times in found) + ")"


def _order(value: Any) -> tuple[str, Any]:
    number = isinstance(value, (int, float)) and value == value
    return ("", float(value)) if number and abs(value) < _WHOLE else (repr(value) or " ", 0.0)


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _dtype(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.isnative else f"{dtype.name} of the other byte order"


def _code(kind: str) -> np.uint64:
    digest = hashlib.blake2b(kind.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _mixed(found: Bits, bits: Bits) -> Bits:
    """Return a hash of both, with the rounds of SplitMix64."""
    found = (found + _MIXERS[0]) ^ bits
    found = (found ^ (found >> np.uint64(30))) * _MIXERS[1]
    found = (found ^ (found >> np.uint64(27))) * _MIXERS[2]
    return found ^ (found >> np.uint64(31))


def bits_of(x: npt.NDArray[Any]) -> Bits:
    """Return the bits of numbers, as float64."""
    return np.ascontiguousarray(x, dtype=np.float64).view(np.uint64)
