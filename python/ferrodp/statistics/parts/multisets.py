"""Numbers in ascending order, each with how often it is there: what ranks are looked for in.

A choice near a rank reads how many rows lie below some numbers, and below the next ones. It needs no number twice, so
memory is for different numbers alone; and it reads those near the rank alone, so they may be in a file.

*On a disk.* A multiset with many numbers is written as a run: its numbers in ascending order, and how often each is
there. A sum of runs is the list of them, which are merged once, a block of each at a time: what is below the least of
the blocks' last numbers is complete. Equal numbers of several runs are in one block of what is merged, and their counts
are added there. So the merged file is the sum of the multisets, the same numbers and integers as in memory.
"""

from __future__ import annotations

import bisect
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
T = TypeVar("T")

FEW = 1 << 14
"""So many numbers stay in memory, of each group."""
_BLOCK = 1 << 21
"""How many numbers of all runs together are in memory while they are merged."""
_ALL = 1 << 12
"""Of so many numbers every step is found at once; among more of them the ends of a run of equal steps are searched."""


@dataclass(frozen=True, slots=True)
class Ascending:
    """Numbers in ascending order, and how many rows there are up to each of them; without `ends` each is one row."""

    values: npt.NDArray[Any]
    ends: Ints | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.values.size if self.ends is None else self.ends[-1] if self.ends.size else 0)

    def steps(self, start: int, stop: int, step: Callable[[Any], Ints]) -> tuple[Ints, Ints, Ints]:
        """Return the different steps of the rows of ranks from `start` to below `stop`, all rows below and up to each.

        `step` ascends, and is of each number alone: rows of one step are next to each other.
        """
        size = self.values.size
        if start == stop:
            return (np.zeros(0, np.int64),) * 3
        first, last = self._entry(start), self._entry(stop - 1) + 1
        found = np.unique(step(self.values[first:last]))
        if size <= _ALL:
            first, last = 0, size
        of_entries = step(self.values[first:last])
        lower, upper = (first + np.searchsorted(of_entries, found, side) for side in ("left", "right"))

        def of(entry: int) -> int:
            return int(step(self.values[entry : entry + 1])[0])

        # mutant: equal-rows-out-of-reach-of-a-rank-are-not-counted
        lower[0] -= first - bisect.bisect_left(range(first), found[0], key=of) if lower[0] == first else 0
        upper[-1] += bisect.bisect_right(range(last, size), found[-1], key=of) if upper[-1] == last else 0
        return found, self._before(lower), self._before(upper)

    def _entry(self, rank: int) -> int:
        """Return where the number of a rank is."""
        # mutant: rank-among-numbers-read-as-one-among-rows
        return rank if self.ends is None else int(np.searchsorted(self.ends, rank, "right"))

    def _before(self, entries: Ints) -> Ints:
        """Return how many rows there are before numbers."""
        if self.ends is None:
            return entries.astype(np.int64)
        return np.where(entries > 0, self.ends[np.maximum(entries, 1) - 1], 0).astype(np.int64)


class Multiset(NamedTuple):
    """Different numbers in ascending order, and how often each is there."""

    values: Doubles
    counts: Ints

    @classmethod
    def of(cls, rows: Doubles) -> Multiset:
        """Return the multiset of numbers, none of them NaN."""
        values, counts = np.unique(rows, return_counts=True)
        return cls(values, counts.astype(np.int64))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Runs):
            return other + self
        return _united([self, other])

    def ascending(self) -> Ascending:
        """Return the numbers with their ranks."""
        return Ascending(self.values, np.cumsum(self.counts))

    def blocks(self, size: int) -> Iterator[Multiset]:
        """Yield the numbers in blocks."""
        for start in range(0, self.values.size, size):
            yield Multiset(self.values[start : start + size], self.counts[start : start + size])


@dataclass(frozen=True, slots=True)
class Run:
    """A multiset in two files: its numbers, and how often each is there."""

    path: str
    size: int

    def blocks(self, size: int) -> Iterator[Multiset]:
        """Yield the numbers in blocks."""
        for start in range(0, self.size, size):
            count = min(size, self.size - start)
            values = np.fromfile(self.path + ".values", np.float64, count, offset=8 * start)
            counts = np.fromfile(self.path + ".counts", np.int64, count, offset=8 * start)
            yield Multiset(values, counts)


@dataclass(frozen=True, slots=True)
class Runs:
    """The sum of several multisets, the large ones in files of a folder."""

    folder: str
    runs: tuple[Run | Multiset, ...]

    def __add__(self, other: Any) -> Runs:
        # mutant: numbers-of-a-file-left-out-of-a-sum
        return Runs(self.folder, self.runs + (other.runs if isinstance(other, Runs) else (other,)))

    def ascending(self) -> Ascending:
        """Return the numbers with their ranks, in files that are read where it is needed."""
        path = _new(self.folder)
        rows = 0
        with created(path + ".values") as values, created(path + ".ends") as ends:
            for block in self._merged():
                values.write(block.values.tobytes())
                through = rows + np.cumsum(block.counts)
                rows = int(through[-1])
                ends.write(through.tobytes())
        if not rows:
            return Ascending(np.zeros(0), np.zeros(0, np.int64))
        return Ascending(
            np.memmap(path + ".values", np.float64, "r"), np.memmap(path + ".ends", np.int64, "r")
        )  # of which the pages that are read are in memory

    def _merged(self) -> Iterator[Multiset]:
        """Yield the sum of all runs in blocks."""
        size = max(_BLOCK // len(self.runs), 1 << 10)
        sources = [each.blocks(size) for each in self.runs]
        held = [next(each, None) for each in sources]
        while any(block is not None for block in held):
            # mutant: block-ends-where-the-longest-one-does
            bound = min(block.values[-1] for block in held if block is not None)
            ready = []
            for place, block in enumerate(held):
                if block is None:
                    continue
                end = int(np.searchsorted(block.values, bound, "right"))
                ready.append(Multiset(block.values[:end], block.counts[:end]))
                left = Multiset(block.values[end:], block.counts[end:])
                held[place] = left if left.values.size else next(sources[place], None)
            yield _united(ready)


def kept(integers: Any, folder: str) -> Any:
    """Return the same integers, of which multisets with many numbers are in files of a folder."""
    if isinstance(integers, Multiset):
        return Runs(folder, (_written(integers, folder),)) if integers.values.size > FEW else integers
    if isinstance(integers, (list, tuple)):
        return type(integers)(kept(each, folder) for each in integers)
    return integers


def created(path: str) -> Any:
    """Return a new file that its owner alone may read."""
    # mutant: rows-on-a-disk-that-others-may-read
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


def _written(held: Multiset, folder: str) -> Run:
    path = _new(folder)
    for name, array in ((".values", held.values), (".counts", held.counts)):
        with created(path + name) as file:
            file.write(np.ascontiguousarray(array).data)
    return Run(path, held.values.size)


def _new(folder: str) -> str:
    return os.path.join(folder, uuid.uuid4().hex)


def _united(parts: list[Multiset]) -> Multiset:
    """Return the sum of multisets."""
    values, places = np.unique(np.concatenate([each.values for each in parts]), return_inverse=True)
    counts = np.zeros(values.size, np.int64)
    # mutant: equal-numbers-of-two-parts-count-once
    np.add.at(counts, places.reshape(-1), np.concatenate([each.counts for each in parts]))
    return Multiset(values, counts)
