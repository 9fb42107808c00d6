"""Batches of a plan for training loops that others run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.integrations._tensors import framework
from ferrodp.integrations.torch.run import TorchRun

__all__ = ["PlanLoader"]


class PlanLoader:
    """Gives the batch of each step of a run, for trainers that take an iterable of batches.

    The trainer's step adds the batch and releases: ``step = run.current; step.add(batch); step.release()``. A loader is
    not a ``DataLoader``: it does not shuffle, drop or prefetch, and a second iteration goes on where the first ended.

    Parameters
    ----------
    run : TorchRun
        Of a plan that draws its batches, without groups.
    dataset : sequence
        With as many items as the plan's `population_size`.
    collate : callable, optional
        Makes a batch of a list of items; by default PyTorch's ``default_collate``. An empty batch is that of the first
        item with nothing left along the first axis of each tensor.

    Raises
    ------
    InvalidParameter, InvalidType
        If the plan draws no batches or groups, or the dataset has another size.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import PlanLoader, start
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=100,
    ...     sampling=PoissonSampling(0.1),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> run = start(plan, model, lambda model, x: model(x).sum())
    >>> for x in PlanLoader(run, torch.ones(100, 3)):
    ...     run.current.add(x)
    ...     run.current.release()
    ...     optimizer.step()
    >>> run.stopped
    'finished'
    """

    def __init__(
        self, run: TorchRun, dataset: Sequence[Any], collate: Callable[[list[Any]], Any] | None = None
    ) -> None:
        if not isinstance(run, TorchRun):
            raise InvalidType(f"run must be a TorchRun, got {type(run).__name__}")
        if run.plan.population_size is None or run.plan.records_per_group > 1:
            raise InvalidParameter("run must be of a plan that draws its batches, without groups")
        if len(dataset) != run.plan.population_size:
            raise InvalidParameter(
                f"dataset must have as many items as the plan, {run.plan.population_size}, got another number; "
                "write population_size=len(dataset) in the plan where that is public"
            )
        self._run, self._dataset = run, dataset
        self._collate = collate or framework("torch.utils.data", extra="torch").default_collate
        self._tree = framework("torch.utils._pytree", extra="torch")

    def __len__(self) -> int:
        return int(self._run.plan.num_steps)

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                step = self._run._next(stacklevel=4)
            except StopIteration:
                return
            if step.indices is None:
                raise InvalidParameter("run must be of a plan that draws its batches")
            if len(step.indices):
                yield self._collate([self._dataset[int(index)] for index in step.indices])
            else:
                yield self._tree.tree_map(lambda leaf: leaf[:0], self._collate([self._dataset[0]]))
