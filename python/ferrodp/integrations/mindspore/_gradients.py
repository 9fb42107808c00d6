"""Per-example gradients of a MindSpore network on the host, in chunks of one fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore
import numpy as np
import numpy.typing as npt
from mindspore import nn, ops

from ferrodp.errors import InvalidParameter

Array = npt.NDArray[Any]
BATCH_STATISTICS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class PerExampleGradients:
    """Loss and gradient of every example of a chunk, by `mindspore.vmap` over `mindspore.value_and_grad`.

    Chunks are padded to one size, so that a graph is compiled once and not for every size of a Poisson sample; what
    the padding contributes is cut off. Operators that `vmap` cannot batch make it fall back to one example at a time;
    shapes and types decide that, in a trial on zeros.
    """

    def __init__(self, network: Any, loss_fn: Any, parameters: Sequence[Any], *, chunk_size: int) -> None:
        refuse_batch_statistics(network)
        self._cell = network if loss_fn is None else nn.WithLossCell(network, loss_fn)
        self._parameters = tuple(parameters)
        self._chunk_size = chunk_size
        self._one = mindspore.value_and_grad(self._loss, None, self._parameters)
        self._many = mindspore.vmap(self._one)
        self._batches: bool | None = None

    def _loss(self, *columns: Any) -> Any:
        rows = [column.expand_dims(0) for column in columns]
        return ops.reduce_mean(ops.reshape(self._cell(*rows), (-1,)))  # `vmap` fails on the mean of a scalar

    def __call__(self, columns: Sequence[Array]) -> Any:
        """Yield (losses, gradients) of chunks: a vector, and per parameter an array with one more axis in front."""
        self._cell.set_train()
        if self._batches is None:
            self._batches = self._can_batch(columns)
        size = len(columns[0])
        for start in range(0, size, self._chunk_size):
            chunk = [column[start : start + self._chunk_size] for column in columns]
            count = len(chunk[0])
            losses, gradients = self._chunk([_padded(column, self._chunk_size) for column in chunk])
            yield losses[:count], [gradient[:count] for gradient in gradients]

    def _can_batch(self, columns: Sequence[Array]) -> bool:
        zeros = [np.zeros((self._chunk_size, *column.shape[1:]), column.dtype) for column in columns]
        try:
            self._many(*map(mindspore.Tensor, zeros))
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            self._one(*(mindspore.Tensor(column[0]) for column in zeros))  # what fails here fails for every batch
            return False
        return True

    def _chunk(self, columns: list[Array]) -> tuple[Array, list[Array]]:
        if self._batches:
            losses, gradients = self._many(*map(mindspore.Tensor, columns))
            return losses.asnumpy(), [gradient.asnumpy() for gradient in gradients]
        rows = [self._one(*(mindspore.Tensor(column[i]) for column in columns)) for i in range(self._chunk_size)]
        losses = np.array([loss.asnumpy() for loss, _ in rows])
        return losses, [np.stack([row[1][k].asnumpy() for row in rows]) for k in range(len(self._parameters))]


def _padded(column: Array, size: int) -> Array:
    missing = size - len(column)
    return column if not missing else np.concatenate([column, np.zeros((missing, *column.shape[1:]), column.dtype)])


def refuse_batch_statistics(network: Any) -> None:
    """Raise if a layer mixes the examples of a batch, or keeps statistics of them that no noise protects."""
    for name, cell in network.cells_and_names():
        if isinstance(cell, BATCH_STATISTICS):
            raise InvalidParameter(
                f"the layer {name} ({type(cell).__name__}) mixes the examples of a batch and keeps averages of them "
                "without noise: use GroupNorm or LayerNorm"
            )
