"""Ids of units in texts: 21 bytes a row, however many different ones there are, and equal exactly if the texts are.

*Exactly* matters. If two ids passed for one unit, as those with equal hashes would, a further unit might take the place
of rows of another: it would move a release by the rows that come and by those that go, twice what is declared.

A text of up to 16 bytes is kept as these bytes and their number; a UUID of 36 characters as its number, and whether its
letters are large; of a longer text, its place among all such texts. Each of the three has tags of its own, so rows are
equal just if texts are. Places among all ids come from a mix of these bits to 64, which sorts; then each row is
compared with another one of its mix. If one differs, all bits are sorted.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.statistics._foreign import PART, Labels, Numbers
from ferrodp.statistics.rows.gathered import Array, Gathered, Mask, read

__all__: list[str] = []

Words = npt.NDArray[np.uint64]
Tags = npt.NDArray[np.uint8]
Places = npt.NDArray[np.signedinteger[Any]]
_BYTES = 16
_LOWER_UUID, _UPPER_UUID, _LONG, _MISSING = 32, 33, 254, 255
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15)
"""Of the finalizer of SplitMix64 [SLF14]."""


class Ids:
    """A column of strings of which it only matters which are equal.

    References
    ----------
    [SLF14] Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """

    def __init__(self, missing: Callable[[str], bool]) -> None:
        self._missing = missing
        self._words, self._tags = Array(np.uint64), Array(np.uint8)
        self._long: collections.defaultdict[str, int] = collections.defaultdict(itertools.count().__next__)

    def add(self, cells: Sequence[str], kept: Mask | None) -> None:
        """Append rows, or those that are kept."""
        rows: Iterable[str] = cells if kept is None else itertools.compress(cells, kept.tolist())
        words, tags = self._packed(list(rows))
        self._words.add(words)
        self._tags.add(tags)

    def add_block(self, block: Labels, kept: Mask | None) -> None:
        """Append the rows of a block of labels that are strings, or those that are kept."""
        assert block.entries is not None
        words, tags = self._packed(list(block.entries))
        codes = block.values if kept is None else block.values[kept]
        # mutant: ids-that-are-null-are-one-unit
        tags = np.append(tags, np.uint8(_MISSING))
        self._words.add(np.append(words, np.zeros(2, np.uint64)).reshape(-1, 2)[codes])
        self._tags.add(tags[codes])

    def column(self) -> Labels:
        """Return the column; its entries are numbers in the place of the texts."""
        words, tags = self._words.array().reshape(-1, 2), self._tags.array()
        codes, size = _ranked(words, tags)
        return Labels(codes, "strings", "", range(size), all_different=True)

    def _packed(self, rows: list[str]) -> tuple[Words, Tags]:
        texts = [row.encode("utf-8", "surrogatepass") for row in rows]
        tags = np.fromiter(map(len, texts), np.intp, len(texts))
        words = np.array(texts, f"S{_BYTES}").view(np.uint64)
        for place in np.flatnonzero(tags > _BYTES).tolist():
            tags[place], words[2 * place : 2 * place + 2] = self._packed_long(rows[place])
        absent = np.fromiter(map(self._missing, rows), np.bool_, len(rows))
        # mutant: ids-that-are-missing-are-one-unit
        tags[absent] = _MISSING
        return words, tags.astype(np.uint8)

    def _packed_long(self, text: str) -> tuple[int, Words]:
        """Return the tag and the words of a text of more than 16 bytes."""
        for tag, written in ((_LOWER_UUID, text), (_UPPER_UUID, text.lower())):
            # mutant: uuids-of-large-and-small-letters-are-one-unit
            if _UUID.fullmatch(written) and (tag == _LOWER_UUID or text == text.upper()):
                return tag, np.frombuffer(bytes.fromhex(written.replace("-", "")), np.uint64)
        return _LONG, np.array([self._long[text], 0], np.uint64)


class GatheredIds:
    """A column of strings of pandas, polars or Arrow, a block at a time; no text stands for a missing one."""

    def __init__(self) -> None:
        self._ids = Ids(lambda text: False)

    def add(self, block: Numbers | Labels, kept: Mask | None) -> None:
        """Append the rows of a block, or those that are kept."""
        assert isinstance(block, Labels)
        self._ids.add_block(block, kept)

    def column(self) -> Labels:
        """Return the column."""
        return self._ids.column()


def gathered_ids(empty: Any, name: str) -> Gathered | GatheredIds:
    """Return what gathers a column of which it only matters which rows are equal; `empty` is it without rows."""
    found = read(empty, name)
    is_text = isinstance(found, Labels) and found.kind == "strings"
    return GatheredIds() if is_text else Gathered(empty, name)


def _ranked(words: Words, tags: Tags) -> tuple[Places, int]:
    """Return for each row the place of its id, −1 for one that is missing, and how many ids there are."""
    mixed = np.empty(tags.size, np.uint64)
    for start in range(0, tags.size, PART):
        part = slice(start, start + PART)
        mixed[part] = _mixed(words[part], tags[part])
    mixed.sort()
    different = np.ones(mixed.size, np.bool_)
    np.not_equal(mixed[1:], mixed[:-1], out=different[1:])
    if not different.all():
        mixed = mixed[different]
    del different
    codes, found_at = _places(tags.size), _places(mixed.size)
    for start in range(0, tags.size, PART):
        part = slice(start, start + PART)
        codes[part] = np.searchsorted(mixed, _mixed(words[part], tags[part]))
        found_at[codes[part]] = np.arange(start, start + codes[part].size)
    size = mixed.size
    for start in range(0, tags.size, PART):
        part = slice(start, start + PART)
        alike = found_at[codes[part]]
        # mutant: ids-of-one-mix-are-one-unit
        if (words[alike] != words[part]).any() or (tags[alike] != tags[part]).any():
            codes, size = _ranked_by_all(words, tags)
            break
    codes[tags == _MISSING] = -1
    return codes, size


def _places(size: int) -> Places:
    found: Places = np.empty(size, np.int32 if size < 2**31 else np.int64)
    return found


def _mixed(words: Words, tags: Tags) -> Words:
    """Return 64 bits of each row's."""
    found = tags.astype(np.uint64) * np.uint64(_MULTIPLIERS[2])
    for word in words.T:
        found += word
        for shift, multiplier in ((30, _MULTIPLIERS[0]), (27, _MULTIPLIERS[1])):
            found ^= found >> np.uint64(shift)
            found *= np.uint64(multiplier)
        found ^= found >> np.uint64(31)
    return found


def _ranked_by_all(words: Words, tags: Tags) -> tuple[Places, int]:
    """Return the same, of a sort of all bits."""
    order = np.lexsort((tags, words[:, 1], words[:, 0]))
    new = np.zeros(order.size, np.bool_)
    new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1) | (tags[order[1:]] != tags[order[:-1]])
    codes = _places(order.size)
    codes[order] = np.cumsum(new)
    return codes, int(np.count_nonzero(new)) + 1
