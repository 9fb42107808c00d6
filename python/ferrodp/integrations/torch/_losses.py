"""What a loss is: a mean or a sum over examples, and by what the gradient of each has to be multiplied."""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any

from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations._tensors import framework

_THROUGH = ("Alias", "ToCopy", "Neg", "Squeeze", "View", "Clone", "Reshape", "UnsafeView", "Select", "Unsqueeze")


def seed_of(loss: Any, length: int) -> tuple[Any, float]:
    """Return the gradient to begin with, and a scale, from the graph of a loss alone.

    Begun with it, the backward pass gives each example the gradient of its own loss, whatever the others are: a mean
    over the examples, or over words of which some are ignored or weigh more, is taken as a sum. The scale makes the
    gradient of a mean over several numbers an example that of their mean; it is a matter of shapes.

    Raises
    ------
    InvalidParameter
        If the loss does not end in a mean or a sum.
    """
    seed, scale, _ = _walk(loss.grad_fn, length)
    return seed, scale


def _walk(node: Any, length: int) -> tuple[Any, float, str]:
    name = node.name().removesuffix("0").removesuffix("1").removesuffix("Backward")
    edges = [edge for edge, _ in node.next_functions if edge is not None]
    if name in ("NllLoss", "NllLoss2D"):
        rows = max(1, node._saved_target.numel())
        if node._saved_reduction == 1:
            # mutant: mean-over-words-of-a-batch-kept
            return node._saved_total_weight, length / rows, "mean"
        return 1.0, 1.0, "sum"
    if name == "Mean":
        numel = max(1, node._saved_self_sym_numel)
        return numel, length / numel, "mean"
    if (hasattr(node, "_saved_reduction") and name.endswith("Loss")) or name.startswith("BinaryCrossEntropy"):
        numel = max(1, node._saved_self.numel())
        if node._saved_reduction == 1:
            return numel, length / numel, "mean"
        return 1.0, 1.0, "sum"
    if name == "Sum":
        return 1.0, 1.0, "sum"
    if len(edges) == 1 and name in (*_THROUGH, "Mul", "Add", "Sub"):
        return _walk(edges[0], length)
    if len(edges) == 1 and name == "Div":
        seed, scale, kind = _walk(edges[0], length)
        if kind == "sum":  # a mean written out
            return seed * node._saved_other, scale, "mean"
        return seed, scale, kind
    if len(edges) > 1 and name in ("Add", "Sub", "Stack"):
        parts = [_walk(edge, length) for edge in edges]
        kinds = {kind for _, _, kind in parts}
        weighted = any(getattr(edge, "_saved_weight", None) is not None for edge in edges)
        if len(kinds) == 1 and not weighted:
            return (float(length) if kinds == {"mean"} else 1.0), 1.0, kinds.pop()
    raise InvalidParameter(
        f"the loss must be a mean or a sum over the examples of a batch, got one that ends in {node.name()}: only then "
        "has each example a gradient of its own; for example cross_entropy(model(x), y), or losses.mean()"
    )


@cache
def outputs() -> Any:
    """Return the class of what a private model returns, whose `backward` clips: it needs PyTorch to be defined."""
    torch = framework("torch", extra="torch")
    plain = torch._C.DisableTorchFunctionSubclass

    class PrivateTensor(torch.Tensor):  # type: ignore[name-defined,misc]
        """An output of a private model, or what was computed from it, such as the loss."""

        training: Any = None
        """A reference to whose output this is."""

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with plain():
                found = function(*args, **(kwargs or {}))
            if function in _GETTERS:
                return found
            kinds = {kind for kind in types if issubclass(kind, PrivateTensor)}
            # mutant: loss-of-two-private-models-given-to-one
            kind = kinds.pop() if len(kinds) == 1 else PrivateTensor
            return _as(torch, kind, found)

        def backward(
            self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
        ) -> None:
            """Take the gradient of each example, clip it and add it to the sum of the step."""
            if gradient is not None or create_graph or inputs is not None or self.numel() != 1:
                raise InvalidParameter("backward of a private model takes a loss of one number, and no arguments")
            if type(self).training is None:
                raise InvalidParameter(
                    "the loss must be of one private model, got one of two: give each model a loss and a loader"
                )
            training = type(self).training()
            if training is None or not training._awaits_backward:
                raise FerroError(
                    "backward was called for a batch whose gradients are taken: add the losses of a batch up, call "
                    "backward once, and optimizer.step() after it"
                )
            training._backward(self.as_subclass(torch.Tensor))

    _GETTERS.update(torch.overrides.get_default_nowrap_functions())
    return PrivateTensor


_GETTERS: set[Any] = set()
"""Functions whose results are no outputs, such as the getter of ``.grad``."""


def _as(torch: Any, kind: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.as_subclass(kind) if not isinstance(value, kind) else value
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_as(torch, kind, each) for each in value)
    return value


def kind_for(training: Any) -> Any:
    """Return the class of the outputs of one training."""
    return type("PrivateTensor", (outputs(),), {"training": weakref.ref(training)})


def wrapped(tree: Any, value: Any, kind: Any) -> Any:
    """Return outputs of a model as tensors whose `backward` clips."""
    torch = framework("torch", extra="torch")

    def wrap(leaf: Any) -> Any:
        return leaf.as_subclass(kind) if isinstance(leaf, torch.Tensor) and leaf.requires_grad else leaf

    return tree.tree_map(wrap, value)
