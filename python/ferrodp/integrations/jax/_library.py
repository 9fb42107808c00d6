"""The framework itself, imported by the first call that needs it, and its arrays as numpy arrays of the host."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, MissingPackage


def library(name: str = "jax") -> Any:
    """Return jax, or optax, or say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        rule = 'ferrodp.integrations.jax needs jax and optax: pip install "ferrodp[jax]"'
        raise MissingPackage(rule) from error


def is_floating(dtype: Any) -> bool:
    """Whether a dtype is one of jax's real numbers: those of numpy, bfloat16 and smaller ones."""
    return bool(library("jax.numpy").issubdtype(dtype, np.floating))


def host_array(value: object, name: str) -> npt.NDArray[Any]:
    """Return a concrete array of real numbers as a numpy array, without a copy where its dtype is float32 or float64.

    Narrower numbers become float32, which changes none of them. The memory of a jax array is read-only in numpy.

    Raises
    ------
    InvalidArrayType
        For traced values, arrays on several devices or not on the CPU, other dtypes, and what is no array.
    InvalidArray
        For an array whose memory was donated.
    """
    jax = library()
    if isinstance(value, jax.core.Tracer):
        raise InvalidArrayType(
            f"{name} must be a concrete array, got a traced value; inside jit use JaxRun.aggregation"
        )
    if isinstance(value, jax.Array):
        if value.is_deleted():
            raise InvalidArray(f"{name} must not be deleted: its memory was donated to another computation")
        devices = sorted(map(str, value.sharding.device_set))
        if len(devices) > 1:
            rule = f"{name} must lie on one device, got one sharded over {len(devices)}"
            raise InvalidArrayType(f"{rule}; add each of its addressable_shards, or collect it with jax.device_get")
        if next(iter(value.sharding.device_set)).platform != "cpu":
            raise InvalidArrayType(
                f"{name} must lie on the CPU, got one on {devices[0]}; collect it with jax.device_get"
            )
    elif not isinstance(value, np.ndarray):
        raise InvalidArrayType(f"{name} must be a jax or numpy array, got {type(value).__name__}")
    dtype: Any = value.dtype
    if not is_floating(dtype):
        raise InvalidArrayType(f"{name} must have a dtype of real numbers, got {dtype}")
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def check_mask(mask: object, rows: int) -> Any:
    """Return a mask of rows, traced or not, or refuse it."""
    found: Any = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if found.dtype != np.bool_:
        raise InvalidArrayType(f"mask must be of bool, got {found.dtype}; compare it with 0")
    if tuple(found.shape) != (rows,):
        raise InvalidArray(f"mask must have one entry a row, shape ({rows},), got {tuple(found.shape)}")
    return found


def refuse_device_code() -> None:
    """Refuse to be traced for code that every device runs for itself: each would get noise of its own, or the same."""
    mesh = library().sharding.get_abstract_mesh()
    # mutant: callback-of-every-device-allowed
    if mesh.manual_axes:
        axes = ", ".join(map(repr, mesh.manual_axes))
        rule = "aggregation, noise and sample must be outside of shard_map and pmap, where each device runs the code"
        raise FerroError(f"{rule}; here it is mapped over {axes}: return its gradients, and update outside")
