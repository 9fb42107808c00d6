"""Rows of unit norm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays
from ferrodp.errors import InvalidArray
from ferrodp.sums.outer import row_norms

Floats = npt.NDArray[np.float64]


def unit(rows: Floats) -> Floats:
    """Return rows divided by their norms; zeros stay zeros, and rows that are not finite become zeros."""
    largest = np.max(np.abs(rows), axis=1, initial=0.0, keepdims=True)
    usable = (largest > 0.0) & (largest < np.inf)
    with np.errstate(invalid="ignore", under="ignore"):
        found = rows / np.where(usable, largest, 1.0)
        norms = row_norms(found)[:, None]
        found /= np.where(usable, norms, 1.0)
    found[~usable[:, 0]] = 0.0
    return found


@_arrays.quiet
def numbers(value: npt.ArrayLike, name: str) -> Floats:
    """Return an array of two dimensions or more as float64; integers and truth values are taken as numbers."""
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.kind not in "biuf":
        array = _arrays.as_float_array(value, name)
    if array.ndim < 2:
        raise InvalidArray(f"{name} must have the shape (n, d), got {array.shape}")
    return array.astype(np.float64)
