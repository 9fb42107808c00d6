"""Validation of parameters that may be numbers or arrays of numbers, and their broadcasting.

Parameters are public, so messages may quote the first value that is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real, Rounding
from ferrodp.errors import InvalidParameter, InvalidType

Reals: TypeAlias = "Real | npt.ArrayLike"
Array: TypeAlias = npt.NDArray[np.float64]
Condition: TypeAlias = Callable[[Array], npt.NDArray[np.bool_]]


def positive(name: str, value: Reals, *, toward: Rounding = "down") -> Array:
    """Return finite floats > 0; a single number that is not exactly a float is rounded `toward` a side."""
    return _reals(name, value, "finite and > 0", lambda x: (x > 0.0) & (x < math.inf), _validate.positive, toward)


def non_negative(name: str, value: Reals, *, toward: Rounding = "up") -> Array:
    """Return finite floats ≥ 0."""
    return _reals(name, value, "finite and >= 0", lambda x: (x >= 0.0) & (x < math.inf), _validate.non_negative, toward)


def probability(name: str, value: Reals, *, toward: Rounding = "up") -> Array:
    """Return floats in [0, 1]."""
    return _reals(name, value, "finite and in [0, 1]", lambda x: (x >= 0.0) & (x <= 1.0), _validate.probability, toward)


def _reals(
    name: str, value: Reals, accepted: str, holds: Condition, number: Callable[..., float], toward: Rounding
) -> Array:
    """Return an array whose elements satisfy a condition, or a number that a validation accepts, as float64."""
    if _is_array(value):
        return checked(name, value, accepted, holds) + 0.0
    return np.asarray(number(name, value, toward=toward), dtype=np.float64)


def orders(value: Reals, *, name: str = "orders") -> Array:
    """Return Rényi orders: floats ≥ 1; 1 stands for the limit, and infinity is allowed."""
    if not _is_array(value):
        if isinstance(value, float) and value == math.inf:
            return np.asarray(value, dtype=np.float64)
        value = _validate.positive(name, value, toward="up")
    return checked(name, value, ">= 1", lambda array: array >= 1.0)


def orders_above_one(value: Reals) -> Array:
    """Return Rényi orders > 1, for curves that are not known at 1."""
    found = orders(value)
    if (found <= 1.0).any():
        raise _validate.out_of_domain("orders", "> 1", 1.0)
    return found


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


def checked(name: str, value: Any, accepted: str, holds: Condition) -> Array:
    """Return floats whose elements satisfy a condition; the message quotes the first that does not."""
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


def divergences(name: str, curve: Callable[[Array], Any], orders: Array) -> Array:
    """Return what a Rényi curve returns for some orders, if these are divergences."""
    values = np.asarray(curve(orders), dtype=np.float64)
    if values.shape != orders.shape or not (values >= 0.0).all():
        raise InvalidParameter(f"{name} must return one divergence >= 0 for each order")
    return values


def shaped(values: Array, shape: tuple[int, ...]) -> Any:
    """Return the values in that shape; a number for numbers."""
    return values.reshape(shape) if shape else float(values[0])
