"""A loader of PyTorch whose batches are those that a plan draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferrodp.integrations._tensors import framework
from ferrodp.integrations.torch.private.checks import check_used
from ferrodp.integrations.torch.private.training import PrivateTraining

__all__ = ["PrivateLoader"]


class PrivateLoader:
    """Gives the batches that the steps of a plan draw, as the loader it was made of would: made by `make_private`.

    An iteration is as many steps as make an epoch on average; another one goes on where the last ended. Iteration ends
    with the plan's last step, or before the first that the budget does not allow.

    A step in which nobody was drawn has a batch of one example that does not count.

    Parameters
    ----------
    training, loader, part_size
        As `make_private` has them.

    Attributes
    ----------
    dataset : Dataset
        That of the loader it was made of.
    training : PrivateTraining
        Whose batches these are.

    Raises
    ------
    FerroError
        If a batch is requested before the last one was used.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import make_private
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
    >>> data = torch.utils.data.TensorDataset(torch.ones(20, 4))
    >>> plan = PrivacyPlan(
    ...     population_size=20,
    ...     sampling=FullBatch(),
    ...     num_steps=2,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(4.0),
    ... )
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> _, _, loader = make_private(model, optimizer, torch.utils.data.DataLoader(data), plan=plan, part_size=8)
    >>> for (x,) in loader:
    ...     print(len(x))
    ...     model(x).mean().backward()
    ...     optimizer.step()
    8
    8
    4
    """

    def __init__(self, training: PrivateTraining, loader: Any, part_size: int | None) -> None:
        self.training, self.dataset = training, loader.dataset
        self._most = part_size
        options = {
            name: getattr(loader, name)
            for name in ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "prefetch_factor")
        }
        options["multiprocessing_context"] = loader.multiprocessing_context
        if loader.num_workers:
            options["persistent_workers"] = True
        data = framework("torch.utils.data", extra="torch")
        self._loader = data.DataLoader(loader.dataset, batch_sampler=_Parts(training), **options)

    def __len__(self) -> int:
        plan = self.training.plan
        expected = plan.expected_batch_size or 1.0
        assert plan.population_size is not None
        return max(1, round(plan.population_size / expected))

    def __iter__(self) -> Iterator[Any]:
        for _ in range(len(self)):
            if not self.training._begin(self._most):
                return
            batches = iter(self._loader)
            while self.training._waiting:
                self.training._begin_random()
                batch = next(batches)
                self.training._hand_out(batch)
                yield batch
                check_used(self.training._part, self.training._step)
        check_used(self.training._part, self.training._step)

    def __repr__(self) -> str:
        return f"<PrivateLoader of {self.training!r}>"


class _Parts:
    """The parts of a step, for a loader of PyTorch."""

    def __init__(self, training: PrivateTraining) -> None:
        self._training = training

    def __iter__(self) -> Iterator[list[int]]:
        for part in list(self._training._waiting):
            yield part or [0]

    def __len__(self) -> int:
        return max(1, len(self._training._waiting))

    def __reduce__(self) -> Any:
        return list, ()  # workers get lists of indices, and need no sampler
