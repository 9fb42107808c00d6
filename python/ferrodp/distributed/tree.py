"""The parts of a distributed sum: the sum of one partition, the sum of several sums, and what the driver checks.

`Leaf` and `join` are pure: from the same input they return the same bytes, draw nothing and change nothing. An engine
may run them again after a worker died, twice at once, or on another machine. All that is ever added up is what they
return, each result once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _trees, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.sums import ClippedSum
from ferrodp.sums.layout import from_template

FAN_IN = 4
"""How many sums become one in a node of the tree; a worker holds two sums more than that."""

LEAVES_PER_WORKER = 4
"""Into how many tasks the partitions are divided for each thread of a cluster. Each task costs a state, which is
written, moved and added: about 16 bytes of new memory a coordinate. More of them lose less work with a worker that
dies, and leave less of it to the last one."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Return the sum of some partitions as a state: a pure function, to be sent to workers.

    Attributes
    ----------
    shapes : tree of tuples of int
        What an update looks like.
    dtype : dtype
        Of all its arrays.
    clip_norm : float
        Of the sum.
    load : callable or None
        Returns the updates of a partition.
    stacked : bool
        Whether a partition is one stack of updates, and no iterable of them.
    stability : float or None
        Of the sum.
    retries : int
        If a loader raises, all partitions are loaded once more, and each that raises then this often again.
    """

    shapes: Any
    dtype: np.dtype[Any]
    clip_norm: float
    load: Callable[[Any], Any] | None = None
    stacked: bool = False
    stability: float | None = None
    retries: int = 0

    def __call__(self, *partitions: Any) -> bytes:
        """Return the state of the sum of the partitions."""
        try:
            total = self._sum(partitions)
        except FerroError:  # what no other attempt changes
            raise
        except Exception:
            if not self.retries or not repeatable(partitions):
                raise
            total = self._careful_sum(partitions)
        return total.state(checksum="fast")

    def _sum(self, partitions: Iterable[Any]) -> ClippedSum[Any]:
        """Return the sum of partitions, in one accumulator: if a loader raises, all of it is lost."""
        total: ClippedSum[Any] = ClippedSum(
            self.shapes, clip_norm=self.clip_norm, stability=self.stability, dtype=self.dtype
        )
        for partition in partitions:
            updates = self._updates(partition)
            if self.stacked:
                total.add_many(updates, threads=1)
            else:
                for update in updates:
                    total.add(update, threads=1)
            del updates  # before the next ones are loaded
        return total

    def _careful_sum(self, partitions: Iterable[Any]) -> ClippedSum[Any]:
        """Return the sum of partitions, each in an accumulator of its own, which another attempt begins anew."""
        total = self._sum(())
        for partition in partitions:
            for left in reversed(range(self.retries + 1)):
                try:
                    part = self._sum([partition])
                except FerroError:
                    raise
                except Exception:
                    if not left:
                        raise
                else:
                    # mutant: partition-counts-with-each-attempt
                    total.merge(part)
                    break
        return total

    def _updates(self, partition: Any) -> Any:
        if self.load is not None:
            return self.load(partition)
        if isinstance(partition, (str, os.PathLike)):
            update = _read(os.fspath(partition), isinstance(self.shapes, dict))
            return update if self.stacked else [update]
        return partition() if callable(partition) else partition


def join(*states: bytes) -> bytes:
    """Return the state of the sum of several sums."""
    first, *others = states
    total = ClippedSum.from_state(first)
    for state in others:
        total.merge_state(state)
    return total.state(checksum="fast")


def start(
    template: object,
    *,
    clip_norm: Real,
    stability: Real | None,
    dtype: npt.DTypeLike | None,
    load: Callable[[Any], Any] | None,
    stacked: bool,
    retries: int = 0,
) -> tuple[ClippedSum[Any], Leaf]:
    """Return the sum of no updates, and what sums partitions for it; refuse what either does not accept."""
    layout = from_template(template, dtype)
    total: ClippedSum[Any]
    if dtype is None:
        total = ClippedSum(template, clip_norm=clip_norm, stability=stability)
    else:
        total = ClippedSum(template, clip_norm=clip_norm, stability=stability, dtype=dtype)  # type: ignore[call-overload]
    if load is not None and not callable(load):
        raise _validate.wrong_type("load", "callable", load, write="numpy.load")
    return total, Leaf(
        _shapes(layout.structure),
        layout.dtype,
        total.clip_norm,
        load,
        _validate.truth("stacked", stacked),
        # mutant: stability-kept-from-workers
        total.stability,
        attempts(retries),
    )


def distinct(
    partitions: Iterable[Any], leaf: Leaf, identity: Callable[[Any], Any] = lambda partition: None
) -> Iterator[Any]:
    """Yield the partitions of a leaf, and refuse one that is given twice: its updates would count twice.

    Two are one if `identity` returns the same for both; or they are equal and strings, paths, numbers or tuples, or
    names of one file, also by links; or the same object in a sequence of them.
    """
    if isinstance(partitions, (str, bytes, Mapping)) or not isinstance(partitions, Iterable):
        raise InvalidType(f"partitions must be an iterable of partitions, got {type(partitions).__name__}")
    kept = isinstance(partitions, Sequence)  # holds its elements: an id is that of one object
    seen: set[Any] = set()
    for partition in partitions:
        name = identity(partition)
        # mutant: file-counts-twice-under-two-names
        if name is None and isinstance(partition, (str, os.PathLike)):
            name = _file_of(partition, is_read=leaf.load is None)
        if name is None and isinstance(partition, (str, bytes, int, tuple, os.PathLike)):
            name = partition
        if name is None and kept:
            name = id(partition)
        try:
            # mutant: partition-counts-twice
            again = name is not None and (_kind(partition), name) in seen
        except TypeError:  # a tuple of what has no hash
            # mutant: tuple-of-arrays-counts-twice
            name, again = (id(partition), (_kind(partition), id(partition)) in seen) if kept else (None, False)
        if again:
            raise InvalidParameter("partitions must be distinct, but one is given twice: its updates would count twice")
        if name is not None:
            seen.add((_kind(partition), name))
        yield partition


def _file_of(partition: str | os.PathLike[Any], *, is_read: bool) -> Any:
    """Return which file or directory a partition names: all names of one have the same device and number.

    Where there is none, as on a driver that does not share the disk of its workers, its path tells if it `is_read` as
    a file; else it may be the name of anything.
    """
    try:
        # mutant: hard-link-counts-twice
        status = os.stat(partition)
    except (OSError, ValueError):
        return os.path.realpath(partition) if is_read else None
    return status.st_dev, status.st_ino


def _kind(partition: Any) -> Any:
    """Return what tells apart partitions of equal names: their type, which for paths is that of their text."""
    return str if isinstance(partition, os.PathLike) else type(partition)


def grouped(
    partitions: Iterable[Any],
    num_partitions: int | None,
    num_workers: int,
    is_placed: Callable[[Any], bool],
) -> Iterator[list[Any]]:
    """Yield the partitions of each leaf: some `LEAVES_PER_WORKER` leaves for each worker, of about as many partitions.

    Partitions that lie on a worker already are leaves of their own, so that none has to move; so are iterators, which
    cannot be read again, and partitions whose number is not known.
    """
    size = -(-(num_partitions or 1) // (LEAVES_PER_WORKER * max(num_workers, 1)))
    group: list[Any] = []
    for partition in partitions:
        if is_placed(partition) or isinstance(partition, Iterator):
            yield [partition]
            continue
        group.append(partition)
        if len(group) == size:
            yield group
            group = []
    # mutant: last-partitions-left-out
    if group:
        yield group


def repeatable(group: Sequence[Any]) -> bool:
    """Whether partitions can be read again: not iterators, since what they have given is gone."""
    # mutant: rest-of-an-iterator-taken-for-all
    return not any(isinstance(partition, Iterator) for partition in group)


def size_of(partitions: Iterable[Any]) -> int | None:
    """Return the number of partitions, or None where they have to be read to know it."""
    return len(partitions) if isinstance(partitions, Sized) else None


def reduced(
    groups: Iterable[Any],
    submit_leaf: Callable[[int, Any], Any],
    submit_join: Callable[[int, int, list[Any]], Any],
) -> Any:
    """Submit a tree of tasks and return its root, or None where there are no partitions.

    A node is submitted as soon as its children are, and the references to these are dropped: the engine can run it, and
    free them, while leaves are still being submitted.

    Parameters
    ----------
    groups : iterable
        What each leaf sums.
    submit_leaf : callable
        Takes the number of a leaf and what it sums; returns a reference to its state.
    submit_join : callable
        Takes the height of a node, its number and references to states; returns a reference to their sum's state.
    """
    levels: list[list[Any]] = [[]]  # references that wait for others of their height
    numbers = [0]

    def carry(height: int) -> None:
        if len(levels[height]) < FAN_IN:
            return
        if height + 1 == len(levels):
            levels.append([])
            numbers.append(0)
        nodes, levels[height] = levels[height], []
        # mutant: node-without-its-last-child
        levels[height + 1].append(submit_join(height + 1, numbers[height + 1], nodes))
        numbers[height + 1] += 1
        carry(height + 1)

    for number, group in enumerate(groups):
        levels[0].append(submit_leaf(number, group))
        carry(0)
    left: list[Any] = []
    for height, nodes in enumerate(levels):
        left += nodes
        if len(left) > 1:
            left = [submit_join(height + 1, -1, left)]
    return left[0] if left else None


def attempts(retries: int) -> int:
    """Return a checked number of times that a task is run again."""
    return _validate.count("retries", retries, minimum=0, maximum=1000)


def expectation(expected_count: int | None) -> int | None:
    """Return a checked number of updates, or None where none is expected."""
    return None if expected_count is None else _validate.count("expected_count", expected_count, minimum=0)


def check_count(total: ClippedSum[Any], expected_count: int | None) -> None:
    """Refuse a sum of more or fewer updates than the caller knows there are."""
    # mutant: count-of-units-not-compared
    if expected_count is not None and total.count != expected_count:
        raise FerroError(f"the partitions must hold {expected_count} updates, as stated, and hold another number")


def _shapes(node: _trees.Node) -> Any:
    """Return a structure as a tree of shapes in plain containers: any process can read it."""
    if not isinstance(node, _trees.Branch):
        return node
    children = [_shapes(child) for child in node.children]
    if node.kind == "dict":
        return dict(zip(node.keys, children, strict=True))
    return tuple(children) if node.kind == "tuple" else children


def _read(path: str, named: bool) -> Any:
    """Return what a file of arrays holds: by name, or the only array of it where the template is one array."""
    from ferrodp import files  # formats of files: not needed to import the package

    arrays = {name: np.empty(entry.shape, entry.dtype) for name, entry in files.describe(path).items()}
    files.read_into(path, arrays)
    return arrays if named or len(arrays) != 1 else next(iter(arrays.values()))
