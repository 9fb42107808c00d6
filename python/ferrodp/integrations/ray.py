"""Clipped sums on a Ray cluster: every partition is summed in place, and the driver releases once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt

from ferrodp._base import _public
from ferrodp._base._public import suggesting
from ferrodp._base._validate import Real
from ferrodp.distributed import tree
from ferrodp.errors import FerroError, MissingPackage
from ferrodp.sums import ClippedSum

__all__ = ["clipped_sum"]


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
        try:
            state = ray.get(root)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, Exception) else error) from None
        total.merge_state(state)
    tree.check_count(total, expected)
    return total


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
