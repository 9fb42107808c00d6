"""Tensors of PyTorch as numpy arrays: the same memory where that is possible."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
