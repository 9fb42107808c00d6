"""Arrays of parameters: numbers or arrays of numbers, checked and broadcast against each other.

Parameters are public, so messages may quote the first value that is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp import _validate
from ferrodp._validate import Real, Rounding
from ferrodp.errors import InvalidParameter, InvalidType

Reals: TypeAlias = "Real | npt.ArrayLike"
Array: TypeAlias = npt.NDArray[np.float64]


def positive(name: str, value: Reals, *, toward: Rounding = "down") -> Array:
    """Return finite floats > 0; a single number that is no float is rounded `toward` a side."""
    if _is_array(value):
        return checked(name, value, "finite and > 0", lambda array: (array > 0.0) & (array < math.inf))
    return np.asarray(_validate.positive(name, value, toward=toward), dtype=np.float64)


def non_negative(name: str, value: Reals, *, toward: Rounding = "up") -> Array:
    """Return finite floats ≥ 0."""
    if _is_array(value):
        return checked(name, value, "finite and >= 0", lambda array: (array >= 0.0) & (array < math.inf)) + 0.0
    return np.asarray(_validate.non_negative(name, value, toward=toward), dtype=np.float64)


def probability(name: str, value: Reals, *, toward: Rounding = "up") -> Array:
    """Return floats in [0, 1]."""
    if _is_array(value):
        return checked(name, value, "finite and in [0, 1]", lambda array: (array >= 0.0) & (array <= 1.0)) + 0.0
    return np.asarray(_validate.probability(name, value, toward=toward), dtype=np.float64)


def orders(value: Reals, *, name: str = "orders") -> Array:
    """Return Rényi orders: floats ≥ 1, of which 1 stands for the limit and infinity is one."""
    if not _is_array(value):
        if isinstance(value, float) and value == math.inf:
            return np.asarray(value, dtype=np.float64)
        value = _validate.positive(name, value, toward="up")
    return checked(name, value, ">= 1", lambda array: array >= 1.0)


def broadcast(*arrays: Array) -> tuple[tuple[int, ...], list[Array]]:
    """Return the common shape, and each array flattened to it, in C order.

    Raises
    ------
    InvalidParameter
        If the shapes do not go together.
    """
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InvalidParameter(f"parameters must broadcast to one shape, got shapes {shapes}") from None
    _validate.fits_in_memory("the shape", 8 * math.prod(shape) * (len(arrays) + 2))
    return shape, [np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1) for array in arrays]


def _is_array(value: object) -> bool:
    return isinstance(value, (np.ndarray, list, tuple)) and not (isinstance(value, np.ndarray) and value.ndim == 0)


def checked(name: str, value: Any, accepted: str, holds: Callable[[Array], npt.NDArray[np.bool_]]) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidType(f"{name} must be a number or an array of numbers: {error}") from None
    if array.dtype.kind not in "fiu" and array.size:
        raise InvalidType(f"{name} must hold real numbers, got dtype {array.dtype}")
    array = array.astype(np.float64)
    good = holds(array)
    if not good.all():
        raise _validate.out_of_domain(name, accepted, float(array[~good][0]))
    return array


def shaped(values: Array, shape: tuple[int, ...]) -> Any:
    """Return the values in that shape; a number for numbers."""
    return values.reshape(shape) if shape else float(values[0])
