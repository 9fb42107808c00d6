"""Who is counted: what persons add to the counters of a day, cut to what was said of one of them.

A person's rows of a day count once for each counter, for so many counters at most; and only on so many days, far
enough apart, where the unit of privacy is a person. Each person's part of a day's counts is a function of that person's
own rows alone: persons do not displace each other, and the number of them is not limited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp.errors import InvalidArray, InvalidArrayType

_RECORD = np.dtype([("unit", "<u8"), ("used", "<u4"), ("last", "<u4")])
"""Of a person: a number, on how many days counted, and on which last."""


def identified(units: Any, key: bytes) -> npt.NDArray[np.uint64]:
    """Return a number for each row's person: equal for equal integers, and for equal texts.

    Texts, and whatever else a list holds, are hashed to 64 bits under the secret key of the stream. Two persons whose
    numbers are equal share one limit: that counts less, and never more.
    """
    array = _column(units, "units")
    if array.dtype.kind in "iu":
        return array.astype(np.int64 if array.dtype.kind == "i" else np.uint64).view(np.uint64)
    if array.dtype.kind == "O":
        known: dict[Any, int] = {}
        return np.array([_identity(each, key, known) for each in array.tolist()], np.uint64)
    if array.dtype.kind != "U":
        raise InvalidArrayType(f"units must be integers or texts, got {array.dtype}; for example units.astype(str)")
    names, places = np.unique(array, return_inverse=True)
    return np.array([_hashed(name, key) for name in names.tolist()], np.uint64)[places]


def _identity(name: object, key: bytes, known: dict[Any, int]) -> int:
    # mutant: person-of-a-list-is-another-than-of-an-array
    if isinstance(name, (int, np.integer)) and -(2**63) <= name < 2**64:
        return int(name) % 2**64
    text = str(name)
    if text not in known:
        known[text] = _hashed(text, key)
    return known[text]


def _hashed(name: str, key: bytes) -> int:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little")


def _column(values: Any, name: str) -> npt.NDArray[Any]:
    """Return one value for each row."""
    if isinstance(values, (list, tuple)):
        if any(isinstance(each, (list, tuple, np.ndarray)) for each in values):
            raise InvalidArray(f"{name} must have one dimension, one value for each row")
        column = np.empty(len(values), object)
        column[:] = values
        return column
    array = _arrays.base_array(values, name)
    if array.ndim != 1:
        raise InvalidArray(f"{name} must have one dimension, one value for each row, got {array.ndim}")
    return array


def placed(counters: Any, labels: Sequence[str] | None, count: int) -> npt.NDArray[np.int64]:
    """Return the place of each row's counter, −1 where there is none."""
    array = _column(counters, "counters")
    if array.dtype.kind == "O":
        known: dict[Any, int] = {} if labels is None else {label: place for place, label in enumerate(labels)}
        return np.array([_place(each, known, labels is None, count) for each in array.tolist()], np.int64)
    accepted = "iu" if labels is None else "U"
    if array.dtype.kind not in accepted:
        what = "places from 0 on, as they have no names" if labels is None else "the texts that they are called"
        raise InvalidArrayType(f"counters must be {what}, got {array.dtype}")
    if labels is None:
        return np.where((array >= 0) & (array < count), array, -1).astype(np.int64)
    names = np.array(labels, dtype=str)
    order = np.argsort(names)
    places = order[np.minimum(np.searchsorted(names[order], array), count - 1)]
    return np.where(names[places] == array, places, -1).astype(np.int64)


def _place(name: object, known: dict[Any, int], is_number: bool, count: int) -> int:
    if is_number:
        return int(name) if isinstance(name, (int, np.integer)) and 0 <= name < count else -1
    return known.get(name, -1) if isinstance(name, str) else -1


class Limits:
    """On how many days each person was counted so far."""

    def __init__(self, max_days: int | None, min_separation: int, table: npt.NDArray[Any] | None = None) -> None:
        self._most, self._apart = max_days, min_separation
        self.table: npt.NDArray[Any] = np.zeros(0, _RECORD) if table is None else table

    @classmethod
    def from_bytes(cls, max_days: int | None, min_separation: int, data: bytes) -> Limits:
        """Return the limits that `table.tobytes()` are of."""
        return cls(max_days, min_separation, np.frombuffer(data, _RECORD).copy())

    def counted(
        self, units: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], day: int, each: int, count: int
    ) -> tuple[npt.NDArray[np.int64], Limits]:
        """Return the counts of a day, of at most `each` counters a person, and the limits after it."""
        known = places >= 0
        order = np.lexsort((places[known], units[known]))
        who, where = units[known][order], places[known][order]
        if who.size:
            is_new = np.concatenate([[True], (who[1:] != who[:-1]) | (where[1:] != where[:-1])])
            # mutant: counter-of-a-person-counted-twice-a-day
            who, where = who[is_new], where[is_new]
        starts = np.flatnonzero(np.concatenate([[True], who[1:] != who[:-1]])) if who.size else np.zeros(0, np.int64)
        sizes = np.diff(np.append(starts, who.size))
        rank = np.arange(who.size) - np.repeat(starts, sizes)
        # mutant: person-adds-to-more-counters-than-stated
        kept = rank < each
        limits = self
        if self._most is not None:
            allowed, limits = self._taken(who[starts], day)
            # mutant: person-counted-on-more-days-than-stated
            kept &= np.repeat(allowed, sizes)
        return np.bincount(where[kept], minlength=count).astype(np.int64), limits

    def _taken(self, units: npt.NDArray[np.uint64], day: int) -> tuple[npt.NDArray[np.bool_], Limits]:
        """Return which of these different persons, in order, may be counted, and the limits after it."""
        assert self._most is not None
        table = self.table
        found = np.searchsorted(table["unit"], units)
        held = found < table.size
        held[held] = table["unit"][found[held]] == units[held]
        places = found[held]
        allowed = np.ones(units.size, bool)
        allowed[held] = (table["used"][places] < self._most) & (
            day - table["last"][places].astype(np.int64) >= self._apart
        )
        after = table.copy()
        again = places[allowed[held]]
        after["used"][again] += 1
        after["last"][again] = day
        new = np.zeros(int((~held).sum()), _RECORD)
        new["unit"], new["used"], new["last"] = units[~held], 1, day
        after = np.insert(after, found[~held], new)
        return allowed, Limits(self._most, self._apart, after)
