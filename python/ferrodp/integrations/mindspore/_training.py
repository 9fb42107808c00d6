"""The loop of a private training on the host: batches in, released gradients to a MindSpore optimizer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import mindspore
import numpy as np
from mindspore import nn

from ferrodp.errors import FerroError
from ferrodp.integrations.mindspore._gradients import Array, PerExampleGradients
from ferrodp.integrations.mindspore._plans import Batches, Training
from ferrodp.integrations.mindspore.datasets import IndexedDataset
from ferrodp.plan import FullBatch, GivenOrder, PlanStep

_MOST_EXAMPLES = 256
"""Of one call of the gradient function: bounds the memory for their gradients."""


class _Context(dict[str, Any]):
    """What callbacks read, as items or as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class _Trained(nn.Cell):  # type: ignore[misc]
    """Network and optimizer together: what a checkpoint saves."""

    def __init__(self, network: Any, optimizer: Any) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.optimizer = network, optimizer

    def construct(self, *columns: Any) -> Any:
        return self.network(*columns)


def chunk_size(batches: Batches) -> int:
    """Return how many examples one call of the gradient function takes: most samples of varying size are one chunk."""
    spread = 0.0 if isinstance(batches.sampling, (GivenOrder, FullBatch)) else 3.0 * math.sqrt(batches.batch_size)
    return min(batches.batch_size + math.ceil(spread), _MOST_EXAMPLES)


class Loop:
    """One call of `DPModel.train`."""

    def __init__(
        self,
        training: Training,
        gradients: PerExampleGradients,
        *,
        network: Any,
        loss_fn: Any,
        optimizer: Any,
        callbacks: Sequence[Any],
        dataset: Any,
    ) -> None:
        self._training, self._optimizer, self._dataset = training, optimizer, dataset
        self._callbacks = list(callbacks)
        self._gradients, self._network = gradients, network
        self._seen = _Context(
            private_training=training,
            train_network=_Trained(network, optimizer),
            network=network,
            loss_fn=loss_fn,
            optimizer=optimizer,
            train_dataset=dataset,
            list_callback=self._callbacks,
            mode="train",
            batch_num=training.batches.steps_per_epoch,
            epoch_num=training.plan.num_steps // training.batches.steps_per_epoch,
            cur_step_num=0,
            cur_epoch_num=0,
            cur_initial_epoch=0,
            dataset_sink_mode=False,
            parallel_mode="stand_alone",
            device_number=1,
            last_save_ckpt_step=None,
            latest_ckpt_file=None,
            net_outputs=None,
            metrics=None,
        )
        self._run_context = mindspore.train.RunContext(self._seen)

    def __call__(self) -> None:
        """Run until the plan, the budget, the dataset or a callback ends it."""
        run, per_epoch = self._training.run, self._training.batches.steps_per_epoch
        batches = self._batches()
        with contextlib.ExitStack() as stack:
            stack.callback(run.close)
            for callback in self._callbacks:
                if hasattr(callback, "__enter__"):
                    stack.enter_context(callback)
            self._network.set_train()
            self._tell("on_train_begin")
            for step in run:
                columns = next(batches, None)
                if columns is None and step.indices is None:
                    break
                if step.number % per_epoch == 0:
                    self._seen["cur_epoch_num"] = step.number // per_epoch + 1
                    self._tell("on_train_epoch_begin")
                self._seen["cur_step_num"] = step.number + 1
                self._tell("on_train_step_begin")
                self._step(step, self._drawn(step) if columns is None else columns)
                self._tell("on_train_step_end")
                if (step.number + 1) % per_epoch == 0:
                    self._tell("on_train_epoch_end")
                if self._run_context.get_stop_requested():
                    break
            self._tell("on_train_end")

    def _tell(self, event: str) -> None:
        for callback in self._callbacks:
            told = getattr(callback, event, None)
            if told is not None:
                told(self._run_context)

    def _batches(self) -> Iterator[list[Array]]:
        """Yield what a loader hands out; nothing where the plan draws."""
        if isinstance(self._dataset, IndexedDataset):
            return
        epochs = self._seen["epoch_num"]
        loader = self._dataset.create_tuple_iterator(num_epochs=epochs, output_numpy=True)
        for _ in range(epochs):
            for number, columns in enumerate(loader):
                if number < self._training.batches.steps_per_epoch:
                    yield list(columns)

    def _drawn(self, step: PlanStep[Any]) -> list[Array]:
        assert step.indices is not None, "the plan draws from an indexed dataset"
        rows: list[Array] = self._dataset.rows(step.indices)
        return rows

    def _step(self, step: PlanStep[Any], columns: list[Array]) -> None:
        if step.indices is None and len(columns[0]) > self._training.batches.batch_size:
            raise FerroError(
                f"the dataset hands out more than batch_size = {self._training.batches.batch_size} records"
            )
        total = np.float64(0.0)
        groups = _Groups(self._training, step, len(columns[0]))
        for losses, gradients in self._gradients(columns):
            total += losses.sum(dtype=np.float64)
            groups.add(gradients)
        groups.finish(self._optimizer.parameters)
        released = step.release()
        self._seen["net_outputs"] = mindspore.Tensor(np.float32(total / max(len(columns[0]), 1)))
        self._update(released)

    def _update(self, released: Sequence[Array]) -> None:
        """Hand the released gradient to the optimizer."""
        pairs = zip(released, self._optimizer.parameters, strict=True)
        tensors = tuple(mindspore.Tensor(array.astype(np.float32, copy=False)).astype(p.dtype) for array, p in pairs)
        self._optimizer.is_released = True
        try:
            self._optimizer(tensors)
        finally:
            self._optimizer.is_released = False


class _Groups:
    """Adds the gradients of a step to the plan: one by one, or the means of groups of records."""

    def __init__(self, training: Training, step: PlanStep[Any], size: int) -> None:
        self._step, self._seen = step, 0
        self._sums: list[Array] | None = None
        self._number = training.micro_batches if training.plan.records_per_group > 1 else None
        if step.groups is not None:
            self._number = len(step.groups)
        if self._number is None:
            return
        self._groups = np.zeros(size, dtype=np.int64)
        if step.groups is None:
            self._groups[:] = np.arange(size) // training.plan.records_per_group
        else:
            assert step.indices is not None, "groups are those of units that were drawn"
            for number, members in enumerate(step.groups):
                self._groups[np.searchsorted(step.indices, members)] = number
        self._counts = np.bincount(self._groups, minlength=self._number)

    def add(self, gradients: list[Array]) -> None:
        """Add the gradients of the next examples."""
        if self._number is None:
            self._step.add(gradients)
            return
        if self._sums is None:
            self._sums = [np.zeros((self._number, *each.shape[1:]), np.float64) for each in gradients]
        here = self._groups[self._seen : self._seen + len(gradients[0])]
        for total, each in zip(self._sums, gradients, strict=True):
            np.add.at(total, here, each)
        self._seen += len(here)

    def finish(self, parameters: Sequence[Any]) -> None:
        """Add the means of the groups; an empty group is a vector of zeros."""
        if self._number is None:
            return
        sums = self._sums or [np.zeros((self._number, *p.shape), np.float64) for p in parameters]
        counts = np.maximum(self._counts, 1).astype(np.float64)
        self._step.add([(total / counts.reshape(-1, *[1] * (total.ndim - 1))).astype(np.float32) for total in sums])
