"""The values of columns as places in a list of them: what rows are grouped by, before keys are chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp.statistics._foreign import Labels, Numbers, canonical
from ferrodp.statistics.parts import exact
from ferrodp.statistics.parts.unions import KeysOfUnits, Tally

Places = npt.NDArray[np.signedinteger[Any]]


class Values(NamedTuple):
    """For each row the place of its value among all values, −1 for none; these values, and how they sort."""

    codes: Places
    entries: Sequence[Any]
    order: Sequence[Any]


def distinct(found: Numbers | Labels) -> Values:
    """Return the values of a column."""
    if isinstance(found, Labels):
        # mutant: label-of-equal-keys-is-that-of-the-first-row
        table: dict[tuple[str, Any], int] = {}  # 1, 1.0 and True are equal: which of them came first must not show
        entries: list[Any] = []
        rows = found.values.tolist() if found.entries is None else found.entries
        places = np.fromiter((_placed(canonical(row), table, entries) for row in rows), np.intp, len(rows))
        codes = places if found.entries is None else np.append(places, -1)[found.values]
        return Values(codes.astype(np.intp), entries, list(table))
    present = np.isfinite(found.values) if found.values.dtype.kind == "f" else np.ones(found.values.size, bool)
    if found.nulls is not None:
        present &= ~found.nulls
    numbers, inverse = _ascending(found.values if present.all() else found.values[present])
    codes = inverse
    if codes.size < found.values.size:
        codes = np.full(found.values.size, -1, np.intp)
        codes[present] = inverse
    return Values(codes, Entries(numbers), Entries(numbers, are_sorted_by=True))


@dataclass(frozen=True, slots=True)
class Entries(Sequence[Any]):
    """Numbers as those of Python, or how they sort, made as they are read."""

    numbers: npt.NDArray[Any]
    are_sorted_by: bool = False

    def __len__(self) -> int:
        return self.numbers.size

    def __getitem__(self, place: Any) -> Any:
        entry = self.numbers[place].item()
        entry = entry + 0.0 if isinstance(entry, float) else entry
        return ("", entry) if self.are_sorted_by else entry


def _ascending(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Places]:
    """Return the different numbers in ascending order, and the place of each row among them.

    Of integers, those less than so many above the lowest one as there are rows need no sort: a table says which occur.
    """
    if values.dtype.kind not in "iu" or values.size < 1000:
        numbers, places = np.unique(values, return_inverse=True)
        return numbers, places.reshape(-1)
    lowest = values.min()
    above = values.astype(np.int64).view(np.uint64) - np.uint64(int(lowest) % 2**64)  # modulo 2⁶⁴: below that
    far = np.flatnonzero(above >= np.uint64(values.size))
    beyond, inverse = np.unique(above[far], return_inverse=True)
    np.minimum(above, np.uint64(values.size), out=above)
    index = above.view(np.int64)
    there = np.zeros(values.size + 1, np.bool_)
    there[index] = True
    known = np.concatenate([np.flatnonzero(there[:-1]).astype(np.uint64), beyond])
    places = (np.cumsum(there, dtype=np.int32 if there.size < 2**31 else np.intp) - 1)[index].astype(np.intp)
    # mutant: keys-far-from-the-lowest-take-the-places-of-others
    places[far] = inverse.reshape(-1) + (known.size - beyond.size)
    wide = known + np.uint64(int(lowest) % 2**64)
    return wide.view(np.int64).astype(values.dtype) if values.dtype.kind == "i" else wide.astype(values.dtype), places


def _placed(found: tuple[str, Any, Any] | None, table: dict[tuple[str, Any], int], entries: list[Any]) -> int:
    """Return the place of a canonical label, which is a new one if it is not there yet."""
    if found is None:
        return -1
    place = table.setdefault(found[:2], len(entries))
    if place == len(entries):
        entries.append(found[2])
    return place


def together(columns: Sequence[Values]) -> Values:
    """Return the combinations of several columns' values that occur, as tuples; a row that lacks one has none."""
    if len(columns) == 1:
        return columns[0]
    joined = columns[0].codes.astype(np.int64)
    for column in columns[1:]:
        size = len(column.entries)
        if int(joined.max(initial=0) + 1) * max(size, 1) >= 2**62:
            joined = np.unique(joined, return_inverse=True)[1].reshape(-1) - int((joined < 0).any())
        joined = np.where((joined >= 0) & (column.codes >= 0), joined * size + column.codes, -1)
    known, firsts, inverse = np.unique(joined, return_index=True, return_inverse=True)
    none = int(known.size > 0 and known[0] < 0)
    rows = firsts[none:].tolist()
    entries = [tuple(column.entries[column.codes[row]] for column in columns) for row in rows]
    order = [tuple(column.order[column.codes[row]] for column in columns) for row in rows]
    return Values((inverse.reshape(-1) - none).astype(np.intp), entries, order)


def combined(places: Sequence[Places], sizes: Sequence[int], keys: Sequence[tuple[int, ...]]) -> Places:
    """Return for each row the place among given combinations of places in columns, −1 if it is none of them."""
    if math.prod(sizes) < 2**62:
        joined, wanted = np.zeros(places[0].size, np.int64), np.zeros(len(keys), np.int64)
        for column, (place, size) in enumerate(zip(places, sizes, strict=True)):
            joined = np.where((joined >= 0) & (place >= 0), joined * size + place, -1)
            wanted = wanted * size + np.array([key[column] for key in keys], np.int64)
        order = np.argsort(wanted, kind="stable")
        at = np.minimum(np.searchsorted(wanted[order], joined), len(keys) - 1)
        return np.where(wanted[order][at] == joined, order[at], -1).astype(np.intp)
    table = {key: place for place, key in enumerate(keys)}
    rows = zip(*(place.tolist() for place in places), strict=True)
    return np.fromiter((table.get(row, -1) for row in rows), np.intp, places[0].size)


def counted(
    values: Values, codes: Places, seen: Places, public: Callable[[], Any]
) -> tuple[Values, Places, npt.NDArray[np.int64]]:
    """Return values, the place of each row among them, and how often each is seen; of parts, all keys and no rows."""

    def counts() -> npt.NDArray[np.int64]:
        return np.bincount(seen[seen >= 0], minlength=len(values.entries)).astype(np.int64)

    if exact.is_whole():
        return values, codes, counts()
    keys = exact.passed(lambda: Tally.of(values.order, values.entries, counts()), public).keys
    order = sorted(keys)
    found = Values(np.zeros(0, np.intp), [keys[each][0] for each in order], order)
    return found, found.codes, np.array([keys[each][1] for each in order], np.int64)


def of_units(values: Values, owners: Places, codes: Places, public: Callable[[], Any]) -> tuple[Values, Places, Places]:
    """Return values, and the places of units and values of pairs, each there once; of parts all pairs and no rows."""
    if exact.is_whole():
        return values, owners, codes
    found = exact.passed(lambda: KeysOfUnits.of(values.order, values.entries, owners, codes), public)
    return Values(np.zeros(0, np.intp), list(found.keys.values()), list(found.keys)), found.owners, found.codes
