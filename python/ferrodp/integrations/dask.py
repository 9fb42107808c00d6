"""Clipped sums and statistics on a Dask cluster: every partition is summed in place, and the driver releases once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt

from ferrodp._base import _public
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.distributed import statistics, tree
from ferrodp.errors import InvalidType, MissingPackage
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
    client: Any = None,
    dtype: npt.DTypeLike | None = None,
    load: Callable[[Any], Any] | None = None,
    stacked: bool = False,
    expected_count: int | None = None,
    retries: int = 3,
) -> ClippedSum[Any]:
    """Sum the clipped updates of many partitions on a Dask cluster.

    The result is the `ClippedSum` that one process would have, also where workers died and tasks were run again, or
    twice: a task is a pure function of its partition, and the sum takes each task's result once. No noise is drawn on
    the cluster: call `release` on the result, once, with a ticket if a ledger pays for it.

    Parameters
    ----------
    partitions : iterable
        Each holds updates, and each update is in one partition. A partition is a `dask.delayed` object or a future
        that stands for updates, or anything that `ferrodp.distributed.clipped_sum` takes.
    template, clip_norm
        As for `ferrodp.distributed.clipped_sum`.
    client : distributed.Client, optional
        By default the current one.
    dtype, stability, load, stacked, expected_count
        As for `ferrodp.distributed.clipped_sum`; `load` is called on the workers.
    retries : int
        How often a partition is loaded again that raises repeatedly; ≥ 0. If a loader raises, the worker loads all
        partitions of the task once more, and each that raises then this often again; if one still raises, the task is
        run once more, perhaps by another worker. Iterators are not read again. A worker that dies does not count: the
        scheduler decides.

    Returns
    -------
    ClippedSum
        The sum of all partitions, in containers of the template's types.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If a parameter, the template or an update is not accepted, or a partition is given twice.
    FerroError
        If there are not `expected_count` updates.
    MissingPackage
        If `distributed` is not installed.

    Notes
    -----
    Partitions that lie on no worker are summed several to a task, in one accumulator: about four tasks for each thread
    of the cluster, where `partitions` has a length. Each `dask.delayed` object or future is a task of its own.

    States are joined four at a time on the workers, along a tree, and freed when they are joined. The driver receives
    one of them, 8 bytes a coordinate, and holds its accumulator besides.

    States travel between workers without noise: they are as secret as the updates. Give the cluster TLS where its
    network is not trusted; a scheduler's address is open to whoever reaches it.

    Examples
    --------
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from ferrodp.integrations.dask import clipped_sum
    >>> def shard(number):
    ...     return np.random.default_rng(number).normal(size=(10, 4))  # ten updates
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     total = clipped_sum(range(8), (4,), clip_norm=1.0, load=shard, stacked=True, client=client)
    >>> total.count
    80
    >>> total.release(noise_multiplier=1.1, denominator=80).shape
    (4,)
    """
    total, leaf = tree.start(
        template,
        clip_norm=clip_norm,
        stability=stability,
        dtype=dtype,
        load=load,
        stacked=stacked,
        retries=retries,
    )
    expected = tree.expectation(expected_count)
    distributed = _distributed()
    client = _checked(client)
    call = uuid.uuid4().hex  # keys of this call's own: the scheduler must not take another call's result for one of it

    def submit(height: int, number: int, function: Any, arguments: list[Any], again: int = 0) -> Any:
        key = f"ferrodp-sum-{height}-{number}-{call}"
        # Whatever frees memory goes first: higher nodes of the tree.
        return client.submit(function, *arguments, key=key, pure=False, retries=again, priority=height)

    def is_placed(partition: Any) -> bool:
        return isinstance(partition, distributed.Future) or hasattr(partition, "__dask_graph__")

    def submit_leaf(number: int, group: list[Any]) -> Any:
        parts = [client.compute(each) if hasattr(each, "__dask_graph__") else each for each in group]
        elsewhere = tree.repeatable(group) and not is_placed(group[0])
        return submit(0, number, leaf, parts, min(leaf.retries, 1) if elsewhere else 0)

    root = tree.reduced(
        tree.grouped(
            tree.distinct(partitions, leaf, lambda partition: getattr(partition, "key", None)),
            tree.size_of(partitions),
            sum(client.nthreads().values()),
            is_placed,
        ),
        submit_leaf,
        lambda height, number, nodes: submit(height, number, tree.join, nodes),
    )
    if root is not None:
        total.merge_state(root.result())
    tree.check_count(total, expected)
    return total


def _checked(client: Any) -> Any:
    """Return a client, or the current one."""
    distributed = _distributed()
    if client is None:
        return distributed.get_client()
    if not isinstance(client, distributed.Client):
        raise InvalidType(
            f"client must be a distributed.Client, got {type(client).__name__}; for example client=Client(address)"
        )
    return client


@suggesting
def private_statistic(
    partitions: Iterable[Any],
    release: Callable[..., Any],
    *,
    unit: str | None = None,
    load: Callable[[Any], Any] | None = None,
    client: Any = None,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Any:
    """Release a statistic of a table whose rows are in many partitions on a Dask cluster, as if they were in one.

    What is said of `ferrodp.distributed.private_statistic` holds, also where workers died and tasks were run again, or
    twice: the sum takes each task's result once. No noise is drawn on the cluster.

    Parameters
    ----------
    partitions : iterable
        Each a `dask.delayed` object or a future that stands for a table, such as ``frame.to_delayed()`` of a Dask
        DataFrame, or anything that `ferrodp.distributed.private_statistic` takes.
    release, unit, load, source, ticket
        As for `ferrodp.distributed.private_statistic`; `release` and `load` are called on the workers.
    client : distributed.Client, optional
        By default the current one.

    Returns
    -------
    Estimate, PrivateMarginals, PrivateGroups or a model
        What `release` returns.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `ferrodp.distributed.private_statistic`. Nothing was paid or drawn.
    MissingPackage
        If `distributed` is not installed.

    Notes
    -----
    With `unit` each task divides its rows among up to 256 tables by their units, and each of these is put together on
    one worker. Dask's own shuffle is not used: it may take 7 and 7.0 for two units.

    Rows and integers travel between workers without noise: give the cluster TLS where its network is not trusted.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> from dask.distributed import Client
    >>> from ferrodp.integrations.dask import private_statistic
    >>> def shard(number):
    ...     return {"age": np.full(100, 20.0 + number)}
    >>> def adults(frame, **payment):
    ...     return fd.private_count(frame["age"] >= 22, epsilon=1.0, **payment)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     found = private_statistic(range(8), adults, load=shard, client=client)
    >>> type(found.value), round(found.standard_error, 2)
    (<class 'int'>, 1.36)
    """
    part = statistics.check(release, unit, load)
    tasks = _Tasks(_checked(client))
    return statistics.run(
        tasks, partitions, part, lambda partition: getattr(partition, "key", None), source=source, ticket=ticket
    )


class _Tasks:
    """Tasks of a client, whose keys are of this call's own."""

    def __init__(self, client: Any) -> None:
        self.client, self.call, self.number = client, uuid.uuid4().hex, 0
        self.workers = max(sum(client.nthreads().values()), 1)

    def submit(self, height: int, function: Callable[..., Any], *arguments: Any) -> Any:
        given = [self.client.compute(each) if hasattr(each, "__dask_graph__") else each for each in arguments]
        self.number += 1
        key = f"ferrodp-part-{height}-{self.number}-{self.call}"
        return self.client.submit(function, *given, key=key, pure=False, priority=height)

    def result(self, reference: Any) -> Any:
        return reference.result()


def _distributed() -> Any:
    """Return the module `distributed`, which only calls need."""
    try:
        import distributed
    except ImportError as error:
        raise MissingPackage('ferrodp.integrations.dask needs Dask: pip install "ferrodp[dask]"') from error
    return distributed


_public.install_in(__name__)
