"""The optimizer that `make_exact` turns an optimizer of Opacus into; imports Opacus."""

from __future__ import annotations

from typing import Any

import torch
from opacus.optimizers import DPOptimizer

from ferrodp import ClippedSum
from ferrodp._base import _validate
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations._tensors import GradientMemory, array_of, common_dtype
from ferrodp.random import NoiseSource
from ferrodp.sums.clipped import release_flat


class ExactOptimizer(DPOptimizer):  # type: ignore[misc]  # Opacus is not installed where types are checked
    """Opacus' optimizer whose sum is a `ClippedSum`, from the first part of a batch to its release."""

    total: ClippedSum[Any] | None
    source: NoiseSource | None
    memory: GradientMemory | None

    def clip_and_accumulate(self) -> None:
        """Add the per-example gradients, all parameters of an example clipped together."""
        parameters = {f"parameter {i}": each for i, each in enumerate(self.params)}
        rows = {name: self._rows(name, each) for name, each in parameters.items()}
        dtype = common_dtype(parameters)
        if self.total is None:
            shapes = {name: tuple(each.shape) for name, each in parameters.items()}
            self.total = ClippedSum(shapes, clip_norm=self.max_grad_norm, dtype=dtype)
        # mutant: clip-norm-moves-within-batch
        elif self.total.clip_norm != float(self.max_grad_norm):
            raise InvalidParameter("max_grad_norm must stay the same within a batch")
        self.total.add_many({name: array_of(name, each, dtype) for name, each in rows.items()})
        for parameter in parameters.values():
            parameter.grad_sample._processed = True

    def add_noise(self) -> None:
        """Release the sum with noise into the parameters' `grad`, divided by the expected batch size for a mean."""
        if self.total is None:
            raise FerroError("there is no sum to release: step() was called twice for one batch")
        multiplier, divisor = _validate.positive("noise_multiplier", self.noise_multiplier), None
        if self.loss_reduction == "mean":
            divisor = _validate.positive("expected_batch_size", self.expected_batch_size)
        parameters = self.params
        if self.memory is None or [*map(id, self.memory.parameters)] != [*map(id, parameters)]:
            self.memory = GradientMemory(parameters)
        released = release_flat(self.total, multiplier, divisor, self.source, None, out=self.memory.array())
        self.total = None
        self.memory.write(released)

    def scale_grad(self) -> None:
        """Do nothing: the release was divided already, before it was rounded to the parameters' type."""

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget gradients; within a batch of several parts, keep their sum."""
        # mutant: dropped-gradients-stay-in-sum
        if not self._is_last_step_skipped:
            self.total = None
        super().zero_grad(set_to_none)

    def _rows(self, name: str, parameter: Any) -> torch.Tensor:
        """Return the per-example gradients of a parameter, which were not used before."""
        rows = self._get_flat_grad_sample(parameter)
        # mutant: record-in-two-batches-clipped-twice
        if isinstance(parameter.grad_sample, list):
            raise InvalidParameter(
                f"{name} has accumulated the gradients of {len(parameter.grad_sample)} batches, in which an example "
                "may be more than once; for batches larger than memory use BatchMemoryManager"
            )
        # mutant: gradients-summed-twice
        if hasattr(parameter.grad_sample, "_processed"):
            raise FerroError(f"the gradients of {name} were used before: call optimizer.zero_grad() on each step")
        return rows
