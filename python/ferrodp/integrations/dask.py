"""Clipped sums on a Dask cluster: every partition is summed in place, and the driver releases once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt

from ferrodp._base import _public
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.distributed import tree
from ferrodp.errors import InvalidType, MissingPackage
from ferrodp.sums import ClippedSum

__all__ = ["clipped_sum"]


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
    if client is None:
        client = distributed.get_client()
    elif not isinstance(client, distributed.Client):
        raise InvalidType(
            f"client must be a distributed.Client, got {type(client).__name__}; for example client=Client(address)"
        )
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


def _distributed() -> Any:
    """Return the module `distributed`, which only calls need."""
    try:
        import distributed
    except ImportError as error:
        raise MissingPackage('ferrodp.integrations.dask needs Dask: pip install "ferrodp[dask]"') from error
    return distributed


_public.install_in(__name__)
