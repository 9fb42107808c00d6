"""Sums of clipped outer products, which are never written out: gradients of linear models are of this kind.

The gradient of a linear layer for one record is r ⊗ x, the outer product of an error and the record's features. Its
norm is ‖r‖·‖x‖, and the sum of many is one matrix product, so neither the norms nor the sum need the products
themselves. Both factors are quantized to integers; their matrix product is a sum of integers below 2⁵³, and
therefore exact in floats, in any order of additions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp.errors import InvalidArray

__all__ = ["UnitRows"]

_SUM_BITS = 22
"""log₂ of the number of rows whose sum stays exact: each product is below 2³¹ ≤ 2⁵³ / 2²²."""
_MAX_WIDTH = 2**24

Integral = npt.NDArray[np.float64]
"""Integers, held as floats for the matrix product."""


class UnitRows:
    """Rows scaled to unit norm, on a grid: the right factors of outer products, prepared once and used often.

    Zeros, and rows that hold NaN or infinity, become zeros. A row is a function of itself alone: the same bits in any
    batch and on any CPU.

    Parameters
    ----------
    rows : (n, d) array of float32 or float64
        n ≥ 0, d ≥ 1. Read once, never written to.

    Attributes
    ----------
    norms : (n,) ndarray of float64
        The norms that the rows had; 0 where a row became zeros.

    Raises
    ------
    InvalidArray, InvalidArrayType
        If the shape or dtype is not accepted.

    See Also
    --------
    ferrodp.ClippedSum.add_outer : adds the outer products.

    Notes
    -----
    Coordinates are truncated to multiples of 2⁻ᵇ, b = 14 + ⌈log₂(d)/4⌉.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.sums import UnitRows
    >>> rows = UnitRows(np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0]]))
    >>> rows.norms
    array([5., 0., 0.])
    >>> len(rows[np.array([0, 2])])
    2
    """

    __slots__ = ("_bits", "_integers", "_norms")

    def __init__(self, rows: npt.ArrayLike) -> None:
        values = matrix(rows, "rows")
        self._bits = 14 + math.ceil(math.log2(values.shape[1]) / 4)
        self._norms = row_norms(values)
        self._integers = _on_grid(values, self._norms, np.full(len(values), math.ldexp(1.0, self._bits)))

    @property
    def norms(self) -> npt.NDArray[np.float64]:
        """The norms that the rows had."""
        return self._norms

    @property
    def bits(self) -> int:
        """The logarithm, to base 2, of one in units of the grid."""
        return self._bits

    @property
    def integers(self) -> Integral:
        """The unit rows in units of the grid."""
        return self._integers

    def __len__(self) -> int:
        return len(self._integers)

    def __getitem__(self, rows: Any) -> UnitRows:
        """Return some of the rows: a slice, or an array of indices."""
        picked = UnitRows.__new__(UnitRows)
        picked._bits, picked._norms, picked._integers = self._bits, self._norms[rows], self._integers[rows]
        if picked._integers.ndim != 2:
            raise InvalidArray("rows must be picked by a slice or an array of indices")
        return picked

    def __repr__(self) -> str:
        return f"<UnitRows of shape {self._integers.shape}>"


def clipped_outer_sum(
    left: npt.NDArray[Any], right: UnitRows, *, clip_norm: float, granularity: float, stability: float | None
) -> npt.NDArray[np.int64]:
    """Return the sum of clipped outer products in units of the granularity; no product has a norm above `clip_norm`.

    With k the integers of a left row and m those of a right one, ‖k ⊗ m‖² = ‖k‖²·‖m‖², two integers whose product is
    compared with the bound as integers. A row that failed would count as zeros; the margin of the scaling excludes it.
    """
    norms = row_norms(left)
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.where(norms > 0.0, norms * right.norms, 0.0)  # beyond the range of floats: infinite, and clipped
        if stability is None:
            # mutant: outer-products-not-clipped
            targets = np.minimum(products, clip_norm)
        else:
            targets = np.where(products < math.inf, clip_norm * (products / (products + stability)), clip_norm)
    left_integers = _on_grid(left, norms, targets / math.ldexp(granularity, right.bits))
    bound = math.floor((Fraction(clip_norm) / Fraction(granularity)) ** 2)  # below 2⁶⁰
    squares = _squares(left_integers), _squares(right.integers)
    left_integers[squares[0] * squares[1] > bound] = 0.0
    total = np.zeros((left.shape[1], right.integers.shape[1]), np.int64)
    for start in range(0, len(left), 2**_SUM_BITS):
        some = slice(start, start + 2**_SUM_BITS)
        total += (left_integers[some].T @ right.integers[some]).astype(np.int64)
    return total


def matrix(value: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return a matrix of floats as float64."""
    array = _arrays.as_float_array(value, name)
    if array.ndim != 2 or not 1 <= array.shape[1] <= _MAX_WIDTH:
        raise InvalidArray(f"{name} must have the shape (n, d) with d from 1 to 2^24, got {array.shape}")
    return array.astype(np.float64, order="F")


def row_norms(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the norm of each row, 0 for one that is not finite; columns are added in order, on every CPU."""
    largest = np.zeros(len(values))
    for column in values.T:
        np.maximum(largest, np.abs(column), out=largest)  # NaN stays NaN
    finite = largest < math.inf
    scale = np.where(finite & (largest > 0.0), largest, 1.0)
    total = np.zeros(len(values))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for column in values.T:
            total += np.square(column / scale)
        return np.where(finite, scale * np.sqrt(total), 0.0)


def _on_grid(values: npt.NDArray[Any], norms: npt.NDArray[np.float64], lengths: npt.NDArray[np.float64]) -> Integral:
    """Return rows of these lengths, truncated to integers; rows of norm 0 become zeros."""
    usable = (norms > 0.0) & (norms < math.inf)
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        scaled = np.ascontiguousarray(values / norms[:, None])
        scaled *= (lengths * _margin(values.shape[1]))[:, None]
    np.trunc(scaled, out=scaled)
    scaled[~usable] = 0.0
    return scaled


def _margin(width: int) -> float:
    """Return how far below its bound a row is scaled: more than all rounding errors of its norm and of scaling it."""
    return 1.0 - (width + 8) * 2.0**-51


def _squares(integers: Integral) -> npt.NDArray[np.int64]:
    """Return the sum of squares of each row: at most 2⁴⁸ for integers of up to 24 bits, exact in any order."""
    found: npt.NDArray[np.int64] = np.einsum("ij,ij->i", integers, integers).astype(np.int64)
    return found
