"""Columns of a table that is read in blocks: numbers in one array, and of other values each once, with its places.

So memory holds a number, or four bytes, a row, and nothing of the blocks that have been read. What a row becomes never
depends on the block that it is in: the type of a column is known before its rows, and two labels have one place if they
are equal and of one type.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.statistics import _foreign
from ferrodp.statistics._foreign import Labels, Numbers, canonical

__all__: list[str] = []

Mask = npt.NDArray[np.bool_]
_BY_THEMSELVES = frozenset(("strings", "bytes"))
"""Kinds of which entries of one kind are equal just if they are the same value."""


class Array:
    """An array that grows in place."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._held = bytearray()

    def add(self, part: npt.NDArray[Any]) -> None:
        """Append numbers of the dtype."""
        self._held += np.ascontiguousarray(part, self._dtype).data.cast("B") if part.size else b""

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return len(self._held) // int(self._dtype.itemsize)

    def zeros(self, more: int) -> None:
        """Append so many zeros."""
        self._held += bytes(more * self._dtype.itemsize)

    def array(self) -> npt.NDArray[Any]:
        """Return all of them; nothing can be appended from then on."""
        return np.frombuffer(self._held, self._dtype)


class Names:
    """A column of strings; `missing` says of one whether it stands for nothing."""

    def __init__(self, missing: Callable[[str], bool]) -> None:
        self._missing = missing
        self._places: collections.defaultdict[str, int] = collections.defaultdict(itertools.count().__next__)
        self._codes = Array(np.int32)

    def add(self, cells: Sequence[str], kept: Mask | None) -> None:
        """Append rows, or those that are kept."""
        rows: Iterable[str] = cells if kept is None else itertools.compress(cells, kept.tolist())
        codes = np.fromiter(map(self._places.__getitem__, rows), np.int32)
        self._codes.add(codes)

    def column(self) -> Labels:
        """Return the column."""
        codes, entries = self._codes.array(), list(self._places)
        absent = np.array([self._missing(entry) for entry in entries], np.bool_)
        if absent.any():
            for start in range(0, codes.size, _foreign.PART):
                part = codes[start : start + _foreign.PART]
                # mutant: missing-names-of-a-file-are-one-name
                part[absent[part]] = -1
        return Labels(codes, "strings", "", entries, all_different=True)


class Gathered:
    """A column of pandas, polars or Arrow, a block at a time; `empty` is one of its type without rows."""

    def __init__(self, empty: Any, name: str) -> None:
        self._name = name
        self._found = read(empty, name)
        self._nulls: Array | None = None
        self._is_plain = isinstance(self._found, Labels) and self._found.kind in _BY_THEMSELVES
        self._places: collections.defaultdict[Any, int] = collections.defaultdict(itertools.count().__next__)
        self._entries: list[Any] = []
        self._rows = Array(self._found.values.dtype if isinstance(self._found, Numbers) else np.int32)
        self._bits = 0
        if isinstance(self._found, Numbers) and self._found.values.dtype.kind in "iu":
            self._rows, self._bits = Array(f"{self._found.values.dtype.kind}1"), 8

    def add(self, block: Numbers | Labels, kept: Mask | None) -> None:
        """Append the rows of a block, or those that are kept."""
        if isinstance(block, Numbers):
            self._add_numbers(block, kept)
            return
        assert block.entries is not None
        places = []
        for entry in block.entries:
            # mutant: equal-labels-of-a-file-are-one
            place = self._places[entry if self._is_plain else (canonical(entry) or (None, entry))[:2]]
            places.append(place)
            if place == len(self._entries):
                self._entries.append(entry)
        codes = np.array([*places, -1], np.int32)[block.values]
        self._rows.add(codes if kept is None else codes[kept])

    def _add_numbers(self, block: Numbers, kept: Mask | None) -> None:
        values, nulls = block.values, block.nulls
        if kept is not None:
            values, nulls = values[kept], None if nulls is None else nulls[kept]
        if nulls is not None and self._nulls is None:
            self._nulls = Array(np.bool_)
            self._nulls.zeros(self._rows.size)
        if values.dtype.kind in "iu":
            self._fit(values)
        self._rows.add(values)
        if self._nulls is not None:
            # mutant: nulls-of-one-block-lost
            self._nulls.add(np.zeros(values.size, np.bool_) if nulls is None else nulls)

    def _fit(self, values: npt.NDArray[Any]) -> None:
        """Take integers of as many bits as some need: what a statistic makes of integers does not depend on that."""
        kind = values.dtype.kind
        least, most = int(values.min(initial=0)), int(values.max(initial=0))
        # mutant: wide-integers-cut-to-the-bits-of-earlier-ones
        bits = next(bits for bits in (8, 16, 32, 64) if _fits(least, most, kind, bits) and bits >= self._bits)
        if bits > self._bits:
            wider = Array(f"{kind}{bits // 8}")
            wider.add(self._rows.array())
            self._rows, self._bits = wider, bits

    def column(self) -> Numbers | Labels:
        """Return the column."""
        if isinstance(self._found, Numbers):
            nulls = None if self._nulls is None else self._nulls.array()
            return Numbers(self._rows.array(), nulls, self._found.can_miss)
        unequal = self._is_plain and self._found.kind == "strings"
        return replace(self._found, values=self._rows.array(), entries=self._entries, all_different=unequal)


def _fits(least: int, most: int, kind: str, bits: int) -> bool:
    return least >= 0 and most < 2**bits if kind == "u" else -(2 ** (bits - 1)) <= least and most < 2 ** (bits - 1)


def read(values: Any, name: str) -> Numbers | Labels:
    """Return what a column of pandas, polars or Arrow holds, or refuse its type."""
    found = _foreign.column(values, name)
    assert found is not None
    return found


def tested(block: Numbers | Labels, test: Any) -> Mask:
    """Return which rows pass a test of one value; missing ones do not.

    Of numbers the test is that of an array, of labels that of one entry.
    """
    if isinstance(block, Labels):
        assert block.entries is not None
        # mutant: missing-rows-pass-a-condition
        passed: Mask = np.array([*map(test, block.entries), False], np.bool_)
        return np.asarray(passed[block.values], np.bool_)
    return np.asarray(test(block.values), np.bool_) & present(block)


def present(block: Numbers | Labels) -> Mask:
    """Return which rows are not missing."""
    if isinstance(block, Labels):
        return block.present()
    found = ~np.isnan(block.values) if block.values.dtype.kind == "f" else np.ones(block.values.size, np.bool_)
    return found if block.nulls is None else found & ~block.nulls
