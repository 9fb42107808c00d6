"""Gradients of single examples of a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import attrgetter, is_, methodcaller
from typing import TYPE_CHECKING, Any, TypeAlias

from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.integrations._processes import refuse_wrappers
from ferrodp.integrations._tensors import check_place, dtype_of, framework
from ferrodp.integrations.torch._linear import LinearLayers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

__all__ = ["Loss", "per_example_gradients"]

_TABLES = attrgetter("_parameters", "_modules")
"""What a module holds, by name."""
_ENTRIES = methodcaller("items")
_KIND = attrgetter("requires_grad", "dtype", "is_cpu")

Loss: TypeAlias = "Callable[..., Tensor]"
"""Takes the module and a batch; returns a scalar."""


def per_example_gradients(model: Module, loss: Loss, *batch: Any) -> dict[str, Tensor]:
    """Return the gradient of the loss of each example of a batch, by itself.

    Parameters
    ----------
    model : torch.nn.Module
        In the memory of the CPU. Its parameters, their ``.grad`` and its buffers are not changed.
    loss : callable
        ``loss(model, *batch)`` returns the scalar loss of a batch. It is called with one example at a time, as a batch
        of size 1, and gets the module itself. While it runs, the module's parameters are those that gradients are taken
        at. It has to use at least one of them: a loss of another model, such as a copy, is refused.
    *batch : tensor, or tuples, lists and dicts of tensors
        Examples along the first axis of each tensor.

    Returns
    -------
    dict of str to tensor
        By the names of ``model.named_parameters()``, for all that require a gradient: entry i of each tensor belongs
        to example i.

    Raises
    ------
    InvalidParameter, InvalidArrayType, InvalidType
        If a parameter is not dense, real and in the memory of the CPU, the model is spread over devices or processes or
        has a layer that normalizes over the batch, the tensors of the batch differ in length, or the loss depends on no
        parameter of the model.
    MissingPackage
        If PyTorch is not installed.

    Notes
    -----
    Which parameters a loss depends on is read off its graph for an example of zeros, never off data: where there are
    other layers than linear ones, the loss is called for that once more.

    ``torch.func.vmap`` of ``torch.func.grad``. Where linear layers that see one row an example have all the parameters,
    ``vmap`` maps the losses only, and one backward pass gives the gradients. Random layers, such as dropout, draw anew
    for each example. A layer that mixes examples has no per-example gradients; batch normalization in training is
    refused for that reason. Layers may write to buffers while a gradient is taken, but the model keeps what it had:
    averages of examples would have no noise.

    Examples
    --------
    >>> import torch
    >>> from ferrodp.integrations.torch import per_example_gradients
    >>> model = torch.nn.Linear(3, 1)
    >>> gradients = per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(5, 3))
    >>> {name: tuple(each.shape) for name, each in gradients.items()}
    {'weight': (5, 1, 3), 'bias': (5, 1)}
    """
    return Gradients(model, loss)(*batch)


class Gradients:
    """The gradients of a module's examples, as a function that is made once."""

    def __init__(self, model: Module, loss: Loss, *, loss_scale: float = 1.0) -> None:
        self._torch = torch = framework("torch", extra="torch")
        self._tree = framework("torch.utils._pytree", extra="torch")
        if not isinstance(model, torch.nn.Module):
            name = model.__name__ if isinstance(model, type) else type(model).__name__
            made = (
                f"the class {name}: make one, {name}(...)"
                if isinstance(model, type)
                else f"{name}; for example torch.nn.Linear(10, 2)"
            )
            raise InvalidType(f"model must be a torch.nn.Module, got {made}")
        if isinstance(loss, torch.nn.Module):
            criterion = type(loss).__name__
            raise InvalidType(
                f"loss must be a function loss(model, x, y), got the module {criterion}; "
                "write lambda model, x, y: criterion(model(x), y)"
            )
        if not callable(loss):
            raise InvalidType(
                f"loss must be a function loss(model, *batch), got {type(loss).__name__}; "
                "for example lambda model, x, y: cross_entropy(model(x), y)"
            )
        refuse_wrappers(model)
        self.model = model
        self.parameters = self.checked_parameters()
        self._remember()
        self._loss, self._scale = loss, loss_scale
        self._joined = _joined(torch, model, loss)
        self._is_checked = False
        self.unused: list[str] = []
        """Trained parameters that the loss of an example of zeros does not depend on, once that was looked at."""
        self._grad = torch.func.grad(self._scaled_loss)
        self._grad_and_inputs = torch.func.grad(self._loss_and_inputs, (0, 1), has_aux=True)
        self._linear = LinearLayers(torch, model, {id(each): name for name, each in self.parameters.items()})
        # Whether the outputs of linear layers may be all that depends on a parameter.
        self._is_linear = self._linear.trained == self.parameters.keys() and next(model.buffers(), None) is None

    def checked_parameters(self) -> dict[str, Any]:
        """Return the parameters that are trained, by name, or refuse those that cannot be."""
        found = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        if not found:
            raise InvalidParameter(
                "model must have a parameter that requires a gradient, got none; write parameter.requires_grad_(True)"
            )
        for name, parameter in found.items():
            check_place(f"parameter {name!r}", parameter)
            dtype_of(f"parameter {name!r}", parameter)
        return found

    def is_unchanged(self) -> bool:
        """Whether the parameters are the very same, in place, kind and use, as when they were checked first."""
        tables = [*chain.from_iterable(map(_TABLES, self._modules))]
        if [*map(len, tables)] != self._lengths:
            return False
        # By address: tensors would be compared element by element.
        entries = chain.from_iterable(chain.from_iterable(map(_ENTRIES, tables)))
        return all(map(is_, entries, self._entries)) and [*map(_KIND, self._all)] == self._kinds

    def _remember(self) -> None:
        """Keep what `is_unchanged` looks at, without the names that a check would give: they take most of its time."""
        self._modules = list(self.model.modules())
        tables = [*chain.from_iterable(map(_TABLES, self._modules))]
        self._lengths = [*map(len, tables)]
        self._entries = [*chain.from_iterable(chain.from_iterable(map(_ENTRIES, tables)))]
        self._all = list(self.model.parameters())
        self._kinds = [*map(_KIND, self._all)]

    def check_layers(self) -> None:
        """Refuse layers that mix the examples of a batch, or keep averages of them."""
        mixing = self._torch.nn.modules.batchnorm._BatchNorm
        keeping = self._torch.nn.modules.instancenorm._InstanceNorm
        for name, module in self.model.named_modules():
            # mutant: averages-of-examples-kept-without-noise
            if isinstance(module, keeping) and module.training and module.track_running_stats:
                raise InvalidParameter(
                    f"module {name!r} keeps averages of the examples, which no noise protects: make it with "
                    "track_running_stats=False, or put it into evaluation mode"
                )
            # mutant: batch-normalization-trained
            if isinstance(module, mixing) and (module.training or not module.track_running_stats):
                raise InvalidParameter(
                    f"module {name!r} normalizes over the batch, so that no example has a gradient of its own: use "
                    "GroupNorm or LayerNorm, or put it into evaluation mode"
                )

    def length(self, batch: tuple[Any, ...]) -> int:
        """Return the number of examples of a batch."""
        leaves = self._tree.tree_leaves(batch)
        if not leaves or not all(isinstance(leaf, self._torch.Tensor) and leaf.ndim for leaf in leaves):
            kinds = ", ".join(sorted({type(leaf).__name__ for leaf in leaves})) or "nothing"
            raise InvalidType(
                f"a batch must be made of tensors with the examples along their first axis, got {kinds}; "
                "for example torch.from_numpy(array)"
            )
        lengths = {len(leaf) for leaf in leaves}
        if len(lengths) > 1:
            raise InvalidParameter(
                f"the tensors of a batch must have the same length along their first axis, got {sorted(lengths)}; "
                "give each example its label"
            )
        return int(lengths.pop())

    def part(self, batch: tuple[Any, ...], start: int, stop: int) -> Any:
        """Return some consecutive examples of a batch."""
        return self._tree.tree_map(lambda leaf: leaf[start:stop], batch)

    def __call__(self, *batch: Any) -> dict[str, Any]:
        """Return the gradients of the examples of a batch, times the scale of the loss."""
        # mutant: layers-checked-once
        self.check_layers()
        length = self.length(batch)
        if self._is_linear and length:
            of_layers = self._of_layers(batch)
            if of_layers is not None:  # then the loss depends on all parameters
                return of_layers
            self._is_linear = False
        self.check_use(batch)
        if not length:
            return {name: each.new_zeros((0, *each.shape)) for name, each in self.parameters.items()}
        parameters, rest = self._state()
        # Dropout draws for each example, and one without dropout draws nothing.
        mapped = self._torch.func.vmap(self._grad_of_one, in_dims=(None, None, None, 0), randomness="different")
        (found, outputs), inputs = mapped(parameters, self._linear.zeros(), rest, batch)
        self._linear.complete(found, outputs, inputs)
        gradients: dict[str, Any] = found
        return gradients

    def _of_layers(self, batch: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return the gradients of a model whose parameters are all used in linear layers, each called once at most.

        ``vmap`` maps the losses only, so that each depends on its own example; one pass of ``backward`` then gives the
        gradients of the outputs of the layers, and the outer products are formed from these. None where that is not all
        there is to a gradient.
        """
        torch, length = self._torch, self.length(batch)
        added = self._linear.zeros(length)
        if not added or torch.is_inference_mode_enabled():
            return None
        outputs = [each.requires_grad_() for each in added]
        with torch.enable_grad():
            losses, inputs = torch.func.vmap(self._loss_of_one, randomness="different")(outputs, batch)
            if not isinstance(losses, torch.Tensor) or losses.shape != (length,) or not losses.requires_grad:
                return None
            # A layer that is called again, or a weight that is used elsewhere, makes the loss depend on the parameter.
            wanted = [*outputs, *self.parameters.values()]
            found = torch.autograd.grad(losses, wanted, torch.ones_like(losses), allow_unused=True)
        errors, others = found[: len(outputs)], found[len(outputs) :]
        # mutant: gradients-of-other-uses-left-out
        if any(each is not None for each in others) or any(each is None for each in errors):
            return None
        gradients: dict[str, Any] = {}
        self._linear.complete(gradients, list(errors), {place: each.detach() for place, each in inputs.items()})
        return {name: gradients[name] for name in self.parameters}

    def check_use(self, batch: tuple[Any, ...]) -> None:
        """Refuse a loss that depends on none of the trained parameters; remember those that it does not depend on.

        By the graph of the loss of zeros in the shapes of one example, once: so whether this raises is a matter of the
        model, the loss and shapes, also where the batch is empty, which is private. A loss that cannot be taken there
        is left to the call that takes it of examples.
        """
        torch = self._torch
        if self._is_checked or torch.is_inference_mode_enabled():
            return
        zeros = self._tree.tree_map(lambda leaf: leaf.new_zeros((1, *leaf.shape[1:])), batch)
        parameters, rest = self._state()
        wanted = {name: each.requires_grad_() for name, each in parameters.items()}
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            try:
                value = self._scaled_loss(wanted, rest, zeros)
                found = [None] * len(wanted)
                if value.requires_grad:
                    found = torch.autograd.grad(value, list(wanted.values()), allow_unused=True)
            except FerroError:
                raise
            except Exception:  # whatever the model or the loss raises for zeros
                self._is_checked = True
                return
        # mutant: loss-without-the-model-trained
        if all(each is None for each in found):
            raise InvalidParameter(
                "loss must depend on a trained parameter of the model that it is given, got one that depends on none: "
                "every release would be noise alone. Let it call its argument, as in "
                "lambda model, x, y: cross_entropy(model(x), y), and not a copy of the model, nor within no_grad"
            )
        self.unused = [name for name, each in zip(wanted, found, strict=True) if each is None and wanted[name].numel()]
        self._is_checked = True

    def of_group(self, *batch: Any) -> dict[str, Any]:
        """Return the gradient of the loss of a whole batch, times the scale of the loss."""
        self.check_use(batch)
        parameters, rest = self._state()
        found: dict[str, Any] = self._grad(parameters, rest, batch)
        return found

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters that are trained, and all other state; buffers as copies.

        What a layer writes to a buffer is computed from examples and has no noise: it must not stay in the model.
        """
        parameters = {name: each.detach() for name, each in self.parameters.items()}
        frozen = {name: each.detach() for name, each in self.model.named_parameters() if not each.requires_grad}
        # mutant: buffers-keep-what-layers-write-about-examples
        return parameters, frozen | {name: each.clone() for name, each in self.model.named_buffers()}

    def _grad_of_one(self, parameters: dict[str, Any], added: list[Any], rest: dict[str, Any], example: Any) -> Any:
        row = self._tree.tree_map(lambda leaf: leaf.unsqueeze(0), example)
        return self._grad_and_inputs(parameters, added, rest, row)

    def _loss_and_inputs(self, parameters: dict[str, Any], added: list[Any], rest: dict[str, Any], batch: Any) -> Any:
        inputs: dict[int, Any] = {}
        with self._linear.replaced(added, inputs):
            return self._scaled_loss(parameters, rest, batch), inputs

    def _loss_of_one(self, added: list[Any], example: Any) -> Any:
        inputs: dict[int, Any] = {}
        row = self._tree.tree_map(lambda leaf: leaf.unsqueeze(0), example)
        with self._linear.replaced(added, inputs):
            value = self._loss(self.model, *row)
        return self._scaled(value), inputs

    def _scaled_loss(self, parameters: dict[str, Any], rest: dict[str, Any], batch: Any) -> Any:
        state = {f"model.{name}": each for name, each in chain(parameters.items(), rest.items())}
        return self._scaled(self._torch.func.functional_call(self._joined, state, batch))

    def _scaled(self, value: Any) -> Any:
        """Return the loss of an example times its scale; refuse what is not one number."""
        if not isinstance(value, self._torch.Tensor) or value.ndim:
            kind = (
                f"a tensor of {value.ndim} dimensions"
                if isinstance(value, self._torch.Tensor)
                else type(value).__name__
            )
            raise InvalidType(f"loss must return one number, got {kind}; such as cross_entropy(model(x), y)")
        return value if self._scale == 1.0 else value * self._scale


def _joined(torch: Any, model: Module, loss: Loss) -> Any:
    """Return a module that computes the loss, so that the parameters of the model are exchanged for all of that call.

    Whatever the loss does with the module then goes by the exchanged ones: calls of a part of it, its attributes, and
    calls of the module under a name that the loss knows from elsewhere.
    """

    class Joined(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *batch: Any) -> Any:
            # mutant: loss-gets-a-stand-in
            return loss(self.model, *batch)

    return Joined()
