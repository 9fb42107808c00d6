"""Public facts about a MindSpore dataset that yields batches in its own order."""

from __future__ import annotations

from typing import Any

from ferrodp._base import _validate
from ferrodp.integrations.mindspore import _plans
from ferrodp.integrations.mindspore.datasets import IndexedDataset
from ferrodp.plan import GivenOrder

_KEEPING = {
    "BatchDataset",
    "MapDataset",
    "ProjectDataset",
    "RenameDataset",
    "ShuffleDataset",
    "SkipDataset",
    "TakeDataset",
}
"""Operations after which a record is in no more batches than before."""


def batches_of(
    dataset: Any,
    *,
    batch_size: int | None = None,
    steps_per_epoch: int | None = None,
    once_an_epoch: bool | None = None,
) -> _plans.Batches:
    """Return what a training on a dataset does with its records."""
    if isinstance(dataset, IndexedDataset):
        return _plans.Batches(
            sampling=dataset.sampling,
            population_size=dataset.population_size,
            batch_size=dataset.batch_size,
            steps_per_epoch=dataset.get_dataset_size(),
        )
    size = _largest_batch(dataset) if batch_size is None else _validate.count("batch_size", batch_size)
    steps = dataset.get_dataset_size() if steps_per_epoch is None else steps_per_epoch
    return _plans.Batches(
        sampling=GivenOrder(size),
        population_size=None,
        batch_size=size,
        steps_per_epoch=_validate.count("steps_per_epoch", steps),
        once_an_epoch=gives_each_record_once(dataset) if once_an_epoch is None else once_an_epoch,
    )


def _largest_batch(dataset: Any) -> int:
    """Return the size that `batch` was called with, or that of the arrays of a generator of batches."""
    shapes = [shape for shape in dataset.output_shapes() if shape]
    return max(int(dataset.get_batch_size()), *(int(shape[0] or 0) for shape in shapes), 1)


def gives_each_record_once(dataset: Any) -> bool:
    """Return whether every step from the source to the batch is known to give each record at most once an epoch."""
    children = getattr(dataset, "children", None)
    if children is None:
        return False
    if children:
        known = type(dataset).__name__ in _KEEPING and getattr(dataset, "per_batch_map", None) is None
        return known and len(children) == 1 and gives_each_record_once(children[0])
    source = getattr(dataset, "source", None)
    if source is not None and not (hasattr(source, "__getitem__") and hasattr(source, "__len__")):
        return False  # a generator may give a record as often as it likes
    sampler = getattr(dataset, "sampler", None)
    if type(sampler).__name__ not in ("NoneType", "SequentialSampler", "RandomSampler"):
        return False
    return not getattr(sampler, "replacement", False) and getattr(sampler, "child_sampler", None) is None
