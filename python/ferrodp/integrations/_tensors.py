"""Tensors of PyTorch as numpy arrays: the same memory where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from operator import attrgetter, is_
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArrayType, InvalidParameter, InvalidType, MissingPackage

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
    """Refuse a tensor that is no dense one in the memory of the CPU."""
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
    that was put there, nothing else refers to one of them, and no other tensor, view or array shares their memory. A
    graph that has saved one notices, as where ``backward`` adds to a ``.grad``.

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
        # Weak: after ``zero_grad`` nothing is kept.
        self._flat: Callable[[], npt.NDArray[Any] | None] = _nothing
        self._pieces: list[Callable[[], Any]] = []
        self._sharing = 0
        # PyTorch versions without one of the two get new tensors each time.
        self._count_change = getattr(torch.autograd.graph, "increment_version", None)
        self._count_sharing = getattr(torch._C, "_storage_Use_Count", None)
        alone = torch.nn.Parameter(torch.zeros(1))
        alone.grad = torch.zeros(1)
        self._holders = _holders([*map(_GRAD, [alone])]) * len(self.parameters)

    def array(self) -> npt.NDArray[Any] | None:
        """Return the array that all ``.grad`` are pieces of, if it may be overwritten."""
        flat = self._flat()
        if flat is None:
            return None
        gradients = [*map(_GRAD, self.parameters)]
        # mutant: gradients-that-were-kept-overwritten
        if _holders(gradients) != self._holders or not all(map(is_, gradients, [piece() for piece in self._pieces])):
            return None
        # mutant: memory-that-others-share-overwritten
        return flat if self._shared() == self._sharing else None

    def write(self, released: npt.NDArray[Any]) -> None:
        """Let the ``.grad`` be what was released: to `array`, or to memory of its own."""
        if released is self._flat():
            self._count_change(self.parameters[0].grad)  # type: ignore[misc]
            return
        whole = self._torch.from_numpy(released)
        can_be_kept = self._count_change is not None and self._count_sharing is not None and not whole.is_inference()
        pieces: list[Callable[[], Any]] = []
        for parameter, piece, is_flat in zip(
            self.parameters, whole.split_with_sizes(self._sizes), self._is_flat, strict=True
        ):
            if piece.dtype is not parameter.dtype:
                piece, can_be_kept = piece.to(parameter.dtype), False
            parameter.grad = gradient = piece if is_flat else piece.view_as(parameter)
            pieces.append(ref(gradient))
        self._flat, self._pieces = _nothing, []
        if can_be_kept:
            del whole, piece, gradient
            self._flat, self._pieces, self._sharing = ref(released), pieces, self._shared()

    def _shared(self) -> int:
        """Return how many tensors there are in the memory of the gradients."""
        count: int = self._count_sharing(self.parameters[0].grad.untyped_storage()._cdata)  # type: ignore[misc]
        return count


def _holders(gradients: list[Any]) -> list[int]:
    """Return how many references there are to each."""
    return [*map(getrefcount, gradients)]


def _nothing() -> None:
    """Return what a reference to what is gone returns."""
