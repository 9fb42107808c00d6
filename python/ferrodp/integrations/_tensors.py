"""Tensors of PyTorch as numpy arrays: the same memory where that is possible."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from operator import attrgetter, is_
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArrayType, InvalidParameter, InvalidType, MissingPackage
from ferrodp.integrations._processes import refuse_sharded

if TYPE_CHECKING:
    from torch import Tensor


def framework(module: str, *, extra: str) -> Any:
    """Return a module of a framework, or say what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        rule = f'ferrodp.integrations.{extra} needs {package}: pip install "ferrodp[{extra}]"'
        raise MissingPackage(rule) from error


def check_place(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that is no dense one, or not whole in the memory of the CPU."""
    refuse_sharded(name, tensor)
    if tensor.device.type != "cpu":
        raise InvalidParameter(
            f"{name} is on the device {tensor.device}, and noise is added in the memory of the CPU: "
            'move the model with .to("cpu") before the optimizer is made'
        )
    if str(tensor.layout) != "torch.strided":
        raise InvalidArrayType(f"{name} must be dense, got the layout {tensor.layout}")


def dtype_of(name: str, tensor: Tensor) -> type[np.float32] | type[np.float64]:
    """Return the type that gradients of a parameter are summed in: float64 for float64, else float32."""
    if not tensor.dtype.is_floating_point:
        raise InvalidType(f"{name} must hold real floating-point numbers, got {tensor.dtype}")
    return np.float64 if tensor.dtype.itemsize == 8 else np.float32


def common_dtype(named: dict[str, Tensor]) -> type[np.float32] | type[np.float64]:
    """Return the type that holds the gradients of all parameters without loss."""
    return np.float64 if any(dtype_of(name, each) is np.float64 for name, each in named.items()) else np.float32


def array_of(name: str, tensor: Tensor, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a tensor as a C-contiguous array: its own memory if it is contiguous and of this type, else a copy.

    Types with fewer bits are widened without a change of value.
    """
    torch = framework("torch", extra="torch")
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        check_place(name, tensor)  # refuses it
    wanted = torch.float64 if np.dtype(dtype) == np.float64 else torch.float32
    values = tensor.detach()
    if values.dtype is not wanted or not values.is_contiguous():
        values = values.to(wanted).contiguous()
    array: npt.NDArray[Any] = values.numpy()
    return array


_GRAD = attrgetter("grad")


class GradientMemory:
    """The ``.grad`` of parameters as pieces of one flat array, which the next release may write to.

    Memory is used again, in a fifth of the time that new tensors take, only where each ``.grad`` still is the tensor
    that was put there, or each is None, nothing else refers to one of these tensors, and no other tensor, view or array
    shares their memory. A graph that has saved one notices, as where ``backward`` adds to a ``.grad``.

    Attributes
    ----------
    parameters : list of tensor
        Whose ``.grad`` they are.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._torch = torch = framework("torch", extra="torch")
        self.parameters = list(parameters)
        self._sizes = [each.numel() for each in self.parameters]
        self._is_flat = [each.dim() == 1 for each in self.parameters]
        self._flat: npt.NDArray[Any] | None = None
        self._pieces: list[Any] = []
        self._sharing, self._are_cleared = 0, False
        # PyTorch versions without one of the two get new tensors each time.
        self._count_change = getattr(torch.autograd.graph, "increment_version", None)
        self._count_sharing = getattr(torch._C, "_storage_Use_Count", None)
        # How many references a tensor in a list has if it is a ``.grad``, and if it is not any more.
        alone, pieces = torch.nn.Parameter(torch.zeros(1)), [torch.zeros(1)]
        alone.grad = pieces[0]
        self._held = _holders(pieces) * len(self.parameters)
        alone.grad = None
        self._cleared = _holders(pieces) * len(self.parameters)

    def array(self) -> npt.NDArray[Any] | None:
        """Return the array that all ``.grad`` are, or before they were set to None were, pieces of, if it is free."""
        if self._flat is None:
            return None
        gradients = [*map(_GRAD, self.parameters)]
        are_pieces = all(map(is_, gradients, self._pieces))
        self._are_cleared = not are_pieces and all(each is None for each in gradients)
        del gradients
        if not are_pieces and not self._are_cleared:
            return None
        # mutant: gradients-that-were-kept-overwritten
        if _holders(self._pieces) != (self._held if are_pieces else self._cleared):
            return None
        # mutant: memory-that-others-share-overwritten
        return self._flat if self._shared() == self._sharing else None

    def write(self, released: npt.NDArray[Any]) -> None:
        """Let the ``.grad`` be what was released: to `array`, or to memory of its own."""
        if released is self._flat:
            self._count_change(self._pieces[0])  # type: ignore[misc]
            if self._are_cleared:
                for parameter, piece in zip(self.parameters, self._pieces, strict=True):
                    parameter.grad = piece
            return
        whole = self._torch.from_numpy(released)
        can_be_kept = self._count_change is not None and self._count_sharing is not None and not whole.is_inference()
        self._flat, self._pieces = None, []
        for parameter, piece, is_flat in zip(
            self.parameters, whole.split_with_sizes(self._sizes), self._is_flat, strict=True
        ):
            if piece.dtype is not parameter.dtype:
                piece, can_be_kept = piece.to(parameter.dtype), False
            parameter.grad = gradient = piece if is_flat else piece.view_as(parameter)
            self._pieces.append(gradient)
        del whole, piece, gradient
        if can_be_kept:
            self._flat, self._sharing = released, self._shared()
        else:
            self._pieces = []

    def _shared(self) -> int:
        """Return how many tensors there are in the memory of the gradients."""
        count: int = self._count_sharing(self._pieces[0].untyped_storage()._cdata)  # type: ignore[misc]
        return count


def _holders(tensors: list[Any]) -> list[int]:
    """Return how many references there are to each."""
    return [*map(getrefcount, tensors)]
