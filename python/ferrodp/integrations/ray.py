"""Clipped sums and statistics on a Ray cluster: every partition is summed in place, and the driver releases once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt

from ferrodp._base import _public
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.distributed import statistics, tree
from ferrodp.errors import FerroError, MissingPackage
from ferrodp.random import NoiseSource
from ferrodp.sums import ClippedSum
from ferrodp.tickets import Ticket

__all__ = ["clipped_sum", "private_statistic"]


@suggesting
def clipped_sum(
    partitions: Iterable[Any],
    template: object,
    *,
    clip_norm: Real,
    stability: Real | None = None,
    dtype: npt.DTypeLike | None = None,
    load: Callable[[Any], Any] | None = None,
    stacked: bool = False,
    expected_count: int | None = None,
    retries: int = 3,
) -> ClippedSum[Any]:
    """Sum the clipped updates of many partitions on the Ray cluster that this process is connected to.

    The result is the `ClippedSum` that one process would have, also where workers died and tasks were run again: a task
    is a pure function of its partition, and the sum takes each task's result once. No noise is drawn on the cluster:
    call `release` on the result, once, with a ticket if a ledger pays for it.

    Parameters
    ----------
    partitions : iterable
        Each holds updates, and each update is in one partition. A partition is an `ObjectRef` that stands for updates,
        or anything that `ferrodp.distributed.clipped_sum` takes.
    template, clip_norm
        As for `ferrodp.distributed.clipped_sum`.
    dtype, stability, load, stacked, expected_count
        As for `ferrodp.distributed.clipped_sum`; `load` is called on the workers.
    retries : int
        How often a task is run again whose worker died; ≥ 0. A task that raised is not: what it raised is raised here.

    Returns
    -------
    ClippedSum
        The sum of all partitions, in containers of the template's types.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If a parameter, the template or an update is not accepted, or a partition is given twice.
    FerroError
        If there are not `expected_count` updates, or `ray.init` was not called.
    MissingPackage
        If `ray` is not installed.

    Notes
    -----
    Partitions that are no `ObjectRef` are summed several to a task, in one accumulator: about four tasks for each CPU
    of the cluster, where `partitions` has a length. Each `ObjectRef` is a task of its own.

    States are joined four at a time on the workers, along a tree, and freed when they are joined. The driver receives
    one of them, 8 bytes a coordinate, and holds its accumulator besides.

    States lie in the object store without noise: they are as secret as the updates, and every process of the cluster
    can read them.

    Examples
    --------
    >>> import numpy as np
    >>> import ray
    >>> from ferrodp.integrations.ray import clipped_sum
    >>> def shard(number):
    ...     return np.random.default_rng(number).normal(size=(10, 4))  # ten updates
    >>> started = ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    >>> total = clipped_sum(range(8), (4,), clip_norm=1.0, load=shard, stacked=True, expected_count=80)
    >>> ray.shutdown()
    >>> total.release(noise_multiplier=1.1, denominator=80).shape
    (4,)
    """
    total, leaf = tree.start(
        template, clip_norm=clip_norm, stability=stability, dtype=dtype, load=load, stacked=stacked
    )
    expected = tree.expectation(expected_count)
    attempts = tree.attempts(retries)
    ray = _ray()
    shared = ray.put(leaf)

    def is_placed(partition: Any) -> bool:
        return isinstance(partition, ray.ObjectRef)

    sum_partitions = ray.remote(max_retries=attempts)(_summed)
    join = ray.remote(max_retries=attempts)(tree.join)
    root = tree.reduced(
        tree.grouped(
            tree.distinct(partitions, leaf, lambda partition: partition if is_placed(partition) else None),
            tree.size_of(partitions),
            int(ray.cluster_resources().get("CPU", 1)),
            is_placed,
        ),
        lambda number, group: sum_partitions.remote(shared, *group),
        lambda height, number, nodes: join.remote(*nodes),
    )
    if root is not None:
        total.merge_state(_result(ray, root))
    tree.check_count(total, expected)
    return total


@suggesting
def private_statistic(
    partitions: Iterable[Any],
    release: Callable[..., Any],
    *,
    unit: str | None = None,
    load: Callable[[Any], Any] | None = None,
    retries: int = 3,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Any:
    """Release a statistic of a table whose rows are in many partitions on a Ray cluster, as if they were in one.

    What is said of `ferrodp.distributed.private_statistic` holds, also where workers died and tasks were run again: the
    sum takes each task's result once. No noise is drawn on the cluster.

    Parameters
    ----------
    partitions : iterable
        Each an `ObjectRef` that stands for a table, such as ``dataset.to_pandas_refs()`` of Ray Data, or anything that
        `ferrodp.distributed.private_statistic` takes.
    release, unit, load, source, ticket
        As for `ferrodp.distributed.private_statistic`; `release` and `load` are called on the workers.
    retries : int
        How often a task is run again whose worker died; ≥ 0.

    Returns
    -------
    Estimate, PrivateMarginals, PrivateGroups or a model
        What `release` returns.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `ferrodp.distributed.private_statistic`. Nothing was paid or drawn.
    FerroError
        If `ray.init` was not called.
    MissingPackage
        If `ray` is not installed.

    Notes
    -----
    With `unit` each task divides its rows among up to 256 tables by their units, and each of these is put together on
    one worker. Rows and integers lie in the object store without noise.

    Examples
    --------
    >>> import numpy as np
    >>> import ray
    >>> import ferrodp as fd
    >>> from ferrodp.integrations.ray import private_statistic
    >>> def shard(number):
    ...     return {"age": np.full(100, 20.0 + number)}
    >>> def adults(frame, **payment):
    ...     return fd.private_count(frame["age"] >= 22, epsilon=1.0, **payment)
    >>> started = ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    >>> found = private_statistic(range(8), adults, load=shard)
    >>> ray.shutdown()
    >>> type(found.value), round(found.standard_error, 2)
    (<class 'int'>, 1.36)
    """
    part = statistics.check(release, unit, load)
    tasks = _Tasks(_ray(), tree.attempts(retries))
    return statistics.run(tasks, partitions, part, tasks.identity, source=source, ticket=ticket)


class _Tasks:
    """Tasks on the cluster that this process is connected to."""

    def __init__(self, ray: Any, retries: int) -> None:
        self.ray, self.retries = ray, retries
        self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def identity(self, partition: Any) -> Any:
        """Return what tells partitions apart that are references."""
        return partition if isinstance(partition, self.ray.ObjectRef) else None

    def submit(self, height: int, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.ray.remote(max_retries=self.retries)(_called).remote(function, *arguments)

    def result(self, reference: Any) -> Any:
        return _result(self.ray, reference)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns; Ray puts values in place of references."""
    return function(*arguments)


def _result(ray: Any, reference: Any) -> Any:
    """Return what a reference stands for, or raise what the task raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, Exception) else error) from None


def _summed(leaf: tree.Leaf, *partitions: Any) -> bytes:
    """Return the sum of partitions; Ray puts values in place of references."""
    return leaf(*partitions)


def _ray() -> Any:
    """Return the module `ray`, which only calls need."""
    try:
        import ray
    except ImportError as error:
        raise MissingPackage('ferrodp.integrations.ray needs Ray: pip install "ferrodp[ray]"') from error
    if not ray.is_initialized():
        raise FerroError("Ray is not connected to a cluster; call ray.init first")
    return ray


_public.install_in(__name__)
