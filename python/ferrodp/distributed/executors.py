"""A clipped sum on an executor of `concurrent.futures`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any

import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.distributed import tree
from ferrodp.sums import ClippedSum

__all__ = ["clipped_sum"]


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
    executor: Executor | None = None,
    max_pending: int | None = None,
) -> ClippedSum[Any]:
    """Sum the clipped updates of many partitions on an executor.

    The result is the `ClippedSum` that one process would have: the same integers, whatever the executor, the number of
    workers, and the order in which they finish. Its sensitivity to one update is exactly `clip_norm`. No noise is drawn
    here: call `release` on the result, once, with a ticket if a ledger pays for it.

    Parameters
    ----------
    partitions : iterable
        Each holds updates, and each update is in one partition. A partition is a callable that returns updates, the
        path of a file of arrays with one update (npy, npz, safetensors), an iterable of updates, or, with `load`,
        whatever that takes. Read lazily, in step with the work. A process pool gets them by pickle.
    template : tree of ndarrays, or tree of shapes
        What one update looks like, as for `ClippedSum`.
    clip_norm : float
        The bound on the L2 norm of an update, in its units; finite, > 0. Rounded down if not exactly representable.
    stability : float, optional
        Normalize every update, as for `ClippedSum`.
    dtype : float32 or float64, optional
        For a template of shapes; float64 if not given.
    load : callable, optional
        Called on the worker with a partition; returns its updates. It must depend on the partition alone.
    stacked : bool
        Whether a partition is one stack of updates, with one more axis in front of every array, and no iterable.
    expected_count : int, optional
        How many updates there are, where that number is public: a sum of any other number is refused.
    executor : concurrent.futures.Executor, optional
        By default a pool of threads of this call's own, one for each CPU up to eight: neither reading files nor adding
        holds the interpreter's lock for long.
    max_pending : int, optional
        How many partitions are in work or finished and not yet added, at most; by default one for each CPU. Each may
        hold a state, 8 bytes a coordinate.

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
    Exception
        Whatever `load` or the executor raises; work that has not begun is canceled.

    See Also
    --------
    ferrodp.integrations.dask.clipped_sum, ferrodp.integrations.ray.clipped_sum : the same on a cluster.

    Notes
    -----
    ==============================  =================================================================
    a task that is run again        the same bytes: a partition's sum is a pure function of it
    a worker that dies              a process pool raises `BrokenProcessPool`; nothing was released
    update with NaN or infinities   counts as zeros, and in the count
    no partitions                   the sum of no updates
    ==============================  =================================================================

    States travel without noise: they are as secret as the updates, and the channel to the workers has to be as trusted
    as the workers. This process holds the accumulator and up to `max_pending` states.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> def shard(number):
    ...     return np.random.default_rng(number).normal(size=(10, 4))  # ten updates
    >>> total = fd.distributed.clipped_sum(range(8), (4,), clip_norm=1.0, load=shard, stacked=True, expected_count=80)
    >>> total.count
    80
    >>> total.release(noise_multiplier=1.1, denominator=80).shape
    (4,)
    """
    total, leaf = tree.start(
        template, clip_norm=clip_norm, stability=stability, dtype=dtype, load=load, stacked=stacked
    )
    expected = tree.expectation(expected_count)
    cores = min(os.cpu_count() or 1, 8)
    limit = cores if max_pending is None else _validate.count("max_pending", max_pending)
    if executor is not None and not isinstance(executor, Executor):
        raise _validate.wrong_type(
            "executor", "a concurrent.futures.Executor or None", executor, write="ThreadPoolExecutor(8)"
        )
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(cores)) if executor is None else executor
        pending: set[Future[bytes]] = set()
        try:
            for partition in tree.distinct(partitions, leaf):
                while len(pending) >= limit:
                    pending = _added(total, pending)
                pending.add(pool.submit(leaf, partition))
                del partition
            while pending:
                pending = _added(total, pending)
        finally:
            for future in pending:
                future.cancel()
    tree.check_count(total, expected)
    return total


def _added(total: ClippedSum[Any], pending: set[Future[bytes]]) -> set[Future[bytes]]:
    """Add what is finished to the sum, each result once, and return what is not finished."""
    done, left = wait(pending, return_when=FIRST_COMPLETED)
    while done:
        total.merge_state(done.pop().result())
    return left
