"""Gradients of single examples of a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    ``vmap`` maps the losses only, and one backward pass gives the gradients. What ``vmap`` cannot run (recurrent
    layers, masks of attention that a model looks into, checkpoints, ``.item()``, autograd functions of one's own,
    sparse tables) has one backward pass for each example, which takes longer. Random layers, such as dropout, draw anew
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

    takes_shards = False
    """Whether processes may hold parts of parameters, as ``fully_shard`` makes them."""

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
        refuse_wrappers(model, takes_shards=self.takes_shards)
        self.model = model
        self.parameters = self.checked_parameters()
        self._remember()
        self._loss, self._scale = loss, loss_scale
        self._joined = _joined(torch, model, loss)
        self._is_checked = False
        self.unused: list[str] = []
        """Trained parameters that the loss of an example of zeros does not depend on, once that was looked at."""
        self._is_walked = False
        self.takes_reentrant = False
        """Whether checkpoints that hide their layers are run all the same: for checks of what is not private."""
        self.reason: str | None = None
        """Why examples are taken one by one; None while ``vmap`` takes them together."""
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
        """Refuse layers that mix the examples of a batch, keep averages of them, or write to their table."""
        mixing = self._torch.nn.modules.batchnorm._BatchNorm
        keeping = self._torch.nn.modules.instancenorm._InstanceNorm
        for name, module in self.model.named_modules():
            # mutant: table-written-to-by-examples
            if getattr(module, "max_norm", None) is not None:
                raise InvalidParameter(
                    f"module {name!r} writes to its table when it looks something up, which no noise protects: make it "
                    "without max_norm"
                )
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
        if not length:
            self.check_use(batch)
            return {name: each.new_zeros((0, *each.shape)) for name, each in self.parameters.items()}
        reason = self.reason
        if reason is None:
            try:
                return self._together(batch, length)
            except FerroError:
                raise
            except Exception as error:  # of vmap, which does not see values: so it is a matter of model and shapes
                reason = f"torch.func.vmap cannot run the model or the loss: {type(error).__name__}"
        gradients = self._one_by_one(batch, length)
        self.reason = reason  # after examples were run: what fails either way is the fault of a batch
        return gradients

    def _together(self, batch: tuple[Any, ...], length: int) -> dict[str, Any]:
        if self._is_linear:
            of_layers = self._of_layers(batch)
            if of_layers is not None:  # then the loss depends on all parameters
                return of_layers
            self._is_linear = False
        self.check_use(batch)
        parameters, rest = self._state()
        # Dropout draws for each example, and one without dropout draws nothing.
        mapped = self._torch.func.vmap(self._grad_of_one, in_dims=(None, None, None, 0), randomness="different")
        (found, outputs), inputs = mapped(parameters, self._linear.zeros(), rest, batch)
        self._linear.complete(found, outputs, inputs)
        gradients: dict[str, Any] = found
        return gradients

    def _one_by_one(self, batch: tuple[Any, ...], length: int) -> dict[str, Any]:
        """Return the gradients by one backward pass for each example, which any module and loss can have."""
        if not self.takes_reentrant:
            self.check_use(batch)
        stacked = {name: each.new_zeros((length, *each.shape)) for name, each in self.parameters.items()}
        for i in range(length):
            for name, gradient in self._backward(self.part(batch, i, i + 1)).items():
                if gradient is not None:
                    stacked[name][i] = gradient  # dense, if it is sparse
        return stacked

    def _backward(self, batch: Any) -> dict[str, Any]:
        """Return the gradient of the loss of a whole batch by PyTorch's own backward pass; None where there is none."""
        torch = self._torch
        kept = {name: (each.grad, each._version) for name, each in self.parameters.items()}
        hooked = [name for name, each in self.parameters.items() if each._post_accumulate_grad_hooks]
        # mutant: hooks-see-gradients-without-noise
        if hooked:
            raise InvalidParameter(
                f"parameter {hooked[0]!r} has a hook that is called when its gradient was added up, which would see "
                "one without noise: remove it; the optimizer steps after the release"
            )
        try:
            with torch.enable_grad(), self._kept_buffers():
                for each in self.parameters.values():
                    each.grad = None
                value = self._scaled(self._loss(self.model, *batch))
                if value.requires_grad:
                    is_reentrant = self.takes_reentrant and _has_reentrant(value)
                    self._refuse_reentrant(value)
                    # Into these alone: another model that the loss calls gets no gradient.
                    torch.autograd.backward(value, inputs=None if is_reentrant else list(self.parameters.values()))
            found = {name: each.grad for name, each in self.parameters.items()}
        finally:
            for name, each in self.parameters.items():
                each.grad = kept[name][0]
        for name, each in self.parameters.items():
            # mutant: parameter-written-to-by-examples
            if each._version != kept[name][1]:
                raise InvalidParameter(
                    f"the model or the loss writes to parameter {name!r} when it is called, which no noise protects: "
                    "make embeddings without max_norm, and let the optimizer alone change parameters"
                )
        if all(each is None for each in found.values()):
            raise _no_use()
        return {name: None if each is None else each.to_dense() for name, each in found.items()}

    def _refuse_reentrant(self, value: Any) -> None:
        """Refuse checkpoints in whose backward pass gradients go to the parameters, unseen; looked for once."""
        if self._is_walked or self.takes_reentrant:
            return
        self._is_walked = True
        # mutant: layers-hidden-by-a-checkpoint-trained-on-noise
        if _has_reentrant(value):
            raise InvalidParameter(
                "the model must not use checkpoint with use_reentrant=True, which hides its layers until the "
                "backward pass: write checkpoint(..., use_reentrant=False)"
            )

    @contextmanager
    def _kept_buffers(self) -> Iterator[None]:
        """Leave the buffers as they were: averages of examples would have no noise."""
        held = [
            (module._buffers, name, each) for module in self.model.modules() for name, each in module._buffers.items()
        ]
        copies = [None if each is None else (each.clone(), each._version) for _, _, each in held]
        try:
            yield
        finally:
            with self._torch.no_grad():
                for (table, name, each), copy in zip(held, copies, strict=True):
                    # mutant: buffers-of-one-example-kept
                    if copy is not None and each._version != copy[1]:
                        each.copy_(copy[0])
                    table[name] = each

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
                    self._refuse_reentrant(value)
                    found = torch.autograd.grad(value, list(wanted.values()), allow_unused=True)
            except FerroError:
                raise
            except Exception:  # whatever functional_call, the model or the loss raises for zeros
                try:
                    found = list(self._backward(zeros).values())
                except FerroError:
                    raise
                except Exception:  # what cannot be run on zeros at all is left to the call that takes examples
                    self._is_checked = True
                    return
        # mutant: loss-without-the-model-trained
        if all(each is None for each in found):
            raise _no_use()
        self.unused = [name for name, each in zip(wanted, found, strict=True) if each is None and wanted[name].numel()]
        self._is_checked = True

    def of_group(self, *batch: Any) -> dict[str, Any]:
        """Return the gradient of the loss of a whole batch, times the scale of the loss."""
        self.check_use(batch)
        if self.reason is None:
            parameters, rest = self._state()
            try:
                found: dict[str, Any] = self._grad(parameters, rest, batch)
                return found
            except FerroError:
                raise
            except Exception as error:
                reason = f"torch.func.grad cannot run the model or the loss: {type(error).__name__}"
        else:
            reason = self.reason
        gradients = self._backward(batch)
        self.reason = reason
        return {
            name: self.parameters[name].new_zeros(self.parameters[name].shape) if each is None else each
            for name, each in gradients.items()
        }

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


def _has_reentrant(value: Any) -> bool:
    """Whether there is a checkpoint in the graph of a value whose layers are not."""
    seen, waiting = set(), [value.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == "CheckpointFunctionBackward":
            return True
        waiting += [each for each, _ in node.next_functions]
    return False


def _no_use() -> InvalidParameter:
    return InvalidParameter(
        "loss must depend on a trained parameter of the model that it is given, got one that depends on none: "
        "every release would be noise alone. Let it call its argument, as in "
        "lambda model, x, y: cross_entropy(model(x), y), and not a copy of the model, nor within no_grad"
    )


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
