"""Statistics of a table in partitions: counted where the partitions are, released once.

`Part` and `join` are pure but for the coins of random subsets, and draw no noise: an engine may run them again. What an
engine is, `Tasks` says: how a function is submitted, on what results of others, and how a result is taken.
"""

from __future__ import annotations

import contextvars
import itertools
import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ferrodp._base import _validate
from ferrodp.distributed import scratch as _scratch
from ferrodp.distributed import tree
from ferrodp.distributed.scratch import Split
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.random import NoiseSource
from ferrodp.statistics.keys.routes import columns_of, joined, routes_of, taken, type_of
from ferrodp.statistics.parts import exact
from ferrodp.statistics.parts.exact import Counted
from ferrodp.statistics.parts.multisets import kept
from ferrodp.tickets import Ticket

__all__ = ["private_statistic"]

Columns = dict[str, Any]
MOST_PIECES = 256
"""Into how many tables the rows are gathered by their units, at most."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of some partitions: exact integers, and columns of their types without rows."""

    counted: Counted
    columns: Columns

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        """The names and types of the columns."""
        return tuple((name, type_of(column)) for name, column in self.columns.items())


@dataclass(frozen=True, slots=True)
class Part:
    """Return the state of a partition."""

    release: Callable[..., Any]
    unit: str | None
    load: Callable[[Any], Any] | None = None
    scratch: str | None = None
    """The folder where rows wait for others of their units, and multisets of many numbers for their sum."""

    def __call__(self, partition: Any) -> State:
        """Count a partition."""
        return self.count(self.columns(partition))

    def count(self, columns: Columns) -> State:
        """Count a table."""
        found = contextvars.Context().run(exact.counted, self.release, columns, self.unit)
        none = np.zeros(0, np.intp)  # a copy without rows: a view would keep them
        return self.stored(State(found, {name: taken(column, none) for name, column in columns.items()}))

    def join(self, *states: State) -> State:
        """Return the state of all their rows."""
        return self.stored(join(*states))

    def stored(self, state: State) -> State:
        """Return the same state; with a folder, what is large of it is there."""
        if self.scratch is None:
            return state
        return replace(state, counted=replace(state.counted, integers=kept(state.counted.integers, self.scratch)))

    def columns(self, partition: Any) -> Columns:
        """Return the columns of a partition by name."""
        frame = partition if self.load is None else self.load(partition)
        return columns_of(frame)

    def split(self, partition: Any, pieces: int) -> list[Columns]:
        """Return the rows of a partition in so many tables: all rows of a unit are in the same one everywhere."""
        return [*self._split(partition, pieces)]

    def split_to_disk(self, partition: Any, pieces: int) -> Split:
        """Return the same tables, in a file of the folder."""
        assert self.scratch is not None
        return Split.of(self._split(partition, pieces), self.scratch)

    def _split(self, partition: Any, pieces: int) -> Iterator[Columns]:
        assert self.unit is not None
        columns = self.columns(partition)
        # mutant: rows-of-a-unit-are-counted-where-they-were
        routes = routes_of(columns, self.unit) % np.uint64(pieces)
        for piece in range(pieces):
            places = np.flatnonzero(routes == piece)
            yield {name: taken(column, places) for name, column in columns.items()}

    def count_pieces(self, *pieces: Columns) -> State:
        """Count the tables of one piece of all partitions, in the order of these."""
        types = {tuple((name, type_of(column)) for name, column in piece.items()) for piece in pieces}
        if len(types) > 1:
            raise InvalidArray(_TYPES)
        return self.count({name: joined([piece[name] for piece in pieces]) for name in pieces[0]})

    def count_from_disk(self, piece: int, *splits: Split) -> State:
        """Count the tables of one piece, which are in files."""
        # mutant: piece-of-one-partition-left-on-the-disk
        return self.count_pieces(*(split.piece(piece) for split in splits))


_TYPES = (
    "partitions must have the same columns of the same types: the mechanism depends on them; convert them in load, "
    "such as column.astype(float)"
)


def join(*states: State) -> State:
    """Return the state of all their rows."""
    first, *others = states
    for other in others:
        if other.types != first.types:
            raise InvalidArray(_TYPES)
        first = State(first.counted + other.counted, first.columns)
    return first


class Tasks(Protocol):
    """An engine: `submit` runs a function, results of others among its arguments; `result` waits for one."""

    workers: int

    def submit(self, height: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a reference to what a function returns."""

    def result(self, reference: Any) -> Any:
        """Return what a reference stands for."""


def run(
    tasks: Tasks,
    partitions: Iterable[Any],
    part: Part,
    identity: Callable[[Any], Any],
    *,
    source: NoiseSource | None,
    ticket: Ticket | None,
    ahead: int | None = None,
) -> Any:
    """Count all partitions on an engine, and release once; `ahead` tasks, or all, wait or run at a time."""
    given = tree.distinct(partitions, part, identity)  # type: ignore[arg-type]  # of which it reads `load`
    counted: Iterator[Any]
    if part.unit is None:
        counted = (tasks.submit(0, part, partition) for partition in given)
    elif part.scratch is not None:
        listed = list(given)
        pieces = min(len(listed), MOST_PIECES)  # a piece has about as many rows as a partition
        files = [tasks.submit(0, part.split_to_disk, partition, pieces) for partition in listed]
        counted = (tasks.submit(1, part.count_from_disk, piece, *files) for piece in range(pieces))
    else:
        listed = list(given)
        pieces = max(1, min(len(listed), 4 * tasks.workers, MOST_PIECES))
        split = [tasks.submit(0, part.split, partition, pieces) for partition in listed]
        counted = iter(
            [
                tasks.submit(1, part.count_pieces, *(tasks.submit(0, operator.getitem, each, piece) for each in split))
                for piece in range(pieces if listed else 0)
            ]
        )
        del split
    root = tree.reduced(
        _in_step(counted, ahead),
        lambda _, each: each,
        lambda height, _, nodes: tasks.submit(height, part.join, *nodes),
    )
    if root is None:
        raise InvalidParameter("partitions must hold one partition at least, of which columns and types are known")
    state = tasks.result(root)
    return released(part, state, source=source, ticket=ticket)


def released(part: Part, state: State, *, source: NoiseSource | None, ticket: Ticket | None) -> Any:
    """Release once what all partitions were counted for."""
    return exact.released(part.release, state.columns, part.unit, state.counted, source=source, ticket=ticket)


def _in_step(references: Iterator[Any], ahead: int | None) -> Iterator[Any]:
    """Yield references and forget them, with so many others submitted: what is joined is freed."""
    submitted = deque(itertools.islice(references, ahead))
    while submitted:
        yield submitted.popleft()
        submitted.extend(itertools.islice(references, 1))


def check(release: object, unit: object, load: object) -> Part:
    """Return what counts partitions, from checked arguments."""
    if not callable(release):
        raise _validate.wrong_type(
            "release",
            "a function of a table, source and ticket",
            release,
            write='lambda frame, **pay: fd.private_count(frame["age"], epsilon=1.0, **pay)',
        )
    if unit is not None and not isinstance(unit, str):
        raise _validate.wrong_type("unit", "the name of a column or None", unit, write='"person"')
    if load is not None and not callable(load):
        raise _validate.wrong_type("load", "callable", load, write="pandas.read_parquet")
    return Part(release, unit, load)


def private_statistic(
    partitions: Iterable[Any],
    release: Callable[..., Any],
    *,
    unit: str | None = None,
    load: Callable[[Any], Any] | None = None,
    executor: Executor | None = None,
    scratch: str | os.PathLike[str] | None = None,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Any:
    """Release a statistic of a table whose rows are in many partitions, as if they were in one.

    The result has the law that it has in one process, and the same exact integers under its noise: partitions are
    counted apart, their integers are added, and noise is drawn once, here, with one payment. The guarantee is that of
    the statistic, for a unit whose rows may be in any partitions.

    Parameters
    ----------
    partitions : iterable
        Tables of pandas, polars or Arrow, or dicts of columns, all with the same columns of the same types; or, with
        `load`, whatever that takes, such as paths. Each row is in one partition.
    release : callable
        ``release(frame, source=..., ticket=...)``: makes one release about `frame`, a dict of columns, and returns it.
        It passes `source` and `ticket` on, and takes everything else from public values, not from `frame`. It is called
        for each partition, where it ends before noise is drawn, and here. A process pool gets it by pickle.
    unit : str, optional
        The column of units, if the statistic has one: rows of a unit are gathered first. The statistic has to
        take just that column, as in ``unit=frame["person"]``, or ``unit="person"`` for groups.
    load : callable, optional
        Called on the worker with a partition; returns its table. It must depend on the partition alone.
    executor : concurrent.futures.Executor, optional
        By default partitions are counted here, one after another.
    scratch : path, optional
        A folder on a disk that all workers share, for tables that do not fit in memory. Rows wait there until all of
        their units are there, without noise, and numbers of quantiles, in a folder that this user alone may read. It is
        deleted when the call returns or raises; a process that is killed leaves it, so choose an encrypted disk. By
        default both are in memory.
    source : NoiseSource, optional
        None, or a seeded source for tests.
    ticket : Ticket, optional
        What pays for the release; armed here, after all partitions were counted.

    Returns
    -------
    Estimate, PrivateMarginals, PrivateGroups or a model
        What `release` returns.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        If an argument is not accepted, a partition is given twice, types differ, the release depends on the rows of
        its table, or it is none of the statistics of the notes. Nothing was paid or drawn.
    Exception
        Whatever `load` or the executor raises. Nothing was paid or drawn.

    See Also
    --------
    ferrodp.integrations.dask.private_statistic, ferrodp.integrations.ray.private_statistic : the same on a cluster.
    ferrodp.integrations.spark.private_statistic : the same of a DataFrame of Spark.

    Notes
    -----
    Statistics: `private_count`, `private_sum`, `private_mean`, `private_variance`, `private_standard_deviation`,
    `private_histogram`, `private_top`, `private_quantile`, `private_quantiles`, `private_median`, `private_min`,
    `private_max`, `private_bounds`, `private_distinct`, `private_rows_per_unit`, `private_marginals`, those of
    `private_group_by` with public keys, and `private_group_by` itself with a `KeyThreshold`, a `KeySelection` or a
    `KeyUnion`. That returns groups whose keys and `found_counts` are released, and whose rows are not here: statistics
    of them take the keys as public ones. Models: `private_scales`, `private_categorical_bayes`, and `private_moments`
    and `private_naive_bayes` with a public `clip_norm`. The proofs are in the docstrings of
    `ferrodp.statistics.parts.exact` and of `unions` beside it, and of `ferrodp.statistics.models._sums`.

    What travels without noise is as secret as the rows: integers, for quantiles each different number with how often it
    is there, for `private_distinct` each different value, for found keys each key with its count, for a `KeyUnion` each
    key of each unit without its id, and with `unit` the rows themselves, each once. Ids are distinguished as in one
    process, where 7 and 7.0 are one unit: numbers, strings, bytes, dates, durations, UUIDs and tuples of them are
    spread over tasks, and ids of other types go to one.

    With ``keep="first"`` the integers are those of one process with the partitions in their order; with a random subset
    they have the law that they have there.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> def shard(number):
    ...     return {"pay": np.full(100, 10.0 * number), "person": np.arange(100) // 2}
    >>> def total(frame, **payment):
    ...     return fd.private_sum(
    ...         frame["pay"], bounds=(0, 50), unit=frame["person"], max_contributions=4, epsilon=1.0, **payment
    ...     )
    >>> found = fd.distributed.private_statistic(range(4), total, load=shard, unit="person")
    >>> round(found.standard_error)
    283
    """
    checked = check(release, unit, load)
    if executor is not None and not isinstance(executor, Executor):
        raise _validate.wrong_type(
            "executor", "a concurrent.futures.Executor or None", executor, write="ThreadPoolExecutor(8)"
        )
    with _scratch.folder(scratch) as folder:
        tasks, part = _OnExecutor(executor), replace(checked, scratch=folder)
        try:
            return run(tasks, partitions, part, lambda _: None, source=source, ticket=ticket, ahead=tasks.ahead)
        finally:
            if folder is not None:
                tasks.end()


class _OnExecutor:
    """Tasks on an executor, or here, whose results come back here before another task takes them."""

    def __init__(self, executor: Executor | None) -> None:
        self.executor = executor
        self.workers = 1 if executor is None else min(os.cpu_count() or 1, 8)
        # Two tasks for each worker keep a pool busy; how many workers others have is not known.
        size = 1 if executor is None else getattr(executor, "_max_workers", None)
        self.ahead = None if size is None else 2 * size
        self.running: set[Future[Any]] = set()

    def submit(self, height: int, function: Callable[..., Any], *arguments: Any) -> Any:
        here = [each.result() if isinstance(each, Future) else each for each in arguments]
        if self.executor is None or function is operator.getitem or getattr(function, "__func__", None) is Part.join:
            return _done(function(*here))
        found = self.executor.submit(function, *here)
        self.running.add(found)
        found.add_done_callback(self.running.discard)  # and its result is freed
        return found

    def result(self, reference: Any) -> Any:
        return reference.result()

    def end(self) -> None:
        """Wait until no task runs; those that have not begun are canceled."""
        left = [*self.running]
        for each in left:
            each.cancel()
        wait(left)


def _done(value: Any) -> Future[Any]:
    found: Future[Any] = Future()
    found.set_result(value)
    return found
