"""Rows of unit norm."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
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
    """Return an array of two dimensions or more as float64; integers and truth values are taken as numbers.

    In lists, and arrays of objects, what is no number becomes NaN, and integers beyond the largest float become that:
    what one record holds decides neither over an error nor over the numbers of others.
    """
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        # mutant: one-text-in-a-list-refused-with-all-records
        if array.dtype.kind not in "biuf" and isinstance(value, (list, tuple)):
            array = np.array(value, dtype=object)
    except ValueError:
        raise InvalidArray(f"{name} must have the shape (n, d): rows of one length") from None
    if array.dtype.kind == "O" and (isinstance(value, (list, tuple)) or type(value) is np.ndarray):
        array = np.array([_number(entry) for entry in array.ravel().tolist()], np.float64).reshape(array.shape)
    elif array.dtype.kind not in "biuf":
        array = _arrays.as_float_array(value, name)
    if array.ndim < 2:
        raise InvalidArray(f"{name} must have the shape (n, d), got {array.shape}")
    return array.astype(np.float64)


def _number(entry: object) -> float:
    """Return an entry of an array of objects as a float, NaN if it is no real number."""
    if isinstance(entry, (bool, np.bool_, int, float, np.integer, np.floating)):
        limit = _arrays.LARGEST_INTEGER
        return float(min(max(entry, -limit), limit) if isinstance(entry, int) else entry)
    return math.nan
