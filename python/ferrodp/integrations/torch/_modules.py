"""A module that is run so that gradients of single examples are known: all together, or one example at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations._tensors import framework
from ferrodp.integrations.torch._tape import Rows, Tape, Unknown, axes_of, machinery


class Module:
    """Runs a module for a batch, and its backward pass; which way is a matter of the module and of shapes."""

    def __init__(self, model: Any, parameters: dict[str, Any], whole: dict[str, Any] | None = None) -> None:
        self._torch = framework("torch", extra="torch")
        self._tree = framework("torch.utils._pytree", extra="torch")
        self._model, self._parameters = model, parameters
        self._is_sharded = whole is not None
        self._written = {**parameters, **{f"{name}, gathered": each for name, each in (whole or {}).items()}}
        self._names = {id(each): name for name, each in (parameters if whole is None else whole).items()}
        self._tape = Tape(self._names)
        self._known: dict[Any, dict[str, int] | str] = {}
        self._output_axes: dict[Any, list[int | None]] = {}
        self._gradients: list[dict[str, Any]] = []
        self._unbatched: set[Any] = set()
        self.is_inside = False
        self.way: str | None = None
        self.reason: str | None = None

    def forget(self) -> None:
        """Drop what earlier forward passes left."""
        self._tape.clear()
        self._gradients = []

    def run(self, plain: Callable[..., Any], args: Any, kwargs: Any, length: int) -> Any:
        """Return what the module makes of a batch of so many examples."""
        leaves, shape = self._tree.tree_flatten((args, kwargs))
        batched = self._batched(leaves, length)
        key = (str(shape), tuple(self._kind(leaf, place in batched) for place, leaf in enumerate(leaves)))
        if key not in self._known:
            self._known[key] = self._looked_at(plain, leaves, shape, batched)
        known = self._known[key]
        if not isinstance(known, str):
            tape = self._tape
            tape.axes, tape.length = known, length
            noted = len(tape.copies)
            try:
                with self._inside(), machinery()(tape):
                    out = plain(*args, **kwargs)
                self.way, self.reason = "together", None
                return out
            except Unknown as error:  # on another path than examples of zeros take
                del tape.copies[noted:]
                known = str(error)
        if self._is_sharded:
            raise InvalidParameter(
                "a model of fully_shard must run all examples together, as processes gather its parameters in turn; "
                f"this one has to run them one by one: {known}. Train the module before fully_shard"
            )
        self.way, self.reason = "one by one", known
        with self._inside():
            return self._one_by_one(plain, leaves, shape, batched, length, key)

    def backward(self, loss: Any, seed: Any) -> dict[str, list[Any]]:
        """Return the uses of each parameter, after the backward pass of a loss that begins with this gradient."""
        torch, tape = self._torch, self._tape
        start = torch.as_tensor(seed, dtype=loss.dtype, device=loss.device).reshape(loss.shape)
        # By the engine itself: `torch.autograd.backward` would be watched, and what runs within it would not be. Layers
        # may be run again there, to save memory.
        engine = torch.autograd.Variable._execution_engine
        with self._inside(), machinery()(tape):
            try:
                engine.run_backward((loss,), (start,), False, False, (), allow_unreachable=True, accumulate_grad=True)
            except Unknown as error:
                raise InvalidParameter(
                    f"the model must not run again in the backward pass in another way: {error}"
                ) from error
        tape.collect()
        for stacked in self._gradients:
            for name, gradients in stacked.items():
                tape.note(name, Rows(gradients))
        self._gradients = []
        uses = tape.uses
        tape.clear()
        return uses

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Run the module itself, and leave its buffers as they were: averages of examples would have no noise."""
        kept = [(each, each.clone(), each._version) for each in self._model.buffers()]
        versions = [each._version for each in self._written.values()]
        self.is_inside = True
        try:
            yield
        finally:
            self.is_inside = False
            with self._torch.no_grad():
                for buffer, before, version in kept:
                    if buffer._version != version:
                        buffer.copy_(before)
        for (name, each), version in zip(self._written.items(), versions, strict=True):
            # mutant: parameter-written-to-in-a-private-loop
            if each._version != version:
                raise InvalidParameter(
                    f"the model writes to parameter {name!r} when it is called, which no noise protects: make "
                    "embeddings without max_norm, and let the optimizer alone change parameters"
                )

    def _batched(self, leaves: list[Any], length: int) -> set[int]:
        torch = self._torch
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and (not leaf.ndim or len(leaf) != length):
                self._unbatched.add((len(leaves), place))
        found = {
            place
            for place, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.ndim and (len(leaves), place) not in self._unbatched
        }
        if not found:
            raise InvalidParameter(
                "the model must be called with the examples of the batch along the first axis of a tensor: give it "
                "what the private loader gives, or put other calls into torch.no_grad()"
            )
        return found

    def _kind(self, leaf: Any, is_batched: bool) -> Any:
        if isinstance(leaf, self._torch.Tensor):
            return (is_batched, leaf.ndim, leaf.dtype)
        return leaf if isinstance(leaf, (bool, str, type(None))) else type(leaf)

    def _zeros(self, leaves: list[Any], shape: Any, batched: set[int], length: int) -> Any:
        """Return the arguments for so many examples of zeros."""
        changed = [
            leaf.new_zeros((length, *leaf.shape[1:])) if place in batched else leaf for place, leaf in enumerate(leaves)
        ]
        return self._tree.tree_unflatten(changed, shape)

    def _looked_at(self, plain: Any, leaves: list[Any], shape: Any, batched: set[int]) -> dict[str, int] | str:
        """Return the axis of the examples for each parameter, or why the module runs one example at a time."""
        torch = self._torch
        if any(each.dtype.itemsize > 4 for each in self._parameters.values()):
            return "a parameter has float64, whose products are not exact"
        tapes = []
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for length in (2, 3):
                tape = Tape(self._names, length=length)
                args, kwargs = self._zeros(leaves, shape, batched, length)
                try:
                    with self._inside(), machinery()(tape):
                        plain(*args, **kwargs)
                except Unknown as error:
                    return str(error)
                except FerroError:
                    raise
                except Exception as error:  # whatever the model raises for zeros
                    return f"the model cannot be run on zeros: {type(error).__name__}"
                tapes.append(tape)
        try:
            return axes_of(*tapes)
        except Unknown as error:
            return str(error)

    def _one_by_one(self, plain: Any, leaves: list[Any], shape: Any, batched: set[int], length: int, key: Any) -> Any:
        torch, tree = self._torch, self._tree
        stacked = {
            name: torch.zeros((length, *each.shape), dtype=each.dtype, device=each.device)
            for name, each in self._parameters.items()
        }
        joined = _joined(torch, self._model, plain)
        if key not in self._output_axes:
            self._output_axes[key] = self._axes_of_outputs(plain, leaves, shape, batched)
        outputs: list[Any] = []
        for i in range(length):
            own = {}
            for name, parameter in self._parameters.items():
                own[f"model.{name}"] = one = parameter.detach().requires_grad_()
                one.grad = stacked[name][i]
            some = [leaf[i : i + 1] if place in batched else leaf for place, leaf in enumerate(leaves)]
            args, kwargs = tree.tree_unflatten(some, shape)
            outputs.append(torch.func.functional_call(joined, own, args, kwargs))
        self._gradients.append(stacked)
        flats = [tree.tree_flatten(out)[0] for out in outputs]
        structure = tree.tree_flatten(outputs[0])[1]
        axes = self._output_axes[key]
        together = []
        for place, parts in enumerate(zip(*flats, strict=True)):
            axis = axes[place] if place < len(axes) else 0
            if not isinstance(parts[0], torch.Tensor):
                together.append(parts[0])
            elif axis is None or not parts[0].ndim:
                together.append(torch.stack(parts).mean(0) if parts[0].is_floating_point() else parts[0])
            else:
                together.append(torch.cat(parts, axis))
        return tree.tree_unflatten(together, structure)

    def _axes_of_outputs(self, plain: Any, leaves: list[Any], shape: Any, batched: set[int]) -> list[int | None]:
        """Return along which axis each output has the examples; none for a number such as a mean."""
        torch, tree = self._torch, self._tree
        found = []
        with torch.random.fork_rng(devices=[]), torch.no_grad(), self._inside():
            for length in (2, 3):
                args, kwargs = self._zeros(leaves, shape, batched, length)
                try:
                    found.append([getattr(leaf, "shape", None) for leaf in tree.tree_leaves(plain(*args, **kwargs))])
                except FerroError:
                    raise
                except Exception:  # whatever the model raises for zeros: the first axis, then
                    return []
        axes: list[int | None] = []
        for small, large in zip(*found, strict=False):
            differing = [i for i, pair in enumerate(zip(small or (), large or (), strict=False)) if pair[0] != pair[1]]
            axes.append(differing[0] if differing else None)
        self.is_inside = True  # the caller is within the module
        return axes


def _joined(torch: Any, model: Any, plain: Any) -> Any:
    """Return a module whose parameters are those of the model, and which runs it without its hooks."""

    class Joined(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return plain(*args, **kwargs)

    return Joined()
