"""What a loss is: a mean or a sum over examples, and by what the gradient of each has to be multiplied."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations._tensors import framework

_THROUGH = ("Alias", "ToCopy", "Neg", "Squeeze", "View", "Clone", "Reshape", "UnsafeView", "Select", "Unsqueeze")


@dataclass(slots=True)
class Seed:
    """With what the backward pass of a loss begins, so that each example gets the gradient of its own loss."""

    value: Any
    """The gradient of the loss."""
    scale: float
    """By which the gradient of an example is multiplied afterwards; a matter of shapes."""
    kind: str
    """Whether the loss is a mean or a sum."""
    numbers: tuple[float, ...] = ()
    """Over how many numbers an example each mean goes. They have to be the same in all batches: a length that is that
    of the longest text of a batch would let an example change the gradients of the others."""
    corrections: tuple[tuple[Any, Any], ...] = ()
    """Nodes of the graph, and what the gradient that reaches them is to be multiplied by."""

    @contextmanager
    def corrected(self) -> Iterator[None]:
        """Let gradients be corrected within."""
        handles = [
            node.register_prehook(_multiplied_by(factor))
            for node, factor in self.corrections
            if not (isinstance(factor, float) and factor == 1.0)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _multiplied_by(factor: Any) -> Any:
    return lambda gradients: tuple(None if each is None else each * factor for each in gradients)


def seed_of(loss: Any, length: int) -> Seed:
    """Return how to begin the backward pass, from the graph of a loss alone.

    Begun so, each example has the gradient of its own loss, whatever the others are: a mean over the examples, or over
    words of which some are ignored or weigh more, is taken as a sum. The scale makes the gradient of a mean over
    several numbers an example that of their mean.

    Raises
    ------
    InvalidParameter
        If the loss does not end in a mean or a sum.
    """
    return _walk(loss.grad_fn, length)


def _walk(node: Any, length: int) -> Seed:
    name = node.name().removesuffix("0").removesuffix("1").removesuffix("Backward")
    edges = [edge for edge, _ in node.next_functions if edge is not None]
    if name in ("NllLoss", "NllLoss2D"):
        if node._saved_reduction == 1:
            # mutant: mean-over-words-of-a-batch-kept
            return _mean(node, node._saved_total_weight, node._saved_target.numel(), length)
        return Seed(1.0, 1.0, "sum", (), ((node, 1.0),))
    if name == "Mean":
        return _mean(node, None, node._saved_self_sym_numel, length)
    if (hasattr(node, "_saved_reduction") and name.endswith("Loss")) or name.startswith("BinaryCrossEntropy"):
        if node._saved_reduction == 1:
            return _mean(node, None, node._saved_self.numel(), length)
        return Seed(1.0, 1.0, "sum", (), ((node, 1.0),))
    if name == "Sum":
        return Seed(1.0, 1.0, "sum", (), ((node, 1.0),))
    if len(edges) == 1 and name in (*_THROUGH, "Mul", "Add", "Sub"):
        return _walk(edges[0], length)
    if len(edges) == 1 and name == "Div":
        found = _walk(edges[0], length)
        if found.kind == "sum":  # a mean written out
            return replace(found, value=found.value * node._saved_other, kind="mean")
        return found
    if len(edges) > 1 and name in ("Add", "Sub", "Stack"):
        parts = [_walk(edge, length) for edge in edges]
        if len({part.kind for part in parts}) == 1:
            return _together(parts, length)
    raise InvalidParameter(
        f"the loss must be a mean or a sum over the examples of a batch, got one that ends in {node.name()}: only then "
        "has each example a gradient of its own; for example cross_entropy(model(x), y), or losses.mean()"
    )


def _mean(node: Any, weight: Any, numel: int, length: int) -> Seed:
    """Return how a mean over so many numbers is undone; `weight` is what it divides by, if not by their number."""
    numel = max(1, numel)
    value = numel if weight is None else weight
    return Seed(value, length / numel, "mean", (numel / length,), ((node, 1.0),))


def _together(parts: list[Seed], length: int) -> Seed:
    """Return how the sum of several losses begins: each as it would alone, by what reaches its own mean."""
    value = float(length) if parts[0].kind == "mean" else 1.0
    corrections: list[tuple[Any, Any]] = []
    for part in parts:
        # mutant: losses-that-are-added-divide-by-the-words-of-all
        factor = part.value * part.scale / value
        corrections += [(node, own * factor) for node, own in part.corrections]
    numbers = tuple(number for part in parts for number in part.numbers)
    return Seed(value, 1.0, parts[0].kind, numbers, tuple(corrections))


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

        # ``loss *= 2`` makes another number: of one that is changed in place no graph can be read.

        def __iadd__(self, other: Any) -> Any:
            return self + other if self.ndim == 0 else self.add_(other)

        def __isub__(self, other: Any) -> Any:
            return self - other if self.ndim == 0 else self.sub_(other)

        def __imul__(self, other: Any) -> Any:
            return self * other if self.ndim == 0 else self.mul_(other)

        def __itruediv__(self, other: Any) -> Any:
            return self / other if self.ndim == 0 else self.div_(other)

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
