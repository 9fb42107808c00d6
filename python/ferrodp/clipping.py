"""Clipping: vectors and rows of bounded norm, and their sums.

The bounds hold in exact arithmetic, not up to rounding, because the sensitivity of what follows depends on them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _trees, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray
from ferrodp.sums import ClippedSum, GridSum
from ferrodp.sums.layout import Layout

__all__ = ["ClippedSum", "GridSum", "clip_and_sum", "clip_by_global_norm", "clip_rows"]

Order = Literal[1, 2]
"""Besides infinity, which is a float."""
Tree = TypeVar("Tree")
Floating = TypeVar("Floating", np.float32, np.float64)


@_arrays.quiet
def clip_by_global_norm(tree: Tree, *, clip_norm: Real) -> tuple[Tree, float]:
    r"""Scale arrays together, as one vector, to an L2 norm of at most `clip_norm`.

    The norm of the result, over all its elements and in exact arithmetic, is at most `clip_norm`. This holds for one
    vector; for sums of such vectors `ClippedSum` keeps the sensitivity exact, which floating-point sums do not.

    Parameters
    ----------
    tree : array, list, tuple or mapping
        Arrays, arbitrarily nested, all float32 or all float64, in any memory layout. Never written to.
    clip_norm : float
        The bound, in the units of the arrays; finite, > 0. From 2⁻¹²⁰ to 2¹²⁸ for float32, 2⁻⁵⁰⁰ to 2⁵⁰⁰ for float64.
        Rounded down if not exactly representable.

    Returns
    -------
    clipped : array, list, tuple or mapping
        New arrays, in containers of the types they came in.
    norm : float
        Of the whole tree before clipping: with a relative error below (150 + leaves + elements/1024)·2⁻⁵³, plus an
        absolute one of at most 2⁻¹⁰⁷⁴. *Not private.*

    Raises
    ------
    InvalidArray, InvalidArrayType
        For an empty tree, leaves of other types or of two dtypes, or one array in two places, naming the leaf.
    InvalidParameter, InvalidType
        For a clip norm out of its domain.

    Notes
    -----
    ======================  ==========================================================
    norm ≤ clip_norm        elements unchanged, same bits; decided exactly
    norm > clip_norm        scaled; float32 elements are rounded toward zero
    NaN or infinity         all elements become zero, and the norm is NaN
    norm beyond float64     scaled all the same, and the norm is infinite
    ======================  ==========================================================

    Cost: every element is read once.

    Examples
    --------
    >>> import numpy as np
    >>> clipped, norm = clip_by_global_norm({"w": np.array([3.0]), "b": np.array([4.0])}, clip_norm=10)
    >>> norm, clipped["w"]
    (5.0, array([3.]))
    """
    bound = _validate.positive("clip_norm", clip_norm, toward="down")
    arrays, structure = _trees.float_leaves(tree, "tree")
    _native.check_clip_norm(bound, arrays[0].dtype.name)
    _validate.fits_in_memory("tree", sum(array.nbytes for array in arrays))
    out = [np.empty(array.shape, array.dtype) for array in arrays]
    norm = _native.clip_leaves(arrays, bound, out)
    return _trees.put_together(structure, out), norm


@overload
def clip_rows(
    matrix: npt.NDArray[Floating], *, clip_norm: Real, ord: Order | float = ..., threads: int | None = ...
) -> tuple[npt.NDArray[Floating], npt.NDArray[np.float64]]: ...
@overload
def clip_rows(
    matrix: npt.ArrayLike, *, clip_norm: Real, ord: Order | float = ..., threads: int | None = ...
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.float64]]: ...
@_arrays.quiet
def clip_rows(
    matrix: npt.ArrayLike, *, clip_norm: Real, ord: Order | float = 2, threads: int | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    r"""Clip every row of a matrix to a norm of at most `clip_norm`.

    Each row of the result has a norm of at most `clip_norm` in exact arithmetic.

    Parameters
    ----------
    matrix : (n, d) ndarray of float32 or float64
        Any memory layout. Never written to.
    clip_norm : float
        As for `clip_by_global_norm`.
    ord : {1, 2, inf}
        Which norm: :math:`\sum|x_i|`, :math:`\sqrt{\sum x_i^2}` or :math:`\max|x_i|`. Rows beyond a bound on the first
        two are scaled; for the last, elements are clamped, which is the nearest row within the bound.
    threads : int, optional
        By default the library's choice; the result does not depend on it.

    Returns
    -------
    clipped : (n, d) ndarray
        A new array of the same dtype.
    norms : (n,) float64 ndarray
        Of the rows before clipping: of relative error below (150 + d/1024)·2⁻⁵³, and off by another 2⁻¹⁰⁷⁴ at
        most. *Not private.*

    Raises
    ------
    InvalidArray, InvalidArrayType
        If the matrix is not accepted.
    InvalidParameter, InvalidType
        If another argument is out of its domain.

    Notes
    -----
    ======================  ==========================================================
    norm ≤ clip_norm        row unchanged, same bits; decided exactly
    norm > clip_norm        row scaled; float32 elements are rounded toward zero
    NaN or infinity         row becomes zeros, and its norm is NaN: raising would tell
    norm beyond float64     row scaled all the same, and its norm is infinite
    ======================  ==========================================================

    Examples
    --------
    >>> import numpy as np
    >>> clipped, norms = clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), clip_norm=1.0)
    >>> norms
    array([5. , 0.5])
    """
    bound = _validate.positive("clip_norm", clip_norm, toward="down")
    order = _order(ord)
    threads = _validate.threads(threads)
    rows = _two_dimensional(_arrays.as_floats(matrix, "matrix"))
    dtype = _arrays.native(rows.dtype)
    _native.check_clip_norm(bound, dtype.name)
    _validate.fits_in_memory("matrix", rows.nbytes + 8 * len(rows))
    out = np.empty(rows.shape, dtype)
    given = rows if _arrays.is_plain(rows) else None
    if given is None:
        np.copyto(out, rows)  # clipped there, so no other copy is made
    norms = _native.clip_rows(given, len(rows), bound, order, out, threads)
    return out, norms


@overload
def clip_and_sum(
    matrix: npt.NDArray[Floating], *, clip_norm: Real, stability: Real | None = ..., threads: int | None = ...
) -> GridSum[npt.NDArray[Floating]]: ...
@overload
def clip_and_sum(
    matrix: npt.ArrayLike, *, clip_norm: Real, stability: Real | None = ..., threads: int | None = ...
) -> GridSum[npt.NDArray[np.floating[Any]]]: ...
@_arrays.quiet
def clip_and_sum(
    matrix: npt.ArrayLike, *, clip_norm: Real, stability: Real | None = None, threads: int | None = None
) -> GridSum[Any]:
    """Clip every row of a matrix to an L2 norm of at most `clip_norm` and sum the rows, in one pass over memory.

    The sum is a sum of integers: its sensitivity to adding or removing one row is exactly `clip_norm`. Release it with
    `GridSum.release`.

    Parameters
    ----------
    matrix : (n, d) ndarray of float32, float64, float16 or bfloat16
        One row for each unit of privacy. Read in place, in any memory layout, and never written to. Numbers of 16
        bits count as the numbers of float32 that they are.
    clip_norm : float
        As for `clip_by_global_norm`.
    stability : float, optional
        Normalize all rows instead, with this constant: as for `ClippedSum`.
    threads : int, optional
        By default the library's choice; the result does not depend on it.

    Returns
    -------
    GridSum
        The sum of shape (d,), without noise and so not private until it is released: in float32 for rows of 16 bits.

    Raises
    ------
    InvalidArray, InvalidArrayType
        If the matrix is not accepted, or another thread changed it during the call and a row's norm is not certain.
    InvalidParameter, InvalidType
        If another argument is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> total = clip_and_sum(np.eye(3, dtype=np.float32), clip_norm=1.0)
    >>> total.to_float()
    array([1., 1., 1.])
    >>> noised = total.release(noise_multiplier=2.0)
    >>> total.event
    GaussianEvent(noise_multiplier=2.0)
    """
    bound = _validate.positive("clip_norm", clip_norm, toward="down")
    gamma = None if stability is None else _validate.positive("stability", stability, toward="up")
    threads = _validate.threads(threads)
    rows = _two_dimensional(_arrays.as_rows(matrix, "matrix"))
    count, width = rows.shape
    dtype = _arrays.sum_dtype(rows.dtype)
    _native.check_clip_norm(bound, dtype.name, gamma)
    _validate.fits_in_memory("matrix", 8 * width)
    native = _native.GridSum(width, bound, dtype.name, gamma)
    _arrays.add_rows(native, [rows], count, threads)
    return GridSum(native, Layout((width,), dtype), bound, gamma)


def _two_dimensional(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if rows.ndim != 2:
        raise InvalidArray(
            f"matrix must have 2 dimensions, rows and columns, got {rows.ndim}; one row is matrix[None, :]"
        )
    return rows


def _order(value: object) -> str:
    if isinstance(value, (int, float, np.integer)) and not isinstance(value, bool) and value in (1, 2, np.inf):
        return "inf" if value == np.inf else str(int(value))
    raise _validate.out_of_domain("ord", "1, 2 or inf", value, write="2")
