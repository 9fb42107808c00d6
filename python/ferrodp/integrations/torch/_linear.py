"""Per-example gradients of linear layers as outer products.

For one example with one row, the gradient of a linear layer's weight is the outer product of the gradient of its output
and its input. `torch.func.grad` forms it as a product of matrices with an inner dimension of 1, which takes two to
three times as long as the multiplication of all pairs. So while gradients are taken, a layer is replaced by itself
with a constant weight and bias plus zeros. The gradient of these zeros is that of the output, and the outer products
are formed afterwards, with the same single rounding. Other uses of weight and bias are differentiated as usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class LinearLayers:
    """Those layers of a model whose gradients may be outer products; `names` are the parameters that are trained."""

    def __init__(self, torch: Any, model: Module, names: dict[int, str]) -> None:
        self._torch = torch
        self._layers: list[tuple[Any, str, str | None]] = []
        for module in model.modules():
            if type(module) is not torch.nn.Linear or "forward" in vars(module):
                continue
            weight, bias = module.weight, module.bias
            trained = id(weight) in names and (bias is None or id(bias) in names)
            if trained and (bias is None or bias.dtype == weight.dtype):
                self._layers.append((module, names[id(weight)], None if bias is None else names[id(bias)]))

    def zeros(self, *length: int) -> list[Tensor]:
        """Return what is added to the output of each layer, for one example or for a batch of this length."""
        if self._torch.is_autocast_enabled("cpu"):
            return []
        return [layer.weight.new_zeros((*length, 1, layer.out_features)) for layer, _, _ in self._layers]

    @property
    def trained(self) -> set[str]:
        """Names of the parameters of these layers."""
        return {name for _, *names in self._layers for name in names if name is not None}

    @contextmanager
    def replaced(self, added: list[Tensor], inputs: dict[int, Tensor]) -> Iterator[None]:
        """Add to the output of each layer, once, and note its input; not for other inputs than one row."""
        linear, layers = self._torch.nn.functional.linear, self._layers[: len(added)]

        def make(place: int, layer: Any, zeros: Tensor) -> Any:
            weight, bias = layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
            width = (1, layer.in_features)

            def forward(rows: Tensor) -> Any:
                # mutant: second-call-of-a-layer-taken-for-the-first
                if place in inputs or rows.shape != width or rows.dtype != weight.dtype:
                    return linear(rows, layer.weight, layer.bias)
                inputs[place] = rows
                return linear(rows, weight, bias) + zeros

            return forward

        for place, ((layer, _, _), zeros) in enumerate(zip(layers, added, strict=True)):
            vars(layer)["forward"] = make(place, layer, zeros)
        try:
            yield
        finally:
            for layer, _, _ in layers:
                del vars(layer)["forward"]

    def complete(self, gradients: dict[str, Any], outputs: list[Tensor], inputs: dict[int, Tensor]) -> None:
        """Add the outer products to gradients that lack them, of a batch along the first axis of each tensor."""
        for place, rows in inputs.items():
            _, weight, bias = self._layers[place]
            errors = outputs[place]
            product = errors.transpose(1, 2) * rows
            gradients[weight] = _sum(gradients.get(weight), product)
            if bias is not None:
                gradients[bias] = _sum(gradients.get(bias), errors[:, 0])


def _sum(other: Tensor | None, product: Tensor) -> Tensor:
    """Return the sum of what other uses of a parameter give, which mostly are none, and its outer products."""
    if other is None:
        return product
    if len(other) and not other.stride(0):  # the same for all examples
        # mutant: gradients-of-other-uses-dropped
        return product + other if other[0].any() else product
    return product + other
